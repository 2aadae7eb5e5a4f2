"""Calls of TVMScript: what `T.name(...)`, a method of a buffer, or a function of the module makes.

`_MAKERS` is the table of names with a grammar of their own; every other name is looked up among the builtins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tensorir.errors import did_you_mean
from tensorir.source import Span
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.builtins import BUILTINS, Builtin, Operands, Result, find
from tensorir.tir.dtypes import BOOL, FLOAT32, HANDLE, INT32, VOID, DataType
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script import arithmetic
from tensorir.tir.script.arithmetic import IllTyped, as_expr, binary, convert, match
from tensorir.tir.script.evaluate import Evaluator, count, describe, point
from tensorir.tir.script.extents import extent
from tensorir.tir.script.syntax import Failure
from tensorir.tir.script.values import (
    Axis,
    BlockForm,
    BoundMethod,
    Broken,
    BufferSpec,
    Closure,
    DataTypeName,
    Form,
    InitForm,
    LetType,
    LoopForm,
    Name,
    ThreadVar,
    TypeVariable,
    Value,
)

__all__ = ["call"]


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
        for name in names[:required]:
            if found.get(name) is None:
                self.fail("TS24", f"T.{self.name} needs {name!r}.")
        return [found.get(name) for name in names]

    def fail(self, code: str, message: str, help: str = "") -> NoReturn:
        self.reader.fail(self.node, code, message, help)

    def expr(self, value: Value, dtype: DataType | None = None) -> n.Expr:
        return self.reader.as_expr(value, self.node, dtype)

    def dtype(self, value: Value, default: DataType = FLOAT32) -> DataType:
        return default if value is None else self.reader.dtype(value, self.node)

    def string(self, value: Value, what: str) -> str:
        return self.reader.string(value, self.node, what)

    def number(self, value: Value, what: str) -> int:
        return self.reader.as_number(value, self.node, what)

    def annotations(self, value: Value) -> dict[str, n.Attribute]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail("TS21", f"annotations are a mapping, and this is {describe(value)}.")
        found = self.reader.attribute(value, self.node)
        assert isinstance(found, dict)
        return found


Maker = Callable[[Call], Value]
_MAKERS: dict[str, Maker] = {}


def _makes(*names: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        _MAKERS.update(dict.fromkeys(names, maker))
        return maker

    return register


def call(reader: Evaluator, node: ast.Call, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a call stands for."""
    if any(isinstance(arg, Broken) for arg in (*args, *kwargs.values())):
        raise Failure(())
    match target:
        case Name("T", path):
            maker = _MAKERS.get(path)
            it = Call(reader, node, path, args, kwargs)
            return maker(it) if maker is not None else _builtin(it)
        case DataTypeName(dtype):
            return _constant(Call(reader, node, str(dtype), args, kwargs), dtype)
        case n.GlobalVar(name):
            return _global_call(Call(reader, node, name, args, kwargs), target)
        case BoundMethod(n.Buffer() as buffer, name):
            return _buffer_method(Call(reader, node, name, args, kwargs), buffer)
        case BoundMethod(n.Expr() as value, name):
            return _expr_method(Call(reader, node, name, args, kwargs), value)
        case LetType():
            return Form("let", tuple(args), kwargs, reader.text.span(node))
        case Name("python", name):
            return _python_call(Call(reader, node, name, args, kwargs))
        case Name("I", "meta_var") if len(args) == 1:
            return args[0]
        case Name("tvm", path) if path.rsplit(".", 1)[-1] == "TypeVar":
            return _python_call(Call(reader, node, "TypeVar", args, kwargs))
        case Name("tvm", path):
            return n.Opaque(ast.unparse(node), reader.text.span(node))
        case Closure():
            reader.fail(node, "TS07", "a lambda cannot be called here.")
        case _:
            reader.fail(node.func, "TS11", f"{describe(target)} cannot be called.")


def _python_call(it: Call) -> Value:
    """The few functions of Python that fold."""
    match it.name, it.args:
        case "range", _:
            return _loop(it, ForKind.SERIAL)
        case "TypeVar", [str(name)]:
            return TypeVariable(name)
        case "float", [int() | float() | str() as value]:
            try:
                return float(value)
            except ValueError:
                it.fail("TS21", "this is no number.")
        case "int", [int() | float() as value]:
            if value != value or value in (float("inf"), float("-inf")):
                it.fail("TS21", "this is no integer.")
            return int(value)
        case "bool", [bool() | int() | float() as value]:
            return bool(value)
        case "len", [tuple() | list() | str() | dict() as value]:
            return len(value)
        case "len", [n.Buffer() as buffer]:
            return len(buffer.shape)
        case (("tuple" | "list"), [tuple() | list() as value]):
            return tuple(value) if it.name == "tuple" else list(value)
        case "abs", [int() | float() as value]:
            return abs(value)
        case (("min" | "max"), [_, _]):
            return _extreme(it)
        case _:
            it.fail("TS07", f"{it.name!r} with these arguments is no part of TVMScript.")


# ------------------------------------------------------------------------------------------ constants, types, variables


def _constant(it: Call, dtype: DataType) -> Value:
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
                if value != int(value) if abs(value) < 1e300 else True:
                    it.fail("TS20", f"{value} is no {dtype}.")
                value = int(value)
            return const(value, dtype, it.span) if not dtype.is_bool else n.IntImm(int(bool(value)), BOOL, it.span)
        case bool() | int() | float():
            return n.Broadcast(const(value, dtype.element, it.span), dtype.lanes, it.span)
        case _:
            return convert(it.expr(value), dtype, it.span)


@_makes("handle", "ptr", "Ptr", "buffer_var")
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


@_makes("var", "Var")
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


@_makes("TensorMap")
def _tensor_map(it: Call) -> Value:
    return n.Var("", n.PointerType(None, "tensormap"), it.span)


@_makes("Cast", "cast")
def _cast(it: Call) -> Value:
    first, second = it.take("dtype", "value", required=2)
    if it.name == "Cast":
        return n.Cast(it.expr(second), it.dtype(first), it.span)
    if isinstance(first, n.Expr) or not isinstance(second, n.Expr):
        first, second = second, first
    return convert(it.expr(second), it.dtype(first), it.span)


@_makes("IntImm", "FloatImm")
def _immediate(it: Call) -> Value:
    dtype, value = it.take("dtype", "value", required=2)
    if not isinstance(value, int | float):
        it.fail("TS21", f"a constant stands here, and this is {describe(value)}.")
    assert isinstance(value, int | float)
    return const(value, it.dtype(dtype), it.span)


@_makes("StringImm")
def _string(it: Call) -> Value:
    return n.StringImm(it.string(it.take("value", required=1)[0], "the value"), it.span)


# --------------------------------------------------------------------------------------------------------- operators

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


def _two(it: Call) -> tuple[n.Expr, n.Expr]:
    """Two operands; a number takes the type of the other."""
    a, b = it.take("a", "b", required=2)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return first, it.expr(b, first.dtype)


@_makes(*_RAW)
def _raw(it: Call) -> Value:
    a, b = _two(it)
    return _RAW[it.name][1](a, b, it.span)


@_makes("Not")
def _not(it: Call) -> Value:
    return n.Not(it.expr(it.take("a", required=1)[0], BOOL), it.span)


_RAW_BITS = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "LShift": "shift_left",
    "RShift": "shift_right",
}


@_makes(*_RAW_BITS)
def _raw_bits(it: Call) -> Value:
    a, b = _two(it)
    return n.Call(a.dtype, _RAW_BITS[it.name], (a, b), span=it.span)


@_makes(*_FOLDING)
def _folding(it: Call) -> Value:
    a, b = _two(it)
    return binary(_FOLDING[it.name], a, b, it.span)


@_makes("min", "max")
def _extreme(it: Call) -> Value:
    """`T.min(a, b)`; the reductions of TE (`T.min(x, axis=...)`) are no part of printed text."""
    args = [arg for arg in it.args if not isinstance(arg, str)]
    if len(args) == 2 and all(isinstance(arg, int | float) for arg in args):
        return (min if it.name == "min" else max)(args[0], args[1])  # type: ignore[type-var]
    a, b = _two(it)
    return binary(it.name, a, b, it.span)


@_makes("ceildiv")
def _ceildiv(it: Call) -> Value:
    a, b = it.take("lhs", "rhs", required=2)
    if isinstance(a, int) and isinstance(b, int):
        return binary("//", a + b - 1, b)
    total = binary("-", binary("+", a, b, it.span), 1, it.span)
    return binary("//", total, b, it.span)


@_makes("Select")
def _select(it: Call) -> Value:
    condition, a, b = it.take("condition", "true_value", "false_value", required=3)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    return n.Select(it.expr(condition, BOOL), first, it.expr(b, first.dtype), it.span)


@_makes("if_then_else")
def _if_then_else(it: Call) -> Value:
    condition, a, b, _, _ = it.take("cond", "t", "f", "dtype", "span", required=3)
    first = it.expr(a, b.dtype if isinstance(b, n.Expr) else None)
    second = it.expr(b, first.dtype)
    if first.dtype != second.dtype and "handle" not in (first.dtype.code, second.dtype.code):
        first, second = match(first, second)
    return n.Call(first.dtype, "if_then_else", (it.expr(condition, BOOL), first, second), span=it.span)


@_makes("Ramp", "ramp")
def _ramp(it: Call) -> Value:
    base, stride, lanes = it.take("base", "stride", "lanes", required=3)
    start = it.expr(base, stride.dtype if isinstance(stride, n.Expr) else None)
    return n.Ramp(start, it.expr(stride, start.dtype), _lanes(it, lanes), it.span)


@_makes("Broadcast", "broadcast")
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


@_makes("Shuffle")
def _shuffle(it: Call) -> Value:
    vectors, indices = it.take("vectors", "indices", required=2)
    return n.Shuffle(it.reader.exprs(vectors, it.node), it.reader.exprs(indices, it.node), it.span)


@_makes("Let")
def _let(it: Call) -> Value:
    """`T.Let(body, where={x: value})`, or the older `T.Let(x, value, body)`."""
    if "where" in it.kwargs:
        where = it.kwargs["where"]
        body = it.expr(it.args[0]) if it.args else it.expr(it.kwargs.get("expr"))
        assert isinstance(where, dict)
        for var, value in reversed(where.items()):
            if not isinstance(var, n.Var):
                it.fail("TS21", "'where' gives values to variables.")
            body = n.Let(var, it.expr(value, var.dtype), body, it.span)
        return body
    var, value, body = it.take("var", "value", "body", required=3)
    if not isinstance(var, n.Var):
        it.fail("TS21", "T.Let binds a variable.")
    return n.Let(var, it.expr(value, var.dtype), it.expr(body), it.span)


@_makes("infinity", "max_value", "min_value")
def _limit(it: Call) -> Value:
    dtype = it.dtype(it.take("dtype", "span", required=1)[0])
    if dtype.is_integer and it.name != "infinity":
        return n.IntImm(dtype.range[it.name == "max_value"], dtype, it.span)
    if it.name == "infinity":
        return n.FloatImm(float("inf"), dtype, it.span)
    import ml_dtypes

    largest = float(ml_dtypes.finfo(dtype.numpy).max)
    return n.FloatImm(largest if it.name == "max_value" else -largest, dtype, it.span)


@_makes("Range")
def _range(it: Call) -> Value:
    begin, end = it.take("begin", "end", required=1)
    start, stop = (it.expr(begin), it.expr(end)) if end is not None else (const(0, INT32), it.expr(begin))
    return n.Range(start, extent(start, stop), it.span)


@_makes("iter_var")
def _iter_var(it: Call) -> Value:
    var, dom, kind, tag = it.take("v", "dom", "iter_type", "thread_tag", required=3)
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
    if isinstance(var, str):
        var = n.Var(var, n.PrimType(INT32), it.span)
    if not isinstance(var, n.Var):
        it.fail("TS21", "an iterator has a variable.")
    domain = None
    if isinstance(dom, n.Range):
        domain = dom
    elif isinstance(dom, tuple | list) and len(dom) == 2:
        start, stop = it.expr(dom[0]), it.expr(dom[1])
        domain = n.Range(start, extent(start, stop), it.span)
    return n.IterVar(domain, var, kinds[word], "" if tag is None else it.string(tag, "the tag"), it.span)


@_makes("comm_reducer")
def _comm_reducer(it: Call) -> Value:
    combiner, identity = it.take("combiner", "identity", required=2)
    elements = it.reader.exprs(identity, it.node)
    if not isinstance(combiner, Closure):
        it.fail("TS21", "a combiner is a lambda.")
    params, result = it.reader.apply(combiner, [e.dtype for e in elements] * 2)
    half = len(elements)
    return n.CommReducer(params[:half], params[half:], it.reader.exprs(result, it.node), elements, it.span)


@_makes("Reduce")
def _reduce(it: Call) -> Value:
    names = ("combiner", "source", "init", "rdom", "value_index", "condition")
    combiner, source, init, axis, index, condition = it.take(*names, required=2)
    if not isinstance(combiner, n.CommReducer):
        it.fail("TS21", "T.Reduce combines by a T.comm_reducer.")
    axes = axis if isinstance(axis, tuple | list) else () if axis is None else (axis,)
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


@_makes("index_map")
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


@_makes("target")
def _target(it: Call) -> Value:
    config, host = it.take("target_config", "host", required=1)
    found = it.reader.attribute(config, it.node)
    if isinstance(found, n.Target):
        return found
    if not isinstance(found, str | Mapping):
        it.fail("TS21", "a target is a string or a mapping.")
    other = n.Target(host, None) if isinstance(host, str | dict) else host  # type: ignore[arg-type]
    return n.Target(found, other if isinstance(other, n.Target) else None, it.span)


@_makes("meta_var")
def _meta_var(it: Call) -> Value:
    return it.take("value", required=1)[0]


@_makes("static_assert")
def _static_assert(it: Call) -> Value:
    holds, message = it.take("x", "message", required=1)
    if holds is False:
        it.fail("TS25", f"a static assertion fails: {message or 'no message'}.")
    return None


# --------------------------------------------------------------------------------------------------------------- loops


@_makes("serial", "parallel", "vectorized", "unroll", "Serial", "Parallel", "Vectorized", "Unroll", "unrolled")
def _loops(it: Call) -> Value:
    return _loop(it, ForKind("unroll" if it.name == "unrolled" else it.name.lower()))


def _loop(it: Call, kind: ForKind) -> Value:
    start, stop, step, annotations, unused = it.take("start", "stop", "step", "annotations", "thread")
    if start is None:
        it.fail("TS24", "a loop needs an extent.")
    if unused is not None:
        it.fail("TS24", f"T.{it.name} has no parameter 'thread'.", help="use T.thread_binding.")
    by = None if step is None else it.expr(step)
    return LoopForm((_bounds(it, start, stop),), kind, "", it.annotations(annotations), by)


def _bounds(it: Call, start: Value, stop: Value) -> tuple[n.Expr, n.Expr]:
    """Minimum and extent of `range(start, stop)`; both get the wider type."""
    for value in (start, stop):
        if isinstance(value, float) or (isinstance(value, n.Expr) and not value.dtype.is_integer):
            it.fail("TS21", "the bounds of a loop are integers.")
    if stop is None:
        size = it.expr(start)
        return const(0, size.dtype, it.span), size
    first = it.expr(start, stop.dtype if isinstance(stop, n.Expr) else None)
    last = it.expr(stop, first.dtype)
    length = extent(first, last, it.span)
    if isinstance(first, n.IntImm) and first.dtype.bits < length.dtype.bits:
        first = n.IntImm(first.value, length.dtype, first.span)
    elif isinstance(length, n.IntImm) and length.dtype.bits < first.dtype.bits:
        length = n.IntImm(length.value, first.dtype, length.span)
    return first, length


@_makes("grid")
def _grid(it: Call) -> Value:
    extents: list[tuple[n.Expr, n.Expr]] = []
    it.kwargs.pop("dtype", None)
    if it.kwargs:
        it.fail("TS24", f"T.grid has no parameter {next(iter(it.kwargs))!r}.")
    for arg in it.args:
        pair = arg if isinstance(arg, tuple | list) else (arg, None)
        if len(pair) != 2:
            it.fail("TS24", "an extent of T.grid is a number, or a pair of bounds.")
        extents.append(_bounds(it, pair[0], pair[1]))
    return LoopForm(tuple(extents), ForKind.SERIAL)


@_makes("thread_binding")
def _thread_binding(it: Call) -> Value:
    start, stop, thread, annotations = it.take("start", "stop", "thread", "annotations", required=1)
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        it.fail("TS24", "T.thread_binding needs 'thread'.")
    tag = it.string(thread, "the thread")
    return LoopForm((_bounds(it, start, stop),), ForKind.THREAD_BINDING, tag, it.annotations(annotations))


@_makes("Pipelined")
def _pipelined(it: Call) -> Value:
    start, stop, stages = it.take("start", "stop", "num_stages", required=1)
    annotations: dict[str, n.Attribute] = {}
    if stages is not None:
        annotations["num_stages"] = it.number(stages, "the number of stages")
    return LoopForm((_bounds(it, start, stop),), ForKind.SERIAL, "", annotations)


# -------------------------------------------------------------------------------------------------------------- blocks


@_makes("sblock", "block")
def _block(it: Call) -> Value:
    name, unrealized, _ = it.take("name", "no_realize", "exec_scope")
    return BlockForm("" if name is None else it.string(name, "the name"), unrealized is not True)


@_makes("init")
def _init(it: Call) -> Value:
    it.take()
    return InitForm()


_AXES = {kind.value: kind for kind in (IterKind.DATA_PARALLEL, IterKind.COMM_REDUCE, IterKind.ORDERED, IterKind.OPAQUE)}
_AXES |= {"S": IterKind.DATA_PARALLEL, "R": IterKind.COMM_REDUCE}


@_makes(*(f"axis.{name}" for name in _AXES))
def _axis(it: Call) -> Value:
    dom, value, dtype = it.take("dom", "binding", "dtype", required=2)
    chosen = None if dtype is None else it.dtype(dtype)
    if isinstance(dom, n.Range):
        domain = dom
    elif isinstance(dom, tuple | list):
        if len(dom) != 2:
            it.fail("TS24", "the domain of an axis is an extent, or a pair of bounds.")
        low, high = dom
        start = it.expr(low, high.dtype if isinstance(high, n.Expr) else chosen)
        stop = it.expr(high, start.dtype)
        domain = n.Range(start, extent(start, stop), it.span)
    else:
        size = it.expr(dom, value.dtype if isinstance(value, n.Expr) and chosen is None else chosen)
        domain = n.Range(const(0, size.dtype, it.span), size, it.span)
    bound = it.expr(value, domain.extent.dtype)
    return Axis(domain, bound, _AXES[it.name.removeprefix("axis.")], chosen or domain.extent.dtype)


@_makes("axis.remap")
def _remap(it: Call) -> Value:
    """One axis per letter; the domain of each is that of the loop whose variable it takes."""
    kinds, bindings, _ = it.take("kinds", "bindings", "dtype", required=2)
    letters = it.string(kinds, "the kinds")
    values = bindings if isinstance(bindings, tuple | list) else (bindings,)
    if len(letters) != len(values):
        it.fail("TS24", f"T.axis.remap has {len(letters)} kinds and {len(values)} loop variables.")
    axes: list[Axis] = []
    for letter, value in zip(letters, values, strict=True):
        if letter not in "SR":
            it.fail("TS24", f"{letter!r} is no kind of axis; 'S' is spatial, 'R' a reduction.")
        domain = it.reader.loops.get(value) if isinstance(value, n.Var) else None
        if not isinstance(value, n.Var) or domain is None:
            it.fail("TS24", "T.axis.remap takes variables of the enclosing loops.")
        kind = IterKind.DATA_PARALLEL if letter == "S" else IterKind.COMM_REDUCE
        axes.append(Axis(domain, value, kind, value.dtype))
    return tuple(axes) if len(axes) != 1 else (axes[0],)


# ------------------------------------------------------------------------------------------------------------- buffers

_BUFFER_FIELDS = ("data", "strides", "elem_offset", "byte_offset", "scope", "align", "offset_factor")


@_makes("Buffer", "buffer", "buffer_decl", "Tensor", "StridedTensor")
def _buffer(it: Call) -> Value:
    return _spec(it, ("shape", "dtype", *_BUFFER_FIELDS), "type")


@_makes("match_buffer")
def _match_buffer(it: Call) -> Value:
    return _spec(it, ("param", "shape", "dtype", *_BUFFER_FIELDS), "match")


@_makes("alloc_buffer")
def _alloc_buffer(it: Call) -> Value:
    return _spec(it, ("shape", "dtype", *_BUFFER_FIELDS), "block" if it.reader.old else "alloc")


@_makes("alloc_local", "alloc_shared", "smem")
def _alloc_scoped(it: Call) -> Value:
    it.kwargs.setdefault("scope", "local" if it.name == "alloc_local" else "shared")
    return _spec(it, ("shape", "dtype", *_BUFFER_FIELDS), "alloc")


@_makes("sblock_alloc_buffer")
def _block_alloc(it: Call) -> Value:
    return _spec(it, ("shape", "dtype", *_BUFFER_FIELDS), "block")


@_makes("decl_buffer")
def _decl_buffer(it: Call) -> Value:
    return _spec(it, ("shape", "dtype", *_BUFFER_FIELDS), "declare")


@_makes("alloc_scalar", "local_scalar", "shared_scalar")
def _alloc_scalar(it: Call) -> Value:
    dtype, scope = it.take("dtype", "scope")
    default = {"alloc_scalar": "global", "local_scalar": "local", "shared_scalar": "shared"}[it.name]
    place = default if scope is None else it.string(scope, "the scope")
    return BufferSpec((const(1, INT32),), it.dtype(dtype), (), None, place, 0, 0, (), "", None, purpose="scalar")


_EXTRA_FIELDS = (
    "buffer_type",
    "axis_separators",
    "layout",
    "allocated_addr",
    "annotations",
    "buffer_name",
    "logical_scope",
)


def _spec(it: Call, names: tuple[str, ...], purpose: str) -> BufferSpec:
    found = dict(zip((*names, *_EXTRA_FIELDS), it.take(*names, *_EXTRA_FIELDS), strict=True))
    source = found.get("param")
    shape = found.get("shape")
    if purpose == "match" and not isinstance(source, n.Var | n.Buffer | n.BufferRegion | n.BufferLoad):
        it.fail("TS21", f"T.match_buffer takes a parameter or a region, and this is {describe(source)}.")
    if isinstance(source, n.BufferLoad):
        source = n.BufferRegion(source.buffer, tuple(map(point, source.indices)), source.span)
    if shape is None:
        if not isinstance(source, n.BufferRegion):
            it.fail("TS24", f"T.{it.name} needs 'shape'.")
        shape = tuple(part.extent for part in source.region)
    dtype = it.dtype(found["dtype"])
    if found["dtype"] is None and isinstance(source, n.BufferRegion):
        dtype = source.buffer.dtype
    if dtype.is_void or dtype.lanes == 0:
        it.fail("TS22", "a buffer has no elements of type void.")
    strides = found["strides"]
    offset = found["elem_offset"]
    if found["byte_offset"] is not None and offset is None:
        offset = binary("//", found["byte_offset"], max(1, dtype.bits * dtype.lanes // 8))
    separators = found["axis_separators"] or ()
    if not isinstance(separators, tuple | list):
        it.fail("TS21", "axis separators are a list.")
    data = found["data"]
    return BufferSpec(
        it.reader.exprs(shape, it.node),
        dtype,
        () if strides is None else it.reader.exprs(strides, it.node),
        None if offset is None else _offset(it, offset),
        "global" if found["scope"] is None else it.string(found["scope"], "the scope"),
        0 if found["align"] is None else it.number(found["align"], "the alignment"),
        0 if found["offset_factor"] is None else it.number(found["offset_factor"], "the offset factor"),
        tuple(it.number(s, "an axis separator") for s in separators),
        "" if found["buffer_type"] is None else it.string(found["buffer_type"], "the buffer's type"),
        None if found["layout"] is None else it.reader.attribute(found["layout"], it.node),
        None if data is None else it.expr(data),
        it.annotations(found["annotations"]),
        source if isinstance(source, n.Var | n.Buffer | n.BufferRegion) else None,
        purpose,
        it.span,
    )


def _offset(it: Call, value: Value) -> n.Expr:
    return it.reader.size(value, it.node)


def _buffer_method(it: Call, buffer: n.Buffer) -> Value:
    match it.name:
        case "scope":
            return buffer.scope
        case "view":
            return _view(it, buffer)
        case "access_ptr":
            return _access_ptr(it, buffer)
        case "vload":
            begin, dtype = it.take("begin", "dtype", required=1)
            return n.BufferLoad(buffer, _vector(it, buffer, begin, dtype), span=it.span)
        case "vstore":
            begin, value = it.take("begin", "value", required=2)
            stored = it.expr(value)
            return n.BufferStore(buffer, stored, _vector(it, buffer, begin, str(stored.dtype)), span=it.span)
        case "ptr_to":
            (indices,) = it.take("indices", required=1)
            load = n.BufferLoad(buffer, it.reader.exprs(indices, it.node), span=it.span)
            return n.Call(HANDLE, "address_of", (load,), span=it.span)
        case "offset_of":
            (indices,) = it.take("indices", required=1)
            return [_flat_index(buffer, it.reader.exprs(indices, it.node), it.span)]
        case _:
            methods = ("view", "access_ptr", "vload", "vstore", "scope", "ptr_to", "offset_of")
            it.fail("TS11", f"buffers have no method {it.name!r}.", did_you_mean(it.name, methods))


def _view(it: Call, buffer: n.Buffer) -> BufferSpec:
    """Another shape or another element type for the same memory."""
    dtype, args = buffer.dtype, list(it.args)
    if "dtype" in it.kwargs or (len(args) == 1 and isinstance(args[0], str | DataTypeName)):
        dtype = it.dtype(
            it.kwargs.pop("dtype", args.pop() if args and isinstance(args[-1], str | DataTypeName) else None)
        )
    if "shape" in it.kwargs:
        args = [it.kwargs.pop("shape")]
    layout = it.kwargs.pop("layout", None)
    if it.kwargs:
        it.fail("TS24", f"view has no parameter {next(iter(it.kwargs))!r}.")
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = list(args[0])
    shape = it.reader.exprs(args, it.node) if args else buffer.shape
    if not args and dtype.bits != buffer.dtype.bits and shape:
        last = binary("//", binary("*", shape[-1], buffer.dtype.bits), dtype.bits)
        shape = (*shape[:-1], it.expr(last, shape[-1].dtype))
    kept = None if layout is None else it.reader.attribute(layout, it.node)
    return BufferSpec(
        shape,
        dtype,
        buffer.strides if len(shape) == len(buffer.strides) else (),
        buffer.elem_offset,
        buffer.scope,
        buffer.data_alignment,
        buffer.offset_factor,
        (),
        "",
        kept,
        data=buffer.data,
        source=buffer,
        purpose="view",
        span=it.span,
    )


def _access_ptr(it: Call, buffer: n.Buffer) -> Value:
    names = ("access_mask", "ptr_type", "content_lanes", "offset", "extent")
    mask, _, _, offset, length = it.take(*names, required=1)
    bits = {"r": 1, "w": 2}
    if isinstance(mask, str):
        if set(mask) - set(bits):
            it.fail("TS21", f"{mask!r} is no access; write 'r', 'w' or 'rw'.")
        mask = sum(bits[letter] for letter in sorted(set(mask)))
    size: Value = 1
    for part in buffer.shape:
        size = binary("*", size, part)
    start = 0 if offset is None else offset
    if length is None:
        length = binary("-", size, start)
    annotation = n.Call(buffer.dtype, "type_annotation", (), span=it.span)
    base: Value = start if buffer.elem_offset is None else binary("+", buffer.elem_offset, start)
    args = (annotation, buffer.data, it.expr(base), it.expr(length), it.expr(mask))
    return n.Call(HANDLE, "tvm_access_ptr", args, span=it.span)


def _vector(it: Call, buffer: n.Buffer, begin: Value, dtype: Value) -> tuple[n.Expr, ...]:
    indices = it.reader.exprs(begin, it.node)
    lanes = 1 if dtype is None else it.dtype(dtype).lanes // buffer.dtype.lanes
    if lanes > 1:
        last = indices[-1]
        indices = (*indices[:-1], n.Ramp(last, const(1, last.dtype), lanes, it.span))
    return indices


def _flat_index(buffer: n.Buffer, indices: tuple[n.Expr, ...], span: Span) -> n.Expr:
    total: Value = 0
    for position, index in enumerate(indices):
        if buffer.strides:
            total = binary("+", total, binary("*", index, buffer.strides[position]), span)
        else:
            total = binary("+", binary("*", total, buffer.shape[position]), index, span)
    result = as_expr(total)
    assert result is not None
    return result


def _expr_method(it: Call, value: n.Expr) -> Value:
    match it.name:
        case "astype":
            dtype = it.dtype(it.take("dtype", "span", required=1)[0])
            return convert(value, dtype, it.span)
        case "equal":
            other = it.expr(it.take("other", required=1)[0], value.dtype)
            return arithmetic.compare("==", value, other, it.span)
        case _:
            it.fail("TS11", f"expressions have no method {it.name!r}.", did_you_mean(it.name, ("astype", "equal")))


# ----------------------------------------------------------------------------------------------- forms of statements

# fmt: off
_FORMS = (
    "reads", "writes", "where", "sblock_attr", "block_attr", "func_attr", "func_ret", "attr", "allocate",
    "allocate_const", "LetStmt", "Bind", "bind", "Assert", "realize", "evaluate", "prefetch", "buffer_store",
    "store", "If", "Then", "Else", "While", "Return", "Break", "Continue", "func_name", "preflattened_buffer",
    "device_entry", "hint",
)
# fmt: on


@_makes(*_FORMS)
def _form(it: Call) -> Value:
    return Form(it.name, tuple(it.args), it.kwargs, it.span)


@_makes("launch_thread")
def _launch_thread(it: Call) -> Value:
    thread, size = it.take("thread", "extent", required=2)
    if isinstance(thread, ThreadVar):
        return ThreadVar(thread.tag, it.expr(size), thread.iter_var)
    if isinstance(thread, n.IterVar):
        return ThreadVar(thread.thread_tag, it.expr(size), thread)
    return ThreadVar(it.string(thread, "the thread"), it.expr(size))


@_makes("env_thread")
def _env_thread(it: Call) -> Value:
    tag, _ = it.take("thread_tag", "dtype", required=1)
    return ThreadVar(it.string(tag, "the thread"))


@_makes("launch_thread_idx")
def _launch_thread_idx(it: Call) -> Value:
    (axis,) = it.take("axis", required=1)
    position = it.number(axis, "the axis")
    return n.Call(INT32, "launch_thread_idx", (const(position, INT32),), span=it.span)


@_makes("BufferLoad")
def _buffer_load(it: Call) -> Value:
    buffer, indices, predicate = it.take("buffer", "indices", "predicate", required=2)
    if not isinstance(buffer, n.Buffer):
        it.fail("TS21", f"T.BufferLoad reads a buffer, and this is {describe(buffer)}.")
    mask = None if predicate is None else it.expr(predicate)
    return n.BufferLoad(buffer, it.reader.exprs(indices, it.node), mask, it.span)


@_makes("load")
def _load(it: Call) -> Value:
    dtype, var, index, predicate = it.take("dtype", "var", "index", "predicate", required=3)
    if not isinstance(var, n.Var):
        it.fail("TS21", f"T.load reads behind a pointer, and this is {describe(var)}.")
    mask = n.IntImm(1, BOOL, it.span) if predicate is None else it.expr(predicate, BOOL)
    return n.Load(it.dtype(dtype), var, it.expr(index), mask, it.span)


# ------------------------------------------------------------------------------------------------------------ builtins


def _global_call(it: Call, function: n.GlobalVar) -> Value:
    if it.kwargs:
        it.fail("TS24", "functions of the module are called by position.")
    return n.Call(
        it.reader.results.get(function.name, VOID),
        function,
        tuple(_expr_or_buffer(it, arg) for arg in it.args),
        span=it.span,
    )


def _expr_or_buffer(it: Call, value: Value) -> n.Argument:
    match value:
        case n.Buffer() | n.BufferRegion() | n.Opaque() | n.IndexMap() | n.CommReducer() | n.IterVar():
            return value
        case DataTypeName(dtype):
            return n.Call(dtype, "type_annotation", (), span=it.span)
        case tuple() | list():
            args = tuple(_expr_or_buffer(it, item) for item in value)
            return n.Call(HANDLE, "tvm_tuple", args, span=it.span)
        case None:
            return n.Opaque("None", it.span)
        case Name(dialect, path):
            return n.Opaque(f"{dialect}.{path}", it.span)
        case _:
            return it.expr(value)


@_makes("call_intrin")
def _call_intrin(it: Call) -> Value:
    """`T.call_intrin("float32", "tirx.exp", x)` is `T.exp(x)`."""
    dtype = it.dtype(it.args[0]) if it.args else VOID
    op = it.string(it.args[1], "the intrinsic") if len(it.args) > 1 else ""
    row = find(op.removeprefix("tirx.").removeprefix("tir."))
    if row is None:
        it.fail("TS12", f"there is no builtin {op!r}.", did_you_mean(op, BUILTINS))
    return n.Call(dtype, row.name, tuple(_expr_or_buffer(it, arg) for arg in it.args[2:]), span=it.span)


@_makes("reinterpret")
def _reinterpret(it: Call) -> Value:
    """The type may be a string, a data type, or the type of a variable (`T.handle().ty`)."""
    dtype, value = it.take("dtype", "value", required=2)
    pointed = dtype if isinstance(dtype, n.PointerType) else None
    attrs: dict[str, n.Attribute] = {} if pointed is None else {"type": pointed}
    return n.Call(it.dtype(dtype), "reinterpret", (it.expr(value),), attrs, it.span)


@_makes("type_annotation")
def _type_annotation(it: Call) -> Value:
    return n.Call(it.dtype(it.take("dtype", required=1)[0]), "type_annotation", (), span=it.span)


@_makes("tvm_storage_sync")
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


@_makes("abs")
def _abs(it: Call) -> Value:
    """TVM writes |x| of an integer as a selection, of an unsigned one as itself."""
    value = it.expr(it.take("x", "span", required=1)[0])
    if value.dtype.is_int:
        return n.Select(
            n.GE(value, const(0, value.dtype)), value, n.Sub(const(0, value.dtype), value, it.span), it.span
        )
    return value if value.dtype.is_uint else n.Call(value.dtype, "fabs", (value,), span=it.span)


@_makes("isfinite")
def _isfinite(it: Call) -> Value:
    value = it.expr(it.take("x", "span", required=1)[0])
    return n.Call(BOOL.with_lanes(value.dtype.lanes), "isfinite", (value,), span=it.span)


_PACKED = ("call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered")


def _builtin(it: Call) -> Value:
    """A call of a builtin, with its type from the table."""
    row = find(it.name)
    if row is None:
        names = [*BUILTINS, *_MAKERS]
        it.reader.fail(it.node.func, "TS12", f"T.{it.name} is not known.", did_you_mean(it.name, names))
    args, kwargs = list(it.args), dict(it.kwargs)
    explicit: DataType | None = None
    if row.dtype == "first" and "dtype" not in kwargs and args:
        explicit = it.dtype(args.pop(0))
    elif row.dtype == "last" and "dtype" not in kwargs and len(args) == (row.arity or 0) + 1:
        explicit = it.dtype(args.pop())
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
        default = FLOAT32 if row.operands is Operands.FLOAT else None
        exprs = [it.expr(arg, first or default) for arg in args]
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
        case Result.HANDLE:
            return HANDLE
        case Result.VOID | Result.EXPLICIT:
            return VOID
