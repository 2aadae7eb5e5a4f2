"""Shards: how the buffers of a kernel are made of tiles of the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorir.runtime.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.tenstorrent.defaults import DEFAULTS, chosen, layout_of
from tensorir.tenstorrent.grid import F, agreeing, number, on_functions, with_attributes
from tensorir.tir import nodes as n

__all__ = ["matrix_extents", "shard"]


def shard(func: F, layouts: Mapping[str, str] | None = None) -> F:
    """The function, or every one of a module, with the tiles of each buffer parameter as attributes; the body stays.

    Tiles lie along the last two dims; a buffer of one dim is one row. A buffer needs padding where either extent is no
    multiple of the tile. `layouts` says by name how buffers lie: "dram_interleaved", or in the cores' L1 memory
    "height_sharded", "width_sharded" or "block_sharded". Raises TN02 for a buffer whose extents only a call tells, TN05
    for a layout that no program is made for or of a buffer that there is not, TN14 for an attribute that the function
    has already with another value.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((64, 100))):\\n    A[0, 0] = 1.0')["main"]
    >>> {k: v for k, v in shard(main).attrs.items() if k.startswith("tt_buffer")}  # doctest: +NORMALIZE_WHITESPACE
    {'tt_buffer_A_layout': 'dram_interleaved', 'tt_buffer_A_tile_shape': (32, 32), 'tt_buffer_A_num_tiles_height': 2,
     'tt_buffer_A_num_tiles_width': 4, 'tt_buffer_A_needs_padding': 1}
    """
    return on_functions(func, lambda f: _shard(f, layouts or {}))


def _shard(func: n.PrimFunc, layouts: Mapping[str, str]) -> n.PrimFunc:
    names = [buffer.name for buffer in func.buffer_map.values()]
    for name in layouts:
        if name not in names:
            message = f"{name!r} is given a layout, and {func.name!r} has no such buffer."
            help = did_you_mean(name, names) or f"its buffers are {', '.join(names)}."
            raise DiagnosticError(Diagnostic("TN05", message, func.span, help=help))
    made: dict[str, n.Attribute] = {f"tt_buffer_{name}_layout": layout for name, layout in layouts.items()}
    func = replace(func, attrs={**func.attrs, **made})
    chosen(func)
    whole = with_attributes(func, DEFAULTS)
    tile = number(whole, "tt_tile_height", "defaults"), number(whole, "tt_tile_width", "defaults")
    made = {}
    why: dict[str, str] = {}
    for buffer in (func.buffer_map[p] for p in func.params if p in func.buffer_map):
        high, wide = matrix_extents(buffer)
        prefix = f"tt_buffer_{buffer.name}"
        made[f"{prefix}_layout"] = layout_of(whole, buffer)
        made[f"{prefix}_tile_shape"] = tile
        made[f"{prefix}_num_tiles_height"] = -(-high // tile[0])
        made[f"{prefix}_num_tiles_width"] = -(-wide // tile[1])
        made[f"{prefix}_needs_padding"] = int(high % tile[0] != 0 or wide % tile[1] != 0)
        own = {name: value for name, value in made.items() if name.startswith(f"{prefix}_")}
        why |= {k: f"{high} × {wide} elements in tiles of {tile[0]} × {tile[1]} make it {v!r}" for k, v in own.items()}
    return agreeing(func, made, why, "shard")


def matrix_extents(buffer: n.Buffer) -> tuple[int, int]:
    """The rows and columns of a buffer: its last two extents, of which one that it does not have is 1."""
    found: list[int] = []
    for extent in buffer.shape[-2:]:
        if not isinstance(extent, n.IntImm):
            message = f"{buffer.name!r} has {extent} elements along a dim, and its tiles are counted before a call."
            raise DiagnosticError(
                Diagnostic("TN02", message, buffer.span, help="give its sizes: ti.tt.sized(f, m=64).")
            )
        found.append(extent.value)
    high, wide = (1,) * (2 - len(found)) + tuple(found)
    return high, wide
