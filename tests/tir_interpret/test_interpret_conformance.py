"""TVM's numbers: every conformance module, plainly and in checked mode, and the checker finds nothing wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


def modules() -> list[object]:
    files = sorted(CONFORMANCE.glob("*.py"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("file", modules())
def test_a_conformance_module_gives_tvms_numbers(file: Path, checked: bool):
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    module = tir.parse(file.read_text(), file.stem)
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    if "metadata[" in file.read_text():
        with pytest.raises(DiagnosticError, match=r"metadata\[.*\] is not in the text"):
            tir.interpret(module[meta["func"]], *arrays, checked=checked)
        return
    found = tir.interpret(module[meta["func"]], *arrays, checked=checked)
    prefix = "ret" if meta.get("kind") == "relax" else "out"
    wanted = {int(name[3:]): data[name] for name in data if name.startswith(prefix)}
    assert wanted
    for place, want in wanted.items():
        got = found[place]
        if got.dtype != want.dtype and got.dtype.itemsize == want.dtype.itemsize:
            want = want.view(got.dtype)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            wide = [x.astype(np.float64) for x in (got, want)]
            np.testing.assert_allclose(*wide, rtol=meta["rtol"], atol=meta["atol"])


@pytest.mark.parametrize("file", modules())
def test_the_checker_accepts_a_conformance_module(file: Path):
    assert all(note.severity == "warning" for note in tir.check(tir.parse(file.read_text(), file.stem)))
