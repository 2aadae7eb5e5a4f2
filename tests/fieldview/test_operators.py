"""Operators on fields: what they compute, how they are called, and what they say when they cannot."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti

I, J, K = ti.dims("I J K")
Vertex, Edge = ti.dims("Vertex Edge")
V2EDim = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
Ioff = ti.FieldOffset("Ioff", source=I, target=(I,))
X = np.random.default_rng(0).normal(size=(6, 7))
TABLE = np.array([[0, 1, -1], [2, 1, 0], [2, -1, -1]], np.int32)


@ti.field_operator
def lap(f):
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4 * f


def lap_by_hand(x):
    return x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]


def field(x, *dims, **starts):
    return ti.as_field(
        {d: (starts.get(str(d), 0), starts.get(str(d), 0) + n) for d, n in zip(dims, x.shape, strict=True)}, x
    )


def test_an_operator_on_a_data_array_gives_a_data_array_on_its_own_interval():
    x = xr.DataArray(X, dims=("I", "J"), attrs={"units": "m"}, coords={"I": np.arange(3, 9)})
    out = lap(x)
    np.testing.assert_array_equal(out, lap_by_hand(X))
    assert out.dims == ("I", "J") and out.attrs == {"units": "m"}
    np.testing.assert_array_equal(out.coords["I"], [4, 5, 6, 7])


def test_an_operator_on_a_field_gives_a_field():
    out = lap(field(X, I, J, I=-2))
    assert repr(out) == "Field(float64, I[-1:3], J[1:6])"
    np.testing.assert_array_equal(out.data, lap_by_hand(X))


def test_operators_call_operators_and_shared_parts_stay_shared():
    @ti.field_operator
    def biharmonic(f):
        return lap(lap(f))

    fencil = biharmonic.fencil(field(X, I, J))
    assert ti.parse(str(fencil)) == fencil
    assert str(fencil).count("4.0") == 2
    np.testing.assert_allclose(biharmonic(field(X, I, J)).data, lap_by_hand(lap_by_hand(X)), rtol=1e-13)


def test_a_shift_to_the_right_reads_the_right_neighbour():
    @ti.field_operator
    def right(f):
        return f(Ioff[1])

    out = right(field(np.array([10.0, 20.0, 30.0]), I))
    assert repr(out) == "Field(float64, I[-1:2])"
    np.testing.assert_array_equal(out.data, [10.0, 20.0, 30.0])


def test_numbers_take_the_element_type_of_the_field():
    @ti.field_operator
    def f(x, a):
        return a * x + 1 - x / 2

    out = f(field(np.ones(3, "float32"), I), 0.1)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out.data, np.float32(0.1) * np.ones(3, "float32") + np.float32(1) - np.float32(0.5))


def test_another_number_is_no_other_program():
    @ti.field_operator
    def scale(x, a):
        return a * x

    x = field(np.arange(3.0), I)
    assert scale(x, 2.0).data.tolist() == [0.0, 2.0, 4.0]
    assert scale(x, 3.0).data.tolist() == [0.0, 3.0, 6.0]
    assert len(scale.plans) == 1


def test_annotated_operators_take_bare_arrays():
    @ti.field_operator
    def double(x: ti.Field[[I, J], ti.float64]) -> ti.Field[[I, J], ti.float64]:
        return 2.0 * x

    out = double(X)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, 2 * X)


def test_an_operator_is_differentiated_mapped_and_compiled():
    @ti.field_operator
    def energy(x: ti.Field[[I], ti.float64], w: ti.float64):
        return w * x * x(I + 1)

    with jax.enable_x64(True):
        x = jnp.asarray([1.0, 2.0, 4.0])
        hand = lambda x: (2.0 * x[:-1] * x[1:]).sum()
        np.testing.assert_allclose(jax.grad(lambda x: energy(x, 2.0).sum())(x), jax.grad(hand)(x))
        np.testing.assert_allclose(jax.jit(lambda x: energy(x, 2.0))(x), [4.0, 16.0])
        np.testing.assert_allclose(jax.vmap(lambda x: energy(x, 1.0))(jnp.stack([x, 2 * x])), [[2.0, 8.0], [8.0, 32.0]])
        grad = jax.grad(lambda f: energy(f, 2.0).data.sum())(field(x, I))
        np.testing.assert_allclose(grad.data, jax.grad(hand)(x))


def test_gt4pys_way_writes_into_a_buffer_on_a_domain():
    out = ti.full({I: 6, J: 7}, -1.0)
    lap(field(X, I, J), out=out, domain={I: (1, 5), J: (2, 6)}, offset_provider={})
    np.testing.assert_array_equal(out.data[1:5, 2:6], lap_by_hand(X)[:, 1:])
    assert (out.data == -1.0).sum() == 42 - 16


def test_neighbours_are_summed_and_absent_ones_skipped():
    @ti.field_operator
    def around(e):
        return ti.neighbor_sum(e(V2E), axis=V2EDim), ti.max_over(e(V2E), axis=V2EDim), ti.min_over(e(V2E), axis=V2EDim)

    e = field(np.array([1.0, 10.0, 100.0]), Edge)
    total, most, least = around(e, offset_provider={"V2E": TABLE})
    np.testing.assert_array_equal(total.data, [11.0, 111.0, 100.0])
    np.testing.assert_array_equal(most.data, [10.0, 100.0, 100.0])
    np.testing.assert_array_equal(least.data, [1.0, 1.0, 100.0])


@pytest.mark.parametrize("local", ["_NB_V2E", V2EDim])
def test_a_sparse_field_meets_its_neighbours_slot_by_slot(local):
    @ti.field_operator
    def weighted(e, w):
        return ti.neighbor_sum(e(V2E) * w, axis=V2EDim)

    w = ti.as_field({Vertex: (0, 3), local: (0, 3)}, np.arange(9.0).reshape(3, 3))
    out = weighted(field(np.array([1.0, 10.0, 100.0]), Edge), w, offset_provider={"V2E": TABLE})
    np.testing.assert_array_equal(out.data, [10.0, 3 * 100 + 4 * 10 + 5 * 1, 600.0])


def test_a_sparse_field_is_chosen_from_slot_by_slot():
    @ti.field_operator
    def larger(e, w):
        doubled = 2.0 * w
        return ti.neighbor_sum(ti.where(e(V2E) > doubled, e(V2E), doubled), axis=V2EDim)

    w = ti.as_field({Vertex: (0, 3), V2EDim: (0, 3)}, np.arange(9.0).reshape(3, 3))
    out = larger(field(np.array([1.0, 10.0, 100.0]), Edge), w, offset_provider={"V2E": TABLE})
    np.testing.assert_array_equal(out.data, [1.0 + 10.0, 100.0 + 10.0 + 10.0, 100.0])


def test_offsets_are_whole_numbers_of_numpy_too():
    @ti.field_operator
    def f(x):
        return x(I + np.int64(1)) + ti.concat_where(np.int64(1) == I, x, 0.0)

    np.testing.assert_array_equal(f(field(np.array([1.0, 2.0, 4.0]), I)).data, [2.0, 6.0])


def test_a_scan_runs_up_or_down_its_axis_with_tuples_as_state():
    class Sums(NamedTuple):
        total: float
        product: float

    @ti.scan_operator(axis=K, forward=True, init=Sums(0.0, 1.0))
    def both(state, a, b):
        return Sums(state.total + a, state.product * b)

    @ti.scan_operator(axis=K, forward=False, init=0.0)
    def down(state, a):
        return 0.5 * state + a

    x = np.array([1.0, 2.0, 3.0])
    out = both(field(x, K), field(x + 1, K))
    assert isinstance(out, Sums)
    np.testing.assert_array_equal(out.total.data, np.cumsum(x))
    np.testing.assert_array_equal(out.product.data, np.cumprod(x + 1))
    np.testing.assert_array_equal(down(field(x, K)).data, [1 + 0.5 * (2 + 0.5 * 3), 2 + 0.5 * 3, 3.0])


def test_concat_where_joins_parts_of_a_dim():
    @ti.field_operator
    def f(a, b):
        return ti.concat_where(K < 2, a, b), ti.concat_where(K == 1, a, b)

    a, b = field(np.arange(4.0), K), field(10 + np.arange(4.0), K)
    first, second = f(a, b)
    np.testing.assert_array_equal(first.data, [0.0, 1.0, 12.0, 13.0])
    np.testing.assert_array_equal(second.data, [10.0, 1.0, 12.0, 13.0])


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ((K >= 2) & (K < 4), {2, 3}),
        ((K == 0) | (K > 3), {0, 4, 5}),
        (K != 2, {0, 1, 3, 4, 5}),
        (((K < 2) | (K > 4)) & (K != 0), {1, 5}),
        ((K < 3) & (K > 4), set()),
        ((K > 9) | (K == 1), {1}),
    ],
    ids=str,
)
def test_conditions_on_a_coordinate_are_put_together(condition, first):
    @ti.field_operator
    def f(a, b):
        return ti.concat_where(condition, a, b)

    a, b = np.arange(6.0), 10 + np.arange(6.0)
    expected = [a[k] if k in first else b[k] for k in range(6)]
    np.testing.assert_array_equal(f(field(a, K), field(b, K)).data, expected)


def test_conditions_on_two_coordinates_are_put_together():
    @ti.field_operator
    def f(a, b):
        return ti.concat_where((I < 1) | (J == 2), a, b)

    a, b = np.arange(6.0).reshape(2, 3), 10 + np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(f(field(a, I, J), field(b, I, J)).data, [[0, 1, 2], [13, 14, 5]])


def test_where_astype_and_mathematics():
    @ti.field_operator
    def f(x, k):
        return ti.where(x > 0.0, ti.sqrt(ti.abs(x)), -1.0), ti.astype(x, ti.int32) + k, ti.maximum(x, 0.5) ** 2

    x = np.array([-4.0, 0.0, 2.25])
    a, b, c = f(field(x, I), field(np.array([1, 2, 3], np.int32), I))
    np.testing.assert_array_equal(a.data, [-1.0, -1.0, 1.5])
    np.testing.assert_array_equal(b.data, [-3, 2, 5])
    np.testing.assert_array_equal(c.data, [0.25, 0.25, 2.25**2])


def test_a_dynamic_offset_reads_where_another_field_says():
    @ti.field_operator
    def at(x, d):
        return x(ti.as_offset(K, d))

    x = field(np.arange(12.0).reshape(3, 4), I, K)
    d = field(np.array([[1, 0, 1, -3], [0, 0, 0, 0], [3, 1, -1, -1]], np.int32), I, K)
    rows, columns = np.indices((3, 4))
    np.testing.assert_array_equal(at(x, d).data, x.data[rows, columns + d.data])


@ti.field_operator
def displaced(x, d):
    return x(ti.as_offset(I, d))


@pytest.mark.parametrize("element", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_a_dynamic_offset_may_be_of_any_type_of_integers(element):
    x, d = np.arange(300.0), np.resize([0, 3, 1] if element.startswith("u") else [0, 3, -1], 297).astype(element)
    out = displaced(field(x, I, I=-150), field(d, I, I=-150))
    np.testing.assert_array_equal(out.data, x[np.arange(297) + d.astype(int)])


@pytest.mark.parametrize("far", [np.int64(2**63 - 1), np.uint64(2**64 - 1), np.uint32(2**32 - 1)])
def test_a_dynamic_offset_that_leads_far_away_is_outside(far):
    assert told(lambda: displaced(field(X[0], I), field(np.full(6, far), I))).endswith(
        "error[R01]: an index leaves I[0:7].\n"
        "      return x(ti.as_offset(I, d))\n"
        "             ^^^^^^^^^^^^^^^^^^^^^\n"
        "note: at I = 0 it is 2147483647 or more.\n"
        "help: correct the indices, or clamp them."
    )


def test_a_distance_that_is_no_integer_is_refused():
    assert told(lambda: displaced(field(X[0], I), field(X[0], I))).endswith(
        "error[V10]: the distance of as_offset is a field of integers, and this is float64.\n"
        "      return x(ti.as_offset(I, d))\n"
        "               ^^^^^^^^^^^^^^^^^^\n"
        "help: convert it: ti.astype(x, ti.int32)."
    )


def test_a_program_is_one_fencil_of_several_operators():
    @ti.program
    def smooth(a: ti.Field[[I, J], ti.float64], t: ti.Field[[I, J], ti.float64], out: ti.Field[[I, J], ti.float64]):
        lap(a, out=t, domain={I: (1, 5), J: (1, 6)})
        lap(t, out=out, domain={I: (2, 4), J: (2, 5)})

    t, out = np.zeros_like(X), np.zeros_like(X)
    smooth(X, t, out)
    np.testing.assert_allclose(out[2:4, 2:5], lap_by_hand(lap_by_hand(X)), rtol=1e-13)
    assert out[0].tolist() == [0.0] * 7


def told(call):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    return str(refused.value)


def test_a_condition_on_a_field_says_to_use_where_at_the_users_line():
    @ti.field_operator
    def clip(f):
        if f(I + 1) > 0.0:
            return f
        return f

    assert told(lambda: clip(field(X, I, J))).endswith(
        "error[V04]: whether a field is true is not known while the operator is traced: "
        "it differs from point to point.\n"
        "          if f(I + 1) > 0.0:\n"
        "             ^^^^^^^^^^^^^^\n"
        "help: choose point by point with ti.where(condition, a, b)."
    )


def operators_that_are_wrong():
    f = field(X, I, J)
    ints = field(np.arange(3, dtype=np.int32), I)
    edges = field(np.arange(3.0), Edge)

    @ti.field_operator
    def nothing(x):
        x + 1

    @ti.field_operator
    def assigns(x):
        x[0] = 1.0
        return x

    @ti.field_operator
    def divides(x):
        return x / 2

    @ti.field_operator
    def fractions(x):
        return x + 0.5

    @ti.field_operator
    def loops(x):
        return sum(y for y in x)

    @ti.field_operator
    def numpy(x):
        return np.sin(x)

    @ti.field_operator
    def around(e):
        return ti.neighbor_sum(e(V2E), axis=V2EDim)

    @ti.field_operator
    def unshifted(x):
        return ti.neighbor_sum(x, axis=V2EDim)

    @ti.field_operator
    def along(x):
        return x(I)

    @ti.field_operator
    def arrays(x):
        return x + np.ones(3)

    @ti.field_operator
    def annotated(x: ti.Field[[I, J], ti.float32]):
        return x

    @ti.scan_operator(axis=K, init=0.0)
    def scans(state, x):
        return state + x

    @ti.scan_operator(axis=I, init=(0.0, 1.0))
    def structure(state, x):
        return state[0] + x

    return {
        "V20": lambda: nothing(f),
        "V06": lambda: assigns(f),
        "V07": lambda: divides(ints),
        "V08": lambda: fractions(ints),
        "V05": lambda: loops(f),
        "V05 ": lambda: numpy(f),
        "V11": lambda: around(edges),
        "V17": lambda: unshifted(f),
        "V10": lambda: along(f),
        "V09": lambda: arrays(f),
        "V13": lambda: annotated(f),
        "V12": lambda: lap(X),
        "V19": lambda: lap(f, g=f),
        "V22": lambda: lap(f, out=f, domain={K: (0, 1)}),
        "V23": lambda: scans(f),
        "V24": lambda: structure(f),
        "V02": lambda: ti.where(True, 1.0, 2.0),
    }


SENTENCES = {
    "V20": "'nothing' returns nothing.",
    "V06": "a field does not change.",
    "V07": "/ is for floats, and these are int32.",
    "V08": "the number is a float, and the field is int32.",
    "V05": "a field cannot be looped over.",
    "V05 ": "NumPy cannot compute with fields of an operator.",
    "V11": "the offset_provider has no 'V2E', only nothing.",
    "V17": "the field has no dim V2E to reduce over, only I, J.",
    "V10": "a shift along I needs a distance.",
    "V09": "ndarray cannot be computed with in an operator.",
    "V13": "'x' of 'annotated' is annotated Field[[I, J], float32], and this is tensor<float, I[0:6], J[0:7]>.",
    "V12": "'f' of 'lap' is a bare array, whose axes have no names.",
    "V19": "'lap' is called wrongly: got an unexpected keyword argument 'g'.",
    "V22": "the domain names K, and the result has I[0:6], J[0:7].",
    "V23": "no field of 'scans' has the axis K.",
    "V24": "'structure' returns float64, and its init is (float64, float64).",
    "V02": "fields are computed with inside of operators.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_what_an_operator_cannot_do_is_said_in_its_users_words(code):
    message = told(operators_that_are_wrong()[code])
    assert f"error[{code.strip()}]: {SENTENCES[code]}" in message
    assert "help: " in message


def test_a_domain_that_needs_points_that_an_input_lacks_names_the_shift():
    out = ti.zeros({I: 6, J: 7})
    message = told(lambda: lap(field(X, I, J), out=out, domain={I: (0, 5), J: (1, 6)}))
    assert "error[T07]: 'out' needs I[0:5], but this provides I[1:5]." in message
    assert "⟪I, -1⟫ reads one point before, so 1 point is missing there: I[0:1]." in message


def test_numbers_in_a_tuple_take_the_element_type_of_the_field():
    @ti.field_operator
    def line(x, weights):
        return weights[0] * x + weights[1]

    narrow = ti.as_field({"I": 2}, np.array([1, 2], "float32"))
    np.testing.assert_array_equal(line(narrow, (2.0, 3)).data, np.array([5, 7], "float32"))


@pytest.mark.parametrize("number", [np.float64(3), np.float32(3)])
def test_numbers_of_numpy_stand_before_fields_as_behind_them(number):
    x = ti.as_field({"I": 2}, np.array([2, 4], number.dtype))

    @ti.field_operator
    def before(x):
        return (
            number + x,
            number - x,
            number * x,
            number / x,
            number**x,
            number % x,
            number < x,
            number >= x,
            number == x,
        )

    for told, expected in zip(before(x), before.function(x.data), strict=True):
        np.testing.assert_array_equal(told.data, expected)


def test_a_list_of_numbers_is_an_array_where_the_operator_is_annotated():
    @ti.field_operator
    def rise(x: ti.Field[[I], ti.float64]):
        return x(I + 1) - x

    np.testing.assert_array_equal(rise([1, 4.5, 6])[:], [3.5, 1.5])


def test_further_arguments_stand_where_python_puts_them():
    @ti.field_operator
    def total(first, /, *more, by=1.0, **named):
        for x in more:
            first = first + x
        return by * first + named.get("offset", 0.0)

    @ti.field_operator
    def twice(x):
        return total(x, x, by=3.0)

    @ti.scan_operator(axis=I, init=0.0)
    def sums(state, *fields, by=1.0):
        return state + by * sum(fields)

    x = ti.as_field({"I": 3}, np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(total(x, x, x, by=2.0, offset=1.0).data, 6 * x.data + 1)
    np.testing.assert_array_equal(twice(x).data, 6 * x.data)
    np.testing.assert_array_equal(sums(x, x, by=2.0).data, 4 * np.cumsum(x.data))
