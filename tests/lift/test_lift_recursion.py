"""Functions that call themselves: lifted where what is known before a run ends the recursion, refused elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

TEXT = """@I.ir_module
class Module:
    @T.prim_func(private=True)
    def factorial(n: T.int32) -> T.int32:
        if n <= 1:
            T.ret(1)
        T.ret(n * Module.factorial(n - 1))

    @T.prim_func(private=True)
    def fibonacci(n: T.int32) -> T.int32:
        T.ret(T.if_then_else(n <= 1, n, Module.fibonacci(n - 1) + Module.fibonacci(n - 2)))

    @T.prim_func(private=True)
    def doubled(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (6,), "int32")
        A[n] = A[n] * 2 + n
        if n > 0:
            Module.doubled(A.data, n - 1)
        else:
            A[5] = -A[5]

    @T.prim_func(private=True)
    def total(a: T.handle, n: T.int32) -> T.int32:
        A = T.match_buffer(a, (6,), "int32")
        T.ret(T.if_then_else(n == 0, A[0], A[n] + Module.total(A.data, n - 1)))

    @T.prim_func(private=True)
    def sorted(a: T.handle, low: T.int32, high: T.int32):
        A = T.match_buffer(a, (6,), "int32")
        if high - low > 1:
            Module.sorted(A.data, low, (low + high) // 2)
            Module.sorted(A.data, (low + high) // 2, high)
            for i, j in T.grid(6, 5):
                if j >= low and j + 1 < high and A[j] > A[j + 1]:
                    kept: T.let[T.int32] = A[j]
                    A[j] = A[j + 1]
                    A[j + 1] = kept

    @T.prim_func
    def main(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
{}
"""
ENDING = [
    "B[0] = Module.factorial(5)",
    "for i in range(4):\n    B[i] = Module.factorial(i + 2) + A[i]",
    "B[0] = Module.fibonacci(7)",
    "Module.doubled(A.data, 4)",
    "for i in range(3):\n    Module.doubled(A.data, i)",
    "B[1] = Module.total(A.data, 4) * Module.total(A.data, 2)",
    "Module.sorted(A.data, 0, 6)",
    "Module.sorted(B.data, 1, 5)\nB[0] = Module.total(B.data, 1)",
]
ENDLESS = {
    "by data": ("B[1] = Module.factorial(A[0])", "calls of 'factorial' nest more than 64 deep."),
    "that store, by data": ("Module.doubled(A.data, A[1])", "calls of 'doubled' nest more than 64 deep."),
    "twice, by data": ("B[0] = Module.fibonacci(A[0])", "calls of 'fibonacci' nest more than 64 deep."),
    "too often": ("B[0] = Module.fibonacci(30)", "'fibonacci' calls itself more than 1024 times."),
}


def parsed(body: str) -> ti.tir.PrimFunc:
    return ti.tir.parse(TEXT.format("".join(f"        {line}\n" for line in body.split("\n"))))["main"]


@pytest.mark.parametrize("body", ENDING)
def test_a_recursion_of_known_depth_is_lifted(body: str):
    function = parsed(body)
    program = ti.lift(function)
    given = np.array([3, 1, -4, 1, 5, 2], np.int32), np.array([2, 7, 1, 8, 2, 8], np.int32)
    wanted = ti.tir.interpret(function, *given)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for place, got in zip(written, program(*given), strict=True):
        np.testing.assert_array_equal(got, wanted[place])


@pytest.mark.parametrize(("body", "said"), ENDLESS.values(), ids=ENDLESS)
def test_a_recursion_that_nothing_known_ends_is_refused(body: str, said: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(parsed(body))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("TL01", said)
