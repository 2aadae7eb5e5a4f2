"""How far a compiled result may be from the oracle's: a running error for every element.

The oracle computes with pairs of a float and a bound on the error that another order of rounding makes. An operation
adds one unit in the last place of its result (five for a transcendental one), and hands on the errors of its
operands, times its slope. XLA contracts and reorders, and the oracle rounds too: the bound is eight times the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tensorir.ir.types import DTYPES, Scalar
from tensorir.reference import Interpreter
from tensorir.reference.scalars import SCALAR

from .programs import Case

__all__ = ["arrays_of", "flat", "with_bounds"]

SAFETY = 8
SLOPES: dict[str, Callable[..., tuple[float, ...]]] = {
    "plus": lambda x, y: (1.0, 1.0),
    "minus": lambda x, y: (1.0, 1.0),
    "multiplies": lambda x, y: (abs(y), abs(x)),
    "min": lambda x, y: (1.0, 1.0),
    "max": lambda x, y: (1.0, 1.0),
    "neg": lambda x: (1.0,),
    "abs": lambda x: (1.0,),
    **dict.fromkeys(["sin", "cos", "tanh", "arctan", "arcsinh"], lambda x: (1.0,)),
    "erf": lambda x: (2 / math.sqrt(math.pi),),
}
TRANSCENDENTAL = {"sin", "cos", "tanh", "arctan", "arcsinh", "erf"}


@dataclass(frozen=True)
class Bounded:
    """A float and a bound on its error."""

    value: Any
    error: float

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return float(self) == float(other)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash(self.value)


def _bounded(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(kind: Scalar, *values: Any) -> Any:
        if not kind.is_float:
            return function(kind, *values)
        plain = [v.value if isinstance(v, Bounded) else v for v in values]
        result = function(kind, *plain)
        handed = sum(
            slope * v.error
            for slope, v in zip(SLOPES[op](*map(float, plain)), values, strict=True)
            if isinstance(v, Bounded)
        )
        unit = float(ml_dtypes.finfo(DTYPES[kind]).eps) * (5 if op in TRANSCENDENTAL else 1)
        return Bounded(result, handed + unit * abs(float(result)))

    return compute


@contextmanager
def _pairs() -> Iterator[None]:
    """The oracle computes with pairs."""
    plain = dict(SCALAR)
    SCALAR.update({op: _bounded(op, function) for op, function in plain.items()})
    try:
        yield
    finally:
        SCALAR.update(plain)


def with_bounds(case: Case) -> tuple[dict[str, Any], dict[str, list[np.ndarray]]]:
    """The oracle's outputs, leaf by leaf, and per element how far another result may be from them."""
    interpreter = Interpreter(case.fencil, arrays_of(case))
    for p in case.fencil.outputs:
        interpreter.arrays[p.name] = [a.astype(object) for a in interpreter.arrays[p.name]]
    with _pairs():
        for closure in case.fencil.closures:
            interpreter.store(closure)
    want, bounds = {}, {}
    for p in case.fencil.outputs:
        found = interpreter.arrays[p.name]
        want[p.name] = tuple(
            np.array([v.value if isinstance(v, Bounded) else v for v in a.flat], DTYPES[s]).reshape(a.shape)
            for s, a in zip(p.type.leaves, found, strict=True)
        )
        bounds[p.name] = [
            np.array([SAFETY * v.error if isinstance(v, Bounded) else 0.0 for v in a.flat]).reshape(a.shape)
            for a in found
        ]
    return want, bounds


def flat(value: Any) -> list[np.ndarray]:
    """The leaves of a nested tuple of arrays."""
    return [leaf for member in value for leaf in flat(member)] if isinstance(value, tuple) else [np.asarray(value)]


def arrays_of(case: Case) -> dict[str, tuple[np.ndarray, ...]]:
    """The arguments of a case, by parameter and leaf."""
    return {name: tuple(flat(value)) for name, value in case.arguments.items()}
