"""Calls that make types, constants and parts of bodies: `R.Tensor(...)`, `R.const(...)`, `R.output(...)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tensorir.relax import nodes as r
from tensorir.relax.infer import type_of
from tensorir.runtime.errors import did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import FLOAT32, INT32, INT64, DataType
from tensorir.tir.script.values import Name, Value, members
from tensorir.tir.script.words import describe

if TYPE_CHECKING:
    from tensorir.relax.parse import Reader

__all__ = ["MAKERS"]

Maker = Callable[["Reader", list[Value], dict[str, Value], ast.Call], Value]

MAKERS: dict[str, Maker] = {}
"""The functions that read a call, by what stands behind `R.`."""


def _makes(name: str, *params: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a maker with named parameters; what is left out is None."""

    def register(make: Callable[..., Value]) -> Callable[..., Value]:
        def maker(reader: Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
            if len(args) > len(params):
                reader.fail(node, "TS24", f"R.{name} takes {len(params)} arguments, and this gives {len(args)}.")
            found = dict(zip(params, args, strict=False))
            for key, value in kwargs.items():
                if key not in params or key in found:
                    reader.fail(node, "TS24", f"R.{name} has no use for {key!r} here.", did_you_mean(key, params))
                found[key] = value
            return make(reader, node, *(found.get(param) for param in params))

        MAKERS[name] = maker
        return make

    return register


@_makes("Tensor", "shape", "dtype", "vdevice", "ndim")
def _tensor(reader: Reader, node: ast.Call, shape: Value, dtype: Value, vdevice: Value, ndim: Value) -> Value:
    if isinstance(shape, str):
        shape, dtype = None, shape if dtype is None else dtype
    count = -1 if ndim is None else reader.as_number(ndim, node, "the number of dimensions")
    match shape:
        case r.ShapeExpr(values):
            sizes: tuple[n.Expr, ...] | None = values
        case r.RelaxVar(_, r.ShapeType(values, known)):
            # a tensor of a shape that has a name: its sizes are those that the shape's type tells
            sizes, count = values, known if count < 0 else count
        case _:
            sizes = None if shape is None else reader.exprs(shape, node, INT64)
    element = None if dtype in (None, "") else reader.dtype(dtype, node)
    for size in sizes or ():
        if isinstance(size, n.IntImm) and size.value < 0:
            reader.fail(node, "TS24", f"a tensor has no {size.value} elements along a dimension.")
    if sizes is not None and count >= 0 and count != len(sizes):
        reader.fail(node, "TS24", f"a shape of {len(sizes)} sizes has no {count} dimensions.")
    device = None if vdevice is None else reader.string(vdevice, node, "a device")
    return r.TensorType(sizes, element, count, device)


@_makes("Shape", "values", "ndim")
def _shape_type(reader: Reader, node: ast.Call, values: Value, ndim: Value) -> Value:
    sizes = None if values is None else reader.exprs(values, node, INT64)
    return r.ShapeType(sizes, -1 if ndim is None else reader.as_number(ndim, node, "the number of dimensions"))


def _tuple_type(reader: Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    fields = members(args[0]) if len(args) == 1 else None
    fields = args if fields is None else fields
    return r.TupleType(tuple(reader.relax_type(item, node) for item in fields))


def _tuple_value(reader: Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    return r.Tuple(tuple(reader.relax(item, node) for item in args), reader.text.span(node))


def _output(reader: Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    blocks = reader.sequences[-1]
    if blocks.dataflow is None:
        reader.fail(node, "TS41", "R.output stands inside of R.dataflow() only.")
    for arg in args:
        var = reader.numbers.get(arg) if isinstance(arg, n.Var) else arg
        if not isinstance(var, r.RelaxVar):
            reader.fail(node, "TS41", f"R.output takes variables of the block, and this is {describe(arg)}.")
        blocks.outputs.append(var)
    return None


def _emit_call(reader: Reader, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    if len(args) != 1:
        reader.fail(node, "TS24", "R.emit takes one value.")
    return args[0]


MAKERS.update({"Tuple": _tuple_type, "tuple": _tuple_value, "output": _output, "emit": _emit_call})


@_makes("Object")
@_makes("Any")
def _object(reader: Reader, node: ast.Call) -> Value:
    return r.ObjectType()


@_makes("Prim", "dtype", "value")
def _prim(reader: Reader, node: ast.Call, dtype: Value, value: Value) -> Value:
    if dtype is None and isinstance(value, n.Expr):
        return r.PrimValueType(value.dtype)
    return r.PrimValueType(reader.dtype(dtype, node))


@_makes("Callable", "params", "ret", "purity", "derive_func")
def _callable(reader: Reader, node: ast.Call, params: Value, ret: Value, purity: Value, derive: Value) -> Value:
    items = members(params) if params is None or members(params) is not None else [params]
    kinds = None if items is None else tuple(reader.relax_type(item, node) for item in items)
    return r.FuncType(kinds, None if ret is None else reader.relax_type(ret, node), purity is not False)


@_makes("const", "value", "dtype")
def _const(reader: Reader, node: ast.Call, value: Value, dtype: Value) -> Value:
    data = _data(reader, value, node)
    first = data
    while isinstance(first, tuple) and first:
        first = first[0]
    default = DataType("uint", 1) if isinstance(first, bool) else INT32 if isinstance(first, int) else FLOAT32
    element = default if dtype is None else reader.dtype(dtype, node)
    return r.Constant(_typed(reader, data, element, node), element, reader.text.span(node))


def _data(reader: Reader, value: Value, node: ast.Call) -> r.Data:
    if (items := members(value)) is not None:
        rows = tuple(_data(reader, item, node) for item in items)
        if len({len(row) if isinstance(row, tuple) else -1 for row in rows}) > 1:
            reader.fail(node, "TS24", "the rows of a constant have one length.")
        return rows
    match value:
        case bool() | int() | float():
            return value
        case n.IntImm(number) | n.FloatImm(number):
            return number
        case _:
            reader.fail(node, "TS21", f"a constant holds numbers, and this is {describe(value)}.")


def _typed(reader: Reader, data: r.Data, dtype: DataType, node: ast.Call) -> r.Data:
    if isinstance(data, tuple):
        return tuple(_typed(reader, item, dtype, node) for item in data)
    if not dtype.is_float and not dtype.is_integer:
        reader.fail(node, "TS21", f"a constant holds numbers, and {dtype} is no type of numbers.")
    low, high = dtype.limits
    special = isinstance(data, float) and not math.isfinite(data)
    if not dtype.is_bool and not (dtype.is_float if special else low <= data <= high):
        reader.fail(node, "TS24", f"the constant {str(data)[:40]} does not fit {dtype}.")
    return float(data) if dtype.is_float else bool(data) if dtype.is_bool else int(data)


@_makes("shape", "value")
def _shape(reader: Reader, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node, shape=True)


@_makes("prim_value", "value")
def _prim_value(reader: Reader, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node)


@_makes("str", "value")
def _str(reader: Reader, node: ast.Call, value: Value) -> Value:
    return r.StringValue(reader.string(value, node, "the value"), reader.text.span(node))


@_makes("dtype", "value")
def _dtype(reader: Reader, node: ast.Call, value: Value) -> Value:
    return r.DataTypeValue(reader.dtype(value, node), reader.text.span(node))


@_makes("ExternFunc", "name")
def _extern(reader: Reader, node: ast.Call, name: Value) -> Value:
    return r.ExternFunc(reader.string(name, node, "the name"), reader.text.span(node))


@_makes("dataflow")
def _dataflow(reader: Reader, node: ast.Call) -> Value:
    return Name("R", "dataflow()")


@_makes("device", "device_type", "index")
def _device(reader: Reader, node: ast.Call, kind: Value, index: Value) -> Value:
    number = reader.as_number(kind, node, "the kind of a device")
    place = 0 if index is None else reader.as_number(index, node, "the number of a device")
    return n.Opaque(f"R.device(device_type={number}, index={place})", reader.text.span(node))


@_makes("match_cast", "value", "ty")
@_makes("emit_match_cast", "value", "ty")
def _match_cast(reader: Reader, node: ast.Call, value: Value, ty: Value) -> Value:
    kind = reader.relax_type(ty, node)
    expr = reader.relax(value, node)
    known = type_of(expr, reader.functions)
    if isinstance(known, r.TensorType) and isinstance(kind, r.TensorType):
        reader.check(r.TensorType(None, kind.dtype, kind.ndim), expr, node, "the value")
    return r.MatchCast(r.RelaxVar("", kind), expr, kind, reader.text.span(node))


@_makes("func_attr", "attrs")
def _func_attr(reader: Reader, node: ast.Call, attrs: Value) -> Value:
    found = reader.attribute(attrs, node)
    if not isinstance(found, Mapping):
        reader.fail(node, "TS21", "attributes are a mapping.")
    reader.attrs.update(found)
    return None
