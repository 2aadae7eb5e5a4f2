"""Lifted programs compute what the interpreter computes, statement by statement, whatever their loops hand on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti

rng = np.random.default_rng(7)


def ints(low: int, high: int, *shape: int) -> Any:
    return rng.integers(low, high, shape).astype(np.int32)


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


PROGRAMS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "longest common subsequence": (
        """
@T.prim_func
def main(a: T.Buffer((20,), "int32"), b: T.Buffer((30,), "int32"), D: T.Buffer((21, 31), "int32")):
    for i in range(21):
        D[i, 0] = 0
    for j in range(31):
        D[0, j] = 0
    for i, j in T.grid(20, 30):
        D[i + 1, j + 1] = T.if_then_else(a[i] == b[j], D[i, j] + 1, T.max(D[i, j + 1], D[i + 1, j]))
""",
        (ints(0, 4, 20), ints(0, 4, 30), ints(0, 1, 21, 31)),
        "scan",
    ),
    "a walk through a table": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((20,), "int32")):
    for i in range(19):
        B[i + 1] = A[B[i]] + B[i + 1] * 0
""",
        (ints(0, 8, 8), ints(0, 8, 20)),
        "scan",
    ),
    "a place that is found by what is summed up": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(9):
        B[0] = A[B[0] % 8] + i
""",
        (ints(0, 8, 8), ints(0, 8, 1)),
        "reduction",
    ),
    "continue and break": (
        """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.Buffer((1,), "int32")):
    n[0] = 0
    for i in range(16):
        if A[i] == 3:
            continue
        if A[i] > 6:
            break
        B[i] = A[i] * 2
        n[0] = n[0] + 1
""",
        (ints(0, 8, 16), ints(0, 1, 16), ints(0, 1, 1)),
        "scan",
    ),
    "rows of three, the last of which is cut short": (
        """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32"), O: T.Buffer((8,), "float32")):
    for x, y in T.grid(3, 3):
        if x * 3 + y < 8:
            O[x * 3 + y] = A[x] * B[y]
""",
        (floats(3), floats(3), floats(8)),
        "parallel",
    ),
    "a while per element": (
        """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        x = T.alloc_buffer((1,), "int32")
        x[0] = A[i]
        B[i] = 0
        while x[0] > 1:
            if x[0] % 2 == 0:
                x[0] = x[0] // 2
            else:
                x[0] = x[0] * 3 + 1
            B[i] = B[i] + 1
""",
        (np.array([7, 1, 12, 5], np.int32), ints(0, 1, 4)),
        "sequential",
    ),
    "a value from further on, in place": (
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    for i in range(15):
        A[i] = A[i + 1] * T.float32(2)
""",
        (floats(16),),
        "parallel",
    ),
    "mirrored in place": (
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    for i in range(16):
        A[15 - i] = A[i] + T.float32(1)
""",
        (floats(16),),
        "sequential",
    ),
    "an early return": (
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), k: T.int32, s: T.float32):
    for i in range(16):
        if i == k:
            T.evaluate(T.ret(0))
        A[i] = A[i] * s
""",
        (floats(16), np.int32(5), np.float32(2.5)),
        "scan",
    ),
    "rows of a triangle": (
        """
@T.prim_func
def main(A: T.Buffer((9, 9), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        B[i] = T.float32(0)
        for j in range(i + 1):
            B[i] = B[i] + A[i, j]
""",
        (floats(9, 9), floats(9)),
        "reduction",
    ),
    "a triangular system": (
        """
@T.prim_func
def main(L: T.Buffer((9, 9), "float32"), b: T.Buffer((9,), "float32")):
    for i in range(9):
        for j in range(i):
            b[i] = b[i] - L[i, j] * b[j]
        b[i] = b[i] / L[i, i]
""",
        (floats(9, 9) + 4 * np.eye(9, dtype=np.float32), floats(9)),
        "sequential",
    ),
    "the last of several writes": (
        """
@T.prim_func
def main(I: T.Buffer((12,), "int32"), U: T.Buffer((12,), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(12):
        B[I[i]] = U[i]
""",
        (ints(0, 5, 12), floats(12), floats(5)),
        "the last of several writes stays",
    ),
    "a histogram": (
        """
@T.prim_func
def main(I: T.Buffer((40,), "int32"), B: T.Buffer((5,), "int32")):
    for i in range(40):
        if I[i] >= 0 and I[i] < 5:
            B[I[i]] = B[I[i]] + 1
""",
        (ints(-2, 7, 40), ints(0, 3, 5)),
        "folds into B by plus",
    ),
    "a recurrence of second order": (
        """
@T.prim_func
def main(A: T.Buffer((4, 20), "float32"), B: T.Buffer((4, 22), "float32")):
    for r, i in T.grid(4, 20):
        B[r, i + 2] = B[r, i + 1] * T.float32(0.5) - B[r, i] * T.float32(0.25) + A[r, i]
""",
        (floats(4, 20), floats(4, 22)),
        "scan",
    ),
    "the place of the largest": (
        """
@T.prim_func
def main(A: T.Buffer((6, 40), "float32"), I: T.Buffer((6,), "int32"), V: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 40):
        with T.sblock("a"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = T.float32(-3.0e38)
            ni: T.let[T.int32] = T.Select(V[vi] > A[vi, vk], I[vi], vk)
            nv: T.let[T.float32] = T.Select(V[vi] > A[vi, vk], V[vi], A[vi, vk])
            I[vi] = ni
            V[vi] = nv
""",
        (floats(6, 40), ints(0, 1, 6), floats(6)),
        "folds into I, V",
    ),
    "vectors read backwards": (
        """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(4):
        B[i * 4:i * 4 + 4] = A[T.Ramp(15 - i * 4, -1, 4)] * T.Broadcast(T.float32(2), 4)
""",
        (floats(16), floats(16)),
        "parallel",
    ),
    "shared memory of a block": (
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        S = T.alloc_buffer((16,), "float32", scope="shared")
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            S[tx] = A[bx * 16 + tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            B[bx * 16 + tx] = S[15 - tx] + S[tx]
""",
        (floats(64), floats(64)),
        "parallel",
    ),
    "threads add up in shared memory": (
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((4,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        S = T.alloc_buffer((16,), "float32", scope="shared")
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            S[tx] = A[bx * 16 + tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            for s in range(4):
                if tx < T.shift_right(8, s):
                    S[tx] = S[tx] + S[tx + T.shift_right(8, s)]
                T.evaluate(T.tvm_storage_sync("shared"))
            if tx == 0:
                B[bx] = S[0]
""",
        (floats(64), floats(4)),
        "reduction",
    ),
    "storage used anew in every iteration": (
        """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(6):
        for j in range(8):
            t[j] = A[i, j] * A[i, j]
        for j in range(8):
            B[i, j] = t[7 - j] + t[j]
""",
        (floats(6, 8), floats(6, 8)),
        "parallel",
    ),
    "two outputs that change places": (
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        t[i] = A[i]
    for i in range(8):
        A[i] = B[i]
    for i in range(8):
        B[i] = t[i]
""",
        (floats(8), floats(8)),
        "parallel",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lifted_program_computes_what_the_interpreter_computes(name: str):
    text, arrays, strategy = PROGRAMS[name]
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    before = [np.array(a) for a in arrays]
    found = program(*arrays)
    wanted = ti.tir.interpret(function, *arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    assert len(found) == len(written)
    for place, got in zip(written, found, strict=True):
        np.testing.assert_allclose(got, wanted[place], rtol=2e-5, atol=1e-6)
    assert strategy in str(program.report)
    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)  # arguments are never changed


def test_loops_that_hand_nothing_on_leave_no_while():
    text, _, _ = PROGRAMS["storage used anew in every iteration"]
    program = ti.lift(ti.tir.parse(text)["main"])
    assert " while(" not in ti.compile(program.fencil).hlo()


BEST = """
@T.prim_func
def main(A: T.Buffer((7, 45), "float32"), I: T.Buffer((7,), "int32"), V: T.Buffer((7,), "float32")):
    for i in range(7):
        V[i] = A[i, 0]
        I[i] = 0
        for k in range(1, 45):
            if A[i, k] > V[i]:
                V[i] = A[i, k]
                I[i] = k
"""


def test_a_loop_that_keeps_the_best_and_its_place_is_one_fold():
    func = ti.tir.parse(BEST)["main"]
    program = ti.lift(func)
    assert not program.report.sequential
    assert "raised: extreme" in str(program.report)
    a = np.random.default_rng(0).integers(-5, 5, (7, 45)).astype(np.float32)
    a[3, 9], a[4, 0], a[5, 44] = np.nan, np.nan, np.nan
    wanted = ti.tir.interpret(func, a, np.zeros(7, np.int32), np.zeros(7, np.float32))
    for found, want in zip(program(a, None, None), wanted[1:], strict=True):
        np.testing.assert_array_equal(found, want)


ONLINE = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16, 64), "float32")):
    m = T.alloc_buffer((16,), "float32")
    s = T.alloc_buffer((16,), "float32")
    n = T.alloc_buffer((16,), "float32")
    for i in range(16):
        m[i] = T.float32(-1e30)
        s[i] = T.float32(0)
        for j in range(64):
            n[i] = T.max(m[i], A[i, j])
            s[i] = s[i] * T.exp(m[i] - n[i]) + T.exp(A[i, j] - n[i])
            m[i] = n[i]
        for j in range(64):
            B[i, j] = T.exp(A[i, j] - m[i]) / s[i]
"""


def test_a_softmax_in_one_pass_is_one_fold():
    func = ti.tir.parse(ONLINE)["main"]
    program = ti.lift(func)
    assert not program.report.sequential
    a = floats(16, 64)
    wanted = ti.tir.interpret(func, a, np.zeros_like(a))[1]
    np.testing.assert_allclose(program(a, None)[0], wanted, rtol=1e-5)


INVERSE_ROOT = """
@T.prim_func
def main(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    bits = T.decl_buffer((9,), "int32", data=A.data)
    out = T.decl_buffer((3, 3), "int32", data=B.data)
    for i, j in T.grid(3, 3):
        out[i, j] = 0x5F3759DF - T.shift_right(bits[i * 3 + j], 1)
    for i in range(9):
        B[i] = B[i] * (T.float32(1.5) - T.float32(0.5) * A[i] * B[i] * B[i])
"""


def test_the_bits_of_a_buffer_are_read_and_written_as_another_type():
    func = ti.tir.parse(INVERSE_ROOT)["main"]
    a = np.arange(1, 10, dtype=np.float32)
    (found,) = ti.lift(func)(a, None)
    np.testing.assert_allclose(found, ti.tir.interpret(func, a, np.zeros(9, np.float32))[1], rtol=1e-6)
    np.testing.assert_allclose(found, a**-0.5, rtol=2e-3)


DIGITS = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"),
         C: T.Buffer((2, 2, 2, 2, 2, 2), "float32")):
    for i, i_0 in T.grid(8, 8):
        B[i, i_0] = A[i, i_0] + T.float32(1)
    for a, b, c, d, e, f in T.grid(2, 2, 2, 2, 2, 2):
        C[a, b, c, d, e, f] = A[a * 4 + b * 2 + c, d * 4 + e * 2 + f]
"""


def test_dims_that_are_split_take_no_name_that_the_tensor_has():
    a = floats(8, 8)
    b, c = ti.lift(ti.tir.parse(DIGITS)["main"])(a, None, None)
    np.testing.assert_array_equal(b, a + 1)
    np.testing.assert_array_equal(c.ravel(), a.ravel())
