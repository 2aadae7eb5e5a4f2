"""Gradients of lifted kernels of tiles, in float64, beside differences of the result."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
from tile_kernels import KERNELS, text

SMOOTH = [
    "matmul_transposed", "softmax_rows", "flash", "conv", "rmsnorm", "linear_attention", "reductions", "scans",
    "splitk", "bands", "transposing",
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_along_a_direction_is_the_quotient_of_differences(name):
    module = ti.tir.retype(ti.tir.parse(text(name)), float32="float64", float16="float64")
    program = ti.lift(module["main"])
    args = [np.asarray(a) for a in KERNELS[name].args(np.random.default_rng(2))]
    args = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in args]
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        weights = [rng.normal(size=r.shape) * (r.dtype.kind == "f") for r in program(*map(jnp.asarray, args))]
        direction = jnp.asarray(rng.normal(size=args[0].shape))

        def total(t):
            first, *rest = map(jnp.asarray, args)
            results = program(first + t * direction, *rest)
            return sum(jnp.vdot(w, r.astype(float)) for w, r in zip(weights, results, strict=True))

        step = 1e-6
        quotient = (total(step) - total(-step)) / (2 * step)
        assert abs(quotient) > 1e-3
        np.testing.assert_allclose(jax.grad(total)(0.0), quotient, rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(total, (0.0,), (1.0,))[1], quotient, rtol=1e-6)
