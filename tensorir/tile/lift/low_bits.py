"""Integers of 64 bits by their low 32: what addresses are made of, and comparisons of what fits.

Kernels compute addresses in 64 bits. JAX has none unless it is asked for them, and no memory here has so many elements:
sums, differences and products have the low bits that those of their operands give, and a comparison of numbers that fit
is one of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.build import call
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.emission.tensors import converted
from tensorir.tile.lift.values import Number, Ranges
from tensorir.tile.nodes import Operation

__all__ = ["low_of", "narrowed"]

_RING = {"addi": "plus", "subi": "minus", "muli": "multiplies"}
"""Operations whose low bits follow from those of their operands."""


def low_of(op: Operation, operands: Sequence[Number], ranges: Ranges) -> tuple[Expr, bool] | None:
    """The low bits of a result of 64 bits, and whether they are the number; None where they are not at hand."""
    if op.name == "exti":
        (x,) = operands
        signed = op.attribute("signedness") == "signed"
        if x.scalar == BOOL:
            small = converted(x.expr, INT32)
            return (call("neg", small) if signed else small), True
        if signed:
            return converted(x.expr, INT32), True
        low = x.sum.range(x.ranges(ranges)) if x.sum is not None else None
        return (x.expr, low is not None and low[0] >= 0) if x.scalar == INT32 else None
    numbers = operands[1:] if op.name == "select" else operands
    found = [n.low_bits(ranges) if n.element.bits == 64 else None for n in numbers]
    if any(f is None for f in found):
        return None
    parts = [f for f in found if f is not None]
    if op.name in _RING:
        return call(_RING[op.name], *(e for e, _ in parts)), False
    if op.name == "select":
        return call("if", operands[0].expr, *(e for e, _ in parts)), all(fits for _, fits in parts)
    return None


def narrowed(op: Operation, operands: Sequence[Number], ranges: Ranges) -> list[Expr] | None:
    """The operands of a comparison in 32 bits; None where they do not fit.

    Numbers without a sign that fit compare as their low bits do: extended or not, negative ones are above all others.
    """
    if op.name != "cmpi" or operands[0].element.bits != 64:
        return None
    found = [n.low_bits(ranges) for n in operands]
    parts = [f[0] for f in found if f is not None and f[1]]
    return parts if len(parts) == len(operands) else None
