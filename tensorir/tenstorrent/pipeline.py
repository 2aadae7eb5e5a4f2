"""The passes from a kernel with a grid to a persistent one, in their order, with the kernel before and after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorir.passes.pipeline import Stage, Stages
from tensorir.tenstorrent.defaults import defaults
from tensorir.tenstorrent.grid import F
from tensorir.tenstorrent.persistent import persistent
from tensorir.tenstorrent.schedule import schedule
from tensorir.tenstorrent.shard import shard

__all__ = ["pipeline"]


def pipeline(func: F, cores: int | None = None, layouts: Mapping[str, str] | None = None) -> Stages[F]:
    """A kernel, or a module of them, before and after each pass, as `ti.compile(f).pipeline()` has it for a fencil.

    It prints the kernel, then every pass with its reason and the kernel behind it; `stages["persistent"].before` and
    `.after` are functions of TIR, `stages.result` is what `split` takes. Without `cores` the kernel's own schedule
    stays, or there are 64; `layouts` are those of `shard`. Raises what the passes raise.

    >>> from tensorir.tir import parse
    >>> main = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4,))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         A[bx] = 1.0
    ... ''')["main"]
    >>> stages = pipeline(main, cores=2)
    >>> [(stage.name, stage.changed) for stage in stages]
    [('defaults', True), ('schedule(cores=2)', True), ('shard', True), ('persistent', True)]
    >>> print(stages["persistent"].before.body)
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        A[bx] = T.float32(1.0)
    >>> print(stages["persistent"].after.body)
    for i in range(tt_count):
        tile_id: T.let[T.int32] = tt_start_id + i
        bx: T.let[T.int32] = tile_id % grid_x
        A[bx] = T.float32(1.0)
    """
    scheduled = "schedule" if cores is None else f"schedule(cores={cores})"
    passes: tuple[tuple[str, str, Callable[[F], F]], ...] = (
        ("defaults", "what the kernel does not say of its layout is written down", defaults),
        (scheduled, "every core gets a range of tiles", lambda f: schedule(f, cores)),
        ("shard", "buffers are counted in tiles of the hardware", lambda f: shard(f, layouts)),
        ("persistent", "a loop over the tiles of a core takes the place of the grid", persistent),
    )
    stages: list[Stage[F]] = []
    now = func
    for name, reason, run in passes:
        stages.append(Stage(name, reason, now, now := run(now)))
    return Stages(func, tuple(stages))
