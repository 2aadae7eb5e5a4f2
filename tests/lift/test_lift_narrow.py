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


def numbers(name: str, *shape: int) -> Any:
    limits = ml_dtypes.iinfo(name)
    found = np.random.default_rng(5).integers(limits.min, limits.max, shape, endpoint=True)
    return found.astype(np.int8).astype(getattr(ml_dtypes, name))


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
