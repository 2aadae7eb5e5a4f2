"""Padding that leaves no trace goes away: zeros that are added up, and parts of what is cut off again.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> wide = "update(add_dim(I, 0, 8, 0.0), x)"
>>> show(Canonical(), f"reduce(+, 0.0, I)({wide} × {wide})", x={"I": (0, 6)})
reduce(+, 0.0, I)(x × x)
>>> show(Canonical(), f"subset(exp({wide}), I[0:6])", x={"I": (0, 6)})
exp(x)
>>> show(Canonical(), f"if pos(I, {wide}) < 7 then {wide} else 0.0", x={"I": (0, 6)})
update(add_dim(I, 0, 8, 0.0), x)
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tensorir.ir.build import call, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Operator
from tensorir.ir.types import Interval, Scalar, TensorType
from tensorir.lifting.emission.tensors import constant_of, filled, renamed, shifted, spread
from tensorir.lifting.rewrites.nested_folds import outdoes
from tensorir.runtime.memory import RecentCache

Cuts = Mapping[str, Interval]
WITHIN = ("clamp", "zero")
"""Reads that cannot fail."""

PADDED: RecentCache[int, tuple[Expr, frozenset[str]]] = RecentCache("dims along which tensors are padded", 4096)
"""By the identity of a tensor, which is kept beside it: to compare tensors costs more than to look at them."""


def sum_of_padded(e: Call) -> Expr | None:
    """A sum over a dim does not need the places where every factor is a zero."""
    match e:
        case Call("reduce", (Operator("plus"), init, x), (dim,)):
            inside = _inside(x, dim)
            if inside is None or inside == x.tensor.dims[dim] or dim in init.tensor.dims:
                return None
            smaller = restricted(x, {dim: inside})
            return None if smaller is None else _fold(e, init, smaller, dim)
        case _:
            return None


def extreme_of_padded(e: Call) -> Expr | None:
    """A maximum over a dim does not need the places where nothing is more than what it starts from.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "reduce(max, 0.0, I)(update(add_dim(I, 0, 8, -1.0), x))", x={"I": (0, 6)})
    reduce(max, 0.0, I)(x)
    """
    match e:
        case Call("reduce", (Operator("min" | "max" as op), init, Call("update", (base, part)) as x), (dim,)):
            first, same = constant_of(init), constant_of(base)
            if first is None or same is None or dim not in part.tensor.dims or dim in init.tensor.dims:
                return None
            inside = part.tensor.dims[dim]
            if inside == x.tensor.dims[dim] or not outdoes(op, first.value, same.value):
                return None
            smaller = restricted(x, {dim: inside})
            return None if smaller is None else _fold(e, init, smaller, dim)
        case _:
            return None


def fold_beside_constant(e: Call) -> Expr | None:
    """A sum, or a maximum, does not need the part beside it where one number adds nothing.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "reduce(+, 0.0, I)(concat(x, add_dim(I, 3, 8, 0.0)))", x={"I": (0, 3)})
    reduce(+, 0.0, I)(x)
    """
    match e:
        case Call("reduce", (f, init, Call("concat", parts) as x), static):
            known = [constant_of(part) for part in parts]
        case _:
            return None
    rest = [part for part, c in zip(parts, known, strict=True) if c is None]
    same, element = next((c for c in known if c is not None), None), x.tensor.element
    if same is None or len(rest) != 1 or not isinstance(element, Scalar):
        return None
    if any(c is not None and repr(c.value) != repr(same.value) for c in known):
        return None
    padded = call("update", filled(same.value, element, dict(x.tensor.dims.items)), *rest)
    fold = call("reduce", f, init, padded, static=static, span=e.span)
    return sum_of_padded(fold) or extreme_of_padded(fold) if isinstance(fold, Call) else None


def cut_of_padded(e: Call) -> Expr | None:
    """A part of what was padded needs less padding, or none."""
    return restricted(e.args[0], dict(e.static[0].items))


def cut_of_wider(e: Call) -> Expr | None:
    """What meets something smaller needs no padding around it.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "update(add_dim(I, 0, 8, 0.0), x) + y", x={"I": (0, 6)}, y={"I": (0, 6)})
    x + y
    """
    dims = dict(e.tensor.dims.items)
    if all(dims[d] == i for a in e.args for d, i in a.tensor.dims.items):
        return None
    made = [restricted(a, dims) for a in e.args]
    if all(b is None or b is a for a, b in zip(e.args, made, strict=True)):
        return None
    args = [a if b is None else b for a, b in zip(e.args, made, strict=True)]
    return call(e.op, *args, static=e.static, span=e.span)


def choice_of_padded(e: Call) -> Expr | None:
    """What is padded behind a bound of coordinates is padded, and needs no choice."""
    c, x, y = e.args
    same, element, dims = constant_of(y), e.tensor.element, dict(e.tensor.dims.items)
    bounds = _bounds(c, dims)
    if same is None or bounds is None or not isinstance(element, Scalar) or not bounds.keys() <= set(x.tensor.dims):
        return None
    if not all(bounds.values()):
        return filled(same.value, element, dims)
    inner = restricted(x, {**dims, **bounds})
    if inner is None or inner is x:
        return inner
    missing = {d: i for d, i in dims.items() if d not in inner.tensor.dims}
    return call("update", filled(same.value, element, dims), spread(inner, missing), span=e.span)


def _bounds(condition: Expr, dims: Cuts) -> dict[str, Interval] | None:
    """The box of coordinates on which a condition holds, along those dims that it bounds; None where it is none."""
    match condition:
        case Call("and", (a, b)):
            one, other = _bounds(a, dims), _bounds(b, dims)
            if one is None or other is None:
                return None
            return {**other, **{d: i & other.get(d, i) for d, i in one.items()}}
        case Call("less" | "less_equal" | "greater_equal" | "greater" as op, (Call("pos", _, (dim,)), Literal(value))):
            bound = int(value) + (op in ("less_equal", "greater"))
            first, last = dims[dim].start, dims[dim].stop
            return {dim: dims[dim] & (Interval(first, bound) if op.startswith("less") else Interval(bound, last))}
        case _:
            return None


def _fold(e: Call, init: Expr, x: Expr, dim: str) -> Expr:
    f = e.args[0]
    assert isinstance(f, Operator)
    rest = x.tensor.on(x.tensor.dims.without(dim))
    wanted = e.tensor.dims.names
    state = TensorType(rest.element, rest.dims if set(wanted) == set(rest.dims.names) else f.params[0].dims)
    return reduce(operator(f.op, state, rest), init, x, dim=dim, span=e.span)


def _inside(x: Expr, dim: str) -> Interval | None:
    """Where along a dim a tensor is anything else than padding that is zero."""
    match x:
        case Call("update", (base, part)) if dim in part.tensor.dims:
            zero = constant_of(base)
            return part.tensor.dims[dim] if zero is not None and zero.value == 0 else None
        case Call("multiplies", (a, b)):
            first, second = _inside(a, dim), _inside(b, dim)
            return None if first is None or second is None else first | second
        case Call("cast", (y,)):
            return _inside(y, dim)
        case Call("gather", (y, *indices), (dims, mode)) if mode in WITHIN:
            return None if dim in dims or any(dim in i.tensor.dims for i in indices) else _inside(y, dim)
        case Call("rename", (y,), (pairs,)):
            return _inside(y, {new: old for old, new in pairs}.get(dim, dim))
        case Call("split_dim", (y,), (_, outer, inner, _)) if dim not in (outer, inner):
            return _inside(y, dim)
        case Call("merge_dims", (y,), (_, _, merged)) if dim != merged:
            return _inside(y, dim)
        case Call("reduce", (Operator("plus"), Literal(value), y), (other,)) if not value and other != dim:
            return _inside(y, dim)
        case _:
            return None


_Known = dict[tuple[int, frozenset[tuple[str, Interval]]], Expr | None]
"""Parts of tensors that are known, by the identity of the tensor and by the cuts."""


def restricted(x: Expr, cuts: Cuts, known: _Known | None = None) -> Expr | None:
    """A part of a tensor, where it takes no cut to have it; `known` keeps the parts of what is shared."""
    cuts = {d: i for d, i in cuts.items() if d in x.tensor.dims and x.tensor.dims[d] != i}
    if not cuts:
        return x
    if not cuts.keys() <= padded_along(x):
        return None
    known = {} if known is None else known
    key = (id(x), frozenset(cuts.items()))
    if key not in known:
        known[key] = _restricted(x, cuts, known)
    return known[key]


def padded_along(x: Expr) -> frozenset[str]:
    """The dims along which a part of a tensor may take no cut: those that are added, or padded, somewhere below.

    A chain of stencils has none, which tells at once that no part of it is worth a look at each of its stages.

    >>> from tensorir.text import parse_expr
    >>> sorted(padded_along(parse_expr("exp(add_dim(I, 0, 8, 1.0)) + 2.0", [])))
    ['I']
    """
    stack: list[tuple[Expr, bool]] = [(x, False)]
    while stack:
        node, ready = stack.pop()
        if not isinstance(node, Call) or PADDED.get(id(node)) is not None:
            continue
        if ready:
            PADDED.put(id(node), (node, _padded_along(node)))
        else:
            stack.append((node, True))
            stack += [(c, False) for c in node.args]
    return _known_padding(x)


def _known_padding(x: Expr) -> frozenset[str]:
    found = PADDED.get(id(x))
    return frozenset() if found is None else found[1]


def _padded_along(x: Call) -> frozenset[str]:
    below = [_known_padding(a) for a in x.args]
    match x:
        case Call("update", (base, part)):
            whole = x.tensor.dims
            cut_here = {d for d, i in whole.items if d not in part.tensor.dims or part.tensor.dims[d] != i}
            return below[1] | cut_here if constant_of(base) is not None else frozenset()
        case Call("rename", _, (pairs,)):
            after: dict[str, str] = dict(pairs)
            return frozenset(after.get(d, d) for d in below[0])
        case Call("add_dim", _, (dim, _, _)):
            return below[0] | {dim}
        case Call("split_dim", _, (dim, outer, _, _)):
            return below[0] - {dim} | (frozenset[str]({outer}) if dim in below[0] else frozenset[str]())
        case Call("merge_dims", _, (outer, inner, _)):
            return below[0] - {outer, inner}
        case Call("reduce", (Operator(), _, _), (dim,)):
            return below[2] - {dim}
        case Call("gather", (y, *indices), (dims, _)):
            # a dim of the operand and of indices is cut in all of them
            whole = [y.tensor.dims.without(*dims), *(i.tensor.dims for i in indices)]
            kept = [below[0] - set(dims), *below[1:]]
            found = frozenset[str]().union(*kept)
            return frozenset(d for d in found if all(d in k for k, w in zip(kept, whole, strict=True) if d in w))
        case Call("cartesian_shift" | "pos"):
            return below[0]
        case Call(op) if TABLE[op].elementwise:
            return frozenset[str]().union(*below)
        case _:
            return frozenset()


def _restricted(x: Expr, cuts: Cuts, known: _Known) -> Expr | None:
    match x:
        case Call("update", (base, part)):
            return _less_padding(x, base, part, cuts, known)
        case Call("rename", (y,), (pairs,)):
            before = {new: old for old, new in pairs}
            inner = restricted(y, {before.get(d, d): i for d, i in cuts.items()}, known)
            return None if inner is None else renamed(inner, dict(pairs))
        case Call("cartesian_shift", (y,), (dim, by)):
            inner = restricted(y, {d: i.shifted(-by) if d == dim else i for d, i in cuts.items()}, known)
            return None if inner is None else shifted(inner, dim, by)
        case Call("add_dim", (y,), (dim, start, stop)):
            new = cuts.get(dim, Interval(start, stop))
            inner = restricted(y, {d: i for d, i in cuts.items() if d != dim}, known)
            return None if inner is None else call("add_dim", inner, static=(dim, new.start, new.stop), span=x.span)
        case Call("pos", (y,)):
            return _moved(x, restricted(y, cuts, known))
        case Call("gather", (y, *indices), (dims, mode)) if mode in WITHIN:
            inner = restricted(y, {d: i for d, i in cuts.items() if d not in dims}, known)
            places = [restricted(i, cuts, known) for i in indices]
            if inner is None or any(i is None for i in places):
                return None
            return call("gather", inner, *(i for i in places if i is not None), static=x.static, span=x.span)
        case Call("split_dim", (y,), (dim, outer, inner, size)) if inner not in cuts and dim not in cuts:
            whole = {d: i for d, i in cuts.items() if d != outer}
            if outer in cuts:
                whole[dim] = Interval(cuts[outer].start * size, cuts[outer].stop * size)
            return _moved(x, restricted(y, whole, known))
        case Call("merge_dims", (y,), (_, _, merged)) if merged not in cuts:
            return _moved(x, restricted(y, cuts, known))
        case Call("reduce", (Operator(), init, y), (dim,)) if dim not in cuts and not init.tensor.dims:
            inner = restricted(y, cuts, known)
            return None if inner is None else _fold(x, init, inner, dim)
        case Call(op, args) if TABLE[op].elementwise:
            made = [(restricted(a, cuts, known), a) for a in args]
            if all(b is None or b is a for b, a in made):
                return None
            new = call(op, *(a if b is None else b for b, a in made), static=x.static, span=x.span)
            return new if all(new.tensor.dims[d] == i for d, i in cuts.items()) else None
        case _:
            return None


def _moved(x: Call, inner: Expr | None) -> Expr | None:
    """What an expression of one operand makes of another one."""
    return None if inner is None else call(x.op, inner, static=x.static, span=x.span)


def reshaped_number(e: Call) -> Expr | None:
    """One number everywhere is that along dims that are merged, or split, and at a point.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "x × split_dim(I, A, B, 2)(add_dim(I, 0, 6, 1.0))", x={"A": (0, 3)})
    x × add_dim(B, 0, 2, add_dim(A, 0, 3, 1.0))
    """
    x, *indices = e.args
    same, element = constant_of(x), e.tensor.element
    if same is None or not isinstance(element, Scalar) or not all(isinstance(i, Literal) for i in indices):
        return None
    inside = e.op != "gather" or e.static[1] == "clamp"
    return filled(same.value, element, dict(e.tensor.dims.items)) if inside else None


def padding_with_the_same(e: Call) -> Expr | None:
    """One number put where that is everywhere changes nothing.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> show(Canonical(), "x + update(add_dim(I, 0, 8, 1.0), add_dim(I, 0, 6, 1.0))", x={"I": (0, 8)})
    x + add_dim(I, 0, 8, 1.0)
    """
    base, part = e.args
    same, put = constant_of(base), constant_of(part)
    return base if same is not None and put is not None and repr(same.value) == repr(put.value) else None


def padding_of_padded(e: Call) -> Expr | None:
    """Padding around padding with the same number is one, also where a dim was split in between.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> inner = "update(add_dim(I, 0, 6, 0.0), x)"
    >>> show(Canonical(), f"update(add_dim(I, -1, 7, 0.0), {inner})", x={"I": (2, 4)})
    update(add_dim(I, -1, 7, 0.0), x)
    """
    base, part = e.args
    same, element, dims = constant_of(base), e.tensor.element, dict(e.tensor.dims.items)
    if same is None or not isinstance(element, Scalar):
        return None
    match part:
        case Call("update", (inside, x)) if constant_of(inside) == same:
            return call("update", base, spread(x, dict(part.tensor.dims.items)), span=e.span)
        case Call("split_dim", (Call("update", (inside, _)) as x,), (dim, outer, inner, _)):
            kept = all(dims.get(d) == part.tensor.dims[d] for d in (outer, inner))
            if constant_of(inside) != same or not kept or dim in dims:
                return None
            whole = {d: i for d, i in dims.items() if d not in (outer, inner)} | {dim: x.tensor.dims[dim]}
            missing = {d: part.tensor.dims[d] for d in part.tensor.dims if d not in (outer, inner, *x.tensor.dims)}
            padded = call("update", filled(same.value, element, whole), spread(x, missing))
            return call("split_dim", padded, static=part.static, span=e.span)
        case _:
            return None


def concat_of_padded(e: Call) -> Expr | None:
    """Parts with the same number around them that meet where they are put together are one part with it around.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> parts = "update(add_dim(I, 0, 3, 0.0), x), update(add_dim(I, 3, 9, 0.0), y)"
    >>> show(Canonical(), f"concat({parts})", x={"I": (2, 3)}, y={"I": (3, 6)})
    update(add_dim(I, 0, 9, 0.0), concat(x, y))
    """
    whole, element = dict(e.tensor.dims.items), e.tensor.element
    inner: list[Expr] = []
    same: Literal | None = None
    for part in e.args:
        match part:
            case Call("update", (base, x)) if not part.label and (found := constant_of(base)) is not None:
                if same is not None and same != found:
                    return None
                same = found
                inner.append(spread(x, {d: i for d, i in part.tensor.dims.items if i != whole[d]}))
            case _:
                return None
    along = [d for d, i in whole.items() if any(p.tensor.dims[d] != i for p in e.args)]
    if same is None or len(along) != 1 or not isinstance(element, Scalar):
        return None
    (dim,) = along
    dims = {frozenset((d, i) for d, i in x.tensor.dims.items if d != dim) for x in inner}
    meets = all(a.tensor.dims[dim].stop == b.tensor.dims[dim].start for a, b in pairwise(inner))
    if len(dims) > 1 or not meets:
        return None
    return call("update", filled(same.value, element, whole), call("concat", *inner), span=e.span)


def merge_of_padded(e: Call) -> Expr | None:
    """What is padded along the outer one of two dims that are merged is padded along the merged one.

    >>> from tensorir.passes.base import show
    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> padded = "update(add_dim(I, 0, 4, add_dim(J, 0, 3, 1.0)), x)"
    >>> show(Canonical(), f"merge_dims(I, J, K)({padded})", x={"I": (0, 2), "J": (0, 3)})
    update(add_dim(K, 0, 12, 1.0), merge_dims(I, J, K)(x))
    """
    match e:
        case Call("merge_dims", (Call("update", (base, part)) as x,), (outer, inner, _) as static):
            same, element = constant_of(base), e.tensor.element
        case _:
            return None
    whole = x.tensor.dims[inner]
    if (
        same is None
        or not isinstance(element, Scalar)
        or whole.start
        or part.tensor.dims.get(inner) not in (None, whole)
    ):
        return None
    made = call("merge_dims", spread(part, {d: x.tensor.dims[d] for d in (outer, inner)}), static=static, span=e.span)
    return call("update", filled(same.value, element, dict(e.tensor.dims.items)), made, span=e.span)


def _less_padding(x: Call, base: Expr, part: Expr, cuts: Cuts, known: _Known) -> Expr | None:
    same, element = constant_of(base), x.tensor.element
    inner = restricted(part, {d: part.tensor.dims[d] & i for d, i in cuts.items() if d in part.tensor.dims}, known)
    if same is None or inner is None or not isinstance(element, Scalar):
        return None
    whole = {d: cuts.get(d, i) for d, i in x.tensor.dims.items}
    if all(d in inner.tensor.dims and inner.tensor.dims[d] == i for d, i in whole.items()):
        return inner
    if not inner.tensor.dims.size:
        return filled(same.value, element, whole)
    return call("update", filled(same.value, element, whole), inner)
