"""One round of a loop: as it runs, and with tangents, where reads hand their buffer on (`in_place_adjoints`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun

from lowering.gradients.in_place_adjoints import threaded
from tensorir.runtime.memory import remembered

__all__ = ["handing_on", "moves", "once", "replaced", "smooth", "with_tangents"]


def once(body: ClosedJaxpr, i: Any, *operands: Any) -> tuple[Any, ...]:
    """What is carried after round i; `body` maps (i, *read, *carried) to carried."""
    return tuple(handing_on(body, i, *operands)[0] if _contested(body) else jaxpr_as_fun(body)(i, *operands))


@remembered("facts of loops", limit=256)
def _contested(body: ClosedJaxpr) -> bool:
    """Whether a round writes more than once: then no single kernel does all reads before it writes in place."""
    writes = [
        e.primitive.name for e in body.jaxpr.eqns if e.primitive.name in ("dynamic_update_slice", "rounds", "put")
    ]
    return len(writes) > 1 or "rounds" in writes


def handing_on(body: ClosedJaxpr, *args: Any) -> tuple[list[Any], list[Any]]:
    """What is carried after a round, and the arguments of the round as their last readers hand them on."""
    return threaded(body, _handed, *args)


def _handed(eqn: JaxprEqn) -> Sequence[tuple[int, int]]:
    """Operands of an equation that are among its results."""
    match eqn.primitive.name:
        case "take":
            return [(0, 1)]
        case "rounds":
            reading = eqn.params["reading"]
            return [(k, len(eqn.invars) - reading + k) for k in range(reading)]
        case _:
            return []


def with_tangents(body: ClosedJaxpr, read: Sequence[Any], varied: Sequence[int], i: Any, state: Any) -> Any:
    """Round i of (carried, its tangents, those of what is read, at `varied`), which are handed on."""
    carried, d_carried, d_read = state
    function, points, moving = smooth(body, read, varied, i, carried)
    (some, _), (d_carried, d_read), fixed = jax.jvp(function, points, (d_carried, d_read), has_aux=True)
    found, others = iter(some), iter(fixed)
    return [next(found if k in moving else others) for k in range(len(carried))], d_carried, d_read


def smooth(
    body: ClosedJaxpr, read: Sequence[Any], varied: Sequence[int], i: Any, carried: Sequence[Any]
) -> tuple[Callable[[list[Any], list[Any]], Any], tuple[list[Any], list[Any]], list[int]]:
    """Round i as a function of what moves of what is carried, and of what is read, at `varied`; where; which move.

    It gives both as they are after the round, and beside them what is carried and does not move.
    """
    moving = [k for k, x in enumerate(carried) if moves(x)]

    def function(some: list[Any], others: list[Any]) -> Any:
        results, arguments = handing_on(body, i, *replaced(read, varied, others), *replaced(carried, moving, some))
        still = [r for k, r in enumerate(results) if k not in moving]
        return ([results[k] for k in moving], [arguments[1 + k] for k in varied]), still

    return function, ([carried[k] for k in moving], [read[k] for k in varied]), moving


def moves(x: Any) -> bool:
    """Whether tangents of an array are arrays."""
    return jnp.issubdtype(x.dtype, jnp.inexact)


def replaced(old: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    """A list with others at some places."""
    result = list(old)
    for k, x in zip(places, new, strict=True):
        result[k] = x
    return result
