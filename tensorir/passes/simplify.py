"""Exact algebra: constants, equal expressions, shifts in a row, loops of few rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.analysis.uses import literal_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, cartesian_shift, coerced, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Var
from tensorir.ir.rewrite import (
    postorder,
    rebuild,
    rewrite_all,
    rewrite_nodes,
    substitute_all,
    values,
    with_label,
    with_values,
)
from tensorir.ir.substitution import rescoped
from tensorir.ir.types import BOOL, Scalar
from tensorir.passes.base import Pass, remade, rewritten
from tensorir.passes.decisions import Threshold
from tensorir.reference.scalars import SCALAR, bitcast, cast, scalar

# Operations on literals are done before the program runs.


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluates elementwise operations on literals.

    Transcendental functions, which backends round differently in the last places, are left, unless `transcendental` is
    true.

    >>> from tensorir.passes.base import show
    >>> show(FoldConstants(), "(1.0 + 2.0) / 8.0 × x + cos(0.5)", x={"I": (0, 5)})
    0.375 × x + cos(0.5)
    """

    transcendental: bool = False

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, self.rule)

    def rule(self, node: Expr) -> Expr | None:
        """The literal for a call on literals; None for other nodes, and for subnormal results, which backends may flush
        to zero.
        """
        if not isinstance(node, Call) or not TABLE[node.op].elementwise:
            return None
        operands = [a for a in node.args if isinstance(a, Literal)]
        if len(operands) < len(node.args) or (TABLE[node.op].transcendental and not self.transcendental):
            return None
        with np.errstate(all="ignore"):
            value = _value(node, operands)
        element = node.tensor.element
        assert isinstance(element, Scalar)
        if not element.is_float:
            return literal(value.item(), element, node.span)
        value = float(value)
        subnormal = value != 0 and abs(value) < _LEAST[element.name]  # backends may take it for zero
        return None if subnormal else literal(value, element, node.span)


def _value(node: Call, operands: list[Literal]) -> Any:
    """The value of a call on literals, by the reference interpreter's scalar functions."""
    values: list[Any] = [scalar(o.element, o.value) for o in operands]
    target = node.tensor.element
    assert isinstance(target, Scalar)
    match node.op:
        case "if":
            return values[1] if values[0] else values[2]
        case "cast":
            return cast(operands[0].element, target, values[0])
        case "bitcast":
            return bitcast(target, values[0])
        case op:
            return SCALAR[op](operands[0].element, *values)


_LEAST = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14,
    "float8_e5m2": 2.0**-14, "float8_e4m3": 2.0**-6, "float8_e4m3fn": 2.0**-6,
}  # fmt: skip
"""The least normal number of every float type."""


# Equal expressions become one node, which is computed once and prints as a `let`.


@dataclass(frozen=True)
class Cse(Pass):
    """Common subexpressions: one node for all that is equal, names of parameters of functions aside.

    >>> from tensorir.passes.base import show
    >>> show(Cse(), "cos(x) + cos(x)", x={"I": (0, 5)})
    let t1 = cos(x); t1 + t1
    """

    def run(self, fencil: Fencil) -> Fencil:
        return remade(fencil, with_values(fencil.closures, shared(values(fencil.closures))))


def shared(roots: Iterable[Expr]) -> tuple[Expr, ...]:
    """Common subexpression elimination: the expressions with one node for all equal nodes.

    Functions that differ only in parameter names count as equal: for the comparison, parameters are renamed by the
    nesting height of their function, so that nested functions never share a name; the names are restored afterwards.
    """
    roots = tuple(roots)
    heights, have_lookalikes = _heights(roots)
    if not have_lookalikes:
        return _merged(roots)
    original: dict[int, Lambda] = {}
    # keeps the new parameters alive, since `original` is keyed by their identity
    live_params: list[tuple[Var, ...]] = []

    def canonical(node: Lambda) -> tuple[Var, ...]:
        """The parameters of a function renamed by its height, with a blank, which names seldom have; records it."""
        params = tuple(dataclasses.replace(p, name=f" {heights[id(node)]} {k}") for k, p in enumerate(node.params))
        live_params.append(params)
        if params:
            original[id(params[0])] = node
        return params

    def named_again(node: Lambda) -> tuple[Var, ...]:
        """The original parameters of a function that `canonical` renamed; merging keeps parameters as objects."""
        return original[id(node.params[0])].params if node.params else ()

    merged = _merged(rescoped(roots, canonical, applied=False))
    result = rescoped(merged, named_again, applied=False)
    # nodes that two of the roots share count once
    sizes = [sum(1 for _ in postorder(*expressions)) for expressions in (roots, result)]
    return roots if sizes[0] == sizes[1] and roots == result else result


def _heights(roots: tuple[Expr, ...]) -> tuple[dict[int, int], bool]:
    """The nesting height of each function, itself included, by identity; True if two may differ only in names.

    Functions are compared by a hash of their structure without names: equal hashes may also be a coincidence.
    """
    depths: dict[int, int] = {}
    form_hash: dict[int, int] = {}
    heights: dict[int, int] = {}
    for node in postorder(*roots):
        depths[id(node)] = max((depths[id(c)] for c in node.children), default=0) + isinstance(node, Lambda)
        named = node.type if isinstance(node, Var | Lambda) else (type(node), node.own())
        form_hash[id(node)] = hash((named, *(form_hash[id(c)] for c in node.children)))
        if isinstance(node, Lambda):
            heights[id(node)] = depths[id(node)]
    return heights, len({form_hash[function] for function in heights}) < len(heights)


def _merged(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Hash-consing (value numbering) of expressions; a merged node takes the first label that one of its nodes had."""
    number_of_node: dict[int, int] = {}
    number_of_key: dict[Any, int] = {}
    labels: dict[int, str] = {}
    for node in postorder(*roots):
        key = (type(node), node.own(), tuple([number_of_node[id(c)] for c in node.children]))
        n = number_of_node[id(node)] = number_of_key.setdefault(key, len(number_of_key))
        if node.label:
            labels.setdefault(n, node.label)
    merged: dict[int, Expr] = {}
    for node in postorder(*roots):
        n = number_of_node[id(node)]
        if n not in merged:
            new = rebuild(node, tuple([merged[number_of_node[id(c)]] for c in node.children]))
            merged[n] = with_label(new, labels[n]) if n in labels else new
    return tuple([merged[number_of_node[id(r)]] for r in roots])


# Shifts in a row become one per dim.


@dataclass(frozen=True)
class CombineShifts(Pass):
    """Combines nested shifts: offsets along a dim are added, zero offsets dropped, dims sorted by name.

    >>> from tensorir.passes.base import show
    >>> from tensorir.ir.types import tensor
    >>> show(CombineShifts(), "⟪J, 3, I, 1, J, -1, I, 2⟫(x)", x={"I": (0, 9), "J": (0, 9)})
    ⟪I, 3, J, 2⟫(x)

    All neighbours, and then one of them, is that neighbour:

    >>> show(CombineShifts(), "shift_apply(1)(⟪V2E⟫(x))", x={"E": (0, 9)}, V2E=tensor("int", V=(0, 5), _NB_E=(0, 3)))
    ⟪V2E, 1⟫(x)
    """

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, self.rule)

    def rule(self, node: Expr) -> Expr | None:
        """The combined shift for a node, None if it is none or already in normal form."""
        match node:
            case Call("cartesian_shift"):
                return _combined(node)
            case Call("shift_apply", (Call("shift_init", (table, x)),), (slot,)):
                return call("unstructured_shift", table, x, static=(slot,), span=node.span)
            case _:
                return None


def _combined(node: Call) -> Expr | None:
    """The normal form of nested shifts: one shift per dim in the order of names; None if they have it already."""
    shifts: list[tuple[str, int]] = []
    operand: Expr = node
    while isinstance(operand, Call) and operand.op == "cartesian_shift":
        shifts.append(operand.static)
        operand = operand.args[0]
    total: dict[str, int] = {}
    for dim, offset in shifts:
        total[dim] = total.get(dim, 0) + offset
    normal_form = sorted((dim, offset) for dim, offset in total.items() if offset)
    if normal_form == shifts:
        return None
    for dim, offset in reversed(normal_form):
        operand = cartesian_shift(operand, dim, offset, node.span)
    return operand


# Loops of few rounds that all run, written out round by round.


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """Unrolls loops with few rounds that all run, with the round's number as a literal.

    A GPU launches all operations of a round anew; unrolled, they are fused, and reads and writes at the number of the
    round become slices.

    >>> from tensorir.passes.base import show
    >>> from tensorir.ir.types import tensor
    >>> show(UnrollLoops(), '''loop(0, 2)(λ(i: tensor<int>, s: tensor<float>) → true,
    ...   λ(i: tensor<int>, s: tensor<float>) → {s + gather(K, clamp)(x, i)}, y)''', x={"K": (0, 9)}, y=tensor("float"))
    y + gather(K, clamp)(x, 0) + gather(K, clamp)(x, 1)
    """

    rounds: int = 8
    """The most rounds of a loop."""
    nodes: int = 2000
    """The most nodes that a loop may become: they cost compile time."""

    def run(self, fencil: Fencil) -> Fencil:
        """Unrolls each loop once, shared by all its results."""
        roots = values(fencil.closures)
        unrolled: dict[tuple[int, ...], tuple[Expr, ...]] = {}

        def unrolled_result(_: Expr, loop: Expr) -> Expr:
            """The result of an unrolled loop in place of its call; other nodes are unchanged."""
            if not (isinstance(loop, Call) and loop.op == "loop" and self._is_short(loop)):
                return loop
            key = (loop.static.limit, *map(id, loop.args))
            if key not in unrolled:
                unrolled[key] = _written_out(loop)
            carried: int = loop.static.carried
            return unrolled[key][carried]

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, unrolled_result)))

    def _is_short(self, node: Call) -> bool:
        """True if a loop may be unrolled: a constant true condition, few rounds and nodes, and no check or effect in
        its body.
        """
        condition, step, *_ = node.args
        limit: int | None = node.static.limit
        if limit is None or limit > self.rounds or not isinstance(condition, Lambda) or not isinstance(step, Lambda):
            return False
        condition_is_true = condition.results == (Literal(True, BOOL),)
        body_nodes = list(postorder(*step.results))
        return condition_is_true and len(body_nodes) * limit <= self.nodes and not any(map(_checks, body_nodes))

    def on(self, platform: str) -> Pass | None:
        return self if platform == "gpu" else None

    def reason(self) -> str:
        return "the operations of all rounds are fused, and not launched in each"

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "set, and not measured"
        return (
            Threshold("rounds", self.rounds, "rounds of a loop that is written out", where),
            Threshold("nodes", self.nodes, "nodes that a loop may become", where),
        )


def _checks(node: Expr) -> bool:
    """True if a node reports something at run time (print, assert, checked index) that would name the round."""
    if not isinstance(node, Call):
        return False
    builtin = TABLE[node.op]
    return builtin.effect or (builtin.checks and node.static.mode == "checked")


def _written_out(loop: Call) -> tuple[Expr, ...]:
    """The carries after all rounds, as expressions of the initial values."""
    _, step, *start = loop.args
    assert isinstance(step, Lambda)
    number, *params = step.params
    states = tuple(coerced(s, p.tensor) for s, p in zip(start, params, strict=True))
    for k in range(loop.static.limit):
        arguments = {number: literal(k), **dict(zip(params, states, strict=True))}
        results = rewrite_all(substitute_all(step.results, arguments), _put)
        states = tuple(coerced(s, p.tensor) for s, p in zip(results, params, strict=True))
    return states


def _put(node: Expr) -> Expr | None:
    """A rewrite rule: a `scatter` that overwrites at one literal index is an `update` of that slice; None for other
    nodes, and for an index out of bounds.
    """
    match node:
        case Call("scatter", (Lambda((_, new), (result,)), base, Literal(index), value)) if result == new:
            (dim,), base_dims = node.static.dims, base.tensor.dims
            if node.static.over or int(index) not in base_dims[dim]:
                return None
            point = Interval(int(index), int(index) + 1)
            update = call("add_dim", value, static=(dim, point.start, point.stop), span=node.span)
            update = coerced(update, base.tensor.on(base_dims.with_interval(dim, point)))
            return call("update", base, update, span=node.span)
        case _:
            return None


# Algebra that is exact: the same bits for every value, zeros of both signs, infinities and NaN among them.
#
# `RULES` is the table: each rule looks at one node whose operands are simplified, and returns None for "unchanged".
# What a rule returns must have the type of the node; where it would not (a literal has no dims) nothing is done.


@dataclass(frozen=True)
class Simplify(Pass):
    """Applies exact algebraic rules (`RULES`) until none applies; results are the same bit for bit.

    >>> from tensorir.passes.base import show
    >>> show(Simplify(), "-(-x) × 1.0 - 0.0", x={"I": (0, 5)})
    x
    >>> show(Simplify(), "x + 0.0", x={"I": (0, 5)})        # -0.0 + 0.0 is 0.0
    x + 0.0
    """

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, simplified)


def simplified(node: Expr) -> Expr | None:
    """The node after the first rule that applies; None if none does or its result would have another type."""
    if not isinstance(node, Call):
        return None
    for rule in RULES.get(node.op, ()):
        new_node = rule(node)
        if new_node is not None and new_node.type == node.type:
            return with_label(new_node, node.label) if node.label else new_node
    return None


Rule = Callable[[Call], Expr | None]


def _is(x: Expr, value: float, negative: bool | None = None) -> bool:
    """True if an expression is a literal; `negative` tells -0.0 from 0.0."""
    if not isinstance(x, Literal) or isinstance(x.value, bool) or x.value != value:
        return False
    return negative is None or x.element.is_integer or (math.copysign(1, x.value) < 0) == negative


def _equal(a: Expr, b: Expr) -> bool:
    return a is b or a == b


# Arithmetic


def times_one(e: Call) -> Expr | None:
    """x × 1 is x."""
    x, y = e.args
    return x if _is(y, 1) else y if _is(x, 1) else None


def times_minus_one(e: Call) -> Expr | None:
    """x × -1 is -x."""
    x, y = e.args
    return call("neg", x if _is(y, -1) else y, span=e.span) if _is(y, -1) or _is(x, -1) else None


def times_negatives(e: Call) -> Expr | None:
    """(-x) × (-y) is x × y, likewise quotients."""
    match e.args:
        case Call("neg", (x,)), Call("neg", (y,)):
            return call(e.op, x, y, span=e.span)
        case _:
            return None


def by_one(e: Call) -> Expr | None:
    """x / 1 is x."""
    x, y = e.args
    return x if _is(y, 1) else None


def by_power_of_two(e: Call) -> Expr | None:
    """x / 2ⁿ is x × 2⁻ⁿ, which is exact for |n| ≤ 10."""
    x, y = e.args
    if not (isinstance(y, Literal) and y.element.is_float and math.isfinite(y.value) and y.value):
        return None
    mantissa, exponent = math.frexp(y.value)
    if abs(mantissa) != 0.5 or not -10 <= exponent <= 10:
        return None
    return call("multiplies", x, literal(1 / y.value, y.element, y.span), span=e.span)


def plus_zero(e: Call) -> Expr | None:
    """x + -0.0 is x (x + 0.0 is not: -0.0 + 0.0 is 0.0)."""
    x, y = e.args
    return x if _is(y, 0, negative=True) else y if _is(x, 0, negative=True) else None


def minus_zero(e: Call) -> Expr | None:
    """x - 0.0 is x (x - -0.0 is not: -0.0 - -0.0 is 0.0)."""
    x, y = e.args
    return x if _is(y, 0, negative=False) else None


def plus_negative(e: Call) -> Expr | None:
    """x + -y is x - y, and -x + y is y - x."""
    match e.args:
        case x, Call("neg", (y,)):
            return call("minus", x, y, span=e.span)
        case Call("neg", (x,)), y:
            return call("minus", y, x, span=e.span)
        case _:
            return None


def minus_negative(e: Call) -> Expr | None:
    """x - -y is x + y."""
    match e.args:
        case x, Call("neg", (y,)):
            return call("plus", x, y, span=e.span)
        case _:
            return None


def twice(e: Call) -> Expr | None:
    """An involution applied twice (neg, not, bit_not) is its operand."""
    match e.args:
        case (Call(op, (x,)),) if op == e.op:
            return x
        case _:
            return None


def again(e: Call) -> Expr | None:
    """An idempotent operation applied twice (abs, sign) is applied once."""
    match e.args:
        case (Call(op),) if op == e.op:
            return e.args[0]
        case _:
            return None


def rounded_before(e: Call) -> Expr | None:
    """Rounding an already rounded value (floor, ceil, trunc, round in any combination) does nothing."""
    match e.args:
        case (Call("floor" | "ceil" | "trunc" | "round"),):
            return e.args[0]
        case _:
            return None


def abs_of_negative(e: Call) -> Expr | None:
    """abs(-x) is abs(x)."""
    match e.args:
        case (Call("neg", (x,)),):
            return call("abs", x, span=e.span)
        case _:
            return None


def both_the_same(e: Call) -> Expr | None:
    """op(x, x) is x for min, max, and, or, bit_and, bit_or."""
    x, y = e.args
    return x if _equal(x, y) else None


def shifted_by_zero(e: Call) -> Expr | None:
    """A bit shift by 0 is its operand."""
    x, y = e.args
    return x if _is(y, 0) else None


# Logic and selection


def neutral_truth(e: Call) -> Expr | None:
    """x and true, x or false, x xor false are x."""
    x, y = e.args
    neutral = e.op == "and"
    other = x if literal_of(y) is neutral else y if literal_of(x) is neutral else None
    return None if other is None else coerced(other, e.tensor)


def known_choice(e: Call) -> Expr | None:
    """`if true then x else y` is x, with the dims of the choice."""
    truth = literal_of(e.args[0])
    return None if truth is None else coerced(e.args[1] if truth else e.args[2], e.tensor)


def choice_by_not(e: Call) -> Expr | None:
    """`if not c then x else y` is `if c then y else x`."""
    match e.args:
        case Call("not", (c,)), x, y:
            return call("if", c, y, x, span=e.span)
        case _:
            return None


def cast_there_and_back(e: Call) -> Expr | None:
    """A cast to a wider type and back is the operand: integers of one signedness, or float32 through float64."""
    match e.args:
        case (Call("cast", (x,)) as inner_cast,):
            a, b = x.tensor.element, inner_cast.tensor.element
            assert isinstance(a, Scalar) and isinstance(b, Scalar)
            same_kind = a.kind == b.kind and a.kind in ("int", "uint")
            return x if a.bits <= b.bits and (same_kind or (a.name, b.name) == ("float32", "float64")) else None
        case _:
            return None


# Tuples


def member_of_made(e: Call) -> Expr | None:
    """(x, y)[k] is its k-th member, with the dims of the tuple."""
    match e.args, e.static:
        case (Call("make_tuple", members),), (int() as index,):
            return coerced(members[index], e.tensor)
        case _:
            return None


def made_of_members(e: Call) -> Expr | None:
    """(t[0], t[1], ...) is t."""
    first_member = e.args[0]
    if not (isinstance(first_member, Call) and first_member.op == "tuple_get"):
        return None
    tuple_value = first_member.args[0]
    for k, member in enumerate(e.args):
        match member:
            case Call("tuple_get", (x,), (index,)) if index == k and _equal(x, tuple_value):
                pass
            case _:
                return None
    return tuple_value


# Domains


def whole_operand(e: Call) -> Expr | None:
    """A subset or cast that changes nothing is its operand (`simplified` rejects it if the types differ)."""
    return e.args[0]


def subset_of_subset(e: Call) -> Expr | None:
    """A subset of a subset is one subset."""
    match e.args:
        case (Call("subset", (x,)),):
            cuts = tuple((n, i) for n, i in e.tensor.dims.items if x.tensor.dims[n] != i)
            return call("subset", x, static=(Dims(cuts),), span=e.span)
        case _:
            return None


def subset_of_added(e: Call) -> Expr | None:
    """A subset along a broadcast dim is a broadcast over fewer points: subset(add_dim(x)) is add_dim(subset(x))."""
    match e.args:
        case (Call("add_dim", (x,), (dim, _, _)),) if dim in e.static.intervals:
            interval = e.static.intervals[dim]
            other_cuts = e.static.intervals.without(dim)
            operand = call("subset", x, static=(other_cuts,), span=e.span) if other_cuts else x
            return call("add_dim", operand, static=(dim, interval.start, interval.stop), span=e.span)
        case _:
            return None


def shift_of_added(e: Call) -> Expr | None:
    """A shift along a broadcast dim moves its interval; a shift along another dim goes inside of the broadcast."""
    match e.args, e.static:
        case (Call("add_dim", (x,), (added, start, stop)),), (dim, offset):
            if added == dim:
                return call("add_dim", x, static=(dim, start - offset, stop - offset), span=e.span)
            return call("add_dim", cartesian_shift(x, dim, offset, e.span), static=(added, start, stop), span=e.span)
        case _:
            return None


def concat_of_parts(e: Call) -> Expr | None:
    """A concatenation of subsets of one tensor is a subset of it, or the tensor."""
    parts = sorted(e.args, key=lambda a: [(i.start, i.stop) for _, i in sorted(a.tensor.dims.items)])
    match parts[0]:
        case Call("subset", (common,)):
            pass
        case _:
            return None
    for part in parts:
        match part:
            case Call("subset", (x,)) if _equal(x, common):
                pass
            case _:
                return None
    cuts = Dims(tuple((n, i) for n, i in e.tensor.dims.items if common.tensor.dims[n] != i))
    return call("subset", common, static=(cuts,), span=e.span) if cuts else common


def rename_to_itself(e: Call) -> Expr | None:
    return e.args[0] if all(a == b for a, b in e.static.pairs) else None


def rename_of_rename(e: Call) -> Expr | None:
    """Two renames are one, or none if they cancel."""
    match e.args:
        case (Call("rename", (x,), (inner,)),):
            inner_names, outer_names = dict(inner), dict(e.static.pairs)
            composed = {d: outer_names.get(inner_names.get(d, d), inner_names.get(d, d)) for d in x.tensor.dims}
            pairs = tuple((a, b) for a, b in composed.items() if a != b)
            return call("rename", x, static=(pairs,), span=e.span) if pairs else x
        case _:
            return None


def merge_of_split(e: Call) -> Expr | None:
    """Merging two dims that were split from one is the operand of the split."""
    match e.args, e.static:
        case (Call("split_dim", (x,), (dim, outer, inner, _)),), (o, i, d) if (outer, inner, dim) == (o, i, d):
            return x
        case _:
            return None


def split_of_merged(e: Call) -> Expr | None:
    """Splitting a dim that was merged from two is the operand of the merge."""
    match e.args, e.static:
        case (Call("merge_dims", (x,), (outer, inner, dim)),), (d, o, i, _) if (outer, inner, dim) == (o, i, d):
            return x
        case _:
            return None


def update_of_all(e: Call) -> Expr | None:
    """An update of all points is its value, broadcast along dims that it does not have."""
    value, base_dims = e.args[1], e.tensor.dims
    if any(i != base_dims[d] for d, i in value.tensor.dims.items):
        return None
    for dim, i in reversed(base_dims.items):
        if dim not in value.tensor.dims:
            value = call("add_dim", value, static=(dim, i.start, i.stop))
    return value


def update_of_nothing(e: Call) -> Expr | None:
    """An update without points is its base."""
    x, value = e.args
    return x if value.tensor.dims.size == 0 else None


RULES: dict[str, tuple[Rule, ...]] = {
    "multiplies": (times_one, times_minus_one, times_negatives),
    "divides": (by_one, by_power_of_two, times_negatives),
    "plus": (plus_zero, plus_negative),
    "minus": (minus_zero, minus_negative),
    "neg": (twice,),
    "abs": (again, abs_of_negative),
    "sign": (again,),
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), (rounded_before,)),
    "min": (both_the_same,),
    "max": (both_the_same,),
    "and": (neutral_truth, both_the_same),
    "or": (neutral_truth, both_the_same),
    "xor": (neutral_truth,),
    "not": (twice,),
    "bit_not": (twice,),
    "bit_and": (both_the_same,),
    "bit_or": (both_the_same,),
    "shift_left": (shifted_by_zero,),
    "shift_right": (shifted_by_zero,),
    "if": (known_choice, choice_by_not),
    "cast": (whole_operand, cast_there_and_back),
    "tuple_get": (member_of_made,),
    "make_tuple": (made_of_members,),
    "subset": (whole_operand, subset_of_subset, subset_of_added),
    "cartesian_shift": (shift_of_added,),
    "concat": (concat_of_parts,),
    "rename": (rename_to_itself, rename_of_rename),
    "merge_dims": (merge_of_split,),
    "split_dim": (split_of_merged,),
    "update": (update_of_all, update_of_nothing),
}
"""The rules by the builtin at whose calls they look, in the order in which they are tried."""
