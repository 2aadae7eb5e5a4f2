"""The rule of every builtin that is not elementwise: its value at one point, and every state of a recurrence."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Function
from tensorir.ir.types import DTYPES, Scalar, TensorType, bcast
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source
from tensorir.reference.scalars import bitcast, cast, scalar
from tensorir.reference.tensors import (
    ABSENT,
    Answer,
    Constant,
    Outside,
    Point,
    Question,
    Rule,
    Scope,
    Slice,
    Tensor,
    Value,
    Within,
    absent,
    any_absent,
    applied,
    applied_each,
    check_inside,
    filled,
    leaves_of,
    points,
    type_of,
)
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.runtime.print_formatting import said

# The rules of reduce, scan, loop and cond: every state of a recurrence is a tensor that asks the one before.


class Fold:
    """The states of a recurrence along a dim, created lazily; shared by all points of the result."""

    function: Function
    scope: Scope
    order: Sequence[int]
    skips: bool

    def __init__(self, node: Call, scope: Scope, order: Sequence[int], skips: bool) -> None:
        """`order` are the coordinates in the order of the fold; with `skips`, levels with an absent argument are passed
        over.
        """
        function, init, *args = node.args
        assert isinstance(function, Function)
        self.function, self.scope, self.order, self.skips = function, scope, order, skips
        self.dim: str = node.static.dim
        self.place: TensorType = function.type.params[0]
        self.places: tuple[TensorType, ...] = function.type.params[1:]
        self.args: list[Tensor] = [scope.tensor(a) for a in args]
        self.having: list[bool] = [self.dim in type_of(a).dims for a in args]
        self.states: list[Tensor] = [Within(scope.tensor(init), self.place.dims)]

    def state(self, steps: int) -> Tensor:
        """The state after a number of steps."""
        while len(self.states) <= steps:
            self.states.append(_State(self, len(self.states)))
        return self.states[steps]

    def arguments(self, coordinate: int) -> list[Tensor]:
        """The arguments of the function at one coordinate, besides the state."""
        return [Slice(a, self.dim, coordinate) if has else a for a, has in zip(self.args, self.having, strict=True)]

    def absent_at(self, args: Sequence[Tensor], has_dim: bool, point: Point) -> Generator[Question, Value, bool]:
        """True if an argument with the folded dim (`has_dim`), or without it, is absent for an element of the state."""
        for arg, param_type, arg_has_dim in zip(args, self.places, self.having, strict=True):
            if arg_has_dim is has_dim:
                for where in _seen(param_type, arg.names, self.place.dims, point):
                    if any_absent((yield arg, where)):
                        return True
        return False


def _seen(param_type: TensorType, names: Sequence[str], state: Dims, point: Point) -> list[Point]:
    """The points of an argument that belong to one element of the state: all along dims that the state does not
    have.
    """
    if any(n in names and n in state and point[n] not in i for n, i in param_type.dims.items):
        return []
    other_dims = Dims(tuple((n, i) for n, i in param_type.dims.items if n in names and n not in state))
    return [{**point, **extra} for extra in points(other_dims)]


class _State(Tensor):
    """The state of a fold after `count` steps: the function of the state before, or that state where the level is
    skipped.
    """

    __slots__ = ("before", "fold", "levels", "new")

    def __init__(self, fold: Fold, count: int) -> None:
        """The state after `count` steps; the level of the last one is `fold.order[count - 1]`."""
        super().__init__(fold.place.dims.names)
        self.fold, self.before = fold, fold.state(count - 1)
        self.levels = fold.arguments(fold.order[count - 1])
        self.new = Within(applied(fold.scope, fold.function, [self.before, *self.levels]), fold.place.dims)

    def answer(self, point: Point) -> Answer:
        """The function of the state before and the arguments at this level, or the state before if the level is
        skipped.
        """
        check_inside(self.fold.place.dims, point)
        if self.fold.skips and (yield from self.fold.absent_at(self.levels, True, point)):
            return (yield self.before, point)
        return (yield self.new, point)


def reduce(node: Call, scope: Scope, point: Point) -> Answer:
    """A fold: levels where an argument with the dim is absent are skipped; absent arguments without it make it
    absent.
    """
    (dim,) = node.static
    interval = next(type_of(a).dims[dim] for a in node.args[2:] if dim in type_of(a).dims)
    check_inside(node.type.dims, point)
    fold: Fold = scope.once(node, lambda: Fold(node, scope, interval_order(interval), True))
    if (yield from fold.absent_at(fold.args, False, point)):
        return absent(node.type.element)
    return (yield fold.state(len(interval)), point)


def interval_order(interval: Interval, forward: bool = True) -> list[int]:
    """The points of an interval, ascending or descending."""
    return list(interval) if forward else list(interval)[::-1]


def scan(node: Call, scope: Scope, point: Point) -> Answer:
    """The state after the point's level; an absent level makes the states from there on absent."""
    forward, dim = node.static
    column = bcast([Dims(((dim, t.dims[dim]),)) for a in node.args[2:] if dim in (t := type_of(a)).dims])[dim]
    check_inside(Dims(((dim, column),)), point)
    fold: Fold = scope.once(node, lambda: Fold(node, scope, interval_order(column, forward), False))
    return (yield fold.state(fold.order.index(point[dim]) + 1), point)


class Rounds:
    """The carries of a loop, advanced round by round and shared by all points of its results."""

    def __init__(self, node: Call, scope: Scope) -> None:
        """The carries before the first round."""
        self.scope = scope
        self.limit: int | None = node.static.limit
        condition, step = (f for f in node.args if isinstance(f, Function))
        self.condition: Function = condition
        self.step: Function = step
        self.places: list[Dims] = [type_of(a).dims for a in node.args[2:]]
        self.carried: list[Tensor] = [scope.tensor(a) for a in node.args[2:]]
        self.round: int = 0
        self.done: bool = False
        self.lost: bool = False
        """Whether a condition was absent: then it is not known how often the loop runs."""

    def run(self) -> Generator[Question, Value, None]:
        """Runs the loop to its end, or until its condition is absent (`lost`); a second call does nothing."""
        while not self.done and (self.limit is None or self.round < self.limit):
            args = [Constant(np.int32(self.round)), *self.carried]
            continues = yield applied(self.scope, self.condition, args), {}
            if continues is ABSENT or not continues:
                self.lost, self.done = continues is ABSENT, True
                return
            results = applied_each(self.scope, self.step, args)
            self.carried = [Within(tensor, dims) for tensor, dims in zip(results, self.places, strict=True)]
            self.round += 1
        self.done = True


def loop(node: Call, scope: Scope, point: Point) -> Answer:
    """One carry after the loop, absent if a condition was."""
    rounds: Rounds = scope.once(node, lambda: Rounds(node, scope))
    yield from rounds.run()
    check_inside(node.type.dims, point)
    if rounds.lost:
        return absent(node.type.element)
    return (yield rounds.carried[node.static.carried], point)


def cond(node: Call, scope: Scope, point: Point) -> Answer:
    """The result of the branch that the condition takes; both are evaluated if the run observes `both`."""
    then_function, else_function = (f for f in node.args if isinstance(f, Function))
    condition, *operands = [scope.tensor(a) for a in node.args[2:]]
    branches: list[list[Tensor]] = scope.once(
        then_function, lambda: [applied_each(scope, f, operands) for f in (then_function, else_function)]
    )
    condition_value = yield condition, {}
    check_inside(node.type.dims, point)
    index: int = node.static.result
    results = [branch[index] for branch in branches]
    if scope.run.both:
        for result in results:
            yield result, point
    if condition_value is ABSENT:
        return absent(node.type.element)
    return (yield results[0 if condition_value else 1], point)


def blocked(node: Call, scope: Scope, point: Point) -> Answer:
    """The function applied to the operands: blocks are the backend's business."""
    f = node.args[0]
    assert isinstance(f, Function)
    check_inside(node.type.dims, point)
    results: list[Tensor] = scope.once(f, lambda: applied_each(scope, f, [scope.tensor(a) for a in node.args[1:]]))
    return (yield results[node.static.result], point)


FOLDS: dict[str, Rule] = {"blocked": blocked, "reduce": reduce, "scan": scan, "loop": loop, "cond": cond}

# The rule of every builtin that is not elementwise: its value at one point (`docs/language.md`).
#
# A rule gets the node, the scope and the point, and asks its operands where it needs them.

# Selection and element types


def select(node: Call, scope: Scope, point: Point) -> Answer:
    """`if` at a point: the selected operand alone is evaluated, both if the run observes `both`."""
    condition, then_value, else_value = [scope.tensor(a) for a in node.args]
    condition_value = yield condition, point
    if scope.run.both:
        yield then_value, point
        yield else_value, point
    if condition_value is ABSENT:
        return absent(node.type.element)
    return (yield (then_value if condition_value else else_value), point)


def cast_(node: Call, scope: Scope, point: Point) -> Answer:
    """The operand converted to another element type."""
    value = yield scope.tensor(node.args[0]), point
    source, target = type_of(node.args[0]).element, node.type.element
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    return ABSENT if value is ABSENT else cast(source, target, value)


def bitcast_(node: Call, scope: Scope, point: Point) -> Answer:
    value = yield scope.tensor(node.args[0]), point
    assert isinstance(node.type.element, Scalar)
    return ABSENT if value is ABSENT else bitcast(node.type.element, value)


def make_tuple(node: Call, scope: Scope, point: Point) -> Answer:
    """The values of all operands; members may be absent."""
    members: list[Value] = []
    for arg in node.args:
        members.append((yield scope.tensor(arg), point))
    return tuple(members)


def tuple_get(node: Call, scope: Scope, point: Point) -> Answer:
    value = yield scope.tensor(node.args[0]), point
    return value[node.static.member]


# Shifts


def cartesian_shift(node: Call, scope: Scope, point: Point) -> Answer:
    dim, offset = node.static
    return (yield scope.tensor(node.args[0]), {**point, dim: point[dim] + offset})


def shift_init(node: Call, scope: Scope, point: Point) -> Answer:
    new = highest_neighbour(node.type.dims)
    assert new is not None
    return (yield from _neighbour(node, scope, point, point[new]))


def unstructured_shift(node: Call, scope: Scope, point: Point) -> Answer:
    return (yield from _neighbour(node, scope, point, node.static.neighbour))


def _neighbour(node: Call, scope: Scope, point: Point, slot: int) -> Answer:
    """The operand at the coordinate in a slot of the table; absent for -1, R01 for a coordinate out of range."""
    table, x = node.args
    slots_dim, source = neighbour_source(type_of(table))
    check_inside(type_of(x).dims.without(source), point)
    entry = yield scope.tensor(table), {**point, slots_dim: slot}
    if entry is ABSENT or int(entry) == -1:
        return absent(node.type.element)
    interval = type_of(x).dims[source]
    if int(entry) not in interval:
        raise leaves(node, f"an entry of the table leaves {source}{interval}", point, int(entry))
    return (yield scope.tensor(x), {**point, source: int(entry)})


def leaves(node: Call, what: str, point: Point, value: int) -> DiagnosticError:
    """An index that leaves its interval, found while the program runs."""
    at = ", ".join(f"{name} = {c}" for name, c in point.items())
    note = f"{f'at {at}' if at else 'here'} it is {value}."
    return refuse("R01", f"{what}.", "correct the indices, or clamp them.", at=node.span, notes=(note,))


def shift_apply(node: Call, scope: Scope, point: Point) -> Answer:
    dim = highest_neighbour(type_of(node.args[0]).dims)
    assert dim is not None
    return (yield scope.tensor(node.args[0]), {**point, dim: node.static.neighbour})


def can_deref(node: Call, scope: Scope, point: Point) -> Answer:
    return np.bool_(not any_absent((yield scope.tensor(node.args[0]), point)))


# Domains


def subset(node: Call, scope: Scope, point: Point) -> Answer:
    check_inside(node.static.intervals, point)
    return (yield scope.tensor(node.args[0]), point)


def concat(node: Call, scope: Scope, point: Point) -> Answer:
    """The operand whose interval has the point."""
    types = [type_of(a).dims for a in node.args]
    (dim,) = [d for d in types[0] if any(t[d] != types[0][d] for t in types)]
    for arg, dims in zip(node.args, types, strict=True):
        if point[dim] in dims[dim]:
            return (yield scope.tensor(arg), point)
    raise Outside(f"{dim} = {point[dim]} is in none of the parts")


def pos(node: Call, scope: Scope, point: Point) -> Answer:
    """The coordinate along a dim."""
    check_inside(node.type.dims, point)
    assert isinstance(node.type.element, Scalar)
    return scalar(node.type.element, point[node.static.dim])
    yield  # never reached: makes this function a generator


def add_dim(node: Call, scope: Scope, point: Point) -> Answer:
    check_inside(Dims(((node.static.dim, Interval(node.static.start, node.static.stop)),)), point)
    return (yield scope.tensor(node.args[0]), point)


def update(node: Call, scope: Scope, point: Point) -> Answer:
    """The second operand inside of its intervals, the first elsewhere."""
    base, update_operand = node.args
    check_inside(node.type.dims, point)
    inside = all(point[name] in interval for name, interval in type_of(update_operand).dims.items)
    return (yield scope.tensor(update_operand if inside else base), point)


def rename(node: Call, scope: Scope, point: Point) -> Answer:
    new = dict(node.static.pairs)
    (x,) = node.args
    return (yield scope.tensor(x), {name: point[new.get(name, name)] for name in type_of(x).dims})


def split_dim(node: Call, scope: Scope, point: Point) -> Answer:
    dim, outer, inner, n = node.static
    check_inside(Dims(((inner, Interval(0, n)),)), point)
    return (yield scope.tensor(node.args[0]), {**point, dim: point[outer] * n + point[inner]})


def merge_dims(node: Call, scope: Scope, point: Point) -> Answer:
    """The operand at the quotient and remainder of the merged coordinate."""
    outer, inner, dim = node.static
    extent = type_of(node.args[0]).dims[inner].stop
    if extent == 0:
        raise Outside(f"{inner} is empty")
    outer_coordinate, inner_coordinate = divmod(point[dim], extent)
    return (yield scope.tensor(node.args[0]), {**point, outer: outer_coordinate, inner: inner_coordinate})


# Indirect access


def gather(node: Call, scope: Scope, point: Point) -> Answer:
    """The operand at computed indices, by the mode for indices out of range; absent if an index is."""
    dims, mode = node.static
    x, *indices = node.args
    coordinates: list[int] = []
    for index in indices:
        value = yield scope.tensor(index), point
        if value is ABSENT:
            return absent(node.type.element)
        coordinates.append(int(value))
    target = _in_range(node, type_of(x).dims, dims, coordinates, mode, point)
    check_inside(type_of(x).dims.without(*dims), point)
    if target is None:
        return filled(node.type.element, lambda kind: scalar(kind, 0))
    return (yield scope.tensor(x), {**point, **target})


def _in_range(
    node: Call, source_dims: Dims, dims: Sequence[str], indices: Sequence[int], mode: str, point: Point
) -> dict[str, int] | None:
    """The coordinates by dim for indices, after the mode: clamped, R01 for "checked", None for "zero" if one is out of
    range.
    """
    coordinates: dict[str, int] = {}
    for dim, index in zip(dims, indices, strict=True):
        interval = source_dims[dim]
        if index not in interval:
            if mode == "zero":
                return None
            if mode == "checked" or not interval:
                raise leaves(node, f"an index leaves {dim}{interval}", point, index)
            index = min(max(index, interval.start), interval.stop - 1)
        coordinates[dim] = index
    return coordinates


@dataclass(slots=True)
class _Scattered:
    """The updates of one scatter, shared by all of its points."""

    absent: bool | None = None
    """Whether an index or an update is absent anywhere: then it is not known which element it was for."""
    hits: dict[tuple[int, ...], dict[tuple[int, ...], list[Point]]] = field(default_factory=dict[Any, Any])
    """By aligned coordinates and by indexed ones, the points of the updates, in order."""


def scatter(node: Call, scope: Scope, point: Point) -> Answer:
    """The element after all updates that hit it, in the order of the dims `over`, the first slowest.

    It is absent if the base is, or if any index or update is (then it is unknown which element that was for).
    """
    dims, over, _ = node.static
    f, base, *indices_and_updates = node.args
    assert isinstance(f, Function)
    update_dims = bcast([type_of(a) for a in indices_and_updates])
    operands = [scope.tensor(a) for a in indices_and_updates]
    state: _Scattered = scope.once(node, _Scattered)
    if state.absent is None:
        state.absent = yield from _any_absent(operands, points(update_dims))
    value = yield scope.tensor(base), point
    if state.absent or any_absent(value):
        return absent(node.type.element)
    aligned = {name: point[name] for name in update_dims if name not in over}
    if any(c not in update_dims[name] for name, c in aligned.items()):
        return value
    key = tuple(aligned.values())
    if key not in state.hits:
        state.hits[key] = yield from _hits(node, operands[:-1], Dims(tuple((d, update_dims[d]) for d in over)), aligned)
    for update_point in state.hits[key].get(tuple([point[d] for d in dims]), ()):
        update = yield operands[-1], update_point
        value = yield applied(scope, f, [Constant(value), Constant(update)]), {}
    return value


def _any_absent(tensors: Sequence[Tensor], at_points: Iterable[Point]) -> Generator[Question, Value, bool]:
    """True if any tensor is absent at any of the points."""
    # all are evaluated, so that reads are recorded
    found_absent = False
    for point in at_points:
        for tensor in tensors:
            found_absent = any_absent((yield tensor, point)) or found_absent
    return found_absent


def _hits(
    node: Call, indices: Sequence[Tensor], over: Dims, aligned: Point
) -> Generator[Question, Value, dict[tuple[int, ...], list[Point]]]:
    """For each target of the indexed dims, the update points that hit it, in order, at fixed coordinates of other
    dims.
    """
    dims, _, mode = node.static
    hits: dict[tuple[int, ...], list[Point]] = {}
    for moving in points(over):
        point = {**moving, **aligned}
        indices_here: list[int] = []
        for index in indices:
            indices_here.append(int((yield index, point)))
        target = _in_range(node, node.type.dims, dims, indices_here, mode, point)
        if target is not None:
            hits.setdefault(tuple([target[d] for d in dims]), []).append(point)
    return hits


# Order


def sort(node: Call, scope: Scope, point: Point) -> Answer:
    """The element at a place of a sorted row; rows are sorted once and shared. A row with an absent element is
    absent.
    """
    dim, keys, descending = node.static
    rows: dict[tuple[int, ...], list[Value] | None] = scope.once(node, dict)
    row_key = tuple([point[name] for name in node.type.dims if name != dim])
    interval = node.type.dims[dim]
    check_inside(Dims(((dim, interval),)), point)
    if row_key not in rows:
        row: list[tuple[Value, ...]] = []
        for c in interval:
            members: list[Value] = []
            for arg in node.args:
                members.append((yield scope.tensor(arg), {**point, dim: c}))
            row.append(tuple(members))
        if any(map(any_absent, row)):
            rows[row_key] = None
        else:
            rows[row_key] = sorted(row, key=lambda members: [_rank(m, descending) for m in members[:keys]])
    row_in_order = rows[row_key]
    if row_in_order is None:
        return absent(node.type.element)
    members = row_in_order[point[dim] - interval.start]
    return members if len(node.args) > 1 else members[0]


def _rank(value: Any, descending: bool) -> tuple[bool, Any]:
    """A sort key: ascending keys give the wanted order, NaN last in both, zeros equal."""
    if value != value:
        return True, 0
    exact: Any = value
    number = exact.item() if isinstance(value, (np.bool_, np.integer)) else float(value)
    return False, -number if descending else number


# Effects


def assert_(node: Call, scope: Scope, point: Point) -> Answer:
    """The first operand, after the condition was checked at all points once; an absent condition does not fail."""
    x, condition = node.args
    checked: list[bool] = scope.once(node, list)
    if not checked:
        checked.append(True)
        for condition_point in points(type_of(condition).dims):
            if (yield scope.tensor(condition), condition_point) == np.False_:
                at = ", ".join(f"{name} = {c}" for name, c in condition_point.items())
                note = f"it fails first {f'at {at}' if at else 'here'}."
                raise refuse("R02", node.static.text or "an assertion fails.", at=node.span, notes=(note,))
    return (yield scope.tensor(x), point)


def print_(node: Call, scope: Scope, point: Point) -> Answer:
    """The first operand, after all operands were printed once."""
    shown: list[bool] = scope.once(node, list)
    if not shown:
        shown.append(True)
        words: list[str] = []
        for arg in node.args:
            kind = type_of(arg)
            arrays = [np.empty(kind.dims.shape, object) for _ in kind.leaves]
            for index, operand_point in zip(np.ndindex(*kind.dims.shape), points(kind.dims), strict=True):
                value: Value = yield scope.tensor(arg), operand_point
                for array, leaf in zip(arrays, leaves_of(value), strict=True):
                    array[index] = leaf
            for array, element in zip(arrays, kind.leaves, strict=True):
                is_present = not any(leaf is ABSENT for leaf in array.flat)
                words.append(str(array.astype(DTYPES[element]) if is_present else array))
        print(said(node.static.text, words))
    return (yield scope.tensor(node.args[0]), point)


def materialise(node: Call, scope: Scope, point: Point) -> Answer:
    return (yield scope.tensor(node.args[0]), point)


RULES: dict[str, Rule] = {
    "materialise": materialise,
    "if": select,
    "cast": cast_,
    "bitcast": bitcast_,
    "make_tuple": make_tuple,
    "tuple_get": tuple_get,
    "cartesian_shift": cartesian_shift,
    "shift_init": shift_init,
    "unstructured_shift": unstructured_shift,
    "shift_apply": shift_apply,
    "can_deref": can_deref,
    "subset": subset,
    "concat": concat,
    "pos": pos,
    "add_dim": add_dim,
    "update": update,
    "rename": rename,
    "split_dim": split_dim,
    "merge_dims": merge_dims,
    "gather": gather,
    "scatter": scatter,
    "sort": sort,
    "assert_": assert_,
    "print": print_,
    **FOLDS,
}
"""Every builtin that is not in `scalars.SCALAR`."""
