"""The rules of inference by the word that the table of operators has for them: one table that joins those beside it."""

from __future__ import annotations

from tensorir.tir.relax import nodes as r
from tensorir.tir.relax.rules.elementwise import ELEMENTWISE
from tensorir.tir.relax.rules.images import IMAGES
from tensorir.tir.relax.rules.makers import MAKERS
from tensorir.tir.relax.rules.networks import NETWORKS
from tensorir.tir.relax.rules.operands import Rule
from tensorir.tir.relax.rules.products import PRODUCTS
from tensorir.tir.relax.rules.reductions import REDUCTIONS
from tensorir.tir.relax.rules.shapes import SHAPES

__all__ = ["RULES"]

RULES: dict[str, Rule] = {
    **ELEMENTWISE,
    **MAKERS,
    **PRODUCTS,
    **REDUCTIONS,
    **SHAPES,
    **NETWORKS,
    **IMAGES,
    "object": lambda call, type_of: r.ObjectType(),
    "void": lambda call, type_of: r.TupleType(()),
}
"""Every rule."""
