"""Printed kernels of TileLang: read and printed, interpreted, checked while they run, and lifted, beside NumPy."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorir as ti

sys.path.insert(0, str(Path(__file__).parent))
import jax
import jax.numpy as jnp
from tile_kernels import KERNELS, PRINTED, text

NAMES = sorted(KERNELS)


def main(name):
    return ti.tir.parse(text(name), f"{name}.py")["main"]


def assert_close(name, found):
    kernel = KERNELS[name]
    args = kernel.args(np.random.default_rng(5))
    expected = kernel.expected(*args)
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
        assert got.shape == want.shape
        finite = np.isfinite(want) & (np.abs(want) < 1e30)
        np.testing.assert_allclose(got[~finite], want[~finite])
        assert np.abs(got[finite] - want[finite]).max() <= kernel.tolerance * np.abs(want[finite]).max()


def test_every_printed_kernel_has_an_expectation():
    assert sorted(p.stem for p in PRINTED.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed_reads_back(name):
    module = ti.tir.parse(text(name))
    ti.tir.check(module)
    again = ti.tir.parse(str(module))
    assert again == module and str(again) == str(module)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_runs_whole_tiles(name, checked):
    kernel = KERNELS[name]
    after = ti.tir.interpret(main(name), *kernel.args(np.random.default_rng(5)), checked=checked)
    assert_close(name, [after[k] for k in kernel.outputs])


ROWS = """
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((3, 4), "{0}"), B: T.Tensor((3, 4), "{0}")):
    with T.Kernel(1, threads=32):
        a = T.alloc_shared((3, 4), "{0}")
        f = T.alloc_fragment((3, 4), "{0}")
        r = T.alloc_fragment((3, 1), "{0}")
        T.copy(A, a)
        T.copy(A, f)
        {1}
"""
NAN = np.array([[1, np.nan, 3, 2], [np.nan] * 4, [np.nan, 5, -6, np.nan]])
FOLDED = {  # of rows with NaN, or of truth values
    "a maximum": ("float32", "T.reduce_max(f, r); T.copy(r, B[:, 0:1])", [3, -np.inf, 5]),
    "a minimum": ("float32", "T.reduce_min(f, r); T.copy(r, B[:, 0:1])", [1, np.inf, -6]),
    "the largest size": ("float32", "T.reduce_absmax(f, r); T.copy(r, B[:, 0:1])", [3, 0, 6]),
    "the last running maximum": ("float32", "T.cummax(a, dim=1); T.copy(a[:, 3:4], B[:, 0:1])", [3, np.nan, 5]),
    "a NaN that is carried": ("float16", "T.reduce_max(f, r, nan_propagate=True); T.copy(r, B[:, 0:1])", [np.nan] * 3),
    "a sum of truth values": ("bool", "T.reduce_sum(f, r); T.copy(r, B[:, 0:1])", [True, True, True]),
}


@pytest.mark.parametrize("what", FOLDED)
def test_folds_pass_over_nan_unless_they_carry_it(what):
    dtype, line, wanted = FOLDED[what]
    func = ti.tir.parse(ROWS.format(dtype, line))["main"]
    rows = NAN.astype(dtype)
    interpreted = ti.tir.interpret(func, rows, np.zeros_like(rows))[1]
    lifted = ti.lift(func, numerics="exact")(rows, np.zeros_like(rows))[0]
    for found in (interpreted, lifted):
        np.testing.assert_array_equal(found[:, 0], np.asarray(wanted, dtype))


@pytest.mark.parametrize("name", NAMES)
def test_the_lift_computes_the_same(name):
    kernel = KERNELS[name]
    assert_close(name, ti.lift(main(name))(*kernel.args(np.random.default_rng(5))))


# Gradients of lifted kernels of tiles, in float64, beside differences of the result.


sys.path.insert(0, str(Path(__file__).parent))

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
