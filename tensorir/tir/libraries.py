"""Functions of mathematics under the names that libraries have for them: `expf`, `hexp`, `__expf`, `llvm.exp`.

TVM's pass LowerIntrin puts calls of the target's library in the place of its builtins, CUDA's warp shuffles among them,
and kernels for CUDA call `atomicAdd` by name. What they compute is what the builtins do.

>>> from tensorir.tir.dtypes import FLOAT32
>>> from tensorir.tir.nodes import Call, FloatImm, PrimType, StringImm
>>> one = FloatImm(1.0, PrimType(FLOAT32).dtype)
>>> builtin_of(Call(one.dtype, "call_pure_extern", (StringImm("expf"), one)))
T.exp(T.float32(1.0))
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tensorir.tir.dtypes import HANDLE, INT32, DataType
from tensorir.tir.nodes import (
    EQ,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    Select,
    StringImm,
    Sub,
)
from tensorir.tir.walk import transform, walk

__all__ = ["builtin_of", "with_exchanges"]

_EXCHANGES = {
    "cuda.__shfl_sync": "tvm_warp_shuffle",
    "cuda.__shfl_up_sync": "tvm_warp_shuffle_up",
    "cuda.__shfl_down_sync": "tvm_warp_shuffle_down",
    "cuda.__shfl_xor_sync": "tvm_warp_shuffle_xor",
    "cuda.__activemask": "tvm_warp_activemask",
}
"""What threads of a warp do together, by CUDA's name; a warp has 32 of them there."""

N = TypeVar("N", bound=Node)

_FUNCTIONS = {
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "sin", "cos", "tan", "asin",
    "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc",
    "nearbyint", "fabs", "fmod", "hypot", "copysign", "nextafter", "ldexp", "fma", "isnan",
}  # fmt: skip
"""Those that C's library and the builtins call alike; C has one per element type, `expf` and `exp`."""
_OTHERS = {
    "rint": "nearbyint", "__popc": "popcount", "__popcll": "popcount", "__clz": "clz", "__clzll": "clz",
    "atomicAdd": "atomic_add", "atomicMax": "atomic_max", "atomicMin": "atomic_min",
}  # fmt: skip
_ELEMENTS = {
    **{f"atomic_{word}_elem_op": f"atomic_{word}" for word in ("add", "max", "min", "store")},
    **{f"atomic_{word}_ret_elem_op": f"atomic_{word}" for word in ("add", "max", "min")},
}
"""TileLang's atomic updates of one element, whose orders of memory say nothing about values."""
_LLVM = {"ctpop": "popcount", "ctlz": "clz", "rint": "nearbyint", "roundeven": "nearbyint"}
_CALLS = frozenset(("call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin"))


def builtin_of(call: Call) -> Expr | None:
    """The call of a builtin, or the expression, that a call of a library's function is; None for other calls."""
    match call.op, call.args:
        case str(op), (Call(op="access_ptr", args=(BufferLoad() as place, *_)), Expr() as value, *_) if op in _ELEMENTS:
            to = Call(HANDLE, "address_of", (place,), span=place.span)
            return replace(call, dtype=place.dtype, op=_ELEMENTS[op], args=(to, _as(value, place.dtype)), attrs={})
        case "clamp", (Expr() as x, Expr() as low, Expr() as high):
            return Min(Max(x, low, call.span), high, call.span)
        case "fast_rcp", (Expr() as x,):
            return Div(FloatImm(1.0, x.dtype), x, call.span)
        case "pow_of_int", (Expr() as x, IntImm(power)):
            return replace(call, op="pow", args=(x, FloatImm(float(power), x.dtype)) if x.dtype.is_float else call.args)
        case "ieee_frsqrt", (Expr() as x,):
            return replace(call, op="rsqrt", args=(x,))
        case str(op), (*given, StringImm("rn")) if op.startswith("ieee_"):
            return _rounded_to_nearest(op, [x for x in given if isinstance(x, Expr)], call)
        case str(op), arguments if op in _EXCHANGES:
            warp = (IntImm(32, INT32),) if arguments else ()
            return replace(call, op=_EXCHANGES[op], args=(*arguments, *warp))
        case str(op), (StringImm(title), *arguments) if op in _CALLS:
            if call.dtype.is_void or call.dtype.is_handle:
                return None
        case _:
            return None
    name = _builtin(title, call.dtype.element.numpy.name)
    values = [a for a in arguments if isinstance(a, Expr)]
    if title.startswith("llvm.fmuladd") and len(values) == len(arguments) == 3:
        a, b, c = values
        return Add(Mul(a, b, call.span), c, call.span)
    if len(values) == len(arguments) == 1 and (
        title in ("round", "roundf") or title.split(".")[:2] == ["llvm", "round"]
    ):
        return _away_from_zero(values[0], call)
    if name is None:
        return None
    # whether zero has leading zeros is all that the second argument says
    kept = arguments[:1] if title.startswith("llvm.ctlz") else arguments
    return replace(call, op=name, args=tuple(kept))


def _rounded_to_nearest(op: str, given: list[Expr], call: Call) -> Expr | None:
    """TileLang's operations that say how they round, where they round as all others do."""
    match op.removeprefix("ieee_"), given:
        case "add", [a, b]:
            return Add(a, b, call.span)
        case "sub", [a, b]:
            return Sub(a, b, call.span)
        case "mul" | "fmul", [a, b]:
            return Mul(a, b, call.span)
        case "fdiv", [a, b]:
            return Div(a, b, call.span)
        case "frcp", [a]:
            return Div(FloatImm(1.0, a.dtype), a, call.span)
        case "fmaf" | "fsqrt" as name, _:
            return replace(call, op={"fmaf": "fma", "fsqrt": "sqrt"}[name], args=tuple(given))
        case _:
            return None


def _as(value: Expr, dtype: DataType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype, value.span)


def _away_from_zero(x: Expr, call: Call) -> Expr:
    """C's `round`, which takes halves away from zero: `T.round` takes them to even numbers."""

    def of(name: str, *args: Expr) -> Expr:
        return replace(call, op=name, args=args)

    whole = of("trunc", x)
    # twice the rest is exact, and its whole part tells whether it is a half or more
    rest = Mul(FloatImm(2.0, call.dtype), Sub(x, whole, call.span), call.span)
    nearest = of("copysign", Add(whole, of("trunc", rest), call.span), x)
    return Select(EQ(x, whole, call.span), x, nearest, call.span)


def with_exchanges(kernel: N) -> N:
    """A kernel whose threads hand values around by the builtins' names, whatever names it has for them."""
    if any(isinstance(part, Call) and part.op in _EXCHANGES for part in walk(kernel)):
        return transform(kernel, lambda node: builtin_of(node) if isinstance(node, Call) else None)
    return kernel


def _builtin(title: str, element: str) -> str | None:
    """The builtin that computes what a library's function does for an element type; None where nobody knows."""
    if title.startswith("llvm."):
        name = title.split(".")[1]
        return name if name in _FUNCTIONS else _LLVM.get(name)
    names = [title, title.removesuffix("f"), title.removeprefix("__").removesuffix("f")]
    if element == "float16":
        names.append(title.removeprefix("h"))
    return next((_OTHERS.get(n, n) for n in names if n in _FUNCTIONS or n in _OTHERS), None)
