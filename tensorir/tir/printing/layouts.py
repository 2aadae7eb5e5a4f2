"""Layouts as TVMScript: `T.TileLayout(T.S[(2, 3):(3, 1)] + T.R[2:4 @ Axis.laneid] + 7)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.tir import nodes as n

__all__ = ["layout_text"]

Show = Callable[[n.Expr], str]


def layout_text(layout: n.TileLayout | n.ComposeLayout, show: Show) -> str:
    """The call that makes the layout; `show` writes the expressions in it."""
    match layout:
        case n.ComposeLayout(per_element, swizzle, atom, tile, inner):
            flag = "" if inner else ", swizzle_inner=False"
            return f"T.ComposeLayout({per_element}, {swizzle}, {atom}, {layout_text(tile, show)}{flag})"
        case n.TileLayout(shard, replica, offset):
            terms = [f"T.{word}[{_pair(part, show)}]" for word, part in (("S", shard), ("R", replica)) if part]
            terms += [_on_axis(part, show, summand=True) for part in offset]
            return f"T.TileLayout({' + '.join(terms) or 'T.S[()]'})"


def _pair(iterators: Sequence[n.LayoutIter], show: Show) -> str:
    extents = [show(part.extent) for part in iterators]
    strides = [_on_axis(part.stride, show) for part in iterators]
    if len(iterators) == 1:
        return f"{extents[0]}:{strides[0]}"
    return f"({', '.join(extents)}):({', '.join(strides)})"


def _on_axis(part: n.OnAxis, show: Show, summand: bool = False) -> str:
    text = show(part.value)
    plain = isinstance(part.value, n.Var | n.IntImm)
    if part.axis == "m":
        return text if plain or not summand else f"({text})"
    return f"{text if plain else f'({text})'} @ Axis.{part.axis}"
