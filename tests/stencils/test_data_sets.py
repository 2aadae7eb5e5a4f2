"""Analytic fields against the equations that they solve, and real terrain against what is known of the places."""

import re
import sys

import numpy as np
import pytest
import xarray

from stencils import data
from stencils.data.sphere import GRAVITY, ROTATION
from stencils.meshes import EARTH_RADIUS, icosahedral

LON = np.array([-170.0, -33.0, 0.5, 47.0, 120.0])
LAT = np.array([-62.0, -20.0, 3.0, 35.0, 71.0])


def derivative(function, x, step=1e-3):
    """Fourth-order difference quotient of a function of one array."""
    first, second = function(x + step) - function(x - step), function(x + 2 * step) - function(x - 2 * step)
    return (8 * first - second) / (12 * step)


def along(function):
    """Derivatives by longitude and by latitude, per radian, of a function of degrees."""
    lon_radian = lambda lon, lat: derivative(lambda l: function(np.degrees(l), lat), np.radians(lon))
    lat_radian = lambda lon, lat: derivative(lambda l: function(lon, np.degrees(l)), np.radians(lat))
    return lon_radian, lat_radian


def laplacian(function, radius):
    def result(lon, lat):
        cosine = np.cos(np.radians(lat))
        twice = along(along(function)[0])[0](lon, lat) / cosine**2
        inner = lambda lon, lat: np.cos(np.radians(lat)) * along(function)[1](lon, lat)
        return (twice + along(inner)[1](lon, lat) / cosine) / radius**2

    return result


@pytest.mark.parametrize("centre", [(0.0, 0.0), (-90.0, 60.0), (170.0, -89.0)])
def test_the_angular_distance_is_the_angle_between_the_unit_vectors(centre):
    def vector(lon, lat):
        lon, lat = np.radians(lon), np.radians(lat)
        return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0 * lon], axis=-1)

    expected = np.degrees(np.arccos(vector(LON, LAT) @ vector(*centre)))
    np.testing.assert_allclose(data.angular_distance(LON, LAT, centre), expected, rtol=1e-12)


def test_the_distance_to_the_antipode_is_180_degrees():
    assert data.angular_distance(100.0, -30.0, (-80.0, 30.0)) == pytest.approx(180.0)


@pytest.mark.parametrize("order", [1, 3, 6])
def test_a_sectoral_harmonic_is_an_eigenfunction_of_the_laplacian(order):
    harmonic = lambda lon, lat: data.sectoral_harmonic(lon, lat, order)
    expected = -order * (order + 1) / 4.0 * harmonic(LON, LAT)
    np.testing.assert_allclose(laplacian(harmonic, radius=2.0)(LON, LAT), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("tilt", [0.0, 30.0, 90.0])
def test_a_solid_body_wind_moves_points_as_the_rotation_does(tilt):
    u, v = data.solid_body_wind(LON, LAT, speed=40.0, tilt=tilt)
    place = lambda angle: np.stack(data.rotated(LON, LAT, np.degrees(angle), tilt))
    lon_rate, lat_rate = np.radians(derivative(place, 0.0)) * 40.0  # per radius
    np.testing.assert_allclose(u, lon_rate * np.cos(np.radians(LAT)), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(v, lat_rate, rtol=1e-8, atol=1e-8)


def test_a_full_turn_brings_points_back():
    lon, lat = data.rotated(*data.rotated(LON, LAT, 215.0, tilt=40.0), 145.0, tilt=40.0)
    np.testing.assert_allclose(lon, LON, atol=1e-12)
    np.testing.assert_allclose(lat, LAT, atol=1e-12)


def steady_residual(wind, height, rotation_rate):
    """u·grad u + f k×u + g grad h of a wind that should be steady, in the eastward and northward direction."""
    u, v = wind(LON, LAT)
    sine, cosine = np.sin(np.radians(LAT)), np.cos(np.radians(LAT))

    def advected(component):
        by_lon, by_lat = along(lambda lon, lat: wind(lon, lat)[component])
        return (u * by_lon(LON, LAT) / cosine + v * by_lat(LON, LAT)) / EARTH_RADIUS

    h_lon, h_lat = along(height)
    f, curved = rotation_rate(LON, LAT), u * sine / cosine / EARTH_RADIUS
    east = advected(0) - (f + curved) * v + GRAVITY * h_lon(LON, LAT) / (EARTH_RADIUS * cosine)
    north = advected(1) + (f + curved) * u + GRAVITY * h_lat(LON, LAT) / EARTH_RADIUS
    return east, north


@pytest.mark.parametrize("tilt", [0.0, 45.0])
def test_the_geostrophic_height_balances_the_wind(tilt):
    wind = lambda lon, lat: data.solid_body_wind(lon, lat, tilt=tilt)
    height = lambda lon, lat: data.geostrophic_height(lon, lat, tilt=tilt)

    def rotation_rate(lon, lat):
        lon, lat, angle = np.radians(lon), np.radians(lat), np.radians(tilt)
        return 2 * ROTATION * (np.sin(lat) * np.cos(angle) - np.cos(lon) * np.cos(lat) * np.sin(angle))

    for component in steady_residual(wind, height, rotation_rate):
        np.testing.assert_allclose(component, 0.0, atol=1e-10)


def test_a_rossby_haurwitz_wave_has_no_divergence_and_a_known_vorticity():
    number, rate = 4, 7.848e-6
    sine, cosine = np.sin(np.radians(LAT)), np.cos(np.radians(LAT))
    u = lambda lon, lat: data.rossby_haurwitz(lon, lat)[1]
    v = lambda lon, lat: data.rossby_haurwitz(lon, lat)[2]
    weighted = lambda f: lambda lon, lat: np.cos(np.radians(lat)) * f(lon, lat)
    scale = EARTH_RADIUS * cosine
    divergence = (along(u)[0](LON, LAT) + along(weighted(v))[1](LON, LAT)) / scale
    vorticity = (along(v)[0](LON, LAT) - along(weighted(u))[1](LON, LAT)) / scale
    wave = sine * cosine**number * (number**2 + 3 * number + 2) * np.cos(number * np.radians(LON))
    np.testing.assert_allclose(divergence, 0.0, atol=1e-15)
    np.testing.assert_allclose(vorticity, rate * (2 * sine - wave), rtol=1e-7)


@pytest.mark.parametrize("wavenumber", [3, 4])
def test_the_height_of_a_rossby_haurwitz_wave_keeps_its_divergence_at_zero(wavenumber):
    wave = lambda lon, lat: data.rossby_haurwitz(lon, lat, wavenumber)

    def absolute_vorticity(lon, lat):
        scale = EARTH_RADIUS * np.cos(np.radians(lat))
        by_lon = along(lambda a, b: wave(a, b)[2])[0](lon, lat)
        by_lat = along(lambda a, b: np.cos(np.radians(b)) * wave(a, b)[1])[1](lon, lat)
        return 2 * ROTATION * np.sin(np.radians(lat)) + (by_lon - by_lat) / scale

    def energy(lon, lat):
        h, u, v = wave(lon, lat)
        return GRAVITY * h + (u**2 + v**2) / 2

    turned = lambda component: lambda lon, lat: absolute_vorticity(lon, lat) * wave(lon, lat)[component]
    scale = EARTH_RADIUS * np.cos(np.radians(LAT))
    weighted = lambda lon, lat: np.cos(np.radians(lat)) * turned(1)(lon, lat)
    source = (along(turned(2))[0](LON, LAT) - along(weighted)[1](LON, LAT)) / scale
    tendency = source - laplacian(energy, EARTH_RADIUS)(LON, LAT)
    np.testing.assert_allclose(tendency, 0.0, atol=1e-5 * np.abs(source).max())


def test_bells_hills_and_cylinders_have_their_heights_and_edges():
    assert data.cosine_bell(-90.0, np.degrees(1 / 6)) == pytest.approx(500.0)
    assert data.cosine_bell(-90.0, np.degrees(1 / 3) + 1e-9) == 0.0
    assert data.gaussian_hill(0.0, 20.0) == pytest.approx(np.exp(-1))
    lon = np.linspace(-40, 40, 81)
    cylinder = data.slotted_cylinder(lon, 0.0, radius=30.0)
    assert set(cylinder.tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(cylinder == 1.0, (np.abs(lon) >= 5) & (np.abs(lon) <= 30))


def test_a_slotted_cylinder_may_lie_across_the_date_line():
    assert data.slotted_cylinder(-171.0, 0.0, centre=(180.0, 0.0)) == 1.0
    assert data.slotted_cylinder(-179.0, 0.0, centre=(180.0, 0.0)) == 0.0


def test_a_heat_mode_decays_as_the_heat_equation_says():
    x, y = data.nodes(41, 41, width=2.0, height=1.0)
    mode = lambda time: data.heat_mode(x, y, (2.0, 1.0), (3, 2), diffusivity=0.1, time=time)
    k, l = 3 * np.pi / 2, 2 * np.pi
    np.testing.assert_allclose(mode(0.7) / np.exp(-0.1 * (k**2 + l**2) * 0.7), mode(0.0), atol=1e-15)
    edges = [mode(0.0)[0], mode(0.0)[-1], mode(0.0)[:, 0], mode(0.0)[:, -1]]
    np.testing.assert_allclose(edges[0], 0.0, atol=1e-15)
    assert max(float(abs(edge).max()) for edge in edges) < 1e-14


def test_a_seiche_solves_the_wave_equation_and_stands_at_the_walls():
    surface = lambda x, time: data.seiche(x, 0.3, (10.0, 4.0), (2, 1), depth=3.0, gravity=10.0, time=time)
    x, time = np.array([1.3, 4.0]), 0.7
    second = lambda f, at: derivative(lambda t: derivative(f, t), at)
    by_time = second(lambda t: surface(x, t), time)
    by_y = -((np.pi / 4.0) ** 2) * surface(x, time)
    np.testing.assert_allclose(by_time, 30.0 * (second(lambda p: surface(p, time), x) + by_y), rtol=1e-6)
    np.testing.assert_allclose(derivative(lambda p: surface(p, time), np.array([0.0, 10.0])), 0.0, atol=1e-12)


def test_a_rotating_wind_is_perpendicular_to_the_radius_and_grows_with_it():
    u, v = data.rotating_wind(np.array([2.0, 1.0]), np.array([1.0, 4.0]), centre=(1.0, 1.0), angular_velocity=0.5)
    np.testing.assert_allclose(u, [0.0, -1.5])
    np.testing.assert_allclose(v, [0.5, 0.0])


LABELLED = [
    ("hill", data.gaussian, ()),
    ("temperature", data.heat_mode, ()),
    ("eta", data.seiche, ((1.0, 1.0),)),
    ("hill", data.gaussian_hill, ()),
    ("bell", data.cosine_bell, ()),
    ("tracer", data.slotted_cylinder, ()),
    ("h", data.geostrophic_height, ()),
    ("harmonic", data.sectoral_harmonic, ()),
    ("distance", data.angular_distance, ((0.0, 0.0),)),
]


@pytest.mark.parametrize(("name", "function", "further"), LABELLED)
def test_dataarrays_come_back_named_with_units_and_coordinates(name, function, further):
    x, y = data.longitudes_latitudes(6, 4)
    x = x.assign_coords(column=("I", np.arange(6)))
    field = function(x, y, *further)
    assert isinstance(field, xarray.DataArray)
    assert set(field.dims) == {"I", "J"} and field.name == name and set(field.attrs) == {"units", "long_name"}
    assert "column" in field.coords
    np.testing.assert_array_equal(field.transpose("I", "J"), function(x.values[:, None], y.values, *further))


def test_winds_and_waves_come_back_named_too():
    lon, lat = data.longitudes_latitudes(6, 4)
    for fields in (data.rossby_haurwitz(lon, lat), data.solid_body_wind(lon, lat), data.rotated(lon, lat, 10.0)):
        assert all(set(field.dims) == {"I", "J"} and field.attrs["units"] for field in fields)


def test_fields_can_be_put_on_a_mesh():
    sphere = icosahedral(2).dataset("vertex_lon", "vertex_lat")
    bell = data.cosine_bell(sphere.vertex_lon, sphere.vertex_lat)
    assert bell.dims == ("Vertex",) and float(bell.max()) <= 1000.0


# ---- terrain


def test_the_jacksboro_terrain_lies_the_right_way_up():
    hills = data.jacksboro_fault()
    assert hills.lat.values[0] < hills.lat.values[-1] and hills.lon.values[0] < hills.lon.values[-1]
    south, west = hills.lat < 36.55, hills.lon < -84.2
    assert float(hills.where(south & west).max()) > 1000  # the Cumberland Mountains
    assert float(hills.where(south & ~west).mean()) < 450  # the valley behind the fault
    assert hills.attrs["units"] == "m" and hills.name == "elevation" and hills.dtype == np.float64


def test_the_bathymetry_has_the_strait_of_georgia_in_it():
    coast = data.topobathy().swap_dims(J="lat", I="lon")
    nearest = lambda lat, lon: float(coast.sel(lat=lat, lon=lon, method="nearest"))
    assert nearest(49.3, -123.9 + 360) < -100  # the strait
    assert nearest(49.6, -125.4 + 360) > 500  # mountains of Vancouver Island
    assert nearest(48.2, -125.9 + 360) < -100  # the Pacific


def test_terrain_may_come_with_other_dims():
    assert data.topobathy(dims=("y", "x")).dims == ("y", "x")


def grid(lon: list[float], lat: list[float]) -> xarray.DataArray:
    return xarray.DataArray(np.zeros((len(lat), len(lon))), {"lat": lat, "lon": lon}, ("lat", "lon"))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (xarray.DataArray([[1.0]], dims=("J", "I")), "the field has no coordinate 'lon' to take distances from."),
        (grid([1.0, 2.0], [3.0, 4.0]).drop_vars("lat"), "the field has no coordinate 'lat' to take distances from."),
        (grid([1.0], [3.0, 4.0]), "a distance between points needs two longitudes and two latitudes."),
        (grid([1.0, 2.0], [3.0]), "a distance between points needs two longitudes and two latitudes."),
    ],
)
def test_spacing_wants_coordinates(field: xarray.DataArray, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        data.spacing(field)


@pytest.mark.parametrize(
    ("lon", "lat"), [([10.0, 13.0], [50.0, 52.0]), ([30.0, 25.0, 20.0, 15.0], [-20.0, -26.0, -32.0])]
)
def test_spacing_is_the_mean_of_the_distances(lon: list[float], lat: list[float]):
    dx, dy = data.spacing(grid(lon, lat), radius=1000.0)
    degree = 1000.0 * np.pi / 180
    assert dx == pytest.approx(degree * np.abs(np.diff(lon)).mean() * np.cos(np.radians(np.mean(lat))))
    assert dy == pytest.approx(degree * np.abs(np.diff(lat)).mean())


def test_a_matplotlib_without_sample_data_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("matplotlib.cbook.get_sample_data", lambda name, asfileobj: tmp_path / name)
    with pytest.raises(ValueError, match=r"^this installation of matplotlib lacks its sample data 'topobathy.npz'"):
        data.topobathy()


def test_numbers_need_no_xarray(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert data.cosine_bell(-90.0, 0.0) == 1000.0
