"""Short loops that always run, written out for GPUs: the values stay, and what has to stay a loop does."""

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.passes.simplify import UnrollLoops

MAXIMA = """f(last: tensor<float, I[0:4]>, before: tensor<float, K[0:3], I[0:4]>, x: tensor<float, I[0:4], N[0:3]>) {
  last ← loop(1, 3)(
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) → true,
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) →
      {scatter(λ(old: tensor<float>, new: tensor<float>) → new, K, over: (), clamp)(before, n, m),
       max(m, gather(N, clamp)(x, n))}, add_dim(K, 0, 3, add_dim(I, 0, 4, 0.0)), add_dim(I, 0, 4, 0.5));
  before ← loop(0, 3)(
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) → true,
    λ(n: tensor<int>, before: tensor<float, K[0:3], I[0:4]>, m: tensor<float, I[0:4]>) →
      {scatter(λ(old: tensor<float>, new: tensor<float>) → new, K, over: (), clamp)(before, n, m),
       max(m, gather(N, clamp)(x, n))}, add_dim(K, 0, 3, add_dim(I, 0, 4, 0.0)), add_dim(I, 0, 4, 0.5)); }"""


def test_rounds_that_read_and_put_at_their_number_have_the_values_of_the_loop():
    x = np.random.default_rng(0).random((4, 3)) + 0.2
    written = UnrollLoops()(ti.parse(MAXIMA))
    assert "loop(" not in str(written) and "scatter(" not in str(written)
    found = reference.run(written, x=x)
    running = np.maximum(0.5, np.maximum.accumulate(x, 1))
    np.testing.assert_array_equal(found["last"], running[:, -1])
    np.testing.assert_array_equal(found["before"], np.stack([np.full(4, 0.5), running[:, 0], running[:, 1]]))


ONE = """f(y: tensor<float>, x: tensor<float, N[0:3]>) {
  y ← loop(0, LIMIT)(λ(n: tensor<int>, s: tensor<float>) → CONDITION,
    λ(n: tensor<int>, s: tensor<float>) → {s + gather(N, MODE)(x, n)}, 0.0); }"""


@pytest.mark.parametrize(
    ("limit", "condition", "mode", "written"),
    [
        ("3", "true", "clamp", True),
        ("9", "true", "clamp", False),
        ("3", "s < 2.0", "clamp", False),
        ("3", "true", "checked", False),
    ],
    ids=["short", "long", "ends by its state", "checks"],
)
def test_loops_that_are_long_end_by_themselves_or_check_stay(limit, condition, mode, written):
    f = ti.parse(ONE.replace("LIMIT", limit).replace("CONDITION", condition).replace("MODE", mode))
    assert ("loop(" not in str(UnrollLoops()(f))) == written


def test_loops_are_written_out_for_gpus_alone():
    assert [UnrollLoops().on(p) for p in ("cpu", "tpu", "gpu")] == [None, None, UnrollLoops()]
