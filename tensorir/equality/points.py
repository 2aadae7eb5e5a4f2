"""Dims of which one point stands for all: along them two programs compute each point alone, and from that point alone.

Elements of a program over such a dim have one formula at each of its points, in slices of inputs there. So programs are
equal where they are on one point, and the cost of a proof does not grow with the extent: of a softmax one row is
compared, and of attention one row of one head. A dim that is split into blocks goes with the dims of blocks and of
points in a block, as digits of one number.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9], J[0:4]>) { y ← reduce(+, 0.0, J)(x); }")
>>> g = parse("g(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9], J[0:4]>) { y ← reduce(+, 1.0, J)(x); }")
>>> one, other = on_one_point(f, g)
>>> [str(p.type) for p in one.inputs]
['tensor<float, I[0:1], J[0:4]>']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count, pairwise

from tensorir.analysis.uses import independent, names_in, same_intervals
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, fencil
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, values, with_values
from tensorir.ir.types import TensorType

FURTHER = frozenset(("gather", "scatter", "loop", "update"))
"""Builtins that leave points apart along the dims that no static parameter names, beside those of `analysis.uses`."""
DIGITS = frozenset(("rename", "split_dim", "merge_dims"))
"""Builtins that give the same points other dims."""

Strides = Mapping[str, Fraction]
"""Dims that are digits of one number, each with its weight; the least is 1."""
Places = frozenset[tuple[bool, int, int, Fraction]]
"""Axes of parameters: whether of an output, which one of these, which axis, and its weight."""


def on_one_point(*programs: Fencil) -> list[Fencil]:
    """Programs of the same inputs and outputs, in one order, on one point of each dim whose points all leave apart."""
    apart = [_with_dims_of_results(f) for f in programs]
    parts = [{places: strides for strides in _digits(f) if (places := _places(f, strides))} for f in apart]
    cuts: list[dict[str, Interval]] = [{} for _ in programs]
    for places in parts[0] if parts else ():
        if not all(places in part for part in parts):
            continue
        points = [_point(f, part[places]) for f, part in zip(apart, parts, strict=True)]
        for cut, point in zip(cuts, points, strict=True):
            if point is not None and None not in points:
                cut.update(point)
    return [_cut(f, cut) if cut else whole for f, whole, cut in zip(apart, programs, cuts, strict=True)]


def _with_dims_of_results(f: Fencil) -> Fencil:
    """A program whose results have dims under names of their own: that an input has the same name relates no points."""
    read = frozenset[Var]().union(*(e.free for e in values(f.closures)))
    names = {n for t in _types(f) for n in t.dims.names}
    closures = list(f.closures)
    for k, c in enumerate(f.closures):
        new = {
            n: next(m for m in map(f"{n}_of_result{{}}".format, count()) if m not in names)
            for n in c.output.type.dims.names
        }
        if c.output not in read and c.region is None:
            kind = c.output.type.on(Dims(tuple((new[n], i) for n, i in c.output.type.dims.items)))
            closures[k] = replace(c, output=replace(c.output, type=kind), value=_under(c.value, new))
    outputs = {c.output: n.output for c, n in zip(f.closures, closures, strict=True)}
    return fencil(f.name, [outputs.get(p, p) for p in f.params], closures, f.span, f.buffers)


Names = tuple[tuple[str, str], ...]
"""New names of dims, (old, new)."""


def _under(e: Expr, new: Mapping[str, str]) -> Expr:
    """An expression whose dims have new names, where operations on elements and of digits lead to what makes them.

    Each operand is renamed once for the names that its dims have; an explicit stack walks deep expressions.
    """
    root = e, _names_of(e, tuple(new.items()))
    done: dict[tuple[int, Names], Expr] = {}
    pending = [(root, False)]
    while pending:
        (node, names), operands_done = pending.pop()
        if (id(node), names) in done:
            continue
        operands = _renamed_operands(node, names)
        if operands and not operands_done:
            pending += [((node, names), True), *((operand, False) for operand in operands)]
            continue
        parts = tuple(done[id(x), inside] for x, inside in operands)
        match node:
            case Call("merge_dims", _, (outer, inner, dim)):
                result = call("merge_dims", *parts, static=(outer, inner, dict(names).get(dim, dim)), span=node.span)
            case Call("add_dim", _, (dim, start, stop)):
                result = call("add_dim", *parts, static=(dict(names).get(dim, dim), start, stop), span=node.span)
            case _ if operands:
                result = rebuild(node, parts)
            case _:
                result = call("rename", node, static=(names,), span=node.span) if names else node
        done[id(node), names] = result
    return done[id(e), root[1]]


def _names_of(e: Expr, names: Names) -> Names:
    return tuple((old, n) for old, n in names if old in e.tensor.dims)


def _renamed_operands(e: Expr, names: Names) -> list[tuple[Expr, Names]]:
    """The operands of a node that are renamed in its place, each with its names; none where the node itself is."""
    match e:
        case Call("merge_dims", (x,), (_, _, dim)):
            return [(x, _names_of(x, tuple((old, n) for old, n in names if old != dim)))]
        case Call("add_dim", (x,)):
            return [(x, _names_of(x, names))]
        case Call(op, args) if TABLE[op].elementwise and not e.label:
            return [(x, _names_of(x, names)) for x in args]
        case _:
            return []


def _types(f: Fencil) -> Iterator[TensorType]:
    """The types of parameters and of expressions, those of functions taken apart."""
    yield from (p.type for p in f.params)
    for e in postorder(*values(f.closures)):
        yield from _types_of(e)


def _types_of(e: Expr) -> tuple[TensorType, ...]:
    return (e.type,) if isinstance(e.type, TensorType) else (*e.type.params, *e.type.results)


def _digits(f: Fencil) -> list[Strides]:
    """The dims of a program, those together that are renamed to, merged from or split into each other."""
    next_to: dict[str, list[tuple[str, Fraction]]] = {n: [] for t in _types(f) for n in t.dims.names}

    def relate(one: str, other: str, times: int) -> None:
        next_to[one].append((other, Fraction(times)))
        next_to[other].append((one, Fraction(1, times)))

    for e in postorder(*values(f.closures)):
        match e:
            case Call("rename", _, (pairs,)):
                for one, other in pairs:
                    relate(one, other, 1)
            case Call("split_dim", _, (dim, outer, inner, size)):
                relate(dim, inner, 1)
                relate(dim, outer, size)
            case Call("merge_dims", (x,), (outer, inner, dim)):
                relate(dim, inner, 1)
                relate(dim, outer, len(x.tensor.dims[inner]))
            case _:
                pass
    classes: list[Strides] = []
    for name in next_to:
        if any(name in strides for strides in classes):
            continue
        strides, pending = {name: Fraction(1)}, [name]
        while pending:
            one = pending.pop()
            for other, times in next_to[one]:
                if other not in strides:
                    strides[other] = strides[one] * times
                    pending.append(other)
        least = min(strides.values())
        if all(strides[b] == strides[a] * times for a in strides for b, times in next_to[a]):
            classes.append({n: stride / least for n, stride in strides.items()})
        else:
            # one name has several weights: no point of it stands for all
            classes.append(dict.fromkeys(strides, Fraction(0)))
    return classes


def _places(f: Fencil, strides: Strides) -> Places:
    return frozenset(
        (output, k, axis, strides[n])
        for output, params in ((False, f.inputs), (True, f.results))
        for k, p in enumerate(params)
        for axis, n in enumerate(p.type.dims.names)
        if n in strides
    )


def _point(f: Fencil, strides: Strides) -> dict[str, Interval] | None:
    """The first point of dims along which all points of a program are independent; None of others."""
    intervals = {(n, i) for t in _types(f) for n, i in t.dims.items if n in strides}
    whole = dict(intervals)
    several = len(set(strides.values())) > 1
    if len(intervals) != len(strides) or 0 in strides.values() or all(len(i) < 2 for i in whole.values()):
        return None
    if len({i.start for i in whole.values()}) > 1 or (several and any(i.start for i in whole.values())):
        return None
    if any(c.region is not None and strides.keys() & set(c.region.names) for c in f.closures):
        return None
    for t in _types(f):
        digits = sorted((strides[n], len(i)) for n, i in t.dims.items if n in strides)
        if any(low * size > high for (low, size), (high, _) in pairwise(digits)):
            return None
    dims = Dims(tuple((n, whole[n]) for n in sorted(strides)))
    if not all(_leaves_apart(e, dims) for e in postorder(*values(f.closures))):
        return None
    return {n: Interval(i.start, i.start + 1) for n, i in whole.items()}


def _leaves_apart(e: Expr, dims: Dims) -> bool:
    if independent(e, dims):
        return True
    if not isinstance(e, Call) or not same_intervals(e, dims):
        return False
    if not _mentions((e, *e.children), dims):
        return not TABLE[e.op].effect
    return e.op in DIGITS or (e.op in FURTHER and names_in(e.static).isdisjoint(dims.names))


def _mentions(around: Iterable[Expr], dims: Dims) -> bool:
    return any(n in t.dims for e in around for t in _types_of(e) for n in dims.names)


def _cut(f: Fencil, points: Mapping[str, Interval]) -> Fencil:
    """A program on parts of dims along which its points are independent."""

    def kind(t: TensorType) -> TensorType:
        return t.on(Dims(tuple((n, points.get(n, i)) for n, i in t.dims.items)))

    new: dict[int, Expr] = {}
    for e in postorder(*values(f.closures)):
        children = tuple(new[id(c)] for c in e.children)
        match e:
            case Var():
                new[id(e)] = replace(e, type=kind(e.type))
            case Lambda(params):
                new[id(e)] = replace(e, params=tuple(replace(p, type=kind(p.type)) for p in params), results=children)
            case Operator(params=params):
                new[id(e)] = replace(e, params=tuple(map(kind, params)))
            case Call("add_dim", static=(dim, _, _)) if dim in points:
                new[id(e)] = call("add_dim", *children, static=(dim, points[dim].start, points[dim].stop), span=e.span)
            case Call("split_dim", static=(dim, outer, inner, _)) if dim in points:
                new[id(e)] = call("split_dim", *children, static=(dim, outer, inner, 1), span=e.span)
            case _:
                new[id(e)] = rebuild(e, children)
    closures = with_values(f.closures, [new[id(e)] for e in values(f.closures)])
    closures = tuple(replace(c, output=replace(c.output, type=kind(c.output.type))) for c in closures)
    return fencil(f.name, [replace(p, type=kind(p.type)) for p in f.params], closures, f.span, f.buffers)
