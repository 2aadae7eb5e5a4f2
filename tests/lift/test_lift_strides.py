"""How arrays and buffers lie in memory: strides and offsets as the interpreter and the lift bind and honour them.

What a flat view shows is worked out by hand from the strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

Run = Callable[..., Any]


def interpreted(func: Any, *arrays: Any) -> Any:
    return ti.tir.interpret(func, *arrays)[-1]


def lifted(func: Any, *arrays: Any) -> Any:
    return ti.lift(func)(*arrays)[-1]


BOTH = pytest.mark.parametrize("run", [interpreted, lifted])

USUAL = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((4,), "int32")):
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n,), "int32", strides=(s,))
    A_1 = T.decl_buffer((s * n,), "int32", data=A.data)
    for i in range(4):
        B[i] = A_1[i * s] + 1
"""

FLAT = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((6,), "int32")):
    s = T.int64()
    t = T.int64()
    A = T.match_buffer(a, (2, 3), "int32", {layout})
    A_1 = T.decl_buffer((6,), "int32", data=A.data)
    for i in range(6):
        B[i] = A_1[i]
"""

STEPS = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((3,), "int64")):
    s = T.int64()
    t = T.int64()
    A = T.match_buffer(a, (2, 3), "int32", strides=(s, t))
    B[0] = s
    B[1] = t
    B[2] = T.Cast("int64", A[1, 0])
"""


def func(text: str, **parts: str) -> Any:
    return ti.tir.parse(text.format(**parts))["main"]


def ints(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@BOTH
def test_a_symbolic_stride_is_that_of_the_array(run: Run):
    assert run(func(USUAL), np.array([1, 2, 3, 4], np.int32), np.zeros(4, np.int32)).tolist() == [2, 3, 4, 5]


def test_a_jax_array_lies_row_by_row():
    assert lifted(func(STEPS), jnp.asarray(ints(2, 3)), np.zeros(3, np.int64)).tolist() == [3, 1, 3]


@BOTH
@pytest.mark.parametrize(
    ("array", "steps"),
    [(ints(2, 3), [3, 1, 3]), (np.asfortranarray(ints(2, 3)), [1, 2, 3]), (ints(4, 9)[::2, ::3], [18, 3, 18])],
)
def test_strides_are_told_by_the_array_whatever_its_order(run: Run, array: Any, steps: list[int]):
    assert run(func(STEPS), array, np.zeros(3, np.int64)).tolist() == steps


@BOTH
def test_a_flat_view_shows_the_order_of_memory(run: Run):
    program = func(FLAT, layout="strides=(s, t)")
    assert run(program, np.asfortranarray(ints(2, 3)), np.zeros(6, np.int32)).tolist() == [0, 3, 1, 4, 2, 5]
    assert run(program, ints(2, 3), np.zeros(6, np.int32)).tolist() == [0, 1, 2, 3, 4, 5]


def test_one_lifted_program_takes_arrays_of_either_order_by_turns():
    program = ti.lift(func(FLAT, layout="strides=(s, t)"))
    for _ in range(2):
        assert program(ints(2, 3), np.zeros(6, np.int32))[0].tolist() == [0, 1, 2, 3, 4, 5]
        assert program(np.asfortranarray(ints(2, 3)), np.zeros(6, np.int32))[0].tolist() == [0, 3, 1, 4, 2, 5]


@BOTH
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("strides=(8, 1)", "a stride of 'A' is 3, but must be 8."),
        ("strides=(1, 2)", "a stride of 'A' is 3, but must be 1."),
        ("strides=(s, s)", "a stride of 'A' is 1, but must be 3."),
        ("elem_offset=2", "the offset of 'A' is 0, but must be 2."),
    ],
)
def test_what_a_buffer_declares_of_its_layout_must_be_the_arrays(run: Run, layout: str, message: str):
    text = FLAT.replace('    A_1 = T.decl_buffer((6,), "int32", data=A.data)\n', "").replace(
        "A_1[i]", "A[i // 3, i % 3]"
    )
    with pytest.raises(DiagnosticError) as caught:
        run(func(text, layout=layout), ints(2, 3), np.zeros(6, np.int32))
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("TA03", message)]


def test_a_view_of_memory_with_gaps_is_not_lifted():
    with pytest.raises(DiagnosticError) as caught:
        lifted(func(USUAL), ints(8)[::2], np.zeros(4, np.int32))
    assert str(caught.value) == (
        "<tir>:7:5: error[TL01]: 'A_1' shows the memory of 'A', which has gaps or repeats elements.\n"
        '      A_1 = T.decl_buffer((s * n,), "int32", data=A.data)\n'
        "      ^^^\n"
        "help: pass an array without: numpy.ascontiguousarray."
    )


@pytest.mark.parametrize(
    "statement",
    ["B[T.Ramp(0, 1, {lanes})] = A[T.Ramp(0, 1, {lanes})]", "B[T.Ramp(0, 1, {lanes})] = T.Broadcast(1, {lanes})"],
)
@pytest.mark.parametrize(("lanes", "dtype"), [("T.vscale()", "int32xvscalex1"), ("T.vscale() * 4", "int32xvscalex4")])
def test_vectors_of_a_length_that_a_machine_tells_are_refused_by_name(statement: str, lanes: str, dtype: str):
    text = f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    {statement.format(lanes=lanes)}
"""
    program = ti.tir.parse(text)["main"]
    for run, code, why in (
        (interpreted, "TR20", "has T.vscale() times as many lanes, which a machine tells: it cannot be interpreted."),
        (lifted, "TL01", "has as many lanes as the machine says, and no program has a machine."),
    ):
        with pytest.raises(DiagnosticError) as caught:
            run(program, ints(8), np.zeros(8, np.int32))
        (said,) = caught.value.diagnostics
        assert (said.code, said.message) == (code, f"{dtype} {why}")
