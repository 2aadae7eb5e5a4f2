"""Builtins of iterator IR that are no arithmetic: access, lists, tuples, folds, fields and domains."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensorir.integers.sets import Region
from tensorir.ir.types import INT32
from tensorir.iterator.lift.evaluate import Evaluator, Rule
from tensorir.iterator.lift.graph import Node, Table
from tensorir.iterator.lift.values import (
    Builtin,
    Closure,
    Domain,
    Function,
    Iterator,
    Lifted,
    Partial,
    Step,
    leaves,
    shifted,
    tree_map,
)
from tensorir.iterator.nodes import CASTS, Axis, Call, CartesianOffset, Expr, Lambda, Offset, Ref
from tensorir.nodes import each
from tensorir.runtime.errors import refuse

BUILTINS: dict[str, Rule] = {}
"""What a builtin is of its arguments, as steps of an evaluation."""
PARTIALS: dict[str, Rule] = {}
"""What a builtin that has its first arguments is of further ones."""


def _builtin(*names: str) -> Callable[[Rule], Rule]:
    """The decorator that makes a generator the rule of some builtins.

    A rule gets the evaluator, the evaluated arguments and the call for messages, yields evaluations that it waits for,
    and returns the value. A rule that waits for none has a `yield` behind its return, which makes it a generator.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            BUILTINS[name] = rule
        return rule

    return register


def _partial(name: str) -> Callable[[Rule], Rule]:
    """The decorator of a rule for a builtin that is called in two steps, `scan(f, forward, init)(args)`.

    The first call keeps its arguments in a `Partial`; the rule gets these and the arguments of the second call.
    """

    def keep(ev: Evaluator, args: list[Any], at: Expr) -> Any:
        return Partial(name, tuple(args))
        yield

    def register(rule: Rule) -> Rule:
        BUILTINS[name] = keep
        PARTIALS[name] = rule
        return rule

    return register


# Access


@_builtin("deref")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`deref(it)`: the value of an iterator at its position."""
    return (yield ev.deref(args[0]))


@_builtin("can_deref")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`can_deref(it)`: true where a neighbour exists; of a tuple, where all members have one."""
    value = yield ev.deref(args[0])
    present = [ev.graph.can_deref(x) for x in leaves(value)]
    result = present[0]
    for one in present[1:]:
        result = ev.graph.op("and", result, one)
    return result


@_partial("shift")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`shift(offsets...)(it)`: the iterator moved by the steps of the offsets."""
    return shifted(args[0], _steps(ev, first, at))
    yield


def _steps(ev: Evaluator, offsets: tuple[Any, ...], at: Expr) -> tuple[Step, ...]:
    """Groups the arguments of shift into steps of (target, distance): `shift(I, 1, V2E, 0)` has two.

    A neighbour table with no index after it means all neighbours (distance None), an index without a target a slot of
    the list before. Raises TI04 for a Cartesian offset without a distance.
    """
    steps: list[Step] = []
    k = 0
    while k < len(offsets):
        tag = offsets[k]
        if not isinstance(tag, CartesianOffset) and not (isinstance(tag, Offset) and isinstance(tag.value, str)):
            steps.append(Step("", _distance(ev, tag), at.span))
            k += 1
            continue
        target, fixed_distance = ev.target(tag)
        following = offsets[k + 1] if k + 1 < len(offsets) else None
        is_name = isinstance(following, Offset) and isinstance(following.value, str)
        if following is None or isinstance(following, CartesianOffset) or is_name:
            if not isinstance(target, Table):
                name = tag.value if isinstance(tag, Offset) else tag.codomain.name
                message = f"the offset '{name}' needs a distance."
                raise refuse("TI04", message, "write shift(Ioff, 1).", at=at.span)
            steps.append(Step(target, None, at.span))
            k += 1
            continue
        by = _distance(ev, following)
        if fixed_distance:
            by = (
                by + fixed_distance
                if isinstance(by, int)
                else ev.graph.op("plus", by, ev.graph.constant(fixed_distance, by.element))
            )
        steps.append(Step(target, by, at.span))
        k += 2
    return tuple(steps)


def _distance(ev: Evaluator, x: Any) -> int | Node:
    """The distance of a shift: an int if it is known when the program is specialised, otherwise a node."""
    if isinstance(x, Offset):
        return int(x.value)
    x = ev.value(x)
    return int(x.static[1]) if isinstance(x, Node) and x.op == "constant" else x


@_partial("lift")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`lift(f)(its...)`: a stencil as an iterator. One that does not depend on the position around it, of unshifted
    iterators, is evaluated here as a field; another is applied wherever it is read.
    """
    (stencil,) = first
    if _stands_alone(stencil) and all(isinstance(a, Iterator) and not a.steps for a in args):
        return Iterator((yield ev.apply(stencil, args, at)))
    return Lifted(stencil, tuple(args))


def _stands_alone(f: Any) -> bool:
    """True if a function uses nothing of a place around it."""
    match f:
        case Builtin():
            return True
        case Partial(_, args):
            return all(_stands_alone(a) for a in args)
        case Closure(function, env):
            values = (env.get(name) for name in _free_names(function))
            return all(_stands_alone(v) for v in values if v is not None)
        case Node():
            return not f.dims and not f.carries
        case tuple():
            return all(_stands_alone(m) for m in f)
        case Iterator() | Lifted():
            return False
        case _:
            return True


def _free_names(function: Lambda) -> set[str]:
    """The names in a function that none of its own parameters bind."""
    names: set[str] = set()
    stack: list[tuple[Any, frozenset[str]]] = [(function, frozenset())]
    while stack:
        node, bound = stack.pop()
        match node:
            case Ref(name) if name not in bound:
                names.add(name)
            case Lambda(params, body):
                stack.append((body, bound | set(params)))
            case Call(f, args):
                stack.extend((part, bound) for part in (f, *args))
            case _:
                pass
    return names


# Lists


@_builtin("neighbors")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`neighbors(offset, it)`: the list of the values at all neighbours."""
    return (yield ev.deref(shifted(args[1], _steps(ev, (args[0],), at))))


@_builtin("make_const_list")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`make_const_list(x)`: a list of x for each neighbour, represented by x itself."""
    return ev.value(args[0])
    yield


@_builtin("list_get")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`list_get(k, xs)`: slot k of a list, by number or by a node that is computed."""
    k, x = args[0], ev.value(args[1])
    local = ev.local_of(x)
    if local is None:
        return x
    slot = _distance(ev, k)
    if isinstance(slot, int):
        return ev.graph.slot(x, local, slot)
    return ev.folding.chosen(x, local, ev.slots[local], slot)
    yield


@_partial("map_list")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`map_list(f)(xs...)`: f of the lists slot by slot; of tuples of lists member by member."""
    values = [ev.value(a) for a in args]
    if any(isinstance(v, tuple) for v in values):
        return (yield PARTIALS["map_tuple"](ev, (Partial("map_list", first),), values, at))
    _, lists = ev.aligned(values)
    return (yield ev.apply(first[0], lists, at))


@_partial("reduce")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`reduce(f, init)(xs...)`: the fold of lists along their neighbour dim. Raises TI09 if no argument is a list."""
    f, init = first[0], ev.value(first[1])
    local, lists = ev.aligned([ev.value(a) for a in args])
    if local is None:
        message = "there is no list to reduce: no argument has neighbours."
        raise refuse("TI09", message, "shift with a table first: neighbors(V2E, x).", at=at.span)
    return (yield ev.folding.reduce(f, init, lists, local, at, ev.holed))


# Tuples and choices


@_builtin("make_tuple")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`make_tuple(xs...)`: a Python tuple of the values."""
    return tuple(args)
    yield


@_builtin("tuple_get")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`tuple_get(k, t)`: member k of a tuple, of an iterator of tuples, or of a lifted stencil that gives one."""
    k = ev.whole(args[0])
    match args[1]:
        case tuple() as members if 0 <= k < len(members):
            return members[k]
        case Iterator(tuple() as members, steps) if 0 <= k < len(members):
            return Iterator(members[k], steps)
        case Lifted() as x:
            return (yield ev.deref(x))[k]
        case _:
            raise refuse("TI04", f"there is no member {k} here.", "members count from 0.", at=at.span)


@_builtin("if_")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`if_(c, a, b)`: the branch that a known condition selects, otherwise the choice at each point.

    Functions under a condition on fields become one function that applies both and chooses (`one_of`); domains and
    other functions need a condition that is known when the program is specialised.
    """
    condition, a, b = args
    condition = ev.value(condition)
    if condition.op == "constant":
        return a if condition.static[1] else b
    if condition.dims and isinstance(a, Function) and isinstance(b, Function):
        return Partial("one_of", (condition, a, b))
    if isinstance(a, (Domain, Function)) or isinstance(b, (Domain, Function)):
        return a if ev.known.number(condition) else b
    positions = any(isinstance(x, (Iterator, Lifted)) for x in (a, b))
    chosen = tree_map(partial(ev.folding.choice, condition), (yield ev.deref(a)), (yield ev.deref(b)))
    return Iterator(chosen) if positions else chosen


@_partial("one_of")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """The choice between the results of two functions of the same arguments."""
    condition, f, g = first
    a = yield ev.apply(f, args, at)
    b = yield ev.apply(g, args, at)
    return (yield BUILTINS["if_"](ev, [condition, a, b], at))


@_partial("map_tuple")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`map_tuple(f)(ts...)`: f of the members of tuples; an argument that is no tuple is passed to each."""
    count = next(len(a) for a in args if isinstance(a, tuple))
    members = ([a[k] if isinstance(a, tuple) else a for a in args] for k in range(count))
    return tuple((yield from each(ev.apply(first[0], some, at) for some in members)))


@_partial("tree_map_tuple")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`tree_map_tuple(f)(ts...)`: f of the leaves of nested tuples."""
    if not any(isinstance(a, tuple) for a in args):
        return (yield ev.apply(first[0], args, at))
    return (yield PARTIALS["map_tuple"](ev, (Partial("tree_map_tuple", first),), args, at))


@_builtin("cast_")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`cast_(x, type)`: x, or all leaves of a tuple, in an element type. Raises TI02 for an unknown type."""
    kind = args[1]
    name = kind.name if isinstance(kind, Builtin) else ""
    if name not in CASTS:
        raise refuse("TI02", f"there is no element type '{name or kind}' here.", "use float64, int32, ...", at=at.span)
    return tree_map(lambda x: ev.graph.cast(ev.value(x), CASTS[name]), args[0])
    yield


# Fields


@_partial("as_fieldop")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`as_fieldop(stencil, domain)(fields...)`: the stencil at all points, on the dims of the domain if there is one; a
    scan as stencil runs along the domain's vertical dim.
    """
    stencil, *rest = first
    domain = rest[0] if rest and isinstance(rest[0], Domain) else None
    positions = [a if isinstance(a, (Iterator, Lifted)) else Iterator(a) for a in args]
    if isinstance(stencil, Partial) and stencil.name == "scan":
        result = yield _scan(ev, stencil.args, positions, domain, at)
    else:
        result = yield ev.deref((yield ev.apply(stencil, positions, at)))
    if domain is not None:
        result = tree_map(lambda x: ev.graph.broadcast(x, domain.box), result)
    return result


@_partial("scan")
def _(ev: Evaluator, first: tuple[Any, ...], args: list[Any], at: Expr) -> Any:
    """`scan(f, forward, init)(fields...)`: the states of a column, see `_scan`."""
    return (yield _scan(ev, first, args, None, at))


def _scan(ev: Evaluator, first: tuple[Any, ...], args: list[Any], domain: Domain | None, at: Expr) -> Any:
    """The states of a scan along the vertical dim of a domain, else the evaluator's column dim, else its last dim.

    `first` are function, direction and initial state. Raises TI07 where no dim is known.
    """
    f, forward, init = first
    vertical = next((a.name for a in domain.dims if a.kind == "vertical"), None) if domain else None
    dim = vertical or ev.column or (domain.dims[-1].name if domain else None)
    if dim is None:
        raise refuse("TI07", "it is not known along which dim this scan runs.", "store on a vertical dim.", at=at.span)
    column = domain.box[dim] if domain and dim in domain.box else None
    direction = bool(ev.known.number(forward))
    return (yield ev.folding.scan(f, direction, tree_map(ev.value, init), args, dim, column, at))


@_builtin("index")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`index(axis)`: the coordinate of each point along an axis."""
    return ev.graph.index(args[0].name)
    yield


@_builtin("broadcast")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`broadcast(x, axes)`: x on these dims, too."""
    dims = args[1].box if isinstance(args[1], Domain) else [a.name for a in args[1]]
    return tree_map(lambda x: ev.graph.broadcast(x, dims), args[0])
    yield


@_builtin("concat_where")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`concat_where(condition, a, b)`: a in the region of a condition on coordinates, b outside. Raises TI04 for a
    condition on values.
    """
    condition, a, b = args
    if isinstance(condition, Domain):
        condition = Region.of(condition.box)
    if not isinstance(condition, Region):
        message = "concat_where takes a condition on coordinates, and this is none."
        help = "compare a dim with a number, K < 5; for conditions on values there is where."
        raise refuse("TI04", message, help, at=at.span)
    return tree_map(lambda x, y: ev.graph.concat_where(condition, x, y), a, b)
    yield


# Domains


@_builtin("named_range")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`named_range(axis, start, stop)`: an axis and its interval, known when the program is specialised."""
    axis, start, stop = args
    return axis, (ev.whole(start), ev.whole(stop))
    yield


@_builtin("cartesian_domain", "unstructured_domain")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`cartesian_domain(ranges...)`, `unstructured_domain(ranges...)`: axes with their intervals."""
    return Domain(tuple(a for a, _ in args), tuple(e for _, e in args))
    yield


@_builtin("get_domain_range")
def _(ev: Evaluator, args: list[Any], at: Expr) -> Any:
    """`get_domain_range(field, axis)`: the start and stop of the interval that a parameter has along an axis. Raises
    TI06 for a value that is computed.
    """
    field, axis = args
    assert isinstance(axis, Axis)
    name = ev.name_of(field)
    dims = ev.known.domains.get(name) if name is not None else None
    if dims is None or axis.name not in dims:
        message = f"the interval of {axis.name} is asked of what has none."
        raise refuse("TI06", message, "ask it of a parameter.", at=at.span)
    interval = dims[axis.name]
    return tuple(ev.graph.constant(n, INT32) for n in (interval.start, interval.stop))
    yield
