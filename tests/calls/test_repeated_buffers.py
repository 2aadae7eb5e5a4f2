"""A call into buffers or with numbers, like one before, goes straight to its program, and refuses what it did then."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.effort import count_calls_of_python

I, J = ti.dims("I J")
FIELD = ti.Field[[I, J], ti.float64]
RISE = (
    "f(out: tensor<float, I[0:3], J[0:4]>, x: tensor<float, I[0:4], J[0:4]>, c: float) { out ← c × (⟪I, 1⟫(x) - x); }"
)


def _numbers(k, rows=4):
    return np.random.default_rng(k).normal(size=(rows, 4))


def _labelled(data, start=0):
    coords = {"I": 0.5 * np.arange(start, start + len(data)), "J": [10, 20, 30, 40]}
    return xr.DataArray(data, coords, ("I", "J"), attrs={"units": "m"})


def _field(data, start=0):
    return ti.as_field({I: (start, start + len(data)), J: 4}, data)


def _operator():
    @ti.field_operator
    def rise(x: FIELD, c: ti.float64) -> FIELD:
        return c * (x(I + 1) - x)

    return rise


def _program():
    rise = _operator()

    @ti.program
    def run(x: FIELD, c: ti.float64, out: FIELD):
        rise(x, c, out=out)

    return run


CALLS = {
    "an operator": lambda: (lambda f: lambda x, c, out: f(x, c, out=out))(_operator()),
    "a program": lambda: _program(),
    "a compiled fencil": lambda: (lambda f: lambda x, c, out: f(x=x, c=c, out=out))(ti.compile(ti.parse(RISE))),
}
KINDS = {"bare": lambda data, start=0: data, "labelled": _labelled, "a field": _field}


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]()


@pytest.mark.parametrize("kind", KINDS)
def test_buffers_get_the_results_of_every_call(call, kind):
    make = KINDS[kind]
    for k in range(5):
        x, buffer, c = _numbers(k), np.full((3, 4), np.nan), (2, 0.5, -1, np.float64(3.0), 7)[k]
        out = make(buffer)
        call(make(x), c, out)
        np.testing.assert_array_equal(buffer, float(c) * (x[1:] - x[:-1]))
    x, out = make(x), make(buffer)
    count = count_calls_of_python(lambda: call(x, 0.25, out))
    assert count <= 120
    np.testing.assert_array_equal(buffer, 0.25 * (_numbers(4)[1:] - _numbers(4)[:-1]))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_call_writes_into_may_be_what_it_reads(call, kind):
    make = KINDS[kind]
    for k in range(4):
        x = _numbers(k)
        expected = 0.5 * (x[1:] - x[:-1])
        call(make(x), 0.5, make(x[:3]))
        np.testing.assert_array_equal(x[:3], expected)


def test_a_buffer_that_a_call_may_not_write_is_refused_after_calls_on_others(call):
    x = _numbers(1)
    good = np.zeros((3, 4))
    for _ in range(3):
        call(x, 1.0, good)
    fixed = np.zeros((3, 4))
    fixed.flags.writeable = False
    meeting = np.lib.stride_tricks.as_strided(np.zeros(16), (3, 4), (8, 8))
    for bad in (fixed, meeting):
        with pytest.raises(ti.DiagnosticError, match="A12"):
            call(x, 1.0, bad)
    strided = np.zeros((6, 4))[::2]
    call(x, 2.0, strided)
    np.testing.assert_array_equal(strided, 2 * (x[1:] - x[:-1]))


def test_a_buffer_without_elements_may_have_any_strides():
    f = ti.compile(ti.parse("f(y: tensor<float, I[0:0], J[0:3]>, x: tensor<float, I[0:0], J[0:3]>) { y ← 2.0 × x; }"))
    for _ in range(3):
        assert f(x=np.zeros((0, 3)), y=np.zeros((3, 0)).T)["y"].shape == (0, 3)


def test_a_number_that_a_type_cannot_hold_is_refused_after_calls_with_others():
    f = ti.compile(ti.parse("f(out: tensor<int8, I[0:3]>, x: tensor<int8, I[0:3]>, n: int8) { out ← x + n; }"))
    x = np.arange(3, dtype=np.int8)
    for n in (1, -3, 5):
        np.testing.assert_array_equal(f(x=x, n=n)["out"], x + np.int8(n))
    with pytest.raises(ti.DiagnosticError, match="A07"):
        f(x=x, n=300)
    with pytest.raises(ti.DiagnosticError, match="A02"):
        f(x=x, n=0.5)
    assert count_calls_of_python(lambda: f(x=x, n=7)) <= 80


def test_two_outputs_in_one_memory_are_refused_after_calls_on_two():
    text = "f(a: tensor<float, I[0:3]>, b: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { a ← x; b ← 2.0 × x; }"
    f, x, memory = ti.compile(ti.parse(text)), np.arange(3.0) + 1, np.zeros(7)
    for _ in range(3):
        f(x=x, a=memory[:3], b=memory[3:6])
        np.testing.assert_array_equal(memory[:6], [1, 2, 3, 2, 4, 6])
    for b in (memory[2:5], memory[:3], memory[1:6:2]):
        with pytest.raises(ti.DiagnosticError, match="A12"):
            f(x=x, a=memory[:3], b=b)
    interleaved = memory[1:7:2], memory[0:6:2]
    f(x=x, a=interleaved[0], b=interleaved[1])
    np.testing.assert_array_equal(memory[:6], [2, 1, 4, 2, 6, 3])


def test_a_check_that_fails_leaves_the_buffer_as_it_was():
    text = (
        "f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) "
        '{ out ← assert_(x, reduce(and, true, I)(x >= 0.0), "x is negative"); }'
    )
    f, out = ti.compile(ti.parse(text)), np.zeros(3)
    for x in (np.ones(3), np.full(3, 2.0)):
        f(x=x, out=out)
    for _ in range(2):
        with pytest.raises(ti.DiagnosticError, match="x is negative"):
            f(x=np.array([1.0, -1.0, 1.0]), out=out)
        np.testing.assert_array_equal(out, [2.0, 2.0, 2.0])
    f(x=np.full(3, 5.0), out=out)
    np.testing.assert_array_equal(out, [5.0, 5.0, 5.0])


def test_a_state_that_is_read_and_written_goes_on():
    f = ti.compile(ti.parse("f(s: tensor<float, I[0:5]>) { s[I[1:4]] ← 0.5 × s; }"))
    state, expected = np.arange(5.0), np.arange(5.0)
    for _ in range(4):
        assert f(s=state)["s"] is state
        expected[1:4] *= 0.5
        np.testing.assert_array_equal(state, expected)


def test_labels_of_the_buffer_place_it_in_every_call():
    curve = ti.field_operator(lambda x: x(I + 1) - 2.0 * x + x(I - 1))
    x = _labelled(_numbers(3, 7))
    expected = np.diff(x.values, 2, axis=0)
    for start, rows in [(1, 5), (2, 3), (1, 5), (3, 1), (2, 3)]:
        out = _labelled(np.zeros((rows, 4)), start).transpose("J", "I")
        out.encoding = {"scale_factor": 0.1}
        curve(x, out=out)
        np.testing.assert_allclose(out.transpose("I", "J"), expected[start - 1 : start - 1 + rows])
        assert not out.encoding
    for _ in range(2):
        with pytest.raises(ti.DiagnosticError):
            curve(x, out=_labelled(np.zeros((3, 4)), 5))


def test_values_from_outside_of_a_program_are_read_anew():
    rate = {"value": 2.0}
    scaled = ti.field_operator(lambda x: rate["value"] * x)

    @ti.program
    def run(x: FIELD, out: FIELD):
        scaled(x, out=out)

    x, out = _numbers(0), np.zeros((4, 4))
    for value in (2.0, 2.0, 3.0, 2.0):
        rate["value"] = value
        run(x, out)
        np.testing.assert_array_equal(out, value * x)


def test_sizes_that_labels_tell_are_not_those_of_a_bare_array():
    f = ti.compile(ti.parse("f(out: tensor<float, I[n:m]>, x: tensor<float, I[n:m]>) { out ← x + float(pos(I, x)); }"))
    x = xr.DataArray(np.zeros(4), {"I": np.arange(5, 9)}, ("I",))
    for _ in range(3):
        np.testing.assert_array_equal(f(x=x)["out"], [5.0, 6.0, 7.0, 8.0])
    with pytest.raises(ti.DiagnosticError, match="B01"):
        f(x=np.zeros(4))


EDGE, VERTEX = ti.dims("Edge Vertex")
NEIGHBOURS = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=EDGE, target=(VERTEX, NEIGHBOURS))


def test_a_program_follows_its_neighbour_table_and_swapped_buffers():
    around = ti.field_operator(lambda x: ti.neighbor_sum(x(V2E), axis=NEIGHBOURS))

    @ti.program
    def run(x: ti.Field[[EDGE], ti.float64], out: ti.Field[[VERTEX], ti.float64]):
        around(x, out=out)

    table = np.array([[0, 1, 2], [1, 2, -1], [3, 0, 1], [2, 2, 2]], np.int32)
    x, out = np.array([0.5, 1.5, -2.0, 4.0]), np.zeros(4)
    for entry in (2, 2, 2, 0, -1, 3, 3):
        table[1, 1] = entry
        run(x, out, offset_provider={"V2E": table})
        np.testing.assert_allclose(out, [sum(x[k] for k in row if k >= 0) for row in table])
        x, out = out / 4, x
    assert count_calls_of_python(lambda: run(x, out, offset_provider={"V2E": table})) <= 80
    table[1, 1] = 4
    with pytest.raises(ti.DiagnosticError, match="A10"):
        run(x, out, offset_provider={"V2E": table})
