"""Stores of whole boxes: a piece put into place by renames and shifts, or a scatter where no place is told by dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, function, literal, operator, var
from tensorir.ir.nodes import Expr, Function
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.accesses.sets import both
from tensorir.lifting.accesses.space import Space, digits, split, substituted
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import constant_of, cut, renamed, shifted, spread
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Term, index_names
from tensorir.runtime.errors import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a stored box: per dim of the buffer, the dims of the box as digits of a number, and a distance."""

    parts: tuple[tuple[tuple[str, ...], int, bool], ...]

    @property
    def dims(self) -> frozenset[str]:
        return frozenset(n for names, _, _ in self.parts for n in names)


def place_of(space: Space) -> Place | None:
    """The place of a store whose every index is a number, a dim (forward or backward), or digits; None for others."""
    parts: list[tuple[tuple[str, ...], int, bool]] = []
    used: set[str] = set()
    for term in space.location:
        a = affine_of(term)
        if a is None or not a.names <= space.dims.keys():
            return None
        found, backward = digits(a, space.dims), False
        if found is None:
            found, backward = digits(a.times(-1), space.dims), True
            if found is None or len(found) != 1:
                return None
        if used & set(found):
            return None
        used |= set(found)
        parts.append((tuple(found), a.constant, backward))
    return Place(tuple(parts))


def holding(guards: Sequence[Term]) -> Term | None:
    """All guards as one condition, later ones evaluated under earlier ones."""
    return reduce(both, guards) if guards else None


def wanted_names(space: Space) -> list[str | None]:
    """The names that the dims of a buffer get if this store is the first to touch it."""
    place = place_of(space)
    if place is None:
        return []
    return [names[0] if len(names) == 1 else None for names, _, _ in place.parts]


def store(emitter: Emitter, buffer: Buffer, space: Space, span: Span = NOWHERE) -> None:
    """A store by all points of a box at once: of several for one element the last in the order of the box wins."""
    place = place_of(space)
    used = {n for g in space.guards for n in index_names(g)}
    if place is None and (apart := _in_digits(space)) is not None:
        store(emitter, buffer, apart, span)
        return
    if place is None or (used - place.dims) & space.dims.keys():
        scatter(emitter, buffer, space, None, span)
        return
    rest = {n: number(i.stop - 1) for n, i in space.dims.items() if n not in place.dims}
    if rest:
        space = at(space, rest)
        if place_of(space) is None:
            scatter(emitter, buffer, space, None, span)
            return
    space = forward(space)
    place = place_of(space) or place
    emitter.dims_of(buffer, wanted_names(space))
    guard = holding(space.guards)
    value = emitter.emit(space.value, space.dims, guard)
    if guard is not None:
        old = emitter.emit(Load(buffer, space.location), space.dims)
        value = call("if", emitter.emit(guard, space.dims), value, old)
    put(emitter, buffer, place, value, space.dims)


def _in_digits(space: Space) -> Space | None:
    """The space with the dims apart of which the place of a store asks for digits; None where that tells no place."""
    new = split(space, space.location)
    while new is not None and place_of(new) is None:
        new = split(new, new.location)
    if new is None:
        return None
    used = {n for g in new.guards for n in index_names(g)}
    return None if (used - (place_of(new) or Place(())).dims) & new.dims.keys() else new


def forward(space: Space) -> Space:
    """The space with dims counted the other way round that a place counts backward: `B[9 - k] = A[8 - k]` as
    `B[k] = A[k - 1]`.
    """
    place = place_of(space)
    values: dict[str, Affine] = {}
    dims = dict(space.dims)
    for names, by, backward in () if place is None else place.parts:
        if backward:
            (name,) = names
            values[name] = number(by).plus(variable(name).times(-1))
            dims[name] = Interval(by - dims[name].stop + 1, by - dims[name].start + 1)
    return substituted(space, values, dims, space.guards) if values else space


def at(space: Space, values: Mapping[str, Affine]) -> Space:
    """The space at one value of some dims."""
    dims = {n: i for n, i in space.dims.items() if n not in values}
    return substituted(space, values, dims, space.guards)


def put(emitter: Emitter, buffer: Buffer, place: Place, value: Expr, box: Mapping[str, Interval]) -> None:
    """The buffer with a tensor over the dims of a place stored into it."""
    whole = emitter.intervals(buffer)
    piece, target = arranged(emitter, buffer, place, value, box)
    if any(i & whole[n] != i for n, i in target.items()):
        # a guard that is no interval holds back what lies outside of the buffer
        target = {n: i & whole[n] for n, i in target.items()}
        piece = cut(piece, target)
    if target == whole:
        emitter.tensors[buffer] = piece
        return
    smaller = {n: i for n, i in target.items() if i != whole[n]}
    base = emitter.tensor(buffer)
    same = constant_of(base)
    if same is not None and constant_of(piece) == same:
        return
    emitter.tensors[buffer] = call("update", spread(base, whole), spread(piece, smaller))


def arranged(
    emitter: Emitter, buffer: Buffer, place: Place, value: Expr, box: Mapping[str, Interval]
) -> tuple[Expr, dict[str, Interval]]:
    """A tensor over the dims of a box as a piece of a buffer, and the intervals that it stands on."""
    names = emitter.dims_of(buffer)
    piece = cut(value, box)
    target: dict[str, Interval] = {}
    moves: dict[str, str] = {}
    hidden = 0
    for name, (dims, by, backward) in zip(names, place.parts, strict=True):
        if not dims:
            target[name] = Interval(by, by + 1)
            continue
        if len(dims) > 1:
            piece = spread(piece, {d: box[d] for d in dims}) if any(d in piece.tensor.dims for d in dims) else piece
            merged = dims[-1]
            for k, d in enumerate(reversed(dims)):
                if k == 0:
                    merged = d
                    continue
                if d in piece.tensor.dims:
                    made = f"{buffer.name}__{hidden}"
                    hidden += 1
                    piece = call("merge_dims", piece, static=(d, merged, made))
                    merged = made
            size = 1
            for d in dims[1:]:
                size *= len(box[d])
            start, stop = box[dims[0]].start * size, box[dims[0]].stop * size
        else:
            merged = next(iter(dims))
            start, stop = box[merged].start, box[merged].stop
        assert not backward  # `forward` counts dims the other way round
        piece = shifted(piece, merged, -by)
        target[name] = Interval(start + by, stop + by)
        moves[merged] = name
    piece = renamed(piece, moves)
    single = {n: target[n] for n, (dims, _, _) in zip(names, place.parts, strict=True) if not dims}
    whole = emitter.intervals(buffer)
    return spread(piece, {n: i for n, i in single.items() if i != whole[n]}), target


LAST = "last"
ROW = "row"


def combine(op: str, buffer: Buffer) -> Function:
    """The combination of an update with the old value: an operation, or the last one stays."""
    kind = TensorType(buffer.element)
    if op == LAST:
        old, new = var("old", kind), var("new", kind)
        return function([old, new], new)
    return operator(op, kind, kind)


def scatter(
    emitter: Emitter, buffer: Buffer, space: Space, op: str | None, span: Span = NOWHERE, made: Expr | None = None
) -> None:
    """Stores (or updates by an operation) wherever indices point, in the order of the box.

    `made` is the value, where it is there already. In a program that checks, an index outside of the buffer is an error
    at the statement's `span`; what a guard holds back is not.
    """
    names, whole = emitter.dims_of(buffer), emitter.intervals(buffer)
    if not buffer.shape:
        # a place that a guard tells is an index: one number is a row of one
        names, whole = [ROW], {ROW: Interval(0, 1)}
        space = replace(space, location=(Number(0, INT32),))
    guard = holding(space.guards)
    sums = [affine_of(t) for t in space.location]
    counts: dict[str, int] = {}
    for term in space.location:
        for n in index_names(term):
            counts[n] = counts.get(n, 0) + 1
    aligned: dict[str, tuple[str, int]] = {}
    for name, a in zip(names, sums, strict=True):
        if a is not None and len(a.terms) == 1 and a.terms[0][1] == 1 and isinstance(a.terms[0][0], str):
            d = a.terms[0][0]
            # a dim that goes further than the buffer, under a guard, is an index
            reach = None if d not in space.dims or counts[d] > 1 else a.range(space.ranges)
            if reach is not None and whole[name].start <= reach[0] and reach[1] < whole[name].stop:
                aligned[name] = (d, a.constant)
    if len(aligned) == len(names):
        aligned.popitem()
    value = cut(emitter.emit(space.value, space.dims, guard) if made is None else made, space.dims)
    indices: list[Expr] = []
    dims: list[str] = []
    bounded = True
    for name, term, a in zip(names, space.location, sums, strict=True):
        if name in aligned:
            continue
        dims.append(name)
        spread_of = None if a is None else a.range(space.ranges)
        extent = whole[name].stop
        bounded &= spread_of is not None and spread_of[0] >= 0 and spread_of[1] < extent
        indices.append(emitter.sum(a, space.dims) if a is not None else emitter.emit(term, space.dims, guard))
    indices = [cut(i, space.dims) for i in indices]
    told = all(a is not None for name, a in zip(names, sums, strict=True) if name not in aligned)
    if not told:
        emitter.notes.append("index")
    mode = "clamp" if bounded else ("checked" if emitter.checked and not told else "zero")
    holds = None if guard is None else cut(emitter.emit(guard, space.dims), space.dims)
    # one slice, of which some elements stay what they are, is written in place; elements that stay away are scattered
    apart = frozenset(d for d, _ in aligned.values())
    one_slice = (
        holds is not None and op is None and bounded and not any(i.tensor.dims for i in indices)
        and len(holds.tensor.dims) > 0 and {*holds.tensor.dims, *value.tensor.dims} <= apart
    )  # fmt: skip
    if holds is not None and not one_slice:
        element = indices[0].tensor.element
        assert isinstance(element, Scalar)
        if mode == "checked":
            indices = [
                _asserted(i, holds, whole[d], f"'{buffer.name}'", span) for i, d in zip(indices, dims, strict=True)
            ]
        if element.range.start == 0 and element.bits < 32:
            element = INT32
            indices[0] = call("cast", indices[0], static=(element,))
        # no element stands at -1, nor at the greatest number of a wide type
        nowhere = literal(-1 if element.range.start else element.range.stop - 1, element)
        indices[0] = call("if", holds, indices[0], nowhere)
        mode = "zero"
    hidden = {d: f"{d}__p" for d in space.dims if d in names and all(d != own for own, _ in aligned.values())}
    moves = {**hidden, **{d: name for name, (d, _) in aligned.items()}}
    by = dict(aligned.values())

    def moved(x: Expr) -> Expr:
        for d, c in by.items():
            x = shifted(x, d, -c)
        return renamed(x, moves)

    value, indices = moved(value), [moved(i) for i in indices]
    needed = {name: Interval(space.dims[d].start + c, space.dims[d].stop + c) for name, (d, c) in aligned.items()}
    base = spread(emitter.tensor(buffer), whole)
    if one_slice:
        assert holds is not None
        old = call("gather", base, *indices, static=(tuple(dims), "clamp"))
        value = call("if", moved(holds), value, cut(old, needed))
    value = spread(value, {n: i for n, i in needed.items() if i != whole[n]})
    present = {d for x in (value, *indices) for d in x.tensor.dims}
    over = tuple(hidden.get(d, d) for d in space.dims if hidden.get(d, d) in present and d not in by)
    f = combine(LAST if op is None else op, buffer)
    if op is not None:
        lacking = {
            hidden.get(d, d): i for d, i in space.dims.items() if d not in by and hidden.get(d, d) not in present
        }
        value = spread(value, lacking)
        over = tuple(hidden.get(d, d) for d in space.dims if d not in by)
    stored = call("scatter", f, base, *indices, value, static=(tuple(dims), over, mode), span=span)
    emitter.tensors[buffer] = (
        stored if buffer.shape else call("gather", stored, literal(0, INT32), static=((ROW,), "clamp"))
    )


def _asserted(index: Expr, holds: Expr, inside: Interval, name: str, span: Span) -> Expr:
    """The index, which must lie inside wherever a condition holds."""
    element = index.tensor.element
    assert isinstance(element, Scalar)
    # a narrow index may have no number for the last element
    first, last = literal(inside.start, element), literal(min(inside.stop, element.range.stop) - 1, element)
    within = call("and", call("greater_equal", index, first), call("less_equal", index, last))
    message = f"an index leaves the {len(inside)} elements of {name}."
    return call("assert_", index, call("if", holds, within, literal(True, BOOL)), static=(message,), span=span)
