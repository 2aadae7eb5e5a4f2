"""TVM's numbers: every conformance module of TIR, lifted and run by XLA, with the figures that are kept for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.costs import Costs, assert_kept, kept
from tests.lift.kernels import kernels, lifted
from tests.lift.ratchet import FORMS
from tests.lift.schedules import Pair, pairs

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


# Schedules undone: what was made from other modules steps, looks up and computes as these do.


ABSENT = pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))


@pytest.mark.parametrize("pair", [pytest.param(p, id=p.name) for p in pairs()] or [ABSENT])
def test_a_scheduled_module_takes_no_more_than_its_base(pair: Pair):
    one, base = (Costs.parse(kept()[f"TIR: {name}"]) for name in (pair.name, pair.base))
    assert one.near(base) and one.gathers <= base.gathers


# One lifted program of each form as text: `python -m tests.lift.ratchet --write kernel` writes them anew.


TEXTS = dict(case.split("\n", 1) for case in FORMS.read_text(encoding="utf-8").split("#---- ")[1:])


@pytest.mark.parametrize("name", kernels())
def test_a_kernel_has_its_text_and_its_figures(name: str):
    program, arrays = lifted(kernels()[name])
    assert f"{program}\n" == TEXTS[name]
    assert_kept(f"kernel: {name}", program, arrays)
