"""Gradients of lifted TIR: forward and reverse mode agree, and the remainder is of second order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.gradients import CONFORMANCE, compared, verified
from tests.lift.smooth_kernels import KERNELS, text

MODULES = [
    "softmax_axis1", "reduce_welford", "hand_jacobi_time_pingpong", "hand_prefix_serial", "conv2d_nchw_stride2_pad",
    "sched_matmul64_gpu_shared", "low_sched_matmul64_rfactor_6flat", "pool1d_max",
]  # fmt: skip


def lifted(name: str) -> tuple[Any, list[Any], list[int]]:
    """A kernel lifted, arguments, and which of them hold floats."""
    program = ti.lift(ti.tir.parse(text(name))["main"])
    rng = np.random.default_rng(0)
    arrays: list[Any] = []
    for param in KERNELS[name][0].split(", "):
        own, *shape = param.split()
        extents = tuple(map(int, shape))
        arrays.append(rng.integers(0, 4, extents).astype(np.int32) if own in "NP" else rng.normal(size=extents) + 0.5)
    return program, arrays, [k for k, a in enumerate(arrays) if a.dtype == np.float64]


@pytest.mark.parametrize("name", MODULES)
def test_the_gradient_of_a_lifted_module_is_right(name: str):
    file = CONFORMANCE / f"{name}.py"
    if not file.exists():
        pytest.skip("the conformance modules are not here")
    finding = verified(file)
    assert finding is not None and finding.right, finding


@pytest.mark.parametrize("name", KERNELS)
def test_the_gradient_of_a_kernel_is_right(name: str):
    program, arrays, varied = lifted(name)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    finding = compared(program, arrays, varied, [j for j, k in enumerate(written) if arrays[k].dtype == np.float64])
    assert finding.right, finding


SEVERAL = [
    "softmax", "sweeps", "a triangular system", "a table of alignments", "numbers that change places",
    "a scatter that multiplies", "as often as data tell", "in place from before",
]  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_a_batch_of_gradients_is_the_gradients_one_by_one(name: str):
    program, arrays, varied = lifted(name)
    with jax.enable_x64(True):

        def total(*xs: Any) -> Any:
            given = [jnp.asarray(a) for a in arrays]
            for k, x in zip(varied, xs, strict=True):
                given[k] = x
            return sum((o**2).sum() for o in program(*given) if o.dtype == jnp.float64)

        gradient = jax.jit(jax.grad(total, argnums=tuple(range(len(varied)))))
        batch = [jnp.stack([arrays[k], arrays[k] * 1.1, arrays[k] - 0.2]) for k in varied]
        together = jax.vmap(gradient)(*batch)
        for k in range(3):
            for one, all_ in zip(gradient(*(b[k] for b in batch)), together, strict=True):
                np.testing.assert_allclose(all_[k], one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["sweeps", "a triangular system", "as often as data tell"])
def test_second_derivatives_of_a_sequential_loop_are_symmetric(name: str):
    program, arrays, varied = lifted(name)
    with jax.enable_x64(True):

        def total(x: Any) -> Any:
            given = [jnp.asarray(a) for a in arrays]
            given[varied[-1]] = x
            return sum((o**2).sum() for o in program(*given))

        hessian = jax.jit(jax.hessian(total))(jnp.asarray(arrays[varied[-1]]))
    assert np.abs(hessian).max() > 0
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10, atol=1e-10)


STEPS = """
@T.prim_func
def main(x: T.Buffer((100000,), "float64")):
    y = T.alloc_buffer((100000,), "float64")
    for t in range(1000):
        for i in range(100000):
            y[i] = T.sin(x[i])
        for i in range(99998):
            x[i + 1] = T.float64(0.3) * (y[i] * y[i + 2] + x[i])
"""

SWEEP = """
@T.prim_func
def main(b: T.Buffer((100000,), "float64"), x: T.Buffer((100000,), "float64")):
    for i in range(99998):
        x[i + 1] = T.float64(0.3) * (x[i] * x[i + 2] + b[i])
"""


@pytest.mark.parametrize(("source", "buffers"), [(STEPS, 64), (SWEEP, 8)])
def test_the_gradient_of_a_loop_of_n_updates_does_not_keep_n_buffers(source: str, buffers: int):
    program = ti.lift(ti.tir.parse(source)["main"])
    count = len(program.arguments)
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct((100000,), jnp.float64)] * count
        gradient = jax.jit(jax.grad(lambda *xs: (program(*xs)[-1] ** 2).sum(), argnums=tuple(range(count))))
        used = gradient.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
    assert used <= buffers * 800_000


SQUARES = """
@T.prim_func
def main(A: T.Buffer((1,), "float64")):
    while A[0] > T.float64(1):
        A[0] = A[0] * A[0] * T.float64(0.25)
"""


def test_reverse_mode_goes_through_a_loop_that_nothing_bounds():
    program = ti.lift(ti.tir.parse(SQUARES)["main"])
    with jax.enable_x64(True):
        for start in (0.5, 3.0, 3.9, 3.999):
            x = jnp.array([start])
            value, slope = np.asarray(program(x)[0]), np.asarray(jax.grad(lambda x: program(x)[0].sum())(x))
            steps = int(np.log2(np.log(float(value[0]) / 4) / np.log(start / 4)).round())
            # y = 4 (x / 4)^(2^steps)
            np.testing.assert_allclose(slope, 2**steps * value / start, rtol=1e-11)


def test_a_second_derivative_in_reverse_mode_of_such_a_loop_is_refused_by_name():
    program = ti.lift(ti.tir.parse(SQUARES)["main"])

    def function(x: jax.Array) -> jax.Array:
        return program(x)[0].sum()

    with jax.enable_x64(True):
        x = jnp.array([3.0])
        # y = 4 (x / 4)^8
        np.testing.assert_allclose(jax.hessian(function)(x), [[14 * 0.75**6]], rtol=1e-12)
        with pytest.raises(DiagnosticError) as caught:
            jax.grad(lambda x: jax.grad(function)(x).sum())(x)
        with pytest.raises(DiagnosticError, match="reverse mode does not go through the derivative of a loop"):
            jax.jacrev(jax.jacfwd(function))(x)
    assert str(caught.value) == (
        "<tir>:4:5: error[R03]: reverse mode does not go through the derivative of a loop of which nobody knows how "
        "often it runs.\n"
        "      while A[0] > T.float64(1):\n"
        "      ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: take the second derivative in forward mode (jax.hessian, jax.jacfwd of jax.grad), or limit the loop."
    )


def test_reverse_mode_goes_through_such_a_loop_inside_of_another_too():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float64"), N: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float64")):
    p = T.alloc_buffer((1,), "int32")
    for i in range(4):
        B[i] = T.float64(0)
        p[0] = 0
        while p[0] * p[0] < N[i]:
            B[i] = B[i] + A[p[0]] * A[p[0]]
            p[0] = p[0] + 1
""")["main"]
    )
    n = jnp.array([3, 0, 8, 2], "int32")
    with jax.enable_x64(True):
        a, b = jnp.arange(8) + 1.0, jnp.zeros(4)
        # rounds of p with p * p < n: 2, 0, 3 and 2
        np.testing.assert_array_equal(jax.grad(lambda a: program(a, n, b)[0].sum())(a), [6, 12, 6, 0, 0, 0, 0, 0])


def test_the_gradient_of_a_loop_that_nothing_bounds_keeps_no_more_for_more_rounds():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(x: T.Buffer((100000,), "float64"), e: T.Buffer((1,), "float64")):
    while x[7] > e[0]:
        for i in range(100000):
            x[i] = x[i] * T.cos(x[i])
""")["main"]
    )
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda x, e: (program(x, e)[0] ** 2).sum()))
        shapes = jax.ShapeDtypeStruct((100000,), jnp.float64), jax.ShapeDtypeStruct((1,), jnp.float64)
        used = gradient.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
        # x[7] is less than 0.05 after 300 rounds
        x = jnp.linspace(0.1, 1.0, 100000)
        more = gradient(x, jnp.array([0.05]))
        expected, back = jax.vjp(lambda x: jax.lax.fori_loop(0, 300, lambda _, x: x * jnp.cos(x), x), x)
        np.testing.assert_allclose(more, back(2 * expected)[0], rtol=1e-10)
    assert used <= 128 * 800_000


@pytest.mark.parametrize(
    "bound",
    ["I[0] % 4", "T.max(T.min(I[0], 4), 0)", "1, I[0] % 4 + 1", 'T.Cast("int32", J[0]) - 2', "(I[0] + 1) // 2 % 5"],
)
def test_reverse_mode_goes_through_loops_that_data_end_within_a_bound(bound: str):
    function = ti.tir.parse(f"""
@T.prim_func
def main(I: T.Buffer((1,), "int32"), J: T.Buffer((1,), "uint8"), B: T.Buffer((2,), "float64")):
    for i in range({bound}):
        B[0] = B[1] * T.float64(2) - B[0] * B[0]
""")["main"]
    given = np.array([7], np.int32), np.array([5], np.uint8)
    start = np.array([0.3, 0.7])
    program = ti.lift(function)
    with jax.enable_x64(True):
        gradient = jax.grad(lambda b: program(*given, b)[0][0])(jnp.array(start))
    step = 1e-6 * np.eye(2)
    differences = [ti.tir.interpret(function, *given, start + s)[2][0] for s in step]
    before = [ti.tir.interpret(function, *given, start - s)[2][0] for s in step]
    np.testing.assert_allclose(gradient, (np.array(differences) - np.array(before)) / 2e-6, rtol=1e-6)


def test_the_gradient_goes_through_rounds_that_only_some_iterations_have():
    function = ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), N: T.Buffer((6,), "int32"), C: T.Buffer((6,), "float32")):
    x = T.alloc_buffer((1,), "float32")
    for i in range(6):
        x[0] = A[i]
        for k in range(T.min(N[i], 9)):
            x[0] = T.float32(0.5) * (x[0] + A[i] / x[0])
        C[i] = x[0]
""")["main"]
    program = ti.lift(ti.tir.retype(function, float32="float64"))
    a, rounds = np.arange(2.0, 8.0), np.array([0, 1, 2, 5, 9, 3], np.int32)
    assert compared(program, [a, rounds, a], [0], [0]).right
