"""Numbers of Python at every door: they take the element type that is there, and one that it cannot hold is refused."""

import numpy as np
import pytest

import tensorir as ti
from stencils.cli.run import _number as set_on_the_command_line
from tensorir.ir.types import DTYPES, SCALARS
from tensorir.runtime.errors import DiagnosticError

I, J = ti.dims("I J")
BEYOND = {
    "int8": 300, "uint8": -1, "int16": 40_000, "uint32": 2**32, "int32": 2**40, "int64": 2**63, "uint64": -1,
    "float16": 7e4, "bfloat16": 1e39, "float32": 1e300,
}  # fmt: skip
"""A number that each type cannot hold."""


@ti.field_operator
def added(x, k):
    return x + k


@ti.field_operator
def added_in_tuple(x, ks):
    return x + ks[0] * ks[1]


@ti.field_operator
def chosen(x, k):
    return ti.where(x > x, x, k)


@ti.field_operator
def joined(x, k):
    return ti.concat_where(I < 1, x, k)


@ti.field_operator
def inner(x, k):
    return added(x, k)


@ti.scan_operator(axis=I, init=True)
def risen(state, x, k):
    return state & (x < k)


@ti.program
def written(x, k, out):
    added(x, k, out=out)


def field(t):
    return ti.as_field([I], np.ones(2, DTYPES[SCALARS[t]]))


def fencil(t):
    return ti.parse(f"f(y: tensor<{t}, I[0:2]>, x: tensor<{t}, I[0:2]>, k: tensor<{t}>) {{ y ← x + k; }}")


def called(t, k):
    return ti.field_operator(lambda x, k: fencil(t)(x=x, k=k)["y"])(field(t), k)


def annotated(t, k):
    def f(x, k: SCALARS[t]):
        return x + k

    return ti.field_operator(f)(field(t), k)


def of_tir(t):
    return ti.tir.parse(f'''@T.prim_func
def main(x: T.Buffer((2,), "{t}"), k: T.{t}):
    for i in range(2):
        x[i] = x[i] + k
''')["main"]


DOORS = {
    "an argument of an operator": lambda t, k: added(field(t), k),
    "one that is computed with": lambda t, k: added_in_tuple(field(t), (k, 1)),
    "one of ti.where": lambda t, k: chosen(field(t), k),
    "one of concat_where": lambda t, k: joined(field(t), k),
    "one of an operator within": lambda t, k: inner(field(t), k),
    "one of a scan operator": lambda t, k: risen(field(t), k),
    "one of ti.program": lambda t, k: written(field(t), k, field(t)),
    "one that is annotated": annotated,
    "one of a program within": called,
    "a step of ti.iterate": lambda t, k: ti.iterate(lambda x: added(x, k), field(t), 2),
    "arithmetic in a step": lambda t, k: ti.iterate(lambda x: x + k, field(t), 2),
    "a number in an operator": lambda t, k: ti.field_operator(lambda x: x + k)(field(t)),
    "a parameter": lambda t, k: fencil(t)(x=field(t), k=k),
    "a list": lambda t, k: fencil(t)(x=[0, k], k=1),
    "a constant": lambda t, k: fencil(t).bind(k=k),
    "arithmetic of a Field": lambda t, k: field(t) * k,
    "a number before a Field": lambda t, k: k - field(t),
    "a function of NumPy": lambda t, k: np.add(field(t), k),
    "ti.full": lambda t, k: ti.full({I: 2}, k, SCALARS[t]),
    "a boundary": lambda t, k: ti.extend(field(t), {I: 1}, ti.boundary.dirichlet(k)),
    "a scalar of an element type": lambda t, k: SCALARS[t](k),
    "--set": lambda t, k: set_on_the_command_line("k", str(k), SCALARS[t]),
    "a lifted kernel": lambda t, k: ti.lift(of_tir(t))(np.ones(2, DTYPES[SCALARS[t]]), k),
    "an interpreted kernel": lambda t, k: ti.tir.interpret(of_tir(t), np.ones(2, DTYPES[SCALARS[t]]), k),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("element", BEYOND)
def test_a_number_that_its_type_cannot_hold_is_refused(door, element):
    refused = ValueError if door == "a scalar of an element type" else DiagnosticError
    with pytest.raises(refused, match=r"\b(A07|S12|TA04|C04)\b|cannot hold"):
        DOORS[door](element, BEYOND[element])


def test_one_that_it_holds_is_taken_as_it_is():
    assert added(field("int8"), 126).data.tolist() == [127, 127]
    assert added_in_tuple(field("int16"), (300, 100)).data.tolist() == [30_001, 30_001]
    assert np.isposinf(added(field("float32"), float("inf")).data).all()
    assert (field("float16") * 65504).data.tolist() == [65504.0, 65504.0]


def test_what_is_computed_of_numbers_does_not_wrap_before_it_meets_a_field():
    with pytest.raises(DiagnosticError) as found:
        added_in_tuple(field("int64"), (2**31 - 1, 2))
    assert str(found.value).splitlines()[0].endswith("'ks[0] × ks[1]' is int32, which cannot hold 4294967294.")


def test_what_a_call_says_of_a_number_that_a_field_cannot_hold():
    with pytest.raises(DiagnosticError) as found:
        added(field("int8"), 300)
    line = added.function.__code__.co_firstlineno + 2
    assert str(found.value) == (
        f"test_numbers_of_python.py:{line}:12: error[A07]: 'k' is int8, which cannot hold 300.\n"
        "      return x + k\n"
        "             ^^^^^\n"
        "help: a number takes the type of the field that it meets: convert the field, ti.astype(x, ti.int64), or the "
        "number."
    )


def test_what_arithmetic_of_fields_says_of_such_a_number():
    with pytest.raises(DiagnosticError) as found:
        field("float32") * 1e300
    assert str(found.value) == (
        "error[A07]: the field is float32, which cannot hold 1e+300.\n"
        "help: convert the field, field.data.astype('float64'), or the number."
    )


def test_a_field_of_whole_numbers_is_not_filled_with_a_float():
    with pytest.raises(DiagnosticError) as found:
        ti.full({I: 2}, 1.5, ti.int32)
    assert str(found.value) == (
        "error[A02]: the value 1.5 is a float, and the field is int32.\nhelp: write a whole number."
    )


def test_a_float_in_an_operator_says_where_its_type_ends():
    with pytest.raises(DiagnosticError) as found:
        DOORS["a number in an operator"]("float16", 7e4)
    assert "error[S12]: 70000.0 is not a float16.\n" in str(found.value)
    assert str(found.value).endswith("help: float16 ends at 6.55e+04; write float('inf') if that is meant.")


def test_a_launch_of_a_tile_kernel_refuses_a_float_beyond_its_parameter():
    module = ti.tile.parse("""cuda_tile.module @m {
  entry @main(%x: tile<ptr<f32>>, %k: tile<f32>) {
    return
  }
}""")
    with pytest.raises(DiagnosticError, match=r"error\[TK03\]: the parameter %k of 'main' is of type f32, which 1e"):
        ti.tile.interpret(module, None, [np.zeros(2, np.float32), 1e300], (1,))
