"""Loops whose bounds depend on data: as many turns as their accesses leave them, or a while."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import figures

ROWS = """
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), x: T.Buffer((9,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(ptr[i], ptr[i + 1]):
            y[i] = y[i] + x[j] * x[j]
"""
PTR = np.array([0, 2, 2, 8, 9], np.int32)


def lowered(text: str) -> str:
    return ti.compile(ti.lift(ti.tir.parse(text)["main"]).fencil).stablehlo()


def test_rows_of_a_sparse_matrix_are_laid_side_by_side():
    program = ti.lift(ti.tir.parse(ROWS)["main"])
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(program(PTR, x, None)[0], [1, 0, 139, 64])
    assert "stablehlo.while" not in lowered(ROWS)
    slope = jax.grad(lambda x: program(jnp.asarray(PTR), x, jnp.zeros(4, "float32"))[0].sum())(jnp.asarray(x))
    np.testing.assert_array_equal(slope, 2 * x)


def test_more_turns_than_elements_are_an_index_that_leaves_them():
    function = ti.tir.parse("""
@T.prim_func
def main(n: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.float32(-1)
    for i in range(0, n, 2):
        B[i] = A[i]
""")["main"]
    program = ti.lift(function)
    a = np.arange(8, dtype=np.float32)
    for n in (-3, 0, 3, 8):
        np.testing.assert_array_equal(program(n, a, None)[0], ti.tir.interpret(function, n, a, a)[2])
    with pytest.raises(DiagnosticError, match="an index leaves the 8 elements of A"):
        program(9, a, None)


@pytest.mark.parametrize(
    "body",
    [
        "if A[i % 8] > T.float32(5):\n            break\n        B[i % 8] = A[i]",
        "if i % 8 != 1:\n            continue\n        B[i % 8] = A[i % 40 % 8]",
        "if i < 8:\n            B[i] = A[i]",
        "B[i % 8] = T.if_then_else(i < 8, A[T.min(i, 7)], T.float32(2))",
        "if i % 3 == 0:\n            P[0] = (P[0] + 5) % 8\n        B[(P[0] - i % 3) % 8] = A[P[0]]",
        "B[P[0]] = A[P[0]]\n        P[0] = (P[0] + 3) % 8",
        "B[P[0] + i - i] = T.Cast('float32', i)",
        "for k in range(i % 2):\n            B[i] = A[i]",
    ],
    ids=["break", "continue", "if", "choice", "moving", "moved", "one place", "no turn"],
)
def test_accesses_that_some_turns_leave_out_or_repeat_bound_nothing(body: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(n: T.int32, P: T.Buffer((1,), "int32"), A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(n):
        {body}
""")["main"]
    program = ti.lift(function)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for n in (0, 3, 8 if "(i % 2)" in body else 40):
        arrays: list[Any] = [n, np.array([1], np.int32), np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
        wanted = ti.tir.interpret(function, *arrays)
        for k, got in zip(written, program(*arrays), strict=True):
            np.testing.assert_array_equal(got, wanted[k])


def test_bounds_that_the_loop_itself_moves_hold_as_they_were_when_it_began():
    function = ti.tir.parse("""
@T.prim_func
def main(N: T.Buffer((2,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(N[0], N[1]):
        N[0] = N[0] + 1
        N[1] = 0
        B[i] = N[0] * i
""")["main"]
    arrays = np.array([2, 7], np.int32), np.full(9, -1, np.int32)
    wanted = ti.tir.interpret(function, *arrays)
    for got, want in zip(ti.lift(function)(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_threads_that_share_memory_take_as_many_turns_as_data_tell():
    function = ti.tir.parse("""
@T.prim_func
def main(N: T.Buffer((4,), "int32"), A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        s = T.alloc_buffer((4,), "float32", scope="shared")
        s[t] = T.float32(0)
        for j in range(N[t]):
            s[t] = s[t] + A[t, j]
        T.tvm_storage_sync("shared")
        B[t] = s[3 - t]
""")["main"]
    arrays = np.array([6, 0, 3, 1], np.int32), np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros(4, np.float32)
    np.testing.assert_array_equal(ti.lift(function)(*arrays)[0], ti.tir.interpret(function, *arrays)[2])


def test_turns_that_may_do_nothing_inside_are_bounded_all_the_same():
    text = """
@T.prim_func
def main(n: T.int32, m: T.int32, A: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 6), "float32")):
    for i in range(n):
        for j in range(m):
            B[i, j] = A[j, i]
"""
    assert "stablehlo.while" not in lowered(text)
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    a, b = np.arange(24, dtype=np.float32).reshape(6, 4), np.zeros((4, 6), np.float32)
    for n, m in ((4, 6), (2, 3), (900, 0), (-1, 5)):
        np.testing.assert_array_equal(program(n, m, a, b)[0], ti.tir.interpret(function, n, m, a, b)[3])
    for n, m in ((5, 1), (900, 2), (1, 7)):
        with pytest.raises(DiagnosticError, match="an index leaves the"):
            program(n, m, a, b)


TILES = """
@T.prim_func
def main(n: T.int32, A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for io in range({}):
        for ii in range(4):
            if {}:
                {}
"""
TILED = {
    "rounded up": ("(n + 3) // 4", "io * 4 + ii < n", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "the other way round": ("(3 + n) // 4", "T.likely(n > ii + 4 * io)", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "rounded down": ("n // 4", "io * 4 + ii < n", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "a sum": ("(n + 3) // 4", "io * 4 + ii < n", "B[0] = B[0] + A[io * 4 + ii]", True),
    "turns that do nothing": ("(n + 7) // 4", "io * 4 + ii < n", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "a later start": ("(n + 3) // 4", "io * 4 + ii + 1 < n", "B[io * 4 + ii + 1] = A[io * 4 + ii]", True),
    # tiles that overlap are a scan of their last elements
    "another step": ("(n + 3) // 4", "io * 3 + ii < n", "B[io * 3 + ii] = A[io * 3 + ii]", False),
    "another bound": ("(n + 3) // 4", "io * 4 + ii < 9 - n", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "any number": ("n", "io * 4 + ii <= 9 and ii < 3", "B[io * 4 + ii] = A[io * 4 + ii]", True),
    "one of some": ("(n + 3) // 4", "ii == 0", "B[io * 2 + ii] = A[io * 3 + ii]", True),
    "turns behind": ("(n + 3) // 4", "io * 4 + ii >= n - 5", "B[io * 4 + ii] = A[io * 4 + ii]", False),
    "turns far behind": ("n", "n - 20 <= io * 4 + ii", "B[io - 20 + ii] = A[io - 20 + ii]", False),
    "turns that fall": ("(n + 3) // 4", "ii - io * 4 < n - 40", "B[io + ii - 7] = A[io + ii - 7]", False),
    "either": ("(n + 3) // 4", "io * 4 + ii < n or ii == 2", "B[io * 4 + ii - 2] = A[io * 4 + ii - 2]", False),
    "a bound inside": ("n", "io * 4 + ii < 3 * ii", "B[io * 4 + ii] = A[io * 4 + ii]", False),
    "something else": (
        "n",
        "io * 4 + ii < 3:\n                    B[io * 4] = A[io * 4]\n            if ii < 3",
        "B[0] = B[0] + A[1]",
        False,
    ),
    "what else": (
        "n",
        "io * 4 + ii < 6",
        "B[io * 4 + ii] = A[io * 4]\n            else:\n                B[0] = A[0]",
        False,
    ),
}


@pytest.mark.parametrize(("extent", "condition", "store", "bounded"), TILED.values(), ids=TILED)
def test_tiles_of_what_data_tell_are_as_many_as_begin_inside(extent: str, condition: str, store: str, bounded: bool):
    text = TILES.format(extent, condition, store)
    assert ("stablehlo.while" not in lowered(text)) == bounded
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    a, b = np.arange(1, 11, dtype=np.float32), np.zeros(10, np.float32)
    for n in (-3, 0, 1, 4, 7, 10, 11, 13, 15, 30):
        try:
            wanted = ti.tir.interpret(function, n, a, b, checked=True)[2]
        except DiagnosticError:
            with pytest.raises(DiagnosticError, match="an index leaves"):
                program(n, a, b)
        else:
            np.testing.assert_array_equal(program(n, a, b)[0], wanted)


def test_turns_that_data_tell_scatter_into_as_many_rows_as_there_are():
    """How many rounds k takes is only told when it runs: one more than there are rows would be an error."""
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((3, 3), "int32"), P: T.Buffer((1,), "int32")):
    for k in range(P[0]):
        for i in range(3):
            A[k, T.max(i - 1, 0)] = A[k, T.max(i - 1, 0)] * 2 + i
""")["main"]
    program, a = ti.lift(function), np.arange(9, dtype=np.int32).reshape(3, 3)
    for rounds in (0, 2, 3):
        given = a, np.array([rounds], np.int32)
        np.testing.assert_array_equal(program(*given)[0], ti.tir.interpret(function, *given)[0])
    with pytest.raises(DiagnosticError):
        program(a, np.array([4], np.int32))


KERNELS = {
    "elements": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32, m: T.int32):
    for b in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            if b * 4 + t < n:
                B[b * 4 + t] = A[b * 4 + t] * 2
""",
        "0 0 0 5",
    ),
    "vectors": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32, m: T.int32):
    for b in T.thread_binding((n + 15) // 16, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            for v in T.vectorized(4):
                if b * 16 + t * 4 + v < n:
                    B[b * 16 + t * 4 + v] = A[b * 16 + t * 4 + v] * 2
""",
        "0 0 0 5",
    ),
    "matrix": (
        """
def main(A: T.Buffer((7, 9), "int32"), B: T.Buffer((7, 9), "int32"), n: T.int32, m: T.int32):
    for by in T.thread_binding((n + 3) // 4, thread="blockIdx.y"):
        for bx in T.thread_binding((m + 3) // 4, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    if by * 4 + ty < n and bx * 4 + tx < m:
                        B[by * 4 + ty, bx * 4 + tx] = A[by * 4 + ty, bx * 4 + tx] + 1
""",
        "0 0 0 9",
    ),
    "blocks of their own number": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32, m: T.int32):
    for b in T.thread_binding(m, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            if b * 4 + t < n:
                B[b * 4 + t] = A[b * 4 + t] * 2
""",
        "0 0 0 18",
    ),
    "shared memory": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((10,), "int32"), n: T.int32, m: T.int32):
    for b in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            S = T.alloc_buffer((4,), "int32", scope="shared")
            S[t] = T.if_then_else(b * 4 + t < n, A[b * 4 + t], 0)
            T.evaluate(T.tvm_storage_sync("shared"))
            if t < 2:
                S[t] = S[t] + S[t + 2] * 3
            T.evaluate(T.tvm_storage_sync("shared"))
            if t == 0:
                B[b] = S[0] - S[1]
""",
        "0 0 2 42",
    ),
    "launched threads": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32, m: T.int32):
    with T.launch_thread("blockIdx.x", (n + 3) // 4) as b:
        t = T.launch_thread("threadIdx.x", 4)
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[t] = 3
        if b * 4 + t < n:
            S[t] = A[b * 4 + t]
        T.evaluate(T.tvm_storage_sync("shared"))
        if b * 4 + t < n:
            B[b * 4 + t] = S[3 - t]
""",
        "0 0 1 23",
    ),
    "what lies behind the blocks": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((40,), "int32"), n: T.int32, m: T.int32):
    S = T.alloc_buffer((40,), "int32")
    for i in range(37):
        if i < n:
            S[i] = A[i]
    for b in T.parallel((n + 3) // 4):
        for t in range(4):
            if S[b * 4] > -9 and b * 4 + t < n:
                B[b * 4 + t] = A[b * 4 + t] - 1
""",
        "0 0 1 25",
    ),
    "the rest of a tile": (
        """
def main(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32, m: T.int32):
    for b in T.parallel((n + 3) // 4):
        for t in range(T.min(4, n - b * 4)):
            B[b * 4 + t] = A[b * 4 + t] * 2
""",
        "0 0 0 21",
    ),
}


@pytest.mark.parametrize(("text", "shown"), KERNELS.values(), ids=KERNELS)
def test_blocks_whose_number_an_argument_tells_are_side_by_side(text: str, shown: str):
    text = "@T.prim_func" + text
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    assert "stablehlo.while" not in lowered(text)
    assert figures(program) == shown
    rng = np.random.default_rng(5)
    shapes = [p.type.dims.shape for p in program.fencil.params[:2]]
    a, b = (rng.integers(-9, 10, shape).astype(np.int32) for shape in shapes)
    for n, m in ((0, 3), (1, 1), (5, 9), (7, 4), (36, 9), (37, 11), (37, 10), (38, 7), (41, 2)):
        try:
            wanted = ti.tir.interpret(function, a, b, n, m, checked=True)[1]
        except DiagnosticError:
            with pytest.raises(DiagnosticError, match="an index leaves"):
                program(a, b, n, m)
        else:
            np.testing.assert_array_equal(program(a, b, n, m)[0], wanted, f"{n}, {m}")
