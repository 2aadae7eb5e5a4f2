"""Schedules, persistent kernels, and the passes from a kernel with a grid to one, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tensorir.passes.pipeline import Stage, Stages
from tensorir.runtime.errors import refuse
from tensorir.tenstorrent.grid import (
    AXES,
    DEFAULTS,
    Axis,
    F,
    agreeing,
    binding,
    chosen,
    defaults,
    grid_of,
    is_persistent,
    number,
    on_functions,
    plain,
    shard,
)
from tensorir.tir import nodes as n
from tensorir.tir.build import const, seq
from tensorir.tir.dtypes import INT32
from tensorir.tir.trees import transform

# Schedules: which core computes which tiles of the grid, a contiguous range each.
#
# The grid is what the loops, or attributes, around the tiles bind. A schedule that a function states in its
# attributes must say the same of it, and give every tile to one core.

CORES = 64
"""The cores of the default device, an 8 × 8 grid of them."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The blocks along x, y and z, the order in which they are counted, and the (first tile, tiles) of each core."""

    grid: tuple[int, int, int]
    order: str
    shares: tuple[tuple[int, int], ...]

    @property
    def tiles(self) -> int:
        return prod(self.grid)


def partition(tiles: int, cores: int) -> tuple[tuple[int, int], ...]:
    """The (first tile, number of tiles) of each core: contiguous ranges, as equal as they can be, longer ones in front.

    Raises TN04 for less than one core.

    >>> partition(7, 3), partition(2, 3)
    (((0, 3), (3, 2), (5, 2)), ((0, 1), (1, 1), (2, 0)))
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"tiles are given to {cores} cores, and there is at least one."
        raise refuse("TN04", message, "write cores=64.", at=n.NOWHERE)
    each, more = divmod(tiles, cores)
    return tuple((k * each + min(k, more), each + (k < more)) for k in range(cores))


def schedule(func: F, cores: int | None = None) -> F:
    """The function, or every one of a module, with the tiles of each core as attributes; the body is unchanged.

    `tt_tiles_per_core` holds the first tile and the number of tiles of each core; tile ids count along x first, then y,
    then z, or along y first where `tt_schedule_order` is column_major. A function that is scheduled already is
    scheduled anew where `cores` are given; without, its shares stay, or its `tt_num_cores`, or there are 64. Raises
    TN01 for a function without a grid, TN02 for a grid that only a call tells, TN04 for less than one core, TN05 for a
    policy, an order or a layout that no program is made for, TN14 for attributes that disagree with the grid or with
    each other, TN15 for shares that leave out a tile or have it twice.

    >>> from tensorir.tir import parse
    >>> main = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4,))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         A[bx] = 1.0
    ... ''')["main"]
    >>> made = schedule(main, cores=3)
    >>> {name: value for name, value in made.attrs.items() if name.startswith("tt_")}  # doctest: +NORMALIZE_WHITESPACE
    {'tt_grid_x': 4, 'tt_grid_y': 1, 'tt_grid_z': 1, 'tt_num_tiles': 4, 'tt_num_cores': 3,
     'tt_tiles_per_core': ((0, 2), (2, 1), (3, 1))}
    >>> made.body is main.body
    True
    >>> schedule(made, cores=2).attrs["tt_tiles_per_core"]
    ((0, 2), (2, 2))
    """
    return on_functions(func, lambda f: _schedule(f, cores))


def _schedule(func: n.PrimFunc, cores: int | None) -> n.PrimFunc:
    chosen(func)
    # a persistent kernel has its grid in its attributes alone
    grid = _stated_grid(func) if is_persistent(func) else grid_of(func).extents
    whole = agreeing_grid(func, grid)
    if cores is None and "tt_tiles_per_core" in func.attrs:
        made: dict[str, n.Attribute] = {"tt_num_cores": len(shares_of(func))}
        whole = replace(whole, attrs={**made, **whole.attrs})
        schedule_of(whole)
        return whole
    if cores is None:
        cores = number(func, "tt_num_cores", "schedule") if "tt_num_cores" in func.attrs else CORES
    shares = partition(prod(grid), cores)
    return replace(whole, attrs={**whole.attrs, "tt_num_cores": cores, "tt_tiles_per_core": shares})


def schedule_of(func: n.PrimFunc) -> Schedule:
    """The schedule that a function states in its attributes.

    Raises TN03 where it states none, TN05 for a policy, an order or a layout that no program is made for, TN14 where it
    disagrees with the grid or with itself, TN15 for a tile that no core has, that two have, or that there is not.
    """
    chosen(func)
    grid = _stated_grid(func)
    agreeing_grid(func, grid if is_persistent(func) else grid_of(func).extents)
    shares = shares_of(func)
    said = f"tt_tiles_per_core has {len(shares)} shares"
    agreeing(func, {"tt_num_cores": len(shares)}, {"tt_num_cores": said}, "schedule(f, cores=8)")
    if (fault := uncovered(shares, prod(grid))) is not None:
        message = f"tt_tiles_per_core of {func.name!r} is no schedule: {fault[1]}"
        raise refuse("TN15", message, "give every tile to one core: ti.tt.schedule(f, cores=8) does.", at=func.span)
    return Schedule(grid, str(func.attrs.get("tt_schedule_order", DEFAULTS["tt_schedule_order"])), shares)


def _stated_grid(func: n.PrimFunc) -> tuple[int, int, int]:
    x, y = (number(func, f"tt_grid_{axis}", "schedule") for axis in "xy")
    if "tt_grid_z" in func.attrs:
        return x, y, number(func, "tt_grid_z", "schedule")
    return x, y, 1 if is_persistent(func) else grid_of(func).extents[2]


def agreeing_grid(func: n.PrimFunc, grid: tuple[int, int, int]) -> n.PrimFunc:
    """The function with a grid as attributes; raises TN14 where it states another one."""
    made: dict[str, n.Attribute] = {f"tt_grid_{axis}": size for axis, size in zip(AXES, grid, strict=True)}
    why = {
        f"tt_grid_{axis}": f"the grid has {_blocks(size)} along {axis}" for axis, size in zip(AXES, grid, strict=True)
    }
    why["tt_num_tiles"] = f"the grid has {_blocks(prod(grid))}"
    return agreeing(func, {**made, "tt_num_tiles": prod(grid)}, why, "schedule")


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count} blocks"


def shares_of(func: n.PrimFunc) -> tuple[tuple[int, int], ...]:
    """The first tile and the number of tiles of each core, as the attributes say; raises TN03 where they say none."""
    value = plain(func.attrs.get("tt_tiles_per_core"))
    if isinstance(value, tuple) and value:
        pairs: list[tuple[int, int]] = []
        for pair in value:
            match pair:
                case (int(first), int(count)):
                    pairs.append((first, count))
                case _:
                    break
        else:
            return tuple(pairs)
    message = f"{func.name!r} does not say which core computes which tiles."
    raise refuse("TN03", message, "run ti.tt.schedule first.", at=func.span)


def uncovered(shares: Sequence[tuple[int, int]], tiles: int) -> tuple[str, str] | None:
    """Faults of shares, with their places: a tile that no core has, that two have, or that does not exist.

    >>> uncovered([(0, 2), (1, 2)], 3), uncovered([(0, 2), (2, 1)], 3)
    (('twice', 'tile 1 is computed by core 0 and by core 1.'), None)
    """
    owner: dict[int, int] = {}
    for core, (first, count) in enumerate(shares):
        if count < 0:
            return "outside", f"core {core} has {count} tiles."
        for tile in range(first, first + count):
            if not 0 <= tile < tiles:
                return "outside", f"core {core} has tile {tile}, and there are {tiles}."
            if tile in owner:
                return "twice", f"tile {tile} is computed by core {owner[tile]} and by core {core}."
            owner[tile] = core
    missing = next((tile for tile in range(tiles) if tile not in owner), None)
    return None if missing is None else ("left out", f"tile {missing} is computed by no core.")


# Persistent kernels: a loop over the tiles of one core in the place of the grid.

RUNTIME_ARGS = ("tt_start_id", "tt_count", "grid_x", "grid_y")
"""The parameters that a persistent kernel has more, by name, in order."""


def persistent(func: F) -> F:
    """The kernel, or every one of a module, as a loop over the tiles of one core.

    Four int32 parameters follow the others: the first tile, the number of tiles, and the extents of the grid along x
    and y. The indices of blocks follow from the number of the tile: bx = tile % grid_x, by = tile // grid_x % grid_y,
    bz = tile // (grid_x · grid_y); where `tt_schedule_order` is column_major, by = tile % grid_y and
    bx = tile // grid_y % grid_x. Raises TN01 for a kernel without a grid, TN03 where `schedule` did not run before,
    TN06 for one that is persistent already, and TN05, TN14 and TN15 for attributes that do not fit the grid.

    >>> from tensorir.tir import parse
    >>> from tensorir.tenstorrent.schedule import schedule
    >>> main = parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((12,))):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         for by in T.thread_binding(3, thread="blockIdx.y"):
    ...             A[by * 4 + bx] = 1.0
    ... ''')["main"]
    >>> print(persistent(schedule(main, cores=2)).body)
    for i in range(tt_count):
        tile_id: T.let[T.int32] = tt_start_id + i
        bx: T.let[T.int32] = tile_id % grid_x
        by: T.let[T.int32] = tile_id // grid_x % grid_y
        A[by * 4 + bx] = T.float32(1.0)
    """
    return on_functions(func, _persistent)


def _persistent(func: n.PrimFunc) -> n.PrimFunc:
    if is_persistent(func):
        message = f"{func.name!r} is a loop over the tiles of a core already."
        raise refuse("TN06", message, "take the kernel with its grid.", at=func.span)
    grid = grid_of(func)
    columns = schedule_of(func).order == "column_major"
    names = {p.name for p in func.params} | {b.name for b in func.buffer_map.values()}
    if taken := sorted(names & set(RUNTIME_ARGS)):
        message = f"{func.name!r} has a parameter {taken[0]!r}, which a persistent kernel adds."
        raise refuse("TN06", message, "give the parameter another name.", at=func.span)
    start, count, wide, high = added = tuple(n.Var(name, n.PrimType(INT32), func.span) for name in RUNTIME_ARGS)
    step, tile = (n.Var(name, n.PrimType(INT32), func.span) for name in ("i", "tile_id"))
    ids: dict[str, n.Expr] = {
        "x": n.FloorMod(n.FloorDiv(tile, high), wide) if columns else n.FloorMod(tile, wide),
        "y": n.FloorMod(tile, high) if columns else n.FloorMod(n.FloorDiv(tile, wide), high),
        "z": n.FloorDiv(tile, n.Mul(wide, high)),
    }
    outermost = grid.axes[0].node

    def lets(axis: Axis) -> n.Stmt:
        value = ids[axis.tag[-1]]
        first = axis.node.min if isinstance(axis.node, n.For) else const(0, INT32)
        if not (isinstance(first, n.IntImm) and first.value == 0):
            value = n.Add(value, first)
        if axis.var.dtype != INT32:
            value = n.Cast(value, axis.var.dtype)
        return n.LetStmt(axis.var, value, axis.node.span)

    def inner(node: n.Node) -> n.Node | None:
        return node.body if isinstance(node, n.For | n.AttrStmt) and binding(node) is not None else None

    once = (n.LetStmt(tile, n.Add(start, step), outermost.span), *map(lets, _in_order(grid.axes)))
    body = seq([*once, transform(outermost.body, inner)], outermost.span)
    loop = n.For(step, const(0, INT32), count, n.ForKind.SERIAL, body, span=outermost.span)
    made: dict[str, n.Attribute] = {"tt_persistent_loop": 1, "tt_runtime_args": RUNTIME_ARGS}
    return replace(
        func, params=(*func.params, *added), attrs={**func.attrs, **made}, body=_replaced(func.body, outermost, loop)
    )


def _in_order(axes: tuple[Axis, ...]) -> list[Axis]:
    return sorted(axes, key=lambda axis: axis.tag)


def _replaced(body: n.Stmt, old: n.Stmt, new: n.Stmt) -> n.Stmt:
    """The body with another statement in the place of one, which stands under blocks and sequences."""
    if body is old:
        return new
    # the nodes above the grid are rebuilt; it alone is exchanged, so that nothing below it is walked
    match body:
        case n.SeqStmt(parts):
            return replace(body, seq=tuple(_replaced(p, old, new) for p in parts))
        case n.BlockRealize():
            return replace(body, block=replace(body.block, body=_replaced(body.block.body, old, new)))
        case n.Block() | n.AttrStmt() | n.For():
            return replace(body, body=_replaced(body.body, old, new))
        case _:
            return body


# The passes from a kernel with a grid to a persistent one, in their order, with the kernel before and after each.


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
