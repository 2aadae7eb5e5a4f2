"""An interval in blocks, one for each device along an axis of a mesh.

>>> d = Decomposition("I", "px", Interval(0, 10), 4)
>>> d.size, [str(d.block(k)) for k in range(4)], d.owner(9)
(3, ['[0:3]', '[3:6]', '[6:9]', '[9:10]'], 3)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorir.ir.types import Interval

__all__ = ["Decomposition"]


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A dim whose points are dealt out to the devices along a mesh axis.

    All blocks have `size` points but those at the end, which have fewer, or none: arrays are padded there, and what
    the padding holds is read by nobody. So a block begins at the same multiple everywhere, and a halo of full blocks
    has one width on all devices.
    """

    dim: str
    axis: str
    interval: Interval
    """All points along the dim that a parameter has, or that are folded."""
    parts: int

    @property
    def size(self) -> int:
        """The points of a full block."""
        return -(-len(self.interval) // self.parts)

    @property
    def padded(self) -> Interval:
        """The interval with the padding of the last blocks."""
        return Interval(self.interval.start, self.interval.start + self.parts * self.size)

    @property
    def even(self) -> bool:
        """Whether no block is padded."""
        return self.padded == self.interval

    def start(self, part: int) -> int:
        """Where a block begins."""
        return self.interval.start + part * self.size

    def block(self, part: int) -> Interval:
        """The points of a block."""
        start = self.start(part)
        return Interval(start, start + self.size) & self.interval

    def own(self, points: Interval) -> NDArray[np.bool_]:
        """By place on the devices, padding included, whether it has one of these points."""
        places = np.arange(self.padded.start, self.padded.stop)
        return (places >= points.start) & (places < points.stop)

    def common(self, points: Interval) -> Interval:
        """The local points that are some of these, which are of the interval, on every device."""
        start, stop = max(0, points.start - self.start(0)), min(self.size, points.stop - self.start(self.parts - 1))
        return Interval(start, max(start, stop))

    def blocks(self) -> Iterator[Interval]:
        """All blocks, in the order of the devices."""
        return (self.block(part) for part in range(self.parts))

    def owner(self, point: int) -> int:
        """The device that has a point."""
        return (point - self.interval.start) // self.size
