"""Whole programs: closures over generated expressions, with data for every parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tensorir.integers.dims import Dims
from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Closure, Fencil
from tensorir.ir.types import TensorType

from . import rules
from .data import Entries, arguments
from .maker import NAMES, Maker, Scope
from .profiles import Profile

__all__ = ["Case", "made", "programs"]


@dataclass(frozen=True)
class Case:
    """A program and what it may be called with."""

    fencil: Fencil
    entries: dict[str, Entries]
    values: str
    seed: int

    @property
    def arguments(self) -> dict[str, Any]:
        """New arrays, the same every time."""
        return arguments(self.fencil, self.entries, self.values, self.seed)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        return f"{self.fencil}\n// {self.values} data, seed {self.seed}, tables {self.entries}"


@st.composite
def programs(draw: Any, profile: Profile, outputs: int = 2, depth: int = 4) -> Case:
    """Fencils with a few closures; a later one may read what an earlier one wrote."""
    return made(lambda low, high: draw(st.integers(low, high)), profile, outputs, depth)


def made(integer: Callable[[int, int], int], profile: Profile, outputs: int = 2, depth: int = 4) -> Case:
    """The same from a source of integers."""
    m = Maker(integer, profile, rules)
    closures: list[Closure] = []
    written: list[Any] = []
    for _ in range(m.integer(1, outputs)):
        m.fuel = 14
        closures.append(_closure(m, written, depth))
        if closures[-1].output not in m.params:
            m.params.append(closures[-1].output)
    turned = m.integer(0, len(m.params) - 1)
    program = fencil(m.name("f"), [*m.params[turned:], *m.params[:turned]], closures)
    return Case(program, m.entries, profile.values, m.integer(0, 10_000))


def _closure(m: Maker, written: list[Any], depth: int) -> Closure:
    if written and m.chance(4):
        output = m.pick(written)
    else:
        names = [n for n in NAMES if not m.chance(2)] or [m.pick(NAMES)]
        dims = Dims(tuple((n, m.interval()) for n in names))
        output = var(m.name("out"), TensorType(m.element(), dims if not m.chance(8) else Dims()))
        written.append(output)
    region: Dims | None = None
    if output.type.dims and m.chance(4):
        region = Dims(tuple((n, m.within(i)) for n, i in m.some(output.type.dims, 3).items)) or None
    target = closure(output, output, region).target
    value = m.expr(target.element, target.dims, depth, Scope())
    return closure(output, value, region)
