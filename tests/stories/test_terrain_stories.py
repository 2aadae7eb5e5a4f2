"""What is asked of elevations: slopes, shades, coasts, each story compared with NumPy, xarray or SciPy by hand."""

import numpy as np
import xarray as xr
from scipy import ndimage

import tensorir as ti
from stencils import data

I, J = ti.dims("I J")
HILLS = data.jacksboro_fault().isel(J=slice(0, 120), I=slice(0, 150))
COAST = data.topobathy()
DX, DY = data.spacing(HILLS)
AROUND = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]


@ti.field_operator
def slopes(h, dx, dy):
    east = (h(I + 1) - h(I - 1)) / (2.0 * dx)
    north = (h(J + 1) - h(J - 1)) / (2.0 * dy)
    return east, north


def test_how_steep_it_is():
    """A geographer who asks for the slope of hills gets NumPy's gradient, on the latitudes inside."""
    steepness = ti.field_operator(lambda h, dx, dy: ti.sqrt(slopes(h, dx, dy)[0] ** 2.0 + slopes(h, dx, dy)[1] ** 2.0))
    found = steepness(HILLS, DX, DY)
    north, east = np.gradient(HILLS.values, DY, DX)
    expected = np.hypot(north, east)[1:-1, 1:-1]
    np.testing.assert_allclose(found.transpose("J", "I"), expected, rtol=1e-12)
    np.testing.assert_array_equal(found.lat, HILLS.lat[1:-1])


def test_where_the_sun_of_an_afternoon_shines():
    """A cartographer who shades hills by an afternoon's sun gets the product of normals and sun, without metres as
    its unit."""
    height, azimuth = np.radians(30.0), np.radians(225.0)

    @ti.field_operator
    def shade(h, dx, dy):
        east, north = slopes(h, dx, dy)
        toward = -east * np.sin(azimuth) * np.cos(height) - north * np.cos(azimuth) * np.cos(height) + np.sin(height)
        return ti.maximum(toward / ti.sqrt(1.0 + east * east + north * north), 0.0)

    found = shade(HILLS, DX, DY).transpose("J", "I")
    north, east = (g[1:-1, 1:-1] for g in np.gradient(HILLS.values, DY, DX))
    normal = np.stack([-east, -north, np.ones_like(east)]) / np.sqrt(1 + east**2 + north**2)
    sun = [np.sin(azimuth) * np.cos(height), np.cos(azimuth) * np.cos(height), np.sin(height)]
    np.testing.assert_allclose(found, np.maximum(np.einsum("c,cji->ji", sun, normal), 0.0), atol=1e-13)
    assert "units" not in found.attrs  # not metres


def test_how_rough_it_is_within_a_window():
    """A geographer who asks for highest less lowest in a window of nine points gets xarray's rolling maximum and
    minimum."""

    @ti.field_operator
    def roughness(h):
        high = low = h
        for a, b in AROUND:
            high = ti.maximum(high, h(I + a)(J + b))
            low = ti.minimum(low, h(I + a)(J + b))
        return high - low

    window = HILLS.rolling(J=3, I=3, center=True).construct(J="j", I="i")
    expected = (window.max(("j", "i")) - window.min(("j", "i")))[1:-1, 1:-1]
    np.testing.assert_array_equal(roughness(HILLS).transpose("J", "I"), expected)


def test_what_stands_out_of_its_surroundings():
    """A geographer who takes the mean of eight neighbours off a height gets SciPy's convolution, in metres."""

    @ti.field_operator
    def position(h):
        return h - sum(h(I + a)(J + b) for a, b in AROUND) / 8.0

    weights = np.full((3, 3), -1 / 8)
    weights[1, 1] = 1.0
    expected = ndimage.convolve(HILLS.values, weights)[1:-1, 1:-1]
    found = position(HILLS).transpose("J", "I")
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found.attrs["units"] == "m"


def test_the_points_of_a_coast():
    """An oceanographer who counts the sea beside each point of land gets the coast that NumPy finds."""

    @ti.field_operator
    def coast(h):
        def sea(a):
            return ti.where(a < 0.0, 1.0, 0.0)

        return (1.0 - sea(h)) * (sea(h(I + 1)) + sea(h(I - 1)) + sea(h(J + 1)) + sea(h(J - 1)))

    wet = (COAST < 0).values.astype(float)
    beside = wet[1:-1, 2:] + wet[1:-1, :-2] + wet[2:, 1:-1] + wet[:-2, 1:-1]
    found = coast(COAST).transpose("J", "I")
    np.testing.assert_array_equal(found, (1 - wet[1:-1, 1:-1]) * beside)
    assert 0 < int((found > 0).sum()) < found.size


def test_a_mean_over_land_alone():
    """An ecologist who averages over land alone gets SciPy's masked means, and missing values where there is none."""

    @ti.field_operator
    def mean_of_land(h):
        land = ti.where(h > 0.0, 1.0, 0.0)
        total, count = h * land, land
        for shift in (I + 1, I - 1, J + 1, J - 1):
            total = total + (h * land)(shift)
            count = count + land(shift)
        return ti.where(count > 0.0, total / ti.maximum(count, 1.0), np.nan)

    cross = ndimage.generate_binary_structure(2, 1)
    land = (COAST > 0).values
    total, count = (ndimage.convolve(a.astype(float), cross)[1:-1, 1:-1] for a in (COAST.values * land, land))
    expected = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    np.testing.assert_allclose(mean_of_land(COAST).transpose("J", "I"), expected, rtol=1e-12)


def test_which_way_water_runs():
    """A hydrologist who asks which neighbour lies lowest gets NumPy's argmin."""

    @ti.field_operator
    def downhill(h):
        lowest, way = h, 0.0
        for k, shift in enumerate((I + 1, I - 1, J + 1, J - 1)):
            way = ti.where(h(shift) < lowest, float(k + 1), way)
            lowest = ti.minimum(h(shift), lowest)
        return way

    h = HILLS.values
    around = [h[1:-1, 1:-1], h[1:-1, 2:], h[1:-1, :-2], h[2:, 1:-1], h[:-2, 1:-1]]
    np.testing.assert_array_equal(downhill(HILLS).transpose("J", "I"), np.argmin(around, axis=0))


def test_smoothing_that_keeps_every_point():
    """A cartographer who smooths three times with a halo gets SciPy's convolution on all points, with the
    attributes."""

    @ti.field_operator
    def smooth(h):
        wide = ti.extend(h, {I: 1, J: 1}, ti.neumann())
        return (wide(I + 1) + wide(I - 1) + wide(J + 1) + wide(J - 1) + wide) / 5.0

    found = smooth(smooth(smooth(HILLS)))
    cross = ndimage.generate_binary_structure(2, 1) / 5.0
    expected = HILLS.values
    for _ in range(3):
        expected = ndimage.convolve(expected, cross, mode="nearest")
    np.testing.assert_allclose(found.transpose("J", "I"), expected, rtol=1e-12)
    assert found.attrs == HILLS.attrs and dict(found.sizes) == dict(HILLS.sizes)


def test_what_a_flood_reaches():
    """A hydrologist who lets water spread from a spring over low ground gets SciPy's dilation after 200 steps."""
    low = xr.where(HILLS < 400.0, 1.0, 0.0)
    spring = xr.zeros_like(low)
    spring[60, 140] = 1.0

    @ti.field_operator
    def spread(wet, low):
        wide = ti.extend(wet, {I: 1, J: 1}, ti.dirichlet(0.0))
        return low * ti.maximum(
            wide, ti.maximum(ti.maximum(wide(I + 1), wide(I - 1)), ti.maximum(wide(J + 1), wide(J - 1)))
        )

    found, _ = ti.iterate(lambda s: (spread(s[0], s[1]), s[1]), (spring, low), 200)
    start = (spring * low).values.astype(bool)
    expected = ndimage.binary_dilation(start, mask=low.values.astype(bool), iterations=200)
    np.testing.assert_array_equal(found.transpose("J", "I"), expected)


def test_a_section_along_a_parallel():
    """A geographer who takes differences along one parallel gets NumPy's, with the latitude at which the section was
    taken."""
    section = COAST.isel(J=45)
    rise = ti.field_operator(lambda h: h(I + 1) - h)
    found = rise(section)
    np.testing.assert_array_equal(found, np.diff(section))
    assert float(found.lat) == float(COAST.lat[45])  # where the section was taken
    whole = rise(COAST).isel(J=45)
    xr.testing.assert_identical(found.drop_vars("I", errors="ignore"), whole.drop_vars("I", errors="ignore"))


def test_terrain_that_does_not_fit_into_memory_goes_block_by_block():
    """A user of dask who has terrain in chunks gets the curvature of the whole, block by block, with its longitudes."""
    curvature = ti.field_operator(lambda h: h(I + 1) + h(I - 1) + h(J + 1) + h(J - 1) - 4.0 * h)
    found = ti.map_blocks(curvature, HILLS.chunk(J=40, I=64))
    h = HILLS.values
    expected = h[1:-1, 2:] + h[1:-1, :-2] + h[2:, 1:-1] + h[:-2, 1:-1] - 4 * h[1:-1, 1:-1]
    np.testing.assert_allclose(found.compute().transpose("J", "I"), expected, atol=1e-10)
    np.testing.assert_array_equal(found.lon, HILLS.lon[1:-1])


def test_only_what_is_asked_for_is_written_into_an_array_of_ones_own():
    """A user of GT4Py who passes out and a domain gets this part written, and the rest as it was."""
    out = xr.zeros_like(HILLS)
    rise = ti.field_operator(lambda h: h(I + 1) - h)
    rise(HILLS, out=out, domain={I: (10, 20), J: (0, 120)})
    expected = np.zeros(HILLS.shape)
    expected[:, 10:20] = HILLS.values[:, 11:21] - HILLS.values[:, 10:20]
    np.testing.assert_array_equal(out, expected)
