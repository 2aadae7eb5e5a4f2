"""Functions whose reverse mode gathers cotangents (`stencil_transpose`), as forward mode and batches leave them.

The tangents of such a function are one primitive: a jaxpr over what the derivative keeps of the forward pass, and
tangents, in which it is linear. It runs as it stands; its transpose is that of a stencil.

>>> import jax, jax.numpy as jnp
>>> smooth = gathering(lambda x: [jnp.sin(x[1:] + x[:-1])])
>>> jax.grad(lambda x: smooth(x)[0].sum())(jnp.zeros(4)).tolist()
[1.0, 2.0, 2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.gradients.loop_body_derivatives import moves, replaced
from lowering.gradients.stencil_transpose import Variable, applied, is_linear, linear_variables, shape_of, transposed

__all__ = ["gathering"]

Function = Callable[..., list[jax.Array]]


def gathering(function: Function) -> Function:
    """The same function of arrays, giving a list of arrays; loops and conditionals in it keep JAX's transpose."""

    @jax.custom_jvp
    def value(*xs: Any) -> list[Any]:
        return function(*xs)

    def jvp(xs: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        varied = [k for k, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]
        given = [tangents[k] for k in varied]

        def both(xs: Sequence[Any], given: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
            """The results that have tangents, those, and the other results."""

            def some(*moved: Any) -> tuple[list[Any], list[Any]]:
                found = function(*replaced(xs, varied, moved))
                return [r for r in found if moves(r)], [r for r in found if not moves(r)]

            return jax.jvp(some, [xs[k] for k in varied], list(given), has_aux=True)

        closed, (shapes, _, others) = jax.make_jaxpr(both, return_shape=True)(list(xs), given)
        stencil = _is_stencil(closed, len(given))
        found = _linearised(closed, xs, given, len(shapes)) if stencil else both(xs, given)
        floats, moved, rest = (iter(f) for f in found)
        order = [moves(s) for s in jax.eval_shape(function, *xs)] if others else [True] * len(shapes)
        results = [next(floats) if m else next(rest) for m in order]
        still = (np.zeros(r.shape, jax.dtypes.float0) for r in results)
        return results, [next(moved) if m else s for m, s in zip(order, still, strict=True)]

    value.defjvp(jvp, symbolic_zeros=True)
    return value


def _is_stencil(closed: ClosedJaxpr, count: int) -> bool:
    """Whether the linear equations of a jaxpr read at offsets, and none of them is a program of its own."""
    jaxpr = closed.jaxpr
    linear = linear_variables(jaxpr.eqns, jaxpr.invars[len(jaxpr.invars) - count :])
    found = [e for e in jaxpr.eqns if is_linear(e, linear)]
    inner = (p for e in found for p in e.params.values())
    return any(e.primitive.name == "slice" for e in found) and not any(
        isinstance(p, (ClosedJaxpr, Jaxpr)) or callable(p) for p in inner
    )


def _linearised(
    closed: ClosedJaxpr, xs: Sequence[Any], given: Sequence[Any], results: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """What a jaxpr of values and their tangents gives: `results` values, their tangents as one primitive, the rest."""
    jaxpr = closed.jaxpr
    start = jaxpr.invars[len(xs) :]
    linear = linear_variables(jaxpr.eqns, start)
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, xs, strict=False))
    applied((e for e in jaxpr.eqns if not is_linear(e, linear)), env)
    tangents = jaxpr.outvars[results : 2 * results]
    eqns, kept = _tangent_equations(jaxpr.eqns, linear, tangents)

    def moved(residuals: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        inner: dict[Any, Any] = dict(zip([*kept, *start], [*residuals, *given], strict=True))
        applied(eqns, inner)
        return [v.val if isinstance(v, Literal) else inner[v] for v in tangents]

    def value(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else env[v]

    residuals = [env[v] for v in kept]
    body = jax.make_jaxpr(moved)(residuals, list(given))
    found = stencil_tangents.bind(*residuals, *given, body=body, count=len(kept))
    return [value(v) for v in jaxpr.outvars[:results]], found, [value(v) for v in jaxpr.outvars[2 * results :]]


def _tangent_equations(
    eqns: Sequence[JaxprEqn], linear: set[Variable], results: Sequence[Any]
) -> tuple[list[JaxprEqn], list[Variable]]:
    """The equations of tangents, with the constants among their operands, and what is kept of the forward pass.

    Constants are computed of numbers alone: positions, masks of intervals, copies of one number. Nothing is kept of
    them, and the transpose sees which arrays are one number.
    """
    constant: set[Variable] = set()
    for e in eqns:
        if not is_linear(e, linear) and all(_is_number(v) or v in constant for v in e.invars):
            constant.update(v for v in e.outvars if shape_of(v))
    # in the order of the equations, as a dict keeps it
    wanted = {v: None for e in eqns if is_linear(e, linear) for v in e.invars if not isinstance(v, Literal)}
    wanted.update((v, None) for v in results if not isinstance(v, Literal))
    for e in reversed(eqns):
        if any(v in wanted and v in constant for v in e.outvars):
            wanted.update((v, None) for v in e.invars if not isinstance(v, Literal))
    chosen = [e for e in eqns if is_linear(e, linear) or any(v in wanted and v in constant for v in e.outvars)]
    inside = {v for e in chosen for v in e.outvars}
    return chosen, [v for v in wanted if v not in inside and v not in linear]


def _is_number(v: Any) -> bool:
    return not shape_of(v)


# The primitive: a jaxpr over residuals and tangents

stencil_tangents = Primitive("stencil_tangents")
stencil_tangents.multiple_results = True


def _run(*operands: Any, body: ClosedJaxpr, count: int) -> list[Any]:
    return jaxpr_as_fun(body)(*operands)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, body: ClosedJaxpr, count: int) -> tuple[Any, Any]:
    return jax.jvp(jaxpr_as_fun(body), tuple(primals), tuple([ad.instantiate_zeros(t) for t in tangents]))


def _transpose(cotangents: Sequence[Any], *operands: Any, body: ClosedJaxpr, count: int) -> list[Any]:
    back = [None if isinstance(c, ad.Zero) else c for c in cotangents]
    found = transposed(body, count, operands[:count], back)
    linear = [ad.Zero(x.aval) if f is None else f for x, f in zip(operands[count:], found, strict=True)]
    return [None] * count + linear


def _batched(args: Sequence[Any], axes: Sequence[Any], *, body: ClosedJaxpr, count: int) -> tuple[Any, Any]:
    found = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(body), tuple(axes)))(*args)
    return stencil_tangents.bind(*args, body=found, count=count), [0] * len(found.out_avals)


stencil_tangents.def_impl(_run)
stencil_tangents.def_abstract_eval(lambda *operands, body, count: list(body.out_avals))
mlir.register_lowering(stencil_tangents, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[stencil_tangents] = _jvp
ad.primitive_transposes[stencil_tangents] = _transpose
batching.primitive_batchers[stencil_tangents] = _batched
