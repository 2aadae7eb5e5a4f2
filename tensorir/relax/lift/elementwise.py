"""Operators that work element by element, those that make tensors, and axes."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from tensorir.integers.dims import Interval
from tensorir.ir.build import literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, FLOAT32, INT32, INT64, Scalar, scalar_of
from tensorir.lifting.emission.tensors import folded, spread
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.interpret.elements import ELEMENTWISE as ARRAYS
from tensorir.relax.lift.values import Shape, Value, constant, dims_of, each, filled, made, under
from tensorir.relax.lift.values import number as number_value
from tensorir.tir.dtypes import DataType
from tensorir.tir.lift.expressions import tensor_element_of as element_of
from tensorir.tir.lift.intrinsics import INTRINSICS, binary, cast, choice, comparison, number, op, truth

# Operators that work element by element, and those that make tensors.
#
# Their terms are those of TIR's own arithmetic, so integers wrap and divide as they do there; narrow floats compute
# in float32 where TVM does.

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.


Meaning = Callable[..., Any]


def element(dtype: Any, otherwise: Scalar) -> Scalar:
    """The element that an attribute names; another where it names none."""
    if dtype in (None, "", "void") or str(dtype) == "void":
        return otherwise
    return element_of(dtype if isinstance(dtype, DataType) else DataType.parse(str(dtype)))


def as_value(x: Any, wanted: Scalar | None = None) -> Value:
    """A value; a number becomes a tensor without dims."""
    if isinstance(x, Value):
        return x
    array: Any = np.asarray(x)
    found = scalar_of(array.dtype)
    if found is None:
        raise ValueError(f"{x!r} where a tensor is needed")
    return number_value(array.item(), found if wanted is None else wanted)


def known(x: Any) -> Any:
    """A number that is known when the program is built."""
    if isinstance(x, Value):
        from tensorir.lifting.emission.tensors import constant_of

        found = constant_of(x.expr)
        if found is None:
            raise NotImplementedError("a number that only the data tell stands where one must be known")
        return found.value
    return np.asarray(x).item()


def whole(x: Any) -> int:
    """A whole number that is known when the program is built."""
    return int(known(x))


def widened(x: Value) -> Value:
    """Narrow floats as float32."""
    return converted(x, FLOAT32) if x.element.is_float and x.element.bits < 32 else x


def converted(x: Value, target: Scalar) -> Value:
    """The value in another element type, converted as C converts."""
    return x if x.element == target else each(lambda t: cast(t, target), x)


def common(a: Value, b: Value) -> Scalar:
    """The element in which two are compared: a float before an integer, the wider of two."""
    return max(a.element, b.element, key=lambda e: (e.is_float, e.bits))


def _intrinsic(name: str) -> Meaning:
    def apply(x: Any, *rest: Any) -> Value:
        first = as_value(x)
        others = [as_value(r, first.element) for r in rest]
        result = BOOL if name.startswith("is") else first.element
        return each(lambda *t: INTRINSICS[name](result, t), first, *others)

    return apply


def _floating(name: str) -> Meaning:
    """Rounding leaves integers as they are."""
    inner = _intrinsic(name)
    return lambda x: inner(x) if as_value(x).element.is_float else as_value(x)


def _binary(name: str) -> Meaning:
    return _pair(lambda a, b: binary(name, a, b))


def _pair(make: Callable[[Term, Term], Term]) -> Meaning:
    def apply(x: Any, y: Any) -> Value:
        first = as_value(x, y.element if isinstance(y, Value) and not isinstance(x, Value) else None)
        return each(make, first, as_value(y, first.element))

    return apply


def _wide(make: Callable[..., Term]) -> Meaning:
    """A formula of terms that narrow floats compute in float32."""

    def apply(x: Value, *rest: Any, **attributes: Any) -> Value:
        def term(*terms: Term) -> Term:
            wide = [cast(t, FLOAT32) if t.element.is_float and t.element.bits < 32 else t for t in terms]
            return cast(make(*wide, **attributes), x.element)

        return each(term, x, *(as_value(r, x.element) for r in rest))

    return apply


def _n(value: float, like: Term) -> Number:
    return number(value, like.element)


def _silu(x: Term) -> Term:
    return op("divides", x, op("plus", _n(1, x), op("exp", op("neg", x))))


def _gelu(x: Term) -> Term:
    half = op("multiplies", x, _n(0.5, x))
    return op("multiplies", half, op("plus", _n(1, x), op("erf", op("multiplies", x, _n(sqrt(0.5), x)))))


def _gelu_tanh(x: Term) -> Term:
    cube = op("multiplies", op("multiplies", x, x), x)
    inner = op("multiplies", _n(sqrt(2 / pi), x), op("plus", x, op("multiplies", _n(0.044715, x), cube)))
    return op("multiplies", op("multiplies", _n(0.5, x), x), op("plus", _n(1, x), op("tanh", inner)))


def _positive(x: Term, other: Term) -> Term:
    return choice(truth("greater", x, _n(0, x)), x, other)


def _selu(x: Term) -> Term:
    return op(
        "multiplies",
        _n(1.0507009873554805, x),
        _positive(x, op("multiplies", _n(1.6732632423543772, x), op("expm1", x))),
    )


def _softplus(x: Term, beta: float, threshold: float) -> Term:
    scaled = op("multiplies", x, _n(beta, x))
    small = op("min", scaled, _n(threshold, x))
    soft = op("divides", op("log1p", op("exp", small)), _n(beta, x))
    return choice(truth("greater", scaled, _n(threshold, x)), x, soft)


def _log_add_exp(x: Term, y: Term) -> Term:
    large, small = op("max", x, y), op("min", x, y)
    found = op("plus", large, op("log1p", op("exp", op("minus", small, large))))
    return choice(truth("eq", x, y), op("plus", x, op("log", _n(2, x))), found)


def _prelu(x: Value, alpha: Value, axis: int) -> Value:
    along = x.axis(axis)

    def term(ix: Any, read: Any, slope: Any) -> Term:
        a = slope(ix[along]) if alpha.size > 1 else slope(Number(0, INT32))
        return _positive(read(*ix), op("multiplies", read(*ix), a))

    return made(x.shape, term, x, alpha)


def _clip(x: Value, low: Any, high: Any) -> Value:
    return each(lambda t, a, b: op("max", op("min", t, b), a), x, *(as_value(known(v), x.element) for v in (low, high)))


def _relu6(x: Term) -> Term:
    return op("min", op("max", x, _n(0, x)), _n(6, x))


def _where(condition: Value, x: Any, y: Any) -> Value:
    first = as_value(x)
    return each(lambda c, a, b: choice(cast(c, BOOL), a, b), condition, first, as_value(y, first.element))


def _not(x: Value) -> Value:
    return each(lambda t: truth("not", cast(t, BOOL)), x)


def _logic(name: str) -> Meaning:
    return lambda x, y: each(lambda a, b: truth(name, cast(a, BOOL), cast(b, BOOL)), as_value(x), as_value(y))


def _compare(name: str) -> Meaning:
    return _pair(lambda a, b: comparison(name, a, b))


def _triangle(lower: bool) -> Meaning:
    def apply(x: Value, k: Any = 0) -> Value:
        width = whole(k)

        def term(ix: Any, read: Any) -> Term:
            name = "less_equal" if lower else "greater_equal"
            inside = truth(name, ix[-1], op("plus", ix[-2], Number(width, INT32)))
            return choice(inside, read(*ix), number(0, x.element))

        return made(x.shape, term, x)

    return apply


def _full(shape: Any, value: Any, dtype: Any = None) -> Value:
    start = as_value(value)
    return filled(converted(start, element(dtype, start.element)), shape)


def _hamming(*values: Any, dtype: Any) -> Value:
    return constant(ARRAYS["hamming_window"](*map(known, values), dtype), "window")


def _like(x: Value, value: Any, dtype: Any = None) -> Value:
    return filled(converted(as_value(value), element(dtype, x.element)), x.shape)


def _numbers(value: int, shape: Any, dtype: Any) -> Value:
    return filled(number_value(value, element(dtype, FLOAT32)), shape)


def _arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Value:
    first, last = (0, known(start)) if end is None else (known(start), known(end))
    by = known(step)
    real = any(isinstance(v, float) for v in (first, last, by))
    kind = element(dtype, FLOAT32 if real else INT64)
    length = len(np.arange(first, last, by))
    inner = kind if kind.is_float or not real else FLOAT32

    def term(ix: Any) -> Term:
        if not real:
            found = op("plus", op("multiplies", cast(ix[0], INT64), Number(by, INT64)), Number(first, INT64))
            return cast(found, kind)
        place = op("multiplies", cast(ix[0], inner), number(by, inner))
        return cast(op("plus", place, number(first, inner)), kind)

    return made((length,), term)


def _eye(n: Any, m: Any = None, k: Any = 0, dtype: Any = "float32") -> Value:
    rows, shift, kind = whole(n), whole(k), element(dtype, FLOAT32)

    def term(ix: Any) -> Term:
        here = truth("eq", ix[1], op("plus", ix[0], Number(shift, INT32)))
        return choice(here, number(1, kind), number(0, kind))

    return made((rows, rows if m is None else whole(m)), term)


def _along(x: Value, read: Any, of: Value, ix: Any, axis: int) -> Term:
    return read(*([] if of.rank == 0 else [ix[x.axis(axis)] if of.size > 1 else Number(0, INT32)]))


def _quantize(x: Value, scale: Value, zero: Value, axis: int, out_dtype: Any) -> Value:
    target = element(out_dtype, x.element)

    inner = common(x, scale)

    def term(ix: Any, read: Any, by: Any, shift: Any) -> Term:
        scaled = op("divides", cast(read(*ix), inner), cast(_along(x, by, scale, ix, axis), inner))
        whole = op("round", scaled) if target.is_integer else scaled
        return _clipped(op("plus", whole, cast(_along(x, shift, zero, ix, axis), inner)), target)

    return made(x.shape, term, x, scale, zero)


def _dequantize(x: Value, scale: Value, zero: Value, axis: int, out_dtype: Any) -> Value:
    target = element(out_dtype, FLOAT32)
    inner = INT32 if x.element.is_integer else FLOAT32

    def term(ix: Any, read: Any, by: Any, shift: Any) -> Term:
        moved = op("minus", cast(read(*ix), inner), cast(_along(x, shift, zero, ix, axis), inner))
        found = op("multiplies", cast(moved, FLOAT32), cast(_along(x, by, scale, ix, axis), FLOAT32))
        return found if target == FLOAT32 else _clipped(found, target)

    return made(x.shape, term, x, scale, zero)


def _clipped(term: Term, target: Scalar) -> Term:
    low, high = DataType.parse(target.name).limits
    return cast(op("min", op("max", term, _n(low, term)), _n(high, term)), target)


def _sign(x: Value) -> Value:
    return each(lambda t: op("sign", t), x)


_PLAIN = "acos acosh asin asinh atan atanh cos cosh erf exp log rsqrt sigmoid sin sinh sqrt tan tanh"
_SPELLED = {"equal": "EQ", "not_equal": "NE", "less": "LT", "less_equal": "LE", "greater": "GT", "greater_equal": "GE"}
_ARITHMETIC = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "floor_divide": "FloorDiv",
    "floor_mod": "FloorMod", "mod": "Mod", "maximum": "Max", "minimum": "Min",
}  # fmt: skip

ELEMENTWISE: dict[str, Meaning] = {
    **{name: _intrinsic(name) for name in (*_PLAIN.split(), "isfinite", "isinf", "isnan")},
    **{name: _floating(name) for name in ("ceil", "floor", "trunc", "round")},
    **{name: _binary(kind) for name, kind in _ARITHMETIC.items()},
    **{name: _compare(kind) for name, kind in _SPELLED.items()},
    **{name: _intrinsic(name) for name in ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "atan2")},
    "left_shift": _intrinsic("shift_left"),
    "right_shift": _intrinsic("shift_right"),
    "power": _intrinsic("pow"),
    "abs": lambda x: each(lambda t: op("abs", t), x),
    "negative": lambda x: each(lambda t: op("neg", t), x),
    "sign": _sign,
    "square": lambda x: each(lambda t: op("multiplies", t, t), x),
    "clip": _clip,
    "nn.relu": lambda x: each(lambda t: op("max", t, _n(0, t)), x),
    "nn.relu6": lambda x: each(_relu6, x),
    "nn.silu": _wide(_silu),
    "nn.gelu": _wide(_gelu),
    "nn.gelu_tanh": _wide(_gelu_tanh),
    "nn.selu": _wide(_selu),
    "nn.leakyrelu": _wide(lambda x, alpha: _positive(x, op("multiplies", x, _n(alpha, x)))),
    "nn.softplus": _wide(_softplus),
    "nn.prelu": _prelu,
    "log_add_exp": _wide(_log_add_exp),
    "ewise_fma": lambda x, y, z: each(lambda a, b, c: op("plus", op("multiplies", a, b), c), x, y, z),
    "tril": _triangle(True),
    "triu": _triangle(False),
    "logical_not": _not,
    "logical_and": _logic("and"),
    "logical_or": _logic("or"),
    "logical_xor": _logic("xor"),
    "where": _where,
    "astype": lambda x, dtype: converted(as_value(x), element(dtype, FLOAT32)),
    "wrap_param": lambda x, dtype: converted(as_value(x), element(dtype, FLOAT32)),
    "stop_lift_params": lambda x: x,
    "grad.no_grad": lambda x: x,
    "grad.start_checkpoint": lambda x: x,
    "grad.end_checkpoint": lambda x: x,
    "memory.ensure_zero_offset": lambda x: x,
    "to_vdevice": lambda x, **_: x,
    "hint_on_device": lambda x, **_: x,
    "full": _full,
    "full_like": _like,
    "zeros": lambda shape, dtype: _numbers(0, shape, dtype),
    "ones": lambda shape, dtype: _numbers(1, shape, dtype),
    "zeros_like": lambda x, dtype=None: _like(x, number_value(0, x.element), dtype),
    "ones_like": lambda x, dtype=None: _like(x, number_value(1, x.element), dtype),
    "arange": _arange,
    "eye": _eye,
    "eye_like": lambda x, k=0, dtype=None: _eye(x.shape[0], x.shape[1], k, dtype or str(x.element)),
    "hamming_window": _hamming,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "shape_of": lambda x: Shape(x.shape),
    "size": lambda x: number_value(x.size, INT64),
    "null_value": lambda: None,
}
"""Element by element, and what makes tensors."""

# Axes that an attribute names, and folds along them.

# Attributes hold values of any type here.


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that an attribute names, from the front; all of them where it names none."""
    if axis is None:
        return tuple(range(rank))
    named: Sequence[Any] = axis if isinstance(axis, tuple | list) else (axis,)
    numbers = [whole(a) for a in named]
    if outside := [a for a in numbers if rank and not -rank <= a < rank]:
        raise ValueError(f"axis {outside[0]} of {rank}")
    return tuple(dict.fromkeys(sorted(a % rank for a in numbers))) if rank else ()


def placed(expr: Expr, names: Sequence[str], shape: Sequence[int]) -> Value:
    """A value from an expression whose dims have these names, axis by axis."""
    return Value(under(expr, dict(zip(names, dims_of(len(shape)), strict=True))), tuple(shape))


def reduced(name: str, start: Any, x: Value, axes: Sequence[int], keepdims: Any = False) -> Value:
    """All elements along some axes folded into one."""
    dims = dims_of(x.rank)
    over = [dims[a] for a in axes]
    expr = spread(x.expr, {d: Interval(0, x.shape[a]) for d, a in zip(over, axes, strict=True)})
    if over:
        expr = folded(name, literal(start, x.element), expr, over, x.element)
    if keepdims:
        return Value(expr, tuple(1 if k in axes else s for k, s in enumerate(x.shape)))
    kept = [k for k in range(x.rank) if k not in axes]
    return placed(expr, [dims[k] for k in kept], [x.shape[k] for k in kept])


def total(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The sum along axes."""
    return reduced("plus", 0, x, axes, keepdims)
