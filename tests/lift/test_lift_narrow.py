"""Integers of two and four bits: the lift holds them in bytes, and gives the interpreter's numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

NARROW = ["int2", "int4", "uint2", "uint4"]
BODIES = {
    "sum": "A[i] + B[i]",
    "polynomial": "A[i] * B[i] - A[i] * A[i]",
    "largest": "T.max(A[i], B[i]) + T.min(A[i], B[i])",
    "quotient": "A[i] // B[i]",
    "truncated quotient": "T.truncdiv(A[i], B[i])",
    "rest": "A[i] % B[i]",
    "shifts": "T.shift_right(A[i], B[i]) + T.shift_left(A[i], B[i])",
    "bits": "T.bitwise_xor(T.bitwise_not(A[i]), B[i])",
    "choice": "T.Select(A[i] < B[i], A[i] + A[i], B[i] * B[i])",
    "a number": 'A[i] + T.Cast("{0}", 1)',
    "from wide integers": 'T.Cast("{0}", T.Cast("int32", A[i]) * 1000 + i)',
    "from floats": 'T.Cast("{0}", T.Cast("float32", A[i]) * T.float32(1.5))',
    "to the other sign": 'T.Cast("{0}", T.Cast("{1}", A[i] + B[i]))',
}
TEXT = """
@T.prim_func
def main(A: T.Buffer((37,), "{0}"), B: T.Buffer((37,), "{0}"), C: T.Buffer((37,), "{1}")):
    for i in range(37):
        C[i] = {2}
"""


def other(name: str) -> str:
    return name[1:] if name.startswith("u") else f"u{name}"


def numbers(name: str, *shape: int) -> Any:
    limits = ml_dtypes.iinfo(name)
    found = np.random.default_rng(5).integers(limits.min, limits.max, shape, endpoint=True)
    return found.astype(np.int8).astype(getattr(ml_dtypes, name))


def agree(func: Any, *arrays: Any) -> Any:
    (found,) = ti.lift(func)(*arrays)
    wanted = ti.tir.interpret(func, *arrays)[-1]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    return found


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_arithmetic_wraps_as_in_the_interpreter(body: str, name: str):
    func = ti.tir.parse(TEXT.format(name, name, body.format(name, other(name))))["main"]
    a, b = numbers(name, 2, 37)
    agree(func, a, b, np.zeros(37, a.dtype))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("to", ["int8", "uint32", "float32", "bool"])
def test_conversions_keep_the_number(name: str, to: str):
    func = ti.tir.parse(TEXT.format(name, to, f'T.Cast("{to}", A[i] + B[i])'))["main"]
    a, b = numbers(name, 2, 37)
    agree(func, a, b, np.zeros(37, to))


SUM = """
@T.prim_func
def main(A: T.Buffer((5, 9), "int4"), C: T.Buffer((5,), "int4")):
    for i, k in T.grid(5, 9):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.Cast("int4", 0)
            C[vi] = C[vi] + A[vi, vk]
"""
PRODUCT = """
@T.prim_func
def main(A: T.Buffer((8, 12), "int4"), B: T.Buffer((12, 6), "uint4"), C: T.Buffer((8, 6), "int32")):
    for i, j, k in T.grid(8, 6, 12):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
"""
VECTORS = """
@T.prim_func
def main(A: T.Buffer((16,), "int4"), B: T.Buffer((16,), "int4")):
    T_ = T.alloc_buffer((4,), "int4")
    for i in range(4):
        T_[0:4] = A[i * 4:i * 4 + 4] + A[i * 4:i * 4 + 4]
        B[i * 4:i * 4 + 4] = T_[0:4]
"""


def test_sums_of_narrow_integers_wrap():
    agree(ti.tir.parse(SUM)["main"], numbers("int4", 5, 9), np.zeros(5, ml_dtypes.int4))


def test_a_product_that_is_summed_in_words_is_a_contraction():
    func = ti.tir.parse(PRODUCT)["main"]
    agree(func, numbers("int4", 8, 12), numbers("uint4", 12, 6), np.zeros((8, 6), np.int32))
    assert "raised: contraction" in str(ti.lift(func).report)


def test_vectors_and_buffers_of_its_own():
    agree(ti.tir.parse(VECTORS)["main"], numbers("int4", 16), np.zeros(16, ml_dtypes.int4))


def test_jax_arrays_and_traces_keep_the_type():
    func = ti.tir.parse(TEXT.format("int4", "int4", BODIES["polynomial"]))["main"]
    a, b = numbers("int4", 2, 37)
    wanted = ti.tir.interpret(func, a, b, a)[2]
    program = ti.lift(func)
    for call in (program, jax.jit(program)):
        (found,) = call(jnp.asarray(a), jnp.asarray(b), jnp.asarray(a))
        assert isinstance(found, jax.Array) and found.dtype == jnp.int4
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_bytes_are_not_taken_for_narrow_integers():
    program = ti.lift(ti.tir.parse(TEXT.format("int4", "int4", "A[i]"))["main"])
    with pytest.raises(DiagnosticError, match=r"'A' holds int4, but the array holds int8"):
        program(np.zeros(37, np.int8), np.zeros(37, ml_dtypes.int4), None)


def test_programs_are_compared_on_numbers_in_range():
    def lifted(name: str, body: str) -> Any:
        return ti.tir.parse(TEXT.format(name, "int32", body))["main"]

    plain = lifted("int4", 'T.Cast("int32", A[i] + B[i])')
    wrapped = lifted("int4", '(T.Cast("int32", A[i]) + T.Cast("int32", B[i]) + 8) % 16 - 8')
    assert ti.equivalent(plain, wrapped).agree
    assert not ti.equivalent(plain, lifted("int4", 'T.Cast("int32", A[i]) + T.Cast("int32", B[i])'))
    with pytest.raises(DiagnosticError, match="TL04"):
        ti.equivalent(lifted("int4", 'T.Cast("int32", A[i])'), lifted("int8", 'T.Cast("int32", A[i])'))


REFUSED = {
    "a view": (
        '@T.prim_func\ndef main(A: T.Buffer((8,), "int4"), B: T.Buffer((4,), "int8")):\n'
        '    V = T.decl_buffer((4,), "int8", data=A.data)\n    for i in range(4):\n        B[i] = V[i]\n',
        "<tir>:3:5: error[TL01]: 'V' shows int4 as int8, and where the bits of int4 lie is not said.\n"
        '      V = T.decl_buffer((4,), "int8", data=A.data)\n'
        "      ^\n"
        "help: convert the elements: T.Cast.",
    ),
    "a narrow float": (
        TEXT.format("float4_e2m1fn", "float32", 'T.Cast("float32", A[i])'),
        "<tir>:3:10: error[TL01]: the tensor IR has no elements of type float4_e2m1fn.\n"
        '  def main(A: T.Buffer((37,), "float4_e2m1fn"), B: T.Buffer((37,), "float4_e2m1fn"), '
        'C: T.Buffer((37,), "float32…\n'
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: hold it in a wider type, such as float32 or int32.",
    ),
}


@pytest.mark.parametrize("text, told", REFUSED.values(), ids=REFUSED)
def test_what_has_no_exact_form_is_refused_by_name(text: str, told: str):
    with pytest.raises(DiagnosticError) as caught:
        ti.lift(ti.tir.parse(text)["main"])
    assert str(caught.value) == told
