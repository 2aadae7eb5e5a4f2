"""The state of evaluation: loops that run at once as dims, the others as numbers, and contents of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, function, literal, operator, reduce, scan
from tensorir.ir.nodes import Call, Expr, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import BOOL, INT64, Interval, Scalar, TensorType, bcast
from tensorir.lifting.emission.tensors import alike, cut, position, renamed, shifted, spread, sum_of, width_of
from tensorir.lifting.region.nodes import Bound, Buffer, Condition, Index
from tensorir.runtime.errors import Span


@dataclass(slots=True)
class Run:
    """State of a whole program: its buffers, options, decisions, and messages for the report."""

    buffers: Mapping[str, Buffer]
    checked: bool = False
    exact: bool = False
    on_hazard: str = "error"
    raise_online: bool = False
    """Whether sums that are scaled by the largest element so far are scaled once."""
    decided: list[tuple[object, str, str]] = field(default_factory=list[tuple[object, str, str]])
    notes: list[str] = field(default_factory=list[str])
    merged: list[Span] = field(default_factory=list[Span])
    """Where sums of parts are one sum."""
    asserted: list[tuple[Expr, str, Span]] = field(default_factory=list[tuple[Expr, str, Span]])
    unchecked: bool = False
    """Whether a program that checks would differ."""
    count: int = 0
    names: frozenset[str] | None = None

    def fresh(self, prefix: str) -> str:
        self.count += 1
        while f"{prefix}_{self.count}" in self.taken:
            self.count += 1
        return f"{prefix}_{self.count}"

    @property
    def taken(self) -> frozenset[str]:
        """Names that mean something: of buffers and of their dims."""
        if self.names is None:
            self.names = frozenset(self.buffers) | {d for b in self.buffers.values() for d, _ in b.dims}
        return self.names


@dataclass(slots=True)
class Scope:
    """The loops around, which of their iterations run, and what values and memory are there."""

    run: Run
    dims: dict[str, Interval]
    numbers: dict[str, Expr]
    ranges: dict[str, tuple[int, int]]
    memory: dict[str, Expr]
    values: dict[str, Expr]
    active: Expr | None = None

    def inside(
        self, dims: Mapping[str, Interval] | None = None, numbers: Mapping[str, Expr] | None = None,
        ranges: Mapping[str, tuple[int, int]] | None = None, memory: dict[str, Expr] | None = None,
        active: Expr | None = None,
    ) -> Scope:  # fmt: skip
        """The scope of a body."""
        return replace(
            self,
            dims={**self.dims, **(dims or {})},
            numbers={**self.numbers, **(numbers or {})},
            ranges={**self.ranges, **(ranges or {})},
            memory=self.memory if memory is None else memory,
            active=both(self.active, active),
        )

    def index(self, i: Index, own: Mapping[str, Interval]) -> Expr:
        """An index as a tensor."""
        return self.sum(i, own) if isinstance(i, Affine) else self.values[i.name]

    def sum(self, a: Affine, own: Mapping[str, Interval]) -> Expr:
        """A sum of indices as a tensor."""
        ranges = self.known_ranges(own)
        width = width_of(a, ranges) if a.names <= ranges.keys() else INT64
        return sum_of(a, {n: self.variable(n, own) for n in a.names}, width)

    def variable(self, name: str, own: Mapping[str, Interval]) -> Expr:
        """A loop's variable, or a coordinate of a value."""
        if name in own:
            return position(name, own[name])
        if name in self.dims:
            return position(name, self.dims[name])
        return self.numbers[name]

    def known_ranges(self, own: Mapping[str, Interval]) -> dict[str, tuple[int, int]]:
        return {**self.ranges, **{n: (i.start, i.stop - 1) for n, i in own.items()}}

    def condition(self, c: Condition, own: Mapping[str, Interval]) -> Expr:
        """A condition as a tensor."""
        if not isinstance(c, Bound):
            return self.values[c.name]
        if (known := holds(c, self.known_ranges(own))) is not None:
            return literal(known)
        # one side each, so that no sum is greater than its parts
        more = Affine(tuple(t for t in c.affine.terms if t[1] > 0), max(c.affine.constant, 0))
        less = Affine(tuple((n, -k) for n, k in c.affine.terms if k < 0), max(-c.affine.constant, 0))
        a, b = alike([self.sum(more, own), self.sum(less, own)])
        return call("eq" if c.equal else "greater_equal", a, b)

    def mask(self, where: Sequence[Condition], own: Mapping[str, Interval]) -> Expr | None:
        """All of several conditions; None where they hold."""
        total: Expr | None = None
        for c in where:
            total = both(total, self.condition(c, own))
        return total

    def any_of(self, e: Expr) -> Expr:
        """True if a truth value holds for any iteration that runs at once."""
        for name in e.tensor.dims.names:
            state = TensorType(BOOL, e.tensor.dims.without(name))
            e = reduce(operator("or", state, state), literal(False), e, dim=name)
        return e


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """Two conditions; None is one that holds."""
    if a is None or (isinstance(a, Literal) and a.value is True):
        return None if isinstance(b, Literal) and b.value is True else b
    if b is None or (isinstance(b, Literal) and b.value is True):
        return a
    if a is b or (isinstance(a, Literal) and not a.value):
        return a
    return b if isinstance(b, Literal) else call("and", a, b)


def holds(b: Bound, ranges: Mapping[str, tuple[int, int]]) -> bool | None:
    """True if a bound holds for all values of its variables (True), or for none (False).

    >>> from tensorir.integers.affine import variable
    >>> holds(Bound(variable("i")), {"i": (0, 3)}), holds(Bound(variable("i").times(-1)), {"i": (0, 3)})
    (True, None)
    """
    found = b.affine.range(ranges)
    if found is None:
        return None
    low, high = found
    if b.equal:
        return True if low == high == 0 else None if low <= 0 <= high else False
    return True if low >= 0 else False if high < 0 else None


def dims_of(buffer: Buffer) -> dict[str, Interval]:
    """The intervals of a buffer."""
    return {n: Interval(0, e) for n, e in buffer.dims}


@dataclass(frozen=True, slots=True)
class Digits:
    """A number by its digits, the most significant one first: each a variable, how much it counts, and its extent."""

    terms: tuple[tuple[str, int, int], ...]
    constant: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset(n for n, _, _ in self.terms)

    @property
    def span(self) -> int:
        """The number of values in its range, gaps included."""
        return self.terms[0][1] * self.terms[0][2] if self.terms else 1

    @property
    def is_dense(self) -> bool:
        """True if it runs through all numbers of an interval."""
        inner = 1
        for _, c, extent in reversed(self.terms):
            if c != inner:
                return False
            inner = c * extent
        return True


def digits_of(a: Affine, scope: Scope, own: Mapping[str, Interval]) -> Digits | None:
    """An index as digits that do not overlap; None where it is no such number.

    A loop that runs step by step may stand in front.
    """
    if not a.is_linear or any(c <= 0 for _, c in a.terms):
        return None
    found: list[tuple[str, int, int]] = []
    for name, c in sorted(a.terms, key=lambda t: -t[1]):
        assert isinstance(name, str)
        interval = own.get(name) or scope.dims.get(name)
        if interval is None:
            known = scope.ranges.get(name)
            if found or known is None or known[0] < 0:
                return None
            found.append((name, c, known[1] + 1))
        elif interval.start:
            return None
        else:
            found.append((name, c, len(interval)))
    for (_, c, _), (_, d, extent) in pairwise(found):
        if c % d or c < d * extent:
            return None
    return Digits(tuple(found), a.constant)


def padded(x: Expr, dim: str, whole: Interval, fill: Expr) -> Expr:
    """The tensor on a larger interval, with one value where it had no points."""
    have = x.tensor.dims[dim]
    if have.covers(whole):
        return x
    hull = have | whole
    dims = {n: hull if n == dim else i for n, i in x.tensor.dims.items}
    return call("update", spread(fill, dims), x)


def at_point(x: Expr, dim: str, index: Expr, mode: str = "clamp") -> Expr:
    """A tensor at one place of a dim, which goes away."""
    return call("gather", x, index, static=((dim,), mode))


def window(x: Expr, dim: str, digits: Digits, scope: Scope, fill: Expr) -> Expr:
    """Elements of a buffer at an index: its dim split into the digits."""
    extent = x.tensor.dims[dim].stop
    first = digits.constant
    if not digits.terms:
        return at_point(x, dim, literal(first))
    count = digits.span
    name = digits.terms[0][0]
    step = digits.terms[0][1]
    if name in scope.numbers and count + first > extent:
        # rounds that would leave the buffer read nothing
        count = max(step, -(-(extent - first) // step) * step)
    x = padded(x, dim, Interval(first, first + count), fill)
    x = shifted(cut(x, {dim: Interval(first, first + count)}), dim, first)
    rest = dim
    for k, (name, c, _) in enumerate(digits.terms):
        is_number = name in scope.numbers
        target = scope.run.fresh(dim) if is_number else name
        if c > 1:
            inner = scope.run.fresh(dim)
            x = call("split_dim", x, static=(rest, target, inner, c))
            rest = inner
        else:
            x = renamed(x, {rest: target})
            rest = ""
        if is_number:
            safe = scope.ranges[name][1] < len(x.tensor.dims[target])
            x = at_point(x, target, scope.numbers[name], "clamp" if safe else "zero")
        if rest:
            used = digits.terms[k + 1][1] * digits.terms[k + 1][2] if k + 1 < len(digits.terms) else 1
            x = cut(x, {rest: Interval(0, used)})
    return at_point(x, rest, literal(0)) if rest else x


def zero_of(element: Scalar) -> Expr:
    return literal(False if element.kind == "bool" else 0, element)


def widened(e: Expr, value: Callable[[Var], Expr | None]) -> Expr:
    """The expression with variables replaced by tensors of more dims, which all broadcast by name.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> x = Var("x", tensor("float", K=(0, 3)))
    >>> e = parse_expr("scan(λ(s: tensor<float>, v: tensor<float>) → s × v, true, 1.0, K)(x)", [x])
    >>> widened(e, lambda v: Var("y", tensor("float", K=(0, 3), I=(0, 2))) if v == x else None).type
    tensor<float, K[0:3], I[0:2]>
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if isinstance(node, Var):
            found = value(node)
            done[id(node)] = node if found is None else found
        elif isinstance(node, Operator) or not node.free:
            done[id(node)] = node
        elif isinstance(node, Lambda):
            done[id(node)] = node  # made where it is called
        elif not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children if id(c) not in done)
        else:
            done[id(node)] = _made(node, tuple(done[id(c)] for c in node.children), value)
    return done[id(e)]


def _made(node: Expr, children: tuple[Expr, ...], value: Callable[[Var], Expr | None]) -> Expr:
    match node:
        case Call("reduce" | "scan", (f, *_)):
            assert isinstance(f, Lambda | Operator)
            _, init, *xs = children
            return _fold(node, f, init, xs, value)
        case Call("concat"):
            whole = bcast([c.tensor.dims.without(*_along(children)) for c in children])
            return call("concat", *(spread(c, dict(whole.items)) for c in children), span=node.span)
        case Call():
            return call(node.op, *children, static=node.static, span=node.span)
        case _:
            return rebuild(node, children)


def _along(parts: Sequence[Expr]) -> tuple[str, ...]:
    """The dim along which parts follow each other."""
    first = parts[0].tensor.dims
    return tuple(n for n, i in first.items if any(p.tensor.dims.get(n) not in (None, i) for p in parts[1:]))


def _fold(
    node: Call, f: Lambda | Operator, init: Expr, xs: Sequence[Expr], value: Callable[[Var], Expr | None]
) -> Expr:
    dim = node.static[-1]
    elements = [x.tensor.on(x.tensor.dims.without(dim)) for x in xs]
    if isinstance(f, Operator):
        state = TensorType(init.tensor.element, bcast([*(e.dims for e in elements), init.tensor.dims]))
        made = operator(f.op, state, *elements)
    else:
        captured = [found for v in f.free if (found := value(v)) is not None]
        dims = bcast([*(e.dims for e in elements), init.tensor.dims, *(c.tensor.dims for c in captured)])
        state = TensorType(f.params[0].type.element, dims)
        params = [Var(p.name, t) for p, t in zip(f.params, (state, *elements), strict=True)]
        own = dict(zip((p.name for p in f.params), params, strict=True))

        def inner(v: Var) -> Expr | None:
            return own[v.name] if v.name in own else value(v)

        made = function(params, widened(f.body, inner), span=f.span)
    if node.op == "reduce":
        return reduce(made, init, *xs, dim=dim, span=node.span)
    return scan(made, node.static[0], init, *xs, dim=dim, span=node.span)
