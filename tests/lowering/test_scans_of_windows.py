"""Scans and sequential folds along what windows, or neighbours, are read at: the numbers of the reference."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.text import parse

STEP = "λ(s: tensor<float64, Y[0:4]>, a: tensor<float64, Y[0:4]>) → s × 0.5 + a"
AT = "pos(Y, add_dim(Y, 0, 4, 0)) + {} × pos(J, add_dim(J, {}, 0))"
WINDOWS = [(1, "0, 3"), (2, "1, 4"), (1, "0, 1")]


@pytest.mark.parametrize(("dilation", "interval"), WINDOWS)
@pytest.mark.parametrize("forward", ["true", "false"])
def test_a_scan_along_a_window(dilation: int, interval: str, forward: str):
    text = f"""f(o: tensor<float64, J[{interval.replace(", ", ":")}], Y[0:4]>, x: tensor<float64, I[0:12]>) {{
        o ← scan({STEP}, {forward}, add_dim(Y, 0, 4, float64(0.0)), J)(
              gather(I, clamp)(x, {AT.format(dilation, interval)})); }}"""
    check(text)


@pytest.mark.parametrize(("dilation", "interval"), WINDOWS)
def test_a_fold_along_a_window(dilation: int, interval: str):
    text = f"""f(o: tensor<float64, Y[0:4]>, x: tensor<float64, I[0:12]>) {{
        o ← reduce({STEP}, add_dim(Y, 0, 4, float64(0.0)), J)(
              gather(I, clamp)(x, {AT.format(dilation, interval)})); }}"""
    check(text)


def check(text: str) -> None:
    program = parse(text)
    x = np.random.default_rng(1).normal(size=12)
    out = np.zeros(program.outputs[0].type.dims.shape)
    wanted = reference.run(program, o=out, x=x)["o"]
    np.testing.assert_allclose(ti.compile(program)(o=out, x=x)["o"], wanted, rtol=1e-12)
