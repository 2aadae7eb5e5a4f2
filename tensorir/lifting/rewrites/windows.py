"""Windows over what is padded: what is read along several dims, each padded or not, is one read of one padded tensor.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> rows = "update(add_dim(I, 0, 7, add_dim(j, 0, 2, 0.0)), gather(J, clamp)(x, pos(j, add_dim(j, 0, 2, 0)) + 1))"
>>> show(Canonical(), f"gather(I, clamp)({rows}, pos(i, add_dim(i, 0, 3, 0)) + 2)", x={"I": (1, 6), "J": (0, 4)})
gather(I, J, clamp)(
  update(add_dim(J, 1, 3, add_dim(I, 0, 7, 0.0)), subset(x, J[1:3])),
  pos(i, add_dim(i, 0, 3, 0)) + 2,
  pos(j, add_dim(j, 0, 2, 0)) + 1
)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from tensorir.integers.affine import Affine, Ranges
from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal
from tensorir.ir.types import Interval, Scalar
from tensorir.lifting.emission.emit import MOST_MARGIN
from tensorir.lifting.emission.tensors import constant_of, cut, filled, position, shifted, sum_of, sum_of_coordinates
from tensorir.lifting.nests.bounded import sum_where
from tensorir.lifting.rewrites.bounds import hull_of


def choice_of_windows(e: Call) -> Expr | None:
    """What is read inside of bounds of sums of coordinates, and a number elsewhere, is read with a margin of it.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "pos(i, add_dim(i, 0, 4, 0)) + pos(r, add_dim(r, 0, 3, 0))"
    >>> inside = f"if {t} ≥ 1 ∧ {t} < 5 then gather(I, zero)(x, {t} - 1) else 0.0"
    >>> show(Canonical(), inside, x={"I": (0, 4)})
    gather(I, clamp)(
      update(add_dim(I, 0, 6, 0.0), ⟪I, -1⟫(x)),
      pos(i, add_dim(i, 0, 4, false)) + pos(r, add_dim(r, 0, 3, false))
    )
    """
    match e.args:
        case (condition, Call("gather", (x, *indices), (dims, "clamp" | "zero" as mode)), other):
            pass
        case _:
            return None
    number, element = constant_of(other), e.tensor.element
    bounds = _bounded_sums(condition)
    if number is None or not bounds or not isinstance(element, Scalar):
        return None
    ranges = {d: (i.start, i.stop - 1) for d, i in e.tensor.dims.items}
    places = _where(bounds, [sum_of_coordinates(i) for i in indices], ranges)
    indices = [i if p is None else _sum(p, i) for i, p in zip(indices, places, strict=True)]
    moved: dict[str, int] = {}
    inside: dict[str, Interval] = {}
    whole: dict[str, Interval] = {}
    for total, (low, high) in bounds.items():
        span = total.range(ranges)
        reading = [(d, p.minus(total)) for d, p in zip(dims, places, strict=True) if p is not None]
        along = [(d, rest.constant) for d, rest in reading if rest.is_number and d not in moved]
        if span is None or len(along) != 1:
            return None
        ((dim, by),) = along
        there = x.tensor.dims[dim].shifted(by)
        window = Interval(span[0], span[1] + 1)
        kept = window & Interval(max(low, span[0]), min(high, span[1] + 1))
        if not there.covers(kept) and (mode == "clamp" or repr(number.value) not in ("0", "0.0", "False")):
            return None
        moved[dim], inside[dim], whole[dim] = by, there & kept, window
    own = {n for total in bounds for n in total.names}
    most = prod(len(e.tensor.dims[n]) for n in own) * MOST_MARGIN
    if own & set(x.tensor.dims) or prod(map(len, whole.values())) > most or not all(inside.values()):
        return None
    for dim, by in moved.items():
        x = shifted(x, dim, by)
    x = cut(x, inside)
    rest = {d: i for d, i in zip(dims, indices, strict=True) if d not in moved}
    if set(whole) & {d for i in rest.values() for d in i.tensor.dims}:
        return None
    if rest:
        hulls = [(x.tensor.dims[d], hull_of(i)) for d, i in rest.items()]
        within = all(hull is not None and interval.covers(hull) for interval, hull in hulls)
        x = call("gather", x, *rest.values(), static=(tuple(rest), "clamp" if within else mode))
    padded = call("update", filled(number.value, element, {**dict(x.tensor.dims.items), **whole}), x)
    asked = zip(dims, places, indices, strict=True)
    sums = {d: _sum(p.plus(Affine((), -moved[d])), i) for d, p, i in asked if p is not None and d in moved}
    return call("gather", padded, *sums.values(), static=(tuple(sums), "clamp"), span=e.span)


def _where(
    bounds: Mapping[Affine, tuple[int, int]], places: Sequence[Affine | None], ranges: Ranges
) -> list[Affine | None]:
    """What places are where sums lie inside of bounds."""
    bounded: dict[Affine, tuple[int, int]] = {}
    for total, (low, high) in bounds.items():
        factor = gcd(*(c for _, c in total.terms))
        span = total.range(ranges)
        if span is not None:
            one = Affine(tuple((n, c // factor) for n, c in total.terms))
            bounded[one] = -(-max(low, span[0]) // factor), min(high - 1, span[1]) // factor
    return [None if p is None else sum_where(p, bounded, ranges) for p in places]


def _sum(total: Affine, index: Expr) -> Expr:
    """A sum of coordinates that an index has."""
    dims = index.tensor.dims
    return sum_of(total, {n: position(n, dims[n]) for n in sorted(total.names)})


def _bounded_sums(condition: Expr) -> dict[Affine, tuple[int, int]] | None:
    """The sums of several coordinates, or multiples, that a condition bounds, each with the interval; None where
    it asks for anything else."""
    match condition:
        case Call("and", (a, b)):
            one, other = _bounded_sums(a), _bounded_sums(b)
            if one is None or other is None:
                return None
            return {t: _both(one.get(t, EVERYWHERE), other.get(t, EVERYWHERE)) for t in {**one, **other}}
        case Call("less" | "less_equal" | "greater_equal" | "greater" as op, (x, Literal(value))):
            total = sum_of_coordinates(x)
            bound = int(value) + (op in ("less_equal", "greater"))
            if total is None or not total.is_linear or total.is_number:
                return None
            bound, total = bound - total.constant, Affine(total.terms)
            return {total: (EVERYWHERE[0], bound) if op.startswith("less") else (bound, EVERYWHERE[1])}
        case _:
            return None


def _both(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return max(a[0], b[0]), min(a[1], b[1])


MOST_VALUES = 4096
"""How many places of windows are looked at."""

EVERYWHERE = -(1 << 62), 1 << 62
"""Where a sum lies that nothing bounds."""


def part_of_windows(e: Call) -> Expr | None:
    """A part of windows of what is padded is windows of a part, with less padding.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> padded = "update(add_dim(I, 0, 6, add_dim(J, 0, 9, 0.0)), x)"
    >>> t = "pos(a, add_dim(a, 0, 2, false)) + 1"
    >>> show(Canonical(), f"subset(gather(I, clamp)({padded}, {t}), J[1:4])", x={"I": (1, 5), "J": (0, 6)})
    gather(I, clamp)(
      update(add_dim(I, 0, 6, add_dim(J, 1, 4, 0.0)), subset(x, J[1:4])),
      pos(a, add_dim(a, 0, 2, false)) + 1
    )
    """
    match e:
        case Call("subset", (Call("gather", (Call("update", (base, part)) as x, *indices), static),), (cuts,)):
            number, element = constant_of(base), e.tensor.element
        case _:
            return None
    own = {d for i in indices for d in i.tensor.dims}
    if number is None or not isinstance(element, Scalar) or own & set(cuts):
        return None
    within = {d: i & part.tensor.dims[d] for d, i in cuts.items if d in part.tensor.dims}
    whole = {**dict(x.tensor.dims.items), **dict(cuts.items)}
    padded = call("update", filled(number.value, element, whole), cut(part, within), span=x.span)
    return call("gather", padded, *indices, static=static, span=e.span)


def padding_of_windows(e: Call) -> Expr | None:
    """Windows with padding around them, which windows further out would read as well, are more windows.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> padded = "update(add_dim(I, 0, 6, 0.0), x)"
    >>> t = "2 × pos(a, add_dim(a, 0, 2, false)) + pos(r, add_dim(r, 0, 3, false))"
    >>> windows = f"gather(I, clamp)({padded}, {t})"
    >>> show(Canonical(), f"update(add_dim(a, 0, 3, add_dim(r, 0, 3, 0.0)), {windows})", x={"I": (1, 4)})
    gather(I, clamp)(
      update(add_dim(I, 0, 7, 0.0), x),
      2 × pos(a, add_dim(a, 0, 3, false)) + pos(r, add_dim(r, 0, 3, false))
    )
    """
    match e.args:
        case (base, Call("gather", (Call("update", (inside, part)) as x, *indices), (dims, "clamp")) as windows):
            number, element = constant_of(base), e.tensor.element
        case _:
            return None
    if number is None or constant_of(inside) != number or not isinstance(element, Scalar):
        return None
    wider = {d: i for d, i in e.tensor.dims.items if windows.tensor.dims.get(d) != i}
    whole = dict(x.tensor.dims.items)
    found = dict(zip(dims, indices, strict=True))
    for dim, index in found.items():
        mine = wider.keys() & set(index.tensor.dims)
        total = sum_of_coordinates(index)
        if not mine:
            continue
        (name, *more) = mine
        if total is None or more or name in x.tensor.dims or dim not in part.tensor.dims:
            return None
        asked = dict(index.tensor.dims.items)
        for beyond in _beyond(asked[name], wider[name]):
            span = total.range({n: (i.start, i.stop - 1) for n, i in {**asked, name: beyond}.items()})
            if span is None or Interval(span[0], span[1] + 1) & part.tensor.dims[dim]:
                return None
            whole[dim] |= Interval(span[0], span[1] + 1)
        asked[name] = wider[name]
        found[dim] = sum_of(total, {n: position(n, asked[n]) for n in sorted(total.names)})
        del wider[name]
    if wider:
        return None
    padded = call("update", filled(number.value, element, whole), part, span=x.span)
    return call("gather", padded, *found.values(), static=windows.static, span=e.span)


def windows_of_whole(e: Call) -> Expr | None:
    """Windows of a part of a tensor with padding around it are windows of more of it, if they skip what is more.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "4 × pos(a, add_dim(a, 0, 2, false)) + pos(r, add_dim(r, 0, 2, false))"
    >>> padded = "update(add_dim(I, 0, 6, 0.0), subset(x, I[0:3]))"
    >>> show(Canonical(), f"gather(I, clamp)({padded}, {t})", x={"I": (0, 4)})
    gather(I, clamp)(
      update(add_dim(I, 0, 6, 0.0), x),
      4 × pos(a, add_dim(a, 0, 2, false)) + pos(r, add_dim(r, 0, 2, false))
    )
    """
    x, *indices = e.args
    dims, mode = e.static
    match x:
        case Call("update", (base, part)) if constant_of(base) is not None and mode == "clamp":
            pass
        case _:
            return None
    for dim, index in zip(dims, indices, strict=True):
        total, found = sum_of_coordinates(index), _uncut(part, dim)
        if total is None or found is None:
            continue
        here, whole = part.tensor.dims[dim], x.tensor.dims[dim]
        more = found.tensor.dims[dim] & whole
        reached = _values(total, dict(index.tensor.dims.items)) if more != here else None
        if reached is None or not all(p in whole for p in reached):
            continue
        if not any(p in more and p not in here for p in reached):
            padded = call("update", base, cut(found, {dim: more}), span=x.span)
            return call("gather", padded, *indices, static=e.static, span=e.span)
    return None


def _uncut(x: Expr, dim: str) -> Expr | None:
    """What a tensor is a part of along a dim; None where it is no part of anything."""
    match x:
        case Call("subset", (y,), (cuts,)):
            inner = y if dim in cuts else _uncut(y, dim)
            return None if inner is None else cut(inner, {d: i for d, i in cuts.items if d != dim})
        case Call("cartesian_shift", (y,), (d, by)):
            inner = _uncut(y, dim)
            return None if inner is None else shifted(inner, d, by)
        case Call("gather", (y, *indices), (dims, _)) if not any(dim in i.tensor.dims for i in indices):
            inner = None if dim in dims else _uncut(y, dim)
            return None if inner is None else call("gather", inner, *indices, static=x.static, span=x.span)
        case _:
            return None


def _values(total: Affine, dims: Mapping[str, Interval]) -> set[int] | None:
    """The values of a sum of coordinates; None where it is none of coordinates alone, or there are too many."""
    if not total.is_linear:
        return None
    found = {total.constant}
    for name, c in total.terms:
        found = {v + c * p for v in found for p in dims[str(name)]}
        if len(found) > MOST_VALUES:
            return None
    return found


def _beyond(part: Interval, whole: Interval) -> list[Interval]:
    """What an interval has before and behind a part of it."""
    return [i for i in (Interval(whole.start, part.start), Interval(part.stop, whole.stop)) if i]


def read_of_coordinates(e: Call) -> Expr | None:
    """A read of what only coordinates tell, at sums of others, tells it by those, if that is no more to compute.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> table = "exp(cast(pos(i, add_dim(i, 0, 9, false)) + 1, float))"
    >>> show(Canonical(), f"x + gather(i, clamp)({table}, 2 × pos(j, add_dim(j, 0, 4, false)))", x={"j": (0, 4)})
    x + exp(cast(2 × pos(j, add_dim(j, 0, 4, false)) + 1, float))
    """
    x, *indices = e.args
    dims, mode = e.static
    values = _places(x, dims, indices)
    if mode != "clamp" or values is None or e.tensor.dims.size > x.tensor.dims.size:
        return None
    return _told(x, values, dict(e.tensor.dims.items))


def _told(x: Expr, values: Mapping[str, Affine], dims: Mapping[str, Interval]) -> Expr | None:
    """What coordinates tell, at other ones; None where anything else tells it."""
    total = sum_of_coordinates(x)
    if total is not None:
        new = total.replaced(values, {d: (i.start, i.stop - 1) for d, i in dims.items()})
        return sum_of(new, {n: position(n, dims[n]) for n in sorted(new.names)})
    if (number := constant_of(x)) is not None:
        return number
    if not isinstance(x, Call) or not TABLE[x.op].elementwise:
        return None
    args = [_told(a, values, dims) for a in x.args]
    known = [a for a in args if a is not None]
    return call(x.op, *known, static=x.static, span=x.span) if len(known) == len(args) else None


def _places(x: Expr, dims: Sequence[str], indices: Sequence[Expr]) -> dict[str, Affine] | None:
    """The sums of coordinates that indices are; None where one is none, or leaves the tensor."""
    found: dict[str, Affine] = {}
    for dim, index in zip(dims, indices, strict=True):
        total, hull = sum_of_coordinates(index), hull_of(index)
        if total is None or hull is None or not x.tensor.dims[dim].covers(hull):
            return None
        found[dim] = total
    return found


def read_of_part(e: Call) -> Expr | None:
    """A read inside of a part is one of the whole.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "gather(I, clamp)(subset(x, I[1:6]), pos(i, add_dim(i, 0, 3, 0)) + 2)", x={"I": (0, 7)})
    gather(I, clamp)(x, pos(i, add_dim(i, 0, 3, 0)) + 2)
    """
    dims, mode = e.static
    match e.args:
        case (Call("subset", (x,)) as part, *indices):
            pass
        case _:
            return None
    hulls = {d: hull_of(i) for d, i in zip(dims, indices, strict=True)}
    inside = {d for d, i in hulls.items() if i is not None and part.tensor.dims[d].covers(i)}
    kept = {d: i for d, i in part.tensor.dims.items if d not in inside and x.tensor.dims[d] != i}
    if kept.keys() == {d for d, i in part.tensor.dims.items if x.tensor.dims[d] != i}:
        return None
    return call("gather", cut(x, kept), *indices, static=(dims, mode), span=e.span)


def read_of_read(e: Call) -> Expr | None:
    """A read inside of what was read at sums of coordinates, at sums of others, is one read.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> tiles = "gather(I, clamp)(x, 2 × pos(t, add_dim(t, 0, 3, 0)) + pos(u, add_dim(u, 0, 4, 0)))"
    >>> show(Canonical(), f"gather(u, clamp)({tiles}, pos(v, add_dim(v, 0, 3, 0)) + 1)", x={"I": (0, 8)})
    gather(I, clamp)(x, 2 × pos(t, add_dim(t, 0, 3, false)) + pos(v, add_dim(v, 0, 3, false)) + 1)
    """
    match e.args, e.static:
        case (Call("gather", (x, *inside), (dims, "clamp")) as inner, *around), (outer, "clamp"):
            pass
        case _:
            return None
    own = {d: i for index in around for d, i in index.tensor.dims.items}
    if own.keys() & {*x.tensor.dims, *inner.tensor.dims}:
        return None
    values = _places(inner, outer, around)
    if values is None:
        return None
    chosen: dict[str, Expr] = dict(zip(outer, around, strict=True))
    for dim, index in zip(dims, inside, strict=True):
        place = sum_of_coordinates(index)
        if place is None:
            return None
        every = {**dict(index.tensor.dims.items), **own}
        total = place.replaced(values, {d: (i.start, i.stop - 1) for d, i in every.items()})
        chosen[dim] = sum_of(total, {n: position(n, every[n]) for n in sorted(total.names)})
    selected = tuple(d for d in x.tensor.dims.names if d in chosen)
    return call("gather", x, *(chosen[d] for d in selected), static=(selected, "clamp"), span=e.span)


def read_through_padding(e: Call) -> Expr | None:
    """A read of what is padded around another read reads along the dims of both."""
    match e.args, e.static:
        case (Call("update", (base, Call("gather", (x, *inside), (dims, "clamp")) as rows)), *around), (outer, "clamp"):
            pass
        case _:
            return None
    number, element = constant_of(base), e.tensor.element
    if number is None or not isinstance(element, Scalar):
        return None
    moved: dict[str, Expr] = {d: i for d, i in zip(dims, inside, strict=True) if not isinstance(i, Literal)}
    fixed = {d: i for d, i in zip(dims, inside, strict=True) if isinstance(i, Literal)}
    own = {d for i in moved.values() for d in i.tensor.dims}
    padded = e.args[0].tensor.dims
    part = rows.tensor.dims
    whole = all(part.get(d) == i for d, i in padded.items if d not in outer)
    apart = not own & (set(outer) | set(x.tensor.dims)) and not set(moved) & (set(outer) | set(padded) | own)
    if not moved or not whole or not apart or any(set(moved) & set(i.tensor.dims) for i in around):
        return None
    found = _below(x, moved, number, fixed)
    if found is None:
        return None
    below, intervals = found
    dims_of_both = {d: i for d, i in padded.items if d not in own} | intervals
    new = call("update", filled(number.value, element, dims_of_both), below)
    chosen: dict[str, Expr] = dict(zip(outer, around, strict=True)) | moved
    every = tuple(d for d in below.tensor.dims.names if d in chosen)
    if len(every) < len(chosen):
        return None
    return call("gather", new, *(chosen[d] for d in every), static=(every, "clamp"), span=e.span)


def _below(
    x: Expr, moved: dict[str, Expr], number: Literal, fixed: dict[str, Literal]
) -> tuple[Expr, dict[str, Interval]] | None:
    """What is read, less padding of the same number, and the intervals of it, or of its padding, that are read."""

    def at_points(y: Expr) -> Expr:
        return call("gather", y, *fixed.values(), static=(tuple(fixed), "clamp")) if fixed else y

    match x:
        case Call("update", (base, part)) if constant_of(base) == number and all(d in part.tensor.dims for d in fixed):
            if any(part.tensor.dims.get(d) != i for d, i in x.tensor.dims.items if d not in moved):
                return None
            return at_points(part), {d: x.tensor.dims[d] for d in moved}
        case _:
            pass
    hulls = {d: hull_of(i) for d, i in moved.items()}
    known = {d: i for d, i in hulls.items() if i is not None and x.tensor.dims[d].covers(i)}
    if len(known) < len(hulls):
        return None
    return cut(at_points(x), known), known
