"""The programs of blocks: restricted to a block, in coordinates that count from it, each compiled once.

Blocks that lie alike to the boundaries are one program: along a dim the first block, those within, and the last, so
that d dims take 3^d compilations at most. Where what is special to a boundary reaches further than a block, each block
that it reaches is one more. Dims that tables or indices name keep their coordinates: each block is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import Dims
from tensorir.passes.restrict import free_of_coordinates, restrict, translated, with_positions
from tensorir.runtime.memory import RecentCache

__all__ = ["BlockProgram", "BlockPrograms"]


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """The program of a block, in the coordinates of the whole, and how it runs."""

    fencil: Fencil
    run: Callable[..., Mapping[str, Any]]

    def index(self, output: str, region: Dims) -> tuple[slice, ...]:
        """Where a region stands in what is computed of an output."""
        have = self.fencil[output].type.dims
        return tuple(slice(i.start - have[d].start, i.stop - have[d].start) for d, i in region.items)


@dataclass(frozen=True)
class BlockPrograms:
    """A program of which blocks along some dims are computed."""

    fencil: Fencil
    """With a parameter in place of the positions along dims that are cut."""
    positions: Mapping[str, str]
    """The dims, by these parameters."""
    moving: frozenset[str]
    backend: str
    compiled: RecentCache[Fencil, Any] = field(default_factory=lambda: RecentCache("compiled programs of blocks", 128))
    last: RecentCache[Any, BlockProgram] = field(default_factory=lambda: RecentCache("programs of regions", 1))

    @staticmethod
    def of(fencil: Fencil, cut: frozenset[str], backend: str) -> BlockPrograms:
        """The programs of blocks along the dims that are cut."""
        whole, positions = with_positions(fencil, cut)
        return BlockPrograms(whole, positions, free_of_coordinates(whole, cut), backend)

    def program(self, regions: Mapping[str, Dims]) -> BlockProgram:
        """The program of these regions of some results."""
        key = tuple((n, r.items) for n, r in regions.items())
        return self.last.of(key, lambda: self._program(regions))

    def _program(self, regions: Mapping[str, Dims]) -> BlockProgram:
        asked = {n: {d: (i.start, i.stop) for d, i in r.items} for n, r in regions.items()}
        others = [p for p in self.fencil.results if p.name not in regions]
        nothing = {p.name: {d: (i.start, i.start) for d, i in p.type.dims.items} for p in others}
        parts = {n: part for n, part in {**nothing, **asked}.items() if part}
        smaller = restrict(self.fencil, parts) if parts else self.fencil
        first = next(iter(regions.values()))
        here = translated(smaller, {d: i.start for d, i in first.items if d in self.moving})
        return BlockProgram(smaller, self.compiled.of(here, lambda: ti.compile(here, backend=self.backend)))

    def position(self, param: Var) -> Any:
        """The coordinates that a parameter in place of positions stands for."""
        interval = param.type.dims[self.positions[param.name]]
        return np.arange(interval.start, interval.stop, dtype=np.int32)
