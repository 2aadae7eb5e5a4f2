"""Access maps as moves: an index that is a number with loops and dims for digits splits a dim of its buffer into them.

`A[32*b + x]` reads the blocks `b` of 32 elements `x`: the dim of A split by 32, and nothing is moved. What hangs over
the end is padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import Interval, Scalar
from tensorir.lifting.batched.scope import Scope
from tensorir.lifting.emission.tensors import cut, renamed, shifted, spread


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
        """How many values it runs through, gaps and all."""
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
    """What a buffer has at an index: its dim split into the digits."""
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
