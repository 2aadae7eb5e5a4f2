"""Kernels whose threads share memory: trees of sums, prefix sums, transposes, threads that trade places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import parsed

KEPT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    s = T.alloc_buffer((8,), "float32", scope="{scope}")
    for bx in T.thread_binding({blocks}, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            {statement}
"""
AGAIN = """
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s[tx] = A[bx, tx]
            B[bx, tx] = s[tx] * T.float32(2)
"""


@pytest.mark.parametrize("again", ["", AGAIN], ids=["alone", "and another kernel"])
@pytest.mark.parametrize(
    ("scope", "blocks", "statement"),
    [
        ("local", 4, "s[tx] = A[0, tx]"),
        ("shared", 4, "s[tx] = A[0, tx]"),
        ("local", 4, "s[tx] = A[bx, tx]"),
        (
            "local",
            1,
            "s[0] = T.float32(0)\n            while s[0] < T.float32(3):\n                s[0] = s[0] + A[0, tx]",
        ),
    ],
)
def test_a_kernel_may_keep_all_to_its_threads(scope: str, blocks: int, statement: str, again: str):
    text = KEPT.format(scope=scope, blocks=blocks, statement=statement) + again.lstrip("\n")
    a = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    results = ti.lift(ti.tir.parse(text)["main"])(a, np.zeros_like(a))
    assert len(results) == bool(again)
    for result in results:
        np.testing.assert_array_equal(result, 2 * a)


# Threads that hand on values, and vectors of which some lanes take part: the lift has the interpreter's numbers.


HEAD = '@T.prim_func\ndef main(A: T.Buffer(({0},), "int32"), B: T.Buffer(({0},), "int32")):\n'


def test_what_a_masked_store_only_reads_is_no_result():
    text = HEAD.format(8) + "    T.masked_store(B, A[T.Ramp(0, 1, 4)], T.Ramp(0, 1, 4), T.Broadcast(True, 4))\n"
    assert len(ti.lift(ti.tir.parse(text)["main"])(np.arange(8, dtype=np.int32), np.zeros(8, np.int32))) == 1


def test_a_region_where_a_value_is_needed_is_refused_by_both():
    func = parsed(HEAD.format(8), "T.masked_store(B, A[0:4], T.Ramp(3, 1, 4), T.Broadcast(True, 4))")
    a = np.zeros(8, np.int32)
    for run, code in ((lambda: ti.lift(func), "TL01"), (lambda: ti.tir.interpret(func, a, a), "TR20")):
        with pytest.raises(DiagnosticError) as caught:
            run()
        assert str(caught.value) == (
            f"<tir>:3:23: error[{code}]: a buffer, or a region of one, stands where a value is needed.\n"
            "      T.masked_store(B, A[0:4], T.Ramp(3, 1, 4), T.Broadcast(True, 4))\n"
            "                        ^^^^^^\n"
            "help: read elements: A[T.Ramp(0, 1, 4)]."
        )


# Threads that share memory and take turns of their own number, in lockstep; kernels that threads leave.


ATTENTION = """
@T.prim_func
def main(Q: T.Buffer((3, 8), "float64"), K: T.Buffer((24, 8), "float64"), V: T.Buffer((24, 8), "float64"),
         P: T.Buffer((4,), "int32"), O: T.Buffer((3, 8), "float64")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("k"):
                    Ks = T.sblock_alloc_buffer((4, 8), "float64", scope="shared")
                    Ss = T.sblock_alloc_buffer((4,), "float64", scope="shared")
                    m = T.sblock_alloc_buffer((2,), "float64", scope="local")
                    d = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    o = T.sblock_alloc_buffer((1,), "float64", scope="local")
                    m[0] = -50000.0
                    d[0] = 0.0
                    o[0] = 0.0
                    for tile in range((P[bx + 1] - P[bx] + 3) // 4):
                        T.tvm_storage_sync("shared")
                        if tile * 4 + ty < P[bx + 1] - P[bx]:
                            Ks[ty, tx] = K[P[bx] + tile * 4 + ty, tx]
                        else:
                            Ks[ty, tx] = 0.0
                        T.tvm_storage_sync("shared")
                        if tx == 0:
                            Ss[ty] = -50000.0
                            if tile * 4 + ty < P[bx + 1] - P[bx]:
                                Ss[ty] = 0.0
                                for k in range(8):
                                    Ss[ty] = Ss[ty] + Q[bx, k] * Ks[ty, k]
                        T.tvm_storage_sync("shared")
                        m[1] = m[0]
                        for j in range(4):
                            m[0] = T.max(m[0], Ss[j])
                        d[0] = d[0] * T.exp(m[1] - m[0])
                        o[0] = o[0] * T.exp(m[1] - m[0])
                        for j in range(4):
                            if tile * 4 + j < P[bx + 1] - P[bx]:
                                d[0] = d[0] + T.exp(Ss[j] - m[0])
                                o[0] = o[0] + T.exp(Ss[j] - m[0]) * V[P[bx] + tile * 4 + j, tx]
                    if ty == 0:
                        O[bx, tx] = o[0] / d[0]
"""


def test_attention_over_sequences_of_their_own_length_is_that_of_numpy_and_has_gradients():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(3, 8)), rng.normal(size=(24, 8)), rng.normal(size=(24, 8))
    ends = np.array([0, 5, 15, 24], np.int32)
    program = ti.lift(ti.tir.parse(ATTENTION)["main"])

    def by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        rows = []
        for b in range(3):
            part = slice(int(ends[b]), int(ends[b + 1]))
            rows.append(jax.nn.softmax(q[b] @ k[part].T) @ v[part])
        return jnp.stack(rows)

    with jax.enable_x64(True):
        np.testing.assert_allclose(program(q, k, v, ends, np.zeros((3, 8)))[0], by_hand(q, k, v), rtol=1e-12)
        tangents = tuple(rng.normal(size=a.shape) for a in (q, k, v))
        ours = jax.jvp(lambda *a: program(*a, ends, jnp.zeros((3, 8)))[0], (q, k, v), tangents)[1]
        wanted = jax.jvp(by_hand, (q, k, v), tangents)[1]
        np.testing.assert_allclose(ours, wanted, rtol=1e-11)


# The old values of atomic updates: threads take their turns in ascending order, and each keeps what it found.


UPDATES = """@T.prim_func
def main(
    A: T.Buffer((4, 4), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")
):
"""
THREADS = (
    'for b in T.thread_binding(4, thread="blockIdx.x"):\n    for t in T.thread_binding(4, thread="threadIdx.x"):\n'
)
ADD = "T.atomic_add(T.address_of(C[{}]), {})"
PLACES = THREADS + f"        if A[b, t] > 2:\n            p: T.int32 = {ADD.format(0, 1)}\n            B[p] = A[b, t]\n"


def test_blocks_take_their_turns_one_after_the_other():
    function = parsed(UPDATES, PLACES)
    a = np.arange(16, dtype=np.int32).reshape(4, 4)
    zeros = [np.zeros(8, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)]
    assert ti.tir.interpret(function, a, *zeros)[3].tolist()[:14] == [*range(3, 16), 0]


def test_the_order_of_updates_is_in_the_report():
    report = str(ti.lift(parsed(UPDATES, PLACES)).report)
    assert "note: line 8: T.atomic_add updates thread by thread, in ascending order." in report


# What threads share, and what they do not: races of threads that do the same, and storage of other kernels.


SHARING = '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):\n'


def arrays() -> tuple[Any, Any]:
    return np.arange(1, 5, dtype=np.int32), np.zeros(4, np.int32)


def said(run: Any) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        run()
    return [d.code for d in caught.value.diagnostics]


def test_threads_whose_condition_reads_what_they_write_are_a_race_that_data_tell():
    program = parsed(
        SHARING,
        """
for x in T.thread_binding(4, thread="threadIdx.x"):
    if C[0] < 5:
        C[0] = 7
""",
    )
    assert said(lambda: ti.tir.interpret(program, *arrays(), checked=True)) == ["TR03"]
    assert any("data tell whether iterations of the parallel loop" in note for note in ti.lift(program).report.notes)


OUTSIDE = """
S = T.alloc_buffer((4,), "int32", scope="{scope}")
{before}for b in T.thread_binding(2, thread="blockIdx.x"):
    for x in T.thread_binding(2, thread="threadIdx.x"):
        {inside}
        C[b * 2 + x] = S[3 - (b * 2 + x)]
{after}"""
FILL = "for i in range(4):\n    S[i] = A[i]\n"


@pytest.mark.parametrize("hazards", ["error", "sequential", "ignore"])
@pytest.mark.parametrize("scope", ["shared", "local", "warp"])
@pytest.mark.parametrize(
    "around", [(FILL, ""), ("", FILL), ("", "for i in range(4):\n    C[i] = S[i]\n")], ids=["before", "after", "read"]
)
def test_storage_of_a_kernel_is_used_in_it_alone(scope: str, around: tuple[str, str], hazards: str):
    program = parsed(SHARING, OUTSIDE.format(scope=scope, before=around[0], inside="S[0] = x", after=around[1]))
    assert said(lambda: ti.lift(program, on_hazard=hazards)) == ["TL17"]


@pytest.mark.parametrize("size", [65, 200])
def test_a_race_that_is_not_decided_has_a_note(size: int):
    text = f"""
@T.prim_func
def main(A: T.Buffer(({size},), "int32"), B: T.Buffer(({size},), "int32")):
    for i in T.parallel({size}):
        B[T.min(i, {size - 2})] = A[i]
"""
    notes = ti.lift(ti.tir.parse(text)["main"]).report.notes
    assert (
        "line 5: it is not decided whether iterations of the parallel loop over i meet in 'B'; "
        "they follow the order of the text."
    ) in notes
