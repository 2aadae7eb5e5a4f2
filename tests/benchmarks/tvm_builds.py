"""TVM's own builds of the kernels of `tests/benchmarks/lift.py`: what the table sets beside the lifted ones.

Each is built by TVM with LLVM as it stands and, for products and convolutions, with a schedule made by hand: blocks
that fit the caches, vectors along the last axis, threads along the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def product(schedule: Any) -> None:
    """C = A × B in blocks of 48 × 64, each of tiles of 6 × 32 that stay in registers until they are summed."""
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    i0, i1, i2 = schedule.split(i, [None, 8, 6])
    j0, j1, j2 = schedule.split(j, [None, 2, 32])
    k0, k1 = schedule.split(k, [None, 4])
    schedule.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    kept = schedule.cache_write(block, 0, "global")
    schedule.reverse_compute_at(kept, j1)
    schedule.parallel(schedule.fuse(i0, j0))
    schedule.vectorize(j2)
    schedule.unroll(i2)
    schedule.vectorize(schedule.get_loops(kept)[-1])
    schedule.vectorize(schedule.get_loops(schedule.decompose_reduction(block, k0))[-1])


def tiled_product(schedule: Any) -> None:
    """The tiles that the text has: threads along the rows of tiles, vectors along the last axis."""
    block = schedule.get_sblock("C")
    i0, _, k0, _, _, j1 = schedule.get_loops(block)
    schedule.parallel(i0)
    schedule.vectorize(j1)
    schedule.decompose_reduction(block, k0)


def convolution(schedule: Any) -> None:
    """Filters among the threads, eight of them at a time beside a row of pixels, in registers."""
    schedule.parallel(schedule.fuse(*schedule.get_loops(schedule.get_sblock("pad"))[:2]))
    block = schedule.get_sblock("conv")
    n, f, y, x, c, ry, rx = schedule.get_loops(block)
    f0, f1 = schedule.split(f, [None, 8])
    x0, x1 = schedule.split(x, [None, 8])
    schedule.reorder(n, f0, y, x0, c, ry, rx, f1, x1)
    kept = schedule.cache_write(block, 0, "global")
    schedule.reverse_compute_at(kept, x0)
    schedule.parallel(schedule.fuse(n, f0))
    schedule.vectorize(x1)
    schedule.unroll(f1)
    schedule.decompose_reduction(block, c)


def depthwise(schedule: Any) -> None:
    """Channels among the threads, a row of pixels in vectors."""
    schedule.parallel(schedule.fuse(*schedule.get_loops(schedule.get_sblock("pad"))[:2]))
    block = schedule.get_sblock("conv")
    n, f, y, x, ry, rx = schedule.get_loops(block)
    x0, x1 = schedule.split(x, [None, 8])
    schedule.reorder(n, f, y, x0, ry, rx, x1)
    schedule.parallel(schedule.fuse(n, f))
    schedule.vectorize(x1)
    schedule.decompose_reduction(block, ry)


def rows(schedule: Any) -> None:
    """Rows among the threads, in every block that has any; vectors where the last axis is no reduction's."""
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        loops = schedule.get_loops(block)
        iterators = schedule.get(block).iter_vars
        if iterators[-1].iter_type == 0 and len(loops) > 1:
            schedule.vectorize(schedule.split(loops[-1], [None, 16])[1])
        schedule.parallel(loops[0])


SCHEDULES: dict[str, Callable[[Any], None]] = {
    "matmul 512": product,
    "matmul 1024": product,
    "tiled 1024": tiled_product,
    "int8 256": product,
    "conv2d": convolution,
    "depthwise": depthwise,
    "softmax": rows,
    "layer norm": rows,
    "max-pool": rows,
    "argmax": rows,
}


def built(text: str, schedule: Callable[[Any], None] | None) -> Any:
    """TVM's function of a text."""
    import tvm

    text = text.replace("@T.prim_func", "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)")
    module = tvm.IRModule({"main": tvm.script.from_source(text).with_attr("global_symbol", "main")})
    if schedule is not None:
        made = tvm.s_tir.Schedule(module)
        schedule(made)
        module = made.mod
    machine = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mcpu": machine}))["main"]
