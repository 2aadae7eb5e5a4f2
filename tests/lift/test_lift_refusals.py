"""What a kernel can do that no pure program says: one diagnostic each, at the statement, with what could be done."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):\n'
KNOWN = "'tvm.contrib.sort.sort', 'tvm.contrib.sort.argsort', 'tvm.contrib.sort.argsort_nms', 'tvm.contrib.sort.topk'"

REFUSED = {
    "a number for a condition": (
        HEAD + "    for i in range(4):\n        if B[0] < A[i] and A[i]:\n            B[i] = A[i]\n",
        """\
<tir>:4:28: error[TS20]: the condition is float32, not bool.
          if B[0] < A[i] and A[i]:
                             ^^^^
help: compare it: x != T.float32(0).""",
    ),
    "a number that chooses": (
        HEAD + "    for i in range(4):\n        B[i] = T.if_then_else(A[i], A[0], A[1])\n",
        """\
<tir>:4:31: error[TS20]: the condition is float32, not bool.
          B[i] = T.if_then_else(A[i], A[0], A[1])
                                ^^^^
help: compare it: x != T.float32(0).""",
    ),
    "a matched buffer of another shape than its region": (
        HEAD + '    with T.sblock("b"):\n        M = T.match_buffer(A[1:3], (3,))\n        B[0] = M[0]\n',
        """\
<tir>:4:13: error[TL01]: 'M' declares the extent 3, but the region has 2.
          M = T.match_buffer(A[1:3], (3,))
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "a pointer that escapes": (
        HEAD + '    T.evaluate(T.call_packed("my.function", A.data))\n',
        f"""\
<tir>:3:5: error[TL01]: the external function 'my.function' is not known.
      T.evaluate(T.call_packed("my.function", A.data))
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write what it does with loops and stores; known are {KNOWN}.""",
    ),
    "an external function for its effect": (
        HEAD + '    T.evaluate(T.call_extern("int32", "memcpy", B.data, A.data, 16))\n',
        f"""\
<tir>:3:5: error[TL01]: the external function 'memcpy' is not known.
      T.evaluate(T.call_extern("int32", "memcpy", B.data, A.data, 16))
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write what it does with loops and stores; known are {KNOWN}.""",
    ),
    "an external function for its value": (
        HEAD + '    for i in range(4):\n        B[i] = T.call_pure_extern("float32", "special", A[i])\n',
        """\
<tir>:4:16: error[TL01]: the external function 'special' is not known.
          B[i] = T.call_pure_extern("float32", "special", A[i])
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write it with the builtins of TIR that compute a value.""",
    ),
    "an instruction of a GPU": (
        HEAD + '    T.evaluate(T.ptx_ldmatrix("float32", T.bool(False), 4, ".b16", A.data, 0, B.data, 0))\n',
        """\
<tir>:3:5: error[TL01]: T.ptx_ldmatrix has no meaning in a pure program.
      T.evaluate(T.ptx_ldmatrix("float32", T.bool(False), 4, ".b16", A.data, 0, B.data, 0))
      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write what it does with loops and stores.""",
    ),
    "a pointer without a buffer": (
        '@T.prim_func\ndef main(p: T.handle, B: T.Buffer((4,), "float32")):\n    B[0] = T.float32(0)\n',
        """\
<tir>:2:10: error[TL01]: 'p' is a pointer without a buffer.
  def main(p: T.handle, B: T.Buffer((4,), "float32")):
           ^^^^^^^^^^^
help: bind it with T.match_buffer.""",
    ),
    "a function that calls itself": (
        """@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        M.main(A.data)
""",
        """\
<tir>:5:9: error[TL01]: calls of 'main' nest more than 64 deep.
          M.main(A.data)
          ^^^^^^^^^^^^^^
help: replace the recursion by a loop.""",
    ),
    "functions that call each other": (
        """@I.ir_module
class M:
    @T.prim_func
    def other(A: T.Buffer((4,), "float32")):
        M.main(A.data)
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        M.other(A.data)
""",
        """\
<tir>:8:9: error[TL01]: calls of 'other' nest more than 64 deep.
          M.other(A.data)
          ^^^^^^^^^^^^^^^
help: replace the recursion by a loop.""",
    ),
    "memory seen as wider elements from the midst of one on": (
        HEAD + '    V = T.decl_buffer((2,), "float64", data=T.address_of(A[1]))\n    B[0] = T.Cast("float32", V[0])\n',
        """\
<tir>:3:5: error[TL01]: 'V' may start in the midst of an element of float64, 8 bytes wide.
      V = T.decl_buffer((2,), "float64", data=T.address_of(A[1]))
      ^
help: let it start at a multiple of 8 bytes.""",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_pure_program_says_is_refused_where_it_stands(name: str):
    text, message = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert str(caught.value) == message


# Operators of Relax whose shapes only data tell are refused; assertions are kept by programs that check.


HELP = {
    "R.nonzero(x)": "keep the mask, and use R.where.",
    "R.unique(x)": "use R.sort, and compare neighbours.",
    "R.dynamic_strided_slice(x, b, b, b)": ("use R.strided_slice with bounds that are numbers, or R.take at indices."),
    "R.tensor_to_shape(b)": "pass the shape as a parameter: s: R.Shape(ndim=2).",
}


@pytest.mark.parametrize("value", HELP)
def test_an_operator_whose_shape_depends_on_data_is_refused_by_name(value: str):
    text = (
        '@R.function\ndef main(x: R.Tensor((4,), dtype="int64"), b: R.Tensor((1,), dtype="int64")):\n'
        f"    y = {value}\n    return y\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    name = value.split("(")[0]
    assert str(caught.value) == (
        f"<tir>:3:9: error[TL01]: the shape of what {name} gives depends on data, "
        "and shapes are known before data are.\n"
        f"      y = {value}\n          {'^' * len(value)}\nhelp: {HELP[value]}"
    )


ASSERTED = """
@R.function
def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
    _ = R.assert_op(c, format="c must hold")
    y = R.add(x, x)
    return y
"""

IN_A_BRANCH = """
@R.function
def main(
    c: R.Tensor((), dtype="bool"), d: R.Tensor((), dtype="bool"), x: R.Tensor((3,), dtype="float32")
) -> R.Tensor((3,), dtype="float32"):
    if c:
        _ = R.assert_op(d, format="d must hold where c does")
        y = R.add(x, x)
    else:
        y = R.exp(x)
    return y
"""


def test_an_assertion_is_checked_when_the_program_is_called():
    program = ti.lift(ti.tir.parse(ASSERTED)["main"])
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program(np.bool_(True), x)[0], x + x)
    with pytest.raises(DiagnosticError, match="c must hold"):
        program(np.bool_(False), x)


def test_an_assertion_of_a_branch_holds_where_the_branch_is_taken():
    program = ti.lift(ti.tir.parse(IN_A_BRANCH)["main"])
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_allclose(program(np.bool_(False), np.bool_(False), x)[0], np.exp(x), rtol=1e-6)
    with pytest.raises(DiagnosticError, match="d must hold where c does"):
        program(np.bool_(True), np.bool_(False), x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('(5,), dtype="float32"', "dimension 0 of 'A' has 5 elements, but must have 4."),
        ('(4, 1), dtype="float32"', "'A' has 1 dimensions, but the array has 2."),
        ('(4,), dtype="int32"', "'A' holds float32, but the array holds int32."),
    ],
)
def test_a_tensor_that_is_no_argument_of_the_function_that_is_called_is_refused(given: str, message: str):
    module = ti.tir.parse(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] * T.float32(2)
    @R.function
    def main(x: R.Tensor({given})) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        y = R.call_tir(cls.double, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        return y
""")
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(module["main"])
    (found,) = caught.value.diagnostics
    assert (found.message, found.span.line) == (message, 11)
