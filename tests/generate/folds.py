"""Rules for reduce, scan, loop and sort."""

from __future__ import annotations

import numpy as np

from tensorir.integers.dims import Dims
from tensorir.ir.build import call, function, literal, operator, var
from tensorir.ir.nodes import Expr, Function, Operator, Var
from tensorir.ir.types import BOOL, INT32, Element, Scalar, TensorType, TupleElement
from tensorir.ir.typing_of_elements import highest_neighbour

from .indirect import partial_shift
from .maker import Maker, Scope, exactly, full, neighbour_dim

__all__ = ["FOLDS"]


def reduce(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    """Over the neighbours of a partial shift, over a sparse field, or over a named dim."""
    place = m.some(need, 8)
    args: list[Expr] = []
    inside = Scope(scope.variables, scope.forbidden, scope.outer, True, scope.moving)
    holes = not m.chance(3)
    around = inside if holes else scope
    # an operator may be the step where one argument has the element of the state
    alone = m.chance(2)
    first = element if alone else m.element()
    if m.chance(3):
        dim, extent = m.fresh(need), m.interval()
        args.append(
            full(
                exactly(m.expr(first, place.with_interval(dim, extent), depth, around), Dims(((dim, extent),))),
                Dims(((dim, extent),)),
            )
        )
    else:
        shifted = partial_shift(m, first, place, depth, around)
        if shifted is None:
            return None
        args.append(shifted)
        dim = str(highest_neighbour(shifted.type.dims))
        extent = shifted.type.dims[dim]
        if dim in need:
            return None
    for _ in range(0 if alone else m.integer(0, 2)):
        box = m.some(place, 6)
        if m.chance(3):
            args.append(m.expr(m.element(), box, depth, scope))
        else:
            cell = Dims(((dim, extent),))
            args.append(full(exactly(m.expr(m.element(), Dims((*box.items, *cell.items)), depth, around), cell), cell))
    state = TensorType(element, place)
    f = _step(m, state, args, dim, depth, scope, moving=scope.moving and not holes)
    if f is None:
        return None
    # an extreme that starts a fold by max or min adds nothing where its first slot is there
    extreme = isinstance(f, Operator) and f.op in ("max", "min") and not m.chance(3)
    init = _least(f.op, element) if extreme else m.expr(element, m.some(place, 2), min(depth, 1), scope)
    return call("reduce", f, init, *args, static=(dim,))


def _least(op: str, element: Scalar) -> Expr:
    """The value that a fold by max or min leaves for any other."""
    if element.is_float:
        return literal(-np.inf if op == "max" else np.inf, element)
    return literal(element.range.start if op == "max" else element.range.stop - 1, element)


def _step(
    m: Maker,
    state: TensorType,
    args: list[Expr],
    dim: str,
    depth: int,
    scope: Scope,
    moving: bool,
    absent: bool = False,
) -> Function | None:
    """A function of a state and of one level of some arguments."""
    levels = [a.type.on(a.type.dims.without(dim)) for a in args]
    element = state.element
    if len(args) == 1 and levels[0].element == element and isinstance(element, Scalar) and not m.chance(4):
        ops = ["and", "or", "xor"] if element == BOOL else ["max", "min", "plus", "multiplies", "max", "min", "minus"]
        second = (
            levels[0] if all(n in state.dims and i.covers(state.dims[n]) for n, i in levels[0].dims.items) else None
        )
        if second is not None and all(len(i & state.dims[n]) for n, i in second.dims.items):
            made = operator(m.pick(ops), state, second.on(second.dims))
            return made if made.type.result.dims == state.dims else None
    carried = var(m.name("a"), state)
    bound: list[tuple[Var, bool]] = [(carried, absent)]
    for level in levels:
        wider = not m.chance(3) or any(n not in state.dims for n in level.dims)
        place = level if wider else level.on(Dims(tuple((n, state.dims[n]) for n in level.dims)))
        bound.append((var(m.name("x"), place), absent))
    inner = scope.within(bound, without=dim, absent=absent, moving=moving)
    body = m.expr(element, state.dims, depth, inner)
    if isinstance(element, Scalar) and m.chance(2):
        op = "xor" if element == BOOL else m.pick(["plus", "minus", "max"])
        body = call(op, carried, body)
    if any(n not in state.dims for n in body.type.dims):
        return None
    return function([v for v, _ in bound], body)


def scan(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    dims = [d for d in need if not neighbour_dim(d)]
    if not dims:
        return None
    dim = m.pick(dims)
    column = Dims(((dim, need[dim]),))
    place = m.some(need.without(dim), 8)
    args = [full(m.expr(m.element(), Dims((*place.items, *column.items)), depth, scope), column)]
    for _ in range(m.integer(0, 2)):
        args.append(m.expr(m.element(), m.some(Dims((*place.items, *column.items)), 3), depth, scope))
    if any(n not in (*place.names, dim) for a in args for n in a.type.dims):
        return None
    f = _step(m, TensorType(element, place), args, dim, depth, scope, scope.moving, scope.absent)
    if f is None:
        return None
    init = m.expr(element, m.some(place, 2), min(depth, 1), scope)
    return call("scan", f, init, *args, static=(not m.chance(2), dim))


def loop(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    count = m.integer(1, 2)
    at = m.integer(0, count - 1)
    start = [
        m.expr(element, need, depth, scope) if k == at else m.expr(m.element(), m.some(need, 2), min(depth, 1), scope)
        for k in range(count)
    ]
    limit = m.pick([2, 0, 1, 3, None])
    names = [[var(m.name("i"), TensorType(INT32)), *(var(m.name("a"), a.type) for a in start)] for _ in range(2)]
    inner = scope.within([(v, False) for v in names[0]], absent=False)
    condition = m.expr(BOOL, Dims(), min(depth, 2), inner) if not m.chance(3) else literal(True)
    if limit is None:
        condition = call("and", call("less", names[0][0], literal(m.integer(0, 3))), condition)
    inner = scope.within([(names[1][0], False), *((v, scope.absent) for v in names[1][1:])])
    results = [m.expr(a.type.element, a.type.dims, depth, inner) for a in start]
    if count == 2 and start[0].type == start[1].type and m.chance(2):
        # what several results share
        results[1] = call("if", condition if not condition.free & set(names[0]) else literal(True), *results)
    functions = function(names[0], condition), function(names[1], *results)
    return call("loop", *functions, *start, static=(at, limit))


def sort(m: Maker, element: Element, need: Dims, depth: int, scope: Scope) -> Expr | None:
    """Several operands at once give a tuple."""
    members = list(element.members) if isinstance(element, TupleElement) else [element]
    at: int | None = None
    if isinstance(element, Scalar) and m.chance(2):
        at = m.integer(0, 1)
        members.insert(1 - at, m.element(False))
    if (len(members) < 2 and isinstance(element, TupleElement)) or not all(isinstance(e, Scalar) for e in members):
        return None
    dim = m.pick([*(d for d in need if not neighbour_dim(d)), m.fresh(need)])
    if dim not in need:
        return None
    operands = [m.expr(e, m.some(need, 4).with_interval(dim, need[dim]), depth, scope) for e in members]
    keys = m.integer(1, len(members))
    if m.profile.without & {"less"} and len(members) > 1:
        return None
    operands[0] = full(operands[0], Dims(((dim, need[dim]),)))
    made = call("sort", *operands, static=(dim, keys, m.chance(2)))
    return made if at is None else call("tuple_get", made, static=(at,))


FOLDS = [reduce, reduce, scan, loop, sort]
