"""Calls for their effects, and functions that return values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import INT32
from tensorir.lifting.nests.linear import settled
from tensorir.lifting.nests.nest import External, Loop, Node
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Op, Term, index_names
from tensorir.runtime.errors import Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, Effect, awaits_block, builtin_of, launched
from tensorir.tir.lift.asked import asks
from tensorir.tir.lift.counting import counted
from tensorir.tir.lift.expressions import Scope, element_of, term, truth, value_of
from tensorir.tir.lift.intrinsics import cast
from tensorir.tir.lift.loops import met
from tensorir.tir.lift.memory import View, apart, plus
from tensorir.tir.lift.reader import ATOMICS, Flag, Reader, read_statement, returns_early
from tensorir.tir.lift.results import acts, updated
from tensorir.tir.tiles import without_tiles
from tensorir.tir.trees import walk

# Functions of TVM's runtime that are known: sorts, as tensor programs on whole buffers.

Made = tuple[tuple[Buffer, ...], tuple[Buffer, ...], Callable[..., Any]]


def _axis(shape: Sequence[int], axis: object) -> int:
    k = int(axis)  # type: ignore[call-overload]
    return k + len(shape) if k < 0 else k


def _positions(x: Expr, dim: str) -> Expr:
    return call("pos", x, static=(dim,))


def _ordered(x: Expr, dim: str, ascending: bool) -> tuple[Expr, Expr]:
    """The values and their places, sorted along a dim; equal values keep the order in which they stand."""
    both = call("sort", x, _positions(x, dim), static=(dim, 1, not ascending))
    return call("tuple_get", both, static=(0,)), call("tuple_get", both, static=(1,))


def _cast(x: Expr, buffer: Buffer) -> Expr:
    return x if x.tensor.element == buffer.element else call("cast", x, static=(buffer.element,))


def _first(x: Expr, dim: str, k: int) -> Expr:
    interval = x.tensor.dims[dim]
    stop = min(interval.stop, interval.start + k) if k > 0 else interval.stop
    return call("subset", x, static=(Dims(((dim, Interval(interval.start, stop)),)),))


def _sort(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else -1)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        values, _places = _ordered(x, x.tensor.dims.names[axis], ascending)
        return (values,)

    return (data,), (out,), make


def _argsort(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else -1)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        _values, places = _ordered(x, x.tensor.dims.names[axis], ascending)
        return (_cast(places, out),)

    return (data,), (out,), make


def _argsort_nms(arrays: list[Buffer], numbers: list[object]) -> Made:
    data, counts, out = arrays
    axis = _axis(data.shape, numbers[0] if numbers else 0)
    ascending = bool(numbers[1]) if len(numbers) > 1 else True

    def make(x: Expr, valid: Expr) -> tuple[Expr, ...]:
        dim = x.tensor.dims.names[axis]
        rest = [name for name in x.tensor.dims.names if name != dim]
        valid = call("rename", valid, static=(tuple(zip(valid.tensor.dims.names, rest, strict=False)),))
        for name in valid.tensor.dims.names:
            if name not in rest:
                valid = call("gather", valid, literal(0), static=((name,), "checked"))
        position = _positions(x, dim)
        outside = call("greater_equal", position, call("cast", valid, static=(INT32,)))
        key = call("cast", outside, static=(INT32,))
        value = call("if", outside, literal(0, data.element), x)
        if not ascending:
            value = call("neg", value)
        ordered = call("sort", key, value, position, static=(dim, 2, False))
        return (_cast(call("tuple_get", ordered, static=(2,)), out),)

    return (data, counts), (out,), make


def _topk(arrays: list[Buffer], numbers: list[object]) -> Made:
    """topk(data, outputs..., k, axis, which, ascending): values, places, or both."""
    data, *outs = arrays
    k, axis, which, ascending = numbers[:4]
    place = _axis(data.shape, axis)

    def make(x: Expr, *_: Expr) -> tuple[Expr, ...]:
        dim = x.tensor.dims.names[place]
        values, places = (_first(e, dim, int(k)) for e in _ordered(x, dim, bool(ascending)))  # type: ignore[call-overload]
        chosen = {"both": (values, places), "values": (values,), "indices": (places,)}[str(which)]
        return tuple(_cast(e, out) for e, out in zip(chosen, outs, strict=True))

    return (data,), tuple(outs), make


EXTERNAL: dict[str, Callable[[list[Buffer], list[object]], Made]] = {
    "tvm.contrib.sort.sort": _sort,
    "tvm.contrib.sort.argsort": _argsort,
    "tvm.contrib.sort.argsort_nms": _argsort_nms,
    "tvm.contrib.sort.topk": _topk,
}
"""By name: from buffers and constants to what is read, what is written, and how the one follows from the other."""

READ_ONLY = {name: 2 if name.endswith("argsort_nms") else 1 for name in EXTERNAL}
"""How many of the leading arrays a function only reads."""

# Functions of the module that return a value to an expression: the value itself stands in their place.

DEEPEST, MOST = 64, 1024
"""How deep calls may nest, and how many of them may be of functions that run already."""


def entered(scope: Scope, name: str, around: Sequence[str], span: Span) -> None:
    """Count a call from within other functions; refuse one that seems to end nowhere."""
    if len(around) >= DEEPEST:
        message = f"calls of {name!r} nest more than {DEEPEST} deep."
        raise refuse("TL01", message, "replace the recursion by a loop.", at=span)
    if name in around:
        scope.recursions.append(name)
    if len(scope.recursions) > MOST:
        message = f"{name!r} calls itself more than {MOST} times."
        raise refuse("TL01", message, "replace the recursion by a loop.", at=span)


def returned(scope: Scope, call: n.Call, name: str, lane: Term) -> Term:
    """The value of a function of scalars, by lets, choices and returns.

    Errors: TL01 for what is no PrimFunc of the module, takes a buffer, or computes by other statements, and for a
    recursion that nothing known before a run ends.
    """
    callee = scope.functions.get(name)
    if not isinstance(callee, n.PrimFunc):
        what = "is not in the module" if callee is None else "is no PrimFunc"
        raise refuse("TL01", f"the function {name!r} {what}, so it cannot be called.", at=call.span)
    entered(scope, name, scope.called, call.span)
    if len(call.args) != len(callee.params):
        message = f"{name!r} takes {len(callee.params)} arguments, but is called with {len(call.args)}."
        raise refuse("TL01", message, at=call.span)
    inner = replace(scope, values={}, views={}, pointers={}, exchanged={}, called=(*scope.called, name))
    for param, argument in zip(callee.params, call.args, strict=True):
        if not isinstance(argument, n.Expr) or param.dtype.code == "handle":
            message = f"{name!r} takes a buffer, and a call in an expression passes scalars only."
            raise refuse("TL01", message, "load what it needs and pass that.", at=call.span)
        value = cast(term(scope, argument, lane), element_of(param.dtype))
        inner.values[param] = lambda lane, value=value: value
    return cast(_value(inner, [callee.body], name, call, lane), element_of(call.dtype))


def _value(scope: Scope, statements: Sequence[n.Stmt], name: str, call: n.Call, lane: Term) -> Term:
    match statements:
        case [n.SeqStmt(seq), *rest]:
            return _value(scope, [*seq, *rest], name, call, lane)
        case [n.LetStmt(var, value), *rest]:
            kept = term(scope, value, lane)
            inner = replace(scope, values=dict(scope.values))
            inner.values[var] = lambda lane: kept
            return _value(inner, rest, name, call, lane)
        case [n.IfThenElse(condition, yes, no), *rest]:
            cases = [yes, *rest], [*([] if no is None else [no]), *rest]
            holds = settled(truth(scope, condition, lane), scope.ranges)
            if isinstance(holds, Number):  # a recursion ends where its condition is decided
                return _value(scope, cases[0 if holds.value else 1], name, call, lane)
            a, b = (_value(scope, case, name, call, lane) for case in cases)
            return Op("if", (holds, a, b), a.element)
        case [n.Evaluate(n.Call(op="ret", args=(n.Expr() as value,))), *_]:
            return cast(term(scope, value, lane), element_of(call.dtype))
        case [other, *_]:
            message = f"{name!r} stands in an expression, and does more than to return a value."
            raise refuse("TL01", message, "let it store the value into a buffer that it is given.", at=other.span)
        case _:
            message = f"{name!r} stands in an expression, and does not return a value on all ways."
            raise refuse("TL01", message, at=call.span)


# Calls for their effects: functions of the module, functions of the runtime that are known, atomics, barriers.

_NOTHING = {
    "start_profile_intrinsic", "end_profile_intrinsic", "prefetch", "assume", "likely",
    "tvm_struct_set",
}  # fmt: skip


def is_pure(call: n.Call) -> bool:
    """True if a call does nothing where nobody takes its value."""
    row = BUILTINS.get(call.op) if isinstance(call.op, str) else None
    return row is not None and row.effect in (Effect.PURE, Effect.EXPR_ANNOTATION, Effect.EMBED_INFO)


def effect(reader: Reader, call: n.Call, span: Span) -> list[Node]:
    """The nodes of a call that stands as a statement."""
    known = builtin_of(call)
    call = known if isinstance(known, n.Call) else call
    match call.op:
        case n.GlobalVar(name):
            return called(reader, name, call, span)
        case "call_packed" | "call_cpacked" | "call_extern" | "call_pure_extern":
            return _packed(reader, call, span)
        case "call_ffi_kernel" if (kernel := launched(call, reader.module)) is not None:
            return effect(reader, kernel, span)
        case "tvm_thread_allreduce":
            reader.barrier()
            return _allreduce(reader, call, span)
        case "tvm_storage_sync":
            reader.barrier()
            if not awaits_block(call):
                return []
            found = reader.reached(span)
            return met(reader, span) if found is None else found
        case "masked_store" if isinstance(call.args[0], n.Buffer):
            value, *indices, mask = map(value_of, call.args[1:])
            return read_statement(reader, n.BufferStore(call.args[0], value, tuple(indices), mask, span))
        case str(name) if name in ATOMICS:
            return updated(reader, call, span)
        case str(name) if name in _NOTHING:
            return []
        case str(name):
            help = "write what it does with loops and stores."
            raise refuse("TL01", f"T.{name} has no meaning in a pure program.", help, at=span)
        case _:
            return []


def called(reader: Reader, name: str, call: n.Call, span: Span, result: Flag | None = None) -> list[Node]:
    """A call of another function of the module, which leaves its value in `result`: its body, its parameters bound."""
    from tensorir.tir.lift.allocation import pointer

    functions: Mapping[str, object] = {} if reader.module is None else reader.module.functions
    callee = functions.get(name)
    if not isinstance(callee, n.PrimFunc):
        what = "is not in the module" if callee is None else "is no PrimFunc"
        raise refuse("TL01", f"the function {name!r} {what}, so it cannot be called.", at=span)
    callee = without_tiles(callee)
    entered(reader.scope, name, reader.stack, span)
    if len(call.args) != len(callee.params):
        message = f"{name!r} takes {len(callee.params)} arguments, but is called with {len(call.args)}."
        raise refuse("TL01", message, at=span)
    inner = replace(reader.scope, values={}, views={}, pointers={}, exchanged={}, functions=functions, called=())
    kept: list[Node] = []
    for param, argument in zip(callee.params, call.args, strict=True):
        buffer = callee.buffer_map.get(param)
        if buffer is None and isinstance(argument, n.Expr) and param.dtype.code != "handle":
            value = cast(reader.term(argument), element_of(param.dtype))
            if not reader.unchanged(value, n.Evaluate(call)):
                value, keep = reader.temporary(param.name, value, span)
                kept.append(keep)
            inner.values[param] = lambda lane, value=value: value
        else:
            inner.pointers[param] = pointer(reader, argument, span)
    outer, returned, asking = reader.scope, reader.returned, (reader.asking, reader.acting)
    reader.scope, reader.stack = inner, (*reader.stack, name)
    reader.returned = None
    wanted, reader.result = reader.result, result
    live = list(reader.live)
    try:
        bind(reader, callee)
        parts = list(walk(callee.body))
        reader.asking, reader.acting = asks(inner, parts), acts(parts)
        nodes: list[Node] = []
        if returns_early(callee.body):
            reader.returned = reader.flag("returned", span)
            nodes.append(reader.cleared(reader.returned, span))
        return [*kept, *nodes, *read_statement(reader, counted(callee.body, {}))]
    finally:
        reader.scope, reader.stack, reader.returned, reader.live = outer, reader.stack[:-1], returned, live
        reader.asking, reader.acting = asking
        reader.result = wanted


def _expression(argument: n.Argument, span: Span) -> n.Expr:
    """An argument that has to be an expression."""
    if not isinstance(argument, n.Expr):
        raise refuse("TL01", "this call takes expressions.", at=span)
    return argument


def bind(reader: Reader, func: n.PrimFunc) -> None:
    """The buffers of a function's parameters as views of what their pointers point to; sizes follow from shapes."""
    scope = reader.scope
    for param in func.params:
        buffer = func.buffer_map.get(param)
        base = scope.pointers.get(param)
        if buffer is None or base is None:
            continue
        scope.pointers[buffer.data] = base
        if len(base.shape) == len(buffer.shape):
            for declared, extent in zip(buffer.shape, base.shape, strict=True):
                if isinstance(declared, n.Var) and declared not in scope.values:
                    kept = cast(extent, element_of(declared.dtype))
                    scope.values[declared] = lambda lane, kept=kept: kept
            for declared, stride in zip(buffer.strides, base.strides, strict=False):
                if isinstance(declared, n.Var) and declared not in scope.values:
                    kept = cast(stride, element_of(declared.dtype))
                    scope.values[declared] = lambda lane, kept=kept: kept
        if isinstance(start := buffer.elem_offset, n.Var) and start not in scope.values:
            scope.values[start] = lambda lane, start=start: Number(0, element_of(start.dtype))
    for param in func.params:
        buffer = func.buffer_map.get(param)
        base = scope.pointers.get(param)
        if buffer is not None and base is not None:
            same = len(base.shape) == len(buffer.shape) and isinstance(base.offset, Number) and not base.offset.value
            scope.views[buffer] = base if same else replace(scope.alias(base, buffer), bound=True)


def _whole(reader: Reader, argument: n.Argument, span: Span) -> tuple[Buffer, View]:
    from tensorir.tir.lift.allocation import pointer

    match argument:
        case n.Call(op="tvm_stack_make_array", args=(n.Expr() as data, *_)):
            view = pointer(reader, data, span)
        case _:
            view = pointer(reader, argument, span)
    if not (isinstance(view.offset, Number) and not view.offset.value):
        raise refuse("TL01", "a function of the runtime takes whole buffers here.", at=span)
    if view.buffer.memory is not None:
        message = f"the memory of {view.buffer.name!r} is used as elements of several types."
        raise refuse("TL01", message, "a function of the runtime needs a buffer with memory of its own.", at=span)
    return view.buffer, view


def _packed(reader: Reader, call: n.Call, span: Span) -> list[Node]:
    """A function of the runtime, by name."""
    title = call.args[0].value if isinstance(call.args[0], n.StringImm) else "?"
    row = EXTERNAL.get(title)
    if row is None:
        help = f"write what it does with loops and stores; known are {', '.join(map(repr, EXTERNAL))}."
        raise refuse("TL01", f"the external function {title!r} is not known.", help, at=span)
    arrays: list[Buffer] = []
    numbers: list[object] = []
    for argument in call.args[1:]:
        match argument:
            case n.IntImm(value) | n.FloatImm(value) | n.StringImm(value):
                numbers.append(value)
            case n.Expr() if argument.dtype.code != "handle":
                value = reader.term(argument)
                if not isinstance(value, Number):
                    raise refuse("TL01", f"{title!r} takes constants here.", at=span)
                numbers.append(value.value)
            case _:
                arrays.append(_whole(reader, argument, span)[0])
    if reader.loops or reader.threads is not None:
        raise refuse("TL01", f"{title!r} is called in a loop.", at=span)
    reads, writes, make = row(arrays, numbers)
    return [External(title, reads, writes, make, reader.holding, span)]


# --------------------------------------------------------------------------------------------- reductions of threads


def reduce_scope(reader: Reader, reducer: n.CommReducer, body: n.Stmt) -> list[Node]:

    before, reader.reducer = reader.reducer, reducer
    try:
        return read_statement(reader, body)
    finally:
        reader.reducer = before


def _allreduce(reader: Reader, call: n.Call, span: Span) -> list[Node]:
    """tvm_thread_allreduce(count, values..., condition, results..., thread indices...): every thread gets the total."""
    from tensorir.tir.lift.allocation import pointer
    from tensorir.tir.lift.expressions import term

    count = call.args[0]
    if reader.reducer is None or reader.threads is None or not isinstance(count, n.IntImm):
        raise refuse("TL01", "T.tvm_thread_allreduce stands in no reduce_scope of a kernel.", at=span)
    size, reducer = count.value, reader.reducer
    arguments = list(call.args[1:])
    values = [reader.term(_expression(a, span)) for a in arguments[:size]]
    condition = reader.term(_expression(arguments[size], span))
    results = arguments[size + 1 : 2 * size + 1]
    over: set[str] = set()
    for index in arguments[2 * size + 1 :]:
        over |= index_names(reader.term(_expression(index, span)))
    kept = [*reader.loops, *(t.name for t in reader.lanes if t.name not in over)]
    scope, nodes = reader.scope, list[Node]()
    totals: list[Load] = []
    places: tuple[Term, ...] = ()
    lows = {name: reader.ranges[name][0] for name in kept}
    places = tuple(plus(Index(name, INT32), Number(-lows[name], INT32)) for name in kept)
    shape = tuple(reader.ranges[name][1] - reader.ranges[name][0] + 1 for name in kept)
    for k, value in enumerate(values):
        buffer = reader.buffer(f"total{k}", value.element, shape, span)
        totals.append(Load(buffer, places))
        nodes.append(reader.store(buffer, places, reader.term(reducer.identity_element[k]), span))
    for k, (old, new) in enumerate(zip(totals, values, strict=True)):
        scope.values[reducer.lhs[k]] = lambda lane, old=old: old
        scope.values[reducer.rhs[k]] = lambda lane, new=new: new
    updates: list[tuple[Load, Term]] = []
    turn: list[Node] = []
    # what one thread combines, all of it, before the next one does
    takes_part = () if isinstance(condition, Number) and condition.value else (condition,)
    with reader.in_turn(frozenset(over)) as turns, reader.guarded(*takes_part):
        for k, old in enumerate(totals):
            combined: Term = term(scope, reducer.result[k])
            if size > 1:
                combined, keep = reader.temporary(f"next{k}", combined, span)
                turn.append(keep)
            updates.append((old, combined))
        turn += [reader.store(old.buffer, places, combined, span) for old, combined in updates]
    for thread in reversed(turns):
        bounds = Number(0, INT32), Number(thread.extent, INT32)
        turn = [Loop(thread.name, *bounds, tuple(turn), span=span, title=thread.name)]
    nodes += turn
    for total, result in zip(totals, results, strict=True):
        view = pointer(reader, result, span)
        indices = apart(view.offset, view.buffer.shape)
        nodes.append(reader.store(view.buffer, indices, total, span))
    return nodes
