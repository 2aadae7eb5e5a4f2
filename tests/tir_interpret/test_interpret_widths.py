"""Memory seen as elements of another width, in the interpreter: little-endian bytes, told apart one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = "@T.prim_func\ndef main("


def test_a_view_has_the_bytes_of_its_memory():
    text = 'A: T.Buffer((2,), "float32"), B: T.Buffer((4,), "int16")):\n'
    text += '    V = T.decl_buffer((4,), "int16", data=A.data)\n'
    func = tir.parse(HEAD + text + "    for i in range(4):\n        B[i] = V[i]\n        V[i] = T.int16(0)\n")["main"]
    x = np.array([1.5, -2.0], np.float32)
    after = tir.interpret(func, x, np.zeros(4, np.int16))
    np.testing.assert_array_equal(after[1], x.view(np.int16))
    np.testing.assert_array_equal(after[0], [0, 0])


def test_iterations_that_write_other_bytes_of_one_element_do_not_meet():
    text = 'A: T.Buffer((2,), "float32")):\n    V = T.decl_buffer((8,), "uint8", data=A.data)\n'
    func = tir.parse(HEAD + text + "    for i in T.parallel(8):\n        V[i] = T.uint8(0)\n")["main"]
    np.testing.assert_array_equal(tir.interpret(func, np.ones(2, np.float32), checked=True)[0], [0, 0])


def test_what_is_unwritten_is_told_byte_by_byte_and_said_in_elements():
    text = 'B: T.Buffer((1,), "float32")):\n    M = T.alloc_buffer((2,), "float32")\n'
    text += '    V = T.decl_buffer((8,), "uint8", data=M.data)\n    for i in range(7):\n        V[i] = T.uint8(0)\n'
    func = tir.parse(HEAD + text + "    B[0] = M[1]\n")["main"]
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(func, np.zeros(1, np.float32), checked=True)
    assert str(caught.value) == (
        "<tir>:7:12: error[TR02]: element 1 of 'M' is read, but nobody has written it.\n"
        "      B[0] = M[1]\n"
        "             ^^^^"
    )


def test_a_view_that_starts_in_the_midst_of_an_element_is_an_error():
    text = 'A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float64")):\n'
    text += '    V = T.decl_buffer((1,), "float64", data=T.address_of(A[1]))\n    B[0] = V[0]\n'
    with pytest.raises(DiagnosticError) as caught:
        tir.interpret(tir.parse(HEAD + text)["main"], np.zeros(4, np.float32), np.zeros(1))
    assert str(caught.value) == (
        "<tir>:3:5: error[TR17]: 'V' starts in the midst of an element of float64, 8 bytes wide.\n"
        '      V = T.decl_buffer((1,), "float64", data=T.address_of(A[1]))\n'
        "      ^\n"
        "help: let it start at a multiple of 8 bytes."
    )
