"""Prefix sums on GPUs: long scans of few columns are XLA's cumulative operations."""

import numpy as np
import pytest

import tensorir as ti
from tests.lowering.forced_kernels import for_gpus

SCAN = """f(y: tensor<float, I[0:{columns}], K[0:{levels}]>, x: tensor<float, I[0:{columns}], K[0:{levels}]>) {{
  y ← scan(λ(s: tensor<float, I[0:{columns}]>, v: tensor<float, I[0:{columns}]>) → {step}, {forward}, 0.5)(x); }}"""


def scan(step, forward="true", columns=3, levels=130):
    return ti.parse(SCAN.format(step=step, forward=forward, columns=columns, levels=levels))


@pytest.mark.parametrize(
    ("step", "forward", "expected"),
    [
        ("s + v", "true", lambda x: 0.5 + np.cumsum(x, 1)),
        ("v × s", "false", lambda x: 0.5 * np.cumprod(x[:, ::-1], 1)[:, ::-1]),
        ("max(s, v)", "true", lambda x: np.maximum(0.5, np.maximum.accumulate(x, 1))),
    ],
)
def test_a_long_scan_of_few_columns_is_cumulative_on_gpus(step, forward, expected):
    x = np.random.default_rng(0).normal(size=(3, 130))
    c = for_gpus(scan(step, forward))
    np.testing.assert_allclose(c(x=x)["y"], expected(x), rtol=1e-12)
    assert [row.rule for row in c.raised()] == ["prefix"]


@pytest.mark.parametrize(
    "c",
    [
        for_gpus(scan("s + v"), target="cpu"),
        for_gpus(scan("s + v"), numerics="exact"),
        for_gpus(scan("0.5 × s + v")),
        for_gpus(scan("s + v", levels=20)),
        for_gpus(scan("s + v", columns=1 << 15)),
    ],
    ids=["on CPUs", "exact", "a recurrence", "short", "many columns"],
)
def test_other_scans_are_not_cumulative(c):
    assert not c.raised()
