"""What can be said of a loop before it runs: which loops of a nest may be lanes, and which buffers its body writes.

A loop variable can only be a lane if every element that the body writes depends on it; whether the iterations are then
in fact independent is decided while they run, by the log of `hazards`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, Effect
from tensorir.tir.walk import walk

__all__ = ["Facts", "facts", "written_alike"]

_HARMLESS = (Effect.PURE, Effect.EXPR_ANNOTATION, Effect.READ_STATE, Effect.EMBED_INFO)


@dataclass(slots=True)
class Facts:
    """`lanes`: the loop variables that every write depends on; none where the body has other effects."""

    lanes: frozenset[n.Var]
    written: frozenset[n.Buffer]
    pure: bool


@dataclass(slots=True)
class _Search:
    """Follows which variables depend on which loops, statement by statement."""

    loops: frozenset[n.Var]
    depends: dict[n.Var, frozenset[n.Var]]
    lanes: frozenset[n.Var]
    written: set[n.Buffer] = field(default_factory=set[n.Buffer])
    own: set[n.Buffer] = field(default_factory=set[n.Buffer])
    own_data: set[n.Var] = field(default_factory=set[n.Var])
    pure: bool = True

    def of(self, expr: n.Node) -> frozenset[n.Var]:
        """The loops on which an expression depends."""
        found: frozenset[n.Var] = frozenset()
        for node in walk(expr):
            match node:
                case n.Var():
                    found |= self.depends.get(node, frozenset())
                case n.Let(var, value):
                    self.depends[var] = self.of(value)
                case n.Call(op=str(name)):
                    row = BUILTINS.get(name)
                    if row is None or row.effect not in _HARMLESS:
                        self.pure = False
                case n.Call():
                    self.pure = False
                case _:
                    pass
        return found

    def define(self, var: n.Var, *sources: n.Node) -> None:
        self.depends[var] = frozenset[n.Var]().union(*(self.of(source) for source in sources))

    def statement(self, node: n.Stmt, inner: bool) -> None:
        """Look at one statement; `inner` says that a loop inside of the nest catches `break`."""
        match node:
            case n.SeqStmt(parts):
                for part in parts:
                    self.statement(part, inner)
            case n.LetStmt(var, value):
                self.define(var, value)
            case n.BufferStore(buffer, value, indices):
                self.of(value)
                found = frozenset[n.Var]().union(*(self.of(index) for index in indices))
                if buffer not in self.own and buffer.data not in self.own_data:
                    self.written.add(buffer)
                    self.lanes &= found
            case n.For(loop_var, low, extent, n.ForKind.THREAD_BINDING):
                self.pure = False
            case n.For(loop_var, low, extent):
                self.define(loop_var, low, extent)
                self.statement(node.body, True)
            case n.While(condition, body):
                self.of(condition)
                self.statement(body, True)
            case n.IfThenElse(condition, then, otherwise):
                self.of(condition)
                self.statement(then, inner)
                if otherwise is not None:
                    self.statement(otherwise, inner)
            case n.BlockRealize(values, predicate, block):
                self.of(predicate)
                for iterator, value in zip(block.iter_vars, values, strict=True):
                    self.define(iterator.var, value)
                self._block(block, inner)
            case n.Evaluate(value):
                self.of(value)
            case n.AssertStmt(condition):
                self.of(condition)
            case n.AttrStmt(_, attr_key, _, body):
                if attr_key in ("thread_extent", "virtual_thread"):
                    self.pure = False
                self.statement(body, inner)
            case n.AllocBuffer(buffer):
                self.own.add(buffer)
                self.own_data.add(buffer.data)
            case n.Allocate(var):
                self.own_data.add(var)
            case n.DeclBuffer():
                if node.data in self.own_data:
                    self.own.add(node.buffer)
            case n.Break() | n.Continue():
                self.pure &= inner
            case _:
                self.pure = False

    def _block(self, block: n.Block, inner: bool) -> None:
        for buffer in block.alloc_buffers:
            self.own.add(buffer)
            self.own_data.add(buffer.data)
        for match in block.match_buffers:
            self.own_match(match)
        if block.init is not None:
            self.statement(block.init, inner)
        self.statement(block.body, inner)

    def own_match(self, match: n.MatchBufferRegion) -> None:
        """Writes into a matched region depend on what the region depends on; counted as writes everywhere."""
        if match.source.buffer in self.own:
            self.own.add(match.buffer)
            return
        offset = frozenset[n.Var]().union(*(self.of(r.min) for r in match.source.region))
        self.written.add(match.source.buffer)
        self.lanes &= offset


def facts(loops: tuple[n.Var, ...], body: n.Stmt) -> Facts:
    """What is known of a nest of loops over a body."""
    names = frozenset(loops)
    search = _Search(names, {var: frozenset([var]) for var in loops}, names)
    search.statement(body, False)
    matched = {b for b in search.written if b not in search.own}
    return Facts(search.lanes if search.pure else frozenset(), frozenset(matched), search.pure)


def written_alike(loop: n.For) -> frozenset[Span]:
    """Where stores stand that write one loop-invariant value to the same elements in every iteration.

    `for i in T.parallel(8): A[0] = B[1]` writes B[1] whichever iteration comes last.
    """
    names = frozenset([loop.loop_var])
    search = _Search(names, {loop.loop_var: names}, names)
    search.statement(loop.body, False)
    if not search.pure:
        return frozenset()
    places = Counter(store.span for store in walk(loop.body) if isinstance(store, n.BufferStore))
    changing = search.own_data | {b.data for b in (*search.written, *search.own)}
    found: set[Span] = set()
    for store, conditions in _stores(loop.body, ()):
        inside = walk(store.value)
        varies = any(v in search.depends or (isinstance(v, n.BufferLoad) and v.buffer.data in changing) for v in inside)
        elsewhere = any(search.of(part) for part in (*store.indices, *conditions))
        if not varies and not elsewhere and places[store.span] == 1:
            found.add(store.span)
    return frozenset(found)


def _stores(node: n.Stmt, conditions: tuple[n.Expr, ...]) -> Iterator[tuple[n.BufferStore, tuple[n.Expr, ...]]]:
    """The stores of a body, each with the conditions and bounds around it."""
    match node:
        case n.SeqStmt(parts):
            for part in parts:
                yield from _stores(part, conditions)
        case n.BufferStore():
            yield node, conditions
        case n.For(_, low, extent):
            yield from _stores(node.body, (*conditions, low, extent))
        case n.IfThenElse(condition, then, otherwise):
            yield from _stores(then, (*conditions, condition))
            if otherwise is not None:
                yield from _stores(otherwise, (*conditions, condition))
        case n.BlockRealize(_, predicate, block):
            yield from _stores(block.body, (*conditions, predicate))
        case _:
            pass
