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
    """The program at the largest sizes, with every interval bound and static number as an affine function of the
    sizes.
    """

    most: Mapping[str, int]
    fencil: Fencil
    results: Mapping[str, Expr]
    """By name, what each result is of what is passed."""
    nodes: tuple[Expr, ...]
    forms: Mapping[int, tuple[Affine | None, ...]]
    """By identity, the numbers of a node: None where one is no affine function of the sizes."""

    def along(self, node: Expr, dim: str) -> Ends:
        """The affine start and stop of a tensor's interval along a dim; raises B13 if they are not affine in the
        sizes.
        """
        dims = node.tensor.dims
        position = 2 * dims.names.index(dim)
        return _known_ends(self.forms[id(node)][position : position + 2], f"{dim}{dims[dim]}", node)

    def params(self, function: Lambda | Operator) -> tuple[dict[str, Ends], ...]:
        """By parameter of a function, the affine ends of its intervals by dim; raises B13 like `along`."""
        forms = iter(self.forms[id(function)])
        ends: list[dict[str, Ends]] = []
        for kind in function.type.params:
            ends.append({})
            for d in kind.dims:
                ends[-1][d] = _known_ends((next(forms), next(forms)), f"{d}{kind.dims[d]}", function)
        return tuple(ends)

    def number(self, node: Expr, k: int = 0) -> Affine:
        """The k-th static number of a node as an affine function of the sizes; raises B13 if it is none."""
        bound_count = len(_of_type(node))
        affine = self.forms[id(node)][bound_count + k]
        if affine is None:
            raise refuse("B13", "a number here is no sum of sizes.", HINT, at=node.span)
        return affine

    def check(self, fencil: Fencil, sizes: Mapping[str, int]) -> None:
        """Raises B13 if the program at these sizes has another structure, or other intervals than the affine ends
        give.
        """
        sample = _sample(fencil, sizes)
        if not _alike(sample.nodes, self.nodes):
            raise _another(sizes, self.nodes, self.most)
        for own_node, node in zip(self.nodes, sample.nodes, strict=True):
            forms = self.forms[id(own_node)]
            if _agreed(forms, sample.sizes, node) != forms:
                message = f"with {_sizes_text(sizes)} its intervals are not those that sums of sizes give."
                raise refuse("B13", message, HINT, at=own_node.span)


HINT = "give such sizes their values: n=10 instead of a bound."


def _known_ends(pair: Sequence[Affine | None], interval: str, node: Expr) -> Ends:
    """The affine ends of an interval; raises B13 if one of them is not affine in the sizes (None)."""
    start, stop = pair
    if start is None or stop is None:
        raise refuse("B13", f"where {interval} ends is no sum of sizes.", HINT, at=node.span)
    return start, stop


def affine_ends(specialise: Callable[..., Fencil], most: Mapping[str, int], others: Mapping[str, int]) -> AffineEnds:
    """Fits every interval bound and static number of a specialised program as an affine function of the sizes.

    Slopes come from a sample at `most` and one smaller for each size, with all `others` fixed; they are verified
    at probes, and numbers that disagree become None. Raises B13 if the structure of the program changes with a size.
    """

    def sample_at(sizes: Mapping[str, int]) -> _Sample:
        return _sample(specialise(**{**most, **others, **sizes}), {**most, **sizes})

    bound = sample_at({})
    forms = [tuple(number(k) for k in _numbers(node)) for node in bound.nodes]
    for name in most:
        smaller = _smaller(sample_at, name, most[name])
        if smaller is None:
            continue
        if not _alike(smaller.nodes, bound.nodes):
            raise _another(smaller.sizes, bound.nodes, most)
        step = most[name] - smaller.sizes[name]
        forms = [
            _sloped(*values, name, most[name], step) for values in zip(forms, bound.nodes, smaller.nodes, strict=True)
        ]
    for sizes in _probes(most):
        try:
            sample = sample_at(sizes)
        except DiagnosticError:
            continue  # sizes at which the program is wrong say nothing of it
        if _alike(sample.nodes, bound.nodes):
            forms = [_agreed(form, sample.sizes, node) for form, node in zip(forms, sample.nodes, strict=True)]
    return AffineEnds(
        dict(most), bound.fencil, bound.results, bound.nodes,
        {id(node): form for node, form in zip(bound.nodes, forms, strict=True)},
    )  # fmt: skip


def _smaller(sample_at: Callable[[Mapping[str, int]], _Sample], name: str, max_size: int) -> _Sample | None:
    """A sample with one size smaller by the first of `STEPS` at which the program is well-formed; None if none is."""
    for step in STEPS:
        if step <= max_size:
            try:
                return sample_at({name: max_size - step})
            except DiagnosticError:
                continue
    return None


def _probes(max_sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes at which the fitted functions are compared with the program: halves, small distinct ones, each alone
    small.
    """
    yield {n: m // 2 for n, m in max_sizes.items()}
    yield {n: min(m, 5 + 3 * k) for k, (n, m) in enumerate(max_sizes.items())}
    yield {n: min(m, 5 + 3 * (len(max_sizes) - k)) for k, (n, m) in enumerate(max_sizes.items())}
    for name, m in max_sizes.items():
        yield {name: min(m, 7)}


def _sample(fencil: Fencil, sizes: Mapping[str, int]) -> _Sample:
    """The program at these sizes with results inlined, and all nodes in postorder, so that samples compare node by
    node.
    """
    results = whole_results(fencil)
    expressions = _expanded(tuple(results.values()))
    results = dict(zip(results, expressions, strict=True))
    return _Sample(dict(sizes), fencil, results, tuple(postorder(*fencil.params, *expressions)))


def _expanded(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Inlines the definitions of builtins that choose elements, since padding must not be chosen; contractions stay."""

    def rule(node: Expr) -> Expr | None:
        """The definition of a call applied to its operands, None if it has none or is a contraction."""
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
    """All integers of a node that may depend on sizes: the interval bounds of its type, then its own static numbers."""
    match node:
        case Literal(value) if node.element.is_integer or (node.element.is_float and float(value).is_integer()):
            return [*_of_type(node), int(value)]
        case Call(_, _, static):
            return [*_of_type(node), *(k for k in static if isinstance(k, int) and not isinstance(k, bool))]
        case _:
            return _of_type(node)


def _kind(node: Expr) -> Any:
    """All of a node except `_numbers` and its operands, for a comparison of structure between sizes."""
    match node:
        case Literal():
            contents: Any = node.element if len(_numbers(node)) else node.own()
        case Call(op, _, static):
            fixed = (x.names if isinstance(x, Dims) else x for x in static)
            contents = op, [x for x in fixed if isinstance(x, bool) or not isinstance(x, int)]
        case Operator(op):
            contents = op
        case Lambda(params):
            contents = [p.name for p in params]
        case _:
            contents = getattr(node, "name", "")
    return type(node), contents, [(kind.element, kind.dims.names) for kind in _types(node)], len(node.children)


def _alike(some: tuple[Expr, ...], others: tuple[Expr, ...]) -> bool:
    return len(some) == len(others) and all(_kind(a) == _kind(b) for a, b in zip(some, others, strict=True))


def _another(sizes: Mapping[str, int], nodes: tuple[Expr, ...], most: Mapping[str, int]) -> DiagnosticError:
    """The B13 error for a program whose structure differs between `sizes` and `most`."""
    return refuse(
        "B13",
        f"with {_sizes_text(sizes)} the program is another one than with {_sizes_text(most)}.",
        HINT,
        at=nodes[-1].span,
    )


def _sloped(
    forms: tuple[Affine | None, ...], node: Expr, smaller_node: Expr, name: str, most: int, step: int
) -> tuple[Affine | None, ...]:
    """The affine functions with a term for the size `name` added, its slope from the values `step` below its maximum.

    None where the slope is no integer, or the function was None already.
    """
    sloped: list[Affine | None] = []
    for form, at_max, at_smaller in zip(forms, _numbers(node), _numbers(smaller_node), strict=True):
        slope = Fraction(at_max - at_smaller, step)
        is_integer = form is not None and slope.denominator == 1
        sloped.append(form.plus(variable(name).minus(number(most)).times(int(slope))) if form and is_integer else None)
    return tuple(sloped)


def _agreed(forms: tuple[Affine | None, ...], sizes: Mapping[str, int], node: Expr) -> tuple[Affine | None, ...]:
    """The affine functions that predict the node's numbers at these sizes, None for the others.

    Two intervals without points agree whatever their bounds.
    """
    numbers, agreed = _numbers(node), list(forms)
    bound_count = len(_of_type(node))
    for position in range(0, bound_count, 2):
        start, stop = forms[position : position + 2]
        if start is None or stop is None:
            continue
        predicted, actual = Interval(start.at(sizes), stop.at(sizes)), Interval(*numbers[position : position + 2])
        if predicted != actual and (predicted or actual):
            agreed[position : position + 2] = None, None
    for position in range(bound_count, len(numbers)):
        affine = forms[position]
        if affine is not None and affine.at(sizes) != numbers[position]:
            agreed[position] = None
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
        """The smallest interval that contains the interval with these affine ends at all sizes from 0 to their
        maxima.
        """
        start, stop = (end.range({n: (0, most) for n, most in self.ends.most.items()}) for end in ends)
        assert start is not None and stop is not None
        return Interval(start[0], max(start[0], stop[1]))

    def dims(self, node: Expr) -> Dims:
        """The hulls of a tensor's intervals; dims whose ends are not affine are left out."""
        hulls: list[tuple[str, Interval]] = []
        forms = self.ends.forms[id(node)]
        for k, d in enumerate(node.tensor.dims):
            start, stop = forms[2 * k : 2 * k + 2]
            if start is not None and stop is not None:
                hulls.append((d, self.hull((start, stop))))
        return Dims(tuple(hulls))

    def params(self, function: Lambda | Operator) -> tuple[TensorType, ...]:
        """The types of a function's parameters, on the hulls of their intervals."""
        return tuple(
            kind.on(Dims(tuple((d, self.hull(ends)) for d, ends in pairs.items())))
            for kind, pairs in zip(function.type.params, self.ends.params(function), strict=True)
        )

    def varies(self, node: Expr, dim: str) -> bool:
        """True if an interval is another at other sizes."""
        return any(end.terms for end in self.ends.along(node, dim))

    def varying(self, node: Expr) -> list[str]:
        """The dims along which a tensor's interval depends on a size, or is not affine."""
        forms = self.ends.forms[id(node)]
        pairs = [forms[2 * k : 2 * k + 2] for k in range(len(node.tensor.dims))]
        return [d for d, p in zip(node.tensor.dims, pairs, strict=True) if any(e is None or e.terms for e in p)]

    # Expressions

    def scalar(self, affine: Affine) -> Expr:
        """An affine function of the sizes as an expression of their parameters, such as `2 × n + m - 1`."""
        terms = [
            self.sizes[n] if factor == 1 else call("multiplies", literal(factor), self.sizes[n])
            for n, factor in affine.coefficients.items()
        ]
        if not terms:
            return literal(affine.constant)
        total = reduce(lambda a, b: call("plus", a, b), terms)
        if not affine.constant:
            return total
        return call("plus" if affine.constant > 0 else "minus", total, literal(abs(affine.constant)))

    def at(self, dim: str, interval: Interval) -> Expr:
        """The coordinate of each point of an interval, as an expression; cached, so that all conditions share it."""
        if (dim, interval) not in self.known:
            points = call("add_dim", literal(False), static=(dim, interval.start, interval.stop))
            self.known[dim, interval] = call("pos", points, static=(dim,))
        return self.known[dim, interval]

    def inside(self, node: Expr, dims: Iterable[str], within: Expr | None = None) -> Expr | None:
        """The condition that a point of the hull is valid along `dims`, i.e. lies in the interval at the actual sizes.

        None if every point is valid. Ends that are also ends of `within`, which has the same dims, are not compared.
        """
        sides: list[Expr] = []
        for d in dims:
            ends = self.ends.along(node, d)
            outer_ends = None if within is None else self.ends.along(within, d)
            hull = self.hull(ends)
            for side, compare in enumerate(("greater_equal", "less")):
                if ends[side].terms and (outer_ends is None or outer_ends[side] != ends[side]):
                    sides.append(call(compare, self.at(d, hull), self.scalar(ends[side])))
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
    """A value on the given intervals of its dims: cut to them, and zero at points that it lacks."""
    value_dims = value.tensor.dims
    target = Dims(tuple((d, i) for d, i in dims.items if d in value_dims))
    if all(value_dims[d].covers(i) for d, i in target.items):
        return cut(value, target)
    inner = cut(value, Dims(tuple((d, i & value_dims[d]) for d, i in target.items)))
    blank = coerced(zero(value.tensor.element), value.tensor.on(value_dims.replaced(target)))
    return call("update", blank, inner, span=value.span)
