"""A dim of an unstructured mesh, its points dealt out to devices by a vector of owners.

>>> import numpy as np
>>> d = Subdomains("Vertex", "px", Interval(0, 5), 2, np.array([1, 0, 1, 1, 0]))
>>> d.size, [points.tolist() for points in d.each]
(3, [[1, 4], [0, 2, 3]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.distribution.decomposition import Decomposition
from tensorir.ir.types import Interval, TensorType

__all__ = ["Keys", "Part", "Subdomains", "blocks_of", "mesh_dim", "subdomains_of"]

Keys = NDArray[np.int64]
"""Points of all devices in ascending order: the device times the extent of the dim, and the point from its start."""


@dataclass(frozen=True, eq=False)
class Subdomains:
    """A dim whose points are dealt out to the devices along a mesh axis by their owners.

    A device has its own points first, in the order of the whole, padded to as many as the device with the most has.
    """

    dim: str
    axis: str
    interval: Interval
    parts: int
    owners: NDArray[np.int32]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """By device, how many points it has."""
        return tuple(int(n) for n in np.bincount(self.owners, minlength=self.parts))

    @property
    def size(self) -> int:
        """The points of the device with the most."""
        return max(self.counts)

    @property
    def padded(self) -> Interval:
        """The interval with the padding of all devices."""
        return Interval(self.interval.start, self.interval.start + self.parts * self.size)

    @property
    def extent(self) -> int:
        return len(self.interval)

    @cached_property
    def each(self) -> tuple[NDArray[np.int64], ...]:
        """By device, its points, counted from the start of the interval."""
        order = np.argsort(self.owners, kind="stable")
        return tuple(np.split(order, np.cumsum(self.counts)[:-1]))

    def own(self, points: Interval) -> NDArray[np.bool_]:
        """By place on the devices, padding included, whether it has one of these points."""
        here = np.arange(self.size) < np.array(self.counts)[:, None]
        at = self.dealt + self.interval.start
        return (here & (at >= points.start) & (at < points.stop)).reshape(-1)

    def common(self, points: Interval) -> Interval:
        """The local points that are some of these, which are of the interval, on every device."""
        return Interval(0, min(self.counts) if points == self.interval else 0)

    @cached_property
    def owned(self) -> Keys:
        """The points that devices have."""
        return np.concatenate([k * self.extent + points for k, points in enumerate(self.each)])

    @cached_property
    def dealt(self) -> NDArray[np.int64]:
        """Devices by places: the point there, the device's first one in the padding."""
        return np.stack([np.pad(p, (0, self.size - len(p)), constant_values=p[0]) for p in self.each])

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """By point, where it stands among the places of all devices."""
        found = np.empty(self.extent, np.int64)
        for k, points in enumerate(self.each):
            found[points] = k * self.size + np.arange(len(points))
        return found

    def __str__(self) -> str:
        few, many = min(self.counts), max(self.counts)
        points = f"{many}" if few == many else f"{few} to {many}"
        return f"{self.dim}{self.interval} along '{self.axis}' in {self.parts} parts of {points}"


Part = Decomposition | Subdomains


def subdomains_of(parts: Mapping[str, Part]) -> dict[str, Subdomains]:
    """The dims of a mesh."""
    return {d: p for d, p in parts.items() if isinstance(p, Subdomains)}


def blocks_of(parts: Mapping[str, Part]) -> dict[str, Decomposition]:
    """The dims that are parted into blocks."""
    return {d: p for d, p in parts.items() if isinstance(p, Decomposition)}


def mesh_dim(kind: Any, parts: Mapping[str, Subdomains]) -> str | None:
    """The dim of a mesh that a type has; it has one at most."""
    return next((d for d in kind.dims if d in parts), None) if isinstance(kind, TensorType) else None
