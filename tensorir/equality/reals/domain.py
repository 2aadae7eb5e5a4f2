"""What floats are while a program is evaluated: a domain, with its literals, operations, sums and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tensorir.equality.reals.tensors import Array, Leaf
from tensorir.ir.types import DTYPES, Dims, Scalar

__all__ = ["NO_DIMS", "Domain", "Unsupported", "literal"]

NO_DIMS = Dims()


class Unsupported(Exception):
    """A program does what has no meaning in a domain, or is too large."""


class Domain(Protocol):
    """Floats as leaves of arrays."""

    @property
    def at_once(self) -> bool:
        """Whether products of matrices are taken as such, of `numbers.Real`."""
        ...

    @property
    def in_order(self) -> bool:
        """Whether folds are taken element by element."""
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
