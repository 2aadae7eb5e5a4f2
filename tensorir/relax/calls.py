"""Calls in a function of Relax: operators, types, constants, parts of values, functions of the module."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from tensorir.relax import nodes as r
from tensorir.relax.evaluate import Values
from tensorir.relax.infer import infer, type_of
from tensorir.relax.operators import OPERATORS, REQUIRED, Operator
from tensorir.relax.rules_of_elements import Contradiction
from tensorir.runtime.errors import did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import FLOAT32, INT32, INT64, DataType
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.rules import called
from tensorir.tir.script.values import DataTypeName, Metadata, Name, Value, describe, members

# Parts of values of Relax: members of tuples, `x[0]`, and what a type says, `x.struct_info.shape`.


def member(reader: Values, node: ast.Subscript) -> Value:
    target = reader.value(node.value)
    match target:
        case Metadata(""):
            return Metadata(reader.string(reader.value(node.slice), node.slice, "the key"))
        case Metadata(key):
            return r.MetadataConstant(key, reader.number(node.slice, "the index"), reader.text.span(node))
        case r.RelaxExpr():
            found = r.TupleGetItem(target, reader.number(node.slice, "the index"), reader.text.span(node))
            reader.check(None, found, node, "the member")
            return found
        case _ if (items := members(target)) is not None:
            index = reader.number(node.slice, "the index")
            if not -len(items) <= index < len(items):
                reader.fail(node.slice, "TS11", "there is no such member.")
            return items[index]
        case _:
            reader.fail(node.value, "TS11", f"{describe(target)} cannot be indexed.")


def field(reader: Values, node: ast.Attribute) -> Value:
    """The type of a value, or what the type says; other attributes are those of TIR."""
    if isinstance(node.value, ast.Name):
        found = reader.scope.find(node.value.id)
    elif isinstance(node.value, ast.Attribute) and node.value.attr == "struct_info":
        found = reader.value(node.value)
    else:
        found = None
    match found, node.attr:
        case r.RelaxVar(), "struct_info":
            return type_of(found, reader.functions)
        case r.RelaxVar(), attr:
            reader.fail(
                node, "TS11", f"a value of Relax has no attribute {attr!r}.", did_you_mean(attr, ["struct_info"])
            )
        case r.TensorType(shape=tuple(sizes)), "shape":
            return sizes
        case r.TensorType(shape=tuple(sizes)), "ndim":
            return len(sizes)
        case r.TensorType(dtype=dtype), "dtype" if dtype is not None:
            return DataTypeName(dtype)
        case r.RelaxType(), attr:
            hint = did_you_mean(attr, ("shape", "ndim", "dtype"))
            reader.fail(node, "TS11", f"this type does not say {attr!r}.", hint)
        case _:
            return Evaluator.attribute_of(reader, node)


# Calls that make types, constants and parts of bodies: `R.Tensor(...)`, `R.const(...)`, `R.output(...)`.

Maker = Callable[[Values, list[Value], dict[str, Value], ast.Call], Value]

MAKERS: dict[str, Maker] = {}
"""The functions that read a call, by what stands behind `R.`."""


def _makes(name: str, *params: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a maker with named parameters; what is left out is None."""

    def register(make: Callable[..., Value]) -> Callable[..., Value]:
        def maker(reader: Values, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
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
def _tensor(reader: Values, node: ast.Call, shape: Value, dtype: Value, vdevice: Value, ndim: Value) -> Value:
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
def _shape_type(reader: Values, node: ast.Call, values: Value, ndim: Value) -> Value:
    sizes = None if values is None else reader.exprs(values, node, INT64)
    return r.ShapeType(sizes, -1 if ndim is None else reader.as_number(ndim, node, "the number of dimensions"))


def _tuple_type(reader: Values, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    fields = members(args[0]) if len(args) == 1 else None
    fields = args if fields is None else fields
    return r.TupleType(tuple(reader.relax_type(item, node) for item in fields))


def _tuple_value(reader: Values, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    return r.Tuple(tuple(reader.relax(item, node) for item in args), reader.text.span(node))


def _output(reader: Values, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    blocks = reader.sequences[-1]
    if blocks.dataflow is None:
        reader.fail(node, "TS41", "R.output stands inside of R.dataflow() only.")
    for arg in args:
        var = reader.numbers.get(arg) if isinstance(arg, n.Var) else arg
        if not isinstance(var, r.RelaxVar):
            reader.fail(node, "TS41", f"R.output takes variables of the block, and this is {describe(arg)}.")
        blocks.outputs.append(var)
    return None


def _emit_call(reader: Values, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    if len(args) != 1:
        reader.fail(node, "TS24", "R.emit takes one value.")
    return args[0]


MAKERS.update({"Tuple": _tuple_type, "tuple": _tuple_value, "output": _output, "emit": _emit_call})


@_makes("Object")
@_makes("Any")
def _object(reader: Values, node: ast.Call) -> Value:
    return r.ObjectType()


@_makes("Prim", "dtype", "value")
def _prim(reader: Values, node: ast.Call, dtype: Value, value: Value) -> Value:
    if dtype is None and isinstance(value, n.Expr):
        return r.PrimValueType(value.dtype)
    return r.PrimValueType(reader.dtype(dtype, node))


@_makes("Callable", "params", "ret", "purity", "derive_func")
def _callable(reader: Values, node: ast.Call, params: Value, ret: Value, purity: Value, derive: Value) -> Value:
    items = members(params) if params is None or members(params) is not None else [params]
    kinds = None if items is None else tuple(reader.relax_type(item, node) for item in items)
    return r.FuncType(kinds, None if ret is None else reader.relax_type(ret, node), purity is not False)


@_makes("const", "value", "dtype")
def _const(reader: Values, node: ast.Call, value: Value, dtype: Value) -> Value:
    data = _data(reader, value, node)
    first = data
    while isinstance(first, tuple) and first:
        first = first[0]
    default = DataType("uint", 1) if isinstance(first, bool) else INT32 if isinstance(first, int) else FLOAT32
    element = default if dtype is None else reader.dtype(dtype, node)
    return r.Constant(_typed(reader, data, element, node), element, reader.text.span(node))


def _data(reader: Values, value: Value, node: ast.Call) -> r.Data:
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


def _typed(reader: Values, data: r.Data, dtype: DataType, node: ast.Call) -> r.Data:
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
def _shape(reader: Values, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node, shape=True)


@_makes("prim_value", "value")
def _prim_value(reader: Values, node: ast.Call, value: Value) -> Value:
    return reader.relax(value, node)


@_makes("str", "value")
def _str(reader: Values, node: ast.Call, value: Value) -> Value:
    return r.StringValue(reader.string(value, node, "the value"), reader.text.span(node))


@_makes("dtype", "value")
def _dtype(reader: Values, node: ast.Call, value: Value) -> Value:
    return r.DataTypeValue(reader.dtype(value, node), reader.text.span(node))


@_makes("ExternFunc", "name")
def _extern(reader: Values, node: ast.Call, name: Value) -> Value:
    return r.ExternFunc(reader.string(name, node, "the name"), reader.text.span(node))


@_makes("dataflow")
def _dataflow(reader: Values, node: ast.Call) -> Value:
    return Name("R", "dataflow()")


@_makes("device", "device_type", "index")
def _device(reader: Values, node: ast.Call, kind: Value, index: Value) -> Value:
    number = reader.as_number(kind, node, "the kind of a device")
    place = 0 if index is None else reader.as_number(index, node, "the number of a device")
    return n.Opaque(f"R.device(device_type={number}, index={place})", reader.text.span(node))


@_makes("match_cast", "value", "ty")
@_makes("emit_match_cast", "value", "ty")
def _match_cast(reader: Values, node: ast.Call, value: Value, ty: Value) -> Value:
    kind = reader.relax_type(ty, node)
    expr = reader.relax(value, node)
    known = type_of(expr, reader.functions)
    if isinstance(known, r.TensorType) and isinstance(kind, r.TensorType):
        reader.check(r.TensorType(None, kind.dtype, kind.ndim), expr, node, "the value")
    return r.MatchCast(r.RelaxVar("", kind), expr, kind, reader.text.span(node))


@_makes("func_attr", "attrs")
def _func_attr(reader: Values, node: ast.Call, attrs: Value) -> Value:
    found = reader.attribute(attrs, node)
    if not isinstance(found, Mapping):
        reader.fail(node, "TS21", "attributes are a mapping.")
    reader.attrs.update(found)
    return None


# Packed functions that stand for operators: what TVM's legalization makes of those that no PrimFunc computes.
#
# `R.unique(x)` becomes `R.call_pure_packed("relax.run.unique", x, ...)`, with the operator's arguments in their
# order.

HOME = "relax.run."
LEGALIZED = ("assert_op", "nonzero", "print", "shape_to_tensor", "unique")


def as_operator(call: r.Call) -> r.Call:
    """The call of the operator that a packed function runs; of any other function, the call itself."""
    match call:
        case r.Call("call_packed" | "call_pure_packed", (r.ExternFunc(name), *args)) if name.startswith(HOME):
            operator = name.removeprefix(HOME)
        case _:
            return call
    match operator, args:
        case ("print", [r.StringValue(form), *values]):
            return replace(call, op="print", args=tuple(values), attrs={"format": form})
        case ("assert_op", [condition, r.StringValue(form), *values]):
            return replace(call, op="assert_op", args=(condition, *values), attrs={"format": form})
        case _:
            return replace(call, op=operator, args=tuple(args)) if operator in LEGALIZED else call


# Calls in a function of Relax: operators, functions of the module, calls whose types the text states.

_TYPED_CALLS: dict[str, tuple[str, ...]] = {
    "call_tir": ("gvar", "args"),
    "call_tir_inplace": ("gvar", "args"),
    "call_tir_with_grad": ("gvar", "args"),
    "call_dps_packed": ("func", "args"),
    "call_packed": (),
    "call_pure_packed": (),
    "call_inplace_packed": (),
    "call_builtin_with_ctx": ("func", "args"),
    "call_py_func": (),
    "invoke_closure": ("closure", "args"),
    "invoke_pure_closure": ("closure", "args"),
    "make_closure": ("func", "args"),
    "vm.call_tir_dyn": ("func", "args"),
    "vm.alloc_storage": (),
    "vm.alloc_tensor": (),
    "vm.kill_object": (),
    "memory.alloc_storage": (),
    "memory.alloc_tensor": (),
    "memory.kill_storage": (),
    "memory.kill_tensor": (),
    "builtin.alloc_tensor": (),
    "builtin.stop_lift_params": (),
}


_STATED = ("call_tir", "call_tir_inplace", "call_tir_with_grad", "call_dps_packed")
"""Those that make their results themselves, and so must be told the types."""


def relax_call(reader: Values, node: ast.Call) -> Value:
    target = reader.value(node.func)
    match target:
        case Name("R", path):
            args = [reader.value(arg) for arg in _plain(reader, node)]
            return _named(reader, path, args, _keywords(reader, node), node)
        case Name("I", path) if path.endswith("Type") and not node.args:
            return target
        case n.GlobalVar(name):
            args = tuple(reader.relax(reader.value(arg), arg) for arg in _plain(reader, node))
            return r.Call(r.FunctionRef(name, reader.text.span(node.func)), args, span=reader.text.span(node))
        case r.RelaxExpr():
            args = tuple(reader.relax(reader.value(arg), arg) for arg in _plain(reader, node))
            return r.Call(target, args, span=reader.text.span(node))
        case _:
            return called(reader, node)


def _plain(reader: Values, node: ast.Call) -> list[ast.expr]:
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            reader.fail(arg, "TS07", "'*' is no part of a call of Relax.")
    return node.args


def _keywords(reader: Values, node: ast.Call) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            reader.fail(keyword.value, "TS07", "'**' is no part of TVMScript.")
        found[keyword.arg] = reader.value(keyword.value)
    return found


def _named(reader: Values, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    path = path.removeprefix("op.")  # the operators' own home: R.op.nn.relu
    maker = MAKERS.get(path)
    if maker is not None:
        return maker(reader, args, kwargs, node)
    if path in _TYPED_CALLS:
        return typed_call(reader, path, args, kwargs, node)
    row = OPERATORS.get(path)
    if row is None:
        hint = did_you_mean(path, [*OPERATORS, *MAKERS, *_TYPED_CALLS])
        reader.fail(node.func, "TS12", f"R.{path} is not known.", hint)
    return operator(reader, row, args, kwargs, node)


def operator(reader: Values, row: Operator, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
    """An operator with its values in order and all of its attributes by name."""
    names = (*row.values, *row.attributes)
    if row.variadic:
        values: list[r.RelaxExpr] = []
        for arg in args:
            items = members(arg)
            values += [reader.relax(item, node) for item in ([arg] if items is None else items)]
        given: dict[str, Value] = dict(kwargs)
    else:
        if len(args) > len(names):
            reader.fail(node, "TS24", f"R.{row.name} takes {len(names)} arguments, and this gives {len(args)}.")
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key in given:
                reader.fail(node, "TS24", f"R.{row.name} is given {key!r} twice.")
            given[key] = value
        needed = row.values[: len(row.values) - row.optional]
        for name in needed:
            if given.get(name) is None:
                reader.fail(node, "TS24", f"R.{row.name} needs {name!r}.")
        values = []
        for place, name in enumerate(row.values):
            value = given.pop(name, None)
            default = row.defaults.get(name)
            later = next((key for key in row.values[place + 1 :] if given.get(key) is not None), None)
            if value is None and default == ():
                values.append(r.Tuple((), reader.text.span(node)))
            elif value is None and later is not None and isinstance(default, str):
                values.append(values[row.values.index(default)])
            elif value is not None:
                values.append(_operand(reader, name, value, node))
            elif later is not None and isinstance(default, bool):
                values.append(reader.relax(default, node))
            elif later is not None:
                reader.fail(node, "TS24", f"R.{row.name} needs {name!r} where {later!r} is given.")
            else:
                break
    attrs: dict[str, n.Attribute] = {}
    for key, default in row.attributes.items():
        if key in given:
            value = given.pop(key)
            attrs[key] = str(value.dtype) if isinstance(value, DataTypeName) else reader.attribute(value, node)
        elif default is REQUIRED:
            reader.fail(node, "TS24", f"R.{row.name} needs {key!r}.")
        else:
            attrs[key] = default  # type: ignore[assignment]
    for key in given:
        reader.fail(node, "TS24", f"R.{row.name} has no parameter {key!r}.", did_you_mean(key, names))
    call = r.Call(row.name, tuple(values), attrs, (), reader.text.span(node))
    try:
        infer(call, reader.functions)
    except Contradiction as error:
        reader.fail(node, "TS40", str(error))
    return call


def _operand(reader: Values, name: str, value: Value, node: ast.Call) -> r.RelaxExpr:
    """A value that an operator takes; lists of sizes are shapes, and a text is a data type, where one is wanted."""
    if name == "dtype" and isinstance(value, str):
        return r.DataTypeValue(reader.dtype(value, node), reader.text.span(node))
    return reader.relax(value, node, shape=name in ("shape", "size"))


def typed_call(reader: Values, path: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> r.Call:
    """`R.call_tir`, `R.call_packed` and their kin, whose text states the type of the result."""
    given = dict(kwargs)
    named = _TYPED_CALLS[path]
    stated = next((given.pop(key) for key in ("out_ty", "out_sinfo", "ty_args", "sinfo_args") if key in given), None)
    plain = list(args)
    if stated is None and named and len(plain) > len(named):
        stated = plain.pop(len(named))
    for name in named[len(plain) :]:
        if name not in given:
            reader.fail(node, "TS24", f"R.{path} needs {name!r}.")
        plain.append(given.pop(name))
    if not plain:
        reader.fail(node, "TS24", f"R.{path} needs a function.")
    if stated is None and path in _STATED:
        reader.fail(node, "TS24", f"R.{path} needs 'out_ty', the type of its result.")
    values = [_callee(reader, plain[0], node), *(reader.relax(arg, node) for arg in plain[1:])]
    if named and path.startswith(("call_tir", "call_dps")) and not isinstance(values[1], r.Tuple):
        known = type_of(values[1], reader.functions)
        if not isinstance(known, r.TupleType):
            values[1] = r.Tuple((values[1],), reader.text.span(node))
    if "tir_vars" in given:
        values.append(reader.relax(given.pop("tir_vars"), node, shape=True))
    items = members(stated) or ([] if stated is None or members(stated) is not None else [stated])
    types = tuple(reader.relax_type(item, node) for item in items)
    attrs = {key: reader.attribute(value, node) for key, value in given.items()}
    return r.Call(path, tuple(values), attrs, types, reader.text.span(node))


def _callee(reader: Values, value: Value, node: ast.Call) -> r.RelaxExpr:
    if isinstance(value, str):
        return r.ExternFunc(value, reader.text.span(node.args[0] if node.args else node))
    return reader.relax(value, node)
