"""What a parameter of an applied function stands for is an intermediate of that name."""

import numpy as np
import pytest

import tensorir as ti

NESTED = """f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:5]>) {
  out ← (λ(z: tensor<float, I[0:5]>, c: tensor<float, I[0:5]>) → (λ(q: tensor<float, I[0:5]>) → ⟪I, 1⟫(q) - c)(z + z))(
    x, cos(x));
}"""


@pytest.mark.parametrize("bound", [False, True])
def test_parameters_of_applied_functions_are_named(bound: bool):
    x = np.arange(5.0)
    program = ti.parse(NESTED)
    found = ti.compile(program.bind(x=x)).inspect() if bound else ti.compile(program).inspect(x=x)
    assert set(found) == {"z", "c", "q"}
    np.testing.assert_array_equal(found["z"], x)
    np.testing.assert_allclose(found["c"], np.cos(x))
    np.testing.assert_array_equal(found["q"], 2 * x)


def test_an_argument_with_a_name_of_its_own_has_both():
    program = ti.parse(
        "f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { "
        "out ← let a = x + 1.0; (λ(z: tensor<float, I[0:4]>) → z × z)(a); }"
    )
    found = ti.compile(program).inspect(x=np.arange(4.0))
    assert found["a"].values.tolist() == found["z"].values.tolist() == [1.0, 2.0, 3.0, 4.0]
