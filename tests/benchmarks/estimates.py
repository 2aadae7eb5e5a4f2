"""Estimated cycles on devices that are not here: `python -m tests.benchmarks.estimates [tpu:v5e ...]`.

Programs in float32 beside JAX by hand and plain JAX, as XLA's compiler for the device says of each; the smaller of the
two is what ours is set beside. Needs `pip install 'jax[tpu]'`, for `cuda:h100` `pip install 'jax[cuda12]'`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import tensorir as ti
from lowering.calls.estimate import device_of, estimated
from tests.benchmarks.by_jax import single
from tests.benchmarks.cases import advection, chain, hdiff, laplacian, tridiagonal

PROGRAMS: Mapping[str, tuple[str, tuple[Callable[..., Any], ...], tuple[str, ...], dict[str, int]]] = {
    "laplacian": (laplacian.TEXT, (laplacian.hand, laplacian.plain), ("inp",), {"n": 1024, "m": 1024}),
    "hdiff": (hdiff.TEXT, (hdiff.hand, hdiff.plain), ("inp", "coeff"), {"n": 256, "m": 256, "l": 64}),
    "advection": (
        advection.TEXT, (advection.stages(False), advection.plain), advection.NAMES, {"n": 1024, "m": 1024},
    ),
    "chain of stencils": (chain.text(), (chain.stored(False), chain.plain), ("x",), {"n": 1024, "m": 1024}),
    "tridiagonal": (
        tridiagonal.TEXT, (tridiagonal.hand, tridiagonal.plain), tuple("abcd"), {"n": 128, "m": 128, "l": 64},
    ),
}  # fmt: skip
"""Text, functions by hand, the names of their arguments, sizes."""

INPUTS = {
    "laplacian": laplacian.inputs, "hdiff": hdiff.inputs, "advection": advection.inputs,
    "chain of stencils": chain.inputs, "tridiagonal": tridiagonal.inputs,
}  # fmt: skip


def main(targets: list[str]) -> int:
    for target in targets or ["tpu:v5e", "tpu:v6e"]:
        place = jax.sharding.SingleDeviceSharding(device_of(target))
        for name, (text, functions, names, sizes) in PROGRAMS.items():
            arrays = INPUTS[name](np.random.default_rng(0), **sizes)
            shapes = [jax.ShapeDtypeStruct(np.shape(arrays[n]), "float32", sharding=place) for n in names]
            template = ti.parse(single(text))
            # of kernels of Pallas nobody says cycles
            compiled = ti.compile(template, without="kernels")
            ours = compiled.examine(target, **(sizes if not isinstance(template, ti.Fencil) else {}))
            hand = [estimated(target, jax.jit(f), *shapes) for f in functions]
            best = min(e.cycles or 0 for e in hand)
            told = ", ".join(f"{e.cycles:,}" for e in hand)
            print(f"{target} {name}: {ours.cycles:,} cycles, {told} by hand and plainly ({ours.cycles / best:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
