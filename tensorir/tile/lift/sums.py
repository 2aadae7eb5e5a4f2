"""Integers that are sums of loop variables and coordinates: what of arithmetic keeps them so, without wrapping.

Extents, strides, scalars and the grid are known at a launch, so that most index arithmetic comes out as a number or as
such a sum; a comparison of two sums is a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.integers.affine import Affine, number, quotient, remainder
from tensorir.lifting.region.nodes import Bound
from tensorir.tile.lift.values import Number, Ranges, holds, truth
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element

__all__ = ["bounds_of", "certainly", "fitting", "opposite", "sum_of_operation"]


def fitting(a: Affine | None, element: Element, ranges: Ranges) -> Affine | None:
    """The sum, if its values are numbers of an integer type; None where they are not, or may not be."""
    if a is None or element.bits == 1:
        return None
    found = a.range(ranges)
    low, high = element.range
    return a if found is not None and low <= found[0] and found[1] <= high else None


def sum_of_operation(op: Operation, operands: Sequence[Number], result: Element, ranges: Ranges) -> Affine | None:
    """The sum that an operation on integers gives; None where it gives none."""
    if op.name == "select":
        chosen = truth(operands[0], ranges)
        return None if chosen is None else operands[1 if chosen else 2].sum
    sums = [o.sum for o in operands]
    if not operands or any(s is None for s in sums) or any(o.element.bits == 1 for o in operands):
        return None
    return fitting(_exact(op, [s for s in sums if s is not None], operands[0].element, ranges), result, ranges)


def _exact(op: Operation, sums: Sequence[Affine], element: Element, ranges: Ranges) -> Affine | None:
    a, b = sums[0], sums[-1]
    unsigned = "signedness" in op.row.attribute_index and op.attribute("signedness") == "unsigned"
    if unsigned and any((s.range(ranges) or (-1, 0))[0] < 0 for s in sums):
        return None
    match op.name:
        case "addi":
            return a.plus(b)
        case "subi":
            return a.minus(b)
        case "negi":
            return a.times(-1)
        case "muli":
            return a.times(b.constant) if b.is_number else b.times(a.constant) if a.is_number else None
        case "shli":
            return a.times(1 << b.constant) if b.is_number and 0 <= b.constant < element.bits else None
        case "shri":
            return quotient(a, 1 << b.constant, ranges) if b.is_number and 0 <= b.constant < element.bits else None
        case "divi":
            return _quotient(a, b, op.attribute("rounding"), ranges)
        case "remi":
            low = (a.range(ranges) or (-1, 0))[0]
            return remainder(a, b.constant, ranges) if b.is_number and b.constant > 0 and low >= 0 else None
        case "andi":
            low = (a.range(ranges) or (-1, 0))[0]
            mask = b.constant + 1 if b.is_number else 0
            return remainder(a, mask, ranges) if low >= 0 and mask > 0 and not mask & (mask - 1) else None
        case "maxi" | "mini":
            apart = a.minus(b).range(ranges)
            if apart is None or apart[0] < 0 < apart[1]:
                return None
            return a if (apart[0] >= 0) == (op.name == "maxi") else b
        case "exti" | "trunci":
            return a
        case _:
            return None


def _quotient(a: Affine, b: Affine, mode: str, ranges: Ranges) -> Affine | None:
    if not b.is_number or b.constant <= 0:
        return None
    if mode == "positive_inf":
        return quotient(a.plus(number(b.constant - 1)), b.constant, ranges)
    low = (a.range(ranges) or (-1, 0))[0]
    return quotient(a, b.constant, ranges) if mode == "negative_inf" or low >= 0 else None


def bounds_of(op: Operation, operands: Sequence[Number], ranges: Ranges) -> tuple[Bound, ...] | None:
    """The bounds that a comparison, or the conjunction of two, is; None where it is no such thing."""
    match op.name:
        case "andi":
            a, b = operands
            return None if a.bounds is None or b.bounds is None else (*a.bounds, *b.bounds)
        case "xori":
            # the opposite of one bound is one
            for x, y in (operands, operands[::-1]):
                if x.bounds == () and y.bounds is not None and len(y.bounds) == 1:
                    return opposite(y.bounds)
            return None
        case "exti" | "broadcast":
            return None
        case "cmpi" if operands[0].element.bits > 1:
            a, b = operands[0].sum, operands[1].sum
            if a is None or b is None:
                return None
            return _compared(op, a, b, ranges)
        case _:
            return None


def certainly(op: Operation, operands: Sequence[Number], ranges: Ranges) -> bool | None:
    """Whether two sums are known to differ, or not to, of a comparison for inequality."""
    if op.name != "cmpi" or op.attribute("comparison_predicate") != "not_equal" or operands[0].element.bits == 1:
        return None
    a, b = operands[0].sum, operands[1].sum
    if a is None or b is None:
        return None
    same = holds(Bound(a.minus(b), True), ranges)
    return None if same is None else not same


def _compared(op: Operation, a: Affine, b: Affine, ranges: Ranges) -> tuple[Bound, ...] | None:
    predicate = op.attribute("comparison_predicate")
    if predicate == "equal":
        return (Bound(a.minus(b), True),)
    if predicate == "not_equal":
        return None
    if predicate.startswith("greater"):
        a, b = b, a
    strict = number(0 if predicate.endswith("equal") else 1)
    found = (Bound(b.minus(a).minus(strict)),)
    if op.attribute("signedness") == "signed":
        return found
    low, other = (a.range(ranges) or (-1, 0))[0], (b.range(ranges) or (-1, 0))[0]
    if other < 0:
        return None
    # as numbers without a sign negative ones are larger than all others
    return found if low >= 0 else (Bound(a), *found)


def opposite(bounds: tuple[Bound, ...]) -> tuple[Bound, ...] | None:
    """That bounds do not hold, where that is a bound.

    >>> from tensorir.integers.affine import variable
    >>> str(opposite((Bound(variable("i")),))[0].affine)
    '-i - 1'
    """
    if len(bounds) != 1 or bounds[0].equal:
        return None
    return (Bound(bounds[0].affine.times(-1).minus(number(1))),)
