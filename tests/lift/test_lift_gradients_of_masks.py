"""Reverse mode where the source does not run all that is computed: what does not count has no part in gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

N = 4
HEAD = f"""
@T.prim_func
def main(A: T.Buffer(({N},), "float64"), B: T.Buffer(({N},), "float64"), P: T.Buffer(({N},), "int32")):
"""


def function(body: str) -> Callable[..., Any]:
    """The program of a body over A, B and P as a function of A and B, with what it writes as one array."""
    program = ti.lift(ti.tir.parse(HEAD + body)["main"])
    order = np.array([0, 1, 3, 2], np.int32)
    names = [a.name for a in program.arguments]

    def run(a: Any, b: Any) -> Any:
        given = {"A": a, "B": b, "P": order}
        return jnp.concatenate(program(*(given[n] for n in names)))

    return run


def nest(inner: str, statement: str) -> str:
    return f"""
    for i in range({N}):
        {inner}
            {statement}
"""


DIFFERENCE = "B[i] = B[i] + T.float64(1) / (A[i] - A[j])"
TRIANGLES = {
    "below the diagonal": nest("for j in range(i):", DIFFERENCE),
    "above the diagonal": nest(f"for j in range(i + 1, {N}):", DIFFERENCE),
    "roots": nest("for j in range(i):", "B[i] = B[i] + T.sqrt(A[i] - A[j])"),
    "powers": nest("for j in range(i):", "B[i] = B[i] + T.pow(A[i] - A[j], T.float64(-1.5))"),
    "where one is greater": f"""
    for i in range({N}):
        for j in range({N}):
            if i > j:
                {DIFFERENCE}
""",
    "a quotient times an element": nest("for j in range(i):", "B[i] = B[i] + T.float64(1) / (A[i] - A[j]) * A[j]"),
    "a sine of a quotient": nest("for j in range(i):", "B[i] = B[i] + T.sin(T.float64(1) / (A[i] - A[j]))"),
    "an overflow": nest("for j in range(i):", "B[i] = B[i] + T.exp(T.float64(1) / (A[i] - A[j])) * A[j]"),
}
ROUNDS = {
    "until each is small": nest("while A[i] > T.float64(0.25):", "A[i] = A[i] * T.sqrt(A[i] - T.float64(0.2))"),
    "as often as data say": nest("for k in range(P[i]):", "A[i] = A[i] * T.sqrt(A[i] - T.float64(0.05))"),
    "within a bound": """
    for i in range(4):
        for k in range(4):
            if A[i] > T.float64(0.25):
                A[i] = A[i] * T.sqrt(A[i] - T.float64(0.2))
""",
}
OPERATIONS = [
    "T.sqrt(A[i])", "T.rsqrt(A[i])", "T.log(A[i])", "T.log2(A[i])", "T.log10(A[i])", "T.log1p(A[i] - T.float64(1))",
    "T.pow(A[i], T.float64(0.5))", "T.pow(A[i], A[i])", "T.float64(1) / A[i]", "A[i] / A[i] * A[i]",
    "T.acosh(A[i] + T.float64(1))", "T.acos(T.float64(1) - A[i])", "T.asin(T.float64(1) - A[i])",
    "T.atanh(T.float64(1) - A[i])", "T.sqrt(T.sqrt(A[i]))", "T.exp(T.float64(1) / A[i])",
    "T.sinh(T.float64(1) / A[i])", "T.tan(T.float64(1) / A[i])", "T.tanh(T.sqrt(A[i]))",
]  # fmt: skip
GUARDS = {
    "a condition": """
    for i in range(4):
        if A[i] > T.float64(0):
            B[i] = {}
        else:
            B[i] = A[i]
""",
    "a selection": """
    for i in range(4):
        B[i] = T.Select(A[i] > T.float64(0), {}, A[i])
""",
    "a store": """
    for i in range(4):
        if A[i] > T.float64(0):
            B[P[i]] = {}
""",
}
CLIMBING, MIXED = [1.0, 2.0, 4.0, 7.0], [0.7, 0.0, 1.5, 0.0]
CASES = [
    *(pytest.param(body, CLIMBING, id=name) for name, body in TRIANGLES.items()),
    *(pytest.param(body, [1.0, 0.1, 0.8, 0.3], id=name) for name, body in ROUNDS.items()),
    *(pytest.param(body.format("T.sqrt(A[i])"), [1.0, -2.0, 3.0, 0.0], id=name) for name, body in GUARDS.items()),
    *(pytest.param(GUARDS["a condition"].format(e), MIXED, id=e) for e in OPERATIONS),
]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def near(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("body", "a"), CASES)
def test_reverse_mode_agrees_with_forward_mode(body: str, a: list[float]):
    run, point = function(body), (jnp.array(a), jnp.arange(4.0))
    near(*jax.jit(lambda *xs: (jax.jacrev(run, (0, 1))(*xs), jax.jacfwd(run, (0, 1))(*xs)))(*point))


STEEP = ["below the diagonal", "roots", "powers", "a quotient times an element"]


@pytest.mark.parametrize(
    ("body", "a"),
    [
        *((TRIANGLES[name], CLIMBING) for name in STEEP),
        (ROUNDS["within a bound"], [1.0, 0.1, 0.8, 0.3]),
        *((GUARDS["a condition"].format(e), MIXED) for e in OPERATIONS),
    ],
)
def test_second_derivatives_agree_in_all_modes(body: str, a: list[float]):
    run, point, b = function(body), jnp.array(a), jnp.arange(4.0)

    def total(x: jax.Array) -> jax.Array:
        return (run(x, b) ** 2).sum()

    modes = [
        jax.jacfwd(jax.jacfwd(total)), jax.hessian(total), jax.jacrev(jax.jacrev(total)), jax.jacrev(jax.jacfwd(total))
    ]  # fmt: skip
    expected, *found = jax.jit(lambda x: [f(x) for f in modes])(point)
    near(found, [expected] * 3)


def test_gradients_are_known_by_hand():
    a = jnp.array(CLIMBING)
    found = jax.grad(lambda a: function(TRIANGLES["below the diagonal"])(a, jnp.zeros(4)).sum())(a)
    d = np.subtract.outer(CLIMBING, CLIMBING)
    slopes = np.divide(1, d**2, out=np.zeros((4, 4)), where=d > 0)
    np.testing.assert_allclose(found, slopes.sum(0) - slopes.sum(1), rtol=1e-13)
    found = jax.grad(lambda a: function(GUARDS["a condition"].format("T.sqrt(A[i])"))(a, a).sum())(a)
    np.testing.assert_allclose(found, 0.5 / np.sqrt(CLIMBING), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_under_masks_in_narrow_types_batches_and_programs(dtype: str):
    text = (HEAD + GUARDS["a condition"].format("T.sqrt(A[i])")).replace("float64", dtype)
    program = ti.lift(ti.tir.parse(text)["main"])
    points = jnp.array([[1.0, -2.0, 4.0, 0.0], [0.25, 16.0, -1.0, 0.0]], dtype)
    gradient = jax.jit(
        jax.vmap(jax.grad(lambda a: program(a, jnp.zeros(4, dtype), np.arange(4, dtype="int32"))[0].sum()))
    )(points)
    np.testing.assert_array_equal(gradient.astype("float32"), [[0.5, 1, 0.25, 1], [1, 0.125, 1, 1]])


@pytest.mark.parametrize("numerics", ["exact", "loose"])
def test_gradients_under_masks_are_right_with_all_numerics(numerics: str):
    f = ti.parse(
        "f(x: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>) { y ← if x > 0.0 then 1.0 / x × x × x else x; }"
    )
    program = ti.compile(f, numerics=numerics)
    gradient = jax.grad(lambda x: program(x=x)["y"].sum())(jnp.array([2.0, 0.0, 4.0]))
    np.testing.assert_allclose(gradient, [1.0, 1.0, 1.0], rtol=1e-14)
