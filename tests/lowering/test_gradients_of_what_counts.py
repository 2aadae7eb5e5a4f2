"""A point that no result needs has no part in a gradient, whatever stands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from generate.examples import sampled
from jax import lax

import tensorir as ti
from lowering.gradients.safe_slopes import bilinear

UNBOUNDED = {
    "1.0 / x": (0.0, np.nan),
    "x / x": (0.0, np.inf),
    "x × x": (np.inf, np.nan),
    "sqrt(x)": (0.0, -1.0),
    "rsqrt(x)": (0.0, -1.0),
    "cbrt(x)": (0.0, np.nan),
    "log(x)": (0.0, -1.0),
    "log2(x)": (0.0, -1.0),
    "log10(x)": (0.0, np.nan),
    "log1p(x)": (-1.0, -2.0),
    "exp(x)": (1e4, np.nan),
    "exp2(x)": (1e5, np.inf),
    "expm1(x)": (1e4, np.nan),
    "sinh(x)": (1e4, np.nan),
    "cosh(x)": (1e4, -1e4),
    "arcsin(x / 8.0)": (8.0, 9.0),
    "arccos(x / 8.0)": (-8.0, 9.0),
    "arccosh(x + 1.0)": (0.0, -3.0),
    "arctanh(x / 8.0)": (8.0, -8.0),
    "lgamma(x)": (0.0, -1.0),
    "power(x, 0.5)": (0.0, -1.0),
    "mod(1.0, x)": (0.0, np.nan),
    "abs(x)": (np.nan, np.nan),
    "sin(x)": (np.inf, np.nan),
    "arctan2(x, x)": (0.0, np.inf),
}
"""Expressions, and what stands at points that nobody needs: their slope, or its product with 0, is not finite."""

CUT = {
    "by the output": "f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) {{ y ← {e}; }}",
    "by a subset": "f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) {{ y ← subset({e}, I[1:4]); }}",
    "by shifts": "f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:5]>) {{ y ← ⟪I, 1⟫({e}); }}",
    "by a region": "f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {{ y ← 1.0; y[I[1:4]] ← {e}; }}",
    "by what is stored later": "f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {{ "
    "y ← {e}; y[I[0:1]] ← 1.0; y[I[4:5]] ← 2.0; }}",
    "by an update": "f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {{ y ← let a = {e}; "
    "update(update(a, add_dim(I, 0, 1, 0.5)), add_dim(I, 4, 5, 0.5)); }}",
    "by concat": "f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) {{ y ← let a = {e}; "
    "concat(add_dim(I, 0, 1, 3.0), subset(a, I[1:4])); }}",
    "by a scan over a part": "f(y: tensor<float, I[1:4]>, x: tensor<float, I[0:5]>) {{ y ← "
    "scan(λ(a: tensor<float>, x: tensor<float>) → a + {e}, True, 0.0)(subset(x, I[1:5])); }}",
    "by a choice": "f(y: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {{ y ← let a = {e}; "
    "let i = pos(I, x); if (i > 0) ∧ (i < 4) then a else 0.5; }}",
}
INNER = [0.5, 2.0, 3.0]
EACH = list(enumerate(UNBOUNDED))


def gradients(f: Callable[..., Any], *ends: tuple[float, float], **given: Any) -> list[np.ndarray]:
    """The gradients of the sum of y, compiled once, where x has these values at its ends."""
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda x, given: f(x=x, **given)["y"].sum()))
        passed = {n: jnp.asarray(a, "int32") for n, a in given.items()}
        return [np.asarray(gradient(jnp.array([first, *INNER, last]), passed)) for first, last in ends]


@pytest.mark.parametrize("cut", CUT)
def test_points_that_are_cut_away_have_no_part_in_a_gradient(cut: str):
    """All expressions in one program, each with an input and an output of its own."""
    head, body = CUT[cut].rsplit("}}", 1)[0].split(") {{", 1)
    numbered = [[re.sub(r"\b[xy]\b", rf"\g<0>{k}", part.format(e=e)) for part in (head[2:], body)] for k, e in EACH]
    compiled = ti.compile(ti.parse(f"f({', '.join(h for h, _ in numbered)}) {{{''.join(b for _, b in numbered)}}}"))
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda xs: sum(y.sum() for y in compiled(**xs).values())))
        found, plain = (
            slope({f"x{k}": jnp.array([first, *INNER, last]) for k, (first, last) in enumerate(ends)})
            for ends in (UNBOUNDED.values(), [(1.0, 1.0)] * len(UNBOUNDED))
        )
    for k, expression in EACH:
        inner, outer = np.asarray(plain[f"x{k}"]), np.asarray(found[f"x{k}"])
        assert outer[[0, 4]].tolist() == [0.0, 0.0], expression
        np.testing.assert_array_equal(outer[1:4], inner[1:4], expression)
        assert np.isfinite(inner).all(), expression


TABLE = np.array([[1, -1], [2, 3], [3, 1]])
THROUGH = {
    "neighbours that no entry names": "f(y: tensor<float, C[0:3]>, T: tensor<int, C[0:3], _NB_I[0:2]>, "
    "x: tensor<float, I[0:5]>) {{ y ← reduce(+, 0.0)(⟪T⟫({e})); }}",
    "one neighbour each": "f(y: tensor<float, C[1:3]>, T: tensor<int, C[0:3], _NB_I[0:2]>, "
    "x: tensor<float, I[0:5]>) {{ y ← ⟪T, 0⟫({e}); }}",
    "indices": "f(y: tensor<float, C[0:3]>, k: tensor<int, C[0:3]>, "
    "x: tensor<float, I[0:5]>) {{ y ← gather(I)({e}, k); }}",
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("expression", sampled(UNBOUNDED))
def test_elements_that_no_index_reads_have_no_part_in_a_gradient(expression: str, through: str, traced: bool):
    text = THROUGH[through].format(e=expression)
    program = ti.parse(text)
    table = {"T": TABLE if "reduce" in text else np.abs(TABLE)} if "⟪" in text else {}
    given = {**table, **({"k": np.array([1, 2, 3], "int32")} if "k:" in text else {})}
    full = ("T",) if "⟪T, 0⟫" in text else ()
    compiled = ti.compile(program, full=full) if traced else ti.compile(program.bind(**given))
    found, plain = gradients(compiled, UNBOUNDED[expression], (1.0, 1.0), **(given if traced else {}))
    assert found[[0, 4]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found[1:4], plain[1:4], rtol=1e-15)


SLOTS = """f(y: tensor<float, C[0:3]>, T: tensor<int, C[0:3], _NB_I[0:2]>, v: tensor<float, I[0:5]>,
  x: tensor<float, C[0:3], _NB_0[0:2]>) {{
  y ← reduce(λ(a: tensor<float, C[0:3]>, v: tensor<float, C[0:3]>, w: tensor<float, C[0:3]>) →
    a + {inside}, 0.0)(⟪T⟫(v), {e}); }}"""


@pytest.mark.parametrize("inside", ["v × w", "w"])
@pytest.mark.parametrize("expression", UNBOUNDED)
def test_slots_that_are_skipped_have_no_part_in_a_gradient(expression: str, inside: str):
    compiled = ti.compile(ti.parse(SLOTS.format(e=expression, inside=inside)).bind(T=TABLE))
    with jax.enable_x64(True):
        x = jnp.array([[0.5, UNBOUNDED[expression][0]], [2.0, 3.0], [0.75, 1.5]])
        gradients = jax.jit(jax.grad(lambda x: compiled(x=x, v=jnp.arange(5.0))["y"].sum()))
        found = np.asarray(gradients(x))
    assert found[0, 1] == 0.0
    assert np.isfinite(found).all()


S = "tensor<float>"
EXTREMES = {
    "min(1.0 / x, 1.0)": [0.0, 0.0, -0.25],
    "max(1.0, -(1.0 / x))": [0.0, 0.0, 0.0],
    "min(max(1.0 / x, 0.75), 1.5)": [0.0, 0.0, 0.0],
    "max(log(x), -1.0)": [0.0, 2.0, 0.5],
    "min(power(x, -0.5), 1.0)": [0.0, 0.0, -(2.0**-2.5)],
    "max(x, x)": [1.0, 1.0, 1.0],
    "reduce(min, 5.0, I)(1.0 / x) + x": [0.75, 0.75, 0.75],
    f"reduce(λ(a: {S}, e: {S}) → max(a, -(1.0 / e)), -5.0, I)(x) + x": [1.25, 1.25, 1.25],
    f"scan(λ(a: {S}, e: {S}) → min(a, e), true, 5.0, I)(1.0 / x)": [0.0, -4.0, -0.25],
    "let a = 1.0 / x; subset(min(a, ⟪I, 1⟫(concat(a, add_dim(I, 3, 4, 9.0)))), I[0:3])": [-4.0, -0.25, -0.25],
}
"""Expressions, and what a change of x = 0, 0.5, 2 by 1 changes; the slope of what is not the extreme is infinite."""


@pytest.mark.parametrize("expression", EXTREMES)
def test_what_is_not_the_extreme_has_no_part_in_a_tangent(expression: str):
    c = ti.compile(ti.parse(f"f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {{ y ← {expression}; }}"))
    with jax.enable_x64(True):
        x = jnp.array([0.0, 0.5, 2.0])
        _, forward = jax.jvp(lambda x: c(x=x)["y"], (x,), (jnp.ones(3),))
        backward = jax.jacrev(lambda x: c(x=x)["y"])(x)
    np.testing.assert_allclose(forward, EXTREMES[expression], 1e-15)
    np.testing.assert_allclose(np.asarray(backward).sum(1), EXTREMES[expression], 1e-15)


def test_the_gradient_of_a_tangent_of_a_stencil():
    c = ti.compile(ti.parse("f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { y ← x × ⟪I, 1⟫(x × x); }"))
    with jax.enable_x64(True):
        x = jnp.array([1.0, 2.0, 3.0])
        slope = jax.grad(lambda x: jax.jvp(lambda x: c(x=x)["y"].sum(), (x,), (jnp.ones(3),))[1])(x)
        assert slope.tolist() == jax.hessian(lambda x: (x[:2] * x[1:] ** 2).sum())(x).sum(0).tolist()


C, X, V = "c: tensor<bool, J[0:8]>", "x: tensor<float, J[0:8], I[0:20]>", "v: tensor<float, I[0:20], L[0:6]>"
CHOSEN = {
    "a contraction": ("contraction", "if c then reduce(+, 0.0, I)((1.0 / x) × v) else 0.0", C, X, V),
    "a contraction with one vector": (
        "contraction", "if c then reduce(+, 0.0, I)((1.0 / x) × v) else 0.0", C, X, "v: tensor<float, I[0:20]>"
    ),
    "a contraction of a root": ("contraction", "if c then reduce(+, 0.0, I)(sqrt(x) × v) else 0.0", C, X, V),
    "a contraction times a factor": (
        "contraction", "if c then reduce(+, 0.0, I)((1.0 / x) × u × v) else 0.0", C, "x: tensor<float, J[0:8]>",
        V, X.replace("x:", "u:"),
    ),
    "a guarded contraction": ("guarded contraction", "reduce(+, 0.0, I)(if c then (1.0 / x) × v else 0.0)", C, X, V),
    "a contraction guarded by element": (
        "guarded contraction", "reduce(+, 0.0, I)(if c then u × (1.0 / x) else 0.0)", C.replace("]>", "], I[0:20]>"),
        "x: tensor<float, J[0:8], I[0:20]>", "u: tensor<float, I[0:20], J[0:8], L[0:6]>",
    ),
    "a convolution": (
        "convolution",
        "if c then reduce(+, 0.0, C)(reduce(+, 0.0, Q)(gather(I, clamp)(1.0 / x, pos(P, p) + pos(Q, v)) × v)) else 0.0",
        C, "x: tensor<float, J[0:8], I[0:5], C[0:16]>", "p: tensor<float, P[0:4]>",
        "v: tensor<float, Q[0:2], C[0:16], L[0:3]>",
    ),
}  # fmt: skip
"""The rule, and a sum of products of which nobody needs the row J = 0; there a factor, or its slope, is infinite."""


@pytest.mark.parametrize("name", CHOSEN)
def test_rows_of_products_that_are_not_needed_have_no_part_in_a_derivative(name: str):
    rule, value, *params = CHOSEN[name]
    shape = [d for d in ("J", "P", "L") if any(f"{d}[0:" in p for p in params)]
    extents = {"J": 8, "P": 4, "L": 3 if rule == "convolution" else 6}
    y = f"y: tensor<float, {', '.join(f'{d}[0:{extents[d]}]' for d in shape)}>"
    program = ti.parse(f"f({y}, {', '.join(params)}) {{ y ← {value}; }}")
    compiled = ti.compile(program)
    assert rule in {row.rule for row in compiled.raised()}
    r = np.random.default_rng(3)
    given = {p.name: r.random(p.type.dims.shape) + 0.5 for p in program.params[1:]}
    given["c"] = np.arange(8) > 0 if given["c"].ndim == 1 else np.arange(8 * 20).reshape(8, 20) >= 20
    moving = [n for n in given if n in "xuv"]

    @jax.jit
    def derivatives(first: jax.Array) -> Any:
        def loss(moved: dict[str, jax.Array]) -> jax.Array:
            return (compiled(**fixed | moved)["y"] ** 2).sum()

        fixed = {n: jnp.asarray(a) for n, a in given.items()}
        at = {n: fixed.pop(n) for n in moving}
        at["x"] = at["x"].at[0].set(first)
        along = {n: jnp.ones_like(a) for n, a in at.items()}
        return jax.jvp(loss, (at,), (along,)), jax.jvp(jax.grad(loss), (at,), (along,))

    with jax.enable_x64(True):
        wanted, found = derivatives(jnp.array(1.0)), derivatives(jnp.array(0.0))
    for a, b in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(b, a, 1e-12, 1e-12)


def test_the_sum_of_the_products_that_count_has_the_infinities_of_ieee():
    r, numbers = np.random.default_rng(4), [0.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan]
    gradient = jax.jit(lambda t, x: jax.vjp(lambda y: bilinear(lax.dot)(y, x), jnp.ones((3, 4), t.dtype))[1](t)[0])
    for _ in range(50):
        t = r.choice(numbers, (3, 2), p=[0.4, 0.3, 0.1, 0.1, 0.04, 0.04, 0.02]).astype("float32")
        x = r.choice(numbers, (4, 2), p=[0.3, 0.3, 0.1, 0.1, 0.08, 0.08, 0.04]).astype("float32")
        with np.errstate(invalid="ignore"):
            wanted = np.where((t[:, None] == 0) | (x == 0), 0, t[:, None] * x).sum(-1)
        np.testing.assert_array_equal(gradient(t, x), wanted)
