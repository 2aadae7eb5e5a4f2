"""Shapes and data types of Relax's operators.

A rule returns the type of the result, an `ObjectType` where it cannot know, or raises `Contradiction` with a sentence.
Sizes are expressions; two contradict each other only where their difference is a constant other than zero.

>>> from tensorir.tir.build import const
>>> from tensorir.tir.dtypes import FLOAT32, INT64
>>> from tensorir.tir.relax.nodes import Call, RelaxVar, TensorType
>>> x = RelaxVar("x", TensorType((const(4, INT64), const(1, INT64)), FLOAT32))
>>> y = RelaxVar("y", TensorType((const(3, INT64),), FLOAT32))
>>> infer(Call("add", (x, y)), {})
R.Tensor((4, 3), dtype="float32")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, FLOAT32, INT64, DataType
from tensorir.tir.relax import nodes as r
from tensorir.tir.relax.operators import OPERATORS
from tensorir.tir.script.arithmetic import binary
from tensorir.tir.script.extents import linear
from tensorir.tir.script.values import members

__all__ = ["Contradiction", "agree", "infer", "type_of"]

Types = Mapping[str, r.RelaxType]
Sizes = tuple[n.Expr, ...]


class Contradiction(Exception):
    """Operands, or an annotation, that cannot be; the message is a sentence."""


def infer(call: r.Call, functions: Types) -> r.RelaxType:
    """The type of what the call gives; `functions` holds the types of the module's functions."""
    if isinstance(call.op, r.FunctionRef):
        found = functions.get(call.op.name)
        return found.ret or r.ObjectType() if isinstance(found, r.FuncType) else r.ObjectType()
    if call.types:
        return call.types[0] if len(call.types) == 1 else r.TupleType(call.types)
    if not isinstance(call.op, str):
        known = type_of(call.op, functions)
        return known.ret or r.ObjectType() if isinstance(known, r.FuncType) else r.ObjectType()
    row = OPERATORS.get(call.op)
    if row is None:
        return r.ObjectType()
    return _RULES[row.rule](call, functions)


def type_of(expr: n.Node, functions: Types) -> r.RelaxType:
    """The type of an expression."""
    match expr:
        case r.RelaxVar():
            return expr.type
        case r.Constant():
            return r.TensorType(tuple(const(size, INT64) for size in expr.shape), expr.dtype)
        case r.Tuple(fields):
            return r.TupleType(tuple(type_of(item, functions) for item in fields))
        case r.TupleGetItem(value, index):
            match type_of(value, functions):
                case r.TupleType(fields):
                    if not -len(fields) <= index < len(fields):
                        raise Contradiction(f"a tuple of {len(fields)} has no member {index}.")
                    return fields[index]
                case r.ObjectType():
                    return r.ObjectType()
                case _:
                    raise Contradiction("only a tuple has members.")
        case r.ShapeExpr(values):
            return r.ShapeType(values)
        case r.PrimValue(value):
            return r.PrimValueType(value.dtype)
        case r.FunctionRef(name):
            return functions.get(name, r.ObjectType())
        case r.Call():
            return infer(expr, functions)
        case r.SeqExpr(_, body):
            return type_of(body, functions)
        case r.If(_, a, b):
            return _either(type_of(a, functions), type_of(b, functions))
        case r.Function(_, params, body, ret_type):
            ret = type_of(body, functions) if ret_type is None else ret_type
            return r.FuncType(tuple(param.type for param in params), ret, expr.pure)
        case _:
            return r.ObjectType()


def agree(stated: r.RelaxType, found: r.RelaxType, what: str) -> None:
    """Raise where the two types exclude each other."""
    match stated, found:
        case r.TensorType(), r.TensorType():
            if stated.dtype is not None and found.dtype is not None and stated.dtype != found.dtype:
                raise Contradiction(f"{what} has elements of type {found.dtype}, and {stated.dtype} is stated.")
            if stated.ndim >= 0 and found.ndim >= 0 and stated.ndim != found.ndim:
                raise Contradiction(f"{what} has {found.ndim} dimensions, and {stated.ndim} are stated.")
            for k, (a, b) in enumerate(zip(stated.shape or (), found.shape or (), strict=False)):
                if _differ(a, b):
                    raise Contradiction(f"{what} has size {_say(b)} along dimension {k}, and {_say(a)} is stated.")
        case r.TupleType(a), r.TupleType(b):
            if len(a) != len(b):
                raise Contradiction(f"{what} has {len(b)} members, and {len(a)} are stated.")
            for x, y in zip(a, b, strict=True):
                agree(x, y, what)
        case (r.ObjectType(), _) | (_, r.ObjectType()):
            return
        case _ if type(stated) is not type(found):
            raise Contradiction(f"{what} is {_word(found)}, and {_word(stated)} is stated.")
        case _:
            return


def _word(kind: r.RelaxType) -> str:
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


def _either(a: r.RelaxType, b: r.RelaxType) -> r.RelaxType:
    if a == b:
        return a
    if isinstance(a, r.TensorType) and isinstance(b, r.TensorType):
        dtype = a.dtype if a.dtype == b.dtype else None
        return r.TensorType(None, dtype, a.ndim if a.ndim == b.ndim else -1)
    return r.ObjectType()


# ----------------------------------------------------------------------------------------------------- sizes


def _differ(a: n.Expr, b: n.Expr) -> bool:
    """Whether two sizes are proven to be different."""
    total = linear(a)
    for atom, factor in linear(b).items():
        total[atom] = total.get(atom, 0) - factor
    constant = total.pop(None, 0)
    return constant != 0 and not any(total.values())


def _say(size: n.Expr) -> str:
    """A size in a message."""
    return str(size.value) if isinstance(size, n.IntImm) else str(size)


def _int(size: n.Expr) -> int | None:
    return size.value if isinstance(size, n.IntImm) else None


def _op(symbol: str, a: n.Expr | int, b: n.Expr | int) -> n.Expr:
    result = binary(symbol, a, b)
    return result if isinstance(result, n.Expr) else const(int(result), INT64)  # type: ignore[call-overload]


def _product(sizes: Sizes) -> n.Expr:
    total: n.Expr = const(1, INT64)
    for size in sizes:
        total = _op("*", total, size)
    return total


# ------------------------------------------------------------------------------------------------ operands


def _tensor(call: r.Call, position: int, functions: Types) -> r.TensorType:
    """The operand as a tensor; one of unknown shape where that is all that is known."""
    if position >= len(call.args):
        return r.TensorType(None, None)
    match type_of(call.args[position], functions):
        case r.TensorType() as found:
            return found
        case r.ObjectType():
            return r.TensorType(None, None)
        case r.PrimValueType(dtype):
            return r.TensorType((), dtype)
        case other:
            raise Contradiction(f"R.{call.op} takes a tensor, and this is {_word(other)}.")


def _fields(call: r.Call, functions: Types) -> list[r.TensorType] | None:
    """The members of a tuple of tensors, where they are known."""
    match type_of(call.args[0], functions):
        case r.TupleType(fields):
            if not all(isinstance(item, r.TensorType) for item in fields):
                raise Contradiction(f"R.{call.op} takes a tuple of tensors.")
            return [item for item in fields if isinstance(item, r.TensorType)]
        case r.TensorType():
            raise Contradiction(f"R.{call.op} takes a tuple of tensors.")
        case _:
            return None


def _shape_argument(call: r.Call, position: int, functions: Types) -> Sizes | None:
    argument = call.args[position] if position < len(call.args) else None
    if isinstance(argument, r.ShapeExpr):
        return argument.values
    if isinstance(argument, r.Tuple):
        values = tuple(item.value for item in argument.fields if isinstance(item, r.PrimValue))
        return values if len(values) == len(argument.fields) else None
    known = None if argument is None else type_of(argument, functions)
    return known.values if isinstance(known, r.ShapeType) else None


def _dtype(value: n.Attribute, default: DataType | None) -> DataType | None:
    match value:
        case DataType():
            return value
        case str() if value and value != "void":
            return DataType.parse(value)
        case _:
            return default


def _axis(axis: object, ndim: int, op: object) -> int:
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise Contradiction(f"R.{op} has no axis {axis} in a tensor of {ndim} dimensions.")
    return axis % ndim


def _axes(axes: object, ndim: int, op: object) -> list[int]:
    items = list(range(ndim)) if axes is None else members(axes)
    items = [axes] if items is None else items
    found = [_axis(axis, ndim, op) for axis in items]
    if len(set(found)) != len(found):
        raise Contradiction(f"R.{op} names an axis twice.")
    return found


def _ints(value: object, count: int) -> list[int]:
    """An attribute that is one number for all dimensions, or one for each."""
    items = members(value)
    numbers = [v for v in ([value] if items is None else items) if isinstance(v, int)]
    return numbers * count if len(numbers) == 1 else numbers


def _same(call: r.Call, functions: Types) -> r.RelaxType:
    return _tensor(call, 0, functions)


def _with_dtype(call: r.Call, functions: Types, key: str) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TensorType(x.shape, _dtype(call.attrs.get(key), x.dtype), x.ndim)


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
        elif _int(x) == 1:
            sizes.append(y)
        elif _int(y) == 1 or x == y:
            sizes.append(x)
        elif _differ(x, y):
            raise Contradiction(f"R.{op} cannot broadcast sizes {_say(x)} and {_say(y)}.")
        elif _int(x) is not None or _int(y) is not None:
            sizes.append(x if _int(x) is not None else y)
        elif linear(x) == linear(y):
            sizes.append(x)
        else:
            return None, ndim
    return tuple(reversed(sizes)), ndim


def _binary(call: r.Call, functions: Types) -> r.RelaxType:
    a, b = _tensor(call, 0, functions), _tensor(call, 1, functions)
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.{call.op} takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    return r.TensorType(shape, a.dtype or b.dtype, ndim)


def _compare(call: r.Call, functions: Types) -> r.RelaxType:
    result = _binary(call, functions)
    assert isinstance(result, r.TensorType)
    return r.TensorType(result.shape, BOOL, result.ndim)


def _predicate(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TensorType(x.shape, BOOL, x.ndim)


def _ternary(call: r.Call, functions: Types) -> r.RelaxType:
    a, b, c = (_tensor(call, k, functions) for k in range(3))
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(r.TensorType(shape, a.dtype, ndim), c, call.op)
    return r.TensorType(shape, a.dtype, ndim)


def _where(call: r.Call, functions: Types) -> r.RelaxType:
    c, a, b = (_tensor(call, k, functions) for k in range(3))
    if c.dtype is not None and not c.dtype.is_bool:
        raise Contradiction(f"the condition of R.where is bool, and this is {c.dtype}.")
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.where takes values of one type, and these are {a.dtype} and {b.dtype}.")
    shape, ndim = broadcast(a, b, call.op)
    shape, ndim = broadcast(c, r.TensorType(shape, a.dtype, ndim), call.op)
    return r.TensorType(shape, a.dtype, ndim)


def _matmul(call: r.Call, functions: Types) -> r.RelaxType:
    a, b = _tensor(call, 0, functions), _tensor(call, 1, functions)
    dtype = _dtype(call.attrs.get("out_dtype"), a.dtype)
    if dtype is a.dtype and a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        raise Contradiction(f"R.matmul takes operands of one type, and these are {a.dtype} and {b.dtype}.")
    if a.shape is None or b.shape is None:
        return r.TensorType(None, dtype)
    if not a.shape or not b.shape:
        raise Contradiction("R.matmul takes tensors of at least one dimension.")
    x = a.shape if len(a.shape) > 1 else (const(1, INT64), *a.shape)
    y = b.shape if len(b.shape) > 1 else (*b.shape, const(1, INT64))
    if _differ(x[-1], y[-2]):
        raise Contradiction(f"R.matmul sums over sizes {_say(x[-1])} and {_say(y[-2])}, which differ.")
    batch, _ = broadcast(r.TensorType(x[:-2], None), r.TensorType(y[:-2], None), call.op)
    if batch is None:
        return r.TensorType(None, dtype, max(len(x), len(y)))
    rows = (x[-2],) if len(a.shape) > 1 else ()
    columns = (y[-1],) if len(b.shape) > 1 else ()
    return r.TensorType((*batch, *rows, *columns), dtype)


def _linear(call: r.Call, functions: Types) -> r.RelaxType:
    x, w = _tensor(call, 0, functions), _tensor(call, 1, functions)
    dtype = _dtype(call.attrs.get("out_dtype"), x.dtype)
    if x.shape is None or w.shape is None or len(w.shape) != 2:
        return r.TensorType(None, dtype, x.ndim)
    if _differ(x.shape[-1], w.shape[1]):
        raise Contradiction(f"R.linear sums over sizes {_say(x.shape[-1])} and {_say(w.shape[1])}, which differ.")
    return r.TensorType((*x.shape[:-1], w.shape[0]), dtype)


def _outer(call: r.Call, functions: Types) -> r.RelaxType:
    a, b = _tensor(call, 0, functions), _tensor(call, 1, functions)
    if a.shape is None or b.shape is None:
        return r.TensorType(None, a.dtype, 2)
    return r.TensorType((_product(a.shape), _product(b.shape)), a.dtype)


def _einsum(call: r.Call, functions: Types) -> r.RelaxType:
    fields = _fields(call, functions)
    text = str(call.attrs.get("subscripts", "")).replace(" ", "")
    if fields is None or "->" not in text or "." in text or any(f.shape is None for f in fields):
        return r.TensorType(None, fields[0].dtype if fields else None)
    inputs, _, output = text.partition("->")
    sizes: dict[str, n.Expr] = {}
    for letters, item in zip(inputs.split(","), fields, strict=False):
        if len(letters) != len(item.shape or ()):
            raise Contradiction(f"R.einsum names {len(letters)} dimensions of a tensor of {len(item.shape or ())}.")
        for letter, size in zip(letters, item.shape or (), strict=True):
            known = sizes.setdefault(letter, size)
            if _int(known) == 1:
                sizes[letter] = size
            elif _int(size) != 1 and _differ(known, size):
                raise Contradiction(f"R.einsum gives {letter!r} the sizes {_say(known)} and {_say(size)}.")
    return r.TensorType(tuple(sizes[letter] for letter in output if letter in sizes), fields[0].dtype)


def _reduce(call: r.Call, functions: Types, dtype: DataType | None = None) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    element = dtype or x.dtype
    keep = call.attrs.get("keepdims") is True
    axes = call.attrs.get("axis")
    if x.ndim < 0:
        return r.TensorType(() if axes is None and not keep else None, element)
    dropped = set(_axes(axes, x.ndim, call.op))
    if x.shape is None:
        return r.TensorType(None, element, x.ndim if keep else x.ndim - len(dropped))
    one = const(1, INT64)
    sizes = [one if k in dropped else s for k, s in enumerate(x.shape) if keep or k not in dropped]
    return r.TensorType(tuple(sizes), element)


def _median(call: r.Call, functions: Types) -> r.RelaxType:
    values = _reduce(call, functions)
    if call.attrs.get("axis") is None:
        return values
    return r.TupleType((values, _reduce(call, functions, INT64)))


def _scan(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    dtype = _dtype(call.attrs.get("dtype"), x.dtype)
    if call.attrs.get("axis") is None:
        return r.TensorType(None if x.shape is None else (_product(x.shape),), dtype, 1)
    return r.TensorType(x.shape, dtype, x.ndim)


def _topk(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    k, kind = call.attrs.get("k"), call.attrs.get("ret_type")
    index = _dtype(call.attrs.get("dtype"), None)
    shape = x.shape
    if shape is not None and isinstance(k, int) and k > 0:
        axis = _axis(call.attrs.get("axis"), len(shape), call.op)
        shape = (*shape[:axis], const(k, INT64), *shape[axis + 1 :])
    values, indices = r.TensorType(shape, x.dtype, x.ndim), r.TensorType(shape, index, x.ndim)
    return values if kind == "values" else indices if kind == "indices" else r.TupleType((values, indices))


def _reshape(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    shape = _shape_argument(call, 1, functions)
    if shape is None:
        return r.TensorType(None, x.dtype)
    unknown = [k for k, size in enumerate(shape) if _int(size) == -1]
    if any(_int(size) == 0 for size in shape) or len(unknown) > 1:
        return r.TensorType(None, x.dtype, len(shape))
    if x.shape is not None:
        total, rest = _product(x.shape), _product(tuple(s for k, s in enumerate(shape) if k not in unknown))
        if unknown:
            shape = tuple(_op("//", total, rest) if k in unknown else s for k, s in enumerate(shape))
        elif _differ(total, rest):
            raise Contradiction(f"R.reshape keeps the number of elements, and makes {_say(rest)} of {_say(total)}.")
    return r.TensorType(shape, x.dtype)


def _broadcast_to(call: r.Call, functions: Types) -> r.RelaxType:
    x, shape = _tensor(call, 0, functions), _shape_argument(call, 1, functions)
    if x.shape is not None and shape is not None:
        if len(shape) < len(x.shape):
            raise Contradiction(f"R.broadcast_to cannot drop dimensions: {len(x.shape)} become {len(shape)}.")
        for a, b in zip(reversed(x.shape), reversed(shape), strict=False):
            if _int(a) != 1 and _differ(a, b):
                raise Contradiction(f"R.broadcast_to cannot make size {_say(b)} of {_say(a)}.")
    return r.TensorType(shape, x.dtype)


def _collapse(call: r.Call, functions: Types) -> r.RelaxType:
    return r.TensorType(_shape_argument(call, 1, functions), _tensor(call, 0, functions).dtype)


def _like_second(call: r.Call, functions: Types) -> r.RelaxType:
    x, y = _tensor(call, 0, functions), _tensor(call, 1, functions)
    return r.TensorType(y.shape, x.dtype, y.ndim)


def _permute(call: r.Call, functions: Types) -> r.RelaxType:
    x, axes = _tensor(call, 0, functions), call.attrs.get("axes")
    if x.ndim < 0:
        return x
    order = list(reversed(range(x.ndim))) if axes is None else _axes(axes, x.ndim, call.op)
    if len(order) != x.ndim:
        raise Contradiction(f"R.permute_dims names {len(order)} of {x.ndim} dimensions.")
    return r.TensorType(None if x.shape is None else tuple(x.shape[k] for k in order), x.dtype, x.ndim)


def _expand(call: r.Call, functions: Types) -> r.RelaxType:
    x, axis = _tensor(call, 0, functions), call.attrs.get("axis")
    count = len(axis) if isinstance(axis, tuple) else 1
    if x.ndim < 0:
        return r.TensorType(None, x.dtype)
    new = set(_axes(axis, x.ndim + count, call.op))
    if x.shape is None:
        return r.TensorType(None, x.dtype, x.ndim + count)
    rest = iter(x.shape)
    sizes = tuple(const(1, INT64) if k in new else next(rest) for k in range(x.ndim + count))
    return r.TensorType(sizes, x.dtype)


def _squeeze(call: r.Call, functions: Types) -> r.RelaxType:
    x, axis = _tensor(call, 0, functions), call.attrs.get("axis")
    if x.shape is None:
        return r.TensorType(None, x.dtype)
    if axis is None:
        if any(_int(size) is None for size in x.shape):
            return r.TensorType(None, x.dtype)
        return r.TensorType(tuple(size for size in x.shape if _int(size) != 1), x.dtype)
    dropped = set(_axes(axis, len(x.shape), call.op))
    for k in dropped:
        if _int(x.shape[k]) not in (None, 1):
            raise Contradiction(f"R.squeeze drops dimensions of size 1, and dimension {k} has {_say(x.shape[k])}.")
    return r.TensorType(tuple(s for k, s in enumerate(x.shape) if k not in dropped), x.dtype)


def _flatten(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TensorType(None if x.shape is None else (_product(x.shape),), x.dtype, 1)


def _batch_flatten(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TensorType(None if not x.shape else (x.shape[0], _product(x.shape[1:])), x.dtype, 2)


def _concat(call: r.Call, functions: Types) -> r.RelaxType:
    fields = _fields(call, functions)
    if not fields:
        return r.ObjectType()
    axis = call.attrs.get("axis")
    dtypes = {f.dtype for f in fields if f.dtype is not None}
    if len(dtypes) > 1:
        raise Contradiction(f"R.{call.op} joins tensors of one type, not {', '.join(sorted(map(str, dtypes)))}.")
    shapes = [f.shape for f in fields if f.shape is not None]
    dtype = fields[0].dtype
    if len(shapes) != len(fields):
        return r.TensorType(None, dtype, max(f.ndim for f in fields))
    if axis is None:
        return r.TensorType((_sum([_product(shape) for shape in shapes]),), dtype)
    ndim = len(shapes[0])
    position = _axis(axis, ndim, call.op)
    for shape in shapes[1:]:
        if len(shape) != ndim:
            raise Contradiction(f"R.{call.op} joins tensors of as many dimensions, not {ndim} and {len(shape)}.")
        for k in range(ndim):
            if k != position and _differ(shape[k], shapes[0][k]):
                raise Contradiction(
                    f"R.{call.op} joins sizes {_say(shapes[0][k])} and {_say(shape[k])} along dimension {k}."
                )
    total = _sum([shape[position] for shape in shapes])
    return r.TensorType((*shapes[0][:position], total, *shapes[0][position + 1 :]), dtype)


def _sum(sizes: list[n.Expr]) -> n.Expr:
    total = sizes[0]
    for size in sizes[1:]:
        total = _op("+", total, size)
    return total


def _stack(call: r.Call, functions: Types) -> r.RelaxType:
    fields = _fields(call, functions)
    if not fields or fields[0].shape is None:
        return r.ObjectType() if not fields else r.TensorType(None, fields[0].dtype)
    axis = call.attrs.get("axis") or 0
    shape = fields[0].shape
    position = _axis(axis, len(shape) + 1, call.op)
    return r.TensorType((*shape[:position], const(len(fields), INT64), *shape[position:]), fields[0].dtype)


def _split(call: r.Call, functions: Types) -> r.RelaxType:
    x, parts = _tensor(call, 0, functions), call.attrs.get("indices_or_sections")
    if x.shape is None:
        return r.ObjectType()
    axis = _axis(call.attrs.get("axis"), len(x.shape), call.op)
    size = x.shape[axis]

    def piece(length: n.Expr) -> r.TensorType:
        assert x.shape is not None
        return r.TensorType((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)

    parts = parts.value if isinstance(parts, n.IntImm) else parts
    if isinstance(parts, int):
        length = _op("//", _op("+", size, parts - 1), parts)
        last = _op("-", size, _op("*", length, parts - 1)) if _int(size) is not None else length
        return r.TupleType((*[piece(length)] * (parts - 1), piece(last)))
    marks = [m.value if isinstance(m, n.IntImm) else m for m in parts] if isinstance(parts, tuple) else []
    bounds: list[n.Expr] = [const(0, INT64)]
    for mark in marks:
        if not isinstance(mark, int):
            return r.ObjectType()
        limit = _int(size)
        bounds.append(const(min(mark, limit) if limit is not None else mark, INT64))
    bounds.append(size)
    pairs = pairwise(bounds)
    return r.TupleType(tuple(piece(_op("-", b, a)) for a, b in pairs))


def _tile(call: r.Call, functions: Types) -> r.RelaxType:
    x, repeats = _tensor(call, 0, functions), call.attrs.get("repeats")
    if x.shape is None:
        return r.TensorType(None, x.dtype)
    counts = _ints(repeats, 1)
    ndim = max(len(counts), len(x.shape))
    sizes = (*[const(1, INT64)] * (ndim - len(x.shape)), *x.shape)
    counts = [1] * (ndim - len(counts)) + counts
    return r.TensorType(tuple(_op("*", s, c) for s, c in zip(sizes, counts, strict=True)), x.dtype)


def _repeat(call: r.Call, functions: Types) -> r.RelaxType:
    x, repeats, axis = _tensor(call, 0, functions), call.attrs.get("repeats"), call.attrs.get("axis")
    if x.shape is None or not isinstance(repeats, int):
        return r.TensorType(None, x.dtype, x.ndim)
    if axis is None:
        return r.TensorType((_op("*", _product(x.shape), repeats),), x.dtype)
    position = _axis(axis, len(x.shape), call.op)
    longer = _op("*", x.shape[position], repeats)
    return r.TensorType((*x.shape[:position], longer, *x.shape[position + 1 :]), x.dtype)


def _take(call: r.Call, functions: Types) -> r.RelaxType:
    x, i, axis = _tensor(call, 0, functions), _tensor(call, 1, functions), call.attrs.get("axis")
    if x.shape is None or i.shape is None:
        return r.TensorType(None, x.dtype)
    if axis is None:
        if len(x.shape) != 1:
            raise Contradiction("R.take needs an axis, unless the tensor has one dimension.")
        axis = 0
    position = _axis(axis, len(x.shape), call.op)
    return r.TensorType((*x.shape[:position], *i.shape, *x.shape[position + 1 :]), x.dtype)


def _gather_nd(call: r.Call, functions: Types) -> r.RelaxType:
    x, i = _tensor(call, 0, functions), _tensor(call, 1, functions)
    batch = call.attrs.get("batch_dims")
    if x.shape is None or not i.shape or not isinstance(batch, int) or (depth := _int(i.shape[-1])) is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((*i.shape[:-1], *x.shape[batch + depth :]), x.dtype)


def _index_tensor(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    known = type_of(call.args[1], functions) if len(call.args) > 1 else None
    if x.shape is None or not isinstance(known, r.TupleType):
        return r.TensorType(None, x.dtype)
    total = r.TensorType((), None)
    for item in known.fields:
        if not isinstance(item, r.TensorType):
            return r.TensorType(None, x.dtype)
        shape, ndim = broadcast(total, item, call.op)
        total = r.TensorType(shape, None, ndim)
    if total.shape is None:
        return r.TensorType(None, x.dtype)
    return r.TensorType((*total.shape, *x.shape[len(known.fields) :]), x.dtype)


def _strided_slice(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    parts = [_shape_argument(call, k, functions) for k in range(1, len(call.args))]
    if x.shape is None or len(parts) < 3 or any(part is None for part in parts[:3]):
        return r.TensorType(None, x.dtype, x.ndim)
    axes, begin, end = (part or () for part in parts[:3])
    strides = parts[3] if len(parts) > 3 and parts[3] is not None else tuple(const(1, INT64) for _ in axes)
    sizes = list(x.shape)
    for axis, first, last, step in zip(axes, begin, end, strides, strict=False):
        position = _int(axis)
        if position is None:
            return r.TensorType(None, x.dtype, x.ndim)
        position = _axis(position, len(sizes), call.op)
        numbers = (_int(sizes[position]), _int(first), _int(last), _int(step))
        if any(number is None for number in numbers) or numbers[3] == 0:
            return r.TensorType(None, x.dtype, x.ndim)
        size, start, stop, by = (number or 0 for number in numbers)
        sizes[position] = const(len(range(*slice(start, stop, by).indices(size))), INT64)
    return r.TensorType(tuple(sizes), x.dtype)


def _one_hot(call: r.Call, functions: Types) -> r.RelaxType:
    x, depth = _tensor(call, 0, functions), call.attrs.get("depth")
    value = type_of(call.args[1], functions) if len(call.args) > 1 else None
    dtype = value.dtype if isinstance(value, r.PrimValueType) else None
    if x.shape is None or not isinstance(depth, int):
        return r.TensorType(None, dtype)
    position = _axis(call.attrs.get("axis"), len(x.shape) + 1, call.op)
    return r.TensorType((*x.shape[:position], const(depth, INT64), *x.shape[position:]), dtype)


def _meshgrid(call: r.Call, functions: Types) -> r.RelaxType:
    fields = _fields(call, functions)
    if fields is None or any(f.shape is None for f in fields):
        return r.ObjectType()
    shape = tuple(_product(f.shape or ()) for f in fields)
    if call.attrs.get("indexing") == "xy" and len(shape) > 1:
        shape = (shape[1], shape[0], *shape[2:])
    return r.TupleType(tuple(r.TensorType(shape, f.dtype) for f in fields))


def _full(call: r.Call, functions: Types) -> r.RelaxType:
    value = _tensor(call, 1, functions)
    return r.TensorType(_shape_argument(call, 0, functions), _dtype(call.attrs.get("dtype"), value.dtype))


def _filled(call: r.Call, functions: Types) -> r.RelaxType:
    return r.TensorType(_shape_argument(call, 0, functions), _dtype(call.attrs.get("dtype"), None))


def _arange(call: r.Call, functions: Types) -> r.RelaxType:
    dtype = _dtype(call.attrs.get("dtype"), INT64)
    values = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    numbers = [v.value for v in values if isinstance(v, n.IntImm)]
    if len(numbers) != len(call.args) or not numbers:
        return r.TensorType(None, dtype, 1)
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) > 2 else 1
    return r.TensorType((const(len(range(start, stop, step or 1)), INT64),), dtype)


def _eye(call: r.Call, functions: Types) -> r.RelaxType:
    sizes = [arg.value for arg in call.args if isinstance(arg, r.PrimValue)]
    dtype = _dtype(call.attrs.get("dtype"), FLOAT32)
    if not sizes:
        return r.TensorType(None, dtype, 2)
    columns = sizes[1] if len(sizes) > 1 else sizes[0]
    return r.TensorType((_op("+", sizes[0], 0), _op("+", columns, 0)), dtype)


def _bucketize(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TensorType(x.shape, DataType("int", 32) if call.attrs.get("out_int32") is True else INT64, x.ndim)


def _shape_of(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.ShapeType(x.shape, x.ndim)


def _layout_sizes(x: r.TensorType, layout: object) -> tuple[dict[str, n.Expr], str] | None:
    """The sizes of a tensor by the letters of its layout; None for layouts that pack dimensions."""
    text = str(layout)
    if x.shape is None or not text.isalpha() or not text.isupper() or len(text) != len(x.shape):
        return None
    return dict(zip(text, x.shape, strict=True)), text


def _padding(value: object, count: int) -> list[tuple[int, int]]:
    """Padding before and behind each dimension: one number, one per dimension, or all of the first kind first."""
    numbers = _ints(value, count)
    if len(numbers) == 2 * count:
        return list(zip(numbers[:count], numbers[count:], strict=True))
    return [(p, p) for p in numbers]


def _window(size: n.Expr, window: n.Expr | int, stride: int, pad: tuple[int, int], dilation: int, up: bool) -> n.Expr:
    """How many windows fit."""
    reach = _op("+", _op("*", _op("-", window, 1), dilation), 1)
    room = _op("-", _op("+", size, sum(pad)), reach)
    if up:
        room = _op("+", room, stride - 1)
    return _op("+", _op("//", room, stride), 1)


def _conv(call: r.Call, functions: Types) -> r.RelaxType:
    x, w = _tensor(call, 0, functions), _tensor(call, 1, functions)
    dtype = _dtype(call.attrs.get("out_dtype"), x.dtype)
    data = _layout_sizes(x, call.attrs.get("data_layout"))
    kernel = _layout_sizes(w, call.attrs.get("kernel_layout"))
    if data is None or kernel is None:
        return r.TensorType(None, dtype, x.ndim)
    (sizes, letters), (weights, _) = data, kernel
    space = [letter for letter in letters if letter not in "NC"]
    groups = call.attrs.get("groups")
    assert isinstance(groups, int)
    if _differ(sizes["C"], _op("*", weights["I"], groups)):
        expected = _op("*", weights["I"], groups)
        raise Contradiction(
            f"R.{call.op} has {_say(sizes['C'])} channels of data, and its weights take {_say(expected)}."
        )
    strides, dilation = (_ints(call.attrs.get(key), len(space)) for key in ("strides", "dilation"))
    pads = _padding(call.attrs.get("padding"), len(space))
    out = {"N": sizes["N"], "C": weights["O"]}
    for letter, stride, pad, by in zip(space, strides, pads, dilation, strict=True):
        out[letter] = _window(sizes[letter], weights[letter], stride, pad, by, False)
    order = str(call.attrs.get("out_layout") or letters)
    return r.TensorType(tuple(out[letter] for letter in order), dtype)


def _conv_transpose(call: r.Call, functions: Types) -> r.RelaxType:
    x, w = _tensor(call, 0, functions), _tensor(call, 1, functions)
    dtype = _dtype(call.attrs.get("out_dtype"), x.dtype)
    data = _layout_sizes(x, call.attrs.get("data_layout"))
    kernel = _layout_sizes(w, call.attrs.get("kernel_layout"))
    if data is None or kernel is None:
        return r.TensorType(None, dtype, x.ndim)
    (sizes, letters), (weights, _) = data, kernel
    space = [letter for letter in letters if letter not in "NC"]
    keys = ("strides", "dilation", "output_padding")
    strides, dilation, extra = (_ints(call.attrs.get(key), len(space)) for key in keys)
    pads = _padding(call.attrs.get("padding"), len(space))
    groups = call.attrs.get("groups")
    assert isinstance(groups, int)
    out = {"N": sizes["N"], "C": _op("*", weights["O"], groups)}
    for letter, stride, pad, by, more in zip(space, strides, pads, dilation, extra, strict=True):
        reach = _op("*", _op("-", weights[letter], 1), by)
        total = _op("+", _op("*", _op("-", sizes[letter], 1), stride), reach)
        out[letter] = _op("+", _op("-", total, sum(pad)), more + 1)
    return r.TensorType(tuple(out[letter] for letter in str(call.attrs.get("out_layout") or letters)), dtype)


def _pool(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    data = _layout_sizes(x, call.attrs.get("layout"))
    if data is None:
        return r.TensorType(None, x.dtype, x.ndim)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    keys = ("pool_size", "strides", "dilation")
    window, strides, dilation = (_ints(call.attrs.get(key), len(space)) for key in keys)
    pads = _padding(call.attrs.get("padding"), len(space))
    up = call.attrs.get("ceil_mode") is True
    out = dict(sizes)
    for letter, size, stride, pad, by in zip(space, window, strides, pads, dilation, strict=True):
        out[letter] = _window(sizes[letter], const(size, INT64), stride, pad, by, up)
    return r.TensorType(tuple(out[letter] for letter in str(call.attrs.get("out_layout") or letters)), x.dtype)


def _adaptive(call: r.Call, functions: Types) -> r.RelaxType:
    x, size = _tensor(call, 0, functions), call.attrs.get("output_size")
    data = _layout_sizes(x, call.attrs.get("layout"))
    if data is None or size is None:
        return x
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    out = {**sizes, **{k: const(s, INT64) for k, s in zip(space, _ints(size, len(space)), strict=True)}}
    return r.TensorType(tuple(out[letter] for letter in str(call.attrs.get("out_layout") or letters)), x.dtype)


def _batch_norm(call: r.Call, functions: Types) -> r.RelaxType:
    return r.TupleType((_tensor(call, 0, functions), _tensor(call, 3, functions), _tensor(call, 4, functions)))


def _dropout(call: r.Call, functions: Types) -> r.RelaxType:
    x = _tensor(call, 0, functions)
    return r.TupleType((x, x))


def _nll(call: r.Call, functions: Types) -> r.RelaxType:
    x, y = _tensor(call, 0, functions), _tensor(call, 1, functions)
    return (
        r.TensorType(y.shape, x.dtype, y.ndim) if call.attrs.get("reduction") == "none" else r.TensorType((), x.dtype)
    )


def _attention(call: r.Call, functions: Types) -> r.RelaxType:
    q, k, v = (_tensor(call, i, functions) for i in range(3))
    if q.shape is None or k.shape is None or v.shape is None:
        return r.TensorType(None, q.dtype, q.ndim)
    if len(q.shape) != 4 or len(k.shape) != 4 or len(v.shape) != 4:
        raise Contradiction(f"R.{call.op} takes tensors of four dimensions.")
    if _differ(q.shape[3], k.shape[3]):
        raise Contradiction(
            f"R.{call.op} compares queries of size {_say(q.shape[3])} with keys of size {_say(k.shape[3])}."
        )
    return r.TensorType((*q.shape[:3], v.shape[3]), q.dtype)


def _pad(call: r.Call, functions: Types) -> r.RelaxType:
    x, width = _tensor(call, 0, functions), call.attrs.get("pad_width")
    flat = (
        [w for part in width for w in (part if isinstance(part, tuple) else (part,))]
        if isinstance(width, tuple)
        else []
    )
    if x.shape is None or len(flat) != 2 * len(x.shape):
        return r.TensorType(None, x.dtype, x.ndim)
    sums = [a + b for a, b in zip(flat[::2], flat[1::2], strict=True) if isinstance(a, int) and isinstance(b, int)]
    return r.TensorType(tuple(_op("+", s, w) for s, w in zip(x.shape, sums, strict=True)), x.dtype)


def _pixel_shuffle(call: r.Call, functions: Types) -> r.RelaxType:
    x, by = _tensor(call, 0, functions), call.attrs.get("upscale_factor")
    if x.shape is None or len(x.shape) < 3 or not isinstance(by, int):
        return r.TensorType(None, x.dtype, x.ndim)
    *batch, channels, height, width = x.shape
    sizes = (*batch, _op("//", channels, by * by), _op("*", height, by), _op("*", width, by))
    return r.TensorType(sizes, x.dtype)


def _resize(call: r.Call, functions: Types) -> r.RelaxType:
    x, size = _tensor(call, 0, functions), _shape_argument(call, 1, functions)
    dtype = _dtype(call.attrs.get("out_dtype"), x.dtype)
    data = _layout_sizes(x, call.attrs.get("layout"))
    if data is None or size is None:
        return r.TensorType(None, dtype, x.ndim)
    sizes, letters = data
    space = [letter for letter in letters if letter not in "NC"]
    if len(size) == 1:
        size = size * len(space)
    if len(size) != len(space):
        raise Contradiction(f"R.{call.op} takes {len(space)} sizes, and this gives {len(size)}.")
    out = {**sizes, **dict(zip(space, size, strict=True))}
    return r.TensorType(tuple(out[letter] for letter in letters), dtype)


def _grid_sample(call: r.Call, functions: Types) -> r.RelaxType:
    x, grid = _tensor(call, 0, functions), _tensor(call, 1, functions)
    if x.shape is None or grid.shape is None or len(x.shape) != len(grid.shape):
        return r.TensorType(None, x.dtype, x.ndim)
    return r.TensorType((*x.shape[:2], *grid.shape[2:]), x.dtype)


def _unknown(call: r.Call, functions: Types) -> r.RelaxType:
    return r.ObjectType()


def _void(call: r.Call, functions: Types) -> r.RelaxType:
    return r.TupleType(())


_RULES: dict[str, Callable[[r.Call, Types], r.RelaxType]] = {
    "unary": _same,
    "first": _same,
    "predicate": _predicate,
    "binary": _binary,
    "compare": _compare,
    "ternary": _ternary,
    "where": _where,
    "astype": lambda call, functions: _with_dtype(call, functions, "dtype"),
    "wrap": lambda call, functions: _with_dtype(call, functions, "dtype"),
    "like": lambda call, functions: _with_dtype(call, functions, "dtype"),
    "eye_like": lambda call, functions: _with_dtype(call, functions, "dtype"),
    "argsort": lambda call, functions: _with_dtype(call, functions, "dtype"),
    "quantize": lambda call, functions: _with_dtype(call, functions, "out_dtype"),
    "matmul": _matmul,
    "linear": _linear,
    "outer": _outer,
    "einsum": _einsum,
    "reduce": _reduce,
    "median": _median,
    "argreduce": lambda call, functions: _reduce(call, functions, INT64),
    "scan": _scan,
    "topk": _topk,
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "collapse_to": _collapse,
    "like_second": _like_second,
    "second": _like_second,
    "permute_dims": _permute,
    "expand_dims": _expand,
    "squeeze": _squeeze,
    "flatten": _flatten,
    "batch_flatten": _batch_flatten,
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "tile": _tile,
    "repeat": _repeat,
    "take": _take,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "strided_slice": _strided_slice,
    "dynamic_slice": lambda call, functions: r.TensorType(
        None, _tensor(call, 0, functions).dtype, _tensor(call, 0, functions).ndim
    ),
    "one_hot": _one_hot,
    "meshgrid": _meshgrid,
    "layout": lambda call, functions: r.TensorType(None, _tensor(call, 0, functions).dtype),
    "full": _full,
    "filled": _filled,
    "arange": _arange,
    "eye": _eye,
    "hamming": lambda call, functions: r.TensorType(None, _dtype(call.attrs.get("dtype"), FLOAT32), 1),
    "bucketize": _bucketize,
    "unknown": _unknown,
    "object": _unknown,
    "view": _unknown,
    "shape_of": _shape_of,
    "shape_to_tensor": lambda call, functions: r.TensorType(None, INT64, 1),
    "tensor_to_shape": lambda call, functions: r.ShapeType(None),
    "size": lambda call, functions: r.TensorType((), INT64),
    "void": _void,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "pool": _pool,
    "adaptive": _adaptive,
    "batch_norm": _batch_norm,
    "dropout": _dropout,
    "cross_entropy": lambda call, functions: r.TensorType((), _tensor(call, 0, functions).dtype),
    "nll": _nll,
    "attention": _attention,
    "pad": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "resize": _resize,
    "grid_sample": _grid_sample,
    "affine_grid": lambda call, functions: r.TensorType(None, _tensor(call, 0, functions).dtype, 4),
}
