"""Verdicts on programs: the level, what it rests on, and a small counterexample."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.equality.verdict import Level
from tensorir.runtime.errors import DiagnosticError

STENCIL = """
@T.prim_func
def main(A: T.Buffer((10, 12), "float32"), B: T.Buffer((8, 10), "float32")):
    for i, j in T.grid(8, 10):
        B[i, j] = A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2] - T.float32(4) * A[i + 1, j + 1]
"""


def test_a_kernel_and_its_schedule_are_equal_by_their_text():
    scheduled = STENCIL.replace("for i, j in T.grid(8, 10):", "for a, b in T.grid(4, 20):").replace(
        "        B[i, j]",
        "        i: T.let[T.int32] = (a * 20 + b) // 10\n"
        "        j: T.let[T.int32] = (a * 20 + b) % 10\n"
        "        B[i, j]",
    )
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(scheduled)["main"])
    assert found and found.level == Level.BITS and str(found) == "equal in every bit"


LAPLACIAN = """
lap(out: tensor<float32, I[0:8], J[0:10]>, x: tensor<float32, I[-1:9], J[-1:11]>) {
  out ← ⟪I, -1⟫(x) + ⟪I, 1⟫(x) + ⟪J, -1⟫(x) + ⟪J, 1⟫(x) - 4.0f × x;
}
"""


def test_a_kernel_and_a_field_operator_on_another_interval_are_proven_equal():
    assert ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.parse(LAPLACIAN)).level == Level.BITS


def test_sums_in_another_order_agree():
    other = LAPLACIAN.replace("⟪I, -1⟫(x) + ⟪I, 1⟫(x) + ⟪J, -1⟫(x)", "⟪J, -1⟫(x) + ⟪I, -1⟫(x) + ⟪I, 1⟫(x)")
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.parse(other))
    assert found and found.level == Level.REALS and str(found) == "equal over the reals"


def test_a_stencil_one_point_further_is_another():
    other = LAPLACIAN.replace("⟪I, -1⟫(x) + ", "x + ")
    assert not ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.parse(other))


def test_a_difference_comes_with_a_small_counterexample():
    other = STENCIL.replace("A[i + 2, j + 1]", "A[i, j + 1]")
    found = ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(other)["main"])
    assert not found and found.counterexample is not None
    (array,) = found.counterexample.values()
    assert "different: B[" in str(found) and np.count_nonzero(array) < array.size


def test_programs_of_other_arrays_are_not_compared():
    other = STENCIL.replace("(8, 10)", "(7, 10)")
    with pytest.raises(DiagnosticError, match="different outputs"):
        ti.equivalent(ti.tir.parse(STENCIL)["main"], ti.tir.parse(other.replace("T.grid(8", "T.grid(7"))["main"])


SCALED = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] * T.float32(2)
"""


def lifted(text: str) -> object:
    return ti.tir.parse(text)["main"]


def test_programs_with_symbolic_sizes_are_proven_for_all_or_compared_at_several():
    doubled = SCALED.replace("A[i] * T.float32(2)", "A[i] + A[i]")
    found = ti.equivalent(lifted(SCALED), lifted(doubled))
    assert str(found) == "equal over the reals" and found and not found.sizes
    squares = [SCALED.replace("T.float32(2)", f"T.float32({v})") for v in ("n * n", "n * n * n // T.max(n, 1)")]
    found = ti.equivalent(*map(lifted, squares))
    assert str(found) == "equal in every bit at n = 0, 1, 2, 3, 4, 5, 8, 17"
    assert not found, "other sizes were not tried"


def test_a_difference_comes_with_the_smallest_sizes():
    other = SCALED.replace("A[i] * T.float32(2)", "T.if_then_else(i == 3, A[i], A[i] * T.float32(2))")
    found = ti.equivalent(lifted(SCALED), lifted(other))
    assert not found and found.sizes == ({"n": 4},)
    assert found.counterexample is not None and found.counterexample["A"].tolist() == [0, 0, 0, 1]
    assert str(found) == "different at n = 4: B[3] is 2.0 and 1.0."


def test_a_symbolic_program_is_compared_with_a_fencil_of_sizes_and_with_a_concrete_one():
    fencil = ti.parse("double(y: tensor<float32, K[0:m]>, x: tensor<float32, K[0:m]>) { y ← x + x; }")
    assert str(ti.equivalent(lifted(SCALED), fencil)) == "equal over the reals"
    fixed = SCALED.replace("n = T.int32()", "n = 6").replace("(n,)", "(6,)").replace("    n = 6\n", "")
    found = ti.equivalent(lifted(SCALED), lifted(fixed.replace("range(n)", "range(6)")))
    assert str(found) == "equal in every bit at n = 6"


def test_integers_are_compared_exactly_and_at_their_extremes():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = {}
"""
    found = ti.equivalent(lifted(text.format("A[i]")), lifted(text.format("T.max(A[i], -2147483647)")))
    assert not found and found.counterexample is not None
    assert found.counterexample["A"].min() == -(2**31)


def test_numbers_that_are_none_tell_programs_apart():
    f = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x - x; }")
    g = ti.parse("g(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x × 0.0 + 0.0; }")
    h = ti.parse("h(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← 0.0; }")
    for other in (g, h):
        assert ti.equivalent(f, other).level == Level.REALS
    assert not ti.equivalent(f, g).edges
    assert ti.equivalent(f, h).edges == "with infinities and NaN among the inputs y[1] is nan and 0.0"


def test_programs_on_shifted_intervals_are_compared_by_their_extents():
    f = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[-1:4]>) { y ← ⟪I, -1⟫(x) + x; }")
    g = ti.parse("g(y: tensor<float, I[7:11]>, x: tensor<float, I[7:12]>) { y ← ⟪I, 1⟫(x) + x; }")
    assert ti.equivalent(f, g)


def test_relax_and_tir_are_compared():
    relax = ti.tir.parse("""
@R.function
def main(x: R.Tensor((3, 4), dtype="float32"), y: R.Tensor((4, 5), dtype="float32")):
    with R.dataflow():
        z = R.nn.relu(R.matmul(x, y))
        R.output(z)
    return z
""")["main"]
    tir = lifted("""
@T.prim_func
def main(x: T.Buffer((3, 4), "float32"), y: T.Buffer((4, 5), "float32"), z: T.Buffer((3, 5), "float32")):
    for i, j in T.grid(3, 5):
        z[i, j] = T.float32(0)
        for k in range(4):
            z[i, j] = z[i, j] + x[i, k] * y[k, j]
        z[i, j] = T.max(z[i, j], T.float32(0))
""")
    assert ti.equivalent(relax, tir)


def test_shifts_of_deep_expressions_are_compared():
    sums = " + ".join(["x"] * 4000)
    shifted = ti.parse(f"f(out: tensor<float32, I[0:5]>, x: tensor<float32, I[0:6]>) {{ out ← ⟪I, 1⟫({sums}); }}")
    each = " + ".join(["⟪I, 1⟫(x)"] * 4000)
    other = ti.parse(f"f(out: tensor<float32, I[0:5]>, x: tensor<float32, I[0:6]>) {{ out ← {each}; }}")
    assert ti.equivalent(shifted, other).level == Level.BITS


EACH = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = {}
"""


def each(value: str) -> object:
    return lifted(EACH.format(value))


@pytest.mark.parametrize("value", ['A[i] + T.float32("{}")', 'T.min(A[i], T.float32("{}"))'])
def test_infinity_is_not_a_name_for_what_is_no_number(value: str):
    assert not ti.equivalent(each(value.format("inf")), each(value.format("nan")))


@pytest.mark.parametrize("size", ["4", "n"])
def test_infinity_of_the_notation_is_no_name_either(size: str):
    text = "f(y: tensor<float32, I[0:{}]>, x: tensor<float32, I[0:{}]>) {{ y ← x + float32({}); }}"
    assert not ti.equivalent(ti.parse(text.format(size, size, "inf")), ti.parse(text.format(size, size, "nan")))


@pytest.mark.parametrize("size", ["4", "n"])
def test_rules_for_indices_are_no_names(size: str):
    text = """
f(y: tensor<float, J[0:{0}]>, x: tensor<float, I[0:{0}]>, j: tensor<int, J[0:{0}]>) {{
  y ← gather(I, {1})(x, j);
}}"""
    assert not ti.equivalent(ti.parse(text.format(size, "clamp")), ti.parse(text.format(size, "zero")))
    text = """
f(y: tensor<float, I[0:{0}]>, x: tensor<float, I[0:{0}]>, j: tensor<int, J[0:{0}]>, u: tensor<float, J[0:{0}]>) {{
  y ← scatter(+, I, over: (J), {1})(x, j, u);
}}"""
    assert not ti.equivalent(ti.parse(text.format(size, "clamp")), ti.parse(text.format(size, "zero")))


def test_symbolic_programs_of_one_text_are_proven_equal_under_other_names():
    f = ti.parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { let z = x + 1.0; y ← z × z; }")
    g = ti.parse("g(b: tensor<float, K[0:m]>, a: tensor<float, K[0:m]>) { let c = a + 1.0; b ← c × c; }")
    assert ti.equivalent(f, g).level == Level.BITS


def test_functions_are_equal_under_other_names_of_their_parameters():
    text = """
f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) {{
  y ← scan(λ({0}: tensor<float>, {1}: tensor<float>) → {0} × 0.5 {2} {1}, true, 0.0)(x);
}}"""
    f = ti.parse(text.format("s", "e", "+"))
    assert ti.equivalent(f, ti.parse(text.format("e", "s", "+"))).level == Level.BITS
    assert not ti.equivalent(f, ti.parse(text.format("e", "s", "-")))


def test_the_sign_of_a_zero_is_no_part_of_a_proof_without_it():
    text = "f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) {{ y ← 1.0 / ({}); }}"
    found = ti.equivalent(ti.parse(text.format("x + 0.0")), ti.parse(text.format("x")))
    assert found and found.level == Level.BITS_BUT_ZERO_AND_NAN
    assert str(found) == "equal in every bit but for the sign of zeros and NaN"
    assert ti.equivalent(ti.parse(text.format("x - 0.0")), ti.parse(text.format("x"))).level == Level.BITS


SUM = """
@T.prim_func
def main(A: T.Buffer((8,), "{0}"), B: T.Buffer((1,), "{0}")):
    B[0] = T.{0}(0)
    for {1}:
        B[0] = B[0] + A[{2}]
"""


def test_sums_of_floats_in_another_order_are_not_proven_equal():
    serial = lifted(SUM.format("float32", "i in range(8)", "i"))
    found = ti.equivalent(serial, lifted(SUM.format("float32", "i, j in T.grid(2, 4)", "j * 2 + i")))
    assert found and found.level == Level.REALS
    assert ti.equivalent(serial, lifted(SUM.format("float32", "i, j in T.grid(2, 4)", "i * 4 + j"))).level == Level.BITS


def test_sums_of_whole_numbers_are_proven_equal_in_every_order():
    serial = lifted(SUM.format("int32", "i in range(8)", "i"))
    assert ti.equivalent(serial, lifted(SUM.format("int32", "i, j in T.grid(2, 4)", "j * 2 + i"))).level == Level.BITS


def test_what_comparisons_do_with_nan_is_no_part_of_a_proof_without_it():
    found = ti.equivalent(each("T.max(A[i], T.float32(2))"), each("T.max(T.float32(2), A[i])"))
    assert found and found.level < Level.BITS


def test_forms_at_sizes_are_no_proof_for_others():
    other = SCALED.replace("A[i] * T.float32(2)", "T.if_then_else(n * n == 36, A[i], A[i] * T.float32(2))")
    found = ti.equivalent(lifted(SCALED), lifted(other))
    assert not found and found.level == Level.BITS
    assert str(found) == "equal in every bit at n = 0, 1, 2, 3, 4, 5, 8, 17, 35, 36, 37"


def test_programs_that_differ_on_empty_arrays_alone_differ():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (1,), "float32")
    B[0] = {}
    for i in range(n):
        B[0] = B[0] + A[i]
"""
    found = ti.equivalent(
        lifted(text.format("T.float32(0)")), lifted(text.format("T.if_then_else(n == 0, T.float32(1), T.float32(0))"))
    )
    assert str(found) == "different at n = 0: B[0] is 0.0 and 1.0."


ASSERTING = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        {}
        B[i] = A[i]
"""


def test_a_program_that_asserts_is_another_than_one_that_does_not():
    asserting = lifted(ASSERTING.format('assert A[i] > T.float32(0), "positive"'))
    found = ti.equivalent(asserting, lifted(ASSERTING.format("pass")))
    assert not found and "only one of them refuses these inputs" in str(found)
    assert found.counterexample is not None and not found.counterexample["A"].any()
    assert (
        ti.equivalent(asserting, lifted(ASSERTING.format('assert A[i] > T.float32(0), "other words"'))).level
        == Level.BITS
    )


def test_inputs_that_both_refuse_are_not_counted():
    asserting = lifted(ASSERTING.format('assert A[i] > T.float32(0), "positive"'))
    found = ti.equivalent(asserting, lifted(ASSERTING.format('assert A[i] * T.float32(2) > T.float32(0), "positive"')))
    assert found.agree and 0 < found.points <= 48
    never = [lifted(ASSERTING.format(f'assert A[i] * A[i] < T.float32({n}), "never"')) for n in (-1, -2)]
    found = ti.equivalent(*never)
    assert not found and found.counterexample is None
    assert found.level == Level.UNKNOWN and not found.agree
    assert str(found) == "not known: both programs refuse every generated input."


def test_a_buffer_is_not_taken_for_a_result():
    text = """
f(x: tensor<float, I[0:4]>, {0}: tensor<float, I[0:4]>, {1}: tensor<float, I[0:4]>) {{ {0} ← x + 1.0; {1} ← x × 2.0; }}
"""
    f = replace(ti.parse(text.format("y", "t")), buffers=frozenset("t"))
    g = replace(ti.parse(text.format("t", "y")), buffers=frozenset("t"))
    assert not ti.equivalent(f, g)


def test_a_symbolic_output_that_is_empty_is_no_input():
    relax = ti.tir.parse("""
@R.function
def main(x: R.Tensor(("n",), dtype="float32")):
    return R.add(x, x)
""")["main"]
    found = ti.equivalent(relax, lifted(SCALED.replace("A[i] * T.float32(2)", "A[i] + A[i]")))
    assert found.agree and {"n": 0} in found.sizes


def test_a_field_operator_is_compared_for_given_data():
    @ti.field_operator
    def doubled(x):
        return x + x

    with pytest.raises(DiagnosticError, match=r"op\.fencil\(data\)"):
        ti.equivalent(doubled, doubled)


def test_an_output_that_one_program_leaves_partly_as_it_is_is_named():
    with pytest.raises(DiagnosticError) as caught:
        ti.equivalent(each("A[i]"), lifted(EACH.replace("range(4)", "range(3)").format("A[i]")))
    assert "the second program reads 'B' or leaves a part of it as it is" in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "sizes"),
    [("n == 6", {"n": 6}), ("n % 24 == 23", {"n": 23}), ("i == 40", {"n": 41}), ("T.min(n, 100) > 99", {"n": 100})],
)
def test_sizes_that_a_program_asks_for_are_tried(condition, sizes):
    other = SCALED.replace("A[i] * T.float32(2)", f"T.if_then_else({condition}, A[i], A[i] * T.float32(2))")
    for one, two in ((SCALED, other), (other, SCALED)):
        found = ti.equivalent(lifted(one), lifted(two))
        assert not found and found.sizes == (sizes,)


def test_a_size_that_is_asked_for_alone_is_tried_beside_small_ones():
    rows = SCALED.replace("n = T.int32()", "n = T.int32()\n    m = T.int32()").replace("(n,)", "(n, m)")
    rows = rows.replace("for i in range(n)", "for i, j in T.grid(n, m)").replace("[i]", "[i, j]")
    other = rows.replace("A[i, j] * T", "T.if_then_else(m == 9 and n < 3, A[i, j], A[i, j] * T.float32(1)) * T")
    assert ti.equivalent(lifted(rows), lifted(other.replace("A[i, j], A", "T.float32(0), A"))).sizes == (
        {"n": 1, "m": 9},
    )


def test_numbers_in_the_text_of_a_program_are_sizes_too():
    same = "f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x; }"
    other = same.replace("← x", "← if pos(I, x) = 30 then 0.0 else x")
    assert ti.equivalent(ti.parse(same), ti.parse(other)).sizes == ({"n": 31},)


def test_gradients_of_wide_programs_are_compared_in_their_own_element_type():
    square = ti.compile(ti.parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← x × x; }"))

    def derived(x):
        value, back = jax.vjp(lambda x: square(x=x)["y"], x)
        return back(value)[0]

    found = ti.equivalent(derived, lambda x: 2.0 * x * x * x, args=(np.zeros(3),))
    assert found.level == Level.SAMPLED and found.agree
    found = ti.equivalent(derived, lambda x: (2.0 + 1e-9) * x * x * x, args=(np.zeros(3),))
    assert found.level == Level.DIFFERENT


DOUBLED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * T.float32({0})
"""


def test_programs_of_all_kinds_are_compared_with_functions_of_arrays():
    fencil = ti.parse("f(y: tensor<float32, I[0:8]>, x: tensor<float32, I[0:8]>) { y ← x + x; }")
    kernel, other = (ti.tir.parse(DOUBLED.format(k))["main"] for k in (2, 3))
    x = (np.ones(8, np.float32),)
    for program in (kernel, ti.lift(kernel), fencil):
        assert ti.equivalent(program, lambda a: a + a, args=x).level == Level.SAMPLED
        assert ti.equivalent(lambda a: a + a, program, args=x).level == Level.SAMPLED
    assert ti.equivalent(other, lambda a: a + a, args=x).level == Level.DIFFERENT
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.equivalent(fencil, lambda a, b: a + b, args=x * 2)
    assert str(caught.value) == (
        "error[TL04]: args has 2 arrays, and a program has 1 inputs: x.\nhelp: pass one array for each input, in order."
    )
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.equivalent(kernel, lambda a: a + a)
    assert str(caught.value) == (
        "error[TA01]: a function of Python has no text that is compared.\n"
        "help: give args=(x,), an array like each that both programs take."
    )


INTEGERS = "f(y: tensor<{0}, I[0:4]>, x: tensor<int, I[0:4]>, z: tensor<int, I[0:4]>) {{ y ← {1}; }}"


@pytest.mark.parametrize(
    ("element", "one", "other", "level"),
    [
        ("uint32", "bitcast(x + 1, uint32)", "bitcast(x, uint32) + cast(1, uint32)", Level.BITS),
        ("uint32", "bitcast(x + 1, uint32)", "bitcast(x + 2, uint32)", Level.DIFFERENT),
        ("uint32", "bitcast(max(x, z), uint32)", "max(bitcast(x, uint32), bitcast(z, uint32))", Level.DIFFERENT),
        ("int8", "cast(x × 257, int8)", "cast(x, int8)", Level.BITS),
        ("int8", "cast(max(x, z), int8)", "max(cast(x, int8), cast(z, int8))", Level.DIFFERENT),
        ("int64", "cast(x + 1, int64)", "cast(x, int64) + cast(1, int64)", Level.DIFFERENT),
        ("float", "cast(bitcast(x, uint32), float)", "cast(x, float)", Level.DIFFERENT),
        ("float", "2.0 × cast(x, float)", "cast(x, float) + cast(x, float)", Level.REALS),
    ],
)
def test_integers_become_others_by_their_bits(element: str, one: str, other: str, level: Level):
    programs = (ti.parse(INTEGERS.format(element, text)) for text in (one, other))
    assert ti.equivalent(*programs).level == level


ROWS = "f(y: tensor<float, {0}>, x: tensor<float, {0}>) {{ y ← {1}; }}"
SOFTMAX = "exp(x {}) / reduce(+, 0.0, J)(exp(x {}))"


def test_one_row_stands_for_all_where_rows_are_apart():
    """More elements than formulas are made of."""
    one, other = (ti.parse(ROWS.format("I[0:9000], J[0:8]", SOFTMAX.format(a, a))) for a in ("", "- 2.0"))
    assert ti.equivalent(one, other).level == Level.REALS


BLOCKS = """f(
  y: tensor<float, I[0:12]>, x: tensor<float, I[0:12]>, s: tensor<float, B[0:4]>, r: tensor<float, R[0:3]>
) {{ y ← {}; }}"""
IN_BLOCKS = {
    "2.0 × x": 0, "merge_dims(b, k, I)(2.0 × split_dim(I, b, k, 3)(x))": 0,
    "merge_dims(b, k, I)(2.0 × split_dim(I, b, k, 4)(x))": 0,
    "merge_dims(b, k, I)(rename(B → b)(s) × split_dim(I, b, k, 3)(x))": 1,
    "merge_dims(c, l, I)(split_dim(I, c, l, 3)(x) × rename(B → c)(s))": 1,
    "merge_dims(b, k, I)(rename(B → k)(s) × split_dim(I, b, k, 4)(x))": 2,
    "merge_dims(b, k, I)(rename(R → k)(r) × split_dim(I, b, k, 3)(x))": 3,
    "merge_dims(b, k, I)(rename(R → b)(r) × split_dim(I, b, k, 4)(x))": 4,
    "merge_dims(k, b, I)(split_dim(I, b, k, 3)(2.0 × x))": 5,
    "merge_dims(b, k, I)(reduce(+, 0.0, q)(rename(k → q)(split_dim(I, b, k, 3)(x))) + split_dim(I, b, k, 3)(x))": 6,
}  # fmt: skip
"""Programs over blocks of a dim, and which of them are one: blocks of other sizes have other digits."""


@pytest.mark.parametrize(("one", "other"), [*itertools.pairwise(IN_BLOCKS)])
def test_one_point_of_one_block_stands_for_all_where_points_are_apart(one: str, other: str):
    found = ti.equivalent(*(ti.parse(BLOCKS.format(text)) for text in (one, other)))
    assert found.level == (Level.BITS if IN_BLOCKS[one] == IN_BLOCKS[other] else Level.DIFFERENT)


@pytest.mark.nightly
def test_attention_by_blocks_is_compared_on_one_row():
    """Rows in blocks of two, keys in tiles of two that are rescaled; a row of each block alone has formulas."""
    kernel = ti.tir.parse("""
@T.prim_func
def main(Q: T.Buffer((512, 2), "float32"), K: T.Buffer((4, 2), "float32"), O: T.Buffer((512, 2), "float32")):
    for b in T.thread_binding(256, "blockIdx.x"):
        s = T.alloc_buffer((2, 2), "float32")
        m = T.alloc_buffer((2,), "float32")
        n = T.alloc_buffer((2,), "float32")
        l = T.alloc_buffer((2,), "float32")
        o = T.alloc_buffer((2, 2), "float32")
        for i in range(2):
            m[i] = T.float32("-inf")
            l[i] = T.float32(0)
            for d in range(2):
                o[i, d] = T.float32(0)
        for t in range(2):
            for i, j in T.grid(2, 2):
                s[i, j] = Q[b * 2 + i, 0] * K[t * 2 + j, 0] + Q[b * 2 + i, 1] * K[t * 2 + j, 1]
            for i in range(2):
                n[i] = m[i]
                for j in range(2):
                    m[i] = T.max(m[i], s[i, j])
                l[i] = l[i] * T.exp(n[i] - m[i])
                for j in range(2):
                    l[i] = l[i] + T.exp(s[i, j] - m[i])
            for i, d in T.grid(2, 2):
                o[i, d] = o[i, d] * T.exp(n[i] - m[i])
                for j in range(2):
                    o[i, d] = o[i, d] + T.exp(s[i, j] - m[i]) * K[t * 2 + j, d]
        for i, d in T.grid(2, 2):
            O[b * 2 + i, d] = o[i, d] / l[i]
""")["main"]
    formula = ti.parse("""f(Q: tensor<float32, i[0:512], d[0:2]>, K: tensor<float32, j[0:4], d[0:2]>,
                            O: tensor<float32, i[0:512], d[0:2]>) {
      O ← let p = exp(contract(float32, d)(Q, K)); contract(float32, j)(p, K) / reduce(+, 0.0f, j)(p); }""")
    assert ti.equivalent(kernel, formula).level == Level.REALS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x + cast(pos(I, add_dim(I, 0, 5, false)), float)", "x"),
        ("x", "rename(I → J, J → I)(x)"),
        ("update(x, subset(x, I[1:5]) + 1.0)", "x"),
        ("x", "concat(subset(x, I[0:1]), subset(x, I[1:5]) + 1.0)"),
        ("x", "gather(I, clamp)(x, add_dim(I, 0, 5, add_dim(J, 0, 5, 0)))"),
        ("x", "scan(+, true, 0.0, I)(x)"),
    ],
)
def test_no_point_stands_for_all_where_points_differ(one: str, other: str):
    programs = (ti.parse(ROWS.format("I[0:5], J[0:5]", text)) for text in (one, other))
    assert ti.equivalent(*programs).level == Level.DIFFERENT


POINTS = "f(y: tensor<float32, I[0:{0}]>, x: tensor<float32, I[0:{0}]>) {{ y ← {1}; }}"


def test_a_fault_in_one_of_many_elements_is_found():
    n = 1 << 16
    other = POINTS.format(n, "if pos(I, x) = 44444 then x × 2.001f else x × 2.0f")
    found = ti.equivalent(ti.parse(POINTS.format(n, "x × 2.0f")), ti.parse(other))
    assert found.level == Level.DIFFERENT and found.difference.startswith("y[44444] is ")


def test_the_number_of_elements_loosens_nothing():
    n = 1 << 16
    assert (
        ti.equivalent(ti.parse(POINTS.format(n, "x")), ti.parse(POINTS.format(n, "tanh(x)"))).level == Level.DIFFERENT
    )
    assert (
        ti.equivalent(ti.parse(POINTS.format(4, "x × 0.0000001f")), ti.parse(POINTS.format(4, "x × 0.0000009f"))).level
        == Level.DIFFERENT
    )


def test_a_program_that_was_lifted_fast_has_no_bits_to_prove():
    kernel = each("A[i] * A[i] + A[i] * T.float32(0.1)")
    assert ti.equivalent(ti.lift(kernel), kernel).level == Level.REALS
    assert ti.equivalent(ti.lift(kernel, numerics="exact"), kernel).level == Level.BITS


def test_constants_that_are_rounded_otherwise_are_within_rounding_and_not_equal():
    one, other = "x × 0.33333334f", "x - x × 0.6666667f"
    found = ti.equivalent(ti.parse(POINTS.format(6, one)), ti.parse(POINTS.format(6, other)))
    assert found.level == Level.WITHIN and not found and found.agree and 0 < found.ulps < 4
    assert "over the reals they differ" in str(found)


@pytest.mark.parametrize(
    ("element", "one", "other"),
    [
        ("int32", "x", "cast(cast(x, float32), int32)"),
        ("uint32", "x", "cast(cast(x, float32), uint32)"),
        ("int16", "x", "cast(cast(x, float16), int16)"),
        ("int16", "x", "cast(cast(x, bfloat16), int16)"),
        ("int64", "x", "cast(cast(x, float64), int64)"),
        ("int32", "x / 2", "shift_right(x, 1)"),
        ("float64", "floor(x + 0.5)", "round(x)"),
        ("float32", "floor(x + 0.5f)", "round(x)"),
        ("float32", "ceil(x - 0.5f)", "round(x)"),
        ("float64", "x ** z × x ** z", "x ** (2.0 × z)"),
        ("float32", "(x ** z) ** 2.0f", "x ** (2.0f × z)"),
    ],
)
def test_what_differs_at_halves_between_the_ends_and_below_zero_is_told_apart(element, one, other):
    kind = f"tensor<{element}, I[0:8]>"
    programs = [
        ti.parse(f"f(y: {kind}, x: {kind}, z: {kind}) {{ y ← if z = z then {e} else x; }}") for e in (one, other)
    ]
    found = ti.equivalent(*programs)
    assert found.level == Level.DIFFERENT
    assert not np.array_equal(*(p(**found.counterexample)["y"] for p in programs))


def test_integers_that_pass_through_floats_wide_enough_agree():
    x = "f(y: tensor<int16, I[0:8]>, x: tensor<int16, I[0:8]>) {{ y ← {}; }}"
    found = ti.equivalent(*(ti.parse(x.format(body)) for body in ("x", "cast(cast(x, float32), int16)")))
    assert found.agree and found.ulps is None


def test_functions_of_integers_are_compared_between_the_ends_of_the_type():
    found = ti.equivalent(lambda x: x, lambda x: x.astype(np.float32).astype(np.int16), args=[np.zeros(8, np.int16)])
    assert found.level == Level.SAMPLED
    found = ti.equivalent(lambda x: x, lambda x: x.astype(np.float16).astype(np.int16), args=[np.zeros(8, np.int16)])
    assert found.level == Level.DIFFERENT


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            [0.5],
            "error[TL04]: args[0] is of type float, which has no shape and no element type.\n"
            "help: pass an array, or a number with a type: np.float32(0.5).",
        ),
        (0.5, "error[TL04]: args is of type float, and has an array for each argument.\nhelp: args=(x,)."),
        (np.zeros(3), "error[TL04]: args is of type ndarray, and has an array for each argument.\nhelp: args=(x,)."),
    ],
)
def test_functions_are_compared_on_arrays_alone(args, said):
    with pytest.raises(DiagnosticError) as caught:
        ti.equivalent(lambda x: x, lambda x: x + 0, args=args)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("one", "other", "rounded"),
    [
        ("x × 2.0f", "cast(cast(x × 2.0f, float16), float32)", ("float16",)),
        ("cast(cast(x, float16), float32) + 1.0f", "cast(cast(x, bfloat16), float32) + 1.0f", ("bfloat16", "float16")),
        ("x × 2.0f", "cast(cast(x, float64) × 2.0, float32)", ()),
    ],
)
def test_values_that_are_rounded_to_fewer_bits_on_the_way_are_told(one, other, rounded):
    found = ti.equivalent(*(ti.parse(POINTS.format(4, body)) for body in (one, other)), special=False)
    assert found.level == Level.REALS and found.rounded == rounded and found.ulps is None
    way = f", but rounded to {' and '.join(rounded)} on the way" if rounded else ""
    assert str(found) == f"equal over the reals{way}"


@pytest.mark.parametrize("name", ["s", "a", "k", "x"])
def test_parameters_may_have_the_names_of_definitions(name):
    text = f"""f(y: tensor<int, I[0:2]>, {name}: tensor<float, K[0:4], I[0:2]>) {{{{
      y ← argreduce(K, true, "old", false)(-inf, {{}}, {name}, pos(K, {name}))[1]; }}}}"""
    one, other = (ti.parse(text.format(first)) for first in (-1, 0))
    assert ti.equivalent(one, one).level == Level.BITS
    assert ti.equivalent(one, other).agree


def test_branches_that_no_input_visits_are_named():
    one, other = (ti.parse(POINTS.format(4, f"if exp(x) < x then x else {e}")) for e in ("abs(x)", "sqrt(x × x)"))
    found = ti.equivalent(one, other)
    assert found.level == Level.REALS_PROBABLY and found.branches == (2, 4)
    column = POINTS.format(4, "if exp").index("exp") + 1
    assert found.unvisited == (f"exp(x) < x at <text>:1:{column} was never true",) * 2


def test_overflow_is_told_and_is_no_difference_over_the_reals():
    one, other = "log(exp(x) + 1.0f)", "max(x, 0.0f) + log1p(exp(-abs(x)))"
    found = ti.equivalent(ti.parse(POINTS.format(8, one)), ti.parse(POINTS.format(8, other)))
    assert found.level == Level.REALS_PROBABLY and "is inf and" in found.edges


def test_parameters_are_matched_by_the_names_that_both_have():
    text = "f({}) {{ y ← a - b; }}"
    y, a, b = (f"{n}: tensor<float32, I[0:4]>" for n in "yab")
    f, g = ti.parse(text.format(f"{y}, {a}, {b}")), ti.parse(text.format(f"{b}, {y}, {a}"))
    assert ti.equivalent(f, g).level == Level.BITS
    h = ti.parse(f"f({y}, u: tensor<float32, I[0:4]>, v: tensor<float32, I[0:4]>) {{ y ← v - u; }}")
    assert ti.equivalent(f, h).level == Level.DIFFERENT, "in their order"
    assert ti.equivalent(f, h, match={"a": "v", "b": "u"}).level == Level.BITS


def test_a_name_to_match_that_is_not_there_is_refused():
    f = ti.parse(POINTS.format(4, "x"))
    with pytest.raises(DiagnosticError) as caught:
        ti.equivalent(f, f, match={"x": "z"})
    assert str(caught.value) == (
        "error[TL04]: the second program has no parameter 'z' to match.\nhelp: its parameters are x, y."
    )


def test_infinity_stands_for_masks_of_large_numbers():
    text = (
        "f(y: tensor<float32, I[0:3]>, x: tensor<float32, I[0:3], J[0:4]>) {{ y ← reduce(+, 0.0f, J)("
        "exp(if pos(J, x) < 3 then x else {})); }}"
    )
    assert ti.equivalent(ti.parse(text.format("float32(-inf)")), ti.parse(text.format("-3.0e38f"))).agree


GATHERED = """
f(y: tensor<float32, J[0:6]>, x: tensor<float32, I[0:9]>, j: tensor<int, J[0:6]>) {{ y ← gather(I, {0})(x, j); }}"""


def test_what_is_assumed_of_inputs_and_sizes_holds_where_programs_are_compared():
    clamped, zeroed = (ti.parse(GATHERED.format(mode)) for mode in ("clamp", "zero"))
    assert ti.equivalent(clamped, zeroed).level == Level.DIFFERENT
    assert ti.equivalent(clamped, zeroed, assume=["0 ≤ j < 9"]).level == Level.REALS_PROBABLY
    root, square = ti.parse(POINTS.format(6, "sqrt(x × x)")), ti.parse(POINTS.format(6, "x"))
    assert ti.equivalent(root, square).level == Level.DIFFERENT
    assert ti.equivalent(root, square, assume=["x > 0"]).level == Level.REALS_PROBABLY
    other = SCALED.replace("A[i] *", "T.if_then_else(i < n // 4 * 4, A[i], A[0]) *")
    assert ti.equivalent(lifted(SCALED), lifted(other)).level == Level.DIFFERENT
    found = ti.equivalent(lifted(SCALED), lifted(other), assume=["n % 4 = 0"])
    assert found.level == Level.BITS and not found.sizes, "of all sizes that are as assumed"


@pytest.mark.parametrize(
    ("assumed", "told"),
    [
        ("j is small", "error[TL05]: 'j is small' is no assumption.\nhelp: write 0 ≤ idx < n, x > 0, or n % 32 = 0."),
        (
            "k < 3",
            "error[TL05]: 'k' is assumed something of, and is no input of the first program and no size.\n"
            "help: its inputs and sizes are j, x.",
        ),
    ],
)
def test_an_assumption_that_is_none_is_refused(assumed, told):
    f, g = (ti.parse(GATHERED.format(mode)) for mode in ("clamp", "zero"))
    with pytest.raises(DiagnosticError) as caught:
        ti.equivalent(f, g, assume=[assumed])
    assert str(caught.value) == told


def test_a_seed_that_is_none_is_refused():
    f, g = (ti.parse(GATHERED.format(mode)) for mode in ("clamp", "zero"))
    with pytest.raises(DiagnosticError, match=r"B14.*the seed is -3"):
        ti.equivalent(f, g, seed=-3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqrt(x) × sqrt(x)", "x"), ("x × x / x", "x"), ("rsqrt(x) × rsqrt(x)", "1.0f / x"),
        ("log(x) - log(x)", "0.0f × x"),
    ],
)  # fmt: skip
def test_what_is_not_defined_everywhere_is_told_from_what_is(one: str, other: str):
    found = ti.equivalent(ti.parse(POINTS.format(8, one)), ti.parse(POINTS.format(8, other)))
    assert found.level == Level.DIFFERENT


def test_a_quotient_of_what_is_positive_is_defined_everywhere():
    assert ti.equivalent(ti.parse(POINTS.format(8, "exp(x) / exp(x)")), ti.parse(POINTS.format(8, "1.0f + 0.0f × x")))


def test_the_expressions_that_gave_an_element_that_differs_are_named():
    one = POINTS.format(6, "if pos(I, x) < 4 then x else (if x > 0.0f then 2.0f × x else -x)")
    found = ti.equivalent(ti.parse(one), ti.parse(one.replace("2.0f × x", "3.0f × x")))
    column = one.index("2.0f × x") + 1
    assert found.places == (f"'2.0f × x' at <text>:1:{column}", f"'3.0f × x' at <text>:1:{column}")
    other = "concat(subset(x, I[0:2]), update(subset(2.0f × x, I[2:6]), subset(-x, I[3:4])))"
    found = ti.equivalent(ti.parse(POINTS.format(6, "x")), ti.parse(POINTS.format(6, other.replace("-x", "x"))))
    assert found.places[1].startswith("'2.0f × x' at ") and found.places[0].startswith("'y' at ")


TWICE = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        B[i] = A[i]
    for i in range({}):
        B[2 * i + 1] = -A[2 * i + 1]
"""


def test_the_statement_of_a_source_that_stored_an_element_that_differs_is_named():
    found = ti.equivalent(lifted(TWICE.format(2)), lifted(TWICE.format(3)))
    assert found.difference.startswith("B[5] is ")
    assert found.places == ("'B[i] = A[i]' at <tir>:5:9", "'B[2 * i + 1] = -A[2 * i + 1]' at <tir>:7:9")


TILE = """entry @twice(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
  %w = make_tensor_view %q, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
  %a = make_partition_view %v : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
  %b = make_partition_view %w : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
  %i, %j, %k = get_tile_block_id : tile<i32>
  %x, %t = load_view_tko weak %a[%i] : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32> -> tile<4xf32>, token
  %y = addf %x, %x : tile<4xf32>
  %u = store_view_tko weak %y, %b[%i] token = %t : tile<4xf32>, partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>, tile<i32> -> token
}"""  # noqa: E501


def test_the_store_of_a_tile_that_differs_is_named():
    x = np.zeros(8, np.float32)
    kernel = ti.lift(ti.tile.parse(TILE), grid=2, args=(x, x))
    found = ti.equivalent(kernel, ti.parse(POINTS.format(8, "3.0f × x")))
    assert found.level == Level.DIFFERENT
    assert found.places[0].startswith("'%u = store_view_tko weak %y, %b[%i]") and found.places[0].endswith(":9:3")


def test_whole_numbers_keep_their_bits_in_a_program_that_was_lifted_fast():
    text = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')):\n    for i in range(4):\n"
    tripled = ti.parse("f(B: tensor<int, I[0:4]>, A: tensor<int, I[0:4]>) { B ← A + A + A; }")
    assert ti.equivalent(ti.lift(lifted(text + "        B[i] = A[i] * 3\n")), tripled).level == Level.BITS


def test_a_softmax_that_scales_as_it_goes_is_the_softmax_of_six_numbers():
    layer = ti.parse("""softmax(y: tensor<float32, J[0:6]>, x: tensor<float32, J[0:6]>) {
      let e = exp(x - reduce(max, float32(-inf), J)(x)); y ← e / reduce(+, 0.0f, J)(e); }""")
    kernel = ti.tir.parse("""
@T.prim_func
def online(x: T.Buffer((6,), "float32"), y: T.Buffer((6,), "float32")):
    m = T.alloc_buffer((1,), "float32")
    s = T.alloc_buffer((1,), "float32")
    n = T.alloc_buffer((1,), "float32")
    m[0] = T.float32(-3.0e38)
    s[0] = T.float32(0)
    for j in range(6):
        n[0] = T.max(m[0], x[j])
        s[0] = s[0] * T.exp(m[0] - n[0]) + T.exp(x[j] - n[0])
        m[0] = n[0]
    for j in range(6):
        y[j] = T.exp(x[j] - m[0]) / s[0]
""")["online"]
    assert ti.equivalent(kernel, layer).level == Level.REALS
