"""`contract` as it is written: against `einsum` of NumPy, the oracle, and JAX's own gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

NARROW = np.random.default_rng(3)

CASES = {
    "a product of matrices": ("K", "I[0:5], J[0:7]", "I[0:5], K[0:33]", "K[0:33], J[0:7]", "ik,kj->ij"),
    "batch dims": ("K", "B[0:3], I[0:4], J[0:2]", "B[0:3], I[0:4], K[0:20]", "B[0:3], K[0:20], J[0:2]", "bik,bkj->bij"),
    "several dims": ("K, L", "I[0:4], J[0:2]", "I[0:4], K[0:6], L[0:5]", "K[0:6], L[0:5], J[0:2]", "ikl,klj->ij"),
    "a scalar product": ("K", "", "K[0:40]", "K[0:40]", "k,k->"),
    "few products": ("K", "I[0:4]", "I[0:4], K[0:3]", "K[0:3]", "ik,k->i"),
    "a dim of one factor": ("K", "I[0:4]", "I[0:4], K[0:30]", "I[0:4]", "ik,i->i"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{}, {"numerics": "exact"}, {"passes": ()}, {"raising": ()}])
def test_a_contraction_is_einsum(name, options):
    over, out, left, right, letters = CASES[name]
    f = ti.parse(
        f"f(y: tensor<float, {out}>, a: tensor<float, {left}>, b: tensor<float, {right}>) "
        f"{{ y ← contract(float, {over})(a, b); }}".replace(", >", ">")
    )
    a, b = (NARROW.standard_normal(f[n].type.dims.shape) for n in "ab")
    wanted = np.einsum(letters, a, b)
    c = ti.compile(f, **options)
    np.testing.assert_allclose(c(a=a, b=b)["y"], wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ti.reference.run(f, a=a, b=b)["y"], wanted, rtol=1e-12, atol=1e-12)
    with jax.enable_x64(True):
        found = jax.grad(lambda a: jnp.sum(c(a=a, b=jnp.asarray(b))["y"] ** 2))(jnp.asarray(a))
        given = jax.grad(lambda a: jnp.sum(jnp.einsum(letters, a, b) ** 2))(jnp.asarray(a))
    np.testing.assert_allclose(found, given, rtol=1e-11, atol=1e-11)


def test_factors_on_unlike_intervals_meet_where_both_are():
    f = ti.parse("""f(y: tensor<float, I[0:2]>, a: tensor<float, I[0:2], K[0:30]>, b: tensor<float, K[3:40]>) {
      y ← contract(float, K)(a, b); }""")
    a, b = NARROW.standard_normal((2, 30)), NARROW.standard_normal(37)
    np.testing.assert_allclose(ti.compile(f)(a=a, b=b)["y"], a[:, 3:] @ b[:27], rtol=1e-12)


@pytest.mark.parametrize(("narrow", "wide"), [("int8", "int32"), ("float16", "float32"), ("int32", "float64")])
def test_products_are_made_in_the_type_of_the_sum(narrow, wide):
    f = ti.parse(f"""f(y: tensor<{wide}, I[0:6], J[0:5]>, a: tensor<{narrow}, I[0:6], K[0:64]>,
      b: tensor<{narrow}, K[0:64], J[0:5]>) {{ y ← contract({wide}, K)(a, b); }}""")
    a, b = ((NARROW.uniform(-99, 99, s)).astype(narrow) for s in ((6, 64), (64, 5)))
    wanted = a.astype(wide) @ b.astype(wide)
    c = ti.compile(f)
    np.testing.assert_allclose(c(a=a, b=b)["y"], wanted, rtol=1e-5)
    assert [row.rule for row in c.raised()] == ["contraction"]


def test_what_a_neighbour_that_is_not_there_would_add_is_nothing():
    f = ti.parse("""f(y: tensor<float, V[0:3]>, t: tensor<int, V[0:3], _NB_E[0:2]>, x: tensor<float, E[0:3]>,
      w: tensor<float, V[0:3], _NB_0[0:2]>) { y ← contract(float, _NB_0)(⟪t⟫(x), w); }""")
    t = np.array([[0, 1], [1, 2], [2, -1]])
    x, w = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    wanted = [(x[t[v]] * w[v])[t[v] >= 0].sum() for v in range(3)]
    np.testing.assert_array_equal(ti.reference.run(f, t=t, x=x, w=w)["y"], wanted)
    np.testing.assert_array_equal(ti.compile(f)(t=t, x=x, w=w)["y"], wanted)


def test_the_pipeline_shows_what_a_sum_became_and_can_be_chosen():
    f = ti.parse("f(y: tensor<float>, a: tensor<float, K[0:99]>) { y ← reduce(+, 2.0, K)(a × a); }")
    c = ti.compile(f)
    assert str(c.pipeline()["contractions"].after.closures[0].value) == "2.0 + contract(float, K)(a, a)"
    assert not c.pipeline()["materialise"].changed
    assert len(ti.compile(f, passes=()).pipeline()) == 0
    chosen = "inline, materialise(min_per_byte=2.0)"
    assert [s.name for s in ti.compile(f, passes=chosen).pipeline()] == chosen.split(", ")
    assert "contractions" not in str(ti.compile(f, numerics="exact").pipeline())


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("contract(float, M)(a, a)", "no operand has the dim M."),
        ("contract(float, K, K)(a, a)", "a dim is summed over twice."),
        ("contract(int, K)(a, a)", "products of float64 are not summed as int32."),
        ("contract(float, K)(a, a = a)", "bool stands where a number is needed."),
    ],
)
def test_what_cannot_be_contracted_is_said(said, message):
    with pytest.raises(DiagnosticError) as caught:
        ti.parse(f"f(y: tensor<float>, a: tensor<float, K[0:9]>) {{ y ← {said}; }}")
    assert caught.value.diagnostics[0].message == message
