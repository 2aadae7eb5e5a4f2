"""The lift beside the point-wise interpreter, and the interpreter beside NumPy."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.types import Dims, TensorType, scalar_of
from tensorir.iterator.interpret import Block, interpret
from tensorir.iterator.lift.graph import Table

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
