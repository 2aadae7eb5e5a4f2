"""`call_tir`: the tensor program of the PrimFunc, with the arguments in place of its parameters.

Closures run in order, so each written parameter is substituted by what was stored in it last; what nobody wrote is 0,
as in the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.build import call
from tensorir.ir.nodes import Expr, Lambda, Var
from tensorir.ir.rewrite import postorder, rename_bound, rewrite_all, substitute
from tensorir.ir.types import Scalar
from tensorir.lifting.emission.tensors import cut, filled, spread
from tensorir.lifting.loops.report import Report
from tensorir.relax.lift.values import HOME, Value, dims_of, under
from tensorir.tir import nodes as n

__all__ = ["inlined"]


def inlined(
    callee: n.PrimFunc, arguments: Sequence[Value], report: Report, on_hazard: str, fresh: frozenset[int]
) -> list[Value]:
    """The parameters of a PrimFunc after a call, which passes nothing in those of `fresh`."""
    from tensorir.tir.lift import lift_prim_func

    home = HOME.get()
    shapes = tuple(
        None if callee.buffer_map.get(p) is None else v.shape for p, v in zip(callee.params, arguments, strict=True)
    )
    built = lift_prim_func(callee, shapes, home.checked, on_hazard, home.exact, undefined=home.undefined, fresh=fresh)
    home.unchecked |= built.unchecked
    for decision in built.report.decisions:
        report.add(decision)
    for note in built.report.notes:
        report.note(note)
    place = {name: k for k, name in enumerate(built.names)}
    params = {p.name: p for p in built.fencil.params}
    now: dict[Var, Expr] = {}
    for p in built.fencil.params:
        if p.name in place:
            now[p] = _passed(arguments[place[p.name]], p)
        else:
            now[p] = filled(0, _scalar(p), dict(p.type.dims.items))
    values = _own_names([c.value for c in built.fencil.closures])
    for closure, value in zip(built.fencil.closures, values, strict=True):
        stored = substitute(value, now)
        target = dict(closure.target.dims.items)
        stored = cut(stored, target)
        if closure.region is not None:
            stored = call("update", now[closure.output], spread(stored, dict(closure.region.items)))
        # variables of the next closures stand for whole tensors
        now[closure.output] = spread(stored, dict(closure.output.type.dims.items))
    return [_given(now[params[name]], params[name], v) for name, v in zip(built.names, arguments, strict=True)]


def _scalar(p: Var) -> Scalar:
    element = p.type.element
    assert isinstance(element, Scalar)
    return element


def _passed(value: Value, param: Var) -> Expr:
    """The value under the names of the parameter's dims."""
    return under(value.whole(), dict(zip(dims_of(value.rank), param.type.dims.names, strict=True)))


def _given(expr: Expr, param: Var, like: Value) -> Value:
    found = under(expr, dict(zip(param.type.dims.names, dims_of(like.rank), strict=True)))
    return Value(found, like.shape)


def _own_names(values: Sequence[Expr]) -> tuple[Expr, ...]:
    """The expressions with names of functions' parameters that no other program has, so that nothing is captured."""
    home = HOME.get()
    lambdas = [e for e in postorder(*values) if isinstance(e, Lambda)]
    if not lambdas:
        return tuple(values)

    def rule(e: Expr) -> Expr | None:
        return rename_bound(e, {p.name: home.fresh(p.name) for p in e.params}) if isinstance(e, Lambda) else None

    return rewrite_all(values, rule)
