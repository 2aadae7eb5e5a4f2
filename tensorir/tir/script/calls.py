"""Calls of TVMScript that compute: constants, operators, structures, builtins."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from tensorir.runtime.errors import Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import BUILTINS, Builtin, Effect, Operands, Result, find
from tensorir.tir.dtypes import BOOL, FLOAT32, HANDLE, INT32, VOID, DataType, other_bytes
from tensorir.tir.nodes import IterKind
from tensorir.tir.script.arithmetic import IllTyped, binary, convert, match
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.subscripts import extent
from tensorir.tir.script.syntax import Located
from tensorir.tir.script.values import Closure, DataTypeName, Name, Value, count, describe, entries, members, nearest

# A call that is being read, and the table of those who read calls.


@dataclass
class Call:
    """A call that is being read: its place, and its arguments by position and by name."""

    reader: Evaluator
    node: ast.Call
    name: str
    args: list[Value]
    kwargs: dict[str, Value]

    @property
    def span(self) -> Span:
        return self.reader.text.span(self.node)

    def take(self, *names: str, required: int = 0) -> list[Value]:
        """The arguments under these names, None where one is left out; refuses others."""
        if len(self.args) > len(names):
            self.fail("TS24", f"T.{self.name} takes {count(len(names), 'argument')}, and this gives {len(self.args)}.")
        found: dict[str, Value] = dict(zip(names, self.args, strict=False))
        for key, value in self.kwargs.items():
            if key not in names:
                self.fail("TS24", f"T.{self.name} has no parameter {key!r}.", did_you_mean(key, names))
            if key in found:
                self.fail("TS24", f"T.{self.name} is given {key!r} twice.")
            found[key] = value
        for k, name in enumerate(names[:required]):
            if found.get(name) is None:
                place = self.place(k, name) if name in found else self.node
                if isinstance(place, ast.Name):
                    help = f"give it a value: parse(text, names={{{place.id!r}: ...}})."
                    self.reader.fail(place, "TS24", f"{place.id!r} is None, where T.{self.name} needs {name!r}.", help)
                self.fail("TS24", f"T.{self.name} needs {name!r}.")
        return [found.get(name) for name in names]

    def untyped(self) -> Call:
        """The call without `dtype=`, which TVM drops where the operands tell the type of the result."""
        return replace(self, kwargs={key: value for key, value in self.kwargs.items() if key != "dtype"})

    def converted(self) -> tuple[Value, Value]:
        """The data type and the value of a conversion, which may come first where the type is given by name."""
        if len(self.args) == 1 and "dtype" in self.kwargs:
            (value,) = self.args
            dtype = self.kwargs["dtype"]
            if further := self.kwargs.keys() - {"dtype"}:
                self.fail("TS24", f"T.{self.name} has no parameter {min(further)!r}.")
            return dtype, value
        dtype, value = self.take("dtype", "value", required=2)
        return dtype, value

    def fail(self, code: str, message: str, help: str = "") -> NoReturn:
        self.reader.fail(self.node, code, message, help)

    def expr(self, value: Value, dtype: DataType | None = None) -> n.Expr:
        return self.reader.as_expr(value, self.node, dtype)

    def place(self, position: int, name: str) -> Located:
        """The span of an argument; the call's, where the text does not give it."""
        if position < len(self.node.args) and not any(isinstance(a, ast.Starred) for a in self.node.args):
            return self.node.args[position]
        return next((keyword.value for keyword in self.node.keywords if keyword.arg == name), self.node)

    def dtype(self, value: Value, default: DataType = FLOAT32) -> DataType:
        return default if value is None else self.reader.dtype(value, self.node)

    def string(self, value: Value, what: str) -> str:
        return self.reader.string(value, self.node, what)

    def number(self, value: Value, what: str) -> int:
        return self.reader.as_number(value, self.node, what)

    def annotations(self, value: Value) -> dict[str, n.Attribute]:
        if value is None:
            return {}
        found = entries(value)
        if found is None:
            self.fail("TS21", f"annotations are a mapping, and this is {describe(value)}.")
        reader, node = self.reader, self.node
        return {reader.string(key, node, "a key"): reader.attribute(item, node) for key, item in found.items()}


Maker = Callable[[Call], Value]
MAKERS: dict[str, Maker] = {}


def makes(*names: str) -> Callable[[Maker], Maker]:
    """Register a maker under names of the dialect `T`."""

    def register(maker: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(names, maker))
        return maker

    return register


# `T.float32(1)`, `T.handle(...)`, `T.Cast`: constants, variables without a name yet, conversions.


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


# `T.Add`, `T.min`, `T.Select`, `T.Ramp`, `T.Let`: operators under the names of functions.

_RAW: dict[str, tuple[str, Callable[[n.Expr, n.Expr, Span], n.Expr]]] = {
    "Add": ("+", n.Add),
    "Sub": ("-", n.Sub),
    "Mul": ("*", n.Mul),
    "Div": ("/", n.Div),
    "Mod": ("truncmod", n.Mod),
    "FloorDiv": ("//", n.FloorDiv),
    "FloorMod": ("%", n.FloorMod),
    "Min": ("min", n.Min),
    "Max": ("max", n.Max),
    "EQ": ("==", n.EQ),
    "NE": ("!=", n.NE),
    "LT": ("<", n.LT),
    "LE": ("<=", n.LE),
    "GT": (">", n.GT),
    "GE": (">=", n.GE),
    "And": ("and", n.And),
    "Or": ("or", n.Or),
}
_FOLDING = {
    "truncdiv": "truncdiv",
    "truncmod": "truncmod",
    "floordiv": "//",
    "floormod": "%",
    "indexdiv": "//",
    "indexmod": "%",
    "div": "/",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


def two(it: Call, names: tuple[str, str] = ("a", "b")) -> tuple[n.Expr, n.Expr]:
    """Two operands; a number takes the type of the other."""
    a, b = it.take(*names, required=2)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return first, it.expr(b, first.dtype)


@makes(*_RAW)
def _raw(it: Call) -> Value:
    a, b = two(it)
    return _RAW[it.name][1](a, b, it.span)


@makes("Not")
def _not(it: Call) -> Value:
    return n.Not(it.reader.condition(it.take("a", required=1)[0], it.place(0, "a")), it.span)


_RAW_BITS = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "LShift": "shift_left",
    "RShift": "shift_right",
}


@makes(*_RAW_BITS)
def _raw_bits(it: Call) -> Value:
    a, b = two(it)
    return n.Call(a.dtype, _RAW_BITS[it.name], (a, b), span=it.span)


@makes(*_FOLDING)
def _folding(it: Call) -> Value:
    if it.name.startswith(("bitwise_", "shift_")):
        a, b = two(it.untyped(), ("x", "y"))
    else:
        a, b = (it.expr(value) for value in it.untyped().take("a", "b", required=2))
    return binary(_FOLDING[it.name], a, b, it.span)


@makes("min", "max")
def extreme(it: Call) -> Value:
    """`T.min(a, b)`; the reductions of TE (`T.min(x, axis=...)`) are no part of printed text."""
    args = [arg for arg in it.args if not isinstance(arg, str)]
    if len(args) == 2 and all(isinstance(arg, int | float) for arg in args):
        return binary(it.name, args[0], args[1])
    a, b = it.take("a", "b", required=2)
    return binary(it.name, it.expr(a), it.expr(b), it.span)


@makes("ceildiv")
def _ceildiv(it: Call) -> Value:
    a, b = it.untyped().take("lhs", "rhs", required=2)
    if isinstance(a, int) and isinstance(b, int):
        return binary("//", a + b - 1, b)
    total = binary("-", binary("+", a, b, it.span), 1, it.span)
    return binary("//", total, b, it.span)


@makes("Select")
def _select(it: Call) -> Value:
    condition, a, b = it.take("condition", "true_value", "false_value", required=3)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return n.Select(it.reader.condition(condition, it.place(0, "condition")), first, it.expr(b, first.dtype), it.span)


@makes("if_then_else")
def _if_then_else(it: Call) -> Value:
    condition, a, b, _, _ = it.take("cond", "t", "f", "dtype", "span", required=3)
    first, second = it.expr(a), it.expr(b)
    if first.dtype != second.dtype and "handle" not in (first.dtype.code, second.dtype.code):
        first, second = match(first, second)
    asked = it.reader.condition(condition, it.place(0, "cond"))
    return n.Call(first.dtype, "if_then_else", (asked, first, second), span=it.span)


@makes("Ramp", "ramp")
def _ramp(it: Call) -> Value:
    base, stride, lanes = it.take("base", "stride", "lanes", required=3)
    start = it.expr(base, stride.dtype if isinstance(stride, n.Expr) else None)
    step = it.expr(stride, start.dtype)
    if start.dtype.is_handle or step.dtype.is_handle:
        it.fail("TS21", "base and stride of a T.Ramp are numbers, and this is a pointer.")
    return n.Ramp(start, step, _lanes(it, lanes), it.span)


@makes("Broadcast", "broadcast")
def _broadcast(it: Call) -> Value:
    value, lanes = it.take("value", "lanes", required=2)
    return n.Broadcast(it.expr(value), _lanes(it, lanes), it.span)


def _lanes(it: Call, value: Value) -> int | n.Expr:
    match value:
        case n.IntImm(lanes):
            return lanes
        case int() if 0 < value <= 65_536:
            return value
        case n.Expr():
            return value
        case _:
            it.fail("TS21", "the number of lanes is a positive constant.")


@makes("Shuffle")
def _shuffle(it: Call) -> Value:
    vectors, indices = it.take("vectors", "indices", required=2)
    return n.Shuffle(it.reader.exprs(vectors, it.node), it.reader.exprs(indices, it.node), it.span)


@makes("Let")
def _let(it: Call) -> Value:
    """`T.Let(body, where={x: value})`, or the older `T.Let(x, value, body)`."""
    if "where" in it.kwargs:
        where = it.kwargs["where"]
        body = it.expr(it.args[0]) if it.args else it.expr(it.kwargs.get("expr"))
        for var, value in reversed((entries(where) or {}).items()):
            if not isinstance(var, n.Var):
                it.fail("TS21", "'where' gives values to variables.")
            body = n.Let(var, it.reader.bound(var.name, var.type, value, it.node), body, it.span)
        return body
    var, value, body = it.take("var", "value", "body", required=3)
    if not isinstance(var, n.Var):
        it.fail("TS21", "T.Let binds a variable.")
    return n.Let(var, it.reader.bound(var.name, var.type, value, it.node), it.expr(body), it.span)


@makes("infinity", "max_value", "min_value")
def _limit(it: Call) -> Value:
    dtype = it.dtype(it.take("dtype", "span", required=1)[0])
    if not dtype.is_float and (it.name == "infinity" or not dtype.is_integer):
        it.fail("TS22", f"{dtype} has no number for T.{it.name}.")
    if dtype.is_integer and it.name != "infinity":
        return n.IntImm(dtype.range[it.name == "max_value"], dtype, it.span)
    if it.name == "infinity":
        return n.FloatImm(float("inf"), dtype, it.span)
    return n.FloatImm(dtype.limits[it.name == "max_value"], dtype, it.span)


# `T.comm_reducer`, `T.iter_var`, `T.index_map`, `T.target`: what attributes and reductions are made of.


@makes("Range")
def _range(it: Call) -> Value:
    begin, end = it.take("begin", "end", required=1)
    start, stop = (it.expr(begin), it.expr(end)) if end is not None else (const(0, INT32), it.expr(begin))
    return n.Range(start, extent(start, stop), it.span)


@makes("iter_var")
def _iter_var(it: Call) -> Value:
    var, dom, kind, tag = it.take("v", "dom", "iter_type", "thread_tag", required=1)
    kinds = {
        "DataPar": IterKind.DATA_PARALLEL,
        "ThreadIndex": IterKind.THREAD_INDEX,
        "CommReduce": IterKind.COMM_REDUCE,
    }
    kinds |= {k.value.capitalize(): k for k in IterKind} | {
        "Ordered": IterKind.ORDERED,
        "Tensorize": IterKind.TENSORIZED,
    }
    word = it.string(kind, "the kind")
    if word not in kinds:
        it.fail("TS21", f"{word!r} is no kind of iterator.", did_you_mean(word, kinds))
    if isinstance(var, n.IterVar):
        var = var.var
    elif isinstance(var, str):
        var = n.Var(var, n.PrimType(INT32), it.span)
    if not isinstance(var, n.Var):
        it.fail("TS21", "an iterator has a variable.")
    domain = None
    if isinstance(dom, n.Range):
        domain = dom
    elif (pair := members(dom)) is not None and len(pair) == 2:
        start, stop = it.expr(pair[0]), it.expr(pair[1])
        domain = n.Range(start, extent(start, stop), it.span)
    return n.IterVar(domain, var, kinds[word], "" if tag is None else it.string(tag, "the tag"), it.span)


@makes("comm_reducer")
def _comm_reducer(it: Call) -> Value:
    combiner, identity = it.take("combiner", "identity", required=2)
    elements = it.reader.exprs(identity, it.node)
    if not isinstance(combiner, Closure):
        it.fail("TS21", "a combiner is a lambda.")
    params, result = it.reader.apply(combiner, [e.dtype for e in elements] * 2)
    half = len(elements)
    return n.CommReducer(params[:half], params[half:], it.reader.exprs(result, it.node), elements, it.span)


@makes("Reduce")
def _reduce(it: Call) -> Value:
    names = ("combiner", "source", "init", "rdom", "value_index", "condition")
    combiner, source, init, axis, index, condition = it.take(*names, required=2)
    if not isinstance(combiner, n.CommReducer):
        it.fail("TS21", "T.Reduce combines by a T.comm_reducer.")
    axes = members(axis) or ([] if axis is None or members(axis) is not None else [axis])
    if not all(isinstance(a, n.IterVar) for a in axes):
        it.fail("TS21", "T.Reduce runs over iterators.")
    return n.Reduce(
        combiner,
        it.reader.exprs(source, it.node),
        () if init is None else it.reader.exprs(init, it.node),
        tuple(a for a in axes if isinstance(a, n.IterVar)),
        0 if index is None else it.number(index, "the index"),
        n.IntImm(1, BOOL, it.span) if condition is None else it.expr(condition, BOOL),
        it.span,
    )


@makes("index_map")
def _index_map(it: Call) -> Value:
    mapping, inverse, dtype = it.take("mapping", "inverse_index_map", "index_dtype", required=1)
    if not isinstance(mapping, Closure):
        it.fail("TS21", "an index map is a lambda.")
    index = it.dtype(dtype, DataType("int", 64))
    params, result = it.reader.apply(mapping, [index])
    back = None
    if isinstance(inverse, Closure):
        names, values = it.reader.apply(inverse, [index])
        back = n.IndexMap(names, it.reader.exprs(values, it.node, index), None, it.span)
    return n.IndexMap(params, it.reader.exprs(result, it.node, index), back, it.span)


@makes("target")
def _target(it: Call) -> Value:
    config, host = it.take("target_config", "host", required=1)
    found = it.reader.attribute(config, it.node)
    if isinstance(found, n.Target):
        return found
    if not isinstance(found, str | Mapping):
        it.fail("TS21", "a target is a string or a mapping.")
    other = n.Target(host, None) if isinstance(host, str | dict) else host  # type: ignore[arg-type]
    return n.Target(found, other if isinstance(other, n.Target) else None, it.span)


@makes("meta_var")
def _meta_var(it: Call) -> Value:
    return it.take("value", required=1)[0]


@makes("static_assert")
def _static_assert(it: Call) -> Value:
    holds, message = it.take("x", "message", required=1)
    if holds is False:
        it.fail("TS25", f"a static assertion fails: {message or 'no message'}.")
    return None


# Builtins, functions of the module, and opaque intrinsics.


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
