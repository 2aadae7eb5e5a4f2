"""The operators of Relax in NumPy, by name: one table that joins those of the files beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.relax.interpret.elementwise import ELEMENTWISE
from tensorir.relax.interpret.images import IMAGES
from tensorir.relax.interpret.networks import NETWORKS
from tensorir.relax.interpret.reductions import REDUCTIONS
from tensorir.relax.interpret.shapes import SHAPES

__all__ = ["MEANINGS"]

MEANINGS: dict[str, Callable[..., Any]] = {**ELEMENTWISE, **REDUCTIONS, **SHAPES, **NETWORKS, **IMAGES}
"""Takes the values of an operator's arguments, and its attributes by name."""
