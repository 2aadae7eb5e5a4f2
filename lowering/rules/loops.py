"""Lowering of loop: rounds over carried tensors, so many of them or for as long as a condition holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from lowering.context import Check, Context, any_of, first_failures, no_failures, passed
from lowering.gradients.checkpointed_loop import forward_only, moves, rounds
from lowering.rules.carried import masked_leaves, settled, survey
from lowering.tracing import axes_of, concrete, op_by_op, varying
from lowering.values import Dense, Value, dense
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Call, Lambda, Literal
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import BOOL, TensorType
from tensorir.runtime.errors import NOWHERE, Diagnostic, Span

MOST_PLACES = (1 << 31) - 1
"""Where a check failed is a number no greater than this."""
MOST_ROUNDS = 1 << 14
"""How many rounds of a loop that only its condition ends are told apart."""


def loop(context: Context, node: Call, args: Sequence[Any]) -> Value:
    index, limit = node.static
    key = (-1 if limit is None else limit, *map(id, args))
    if key in context.loops:
        return context.loops[key][1][index]
    condition, step, *start = args
    by_steps = op_by_op()
    # the order of dims is that of the states: those that a start lacks do not stand behind its own in memory
    places = (
        [p.type for p in step.function.params[1:]]
        if isinstance(step.function, Lambda)
        else [a.tensor for a in node.args[2:]]
    )
    round = (_by_steps if by_steps else _at_once)(context, step, start, places)
    name = step.function.params[0].name if isinstance(step.function, Lambda) else "step"
    checks = [_of_steps(check, name, limit) for check in round.checks]
    before = (*context.before, *context.failures)
    outside = any_of(before)

    def asked(i: jax.Array, carried: list[Value]) -> tuple[jax.Array, Context]:
        inner = context.inner()
        (more,) = inner.apply(condition, _number(i), *carried)
        return dense(more).data, inner

    def body(i: jax.Array, state: Any) -> Any:
        carried, failed, count = state
        new, failures = round.run(i, carried, any_of(failed, outside))
        failures = [_at_step(f, i, *pair) for f, *pair in zip(failures, round.checks, checks, strict=True)]
        return new, first_failures(failed, failures), [lax.add(i, lax.full((), 1, i.dtype)) for _ in count]

    def going(i: jax.Array, state: Any) -> jax.Array:
        carried, failed, _ = state
        more, inner = asked(i, carried)
        # what a check that failed kept from happening may be what would have ended the loop
        failures = (*([outside] if before else []), *failed, *inner.failures)
        return functools.reduce(lax.bitwise_and, map(passed, failures), more)

    always = isinstance(condition.function, Lambda) and condition.function.body == Literal(True, BOOL)
    zero = lax.full((), 0, "int32")
    of_condition: list[Check] = []
    if not always:
        jax.eval_shape(lambda: of_condition.extend(asked(zero, round.first)[1].checks))
    first = round.first, no_failures(round.checks), [zero] if of_condition else []
    run = _op_by_op if by_steps else _traced
    result, failed, count = run(body, None if always and limit is not None else going, first, limit, node.span)
    for i in count:
        # a condition that fails ends the loop: it is asked once more what it was
        inner = asked(i, result)[1]
        within = lax.full((), True, bool) if limit is None else lax.lt(i, lax.full((), limit, i.dtype))
        due = functools.reduce(lax.bitwise_and, map(passed, (outside, *failed)), within)
        for check, failure, none in zip(inner.checks, inner.failures, no_failures(inner.checks), strict=True):
            failure = lax.select(lax.broadcast_in_dim(due, (2,), ()), failure, none)
            context.checks.append(after := _of_steps(check, name, limit))
            context.failures.append(_at_step(failure, i, check, after))
    context.checks += checks
    context.failures += failed
    context.loops[key] = args, result
    return result[index]


@dataclass(frozen=True, slots=True)
class _Round:
    """One round: what it makes of what is carried, and what each check finds, whose places are those of one round."""

    run: Callable[[jax.Array, list[Value], jax.Array], tuple[list[Value], list[jax.Array]]]
    """Of its number, what is carried, and what checks have found before it."""
    checks: list[Check]
    first: list[Value]
    """What the first round gets."""


def _by_steps(context: Context, step: Bound[Value], start: list[Value], places: list[TensorType]) -> _Round:
    """A round that is run operation by operation."""

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        carried = _settled(start, places, masked)
        return [masked_leaves(v) for v in inner.apply_each(step, _number(lax.full((), 0, "int32")), *carried)]

    masked, checks = survey(context, [masked_leaves(v) for v in start], step_masks)

    def run(i: jax.Array, carried: list[Value], before: jax.Array) -> tuple[list[Value], list[jax.Array]]:
        inner = context.inner()
        inner.before = [before]
        new = _settled(inner.apply_each(step, _number(i), *carried), places, masked)
        return new, inner.failures_of(checks)

    return _Round(run, checks, _settled(start, places, masked))


def _at_once(context: Context, step: Bound[Value], start: list[Value], places: list[TensorType]) -> _Round:
    """A round that is traced once, however deep loops stand in each other."""
    masked, axes = [masked_leaves(v) for v in start], frozenset[str]()
    while True:
        inner, after = context.inner(), list[list[bool]]()

        def trace(
            i: jax.Array, carried: list[Value], before: jax.Array, inner: Context = inner,
            after: list[list[bool]] = after,
        ) -> tuple[list[Value], list[jax.Array]]:  # fmt: skip
            inner.before = [before]
            new = inner.apply_each(step, _number(i), *carried)
            after.extend(map(masked_leaves, new))
            return _settled(new, places, after), inner.failures

        first = varying(_settled(start, places, masked), axes)
        closed, shape = jax.make_jaxpr(trace, return_shape=True)(lax.full((), 0, "int32"), first, any_of(()))
        joined = [[a or b for a, b in zip(m, f, strict=True)] for m, f in zip(masked, after, strict=True)]
        over = axes_of(first, closed.out_avals)
        if joined == masked and over == axes:
            break
        masked, axes = joined, over
    traced, tree = jaxpr_as_fun(closed), jax.tree_util.tree_structure(shape)

    def run(i: jax.Array, carried: list[Value], before: jax.Array) -> tuple[list[Value], list[jax.Array]]:
        new, failures = tree.unflatten(traced(i, *jax.tree_util.tree_leaves(carried), before))
        return varying(_settled(new, places, masked), axes), failures

    return _Round(run, inner.checks, first)


def _number(i: jax.Array) -> Value:
    return (Dense(i, Dims()),)


def _settled(values: Sequence[Value], places: Sequence[TensorType], masked: Sequence[Sequence[bool]]) -> list[Value]:
    return [settled(v, p, m) for v, p, m in zip(values, places, masked, strict=True)]


def _of_steps(check: Check, name: str, limit: int | None) -> Check:
    """A check of one round as a check of all: the round is the first of its dims, if positions can count so far.

    Of a loop that only its condition ends, those behind `MOST_ROUNDS` count as the last one.
    """
    size, rounds = check.dims.size, MOST_ROUNDS if limit is None else max(1, limit)
    if not size or name in check.dims or rounds > MOST_PLACES // size:
        return check
    return replace(check, dims=Dims(((name, Interval(0, rounds)), *check.dims.items)))


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


def _twice(span: Span | None) -> Diagnostic:
    return Diagnostic(
        "R03", "reverse mode does not go through the derivative of a loop of which nobody knows how often it runs.",
        span or NOWHERE,
        help="take the second derivative in forward mode (jax.hessian, jax.jacfwd of jax.grad), or limit the loop.",
    )  # fmt: skip


def _printing(span: Span | None) -> Diagnostic:
    return Diagnostic(
        "R04", "reverse mode does not go through a loop that prints and that a condition ends.", span or NOWHERE,
        help="print behind the loop, or take the derivative in forward mode: jax.jvp, jax.jacfwd.",
    )  # fmt: skip


Body = Callable[[jax.Array, Any], Any]


def _op_by_op(body: Body, going: Body | None, state: Any, limit: int | None, span: Span | None) -> Any:
    k, now = 0, state
    while limit is None or k < limit:
        if going is not None:
            holds = going(lax.full((), k, "int32"), now)
            if not concrete(holds):
                # inside of a trace nobody can look whether it goes on
                return _traced(body, going, state, limit, span)
            if not holds:
                break
        now = body(lax.full((), k, "int32"), now)
        k += 1
    return now


def _traced(body: Body, going: Body | None, state: Any, limit: int | None, span: Span | None) -> Any:
    i = lax.full((), 0, "int32")
    flat, tree = jax.tree_util.tree_flatten(state)
    axes, before = axes_of(flat), None
    closed: list[ClosedJaxpr] = []
    while axes != before:
        before, flat = axes, varying(flat, axes)

        def leaves(i: Any, *xs: Any, axes: frozenset[str] = axes) -> list[Any]:
            return varying(jax.tree_util.tree_leaves(body(i, tree.unflatten(xs))), axes)

        closed = [jax.make_jaxpr(leaves)(i, *flat)]
        axes |= axes_of(closed[0].out_avals)
    if going is not None:
        closed.append(jax.make_jaxpr(lambda i, *xs: [going(i, tree.unflatten(xs))])(i, *flat))
    if any(c.effects for c in closed):
        # something is printed, in order: no primitive of our own keeps that
        if going is None and limit is not None:
            return lax.fori_loop(np.int32(0), np.int32(limit), body, state)
        most = lax.full((), 2**31 - 1 if limit is None else limit, "int32")

        def more(s: Any) -> Any:
            holds = lax.lt(s[0], most)
            return holds if going is None else lax.bitwise_and(holds, going(*s))

        last = lax.while_loop(more, lambda s: (lax.add(s[0], lax.full((), 1, "int32")), body(*s)), (i, state))[1]
        return jax.tree_util.tree_map(lambda x: forward_only(x, _printing(span)) if moves(x) else x, last)
    read = list({id(x): x for c in closed for x in c.consts}.values())
    explicit = [_explicit(c, read) for c in closed]
    results = rounds.bind(
        *read, *flat, body=explicit[0], going=None if going is None else explicit[1], limit=limit, reading=len(read),
        refusal=_twice(span),
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
