"""Iterations that meet: the lift tells of them where the checked interpreter does, whichever of two comes first."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.affine import Affine, number, variable
from tensorir.lifting.accesses.overlap import NOWHERE, Overlap, overlap
from tensorir.runtime.errors import DiagnosticError
from tests.lift.generated_races import race_arrays, race_program
from tests.lift.harness import parsed

CODES = {"TR01": "TL10", "TR02": "TL11", "TR03": "TL12"}
"""What the interpreter and the lift call the same."""


@pytest.mark.parametrize("seed", range(80))
def test_generated_loops_race_in_the_lift_where_they_do_in_the_interpreter(seed: int):
    text, given = race_program(seed), race_arrays(seed)
    func = ti.tir.parse(text)["main"]
    try:
        wanted = ti.tir.interpret(func, *given, checked=True)
    except DiagnosticError as error:
        told = {CODES[d.code] for d in error.diagnostics}
        with pytest.raises(DiagnosticError) as caught:
            ti.lift(func)
        assert told <= {d.code for d in caught.value.diagnostics}, text
        return
    lifted = ti.lift(func)
    written = [k for k, argument in enumerate(lifted.arguments) if argument.written]
    for place, got in zip(written, lifted(*given), strict=True):
        np.testing.assert_array_equal(got, wanted[place], text)


# Of races that only data know of the report says so, and that they follow the order of the text.


HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'
THREADS = """for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[t] = A[b]
        T.tvm_storage_sync("shared")
"""
REST = '        T.tvm_storage_sync("shared")\n        B[b * 4 + t] = S[3 - t]\n'
UNDECIDED = {
    "places": ("B", "for i in T.parallel(8):\n    B[A[i]] = i\n"),
    "one place, under a condition": ("B", "for i in T.parallel(8):\n    if A[i] > 2:\n        B[0] = i\n"),
    "a read at a place": ("B", "for i in T.parallel(8):\n    B[i] = B[A[i]] + 1\n"),
    "shared memory": ("S", THREADS + "        S[A[b * 4 + t] % 4] = t\n" + REST),
}
DECIDED = {
    "serial": "for i in range(8):\n    B[A[i]] = i\n",
    "reads": "for i in T.parallel(8):\n    B[i] = A[A[i]]\n",
    "elements of their own": "for i in T.parallel(8):\n    if A[i] > 2:\n        B[i] = i\n",
    "elements of their own, at places that are no sums": "for i in T.parallel(8):\n    B[T.bitwise_xor(i, 1)] = A[i]\n",
    "updates": 'for t in T.thread_binding(8, thread="threadIdx.x"):\n'
    "    T.evaluate(T.atomic_add(T.address_of(B[A[t]]), 1))\n",
    "rows of their own": "for i in T.parallel(4):\n    for j in range(A[i]):\n        B[i] = B[i] + j\n",
    "rounds that each leaves": "for i in T.parallel(8):\n    for j in range(8):\n        if j == A[i]:\n"
    "            break\n        B[i] = B[i] + j\n",
    "shared memory": THREADS + "        if A[b * 4 + t] > 2:\n            S[t] = t\n" + REST,
}
NOTE = "data tell whether iterations of the parallel loop over"


@pytest.mark.parametrize("name, body", UNDECIDED.values(), ids=UNDECIDED)
def test_the_report_names_what_iterations_may_meet_in(name: str, body: str):
    function = parsed(HEAD, body)
    program = ti.lift(function)
    (note,) = (n for n in program.report.notes if NOTE in n)
    assert f"meet in '{name}'; they follow the order of the text." in note
    a, b = np.array([3, 5, 3, 0, 7, 5, 1, 3], np.int32), np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(program(a, b)[0], ti.tir.interpret(function, a, b)[1])


@pytest.mark.parametrize("body", DECIDED.values(), ids=DECIDED)
def test_the_report_says_nothing_of_iterations_that_cannot_meet(body: str):
    assert NOTE not in str(ti.lift(parsed(HEAD, body)).report)


# Iterations that touch one element: digits miss none that counting finds, and loops keep their order where they do.


NAMES = ("i", "j", "k")


def _index(r: random.Random) -> Affine:
    found = number(r.randint(-2, 3))
    for name in r.sample(NAMES, r.randint(1, 3)):
        found = found.plus(variable(name).times(r.choice([-2, -1, 1, 1, 2, 3, 4, 6])))
    return found


def _value(index: Affine, at: dict[str, int]) -> int:
    spread = index.range({n: (v, v) for n, v in at.items()})
    assert spread is not None
    return spread[0]


def _counted(x: list[Affine], y: list[Affine], a: dict[str, tuple[int, int]], b: dict[str, tuple[int, int]]) -> Overlap:
    """The same, by looking at all pairs of iterations."""
    inside, forward, backward = False, set[int](), set[int]()
    points = [
        [dict(zip(NAMES, p, strict=True)) for p in product(*(range(box[n][0], box[n][1] + 1) for n in NAMES))]
        for box in (a, b)
    ]
    for p, q in product(*points):
        if all(_value(i, p) == _value(j, q) for i, j in zip(x, y, strict=True)):
            carried = next((k for k, n in enumerate(NAMES) if p[n] != q[n]), None)
            if carried is None:
                inside = True
            else:
                (forward if p[NAMES[carried]] < q[NAMES[carried]] else backward).add(carried)
    return Overlap(inside, frozenset(forward), frozenset(backward))


@pytest.mark.parametrize("first", range(0, 600, 60))
def test_digits_miss_no_pair_of_iterations(first: int):
    known = 0
    for seed in range(first, first + 60):
        r = random.Random(seed)
        dims = r.randint(1, 2)
        x, y = ([_index(r) for _ in range(dims)] for _ in range(2))
        y = [i.plus(number(r.randint(-2, 2))) for i in x] if r.random() < 0.5 else y
        a, b = ({n: (low := r.randint(0, 1), low + r.randint(0, 3)) for n in NAMES} for _ in range(2))
        found, wanted = overlap(x, y, a, b, NAMES), _counted(x, y, a, b)
        if found is None:
            continue
        known += 1
        told = f"{seed}: {x}, {y}, {a}, {b}"
        assert found.inside >= wanted.inside, told
        assert found.forward >= wanted.forward and found.backward >= wanted.backward, told
        assert (found == NOWHERE) <= (wanted == NOWHERE), told
    assert known > 5


def test_stores_whose_steps_have_no_common_multiple_keep_their_order():
    func = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32"), S: T.Buffer((16,), "int32")):
    for i in range(5):
        S[i * 2] = A[i]
        S[i * 3 + 1] = B[i]
""")["main"]
    given = np.arange(5, dtype=np.int32), np.arange(100, 105, dtype=np.int32), np.zeros(16, np.int32)
    wanted = ti.tir.interpret(func, *given)[2]
    assert wanted[4] == 2
    np.testing.assert_array_equal(ti.lift(func)(*given)[0], wanted)
