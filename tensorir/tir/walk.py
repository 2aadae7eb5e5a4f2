"""Traversal and rewriting of TIR, without recursion.

`walk` yields every node below one, parents first, in the order of the text; `transform` rebuilds a tree from its leaves
up with a rule that returns None for "unchanged".

>>> from tensorir.tir.dtypes import INT32
>>> from tensorir.tir.nodes import Add, IntImm, PrimType, Var
>>> i = Var("i", PrimType(INT32))
>>> [type(n).__name__ for n in walk(Add(i, IntImm(1, INT32)))]
['Add', 'Var', 'IntImm']
>>> substitute(Add(i, i), {i: IntImm(2, INT32)})
T.Add(2, 2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TypeVar, cast

from tensorir.tir.nodes import Buffer, Expr, IRModule, Node, PrimFunc, Var

__all__ = ["children", "fields_of", "substitute", "transform", "walk"]

N = TypeVar("N", bound=Node)


@cache
def fields_of(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a kind of node that say something: neither the span nor what follows from the others."""
    skipped = {"span", "module", "metadata"}
    return tuple(f.name for f in dataclasses.fields(kind) if f.init and f.name not in skipped)  # type: ignore[arg-type]


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in the order of the fields (inside tuples and mappings too).

    Below a variable and below a *use* of a buffer there is nothing: they are names. A buffer that is itself the node
    has its data, shape, strides and offset below it.
    """
    if isinstance(node, Var):
        return
    pending: list[object] = [getattr(node, name) for name in reversed(fields_of(type(node)))]
    while pending:
        value = pending.pop()
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            pending.extend(reversed(value))  # type: ignore[arg-type]
        elif isinstance(value, Mapping):
            for key, item in reversed(list(value.items())):  # type: ignore[arg-type]
                pending += [item, key]


def walk(node: Node) -> Iterator[Node]:
    """Every node at and below this one, parents first; buffers appear where they are used, but are not entered."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, Buffer):
            pending.extend(reversed(list(children(node))))


def transform(node: N, rule: Callable[[Node], Node | None]) -> N:
    """The tree with `rule` applied to every node, leaves first; None leaves a node as it is. Shared nodes stay shared.

    Variables and buffers are offered to the rule too; a rule that replaces one replaces it everywhere.
    """
    done: dict[int, Node] = {}
    keep: list[Node] = []  # ids stay valid while the nodes live
    pending: list[tuple[Node, bool]] = [(node, False)]
    while pending:
        current, ready = pending.pop()
        if id(current) in done:
            continue
        if not ready:
            pending.append((current, True))
            pending.extend((child, False) for child in children(current) if id(child) not in done)
            continue
        rebuilt = current if isinstance(current, Var) else _rebuild(current, done)
        changed = rule(rebuilt)
        done[id(current)] = rebuilt if changed is None else changed
        keep.append(current)
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
