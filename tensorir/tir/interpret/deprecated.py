"""What older modules and TE still hold: loads and stores behind pointers, and reductions inside of expressions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.arithmetic import Value, cast, is_array
from tensorir.tir.interpret.code import compiled
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.interpret.memory import Pointer, View

__all__ = ["load", "reduction", "store"]

from tensorir.tir.interpret.code import Run


def _place(var: n.Var, dtype: DataType, index: n.Expr, span: Span) -> Callable[[Machine], tuple[View, Value]]:
    """The memory behind a pointer as elements of a type, and which of them are meant."""
    pointer, at = compiled(var), compiled(index)
    kind = dtype.element.numpy

    def run(m: Machine) -> tuple[View, Value]:
        target = pointer(m)
        if not isinstance(target, Pointer):
            raise error("TR07", f"{var.name!r} points to no memory here.", span)
        start = target.offset // kind.itemsize
        value = at(m)
        address = value.astype(np.int64) + start if is_array(value) else int(value) + start
        return View(target.memory, kind, 1, (), (), 0), address

    return run


def load(node: n.Load) -> Run:
    """The element at an index behind a pointer; 0 in lanes that the predicate leaves out."""
    place, predicate = _place(node.buffer_var, node.dtype, node.index, node.span), compiled(node.predicate)
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
    predicate, vector = compiled(node.predicate), source.lanes != 1

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
    condition = compiled(node.condition)
    axes = [(a.var, compiled(a.dom.min), compiled(a.dom.extent)) for a in node.axis if a.dom is not None]

    def run(m: Machine) -> Value:
        state: list[Any] = [e(m) for e in start]
        bounds = [(low(m), extent(m)) for _, low, extent in axes]
        if any(np.size(x) != 1 for pair in bounds for x in pair):
            raise error("TR42", "the bounds of this reduction differ from lane to lane.", node.span)
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
