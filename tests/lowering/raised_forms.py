"""A program raised, not raised, and by the oracle: all agree, and the rules and passes that are named are used."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

import tensorir as ti
from lowering.raising import RULES

REORDERS = {rule.name for rule in RULES if rule.reorders}


def agree(
    text: str, arrays: Mapping[str, Any], used: Collection[str], unused: Collection[str] = (), **bound: Any
) -> None:
    """The program agrees with itself without rules or passes and with the oracle, and uses these and not those.

    `bound` has the tables, of which it is only known whether they hold -1 once they are bound.
    """
    program = ti.parse(text).bind(**bound) if bound else ti.parse(text)
    raised, plain = ti.compile(program), ti.compile(program, passes=(), raising=())
    exact = ti.compile(program, numerics="exact")
    rules = {row.rule for row in raised.raised()} | {stage.name for stage in raised.pipeline() if stage.changed}
    assert set(used) <= rules, f"{set(used) - rules} are not used in\n{text}"
    assert not set(unused) & rules, f"{set(unused) & rules} are used in\n{text}"
    assert plain.raised() == ()
    assert not REORDERS & {row.rule for row in exact.raised()}
    wanted = ti.reference.run(program, **arrays)
    for compiled in (raised, plain, exact):
        found = compiled(**arrays)
        for name, value in wanted.items():
            same(found[name], value)


def same(found: Any, wanted: Any) -> None:
    """Equal, and for floats equal up to the order of sums of numbers around one."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
    else:
        bound = 1e-12 if wanted.dtype == np.float64 else 2e-4
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


class Draw(random.Random):
    """Intervals and arrays that no two dims and no two elements of a program share by accident."""

    def interval(self, low: int, high: int) -> tuple[int, int]:
        """A start, often negative, and a stop `low` to `high` points further."""
        start = self.choice([0, 0, -3, 2, -7])
        return start, start + self.randint(low, high)

    def array(self, element: str, *intervals: tuple[int, int]) -> Any:
        shape = tuple(stop - start for start, stop in intervals)
        rng = np.random.default_rng(self.randrange(1 << 30))
        dtype = {"float": "float64", "int": "int32"}.get(element, element)
        if element.startswith(("int", "uint")):
            low = 0 if element.startswith("u") else -100
            return rng.integers(low, 100, shape).astype(dtype)
        return rng.normal(size=shape).astype(dtype)


def kind(element: str, dims: Mapping[str, tuple[int, int]]) -> str:
    """A tensor type in the notation."""
    return f"tensor<{', '.join([element, *(f'{n}[{a}:{b}]' for n, (a, b) in dims.items())])}>"


ZERO = {"float32": "0.0f", "float": "0.0", "int": "0"}
