"""How blocks and buffers lie in tiles of 32 × 32 elements: matrices by their last two dims, vectors as a row or column.

A vector lies along the columns of a tile, as one row, unless what reads it says otherwise: v[i] where y[i, j] is
written, and sums along rows, make it a column. Everything that is copied into it or out of it lies as it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tenstorrent.kernels.nodes import Kernel, Program, Work, ops_of
from tensorir.tenstorrent.metal.cards import refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32
from tensorir.tir.tiles.operations import Box, Copy, Reduce, is_tile, operation
from tensorir.tir.walk import walk

__all__ = ["TILE", "Shape", "Shapes", "extents", "matrix_box", "shapes_of"]

TILE = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """Matrices: how many, and the rows and columns of each."""

    count: int
    rows: int
    columns: int

    @property
    def high(self) -> int:
        """The tiles below each other."""
        return -(-self.rows // TILE)

    @property
    def wide(self) -> int:
        """The tiles beside each other."""
        return -(-self.columns // TILE)

    @property
    def tiles(self) -> int:
        return self.count * self.high * self.wide


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of buffers; `upright` are the vectors that lie as columns."""

    upright: frozenset[n.Buffer]

    def of(self, buffer: n.Buffer) -> Shape:
        sizes = extents(buffer)
        if len(sizes) < 2:
            size = prod(sizes)
            return Shape(1, size, 1) if buffer in self.upright else Shape(1, 1, size)
        return Shape(prod(sizes[:-2]), *sizes[-2:])


def extents(buffer: n.Buffer) -> tuple[int, ...]:
    """The extents of a buffer; raises TN02 for those that only a call tells."""
    found = tuple(e.value for e in buffer.shape if isinstance(e, n.IntImm))
    if len(found) < len(buffer.shape):
        message = f"{buffer.name!r} has extents that only a call tells, and its tiles are counted before."
        raise DiagnosticError(Diagnostic("TN02", message, buffer.span, help="give its sizes: ti.tt.sized(f, m=64)."))
    return found


def matrix_box(box: Box, shapes: Shapes) -> tuple[list[n.Expr], list[int], list[int]]:
    """The starts, extents and buffer's extents of a box with exactly two dims behind those that count matrices."""
    starts, whole = list(box.starts), list(extents(box.buffer))
    sizes: list[int] = []
    for e in box.extents:
        if not isinstance(e, n.IntImm):
            message = f"a box of {box.buffer.name!r} has extents that only a call tells."
            refuse(message, box.span, "write them as numbers.")
        sizes.append(e.value)
    zero = n.IntImm(0, INT32)
    if len(whole) == 1:
        at = 1 if box.buffer in shapes.upright else 0
        starts.insert(at, zero)
        sizes.insert(at, 1)
        whole.insert(at, 1)
    return starts, sizes, whole


def shapes_of(program: Program) -> Shapes:
    """The shapes of all buffers of a program; raises TN16 for a vector that is a row here and a column there."""
    kinds: dict[n.Buffer, tuple[str, n.Node]] = {}
    same: list[tuple[n.Buffer, n.Buffer]] = []

    def say(buffer: n.Buffer, kind: str, node: n.Node) -> None:
        found = kinds.setdefault(buffer, (kind, node))
        if found[0] != kind:
            message = f"{buffer.name!r} is a {kind} of its tiles here and a {found[0]} elsewhere, and it lies one way."
            span = node.span if isinstance(node, n.Stmt | n.Expr) else buffer.span
            raise DiagnosticError(
                Diagnostic("TN16", message, span, help="copy it into another vector where it is loaded.")
            )

    for kernel in program.kernels:
        for node in _nodes(kernel):
            match node:
                case n.Call() if is_tile(node):
                    match operation(node):
                        case Copy(src, dst) if len(src.buffer.shape) == 1 == len(dst.buffer.shape):
                            same.append((src.buffer, dst.buffer))
                        case Copy(src, dst):
                            for vector, other in ((src, dst), (dst, src)):
                                if len(vector.buffer.shape) == 1 and len(other.buffer.shape) > 1:
                                    wide = other.wide and other.wide[-1] == len(other.extents) - 1
                                    say(vector.buffer, "row" if wide else "column", node)
                        case Reduce(src, dst, dim=dim) if len(dst.buffer.shape) == 1 and len(src.buffer.shape) > 1:
                            say(dst.buffer, "column" if dim == len(src.buffer.shape) - 1 else "row", node)
                        case _:
                            pass
                case n.BufferStore(buffer, value, at):
                    variables = [v for v in at if isinstance(v, n.Var)]
                    for load in (part for part in walk(value) if isinstance(part, n.BufferLoad)):
                        if len(load.buffer.shape) != 1 or not isinstance(load.indices[0], n.Var):
                            continue
                        if len(buffer.shape) == 1:
                            same.append((buffer, load.buffer))
                        elif len(variables) >= 2 and load.indices[0] in variables[-2:]:
                            say(load.buffer, "column" if load.indices[0] == variables[-2] else "row", load)
                case _:
                    pass
    for _ in range(len(same) + 1):
        for a, b in same:
            for one, other in ((a, b), (b, a)):
                if one in kinds:
                    say(other, *kinds[one])
    return Shapes(frozenset(buffer for buffer, (kind, _) in kinds.items() if kind == "column"))


def _nodes(kernel: Kernel) -> Iterator[n.Node]:
    for op in ops_of(kernel.body):
        if isinstance(op, Work):
            yield from walk(op.statement)
