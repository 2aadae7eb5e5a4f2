"""What the rules of inference share: operands as tensors, attributes as numbers, sizes as expressions."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType
from tensorir.tir.relax import nodes as r
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.extents import linear
from tensorir.tir.script.values import members

__all__ = [
    "Contradiction",
    "Rule",
    "Sizes",
    "TypeOf",
    "axes_of",
    "axis_of",
    "combine",
    "differ",
    "dtype_or",
    "int_of",
    "ints_of",
    "members_of",
    "product_of",
    "say",
    "shape_argument",
    "sum_of",
    "tensor_of",
    "word",
]


TypeOf = Callable[[n.Node], r.RelaxType]
"""The type of an expression."""

Rule = Callable[[r.Call, TypeOf], r.RelaxType]
"""The type of a call's result, or `Contradiction`; an `ObjectType` where nothing is known."""

Sizes = tuple[n.Expr, ...]


class Contradiction(Exception):
    """Operands, or an annotation, that cannot be; the message is a sentence."""


def word(kind: r.RelaxType) -> str:
    match kind:
        case r.TensorType():
            return "a tensor"
        case r.TupleType():
            return "a tuple"
        case r.ShapeType():
            return "a shape"
        case r.FuncType():
            return "a function"
        case _:
            return "a number"


def differ(a: n.Expr, b: n.Expr) -> bool:
    """Whether two sizes are proven to be different."""
    total = linear(a)
    for atom, factor in linear(b).items():
        total[atom] = total.get(atom, 0) - factor
    constant = total.pop(None, 0)
    return constant != 0 and not any(total.values())


def say(size: n.Expr) -> str:
    """A size in a message."""
    return str(size.value) if isinstance(size, n.IntImm) else str(size)


def int_of(size: n.Expr) -> int | None:
    return size.value if isinstance(size, n.IntImm) else None


def combine(symbol: str, a: n.Expr | int, b: n.Expr | int) -> n.Expr:
    result = binary(symbol, a, b)
    return result if isinstance(result, n.Expr) else const(int(result), INT64)  # type: ignore[call-overload]


def product_of(sizes: Sizes) -> n.Expr:
    total: n.Expr = const(1, INT64)
    for size in sizes:
        total = combine("*", total, size)
    return total


def sum_of(sizes: list[n.Expr]) -> n.Expr:
    total = sizes[0]
    for size in sizes[1:]:
        total = combine("+", total, size)
    return total


def tensor_of(call: r.Call, position: int, type_of: TypeOf) -> r.TensorType:
    """The operand as a tensor; one of unknown shape where that is all that is known."""
    if position >= len(call.args):
        return r.TensorType(None, None)
    match type_of(call.args[position]):
        case r.TensorType() as found:
            return found
        case r.ObjectType():
            return r.TensorType(None, None)
        case r.PrimValueType(dtype):
            return r.TensorType((), dtype)
        case other:
            raise Contradiction(f"R.{call.op} takes a tensor, and this is {word(other)}.")


def members_of(call: r.Call, type_of: TypeOf) -> list[r.TensorType] | None:
    """The members of a tuple of tensors, where they are known."""
    match type_of(call.args[0]):
        case r.TupleType(fields):
            if not all(isinstance(item, r.TensorType) for item in fields):
                raise Contradiction(f"R.{call.op} takes a tuple of tensors.")
            return [item for item in fields if isinstance(item, r.TensorType)]
        case r.TensorType():
            raise Contradiction(f"R.{call.op} takes a tuple of tensors.")
        case _:
            return None


def shape_argument(call: r.Call, position: int, type_of: TypeOf) -> Sizes | None:
    argument = call.args[position] if position < len(call.args) else None
    if isinstance(argument, r.ShapeExpr):
        return argument.values
    if isinstance(argument, r.Tuple):
        values = tuple(item.value for item in argument.fields if isinstance(item, r.PrimValue))
        return values if len(values) == len(argument.fields) else None
    known = None if argument is None else type_of(argument)
    return known.values if isinstance(known, r.ShapeType) else None


def dtype_or(value: n.Attribute, default: DataType | None) -> DataType | None:
    match value:
        case DataType():
            return value
        case str() if value and value != "void":
            return DataType.parse(value)
        case _:
            return default


def axis_of(axis: object, ndim: int, op: object) -> int:
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise Contradiction(f"R.{op} has no axis {axis} in a tensor of {ndim} dimensions.")
    return axis % ndim


def axes_of(axes: object, ndim: int, op: object) -> list[int]:
    items = list(range(ndim)) if axes is None else members(axes)
    items = [axes] if items is None else items
    found = [axis_of(axis, ndim, op) for axis in items]
    if len(set(found)) != len(found):
        raise Contradiction(f"R.{op} names an axis twice.")
    return found


def ints_of(value: object, count: int) -> list[int]:
    """An attribute that is one number for all dimensions, or one for each."""
    items = members(value)
    numbers = [v for v in ([value] if items is None else items) if isinstance(v, int)]
    return numbers * count if len(numbers) == 1 else numbers
