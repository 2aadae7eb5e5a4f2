"""How many conformance modules give the interpreter's bits: `python -m tests.lift.exactness`.

Lifted with `numerics="exact"`; what is left uses exp, log and their like, which XLA computes in its own way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from tests.lift.test_lift_conformance import CONFORMANCE


def differs(file: Path) -> bool:
    """Whether an output of a module has other bits than the interpreter's; NaNs are equal."""
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    function = ti.tir.parse(file.read_text(), file.stem)[meta["func"]]
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    wanted = ti.tir.interpret(function, *arrays)
    program = ti.lift(function, numerics="exact")
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written, program(*arrays), strict=True):
        got, want = np.asarray(got), np.asarray(wanted[place])
        if got.dtype.kind not in "iub":
            got, want = got.astype(np.float64), want.astype(np.float64)
        if not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
            return True
    return False


if __name__ == "__main__":
    files = [f for f in sorted(CONFORMANCE.glob("*.py")) if not f.stem.startswith("relax_")]
    different = [f.stem for f in files if differs(f)]
    print("\n".join(different))
    print(f"{len(files) - len(different)} of {len(files)} modules have the interpreter's bits")
