"""Arguments of compiled programs: fields, sizes, tables, and outputs that are written in place."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

# `ti.Field` as an array


I, J = ti.Dimension("I"), ti.Dimension("J")
DATA = np.arange(12.0).reshape(3, 4)


@ti.field_operator
def doubled(a: ti.Field[[I, J], ti.float64]) -> ti.Field[[I, J], ti.float64]:
    return a + a


@ti.program
def into(a: ti.Field[[I, J], ti.float64], out: ti.Field[[I, J], ti.float64]):
    doubled(a, out=out)


def field(data=DATA):
    return ti.as_field({I: (-1, 2), J: (2, 6)}, data)


@pytest.mark.parametrize(
    ("places", "dims", "wanted"),
    [
        ({I: -1}, "J[2:6]", DATA[0]),
        ({"J": 5, I: 1}, "no dims", DATA[2, 3]),
        ({I: (0, 2)}, "I[0:2], J[2:6]", DATA[1:]),
        ({J: slice(3, None)}, "I[-1:2], J[3:6]", DATA[:, 1:]),
        ({J: slice(3, 5), I: 0}, "J[3:5]", DATA[1, 1:3]),
        ({J: (3, 3)}, "I[-1:2], J[3:3]", DATA[:, :0]),
        ({}, "I[-1:2], J[2:6]", DATA),
    ],
)
def test_places_are_said_by_dims(places, dims, wanted):
    for f in (field(), field(jnp.asarray(DATA))):
        found = f[places]
        assert str(found.dims) == dims
        np.testing.assert_array_equal(np.asarray(found.data), wanted)


@pytest.mark.parametrize(
    ("places", "says"),
    [({I: 2}, "lies outside"), ({I: (-2, 0)}, "lies outside"), ({"K": 0}, "no dim K"), (0, "says no dim"),
     ({I: "a"}, "no place along a dim"), ({I: slice(0, 2, 2)}, "no place along a dim")],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(places, says):
    with pytest.raises(DiagnosticError, match=says):
        field()[places]


@pytest.mark.parametrize("method", ["sum", "prod", "mean", "max", "min"])
def test_reductions_go_over_named_dims(method):
    numpy = getattr(np, method)
    for f in (field(), field(jnp.asarray(DATA))):
        np.testing.assert_allclose(getattr(f, method)(I).data, numpy(DATA, 0))
        assert str(getattr(f, method)("I").dims) == "J[2:6]"
        np.testing.assert_allclose(getattr(f, method)(), numpy(DATA))
        np.testing.assert_allclose(getattr(f, method)("J", I), numpy(DATA))
        np.testing.assert_allclose(numpy(f), numpy(DATA))
    with pytest.raises(DiagnosticError, match="no dim K"):
        getattr(field(), method)("K")
    with pytest.raises(DiagnosticError, match="no axis"):
        numpy(field(), axis=0)


def test_functions_of_numpy_keep_the_dims():
    f = field()
    other = ti.as_field({J: (1, 4), I: (0, 5)}, np.arange(15.0).reshape(3, 5))
    assert np.sqrt(f).dims == f.dims and isinstance(np.float64(2) * f, ti.Field)
    for a, b in ((f, other), (field(jnp.asarray(DATA)), other)):
        found = np.hypot(a, b)
        assert str(found.dims) == "I[0:2], J[2:4]"
        np.testing.assert_allclose(found.data, np.hypot(DATA[1:, :2], np.asarray(other.data)[1:, :2].T))
    row = ti.as_field({J: (2, 6)}, np.arange(4.0))
    np.testing.assert_array_equal(np.maximum(f, row).data, np.maximum(DATA, np.arange(4.0)))
    with pytest.raises(DiagnosticError, match="an array without names meets a field in add"):
        np.ones(4) + f
    with pytest.raises(DiagnosticError, match="no point of I in common"):
        np.add(f, ti.as_field({I: (7, 9)}, np.ones(2)))


def test_fields_of_a_trace_are_differentiated():
    with jax.enable_x64(True):
        slope = jax.grad(lambda x: np.sin(field(x))[{I: 0}].sum())(jnp.asarray(DATA))
    wanted = np.zeros_like(DATA)
    wanted[1] = np.cos(DATA[1])
    np.testing.assert_allclose(slope, wanted, rtol=1e-12)


def test_fields_operators_and_programs_are_pickled_and_copied():
    for again in (pickle.loads(pickle.dumps(field())), copy.deepcopy(field())):
        assert again.dims == field().dims
        np.testing.assert_array_equal(again.data, DATA)
    for one in (doubled, into):
        assert pickle.loads(pickle.dumps(one)) is one and copy.copy(one) is one and copy.deepcopy(one) is one

    @ti.field_operator
    def local(a: ti.Field[[I], ti.float64]) -> ti.Field[[I], ti.float64]:
        return a

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


def test_narrow_arrays_of_jax_are_told_how_to_be_wide():
    program = ti.compile(ti.parse("f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { y ← 2.0 × x; }"))
    narrow = jnp.ones(3, "float32")
    told = "inside of `with jax.enable_x64\\(True\\):`, or write float32"
    for value in (narrow, ti.as_field({I: 3}, narrow)):
        with pytest.raises(DiagnosticError, match=told):
            program(x=value)
    with pytest.raises(DiagnosticError, match=told):
        doubled(field(jnp.asarray(DATA, "float32")))
    with pytest.raises(DiagnosticError, match=r"pass x\.astype"):
        program(x=np.ones(3, np.float32))


# Sizes are whole numbers, and tables are validated before their type is converted

C = ti.Dimension("C")
local = ti.Dimension("L", kind="local")
C2I = ti.FieldOffset("C2I", source=I, target=(C, local))

SUM = "g(out: tensor<float>, x: tensor<float, I[0:10]>) { out ← reduce(+, 0.0, I)(x[I[0:n]]); }"
NEIGHBOUR = (
    "f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:1]>, x: tensor<float, I[0:3]>) { y ← ⟪T, 0⟫(x); }"
)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, jnp.array])
def test_a_size_of_every_kind_is_part_of_what_a_call_means(kind: Any):
    compiled = ti.compile(ti.parse(SUM))
    x = np.arange(10.0)
    found = [float(compiled(x=x, n=kind(n))["out"]) for n in (2, 4, 10, 2)]
    assert found == [1.0, 6.0, 45.0, 1.0]


@pytest.mark.parametrize("value", [2.9, "3", 2.0, True, np.array(2.0), np.array([2]), np.bool_(True), None])
def test_a_size_that_is_no_whole_number_is_refused_by_name(value: Any):
    template = ti.parse(SUM)
    for call in (
        lambda: template(x=np.arange(10.0), n=value),
        lambda: template.bind(n=value),
        lambda: template.specialise(n=value),
        lambda: ti.compile(template)(x=np.arange(10.0), n=value),
    ):
        with pytest.raises(ti.DiagnosticError, match="sizes are whole numbers"):
            call()


def test_the_message_about_a_size():
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse(SUM).specialise(n=2.9)
    assert str(error.value) == "error[B11]: the size 'n' is 2.9, and sizes are whole numbers.\nhelp: write n=10."


TABLES = [[[0], [2]], [[2], [1]], [[1], [0]]]


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_a_table_is_part_of_what_a_call_means(array: Any):
    compiled = ti.compile(ti.parse(NEIGHBOUR), full=("T",))
    x = np.array([10.0, 20.0, 30.0])
    found = [np.asarray(compiled(x=x, T=array(np.array(t, "int32")))["y"]).tolist() for t in TABLES]
    assert found == [[10.0, 30.0], [30.0, 20.0], [20.0, 10.0]]


@pytest.mark.parametrize("entry", [np.int64(2**32 + 1), np.uint32(2**32 - 1), np.uint64(2**64 - 1)])
def test_an_entry_of_a_table_is_refused_as_it_was_passed(entry: Any):
    table = np.array([[entry], [0]], entry.dtype)
    x = np.arange(3.0)
    program = ti.parse(NEIGHBOUR)
    template = ti.parse(NEIGHBOUR.replace("I[0:3]", "I[0:n]"))
    for call in (
        lambda: program.bind(T=table),
        lambda: program(T=table, x=x),
        lambda: template.bind(T=table, n=3),
        lambda: template(T=table, x=x),
        lambda: ti.reference.run(program, T=table, x=x),
    ):
        with pytest.raises(ti.DiagnosticError, match=str(int(entry))):
            call()


def test_an_entry_of_the_tables_dimension_that_its_type_cannot_hold_is_refused():
    text = NEIGHBOUR.replace("T: tensor<int,", "T: tensor<int8,").replace("I[0:3]", "I[0:300]")
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse(text).bind(T=np.array([[299], [0]]))
    assert str(error.value) == (
        "error[A07]: the table 'T' is int8, which cannot hold 299.\nhelp: declare a wider type."
    )


def test_a_table_of_an_offset_provider_is_refused_as_it_was_passed():
    @ti.field_operator
    def first(x: ti.Field[[I], ti.float64]) -> ti.Field[[C], ti.float64]:
        return x(C2I[0])

    with pytest.raises(ti.DiagnosticError, match="4294967297"):
        first(np.arange(3.0), offset_provider={"C2I": np.array([[2**32 + 1], [0]])})


@pytest.mark.parametrize("source", [0, 3])
@pytest.mark.parametrize("slots", [0, 2])
def test_a_bound_table_without_slots_or_without_a_source_finds_nothing(source: int, slots: int):
    program = ti.parse(
        f"f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:{slots}]>, x: tensor<float, I[0:{source}]>) "
        "{ y ← reduce(+, 0.5)(⟪T⟫(x)); }"
    )
    table = np.full((2, slots), -1)
    for run in (program.bind(T=table), ti.compile(program.bind(T=table)), lambda x: program(x=x, T=table)):
        assert run(x=np.ones(source))["y"].tolist() == [0.5, 0.5]


START = 2**32
FAR = f"f(y: tensor<float>, k: tensor<int>, x: tensor<float, I[{START}:{START + 4}]>) {{ y ← MODE(x, k); }}"


def test_a_narrow_index_does_not_wrap_into_an_interval_behind_its_type():
    x, k = np.arange(1.0, 5.0), np.int32(1)
    with pytest.raises(Exception, match="an index leaves"):
        ti.parse(FAR.replace("MODE", "gather(I)"))(x=x, k=k)
    assert ti.parse(FAR.replace("MODE", "gather(I, clamp)"))(x=x, k=k)["y"] == 1.0
    assert ti.parse(FAR.replace("MODE", "gather(I, zero)"))(x=x, k=k)["y"] == 0.0


def test_coordinates_that_int32_cannot_hold_are_refused():
    with pytest.raises(ti.DiagnosticError) as error:
        ti.parse("f(y: tensor<int, I[0:2147483649]>) { y ← pos(I, y); }")
    assert str(error.value) == (
        "<text>:1:49: error[T43]: coordinates are int32, and I[0:2147483649] has some that it cannot hold.\n"
        "  f(y: tensor<int, I[0:2147483649]>) { y ← pos(I, y); }\n"
        "                                                  ^\n"
        "help: rename I on an interval that begins at 0, and add the distance as int64."
    )


@pytest.mark.parametrize(("fold", "expected"), [("max_over", [True, False]), ("min_over", [False, False])])
def test_a_fold_of_bools_over_neighbours_says_any_or_all(fold: str, expected: list[bool]):
    @ti.field_operator
    def folded(x: ti.Field[[I], ti.bool]) -> ti.Field[[C], ti.bool]:
        return getattr(ti, fold)(x(C2I), axis=local)

    found = folded(np.array([True, False, False]), offset_provider={"C2I": np.array([[0, 1], [1, 2]])})
    assert np.asarray(found).tolist() == expected


def test_what_a_fold_computes_of_a_tensor_with_its_dim_may_lack_it():
    program = ti.parse(
        "f(y: tensor<float>, x: tensor<float, K[0:4]>) { y ← let s = reduce(+, 0.0, K)(x); "
        "reduce(λ(a: tensor<float>, v: tensor<float>) → a + v × s, 0.0, K)(x); }"
    )
    x = np.arange(4.0)
    assert program(x=x)["y"] == ti.reference.run(program, x=x)["y"] == 36.0


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_a_table_is_validated_in_every_call(array: Any):
    compiled = ti.compile(ti.parse(NEIGHBOUR), full=("T",))
    x = np.arange(3.0)
    for _ in range(2):
        compiled(x=x, T=array(np.array([[0], [2]], "int32")))
        with pytest.raises(ti.DiagnosticError, match="leaves its dimension"):
            compiled(x=x, T=array(np.array([[0], [3]], "int32")))


# Buffers for outputs of every layout in memory, bare and in what names their axes

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
