"""The rules of reduce, scan, loop and cond: every state of a recurrence is a tensor that asks the one before."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from tensorir.ir.nodes import Call, Function
from tensorir.ir.types import Dims, Interval, TensorType, bcast
from tensorir.reference.expressions import Rule, Scope, applied, applied_each, type_of
from tensorir.reference.tensors import (
    ABSENT,
    Answer,
    Constant,
    Point,
    Question,
    Slice,
    Tensor,
    Value,
    Within,
    absent,
    any_absent,
    check_inside,
    points,
)

__all__ = ["FOLDS"]


class Fold:
    """A recurrence along a dim: what is folded, in which order, from where."""

    function: Function
    scope: Scope
    order: Sequence[int]
    skips: bool

    def __init__(self, node: Call, scope: Scope, order: Sequence[int], skips: bool) -> None:
        f, init, *args = node.args
        assert isinstance(f, Function)
        self.function, self.scope, self.order, self.skips = f, scope, order, skips
        self.dim: str = node.static.dim
        self.place: TensorType = f.type.params[0]
        self.places: tuple[TensorType, ...] = f.type.params[1:]
        self.args: list[Tensor] = [scope.tensor(a) for a in args]
        self.having: list[bool] = [self.dim in type_of(a).dims for a in args]
        self.states: list[Tensor] = [Within(scope.tensor(init), self.place.dims)]

    def state(self, count: int) -> Tensor:
        """The state after so many steps."""
        while len(self.states) <= count:
            self.states.append(_State(self, len(self.states)))
        return self.states[count]

    def arguments(self, coordinate: int) -> list[Tensor]:
        """What the function gets at one coordinate, besides the state."""
        return [Slice(a, self.dim, coordinate) if has else a for a, has in zip(self.args, self.having, strict=True)]

    def absent_at(self, args: Sequence[Tensor], having: bool, point: Point) -> Generator[Question, Value, bool]:
        """Whether a leaf of an argument that has the dim (or of one that lacks it) is absent at a point."""
        for arg, place, has in zip(args, self.places, self.having, strict=True):
            if has is having:
                for where in _seen(place, arg.names, self.place.dims, point):
                    if any_absent((yield arg, where)):
                        return True
        return False


def _seen(place: TensorType, names: Sequence[str], state: Dims, point: Point) -> list[Point]:
    """The points at which a parameter belongs to one element of the state: along dims that the state lacks, all."""
    if any(n in names and n in state and point[n] not in i for n, i in place.dims.items):
        return []
    apart = Dims(tuple((n, i) for n, i in place.dims.items if n in names and n not in state))
    return [{**point, **extra} for extra in points(apart)]


class _State(Tensor):
    """The state of a fold after some steps."""

    __slots__ = ("before", "fold", "levels", "new")

    def __init__(self, fold: Fold, count: int) -> None:
        super().__init__(fold.place.dims.names)
        self.fold, self.before = fold, fold.state(count - 1)
        self.levels = fold.arguments(fold.order[count - 1])
        self.new = Within(applied(fold.scope, fold.function, [self.before, *self.levels]), fold.place.dims)

    def answer(self, point: Point) -> Answer:
        check_inside(self.fold.place.dims, point)
        if self.fold.skips and (yield from self.fold.absent_at(self.levels, True, point)):
            return (yield self.before, point)
        return (yield self.new, point)


def reduce(node: Call, scope: Scope, point: Point) -> Answer:
    """Slots are skipped where they are absent; an argument without the dim is needed in all of them."""
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
    """The state after the level; a level that is absent makes the states from there on absent."""
    forward, dim = node.static
    column = bcast([Dims(((dim, t.dims[dim]),)) for a in node.args[2:] if dim in (t := type_of(a)).dims])[dim]
    check_inside(Dims(((dim, column),)), point)
    fold: Fold = scope.once(node, lambda: Fold(node, scope, interval_order(column, forward), False))
    return (yield fold.state(fold.order.index(point[dim]) + 1), point)


class Rounds:
    """The carried tensors of a loop, round by round."""

    def __init__(self, node: Call, scope: Scope) -> None:
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
        while not self.done and (self.limit is None or self.round < self.limit):
            args = [Constant(np.int32(self.round)), *self.carried]
            going = yield applied(self.scope, self.condition, args), {}
            if going is ABSENT or not going:
                self.lost, self.done = going is ABSENT, True
                return
            new = applied_each(self.scope, self.step, args)
            self.carried = [Within(tensor, dims) for tensor, dims in zip(new, self.places, strict=True)]
            self.round += 1
        self.done = True


def loop(node: Call, scope: Scope, point: Point) -> Answer:
    rounds: Rounds = scope.once(node, lambda: Rounds(node, scope))
    yield from rounds.run()
    check_inside(node.type.dims, point)
    if rounds.lost:
        return absent(node.type.element)
    return (yield rounds.carried[node.static.carried], point)


def cond(node: Call, scope: Scope, point: Point) -> Answer:
    """The result of the function that is taken, of all results of the two by one condition."""
    first, second = (f for f in node.args if isinstance(f, Function))
    condition, *operands = [scope.tensor(a) for a in node.args[2:]]
    branches: list[list[Tensor]] = scope.once(
        first, lambda: [applied_each(scope, f, operands) for f in (first, second)]
    )
    chosen = yield condition, {}
    check_inside(node.type.dims, point)
    index: int = node.static.result
    results = [branch[index] for branch in branches]
    if scope.run.both:
        for result in results:
            yield result, point
    if chosen is ABSENT:
        return absent(node.type.element)
    return (yield results[0 if chosen else 1], point)


def blocked(node: Call, scope: Scope, point: Point) -> Answer:
    """The function applied to the operands: blocks are the backend's business."""
    f = node.args[0]
    assert isinstance(f, Function)
    check_inside(node.type.dims, point)
    results: list[Tensor] = scope.once(f, lambda: applied_each(scope, f, [scope.tensor(a) for a in node.args[1:]]))
    return (yield results[node.static.result], point)


FOLDS: dict[str, Rule] = {"blocked": blocked, "reduce": reduce, "scan": scan, "loop": loop, "cond": cond}
