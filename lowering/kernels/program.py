"""A jaxpr without calls: the equations that compute its results, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from lowering.tracing import shaped

Variable = Any
"""A variable of a jaxpr, which JAX's types do not tell from a literal."""

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}  # fmt: skip
"""Equations that are programs of their own, once nobody differentiates them any more, and where those stand."""
OWN = frozenset(["read_neighbours", "collect_neighbours", "stencil_tangents", "scaled", "paired", "kernels", "rounds"])
"""Our own primitives that are programs of `jax.lax`."""
INNER = {"scan": ("jaxpr",), "while": ("body_jaxpr",), "cond": ("branches",)}
"""Parameters of equations that hold programs, which may run more than once."""


@dataclass(frozen=True)
class Program:
    """Equations in an order in which they can run, without those that no result needs."""

    inputs: tuple[Variable, ...]
    results: tuple[Any, ...]
    """Variables, or literals."""
    equations: tuple[JaxprEqn, ...]
    constants: dict[Variable, Any]
    maker: dict[Variable, int] = field(default_factory=dict[Variable, int])
    """Which equation makes a variable; inputs and constants have none."""


def shape_of(v: Variable) -> tuple[int, ...]:
    """The shape of a variable or a literal."""
    return v.aval.shape


def element_of(v: Variable) -> Any:
    """The element type of a variable or a literal."""
    return v.aval.dtype


def flattened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without calls.

    >>> closed = jax.make_jaxpr(jax.jit(lambda x: jax.jit(jax.lax.neg)(x)))(1.0)
    >>> [e.primitive.name for e in flattened(closed).jaxpr.eqns]
    ['neg']
    """
    return jax.make_jaxpr(partial(_run, closed))(*[shaped(a.shape, a.dtype, a) for a in closed.in_avals])


def _run(closed: ClosedJaxpr, *operands: Any) -> list[Any]:
    env: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, operands, strict=True))

    def value(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    for e in closed.jaxpr.eqns:
        found = _results(e, [value(v) for v in e.invars])
        env.update(zip(e.outvars, found, strict=True))
    return [value(v) for v in closed.jaxpr.outvars]


def _results(e: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    name = e.primitive.name
    if name in CALLS:
        inner: Any = e.params[CALLS[name]]
        return _run(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), *operands)
    if name in OWN:
        primitive: Any = e.primitive
        inner = jax.make_jaxpr(partial(primitive.impl, **e.params))(*operands)
        return _run(inner, *operands)
    if name == "split":
        # several results of one equation: as many slices
        ends = np.cumsum(e.params["sizes"]).tolist()
        starts = [0, *ends[:-1]]
        return [lax.slice_in_dim(operands[0], a, b, axis=e.params["axis"]) for a, b in zip(starts, ends, strict=True)]
    found = e.primitive.bind(*operands, **e.primitive.get_bind_params(e.params))
    return found if e.primitive.multiple_results else [found]


def program_of(closed: ClosedJaxpr) -> Program:
    """The program of a jaxpr that was flattened."""
    jaxpr = closed.jaxpr
    needed = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    chosen: list[JaxprEqn] = []
    for e in reversed(jaxpr.eqns):
        if e.effects or any(v in needed for v in e.outvars):
            chosen.append(e)
            needed.update(v for v in e.invars if not isinstance(v, Literal))
    equations = tuple(reversed(chosen))
    maker = {v: k for k, e in enumerate(equations) for v in e.outvars}
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    return Program(tuple(jaxpr.invars), tuple(jaxpr.outvars), equations, constants, maker)


def inner_programs(e: JaxprEqn) -> list[ClosedJaxpr]:
    """The programs that a loop or a conditional runs."""
    found = [e.params[name] for name in INNER.get(e.primitive.name, ())]
    return [one for some in found for one in (some if isinstance(some, tuple) else (some,))]


def states_of(e: JaxprEqn) -> tuple[int, int]:
    """Numbers of constants and of states of the step of a scan, its first inputs."""
    p = e.params
    if "num_consts" in p:
        return p["num_consts"], p["num_carry"]
    constants, states, _ = p["ft_in"].unpack()  # from JAX 0.11 on
    return len(constants), len(states)
