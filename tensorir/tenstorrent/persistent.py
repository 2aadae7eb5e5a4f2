"""Persistent kernels: a loop over the tiles of one core in the place of the grid."""

from __future__ import annotations

from dataclasses import replace

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tenstorrent.grid import Axis, F, binding, grid_of, is_persistent, on_functions
from tensorir.tenstorrent.schedule import schedule_of
from tensorir.tir import nodes as n
from tensorir.tir.build import const, seq
from tensorir.tir.dtypes import INT32
from tensorir.tir.walk import transform

__all__ = ["RUNTIME_ARGS", "persistent"]

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
        raise DiagnosticError(Diagnostic("TN06", message, func.span, help="take the kernel with its grid."))
    grid = grid_of(func)
    columns = schedule_of(func).order == "column_major"
    names = {p.name for p in func.params} | {b.name for b in func.buffer_map.values()}
    if taken := sorted(names & set(RUNTIME_ARGS)):
        message = f"{func.name!r} has a parameter {taken[0]!r}, which a persistent kernel adds."
        raise DiagnosticError(Diagnostic("TN06", message, func.span, help="give the parameter another name."))
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
