"""What statements and expressions compute; every expectation is worked out by hand."""

from __future__ import annotations

import math
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


EXPRESSIONS = [
    ("A[i] + T.int8(1)", "int8", [127, -128], [-128, -127]),
    ("A[i] * A[i]", "uint8", [16, 17], [0, 33]),
    ("A[i] - T.uint32(1)", "uint32", [0], [2**32 - 1]),
    ("T.truncdiv(A[i], 2)", "int32", [7, -7, -8, 3], [3, -3, -4, 1]),
    ("T.truncmod(A[i], 2)", "int32", [7, -7, -8, 3], [1, -1, 0, 1]),
    ("A[i] // 2", "int32", [7, -7, -8, 3], [3, -4, -4, 1]),
    ("A[i] % 3", "int32", [7, -7, -8, 3], [1, 2, 1, 0]),
    ("T.truncdiv(5, A[i])", "int32", [0, 2], [0, 2]),
    ("A[i] // (A[i] - A[i])", "int32", [4, 2], [0, 0]),
    ('T.Cast("int32", T.Cast("int8", A[i]))', "int32", [300, -129, 128], [44, 127, -128]),
    ('T.Cast("float32", T.Cast("int32", A[i]))', "float32", [2.9, -2.9, 3e10], [2.0, -2.0, 0.0]),
    ('T.Cast("float32", T.Cast("bool", A[i]))', "float32", [0.0, 0.5, -3.0], [0.0, 1.0, 1.0]),
    ("A[i] + T.bfloat16(1)", "bfloat16", [256.0, 128.0], [256.0, 129.0]),
    ("A[i] + T.float16(1)", "float16", [2048.0, 2046.0], [2048.0, 2047.0]),
    ("A[i] + T.float8_e5m2(1)", "float8_e5m2", [8.0, 2.0], [8.0, 3.0]),
    ("T.shift_left(1, A[i])", "int32", [3, 32, 40], [8, 0, 0]),
    ('T.reinterpret("int32", T.Cast("float32", A[i]))', "int32", [1, 0], [0x3F800000, 0]),
]


@pytest.mark.parametrize(("expression", "kind", "values", "wanted"), EXPRESSIONS)
def test_an_expression_wraps_rounds_and_divides(expression: str, kind: str, values: list[Any], wanted: list[Any]):
    assert run(f"for i in range(8):\n    B[i] = {expression}", values, kind)[: len(values)] == wanted


IN_ORDER, ONES = list(range(8)), [1] * 8
BODIES = {
    "and looks at the second only where needed": (IN_ORDER, [1, 1, 1, 1, 0, 0, 0, 0], """
for i in range(8):
    if i < 4 and A[i * 2 + 1] > 0:
        B[i] = 1
"""),
    "or looks at the second only where needed":
        (IN_ORDER, [0, 1, 1, 1, 1, 1, 1, 1], "for i in range(8):\n    if i >= 4 or A[i * 2] > 0:\n        B[i] = 1"),
    "if_then_else is lazy": (IN_ORDER, [9, 0, 1], "for i in range(8):\n    B[i] = T.if_then_else(i > 0, A[i - 1], 9)"),
    "vectors go lane by lane":
        (IN_ORDER, [8, 0, 10, 0, 12, 0, 14, 0], "B[T.Ramp(0, 2, 4)] = A[T.Ramp(4, 1, 4)] * T.Broadcast(2, 4)"),
    "vectors may go backward": (IN_ORDER, [7, 6, 5, 4, 3, 2, 1, 0], "B[T.Ramp(7, -1, 8)] = A[T.Ramp(0, 1, 8)]"),
    "a shuffle takes one lane":
        (IN_ORDER, [4, 0], "B[0] = T.Shuffle([A[T.Ramp(0, 1, 2)], A[T.Ramp(4, 1, 2)]], [2])"),
    "a vector of conditions selects lane by lane": (IN_ORDER, [6, 6, 5, 5], """
B[T.Ramp(0, 1, 4)] = T.Select(A[T.Ramp(0, 1, 4)] > T.Broadcast(1, 4), T.Broadcast(5, 4), T.Broadcast(6, 4))"""),
    "a loop steps": ([], [0, 1, 0, 0, 4, 0, 0, 7], "for i in range(1, 8, 3):\n    B[i] = i"),
    "a loop starts where it says": ([], [0, 0, 1, 1, 1, 0, 0, 0], "for i in T.serial(2, 5):\n    B[i] = 1"),
    "break and continue leave the innermost loop": ([], [1, 0, 1, 0, 1, 0, 1, 0], """
for i in range(2):
    for j in range(4):
        if j == 1:
            continue
        if j == 3:
            break
        B[i * 4 + j] = 1
"""),
    "while runs as long as its condition holds": ([], [6, 0, 0], "while B[0] < 5:\n    B[0] = B[0] + 2"),
    "lanes leave a while one by one": (IN_ORDER, [0, 2, 2, 4, 4, 6, 6, 8], """
for i in range(8):
    while B[i] < A[i]:
        B[i] = B[i] + 2
"""),
    "a recurrence runs in order": (ONES, [0, 1, 2, 3, 4, 5, 6, 7], "for i in range(7):\n    B[i + 1] = B[i] + A[i]"),
    "a histogram counts every hit":
        ([1, 1, 2, 7, 1, 0, 0, 2], [2, 3, 2, 0, 0, 0, 0, 1], "for i in range(8):\n    B[A[i]] = B[A[i]] + 1"),
    "of several stores to one element the last stays":
        ([0, 0, 0, 1, 1, 5, 5, 0], [7, 4, 0, 0, 0, 6, 0, 0], "for i in range(8):\n    B[A[i]] = i"),
    "a false predicate skips the block with its init": (ONES, [0, 6], """
for i in range(8):
    with T.sblock("b"):
        vi = T.axis.reduce(8, i)
        T.where(i >= 2)
        with T.init():
            B[1] = 50
        B[1] = B[1] + A[vi]
"""),
    "init runs when all reduction iterators are at their minimum": (IN_ORDER, [106, 122], """
for i, j in T.grid(2, 4):
    with T.sblock("b"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            B[vi] = 100
        B[vi] = B[vi] + A[vi * 4 + vj]
"""),
    "views and matched buffers are aliases": (IN_ORDER, [0, 4, 1, 5, 99, 6, 3, 7], """
C = B.view(4, 2)
for i, j in T.grid(4, 2):
    C[i, j] = A[j * 4 + i]
D = T.decl_buffer((4,), "int32", data=B.data, elem_offset=4)
D[0] = 99
"""),
    "memory read as another type keeps its bits": ([0x3F800000, 0], [2, 0], """
C = T.decl_buffer((8,), "float32", data=A.data)
for i in range(8):
    B[i] = T.Cast("int32", C[i]) * 2
"""),
    "halves of vectors are vectors": (IN_ORDER, [0, 1, 2, 3], """
B[T.Ramp(0, 1, 2)] = T.vectorlow("int32x2", A[T.Ramp(0, 1, 4)])
B[T.Ramp(2, 1, 2)] = T.vectorhigh("int32x2", A[T.Ramp(0, 1, 4)])
"""),
    "halves of two are numbers": (IN_ORDER, [1, 0, 3], """
B[0] = T.vectorhigh("int32", A[T.Ramp(0, 1, 2)])
B[2] = T.vectorlow("int32", A[T.Ramp(3, 1, 2)])
"""),
    "vectors stand behind each other": (IN_ORDER, [4, 5, 0, 1], """
B[T.Ramp(0, 1, 4)] = T.vectorcombine("int32x4", A[T.Ramp(4, 1, 2)], A[T.Ramp(0, 1, 2)])
"""),
    "lanes are active below a limit": (IN_ORDER, [1, 1, 1, 0], """
B[T.Ramp(0, 1, 4)] = T.Select(T.get_active_lane_mask("uint1x4", 2, 5), T.Broadcast(1, 4), T.Broadcast(0, 4))
"""),
    "four products of bytes are added": (IN_ORDER, [9], """
B[0] = T.dp4a("int32", T.Broadcast(T.int8(-2), 4), T.Broadcast(T.int8(3), 4), A[5] + 28)
"""),
    "a let gives a name within an expression": (IN_ORDER, [0, 2, 4, 6], """
for i in range(4):
    x = T.int32()
    B[i] = T.Let(x + x, where={x: A[i]})
"""),
    "whole numbers are as they are, rounded": ([3, -4], [3, -4], """
for i in range(2):
    B[i] = T.floor(A[i])
"""),
    "whole numbers have powers": ([3, -4], [27, -64], """
for i in range(2):
    B[i] = T.pow(A[i], 3)
"""),
    "constants are memory": (IN_ORDER, [9, 8, 7], """
C = T.allocate_const([9, 8, 7], "int32", [3])
D = T.decl_buffer((3,), "int32", data=C)
for i in range(3):
    B[i] = D[i]
"""),
    "what is likely is what it says": (IN_ORDER, [0, 0, 1], """
for i in range(3):
    if T.likely(A[i] > 1):
        B[i] = 1
"""),
    "elements may be vectors": (IN_ORDER, [4, 5, 6, 7, 0, 1, 2, 3], """
C = T.alloc_buffer((2,), "int32x4")
for i in range(2):
    C[1 - i] = A[T.Ramp(i * 4, 1, 4)]
for i in range(2):
    B[T.Ramp(i * 4, 1, 4)] = C[i]
"""),
    "bytes of wider elements are read": ([67305985, 336794129], [2, 18], """
C = T.decl_buffer((32,), "int8", data=A.data)
for i in range(2):
    B[i] = T.Cast("int32", C[i * 4 + 1])
"""),
    "bytes of wider elements are written": ([], [1280, 1536], """
C = T.decl_buffer((32,), "int8", data=B.data)
for i in range(2):
    C[i * 4 + 1] = T.Cast("int8", i + 5)
"""),
    "bits of a vector are one of other lanes": ([131073, 262147], [1, 2, 3, 4], """
B[T.Ramp(0, 1, 4)] = T.Cast("int32x4", T.reinterpret("int16x4", A[T.Ramp(0, 1, 2)]))
"""),
    "vectors begin where data say, and may stand still": ([3, 1, 2, 0], [0, 0, 10, 10, 20, 20, 30, 30], """
for i in range(4):
    B[T.Ramp(i * 2, 1, 2)] = A[T.Ramp(A[i], 0, 2)] * 10
"""),
    "a shuffle orders lanes": (IN_ORDER, [6, 4], """
B[T.Ramp(0, 1, 2)] = T.Shuffle([A[T.Ramp(4, 1, 4)]], [2, 0])
"""),
    "lanes that are masked are not stored": (IN_ORDER, [0, 0, 12, 13], """
for i in range(2):
    T.masked_store(B, A[T.Ramp(0, 1, 4)] + T.Broadcast(10, 4), T.Ramp(0, 1, 4), A[T.Ramp(0, 1, 4)] > T.Broadcast(1, 4))
"""),
    "lanes that are masked are zero": (IN_ORDER, [0, 0, 2, 3], """
for i in range(2):
    B[T.Ramp(0, 1, 4)] = T.masked_load("int32x4", A, T.Ramp(0, 1, 4), A[T.Ramp(0, 1, 4)] > T.Broadcast(1, 4))
"""),
    "a view has a start and strides": (IN_ORDER, [2, 4, 6], """
C = T.decl_buffer((3,), "int32", data=A.data, elem_offset=2, strides=[2])
for i in range(3):
    B[i] = C[i]
"""),
    "a number is asserted where threads take part": ([1, 0], [5], """
for tx in T.thread_binding(2, thread="threadIdx.x"):
    if tx < 1:
        assert A[tx], "no"
        B[tx] = 5
"""),
    "numbers are conditions that hold where they are not 0": ([1, 2, 3, 0], [111, 11, 10, 1000], """
for i in range(3):
    if A[i] and A[i + 1]:
        B[i] = B[i] + 1
    if A[i] or A[i + 1]:
        B[i] = B[i] + 10
for tx in T.thread_binding(4, thread="threadIdx.x"):
    if A[tx]:
        B[tx] = B[tx] + T.Select(not A[tx], 500, 0)
    else:
        B[tx] = B[tx] + 1000
    B[tx] = B[tx] + T.if_then_else(A[3 - tx], 0, 100)
"""),
    "extremes nest": (IN_ORDER, [3, 2], """
for i in range(2):
    B[i] = T.max(T.min(A[i + 3], 3 - i), 1)
"""),
    "bits are combined": ([12, -1], [8, 6, 14, -13], """
B[0] = T.bitwise_and(A[0], 10)
B[1] = T.bitwise_xor(A[0], 10)
B[2] = T.bitwise_or(A[0], 10)
B[3] = T.bitwise_not(A[0])
"""),
    "bits are counted": ([12, -1], [2, 32, 28, 0], """
B[0] = T.popcount(A[0])
B[1] = T.popcount(A[1])
B[2] = T.clz(A[0])
B[3] = T.clz(A[1])
"""),
    "a row-major layout is the plain buffer":
        (IN_ORDER, [6], "V = A.view(2, 4, layout=T.TileLayout(T.S[(2, 4):(4, 1)]))\nB[0] = V[1, 2]"),
}  # fmt: skip


# without `checked` the second operand of a lazy operation would be read at a clamped place
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("values", "wanted", "body"), BODIES.values(), ids=BODIES)
def test_statements_compute(values: list[int], wanted: list[int], body: str, checked: bool):
    assert run(body, values, checked=checked)[: len(wanted)] == wanted


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
    def main(B: T.Buffer((2,), "int32"), C: T.Buffer((), "float32")):
        B[0] = Module.power(5)
        B[1] = Module.power(-1)
        C[()] = C[()] * T.float32(2)
"""
    powers, scalar = tir.interpret(tir.parse(text)["main"], np.zeros(2, np.int32), np.float32(4))
    assert powers.tolist() == [32, 1] and scalar.item() == 8.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in range(8):\n    B[i] = T.Select(i > 0, A[i - 1], 9)", "index -1 is outside of dimension 0 of 'A'"),
        ('assert A[0] > 3, "too small"\nB[0] = 1', "too small"),
        ("B[0] = T.Add(A[0], 'x')", "both operands of Add have one type"),
        ("T.evaluate(T.atomic_min())", r"T\.atomic_min is not called with these arguments: it cannot be interpreted"),
        ("B[0] = A.access_ptr(1)", "a handle is stored into 'B', which holds int32"),
        ("B[0] = T.Cast('int32', A.data)", "a handle cannot become int32"),
        ('T.call_packed("my.function", A[0])', r"the external function 'my\.function' is not known"),
    ],
)
def test_what_a_body_does_wrong_is_refused(body: str, message: str):
    with pytest.raises(DiagnosticError, match=message):
        run(body, [1], checked=True)


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


@pytest.mark.parametrize(("kind", "number"), [("int8", math.nan), ("int8", math.inf), ("bool", 2), ("uint8", -1)])
def test_interpreter_and_lift_take_the_same_numbers(kind: str, number: Any):
    func = tir.parse(f"@T.prim_func\ndef main(B: T.Buffer((1,), 'int32'), n: T.{kind}):\n    B[0] = T.Cast('int32', n)")
    for call in (lambda *args: tir.interpret(func["main"], *args), ti.lift(func["main"])):
        with pytest.raises(DiagnosticError, match=f"'n' is of type {kind}, which {number} does not fit"):
            call(np.zeros(1, np.int32), number)


def test_arguments_are_never_changed():
    array = np.arange(8, dtype=np.int32)
    module = tir.parse(HEAD.format(kind="int32") + "    for i in range(8):\n        A[i] = B[i]\n")
    before = array.copy()
    after = tir.interpret(module["main"], array, np.zeros(8, np.int32))
    assert (array == before).all() and not after[0].any()


def test_sorting_is_known():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int32")):
    T.call_packed("tvm.contrib.sort.argsort", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4), 0, 1, \
T.float32(0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(4), 0, 1, 0, 0), 0, T.bool(True))
"""
    found = tir.interpret(tir.parse(text)["main"], np.array([3, 1, 2, 0], np.float32), np.zeros(4, np.int32))
    assert found[1].tolist() == [3, 1, 2, 0]


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


def test_a_sum_of_two_sizes_waits_for_one_of_them():
    text = SIZES.replace("n = T.int32()", "n, m = T.int32(), T.int32()").replace("= 1", "= m")
    module = tir.parse(text.format(first="n + m", second="n * 2"))
    assert tir.interpret(module["main"], np.zeros(5, np.int32), np.zeros(6, np.int32))[1].tolist() == [2] * 3 + [0] * 3


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
