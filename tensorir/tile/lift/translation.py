"""A kernel at a launch as a region, and the arguments of a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tensorir.binding.arrays import is_traced
from tensorir.integers.affine import number, quotient, remainder, variable
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal, operator, reduce
from tensorir.ir.nodes import Expr, Literal, Var
from tensorir.ir.types import BOOL, INT64, TensorType
from tensorir.lifting.emission.tensors import spread
from tensorir.lifting.program import Argument, scalar_value
from tensorir.lifting.region import check_region
from tensorir.lifting.region.nodes import Atomic, Buffer, Check, For, If, Let, Node, Read, Region, Rule, While, Write
from tensorir.runtime.errors import NOWHERE, Span, refuse
from tensorir.tile.lift.arithmetic import ELEMENTWISE, fused_once, low_of, narrowed, signless
from tensorir.tile.lift.control import control, negated
from tensorir.tile.lift.memory import ATOMICS, MEMORY
from tensorir.tile.lift.structure import (
    PRODUCTS,
    constant,
    extract,
    fold,
    joined,
    packed,
    permuted,
    reshaped,
    reshaped_names,
    unpacked,
)
from tensorir.tile.lift.values import (
    Axes,
    Context,
    FlatMemory,
    Memory,
    Number,
    Pointers,
    Token,
    axis,
    bounds_of,
    certainly,
    element_of,
    number_of,
    scalar_of,
    sum_of_operation,
    truth,
)
from tensorir.tile.nodes import Module, Operation, operations_of
from tensorir.tile.types import ELEMENTS, Element, Pointer, Tile

# A kernel at a launch as a region: a nest of independent loops over the grid around what one block does.
#
# Arguments are buffers of the dims of their arrays; one whose accesses do not all name these dims is one row of
# elements.

GRID = ("bx", "by", "bz")
I64 = ELEMENTS["i64"]


@dataclass(frozen=True, slots=True)
class Given:
    """An argument of a launch: an array of a shape, an integer that is known, or any number."""

    name: str
    element: Element
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Mode:
    """Options of a translation."""

    wide: bool = False
    """Addresses are computed in 64 bits, so that none wraps around."""
    exact: bool = False
    """Sums of products that the kernel fuses are rounded once."""
    undefined: bool = False
    """Indices outside of their space are looked for."""
    fill: int | None = None
    """Which of `FILLS` values stands in the place of padding that is unspecified; zero where none does."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A region, and the memory behind each of its buffers."""

    region: Region
    memories: Mapping[str, Memory]
    numbers: tuple[str, ...]
    """The buffers of numbers that only a call tells."""
    notes: tuple[str, ...] = ()
    """What the region leaves out."""
    padded: Span | None = None
    """Where the first padding is that is unspecified."""


def translated(
    module: Module, entry: Operation, grid: tuple[int, int, int], given: Sequence[Given], mode: Mode = Mode()
) -> Translated:
    """The region of an entry at a launch.

    Raises TL40 for what has no region, and TL41 for what the launch contradicts.
    """
    flat: set[str] = set()
    while True:
        try:
            return _translated(module, entry, grid, given, frozenset(flat), mode)
        except FlatMemory as found:
            flat.add(found.name)


def _translated(
    module: Module, entry: Operation, grid: tuple[int, int, int], given: Sequence[Given], flat: frozenset[str],
    mode: Mode,
) -> Translated:  # fmt: skip
    memories: dict[str, Memory] = {}
    used = frozenset(v for op in operations_of(entry.regions[0]) for v in op.values)
    t = Context(
        grid, memories, wide=mode.wide, exact=mode.exact, undefined=mode.undefined, fill=mode.fill, used=used
    )  # fmt: skip
    t.ranges.update({n: (0, e - 1) for n, e in zip(GRID, grid, strict=True)})
    numbers: list[str] = []
    arrays = 0
    for g, param in zip(given, entry.regions[0].arguments, strict=True):
        scalar = scalar_of(g.element, entry.span)
        if g.shape is not None:
            memories[g.name] = _memory(g, flat, arrays)
            arrays += 1
            t.values[param] = Pointers((), memories[g.name], number_of(0, I64, INT64), g.element)
        elif g.value is not None:
            if scalar == BOOL:
                t.values[param] = t.made(literal(bool(g.value)), (), g.element, entry.span)
            else:
                t.values[param] = number_of(g.value, g.element, scalar)
        else:
            buffer = Buffer(g.name, scalar, (), True)
            memories[g.name] = Memory(g.name, g.element, scalar, (), (), buffer, False)
            numbers.append(g.name)
            value = Var(t.fresh("a"), TensorType(scalar))
            t.nodes.append(Read(value, buffer, (), (), None, entry.span))
            t.values[param] = Number((), g.element, scalar, value)
    for name, op in module.globals.items():
        memories[f"@{name}"] = _global(t, name, op)
    with t.body() as nodes:
        control(operation)(t, entry)
    body = without_unused(tuple(nodes))
    for name, extent in zip(GRID, grid, strict=True):
        body = (For(name, number(0), number(extent), body, Rule.INDEPENDENT, (), f"block {name}", entry.span),)
    region = Region(name_of(entry), tuple(m.buffer for m in memories.values()), (*t.nodes, *body))
    check_region(region)
    return Translated(region, memories, tuple(numbers), tuple(dict.fromkeys(t.notes)), t.padded)


def name_of(entry: Operation) -> str:
    """The name of an entry, as far as programs can be called so."""
    name = str(entry.attribute("sym_name"))
    return name if name.isidentifier() else "kernel"


def _memory(g: Given, flat: frozenset[str], index: int) -> Memory:
    assert g.shape is not None
    scalar, is_flat = scalar_of(g.element, NOWHERE), g.name in flat
    dims = ((f"{g.name}_0", prod(g.shape)),) if is_flat else tuple((f"{g.name}_{k}", n) for k, n in enumerate(g.shape))
    return Memory(g.name, g.element, scalar, g.shape, g.strides, Buffer(g.name, scalar, dims, True), is_flat, index)


def _global(t: Context, name: str, op: Operation) -> Memory:
    """Memory of the module: what it begins with is stored before the blocks run."""
    value: Any = op.attribute("value")
    element = value.type.element
    scalar = scalar_of(element, op.span)
    count = value.type.shape[0]
    buffer = Buffer(f"global_{name}", scalar, ((f"global_{name}_0", count),))
    x = constant(value.values, scalar)
    at = variable(axis(0)) if count > 1 else number(0)
    t.nodes.append(Write(buffer, (at,), spread(x, {axis(0): Interval(0, count)} if count > 1 else {}), (), op.span))
    return Memory(f"@{name}", element, scalar, (count,), (1,), buffer, True)


def operation(t: Context, op: Operation) -> None:
    """One operation without regions of statements."""
    if op.name in MEMORY:
        MEMORY[op.name](t, op)
    elif op.name in ATOMICS:
        ATOMICS[op.name](t, op)
    elif op.name in PRODUCTS:
        PRODUCTS[op.name](t, op)
    elif op.name in ("reduce", "scan"):
        fold(operation)(t, op)
    elif op.name in ELEMENTWISE:
        _elementwise(t, op)
    elif op.name in _OTHERS:
        _OTHERS[op.name](t, op)
    elif op.name in ("int_to_ptr", "ptr_to_int"):
        help = "pass each array as an argument of its own, and choose between what is read from them."
        raise refuse("TL40", f"{op.name}: a number does not tell which array a pointer points into.", help, at=op.span)
    else:
        raise refuse("TL40", f"{op.name} has no tensor program.", "take it out, or interpret the kernel.", at=op.span)


def _shape(op: Operation, k: int = 0) -> Axes:
    type = op.results[k].type
    assert isinstance(type, Tile)
    return type.shape


def _elementwise(t: Context, op: Operation) -> None:
    if any(isinstance(t.values[v], Pointers) for v in op.values):
        _chosen_pointers(t, op)
        return
    operands = t.numbers(op.values)
    element, axes = element_of(op.results[0].type), _shape(op)
    if t.inline:
        axes = ()
    ranges = {**t.ranges, **{axis(k): (0, n - 1) for k, n in enumerate(axes)}}
    found = sum_of_operation(op, operands, element, ranges)
    scalar = scalar_of(element, op.span)
    if found is not None:
        t.define(op, Number(axes, element, scalar, None, found))
        return
    if op.name in LOGIC and element.bits == 1 and (known := _logic(t, op, operands, axes)) is not None:
        t.define(op, known)
        return
    if (certain := certainly(op, operands, ranges)) is not None:
        t.define(op, t.made(literal(certain), axes, element, op.span))
        return
    if op.name in NEUTRAL and (same := _unchanged(op, operands)) is not None:
        t.define(op, replace(same, axes=axes))
        return
    bounds = bounds_of(op, operands, ranges)
    if bounds is not None:
        known = truth(Number(axes, element, scalar, None, None, bounds), t.ranges)
        if known is not None:
            t.define(op, t.made(literal(known), axes, element, op.span))
            return
    given = narrowed(op, operands, t.ranges) or [o.expr for o in operands]
    make = ELEMENTWISE[op.name]
    if op.name == "fma" and t.exact:
        make = fused_once
    elif op.name == "fma":
        t.notes.append("fma may be rounded twice, as a product and a sum; numerics='exact' rounds it once.")
    made = t.made(make(op, *given), axes, element, op.span)
    low = None if t.wide or element.bits != 64 or not element.is_integer else low_of(op, operands, t.ranges)
    if low is not None:
        made = replace(made, low=t.named(low[0], op.span), fits=low[1])
    t.define(op, made if bounds is None else replace(made, bounds=bounds))


NEUTRAL = {"addi": 0, "muli": 1}


def _unchanged(op: Operation, operands: Sequence[Number]) -> Number | None:
    """The operand to which nothing is added, or that is taken once."""
    for a, b in (operands, operands[::-1]):
        if b.known == NEUTRAL[op.name] and a.element.bits > 1:
            return a
    return None


LOGIC: dict[str, bool | None] = {"andi": False, "ori": True, "xori": None}
"""Operations on truth values, and the value that decides each."""


def _logic(t: Context, op: Operation, operands: Sequence[Number], axes: Axes) -> Number | None:
    """The value of an operation on truth values of which one is known."""
    decides = LOGIC[op.name]
    for a, b in (operands, operands[::-1]):
        known = truth(a, t.ranges)
        if known is None:
            continue
        if decides is None:
            other = truth(b, t.ranges)
            if other is not None:
                return t.made(literal(known != other), axes, b.element, op.span)
            return replace(negated(t, b, op.span) if known else b, axes=axes)
        return t.made(literal(decides), axes, b.element, op.span) if known == decides else replace(b, axes=axes)
    return None


def _chosen_pointers(t: Context, op: Operation) -> None:
    if op.name != "select":
        raise refuse("TL40", f"{op.name} of pointers has no tensor program.", at=op.span)
    c, a, b = t.number(op.values[0]), t.pointers(op.values[1]), t.pointers(op.values[2])
    if a.memory != b.memory:
        raise refuse("TL40", "a pointer points into one argument or another, as data or the block tell.", at=op.span)
    offset = t.made(call("if", c.expr, a.offset.expr, b.offset.expr), _shape(op), I64, op.span)
    t.define(op, replace(a, axes=_shape(op), offset=offset))


def _constant(t: Context, op: Operation) -> None:
    element, axes = element_of(op.results[0].type), _shape(op)
    scalar = scalar_of(element, op.span)
    x = constant(op.attribute("value").values, scalar)
    if scalar.is_integer and isinstance(x, Literal):
        t.define(op, number_of(int(x.value), element, scalar, axes))
    else:
        t.define(op, t.made(x, axes, element, op.span))


def _iota(t: Context, op: Operation) -> None:
    element, axes = element_of(op.results[0].type), _shape(op)
    at = variable(axis(0)) if axes[0] > 1 else number(0)
    scalar = scalar_of(element, op.span)
    if element.bits > 1 and axes[0] - 1 <= element.range[1]:
        t.define(op, Number(axes, element, scalar, None, at))
        return
    wide = Number(axes, I64, INT64, None, at)
    t.define(op, t.made(signless(wide.expr, element), axes, element, op.span))


def _broadcast(t: Context, op: Operation) -> None:
    source, axes = t.values[op.operand("source")], _shape(op)
    if isinstance(source, Pointers):
        t.define(op, replace(source, axes=axes, offset=replace(source.offset, axes=axes)))
        return
    assert isinstance(source, Number)
    t.define(op, replace(source, axes=axes))


def _reshape(t: Context, op: Operation) -> None:
    source, axes = t.values[op.operand("source")], _shape(op)
    assert isinstance(source, Number | Pointers)
    names = reshaped_names(source.axes, axes)
    if names is not None:
        t.define(op, source.renamed(axes, names))
        return
    n = source.offset if isinstance(source, Pointers) else source
    if n.sum is not None:
        made = replace(n, axes=axes, sum=_digits(n, axes))
    else:
        made = t.made(reshaped(n.expr, n.axes, axes), axes, n.element, op.span)
    t.define(op, replace(source, axes=axes, offset=made) if isinstance(source, Pointers) else made)


def _digits(n: Number, axes: Axes) -> Any:
    """The sum on other axes: an old axis is a digit of the place in the row."""
    assert n.sum is not None
    ranges = {axis(k): (0, e - 1) for k, e in enumerate(axes)}
    row = number(0)
    for k, e in enumerate(axes):
        row = row.times(e).plus(variable(axis(k)) if e > 1 else number(0))
    values: dict[str, Any] = {}
    inner = 1
    for k in reversed(range(len(n.axes))):
        values[axis(k)] = remainder(quotient(row, inner, ranges), n.axes[k], ranges)
        inner *= n.axes[k]
    return n.sum.replaced(values, ranges)


def _permute(t: Context, op: Operation) -> None:
    source = t.values[op.operand("source")]
    assert isinstance(source, Number | Pointers)
    t.define(op, source.renamed(_shape(op), permuted(op.attribute("permutation"))))


def _cat(t: Context, op: Operation) -> None:
    a, b = t.number(op.operand("lhs")), t.number(op.operand("rhs"))
    made = joined(a.expr, b.expr, a.axes, b.axes, op.attribute("dim"))
    t.define(op, t.made(made, _shape(op), a.element, op.span))


def _extract(t: Context, op: Operation) -> None:
    source, indices = t.number(op.operand("source")), t.numbers(op.operand("indices"))
    t.define(op, t.made(extract(source, indices, _shape(op)), _shape(op), source.element, op.span))


def _pack(t: Context, op: Operation) -> None:
    source = t.number(op.operand("source"))
    bits = 32 if source.element.name == "tf32" else source.element.bits
    t.define(op, t.made(packed(source.expr, source, bits), _shape(op), ELEMENTS["i8"], op.span))


def _unpack(t: Context, op: Operation) -> None:
    source, element = t.number(op.operand("source")), element_of(op.results[0].type)
    like = Number(_shape(op), element, scalar_of(element, op.span), None)
    t.define(op, t.made(unpacked(source.expr, source, like), _shape(op), element, op.span))


def _launched(t: Context, op: Operation) -> None:
    element = ELEMENTS["i32"]
    scalar = scalar_of(element, op.span)
    if op.name == "get_num_tile_blocks":
        t.define(op, *(number_of(n, element, scalar) for n in t.grid))
        return
    ids = (variable(n) if e > 1 else number(0) for n, e in zip(GRID, t.grid, strict=True))
    t.define(op, *(Number((), element, scalar, None, i) for i in ids))


def _assert(t: Context, op: Operation) -> None:
    c = t.number(op.operand("condition"))
    e: Expr = c.whole
    for name in c.dims:
        state = TensorType(BOOL, e.tensor.dims.without(name))
        e = reduce(operator("and", state, state), literal(True), e, dim=name)
    t.nodes.append(Check(e, f"an assertion fails: {op.attribute('message')}", op.span))


def _print(t: Context, op: Operation) -> None:
    t.notes.append("print_tko prints nothing: interpret the kernel to see what it says.")
    t.define(op, *(Token() for _ in op.results))


_OTHERS = {
    "constant": _constant, "iota": _iota, "broadcast": _broadcast, "reshape": _reshape, "permute": _permute,
    "cat": _cat, "extract": _extract, "pack": _pack, "unpack": _unpack, "get_tile_block_id": _launched,
    "get_num_tile_blocks": _launched, "assert": _assert, "print_tko": _print,
}  # fmt: skip


# What nobody asks for


def without_unused(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes without values that nothing uses; of atomics the result alone goes."""
    return _kept(nodes, set())


def _kept(nodes: tuple[Node, ...], used: set[Var]) -> tuple[Node, ...]:
    """From the last node to the first; `used` gets what is used before."""
    found: list[Node] = []
    for node in reversed(nodes):
        match node:
            case Let(result, value):
                if result not in used:
                    continue
                used |= value.free
            case Read(result, _, at, where, otherwise):
                if result not in used:
                    continue
                used |= _free(at, where) | (otherwise.free if otherwise is not None else frozenset())
            case Write(_, at, value, where):
                used |= value.free | _free(at, where)
            case Atomic(result, _, at, _, value, where):
                if result is not None and result not in used:
                    node = replace(node, result=None)
                used |= value.free | _free(at, where)
            case If(conditions, body, otherwise, pairs):
                pairs = tuple(j for j in pairs if j.result in used)
                for j in pairs:
                    used |= j.value.free | j.otherwise.free
                body, otherwise = _kept(body, used), _kept(otherwise, used)
                if not (body or otherwise or pairs):
                    continue
                node = replace(node, body=body, otherwise=otherwise, joined=pairs)
                used |= _free((), conditions)
            case For(_, start, stop, body, carried=carried):
                body, carried = _of_loop(body, carried, used, frozenset())
                if not (body or carried):
                    continue
                node = replace(node, body=body, carried=carried)
                used |= _free((start, stop), ())
            case While(before, condition, body, carried):
                used |= condition.free
                body, carried = _of_loop(body, carried, used, condition.free)
                node = replace(node, before=_kept(before, used), body=body, carried=carried)
            case Check(condition):
                used |= condition.free
            case _:
                pass
        found.append(node)
    return tuple(reversed(found))


def _of_loop(body: tuple[Node, ...], carried: tuple[Any, ...], used: set[Var], asked: frozenset[Var]) -> Any:
    """The body of a loop, and of what it carries only what leaves it or is asked for inside."""
    wanted = {c.result for c in carried if c.result in used} | {c.inside for c in carried if c.inside in asked}
    while True:
        kept = tuple(c for c in carried if c.result in wanted or c.inside in wanted)
        inner = set(used)
        for c in kept:
            inner |= c.next.free
        new = _kept(body, inner)
        more = {c.inside for c in carried if c.inside in inner}
        if more <= wanted:
            used |= inner
            for c in kept:
                used |= c.first.free
            return new, kept
        wanted |= more


def _free(at: Sequence[Any], where: Sequence[Any]) -> frozenset[Var]:
    return frozenset(x for x in (*at, *where) if isinstance(x, Var))


# The arguments of a launch: what each parameter of an entry is given, by the shapes and numbers of a call.


Key = tuple[tuple[int, ...] | int | None, ...]
"""What a program is made for: the shapes of arrays, and the integers among the arguments."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The calling convention: arguments one by one, or each array as pointer, extents and strides."""

    entry: Operation
    raw: bool
    arguments: tuple[Argument, ...]
    elements: tuple[Element, ...]

    def key(self, values: Sequence[Any]) -> Key:
        """The key of a compiled program: the values of a call that it is made for."""
        found: list[tuple[int, ...] | int | None] = []
        for a, v in zip(self.arguments, values, strict=True):
            if not a.scalar:
                found.append(None if v is None else tuple(int(n) for n in v.shape))
            else:
                found.append(int(v if is_traced(v) else scalar_value(a, v)) if a.static else None)
        return tuple(found)

    def given(self, key: Key) -> list[Given]:
        """The argument of each parameter."""
        params = self.entry.regions[0].arguments
        found: list[Given] = []
        for a, e, k in zip(self.arguments, self.elements, key, strict=True):
            if a.scalar:
                found.append(Given(a.name, e, value=k if isinstance(k, int) else None))
                continue
            assert isinstance(k, tuple)
            strides = row_major(k)
            found.append(Given(a.name, e, k, strides))
            for n in () if self.raw else (*k, *strides):
                type: Any = params[len(found)].type
                found.append(Given(f"{a.name}.{len(found)}", type.element, value=n))
        return found


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements that lie row by row.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    found: list[int] = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= max(n, 1)
    return tuple(reversed(found))


def signature(entry: Operation, args: Sequence[Any]) -> Signature:
    """The calling convention for arguments like these. Raises TK02 to TK04 for those that have none."""
    params, name = entry.regions[0].arguments, str(entry.attribute("sym_name"))
    raw = len(args) == len(params)
    needed = sum(1 + 2 * len(a.shape) if _is_array(a) else 1 for a in args)
    if not raw and needed != len(params):
        message = f"'{name}' takes {len(params)} parameters, and these {len(args)} arguments are {needed}."
        help = "pass one argument for each parameter, or arrays and numbers as cuTile takes them."
        raise refuse("TK02", message, help, at=entry.span)
    arguments: list[Argument] = []
    elements: list[Element] = []
    at = 0
    for value in args:
        param = params[at]
        title = param.name if param.name.isidentifier() else f"arg{at}"
        if not isinstance(param.type, Tile) or param.type.shape:
            message = f"the parameter %{title} of '{name}' is of type {param.type}, which a launch cannot pass."
            raise refuse("TK03", message, at=entry.span)
        element = param.type.element
        if _is_array(value) != isinstance(element, Pointer):
            what = "an array" if _is_array(value) else "a number"
            message = f"the parameter %{title} of '{name}' is of type {element}, and {what} is passed."
            raise refuse("TK03", message, at=entry.span)
        if isinstance(element, Pointer):
            element = element.pointee
            arguments.append(Argument(title, _dtype(entry, title, element, value), False, False))
            _check_layout(entry, title, value, raw)
            at += 1 if raw else 1 + 2 * len(value.shape)
        else:
            arguments.append(
                Argument(title, element.numpy, True, False, static=element.is_integer, signless=element.is_integer)
            )
            at += 1
        elements.append(element)
    return Signature(entry, raw, tuple(arguments), tuple(elements))


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and len(value.shape) > 0


def _dtype(entry: Operation, title: str, element: Element, value: Any) -> np.dtype[Any]:
    """The type of an array's elements: that of memory, or another one as wide without a sign."""
    dtype, wanted = np.dtype(value.dtype), element.numpy
    same_width = dtype.kind in "iub" and dtype.itemsize == wanted.itemsize
    if dtype == wanted or (same_width and (element.is_integer or (dtype.kind == "u" and element.bits <= 16))):
        return dtype
    message = f"the parameter %{title} points to {element}, and the array holds {dtype}."
    raise refuse("TK04", message, at=entry.span)


def _check_layout(entry: Operation, title: str, value: Any, raw: bool) -> None:
    """Arguments one by one say how an array lies in memory, which tensors do not."""
    if raw and isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        message = f"the array for %{title} does not lie row by row, as its strides would be taken."
        raise refuse("TL40", message, "pass numpy.ascontiguousarray(...) and its strides.", at=entry.span)
