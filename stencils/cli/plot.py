"""Pictures of results: the input, the result, and the difference where they share a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stencils.extras import needed
from tensorir.arrays import refuse

__all__ = ["drawn", "plot"]


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

    name, after = drawn(results)
    after = _flat(after)
    before = next(
        (b for _, v in _members(arguments) if (b := _flat(v)) is not None and b[0].shape == after[0].shape), None
    )
    panels = (
        [("before", before[0]), ("after", after[0]), ("after - before", after[0] - before[0])]
        if before
        else [(name, after[0])]
    )
    figure = Figure(figsize=(5.2 * len(panels), 4.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    figure.suptitle(title)
    shared = [p for label, p in panels if label in ("before", "after")]
    low, high = (min(map(np.nanmin, shared)), max(map(np.nanmax, shared))) if shared else (None, None)
    for axis, (label, values) in zip(axes, panels, strict=True):
        axis.set_title(label)
        if values.ndim == 1:
            first, last = after[3]
            half = (last - first) / len(values) / 2  # the ends are those of the first and of the last point
            axis.plot(np.linspace(first + half, last - half, len(values)), values)
            axis.set_xlabel(after[1][0])
            continue
        signed = label == "after - before"
        limit = float(np.nanmax(np.abs(values))) or 1.0
        limits = {"vmin": -limit, "vmax": limit} if signed else {"vmin": low, "vmax": high}
        colours = "RdBu_r" if signed else "viridis"
        image = axis.imshow(
            values, origin="lower", aspect="auto", cmap=colours, extent=[*after[4], *after[3]], **limits
        )
        axis.set_ylabel(after[1][0])
        axis.set_xlabel(after[1][1])
        figure.colorbar(image, ax=axis, shrink=0.8, label=after[2])
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


def _flat(value: Any) -> Any:
    """One line or one map of an array, with the names and ends of its axes; None for a number.

    Of time or steps it takes the last, of further dims the first point.
    """
    array = np.asarray(value, float)
    dims = tuple(map(str, getattr(value, "dims", tuple(f"axis {k}" for k in range(array.ndim)))))
    while array.ndim > 2:
        axis = 0 if dims[0] in ("time", "step") else array.ndim - 1
        array = np.take(array, -1 if axis == 0 else 0, axis)
        dims = tuple(d for k, d in enumerate(dims) if k != axis)
    if array.ndim == 0:
        return None
    axes = [_axis(value, d, n) for d, n in zip(dims, array.shape, strict=True)]
    units = str(getattr(value, "attrs", {}).get("units", ""))
    return array, tuple(name for name, _ in axes), units, *(ends for _, ends in axes)


def _axis(value: Any, dim: str, extent: int) -> tuple[str, tuple[float, float]]:
    """The label and the ends of an axis: those of an evenly spaced coordinate along it, or its points."""
    for name, coordinate in getattr(value, "coords", {}).items():
        if coordinate.dims == (dim,) and extent > 1 and coordinate.dtype.kind in "fiu":
            points = coordinate.values.astype(float)
            gaps = np.diff(points)
            if np.allclose(gaps, gaps[0], rtol=1e-3) and gaps[0]:
                units = coordinate.attrs.get("units", "")
                half = gaps[0] / 2
                return f"{name} [{units}]" if units else str(name), (points[0] - half, points[-1] + half)
    return dim, (-0.5, extent - 0.5)
