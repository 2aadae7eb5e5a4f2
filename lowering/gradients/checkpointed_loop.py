"""Loops as a primitive: as they stand going forward, and with a stated memory in derivatives.

Forward, n rounds over buffers are one `scan` without slices, or a `while_loop` where they may end early. The derivative
is a scan over values and tangents whose reads hand their buffer on (`in_place_adjoints`), so that a round of the
reverse pass costs what the round touches. Reverse mode keeps what rounds read; where that adds up to many times the
buffers, they run in blocks, themselves in blocks: the state before each is kept, and what is inside is computed again.
A loop that may end early runs to its limit, its rounds past the end doing nothing; one without a limit has forward mode
only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from lowering.batch_dims import with_batch
from lowering.gradients.checkpointed_while import Unbounded
from lowering.gradients.in_place_adjoints import still
from lowering.gradients.loop_body_derivatives import handing_on, moves, once, replaced, with_tangents
from tensorir.runtime.errors import Diagnostic
from tensorir.runtime.memory import remembered

__all__ = ["rounds"]

MOST_KEPT = 32
"""How many times the bytes of its buffers a loop keeps for the reverse pass before it runs in blocks."""
FREE = 1 << 20
"""Bytes that are kept without a thought."""
MOST_LEVELS = 3

rounds = Primitive("rounds")
rounds.multiple_results = True
"""`rounds(*read, *carried; body, going, limit, reading, refusal)` gives what is carried after the loop, then `read`.

`body` maps (i, *read, *carried) to carried, `going` to whether round i takes place (None: it does). `limit`: the most
rounds (None: nobody knows). `reading`: how many operands are read only. `refusal`: what reverse mode says where it
does not go through a loop without a limit.
"""


def _run(
    *operands: Any, body: ClosedJaxpr, going: ClosedJaxpr | None, limit: int | None, reading: int, refusal: Diagnostic
) -> list[Any]:
    read, start = operands[:reading], operands[reading:]

    def one(i: Any, carried: Sequence[Any]) -> tuple[Any, ...]:
        return once(body, i, *read, *carried)

    if going is None:
        assert limit is not None
        return [*_times(limit, one, tuple(start)), *read]
    holds = jaxpr_as_fun(going)

    def more(state: Any) -> Any:
        (found,) = holds(state[0], *read, *state[1])
        return found if limit is None else lax.bitwise_and(found, lax.lt(state[0], np.int32(limit)))

    first = lax.full((), 0, "int32"), tuple(start)
    _, result = lax.while_loop(more, lambda s: (lax.add(s[0], np.int32(1)), one(*s)), first)
    return [*result, *read]


def _times(n: int, one: Callable[[Any, Any], Any], state: Any) -> Any:
    """`one(i, state)` n times, i counting from 0."""
    first = lax.full((), 0, "int32"), state
    return lax.scan(lambda s, _: ((lax.add(s[0], np.int32(1)), one(*s)), None), first, length=n)[0][1]


# Derivatives


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, body: ClosedJaxpr, going: ClosedJaxpr | None,
    limit: int | None, reading: int, refusal: Diagnostic,
) -> tuple[Any, Any]:  # fmt: skip
    operands = [jnp.asarray(x) for x in primals]
    read, carried = operands[:reading], operands[reading:]
    moving = [k for k, x in enumerate(carried) if moves(x)]
    varied = tuple(k for k, t in enumerate(tangents[:reading]) if not isinstance(t, ad.Zero) and moves(read[k]))
    d_carried = [ad.instantiate_zeros(tangents[reading + k]) for k in moving]
    d_read = [tangents[k] for k in varied]
    if limit is None:
        assert going is not None
        found = rounds.bind(*operands, body=body, going=going, limit=limit, reading=reading, refusal=refusal)
        carried = found[: len(carried)]
        d_carried, d_read = Unbounded(body, going, reading, varied, refusal).tangents(operands, d_carried, d_read)
    else:
        one = partial(with_tangents, body, read, varied)
        if going is not None:
            one = _while(jaxpr_as_fun(going), read, one)
        start, blocks = lax.full((), 0, "int32"), _blocks(body, limit, reading)
        carried, d_carried, d_read = _in_blocks(one, (carried, d_carried, d_read), start, limit, blocks)
    results = [*carried, *read]
    moved: list[Any] = [still(x) for x in results]
    for k, t in zip([*moving, *(len(carried) + k for k in varied)], [*d_carried, *d_read], strict=True):
        moved[k] = t
    return results, moved


def _while(holds: Callable[..., Any], read: list[Any], one: Callable[..., Any]) -> Callable[..., Any]:
    """A round that does nothing where the condition fails."""
    return lambda i, state: lax.cond(holds(i, *read, *state[0])[0], one, lambda _, s: s, i, state)


def _in_blocks(one: Callable[..., Any], state: Any, first: Any, n: int, blocks: Sequence[int]) -> Any:
    """n rounds from `first` on, in blocks of the first size, which run in blocks of the next."""
    if not blocks:
        return _times(n, lambda i, s: one(lax.add(first, i), s), state)
    size, *smaller = blocks
    if n > size:
        block = jax.checkpoint(lambda at, s: _in_blocks(one, s, at, size, smaller), prevent_cse=False)
        state = _times(n // size, lambda k, s: block(lax.add(first, lax.mul(k, np.int32(size))), s), state)
        first, n = lax.add(first, np.int32(n - n % size)), n % size
    return _in_blocks(one, state, first, n, smaller) if n else state


@remembered("facts of loops", limit=256)
def _blocks(body: ClosedJaxpr, limit: int, reading: int) -> tuple[int, ...]:
    """The sizes of blocks, largest first; none where what all rounds keep is in proportion to the buffers."""
    shapes = list(body.in_avals[1:])
    moving = [k for k, s in enumerate(shapes) if moves(s)]

    def backward(i: Any, *operands: Any) -> Any:
        def function(*some: Any) -> Any:
            return [r for r in handing_on(body, i, *replaced(operands, moving, some))[0] if moves(r)]

        return jax.vjp(function, *(operands[k] for k in moving))[1]

    kept = limit * _bytes(jax.eval_shape(backward, jax.ShapeDtypeStruct((), "int32"), *shapes))
    buffers, state = _bytes(shapes), max(1, _bytes(shapes[reading:]))
    levels, needed = 1, float(kept)
    while needed > max(FREE, MOST_KEPT * buffers) and levels < MOST_LEVELS:
        levels += 1
        needed = levels * (state ** (levels - 1) * kept) ** (1 / levels)
    # every level keeps the same: so many states of the level above, or all that the innermost rounds keep
    states = max(1.0, needed / levels / state)
    sizes = [round(limit / states**k) for k in range(1, levels)]
    return tuple(s for s in sizes if 1 < s < limit)


def _bytes(tree: Any) -> int:
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree_util.tree_leaves(tree))


# Batches


def _batched(
    args: Sequence[Any], axes: Sequence[Any], *, body: ClosedJaxpr, going: ClosedJaxpr | None, limit: int | None,
    reading: int, refusal: Diagnostic,
) -> tuple[Any, Any]:  # fmt: skip
    args = [jnp.asarray(x) for x in args]
    size = next(a.shape[x] for a, x in zip(args, axes, strict=True) if x is not None)
    # the batch innermost: outermost takes three times as long
    read = [x if a is None else with_batch(x, a, -1, size) for x, a in zip(args[:reading], axes[:reading], strict=True)]
    start = [with_batch(*pair, -1, size) for pair in zip(args[reading:], axes[reading:], strict=True)]
    places = [None if a is None else -1 for a in axes[:reading]] + [-1] * len(start)
    shapes = [jax.ShapeDtypeStruct((), "int32"), *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*read, *start))]

    def each(function: Callable[..., Any], out: int = -1) -> Callable[..., Any]:
        return jax.vmap(function, (None, *places), out, axis_size=size)

    def once(i: Any, *operands: Any) -> list[Any]:
        return handing_on(body, i, *operands)[0]

    condition: Callable[..., Any] | None = None
    if going is not None:
        holds = jaxpr_as_fun(going)
        condition, one = holds, once
        if any(p is not None and used for p, used in zip(places, _used(going)[1:], strict=True)):
            # every member of the batch for as long as its own condition holds
            def once(i: Any, *operands: Any) -> list[Any]:
                return lax.cond(holds(i, *operands)[0], lambda: one(i, *operands), lambda: list(operands[reading:]))

            def any_holds(*operands: Any) -> list[Any]:
                return [lax.reduce(each(holds, 0)(*operands)[0], False, lax.bitwise_or, (0,))]

            condition = any_holds

    results = rounds.bind(
        *read, *start, body=jax.make_jaxpr(each(once))(*shapes), limit=limit, reading=reading, refusal=refusal,
        going=None if condition is None else jax.make_jaxpr(condition)(*shapes),
    )  # fmt: skip
    of_read = [None if a is None else x.ndim - 1 for a, x in zip(axes, read, strict=False)]
    return results, [*(x.ndim - 1 for x in start), *of_read]


def _used(closed: ClosedJaxpr) -> list[bool]:
    """Which arguments a jaxpr reads."""
    read = {v for e in closed.jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
    read |= {v for v in closed.jaxpr.outvars if not isinstance(v, Literal)}
    return [v in read for v in closed.jaxpr.invars]


rounds.def_impl(lambda *operands, **params: jax.jit(partial(_run, **params))(*operands))
rounds.def_abstract_eval(lambda *operands, reading, **_: [*operands[reading:], *operands[:reading]])
mlir.register_lowering(rounds, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[rounds] = _jvp
batching.primitive_batchers[rounds] = _batched
