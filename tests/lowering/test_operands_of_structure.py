"""Builtins that move elements, on operands that lack dims of their type or have more points: as the oracle has it."""

import numpy as np
import pytest

import tensorir as ti

PARAMETERS = (
    "x: tensor<float, I[0:6], J[0:3]>, w: tensor<float, I[-3:9], J[-1:4]>, v: tensor<float, J[0:3]>, "
    "u: tensor<float, I[0:6]>"
)
OPERANDS = {
    "whole": "x",
    "lacks the first dim": "add_dim(I, 0, 6, v)",
    "lacks the last dim": "add_dim(J, 0, 3, u)",
    "lacks both dims": "add_dim(I, 0, 6, add_dim(J, 0, 3, 2.0))",
    "part of a larger one": "w[I[0:6], J[0:3]]",
    "has more points than its parameter": "(λ(a: tensor<float, I[0:6], J[0:3]>) → a)(w)",
    "has more points and lacks a dim": "add_dim(J, 0, 3, ⟪I, 1⟫(add_dim(I, -2, 8, 3.0))[I[0:6]])",
}
FORMS = {
    "split_dim, first": ("A[0:3], B[0:2], J[0:3]", "split_dim(I, A, B, 2)({})"),
    "split_dim, last": ("I[0:6], A[0:1], B[0:3]", "split_dim(J, A, B, 3)({})"),
    "split_dim of an interval from elsewhere": (
        "A[-1:2], B[0:2], J[0:3]",
        "split_dim(I, A, B, 2)((⟪I, 2⟫({}))[I[-2:4]])",
    ),
    "merge_dims": ("K[0:18]", "merge_dims(I, J, K)({})"),
    "merge_dims, the other way": ("K[0:18]", "merge_dims(J, I, K)({})"),
    "merge_dims of a split": ("I[0:6], J[0:3]", "merge_dims(A, B, I)(split_dim(I, A, B, 3)({}))"),
    "rename": ("K[0:6], I[0:3]", "rename(I → K, J → I)({})"),
    "shift": ("I[-1:5], J[2:5]", "⟪J, -2⟫(⟪I, 1⟫({}))"),
    "concat": ("I[0:12], J[0:3]", "concat({0}, ⟪I, -6⟫(2.0 × {0}))"),
    "concat with what is whole": ("I[0:12], J[0:3]", "concat({}, ⟪I, -6⟫(x))"),
    "update": ("I[0:6], J[0:3]", "update(x, ({})[I[1:4]])"),
    "update of it": ("I[0:6], J[0:3]", "update({}, x[I[1:4], J[1:2]])"),
    "sort": ("I[0:6], J[0:3]", "sort(I, 1)({})"),
    "reduce": ("J[0:3]", "reduce(+, 1.0, I)({})"),
    "reduce, last": ("I[0:6]", "reduce(max, -inf, J)({})"),
    "scan": ("I[0:6], J[0:3]", "scan(+, true, 1.0, I)({})"),
    "scan, downwards": ("I[0:6], J[0:3]", "scan(+, false, 1.0, J)({})"),
    "gather": ("P[0:4], J[0:3]", "gather(I, clamp)({}, 2 × pos(P, add_dim(P, 0, 4, 0.0)))"),
    "gather or zero": ("P[0:4], J[0:3]", "gather(I, zero)({}, 3 × pos(P, add_dim(P, 0, 4, 0.0)) - 2)"),
    "gather at a constant": ("J[0:3]", "gather(I, clamp)({}, 7)"),
    "window": (
        "I[0:6]",
        "reduce(max, -inf, R)(gather(I, J, zero)({}, pos(I, u) + pos(R, add_dim(R, 0, 2, 0.0)), 1))",
    ),
    "squares": ("J[0:3]", "reduce(+, 0.0, I)({0} × {0})"),
    "contract": ("J[0:3]", "contract(float, I)({}, u)"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_moves_elements_takes_operands_in_every_layout(form: str):
    dims, text = FORMS[form]
    outputs = "".join(f"o{k}: tensor<float, {dims}>, " for k in range(len(OPERANDS)))
    closures = "\n".join(f"o{k} ← {text.format(x)};" for k, x in enumerate(OPERANDS.values()))
    p = ti.parse(f"f({outputs}{PARAMETERS}) {{\n{closures}\n}}")
    rng = np.random.default_rng(3)
    arrays = {q.name: rng.integers(-9, 9, q.type.dims.shape).astype(np.float64) for q in p.inputs}
    results = p(**arrays)
    for output, wanted in ti.reference.run(p, **arrays).items():
        np.testing.assert_array_equal(np.asarray(results[output]), wanted, err_msg=output)
