"""Kernels that keep the largest element so far and scale by it, raised to the form without a loop where one asks."""

import cuda.tile as ct
import jax
import numpy as np
import pytest
from cuda.tile import Constant

import tensorir as ti
from tensorir import tile
from tests.peers import cutile_kernels as k

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


@ct.kernel
def two_to_the_scores(q, key, v, o, B: Constant[int], T: Constant[int], D: Constant[int]):
    """Powers of two, weights in half precision, and the terms in front of what they are added to."""
    query = ct.load(q, index=(ct.bid(0), 0), shape=(B, D))
    m = ct.full((B, 1), -1e30, ct.float32)
    s = ct.full((B, 1), 0.0, ct.float32)
    acc = ct.full((B, D), 0.0, ct.float32)
    for j in range(ct.num_tiles(key, axis=0, shape=(T, D))):
        keys = ct.load(key, index=(j, 0), shape=(T, D))
        score = ct.mma(query, ct.transpose(keys), ct.full((B, T), 0.0, ct.float32)) * 0.5
        new = ct.maximum(ct.max(score, axis=1, keepdims=True), m)
        p, fade = ct.exp2(score - new), ct.exp2(m - new)
        s = ct.sum(p, axis=1, keepdims=True) + fade * s
        weights = ct.astype(ct.astype(p, ct.float16), ct.float32)
        acc = ct.mma(weights, ct.load(v, index=(j, 0), shape=(T, D)), fade * acc)
        m = new
    ct.store(o, index=(ct.bid(0), 0), tile=acc / s)


@ct.kernel
def scaled_too_late(x, y, T: Constant[int]):
    """Terms that are scaled by the largest element before this round: no sum that is scaled once."""
    i, n = ct.bid(0), ct.num_tiles(x, axis=1, shape=(1, T))
    m = ct.full((1, 1), 0.5, ct.float32)
    s = ct.full((1, 1), 1.0, ct.float32)
    for j in range(n):
        row = ct.load(x, index=(i, j), shape=(1, T))
        new = ct.maximum(m, ct.max(row, axis=1, keepdims=True))
        s = s * ct.exp(m - new) + ct.sum(ct.exp(row - m), axis=1, keepdims=True)
        m = new
    for j in range(n):
        ct.store(y, index=(i, j), tile=ct.exp(ct.load(x, index=(i, j), shape=(1, T)) - m) / s)


@ct.kernel
def online_from_something(x, y, start, T: Constant[int]):
    """A largest element and a sum that begin with numbers that count."""
    i, n = ct.bid(0), ct.num_tiles(x, axis=1, shape=(1, T))
    m = ct.full((1, 1), start, ct.float32)
    s = ct.full((1, 1), 3.0, ct.float32)
    for j in range(n):
        row = ct.load(x, index=(i, j), shape=(1, T))
        new = ct.maximum(m, ct.max(row, axis=1, keepdims=True))
        s = s * ct.exp(m - new) + ct.sum(ct.exp(row - new), axis=1, keepdims=True)
        m = new
    for j in range(n):
        ct.store(y, index=(i, j), tile=ct.exp(ct.load(x, index=(i, j), shape=(1, T)) - m) / s)


def attention(causal):
    half = np.float32(0.5)
    return k.attention, 4, (floats(64, 16), floats(64, 16), floats(64, 16), zeros(64, 16), half, causal, 16, 16, 16)


CASES = {
    "softmax": (k.online_softmax, 6, (floats(6, 256), zeros(6, 256), 64)),
    "attention": attention(False),
    "causal attention": attention(True),
    "powers of two": (two_to_the_scores, 4, (floats(64, 16), floats(32, 16), floats(32, 16), zeros(64, 16), 16, 8, 16)),
    "starts that count": (online_from_something, 6, (floats(6, 128), zeros(6, 128), np.float32(0.7), 32)),
}


def lifted(kernel, grid, args, **options):
    nodes = kernel._annotated_function.parameter_annotations
    given = [a for a, node in zip(args, nodes, strict=True) if not getattr(node, "constant", False)]
    module = tile.from_cutile(kernel, *args)
    return ti.lift(module, grid=grid, args=given, **options), given, tile.interpret(module, None, given, grid)


@pytest.mark.parametrize("name", CASES)
def test_an_online_kernel_raised_is_the_kernel(name: str):
    p, given, after = lifted(*CASES[name], raise_online=True)
    assert "loop(" not in str(p) and "scaled at the end" in str(p.report) and "raise_online" not in str(p.report)
    arrays = [a for a in p.arguments if not a.scalar]
    wanted = [w for a, w in zip(arrays, after, strict=True) if a.written]
    tolerance = 2e-3 if name == "powers of two" else 2e-6
    for found, w in zip(p(*given), wanted, strict=True):
        np.testing.assert_allclose(found, w, tolerance, tolerance)


def test_it_is_raised_only_where_one_asks():
    p, _, _ = lifted(*CASES["softmax"])
    assert "state: tensor" in str(p) and "scaled at the end" not in str(p.report)


def test_raised_attention_is_two_products_and_a_softmax():
    p, _, _ = lifted(*CASES["attention"], raise_online=True)
    assert str(p).count("contract(") == 2 and "split_dim" not in str(p) and "merge_dims" not in str(p)


def test_sums_that_are_scaled_by_something_else_stay_as_they_are():
    p, given, after = lifted(scaled_too_late, 6, (floats(6, 128), zeros(6, 128), 32), raise_online=True)
    assert "state: tensor" in str(p)
    note = "raise_online: no loop scales sums by the largest element so far; the program is as without it."
    assert note in p.report.notes
    np.testing.assert_allclose(p(*given)[0], after[1], 1e-5, 1e-6)


def test_nan_reaches_the_rows_that_it_reaches_in_the_kernel():
    kernel, grid, (x, *rest) = CASES["softmax"]
    x = x.copy()
    x[1, 3] = x[2, :] = np.nan
    x[3, 7] = np.inf
    p, given, after = lifted(kernel, grid, (x, *rest), raise_online=True)
    np.testing.assert_allclose(p(*given)[0], after[1], 1e-5, 1e-6)


def test_the_gradient_is_that_of_the_loop():
    (raised, given, _), (plain, _, _) = (lifted(*CASES["causal attention"], raise_online=r) for r in (True, False))
    q, key, v, o, scale = given

    def of(p):
        return jax.grad(lambda q, key, v: (p(q, key, v, o, scale)[0] ** 2).sum(), (0, 1, 2))(q, key, v)

    for a, b in zip(of(raised), of(plain), strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5)


def test_exact_numerics_leave_nothing_to_raise():
    with pytest.raises(ti.DiagnosticError, match="rounds otherwise than the kernel does"):
        lifted(*CASES["softmax"], raise_online=True, numerics="exact")
