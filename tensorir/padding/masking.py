"""What a padded program is made with: intervals that hold those of all sizes, and where in them a point counts.

Every tensor is on the hull of its intervals at all sizes, in the coordinates that it always has; points beyond where it
really ends are computed and of no meaning. What depends on where it ends asks the coordinates, `pos`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from tensorir.distribution.whole_results import zero
from tensorir.ir.build import call, coerced, cut, free_name, literal, var
from tensorir.ir.nodes import Expr, Lambda, Operator, Var
from tensorir.ir.types import Dims, Interval, TensorType
from tensorir.padding.affine_ends import AffineEnds, Ends
from tensorir.text.syntax import Affine

__all__ = ["Masking", "all_of", "fitted", "masked"]


@dataclass(eq=False, slots=True)
class Masking:
    """Intervals at all sizes, and conditions, of the nodes of one program."""

    ends: AffineEnds
    sizes: Mapping[str, Var]
    """The parameter that each size is."""
    taken: set[str]
    """Names that are no new variable's."""
    known: dict[tuple[str, Interval], Expr] = field(default_factory=dict[tuple[str, Interval], Expr])
    """Coordinates, so that all conditions share them."""

    # Intervals

    def hull(self, ends: Ends) -> Interval:
        """The points that an interval has at any size."""
        start, stop = ends
        return Interval(self._extreme(start, min), max(self._extreme(start, min), self._extreme(stop, max)))

    def _extreme(self, form: Affine, choose: Callable[[int, int], int]) -> int:
        return form.constant + sum(choose(0, factor * self.ends.most[n]) for n, factor in form.terms)

    def dims(self, node: Expr) -> Dims:
        """The hulls of a tensor's intervals; without those that nobody can tell."""
        found: list[tuple[str, Interval]] = []
        forms = self.ends.forms[id(node)]
        for k, d in enumerate(node.tensor.dims):
            start, stop = forms[2 * k : 2 * k + 2]
            if start is not None and stop is not None:
                found.append((d, self.hull((start, stop))))
        return Dims(tuple(found))

    def params(self, function: Lambda | Operator) -> tuple[TensorType, ...]:
        """The types of a function's parameters on hulls."""
        return tuple(
            kind.on(Dims(tuple((d, self.hull(ends)) for d, ends in pairs.items())))
            for kind, pairs in zip(function.type.params, self.ends.params(function), strict=True)
        )

    def varies(self, node: Expr, dim: str) -> bool:
        """Whether an interval is another at other sizes."""
        return any(end.terms for end in self.ends.along(node, dim))

    def varying(self, node: Expr) -> list[str]:
        """The dims along which a tensor's interval is another at other sizes."""
        forms = self.ends.forms[id(node)]
        pairs = [forms[2 * k : 2 * k + 2] for k in range(len(node.tensor.dims))]
        return [d for d, p in zip(node.tensor.dims, pairs, strict=True) if any(e is None or e.terms for e in p)]

    # Expressions

    def scalar(self, form: Affine) -> Expr:
        """A sum of sizes."""
        terms = [
            self.sizes[n] if factor == 1 else call("multiplies", literal(factor), self.sizes[n])
            for n, factor in form.terms
        ]
        if not terms:
            return literal(form.constant)
        total = reduce(lambda a, b: call("plus", a, b), terms)
        if not form.constant:
            return total
        return call("plus" if form.constant > 0 else "minus", total, literal(abs(form.constant)))

    def at(self, dim: str, interval: Interval) -> Expr:
        """The coordinates of the points of an interval."""
        if (dim, interval) not in self.known:
            points = call("add_dim", literal(False), static=(dim, interval.start, interval.stop))
            self.known[dim, interval] = call("pos", points, static=(dim,))
        return self.known[dim, interval]

    def inside(self, node: Expr, dims: Iterable[str], within: Expr | None = None) -> Expr | None:
        """Where a tensor has a point along dims, on the hulls of its intervals; None where it always has.

        `within` has the same dims, and no point beyond its own ends is asked for.
        """
        sides: list[Expr] = []
        for d in dims:
            ends = self.ends.along(node, d)
            others = None if within is None else self.ends.along(within, d)
            hull = self.hull(ends)
            for k, compare in enumerate(("greater_equal", "less")):
                if ends[k].terms and (others is None or others[k] != ends[k]):
                    sides.append(call(compare, self.at(d, hull), self.scalar(ends[k])))
        return all_of(sides)

    def fresh(self, name: str, kind: TensorType) -> Var:
        """A variable that nothing else is called like."""
        return var(free_name(name, self.taken), kind)


def masked(counts: Expr | None, value: Expr, otherwise: Expr) -> Expr:
    """A value where it counts."""
    return value if counts is None else call("if", counts, value, otherwise, span=value.span)


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """Where all hold; None is everywhere."""
    given = [c for c in conditions if c is not None]
    return reduce(lambda a, b: call("and", a, b), given) if given else None


def fitted(value: Expr, dims: Dims) -> Expr:
    """A value on given intervals of the dims that it has: cut, or with zeros where it has no points."""
    have = value.tensor.dims
    place = Dims(tuple((d, i) for d, i in dims.items if d in have))
    if all(have[d].covers(i) for d, i in place.items):
        return cut(value, place)
    inner = cut(value, Dims(tuple((d, i & have[d]) for d, i in place.items)))
    blank = coerced(zero(value.tensor.element), value.tensor.on(have.replaced(place)))
    return call("update", blank, inner, span=value.span)
