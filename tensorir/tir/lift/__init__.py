"""TIR lifted into the tensor IR: what its statements read, write and compute; the rest is shared by all wings.

>>> import numpy as np
>>> import tensorir.tir as tir
>>> module = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
...     for i in range(4):
...         B[i] = A[i] * A[i]
... ''')
>>> print(lift(module["main"]))
main(A: tensor<float32, i[0:4]>, B: tensor<float32, i[0:4]>) {
  B ← A × A;
}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tensorir.ir.types import dtype_of
from tensorir.lifting.assemble import Built, assemble
from tensorir.lifting.nests.nest import SymbolicNest
from tensorir.lifting.program import Argument, Lifted
from tensorir.lifting.storage.narrow import holder
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.tir import nodes as n
from tensorir.tir.builtins import builtin_of, launched
from tensorir.tir.ill_formed import diagnosed
from tensorir.tir.interpret.machine import deep
from tensorir.tir.interpret.memory import row_major, strides_of
from tensorir.tir.lift.calls import READ_ONLY
from tensorir.tir.lift.expressions import element_of, thresholds
from tensorir.tir.lift.function import read_function
from tensorir.tir.lift.reader import writes
from tensorir.tir.storage import lost_storage
from tensorir.tir.tiles import without_tiles

__all__ = ["extent_at", "lift", "lift_prim_func"]

lift_graph_function = ExtensionPoint("a function of Relax as a tensor program", "tensorir.relax.lift", "lift_relax")

Shapes = tuple[tuple[int, ...] | None, ...]
Key = tuple[Shapes, Shapes]
"""What a program is made for: the shapes of the arguments, and the strides of those whose strides it minds."""


def lift(func: object, *, numerics: str = "fast", on_hazard: str = "error") -> Lifted:
    """A function of TIR as a pure tensor program: a callable on arrays, with its text and its report.

    `p(*arrays)` takes all parameters and gives the written ones. Sizes that are symbolic are bound by each call.
    `on_hazard` says what to do with what is proven wrong: "error", "sequential" (in the order of the text, with a
    note) or "ignore"; what nobody wrote then reads as any value. `numerics="exact"` keeps the source's order and
    rounding, and in folds by `max` and `min` what comparisons do with NaN and the signs of zeros; otherwise such a fold
    goes in any order, may keep or drop a NaN and change the sign of a zero, and the report has a line for it.
    An index is a whole number, as for TVM: one that would wrap around is out of bounds. Raises TL01 for what no pure
    program says, TL10 to TL15 for what is proven wrong.
    """
    if on_hazard not in ("error", "sequential", "ignore"):
        raise refuse("TA07", f"on_hazard is 'error', 'sequential' or 'ignore', not {on_hazard!r}.")
    if isinstance(func, n.IRModule):
        names = [name for name in func.functions if name == "main"] or list(func.functions)
        if len(names) != 1:
            message = f"the module has {len(names)} functions; take one of them: {', '.join(names)}."
            raise refuse("TA01", message, at=func.span)
        func = func[names[0]]
    if isinstance(func, n.GraphFunction):
        made: Lifted = lift_graph_function(func, numerics=numerics, on_hazard=on_hazard)
    elif isinstance(func, n.PrimFunc):
        made = _lifted(func, numerics, on_hazard)
    else:
        message = f"a function of TIR is lifted, and this is of type {type(func).__name__}."
        raise refuse("TA01", message)
    made.again = partial(lift, func, numerics=numerics, on_hazard=on_hazard)
    return made


def _lifted(func: n.PrimFunc, numerics: str, on_hazard: str) -> Lifted:
    func = without_tiles(func)
    arguments: list[Argument] = []
    stored = _stored(func)
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None and param.dtype.code == "handle":
            message = f"{param.name!r} is a pointer without a buffer."
            raise refuse("TL01", message, "bind it with T.match_buffer.", at=param.span)
        name = param.name if buffer is None else buffer.name or param.name
        dtype = param.dtype if buffer is None else buffer.dtype
        element = element_of(dtype, param.span)
        given, held = dtype.element.numpy, dtype_of(holder(element))
        static = buffer is None and _is_size(func, param)
        arguments.append(Argument(name, given, buffer is None, k in stored, None if given == held else held, static))
    fixed = _fixed(func)

    def sizes(arrays: Sequence[Any]) -> Hashable:
        return _key(func, arrays)

    def build(key: Key, checked: bool, undefined: bool) -> Built:
        return lift_prim_func(
            func, key[0], checked, on_hazard, numerics == "exact", stored, undefined, strides=key[1]
        )  # fmt: skip

    symbols = {e.name: e for b in func.buffer_map.values() for e in b.shape if isinstance(e, n.Var)}

    def key_at(values: Mapping[str, int]) -> Hashable:
        known = {symbols[name]: value for name, value in values.items()}
        found: list[tuple[int, ...] | None] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            lanes = () if buffer is None or buffer.dtype.lanes == 1 else (buffer.dtype.lanes,)
            found.append(None if buffer is None else (*(extent_at(e, known, buffer) for e in buffer.shape), *lanes))
        return tuple(found), (None,) * len(found)

    made = Lifted(func.name, arguments, sizes, build, fixed, numerics, tuple(symbols), key_at, thresholds(func))
    made.symbolic = partial(_symbolic, func, tuple(symbols.values())) if symbols else None
    made.minds_strides = any(b.strides for b in func.buffer_map.values())
    if fixed is not None:
        made.at(fixed)  # what is wrong is said now, and not when it is called
    return made


def _symbolic(func: n.PrimFunc, symbols: Sequence[n.Var], names: Sequence[str], largest: int) -> SymbolicNest:
    """The nest of a function with its sizes, from 0 up to the largest, as indices of these names."""

    def work() -> SymbolicNest:
        unknown = {var: (name, largest) for var, name in zip(symbols, names, strict=True)}
        most = dict.fromkeys(symbols, largest)
        buffers = [func.buffer_map.get(p) for p in func.params]
        if any(b is not None and (b.strides or b.elem_offset is not None or b.dtype.lanes != 1) for b in buffers):
            raise refuse("TL01", "an array has strides, and its sizes are not known.", at=func.span)
        shapes = [None if b is None else tuple(extent_at(e, most, b) for e in b.shape) for b in buffers]
        reading = read_function(func, shapes, {}, True, unknown=unknown)
        return SymbolicNest(reading.arguments, reading.extents, reading.nodes, tuple(names), largest)

    with diagnosed(func):
        return deep(work)


def lift_prim_func(
    func: n.PrimFunc, shapes: Shapes, checked: bool = False, on_hazard: str = "error", exact: bool = False,
    stored: frozenset[int] | None = None, undefined: bool = False, fresh: frozenset[int] = frozenset(),
    strides: Shapes | None = None,
) -> Built:  # fmt: skip
    """The tensor program of a function for the shapes of its buffers (None for scalars).

    `stored` are the parameters that it may write, where they are known; in those of `fresh` there is nothing. `strides`
    are those of arrays that do not lie row by row.
    """

    def work() -> Built:
        lost = lost_storage(func.body) if on_hazard != "ignore" and not checked else None
        if lost is not None and on_hazard == "error":
            raise DiagnosticError(replace(lost, code="TL17"))
        results = _stored(func) if stored is None else stored
        reading = read_function(func, shapes, _sizes(func, shapes, strides), exact, fresh, strides)
        arguments = [b for b in reading.arguments if b is not None]
        built = assemble(func.name, arguments, reading.nodes, checked, on_hazard, exact, results, undefined)
        for note in (*reading.notes, *(() if lost is None else (lost.message,))):
            built.report.note(note)
        return built

    with diagnosed(func):
        return deep(work)


def _stored(func: n.PrimFunc, callers: frozenset[str] = frozenset()) -> frozenset[int]:
    """The parameters that may be written: by stores through any name that shares their memory."""
    from tensorir.tir.trees import walk

    roots: dict[n.Var, int] = {}
    for k, param in enumerate(func.params):
        if param.dtype.code == "handle":
            roots[param] = k
        if (buffer := func.buffer_map.get(param)) is not None:
            roots[buffer.data] = k
    found: set[int] = set()
    nodes = list(walk(func.body))
    for node in nodes:
        match node:
            case n.DeclBuffer(buffer, data) if data is not None:
                for inner in walk(data):
                    if isinstance(inner, n.Var) and inner in roots:
                        roots[buffer.data] = roots[inner]
                    elif isinstance(inner, n.Buffer) and inner.data in roots:
                        roots[buffer.data] = roots[inner.data]
            case n.MatchBufferRegion(buffer, source) if source.buffer.data in roots:
                roots[buffer.data] = roots[source.buffer.data]
            case n.LetStmt(var, value) if var.dtype.code == "handle":
                for inner in walk(value):
                    data = inner.data if isinstance(inner, n.Buffer) else inner
                    if isinstance(data, n.Var) and data in roots:
                        roots[var] = roots[data]
            case _:
                pass
    for node in nodes:
        match node:
            case n.BufferStore(buffer) if buffer.data in roots:
                found.add(roots[buffer.data])
            case n.Evaluate(n.Call() as call) | (n.Call() as call) if call is not node or writes(call):
                named = (v for argument in _targets(func, call, callers) for v in _named(argument))
                found |= {roots[v] for v in named if v in roots}
            case _:
                pass
    return frozenset(found)


def _named(argument: n.Node) -> Iterator[n.Var]:
    """The memories that an argument names; what only says where in one of them is read."""
    from tensorir.tir.trees import children

    pending = [argument]
    while pending:
        match pending.pop():
            case n.Var() as var:
                yield var
            case n.Buffer(data) | n.BufferLoad(n.Buffer(data)) | n.BufferRegion(n.Buffer(data)):
                yield data
            case node:
                pending += children(node)


def _targets(func: n.PrimFunc, call: n.Call, callers: frozenset[str]) -> list[n.Argument]:
    """The arguments of a call that it may write."""
    known = builtin_of(call)
    call = launched(call, func.module) or (known if isinstance(known, n.Call) else call)
    arguments = list(call.args)
    match call.op:
        case n.GlobalVar(name):
            callee = None if func.module is None else func.module.functions.get(name)
            if not isinstance(callee, n.PrimFunc) or callee.name in {func.name, *callers}:
                return arguments
            stored = _stored(replace(callee, module=func.module), callers | {func.name})
            return [a for k, a in enumerate(call.args) if k in stored]
        case "masked_store" | "atomic_add" | "atomic_max" | "atomic_min" | "atomic_store":
            return arguments[:1]
        case "tvm_thread_allreduce" if isinstance(count := arguments[0], n.IntImm):
            return arguments[count.value + 2 : 2 * count.value + 2]
        case "call_packed" | "call_cpacked" if arguments and isinstance(arguments[0], n.StringImm):
            return arguments[1 + READ_ONLY.get(arguments[0].value, 0) :]
        case _:
            return arguments


def _fixed(func: n.PrimFunc) -> Key | None:
    """The shapes and strides, where none is symbolic."""
    shapes: list[tuple[int, ...] | None] = []
    strides: list[tuple[int, ...] | None] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            shapes.append(None)
            strides.append(None)
            continue
        if not all(isinstance(e, n.IntImm) for e in (*buffer.shape, *buffer.strides)):
            return None
        own = tuple(e.value for e in buffer.shape if isinstance(e, n.IntImm))
        shapes.append(own + ((buffer.dtype.lanes,) if buffer.dtype.lanes != 1 else ()))
        packed = buffer.dtype.lanes != 1 or not buffer.strides
        steps = tuple(e.value for e in buffer.strides if isinstance(e, n.IntImm))
        strides.append(None if packed or steps == row_major(own) else steps)
    return tuple(shapes), tuple(strides)


def _key(func: n.PrimFunc, arrays: Sequence[Any]) -> Key:
    """The key of a call's program; a buffer that is not given has the shape that follows from the others, row-major."""
    shapes: list[tuple[int, ...] | None] = []
    strides: list[tuple[int, ...] | None] = []
    known: dict[n.Var, int] = {}
    told: list[tuple[n.Buffer, n.Expr, int]] = []
    for param, array in zip(func.params, arrays, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None or array is None:
            if array is not None and _is_size(func, param):
                known[param] = int(array)
            continue
        extra = 0 if buffer.dtype.lanes == 1 else 1
        if len(array.shape) != len(buffer.shape) + extra:
            message = f"{buffer.name!r} has {len(buffer.shape)} dimensions, but the array has {len(array.shape)}."
            raise refuse("TA03", message, at=buffer.span)
        for place, (declared, extent) in enumerate(zip(buffer.shape, array.shape, strict=False)):
            if isinstance(declared, n.IntImm) and declared.value != extent:
                message = (
                    f"dimension {place} of {buffer.name!r} has {declared.value} elements, but the array has {extent}."
                )
                raise refuse("TA03", message, at=buffer.span)
            if isinstance(declared, n.Var) and known.setdefault(declared, int(extent)) != extent:
                message = f"dimension {place} of {buffer.name!r} is {extent}, but {declared.name} is {known[declared]}."
                raise refuse("TA03", message, at=buffer.span)
            told.append((buffer, declared, int(extent)))
        if buffer.strides and not extra:
            told += [(buffer, *pair) for pair in zip(buffer.strides, strides_of(array), strict=False)]
    _solve(told, known)
    for param, array in zip(func.params, arrays, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            shapes.append(None)
            strides.append(None)
            continue
        own = tuple(extent_at(e, known, buffer) for e in buffer.shape)
        strides.append(_strides(buffer, array, own, known))
        own += (buffer.dtype.lanes,) if buffer.dtype.lanes != 1 else ()
        if array is not None and own != tuple(array.shape):
            message = f"{buffer.name!r} has the shape {own}, but the array has {tuple(array.shape)}."
            raise refuse("TA03", message, at=buffer.span)
        shapes.append(own)
    return tuple(shapes), tuple(strides)


def _strides(
    buffer: n.Buffer, array: Any, shape: tuple[int, ...], known: dict[n.Var, int]
) -> tuple[int, ...] | None:  # fmt: skip
    """The strides of an argument, which are those that its buffer declares; None of one that lies row by row."""
    if buffer.elem_offset is not None and not (
        isinstance(buffer.elem_offset, n.Var) and buffer.elem_offset not in known
    ):
        start = extent_at(buffer.elem_offset, known, buffer)
        if start:
            message = f"the offset of {buffer.name!r} is 0, but must be {start}."
            raise refuse("TA03", message, at=buffer.span)
    if not buffer.strides or buffer.dtype.lanes != 1:
        return None
    found = row_major(shape) if array is None else strides_of(array)
    for declared, step in zip(buffer.strides, found, strict=False):
        if (
            known.setdefault(declared, step) if isinstance(declared, n.Var) else extent_at(declared, known, buffer)
        ) != step:
            message = f"a stride of {buffer.name!r} is {step}, but must be {extent_at(declared, known, buffer)}."
            raise refuse("TA03", message, at=buffer.span)
    return None if found == row_major(shape) else found


def _is_size(func: n.PrimFunc, param: n.Var) -> bool:
    return any(param in _variables(e) for b in func.buffer_map.values() for e in (*b.shape, *b.strides))


def _variables(extent: n.Expr) -> set[n.Var]:
    from tensorir.tir.trees import walk

    return {v for v in walk(extent) if isinstance(v, n.Var)}


def _solve(extents: Sequence[tuple[n.Buffer, n.Expr, int]], known: dict[n.Var, int]) -> None:
    """Add what extents tell of sizes: of each whose extent is a multiple of the only one that is not known, and more.

    A size that two extents contradict, or that no whole number fits, is left to those who compare shapes.
    """
    for _, declared, extent in extents:
        if isinstance(declared, n.Var):
            known.setdefault(declared, extent)
    pending = [e for e in extents if not _variables(e[1]) <= known.keys()]
    while pending:
        left, pending = pending, list[tuple[n.Buffer, n.Expr, int]]()
        for buffer, declared, extent in left:
            unknown = _variables(declared) - known.keys()
            if len(unknown) > 1:
                pending.append((buffer, declared, extent))
            elif unknown:
                (size,) = unknown
                at = [extent_at(declared, {**known, size: value}, buffer) for value in (0, 1)]
                growth, rest = at[1] - at[0], extent - at[0]
                value = rest // growth if growth else 0
                if extent_at(declared, {**known, size: value}, buffer) == extent:
                    known[size] = value
        if len(pending) == len(left):
            return


def extent_at(extent: n.Expr, sizes: Mapping[n.Var, int], buffer: n.Buffer) -> int:
    """An extent of a buffer at sizes; raises TA03 where these do not tell it."""
    from tensorir.lifting.nests.linear import settled
    from tensorir.lifting.nests.terms import Number
    from tensorir.tir.lift.expressions import Scope, term

    scope = Scope()
    for var, size in sizes.items():
        scope.values[var] = lambda lane, size=size, var=var: Number(size, element_of(var.dtype))
    try:
        value = settled(term(scope, extent), {})
    except DiagnosticError:
        value = None
    if not isinstance(value, Number):
        message = f"the shape of {buffer.name!r} does not follow from the arguments that are given."
        raise refuse("TA03", message, at=buffer.span)
    return int(value.value)


def _sizes(func: n.PrimFunc, shapes: Shapes, strides: Shapes | None) -> dict[n.Var, int]:
    sizes: dict[n.Var, int] = {}
    told: list[tuple[n.Buffer, n.Expr, int]] = []
    for param, shape, steps in zip(func.params, shapes, strides or (None,) * len(shapes), strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is not None and shape is not None:
            told += [(buffer, *pair) for pair in zip(buffer.shape, shape, strict=False)]
            told += [(buffer, *pair) for pair in zip(buffer.strides, steps or row_major(shape), strict=False)]
    _solve(told, sizes)
    return sizes
