"""`T.float32(1)`, `T.handle(...)`, `T.Cast`: constants, variables without a name yet, conversions."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, HANDLE, DataType
from tensorir.tir.script.arithmetic import convert
from tensorir.tir.script.calls.form import Call, makes
from tensorir.tir.script.values import (
    Value,
)
from tensorir.tir.script.words import describe


def constant(it: Call, dtype: DataType) -> Value:
    """`T.float32(1)` a constant, `T.float32(x)` a cast, `T.float32()` a variable without a name yet."""
    if dtype.is_void and not it.args:
        return n.Var("", n.TupleType(), it.span)
    if dtype.code == "handle" and dtype.bits:
        return _handle(it)
    if not it.args:
        return n.Var("", n.PrimType(dtype), it.span)
    (value,) = it.take("expr")
    match value:
        case str() if dtype.is_float and value.lower() in ("inf", "-inf", "nan", "infinity", "-infinity"):
            return n.FloatImm(float(value), dtype, it.span)
        case bool() | int() | float() if dtype.lanes == 1:
            if isinstance(value, float) and not dtype.is_float:
                if not value.is_integer():
                    it.fail("TS20", f"{value} is no {dtype}.")
                value = int(value)
            _refuse_outside(it, value, dtype)
            return const(value, dtype, it.span) if not dtype.is_bool else n.IntImm(int(bool(value)), BOOL, it.span)
        case bool() | int() | float():
            _refuse_outside(it, value, dtype)
            return n.Broadcast(const(value, dtype.element, it.span), dtype.lanes, it.span)
        case _:
            number = it.reader.numeric(it.expr(value), it.place(0, "expr"), f"what T.{dtype} takes")
            return convert(number, dtype, it.span)


def _refuse_outside(it: Call, value: bool | int | float, dtype: DataType) -> None:
    if isinstance(value, float) or not dtype.is_integer:
        return
    low, high = dtype.range
    if not low <= value <= high:
        message = f"the constant {value} does not fit {dtype.element}, which holds {low} to {high}."
        it.reader.fail(it.place(0, "expr"), "TS20", message)


@makes("handle", "ptr", "Ptr", "buffer_var")
def _handle(it: Call) -> Value:
    """A variable that points: `T.handle("float32", "shared")`; without arguments it points to anything."""
    if len(it.args) == 1 and isinstance(it.args[0], n.Expr) and not isinstance(it.args[0], n.Var):
        return n.Cast(it.expr(it.args[0]), HANDLE, it.span)
    dtype, scope, _ = it.take("dtype", "storage_scope", "type_annotation")
    if dtype is None:
        return n.Var("", n.PrimType(HANDLE), it.span)
    element = None if dtype == "void" else n.PrimType(it.dtype(dtype))
    scope = "global" if scope is None else it.string(scope, "the scope")
    return n.Var("", n.PointerType(element, scope), it.span)


@makes("var", "Var")
def _var(it: Call) -> Value:
    dtype, name = it.take("dtype", "name", required=1)
    if isinstance(dtype, str) and name is not None and not _is_dtype(dtype):
        dtype, name = name, dtype
    return n.Var("", it.reader.type(dtype, it.node), it.span)


def _is_dtype(text: str) -> bool:
    try:
        DataType.parse(text)
    except ValueError:
        return False
    return True


@makes("TensorMap")
def _tensor_map(it: Call) -> Value:
    return n.Var("", n.PointerType(None, "tensormap"), it.span)


@makes("Cast", "cast")
def _cast(it: Call) -> Value:
    first, second = it.converted()
    if it.name == "Cast":
        return n.Cast(it.reader.numeric(it.expr(second), it.node, "what T.Cast takes"), it.dtype(first), it.span)
    if isinstance(first, n.Expr) or not isinstance(second, n.Expr):
        first, second = second, first
    return convert(it.expr(second), it.dtype(first), it.span)


@makes("IntImm", "FloatImm")
def _immediate(it: Call) -> Value:
    dtype, value = it.take("dtype", "value", required=2)
    if not isinstance(value, int | float):
        it.fail("TS21", f"a constant stands here, and this is {describe(value)}.")
    assert isinstance(value, int | float)
    return const(value, it.dtype(dtype), it.span)


@makes("StringImm")
def _string(it: Call) -> Value:
    return n.StringImm(it.string(it.take("value", required=1)[0], "the value"), it.span)
