"""Every expression on the points that are read of it, and no more: halo inference, as a pass."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.nodes import Fencil
from tensorir.passes.base import Pass
from tensorir.passes.restrict import on_needed_points

__all__ = ["NeededPoints"]


@dataclass(frozen=True)
class NeededPoints(Pass):
    """Operands are cut to the halo that is read of what is computed of them.

    A backend that stores what several readers share then stores one array, and not the parts that each of them reads.
    XLA's compilers for TPUs and GPUs do; on CPUs, where all is one loop, it changes nothing.

    >>> from tensorir.passes.show import show
    >>> show(NeededPoints(), "let y = x + ⟪I, 1⟫(x); subset(⟪I, 1⟫(y) - y, I[3:5])", x={"I": (0, 9)})
    let y = subset(x, I[3:6]) + subset(⟪I, 1⟫(x), I[3:6]);
    subset(⟪I, 1⟫(y), I[3:5]) - subset(y, I[3:5])
    """

    def run(self, fencil: Fencil) -> Fencil:
        return on_needed_points(fencil)

    def on(self, platform: str) -> Pass | None:
        return None if platform == "cpu" else self

    def reason(self) -> str:
        return "what several readers share is stored once"
