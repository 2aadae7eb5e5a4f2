"""Calls that do more than compute: pointers, atomics, barriers, shuffles, reductions over threads."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from tensorir.runtime.errors import NOWHERE, DiagnosticError, Span, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import BUILTINS, ELIDED, EXTERNAL, GPU_ONLY, awaits_block, builtin_of, launched
from tensorir.tir.interpret.accesses import access, pointer_to
from tensorir.tir.interpret.machine import CODE, Code, Machine, compiled, execute, holds
from tensorir.tir.interpret.memory import Memory, Pointer, View, row_major, strided
from tensorir.tir.interpret.threads import keeps_storage
from tensorir.tir.interpret.tiles import compile_tile
from tensorir.tir.interpret.values import Value, operator
from tensorir.tir.tiles.operations import is_tile
from tensorir.tir.tiles.warp_groups import normal
from tensorir.tir.trees import walk

__all__ = ["ACTIVE", "SHUFFLES", "compile_builtin", "compile_function_call", "invoke"]

# Values that threads of one warp hand to one another: shuffles, and which threads take part.
#
# The threads of a block are numbered with `threadIdx.x` running fastest; some of them are a warp, and `width` of
# these, side by side, hand values around. A thread whose source is outside keeps its own value.


Run = Callable[[Machine], Value]
_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def _threads(m: Machine, span: Span) -> list[int]:
    """The axes of the lanes that are threads of a block, slowest first."""
    if m.kernel is None:
        raise refuse("TR21", "threads of a warp hand values around, and this stands in no kernel.", at=span)
    known = [m.kernel.axes.get(tag) for tag in _TAGS]
    return [len(m.axes) - 1 - k for axis in known for k, a in enumerate(m.axes) if a is axis]


def _lined_up(m: Machine, value: Value, axes: list[int]) -> Value:
    """The value of every lane, the threads of a block in one last axis."""
    whole = np.moveaxis(np.broadcast_to(value, m.lanes), axes, range(-len(axes), 0))
    return whole.reshape(*whole.shape[: whole.ndim - len(axes)], -1)


def _back(m: Machine, value: Value, axes: list[int]) -> Value:
    shape = [m.lanes[axis] for axis in axes]
    return np.moveaxis(value.reshape(*value.shape[:-1], *shape), range(-len(axes), 0), axes)


def _shuffle(source: Callable[[Value, Value, int], Value]) -> Callable[[n.Call], Run]:
    """A shuffle; `source` says from which lane of its group each lane takes the value."""

    def make(node: n.Call) -> Run:
        _, value, by, width, warp = (compiled(a) for a in node.args[:5] if isinstance(a, n.Expr))

        def run(m: Machine) -> Value:
            axes = _threads(m, node.span)
            if not axes:
                return value(m)
            own = _lined_up(m, value(m), axes)
            thread = np.arange(own.shape[-1])
            size, group = int(np.max(warp(m))), int(np.max(width(m)))
            within = thread % size % group
            taken = source(within, _lined_up(m, by(m), axes), group)
            kept = (taken < 0) | (taken >= group)
            place = thread - within + np.where(kept, within, taken)
            place = np.where(place < own.shape[-1], place, thread)
            live = _lined_up(m, m.active(), axes)
            place = np.broadcast_to(place, own.shape)
            there = np.take_along_axis(live, place, -1)
            if m.checked and (live & ~there).any():
                at = tuple(np.argwhere(live & ~there)[0])
                message = f"thread {at[-1]} takes a value from thread {place[at]}, which does not take part."
                raise refuse("TR16", message, at=node.span, notes=m.where())
            found = np.where(there, np.take_along_axis(own, place, -1), np.zeros((), own.dtype))
            return _back(m, found, axes)

        return run

    return make


def _active(node: n.Call) -> Run:
    """One bit per thread of the warp that takes part."""

    def run(m: Machine) -> Value:
        axes = _threads(m, node.span)
        if not axes:
            return node.dtype.numpy.type(1)
        live = _lined_up(m, m.active(), axes)
        count = live.shape[-1]
        padded = np.zeros((*live.shape[:-1], -(-count // 32) * 32), np.uint64)
        padded[..., :count] = live
        bits = (padded.reshape(*live.shape[:-1], -1, 32) << np.arange(32, dtype=np.uint64)).sum(-1)
        masks = np.repeat(bits, 32, axis=-1)[..., :count]
        return _back(m, masks.astype(np.uint32).astype(node.dtype.numpy), axes)

    return run


SHUFFLES: dict[str, Callable[[n.Call], Run]] = {
    "tvm_warp_shuffle": _shuffle(lambda within, by, width: by % width),
    "tvm_warp_shuffle_up": _shuffle(lambda within, by, width: within - by),
    "tvm_warp_shuffle_down": _shuffle(lambda within, by, width: within + by),
    "tvm_warp_shuffle_xor": _shuffle(lambda within, by, width: within ^ by),
}
"""The shuffles, by name: each makes the function of a call."""

ACTIVE: dict[str, Callable[[n.Call], Run]] = {"tvm_warp_activemask": _active}

# Calls that do more than compute: pointers, atomics, barriers, reductions over threads, functions of the module.
#
# A builtin that is in neither table, and a packed function that the registry does not know, is refused by name.

_NORMAL = Code()
"""Functions as programs of their blocks, where they are kernels of tiles."""

RECURSION_LIMIT = 200
"""How deep calls of functions of the module may nest."""


def compile_builtin(node: n.Call) -> Run:
    """The function of a builtin with effects, or one that refuses the call by name when it is reached."""
    assert isinstance(node.op, str)
    if (known := builtin_of(node)) is not None:
        return compiled(known)
    if is_tile(node):
        return compile_tile(node)
    if (maker := _MAKERS.get(node.op)) is not None:
        try:
            return maker(node)
        except DiagnosticError:
            raise
        except (AssertionError, LookupError, ValueError):
            message = f"T.{node.op} is not called with these arguments: it cannot be interpreted."
            raise refuse("TR20", message, at=node.span) from None
    row = BUILTINS.get(node.op)
    why = "is told by a machine only" if node.op == "vscale" else "has no meaning here"
    if row is not None and row.meaning == GPU_ONLY:
        why = "runs on a device only"
    elif row is not None and row.meaning == ELIDED:
        why = "stands for what the text leaves out"
    elif row is not None and row.meaning == EXTERNAL:
        why = "belongs to TVM's runtime"

    def refused(m: Machine) -> Value:
        raise refuse("TR20", f"T.{node.op} {why}: it cannot be interpreted.", at=node.span)

    return refused


def _plain(argument: n.Argument) -> n.Expr:
    if not isinstance(argument, n.Expr):
        message = "a buffer, or a region of one, stands where a value is needed."
        raise refuse("TR20", message, "read elements: A[T.Ramp(0, 1, 4)].", at=getattr(argument, "span", NOWHERE))
    return argument


def _handle(argument: n.Argument, span: Span) -> Run:
    """An argument that stands for memory: a buffer, an element, a pointer."""
    match argument:
        case n.Buffer():
            return lambda m: pointer_to(m, argument, span)
        case n.BufferLoad(buffer, indices):
            place = access(buffer, indices, span)

            def element(m: Machine) -> Value:
                view, address = place(m)
                return Pointer(view.memory, address * view.dtype.itemsize, view)

            return element
        case n.BufferRegion(buffer, region):
            return _handle(n.BufferLoad(buffer, tuple(r.min for r in region)), span)
        case n.Expr():
            return compiled(argument)
        case _:
            raise refuse("TR42", f"a {type(argument).__name__} is no value.", at=getattr(argument, "span", span))


def _nothing(node: n.Call) -> Run:
    return lambda m: np.int32(0)


def _address_of(node: n.Call) -> Run:
    return _handle(node.args[0], node.span)


def _access_ptr(node: n.Call) -> Run:
    """`tvm_access_ptr(type, data, offset, extent, mask)`, or `buffer.access_ptr(mask, ...)`, or of an element."""
    if isinstance(node.args[0], n.Buffer | n.BufferLoad):
        return _handle(node.args[0], node.span)
    kind, data, offset = (_plain(a) for a in node.args[:3])
    base, step = compiled(data), compiled(offset)
    itemsize = kind.dtype.element.numpy.itemsize * kind.dtype.lanes if kind.dtype.code != "handle" else 1

    def run(m: Machine) -> Value:
        pointer = base(m)
        return Pointer(pointer.memory, pointer.offset + step(m) * itemsize, pointer.view)

    return run


def _buffer_offset(node: n.Call) -> Run:
    buffer = node.args[0]
    assert isinstance(buffer, n.Buffer)
    indices = tuple(_plain(a) for a in node.args[1:])
    place = access(buffer, indices, node.span) if len(indices) == len(buffer.shape) else None

    def run(m: Machine) -> Value:
        address = m.view(buffer).offset if place is None else place(m)[1]
        return np.asarray(address).astype(np.int32)[()]

    return run


def _byte_offset(node: n.Call) -> Run:
    base, step = compiled(_plain(node.args[0])), compiled(_plain(node.args[1]))

    def run(m: Machine) -> Value:
        pointer = base(m)
        return Pointer(pointer.memory, pointer.offset + step(m), pointer.view)

    return run


def _is_null(node: n.Call) -> Run:
    value = compiled(_plain(node.args[0]))
    return lambda m: np.bool_(not isinstance(value(m), Pointer))


def _barrier(node: n.Call) -> Run:
    whole = awaits_block(node)

    def run(m: Machine) -> Value:
        if m.kernel is not None:
            if m.checked and whole:
                m.kernel.reached(m, node.span)
            m.kernel.barrier()
        return np.int32(0)

    return run


def _atomic(name: str | None) -> Callable[[n.Call], Run]:
    """An atomic update: lane by lane where several meet at one element; the old value is the result."""

    def make(node: n.Call) -> Run:
        target, value = _handle(node.args[0], node.span), compiled(_plain(node.args[1]))
        dtype = _plain(node.args[1]).dtype
        function = None if name is None else operator(name, dtype.element)

        def run(m: Machine) -> Value:
            pointer, new = target(m), value(m)
            array = pointer.memory.typed(dtype.element.numpy)
            limit = pointer.memory.size // array.dtype.itemsize
            units = np.asarray(pointer.offset) // array.dtype.itemsize
            places = units + np.asarray(pointer.memory.copy) * limit
            shape = m.lanes if m.kernel is not None else np.broadcast_shapes(np.shape(places), np.shape(new))
            places, new = np.broadcast_to(places, shape), np.broadcast_to(new, shape)
            live = np.broadcast_to(m.active(), shape)
            outside = live & ((units < 0) | (units >= limit))
            if outside.any():
                extents = (limit,) if pointer.view is None else pointer.view.shape
                element = int(np.broadcast_to(units, shape)[outside][0])
                raise m.outside(pointer.memory, extents, element, node.span, "updated")
            m.updated(pointer.memory, places, array.dtype.itemsize, node.span)
            old = np.zeros(shape, array.dtype)
            for outer_first in np.ndindex(*reversed(shape)):
                at = outer_first[::-1]  # inner axes are in front
                if live[at]:
                    place = places[at]
                    if m.undo is not None:
                        m.undo.append((array, place, array[place]))
                    old[at] = array[place]
                    array[place] = new[at] if function is None else function(old[at], new[at])
            return old[()]

        return run

    return make


def _allreduce(node: n.Call) -> Run:
    """tvm_thread_allreduce(count, values..., condition, results..., thread indices...)."""
    count = node.args[0]
    assert isinstance(count, n.IntImm)
    size = count.value
    values = [compiled(_plain(a)) for a in node.args[1 : 1 + size]]
    condition = holds(_plain(node.args[1 + size]))
    results = [_handle(a, node.span) for a in node.args[2 + size : 2 + 2 * size]]
    indices = [compiled(_plain(a)) for a in node.args[2 + 2 * size :]]

    def run(m: Machine) -> Value:
        if not m.reducers or m.kernel is None:
            raise refuse("TR21", "T.tvm_thread_allreduce stands in no reduce_scope of a kernel.", at=node.span)
        reducer = m.reducers[-1]
        live = np.broadcast_to(m.narrowed(condition(m)), m.lanes)
        parts = [np.broadcast_to(value(m), m.lanes) for value in values]
        places = {np.ndim(i) - 1 for i in (index(m) for index in indices) if np.size(i) > 1}
        axes = tuple(sorted(len(m.lanes) - 1 - place for place in places))
        kept = [extent for place, extent in enumerate(m.lanes) if place not in axes]
        moved = [np.moveaxis(part, axes, range(len(axes))).reshape(-1, *kept) for part in parts]
        masks = np.moveaxis(live, axes, range(len(axes))).reshape(-1, *kept)
        with m.masked(None):
            total = [np.broadcast_to(compiled(e)(m), kept) for e in reducer.identity_element]
            for step in range(len(masks)):
                m.env.update(zip(reducer.lhs, total, strict=True))
                m.env.update(zip(reducer.rhs, [part[step] for part in moved], strict=True))
                new = [compiled(e)(m) for e in reducer.result]
                total = [np.where(masks[step], x, y) for x, y in zip(new, total, strict=True)]
        for pointer, value in zip((result(m) for result in results), total, strict=True):
            wide = np.expand_dims(value, axes)
            view = pointer.view
            dtype = wide.dtype
            flat = View(pointer.memory, dtype, 1, (), (), 0)
            m.write(flat, pointer.offset // dtype.itemsize, wide, node.span)
            del view
        return np.int32(0)

    return run


def _packed(node: n.Call) -> Run:
    """call_packed(name, arguments...): a function of the registry."""
    from tensorir.tir.interpret.values import KNOWN

    name = node.args[0]
    title = name.value if isinstance(name, n.StringImm) else "?"
    function = KNOWN.get(title)
    arguments = [_handle(a, node.span) for a in node.args[1:]]

    def run(m: Machine) -> Value:
        if function is None:
            message = f"the external function {title!r} is not known, so the call cannot be interpreted."
            raise refuse("TR22", message, f"known are {', '.join(map(repr, KNOWN))}.", at=node.span)
        if m.axes:
            raise refuse("TR23", f"{title!r} is called by many threads at once; it runs once only.", at=node.span)
        values = [argument(m) for argument in arguments]
        result = function(*[_array(v) if isinstance(v, Pointer) else v for v in values])
        for v in values:
            if m.checked and isinstance(v, Pointer):
                v.memory.knowledge()[:] = True
        return np.int32(0) if result is None else result

    return run


def _array(pointer: Pointer) -> Any:
    """The buffer behind a pointer as a NumPy array that shares the memory."""
    view = pointer.view
    assert view is not None
    elements = view.memory.typed(view.dtype)[int(pointer.offset) // view.dtype.itemsize :]
    itemsize = view.dtype.itemsize * view.lanes
    strides = tuple(int(s) * itemsize for s in view.strides)
    return strided(elements, tuple(int(e) for e in view.shape), strides)


def _make_shape(node: n.Call) -> Run:
    values = [compiled(_plain(a)) for a in node.args]
    return lambda m: tuple(int(value(m)) for value in values)


def _make_array(node: n.Call) -> Run:
    """tvm_stack_make_array(data, shape, strides, ndim, dtype, elem_offset): a buffer as an argument."""
    data, shape, strides = (compiled(_plain(a)) for a in node.args[:3])
    sample, offset = _plain(node.args[4]), compiled(_plain(node.args[5]))
    dtype = sample.dtype

    def run(m: Machine) -> Value:
        pointer, extents, steps = data(m), shape(m), strides(m)
        if not _is_shape(steps):
            steps = row_major(extents)
        start = int(offset(m))
        view = View(pointer.memory, dtype.element.numpy, dtype.lanes, extents, steps, start)
        return Pointer(pointer.memory, pointer.offset + start * dtype.element.numpy.itemsize * dtype.lanes, view)

    return run


def _is_shape(value: Value) -> TypeGuard[tuple[Value, ...]]:
    return isinstance(value, tuple)


def _alloca(node: n.Call) -> Run:
    """tvm_stack_alloca(kind, count): room for arguments."""
    count = compiled(_plain(node.args[1]))

    def run(m: Machine) -> Value:
        memory = m.memory(int(count(m)) * 8, np.dtype(np.uint8), "stack", "global", m.private_axes("", None), node.span)
        return Pointer(memory)

    return run


def _masked_load(node: n.Call) -> Run:
    """masked_load(buffer, indices..., mask): the lanes that the mask names, and 0 in the others."""
    buffer, *indices, mask = node.args
    assert isinstance(buffer, n.Buffer)
    return compiled(n.BufferLoad(buffer, tuple(map(_plain, indices)), _plain(mask), node.span))


def _masked_store(node: n.Call) -> Run:
    """masked_store(buffer, value, indices..., mask): the lanes that the mask names are stored."""

    buffer, value, *indices, mask = node.args
    assert isinstance(buffer, n.Buffer)
    act = execute(n.BufferStore(buffer, _plain(value), tuple(map(_plain, indices)), _plain(mask), node.span))

    def run(m: Machine) -> Value:
        act(m)
        return np.int32(0)

    return run


def _launch(node: n.Call) -> Run:
    """A kernel that the module holds."""

    def run(m: Machine) -> Value:
        call = launched(node, m.module)
        if call is None:
            raise refuse("TR20", "the kernel is not in the module: its launch cannot be interpreted.", at=node.span)
        return compile_function_call(call)(m)

    return run


_MAKERS: dict[str, Callable[[n.Call], Run]] = {
    **SHUFFLES,
    **ACTIVE,
    "masked_load": _masked_load,
    "masked_store": _masked_store,
    "address_of": _address_of,
    "buffer_data": _address_of,
    "tvm_access_ptr": _access_ptr,
    "access_ptr": _access_ptr,
    "buffer_offset": _buffer_offset,
    "ptr_byte_offset": _byte_offset,
    "handle_add_byte_offset": _byte_offset,
    "isnullptr": _is_null,
    "tvm_storage_sync": _barrier,
    "tvm_thread_allreduce": _allreduce,
    "atomic_add": _atomic("Add"),
    "atomic_max": _atomic("Max"),
    "atomic_min": _atomic("Min"),
    "atomic_store": _atomic(None),
    "call_packed": _packed,
    "call_cpacked": _packed,
    "call_extern": _packed,
    "call_pure_extern": _packed,
    "call_ffi_kernel": _launch,
    "tvm_stack_make_shape": _make_shape,
    "tvm_stack_make_array": _make_array,
    "tvm_stack_alloca": _alloca,
    "start_profile_intrinsic": _nothing,
    "end_profile_intrinsic": _nothing,
    "prefetch": _nothing,
}


# ---------------------------------------------------------------------------------------------- functions of the module


def compile_function_call(node: n.Call) -> Run:
    """A call of another function of the module."""
    assert isinstance(node.op, n.GlobalVar)
    name = node.op.name
    pointers = [_handle(a, node.span) for a in node.args]
    # an element is a value where the function takes a scalar, and a place in memory where it takes a buffer
    scalars = {k: compiled(a) for k, a in enumerate(node.args) if isinstance(a, n.BufferLoad)}

    def run(m: Machine) -> Value:
        functions: Mapping[str, object] = {} if m.module is None else m.module.functions
        callee = functions.get(name)
        if not isinstance(callee, n.PrimFunc):
            what = "is not in the module" if callee is None else "is no PrimFunc"
            raise refuse("TR24", f"the function {name!r} {what}, so it cannot be called.", at=node.span)
        arguments = list(pointers)
        for k, param in enumerate(callee.params):
            if k in scalars and param not in callee.buffer_map and param.dtype.code != "handle":
                arguments[k] = scalars[k]
        return invoke(m, callee, [argument(m) for argument in arguments], node.span)

    return run


def invoke(m: Machine, func: n.PrimFunc, arguments: Sequence[Value], span: Span) -> Value:
    """Run a function on values and pointers; the machine's lanes stay as they are."""

    if m.depth >= RECURSION_LIMIT:
        raise refuse("TR25", f"calls of {func.name!r} nest more than {RECURSION_LIMIT} deep.", at=span)
    if len(arguments) != len(func.params):
        message = f"{func.name!r} takes {len(func.params)} arguments, but is called with {len(arguments)}."
        raise refuse("TR26", message, at=span)
    outer = (m.env, m.views, m.returned, m.jumps, m.broken, m.continued, m.result, m.blocks)
    m.env, m.views, m.blocks = {}, {}, []
    m.returned = m.broken = m.continued = m.result = None
    m.jumps = False
    m.depth += 1
    try:
        CODE.of(func, keeps_storage)(m)
        bind(m, func, arguments, span)
        execute(_NORMAL.of(func, normal).body)(m)
        return np.int32(0) if m.result is None else m.result
    finally:
        m.depth -= 1
        m.env, m.views, m.returned, m.jumps, m.broken, m.continued, m.result, m.blocks = outer


def bind(m: Machine, func: n.PrimFunc, arguments: Sequence[Value], span: Span) -> None:
    """Scalars become values, pointers become buffers, and sizes follow from the shapes."""
    buffers: list[tuple[n.Var, n.Buffer, Pointer]] = []
    for param, value in zip(func.params, arguments, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            m.env[param] = value
        elif isinstance(value, Pointer):
            buffers.append((param, buffer, value))
            m.env[param] = value
        else:
            raise refuse("TR27", f"{func.name!r} needs a buffer for {buffer.name!r}.", at=span)
    told: list[tuple[n.Expr, Value, str, Span]] = []
    for _, buffer, pointer in buffers:
        m.env[buffer.data] = pointer
        view = pointer.view
        guilty = buffer.span if span is func.span else span  # the declaration, or the call of the module
        if view is not None and len(view.shape) == len(buffer.shape):
            for place, (declared, extent) in enumerate(zip(buffer.shape, view.shape, strict=True)):
                what = f"dimension {place} of {buffer.name!r}"
                told.append((declared, extent, f"{what} has {extent} elements", guilty))
            for declared, stride in zip(buffer.strides, view.strides, strict=False):
                told.append((declared, stride, f"a stride of {buffer.name!r} is {stride}", guilty))
        if buffer.elem_offset is not None:
            told.append((buffer.elem_offset, 0, f"the offset of {buffer.name!r} is 0", guilty))
    _match_sizes(m, told)
    for _, buffer, pointer in buffers:
        shape = tuple(compiled(extent)(m) for extent in buffer.shape)
        strides = tuple(compiled(stride)(m) for stride in buffer.strides)
        m.views[buffer] = m.alias(pointer, buffer, shape, strides, 0)


def _match_sizes(m: Machine, told: Sequence[tuple[n.Expr, Value, str, Span]]) -> None:
    """Sizes take the values that the arguments tell; then each extent and stride must be what it is declared as."""
    for declared, value, _, _ in told:
        if isinstance(declared, n.Var) and declared not in m.env:
            m.env[declared] = np.asarray(value).astype(declared.dtype.numpy)[()]
    pending = list(told)
    while pending:
        left = [entry for entry in pending if not _solved(m, entry[0], entry[1])]
        if len(left) == len(pending):
            break
        pending = left
    for declared, value, what, place in told:
        if _unknown(m, declared):
            continue  # the variable without a value is named where the buffer's shape is needed
        known = compiled(declared)(m)
        if np.any(known != value):
            raise refuse("TA03", f"{what}, but must be {known}.", at=place)


def _unknown(m: Machine, expr: n.Expr) -> set[n.Var]:
    return {v for v in walk(expr) if isinstance(v, n.Var) and v not in m.env}


def _solved(m: Machine, declared: n.Expr, value: Value) -> bool:
    """True if the extent has a value now: the only variable of it that had none gets the one that a line gives."""
    unknown = _unknown(m, declared)
    if not unknown:
        return True
    if len(unknown) > 1 or np.ndim(value):
        return False
    (size,) = unknown
    kind, run = size.dtype.numpy.type, compiled(declared)

    def at(guess: int) -> int:
        m.env[size] = kind(guess)
        return int(run(m))

    start = at(0)
    growth = at(1) - start
    if growth and at((int(value) - start) // growth) == int(value):
        return True
    del m.env[size]
    return False


__all__ += ["Memory", "bind"]
