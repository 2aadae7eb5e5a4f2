"""Intervals and masks as functions of sizes up to a bound: ends, offsets and counts, each affine in the sizes.

A template is typed at its bound, at a smaller value of each size, and at a few more; it gives the same nodes each time,
and what is no affine function of the sizes at all of these is known for that, and refused where it is asked for.

>>> from tensorir.text import parse
>>> from tensorir.text.lexer import affine_text
>>> f = parse("f(y: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { y ← ⟪I, 1⟫(x); }")
>>> ends = affine_ends(f.specialise, {"n": 100}, {})
>>> for node in ends.nodes:
...     print(node, *map(affine_text, ends.along(node, "I")))
y 1 n-1
x 0 n
⟪I, 1⟫(x) -1 n-1
subset(⟪I, 1⟫(x), I[1:99]) 1 n-1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

from tensorir.distribution.whole_program import whole_results, zero
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import apply, call, coerced, cut, free_name, literal, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rewrite_all
from tensorir.ir.substitution import inlined
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import DiagnosticError, refuse

Ends = tuple[Affine, Affine]
"""Where an interval starts and stops."""

STEPS = (1, 2, 3, 4, 6, 8, 16, 32, 64)
"""By how much a size is smaller where the program is looked at again: by the least by which it can be."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A program at some sizes: its parameters and results, without applied functions, and all their nodes in order."""

    sizes: Mapping[str, int]
    fencil: Fencil
    results: Mapping[str, Expr]
    nodes: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class AffineEnds:
    """A program at its bound, with its numbers as functions of the sizes."""

    most: Mapping[str, int]
    fencil: Fencil
    results: Mapping[str, Expr]
    """By name, what each result is of what is passed."""
    nodes: tuple[Expr, ...]
    forms: Mapping[int, tuple[Affine | None, ...]]
    """By identity, the numbers of a node: None where one is no affine function of the sizes."""

    def along(self, node: Expr, dim: str) -> Ends:
        """The ends of the interval of a tensor; raises B13 where sizes do not tell them by a sum."""
        dims = node.tensor.dims
        k = 2 * dims.names.index(dim)
        return _known_ends(self.forms[id(node)][k : k + 2], f"{dim}{dims[dim]}", node)

    def params(self, function: Lambda | Operator) -> tuple[dict[str, Ends], ...]:
        """The ends of the intervals of a function's parameters."""
        forms = iter(self.forms[id(function)])
        ends: list[dict[str, Ends]] = []
        for kind in function.type.params:
            ends.append({})
            for d in kind.dims:
                ends[-1][d] = _known_ends((next(forms), next(forms)), f"{d}{kind.dims[d]}", function)
        return tuple(ends)

    def number(self, node: Expr, k: int = 0) -> Affine:
        """A number of a node besides its type."""
        of_type = len(_of_type(node))
        form = self.forms[id(node)][of_type + k]
        if form is None:
            raise refuse("B13", "a number here is no sum of sizes.", HINT, at=node.span)
        return form

    def check(self, fencil: Fencil, sizes: Mapping[str, int]) -> None:
        """Raise B13 where the program has other intervals at some sizes than its ends say."""
        sample = _sample(fencil, sizes)
        if not _alike(sample.nodes, self.nodes):
            raise _another(sizes, self.nodes, self.most)
        for known, node in zip(self.nodes, sample.nodes, strict=True):
            forms = self.forms[id(known)]
            if _agreed(forms, sample.sizes, node) != forms:
                message = f"with {_sizes_text(sizes)} its intervals are not those that sums of sizes give."
                raise refuse("B13", message, HINT, at=known.span)


HINT = "give such sizes their values: n=10 instead of a bound."


def _known_ends(pair: Sequence[Affine | None], interval: str, node: Expr) -> Ends:
    start, stop = pair
    if start is None or stop is None:
        raise refuse("B13", f"where {interval} ends is no sum of sizes.", HINT, at=node.span)
    return start, stop


def affine_ends(specialise: Callable[..., Fencil], most: Mapping[str, int], others: Mapping[str, int]) -> AffineEnds:
    """The ends of a template for sizes up to `most`, the `others` being what they are."""

    def at(sizes: Mapping[str, int]) -> _Sample:
        return _sample(specialise(**{**most, **others, **sizes}), {**most, **sizes})

    bound = at({})
    forms = [tuple(number(k) for k in _numbers(node)) for node in bound.nodes]
    for name in most:
        smaller = _smaller(at, name, most[name])
        if smaller is None:
            continue
        if not _alike(smaller.nodes, bound.nodes):
            raise _another(smaller.sizes, bound.nodes, most)
        step = most[name] - smaller.sizes[name]
        forms = [_sloped(*each, name, most[name], step) for each in zip(forms, bound.nodes, smaller.nodes, strict=True)]
    for sizes in _probes(most):
        try:
            sample = at(sizes)
        except DiagnosticError:
            continue  # sizes at which the program is wrong say nothing of it
        if _alike(sample.nodes, bound.nodes):
            forms = [_agreed(form, sample.sizes, node) for form, node in zip(forms, sample.nodes, strict=True)]
    return AffineEnds(
        dict(most), bound.fencil, bound.results, bound.nodes,
        {id(node): form for node, form in zip(bound.nodes, forms, strict=True)},
    )  # fmt: skip


def _smaller(at: Callable[[Mapping[str, int]], _Sample], name: str, most: int) -> _Sample | None:
    """The program where a size is smaller by the least by which it can be."""
    for step in STEPS:
        if step <= most:
            try:
                return at({name: most - step})
            except DiagnosticError:
                continue
    return None


def _probes(most: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes at which sums are compared with what intervals are."""
    yield {n: m // 2 for n, m in most.items()}
    yield {n: min(m, 5 + 3 * k) for k, (n, m) in enumerate(most.items())}
    yield {n: min(m, 5 + 3 * (len(most) - k)) for k, (n, m) in enumerate(most.items())}
    for name, m in most.items():
        yield {name: min(m, 7)}


def _sample(fencil: Fencil, sizes: Mapping[str, int]) -> _Sample:
    results = whole_results(fencil)
    expressions = _expanded(tuple(results.values()))
    results = dict(zip(results, expressions, strict=True))
    return _Sample(dict(sizes), fencil, results, tuple(postorder(*fencil.params, *expressions)))


def _expanded(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The expressions with the definitions of what finds elements, which padding would take part in."""

    def rule(node: Expr) -> Expr | None:
        # sums of products have a rule of their own
        if isinstance(node, Call) and node.definition is not None and not TABLE[node.op].linear:
            return apply(node.definition, *node.args, span=node.span)
        return None

    return inlined(rewrite_all(roots, rule))


def _types(node: Expr) -> tuple[TensorType, ...]:
    """The type of a tensor, or those of a function's parameters."""
    return (node.type,) if isinstance(node.type, TensorType) else node.type.params


def _of_type(node: Expr) -> list[int]:
    return [end for kind in _types(node) for _, i in kind.dims.items for end in (i.start, i.stop)]


def _numbers(node: Expr) -> list[int]:
    """The ends of the intervals of a node's type, or of its parameters' if it is a function, and its own numbers."""
    match node:
        case Literal(value) if node.element.is_integer or (node.element.is_float and float(value).is_integer()):
            return [*_of_type(node), int(value)]
        case Call(_, _, static):
            return [*_of_type(node), *(k for k in static if isinstance(k, int) and not isinstance(k, bool))]
        case _:
            return _of_type(node)


def _kind(node: Expr) -> Any:
    """The row of a node besides its numbers."""
    match node:
        case Literal():
            rest: Any = node.element if len(_numbers(node)) else node.own()
        case Call(op, _, static):
            fixed = (x.names if isinstance(x, Dims) else x for x in static)
            rest = op, [x for x in fixed if isinstance(x, bool) or not isinstance(x, int)]
        case Operator(op):
            rest = op
        case Lambda(params):
            rest = [p.name for p in params]
        case _:
            rest = getattr(node, "name", "")
    return type(node), rest, [(kind.element, kind.dims.names) for kind in _types(node)], len(node.children)


def _alike(some: tuple[Expr, ...], others: tuple[Expr, ...]) -> bool:
    return len(some) == len(others) and all(_kind(a) == _kind(b) for a, b in zip(some, others, strict=True))


def _another(sizes: Mapping[str, int], nodes: tuple[Expr, ...], most: Mapping[str, int]) -> DiagnosticError:
    return refuse(
        "B13",
        f"with {_sizes_text(sizes)} the program is another one than with {_sizes_text(most)}.",
        HINT,
        at=nodes[-1].span,
    )


def _sloped(
    forms: tuple[Affine | None, ...], node: Expr, smaller: Expr, name: str, most: int, step: int
) -> tuple[Affine | None, ...]:
    """Numbers as functions of one more size, from their values where it is smaller."""
    sloped: list[Affine | None] = []
    for form, now, before in zip(forms, _numbers(node), _numbers(smaller), strict=True):
        slope = Fraction(now - before, step)
        whole = form is not None and slope.denominator == 1
        sloped.append(form.plus(variable(name).minus(number(most)).times(int(slope))) if form and whole else None)
    return tuple(sloped)


def _agreed(forms: tuple[Affine | None, ...], sizes: Mapping[str, int], node: Expr) -> tuple[Affine | None, ...]:
    """The numbers that are what they are at some sizes too; of intervals without points it does not matter."""
    numbers, agreed = _numbers(node), list(forms)
    count = len(_of_type(node))
    for k in range(0, count, 2):
        start, stop = forms[k : k + 2]
        if start is None or stop is None:
            continue
        said, is_now = Interval(start.at(sizes), stop.at(sizes)), Interval(*numbers[k : k + 2])
        if said != is_now and (said or is_now):
            agreed[k : k + 2] = None, None
    for k in range(count, len(numbers)):
        form = forms[k]
        if form is not None and form.at(sizes) != numbers[k]:
            agreed[k] = None
    return tuple(agreed)


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return " and ".join(f"{n} = {k}" for n, k in sizes.items())


# What a padded program is made with: intervals that hold those of all sizes, and where in them a point counts.
#
# Every tensor is on the hull of its intervals at all sizes, in the coordinates that it always has; points beyond
# where it really ends are computed and of no meaning. What depends on where it ends asks the coordinates, `pos`.


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
        start, stop = (end.range({n: (0, most) for n, most in self.ends.most.items()}) for end in ends)
        assert start is not None and stop is not None
        return Interval(start[0], max(start[0], stop[1]))

    def dims(self, node: Expr) -> Dims:
        """The hulls of a tensor's intervals; without those that nobody can tell."""
        hulls: list[tuple[str, Interval]] = []
        forms = self.ends.forms[id(node)]
        for k, d in enumerate(node.tensor.dims):
            start, stop = forms[2 * k : 2 * k + 2]
            if start is not None and stop is not None:
                hulls.append((d, self.hull((start, stop))))
        return Dims(tuple(hulls))

    def params(self, function: Lambda | Operator) -> tuple[TensorType, ...]:
        """The types of a function's parameters on hulls."""
        return tuple(
            kind.on(Dims(tuple((d, self.hull(ends)) for d, ends in pairs.items())))
            for kind, pairs in zip(function.type.params, self.ends.params(function), strict=True)
        )

    def varies(self, node: Expr, dim: str) -> bool:
        """True if an interval is another at other sizes."""
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
            for n, factor in form.coefficients.items()
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
        """The condition that a tensor has a point along dims, on the hulls of its intervals; None where it always has.

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
    """The conjunction of conditions; None holds everywhere."""
    present = [c for c in conditions if c is not None]
    return reduce(lambda a, b: call("and", a, b), present) if present else None


def fitted(value: Expr, dims: Dims) -> Expr:
    """A value on given intervals of the dims that it has: cut, or with zeros where it has no points."""
    have = value.tensor.dims
    place = Dims(tuple((d, i) for d, i in dims.items if d in have))
    if all(have[d].covers(i) for d, i in place.items):
        return cut(value, place)
    inner = cut(value, Dims(tuple((d, i & have[d]) for d, i in place.items)))
    blank = coerced(zero(value.tensor.element), value.tensor.on(have.replaced(place)))
    return call("update", blank, inner, span=value.span)
