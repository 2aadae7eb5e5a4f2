"""The notation of iterator IR: read, printed, lifted, and refused with a place."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.types import tensor

TEXTS = [
    "λ(x) → ·⟪Ioffₒ, 1ₒ⟫(x) - ·⟪Ioffₒ, -1ₒ⟫(x) × (2.0 + ·x)",
    "(⇑scan(λ(s, a) → (λ(a) → s + a)(·a), True, 0.0))(a)",
    "concat_where(Kᵥ == 0, a, b)",
    "(⇑(λ(__arg0) → reduce(plus, 0)(·__arg0)))((⇑(λ(it) → neighbors(V2Eₒ, it)))(x))",
    "if a > 1.0 ∧ ¬(b ≤ 2.0) then {a, b}[0] else deref(↑f)(x)",
    "·⟪Iₕ→IHalfₕ, 0ₒ⟫(x)",
    "⟪V2Eₒ, 0ₒ, E2Vₒ, 1ₒ⟫(x)",
    "a - (b - c) - d / (e × f)",
]
PROGRAM = """smooth(x, out, n) {
  lap = λ(x) → (⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a) - 2.0 × ·a + ·⟪Iₕ→Iₕ, -1ₒ⟫(a)))(x);
  out @ c⟨ Iₕ: [1, n - 1[ ⟩ ← lap(x);
}"""


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_is_printed_and_read_again(text: str) -> None:
    from tensorir.iterator.text import show

    read = ti.iterator.parse(text)
    assert ti.iterator.parse(show(read)) == read


def test_a_program_is_printed_as_it_was_written() -> None:
    assert str(ti.iterator.parse(PROGRAM)) == PROGRAM


def test_a_program_of_text_is_lifted() -> None:
    x = tensor("float", I=(0, 9))
    lifted = ti.lift(ti.iterator.parse(PROGRAM), args=(x, x, 9))
    (found,) = lifted(np.arange(9.0) ** 2, None, None)
    np.testing.assert_array_equal(found, np.full(7, 2.0))
    assert lifted.report == "out: stored on I[1:8]"


def refused(text: str, **options: object) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        program = ti.iterator.parse(text, "p.itir")
        ti.lift(program, **options)
    return str(caught.value)


def test_a_missing_bracket_is_shown() -> None:
    assert refused("f(x) { x @ c⟨ Iₕ: [0, 9[ ← x; }") == (
        "p.itir:1:26: error[TI13]: '⟩' is needed here, and this is '←'.\n"
        "  f(x) { x @ c⟨ Iₕ: [0, 9[ ← x; }\n"
        "                           ^"
    )


def test_an_offset_without_a_provider_is_named() -> None:
    text = "f(x, y) { y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑(λ(a) → ·⟪Ioffₒ, 1ₒ⟫(a)))(x); }"
    x = tensor("float", I=(0, 10))
    assert refused(text, args=(x, x)) == (
        "p.itir:1:45: error[TI05]: the offset 'Ioff' is not in the offset provider.\n"
        f"  {text}\n"
        f"  {' ' * text.index('Ioff')}^^^^^\n"
        'help: pass offset_provider={"Ioff": ...}; an offset along a dim is h(K - 1), which needs none.'
    )


def test_a_field_that_is_too_small_is_named() -> None:
    x, y = tensor("float", I=(0, 9)), tensor("float", I=(0, 9))
    text = "f(x, y) { y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a)))(x); }"
    assert refused(text, args=(x, y)) == (
        "error[TI10]: 'x' of 'f' has I[0:9], and I[1:10] of it is read.\n"
        "note: x at I = 9 is read for y at I = 8.\n"
        'help: give it more points of I, or store on a smaller domain; out_of_range="lenient" reads the nearest.'
    )


def test_an_unknown_builtin_is_shown() -> None:
    x = tensor("float", I=(0, 9))
    text = "f(x, y) { y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑(λ(a) → floorr(·a)))(x); }"
    assert refused(text, args=(x, x)) == (
        "p.itir:1:43: error[TI03]: 'floorr' is no parameter, function or builtin.\n"
        f"  {text}\n"
        f"  {' ' * text.index('floorr')}^^^^^^\n"
        "help: did you mean 'floor'?"
    )


def test_a_deep_expression_is_read_printed_and_lifted() -> None:
    depth = 10_000
    text = f"f(x, y) {{ y @ c⟨ Iₕ: [0, 4[ ⟩ ← (⇑(λ(a) → {'(' * depth}·a{' + 1.0)' * depth}))(x); }}"
    program = ti.iterator.parse(text)
    assert ti.iterator.parse(str(program)).body[0].span != program.body[0].span
    x = tensor("float", I=(0, 4))
    assert len(ti.lift(program, args=(x, x)).fencil.params) == 2


def test_the_steps_of_a_lift_grow_with_the_distinct_nodes() -> None:
    def steps(n: int) -> int:
        lets = "".join(f"(λ(a{k + 1}) → " for k in range(n))
        ends = "".join(f")(a{k} + a{k})" for k in reversed(range(n)))
        text = f"f(a, y) {{ y @ c⟨ Iₕ: [0, 4[ ⟩ ← (⇑(λ(i) → (λ(a0) → {lets}a{n}{ends})(·i)))(a); }}"
        x = tensor("float", I=(0, 4))
        return ti.lift(ti.iterator.parse(text), args=(x, x)).special.steps

    assert steps(200) - steps(100) == steps(100) - steps(0)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("3 == 3", True), ("3 == 2", False), ("2 < 3 ∧ 3 < 4", True), ("¬(3 == 4)", True), ("¬(2 < 3) ∨ 3 == 4", False)],
)
def test_a_choice_that_known_whole_numbers_decide_is_made_when_the_program_is_lifted(
    condition: str, holds: bool
) -> None:
    text = "f(x, y) { y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑(λ(a) → if CONDITION then ·a + 1.0 else ·a × 2.0))(x); }"
    x, kind = np.linspace(0.0, 8.0, 9), tensor("float", I=(0, 9))
    lifted = ti.lift(ti.iterator.parse(text.replace("CONDITION", condition)), args=(kind, kind))
    assert "if " not in str(lifted.fencil)
    np.testing.assert_array_equal(lifted(x, None)[0], x + 1.0 if holds else x * 2.0)
    # what holds in any case leaves the rest of a condition
    lifted = ti.lift(ti.iterator.parse(text.replace("CONDITION", f"·a > 3.0 ∧ ({condition})")), args=(kind, kind))
    np.testing.assert_array_equal(lifted(x, None)[0], np.where((x > 3.0) & holds, x + 1.0, x * 2.0))
    assert ("∧" in str(lifted.fencil)) != holds
