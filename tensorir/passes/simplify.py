"""Algebra that is exact: the same bits for every value, zeros of both signs, infinities and NaN among them.

`RULES` is the table: each rule looks at one node whose operands are simplified, and returns None for "unchanged".
What a rule returns must have the type of the node; where it would not (a literal has no dims) nothing is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tensorir.ir.build import call, cartesian_shift, coerced, literal
from tensorir.ir.nodes import Call, Expr, Fencil, Literal
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import Dims, Scalar
from tensorir.passes.base import Pass, rewritten

__all__ = ["RULES", "Simplify"]


@dataclass(frozen=True)
class Simplify(Pass):
    """Every rule of the table, until none applies.

    >>> from tensorir.passes.show import show
    >>> show(Simplify(), "-(-x) × 1.0 - 0.0", x={"I": (0, 5)})
    x
    >>> show(Simplify(), "x + 0.0", x={"I": (0, 5)})        # -0.0 + 0.0 is 0.0
    x + 0.0
    """

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, simplified)


def simplified(node: Expr) -> Expr | None:
    """One node by the rules, None where none applies."""
    if not isinstance(node, Call):
        return None
    for rule in RULES.get(node.op, ()):
        new = rule(node)
        if new is not None and new.type == node.type:
            return with_label(new, node.label) if node.label else new
    return None


Rule = Callable[[Call], Expr | None]


def _is(x: Expr, value: float, negative: bool | None = None) -> bool:
    """Whether an expression is a literal; `negative` tells -0.0 from 0.0."""
    if not isinstance(x, Literal) or isinstance(x.value, bool) or x.value != value:
        return False
    return negative is None or x.element.is_integer or (math.copysign(1, x.value) < 0) == negative


def _same(a: Expr, b: Expr) -> bool:
    return a is b or a == b


# Arithmetic


def times_one(e: Call) -> Expr | None:
    x, y = e.args
    return x if _is(y, 1) else y if _is(x, 1) else None


def times_minus_one(e: Call) -> Expr | None:
    x, y = e.args
    return call("neg", x if _is(y, -1) else y, span=e.span) if _is(y, -1) or _is(x, -1) else None


def times_negatives(e: Call) -> Expr | None:
    match e.args:
        case Call("neg", (x,)), Call("neg", (y,)):
            return call(e.op, x, y, span=e.span)
        case _:
            return None


def by_one(e: Call) -> Expr | None:
    x, y = e.args
    return x if _is(y, 1) else None


def by_power_of_two(e: Call) -> Expr | None:
    """A quotient by a power of two is a product with its inverse, which is exact."""
    x, y = e.args
    if not (isinstance(y, Literal) and y.element.is_float and math.isfinite(y.value) and y.value):
        return None
    mantissa, exponent = math.frexp(y.value)
    if abs(mantissa) != 0.5 or not -10 <= exponent <= 10:
        return None
    return call("multiplies", x, literal(1 / y.value, y.element, y.span), span=e.span)


def plus_zero(e: Call) -> Expr | None:
    """x + -0.0 is x; -0.0 + 0.0 is not -0.0."""
    x, y = e.args
    return x if _is(y, 0, negative=True) else y if _is(x, 0, negative=True) else None


def minus_zero(e: Call) -> Expr | None:
    """x - 0.0 is x; -0.0 - -0.0 is not -0.0."""
    x, y = e.args
    return x if _is(y, 0, negative=False) else None


def plus_negative(e: Call) -> Expr | None:
    match e.args:
        case x, Call("neg", (y,)):
            return call("minus", x, y, span=e.span)
        case Call("neg", (x,)), y:
            return call("minus", y, x, span=e.span)
        case _:
            return None


def minus_negative(e: Call) -> Expr | None:
    match e.args:
        case x, Call("neg", (y,)):
            return call("plus", x, y, span=e.span)
        case _:
            return None


def twice(e: Call) -> Expr | None:
    """neg, not and bit_not undo themselves."""
    match e.args:
        case (Call(op, (x,)),) if op == e.op:
            return x
        case _:
            return None


def again(e: Call) -> Expr | None:
    """What does nothing to its own result."""
    match e.args:
        case (Call(op),) if op == e.op:
            return e.args[0]
        case _:
            return None


def rounded_before(e: Call) -> Expr | None:
    match e.args:
        case (Call("floor" | "ceil" | "trunc" | "round"),):
            return e.args[0]
        case _:
            return None


def abs_of_negative(e: Call) -> Expr | None:
    match e.args:
        case (Call("neg", (x,)),):
            return call("abs", x, span=e.span)
        case _:
            return None


def both_the_same(e: Call) -> Expr | None:
    x, y = e.args
    return x if _same(x, y) else None


def shifted_by_zero(e: Call) -> Expr | None:
    x, y = e.args
    return x if _is(y, 0) else None


# Logic and selection


def _truth(x: Expr) -> bool | None:
    """What is true everywhere, or false."""
    while isinstance(x, Call) and x.op == "add_dim":
        x = x.args[0]
    return x.value if isinstance(x, Literal) and isinstance(x.value, bool) else None


def and_true(e: Call) -> Expr | None:
    x, y = e.args
    rest = x if _truth(y) is True else y if _truth(x) is True else None
    return None if rest is None else coerced(rest, e.tensor)


def or_false(e: Call) -> Expr | None:
    x, y = e.args
    rest = x if _truth(y) is False else y if _truth(x) is False else None
    return None if rest is None else coerced(rest, e.tensor)


def known_choice(e: Call) -> Expr | None:
    truth = _truth(e.args[0])
    return None if truth is None else coerced(e.args[1] if truth else e.args[2], e.tensor)


def choice_by_not(e: Call) -> Expr | None:
    match e.args:
        case Call("not", (c,)), x, y:
            return call("if", c, y, x, span=e.span)
        case _:
            return None


def cast_to_itself(e: Call) -> Expr | None:
    return e.args[0]


def cast_there_and_back(e: Call) -> Expr | None:
    """Through a wider type of the same kind nothing is lost."""
    match e.args:
        case (Call("cast", (x,)) as wide,):
            a, b = x.tensor.element, wide.tensor.element
            assert isinstance(a, Scalar) and isinstance(b, Scalar)
            same_kind = a.kind == b.kind and a.kind in ("int", "uint")
            return x if a.bits <= b.bits and (same_kind or (a.name, b.name) == ("float32", "float64")) else None
        case _:
            return None


# Tuples


def member_of_made(e: Call) -> Expr | None:
    match e.args, e.static:
        case (Call("make_tuple", members),), (int() as index,):
            return coerced(members[index], e.tensor)
        case _:
            return None


def made_of_members(e: Call) -> Expr | None:
    first = e.args[0]
    if not (isinstance(first, Call) and first.op == "tuple_get"):
        return None
    whole = first.args[0]
    for k, member in enumerate(e.args):
        match member:
            case Call("tuple_get", (x,), (index,)) if index == k and _same(x, whole):
                pass
            case _:
                return None
    return whole


# Domains


def subset_of_all(e: Call) -> Expr | None:
    return e.args[0]


def subset_of_subset(e: Call) -> Expr | None:
    match e.args:
        case (Call("subset", (x,)),):
            cuts = tuple((n, i) for n, i in e.tensor.dims.items if x.tensor.dims[n] != i)
            return call("subset", x, static=(Dims(cuts),), span=e.span)
        case _:
            return None


def subset_of_added(e: Call) -> Expr | None:
    match e.args:
        case (Call("add_dim", (x,), (dim, _, _)),) if dim in e.static.intervals:
            interval = e.static.intervals[dim]
            rest = e.static.intervals.without(dim)
            inner = call("subset", x, static=(rest,), span=e.span) if rest else x
            return call("add_dim", inner, static=(dim, interval.start, interval.stop), span=e.span)
        case _:
            return None


def shift_of_added(e: Call) -> Expr | None:
    match e.args, e.static:
        case (Call("add_dim", (x,), (added, start, stop)),), (dim, offset):
            if added == dim:
                return call("add_dim", x, static=(dim, start - offset, stop - offset), span=e.span)
            return call("add_dim", cartesian_shift(x, dim, offset, e.span), static=(added, start, stop), span=e.span)
        case _:
            return None


def concat_of_parts(e: Call) -> Expr | None:
    """Parts of one tensor, put together again."""
    parts = sorted(e.args, key=lambda a: [(i.start, i.stop) for _, i in sorted(a.tensor.dims.items)])
    match parts[0]:
        case Call("subset", (whole,)):
            pass
        case _:
            return None
    for part in parts:
        match part:
            case Call("subset", (x,)) if _same(x, whole):
                pass
            case _:
                return None
    cuts = Dims(tuple((n, i) for n, i in e.tensor.dims.items if whole.tensor.dims[n] != i))
    return call("subset", whole, static=(cuts,), span=e.span) if cuts else whole


def rename_to_itself(e: Call) -> Expr | None:
    return e.args[0] if all(a == b for a, b in e.static.pairs) else None


def rename_of_rename(e: Call) -> Expr | None:
    match e.args:
        case (Call("rename", (x,), (inner,)),):
            first, second = dict(inner), dict(e.static.pairs)
            both = {d: second.get(first.get(d, d), first.get(d, d)) for d in x.tensor.dims}
            pairs = tuple((a, b) for a, b in both.items() if a != b)
            return call("rename", x, static=(pairs,), span=e.span) if pairs else x
        case _:
            return None


def merge_of_split(e: Call) -> Expr | None:
    match e.args, e.static:
        case (Call("split_dim", (x,), (dim, outer, inner, _)),), (o, i, d) if (outer, inner, dim) == (o, i, d):
            return x
        case _:
            return None


def split_of_merged(e: Call) -> Expr | None:
    match e.args, e.static:
        case (Call("merge_dims", (x,), (outer, inner, dim)),), (d, o, i, _) if (outer, inner, dim) == (o, i, d):
            return x
        case _:
            return None


def update_of_all(e: Call) -> Expr | None:
    """What is put everywhere, also along dims that it lacks, leaves nothing of what was there."""
    part, whole = e.args[1], e.tensor.dims
    if any(i != whole[d] for d, i in part.tensor.dims.items):
        return None
    for dim, i in reversed(whole.items):
        if dim not in part.tensor.dims:
            part = call("add_dim", part, static=(dim, i.start, i.stop))
    return part


def update_of_nothing(e: Call) -> Expr | None:
    x, part = e.args
    return x if part.tensor.dims.size == 0 else None


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
    "and": (and_true, both_the_same),
    "or": (or_false, both_the_same),
    "xor": (or_false,),
    "not": (twice,),
    "bit_not": (twice,),
    "bit_and": (both_the_same,),
    "bit_or": (both_the_same,),
    "shift_left": (shifted_by_zero,),
    "shift_right": (shifted_by_zero,),
    "if": (known_choice, choice_by_not),
    "cast": (cast_to_itself, cast_there_and_back),
    "tuple_get": (member_of_made,),
    "make_tuple": (made_of_members,),
    "subset": (subset_of_all, subset_of_subset, subset_of_added),
    "cartesian_shift": (shift_of_added,),
    "concat": (concat_of_parts,),
    "rename": (rename_to_itself, rename_of_rename),
    "merge_dims": (merge_of_split,),
    "split_dim": (split_of_merged,),
    "update": (update_of_all, update_of_nothing),
}
"""The rules by the builtin at whose calls they look, in the order in which they are tried."""
