"""Reductions of tuples (an extreme with its index, Welford's variance) whose loops TVM cuts in parts are themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.peers.test_tvm_undone import Make, largest, scheduled

pytestmark = pytest.mark.filterwarnings("ignore")


def least() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((8, 16), name="A")
    return [a, topi.argmin(a, 0)]


def last_of_the_largest() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((4, 15), name="A")
    return [a, topi.argmax(a, 1, False, True)]


def largest_of_planes() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((4, 5, 6), name="A")
    return [a, topi.argmax(a, (0, 2))]


def variance() -> list[Any]:
    from tvm import te

    a: Any = te.placeholder((4, 33), name="A")
    k = te.reduce_axis((0, 33), "k")
    one, nothing = (tvm.tirx.const(x, "float32") for x in (1, 0))

    def together(x: Any, y: Any) -> Any:
        count, apart = x[0] + y[0], y[1] - x[1]
        return count, x[1] + apart * y[0] / count, x[2] + y[2] + apart * apart * x[0] * y[0] / count

    welford = te.comm_reducer(together, lambda *kinds: tuple(tvm.tirx.const(0, kind) for kind in kinds), name="w")
    return [a, *te.compute((4,), lambda i: welford((one, a[i, k], nothing), axis=k), name="W")]


def first_block(s: Any) -> Any:
    first, *_ = map(s.get, s.get_child_blocks(s.get_sblock("root")))
    return s.get_sblock(first.name_hint)


def rows_in_parts(s: Any) -> None:
    for block in list(map(s.get, s.get_child_blocks(s.get_sblock("root")))):
        s.loop_partition(s.get_loops(s.get_sblock(block.name_hint))[0], [1, 2])


def sums_in_parts(s: Any) -> None:
    """The loop of the reduction itself, where parts start from what the parts before them left."""
    block = first_block(s)
    name = s.get(block).name_hint
    s.decompose_reduction(block, s.get_loops(block)[0])
    s.loop_partition(s.get_loops(s.get_sblock(f"{name}_update"))[-1], [3, 2])


def both_in_parts(s: Any) -> None:
    sums_in_parts(s)
    block = first_block(s)
    s.loop_partition(s.get_loops(block)[0], [2])


def best_of_parts(by: int, axis: int, inner: bool) -> Callable[[Any], None]:
    """The extreme of each part of the reduced loops, and then the extreme of these."""

    def schedule(s: Any) -> None:
        block = first_block(s)
        reduced = [v for v, i in zip(s.get_loops(block), s.get(block).iter_vars, strict=True) if i.iter_type != 0]
        loops = s.split(s.fuse(*reduced) if len(reduced) > 1 else reduced[0], [None, by])
        s.rfactor(loops[1 if inner else 0], axis)

    return schedule


def parts_at_hand(s: Any) -> None:
    block = first_block(s)
    outer, _ = s.split(s.get_loops(block)[-1], [None, 4])
    parts = s.rfactor(outer, 0)
    name, *_ = [b.name_hint for b in map(s.get, s.get_child_blocks(s.get_sblock("root")))][1:]
    s.reverse_compute_at(s.get_sblock(name), s.get_loops(parts)[0])


def in_other_order(s: Any) -> None:
    s.reorder(*reversed(s.get_loops(first_block(s))))


BEST: dict[str, Callable[[Any], None]] = {
    "inner parts": best_of_parts(4, 0, True),
    "inner parts, along the rows": best_of_parts(4, 1, True),
    "outer parts": best_of_parts(4, 0, False),
    "outer parts, along the rows": best_of_parts(4, 1, False),
    "uneven inner parts": best_of_parts(3, 0, True),
    "uneven outer parts": best_of_parts(5, 1, False),
    "parts at hand": parts_at_hand,
    "in other order": in_other_order,
}

CASES: dict[str, tuple[Make, Callable[[Any], None]]] = {
    f"{make.__name__}, {schedule.__name__}": (make, schedule)
    for make in (largest, least, variance)
    for schedule in (rows_in_parts, sums_in_parts, both_in_parts)
} | {
    f"{make.__name__}, {name}": (make, schedule)
    for make in (largest, least, last_of_the_largest, largest_of_planes)
    for name, schedule in BEST.items()
}


def arrays_of(func: Any, seed: int) -> list[Any]:
    """Arrays with many equal elements."""
    shapes = [tuple(e.value for e in func.buffer_map[p].shape) for p in func.params]
    kinds = [str(func.buffer_map[p].dtype) for p in func.params]
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(size=s) * 2).astype(d) for s, d in zip(shapes, kinds, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_a_reduction_of_tuples_in_parts_computes_what_tvm_computes_as_a_whole(name: str):
    """TVM refuses to build some of the parts that it makes."""
    make, schedule = CASES[name]
    plain, changed = scheduled(make, schedule)
    func: Any = tir.parse(changed)["main"]
    given = arrays_of(func, len(name))
    theirs = [tvm.runtime.tensor(x) for x in given]
    tvm.compile(plain, target="llvm")["main"](*theirs)
    for got, want in zip(ti.lift(func)(*given), theirs[1:], strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", BEST)
def test_the_best_of_parts_of_rows_of_any_length_is_the_best_of_the_rows(name: str):
    from tvm import te, topi

    n, m = (tvm.tirx.Var(x, "int64") for x in "nm")
    a: Any = te.placeholder((n, m), name="A")
    plain = tvm.IRModule({"main": te.create_prim_func([a, topi.argmax(a, 1)]).with_attr("global_symbol", "main")})
    changed = tvm.s_tir.Schedule(plain)
    BEST[name](changed)
    given = np.round(np.random.default_rng(1).normal(size=(5, 7)) * 2).astype(np.float32), np.zeros(5, np.int64)
    base, lifted = (ti.lift(tir.parse(module)["main"]) for module in (plain, changed.mod))
    for f in (base, lifted):
        np.testing.assert_array_equal(f(*given)[0], given[0].argmax(1))
