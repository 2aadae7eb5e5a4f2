"""The memory and the address that an access to a buffer means."""

from __future__ import annotations

from collections.abc import Callable

from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value
from tensorir.tir.interpret.bounds import check_bounds
from tensorir.tir.interpret.code import Run, compiled
from tensorir.tir.interpret.machine import Machine, error
from tensorir.tir.interpret.memory import Pointer, View

__all__ = ["access", "pointer_to"]


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
            check_bounds(m, buffer, view, values, vector, span, None if predicate is None else predicate(m))
        return view, view.address(values, vector)

    return run


def pointer_to(m: Machine, buffer: n.Buffer, span: Span) -> Pointer:
    """The pointer at which a buffer starts."""
    view = m.view(buffer, span)
    return Pointer(view.memory, view.offset * view.dtype.itemsize * view.lanes, view)
