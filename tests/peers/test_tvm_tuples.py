"""Reductions of tuples (an extreme with its index, Welford's variance) whose loops TVM cuts in parts are themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti  # noqa: E402
import tensorir.tir as tir  # noqa: E402
from tests.peers.test_tvm_undone import Make, largest, module_of, steps, text_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def least() -> list[Any]:
    from tvm import te, topi

    a: Any = te.placeholder((8, 16), name="A")
    return [a, topi.argmin(a, 0)]


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


CASES: dict[str, tuple[Make, Callable[[Any], None]]] = {
    f"{make.__name__}, {schedule.__name__}": (make, schedule)
    for make in (largest, least, variance)
    for schedule in (rows_in_parts, sums_in_parts, both_in_parts)
}


def arrays_of(func: Any, seed: int) -> list[Any]:
    """Arrays with many equal elements."""
    shapes = [tuple(e.value for e in func.buffer_map[p].shape) for p in func.params]
    kinds = [str(func.buffer_map[p].dtype) for p in func.params]
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(size=s) * 2).astype(d) for s, d in zip(shapes, kinds, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_a_reduction_of_tuples_in_parts_and_each_step_of_its_lowering_lift_to_the_text_of_the_module(name: str):
    make, schedule = CASES[name]
    plain = module_of(make)
    changed = tvm.s_tir.Schedule(plain)
    schedule(changed)
    wanted = text_of(plain)
    for step, module in steps(changed.mod):
        assert text_of(module) == wanted, step


@pytest.mark.parametrize("name", CASES)
def test_a_reduction_of_tuples_in_parts_computes_what_tvm_computes_as_a_whole(name: str):
    """TVM refuses to build some of the parts that it makes."""
    make, schedule = CASES[name]
    plain = module_of(make)
    changed = tvm.s_tir.Schedule(plain)
    schedule(changed)
    func: Any = tir.parse(changed.mod)["main"]
    given = arrays_of(func, len(name))
    theirs = [tvm.runtime.tensor(x) for x in given]
    tvm.compile(plain, target="llvm")["main"](*theirs)
    for got, want in zip(ti.lift(func)(*given), theirs[1:], strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)
