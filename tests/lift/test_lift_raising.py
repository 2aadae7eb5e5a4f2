# ruff: noqa: E501
"""Kernels of TIR whose loops are operations of XLA: the report names them, and the numbers are those of the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti

rng = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Any:
    return rng.integers(low, high, shape).astype(dtype)


def reduced(buffers: str, loops: str, extents: str, axes: str, init: str, update: str) -> str:
    """One block that folds into an element: buffers, loops with their extents, kinds of axes, and two statements."""
    names = [f"v{n.strip()}" for n in loops.split(",")]
    return f"""
@T.prim_func
def main({buffers}):
    for {loops} in T.grid({extents}):
        with T.sblock("b"):
            {", ".join(names)} = T.axis.remap("{axes}", [{loops}])
            with T.init():
                {init}
            {update}
"""


def buffer(name: str, shape: str, element: str = "float32") -> str:
    return f'{name}: T.Buffer({shape}, "{element}")'


def buffers(**shapes: str) -> str:
    return ", ".join(buffer(n, *s.split(" ")) for n, s in shapes.items())


KERNELS: dict[str, tuple[str, str, list[Any]]] = {
    "matrix product, transposed, with a bias": (
        "contraction",
        """
@T.prim_func
def main(A: T.Buffer((20, 9), "float32"), B: T.Buffer((7, 20), "float32"), b: T.Buffer((7,), "float32"), C: T.Buffer((9, 7), "float32")):
    S = T.alloc_buffer((9, 7), "float32")
    for i, j, k in T.grid(9, 7, 20):
        with T.sblock("s"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = T.float32(0)
            S[vi, vj] = S[vi, vj] + A[vk, vi] * B[vj, vk]
    for i, j in T.grid(9, 7):
        with T.sblock("o"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(S[vi, vj] + b[vj], T.float32(0))
""",
        [floats(20, 9), floats(7, 20), floats(7), floats(9, 7)],
    ),
    "batched product of bytes": (
        "contraction",
        reduced(
            buffers(A="(3,5,8) int8", B="(3,8,6) int8", C="(3,5,6) int32"), "n, i, j, k", "3, 5, 6, 8", "SSSR",
            "C[vn, vi, vj] = 0",
            'C[vn, vi, vj] = C[vn, vi, vj] + T.Cast("int32", A[vn, vi, vk]) * T.Cast("int32", B[vn, vk, vj])',
        ),
        [integers(-128, 128, 3, 5, 8, dtype="int8"), integers(-128, 128, 3, 8, 6, dtype="int8"), integers(0, 1, 3, 5, 6)],
    ),
    "product with a triangle": (
        "guarded contraction",
        """
@T.prim_func
def main(A: T.Buffer((17, 17), "float32"), B: T.Buffer((17, 5), "float32"), C: T.Buffer((17, 5), "float32")):
    for i, j in T.grid(17, 5):
        C[i, j] = T.float32(0)
        for k in range(17):
            if k <= i:
                C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
        [floats(17, 17), floats(17, 5), floats(17, 5)],
    ),
    "convolution with stride and dilation": (
        "convolution",
        reduced(
            buffers(A="(2,16,13,11)", W="(4,16,3,2)", O="(2,4,5,8)"), "n, f, y, x, c, r, s", "2, 4, 5, 8, 16, 3, 2",
            "SSSSRRR", "O[vn, vf, vy, vx] = T.float32(0)",
            "O[vn, vf, vy, vx] = O[vn, vf, vy, vx] + A[vn, vc, vy * 2 + vr * 2, vx + vs * 3] * W[vf, vc, vr, vs]",
        ),
        [floats(2, 16, 13, 11), floats(4, 16, 3, 2), floats(2, 4, 5, 8)],
    ),
    "convolution in groups": (
        "convolution",
        reduced(
            buffers(A="(1,32,9,9)", W="(6,16,3,3)", O="(1,6,7,7)"), "n, f, y, x, c, r, s", "1, 6, 7, 7, 16, 3, 3",
            "SSSSRRR", "O[vn, vf, vy, vx] = T.float32(0)",
            "O[vn, vf, vy, vx] = O[vn, vf, vy, vx] + A[vn, vf // 3 * 16 + vc, vy + vr, vx + vs] * W[vf, vc, vr, vs]",
        ),
        [floats(1, 32, 9, 9), floats(6, 16, 3, 3), floats(1, 6, 7, 7)],
    ),
    "convolution whose padding is a guard": (
        "convolution",
        """
@T.prim_func
def main(A: T.Buffer((1, 16, 6, 5), "float32"), W: T.Buffer((3, 16, 3, 3), "float32"), O: T.Buffer((1, 3, 6, 5), "float32")):
    P = T.alloc_buffer((1, 16, 8, 7), "float32")
    for n, c, y, x in T.grid(1, 16, 8, 7):
        with T.sblock("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(1 <= vy and vy < 7 and 1 <= vx and vx < 6, A[vn, vc, vy - 1, vx - 1], T.float32(0))
    for n, f, y, x, c, r, s in T.grid(1, 3, 6, 5, 16, 3, 3):
        with T.sblock("conv"):
            vn, vf, vy, vx, vc, vr, vs = T.axis.remap("SSSSRRR", [n, f, y, x, c, r, s])
            with T.init():
                O[vn, vf, vy, vx] = T.float32(0)
            O[vn, vf, vy, vx] = O[vn, vf, vy, vx] + P[vn, vc, vy + vr, vx + vs] * W[vf, vc, vr, vs]
""",
        [floats(1, 16, 6, 5), floats(3, 16, 3, 3), floats(1, 3, 6, 5)],
    ),
    "maximum of a window with stride": (
        "strip",
        reduced(
            buffers(A="(1,3,9,8)", O="(1,3,4,3)"), "n, c, y, x, r, s", "1, 3, 4, 3, 3, 3", "SSSSRR",
            "O[vn, vc, vy, vx] = T.float32(-3.4e38)",
            "O[vn, vc, vy, vx] = T.max(O[vn, vc, vy, vx], A[vn, vc, vy * 2 + vr, vx * 2 + vs])",
        ),
        [floats(1, 3, 9, 8), floats(1, 3, 4, 3)],
    ),
    "mean of rows": (
        "reduction",
        reduced(
            buffers(A="(4,50)", O="(4,)"), "i, k", "4, 50", "SR", "O[vi] = T.float32(0)", "O[vi] = O[vi] + A[vi, vk]"
        ),
        [floats(4, 50), floats(4)],
    ),
    "rows that are added up by an index": (
        "scatter",
        """
@T.prim_func
def main(I: T.Buffer((20,), "int32"), A: T.Buffer((20, 3), "float32"), O: T.Buffer((6, 3), "float32")):
    for i, j in T.grid(20, 3):
        O[I[i], j] = O[I[i], j] + A[i, j]
""",
        [integers(0, 6, 20), floats(20, 3), floats(6, 3)],
    ),
    "the largest of each row": (
        "top k",
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (3, 12), "float32")
    B = T.match_buffer(b, (3, 4), "float32")
    T.call_packed("tvm.contrib.sort.topk", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(3, 12), 0, 2, T.float32(0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(3, 4), 0, 2, T.float32(0), 0), 4, 1, "values", T.bool(False))
""",
        [floats(3, 12), floats(3, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_raised_and_keeps_its_numbers(name: str) -> None:
    rule, text, arrays = KERNELS[name]
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    assert rule in {row[0] for row in program.report.raised}
    assert f"raised: {rule}: " in str(program.report)
    wanted = [new for old, new in zip(arrays, ti.tir.interpret(function, *arrays), strict=True) if not same(old, new)]
    (found,) = program(*arrays)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-4)


NEARLY = {
    "one filter per channel": (
        {"contraction", "convolution"},
        reduced(
            buffers(A="(16,9,9)", W="(16,3,3)", O="(16,7,7)"), "c, y, x, r, s", "16, 7, 7, 3, 3", "SSSRR",
            "O[vc, vy, vx] = T.float32(0)", "O[vc, vy, vx] = O[vc, vy, vx] + A[vc, vy + vr, vx + vs] * W[vc, vr, vs]",
        ),
    ),
    "a sum of exponentials of products": (
        {"contraction"},
        reduced(
            buffers(A="(5,40)", W="(40,6)", O="(5,6)"), "i, j, k", "5, 6, 40", "SSR", "O[vi, vj] = T.float32(0)",
            "O[vi, vj] = O[vi, vj] + T.exp(A[vi, vk] * W[vk, vj])",
        ),
    ),
    "updates of which each reads what the last left": (
        {"scatter"},
        """
@T.prim_func
def main(I: T.Buffer((20,), "int32"), A: T.Buffer((20,), "float32"), O: T.Buffer((6,), "float32")):
    for i in range(20):
        O[I[i]] = O[I[i]] * T.float32(0.5) + A[i]
""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEARLY)
def test_a_kernel_that_is_nearly_of_a_form_is_not_raised_to_it(name: str) -> None:
    rules, text = NEARLY[name]
    assert not rules & {row[0] for row in ti.lift(ti.tir.parse(text)["main"]).report.raised}


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


def test_the_page_of_a_report_shows_what_was_raised() -> None:
    _, text, _ = KERNELS["mean of rows"]
    assert (
        "<td>reduction</td><td>reduce(+, 0.0f, k)(A)</td>" in ti.lift(ti.tir.parse(text)["main"]).report._repr_html_()
    )


ALL = """
@T.prim_func
def main(A: T.Buffer((3, 4, 5, 6), "bool"), B: T.Buffer((6,), "bool"), C: T.Buffer((6,), "bool")):
    for i, a, b, c in T.grid(6, 3, 4, 5):
        with T.sblock("all"):
            v, va, vb, vc = T.axis.remap("SRRR", [i, a, b, c])
            with T.init():
                B[v] = T.bool(True)
                C[v] = T.bool(False)
            B[v] = B[v] and A[va, vb, vc, v]
            C[v] = C[v] or A[va, vb, vc, v]
"""


def test_truth_values_are_folded_over_several_dims_at_once():
    program = ti.lift(ti.tir.parse(ALL)["main"])
    assert "stablehlo.while" not in ti.compile(program.fencil).stablehlo()
    a = np.random.default_rng(0).random((3, 4, 5, 6)) < [0, 0.01, 0.02, 0.98, 0.99, 1]
    for found, wanted in zip(program(a, None, None), (a.all((0, 1, 2)), a.any((0, 1, 2))), strict=True):
        np.testing.assert_array_equal(found, wanted)
