"""What differs from thread to thread in a kernel of tiles: on which axes of the threads each value depends.

The number of a thread spreads through lets, local memory (also stores of plain values under a condition on it), trip
counts, and loops that only some threads leave, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorir.tir import nodes as n
from tensorir.tir.builtins import builtin_of
from tensorir.tir.trees import children, walk

__all__ = ["NONE", "Axes", "Dependence", "is_local", "parts_of"]

Axes = frozenset[int]
NONE: Axes = frozenset()
_POINTING = ("address_of", "access_ptr", "region")


def is_local(buffer: n.Buffer) -> bool:
    """Whether each thread has its own copy; a fragment is one tile that the threads of a block share out."""
    return buffer.scope.startswith("local") and buffer.scope != "local.fragment"


@dataclass(slots=True)
class Dependence:
    """The axes, of those in `all`, on which variables and the memory behind them depend (`of`), found by `spread`.

    `updating` are the axes along which an atomic update that no T.parallel shares out is done by every thread.
    `leaving` says for loops by identity on which axes it depends when they are left; `ended` where a thread returns
    and others go on.
    """

    all: Axes
    updating: Axes
    of: dict[n.Node, Axes] = field(default_factory=dict[n.Node, Axes])
    roots: dict[n.Var, n.Var] = field(default_factory=dict[n.Var, n.Var])
    leaving: dict[int, Axes] = field(default_factory=dict[int, Axes])
    ended: n.Node | None = None
    _changed: bool = False

    def spread(self, body: n.Stmt) -> None:
        """Look at the statements until nothing changes."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._statement(body, NONE, [])

    def root(self, var: n.Var) -> n.Var:
        """The variable of the memory that a pointer points into."""
        while var in self.roots:
            var = self.roots[var]
        return var

    def axes(self, *nodes: n.Node, parallel: bool = False) -> Axes:
        """On which axes the nodes, and all below them, depend; in T.parallel an atomic update is one for all."""
        found = NONE
        for node in nodes:
            for part in _uses(node):
                match part:
                    case n.Var():
                        found |= self.of.get(self.root(part), NONE)
                    case n.Buffer(data=data):
                        found |= self.of.get(self.root(data), NONE)
                    case n.Call(op="launch_thread_idx", args=(n.IntImm(axis), *_)):
                        found |= self.all & {axis}
                    case n.For(kind=n.ForKind.PARALLEL):
                        found |= self.axes(*children(part), parallel=True)
                    case n.Call() if not parallel and _updates(part):
                        found |= self.updating
                    case _:
                        pass
        return found

    def control(self, node: n.Stmt) -> Axes:
        """On which axes it depends whether, and how often, the statements below this one run."""
        match node:
            case n.For(_, low, extent, step=step):
                given = (low, extent) if step is None else (low, extent, step)
                return self.axes(*given) | self.leaving.get(id(node), NONE)
            case n.While(condition):
                return self.axes(condition) | self.leaving.get(id(node), NONE)
            case n.IfThenElse(condition):
                return self.axes(condition)
            case n.BlockRealize(values, predicate):
                return self.axes(predicate, *values)
            case _:
                return NONE

    def _statement(self, node: n.Stmt, under: Axes, loops: list[tuple[n.Stmt, Axes]]) -> None:
        """Spread what a statement stores, under conditions that depend on some axes, inside of loops."""
        inner = under
        if control := self.control(node):
            inner = under | control | self.axes(node)
        match node:
            case n.LetStmt(var, value):
                self._join(var, self.axes(value))
            case n.For(var, low, extent):
                self._join(var, self.axes(low, extent))
                if node.kind is not n.ForKind.PARALLEL:
                    self._statement(node.body, inner, [*loops, (node, inner)])
            case n.While(body=body):
                self._statement(body, inner, [*loops, (node, inner)])
            case n.Break() | n.Continue() | n.Evaluate(n.Call(op="break_loop" | "continue_loop")):
                if loops and under - loops[-1][1]:
                    left = id(loops[-1][0])
                    self._changed |= bool(under - self.leaving.get(left, NONE))
                    self.leaving[left] = self.leaving.get(left, NONE) | under
            case n.Evaluate(n.Call(op="ret" | "thread_return")):
                self.ended = node if under else self.ended
            case n.BufferStore(buffer):
                if is_local(buffer):
                    self._join(self.root(buffer.data), under | self.axes(node))
                self._pointed(node, under)
            case n.Evaluate() | n.AssertStmt():
                self._pointed(node, under)
            case n.DeclBuffer(buffer, n.Var() as data) if buffer.data is not data:
                self.roots[buffer.data] = data
            case n.BlockRealize(values, _, block):
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self._join(iterator.var, self.axes(value))
                self.roots |= {view.buffer.data: view.source.buffer.data for view in block.match_buffers}
            case _:
                pass
        if not isinstance(node, n.For | n.While):
            for part in parts_of(node):
                self._statement(part, inner, loops)

    def _pointed(self, node: n.Stmt, under: Axes) -> None:
        """Local memory that a call is given a pointer to may be stored to."""
        for part in walk(node):
            if isinstance(part, n.Call) and part.op in _POINTING:
                for load in part.args[:1]:
                    if isinstance(load, n.BufferLoad) and is_local(load.buffer):
                        self._join(self.root(load.buffer.data), under | self.axes(node))

    def _join(self, var: n.Node, axes: Axes) -> None:
        before = self.of.get(var, NONE)
        if axes - before:
            self.of[var] = before | axes
            self._changed = True


def parts_of(node: n.Stmt) -> list[n.Stmt]:
    """The statements directly below one."""
    match node:
        case n.SeqStmt(parts):
            return list(parts)
        case n.For(body=body) | n.While(body=body) | n.AttrStmt(body=body) | n.BufferRealize(body=body):
            return [body]
        case n.IfThenElse(_, then, otherwise):
            return [then] if otherwise is None else [then, otherwise]
        case n.BlockRealize(_, _, block):
            return [block]
        case n.Block(body=body, init=init):
            return [body] if init is None else [init, body]
        case _:
            return []


def _uses(node: n.Node) -> Iterator[n.Node]:
    """The nodes at and below one, without what parallel loops hold."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, n.Buffer) and not (isinstance(node, n.For) and node.kind is n.ForKind.PARALLEL):
            pending.extend(children(node))


def _updates(call: n.Call) -> bool:
    """Whether every thread that comes to a call changes an element once more."""
    known = builtin_of(call)
    name = known.op if isinstance(known, n.Call) else call.op
    return isinstance(name, str) and name.startswith("atomic_") and name != "atomic_load"
