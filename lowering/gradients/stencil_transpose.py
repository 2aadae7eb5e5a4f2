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

    def add(self, v: Any, part: jax.Array) -> None:
        if not isinstance(v, Literal) and v in self.needed:
            self.added.setdefault(v, []).append(part)

    def sum(self, v: Variable) -> jax.Array | None:
        """The cotangent of a value, all of whose readers are done, on its box; None where nothing came back."""
        box = self.needed[v]
        parts = [r.of(_part(self.known[r.result], self.needed[r.result], r.within(box))) for r in self._read(v)]
        if v in self.added:
            parts.append(_extended(_total(self.added[v]), _whole(v), box))
        if parts:
            self.known[v] = _total(parts)
        return self.known.get(v)

    def on_itself(self, v: Variable) -> jax.Array:
        """The cotangent of a value on the box of the value; zeros where nothing came back."""
        if v not in self.known:
            return lax.full(v.aval.shape, 0, v.aval.dtype)
        return _part(self.known[v], self.needed[v], _whole(v))

    def _read(self, v: Variable) -> list[_Read]:
        return [r for r in self.gathered.get(v, ()) if r.result in self.known]


def transposed(
    closed: ClosedJaxpr, count: int, residuals: Sequence[Any], cotangents: Sequence[Any]
) -> list[jax.Array | None]:
    """The cotangents of the operands of a jaxpr after the first `count`, in which it is linear; None for zeros.

    `cotangents` has one for each result, or None. Linear in the number of equations.
    """
    jaxpr = closed.jaxpr
    wanted = jaxpr.invars[count:]
    linear = linear_variables(jaxpr.eqns, wanted)
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars[:count], residuals, strict=True))
    known = [e for e in jaxpr.eqns if not is_linear(e, linear)]
    applied(known, env)
    # of arrays of copies the number
    copies = ((e.outvars[0], _value(e.invars[0], env)) for e in known if e.primitive.name == "broadcast_in_dim")
    uniform = {v: number for v, number in copies if not np.shape(number)}
    order = [(e, _reads(e, linear, uniform)) for e in jaxpr.eqns if is_linear(e, linear)]
    back = _Cotangents(_needed(order, linear, wanted))
    for v, cotangent in zip(jaxpr.outvars, cotangents, strict=True):
        if cotangent is not None:
            back.add(v, cotangent)
    for eqn, reads in reversed(order):
        arrived = [back.sum(v) for v in eqn.outvars if v in back.needed]
        if all(f is None for f in arrived):
            continue
        if reads is None:
            operands = [v for v in eqn.invars if not isinstance(v, Literal) and v in linear]
            results = [back.on_itself(v) for v in eqn.outvars]
            for v, part in zip(operands, _back(eqn, linear, env, results), strict=True):
                back.add(v, part)
            continue
        if eqn.primitive.name == "optimization_barrier":
            # stored going forward, since it is read at many offsets; so it is going back
            for v in eqn.outvars:
                if v in back.known:
                    back.known[v] = lax.optimization_barrier(back.known[v])
        for read in reads:
            if read.operand in back.needed:
                back.gathered.setdefault(read.operand, []).append(read)
    return [back.sum(v) for v in wanted]


def is_linear(eqn: JaxprEqn, linear: set[Variable]) -> bool:
    """True if an equation has an operand among the linear variables."""
    return any(not isinstance(v, Literal) and v in linear for v in eqn.invars)


def linear_variables(eqns: Iterable[JaxprEqn], start: Iterable[Variable]) -> set[Variable]:
    """The variables that are computed of some, and these."""
    linear = set(start)
    for e in eqns:
        if is_linear(e, linear):
            linear.update(e.outvars)
    return linear


def applied(eqns: Iterable[JaxprEqn], env: dict[Any, Any]) -> None:
    """Put what equations give into the environment that they read."""
    for e in eqns:
        results = e.primitive.bind(*(_value(v, env) for v in e.invars), **e.primitive.get_bind_params(e.params))
        env.update(zip(e.outvars, results if e.primitive.multiple_results else [results], strict=True))


def _value(v: Any, env: dict[Any, Any]) -> Any:
    return v.val if isinstance(v, Literal) else env[v]


def _reads(eqn: JaxprEqn, linear: set[Variable], uniform: dict[Variable, Any]) -> list[_Read] | None:
    """The linear operands of an equation with their boxes; None where its result is known on its own box alone."""
    name, (result, *others) = eqn.primitive.name, eqn.outvars
    places = [k for k, v in enumerate(eqn.invars) if not isinstance(v, Literal) and v in linear]
    zero = (0,) * len(shape_of(result))

    def all_of(*functions: Callable[[jax.Array], jax.Array]) -> list[_Read]:
        return [_Read(eqn.invars[k], result, zero, f) for k, f in enumerate(functions) if k in places]

    match name:
        case "add" | "add_any":
            return all_of(_same, _same)
        case "sub":
            return all_of(_same, lax.neg)
        case "neg":
            return all_of(lax.neg)
        case "copy":
            return all_of(_same)
        case "convert_element_type":
            element = element_of(eqn.invars[0])
            return all_of(lambda c: lax.convert_element_type(c, element))
        case "slice" if not any(k != 1 for k in eqn.params["strides"] or ()):
            return [_Read(eqn.invars[0], result, tuple(eqn.params["start_indices"]), _same)]
        case "optimization_barrier":
            pairs = [(eqn.invars[k], eqn.outvars[k]) for k in places]
            return [_Read(v, w, (0,) * len(shape_of(w)), _same) for v, w in pairs]
        case _ if name in SCALING and not others:
            (place, *more) = places
            if more or place not in SCALING[name]:
                return None
            other = eqn.invars[1 - place]
            factor = other.val if isinstance(other, Literal) else uniform.get(other)
            if factor is None:
                return None

            def scaled(c: jax.Array) -> jax.Array:
                number = lax.full(c.shape, factor, c.dtype)
                return eqn.primitive.bind(*((c, number) if place == 0 else (number, c)), **eqn.params)

            return [_Read(eqn.invars[place], result, zero, scaled)]
        case _:
            return None


def _same(cotangent: jax.Array) -> jax.Array:
    return cotangent


def _needed(
    order: Iterable[tuple[JaxprEqn, list[_Read] | None]], linear: set[Variable], wanted: Iterable[Variable]
) -> dict[Variable, Box]:
    """On which box the cotangent of each value is needed: on its own at least, and where its operands' reach."""
    boxes = {v: _whole(v) for v in wanted}
    for eqn, reads in order:
        if reads is not None:
            for read in reads:
                if read.operand in boxes:
                    boxes[read.result] = _hull(read.within(boxes[read.operand]), boxes.get(read.result))
        elif any(v in boxes for v in eqn.invars if not isinstance(v, Literal) and v in linear):
            boxes.update((v, _whole(v)) for v in eqn.outvars)
    return boxes


def _back(
    eqn: JaxprEqn, linear: set[Variable], env: dict[Any, Any], results: Sequence[jax.Array]
) -> Sequence[jax.Array]:
    """The transpose of one equation as JAX has it."""
    moving = [not isinstance(v, Literal) and v in linear for v in eqn.invars]
    shapes = [v.aval for v, moves in zip(eqn.invars, moving, strict=True) if moves]
    parameters = eqn.primitive.get_bind_params(eqn.params)

    def function(*tangents: Any) -> Any:
        some = iter(tangents)
        operands = [next(some) if m else _value(v, env) for v, m in zip(eqn.invars, moving, strict=True)]
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


def _hull(a: Box, b: Box | None) -> Box:
    return a if b is None else tuple((min(p, r), max(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))


def _part(x: jax.Array, box: Box, part: Box) -> jax.Array:
    """A part of a box."""
    if part == box:
        return x
    starts = [p - a for (a, _), (p, _) in zip(box, part, strict=True)]
    return lax.slice(x, starts, [s + q - p for s, (p, q) in zip(starts, part, strict=True)])


def _extended(x: jax.Array, box: Box, whole: Box) -> jax.Array:
    """An array on a larger box, with zeros around."""
    if whole == box:
        return x
    sides = [(a - p, q - b, 0) for (a, b), (p, q) in zip(box, whole, strict=True)]
    return lax.pad(x, lax.full((), 0, x.dtype), sides)


def _total(parts: Sequence[jax.Array]) -> jax.Array:
    total = parts[0]
    for part in parts[1:]:
        total = lax.add(total, part)
    return total


Function = Callable[..., list[jax.Array]]


def gathering(function: Function) -> Function:
    """The same function of arrays, giving a list of arrays; loops and conditionals in it keep JAX's transpose."""

    @jax.custom_jvp
    def value(*xs: Any) -> list[Any]:
        return function(*xs)

    def jvp(xs: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        varied = [k for k, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]
        directions = [tangents[k] for k in varied]

        def both(xs: Sequence[Any], directions: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
            """The results that have tangents, those, and the other results."""

            def some(*moved: Any) -> tuple[list[Any], list[Any]]:
                results = function(*replaced(xs, varied, moved))
                return [r for r in results if moves(r)], [r for r in results if not moves(r)]

            return jax.jvp(some, [xs[k] for k in varied], list(directions), has_aux=True)

        closed, (shapes, _, others) = jax.make_jaxpr(both, return_shape=True)(list(xs), directions)
        stencil = _is_stencil(closed, len(directions))
        lists = _linearised(closed, xs, directions, len(shapes)) if stencil else both(xs, directions)
        floats, moved, rest = map(iter, lists)
        order = [moves(s) for s in jax.eval_shape(function, *xs)] if others else [True] * len(shapes)
        results = [next(floats) if m else next(rest) for m in order]
        still = (np.zeros(r.shape, jax.dtypes.float0) for r in results)
        return results, [next(moved) if m else s for m, s in zip(order, still, strict=True)]

    value.defjvp(jvp, symbolic_zeros=True)
    return value


def _is_stencil(closed: ClosedJaxpr, count: int) -> bool:
    """True if the linear equations of a jaxpr read at offsets, and none of them is a program of its own."""
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
    """A linearised jaxpr of values and their tangents: `results` values, their tangents as one primitive, the rest."""
    jaxpr = closed.jaxpr
    start = jaxpr.invars[len(xs) :]
    linear = linear_variables(jaxpr.eqns, start)
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, xs, strict=False))
    applied((e for e in jaxpr.eqns if not is_linear(e, linear)), env)
    tangents = jaxpr.outvars[results : 2 * results]
    eqns, kept = _tangent_equations(jaxpr.eqns, linear, tangents)

    def moved(residuals: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        inner: dict[Any, Any] = dict(zip([*kept, *start], [*residuals, *directions], strict=True))
        applied(eqns, inner)
        return [_value(v, inner) for v in tangents]

    residuals = [env[v] for v in kept]
    body = jax.make_jaxpr(moved)(residuals, list(directions))
    derivatives = stencil_tangents.bind(*residuals, *directions, body=body, count=len(kept))
    values, rest = ([_value(v, env) for v in some] for some in (jaxpr.outvars[:results], jaxpr.outvars[2 * results :]))
    return values, derivatives, rest


def _tangent_equations(
    eqns: Sequence[JaxprEqn], linear: set[Variable], results: Sequence[Any]
) -> tuple[list[JaxprEqn], list[Variable]]:
    """The equations of tangents, with the constants among their operands, and what is kept of the forward pass.

    Constants are computed of numbers alone: positions, masks of intervals, copies of one number. Nothing is kept of
    them, and the transpose sees which arrays are one number.
    """
    constant: set[Variable] = set()
    for e in eqns:
        if not is_linear(e, linear) and all(not shape_of(v) or v in constant for v in e.invars):
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
