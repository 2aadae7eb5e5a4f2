"""Where evaluation stands: the loops that run at once as dims, the others as numbers, and what memory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, literal, operator, reduce
from tensorir.ir.nodes import Expr, Literal
from tensorir.ir.types import BOOL, INT64, Interval, TensorType
from tensorir.lifting.emission.tensors import alike, position, sum_of, width_of
from tensorir.lifting.region.nodes import Bound, Buffer, Condition, Index
from tensorir.runtime.errors import Span


@dataclass(slots=True)
class Run:
    """What is the same everywhere in a program: its buffers, options, and what was decided and is to be said."""

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
