"""Figures of a lifted program: how often it steps and looks up, how many operations it has, what XLA's kernels move.

A schedule says how something is computed and not what, so what it makes of a function should lift to a program that
takes no more than the function's own, but for what says where data lie.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tensorir as ti
from tensorir.ir.nodes import Call, Fencil, Lambda
from tensorir.ir.rewrite import postorder, values
from tensorir.lifting.program import Lifted

__all__ = ["Costs", "assert_kept", "costs_of", "kept", "written"]

KEPT = Path(__file__).with_name("figures.txt")

FURTHER = 8
"""How many operations may say where data lie, beside twice those that there were."""
MORE = 1.03
"""How many times as many bytes are no more."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Loops step by step, scans and folds by functions, gathers and scatters, distinct operations, kilobytes moved."""

    loops: int
    folds: int
    gathers: int
    operations: int
    kilobytes: float | None = None
    """What XLA's kernels read and write on a CPU, where it was asked."""

    @classmethod
    def parse(cls, text: str) -> Costs:
        """
        >>> Costs.parse("0 1 2 7 12.5")
        Costs(loops=0, folds=1, gathers=2, operations=7, kilobytes=12.5)
        """
        loops, folds, gathers, operations, *moved = text.split()
        return cls(int(loops), int(folds), int(gathers), int(operations), *map(float, moved))

    def __str__(self) -> str:
        moved = "" if self.kilobytes is None else f" {self.kilobytes:.1f}"
        return f"{self.loops} {self.folds} {self.gathers} {self.operations}{moved}"

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.loops, self.folds, self.gathers, self.operations

    def alike(self, other: Costs) -> bool:
        """Whether counts are equal, and bytes hardly more or fewer where both have them."""
        one, two = self.kilobytes, other.kilobytes
        moved = one is None or two is None or (one <= MORE * two and two <= MORE * one)
        return self.counts == other.counts and moved

    def near(self, base: Costs) -> bool:
        """Whether this steps no more often, and has not many more operations."""
        most = 2 * base.operations + FURTHER
        return self.loops <= base.loops and self.folds <= base.folds and self.operations <= most


def costs_of(program: Lifted | Fencil, compiled: bool = False) -> Costs:
    """Those of a program; what XLA's kernels move where it is to be compiled."""
    fencil = program.fencil if isinstance(program, Lifted) else program
    calls = [e for e in postorder(*values(fencil.closures)) if isinstance(e, Call)]
    count = Counter(e.op for e in calls)
    folds = count["scan"] + sum(e.op == "reduce" and isinstance(e.args[0], Lambda) for e in calls)
    moved = None
    if compiled:
        analysed = ti.compile(fencil, without="native_kernels").lowered().compile().cost_analysis() or {}
        moved = analysed.get("bytes accessed", 0.0) / 1024
    return Costs(count["loop"], folds, count["gather"] + count["scatter"], len(calls), moved)


@cache
def kept() -> dict[str, str]:
    """The figures of each program of `figures.txt`."""
    return read(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def read(text: str) -> dict[str, str]:
    """Figures by program.

    >>> read("# comment\\npad (scheduled FlattenBuffer) | 0 0 0 4\\nTIR: pad | 0 0 0 5")
    {'pad (scheduled)': '0 0 0 4', 'pad (FlattenBuffer)': '0 0 0 4', 'TIR: pad': '0 0 0 5'}
    """
    figures: dict[str, str] = {}
    for name, costs in (line.rsplit(" | ", 1) for line in text.splitlines() if not line.startswith("#")):
        title, steps = _title(name)
        figures |= {f"{title} ({step})" if step else title: costs for step in steps.split() or [""]}
    return figures


def written(figures: Mapping[str, str]) -> str:
    """The text of figures: steps of the lowering of one operator that have the same ones in a line.

    >>> written({"pad (scheduled)": "0 0 0 4", "pad (FlattenBuffer)": "0 0 0 4", "TIR: pad": "0 0 0 5"})
    'pad (scheduled FlattenBuffer) | 0 0 0 4\\nTIR: pad | 0 0 0 5\\n'
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for name, costs in figures.items():
        title, step = _title(name)
        lines.setdefault((title, costs), []).append(step)
    rows = [(f"{title} ({' '.join(steps)})" if any(steps) else title, costs) for (title, costs), steps in lines.items()]
    return "".join(f"{name} | {costs}\n" for name, costs in rows)


def _title(name: str) -> tuple[str, str]:
    """An operator of TVM's and steps of its lowering; another program has none."""
    operator = re.fullmatch(r"([^:]+) \(([\w ]+)\)", name)
    return (operator[1], operator[2]) if operator else (name, "")


def assert_kept(name: str, program: Lifted, arrays: Sequence[Any]) -> None:
    """A program with its checks has the figures that are kept for it."""
    found, wanted = costs_of(program.at(program.sizes_of(arrays)).built(True).fencil), Costs.parse(kept()[name])
    assert found.counts == wanted.counts, (
        f"{name} has {found}, and {wanted} are kept; python -m tests.lift.ratchet --write keeps them\n{program}"
    )
