"""Units of products and quotients: those of UDUNITS where all factors have units, and none rather than a wrong one."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tensorir.binding.quantities import units_of

I, Z = ti.dims("I z")


@pytest.mark.parametrize(
    ("body", "given", "unit"),
    [
        (lambda a, b: a * b, ("m s-1", "s"), "m"),
        (lambda a, b: a / b, ("K", "m"), "K m-1"),
        (lambda a, b: (a(I + 1) - a) / (b(I + 1) - b), ("K", "m"), "K m-1"),
        (lambda a, b: 0.5 * (a(I + 1) + a) * b / 4.0, ("kg m-3", "m/s"), "kg m-2 s-1"),
        (lambda a, b: a / b / b, ("m", "s"), "m s-2"),
        (lambda a, b: a / a, ("m", "s"), ""),
        (lambda a, b: 1.0 / b, ("m", "s"), "s-1"),
        (lambda a, b: a + a * b / b, ("m", "s"), "m"),
        (lambda a, b: ti.where(a > 0.0, a * b, 0.0), ("m", "m"), "m2"),
        # 9.81 may be an acceleration, a radius turns radians into metres, and N are kg m s-2
        (lambda a, b: 9.81 * a * b, ("kg m-3", "m"), ""),
        (lambda a, b: (9.81 * (a(I + 1) - a)) * b, ("kg m-3", "m"), ""),
        (lambda a, b: a / (6.371e6 * ti.radians(b)), ("K", "degrees_north"), ""),
        (lambda a, b: a / b, ("degC", "m"), ""),
        (lambda a, b: a * b, ("K", "furlongs per fortnight"), ""),
        (lambda a, b: a + a * b, ("N", "1"), "N"),
        (lambda a, b: a * b + a, ("N", "s"), ""),
        (lambda a, b: ti.exp(a / b), ("m", "m"), ""),
    ],
)
def test_a_unit_follows_from_those_of_all_factors(body, given, unit):
    kind = ti.tensor("float", I=(0, 5))
    fencil = ti.field_operator(body).fencil(kind, kind)
    assert units_of(fencil, dict(zip(("a", "b"), given, strict=True))).get("out", "") == unit


def test_two_units_that_arguments_state_are_refused_as_before():
    a = xr.DataArray(np.ones(3), dims="I", attrs={"units": "m"})
    with pytest.raises(ti.DiagnosticError, match="A32"):
        ti.field_operator(lambda a, b: a + b)(a, a.assign_attrs(units="s"))


def test_a_derivative_by_a_coordinate_has_its_unit():
    t = xr.DataArray(
        np.arange(6.0) ** 2, dims="z", coords={"z": ("z", np.arange(6.0) * 10.0, {"units": "m"})},
        attrs={"units": "K"}, name="t",
    )  # fmt: skip

    @ti.field_operator
    def slope(t):
        z = ti.coord(t, "z")
        return (t(Z + 1) - t) / (z(Z + 1) - z)

    assert slope(t).attrs == {"units": "K m-1"}
