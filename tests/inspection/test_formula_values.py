"""Equations of generated programs, evaluated as they read, are what the oracle computes."""

import numpy as np
import pytest
from formula_values import Formulas, NotEvaluated, Tensor
from generate.data import copied
from generate.profiles import WHOLE
from generate.programs import programs
from hypothesis import event, given, settings

import tensorir as ti
from tensorir import reference
from tensorir.inspect.formulas.terms import is_tag, name
from tensorir.ir.types import NEIGHBOUR


def evaluated(fencil, arguments, holes=False):
    """What the equations of a program say that its outputs are, by name."""
    params = {}
    for p in fencil.params:
        dims = p.type.dims
        given = arguments.get(p.name)
        array = np.zeros(dims.shape, object) if given is None else elements(given)
        slots = tuple(d.startswith(NEIGHBOUR) for d in dims.names)
        symbol = name(p.name).text
        params[symbol] = Tensor(tuple(i.start for _, i in dims.items), slots, array, any(map(is_tag, dims.names)))
    text = str(ti.inspect.latex(fencil))
    if (holes or "shift_init" in str(fencil)) and "reduce(" in str(fencil) and r"\in" not in text:
        raise NotEvaluated("a fold may leave out what is absent in operands that it does not read")
    results = Formulas(params).run(text)
    return {p.name: results[name(p.name).text] for p in fencil.outputs}


def elements(x):
    """An array of objects; of a tuple of arrays one of tuples."""
    if not isinstance(x, tuple):
        return np.asarray(x).astype(object)
    members = [elements(m) for m in x]
    made = np.empty(members[0].shape, object)
    for at in np.ndindex(made.shape):
        made[at] = tuple(m[at] for m in members)
    return made


def same(found, expected):
    """Whether elements are equal, floats but for the rounding of the narrowest type."""
    if isinstance(expected, tuple):
        members = found if isinstance(found, tuple) else (found,) * len(expected)  # 0 is a tuple of zeros
        return all(same(f, e) for f, e in zip(members, expected, strict=True))
    return not np.isfinite(float(expected)) or bool(np.isclose(float(found), float(expected), 1e-5, 1e-5))


@settings(max_examples=40)
@given(programs(WHOLE, depth=3))
def test_equations_of_every_program_say_what_it_computes(case):
    try:
        found = evaluated(case.fencil, case.arguments, any(e.holes for e in case.entries.values()))
    except NotEvaluated as reason:
        event(f"not evaluated: {reason}")
        return
    event("evaluated")
    expected = reference.run(case.fencil, **copied(case.arguments))
    for one, array in found.items():
        wanted = elements(expected[one])
        wrong = [at for at in np.ndindex(array.shape) if not same(array[at], wanted[at])]
        assert not wrong, (one, wrong, array, wanted, str(ti.inspect.latex(case.fencil)))


STATEMENTS = {
    "blocks that are joined and shifted": "o: tensor<float, M[0:5]>, x: tensor<float, A[0:3], B[0:2]>) {"
    " o ← ⟪M, 1⟫(merge_dims(A, B, M)(x)); }",
    "a remainder with a sign": "o: tensor<int, K[0:4]>, x: tensor<int, K[0:4]>) { o ← neg(x % 3) + neg(x) % 3; }",
    "blocks that are split and shifted": "o: tensor<float, A[0:2], B[0:2]>, x: tensor<float, I[0:6]>) {"
    " o ← ⟪A, 1⟫(⟪B, 0⟫(split_dim(I, A, B, 2)(x))); }",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_equations_say_what_is_computed(statement):
    f = ti.parse(f"f({STATEMENTS[statement]}")
    x = np.arange(1, 1 + f["x"].type.dims.size).reshape(f["x"].type.dims.shape)
    x = x.astype(np.int32 if f["x"].type.element.is_integer else float)
    np.testing.assert_array_equal(evaluated(f, {"x": x})["o"].astype(float), reference.run(f, x=x)["o"])
