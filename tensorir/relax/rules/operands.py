"""What the rules of inference share: operands as tensors, attributes as numbers, sizes as expressions."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.relax import nodes as r
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import INT64, DataType
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
    "check_operands",
    "combine",
    "count_of",
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


_TENSORS = frozenset(
    (
        *("x", "x1", "x2", "x3", "data", "weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "condition"),
        *("input_tensor", "src", "updates", "predictions", "labels", "targets", "query", "key", "value", "grid"),
        *("scale", "zero_point", "prob", "boundaries", "seq_lengths", "indices", "alpha", "weights"),
    )
)
"""The parameters that take tensors, in every row but these:"""
_OTHERS = frozenset(("first", "index_tensor", "hamming", "void", "arange"))
_MIXED = frozenset(("binary", "compare", "ternary", "where", "take"))
"""The rules of which one operand is a tensor, and the others may be numbers."""


def check_operands(call: r.Call, names: tuple[str, ...], rule: str, type_of: TypeOf) -> None:
    """Raise where a number, a text or a shape stands for a tensor."""
    if rule in _OTHERS:
        return
    given = [a for name, a in zip(names, call.args, strict=False) if name in _TENSORS]
    wrong = [what for a in given if (what := _no_tensor(a, type_of)) is not None]
    if rule in _MIXED and len(wrong) < len(given):
        wrong = [what for what in wrong if what != "a number"]
    if wrong:
        raise Contradiction(f"R.{call.op} takes a tensor, and this is {wrong[0]}.")


def _no_tensor(argument: n.Node, type_of: TypeOf) -> str | None:
    """What an operand is that is surely no tensor."""
    if isinstance(argument, r.StringValue | r.DataTypeValue):
        return "a text"
    kind = type_of(argument)
    return None if isinstance(kind, r.TensorType | r.ObjectType) else word(kind)


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
            try:
                return DataType.parse(value)
            except ValueError as problem:
                raise Contradiction(f"{problem}.") from None
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


def ints_of(call: r.Call, key: str, count: int, least: int | None = None, sides: int = 1) -> list[int]:
    """An attribute that is one number for all dimensions, or one for each (or for each of its two `sides`)."""
    value = call.attrs.get(key)
    items = members(value)
    found = [value] if items is None else items
    numbers = [v for v in found if isinstance(v, int) and not isinstance(v, bool)]
    if len(numbers) != len(found) or len(numbers) not in (1, count, sides * count):
        more = " or ".join(map(str, sorted({count, sides * count} - {1})))
        wanted = f"one number, or {more}," if more else "one number"
        raise Contradiction(f"R.{call.op} takes {wanted} for {key!r}.")
    if least is not None and min(numbers) < least:
        raise Contradiction(f"R.{call.op} takes no {min(numbers)} for {key!r}, but {least} or more.")
    return numbers * count if len(numbers) == 1 else numbers


def count_of(call: r.Call, key: str) -> int:
    """An attribute that counts something."""
    return ints_of(call, key, 1, least=1)[0]
