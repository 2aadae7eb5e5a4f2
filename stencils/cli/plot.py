"""Pictures of results: the input, the result, and the difference where they share a grid.

Longitudes are on x and growing latitudes go up, whatever the order of a file is; what is measured and in which units
stands at each axis and colour bar; before and after have one scale of colours, a difference one around zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stencils.cli.terminal import needed
from tensorir.runtime.errors import refuse


def plot(
    path: Path,
    title: str,
    arguments: Mapping[str, Any],
    results: Mapping[str, Any],
    write: Callable[[Path, Callable[[str], object]], None],
) -> None:
    """The first result beside the input that is most like it, and their difference; lines in one dim, maps in two."""
    needed("matplotlib", "plot", "pictures")
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    name, value = drawn(results)
    after = Panel.of(value, name)
    assert after is not None
    panels = [after]
    candidates = (Panel.of(v, n) for n, v in _members(arguments) if np.ndim(v) and np.asarray(v).dtype.kind in "fiu")
    before = next((b for b in candidates if b is not None and b.is_like(after)), None)
    if before is not None:
        panels = [before.titled("before"), after.titled("after"), after.less(before)]
    figure = Figure(figsize=(5.2 * len(panels), 4.4), layout="constrained")
    figure.suptitle(title)
    scale = _scale([p.values for p in panels if not p.signed])
    for axis, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        axis.set_title(panel.title)
        if panel.values.ndim == 1:
            panel.draw_line(axis)
        else:
            image = panel.draw_map(axis, scale)
            figure.colorbar(image, ax=axis, shrink=0.8, label=panel.label)
        axis.locator_params(axis="x", nbins=5)  # longitudes are long
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # names are no formulas
    write(path, lambda to: figure.savefig(to, dpi=130))


def drawn(results: Mapping[str, Any]) -> tuple[str, Any]:
    """The result that is drawn, by name; raises F05 for a number."""
    name, value = next(iter(_members(results)))
    if np.ndim(value) == 0:
        raise refuse("F05", f"'{name}' is a number, and there is nothing to draw.", "leave --plot out.")
    return name, value


def _members(values: Mapping[str, Any]) -> Any:
    for name, value in values.items():
        yield (name, value[0] if isinstance(value, tuple) else value)


def _scale(shown: list[Any]) -> tuple[float | None, float | None]:
    """The least and the largest of the finite values of several arrays."""
    finite = [v[np.isfinite(v)] for v in shown]
    finite = [v for v in finite if v.size]
    return (min(map(np.min, finite)), max(map(np.max, finite))) if finite else (None, None)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a picture: its label, and the places of its points, in ascending order."""

    dim: str
    label: str
    points: np.ndarray

    @property
    def is_even(self) -> bool:
        """True if the points have equal distances."""
        gaps = np.diff(self.points)
        return len(gaps) == 0 or bool(np.allclose(gaps, gaps[0], rtol=1e-3))

    @property
    def ends(self) -> tuple[float, float]:
        """The start of the first point's box and the end of the last one's."""
        half = (self.points[-1] - self.points[0]) / max(1, len(self.points) - 1) / 2 or 0.5
        return float(self.points[0] - half), float(self.points[-1] + half)


@dataclass(frozen=True, slots=True)
class Panel:
    """A line, or a map with its rows from below."""

    title: str
    label: str
    values: np.ndarray
    axes: tuple[Axis, ...]
    signed: bool = False

    @staticmethod
    def of(value: Any, name: str) -> Panel | None:
        """A line or a map of an array: the last of time or steps, the first point of further dims; None of numbers."""
        array = np.asarray(value, float)
        dims = [str(d) for d in getattr(value, "dims", [f"axis {k}" for k in range(array.ndim)])]
        coords = dict(getattr(value, "coords", {}))
        title = name
        while array.ndim > 2:
            passing = next((k for k, d in enumerate(dims) if d in ("time", "step")), None)
            k, place = (array.ndim - 1, 0) if passing is None else (passing, -1)
            title += f", {'last' if place else 'first'} {dims[k]}"
            array = np.take(array, place, k)
            del dims[k]
        if not array.ndim:
            return None
        axes = [_axis(coords, d, n) for d, n in zip(dims, array.shape, strict=True)]
        if array.ndim == 2 and _lies(coords, dims[0]) and not _lies(coords, dims[1]):
            array, axes = array.T, axes[::-1]
        for k, axis in enumerate(axes):
            if axis.points[0] > axis.points[-1]:
                array, axes[k] = np.flip(array, k), Axis(axis.dim, axis.label, axis.points[::-1])
        return Panel(title, _label(value, name), array, tuple(axes))

    def titled(self, title: str) -> Panel:
        """The same under another title, with what it says of further dims."""
        _, comma, rest = self.title.partition(", ")
        return Panel(title + comma + rest, self.label, self.values, self.axes, self.signed)

    def is_like(self, other: Panel) -> bool:
        """True if a difference of the two says something: on one grid, and in units that do not differ."""
        grids = [[(a.dim, len(a.points)) for a in p.axes] for p in (self, other)]
        units = {p.label.rpartition(" [")[2] for p in (self, other) if p.label.endswith("]")}
        return grids[0] == grids[1] and len(units) < 2

    def less(self, before: Panel) -> Panel:
        """The difference from what was before."""
        _, bracket, units = (self.label if self.label.endswith("]") else before.label).rpartition(" [")
        label = f"difference{bracket}{units}" if bracket else "difference"
        return Panel("after - before", label, self.values - before.values, self.axes, True)

    def draw_line(self, axis: Any) -> None:
        """The values over the points."""
        axis.plot(self.axes[0].points, self.values)
        axis.set_xlabel(self.axes[0].label)
        axis.set_ylabel(self.label)

    def draw_map(self, axis: Any, scale: tuple[float | None, float | None]) -> Any:
        """The values in colours: on a scale, or around zero."""
        low, high = scale
        if self.signed:
            finite = self.values[np.isfinite(self.values)]
            high = float(np.max(np.abs(finite), initial=0.0)) or 1.0
            low = -high
        vertical, across = self.axes
        axis.set_ylabel(vertical.label)
        axis.set_xlabel(across.label)
        options: dict[str, Any] = {
            "cmap": "RdBu_r" if self.signed else "viridis", "vmin": low, "vmax": high,
        }  # fmt: skip
        if vertical.is_even and across.is_even:
            ends = [*across.ends, *vertical.ends]
            return axis.imshow(self.values, origin="lower", aspect="auto", extent=ends, **options)
        mesh = axis.pcolormesh(across.points, vertical.points, self.values, shading="nearest", **options)
        mesh.set_rasterized(True)
        return mesh


def _label(value: Any, name: str) -> str:
    attrs = getattr(value, "attrs", {})
    what = str(attrs.get("long_name", name))
    return f"{what} [{attrs['units']}]" if attrs.get("units") else what


def _lies(coords: Mapping[Any, Any], dim: str) -> bool:
    """True if a dim goes along x: by what the attributes of its coordinates say, or by its name."""
    along = [c for c in coords.values() if c.dims == (dim,)]
    east = ("degrees_east", "degree_east", "degrees_E", "degree_E")
    said = any(
        c.attrs.get("axis") == "X"
        or c.attrs.get("standard_name") in ("longitude", "projection_x_coordinate")
        or c.attrs.get("units") in east
        for c in along
    )
    return said or dim.lower() in ("i", "x", "lon", "longitude")


def _axis(coords: Mapping[Any, Any], dim: str, extent: int) -> Axis:
    """The axis of a dim: by a coordinate along it that grows or falls, or by its points."""
    for name, coordinate in coords.items():
        if coordinate.dims == (dim,) and extent > 1 and coordinate.dtype.kind in "fiu":
            points = coordinate.values.astype(float)
            gaps = np.diff(points)
            if (gaps > 0).all() or (gaps < 0).all():
                return Axis(dim, _label(coordinate, str(name)), points)
    return Axis(dim, dim, np.arange(extent, dtype=float))
