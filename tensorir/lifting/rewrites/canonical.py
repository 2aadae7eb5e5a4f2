"""One way to write what can be written in several: comparisons, sums with nothing, folds of folds, splits of merges.

`RULES` is the table, as in `passes/simplify`, some of whose rules it shares: each looks at one node whose operands are
done. Those in `LOOSE` change the order of sums, or the sign of a zero, and are left out for floats where numerics are
exact.

>>> from tensorir.passes.base import show
>>> show(Canonical(), "if 0.0 < x then x + 0.0 else 2.0 × x", x={"I": (0, 5)})
if x > 0.0 then x else 2.0 × x
>>> show(Canonical(exact=True), "x + 0.0", x={"I": (0, 5)})
x + 0.0

Parameters take the names under which they are used.

>>> from tensorir.text import parse
>>> f = parse("f(A: tensor<float, a[0:3]>, B: tensor<float, b[0:3]>) { B ← rename(i → b)(rename(a → i)(A) × 2.0); }")
>>> print(tidied(f))
f(A: tensor<float, i[0:3]>, B: tensor<float, i[0:3]>) {
  B ← A × 2.0;
}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tensorir.integers.affine import Affine, Quotient, number, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, closure, fencil, fresh, literal, operator, reduce, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rewrite_all, values, with_label, with_values
from tensorir.ir.types import BOOL, INT32, Scalar, TensorType
from tensorir.lifting.emission.tensors import (
    constant_of,
    cut,
    filled,
    neutral,
    position,
    renamed,
    shifted,
    sum_of,
    sum_of_coordinates,
    width_of,
    with_sums_of_coordinates,
)
from tensorir.lifting.rewrites.naming import (
    fold_like,
    in_order,
    is_whole,
    one_name_each,
    starts_from_nothing,
    with_distinct_names,
    with_shifts_inside,
)
from tensorir.lifting.rewrites.recurrences import added_point, concat_of_concat, prefix_of_scan
from tensorir.passes import simplify
from tensorir.passes.base import Pass, rewritten
from tensorir.passes.conditionals import PropagateConditions, decides
from tensorir.passes.simplify import Cse
from tensorir.runtime.errors import Span


@dataclass(frozen=True)
class Canonical(Pass):
    """Every rule of the table, until none applies; `exact` leaves out those that change roundings.

    >>> from tensorir.passes.base import show
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
        for one in RULES.get(node.op, ()):
            if not (self.exact and one in LOOSE and not is_whole(node)):
                new = one(node)
                if new is not None and new.type == node.type:
                    if one in REORDERING and rounds(node):
                        self.merged.append(node.span)
                    return with_label(new, node.label) if node.label else new
        return None


# Comparisons and choices


MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def small_first(e: Call) -> Expr | None:
    """Comparisons have a number on the right, or the sign that opens to the right."""
    x, y = e.args
    one_number = isinstance(x, Literal) != isinstance(y, Literal)
    wrong = isinstance(x, Literal) if one_number else e.op in ("greater", "greater_equal")
    return call(MIRRORED[e.op], y, x, span=e.span) if wrong else None


THERE = frozenset(["add_dim", "cartesian_shift", "merge_dims", "pos", "rename", "split_dim", "subset", "tuple_get"])
"""What has every element that its operand has, besides what is done element by element."""


def choice_of_truth(e: Call) -> Expr | None:
    """A choice between a condition and the truth value that decides it is both conditions, or either."""
    c, x, y = e.args
    if e.tensor.element != BOOL:
        return None
    for one, other, truth, op in ((y, x, False, "and"), (x, y, True, "or")):
        known = constant_of(one)
        if known is not None and known.value is truth and _is_there(other):
            return call(op, c, other, span=e.span)
    return None


def _is_there(e: Expr) -> bool:
    """True if nothing in an expression may be absent that its variables have."""
    return all(
        n.op in THERE or TABLE[n.op].elementwise or (n.op == "gather" and n.static[-1] in ("clamp", "zero"))
        for n in postorder(e)
        if isinstance(n, Call)
    )


def plus_nothing(e: Call) -> Expr | None:
    """x + 0 is x, but for the sign of a zero."""
    x, y = e.args
    for one, other in ((x, y), (y, x)):
        if isinstance(other, Literal) and not isinstance(other.value, bool) and other.value == 0:
            return one
    return None


def shift_of_shift(e: Call) -> Expr | None:
    """Shifts along one dim add up."""
    match e.args, e.static:
        case (Call("cartesian_shift", (x,), (d, j)),), (dim, i) if d == dim:
            return shifted(x, dim, i + j)
        case _:
            return None


def shift_of_subset(e: Call) -> Expr | None:
    """A part that is shifted is a part of what is shifted."""
    match e.args, e.static:
        case (Call("subset", (x,)) as part,), (dim, by) if dim in part.tensor.dims:
            return cut(shifted(x, dim, by), dict(e.tensor.dims.items))
        case _:
            return None


def rename_of_subset(e: Call) -> Expr | None:
    """A part under other names, which were given before, is a part of what had them."""
    match e.args[0]:
        case Call("subset", (Call("rename") as named,)):
            return cut(renamed(named, dict(e.static[0])), dict(e.tensor.dims.items))
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


def point_of_shifted(e: Call) -> Expr | None:
    """A point of what is shifted along other dims is shifted."""
    names, _ = e.static
    match e.args[0]:
        case Call("cartesian_shift", (x,), (dim, by)) if dim not in names and all(
            isinstance(i, Literal) for i in e.args[1:]
        ):
            return shifted(call("gather", x, *e.args[1:], static=e.static, span=e.span), dim, by)
        case _:
            return None


# Folds


def start_of_added(e: Call) -> Expr | None:
    """A fold spreads what it starts from by itself."""
    f, init, *rest = e.args
    while isinstance(init, Call) and init.op == "add_dim":
        (init,) = init.args
    return None if init is e.args[1] else call(e.op, f, init, *rest, static=e.static, span=e.span)


def fold_of_fold(e: Call) -> Expr | None:
    """A fold over both parts of a dim is a fold over the dim."""
    match e:
        case Call("reduce", (Operator(op), init, Call("reduce", (Operator(inner), start, x), (b,))), (a,)):
            pass
        case _:
            return None
    if op != inner or not TABLE[op].associative or a not in x.tensor.dims or not starts_from_nothing(op, start, init):
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


def contraction_of_parts(e: Call) -> Expr | None:
    """A contraction over both parts of a dim, which both factors have, is one over the dim.

    >>> from tensorir.passes.base import show
    >>> factors = "(split_dim(K, K_0, K_1, 3)(x), split_dim(K, K_0, K_1, 3)(y))"
    >>> show(Canonical(), f"contract(float, K_0, K_1){factors}", x={"I": (0, 2), "K": (0, 6)}, y={"K": (0, 6)})
    contract(float, K)(x, y)
    """
    element, dims = e.static
    x, y = e.args
    for k, (a, b) in enumerate(pairwise(dims)):
        if any(n not in f.tensor.dims for n in (a, b) for f in (x, y)):
            continue
        for outer, part in ((a, b), (b, a)):
            name = _name(call("multiplies", x, y) if x.tensor.element == y.tensor.element else x, outer, part)
            if name in x.tensor.dims or name in y.tensor.dims:
                continue
            whole = _Whole(outer, part, len(x.tensor.dims[part]), name)
            made = [f for f in map(whole.of, (x, y)) if f is not None]
            if len(made) == 2:
                return call("contract", *made, static=(element, (*dims[:k], name, *dims[k + 2 :])), span=e.span)
    return None


def fold_of_contraction(e: Call) -> Expr | None:
    """A sum of contractions is one over that dim, too.

    >>> from tensorir.passes.base import show
    >>> dims = {"I": (0, 2), "K": (0, 6)}
    >>> show(Canonical(), "reduce(+, 0.0, I)(contract(float, K)(x, y))", x=dims, y=dims)
    contract(float, I, K)(x, y)
    """
    match e:
        case Call("reduce", (Operator("plus"), init, Call("contract", (x, y), (kind, dims))), (dim,)):
            nothing = constant_of(init)
            if nothing is None or nothing.value != 0 or any(dim not in f.tensor.dims for f in (x, y)):
                return None
            return call("contract", x, y, static=(kind, (dim, *dims)), span=e.span)
        case _:
            return None


def fold_of_merged(e: Call) -> Expr | None:
    """A fold over two dims that were merged for it is one over both.

    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "reduce(+, 0.0, K)(merge_dims(I, J, K)(x))", x={"I": (0, 2), "J": (0, 3)})
    reduce(+, 0.0, I)(reduce(+, 0.0, J)(x))
    """
    match e:
        case Call("reduce", (Operator(op), init, Call("merge_dims", (x,), (a, b, merged))), (dim,)) if merged == dim:
            element = x.tensor.element
            if not TABLE[op].associative or not isinstance(element, Scalar) or {a, b} & set(init.tensor.dims):
                return None
            within = fold_like(op, literal(neutral(op, element), element), x, b, e)
            return fold_like(op, init, within, a, e)
        case _:
            return None


def row_of_split(e: Call) -> Expr | None:
    """A row of a dim that is split into rows is a part of the dim.

    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "gather(a, clamp)(split_dim(I, a, b, 2)(x), 1)", x={"I": (0, 6)})
    rename(I → b)(subset(⟪I, 2⟫(x), I[0:2]))
    """
    x, *indices = e.args
    dims, mode = e.static
    for dim, index in zip(dims, indices, strict=True):
        if not isinstance(index, Literal) or int(index.value) not in x.tensor.dims[dim]:
            continue
        part = _row(x, dim, int(index.value))
        if part is not None:
            rest = {d: i for d, i in zip(dims, indices, strict=True) if d != dim}
            return call("gather", part, *rest.values(), static=(tuple(rest), mode), span=e.span) if rest else part
    return None


def _row(x: Expr, outer: str, row: int) -> Expr | None:
    match x:
        case Call("split_dim", (y,), (dim, name, inner, size)) if name == outer:
            part = shifted(cut(y, {dim: Interval(row * size, (row + 1) * size)}), dim, row * size)
            return renamed(part, {dim: inner})
        case Call("split_dim", (y,), _) if outer in y.tensor.dims:
            part = _row(y, outer, row)
            return None if part is None else call("split_dim", part, static=x.static, span=x.span)
        case _:
            return None


def sum_from_nothing(e: Call) -> Expr | None:
    """Nothing is added by 0 to a sum that starts from 0, which is never -0.

    >>> from tensorir.passes.base import show
    >>> show(Canonical(exact=True), "0.0 + reduce(+, 0.0, I)(x)", x={"I": (0, 2)})
    reduce(+, 0.0, I)(x)
    """
    x, y = e.args
    for one, other in ((x, y), (y, x)):
        added = constant_of(other)
        if added is None or added.value != 0 or not set(other.tensor.dims) <= set(one.tensor.dims):
            continue
        match one:
            case Call("contract") | Call("reduce", (Operator("plus"), Literal(0, _), _)) if not _is_negative(one):
                return one
            case _:
                pass
    return None


def _is_negative(e: Expr) -> bool:
    """True if a sum starts from -0."""
    match e:
        case Call("reduce", (_, Literal(start), _)):
            return str(start).startswith("-")
        case _:
            return False


def rounds(e: Call) -> bool:
    """True if a fold of floats depends on the order of its terms."""
    element, f = e.tensor.element, e.args[0]
    floats = isinstance(element, Scalar) and element.is_float
    return floats and (e.op == "contract" or (isinstance(f, Operator) and f.op in ("plus", "multiplies")))


def _name(x: Expr, outer: str, part: str) -> str:
    """A name for both parts of a dim: what their names share, or one like that of the outer one that nothing has."""
    stem = outer.rstrip("_0123456789")
    if stem and part.startswith(stem) and stem not in x.tensor.dims:
        return stem
    taken = {d for e in postorder(x) if isinstance(e.type, TensorType) for d in e.tensor.dims.names}
    return fresh(stem or outer, taken)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A dim in the place of its two parts."""

    outer: str
    part: str
    size: int
    dim: str
    known: dict[tuple[int, str, str], Expr | None] = field(
        default_factory=dict[tuple[int, str, str], "Expr | None"], compare=False
    )
    """What is shared is looked at once."""

    @property
    def _names(self) -> set[str]:
        return {self.outer, self.part, self.dim}

    def _total(self, e: Expr) -> Expr | None:
        """A sum of coordinates that has both parts as one: `8 × a + 2 × b` is `2 × i`, where b counts to 4."""
        total = sum_of_coordinates(e)
        if total is None or self.dim in total.names:
            return None
        outer, part = (e.tensor.dims.get(n) for n in (self.outer, self.part))
        if outer is None or part != Interval(0, self.size) or not self._together(total):
            return None
        # what counts the parts in turn counts the whole
        dims = {**dict(e.tensor.dims.items), self.dim: Interval(outer.start * self.size, outer.stop * self.size)}
        ranges = {n: (i.start, i.stop - 1) for n, i in dims.items()}
        rest = total.replaced({self.outer: number(0), self.part: variable(self.dim)}, ranges)
        return sum_of(rest, {n: position(n, dims[n]) for n in sorted(rest.names)})

    def _together(self, total: Affine) -> bool:
        """True if a sum, and what it takes quotients of, needs both parts as one."""
        inner = (atom.inner for atom, _ in total.terms if isinstance(atom, Quotient))
        alike = total.coefficient(self.outer) == total.coefficient(self.part) * self.size
        return alike and all(map(self._together, inner))

    def _number(self, value: Any, element: Scalar, dims: dict[str, Interval]) -> Expr | None:
        """One number everywhere, along the dim as well; where it lacks the outer part what it meets has that."""
        outer, part = dims.pop(self.outer, None), dims.pop(self.part, Interval(0, self.size))
        if outer is None:
            return filled(value, element, dims)
        if part != Interval(0, self.size) or self.dim in dims:
            return None
        return filled(value, element, {**dims, self.dim: Interval(outer.start * self.size, outer.stop * self.size)})

    def _bound(self, e: Expr) -> Expr | None:
        """A bound of the outer part as one of the dim: `8 × b + a < 20` is `32 × b + i < 80`, where i counts fours."""
        match e:
            case Call("less" | "greater_equal", (x, Literal(value))) if (total := sum_of_coordinates(x)) is not None:
                pass
            case _:
                return None
        if not total.is_linear or total.coefficient(self.outer) != 1 or {self.part, self.dim} & total.names:
            return None
        outer = e.tensor.dims[self.outer]
        dims = dict(e.tensor.dims.items) | {self.dim: Interval(outer.start * self.size, outer.stop * self.size)}
        new = total.minus(variable(self.outer)).times(self.size).plus(variable(self.dim))
        bound = int(value) * self.size
        if width_of(new, {n: (i.start, i.stop - 1) for n, i in dims.items()}) != INT32 or bound not in INT32.range:
            return None
        made = sum_of(new, {n: position(n, dims[n]) for n in sorted(new.names)})
        return call(e.op, made, literal(bound, INT32), span=e.span)

    def of(self, e: Expr) -> Expr | None:
        """The expression over the dim; None where it needs the parts apart."""
        key = id(e), self.outer, self.part
        if key not in self.known:
            self.known[key] = self._of(e)
        return self.known[key]

    def _moved(self, e: Call) -> Expr | None:
        """An expression of one operand along other dims, applied to the operand over the dim."""
        made = self.of(e.args[0])
        return None if made is None else call(e.op, made, static=e.static, span=e.span)

    def _of(self, e: Expr) -> Expr | None:
        here = {self.outer, self.part} & set(e.tensor.dims)
        if not here:
            return e if self.dim not in e.tensor.dims else None
        if (same := constant_of(e)) is not None and isinstance(e.tensor.element, Scalar):
            return self._number(same.value, e.tensor.element, dict(e.tensor.dims.items))
        if len(here) == 1:
            return self._bound(e)  # one part alone
        match e:
            case Call("split_dim", (x,), (dim, self.outer, self.part, self.size)):
                return renamed(x, {dim: self.dim}) if self.dim == dim or self.dim not in x.tensor.dims else None
            case Call("rename", (x,), (pairs,)) if self.dim not in x.tensor.dims and self.dim not in e.tensor.dims:
                before = {new: old for old, new in pairs}
                under = replace(self, outer=before.pop(self.outer, self.outer), part=before.pop(self.part, self.part))
                made = under.of(x)
                return None if made is None else renamed(made, {old: new for new, old in before.items()})
            case Call("split_dim", _, (dim, outer, inner, _)) if not {dim, outer, inner} & self._names:
                return self._moved(e)
            case Call("cartesian_shift" | "add_dim", _, (dim, *_)) if dim not in self._names:
                return self._moved(e)
            case Call("subset", _, (cuts,)) if not set(cuts) & self._names:
                return self._moved(e)
            case Call("update", (base, x)) if (same := constant_of(base)) is not None and self.part in x.tensor.dims:
                whole, made = self._number(same.value, same.element, dict(e.tensor.dims.items)), self.of(x)
                kept = self.outer in x.tensor.dims and x.tensor.dims[self.part] == Interval(0, self.size)
                return call("update", whole, made, span=e.span) if whole and made and kept else None
            case Call("plus" | "minus" | "multiplies" | "floordiv" | "mod") if (total := self._total(e)) is not None:
                return total
            case Call("reduce", (Operator(op), init, x), (dim,)) if not {dim, *init.tensor.dims} & self._names:
                folded = self.of(x)
                return None if folded is None else fold_like(op, init, folded, dim, e)
            case Call("contract", (x, y), (_, dims)) if not {*dims} & self._names:
                factors = [self.of(a) for a in (x, y)]
                both = [a for a in factors if a is not None]
                return call("contract", *both, static=e.static, span=e.span) if len(both) == 2 else None
            case Call("gather", (x, *indices), (dims, _)) if not set(dims) & self._names:
                found = [x if not set(x.tensor.dims) & self._names else self.of(x), *map(self.of, indices)]
                operands = [i for i in found if i is not None]
                return call("gather", *operands, static=e.static, span=e.span) if len(operands) == len(found) else None
            case Call("gather", (x, *indices), (dims, _)) if not set(x.tensor.dims.without(*dims)) & self._names:
                places = [i for i in map(self.of, indices) if i is not None]
                return call("gather", x, *places, static=e.static, span=e.span) if len(places) == len(indices) else None
            case Call(op, args) if TABLE[op].elementwise and all(isinstance(a.type, TensorType) for a in args):
                parts = [self.of(a) for a in args]
                known = [p for p in parts if p is not None]
                return call(op, *known, static=e.static, span=e.span) if len(known) == len(parts) else None
            case _:
                return None


def merge_of_whole(e: Call) -> Expr | None:
    """A merge of all parts of one split is the tensor itself; `3 × a + b` needs none.

    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "merge_dims(I_0, I_1, I)(exp(split_dim(I, I_0, I_1, 3)(x)))", x={"I": (0, 6)})
    exp(x)
    """
    outer, part, dim = e.static
    (x,) = e.args
    return _Whole(outer, part, len(x.tensor.dims[part]), dim).of(x) if outer != part else None


RULES: dict[str, tuple[simplify.Rule, ...]] = {
    **dict.fromkeys(MIRRORED, (small_first,)),
    "plus": (plus_nothing, sum_from_nothing),
    "minus": (simplify.minus_zero,),
    "multiplies": (simplify.times_one,),
    "divides": (simplify.by_one,),
    "neg": (simplify.twice,),
    "not": (simplify.twice,),
    "if": (simplify.known_choice, simplify.choice_by_not, choice_of_truth),
    "and": (simplify.neutral_truth, simplify.both_the_same),
    "or": (simplify.neutral_truth, simplify.both_the_same),
    "min": (simplify.both_the_same,),
    "max": (simplify.both_the_same,),
    "reduce": (start_of_added, fold_of_fold, fold_of_contraction, fold_of_merged),
    "contract": (contraction_of_parts,),
    "scan": (start_of_added,),
    "add_dim": (added_point,),
    "concat": (simplify.concat_of_parts, prefix_of_scan, concat_of_concat),
    "gather": (row_of_split, point_of_shifted),
    "rename": (simplify.rename_to_itself, simplify.rename_of_rename, rename_of_subset),
    "subset": (simplify.whole_operand, simplify.subset_of_subset, simplify.subset_of_added),
    "cartesian_shift": (simplify.shift_of_added, shift_of_shift, shift_of_subset),
    "merge_dims": (simplify.merge_of_split, merge_of_whole),
    "split_dim": (split_of_merged, split_of_renamed),
    "update": (simplify.update_of_all, simplify.update_of_nothing),
}
"""The rules by the builtin at whose calls they look, in the order in which they are tried."""

REORDERING = frozenset([fold_of_fold, fold_of_contraction, contraction_of_parts, fold_of_merged])
"""Rules that add up the same terms in another order."""

LOOSE = REORDERING | frozenset([plus_nothing])
"""Rules that change roundings of floats, or the sign of a zero."""


# Renames

MOST_ROUNDS = 4
"""How often renames are looked for."""


def tidied(
    f: Fencil, exact: bool = False, merged: list[Span] | None = None,
    named: Callable[[Fencil], Fencil] = lambda f: _named(f),
) -> Fencil:  # fmt: skip
    """The fencil in canonical form, with fewer renames; `exact` keeps the order of sums of floats.

    `merged` gets the places of folds whose terms are taken in another order than they were, and `named` gives each dim
    a name.
    """
    canonical = Canonical(exact, [] if merged is None else merged)
    f = named(PropagateConditions().run(canonical.run(f)))
    f = _in_one_order(_without_renames(f, canonical, named), exact)
    if not any(decides(e) for e in postorder(*values(f.closures))):
        return f
    # moves inside of choices have met by now, and what is left of them is known
    settled = PropagateConditions().run(canonical.run(f))
    return _in_one_order(canonical.run(settled), exact)


def _in_one_order(f: Fencil, exact: bool) -> Fencil:
    """The fencil with its sums, shifts, and folds in order, and what only coordinates tell as sums of them."""
    f = replace(f, closures=with_values(f.closures, map(_without_added, f.closures)))
    f = with_shifts_inside(Cse().run(in_order(f, exact)))
    new = with_sums_of_coordinates(f)
    f = f if new is f else Cse().run(in_order(new, exact))
    # the order of axes tells in which order dims are met, and that tells the order of folds
    again = in_order(f, exact)
    return f if again == f else Cse().run(again)


def _without_added(c: Closure) -> Expr:
    """The value of a closure without the dims that are added to it last: it is spread over what it is stored to."""
    value = c.value
    while isinstance(value, Call) and value.op == "add_dim" and value.args[0].tensor.dims and c.region is None:
        value = value.args[0]
    return value


def _without_renames(f: Fencil, canonical: Canonical, named: Callable[[Fencil], Fencil]) -> Fencil:
    """The fencil in canonical form, without the renames that come to light when others have gone."""
    for _ in range(MOST_ROUNDS):
        new = canonical.run(f)
        if new is f or not any(isinstance(e, Call) and e.op == "rename" for e in postorder(*values(new.closures))):
            return new
        f = named(new)
        if f == new:
            return new
    return canonical.run(f)


def _named(f: Fencil) -> Fencil:
    """The fencil with a name for each dim, and with few renames."""
    # equal expressions keep their names together
    return one_name_each(_renamed_at_the_edges(with_distinct_names(Cse().run(f))))


def by_parameters(f: Fencil) -> Fencil:
    """The fencil with the names that dims have in its parameters, where there are several for one."""
    return one_name_each(with_distinct_names(Cse().run(f)), frozenset(n for p in f.params for n in p.type.dims.names))


def _renamed_at_the_edges(f: Fencil) -> Fencil:
    roots = list(values(f.closures))
    read = {v for e in roots for v in e.free}
    names: dict[Var, dict[str, str]] = {}
    for v in read:
        pairs = _only_rename(v, roots)
        if pairs is not None and not any(c.output == v for c in f.closures):
            names[v] = dict(pairs)
    new = {v: _under(v, names[v]) for v in names}

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Call) and e.op == "rename" and isinstance(v := e.args[0], Var):
            return new.get(v)
        return None

    roots = list(rewrite_all(roots, rule))
    outputs: dict[Var, Var] = {}
    closures = list(f.closures)
    for k, (c, e) in enumerate(zip(closures, roots, strict=True)):
        once = sum(other.output == c.output for other in closures) == 1
        if once and c.region is None and c.output not in read and isinstance(e, Call) and e.op == "rename":
            back = {b: a for a, b in e.static[0]}
            made = _under(c.output, back)
            if len(set(made.type.dims.names)) == len(made.type.dims):
                outputs[c.output] = made
                roots[k] = renamed(e, back)
    params = [outputs.get(p, new.get(p, p)) for p in f.params]
    stores = [closure(outputs.get(c.output, c.output), e, c.region) for c, e in zip(closures, roots, strict=True)]
    return fencil(f.name, params, stores)


def _under(v: Var, names: dict[str, str]) -> Var:
    return var(v.name, v.type.on(Dims(tuple((names.get(d, d), i) for d, i in v.type.dims.items))))


def _only_rename(v: Var, roots: list[Expr]) -> tuple[tuple[str, str], ...] | None:
    """The one rename under which a variable is used everywhere."""
    found: set[tuple[tuple[str, str], ...]] = set()
    for e in postorder(*roots):
        if v in e.children:
            if not (isinstance(e, Call) and e.op == "rename"):
                return None
            found.add(e.static[0])
    return next(iter(found)) if len(found) == 1 and v not in roots else None
