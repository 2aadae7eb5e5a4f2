"""Programs evaluated over the reals: expressions, folds, scans, loops, scatters.

Programs evaluated over the reals: every float a witness with bounds of its error and the residues of its formula.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { y ← ⟪I, 1⟫(x) × ⟪I, 1⟫(x) - x × x; }")
>>> g = parse("g(y: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { y ← (⟪I, 1⟫(x) - x) × (⟪I, 1⟫(x) + x); }")
>>> x = given(np.array([1.0, 2.0, 4.0]), np.random.default_rng(0))
>>> (a,), (b,) = evaluated(f, {"x": x}), evaluated(g, {"x": x})
>>> Real.of(a.only).value.tolist(), bool(rs.same(Real.of(a.only).residues, Real.of(b.only).residues).all())
([3.0, 12.0], True)
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.residues import UNKNOWN, P, Q, Real, Residues, U, Witnessed, unit
from tensorir.equality.reals.tensors import (
    BATCH,
    LOGIC,
    MOVES,
    TESTS,
    Array,
    Domain,
    Leaf,
    Tensor,
    Unsupported,
    batched,
    choose,
    converted,
    literal,
    moved,
    on,
    placed,
    slice_at,
    stacked,
    without,
)
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator, Var
from tensorir.ir.rewrite import Applier, Bound, evaluate, postorder
from tensorir.ir.types import BOOL, DTYPES, Scalar, bcast
from tensorir.runtime.errors import NOWHERE, refuse

__all__ = ["FOLDS", "SEVERAL", "Branches", "Unsupported", "evaluated", "given"]

# Folds, scans, loops and scatters over whole arrays: step by step, or at once where the function is one operation.


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
    """The carry, on the points of a function's parameters."""
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
    """True if a function of scalars computes each of many as it computes one."""
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


WITNESSED = Witnessed()
MOST_ELEMENTS = 1 << 23
"""Elements that one value on the way may have: beyond that a program is too large to be evaluated so."""


def given(array: Any, rng: np.random.Generator, literal: Array | None = None) -> Leaf:
    """An input: each float a variable of its own, but where `literal` holds, which is the number that it is."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return Leaf((array,))
    formal = rs.random(rng, array.shape)
    if literal is not None and literal.any():
        known = rs.embedded(np.where(literal, array.astype(np.float64), 0.0))
        formal = Residues(np.where(literal, known.p, formal.p), np.where(literal, known.q, formal.q))
    zero = np.zeros(array.shape)
    return Real(array.astype(np.float64), zero, zero, formal).leaf()


@dataclass(slots=True)
class Branches:
    """Outcomes of the conditions of programs that were visited."""

    seen: dict[int, tuple[Call, bool, bool]] = field(default_factory=dict[int, tuple[Call, bool, bool]])

    def visit(self, node: Call, condition: Array) -> None:
        _, true, false = self.seen.get(id(node), (node, False, False))
        self.seen[id(node)] = node, true or bool(condition.any()), false or not bool(condition.all())

    @property
    def count(self) -> tuple[int, int]:
        """The number of outcomes that were visited, of how many."""
        return sum(true + false for _, true, false in self.seen.values()), 2 * len(self.seen)

    @property
    def unvisited(self) -> tuple[str, ...]:
        """The conditions with an outcome that was not, and which."""
        return tuple(
            f"{node.args[0]}{_at(node.args[0])} was {'never' if not true else 'always'} true"
            for node, true, false in self.seen.values()
            if true != false
        )


def _at(e: Expr) -> str:
    return "" if e.span is NOWHERE else f" at {e.span}"


def evaluated(
    fencil: Fencil, inputs: Mapping[str, Leaf | Sequence[Leaf]], branches: Branches | None = None,
    domain: Domain = WITNESSED,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The results of a program, in their order; raises `Unsupported`, and what the program itself refuses."""
    rules = _Rules(domain, Branches() if branches is None else branches)
    env: dict[Var, Tensor] = {}
    for p in fencil.params:
        if p.name in inputs:
            leaves = inputs[p.name]
            env[p] = Tensor(p.type.dims, (leaves,) if isinstance(leaves, Leaf) else tuple(leaves))
        else:
            env[p] = Tensor(p.type.dims, tuple(literal(domain, 0, s, p.type.dims) for s in p.type.leaves))
    with np.errstate(all="ignore"):
        for c in fencil.closures:
            value = evaluate(c.value, env, rules.rule)
            output = c.output
            dims = c.target.dims
            part = on(value, dims)
            env[output] = part if c.region is None else placed(env[output], part, dict(dims.items))
    found = tuple(env[p] for p in fencil.results)
    if any(leaf.absent is not None and leaf.absent.any() for t in found for leaf in t.leaves):
        raise refuse("R01", "an index leaves its interval, or a neighbour is absent.")
    return found


@dataclass(slots=True)
class _Rules:
    """The rules of one evaluation, and what its loops gave, by their operands."""

    domain: Domain
    branches: Branches
    loops: dict[tuple[Any, ...], tuple[Any, list[Tensor]]] = field(default_factory=dict[tuple[Any, ...], Any])

    def rule(self, node: Expr, args: Sequence[Any], apply: Applier[Tensor]) -> Tensor:
        match node:
            case Literal(value, element):
                return Tensor(Dims(), (literal(self.domain, value, element),))
            case Operator(op):
                kind = node.type.result
                dims = batched(args, kind.dims)
                return _elementwise_rule(self.domain, op, node.params[0].element, dims, [on(a, dims) for a in args])
            case Call():
                return self._call(node, args, apply)
            case _:
                raise AssertionError("functions are applied, not computed")

    def _call(self, node: Call, asked: Sequence[Any], apply: Applier[Tensor]) -> Tensor:
        if node.tensor.dims.size > MOST_ELEMENTS:
            raise Unsupported(f"a value on the way has {node.tensor.dims.size} elements")
        # a variable has the points of its type, of whatever it was bound to
        args = [on(a, n.tensor.dims) if isinstance(a, Tensor) else a for a, n in zip(asked, node.args, strict=True)]
        if node.op in SEVERAL:
            # each result is asked for by a node of its own, which says which one first
            which, *rest = node.static
            key = (node.op, *map(id, asked), *rest)
            if key not in self.loops:
                self.loops[key] = asked, SEVERAL[node.op](node, args, apply, self.domain)
            return on(self.loops[key][1][which], node.tensor.dims)
        if node.op in MOVES:
            return MOVES[node.op](node, args, self.domain)
        if node.op in FOLDS:
            return FOLDS[node.op](node, args, apply, self.domain)
        if TABLE[node.op].elementwise:
            dims = batched(args, node.tensor.dims)
            operands = [on(a, dims) for a in args]
            match node.op:
                case "if":
                    return self._if(node, operands)
                case "cast":
                    return _cast(self.domain, node, operands[0])
                case "bitcast":
                    return _bitcast(self.domain, node, operands[0])
                case op:
                    return _elementwise_rule(self.domain, op, node.args[0].tensor.element, dims, operands)
        if node.definition is not None:
            return apply(Bound(node.definition, {}), *args)
        raise Unsupported(f"'{node.op}' has no meaning over the reals")

    def _if(self, node: Call, operands: Sequence[Tensor]) -> Tensor:
        condition, *both = operands
        if condition.only.parts[0].dtype != object:
            self.branches.visit(node, condition.only.parts[0])
            return _selected(*operands)
        if any(leaf.absent is not None for t in operands for leaf in t.leaves):
            raise Unsupported("inputs decide what is absent")
        made = [
            self.domain.own("if", kind, [(condition.only, BOOL), (a, kind), (b, kind)])
            for kind, a, b in zip(node.tensor.leaves, both[0].leaves, both[1].leaves, strict=True)
        ]
        return Tensor(both[0].dims, tuple([leaf for leaf in made if leaf is not None]))


# Elementwise


def _elementwise_rule(domain: Domain, op: str, element: Any, dims: Dims, args: Sequence[Tensor]) -> Tensor:
    leaves = [a.only for a in args]
    absent = None
    for leaf in leaves:
        if leaf.absent is not None:
            absent = leaf.absent if absent is None else absent | leaf.absent
    target = BOOL if op in LOGIC or op in TESTS else element
    own = domain.own(op, target, [(leaf, element) for leaf in leaves])
    if own is not None:
        return Tensor(dims, (replace(own, absent=absent),))
    if op in LOGIC:
        return Tensor(dims, (Leaf((LOGIC[op](*(a.parts[0] for a in leaves)),), absent),))
    if op in TESTS:
        numbers = [domain.decided(a) for a in leaves]
        return Tensor(dims, (Leaf((TESTS[op](*numbers),), absent),))
    if element.is_integer:
        return Tensor(dims, (replace(domain.integers(op, element, leaves), absent=absent),))
    return Tensor(dims, (replace(domain.compute(op, element, leaves), absent=absent),))


def _selected(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    found = choose(condition.only.parts[0], first, second)
    gone = condition.only.absent
    return found if gone is None else replace(found, leaves=tuple(without(leaf, gone) for leaf in found.leaves))


def _cast(domain: Domain, node: Call, x: Tensor) -> Tensor:
    source, target = node.args[0].tensor.element, node.tensor.element
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    leaf = x.only
    own = domain.own("cast", target, [(leaf, source)])
    if own is not None:
        return Tensor(x.dims, (replace(own, absent=leaf.absent),))
    if source.is_float and target.is_float:
        if unit(target) <= unit(source):
            return x
        return Tensor(x.dims, (domain.rounded(leaf, target),))
    if target.is_float:
        return Tensor(x.dims, (replace(domain.rounded(domain.whole(leaf.parts[0]), target), absent=leaf.absent),))
    a = domain.decided(leaf)
    if not source.is_float:
        return Tensor(x.dims, (Leaf((converted(a, target, DTYPES[target]),), leaf.absent),))
    if target.kind == "bool":
        return Tensor(x.dims, (Leaf((a != 0,), leaf.absent),))
    low, high = target.range.start, target.range.stop - 1
    whole = np.nan_to_num(np.trunc(a), nan=0.0)
    inside = (whole > low) & (whole < high)
    found = np.asarray(np.where(inside, whole, 0)).astype(DTYPES[target])
    found[whole <= low], found[whole >= high] = low, high
    return Tensor(x.dims, (Leaf((found,), leaf.absent),))


def _bitcast(domain: Domain, node: Call, x: Tensor) -> Tensor:
    source, target = node.args[0].tensor.element, node.tensor.element
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    if source == target:
        return x
    own = domain.own("bitcast", target, [(x.only, source)])
    if own is not None:
        return Tensor(x.dims, (replace(own, absent=x.only.absent),))
    if source.is_float or target.is_float:
        raise Unsupported("bits of floats have no meaning over the reals")
    bits = np.array(domain.decided(x.only), order="C").view(DTYPES[target])
    return Tensor(x.dims, (Leaf((bits,), x.only.absent),))
