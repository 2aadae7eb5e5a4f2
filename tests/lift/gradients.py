"""Gradients of lifted TIR, verified in float64: `python -m tests.lift.gradients` over all conformance modules.

Forward and reverse mode must agree (the dot-product test), and the remainder of the first-order expansion must fall
with the square of the step, or be at the level of rounding for linear maps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"


@dataclass(frozen=True)
class Finding:
    """How far forward and reverse mode are apart, the order of the remainder, and its size beside the result's."""

    apart: float
    order: float
    remainder: float

    @property
    def right(self) -> bool:
        return self.apart <= 1e-12 and (self.order >= 1.9 or self.remainder <= 1e-11)


def verified(file: Path) -> Finding | None:
    """The gradient of a conformance module; None where no float flows from an argument to a result."""
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    function = ti.tir.retype(ti.tir.parse(file.read_text())[meta["func"]], float32="float64")
    program = ti.lift(function)
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    arrays = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    varied = [
        k for k, a in enumerate(arrays)
        if a.dtype == np.float64 and (k not in written or meta["args"][k]["role"] != "output")
    ]  # fmt: skip
    results = [j for j, k in enumerate(written) if arrays[k].dtype == np.float64]
    if not varied or not results:
        return None
    return compared(program, arrays, varied, results)


def compared(program: Any, arrays: list[Any], varied: list[int], results: list[int]) -> Finding:
    """The gradient of some results of a program along some of its arguments."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        whole = [jnp.asarray(a) for a in arrays]

        @jax.jit
        def f(*xs: Any) -> Any:
            given = list(whole)
            for k, x in zip(varied, xs, strict=True):
                given[k] = x
            found = program(*given)
            return tuple(found[j] for j in results)

        @jax.jit
        def both_modes(xs: Any, vs: Any, ws: Any) -> Any:
            return *jax.jvp(f, xs, vs), jax.vjp(f, *xs)[1](ws)

        xs = tuple(arrays[k] + 0.01 * rng.normal(size=arrays[k].shape) for k in varied)
        vs = tuple(np.asarray(rng.normal(size=x.shape)) for x in xs)
        ws = tuple(np.asarray(rng.normal(size=o.shape)) for o in jax.eval_shape(f, *xs))
        y, forward, back = jax.tree.map(np.asarray, both_modes(xs, vs, ws))
        a = sum(float(np.vdot(w, d)) for w, d in zip(ws, forward, strict=True))
        b = sum(float(np.vdot(w, v)) for w, v in zip(back, vs, strict=True))
        scale = sum(float(np.abs(w * d).sum()) for w, d in zip(ws, forward, strict=True)) or 1.0
        remainders: list[float] = []
        for h in (1e-3, 5e-4):
            moved = f(*(x + h * v for x, v in zip(xs, vs, strict=True)))
            remainders.append(
                sum(float(np.abs(m - o - h * d).sum()) for m, o, d in zip(moved, y, forward, strict=True))
            )
        size = sum(float(np.abs(o).sum()) for o in y) or 1.0
        order = float(np.log2(remainders[0] / remainders[1])) if remainders[1] > 0 else np.inf
        return Finding(abs(a - b) / scale, order, remainders[0] / size)


def main() -> None:
    right = 0
    for file in sorted(CONFORMANCE.glob("*.py")):
        if file.stem.startswith("relax_"):
            continue
        try:
            finding = verified(file)
        except NotImplementedError as found:
            print(f"{file.stem}: {found}")
            continue
        if finding is None:
            continue
        right += finding.right
        if not finding.right:
            print(f"{file.stem}: {finding}")
    print(f"{right} modules with a right gradient")


if __name__ == "__main__":
    main()
