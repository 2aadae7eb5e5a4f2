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


def unchanged(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """The same builtin with the same static parameters on the padded operands."""
    return call(node.op, *padded, static=node.static, span=node.span)


# Moves


def _placed(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A builtin with intervals in its static parameters (such as `add_dim`): these become the hulls over all sizes."""
    return placed(node, padded, masking.dims(node))


def _mapped(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A call whose access maps do not depend on sizes is left as it is: each valid point reads valid points alone.

    Raises B13 if a static number depends on a size, or if it reads a whole axis whose extent does.
    """
    builtin = TABLE[node.op]
    static_numbers = range(sum(isinstance(k, int) and not isinstance(k, bool) for k in node.static))
    if any(masking.ends.number(node, k).terms for k in static_numbers):
        raise refuse("B13", f"a number of '{node.op}' is a size.", "give the sizes their values.", at=node.span)
    for arg, access in zip(node.args, node.accesses or (), strict=builtin.reads is not None):
        for d in access.uncut if access else ():
            if (d in arg.tensor.dims and masking.varies(arg, d)) or (d in node.tensor.dims and masking.varies(node, d)):
                message = f"'{node.op}' reads all points along {d}, whose extent is a size."
                raise refuse("B13", message, FIXED.format(d), at=node.span)
    return unchanged(masking, node, padded)


def _shift(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A shift by a constant stays; one by a size, as periodic boundaries have it, is a gather at computed
    coordinates.
    """
    offset = masking.ends.number(node)
    if not offset.terms:
        return unchanged(masking, node, padded)
    dim = node.static.dim
    coordinates = masking.at(dim, masking.hull(masking.ends.along(node, dim)))
    index = call("plus", coordinates, masking.scalar(offset))
    return call("gather", padded[0], index, static=((dim,), "clamp"), span=node.span)


def _pos(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    dim = node.static.dim
    return masking.at(dim, masking.hull(masking.ends.along(node, dim)))


def _concat(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A join whose seam depends on sizes: in the overlap of the padded operands, `if at < start of the second then
    first else second`; outside of it the one operand that has points.
    """
    types = [a.tensor.dims for a in node.args]
    (dim,) = (d for d in types[0] if any(t[d] != types[0][d] for t in types))
    order = sorted(range(len(padded)), key=lambda k: (types[k][dim].start, types[k][dim].stop))
    joined = padded[order[0]]
    for k in order[1:]:
        start, _ = masking.ends.along(node.args[k], dim)
        before, after = joined.tensor.dims[dim], padded[k].tensor.dims[dim]
        overlap = before & after
        if not start.terms:
            overlap = Interval(start.constant, start.constant)
        pieces = [_part(joined, dim, before.start, overlap.start), _part(padded[k], dim, overlap.stop, after.stop)]
        if after.start < overlap.start and start.terms:
            pieces[0] = _part(padded[k], dim, after.start, overlap.start)
        if before.stop > overlap.stop and start.terms:
            pieces[1] = _part(joined, dim, overlap.stop, before.stop)
        if overlap:
            is_first = call("less", masking.at(dim, overlap), masking.scalar(start))
            a, b = (fitted(x, Dims(((dim, overlap),))) for x in (joined, padded[k]))
            pieces.insert(1, call("if", is_first, a, b, span=node.span))
        nonempty = [p for p in pieces if p.tensor.dims[dim]]
        joined = call("concat", *nonempty, span=node.span) if len(nonempty) > 1 else nonempty[0]
    return joined


def _part(x: Expr, dim: str, start: int, stop: int) -> Expr:
    return cut(x, Dims(((dim, Interval(start, max(start, stop)) & x.tensor.dims[dim]),)))


def _update(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """An update whose part depends on sizes: where a point of the part is padding, the base keeps its value."""
    base, update = padded
    base_node, update_node = node.args
    update = fitted(update, Dims(tuple((d, i & base.tensor.dims[d]) for d, i in update.tensor.dims.items)))
    is_valid = masking.inside(update_node, update_node.tensor.dims, base_node)
    if is_valid is not None:
        update = masked(cut(is_valid, update.tensor.dims), update, cut(base, update.tensor.dims))
    return call("update", base, update, span=node.span)


def _merge(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """`merge_dims` is refused (B13) if the extent of the inner dim, the stride, depends on a size."""
    inner = node.static.inner
    if masking.varies(node.args[0], inner):
        message = f"'merge_dims' counts by the extent of {inner}, which is a size."
        raise refuse("B13", message, FIXED.format(inner), at=node.span)
    return unchanged(masking, node, padded)


def _split(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """`split_dim` is refused (B13) if the block size depends on a size, or does not divide the padded ends."""
    dim, _, inner, n = node.static
    interval = padded[0].tensor.dims[dim]
    if masking.varies(node, inner) or interval.start % n or interval.stop % n:
        raise refuse("B13", f"'split_dim' parts {dim} by what depends on a size.", FIXED.format(dim), at=node.span)
    return unchanged(masking, node, padded)


# Folds


def _fold(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A fold along an axis whose extent depends on a size: padding gets the identity of the operation, or is skipped.

    It is skipped, by a condition in the body, where the function is no monoid with a simple operand, or gives tuples.
    Scans go to `_states`.
    """
    fold = node.fold
    assert fold is not None
    if fold.row.states:
        return _states(masking, fold, node, padded)
    dim = fold.dim
    operand = next(a for a in fold.operands if dim in a.tensor.dims)
    is_valid = _counted(masking, operand, dim)
    if is_valid is None:
        return unchanged(masking, node, padded)
    unmasked = unchanged(masking, node, padded)
    assert isinstance(unmasked, Call)
    monoid, element = monoid_of(unmasked), node.tensor.element
    if monoid is None or not isinstance(element, Scalar):
        return _skipping(masking, node, padded, is_valid)
    folded_value = monoid.each
    if folded_value is None:
        folded_value = padded[2]
    elif any(isinstance(e, (Lambda, Operator)) for e in postorder(folded_value)):
        return _skipping(masking, node, padded, is_valid)
    else:
        folded_value = substitute(folded_value, dict(zip(monoid.params, padded[2:], strict=True)))
    neutralised = _neutralised(folded_value, is_valid, monoid.op, element, padded[1], dim)
    state = node.tensor.on(unmasked.tensor.dims)
    return call(node.op, operator(monoid.op, state, state), padded[1], neutralised, static=node.static, span=node.span)


def _neutralised(operand: Expr, is_valid: Expr, op: str, element: Scalar, init: Expr, dim: str) -> Expr:
    """The operand of a fold by `op`, with the identity at points of padding.

    A sum of products along `dim` from +0 masks its factors instead, so that it stays a contraction.
    """
    match operand:
        # a sum of products stays one: from +0 on, a product of zeros changes nothing
        case Call("multiplies", (a, b)) if op == "plus" and all(dim in f.tensor.dims for f in (a, b)):
            if isinstance(init, Literal) and init.value == 0 and str(init.value)[0] != "-":
                neutral = literal(0, element)
                return call("multiplies", *(call("if", is_valid, f, neutral) for f in (a, b)), span=operand.span)
        case _:
            pass
    identity = TABLE[op].identity
    assert identity is not None
    neutral = literal(-0.0 if op == "plus" and element.is_float else identity(element), element)
    return call("if", is_valid, operand, neutral, span=operand.span)


def _counted(masking: Masking, node: Expr, dim: str) -> Expr | None:
    """The condition that a point along a folded dim is valid; None if the dim's interval is the same at all sizes.

    Raises B13 for a dim of neighbours whose number depends on a size.
    """
    if dim.startswith("_NB_") and masking.varies(node, dim):
        raise refuse("B13", f"how many neighbours there are along {dim} is a size.", FIXED.format(dim), at=node.span)
    return masking.inside(node, [dim])


def _skipping(masking: Masking, node: Call, padded: Sequence[Expr], valid_points: Expr) -> Expr:
    """A fold or scan whose body keeps the state at padding: `if valid then f(state, x) else state`."""
    f, init, *values = padded
    if isinstance(f, Operator):
        params = tuple(masking.fresh("x", t) for t in f.params)
        f = Lambda(params, (call(f.op, *params, span=f.span),), f.span)
    assert isinstance(f, Lambda)
    is_valid = masking.fresh("counts", TensorType(BOOL))
    state = f.params[0]
    step = call("if", is_valid, f.body, state, span=f.body.span)
    function = replace(f, params=(*f.params, is_valid), results=(step,))
    return call(node.op, function, init, *values, valid_points, static=node.static, span=node.span)


def _states(masking: Masking, fold: Folding, node: Call, padded: Sequence[Expr]) -> Expr:
    """A scan along an axis with padding: padding before the first point must keep the state.

    Padding after the last point may compute anything, since nothing reads it; so a fixed start needs no condition.
    """
    scan_start = masking.ends.along(node, fold.dim)[0 if fold.forward else 1]
    is_valid = _counted(masking, node, fold.dim)
    if is_valid is None or not scan_start.terms:
        return unchanged(masking, node, padded)
    return _skipping(masking, node, padded, is_valid)


def _contract(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A contraction with zero factors at padding along the contracted dims."""
    dims = [d for d in node.static.dims if masking.varies(node.args[0], d)]
    factors = [
        masked(masking.inside(a, dims), x, zero(x.tensor.element)) for a, x in zip(node.args, padded, strict=True)
    ]
    return unchanged(masking, node, factors)


def _sort(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A sort along an axis with padding: validity becomes the first key, so that padding comes last."""
    dim, keys, descending = node.static
    start, stop = masking.ends.along(node, dim)
    if start.terms:
        message = f"where the points that are sorted begin along {dim} is a size."
        raise refuse("B13", message, FIXED.format(dim), at=node.span)
    if not stop.terms:
        return unchanged(masking, node, padded)
    is_valid = masking.inside(node, [dim])
    assert is_valid is not None
    padding_key = is_valid if descending else call("not", is_valid)
    ordered = call("sort", padding_key, *padded, static=(dim, keys + 1, descending), span=node.span)
    columns = [call("tuple_get", ordered, static=(k,)) for k in range(1, len(padded) + 1)]
    return columns[0] if len(columns) == 1 else call("make_tuple", *columns)


# Indirect access


def _gather(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A gather whose index or source has padding.

    Indices of padding are never checked. If the source's interval depends on a size, bounds are compared with its
    actual ends by the mode: zero outside ("zero"), clamped to them ("clamp"), or an assertion ("checked").
    """
    dims, mode = node.static
    source, *index_nodes = node.args
    x, *indices = padded
    validity = [masking.inside(i, masking.varying(i)) for i in index_nodes]
    if not any(masking.varies(source, d) for d in dims):
        if mode == "checked":
            indices = [_or_at(w, i, x.tensor.dims[d].start) for w, d, i in zip(validity, dims, indices, strict=True)]
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
            return _checked(masking, gathered, source, pairs, validity, node)


def _scatter(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A scatter whose updates have padding: their first index is set out of bounds, so that they are dropped."""
    dims, over, mode = node.static
    source, *index_nodes = node.args[1:]
    f, base, *indices, updates = padded
    validity = [masking.inside(i, masking.varying(i)) for i in index_nodes]
    pairs = list(zip(dims, indices, strict=True))
    if mode == "clamp":
        indices = [_clamped(masking, source, d, i) for d, i in pairs]
    indices[0] = _or_at(all_of(validity), indices[0], base.tensor.dims[dims[0]].stop)
    scattered = call("scatter", f, base, *indices, updates, static=(dims, over, "zero"), span=node.span)
    return _checked(masking, scattered, source, pairs, validity, node) if mode == "checked" else scattered


def _neighbours(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A read through a computed neighbour table: its padding entries become some valid point, the others are checked.

    A table passed as a parameter needs no rule, since the caller's check covers it.
    """
    table, source = node.args
    if isinstance(table, Var):
        return unchanged(masking, node, padded)
    _, dim = neighbour_source(table.tensor)
    entries, x = padded
    is_valid = masking.inside(table, masking.varying(table))
    # what leads nowhere is read by nobody
    any_point = x.tensor.dims[dim].start if x.tensor.dims[dim] else -1
    neighbours = call(node.op, _or_at(is_valid, entries, any_point), x, static=node.static, span=node.span)
    if not masking.varies(source, dim):
        return neighbours
    absent = call("eq", _wide(entries), literal(-1, INT64))
    return _checked(masking, neighbours, source, [(dim, entries)], [is_valid, call("not", absent)], node)


def _checked(
    masking: Masking, value: Expr, source: Expr, pairs: Sequence[tuple[str, Expr]], validity: Sequence[Expr | None],
    node: Call,
) -> Expr:  # fmt: skip
    """`value` with an assertion per (dim, index) pair: where all conditions `validity` hold (None: always), the index
    lies in the interval of `source`.
    """
    for dim, index in pairs:
        in_bounds = _within(masking, source, dim, index)
        if (is_valid := all_of(validity)) is not None:
            in_bounds = call("or", call("not", is_valid), in_bounds)
        start, stop = masking.ends.along(source, dim)
        message = f"an index of {dim} is outside of {dim}[{start}:{stop}]."
        value = call("assert_", value, in_bounds, static=(message,), span=node.span)
    return value


def _within(masking: Masking, source: Expr, dim: str, index: Expr) -> Expr:
    """True if an index is one of the points that a tensor has."""
    start, stop = (_wide(masking.scalar(end)) for end in masking.ends.along(source, dim))
    return call("and", call("greater_equal", _wide(index), start), call("less", _wide(index), stop))


def _clamped(masking: Masking, source: Expr, dim: str, index: Expr) -> Expr:
    """The nearest point that a tensor has."""
    start, stop = (_wide(masking.scalar(end)) for end in masking.ends.along(source, dim))
    return call("max", start, call("min", _wide(index), call("minus", stop, literal(1, INT64))))


def _or_at(is_valid: Expr | None, index: Expr, otherwise: int) -> Expr:
    """An int64 index where it is valid, and the point `otherwise` elsewhere; unchanged if always valid (None)."""
    if is_valid is None:
        return index
    return masked(is_valid, _wide(index), literal(otherwise, INT64))


def _wide(index: Expr) -> Expr:
    """An integer index as int64; a uint64 beyond its range saturates, which is out of every interval as well."""
    if _element(index) == SCALARS["uint64"]:
        index = call("min", index, literal(INT64.range.stop - 1, SCALARS["uint64"]))
    return index if _element(index) == INT64 else call("cast", index, static=(INT64,))


def _element(index: Expr) -> Scalar:
    element = index.tensor.element
    assert isinstance(element, Scalar)
    return element


# Control and effects


def _loop(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A loop whose limit of rounds is a size: the limit becomes part of its condition, and the static limit its
    maximum.
    """
    _, limit = node.static
    if limit is None:
        return unchanged(masking, node, padded)
    limit_of = masking.ends.number(node, 1)
    if not limit_of.terms:
        return unchanged(masking, node, padded)
    condition, step, *carried = padded
    assert isinstance(condition, Lambda)
    again = call(
        "and", call("less", condition.params[0], masking.scalar(limit_of)), condition.body, span=condition.span
    )
    bounded = replace(condition, results=(again,))
    largest_limit = masking.hull((limit_of, limit_of)).stop
    return call("loop", bounded, step, *carried, static=(node.static.carried, largest_limit), span=node.span)


def _assert(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A check that ignores padding: `not valid or condition`."""
    is_valid = masking.inside(node.args[1], masking.varying(node.args[1]))
    condition = padded[1] if is_valid is None else call("or", call("not", is_valid), padded[1])
    return call("assert_", padded[0], condition, static=node.static, span=node.span)


def _print(masking: Masking, node: Call, padded: Sequence[Expr]) -> Expr:
    """A print is refused (B13) if its value has padding."""
    for a in node.args:
        if varying := masking.varying(a):
            message = f"what is printed has padding along {varying[0]}."
            raise refuse("B13", message, "print results of the call instead.", at=node.span)
    return unchanged(masking, node, padded)


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
    """The padding rule of a builtin: its own, or by its properties (table, effect, placed, pointwise, access maps)."""
    builtin = TABLE[node.op]
    if rule := RULES.get(builtin.control or node.op):
        return rule
    if builtin.table:
        return _neighbours
    if builtin.effect:
        return _assert if builtin.checks else _print
    if builtin.placed is not None:
        return _placed
    return unchanged if builtin.elementwise or (builtin.moves and not builtin.relocates) else _mapped


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
    """One program for all sizes up to `most`, which become parameters; `others` are the values of all other sizes.

    Results are zero at their padding. Raises B13, with its place, for expressions that masks over affine intervals
    cannot express.
    """
    ends = affine_ends(template.specialise, most, others)
    bound_program, nodes = ends.fencil, ends.nodes
    results = {p.name for p in bound_program.results}
    taken = {v.name for n in nodes for v in (n, *getattr(n, "params", ())) if isinstance(v, Var)}
    masking = Masking(ends, {}, taken)
    sizes = {n: masking.fresh(n, TensorType(INT32)) for n in most}
    masking = replace(masking, sizes=sizes)
    fields: dict[Var, Var] = {}
    padded: dict[int, Expr] = {}
    lambda_params = {p for n in nodes if isinstance(n, Lambda) for p in n.params}
    for node in nodes:
        padded[id(node)] = _padded(masking, node, padded, lambda_params, fields, results)
    params: list[Var] = []
    closures: list[tuple[Var, Expr]] = []
    for p in bound_program.params:
        if p.name in results:
            target = var(p.name, p.type.on(masking.dims(p)), p.span)
            params.append(target)
            value = fitted(padded[id(ends.results[p.name])], target.type.dims)
            counts = masking.inside(p, p.type.dims)
            closures.append((target, masked(counts, value, zero(p.type.element))))
    read = frozenset[Var]().union(*(e.free for _, e in closures))
    params += [v for v in fields.values() if v in read]
    params += [v for v in sizes.values() if v in read]
    program = fencil(bound_program.name, params, [closure(p, e) for p, e in closures], bound_program.span)
    field_names = {v.name: p for p, v in fields.items() if v in read}
    return PaddedProgram(program, ends, field_names, {n: v.name for n, v in sizes.items() if v in read})


def _padded(
    masking: Masking, node: Expr, padded: Mapping[int, Expr], bound: set[Var], fields: dict[Var, Var], results: set[str]
) -> Expr:
    """The node on its padded operands and the hulls of its intervals.

    `padded` has the operands by identity; `fields` maps parameters of the template to those of the padded program and
    is extended; parameters of lambdas (`bound`), and names of `results`, do not become fields of the same name.
    """
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
