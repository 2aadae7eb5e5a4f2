"""`if` of one truth value, lifted: what both branches fill is filled, and only the branch that is taken is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.costs import costs_of
from tests.lift.harness import figures

FILLED = """
@T.prim_func
def main(c: T.int32, A: T.Buffer((40, 30), "float32"), B: T.Buffer((30, 40), "float32"), C: T.Buffer((40, 40), "float32")):
    if c > 0:
        for i, j, k in T.grid(40, 40, 30):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    else:
        for i, j in T.grid(40, 40):
            C[i, j] = T.float32(c)
"""  # noqa: E501

TUPLE = """
@I.ir_module
class M:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((90, 90), "float32")) -> R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")):
        if c:
            y: R.Tensor((90, 90), "float32") = R.matmul(x, x)
            w: R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")) = (y, R.sum(y, axis=[1]))
        else:
            z: R.Tensor((90, 90), "float32") = R.sort(x, axis=-1)
            w: R.Tuple(R.Tensor((90, 90), "float32"), R.Tensor((90,), "float32")) = (z, R.max(z, axis=[1]))
        return w
"""  # noqa: E501

OUTSIDE = """
@I.ir_module
class M:
    @R.function
    def main(n: R.Tensor((), "int64"), i: R.Tensor((2,), "int64"), x: R.Tensor((5,), "float32")) -> R.Tensor((2,), "float32"):
        c: R.Tensor((), "bool") = R.less(n, R.const(3, "int64"))
        if c:
            y: R.Tensor((2,), "float32") = R.take(x, i, axis=0, mode="fast")
        else:
            y: R.Tensor((2,), "float32") = R.full((2,), R.const(0.5, "float32"), "float32")
        return y
"""  # noqa: E501


@pytest.mark.parametrize("c", [-3, 2])
def test_an_output_that_both_branches_fill_need_not_be_given(c):
    function = ti.tir.parse(FILLED)["main"]
    program = ti.lift(function)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 30)).astype(np.float32), rng.normal(size=(30, 40)).astype(np.float32)
    want = ti.tir.interpret(function, c, a, b, np.zeros((40, 40), np.float32))[3]
    np.testing.assert_allclose(program(c, a, b, None)[0], want, rtol=1e-4, atol=1e-5)
    assert figures(program) == "0 0 0 5"


@pytest.mark.parametrize("c", [True, False])
def test_what_an_if_of_relax_gives_is_computed_in_one_conditional(c):
    function = ti.tir.parse(TUPLE)["main"]
    program = ti.lift(function)
    x = np.random.default_rng(1).normal(size=(90, 90)).astype(np.float32)
    for got, want in zip(program(np.array(c), x), ti.tir.interpret(function, np.array(c), x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    text = str(ti.compile(program.fencil).pipeline().result)
    assert text.count("cond(") == len(program(np.array(c), x))  # results of the same two functions


def test_an_index_that_is_wrong_in_the_other_branch_is_no_error():
    program = ti.lift(ti.tir.parse(OUTSIDE)["main"])
    x, i = np.arange(5, dtype=np.float32), np.array([1, 7])
    np.testing.assert_array_equal(program(np.int64(4), i, x)[0], [0.5, 0.5])
    with pytest.raises(ti.DiagnosticError, match="an index leaves"):
        program(np.int64(2), i, x)


GUARDED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), I: T.Buffer((16,), "int32"), J: T.Buffer((16,), "int32"),
         B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = T.if_then_else(J[i] < 5, T.if_then_else(A[J[i]] > T.float32(0), A[I[i]], T.float32(2)), T.float32(1))
"""


def test_the_inner_of_two_conditions_is_checked_only_where_the_outer_holds():
    rng = np.random.default_rng(0)
    a = rng.normal(size=8).astype(np.float32)
    i, j = rng.integers(0, 8, 16).astype(np.int32), rng.integers(0, 20, 16).astype(np.int32)
    i[j >= 5] = 99
    wanted = np.where(j >= 5, 1, np.where(a[j % 8] > 0, a[i % 8], 2))
    np.testing.assert_array_equal(ti.lift(ti.tir.parse(GUARDED)["main"])(a, i, j, None)[0], wanted)


def nested(depth: int) -> str:
    """Choices whose conditions and branches all read what the choice before gave."""
    lines = [
        f"        v{k}: T.let[T.int32] = T.if_then_else(v{k - 1} > {k % 4}, A[v{k - 1}], A[7 - v{k - 1}])\n"
        for k in range(1, depth)
    ]
    return f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        v0: T.let[T.int32] = I[i]
{"".join(lines)}        B[i] = v{depth - 1}
"""


def test_programs_that_check_choices_in_choices_grow_with_their_number():
    programs = [program.at(program.static).built(True).fencil for program in map(nested_lift, (6, 12, 24))]
    sizes = [costs_of(p).operations for p in programs]
    assert sizes[2] - sizes[1] < 3 * (sizes[1] - sizes[0])
    a, i = np.arange(8, dtype=np.int32)[::-1].copy(), (np.arange(16, dtype=np.int32) * 3) % 8
    func = ti.tir.parse(nested(6))["main"]
    wanted = ti.tir.interpret(func, a, i, np.zeros(16, np.int32))[2]
    np.testing.assert_array_equal(ti.lift(func)(a, i, None)[0], wanted)


def nested_lift(depth: int):
    return ti.lift(ti.tir.parse(nested(depth))["main"])


IN_TURNS = """
@T.prim_func
def main(A: T.Buffer((9, 7), "float32"), B: T.Buffer((9, 7), "float32")):
    for t in range(5):
        if t % 2 == 0:
            for i, j in T.grid(7, 6):
                B[i + 1, j + 1] = T.float32(0.5) * (A[i, j + 1] + A[i + 2, j])
        else:
            for i, j in T.grid(7, 6):
                A[i + 1, j + 1] = T.float32(0.5) * (B[i, j + 1] - B[i + 2, j])
"""


def test_buffers_that_are_written_in_turns_are_at_most_one_loop():
    function = ti.tir.parse(IN_TURNS)["main"]
    program = ti.lift(function)
    given = [np.random.default_rng(k).normal(size=(9, 7)).astype(np.float32) for k in range(2)]
    for got, want in zip(program(*given), ti.tir.interpret(function, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    text = jax.jit(lambda *xs: program(*xs)).lower(*map(jnp.asarray, given)).compile().as_text()
    assert text is not None and text.count(" while(") <= 1
    taken = costs_of(program)
    assert taken.loops + taken.folds == 1


IN_A_RING = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    T_0 = T.alloc_buffer((8,), "float32")
    for i in range(8):
        T_0[i] = A[i]
    for i in range(8):
        A[i] = B[i] + C[i]
    for i in range(8):
        B[i] = C[i] * T_0[i]
    for i in range(8):
        C[i] = T_0[i] - B[i] / C[i]
"""


def test_buffers_that_need_what_each_other_held_before_wait_for_each_other():
    function = ti.tir.parse(IN_A_RING)["main"]
    program = ti.lift(function)
    given = [np.random.default_rng(k).uniform(1, 2, size=8).astype(np.float32) for k in range(3)]
    for got, want in zip(program(*given), ti.tir.interpret(function, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert [p.name for p in program.fencil.results] == ["A", "B", "C"]


def test_an_index_that_two_choices_read_is_checked_only_where_one_of_them_is_taken():
    # both the inner condition and what follows it read the neighbour, and neither does beyond the last one
    function = ti.tir.parse("""
@T.prim_func
def main(first: T.Buffer((4,), "int32"), next: T.Buffer((4,), "int32"), level: T.Buffer((3,), "int32")):
    for u in range(3):
        for e in range(4):
            if e < first[u + 1] - first[u]:
                if level[next[first[u] + e]] < 0:
                    level[next[first[u] + e]] = 1
""")["main"]
    arrays = [np.array(a, np.int32) for a in ([0, 2, 3, 4], [1, 2, 0, 0], [0, -1, -1])]
    (found,) = ti.lift(function)(*arrays)
    np.testing.assert_array_equal(found, ti.tir.interpret(function, *arrays)[2])
    arrays[0][2] = 5
    with pytest.raises(DiagnosticError, match="an index leaves 'next', which has 4 elements"):
        ti.lift(function)(*arrays)


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_an_index_that_a_guard_of_a_fold_keeps_inside_is_no_error(numerics: str):
    # with exact numerics a maximum is a fold by a function that keeps the element on its left where a NaN comes
    function = ti.tir.parse("""
@T.prim_func
def main(first: T.Buffer((3,), "int32"), X: T.Buffer((4,), "float32"), Y: T.Buffer((2,), "float32")):
    for i in range(2):
        Y[i] = T.float32(-9)
        for j in range(4):
            if first[i] + j < first[i + 1]:
                Y[i] = T.max(Y[i], X[first[i] + j])
""")["main"]
    program = ti.lift(function, numerics=numerics)
    x = np.array([5, 2, 3, 1], np.float32)
    np.testing.assert_array_equal(program(np.array([0, 3, 4], np.int32), x, None)[0], [5, 1])
    with pytest.raises(DiagnosticError, match="an index leaves 'X', which has 4 elements"):
        program(np.array([0, 3, 5], np.int32), x, None)


def test_an_index_is_checked_where_those_parts_of_a_condition_hold_that_the_state_of_a_fold_does_not_tell():
    function = ti.tir.parse("""
@T.prim_func
def main(X: T.Buffer((4,), "float32"), I: T.Buffer((4,), "int32"), V: T.Buffer((2,), "float32"),
         best: T.Buffer((1,), "float32"), tag: T.Buffer((1,), "float32")):
    best[0] = T.float32(-100)
    tag[0] = T.float32(0)
    for k in range(4):
        if X[k] > best[0] and I[k] >= 0:
            best[0] = X[k]
            tag[0] = V[I[k]]
""")["main"]
    arrays = np.array([1, 3, 2, 9], np.float32), np.array([1, 0, 1, -1], np.int32), np.array([5, 6], np.float32)
    best, tag = ti.lift(function)(*arrays, None, None)
    assert (best[0], tag[0]) == (3, 5)
