"""Dims of which everything asks for digits only: as many dims as digits.

A convolution that was scheduled as a product of matrices folds over channels and places of the kernel as one dim, and
takes it apart again wherever it reads.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> k = "pos(K, add_dim(K, 0, 6, false))"
>>> row = f"gather(H, W, clamp)(x, floordiv({k}, 3), {k} - 3 × floordiv({k}, 3) + 1)"
>>> flat = f"reduce(+, 0.0, K)(({row}) × merge_dims(I, J, K)(y))"
>>> show(Canonical(), flat, x={"H": (0, 2), "W": (0, 4)}, y={"I": (0, 2), "J": (0, 3)})
reduce(+, 0.0, K_1)(
  reduce(+, 0.0, K_2)(
    gather(W, clamp)(rename(H → K_1)(x), pos(K_2, add_dim(K_2, 0, 3, false)) + 1)
      × rename(I → K_1, J → K_2)(y)
  )
)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from tensorir.integers.affine import Affine, Quotient, quotient, remainder, variable
from tensorir.ir.build import call, fresh, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Operator
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Interval, Scalar, TensorType
from tensorir.lifting.emission.tensors import (
    constant_of,
    cut,
    filled,
    neutral,
    position,
    renamed,
    shifted,
    spread,
    sum_of,
    sum_of_coordinates,
)
from tensorir.lifting.rewrites.nested_folds import fold_like


def fold_of_digits(e: Call) -> Expr | None:
    """A fold over a dim of which its terms need the digits is one over each digit."""
    match e:
        case Call("reduce", (Operator(op), init, x), (dim,)) if TABLE[op].associative and dim not in init.tensor.dims:
            element = x.tensor.element
        case _:
            return None
    size = _size(x, dim)
    if size is None or not isinstance(element, Scalar):
        return None
    taken = _names(e)
    parts = _Parts(dim, fresh(dim, taken), fresh(dim, taken), size)
    made = parts.whole(x)
    if made is None:
        return None
    within = fold_like(op, literal(neutral(op, element), element), made, parts.inner, e)
    return fold_like(op, init, within, parts.outer, e)


def split_of_digits(e: Call) -> Expr | None:
    """A dim that is split into the digits that its elements are told by is told by those.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> n = "pos(N, add_dim(N, 0, 6, false))"
    >>> row = f"gather(I, J, clamp)(x, floordiv({n}, 3), 2 × ({n} - 3 × floordiv({n}, 3)))"
    >>> show(Canonical(), f"split_dim(N, N_0, N_1, 3)(exp({row}))", x={"I": (0, 2), "J": (0, 5)})
    exp(gather(J, clamp)(rename(I → N_0)(x), 2 × pos(N_1, add_dim(N_1, 0, 3, false))))
    """
    (x,) = e.args
    dim, outer, inner, size = e.static
    if _size(x, dim) != size or {outer, inner} & _names(x):
        return None
    return _Parts(dim, outer, inner, size).whole(x)


def read_of_rows(e: Call) -> Expr | None:
    """A read at every place of every row is the dim, split into rows.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> place = "2 × pos(i, add_dim(i, 0, 3, false)) + pos(r, add_dim(r, 0, 2, false))"
    >>> show(Canonical(), f"gather(I, clamp)(x, {place})", x={"I": (0, 6)})
    split_dim(I, i, r, 2)(x)
    """
    x, *indices = e.args
    dims, mode = e.static
    for k, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        total = sum_of_coordinates(index)
        rest = {d: i for j, (d, i) in enumerate(zip(dims, indices, strict=True)) if j != k}
        rows = None if total is None else _rows(total, dict(index.tensor.dims.items))
        if total is None or rows is None or dim in rows:
            continue
        if set(rows) & {*x.tensor.dims, *(d for i in rest.values() for d in i.tensor.dims)}:
            continue
        outer, inner = rows
        first, size = index.tensor.dims[outer], len(index.tensor.dims[inner])
        whole = Interval(first.start * size, first.stop * size)
        if not x.tensor.dims[dim].covers(whole.shifted(-total.constant)):
            continue
        part = cut(shifted(x, dim, total.constant), {dim: whole})
        part = call("split_dim", part, static=(dim, outer, inner, size), span=e.span)
        return call("gather", part, *rest.values(), static=(tuple(rest), mode), span=e.span) if rest else part
    return None


def row_of_split(e: Call) -> Expr | None:
    """A row of a dim that is split into rows is a part of the dim.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "gather(a, clamp)(split_dim(I, a, b, 2)(x), 1)", x={"I": (0, 6)})
    rename(I → b)(subset(⟪I, 2⟫(x), I[0:2]))
    """
    x, *indices = e.args
    dims, mode = e.static
    for dim, index in zip(dims, indices, strict=True):
        if not isinstance(index, Literal) or int(index.value) not in x.tensor.dims[dim]:
            continue
        part = _row(x, dim, int(index.value))
        if part is not None:
            rest = {d: i for d, i in zip(dims, indices, strict=True) if d != dim}
            return call("gather", part, *rest.values(), static=(tuple(rest), mode), span=e.span) if rest else part
    return None


def _row(x: Expr, outer: str, row: int) -> Expr | None:
    match x:
        case Call("split_dim", (y,), (dim, name, inner, size)) if name == outer:
            part = shifted(cut(y, {dim: Interval(row * size, (row + 1) * size)}), dim, row * size)
            return renamed(part, {dim: inner})
        case Call("split_dim", (y,), _) if outer in y.tensor.dims:
            part = _row(y, outer, row)
            return None if part is None else call("split_dim", part, static=x.static, span=x.span)
        case _:
            return None


def read_of_digits(e: Call) -> Expr | None:
    """A read at both digits of a sum of coordinates is one of the merged dims at the sum.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "3 × pos(a, add_dim(a, 0, 2, false)) + pos(b, add_dim(b, 0, 3, false))"
    >>> show(Canonical(), f"gather(I, J, clamp)(x, floordiv({t}, 4), mod({t}, 4))", x={"I": (0, 2), "J": (0, 4)})
    split_dim(I_1, a, b, 3)(subset(merge_dims(I, J, I_1)(x), I_1[0:6]))
    """
    x, *indices = e.args
    dims, mode = e.static
    places = [sum_of_coordinates(i) for i in indices]
    for (i, high), (j, low) in permutations(enumerate(places), 2):
        if high is None or low is None or high.is_linear:
            continue
        outer, inner = x.tensor.dims[dims[i]], x.tensor.dims[dims[j]]
        total = high.times(len(inner)).plus(low)
        asked = dict(indices[i].tensor.dims.items) | dict(indices[j].tensor.dims.items)
        ranges = {n: (k.start, k.stop - 1) for n, k in asked.items()}
        span = total.range(ranges) if total.is_linear and not inner.start else None
        if span is None or (high, low) != (quotient(total, len(inner), ranges), remainder(total, len(inner), ranges)):
            continue
        if not Interval(outer.start * len(inner), outer.stop * len(inner)).covers(Interval(span[0], span[1] + 1)):
            continue
        merged = fresh(dims[i], _names(e))
        place = sum_of(total, {n: position(n, asked[n]) for n in sorted(total.names)})
        rest = {d: index for k, (d, index) in enumerate(zip(dims, indices, strict=True)) if k not in (i, j)}
        made = call("merge_dims", x, static=(dims[i], dims[j], merged))
        return call("gather", made, place, *rest.values(), static=((merged, *rest), mode), span=e.span)
    return None


def read_of_parts(e: Call) -> Expr | None:
    """A read at a sum, of what is told by the digits of places, is one at the digits of the sum.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> n = "pos(N, add_dim(N, 0, 12, false))"
    >>> row = f"exp(gather(I, J, clamp)(x, floordiv({n}, 3), min(2, {n} - 3 × floordiv({n}, 3) + 1)))"
    >>> t = "6 × pos(a, add_dim(a, 0, 2, false)) + pos(b, add_dim(b, 0, 3, false))"
    >>> show(Canonical(), f"gather(N, clamp)({row}, {t})", x={"I": (0, 4), "J": (0, 3)})
    gather(N_1, clamp)(
      rename(N_2 → b)(
        exp(gather(J, clamp)(rename(I → N_1)(x), min(2, pos(N_2, add_dim(N_2, 0, 3, false)) + 1)))
      ),
      2 × pos(a, add_dim(a, 0, 2, false))
    )
    """
    x, *indices = e.args
    dims, mode = e.static
    for dim, index in zip(dims, indices, strict=True):
        size = None if sum_of_coordinates(index) is None else _size(x, dim)
        found = None if size is None else _digits_of(index, size, x.tensor.dims[dim])
        if size is None or found is None:
            continue
        taken = _names(e)
        parts = _Parts(dim, fresh(dim, taken), fresh(dim, taken), size)
        if (made := parts.whole(x)) is None:
            continue
        rest = {d: i for d, i in zip(dims, indices, strict=True) if d != dim}
        places = {**rest, parts.outer: found[0], parts.inner: found[1]}
        return call("gather", made, *places.values(), static=(tuple(places), mode), span=e.span)
    return None


def read_of_merged(e: Call) -> Expr | None:
    """A read of merged dims at a sum of which one part counts places in a row and one counts rows is one at both.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> t = "6 × pos(a, add_dim(a, 0, 2, false)) + 2 × pos(b, add_dim(b, 0, 2, false)) + 3"
    >>> show(Canonical(), f"gather(K, clamp)(merge_dims(I, J, K)(x), {t})", x={"I": (0, 4), "J": (0, 3)})
    gather(I, J, clamp)(x, 2 × pos(a, add_dim(a, 0, 2, false)) + 1, 2 × pos(b, add_dim(b, 0, 2, false)))
    """
    x, *indices = e.args
    dims, mode = e.static
    for dim, index in zip(dims, indices, strict=True):
        match x:
            case Call("merge_dims", (inside,), (outer, inner, merged)) if merged == dim:
                found = _digits_of(index, len(inside.tensor.dims[inner]), x.tensor.dims[dim])
            case _:
                continue
        if found is not None:
            rest = {d: i for d, i in zip(dims, indices, strict=True) if d != dim}
            places = {**rest, outer: found[0], inner: found[1]}
            return call("gather", inside, *places.values(), static=(tuple(places), mode), span=e.span)
    return None


def _digits_of(index: Expr, size: int, whole: Interval) -> tuple[Expr, Expr] | None:
    """Row and place of an index that lies inside of an interval, where both are sums of coordinates."""
    total, asked = sum_of_coordinates(index), dict(index.tensor.dims.items)
    ranges = {n: (i.start, i.stop - 1) for n, i in asked.items()}
    span = None if total is None else total.range(ranges)
    if total is None or span is None or not whole.covers(Interval(span[0], span[1] + 1)):
        return None
    row, place = quotient(total, size, ranges), remainder(total, size, ranges)
    if not (row.is_linear and place.is_linear):
        return None
    one, other = (sum_of(d, {n: position(n, asked[n]) for n in sorted(d.names)}) for d in (row, place))
    return one, other


def _rows(total: Affine, dims: Mapping[str, Interval]) -> tuple[str, str] | None:
    """The coordinates of rows and of places in them of which a sum counts the places."""
    match total.terms:
        case ((str(a), int(p)), (str(b), int(q))):
            (inner, one), (outer, size) = sorted([(a, p), (b, q)], key=lambda t: t[1])
        case _:
            return None
    return (outer, inner) if one == 1 and dims[inner] == Interval(0, size) else None


def _names(e: Expr) -> set[str]:
    """Every name of a dim in an expression."""
    return {d for n in postorder(e) if isinstance(n.type, TensorType) for d in n.tensor.dims.names}


def _size(x: Expr, dim: str) -> int | None:
    """By what a dim is divided, or of how many each it was merged: the most of those that fit, if any."""
    extent = x.tensor.dims[dim]
    return max((by for by in set(_sizes(x, dim)) if 1 < by < len(extent) and _fits(extent, by)), default=None)


def _fits(extent: Interval, size: int) -> bool:
    """True if an interval is one of whole rows."""
    return not extent.start % size and not extent.stop % size


def _sizes(x: Expr, dim: str) -> Iterator[int]:
    stack, seen = [x], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node.type, TensorType) or dim not in node.tensor.dims:
            continue
        seen.add(id(node))
        if (total := sum_of_coordinates(node)) is not None:
            yield from _divisors(total, dim)
            continue
        if isinstance(node, Call) and node.op == "merge_dims" and node.static[2] == dim:
            yield len(node.args[0].tensor.dims[node.static[1]])
        stack += node.children


def _divisors(total: Affine, dim: str) -> Iterator[int]:
    for atom, _ in total.terms:
        if isinstance(atom, Quotient) and dim in atom.inner.names:
            if not atom.inner.coefficient(dim) % atom.by:
                continue
            yield atom.by
            yield from _divisors(atom.inner, dim)


@dataclass(slots=True)
class _Parts:
    """Two dims in the place of one."""

    dim: str
    outer: str
    inner: str
    size: int
    known: dict[int, Expr | None] = field(default_factory=dict[int, Expr | None])

    def whole(self, x: Expr) -> Expr | None:
        """An expression that has the dim over both parts, with both of them."""
        made = self.of(x)
        return None if made is None else spread(made, self._split({self.dim: x.tensor.dims[self.dim]}))

    def _split(self, dims: dict[str, Interval]) -> dict[str, Interval]:
        """The dims with both parts."""
        rest = {d: i for d, i in dims.items() if d != self.dim}
        if self.dim in dims:
            whole = dims[self.dim]
            rest[self.outer] = Interval(whole.start // self.size, whole.stop // self.size)
            rest[self.inner] = Interval(0, self.size)
        return rest

    def of(self, x: Expr) -> Expr | None:
        """The expression over both parts; None where it needs the whole. It lacks a part that it does not need."""
        if self.dim not in x.tensor.dims:
            return x
        if id(x) not in self.known:
            self.known[id(x)] = self._of(x) if _fits(x.tensor.dims[self.dim], self.size) else None
        return self.known[id(x)]

    def _of(self, x: Expr) -> Expr | None:
        if (same := constant_of(x)) is not None and isinstance(x.tensor.element, Scalar):
            return filled(same.value, x.tensor.element, self._split(dict(x.tensor.dims.items)))
        if (total := sum_of_coordinates(x)) is not None:
            return self._sum(total, dict(x.tensor.dims.items))
        match x:
            case Call("merge_dims", (y,), (a, b, self.dim)) if len(y.tensor.dims[b]) == self.size:
                return renamed(y, {a: self.outer, b: self.inner})
            case Call("merge_dims" | "split_dim" | "cartesian_shift", (y,)) if self.dim not in x.static:
                return self._through(x, y)
            case Call("subset", (y,), (cuts,)) if self.dim not in cuts:
                return self._through(x, y)
            case Call("rename", (y,), (pairs,)) if not any(self.dim in pair for pair in pairs):
                return self._through(x, y)
            case Call("add_dim", (y,), (dim, start, stop)):
                made = self.of(y)
                if made is None or dim == self.dim:
                    return made
                return call("add_dim", made, static=(dim, start, stop), span=x.span)
            case Call("update", (base, part)) if (same := constant_of(base)) is not None:
                return self._padded(x, same, part)
            case Call("gather", (y, *indices), (dims, _)) if self.dim not in dims:
                inner, *places = (self.of(a) for a in (y, *indices))
                found = [p for p in places if p is not None]
                if inner is None or len(found) < len(places):
                    return None
                return call("gather", inner, *found, static=x.static, span=x.span)
            case Call("reduce", (Operator(op), init, y), (other,)) if self.dim not in (other, *init.tensor.dims):
                made = self.of(y)
                return None if made is None else fold_like(op, init, made, other, x)
            case Call(op, args) if TABLE[op].elementwise and all(isinstance(a.type, TensorType) for a in args):
                parts = [self.of(a) for a in args]
                known = [p for p in parts if p is not None]
                return call(op, *known, static=x.static, span=x.span) if len(known) == len(parts) else None
            case _:
                return None

    def _through(self, x: Call, y: Expr) -> Expr | None:
        """What does the same to an expression over both parts."""
        made = self.of(y)
        return None if made is None else call(x.op, made, static=x.static, span=x.span)

    def _sum(self, total: Affine, dims: dict[str, Interval]) -> Expr:
        """A sum of coordinates, of those of the parts."""
        split = self._split(dims)
        value = variable(self.outer).times(self.size).plus(variable(self.inner))
        new = total.replaced({self.dim: value}, {d: (i.start, i.stop - 1) for d, i in split.items()})
        return sum_of(new, {d: position(d, split[d]) for d in sorted(new.names)})

    def _padded(self, x: Call, same: Literal, part: Expr) -> Expr | None:
        """A tensor with a margin: one along the dim is one along the outer part, if it is of whole rows."""
        whole, element = self._split(dict(x.tensor.dims.items)), x.tensor.element
        made = self.of(part)
        if made is None or not isinstance(element, Scalar):
            return None
        missing = self._split(dict(part.tensor.dims.items))
        return call("update", filled(same.value, element, whole), spread(made, missing), span=x.span)
