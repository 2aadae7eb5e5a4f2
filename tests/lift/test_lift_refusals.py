"""What a kernel can do that no pure program says: one diagnostic each, at the statement, with what could be done."""

from __future__ import annotations

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
