"""Fencils whose intervals depend on sizes: an element of a result at symbolic coordinates.

The program is typed with sums of sizes as bounds, in a case that says how they compare. An element is asked for from
the result back to the inputs: a shift moves the coordinates, a join asks on which side they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.equality.all_sizes.cases import Algebra, Case, Extent, Term, affine, unsupported
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Function, Lambda, Literal, Operator, Var
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.ir.typing_of_elements import highest_neighbour, neighbour_source
from tensorir.text import syntax
from tensorir.text.elaborate import elaborate_parts
from tensorir.text.scope import Elaboration
from tensorir.text.sizes import Template
from tensorir.text.syntax import inventory

MOST_NODES = 2000
"""Nodes of programs that are followed at symbolic coordinates."""

Place = Mapping[str, Affine]
"""A coordinate of every dim."""
Value = Term | tuple[Any, ...]
"""An element: a term, or a tuple of elements."""
Tensor = Callable[[Algebra, Place], Value]


class _Symbolic(Elaboration):
    """An elaboration whose bounds are sums of sizes, and whose sizes are values of their own."""

    def tensor_type(self, written: syntax.TensorType) -> TensorType | None:
        dims = self.intervals(written.ranges)
        return None if dims is None else TensorType(written.element, dims)


@dataclass(frozen=True, slots=True)
class Typed:
    """The parameters and closures of a fencil in a case of its sizes."""

    params: tuple[Var, ...]
    closures: tuple[Closure, ...]
    sizes: Mapping[str, str]
    """The names of sizes in the case, by those of the program."""

    def shape(self, name: str) -> tuple[Affine, ...]:
        """The extents of a parameter."""
        return tuple(affine(i.stop - i.start) for _, i in self[name].type.dims.items)

    def __getitem__(self, name: str) -> Var:
        return next(p for p in self.params if p.name == name)

    def element(self, algebra: Algebra, name: str, arrays: Mapping[str, int], at: Sequence[Affine]) -> Term:
        """An element of a result, its coordinates counted from 0; `arrays` are the numbers of inputs."""
        env: dict[Var, Tensor] = {_variable(n): _size(variable(known)) for n, known in self.sizes.items()}
        for p in self.params:
            env[p] = _input(arrays[p.name], p) if p.name in arrays else _missing(p)
        for c in self.closures:
            env[c.output] = _stored(c, _value(c.value, dict(env)), env[c.output])
        output = self[name]
        place = {d: a.plus(affine(i.start)) for (d, i), a in zip(output.type.dims.items, at, strict=True)}
        return _scalar(env[output](algebra, place))


def typed(program: Template, case: Case, sizes: Mapping[str, str]) -> Typed:
    """The program in a case that has names for its sizes; raises what it is refused for at all sizes of the case."""
    own: Mapping[str, Any] = {n: Extent(variable(known), case) for n, known in sizes.items()}
    known = frozenset(inventory(program.program).dims), dict(program.program.offsets), own
    e = _Symbolic(*known, {n: _variable(n) for n in sizes})
    try:
        params, closures = elaborate_parts(program.program, e)
    except (TypeError, KeyError, AttributeError) as error:  # an interval of no known length where one is counted
        raise unsupported("what counts the points of an interval") from error
    return Typed(params, closures, sizes)


def _variable(size: str) -> Var:
    return Var(f"{size} ", TensorType(INT32))


def _scalar(value: Value) -> Term:
    if not isinstance(value, Term):
        raise unsupported("tuples as elements")
    return value


def _size(a: Affine) -> Tensor:
    return lambda algebra, place: algebra.whole(a, INT32)


def _input(array: int, p: Var) -> Tensor:
    element = p.type.element

    def at(algebra: Algebra, place: Place) -> Value:
        if not isinstance(element, Scalar):
            raise unsupported("inputs of tuples")
        return algebra.element(array, element, [place[d].minus(affine(i.start)) for d, i in p.type.dims.items])

    return at


def _missing(p: Var) -> Tensor:
    def at(algebra: Algebra, place: Place) -> Value:
        raise unsupported(f"'{p.name}' before it is written")

    return at


def _stored(c: Closure, new: Tensor, old: Tensor) -> Tensor:
    if c.region is None:
        return new
    box = c.region
    return lambda algebra, place: (new if _inside(algebra, place, box) else old)(algebra, place)


def _inside(algebra: Algebra, place: Place, box: Dims) -> bool:
    return all(_within(algebra, place[d], i) for d, i in box.items)


def _within(algebra: Algebra, a: Affine, i: Interval) -> bool:
    low, high = affine(i.start), affine(i.stop)
    return algebra.case.holds(a.minus(low)) and algebra.case.holds(high.minus(a).plus(number(-1)))


def _value(e: Expr, env: Mapping[Var, Tensor]) -> Tensor:
    """The value of an expression at a place, each node once for each place and algebra."""
    known: dict[tuple[int, int, tuple[Affine, ...]], Value] = {}
    kept: list[Algebra] = []

    def at(node: Expr, algebra: Algebra, place: Place) -> Value:
        own = {d: place[d] for d in node.tensor.dims}
        key = id(node), id(algebra), tuple(own.values())
        if key not in known:
            if len(known) > MOST_NODES:
                raise unsupported("a program of many nodes")
            known[key] = _node(node, algebra, own, at, env)
            kept.append(algebra)
        return known[key]

    return lambda algebra, place: at(e, algebra, place)


At = Callable[[Expr, Algebra, Place], Value]


def _node(node: Expr, algebra: Algebra, place: Place, at: At, env: Mapping[Var, Tensor]) -> Value:
    match node:
        case Literal(value, element):
            return algebra.number(value, element)
        case Var():
            return env[node](algebra, place)
        case Apply(function, args):
            return _applied(function, [_later(a, at) for a in args], env)(algebra, place)
        case Call():
            return _called(node, algebra, place, at, env)
        case _:
            raise unsupported("a function as a value")


def _constant(value: Value) -> Tensor:
    return lambda algebra, place: value


def _later(e: Expr, at: At) -> Tensor:
    return lambda algebra, place: at(e, algebra, place)


def _applied(function: Function, args: Sequence[Tensor], env: Mapping[Var, Tensor]) -> Tensor:
    match function:
        case Lambda(params, (body,)):
            return _value(body, {**env, **dict(zip(params, args, strict=True))})
        case Operator(op):
            element = function.type.result.element
            assert isinstance(element, Scalar)
            return lambda algebra, place: algebra.compute(op, element, [_scalar(a(algebra, place)) for a in args])
        case _:
            raise unsupported("a function of several results")


def _called(node: Call, algebra: Algebra, place: Place, at: At, env: Mapping[Var, Tensor]) -> Value:
    args, static = node.args, node.static
    match node.op:
        case "subset" | "add_dim" | "materialise":
            return at(args[0], algebra, place)
        case "cartesian_shift":
            moved = (
                {**place, static.dim: place[static.dim].plus(affine(static.offset))} if static.dim in place else place
            )
            return at(args[0], algebra, moved)
        case "rename":
            new = dict(static.pairs)
            return at(args[0], algebra, {d: place[new.get(d, d)] for d in args[0].tensor.dims})
        case "pos":
            return algebra.whole(place[static.dim], _element(node))
        case "make_tuple":
            return tuple(at(a, algebra, place) for a in args)
        case "tuple_get":
            whole = at(args[0], algebra, place)
            assert isinstance(whole, tuple)
            return whole[static.member]
        case "concat":
            first = args[0].tensor.dims
            (dim,) = [d for d in first if any(a.tensor.dims[d] != first[d] for a in args)]
            part = next((a for a in args[:-1] if _within(algebra, place[dim], a.tensor.dims[dim])), args[-1])
            return at(part, algebra, place)
        case "update":
            inside = _inside(algebra, place, args[1].tensor.dims)
            return at(args[1] if inside else args[0], algebra, place)
        case "split_dim":
            whole = place[static.outer].times(static.extent).plus(place[static.inner])
            return at(args[0], algebra, {**place, static.dim: whole})
        case "merge_dims":
            extent: Any = args[0].tensor.dims[static.inner].stop
            if not isinstance(extent, int):
                raise unsupported("a remainder by a size")
            outer = algebra.quotient(place[static.dim], extent)
            inner = place[static.dim].minus(outer.times(extent))
            return at(args[0], algebra, {**place, static.outer: outer, static.inner: inner})
        case "gather":
            return _gathered(node, algebra, place, at)
        case "unstructured_shift":
            return _neighbour(node, algebra, place, number(static.neighbour), at)
        case "shift_init":
            new = highest_neighbour(node.tensor.dims)
            assert new is not None
            return _neighbour(node, algebra, place, place[new], at)
        case "shift_apply":
            new = highest_neighbour(args[0].tensor.dims)
            assert new is not None
            return at(args[0], algebra, {**place, new: number(static.neighbour)})
        case "can_deref":
            return algebra.present(_scalar(at(args[0], algebra, place)))[0]
        case "scatter":
            return _scattered(node, algebra, place, at, env)
        case "sort":
            return _sorted(node, algebra, place, at)
        case "reduce" | "scan":
            return _folded(node, algebra, place, at, env)
        case op if TABLE[op].elementwise:
            return _elementwise(node, [at(a, algebra, place) for a in args], algebra)
        case _ if node.definition is not None:
            return _applied(node.definition, [_later(a, at) for a in args], env)(algebra, place)
        case op:
            raise unsupported(f"'{op}'")


def _element(node: Expr) -> Scalar:
    element = node.tensor.element
    if not isinstance(element, Scalar):
        raise unsupported("an operation on tuples")
    return element


def _elementwise(node: Call, args: Sequence[Value], algebra: Algebra) -> Value:
    if node.op == "if" and isinstance(args[1], tuple):
        condition = _scalar(args[0])
        pairs = zip(_leaves(args[1]), _leaves(args[2]), strict=True)
        made = [algebra.compute("if", a.element, [condition, a, b]) for a, b in pairs]
        return _like(args[1], made)
    return algebra.compute(node.op, _element(node), [_scalar(a) for a in args])


def _gathered(node: Call, algebra: Algebra, place: Place, at: At) -> Value:
    x, *indices = node.args
    inner, inside = dict(place), algebra.truth(True)
    mode = node.static.mode
    for dim, index in zip(node.static.dims, indices, strict=True):
        condition, found = algebra.present(_scalar(at(index, algebra, place)))
        if condition.op != "truth":
            raise unsupported("an index that may be absent")
        low, last = _bounds(x.tensor.dims[dim])
        if found.op != "whole":
            if mode == "zero":
                inside = algebra.compute("and", BOOL, [inside, algebra.within(found, low, last)])
            inner[dim] = algebra.index(found, low, last, mode)
            continue
        value: Affine = found.own
        if not algebra.case.holds(last.minus(low)):
            raise unsupported("a read of what is empty")
        if not algebra.case.holds(value.minus(low)) or not algebra.case.holds(last.minus(value)):
            match mode:
                case "clamp":
                    value = last if algebra.case.holds(value.minus(low)) else low
                case "zero" if isinstance(x.tensor.element, Scalar):
                    return algebra.number(0, x.tensor.element)
                case _:
                    raise unsupported("an index that leaves its interval")
        inner[dim] = value
    read = at(x, algebra, {d: inner[d] for d in x.tensor.dims})
    if inside.op == "truth" and inside.own:
        return read
    element = _element(node)
    return algebra.compute("if", element, [inside, _scalar(read), algebra.number(0, element)])


def _bounds(interval: Interval) -> tuple[Affine, Affine]:
    """The first and the last point of an interval."""
    return affine(interval.start), affine(interval.stop).plus(number(-1))


def _neighbour(node: Call, algebra: Algebra, place: Place, slot: Affine, at: At) -> Value:
    """The neighbour that a table has, absent where it has -1."""
    table, x = node.args
    tag, source = neighbour_source(table.tensor)
    told = _scalar(at(table, algebra, {**{d: place[d] for d in table.tensor.dims if d != tag}, tag: slot}))
    low, last = _bounds(x.tensor.dims[source])
    least, _ = algebra.range_of(told)
    absent = algebra.compute("eq", BOOL, [told, algebra.whole(number(-1), told.element)])
    if least is not None and algebra.case.decides(least) is True:
        absent = algebra.truth(False)
    elif least is not None and algebra.case.is_always_zero(least.plus(number(1))):
        absent = algebra.compute("less", BOOL, [told, algebra.whole(number(0), told.element)])
    here = algebra.compute("not", BOOL, [absent])
    value = at(x, algebra, {**place, source: algebra.index(told, low, last)})
    condition, value = algebra.present(_scalar(value))
    return algebra.there(algebra.compute("and", BOOL, [here, condition]), value)


def _scattered(node: Call, algebra: Algebra, place: Place, at: At, env: Mapping[Var, Tensor]) -> Value:
    """An element after all updates, as a fold over these: those that are stored elsewhere leave it as it is."""
    f, base, *indices, updates = node.args
    dims, over, mode = node.static
    assert isinstance(f, Lambda | Operator)
    given = [*indices, updates]
    intervals = {d: next(a.tensor.dims[d] for a in given if d in a.tensor.dims) for d in over}

    def run(algebra: Algebra, old: Term, where: Place, rest: Sequence[str]) -> Term:
        if rest:
            low, stop = (affine(b) for b in (intervals[rest[0]].start, intervals[rest[0]].stop))

            def step(inner: Algebra, count: Affine, state: tuple[Term, ...]) -> Sequence[Term]:
                return [run(inner, state[0], {**where, rest[0]: low.plus(count)}, rest[1:])]

            return algebra.fold(stop.minus(low), [old], step)[0]
        hit = algebra.truth(True)
        for dim, index in zip(dims, indices, strict=True):
            told = _scalar(at(index, algebra, {d: where[d] for d in index.tensor.dims}))
            bounds = _bounds(node.tensor.dims[dim])
            moved = told if mode == "zero" else (algebra.moved if mode == "clamp" else algebra.checked)(told, *bounds)
            same = algebra.compute("eq", BOOL, [moved, algebra.whole(place[dim], told.element)])
            hit = algebra.compute("and", BOOL, [hit, same])
        added = at(updates, algebra, {d: where[d] for d in updates.tensor.dims})
        new = _scalar(_applied(f, [_constant(old), _constant(added)], env)(algebra, {}))
        return algebra.compute("if", old.element, [hit, new, old])

    start = _scalar(at(base, algebra, {d: place[d] for d in base.tensor.dims}))
    return run(algebra, start, {d: a for d, a in place.items() if d not in dims}, over)


def _sorted(node: Call, algebra: Algebra, place: Place, at: At) -> Value:
    """A function of all along a dim, and of which of them in order it is."""
    dim, keys, descending = node.static
    low, last = _bounds(node.tensor.dims[dim])

    def step(inner: Algebra, count: Affine, _: tuple[Term, ...]) -> Sequence[Term]:
        here = {**place, dim: low.plus(count)}
        return [_scalar(at(a, inner, {d: here[d] for d in a.tensor.dims})) for a in node.args]

    made = algebra.folded(last.minus(low).plus(number(1)), (), step)
    own = keys, descending, place[dim].minus(low)
    found = [Term("sort", _element(a), (), (made, k, *own)) for k, a in enumerate(node.args)]
    return found[0] if len(found) == 1 else tuple(found)


def _folded(node: Call, algebra: Algebra, place: Place, at: At, env: Mapping[Var, Tensor]) -> Value:
    """A fold of all of a dim, or, at a coordinate of a scan, of those up to it."""
    f, init, *folded = node.args
    assert isinstance(f, Lambda | Operator)
    dim = node.static.dim
    interval = next(a.tensor.dims[dim] for a in folded if dim in a.tensor.dims)
    if node.op == "scan":
        for a in folded:
            if dim in a.tensor.dims:
                interval = interval & a.tensor.dims[dim]
    low, stop = affine(interval.start), affine(interval.stop)
    first, sign, length = low, 1, stop.minus(low)
    if node.op == "scan":
        here = place[dim]
        length = here.minus(low).plus(number(1))
        if not node.static.forward:
            first, sign, length = stop.plus(number(-1)), -1, stop.minus(here)
    outer = {d: a for d, a in place.items() if d != dim or node.op == "reduce"}
    own = f.type.params[0]
    start = at(init, algebra, {d: outer[d] for d in init.tensor.dims})
    if not isinstance(own.element, Scalar) and not isinstance(start, tuple):
        raise unsupported("a state of tuples")

    def step(inner: Algebra, count: Affine, old: tuple[Term, ...]) -> Sequence[Term]:
        coordinate = first.plus(count.times(sign))

        def state(_: Algebra, where: Place) -> Value:
            if any(where[d] != a for d, a in outer.items() if d in own.dims):
                raise unsupported("a step that reads the state of other points")
            return _like(start, list(old))

        there: list[Term] = []

        def argument(a: Expr) -> Tensor:
            def value(algebra: Algebra, where: Place) -> Value:
                found = at(a, algebra, {d: coordinate if d == dim else where[d] for d in a.tensor.dims})
                if isinstance(found, Term) and found.op == "there" and node.op == "reduce":
                    there.append(found.args[0])
                    return found.args[1]
                return found

            return value

        made = _leaves(_applied(f, [state, *(argument(a) for a in folded)], env)(inner, outer))
        for condition in dict.fromkeys(there):
            # what is absent is left out
            made = [inner.compute("if", a.element, [condition, a, b]) for a, b in zip(made, old, strict=True)]
        return made

    return _like(start, algebra.fold(length, _leaves(start), step))


def _leaves(value: Value) -> list[Term]:
    return [value] if isinstance(value, Term) else [leaf for v in value for leaf in _leaves(v)]


def _like(shape: Value, leaves: list[Term]) -> Value:
    """The leaves as the elements of a tuple like another one."""
    rest = iter(leaves)

    def made(part: Value) -> Value:
        return next(rest) if isinstance(part, Term) else tuple(made(p) for p in part)

    return made(shape)
