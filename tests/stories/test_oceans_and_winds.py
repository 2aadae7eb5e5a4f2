"""Oceans, winds and columns of air, run, stopped, stored and differentiated; compared with NumPy by hand."""

import datetime

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import data, meshes
from stencils.cli import main

I, J, K = ti.dims("I J K")
COAST = data.topobathy()
DX, DY = data.spacing(COAST)
DEPTH = (-COAST).clip(10.0, None).assign_attrs(units="m")


def height():
    """A hump of water on the open sea."""
    x, y = xr.DataArray(np.arange(120.0), dims="I"), xr.DataArray(np.arange(91.0), dims="J")
    return np.exp(-((x - 30.0) ** 2 + (y - 40.0) ** 2) / 20.0).transpose("J", "I").assign_coords(COAST.coords)


DT = 5.0


@ti.field_operator
def wave(h, u, v, depth):
    """One step of long waves between walls: flows at the faces of cells, heights in their middles."""
    wide = ti.extend(h, {I: 1, J: 1}, ti.boundary.neumann())
    deep = ti.extend(depth, {I: 1, J: 1}, ti.boundary.neumann())
    u = u - DT * 9.81 * (wide(I + 1) - wide) / DX
    v = v - DT * 9.81 * (wide(J + 1) - wide) / DY
    east, north = u * 0.5 * (deep(I + 1) + deep), v * 0.5 * (deep(J + 1) + deep)
    last_i, last_j = ti.concat_where(I < 119, east, 0.0 * east), ti.concat_where(J < 90, north, 0.0 * north)
    flow_i = ti.extend(last_i, {I: (1, 0)}, ti.boundary.dirichlet(0.0))
    flow_j = ti.extend(last_j, {J: (1, 0)}, ti.boundary.dirichlet(0.0))
    h = h - DT * ((flow_i - flow_i(I - 1)) / DX + (flow_j - flow_j(J - 1)) / DY)
    return h, ti.concat_where(I < 119, u, 0.0 * u), ti.concat_where(J < 90, v, 0.0 * v)


def by_numpy(h, depth, steps):
    u, v = np.zeros_like(h), np.zeros_like(h)
    for _ in range(steps):
        u[:, :-1] -= DT * 9.81 * np.diff(h, axis=1) / DX
        v[:-1] -= DT * 9.81 * np.diff(h, axis=0) / DY
        east, north = np.zeros_like(h), np.zeros_like(h)
        east[:, :-1] = u[:, :-1] * 0.5 * (depth[:, 1:] + depth[:, :-1])
        north[:-1] = v[:-1] * 0.5 * (depth[1:] + depth[:-1])
        h = h - DT * (np.diff(east, axis=1, prepend=0.0) / DX + np.diff(north, axis=0, prepend=0.0) / DY)
    return h


def step(s):
    h, u, v = wave(s["h"], s["u"], s["v"], s["depth"])
    return {"h": h, "u": u, "v": v, "depth": s["depth"]}


def begun():
    h = height()
    return {"h": h, "u": xr.zeros_like(h), "v": xr.zeros_like(h), "depth": DEPTH.copy(data=DEPTH.values)}


def test_a_wave_over_real_bathymetry_keeps_its_water():
    """An oceanographer who sends a wave over real bathymetry gets the heights of the same steps in NumPy, at times in
    seconds, and all of the water."""
    last, kept = ti.iterate(step, begun(), 60, every=20, keep=lambda s: {"h": s["h"]}, dt=DT)
    np.testing.assert_allclose(last["h"], by_numpy(height().values, DEPTH.values, 60), atol=1e-12)
    np.testing.assert_array_equal(kept.time, [0.0, 100.0, 200.0, 300.0])
    np.testing.assert_allclose(kept["h"].sum(("J", "I")), float(height().sum()), rtol=1e-12)
    np.testing.assert_array_equal(kept.lon, COAST.lon)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_run_that_is_stored_goes_on_the_next_day(tmp_path, suffix):
    """An oceanographer who stores half a run as NetCDF or Zarr, and goes on from the file, gets the bits of the whole
    run."""
    whole = ti.iterate(step, begun(), 40)
    path = tmp_path / f"run{suffix}"
    ti.iterate(step, begun(), 20, every=10, keep=True, to=path)
    with xr.open_zarr(path) if suffix == ".zarr" else xr.open_dataset(path, engine="netcdf4") as stored:
        state = {n: stored[n].isel(time=-1, drop=True).load() for n in ("h", "u", "v", "depth")}
    np.testing.assert_array_equal(ti.iterate(step, state, 20)["h"], whole["h"])


def test_a_derivative_along_parallels_of_a_sphere():
    """A meteorologist who differentiates along parallels, periodic in longitude, gets NumPy's differences over the
    length of a degree."""
    lon, lat = data.longitudes_latitudes(72, 36)
    psi = (np.sin(np.radians(2 * lon)) * np.cos(np.radians(lat)) ** 2).transpose("J", "I")
    length = meshes.EARTH_RADIUS * np.cos(np.radians(lat)) * np.radians(5.0)

    @ti.field_operator
    def eastward(f, length):
        wide = ti.extend(f, {I: 1}, ti.boundary.periodic())
        return (wide(I + 1) - wide(I - 1)) / (2.0 * length)

    found = eastward(psi, length).transpose("J", "I")
    expected = (np.roll(psi, -1, 1) - np.roll(psi, 1, 1)) / (2.0 * length.values[:, None])
    np.testing.assert_allclose(found, expected, atol=1e-18)


def test_a_wind_that_turns_as_a_whole_does_not_diverge():
    """A meteorologist who lets the wind turn as a whole gets no divergence, and twice its angular velocity as
    vorticity."""
    x, y = data.centres(40, 30, 4e5, 3e5)
    u, v = -1e-4 * y + 0.0 * x, 1e-4 * x + 0.0 * y

    @ti.field_operator
    def both(u, v):
        divergence = (u(I + 1) - u(I - 1)) / 2e4 + (v(J + 1) - v(J - 1)) / 2e4
        vorticity = (v(I + 1) - v(I - 1)) / 2e4 - (u(J + 1) - u(J - 1)) / 2e4
        return divergence, vorticity

    divergence, vorticity = both(u.drop_attrs(), v.drop_attrs())
    np.testing.assert_allclose(divergence, 0.0, atol=1e-18)
    np.testing.assert_allclose(vorticity, 2e-4, rtol=1e-10)


def column():
    """Thickness and temperature of layers over a few points, from the ground up."""
    rng = np.random.default_rng(5)
    thick = xr.DataArray(rng.uniform(100.0, 400.0, (20, 7)), dims=("K", "I"), attrs={"units": "m"})
    return thick, (288.0 - 0.0065 * thick.cumsum("K")).assign_attrs(units="K")


@ti.scan_operator(axis=K, forward=True, init=0.0)
def stacked(height, thickness):
    return height + thickness


@ti.scan_operator(axis=K, forward=False, init=0.0)
def loaded(pressure, weight):
    return pressure + weight


def test_heights_from_the_ground_and_weight_from_the_top():
    """A meteorologist who adds up layers from the ground and from the top gets xarray's cumulative sums of both
    directions."""
    thick, warm = column()
    heights = ti.field_operator(lambda d: stacked(d))(thick)
    np.testing.assert_allclose(heights.transpose("K", "I"), thick.cumsum("K"), rtol=1e-13)
    weight = ti.field_operator(lambda d, t: loaded(d / t))(thick, warm)
    expected = (thick / warm)[::-1].cumsum("K")[::-1]
    np.testing.assert_allclose(weight.transpose("K", "I"), expected, rtol=1e-13)


def test_how_stable_the_air_is_between_levels():
    """A meteorologist who divides differences of temperature by thickness gets the lapse rate of the column, without
    kelvins as its unit."""
    thick, warm = column()
    lapse = ti.field_operator(lambda t, d: -(t(K + 1) - t) / d(K + 1))
    found = lapse(warm, thick).transpose("K", "I")
    np.testing.assert_allclose(found, 0.0065, rtol=1e-9)
    assert found.attrs["units"] == "K m-1"


def test_an_ensemble_is_one_call():
    """A user of JAX who maps a compiled program over six diffusivities gets the six results that NumPy gives one by
    one."""
    rates = np.linspace(0.05, 0.2, 6)
    diffuse = ti.compile(
        ti.parse("""
        diffuse(out: tensor<float, I[1:n-1]>, h: tensor<float, I[0:n]>, r: tensor<float>) {
          out ← h + r × (⟪I, 1⟫(h) + ⟪I, -1⟫(h) - 2.0 × h);
        }""")
    )
    h = COAST.values[45].astype(float)
    with jax.enable_x64(True):
        found = jax.vmap(lambda r: diffuse(h=jax.numpy.asarray(h), r=r)["out"])(jax.numpy.asarray(rates))
    expected = [h[1:-1] + r * (h[2:] + h[:-2] - 2 * h[1:-1]) for r in rates]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_rate_is_found_that_explains_what_was_seen():
    """A user of JAX who follows the gradient of a misfit through ten steps gets the diffusivity that made the
    observations, to eight digits."""
    diffuse = ti.field_operator(
        lambda h, r: h + r * (lambda w: w(I + 1) + w(I - 1) - 2.0 * w)(ti.extend(h, {I: 1}, ti.boundary.neumann()))
    )
    h = ti.as_field({I: (0, 120)}, COAST.values[45] / 1000.0)

    def run(r):
        return ti.iterate(lambda s: diffuse(s, r), h, 10).data

    with jax.enable_x64(True):
        seen = run(0.17)
        misfit = jax.jit(lambda r: ((run(r) - seen) ** 2).sum())
        slope = jax.jit(jax.grad(misfit))
        before, rate = 0.05, 0.06
        assert float(slope(before)) == pytest.approx(
            float(misfit(before + 1e-6) - misfit(before - 1e-6)) / 2e-6, rel=1e-5
        )
        for _ in range(20):  # where the slope is zero, by secants
            if rate == before:
                break
            one, other = float(slope(before)), float(slope(rate))
            before, rate = rate, rate - other * (rate - before) / (other - one) if other != one else rate
    assert float(rate) == pytest.approx(0.17, abs=1e-8)


def test_what_flows_out_of_the_cells_of_a_mesh_in_a_file_flows_into_others(tmp_path):
    """A modeller of meshes who reads a UGRID file and sums the fluxes of each cell gets NumPy's sums, which cancel
    over the sphere."""
    meshes.icosahedral(2).to_ugrid().to_netcdf(tmp_path / "grid.nc", engine="netcdf4")
    mesh = meshes.read(tmp_path / "grid.nc")
    outward = ti.parse("""
    outward(out: tensor<float, Cell[0:c]>, flux: tensor<float, Edge[0:e]>, sign: tensor<float, Cell[0:c], _NB_0[0:3]>,
            C2E: tensor<int, Cell[0:c], _NB_Edge[0:3]>) {
      out ← reduce(+, 0.0)(⟪C2E⟫(flux) × sign);
    }""")
    flux = xr.DataArray(np.random.default_rng(0).normal(size=480), dims="Edge")
    found = outward(flux=flux, sign=mesh.sign("C2E"), C2E=mesh.table("C2E"))["out"]
    assert float(found.sum()) == pytest.approx(0.0, abs=1e-12)
    expected = np.zeros(320)
    np.add.at(expected, mesh.tables["E2C"][:, 0], flux.values)
    np.subtract.at(expected, mesh.tables["E2C"][:, 1], flux.values)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_a_file_is_filtered_from_the_command_line_and_read_again(tmp_path, monkeypatch):
    """A user of the command line who filters a file of months gets a file of every month, with latitudes, unit and
    standard name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mean.fencil").write_text("""
    mean(out: tensor<float, J[1:n-1], I[1:m-1]>, h: tensor<float, J[0:n], I[0:m]>) {
      out ← 0.25 × ⟪I, 1⟫(h) + 0.25 × ⟪I, -1⟫(h) + 0.25 × ⟪J, 1⟫(h) + 0.25 × ⟪J, -1⟫(h);
    }""")
    months = xr.concat([COAST, 2.0 * COAST], xr.DataArray([1, 2], dims="month", name="month"))
    months.swap_dims(J="lat", I="lon").to_netcdf("coast.nc", engine="netcdf4")
    with pytest.raises(SystemExit) as end:
        main(["run", "mean.fencil", "-i", "h=coast.nc:elevation", "-o", "mean.nc"])
    assert not end.value.code
    with xr.open_dataset("mean.nc", engine="netcdf4") as found:
        h = months.values
        expected = 0.25 * (h[:, 1:-1, 2:] + h[:, 1:-1, :-2] + h[:, 2:, 1:-1] + h[:, :-2, 1:-1])
        np.testing.assert_allclose(found["out"].transpose("month", "lat", "lon"), expected, rtol=1e-12)
        assert found["out"].attrs["units"] == "m" and found["out"].attrs["standard_name"] == "surface_altitude"
        np.testing.assert_array_equal(found.lat, COAST.lat[1:-1])


def test_a_basin_is_driven_by_winds_of_a_store(tmp_path):
    """An oceanographer who drives a C grid of ROMS for a year with monthly winds of a Zarr store, in a calendar without
    leap days, gets what a loop with `interp` of xarray gives."""
    months = xr.date_range("2001-01-01", periods=13, freq="MS", calendar="noleap", use_cftime=True)
    rng = np.random.default_rng(1)
    wind = xr.Dataset({"stress": (("time", "xi_u"), rng.normal(size=(13, 7)))}, {"time": months})
    wind.chunk(time=4).to_zarr(tmp_path / "wind.zarr", zarr_format=2)
    state = ti.c_grid(xr.Dataset({"zeta": ("xi_rho", rng.normal(size=8)), "u": ("xi_u", np.zeros(7))}))
    RHO, U = ti.dims("xi_rho xi_u")

    @ti.field_operator
    def accelerated(zeta, u, stress):
        return 0.99 * u + 0.1 * stress - 0.2 * (zeta(U + 0.5) - zeta(U - 0.5))

    @ti.field_operator
    def filled(zeta, u):
        closed = ti.extend(u, {U: 1}, ti.boundary.dirichlet(0.0))
        return zeta - 0.2 * (closed(RHO + 0.5) - closed(RHO - 0.5))

    def step(s, f):
        u = accelerated(s["zeta"], s["u"], f["stress"])
        return {"zeta": filled(s["zeta"], u), "u": u}

    winds = xr.open_zarr(tmp_path / "wind.zarr")
    last = ti.iterate(step, state, 360, forcing=winds, dt="1 D", start=months[0])
    zeta, u = state.zeta.values, state.u.values
    for k in range(360):
        stress = wind.stress.interp(time=months[0] + k * datetime.timedelta(days=1)).values
        u = 0.99 * u + 0.1 * stress - 0.2 * np.diff(zeta)
        zeta = zeta - 0.2 * np.diff(u, prepend=0.0, append=0.0)
    np.testing.assert_allclose(last.zeta, zeta, atol=1e-12)
    np.testing.assert_allclose(last.u, u, atol=1e-12)
    assert str(last.time.item()) == "2001-12-27 00:00:00"


def test_temperatures_of_pint_keep_their_units():
    """A meteorologist who has temperatures with units of pint gets gradients in kelvin per metre."""
    pint = pytest.importorskip("pint")
    units = pint.UnitRegistry()
    x = xr.DataArray(np.arange(5) * 1000.0, dims="x", attrs={"units": "m"})
    t = xr.DataArray(units.Quantity([280.0, 281.0, 283.0, 286.0, 290.0], "K"), {"x": x}, dims="x")
    (X,) = ti.dims("x")

    @ti.field_operator
    def gradient(t):
        at = ti.coord(t, "x")
        return (t(X + 1) - t) / (at(X + 1) - at)

    slope = gradient(t)
    assert slope.data.units == units.K / units.m
    np.testing.assert_allclose(slope.data.magnitude, [0.001, 0.002, 0.003, 0.004])
