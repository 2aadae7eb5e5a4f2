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


def loop(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    """Result k of a loop over carried tensors; all results are computed at the first request and cached in
    `context.loops`.

    `node.static`: k, and the most rounds (None: only the condition ends it). `lowered`: the condition, the step, the
    states at the start. The cache key is the identity of these, which the cache keeps alive. Failed checks of a round
    are recorded with its number; a failed check ends the loop, as a false condition does.
    """
    index, limit = node.static
    key = (-1 if limit is None else limit, *map(id, lowered))
    if key in context.loops:
        return context.loops[key][1][index]
    condition, step, *start = lowered
    by_steps = op_by_op()
    # the order of dims is that of the states: those that a start lacks do not stand behind its own in memory
    places = (
        [p.type for p in step.function.params[1:]]
        if isinstance(step.function, Lambda)
        else [a.tensor for a in node.args[2:]]
    )
    one_round = (_round_op_by_op if by_steps else _traced_round)(context, step, start, places)
    name = step.function.params[0].name if isinstance(step.function, Lambda) else "step"
    checks = [_check_of_all_rounds(check, name, limit) for check in one_round.checks]
    earlier_failures = (*context.before, *context.failures)
    failed_outside = any_of(earlier_failures)

    def asked(i: jax.Array, carried: list[Value]) -> tuple[jax.Array, Context]:
        """The condition of round i, and the context with its checks."""
        inner = context.inner()
        (holds,) = inner.apply(condition, _number(i), *carried)
        return dense(holds).data, inner

    def body(i: jax.Array, state: Any) -> Any:
        """The carry after round i: states, the first failures so far, and the count of rounds, if the condition has
        checks.
        """
        carried, failed, count = state
        new, failures = one_round.run(i, carried, any_of(failed, failed_outside))
        failures = [_failure_in_round(f, i, *pair) for f, *pair in zip(failures, one_round.checks, checks, strict=True)]
        return new, first_failures(failed, failures), [lax.add(i, lax.full((), 1, i.dtype)) for _ in count]

    def going(i: jax.Array, state: Any) -> jax.Array:
        """True if the condition of round i holds and no check has failed, in the condition or before."""
        carried, failed, _ = state
        condition_holds, inner = asked(i, carried)
        # what a check that failed kept from happening may be what would have ended the loop
        failures = (*([failed_outside] if earlier_failures else []), *failed, *inner.failures)
        return functools.reduce(lax.bitwise_and, map(passed, failures), condition_holds)

    always = isinstance(condition.function, Lambda) and condition.function.body == Literal(True, BOOL)
    zero = lax.full((), 0, "int32")
    of_condition: list[Check] = []
    if not always:
        jax.eval_shape(lambda: of_condition.extend(asked(zero, one_round.first)[1].checks))
    initial = one_round.first, no_failures(one_round.checks), [zero] if of_condition else []
    run = _op_by_op if by_steps else _loop_primitive
    result, failed, count = run(body, None if always and limit is not None else going, initial, limit, node.span)
    for i in count:
        # a condition that fails ends the loop: it is asked once more what it was
        inner = asked(i, result)[1]
        rounds_remain = lax.full((), True, bool) if limit is None else lax.lt(i, lax.full((), limit, i.dtype))
        was_evaluated = functools.reduce(lax.bitwise_and, map(passed, (failed_outside, *failed)), rounds_remain)
        for check, failure, no_failure in zip(inner.checks, inner.failures, no_failures(inner.checks), strict=True):
            failure = lax.select(lax.broadcast_in_dim(was_evaluated, (2,), ()), failure, no_failure)
            context.checks.append(check_of_all := _check_of_all_rounds(check, name, limit))
            context.failures.append(_failure_in_round(failure, i, check, check_of_all))
    context.checks += checks
    context.failures += failed
    context.loops[key] = lowered, result
    return result[index]


@dataclass(frozen=True, slots=True)
class _Round:
    """One round: what it makes of what is carried, and what each check finds, whose places are those of one round."""

    run: Callable[[jax.Array, list[Value], jax.Array], tuple[list[Value], list[jax.Array]]]
    """Of its number, what is carried, and what checks have found before it."""
    checks: list[Check]
    first: list[Value]
    """What the first round gets."""


def _round_op_by_op(context: Context, step: Bound[Value], start: list[Value], places: list[TensorType]) -> _Round:
    """The round of a loop that runs operation by operation; `places`: the types of the carried tensors."""

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        """Per carried tensor, the leaves that are masked after a round, from those before."""
        carried = _settled(start, places, masked)
        return [masked_leaves(v) for v in inner.apply_each(step, _number(lax.full((), 0, "int32")), *carried)]

    masked, checks = survey(context, [masked_leaves(v) for v in start], step_masks)

    def run(i: jax.Array, carried: list[Value], before: jax.Array) -> tuple[list[Value], list[jax.Array]]:
        """The states after round i, and the failures of its checks; `before` is the first failure so far."""
        inner = context.inner()
        inner.before = [before]
        new = _settled(inner.apply_each(step, _number(i), *carried), places, masked)
        return new, inner.failures_of(checks)

    return _Round(run, checks, _settled(start, places, masked))


def _traced_round(context: Context, step: Bound[Value], start: list[Value], places: list[TensorType]) -> _Round:
    """The round of a loop, traced once for given masks and mesh axes of its states, until neither grows.

    However deep loops are nested, a body is traced once for each.
    """
    masked, axes = [masked_leaves(v) for v in start], frozenset[str]()
    while True:
        inner, after = context.inner(), list[list[bool]]()

        def trace(
            i: jax.Array, carried: list[Value], before: jax.Array, inner: Context = inner,
            after: list[list[bool]] = after,
        ) -> tuple[list[Value], list[jax.Array]]:  # fmt: skip
            """The states after a round and the failures of its checks; extends `after` by the masked leaves."""
            inner.before = [before]
            new = inner.apply_each(step, _number(i), *carried)
            after.extend(map(masked_leaves, new))
            return _settled(new, places, after), inner.failures

        first = varying(_settled(start, places, masked), axes)
        closed, shape = jax.make_jaxpr(trace, return_shape=True)(lax.full((), 0, "int32"), first, any_of(()))
        joined = [[a or b for a, b in zip(m, f, strict=True)] for m, f in zip(masked, after, strict=True)]
        axes_after = axes_of(first, closed.out_avals)
        if joined == masked and axes_after == axes:
            break
        masked, axes = joined, axes_after
    traced, tree = jaxpr_as_fun(closed), jax.tree_util.tree_structure(shape)

    def run(i: jax.Array, carried: list[Value], before: jax.Array) -> tuple[list[Value], list[jax.Array]]:
        """The states after round i, and the failures of its checks."""
        new, failures = tree.unflatten(traced(i, *jax.tree_util.tree_leaves(carried), before))
        return varying(_settled(new, places, masked), axes), failures

    return _Round(run, inner.checks, first)


def _number(i: jax.Array) -> Value:
    return (Dense(i, Dims()),)


def _settled(values: Sequence[Value], places: Sequence[TensorType], masked: Sequence[Sequence[bool]]) -> list[Value]:
    return [settled(v, p, m) for v, p, m in zip(values, places, masked, strict=True)]


def _check_of_all_rounds(check: Check, name: str, limit: int | None) -> Check:
    """A check of one round as one of all rounds, whose first dim, `name`, is the number of the round.

    Unchanged if positions would exceed int32. Without a limit, rounds from `MOST_ROUNDS` on count as the last one.
    """
    size, rounds = check.dims.size, MOST_ROUNDS if limit is None else max(1, limit)
    if not size or name in check.dims or rounds > MOST_PLACES // size:
        return check
    return replace(check, dims=Dims(((name, Interval(0, rounds)), *check.dims.items)))


def _failure_in_round(failure: jax.Array, i: jax.Array, check_of_round: Check, check_of_all: Check) -> jax.Array:
    """The failure of round i as a (position, value) pair, its position counted among all rounds.

    `check_of_round`, `check_of_all`: the check as one of a round, and as one of all rounds.
    """
    if check_of_round is check_of_all:
        return failure
    last_round = lax.full((), len(check_of_all.dims.items[0][1]) - 1, i.dtype)
    step = lax.convert_element_type(lax.min(i, last_round), failure.dtype)
    position, shown = failure[0], failure[1]
    moved = lax.add(position, lax.mul(step, lax.full((), check_of_round.dims.size, failure.dtype)))
    position = lax.select(lax.lt(position, lax.full((), 0, failure.dtype)), position, moved)
    return lax.concatenate([lax.reshape(position, (1,)), lax.reshape(shown, (1,))], 0)


def _second_derivative_refusal(span: Span | None) -> Diagnostic:
    """The error R03 of reverse mode of a derivative of a loop without a limit."""
    return Diagnostic(
        "R03", "reverse mode does not go through the derivative of a loop of which nobody knows how often it runs.",
        span or NOWHERE,
        help="take the second derivative in forward mode (jax.hessian, jax.jacfwd of jax.grad), or limit the loop.",
    )  # fmt: skip


def _printing_refusal(span: Span | None) -> Diagnostic:
    """The error R04 of reverse mode of a loop without a limit that prints."""
    return Diagnostic(
        "R04", "reverse mode does not go through a loop that prints and that a condition ends.", span or NOWHERE,
        help="print behind the loop, or take the derivative in forward mode: jax.jvp, jax.jacfwd.",
    )  # fmt: skip


Body = Callable[[jax.Array, Any], Any]


def _op_by_op(body: Body, going: Body | None, state: Any, limit: int | None, span: Span | None) -> Any:
    """The state after a loop that Python runs; traced from its start if its condition turns out to be no concrete
    value.
    """
    k, current = 0, state
    while limit is None or k < limit:
        if going is not None:
            holds = going(lax.full((), k, "int32"), current)
            if not concrete(holds):
                # inside of a trace nobody can look whether it goes on
                return _loop_primitive(body, going, state, limit, span)
            if not holds:
                break
        current = body(lax.full((), k, "int32"), current)
        k += 1
    return current


def _loop_primitive(body: Body, going: Body | None, state: Any, limit: int | None, span: Span | None) -> Any:
    """The state after a traced loop, as the primitive `rounds`; a loop that prints is a `lax` loop without reverse
    mode.

    `body(i, state)`: a round. `going(i, state)`: whether it takes place; None: always. `limit`: the most rounds.
    """
    i = lax.full((), 0, "int32")
    flat, tree = jax.tree_util.tree_flatten(state)
    axes, known_axes = axes_of(flat), None
    closed: list[ClosedJaxpr] = []
    while axes != known_axes:
        known_axes, flat = axes, varying(flat, axes)

        def leaves(i: Any, *xs: Any, axes: frozenset[str] = axes) -> list[Any]:
            """The leaves of the state after round i, all varying over the same axes of a mesh."""
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
            """True if another round takes place."""
            holds = lax.lt(s[0], most)
            return holds if going is None else lax.bitwise_and(holds, going(*s))

        final_state = lax.while_loop(more, lambda s: (lax.add(s[0], lax.full((), 1, "int32")), body(*s)), (i, state))[1]
        return jax.tree_util.tree_map(
            lambda x: forward_only(x, _printing_refusal(span)) if moves(x) else x, final_state
        )
    captured = list({id(x): x for c in closed for x in c.consts}.values())
    explicit = [_with_explicit_reads(c, captured) for c in closed]
    results = rounds.bind(
        *captured, *flat, body=explicit[0], going=None if going is None else explicit[1], limit=limit,
        reading=len(captured), refusal=_second_derivative_refusal(span),
    )  # fmt: skip
    return tree.unflatten(results[: len(flat)])


def _with_explicit_reads(closed: ClosedJaxpr, read: Sequence[Any]) -> ClosedJaxpr:
    """A jaxpr of (i, *read, *carried) without captured constants, of one of (i, *carried) that captures some of
    `read`.
    """
    variable_of = {id(x): v for x, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)}
    lacking = [x for x in read if id(x) not in variable_of]
    if lacking:
        fresh = jax.make_jaxpr(lambda *xs: ())(*lacking).jaxpr.invars
        variable_of.update({id(x): v for x, v in zip(lacking, fresh, strict=True)})
    i, *carried = closed.jaxpr.invars
    return ClosedJaxpr(
        closed.jaxpr.replace(constvars=[], invars=[i, *(variable_of[id(x)] for x in read), *carried]), []
    )
