"""What is said of iterator IR that cannot be lifted: the place, the reason, and what to do."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.types import Dims, TensorType, scalar_of
from tensorir.iterator.lift.graph import Table

X = TensorType(scalar_of(np.dtype(float)), Dims.of(I=(0, 9)))
TABLE = np.array([[0, 1, 2], [0, 3, -1]], np.int32)
TABLES = {"V2E": Table("V2E", ("Vertex",), "V2E", "Edge", TABLE, (0,), True)}
ON_I = "f(x, y) {{ y @ c⟨ Iₕ: [0, 9[ ⟩ ← {}; }}"


ON_K = "f(x, y) {{ y @ c⟨ Kᵥ: [0, 9[ ⟩ ← {}; }}"
COLUMN = TensorType(X.element, Dims.of(K=(0, 9)))


def refused(text: str, *args: object, **options: object) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.lift(ti.iterator.parse(text, "p.itir"), args=args or (X, X), **options)
    return str(caught.value)


def shown(said: str, text: str, part: str, help: str, at: int = 0) -> str:
    """A message with the place of a part of the text, of which it may be that several are equal."""
    column = text.index(part, at)
    place = f"  {text}\n  {' ' * column}{'^' * len(part)}"
    return f"p.itir:1:{column + 1}: {said}\n{place}" + (f"\nhelp: {help}" if help else "")


SHOWN = [
    (
        "(⇑(λ(a) → (λ(f) → f(a))(1.0)))(x)", "TI04", "a value is applied as if it were a function.", "f(a)",
        "apply a stencil.",
    ),
    ("x[2]", "TI04", "there is no member 2 here.", "x[2]", "members count from 0."),
    (
        "(⇑(λ(a, b) → ·a))(x)", "TI04", "the function takes 2 arguments, and there are 1.", "⇑(λ(a, b) → ·a))(x",
        "give it as many as parameters.",
    ),
    (
        "(⇑(λ(a) → ·⟪Iₕ→Iₕ⟫(a)))(x)", "TI04", "the offset 'I' needs a distance.", "⟪Iₕ→Iₕ⟫(a)", "write shift(Ioff, 1).",
    ),
    (
        "concat_where(x, x, y)", "TI04", "concat_where takes a condition on coordinates, and this is none.",
        "concat_where(x, x, y)", "compare a dim with a number, K < 5; for conditions on values there is where.",
    ),
    (
        "(⇑(λ(a) → reduce(plus, 0.0)(·a)))(x)", "TI09", "there is no list to reduce: no argument has neighbours.",
        "reduce(plus, 0.0)(·a)", "shift with a table first: neighbors(V2E, x).",
    ),
    (
        "(⇑scan(λ(s, a) → s + ·a, True, 0.0))(x)", "TI07", "it is not known along which dim this scan runs.",
        "⇑scan(λ(s, a) → s + ·a, True, 0.0))(x", "store on a vertical dim.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code", "said", "part", "help"), SHOWN, ids=[s[2] for s in SHOWN])
def test_a_refusal_shows_the_place(body: str, code: str, said: str, part: str, help: str) -> None:
    found = refused(text := ON_I.format(body)).splitlines()
    assert found[0].endswith(f"error[{code}]: {said}")
    assert found[1] == f"  {text}"
    assert text[found[2].index("^") - 2 :].startswith(part)
    assert found[3] == f"help: {help}"


def test_a_shifted_state_is_refused() -> None:
    text = ON_K.format("(⇑scan(λ(s, a) → ·⟪Kᵥ→Kᵥ, 1ₒ⟫(s) + ·a, True, 0.0))(x)")
    said = "error[TI07]: what a scan or reduction carries is shifted, and it has no neighbours."
    assert refused(text, COLUMN, COLUMN) == shown(said, text, "⟪Kᵥ→Kᵥ, 1ₒ⟫(s)", "shift the arguments, or the result.")


def test_a_shifted_function_is_refused() -> None:
    text = ON_I.format("(⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(deref)))(x)")
    said = "error[TI04]: what is shifted here is no field."
    assert refused(text) == shown(said, text, "⟪Iₕ→Iₕ, 1ₒ⟫(deref)", "shift an argument of the stencil.")


def test_a_cast_to_what_is_no_element_type_is_refused() -> None:
    text = ON_I.format("(⇑(λ(a) → cast_(·a, plus)))(x)")
    said = "error[TI02]: there is no element type 'plus' here."
    assert refused(text) == shown(said, text, "cast_(·a, plus)", "use float64, int32, ...")


def test_a_function_that_calls_itself_is_refused() -> None:
    text = "f(x, y) { g = λ(a) → g(a); y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑g)(x); }"
    said = "error[TI03]: 'g' is not known here: a function sees those above it, and not itself."
    assert refused(text) == shown(said, text, "g", "write what repeats as scan or reduce.", text.index("→"))


def test_a_function_that_is_applied_to_itself_ends() -> None:
    assert refused(ON_I.format("(⇑(λ(a) → (λ(f) → f(f))(λ(f) → f(f))))(x)")) == (
        "error[TI04]: a function is applied to itself without end.\nhelp: use scan or reduce."
    )


def test_a_slot_that_a_table_lacks_is_named() -> None:
    text = "f(x, y) { y @ u⟨ Vertexₕ: [0, 2[ ⟩ ← (⇑(λ(e) → ·⟪V2Eₒ, 3ₒ⟫(e)))(x); }"
    e, v = (TensorType(X.element, Dims.of(**d)) for d in ({"Edge": (0, 5)}, {"Vertex": (0, 2)}))
    said = "error[TI08]: there is no neighbour 3: 'V2E' has 3."
    assert refused(text, e, v, offset_provider=TABLES) == shown(said, text, "⟪V2Eₒ, 3ₒ⟫(e)", "use 0 to 2.")


def test_a_size_that_depends_on_data_is_refused() -> None:
    assert refused("f(x, n, y) { y @ c⟨ Iₕ: [0, n[ ⟩ ← x; }", X, X, X) == (
        "error[TI06]: the sizes of a program cannot depend on what a field holds.\nhelp: pass the number as a scalar."
    )


def test_a_dim_that_an_output_lacks_is_named() -> None:
    text = "f(x, y) { y @ c⟨ Jₕ: [0, 9[ ⟩ ← x; }"
    found = refused(text).splitlines()
    assert found[:2] == ["p.itir:1:11: error[TI10]: 'y' of 'f' has no dim J, along which is stored.", f"  {text}"]


def test_what_is_no_place_is_shown() -> None:
    text = "f(x, y) { x + y @ c⟨ Iₕ: [0, 9[ ⟩ ← x; }"
    assert refused(text) == shown("error[TI04]: this is no place to store to.", text, "x + y", "")


def test_a_type_that_is_not_given_is_named() -> None:
    assert refused(ON_I.format("x"), X) == (
        "error[TI11]: the type of 'y' is not given.\n"
        "help: pass args=(...), a tensor type, a field or a number for each parameter."
    )


def test_what_is_no_offset_is_named() -> None:
    assert refused(ON_I.format("x"), X, X, offset_provider={"V2E": 3}) == (
        "error[TI05]: the offset 'V2E' leads to what is no dimension and no table."
    )


def test_a_node_of_another_release_is_named() -> None:
    stencil = type("Stencil", (), {})()
    parts = {"id": "f", "function_definitions": [], "params": [], "declarations": [], "body": [stencil]}
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.iterator.from_gt4py(type("Program", (), parts)())
    assert str(caught.value) == (
        "error[TI01]: iterator IR has no 'Stencil' that is known here.\n"
        "help: nodes of GT4Py 1.1 are read; install a release of it."
    )


def test_what_is_no_program_is_named() -> None:
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.iterator.from_gt4py(3)
    assert str(caught.value) == (
        "error[TI01]: a program or operator of GT4Py is needed, and this is of type int.\n"
        "help: decorate it: @gtx.program, or @gtx.field_operator."
    )
