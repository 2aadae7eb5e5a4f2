"""Memory seen as elements of another width: what the interpreter's bytes say, and buffers apart where bytes are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import operations

rng = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def ints(dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


HEAD = "@T.prim_func\ndef main("
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "the bytes of floats": (
        'A: T.Buffer((5, 3), "float32"), B: T.Buffer((60,), "uint8")):\n'
        '    V = T.decl_buffer((60,), "uint8", data=A.data)\n'
        "    for i in range(60):\n        B[i] = V[59 - i]\n",
        (floats(5, 3), ints("uint8", 60)),
    ),
    "a part of the halves, written": (
        'A: T.Buffer((7,), "float32"), B: T.Buffer((5,), "int16")):\n'
        '    V = T.decl_buffer((14,), "int16", data=A.data)\n'
        "    for i in range(5):\n        V[i * 2 + 3] = B[i]\n",
        (floats(7), ints("int16", 5)),
    ),
    "bytes written and read back as words": (
        'A: T.Buffer((4, 3), "int32"), B: T.Buffer((48,), "uint8"), C: T.Buffer((4, 3), "int32")):\n'
        '    V = T.decl_buffer((48,), "uint8", data=A.data)\n'
        "    for i in range(47):\n        V[i + 1] = B[i] ^ V[i + 1]\n"
        "    for i, j in T.grid(4, 3):\n        C[i, j] = A[i, j] * 3\n",
        (ints("int32", 4, 3), ints("uint8", 48), ints("int32", 4, 3)),
    ),
    "doubles over halves": (
        'A: T.Buffer((19,), "uint16"), B: T.Buffer((4,), "float64"), C: T.Buffer((4,), "float64")):\n'
        '    V = T.decl_buffer((4,), "float64", data=A.data)\n'
        "    for i in range(4):\n        C[i] = V[i]\n"
        "    for i in range(3):\n        V[i + 1] = B[i]\n",
        (rng.normal(size=5).astype(np.float64).view(np.uint16)[:19].copy(), rng.normal(size=4), np.zeros(4)),
    ),
    "a view at an offset": (
        'A: T.Buffer((16,), "uint8"), B: T.Buffer((3,), "float32")):\n'
        '    V = T.decl_buffer((3,), "float32", data=A.data, elem_offset=1)\n'
        "    for i in range(3):\n        V[i] = B[i] + V[i]\n",
        (floats(4).view(np.uint8).copy(), floats(3)),
    ),
    "words that move inside of themselves": (
        'A: T.Buffer((24,), "uint8")):\n'
        '    V = T.decl_buffer((6,), "int32", data=A.data)\n'
        "    for i in range(5):\n        V[i] = V[i + 1] + V[i]\n"
        "    for i in range(5):\n        V[i + 1] = V[i] * 3\n",
        (ints("uint8", 24),),
    ),
    "a wide element that reads the bytes it is stored into": (
        'A: T.Buffer((16,), "uint8")):\n'
        '    V = T.decl_buffer((4,), "uint32", data=A.data)\n'
        "    for i in range(4):\n"
        '        V[i] = T.Cast("uint32", A[i * 4 + 3]) * T.uint32(16777217) + T.Cast("uint32", A[i * 4])\n',
        (ints("uint8", 16),),
    ),
    "partly overlapping writes": (
        'B: T.Buffer((8,), "float32"), C: T.Buffer((40,), "int8")):\n'
        '    M = T.alloc_buffer((40,), "int8")\n'
        '    V = T.decl_buffer((10,), "float32", data=M.data)\n'
        '    W = T.decl_buffer((20,), "float16", data=M.data)\n'
        "    for i in range(40):\n        M[i] = T.int8(7)\n"
        "    for i in range(8):\n        V[i + 1] = B[i]\n"
        '    for i in range(9):\n        W[i * 2 + 1] = T.Cast("float16", B[i % 8])\n'
        "    for i in range(40):\n        C[i] = M[i]\n",
        (floats(8), ints("int8", 40)),
    ),
    "truth values as bytes": (
        'A: T.Buffer((9,), "bool"), B: T.Buffer((9,), "uint8"), C: T.Buffer((2,), "int32")):\n'
        '    V = T.decl_buffer((9,), "uint8", data=A.data)\n'
        '    W = T.decl_buffer((2,), "int32", data=A.data)\n'
        "    for i in range(9):\n        B[i] = V[i]\n"
        "    for i in range(2):\n        C[i] = W[i]\n"
        "    for i in range(9):\n        V[i] = T.uint8(1) - V[i]\n",
        (rng.integers(0, 2, 9).astype(bool), ints("uint8", 9), ints("int32", 2)),
    ),
    "vectors over bytes": (
        'A: T.Buffer((32,), "uint8"), B: T.Buffer((2,), "float32x4")):\n'
        '    V = T.decl_buffer((2,), "float32x4", data=A.data)\n'
        "    for i in range(2):\n        B[i] = V[1 - i]\n    for i in range(2):\n        V[i] = B[i] + B[i]\n",
        (floats(8).view(np.uint8).copy(), floats(2, 4)),
    ),
    "a pointer into the midst": (
        'A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "int16")):\n'
        '    V = T.decl_buffer((8,), "int16", data=T.address_of(A[2]))\n'
        "    for i in range(8):\n        B[i] = V[i]\n    for i in range(3):\n        V[i * 2] = T.int16(0)\n",
        (floats(6), ints("int16", 8)),
    ),
    "at indices that data tell": (
        'A: T.Buffer((6,), "float32"), P: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int16")):\n'
        '    V = T.decl_buffer((12,), "int16", data=A.data)\n'
        "    for i in range(5):\n        V[P[i]] = V[P[i]] + B[i]\n",
        (floats(6), np.array([3, 11, 3, 0, 4], np.int32), ints("int16", 5)),
    ),
    "in a loop that runs until it is done": (
        'A: T.Buffer((4,), "uint32"), n: T.Buffer((1,), "int32")):\n'
        '    V = T.decl_buffer((16,), "uint8", data=A.data)\n'
        "    n[0] = 0\n"
        "    while A[0] > T.uint32(255):\n"
        "        A[0] = A[0] // T.uint32(5)\n        V[n[0] + 4] = V[0]\n        n[0] = n[0] + 1\n",
        (ints("uint32", 4), np.zeros(1, np.int32)),
    ),
}
for narrow in ("bfloat16", "float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"):
    wide = "uint8" if narrow.startswith("float8") else "uint16"
    PROGRAMS[f"{narrow} in words"] = (
        f'A: T.Buffer((5,), "uint32"), B: T.Buffer((8,), "float32")):\n'
        f'    V = T.decl_buffer(({20 // int(np.dtype(wide).itemsize)},), "{narrow}", data=A.data)\n'
        f'    for i in range(7):\n        V[i + 1] = T.Cast("{narrow}", B[i])\n'
        f'    for i in range(8):\n        B[i] = T.Cast("float32", V[i])\n',
        (np.array([0x3C003C00] * 5, np.uint32), floats(8)),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_view_of_another_width_has_the_bytes_of_its_memory(name: str):
    text, arrays = PROGRAMS[name]
    func = tir.parse(HEAD + text)["main"]
    wanted = tir.interpret(func, *arrays)
    program = ti.lift(func)
    written = [k for k, a in enumerate(program.arguments) if a.written]
    for place, got in zip(written, program(*arrays), strict=True):
        assert got.tobytes() == np.asarray(wanted[place]).tobytes(), arrays_named(func, place)


def arrays_named(func: Any, place: int) -> str:
    return func.params[place].name


ARENA = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    M = T.alloc_buffer((128,), "uint8")
    B = T.decl_buffer((8,), "float32", data=M.data)
    D = T.decl_buffer((8,), "int32", data=M.data, elem_offset=8)
    E = T.decl_buffer((8,), "float64", data=M.data, elem_offset=8)
    for i in range(8):
        B[i] = A[i] * A[i]
    for i in range(8):
        D[i] = i * i
    for i in range(8):
        E[i] = T.Cast("float64", B[7 - i]) * T.Cast("float64", D[i])
    for i in range(8):
        C[i] = T.Cast("float32", E[i])
"""
REUSED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for k in range(2):
        M = T.alloc_buffer((64,), "uint8")
        B = T.decl_buffer((8,), "float32", data=M.data)
        D = T.decl_buffer((8,), "float64", data=M.data)
        E = T.decl_buffer((4,), "float32")
        for i in range(4):
            B[i] = A[i + k * 4] * A[i + k * 4]
        for i in range(4):
            E[i] = B[3 - i]
        for i in range(4):
            D[i] = T.Cast("float64", E[i])
        for i in range(4):
            C[i + k * 4] = T.Cast("float32", D[i])
"""


@pytest.mark.parametrize("text", [ARENA, REUSED], ids=["side by side", "one after the other"])
def test_an_arena_becomes_buffers_of_the_types_of_its_views_and_keeps_gradients(text: str):
    func = tir.parse(text)["main"]
    program = ti.lift(func)
    x = floats(8)
    np.testing.assert_array_equal(program(x, None)[0], tir.interpret(func, x, x)[1])
    assert not operations(program) & {"bitcast", "shift_left", "shift_right", "loop"}
    with jax.enable_x64(True):
        found = jax.grad(lambda a: jnp.sum(program(a, None)[0]))(jnp.asarray(x))
    back = [7, 6, 5, 4, 3, 2, 1, 0] if text is ARENA else [1] * 8
    factor = np.array([i * i for i in back]) if text is ARENA else np.ones(8)
    np.testing.assert_allclose(found, 2 * x * factor, rtol=1e-6)


# Integers of two and four bits: the lift holds them in bytes, and gives the interpreter's numbers.


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
