"""What a statement reads and writes stays inside of its buffers, whether or not anybody sees what it computes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import agree, parsed

HEAD = """
@T.prim_func
def main(idx: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32"), A: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        {}
"""


def test_an_assertion_holds_in_a_loop_that_leaves_nothing_behind():
    body = "t[idx[i]] = t[0] * B[i] + B[i]\n        assert t[0] >= T.float32(0), 'negative'"
    program = ti.lift(ti.tir.parse(HEAD.format(body))["main"], on_hazard="ignore")
    indices, ones = np.zeros(8, np.int32), np.ones(8, np.float32)
    program(indices, ones, ones)
    with pytest.raises(DiagnosticError, match="negative"):
        program(indices, -2 * ones, ones)


def test_a_result_that_is_seen_needs_no_check_of_its_own():
    rows = ti.tir.parse("""
@T.prim_func
def main(ptr: T.Buffer((5,), "int32"), at: T.Buffer((9,), "int32"), x: T.Buffer((7,), "float32"),
         y: T.Buffer((4,), "float32")):
    t = T.alloc_buffer((9,), "float32")
    for j in range(9):
        t[j] = x[at[j]]
    for i in range(4):
        y[i] = T.float32(0)
        for j in range(9):
            y[i] = y[i] + t[j] * x[at[8 - j]]
""")["main"]
    program = ti.lift(rows)
    checked = program.at(program.static).built(True)
    assert checked.unchecked and "assert_" not in str(checked.fencil)


# What the text stores to is given back, whether or not any iteration stores to it.


A = np.array([1, 2, 5, 9, 1], np.int32)


def test_a_size_at_which_no_iteration_stores_changes_no_result_but_its_own():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n - 3):
        B[i + 3] = A[i]
    for i in range(n):
        C[i] = A[i]
"""
    for n in (2, 3, 5):
        agree(parsed(text), A[:n], np.arange(n, dtype=np.int32), np.zeros(n, np.int32))


# Iterators of blocks that leave their domains: told by the lift where the checked interpreter tells of them.


TEXT = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32, P: T.Buffer((16,), "int32")):
    for i in {loop}:
        with T.sblock("b"):
            vi = T.axis.spatial({domain}, {value})
            T.where({where})
            B[vi] = A[vi]
"""
OUTSIDE = {
    "above": ("range(9)", "8", "i", "i < 9", "i = 8", "0 to 7"),
    "below": ("range(5)", "(2, 6)", "i + 1", "i < 9", "i = 0", "2 to 5"),
    "by a quotient": ("range(8)", "3", "i // 2", "i < 9", "i = 6", "0 to 2"),
    "threads": ('T.thread_binding(9, thread="threadIdx.x")', "8", "i", "i < 9", "threadIdx_x = 8", "0 to 7"),
    "lanes": ("T.vectorized(9)", "8", "i", "i < 9", "i = 8", "0 to 7"),
    "a guard that leaves one": ("range(12)", "8", "i", "i % 3 < 1", "i = 9", "0 to 7"),
}
INSIDE = {
    "by its range": ("range(8)", "8", "i", "i < 8"),
    "by its guard": ("range(12)", "8", "i", "i < 8"),
    "by a guard of another form": ("range(12)", "8", "i", "i * 2 < 15"),
    "by a remainder that only sets know": ("range(12)", "8", "i - 2", "i % 11 >= 2 and i % 10 >= 2"),
    "by an end that a loop's argument tells": ("range(n)", "n", "i", "i < n"),
    "by data": ("range(9)", "9", "P[i]", "i < 9"),
}


def _arguments():
    return np.arange(16, dtype=np.float32), np.zeros(16, np.float32), 6, np.arange(16, dtype=np.int32)[::-1] // 2


@pytest.mark.parametrize("loop, domain, value, where, at, ends", OUTSIDE.values(), ids=OUTSIDE)
def test_an_iterator_that_leaves_its_domain_is_told_with_the_iteration(
    loop: str, domain: str, value: str, where: str, at: str, ends: str
):
    func = ti.tir.parse(TEXT.format(loop=loop, domain=domain, value=value, where=where))["main"]
    with pytest.raises(DiagnosticError, match="TR13"):
        ti.tir.interpret(func, *_arguments(), checked=True)
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(func)
    (told,) = caught.value.diagnostics
    assert (told.code, told.message) == ("TL15", f"the iterator 'vi' leaves its domain, {ends}.")
    assert f"in the iteration {at}." in str(caught.value)


@pytest.mark.parametrize("loop, domain, value, where", INSIDE.values(), ids=INSIDE)
def test_an_iterator_in_its_domain_leaves_nothing_to_be_told(loop: str, domain: str, value: str, where: str):
    func = ti.tir.parse(TEXT.format(loop=loop, domain=domain, value=value, where=where))["main"]
    wanted = ti.tir.interpret(func, *_arguments(), checked=True)[1]
    lifted = ti.lift(func)
    np.testing.assert_array_equal(lifted(*_arguments())[0], wanted)
    assert "assert" not in str(lifted)


def test_an_iterator_that_leaves_its_domain_runs_where_hazards_are_no_errors():
    func = ti.tir.parse(TEXT.format(loop="range(9)", domain="8", value="i", where="i < 9"))["main"]
    program = ti.lift(func, on_hazard="sequential")
    np.testing.assert_array_equal(program(*_arguments())[0][:9], np.arange(9))
    assert "leaves its domain" in str(program.report)
