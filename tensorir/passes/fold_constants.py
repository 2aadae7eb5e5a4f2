"""Operations on literals are done before the program runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.ir.build import literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal
from tensorir.ir.types import Scalar
from tensorir.passes.base import Pass, rewritten
from tensorir.reference.scalars import SCALAR, bitcast, cast, scalar

__all__ = ["FoldConstants"]


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Elementwise operations whose operands are all literals become literals.

    What is exact to a few units in the last place only is left for the backend, unless `transcendental` is true.

    >>> from tensorir.passes.show import show
    >>> show(FoldConstants(), "(1.0 + 2.0) / 8.0 × x + cos(0.5)", x={"I": (0, 5)})
    0.375 × x + cos(0.5)
    """

    transcendental: bool = False

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, self.rule)

    def rule(self, e: Expr) -> Expr | None:
        if not isinstance(e, Call) or not TABLE[e.op].elementwise:
            return None
        operands = [a for a in e.args if isinstance(a, Literal)]
        if len(operands) < len(e.args) or (TABLE[e.op].transcendental and not self.transcendental):
            return None
        with np.errstate(all="ignore"):
            value = _value(e, operands)
        element = e.tensor.element
        assert isinstance(element, Scalar)
        if element.is_float and _subnormal(float(value), element):
            return None
        return literal(value.item() if not element.is_float else float(value), element, e.span)


def _value(e: Call, operands: list[Literal]) -> Any:
    values: list[Any] = [scalar(o.element, o.value) for o in operands]
    target = e.tensor.element
    assert isinstance(target, Scalar)
    match e.op:
        case "if":
            return values[1] if values[0] else values[2]
        case "cast":
            return cast(operands[0].element, target, values[0])
        case "bitcast":
            return bitcast(target, values[0])
        case op:
            return SCALAR[op](operands[0].element, *values)


_LEAST = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14,
    "float8_e5m2": 2.0**-14, "float8_e4m3": 2.0**-6, "float8_e4m3fn": 2.0**-6,
}  # fmt: skip
"""The least normal number of every float type."""


def _subnormal(value: float, element: Scalar) -> bool:
    """Backends may take it for zero."""
    return value != 0 and math.isfinite(value) and abs(value) < _LEAST[element.name]
