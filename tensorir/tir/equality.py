"""Structural equality of TIR, up to the names of variables, without recursion.

Two trees are equal if they have the same shape and a one-to-one map takes the variables and buffers that one *binds* to
those of the other. Free ones must be identical. Spans do not count, and neither do names of variables and buffers;
names of blocks and functions, attributes and annotations do.

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import IntImm, Let, PrimType, Var
>>> i, j, one = Var("i", PrimType(INT32)), Var("j", PrimType(INT32)), IntImm(1, INT32)
>>> structurally_equal(Let(i, one, i), Let(j, one, j)), structurally_equal(Let(i, one, i), Let(j, one, i))
(True, False)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard, cast

from tensorir.tir import nodes as n
from tensorir.tir.script.values import members
from tensorir.tir.walk import fields_of

__all__ = ["first_difference", "structural_hash", "structurally_equal"]

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
    """Whether the two are one tree but for spans and the names of what they bind."""
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
        """What remains to be compared of two names, or None where they cannot be the same."""
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
