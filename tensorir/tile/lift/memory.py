"""Loads, stores and atomic operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Scalar, TensorType
from tensorir.lifting.emission.tensors import converted, position, spread, sum_of
from tensorir.lifting.region.nodes import (
    Atomic,
    Bound,
    Carried,
    Check,
    Condition,
    For,
    Index,
    Read,
    Rule,
    Write,
    tells_apart,
)
from tensorir.runtime.errors import Span, refuse
from tensorir.tile.interpret.hazards import dims_of, steps_of
from tensorir.tile.lift.arithmetic import same_bits, signless, unsigned
from tensorir.tile.lift.structure import at_index
from tensorir.tile.lift.values import (
    Axes,
    Context,
    FlatMemory,
    Memory,
    Number,
    Pointers,
    Tensor,
    Token,
    Translate,
    View,
    axis,
    element_of,
    fitting,
    number_of,
    pointee_of,
    scalar_of,
    truth,
)
from tensorir.tile.nodes import Bounded, DivBy, Operation
from tensorir.tile.nodes import Value as Name
from tensorir.tile.types import ELEMENTS, GatherScatterView, TensorView, Tile, TileView

# Loads and stores: pointers and views as access maps, index by index a sum, or a value where it is none.

I64 = ELEMENTS["i64"]


@dataclass(frozen=True, slots=True)
class Place:
    """Elements of a memory: its indices, and the conditions under which they are meant."""

    memory: Memory
    at: tuple[Index, ...]
    where: tuple[Condition, ...]
    dims: dict[str, Interval]
    """The axes that the indices have."""


# Views


def make_tensor_view(t: Context, op: Operation) -> None:
    type = op.results[0].type
    assert isinstance(type, TensorView)
    base = t.pointers(op.operand("base"))
    sizes: list[tuple[int, ...]] = []
    for numbers, name in ((type.shape, "dynamicShape"), (type.strides, "dynamicStrides")):
        given = iter(op.operand(name))
        sizes.append(tuple(_known(t, op, next(given)) if n is None else n for n in numbers))
    if base.element.width != base.memory.element.width:
        raise refuse("TL40", "a view has elements of another width than its memory.", at=op.span)
    t.define(op, Tensor(type, base.memory, base.offset, sizes[0], sizes[1]))


def _known(t: Context, op: Operation, name: Name) -> int:
    n = t.number(name)
    if n.known is None:
        help = "extents and strides are told by the arguments of a launch."
        raise refuse("TL40", "an extent or a stride of this view depends on the block, or on data.", help, at=op.span)
    if n.known < 0:
        raise refuse("TL41", f"an extent or a stride of this view is {n.known}.", at=op.span)
    return n.known


def make_view(t: Context, op: Operation) -> None:
    tensor, type = t.values[op.operand("tensor_view")], op.results[0].type
    assert isinstance(tensor, Tensor) and isinstance(type, TileView)
    t.define(op, View(type, tensor))


def shape(t: Context, op: Operation) -> None:
    source = t.values[op.operand("src")]
    if isinstance(source, View):
        steps = zip(dims_of(source.type), steps_of(source.type), strict=True)
        extents = [-(-source.tensor.extents[d] // step) for d, step in steps]
    else:
        assert isinstance(source, Tensor)
        extents = list(source.extents)
    found: list[Number] = []
    for n, result in zip(extents, op.results, strict=True):
        element = element_of(result.type)
        found.append(number_of(n, element, scalar_of(element, op.span)))
    t.define(op, *found)


def place_of_view(t: Context, op: Operation) -> Place:
    """The elements of a tile of a view: inside of its tensor."""
    view = t.values[op.operand("view")]
    assert isinstance(view, View)
    indices = t.numbers(op.operand("index"))
    tensor, type = view.tensor, view.type
    dims = {axis(k): Interval(0, n) for k, n in enumerate(type.tile) if n > 1}
    ranges = {**t.ranges, **{n: (0, i.stop - 1) for n, i in dims.items()}}
    if t.undefined:
        _within_space(t, op, view, indices)
    parts: list[Index] = [number(0)] * len(type.tile)
    where: list[Condition] = []
    for k, (d, step, index) in enumerate(zip(dims_of(type), steps_of(type), indices, strict=True)):
        sparse = isinstance(type, GatherScatterView) and k == type.sparse_dim
        own = {} if sparse else {axis(k): dims[axis(k)]} if axis(k) in dims else {}
        parts[d], found = _coordinate(t, index, step, own, tensor.extents[d], sparse, k, ranges, op.span)
        where += found
    at = _in_memory(t, tensor, parts, dims, ranges, op.span)
    return Place(tensor.memory, at, tuple(where), dims)


def _within_space(t: Context, op: Operation, view: View, indices: Sequence[Number]) -> None:
    """A check that the indices of a view are indices of its tiles."""
    for k, (d, step, index) in enumerate(zip(dims_of(view.type), steps_of(view.type), indices, strict=True)):
        if isinstance(view.type, GatherScatterView) and k == view.type.sparse_dim:
            continue
        space = -(-view.tensor.extents[d] // step)
        if index.sum is not None:
            bounds = Bound(index.sum), Bound(number(space - 1).minus(index.sum))
            if all(b.holds(t.ranges) for b in bounds):
                continue
        e = index.expr if index.scalar in (INT32, INT64) else converted(index.expr, INT32)
        kind = e.tensor.leaves[0]
        inside = call("and", call("greater_equal", e, literal(0, kind)), call("less", e, literal(space, kind)))
        said = f"index {k} of {op.name} is none of the {space} of its space."
        t.nodes.append(Check(inside, said, op.span))


def _coordinate(
    t: Context, index: Number, step: int, own: dict[str, Interval], extent: int, sparse: bool, k: int,
    ranges: dict[str, tuple[int, int]], span: Span,
) -> tuple[Index, list[Condition]]:  # fmt: skip
    """The index of each element of a tile along a dim of its tensor, and the mask that keeps it inside."""
    index = index.renamed((1,) * k + index.axes, {axis(0): axis(k)}) if sparse else index
    # of few bits what is negative may be a place, without a sign
    few = index.element.bits < 32
    if index.sum is not None and (not few or Bound(index.sum).holds(ranges) is True):
        at = index.sum.times(step)
        for n in own:
            at = at.plus(variable(n))
        # a negative index is a large one without a sign: outside
        bounds = Bound(index.sum), Bound(at), Bound(number(extent - 1).minus(at))
        return at, [b for b in bounds if b.holds(ranges) is not True]
    # as a number without a sign a negative one is far outside; where a tile is, nothing wraps around
    wide = converted(unsigned(index.expr, index.element), INT32) if few else index.expr
    kind = INT64 if wide.tensor.element == INT64 else INT32
    zero, space = literal(0, kind), literal(-(-extent // step), kind)
    there = call("and", call("greater_equal", wide, zero), call("less", wide, space))
    total = wide
    if step != 1 or own:
        total = call("if", there, wide, space)
        total = total if step == 1 else call("multiplies", total, literal(step, kind))
        for n, i in own.items():
            total = call("plus", total, converted(position(n, i), kind))
    total = t.variable(total, span)
    inside = call("and", call("greater_equal", total, zero), call("less", total, literal(extent, kind)))
    return total, [t.variable(inside, span)]


def _in_memory(
    t: Context, tensor: Tensor, parts: Sequence[Index], dims: dict[str, Interval], ranges: dict[str, tuple[int, int]],
    span: Span,
) -> tuple[Index, ...]:  # fmt: skip
    """Coordinates of a tensor as indices of its memory."""
    memory = tensor.memory
    if not memory.flat:
        same = all(a == b or n <= 1 for a, b, n in zip(tensor.strides, memory.strides, tensor.extents, strict=False))
        if tensor.base.known == 0 and tensor.extents == memory.shape and same:
            return tuple(parts)
        raise FlatMemory(memory.name)
    if tensor.base.sum is not None and all(isinstance(p, Affine) for p in parts):
        total = tensor.base.sum
        for p, stride in zip(parts, tensor.strides, strict=True):
            assert isinstance(p, Affine)
            total = total.plus(p.times(stride))
        return (total,)
    kind = INT64 if tensor.base.sum is None else _width(t, memory)
    value = converted(tensor.base.expr, kind)
    for p, stride in zip(parts, tensor.strides, strict=True):
        e = p if isinstance(p, Var) else _spelled(p, dims, kind)
        value = call("plus", value, call("multiplies", converted(e, kind), literal(stride, kind)))
    return (t.variable(value, span),)


def _spelled(a: Affine, dims: dict[str, Interval], kind: Scalar) -> Expr:
    """A sum of indices as a tensor."""
    return sum_of(a, {n: position(n, dims[n]) if n in dims else var(n, TensorType(INT32)) for n in a.names}, kind)


def _width(t: Context, memory: Memory) -> Scalar:
    """The type of addresses in a memory."""
    return INT64 if t.wide or prod(memory.shape) >= 1 << 31 else INT32


# Pointers


def offset(t: Context, op: Operation) -> None:
    pointers, steps = t.pointers(op.operand("ptr")), t.number(op.operand("offset"))
    if pointers.element.width != pointers.memory.element.width:
        raise refuse("TL40", "these pointers count elements of another width than their memory.", at=op.span)
    type = op.results[0].type
    assert isinstance(type, Tile)
    t.define(
        op,
        Pointers(type.shape, pointers.memory, _added(t, pointers.offset, steps, type.shape, op.span), pointers.element),
    )


def _added(t: Context, a: Number, b: Number, axes: Axes, span: Span) -> Number:
    if a.sum is not None and b.sum is not None:
        total = a.sum.plus(b.sum)
        ranges = {**t.ranges, **{axis(k): (0, n - 1) for k, n in enumerate(axes)}}
        if fitting(total, I64, ranges) is not None:
            return Number(axes, I64, INT64, None, total)
    e = converted(b.expr, INT64) if a.known == 0 else call("plus", converted(a.expr, INT64), converted(b.expr, INT64))
    made = t.made(e, axes, I64, span)
    lows = [n.low_bits(t.ranges) for n in (a, b)]
    if t.wide or lows[0] is None or lows[1] is None:
        return made
    low = lows[1][0] if a.known == 0 else call("plus", lows[0][0], lows[1][0])
    return replace(made, low=t.named(low, span))


def place_of_pointers(t: Context, op: Operation, pointers: Pointers, mask: Number | None) -> Place:
    """The elements that pointers point to, where a mask allows."""
    memory, axes = pointers.memory, pointers.axes
    if not memory.flat:
        raise FlatMemory(memory.name)
    if pointers.element.width != memory.element.width:
        raise refuse("TL40", f"memory of {memory.element} is accessed as {pointers.element}.", at=op.span)
    where: tuple[Condition, ...] = ()
    if mask is not None and (known := truth(mask, t.ranges)) is not True:
        if mask.bounds is not None:
            where = mask.bounds
        else:
            where = (t.variable(mask.expr, op.span),)
            if known is False:
                where = (Bound(number(-1)),)
    if pointers.offset.sum is not None:
        at: Index = pointers.offset.sum
        names = at.names
    else:
        low = pointers.offset.low if _width(t, memory) == INT32 else None
        at = t.variable(pointers.offset.expr if low is None else low, op.span)
        names = frozenset(at.type.dims.names)
    dims = {axis(k): Interval(0, n) for k, n in enumerate(axes) if n > 1 and axis(k) in names}
    return Place(memory, (at,), where, dims)


def _names_in(where: Sequence[Condition]) -> frozenset[str]:
    found: set[str] = set()
    for c in where:
        found |= c.affine.names if isinstance(c, Bound) else set(c.type.dims.names)
    return frozenset(found)


def _widened(t: Context, place: Place, dims: dict[str, Interval], span: Span) -> Place:
    """The place with an index that has more axes: that of the first dim, as a value."""
    if dims.keys() <= place.dims.keys():
        return place
    first, *rest = place.at
    e = first if isinstance(first, Var) else _spelled(first, place.dims, _width(t, place.memory))
    whole = t.variable(spread(e, {**place.dims, **dims}), span)
    return Place(place.memory, (whole, *rest), place.where, {**place.dims, **dims})


def load(t: Context, op: Operation) -> None:
    result = op.results[0]
    assert isinstance(result.type, Tile)
    axes, element = result.type.shape, element_of(result.type)
    if op.name == "load_ptr_tko":
        mask = op.operand("mask")
        place = place_of_pointers(t, op, t.pointers(op.operand("source")), None if mask is None else t.number(mask))
        padding = op.operand("paddingValue")
        otherwise = None if padding is None else t.number(padding).expr
        known = padding is not None
    else:
        place = place_of_view(t, op)
        view = t.values[op.operand("view")]
        assert isinstance(view, View)
        otherwise, known = _padding(view), view.type.padding is not None
    if place.where and not known:
        t.padded = t.padded or op.span
        otherwise = None if t.fill is None else _filled(place.memory.scalar, t.fill)
    tile = {axis(k): Interval(0, n) for k, n in enumerate(axes) if n > 1}
    further = set(_names_in(place.where)) | set(() if otherwise is None else otherwise.tensor.dims.names)
    place = _widened(t, place, {n: i for n, i in tile.items() if n in further}, op.span)
    if not place.where:
        otherwise = None
    kept = Dims(tuple((n, i) for n, i in tile.items() if n in place.dims))
    found = Var(t.fresh("t"), TensorType(place.memory.scalar, kept))
    if otherwise is not None:
        otherwise = converted(otherwise, place.memory.scalar)
    t.nodes.append(Read(found, place.memory.buffer, place.at, place.where, otherwise, op.span))
    value = t.made(found if element == place.memory.element else _as_element(found, t, op), axes, element, op.span)
    t.define(op, value, Token())


def _as_element(x: Expr, t: Context, op: Operation) -> Expr:
    scalar = scalar_of(element_of(op.results[0].type), op.span)
    return x if x.tensor.element == scalar else call("bitcast", x, static=(scalar,))


FILLS = 3
"""How many values are tried in the place of padding that is unspecified."""


def _filled(scalar: Scalar, k: int) -> Expr:
    """One of the values that show where they get: no result hides all of them."""
    if scalar.is_float:
        return literal((float("nan"), float("inf"), float("-inf"))[k if scalar.bits > 8 else 0], scalar)
    return literal(True if scalar == BOOL else (scalar.range.stop - 1, scalar.range.start, 1)[k], scalar)


def _padding(view: View) -> Expr | None:
    element = view.type.tensor.element
    if view.type.padding in (None, "zero"):
        return None
    value = {"neg_zero": -0.0, "nan": float("nan"), "pos_inf": float("inf"), "neg_inf": float("-inf")}
    return literal(value[str(view.type.padding)], view.tensor.memory.scalar) if element.is_float else None


def store(t: Context, op: Operation) -> None:
    if op.name == "store_ptr_tko":
        mask = op.operand("mask")
        destination = t.pointers(op.operand("destination"))
        place = place_of_pointers(t, op, destination, None if mask is None else t.number(mask))
        value = t.number(op.operand("value"))
    else:
        place = place_of_view(t, op)
        value = t.number(op.operand("tile"))
    place, x = settled(t, place, value, op.span)
    t.nodes.append(Write(place.memory.buffer, place.at, x, place.where, op.span))
    t.define(op, Token())


def settled(t: Context, place: Place, value: Number, span: Span, last: bool = True) -> tuple[Place, Expr]:
    """A place and a value on the same axes: of lanes that meet without a mask, the last one stays."""
    tile = {axis(k): Interval(0, n) for k, n in enumerate(value.axes) if n > 1}
    x = (
        value.expr
        if value.scalar == place.memory.scalar
        else call("bitcast", value.expr, static=(place.memory.scalar,))
    )
    further = _names_in(place.where)
    if not last:
        further = frozenset(tile)
    place = _widened(t, place, {n: i for n, i in tile.items() if n in further}, span)
    for n, i in tile.items():
        if n not in place.dims:
            x = at_index(x, n, i.stop - 1)
    return place, spread(x, place.dims)


def pointer_cast(t: Context, op: Operation) -> None:
    source = t.pointers(op.values[0])
    t.define(op, replace(source, element=pointee_of(op.results[0].type)))


def assume(t: Context, op: Operation) -> None:
    """The value; what is known to contradict the assumption is said."""
    value, predicate = t.values[op.operand("value")], op.attribute("predicate")
    if isinstance(value, Number) and value.known is not None:
        n = value.known
        wrong = False
        match predicate:
            case Bounded(lower, upper):
                wrong = (lower is not None and n < lower) or (upper is not None and n > upper)
            case DivBy(divisor, None | 1):
                wrong = n % divisor != 0
            case _:
                pass
        if wrong:
            help = "launch it with other extents, or compile the kernel for these."
            raise refuse("TL41", f"the kernel assumes {predicate} of a number that is {n} here.", help, at=op.span)
    t.define(op, value)


def get_global(t: Context, op: Operation) -> None:
    memory = t.memories[f"@{op.attribute('name')}"]
    t.define(op, Pointers((), memory, number_of(0, I64, INT64), memory.element))


def token(t: Context, op: Operation) -> None:
    t.define(op, Token())


MEMORY: dict[str, Translate] = {
    "make_tensor_view": make_tensor_view, "make_partition_view": make_view, "make_strided_view": make_view,
    "make_gather_scatter_view": make_view, "get_tensor_shape": shape, "get_index_space_shape": shape,
    "load_view_tko": load, "load_ptr_tko": load, "store_view_tko": store, "store_ptr_tko": store, "offset": offset,
    "ptr_to_ptr": pointer_cast, "assume": assume, "get_global": get_global,
    "make_token": token, "join_tokens": token,
}  # fmt: skip

# Atomic operations: what combines is an Atomic of its builtin, an exchange is a look at memory and a write.
#
# Lanes of a tile take turns where they may meet and it matters who was first: a loop over the lanes.

COMBINING = {
    "add": "plus", "addf": "plus", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "max": "max", "min": "min",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """An update of elements: from their old values, or by a builtin that combines."""

    values: tuple[Expr, ...]
    new: Callable[[Expr, tuple[Expr, ...]], Expr]
    op: str | None = None


def atomic_rmw(t: Context, op: Operation) -> None:
    mask = op.operand("mask")
    value = t.number(op.operand("arg"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    old = _changed(t, op, place, value, op.results[0] in t.used)
    t.define(op, value if old is None else t.made(old, value.axes, value.element, op.span), Token())


def atomic_red_view(t: Context, op: Operation) -> None:
    _changed(t, op, place_of_view(t, op), t.number(op.operand("value")), False)
    t.define(op, Token())


def _changed(t: Context, op: Operation, place: Place, value: Number, used: bool) -> Expr | None:
    """Memory changed by a value; what was there before, where it is asked for."""
    mode, span = op.attribute("mode"), op.span
    place, x = settled(t, place, value, span, last=False)
    if mode in COMBINING:
        combining = Step((x,), lambda old, given: call(COMBINING[mode], old, given[0]), COMBINING[mode])
        if not used:
            t.nodes.append(Atomic(None, place.memory.buffer, place.at, COMBINING[mode], x, place.where, span))
            return None
        return _in_turns(t, place, combining, span)
    if mode == "xchg":
        if not used:
            t.nodes.append(Write(place.memory.buffer, place.at, x, place.where, span))
            return None
        return _in_turns(t, place, Step((x,), lambda old, given: given[0]), span)
    kind, bits = "max" if mode == "umax" else "min", SCALARS[f"uint{value.element.bits}"]

    def extreme(old: Expr, given: tuple[Expr, ...]) -> Expr:
        return signless(call(kind, same_bits(old, bits), same_bits(given[0], bits)), value.element)

    return _in_turns(t, place, Step((x,), extreme), span)


def atomic_cas(t: Context, op: Operation) -> None:
    mask, span = op.operand("mask"), op.span
    expected, value = t.number(op.operand("cmp")), t.number(op.operand("val"))
    place = place_of_pointers(t, op, t.pointers(op.operand("pointers")), None if mask is None else t.number(mask))
    place, x = settled(t, place, value, span, last=False)
    wanted = spread(expected.expr, place.dims)
    bits = SCALARS[f"uint{value.scalar.bits}"]

    def exchanged(old: Expr, given: tuple[Expr, ...]) -> Expr:
        return call("if", call("eq", same_bits(old, bits), same_bits(given[1], bits)), given[0], old)

    old = _in_turns(t, place, Step((x, wanted), exchanged), span)
    if mask is not None:
        # a lane that is held back sees what it expects
        old = call("if", t.number(mask).expr, old, expected.expr)
    t.define(op, t.made(old, value.axes, value.element, span), Token())


def _in_turns(t: Context, place: Place, step: Step, span: Span) -> Expr:
    """Lane by lane where lanes may meet, else all at once; the old values."""
    if not place.dims or tells_apart(place.at, place.dims):
        return _at(t, place, step, span)
    lane = t.fresh("lane")
    count = 1
    for i in place.dims.values():
        count *= len(i)
    t.ranges[lane] = (0, count - 1)
    coordinates: dict[str, Affine] = {}
    inner = 1
    for name, i in reversed(list(place.dims.items())):
        coordinates[name] = remainder(quotient(variable(lane), inner, t.ranges), len(i), t.ranges)
        inner *= len(i)
    inside = Var(t.fresh("c"), TensorType(place.memory.scalar, step.values[0].tensor.dims))
    result = Var(t.fresh("r"), inside.type)
    with t.body() as nodes:
        places = {n: sum_of(a, {lane: var(lane, TensorType(INT32))}) for n, a in coordinates.items()}

        def picked(e: Expr) -> Expr:
            """The value of one lane."""
            names = tuple(n for n in e.tensor.dims.names if n in places)
            return call("gather", e, *(places[n] for n in names), static=(names, "clamp")) if names else e

        def index(i: Index) -> Index:
            return i.replaced(coordinates, t.ranges) if isinstance(i, Affine) else t.variable(picked(i), span)

        def condition(c: Condition) -> Condition:
            return Bound(c.affine.replaced(coordinates, t.ranges), c.equal) if isinstance(c, Bound) else index_of(c)

        def index_of(c: Var) -> Var:
            return t.variable(picked(c), span)

        one = Place(place.memory, tuple(map(index, place.at)), tuple(map(condition, place.where)), {})
        old = _at(t, one, Step(tuple(map(picked, step.values)), step.new, step.op), span)
        here: Expr | None = None
        for n, i in place.dims.items():
            same = call("eq", position(n, i), places[n])
            here = same if here is None else call("and", here, same)
        assert here is not None
        following = t.variable(call("if", here, old, inside), span)
    zeros = spread(_nothing(place.memory.scalar), dict(inside.type.dims.items))
    carried = (Carried(inside, zeros, following, result),)
    t.nodes.append(For(lane, number(0), number(count), tuple(nodes), Rule.IN_ORDER, carried, "lanes", span))
    return result


def _nothing(scalar: Scalar) -> Expr:
    return literal(False if scalar == BOOL else 0, scalar)


def _at(t: Context, place: Place, step: Step, span: Span) -> Expr:
    """All elements of a place in one step; their old values."""
    buffer, scalar = place.memory.buffer, place.memory.scalar
    old = Var(t.fresh("t"), step.values[0].tensor)
    if step.op is not None:
        t.nodes.append(Atomic(old, buffer, place.at, step.op, step.values[0], place.where, span))
        return old
    # a look at memory in one step: combined with what changes nothing
    nothing = literal(float("inf"), scalar) if scalar.is_float else _nothing(scalar)
    op = "min" if scalar.is_float else "or" if scalar == BOOL else "bit_or"
    t.nodes.append(Atomic(old, buffer, place.at, op, spread(nothing, place.dims), place.where, span))
    new = t.named(step.new(old, step.values), span)
    t.nodes.append(Write(buffer, place.at, spread(new, place.dims), place.where, span))
    return old


ATOMICS: dict[str, Translate] = {
    "atomic_rmw_tko": atomic_rmw, "atomic_red_view_tko": atomic_red_view, "atomic_cas_tko": atomic_cas,
}  # fmt: skip
