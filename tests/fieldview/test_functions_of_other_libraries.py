"""Functions of JAX and NumPy on fields: they keep the dims, or it is said which of ours do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

(I,) = ti.dims("I")
X = ti.as_field({I: (0, 4)}, np.array([0.5, 1.0, 2.0, 4.0]))

CALLS = {
    "jnp.sin(x)": lambda x: jnp.sin(x),
    "jnp.maximum(x, 1.0)": lambda x: jnp.maximum(x, 1.0),
    "jnp.sum(x)": lambda x: jnp.sum(x),
    "jnp.stack([x, x])": lambda x: jnp.stack([x, x]),
}
OURS = {"jnp.sin(x)": "ti.sin", "jnp.maximum(x, 1.0)": "ti.maximum", "jax.lax.exp(x)": "ti.exp"}


PRIMITIVES = {"jax.nn.relu(x)": lambda x: jax.nn.relu(x), "jax.lax.exp(x)": lambda x: jax.lax.exp(x)}


@pytest.mark.parametrize("call", [*CALLS, *PRIMITIVES])
def test_within_an_operator_ours_is_named_at_the_users_line(call):
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.field_operator({**CALLS, **PRIMITIVES}[call])(X)
    (found,) = refused.value.diagnostics
    assert found.code == "V05" and found.message == "JAX cannot compute with fields of an operator."
    assert found.span.source.name.endswith("test_functions_of_other_libraries.py")
    assert found.span.text == call
    ours = OURS.get(call)
    assert found.help == (f"use {ours}." if ours else "use the functions of tensorir: ti.sin, ti.where.")


@pytest.mark.parametrize("where", ["outside", "in jit", "in a time loop"])
@pytest.mark.parametrize("call", CALLS)
def test_a_field_is_not_taken_apart(call, where):
    run = {
        "outside": lambda f: f(X),
        "in jit": lambda f: jax.jit(f)(X),
        "in a time loop": lambda f: ti.iterate(f, X, 2),
    }[where]
    with pytest.raises(ti.DiagnosticError) as refused, jax.enable_x64(True):
        run(CALLS[call])
    (found,) = refused.value.diagnostics
    assert (found.code, found.message, found.help) == (
        "V35", "JAX's functions know no dims, and those of a field would be lost.",
        "np.sin(x) and operators keep them; x.data is the array alone.",
    )  # fmt: skip


def test_what_is_named_instead_keeps_the_dims():
    np.testing.assert_array_equal(np.sin(X).data, np.sin(np.asarray(X)))
    assert np.sin(X).dims == X.dims
    sine = ti.field_operator(lambda x: ti.sin(x))
    with jax.enable_x64(True):
        assert jax.jit(lambda x: sine(x))(X).dims == X.dims
        np.testing.assert_allclose(jax.jit(lambda x: jnp.sum(jnp.sin(x.data)))(X), np.sin(np.asarray(X)).sum())


def test_numbers_of_jax_meet_fields_on_both_sides():
    with jax.enable_x64(True):
        two = jnp.float64(2.0)
        found = jax.jit(lambda k, x: (k * x, k - x, x / k, k / x, k**x))(two, X)
        for a in (found, (two * X, two - X, X / two, two / X, two**X)):
            want = (2 * X.data, 2 - X.data, X.data / 2, 2 / X.data, 2**X.data)
            assert all(f.dims == X.dims for f in a)
            for f, w in zip(a, want, strict=True):
                np.testing.assert_allclose(f.data, w, rtol=1e-15)
        with pytest.raises(ti.DiagnosticError):
            jnp.ones(4) * X


def test_errors_of_ones_own_stay_ones_own():
    def wrong(x):
        return x + int("three")

    with pytest.raises(ValueError, match="invalid literal"):
        ti.field_operator(wrong)(X)
