"""Kernels of cuTile lifted: each gives what the interpreter gives, and its gradient agrees with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.tile")

import tensorir as ti
from tensorir import tile
from tests.lift.gradients import compared
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
