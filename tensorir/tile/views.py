"""Index spaces of views, and where the elements of a tile stand (the type document, section 5.4, and its examples).

>>> from tensorir.tile.types import PartitionView, TensorView, f32
>>> index_space(PartitionView((128, 128), TensorView(f32, (64, 256), (256, 1)), (0, 1)), (64, 256))
(1, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.tile.types import GatherScatterView, PartitionView, StridedView, TileView

__all__ = ["coordinates", "dims_of", "index_space", "steps_of"]


def dims_of(view: TileView) -> tuple[int, ...]:
    """The tensor dim along which each tile dim runs."""
    return tuple(range(len(view.tile))) if isinstance(view, GatherScatterView) else view.dim_map


def steps_of(view: TileView) -> tuple[int, ...]:
    """How far apart, in elements, two neighbouring tiles stand along each tile dim."""
    match view:
        case PartitionView(tile):
            return tile
        case StridedView(_, traversal):
            return traversal
        case GatherScatterView(tile):
            return (1,) * len(tile)


def index_space(view: TileView, extents: Sequence[int]) -> tuple[int, ...]:
    """How many indices a view has along each tile dim, for the extents of its tensor."""
    return tuple(-(-extents[d] // step) for d, step in zip(dims_of(view), steps_of(view), strict=True))


def coordinates(view: TileView, index: Sequence[Any], extents: Sequence[int]) -> list[tuple[Any, Any]]:
    """For each tile dim the coordinates in the tensor of its elements, and whether they are inside.

    `index` has a number for each tile dim, and an array of them for the sparse dim of a gather_scatter_view.

    >>> from tensorir.tile.types import TensorView, f32
    >>> view = StridedView((2,), (3,), TensorView(f32, (16,), (1,)), (0,))
    >>> [(c.tolist(), inside.tolist()) for c, inside in coordinates(view, (5,), (16,))]
    [([15, 0], [True, False])]
    """
    found: list[tuple[Any, Any]] = []
    for k, (d, step) in enumerate(zip(dims_of(view), steps_of(view), strict=True)):
        extent = extents[d]
        if isinstance(view, GatherScatterView) and k == view.sparse_dim:
            rows = np.asarray(index[k]).astype(np.uint64)
            inside = rows < np.uint64(extent)
            at = np.where(inside, rows, np.uint64(0)).astype(np.int64)
        else:
            start = int(index[k]) * step
            count = max(0, min(view.tile[k], extent - start))
            inside = np.arange(view.tile[k]) < count
            at = np.where(inside, np.arange(view.tile[k], dtype=np.int64) + (start if count else 0), 0)
        found.append((at, inside))
    return found
