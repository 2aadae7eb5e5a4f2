"""Well-formed fencils: names, outputs that their expressions cover, and the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorir.integers.dims import Interval
from tensorir.integers.sets import IntegerSet
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import binders
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Diagnostic, DiagnosticError, counted, did_you_mean
from tensorir.runtime.memory import WeakCache


def check_fencil(fencil: Fencil) -> None:
    """Raises all faults of a fencil as a whole (names, outputs, targets) at once; its expressions are typed already."""
    diagnostics: list[Diagnostic] = []
    seen: set[str] = set()
    for variable in fencil.params:
        if variable.name in seen:
            message = f"there are two parameters named '{variable.name}'."
            diagnostics.append(Diagnostic("N02", message, variable.span, help="rename one."))
        seen.add(variable.name)
    diagnostics += _repeated_binders(fencil) if not diagnostics else []
    if not fencil.closures:
        message = f"'{fencil.name}' computes nothing."
        diagnostics.append(Diagnostic("N05", message, fencil.span, help="add a closure: out ← e;"))
    for closure in fencil.closures:
        diagnostics += check_closure(fencil.params, closure)
    if diagnostics:
        raise DiagnosticError(diagnostics)


def _repeated_binders(fencil: Fencil) -> Iterator[Diagnostic]:
    """N02 for each variable whose name another one in the fencil has."""
    owners: dict[str, Var] = {}
    for variable in binders(fencil):
        if owners.setdefault(variable.name, variable) is not variable:
            yield Diagnostic("N02", f"the name '{variable.name}' is declared twice.", variable.span, help="rename one.")


def check_closure(params: tuple[Var, ...], closure: Closure) -> Iterator[Diagnostic]:
    """The faults of one closure: unknown output or variables, a region outside of the output, a value that does not
    cover it.
    """
    names = [p.name for p in params]
    output, value = closure.output, closure.value
    if output not in params:
        message = f"'{output.name}' is not a parameter of this fencil."
        yield Diagnostic("N01", message, closure.span, help=did_you_mean(output.name, names))
        return
    for variable in sorted(value.free.difference(params), key=lambda v: v.name):
        hint = did_you_mean(variable.name, names)
        yield Diagnostic("N01", f"'{variable.name}' is not known here.", variable.span, help=hint)
    if closure.region is not None:
        for dim, interval in closure.region.items:
            output_interval = output.type.dims.get(dim)
            if output_interval is None:
                message = f"there is no dim {dim} in '{output.name}', only {output.type.dims}."
                yield Diagnostic("T25", message, closure.span, help=did_you_mean(dim, output.type.dims.names))
                return
            if not output_interval.covers(interval):
                message = f"{dim}{interval} is not inside of {dim}{output_interval}, all of '{output.name}'."
                yield Diagnostic("T21", message, closure.span, help=f"write to a part of {dim}{output_interval}.")
                return
    if not isinstance(value.type, TensorType):
        yield Diagnostic("T14", "a function cannot be stored.", value.span, help="apply it: f(x).")
        return
    yield from _check_target(closure, value.type, closure.target)


def _check_target(closure: Closure, have: TensorType, need: TensorType) -> Iterator[Diagnostic]:
    """The faults of a value for its target: another element type (T37), further dims (T08), missing points (T07)."""
    name, span = closure.output.name, closure.value.span
    if have.element != need.element:
        hint = f"declare {name}: {TensorType(have.element, need.dims)}, or cast the expression."
        yield Diagnostic("T37", f"'{name}' holds {need.element}, but this is {have.element}.", span, help=hint)
    for dim, interval in have.dims.items:
        target_interval = need.dims.get(dim)
        if target_interval is None:
            message = f"the expression varies along {dim}, and '{name}' has no dim {dim}."
            hint = f"add {dim}{interval} to the type of '{name}', or reduce over {dim}."
            yield Diagnostic("T08", message, span, help=hint)
        elif not interval.covers(target_interval):
            yield _shortfall(closure, dim, target_interval, interval)


def _shortfall(closure: Closure, dim: str, wanted: Interval, have: Interval) -> Diagnostic:
    """The error T07 for a value that does not cover its target, with the shifts that cause it, and types that would
    fit.
    """
    name = closure.output.name
    at_start = wanted.start < have.start
    point = wanted.start if at_start else wanted.stop - 1
    before, after = (Interval(wanted.start, have.start) & wanted, Interval(have.stop, wanted.stop) & wanted)
    missing = before if at_start else after
    shifts, source, needed = _trace(closure.value, dim, point, at_start)
    total_offset = sum(shift.static.offset for shift in shifts)
    candidates = [shift for shift in shifts if (shift.static.offset < 0 if at_start else shift.static.offset > 0)]
    responsible = shifts if (total_offset < 0 if at_start else total_offset > 0) else ()
    notes = () if closure.value == source else _reasons(responsible, total_offset, source, dim, missing)
    covered = have & wanted
    hint = f"declare {name}: {closure.target.on(closure.target.dims.with_interval(dim, covered))}" if covered else ""
    if source is not None:
        enlarged = source.type.dims[dim] | Interval(needed, needed + 1)
        suggestion = f"give '{source.name}' more points: {dim}{enlarged}"
        hint = f"{hint}, or {suggestion}" if hint else suggestion
    return Diagnostic(
        "T07",
        f"'{name}' needs {dim}{wanted}, but this provides {dim}{have}.",
        candidates[-1].span if responsible else closure.value.span,
        notes,
        f"{hint}." if hint else "",
    )


def _reasons(shifts: Sequence[Call], reach: int, source: Var | None, dim: str, missing: Interval) -> tuple[str, ...]:
    """The note of T07: the offset of all `shifts` together, and the interval of the `source` variable (None if
    unknown).
    """
    missing_count = counted(len(missing), "point")
    statement = f"{missing_count} {'is' if len(missing) == 1 else 'are'} missing there: {dim}{missing}."
    extent = "" if source is None else f"'{source.name}' is {dim}{source.type.dims[dim]}"
    if not shifts:
        return (f"{extent}, so {statement}",) if extent else ()
    steps = "one point" if abs(reach) == 1 else f"{abs(reach)} points"
    side = "after" if reach > 0 else "before"
    names = " of ".join(f"⟪{dim}, {shift.static.offset}⟫" for shift in shifts)
    addition = f", and {extent}" if extent and abs(reach) != len(missing) else ""
    return (f"{names} reads {steps} {side}{addition}, so {statement}",)


def _trace(root: Expr, dim: str, point: int, at_start: bool) -> tuple[list[Call], Var | None, int]:
    """Follows a missing point of the result down to a variable: the shifts on the way, the variable, and its missing
    point.

    At each node the operand that lacks most is followed. None for the variable if the path ends at another builtin.
    """
    shifts: list[Call] = []
    arguments: dict[Var, Expr] = {}
    node = root
    while True:
        children = node.args if isinstance(node, (Apply, Call)) else ()
        match node:
            case Var() if node in arguments:
                node = arguments[node]
                continue
            case Var():
                return shifts, node, point
            case Call("cartesian_shift", _, (d, offset)) if d == dim:
                shifts.append(node)
                point = point + int(offset)
            case Apply(Lambda() as function, args):
                arguments.update(zip(function.params, args, strict=True))
                children = (function.body,)
            case Call("subset" | "concat" | "rename" | "split_dim" | "merge_dims" | "gather" | "update"):
                return shifts, None, point
            case _:
                pass
        intervals = [(c, c.type.dims.get(dim)) for c in children if isinstance(c.type, TensorType)]
        lacking = [(i.start if at_start else -i.stop, c) for c, i in intervals if i is not None and point not in i]
        if not lacking:
            return shifts, None, point
        node = max(lacking, key=lambda ranked: ranked[0])[1]


NEEDED: WeakCache[tuple[Var, ...]] = WeakCache("parameters that must be passed")


def needed_parameters(fencil: Fencil) -> tuple[Var, ...]:
    """The parameters that must be passed: read before they are covered, or left partly unwritten."""
    return NEEDED.of(fencil, _needed_parameters)


def _needed_parameters(fencil: Fencil) -> tuple[Var, ...]:
    """The parameters that are read before all their points are written, not written completely, or never written."""
    read_first: set[str] = set()
    written_names: set[str] = set()
    missing = {p.name: IntegerSet.box(p.type.dims) for p in fencil.params}
    for closure in fencil.closures:
        # one without points is read before anything is written, too
        read_first |= {v.name for v in closure.value.free if missing[v.name] or v.name not in written_names}
        written_names.add(closure.output.name)
        missing[closure.output.name] = missing[closure.output.name].without(closure.target.dims)
    read_first |= {v.name for v in fencil.outputs if missing[v.name]}
    written = {v.name for v in fencil.outputs}
    return tuple(p for p in fencil.params if p.name in read_first or p.name not in written)
