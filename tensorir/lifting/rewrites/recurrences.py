"""Points of tensors, and recurrences whose first elements are stored apart, which are scans of all elements.

`O[0] = A[0]`, then `O[k] = O[k - 1] + A[k]` is a scan of A. These are rules of the canonical form (`canonical.RULES`).
"""

from __future__ import annotations

from typing import Any

from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal, scan
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda, Literal, Var
from tensorir.ir.types import INT32, Scalar
from tensorir.lifting.emission.tensors import cut, neutral, renamed, shifted, spread


def added_point(e: Call) -> Expr | None:
    """A point to which its dim is added again, by this name or another, is a part.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> f = "add_dim(I, 2, 3, gather(I, clamp)(x, 2) + 2.0 × gather(I, clamp)(y, 2))"
    >>> show(Canonical(), f, x={"I": (0, 4)}, y={"I": (0, 4)})
    subset(x + 2.0 × y, I[2:3])
    """
    dim, start, stop = e.static
    found = _point(e.args[0], {}) if stop == start + 1 else None
    if found is None:
        return None
    whole, name, at = found
    if at not in whole.tensor.dims[name] or (dim != name and dim in whole.tensor.dims):
        return None
    return shifted(renamed(cut(whole, {name: Interval(at, at + 1)}), {name: dim}), dim, at - start)


_Point = tuple[Expr, str, int]


def _point(e: Expr, known: dict[int, _Point | None]) -> _Point | None:
    """The tensor, dim and index of an expression that is one point; None for others. Shared parts are `known`."""
    if id(e) not in known:
        known[id(e)] = _point_of(e, known)
    return known[id(e)]


def _point_of(e: Expr, known: dict[int, _Point | None]) -> _Point | None:
    match e:
        case Call("gather", (x, Literal(value)), ((name,), _)):
            return x, name, int(value)
        case Call(op, args) if TABLE[op].elementwise and not e.label:
            found = [_point(a, known) for a in args]
            places = {(name, at) for _, name, at in (f for f in found if f is not None)}
            if len(places) != 1:
                return None
            ((name, at),) = places
            if any(f is None and name in a.tensor.dims for f, a in zip(found, args, strict=True)):
                return None
            if not all(f is None or at in f[0].tensor.dims[name] for f in found):
                return None
            parts = [a if f is None else f[0] for f, a in zip(found, args, strict=True)]
            return call(op, *parts, static=e.static, span=e.span), name, at
        case _:
            return None


def concat_of_concat(e: Call) -> Expr | None:
    """Parts of which one is put together along the same dim are put together at once.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "concat(concat(x, y), z)", x={"I": (0, 2)}, y={"I": (2, 5)}, z={"I": (5, 6)})
    concat(x, y, z)
    """
    along = _differing(e)
    parts: list[Expr] = []
    for part in e.args:
        match part:
            case Call("concat", inner) if not part.label and _differing(part) == along:
                parts += inner
            case _:
                parts.append(part)
    return call("concat", *parts, span=e.span) if len(parts) > len(e.args) else None


def _differing(e: Call) -> list[str]:
    """The dim that tensors are put together along."""
    return [d for d, i in e.tensor.dims.items if any(a.tensor.dims[d] != i for a in e.args)]


def prefix_of_scan(e: Call) -> Expr | None:
    """A scan from the first element, behind that element, is a scan of all from the neutral element."""
    match e.args:
        case (head, tail):
            pass
        case _:
            return None
    moved, along, distance = tail, None, 0
    if isinstance(tail, Call) and tail.op == "cartesian_shift":
        moved, (along, distance) = tail.args[0], tail.static
    match moved:
        case Call("scan", (Lambda() as f, init, x), (True, dim)) if (op := _monoid(f)) is not None:
            pass
        case _:
            return None
    whole, here = e.tensor.dims.get(dim), head.tensor.dims.get(dim)
    x = shifted(x, dim, distance) if distance else x
    if whole is None or here is None or len(here) != 1 or along not in (None, dim):
        return None
    point = here.start
    source = _without_cut(x)
    element = x.tensor.element
    if point + 1 != x.tensor.dims[dim].start or point not in source.tensor.dims[dim] or not isinstance(element, Scalar):
        return None
    first = call("gather", source, literal(point, INT32), static=((dim,), "clamp"))
    if _settled(_at(head, dim, point)) != init or _settled(first) != init:
        return None
    start = spread(literal(neutral(op, element, exact=True), element), dict(init.tensor.dims.items))
    return scan(f, True, start, cut(source, {dim: whole}), dim=dim, span=moved.span)


def _monoid(f: Lambda) -> str | None:
    """The operation of a state and an element that has a neutral element, which gives way to each that comes."""
    match f.params, f.results:
        case (a, b), (Call("if", (Call("less", (x, y)), yes, no)),) if (yes, no) == (a, b):
            # a comparison with NaN takes the element, from whatever state
            return "max" if (x, y) == (b, a) else "min" if (x, y) == (a, b) else None
        case (a, b), (Call(op, (Var() as p, Var() as q)),) if {p, q} == {a, b} and TABLE[op].identity is not None:
            return op
        case _:
            return None


def _without_cut(x: Expr) -> Expr:
    """The whole that a tensor is a part of; shifts of parts are parts of shifts."""
    match x:
        case Call("subset", (inner,)):
            return _without_cut(inner)
        case Call("cartesian_shift", (inner,), (dim, distance)):
            return shifted(_without_cut(inner), dim, distance)
        case _:
            return x


def _at(x: Expr, dim: str, point: int) -> Expr:
    return call("gather", x, literal(point, INT32), static=((dim,), "clamp"))


def _settled(e: Expr) -> Expr:
    """A point by the rules above, and the same point of what was shifted, cut or renamed."""
    while isinstance(e, Call) and e.op == "gather":
        match e.args:
            case (Call("cartesian_shift", (x,), (dim, distance)), Literal(value)) if e.static[0] == (dim,):
                new: Expr | None = _at(x, dim, int(value) + distance)
            case (Call("subset", (x,)), _):
                new = call("gather", x, *e.args[1:], static=e.static)
            case (Call("rename", (x,), (((old, name),),)), Literal(value)) if e.static[0] == (name,):
                new = _at(x, old, int(value))
            case _:
                new = point_of_update(e) or point_of_added(e)
        if new is None:
            return e
        e = new
    return e


def point_of_update(e: Call) -> Expr | None:
    """A point of an update is one of what was put there, or of what was there before."""
    names, _ = e.static
    match e.args:
        case (Call("update", (x, y)), *indices) if all(isinstance(i, Literal) for i in indices):
            pass
        case _:
            return None
    if any(y.tensor.dims.get(d) != i for d, i in x.tensor.dims.items if d not in names):
        return None
    values: list[Any] = [i.value for i in indices if isinstance(i, Literal)]
    rest = [(d, v, i) for d, v, i in zip(names, values, indices, strict=True) if d in y.tensor.dims]
    if all(v in y.tensor.dims[d] for d, v, _ in rest):
        # along a dim that it lacks, what was put there is the same everywhere
        static = tuple(d for d, _, _ in rest), e.static[1]
        return call("gather", y, *(i for _, _, i in rest), static=static, span=e.span) if rest else y
    if all(v in x.tensor.dims[d] for d, v in zip(names, values, strict=True)):
        return call("gather", x, *indices, static=e.static, span=e.span)
    return None


def point_of_added(e: Call) -> Expr | None:
    """A point along a dim that was added is what there was before."""
    names, _ = e.static
    indices = e.args[1:]
    match e.args[0]:
        case Call("add_dim", (x,), (dim, start, stop)) if dim in names:
            index = indices[int(names.index(dim))]
            if not isinstance(index, Literal) or not start <= index.value < stop:
                return None
            rest = [(d, i) for d, i in zip(names, indices, strict=True) if d != dim]
            if not rest:
                return x
            static = tuple(d for d, _ in rest), e.static[1]
            return call("gather", x, *(i for _, i in rest), static=static, span=e.span)
        case _:
            return None
