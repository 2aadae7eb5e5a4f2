"""Many steps inside XLA: states of every structure, snapshots as a Dataset, a bar, gradients at a stated memory."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.benchmarks.memory import temporary_bytes
from tests.effort import count_calls, device_work

I, J = ti.dims("I J")


class Water(NamedTuple):
    eta: object
    u: object


@ti.field_operator
def push(eta, u):
    return eta + 0.25 * (u - u(I + 1))


def step(s: Water) -> Water:
    return Water(push(s.eta, s.u), s.u)


def water() -> Water:
    eta = xr.DataArray(
        [1.0, 2.0, 3.0],
        dims="I",
        name="eta",
        coords={"I": [0, 1, 2], "x": ("I", [5.0, 6.0, 7.0])},
        attrs={"units": "m"},
    )
    return Water(eta, xr.DataArray([0.0, 1.0, 1.0, 0.0], dims="I", name="u", coords={"I": range(4)}))


def test_data_arrays_go_in_and_come_out_with_their_coordinates():
    last = ti.iterate(step, water(), 2)
    assert isinstance(last, Water)
    np.testing.assert_array_equal(last.eta, [0.5, 2.0, 3.5])
    np.testing.assert_array_equal(last.eta.coords["x"], [5.0, 6.0, 7.0])
    assert last.eta.attrs == {"units": "m"} and last.u.name == "u"


def test_what_is_kept_is_a_dataset_along_time_with_the_start_and_the_end():
    last, kept = ti.iterate(step, water(), 5, every=2, keep=True, dt=0.5)
    assert set(kept.data_vars) == {"eta", "u"}
    np.testing.assert_array_equal(kept["time"], [0.0, 1.0, 2.0, 2.5])
    np.testing.assert_array_equal(kept["eta"].sel(I=0), [1.0, 0.5, 0.0, -0.25])
    assert kept["eta"].dims == ("time", "I") and kept["eta"].attrs == {"units": "m"}
    # eta has no point 3, where u has its last face
    np.testing.assert_array_equal(np.isnan(kept["eta"].sel(I=3)), [True] * 4)
    np.testing.assert_array_equal(kept["u"].isel(time=-1), last.u)


def test_a_part_of_the_state_may_be_kept():
    _, kept = ti.iterate(lambda s: {"x": s["x"] + 1.0, "k": s["k"] + 1}, {"x": jnp.zeros(3), "k": 0}, 4, every=2,
                         keep=lambda s: {"sum": s["x"].sum(), "k": s["k"]})  # fmt: skip
    np.testing.assert_array_equal(kept["sum"], [0.0, 6.0, 12.0])
    np.testing.assert_array_equal(kept["k"], [0, 2, 4])


def test_a_callback_sees_the_state_as_it_came():
    seen = []
    ti.iterate(step, water(), 5, every=2, callback=lambda k, s: seen.append((k, float(s.eta[0]), type(s.eta).__name__)))
    assert seen == [(2, 0.5, "DataArray"), (4, 0.0, "DataArray"), (5, -0.25, "DataArray")]


def test_records_at_single_points_are_differentiated():
    def misfit(x):
        _, kept = ti.iterate(lambda s: 0.5 * s, x, 5, every=2, keep=lambda s: s[0])
        return (kept**2).sum()

    with jax.enable_x64(True):
        x = jnp.asarray([2.0, 3.0])
        # records at 0, 2, 4 and 5 steps
        factor = 1 + 0.25**2 + 0.0625**2 + 0.03125**2
        np.testing.assert_allclose(jax.jit(misfit)(x), 4.0 * factor)
        np.testing.assert_allclose(jax.grad(misfit)(x), [4.0 * factor, 0.0])


@pytest.mark.parametrize("checkpoint", [True, False, 3])
def test_gradients_are_the_same_with_and_without_checkpoints(checkpoint):
    with jax.enable_x64(True):
        grad = jax.grad(lambda x: ti.iterate(lambda s: jnp.sin(1.1 * s), x, 37, checkpoint=checkpoint).sum())

        def by_hand(x):
            for _ in range(37):
                x = jnp.sin(1.1 * x)
            return x.sum()

        x = jnp.linspace(0.1, 1.0, 4)
        np.testing.assert_allclose(grad(x), jax.grad(by_hand)(x), rtol=1e-12)


@ti.field_operator
def stored(h):
    """The exponential is read at several offsets, and so is stored, which programs ask XLA's compiler for."""
    e = ti.exp(0.3 * ti.extend(h, {I: 2}, ti.boundary.periodic()))
    return h + 0.01 * (e(I + 1) - 2.0 * e + e(I - 1) + e(I + 2) - e(I - 2))


BACKWARD = {
    "grad": jax.grad,
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](jnp.ones(()))[0],
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "a batch of gradients": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2.0 * x])),
}


@pytest.mark.parametrize("kind", BACKWARD)
def test_a_loop_whose_program_stores_is_transformed_where_nobody_compiles(kind):
    def by_jax(h):
        for _ in range(2):
            e = jnp.exp(0.3 * h)
            h = h + 0.01 * (sum(w * jnp.roll(e, -k) for k, w in enumerate((-1, 1, -2, 1, 1), -2)))
        return (h**2).sum()

    with jax.enable_x64(True):
        x = 1.0 + 0.5 * jnp.sin(jnp.arange(8.0))
        found = BACKWARD[kind](lambda h: (ti.iterate(stored, ti.as_field({I: 8}, h), 2).data ** 2).sum())(x)
        np.testing.assert_allclose(found, BACKWARD[kind](by_jax)(x), rtol=1e-12)


def test_the_checkpointed_gradient_of_a_thousand_steps_takes_a_fifth_of_the_memory_at_most():
    plain = temporary_bytes("shallow water", False, n=32)
    assert temporary_bytes("shallow water", True, n=32) <= plain / 5


def test_a_bar_is_drawn_where_it_is_wanted_and_nowhere_else(capsys):
    ti.iterate(lambda s: s + 1.0, jnp.zeros(2), 100)
    assert capsys.readouterr().err == ""
    ti.iterate(lambda s: s + 1.0, jnp.zeros(2), 100, progress=True)
    drawn = capsys.readouterr().err
    assert drawn.startswith("\r|") and "100 of 100" in drawn and drawn.endswith("\n")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), -1),
         "error[A19]: n is -1, which is no number of steps.\nhelp: give 0 or more."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), "3"),
         "error[A19]: n is '3', which is no number of steps.\nhelp: give 0 or more."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, checkpoint="states"),
         "error[A19]: checkpoint is 'states'.\n"
         "help: it says what gradients keep: True, False, or levels; checkpoint_dir= names a folder to go on from."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, checkpoint=-1),
         "error[A19]: checkpoint is -1.\n"
         "help: it says what gradients keep: True, False, or levels; checkpoint_dir= names a folder to go on from."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, keep="h"),
         "error[A19]: keep is 'h'.\nhelp: give True, or a function."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, callback=3),
         "error[A19]: callback is 3.\nhelp: give a function of a number and a state."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, progress="bar"),
         "error[A19]: progress is 'bar'.\nhelp: give True or False."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, forcing_method="cubic"),
         "error[A19]: forcing_method is 'cubic'.\nhelp: it is \"linear\" or \"held\"."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, keep=True, to=5),
         "error[A19]: to is 5.\nhelp: give a path."),
        (lambda: ti.iterate(lambda s: s, {"x": jnp.zeros(2), "name": "run"}, 3),
         "error[A20]: ['name'] of the state is a str, and a state is made of arrays and numbers.\n"
         "help: leave it out, and read it in the step."),
        (lambda: ti.iterate(lambda s: s, np.array(["2026-01-01"], "datetime64[s]"), 3),
         "error[A20]: the state holds datetime64[s], and a state is made of arrays and numbers.\n"
         "help: leave it out, and read it in the step."),
        (lambda: ti.iterate(lambda s: s, jnp.zeros(2), 3, every=0),
         "error[A19]: every is 0, which is no number of steps.\nhelp: give 1 or more."),
        (lambda: ti.iterate(lambda s: (s, s), jnp.zeros(2), 3),
         "error[A20]: the step returns (*, *), and the state is *.\n"
         "help: return the next state in the structure of the one that it got."),
        (lambda: ti.iterate(lambda s: {"x": s["x"][1:]}, {"x": jnp.zeros(2)}, 3),
         "error[A20]: the step turns ['x'] from float32[2] into float32[1].\n"
         "help: a step keeps shapes and types: ti.with_boundary keeps a domain, and .astype a type."),
        (lambda: ti.iterate(lambda s: push(s, s), ti.ones({I: 4}), 3),
         "error[A20]: the step turns the state from I[0:4] into I[0:3].\n"
         "help: a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."),
    ],
)  # fmt: skip
def test_what_is_no_time_loop_is_refused(call, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert str(refused.value) == message


def test_a_loop_is_compiled_once_for_its_step_and_kind_of_state():
    def run(rate, x):
        return ti.iterate(lambda s: s + rate * s, x, 3, progress=False)

    x = ti.as_field({I: (0, 4)}, np.ones(4))
    first = run(1.0, x)
    assert device_work(lambda: run(1.0, x)).compiled == 0
    assert device_work(lambda: run(2.0, x)).compiled > 0
    np.testing.assert_array_equal(first.data, np.full(4, 8.0))
    np.testing.assert_array_equal(run(2.0, x).data, np.full(4, 27.0))


def test_a_gradient_that_nobody_compiles_compiles_its_loop_once():
    def loss(rate, x):
        last, kept = ti.iterate(lambda s: s + rate * s, x, 3, every=2, keep=True)
        return last.sum() + kept.sum()

    slope = jax.grad(loss, 1)
    with jax.enable_x64(True):
        x = jnp.ones(4)
        np.testing.assert_allclose(slope(1.0, x), np.full(4, 8.0 + 1.0 + 4.0 + 8.0))
        assert device_work(lambda: slope(1.0, x)).compiled == 0
        np.testing.assert_allclose(slope(2.0, x), np.full(4, 27.0 + 1.0 + 9.0 + 27.0))
        batched = jax.vmap(lambda x: ti.iterate(lambda s: s + 1.0 * s, x, 3))
        np.testing.assert_allclose(batched(jnp.ones((2, 4))), np.full((2, 4), 8.0))
        # what is differentiated may come from around the step: d/dr of 4 (1 + r)^3 at 1 and at 2
        by_rate = jax.grad(lambda rate: ti.iterate(lambda s: s + rate * s, x, 3).sum())
        np.testing.assert_allclose([by_rate(1.0), by_rate(2.0)], [48.0, 108.0])


RATE = 1.0


def test_a_loop_does_not_look_into_the_programs_of_its_step():
    def calls(length):
        chain = "x"
        for k in range(length):
            chain = f"({chain} + {k}.0)"
        program = ti.compile(ti.parse(f"f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) {{ y ← {chain}; }}"))

        def step(x):
            return program(x=x)["y"]

        with jax.enable_x64(True):
            ti.iterate(step, jnp.ones(4), 2, progress=False)
            return count_calls(lambda: ti.iterate(step, jnp.ones(4), 2, progress=False))

    assert calls(200) < 1.2 * calls(2)


def test_a_global_number_that_changes_between_two_loops_is_read_anew():
    global RATE

    def step(s):
        return s + RATE * s

    assert ti.iterate(step, np.ones(2), 2, progress=False).tolist() == [4.0, 4.0]
    RATE = 2.0
    try:
        assert ti.iterate(step, np.ones(2), 2, progress=False).tolist() == [9.0, 9.0]
    finally:
        RATE = 1.0


@pytest.mark.parametrize("of", [lambda x: x, lambda x: ti.as_field({"I": (0, 3)}, x)])
def test_who_came_with_numpy_gets_numpy(of):
    last, kept = ti.iterate(lambda s: {"x": s["x"] / 3.0}, {"x": of(np.ones(3))}, 2, keep=True, progress=False)
    data = last["x"].data if isinstance(last["x"], ti.Field) else last["x"]
    assert type(data) is np.ndarray
    assert (data * 2.0).dtype == np.float64
    assert kept["x"].dtype == np.float64


def test_who_came_with_jax_gets_jax_in_that_place():
    with jax.enable_x64(True):
        last = ti.iterate(lambda s: (s[0] + 1.0, s[1] + 1.0), (np.zeros(2), jax.numpy.zeros(2)), 2, progress=False)
    assert type(last[0]) is np.ndarray and isinstance(last[1], jax.Array)


def test_a_dataset_is_a_state_of_fields_by_name():
    state = xr.Dataset(
        {"h": ("I", [1.0, 2.0, 3.0], {"units": "m"}), "u": ("I", [1.0, 1.0, 1.0])}, {"I": [4, 5, 6]}, {"title": "a run"}
    )
    last = ti.iterate(lambda s: {"h": s["h"] + s["u"], "u": 2.0 * s["u"]}, state, 3, progress=False)
    xr.testing.assert_identical(
        last,
        xr.Dataset(
            {"h": ("I", [8.0, 9.0, 10.0], {"units": "m"}), "u": ("I", [8.0, 8.0, 8.0])},
            {"I": [4, 5, 6]}, {"title": "a run"},
        ),
    )  # fmt: skip


def test_what_is_kept_of_a_dataset_has_its_variables_and_its_attributes():
    state = xr.Dataset({"h": ("I", [1.0, 2.0], {"units": "m"}), "u": ("J", [1.0])}, {"I": [4, 5]}, {"title": "a run"})
    step = lambda s: {"h": 2.0 * s["h"], "u": s["u"] + 1.0}
    last, kept = ti.iterate(step, state, 2, every=1, keep=True, progress=False)
    expected = {"h": (("time", "I"), [[1, 2], [2, 4], [4, 8]], {"units": "m"}), "u": (("time", "J"), [[1], [2], [3]])}
    xr.testing.assert_identical(
        kept.astype(float), xr.Dataset(expected, {"time": [0, 1, 2], "I": [4, 5]}, {"title": "a run"}).astype(float)
    )
    xr.testing.assert_identical(last.astype(float), kept.isel(time=-1, drop=True).astype(float))


def test_a_dataset_may_be_a_part_of_a_state():
    sea = xr.Dataset({"h": ("I", [1.0, 2.0])}, attrs={"title": "sea"})
    step = lambda s: ({"h": s[0]["h"] + 1.0}, 2 * s[1])
    (last, k), kept = ti.iterate(step, (sea, np.array(1)), 2, keep=True, progress=False)
    xr.testing.assert_identical(last, (sea + 2.0).assign_attrs(title="sea"))
    assert k == 4 and kept["state_0_h"][-1].values.tolist() == [3.0, 4.0]


def test_units_of_a_variable_are_not_those_of_all_that_is_kept():
    h = xr.DataArray([1.0], dims="I", name="h", attrs={"units": "m"})
    _, kept = ti.iterate(lambda h: h, h, 1, keep=True, progress=False)
    assert kept.attrs == {} and kept["h"].attrs == {"units": "m"}


@pytest.mark.parametrize(
    "state",
    [xr.DataArray([1.0, 2.0], dims="time", name="h", coords={"time": [7, 8]}),
     xr.DataArray([1.0, 2.0], dims="I", name="h", coords={"time": ("I", [7, 8])}),
     {"time": np.array([1.0, 2.0]), "h": np.array([3.0])}],
    ids=["dim", "coordinate", "variable"],
)  # fmt: skip
def test_the_time_of_a_loop_is_elapsed_where_the_state_has_a_time(state, tmp_path):
    step = lambda s: jax.tree_util.tree_map(lambda x: 2.0 * x, s)
    _, kept = ti.iterate(step, state, 2, every=1, keep=True, dt=0.5, progress=False)
    assert kept["h"].dims[0] == "elapsed" and kept["elapsed"].values.tolist() == [0.0, 0.5, 1.0]
    own = kept["time"].transpose(..., *[d for d in kept["time"].dims if d != "elapsed"]).values
    assert own.tolist() == ([[1.0, 2.0], [2.0, 4.0], [4.0, 8.0]] if isinstance(state, dict) else [7, 8])
    _, stored = ti.iterate(step, state, 2, every=1, keep=True, dt=0.5, progress=False, to=tmp_path / "run.nc")
    xr.testing.assert_identical(stored.load(), kept)


SLOPE = ti.field_operator(lambda x: x(I + 1) - x)


def to_the_right(x):
    return ti.extend(SLOPE(x), {I: (0, 1)}, ti.boundary.dirichlet(0.0))


def test_axes_of_one_size_in_another_order_are_another_program():
    values = np.arange(9.0).reshape(3, 3) ** 2
    traced = jax.jit(lambda x: SLOPE(x))
    for dims, axis in ((("I", "J"), 0), (("J", "I"), 1)):
        slope = np.diff(values, axis=axis)
        with jax.enable_x64(True):
            np.testing.assert_array_equal(traced(ti.as_field(dims, values)), slope)
        last = ti.iterate(to_the_right, xr.DataArray(values, dims=dims), 1, progress=False)
        assert last.dims == dims
        np.testing.assert_array_equal(last, np.concatenate([slope, 0.0 * values.take([0], axis)], axis))


def turned(x):
    if isinstance(x, xr.DataArray):
        return 2.0 * x.T
    names = ("J", "I") if x.dims.names == ("I", "J") else ("I", "J")
    return ti.as_field({n: x.dims[n] for n in names}, 2.0 * x.data.T)


@pytest.mark.parametrize("shape", [(2, 3), (2, 2)])
def test_a_step_may_give_the_dims_in_another_order(shape):
    values = np.arange(float(np.prod(shape))).reshape(shape)
    state = {"h": xr.DataArray(values, dims=("I", "J"))}
    last = ti.iterate(lambda s: {"h": turned(s["h"])}, state, 3, progress=False)["h"]
    assert last.dims == ("I", "J")
    np.testing.assert_array_equal(last, 8.0 * values)
    with jax.enable_x64(True):
        field = ti.as_field(("I", "J"), values)
        total = lambda k: ti.iterate(turned, ti.as_field(("I", "J"), k * field.data), 3).data.sum()
        assert jax.grad(total)(1.0) == 8.0 * values.sum()


# Steps of DataArrays with xarray's own methods: the same numbers in a time loop.


T = xr.DataArray(
    np.random.default_rng(0).normal(size=(4, 6)), dims=("lat", "lon"), name="t", attrs={"units": "K"},
    coords={"lat": [-60.0, -20.0, 20.0, 60.0], "lon": np.arange(6) * 60.0},
)  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        lambda t: t - t.mean("lon"),
        lambda t: t - t.mean(dim=["lat", "lon"]),
        lambda t: t.where(t > 0.0, 0.0) + t.where(t > -9.0),
        lambda t: t.clip(-1.0, 1.0) + t.clip(max=0.5) + t.clip(min=0.0),
        lambda t: 0.5 * (t.roll(lon=1) + t.roll(lon=-2, lat=1)),
        lambda t: t * np.cos(t.lat / 60.0),
        lambda t: t - t.isel(lat=-1, drop=True) + t.isel(lon=2, drop=True),
        lambda t: t - t.sel(lat=20.0, drop=True),
        lambda t: t - t.weighted(np.cos(t.lat / 60.0)).mean(),
        lambda t: t - t.diff("lon").mean("lon"),
    ],
    ids=["mean", "several dims", "where", "clip", "roll", "coordinate", "isel", "sel", "weighted", "diff"],
)
def test_a_step_gives_what_xarray_gives(step):
    plain = T
    for _ in range(2):
        plain = step(plain).assign_coords(T.coords).transpose(*T.dims)
    found = ti.iterate(step, T, 2)
    np.testing.assert_allclose(found, plain, rtol=1e-13, atol=1e-15)
    assert found.dims == T.dims


def test_what_no_field_has_is_no_attribute():
    field = ti.zeros({"I": 3})
    assert not hasattr(field, "nonsense") and not hasattr(field, "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        _ = field.nonsense


@pytest.mark.parametrize("to", [None, "run.nc", "run.zarr", "in a trace"])
def test_variables_that_are_not_in_the_order_of_their_names_are_kept_under_their_own(to, tmp_path):
    state = xr.Dataset({"u": ("x", np.ones(3)), "c": ("x", np.full(3, 5.0))})
    step = lambda s: s.assign(u=2.0 * s["u"])
    if to == "in a trace":
        kept = ti.jit(lambda s: ti.iterate(step, s, 3, every=1, keep=True)[1])(state)
    else:
        path = None if to is None else tmp_path / to
        kept = ti.iterate(step, state, 3, every=1, keep=True, to=path, progress=False)[1]
    assert kept["u"].values[:, 0].tolist() == [1.0, 2.0, 4.0, 8.0]
    assert kept["c"].values[:, 0].tolist() == [5.0, 5.0, 5.0, 5.0]
