"""Indices that are sums of coordinates: `2 × pos(Y, y) + pos(R, r) - 1` is affine in Y and R.

>>> from tensorir.text import parse_expr
>>> from tensorir.ir.types import tensor
>>> found = affine_index(parse_expr("2 × pos(Y, y) - 1", {"y": tensor("float", Y=(0, 4))}))
>>> dict(found.terms), found.constant, found.range
({'Y': 2}, -1, (-1, 5))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import Interval

__all__ = ["AffineIndex", "affine_index"]


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """A sum of coordinates with whole coefficients, and the intervals of its dims."""

    terms: Mapping[str, int]
    constant: int
    intervals: Mapping[str, Interval]

    @property
    def range(self) -> tuple[int, int]:
        low = high = self.constant
        for name, c in self.terms.items():
            ends = self.intervals[name].start * c, (self.intervals[name].stop - 1) * c
            low, high = low + min(ends), high + max(ends)
        return low, high


def affine_index(e: Expr) -> AffineIndex | None:
    """The sum that an index is; None for any other."""
    found: dict[int, AffineIndex] = {}
    stack = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in found:
            continue
        match node:
            case Literal(value, element) if element.is_integer:
                found[id(node)] = AffineIndex({}, int(value), {})
            case Call("pos", _, (dim,)):
                found[id(node)] = AffineIndex({dim: 1}, 0, {dim: node.tensor.dims[dim]})
            case Call("plus" | "minus" | "multiplies" | "neg", args) if not ready:
                stack += [(node, True), *((a, False) for a in args)]
            case Call(op, args) if ready:
                total = _combined(op, [found[id(a)] for a in args])
                if total is None:
                    return None
                found[id(node)] = total
            case _:
                return None
    return found[id(e)]


def _combined(op: str, terms: Sequence[AffineIndex]) -> AffineIndex | None:
    nothing = AffineIndex({}, 0, {})
    match op, terms:
        case "plus", (x, y):
            return _sum(x, y, 1)
        case "minus", (x, y):
            return _sum(x, y, -1)
        case "neg", (x,):
            return _sum(nothing, x, -1)
        case _, (x, y) if not y.terms:
            return _sum(nothing, x, y.constant)
        case _, (x, y) if not x.terms:
            return _sum(nothing, y, x.constant)
        case _:
            return None


def _sum(a: AffineIndex, b: AffineIndex, factor: int) -> AffineIndex:
    terms = dict(a.terms)
    for name, c in b.terms.items():
        terms[name] = terms.get(name, 0) + factor * c
    intervals = {**a.intervals, **b.intervals}
    kept = {n: c for n, c in terms.items() if c}
    return AffineIndex(kept, a.constant + factor * b.constant, {n: intervals[n] for n in kept})
