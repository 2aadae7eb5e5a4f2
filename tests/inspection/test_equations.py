"""Programs as LaTeX: what textbooks write is written down here, and the printer has to give it."""

from pathlib import Path
from typing import Any

import pytest

import tensorir as ti
from stencils import library
from tensorir.ir import build
from tensorir.ir.types import tensor
from tests.corpus import corpus

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
    for name, number in sizes.items():
        for less in (2, 0):
            shown = f"{name}-{less}" if less else name
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
