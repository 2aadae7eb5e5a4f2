"""What choices are worth, predicted by the cost model and measured: `python -m tests.benchmarks.plans`.

A row for each choice of each program: the cost without it over that with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorir as ti
from stencils import library
from tensorir.ir.nodes import Fencil

PROGRAMS = {
    "tridiagonal": ({"n": 128, "m": 128, "l": 64}, {"n": 256, "m": 256, "l": 80}),
    "vertical_advection": ({"n": 128, "m": 128, "l": 64}, {"n": 256, "m": 256, "l": 80}),
    "biharmonic": ({"n": 512, "m": 512}, {"n": 1024, "m": 1024}),
    "shallow_water": ({"n": 512, "m": 512},),
}
PRODUCT = "f(y: tensor<float, I[0:n], J[0:n]>, a: tensor<float, I[0:n], K[0:n]>, b: tensor<float, J[0:n], K[0:n]>) "
WAVES = "f(y: tensor<float, I[1:n-1], J[0:n]>, x: tensor<float, I[0:n], J[0:n]>) "
TEXTS = {
    "a product of matrices": (PRODUCT + "{ y ← reduce(+, 0.0, K)(a × b); }", ({"n": 300},)),
    "cos at two offsets": (WAVES + "{ y ← let w = cos(x); ⟪I, 1⟫(w) - ⟪I, -1⟫(w); }", ({"n": 512}, {"n": 2048})),
}


def main() -> None:
    programs: list[tuple[str, Any, tuple[dict[str, int], ...]]] = [
        *((name, library.load(name), sizes) for name, sizes in PROGRAMS.items()),
        *((name, ti.parse(text), sizes) for name, (text, sizes) in TEXTS.items()),
    ]
    rng = np.random.default_rng(0)
    for title, program, all_sizes in programs:
        c = ti.compile(program)
        for sizes in all_sizes:
            fencil: Fencil = c.pipeline(**sizes).source
            given = {p.name: rng.uniform(1.0, 2.0, p.type.dims.shape) for p in fencil.inputs}
            plan = c.plan(measure=True, **given)
            for name, one in plan.comparisons.items():
                predicted = "-" if one.predicted is None else f"{one.predicted / plan.cost.total:.2f}"
                shown = " × ".join(map(str, sizes.values()))
                print(f"{title} {shown}, without {name}: predicted {predicted}, measured {one.ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
