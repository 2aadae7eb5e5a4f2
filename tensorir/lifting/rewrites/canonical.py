"""One way to write what can be written in several: comparisons, sums with nothing, folds of folds, splits of merges.

`RULES` is the table, as in `passes/simplify`, some of whose rules it shares: each looks at one node whose operands are
done. Those in `LOOSE` change the order of sums, or the sign of a zero, and are left out for floats where numerics are
exact.

>>> from tensorir.passes.base import show
>>> show(Canonical(), "if 0.0 < x then x + 0.0 else 2.0 × x", x={"I": (0, 5)})
if x > 0.0 then x else 2.0 × x
>>> show(Canonical(exact=True), "x + 0.0", x={"I": (0, 5)})
x + 0.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tensorir.integers.affine import quotient, remainder, variable
from tensorir.ir.build import call, closure, fencil, var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal, Var
from tensorir.ir.rewrite import postorder, rewrite_all, values, with_label, with_values
from tensorir.ir.types import Dims, Interval, Scalar
from tensorir.lifting.emission.tensors import (
    constant_of,
    cut,
    filled,
    renamed,
    shifted,
    sum_of_coordinates,
    with_sums_of_coordinates,
)
from tensorir.lifting.rewrites.bounds import (
    COMPARED,
    OUTSIDE,
    bound_of_rows,
    choice_in_a_choice,
    choice_of_renamed,
    choice_of_the_same,
    choice_of_truth,
    choice_of_updates,
    known_bound,
    last_coordinate,
    read_inside,
    read_of_less_padding,
    small_first,
    update_of_itself,
)
from tensorir.lifting.rewrites.digits import (
    fold_of_digits,
    read_of_digits,
    read_of_merged,
    read_of_parts,
    read_of_rows,
    row_of_split,
    split_of_digits,
)
from tensorir.lifting.rewrites.naming import in_order, one_name_each, with_distinct_names, with_shifts_inside
from tensorir.lifting.rewrites.nested_folds import (
    contraction_of_parts,
    fold_of_fold,
    fold_of_merged,
    fold_of_one,
    is_whole,
    merge_of_parts,
    merge_of_whole,
    point_of_computed,
    rounds,
    start_again,
    start_within,
    sum_from_nothing,
)
from tensorir.lifting.rewrites.padding import (
    choice_of_padded,
    concat_of_padded,
    cut_of_padded,
    extreme_of_padded,
    fold_beside_constant,
    merge_of_padded,
    padding_of_padded,
    padding_with_the_same,
    reshaped_number,
    sum_of_padded,
)
from tensorir.lifting.rewrites.prefixes import (
    added_point,
    concat_of_added,
    concat_of_concat,
    point_of_added,
    point_of_update,
    prefix_of_scan,
    whole_of_parts,
)
from tensorir.lifting.rewrites.windows import (
    choice_of_windows,
    padding_of_windows,
    part_of_windows,
    read_of_coordinates,
    read_of_part,
    read_of_read,
    read_through_padding,
    windows_of_whole,
)
from tensorir.passes import simplify
from tensorir.passes.base import Pass, rewritten
from tensorir.passes.conditionals import PropagateConditions, decides
from tensorir.passes.simplify import Cse
from tensorir.runtime.errors import Span

__all__ = ["LOOSE", "OUTSIDE", "RULES", "Canonical"]

T = TypeVar("T")


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
        for one in (*RULES.get(node.op, ()), *(OUTSIDE if TABLE[node.op].elementwise else ())):
            if not (self.exact and one in LOOSE and not is_whole(node)):
                new = one(node)
                if new is not None and new.type == node.type:
                    if one in REORDERING and rounds(node):
                        self.merged.append(node.span)
                    return with_label(new, node.label) if node.label else new
        return None


# Arithmetic


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


def split_of_shifted(e: Call) -> Expr | None:
    """A split of what is shifted along another dim is shifted."""
    match e.args[0]:
        case Call("cartesian_shift", (x,), (dim, by)) if dim != e.static[0]:
            return shifted(call("split_dim", x, static=e.static, span=e.span), dim, by)
        case _:
            return None


def split_of_point(e: Call) -> Expr | None:
    """A split of a read along other dims, at points that it has no part in, is a read of what is split."""
    dim, outer, inner, _ = e.static
    match e.args[0]:
        case Call("gather", (x, *points), (names, _) as static):
            own = {d for p in points for d in p.tensor.dims}
            if dim in names or dim in own or {outer, inner} & (set(x.tensor.dims) - {dim} | own):
                return None
            return call("gather", call("split_dim", x, static=e.static), *points, static=static, span=e.span)
        case _:
            return None


def split_of_choice(e: Call) -> Expr | None:
    """A split of a choice that one branch alone has the dim of is a choice of what is split."""
    dim, outer, inner, _ = e.static
    match e.args[0]:
        case Call("if", (c, x, y) as parts) as choice if not choice.label:
            having = [a for a in parts if dim in a.tensor.dims]
            if having not in ([x], [y]) or any({outer, inner} & set(a.tensor.dims) for a in (c, x, y)):
                return None
            split = [call("split_dim", a, static=e.static, span=e.span) if a is having[0] else a for a in parts]
            return call("if", *split, span=choice.span)
        case _:
            return None


def split_of_padded(e: Call) -> Expr | None:
    """A split of what is padded along other dims is padded."""
    dim = e.static[0]
    match e.args[0]:
        case Call("update", (base, part)) if part.tensor.dims.get(dim) == base.tensor.dims[dim]:
            same, element = constant_of(base), e.tensor.element
            if same is None or not isinstance(element, Scalar):
                return None
            whole = filled(same.value, element, dict(e.tensor.dims.items))
            return call("update", whole, call("split_dim", part, static=e.static), span=e.span)
        case _:
            return None


# Folds


def start_of_added(e: Call) -> Expr | None:
    """A fold spreads what it starts from by itself."""
    f, init, *rest = e.args
    while isinstance(init, Call) and init.op == "add_dim":
        (init,) = init.args
    return None if init is e.args[1] else call(e.op, f, init, *rest, static=e.static, span=e.span)


def gather_of_point(e: Call) -> Expr | None:
    """A read of what was read at a point of other dims reads at that point too."""
    dims, mode = e.static
    match e.args:
        case (Call("gather", (x, *points), (fixed, _)), *indices):
            pass
        case _:
            return None
    known = [p for p in points if isinstance(p, Literal)]
    if len(known) < len(points) or any(int(p.value) not in x.tensor.dims[d] for d, p in zip(fixed, known, strict=True)):
        return None
    chosen: dict[str, Expr] = dict(zip((*fixed, *dims), (*known, *indices), strict=True))
    every = tuple(d for d in x.tensor.dims.names if d in chosen)
    return call("gather", x, *(chosen[d] for d in every), static=(every, mode), span=e.span)


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


def gather_by_digits(e: Call) -> Expr | None:
    """A read at both digits of every coordinate of another dim puts together what was split.

    >>> from tensorir.passes.base import show
    >>> n = "pos(n, add_dim(n, 0, 6, 0))"
    >>> digits = f"floordiv({n}, 3), {n} - 3 × floordiv({n}, 3)"
    >>> show(Canonical(), f"gather(i, j, clamp)(a, {digits})", a={"i": (0, 2), "j": (0, 3)})
    merge_dims(i, j, n)(a)
    """
    x, *indices = e.args
    dims, mode = e.static
    places = [sum_of_coordinates(i) for i in indices]
    for j, (inner, low) in enumerate(zip(dims, places, strict=True)):
        for i, (outer, high) in enumerate(zip(dims, places, strict=True)):
            if i == j or low is None or high is None or len(high.terms) != 1 or len(low.names) != 1 or high.constant:
                continue
            (name,) = low.names
            size = len(x.tensor.dims[inner])
            within = e.tensor.dims.get(name)
            if within is None or name in x.tensor.dims or any(name in k.tensor.dims for k in _but(indices, i, j)):
                continue
            ranges = {name: (within.start, within.stop - 1)}
            digits = quotient(variable(name), size, ranges), remainder(variable(name), size, ranges)
            whole = Interval(x.tensor.dims[outer].start * size, x.tensor.dims[outer].stop * size)
            if (high, low) != digits or x.tensor.dims[inner].start or not whole.covers(within):
                continue
            part = cut(call("merge_dims", x, static=(outer, inner, name)), {name: within})
            rest = tuple(_but(dims, i, j))
            others = _but(indices, i, j)
            return call("gather", part, *others, static=(rest, mode), span=e.span) if rest else part
    return None


def _but(items: Sequence[T], *left_out: int) -> list[T]:
    return [item for k, item in enumerate(items) if k not in left_out]


RULES: dict[str, tuple[simplify.Rule, ...]] = {
    **dict.fromkeys(COMPARED, (small_first, known_bound, bound_of_rows)),
    "eq": (last_coordinate,),
    "plus": (sum_from_nothing, plus_nothing),
    "minus": (simplify.minus_zero,),
    "multiplies": (simplify.times_one,),
    "divides": (simplify.by_one,),
    "neg": (simplify.twice,),
    "not": (simplify.twice,),
    "if": (
        simplify.known_choice,
        simplify.choice_by_not,
        choice_of_the_same,
        choice_in_a_choice,
        choice_of_truth,
        choice_of_padded,
        choice_of_windows,
    ),
    "and": (simplify.and_true, simplify.both_the_same),
    "or": (simplify.or_false, simplify.both_the_same),
    "min": (simplify.both_the_same, start_again),
    "max": (simplify.both_the_same, start_again),
    "reduce": (
        start_of_added,
        start_within,
        fold_of_one,
        fold_of_fold,
        fold_of_merged,
        sum_of_padded,
        extreme_of_padded,
        fold_beside_constant,
        fold_of_digits,
    ),
    "contract": (contraction_of_parts,),
    "scan": (start_of_added,),
    "add_dim": (added_point,),
    "concat": (
        simplify.concat_of_parts,
        prefix_of_scan,
        concat_of_concat,
        concat_of_added,
        concat_of_padded,
    ),
    "gather": (
        reshaped_number,
        gather_by_position,
        gather_by_digits,
        read_of_digits,
        read_of_merged,
        read_of_rows,
        row_of_split,
        point_of_update,
        point_of_added,
        point_of_shifted,
        point_of_computed,
        gather_of_point,
        read_inside,
        read_of_part,
        read_of_coordinates,
        read_of_read,
        read_through_padding,
        read_of_parts,
        read_of_less_padding,
        windows_of_whole,
    ),
    "rename": (simplify.rename_to_itself, simplify.rename_of_rename, rename_of_subset, choice_of_renamed),
    "subset": (
        simplify.subset_of_all,
        simplify.subset_of_subset,
        simplify.subset_of_added,
        cut_of_padded,
        part_of_windows,
    ),
    "cartesian_shift": (simplify.shift_of_added, shift_of_shift, shift_of_subset),
    "merge_dims": (simplify.merge_of_split, reshaped_number, merge_of_whole, merge_of_parts, merge_of_padded),
    "split_dim": (
        reshaped_number,
        split_of_merged,
        split_of_renamed,
        split_of_shifted,
        split_of_point,
        split_of_choice,
        split_of_padded,
        split_of_digits,
    ),
    "update": (
        simplify.update_of_all,
        simplify.update_of_nothing,
        padding_with_the_same,
        padding_of_padded,
        padding_of_windows,
        whole_of_parts,
        update_of_itself,
        choice_of_updates,
    ),
}
"""The rules by the builtin at whose calls they look, in the order in which they are tried."""

REORDERING = frozenset([fold_of_fold, fold_of_merged, fold_of_digits, contraction_of_parts])
"""Rules that add up the same terms in another order."""

LOOSE = REORDERING | frozenset([plus_nothing, fold_of_one, sum_of_padded, fold_beside_constant])
"""Rules that change roundings of floats, or the sign of a zero."""


MOST_ROUNDS = 4
"""How often renames are looked for."""


def tidied(f: Fencil, exact: bool = False, merged: list[Span] | None = None) -> Fencil:
    """The fencil in canonical form, with fewer renames; `exact` keeps the order of sums of floats.

    `merged` gets the places of folds whose terms are taken in another order than they were.
    """
    canonical = Canonical(exact, [] if merged is None else merged)
    f = _named(PropagateConditions().run(canonical.run(f)))
    f = _in_one_order(_without_renames(canonical.run(f), canonical), exact)
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


def _without_renames(f: Fencil, canonical: Canonical) -> Fencil:
    """The fencil without the renames that come to light when others have gone."""
    for _ in range(MOST_ROUNDS):
        if not any(isinstance(e, Call) and e.op == "rename" for e in postorder(*values(f.closures))):
            return f
        new = _named(f)
        if new == f:
            return f
        f = canonical.run(new)
    return f


def _named(f: Fencil) -> Fencil:
    """The fencil with a name for each dim, and with few renames."""
    # equal expressions keep their names together
    return one_name_each(_renamed_at_the_edges(with_distinct_names(Cse().run(f))))


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
        if isinstance(e, Call) and e.op == "rename" and e.args[0] in new:
            return new[e.args[0]]  # type: ignore[index]
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
