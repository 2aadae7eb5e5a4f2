"""One computation in three languages: a cuTile kernel, a TIR kernel and a field view operator, proven equal or told
apart; and kernels written by hand that are each other's gradients."""

import cuda.tile as ct
import jax
import numpy as np
import pytest
from cuda.tile import Constant

import tensorir as ti
from tensorir import tile
from tensorir.equality.verdict import Level
from tests.peers import cutile_kernels as k

I, J, K = ti.dims("I J K")


def zeros(*shape):
    return np.zeros(shape, np.float32)


def launched(kernel, grid, *args, numerics="exact"):
    given = [a for a in args if isinstance(a, np.ndarray | np.generic)]
    return ti.lift(tile.from_cutile(kernel, *args), grid=grid, args=given, numerics=numerics)


def rows(x, i, j):
    return ct.gather(x, (ct.reshape(i, (i.shape[0], 1)), ct.reshape(j, (1, j.shape[0]))))


@ct.kernel
def jacobi(x, y, T: Constant[int]):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    j = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    around = rows(x, i, j + 1) + rows(x, i + 2, j + 1) + rows(x, i + 1, j) + rows(x, i + 1, j + 2)
    ct.store(y, index=(ct.bid(0), ct.bid(1)), tile=around * 0.25)


@ct.kernel
def jacobi_wrong_at_the_edge(x, y, T: Constant[int]):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    j = ct.bid(1) * T + ct.arange(T, dtype=ct.int32)
    right = ct.minimum(j + 2, ct.num_blocks(1) * T)
    around = rows(x, i, j + 1) + rows(x, i + 2, j + 1) + rows(x, i + 1, j) + rows(x, i + 1, right)
    ct.store(y, index=(ct.bid(0), ct.bid(1)), tile=around * 0.25)


JACOBI = ti.tir.parse("""
@T.prim_func
def main(x: T.Buffer((34, 34), "float32"), y: T.Buffer((32, 32), "float32")):
    for i, j in T.grid(32, 32):
        y[i, j] = (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]) * T.float32(0.25)
""")["main"]


@ti.field_operator
def jacobi_operator(x):
    return (x(I - 1) + x(I + 1) + x(J - 1) + x(J + 1)) * 0.25


SOFTMAX = ti.tir.parse("""
@T.prim_func
def main(x: T.Buffer((16, 64), "float32"), y: T.Buffer((16, 64), "float32")):
    m = T.alloc_buffer((16,), "float32")
    s = T.alloc_buffer((16,), "float32")
    for i in range(16):
        m[i] = T.float32("-inf")
        s[i] = T.float32(0)
        for j in range(64):
            m[i] = T.max(m[i], T.if_then_else(T.isnan(x[i, j]), T.float32("-inf"), x[i, j]))
        for j in range(64):
            s[i] = s[i] + T.exp(x[i, j] - m[i])
        for j in range(64):
            y[i, j] = T.exp(x[i, j] - m[i]) / s[i]
""")["main"]

LARGEST = ti.parse(
    "f(m: tensor<float32, I[0:n]>, x: tensor<float32, I[0:n], J[0:k]>) { m ← reduce(max, float32(-inf), J)(x); }"
)
TOTAL = ti.parse("f(s: tensor<float32, I[0:n]>, x: tensor<float32, I[0:n], J[0:k]>) { s ← reduce(+, 0.0f, J)(x); }")
PRODUCT = ti.parse(
    "f(c: tensor<float32, I[0:n], J[0:m]>, x: tensor<float32, I[0:n], J[0:m], K[0:k]>) { c ← reduce(+, 0.0f, K)(x); }"
)


@ti.field_operator
def softmax_operator(x: ti.Field[[I, J], ti.float32]):
    e = ti.exp(x - LARGEST(x=ti.where(ti.isnan(x), -np.inf, x))["m"])
    return e / TOTAL(x=e)["s"]


MATMUL = ti.tir.parse("""
@T.prim_func
def main(a: T.Buffer((32, 64), "float32"), b: T.Buffer((64, 32), "float32"), c: T.Buffer((32, 32), "float32")):
    for i, j in T.grid(32, 32):
        c[i, j] = T.float32(0)
        for k in range(64):
            c[i, j] = c[i, j] + a[i, k] * b[k, j]
""")["main"]


@ti.field_operator
def matmul_operator(a: ti.Field[[I, K], ti.float32], b: ti.Field[[K, J], ti.float32]):
    return PRODUCT(x=a * b)["c"]


def test_a_jacobi_step_is_proven_equal_in_three_languages():
    kernel = launched(jacobi, (4, 4), zeros(34, 34), zeros(32, 32), 8)
    field = jacobi_operator.fencil(ti.as_field({"I": (-1, 33), "J": (-1, 33)}, zeros(34, 34)))
    for one, other in ((kernel, JACOBI), (JACOBI, field), (kernel, field)):
        assert ti.equivalent(one, other).level == Level.BITS


def test_a_softmax_is_proven_equal_to_an_operator_and_up_to_signs_of_zeros_to_a_loop_nest():
    kernel = launched(k.softmax, 16, zeros(16, 64), zeros(16, 64), 64)
    field = softmax_operator.fencil(zeros(16, 64))
    assert ti.equivalent(kernel, field).level == Level.BITS
    for other in (kernel, field):
        # T.max of two zeros is the second one
        found = ti.equivalent(other, SOFTMAX)
        assert found and found.level < Level.BITS


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_a_product_of_matrices_is_proven_equal_in_three_languages(numerics: str):
    tiles = (16, 16, 64) if numerics == "exact" else (8, 16, 32)  # sums of sums are another order
    grid = (32 // tiles[0], 32 // tiles[1])
    kernel = launched(k.matmul, grid, zeros(32, 64), zeros(64, 32), zeros(32, 32), *tiles, numerics=numerics)
    field = matmul_operator.fencil(zeros(32, 64), zeros(64, 32))
    for one, other in ((kernel, MATMUL), (MATMUL, field), (kernel, field)):
        # sums are taken in any order where numerics are fast
        proven = Level.REALS if numerics == "fast" and kernel in (one, other) else Level.BITS
        assert ti.equivalent(one, other).level == proven


def test_tiled_sums_are_no_proof_where_the_order_counts():
    kernel = launched(k.matmul, (2, 2), zeros(32, 64), zeros(64, 32), zeros(32, 32), 16, 16, 16)
    found = ti.equivalent(kernel, MATMUL)
    assert found.level == Level.REALS


def test_a_step_that_is_wrong_at_an_edge_comes_with_a_witness():
    kernel = launched(jacobi_wrong_at_the_edge, (4, 4), zeros(34, 34), zeros(32, 32), 8)
    found = ti.equivalent(kernel, JACOBI)
    assert not found and found.counterexample is not None
    (x,) = found.counterexample.values()
    (right,) = launched(jacobi, (4, 4), x, zeros(32, 32), 8)(x, None)
    (wrong,) = kernel(x, None)
    apart = np.argwhere(right != wrong)
    assert len(apart) and (apart[:, 1] == 31).all(), "only the last column reads a point too near"
    assert f"arg5[{apart[0][0]}, 31]" in str(found) or "[" in found.difference


@ct.kernel
def softmax_backward(y, dy, dx, N: Constant[int]):
    p = ct.load(y, index=(ct.bid(0), 0), shape=(1, N))
    d = ct.load(dy, index=(ct.bid(0), 0), shape=(1, N))
    ct.store(dx, index=(ct.bid(0), 0), tile=p * (d - ct.sum(p * d, axis=1, keepdims=True)))


def softmaxes(backward):
    x = zeros(16, 64)
    forward = launched(k.softmax, 16, x, x, 64)
    back = launched(backward, 16, x, x, x, 64)

    def derived(x, dy):
        return jax.vjp(lambda x: forward(x, None)[0], x)[1](dy)

    def written(x, dy):
        return back(forward(x, None)[0], dy, None)

    return ti.equivalent(derived, written, args=(x, x), special=False)


def test_a_softmax_backward_kernel_is_the_gradient_of_the_forward_one():
    found = softmaxes(softmax_backward)
    assert found.level == Level.SAMPLED and found.points == 12


@ct.kernel
def softmax_backward_without_the_sum(y, dy, dx, N: Constant[int]):
    p = ct.load(y, index=(ct.bid(0), 0), shape=(1, N))
    ct.store(dx, index=(ct.bid(0), 0), tile=p * ct.load(dy, index=(ct.bid(0), 0), shape=(1, N)))


def test_a_backward_kernel_that_leaves_a_term_out_is_told_apart():
    found = softmaxes(softmax_backward_without_the_sum)
    assert not found and found.counterexample is not None and np.count_nonzero(found.counterexample["x1"]) == 1


def test_a_layer_norm_backward_kernel_is_the_gradient_of_the_forward_one():
    x, w, n, eps = zeros(16, 64), zeros(64), 64, np.float32(1e-5)
    forward = launched(k.layer_norm, 16, x, w, w, x, zeros(16), zeros(16), eps, n)
    back = launched(k.layer_norm_backward, 16, x, x, w, zeros(16), zeros(16), x, n)

    def derived(x, w, b, dy):
        return jax.vjp(lambda x: forward(x, w, b, None, None, None, eps)[0], x)[1](dy)

    def written(x, w, b, dy):
        _, mean, rstd = forward(x, w, b, None, None, None, eps)
        return back(dy, x, w, mean, rstd, None)

    # exact numerics round a fused product and sum once, by way of float64
    assert ti.equivalent(derived, written, args=(x, w, w, x), special=False).agree
