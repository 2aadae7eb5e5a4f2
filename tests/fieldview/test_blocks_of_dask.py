"""Operators on arrays of dask, block by block, compared with the same on whole arrays and with xarray by hand."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.fieldview import blocks
from tests.effort import device_work

I, J, K = ti.dims("I J K")
RNG = np.random.default_rng(11)
H = xr.DataArray(
    RNG.normal(size=(3, 17, 23)), dims=("time", "J", "I"), name="h", attrs={"units": "m"},
    coords={"lon": ("I", np.linspace(3.0, 9.0, 23)), "time": [1.5, 2.5, 4.5]},
)  # fmt: skip


@ti.field_operator
def laplacian(h):
    return h(I + 1) + h(I - 1) + h(J + 1) + h(J - 1) - 4.0 * h


@ti.field_operator
def upwind(h):
    return h(I + 3) - h(I + 1)


@ti.field_operator
def both(h, w):
    mean = w * (h(I + 1) + h)
    return mean, mean(J + 1) - mean


@pytest.mark.parametrize("chunks", [{"I": 5}, {"I": 4, "J": 17}, {"J": 3, "time": 1}, {"I": 23, "J": 17, "time": 3}])
@pytest.mark.parametrize("operator", [laplacian, upwind])
def test_blocks_give_what_the_whole_gives(operator, chunks):
    found = ti.map_blocks(operator, H.chunk(chunks))
    assert hasattr(found.data, "dask")
    expected = operator(H)
    xr.testing.assert_identical(found.compute(), expected)
    h = H.values
    inner = h[:, 1:-1, 2:] + h[:, 1:-1, :-2] + h[:, 2:, 1:-1] + h[:, :-2, 1:-1] - 4.0 * h[:, 1:-1, 1:-1]
    np.testing.assert_allclose(found.compute(), h[..., 2:] - h[..., :-2] if operator is upwind else inner, rtol=1e-12)


def test_blocks_of_the_result_are_those_of_the_argument():
    found = ti.map_blocks(laplacian, H.chunk(I=8, J=10))
    assert dict(found.chunksizes) == {"time": (3,), "J": (10, 5), "I": (8, 8, 5)}


def test_nothing_is_computed_before_it_is_asked_for_and_then_only_what_is():
    import dask.array

    seen = []

    def source(block_info=None):
        seen.append(block_info[None]["chunk-location"])
        return np.ones((10,))

    lazy = xr.DataArray(dask.array.map_blocks(source, chunks=((10,) * 6,), dtype=float, meta=np.ones(0)), dims="I")
    found = ti.map_blocks(upwind, lazy)
    assert not seen
    assert found.isel(I=12).compute().item() == 0.0
    assert sorted(seen) == [(1,), (2,)]


def test_arguments_with_other_blocks_numbers_and_several_results():
    w = xr.DataArray(np.linspace(0.0, 1.0, 17), dims="J")
    mean, rise = ti.map_blocks(both, H.chunk(I=6), w.chunk(J=4))
    by_hand = (w * (H.shift(I=-1) + H)).dropna("I").transpose(*mean.dims)
    np.testing.assert_allclose(mean.compute(), by_hand)
    np.testing.assert_allclose(rise.compute(), (by_hand.shift(J=-1) - by_hand).dropna("J").transpose(*rise.dims))
    mean, _ = ti.map_blocks(both, H.chunk(I=6), 2.0)
    xr.testing.assert_identical(mean.compute(), both(H, 2.0)[0])


def test_all_results_of_a_block_are_computed_at_once_from_what_is_read_once(monkeypatch):
    import dask.array

    seen = []

    def source(block_info=None):
        seen.append(block_info[None]["chunk-location"])
        return H.values[..., block_info[None]["array-location"][2][0] :][..., :6]

    lazy = dask.array.map_blocks(source, chunks=((3,), (17,), (6, 6, 6, 5)), dtype=float, meta=np.ones(0))
    calls, compute = [], blocks._Slab.compute
    monkeypatch.setattr(blocks._Slab, "compute", lambda *given: calls.append(1) or compute(*given))
    mean, rise = ti.map_blocks(both, xr.DataArray(lazy, dims=H.dims), 2.0)
    found = xr.Dataset({"mean": mean, "rise": rise.rename(J="K")}).compute()
    mean, rise = found["mean"], found["rise"].rename(K="J")
    assert (sorted(seen), len(calls)) == ([(0, 0, k) for k in range(4)], 4)
    by_hand = 2.0 * (H.values[..., 1:] + H.values[..., :-1])
    np.testing.assert_allclose(mean.transpose(*H.dims), by_hand, rtol=1e-12)
    np.testing.assert_allclose(rise.transpose(*H.dims), by_hand[:, 1:] - by_hand[:, :-1], rtol=1e-10, atol=1e-13)


def test_fields_and_bare_arrays_are_cut_as_dataarrays_are():
    weights = np.linspace(0.0, 1.0, 23)

    @ti.field_operator
    def rise(h, w):
        return (h(I + 1) - h) * w

    @ti.field_operator
    def annotated(h, w: ti.Field[[I], ti.float64]):
        return (h(I + 1) - h) * w

    by_hand = np.diff(H.values) * weights[:-1]
    for operator, w in [(rise, ti.as_field({I: 23}, weights)), (annotated, weights)]:
        found = ti.map_blocks(operator, H.chunk(I=5), w)
        np.testing.assert_allclose(found.compute().transpose(*H.dims), by_hand, rtol=1e-12)


def test_a_large_block_goes_in_slabs_of_one_program(monkeypatch):
    monkeypatch.setattr(blocks, "SLAB", 5 * 3 * 23 * 8)
    w = xr.DataArray(np.linspace(0.0, 1.0, 17), dims="J")
    fresh = ti.field_operator(both.function)
    results = []
    work = device_work(lambda: results.extend(a.compute() for a in ti.map_blocks(fresh, H.chunk(), w)[:1]))
    assert (work.compiled, work.executed) == (1, 3)
    laps = ti.map_blocks(laplacian, H.transpose("J", "I", "time").chunk())
    xr.testing.assert_allclose(laps.compute(), laplacian(H.transpose("J", "I", "time")))
    np.testing.assert_allclose(results[0], both(H, w)[0])


@pytest.mark.parametrize(
    ("before", "after", "points", "rows", "slabs"),
    [
        # of 8 bytes a row; a slab has eight times its halo at least, and what fits
        (1, 1, 128, 1, 8), (0, 3, 72, 1, 3), (2, 1, 72, 24, 3), (2, 1, 72, 23, 3), (0, 0, 72, 10, 8), (0, 0, 72, 72, 1),
        (0, 1, 72, 18, 4), (0, 1, 72, 17, 5), (0, 0, 5, 0, 5),
    ],
)  # fmt: skip
def test_slabs_are_as_few_as_memory_and_halos_let_them_be(before, after, points, rows, slabs, monkeypatch):
    monkeypatch.setattr(blocks, "SLAB", 8 * rows)
    difference = ti.field_operator(lambda h: 2.0 * h(I + after) - h(I - before))
    h = xr.DataArray(RNG.normal(size=points + before + after), dims="I")
    found = []
    work = device_work(lambda: found.append(ti.map_blocks(difference, h.chunk()).compute()))
    assert work.executed == slabs
    np.testing.assert_allclose(found[0], 2.0 * h.values[before + after :] - h.values[:points], rtol=1e-12)


def test_a_dataset_gives_each_parameter_its_variable():
    data = xr.Dataset({"h": H, "w": ("J", np.linspace(0.0, 1.0, 17)), "other": 3.0}).chunk(I=6)
    found, _ = ti.map_blocks(both, data)
    xr.testing.assert_identical(found.compute(), both(data["h"].compute(), data["w"].compute())[0])


def test_labels_meet_as_they_do_in_a_call():
    h = H.assign_coords(I=np.arange(3, 26))
    shorter = h.isel(I=slice(4, None))
    difference = ti.field_operator(lambda a, b: a - b)
    found = ti.map_blocks(difference, h.chunk(I=5), shorter.chunk(I=4))
    xr.testing.assert_identical(found.compute(), difference(h, shorter))
    assert not found.any().compute() and found["I"].values[0] == 7
    with pytest.raises(ti.DiagnosticError, match="A25"):
        ti.map_blocks(difference, H.swap_dims(I="lon").chunk(J=3), H.swap_dims(I="lon")[..., ::-1].chunk(J=3))


@ti.scan_operator(axis=K, forward=True, init=0.0)
def summed(total, x):
    return total + x


@ti.field_operator
def column(x):
    return summed(x)


@ti.field_operator
def padded(h):
    wide = ti.extend(h, {I: 1}, ti.boundary.neumann())
    return wide(I + 1) - wide(I - 1)


@ti.field_operator
def edge(h):
    return ti.concat_where(I < 3, 2.0 * h, h)


def test_what_needs_a_whole_dim_says_so_and_goes_by_the_others():
    x = xr.DataArray(RNG.normal(size=(6, 8)), dims=("K", "J"))
    found = ti.map_blocks(column, x.chunk(J=3))
    np.testing.assert_allclose(found.transpose("K", "J").compute(), x.cumsum("K"))
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.map_blocks(column, x.chunk(K=2))
    assert str(refused.value) == (
        "error[A35]: 'column' needs the whole of K at once, and 'x' has 3 blocks along it.\n"
        "help: make one of them: x.chunk(K=-1)."
    )


@ti.field_operator
def around(h):
    wide = ti.extend(h, {I: 1}, ti.boundary.periodic())
    return wide(I + 1) - wide(I - 1)


@ti.field_operator
def by_place(h):
    return h * ti.coord(h, "lon") + h(I + 2)


@pytest.mark.parametrize("chunks", [{"J": 5}, {"I": 5}, {"I": (2, 9, 1, 7, 4)}, {"I": 1, "J": 16}, {"I": 8, "time": 2}])
@pytest.mark.parametrize("operator", [padded, edge, by_place], ids=lambda o: o.name)
def test_what_is_special_to_a_boundary_is_so_in_the_blocks_that_it_reaches(operator, chunks):
    xr.testing.assert_identical(ti.map_blocks(operator, H.chunk(chunks)).compute(), operator(H))


def test_a_halo_may_reach_over_all_blocks():
    wide = ti.field_operator(lambda h: h(I + 9) - h(I - 9))
    xr.testing.assert_identical(ti.map_blocks(wide, H.chunk(I=4)).compute(), wide(H))


def test_a_periodic_dim_needs_both_ends_of_it():
    h = H.drop_vars("lon")
    xr.testing.assert_identical(ti.map_blocks(around, h.chunk(J=5)).compute(), around(h))
    with pytest.raises(ti.DiagnosticError, match=r"A35.*needs the whole of I at once"):
        ti.map_blocks(around, h.chunk(I=5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ti.map_blocks(np.sin, H.chunk()),
            "ti.map_blocks takes a field operator and arrays with names of dims.",
        ),
        (lambda: ti.map_blocks(laplacian, 3.0), "'laplacian' gets no DataArray that could be in blocks."),
    ],
)
def test_what_is_no_operator_on_arrays_is_told(call, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert refused.value.diagnostics[0].message == message and refused.value.diagnostics[0].code == "A36"


def test_an_array_of_dask_is_refused_by_name_elsewhere_too():
    lazy = H.chunk(I=5)
    f = ti.parse("f(out: tensor<float, I[0:n]>, h: tensor<float, I[0:n]>) { out ← 2.0 × h; }")
    calls = [
        lambda: laplacian(lazy), lambda: f(h=lazy[0, 0]), lambda: ti.compile(f)(h=lazy[0, 0]),
        lambda: ti.iterate(lambda h: 0.5 * h, lazy, 3), lambda: lazy.tensorir.extend({I: 1}, ti.boundary.neumann()),
        lambda: ti.as_field(lazy), lambda: laplacian.inspect(lazy),
    ]  # fmt: skip
    for k, call in enumerate(calls):
        with pytest.raises(ti.DiagnosticError, match=r"A33\]: '.*' is held by dask"):
            call()
            pytest.fail(f"call {k} is taken")


@pytest.mark.parametrize(
    "body",
    [
        lambda h: ti.concat_where(I < 4, h(I - 2), -h(I - 2)),
        lambda h: h(ti.Dimension("IHalf") + 0.5) - h(ti.Dimension("IHalf") - 0.5),
    ],
    ids=["a condition on places", "points half way between"],
)
def test_dims_of_one_block_keep_their_coordinates(body):
    # the results begin at other points than the argument, and what a condition names is no distance from a block
    h = xr.DataArray(np.random.default_rng(8).random((6, 4)), dims=("I", "J"))
    operator = ti.field_operator(body)
    xr.testing.assert_identical(ti.map_blocks(operator, h.chunk(J=2)).compute(), operator(h))


def test_blocks_of_results_are_as_long_as_those_of_the_argument(tmp_path):
    around = ti.field_operator(lambda h: h(I + 1) - h(I - 1))
    h = xr.DataArray(np.arange(36.0) ** 2, dims="I", coords={"I": np.arange(36)}, name="h")
    found = ti.map_blocks(around, h.chunk(I=12))
    assert found.chunks == ((12, 12, 10),)
    pair = ti.field_operator(lambda a, b: a(I + 1) + b)
    assert ti.map_blocks(pair, h.chunk(I=12), h[1:].chunk(I=(11, 12, 12))).chunks == ((12, 12, 10),)
    found.to_dataset(name="h").to_zarr(tmp_path / "h.zarr", zarr_format=2)
    with xr.open_zarr(tmp_path / "h.zarr") as stored:
        np.testing.assert_array_equal(stored.h, around(h))


def test_blocks_of_unknown_length_are_refused_with_what_computes_them():
    dask = pytest.importorskip("dask.array")
    line = dask.from_array(np.arange(10.0), chunks=5)
    h = xr.DataArray(line[line > 2.0], dims="I")
    twice = ti.field_operator(lambda h: 2.0 * h(I + 1))
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.map_blocks(twice, h)
    assert str(refused.value) == (
        "error[A36]: how long the blocks of 'h' along I are is not known before they are computed.\n"
        "help: compute these: h.copy(data=h.data.compute_chunk_sizes())."
    )
    known = h.copy(data=h.data.compute_chunk_sizes())
    np.testing.assert_array_equal(ti.map_blocks(twice, known), 2.0 * np.arange(3.0, 10.0))
