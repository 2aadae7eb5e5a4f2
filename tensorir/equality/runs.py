"""Two programs run as they are, in their own element types: results, how far apart, and at the edges of numbers."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.equality.programs import Called, Member
from tensorir.runtime.errors import DiagnosticError

__all__ = ["difference", "differing_run", "edge_difference", "first_difference", "noise", "run", "ulps"]

Array = np.ndarray[Any, Any]
Outcome = list[Array] | str
"""The results of a program, or what it says of its inputs."""


def run(f: Member | Called, given: Sequence[Any]) -> Outcome:
    """What a program gives, or what it says of its inputs."""
    try:
        results = f(dict(zip((p.name for p in f.inputs), (np.array(x) for x in given), strict=True)))
    except (DiagnosticError, IndexError) as error:  # a function of NumPy refuses an index so
        return str(error).splitlines()[0]
    return [np.asarray(results[p.name]) for p in f.outputs]


def _epsilon(x: Array) -> float:
    """The distance of the numbers of a type near 1."""
    if x.dtype == np.float64:
        return 2.0**-52
    one = np.ones((), x.dtype)
    step = np.nextafter(one, np.asarray(2, x.dtype))
    return float(np.asarray(step - one).astype(np.float64))


def ulps(xs: Sequence[Array], ys: Sequence[Array]) -> float:
    """How far results lie apart at most, in units in the last place of the larger one."""
    most = 0.0
    for x, y in zip(xs, ys, strict=True):
        if x.dtype.kind in "iub" or not x.size:
            continue
        a, b = x.astype(np.float64), y.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.abs(a - b) / (_epsilon(x) * np.maximum(np.abs(a), np.abs(b)))
        most = max(most, float(np.max(np.where(np.isfinite(apart), apart, 0.0))))
    return most


NOISE = 32
"""How many times what a unit in the last place of the inputs does to a result is still rounding."""


def noise(f: Member | Called, given: Sequence[Array], rng: np.random.Generator) -> list[Array] | None:
    """How far each element of the results moves when inputs move by a unit in the last place, None where it refuses.

    Rounding on the way does what rounding of inputs does, to the extent that the program is sensitive to either.
    """
    base = run(f, given)
    if isinstance(base, str):
        return None
    moved = [np.zeros(x.shape) for x in base]
    for _ in range(3):
        found = run(f, [_nudged(x, rng) for x in given])
        if isinstance(found, str):
            continue
        for k, (x, y) in enumerate(zip(base, found, strict=True)):
            if x.dtype.kind not in "iub":
                with np.errstate(invalid="ignore"):
                    moved[k] = np.fmax(moved[k], np.abs(x.astype(np.float64) - y.astype(np.float64)))
    return [
        NOISE * m + 8 * (_epsilon(x) * np.abs(x.astype(np.float64)) if x.dtype.kind not in "iub" else 0.0)
        for m, x in zip(moved, base, strict=True)
    ]


def _nudged(x: Array, rng: np.random.Generator) -> Array:
    if x.dtype.kind in "iub":
        return x
    wide = x.astype(np.float64)
    return np.asarray(wide * (1 + _epsilon(x) * rng.choice([-1.0, 1.0], x.shape))).astype(x.dtype)


def difference(f: Member | Called, found: Outcome, other: Outcome, bounds: Sequence[Array | float]) -> str:
    """Where outcomes differ by more than bounds, in words."""
    if isinstance(found, str) or isinstance(other, str):
        if isinstance(found, str) and isinstance(other, str):
            return ""
        return f"only one of them refuses these inputs: {found if isinstance(found, str) else other}"
    first = first_difference(found, other, bounds)
    if first is None:
        return ""
    k, at = first
    return f"{f.outputs[k].name}{list(at) if at else ''} is {found[k][at]} and {other[k][at]}."


def first_difference(
    found: Outcome, other: Outcome, bounds: Sequence[Array | float]
) -> tuple[int, tuple[int, ...]] | None:
    """The first result, and its first element, that differ by more than bounds."""
    if isinstance(found, str) or isinstance(other, str):
        return None
    for k, (x, y, bound) in enumerate(zip(found, other, bounds, strict=True)):
        apart = _apart(x, y, bound)
        if apart.any():
            return k, tuple(int(i) for i in np.argwhere(apart)[0])
    return None


def _apart(x: Array, y: Array, bound: Any) -> Array:
    if x.dtype.kind in "iub":
        return np.asarray(x != y)
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return ~((np.abs(a - b) <= bound) | (np.isnan(a) & np.isnan(b)) | (a == b))


def differing_run(f: Member | Called, g: Member | Called, given: Sequence[Array]) -> str:
    """Where two runs differ by more than the noise of both, in words; empty where they do not."""
    found, other = run(f, given), run(g, given)
    if isinstance(found, str) or isinstance(other, str):
        return difference(f, found, other, ())
    rng = np.random.default_rng(1)
    noises = [noise(m, given, rng) for m in (f, g)]
    bounds = [sum(n[k] for n in noises if n is not None) for k in range(len(found))]
    return difference(f, found, other, bounds)


def edge_difference(f: Member | Called, found: Outcome, other: Outcome) -> str:
    """Where one result is NaN or infinite and the other is not, or by another sign, in words."""
    if isinstance(found, str) or isinstance(other, str):
        return difference(f, found, other, ())
    for p, x, y in zip(f.outputs, found, other, strict=True):
        if x.dtype.kind in "iub":
            apart = np.asarray(x != y)
        else:
            a, b = x.astype(np.float64), y.astype(np.float64)
            odd = ~np.isfinite(a) | ~np.isfinite(b)
            apart = odd & ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if apart.any():
            at = tuple(int(k) for k in np.argwhere(apart)[0])
            return f"{p.name}{list(at) if at else ''} is {x[at]} and {y[at]}"
    return ""
