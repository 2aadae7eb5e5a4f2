"""Expressions in the place of methods and options that xarray and NumPy have, and fields of operators do not.

Each is written for a field x, a dim I and what its names say, and a test runs it beside xarray.

>>> remedy("clip")
'write ti.minimum(ti.maximum(x, low), high).'
"""

from __future__ import annotations

INSTEAD = {
    "clip": "ti.minimum(ti.maximum(x, low), high)",
    "std": "ti.sqrt(ti.mean((x - ti.mean(x, I)) ** 2.0, I))",
    "var": "ti.mean((x - ti.mean(x, I)) ** 2.0, I)",
    "cumsum": "ti.scan_operator(axis=I, init=0.0)(lambda total, x: total + x)(x)",
    "cumprod": "ti.scan_operator(axis=I, init=1.0)(lambda total, x: total * x)(x)",
    "count": "ti.sum(ti.where(ti.isnan(x), 0, 1), I)",
    "diff": "x(I + 1) - x",
    "differentiate": "(x(I + 1) - x(I - 1)) / (ti.coord(x, 'I')(I + 1) - ti.coord(x, 'I')(I - 1))",
    "shift": "x(I - 1)",
    "roll": "ti.extend(x, {I: 1}, ti.boundary.periodic())(I - 1)",
    "rolling": "(x(I - 1) + x + x(I + 1)) / 3.0",
    "pad": "ti.extend(x, {I: 1}, ti.boundary.neumann())",
    "where": "ti.where(condition, x, other)",
    "fillna": "ti.where(ti.isnan(x), value, x)",
    "isnull": "ti.isnan(x)",
    "notnull": "~ti.isnan(x)",
    "astype": "ti.astype(x, ti.float32)",
    "round": "ti.round(x)",
    "weighted": "ti.mean(x, I, weights=w)",
    "dot": "ti.sum(x * y, I)",
    "coords": "ti.coord(x, 'I')",
}
"""The replacement by the name of a method."""
OF_FOLDS = {
    "min_count": "ti.where(ti.sum(ti.where(ti.isnan(x), 0, 1), I) >= n, ti.sum(x, I), float('nan'))",
    "keepdims": "x - ti.mean(x, I), since the result meets x again without the dim",
    "axis": "ti.sum(x, I), with the name of the dim",
    "dtype": "ti.sum(ti.astype(x, ti.float64), I)",
    "keep_attrs": "xr.set_options(keep_attrs=True) around the call of the operator",
    "ddof": "the quotient by one point fewer",
}
"""The replacement by the name of an option of a fold."""
WITHOUT_NAN = {
    "sum": "ti.sum(ti.where(ti.isnan(x), 0.0, x), I)",
    "mean": "ti.sum(ti.where(ti.isnan(x), 0.0, x), I) / ti.sum(ti.where(ti.isnan(x), 0.0, 1.0), I)",
    "max": "ti.max(ti.where(ti.isnan(x), -float('inf'), x), I)",
    "min": "ti.min(ti.where(ti.isnan(x), float('inf'), x), I)",
}
"""By the name of a fold, an expression that skips NaN."""


def remedy(name: str) -> str | None:
    """The hint for a method that fields of operators do not have; None for a method without replacement."""
    return f"write {INSTEAD[name]}." if name in INSTEAD else None


def remedy_of_fold(name: str, option: str) -> str:
    """The hint for an option that the fold `name` does not have."""
    known = {**OF_FOLDS, "skipna": WITHOUT_NAN.get(name, f"ti.{name}(x, I), which has no NaN")}
    return f"write {known[option]}." if option in known else f"write ti.{name}(x, I)."
