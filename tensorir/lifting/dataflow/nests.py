"""A nest of scalar terms as a region: stores and loads become writes and reads, terms expressions of rank 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Affine, number, variable
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, TensorType
from tensorir.lifting.accesses.sets import conjuncts, decided, integer_set, text
from tensorir.lifting.dataflow.flow import PARTS
from tensorir.lifting.dataflow.statements import Uncovered
from tensorir.lifting.emission.tensors import converted, fold_of, sum_of, width_of
from tensorir.lifting.nests import nest, terms
from tensorir.lifting.nests.linear import affine_of, linear, settled
from tensorir.lifting.nests.terms import Index, Linear, Load, Number, Op, Term
from tensorir.lifting.region import nodes as r
from tensorir.lifting.region.nodes import check_region

ZERO = Number(0, INT32)


@dataclass(frozen=True, slots=True)
class Translated:
    """A region, the buffers of the nest that its arguments are, the loops that its dims are, and its buffers."""

    region: r.Region
    arguments: dict[str, terms.Buffer]
    loops: dict[str, nest.Loop]
    buffers: dict[terms.Buffer, r.Buffer]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Iterations that need the value of a term: those within bounds; unless that is `all`, data restrict them."""

    bounds: tuple[r.Bound, ...] = ()
    all: bool = True


DATA_TELL = _Asked(all=False)


@dataclass(slots=True)
class _Scope:
    """The dims of the loops around, their ranges, and where nodes go."""

    dims: Mapping[str, str]
    ranges: dict[str, tuple[int, int]]
    found: list[r.Node]
    lockstep: bool = False


@dataclass(slots=True)
class _Translation:
    buffers: dict[terms.Buffer, r.Buffer] = field(default_factory=dict[terms.Buffer, r.Buffer])
    loops: dict[str, nest.Loop] = field(default_factory=dict[str, nest.Loop])
    taken: set[str] = field(default_factory=set[str])
    numbered: dict[str, int] = field(default_factory=dict[str, int])
    """The next number for a name that is taken."""
    extents: dict[str, int] = field(default_factory=dict[str, int])
    alone: frozenset[terms.Buffer] = frozenset()
    """Values of one iteration that one store makes, whatever data say: no memory is needed."""
    values: dict[terms.Buffer, Expr] = field(default_factory=dict[terms.Buffer, Expr])
    count: int = 0

    def node(self, node: nest.Node, scope: _Scope) -> None:
        match node:
            case nest.Loop():
                self.loop(node, scope)
            case nest.Store():
                self.store(node, scope)
            case nest.Check():
                self.check(node, scope)
            case nest.While():
                self.repeat(node, scope)
            case nest.External(name, reads, writes, make, guards, span):
                inner = replace(scope, found=[])
                where = self.conditions([self.renamed(g, scope) for g in guards], inner)
                found = r.External(
                    name, tuple(self.buffer(b, scope) for b in reads), tuple(self.buffer(b, scope) for b in writes),
                    span, make,
                )  # fmt: skip
                scope.found += inner.found
                scope.found.append(r.If(tuple(where), (found,), (), (), span) if where else found)

    def repeat(self, node: nest.While, scope: _Scope) -> None:
        """A while, which does not start where its guards do not hold."""
        before, body = replace(scope, found=[]), replace(scope, found=[])
        holds = node.condition
        for guard in reversed(node.guards):
            holds = Op("if", (guard, holds, Number(False, BOOL)), BOOL)
        goes = self.expression(self.renamed(holds, scope), before, DATA_TELL, {})
        for child in node.body:
            self.node(child, body)
        title = self.fresh("while")
        self.loops[title] = nest.Loop("while", ZERO, ZERO, (), span=node.span, title="while")
        scope.found.append(r.While(tuple(before.found), goes, tuple(body.found), (), node.span, node.most, title))

    def conditions(self, guards: Sequence[Term], scope: _Scope) -> list[r.Condition]:
        """Conditions, each needed only where those before it hold."""
        where: list[r.Condition] = []
        for guard in guards:
            for part in conjuncts(guard):
                where += self.condition(part, scope, tuple(where))
        return where

    def loop(self, node: nest.Loop, scope: _Scope) -> None:
        low, extent = self.affine(node.low, scope), self.affine(node.extent, scope)
        dim = self.fresh(node.name)
        self.loops[dim] = node
        stop = low.plus(extent)
        first, last = low.range(scope.ranges), stop.range(scope.ranges)
        assert first is not None and last is not None
        ranges = {**scope.ranges, dim: (first[0], max(first[0], last[1] - 1))}
        rule = r.Rule.LOCKSTEP if node.lockstep else r.Rule.INDEPENDENT if node.parallel else r.Rule.IN_ORDER
        inner = _Scope({**scope.dims, node.name: dim}, ranges, [], scope.lockstep or node.lockstep)
        for child in node.body:
            self.node(child, inner)
        made = r.For(dim, low, stop, tuple(inner.found), rule, (), node.title or node.name, node.span)
        scope.found.append(made)

    def store(self, node: nest.Store, scope: _Scope) -> None:
        # a place is told as a read of it tells it: what is combined with the old value has to find it there
        place = self.renamed(Load(node.buffer, node.indices), scope)
        indices, term = terms.children(place), self.renamed(node.value, scope)
        guards = [self.renamed(guard, scope) for guard in node.guards]
        op = None
        if any(affine_of(i) is None for i in indices):
            op, term, further = self.update(replace(node, indices=indices, value=term, guards=tuple(guards)))
            guards += further
        elif node.atomic and scope.lockstep:
            raise Uncovered("an atomic update by threads")
        where = self.conditions(guards, scope)
        asked = _asked(where)
        value = self.expression(term, scope, asked, {})
        if node.buffer in self.alone:
            self.values[node.buffer] = value
            return
        own = [variable(scope.dims[n]) for n in node.buffer.private]
        at = (*own, *(self.index(i, scope, asked) for i in indices))
        if op is not None:
            buffer = self.buffer(node.buffer, scope)
            scope.found.append(r.Atomic(None, buffer, at, op, value, tuple(where), node.span))
            return
        scope.found.append(r.Write(self.buffer(node.buffer, scope), at, value, tuple(where), node.span))

    def check(self, node: nest.Check, scope: _Scope) -> None:
        if nest.is_true(node.condition):
            return
        holds: Term = node.condition
        for guard in reversed(node.guards):
            # later ones are asked for where earlier ones hold
            holds = Op("if", (guard, holds, Number(True, BOOL)), BOOL)
        condition = self.let(self.expression(self.renamed(holds, scope), scope, DATA_TELL, {}), scope)
        scope.found.append(r.Check(condition, node.message, node.span))

    def update(self, node: nest.Store) -> tuple[str | None, Term, Sequence[Term]]:
        """The update by a store at a data-dependent index: operation, operand, and index; without an operation,
        what stays there."""
        found = fold_of(node)
        if found is not None and found[0] in ("plus", "multiplies", "min", "max"):
            return found
        return None, node.value, ()

    def index(self, term: Term, scope: _Scope, asked: _Asked) -> r.Index:
        """An index as a sum, or as a value where it is none."""
        found = affine_of(term)
        return self.let(self.expression(term, scope, asked, {}), scope) if found is None else found

    def renamed(self, term: Term, scope: _Scope) -> Term:
        """A term under the names of the dims, in normal form."""
        new = {old: variable(dim) for old, dim in scope.dims.items() if old != dim}

        def rule(t: Term) -> Term | None:
            match t:
                case Index(name, element) if name in new:
                    return Index(scope.dims[name], element)
                case Linear(affine, element) if affine.names & new.keys():
                    return Linear(affine.replaced(new, scope.ranges), element)
                case _:
                    return None

        return self.ordered(settled(terms.rebuilt(term, rule), scope.ranges), scope)

    def ordered(self, term: Term, scope: _Scope) -> Term:
        """A term in which the larger of two sums of indices is one of them, where that is always the same one."""
        seen = False

        def rule(t: Term) -> Term | None:
            nonlocal seen
            match t:
                case Op("max" | "min" as op, (a, b)):
                    x, y = affine_of(a), affine_of(b)
                    if x is None or y is None or not (x.names | y.names) <= scope.ranges.keys():
                        return None
                    less = _never(x.minus(y).plus(number(-1)), scope)
                    more = less or _never(y.minus(x).plus(number(-1)), scope)
                    seen = seen or more
                    return ((b if op == "max" else a) if less else (a if op == "max" else b)) if more else None
                case _:
                    return None

        found = terms.rebuilt(term, rule)
        return settled(found, scope.ranges) if seen else term

    def affine(self, term: Term, scope: _Scope) -> Affine:
        found = linear(self.renamed(term, scope), scope.ranges)
        if found is None:
            raise Uncovered("an index that data tell")
        return found

    def condition(self, part: Term, scope: _Scope, before: Sequence[r.Condition]) -> list[r.Condition]:
        if isinstance(part, Number):
            return [] if part.value else [r.Bound(number(-1))]
        bound = _bound_of(part, scope.ranges)
        return [bound or self.let(self.expression(part, scope, _asked(before), {}), scope)]

    def let(self, value: Expr, scope: _Scope) -> Var:
        result = Var(self.value_name(), value.tensor)
        scope.found.append(r.Let(result, value))
        return result

    def value_name(self) -> str:
        self.count += 1
        return self.fresh(f"v{self.count}")

    def buffer(self, buffer: terms.Buffer, scope: _Scope) -> r.Buffer:
        if buffer.memory is not None:
            raise Uncovered("storage under two types")
        if buffer not in self.buffers:
            extents = [scope.ranges[scope.dims[n]][1] + 1 for n in buffer.private]
            extents += buffer.shape
            name = self.fresh(buffer.name)
            dims = tuple((f"{name}_{k}", e) for k, e in enumerate(extents))
            self.buffers[buffer] = r.Buffer(name, buffer.element, dims, buffer.argument)
        return self.buffers[buffer]

    def fresh(self, name: str) -> str:
        found, k = name, self.numbered.get(name, 1)
        while found in self.taken:
            found, k = f"{name}_{k}", k + 1
        self.numbered[name] = k
        self.taken.add(found)
        return found

    def expression(self, term: Term, scope: _Scope, asked: _Asked, memo: dict[object, Expr]) -> Expr:
        """A term as an expression, its reads before it."""
        # what reads the same is one read
        key = (term if isinstance(term, Load) else id(term), asked)
        if key not in memo:
            memo[key] = self._expression(term, scope, asked, memo)
        return memo[key]

    def _expression(self, term: Term, scope: _Scope, asked: _Asked, memo: dict[object, Expr]) -> Expr:
        match term:
            case Number(value, element):
                return literal(value, element)
            case Index(name, element):
                return converted(Var(name, TensorType(INT32)), element)
            case Linear(affine, element):
                parts = {n: Var(n, TensorType(INT32)) for n in affine.names}
                return converted(sum_of(affine, parts, width_of(affine, scope.ranges)), element)
            case Load(buffer) if buffer in self.values:
                return self.values[buffer]
            case Load(buffer, indices, span):
                own = [variable(scope.dims[n]) for n in buffer.private]
                at: list[r.Index] = []
                for i, extent in zip(indices, buffer.shape, strict=True):
                    a = affine_of(i)
                    inside = a is not None and _inside(a, extent, scope, asked.bounds)
                    # where data tell whether anything is read, a place may be anywhere
                    known = a is not None and (asked.all or inside)
                    at.append(a if known and a is not None else self.let(self.expression(i, scope, asked, memo), scope))
                at = [*own, *at]
                key = (buffer, *at, *asked.bounds)
                if key not in memo:
                    result = memo[key] = Var(self.value_name(), TensorType(buffer.element))
                    read = r.Read(result, self.buffer(buffer, scope), tuple(at), asked.bounds, None, span)
                    scope.found.append(read)
                return memo[key]
            case Op("if", (c, yes, no)):
                here, there = _branches(c, asked, scope.ranges)
                parts = (
                    self.expression(c, scope, asked, memo),
                    self.expression(yes, scope, here, memo),
                    self.expression(no, scope, there, memo),
                )
                return call("if", *parts)
            case Op("cast" | "bitcast" as op, (x,), element):
                return call(op, self.expression(x, scope, asked, memo), static=(element,))
            case Op(op, args):
                return call(op, *(self.expression(a, scope, asked, memo) for a in args))


def _asked(where: Sequence[r.Condition]) -> _Asked:
    return _Asked(tuple(c for c in where if isinstance(c, r.Bound)))


def _inside(a: Affine, extent: int, scope: _Scope, bounds: Sequence[r.Bound]) -> bool:
    """True if an index is one of a dim, where bounds hold."""
    reach = a.range(scope.ranges)
    if reach is None:
        return False
    if reach[0] >= 0 and reach[1] < extent:
        return True
    if not bounds or not a.names <= scope.ranges.keys():
        return False
    names = {n: n for n in scope.ranges}
    holds = [f"{low} <= {n} <= {high}" for n, (low, high) in scope.ranges.items()]
    holds += [f"{text(b.affine, names)} {'=' if b.equal else '>='} 0" for b in bounds]
    outside = integer_set(list(names), [*holds, f"({text(a, names)} < 0 or {text(a, names)} >= {extent})"])
    return bool(decided(outside.is_empty, PARTS))


def _bound_of(part: Term, ranges: Mapping[str, tuple[int, int]], holds: bool = True) -> r.Bound | None:
    """The bound that a condition, or its negation, is: "not equal" is one where equality is an end of a range."""
    match part:
        case Op("not", (other,)):
            return _bound_of(other, ranges, not holds)
        case Op("less" | "less_equal" | "greater" | "greater_equal" | "eq" | "not_eq" as op, (a, b)):
            x, y = affine_of(a), affine_of(b)
        case _:
            return None
    if x is None or y is None:
        return None
    if op not in ("eq", "not_eq"):
        return _bound(op, x, y) if holds else _opposite(_bound(op, x, y))
    if holds is (op == "eq"):
        return _bound("eq", x, y)
    reach = x.minus(y).range(ranges)
    return None if reach is None or reach[0] < 0 < reach[1] else _bound("greater" if reach[0] >= 0 else "less", x, y)


def _opposite(bound: r.Bound) -> r.Bound:
    return r.Bound(bound.affine.times(-1).plus(number(-1)))


def _never(a: Affine, scope: _Scope) -> bool:
    """True if a sum is negative in all iterations."""
    reach = a.range(scope.ranges)
    if reach is not None and reach[1] < 0:
        return True
    names = {n: n for n in sorted(a.names)}
    holds = [f"{scope.ranges[n][0]} <= {n} <= {scope.ranges[n][1]}" for n in names]
    return bool(decided(integer_set(list(names), [*holds, f"{text(a, names)} >= 0"]).is_empty, PARTS))


def _branches(c: Term, asked: _Asked, ranges: Mapping[str, tuple[int, int]]) -> tuple[_Asked, _Asked]:
    """The iterations that need either branch of a choice."""
    of_data = replace(asked, all=False)
    parts = [_bound_of(part, ranges) for part in conjuncts(c)]
    bounds = tuple(b for b in parts if b is not None)
    if len(bounds) < len(parts):
        return of_data, of_data
    other = _bound_of(c, ranges, False) if len(parts) == 1 else None
    no = of_data if other is None else replace(asked, bounds=(*asked.bounds, other))
    return replace(asked, bounds=(*asked.bounds, *bounds)), no


def _bound(op: str, x: Affine, y: Affine) -> r.Bound:
    a, b = (y, x) if op.startswith("less") else (x, y)
    return r.Bound(a.minus(b).plus(number(-(op in ("less", "greater")))), op == "eq")


def _alone(nodes: Sequence[nest.Node]) -> frozenset[terms.Buffer]:
    """Values of one iteration that one store makes whatever data say, and that are read in its own loops alone, under
    its guards."""
    leaves = nest.leaves(nodes)
    count = Counter(leaf.node.buffer for leaf in leaves if isinstance(leaf.node, nest.Store))
    found: dict[terms.Buffer, tuple[nest.Loop, ...]] = {}
    guarded: dict[terms.Buffer, Sequence[Term]] = {}
    for leaf in leaves:
        match leaf.node:
            case nest.Store(buffer, guards=guards) if buffer.loops and count[buffer] == 1 and not buffer.argument:
                if not any(terms.loads(g) for g in guards):
                    found[buffer] = tuple(loop for loop in leaf.loops if loop.name in buffer.loops)
                    guarded[buffer] = guards
            case _:
                pass
    for leaf in leaves:
        if isinstance(leaf.node, nest.While):
            found = {b: loops for b, loops in found.items() if b not in leaf.written}
        for buffer in leaf.read & found.keys():
            same = tuple(loop for loop in leaf.loops if loop.name in buffer.loops) == found[buffer]
            if not same or any(g not in leaf.node.guards for g in guarded[buffer]):
                del found[buffer]
    return frozenset(b for b in found if b.memory is None)


def region_of(name: str, arguments: Sequence[terms.Buffer], nodes: Sequence[nest.Node]) -> Translated:
    """The region of a nest. Raises Uncovered for what has none yet."""
    t = _Translation(alone=_alone(nodes))
    top = _Scope({}, {}, [])
    for buffer in arguments:
        t.buffer(buffer, top)
    for node in nodes:
        t.node(node, top)
    region = r.Region(name, tuple(t.buffers.values()), tuple(top.found))
    check_region(region)
    held = {b.name: old for old, b in t.buffers.items() if old.argument or old.value is not None}
    return Translated(region, held, t.loops, t.buffers)
