"""What the lowering stores, against storing all or nothing: `python -m tests.benchmarks.stored`.

Stored or computed again is what is read at several offsets.

The last figure is the time of the model's choice over that of the better of the two.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from stencils import library
from tensorir.passes.closures import Materialise
from tensorir.passes.reductions import Contractions
from tests.benchmarks.interleaved import compare

SIZES = (1024, 3072)
"""Arrays of 8 MB, which a cache holds, and of 75."""
CROSS = "⟪I, 1⟫({0}) - ⟪I, -1⟫({0}) + ⟪J, 1⟫({0}) × ⟪J, -1⟫({0})"
LAPLACIAN = "⟪I, 1⟫({0}) + ⟪I, -1⟫({0}) + ⟪J, 1⟫({0}) + ⟪J, -1⟫({0}) - 4.0 × {0}"


def program(n: int, stages: list[str], element: str = "float") -> ti.Fencil:
    """Stages one after another, each a let-bound expression of the one before."""
    halo = sum("⟪I" in s for s in stages)
    size = f"I[{halo}:{n - halo}], J[{halo}:{n - halo}]"
    lets, name = "", "x"
    for k, stage in enumerate(stages[:-1]):
        lets += f"let t{k} = {stage.format(name)};\n"
        name = f"t{k}"
    given = f"x: tensor<{element}, I[0:{n}], J[0:{n}]>"
    literal = stages[-1].format(name)
    text = f"f(out: tensor<{element}, {size}>, {given}) {{ out ← {lets}{literal}; }}"
    return ti.parse(text.replace("4.0", "4.0f") if element == "float32" else text)


STAGES = {
    "cos at two offsets": ["cos({0})", "⟪I, 1⟫({0}) - ⟪I, -1⟫({0})"],
    "sin × exp at four offsets": ["sin({0}) × exp({0})", CROSS],
    "sqrt and a quotient at four offsets": ["sqrt({0} × {0} + {0}) / ({0} + {0})", CROSS],
    "three additions at four offsets": ["{0} + {0} × {0}", CROSS],
    "tanh, three stages": ["tanh({0})", CROSS] * 3,
    **{f"laplacian, {n} stages": [LAPLACIAN] * n for n in (2, 3, 4, 6)},
}


def main() -> None:
    rng = np.random.default_rng(0)
    for n in SIZES:
        for title, stages in STAGES.items():
            for element in ("float", "float32"):
                x = rng.uniform(0.5, 2.0, (n, n)).astype("f8" if element == "float" else "f4")
                measure(f"{title}, {n}x{n} {element}", program(n, stages, element), {"x": x})
    for shape in ((64, 64, 32), (256, 256, 64)):
        given = {name: rng.normal(size=shape) for name in ("inp", "coeff")}
        measure(f"hdiff, {shape}", library.load("hdiff"), given)


def measure(title: str, fencil: Any, given: dict[str, np.ndarray]) -> None:
    with jax.enable_x64(True):
        arrays = {n: jnp.asarray(a) for n, a in given.items()}
        made = {
            "never": ti.compile(fencil, passes=[Contractions()]),
            "always": ti.compile(fencil, passes=[Contractions(), Materialise(0.0)]),
            "model": ti.compile(fencil),
        }
        ways = {name: lambda c=c: jax.block_until_ready(c(**arrays)) for name, c in made.items()}
        seconds = compare(ways, rounds=25)
    ratio = seconds["model"] / min(seconds["never"], seconds["always"])
    shown = ", ".join(f"{n} {1e3 * s:.2f} ms" for n, s in seconds.items())
    print(f"{title}: {shown}; {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
