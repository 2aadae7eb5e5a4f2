"""The table as a picture: for each case our time relative to each way's, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.case import HAND, NUMBA, OURS, PLAIN, C
from tests.benchmarks.table import Row

__all__ = ["picture"]

MARKS = {HAND: ("o", "#d55e00"), PLAIN: ("s", "#999999"), NUMBA: ("^", "#0072b2"), C: ("v", "#009e73")}
OTHER = ("D", "#cc79a7")


def picture(rows: Sequence[Row], path: Path) -> None:
    """Left of 1 ours is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.24 * len(rows)), layout="constrained")
    labels: set[str] = set()
    for place, row in enumerate(reversed(rows)):
        for way in row.timings:
            if way.startswith(OURS) or way.endswith(", fresh"):
                continue
            marker, colour = MARKS.get(way, OTHER)
            label = way if way in MARKS else "others"
            shown = None if label in labels else label
            axes.plot(row.ratio(OURS, way), place, marker, color=colour, label=shown, alpha=0.85, markersize=5)
            labels.add(label)
    axes.axvline(1.0, color="#777777", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)], fontsize=8)
    axes.set_xlabel("our time relative to a way's: left of 1 ours is faster")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, frameon=False, fontsize=8)
    figure.savefig(path)
    pyplot.close(figure)
