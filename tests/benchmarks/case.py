"""What a row of the table of benchmarks is: one computation at one size, written in several ways.

A way is a function of a `Problem` that prepares everything and returns a `Run`: a function without arguments that
computes once, waits, and returns its results. Preparing is not timed. A way whose compiler or library is not here
raises `Absent` with the word that the table then shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["HAND", "HAND_FRESH", "NUMBA", "OURS", "OURS_FRESH", "PLAIN", "Absent", "C", "Case", "Problem", "Run", "Way"]

OURS, OURS_FRESH = "ours", "ours, fresh"
HAND, HAND_FRESH = "JAX by hand", "JAX by hand, fresh"
PLAIN, NUMBA, C = "plain JAX", "Numba", "C"


class Absent(Exception):
    """A way that cannot run here, and the word for why."""


@dataclass(frozen=True)
class Problem:
    """The sizes, and the arrays that every way is given."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, np.ndarray]


Run = Callable[[], Sequence[Any]]
Way = Callable[[Problem], Run]


@dataclass(frozen=True)
class Case:
    """One computation at one size."""

    kind: str
    """What is computed. Cases of one kind differ in their sizes alone."""
    size: str
    sizes: Mapping[str, int]
    small: Mapping[str, int] | None
    """The sizes at which a test compares the ways; None where they compare at their own size only."""
    inputs: Callable[..., dict[str, np.ndarray]]
    """The arrays, from a generator of random numbers and the sizes by name."""
    ways: Mapping[str, Way]
    operations: float
    """Additions, multiplications and divisions for an element of the result; 0 where they are not counted."""
    read: tuple[str, ...] = ()
    """The arrays that have to be read once; none stands for all."""
    built: Mapping[str, Way] = field(default_factory=dict)
    """Ways whose compilers take minutes: left out of --quick and of tests."""
    beside: Mapping[str, Way] = field(default_factory=dict)
    """What takes turns with the ways and computes something else, such as the forward pass beside a gradient."""
    tolerance: float = 1e-10
    """By how much results may differ, relative to the largest."""
    quick: bool = True
    """Whether it is measured with --quick too."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.size}".rstrip()

    def problem(self, small: bool = False) -> Problem:
        sizes = self.small if small and self.small is not None else self.sizes
        return Problem(sizes, self.inputs(np.random.default_rng(0), **sizes))
