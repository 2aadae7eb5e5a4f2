"""Loops that TVM's pass writes out: the text of what is lifted is that of the loops."""

from __future__ import annotations

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
from tests.lift.schedules import up_to_names

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = "# from tvm.script import tirx as T\n@T.prim_func\n"
SOURCES = {
    "a product": (
        """def main(A: T.Buffer((4, 6), "int8"), B: T.Buffer((6, 5), "int8"), C: T.Buffer((4, 5), "int32")):
    for i in {}(4):
        for j in {}(5):
            C[i, j] = 0
            for k in {}(6):
                C[i, j] = C[i, j] + T.Cast("int32", A[i, k]) * T.Cast("int32", B[k, j])
""",
        ["..u", ".u.", "u..", "u.u", "uuu"],
    ),
    "a convolution": (
        """def main(A: T.Buffer((7, 8), "float32"), W: T.Buffer((3, 3), "float32"), B: T.Buffer((5, 6), "float32")):
    for y in {}(5):
        for x in {}(6):
            B[y, x] = T.float32(0)
            for r in {}(3):
                for s in {}(3):
                    B[y, x] = B[y, x] + A[y + r, x + s] * W[r, s]
""",
        ["..uu", ".u.u", "uu..", "u.u.", "uuuu"],
    ),
    "a padded pool": (
        """def main(A: T.Buffer((3, 16), "float32"), B: T.Buffer((3, 8), "float32")):
    for c in {}(3):
        for x in {}(8):
            B[c, x] = T.float32(0)
            for s in {}(3):
                B[c, x] = B[c, x] + T.if_then_else(1 <= x * 2 + s, A[c, x * 2 + s - 1], T.float32(0))
""",
        ["..u", ".u.", "u.u", "uuu"],
    ),
    "a padded convolution": (
        """def main(A: T.Buffer((5, 6), "float32"), W: T.Buffer((3, 3), "float32"), B: T.Buffer((5, 6), "float32")):
    for y in {}(5):
        for x in {}(6):
            B[y, x] = T.float32(0)
            for r in {}(3):
                for s in {}(3):
                    B[y, x] = B[y, x] + T.if_then_else(
                        1 <= y + r and y + r < 6 and 1 <= x + s and x + s < 7, A[y + r - 1, x + s - 1], T.float32(0)
                    ) * W[r, s]
""",
        ["..uu", "..u.", "...u"],
    ),
    "a stencil with a border": (
        """def main(A: T.Buffer((7, 6), "float32"), B: T.Buffer((7, 6), "float32")):
    for i in {}(7):
        for j in {}(6):
            if i > 0 and i < 6 and j > 0 and j < 5:
                B[i, j] = A[i - 1, j] + A[i + 1, j] - A[i, j - 1] * A[i, j + 1]
            else:
                B[i, j] = A[i, j]
""",
        ["u.", ".u", "uu"],
    ),
    "a softmax": (
        """def main(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    m = T.alloc_buffer((5,), "float32")
    s = T.alloc_buffer((5,), "float32")
    for i in {}(5):
        m[i] = T.float32(-100000.0)
        for j in {}(6):
            m[i] = T.max(m[i], A[i, j])
    for i in {}(5):
        s[i] = T.float32(0)
        for j in {}(6):
            s[i] = s[i] + T.exp(A[i, j] - m[i])
    for i in {}(5):
        for j in {}(6):
            B[i, j] = T.exp(A[i, j] - m[i]) / s[i]
""",
        [".u.u.u", "u.u.u.", "uuuuuu"],
    ),
    "a largest and its place": (
        """def main(A: T.Buffer((4, 6), "float32"), V: T.Buffer((4,), "float32"), P: T.Buffer((4,), "int32")):
    for i in {}(4):
        V[i] = T.float32(-1000.0)
        P[i] = -1
        for j in {}(6):
            larger: T.let[T.float32] = T.Select(V[i] >= A[i, j], V[i], A[i, j])
            place: T.let[T.int32] = T.Select(V[i] >= A[i, j], P[i], j)
            V[i] = larger
            P[i] = place
""",
        [".u", "u.", "uu"],
    ),
    "a mean and a square": (
        """def main(A: T.Buffer((5, 4, 3), "float32"), M: T.Buffer((5,), "float32"), Q: T.Buffer((5,), "float32")):
    for i in {}(5):
        M[i] = T.float32(0)
        Q[i] = T.float32(0)
        for j in {}(4):
            for k in {}(3):
                first: T.let[T.float32] = M[i] + A[i, j, k]
                second: T.let[T.float32] = Q[i] + A[i, j, k] * A[i, j, k]
                M[i] = first
                Q[i] = second
""",
        ["..u", ".u.", "u..", ".uu", "uuu"],
    ),
    "a value for a row": (
        """def main(A: T.Buffer((5,), "float32"), B: T.Buffer((5, 4), "float32"), C: T.Buffer((5, 4), "float32")):
    for i in {}(5):
        scale: T.let[T.float32] = T.exp(A[i])
        A[i] = T.float32(0)
        for j in {}(4):
            C[i, j] = B[i, j] * scale
""",
        [".u", "u.", "uu"],
    ),
    "digits": (
        """def main(A: T.Buffer((8,), "float32"), B: T.Buffer((3, 2, 2, 2), "float32")):
    for i in {}(6):
        for j in {}(4):
            B[i // 2, j // 2, i % 2, j % 2] = A[(i * 4 + j) // 3 % 5]
""",
        [".u", "u.", "uu"],
    ),
    "steps of a field": (
        """def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for t in {}(4):
        for i in range(10):
            B[i + 1] = (A[i] + A[i + 2]) * T.float32(0.5)
        for i in range(10):
            A[i + 1] = B[i + 1]
""",
        ["u"],
    ),
}


FOLDED = {"a padded pool": ["..u"], "a stencil with a border": [], "digits": []}
"""Conditions and quotients of numbers are numbers, once they are simplified; only these copies are still alike."""
CASES = {
    f"{name} {kinds}{' simplified' if simplified else ''}": (text, kinds, simplified)
    for name, (text, written_out) in SOURCES.items()
    for kinds in written_out
    for simplified in ((False, True) if kinds in FOLDED.get(name, written_out) else (False,))
}


@pytest.mark.parametrize(("text", "kinds", "simplified"), CASES.values(), ids=CASES)
def test_what_the_pass_writes_out_has_the_text_of_its_loops(text: str, kinds: str, simplified: bool):
    base = ti.tir.parse(HEAD + text.format(*("range" for _ in kinds)))["main"]
    unrolled = HEAD + text.format(*("T.unroll" if k == "u" else "range" for k in kinds))
    module = tvm.IRModule({"main": tvm.script.from_source(unrolled, check_well_formed=False)})
    module = tvm.tirx.transform.UnrollLoop()(module)
    module = tvm.tirx.transform.StmtSimplify()(module) if simplified else module
    written = module["main"].script()
    assert "T.unroll" not in written
    function = ti.tir.parse(written)["main"]
    program = ti.lift(function)
    assert up_to_names(str(program)) == up_to_names(str(ti.lift(base))), written
    rng = np.random.default_rng(2)
    buffers = (base.buffer_map[param] for param in base.params)
    numbers = [np.asarray(rng.normal(size=[n.value for n in b.shape]) * 4).astype(str(b.dtype)) for b in buffers]
    wanted = ti.tir.interpret(base, *numbers)
    written_to = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written_to, program(*numbers), strict=True):
        np.testing.assert_allclose(got, wanted[place], rtol=1e-5, atol=1e-6)
