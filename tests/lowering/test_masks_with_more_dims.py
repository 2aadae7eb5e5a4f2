"""A value may be the same along a dim along which it is absent at some points: its mask has the dim, and it has not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti

SHIFTED_AGAIN = """
f(out: tensor<float, I[0:2]>, one: tensor<float>, T: tensor<int, V[0:3], _NB_E[0:1]>,
  S: tensor<int, I[0:2], _NB_V[0:2]>) {
  out ← let held = shift_apply(0)(⟪T⟫(add_dim(E, 0, 4, one)));
        reduce(+, 0.0)(⟪S⟫(held));
}"""

FOLDED_WITH_MORE = """
f(out: tensor<float, I[0:3]>, one: tensor<float>, x: tensor<float, E[0:4]>, T: tensor<int, I[0:3], _NB_E[0:2]>) {
  out ← reduce(λ(a: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>, z: tensor<float>) → a + y × sqrt(z), 0.0)(
    ⟪T⟫(x), add_dim(_NB_0, 0, 2, one));
}"""

CASES = {
    "shifted again": (
        SHIFTED_AGAIN,
        {"T": np.array([[1], [-1], [3]]), "S": np.array([[0, 1], [1, 1]])},
        {"one": np.array(2.0)},
        [2.0, 0.0],
    ),
    "folded beside one with fewer": (
        FOLDED_WITH_MORE,
        {"T": np.array([[0, 1], [2, -1], [-1, -1]])},
        {"one": np.array(4.0), "x": np.array([1.0, 2.0, 3.0, 5.0])},
        [6.0, 6.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bound", [True, False])
def test_the_mask_is_read_where_the_value_is_not(name, bound):
    text, tables, given, wanted = CASES[name]
    f = ti.parse(text)
    assert ti.reference.run(f, **given, **tables)["out"].tolist() == wanted
    run = ti.compile(f.bind(**tables)) if bound else lambda **a: ti.compile(f)(**a, **tables)
    assert run(**given)["out"].tolist() == wanted
    with jax.enable_x64(True):
        slope = jax.grad(lambda one: run(**{**given, "one": one})["out"].sum())(jnp.asarray(given["one"]))
        h = 1e-6
        ahead, behind = (
            ti.reference.run(f, **{**given, "one": given["one"] + s}, **tables)["out"].sum() for s in (h, -h)
        )
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-6)
