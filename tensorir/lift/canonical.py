"""One way to write what can be written in several: comparisons, sums with nothing, folds of folds, splits of merges.

`RULES` is the table, as in `passes/simplify`, some of whose rules it shares: each looks at one node whose operands are
done. Those in `LOOSE` change the order of sums, or the sign of a zero, and are left out where numerics are exact.

>>> from tensorir.passes.show import show
>>> show(Canonical(), "if 0.0 < x then x + 0.0 else 1.0 × x", x={"I": (0, 5)})
if x > 0.0 then x else x
>>> show(Canonical(exact=True), "x + 0.0", x={"I": (0, 5)})
x + 0.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tensorir.build import call, operator, reduce
from tensorir.builtins import TABLE
from tensorir.ir import Call, Expr, Fencil, Literal, Operator
from tensorir.lift.choices import choice_of_renamed, choice_of_updates, update_of_itself
from tensorir.lift.padding import cut_of_padded, sum_of_padded
from tensorir.lift.prefixes import added_point, point_of_added, point_of_update, prefix_of_scan, whole_of_parts
from tensorir.lift.tensors import cut, renamed, shifted
from tensorir.passes import simplify
from tensorir.passes.base import Pass, remade, rewritten
from tensorir.source import Span
from tensorir.types import Scalar, TensorType
from tensorir.walk import postorder, rebuild, use_counts, values, with_label, with_values

__all__ = ["LOOSE", "RULES", "Canonical", "in_order", "with_shifts_inside"]


@dataclass(frozen=True)
class Canonical(Pass):
    """Every rule of the table, until none applies; `exact` leaves out those that change roundings.

    >>> from tensorir.passes.show import show
    >>> f = "reduce(+, 0.0, I_0)(reduce(+, 0.0, I_1)(split_dim(I, I_0, I_1, 3)(x)))"
    >>> show(Canonical(), f, x={"I": (0, 6)})
    reduce(+, 0.0, I)(x)
    """

    exact: bool = False
    merged: list[Span] = field(default_factory=list[Span], compare=False, repr=False)
    """Where sums and products of floats were put together, which rounds them in another order."""

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, self.rule)

    def rule(self, node: Expr) -> Expr | None:
        """One node by the rules, None where none applies."""
        if not isinstance(node, Call):
            return None
        for one in (*RULES.get(node.op, ()), *((shift_outside,) if TABLE[node.op].elementwise else ())):
            if not (self.exact and one in LOOSE):
                new = one(node)
                if new is not None and new.type == node.type:
                    if one is fold_of_fold and _rounds(node):
                        self.merged.append(node.span)
                    return with_label(new, node.label) if node.label else new
        return None


# Arithmetic

_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def small_first(e: Call) -> Expr | None:
    """Comparisons have a number on the right, or the sign that opens to the right."""
    x, y = e.args
    one_number = isinstance(x, Literal) != isinstance(y, Literal)
    wrong = isinstance(x, Literal) if one_number else e.op in ("greater", "greater_equal")
    return call(_MIRRORED[e.op], y, x, span=e.span) if wrong else None


def plus_nothing(e: Call) -> Expr | None:
    """x + 0 is x, but for the sign of a zero."""
    x, y = e.args
    for one, other in ((x, y), (y, x)):
        if isinstance(other, Literal) and not isinstance(other.value, bool) and other.value == 0:
            return one
    return None


# Shifts


def shift_of_shift(e: Call) -> Expr | None:
    """Shifts along one dim add up."""
    match e.args, e.static:
        case (Call("cartesian_shift", (x,), (d, j)),), (dim, i) if d == dim:
            return shifted(x, dim, i + j)
        case _:
            return None


def rename_of_subset(e: Call) -> Expr | None:
    """A part under other names, which were given before, is a part of what had them."""
    match e.args[0]:
        case Call("subset", (Call("rename") as named,)):
            return cut(renamed(named, dict(e.static[0])), dict(e.tensor.dims.items))
        case _:
            return None


def shift_of_subset(e: Call) -> Expr | None:
    """A part that is shifted is a part of what is shifted."""
    match e.args, e.static:
        case (Call("subset", (x,)) as part,), (dim, by) if dim in part.tensor.dims:
            return cut(shifted(x, dim, by), dict(e.tensor.dims.items))
        case _:
            return None


def shift_outside(e: Call) -> Expr | None:
    """What shifts all that has a dim by one distance shifts the whole."""
    having = [a for a in e.args if a.tensor.dims]
    for dim, by in _shifts(having[0]) if having else ():
        if all((dim, by) in _shifts(a) for a in having if dim in a.tensor.dims):
            args = [_unshifted(a, dim) if dim in a.tensor.dims else a for a in e.args]
            return shifted(call(e.op, *args, static=e.static, span=e.span), dim, by)
    return None


def _shifts(x: Expr) -> list[tuple[str, int]]:
    """The distances of the shifts that a tensor starts with."""
    found: list[tuple[str, int]] = []
    while isinstance(x, Call) and x.op == "cartesian_shift":
        found.append((x.static[0], x.static[1]))
        x = x.args[0]
    return found


def _unshifted(x: Expr, dim: str) -> Expr:
    assert isinstance(x, Call) and x.op == "cartesian_shift"
    if x.static[0] == dim:
        return x.args[0]
    return shifted(_unshifted(x.args[0], dim), *x.static)


def in_order(f: Fencil) -> Fencil:
    """Chains of added dims, of shifts, and of whole numbers that are added, in the order of the fencil's dims.

    Those of outputs come first for sums, those of parameters for what is done to these.
    """
    by_params = _places(n for p in f.params for n in p.type.dims.names)
    by_outputs = _places(n for p in (*f.outputs, *f.params) for n in p.type.dims.names)

    def rule(e: Expr) -> Expr | None:
        match e:
            case Call("add_dim" | "cartesian_shift"):
                return _chain_in_order(e, by_params)
            case Call("plus") if isinstance(e.tensor.element, Scalar) and e.tensor.element.is_integer:
                return _sum_in_order(e, by_outputs)
            case _:
                return None

    return rewritten(f, rule)


def _places(names: Iterable[str]) -> dict[str, int]:
    return {n: k for k, n in enumerate(dict.fromkeys(names))}


def _chain_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    chain, x = [e.static], e.args[0]
    while isinstance(x, Call) and x.op == e.op:
        chain.append(x.static)
        x = x.args[0]
    sorted_chain = sorted(chain, key=lambda s: order.get(s[0], len(order)))
    if sorted_chain == chain:
        return None
    for static in reversed(sorted_chain):
        x = call(e.op, x, static=static, span=e.span)
    return x


def _sum_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    terms: list[Expr] = [e]
    while isinstance(first := terms[0], Call) and first.op == "plus" and not first.label:
        terms[:1] = first.args
    found = sorted(terms, key=lambda t: min((order.get(d, len(order)) for d in t.tensor.dims), default=len(order)))
    if found == terms:
        return None
    total, *rest = found
    for t in rest:
        total = call("plus", total, t, span=e.span)
    return total if total.type == e.type else None


def with_shifts_inside(f: Fencil) -> Fencil:
    """Shifts of what is used once are shifts of what it is made of, in the order of the parameters' dims."""
    roots = values(f.closures)
    uses, nodes = use_counts(*roots), list(postorder(*roots))
    order = {n: k for k, n in enumerate(dict.fromkeys(n for p in f.params for n in p.type.dims.names))}

    def opened(e: Expr) -> list[Expr]:
        """The operands to which a shift of an expression moves; none where it stays."""
        if not isinstance(e, Call) or uses[id(e)] > 1:
            return []
        if e.op == "cartesian_shift":
            return [e.args[0]]
        if not all(isinstance(a.type, TensorType) for a in e.args):
            return []
        having = [a for a in e.args if a.tensor.dims]
        selects = e.op == "gather" and having == [e.args[0]]
        return having if TABLE[e.op].elementwise or selects else []

    # each expression belongs to the outermost shift that reaches it
    reached: set[int] = set()
    for e in reversed(nodes):
        if isinstance(e, Call) and e.op == "cartesian_shift" and id(e) not in reached:
            pending = [e.args[0]]
            while pending:
                x = pending.pop()
                if below := opened(x):
                    reached.add(id(x))
                    pending += below
    made: dict[int, Expr] = {}
    for e in nodes:
        if id(e) in reached:
            continue
        if isinstance(e, Call) and e.op == "cartesian_shift":
            made[id(e)] = _inside(e, opened, made, order)
        else:
            made[id(e)] = rebuild(e, tuple(made[id(c)] for c in e.children))
    return remade(f, with_values(f.closures, [made[id(r)] for r in roots]))


def _inside(
    shift: Call, opened: Callable[[Expr], list[Expr]], made: Mapping[int, Expr], order: Mapping[str, int]
) -> Expr:
    """A shift as shifts of what it reaches."""
    stack: list[tuple[Expr, dict[str, int], bool]] = [(shift.args[0], {shift.static[0]: shift.static[1]}, False)]
    out: list[Expr] = []
    while stack:
        e, offsets, ready = stack.pop()
        below = opened(e)
        if ready:
            assert isinstance(e, Call)
            parts = iter(out[len(out) - len(below) :])
            del out[len(out) - len(below) :]
            args = [next(parts) if a.tensor.dims else made[id(a)] for a in e.args]
            out.append(call(e.op, *args, static=e.static, span=e.span))
        elif not below:
            out.append(_moved(made[id(e)], offsets, order))
        elif isinstance(e, Call) and e.op == "cartesian_shift":
            dim, by = e.static
            stack.append((e.args[0], {**offsets, dim: offsets.get(dim, 0) + by}, False))
        else:
            stack.append((e, offsets, True))
            stack.extend((x, offsets, False) for x in reversed(below))
    return out[0]


def _moved(x: Expr, offsets: Mapping[str, int], order: Mapping[str, int]) -> Expr:
    """An expression shifted by distances, its own shifts added to them."""
    total = dict(offsets)
    while isinstance(x, Call) and x.op == "cartesian_shift":
        dim, by = x.static
        total[dim] = total.get(dim, 0) + by
        x = x.args[0]
    for dim in sorted(total, key=lambda d: order.get(d, len(order)), reverse=True):
        x = shifted(x, dim, total[dim])
    return x


# Folds of folds

_ANY_ORDER = frozenset({"plus", "multiplies", "min", "max", "and", "or", "bit_and", "bit_or", "bit_xor", "xor"})
_AGAIN = frozenset({"min", "max", "and", "or", "bit_and", "bit_or"})
_NEUTRAL = {"plus": 0, "multiplies": 1, "and": True, "or": False, "bit_or": 0, "bit_xor": 0, "xor": False}


def fold_of_fold(e: Call) -> Expr | None:
    """A fold over both parts of a dim is a fold over the dim."""
    match e:
        case Call("reduce", (Operator(op), init, Call("reduce", (Operator(inner), start, x), (b,))), (a,)):
            pass
        case _:
            return None
    if op != inner or op not in _ANY_ORDER or a not in x.tensor.dims or not isinstance(start, Literal):
        return None
    if not (op in _AGAIN and start == init) and start.value != _NEUTRAL.get(op):
        return None
    if a in init.tensor.dims or b in init.tensor.dims:
        return None
    for outer, part in ((a, b), (b, a)):
        whole = _Whole(outer, part, len(x.tensor.dims[part]), _name(x, outer, part))
        made = whole.of(x)
        if made is not None:
            rest = made.tensor.on(made.tensor.dims.without(whole.dim))
            state = TensorType(e.tensor.element, e.tensor.dims)
            return reduce(operator(op, state, rest), init, made, dim=whole.dim, span=e.span)
    return None


def _rounds(e: Call) -> bool:
    """Whether a fold of floats depends on the order of its terms."""
    element, f = e.tensor.element, e.args[0]
    floats = isinstance(element, Scalar) and element.is_float
    return floats and isinstance(f, Operator) and f.op in ("plus", "multiplies")


def _name(x: Expr, outer: str, part: str) -> str:
    """The name that two parts of a dim share, or one that nothing has."""
    stem = outer.rstrip("_0123456789")
    if part.startswith(stem) and stem and stem not in x.tensor.dims:
        return stem
    return f"{outer}_{part}"


@dataclass(frozen=True, slots=True)
class _Whole:
    """A dim in the place of its two parts."""

    outer: str
    part: str
    size: int
    dim: str

    def of(self, e: Expr) -> Expr | None:
        """The expression over the dim; None where it needs the parts apart."""
        if self.outer not in e.tensor.dims and self.part not in e.tensor.dims:
            return e if self.dim not in e.tensor.dims else None
        match e:
            case Call("split_dim", (x,), (dim, self.outer, self.part, self.size)):
                return renamed(x, {dim: self.dim}) if self.dim == dim or self.dim not in x.tensor.dims else None
            case Call(op, args) if TABLE[op].elementwise and all(isinstance(a.type, TensorType) for a in args):
                parts = [self.of(a) for a in args]
                known = [p for p in parts if p is not None]
                return call(op, *known, static=e.static, span=e.span) if len(known) == len(parts) else None
            case _:
                return None


# Splits of merges


def split_of_renamed(e: Call) -> Expr | None:
    """A split comes before a rename, where it may undo a merge."""
    match e.args, e.static:
        case (Call("rename", (x,), (pairs,)),), (dim, outer, inner, size):
            before = {new: old for old, new in pairs}
            old = before.get(dim, dim)
            others = {a: b for a, b in pairs if b != dim}
            if {outer, inner} & (set(others) | set(x.tensor.dims) - {old}):
                return None
            return renamed(call("split_dim", x, static=(old, outer, inner, size), span=e.span), others)
        case _:
            return None


def split_of_merged(e: Call) -> Expr | None:
    """A split into what was merged gives that back."""
    match e.args, e.static:
        case (Call("merge_dims", (x,), (a, b, d)),), (dim, outer, inner, size):
            if d != dim or len(x.tensor.dims[b]) != size or {outer, inner} & (set(x.tensor.dims) - {a, b}):
                return None
            return renamed(x, {a: outer, b: inner})
        case _:
            return None


# Folds


def start_of_added(e: Call) -> Expr | None:
    """A fold spreads what it starts from by itself."""
    f, init, *rest = e.args
    while isinstance(init, Call) and init.op == "add_dim":
        (init,) = init.args
    return None if init is e.args[1] else call(e.op, f, init, *rest, static=e.static, span=e.span)


# Reads by position


def gather_by_position(e: Call) -> Expr | None:
    """A read at every coordinate of another dim is a rename."""
    x, *indices = e.args
    dims, mode = e.static
    for k, (dim, index) in enumerate(zip(dims, indices, strict=True)):
        match index:
            case Call("pos", (base,), (here,)):
                interval = base.tensor.dims[here]
            case _:
                continue
        others = [i for j, i in enumerate(indices) if j != k]
        if here in x.tensor.dims or any(here in i.tensor.dims for i in others):
            continue
        if not x.tensor.dims[dim].covers(interval):
            continue
        part = renamed(cut(x, {dim: interval}), {dim: here})
        rest = tuple(d for d in dims if d != dim)
        return call("gather", part, *others, static=(rest, mode), span=e.span) if rest else part
    return None


RULES: dict[str, tuple[simplify.Rule, ...]] = {
    **dict.fromkeys(_MIRRORED, (small_first,)),
    "plus": (plus_nothing,),
    "minus": (simplify.minus_zero,),
    "multiplies": (simplify.times_one,),
    "divides": (simplify.by_one,),
    "neg": (simplify.twice,),
    "not": (simplify.twice,),
    "if": (simplify.known_choice, simplify.choice_by_not),
    "and": (simplify.and_true, simplify.both_the_same),
    "or": (simplify.or_false, simplify.both_the_same),
    "min": (simplify.both_the_same,),
    "max": (simplify.both_the_same,),
    "reduce": (start_of_added, fold_of_fold, sum_of_padded),
    "scan": (start_of_added,),
    "add_dim": (added_point,),
    "concat": (prefix_of_scan,),
    "gather": (gather_by_position, point_of_update, point_of_added),
    "rename": (simplify.rename_to_itself, simplify.rename_of_rename, rename_of_subset, choice_of_renamed),
    "subset": (simplify.subset_of_all, simplify.subset_of_subset, simplify.subset_of_added, cut_of_padded),
    "cartesian_shift": (simplify.shift_of_added, shift_of_shift, shift_of_subset),
    "merge_dims": (simplify.merge_of_split,),
    "split_dim": (split_of_merged, split_of_renamed),
    "update": (simplify.update_of_all, simplify.update_of_nothing, whole_of_parts, update_of_itself, choice_of_updates),
}
"""The rules by the builtin at whose calls they look, in the order in which they are tried."""

LOOSE = frozenset([plus_nothing, fold_of_fold, sum_of_padded])
"""Rules that change roundings, or the sign of a zero."""
