"""TVM's numbers: every conformance module of TIR, lifted and run by XLA, with the figures that are kept for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import assert_kept

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


def modules() -> list[object]:
    files = [f for f in sorted(CONFORMANCE.glob("*.py")) if not f.stem.startswith("relax_")]
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("file", modules())
def test_a_lifted_conformance_module_gives_tvms_numbers(file: Path):
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    function = ti.tir.parse(file.read_text(), file.stem)[meta["func"]]
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    program = ti.lift(function)
    assert_kept(f"TIR: {file.stem}", program, arrays)
    found = program(*arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    wanted = {int(name[3:]): data[name] for name in data if name.startswith("out")}
    assert wanted and set(wanted) <= set(written)
    for place, got in zip(written, found, strict=True):
        if place not in wanted:
            continue
        want = wanted[place]
        if got.dtype != want.dtype and got.dtype.itemsize == want.dtype.itemsize:
            want = want.view(got.dtype)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            wide = [x.astype(np.float64) for x in (got, want)]
            np.testing.assert_allclose(*wide, rtol=meta["rtol"], atol=meta["atol"])
