"""A region as a list of reads and writes, each with its iterations and its place in the order of the text.

What a loop carries becomes memory of its own; a write under a condition that data decide becomes a write of the new
value or of the old one; what stands in the branches of a choice is restricted to where they are taken. So all that is
left is iterations that read and write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.accesses.sets import text
from tensorir.lifting.dataflow.opaque import Opaque, Uncovered, free_values, in_steps, inside_of, touched, whole_of
from tensorir.lifting.emission.tensors import alike, constant_of, position, sum_of
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Buffer,
    Check,
    Condition,
    External,
    For,
    If,
    Index,
    Let,
    Node,
    Order,
    Read,
    Region,
    Rule,
    While,
    Write,
    defined,
    nested,
    tells_apart,
)
from tensorir.runtime.errors import NOWHERE, Span

__all__ = ["Scatter", "Statement", "Uncovered", "statements_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """A write whose places data tell: all iterations of its loops at once make of a whole buffer a new one.

    `op` combines with what is at a place; without it, the last one stays.
    """

    old: Var
    loops: tuple[For, ...]
    own: tuple[tuple[str, Interval], ...]
    """The dims of the value, behind the loops."""
    constraints: tuple[str, ...]
    at: tuple[Expr, ...]
    guards: tuple[Expr, ...]
    op: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A read, or a write of `value`, for all iterations of its loops and all points of its window.

    `order` tells when it runs: numbers are places in the text, names are loops.
    """

    number: int
    buffer: Buffer
    at: tuple[Affine, ...]
    loops: tuple[For, ...]
    """The loops around it, but for those of one iteration, whose variables are known."""
    own: tuple[tuple[str, Interval], ...]
    constraints: tuple[str, ...]
    order: tuple[int | str, ...]
    value: Expr | None
    result: Var | None
    span: Span = NOWHERE
    unmasked: tuple[str, ...] | None = None
    """The constraints without the mask of a read, where it has one: outside of it, it finds `fill`."""
    fill: bool | int | float = 0
    is_end: bool = False
    """Whether this reads a whole argument in the end."""
    scatter: Scatter | None = None
    opaque: Opaque | None = None
    """What makes the value, of whole buffers."""
    message: str | None = None
    """What is said where the value, which must hold, does not."""
    once: tuple[For, ...] = ()
    """The loops of one iteration around it."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*(loop.dim for loop in self.loops), *(name for name, _ in self.own))

    @property
    def in_turn(self) -> list[For]:
        """The loops whose iterations come one after the other, or at once: in lockstep all lanes come to a statement
        before it is left."""
        return [loop for loop in self.loops if loop.rule is not Rule.LOCKSTEP]

    @property
    def is_read(self) -> bool:
        return self.result is not None

    @property
    def uses(self) -> frozenset[Var]:
        """The values that a write needs."""
        if self.opaque is not None:
            return self.opaque.uses if self.value is not None else frozenset()
        if self.value is None:
            return frozenset()
        if self.scatter is None:
            return self.value.free
        parts = (*self.scatter.at, *self.scatter.guards)
        return self.value.free.union({self.scatter.old}, *(e.free for e in parts))


@dataclass(slots=True)
class _Place:
    """The position of a walk: the loops around, conditions of loops and choices, and places in the text."""

    loops: tuple[For, ...] = ()
    once: tuple[For, ...] = ()
    """Loops of one iteration."""
    constraints: tuple[str, ...] = ()
    guards: tuple[Var, ...] = ()
    order: tuple[int | str, ...] = ()
    tail: tuple[str, ...] = ()
    outside: tuple[_Place, ...] = ()
    """For each loop, the place where it stands, with its own number at the end of the order."""


@dataclass(slots=True)
class _Walk:
    shared: Mapping[Node, int]
    """For writes whose places data tell, how many loops are around others that touch the buffer, too."""
    in_steps: bool = False
    found: list[Statement] = field(default_factory=list[Statement])
    values: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    spelled: dict[int, tuple[Expr, Expr]] = field(default_factory=dict[int, "tuple[Expr, Expr]"])
    """By identity, expressions and what they are in terms of reads."""
    taken: set[str] = field(default_factory=set[str])
    numbered: dict[str, int] = field(default_factory=dict[str, int])
    """The next number for a name that is taken."""
    known: dict[str, Affine] = field(default_factory=dict[str, Affine])
    """What the variables of loops of one iteration are."""

    def nodes(self, nodes: Sequence[Node], place: _Place, first: int = 0) -> int:
        count = first
        for node in nodes:
            count = self.node(node, place, count)
        return count

    def node(self, node: Node, place: _Place, count: int) -> int:
        match node:
            case Read():
                self.read(node, place, count)
            case Write():
                return self.write(node, place, count)
            case Let(result, value):
                self.values[result] = self.expression(value)
            case If(conditions, body, otherwise, joined):
                inner = self.demanded(place, conditions)
                count = self.nodes(body, inner, count)
                if otherwise:
                    count = self.nodes(otherwise, self.refused(place, conditions), count)
                for j in joined:
                    a, b = self.expression(j.value), self.expression(j.otherwise)
                    self.values[j.result] = a if a is b else self.chosen(conditions, a, b)
                return count
            case For():
                return self.loop(node, place, count)
            case Order():
                pass
            case Check(condition, message, span):
                self.check(self.expression(condition), message, place, count, span)
            case Atomic(None, _, at, op, value) if not tells_apart(at, dict(value.tensor.dims.items)):
                return self.scatter(node, op, place, count)
            case Atomic(Var() as result, buffer, at, op, value, where, span):
                count = self.node(Read(result, buffer, at, where, None, span), place, count)
                new = Var(self.fresh(f"{buffer.name}_new"), value.tensor)
                self.values[new] = self.expression(call(op, result, value))
                return self.node(Write(buffer, at, new, where, span), place, count)
            case Atomic(None, buffer, at, op, value, where, span):
                old = self.fresh_value(buffer, value)
                count = self.node(Read(old, buffer, at, where, None, span), place, count)
                return self.node(Write(buffer, at, call(op, old, value), where, span), place, count)
            case While() | External():
                return self.opaque(node, place, count)
            case _:
                raise Uncovered(f"a {type(node).__name__}")
        return count + 1

    def opaque(self, node: While | External, place: _Place, count: int) -> int:
        """A while, or an external function: reads of the whole buffers that it touches, and writes of the others."""
        buffers, written = touched(node)
        parts = Opaque(node, {}, tuple(written), tuple(self.expression(g) for g in place.guards))
        if isinstance(node, While):
            if node.carried:
                raise Uncovered("a while that carries values")
            given: list[tuple[Var, Buffer]] = []
            for v in free_values(node):
                buffer = Buffer(self.fresh(v.name), _scalar(v), _dims(v))
                given.append((v, buffer))
                value = self.values.get(v, v)
                count = self.write(Write(buffer, _whole(v), value, (), node.span), replace(place, guards=()), count)
            condition, body, goes = inside_of(node, buffers, given, self.fresh)
            parts = replace(parts, condition=condition, body=body, goes=goes)
            buffers = [*buffers, *(b for _, b in given)]
        here, before = replace(place, guards=()), dict[str, Var]()
        for b in buffers:
            own = tuple((self.fresh(f"{b.name}_all"), Interval(0, e)) for e in b.shape)
            before[b.name] = Var(self.fresh(f"{b.name}_old"), TensorType(b.element, Dims(own)))
            self.found.append(self.made(b, whole_of(own), here, own, count, None, before[b.name], node.span))
        parts = replace(parts, before=before)
        for k, b in enumerate(written):
            own = tuple((self.fresh(f"{b.name}_all"), Interval(0, e)) for e in b.shape)
            nothing = literal(0, b.element)
            made = self.made(b, whole_of(own), here, own, count + 1 + k, nothing, None, node.span)
            self.found.append(replace(made, opaque=parts))
        return count + 1 + len(written)

    def check(self, holds: Expr, message: str, place: _Place, count: int, span: Span) -> None:
        """A condition that must hold, as a write of its truth to an element of its own for each iteration."""
        for guard in reversed(place.guards):
            holds = call("if", self.expression(guard), holds, literal(True, BOOL))
        at = tuple(variable(loop.dim) for loop in place.loops)
        buffer = Buffer(self.fresh("holds"), BOOL, tuple((loop.dim, 0) for loop in place.loops))
        made = self.made(buffer, at, replace(place, guards=()), (), count, holds, None, span)
        self.found.append(replace(made, message=message))

    def loop(self, node: For, place: _Place, count: int) -> int:
        if isinstance(node.start, Var) or isinstance(node.stop, Var) or (self.in_steps and not place.loops):
            return self.nodes(in_steps(node, self.fresh), place, count)
        start, stop = (self.affine(i) for i in (node.start, node.stop))
        if stop.minus(start) == number(1):
            return self.once(node, start, place, count)
        memory = [Buffer(self.fresh(c.inside.name), _scalar(c.inside), _dims(c.inside)) for c in node.carried]
        free = replace(place, guards=())  # nobody else asks for what a loop carries
        for c, buffer in zip(node.carried, memory, strict=True):
            count = self.node(Write(buffer, _whole(c.inside), c.first, (), node.span), free, count)
        names = {n: n for n in (*(loop.dim for loop in place.loops), node.dim)}
        bounds = (
            f"{text(start, names)} <= {node.dim}",
            f"{node.dim} < {text(stop, names)}",
        )
        lockstep = node.rule is Rule.LOCKSTEP
        inner = replace(
            place,
            loops=(*place.loops, node),
            constraints=(*place.constraints, *bounds),
            order=(*place.order, count) if lockstep else (*place.order, count, node.dim),
            tail=(*place.tail, node.dim) if lockstep else place.tail,
            outside=(*place.outside, replace(place, order=(*place.order, count), guards=())),
        )
        inside = 0
        for c, buffer in zip(node.carried, memory, strict=True):
            inside = self.node(Read(c.inside, buffer, _whole(c.inside), (), None, node.span), inner, inside)
        inside, free = self.nodes(node.body, inner, inside), replace(inner, guards=())
        for c, buffer in zip(node.carried, memory, strict=True):
            inside = self.node(Write(buffer, _whole(c.inside), c.next, (), node.span), free, inside)
        count += 1
        for c, buffer in zip(node.carried, memory, strict=True):
            count = self.node(Read(c.result, buffer, _whole(c.result), (), None, node.span), place, count)
        return count

    def once(self, node: For, value: Affine, place: _Place, count: int) -> int:
        """A loop of one iteration: what it does, its variable known."""
        self.known[node.dim] = value
        self.values[Var(node.dim, TensorType(INT32))] = self.index(value, {})
        self.spelled.clear()  # another loop may have had this name
        outside = replace(place, order=(*place.order, count), guards=())
        inner = replace(place, once=(*place.once, node), outside=(*place.outside, outside))
        self.values.update({c.inside: self.expression(c.first) for c in node.carried})
        count = self.nodes(node.body, inner, count)
        self.values.update({c.result: self.expression(c.next) for c in node.carried})
        return count

    def affine(self, i: Index) -> Affine:
        """A sum of variables that are not known."""
        if not isinstance(i, Affine):
            raise Uncovered("an index that data tell")
        return i.replaced(self.known, {}) if i.names & self.known.keys() else i

    def bound(self, b: Bound) -> str:
        a = self.affine(b.affine)
        return f"{text(a, {n: n for n in a.names})} {'=' if b.equal else '>='} 0"

    def read(self, node: Read, place: _Place, count: int) -> None:
        own = node.result.type.dims.items
        inner = self.demanded(replace(place, guards=()), node.where)
        otherwise = literal(0, node.buffer.element) if node.otherwise is None else self.expression(node.otherwise)
        fill = constant_of(otherwise)
        by_data = bool(node.where) and (bool(inner.guards) or fill is None)
        # where data decide whether anything is read, a place may lie outside
        dims_of_value = dict(own)
        places = [self.index(i, dims_of_value) if by_data or isinstance(i, Var) else None for i in node.at]
        at, result = node.at, Var(node.result.name, node.result.type)
        value: Expr = result
        if any(p is not None for p in places):
            # of what data tell all is read, and then looked up
            dims = [(self.fresh(f"{node.buffer.name}_any"), Interval(0, e)) if p is not None else None
                    for p, e in zip(places, node.buffer.shape, strict=True)]  # fmt: skip
            at = tuple(i if d is None else Affine(((d[0], 1),)) for i, d in zip(at, dims, strict=True))
            own = (*own, *(d for d in dims if d is not None))
            result = Var(self.fresh(node.result.name), result.type.on(Dims(own)))
            names = tuple(d[0] for d in dims if d is not None)
            looked_up = [p for p in places if p is not None]
            value = call("gather", result, *looked_up, static=(names, "zero"), span=node.span)
        if by_data:
            value = self.chosen(node.where, value, otherwise, dict(node.result.type.dims.items))
        self.values[node.result] = value
        made = self.made(node.buffer, at, place if by_data else inner, own, count, None, result, node.span)
        if node.where and not by_data:
            whole = self.made(node.buffer, at, place, own, count, None, result, node.span)
            made = replace(made, unmasked=whole.constraints, fill=0 if fill is None else fill.value)
        self.found.append(made)

    def chosen(
        self, where: Sequence[Condition], value: Expr, otherwise: Expr, own: Mapping[str, Interval] | None = None
    ) -> Expr:  # fmt: skip
        """One value where all conditions hold, and another one elsewhere."""
        for c in reversed(where):
            value = call("if", self.expression(c) if isinstance(c, Var) else self.holds(c, own or {}), value, otherwise)
        return value

    def holds(self, c: Bound, own: Mapping[str, Interval]) -> Expr:
        """A condition on indices as a value."""
        x = self.index(c.affine, own)
        return call("eq" if c.equal else "greater_equal", *alike([x, literal(0, INT32)]))

    def scatter(self, node: Write | Atomic, op: str | None, place: _Place, count: int) -> int:
        """A write whose places data tell, for all iterations of the loops around it alone."""
        value, lanes = self.expression(node.value), node.value.tensor.dims.items
        inner = self.demanded(place, node.where)
        # an update that returns what was there asks each iteration for those before it
        around = self.shared.get(node, len(place.outside))
        if around < len(place.outside):
            here = place.outside[around]
        else:
            here = replace(place, order=(*place.order, count), guards=())
        here = _all_lanes(here)
        names = [self.fresh(f"{node.buffer.name}_at") for _ in node.buffer.dims]
        own = tuple((n, Interval(0, e)) for n, e in zip(names, node.buffer.shape, strict=True))
        at = [Affine(((n, 1),)) for n in names]
        old = Var(self.fresh(f"{node.buffer.name}_old"), TensorType(node.buffer.element, Dims(own)))
        places = tuple(self.index(i, dict(lanes)) for i in node.at)
        guards = tuple(self.expression(g) for g in inner.guards)
        # of several that leave one loop each has a place of its own behind those before it
        first = len(self.found)
        self.found.append(self.made(node.buffer, at, here, own, first, None, old, node.span))
        made = self.made(node.buffer, at, here, own, first + 1, value, None, node.span)
        # of lanes in lockstep each makes the same step before any makes the next one
        in_turn = sorted(place.loops, key=lambda loop: loop.dim in inner.tail)
        scatter = Scatter(old, tuple(in_turn), lanes, (*inner.constraints, *_window(lanes)), places, guards, op)
        self.found.append(replace(made, scatter=scatter))
        return count + 1

    def index(self, i: Index, own: Mapping[str, Interval]) -> Expr:
        """An index as a value, along dims of its own."""
        if isinstance(i, Var):
            return self.expression(i)
        a = self.affine(i)
        return sum_of(a, {n: position(n, own[n]) if n in own else Var(n, TensorType(INT32)) for n in a.names})

    def write(self, node: Write, place: _Place, count: int) -> int:
        if any(isinstance(i, Var) for i in node.at):
            return self.scatter(node, None, place, count)
        value = self.expression(node.value)
        own = value.tensor.dims.items
        inner = self.demanded(place, node.where)
        if inner.guards:
            old = self.fresh_value(node.buffer, value)
            bare = replace(inner, guards=())
            self.found.append(self.made(node.buffer, node.at, bare, own, count, None, old, node.span))
            for guard in reversed(inner.guards):
                # later ones are asked for where earlier ones hold
                value = call("if", self.expression(guard), value, old)
            count, inner = count + 1, bare
        self.found.append(self.made(node.buffer, node.at, inner, own, count, value, None, node.span))
        return count + 1

    def made(
        self, buffer: Buffer, at: Sequence[Index], place: _Place, own: Sequence[tuple[str, Interval]], count: int,
        value: Expr | None, result: Var | None, span: Span,
    ) -> Statement:  # fmt: skip
        return Statement(
            len(self.found), buffer, tuple(map(self.affine, at)), place.loops, tuple(own),
            (*place.constraints, *_window(own)), (*place.order, count, *place.tail), value, result, span,
            once=place.once,
        )  # fmt: skip

    def expression(self, e: Expr) -> Expr:
        """An expression of what is read and written, what it has in common with others made once."""
        stack: list[tuple[Expr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self.spelled:
                continue
            if isinstance(node, Var):
                self.spelled[id(node)] = node, self.values.get(node, node)
            elif ready:
                self.spelled[id(node)] = node, rebuild(node, tuple(self.spelled[id(c)][1] for c in node.children))
            else:
                stack += [(node, True), *((c, False) for c in node.children)]
        return self.spelled[id(e)][1]

    def demanded(self, place: _Place, where: Sequence[Condition]) -> _Place:
        bounds = tuple(self.bound(c) for c in where if isinstance(c, Bound))
        guards = tuple(c for c in where if isinstance(c, Var))
        return replace(place, constraints=(*place.constraints, *bounds), guards=(*place.guards, *guards))

    def refused(self, place: _Place, where: Sequence[Condition]) -> _Place:
        if all(isinstance(c, Bound) for c in where):
            parts = " and ".join(self.bound(c) for c in where if isinstance(c, Bound))
            return replace(place, constraints=(*place.constraints, f"not ({parts})"))
        (only,) = where if len(where) == 1 else (None,)
        if not isinstance(only, Var):
            raise Uncovered("a choice by indices and by data at once")
        other = Var(self.fresh(f"not_{only.name}"), only.type)
        self.values[other] = call("not", self.expression(only))
        return replace(place, guards=(*place.guards, other))

    def fresh(self, name: str) -> str:
        found, k = name, self.numbered.get(name, 1)
        while found in self.taken:
            found, k = f"{name}_{k}", k + 1
        self.numbered[name] = k
        self.taken.add(found)
        return found

    def fresh_value(self, buffer: Buffer, like: Expr) -> Var:
        return Var(self.fresh(f"{buffer.name}_old"), like.tensor.of(buffer.element))


def statements_of(
    region: Region, asked: Collection[str] | None = None, in_steps: bool = False
) -> list[Statement]:  # fmt: skip
    """The reads and writes of a region, and for each argument that is written a last read of all of it.

    It may be `asked` for other buffers than arguments. Outermost loops that run `in_steps` are whiles. Raises Uncovered
    for what has no such form.
    """
    ends = {b.name for b in region.buffers if b.argument} if asked is None else asked
    taken = {b.name for b in region.buffers} | {n for node in region.body for n in defined(node)}
    found = _Walk(_shared(region.body), in_steps, taken=taken)
    count = found.nodes(region.body, _Place())
    for b in region.buffers:
        if b.name in ends and any(not s.is_read and s.buffer is b for s in found.found):
            own = [(f"{b.name}_{dim}", Interval(0, extent)) for dim, extent in b.dims]
            at = [Affine(((name, 1),)) for name, _ in own]
            result = Var(found.fresh(f"{b.name}_end"), TensorType(b.element, Dims(tuple(own))))
            last = found.made(b, at, _Place(), own, count, None, result, NOWHERE)
            found.found.append(replace(last, is_end=True))
    return found.found


def _shared(nodes: Sequence[Node]) -> dict[Node, int]:
    """For writes whose places data tell, how many loops are around others that may touch the same elements, too."""
    found: dict[str, list[tuple[Read | Write | Atomic, tuple[For, ...]]]] = {}
    stack: list[tuple[Node, tuple[For, ...]]] = [(node, ()) for node in nodes]
    while stack:
        node, loops = stack.pop()
        inner = (*loops, node) if isinstance(node, For) else loops
        stack += [(child, inner) for body in nested(node) for child in body]
        if isinstance(node, Read | Write | Atomic):
            found.setdefault(node.buffer.name, []).append((node, loops))
    shared: dict[Node, int] = {}
    for touching in found.values():
        for node, loops in touching:
            if not isinstance(node, Read) and any(isinstance(i, Var) for i in node.at):
                common = [
                    sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(loops, others, strict=False)))
                    for other, others in touching
                    if other is not node and not _scatter_apart(node, other)
                ]
                shared[node] = max(common, default=0)
    return shared


def _scatter_apart(a: Read | Write | Atomic, b: Read | Write | Atomic) -> bool:
    """True if two scatters have different numbers as one of their indices: `pages[t, 0] ← …; pages[t, 1] ← …`."""
    if not all(not isinstance(node, Read) and any(isinstance(i, Var) for i in node.at) for node in (a, b)):
        return False
    pairs = zip(a.at, b.at, strict=True)
    return any(isinstance(x, Affine) and isinstance(y, Affine) and x.is_number and y.is_number and x != y
               for x, y in pairs)  # fmt: skip


def _all_lanes(place: _Place) -> _Place:
    """A place in loops in lockstep, as one that all lanes come to at once: iterations of the other loops around."""
    if not place.tail:
        return place
    of_lanes = [c for c in place.constraints if not set(re.findall(r"\w+", c)).isdisjoint(place.tail)]
    rest = tuple(c for c in place.constraints if c not in of_lanes)
    some = f"exists ({', '.join(place.tail)} : {' and '.join(f'({c})' for c in of_lanes)})"
    loops = tuple(loop for loop in place.loops if loop.dim not in place.tail)
    return replace(place, loops=loops, constraints=(*rest, some), tail=())


def _window(own: Sequence[tuple[str, Interval]]) -> list[str]:
    return [f"{i.start} <= {n} < {i.stop}" for n, i in own]


def _scalar(v: Var) -> Scalar:
    if not isinstance(v.type.element, Scalar):
        raise Uncovered("a tuple that a loop carries")
    return v.type.element


def _dims(v: Var) -> tuple[tuple[str, int], ...]:
    return tuple((n, len(i)) for n, i in v.type.dims.items)


def _whole(v: Var) -> tuple[Affine, ...]:
    return tuple(Affine(((n, 1),)).minus(number(i.start)) for n, i in v.type.dims.items)
