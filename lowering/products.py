"""What is known of arrays: of which factors they are the product or the sum of products, and of what they are windows.

The expression that an array was computed by is gone when it is folded; it is remembered by the array that it gave, so
that a sum of it can become one contraction, over several dims in turn (`raising.contractions`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowering.values import Dense, Leaf, Slots
from tensorir.types import Dims

__all__ = ["Products", "Sum", "Window"]


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


@dataclass(slots=True)
class Products:
    """What is known of arrays, by the arrays themselves."""

    sums: dict[object, tuple[Leaf, Sum]] = field(default_factory=dict[object, tuple[Leaf, Sum]])
    windows: dict[object, tuple[Leaf, Dense, tuple[Window, ...]]] = field(
        default_factory=dict[object, tuple[Leaf, Dense, tuple[Window, ...]]]
    )

    def multiplied(self, result: Leaf, a: Leaf, b: Leaf, dims: Dims) -> None:
        """Remember a product."""
        factors = (*self._factors(a), *self._factors(b))
        self.sums[_key(result)] = (result, Sum(factors, dims))

    def _factors(self, x: Leaf) -> tuple[Leaf, ...]:
        known = self.sums.get(_key(x))
        if known is None or known[1].over or known[0].dims.names != x.dims.names:
            return (x,)
        return known[1].factors

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


def _key(leaf: Leaf) -> object:
    if isinstance(leaf, Slots):
        return ("slots", len(leaf.leaves), _key(leaf.leaves[0]))
    return id(leaf.data)
