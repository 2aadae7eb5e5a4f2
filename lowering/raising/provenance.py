"""Rules of raising, and the provenance that calls leave behind for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowering.context import Context, masks_of
from lowering.raising.contractions import guarded_sum
from lowering.values import Dense, Value
from tensorir.analysis.uses import literal_of
from tensorir.ir.nodes import Call, Expr, Operator

# What a rule of the table is, and the row that says that one was used.


@dataclass(frozen=True, slots=True)
class Rule:
    """One form that is recognised, and what becomes of it."""

    name: str
    op: str
    """The builtin whose calls the rule looks at."""
    says: str
    """What it recognises and what XLA gets, in one sentence."""
    lower: Callable[[Context, Call, Sequence[Any]], Value | None]
    """The value of a call, None where the rule does not fit."""
    reorders: bool = False
    """Whether results may round differently: such a rule is left out where `numerics="exact"`."""


class Raised(NamedTuple):
    """A rule that was used, and the expression that it was used for, in the notation."""

    rule: str
    expression: str


# What calls leave behind for the rules: factors, sums, conversions, zeros around a part, NaNs, and what was folded.


def remember(context: Context, node: Call, lowered: Sequence[Any], value: Value) -> None:
    """Record in `context.provenance`, by the array of `value`, the call that computed it, for rules that see its
    uses.

    Products, casts, guarded sums, folds by one operation, gathers, replaced NaNs, guarded products (`if … else 0`), and
    updates of a constant 0 (padding); nothing for other calls.
    """
    provenance = context.provenance
    match node.op:
        case "multiplies":
            provenance.multiplied(value[0], lowered[0][0], lowered[1][0], node.tensor.dims)
        case "cast":
            provenance.convert(value[0], lowered[0][0])
        case "reduce" if literal_of(node.args[1]) == 0:
            total = guarded_sum(context, node, lowered)
            if total is not None:
                provenance.remember(value[0], total, id(node))
        case "reduce" if isinstance(f := node.args[0], Operator) and len(value) == len(lowered[-1]) == 1:
            provenance.folded(value[0], f.op, node.static.dim, lowered[-1][0])
        case "gather" if len(value) == 1 and not masks_of(value) and isinstance(lowered[0][0], Dense):
            provenance.read(value[0], lowered[0][0])
        case "if" if len(value) == 1 and not masks_of(value) and (number := _instead_of_nan(node)) is not None:
            source = lowered[2][0]
            if isinstance(source, Dense) and source.dims.items == value[0].dims.items:
                provenance.number(value[0], source, number)
        case "if" if literal_of(node.args[2]) == 0 and len(value) == 1 and not masks_of(value):
            (guard,) = lowered[0]
            if isinstance(guard, Dense) and isinstance(value[0], Dense):
                provenance.guarded(value[0], lowered[1][0], guard, node.tensor.dims)
        case "update" if literal_of(node.args[0]) == 0 and len(value) == 1:
            padded, unpadded, interval = value[0], lowered[1][0], node.args[1].tensor.dims
            match padded, unpadded:
                case Dense(present=None), Dense(present=None) if padded is not unpadded and interval.size:
                    provenance.pad(padded, unpadded, interval)
                case _:
                    pass
        case _:
            pass


def _instead_of_nan(e: Expr) -> Any:
    """The literal number of `if isnan(x) then number else x`; None for any other expression, and if the literal is
    NaN.
    """
    match e:
        case Call("if", (Call("isnan", (x,)), instead, y)) if x == y:
            number = literal_of(instead)
            return number if number == number else None
        case _:
            return None
