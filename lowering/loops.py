"""Lowering of loop: rounds over carried tensors, so many of them or for as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr

from lowering.context import Check, Context, first_failures, no_failures
from lowering.levels import masked_leaves, settled, survey
from lowering.rounds import forward_only, moves, rounds
from lowering.tracing import concrete
from lowering.values import Dense, Value, dense
from tensorir.errors import Diagnostic
from tensorir.ir import Call, Lambda, Literal
from tensorir.types import BOOL, Dims, Interval

__all__ = ["loop"]

MOST_PLACES = (1 << 31) - 1
"""Where a check failed is a number no greater than this."""


def loop(context: Context, node: Call, args: Sequence[Any]) -> Value:
    index, limit = node.static
    count = (len(args) - 1) // 2
    key = (-1 if limit is None else limit, *map(id, args))
    if key in context.loops:
        return context.loops[key][1][index]
    condition, functions, start = args[0], args[1 : 1 + count], args[1 + count :]
    places = [a.type for a in node.args[1 + count :]]

    def number(i: jax.Array) -> Value:
        return (Dense(i, Dims()),)

    def settle(values: Sequence[Value], masked: list[list[bool]]) -> list[Value]:
        return [settled(v, p, m) for v, p, m in zip(values, places, masked, strict=True)]

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        carried = settle(start, masked)
        return [masked_leaves(inner.apply(g, number(lax.full((), 0, "int32")), *carried)) for g in functions]

    masked, checks = survey(context, [masked_leaves(v) for v in start], step_masks)
    body_of = functions[0].function  # equal conditions of several loops may be one function
    name = body_of.params[0].name if isinstance(body_of, Lambda) else "step"
    told = [_of_steps(check, name, limit) for check in checks]

    def body(i: jax.Array, state: Any) -> Any:
        carried, failed = state
        inner = context.inner()
        new = settle([inner.apply(g, number(i), *carried) for g in functions], masked)
        found = [_at_step(f, i, check, told) for f, check, told in zip(inner.found(checks), checks, told, strict=True)]
        return new, first_failures(failed, found)

    def going(i: jax.Array, state: Any) -> jax.Array:
        (more,) = context.inner().apply(condition, number(i), *state[0])
        return dense(more).data

    always = isinstance(condition.function, Lambda) and condition.function.body == Literal(True, BOOL)
    first = settle(start, masked), no_failures(checks)
    run = _op_by_op if jax.config.jax_disable_jit else _traced
    result, failed = run(body, None if always and limit is not None else going, first, limit, _refusal(node))
    context.checks += told
    context.failures += failed
    context.loops[key] = args, result
    return result[index]


def _of_steps(check: Check, name: str, limit: int | None) -> Check:
    """A check of one round as a check of all: the round is the first of its dims, as far as positions can count."""
    size = check.dims.size
    if not size or name in check.dims:
        return check
    last = MOST_PLACES // size
    rounds = Interval(0, last if limit is None else max(1, min(limit, last)))
    return replace(check, dims=Dims(((name, rounds), *check.dims.items)))


def _at_step(failure: jax.Array, i: jax.Array, before: Check, after: Check) -> jax.Array:
    """A failure of one round, with its place among those of all rounds."""
    if before is after:
        return failure
    most = lax.full((), len(after.dims.items[0][1]) - 1, i.dtype)
    step = lax.convert_element_type(lax.min(i, most), failure.dtype)
    position, shown = failure[0], failure[1]
    moved = lax.add(position, lax.mul(step, lax.full((), before.dims.size, failure.dtype)))
    position = lax.select(lax.lt(position, lax.full((), 0, failure.dtype)), position, moved)
    return lax.concatenate([lax.reshape(position, (1,)), lax.reshape(shown, (1,))], 0)


def _refusal(node: Call) -> Diagnostic:
    return Diagnostic(
        "R03", "reverse mode does not go through a loop of which nobody knows how often it runs.", node.span,
        help="give the loop a limit, or take the derivative in forward mode: jax.jvp, jax.jacfwd.",
    )  # fmt: skip


Body = Callable[[jax.Array, Any], Any]


def _op_by_op(body: Body, going: Body | None, state: Any, limit: int | None, refusal: Diagnostic) -> Any:
    k, now = 0, state
    while limit is None or k < limit:
        if going is not None:
            holds = going(lax.full((), k, "int32"), now)
            if not concrete(holds):
                # inside of a trace nobody can look whether it goes on
                return _traced(body, going, state, limit, refusal)
            if not holds:
                break
        now = body(lax.full((), k, "int32"), now)
        k += 1
    return now


def _traced(body: Body, going: Body | None, state: Any, limit: int | None, refusal: Diagnostic) -> Any:
    i = lax.full((), 0, "int32")
    flat, tree = jax.tree_util.tree_flatten(state)
    closed = [
        jax.make_jaxpr(lambda i, *xs, f=f: jax.tree_util.tree_leaves(f(i, tree.unflatten(xs))))(i, *flat)
        for f in (body, going)
        if f is not None
    ]
    if any(c.effects for c in closed):
        # something is printed, in order: no primitive of our own keeps that
        if going is None and limit is not None:
            return lax.fori_loop(np.int32(0), np.int32(limit), body, state)
        most = lax.full((), 2**31 - 1 if limit is None else limit, "int32")

        def more(s: Any) -> Any:
            holds = lax.lt(s[0], most)
            return holds if going is None else lax.bitwise_and(holds, going(*s))

        last = lax.while_loop(more, lambda s: (lax.add(s[0], lax.full((), 1, "int32")), body(*s)), (i, state))[1]
        return jax.tree_util.tree_map(lambda x: forward_only.bind(x, refusal=refusal) if moves(x) else x, last)
    read = list({id(x): x for c in closed for x in c.consts}.values())
    explicit = [_explicit(c, read) for c in closed]
    results = rounds.bind(
        *read, *flat, body=explicit[0], going=None if going is None else explicit[1], limit=limit, reading=len(read),
        refusal=refusal,
    )  # fmt: skip
    return tree.unflatten(results[: len(flat)])


def _explicit(closed: ClosedJaxpr, read: Sequence[Any]) -> ClosedJaxpr:
    """A jaxpr that takes all of `read` behind its first argument, and closes over nothing."""
    known = {id(x): v for x, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)}
    lacking = [x for x in read if id(x) not in known]
    if lacking:
        fresh = jax.make_jaxpr(lambda *xs: ())(*lacking).jaxpr.invars
        known.update({id(x): v for x, v in zip(lacking, fresh, strict=True)})
    i, *carried = closed.jaxpr.invars
    return ClosedJaxpr(closed.jaxpr.replace(constvars=[], invars=[i, *(known[id(x)] for x in read), *carried]), [])
