"""Typing rules of what is computed element by element, of shifts, and of changed dims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import (
    BOOL,
    INT32,
    NEIGHBOUR,
    FunctionType,
    Scalar,
    TensorType,
    TupleElement,
    Type,
    bcast,
    neighbour_counter,
)
from tensorir.runtime.errors import Diagnostic, article, counted, did_you_mean, refuse
from tensorir.runtime.print_formatting import PLACE

# What a typing rule sees of its operands, and what several rules ask of them.


class Operand(Protocol):
    """An operand as typing rules see it."""

    @property
    def type(self) -> Type: ...
    @property
    def free(self) -> Iterable[Any]: ...
    @property
    def children(self) -> Sequence[Operand]: ...


Static = Any


Operands = Sequence[Operand]


def tensors_of(args: Operands) -> list[TensorType]:
    """The types of the operands, which must be tensors; raises T14 with the position of a function."""
    types: list[TensorType] = []
    for index, arg in enumerate(args):
        if not isinstance(arg.type, TensorType):
            raise refuse("T14", "a function stands where a tensor is needed.", "apply it: f(x).", at=index)
        types.append(arg.type)
    return types


def function_of(args: Operands, index: int, results: int = 1) -> FunctionType:
    """The type of the function operand at `index` with so many results; raises T14 for a tensor, T15 for another
    number.
    """
    operand_type = args[index].type if index < len(args) else None
    if not isinstance(operand_type, FunctionType):
        raise refuse("T14", "a tensor stands where a function is needed.", "write λ(x: T) → e.", at=index)
    if len(operand_type.results) != results:
        returned, needed = counted(len(operand_type.results), "value"), counted(results, "value")
        message = f"the function returns {returned}, and {needed} {'is' if results == 1 else 'are'} needed."
        one, several = "λ(x: T, y: T) → (x, y)", "λ(x: T, y: T) → {x + y, x - y}"
        hint = f"one value may be a tuple, {one}." if results == 1 else f"several are written {several}."
        raise refuse("T15", message, hint, at=index)
    return operand_type


def interval_of(x: TensorType, dim: str, at: int) -> Interval:
    """The interval of a tensor type along a dim; raises T25, at operand number `at`, if it does not have the dim."""
    interval = x.dims.get(dim)
    if interval is None:
        message = f"there is no dim {dim} here, only {x.dims}."
        raise refuse("T25", message, did_you_mean(dim, x.dims.names) or "the operand is one value.", at=at)
    return interval


def assignable(value: TensorType, target: TensorType) -> Diagnostic | None:
    """The diagnostic if a value cannot stand for a parameter of type `target`, None if it can.

    Element types must be equal; the value is broadcast along missing dims and cut along wider ones.
    """
    if value.element != target.element:
        help = "convert it with cast, or change the type of the parameter."
        return Diagnostic("T16", f"{target.element} is needed, and this is {value.element}.", help=help)
    for name, interval in value.dims.items:
        wanted = target.dims.get(name)
        if wanted is None:
            help = f"add {name}{interval} to the type."
            return Diagnostic("T16", f"{target} is needed, and this varies along {name}.", help=help)
        if not interval.covers(wanted):
            help = f"the parameter may have the type {value}, or a part of it."
            return Diagnostic("T16", f"{name}{wanted} is needed, and this provides {name}{interval}.", help=help)
    return None


# Rules of what is computed element by element, and of tuples.


_KINDS: dict[str, Callable[[Scalar], bool]] = {
    "number": lambda e: e.is_number, "float": lambda e: e.is_float, "integer": lambda e: e.is_integer,
    "bool": lambda e: e == BOOL,
}  # fmt: skip
"""Of a kind of element, in words, the elements that are of it."""


def _scalars(args: Operands, kind: str, any_kind: bool = False) -> tuple[Scalar, Dims]:
    """The common scalar type of all operands, of a kind in `_KINDS` (unless `any_kind`), and their common dims.

    Raises T05 for a tuple, T04 for another kind, T01 for different types.
    """
    accepts: Callable[[Scalar], bool] = (lambda _: True) if any_kind else _KINDS[kind]
    types = tensors_of(args)
    first, elements = types[0].element, [t.element for t in types]
    for index, t in enumerate(types):
        if isinstance(t.element, TupleElement):
            message = f"a tuple, {t.element}, stands where one {kind} is needed."
            raise refuse("T05", message, "take a member: x[0].", at=index)
        if not accepts(t.element):
            help = _cast_hint(kind, [e for e in elements if isinstance(e, Scalar) and accepts(e)])
            raise refuse("T04", f"{t.element} stands where {article(kind)} is needed.", help, at=index)
        if t.element != first:
            help = f"nothing is converted silently; write cast(x, {first}) or cast(x, {t.element})."
            raise refuse("T01", f"the operands have different element types: {first} and {t.element}.", help, at=index)
    assert isinstance(first, Scalar)
    return first, bcast(types)


def _cast_hint(kind: str, fitting: Sequence[Scalar]) -> str:
    """The help for an operand of a wrong kind: a cast to the type of a fitting operand, or to a default."""
    target = next(iter(fitting), {"float": "float64", "number": "int32", "integer": "int32", "bool": "bool"}[kind])
    return "compare it with 0: x ≠ 0." if kind == "bool" else f"convert it: cast(x, {target})."


def numbers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "number"))


def floats(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "float"))


def integers(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "integer"))


def logic(static: Static, args: Operands) -> TensorType:
    return TensorType(*_scalars(args, "bool"))


def comparison(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number")[1])


def equality(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "number", any_kind=True)[1])


def float_tests(static: Static, args: Operands) -> TensorType:
    return TensorType(BOOL, _scalars(args, "float")[1])


def selection(static: Static, args: Operands) -> TensorType:
    """The type of `if`: a bool condition and two branches of one element type."""
    condition, first, second = tensors_of(args)
    if condition.element != BOOL:
        raise refuse("T04", f"the condition is {condition.element}, not bool.", "compare it: x > 0.0.", at=0)
    if first.element != second.element:
        message = f"the branches have different element types: {first.element} and {second.element}."
        raise refuse("T01", message, "cast one of them.", at=2)
    return TensorType(first.element, bcast([condition, first, second]))


def cast(static: Static, args: Operands) -> TensorType:
    """The type of `cast`: the dims of the operand with another scalar type."""
    (target,) = static
    (x,) = tensors_of(args)
    if not isinstance(x.element, Scalar) or not isinstance(target, Scalar):
        raise refuse("T27", "a tuple cannot be cast as a whole.", "cast its members.", at=0)
    return x.of(target)


def bitcast(static: Static, args: Operands) -> TensorType:
    """The type of `bitcast`: as of `cast`, for types of equal width (else T28)."""
    result = cast(static, args)
    (element,), (target,) = (t.leaves for t in (*tensors_of(args), result))
    if element.bits != target.bits:
        message = f"{element} has {element.bits} bits and {target} has {target.bits}."
        raise refuse("T28", message, f"bitcast keeps the bits; write cast(x, {target}) to convert the value.", at=0)
    return result


def make_tuple(static: Static, args: Operands) -> TensorType:
    """The type of a tuple of at least one tensor, on their common dims."""
    types = tensors_of(args)
    if not types:
        raise refuse("T06", "a tuple needs at least one member.", "write make_tuple(x).")
    return TensorType(TupleElement(tuple(t.element for t in types)), bcast(types))


def tuple_get(static: Static, args: Operands) -> TensorType:
    """The type of one member of a tuple; raises T30 for another element, T29 for a member that it does not have."""
    index: int = static.member
    (x,) = tensors_of(args)
    if not isinstance(x.element, TupleElement):
        raise refuse("T30", f"{x.element} is not a tuple, so it has no member {index}.", "leave out the index.", at=0)
    if not 0 <= index < len(x.element.members):
        message = f"there is no member {index} in {x.element}."
        raise refuse("T29", message, f"members count from 0 to {len(x.element.members) - 1}.", at=0)
    return x.of(x.element.members[index])


def assert_(static: Static, args: Operands) -> TensorType:
    """The type of `assert_`: that of its first operand, with a bool condition of any dims."""
    x, condition = tensors_of(args)
    if condition.element != BOOL:
        raise refuse("T04", f"the condition is {condition.element}, not bool.", "compare it: x > 0.0.", at=1)
    return x


def print_(static: Static, args: Operands) -> TensorType:
    """The type of `print`: that of its first operand; the text has a place for each value, or none (else T42)."""
    types = tensors_of(args)
    if not types:
        raise refuse("T06", "there is nothing to print.", 'write print("x")(x).')
    text: str = static.text
    count, placeholders = sum(len(t.leaves) for t in types), text.count(PLACE)
    if placeholders not in (0, count):
        message = f"the text has {counted(placeholders, 'place')} for {counted(count, 'value')}."
        raise refuse("T42", message, "write a {} for each value, or none at all.")
    return types[0]


# Rules of what changes dims and their intervals.


def subset(static: Static, args: Operands) -> TensorType:
    """The type of a part on the given intervals, which must lie inside of the operand's (else T21)."""
    (intervals,) = static
    (x,) = tensors_of(args)
    result = x.dims
    for dim, interval in intervals.items:
        operand_interval = interval_of(x, dim, 0)
        if not operand_interval.covers(interval):
            message = f"{dim}{interval} is not inside of {dim}{operand_interval}."
            raise refuse("T21", message, f"subset to a part of {dim}{operand_interval}.", at=0)
        result = result.with_interval(dim, interval)
    return x.on(result)


def concat(static: Static, args: Operands) -> TensorType:
    """The type of a join: operands with equal element types and dims, that differ along one dim and are adjacent
    there.
    """
    types = tensors_of(args)
    if len(types) < 2:
        raise refuse("T06", "concat needs at least two operands.", "write concat(a, b).")
    first_type = types[0]
    for index, t in enumerate(types):
        if t.element != first_type.element:
            message = f"the operands have different element types: {first_type.element} and {t.element}."
            raise refuse("T01", message, "cast one of them.", at=index)
        if set(t.dims.names) != set(first_type.dims.names):
            message = f"the operands have different dims: {first_type.dims} and {t.dims}."
            raise refuse("T23", message, "add_dim gives a tensor a dim that it lacks.", at=index)
    differing = [d for d in first_type.dims if any(t.dims[d] != first_type.dims[d] for t in types)]
    if len(differing) != 1:
        these = f"these differ in {', '.join(differing)}." if differing else "these do not differ."
        message = f"concat joins along the one dim in which its operands differ, and {these}"
        raise refuse("T23", message, "subset them to the same intervals of all other dims.", at=1)
    (dim,) = differing
    ascending = sorted(range(len(types)), key=lambda k: (types[k].dims[dim].start, types[k].dims[dim].stop))
    for a, b in pairwise(ascending):
        left, right = types[a].dims[dim], types[b].dims[dim]
        if left.stop != right.start:
            relation = "overlap" if left.stop > right.start else "leave a gap"
            message = f"{dim}{left} and {dim}{right} {relation}, so they cannot be joined."
            raise refuse("T22", message, "intervals must follow one another: I[0:3], I[3:5].", at=b)
    joined = Interval(types[ascending[0]].dims[dim].start, types[ascending[-1]].dims[dim].stop)
    return first_type.on(first_type.dims.with_interval(dim, joined))


def pos(static: Static, args: Operands) -> TensorType:
    """The type of coordinates along a dim: int32 on that dim alone; raises T43 if they exceed int32."""
    (dim,) = static
    (x,) = tensors_of(args)
    interval = interval_of(x, dim, 0)
    if not all(end in INT32.range for end in (interval.start, interval.stop - 1) if interval):
        help = f"rename {dim} on an interval that begins at 0, and add the distance as int64."
        raise refuse("T43", f"coordinates are int32, and {dim}{interval} has some that it cannot hold.", help, at=0)
    return TensorType(INT32, Dims(((dim, interval),)))


def add_dim(static: Static, args: Operands) -> TensorType:
    """The type with one more dim on [start:stop)."""
    dim, start, stop = static
    (x,) = tensors_of(args)
    if dim in x.dims:
        raise refuse("T24", f"there is a dim {dim} already: {x.dims}.", "choose another name.", at=0)
    if stop < start:
        raise refuse("T31", f"{dim}[{start}:{stop}] stops before it starts.", "the smaller bound comes first.")
    return x.on(Dims((*x.dims.items, (dim, Interval(start, stop)))))


def update(static: Static, args: Operands) -> TensorType:
    """The type of the first operand; the second must have its element type and lie inside of it."""
    base, update_type = tensors_of(args)
    if base.element != update_type.element:
        message = f"the operands have different element types: {base.element} and {update_type.element}."
        raise refuse("T01", message, "cast one of them.", at=1)
    for dim, interval in update_type.dims.items:
        have = base.dims.get(dim)
        if have is None:
            hint = f"reduce the second operand over {dim}, or add {dim} to the first."
            raise refuse("T25", f"there is no dim {dim} to update, only {base.dims}.", hint, at=1)
        if not have.covers(interval):
            raise refuse("T21", f"{dim}{interval} is not inside of {dim}{have}.", "subset the second operand.", at=1)
    return base


def _fresh(dims: Iterable[str]) -> None:
    """Raises T26 if a name appears twice among the dims of a result."""
    seen: set[str] = set()
    for dim in dims:
        if dim in seen:
            raise refuse("T26", f"two dims would be named {dim}.", "choose other names.", at=0)
        seen.add(dim)


def rename(static: Static, args: Operands) -> TensorType:
    """The type with dims renamed by (old, new) pairs, all at once."""
    (pairs,) = static
    (x,) = tensors_of(args)
    for old, _ in pairs:
        interval_of(x, old, 0)
    new_names = dict(pairs)
    if len(new_names) != len(pairs):
        raise refuse("T26", "a dim is renamed twice.", "name each dim once.")
    items = tuple((new_names.get(d, d), i) for d, i in x.dims.items)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def split_dim(static: Static, args: Operands) -> TensorType:
    """The type with a dim replaced by an outer and an inner dim; both ends must be multiples of the inner extent (else
    T32).
    """
    dim, outer, inner, n = static
    (x,) = tensors_of(args)
    interval = interval_of(x, dim, 0)
    if n < 1 or interval.start % n or interval.stop % n:
        message = f"{dim}{interval} cannot be split by {n}: both ends must be multiples of it."
        raise refuse("T32", message, "subset it, or choose another size.", at=0)
    split = ((outer, Interval(interval.start // n, interval.stop // n)), (inner, Interval(0, n)))
    items = tuple(item for d, i in x.dims.items for item in (split if d == dim else ((d, i),)))
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


def merge_dims(static: Static, args: Operands) -> TensorType:
    """The type with two dims replaced by one, in the place of the outer; the inner one starts at 0 (else T32)."""
    outer, inner, dim = static
    (x,) = tensors_of(args)
    a, b = interval_of(x, outer, 0), interval_of(x, inner, 0)
    if outer == inner:
        raise refuse("T26", f"{outer} cannot be merged with itself.", "name two dims.", at=0)
    if b.start != 0:
        raise refuse("T32", f"the inner dim must start at 0, and it is {inner}{b}.", "shift it first.", at=0)
    merged = (dim, Interval(a.start * b.stop, a.stop * b.stop))
    items = tuple(merged if d == outer else (d, i) for d, i in x.dims.items if d != inner)
    _fresh(d for d, _ in items)
    return x.on(Dims(items))


# Rules of shifts, Cartesian and through neighbour tables.


def cartesian_shift(static: Static, args: Operands) -> TensorType:
    dim, offset = static
    (x,) = tensors_of(args)
    return x.on(x.dims.with_interval(dim, interval_of(x, dim, 0).shifted(offset)))


def neighbour_source(table: TensorType) -> tuple[str, str]:
    """The dim of a table's slots, tagged `_NB_<dim>`, and the dim that its entries are coordinates of.

    Raises T10 if the type is no table: not of integers, or without exactly one tagged dim.
    """
    tagged = [d for d in table.dims if d.startswith(NEIGHBOUR) and neighbour_counter(d) is None]
    if not (isinstance(table.element, Scalar) and table.element.is_integer):
        message = f"a table holds integers, and this holds {table.element}."
        raise refuse("T10", message, "shift with a tensor<int, ...> whose entries are coordinates.", at=0)
    if len(tagged) != 1:
        message = f"a table has one dim that is tagged {NEIGHBOUR}, and this has {len(tagged) or 'none'}: {table.dims}."
        raise refuse("T10", message, f"for a table of edges name its last dim {NEIGHBOUR}Edge.", at=0)
    return tagged[0], tagged[0].removeprefix(NEIGHBOUR)


def _neighbours(args: Operands) -> tuple[TensorType, str, Interval]:
    """The type without slots of a read through a table, the name of the new neighbour dim, and the interval of slots.

    Raises T11 if the operand does not have the table's source dim, T12 if the coordinate -1 exists (it means absent).
    """
    table, x = tensors_of(args)
    slots_dim, source = neighbour_source(table)
    interval = x.dims.get(source)
    if interval is None:
        message = f"the table leads to {source}, and the operand has no dim {source}, only {x.dims}."
        raise refuse("T11", message, f"shift a tensor on {source}, or use a table of another dim.", at=1)
    if -1 in interval:
        help = f"write gather({source})(x, indices), where -1 is a coordinate like any other."
        raise refuse("T12", f"in a table -1 means absent, and {source}{interval} holds the coordinate -1.", help, at=1)
    common = bcast([table.dims.without(slots_dim), x.dims.without(source)])
    counters = [c for d in common if (c := neighbour_counter(d)) is not None]
    return x.on(common), f"{NEIGHBOUR}{max(counters, default=-1) + 1}", table.dims[slots_dim]


def shift_init(static: Static, args: Operands) -> TensorType:
    result, dim, interval = _neighbours(args)
    return result.on(Dims((*result.dims.items, (dim, interval))))


def unstructured_shift(static: Static, args: Operands) -> TensorType:
    """The type of a read at one neighbour slot of a table; raises T13 for a slot that the table does not have."""
    (slot,) = static
    result, _, interval = _neighbours(args)
    _check_slot(slot, interval, "the table")
    return result


def _check_slot(slot: int, interval: Interval, owner: str) -> None:
    if slot not in interval:
        help = f"use {interval.start} to {interval.stop - 1}." if interval else "the table is empty."
        raise refuse("T13", f"there is no neighbour {slot}: {owner} has the neighbours {interval}.", help)


def highest_neighbour(dims: Iterable[str]) -> str | None:
    """The neighbour dim with the highest counter, None where there is none.

    >>> highest_neighbour(["Vertex", "_NB_0", "_NB_1"])
    '_NB_1'
    """
    counters = [c for d in dims if (c := neighbour_counter(d)) is not None]
    return f"{NEIGHBOUR}{max(counters)}" if counters else None


def shift_apply(static: Static, args: Operands) -> TensorType:
    """The type of one neighbour: without the highest neighbour dim; raises T09 if there is none, T13 for a missing
    slot.
    """
    (slot,) = static
    (x,) = tensors_of(args)
    dim = highest_neighbour(x.dims)
    if dim is None:
        message = f"there is no neighbour dim to select from, only {x.dims}."
        raise refuse("T09", message, "shift with a table first: ⟪V2E⟫(x).", at=0)
    _check_slot(slot, x.dims[dim], dim)
    return x.on(x.dims.without(dim))


def can_deref(static: Static, args: Operands) -> TensorType:
    (x,) = tensors_of(args)
    return x.of(BOOL)
