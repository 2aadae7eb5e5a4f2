"""Arrays on named dims whose elements are real numbers, each as several arrays, or integers and truth values as one.

What moves elements moves all arrays of a leaf alike.

>>> from tensorir.ir.types import Dims
>>> x = Tensor(Dims.of(I=(0, 3)), (Leaf((np.array([1, 2, 3]),)),))
>>> shifted(x, "I", 1).dims
Dims(I[-1:2])
>>> on(x, Dims.of(I=(1, 3), J=(0, 2))).leaves[0].parts[0].tolist()
[[2, 2], [3, 3]]
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorir.ir.types import Dims, Interval

__all__ = [
    "BATCH",
    "Array",
    "Leaf",
    "Tensor",
    "batched",
    "choose",
    "joined",
    "moved",
    "on",
    "placed",
    "shifted",
    "slice_at",
    "stacked",
]

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
