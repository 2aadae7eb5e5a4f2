"""Builtins, functions of the module, and opaque intrinsics."""

from __future__ import annotations

from tensorir.runtime.errors import did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import BUILTINS, Builtin, Effect, Operands, Result, find
from tensorir.tir.dtypes import BOOL, FLOAT32, HANDLE, INT32, VOID, DataType, other_bytes
from tensorir.tir.script.arithmetic import IllTyped, match
from tensorir.tir.script.calls.form import MAKERS, Call, makes
from tensorir.tir.script.values import (
    DataTypeName,
    Name,
    Value,
    members,
)
from tensorir.tir.script.words import count, nearest


def global_call(it: Call, function: n.GlobalVar) -> Value:
    if it.kwargs:
        it.fail("TS24", "functions of the module are called by position.")
    return n.Call(
        it.reader.results.get(function.name, VOID),
        function,
        tuple(_expr_or_buffer(it, arg) for arg in it.args),
        span=it.span,
    )


def _expr_or_buffer(it: Call, value: Value) -> n.Argument:
    if (items := members(value)) is not None:
        args = tuple(_expr_or_buffer(it, item) for item in items)
        return n.Call(HANDLE, "tvm_tuple", args, span=it.span)
    match value:
        case n.Buffer() | n.BufferRegion() | n.Opaque() | n.IndexMap() | n.CommReducer() | n.IterVar():
            return value
        case DataTypeName(dtype):
            return n.Call(dtype, "type_annotation", (), span=it.span)
        case None:
            return n.Opaque("None", it.span)
        case Name(dialect, path) if path:
            return n.Opaque(f"{dialect}.{path}", it.span)
        case _:
            return it.expr(value)


@makes("call_intrin")
def _call_intrin(it: Call) -> Value:
    """`T.call_intrin("float32", "tirx.exp", x)` is `T.exp(x)`."""
    dtype = it.dtype(it.args[0]) if it.args else VOID
    op = it.string(it.args[1], "the intrinsic") if len(it.args) > 1 else ""
    row = find(op.removeprefix("tirx.").removeprefix("tir."))
    if row is None:
        it.fail("TS12", f"there is no builtin {op!r}.", did_you_mean(op, BUILTINS))
    made = n.Call(dtype, row.name, tuple(_expr_or_buffer(it, arg) for arg in it.args[2:]), span=it.span)
    _keeps_bytes(it, made)
    return made


@makes("reinterpret")
def _reinterpret(it: Call) -> Value:
    """The type may be a string, a data type, or the type of a variable (`T.handle().ty`)."""
    dtype, value = it.converted()
    pointed = dtype if isinstance(dtype, n.PointerType) else None
    attrs: dict[str, n.Attribute] = {} if pointed is None else {"type": pointed}
    made = n.Call(it.dtype(dtype), "reinterpret", (it.expr(value),), attrs, it.span)
    _keeps_bytes(it, made)
    return made


def _keeps_bytes(it: Call, made: n.Call) -> None:
    given = made.args[0] if made.op == "reinterpret" and made.args else None
    if isinstance(given, n.Expr) and (message := other_bytes(given.dtype, made.dtype)):
        it.fail("TS20", message, f"write T.Cast({str(made.dtype)!r}, ...) for the value as another type.")


@makes("type_annotation")
def _type_annotation(it: Call) -> Value:
    return n.Call(it.dtype(it.take("dtype", required=1)[0]), "type_annotation", (), span=it.span)


@makes("tvm_storage_sync")
def _sync(it: Call) -> Value:
    """Only the scope counts; the two arguments that the printer adds are the defaults."""
    scope, leader, blocks = it.take("storage_scope", "is_leader", "num_blocks", required=1)
    args: tuple[n.Argument, ...] = (n.StringImm(it.string(scope, "the scope"), it.span),)
    default = (leader is None or _is_constant(leader, 0)) and (blocks is None or _is_constant(blocks, -1))
    if not default:
        args = (*args, it.expr(leader, BOOL), it.expr(blocks))
    return n.Call(INT32, "tvm_storage_sync", args, span=it.span)


def _is_constant(value: Value, expected: int) -> bool:
    return (isinstance(value, int) and value == expected) or (isinstance(value, n.IntImm) and value.value == expected)


@makes("abs")
def _abs(it: Call) -> Value:
    """TVM writes |x| of an integer as a selection, of an unsigned one as itself."""
    value = it.expr(it.untyped().take("x", "span", required=1)[0])
    if value.dtype.is_int:
        return n.Select(
            n.GE(value, const(0, value.dtype)), value, n.Sub(const(0, value.dtype), value, it.span), it.span
        )
    return value if value.dtype.is_uint else n.Call(value.dtype, "fabs", (value,), span=it.span)


@makes("isfinite")
def _isfinite(it: Call) -> Value:
    value = it.expr(it.untyped().take("x", "span", required=1)[0])
    return n.Call(BOOL.with_lanes(value.dtype.lanes), "isfinite", (value,), span=it.span)


_PACKED = ("call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered")


def builtin(it: Call) -> Value:
    """A call of a builtin, with its type from the table."""
    row = find(it.name)
    if row is None:
        names = [*BUILTINS, *MAKERS]
        it.reader.fail(it.node.func, "TS12", f"T.{it.name} is not known.", nearest(it.name, names))
    told = not row.dtype and row.effect is Effect.PURE and row.result in (Result.FIRST, Result.BOOL)
    args, kwargs = list(it.args), dict((it.untyped() if told else it).kwargs)
    explicit: DataType | None = None
    if row.dtype == "first" and "dtype" not in kwargs and args:
        explicit = it.dtype(args.pop(0))
    elif row.dtype == "last" and "dtype" not in kwargs and len(args) == (row.arity or 0) + 1:
        explicit = it.dtype(args.pop())
    if row.dtype in kwargs:
        explicit = it.dtype(kwargs.pop(row.dtype))
    if "dtype" in kwargs:
        explicit = it.dtype(kwargs.pop("dtype"))
    kwargs.pop("span", None)
    converted = _arguments(it, row, args)
    if row.arity is not None and len(converted) != row.arity:
        it.fail("TS24", f"T.{it.name} takes {count(row.arity, 'argument')}, and this gives {len(converted)}.")
    attrs = {key: it.reader.attribute(value, it.node) for key, value in kwargs.items()}
    return n.Call(_result(row, explicit, converted), row.name, converted, attrs, it.span)


def _arguments(it: Call, row: Builtin, args: list[Value]) -> tuple[n.Argument, ...]:
    """Numbers take the type of the expressions beside them where all must have one type."""
    if row.operands in (Operands.FLOAT, Operands.NUMBER, Operands.INTEGER, Operands.SHIFT):
        first = next((arg.dtype for arg in args if isinstance(arg, n.Expr)), None)
        if row.operands is Operands.NUMBER and len(args) == 2:
            first = None  # a number of `pow` has its own type, as one of an operator
        default = FLOAT32 if row.operands is Operands.FLOAT else None
        exprs = [
            it.reader.numeric(it.expr(arg, first or default), it.place(k, ""), f"what T.{it.name} takes")
            for k, arg in enumerate(args)
        ]
        if row.operands in (Operands.INTEGER, Operands.SHIFT) and (odd := [e for e in exprs if e.dtype.is_float]):
            it.fail("TS20", f"T.{it.name} takes integers, and this is {odd[0].dtype}.")
        if len(exprs) == 2 and row.operands in (Operands.FLOAT, Operands.NUMBER):
            try:
                return match(exprs[0], exprs[1])
            except IllTyped:
                return tuple(exprs)
        return tuple(exprs)
    return tuple(_expr_or_buffer(it, arg) for arg in args)


def _result(row: Builtin, explicit: DataType | None, args: tuple[n.Argument, ...]) -> DataType:
    if explicit is not None:
        return explicit
    dtypes = [arg.dtype for arg in args if isinstance(arg, n.Expr)]
    match row.result:
        case Result.FIRST:
            return dtypes[0] if dtypes else VOID
        case Result.SECOND:
            return dtypes[1] if len(dtypes) > 1 else VOID
        case Result.BOOL:
            return BOOL.with_lanes(dtypes[0].lanes if dtypes else 1)
        case Result.DOUBLED:
            return dtypes[0].with_lanes(2 * dtypes[0].lanes) if dtypes else VOID
        case Result.INT32:
            return INT32
        case Result.UINT32:
            return DataType("uint", 32)
        case Result.HANDLE:
            return HANDLE
        case Result.VOID | Result.EXPLICIT:
            return VOID
