"""`T.TileLayout(T.S[shape:strides] + T.R[shape:strides] + offset)`: `:` and `@` have meanings of their own in it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.values import Name

if TYPE_CHECKING:
    from tensorir.tir.script.evaluate import Evaluator

__all__ = ["LAYOUTS", "layout"]

LAYOUTS = ("TileLayout", "ComposeLayout")
_AXES = "Axis."


def layout(reader: Evaluator, node: ast.Call, name: str) -> n.TileLayout | n.ComposeLayout:
    """The layout that a call of this name writes."""
    return _tile(reader, node) if name == "TileLayout" else _compose(reader, node)


def _compose(reader: Evaluator, node: ast.Call) -> n.ComposeLayout:
    given = {key.arg: key.value for key in node.keywords}
    inner = given.pop("swizzle_inner", node.args[4] if len(node.args) == 5 else None)
    if given or len(node.args) not in (4, 5):
        reader.fail(node, "TS24", "T.ComposeLayout takes three lengths, a T.TileLayout, and swizzle_inner.")
    per_element, swizzle, atom = (reader.number(part, "a length") for part in node.args[:3])
    tile = reader.value(node.args[3])
    if not isinstance(tile, n.TileLayout):
        reader.fail(node.args[3], "TS21", "a T.TileLayout stands here.")
    flag = True if inner is None else bool(reader.number(inner, "a flag"))
    return n.ComposeLayout(per_element, swizzle, atom, tile, flag, reader.text.span(node))


def _tile(reader: Evaluator, node: ast.Call) -> n.TileLayout:
    if len(node.args) != 1 or node.keywords:
        reader.fail(node, "TS24", "T.TileLayout takes T.S[shape:strides], with + T.R[...] and + an offset after it.")
    parts: dict[str, tuple[n.LayoutIter, ...]] = {}
    offset: list[n.OnAxis] = []
    for term in _terms(node.args[0]):
        target = reader.value(term.value) if isinstance(term, ast.Subscript) else None
        if isinstance(term, ast.Subscript) and isinstance(target, Name) and target.path in ("S", "R"):
            if target.path in parts:
                reader.fail(term, "TS24", f"T.{target.path} stands here twice.")
            parts[target.path] = _iterators(reader, term)
        else:
            offset.append(_on_axis(reader, term))
    return n.TileLayout(parts.get("S", ()), parts.get("R", ()), tuple(offset), reader.text.span(node))


def _terms(node: ast.expr) -> list[ast.expr]:
    """The operands of a chain of sums, from left to right."""
    found: list[ast.expr] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            pending += [part.right, part.left]
        else:
            found.append(part)
    return found


def _iterators(reader: Evaluator, node: ast.Subscript) -> tuple[n.LayoutIter, ...]:
    pair = node.slice
    if isinstance(pair, ast.Slice):
        if pair.lower is None or pair.upper is None or pair.step is not None:
            reader.fail(node, "TS24", "a shape and its strides stand here, as in T.S[(2, 3):(3, 1)].")
        extents = [reader.expr(part) for part in _listed(pair.lower)]
        strides = [_on_axis(reader, part) for part in _listed(pair.upper)]
        if len(extents) != len(strides):
            reader.fail(node, "TS24", f"there are {len(extents)} extents, but {len(strides)} strides.")
    else:
        extents = [reader.expr(part) for part in _listed(pair)]
        strides = _default_strides(reader, extents, node)
    span = reader.text.span(node)
    return tuple(n.LayoutIter(e, s, span) for e, s in zip(extents, strides, strict=True))


def _default_strides(reader: Evaluator, extents: list[n.Expr], node: ast.expr) -> list[n.OnAxis]:
    found: list[n.OnAxis] = []
    step: n.Expr = const(1, extents[-1].dtype) if extents else const(1)
    for extent in reversed(extents):
        found.append(n.OnAxis(step))
        step = reader.as_expr(binary("*", step, extent), node, extent.dtype)
    return found[::-1]


def _listed(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else [node]


def _on_axis(reader: Evaluator, node: ast.expr) -> n.OnAxis:
    span = reader.text.span(node)
    match node:
        case ast.BinOp(value, ast.MatMult(), axis):
            name = ast.unparse(axis)
            name = name[name.rfind(_AXES) + len(_AXES) :] if _AXES in name else name
            if not name.isidentifier():
                reader.fail(axis, "TS21", "an axis stands here, as in 4 @ Axis.laneid.")
            return n.OnAxis(reader.expr(value), name, span)
        case _:
            return n.OnAxis(reader.expr(node), span=span)
