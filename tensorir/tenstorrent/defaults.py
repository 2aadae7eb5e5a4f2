"""Default annotations: how tiles are given to cores, how buffers lie in memory, how large a tile of the hardware is."""

from __future__ import annotations

from tensorir.tenstorrent.grid import F, on_functions, with_attributes
from tensorir.tir import nodes as n

__all__ = ["DEFAULTS", "defaults"]

DEFAULTS: dict[str, n.Attribute] = {
    "tt_schedule_policy": "contiguous",
    "tt_schedule_order": "row_major",
    "tt_layout_type": "dram_interleaved",
    "tt_tile_height": 32,
    "tt_tile_width": 32,
}
"""What a function gets that does not say otherwise."""


def defaults(func: F) -> F:
    """The function, or every function of a module, with the default annotations; the body is unchanged.

    Attributes that a function has already stay as they are. Raises TN01 for what is no function and no module.

    >>> from tensorir.tir import parse
    >>> main = parse('@T.prim_func\\ndef main(A: T.Buffer((4,))):\\n    T.func_attr({"tt_tile_width": 16})')["main"]
    >>> print(defaults(main))
    # from tvm.script import tirx as T
    <BLANKLINE>
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"tt_layout_type": "dram_interleaved", "tt_schedule_order": "row_major", "tt_schedule_policy": \
"contiguous", "tt_tile_height": 32, "tt_tile_width": 16})
        pass
    <BLANKLINE>
    """
    return on_functions(func, lambda f: with_attributes(f, DEFAULTS))
