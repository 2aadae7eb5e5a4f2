"""Gradients of loops of which nobody knows how often they run: those of as many rounds by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering.gradients.checkpointed_loop
import tensorir as ti

SWEEP = """f(y: tensor<float, I[-2:3]>, n: tensor<int>, x: tensor<float, I[-2:3]>, s: tensor<float>) {
  y ← loop(1)(
    λ(i: tensor<int>, k: tensor<int>, a: tensor<float, I[-2:3]>) → k < n,
    λ(i: tensor<int>, k: tensor<int>, a: tensor<float, I[-2:3]>) → {k + 1, sin(a) × s + 0.25 × a × a},
    0, x
  );
}"""
TABLE = """
@T.prim_func
def main(x: T.Buffer((5,), "float64"), s: T.Buffer((3,), "float64"), n: T.Buffer((1,), "int32")):
    k = T.alloc_buffer((1,), "int32")
    k[0] = 0
    while k[0] < n[0]:
        x[k[0] % 5] = T.sin(x[(k[0] + 2) % 5]) * s[k[0] % 3] + x[k[0] % 5]
        k[0] = k[0] + 1
"""


def sweep(x: jax.Array, s: jax.Array, n: int) -> jax.Array:
    for _ in range(n):
        x = jnp.sin(x) * s[0] + 0.25 * x * x
    return x


def table(x: jax.Array, s: jax.Array, n: int) -> jax.Array:
    for k in range(n):
        x = x.at[k % 5].set(jnp.sin(x[(k + 2) % 5]) * s[k % 3] + x[k % 5])
    return x


def of_sweep() -> Callable[..., Any]:
    compiled = ti.compile(ti.parse(SWEEP))
    return lambda x, s, n: compiled(x=x, s=s[0], n=jnp.asarray(n, "int32"))["y"]


def of_table() -> Callable[..., Any]:
    program = ti.lift(ti.tir.parse(TABLE)["main"])
    return lambda x, s, n: program(x, s, jnp.asarray(n, "int32").reshape(1))[0]


LOOPS = pytest.mark.parametrize(("made", "by_hand"), [(of_sweep, sweep), (of_table, table)])
ROUNDS = (0, 1, 2, 3, 7, 8, 9, 26, 27, 28, 45)


@pytest.fixture
def points() -> Any:
    with jax.enable_x64(True):
        yield jnp.array([0.3, -0.7, 1.1, 0.2, -1.9]), jnp.array([0.9, -1.3, 0.4]), jnp.array([1.0, 2.0, -3.0, 0.5, 7.0])


def gradient(function: Callable[..., jax.Array], x: jax.Array, s: jax.Array, n: Any, w: jax.Array) -> Any:
    return jax.grad(lambda x, s: (function(x, s, n) * w).sum(), argnums=(0, 1))(x, s)


@LOOPS
@pytest.mark.parametrize(("kept", "most"), [(4096, 1 << 20), (2, 2), (3, 27)])
def test_gradients_are_those_of_as_many_rounds_by_hand(
    made: Any, by_hand: Any, kept: int, most: int, points: Any, monkeypatch: pytest.MonkeyPatch
):
    """With room for all rounds; with one level of two, whose blocks run again round by round; with three of three."""
    monkeypatch.setattr(lowering.gradients.checkpointed_loop, "LEAST_KEPT", kept)
    monkeypatch.setattr(lowering.gradients.checkpointed_loop, "MOST_KEPT_OF_WHILES", kept)
    monkeypatch.setattr(lowering.gradients.checkpointed_loop, "ROUNDS", most)
    x, s, w = points
    function = made()
    found = jax.jit(lambda n: gradient(function, x, s, n, w))
    for n in ROUNDS:
        for got, expected in zip(found(n), gradient(by_hand, x, s, n, w), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12, err_msg=str(n))


@LOOPS
def test_members_of_a_batch_run_as_often_as_each_has_to(made: Any, by_hand: Any, points: Any):
    x, s, w = points
    function = made()
    n = jnp.array([3, 0, 11])
    many = x * jnp.array([[1.0], [0.5], [-1.0]])
    alone = [gradient(by_hand, many[k], s, int(n[k]), w) for k in range(3)]
    of_each = jax.vmap(lambda x, n: gradient(function, x, s, n, w))(many, n)
    summed = jax.grad(
        lambda x, s: (jax.vmap(function, (0, None, 0))(x, s, n) * w).sum(), argnums=(0, 1)
    )(many, s)  # fmt: skip
    np.testing.assert_allclose(of_each[0], [a for a, _ in alone], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(of_each[1], [b for _, b in alone], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(summed[0], [a for a, _ in alone], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(summed[1], sum(b for _, b in alone), rtol=1e-12, atol=1e-12)


@LOOPS
def test_matrices_of_derivatives_are_each_others_transposes(made: Any, by_hand: Any, points: Any):
    x, s, _ = points
    function, n = made(), 6
    expected = jax.jacfwd(lambda x: by_hand(x, s, n))(x)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(lambda x: function(x, s, n))(x), expected, rtol=1e-12, atol=1e-12)
    second = jax.hessian(lambda x: (by_hand(x, s, n) ** 2).sum())(x)
    np.testing.assert_allclose(jax.hessian(lambda x: (function(x, s, n) ** 2).sum())(x), second, rtol=1e-9, atol=1e-9)


def test_no_round_behind_the_last_one_is_computed(points: Any, monkeypatch: pytest.MonkeyPatch):
    """Its inner loop would run for four milliards of rounds."""
    monkeypatch.setattr(lowering.gradients.checkpointed_loop, "LEAST_KEPT", 2)
    monkeypatch.setattr(lowering.gradients.checkpointed_loop, "MOST_KEPT_OF_WHILES", 2)
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(x: T.Buffer((1,), "float64"), n: T.Buffer((1,), "int32")):
    k = T.alloc_buffer((1,), "int32")
    while n[0] >= 1:
        k[0] = n[0] - 1
        while k[0] != 0:
            k[0] = k[0] - 1
            x[0] = x[0] * T.float64(1.5)
        n[0] = n[0] - 1
""")["main"]
    )
    slope = jax.jit(jax.grad(lambda x, n: program(x, n)[0].sum()))
    for n in range(6):
        found = slope(points[0][:1], jnp.array([n], "int32"))
        np.testing.assert_allclose(found, 1.5 ** (n * (n - 1) // 2), rtol=1e-14)
