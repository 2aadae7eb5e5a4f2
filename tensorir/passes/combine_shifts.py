"""Shifts in a row become one per dim."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.build import call, cartesian_shift
from tensorir.ir.nodes import Call, Expr, Fencil
from tensorir.passes.base import Pass, rewritten

__all__ = ["CombineShifts"]


@dataclass(frozen=True)
class CombineShifts(Pass):
    """Distances along one dim add up, a shift by 0 goes, and dims come in the order of their names.

    >>> from tensorir.passes.show import show
    >>> from tensorir.ir.types import tensor
    >>> show(CombineShifts(), "⟪J, 3, I, 1, J, -1, I, 2⟫(x)", x={"I": (0, 9), "J": (0, 9)})
    ⟪I, 3, J, 2⟫(x)

    All neighbours, and then one of them, is that neighbour:

    >>> show(CombineShifts(), "shift_apply(1)(⟪V2E⟫(x))", x={"E": (0, 9)}, V2E=tensor("int", V=(0, 5), _NB_E=(0, 3)))
    ⟪V2E, 1⟫(x)
    """

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, self.rule)

    def rule(self, e: Expr) -> Expr | None:
        match e:
            case Call("cartesian_shift"):
                return _combined(e)
            case Call("shift_apply", (Call("shift_init", (table, x)),), (slot,)):
                return call("unstructured_shift", table, x, static=(slot,), span=e.span)
            case _:
                return None


def _combined(e: Call) -> Expr | None:
    found: list[tuple[str, int]] = []
    inner: Expr = e
    while isinstance(inner, Call) and inner.op == "cartesian_shift":
        found.append(inner.static)
        inner = inner.args[0]
    total: dict[str, int] = {}
    for dim, offset in found:
        total[dim] = total.get(dim, 0) + offset
    wanted = sorted((dim, offset) for dim, offset in total.items() if offset)
    if wanted == found:
        return None
    for dim, offset in reversed(wanted):
        inner = cartesian_shift(inner, dim, offset, e.span)
    return inner
