"""What is read at several offsets is kept in memory where computing it again costs more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorir.analysis.materialisation import MIN_PER_BYTE, worth_storing
from tensorir.build import call
from tensorir.ir import Expr, Fencil
from tensorir.passes.base import Pass, remade
from tensorir.walk import postorder, rebuild, values, with_values

__all__ = ["Materialise"]


@dataclass(frozen=True)
class Materialise(Pass):
    """What is read at several offsets, and saves `min_per_byte` operations for each byte, becomes `materialise(e)`.

    A backend fuses what is not kept into every reader and computes it at each; 0 keeps all of it, infinity nothing.

    >>> from tensorir.passes.show import show
    >>> show(Materialise(), "let y = cos(x) × exp(x); ⟪I, 1⟫(y) + ⟪I, -1⟫(y)", x={"I": (0, 9)})
    let y = materialise(cos(x) × exp(x));
    ⟪I, 1⟫(y) + ⟪I, -1⟫(y)
    """

    min_per_byte: float = MIN_PER_BYTE

    def run(self, fencil: Fencil) -> Fencil:
        found = worth_storing(fencil, self.min_per_byte)
        if not found:
            return fencil
        return remade(fencil, with_values(fencil.closures, _kept(values(fencil.closures), found)))

    def reason(self) -> str:
        return f"read at several offsets, it saves {self.min_per_byte:g} operations for each byte that is kept"


def _kept(roots: tuple[Expr, ...], found: Mapping[int, Expr]) -> list[Expr]:
    made: dict[int, Expr] = {}
    for node in postorder(*roots):
        new = rebuild(node, tuple(made[id(c)] for c in node.children))
        if id(node) in found:
            new = replace(call("materialise", replace(new, label=""), span=node.span), label=new.label)
        made[id(node)] = new
    return [made[id(r)] for r in roots]
