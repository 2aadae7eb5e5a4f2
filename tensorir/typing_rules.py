"""The typing rule of every builtin: from static parameters and operands to the type of the result, or a Complaint.

A rule sees operands through their `type` and `free` variables only. `Complaint.at` counts operands from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from tensorir.errors import did_you_mean
from tensorir.types import (
    BOOL,
    INT32,
    NEIGHBOUR,
    Complaint,
    Dims,
    Element,
    FunctionType,
    Interval,
    Scalar,
    TensorType,
    TupleElement,
    Type,
    bcast,
    covers,
    neighbour_counter,
)

__all__ = ["Operand", "assignable", "highest_neighbour", "reduced_dim", "scanned_dim"]

MODES = ("checked", "clamp", "zero")


class Operand(Protocol):
    """What a rule may know of an operand."""

    @property
    def type(self) -> Type: ...
    @property
    def free(self) -> Iterable[Any]: ...


Static = tuple[Any, ...]
Operands = Sequence[Operand]


def _tensors(args: Operands) -> list[TensorType]:
    found: list[TensorType] = []
    for index, arg in enumerate(args):
        if not isinstance(arg.type, TensorType):
            raise Complaint("T14", "a function stands where a tensor is needed.", help="apply it: f(x).", at=index)
        found.append(arg.type)
    return found


def _function(args: Operands, index: int) -> FunctionType:
    kind = args[index].type if index < len(args) else None
    if not isinstance(kind, FunctionType):
        raise Complaint("T14", "a tensor stands where a function is needed.", help="write λ(x: T) → e.", at=index)
    return kind


# Elementwise


def _is_number(e: Scalar) -> bool:
    return e.is_number


def _is_float(e: Scalar) -> bool:
    return e.is_float


def _is_integer(e: Scalar) -> bool:
    return e.is_integer


def _is_bool(e: Scalar) -> bool:
    return e == BOOL


def _is_any(e: Scalar) -> bool:
    return True


def _scalars(args: Operands, wanted: str, accepts: Any) -> tuple[Scalar, Dims]:
    """The one scalar type of all operands and their common dims."""
    types = _tensors(args)
    first = types[0].element
    for index, t in enumerate(types):
        if isinstance(t.element, TupleElement):
            raise Complaint(
                "T05",
                f"a tuple, {t.element}, stands where one {wanted} is needed.",
                help="take a member: x[0].",
                at=index,
            )
        if not accepts(t.element):
            raise Complaint(
                "T04",
                f"{t.element} stands where {_article(wanted)} is needed.",
                help=_cast_hint(t.element, wanted),
                at=index,
            )
        if t.element != first:
            raise Complaint(
                "T01",
                f"the operands have different element types: {first} and {t.element}.",
                help=f"nothing is converted silently; write cast(x, {first}) or cast(x, {t.element}).",
                at=index,
            )
    assert isinstance(first, Scalar)
    return first, bcast(types)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _cast_hint(element: Scalar, wanted: str) -> str:
    target = {"float": "float64", "number": "int32", "integer": "int32", "bool": "bool"}[wanted]
    return "compare it with 0: x ≠ 0." if wanted == "bool" else f"convert it: cast(x, {target})."


def numbers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "number", _is_number))


def floats(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "float", _is_float))


def integers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "integer", _is_integer))


def logic(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "bool", _is_bool))


def comparison(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number", _is_number)[1])


def equality(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number", _is_any)[1])


def float_tests(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "float", _is_float)[1])


def selection(static: Static, args: Operands) -> TensorType:
    condition, first, second = _tensors(args)
    if condition.element != BOOL:
        raise Complaint("T04", f"the condition is {condition.element}, not bool.", help="compare it: x > 0.0.", at=0)
    if first.element != second.element:
        raise Complaint(
            "T01",
            f"the branches have different element types: {first.element} and {second.element}.",
            help="cast one of them.",
            at=2,
        )
    return TensorType(first.element, bcast([condition, first, second]))


def cast(static: Static, args: Operands) -> TensorType:
    (target,) = static
    (x,) = _tensors(args)
    if not isinstance(x.element, Scalar) or not isinstance(target, Scalar):
        raise Complaint("T27", "a tuple cannot be cast as a whole.", help="cast its members.", at=0)
    return x.of(target)


def bitcast(static: Static, args: Operands) -> TensorType:
    (target,) = static
    (x,) = _tensors(args)
    if not isinstance(x.element, Scalar) or not isinstance(target, Scalar):
        raise Complaint("T27", "a tuple cannot be cast as a whole.", help="cast its members.", at=0)
    if x.element.bits != target.bits:
        raise Complaint(
            "T28",
            f"{x.element} has {x.element.bits} bits and {target} has {target.bits}.",
            help=f"bitcast keeps the bits; write cast(x, {target}) to convert the value.",
            at=0,
        )
    return x.of(target)


# Tuples


def make_tuple(static: Static, args: Operands) -> TensorType:
    types = _tensors(args)
    if not types:
        raise Complaint("T06", "a tuple needs at least one member.", help="write make_tuple(x).")
    return TensorType(TupleElement(tuple(t.element for t in types)), bcast(types))


def tuple_get(static: Static, args: Operands) -> TensorType:
    index: int = static[0]
    (x,) = _tensors(args)
    if not isinstance(x.element, TupleElement):
        raise Complaint(
            "T30", f"{x.element} is not a tuple, so it has no member {index}.", help="leave out the index.", at=0
        )
    if not 0 <= index < len(x.element.members):
        raise Complaint(
            "T29",
            f"there is no member {index} in {x.element}.",
            help=f"members count from 0 to {len(x.element.members) - 1}.",
            at=0,
        )
    return x.of(x.element.members[index])


# Shifts


def cartesian_shift(static: Static, args: Operands) -> TensorType:
    dim, offset = static
    (x,) = _tensors(args)
    return x.on(x.dims.with_interval(dim, _interval(x, dim, 0).shifted(offset)))


def _interval(x: TensorType, dim: str, at: int | None) -> Interval:
    found = x.dims.get(dim)
    if found is None:
        raise Complaint(
            "T25",
            f"there is no dim {dim} here, only {x.dims}.",
            help=did_you_mean(dim, x.dims.names) or "the operand is one value.",
            at=at,
        )
    return found


def neighbour_source(table: TensorType) -> tuple[str, str]:
    """The tagged dim of a table and the dim that its entries are coordinates of."""
    tagged = [d for d in table.dims if d.startswith(NEIGHBOUR) and neighbour_counter(d) is None]
    if not (isinstance(table.element, Scalar) and table.element.is_integer):
        raise Complaint(
            "T10",
            f"a table holds integers, and this holds {table.element}.",
            help="shift with a tensor<int, ...> whose entries are coordinates.",
            at=0,
        )
    if len(tagged) != 1:
        raise Complaint(
            "T10",
            f"a table has one dim that is tagged {NEIGHBOUR}, and this has {len(tagged) or 'none'}: {table.dims}.",
            help=f"for a table of edges name its last dim {NEIGHBOUR}Edge.",
            at=0,
        )
    return tagged[0], tagged[0].removeprefix(NEIGHBOUR)


def _neighbours(args: Operands) -> tuple[TensorType, str, Interval]:
    """The type after a partial shift, and its new dim."""
    table, x = _tensors(args)
    tag, source = neighbour_source(table)
    interval = x.dims.get(source)
    if interval is None:
        raise Complaint(
            "T11",
            f"the table leads to {source}, and the operand has no dim {source}, only {x.dims}.",
            help=f"shift a tensor on {source}, or use a table of another dim.",
            at=1,
        )
    if -1 in interval:
        raise Complaint(
            "T12",
            f"in a table -1 means absent, and {source}{interval} holds the coordinate -1.",
            help=f"write gather({source})(x, indices), where -1 is a coordinate like any other.",
            at=1,
        )
    common = bcast([table.dims.without(tag), x.dims.without(source)])
    counters = [c for d in common if (c := neighbour_counter(d)) is not None]
    return x.on(common), f"{NEIGHBOUR}{max(counters, default=-1) + 1}", table.dims[tag]


def shift_init(static: Static, args: Operands) -> TensorType:
    result, dim, interval = _neighbours(args)
    return result.on(Dims((*result.dims.items, (dim, interval))))


def unstructured_shift(static: Static, args: Operands) -> TensorType:
    (slot,) = static
    result, _, interval = _neighbours(args)
    _check_slot(slot, interval, "the table")
    return result


def _check_slot(slot: int, interval: Interval, owner: str) -> None:
    if slot not in interval:
        raise Complaint(
            "T13",
            f"there is no neighbour {slot}: {owner} has the neighbours {interval}.",
            help=f"use {interval.start} to {interval.stop - 1}." if interval else "the table is empty.",
        )


def highest_neighbour(dims: Iterable[str]) -> str | None:
    """The neighbour dim with the highest counter, None where there is none.

    >>> highest_neighbour(["Vertex", "_NB_0", "_NB_1"])
    '_NB_1'
    """
    counters = [c for d in dims if (c := neighbour_counter(d)) is not None]
    return f"{NEIGHBOUR}{max(counters)}" if counters else None


def shift_apply(static: Static, args: Operands) -> TensorType:
    (slot,) = static
    (x,) = _tensors(args)
    dim = highest_neighbour(x.dims)
    if dim is None:
        raise Complaint(
            "T09",
            f"there is no neighbour dim to select from, only {x.dims}.",
            help="shift with a table first: ⟪V2E⟫(x).",
            at=0,
        )
    _check_slot(slot, x.dims[dim], dim)
    return x.on(x.dims.without(dim))


def can_deref(static: Static, args: Operands) -> TensorType:
    (x,) = _tensors(args)
    return x.of(BOOL)


# Functions and folds


def assignable(value: TensorType, place: TensorType) -> Complaint | None:
    """None where a value can stand in a place: one element type, broadcast along dims it lacks, cut along others."""
    if value.element != place.element:
        return Complaint(
            "T16",
            f"{place.element} is needed, and this is {value.element}.",
            help="convert it with cast, or change the type of the parameter.",
        )
    for name, interval in value.dims.items:
        needed = place.dims.get(name)
        if needed is None:
            return Complaint(
                "T16", f"{place} is needed, and this varies along {name}.", help=f"add {name}{interval} to the type."
            )
        if not interval.covers(needed):
            return Complaint(
                "T16",
                f"{name}{needed} is needed, and this provides {name}{interval}.",
                help=f"the parameter may have the type {value}, or a part of it.",
            )
    return None


def _check_arguments(function: FunctionType, values: Sequence[TensorType], first: int, without: str | None) -> None:
    """Arguments fit the parameters of a function, `without` the dim that a fold takes away."""
    if len(function.params) != len(values):
        raise Complaint(
            "T15",
            f"the function takes {len(function.params)} argument{'s' * (len(function.params) != 1)}, and there "
            f"{'is' if len(values) == 1 else 'are'} {len(values)}.",
            help="give it as many arguments as parameters.",
        )
    for index, (value, place) in enumerate(zip(values, function.params, strict=True)):
        have = value.on(value.dims.without(without)) if without is not None else value
        if found := assignable(have, place):
            found.at = first + index
            raise found


def apply(function: FunctionType, args: Operands) -> TensorType:
    """The rule of an application: arguments cover the parameters' types."""
    values = _tensors(args)
    _check_arguments(function, values, 0, None)
    return function.result


def _check_captures(f: Operand, dim: str, what: str) -> None:
    for variable in sorted(f.free, key=lambda v: v.name):
        if isinstance(variable.type, TensorType) and dim in variable.type.dims:
            raise Complaint(
                "T18",
                f"the function uses '{variable.name}' from outside, which has the {what} dim {dim}.",
                help=f"pass '{variable.name}' as an argument of the {'scan' if what == 'scanned' else 'reduce'}.",
                at=0,
            )


def _check_carry(function: FunctionType, init: TensorType, what: str) -> TensorType:
    """The type of accumulator or state; what the function returns and `init` must fit it."""
    state = function.params[0]
    if found := assignable(init, state):
        raise Complaint("T19", f"init is {init}, and the {what} is {state}.", *found.notes, help=found.message, at=1)
    if found := assignable(function.result, state):
        raise Complaint(
            "T19", f"the function returns {function.result}, and the {what} is {state}.", help=found.message, at=0
        )
    return state


def reduced_dim(values: Sequence[TensorType]) -> str:
    """The neighbour dim with the highest counter."""
    dim = highest_neighbour(d for v in values for d in v.dims)
    if dim is None:
        raise Complaint(
            "T09",
            "there is no neighbour dim to reduce over.",
            help="shift with a table first, ⟪V2E⟫(x), or name a dim: reduce(f, init, I)(x).",
        )
    return dim


def reduce(static: Static, args: Operands) -> TensorType:
    (dim,) = static
    f = _function(args, 0)
    init, *values = _tensors(args[1:])
    if not values:
        raise Complaint("T06", "reduce needs at least one argument.", help="write reduce(f, init)(x).")
    having = [v.dims[dim] for v in values if dim in v.dims]
    if not having:
        raise Complaint("T17", f"no argument has the dim {dim}.", help="reduce over a dim that an argument has.", at=2)
    for index, v in enumerate(values):
        if dim in v.dims and v.dims[dim] != having[0]:
            if dim.startswith(NEIGHBOUR):
                bcast([Dims(((dim, having[0]),)), Dims(((dim, v.dims[dim]),))])
            raise Complaint(
                "T17",
                f"the arguments differ along {dim}: {having[0]} and {v.dims[dim]}.",
                help="subset them to one interval.",
                at=2 + index,
            )
    _check_captures(args[0], dim, "reduced")
    _check_arguments(f, [f.params[0], *values], 1, dim)
    return _check_carry(f, init, "accumulator")


def scanned_dim(function: FunctionType, values: Sequence[TensorType]) -> str:
    """The dim that arguments have and the parameters of the body lack."""
    candidates = list(
        dict.fromkeys(d for v, p in zip(values, function.params[1:], strict=False) for d in v.dims if d not in p.dims)
    )
    if len(candidates) != 1:
        raise Complaint(
            "T20",
            "the scanned dim is not clear: "
            + (
                f"the arguments have {', '.join(candidates)}, which the function's parameters lack."
                if candidates
                else "the arguments have no dim that the function's parameters lack."
            ),
            help="name it: scan(f, true, init, K)(x).",
        )
    return candidates[0]


def scan(static: Static, args: Operands) -> TensorType:
    _, dim = static
    f = _function(args, 0)
    init, *values = _tensors(args[1:])
    if not values:
        raise Complaint("T06", "scan needs at least one argument.", help="write scan(f, true, init)(x).")
    having = [v.dims for v in values if dim in v.dims]
    if not having:
        raise Complaint(
            "T20", f"no argument has the dim {dim} to scan over.", help="scan over a dim of an argument.", at=2
        )
    if dim in init.dims:
        raise Complaint("T19", f"init varies along the scanned dim {dim}.", help="init stands for one level.", at=1)
    _check_captures(args[0], dim, "scanned")
    _check_arguments(f, [f.params[0], *values], 1, dim)
    state = _check_carry(f, init, "state")
    if dim in state.dims:
        raise Complaint("T19", f"the state has the scanned dim {dim}.", help=f"leave {dim} out of its type.", at=0)
    column = bcast([Dims(((dim, d[dim]),)) for d in having])
    return state.on(Dims((*state.dims.items, *column.items)))


# Domains


def subset(static: Static, args: Operands) -> TensorType:
    (intervals,) = static
    (x,) = _tensors(args)
    result = x.dims
    for dim, interval in intervals.items:
        have = _interval(x, dim, 0)
        if not have.covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{have}.", help=f"subset to a part of {dim}{have}.", at=0
            )
        result = result.with_interval(dim, interval)
    return x.on(result)


def concat(static: Static, args: Operands) -> TensorType:
    types = _tensors(args)
    if len(types) < 2:
        raise Complaint("T06", "concat needs at least two operands.", help="write concat(a, b).")
    first = types[0]
    for index, t in enumerate(types):
        if t.element != first.element:
            raise Complaint(
                "T01",
                f"the operands have different element types: {first.element} and {t.element}.",
                help="cast one of them.",
                at=index,
            )
        if set(t.dims.names) != set(first.dims.names):
            raise Complaint(
                "T23",
                f"the operands have different dims: {first.dims} and {t.dims}.",
                help="add_dim gives a tensor a dim that it lacks.",
                at=index,
            )
    differing = [d for d in first.dims if any(t.dims[d] != first.dims[d] for t in types)]
    if len(differing) != 1:
        raise Complaint(
            "T23",
            "concat joins along the one dim in which its operands differ, and "
            + (f"these differ in {', '.join(differing)}." if differing else "these do not differ."),
            help="subset them to the same intervals of all other dims.",
            at=1,
        )
    (dim,) = differing
    order = sorted(range(len(types)), key=lambda k: (types[k].dims[dim].start, types[k].dims[dim].stop))
    for a, b in pairwise(order):
        left, right = types[a].dims[dim], types[b].dims[dim]
        if left.stop != right.start:
            raise Complaint(
                "T22",
                f"{dim}{left} and {dim}{right} {'overlap' if left.stop > right.start else 'leave a gap'}, so "
                "they cannot be joined.",
                help="intervals must follow one another: I[0:3], I[3:5].",
                at=b,
            )
    whole = Interval(types[order[0]].dims[dim].start, types[order[-1]].dims[dim].stop)
    return first.on(first.dims.with_interval(dim, whole))


def pos(static: Static, args: Operands) -> TensorType:
    (dim,) = static
    (x,) = _tensors(args)
    return TensorType(INT32, Dims(((dim, _interval(x, dim, 0)),)))


def add_dim(static: Static, args: Operands) -> TensorType:
    dim, start, stop = static
    (x,) = _tensors(args)
    if dim in x.dims:
        raise Complaint("T24", f"there is a dim {dim} already: {x.dims}.", help="choose another name.", at=0)
    if stop < start:
        raise Complaint("T31", f"{dim}[{start}:{stop}] stops before it starts.", help="the smaller bound comes first.")
    return x.on(Dims((*x.dims.items, (dim, Interval(start, stop)))))


def update(static: Static, args: Operands) -> TensorType:
    x, part = _tensors(args)
    if x.element != part.element:
        raise Complaint(
            "T01",
            f"the operands have different element types: {x.element} and {part.element}.",
            help="cast one of them.",
            at=1,
        )
    for dim, interval in part.dims.items:
        have = x.dims.get(dim)
        if have is None:
            hint = f"reduce the second operand over {dim}, or add {dim} to the first."
            raise Complaint("T25", f"there is no dim {dim} to update, only {x.dims}.", help=hint, at=1)
        if not have.covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{have}.", help="subset the second operand.", at=1
            )
    return x


def _fresh(dims: Iterable[str]) -> None:
    seen: set[str] = set()
    for dim in dims:
        if dim in seen:
            raise Complaint("T26", f"two dims would be named {dim}.", help="choose other names.", at=0)
        seen.add(dim)


def rename(static: Static, args: Operands) -> TensorType:
    (pairs,) = static
    (x,) = _tensors(args)
    for old, _ in pairs:
        _interval(x, old, 0)
    new = dict(pairs)
    if len(new) != len(pairs):
        raise Complaint("T26", "a dim is renamed twice.", help="name each dim once.")
    items = tuple((new.get(d, d), i) for d, i in x.dims.items)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def split_dim(static: Static, args: Operands) -> TensorType:
    dim, outer, inner, n = static
    (x,) = _tensors(args)
    interval = _interval(x, dim, 0)
    if n < 1 or interval.start % n or interval.stop % n:
        raise Complaint(
            "T32",
            f"{dim}{interval} cannot be split by {n}: both ends must be multiples of it.",
            help="subset it, or choose another size.",
            at=0,
        )
    split = ((outer, Interval(interval.start // n, interval.stop // n)), (inner, Interval(0, n)))
    items = tuple(new for d, i in x.dims.items for new in (split if d == dim else ((d, i),)))
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def merge_dims(static: Static, args: Operands) -> TensorType:
    outer, inner, dim = static
    (x,) = _tensors(args)
    a, b = _interval(x, outer, 0), _interval(x, inner, 0)
    if outer == inner:
        raise Complaint("T26", f"{outer} cannot be merged with itself.", help="name two dims.", at=0)
    if b.start != 0:
        raise Complaint("T32", f"the inner dim must start at 0, and it is {inner}{b}.", help="shift it first.", at=0)
    merged = (dim, Interval(a.start * b.stop, a.stop * b.stop))
    items = tuple(merged if d == outer else (d, i) for d, i in x.dims.items if d != inner)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


# Indirect access


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _check_indices(x: TensorType, dims: Sequence[str], indices: Sequence[TensorType], mode: str, first: int) -> None:
    if mode not in MODES:
        raise Complaint("T33", f"there is no rule {mode!r} for indices out of range.", help=f"use {', '.join(MODES)}.")
    if len(set(dims)) != len(dims) or not dims:
        raise Complaint("T33", "the indexed dims must be named, and each once.", help="write gather(I, J)(x, i, j).")
    for dim in dims:
        if dim not in x.dims:
            hint = did_you_mean(dim, [*x.dims.names, *MODES])
            raise Complaint("T25", f"there is no dim {dim} here, only {x.dims}.", help=hint, at=first - 1)
        if mode == "clamp" and not x.dims[dim]:
            raise Complaint(
                "T33",
                f"{dim}{x.dims[dim]} has no point that an index could be moved to.",
                help="use zero: nothing is read, or written, out of range.",
                at=first - 1,
            )
    if len(dims) != len(indices):
        raise Complaint(
            "T33",
            f"{_count(len(dims), 'dim')} cannot be indexed by {_count(len(indices), 'index', 'indices')}.",
            help="give one index per dim, in their order.",
        )
    for position, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        if not (isinstance(index.element, Scalar) and index.element.is_integer):
            raise Complaint(
                "T33",
                f"the index of {dim} is {index.element}, not an integer.",
                help="convert it: cast(i, int32).",
                at=first + position,
            )


def gather(static: Static, args: Operands) -> TensorType:
    dims, mode = static
    x, *indices = _tensors(args)
    _check_indices(x, dims, indices, mode, 1)
    return x.on(bcast([*indices, x.dims.without(*dims)]))


def scatter(static: Static, args: Operands) -> TensorType:
    dims, over, mode = static
    f = _function(args, 0)
    base, *rest = _tensors(args[1:])
    if len(rest) < 2:
        raise Complaint(
            "T06", "scatter needs a base, indices and updates.", help="write scatter(f, I, over: (p,))(x, i, u)."
        )
    *indices, updates = rest
    _check_indices(base, dims, indices, mode, 2)
    points = bcast(rest)
    aligned = base.dims.without(*dims)
    iterated = [d for d in points if d not in aligned]
    if set(iterated) != set(over) or len(set(over)) != len(over):
        raise Complaint(
            "T34",
            f"the updates run over ({', '.join(iterated)}), and over names ({', '.join(over)}).",
            help="name every dim of indices and updates that is not an unindexed dim of the base, slowest first.",
        )
    for dim, interval in points.items:
        if dim in aligned and not aligned[dim].covers(interval):
            raise Complaint(
                "T21", f"{dim}{interval} is not inside of {dim}{aligned[dim]}.", help="subset the updates.", at=1
            )
    expected = FunctionType((TensorType(base.element), TensorType(updates.element)), TensorType(base.element))
    if f != expected:
        raise Complaint(
            "T34", f"the function is {f}, and {expected} is needed.", help="it combines two elements.", at=0
        )
    if f.params[1].element != updates.element:
        raise Complaint("T01", f"the updates are {updates.element}.", at=len(args) - 1)
    return base


# Control


def loop(static: Static, args: Operands) -> TensorType:
    index: int = static[0]
    limit: int | None = static[1]
    count, odd = divmod(len(args) - 1, 2)
    if odd or count < 1:
        raise Complaint(
            "T35",
            f"a loop takes a condition, then as many functions as tensors, and there are {len(args)} operands.",
            help="write loop(0, none)(λ(i, a) → condition, λ(i, a) → next, a0).",
        )
    if not 0 <= index < count:
        raise Complaint("T35", f"there is no carried tensor {index}: they count from 0 to {count - 1}.")
    if limit is not None and limit < 0:
        raise Complaint("T35", f"a loop cannot run {limit} times.", help="the limit is 0 or more.")
    carried = _tensors(args[1 + count :])
    types = (TensorType(INT32), *carried)
    for position in range(count + 1):
        f = _function(args, position)
        if f.params != types:
            taken, wanted = (", ".join(map(str, t)) for t in (f.params, types))
            raise Complaint(
                "T35",
                f"the function takes ({taken}), and ({wanted}) is carried.",
                help="it takes the counter, an int, and every carried tensor.",
                at=position,
            )
        result = TensorType(BOOL) if position == 0 else carried[position - 1]
        if position == 0 and f.result != result:
            hint = "it decides for the whole loop; compare single values."
            raise Complaint("T35", f"the condition is {f.result}, and {result} is needed.", help=hint, at=0)
        if found := assignable(f.result, result):
            raise Complaint(
                "T19", f"the function returns {f.result}, and {result} is carried.", help=found.message, at=position
            )
    return carried[index]


def sort(static: Static, args: Operands) -> TensorType:
    dim, keys, _ = static
    types = _tensors(args)
    if not 1 <= keys <= len(types):
        message = f"{_count(keys, 'key')} cannot sort {_count(len(types), 'operand')}."
        raise Complaint("T36", message, help="the first operands are the keys; there is at least one.")
    for index, t in enumerate(types):
        if not isinstance(t.element, Scalar):
            raise Complaint("T05", f"a tuple, {t.element}, cannot be sorted.", help="pass its members.", at=index)
    common = bcast(types)
    if dim not in common:
        hint = did_you_mean(dim, common.names) or "sort a tensor with dims."
        raise Complaint("T25", f"there is no dim {dim} to sort along, only {common}.", help=hint, at=0)
    elements = tuple(t.element for t in types)
    return TensorType(elements[0] if len(elements) == 1 else TupleElement(elements), common)


# Effects


def assert_(static: Static, args: Operands) -> TensorType:
    x, condition = _tensors(args)
    if condition.element != BOOL:
        raise Complaint("T04", f"the condition is {condition.element}, not bool.", help="compare it: x > 0.0.", at=1)
    return x


def print_(static: Static, args: Operands) -> TensorType:
    (x,) = _tensors(args)
    return x


def output(value: TensorType, place: TensorType) -> bool:
    """Whether an expression can be stored: one element, and its dims cover those of the output."""
    return value.element == place.element and covers(value.dims, place.dims)


def is_element(value: object) -> bool:
    return isinstance(value, Element)
