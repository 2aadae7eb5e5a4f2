"""What `--plot` draws: axes, units and scales, read off the figure before it is saved."""

import numpy as np
import pytest
import xarray as xr

from stencils import data
from stencils.cli.plot import plot


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws arguments and results, and gives the figure."""
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))

    def draw(arguments, results):
        plot(tmp_path / "p.png", "a title", arguments, results, lambda _, make: make("p.png"))
        return figures[-1]

    return draw


def maps(figure):
    return [axis for axis in figure.axes if axis.images and axis.get_xlabel()]


def bars(figure):
    return [axis for axis in figure.axes if not axis.get_xlabel()]


COAST = data.topobathy()
COAST = COAST.assign_coords(lat=COAST.lat.copy(data=np.linspace(47.0, 50.0, len(COAST.lat))))
COAST = COAST.assign_coords(lon=COAST.lon.copy(data=np.linspace(-128.0, -122.0, len(COAST.lon))))


def test_longitudes_are_on_x_and_units_at_every_axis(drawn):
    for order in (("J", "I"), ("I", "J")):
        figure = drawn({}, {"out": COAST.transpose(*order)})
        (axis,), (bar,) = maps(figure), bars(figure)
        assert (axis.get_xlabel(), axis.get_ylabel()) == ("Longitude [degrees_east]", "Latitude [degrees_north]")
        assert bar.get_ylabel() == "Terrain and bathymetry around Vancouver Island [m]"
        west, east, south, north = axis.images[0].get_extent()
        assert west < float(COAST.lon[0]) < float(COAST.lon[-1]) < east
        assert south < float(COAST.lat[0]) < float(COAST.lat[-1]) < north
        np.testing.assert_array_equal(axis.images[0].get_array(), COAST)


def test_north_is_up_where_a_file_goes_south(drawn):
    (axis,) = maps(drawn({}, {"out": COAST[::-1]}))
    np.testing.assert_array_equal(axis.images[0].get_array(), COAST)
    _, _, south, north = axis.images[0].get_extent()
    assert south < north


def test_before_and_after_share_a_scale_and_a_difference_is_around_zero(drawn):
    figure = drawn({"h": COAST}, {"out": 0.5 * COAST.transpose("I", "J") + 3.0})
    before, after, difference = maps(figure)
    assert [a.get_title() for a in (before, after, difference)] == ["before", "after", "after - before"]
    scale = (float(min(COAST.min(), (0.5 * COAST + 3).min())), float(max(COAST.max(), (0.5 * COAST + 3).max())))
    assert before.images[0].get_clim() == after.images[0].get_clim() == scale
    low, high = difference.images[0].get_clim()
    assert -low == high == float(abs(3.0 - 0.5 * COAST).max())
    assert difference.images[0].get_cmap().name == "RdBu_r" != after.images[0].get_cmap().name
    assert [b.get_ylabel() for b in bars(figure)][-1] == "difference [m]"


def test_metres_are_not_taken_from_kelvins(drawn):
    assert len(maps(drawn({"t": COAST.assign_attrs(units="K")}, {"out": COAST}))) == 1


def test_points_that_are_missing_have_no_part_in_the_scale(drawn):
    (axis,) = maps(drawn({}, {"out": COAST.where(COAST > 0)}))
    assert axis.images[0].get_clim()[1] == float(COAST.max())
    (axis,) = maps(drawn({}, {"out": COAST.where(COAST > 1e9)}))
    assert axis.images[0].get_array().mask.all()


def test_a_line_has_its_units(drawn):
    figure = drawn({}, {"out": COAST.isel(J=40)})
    (axis,) = figure.axes
    assert axis.get_xlabel() == "Longitude [degrees_east]" and axis.get_ylabel().endswith("Vancouver Island [m]")
    np.testing.assert_array_equal(axis.lines[0].get_xdata(), COAST.lon)


def test_of_steps_the_last_is_drawn_and_said(drawn):
    steps = xr.concat([COAST, 2 * COAST], xr.Variable("step", [5, 10]))
    (axis,) = maps(drawn({}, {"out": steps}))
    assert axis.get_title() == "out, last step"
    np.testing.assert_array_equal(axis.images[0].get_array(), 2 * COAST)


def test_latitudes_that_lie_unevenly_are_drawn_where_they_lie(drawn):
    uneven = COAST.assign_coords(lat=COAST.lat**2)
    figure = drawn({}, {"out": uneven[::-1]})
    axis = figure.axes[0]
    (mesh,) = axis.collections
    np.testing.assert_array_equal(mesh.get_array(), COAST)
    corners = mesh.get_coordinates()[:, 0, 1]
    np.testing.assert_allclose(0.5 * (corners[1:-2] + corners[2:-1]), uneven.lat[1:-1], rtol=1e-3)
