"""`T.serial`, `T.grid`, `T.sblock`, `T.axis.*`, `T.launch_thread`, `T.attr`: forms that statements use."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.build import const
from tensorir.tir.dtypes import BOOL, INT32
from tensorir.tir.nodes import ForKind, IterKind
from tensorir.tir.script.calls.form import Call, makes
from tensorir.tir.script.extents import extent
from tensorir.tir.script.values import (
    Axis,
    BlockForm,
    Form,
    InitForm,
    LoopForm,
    ThreadVar,
    Value,
    members,
)
from tensorir.tir.script.words import describe


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
