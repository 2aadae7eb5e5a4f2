"""Views as values, and their loads and stores as accesses lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.tile.interpret.rounding import Array
from tensorir.tile.types import TensorView, TileView
from tensorir.tile.views import coordinates, dims_of, index_space

__all__ = ["Tensor", "Viewed", "lanes_of", "padding_of"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor_view at a launch: where it begins, its extents and its strides in elements."""

    type: TensorView
    base: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Viewed:
    """A partition, strided or gather_scatter view of a tensor."""

    type: TileView
    tensor: Tensor

    @property
    def space(self) -> tuple[int, ...]:
        return index_space(self.type, self.tensor.extents)


def lanes_of(view: Viewed, index: Sequence[Any]) -> tuple[Array, Array | None]:
    """The address of each element of a tile, and which are inside of the tensor: None where all are."""
    shape = view.type.tile
    addresses: Any = np.array(view.tensor.base, np.int64)
    mask: Any = None
    scale = view.tensor.type.element.width // 4
    parts = coordinates(view.type, index, view.tensor.extents)
    for k, ((at, inside), d) in enumerate(zip(parts, dims_of(view.type), strict=True)):
        along = [1] * len(shape)
        along[k] = shape[k]
        with np.errstate(all="ignore"):
            addresses = addresses + (at * (view.tensor.strides[d] * scale)).reshape(along)
        if not inside.all():
            mask = inside.reshape(along) if mask is None else mask & inside.reshape(along)
    addresses = np.broadcast_to(addresses, shape)
    return addresses, None if mask is None else np.broadcast_to(mask, shape)


def padding_of(view: TileView) -> Any:
    """What a load gives outside of the tensor; None where nothing is said."""
    element = view.tensor.element
    if view.padding is None:
        return None
    value = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[view.padding]
    return np.array(value).astype(element.numpy)
