"""Trees of TIR: traversal, rewriting, equality up to names, other data types.

Traversal and rewriting of TIR, without recursion.

`walk` yields every node below one, parents first, in the order of the text; `transform` rebuilds a tree from its leaves
up with a rule that returns None for "unchanged".

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import Add, IntImm, PrimType, Var
>>> i = Var("i", PrimType(INT32))
>>> [type(n).__name__ for n in walk(Add(i, IntImm(1, INT32)))]
['Add', 'Var', 'IntImm']
>>> substitute(Add(i, i), {i: IntImm(2, INT32)})
T.Add(2, 2)

Structural equality of TIR, up to the names of variables, without recursion.

Two trees are equal if they have the same shape and a one-to-one map takes the variables and buffers that one *binds* to
those of the other. Free ones must be identical. Spans do not count, and neither do names of variables and buffers;
names of blocks and functions, attributes and annotations do.

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import IntImm, Let, PrimType, Var
>>> i, j, one = Var("i", PrimType(INT32)), Var("j", PrimType(INT32)), IntImm(1, INT32)
>>> structurally_equal(Let(i, one, i), Let(j, one, j)), structurally_equal(Let(i, one, i), Let(j, one, i))
(True, False)

Functions of TIR with other data types: the same text for another precision.

>>> from tensorir.tir.read import parse
>>> module = parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
...     for i in range(4):
...         B[i] = A[i] * T.float32(2)
... ''')
>>> function = retype(module, float32="float64")["main"]
>>> [str(b.dtype) for b in function.buffer_map.values()]
['float64', 'float64']
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeGuard, TypeVar, cast

from tensorir.nodes import occurrences, postorder
from tensorir.runtime.errors import refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.nodes import Buffer, Expr, IRModule, Node, PrimFunc, Var
from tensorir.tir.script.values import members

N = TypeVar("N", bound=Node)


@cache
def fields_of(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that say something: neither the span nor what follows from the others."""
    skipped = {"span", "module", "metadata"}
    return tuple(f.name for f in dataclasses.fields(kind) if f.init and f.name not in skipped)  # type: ignore[arg-type]


@cache
def _holders(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes, by their types."""
    plain = {"str", "int", "bool", "float", "DataType", "ForKind", "IterKind", "tuple[int, ...]", "tuple[str, ...]"}
    types = {f.name: f.type for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return () if issubclass(kind, Var) else tuple(name for name in fields_of(kind) if types[name] not in plain)


def children(node: Node) -> Sequence[Node]:
    """The nodes directly below, in the order of the fields (inside tuples and mappings too).

    Below a variable and below a *use* of a buffer there is nothing: they are names. A buffer that is itself the node
    has its data, shape, strides and offset below it.
    """
    found: list[Node] = []
    for name in _holders(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif type(value) not in _PLAIN:
            _collect(value, found)
    return found


_PLAIN = frozenset((str, int, bool, float, type(None), DataType))
"""The types of fields in which there is no node."""


def _collect(value: object, found: list[Node]) -> None:
    """The nodes that a field of a node holds, after those that were found."""
    if isinstance(value, Node):
        found.append(value)
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            _collect(item, found)
    elif type(value) not in _PLAIN and isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            _collect(key, found)
            _collect(item, found)


def walk(node: Node) -> Iterator[Node]:
    """Every node at and below this one, parents first; buffers appear where they are used, but are not entered."""
    return occurrences([node], lambda below: () if isinstance(below, Buffer) else children(below))


def transform(node: N, rule: Callable[[Node], Node | None]) -> N:
    """The tree with `rule` applied to every node, leaves first; None leaves a node as it is. Shared nodes stay shared.

    Variables and buffers are offered to the rule too; a rule that replaces one replaces it everywhere.
    """
    done: dict[int, Node] = {}
    for current in list(postorder([cast(Node, node)], children)):  # ids stay valid while the nodes live
        rebuilt = current if isinstance(current, Var) else _rebuild(current, done)
        changed = rule(rebuilt)
        done[id(current)] = rebuilt if changed is None else changed
    return done[id(node)]  # type: ignore[return-value]


def substitute(node: N, values: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None) -> N:
    """The tree with variables (and buffers) replaced wherever they are used."""
    known = buffers or {}

    def rule(current: Node) -> Node | None:
        if isinstance(current, Var):
            return values.get(current)
        return known.get(current) if isinstance(current, Buffer) else None

    return transform(node, rule)


def _rebuild(node: Node, done: Mapping[int, Node]) -> Node:
    """The node over the rebuilt nodes below it; itself, where those are unchanged."""
    changes: dict[str, object] = {}
    for name in fields_of(type(node)):
        value = getattr(node, name)
        new = _replaced(value, done)
        if new is not value:
            changes[name] = new
    if not changes:
        return node
    if isinstance(node, PrimFunc | IRModule):
        changes.setdefault("span", node.span)
    return dataclasses.replace(node, **changes)  # type: ignore[type-var]


def _replaced(value: object, done: Mapping[int, Node]) -> object:
    if isinstance(value, Node):
        return done.get(id(value), value)
    if isinstance(value, tuple):
        items = tuple(_replaced(item, done) for item in value)  # type: ignore[arg-type]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        before = cast("Mapping[object, object]", value)
        after = {_replaced(key, done): _replaced(item, done) for key, item in before.items()}
        same = all(a is b and after[a] is before[b] for a, b in zip(after, before, strict=True))
        return before if same else after
    return value


_BINDERS: dict[str, tuple[str, ...]] = {
    "For": ("loop_var",),
    "Let": ("var",),
    "LetStmt": ("var",),
    "IterVar": ("var",),
    "Allocate": ("buffer_var",),
    "AllocateConst": ("buffer_var",),
    "AllocBuffer": ("buffer",),
    "DeclBuffer": ("buffer",),
    "BufferRealize": ("buffer",),
    "MatchBufferRegion": ("buffer",),
    "Block": ("alloc_buffers",),
    "CommReducer": ("lhs", "rhs"),
    "IndexMap": ("initial_indices",),
}


def structurally_equal(a: n.Node, b: n.Node) -> bool:
    """True if the two are one tree but for spans and the names of what they bind."""
    return first_difference(a, b) is None


def first_difference(a: object, b: object) -> tuple[object, object] | None:
    """The first two parts in which the trees differ, in the order of the text; None where they are equal."""
    match = _Match(isinstance(a, n.Node) and a.is_closed)
    pending: list[tuple[object, object]] = [(a, b)]
    while pending:
        x, y = pending.pop()
        if x is y and not isinstance(x, n.Node):
            continue
        if isinstance(x, n.PrimFunc) and isinstance(y, n.PrimFunc):
            x, y = _canonical(x), _canonical(y)
        if _is_name(x) or _is_name(y):
            verdict = match.names(x, y)
            if verdict is None:
                return x, y
            pending.extend(verdict)
        elif isinstance(x, n.Node):
            if type(x) is not type(y):
                return x, y
            if isinstance(x, n.AttrStmt) and isinstance(y, n.AttrStmt) and not isinstance(x.node, n.Node):
                (facts, body), (other_facts, other) = _plain_attributes(x), _plain_attributes(y)
                pending += [(body, other), (facts, other_facts)]
                continue
            names = fields_of(type(x))
            binders = _BINDERS.get(type(x).__name__, ())
            if isinstance(x, n.AttrStmt) and isinstance(x.node, n.IterVar | n.Var) and x.attr_key in _THREAD_KEYS:
                binders = ("node",)
            if isinstance(x, n.DeclBuffer) and isinstance(y, n.DeclBuffer) and (x.data is None) == (y.data is None):
                match.bind(x.buffer.data, y.buffer.data)
            for name in binders:
                match.bind(getattr(x, name), getattr(y, name))
            skip = {"name"} if isinstance(x, n.IRModule) else ()
            pending.extend((getattr(x, f), getattr(y, f)) for f in reversed(names) if f not in skip)
        elif isinstance(x, tuple):
            if not isinstance(y, tuple) or len(x) != len(y):  # type: ignore[arg-type]
                return x, y  # type: ignore[return-value]
            pending.extend(zip(reversed(x), reversed(y), strict=True))  # type: ignore[arg-type]
        elif isinstance(x, Mapping):
            before = cast("Mapping[object, object]", x)
            if not isinstance(y, Mapping) or not _pair_up(before, cast("Mapping[object, object]", y), pending):
                return before, cast("object", y)
        elif isinstance(x, float) and isinstance(y, float):
            if struct.pack("d", x) != struct.pack("d", y) and not (x != x and y != y):
                return x, y
        elif type(x) is not type(y) or x != y:
            return x, y
    return None


def structural_hash(node: n.Node) -> int:
    """Equal trees have equal hashes; looks a few levels deep only."""
    return hash(_digest(node, 3))


_THREAD_KEYS = ("thread_extent", "virtual_thread")


class _Match:
    """The map between the names of two trees. In a `closed` tree every name is bound, so first uses bind."""

    def __init__(self, closed: bool) -> None:
        self._closed = closed
        self._forward: dict[n.Node, n.Node] = {}
        self._back: dict[n.Node, n.Node] = {}
        self._declared: set[tuple[n.Node, n.Node]] = set()

    def bind(self, x: object, y: object) -> None:
        xs, ys = members(x), members(y)
        if xs is not None and ys is not None:
            for a, b in zip(xs, ys, strict=False):
                self.bind(a, b)
        elif isinstance(x, n.IterVar) and isinstance(y, n.IterVar):
            self.bind(x.var, y.var)
        elif _is_name(x) and _is_name(y) and x not in self._forward and y not in self._back:
            self._forward[x], self._back[y] = y, x
            if isinstance(x, n.Buffer) and isinstance(y, n.Buffer):
                self.bind(x.data, y.data)

    def names(self, x: object, y: object) -> list[tuple[object, object]] | None:
        """The rest to be compared of two names, or None where they cannot be the same."""
        if not _is_name(x) or not _is_name(y) or type(x) is not type(y):
            return None
        if self._closed:
            self.bind(x, y)
        if self._forward.get(x, x) is not y or self._back.get(y, y) is not x:
            return None
        if x is y or (x, y) in self._declared:
            return []
        self._declared.add((x, y))
        if isinstance(x, n.Var) and isinstance(y, n.Var):
            return [(x.type, y.type)]
        return [(getattr(x, f), getattr(y, f)) for f in reversed(fields_of(type(x))) if f != "name"]


def _is_name(value: object) -> TypeGuard[n.Node]:
    return isinstance(value, n.Node) and value.is_name


def _canonical(func: n.PrimFunc) -> n.PrimFunc:
    """Without a root block that says nothing, which text may leave out; buffers in the order of their parameters."""
    body = func.body
    match body:
        case n.BlockRealize((), n.IntImm(1), n.Block((), (), (), "root", inner, None, (), (), annotations)) if (
            not annotations
        ):
            body = inner
        case _:
            pass
    buffers = {param: func.buffer_map[param] for param in func.params if param in func.buffer_map}
    return replace(func, body=body, buffer_map=buffers)


def _plain_attributes(statement: n.Stmt) -> tuple[tuple[tuple[str, n.Attribute, n.Attribute], ...], n.Stmt]:
    """Attributes of no node that follow each other, by key: their order says nothing; and what they stand around."""
    found: list[tuple[str, n.Attribute, n.Attribute]] = []
    while isinstance(statement, n.AttrStmt) and not isinstance(statement.node, n.Node):
        found.append((statement.attr_key, statement.node, statement.value))
        statement = statement.body
    return tuple(sorted(found, key=lambda fact: fact[0])), statement


def _pair_up(x: Mapping[object, object], y: Mapping[object, object], pending: list[tuple[object, object]]) -> bool:
    """Queue the entries of two mappings; keys that are variables pair by position, others by value."""
    if len(x) != len(y):
        return False
    if any(isinstance(key, n.Node) for key in x):
        for (key, value), (other_key, other) in zip(x.items(), y.items(), strict=True):
            pending += [(value, other), (key, other_key)]
        return True
    if x.keys() != y.keys():
        return False
    pending.extend((value, y[key]) for key, value in x.items())
    return True


def _digest(value: object, depth: int) -> object:
    if isinstance(value, n.Var | n.Buffer):
        return str(value.dtype)
    if isinstance(value, n.PrimFunc):
        return (value.name, len(value.params))
    if isinstance(value, n.IRModule):
        return tuple(sorted(value.functions))
    if isinstance(value, n.Node):
        if depth == 0:
            return type(value).__name__
        return (type(value).__name__, *(_digest(getattr(value, f), depth - 1) for f in fields_of(type(value))))
    if isinstance(value, tuple):
        return tuple(_digest(item, depth) for item in value) if depth else len(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return len(value)  # type: ignore[arg-type]
    if isinstance(value, float):
        return "nan" if value != value else value
    return value


F = TypeVar("F", n.IRModule, n.PrimFunc)


def retype(program: F, /, **types: str) -> F:
    """A module or a function in which every `old="new"` data type is replaced: buffers, values, constants and casts.

    Raises TA08 for a name that is no data type.
    """
    wanted: dict[DataType, DataType] = {}
    for old, new in types.items():
        try:
            wanted[DataType.parse(old)] = DataType.parse(new)
        except ValueError as found:
            raise refuse("TA08", f"{found}.", "write float32='float64'.") from None

    def other(dtype: DataType) -> DataType:
        new = wanted.get(dtype.element)
        return dtype if new is None else new.with_lanes(dtype.lanes)

    def of_type(kind: n.Type) -> n.Type:
        match kind:
            case n.PrimType(dtype):
                return n.PrimType(other(dtype))
            case n.PointerType(element, scope) if element is not None:
                return n.PointerType(of_type(element), scope)
            case _:
                return kind

    def rule(node: n.Node) -> n.Node | None:
        match node:
            case n.Var(name, kind, span):
                new = of_type(kind)
                return None if new == kind else n.Var(name, new, span)
            case n.Buffer() | n.FloatImm() | n.IntImm() | n.Cast() | n.Call() | n.Allocate() | n.AllocateConst():
                new = other(node.dtype)
                return None if new == node.dtype else replace(node, dtype=new)
            case _:
                return None

    changed = transform(program, rule)
    if isinstance(changed, n.PrimFunc) and changed.module is not None:
        module = transform(changed.module, rule)
        return replace(changed, module=module)
    return changed
