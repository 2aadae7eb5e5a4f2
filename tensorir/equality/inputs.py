"""Inputs at which programs are compared: random ones, and those that their literals, branches and extents suggest."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.equality.assumptions import NONE, Assumptions
from tensorir.equality.programs import Member
from tensorir.ir.nodes import Fencil, Literal, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import DTYPES, Element, Scalar

__all__ = ["Input", "at_model", "inputs", "mild", "of_all_magnitudes", "special"]

Array = np.ndarray[Any, Any]
MOST_MARKS = 64
"""How many numbers of the sources are tried."""


@dataclass(frozen=True, slots=True)
class Input:
    """The arrays of all inputs in their order, and where each holds a number that a source names."""

    arrays: tuple[Array, ...]
    literal: tuple[Array, ...]


def inputs(
    f: Member, g: Member, count: int, rng: np.random.Generator, assumed: Assumptions = NONE,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Input]:  # fmt: skip
    """So many inputs of both programs: random, near the numbers of the sources, of all magnitudes, in turns."""
    marks = _marks([f.fencil, g.fencil])
    extents = sorted({len(i) for m in (f, g) for p in m.fencil.params for _, i in p.type.dims.items})
    ways = ("random", "marks", "magnitudes", "negative", "scaled", "small", "positive", "marks")
    for k in range(count):
        pairs = [
            _as_assumed(
                p.name, *_array(rng, p, f.element(p), ways[k % len(ways)], marks, extents), assumed, sizes or {}
            )
            for p in f.inputs
        ]
        yield Input(tuple(a for a, _ in pairs), tuple(m for _, m in pairs))


def at_model(x: Input, values: Mapping[tuple[int, tuple[int, ...]], int]) -> Input:
    """An input with elements of arrays replaced: by the number of the array, and the place."""
    arrays = [np.array(a) for a in x.arrays]
    for (array, at), value in values.items():
        arrays[array][at] = value
    return Input(tuple(arrays), x.literal)


def _marks(programs: Sequence[Fencil]) -> list[float]:
    """The numbers that sources name, largest programs' first ones first."""
    found: dict[float, None] = {}
    for f in programs:
        for e in postorder(*values(f.closures)):
            if isinstance(e, Literal) and not isinstance(e.value, bool) and np.isfinite(float(e.value)):
                found[float(e.value)] = None
    return list(found)[:MOST_MARKS]


def _array(
    rng: np.random.Generator, p: Var, element: Element, way: str, marks: Sequence[float], extents: Sequence[int]
) -> tuple[Array, Array]:
    assert isinstance(element, Scalar) and isinstance(p.type.element, Scalar)
    shape, dtype = p.type.dims.shape, DTYPES[p.type.element]
    if element.is_float:
        return _floats(rng, shape, dtype, way, marks)
    if element.is_integer:
        found = _integers(rng, shape, element, way, marks, extents)
        return found.astype(dtype), np.ones(shape, bool)
    return rng.integers(0, 2, shape).astype(bool), np.ones(shape, bool)


def _floats(rng: np.random.Generator, shape: Any, dtype: Any, way: str, marks: Sequence[float]) -> tuple[Array, Array]:
    named = np.zeros(shape, bool)
    x = np.asarray(rng.normal(size=shape))
    match way:
        case "magnitudes":
            x = np.sign(x) * 10.0 ** rng.uniform(-4, 4, shape)
        case "scaled":
            x = x * 10.0 ** rng.uniform(-4, 4)
        case "positive":
            x = np.abs(x) + 0.25
        case "negative":
            x = -np.abs(x) - 0.25
        case "small":
            # halves, at which functions of whole parts and powers of negative numbers change
            x = np.asarray(rng.integers(-7, 8, shape)) / 2
            named = np.ones(shape, bool)
        case "marks" if marks:
            near = np.asarray(rng.choice(np.array(marks), shape))
            step = np.asarray(rng.choice([0.0, 0.0, 1.0, -1.0, 0.5, -0.5], shape))
            opposite = np.asarray(rng.choice([1.0, 1.0, 1.0, -1.0], shape))
            named = np.asarray(rng.random(shape) < 0.6)
            x = np.where(named, near * opposite + step, x)
        case _:
            pass
    found = np.asarray(x).astype(dtype)
    finite = np.isfinite(found.astype(np.float64))
    return np.where(finite, found, np.zeros((), dtype)), named | ~finite


def _integers(
    rng: np.random.Generator, shape: Any, element: Scalar, way: str, marks: Sequence[float], extents: Sequence[int]
) -> Array:
    near = {int(m) + k for m in marks for k in (-1, 0, 1) if abs(m) < 2**62}
    near |= {n + k for n in extents for k in (-1, 0, 1)} | {0, 1, -1}
    match way:
        case "random" | "positive" | "negative" | "scaled":
            most = max(extents, default=1)
            found = rng.integers(0, max(most, 2), shape)
        case "magnitudes":
            found = of_all_magnitudes(rng, shape, element)
        case "small":
            found = rng.integers(-4, 5, shape)
        case _:
            # each number has its turn, also where there are few elements
            found = np.resize(rng.permutation(np.array(sorted(near))), shape)
    return np.clip(np.asarray(found, object), element.range.start, element.range.stop - 1)


def of_all_magnitudes(rng: np.random.Generator, shape: Any, element: Scalar) -> Array:
    """Integers from the whole range of a type, among them its ends, and powers of two with their neighbours."""
    low, high = element.range.start, element.range.stop - 1
    ends = [low, low + 1, high, high - 1, 0, 1, *(-1, -2) * (low < 0)]
    powers = [s * (2**k + by) for k in range(element.bits) for by in (-1, 0, 1) for s in (1, -1)]
    drawn = rng.integers(low, high, shape, np.uint64 if low == 0 else np.int64)
    part = rng.random(shape)
    named = np.where(part < 0.3, *(rng.choice(np.array(c, object), shape) for c in (ends, powers)))
    return np.clip(np.where(part < 0.6, named, drawn.astype(object)), low, high)


def _as_assumed(
    name: str, x: Array, literal: Array, assumed: Assumptions, sizes: Mapping[str, int]
) -> tuple[Array, Array]:
    """Numbers within the bounds that are assumed of a name, as many different ones as can be."""
    low, high = assumed.bounds(name, sizes, x.dtype.kind in "iu")
    steps = [(by, left) for n, by, left in assumed.remainders if n == name]
    if x.dtype.kind == "b" or (low, high, steps) == (-np.inf, np.inf, []):
        return x, literal
    if x.dtype.kind in "iu":
        found = np.asarray(x, object)
        least, most = (math.ceil(low) if low > -np.inf else None), (math.floor(high) if high < np.inf else None)
        if least is not None and most is not None:
            found = least + (found - least) % max(most - least + 1, 1)
        elif least is not None:
            found = np.where(found < least, 2 * least - found, found)
        elif most is not None:
            found = np.where(found > most, 2 * most - found, found)
        for by, left in steps:
            found = found - found % by + left
        return np.asarray(found).astype(x.dtype), literal
    wide = np.asarray(x, np.float64)
    outside = ~((wide > low) & (wide < high))
    part = np.abs(np.where(np.isfinite(wide), wide, 1.0))
    if low > -np.inf and high < np.inf:
        moved = low + (high - low) * (0.1 + part % 0.8)
    else:
        moved = low + part + 0.1 if low > -np.inf else high - part - 0.1
    return np.where(outside, moved, wide).astype(x.dtype), literal & ~outside


def mild(x: Input) -> Input:
    """An input that more programs take: positive numbers, and whole ones that are indices of nearly any array."""

    def one(a: Array) -> Array:
        if a.dtype.kind == "b":
            return a
        return a & 1 if a.dtype.kind in "iu" else np.abs(a)

    return Input(tuple(map(one, x.arrays)), x.literal)


def special(
    f: Member, rng: np.random.Generator, turn: int, assumed: Assumptions = NONE, sizes: Mapping[str, int] | None = None
) -> tuple[Array, ...]:
    """Random inputs with NaN, infinities, -0.0 and the ends of integer types in places that change with the turn."""
    found: list[Array] = []
    for p in f.inputs:
        element = f.element(p)
        a, _ = _array(rng, p, element, "random", (), (2,))
        rare = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1e30, -1e30])
        if isinstance(element, Scalar) and element.is_float and a.size:
            with np.errstate(over="ignore"):
                some = rare.astype(a.dtype)
            count = min(-(-a.size // 2), max(len(rare), a.size // 5))
            places = rng.permutation(a.size)[:count]
            a = np.array(a)
            a.reshape(-1)[places] = some[(np.arange(count) + turn * count) % len(some)]
        found.append(_as_assumed(p.name, a, np.zeros(a.shape, bool), assumed, sizes or {})[0])
    return tuple(found)
