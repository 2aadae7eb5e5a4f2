"""What is known of arrays: of which factors they are the product or the sum of products, of what they are windows, and
what they were before they were padded with zeros or converted, or before numbers took the place of NaNs.

The expression that an array was computed by is gone when it is folded; it is remembered by the array that it gave, so
that a sum of it can become one contraction, over several dims in turn (`raising.contractions`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jax import lax

from lowering.values import Dense, Leaf, Slots, aligned
from tensorir.ir.types import Dims, Interval

__all__ = ["ArrayProvenance", "Sum", "Window"]


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
    """What is known of arrays, by the arrays themselves."""

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
        """Remember a product."""
        factors = (*self.factors(a), *self.factors(b))
        self.sums[_key(result)] = (result, Sum(factors, dims))

    def factors(self, x: Leaf) -> tuple[Leaf, ...]:
        """What an array is the product of, itself where nothing is known of it."""
        known = self.sums.get(_key(x))
        if known is None or known[1].over or known[1].guard or known[0].dims.names != x.dims.names:
            return (x,)
        return known[1].factors

    def guarded(self, result: Leaf, x: Leaf, guard: Dense, dims: Dims) -> None:
        """Remember a product that is zero where a guard is false."""
        known = self.sums.get(_key(x))
        if known is not None and not known[1].over and not known[1].guard and known[0].dims.names == x.dims.names:
            self.sums[_key(result)] = (result, Sum(known[1].factors, dims, guard=guard))

    def summed(self, x: Leaf, dim: str) -> Sum | None:
        """The sum of a remembered product over one more dim."""
        known = self.sums.get(_key(x))
        if known is None or known[0].dims.names != x.dims.names or dim not in known[1].dims:
            return None
        before = known[1]
        if any(i != before.dims[n] for n, i in x.dims.items):
            return None
        return replace(before, over=(*before.over, dim))

    def remember(self, result: Leaf, total: Sum, node: int) -> None:
        """Remember a sum of products, and the node that it is."""
        self.sums[_key(result)] = (result, replace(total, inside=(*total.inside, node)))

    def windowed(self, result: Leaf, source: Dense, windows: tuple[Window, ...]) -> None:
        """Remember a window."""
        self.windows[_key(result)] = (result, source, windows)

    def window(self, x: Leaf) -> tuple[Dense, tuple[Window, ...]] | None:
        """What an array is a window of, where it is one."""
        known = self.windows.get(_key(x))
        return None if known is None else known[1:]

    def folded(self, result: Leaf, op: str, dim: str, of: Leaf) -> None:
        """Remember a fold of one array by an operation along a dim."""
        self.folds[_key(result)] = (result, op, dim, of)

    def fold_of(self, x: Leaf) -> tuple[str, str, Leaf] | None:
        """By which operation, and along which dim, an array was folded from which."""
        known = self.folds.get(_key(x))
        return None if known is None or known[0].dims.items != x.dims.items else known[1:]

    def convert(self, result: Leaf, source: Leaf) -> None:
        """Remember a conversion; that of a window is a window of the conversion."""
        self.converted[_key(result)] = (result, source)
        known = self.window(source)
        if known is not None:
            x, windows = known
            self.windowed(result, replace(x, data=lax.convert_element_type(x.data, _type(result))), windows)

    def before(self, x: Leaf) -> Leaf | None:
        """What an array was converted from, where it was."""
        known = self.converted.get(_key(x))
        if known is None:
            return None
        result, source = known
        if isinstance(source, Slots) or isinstance(x, Slots):
            return source if source.dims.items == result.dims.items == x.dims.items else None
        assert isinstance(result, Dense)
        # the same array may have other names by now
        return Dense(aligned(source, result.dims), x.dims) if source.dims.names == result.dims.names else None

    def read(self, result: Leaf, source: Dense) -> None:
        """Remember what an array was gathered from."""
        self.reads[_key(result)] = (result, source)

    def read_of(self, x: Leaf) -> Dense | None:
        """What an array was gathered from."""
        known = self.reads.get(_key(x))
        return None if known is None or known[0].dims.items != x.dims.items else known[1]

    def number(self, result: Leaf, source: Dense, number: Any) -> None:
        """Remember an array that has a number in the place of each NaN of another."""
        self.numbers[_key(result)] = (result, source, number)

    def with_nan(self, x: Leaf) -> tuple[Dense, Any] | None:
        """What an array was before a number took the place of each NaN, and the number."""
        known = self.numbers.get(_key(x))
        return None if known is None or known[0].dims.items != x.dims.items else known[1:]

    def pad(self, result: Dense, part: Dense, inside: Dims) -> None:
        """Remember an array that is a part on some intervals, and zero around it."""
        region = result.dims.replaced(inside)
        low = tuple(region[n].start - i.start for n, i in result.dims.items)
        before = self.padded.get(_key(part))
        if before is not None and part.dims.items == region.items:
            own = before[1]
            self.spread(result, own.data, tuple(a + b for a, b in zip(low, own.low, strict=True)), own.step)
        else:
            self.spread(result, aligned(part, region), low, (1,) * len(low))

    def spread(self, result: Dense, data: jax.Array, low: tuple[int, ...], step: tuple[int, ...]) -> None:
        """Remember an array of elements between zeros."""
        self.padded[_key(result)] = (result, Spread(data, low, step))

    def unpadded(self, x: Dense) -> tuple[Dense, dict[str, int]] | None:
        """The elements outside of which an array is zero, where that is known, and how far apart they are."""
        known = self.padded.get(_key(x))
        if known is None:
            return None
        part = known[1]
        starts = [i.start + by for (_, i), by in zip(x.dims.items, part.low, strict=True)]
        inside = [Interval(a, a + e) for a, e in zip(starts, part.data.shape, strict=True)]
        steps = {n: s for n, s in zip(x.dims.names, part.step, strict=True) if s > 1}
        return Dense(part.data, Dims(tuple(zip(x.dims.names, inside, strict=True)))), steps


def _type(leaf: Leaf) -> Any:
    return _type(leaf.leaves[0]) if isinstance(leaf, Slots) else leaf.data.dtype


def _key(leaf: Leaf) -> object:
    if isinstance(leaf, Slots):
        return ("slots", len(leaf.leaves), _key(leaf.leaves[0]))
    return id(leaf.data)
