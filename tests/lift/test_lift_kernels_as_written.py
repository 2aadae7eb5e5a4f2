"""Kernels as people write them: what they leave early, add up in every block, and store at indices of any type."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

I32 = np.int32
ROWS = np.array([[1, 2, 3, 4], [1, -2, 3, 4], [1, 2, -3, 4]], I32)
KERNELS: dict[str, tuple[str, list[Any]]] = {
    "whiles in loops in whiles": (
        """
def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
    for t in range(2):
        for u in range(A[0]):
            for k in range(2):
                B[t] = 0
                for j in range(A[t]):
                    B[t] = B[t] + j
""",
        [np.array([2, 3], I32), np.zeros(2, I32)],
    ),
    "each block adds": (
        """
def main(H: T.Buffer((1,), "int32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        T.call_extern("int32", "atomicAdd", T.address_of(H[0]), 1)
""",
        [np.zeros(1, I32)],
    ),
    "each block adds what its threads have": (
        """
def main(A: T.Buffer((4,), "int32"), H: T.Buffer((1,), "int32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            if A[t] > 0:
                T.call_extern("int32", "atomicAdd", T.address_of(H[0]), A[t])
""",
        [np.array([3, -1, 4, 1], I32), np.zeros(1, I32)],
    ),
    "blocks that return": (
        """
def main(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
    for b in T.thread_binding(6, thread="blockIdx.x"):
        if A[b] > 0:
            T.evaluate(T.thread_return())
        B[b] = 1
""",
        [np.array([0, 3, 0, 0, 1, 0], I32), np.zeros(6, I32)],
    ),
    "a break at once": (
        """
def main(A: T.Buffer((3, 4), "int32"), o: T.Buffer((3,), "int32")):
    for i in T.parallel(3):
        for j in range(4):
            if A[i, j] < 0:
                break
            o[i] = o[i] * 2 + A[i, j]
""",
        [ROWS, np.zeros(3, I32)],
    ),
    "continues at once": (
        """
def main(A: T.Buffer((3, 4), "int32"), o: T.Buffer((3,), "int32")):
    for i in T.parallel(3):
        if A[i, 1] < 0:
            continue
        for j in range(4):
            if A[i, j] == 3:
                continue
            if A[i, j] < 0:
                break
            o[i] = o[i] * 2 + A[i, j]
""",
        [ROWS, np.zeros(3, I32)],
    ),
    "a choice of a choice of what is the same everywhere": (
        """
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "int32", scope="shared")
            S[t] = 0
            for s in range(1):
                if t % 2 == s % 2 and t + 1 < 8:
                    if S[t] > 0:
                        x: T.let[T.int32] = S[t]
                        S[t + 1] = x
            B[b * 8 + t] = S[t]
""",
        [np.arange(16, dtype=I32), np.ones(16, I32)],
    ),
}


@pytest.mark.parametrize(("text", "arrays"), KERNELS.values(), ids=KERNELS)
def test_a_kernel_computes_what_the_interpreter_does(text: str, arrays: list[Any]):
    function = ti.tir.parse("@T.prim_func" + text)["main"]
    wanted = ti.tir.interpret(function, *arrays, checked=True)
    program = ti.lift(function)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for k, found in zip(written, program(*arrays), strict=True):
        np.testing.assert_array_equal(found, wanted[k])


@pytest.mark.parametrize("element", ["int8", "uint8", "int16", "uint16", "uint32", "uint64", "int64"])
@pytest.mark.parametrize("size", [100, 256, 300])
def test_conditional_stores_stand_at_indices_of_any_type(element: str, size: int):
    function = ti.tir.parse(f"""
@T.prim_func
def main(x: T.Buffer((4,), "{element}"), h: T.Buffer(({size},), "int32")):
    for i in range(4):
        if h[0] < 5:
            h[x[i]] = h[x[i]] + i + 3
""")["main"]
    for last in (99, 0):
        x = np.array([99, 2, last, 99], element)
        wanted = ti.tir.interpret(function, x, np.zeros(size, I32), checked=True)[1]
        np.testing.assert_array_equal(ti.lift(function)(x, np.zeros(size, I32))[0], wanted)


def test_a_while_elsewhere_hides_no_race():
    function = ti.tir.parse("""
@T.prim_func
def main(H: T.Buffer((3,), "int32"), A: T.Buffer((3,), "int32")):
    n = T.alloc_buffer((1,), "int32")
    n[0] = 0
    while n[0] < 3:
        n[0] = n[0] + 1
    for b in T.thread_binding(3, thread="blockIdx.x"):
        H[b] = 5
        H[2 - b] = A[b]
""")["main"]
    with pytest.raises(DiagnosticError, match="TL12"):
        ti.lift(function)


def test_a_while_elsewhere_hides_no_read_of_what_nobody_wrote():
    function = ti.tir.parse("""
@T.prim_func
def main(H: T.Buffer((3,), "int32")):
    n = T.alloc_buffer((1,), "int32")
    P = T.alloc_buffer((3,), "int32")
    n[0] = 0
    while n[0] < H[0]:
        n[0] = n[0] + 1
    P[1] = 4
    for b in range(3):
        H[b] = P[b] + n[0]
""")["main"]
    with pytest.raises(DiagnosticError, match="TL11"):
        ti.lift(function)


def test_bounds_that_are_the_greater_of_two_hide_no_read_of_what_nobody_wrote():
    text = """
@T.prim_func
def main(A: T.Buffer((6,), "float32"), D: T.Buffer((6,), "float32")):
    P = T.alloc_buffer((6,), "float32")
    for i in range(3):
        for j in range(2):
            P[i * 2 + j] = A[i * 2 + j]
        for a in range(T.min(T.max(i, 1), 2)):
            D[i * 2 + a] = P[{}]
"""
    with pytest.raises(DiagnosticError, match=r"P\[2\] is read, and nothing has written it"):
        ti.lift(ti.tir.parse(text.format("(i * 2 + a + 2) % 6"))["main"])
    function = ti.tir.parse(text.format("i * 2 + a"))["main"]
    a, d = np.arange(6, dtype=np.float32) + 1, np.zeros(6, np.float32)
    np.testing.assert_array_equal(ti.lift(function)(a, d)[0], ti.tir.interpret(function, a, d, checked=True)[1])


def test_a_numpy_buffer_may_stand_beside_what_is_traced():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        B[i] = B[i] + A[i] * A[i]
""")["main"]
    )
    b = np.ones(3, np.float32)
    np.testing.assert_array_equal(jax.grad(lambda a: program(a, b)[0].sum())(jnp.arange(3.0)), [0, 2, 4])
    np.testing.assert_array_equal(jax.jit(lambda a: program(a, b)[0])(jnp.arange(3.0)), [1, 2, 5])
    np.testing.assert_array_equal(b, 1)


def test_reverse_mode_goes_through_a_while_that_a_break_ends():
    program = ti.lift(
        ti.tir.parse("""
@T.prim_func
def main(A: T.Buffer((1,), "float32")):
    while A[0] < T.float32(9):
        A[0] = A[0] * T.float32(1.5)
        if A[0] > T.float32(4):
            break
""")["main"]
    )
    slope = jax.vmap(jax.grad(lambda x: program(x)[0].sum()))(jnp.array([[1.0], [5.0], [10.0]]))
    np.testing.assert_allclose(slope, [[1.5**4], [1.5], [1]], rtol=1e-6)
