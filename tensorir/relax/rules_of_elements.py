"""Types of operators that work element by element, make tensors, reduce, sort, or sum products."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorir.relax import nodes as r
from tensorir.relax.operators import named
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, FLOAT32, INT64, DataType
from tensorir.tir.ranges import linear
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.values import members

# What the rules of inference share: operands as tensors, attributes as numbers, sizes as expressions.

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
    """True if two sizes are proven to be different."""
    return set(linear((a, 1), (b, -1))) == {None}


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
    """The kind of an operand that is surely no tensor."""
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


# Types of the operators that work element by element.


def same(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return tensor_of(call, 0, type_of)


def _with_dtype(call: r.Call, type_of: TypeOf, key: str) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, dtype_or(call.attrs.get(key), x.dtype), x.ndim)


def broadcast(a: r.TensorType, b: r.TensorType, op: object) -> tuple[Sizes | None, int]:
    """The shape of two operands together, and how many dimensions it has."""
    ndim = max(a.ndim, b.ndim) if a.ndim >= 0 and b.ndim >= 0 else -1
    if a.shape is None or b.shape is None:
        return None, ndim
    sizes: list[n.Expr] = []
    for k in range(1, max(len(a.shape), len(b.shape)) + 1):
        x = a.shape[-k] if k <= len(a.shape) else None
        y = b.shape[-k] if k <= len(b.shape) else None
        if x is None or y is None:
            sizes.append(x if y is None else y)  # type: ignore[arg-type]
        elif int_of(x) == 1:
            sizes.append(y)
        elif int_of(y) == 1 or x == y:
            sizes.append(x)
        elif differ(x, y):
            raise Contradiction(f"R.{op} cannot broadcast sizes {say(x)} and {say(y)}.")
        elif int_of(x) is not None or int_of(y) is not None:
            sizes.append(x if int_of(x) is not None else y)
        elif not linear((x, 1), (y, -1)):
            sizes.append(x)
        else:
            return None, ndim
    return tuple(reversed(sizes)), ndim


def _binary(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.{call.op} takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    return r.TensorType(shape, a.dtype or b.dtype, ndim)


def _compare(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    result = _binary(call, type_of)
    assert isinstance(result, r.TensorType)
    return r.TensorType(result.shape, BOOL, result.ndim)


def _predicate(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, BOOL, x.ndim)


def _ternary(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b, c = (tensor_of(call, k, type_of) for k in range(3))
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(r.TensorType(shape, a.dtype, ndim), c, call.op)
    return r.TensorType(shape, a.dtype, ndim)


def _where(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    c, a, b = (tensor_of(call, k, type_of) for k in range(3))
    if c.dtype is not None and not c.dtype.is_bool:
        raise Contradiction(f"the condition of R.where is bool, and this is {c.dtype}.")
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.where takes values of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(c, r.TensorType(shape, a.dtype, ndim), call.op)
    return r.TensorType(shape, a.dtype, ndim)


ELEMENTWISE: dict[str, Rule] = {
    "unary": same,
    "first": same,
    "predicate": _predicate,
    "binary": _binary,
    "compare": _compare,
    "ternary": _ternary,
    "where": _where,
    "astype": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "wrap": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "like": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "eye_like": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "argsort": lambda call, type_of: _with_dtype(call, type_of, "dtype"),
    "quantize": lambda call, type_of: _with_dtype(call, type_of, "out_dtype"),
}
"""The rules, by the word of the table of operators."""

# Types of the operators that make tensors.


def _full(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    value = tensor_of(call, 1, type_of)
    return r.TensorType(shape_argument(call, 0, type_of), dtype_or(call.attrs.get("dtype"), value.dtype))


def _filled(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    return r.TensorType(shape_argument(call, 0, type_of), dtype_or(call.attrs.get("dtype"), None))


def _arange(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    values = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32 if any(v.dtype.is_float for v in values) else INT64)
    numbers = [v.value for v in values if isinstance(v, n.IntImm | n.FloatImm)]
    if len(numbers) != len(call.args) or not numbers:
        return r.TensorType(None, dtype, 1)
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) > 2 else 1
    return r.TensorType((const(max(0, math.ceil((stop - start) / (step or 1))), INT64),), dtype)


def _eye(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    sizes = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32)
    if not sizes:
        return r.TensorType(None, dtype, 2)
    columns = sizes[1] if len(sizes) > 1 else sizes[0]
    return r.TensorType((combine("+", sizes[0], 0), combine("+", columns, 0)), dtype)


def _one_hot(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, depth = tensor_of(call, 0, type_of), call.attrs.get("depth")
    value = type_of(call.args[1]) if len(call.args) > 1 else None
    dtype = value.dtype if isinstance(value, r.PrimValueType) else None
    if x.shape is None or not isinstance(depth, int):
        return r.TensorType(None, dtype)
    position = axis_of(call.attrs.get("axis"), len(x.shape) + 1, call.op)
    return r.TensorType((*x.shape[:position], const(depth, INT64), *x.shape[position:]), dtype)


def _meshgrid(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    if fields is None or any(f.shape is None for f in fields):
        return r.ObjectType()
    shape = tuple(product_of(f.shape or ()) for f in fields)
    # For "xy" TVM states the sizes of "ij", and computes the others.
    if call.attrs.get("indexing") == "xy" and len(shape) > 1:
        return r.TupleType(tuple(r.TensorType(None, f.dtype, len(shape)) for f in fields))
    return r.TupleType(tuple(r.TensorType(shape, f.dtype) for f in fields))


def _hamming(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    dtype = dtype_or(call.attrs.get("dtype"), FLOAT32)
    size = call.args[0].value if call.args and isinstance(call.args[0], r.PrimValue) else None
    return r.TensorType(None, dtype, 1) if size is None else r.TensorType((combine("+", size, 0),), dtype)


MAKERS: dict[str, Rule] = {
    "full": _full,
    "filled": _filled,
    "arange": _arange,
    "eye": _eye,
    "hamming": _hamming,
    "one_hot": _one_hot,
    "meshgrid": _meshgrid,
}
"""The rules, by the word of the table of operators."""

# Types of the operators that reduce, sort or scan along axes.


def _reduce(call: r.Call, type_of: TypeOf, dtype: DataType | None = None) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    element = dtype or x.dtype
    keep = call.attrs.get("keepdims") is True
    axes = call.attrs.get("axis")
    if x.ndim < 0:
        return r.TensorType(() if axes is None and not keep else None, element)
    dropped = set(axes_of(axes, x.ndim, call.op))
    if x.shape is None:
        return r.TensorType(None, element, x.ndim if keep else x.ndim - len(dropped))
    one = const(1, INT64)
    sizes = [one if k in dropped else s for k, s in enumerate(x.shape) if keep or k not in dropped]
    return r.TensorType(tuple(sizes), element)


def _median(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    values = _reduce(call, type_of)
    axis = call.attrs.get("axis")
    if axis is None or (isinstance(axis, tuple) and len(axis) != 1):
        return values
    return r.TupleType((values, _reduce(call, type_of, INT64)))


def _scan(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    dtype = dtype_or(call.attrs.get("dtype"), x.dtype)
    if call.attrs.get("axis") is None:
        return r.TensorType(None if x.shape is None else (product_of(x.shape),), dtype, 1)
    return r.TensorType(x.shape, dtype, x.ndim)


def _topk(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    k, kind = call.attrs.get("k"), call.attrs.get("ret_type")
    index = dtype_or(call.attrs.get("dtype"), None)
    shape = x.shape
    if shape is not None and isinstance(k, int) and k > 0:
        axis = axis_of(call.attrs.get("axis"), len(shape), call.op)
        shape = (*shape[:axis], const(k, INT64), *shape[axis + 1 :])
    values, indices = r.TensorType(shape, x.dtype, x.ndim), r.TensorType(shape, index, x.ndim)
    return values if kind == "values" else indices if kind == "indices" else r.TupleType((values, indices))


def _bucketize(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    return r.TensorType(x.shape, DataType("int", 32) if call.attrs.get("out_int32") is True else INT64, x.ndim)


def _unique(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x = tensor_of(call, 0, type_of)
    along = len(call.args) > 5
    values = r.TensorType(None, x.dtype, x.ndim if along else 1)
    flags = [arg.value for arg in call.args[2:5] if isinstance(arg, r.PrimValue)]
    if len(flags) != len(call.args[2:5]) or not all(isinstance(flag, n.IntImm) for flag in flags):
        return r.ObjectType()
    wanted = sum(bool(flag.value) for flag in flags if isinstance(flag, n.IntImm))
    return r.TupleType((values, *[r.TensorType(None, INT64, 1)] * wanted)) if wanted else values


def _multinomial(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    samples = tensor_of(call, 2, type_of)
    return r.TensorType(samples.shape, dtype_or(call.attrs.get("dtype"), INT64), samples.ndim)


REDUCTIONS: dict[str, Rule] = {
    "reduce": _reduce,
    "median": _median,
    "argreduce": lambda call, type_of: _reduce(call, type_of, INT64),
    "scan": _scan,
    "topk": _topk,
    "bucketize": _bucketize,
    "unique": _unique,
    "nonzero": lambda call, type_of: r.TensorType(None, INT64, 2),
    "multinomial": _multinomial,
}
"""The rules, by the word of the table of operators."""

# Types of products: matrices, outer products, sums over indices.


def _matmul(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), a.dtype)
    if dtype is a.dtype and a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.matmul takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    if a.shape is None or b.shape is None:
        return r.TensorType(None, dtype)
    if not a.shape or not b.shape:
        raise Contradiction("R.matmul takes tensors of at least one dimension.")
    # the rows of a vector are summed over, and it has no others
    summed, columns = b.shape[-2:][0], b.shape[1:][-1:]
    if differ(a.shape[-1], summed):
        raise Contradiction(f"R.matmul sums over sizes {say(a.shape[-1])} and {say(summed)}, which differ.")
    batch, _ = broadcast(r.TensorType(a.shape[:-2], None), r.TensorType(b.shape[:-2], None), call.op)
    if batch is None:
        return r.TensorType(None, dtype, max(len(a.shape), len(b.shape)))
    return r.TensorType((*batch, *a.shape[-2:-1], *columns), dtype)


def _linear(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    x, w = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    dtype = dtype_or(call.attrs.get("out_dtype"), x.dtype)
    if x.shape is None or w.shape is None or len(w.shape) != 2:
        return r.TensorType(None, dtype, x.ndim)
    if differ(x.shape[-1], w.shape[1]):
        raise Contradiction(f"R.linear sums over sizes {say(x.shape[-1])} and {say(w.shape[1])}, which differ.")
    return r.TensorType((*x.shape[:-1], w.shape[0]), dtype)


def _outer(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    a, b = tensor_of(call, 0, type_of), tensor_of(call, 1, type_of)
    if a.shape is None or b.shape is None:
        return r.TensorType(None, a.dtype, 2)
    return r.TensorType((product_of(a.shape), product_of(b.shape)), a.dtype)


def _einsum(call: r.Call, type_of: TypeOf) -> r.RelaxType:
    fields = members_of(call, type_of)
    shapes = [f.shape for f in fields or () if f.shape is not None]
    if fields is None or len(shapes) < len(fields):
        return r.TensorType(None, fields[0].dtype if fields else None)
    try:
        inputs, output = named(str(call.attrs.get("subscripts", "")), [len(shape) for shape in shapes])
    except ValueError as wrong:
        raise Contradiction(f"R.einsum cannot be applied: {wrong}.") from None
    sizes: dict[str, n.Expr] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if int_of(known) == 1:
                sizes[letter] = size
            elif int_of(size) != 1 and differ(known, size):
                raise Contradiction(f"R.einsum gives {letter!r} the sizes {say(known)} and {say(size)}.")
    return r.TensorType(tuple(sizes[letter] for letter in output), fields[0].dtype)


PRODUCTS: dict[str, Rule] = {
    "matmul": _matmul,
    "linear": _linear,
    "outer": _outer,
    "einsum": _einsum,
}
"""The rules, by the word of the table of operators."""
