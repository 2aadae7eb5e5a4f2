"""Arrays of real numbers on named dims, the domain that floats are in, and what moves elements.

Arrays on named dims whose elements are real numbers, each as several arrays, or integers and truth values as one.

What moves elements moves all arrays of a leaf alike.

>>> from tensorir.integers.dims import Dims
>>> x = Tensor(Dims.of(I=(0, 3)), (Leaf((np.array([1, 2, 3]),)),))
>>> shifted(x, "I", 1).dims
Dims(I[-1:2])
>>> on(x, Dims.of(I=(1, 3), J=(0, 2))).leaves[0].parts[0].tolist()
[[2, 2], [3, 3]]
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call
from tensorir.ir.types import DTYPES, Scalar, TensorType, TupleElement
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source
from tensorir.reference import numerics
from tensorir.runtime.errors import refuse

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One scalar of each element: the arrays that it consists of, and where it is absent."""

    parts: tuple[Array, ...]
    absent: Array | None = None

    def each(self, f: Callable[[Array], Array]) -> Leaf:
        """The leaf with a function of every array."""
        return Leaf(tuple(map(f, self.parts)), None if self.absent is None else f(self.absent))


@dataclass(frozen=True, slots=True)
class Tensor:
    """The leaves of all elements on a box of points, axes in the order of its dims."""

    dims: Dims
    leaves: tuple[Leaf, ...]

    @property
    def only(self) -> Leaf:
        (leaf,) = self.leaves
        return leaf


def moved(x: Tensor, dims: Dims, f: Callable[[Array], Array]) -> Tensor:
    """A tensor on other dims: a function of all its arrays."""
    return Tensor(dims, tuple(leaf.each(f) for leaf in x.leaves))


def on(x: Tensor, dims: Dims) -> Tensor:
    """The tensor on a box of points: cut, its axes in that order, and broadcast along what it lacks.

    A batch that a function of scalars is applied to stays.
    """
    dims = batched((x,), dims)
    if x.dims.items == dims.items:
        return x
    cuts = tuple(
        slice(i.start - own.start, i.stop - own.start) if (i := dims.get(n)) is not None else slice(None)
        for n, own in x.dims.items
    )
    kept = [n for n in dims.names if n in x.dims]
    assert len(kept) == len(x.dims), f"{x.dims} has dims that {dims} lacks"
    order = [x.dims.names.index(n) for n in kept]
    spread = tuple(slice(None) if n in x.dims else None for n in dims.names)

    def one(a: Array) -> Array:
        return np.broadcast_to(a[(*cuts, ...)].transpose(order)[(*spread, ...)], dims.shape)

    return moved(x, dims, one)


BATCH = "_batch"
"""A dim along which a function of scalars is applied at once: no type of the function has it."""


def batched(args: Sequence[Tensor], dims: Dims) -> Dims:
    """The points of a result, and those of a batch where an operand has one."""
    batch = next((i for a in args if (i := a.dims.get(BATCH)) is not None), None)
    return dims if batch is None or BATCH in dims else Dims(((BATCH, batch), *dims.items))


def shifted(x: Tensor, dim: str, by: int) -> Tensor:
    """x[p + by] along a dim."""
    interval = x.dims.get(dim)
    return x if interval is None else replace(x, dims=x.dims.with_interval(dim, interval.shifted(by)))


def slice_at(x: Tensor, dim: str, coordinate: int) -> Tensor:
    """The tensor at one coordinate of a dim, which goes away; one that lacks the dim stays as it is."""
    interval = x.dims.get(dim)
    if interval is None:
        return x
    before, at = [slice(None)] * x.dims.names.index(dim), coordinate - interval.start
    return moved(x, x.dims.without(dim), lambda a: a[(*before, at, ...)])


def stacked(slices: Sequence[Tensor], dims: Dims, dim: str) -> Tensor:
    """Tensors on the dims but one, as one that has it, in the order of its coordinates."""
    inner = dims.without(dim)
    axis = dims.names.index(dim)
    conformed = [on(s, inner) for s in slices]
    return Tensor(
        dims, tuple(_joined([s.leaves[k] for s in conformed], axis, np.stack) for k in range(len(conformed[0].leaves)))
    )


def joined(parts: Sequence[Tensor], dims: Dims, dim: str) -> Tensor:
    """Tensors side by side along a dim."""
    axis = dims.names.index(dim)
    conformed = [on(p, dims.with_interval(dim, p.dims[dim])) for p in parts]
    return Tensor(
        dims,
        tuple(_joined([p.leaves[k] for p in conformed], axis, np.concatenate) for k in range(len(parts[0].leaves))),
    )


def _joined(leaves: Sequence[Leaf], axis: int, join: Any) -> Leaf:
    parts = tuple(join(arrays, axis) for arrays in zip(*(leaf.parts for leaf in leaves), strict=True))
    if all(leaf.absent is None for leaf in leaves):
        return Leaf(parts)
    absent = [np.zeros(leaf.parts[0].shape, bool) if leaf.absent is None else leaf.absent for leaf in leaves]
    return Leaf(parts, join(absent, axis))


def choose(condition: Array, first: Tensor, second: Tensor) -> Tensor:
    """Elements of the first where the condition holds, of the second elsewhere; all on the same dims."""
    return Tensor(first.dims, tuple(_chosen(condition, a, b) for a, b in zip(first.leaves, second.leaves, strict=True)))


def _chosen(condition: Array, a: Leaf, b: Leaf) -> Leaf:
    parts = tuple(np.where(condition, x, y) for x, y in zip(a.parts, b.parts, strict=True))
    if a.absent is None and b.absent is None:
        return Leaf(parts)
    return Leaf(
        parts, np.where(condition, False if a.absent is None else a.absent, False if b.absent is None else b.absent)
    )


def placed(x: Tensor, part: Tensor, box: Mapping[str, Interval]) -> Tensor:
    """x with the elements of a part on a box of its points."""
    inner = Dims(tuple((n, box.get(n, i)) for n, i in x.dims.items))
    where = tuple(
        slice(i.start - whole.start, i.stop - whole.start)
        for (_, i), (_, whole) in zip(inner.items, x.dims.items, strict=True)
    )
    new = on(part, inner)

    def put(a: Array, b: Any) -> Array:
        found = np.array(a, object if np.asarray(b).dtype == object else a.dtype)
        found[where] = b
        return found

    leaves: list[Leaf] = []
    for a, b in zip(x.leaves, new.leaves, strict=True):
        absent = None
        if a.absent is not None or b.absent is not None:
            none = np.zeros(x.dims.shape, bool)
            absent = put(none if a.absent is None else a.absent, np.False_ if b.absent is None else b.absent)
        leaves.append(Leaf(tuple(map(put, a.parts, b.parts)), absent))
    return Tensor(x.dims, tuple(leaves))


# What floats are while a program is evaluated: a domain, with its literals, operations, sums and conversions.

NO_DIMS = Dims()


class Unsupported(Exception):
    """A program does what has no meaning in a domain, or is too large."""


class Domain(Protocol):
    """Floats as leaves of arrays."""

    @property
    def at_once(self) -> bool:
        """True if products of matrices are taken as such, of `numbers.Real`."""
        ...

    @property
    def in_order(self) -> bool:
        """True if folds are taken element by element."""
        ...

    def own(self, op: str, element: Scalar, leaves: Sequence[tuple[Leaf, Scalar]], static: Any = None) -> Leaf | None:
        """An operation that the domain has a meaning of its own for, whatever the types are; None where it has none."""
        ...

    def literal(self, value: Any, element: Scalar) -> Leaf:
        """A literal of a float type."""
        ...

    def whole(self, x: Array) -> Leaf:
        """Integers as numbers."""
        ...

    def compute(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives a float of floats."""
        ...

    def integers(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives an integer of integers."""
        ...

    def total(self, x: Leaf, axis: int, element: Scalar) -> Leaf:
        """A sum along an axis."""
        ...

    def rounded(self, x: Leaf, element: Scalar) -> Leaf:
        """A number as one of a narrower type."""
        ...

    def decided(self, x: Leaf) -> Array:
        """The numbers that decide conditions; raises `Unsupported` where they are not known."""
        ...


def literal(domain: Domain, value: Any, element: Scalar, dims: Dims = NO_DIMS) -> Leaf:
    """A literal on a box of points."""
    leaf = domain.literal(value, element) if element.is_float else Leaf((np.array(value, DTYPES[element]),))
    return leaf.each(lambda a: np.broadcast_to(a, dims.shape))


# Integers and truth values of whole arrays, with the meanings of the builtins: integers wrap, and x / 0 is -1.


INTEGERS: dict[str, Callable[..., Array]] = {
    "plus": lambda e, x, y: x + y,
    "minus": lambda e, x, y: x - y,
    "multiplies": lambda e, x, y: x * y,
    "divides": lambda e, x, y: numerics.quotient(x, y, "zero", -1),
    "floordiv": lambda e, x, y: numerics.quotient(x, y, "down", -1),
    "mod": lambda e, x, y: numerics.remainder(x, y, "down", True),
    "rem": lambda e, x, y: numerics.remainder(x, y, "zero", True),
    "neg": lambda e, x: -x,
    "abs": lambda e, x: np.abs(x),
    "sign": lambda e, x: np.sign(x),
    "min": lambda e, x, y: np.minimum(x, y),
    "max": lambda e, x, y: np.maximum(x, y),
    "bit_and": lambda e, x, y: x & y,
    "bit_or": lambda e, x, y: x | y,
    "bit_xor": lambda e, x, y: x ^ y,
    "bit_not": lambda e, x: ~x,
    "shift_left": lambda e, x, y: numerics.shifted(x, y, e.bits, True, 0),
    "shift_right": lambda e, x, y: numerics.shifted(x, y, e.bits, False, np.where(x < 0, -1, 0)),
    "popcount": lambda e, x: numerics.ones(x),
    "clz": lambda e, x: numerics.leading_zeros(x, e.bits),
}
"""Every elementwise builtin that gives an integer of integers, after the element type of these."""

LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
}  # fmt: skip
TESTS: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "not_eq": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan,
}  # fmt: skip
"""Comparisons and tests, of witnesses where numbers are real."""


def converted(x: Array, target: Scalar, dtype: Any) -> Array:
    """Integers and truth values as an integer or truth value of another type; integers wrap."""
    return x != 0 if target.kind == "bool" else x.astype(dtype)


# What moves elements, over whole arrays: shifts, parts and joins, dims, reads at indices and at neighbours, order.


def without(leaf: Leaf, gone: Array) -> Leaf:
    """A leaf that is absent in more places."""
    return replace(leaf, absent=gone if leaf.absent is None else leaf.absent | gone)


def _make_tuple(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dims = batched(args, node.tensor.dims)
    return Tensor(dims, tuple(leaf for a in args for leaf in on(a, dims).leaves))


def _tuple_get(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    element = node.args[0].tensor.element
    assert isinstance(element, TupleElement)
    members = element.members
    sizes = [len(TensorType(m).leaves) for m in members]
    start = sum(sizes[: node.static.member])
    return replace(args[0], leaves=args[0].leaves[start : start + sizes[node.static.member]])


def _pos(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim = node.static.dim
    interval, element = node.tensor.dims[dim], node.tensor.element
    assert isinstance(element, Scalar)
    at = np.arange(interval.start, interval.stop)
    leaf = domain.whole(at) if element.is_float else Leaf((at.astype(DTYPES[element]),))
    return on(Tensor(Dims(((dim, interval),)), (leaf,)), node.tensor.dims)


def _add_dim(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    return on(args[0], node.tensor.dims)


def _subset(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    return on(args[0], node.tensor.dims)


def _concat(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    first = node.args[0].tensor.dims
    (dim,) = [d for d in first if any(a.tensor.dims[d] != first[d] for a in node.args)]
    held = sorted([a for a in args if a.dims[dim]], key=lambda a: a.dims[dim].start)
    return joined(held, node.tensor.dims, dim) if held else on(args[0], node.tensor.dims)


def _update(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    x, part = args
    return placed(on(x, node.tensor.dims), part, dict(node.args[1].tensor.dims.items))


def _rename(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    new = dict(node.static.pairs)
    dims = Dims(tuple((new.get(n, n), i) for n, i in args[0].dims.items))
    return on(replace(args[0], dims=dims), node.tensor.dims)


def _split_dim(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim, outer, inner, n = node.static
    (x,) = args
    o = node.tensor.dims[outer]
    x = on(x, x.dims.with_interval(dim, Interval(o.start * n, o.stop * n)))
    axis = x.dims.names.index(dim)
    items = list(x.dims.items)
    items[axis : axis + 1] = [(outer, o), (inner, Interval(0, n))]
    dims = Dims(tuple(items))
    return on(moved(x, dims, lambda a: a.reshape(dims.shape)), node.tensor.dims)


def _merge_dims(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    outer, inner, dim = node.static
    (x,) = args
    order = Dims((*x.dims.without(outer, inner).items, (outer, x.dims[outer]), (inner, x.dims[inner])))
    x = on(x, order)
    rest = x.dims.without(outer, inner)
    n = len(x.dims[inner])
    start = x.dims[outer].start * n
    dims = Dims((*rest.items, (dim, Interval(start, start + len(x.dims[outer]) * n))))
    return on(moved(x, dims, lambda a: a.reshape(dims.shape)), node.tensor.dims)


def _at(x: Tensor, where: Mapping[str, Array], dims: Dims) -> Tensor:
    """x at coordinates that are data along some dims, on the points of a result; coordinates are inside."""
    index: list[Array] = []
    for n, own in x.dims.items:
        if n in where:
            index.append(where[n] - own.start)
        else:
            axis = dims.names.index(n)
            here = np.arange(dims[n].start - own.start, dims[n].stop - own.start)
            index.append(here.reshape([-1 if k == axis else 1 for k in range(len(dims))]))
    place = tuple(index)
    return moved(x, dims, lambda a: np.broadcast_to(a[(*place, ...)], dims.shape))


def _gather(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dims, mode = node.static
    x, *indices = args
    where, outside, gone = {}, np.zeros(node.tensor.dims.shape, bool), None
    for dim, index in zip(dims, indices, strict=True):
        leaf = on(index, node.tensor.dims).only
        at = domain.decided(leaf).astype(np.int64)
        interval = x.dims[dim]
        if leaf.absent is not None:
            gone = leaf.absent if gone is None else gone | leaf.absent
        wrong = (at < interval.start) | (at >= interval.stop)
        if mode == "checked" or not interval:
            # a branch that is not taken may read there
            gone = wrong if gone is None else gone | wrong
        outside |= wrong
        where[dim] = at.clip(interval.start, max(interval.start, interval.stop - 1))
    none = Tensor(node.tensor.dims, tuple(literal(domain, 0, s, node.tensor.dims) for s in node.tensor.leaves))
    empty = not all(x.dims[d] for d in dims) or not node.tensor.dims.size
    found = none if empty else _at(x, where, node.tensor.dims)
    if mode == "zero" and outside.any():
        found = choose(outside, none, found)
    return found if gone is None else replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _neighbours(node: Call, table: Tensor, x: Tensor, dims: Dims, domain: Domain) -> Tensor:
    """x at the entries of a table, both on the dims of a result; absent where an entry is -1."""
    _, source = neighbour_source(node.args[0].tensor)
    leaf = on(table, dims).only
    at = domain.decided(leaf).astype(np.int64)
    gone = (at == -1) if leaf.absent is None else (at == -1) | leaf.absent
    interval = x.dims[source]
    if (~gone & ((at < interval.start) | (at >= interval.stop))).any():
        raise refuse("R01", f"an entry of the table leaves {source}{interval}.", at=node.span)
    if not interval:
        none = Tensor(dims, tuple(literal(domain, 0, s, dims) for s in node.tensor.leaves))
        return replace(none, leaves=tuple(without(leaf, gone) for leaf in none.leaves))
    found = _at(x, {source: np.where(gone, interval.start, at)}, dims)
    return replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _shift_init(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    table, x = args
    tag, _ = neighbour_source(node.args[0].tensor)
    new = highest_neighbour(node.tensor.dims)
    assert new is not None
    named = replace(table, dims=Dims(tuple((new if n == tag else n, i) for n, i in table.dims.items)))
    return _neighbours(node, named, x, node.tensor.dims, domain)


def _unstructured_shift(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    table, x = args
    tag, _ = neighbour_source(node.args[0].tensor)
    return _neighbours(node, slice_at(table, tag, node.static.neighbour), x, node.tensor.dims, domain)


def _shift_apply(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim = highest_neighbour(node.args[0].tensor.dims)
    assert dim is not None
    return slice_at(args[0], dim, node.static.neighbour)


def _can_deref(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    there = np.ones(args[0].dims.shape, bool)
    for leaf in args[0].leaves:
        if leaf.absent is not None:
            there &= ~leaf.absent
    return on(Tensor(args[0].dims, (Leaf((there,)),)), node.tensor.dims)


def _sort(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    dim, keys, descending = node.static
    dims = node.tensor.dims
    members = [on(a, dims) for a in args]
    axis = dims.names.index(dim)
    ranks: list[Array] = []
    for m in members[:keys]:
        v = domain.decided(m.only)
        wide = v.astype(np.float64) if v.dtype.kind == "f" else v.astype(np.int64)
        if v.dtype.kind == "f":
            ranks += [np.isnan(wide), np.where(np.isnan(wide), 0.0, -wide if descending else wide)]
        else:
            ranks.append(-wide if descending else wide)
    order = np.lexsort(ranks[::-1], axis=axis)
    return Tensor(
        dims, tuple(leaf.each(lambda a: np.take_along_axis(a, order, axis)) for m in members for leaf in m.leaves)
    )


def _assert(node: Call, args: Sequence[Tensor], domain: Domain) -> Tensor:
    leaf = args[1].only
    known = domain.decided(leaf)
    holds = known if leaf.absent is None else known | leaf.absent
    if not holds.all():
        raise refuse("R02", node.static.text or "an assertion fails.", at=node.span)
    return on(args[0], node.tensor.dims)


MOVES: dict[str, Callable[[Call, Sequence[Tensor], Domain], Tensor]] = {
    "make_tuple": _make_tuple,
    "tuple_get": _tuple_get,
    "pos": _pos,
    "add_dim": _add_dim,
    "subset": _subset,
    "concat": _concat,
    "update": _update,
    "rename": _rename,
    "split_dim": _split_dim,
    "merge_dims": _merge_dims,
    "gather": _gather,
    "shift_init": _shift_init,
    "unstructured_shift": _unstructured_shift,
    "shift_apply": _shift_apply,
    "can_deref": _can_deref,
    "sort": _sort,
    "assert_": _assert,
    "print": lambda node, args, domain: on(args[0], node.tensor.dims),
    "materialise": lambda node, args, domain: on(args[0], node.tensor.dims),
    "cartesian_shift": lambda node, args, domain: on(shifted(args[0], *node.static), node.tensor.dims),
}
"""Every builtin that is no fold and computes nothing of its operands' elements."""
