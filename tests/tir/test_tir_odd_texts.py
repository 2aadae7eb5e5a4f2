"""Texts that are read although few write so, and texts that are refused with a sentence and not with a traceback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
NETWORK = """
@R.function
def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((2, 4, 3, 3), "float32")):
    return {}
"""

CONTRADICTIONS = {
    "R.nn.max_pool2d(x, pool_size=[20, 20])": "R.nn.max_pool2d gives a tensor with -11 elements along a dimension.",
    'R.nn.max_pool2d(x, pool_size="a")': "R.nn.max_pool2d takes one number, or 2, for 'pool_size'.",
    "R.nn.max_pool2d(x, pool_size=[2, 2], padding=[1, 2, 3])": (
        "R.nn.max_pool2d takes one number, or 2 or 4, for 'padding'."
    ),
    "R.nn.max_pool2d(x, pool_size=[2, 2, 2])": "R.nn.max_pool2d takes one number, or 2, for 'pool_size'.",
    "R.nn.max_pool2d(x, strides=[0, 0])": "R.nn.max_pool2d takes no 0 for 'strides', but 1 or more.",
    'R.nn.max_pool2d(x, out_layout="NHWD")': (
        "R.nn.max_pool2d gives a layout with the letters N, C, H, W, and not 'NHWD'."
    ),
    'R.nn.max_pool2d(x, layout="NCHWc")': (
        "R.nn.max_pool2d takes a layout such as NCHW or NCHW4c, and this is 'NCHWc'."
    ),
    'R.nn.max_pool2d(x, layout="NCH4w")': "R.nn.max_pool2d takes a layout such as NCHW or NCHW4c, and this is 'NCH4w'.",
    'R.arange(5, step=2, dtype="int64")': "R.arange needs 'end' where 'step' is given.",
    "R.nn.avg_pool2d(x, dilation=[])": "R.nn.avg_pool2d takes one number, or 2, for 'dilation'.",
    "R.nn.adaptive_avg_pool2d(x, output_size=[1, 2, 3])": (
        "R.nn.adaptive_avg_pool2d takes one number, or 2, for 'output_size'."
    ),
    'R.nn.conv2d(x, w, groups="a")': "R.nn.conv2d takes one number for 'groups'.",
    "R.nn.conv2d(x, w, strides=[])": "R.nn.conv2d takes one number, or 2, for 'strides'.",
    "R.nn.conv2d(x, w, padding=[-9])": "R.nn.conv2d gives a tensor with -12 elements along a dimension.",
    'R.nn.conv2d(x, w, data_layout="WXYZ")': "R.nn.conv2d takes a layout with the letters N, C, and this is 'WXYZ'.",
    "R.nn.conv2d(x, 1)": "R.nn.conv2d takes a tensor, and this is a number.",
    "R.nn.conv2d(x, R.const(1.0))": "R.nn.conv2d takes a tensor of the layout OIHW, and this has 0 dimensions.",
    'R.nn.conv2d(x, w, out_dtype="a")': "'a' names no data type.",
    "R.matmul(x, R.str('a'))": "R.matmul takes a tensor, and this is a text.",
    "R.mean(2)": "R.mean takes a tensor, and this is a number.",
    "R.strided_slice(x, axes=1, begin=0, end=2)": "R.strided_slice takes a number for each axis, in brackets.",
    'R.zeros((-2,), "float32")': "R.zeros gives a tensor with -2 elements along a dimension.",
}


def said(run: Any) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        run()
    return [d.message for d in caught.value.diagnostics if d.severity == "error"]


@pytest.mark.parametrize("expression", CONTRADICTIONS)
def test_operands_and_attributes_that_cannot_be_are_named(expression: str):
    assert said(lambda: ti.tir.parse(NETWORK.format(expression))) == [CONTRADICTIONS[expression]]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('R.const([1, 300], "int8")', "the constant 300 does not fit int8."),
        ('R.const(1e400, "int32")', "the constant inf does not fit int32."),
    ],
)
def test_constants_fit_their_type(expression: str, message: str):
    assert said(lambda: ti.tir.parse(NETWORK.format(expression))) == [message]


def test_a_tensor_has_no_negative_extent():
    text = '@R.function\ndef main(x: R.Tensor((3, -14), "float32")):\n    return x\n'
    assert said(lambda: ti.tir.parse(text)) == ["a tensor has no -14 elements along a dimension."]


def test_a_data_type_is_no_result():
    function = ti.tir.parse('@R.function\ndef main():\n    return R.dtype("float32")\n')["main"]
    assert said(lambda: ti.tir.interpret(function)) == ["a data type is no value, so it cannot be returned."]
    assert said(lambda: ti.lift(function)) == ["a result is a tensor or a number, and this is none."]


def test_an_external_function_that_gives_nothing_is_read_checked_and_refused_where_it_runs():
    module = ti.tir.parse(HEAD + '    T.call_extern("void", "f", A.data)\n')
    assert ti.tir.parse(ti.tir.print_module(module)) == module
    ti.tir.check(module)
    ones = np.ones(8, np.float32)
    unknown = "the external function 'f' is not known"
    assert said(lambda: ti.tir.interpret(module["main"], ones, ones)) == [
        f"{unknown}, so the call cannot be interpreted."
    ]
    assert said(lambda: ti.lift(module["main"])) == [f"{unknown}."]


def test_a_region_has_as_many_dimensions_as_what_is_matched_to_it():
    module = ti.tir.parse(
        HEAD + '    with T.block("b"):\n        M = T.match_buffer(A[0:4], (2, 2))\n        B[0] = M[0, 0]\n'
    )
    ones = np.ones(8, np.float32)
    more = "'M' has more dimensions than the region that it matches."
    assert said(lambda: ti.tir.check(module)) == ["'M' has 2 dimensions, but the region has 1."]
    assert said(lambda: ti.tir.interpret(module["main"], ones, ones)) == [more]
    assert said(lambda: ti.lift(module["main"])) == [more]


@pytest.mark.parametrize("dtype", ["handle", "int1"])
def test_elements_that_no_array_holds_are_refused_by_name(dtype: str):
    function = ti.tir.parse(HEAD.replace("float32", dtype) + "    for i in range(8):\n        B[i] = A[i]\n")["main"]
    ones = np.ones(8, np.int8)
    assert said(lambda: ti.tir.interpret(function, ones, ones)) == [
        f"arrays hold no elements of type {dtype}: it cannot be interpreted."
    ]
    assert said(lambda: ti.lift(function)) == [f"the tensor IR has no elements of type {dtype}."]


def test_ldexp_takes_an_exponent_that_is_a_float():
    function = ti.tir.parse(HEAD + "    for i in range(8):\n        B[i] = T.ldexp(A[i], T.float32(2))\n")["main"]
    ones = np.ones(8, np.float32)
    assert ti.tir.interpret(function, ones, ones)[1].tolist() == [4.0] * 8
    assert ti.lift(function)(ones, ones.copy())[0].tolist() == [4.0] * 8


def test_a_whole_number_beyond_all_integers_is_refused_beside_a_float_as_tvm_refuses_it():
    with pytest.raises(ti.DiagnosticError, match=r"3:12: error\[TS20\]: this constant does not fit int64, which holds"):
        ti.tir.parse(HEAD + f"    B[0] = A[0] + {10**390}\n")


INTEGERS = '@T.prim_func\ndef main(B: T.Buffer((8,), "int32")):\n'
AXIS = f"""{HEAD}
    for i in range(8):
        with T.block("b"):
            v = T.axis.{{}}
            B[v] = A[v]
"""
SAME = {
    "a buffer's type with brackets": (
        '@T.prim_func\ndef main(A: T.Buffer[(8,), "float32"], B: T.Buffer[8, "int32"]):\n    B[0] = 1\n',
        '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):\n    B[0] = 1\n',
    ),
    "one axis that stands alone": (AXIS.format('remap("S", [i])'), AXIS.format("spatial(8, i)")),
    "a cast whose type has a name": (
        HEAD + '    B[0] = T.cast(T.Cast(A[0], dtype="int32"), dtype="float32")\n',
        HEAD + '    B[0] = T.Cast("float32", T.Cast("int32", A[0]))\n',
    ),
    "bits as a type that has a name": (
        HEAD + '    B[0] = T.reinterpret(T.reinterpret(A[0], dtype="int32"), dtype="float32")\n',
        HEAD + '    B[0] = T.reinterpret("float32", T.reinterpret("int32", A[0]))\n',
    ),
    "bits whose type is told twice": (
        INTEGERS + '    B[0] = T.shift_left(x=B[1], y=1, dtype="int32") + T.bitwise_not(B[2], dtype="int64")\n',
        INTEGERS + "    B[0] = (B[1] << 1) + ~B[2]\n",
    ),
    "quotients whose type is told twice": (
        INTEGERS + '    B[0] = T.ceildiv(B[1], 3, dtype="int32") + T.floormod(B[2], 5, dtype="int32")\n',
        INTEGERS + "    B[0] = (B[1] + 3 - 1) // 3 + B[2] % 5\n",
    ),
    "a function whose type is told wrongly": (
        HEAD + '    B[0] = T.exp(A[0], dtype="float64") + T.abs(A[1], dtype="float32")\n',
        HEAD + "    B[0] = T.exp(A[0]) + T.fabs(A[1])\n",
    ),
    "what a view leaves out": (
        NETWORK.format('R.memory.view(x, dtype="int32")'),
        NETWORK.format('R.memory.view(x, R.tuple(), R.dtype("int32"), R.tuple())'),
    ),
    "an operator in its own home": (NETWORK.format("R.op.nn.relu(x)"), NETWORK.format("R.nn.relu(x)")),
}


@pytest.mark.parametrize("name", SAME)
def test_what_people_have_is_read_as_what_is_printed_today(name: str):
    had, written = SAME[name]
    assert ti.tir.parse(had) == ti.tir.parse(written)


def test_a_truth_value_is_0_or_1():
    text = f"{HEAD}    B[0] = T.Select(T.bool(2), A[0], A[1])\n"
    assert said(lambda: ti.tir.parse(text)) == ["the constant 2 does not fit bool, which holds 0 to 1."]


PLACES = {"a string": '    T.evaluate(T.call_extern("int32", "a{}b"))\n', "a comment": "    # a{}b\n"}


@pytest.mark.parametrize("character", "\u2028\u2029\u0085\x0b\x1c\x1d\x1e", ids=lambda c: f"U+{ord(c):04X}")
@pytest.mark.parametrize("place", PLACES)
def test_what_ends_no_line_of_python_ends_none_of_a_diagnostic(character: str, place: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.tir.parse(HEAD + PLACES[place].format(character) + "    B[0] = C[0]\n")
    [found] = caught.value.diagnostics
    assert (found.message, found.span.line, found.span.column) == ("'C' is not defined here.", 4, 12)


def test_sizes_of_a_tuple_are_sizes():
    head = '@R.function\ndef main(x: R.Tensor(("n", "m"), "float32")):\n'
    body = "    y: R.Tensor((n, m), 'float32') = R.add(x, x)\n    return y\n"
    one_by_one = ti.tir.parse(head + "    n = T.int64()\n    m = T.int64()\n" + body)
    assert ti.tir.parse(head + "    n, m = T.int64(), T.int64()\n" + body) == one_by_one


def test_the_type_of_a_value_of_relax_is_written_by_the_value():
    text = """
@R.function
def main(x: R.Tensor((4, 2), "float32"), y: R.Tensor("float32", ndim=1)):
    a: {0} = R.add(x, x)
    b = R.match_cast(a, {0})
    c = R.zeros({1}, {2})
    d = R.sum(c, axis={3})
    return b, d
"""
    short = text.format("x.struct_info", "x.struct_info.shape", "x.struct_info.dtype", "x.struct_info.ndim - 1")
    assert ti.tir.parse(short) == ti.tir.parse(text.format('R.Tensor((4, 2), "float32")', "(4, 2)", '"float32"', "1"))
    assert said(lambda: ti.tir.parse(text.format("x.struct", "(4, 2)", '"float32"', "1"))) == [
        "a value of Relax has no attribute 'struct'."
    ]
    assert said(lambda: ti.tir.parse(text.format("x.struct_info", "y.struct_info.shape", '"float32"', "1"))) == [
        "this type does not say 'shape'."
    ]


def test_a_local_function_of_relax_may_call_itself():
    text = """
@R.function
def main(x: R.Tensor((4,), "float32"), again: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    @R.function
    def double(y: R.Tensor((4,), "float32"), b: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if b:
            r = double(R.add(y, y), R.const(False, "bool"))
        else:
            r = y
        return r
    z = double(x, again)
    return z
"""
    module = ti.tir.parse(text)
    assert ti.tir.check(module) == ()
    ones = np.ones(4, np.float32)
    for again, wanted in ((False, 1), (True, 2)):
        (result,) = ti.tir.interpret(module["main"], ones, np.bool_(again))  # type: ignore[misc]
        np.testing.assert_array_equal(result, np.full(4, wanted, np.float32))
    used_before = text.replace("    @R.function\n    def", "    w = double(x, again)\n    @R.function\n    def")
    assert said(lambda: ti.tir.parse(used_before)) == ["'double' is not defined here."]
