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
    """The same program without calls of other programs.

    >>> closed = jax.make_jaxpr(jax.jit(lambda x: jax.jit(jax.lax.neg)(x)))(1.0)
    >>> [e.primitive.name for e in flattened(closed).jaxpr.eqns]
    ['neg']
    """
    return jax.make_jaxpr(lambda *operands: evaluate(closed, operands, _bound_or_inlined))(*shapes_of(closed))


def shapes_of(closed: ClosedJaxpr) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of the inputs of a program."""
    return [shaped(a.shape, a.dtype, a) for a in closed.in_avals]


def evaluate(
    closed: ClosedJaxpr, operands: Sequence[Any], rule: Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """The results of a program, each equation evaluated by `rule(equation, operand values)`."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *operands), strict=True))
    for e in jaxpr.eqns:
        env.update(zip(e.outvars, rule(e, values_of(e.invars, env)), strict=True))
    return values_of(jaxpr.outvars, env)


def values_of(variables: Sequence[Any], env: Mapping[Any, Any]) -> list[Any]:
    """The values of variables, and of literals."""
    return [v.val if isinstance(v, Literal) else env[v] for v in variables]


def bind(e: JaxprEqn, operands: Sequence[Any], params: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """The results of an equation's primitive for other operands, as a sequence; `params` replaces its parameters."""
    results = e.primitive.bind(*operands, **e.primitive.get_bind_params(dict(e.params if params is None else params)))
    return results if e.primitive.multiple_results else [results]


def _bound_or_inlined(e: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation; calls and our own primitives are evaluated inline, and a split as slices."""
    name = e.primitive.name
    if name in CALLS:
        inner: Any = e.params[CALLS[name]]
        return evaluate(
            inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), operands, _bound_or_inlined
        )
    if name in OWN:
        primitive: Any = e.primitive
        return evaluate(jax.make_jaxpr(partial(primitive.impl, **e.params))(*operands), operands, _bound_or_inlined)
    if name == "split":
        # several results of one equation: as many slices
        ends = np.cumsum(e.params["sizes"]).tolist()
        starts = [0, *ends[:-1]]
        return [lax.slice_in_dim(operands[0], a, b, axis=e.params["axis"]) for a, b in zip(starts, ends, strict=True)]
    return bind(e, operands)


def without_barriers(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A flat program without barriers, in which static updates of a part are concatenations and reductions start
    from the identity.

    Its kernels decide what is stored.

    >>> closed = jax.make_jaxpr(lambda x: x.at[1:3].set(lax.optimization_barrier(x[:2])))(jax.numpy.zeros(4))
    >>> sorted({e.primitive.name for e in without_barriers(flattened(closed)).jaxpr.eqns})
    ['broadcast_in_dim', 'concatenate', 'slice']
    """
    maker = {v: e for e in closed.jaxpr.eqns for v in e.outvars}

    def rule(e: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        """The results of one equation, rewritten if it is one of these."""
        if e.primitive.name == "optimization_barrier":
            return values
        if (update := _static_update(e, maker)) is not None:
            x, part = values[0], lax.reshape(values[update.part], update.shape)
            if update.is_added:
                stop = [a + n for a, n in zip(update.start, update.shape, strict=True)]
                part = lax.add(lax.slice(x, update.start, stop), part)
            return [_with_part(x, part, update.start)]
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
    """An array reduced along axes; if along all, first within the rows of axis 0, then over rows."""
    start = identity_of(next(name for name, f in FOLDS.items() if f is fold), x.dtype)
    if len(axes) == x.ndim > 1:
        return lax.reduce(lax.reduce(x, start, fold, range(1, x.ndim)), start, fold, (0,))
    return lax.reduce(x, start, fold, axes)


def _fold_of(e: JaxprEqn) -> Any:
    """The `lax` function of a reduction of one array by a single binary operation; None for other equations."""
    if e.primitive.name != "reduce" or len(e.invars) != 2:
        return None
    match e.params["jaxpr"]:
        case ClosedJaxpr(jaxpr=Jaxpr(eqns=[step], invars=[a, b], outvars=[c])):
            both = {*step.invars} == {a, b} and [*step.outvars] == [c]
            return FOLDS.get(step.primitive.name) if both else None
        case _:
            return None


def identity_of(name: str, dtype: Any) -> Any:
    """The identity element of the operation of a fold.

    >>> int(identity_of("min", np.dtype("int8"))), bool(identity_of("or", np.dtype(bool)))
    (127, False)
    """
    match dtype.kind:
        case "f" | "V":
            least, greatest = -np.inf, np.inf
        case "b":
            least, greatest = False, True
        case _:
            least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.asarray({"add": 0, "mul": 1, "max": least, "min": greatest, "or": False, "and": True}[name], dtype)


class _Update(NamedTuple):
    """The update of a part of an array at a place that is known."""

    part: int
    """Which operand it is."""
    start: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the part, along all axes."""
    is_added: bool = False


def _static_update(e: JaxprEqn, maker: Mapping[Variable, JaxprEqn]) -> _Update | None:
    """The part of an array that an equation updates at a statically known start; None if it is not known, or no such
    equation.

    A scatter counts if it has one index, and a window inside of the array.
    """
    if e.primitive.name not in ("dynamic_update_slice", "scatter", "scatter-add"):
        return None
    array_shape = shape_of(e.invars[0])
    if e.primitive.name == "dynamic_update_slice":
        starts = [_integers(v, maker) for v in e.invars[2:]]
        if None in starts:
            return None
        part = shape_of(e.invars[1])
        least = (
            min(max(index_values[0], 0), n - m)
            for index_values, n, m in zip(starts, array_shape, part, strict=True)
            if index_values
        )
        return _Update(1, tuple(least), part)
    numbers, index_values = e.params["dimension_numbers"], _integers(e.invars[1], maker)
    if index_values is None or len(shape_of(e.invars[1])) != 1 or numbers.operand_batching_dims:
        return None
    start = dict(zip(numbers.scatter_dims_to_operand_dims, index_values, strict=True))
    extents = iter(shape_of(e.invars[2]))
    shape = tuple(1 if k in numbers.inserted_window_dims else next(extents) for k in range(len(array_shape)))
    update = _Update(
        2, tuple(start.get(k, 0) for k in range(len(array_shape))), shape, e.primitive.name == "scatter-add"
    )
    # a window that is not inside of the array is dropped, or moved
    is_inside = all(0 <= a <= n - m for a, n, m in zip(update.start, array_shape, shape, strict=True))
    return update if is_inside and 0 not in shape else None


def _integers(v: Variable, maker: Mapping[Variable, JaxprEqn]) -> list[int] | None:
    """The integers of an array of constants: a literal, broadcasts, copies and concatenations of them; None for any
    other.
    """
    if isinstance(v, Literal):
        return [int(v.val)] if not shape_of(v) else None
    match maker.get(v):
        case JaxprEqn(primitive=primitive, invars=[x]) if primitive.name == "broadcast_in_dim":
            repeated_value = _integers(x, maker)
            return (
                repeated_value * prod(shape_of(v)) if repeated_value is not None and len(repeated_value) == 1 else None
            )
        case JaxprEqn(primitive=primitive, invars=[x]) if primitive.name in ("pvary", "copy", "stop_gradient"):
            return _integers(x, maker)
        case JaxprEqn(primitive=primitive, invars=parts) if primitive.name == "concatenate":
            numbers = [_integers(x, maker) for x in parts]
            return None if None in numbers else [n for values in numbers if values for n in values]
        case _:
            return None


def _with_part(x: Any, part: Any, start: Sequence[int]) -> Any:
    """The array x with `part` written at `start`, by concatenations; axis by axis from the last on, so that pieces
    are few.
    """
    for axis in reversed(range(x.ndim)):
        # what is left and right of it, as long as the part along the axes behind, and at its place on those before
        low = [*start[:axis], 0, *[0] * (x.ndim - axis - 1)]
        high = [a + n for a, n in zip(start[:axis], part.shape[:axis], strict=True)] + list(x.shape[axis:])
        begin, stop = start[axis], start[axis] + part.shape[axis]
        before_part, after_part = (*high[:axis], begin, *high[axis + 1 :]), (*low[:axis], stop, *low[axis + 1 :])
        pieces = (
            [lax.slice(x, low, before_part)] * (begin > 0)
            + [part]
            + [lax.slice(x, after_part, high)] * (stop < x.shape[axis])
        )
        part = lax.concatenate(pieces, axis) if len(pieces) > 1 else part
    return part


def program_of(closed: ClosedJaxpr) -> Program:
    """A flattened jaxpr as a program, without equations that no result and no effect needs."""
    jaxpr = closed.jaxpr
    needed = set(variables(jaxpr.outvars))
    kept_eqns: list[JaxprEqn] = []
    for e in reversed(jaxpr.eqns):
        if e.effects or any(v in needed for v in e.outvars):
            kept_eqns.append(e)
            needed.update(variables(e.invars))
    equations = tuple(reversed(kept_eqns))
    maker = {v: k for k, e in enumerate(equations) for v in e.outvars}
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    return Program(tuple(jaxpr.invars), tuple(jaxpr.outvars), equations, constants, maker)


def inner_programs(e: JaxprEqn) -> list[ClosedJaxpr]:
    """The programs in the parameters of a loop or a conditional; none for other equations."""
    params = [e.params[name] for name in INNER.get(e.primitive.name, ())]
    return [one for some in params for one in (some if isinstance(some, tuple) else (some,))]


def states_of(e: JaxprEqn) -> tuple[int, int]:
    """The numbers of constants and of states, the first inputs of the step of a scan."""
    p = e.params
    if "num_consts" in p:
        return p["num_consts"], p["num_carry"]
    constants, states, _ = p["ft_in"].unpack()  # from JAX 0.11 on
    return len(constants), len(states)
