"""Buffers of TIR as views of lifted buffers: what an access to a view means for the memory behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorir.integers.affine import Affine
from tensorir.ir.types import INT64
from tensorir.lifting.nests.linear import linear, term_of
from tensorir.lifting.nests.terms import Buffer, Number, Op, Term


def joined(name: str, a: Term, b: Term) -> Term:
    """An operation on two indices, which may be of different widths."""
    if a.element != b.element:
        if isinstance(b, Number):
            b = Number(b.value, a.element)
        elif isinstance(a, Number):
            a = Number(a.value, b.element)
        else:
            a, b = (x if x.element == INT64 else Op("cast", (x,), INT64) for x in (a, b))
    return Op(name, (a, b), a.element)


def plus(a: Term, b: Term) -> Term:
    if isinstance(b, Number) and not b.value:
        return a
    if isinstance(a, Number) and not a.value:
        return b
    return joined("plus", a, b)


def times(a: Term, b: Term) -> Term:
    if isinstance(b, Number) and b.value == 1:
        return a
    return joined("multiplies", a, b)


@dataclass(frozen=True, slots=True)
class View:
    """A buffer of the source: its memory, its shape, and where an element of it lies in the memory.

    `place` takes indices of the view (and a lane, for vectors) to indices of the memory; `strides` and `offset` count
    elements of the memory, for views of the view.
    """

    buffer: Buffer
    shape: tuple[Term, ...]
    strides: tuple[Term, ...]
    offset: Term
    lanes: int
    place: Callable[[tuple[Term, ...]], tuple[Term, ...]]
    bound: bool = False
    """Whether it ends where its shape does: one that is declared over a pool of memory may go on behind that."""


def whole(n: int) -> Number:
    return Number(n, INT64)


def row_major(shape: Sequence[Term]) -> tuple[Term, ...]:
    strides: list[Term] = []
    step: Term = whole(1)
    for extent in reversed(shape):
        strides.append(step)
        step = times(extent, step) if not isinstance(step, Number) or step.value != 1 else extent
        if isinstance(extent, Number) and isinstance(strides[-1], Number):
            step = whole(int(extent.value) * int(strides[-1].value))
    return tuple(reversed(strides))


def compact(buffer: Buffer, shape: Sequence[Term], lanes: int) -> View:
    """The view of a buffer that is the buffer itself (vectors as a last axis)."""
    return View(buffer, tuple(shape), row_major(shape), whole(0), lanes, lambda indices: indices)


def address_of(view: View, indices: Sequence[Term]) -> Term:
    """The address of an element of a view, in elements of the view."""
    total = view.offset
    for index, stride in zip(indices, view.strides, strict=True):
        total = plus(total, times(index, stride))
    return total


def linear_view(
    buffer: Buffer, shape: Sequence[Term], strides: Sequence[Term], offset: Term, lanes: int,
    order: Sequence[int] | None = None,
) -> View:  # fmt: skip
    """A view by strides and an offset over dense memory: an address, taken apart along the memory's axes.

    `order` has these axes from the outermost to the innermost, where they do not lie as they are written.
    """
    extents = buffer.shape[:-1] if lanes != 1 else buffer.shape
    steps = tuple(strides) or row_major(shape)

    def place(indices: tuple[Term, ...]) -> tuple[Term, ...]:
        own, lane = (indices[: len(shape)], indices[len(shape) :])
        total = offset
        for index, stride in zip(own, steps, strict=True):
            total = plus(total, times(index, stride))
        if order is None:
            return (*apart(total, extents), *lane)
        found = dict(zip(order, apart(total, [extents[axis] for axis in order]), strict=True))
        return (*(found[axis] for axis in range(len(extents))), *lane)

    return View(buffer, tuple(shape), steps, offset, lanes, place)


def scalar_view(buffer: Buffer, shape: Sequence[Term], strides: Sequence[Term], offset: Term, lanes: int) -> View:
    """A view by strides and an offset of memory that is addressed scalar by scalar, lanes of vectors included."""
    steps = tuple(strides) or row_major(shape)

    def place(indices: tuple[Term, ...]) -> tuple[Term, ...]:
        total = offset
        for index, stride in zip(indices[: len(shape)], steps, strict=True):
            total = plus(total, times(index, stride))
        for lane in indices[len(shape) :]:
            total = plus(times(total, whole(lanes)), lane)
        return (total,)

    return View(buffer, tuple(shape), steps, offset, lanes, place)


def scaled(offset: Term, before: int, after: int) -> Term | None:
    """An offset in units of `before` bytes in units of `after` bytes; None where that may be no whole number."""
    if before % after == 0:
        return times(offset, whole(before // after))
    found = linear(offset, {})
    if found is None or not found.is_linear:
        return None
    if any(c * before % after for _, c in found.terms) or found.constant * before % after:
        return None
    parts = tuple((atom, c * before // after) for atom, c in found.terms)
    return term_of(Affine(parts, found.constant * before // after), INT64)


def apart(address: Term, extents: Sequence[int]) -> tuple[Term, ...]:
    """The indices of an address in compact memory."""
    if len(extents) == 1:
        return (address,)
    found: list[Term] = []
    step = 1
    for axis in reversed(range(len(extents))):
        index = address if step == 1 else joined("floordiv", address, whole(step))
        if axis:
            index = joined("mod", index, whole(max(extents[axis], 1)))
        found.append(index)
        step *= max(extents[axis], 1)
    return tuple(reversed(found))
