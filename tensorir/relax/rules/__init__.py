"""The rules of inference by the word that the table of operators has for them: one table that joins those beside it."""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.relax.rules.elementwise import ELEMENTWISE
from tensorir.relax.rules.images import IMAGES
from tensorir.relax.rules.makers import MAKERS
from tensorir.relax.rules.networks import NETWORKS
from tensorir.relax.rules.operands import Rule
from tensorir.relax.rules.products import PRODUCTS
from tensorir.relax.rules.reductions import REDUCTIONS
from tensorir.relax.rules.shapes import SHAPES

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
