"""What arguments become, as closures of a fencil."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.build import closure, var
from tensorir.ir.nodes import Closure, Expr, Var
from tensorir.lifting.emission.emit import Emitter
from tensorir.lifting.emission.tensors import spread
from tensorir.lifting.nests.terms import Buffer


def ordered_closures(
    values: Sequence[tuple[Buffer, Expr]], params: Sequence[Var], emitter: Emitter
) -> tuple[list[Closure], list[Var]]:
    """Closures in an order in which none reads what an earlier one wrote over, and buffers for what must wait."""
    by_var = {emitter.param(b): (b, e) for b, e in values}
    pending = list(by_var)
    closures: list[Closure] = []
    buffers: list[Var] = []
    while pending:
        free = next((v for v in pending if not any(v in by_var[w][1].free for w in pending if w is not v)), None)
        chosen = free or next(v for v in pending if by_var[v][1] not in buffers)
        buffer, e = by_var[chosen]
        value = spread(e, emitter.intervals(buffer)) if not e.tensor.dims else e
        if free is None:
            # the others read what it holds before: its new contents wait
            name = f"{buffer.name}_new"
            while any(p.name == name for p in (*params, *buffers)):
                name += "_"
            later = var(name, chosen.type)
            buffers.append(later)
            closures.append(closure(later, value))
            by_var[chosen] = buffer, later
        else:
            closures.append(closure(free, value))
            pending.remove(free)
    return closures, buffers
