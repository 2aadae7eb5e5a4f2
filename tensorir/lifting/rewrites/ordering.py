"""One order for what may stand in several: added dims, axes of reads, shifts, sums of whole numbers, folds of folds.

>>> from tensorir.text import parse
>>> x = "x: tensor<float, i[0:4], j[0:3]>"
>>> f = parse(f"f({x}, y: tensor<float>) {{ y ← reduce(+, 0.0, j)(reduce(+, 0.0, i)(⟪j, -1, i, 1⟫(x))); }}")
>>> print(in_order(f))
f(x: tensor<float, i[0:4], j[0:3]>, y: tensor<float>) {
  y ← reduce(+, 0.0, i)(reduce(+, 0.0, j)(⟪i, 1, j, -1⟫(x)));
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Operator
from tensorir.ir.rewrite import postorder, rebuild, use_counts, values, with_values
from tensorir.ir.types import Scalar, TensorType
from tensorir.lifting.emission.tensors import shifted
from tensorir.lifting.rewrites.nested_folds import fold_like, is_whole, starts_from_nothing
from tensorir.passes.base import remade, rewritten

MOST_WORDS = 32
"""How many operations of what is added tell where it comes."""

COORDINATES = {"pos", "add_dim", "plus", "minus", "multiplies"}
"""Sums of coordinates are in an order of their own."""


def in_order(f: Fencil, exact: bool = False) -> Fencil:
    """Chains of added dims, of shifts, of whole numbers that are added, of folds, and axes of reads, in the order of
    dims.

    For sums it is that of the outputs' dims, then of the parameters', and what has the same comes in the order of the
    operations that it is made of; for the others that of the parameters' dims. Dims that neither has come as they are
    met. `exact` keeps the order of folds of floats.
    """
    named = [n for p in f.params for n in p.type.dims.names]
    # where dims are added says nothing of an order
    met = [e for e in postorder(*values(f.closures)) if isinstance(e, Call) and e.op != "add_dim"]
    by_params = _places([*named, *(n for e in met for n in e.tensor.dims.names)])
    # what coordinates are added to is in some order already
    data = [e for e in met if not (isinstance(e.tensor.element, Scalar) and e.tensor.element.is_integer)]
    edges = (n for p in (*f.outputs, *f.params) for n in p.type.dims.names)
    by_outputs = _places([*edges, *(n for e in data for n in e.tensor.dims.names)])

    def rule(e: Expr) -> Expr | None:
        match e:
            case Call("add_dim" | "cartesian_shift"):
                return _chain_in_order(e, by_params)
            case Call("gather") if len(e.static[0]) > 1:
                return _axes_in_order(e, by_params)
            case Call("plus") if isinstance(e.tensor.element, Scalar) and e.tensor.element.is_integer:
                return _sum_in_order(e, by_outputs)
            case Call("reduce", (Operator(op), *_)) if TABLE[op].associative and (not exact or is_whole(e)):
                return _folds_in_order(e, by_params)
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


def _axes_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    """A read, the dims that it indexes in their order."""
    x, *indices = e.args
    dims, mode = e.static
    pairs = sorted(zip(dims, indices, strict=True), key=lambda pair: order.get(pair[0], len(order)))
    found = tuple(d for d, _ in pairs)
    if found == dims:
        return None
    new = call("gather", x, *(i for _, i in pairs), static=(found, mode), span=e.span)
    return new if new.type == e.type else None


def _sum_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    terms: list[Expr] = [e]
    while isinstance(first := terms[0], Call) and first.op == "plus" and not first.label:
        terms[:1] = first.args
    places = {id(t): min((order.get(d, len(order)) for d in t.tensor.dims), default=len(order)) for t in terms}
    found = sorted(terms, key=lambda t: (places[id(t)], _words(t)))
    if found == terms:
        return None
    total, *rest = found
    for t in rest:
        total = call("plus", total, t, span=e.span)
    return total if total.type == e.type else None


def _words(e: Expr) -> tuple[str, ...]:
    """The operations that an expression begins with; a coordinate has none."""
    found: list[str] = []
    pending, seen = [e], set[int]()
    while pending and len(found) < MOST_WORDS:
        x = pending.pop()
        if isinstance(x, Call) and id(x) not in seen:
            seen.add(id(x))
            found.append(x.op)
            pending += reversed(x.args)
    return () if COORDINATES.issuperset(found) else tuple(found)


def _folds_in_order(e: Call, order: Mapping[str, int]) -> Expr | None:
    """A fold of folds by one operation, of which all but the outermost start from nothing."""
    op, init = e.args[0], e.args[1]
    assert isinstance(op, Operator) and isinstance(e.tensor.element, Scalar)
    start, chain, x = None, [e.static[0]], e.args[2]
    while isinstance(x, Call) and x.op == "reduce" and isinstance(x.args[0], Operator) and x.args[0].op == op.op:
        same = start is None or x.args[1] == start
        if not same or not starts_from_nothing(op.op, x.args[1], init) or x.label:
            break
        start = x.args[1]
        chain.append(x.static[0])
        x = x.args[2]
    if start is None or init.tensor.dims:
        return None
    met = _places(n for part in postorder(x) if isinstance(part, Call) for n in part.tensor.dims.names)
    found = sorted(chain, key=lambda d: (order.get(d, len(order)), met.get(d, len(met))))
    if found == chain:
        return None
    for dim in reversed(found[1:]):
        x = fold_like(op.op, start, x, dim, e)
    return fold_like(op.op, init, x, found[0], e)


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
        selects = e.op == "gather" and not any(d in e.tensor.dims for d in e.static[0])
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
        # what is made of other dims may use the name of this one for a dim that it no longer has
        offsets = {dim: by for dim, by in offsets.items() if dim in e.tensor.dims}
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
