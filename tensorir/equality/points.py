"""Dims of which one point stands for all: along them two programs compute each point alone, and from that point alone.

Elements of a program over such a dim have one formula at each of its points, in slices of inputs there. So programs are
equal where they are on one point, and the cost of a proof does not grow with the extent: of a softmax one row is
compared, and of attention one row of one head.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:9]>, x: tensor<float, I[0:9], J[0:4]>) { y ← reduce(+, 0.0, J)(x); }")
>>> g = parse("g(y: tensor<float, K[0:9]>, x: tensor<float, K[0:9], J[0:4]>) { y ← reduce(+, 1.0, J)(x); }")
>>> one, other = on_one_point(f, g)
>>> [str(p.type) for p in one.params]
['tensor<float, I[0:1]>', 'tensor<float, I[0:1], J[0:4]>']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tensorir.analysis.uses import independent, names_in, same_intervals
from tensorir.ir.build import call, fencil
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, values, with_values
from tensorir.ir.types import Dims, Interval, TensorType

FURTHER = frozenset(("gather", "scatter", "loop", "update", "rename", "split_dim", "merge_dims"))
"""Builtins that leave points apart along the dims that no static parameter names, beside those of `analysis.uses`."""

Places = frozenset[tuple[bool, int, int]]
"""Axes of parameters: whether of an output, which one of these, and which axis."""


def on_one_point(*programs: Fencil) -> list[Fencil]:
    """Programs of the same inputs and outputs, in one order, on one point of each dim whose points all leave apart."""
    parts = [{places: names for names in _classes(f) if (places := _places(f, names))} for f in programs]
    cuts: list[dict[str, Interval]] = [{} for _ in programs]
    for places in parts[0] if parts else ():
        if not all(places in part for part in parts):
            continue
        points = [_point(f, part[places]) for f, part in zip(programs, parts, strict=True)]
        for cut, part, point in zip(cuts, parts, points, strict=True):
            if point is not None and None not in points:
                cut.update(dict.fromkeys(part[places], point))
    return [_cut(f, cut) for f, cut in zip(programs, cuts, strict=True)]


def _types(f: Fencil) -> Iterator[TensorType]:
    """The types of parameters and of expressions, those of functions taken apart."""
    yield from (p.type for p in f.params)
    for e in postorder(*values(f.closures)):
        yield from _types_of(e)


def _types_of(e: Expr) -> tuple[TensorType, ...]:
    return (e.type,) if isinstance(e.type, TensorType) else (*e.type.params, *e.type.results)


def _classes(f: Fencil) -> list[frozenset[str]]:
    """The dims of a program, those together that are renamed to each other."""
    whole: dict[str, frozenset[str]] = {n: frozenset([n]) for t in _types(f) for n in t.dims.names}
    for e in postorder(*values(f.closures)):
        if isinstance(e, Call) and e.op == "rename":
            for pair in e.static[0]:
                joined = frozenset[str]().union(*(whole.get(n, frozenset([n])) for n in pair))
                whole.update(dict.fromkeys(joined, joined))
    return list(dict.fromkeys(whole.values()))


def _places(f: Fencil, names: frozenset[str]) -> Places:
    return frozenset(
        (output, k, axis)
        for output, params in ((False, f.inputs), (True, f.results))
        for k, p in enumerate(params)
        for axis, n in enumerate(p.type.dims.names)
        if n in names
    )


def _point(f: Fencil, names: frozenset[str]) -> Interval | None:
    """The first point of dims along which all points of a program are independent; None of others."""
    intervals = {i for t in _types(f) for n, i in t.dims.items if n in names}
    if len(intervals) != 1 or any(len(names & set(t.dims.names)) > 1 for t in _types(f)):
        return None
    (whole,) = intervals
    dims = Dims(tuple((n, whole) for n in sorted(names)))
    if len(whole) < 2 or any(c.region is not None and names & set(c.region.names) for c in f.closures):
        return None
    if not all(_leaves_apart(e, dims) for e in postorder(*values(f.closures))):
        return None
    return Interval(whole.start, whole.start + 1)


def _leaves_apart(e: Expr, dims: Dims) -> bool:
    if independent(e, dims):
        return True
    if not isinstance(e, Call) or not same_intervals(e, dims):
        return False
    if not _mentions((e, *e.children), dims):
        return not TABLE[e.op].effect
    return e.op == "rename" or (e.op in FURTHER and names_in(e.static).isdisjoint(dims.names))


def _mentions(around: Iterable[Expr], dims: Dims) -> bool:
    return any(n in t.dims for e in around for t in _types_of(e) for n in dims.names)


def _cut(f: Fencil, points: Mapping[str, Interval]) -> Fencil:
    """A program on parts of dims along which its points are independent."""
    if not points:
        return f

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
            case _:
                new[id(e)] = rebuild(e, children)
    closures = with_values(f.closures, [new[id(e)] for e in values(f.closures)])
    closures = tuple(replace(c, output=replace(c.output, type=kind(c.output.type))) for c in closures)
    return fencil(f.name, [replace(p, type=kind(p.type)) for p in f.params], closures, f.span, f.buffers)
