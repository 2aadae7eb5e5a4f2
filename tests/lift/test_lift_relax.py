"""Lifted Relax: TVM's numbers, the interpreter's numbers for each operator, and gradients."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tests.lift.relax_operators import FUNCTIONS

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


def modules() -> list[object]:
    files = sorted(CONFORMANCE.glob("relax_*.py"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="the conformance modules are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


def relax(text: str) -> Any:
    """The function of a text that stands alone."""
    return ti.tir.parse(text)["main"]


def arrays_for(text: str, seed: int = 7) -> list[np.ndarray]:
    """Asymmetric values for the parameters of a function whose text states their shapes."""
    rng = np.random.default_rng(seed)
    header = text[: text.index("\n", text.index("def main"))]
    found: list[np.ndarray] = []
    for sizes, dtype in re.findall(r"R\.Tensor\(\(([^)]*)\), \"(\w+)\"\)", header):
        shape = tuple(int(s) for s in sizes.split(",") if s.strip())
        if dtype == "bool":
            found.append(rng.random(shape) < 0.4)
        elif "int" in dtype:
            found.append(rng.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype))
        else:
            found.append((rng.standard_normal(shape) * 1.5 + 0.3).astype(dtype))
    return found


def same(got: Any, want: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize("file", modules())
def test_a_lifted_conformance_module_gives_tvms_numbers(file: Path):
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    function = ti.tir.parse(file.read_text(), file.stem)[meta["func"]]
    if "metadata[" in file.read_text():
        with pytest.raises(ti.DiagnosticError, match=r"metadata\[.*\] is not in the text"):
            ti.lift(function)
        return
    found = ti.lift(function)(*(data[f"arg{k}"] for k in range(len(meta["args"]))))
    wanted = {int(name[3:]): data[name] for name in data if name.startswith("ret")}
    assert wanted
    for place, want in wanted.items():
        same(found[place], want, meta["rtol"], meta["atol"])


@pytest.mark.parametrize(("params", "value"), FUNCTIONS, ids=[f"{v} of {p}" for p, v in FUNCTIONS])
def test_a_lifted_operator_gives_what_the_interpreter_gives(params: str, value: str):
    typed = re.sub(r"(\w+): \(([^)]*)\) (\w+)", r'\1: R.Tensor((\2), "\3")', params)
    text = f"@R.function\ndef main({typed}):\n    return {value}"
    function = relax(text)
    arrays = arrays_for(text)
    found, wanted = ti.lift(function)(*arrays), ti.tir.interpret(function, *arrays)
    assert len(found) == len(wanted)
    narrow = "float16" in params
    for got, want in zip(found, wanted, strict=True):
        same(got, want, *((2e-3, 2e-3) if narrow else (2e-5, 2e-6)))
