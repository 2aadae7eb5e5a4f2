"""The operators of Relax by name: each takes the values of its arguments and its attributes, and gives values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.relax.lift.attention import ATTENTION
from tensorir.relax.lift.convolutions import CONVOLUTIONS
from tensorir.relax.lift.elementwise import ELEMENTWISE
from tensorir.relax.lift.grids import GRIDS
from tensorir.relax.lift.images import IMAGES
from tensorir.relax.lift.indexing import INDEXING
from tensorir.relax.lift.normalisation import NORMALISATION
from tensorir.relax.lift.products import PRODUCTS
from tensorir.relax.lift.reductions import REDUCTIONS
from tensorir.relax.lift.reshaping import RESHAPING

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
