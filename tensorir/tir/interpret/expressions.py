"""Expressions as Python functions of the machine, and what older modules and TE still hold."""

# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, assert_never

import numpy as np

from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType, other_bytes
from tensorir.tir.interpret.accesses import (
    access,
    check_cast,
    check_declared,
    check_divisor,
    check_overflow,
    check_ramp,
    check_shift,
)
from tensorir.tir.interpret.calls import compile_builtin, compile_function_call
from tensorir.tir.interpret.machine import Machine, Run, compiled, holds, scalable
from tensorir.tir.interpret.memory import Pointer, View
from tensorir.tir.interpret.values import Value, cast, constant, is_array, meaning, operator, plain

# What older modules and TE still hold: loads and stores behind pointers, and reductions inside of expressions.


def _place(var: n.Var, dtype: DataType, index: n.Expr, span: Span) -> Callable[[Machine], tuple[View, Value]]:
    """The memory behind a pointer as elements of a type, and which of them are meant."""
    pointer, at = compiled(var), compiled(index)
    kind = dtype.element.numpy

    def run(m: Machine) -> tuple[View, Value]:
        target = pointer(m)
        if not isinstance(target, Pointer):
            raise refuse("TR07", f"{var.name!r} points to no memory here.", at=span)
        start = target.offset // kind.itemsize
        value = at(m)
        address = value.astype(np.int64) + start if is_array(value) else int(value) + start
        return View(target.memory, kind, 1, (), (), 0), address

    return run


def load(node: n.Load) -> Run:
    """The element at an index behind a pointer; 0 in lanes that the predicate leaves out."""
    place, predicate = _place(node.buffer_var, node.dtype, node.index, node.span), holds(node.predicate)
    vector = node.dtype.lanes != 1

    def run(m: Machine) -> Value:
        view, address = place(m)
        lanes = predicate(m)
        if np.ndim(lanes) == 0:
            return m.read(view, address, node.span, vector) if lanes else np.zeros(np.shape(address), view.dtype)[()]
        return np.where(lanes, m.read(view, np.where(lanes, address, 0), node.span, vector, lanes), 0).astype(
            view.dtype
        )

    return run


def store(node: n.Store) -> Callable[[Machine], None]:
    """The element at an index behind a pointer becomes the value, where the predicate holds."""
    source = node.value.dtype
    place, value = _place(node.buffer_var, source, node.index, node.span), compiled(node.value)
    predicate, vector = holds(node.predicate), source.lanes != 1

    def run(m: Machine) -> None:
        new = cast(value(m), source.element, source.element)
        view, address = place(m)
        lanes = predicate(m)
        if np.ndim(lanes) == 0:
            if lanes:
                m.write(view, address, new, node.span, vector)
        else:
            m.write(view, np.where(lanes, address, 0), new, node.span, vector, lanes)
        if m.kernel is not None:
            m.kernel.stored(m)

    return run


def reduction(node: n.Reduce) -> Run:
    """The fold of the sources over the axes, in their order, where the condition holds."""
    combiner = node.combiner
    start = [compiled(e) for e in (node.init or combiner.identity_element)]
    results, sources = [compiled(e) for e in combiner.result], [compiled(e) for e in node.source]
    condition = holds(node.condition)
    axes = [(a.var, compiled(a.dom.min), compiled(a.dom.extent)) for a in node.axis if a.dom is not None]

    def run(m: Machine) -> Value:
        state: list[Any] = [e(m) for e in start]
        bounds = [(low(m), extent(m)) for _, low, extent in axes]
        if any(np.size(x) != 1 for pair in bounds for x in pair):
            raise refuse("TR42", "the bounds of this reduction differ from lane to lane.", at=node.span)
        ranges = [range(int(low), int(low) + int(extent)) for low, extent in bounds]
        for values in product(*ranges):
            for (var, _, _), value in zip(axes, values, strict=True):
                m.env[var] = var.dtype.numpy.type(value)
            holds = condition(m)
            if np.ndim(holds) == 0 and not holds:
                continue
            with m.masked(m.mask if np.ndim(holds) == 0 else m.narrowed(holds)):
                terms = [source(m) for source in sources]
            m.env.update(zip(combiner.lhs, state, strict=True))
            m.env.update(zip(combiner.rhs, terms, strict=True))
            new = [result(m) for result in results]
            state = new if np.ndim(holds) == 0 else [np.where(holds, a, b) for a, b in zip(new, state, strict=True)]
        return state[node.value_index]

    return run


# Expressions as Python functions of the machine, run for one iteration or for many lanes at once.


def compile_expression(node: n.Expr) -> Run:
    """The function of an expression, by the rule of its kind."""
    if node.dtype.lanes < 0:
        return _scalable(node)
    match node:
        case n.Var():
            return _variable(node)
        case n.IntImm(value, dtype) | n.FloatImm(value, dtype):
            number: Value = int(value) if dtype.code == "handle" else constant(value, dtype)
            return lambda m: number
        case n.StringImm(text):
            return lambda m: text
        case n.Cast(value, dtype):
            return _cast(value, node)
        case n.BinaryOp() | n.CmpOp():
            return _binary(node)
        case n.And(a, b) | n.Or(a, b):
            return _connective(a, b, isinstance(node, n.And))
        case n.Not(a):
            inner = holds(a)
            return lambda m: ~inner(m)
        case n.Select(condition, yes, no):
            return _select(condition, yes, no)
        case n.BufferLoad():
            return _load(node)
        case n.Ramp():
            return _ramp(node)
        case n.Broadcast(value, lanes):
            inner, width = compiled(value), n.lane_count(lanes)
            return lambda m: _repeated(inner(m), width)
        case n.Shuffle():
            return _shuffle(node)
        case n.Let(var, value, body):
            return _let(var, value, body)
        case n.Call():
            return _call(node)
        case n.Load():
            return load(node)
        case n.Reduce():
            return reduction(node)
        case _:
            raise refuse("TR42", f"a {type(node).__name__} is not run.", at=getattr(node, "span", NOWHERE))


def _scalable(node: n.Expr) -> Run:
    def refused(m: Machine) -> Value:
        raise scalable(node.dtype, node.span)

    return refused


def _variable(node: n.Var) -> Run:
    def run(m: Machine) -> Value:
        try:
            return m.env[node]
        except KeyError:
            raise refuse("TR07", f"the variable {node.name!r} has no value here.", at=node.span) from None

    return run


def _cast(value: n.Expr, node: n.Cast) -> Run:
    inner, source, target = compiled(value), value.dtype.element, node.dtype.element
    if source == target or target.code == "handle":
        return inner
    if source.is_handle:
        raise refuse("TR20", f"a handle cannot become {node.dtype}.", at=node.span)
    if not (source.is_float and target.is_integer and not target.is_bool):
        return lambda m: cast(inner(m), source, target)

    def convert(m: Machine) -> Value:
        found = inner(m)
        if m.checked:
            check_cast(m, node, found)
        return cast(found, source, target)

    return convert


_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)
_OVERFLOWING = (n.Add, n.Sub, n.Mul)


def _binary(node: n.BinaryOp | n.CmpOp) -> Run:
    a, b = compiled(node.a), compiled(node.b)
    function = operator(type(node).__name__, node.a.dtype.element)
    if node.a.dtype.code == "handle":
        function = operator(type(node).__name__, n.BOOL)
    if isinstance(node, _DIVISIONS) and node.a.dtype.is_integer:

        def divide(m: Machine) -> Value:
            x, y = a(m), b(m)
            if m.checked:
                check_divisor(m, node, y)
            return function(x, y)

        return divide
    if isinstance(node, _OVERFLOWING) and node.a.dtype.is_integer and not node.a.dtype.is_bool:

        def compute(m: Machine) -> Value:
            x, y = a(m), b(m)
            if m.indexing:
                check_overflow(m, node, x, y)
            return function(x, y)

        return compute
    return lambda m: function(a(m), b(m))


def _connective(a: n.Expr, b: n.Expr, both: bool) -> Run:
    first, second, vector = holds(a), holds(b), a.dtype.lanes != 1

    def run(m: Machine) -> Value:
        x = first(m)
        if vector:
            return x & second(m) if both else x | second(m)
        if np.ndim(x) == 0:
            return second(m) if bool(x) is both else x
        undecided = m.narrowed(x if both else ~x)
        if not undecided.any():
            return x
        with m.masked(undecided):
            y = second(m)
        return x & y if both else x | y

    return run


def _select(condition: n.Expr, yes: n.Expr, no: n.Expr) -> Run:
    c, t, f = holds(condition), compiled(yes), compiled(no)
    widen = condition.dtype.lanes == 1 and yes.dtype.lanes != 1

    def run(m: Machine) -> Value:
        which, x, y = c(m), t(m), f(m)
        if np.ndim(which) == 0:
            return x if which else y
        return np.where(which[..., None] if widen else which, x, y)

    return run


def _lazily(condition: n.Expr, yes: n.Expr, no: n.Expr) -> Run:
    c, t, f = holds(condition), compiled(yes), compiled(no)
    widen = condition.dtype.lanes == 1 and yes.dtype.lanes != 1

    def run(m: Machine) -> Value:
        which = c(m)
        if np.ndim(which) == 0:
            return t(m) if which else f(m)
        here, there = m.narrowed(which), m.narrowed(~which)
        if not here.any():
            with m.masked(there):
                return f(m)
        with m.masked(here):
            x = t(m)
        if not there.any():
            return x
        with m.masked(there):
            y = f(m)
        return np.where(which[..., None] if widen else which, x, y)

    return run


def _load(node: n.BufferLoad) -> Run:
    predicate = None if node.predicate is None else holds(node.predicate)
    place = access(node.buffer, node.indices, node.span, predicate)
    vector, span = node.dtype.lanes != 1, node.span
    if predicate is not None:

        def masked(m: Machine) -> Value:
            view, address = place(m)
            lanes = predicate(m)
            found = m.read(view, np.where(lanes, address, 0), span, vector, lanes)
            return np.where(lanes, found, np.zeros((), view.dtype))

        return masked

    def run(m: Machine) -> Value:
        view, address = place(m)
        if m.blocks and m.checked:
            check_declared(m, node.buffer, False, span)
        return m.read(view, address, span, vector)

    return run


def _ramp(node: n.Ramp) -> Run:
    base, stride = compiled(node.base), compiled(node.stride)
    steps = np.arange(n.lane_count(node.lanes)).astype(node.base.dtype.numpy)

    def run(m: Machine) -> Value:
        first, step = np.asarray(base(m))[..., None], np.asarray(stride(m))[..., None]
        if m.indexing:
            check_ramp(m, node, first, step)
        return first + step * steps

    return run


def _repeated(value: Value, width: int) -> Value:
    value = np.asarray(value)
    return np.broadcast_to(value[..., None], (*value.shape, width))


def _shuffle(node: n.Shuffle) -> Run:
    vectors = [(compiled(v), v.dtype.lanes == 1) for v in node.vectors]
    indices = [compiled(i) for i in node.indices]

    def run(m: Machine) -> Value:
        parts = [np.asarray(f(m))[..., None] if scalar else f(m) for f, scalar in vectors]
        shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        whole = np.concatenate([np.broadcast_to(p, (*shape, p.shape[-1])) for p in parts], axis=-1)
        lanes = [whole[..., int(i(m))] for i in indices]
        return np.stack(lanes, axis=-1) if len(lanes) != 1 else plain(lanes[0])

    return run


def _let(var: n.Var, value: n.Expr, body: n.Expr) -> Run:
    bound, inner = compiled(value), compiled(body)

    def run(m: Machine) -> Value:
        m.env[var] = bound(m)
        return inner(m)

    return run


def _call(node: n.Call) -> Run:
    match node.op:
        case "if_then_else":
            condition, yes, no = (_expression(arg) for arg in node.args)
            return _lazily(condition, yes, no)
        case str(name):
            function = meaning(name)
            if function is None:
                return compile_builtin(node)
            arguments = [compiled(_expression(arg)) for arg in node.args]
            dtype = node.dtype
            if name == "reinterpret" and (message := other_bytes(_expression(node.args[0]).dtype, dtype)):
                raise refuse("TR20", message, f"write T.Cast({str(dtype)!r}, ...) for the value.", at=node.span)

            def compute(m: Machine) -> Value:
                values = [argument(m) for argument in arguments]
                if m.checked and name in ("shift_left", "shift_right"):
                    check_shift(m, node, values[1])
                return function(dtype, *values)

            return compute
        case n.GlobalVar():
            return compile_function_call(node)
        case _:
            assert_never(node.op)


def _expression(argument: n.Argument) -> n.Expr:
    if not isinstance(argument, n.Expr):
        raise refuse("TR42", f"a {type(argument).__name__} is no value.", at=getattr(argument, "span", NOWHERE))
    return argument
