"""A program for all sizes up to a bound: its intervals are those at the bound, its sizes are numbers that are passed.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x; y[I[1:n-1]] ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> print(padded_program(f, {"n": 100}).program)
f(y: tensor<float, I[0:100]>, x: tensor<float, I[0:100]>, n: tensor<int>) {
  y ←
    if pos(I, add_dim(I, 0, 100, false)) < n
      then update(
        x,
        if pos(I, add_dim(I, 1, 99, false)) < n - 1
          then ⟪I, 1⟫(x) - ⟪I, -1⟫(x)
        else subset(x, I[1:99])
      )
    else 0.0;
}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.distribution.padding import AffineEnds, Masking, affine_ends, all_of, fitted, masked
from tensorir.distribution.refusals import monoid_of
from tensorir.distribution.whole_program import zero
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, cut, fencil, literal, operator, placed, var
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Call, Expr, Fencil, Folding, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, substitute, with_label
from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Scalar, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.errors import refuse
from tensorir.text.sizes import Template

# How each builtin is computed on padded intervals, so that its points that count are what they are without padding.
#
# A rule gets a node, and what its operands have become; what it gives is then put on the hull of the node's
# intervals.

Rule = Callable[[Masking, Call, Sequence[Expr]], Expr]

FIXED = "give the sizes of {} their values."


def unchanged(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """The same of what the operands have become."""
    return call(node.op, *args, static=node.static, span=node.span)


# Moves


def _placed(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """A call whose static parameters say where it has points: those of the hull."""
    return placed(node, args, masking.dims(node))


def _mapped(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """A call whose access maps are the same at all sizes is right at points that count, whatever the others hold."""
    row = TABLE[node.op]
    numbers = range(sum(isinstance(k, int) and not isinstance(k, bool) for k in node.static))
    if any(masking.ends.number(node, k).terms for k in numbers):
        raise refuse("B13", f"a number of '{node.op}' is a size.", "give the sizes their values.", at=node.span)
    for arg, access in zip(node.args, node.accesses or (), strict=row.reads is not None):
        for d in access.uncut if access else ():
            if (d in arg.tensor.dims and masking.varies(arg, d)) or (d in node.tensor.dims and masking.varies(node, d)):
                message = f"'{node.op}' reads all points along {d}, whose extent is a size."
                raise refuse("B13", message, FIXED.format(d), at=node.span)
    return unchanged(masking, node, args)


def _shift(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """A shift by a size, as of periodic boundaries, reads at coordinates that are computed."""
    offset = masking.ends.number(node)
    if not offset.terms:
        return unchanged(masking, node, args)
    dim = node.static.dim
    here = masking.at(dim, masking.hull(masking.ends.along(node, dim)))
    index = call("plus", here, masking.scalar(offset))
    return call("gather", args[0], index, static=((dim,), "clamp"), span=node.span)


def _pos(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    dim = node.static.dim
    return masking.at(dim, masking.hull(masking.ends.along(node, dim)))


def _concat(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """A join at sizes up to a bound: before the coordinate where a part ends the one operand counts, after it the
    other.
    """
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    order = sorted(range(len(args)), key=lambda k: (types[k][dim].start, types[k][dim].stop))
    joined = args[order[0]]
    for k in order[1:]:
        start, _ = masking.ends.along(node.args[k], dim)
        before, after = joined.tensor.dims[dim], args[k].tensor.dims[dim]
        both = before & after
        if not start.terms:
            both = Interval(start.constant, start.constant)
        parts = [_part(joined, dim, before.start, both.start), _part(args[k], dim, both.stop, after.stop)]
        if after.start < both.start and start.terms:
            parts[0] = _part(args[k], dim, after.start, both.start)
        if before.stop > both.stop and start.terms:
            parts[1] = _part(joined, dim, both.stop, before.stop)
        if both:
            first = call("less", masking.at(dim, both), masking.scalar(start))
            a, b = (fitted(x, Dims(((dim, both),))) for x in (joined, args[k]))
            parts.insert(1, call("if", first, a, b, span=node.span))
        full = [p for p in parts if p.tensor.dims[dim]]
        joined = call("concat", *full, span=node.span) if len(full) > 1 else full[0]
    return joined


def _part(x: Expr, dim: str, start: int, stop: int) -> Expr:
    return cut(x, Dims(((dim, Interval(start, max(start, stop)) & x.tensor.dims[dim]),)))


def _update(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    x, y = args
    whole, part = node.args
    y = fitted(y, Dims(tuple((d, i & x.tensor.dims[d]) for d, i in y.tensor.dims.items)))
    counts = masking.inside(part, part.tensor.dims, whole)
    if counts is not None:
        y = masked(cut(counts, y.tensor.dims), y, cut(x, y.tensor.dims))
    return call("update", x, y, span=node.span)


def _merge(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    inner = node.static.inner
    if masking.varies(node.args[0], inner):
        message = f"'merge_dims' counts by the extent of {inner}, which is a size."
        raise refuse("B13", message, FIXED.format(inner), at=node.span)
    return unchanged(masking, node, args)


def _split(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    dim, _, inner, n = node.static
    interval = args[0].tensor.dims[dim]
    if masking.varies(node, inner) or interval.start % n or interval.stop % n:
        raise refuse("B13", f"'split_dim' parts {dim} by what depends on a size.", FIXED.format(dim), at=node.span)
    return unchanged(masking, node, args)


# Folds


def _fold(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """Points that do not count are folded as what changes nothing, or passed over."""
    fold = node.fold
    assert fold is not None
    if fold.row.states:
        return _states(masking, fold, node, args)
    dim = fold.dim
    which = next(a for a in fold.operands if dim in a.tensor.dims)
    counts = _counted(masking, which, dim)
    if counts is None:
        return unchanged(masking, node, args)
    padded = unchanged(masking, node, args)
    assert isinstance(padded, Call)
    monoid, element = monoid_of(padded), node.tensor.element
    if monoid is None or not isinstance(element, Scalar):
        return _skipping(masking, node, args, counts)
    each = monoid.each
    if each is None:
        each = args[2]
    elif any(isinstance(e, (Lambda, Operator)) for e in postorder(each)):
        return _skipping(masking, node, args, counts)
    else:
        each = substitute(each, dict(zip(monoid.params, args[2:], strict=True)))
    folded = _neutralised(each, counts, monoid.op, element, args[1], dim)
    state = node.tensor.on(padded.tensor.dims)
    return call(node.op, operator(monoid.op, state, state), args[1], folded, static=node.static, span=node.span)


def _neutralised(each: Expr, counts: Expr, op: str, element: Scalar, init: Expr, dim: str) -> Expr:
    """The operand of a fold, with the neutral element at points that do not count."""
    match each:
        # a sum of products stays one: from +0 on, a product of zeros changes nothing
        case Call("multiplies", (a, b)) if op == "plus" and all(dim in f.tensor.dims for f in (a, b)):
            if isinstance(init, Literal) and init.value == 0 and str(init.value)[0] != "-":
                nothing = literal(0, element)
                return call("multiplies", *(call("if", counts, f, nothing) for f in (a, b)), span=each.span)
        case _:
            pass
    identity = TABLE[op].identity
    assert identity is not None
    nothing = literal(-0.0 if op == "plus" and element.is_float else identity(element), element)
    return call("if", counts, each, nothing, span=each.span)


def _counted(masking: Masking, node: Expr, dim: str) -> Expr | None:
    """The condition that a tensor has a point along a dim that is folded; None where its interval is one at all
    sizes.
    """
    if dim.startswith("_NB_") and masking.varies(node, dim):
        raise refuse("B13", f"how many neighbours there are along {dim} is a size.", FIXED.format(dim), at=node.span)
    return masking.inside(node, [dim])


def _skipping(masking: Masking, node: Call, args: Sequence[Expr], counts: Expr) -> Expr:
    """A fold, or a scan, whose state stays what it is where nothing counts."""
    f, init, *values = args
    if isinstance(f, Operator):
        params = tuple(masking.fresh("x", t) for t in f.params)
        f = Lambda(params, (call(f.op, *params, span=f.span),), f.span)
    assert isinstance(f, Lambda)
    here = masking.fresh("counts", TensorType(BOOL))
    state = f.params[0]
    step = call("if", here, f.body, state, span=f.body.span)
    function = replace(f, params=(*f.params, here), results=(step,))
    return call(node.op, function, init, *values, counts, static=node.static, span=node.span)


def _states(masking: Masking, fold: Folding, node: Call, args: Sequence[Expr]) -> Expr:
    """A scan at sizes up to a bound: points before the first leave the state, and nobody reads those after the last."""
    begin = masking.ends.along(node, fold.dim)[0 if fold.forward else 1]
    counts = _counted(masking, node, fold.dim)
    if counts is None or not begin.terms:
        return unchanged(masking, node, args)
    return _skipping(masking, node, args, counts)


def _contract(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    dims = [d for d in node.static.dims if masking.varies(node.args[0], d)]
    factors = [masked(masking.inside(a, dims), x, zero(x.tensor.element)) for a, x in zip(node.args, args, strict=True)]
    return unchanged(masking, node, factors)


def _sort(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """A sort at sizes up to a bound: points that do not count come last."""
    dim, keys, descending = node.static
    start, stop = masking.ends.along(node, dim)
    if start.terms:
        message = f"where the points that are sorted begin along {dim} is a size."
        raise refuse("B13", message, FIXED.format(dim), at=node.span)
    if not stop.terms:
        return unchanged(masking, node, args)
    inside = masking.inside(node, [dim])
    assert inside is not None
    key = inside if descending else call("not", inside)
    ordered = call("sort", key, *args, static=(dim, keys + 1, descending), span=node.span)
    columns = [call("tuple_get", ordered, static=(k,)) for k in range(1, len(args) + 1)]
    return columns[0] if len(columns) == 1 else call("make_tuple", *columns)


# Indirect access


def _gather(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """Indices are looked at where they count, and compared with where the tensor really ends."""
    dims, mode = node.static
    source, *before = node.args
    x, *indices = args
    where = [masking.inside(i, masking.varying(i)) for i in before]
    if not any(masking.varies(source, d) for d in dims):
        if mode == "checked":
            indices = [_or_at(w, i, x.tensor.dims[d].start) for w, d, i in zip(where, dims, indices, strict=True)]
        return call("gather", x, *indices, static=node.static, span=node.span)
    pairs = list(zip(dims, indices, strict=True))
    match mode:
        case "zero":
            gathered = call("gather", x, *indices, static=node.static, span=node.span)
            return masked(all_of(_within(masking, source, d, i) for d, i in pairs), gathered, zero(x.tensor.element))
        case "clamp":
            indices = [_clamped(masking, source, d, i) for d, i in pairs]
            return call("gather", x, *indices, static=node.static, span=node.span)
        case _:
            gathered = call("gather", x, *indices, static=(dims, "clamp"), span=node.span)
            return _checked(masking, gathered, source, pairs, where, node)


def _scatter(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """Updates that do not count go outside of everything, where they are dropped."""
    dims, over, mode = node.static
    source, *before = node.args[1:]
    f, base, *indices, updates = args
    where = [masking.inside(i, masking.varying(i)) for i in before]
    pairs = list(zip(dims, indices, strict=True))
    if mode == "clamp":
        indices = [_clamped(masking, source, d, i) for d, i in pairs]
    indices[0] = _or_at(all_of(where), indices[0], base.tensor.dims[dims[0]].stop)
    scattered = call("scatter", f, base, *indices, updates, static=(dims, over, "zero"), span=node.span)
    return _checked(masking, scattered, source, pairs, where, node) if mode == "checked" else scattered


def _neighbours(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    """Entries of a table that is computed are looked at where they count; the call looks at one that is passed."""
    table, source = node.args
    if isinstance(table, Var):
        return unchanged(masking, node, args)
    _, dim = neighbour_source(table.tensor)
    entries, x = args
    where = masking.inside(table, masking.varying(table))
    # what leads nowhere is read by nobody
    first = x.tensor.dims[dim].start if x.tensor.dims[dim] else -1
    read = call(node.op, _or_at(where, entries, first), x, static=node.static, span=node.span)
    if not masking.varies(source, dim):
        return read
    absent = call("eq", _wide(entries), literal(-1, INT64))
    return _checked(masking, read, source, [(dim, entries)], [where, call("not", absent)], node)


def _checked(
    masking: Masking, value: Expr, source: Expr, pairs: Sequence[tuple[str, Expr]], where: Sequence[Expr | None],
    node: Call,
) -> Expr:  # fmt: skip
    """A value with a look at the indices that count."""
    for dim, index in pairs:
        fine = _within(masking, source, dim, index)
        if (counts := all_of(where)) is not None:
            fine = call("or", call("not", counts), fine)
        start, stop = masking.ends.along(source, dim)
        message = f"an index of {dim} is outside of {dim}[{start}:{stop}]."
        value = call("assert_", value, fine, static=(message,), span=node.span)
    return value


def _within(masking: Masking, source: Expr, dim: str, index: Expr) -> Expr:
    """True if an index is one of the points that a tensor has."""
    start, stop = (_wide(masking.scalar(end)) for end in masking.ends.along(source, dim))
    return call("and", call("greater_equal", _wide(index), start), call("less", _wide(index), stop))


def _clamped(masking: Masking, source: Expr, dim: str, index: Expr) -> Expr:
    """The nearest point that a tensor has."""
    start, stop = (_wide(masking.scalar(end)) for end in masking.ends.along(source, dim))
    return call("max", start, call("min", _wide(index), call("minus", stop, literal(1, INT64))))


def _or_at(counts: Expr | None, index: Expr, otherwise: int) -> Expr:
    """An index where it counts."""
    if counts is None:
        return index
    return masked(counts, _wide(index), literal(otherwise, INT64))


def _wide(index: Expr) -> Expr:
    """Whole numbers of any type as int64; what it does not hold is larger than every coordinate."""
    if _element(index) == SCALARS["uint64"]:
        index = call("min", index, literal(INT64.range.stop - 1, SCALARS["uint64"]))
    return index if _element(index) == INT64 else call("cast", index, static=(INT64,))


def _element(index: Expr) -> Scalar:
    element = index.tensor.element
    assert isinstance(element, Scalar)
    return element


# Control and effects


def _loop(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    _, limit = node.static
    if limit is None:
        return unchanged(masking, node, args)
    form = masking.ends.number(node, 1)
    if not form.terms:
        return unchanged(masking, node, args)
    condition, step, *carried = args
    assert isinstance(condition, Lambda)
    more = call("and", call("less", condition.params[0], masking.scalar(form)), condition.body, span=condition.span)
    again = replace(condition, results=(more,))
    most = masking.hull((form, form)).stop
    return call("loop", again, step, *carried, static=(node.static.carried, most), span=node.span)


def _assert(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    counts = masking.inside(node.args[1], masking.varying(node.args[1]))
    condition = args[1] if counts is None else call("or", call("not", counts), args[1])
    return call("assert_", args[0], condition, static=node.static, span=node.span)


def _print(masking: Masking, node: Call, args: Sequence[Expr]) -> Expr:
    for a in node.args:
        if varying := masking.varying(a):
            message = f"what is printed has padding along {varying[0]}."
            raise refuse("B13", message, "print results of the call instead.", at=node.span)
    return unchanged(masking, node, args)


RULES: dict[str | Control, Rule] = {
    "cartesian_shift": _shift,
    "concat": _concat,
    "update": _update,
    "pos": _pos,
    "merge_dims": _merge,
    "split_dim": _split,
    "contract": _contract,
    "sort": _sort,
    "gather": _gather,
    Control.FOLD: _fold,
    Control.UPDATES: _scatter,
    Control.LOOP: _loop,
    Control.BRANCHES: unchanged,
    Control.BLOCKS: unchanged,
}
"""By builtin, or by how a builtin applies functions."""


def _rule(node: Call) -> Rule:
    """The rule of a builtin; one whose operands are read at the same points is computed at all of them."""
    row = TABLE[node.op]
    if rule := RULES.get(row.control or node.op):
        return rule
    if row.table:
        return _neighbours
    if row.effect:
        return _assert if row.checks else _print
    if row.placed is not None:
        return _placed
    return unchanged if row.elementwise or (row.moves and not row.relocates) else _mapped


@dataclass(frozen=True, slots=True)
class PaddedProgram:
    """A program on intervals that hold those of all sizes."""

    program: Fencil
    ends: AffineEnds
    fields: Mapping[str, Var]
    """By the name of each parameter that is an array, the one of the template."""
    sizes: Mapping[str, str]
    """By size, the parameter that it is."""


NOTHING: Mapping[str, int] = {}


def padded_program(template: Template, most: Mapping[str, int], others: Mapping[str, int] = NOTHING) -> PaddedProgram:
    """The program for sizes up to `most`, at the values of all other sizes.

    Raises B13 for what depends on sizes in another way than masks can say, at its place.
    """
    ends = affine_ends(template.specialise, most, others)
    whole, nodes = ends.fencil, ends.nodes
    results = {p.name for p in whole.results}
    taken = {v.name for n in nodes for v in (n, *getattr(n, "params", ())) if isinstance(v, Var)}
    masking = Masking(ends, {}, taken)
    sizes = {n: masking.fresh(n, TensorType(INT32)) for n in most}
    masking = replace(masking, sizes=sizes)
    fields: dict[Var, Var] = {}
    padded: dict[int, Expr] = {}
    bound = {p for n in nodes if isinstance(n, Lambda) for p in n.params}
    for node in nodes:
        padded[id(node)] = _padded(masking, node, padded, bound, fields, results)
    params: list[Var] = []
    closures: list[tuple[Var, Expr]] = []
    for p in whole.params:
        if p.name in results:
            target = var(p.name, p.type.on(masking.dims(p)), p.span)
            params.append(target)
            value = fitted(padded[id(ends.results[p.name])], target.type.dims)
            counts = masking.inside(p, p.type.dims)
            closures.append((target, masked(counts, value, zero(p.type.element))))
    read = frozenset[Var]().union(*(e.free for _, e in closures))
    params += [v for v in fields.values() if v in read]
    params += [v for v in sizes.values() if v in read]
    program = fencil(whole.name, params, [closure(p, e) for p, e in closures], whole.span)
    known = {v.name: p for p, v in fields.items() if v in read}
    return PaddedProgram(program, ends, known, {n: v.name for n, v in sizes.items() if v in read})


def _padded(
    masking: Masking, node: Expr, padded: Mapping[int, Expr], bound: set[Var], fields: dict[Var, Var], results: set[str]
) -> Expr:
    """The node on the operands that were made for it."""
    args = [padded[id(child)] for child in node.children]
    match node:
        case Literal():
            form = masking.ends.number(node) if masking.ends.forms[id(node)] else None
            if form is None or not form.terms:
                return node
            value = masking.scalar(form)
            return value if node.element == INT32 else call("cast", value, static=(node.element,))
        case Var():
            kind = node.type.on(masking.dims(node))
            if node in bound:
                return var(node.name, kind, node.span)
            if node not in fields:
                name = node.name if node.name not in results else masking.fresh(node.name, kind).name
                fields[node] = var(name, kind, node.span)
            return fields[node]
        case Lambda(params):
            kinds = masking.params(node)
            return Lambda(tuple(replace(p, type=t) for p, t in zip(params, kinds, strict=True)), tuple(args), node.span)
        case Operator(op):
            return operator(op, *masking.params(node), span=node.span)
        case Call():
            value = fitted(_rule(node)(masking, node, args), masking.dims(node))
            return with_label(value, node.label) if node.label and not value.label else value
        case _:
            raise AssertionError(node)
