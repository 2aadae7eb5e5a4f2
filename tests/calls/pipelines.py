"""Random pipelines of labelled arrays: operators and xarray's arithmetic on arrays whose labels are turned, subset,
staggered or missing, with units that agree or not. `python -m tests.calls.pipelines 300` runs some in all places."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

import tensorir as ti

X, Y = ti.dims("x y")
XHalf = ti.Dimension("xHalf")


@ti.field_operator
def add(a, b):
    return a + b


@ti.field_operator
def times(a, b):
    return a * b


@ti.field_operator
def rise(a):
    return a(X + 1) - a


@ti.field_operator
def smooth(a):
    wide = ti.extend(a, {X: 1}, ti.boundary.neumann())
    return a + 0.25 * (wide(X + 1) - 2.0 * a + wide(X - 1))


@ti.field_operator
def faces(a):
    return a(XHalf + 0.5) - a(XHalf - 0.5)


@ti.field_operator
def anomaly(a):
    return a - ti.mean(a, X)


def state(rng: random.Random) -> xr.DataArray:
    values = np.random.default_rng(rng.randrange(2**31)).normal(size=(3, 5)) + 3.0
    start = rng.choice([0.0, -20.0])
    coords: dict[str, Any] = {"y": [1.0, 2.0, 4.0], "x": start + 10.0 * np.arange(5)}
    if rng.random() < 0.2:
        coords["x"] = np.arange(3, 8)
    if rng.random() < 0.3:
        coords["depth"] = (("y", "x"), values**2)
    if rng.random() < 0.15:
        del coords["x"]
    attrs = {"units": "m"} if rng.random() < 0.7 else {}
    return xr.DataArray(values, coords, ("y", "x"), name=rng.choice(["a", "q", None]), attrs=attrs)


def other(rng: random.Random, a: xr.DataArray) -> Any:
    """An array that a function closes over: as the state, or with other labels, dims or units."""
    b = xr.DataArray(np.cos(a.values), a.coords, a.dims, name="b")
    part = rng.randrange(8)
    match part:
        case 0:
            b = b.isel(x=slice(None, None, -1))
        case 1:
            b = b.isel(x=slice(1, None))
        case 2:
            b = b.isel(x=[0, 2, 3])
        case 3:
            b = b.drop_vars("x", errors="ignore")
        case 4:
            b = b.isel(y=0, drop=True)
        case 5:
            b = b.transpose("x", "y")
        case _:
            pass
    units = rng.choice(["", "m", "kg"])
    return b.assign_attrs(units=units) if units else b


def pipeline(rng: random.Random, a: xr.DataArray) -> Callable[[Any], Any]:
    """A function of an array like `a`."""
    kinds = ["add", "times", "rise", "smooth", "faces", "anomaly", "+", "*", "isel", "mean", "where", "exp", "roll"]
    stages: list[Callable[[Any], Any]] = []
    for kind in rng.choices(kinds, k=rng.randint(1, 4)):
        b = other(rng, a)
        stages.append({
            "add": lambda x, b=b: add(x, b), "times": lambda x, b=b: times(b, x), "rise": rise, "smooth": smooth,
            "faces": faces, "anomaly": anomaly, "+": lambda x, b=b: x + b, "*": lambda x, b=b: b * x,
            "isel": lambda x: x.isel(x=slice(1, None)), "mean": lambda x: x.mean("y"),
            "where": lambda x, b=b: xr.where(b > 0.5, x, 0.0), "exp": lambda x: np.exp(-abs(x)),
            "roll": lambda x: x.roll(x=1),
        }[kind])  # fmt: skip

    def run(x: Any) -> Any:
        for stage in stages:
            x = stage(x)
        return x

    return run


def in_keep(f: Callable[[Any], Any], a: xr.DataArray) -> Any:
    results: list[Any] = []

    def keep(x: Any) -> Any:
        results.append(f(x))
        return {"a": x}

    ti.iterate(lambda x: x, a, 1, keep=keep, progress=False)
    return results[0]


def in_a_step(f: Callable[[Any], Any], a: xr.DataArray) -> Any:
    try:
        blank = xr.zeros_like(f(a))
    except Exception:
        blank = a
    return ti.iterate(lambda s: (s[0], f(s[0])), (a, blank), 2, progress=False)[1]


PLACES: dict[str, Callable[..., Any]] = {
    "ti.jit": lambda f, a: ti.jit(f)(a),
    "ti.grad": lambda f, a: ti.value_and_grad(lambda x: (x.sum(), f(x)), has_aux=True)(a)[0][1],
    "ti.iterate": in_a_step,
    "keep=": in_keep,
}


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or its error: the code of ours, the type of xarray's."""
    try:
        return call()
    except ti.DiagnosticError as error:
        return error.diagnostics[0].code
    except ValueError as error:  # xarray's own
        return type(error).__name__


def difference(place: str, expected: Any, got: Any) -> str:
    """How two outcomes differ; nothing where they are the same."""
    if isinstance(expected, str) or isinstance(got, str):
        return "" if isinstance(expected, str) and expected == got else f"{expected!r} outside, {got!r} in {place}"
    try:
        xr.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
        assert got.dims == expected.dims and got.indexes.keys() == expected.indexes.keys()
        assert all(i.equals(got.indexes[n]) for n, i in expected.indexes.items())
        assert got.attrs == expected.attrs and got.name == expected.name
    except AssertionError as error:
        return f"{place}: {error} {expected.attrs} {got.attrs} {expected.name} {got.name}"
    return ""


def differences(seed: int) -> list[str]:
    """Of one pipeline the places where it gives something else than outside."""
    rng = random.Random(seed)
    a = state(rng)
    f = pipeline(rng, a)
    expected = outcome(lambda: f(a))
    return [told for n, run in PLACES.items() if (told := difference(n, expected, outcome(lambda run=run: run(f, a))))]


if __name__ == "__main__":
    wrong = {seed: told for seed in range(int(sys.argv[1])) if (told := differences(seed))}
    for seed, told in wrong.items():
        print(seed, *told, sep="\n  ")
    print(f"{len(wrong)} of {sys.argv[1]} pipelines differ from what they give outside")
