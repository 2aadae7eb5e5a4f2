"""Lowered values: arrays with named axes, and their provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_
from typing import Any, TypeVar

import jax
from jax import lax

from tensorir.integers.dims import Dims, Interval

# What an expression becomes while it is lowered: arrays with named axes, one per scalar leaf of its element.
#
# A `Dense` leaf is one array on its own dims, which may be fewer and wider than those of the type: broadcasting and
# cutting happen where an operation needs them. A `Slots` leaf keeps the neighbours of a partial shift apart, one leaf
# per slot, so that reductions over them unroll into one gather per neighbour (`docs/lowering.md`, "Neighbour
# tables"). The `present` leaf of bools says where the value is not absent; None is everywhere.


@partial(jax.tree_util.register_dataclass, data_fields=["data", "present"], meta_fields=["dims"])
@dataclass(frozen=True, slots=True)
class Dense:
    """One array; its axes are the dims, in their order."""

    data: Any
    dims: Dims
    present: Dense | None = None


@partial(jax.tree_util.register_dataclass, data_fields=["leaves"], meta_fields=["dim", "start"])
@dataclass(frozen=True, slots=True)
class Slots:
    """A leaf for every point of a neighbour dim, from `start` up."""

    dim: str
    start: int
    leaves: tuple[Leaf, ...]

    @property
    def dims(self) -> Dims:
        interval = Interval(self.start, self.start + len(self.leaves))
        return Dims((*self.leaves[0].dims.items, (self.dim, interval)))


Leaf = Dense | Slots
Value = tuple[Leaf, ...]
"""The leaves of a tensor, from left to right of its element."""


def joined_dims(operands: Sequence[Dims], need: Dims) -> Dims:
    """The union of the operands' dims on the intervals of `need`, ordered as in the operand with the most dims."""
    widest = max(operands, key=len, default=Dims())
    names = dict.fromkeys([*widest.names, *(n for o in operands for n in o.names)])
    return Dims(tuple((n, need[n]) for n in names))


def cut(leaf: Leaf, need: Dims) -> Leaf:
    """The leaf restricted to the intervals of `need`, by a static slice; dims that `need` lacks are unchanged."""
    match leaf:
        case Slots(dim, start, leaves):
            interval = need.get(dim)
            if interval is not None:
                leaves = leaves[interval.start - start : interval.stop - start]
                start = interval.start
            return Slots(dim, start, tuple(cut(x, need) for x in leaves))
        case Dense(data, dims, present):
            new = dims.replaced(need)
            if new.items == dims.items:
                return leaf
            # of an empty interval it does not matter where it stands
            starts = [a.start - b.start if a else 0 for (_, a), (_, b) in zip(new.items, dims.items, strict=True)]
            data = lax.slice(data, starts, [s + len(i) for s, (_, i) in zip(starts, new.items, strict=True)])
            return Dense(data, new, None if present is None else dense(cut(present, need)))


def aligned(leaf: Dense, dims: Dims, broadcast: bool = True) -> jax.Array:
    """The array of a leaf restricted to `dims`, its axes in their order; dims that it lacks are broadcast.

    `broadcast=False`: axes for these have extent 1. The mask is dropped.
    """
    leaf = dense(cut(leaf, dims))
    order = [n for n in dims.names if n in leaf.dims]
    axes = [leaf.dims.names.index(n) for n in order]
    data = leaf.data if axes == sorted(axes) else lax.transpose(leaf.data, axes)
    if len(order) == len(dims):
        return data
    shape = tuple(len(i) if broadcast or n in leaf.dims else 1 for n, i in dims.items)
    return lax.broadcast_in_dim(data, shape, [dims.names.index(n) for n in order])


def dense(leaf: Leaf) -> Dense:
    """The leaf as one array: slots are stacked along a last axis."""
    if isinstance(leaf, Dense):
        return leaf
    slots = [dense(x) for x in leaf.leaves]
    # a slot that holds the same everywhere may lack dims that others have
    common_intervals: dict[str, Interval] = {}
    for p in slots:
        common_intervals.update((n, common_intervals.get(n, i) & i) for n, i in p.dims.items)
    common = joined_dims([p.dims for p in slots], Dims(tuple(common_intervals.items())))
    axis = len(common)
    stacked = [lax.expand_dims(aligned(p, common), (axis,)) for p in slots]
    data = lax.concatenate(stacked, axis)
    dims = Dims((*common.items, (leaf.dim, Interval(leaf.start, leaf.start + len(slots)))))
    present = None
    if any(p.present is not None for p in slots):
        masks = tuple(p.present or everywhere() for p in slots)
        present = dense(Slots(leaf.dim, leaf.start, masks))
    return Dense(data, dims, present)


def everywhere() -> Dense:
    """Present at every point."""
    return Dense(lax.full((), True), Dims())


def select_slot(leaf: Leaf, dim: str, point: int) -> Leaf:
    """The leaf at one point of a dim, without that dim; the leaf itself if it lacks the dim."""
    match leaf:
        case Slots(d, start, leaves) if d == dim:
            return leaves[point - start]
        case Slots(d, start, leaves):
            return Slots(d, start, tuple(select_slot(x, dim, point) for x in leaves))
        case Dense(data, dims, present):
            # the mask may have the dim where the data are the same at all of its points
            inner = None if present is None else dense(select_slot(present, dim, point))
            if dim not in dims:
                return leaf if inner is present else Dense(data, dims, inner)
            axis = dims.names.index(dim)
            if len(dims[dim]) == 1:
                data = lax.squeeze(data, [axis])
            else:
                data = lax.index_in_dim(data, point - dims[dim].start, axis, keepdims=False)
            return Dense(data, dims.without(dim), inner)


def per_slot(operands: Sequence[Leaf], combine: Callable[[Sequence[Dense]], Leaf]) -> Leaf:
    """`combine` applied to dense operands; if one has slots, slot by slot, with slots as the result."""
    for operand in operands:
        if isinstance(operand, Slots):
            common = reduce(and_, (i for o in operands if (i := _interval(o, operand.dim)) is not None))
            points = range(common.start, common.stop)
            slots = [per_slot([select_slot(o, operand.dim, p) for o in operands], combine) for p in points]
            return Slots(operand.dim, common.start, tuple(slots))
    return combine([o for o in operands if isinstance(o, Dense)])


def _interval(leaf: Leaf, dim: str) -> Interval | None:
    """The interval of a leaf along a dim; None where it lacks it."""
    match leaf:
        case Slots(d, start, leaves):
            return Interval(start, start + len(leaves)) if d == dim else _interval(leaves[0], dim)
        case Dense(_, dims):
            return next((i for name, i in dims.items if name == dim), None)


def elementwise(function: Callable[..., jax.Array], operands: Sequence[Leaf], need: Dims, guard: bool = False) -> Leaf:
    """A function of scalars applied at every point of the operands' common dims, on the intervals of `need`.

    The result is absent where any operand is. `guard`: the gradient that reaches an operand where the result is absent
    is zero even if the derivative there is infinite: a select on each operand, which XLA removes going forward.
    """

    def combine(leaves: Sequence[Dense]) -> Leaf:
        """The function of dense leaves, on their joined dims."""
        need_here = Dims(tuple((n, need[n]) for n in dict.fromkeys(n for x in leaves for n in x.dims.names)))
        dims = joined_dims([x.dims for x in leaves], need_here)
        present = both([x.present for x in leaves], need)
        arrays = [aligned(x, dims) for x in leaves]
        if guard and present is not None:
            dims = joined_dims([dims, present.dims], need)
            arrays = [aligned(Dense(a, joined_dims([x.dims for x in leaves], need_here)), dims) for a in arrays]
            mask = aligned(present, dims)
            arrays = [guarded(mask, a) for a in arrays]
        return Dense(function(*arrays), dims, present)

    return per_slot(operands, combine)


def guarded(mask: jax.Array, array: jax.Array) -> jax.Array:
    """The array, whose gradient is zero where the mask is false."""
    return lax.select(mask, array, lax.stop_gradient(array))


def both(masks: Sequence[Dense | None], need: Dims) -> Dense | None:
    """The conjunction of masks on the intervals of `need`; None is present everywhere."""
    result: Dense | None = None
    # a shift moves the dims, and keeps the array
    for mask in {(id(m.data), m.dims.items): m for m in masks if m is not None}.values():
        result = mask if result is None else dense(elementwise(lax.bitwise_and, [result, mask], need))
    return result


def with_present(leaf: Leaf, present: Leaf | None, need: Dims) -> Leaf:
    """The leaf, absent also where the mask `present` is false; None leaves it unchanged."""
    if present is None:
        return leaf

    def combine(leaves: Sequence[Dense]) -> Leaf:
        """A dense leaf with the conjunction of its own mask and the other."""
        value, mask = leaves
        return replace(value, present=both([value.present, mask], need))

    return per_slot([leaf, present], combine)


def presence(leaf: Leaf) -> Leaf | None:
    """The mask of a leaf as a leaf of bools; None if it is present everywhere."""
    match leaf:
        case Dense(_, _, present):
            return present
        case Slots(dim, start, leaves):
            masks = [presence(x) for x in leaves]
            if all(m is None for m in masks):
                return None
            return Slots(dim, start, tuple(m or everywhere() for m in masks))


def mapped(function: Callable[[Dense], Dense], leaf: Leaf) -> Leaf:
    """A function of dense leaves without masks, such as a shift of dims, applied to the data and to the mask of a
    leaf.
    """
    match leaf:
        case Slots(dim, start, leaves):
            return Slots(dim, start, tuple(mapped(function, x) for x in leaves))
        case Dense(data, dims, present):
            value = function(Dense(data, dims))
            return value if present is None else replace(value, present=function(present))


# What is known of arrays: of which factors they are the product or the sum of products, of what they are windows, and
# what they were before they were padded with zeros or converted, or before numbers took the place of NaNs.
#
# The expression that an array was computed by is gone when it is folded; it is remembered by the array that it gave,
# so that a sum of it can become one contraction, over several dims in turn (`raising.contractions`).


@dataclass(frozen=True, slots=True)
class Window:
    """One indexed dim of a window: what moves it, by which stride; its own dim with its dilation; a distance."""

    source: str
    outer: str
    stride: int
    inner: str
    dilation: int
    constant: int


@dataclass(frozen=True, slots=True)
class Sum:
    """Factors on common dims, of whose product some dims are summed over."""

    factors: tuple[Leaf, ...]
    dims: Dims
    over: tuple[str, ...] = ()
    inside: tuple[int, ...] = ()
    """The nodes that are sums over a part of the dims, by identity."""
    guard: Dense | None = None
    """Where the product counts, None where it does everywhere."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Elements that stand in an array of zeros: where the first does, and how far from each other, per axis."""

    data: jax.Array
    low: tuple[int, ...]
    step: tuple[int, ...]


@dataclass(slots=True)
class ArrayProvenance:
    """Provenance of arrays, by the arrays themselves."""

    sums: dict[object, tuple[Leaf, Sum]] = field(default_factory=dict[object, tuple[Leaf, Sum]])
    windows: dict[object, tuple[Leaf, Dense, tuple[Window, ...]]] = field(
        default_factory=dict[object, tuple[Leaf, Dense, tuple[Window, ...]]]
    )

    converted: dict[object, tuple[Leaf, Leaf]] = field(default_factory=dict[object, tuple[Leaf, Leaf]])
    padded: dict[object, tuple[Leaf, Spread]] = field(default_factory=dict[object, tuple[Leaf, Spread]])
    reads: dict[object, tuple[Leaf, Dense]] = field(default_factory=dict[object, tuple[Leaf, Dense]])

    numbers: dict[object, tuple[Leaf, Dense, Any]] = field(default_factory=dict[object, tuple[Leaf, Dense, Any]])
    folds: dict[object, tuple[Leaf, str, str, Leaf]] = field(default_factory=dict[object, tuple[Leaf, str, str, Leaf]])

    def multiplied(self, result: Leaf, a: Leaf, b: Leaf, dims: Dims) -> None:
        """Remember that `result` is the product a × b."""
        factors = (*self.factors(a), *self.factors(b))
        self.sums[_key(result)] = (result, Sum(factors, dims))

    def factors(self, x: Leaf) -> tuple[Leaf, ...]:
        """The factors of which x is known to be the product; x itself as the only one if none are known."""
        entry = _as_recorded(self.sums, x)
        return (x,) if entry is None or entry[1].over or entry[1].guard else entry[1].factors

    def guarded(self, result: Leaf, x: Leaf, guard: Dense, dims: Dims) -> None:
        """Remember that `result` is the product x where `guard` is true, and 0 elsewhere; nothing if x is no known
        product.
        """
        entry = _as_recorded(self.sums, x)
        if entry is not None and not entry[1].over and not entry[1].guard:
            self.sums[_key(result)] = (result, Sum(entry[1].factors, dims, guard=guard))

    def summed(self, x: Leaf, dim: str) -> Sum | None:
        """The known product or sum of products x, summed over one more dim; None if x is unknown, or cut since."""
        entry = _as_recorded(self.sums, x)
        if entry is None or dim not in entry[1].dims:
            return None
        summed_before = entry[1]
        if any(i != summed_before.dims[n] for n, i in x.dims.items):
            return None
        return replace(summed_before, over=(*summed_before.over, dim))

    def remember(self, result: Leaf, total: Sum, node: int) -> None:
        """Remember that `result` is the sum of products `total`, computed by the node of that identity."""
        self.sums[_key(result)] = (result, replace(total, inside=(*total.inside, node)))

    def windowed(self, result: Leaf, source: Dense, windows: tuple[Window, ...]) -> None:
        """Remember that `result` is windows of `source`."""
        self.windows[_key(result)] = (result, source, windows)

    def window(self, x: Leaf) -> tuple[Dense, tuple[Window, ...]] | None:
        """The array and the windows of it that x is; None if x is no known window."""
        entry = _as_recorded(self.windows, x)
        return None if entry is None else entry[1:]

    def folded(self, result: Leaf, op: str, dim: str, operand: Leaf) -> None:
        """Remember that `result` is the fold of the array `of` by an operation along a dim."""
        self.folds[_key(result)] = (result, op, dim, operand)

    def fold_of(self, x: Leaf) -> tuple[str, str, Leaf] | None:
        """The operation, dim and operand of the fold that x is; None if x is no known fold."""
        entry = _as_recorded(self.folds, x)
        return None if entry is None else entry[1:]

    def convert(self, result: Leaf, source: Leaf) -> None:
        """Remember that `result` is a conversion of `source`; the conversion of a window is a window of the
        converted array.
        """
        self.converted[_key(result)] = (result, source)
        entry = self.window(source)
        if entry is not None:
            x, windows = entry
            self.windowed(result, replace(x, data=lax.convert_element_type(x.data, _type(result))), windows)

    def before(self, x: Leaf) -> Leaf | None:
        """The array that x was converted from, under the names that x has now; None if it is unknown."""
        entry = self.converted.get(_key(x))
        if entry is None:
            return None
        result, source = entry
        if isinstance(source, Slots) or isinstance(x, Slots):
            return source if source.dims.items == result.dims.items == x.dims.items else None
        assert isinstance(result, Dense)
        # the same array may have other names by now
        return Dense(aligned(source, result.dims), x.dims) if source.dims.names == result.dims.names else None

    def read(self, result: Leaf, source: Dense) -> None:
        """Remember that `result` was gathered from `source`."""
        self.reads[_key(result)] = (result, source)

    def read_of(self, x: Leaf) -> Dense | None:
        """The array that x was gathered from; None if it is unknown."""
        entry = _as_recorded(self.reads, x)
        return None if entry is None else entry[1]

    def number(self, result: Leaf, source: Dense, number: Any) -> None:
        """Remember that `result` is `source` with a number in the place of each NaN."""
        self.numbers[_key(result)] = (result, source, number)

    def with_nan(self, x: Leaf) -> tuple[Dense, Any] | None:
        """The array that x was before a number replaced each NaN, and the number; None if it is unknown."""
        entry = _as_recorded(self.numbers, x)
        return None if entry is None else entry[1:]

    def pad(self, result: Dense, part: Dense, intervals: Dims) -> None:
        """Remember that `result` is `part` on the intervals `inside`, and 0 around it."""
        region = result.dims.replaced(intervals)
        low = tuple(region[n].start - i.start for n, i in result.dims.items)
        part_entry = self.padded.get(_key(part))
        if part_entry is not None and part.dims.items == region.items:
            inner = part_entry[1]
            self.spread(result, inner.data, tuple(a + b for a, b in zip(low, inner.low, strict=True)), inner.step)
        else:
            self.spread(result, aligned(part, region), low, (1,) * len(low))

    def spread(self, result: Dense, data: jax.Array, low: tuple[int, ...], step: tuple[int, ...]) -> None:
        """Remember that `result` has the elements of `data` at distances `step` from position `low` on, and 0
        elsewhere.
        """
        self.padded[_key(result)] = (result, Spread(data, low, step))

    def unpadded(self, x: Dense) -> tuple[Dense, dict[str, int]] | None:
        """The elements of x without the zeros around and between them, and per dim their distance if it is not 1;
        None if unknown.

        The dims of the first have an interval that starts where the elements do, and has as many points.
        """
        entry = self.padded.get(_key(x))
        if entry is None:
            return None
        part = entry[1]
        starts = [i.start + by for (_, i), by in zip(x.dims.items, part.low, strict=True)]
        intervals = [Interval(a, a + e) for a, e in zip(starts, part.data.shape, strict=True)]
        steps = {n: s for n, s in zip(x.dims.names, part.step, strict=True) if s > 1}
        return Dense(part.data, Dims(tuple(zip(x.dims.names, intervals, strict=True)))), steps


Entry = TypeVar("Entry", bound=tuple[Any, ...])


def _as_recorded(table: Mapping[object, Entry], x: Leaf) -> Entry | None:
    """The entry of an array; None if it has none, or is shifted or has other names by now."""
    entry = table.get(_key(x))
    return None if entry is None or entry[0].dims.items != x.dims.items else entry


def _type(leaf: Leaf) -> Any:
    return _type(leaf.leaves[0]) if isinstance(leaf, Slots) else leaf.data.dtype


def _key(leaf: Leaf) -> object:
    """The identity of a leaf's array, or of the arrays of all slots."""
    return tuple(map(_key, leaf.leaves)) if isinstance(leaf, Slots) else id(leaf.data)
