"""Steps of a time loop taken together: one exchange for all of them, and what it is for is computed again in the halos.

A step that is one call of a distributed program, whose results are the next state, is known for that from its trace:
there is no operation in it but the call. Which array of the state is which parameter, and which result comes where, is
then read off the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
from jax.extend.core import ClosedJaxpr, Literal

from lowering.failures import checked
from tensorir.binding.arrays import refuse
from tensorir.distribution.chained import Chained, Feedback, chained, single_results
from tensorir.ir.nodes import Fencil

if TYPE_CHECKING:
    from lowering.distribution.distributed import Distributed
    from lowering.distribution.step import Step
    from lowering.distribution.tables import Tables

__all__ = ["DistributedCall", "calls_of", "rounds", "several_steps_at_once"]


@dataclass(frozen=True, slots=True)
class DistributedCall:
    """One call of a distributed program in a trace: its arrays by parameter, and what came of them."""

    owner: Distributed
    program: Fencil
    step: Step
    tables: Tables
    bound: Mapping[str, Any]
    given: Mapping[str, tuple[Any, ...]]
    results: Mapping[str, tuple[Any, ...]]


CALLS: ContextVar[list[DistributedCall] | None] = ContextVar("calls of distributed programs", default=None)
"""Those of the step that is looked at."""


@contextmanager
def calls_of(found: list[DistributedCall] | None) -> Iterator[None]:
    """The calls that are made in here go to a list, and are not looked at for what their checks find."""
    token = CALLS.set(found)
    try:
        yield
    finally:
        CALLS.reset(token)


def several_steps_at_once(calls: Sequence[DistributedCall]) -> int:
    """How many steps are to be taken together; 0 where no distributed program has a part in one."""
    return max((c.owner.halo_steps for c in calls), default=0)


def rounds(step: Callable[[Any], Any], several: int, state: Any, n: Any) -> list[tuple[Callable[[Any], Any], Any]]:
    """What is run how often for n steps: several at once, and those that are left; `several` is what a step asks for.

    What is sent of fields that no step writes is sent here, before the loops. Raises D09 where several steps are not
    one call of a distributed program each.
    """
    if not several:
        return [(step, n)]
    calls: list[DistributedCall] = []
    before: list[Any] = []
    after: list[Any] = []

    def traced(state: Any) -> Any:
        before[:] = jax.tree_util.tree_leaves(state)
        after[:] = jax.tree_util.tree_leaves(step(state))
        return [call.given for call in calls]

    with calls_of(calls):
        closed = jax.make_jaxpr(traced)(state)
    alone = len(calls) == len(closed.jaxpr.eqns) == 1
    call = _of_single_results(_with_constants(calls[0], closed)) if alone else None
    feedback = None if call is None else _feedback(call, before, after)
    single = step
    if call is not None and feedback is not None and _sent(call.step, call, feedback):
        single = _advancing(call.step, call, feedback, feedback)
    if several == 1:
        return [(single, n)]
    made = None if call is None or feedback is None else chained(call.program, feedback, several)
    if call is None or feedback is None or made is None:
        name = f"'{calls[0].owner.program.name}'" if calls else "a distributed program"
        told = f"{name} takes {several} steps at once, and the step of the time loop is no call of it alone."
        raise refuse("D09", told, "return its results as the next state, or leave out halo_steps.")
    together = _advancing(call.owner.step(made.program, call.tables, call.bound), call, feedback, made)
    return [(together, n // several), (single, n % several)]


def _with_constants(call: DistributedCall, closed: ClosedJaxpr) -> DistributedCall:
    """A call with the arrays themselves, where the trace of the step, which gave its arguments, has constants."""
    constants: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    leaves, structure = jax.tree_util.tree_flatten(call.given)
    given = [
        v.val if isinstance(v, Literal) else constants.get(v, x)
        for v, x in zip(closed.jaxpr.outvars, leaves, strict=True)
    ]
    return replace(call, given=jax.tree_util.tree_unflatten(structure, given))


def _of_single_results(call: DistributedCall) -> DistributedCall:
    """A call whose results are one array each, as those of the state are."""
    if all(len(leaves) == 1 for leaves in call.results.values()):
        return call
    program, names = single_results(call.program)
    results = {n: (x,) for name, own in names.items() for n, x in zip(own, call.results[name], strict=True)}
    step = call.owner.step(program, call.tables, call.bound)
    given = {p.name: call.given[p.name] for p in step.reads}
    return replace(call, program=program, step=step, given=given, results=results)


def _feedback(call: DistributedCall, before: Sequence[Any], after: Sequence[Any]) -> Feedback | None:
    """Which arrays of the state a call reads, and gives; None where one is something else."""
    place = {id(a): k for k, a in enumerate(before)}
    results = {id(x): name for name, (x,) in call.results.items()}
    following = [results.get(id(a), place.get(id(a))) for a in after]
    if any(f is None for f in following) or len(after) != len(before):
        return None
    # parameters that are tuples are several arrays, and are not chained
    if any(id(a) in place for leaves in call.given.values() if len(leaves) > 1 for a in leaves):
        return None
    reads = {name: place[id(leaves[0])] for name, leaves in call.given.items() if id(leaves[0]) in place}
    return Feedback(reads, tuple(f for f in following if f is not None))


def _sent(step: Step, call: DistributedCall, feedback: Feedback) -> set[str]:
    """The fields that devices send each other though no step writes them; of a mesh, those that are bound are not."""
    if step.exchange.mesh is not None or step.fixed.arrays:
        return set()
    return {m.field for m in step.exchange.messages if m.field in call.given and m.field not in feedback.reads}


def _advancing(
    step: Step, call: DistributedCall, feedback: Feedback, taken: Feedback | Chained
) -> Callable[[Any], Any]:
    """The steps that are taken as a function of the state; what is sent of constants is sent now."""
    constant = {name: leaves for name, leaves in call.given.items() if name not in feedback.reads}
    sent = _sent(step, call, feedback)
    views = step.with_halos_of({name: constant[name] for name in sent}) if sent else {}
    own = {p.name: constant[p.name] for p in step.reads if p.name in constant and p.name not in sent}

    def advance(state: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten(state)
        given = {**own, **{name: (leaves[k],) for name, k in taken.reads.items()}}
        outputs, failures = step.traced(given, views)
        outputs = checked(outputs, failures, step.checks)
        return structure.unflatten([leaves[f] if isinstance(f, int) else outputs[f][0] for f in taken.following])

    return advance
