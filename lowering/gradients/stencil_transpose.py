"""The transpose of a stencil is a stencil: cotangents are gathered at opposite offsets, not padded and added.

JAX's transpose of a slice pads what comes back to the shape of what was sliced: a stencil that reads a value at five
offsets adds five padded arrays, each with a bounds check at every point. Here the cotangent of a value is computed on
the *box* on which the cotangents of its operands need it, zero where that is larger than the value. Slices, sums and
products with one number pass a box on, at another offset; what is multiplied by an array is known on its own box alone,
and is padded once, by as much as its readers reach.

>>> import jax, jax.numpy as jnp
>>> closed = jax.make_jaxpr(lambda c, x: c * (x[2:] - 2.0 * x[1:-1] + x[:-2]))(jnp.ones(4), jnp.ones(6))
>>> cotangent = jnp.array([1.0, 2.0, 3.0, 5.0])
>>> transposed(closed, 1, [jnp.ones(4)], [cotangent])[0].tolist()
[1.0, 0.0, 0.0, 1.0, -7.0, 5.0]
>>> transpose = jax.make_jaxpr(lambda g: transposed(closed, 1, [jnp.ones(4)], [g]))(cotangent)
>>> [e.primitive.name for e in transpose.eqns if e.primitive.name != "broadcast_in_dim"]
['mul', 'pad', 'slice', 'slice', 'slice', 'neg', 'mul', 'slice', 'add', 'add']

Functions whose reverse mode gathers cotangents (`stencil_transpose`), as forward mode and batches leave them.

The tangents of such a function are one primitive: a jaxpr over what the derivative keeps of the forward pass, and
tangents, in which it is linear. It runs as it stands; its transpose is that of a stencil.

>>> import jax, jax.numpy as jnp
>>> smooth = gathering(lambda x: [jnp.sin(x[1:] + x[:-1])])
>>> jax.grad(lambda x: smooth(x)[0].sum())(jnp.zeros(4)).tolist()
[1.0, 2.0, 2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.gradients.checkpointed_loop import moves, replaced

Variable = Any
"""A variable of a jaxpr, which JAX's types do not tell from a literal."""
Box = tuple[tuple[int, int], ...]
"""Positions along each axis, from and to; a value's own box starts at 0."""

SCALING = {"mul": (0, 1), "div": (0,), "scaled": (0,)}
"""Products with one operand, by name, and in which operands they are linear: their transpose is the same product."""


@dataclass(frozen=True, slots=True)
class _Read:
    """An operand that a result has at an offset: its cotangent is `of` what came back to the result there."""

    operand: Variable
    result: Variable
    offset: tuple[int, ...]
    of: Callable[[jax.Array], jax.Array]

    def within(self, box: Box) -> Box:
        """The box of the result that a box of the operand's cotangent is computed of."""
        return tuple((a - k, b - k) for (a, b), k in zip(box, self.offset, strict=True))


@dataclass(slots=True)
class _Cotangents:
    """The cotangents so far, and the box on which each value's cotangent is needed."""

    needed: dict[Variable, Box]
    added: dict[Variable, list[jax.Array]] = field(default_factory=dict[Variable, list[jax.Array]])
    """Parts known on the box of the value itself."""
    gathered: dict[Variable, list[_Read]] = field(default_factory=dict[Variable, list[_Read]])
    """Parts that stand in the cotangents of results."""
    known: dict[Variable, jax.Array] = field(default_factory=dict[Variable, jax.Array])
    """The sums, on the boxes that are needed."""

    def add(self, v: Any, summand: jax.Array) -> None:
        """Add a summand, on the value's own box, to the cotangent of v; nothing where that is not needed."""
        if not isinstance(v, Literal) and v in self.needed:
            self.added.setdefault(v, []).append(summand)

    def sum(self, v: Variable) -> jax.Array | None:
        """The cotangent of a value on the box where it is needed, recorded in `known`; None where nothing came back
        to it.

        Called once all equations that read the value are transposed: sums up `gathered` reads and `added` summands.
        """
        box = self.needed[v]
        summands = [r.of(_subbox(self.known[r.result], self.needed[r.result], r.within(box))) for r in self._read(v)]
        if v in self.added:
            summands.append(_extended(_total(self.added[v]), _whole(v), box))
        if summands:
            self.known[v] = _total(summands)
        return self.known.get(v)

    def on_itself(self, v: Variable) -> jax.Array:
        """The cotangent of a value on the box of the value itself; zeros where nothing came back to it."""
        if v not in self.known:
            return lax.full(v.aval.shape, 0, v.aval.dtype)
        return _subbox(self.known[v], self.needed[v], _whole(v))

    def _read(self, v: Variable) -> list[_Read]:
        """The reads of v whose results have a cotangent."""
        return [r for r in self.gathered.get(v, ()) if r.result in self.known]


def transposed(
    closed: ClosedJaxpr, count: int, residuals: Sequence[Any], cotangents: Sequence[Any]
) -> list[jax.Array | None]:
    """The cotangents of the operands of a jaxpr after the first `count`, in which it is linear; None for a zero.

    Equations go last to first. One that reads at offsets is recorded as reads (`_Read`), which `_Cotangents.sum`
    gathers when the operand's turn comes; any other is transposed by JAX. `residuals`: the first `count` operands, in
    which it need not be linear. `cotangents` has one for each result, or None for a zero. The number of equations made
    is linear in that of the jaxpr.
    """
    jaxpr = closed.jaxpr
    linear_operands = jaxpr.invars[count:]
    linear = linear_variables(jaxpr.eqns, linear_operands)
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars[:count], residuals, strict=True))
    residual_eqns = [e for e in jaxpr.eqns if not is_linear(e, linear)]
    applied(residual_eqns, env)
    # the number of which an array is copies: a factor that is the same at all points
    broadcasts = (
        (e.outvars[0], _value(e.invars[0], env)) for e in residual_eqns if e.primitive.name == "broadcast_in_dim"
    )
    uniform = {v: number for v, number in broadcasts if not np.shape(number)}
    order = [(e, _offset_reads(e, linear, uniform)) for e in jaxpr.eqns if is_linear(e, linear)]
    sums = _Cotangents(_needed(order, linear, linear_operands))
    for v, cotangent in zip(jaxpr.outvars, cotangents, strict=True):
        if cotangent is not None:
            sums.add(v, cotangent)
    for eqn, reads in reversed(order):
        result_cotangents = [sums.sum(v) for v in eqn.outvars if v in sums.needed]
        if all(f is None for f in result_cotangents):
            continue
        if reads is None:
            operands = [v for v in eqn.invars if not isinstance(v, Literal) and v in linear]
            results = [sums.on_itself(v) for v in eqn.outvars]
            for v, summand in zip(operands, _jax_transpose(eqn, linear, env, results), strict=True):
                sums.add(v, summand)
            continue
        if eqn.primitive.name == "optimization_barrier":
            # stored going forward, since it is read at many offsets; so it is going back
            for v in eqn.outvars:
                if v in sums.known:
                    sums.known[v] = lax.optimization_barrier(sums.known[v])
        for read in reads:
            if read.operand in sums.needed:
                sums.gathered.setdefault(read.operand, []).append(read)
    return [sums.sum(v) for v in linear_operands]


def is_linear(eqn: JaxprEqn, linear: set[Variable]) -> bool:
    """True if an equation has an operand among the linear variables."""
    return any(not isinstance(v, Literal) and v in linear for v in eqn.invars)


def linear_variables(eqns: Iterable[JaxprEqn], start: Iterable[Variable]) -> set[Variable]:
    """The variables `start`, and all that the equations, in order, compute of one of them."""
    linear = set(start)
    for e in eqns:
        if is_linear(e, linear):
            linear.update(e.outvars)
    return linear


def applied(eqns: Iterable[JaxprEqn], env: dict[Any, Any]) -> None:
    """Evaluate equations in order; their results are added to `env`, the values of variables so far."""
    for e in eqns:
        results = e.primitive.bind(*(_value(v, env) for v in e.invars), **e.primitive.get_bind_params(e.params))
        env.update(zip(e.outvars, results if e.primitive.multiple_results else [results], strict=True))


def _value(v: Any, env: dict[Any, Any]) -> Any:
    return v.val if isinstance(v, Literal) else env[v]


def _offset_reads(eqn: JaxprEqn, linear: set[Variable], uniform: dict[Variable, Any]) -> list[_Read] | None:
    """The linear operands of an equation and their offsets in the result; None if it is transposed on its own box.

    A list for sums, negation, copies, casts, unit slices, barriers, and products with one number (`SCALING`, `uniform`:
    arrays that are copies of one number). Other equations are transposed by JAX (`_jax_transpose`).
    """
    name, (result, *other_results) = eqn.primitive.name, eqn.outvars
    linear_places = [k for k, v in enumerate(eqn.invars) if not isinstance(v, Literal) and v in linear]
    zero = (0,) * len(shape_of(result))

    def all_of(*functions: Callable[[jax.Array], jax.Array]) -> list[_Read]:
        """A read at offset 0 of every linear operand, one function of cotangents per operand."""
        return [_Read(eqn.invars[k], result, zero, f) for k, f in enumerate(functions) if k in linear_places]

    match name:
        case "add" | "add_any":
            return all_of(_unchanged, _unchanged)
        case "sub":
            return all_of(_unchanged, lax.neg)
        case "neg":
            return all_of(lax.neg)
        case "copy":
            return all_of(_unchanged)
        case "convert_element_type":
            element = element_of(eqn.invars[0])
            return all_of(lambda c: lax.convert_element_type(c, element))
        case "slice" if not any(k != 1 for k in eqn.params["strides"] or ()):
            return [_Read(eqn.invars[0], result, tuple(eqn.params["start_indices"]), _unchanged)]
        case "optimization_barrier":
            pairs = [(eqn.invars[k], eqn.outvars[k]) for k in linear_places]
            return [_Read(v, w, (0,) * len(shape_of(w)), _unchanged) for v, w in pairs]
        case _ if name in SCALING and not other_results:
            (place, *other_places) = linear_places
            if other_places or place not in SCALING[name]:
                return None
            other = eqn.invars[1 - place]
            factor = other.val if isinstance(other, Literal) else uniform.get(other)
            if factor is None:
                return None

            def scaled(c: jax.Array) -> jax.Array:
                """The same product of a cotangent and the number."""
                number = lax.full(c.shape, factor, c.dtype)
                return eqn.primitive.bind(*((c, number) if place == 0 else (number, c)), **eqn.params)

            return [_Read(eqn.invars[place], result, zero, scaled)]
        case _:
            return None


def _unchanged(cotangent: jax.Array) -> jax.Array:
    return cotangent


def _needed(
    order: Iterable[tuple[JaxprEqn, list[_Read] | None]], linear: set[Variable], linear_operands: Iterable[Variable]
) -> dict[Variable, Box]:
    """The box on which the cotangent of each value is needed.

    `order`: the linear equations, with their reads. The box contains the value's own one, and grows where operands need
    it.
    """
    boxes = {v: _whole(v) for v in linear_operands}
    for eqn, reads in order:
        if reads is not None:
            for read in reads:
                if read.operand in boxes:
                    boxes[read.result] = _box_hull(read.within(boxes[read.operand]), boxes.get(read.result))
        elif any(v in boxes for v in eqn.invars if not isinstance(v, Literal) and v in linear):
            boxes.update((v, _whole(v)) for v in eqn.outvars)
    return boxes


def _jax_transpose(
    eqn: JaxprEqn, linear: set[Variable], env: dict[Any, Any], results: Sequence[jax.Array]
) -> Sequence[jax.Array]:
    """The cotangents of the linear operands of one equation, by `jax.linear_transpose`, of those of its results."""
    is_linear_operand = [not isinstance(v, Literal) and v in linear for v in eqn.invars]
    shapes = [v.aval for v, is_linear_here in zip(eqn.invars, is_linear_operand, strict=True) if is_linear_here]
    parameters = eqn.primitive.get_bind_params(eqn.params)

    def function(*tangents: Any) -> Any:
        """The results of the equation as a function of its linear operands."""
        linear_values = iter(tangents)
        operands = [
            next(linear_values) if m else _value(v, env) for v, m in zip(eqn.invars, is_linear_operand, strict=True)
        ]
        values = eqn.primitive.bind(*operands, **parameters)
        return list(values) if eqn.primitive.multiple_results else [values]

    return jax.linear_transpose(function, *shapes)(list(results))


# Boxes


def shape_of(v: Variable) -> tuple[int, ...]:
    """The shape of a variable or a literal."""
    return v.aval.shape


def element_of(v: Variable) -> Any:
    """The element type of a variable or a literal."""
    return v.aval.dtype


def _whole(v: Variable) -> Box:
    return tuple((0, n) for n in v.aval.shape)


def _box_hull(a: Box, b: Box | None) -> Box:
    return a if b is None else tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))


def _subbox(x: jax.Array, box: Box, subbox: Box) -> jax.Array:
    """The array on `subbox`, a box inside of its own `box`."""
    if subbox == box:
        return x
    starts = [p - a for (a, _), (p, _) in zip(box, subbox, strict=True)]
    return lax.slice(x, starts, [s + q - p for s, (p, q) in zip(starts, subbox, strict=True)])


def _extended(x: jax.Array, box: Box, larger_box: Box) -> jax.Array:
    """The array, which has `box`, on the larger box `larger_box`, with zeros around."""
    if larger_box == box:
        return x
    sides = [(a - p, q - b, 0) for (a, b), (p, q) in zip(box, larger_box, strict=True)]
    return lax.pad(x, lax.full((), 0, x.dtype), sides)


def _total(parts: Sequence[jax.Array]) -> jax.Array:
    """The sum of one or more arrays."""
    total = parts[0]
    for part in parts[1:]:
        total = lax.add(total, part)
    return total


Function = Callable[..., list[jax.Array]]


def gathering(function: Function) -> Function:
    """The same function of arrays to a list of arrays, whose reverse mode gathers cotangents (`stencil_tangents`).

    JAX's own transpose is kept if a linear equation is a program of its own (loops, conditionals), or if none is a
    slice.
    """

    @jax.custom_jvp
    def value(*xs: Any) -> list[Any]:
        return function(*xs)

    def jvp(xs: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and their tangents: by `stencil_tangents` for a stencil, else as `jax.jvp` has them.

        `xs` and `tangents` are primals and tangents, of which symbolic zeros are left out.
        """
        moving_operands = [k for k, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]
        directions = [tangents[k] for k in moving_operands]

        def both(xs: Sequence[Any], directions: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
            """The results of floating types, their tangents, and the other results."""

            def some(*tangents_of_floats: Any) -> tuple[list[Any], list[Any]]:
                """The results of floating types, and the others, as a function of the operands that move."""
                results = function(*replaced(xs, moving_operands, tangents_of_floats))
                return [r for r in results if moves(r)], [r for r in results if not moves(r)]

            return jax.jvp(some, [xs[k] for k in moving_operands], list(directions), has_aux=True)

        closed, (shapes, _, others) = jax.make_jaxpr(both, return_shape=True)(list(xs), directions)
        stencil = _is_stencil(closed, len(directions))
        lists = _linearised(closed, xs, directions, len(shapes)) if stencil else both(xs, directions)
        floats, tangents_of_floats, other_results = map(iter, lists)
        order = [moves(s) for s in jax.eval_shape(function, *xs)] if others else [True] * len(shapes)
        results = [next(floats) if m else next(other_results) for m in order]
        zero_tangents = (np.zeros(r.shape, jax.dtypes.float0) for r in results)
        return results, [next(tangents_of_floats) if m else s for m, s in zip(order, zero_tangents, strict=True)]

    value.defjvp(jvp, symbolic_zeros=True)
    return value


def _is_stencil(closed: ClosedJaxpr, count: int) -> bool:
    """True if linear equations of a jaxpr include a slice, and none is a program of its own.

    `count`: the jaxpr is linear in its last `count` arguments.
    """
    jaxpr = closed.jaxpr
    linear = linear_variables(jaxpr.eqns, jaxpr.invars[len(jaxpr.invars) - count :])
    equations = [e for e in jaxpr.eqns if is_linear(e, linear)]
    inner = (p for e in equations for p in e.params.values())
    return any(e.primitive.name == "slice" for e in equations) and not any(
        isinstance(p, (ClosedJaxpr, Jaxpr)) or callable(p) for p in inner
    )


def _linearised(
    closed: ClosedJaxpr, xs: Sequence[Any], directions: Sequence[Any], results: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """The values, their tangents as one `stencil_tangents`, and the remaining results of a jaxpr of (xs,
    directions).

    `results`: the number of values; the jaxpr gives them, their tangents, and the other results, in this order.
    """
    jaxpr = closed.jaxpr
    start = jaxpr.invars[len(xs) :]
    linear = linear_variables(jaxpr.eqns, start)
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, xs, strict=False))
    applied((e for e in jaxpr.eqns if not is_linear(e, linear)), env)
    tangents = jaxpr.outvars[results : 2 * results]
    eqns, residual_variables = _tangent_equations(jaxpr.eqns, linear, tangents)

    def moved(residuals: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        """The tangents as a function of residuals and directions."""
        inner: dict[Any, Any] = dict(zip([*residual_variables, *start], [*residuals, *directions], strict=True))
        applied(eqns, inner)
        return [_value(v, inner) for v in tangents]

    residuals = [env[v] for v in residual_variables]
    body = jax.make_jaxpr(moved)(residuals, list(directions))
    derivatives = stencil_tangents.bind(*residuals, *directions, body=body, count=len(residual_variables))
    values, other_results = (
        [_value(v, env) for v in variables] for variables in (jaxpr.outvars[:results], jaxpr.outvars[2 * results :])
    )
    return values, derivatives, other_results


def _tangent_equations(
    eqns: Sequence[JaxprEqn], linear: set[Variable], results: Sequence[Any]
) -> tuple[list[JaxprEqn], list[Variable]]:
    """The equations that tangents need, and the variables of the forward pass that these read: the residuals.

    Constants, which are computed of numbers alone (positions, masks of intervals, copies of one number), are computed
    again among the tangents and so are no residuals; the transpose then sees which arrays are one number. `results`:
    the variables of the tangents.
    """
    constant: set[Variable] = set()
    for e in eqns:
        if not is_linear(e, linear) and all(not shape_of(v) or v in constant for v in e.invars):
            constant.update(v for v in e.outvars if shape_of(v))
    # in the order of the equations, as a dict keeps it
    read = {v: None for e in eqns if is_linear(e, linear) for v in e.invars if not isinstance(v, Literal)}
    read.update((v, None) for v in results if not isinstance(v, Literal))
    for e in reversed(eqns):
        if any(v in read and v in constant for v in e.outvars):
            read.update((v, None) for v in e.invars if not isinstance(v, Literal))
    kept_eqns = [e for e in eqns if is_linear(e, linear) or any(v in read and v in constant for v in e.outvars)]
    computed = {v for e in kept_eqns for v in e.outvars}
    return kept_eqns, [v for v in read if v not in computed and v not in linear]


# The primitive: a jaxpr over residuals and tangents

stencil_tangents = Primitive("stencil_tangents")
stencil_tangents.multiple_results = True


def _run(*operands: Any, body: ClosedJaxpr, count: int) -> list[Any]:
    return jaxpr_as_fun(body)(*operands)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, body: ClosedJaxpr, count: int) -> tuple[Any, Any]:
    return jax.jvp(jaxpr_as_fun(body), tuple(primals), tuple([ad.instantiate_zeros(t) for t in tangents]))


def _transpose(cotangents: Sequence[Any], *operands: Any, body: ClosedJaxpr, count: int) -> list[Any]:
    back = [None if isinstance(c, ad.Zero) else c for c in cotangents]
    sums = zip(operands[count:], transposed(body, count, operands[:count], back), strict=True)
    return [*[None] * count, *(ad.Zero(x.aval) if s is None else s for x, s in sums)]


def _batched(args: Sequence[Any], axes: Sequence[Any], *, body: ClosedJaxpr, count: int) -> tuple[Any, Any]:
    program = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(body), tuple(axes)))(*args)
    return stencil_tangents.bind(*args, body=program, count=count), [0] * len(program.out_avals)


stencil_tangents.def_impl(_run)
stencil_tangents.def_abstract_eval(lambda *operands, body, count: list(body.out_avals))
mlir.register_lowering(stencil_tangents, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[stencil_tangents] = _jvp
ad.primitive_transposes[stencil_tangents] = _transpose
batching.primitive_batchers[stencil_tangents] = _batched
