"""A call on labels like one before goes straight to its program, and notices all that decides another one."""

import gc
import types

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorir as ti
from tests.effort import count_calls_of_python

I, J = ti.dims("I J")
RISE = "f(out: tensor<float, I[0:4], J[0:3]>, h: tensor<float, I[0:5], J[0:3]>) { out ← ⟪I, 1⟫(h) - h; }"
SETTINGS = types.SimpleNamespace(rate=2.0, table={"rate": 2.0}, weights=np.ones(3))
RATE = 2.0


def _array(**changes):
    coords = {
        "I": ("I", pd.Index(np.linspace(0.0, 1.0, 5), copy=False), {"axis": "X"}),
        "J": ("J", [10, 20, 30]),
        "area": (("J",), np.array([1.0, 2.0, 3.0]), {"units": "m2"}),
        "time": np.datetime64("2000-01-01", "ns"),
    }
    data = np.arange(15.0).reshape(5, 3) ** 2
    made = xr.DataArray(data, coords, ("I", "J"), name="h", attrs={"units": "m", "source": "buoy"})
    return made.assign_coords(changes)


def _rise():
    @ti.field_operator
    def rise(h):
        return h(I + 1) - h

    return rise


def _smooth():
    @ti.field_operator
    def smooth(h):
        return 0.5 * h + 0.5 * h(I + 1)

    return smooth


def _weighed():
    @ti.field_operator
    def weighed(h):
        return h * ti.coord(h, "area")

    return weighed


def _extended():
    @ti.field_operator
    def extended(h):
        wide = ti.extend(h, {I: 1}, ti.boundary.neumann())
        return wide - ti.coord(wide, "I")

    return extended


def _of_program():
    c = ti.compile(ti.parse(RISE))
    return lambda h: c(h=h)["out"]


MAKERS = [_rise, _smooth, _weighed, _extended, _of_program]


def _told(call):
    try:
        return call()
    except ti.DiagnosticError as problem:
        return str(problem)


def _same(found, wanted):
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    xr.testing.assert_identical(found, wanted)
    assert found.dims == wanted.dims and list(found.coords) == list(wanted.coords)
    assert found.dtype == wanted.dtype and type(found.data) is type(wanted.data)
    assert list(found.xindexes) == list(wanted.xindexes)


def _in_place(h):
    h.xindexes["I"].index._data[:] = [0.0, 1.0, 4.0, 9.0, 16.0]
    return h


def _units(h):
    h.attrs["units"] = "K"
    return h


def _source(h):
    h.attrs["source"] = "float"
    return h


def _attrs_of_coordinate(h):
    h.coords["I"].attrs["axis"] = "Y"
    return h


def _units_of_coordinate(h):
    h.coords["area"].attrs["units"] = "km2"
    return h


def _numbers_of_coordinate(h):
    h.coords["area"].values[:] = [7.0, 8.0, 9.0]
    return h


def _name(h):
    h.name = "g"
    return h


CHANGES = {
    "labels in place": _in_place,
    "units": _units,
    "another attribute": _source,
    "attributes of an index": _attrs_of_coordinate,
    "units of a coordinate": _units_of_coordinate,
    "numbers of a coordinate": _numbers_of_coordinate,
    "name": _name,
    "labels": lambda h: h.assign_coords(J=[10, 20, 40]),
    "labels that are points": lambda h: h.assign_coords(I=np.arange(3, 8)),
    "element type of labels": lambda h: h.assign_coords(I=h.I.values.astype("float32")),
    "date": lambda h: h.assign_coords(time=np.datetime64("2001-01-01", "ns")),
    "order of dims": lambda h: h.transpose("J", "I"),
    "no labels": lambda h: h.drop_vars("I"),
    "no index": lambda h: h.drop_indexes("I"),
    "no coordinate": lambda h: h.drop_vars(["area", "time"]),
    "one more coordinate": lambda h: h.assign_coords(depth=2.0),
    "size": lambda h: h.isel(J=slice(0, 2)),
    "element type": lambda h: h.astype("float32"),
    "order of bytes": lambda h: h.astype(">f8"),
    "order of bytes of a coordinate": lambda h: h.assign_coords(area=h.area.astype(">f8")),
    "numbers of JAX": lambda h: h.copy(data=jnp.asarray(h.values)),
    "texts": lambda h: h.assign_coords(J=["a", "b", "c"]),
    "dates": lambda h: h.assign_coords(J=pd.date_range("2000", periods=3)),
}


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_two_calls_is_noticed(make, change):
    call = make()
    h = _array()
    for _ in range(3):
        call(h)
    h = CHANGES[change](h)
    wanted = _told(lambda: make()(h))
    for _ in range(3):
        _same(_told(lambda: call(h)), wanted)
    before = _array()
    _same(_told(lambda: call(before)), _told(lambda: make()(before)))


# What holds around a call, and what the function reads.


def _scaled():
    factor, table, weights = 2.0, {"rate": 2.0}, np.full(3, 2.0)
    own = types.SimpleNamespace(rate=2.0)

    @ti.field_operator
    def scaled(h):
        return h * factor * RATE * SETTINGS.rate * table["rate"] * own.rate * float(weights[0]) * twice(1.0)

    def change(name, value):
        nonlocal factor
        if name == "factor":
            factor = value
        elif name == "table":
            table["rate"] = value
        elif name == "attribute of a variable around":
            own.rate = value
        else:
            weights[:] = value

    return scaled, change


def _plain():
    factor = 2.0
    own = types.SimpleNamespace(rate=2.0)

    @ti.field_operator
    def scaled(h):
        return h * factor * RATE * SETTINGS.rate * own.rate * twice(1.0)

    def change(name, value):
        nonlocal factor
        if name == "factor":
            factor = value
        else:
            own.rate = value

    return scaled, change


def twice(x):
    return 2.0 * x


def thrice(x):
    return 3.0 * x


READ = ["factor", "attribute of a variable around", "global", "attribute of a global", "function"]


@pytest.mark.parametrize("make, name", [(m, n) for m in (_plain, _scaled) for n in READ] + [
    (_scaled, "table"), (_scaled, "weights")
])  # fmt: skip
def test_a_value_that_the_function_reads_is_noticed_when_it_changes(make, name, monkeypatch):
    scaled, change = make()
    h = _array()
    before = scaled(h).values
    assert all(np.array_equal(scaled(h).values, before) for _ in range(2))
    match name:
        case "global":
            monkeypatch.setitem(globals(), "RATE", 3.0)
        case "attribute of a global":
            monkeypatch.setattr(SETTINGS, "rate", 3.0)
        case "function":
            monkeypatch.setitem(globals(), "twice", thrice)
        case _:
            change(name, 3.0)
    for _ in range(3):
        np.testing.assert_allclose(scaled(h).values, 1.5 * before)


def test_a_global_that_hides_a_builtin_is_noticed():
    space = {"ti": ti}
    text = "@ti.field_operator\ndef f(h):\n    return h * float(abs(-2.0))"
    exec(compile(text, "<cell>", "exec"), space)
    h = _array()
    for _ in range(3):
        space["f"](h)
    space["abs"] = lambda x: 5.0
    np.testing.assert_array_equal(space["f"](h).values, 5.0 * h.values)


@pytest.mark.parametrize("make", [_rise, _smooth, _of_program])
@pytest.mark.parametrize("kept", [True, False])
def test_options_of_xarray_are_noticed(make, kept):
    call, h = make(), _array()
    for _ in range(3):
        call(h)
    with xr.set_options(keep_attrs=kept):
        _same(call(h), make()(h))
        _same(call(h), make()(h))
    _same(call(h), make()(h))


def test_labels_that_meet_are_compared_again():
    @ti.field_operator
    def both(a, b):
        return a + b

    a, b = _array(), _array()
    for _ in range(3):
        both(a, b)
    assert both(a, b.isel(I=slice(1, 5))).sizes["I"] == 4
    assert "A25" in _told(lambda: both(a, b.assign_coords(I=b.I.values + 0.3)))
    assert "A32" in _told(lambda: both(a, b.assign_attrs(units="K")))
    with xr.set_options(arithmetic_join="exact"):
        assert "A28" in _told(lambda: both(a, b.isel(I=slice(1, 5))))
    assert both(a=a, b=b).name == "h"
    assert both(a, b.rename("g")).name is None


def test_arguments_by_keyword_are_taken_by_their_names():
    @ti.field_operator
    def both(a, b, c=1.0):
        return a - c * b

    a, b = _array(), 2.0 * _array()
    for _ in range(3):
        np.testing.assert_array_equal(both(a, b).values, -a.values)
        np.testing.assert_array_equal(both(b=a, a=b).values, a.values)
        np.testing.assert_array_equal(both(a, b, c=2.0).values, -3.0 * a.values)
        np.testing.assert_array_equal(both(a, b, 3).values, -5.0 * a.values)


def test_numbers_of_another_kind_and_beyond_their_type_are_noticed():
    @ti.field_operator
    def scaled(h, n):
        return h * n

    h = _array()
    for n in (2, 2**40, 2.5, True, 3, np.float64(2.0)):
        for _ in range(3):
            wanted = _told(lambda n=n: ti.field_operator(scaled.function)(h, n))
            _same(_told(lambda n=n: scaled(h, n)), wanted)
    for _ in range(3):
        scaled(h.astype("float32"), 2.0)
    assert "A07" in _told(lambda: scaled(h.astype("float32"), 1e300))
    assert "A07" in _told(lambda: scaled(h.astype("int32"), 2**40))


def test_fields_and_labels_of_one_call_are_told_apart():
    call = _rise()
    h = ti.as_field({I: (0, 5), J: (0, 3)}, np.arange(15.0).reshape(5, 3))
    for _ in range(3):
        assert str(call(h).dims) == str(ti.as_field({I: (0, 4), J: 3}, np.zeros((4, 3))).dims)
    moved = ti.as_field({I: (2, 7), J: (0, 3)}, h.data)
    turned = ti.as_field({J: (0, 3), I: (0, 5)}, h.data.T)
    for given in (moved, turned, ti.as_field(h.dims, jnp.asarray(h.data)), ti.as_field(h.dims, h.data.astype("i4"))):
        for _ in range(3):
            found, wanted = call(given), _rise()(given)
            assert (found.dims.items, found._axes, type(found.data)) == (
                wanted.dims.items,
                wanted._axes,
                type(wanted.data),
            )
            np.testing.assert_array_equal(found.data, wanted.data)
    assert jax.tree_util.tree_structure(call(h)) == jax.tree_util.tree_structure(_rise()(h))


@pytest.mark.parametrize("make", [_rise, _smooth, lambda: _loop(lambda s: 0.5 * s)])
def test_dims_in_another_order_are_noticed_where_extents_are_equal(make):
    call, h = make(), _array().isel(I=slice(0, 3))
    for _ in range(3):
        call(h)
    turned = h.copy(data=h.values.T).transpose("J", "I")
    for _ in range(2):
        _same(call(turned), make()(turned))
        _same(call(h), make()(h))


def test_another_size_without_labels_is_noticed():
    call, h = _rise(), xr.DataArray(np.ones((5, 3)), dims=("I", "J"))
    for n in (5, 5, 4, 3, 5):
        assert call(h[:n]).sizes == {"I": n - 1, "J": 3}


def test_a_coordinate_on_another_dim_is_noticed():
    call, h = _smooth(), _array().isel(I=slice(0, 3))
    for dim in ("J", "J", "I", "J", "I"):
        other = h.assign_coords(area=(dim, np.arange(3.0)))
        _same(call(other), _smooth()(other))


def test_numbers_of_coordinates_that_are_asked_for_are_compared_again():
    @ti.field_operator
    def weighed(a, b):
        return (a + b) * ti.coord(a + b, "area")

    a, b = _array(), _array()
    for _ in range(3):
        weighed(a, b)
    b.area.values[:] = 5.0
    assert "V38" in _told(lambda: weighed(a, b))
    call, h = _extended(), _array().drop_indexes("I")
    for _ in range(3):
        call(h)
    uneven = h.assign_coords(I=("I", [0.0, 1.0, 4.0, 9.0, 16.0])).drop_indexes("I")
    assert "V38" in _told(lambda: call(uneven))


def test_programs_with_sizes_are_called_with_labels_sizes_and_buffers():
    c = ti.compile(ti.parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x + x; }"))
    for n in (4, 4, 5, 4):
        for start in (0.5, 2):
            x = xr.DataArray(np.arange(float(n)), {"I": np.arange(n) + start}, ("I",))
            for given in ({}, {"n": n}, {"y": xr.zeros_like(x)}):
                y = c(x=x, **given)["y"]
                xr.testing.assert_identical(y, (2.0 * x).rename(None))
                assert given.get("y", y) is y
            x.values[:] = 7.0
            np.testing.assert_array_equal(c(x=x)["y"].values, 14.0)
    assert "B02" in _told(lambda: c(x=x, n=3))


def test_staggered_dims_are_noticed():
    @ti.field_operator
    def slope(u):
        return u(I + 0.5) - u(I - 0.5)

    edges = {"E": ("E", np.arange(4.0) - 0.5, {"axis": "X", "c_grid_axis_shift": -0.5})}
    points = {"I": ("I", np.arange(3.0), {"axis": "X"})}

    @ti.field_operator
    def both(u, h):
        return u(I + 0.5) * h

    u, h = xr.DataArray(np.arange(4.0), edges, "E"), xr.DataArray(np.ones(3), points, "I")
    for _ in range(3):
        both(u, h)
    u.coords["E"].attrs["c_grid_axis_shift"] = 0.5
    _same(_told(lambda: both(u, h)), _told(lambda: ti.field_operator(both.function)(u, h)))


def test_results_of_two_calls_have_nothing_in_common():
    call, h = _smooth(), _array()
    for result in [call(h), call(h), call(h)]:
        result.attrs["source"] = "mine"
        result.coords["I"].attrs["axis"] = "mine"
        result.coords["area"].attrs["units"] = "mine"
        result.values[:] = 0.0
        result.name = "mine"
    _same(call(h), _smooth()(h))


def test_coordinates_are_those_of_the_call():
    call, h = _smooth(), _array()
    for k in range(3):
        assert call(h.assign_coords(time=k)).time.item() == k
        assert call(h.assign_coords(area=("J", np.full(3, float(k))))).area.values.tolist() == [k] * 3


def test_a_warning_of_labels_that_are_lost_comes_with_every_call():
    @ti.field_operator
    def wide(h):
        return ti.extend(h, {I: 1}, ti.boundary.neumann())

    h = _array(I=[0.0, 1.0, 4.0, 9.0, 16.0])
    for _ in range(3):
        with pytest.warns(UserWarning, match="the steps of I"):
            wide(h)


def test_memory_that_was_given_away_is_named():
    c = ti.compile(ti.parse("f(out: tensor<float, I[0:3]>, h: tensor<float, I[0:3]>) { out ← h + 1.0; }"))
    h = xr.DataArray(jnp.ones(3), dims="I")
    for _ in range(3):
        c(h=h)
    h.data.delete()
    assert "A18" in _told(lambda: c(h=h))


# How much a call does.


@pytest.mark.parametrize("make", [_rise, _smooth, _of_program, lambda: _plain()[0]])
def test_a_second_call_on_labels_is_at_most_eighty_calls_of_python(make):
    call, h = make(), _array()
    call(h)
    assert count_calls_of_python(lambda: call(h)) <= 80
    assert count_calls_of_python(lambda: call(2.0 * h)) - count_calls_of_python(lambda: 2.0 * h) <= 80


def test_calls_of_python_do_not_grow_with_the_length_of_labels():
    call = _smooth()
    counts = []
    for n in (10, 1000):
        h = xr.DataArray(np.ones(n), {"I": np.linspace(0.0, 1.0, n)}, ("I",))
        call(h)
        counts.append(count_calls_of_python(lambda h=h: call(h)))
    assert counts[0] == counts[1]


# Time loops and jitted functions of labelled arrays.

PACE = 0.5


def _reading(s):
    return s * PACE + s.area * s.attrs.get("rate", 1.0) + (s.I if "I" in s.coords else 0.0)


def _date_and_name(s):
    return s * (2.0 if s.name == "h" else 3.0) + 0.0 * s.area.attrs.get("factor", 1.0)


def _loop(step):
    return lambda h: ti.iterate(step, h, 3, progress=False)


FORMS = {
    "loop": lambda: _loop(_reading),
    "loop that reads names": lambda: _loop(_date_and_name),
    "jitted": lambda: ti.jit(_reading),
}

IN_PLACE = {
    "labels in place": _in_place,
    "another attribute": lambda h: h.assign_attrs(rate=3.0),
    "an attribute in place": lambda h: h.attrs.update(rate=3.0) or h,
    "attributes of a coordinate in place": lambda h: h.area.attrs.update(factor=2.0) or h,
    "numbers of a coordinate": _numbers_of_coordinate,
    "name": _name,
    "element type": lambda h: h.astype("float32").assign_coords(area=h.area.astype("float32")),
    "numbers of JAX": lambda h: h.copy(data=jnp.asarray(h.values)),
    "labels": lambda h: h.assign_coords(I=h.I.values + 1.0),
    "order of dims": lambda h: h.transpose("J", "I"),
    "no labels": lambda h: h.drop_vars("I"),
    "units": _units,
    "date": lambda h: h.assign_coords(time=np.datetime64("2001-01-01", "ns")),
    "an encoding": lambda h: h.area.encoding.update(dtype="int16") or h,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", IN_PLACE)
def test_what_changes_between_two_loops_is_noticed(form, change):
    call, h = FORMS[form](), _array()
    for _ in range(3):
        call(h)
    h = IN_PLACE[change](h)
    found = [_told(lambda: call(h)) for _ in range(3)]
    ti.config.caches.clear()
    wanted = _told(lambda: FORMS[form]()(h))
    for one in found:
        _same(one, wanted)
        assert isinstance(one, str) or not any(v.encoding for v in one.coords.variables.values())


def test_large_coordinates_of_a_loop_are_not_taken_for_those_of_before():
    h = xr.DataArray(np.ones((70, 70)), coords={"area": (("I", "J"), np.ones((70, 70)))}, dims=("I", "J"))
    step = lambda s: s + s.area
    ti.iterate(step, h, 1, progress=False)
    other = h.assign_coords(area=2.0 * h.area)
    np.testing.assert_array_equal(ti.iterate(step, other, 1, progress=False).values, 3.0)


def test_values_that_a_step_reads_are_noticed(monkeypatch):
    h = _array()
    for _ in range(3):
        before = ti.iterate(_reading, h, 1, progress=False)
    monkeypatch.setitem(globals(), "PACE", 2.0)
    after = ti.iterate(_reading, h, 1, progress=False)
    np.testing.assert_allclose(after.values - before.values, 1.5 * h.values)


def test_two_steps_on_one_kind_of_state_are_told_apart():
    h = _array()
    steps = [lambda s, k=k: k * s for k in (2.0, 3.0)]
    for _ in range(3):
        for k, step in zip((2.0, 3.0), steps, strict=True):
            np.testing.assert_array_equal(ti.iterate(step, h, 2, progress=False).values, k * k * h.values)


def test_the_result_of_a_loop_has_nothing_in_common_with_the_state():
    h = _array()
    for _ in range(3):
        made = ti.iterate(_reading, h, 2, progress=False)
    made.values[:] = 0.0
    made.attrs["source"] = made.area.attrs["units"] = made.I.attrs["axis"] = "mine"
    wanted = _array()
    xr.testing.assert_identical(h, wanted)


def test_states_of_several_kinds_go_in_and_out_as_they_are():
    state = {"h": _array(), "f": ti.as_field({I: 3}, np.ones(3)), "n": np.arange(3), "j": jnp.ones(2), "x": 2.0}
    state["k"] = jax.random.key(0)
    half = lambda s: {**s, "h": s["h"] * 0.5, "j": s["j"] * 0.5}
    first = ti.iterate(half, state, 2, progress=False)
    for _ in range(2):
        again = ti.iterate(half, state, 2, progress=False)
        xr.testing.assert_identical(again["h"], first["h"])
        for name in "fnjx":
            one, other = jax.tree_util.tree_leaves(again[name])[0], jax.tree_util.tree_leaves(first[name])[0]
            assert type(one) is type(other) and one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        assert again["k"] == first["k"]
    assert type(again["f"]) is type(first["f"]) and again["f"].dims == first["f"].dims


@pytest.mark.parametrize("make", [_array, lambda: jnp.ones(4), lambda: np.ones(4)])
def test_a_second_loop_is_at_most_a_hundred_and_fifty_calls_of_python(make):
    state = make()
    step = lambda s: 0.5 * s
    for _ in range(3):
        ti.iterate(step, state, 5, progress=False)
    assert count_calls_of_python(lambda: ti.iterate(step, state, 5, progress=False)) <= 150


def test_an_index_of_many_labels_is_looked_at_in_every_call():
    rise = _rise()
    labels = 2 * np.arange(1 << 15)
    h = xr.DataArray(np.zeros(1 << 15), {"I": pd.Index(labels, copy=False)}, ("I",), name="h")
    assert rise(h).sizes == rise(h).sizes == {"I": (1 << 15) - 1}
    h.xindexes["I"].index._data[7] = 15
    with pytest.raises(ti.DiagnosticError, match="unequal steps"):
        rise(h)


# Neighbour tables that calls bring along

EDGE, VERTEX = ti.dims("Edge Vertex")
NEIGHBOURS = ti.Dimension("V2E", kind="local")
V2E = ti.FieldOffset("V2E", source=EDGE, target=(VERTEX, NEIGHBOURS))
TABLE = np.array([[0, 1, 2], [1, 2, -1], [3, 0, 1]], np.int32)


@ti.field_operator
def around(x):
    return ti.neighbor_sum(x(V2E), axis=NEIGHBOURS)


def sums(x, table):
    return np.array([sum(x[k] for k in row if k >= 0) for row in table])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    "labelled",
    [
        lambda x: ti.as_field({EDGE: 4}, x), lambda x: ti.as_field({EDGE: 4}, jax.numpy.asarray(x)),
        lambda x: xr.DataArray(x, dims="Edge", coords={"Edge": range(4)}),
    ],
    ids=["a field", "a field of JAX", "a DataArray"],
)  # fmt: skip
def test_a_table_that_is_changed_in_place_is_looked_at_again(kind, labelled):
    table, x = TABLE.astype(kind), np.arange(4.0) + 0.5
    with jax.enable_x64(True):
        argument = labelled(x)
        for entry in (0, 3, -1, 2):
            table[1, 1] = entry
            for _ in range(3):
                result = around(argument, offset_provider={"V2E": table})
                np.testing.assert_allclose(getattr(result, "data", result), sums(x, table))
        table[1, 1] = 4
        for _ in range(2):
            with pytest.raises(ti.DiagnosticError, match="A10"):
                around(argument, offset_provider={"V2E": table})


def test_a_second_call_with_a_table_does_not_look_at_all_of_its_entries():
    x = ti.as_field({EDGE: 4}, np.arange(4.0))
    call = lambda: around(x, offset_provider={"V2E": TABLE})
    call()
    assert count_calls_of_python(call) <= 100


def test_calls_differ_by_their_tables_and_their_domains():
    x, other = ti.as_field({EDGE: 4}, np.arange(4.0)), TABLE[::-1].copy()
    for _ in range(3):
        for table in (TABLE, other):
            np.testing.assert_array_equal(around(x, offset_provider={"V2E": table}).data, sums(x.data, table))
        with pytest.raises(ti.DiagnosticError):
            around(x, offset_provider={})
    h = ti.as_field({EDGE: (2, 9)}, np.arange(2.0, 9.0))
    rise = ti.field_operator(lambda h: h(EDGE + 1) - 0.5 * h)
    for _ in range(3):
        for start, stop in [(2, 5), (3, 8), (2, 8)]:
            part = rise(h, domain={EDGE: (start, stop)})
            assert part.dims == ti.as_field({EDGE: (start, stop)}, np.zeros(stop - start)).dims
            np.testing.assert_array_equal(part.data, 0.5 * np.arange(start, stop) + 1.0)
        assert len(rise(h).data) == 6
        with pytest.raises(ti.DiagnosticError):
            rise(h, domain={EDGE: (2, 9)})
    assert count_calls_of_python(lambda: rise(h, domain={EDGE: (3, 8)})) <= 100


def test_the_copy_of_a_table_goes_with_it():
    table, x = TABLE.copy(), ti.as_field({EDGE: 4}, np.arange(4.0))
    before = ti.config.caches["copies of neighbour tables"]
    around(x, offset_provider={"V2E": table})
    assert ti.config.caches["copies of neighbour tables"] == before + 1
    del table
    gc.collect()
    assert ti.config.caches["copies of neighbour tables"] == before
