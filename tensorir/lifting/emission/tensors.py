"""What the lifts build of the tensor IR: constants on dims, coordinates, parts, and pieces put into place.

>>> from tensorir.ir.types import FLOAT32, Interval
>>> filled(0.0, FLOAT32, {"i": Interval(0, 4)}).type
tensor<float32, i[0:4]>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, cartesian_shift, literal
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Dims, Interval, Scalar
from tensorir.lifting.nests.numbers import fits

WIDTHS = (INT32, INT64, SCALARS["uint64"])
"""The types of sums of coordinates."""


def filled(value: Any, element: Scalar, dims: Mapping[str, Interval]) -> Expr:
    """One number everywhere."""
    return spread(literal(value, element), dims)


def spread(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The tensor with the dims that it lacks."""
    for name, i in dims.items():
        if name not in x.tensor.dims:
            x = call("add_dim", x, static=(name, i.start, i.stop))
    return x


def constant_of(x: Expr) -> Literal | None:
    """The number that a tensor is everywhere."""
    while isinstance(x, Call) and x.op in ("add_dim", "subset", "rename", "cartesian_shift"):
        x = x.args[0]
    return x if isinstance(x, Literal) else None


def renamed(x: Expr, names: Mapping[str, str]) -> Expr:
    """The tensor under other names of its dims."""
    pairs = tuple((old, new) for old, new in names.items() if old != new and old in x.tensor.dims)
    if not pairs:
        return x
    if isinstance(x, Call) and x.op == "rename":
        before: dict[str, str] = dict(x.static[0])
        inner, now = x.args[0], dict(pairs)
        middle = {d: before.get(d, d) for d in inner.tensor.dims}
        return renamed(inner, {d: now.get(m, m) for d, m in middle.items()})
    return call("rename", x, static=(pairs,))


def shifted(x: Expr, dim: str, by: int) -> Expr:
    """`shifted(x, d, c)[p] = x[p + c]`."""
    if not by or dim not in x.tensor.dims:
        return x
    if isinstance(x, Call) and x.op == "cartesian_shift" and x.static[0] == dim:
        return shifted(x.args[0], dim, by + x.static[1])
    return cartesian_shift(x, dim, by)


def cut(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The part of a tensor on intervals; dims that it lacks do not matter."""
    smaller = {n: i for n, i in dims.items() if n in x.tensor.dims and x.tensor.dims[n] != i}
    return call("subset", x, static=(Dims(tuple(smaller.items())),)) if smaller else x


def widened(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The tensor on larger intervals, zero where it had no points."""
    larger = {n: x.tensor.dims[n] | i for n, i in dims.items() if n in x.tensor.dims}
    if all(x.tensor.dims[n] == i for n, i in larger.items()):
        return x
    whole = {n: larger.get(n, i) for n, i in x.tensor.dims.items}
    element = x.tensor.element
    assert isinstance(element, Scalar)
    return call("update", filled(0, element, whole), x)


def position(dim: str, interval: Interval) -> Expr:
    """The coordinate along a dim."""
    return call("pos", filled(False, BOOL, {dim: interval}), static=(dim,))


def sum_of(a: Affine, parts: Mapping[str, Expr], element: Scalar = INT32) -> Expr:
    """A sum of coordinates."""
    # what is taken away stands after something that it is taken from
    first = [t for t in a.terms if t[1] > 0]
    total: Expr | None = literal(a.constant, element) if not first and a.constant > 0 else None
    rest = 0 if total is not None else a.constant
    for atom, c in [*first, *(t for t in a.terms if t[1] < 0)]:
        if isinstance(atom, str):
            part = converted(parts[atom], element)
        else:
            part = call("floordiv", sum_of(atom.inner, parts, element), literal(atom.by, element))
        part = part if abs(c) == 1 else call("multiplies", literal(abs(c), element), part)
        if total is None:
            total = part if c > 0 else call("neg", part)
        else:
            total = call("plus" if c > 0 else "minus", total, part)
    if total is None:
        return literal(a.constant, element)
    if rest:
        total = call("plus" if rest > 0 else "minus", total, literal(abs(rest), element))
    return total


def width_of(a: Affine, ranges: Mapping[str, tuple[int, int]]) -> Scalar:
    """The type to compute a sum in: the first of int32, int64 and uint64 that holds it and what it is made of.

    >>> from tensorir.integers.affine import number, variable
    >>> i, by = variable("i"), {"i": (0, 3)}
    >>> width_of(i.times(1 << 29), by), width_of(i.times(1 << 30), by), width_of(i.plus(number(1 << 63)), by)
    (int32, int64, uint64)
    """
    return next((w for w in WIDTHS if _holds(w, a, ranges)), WIDTHS[-1])


def _holds(element: Scalar, a: Affine, ranges: Mapping[str, tuple[int, int]]) -> bool:
    quotients = [atom for atom, _ in a.terms if not isinstance(atom, str)]
    numbers = (a.constant, *(c for _, c in a.terms), *(q.by for q in quotients))
    return (
        fits(a, element, ranges)
        and all(abs(n) in element.range for n in numbers)
        and all(_holds(element, q.inner, ranges) for q in quotients)
    )


def alike(sums: Sequence[Expr]) -> list[Expr]:
    """Sums as numbers of one type, the widest that one of them has."""
    found = [w for w in WIDTHS if any(x.tensor.element == w for x in sums)]
    return [converted(x, found[-1]) for x in sums]


def converted(x: Expr, element: Scalar) -> Expr:
    """The tensor as one of another element type."""
    return x if x.tensor.element == element else call("cast", x, static=(element,))
