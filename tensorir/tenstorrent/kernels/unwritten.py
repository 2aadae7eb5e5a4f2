"""Tiles that a kernel reads before it writes any of them: what is there is left over from the tile before.

A loop is looked at as if it ran, and what stands in one branch only may write, and is not known to read. So a fault is
one in every run that comes to its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorir.tenstorrent.kernels.faults import Fault, fault_at
from tensorir.tenstorrent.kernels.nodes import Branch, Kernel, Loop, Op, Program, Work
from tensorir.tir import nodes as n
from tensorir.tir.tiles.operations import (
    Atomic,
    Box,
    Copy,
    Fill,
    Gemm,
    Im2col,
    Nothing,
    Reduce,
    Scan,
    Transpose,
    is_tile,
    operation,
)
from tensorir.tir.walk import children

__all__ = ["unwritten"]


def unwritten(program: Program) -> list[Fault]:
    """A fault for each tile of a kernel that is read before anything has been written to it."""
    found: list[Fault] = []
    for kernel in program.kernels:
        for op, buffer in _Reads.of(kernel).first.values():
            message = "nothing has written it before, and the tile before has left there what it had."
            found.append(fault_at(program, op, "read without write", buffer.name, {}, message))
    return found


@dataclass(slots=True)
class _Reads:
    """What may have been written so far, by its memory, and the first read of each memory of which that is nothing."""

    own: set[n.Var]
    written: set[n.Var] = field(default_factory=set[n.Var])
    first: dict[n.Var, tuple[Op, n.Buffer]] = field(default_factory=dict[n.Var, "tuple[Op, n.Buffer]"])

    @staticmethod
    def of(kernel: Kernel) -> _Reads:
        made = _Reads({buffer.data for buffer in kernel.tiles})
        made._body(kernel.body, sure=True)
        return made

    def _body(self, body: tuple[Op, ...], sure: bool) -> None:
        for op in body:
            match op:
                case Work(statement):
                    self._statement(statement, op, sure)
                case Loop(body=inner):
                    self._body(inner, sure)
                case Branch(_, then, otherwise):
                    self._body(then, sure=False)
                    self._body(otherwise, sure=False)
                case _:
                    pass

    def _statement(self, node: n.Stmt, op: Work, sure: bool) -> None:
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self._statement(part, op, sure)
            case n.For(_, low, extent, body=body):
                self._expression(op, sure, low, extent)
                self._statement(body, op, sure)
            case n.While(condition, body):
                self._expression(op, sure, condition)
                self._statement(body, op, sure)
            case n.IfThenElse(condition, then, otherwise):
                self._expression(op, sure, condition)
                self._statement(then, op, sure=False)
                if otherwise is not None:
                    self._statement(otherwise, op, sure=False)
            case n.AttrStmt(body=body) | n.BufferRealize(body=body):
                self._statement(body, op, sure)
            case n.BlockRealize(values, predicate, block):
                self._expression(op, sure, *values, predicate)
                self._statement(block.body, op, sure)
            case n.Evaluate(n.Call() as call) if is_tile(call):
                read, wrote = _boxes(call)
                for box in read:
                    self._read(box.buffer, op, sure)
                self.written |= {box.buffer.data for box in wrote}
            case n.BufferStore(buffer):
                self._expression(op, sure, *(part for part in children(node) if isinstance(part, n.Expr)))
                self.written.add(buffer.data)
            case _:
                self._expression(op, sure, *(part for part in children(node) if isinstance(part, n.Expr)))

    def _expression(self, op: Work, sure: bool, *parts: n.Expr) -> None:
        pending: list[tuple[n.Node, bool]] = [(part, sure) for part in parts]
        while pending:
            node, known = pending.pop()
            match node:
                case n.Call(op="if_then_else", args=(first, *_)):
                    pending += [(part, part is first and known) for part in children(node)]
                case n.Select(first) | n.And(first) | n.Or(first):
                    pending += [(part, part is first and known) for part in children(node)]
                case n.Call(op="address_of" | "access_ptr", args=(n.BufferLoad(buffer, indices), *_)):
                    self.written.add(buffer.data)
                    pending += [(index, known) for index in indices]
                case n.BufferLoad(buffer):
                    self._read(buffer, op, known)
                    pending += [(part, known) for part in children(node) if not isinstance(part, n.Buffer)]
                case n.Buffer():
                    self.written.add(node.data)
                case _:
                    pending += [(part, known) for part in children(node)]

    def _read(self, buffer: n.Buffer, op: Work, sure: bool) -> None:
        if sure and buffer.data in self.own and buffer.data not in self.written:
            self.first.setdefault(buffer.data, (op, buffer))


def _boxes(call: n.Call) -> tuple[list[Box], list[Box]]:
    """What a tile operation is sure to read, and what it writes."""
    match operation(call):
        case Copy(src, dst) | Transpose(src, dst) | Im2col(src, dst) | Scan(src, dst):
            return [src], [dst]
        case Atomic(src, dst):
            return [src, dst], [dst]
        case Fill(dst):
            return [], [dst]
        case Gemm(a, b, c, _, clear):
            return [a, b, *_kept(c, clear)], [c]
        case Reduce(src, dst, clear=clear):
            return [src, *_kept(dst, clear)], [dst]
        case Nothing():
            return [], []


def _kept(box: Box, clear: n.Expr) -> Iterator[Box]:
    """What an operation goes on from, where it never clears it before."""
    if isinstance(clear, n.IntImm) and not clear.value:
        yield box
