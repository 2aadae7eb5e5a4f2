"""The kind that comes in goes out, and nothing is converted, clamped or written silently."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti

SLOPE = ti.parse("slope(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
WIDE = ti.parse("w(out: tensor<float, J[0:2], I[0:3]>, x: tensor<float, I[0:3], J[0:2]>) { out ← 2.0 × x; }")
HEAT = ti.parse("heat(u: tensor<float, I[0:5]>) { u[I[1:4]] ← 0.5 × (⟪I, 1⟫(u) + ⟪I, -1⟫(u)); }")
X = np.array([0.0, 1.0, 4.0, 9.0, 16.0])
D = np.array([4.0, 8.0, 12.0])


def test_numpy_comes_back_as_numpy_and_jax_as_jax():
    assert type(SLOPE(x=X)["out"]) is np.ndarray
    with jax.enable_x64(True):
        out = SLOPE(x=jnp.asarray(X))["out"]
    assert isinstance(out, jax.Array)
    np.testing.assert_array_equal(out, D)


def test_calls_with_numpy_arrays_inside_of_a_trace_give_what_is_traced_each_time():
    c = ti.compile(WIDE)

    def twice(x):
        return x + c(x=np.ones((3, 2)))["out"] + c(x=np.full((3, 2), 2.0))["out"]

    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(twice)(np.zeros((2, 3))), np.full((2, 3), 6.0))


def test_a_data_array_keeps_coordinates_on_the_interval_of_the_result_name_and_attributes():
    x = xr.DataArray(
        X, dims="I", name="height", attrs={"units": "m"},
        coords={"I": np.arange(5), "lon": ("I", np.linspace(7.0, 8.0, 5)), "run": 3},
    )  # fmt: skip
    out = SLOPE(x=x)["out"]
    expected = xr.DataArray(
        D,
        dims="I",
        coords={"I": [1, 2, 3], "lon": ("I", [7.25, 7.5, 7.75]), "run": 3},
        attrs={"units": "m"},
        name="height",
    )
    xr.testing.assert_identical(out, expected)


def test_a_data_array_matches_by_name_and_its_integer_coordinates_are_its_interval():
    x = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("J", "I"), coords={"I": [-1, 0, 1, 2], "J": [0, 1, 2]})
    out = WIDE(x=x)["out"]
    assert out.dims == ("J", "I")
    np.testing.assert_array_equal(out, 2 * x.values[:2, 1:])


def test_a_data_array_without_integer_coordinates_starts_where_the_parameter_does():
    f = ti.parse("f(out: tensor<float, I[-2:1]>, x: tensor<float, I[-2:1]>) { out ← x; }")
    out = f(x=xr.DataArray([1.0, 2.0, 3.0], dims="I", coords={"I": [0.1, 0.2, 0.3]}))["out"]
    np.testing.assert_array_equal(out, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(out.coords["I"], [0.1, 0.2, 0.3])


def test_a_dataset_goes_in_and_a_dataset_comes_out():
    f = ti.parse(
        "f(a: tensor<float, I[0:2]>, b: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>) { a ← x + 1.0; b ← x × 2.0; }"
    )
    out = f(xr.Dataset({"x": ("I", [1.0, 2.0]), "other": 5}))
    assert isinstance(out, xr.Dataset) and list(out.data_vars) == ["a", "b"]
    np.testing.assert_array_equal(out.a, [2.0, 3.0])
    np.testing.assert_array_equal(out.b, [2.0, 4.0])


def test_a_field_comes_back_as_a_field_on_its_interval():
    (I,) = ti.dims("I")
    out = SLOPE(x=ti.as_field({I: (0, 5)}, X))["out"]
    assert repr(out) == "Field(float64, I[1:4])"
    np.testing.assert_array_equal(out.data, D)
    assert [leaf.shape for leaf in jax.tree_util.tree_leaves(out)] == [(3,)]


def test_tuples_are_nested_tuples_of_arrays():
    f = ti.parse(
        "f(out: tensor<(float, (int, bool)), I[0:2]>, x: tensor<(float, float), I[0:2]>) {"
        "  out ← (x[0] - x[1], (1, x[0] > x[1])); }"
    )
    a, (b, c) = f(x=(np.array([1.0, 2.0]), np.array([3.0, 1.0])))["out"]
    np.testing.assert_array_equal(a, [-2.0, 1.0])
    np.testing.assert_array_equal(b, np.array([1, 1], np.int32))
    np.testing.assert_array_equal(c, [False, True])


@pytest.mark.parametrize("labelled", [0, 1])
def test_a_tuple_with_one_labelled_member_gives_labelled_arrays(labelled):
    f = ti.parse("f(out: tensor<float, I[0:2]>, x: tensor<(float, float), I[0:2]>) { out ← x[0] - x[1]; }")
    members = [np.array([1.0, 2.0]), np.array([3.0, 1.0])]
    members[labelled] = xr.DataArray(members[labelled], {"I": [10.0, 20.0]}, "I")
    for call in (f, ti.compile(f)):
        for _ in range(2):
            found = call(x=tuple(members))["out"]
            xr.testing.assert_identical(found, xr.DataArray([-2.0, 1.0], {"I": [10.0, 20.0]}, "I", name=found.name))


def test_transposed_strided_and_big_endian_arrays_are_taken():
    whole = np.arange(24.0).reshape(4, 6)
    np.testing.assert_array_equal(WIDE(x=whole[::2, :3].T)["out"], 2 * whole[::2, :3])
    np.testing.assert_array_equal(SLOPE(x=X.astype(">f8"))["out"], D)
    np.testing.assert_array_equal(SLOPE(x=X[::-1])["out"], -D[::-1])


def test_numbers_take_the_type_of_their_parameter():
    f = ti.parse("f(out: tensor<float32, I[0:2]>, x: tensor<float32, I[0:2]>, a: tensor<float32>) { out ← a × x; }")
    np.testing.assert_array_equal(f(x=np.ones(2, "float32"), a=3)["out"], np.full(2, 3, "float32"))


def test_an_output_buffer_is_written_and_returned():
    buffer = np.zeros(3)
    assert SLOPE(out=buffer, x=X)["out"] is buffer
    np.testing.assert_array_equal(buffer, D)


def test_an_output_buffer_may_overlap_the_input():
    memory = X.copy()
    SLOPE(out=memory[:3], x=memory)
    np.testing.assert_array_equal(memory, [*D, 9.0, 16.0])


def test_a_partly_written_parameter_keeps_its_boundary_and_is_updated_in_place():
    u = X.copy()
    assert HEAT(u=u)["u"] is u
    np.testing.assert_array_equal(u, [0.0, 2.0, 5.0, 10.0, 16.0])


def test_a_field_or_data_array_as_output_is_written():
    field = ti.zeros({"I": (1, 4)})
    SLOPE(out=field, x=ti.as_field({"I": (0, 5)}, X))
    np.testing.assert_array_equal(field.data, D)
    array = xr.DataArray(np.zeros(3), dims="I", coords={"I": [1, 2, 3]})
    SLOPE(out=array, x=xr.DataArray(X, dims="I", coords={"I": np.arange(5)}))
    np.testing.assert_array_equal(array, D)


def test_a_callers_arrays_stay_as_they_were():
    x = X.copy()
    result = HEAT(u=xr.DataArray(x.copy(), dims="I"))["u"]
    assert result.shape == (5,)
    with jax.enable_x64(True):
        before = jnp.asarray(X)
        HEAT(u=before)
        assert not before.is_deleted()
        np.testing.assert_array_equal(before, X)


def refused(f, **arguments):
    with pytest.raises(ti.DiagnosticError) as found:
        f(**arguments)
    return str(found.value)


READ_ONLY = np.zeros(3)
READ_ONLY.setflags(write=False)
V2E = """
n(out: tensor<float, V[0:2]>, x: tensor<float, E[0:3]>, V2E: tensor<int, V[0:2], _NB_E[0:2]>) {
  out ← reduce(+, 0.0)(⟪V2E⟫(x));
}
"""
NABLA = ti.parse(V2E)
EDGES = np.array([1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (SLOPE, {"x": X.astype("float32")},
         "error[A02]: 'x' needs float64, and this is float32.\n"
         "help: nothing is converted silently; pass x.astype('float64')."),
        (SLOPE, {"y": X}, "error[A08]: 'slope' has no parameter 'y'.\nhelp: known here: 'out', 'x', 'n'."),
        (SLOPE, {"x": "no"}, "error[A01]: 'x' is a str, not an array."),
        (WIDE, {},
         "error[A11]: 'x' is not given: it is read.\nhelp: pass x=, tensor<float, I[0:3], J[0:2]>."),
        (HEAT, {},
         "error[A11]: 'u' is not given: it is read before it is written, or written only in part.\n"
         "help: pass u=, tensor<float, I[0:5]>."),
        (WIDE, {"x": np.zeros((2, 3))},
         "error[A03]: 'x' needs the shape (3, 2), for I[0:3], J[0:2], and has (2, 3).\n"
         "help: its axes are in another order; they are I, J here."),
        (WIDE, {"x": np.zeros((3, 3))},
         "error[A03]: 'x' needs the shape (3, 2), for I[0:3], J[0:2], and has (3, 3).\n"
         "help: J has 3 and needs 2."),
        (WIDE, {"x": np.zeros(3)},
         "error[A03]: 'x' needs the shape (3, 2), for I[0:3], J[0:2], and has (3,).\n"
         "help: its axes are I, J."),
        (WIDE, {"x": xr.DataArray(np.zeros((3, 2)), dims=("I", "K"))},
         "error[A05]: 'x' is a tensor on I[0:3], J[0:2], and this has K, which it does not know and lacks J.\n"
         "help: select one point of K, or map over it."),
        (WIDE, {"x": xr.DataArray(np.zeros((3, 2)), dims=("I", "J"), coords={"I": [1, 2, 3]})},
         "error[A06]: 'x' needs I[0:3], and this has I[1:4].\n"
         "help: give it the missing points: ti.extend adds a halo."),
        (SLOPE, {"x": X, "out": READ_ONLY},
         "error[A12]: 'out' is an output, and its buffer is read-only.\nhelp: pass a writable copy."),
        (SLOPE, {"x": X, "out": jnp.zeros(3)},
         "error[A02]: 'out' needs float64, and this is float32.\n"
         "help: JAX makes arrays of 32 bits unless it is told otherwise: make them inside of "
         "`with jax.enable_x64(True):`, or write float32 in the program."),
        (NABLA, {"x": EDGES, "V2E": np.array([[0, 3], [1, -1]])},
         "error[A10]: an entry of the table 'V2E' leaves its dimension: V2E[0, 1] is 3, "
         "and E[0:3] is what it may point to.\n"
         "help: entries are absolute coordinates; a missing neighbour is -1."),
        (NABLA, {"x": EDGES, "V2E": np.array([[0.0, np.nan], [1.0, 2.0]])},
         "error[A02]: the table 'V2E' holds NaN; its entries are integers.\n"
         "help: convert it with .astype('int32'), after a missing neighbour is written as -1."),
        (NABLA, {"x": EDGES, "V2E": np.array([[0.0, 1.0], [1.0, 2.0]])},
         "error[A02]: the table 'V2E' holds float64; its entries are integers.\n"
         "help: convert it with .astype('int32'), after a missing neighbour is written as -1."),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_by_name(program, arguments, message):
    assert refused(program, **arguments) == message


def test_a_jax_array_as_output_buffer_is_an_error():
    with jax.enable_x64(True):
        message = refused(SLOPE, x=X, out=jnp.zeros(3))
    assert message == (
        "error[A13]: 'out' is an output, and JAX arrays never change.\n"
        "help: leave it out and take the result: f(...)['out']."
    )


def test_several_wrong_arguments_are_told_at_once():
    message = refused(NABLA, x=EDGES[:2], V2E=np.zeros((3, 2), int))
    assert message.count("error[A03]") == 2


def test_a_refused_call_writes_nothing():
    buffer = np.full(3, 7.0)
    refused(SLOPE, x=X.astype(int), out=buffer)
    np.testing.assert_array_equal(buffer, [7.0, 7.0, 7.0])


def test_sizes_are_bound_from_shapes_and_contradictions_are_named():
    text = "f(out: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>, y: tensor<float, I[-1:n+1]>) { out ← x + y; }"
    f = ti.parse(text)
    assert f(x=np.ones(3), y=np.ones(5))["out"].shape == (3,)
    assert "error[B02]" in refused(f, x=np.ones(3), y=np.ones(4))


def test_bound_constants_are_copies_and_are_not_passed_again():
    table = np.array([[0, 1], [2, -1]])
    bound = NABLA.bind(V2E=table)
    table[:] = 0
    np.testing.assert_array_equal(bound(x=EDGES)["out"], [3.0, 4.0])
    assert refused(bound, x=EDGES, V2E=table).startswith("error[A09]: 'V2E' is bound already.")
    with pytest.raises(ti.DiagnosticError, match=r"N01.*'V2X' is neither a parameter nor a size of 'n'"):
        NABLA.bind(V2X=table)
    with pytest.raises(ti.DiagnosticError, match=r"A10"):
        NABLA.bind(V2E=np.full((2, 2), 5))


def test_sizes_may_be_told_after_tables_are_bound():
    f = ti.parse(
        V2E.replace("V[0:2]", "V[0:n], K[0:k]")
        .replace("E[0:3]", "E[0:e], K[0:k]")
        .replace("_NB_E", "_NB_E")
        .replace("V2E: tensor<int, V[0:n], K[0:k],", "V2E: tensor<int, V[0:n],")
    )
    bound = f.bind(V2E=np.array([[0, 1], [2, -1]]))
    out = bound(x=np.stack([EDGES, 10 * EDGES], 1))["out"]
    np.testing.assert_array_equal(out, [[3.0, 30.0], [4.0, 40.0]])


@pytest.mark.parametrize(
    ("element", "numbers", "message"),
    [
        ("uint8", [300, 1], "error[A07]: 'x' is uint8, which cannot hold 300."),
        ("uint8", [0, -1], "error[A07]: 'x' is uint8, which cannot hold -1."),
        ("int32", [2**40, 1], "error[A07]: 'x' is int32, which cannot hold 1099511627776."),
        ("bool", [0, 2], "error[A02]: 'x' needs bool, and this is int64."),
        ("int8", [True, False], "error[A02]: 'x' needs int8, and this is bool."),
        ("float", [[1.0], [2.0, 3.0]], "error[A01]: 'x' is a list that is not an array."),
    ],
)
def test_a_list_is_refused_where_its_numbers_do_not_fit(element, numbers, message):
    f = ti.parse(f"f(out: tensor<{element}, I[0:2]>, x: tensor<{element}, I[0:2]>) {{ out ← x; }}")
    assert refused(f, x=numbers).startswith(message)


def test_a_list_of_wide_integers_is_taken_as_it_is():
    f = ti.parse("f(out: tensor<uint64, I[0:2]>, x: tensor<uint64, I[0:2]>) { out ← x; }")
    assert f(x=[2**63, 1])["out"].tolist() == [2**63, 1]


SIZED = ti.parse("f(out: tensor<float, I[0:n], J[0:3]>, x: tensor<float, I[0:n], J[0:3]>) { out ← x; }")


def test_rows_of_different_lengths_tell_no_size():
    assert refused(SIZED, x=[[1.0, 2.0, 3.0], [4.0]]).startswith("error[A01]: 'x' is a list whose rows")


def test_masked_points_are_refused_and_a_mask_of_nothing_is_not():
    f = ti.parse("f(out: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>) { out ← x; }")
    x = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    assert refused(f, x=x) == (
        "error[A01]: 'x' has masked points, and masks are not known here.\nhelp: fill it: x.filled(0.0)."
    )
    result = f(x=np.ma.masked_array([1.0, 2.0]))["out"]
    assert type(result) is np.ndarray and result.tolist() == [1.0, 2.0]


def test_a_dim_of_another_name_is_told_also_where_it_would_tell_a_size():
    x = xr.DataArray(np.zeros((4, 3)), dims=("Z", "J"))
    assert refused(SIZED, x=x) == "error[A05]: 'x' lacks I: its dims are Z, J.\nhelp: rename or add the dim."


def test_an_array_is_cut_to_an_interval_of_numbers_also_beside_sizes():
    x = np.arange(20.0).reshape(4, 5)
    np.testing.assert_array_equal(SIZED(x=xr.DataArray(x, dims=("I", "J")))["out"], x[:, :3])
    np.testing.assert_array_equal(SIZED(x=xr.DataArray(x, dims=("I", "J"), coords={"J": range(5)}))["out"], x[:, :3])
