"""The operators of Relax by name: each takes the values of its arguments and its attributes, and gives values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.tir.lift.relax.attention import ATTENTION
from tensorir.tir.lift.relax.convolutions import CONVOLUTIONS
from tensorir.tir.lift.relax.elementwise import ELEMENTWISE
from tensorir.tir.lift.relax.grids import GRIDS
from tensorir.tir.lift.relax.images import IMAGES
from tensorir.tir.lift.relax.indexing import INDEXING
from tensorir.tir.lift.relax.normalisation import NORMALISATION
from tensorir.tir.lift.relax.products import PRODUCTS
from tensorir.tir.lift.relax.reductions import REDUCTIONS
from tensorir.tir.lift.relax.reshaping import RESHAPING

__all__ = ["OPERATORS"]

OPERATORS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **PRODUCTS,
    **RESHAPING,
    **NORMALISATION,
    **ATTENTION,
    **CONVOLUTIONS,
    **INDEXING,
    **IMAGES,
    **GRIDS,
}
"""Arguments are values, tuples of them, shapes, numbers or None; attributes come by name."""
