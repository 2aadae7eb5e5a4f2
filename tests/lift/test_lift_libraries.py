"""Functions of a target's library by name: what the interpreter and the lift compute is what NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import steps_of

ONE = """
@T.prim_func
def main(A: T.Buffer((6,), "{kind}"), B: T.Buffer((6,), "{kind}")):
    for i in range(6):
        B[i] = T.{call}("{kind}", "{name}", {arguments})
"""
NAMED: list[tuple[str, str, str, str, Any]] = [
    ("call_pure_extern", "float32", "expf", "A[i]", np.exp),
    ("call_pure_extern", "float64", "exp", "A[i]", np.exp),
    ("call_pure_extern", "float32", "__logf", "A[i]", np.log),
    ("call_pure_extern", "float16", "htanh", "A[i]", np.tanh),
    ("call_pure_extern", "float32", "erff", "A[i]", lambda a: np.vectorize(__import__("math").erf)(a)),
    ("call_pure_extern", "float64", "erf", "A[i]", lambda a: np.vectorize(__import__("math").erf)(a)),
    ("call_pure_extern", "float32", "rintf", "A[i] * T.float32(2.5)", lambda a: np.rint(a * np.float32(2.5))),
    ("call_pure_extern", "float32", "powf", "A[i], A[5 - i]", lambda a: a ** a[::-1]),
    ("call_pure_extern", "float32", "fmaf", "A[i], A[i], A[5 - i]", lambda a: a * a + a[::-1]),
    ("call_extern", "float32", "hypotf", "A[i], A[5 - i]", lambda a: np.hypot(a, a[::-1])),
    ("call_llvm_pure_intrin", "float32", "llvm.exp2", "A[i]", np.exp2),
    ("call_llvm_pure_intrin", "float32", "llvm.sqrt.f32", "A[i]", np.sqrt),
    ("call_llvm_pure_intrin", "float32", "llvm.fmuladd", "A[i], A[i], A[5 - i]", lambda a: a * a + a[::-1]),
    ("call_llvm_pure_intrin", "int32", "llvm.ctpop", "A[i]", lambda a: np.bitwise_count(a)),
    ("call_llvm_intrin", "int32", "llvm.ctlz", "A[i], T.bool(True)", lambda a: [32 - int(x).bit_length() for x in a]),
    ("call_pure_extern", "int32", "__clz", "A[i]", lambda a: [32 - int(x).bit_length() for x in a]),
]


@pytest.mark.parametrize(("call", "kind", "name", "arguments", "wanted"), NAMED, ids=[row[2] for row in NAMED])
def test_a_function_of_a_library_is_the_builtin(call: str, kind: str, name: str, arguments: str, wanted: Any):
    function = tir.parse(ONE.format(call=call, kind=kind, name=name, arguments=arguments))["main"]
    a = np.array([0.75, 3, 1, 2.5, 0.125, 7]).astype(kind)
    if kind == "int32":
        a = np.array([1, 3, 1 << 20, 77, 5, 255], kind)
    tolerance = 5e-3 if kind == "float16" else 1e-6
    np.testing.assert_allclose(tir.interpret(function, a, np.zeros_like(a))[1], wanted(a), rtol=tolerance)
    np.testing.assert_allclose(ti.lift(function)(a, None)[0], wanted(a), rtol=tolerance)


def test_kernels_that_add_atomically_by_the_library_s_name_lift_to_one_scatter():
    text = """
@T.prim_func
def main(A: T.Buffer((12,), "int32"), H: T.Buffer((4,), "int32")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            T.call_extern("int32", "atomicAdd", T.address_of(H[A[b * 4 + t]]), 2)
"""
    function = tir.parse(text)["main"]
    a, h = np.array([0, 3, 3, 1, 0, 3, 2, 2, 3, 0, 0, 1], np.int32), np.arange(4, dtype=np.int32)
    wanted = h + 2 * np.bincount(a)
    np.testing.assert_array_equal(tir.interpret(function, a, h, checked=True)[1], wanted)
    program = ti.lift(function)
    np.testing.assert_array_equal(program(a, h)[0], wanted)
    assert steps_of(program) == 0


@pytest.mark.parametrize(("name", "kind"), [("roundf", "float32"), ("round", "float64"), ("llvm.round.f32", "float32")])
def test_c_takes_halves_away_from_zero(name: str, kind: str):
    call = "call_llvm_pure_intrin" if "llvm" in name else "call_pure_extern"
    function = tir.parse(ONE.format(call=call, kind=kind, name=name, arguments="A[i]"))["main"]
    below = np.nextafter(np.array(0.5, kind), np.array(0, kind))
    whole = 2.0 ** (24 if kind == "float32" else 53) - 1
    for a, wanted in (
        ([0.5, -0.5, 1.5, 2.5, -2.5, below], [1, -1, 2, 3, -3, 0]),
        ([-below, -0.0, np.inf, -np.inf, np.nan, 3.49], [-0.0, -0.0, np.inf, -np.inf, np.nan, 3]),
        ([whole, -whole, whole / 2, -0.75, 1e30, 7], [whole, -whole, (whole + 1) / 2, -1, 1e30, 7]),
    ):
        a, wanted = np.array(a, kind), np.array(wanted, kind)
        for found in (tir.interpret(function, a, np.zeros_like(a))[1], ti.lift(function)(a, None)[0]):
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", ["expff", "hexp", "llvm.x86.avx512", "frobnicate", "__"])
def test_a_function_that_nobody_knows_is_refused_by_its_name(name: str):
    call = "call_llvm_pure_intrin" if "llvm" in name else "call_pure_extern"
    function = tir.parse(ONE.format(call=call, kind="float32", name=name, arguments="A[i]"))["main"]
    with pytest.raises(DiagnosticError, match=rf"the external function '{name}' is not known"):
        ti.lift(function)
