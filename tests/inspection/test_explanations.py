"""An explanation names the chain of shifts through which each parameter is read, and no other."""

import numpy as np

import tensorir as ti

MESH = """f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:2]>, x: tensor<float, I[0:9]>) {
  y ← ⟪T, 1⟫(⟪I, -2⟫(x)) + reduce(+, 0.0)(⟪T⟫(cos(x)));
}"""


def test_a_table_is_read_directly_and_a_field_through_it():
    bound = ti.parse(MESH).bind(T=np.array([[2, 3], [4, 5]]))
    assert str(ti.explain(bound)) == (
        "f stores y at C[0:2].\n"
        "T: C[0:2], _NB_I[0:2] are read.\n"
        "x: I[1:6] are read.\n"
        "  ⟪T⟫ reads neighbours, ⟪T⟫[1]⟪I, -2⟫."
    )


def test_shifts_of_a_grid_are_named_in_the_order_in_which_they_stand():
    program = ti.parse(
        "f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:9]>) { y ← ⟪I, 2⟫(x) + x × ⟪I, 1⟫(⟪I, 3⟫(x)); }"
    )
    assert str(ti.explain(program)) == (
        "f stores y at I[0:2].\nx: I[0:6] are read.\n  ⟪I, 1⟫⟪I, 3⟫, ⟪I, 2⟫ reads 2 points after along I."
    )
