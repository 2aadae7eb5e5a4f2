"""Syntax trees to typed fencils: names are looked up, sizes put in, types checked as nodes are built.

An expression that is wrong is reported once and gives None; what contains it is still looked at, and says nothing
further about it. So several findings come at once and none is a consequence of another.

>>> from tensorir.runtime.errors import Source
>>> from tensorir.text.parser import parse_programs
>>> (program,) = parse_programs(Source("p", "f(out: tensor<int, I[1:n]>, x: tensor<int, I[0:n]>) { out ← ⟪I, -1⟫(x) }"))
>>> elaborate(program, {"n": 5}).closures[0].value.type
tensor<int, I[1:6]>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tensorir.ir import build, nodes
from tensorir.ir.wellformed import check_closure
from tensorir.runtime.errors import did_you_mean
from tensorir.text import syntax
from tensorir.text.inventory import inventory
from tensorir.text.scope import Elaboration, moved
from tensorir.text.trampoline import Rule, run
from tensorir.text.typed import bound_value, typed

__all__ = ["elaborate", "elaborate_expression", "elaborate_parts"]


def elaborate(program: syntax.Program, sizes: Mapping[str, int] | None = None) -> nodes.Fencil:
    """The typed fencil of a program for given sizes. Raises all diagnostics at once."""
    e = Elaboration(frozenset(inventory(program).dims), dict(program.offsets), dict(sizes or {}))
    return nodes.Fencil(program.name, *elaborate_parts(program, e), program.span)


def elaborate_parts(program: syntax.Program, e: Elaboration) -> tuple[tuple[nodes.Var, ...], tuple[nodes.Closure, ...]]:
    """The typed parameters and closures of a program, by what an elaboration knows. Raises all diagnostics at once."""
    known = inventory(program)
    params = [e.declare(p) for p in program.params]
    for p in program.params:
        if p.name in known.sizes:
            e.report(
                "N10",
                f"'{p.name}' is a parameter, and an interval cannot depend on its value.",
                p.span,
                f"intervals depend on sizes, which are no parameters; rename '{p.name}' or the size.",
            )
    if not program.closures:
        e.report("N05", f"'{program.name}' computes nothing.", program.span, "add a closure: out ← e;")
    closures: list[nodes.Closure | None] = []
    for written in program.closures:
        for binding in written.before:
            run(_binding(e, binding, program))
        closures.append(run(_closure(e, written, params)))
        e.functions.update(e.following)
        e.following.clear()
        _forget(e, written.output)
    intact_params = [p for p in params if p is not None]
    intact_closures = [c for c in closures if c is not None]
    for written, closure in zip(program.closures, closures, strict=True):
        if closure is not None and closure.output in intact_params:
            uses = [(closure.value, written.value.span)]
            e.add(*(moved(d, uses) for d in check_closure((*intact_params, *e.variables.values()), closure)))
    e.finish()
    return tuple(intact_params), tuple(intact_closures)


def elaborate_expression(
    node: syntax.Expression, variables: Iterable[nodes.Var], dims: Iterable[str], sizes: Mapping[str, int] | None = None
) -> nodes.Expr:
    """The typed expression of a tree whose free names are the given variables."""
    variables = list(variables)
    known = {*dims, *(d for v in variables for d in v.type.dims)}
    e = Elaboration(frozenset(known), {}, dict(sizes or {}))
    for v in variables:
        e.scope[v.name] = v
        e.taken.add(v.name)
    result = run(typed(e, node))
    e.finish()
    assert result is not None
    return result


def _closure(e: Elaboration, written: syntax.Closure, params: Sequence[nodes.Var | None]) -> Rule[nodes.Closure | None]:
    output = e.scope.get(written.output)
    if written.output not in e.scope:
        names = [p.name for p in params if p is not None]
        help_ = did_you_mean(written.output, names)
        e.report("N01", f"'{written.output}' is not a parameter of this fencil.", written.span, help_)
    region = None if written.region is None else e.intervals(written.region)
    value: nodes.Expr | None = yield typed(e, written.value)
    if value is None or output is None or (region is None and written.region is not None):
        return None
    assert isinstance(output, nodes.Var)
    return build.closure(output, value, region, written.span)


def _binding(e: Elaboration, written: syntax.Binding, program: syntax.Program) -> Rule[None]:
    """A name for closures to come."""
    if any(p.name == written.name for p in program.params):
        e.report("N02", f"'{written.name}' is a parameter of this fencil.", written.span, "bind another name.")
        return
    value: nodes.Expr | None = yield bound_value(e, written.name, written.value)
    e.scope[written.name] = value
    e.named.add(written.name)
    e.stale.pop(written.name, None)


def _forget(e: Elaboration, output: str) -> None:
    """Names in front of closures do not reach behind a closure that stores into what they read."""
    for name in sorted(e.named):
        value = e.scope[name]
        if value is not None and any(v.name == output for v in value.free):
            e.named.remove(name)
            del e.scope[name]
            e.stale[name] = output
