"""Modules that TVM's schedules and passes make: read, checked, printed, and run in checked mode, with equal numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir.tir as tir

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(11)


def product() -> list[Any]:
    from tvm import te

    a, b = te.placeholder((16, 24), name="A"), te.placeholder((24, 32), name="B")
    k = te.reduce_axis((0, 24), name="k")
    return [a, b, te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def stencil() -> list[Any]:
    from tvm import te

    a = te.placeholder((34, 34), name="A")
    rows = te.compute((32, 34), lambda i, j: a[i, j] + a[i + 1, j] + a[i + 2, j], name="B")
    return [a, te.compute((32, 32), lambda i, j: rows[i, j] + rows[i, j + 1] + rows[i, j + 2], name="C")]


def row_sum() -> list[Any]:
    from tvm import te

    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    return [a, te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="C")]


def tiled(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    (io, ii), (jo, ji) = s.split(i, [None, 4]), s.split(j, [None, 8])
    s.reorder(io, jo, k, ii, ji)


def uneven(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    s.split(i, [None, 5])
    s.split(j, [None, 7])
    s.split(k, [None, 9])


def parallel(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    jo, ji = s.split(j, [None, 8])
    s.reorder(i, jo, k, ji)
    s.parallel(i)
    s.vectorize(ji)
    s.unroll(k)


def decomposed(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    s.reorder(i, k, j)
    s.decompose_reduction(s.get_sblock("C"), k)


def cached(s: Any) -> None:
    block = s.get_sblock("C")
    s.cache_write(block, 0, "local")
    copy = s.cache_read(block, 0, "shared")
    tiled(s)
    s.compute_at(copy, s.get_loops(block)[1])


def threads(s: Any) -> None:
    i, j, k = s.get_loops(s.get_sblock("C"))
    (io, ii), (jo, ji) = s.split(i, [None, 4]), s.split(j, [None, 8])
    s.reorder(io, jo, ii, ji, k)
    for loop, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (ii, "threadIdx.y"), (ji, "threadIdx.x")):
        s.bind(loop, tag)


def cooperative(s: Any) -> None:
    threads(s)
    block = s.get_sblock("C")
    loops = s.get_loops(block)
    outer, inner = s.split(loops[4], [None, 8])
    s.reorder(outer, inner)
    for place in (0, 1):
        copy = s.cache_read(block, place, "shared")
        s.compute_at(copy, outer)
        fused = s.fuse(*s.get_loops(copy)[-2:])
        _, y, x = s.split(fused, [None, 4, 8])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")


def blocks(s: Any) -> None:
    tiled(s)
    s.blockize(s.get_loops(s.get_sblock("C"))[3])


def partial(s: Any) -> None:
    _, k = s.get_loops(s.get_sblock("C"))
    ko, _ = s.split(k, [None, 8])
    s.rfactor(ko, 0)


def across(s: Any) -> None:
    i, k = s.get_loops(s.get_sblock("C"))
    _, inner = s.split(k, [None, 16])
    s.bind(i, "blockIdx.x")
    s.bind(inner, "threadIdx.x")


def inlined(s: Any) -> None:
    s.compute_inline(s.get_sblock("B"))


def near(s: Any) -> None:
    i, _ = s.get_loops(s.get_sblock("C"))
    io, _ = s.split(i, [None, 8])
    s.compute_at(s.get_sblock("B"), io)
    s.parallel(io)


def moved(s: Any) -> None:
    s.compute_at(s.get_sblock("B"), s.get_loops(s.get_sblock("C"))[1])
    s.set_scope(s.get_sblock("B"), 0, "local")


def transposed(s: Any) -> None:
    s.transform_layout(s.get_sblock("B"), ("write", 0), lambda i, j: (j, i))


def aligned(s: Any) -> None:
    s.storage_align(s.get_sblock("B"), 0, 0, 16, 4)
    s.fuse(*s.get_loops(s.get_sblock("C")))


SCHEDULES: dict[str, tuple[Callable[[], list[Any]], Callable[[Any], None]]] = {
    **{f"product, {f.__name__}": (product, f) for f in (tiled, uneven, parallel, decomposed, cached, threads)},
    **{f"product, {f.__name__}": (product, f) for f in (cooperative, blocks)},
    **{f"stencil, {f.__name__}": (stencil, f) for f in (inlined, near, moved, transposed, aligned)},
    **{f"row sum, {f.__name__}": (row_sum, f) for f in (partial, across)},
}
PASSES = (
    "LowerCrossThreadReduction",
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "UnifyThreadBinding",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "VectorizeLoop",
    "StorageRewrite",
    "UnrollLoop",
    "RemoveNoOp",
)


def stages(module: Any) -> list[tuple[str, Any]]:
    """The module, and what each pass of the lowering makes of it."""
    found = [("scheduled", module)]
    for name in PASSES:
        maker = getattr(tvm.s_tir.transform, name, None) or getattr(tvm.tirx.transform, name)
        found.append((name, maker()(found[-1][1])))
    return found


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_a_schedule_and_the_lowering_make_computes_the_same(name: str):
    from tvm import te

    make, schedule = SCHEDULES[name]
    plain = tvm.IRModule({"main": te.create_prim_func(make()).with_attr("global_symbol", "main")})
    func = tir.parse(plain)["main"]
    shapes = [tuple(extent.value for extent in func.buffer_map[p].shape) for p in func.params]
    arrays = [RNG.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    wanted = tir.interpret(func, *arrays)[-1]
    changed = tvm.s_tir.Schedule(plain)
    schedule(changed)
    seen = set[str]()
    for step, module in stages(changed.mod):
        text = module.script()
        if text in seen:
            continue
        seen.add(text)
        ours = tir.parse(text)
        assert tir.parse(str(ours)) == ours, step
        tir.check(ours)
        found = tir.interpret(ours["main"], *arrays, checked=step != "UnrollLoop")[-1]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{name}, {step}\n{text}")
    assert len(seen) >= 3
