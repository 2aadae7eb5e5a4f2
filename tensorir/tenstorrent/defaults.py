"""Default annotations: how tiles are given to cores, how buffers lie in memory, how large a tile of the hardware is."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.runtime.errors import Diagnostic, DiagnosticError, did_you_mean
from tensorir.tenstorrent.grid import F, on_functions, with_attributes
from tensorir.tir import nodes as n

__all__ = ["DEFAULTS", "LAYOUTS", "chosen", "defaults", "layout_of"]

LAYOUTS = ("dram_interleaved", "height_sharded", "width_sharded", "block_sharded")
"""How a buffer lies: tile by tile in DRAM, or one shard in the L1 memory of each core: rows, columns or rectangles."""

DEFAULTS: dict[str, n.Attribute] = {
    "tt_schedule_policy": "contiguous",
    "tt_schedule_order": "row_major",
    "tt_layout_type": "dram_interleaved",
    "tt_tile_height": 32,
    "tt_tile_width": 32,
}
"""What a function gets that does not say otherwise."""


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "tt_schedule_policy": ("contiguous",),
    "tt_schedule_order": ("row_major", "column_major"),
    "tt_layout_type": LAYOUTS,
}


def chosen(func: n.PrimFunc) -> None:
    """Raise TN05 for a policy, an order or a layout, of all buffers or of one, that no program is made for."""
    for name, value in func.attrs.items():
        layout = name.startswith("tt_buffer_") and name.endswith("_layout")
        known = _CHOICES.get("tt_layout_type" if layout else name)
        if known is not None and value not in known:
            words = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
            message = f"{name} of {func.name!r} is {value!r}, and programs are made for {words} only."
            help = did_you_mean(value, known) if isinstance(value, str) else ""
            raise DiagnosticError(Diagnostic("TN05", message, func.span, help=help or f"write {known[0]}."))


def layout_of(func: n.PrimFunc, buffer: n.Buffer) -> str:
    """How a buffer lies: as its own attribute says, or the function's."""
    whole = func.attrs.get("tt_layout_type", DEFAULTS["tt_layout_type"])
    return str(func.attrs.get(f"tt_buffer_{buffer.name}_layout", whole))


def defaults(func: F) -> F:
    """The function, or every function of a module, with the default annotations; the body is unchanged.

    Attributes that a function has already stay as they are. Raises TN01 for what is no function and no module,
    TN05 for a policy, an order or a layout that no program is made for.

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
    return on_functions(func, _defaults)


def _defaults(func: n.PrimFunc) -> n.PrimFunc:
    chosen(func)
    return with_attributes(func, DEFAULTS)
