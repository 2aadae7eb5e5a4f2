"""The iterator view: text, interpreter and refusals."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.integers.dims import Dims
from tensorir.ir.types import TensorType, scalar_of, tensor
from tensorir.iterator.lift.graph import Table
from tests.iterator.iterator_oracle import Block, interpret

# The notation of iterator IR


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


def test_a_field_that_lacks_a_part_behind_a_gap_is_told_who_reads_it() -> None:
    shifted = "⟩ ← (⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a)))(x);"
    text = f"f(x, y, z) {{ y @ c⟨ Iₕ: [0, 2[ {shifted} z @ c⟨ Iₕ: [10, 12[ {shifted} }}"
    types = [tensor("float", I=(0, stop)) for stop in (5, 20, 20)]
    assert "note: x at I = 12 is read for z at I = 11.\n" in refused(text, args=types)


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


# The lift beside the point-wise interpreter, and the interpreter beside NumPy

RNG = np.random.default_rng(3)
V2E = np.array([[0, 1, 2], [0, 3, -1], [1, 3, 4], [2, 4, -1]], np.int32)
E2V = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]], np.int32)
OFFSETS = {
    "V2E": Table("V2E", ("Vertex",), "V2E", "Edge", V2E, (0,), True),
    "E2V": Table("E2V", ("Edge",), "E2V", "Vertex", E2V, (0,), False),
}
GRID = "f(x, y) {{ y @ c⟨ Iₕ: [1, 4[, Kᵥ: [1, 6[ ⟩ ← {}; }}"
MESH = "f(x, y) {{ y @ u⟨ Vertexₕ: [0, 4[ ⟩ ← {}; }}"
STRUCTURED = [
    "(⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a) - 2.0 × ·⟪Kᵥ→Kᵥ, -1ₒ⟫(a)))(x)",
    "(⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫((↑(λ(b) → ·b + ·⟪Iₕ→Iₕ, -2ₒ⟫(b)))(a))))(x)",
    "(⇑scan(λ(s, a) → s × 0.5 + ·a, True, 0.0))(x)",
    "(⇑scan(λ(s, a) → {s[0] + ·a, s[0] × s[1]}, False, {1.0, 0.5}))(x)[1]",
    "concat_where(Kᵥ < 3, x, (⇑(λ(a) → ·⟪Kᵥ→Kᵥ, -2ₒ⟫(a)))(x))",
    "(⇑(λ(a) → if ·a < 1.0 ∨ ·⟪Kᵥ→Kᵥ, 1ₒ⟫(a) > 1.5 then ·a else 0.0))(x)",
]
UNSTRUCTURED = [
    "(⇑(λ(e) → reduce(plus, 0.0)(neighbors(V2Eₒ, e))))(x)",
    "(⇑(λ(e) → reduce(λ(s, a, b) → s + a × b, 1.0)(neighbors(V2Eₒ, e), map_list(plus)(neighbors(V2Eₒ, e), 2.0))))(x)",
    "(⇑(λ(e) → if can_deref(⟪V2Eₒ, 2ₒ⟫(e)) then ·⟪V2Eₒ, 2ₒ⟫(e) else -1.0))(x)",
    "(⇑(λ(e) → ·⟪V2Eₒ, 0ₒ, E2Vₒ, 1ₒ⟫((↑(λ(d) → reduce(plus, 0.0)(neighbors(V2Eₒ, d))))(e))))(x)",
]


def agree(text: str, x: Block, y: Block) -> None:
    program = ti.iterator.parse(text)
    expected = interpret(program, {"x": x, "y": y}, OFFSETS)["y"].array
    types = [TensorType(scalar_of(b.array.dtype), b.dims) for b in (x, y)]
    lifted = ti.lift(program, args=types, offset_provider=OFFSETS, column="K")
    (found,) = lifted(x.array, None)
    (output,) = lifted.special.outputs
    ends = zip(output.box.values(), y.dims.items, strict=True)
    where = tuple(slice(a - i.start, b - i.start) for (a, b), (_, i) in ends)
    np.testing.assert_allclose(found, expected[where], rtol=1e-13)


@pytest.mark.parametrize("text", STRUCTURED)
def test_the_lift_on_a_grid_is_the_interpreter(text: str) -> None:
    dims = Dims.of(I=(-1, 7), K=(-1, 9))
    agree(GRID.format(text), Block(dims, RNG.uniform(0.5, 2, dims.shape)), Block(dims, np.zeros(dims.shape)))


@pytest.mark.parametrize("text", UNSTRUCTURED)
def test_the_lift_on_a_mesh_is_the_interpreter(text: str) -> None:
    x, y = Dims.of(Edge=(0, 5)), Dims.of(Vertex=(0, 4))
    agree(MESH.format(text), Block(x, RNG.uniform(0.5, 2, 5)), Block(y, np.zeros(4)))


REGIONS = {
    "Kᵥ < 3": lambda i, k: k < 3,
    "Kᵥ ≤ 3": lambda i, k: k <= 3,
    "Kᵥ > 3": lambda i, k: k > 3,
    "Kᵥ ≥ 3": lambda i, k: k >= 3,
    "Kᵥ == 3": lambda i, k: k == 3,
    "Kᵥ ≠ 3": lambda i, k: k != 3,
    "4 > Kᵥ": lambda i, k: k < 4,
    "2 ≤ Kᵥ": lambda i, k: k >= 2,
    "Kᵥ > 1 ∧ Kᵥ < 4": lambda i, k: (k > 1) & (k < 4),
    "Kᵥ < 2 ∨ Kᵥ ≥ 5": lambda i, k: (k < 2) | (k >= 5),
    "¬(Kᵥ == 2)": lambda i, k: k != 2,
    "¬(Kᵥ > 1 ∧ Kᵥ < 4)": lambda i, k: (k <= 1) | (k >= 4),
    "xor_(Kᵥ < 4, Kᵥ > 1)": lambda i, k: (k < 4) ^ (k > 1),
    "Iₕ < 3 ∧ Kᵥ > 2": lambda i, k: (i < 3) & (k > 2),
    "Iₕ == 2 ∨ Kᵥ == 4": lambda i, k: (i == 2) | (k == 4),
    "xor_(Iₕ < 3, Kᵥ > 2)": lambda i, k: (i < 3) ^ (k > 2),
}


@pytest.mark.parametrize("condition", REGIONS)
def test_conditions_on_coordinates_are_numpys(condition: str) -> None:
    dims = Dims.of(I=(0, 6), K=(0, 8))
    x = RNG.uniform(0.5, 2, dims.shape)
    kind = TensorType(scalar_of(x.dtype), dims)
    program = ti.iterator.parse(GRID.format(f"concat_where({condition}, x, (⇑(λ(a) → -1.0 × ·a))(x))"))
    (found,) = ti.lift(program, args=(kind, kind), column="K")(x, None)
    i, k = np.ogrid[1:4, 1:6]
    np.testing.assert_array_equal(found, np.where(REGIONS[condition](i, k), x[1:4, 1:6], -x[1:4, 1:6]))


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("stop", [4, 5, 6])
def test_rows_that_a_table_lacks_are_named(start: int, stop: int) -> None:
    x, table = np.array([3.0, 1.0, 4.0, 1.5, 9.0]), Table("V2E", ("Vertex",), "V2E", "Edge", V2E, (1,), True)
    types = [TensorType(scalar_of(x.dtype), Dims.of(**{d: (0, n)})) for d, n in (("Edge", 5), ("Vertex", 7))]
    program = ti.iterator.parse(MESH.format("(⇑(λ(e) → ·⟪V2Eₒ, 1ₒ⟫(e)))(x)").replace("[0, 4[", f"[{start}, {stop}["))
    if start >= 1 and stop <= 5:
        (found,) = ti.lift(program, args=types, offset_provider={"V2E": table})(x, None)
        np.testing.assert_array_equal(found, x[V2E[start - 1 : stop - 1, 1]])
        return
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.lift(program, args=types, offset_provider={"V2E": table})
    (said,) = refused.value.diagnostics
    assert said.code == "TI10"
    assert said.message == f"'V2E' has no rows of Vertex[{start}:{stop}], which 'f' reads."


@pytest.mark.parametrize("element", ["float64", "int32", "bool"])
@pytest.mark.parametrize("slot", [0, 2])
def test_a_neighbour_that_is_read_alone_and_missing_is_zero(slot: int, element: str) -> None:
    x = np.array([3, 1, 4, 1, 5]).astype(element)
    types = [TensorType(scalar_of(np.dtype(element)), Dims.of(**{d: (0, n)})) for d, n in (("Edge", 5), ("Vertex", 4))]
    program = ti.iterator.parse(MESH.format(f"(⇑(λ(e) → ·⟪V2Eₒ, {slot}ₒ⟫(e)))(x)"))
    (found,) = ti.lift(program, args=types, offset_provider=OFFSETS)(x, None)
    np.testing.assert_array_equal(found, np.where(V2E[:, slot] >= 0, x[V2E[:, slot]], 0))
    assert found.dtype == x.dtype
    if slot == 0:
        ti.lift(program, args=types, offset_provider=OFFSETS, holes="refuse")(x, None)
    else:
        with pytest.raises(ti.DiagnosticError):
            ti.lift(program, args=types, offset_provider=OFFSETS, holes="refuse")(x, None)


def test_the_interpreter_changes_nothing_that_it_is_given() -> None:
    x, y = (Block(Dims.of(Edge=(0, 5)), np.ones(5)), Block(Dims.of(Vertex=(0, 4)), np.zeros(4)))
    found = interpret(ti.iterator.parse(MESH.format(UNSTRUCTURED[0])), {"x": x, "y": y}, OFFSETS)
    np.testing.assert_array_equal(found["y"].array, (V2E >= 0).sum(1))
    np.testing.assert_array_equal(y.array, 0)


def test_temporaries_tuples_and_domains_of_fields_are_the_lifts() -> None:
    text = """f(x, y, z) {
      t = temporary(domain=c⟨ Iₕ: [0, 7[ ⟩, dtype=float64);
      t @ c⟨ Iₕ: [0, 7[ ⟩ ← (⇑(λ(a) → ·a × 2.0))(x);
      {y, z} @ {c⟨ Iₕ: [get_domain_range(y, Iₕ)[0], get_domain_range(y, Iₕ)[1][ ⟩, c⟨ Iₕ: [2, 4[ ⟩}
        ← {(⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a)))(t), t};
    }"""
    program = ti.iterator.parse(text)
    x, y = RNG.uniform(0.5, 2, 7), np.zeros(6)
    blocks = {
        "x": Block(Dims.of(I=(0, 7)), x), "y": Block(Dims.of(I=(0, 6)), y), "z": Block(Dims.of(I=(0, 6)), y)
    }  # fmt: skip
    expected = interpret(program, blocks)
    np.testing.assert_array_equal(expected["y"].array, 2 * x[1:])
    np.testing.assert_array_equal(expected["z"].array, [0, 0, *(2 * x[2:4]), 0, 0])
    lifted = ti.lift(program, args=[TensorType(scalar_of(b.array.dtype), b.dims) for b in blocks.values()])
    found = lifted(x, None, None)
    np.testing.assert_array_equal(found[0], expected["y"].array)
    np.testing.assert_array_equal(found[1], expected["z"].array[2:4])


def test_quotients_and_remainders_of_whole_numbers_are_the_lifts() -> None:
    text = "f(x, y) {{ y @ c⟨ Iₕ: [0, 6[ ⟩ ← (⇑(λ(a, b) → {}))(x, y); }}"
    x, y = np.array([7, -7, 9, -9, 0, 5], np.int32), np.array([2, 2, -4, -4, 3, 7], np.int32)
    cases = {"·a / ·b": np.trunc(x / y), "·a % ·b": x % y, "·a // ·b": x // y, "xor_(·a, ·b)": x ^ y}
    for body, expected in cases.items():
        program = ti.iterator.parse(text.format(body))
        blocks = {n: Block(Dims.of(I=(0, 6)), v) for n, v in (("x", x), ("y", y))}
        np.testing.assert_array_equal(interpret(program, blocks)["y"].array, expected)
        lifted = ti.lift(program, args=[TensorType(scalar_of(x.dtype), Dims.of(I=(0, 6)))] * 2)
        np.testing.assert_array_equal(lifted(x, y)[0], expected)


def test_staggered_positions_are_the_lifts() -> None:
    text = "f(x, y) { y @ c⟨ Halfₕ: [0, 5[ ⟩ ← (⇑(λ(a) → ·⟪Halfₕ→Iₕ, 0ₒ⟫(a) - ·⟪Halfₕ→Iₕ, -1ₒ⟫(a)))(x); }"
    program = ti.iterator.parse(text)
    x = Block(Dims.of(I=(-1, 5)), RNG.uniform(0.5, 2, 6))
    y = Block(Dims.of(Half=(0, 5)), np.zeros(5))
    np.testing.assert_array_equal(interpret(program, {"x": x, "y": y})["y"].array, np.diff(x.array))
    (found,) = ti.lift(program, args=[TensorType(scalar_of(b.array.dtype), b.dims) for b in (x, y)])(x.array, None)
    np.testing.assert_array_equal(found, np.diff(x.array))


@pytest.mark.parametrize("element", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_an_offset_of_any_type_of_integers_leads_as_far_as_it_says(element):
    dims = Dims.of(I=(-150, 150))
    near = np.random.default_rng(5).integers(0 if element.startswith("u") else -3, 4, 300)
    by, x = np.where((np.arange(300) < 3) | (np.arange(300) > 296), 0, near).astype(element), np.arange(300.0)
    program = ti.iterator.parse("f(x, by, y) { y @ c⟨ Iₕ: [-150, 150[ ⟩ ← (⇑(λ(a, b) → ·⟪Iₕ→Iₕ, ·b⟫(a)))(x, by); }")
    blocks = {"x": Block(dims, x), "by": Block(dims, by), "y": Block(dims, np.zeros(300))}
    types = [TensorType(scalar_of(b.array.dtype), b.dims) for b in blocks.values()]
    (lifted,) = ti.lift(program, args=types)(x, by, None)
    expected = x[np.arange(300) + by.astype(int)]
    np.testing.assert_array_equal(lifted, expected)
    np.testing.assert_array_equal(interpret(program, blocks)["y"].array, expected)


# The memory in which fields lie

CUBE = np.zeros((4, 6, 8))
LAYOUTS = {
    "rows": (CUBE[1], (0, 1), (6, 8)),
    "columns": (CUBE[2].T, (1, 0), (6, 8)),
    "rows with padding": (CUBE[0][:, :5], (0, 1), (6, 8)),
    "planes with padding, turned": (CUBE.transpose(2, 0, 1)[:7, :, :5], (1, 2, 0), (4, 6, 8)),
    "planes with whole rows": (CUBE[:, :5, :], (0, 1, 2), (4, 6, 8)),
    "rows that begin later": (CUBE[0][:, 1:], (0, 1), (6, 8)),
    "the last rows, of which the last one ends before its padding": (CUBE[3][:, 1:], (0, 1), (6, 7)),
    "memory of others": (np.frombuffer(bytearray(192), "float64").reshape(4, 6)[:, :5], (0, 1), (4, 6)),
    "every second of a row": (CUBE[0][:, ::2], (0, 1), (6, 4)),
    "rows that are no whole number of elements apart": (
        np.ndarray((3, 4), "float64", bytearray(120), 0, (36, 8)), (0, 1), (3, 4),
    ),
    "windows that overlap": (np.lib.stride_tricks.sliding_window_view(np.zeros(9), 4), (1, 0), (4, 6)),
    "no points": (CUBE[0][:0, :5], (0, 1), (0, 5)),
    "one dim": (CUBE[0, 0, :5], (0,), (5,)),
}  # fmt: skip


@pytest.mark.parametrize(("array", "order", "shape"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_an_array_has_the_padding_that_is_in_its_memory(
    array: np.ndarray, order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    from tensorir.iterator.running import Layout, layout_of

    assert layout_of(array) == Layout(order, shape)


# What is said of iterator IR that cannot be lifted

X = TensorType(scalar_of(np.dtype(float)), Dims.of(I=(0, 9)))
TABLE = np.array([[0, 1, 2], [0, 3, -1]], np.int32)
TABLES = {"V2E": Table("V2E", ("Vertex",), "V2E", "Edge", TABLE, (0,), True)}
ON_I = "f(x, y) {{ y @ c⟨ Iₕ: [0, 9[ ⟩ ← {}; }}"


ON_K = "f(x, y) {{ y @ c⟨ Kᵥ: [0, 9[ ⟩ ← {}; }}"
COLUMN = TensorType(X.element, Dims.of(K=(0, 9)))


def refusal(text: str, *args: object, **options: object) -> str:
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
    found = refusal(text := ON_I.format(body)).splitlines()
    assert found[0].endswith(f"error[{code}]: {said}")
    assert found[1] == f"  {text}"
    assert text[found[2].index("^") - 2 :].startswith(part)
    assert found[3] == f"help: {help}"


def test_a_shifted_state_is_refused() -> None:
    text = ON_K.format("(⇑scan(λ(s, a) → ·⟪Kᵥ→Kᵥ, 1ₒ⟫(s) + ·a, True, 0.0))(x)")
    said = "error[TI07]: what a scan or reduction carries is shifted, and it has no neighbours."
    assert refusal(text, COLUMN, COLUMN) == shown(said, text, "⟪Kᵥ→Kᵥ, 1ₒ⟫(s)", "shift the arguments, or the result.")


def test_a_shifted_function_is_refused() -> None:
    text = ON_I.format("(⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(deref)))(x)")
    said = "error[TI04]: what is shifted here is no field."
    assert refusal(text) == shown(said, text, "⟪Iₕ→Iₕ, 1ₒ⟫(deref)", "shift an argument of the stencil.")


def test_a_cast_to_what_is_no_element_type_is_refused() -> None:
    text = ON_I.format("(⇑(λ(a) → cast_(·a, plus)))(x)")
    said = "error[TI02]: there is no element type 'plus' here."
    assert refusal(text) == shown(said, text, "cast_(·a, plus)", "use float64, int32, ...")


def test_a_function_that_calls_itself_is_refused() -> None:
    text = "f(x, y) { g = λ(a) → g(a); y @ c⟨ Iₕ: [0, 9[ ⟩ ← (⇑g)(x); }"
    said = "error[TI03]: 'g' is not known here: a function sees those above it, and not itself."
    assert refusal(text) == shown(said, text, "g", "write what repeats as scan or reduce.", text.index("→"))


def test_a_function_that_is_applied_to_itself_ends() -> None:
    assert refusal(ON_I.format("(⇑(λ(a) → (λ(f) → f(f))(λ(f) → f(f))))(x)")) == (
        "error[TI04]: a function is applied to itself without end.\nhelp: use scan or reduce."
    )


def test_a_slot_that_a_table_lacks_is_named() -> None:
    text = "f(x, y) { y @ u⟨ Vertexₕ: [0, 2[ ⟩ ← (⇑(λ(e) → ·⟪V2Eₒ, 3ₒ⟫(e)))(x); }"
    e, v = (TensorType(X.element, Dims.of(**d)) for d in ({"Edge": (0, 5)}, {"Vertex": (0, 2)}))
    said = "error[TI08]: there is no neighbour 3: 'V2E' has 3."
    assert refusal(text, e, v, offset_provider=TABLES) == shown(said, text, "⟪V2Eₒ, 3ₒ⟫(e)", "use 0 to 2.")


def test_a_size_that_depends_on_data_is_refused() -> None:
    assert refusal("f(x, n, y) { y @ c⟨ Iₕ: [0, n[ ⟩ ← x; }", X, X, X) == (
        "error[TI06]: the sizes of a program cannot depend on what a field holds.\nhelp: pass the number as a scalar."
    )


def test_a_dim_that_an_output_lacks_is_named() -> None:
    text = "f(x, y) { y @ c⟨ Jₕ: [0, 9[ ⟩ ← x; }"
    found = refusal(text).splitlines()
    assert found[:2] == ["p.itir:1:11: error[TI10]: 'y' of 'f' has no dim J, along which is stored.", f"  {text}"]


def test_what_is_no_place_is_shown() -> None:
    text = "f(x, y) { x + y @ c⟨ Iₕ: [0, 9[ ⟩ ← x; }"
    assert refusal(text) == shown("error[TI04]: this is no place to store to.", text, "x + y", "")


def test_a_type_that_is_not_given_is_named() -> None:
    assert refusal(ON_I.format("x"), X) == (
        "error[TI11]: the type of 'y' is not given.\n"
        "help: pass args=(...), a tensor type, a field or a number for each parameter."
    )


def test_what_is_no_offset_is_named() -> None:
    assert refusal(ON_I.format("x"), X, X, offset_provider={"V2E": 3}) == (
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
