"""Formulas: equations and the values in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formula_values import Formulas, NotEvaluated, Tensor
from generate.data import copied
from generate.profiles import WHOLE
from generate.programs import programs
from hypothesis import event, given, settings

import tensorir as ti
from stencils import library
from tensorir import reference
from tensorir.inspect.formulas.terms import is_tag, name
from tensorir.ir import build
from tensorir.ir.types import NEIGHBOUR, tensor
from tests.corpus import corpus

# Programs as LaTeX


STATEMENTS = corpus(Path(__file__).with_name("equations.txt"))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_equations_are_those_of_textbooks(statement):
    text, lines = STATEMENTS[statement]
    want = "\n".join((r"\begin{aligned}", lines.replace("\n", " \\\\[4pt]\n"), r"\end{aligned}"))
    assert str(ti.inspect.latex(ti.parse(text))) == want


def test_a_program_with_numbers_for_its_sizes_has_the_equations_of_one_with_names():
    f: Any = library.load("hdiff")
    sizes = {"n": 23, "m": 29, "l": 31}
    want = str(ti.inspect.latex(f))
    for size, number in sizes.items():
        for less in (2, 0):
            shown = f"{size}-{less}" if less else size
            want = want.replace(f"< {shown}", f"< {number - less}")
    assert str(ti.inspect.latex(f.specialise(**sizes))) == want
    assert str(ti.inspect.latex(f.bind(**sizes))) == want


def test_one_name_for_two_things_is_two_symbols():
    f = ti.parse("""f(a: tensor<float, I[0:n]>, b: tensor<float, I[0:n]>) {
      a ← let w = 2.0 × b; w × w;
      b ← let w = 3.0 × a; let b = w + 1.0; w × b; }""")
    left = [line.partition(" &")[0] for line in str(ti.inspect.latex(f)).splitlines()[1:-1]]
    assert left == ["w_{i}", "a_{i}", r"\mathit{w1}_{i}", r"\mathit{b1}_{i}", "b_{i}"]


def test_the_length_is_linear_in_the_distinct_nodes():
    def length(count):
        x, out = (build.var(name, tensor("float", I=(0, 9))) for name in ("x", "out"))
        value = x
        for _ in range(count):
            value = build.call("plus", build.call("multiplies", value, value), build.call("sin", value))
        return len(str(ti.inspect.latex(build.fencil("f", [out, x], [build.closure(out, value)]))))

    assert length(400) < 2.1 * length(200)


def test_a_deep_expression_is_cut_into_lines_of_some_length():
    x, out = (build.var(name, tensor("float", I=(0, 9))) for name in ("x", "out"))
    value = x
    for _ in range(3000):
        value = build.call("sin", value)
    lines = str(ti.inspect.latex(build.fencil("f", [out, x], [build.closure(out, value)]))).splitlines()
    assert sum(line.count(r"\sin") for line in lines) == 3000
    assert max(map(len, lines)) < 1500


def test_notebooks_set_the_equations():
    f = ti.parse("f(out: tensor<float, I[0:4]>) { out ← 1.0; }")
    shown = ti.inspect.latex(f)
    assert repr(shown) == "<equations: 1 line of LaTeX>"
    assert shown._repr_latex_() == f"$$\n{shown}\n$$"


def test_an_operator_has_the_equations_of_its_last_call():
    (I,) = ti.dims("I")

    @ti.field_operator
    def rise(h):
        return h(I + 1) - h

    with pytest.raises(ti.DiagnosticError) as caught:
        ti.inspect.latex(rise)
    assert caught.value.diagnostics[0].code == "I05"
    rise(ti.as_field({I: 3}, [1.0, 4.0, 9.0]))
    assert r"h_{i+1} - h_{i} && 0 \le i < 2" in str(ti.inspect.latex(rise))


# Equations of generated programs, evaluated as they read, are what the oracle computes


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


VALUES = {
    "blocks that are joined and shifted": "o: tensor<float, M[0:5]>, x: tensor<float, A[0:3], B[0:2]>) {"
    " o ← ⟪M, 1⟫(merge_dims(A, B, M)(x)); }",
    "a remainder with a sign": "o: tensor<int, K[0:4]>, x: tensor<int, K[0:4]>) { o ← neg(x % 3) + neg(x) % 3; }",
    "blocks that are split and shifted": "o: tensor<float, A[0:2], B[0:2]>, x: tensor<float, I[0:6]>) {"
    " o ← ⟪A, 1⟫(⟪B, 0⟫(split_dim(I, A, B, 2)(x))); }",
}


@pytest.mark.parametrize("statement", VALUES)
def test_equations_say_what_is_computed(statement):
    f = ti.parse(f"f({VALUES[statement]}")
    x = np.arange(1, 1 + f["x"].type.dims.size).reshape(f["x"].type.dims.shape)
    x = x.astype(np.int32 if f["x"].type.element.is_integer else float)
    np.testing.assert_array_equal(evaluated(f, {"x": x})["o"].astype(float), reference.run(f, x=x)["o"])
