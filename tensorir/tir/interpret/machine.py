"""The state of a running function: variables, views, lanes, room for deep expressions, compiled nodes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import NOWHERE, DiagnosticError, Note, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.interpret.memory import Axis, Conflict, Level, Memory, Pointer, View, row_major
from tensorir.tir.interpret.values import Value, is_array

compile_expression = ExtensionPoint(
    "the function of an expression in the interpreter of TIR",
    "tensorir.tir.interpret.expressions",
    "compile_expression",
)
compile_statement = ExtensionPoint(
    "the function of a statement in the interpreter of TIR", "tensorir.tir.interpret.statements", "compile_statement"
)

# Room for deep expressions: compiled functions call one another as deeply as the text nests.

T = TypeVar("T")

FRAMES = 60_000


class _Room:
    """The limit of the process, raised as long as any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(FRAMES, self._before))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setrecursionlimit(self._before)


_ROOM = _Room()


def deep(run: Callable[[], T]) -> T:
    """The result of `run`, which may recurse deeply; of threads that do so at once the last one gives the room back."""
    _ROOM.enter()
    try:
        return run()
    finally:
        _ROOM.leave()


# The functions that expressions and statements are compiled to, each node once.
#
# A loop's body is looked at once and not once per iteration. The rules of the kinds of nodes compile the nodes inside
# of theirs by `compiled` and `execute`; the extension points find the rule.

Run = Callable[["Machine"], Value]
Act = Callable[["Machine"], None]

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
    return CODE.of(node, compile_expression)


def holds(node: n.Expr) -> Run:
    """The function that evaluates a condition: a number holds where it is not 0."""
    value, element = compiled(node), node.dtype.element
    if element.is_bool or not (element.is_integer or element.is_float):
        return value
    return lambda m: np.not_equal(value(m), 0)


def execute(node: n.Stmt) -> Act:
    """The function that executes a statement."""
    return CODE.of(node, compile_statement)


# The state of a running function: variables, views, the lanes that run side by side, and what they touched.
#
# Lanes are iterations of loops, or threads, that execute one statement together: a variable then holds an array with
# one axis per loop (inner loops in front, so that values of outer loops broadcast by themselves), and `mask` says
# which lanes take part. Without lanes everything is a NumPy scalar.

MEMORY_LIMIT = 1 << 32
"""Bytes that one allocation may have, copies for lanes included."""


def scalable(dtype: DataType, span: Span) -> DiagnosticError:
    """The diagnostic of a vector whose length only a machine tells."""
    message = f"{dtype} has T.vscale() times as many lanes, which a machine tells: it cannot be interpreted."
    return refuse("TR20", message, "write the number of lanes: T.Ramp(0, 1, 4).", at=span)


def held_type(dtype: DataType, span: Span) -> np.dtype[Any]:
    """The type of the arrays that hold elements of a data type; a handle, or a width that no array has, is refused."""
    try:
        return dtype.element.numpy
    except TypeError:
        message = f"arrays hold no elements of type {dtype}: it cannot be interpreted."
        raise refuse("TR20", message, "hold them in a wider type, such as int8.", at=span) from None


@dataclass(eq=False, slots=True)
class Machine:
    """Everything that changes while a function runs."""

    checked: bool = False
    watch: frozenset[str] = frozenset()
    module: n.IRModule | None = None
    env: dict[n.Var, Value] = field(default_factory=dict[n.Var, Value])
    views: dict[n.Buffer, View] = field(default_factory=dict[n.Buffer, View])
    mask: Value = None
    axes: tuple[Axis, ...] = ()
    count: int = 1
    levels: list[Level] = field(default_factory=list[Level])
    fold: Level | None = None  # the lanes that may meet in updates
    undo: list[tuple[Any, Any, Any]] | None = None
    watched: dict[str, View] = field(default_factory=dict[str, View])
    # control: lanes that left the iteration, the loop, the function
    jumps: bool = False
    continued: Value = None
    broken: Value = None
    returned: Value = None
    result: Value = None
    depth: int = 0
    births: int = 0
    scratch: dict[n.For, tuple[n.Buffer, ...]] = field(default_factory=dict[n.For, tuple[n.Buffer, ...]])
    """What blocks allocate for the iterations of loops that run at once."""
    indexing: int = 0  # how many indices are being computed, one inside of the other
    # threads
    kernel: Any = None
    reducers: list[Any] = field(default_factory=list[Any])
    sites: list[Span] = field(default_factory=list[Span])
    blocks: list[Any] = field(default_factory=list[Any])
    trace: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    # ------------------------------------------------------------------------------------------------------------ lanes

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of the lanes: inner loops first."""
        return tuple(len(axis.values) for axis in reversed(self.axes))

    def active(self) -> Value:
        """The lanes that take part, as a truth value or an array of them."""
        return np.True_ if self.mask is None else self.mask

    def narrowed(self, condition: Value) -> Value:
        """The mask of the lanes that take part and for which the condition holds."""
        return condition if self.mask is None else self.mask & condition

    @contextmanager
    def masked(self, mask: Value) -> Generator[None, None, None]:
        before, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = before

    def left(self) -> Value:
        """The lanes that do not go on with this iteration."""
        gone: Value = np.False_
        for part in (self.continued, self.broken, self.returned):
            if part is not None:
                gone = gone | part
        return gone

    # ----------------------------------------------------------------------------------------------------------- memory

    def allocate(self, buffer: n.Buffer, shape: tuple[Value, ...], span: Span) -> View:
        """A buffer with new memory, one copy for each lane that has one of its own."""

        _fits(buffer, span)
        extents = [int(np.max(extent)) if np.size(extent) else 0 for extent in shape]
        if any(extent < 0 for extent in extents):
            raise refuse("TR05", f"{buffer.name!r} is allocated with a negative extent, {tuple(extents)}.", at=span)
        strides = self._strides(buffer, shape)
        steps = [int(np.max(step)) if np.size(step) else 0 for step in strides]
        if any(step < 0 for step in steps):
            raise refuse("TR05", f"{buffer.name!r} is allocated with a negative stride, {tuple(steps)}.", at=span)
        count = 0 if 0 in extents else 1 + sum((e - 1) * step for e, step in zip(extents, steps, strict=True))
        count *= buffer.dtype.lanes
        axes = self.private_axes(buffer.scope, buffer)
        memory = self.memory(count, buffer.dtype.element.numpy, buffer.name, buffer.scope, axes, span)
        view = View(memory, buffer.dtype.element.numpy, buffer.dtype.lanes, shape, strides, 0)
        if buffer.name in self.watch:
            self.watched[buffer.name] = view
        return view

    def private_axes(self, scope: str, buffer: n.Buffer | None) -> tuple[Axis, ...]:
        """The lanes that have a copy of their own of memory allocated here."""
        return self.axes if self.kernel is None else self.kernel.private(self.axes, scope, buffer)

    def _strides(self, buffer: n.Buffer, shape: tuple[Value, ...]) -> tuple[Value, ...]:
        """The strides of a buffer that is allocated: those that it declares, and where it leaves them open, packed."""

        packed = row_major(shape)
        if len(buffer.strides) != len(packed):
            return packed
        pairs = zip(buffer.strides, packed, strict=True)
        return tuple(
            step if isinstance(declared, n.Var) and declared not in self.env else _whole(compiled(declared)(self))
            for declared, step in pairs
        )

    def memory(
        self, count: int, dtype: np.dtype[Any], name: str, scope: str, axes: tuple[Axis, ...], span: Span
    ) -> Memory:
        """Fresh memory; `axes` are the lanes that have copies of their own."""
        copies, copy = 1, 0
        if axes:
            copy_of: Value = 0
            for place, axis in enumerate(self.axes):
                if axis in axes:
                    values = np.arange(len(axis.values)).reshape(-1, *([1] * place))
                    copy_of = copy_of * len(axis.values) + values
                    copies *= len(axis.values)
            copy = copy_of if copies > 1 else 0
        if count * dtype.itemsize * copies > MEMORY_LIMIT:
            message = f"{name!r} needs {count * dtype.itemsize * copies} bytes, more than the {MEMORY_LIMIT} there are."
            each = f"each of {copies} iterations or threads has {count * dtype.itemsize} bytes of its own: "
            help = f"{each}allocate of it what one of them touches, as TVM's CompactBufferAllocation does."
            raise refuse("TR06", message, help if copies > 1 else "", at=span)
        memory = Memory.new(count, dtype, name, scope, copies, copy)
        memory.own = copies > 1 and copies == self.count
        self.births += 1
        memory.born = self.births
        return memory

    def view(self, buffer: n.Buffer, span: Span = NOWHERE) -> View:
        """The buffer as it is now."""
        found = self.views.get(buffer)
        if found is None:
            found = self._declare(buffer, span)
        return found

    def has_memory(self, buffer: n.Buffer) -> bool:
        """True if a buffer stands for memory by now."""
        return buffer in self.views or isinstance(self.env.get(buffer.data), Pointer)

    def _declare(self, buffer: n.Buffer, span: Span) -> View:
        """A buffer that no statement declared stands for the memory behind its pointer."""

        pointer = self.env.get(buffer.data)
        if not isinstance(pointer, Pointer):
            raise refuse("TR07", f"the buffer {buffer.name!r} has no memory here.", at=span)
        shape = tuple(compiled(extent)(self) for extent in buffer.shape)
        strides = tuple(compiled(stride)(self) for stride in buffer.strides)
        offset = 0 if buffer.elem_offset is None else compiled(buffer.elem_offset)(self)
        view = self.alias(pointer, buffer, shape, strides, offset)
        self.views[buffer] = view
        return view

    def alias(
        self, pointer: Pointer, buffer: n.Buffer, shape: tuple[Value, ...], strides: tuple[Value, ...], offset: Value
    ) -> View:
        """A buffer over memory that exists."""
        _fits(buffer, buffer.span)
        dtype = buffer.dtype.element.numpy
        whole = tuple(_whole(extent) for extent in shape)
        steps = tuple(_whole(stride) for stride in strides) if strides else row_major(whole)
        width = dtype.itemsize * abs(buffer.dtype.lanes)
        if np.any(np.asarray(pointer.offset) % width):
            message = f"{buffer.name!r} starts in the midst of an element of {buffer.dtype}, {width} bytes wide."
            raise refuse("TR17", message, f"let it start at a multiple of {width} bytes.", at=buffer.span)
        if self.undo is None:
            pointer.memory.refine(dtype.itemsize)
        start = _whole(offset) + pointer.offset // width
        view = View(pointer.memory, dtype, buffer.dtype.lanes, whole, steps, start)
        if buffer.name in self.watch:
            self.watched.setdefault(buffer.name, view)
        return view

    def read(self, view: View, address: Value, span: Span, vector: bool = False, predicate: Value = None) -> Value:
        """The elements at addresses (in scalars of the view's type)."""
        memory = view.memory
        itemsize = view.dtype.itemsize
        limit = memory.size // itemsize
        mask = self._lanes_of(vector, predicate)
        if isinstance(address, int):
            if not 0 <= address < limit:
                if self.checked:
                    raise self.outside(memory, view.shape, address, span, "read")
                return np.zeros((), view.dtype)[()]
        elif address.size and (address.min() < 0 or address.max() >= limit):
            outside = (address < 0) | (address >= limit)
            if self.checked and (outside if mask is None else outside & mask).any():
                bad = outside if mask is None else outside & mask
                raise self.outside(
                    view.memory, view.shape, int(np.broadcast_to(address, bad.shape)[bad][0]), span, "read"
                )
            elements = self.read(view, np.where(outside, 0, address), span, vector, _both(~outside, predicate))
            return np.where(outside, np.zeros((), view.dtype), elements)
        place = address if isinstance(memory.copy, int) else address + _trailing(memory.copy, vector) * limit
        if self.levels or self.checked:
            self._note(memory, place, mask, False, itemsize, span, vector)
        return memory.typed(view.dtype)[place]

    def write(
        self, view: View, address: Value, value: Value, span: Span, vector: bool = False, predicate: Value = None
    ) -> None:
        """Store the values at addresses, lane by lane; of several for one element the last stays."""
        memory = view.memory
        limit = memory.size // view.dtype.itemsize
        mask = self._lanes_of(vector, predicate)
        if isinstance(address, int):
            if not 0 <= address < limit:
                raise self.outside(memory, view.shape, address, span, "written")
        elif address.size and (address.min() < 0 or address.max() >= limit):
            outside = (address < 0) | (address >= limit)
            bad = outside if mask is None else outside & mask
            if bad.any():
                raise self.outside(
                    view.memory, view.shape, int(np.broadcast_to(address, bad.shape)[bad][0]), span, "written"
                )
            address = np.where(outside, 0, address)
        place = address if isinstance(memory.copy, int) else address + _trailing(memory.copy, vector) * limit
        if self.levels or self.checked:
            self._note(memory, place, mask, True, view.dtype.itemsize, span, vector, value)
        target = memory.typed(view.dtype)
        if isinstance(place, int) and (mask is None or np.ndim(mask) == 0) and np.ndim(value) == 0:
            if self.undo is not None:
                self.undo.append((target, place, target[place]))
            target[place] = value
            return
        if mask is None:
            place, value = np.broadcast_arrays(place, value)
        else:
            place, value, mask = np.broadcast_arrays(place, value, mask)
            place, value = place[mask], value[mask]
        if self.undo is not None:
            self.undo.append((target, place, target[place]))
        target[place] = value

    def _lanes_of(self, vector: bool, predicate: Value) -> Value:
        mask = self.mask if not vector or not is_array(self.mask) else self.mask[..., None]
        return _both(mask, predicate)

    def _note(
        self,
        memory: Memory,
        place: Value,
        mask: Value,
        write: bool,
        itemsize: int,
        span: Span,
        vector: bool,
        value: Value = None,
        atomic: bool = False,
    ) -> None:
        """Tell the logs of an access; in checked mode also whether what is read was written."""
        wide = memory.unit
        if itemsize != wide:
            if itemsize > wide:
                place = (np.asarray(place)[..., None] * (itemsize // wide)) + np.arange(itemsize // wide)
                mask = mask if not is_array(mask) else mask[..., None]
                if vector:  # the lanes of a vector and the parts of each as one axis
                    if is_array(mask):
                        place, mask = np.broadcast_arrays(place, mask)
                        mask = mask.reshape(*mask.shape[:-2], -1)
                    place = place.reshape(*place.shape[:-2], -1)
                value, vector = None, True
            else:
                place = place // (wide // itemsize)
        if self.checked:
            self._know(memory, place, mask, write, span)
        shapes = [np.shape(part) for part in (place, mask, value) if part is not None]
        shape = np.broadcast_shapes(*shapes)
        shape = shape[:-1] if vector and shape else shape
        for level in self.levels:
            if level.watches(memory):
                level.note(memory, np.asarray(place), mask, write, span, shape, vector, atomic)

    def updated(self, memory: Memory, place: Value, itemsize: int, span: Span) -> None:
        """Tell the logs of an atomic update."""
        self._note(memory, place, self.mask, True, itemsize, span, False, atomic=True)

    def folded(self, view: View, address: Value, values: Value, fold: np.ufunc, span: Span, inside: Value) -> None:
        """Join values with the elements at addresses, each whichever comes first where lanes meet."""
        memory, mask = view.memory, _both(self.mask, inside)
        limit = memory.size // view.dtype.itemsize
        place = address if isinstance(memory.copy, int) else address + memory.copy * limit
        shape = np.broadcast_shapes(np.shape(place), np.shape(values), np.shape(mask), self.lanes)
        place, values = np.broadcast_to(place, shape), np.broadcast_to(values, shape)
        live = np.broadcast_to(True if mask is None else mask, shape)
        self._note(memory, place, live, True, view.dtype.itemsize, span, False, atomic=True)
        target = memory.typed(view.dtype)
        if self.undo is not None:
            self.undo.append((target, place[live], target[place[live]]))
        fold.at(target, place[live], values[live])

    def update(self, view: View, address: Value, values: Value, fold: np.ufunc, span: Span) -> None:
        """Join values with the elements at addresses, lanes that meet in the order of the text."""
        memory, itemsize = view.memory, view.dtype.itemsize
        place = address if isinstance(memory.copy, int) else address + memory.copy * (memory.size // itemsize)
        levels = self.levels
        self.levels = levels[:-1]  # lanes further out read and write, one after the other
        try:
            for write in (False, True):
                self._note(memory, place, self.mask, write, itemsize, span, False)
        finally:
            self.levels = levels
        if levels[-1].watches(memory):
            levels[-1].note(memory, np.asarray(place), self.mask, True, span, np.shape(place), False, True)
        place, values = (np.broadcast_to(x, self.lanes).T for x in (place, values))
        live = np.broadcast_to(self.active(), self.lanes).T
        target = memory.typed(view.dtype)
        assert self.undo is not None
        self.undo.append((target, place[live], target[place[live]]))
        fold.at(target, place[live], values[live])

    def _know(self, memory: Memory, place: Value, mask: Value, write: bool, span: Span) -> None:
        if not memory.allocated:
            return
        known = memory.knowledge()
        if is_array(mask):
            places, live = np.broadcast_arrays(place, mask)
            place = places[live]
        if write:
            if self.undo is not None:
                self.undo.append((known, place, known[place]))
            known[place] = True
        elif not np.all(known[place]):
            flat = np.atleast_1d(place).ravel()
            element = int(flat[~np.atleast_1d(known[place]).ravel()][0])
            raise self.unknown(memory, element, span)

    def unknown(self, memory: Memory, element: int, span: Span) -> DiagnosticError:
        per_copy = memory.size // memory.unit
        element = element % per_copy * memory.unit // memory.element
        message = f"element {element} of {memory.name!r} is read, but nobody has written it."
        return refuse("TR02", message, at=span, notes=self.where())

    def where(self) -> tuple[str, ...]:
        """A note that says in which iteration of the scalar loops we are."""
        loops = ", ".join(f"{name} = {value}" for name, value in self.trace)
        return (f"in the iteration {loops}.",) if loops else ()

    def outside(
        self, memory: Memory, extents: tuple[Value, ...], element: int, span: Span, verb: str
    ) -> DiagnosticError:
        """The diagnostic of an access that leaves a memory."""
        shape = tuple(int(np.max(extent)) for extent in extents)
        message = f"element {element} of {memory.name!r}, of shape {shape}, is {verb}: it lies outside of the memory."
        return refuse("TR01", message, at=span, notes=self.where())

    def race(self, conflict: Conflict, help: str = "make the loop serial, or use an atomic.") -> DiagnosticError:
        """The diagnostic of two iterations that touch one element."""
        first, second = conflict.first, conflict.second
        memory = conflict.memory
        element = conflict.element % (memory.size // memory.unit) * memory.unit // memory.element
        message = (
            f"race: element {element} of {memory.name!r} is {first.verb} "
            f"at {first.iteration} and {second.verb} at {second.iteration}."
        )
        notes = [Note("the other access is here.", first.span)] if first.span and first.span is not second.span else []
        return refuse("TR03", message, help, at=second.span or NOWHERE, notes=(*notes, *self.where()))

    def restore(self, length: int) -> None:
        """Take back the writes since the undo log was `length` long."""
        assert self.undo is not None
        while len(self.undo) > length:
            target, place, before = self.undo.pop()
            target[place] = before


def _whole(value: Value) -> Value:
    return value.astype(np.int64) if is_array(value) else int(value)


def _trailing(value: Value, vector: bool) -> Value:
    return value[..., None] if vector and is_array(value) else value


def _both(mask: Value, other: Value) -> Value:
    return other if mask is None else mask if other is None else mask & other


def _fits(buffer: n.Buffer, span: Span) -> None:
    """Layouts that swizzle, spread over threads or leave gaps, and scalable vectors, belong to one machine only."""
    if buffer.dtype.lanes < 0:
        raise scalable(buffer.dtype, span)
    held_type(buffer.dtype, span)
    if isinstance(layout := buffer.layout, n.TileLayout | n.ComposeLayout) and not layout.is_row_major:
        message = f"the layout of {buffer.name!r} is not the row-major one, and no other can be run here."
        raise refuse("TR18", message, "leave the layout out, or write the places as indices.", at=layout.span or span)
