"""Rules of what is computed element by element, and of tuples."""

from __future__ import annotations

from typing import Any

from tensorir.print_formatting import PLACE
from tensorir.types import BOOL, Complaint, Dims, Scalar, TensorType, TupleElement, bcast
from tensorir.typing_rules.operands import Operands, Static, tensors_of


def _is_number(e: Scalar) -> bool:
    return e.is_number


def _is_float(e: Scalar) -> bool:
    return e.is_float


def _is_integer(e: Scalar) -> bool:
    return e.is_integer


def _is_bool(e: Scalar) -> bool:
    return e == BOOL


def _is_any(e: Scalar) -> bool:
    return True


def _scalars(args: Operands, wanted: str, accepts: Any) -> tuple[Scalar, Dims]:
    """The one scalar type of all operands and their common dims."""
    types = tensors_of(args)
    first = types[0].element
    for index, t in enumerate(types):
        if isinstance(t.element, TupleElement):
            raise Complaint(
                "T05",
                f"a tuple, {t.element}, stands where one {wanted} is needed.",
                help="take a member: x[0].",
                at=index,
            )
        if not accepts(t.element):
            raise Complaint(
                "T04",
                f"{t.element} stands where {_article(wanted)} is needed.",
                help=_cast_hint(t.element, wanted),
                at=index,
            )
        if t.element != first:
            raise Complaint(
                "T01",
                f"the operands have different element types: {first} and {t.element}.",
                help=f"nothing is converted silently; write cast(x, {first}) or cast(x, {t.element}).",
                at=index,
            )
    assert isinstance(first, Scalar)
    return first, bcast(types)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _cast_hint(element: Scalar, wanted: str) -> str:
    target = {"float": "float64", "number": "int32", "integer": "int32", "bool": "bool"}[wanted]
    return "compare it with 0: x ≠ 0." if wanted == "bool" else f"convert it: cast(x, {target})."


def numbers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "number", _is_number))


def floats(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "float", _is_float))


def integers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "integer", _is_integer))


def logic(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "bool", _is_bool))


def comparison(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number", _is_number)[1])


def equality(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number", _is_any)[1])


def float_tests(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "float", _is_float)[1])


def selection(static: Static, args: Operands) -> TensorType:
    condition, first, second = tensors_of(args)
    if condition.element != BOOL:
        raise Complaint("T04", f"the condition is {condition.element}, not bool.", help="compare it: x > 0.0.", at=0)
    if first.element != second.element:
        raise Complaint(
            "T01",
            f"the branches have different element types: {first.element} and {second.element}.",
            help="cast one of them.",
            at=2,
        )
    return TensorType(first.element, bcast([condition, first, second]))


def cast(static: Static, args: Operands) -> TensorType:
    (target,) = static
    (x,) = tensors_of(args)
    if not isinstance(x.element, Scalar) or not isinstance(target, Scalar):
        raise Complaint("T27", "a tuple cannot be cast as a whole.", help="cast its members.", at=0)
    return x.of(target)


def bitcast(static: Static, args: Operands) -> TensorType:
    (target,) = static
    (x,) = tensors_of(args)
    if not isinstance(x.element, Scalar) or not isinstance(target, Scalar):
        raise Complaint("T27", "a tuple cannot be cast as a whole.", help="cast its members.", at=0)
    if x.element.bits != target.bits:
        raise Complaint(
            "T28",
            f"{x.element} has {x.element.bits} bits and {target} has {target.bits}.",
            help=f"bitcast keeps the bits; write cast(x, {target}) to convert the value.",
            at=0,
        )
    return x.of(target)


def make_tuple(static: Static, args: Operands) -> TensorType:
    types = tensors_of(args)
    if not types:
        raise Complaint("T06", "a tuple needs at least one member.", help="write make_tuple(x).")
    return TensorType(TupleElement(tuple(t.element for t in types)), bcast(types))


def tuple_get(static: Static, args: Operands) -> TensorType:
    index: int = static.member
    (x,) = tensors_of(args)
    if not isinstance(x.element, TupleElement):
        raise Complaint(
            "T30", f"{x.element} is not a tuple, so it has no member {index}.", help="leave out the index.", at=0
        )
    if not 0 <= index < len(x.element.members):
        raise Complaint(
            "T29",
            f"there is no member {index} in {x.element}.",
            help=f"members count from 0 to {len(x.element.members) - 1}.",
            at=0,
        )
    return x.of(x.element.members[index])


def assert_(static: Static, args: Operands) -> TensorType:
    x, condition = tensors_of(args)
    if condition.element != BOOL:
        raise Complaint("T04", f"the condition is {condition.element}, not bool.", help="compare it: x > 0.0.", at=1)
    return x


def print_(static: Static, args: Operands) -> TensorType:
    types = tensors_of(args)
    if not types:
        raise Complaint("T06", "there is nothing to print.", help='write print("x")(x).')
    text: str = static.text
    count, places = sum(len(t.leaves) for t in types), text.count(PLACE)
    if places not in (0, count):
        message = f"the text has {places} place{'s' * (places != 1)} for {count} value{'s' * (count != 1)}."
        raise Complaint("T42", message, help="write a {} for each value, or none at all.")
    return types[0]
