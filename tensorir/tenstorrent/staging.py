"""Computations that use memory itself, as computations on tiles with a copy in front or behind.

An access of a loop nest stays within a box: what its indices are made of outside of the nest says where the box starts,
what they are made of inside says how large it is. The box of a load is copied into a tile in front of the nest. The box
of a store is copied out of one behind it, where the nest writes all of it; that of an atomic operation is added to
memory, where the nest meets each element once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NoReturn

from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.build import const, nothing
from tensorir.tir.dtypes import HANDLE, INT32
from tensorir.tir.ranges import Bounds, bounds_in, interval
from tensorir.tir.trees import transform, walk

_PLACES = frozenset(("address_of", "access_ptr", "region", "tvm_access_ptr"))


@dataclass(frozen=True, slots=True)
class Staged:
    """The copies in front of a computation, the computation on tiles, the copies behind it."""

    loads: tuple[n.Call, ...]
    statement: n.Stmt
    stores: tuple[n.Call, ...]


def staged(node: n.Stmt, outer: Iterable[n.Buffer]) -> Staged | None:
    """A computation without its accesses of the buffers `outer`; None where it has none.

    Raises TN07 for an access whose box is not known, and for a store that the nest does not write all of.
    """
    memory = frozenset(outer)
    node, atomics = _as_stores(node, memory)
    uses = [part for part in walk(node) if isinstance(part, n.BufferLoad | n.BufferStore) and part.buffer in memory]
    for part in walk(node):
        if isinstance(part, n.Call) and part.op in _PLACES:
            for inner in part.args:
                used = inner.buffer if isinstance(inner, n.BufferLoad) else inner
                if isinstance(used, n.Buffer) and used in memory:
                    _refuse(used, part.span)
    if not uses:
        return None
    nest = _Nest(bounds_in(node), {v for part in walk(node) if (v := bound_by(part)) is not None})
    covered = _covering(node)
    for part in uses:
        if isinstance(part, n.BufferStore):
            nest.store(part, covered.get(id(part)), id(part) in atomics)
    changed = [part.buffer for part in uses if isinstance(part, n.BufferStore)]
    for part in uses:
        if id(part) in atomics and changed.count(part.buffer) > 1:
            _refuse(part.buffer, part.span, ", which changes it at other places too")
    called = {(p.buffer, p.indices): atomics[id(p)] for p in uses if isinstance(p, n.BufferStore) and id(p) in atomics}
    for part in uses:
        if isinstance(part, n.BufferLoad):
            nest.load(part)

    def rule(part: n.Node) -> n.Node | None:
        match part:
            case n.BufferLoad(buffer, indices) if buffer in memory:
                tile = nest.loads[buffer, indices]
                return n.BufferLoad(tile.buffer, tile.inside, span=part.span)
            case n.BufferStore(buffer, value, indices) if buffer in memory:
                tile = nest.stores[buffer, indices]
                return n.BufferStore(tile.buffer, value, tile.inside, None, part.span)
            case n.DeclBuffer(buffer) if buffer in memory:
                return nothing(node.span)
            case _:
                return None

    made = transform(node, rule)
    loads = tuple(n.Call(HANDLE, "copy", (tile.outside, tile.whole), span=node.span) for tile in nest.loads.values())
    stores = tuple(
        n.Call(HANDLE, called.get(key, "copy"), (tile.whole, tile.outside), span=node.span)
        for key, tile in nest.stores.items()
    )
    return Staged(loads, made, stores)


_ATOMIC = {f"atomic_{k}{end}": f"atomic{k}" for k in ("add", "max", "min") for end in ("", "_elem_op")}
"""Atomic operations on an element by those on a tile."""


def _as_stores(node: n.Stmt, memory: frozenset[n.Buffer]) -> tuple[n.Stmt, dict[int, str]]:
    """A computation whose atomic operations on elements of memory are stores, and by identity what these are on a tile.

    The operation on the tile behind the nest changes each element once, as the nest does where it meets none twice.
    """
    found: dict[int, str] = {}

    def rule(part: n.Node) -> n.Node | None:
        match part:
            case n.Evaluate(
                n.Call(
                    op=str(op),
                    args=(
                        n.Call(op="access_ptr" | "address_of", args=(n.BufferLoad() as at, *_)),
                        n.Expr() as value,
                        *_,
                    ),
                )
            ) if op in _ATOMIC and at.buffer in memory:
                value = value if value.dtype == at.buffer.dtype else n.Cast(value, at.buffer.dtype)
                store = n.BufferStore(at.buffer, value, at.indices, None, part.span)
                found[id(store)] = _ATOMIC[op]
                kept.append(store)
                return store
            case _:
                return None

    kept: list[n.Stmt] = []  # an identity is of what lives
    made = transform(node, rule)
    assert found.keys() <= {id(part) for part in walk(made)}  # none has become a plain store
    return made, found


def _refuse(buffer: n.Buffer, span: Span, why: str = "") -> NoReturn:
    message = f"{buffer.name!r} is used inside of a computation{why}, and a core computes on its tiles."
    raise refuse("TN07", message, "copy it into a tile first, or from one afterwards: T.copy.", at=span)


def bound_by(node: n.Node) -> n.Var | None:
    """The variable that a loop or a let binds."""
    match node:
        case n.For(var) | n.LetStmt(var) | n.Let(var):
            return var
        case _:
            return None


def _covering(node: n.Stmt) -> dict[int, frozenset[n.Var]]:
    """For each store that runs in every iteration of the loops around it, these loops' variables.

    A condition that a store lies inside of its buffer counts as none: outside, the copy behind the nest writes nothing.
    """
    found: dict[int, frozenset[n.Var]] = {}
    pending: list[tuple[n.Stmt, frozenset[n.Var], tuple[n.Expr, ...]]] = [(node, frozenset(), ())]
    while pending:
        current, around, conditions = pending.pop()
        match current:
            case n.BufferStore(predicate=None) if all(_is_bound(c, current, around) for c in conditions):
                found[id(current)] = around
            case n.SeqStmt(parts):
                pending.extend((part, around, conditions) for part in parts)
            case n.For(var, n.IntImm(), n.IntImm(), body=body):
                pending.append((body, around | {var}, conditions))
            case n.IfThenElse(condition, then, None):
                pending.append((then, around, (*conditions, *_conjuncts(condition))))
            case _:
                pass
    return found


def _conjuncts(condition: n.Expr) -> tuple[n.Expr, ...]:
    match condition:
        case n.And(a, b):
            return (*_conjuncts(a), *_conjuncts(b))
        case _:
            return (condition,)


def _is_bound(condition: n.Expr, store: n.BufferStore, around: frozenset[n.Var]) -> bool:
    """True if a condition is that an index of a store, which varies in its nest, lies below the buffer's extent."""
    match condition:
        case n.LT(index, limit) | n.GT(limit, index):
            dims = zip(store.indices, store.buffer.shape, strict=True)
            varies = any(isinstance(v, n.Var) and v in around for v in walk(index))
            return varies and any(index == i and limit == extent for i, extent in dims)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile in the place of a box: the box, the tile, and the indices of the access in it."""

    buffer: n.Buffer
    inside: tuple[n.Expr, ...]
    starts: tuple[n.Expr, ...]
    memory: n.Buffer
    span: Span

    @property
    def outside(self) -> n.Call:
        return _region(self.memory, self.starts, self.buffer.shape, self.span)

    @property
    def whole(self) -> n.Call:
        zeros = tuple(const(0, INT32) for _ in self.buffer.shape)
        return _region(self.buffer, zeros, self.buffer.shape, self.span)


_Access = tuple[n.Buffer, tuple[n.Expr, ...]]


@dataclass(slots=True)
class _Nest:
    known: Mapping[n.Var, Bounds]
    bound: set[n.Var]
    loads: dict[_Access, _Tile] = field(default_factory=dict[_Access, _Tile])
    stores: dict[_Access, _Tile] = field(default_factory=dict[_Access, _Tile])

    def load(self, part: n.BufferLoad) -> None:
        key = part.buffer, part.indices
        if key not in self.loads:
            self.loads[key] = self._tile(part.buffer, part.indices, part.span)

    def store(self, part: n.BufferStore, around: frozenset[n.Var] | None, atomic: bool) -> None:
        tile = self.stores.get((part.buffer, part.indices)) or self._tile(part.buffer, part.indices, part.span)
        variables = [_digits(index, self.known) for index in tile.inside]
        chosen = [v for found in variables for v in found or ()]
        all_known = all(v is not None for v in variables) and len(set(chosen)) == len(chosen)
        if around is None or not all_known or not set(chosen) <= around:
            _refuse(part.buffer, part.span, ", which may leave parts of a tile as they were")
        if atomic and frozenset(chosen) != around:
            _refuse(part.buffer, part.span, ", which changes an element of it more than once")
        self.stores[part.buffer, part.indices] = tile

    def _tile(self, buffer: n.Buffer, indices: Sequence[n.Expr], span: Span) -> _Tile:
        starts: list[n.Expr] = []
        inside: list[n.Expr] = []
        sizes: list[n.Expr] = []
        for index in indices:
            without, within = self._apart(buffer, index, span)
            reach = interval(_sum(within), self.known)
            if reach is None:
                _refuse(buffer, span, ", at places that are not known before")
            low, high = reach
            starts.append(_sum([*without, n.IntImm(low, INT32)] if low else without))
            inside.append(_sum([*within, n.IntImm(-low, INT32)] if low else within))
            sizes.append(n.IntImm(high - low + 1, INT32))
        data = n.Var(f"{buffer.name}_tile", n.PointerType(n.PrimType(buffer.dtype), "shared"), buffer.span)
        tile = n.Buffer(data, buffer.dtype, tuple(sizes), name=f"{buffer.name}_tile", span=buffer.span)
        return _Tile(tile, tuple(inside), tuple(starts), buffer, span)

    def _apart(self, buffer: n.Buffer, index: n.Expr, span: Span) -> tuple[list[n.Expr], list[n.Expr]]:
        """The terms of an index that do not depend on the nest, and those that depend on nothing else."""
        without: list[n.Expr] = []
        within: list[n.Expr] = []
        for term in _terms(index, 1):
            variables = {v for v in walk(term) if isinstance(v, n.Var)}
            own = variables & self.bound
            if any(isinstance(part, n.BufferLoad) for part in walk(term)) or (own and own != variables):
                _refuse(buffer, span, ", at places that are not known before")
            (within if own else without).append(term)
        return without, within


def _terms(expr: n.Expr, factor: int) -> list[n.Expr]:
    """An index as a sum of terms."""
    match expr:
        case n.Add(a, b):
            return [*_terms(a, factor), *_terms(b, factor)]
        case n.Sub(a, b):
            return [*_terms(a, factor), *_terms(b, -factor)]
        case n.Mul(a, n.IntImm(value)) | n.Mul(n.IntImm(value), a):
            return _terms(a, factor * value)
        case n.Cast(value, dtype) if dtype.is_integer and value.dtype.is_integer and value.dtype.bits <= dtype.bits:
            return _terms(value, factor)
        case n.IntImm(value):
            return [n.IntImm(value * factor, expr.dtype)] if value else []
        case _:
            return [expr if factor == 1 else n.Mul(expr, n.IntImm(factor, expr.dtype))]


def _digits(index: n.Expr, known: Mapping[n.Var, Bounds]) -> list[n.Var] | None:
    """The variables of which an index in a tile is the number that they are the digits of: v, or i * 4 + v for v < 4.

    Such an index takes each of its values once. None for anything else.
    """
    steps: dict[int, n.Var] = {}
    for term in _terms(index, 1):
        match term:
            case n.Var():
                step, var = 1, term
            case n.Mul(n.Var() as var, n.IntImm(step)):
                pass
            case _:
                return None
        if step in steps:
            return None
        steps[step] = var
    size = 1
    for step, var in sorted(steps.items(), key=lambda item: item[0]):
        low, high = known.get(var, (1, 0))
        if step != size or low != 0:
            return None
        size *= high + 1
    return list(steps.values())


def _sum(terms: Sequence[n.Expr]) -> n.Expr:
    """The sum of terms, constants last and as one."""
    constant = sum(t.value for t in terms if isinstance(t, n.IntImm))
    others = [t if t.dtype == INT32 else n.Cast(t, INT32) for t in terms if not isinstance(t, n.IntImm)]
    if not others:
        return n.IntImm(constant, INT32)
    total = reduce(n.Add, others)
    return n.Add(total, n.IntImm(constant, INT32)) if constant else total


def _region(buffer: n.Buffer, starts: Sequence[n.Expr], sizes: Sequence[n.Expr], span: Span) -> n.Call:
    first = n.BufferLoad(buffer, tuple(starts), span=span)
    return n.Call(HANDLE, "region", (first, const(3, INT32), *sizes), span=span)
