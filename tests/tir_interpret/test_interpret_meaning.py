"""What statements and expressions compute; every expectation is worked out by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "{kind}"), B: T.Buffer((8,), "{kind}")):\n'


def run(body: str, values: Any, kind: str = "int32", checked: bool = False) -> list[Any]:
    """B, which starts as zeros, after the body ran with A."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    array = np.zeros(8, getattr(ml_dtypes, kind, kind))
    array[: len(values)] = values
    module = tir.parse(HEAD.format(kind=kind) + lines)
    return tir.interpret(module["main"], array, np.zeros_like(array), checked=checked)[1].tolist()


def each(expression: str, values: list[float], kind: str = "int32") -> list[Any]:
    return run(f"for i in range(8):\n    B[i] = {expression}", values, kind)[: len(values)]


def test_integers_wrap():
    assert each("A[i] + T.int8(1)", [127, -128], "int8") == [-128, -127]
    assert each("A[i] * A[i]", [16, 17], "uint8") == [0, 33]
    assert each("A[i] - T.uint32(1)", [0], "uint32") == [2**32 - 1]


def test_the_two_divisions_round_differently():
    values = [7, -7, -8, 3]
    assert each("T.truncdiv(A[i], 2)", values) == [3, -3, -4, 1]
    assert each("T.truncmod(A[i], 2)", values) == [1, -1, 0, 1]
    assert each("A[i] // 2", values) == [3, -4, -4, 1]
    assert each("A[i] % 3", values) == [1, 2, 1, 0]


def test_a_division_by_zero_gives_zero():
    assert each("T.truncdiv(5, A[i])", [0, 2]) == [0, 2]
    assert each("A[i] // (A[i] - A[i])", [4, 2]) == [0, 0]


def test_casts_are_those_of_c():
    assert each('T.Cast("int32", T.Cast("int8", A[i]))', [300, -129, 128]) == [44, 127, -128]
    assert each('T.Cast("float32", T.Cast("int32", A[i]))', [2.9, -2.9, 3e10], "float32") == [2.0, -2.0, 0.0]
    assert each('T.Cast("float32", T.Cast("bool", A[i]))', [0.0, 0.5, -3.0], "float32") == [0.0, 1.0, 1.0]


def test_narrow_floats_round_after_each_operation():
    assert each("A[i] + T.bfloat16(1)", [256.0, 128.0], "bfloat16") == [256.0, 129.0]
    assert each("A[i] + T.float16(1)", [2048.0, 2046.0], "float16") == [2048.0, 2047.0]
    assert each("A[i] + T.float8_e5m2(1)", [8.0, 2.0], "float8_e5m2") == [8.0, 3.0]


def test_shifts_out_of_range_give_zero():
    assert each("T.shift_left(1, A[i])", [3, 32, 40]) == [8, 0, 0]


def test_and_or_look_at_the_second_only_where_needed():
    body = "for i in range(8):\n    if i < 4 and A[i * 2 + 1] > 0:\n        B[i] = 1"
    assert run(body, range(8), checked=True) == [1, 1, 1, 1, 0, 0, 0, 0]
    body = "for i in range(8):\n    if i >= 4 or A[i * 2] > 0:\n        B[i] = 1"
    assert run(body, range(8), checked=True) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_if_then_else_is_lazy_and_select_is_not():
    assert run("for i in range(8):\n    B[i] = T.if_then_else(i > 0, A[i - 1], 9)", range(8), checked=True)[:3] == [
        9,
        0,
        1,
    ]
    with pytest.raises(DiagnosticError, match="index -1 is outside of dimension 0 of 'A'"):
        run("for i in range(8):\n    B[i] = T.Select(i > 0, A[i - 1], 9)", range(8), checked=True)


def test_vectors_load_compute_and_store_lane_by_lane():
    assert run("B[T.Ramp(0, 2, 4)] = A[T.Ramp(4, 1, 4)] * T.Broadcast(2, 4)", range(8)) == [8, 0, 10, 0, 12, 0, 14, 0]
    assert run("B[T.Ramp(7, -1, 8)] = A[T.Ramp(0, 1, 8)]", range(8)) == [7, 6, 5, 4, 3, 2, 1, 0]
    body = "B[0] = T.Shuffle([A[T.Ramp(0, 1, 2)], A[T.Ramp(4, 1, 2)]], [2])"
    assert run(body, range(8))[0] == 4


def test_a_vector_of_conditions_selects_lane_by_lane():
    body = "B[T.Ramp(0, 1, 4)] = T.Select(A[T.Ramp(0, 1, 4)] > T.Broadcast(1, 4), T.Broadcast(5, 4), T.Broadcast(6, 4))"
    assert run(body, range(8))[:4] == [6, 6, 5, 5]


def test_a_loop_steps_and_starts_where_it_says():
    assert run("for i in range(1, 8, 3):\n    B[i] = i", []) == [0, 1, 0, 0, 4, 0, 0, 7]
    assert run("for i in T.serial(2, 5):\n    B[i] = 1", []) == [0, 0, 1, 1, 1, 0, 0, 0]


def test_break_and_continue_leave_the_innermost_loop():
    body = """
for i in range(2):
    for j in range(4):
        if j == 1:
            continue
        if j == 3:
            break
        B[i * 4 + j] = 1
"""
    assert run(body, []) == [1, 0, 1, 0, 1, 0, 1, 0]


def test_while_runs_as_long_as_its_condition_holds():
    assert run("while B[0] < 5:\n    B[0] = B[0] + 2", []) == [6, 0, 0, 0, 0, 0, 0, 0]


def test_lanes_leave_a_while_one_by_one():
    body = "for i in range(8):\n    while B[i] < A[i]:\n        B[i] = B[i] + 2"
    assert run(body, range(8)) == [0, 2, 2, 4, 4, 6, 6, 8]


def test_a_recurrence_runs_in_order():
    assert run("for i in range(7):\n    B[i + 1] = B[i] + A[i]", [1] * 8) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_histogram_counts_every_hit():
    assert run("for i in range(8):\n    B[A[i]] = B[A[i]] + 1", [1, 1, 2, 7, 1, 0, 0, 2]) == [2, 3, 2, 0, 0, 0, 0, 1]


def test_of_several_stores_to_one_element_the_last_stays():
    assert run("for i in range(8):\n    B[A[i]] = i", [0, 0, 0, 1, 1, 5, 5, 0]) == [7, 4, 0, 0, 0, 6, 0, 0]


def test_a_false_predicate_skips_the_block_with_its_init():
    body = """
for i in range(8):
    with T.sblock("b"):
        vi = T.axis.reduce(8, i)
        T.where(i >= 2)
        with T.init():
            B[1] = 50
        B[1] = B[1] + A[vi]
"""
    assert run(body, [1] * 8)[1] == 6


def test_init_runs_when_all_reduction_iterators_are_at_their_minimum():
    body = """
for i, j in T.grid(2, 4):
    with T.sblock("b"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            B[vi] = 100
        B[vi] = B[vi] + A[vi * 4 + vj]
"""
    assert run(body, range(8))[:2] == [106, 122]


def test_views_and_matched_buffers_are_aliases():
    body = """
C = B.view(4, 2)
for i, j in T.grid(4, 2):
    C[i, j] = A[j * 4 + i]
D = T.decl_buffer((4,), "int32", data=B.data, elem_offset=4)
D[0] = 99
"""
    assert run(body, range(8)) == [0, 4, 1, 5, 99, 6, 3, 7]


def test_memory_read_as_another_type_keeps_its_bits():
    text = """
@T.prim_func
def main(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "int32")):
    C = T.decl_buffer((2,), "int32", data=A.data)
    for i in range(2):
        B[i] = C[i] + T.reinterpret("int32", A[i])
"""
    found = tir.interpret(tir.parse(text)["main"], np.array([1.0, -0.0], np.float32), np.zeros(2, np.int32))[1]
    assert found.tolist() == [0x3F800000 * 2 - 2**32 if 0x3F800000 * 2 >= 2**31 else 0x3F800000 * 2, 0]


def test_a_buffer_of_scalars_without_dimensions():
    text = """
@T.prim_func
def main(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
    B[()] = A[()] * T.float32(2)
"""
    assert tir.interpret(tir.parse(text)["main"], np.float32(4), np.zeros((), np.float32))[1].item() == 8.0


def test_strides_follow_the_array():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    s, t = T.int64(), T.int64()
    A = T.match_buffer(a, (3, 2), "int32", strides=[s, t])
    B = T.match_buffer(b, (2,), "int64")
    B[0] = s
    B[1] = t + T.Cast("int64", A[2, 1])
"""
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]
    assert tir.interpret(tir.parse(text)["main"], array, np.zeros(2, np.int64))[1].tolist() == [4, 2 + 10]


def test_symbolic_sizes_are_bound_and_checked():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 2), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        B[i] = A[i, 0] + n
"""
    func = tir.parse(text)["main"]
    found = tir.interpret(func, np.ones((3, 2), np.int32), np.zeros(3, np.int32))
    assert found[1].tolist() == [4, 4, 4]
    with pytest.raises(DiagnosticError, match="dimension 0 of 'B' has 4 elements, but must be 3"):
        tir.interpret(func, np.ones((3, 2), np.int32), np.zeros(4, np.int32))


def test_functions_call_one_another_and_themselves():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def power(x: T.int32) -> T.int32:
        if x <= 0:
            T.ret(1)
        T.ret(2 * Module.power(x - 1))

    @T.prim_func
    def main(B: T.Buffer((2,), "int32")):
        B[0] = Module.power(5)
        B[1] = Module.power(-1)
"""
    assert tir.interpret(tir.parse(text)["main"], np.zeros(2, np.int32))[0].tolist() == [32, 1]


def test_endless_recursion_is_refused():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.int32) -> T.int32:
        T.ret(Module.main(x + 1))
"""
    with pytest.raises(DiagnosticError, match="calls of 'main' nest more than 200 deep"):
        tir.interpret(tir.parse(text)["main"], 0)


def test_scalars_come_back_and_must_fit():
    text = "@T.prim_func\ndef main(x: T.int8, y: T.float32):\n    T.evaluate(0)\n"
    func = tir.parse(text)["main"]
    assert list(tir.interpret(func, 5, np.float64(0.5))) == [5, 0.5]
    with pytest.raises(DiagnosticError, match="'x' is of type int8, which 300 does not fit"):
        tir.interpret(func, 300, 0.5)


def test_an_assertion_that_fails_shows_its_message():
    with pytest.raises(DiagnosticError, match="too small"):
        run('assert A[0] > 3, "too small"\nB[0] = 1', [1])


def test_arguments_are_never_changed():
    array = np.arange(8, dtype=np.int32)
    module = tir.parse(HEAD.format(kind="int32") + "    for i in range(8):\n        A[i] = B[i]\n")
    before = array.copy()
    after = tir.interpret(module["main"], array, np.zeros(8, np.int32))
    assert (array == before).all() and not after[0].any()


def test_sorting_is_known_and_other_calls_are_named():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32")):
    T.call_packed("tvm.contrib.sort.argsort", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4), 0, 1, \
T.float32(0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(4), 0, 1, 0, 0), 0, T.bool(True))
"""
    found = tir.interpret(tir.parse(text)["main"], np.array([3, 1, 2, 0], np.float32), np.zeros(4, np.int32))
    assert found[1].tolist() == [3, 1, 2, 0]
    with pytest.raises(DiagnosticError, match=r"the external function 'my\.function' is not known"):
        run('T.call_packed("my.function", A[0])', [1])


def test_watched_buffers_are_returned():
    text = HEAD.format(kind="int32") + (
        '    C = T.alloc_buffer((8,), "int32")\n    for i in range(8):\n        C[i] = A[i] * 2\n'
    )
    found = tir.interpret(tir.parse(text)["main"], np.arange(8, dtype=np.int32), np.zeros(8, np.int32), watch=["C"])
    assert found.watched["C"].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.zeros(8, np.int32),), "'main' takes 2 arguments (A, B), but got 1."),
        ((np.zeros(8, np.int64), np.zeros(8, np.int32)), "'A' holds int32, but the array holds int64."),
        ((np.zeros(9, np.int32), np.zeros(8, np.int32)), "dimension 0 of 'A' has 8 elements, but the array has 9."),
        ((np.zeros((8, 1), np.int32), np.zeros(8, np.int32)), "'A' has 1 dimensions, but the array has 2."),
        (("text", np.zeros(8, np.int32)), "'A' of 'main' needs an array, and this is of type str."),
        ((None, np.zeros(8, np.int32)), "'A' of 'main' needs an array, and this is of type NoneType."),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[Any, ...], sentence: str):
    module = tir.parse(HEAD.format(kind="int32") + "    T.evaluate(0)\n")
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(module["main"], *arguments)
    assert caught.value.diagnostics[0].message == sentence


def test_a_row_major_layout_is_the_plain_buffer():
    body = "V = A.view(2, 4, layout=T.TileLayout(T.S[(2, 4):(4, 1)]))\nB[0] = V[1, 2]"
    assert run(body, [0, 1, 2, 3, 4, 5, 6])[0] == 6


def test_other_layouts_are_refused():
    text = HEAD.format(kind="int32") + (
        "    V = A.view(2, 4, layout=T.TileLayout(T.S[(2, 4):(1, 2)]))\n    B[0] = V[1, 2]\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(tir.parse(text)["main"], np.zeros(8, np.int32), np.zeros(8, np.int32))
    assert str(caught.value).strip() == (
        "<tir>:3:29: error[TR18]: the layout of 'V' is not the row-major one, and no other can be run here.\n"
        "      V = A.view(2, 4, layout=T.TileLayout(T.S[(2, 4):(1, 2)]))\n"
        "                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: leave the layout out, or write the places as indices."
    )
    with pytest.raises(DiagnosticError, match="the layout of 'V' is not the row-major one, and no pure program has"):
        ti.lift(tir.parse(text)["main"])


SIZES = """@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, ({first},), "int32")
    B = T.match_buffer(b, ({second},), "int32")
    for i in range(n):
        B[i] = 1
"""


@pytest.mark.parametrize(
    ("first", "second", "extents", "sentence"),
    [
        ("n + 1", "n", (2, 3), "dimension 0 of 'A' has 2 elements, but must be 4."),
        ("n * 2", "n", (3, 2), "dimension 0 of 'A' has 3 elements, but must be 4."),
        ("n * 2", "n", (100, 2), "dimension 0 of 'A' has 100 elements, but must be 4."),
        ("n", "n + 1", (3, 3), "dimension 0 of 'B' has 3 elements, but must be 4."),
        ("n * 2", "n + 1", (4, 4), "dimension 0 of 'B' has 4 elements, but must be 3."),
    ],
)
def test_every_extent_is_what_its_sizes_say(first: str, second: str, extents: tuple[int, int], sentence: str):
    module = tir.parse(SIZES.format(first=first, second=second))
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(module["main"], *(np.zeros(extent, np.int32) for extent in extents))
    assert (caught.value.diagnostics[0].code, caught.value.diagnostics[0].message) == ("TA03", sentence)


def test_sizes_follow_from_extents_that_are_lines_of_them():
    module = tir.parse(SIZES.format(first="n * 2", second="n + 1"))
    found = tir.interpret(module["main"], np.zeros(4, np.int32), np.zeros(3, np.int32))
    assert found[1].tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_a_region_at_a_place_that_the_block_computes_itself_is_told_by_no_earlier_block(kind: str):
    body = f"""
for i in T.{kind}(6):
    with T.sblock("b"):
        vi = T.axis.spatial(6, i)
        low = T.sblock_alloc_buffer((1,), "int32")
        high = T.sblock_alloc_buffer((1,), "int32")
        low[0] = 0
        high[0] = 8
        while low[0] < high[0]:
            middle: T.let[T.int32] = (low[0] + high[0]) // 2
            if A[middle] < 2 * vi:
                low[0] = middle + 1
            else:
                high[0] = middle
        B[vi] = low[0]
"""
    assert run(body, [1, 2, 3, 5, 8, 9, 9, 9], checked=True)[:6] == [0, 1, 3, 4, 4, 8]


def test_an_iteration_of_a_loop_that_claims_to_be_parallel_is_named_once():
    with pytest.raises(DiagnosticError) as caught:
        run(
            "for j in T.parallel(4):\n    for i in range(3):\n        B[2 * j + i % 2] = A[j + i + 4]", [], checked=True
        )
    (found,) = caught.value.diagnostics
    assert (found.code, found.notes) == ("TR01", ("in the iteration j = 2, i = 2.",))
