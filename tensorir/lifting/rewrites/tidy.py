"""Renames at the edges of a fencil: parameters take the names under which they are used.

>>> from tensorir.text import parse
>>> f = parse("f(A: tensor<float, a[0:3]>, B: tensor<float, b[0:3]>) { B ← rename(i → b)(rename(a → i)(A) × 2.0); }")
>>> print(tidied(f))
f(A: tensor<float, i[0:3]>, B: tensor<float, i[0:3]>) {
  B ← A × 2.0;
}
"""

from __future__ import annotations

from dataclasses import replace

from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Var
from tensorir.ir.rewrite import postorder, rewrite_all, values, with_values
from tensorir.ir.types import Dims
from tensorir.lifting.emission.tensors import renamed
from tensorir.lifting.rewrites.canonical import Canonical
from tensorir.lifting.rewrites.coordinates import with_sums_of_coordinates
from tensorir.lifting.rewrites.naming import one_name_each, with_distinct_names
from tensorir.lifting.rewrites.ordering import in_order, with_shifts_inside
from tensorir.passes.conditionals import PropagateConditions, decides
from tensorir.passes.simplify import Cse
from tensorir.runtime.errors import Span

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
