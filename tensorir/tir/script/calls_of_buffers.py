"""Calls of TVMScript on buffers, loops and axes, and who reads which call."""

from __future__ import annotations

import ast

from tensorir.runtime.errors import Span, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, HANDLE, INT32
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script import arithmetic
from tensorir.tir.script.arithmetic import as_expr, binary, convert
from tensorir.tir.script.calls import MAKERS, Call, builtin, constant, extreme, global_call, makes
from tensorir.tir.script.evaluate import Evaluator
from tensorir.tir.script.subscripts import extent, point
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
    describe,
    members,
)

# `T.Buffer`, `T.match_buffer`, `T.alloc_buffer`, and the methods of buffers.

FIELDS = ("data", "strides", "elem_offset", "byte_offset", "scope", "align", "offset_factor")


@makes("Buffer", "buffer", "buffer_decl", "Tensor", "StridedTensor")
def _buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "type")


@makes("match_buffer")
def _match_buffer(it: Call) -> Value:
    return spec(it, ("param", "shape", "dtype", *FIELDS), "match")


@makes("alloc_buffer")
def _alloc_buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "block" if it.reader.old else "alloc")


@makes("alloc_local", "alloc_shared", "smem")
def _alloc_scoped(it: Call) -> Value:
    it.kwargs.setdefault("scope", "local" if it.name == "alloc_local" else "shared")
    return spec(it, ("shape", "dtype", *FIELDS), "alloc")


@makes("sblock_alloc_buffer")
def _block_alloc(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "block")


@makes("decl_buffer")
def _decl_buffer(it: Call) -> Value:
    return spec(it, ("shape", "dtype", *FIELDS), "declare")


@makes("alloc_scalar", "local_scalar", "shared_scalar")
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


def spec(it: Call, names: tuple[str, ...], purpose: str) -> BufferSpec:
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
    separators = members(found["axis_separators"] or ())
    if separators is None:
        it.fail("TS21", "axis separators are a list.")
    data = found["data"]
    return BufferSpec(
        it.reader.exprs(shape, it.node),
        dtype,
        () if strides is None else it.reader.exprs(strides, it.node),
        None if offset is None else it.reader.size(offset, it.node),
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


def buffer_method(it: Call, buffer: n.Buffer) -> Value:
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
    if len(args) == 1 and (listed := members(args[0])) is not None:
        args = listed
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


def expr_method(it: Call, value: n.Expr) -> Value:
    match it.name:
        case "astype":
            dtype = it.dtype(it.take("dtype", "span", required=1)[0])
            return convert(value, dtype, it.span)
        case "equal":
            other = it.expr(it.take("other", required=1)[0], value.dtype)
            return arithmetic.compare("==", value, other, it.span)
        case _:
            it.fail("TS11", f"expressions have no method {it.name!r}.", did_you_mean(it.name, ("astype", "equal")))


# `T.serial`, `T.grid`, `T.sblock`, `T.axis.*`, `T.launch_thread`, `T.attr`: forms that statements use.


@makes("serial", "parallel", "vectorized", "unroll", "Serial", "Parallel", "Vectorized", "Unroll", "unrolled")
def _loops(it: Call) -> Value:
    return loop(it, ForKind("unroll" if it.name == "unrolled" else it.name.lower()))


def loop(it: Call, kind: ForKind) -> Value:
    start, stop, step, annotations, unused = it.take("start", "stop", "step", "annotations", "thread")
    if start is None:
        it.fail("TS24", "a loop needs an extent.")
    if unused is not None:
        it.fail("TS24", f"T.{it.name} has no parameter 'thread'.", help="use T.thread_binding.")
    by = None if step is None else it.expr(step)
    return LoopForm((bounds(it, start, stop),), kind, "", it.annotations(annotations), by)


def bounds(it: Call, start: Value, stop: Value) -> tuple[n.Expr, n.Expr]:
    """Minimum and extent of `range(start, stop)`; both get the wider type."""
    for value in (start, stop):
        if isinstance(value, float | str) or (isinstance(value, n.Expr) and not value.dtype.is_integer):
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


@makes("grid")
def _grid(it: Call) -> Value:
    extents: list[tuple[n.Expr, n.Expr]] = []
    it.kwargs.pop("dtype", None)
    if it.kwargs:
        it.fail("TS24", f"T.grid has no parameter {next(iter(it.kwargs))!r}.")
    for arg in it.args:
        pair = members(arg) or [arg, None]
        if len(pair) != 2:
            it.fail("TS24", "an extent of T.grid is a number, or a pair of bounds.")
        extents.append(bounds(it, pair[0], pair[1]))
    return LoopForm(tuple(extents), ForKind.SERIAL)


@makes("thread_binding")
def _thread_binding(it: Call) -> Value:
    start, stop, thread, annotations = it.take("start", "stop", "thread", "annotations", required=1)
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        it.fail("TS24", "T.thread_binding needs 'thread'.")
    tag = it.string(thread, "the thread")
    return LoopForm((bounds(it, start, stop),), ForKind.THREAD_BINDING, tag, it.annotations(annotations))


@makes("Pipelined")
def _pipelined(it: Call) -> Value:
    start, stop, stages = it.take("start", "stop", "num_stages", required=1)
    annotations: dict[str, n.Attribute] = {}
    if stages is not None:
        annotations["num_stages"] = it.number(stages, "the number of stages")
    return LoopForm((bounds(it, start, stop),), ForKind.SERIAL, "", annotations)


# -------------------------------------------------------------------------------------------------------------- blocks


@makes("sblock", "block")
def _block(it: Call) -> Value:
    name, unrealized, _ = it.take("name", "no_realize", "exec_scope")
    return BlockForm("" if name is None else it.string(name, "the name"), unrealized is not True)


@makes("init")
def _init(it: Call) -> Value:
    it.take()
    return InitForm()


_AXES = {kind.value: kind for kind in (IterKind.DATA_PARALLEL, IterKind.COMM_REDUCE, IterKind.ORDERED, IterKind.OPAQUE)}
_AXES.update({"S": IterKind.DATA_PARALLEL, "R": IterKind.COMM_REDUCE})


@makes(*(f"axis.{name}" for name in _AXES))
def _axis(it: Call) -> Value:
    dom, value, dtype = it.take("dom", "binding", "dtype", required=2)
    chosen = None if dtype is None else it.dtype(dtype)
    if isinstance(dom, n.Range):
        domain = dom
    elif (pair := members(dom)) is not None:
        if len(pair) != 2:
            it.fail("TS24", "the domain of an axis is an extent, or a pair of bounds.")
        low, high = pair
        start = it.expr(low, high.dtype if isinstance(high, n.Expr) else chosen)
        stop = it.expr(high, start.dtype)
        domain = n.Range(start, extent(start, stop), it.span)
    else:
        size = it.expr(dom, value.dtype if isinstance(value, n.Expr) and chosen is None else chosen)
        domain = n.Range(const(0, size.dtype, it.span), size, it.span)
    bound = it.expr(value, domain.extent.dtype)
    if domain.extent.dtype.is_handle or bound.dtype.is_handle:
        it.fail("TS21", "the extent and the value of an axis are integers, and this is a pointer.")
    return Axis(domain, bound, _AXES[it.name.removeprefix("axis.")], chosen or domain.extent.dtype)


@makes("axis.remap")
def _remap(it: Call) -> Value:
    """One axis per letter; the domain of each is that of the loop whose variable it takes."""
    kinds, bindings, _ = it.take("kinds", "bindings", "dtype", required=2)
    letters = it.string(kinds, "the kinds")
    listed = members(bindings)
    values = [bindings] if listed is None else listed
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


# fmt: off
_FORMS = (
    "reads", "writes", "where", "sblock_attr", "block_attr", "func_attr", "func_ret", "attr", "allocate",
    "allocate_const", "LetStmt", "Bind", "bind", "Assert", "realize", "evaluate", "prefetch", "buffer_store",
    "store", "If", "Then", "Else", "While", "Return", "Break", "Continue", "func_name", "preflattened_buffer",
    "device_entry", "hint",
)
# fmt: on


@makes(*_FORMS)
def _form(it: Call) -> Value:
    return Form(it.name, tuple(it.args), it.kwargs, it.span)


@makes("launch_thread")
def _launch_thread(it: Call) -> Value:
    thread, size = it.take("thread", "extent", required=2)
    if isinstance(thread, ThreadVar):
        return ThreadVar(thread.tag, it.expr(size), thread.iter_var)
    if isinstance(thread, n.IterVar):
        return ThreadVar(thread.thread_tag, it.expr(size), thread)
    if isinstance(thread, n.Var):
        # TVM prints so where a pragma about the thread stands before it is launched.
        message = f"{thread.name!r} is a plain variable, and the text does not say which thread it is."
        it.fail(
            "TS21",
            message,
            f'define it as T.env_thread("threadIdx.x"), or as what it is, and not as T.{thread.dtype}().',
        )
    return ThreadVar(it.string(thread, "the thread"), it.expr(size))


@makes("env_thread")
def _env_thread(it: Call) -> Value:
    tag, _ = it.take("thread_tag", "dtype", required=1)
    return ThreadVar(it.string(tag, "the thread"))


@makes("launch_thread_idx")
def _launch_thread_idx(it: Call) -> Value:
    (axis,) = it.take("axis", required=1)
    position = it.number(axis, "the axis")
    return n.Call(INT32, "launch_thread_idx", (const(position, INT32),), span=it.span)


@makes("BufferLoad")
def _buffer_load(it: Call) -> Value:
    buffer, indices, predicate = it.take("buffer", "indices", "predicate", required=2)
    if not isinstance(buffer, n.Buffer):
        it.fail("TS21", f"T.BufferLoad reads a buffer, and this is {describe(buffer)}.")
    mask = None if predicate is None else it.expr(predicate)
    return n.BufferLoad(buffer, it.reader.exprs(indices, it.node), mask, it.span)


@makes("load")
def _load(it: Call) -> Value:
    dtype, var, index, predicate = it.take("dtype", "var", "index", "predicate", required=3)
    if not isinstance(var, n.Var):
        it.fail("TS21", f"T.load reads behind a pointer, and this is {describe(var)}.")
    mask = n.IntImm(1, BOOL, it.span) if predicate is None else it.expr(predicate, BOOL)
    return n.Load(it.dtype(dtype), var, it.expr(index), mask, it.span)


# What a call stands for: by the kind of what is called, and by the table of makers.


def call(reader: Evaluator, node: ast.Call, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The node of a call."""
    if any(isinstance(arg, Broken) for arg in (*args, *kwargs.values())):
        raise Failure(())
    match target:
        case Name("T", path):
            maker = reader.language.makers.get(path) or MAKERS.get(path)
            it = Call(reader, node, path, args, kwargs)
            return maker(it) if maker is not None else builtin(it)
        case DataTypeName(dtype):
            return constant(Call(reader, node, str(dtype), args, kwargs), dtype)
        case n.GlobalVar(name):
            return global_call(Call(reader, node, name, args, kwargs), target)
        case BoundMethod(n.Buffer() as buffer, name):
            return buffer_method(Call(reader, node, name, args, kwargs), buffer)
        case BoundMethod(n.Expr() as value, name):
            return expr_method(Call(reader, node, name, args, kwargs), value)
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
    items = members(it.args[0]) if len(it.args) == 1 else None
    match it.name, it.args:
        case "tuple", _ if items is not None:
            return tuple(items)
        case "list", _ if items is not None:
            return items
        case "len", _ if items is not None:
            return len(items)
        case "range", _:
            return loop(it, ForKind.SERIAL)
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
        case "len", [str() as value]:
            return len(value)
        case "len", [n.Buffer() as buffer]:
            return len(buffer.shape)
        case "abs", [int() | float() as value]:
            return abs(value)
        case (("min" | "max"), [_, _]):
            return extreme(it)
        case _:
            hint = _IN_TIR.get(it.name, "") if any(isinstance(a, n.Node) for a in it.args) else ""
            it.fail("TS07", f"{it.name!r} with these arguments is no part of TVMScript.", hint)


_IN_TIR = {
    "abs": "write T.abs(x).",
    "round": "write T.round(x).",
    "int": "write T.Cast('int32', x).",
    "float": "write T.Cast('float32', x).",
    "bool": "write T.Cast('bool', x).",
}
