"""A jaxpr without calls: the equations that compute its results, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

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


def variables(operands: Iterable[Any]) -> list[Variable]:
    """The variables among operands, without literals."""
    return [v for v in operands if not isinstance(v, Literal)]


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
    return jax.make_jaxpr(lambda *operands: evaluate(closed, operands, _inlined))(*shapes_of(closed))


def shapes_of(closed: ClosedJaxpr) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of the inputs of a program."""
    return [shaped(a.shape, a.dtype, a) for a in closed.in_avals]


def evaluate(
    closed: ClosedJaxpr, operands: Sequence[Any], rule: Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """The results of a program whose equations are evaluated by a rule, of each and of the values of its operands."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *operands), strict=True))
    for e in jaxpr.eqns:
        env.update(zip(e.outvars, rule(e, values_of(e.invars, env)), strict=True))
    return values_of(jaxpr.outvars, env)


def values_of(variables: Sequence[Any], env: Mapping[Any, Any]) -> list[Any]:
    """The values of variables, and of literals."""
    return [v.val if isinstance(v, Literal) else env[v] for v in variables]


def bind(e: JaxprEqn, operands: Sequence[Any], params: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """The results of an equation of other operands, as many as it has, and of other parameters where they are given."""
    results = e.primitive.bind(*operands, **e.primitive.get_bind_params(dict(e.params if params is None else params)))
    return results if e.primitive.multiple_results else [results]


def _inlined(e: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    name = e.primitive.name
    if name in CALLS:
        inner: Any = e.params[CALLS[name]]
        return evaluate(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), operands, _inlined)
    if name in OWN:
        primitive: Any = e.primitive
        return evaluate(jax.make_jaxpr(partial(primitive.impl, **e.params))(*operands), operands, _inlined)
    if name == "split":
        # several results of one equation: as many slices
        ends = np.cumsum(e.params["sizes"]).tolist()
        starts = [0, *ends[:-1]]
        return [lax.slice_in_dim(operands[0], a, b, axis=e.params["axis"]) for a, b in zip(starts, ends, strict=True)]
    return bind(e, operands)


def without_barriers(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A flat program that leaves it to its kernels what is stored: without barriers, updates of parts as joins.

    >>> closed = jax.make_jaxpr(lambda x: x.at[1:3].set(lax.optimization_barrier(x[:2])))(jax.numpy.zeros(4))
    >>> sorted({e.primitive.name for e in without_barriers(flattened(closed)).jaxpr.eqns})
    ['broadcast_in_dim', 'concatenate', 'slice']
    """
    maker = {v: e for e in closed.jaxpr.eqns for v in e.outvars}

    def rule(e: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        if e.primitive.name == "optimization_barrier":
            return values
        if (update := _updated(e, maker)) is not None:
            x, part = values[0], lax.reshape(values[update.part], update.shape)
            if update.is_added:
                stop = [a + n for a, n in zip(update.start, update.shape, strict=True)]
                part = lax.add(lax.slice(x, update.start, stop), part)
            return [_joined(x, part, update.start)]
        if (fold := _fold_of(e)) is not None:
            x, start = values
            return [fold(_folded(x, fold, e.params["dimensions"]), start)]
        if e.primitive.name in REDUCED:
            return [_folded(values[0], REDUCED[e.primitive.name], e.params["axes"])]
        return bind(e, values)

    return jax.make_jaxpr(lambda *operands: evaluate(closed, operands, rule))(*shapes_of(closed))


FOLDS: Mapping[str, Any] = {"add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min}
REDUCED: Mapping[str, Any] = {f"reduce_{n}": f for n, f in {**FOLDS, "sum": lax.add, "prod": lax.mul}.items()}


def _folded(x: Any, fold: Any, axes: Sequence[int]) -> Any:
    """An array reduced along axes: along all of them row by row first, as a kernel does it."""
    start = identity_of(next(name for name, f in FOLDS.items() if f is fold), x.dtype)
    if len(axes) == x.ndim > 1:
        return lax.reduce(lax.reduce(x, start, fold, range(1, x.ndim)), start, fold, (0,))
    return lax.reduce(x, start, fold, axes)


def _fold_of(e: JaxprEqn) -> Any:
    """The operation by which one array is reduced from a number; None of other equations."""
    if e.primitive.name != "reduce" or len(e.invars) != 2:
        return None
    match e.params["jaxpr"]:
        case ClosedJaxpr(jaxpr=Jaxpr(eqns=[step], invars=[a, b], outvars=[c])):
            both = {*step.invars} == {a, b} and [*step.outvars] == [c]
            return FOLDS.get(step.primitive.name) if both else None
        case _:
            return None


def identity_of(name: str, dtype: Any) -> Any:
    """The identity of a fold by an operation.

    >>> int(identity_of("min", np.dtype("int8"))), bool(identity_of("or", np.dtype(bool)))
    (127, False)
    """
    match dtype.kind:
        case "f" | "V":
            least, most = -np.inf, np.inf
        case "b":
            least, most = False, True
        case _:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.asarray({"add": 0, "mul": 1, "max": least, "min": most, "or": False, "and": True}[name], dtype)


class _Update(NamedTuple):
    """The update of a part of an array at a place that is known."""

    part: int
    """Which operand it is."""
    start: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the part, along all axes."""
    is_added: bool = False


def _updated(e: JaxprEqn, maker: Mapping[Variable, JaxprEqn]) -> _Update | None:
    if e.primitive.name not in ("dynamic_update_slice", "scatter", "scatter-add"):
        return None
    whole = shape_of(e.invars[0])
    if e.primitive.name == "dynamic_update_slice":
        starts = [_integers(v, maker) for v in e.invars[2:]]
        if None in starts:
            return None
        part = shape_of(e.invars[1])
        least = (min(max(at[0], 0), n - m) for at, n, m in zip(starts, whole, part, strict=True) if at)
        return _Update(1, tuple(least), part)
    numbers, at = e.params["dimension_numbers"], _integers(e.invars[1], maker)
    if at is None or len(shape_of(e.invars[1])) != 1 or numbers.operand_batching_dims:
        return None
    start = dict(zip(numbers.scatter_dims_to_operand_dims, at, strict=True))
    extents = iter(shape_of(e.invars[2]))
    shape = tuple(1 if k in numbers.inserted_window_dims else next(extents) for k in range(len(whole)))
    update = _Update(2, tuple(start.get(k, 0) for k in range(len(whole))), shape, e.primitive.name == "scatter-add")
    # a window that is not inside of the array is dropped, or moved
    inside = all(0 <= a <= n - m for a, n, m in zip(update.start, whole, shape, strict=True))
    return update if inside and 0 not in shape else None


def _integers(v: Variable, maker: Mapping[Variable, JaxprEqn]) -> list[int] | None:
    """The numbers of a short array that is written out; None of any other."""
    if isinstance(v, Literal):
        return [int(v.val)] if not shape_of(v) else None
    match maker.get(v):
        case JaxprEqn(primitive=primitive, invars=[x]) if primitive.name == "broadcast_in_dim":
            one = _integers(x, maker)
            return one * prod(shape_of(v)) if one is not None and len(one) == 1 else None
        case JaxprEqn(primitive=primitive, invars=[x]) if primitive.name in ("pvary", "copy", "stop_gradient"):
            return _integers(x, maker)
        case JaxprEqn(primitive=primitive, invars=parts) if primitive.name == "concatenate":
            numbers = [_integers(x, maker) for x in parts]
            return None if None in numbers else [n for some in numbers if some for n in some]
        case _:
            return None


def _joined(x: Any, part: Any, start: Sequence[int]) -> Any:
    """An array with a part in another's place: joined along the last axis on which the part is shorter, first."""
    for axis in reversed(range(x.ndim)):
        # what is left and right of it, as long as the part along the axes behind, and at its place on those before
        low = [*start[:axis], 0, *[0] * (x.ndim - axis - 1)]
        high = [a + n for a, n in zip(start[:axis], part.shape[:axis], strict=True)] + list(x.shape[axis:])
        at, stop = start[axis], start[axis] + part.shape[axis]
        left, right = (*high[:axis], at, *high[axis + 1 :]), (*low[:axis], stop, *low[axis + 1 :])
        pieces = [lax.slice(x, low, left)] * (at > 0) + [part] + [lax.slice(x, right, high)] * (stop < x.shape[axis])
        part = lax.concatenate(pieces, axis) if len(pieces) > 1 else part
    return part


def program_of(closed: ClosedJaxpr) -> Program:
    """The program of a jaxpr that was flattened."""
    jaxpr = closed.jaxpr
    needed = set(variables(jaxpr.outvars))
    chosen: list[JaxprEqn] = []
    for e in reversed(jaxpr.eqns):
        if e.effects or any(v in needed for v in e.outvars):
            chosen.append(e)
            needed.update(variables(e.invars))
    equations = tuple(reversed(chosen))
    maker = {v: k for k, e in enumerate(equations) for v in e.outvars}
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    return Program(tuple(jaxpr.invars), tuple(jaxpr.outvars), equations, constants, maker)


def inner_programs(e: JaxprEqn) -> list[ClosedJaxpr]:
    """The programs that a loop or a conditional runs."""
    params = [e.params[name] for name in INNER.get(e.primitive.name, ())]
    return [one for some in params for one in (some if isinstance(some, tuple) else (some,))]


def states_of(e: JaxprEqn) -> tuple[int, int]:
    """Numbers of constants and of states of the step of a scan, its first inputs."""
    p = e.params
    if "num_consts" in p:
        return p["num_consts"], p["num_carry"]
    constants, states, _ = p["ft_in"].unpack()  # from JAX 0.11 on
    return len(constants), len(states)
