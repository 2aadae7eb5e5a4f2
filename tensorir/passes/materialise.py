"""What is read at several offsets is kept in memory where computing it again costs more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorir.analysis.cost import BEYOND, CACHE, bytes_of
from tensorir.analysis.materialisation import FEWEST_READS, MIN_PER_BYTE, Weighed, weighed, worth_storing
from tensorir.ir.build import call
from tensorir.ir.nodes import Expr, Fencil
from tensorir.ir.rewrite import postorder, rebuild, values, with_values
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold

__all__ = ["Materialise"]

SHOWN = 16.0
"""How many times the work that decides is counted for a plan: more is not looked at."""


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

    def on(self, platform: str) -> Pass | None:
        # there the backend decides: a kernel keeps in registers what is computed again
        return None if platform == "gpu" else self

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Pointwise stencils; python -m tests.benchmarks.stored"
        return (
            Threshold("min_per_byte", self.min_per_byte, "operations saved per byte", where),
            Threshold("CACHE", CACHE, f"bytes, beyond which a byte is {BEYOND:g} times as dear", where),
            Threshold("FEWEST_READS", FEWEST_READS, "offsets from which on joined parts are stored", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        limit, _, offsets = self.thresholds()
        places = Places(before)
        found = weighed(before, self.min_per_byte, SHOWN)
        return tuple(
            Decision(
                self.name(), f"{'kept' if w.stored else 'computed'} for reads at {w.uses} offsets", places.of(w.node),
                w.stored, self._why(w), w.uses if w.joined else w.per_byte(self.min_per_byte),
                offsets if w.joined else limit, bytes_of(w.node.tensor) if w.stored else 0, w.node.span,
            )
            for w in found
        )  # fmt: skip

    def _why(self, w: Weighed) -> str:
        if w.joined and w.stored:
            return "at each point of each reader it would be asked which part it is in"
        return self.reason() if w.stored else "computing it again costs less than its bytes"

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
