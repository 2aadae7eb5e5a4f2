"""Buffers for outputs of every layout in memory, bare and in what names their axes: written whole, or refused."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

I, J = ti.dims("I J")
PROGRAM = ti.parse("f(o: tensor<float, I[0:2], J[0:3]>, x: tensor<float, I[0:2], J[0:3]>) { o ← x + 1.0; }")
EXPECTED = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def read_only():
    o = np.zeros((2, 3))
    o.flags.writeable = False
    return o


LAYOUTS = {
    "in one piece": lambda: np.zeros((2, 3)),
    "big-endian": lambda: np.zeros((2, 3), ">f8"),
    "by columns": lambda: np.zeros((2, 3), order="F"),
    "every other element": lambda: np.zeros((4, 9))[::2, ::3],
    "backwards": lambda: np.zeros((2, 3))[::-1, ::-1],
    "big-endian, backwards": lambda: np.zeros((2, 6), ">f8")[::-1, ::2],
    "between other bytes": lambda: np.zeros(6 * 8 + 1, np.uint8)[1:].view("f8").reshape(2, 3),
    "a field of records": lambda: np.zeros((2, 3), [("a", "i4"), ("b", "f8")])["b"],
    "with a mask of nothing": lambda: np.ma.masked_array(np.zeros((2, 3))),
}
REFUSED = {
    "read-only": (read_only, "A12"),
    "one row for all": (lambda: np.broadcast_to(np.zeros(3), (2, 3)), "A12"),
    "one row for all, writable": (lambda: np.lib.stride_tricks.as_strided(np.zeros(3), (2, 3), (0, 8)), "A12"),
    "rows that overlap": (lambda: np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8)), "A12"),
    "with masked points": (lambda: np.ma.masked_array(np.zeros((2, 3)), mask=[[0, 1, 0]] * 2), "A01"),
}
HOLDERS = {
    "bare": lambda o: o,
    "in a DataArray": lambda o: xr.DataArray(o, dims=("I", "J")),
    "in a turned DataArray": lambda o: xr.DataArray(o, dims=("I", "J")).transpose(),
    "in a Variable": lambda o: xr.Variable(("I", "J"), o),
    "in a Field": lambda o: ti.as_field([I, J], o),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_buffer_is_written_where_it_lies(layout, holder):
    memory = LAYOUTS[layout]()
    given = HOLDERS[holder](memory)
    result = PROGRAM(o=given, x=np.arange(6.0).reshape(2, 3))["o"]
    assert result is given
    copied = isinstance(memory, np.ma.MaskedArray) and holder.endswith(("DataArray", "Variable"))  # xarray does that
    assert np.asarray(given.transpose("I", "J") if copied else memory).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("layout", "holder"),
    # of what has masked points xarray makes a copy
    [(a, b) for a in REFUSED for b in HOLDERS if a != "with masked points" or b in ("bare", "in a Field")],
)
def test_a_buffer_that_cannot_hold_the_result_is_refused(layout, holder):
    make, code = REFUSED[layout]
    with pytest.raises(DiagnosticError, match=rf"error\[{code}\]"):
        PROGRAM(o=HOLDERS[holder](make()), x=np.zeros((2, 3)))


def test_a_part_of_a_big_endian_array_is_written_by_its_coordinates():
    whole = xr.DataArray(np.zeros((4, 3), ">f8"), dims=("I", "J"), coords={"I": np.arange(-1, 3)})
    PROGRAM(o=whole, x=np.arange(6.0).reshape(2, 3))
    assert whole.values.tolist() == [[0.0] * 3, *EXPECTED, [0.0] * 3]


def test_the_input_itself_may_be_the_output_in_another_order():
    x = np.arange(6.0).reshape(2, 3)
    PROGRAM(o=x[::-1], x=x)
    assert x[::-1].tolist() == EXPECTED


TWO = ti.parse("f(a: tensor<float, I[0:3]>, b: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { a ← x; b ← x + x; }")


def test_two_outputs_are_not_one_buffer():
    buffer = np.zeros(4)
    with pytest.raises(DiagnosticError) as found:
        TWO(a=buffer[:3], b=ti.as_field([I], buffer[1:]), x=np.ones(3))
    assert str(found.value) == (
        "error[A12]: 'a' and 'b' are outputs, and their buffers share memory.\nhelp: pass a copy: b=b.copy()."
    )


def test_two_outputs_may_lie_between_each_other():
    buffer = np.zeros((3, 2))
    TWO(a=buffer[:, 0], b=buffer[:, 1], x=np.ones(3))
    assert buffer.tolist() == [[1.0, 2.0]] * 3


def test_elements_that_share_memory_are_no_buffer():
    with pytest.raises(DiagnosticError) as found:
        PROGRAM(o=REFUSED["rows that overlap"][0](), x=np.zeros((2, 3)))
    assert str(found.value) == (
        "error[A12]: 'o' is an output, and several elements of its buffer share memory.\n"
        "help: pass a copy, which has memory for each."
    )


def test_numbers_that_stay_in_a_file_are_no_buffer(tmp_path):
    xr.Dataset({"o": (("I", "J"), np.zeros((2, 3)))}).to_netcdf(tmp_path / "o.nc")
    with xr.open_dataset(tmp_path / "o.nc", cache=False) as dataset, pytest.raises(DiagnosticError) as found:
        PROGRAM(o=dataset["o"], x=np.zeros((2, 3)))
    assert str(found.value) == (
        "error[A12]: 'o' is an output, and its numbers are read from a file whenever they are asked for.\n"
        "help: read them first: o.load()."
    )


def test_an_operator_writes_a_big_endian_data_array():
    o = xr.DataArray(np.zeros(2, ">f8"), dims="I")
    ti.field_operator(lambda x: x * 2.0)(xr.DataArray(np.ones(2), dims="I"), out=o)
    assert o.values.tolist() == [2.0, 2.0]
