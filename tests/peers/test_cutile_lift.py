"""Kernels of cuTile lifted: each gives what the interpreter gives, and its gradient agrees with differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.tile")

import tensorir as ti
from tensorir import tile
from tests.lift.gradients import compared
from tests.peers import cutile_further as m
from tests.peers import cutile_kernels as k
from tests.peers.cutile_launches import LAUNCHES, launched

pytestmark = pytest.mark.filterwarnings("ignore")


def lifted(name: str) -> tuple[Any, Any, list[Any], tuple[int, ...]]:
    kernel, grid, args = LAUNCHES[name]
    module, given = tile.from_cutile(kernel, *args), launched(args)
    return ti.lift(module, grid=grid, args=given), module, given, grid


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_lifted_kernel_gives_what_the_interpreter_gives(name):
    p, module, given, grid = lifted(name)
    arrays = [a for a in p.arguments if not a.scalar]
    after = dict(zip((a.name for a in arrays), tile.interpret(module, None, given, grid), strict=True))
    results = p(*given)
    written = [a.name for a in arrays if a.written]
    tolerance = 2e-5 if all(np.asarray(r).dtype.itemsize > 2 for r in results) else 2e-2
    for n, found in zip(written, results, strict=True):
        wanted = after.pop(n)
        assert np.asarray(found).dtype == wanted.dtype
        np.testing.assert_allclose(
            np.asarray(found, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance
        )  # fmt: skip
    # what is not written is what it was
    read = [x for a, x in zip(p.arguments, given, strict=True) if not a.scalar and not a.written]
    for x, y in zip(read, after.values(), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_product_over_tiles_is_one_contraction():
    p = lifted("matmul")[0]
    assert str(p).count("contract") == 1 and "loop" not in str(p) and "gather" not in str(p)


def test_attention_keeps_what_a_row_needs():
    p = lifted("attention")[0]
    assert "loop" in str(p)
    assert {d.strategy for d in p.report.decisions} == {"parallel", "sequential"}


NOT_SMOOTH = {
    "matmul of bfloat16", "fp8_matmul", "histogram", "arg_max", "collatz", "directed_sums", "bytes_of_halves",
    "matmul of halves", "quantised_matmul", "asserted", "printing", "tf32", "whole", "half_math", "fma_ftz", "narrow",
    "unsigned", "bools",
}  # fmt: skip
"""Kernels without a float path, or whose numbers have no float64 in their place."""


@pytest.mark.parametrize("name", [n for n in LAUNCHES if n not in NOT_SMOOTH])
def test_the_gradient_of_a_kernel_agrees_with_differences(name):
    kernel, grid, args = LAUNCHES[name]
    module = tile.retype(tile.from_cutile(kernel, *args), f32="f64")
    tile.verify(module)
    arrays = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in launched(args)]
    p = ti.lift(module, grid=grid, args=arrays)
    written = [k for k, a in enumerate(p.arguments) if a.written]
    varied = [k for k, a in enumerate(arrays) if a.dtype == np.float64 and a.ndim]
    results = [j for j, k in enumerate(written) if arrays[k].dtype == np.float64]
    assert varied and results
    found = compared(p, arrays, varied, results)
    assert found.right, found


def with_nans() -> np.ndarray:
    """Rows with a NaN at either end, in the middle, every third one, and nothing else; and with infinities."""
    x = np.random.default_rng(1).standard_normal((16, 512)).astype(np.float32)
    x[2, 5] = x[3, :] = x[4, 0] = x[5, -1] = x[8, ::3] = np.nan
    x[6, 100:200], x[7, 7] = np.inf, -np.inf
    return x


@pytest.mark.parametrize("numerics", ("fast", "exact"))
@pytest.mark.parametrize(
    ("kernel", "more", "grid"),
    (
        (k.softmax, (np.zeros((16, 512), np.float32), 512), 16), (k.arg_max, (np.zeros(16, np.int32), 512), 16),
        (k.top_k, (np.zeros((16, 3), np.float32), np.zeros((16, 3), np.int32), 3, 512), 16),
        (m.scan_reverse_max, (np.zeros((16, 512), np.float32), 512), 8),
    ),
)  # fmt: skip
def test_extremes_do_with_a_nan_what_the_interpreter_does(kernel, more, grid, numerics):
    args = (with_nans(), *more)
    module, given = tile.from_cutile(kernel, *args), [a for a in args if isinstance(a, np.ndarray)]
    p = ti.lift(module, grid=grid, args=given, numerics=numerics)
    after = tile.interpret(module, None, given, grid)
    wanted = [w for a, w in zip(p.arguments, after, strict=True) if a.written]
    for found, w in zip(p(*given), wanted, strict=True):
        np.testing.assert_allclose(found, w, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "name",
    ("attention", "tickets", "collatz", "prefix_over_blocks", "sum_by_atomics", "rows_of_different_length", "bitonic"),
)  # fmt: skip
def test_a_batch_of_launches_is_each_of_them(name):
    p, _, given, _ = lifted(name)
    axes = tuple(None if a.scalar else 0 for a in p.arguments)
    # the second of each pair is the first backwards
    pairs = [x if axis is None else jnp.stack([x, jnp.flip(x, 0)]) for x, axis in zip(given, axes, strict=True)]
    batch = jax.vmap(lambda *arrays: p(*arrays), in_axes=axes)(*pairs)
    for one in range(2):
        alone = p(*(x if axis is None else x[one] for x, axis in zip(pairs, axes, strict=True)))
        for found, wanted in zip(batch, alone, strict=True):
            np.testing.assert_allclose(found[one], wanted, 1e-5, 1e-5)
