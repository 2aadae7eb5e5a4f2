"""Iterations as a box: random statements store the same values at the same elements from their simplest dims."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.dims import Interval
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.space import boxed, in_order
from tensorir.lifting.nests.terms import Index, Number, Op, Term, show, values

NAMES = ("i_0", "i_1", "i_2", "k")


def _sum(r: random.Random, dims: Mapping[str, Interval]) -> Term:
    """A sum such as splitting and fusing leave, most often a number of digits."""
    names = r.sample([*dims], r.randint(1, len(dims)))
    total: Term | None = None
    step = 1
    for name in names:
        c = step if r.random() < 0.8 else r.randint(1, 5)
        part = Op("multiplies", (Index(name, INT32), Number(c, INT32)), INT32)
        total = part if total is None else Op("plus", (total, part), INT32)
        step *= len(dims[name]) if r.random() < 0.8 else r.randint(1, 4)
    assert total is not None
    if r.random() < 0.3:
        total = Op("plus", (total, Number(r.randint(-3, 5), INT32)), INT32)
    if r.random() < 0.4:
        total = Op(r.choice(["floordiv", "mod"]), (total, Number(r.choice([2, 3, 4, 6, 8]), INT32)), INT32)
    return total


def _guard(r: random.Random, dims: Mapping[str, Interval]) -> Term:
    total = _sum(r, dims)
    if r.random() < 0.5:
        return Op(r.choice(["less", "less_equal", "greater_equal"]), (total, Number(r.randint(0, 9), INT32)), BOOL)
    corner = values(total, {n: r.choice([i.start, i.stop - 1]) for n, i in dims.items()})
    assert corner is not None
    return Op("eq", (total, Number(int(corner), INT32)), BOOL)


def _stores(
    dims: Mapping[str, Interval], location: Sequence[Term], value: Term, guards: Sequence[Term]
) -> list[tuple[int, ...]]:
    """Elements and what is stored there, one iteration after the other."""
    sizes = [len(i) for i in dims.values()]
    count = int(np.prod(sizes))
    axes = np.indices(sizes).reshape(len(sizes), count)
    grid = {n: a + i.start for (n, i), a in zip(dims.items(), axes, strict=True)}

    def at_all(term: Term) -> np.ndarray:
        found = values(term, grid)
        assert found is not None
        return np.broadcast_to(found, (count,))

    held = np.logical_and.reduce([np.ones(count, bool), *map(at_all, guards)])
    return [*zip(*(at_all(t)[held].tolist() for t in (*location, value)), strict=True)]


def _by_element(stores: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for *element, value in stores:
        found.setdefault(tuple(element), []).append(value)
    return found


@pytest.mark.parametrize("first", range(0, 1600, 200))
def test_boxes_store_what_loops_store(first: int):
    for seed in range(first, first + 200):
        r = random.Random(seed)
        dims = {
            n: Interval(low := r.choice([0, 0, 0, 1, -2]), low + r.choice([1, 2, 4, 4, 6]))
            for n in NAMES[: r.randint(2, 4)]
        }
        location = tuple(_sum(r, dims) for _ in range(r.randint(1, 2)))
        value, guards = _sum(r, dims), [_guard(r, dims) for _ in range(r.randint(0, 3))]
        wanted = _stores(dims, location, value, guards)
        told = f"{seed}: {dims}, {[*map(show, (*location, value))]} where {[*map(show, guards)]}"
        box, ordered = boxed(dims, location, value, guards, {}), in_order(dims, location, value, guards, {})
        assert Counter(_stores(box.dims, box.location, box.value, box.guards)) == Counter(wanted), told
        found = _stores(ordered.dims, ordered.location, ordered.value, ordered.guards)
        assert _by_element(found) == _by_element(wanted), told


def test_conditions_that_fix_one_loop_at_two_values_hold_nowhere():
    func = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        B[i, j] = A[i, j]
        if i + j == 6:
            if i == 0:
                B[i, j] = -7
""")["main"]
    given = np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros((4, 4), np.int32)
    wanted = ti.tir.interpret(func, *given)[1]
    assert (wanted == given[0]).all()
    np.testing.assert_array_equal(ti.lift(func)(*given)[0], wanted)
