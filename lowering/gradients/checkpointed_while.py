"""Derivatives of loops of which nobody knows how often they run.

Tangents go along with the rounds. The reverse pass counts the rounds, keeps the state before each of some blocks of
them, and goes back block by block, each the same way in smaller blocks (Griewank and Walther, Evaluating Derivatives,
12.2): d levels of k states each go back through k ** d rounds with d more runs of each. What is kept does not grow with
the number of rounds; beyond k ** d of them, those of the smallest blocks run again for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.gradients.forward_mode_only import forward_only
from lowering.gradients.loop_body_derivatives import moves, once, replaced, smooth, with_tangents
from lowering.manual_axes import axes_of, varying
from tensorir.runtime.errors import Diagnostic

__all__ = ["Unbounded"]

FREE = 1 << 20
"""Bytes of states that a level keeps without a thought."""
LEAST_KEPT, MOST_KEPT = 16, 4096
"""How many states a level keeps."""
ROUNDS = 1 << 20
"""Up to so many rounds, none runs again for each other."""

State = list[Any]
Back = tuple[State, list[State]]
"""Cotangents, and room for states level by level, from the largest blocks on."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A loop over what it reads and carries, as `checkpointed_loop` says, and the buffers it reads that have tangents.

    `batches`: where the operands have the axes of batches, batch by batch from the inside; tangents have them in front.
    """

    body: ClosedJaxpr
    going: ClosedJaxpr
    reading: int
    varied: tuple[int, ...]
    refusal: Diagnostic
    batches: tuple[tuple[int | None, ...], ...] = ()

    def tangents(self, operands: Sequence[Any], d_carried: State, d_read: State) -> tuple[State, State]:
        """Of what is carried after the loop, and of what was read."""
        found = swept.bind(*operands, *d_carried, *d_read, known=len(operands), **self.parts)
        return found[: len(d_carried)], found[len(d_carried) :]

    @property
    def parts(self) -> dict[str, Any]:
        """Its fields: what JAX remembers of an operation it forgets with the jaxprs that are parameters themselves."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def forward(self, operands: Sequence[Any], moved: Sequence[Any]) -> State:
        """The tangents after the loop of those before it."""
        return self._mapped(self._forward)(tuple(map(jnp.asarray, operands)), list(moved))

    def backward(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> State:
        """The cotangents before the loop of those after it."""
        return self._mapped(self._backward)(tuple(map(jnp.asarray, operands)), list(cotangents))

    def _mapped(self, function: Callable[..., State]) -> Callable[..., State]:
        for axes in self.batches:
            function = jax.vmap(function, (axes, 0))
        return function

    def _forward(self, operands: Sequence[Any], moved: State) -> State:
        read, carried = operands[: self.reading], list(operands[self.reading :])
        count = len(moved) - len(self.varied)
        one = partial(with_tangents, self.body, read, self.varied)
        _, (_, d_carried, d_read) = lax.while_loop(
            lambda s: self._goes_on(read, s[0], s[1][0]),
            lambda s: (_after(s[0]), one(*s)),
            (_number(0), (carried, moved[:count], moved[count:])),
        )
        return [*d_carried, *d_read]

    def _backward(self, operands: Sequence[Any], cotangents: State) -> State:
        axes = axes_of(operands, cotangents)
        read, carried = operands[: self.reading], varying(list(operands[self.reading :]), axes)
        cotangents = varying(cotangents, axes)
        n, _ = lax.while_loop(
            lambda s: self._goes_on(read, *s), lambda s: (_after(s[0]), self._round(read, *s)), (_number(0), carried)
        )
        kept = min(max(FREE // max(1, sum(x.size * x.dtype.itemsize for x in carried)), LEAST_KEPT), MOST_KEPT)
        levels = math.ceil(math.log(ROUNDS, kept))
        states = varying([[lax.full((kept, *x.shape), 0, x.dtype) for x in carried] for _ in range(levels)], axes)
        found, _ = self._back(read, _number(0), n, carried, (cotangents, states))
        return [forward_only(x, self.refusal) for x in found]

    def _goes_on(self, read: Sequence[Any], i: Any, carried: State) -> Any:
        return jaxpr_as_fun(self.going)(i, *read, *carried)[0]

    def _round(self, read: Sequence[Any], i: Any, carried: State) -> State:
        return varying(list(once(self.body, i, *read, *carried)), axes_of(carried))

    def _run(self, read: Sequence[Any], first: Any, n: Any, carried: State) -> State:
        return _counted(n, lambda i, s: self._round(read, lax.add(first, i), s), carried)

    def _back(self, read: Sequence[Any], first: Any, n: Any, carried: State, going_back: Back) -> Back:
        """The cotangents before n rounds, of which `carried` is the state before the first one."""
        cotangents, levels = going_back
        if not levels:
            one = partial(self._undone, read, first, n, carried)
            return _counted(n, one, cotangents), levels
        states, *inner = levels
        kept = states[0].shape[0]
        size = lax.max(_over(n, _number(kept)), _number(1))
        blocks = _over(n, size)

        def keep(j: Any, state: tuple[State, State]) -> tuple[State, State]:
            now, states = state
            states = [lax.dynamic_update_index_in_dim(all, x, j, 0) for all, x in zip(states, now, strict=True)]
            # nothing comes behind the last one
            further = lax.select(lax.lt(_after(j), blocks), size, _number(0))
            return self._run(read, lax.add(first, lax.mul(j, size)), further, now), states

        def block(j: Any, going_back: Back) -> Back:
            j = lax.sub(blocks, _after(j))
            before = lax.mul(j, size)
            now = [lax.dynamic_index_in_dim(all, j, 0, keepdims=False) for all in states]
            here = lax.min(size, lax.sub(n, before))
            return self._back(read, lax.add(first, before), here, now, going_back)

        _, states = _counted(blocks, keep, (carried, states))
        cotangents, inner = _counted(blocks, block, (cotangents, inner))
        return cotangents, [states, *inner]

    def _undone(self, read: Sequence[Any], first: Any, n: Any, carried: State, j: Any, cotangents: State) -> State:
        """The cotangents before the j-th of n rounds, counted from the last, of those after it."""
        j = lax.sub(n, _after(j))
        state = self._run(read, first, j, carried)
        function, points, _ = smooth(self.body, read, self.varied, lax.add(first, j), state)
        _, back, _ = jax.vjp(function, *points, has_aux=True)
        count = len(points[0])
        some, others = back((cotangents[:count], cotangents[count:]))
        return [*some, *others]


def _number(n: int) -> Any:
    return lax.full((), n, "int32")


def _after(i: Any) -> Any:
    return lax.add(i, _number(1))


def _over(n: Any, by: Any) -> Any:
    """n over a number, rounded up."""
    return lax.div(lax.add(n, lax.sub(by, _number(1))), by)


def _counted(n: Any, one: Callable[[Any, Any], Any], state: Any) -> Any:
    """`one(i, state)` n times, i counting from 0."""
    first = _number(0), state
    return lax.while_loop(lambda s: lax.lt(s[0], n), lambda s: (_after(s[0]), one(*s)), first)[1]


# The primitive

swept = Primitive("swept")
swept.multiple_results = True
"""`swept(*operands, *moved; known, **loop)` gives the tangents after a loop; it is linear in `moved`."""


def _swept(*args: Any, known: int, **loop: Any) -> State:
    return Unbounded(**loop).forward(args[:known], args[known:])


def _eagerly(*args: Any, **params: Any) -> State:
    return jax.jit(partial(_swept, **params))(*args)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, known: int, **loop: Any) -> tuple[Any, Any]:
    out = swept.bind(*primals, known=known, **loop)
    if all(isinstance(t, ad.Zero) for t in tangents[:known]):
        moved = [ad.instantiate_zeros(t) for t in tangents[known:]]
        return out, swept.bind(*primals[:known], *moved, known=known, **loop)
    places = [k for k, x in enumerate(primals) if moves(x)]

    def function(*some: Any) -> State:
        return _swept(*replaced(primals, places, some), known=known, **loop)

    points = [jnp.asarray(primals[k]) for k in places], [ad.instantiate_zeros(tangents[k]) for k in places]
    _, moved = jax.jvp(function, *points)
    return out, [forward_only(t, loop["refusal"]) for t in moved]


def _transpose(cotangents: Sequence[Any], *args: Any, known: int, **loop: Any) -> list[Any]:
    back = Unbounded(**loop).backward(args[:known], [ad.instantiate_zeros(c) for c in cotangents])
    asked = [ad.is_undefined_primal(x) for x in args[known:]]
    return [*([None] * known), *(b if a else None for a, b in zip(asked, back, strict=True))]


def _batched(args: Sequence[Any], axes: Sequence[Any], *, known: int, **loop: Any) -> tuple[Any, Any]:
    size = next(a.shape[x] for a, x in zip(args, axes, strict=True) if x is not None)
    moved = [batching.bdim_at_front(a, x, size) for a, x in zip(args[known:], axes[known:], strict=True)]
    mapped = replace(Unbounded(**loop), batches=(*loop["batches"], tuple(axes[:known])))
    return swept.bind(*args[:known], *moved, known=known, **mapped.parts), [0] * len(moved)


swept.def_impl(_eagerly)
swept.def_abstract_eval(lambda *args, known, **_: list(args[known:]))
mlir.register_lowering(swept, mlir.lower_fun(_swept, multiple_results=True))
ad.primitive_jvps[swept] = _jvp
ad.primitive_transposes[swept] = _transpose
batching.primitive_batchers[swept] = _batched
