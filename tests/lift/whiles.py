"""Which conformance modules loop in what XLA gets: `python -m tests.lift.whiles [--optimised] [names]`.

Per module with a `while`: in StableHLO, and with `--optimised` in XLA's own HLO of this machine too, where scatters and
sorts may become loops; beside it the loops of the source that run as scans or step by step, and why. A module whose
loops are all of these has an algorithm that is sequential; others are listed apart.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.gradients import CONFORMANCE

STEPWISE = ("scan", "sequential")
IN_ORDER = "in the order of the loop"
"""A fold by a function that no other order may apply to."""


@dataclass(frozen=True, slots=True)
class Loops:
    """Whether a compiled module loops, before and after XLA's passes, and the source loops that run in steps."""

    name: str
    lowered: bool
    optimised: bool | None
    reasons: tuple[str, ...]

    @property
    def sequential(self) -> bool:
        """Whether a `while` is one of the source's own."""
        return not self.lowered or bool(self.reasons)

    def __str__(self) -> str:
        where = [w for w, found in (("StableHLO", self.lowered), ("optimised HLO", self.optimised)) if found]
        reasons = "; ".join(self.reasons) or "no loop of the source runs in steps"
        return f"{self.name}: while in {' and '.join(where)}: {reasons}"


def loops(file: Path, optimise: bool) -> Loops:
    """What a module's program has of loops."""
    meta: dict[str, Any] = json.loads(str(np.load(file.with_suffix(".npz"))["meta"]))
    program = ti.lift(ti.tir.parse(file.read_text(), file.stem)[meta["func"]])
    if program.static is None:
        data = np.load(file.with_suffix(".npz"))
        program(*(data[f"arg{k}"] for k in range(len(meta["args"]))))
    compiled = ti.compile(program.fencil)
    stepwise = [d for d in program.report.decisions if d.strategy.startswith(STEPWISE) or IN_ORDER in d.reason]
    reasons = dict.fromkeys(map(str, stepwise))
    return Loops(
        file.stem, "stablehlo.while" in compiled.stablehlo(), " while(" in compiled.hlo() if optimise else None,
        tuple(reasons),
    )  # fmt: skip


def main() -> None:
    optimise = "--optimised" in sys.argv
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    files = [f for f in sorted(CONFORMANCE.glob("*.py")) if not names or any(n in f.stem for n in names)]
    found: list[Loops] = []
    for file in files:
        try:
            one = loops(file, optimise)
        except DiagnosticError as refused:
            print(f"{file.stem}: {str(refused).splitlines()[0]}")
            continue
        found.append(one)
        if one.lowered or one.optimised:
            print(one, flush=True)
    apart = [one.name for one in found if not one.sequential]
    free = sum(not one.lowered for one in found)
    print(f"{free} of {len(found)} modules ({free / len(found):.0%}) have no while in StableHLO")
    if optimise:
        free = sum(not one.optimised for one in found)
        print(f"{free} of {len(found)} modules ({free / len(found):.0%}) have none in XLA's optimised HLO")
    print(f"with a while that is no loop of the source's: {', '.join(apart) or 'none'}")


if __name__ == "__main__":
    main()
