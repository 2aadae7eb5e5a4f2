"""Whiles and external functions as statements that read whole buffers and write whole buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, TensorType
from tensorir.lifting.emission.tensors import alike, position, sum_of
from tensorir.lifting.region.nodes import (
    Atomic,
    Buffer,
    Condition,
    External,
    For,
    If,
    Index,
    Let,
    Node,
    Read,
    Region,
    Rule,
    While,
    Write,
    defined,
    uses,
    walk,
    whole_of,
)

# What exact dataflow does not cover.


class Uncovered(Exception):
    """An error for a form that no lift covers; the text names it."""


# Whiles and external functions as statements that read whole buffers and write whole buffers.
#
# How often a while runs is told by data, so no set says which of its rounds wrote an element. For exact dataflow it
# is one step that makes new buffers of old ones; what it does inside is a region of its own, whose arguments are
# these buffers. A value from outside that it asks for is handed to it in a buffer, too.


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A while, or an external function, on whole buffers; `before` are the reads of them, `guard` when it runs."""

    node: While | External
    before: Mapping[str, Var]
    """What a buffer is before."""
    written: tuple[Buffer, ...]
    guards: tuple[Expr, ...]
    condition: Region | None = None
    goes: Buffer | None = None
    body: Region | None = None

    @property
    def uses(self) -> frozenset[Var]:
        return frozenset(self.before.values()).union(*(e.free for e in self.guards))


def touched(node: While | External) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that a node touches, and those of them that it writes."""
    every: dict[Buffer, None] = {}
    written: dict[Buffer, None] = {}
    for inner in walk((node,)):
        match inner:
            case Read(_, buffer):
                every[buffer] = None
            case Write(buffer) | Atomic(_, buffer):
                every[buffer] = written[buffer] = None
            case External(_, reads, writes):
                every.update(dict.fromkeys((*reads, *writes)))
                written.update(dict.fromkeys(writes))
            case _:
                pass
    return list(every), list(written)


def free_values(node: While) -> list[Var]:
    """The values from outside that a while asks for; variables of loops around are numbers."""
    own = defined(node)
    return sorted((v for v in uses(node) if v.name not in own), key=lambda v: v.name)


def in_steps(node: For, fresh: Callable[[str], str]) -> tuple[Node, ...]:
    """A loop as a while over a counter in memory, for which its variable is a value that data tell."""
    if node.rule is Rule.LOCKSTEP or node.carried:
        raise Uncovered("threads in lockstep in a loop that runs step by step")
    first, end = (
        i if isinstance(i, Var) else sum_of(i, {n: _index(n) for n in i.names}) for i in (node.start, node.stop)
    )
    counter, now, i = Buffer(fresh(node.dim), INT32, ()), _index(fresh(node.dim)), _index(node.dim)
    body = (Read(i, counter, ()), *node.body, Write(counter, (), call("plus", i, literal(1, INT32))))
    rounds = None if isinstance(node.start, Var) or isinstance(node.stop, Var) else node.stop.minus(node.start)
    most = rounds.constant if rounds is not None and rounds.is_number else None
    goes, reason = call("less", now, end), "what it hands on is told by data"
    again = While((Read(now, counter, ()),), goes, body, (), node.span, most, node.dim, reason)
    return Write(counter, (), first), again


def _index(name: str) -> Var:
    return Var(name, TensorType(INT32))


def inside_of(
    node: While, buffers: Sequence[Buffer], given: Sequence[tuple[Var, Buffer]], fresh: Callable[[str], str]
) -> tuple[Region, Region, Buffer]:
    """The condition of a while, in a buffer of its own, and one round of it, as regions on buffers."""
    values = (inner.result for inner in (*node.before, *node.body) if isinstance(inner, Read))
    handed = frozenset(v.name for v in (*(v for v, _ in given), *values))
    reads: list[Node] = [Read(v, b, whole_of(v.type.dims.items), (), None, node.span) for v, b in given]
    before = [n for inner in node.before for n in with_values(inner, handed, fresh)]
    again = [n for inner in node.body for n in with_values(inner, handed, fresh)]
    goes = Buffer(fresh("goes"), BOOL, ())
    every = (*buffers, *(b for _, b in given))
    condition = (*reads, *before, Write(goes, (), node.condition, (), node.span))
    title = node.title
    return (
        Region(f"goes {title}", (*every, goes), condition),
        Region(f"round {title}", every, (*reads, *before, *again)),
        goes,
    )


def with_values(node: Node, handed: Collection[str], fresh: Callable[[str], str]) -> Iterator[Node]:
    """A node with values in the place of sums of what is handed to a while."""
    found: list[Node] = []

    def value(x: Expr) -> Var:
        v = Var(fresh("v"), x.tensor)
        found.append(Let(v, x))
        return v

    def total(a: Affine, dims: Mapping[str, Interval]) -> Expr:
        return sum_of(a, {n: position(n, dims[n]) if n in dims else _index(n) for n in a.names})

    def index(i: Index, dims: Mapping[str, Interval] = {}) -> Index:
        return i if isinstance(i, Var) or i.names.isdisjoint(handed) else value(total(i, dims))

    def condition(c: Condition, dims: Mapping[str, Interval] = {}) -> Condition:
        if isinstance(c, Var) or c.affine.names.isdisjoint(handed):
            return c
        x = total(c.affine, dims)
        return value(call("eq" if c.equal else "greater_equal", *alike([x, literal(0, INT32)])))

    def bodies(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(n for inner in nodes for n in with_values(inner, handed, fresh))

    match node:
        case Read(result, _, at, where):
            dims = dict(result.type.dims.items)
            where = tuple(condition(c, dims) for c in where)
            made: Node = replace(node, at=tuple(index(i, dims) for i in at), where=where)
        case Write(_, at, x, where) | Atomic(_, _, at, _, x, where):
            dims = dict(x.tensor.dims.items)
            where = tuple(condition(c, dims) for c in where)
            made = replace(node, at=tuple(index(i, dims) for i in at), where=where)
        case For(_, start, stop, body):
            made = replace(node, start=index(start), stop=index(stop), body=bodies(body))
        case If(conditions, body, otherwise):
            made = replace(node, conditions=tuple(map(condition, conditions)), body=bodies(body),
                           otherwise=bodies(otherwise))  # fmt: skip
        case While(before, _, body):
            made = replace(node, before=bodies(before), body=bodies(body))
        case _:
            made = node
    yield from found
    yield made
