"""Folds, scans, loops and scatters over whole arrays: step by step, or at once where the function is one operation."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorir.equality.reals.domain import Domain, Unsupported, literal
from tensorir.equality.reals.integers import LOGIC
from tensorir.equality.reals.numbers import Real, U, unit
from tensorir.equality.reals.residues import UNKNOWN, P, Q, Residues
from tensorir.equality.reals.tensors import BATCH, Array, Leaf, Tensor, choose, moved, on, slice_at, stacked
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Operator
from tensorir.ir.rewrite import Applier, Bound, postorder
from tensorir.ir.types import Dims, Interval, bcast

__all__ = ["FOLDS", "SEVERAL"]

MOST_ROUNDS = 1 << 14
"""Rounds after which a loop that its condition ends is no longer followed."""


def reduce(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> Tensor:
    f, init, *folded = args
    (dim,) = node.static
    interval = next(a.dims[dim] for a in folded if dim in a.dims)
    function = f.function
    one = isinstance(function, Operator) and TABLE[function.op].associative
    if one and not domain.in_order and all(leaf.absent is None for a in folded for leaf in a.leaves):
        place = node.tensor.dims
        (x,) = folded
        start = on(init, place)
        if not interval:
            return start
        total = _folded(domain, function.op, function.params[0].element, x, dim)
        return _operation(domain, function.op, function.params[0].element, start, on(total, place))
    state = on(init, function.type.params[0].dims)
    lacking = _gone([a for a in folded if dim not in a.dims], node.tensor.dims)
    for c in interval:
        state = _step(function, f, state, [slice_at(a, dim, c) for a in folded], apply, skips=True)
    found = on(state, node.tensor.dims)
    return found if lacking is None else _absent_where(found, lacking)


def _step(
    function: Any, f: Bound[Tensor], state: Tensor, args: Sequence[Tensor], apply: Applier[Tensor], skips: bool
) -> Tensor:
    """The state after one step: where an argument is absent, a fold keeps the one before."""
    places = function.type.params
    cut = [on(a, _within(a.dims, t.dims)) for a, t in zip(args, places[1:], strict=True)]
    if not skips or all(leaf.absent is None for a in cut for leaf in a.leaves):
        return on(apply(f, state, *cut), places[0].dims)
    gone = _gone(cut, places[0].dims)
    there = [replace(a, leaves=tuple(replace(leaf, absent=None) for leaf in a.leaves)) for a in cut]
    new = on(apply(f, state, *there), places[0].dims)
    return new if gone is None else choose(gone, state, new)


def _within(own: Dims, place: Dims) -> Dims:
    """The points of an argument that a parameter sees."""
    return Dims(tuple((n, i) for n, i in place.items if n in own)) if set(own.names) <= set(place.names) else own


def _gone(args: Sequence[Tensor], dims: Dims) -> Array | None:
    found: Array | None = None
    for a in args:
        for leaf in a.leaves:
            if leaf.absent is None:
                continue
            apart = tuple(k for k, n in enumerate(a.dims.names) if n not in dims)
            mask = Tensor(
                Dims(tuple((n, i) for n, i in a.dims.items if n in dims)),
                (Leaf((np.asarray(leaf.absent.any(apart)),)),),
            )
            here = on(mask, dims).only.parts[0]
            found = here if found is None else found | here
    return found


def _absent_where(x: Tensor, gone: Array) -> Tensor:
    return replace(x, leaves=tuple(replace(a, absent=gone if a.absent is None else a.absent | gone) for a in x.leaves))


def _operation(domain: Domain, op: str, element: Any, x: Tensor, y: Tensor) -> Tensor:
    """An elementwise operation of two tensors on the same points."""
    a, b = x.only, y.only
    own = domain.own(op, element, [(a, element), (b, element)])
    if own is not None:
        return Tensor(x.dims, (own,))
    if op in LOGIC:
        return Tensor(x.dims, (Leaf((LOGIC[op](a.parts[0], b.parts[0]),)),))
    if element.is_float:
        return Tensor(x.dims, (domain.compute(op, element, (a, b)),))
    return Tensor(x.dims, (domain.integers(op, element, (a, b)),))


def _folded(domain: Domain, op: str, element: Any, x: Tensor, dim: str) -> Tensor:
    """All elements along a dim by one associative operation: sums at once, others pair by pair."""
    axis, rest = x.dims.names.index(dim), x.dims.without(dim)
    if op == "plus" and element.is_float:
        return Tensor(rest, (domain.total(x.only, axis, element),))
    while (n := len(x.dims[dim])) > 1:
        half = n // 2
        i = x.dims[dim]
        first, second, left = (
            moved(x, x.dims.with_interval(dim, replace(i, start=0, stop=stop - start)), _part(axis, start, stop))
            for start, stop in ((0, half), (half, 2 * half), (2 * half, n))
        )
        found = _operation(domain, op, element, first, second)
        if n > 2 * half:
            last = slice_at(found, dim, half - 1)
            both = _operation(domain, op, element, last, slice_at(left, dim, 0))
            parts = [slice_at(found, dim, c) for c in range(half - 1)]
            found = stacked([*parts, both], found.dims, dim)
        x = found
    return slice_at(x, dim, x.dims[dim].start)


def _part(axis: int, start: int, stop: int) -> Callable[[Array], Array]:
    where = (*[slice(None)] * axis, slice(start, stop))
    return lambda a: a[where]


def contract(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> Tensor:
    """Sums of products; of floats as products of matrices of all that a number consists of."""
    element, dims = node.static
    x, y = args
    if not domain.at_once or not element.is_float or any(leaf.absent is not None for a in args for leaf in a.leaves):
        return _by_definition(node, args, apply)
    letters = {n: chr(ord("a") + k) for k, n in enumerate(dict.fromkeys([*x.dims.names, *y.dims.names]))}
    both = [d for d in x.dims if d in y.dims]
    common = {d: x.dims[d] & y.dims[d] for d in both}
    x, y = (on(a, Dims(tuple((n, common.get(n, i)) for n, i in a.dims.items))) for a in (x, y))
    out = Dims(tuple((n, i) for n, i in (*x.dims.items, *y.dims.without(*x.dims.names).items) if n not in dims))
    one, other, result = ("".join(letters[n] for n in d) for d in (x.dims, y.dims, out))
    spec = f"{one},{other}->{result}"

    def product(a: Array, b: Array) -> Array:
        return np.einsum(spec, a, b, optimize=True)

    a, b = Real.of(x.only), Real.of(y.only)
    n = 1 + sum(len(i) for d, i in (*x.dims.items, *y.dims.without(*x.dims.names).items) if d in dims)
    if not (np.isfinite(a.value).all() and np.isfinite(b.value).all()):
        return _by_definition(node, args, apply)
    size = product(np.abs(a.value), np.abs(b.value))
    error = product(np.abs(a.value) + a.error, b.error) + product(a.error, np.abs(b.value)) + n * U * size
    rounding = (
        product(np.abs(a.value) + a.rounding, b.rounding) + product(a.rounding, np.abs(b.value))
        + n * unit(element) * size
    )  # fmt: skip
    r, s = a.residues, b.residues
    p = _modular(product, r.p, s.p, P)
    unknown = product((r.q == UNKNOWN).astype(np.float64), np.ones(s.q.shape)) + product(
        np.ones(r.q.shape), (s.q == UNKNOWN).astype(np.float64)
    )
    q = _modular(product, np.where(r.q == UNKNOWN, np.uint64(0), r.q), np.where(s.q == UNKNOWN, np.uint64(0), s.q), Q)
    found = Real(product(a.value, b.value), error, rounding, Residues(p, np.where(unknown > 0, UNKNOWN, q)))
    return on(Tensor(out, (found.leaf(),)), node.tensor.dims)


def _by_definition(node: Call, args: Sequence[Any], apply: Applier[Tensor]) -> Tensor:
    assert node.definition is not None
    return apply(Bound(node.definition, {}), *args)


def _modular(product: Callable[[Array, Array], Array], a: Array, b: Array, modulus: int) -> Array:
    """A product of matrices modulo a prime below 2^31: halves of 16 bits are exact in float64."""
    low, m = np.uint64(0xFFFF), np.uint64(modulus)
    (a0, b0), (a1, b1) = (
        [(f(x)).astype(np.float64) for x in (a, b)] for f in (lambda x: x & low, lambda x: x >> np.uint64(16))
    )
    part = [product(x, y).astype(np.uint64) % m for x, y in ((a0, b0), (a0, b1), (a1, b0), (a1, b1))]
    middle = (part[1] + part[2]) % m * np.uint64((1 << 16) % modulus) % m
    return (part[0] + middle + part[3] * np.uint64((1 << 32) % modulus) % m) % m


def scan(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> Tensor:
    f, init, *levels = args
    forward, dim = node.static
    column = bcast([Dims(((dim, a.dims[dim]),)) for a in levels if dim in a.dims])[dim]
    place = f.function.type.params[0].dims
    state = on(init, place)
    states: list[Tensor] = []
    for c in list(column) if forward else list(column)[::-1]:
        state = _step(f.function, f, state, [slice_at(a, dim, c) for a in levels], apply, skips=False)
        states.append(state)
    ordered = states if forward else states[::-1]
    if not ordered:
        return Tensor(node.tensor.dims, tuple(literal(domain, 0, s, node.tensor.dims) for s in node.tensor.leaves))
    whole = Dims((*place.items, (dim, column)))
    return on(stacked(ordered, whole, dim), node.tensor.dims)


def loop(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> list[Tensor]:
    """All that a loop carries, after its rounds."""
    condition, step, *start = args
    limit = node.static.limit
    places = [a.tensor.dims for a in node.args[2:]]
    carried = [on(x, place) for x, place in zip(start, places, strict=True)]
    for k in range(MOST_ROUNDS if limit is None else limit):
        number = Tensor(Dims(), (Leaf((np.array(k, np.int32),)),))
        if not bool(domain.decided(apply(condition, number, *_seen(condition, carried)).only).all()):
            return carried
        new = apply.each(step, number, *_seen(step, carried))
        carried = [on(x, place) for x, place in zip(new, places, strict=True)]
    if limit is None:
        raise Unsupported(f"a loop runs for more than {MOST_ROUNDS} rounds")
    return carried


def _seen(f: Bound[Tensor], carried: Sequence[Tensor]) -> list[Tensor]:
    """What is carried, on the points of a function's parameters."""
    return [on(x, t.dims) for x, t in zip(carried, f.function.type.params[1:], strict=True)]


def cond(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> list[Tensor]:
    """All results of the function that is taken."""
    first, second, condition, *operands = args
    taken = first if bool(domain.decided(condition.only).all()) else second
    cut = [on(x, t.dims) for x, t in zip(operands, taken.function.type.params, strict=True)]
    return apply.each(taken, *cut)


def blocked(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> list[Tensor]:
    """All results of the function."""
    f, *operands = args
    return apply.each(f, *[on(x, t.dims) for x, t in zip(operands, f.function.type.params, strict=True)])


def scatter(node: Call, args: Sequence[Any], apply: Applier[Tensor], domain: Domain) -> Tensor:
    """Updates in rounds: the first of each element, then the second of each, in the order of `over`."""
    dims, over, mode = node.static
    f, base, *rest = args
    box = bcast([a.dims for a in rest])
    target = node.tensor.dims
    aligned = Dims(tuple((n, i & box[n] if n in box else i) for n, i in target.items if n not in dims))
    order = Dims((*((d, box[d]) for d in over), *aligned.items))
    if any(leaf.absent is not None for a in (base, *rest) for leaf in a.leaves):
        raise Unsupported("a scatter of what may be absent")
    *indices, updates = [on(a, order) for a in rest]
    base = on(base, target)
    valid, place = np.ones(order.shape, bool), {}
    for dim, index in zip(dims, indices, strict=True):
        interval, at = target[dim], domain.decided(index.only).astype(np.int64)
        inside = (at >= interval.start) & (at < interval.stop)
        if mode == "zero":
            valid &= inside
        elif not inside.all() and (mode == "checked" or not interval):
            raise Unsupported("a checked index leaves its interval")
        place[dim] = at.clip(interval.start, max(interval.start, interval.stop - 1)) - interval.start
    for k, (n, i) in enumerate(order.items):
        if n not in over:
            at = np.arange(i.start, i.stop) - target[n].start
            place[n] = np.broadcast_to(at.reshape([-1 if j == k else 1 for j in range(len(order))]), order.shape)
    if not order.size or not target.size:
        return base
    flat = np.zeros(order.size, np.int64)
    if target.names:
        flat = np.asarray(np.ravel_multi_index([place[n].reshape(-1) for n in target.names], target.shape))
    valid = valid.reshape(-1)
    sources = np.flatnonzero(valid)
    sources = sources[np.argsort(flat[sources], kind="stable")]
    targets = flat[sources]
    new = np.r_[True, targets[1:] != targets[:-1]] if targets.size else np.zeros(0, bool)
    starts = np.flatnonzero(new)
    turn = np.arange(targets.size) - np.repeat(starts, np.diff(np.r_[starts, targets.size]))
    old = moved(base, Dims(((BATCH, Interval(0, target.size)),)), lambda a: np.array(a).reshape(-1))
    values = moved(updates, Dims(((BATCH, Interval(0, order.size)),)), lambda a: np.array(a).reshape(-1))
    at_once = _elementwise(f.function)
    for k in range(int(turn.max(initial=-1)) + 1):
        now = turn == k
        here = Dims(((BATCH, Interval(0, int(now.sum()))),))
        a = moved(old, here, lambda x, t=targets[now]: x[t])
        b = moved(values, here, lambda x, s=sources[now]: x[s])
        made = on(apply(f, a, b) if at_once else _one_by_one(f, a, b, here, apply), here)
        for leaf, part in zip(old.leaves, made.leaves, strict=True):
            for whole, piece in zip(leaf.parts, part.parts, strict=True):
                whole[targets[now]] = piece
    return moved(old, target, lambda a: a.reshape(target.shape))


def _elementwise(function: Expr) -> bool:
    """Whether a function of scalars computes each of many as it computes one."""
    return all(
        not isinstance(e, Call) or TABLE[e.op].elementwise or e.op in ("make_tuple", "tuple_get")
        for e in postorder(function)
    )


def _one_by_one(f: Bound[Tensor], a: Tensor, b: Tensor, here: Dims, apply: Applier[Tensor]) -> Tensor:
    n = len(here[BATCH])
    if n > MOST_ROUNDS:
        raise Unsupported(f"{n} elements that are computed one by one")
    each = [apply(f, slice_at(a, BATCH, k), slice_at(b, BATCH, k)) for k in range(n)]
    return stacked(each, here, BATCH) if each else a


FOLDS: dict[str, Callable[[Call, Sequence[Any], Applier[Tensor], Domain], Tensor]] = {
    "reduce": reduce, "contract": contract, "scan": scan, "scatter": scatter,
}  # fmt: skip
SEVERAL: dict[str, Callable[[Call, Sequence[Any], Applier[Tensor], Domain], list[Tensor]]] = {
    "loop": loop, "cond": cond, "blocked": blocked,
}  # fmt: skip
"""What has several results, of which a node asks for one."""
