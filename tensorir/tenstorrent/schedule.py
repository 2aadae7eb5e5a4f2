"""Schedules: which core computes which tiles of the grid, a contiguous range each."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.tenstorrent.grid import F, grid_of, on_functions, with_attributes
from tensorir.tir import nodes as n

__all__ = ["CORES", "partition", "ranges", "schedule"]

CORES = 64
"""The cores of the default device, an 8 × 8 grid of them."""

_KNOWN: Mapping[str, tuple[str, ...]] = {"tt_schedule_policy": ("contiguous",), "tt_schedule_order": ("row_major",)}


def partition(tiles: int, cores: int) -> tuple[tuple[int, int], ...]:
    """The (first tile, number of tiles) of each core: contiguous ranges, as equal as they can be, longer ones in front.

    Raises TN04 for less than one core.

    >>> partition(7, 3), partition(2, 3)
    (((0, 3), (3, 2), (5, 2)), ((0, 1), (1, 1), (2, 0)))
    """
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"tiles are given to {cores} cores, and there is at least one."
        raise DiagnosticError(Diagnostic("TN04", message, n.NOWHERE, help="write cores=64."))
    each, more = divmod(tiles, cores)
    return tuple((k * each + min(k, more), each + (k < more)) for k in range(cores))


def schedule(func: F, cores: int = CORES) -> F:
    """The function, or every one of a module, with the tiles of each core as attributes; the body is unchanged.

    `tt_tiles_per_core` holds the first tile and the number of tiles of each core; tile ids count along x first, then y,
    then z. Attributes that the function has already stay. Raises TN01 for a function without a grid, TN02 for a grid
    that only a call tells, TN04 for less than one core, TN05 for a policy or an order that there is not.

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
    """
    return on_functions(func, lambda f: _schedule(f, cores))


def _schedule(func: n.PrimFunc, cores: int) -> n.PrimFunc:
    for name, known in _KNOWN.items():
        value = func.attrs.get(name, known[0])
        if value not in known:
            message = f"{name} of {func.name!r} is {value!r}, and tiles are given out by {' or '.join(known)} only."
            help = did_you_mean(value, known) if isinstance(value, str) else ""
            raise DiagnosticError(Diagnostic("TN05", message, func.span, help=help or f"write {known[0]}."))
    x, y, z = grid_of(func).extents
    tiles = x * y * z
    declared = func.attrs.get("tt_num_cores")
    count = declared if isinstance(declared, int) else cores
    made: dict[str, n.Attribute] = {
        "tt_grid_x": x, "tt_grid_y": y, "tt_grid_z": z, "tt_num_tiles": tiles, "tt_num_cores": count,
        "tt_tiles_per_core": partition(tiles, count),
    }  # fmt: skip
    return with_attributes(func, made)


def ranges(func: n.PrimFunc) -> tuple[tuple[int, int], ...]:
    """The first tile and the number of tiles of each core, as the attributes say; raises TN03 where they say none."""
    value = func.attrs.get("tt_tiles_per_core")
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
    raise DiagnosticError(Diagnostic("TN03", message, func.span, help="run ti.tt.schedule first."))
