"""Expressions as Python functions of the machine: compiled once, run for one iteration or for many lanes at once.

`compiled` remembers the function of each node, so a loop's body is looked at once and not once per iteration.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

import numpy as np

from tensorir.source import NOWHERE, Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import other_bytes
from tensorir.tir.interpret.arithmetic import Value, cast, constant, operator, plain
from tensorir.tir.interpret.intrinsics import meaning
from tensorir.tir.interpret.machine import Machine, error, scalable
from tensorir.tir.interpret.memory import Pointer, View

__all__ = ["CODE", "Code", "access", "compiled"]

Run = Callable[[Machine], Value]

_LIMIT = 500_000


class Code:
    """The functions of the expressions and statements met so far, by node."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[n.Node, Any]] = {}

    def of(self, node: n.Node, compile_node: Callable[[Any], Any]) -> Any:
        found = self._known.get(id(node))
        if found is None:
            if len(self._known) > _LIMIT:
                self.clear()
            found = self._known[id(node)] = (node, compile_node(node))
        return found[1]

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


CODE = Code()


def compiled(node: n.Expr) -> Run:
    """The function that evaluates an expression."""
    return CODE.of(node, _compile)


def _compile(node: n.Expr) -> Run:
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
            inner = compiled(a)
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
            from tensorir.tir.interpret.deprecated import load

            return load(node)
        case n.Reduce():
            from tensorir.tir.interpret.deprecated import reduction

            return reduction(node)
        case _:
            raise error("TR42", f"a {type(node).__name__} is not run.", getattr(node, "span", NOWHERE))


def _scalable(node: n.Expr) -> Run:
    def refuse(m: Machine) -> Value:
        raise scalable(node.dtype, node.span)

    return refuse


def _variable(node: n.Var) -> Run:
    def run(m: Machine) -> Value:
        try:
            return m.env[node]
        except KeyError:
            raise error("TR07", f"the variable {node.name!r} has no value here.", node.span) from None

    return run


def _cast(value: n.Expr, node: n.Cast) -> Run:
    inner, source, target = compiled(value), value.dtype.element, node.dtype.element
    if source == target or target.code == "handle":
        return inner
    if not (source.is_float and target.is_integer and not target.is_bool):
        return lambda m: cast(inner(m), source, target)

    def convert(m: Machine) -> Value:
        found = inner(m)
        if m.checked:
            from tensorir.tir.interpret.undefined import check_cast

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
                from tensorir.tir.interpret.undefined import check_divisor

                check_divisor(m, node, y)
            return function(x, y)

        return divide
    if isinstance(node, _OVERFLOWING) and node.a.dtype.is_integer and not node.a.dtype.is_bool:

        def compute(m: Machine) -> Value:
            x, y = a(m), b(m)
            if m.indexing:
                from tensorir.tir.interpret.bounds import check_overflow

                check_overflow(m, node, x, y)
            return function(x, y)

        return compute
    return lambda m: function(a(m), b(m))


def _connective(a: n.Expr, b: n.Expr, both: bool) -> Run:
    first, second, vector = compiled(a), compiled(b), a.dtype.lanes != 1

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
    c, t, f = compiled(condition), compiled(yes), compiled(no)
    widen = condition.dtype.lanes == 1 and yes.dtype.lanes != 1

    def run(m: Machine) -> Value:
        which, x, y = c(m), t(m), f(m)
        if np.ndim(which) == 0:
            return x if which else y
        return np.where(which[..., None] if widen else which, x, y)

    return run


def _lazily(condition: n.Expr, yes: n.Expr, no: n.Expr) -> Run:
    c, t, f = compiled(condition), compiled(yes), compiled(no)
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


def access(
    buffer: n.Buffer, indices: tuple[n.Expr, ...], span: Span, predicate: Run | None = None
) -> Callable[[Machine], tuple[View, Value]]:
    """The view and the address that an access to a buffer means; `predicate` says which lanes of a vector count."""
    places = [compiled(index) for index in indices]
    vector = bool(indices) and indices[-1].dtype.lanes != 1

    def run(m: Machine) -> tuple[View, Value]:
        view = m.views.get(buffer)
        if view is None:
            view = m.view(buffer, span)
        if m.checked:
            m.indexing += 1
            values = [place(m) for place in places]
            m.indexing -= 1
        else:
            values = [place(m) for place in places]
        if len(values) != len(view.strides):
            message = f"{buffer.name!r} has {len(view.strides)} dimensions, but is indexed by {len(values)}."
            raise error("TR09", message, span)
        if m.checked:
            from tensorir.tir.interpret.bounds import check_bounds

            check_bounds(m, buffer, view, values, vector, span, None if predicate is None else predicate(m))
        return view, view.address(values, vector)

    return run


def _load(node: n.BufferLoad) -> Run:
    predicate = None if node.predicate is None else compiled(node.predicate)
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
            from tensorir.tir.interpret.bounds import check_declared

            check_declared(m, node.buffer, False, span)
        return m.read(view, address, span, vector)

    return run


def _ramp(node: n.Ramp) -> Run:
    base, stride = compiled(node.base), compiled(node.stride)
    steps = np.arange(n.lane_count(node.lanes)).astype(node.base.dtype.numpy)

    def run(m: Machine) -> Value:
        first, step = np.asarray(base(m))[..., None], np.asarray(stride(m))[..., None]
        if m.indexing:
            from tensorir.tir.interpret.bounds import check_ramp

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
                from tensorir.tir.interpret.calls import compile_builtin

                return compile_builtin(node)
            arguments = [compiled(_expression(arg)) for arg in node.args]
            dtype = node.dtype
            if name == "reinterpret" and (message := other_bytes(_expression(node.args[0]).dtype, dtype)):
                raise error("TR20", message, node.span, help=f"write T.Cast({str(dtype)!r}, ...) for the value.")

            def compute(m: Machine) -> Value:
                values = [argument(m) for argument in arguments]
                if m.checked and name in ("shift_left", "shift_right"):
                    from tensorir.tir.interpret.undefined import check_shift

                    check_shift(m, node, values[1])
                return function(dtype, *values)

            return compute
        case n.GlobalVar():
            from tensorir.tir.interpret.calls import compile_function_call

            return compile_function_call(node)
        case _:
            assert_never(node.op)


def _expression(argument: n.Argument) -> n.Expr:
    if not isinstance(argument, n.Expr):
        raise error("TR42", f"a {type(argument).__name__} is no value.", getattr(argument, "span", NOWHERE))
    return argument


def pointer_to(m: Machine, buffer: n.Buffer, span: Span) -> Pointer:
    """The pointer at which a buffer starts."""
    view = m.view(buffer, span)
    return Pointer(view.memory, view.offset * view.dtype.itemsize * view.lanes, view)
