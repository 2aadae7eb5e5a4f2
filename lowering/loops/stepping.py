"""The compiled programs of a time loop: steps on the numbers of a state, how many at once, and those within gradients.

Chunks of steps are bounded in seconds, by measuring the first ones:

>>> pace = Pace(seconds=0.5)
>>> pace.measured(1, 3.0), pace.chunk(1000)             # the first chunk was compiled, too, and says nothing
(None, 1)
>>> pace.measured(1, 0.001), pace.chunk(1000)           # more, and not at once as many as that promises
(None, 8)
>>> pace.measured(8, 0.008), pace.chunk(40)
(None, 40)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.calls.shared_programs import Program, shared
from lowering.distribution.distributed import DistributedCall, calls_of, placement_of, rounds, several_steps_at_once
from lowering.distribution.meshes import Placement
from lowering.kernels import repeated
from lowering.labelled import Kind, apart, blank, explained, is_labelled, is_named, numbers, whole, with_numbers
from lowering.loops.agreement import Agreement
from lowering.loops.forcing import Records
from lowering.loops.states import carried
from lowering.tracing import concrete, inside_jit, names_axes, op_by_op
from tensorir.fieldview.closure_fingerprint import function_key, values_read
from tensorir.runtime.errors import refuse
from tensorir.runtime.memory import RecentCache

GROWTH = 8


@dataclass
class Pace:
    """The seconds of a step, as far as they are known."""

    seconds: float = 0.25
    """How long a chunk lasts at most, about; a request to stop is answered after it."""
    last: int = 0
    compiled: bool = False

    def chunk(self, left: int) -> int:
        """The number of the remaining steps that come next."""
        return max(1, min(left, self.last))

    def measured(self, steps: int, seconds: float) -> None:
        """Adapt the next chunk to the seconds of one of so many steps; the first one, which was compiled, counts as
        1.
        """
        if not self.compiled:
            self.compiled, self.last = True, 1
            return
        self.last = min(GROWTH * steps, int(steps * self.seconds / max(seconds, 1e-9)))


@dataclass(eq=False)
class Loop:
    """The program of one step on one kind of state, and how long its steps take."""

    step: Callable[..., Any]
    model: Any
    """A state without its numbers."""
    agreement: Agreement
    placement: Placement | None
    """The blocks of arrays with names, where the step calls a distributed program."""
    several: int = 0
    """How many steps that takes at once."""
    pace: Pace = field(default_factory=Pace)
    programs: dict[Any, Program] = field(default_factory=dict[Any, Any])
    """By the kind of the records of its forcing."""

    def run(self, carry: list[Any], votes: Any, coordinates: list[Any], records: Records | None) -> Any:
        """The arrays of the state after a chunk of steps, and the decision of all `votes`, which has their number.

        One program for any number of steps; it donates the buffers of `carry`.
        """
        record_kind = None if records is None else Kind(records)
        with calls_of(None):
            return self._program(record_kind, carry, votes, coordinates, records)(carry, votes, coordinates, records)

    def _program(self, kind: Any, carry: list[Any], votes: Any, coordinates: list[Any], records: Any) -> Program:
        """The compiled chunk for a kind of records, cached in `programs`."""
        if kind not in self.programs:

            def run(carry: Any, votes: Any, coordinates: Any, records: Any) -> Any:
                """The state's arrays after the decided number of steps, and the decision."""
                decided = self.agreement.decided(votes)
                function = _on_numbers(self.step, with_numbers(self.model, carry, coordinates), records)
                carry = carry if records is None else (carry, 0)
                carry = rounds(function, self.several, carry, decided[0]).run(carry, steps, in_pairs=True)
                return (carry if records is None else carry[0]), decided

            self.programs[kind] = shared(run, carry, votes, coordinates, records, donate=True)
        return self.programs[kind]


LOOPS: RecentCache[Any, Loop] = RecentCache("time loops", 32)
"""The time loops that ran last, by the code of their step, what it reads outside, and the kind of state."""


@dataclass(frozen=True, slots=True)
class Again:
    """A loop of states of one key."""

    loop: Loop
    reads: Any
    """The key of the step, and of the values that it reads from outside."""
    kept: list[Any]
    """Attributes that the key tells by identity."""


AGAIN: RecentCache[Any, Again] = RecentCache("states of time loops", 64)
"""The time loops that ran last, by the key of the state, for which nothing is looked at again."""


def loop_key(step: Callable[[Any], Any], state: Any) -> Any:
    return function_key(step), Kind(state)


def checked_loop(step: Callable[..., Any], state: Any, *record: Any) -> Loop:
    """The loop of a step on a state, and one `record` of its forcing, after checking that it keeps the state's
    structure.
    """
    calls = calls_in(step, state, *record)
    arrays = [*numbers(state), *jax.tree_util.tree_leaves(values_read(step))]
    agreement = Agreement.of(arrays, calls[0].owner.mesh if calls else None)
    return Loop(step, blank(state), agreement, placement_of(calls), several_steps_at_once(calls))


def calls_in(step: Callable[..., Any], state: Any, *record: Any) -> list[DistributedCall]:
    """The distributed programs that a step calls, found by tracing it; raises A20 if it changes the kind of the
    state.
    """
    before = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), state)
    calls: list[DistributedCall] = []
    with calls_of(calls):
        # of a distributed program results have no types that name axes of its mesh, and then the state has none
        model = jax.tree_util.tree_map(lambda x, kind: kind if names_axes(x) else x, state, before)
        jax.eval_shape(on_parts(step), model, *record)
    return calls


def on_parts(step: Callable[..., Any]) -> Callable[..., Any]:
    ordered = in_order(step)
    return lambda state, *record: ordered(state, *map(whole, record))


def in_order(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as a function of the state's `Parts`, which returns the next arrays in the order of the state's.

    Raises A20 if the step returns another structure, or other dims, labels, shapes or types.
    """
    if isinstance(step, jax.stages.Wrapped):
        compiled: Any = step  # the loop compiles it, and what JAX remembers of it would not be looked at again
        step = compiled.__wrapped__

    def ordered(parts: Any, *record: Any) -> list[Any]:
        """The arrays of the next state."""
        state = whole(parts)
        with explained():
            after = step(state, *record)
        models, structure = jax.tree_util.tree_flatten(state, is_leaf=is_named)
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state, is_leaf=is_named)]
        try:
            subtrees = structure.flatten_up_to(after)
        except ValueError:
            raise _other_structure(after, state) from None
        arrays: list[Any] = []
        for path, model, x in zip(paths, models, subtrees, strict=True):
            arrays += carried(path, model, x) if is_named(model) else [_unlabelled_array(path, model, x, after, state)]
        return arrays

    return ordered


def _unlabelled_array(path: Any, model: Any, x: Any, after: Any, state: Any) -> Any:
    """The array that a step returns in the place of the unlabelled `model`; raises A20 for another shape, type or
    structure.

    `after` and `state`: all that the step returned and took, for the message.
    """
    x = x.data if is_named(x) and not is_labelled(x) else numbers(apart(x))[0] if is_labelled(x) else x
    if not jax.tree_util.all_leaves([x]):
        raise _other_structure(after, state)
    old, new = ((jnp.shape(v), jnp.result_type(v)) for v in (model, x))
    if old != new:
        where = jax.tree_util.keystr(path) or "the state"
        raise refuse(
            "A20", f"the step turns {where} from {old[1]}{list(old[0])} into {new[1]}{list(new[0])}.",
            "a step keeps shapes and types: ti.with_boundary keeps a domain, and .astype a type.",
        )  # fmt: skip
    return x


def _other_structure(after: Any, state: Any) -> Exception:
    """The error A20 for a step that returns another structure."""
    returned, expected = (jax.tree_util.tree_structure(t, is_leaf=is_named) for t in (after, state))
    return refuse(
        "A20", f"the step returns {_structure_text(returned)}, and the state is {_structure_text(expected)}.",
        "return the next state in the structure of the one that it got.",
    )  # fmt: skip


def _structure_text(structure: Any) -> str:
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


# Many steps inside of somebody's transformation: loops that reverse mode goes back through at a stated memory.
#
# Under `jax.jit` they are a part of what is compiled. Gradients and batches that nobody compiles run operation by
# operation; there a loop is a program of its own, compiled once for a step, what it reads outside and a kind of
# state.

TRANSFORMED_LOOPS: RecentCache[Any, Callable[..., Any]] = RecentCache("time loops of gradients and batches", 32)
"""Those that ran last outside of `jax.jit`."""


@dataclass(frozen=True, slots=True)
class LoopInside:
    """A loop of n steps; what `keep` gives after those that are due is stacked."""

    step: Callable[..., Any]
    n: int
    several: int
    due: tuple[int, ...]
    keep: Callable[[Any], Any] | None
    checkpoint: bool | int

    def run(self, state: Any, records: Records | None) -> Any:
        """The state after all steps, with `keep` a pair of it and the stacked snapshots, as `Parts`."""
        step = _on_numbers(self.step, state, records)
        keep, begin = self.keep, numbers(state) if records is None else (numbers(state), 0)

        def kept(carry: Any) -> Any:
            """The `Parts` of a snapshot of the carry."""
            assert keep is not None
            with explained():
                return apart(keep(whole(with_numbers(state, carry if records is None else carry[0]))))

        recording = None if keep is None else kept
        with calls_of(None):
            result = _advanced_with_records(step, begin, self.n, self.several, self.due, recording, self.checkpoint)
        carry_after, *snapshots = (result,) if keep is None else result
        done = with_numbers(state, carry_after if records is None else carry_after[0])
        return done if keep is None else (done, *snapshots)

    def run_compiled(
        self, state: Any, records: Records | None, kind: Callable[[], Any], functions: Sequence[Callable[..., Any]]
    ) -> Any:
        """As `run`, as a program of its own if nobody compiles the surrounding code; cached by `kind` and the loop's
        parameters.

        `kind`: a key of the step, its captured values and the state. If a captured value of `functions`, the caller's,
        is differentiated or batched, the loop is traced at every call. No compiler options are passed: JAX takes none
        in reverse mode.
        """
        outside = [x for f in functions for x in jax.tree_util.tree_leaves(values_read(f))]
        if inside_jit() or op_by_op() or not all(map(concrete, outside)):
            return self.run(state, records)
        key = kind(), self.n, self.several, self.due, self.checkpoint
        return TRANSFORMED_LOOPS.of(key, lambda: jax.jit(self.run))(state, records)


def _on_numbers(step: Callable[..., Any], state: Any, records: Records | None) -> Callable[[Any], Any]:
    """The step as a function of the carry of a loop: the arrays of a state, with a forcing also the number of steps
    done.
    """
    ordered = in_order(step)
    if records is None:
        return lambda carry: ordered(with_numbers(state, carry))
    return lambda counted: (
        ordered(with_numbers(state, counted[0]), records.at(counted[1])), counted[1] + 1
    )  # fmt: skip


def _advanced_with_records(
    step: Callable[[Any], Any], state: Any, n: int, several: int, due: tuple[int, ...],
    keep: Callable[[Any], Any] | None, checkpoint: bool | int,
) -> Any:  # fmt: skip
    """The state after n steps; with `keep` a pair of it and its results after the steps `due`, stacked along a first
    axis.

    `several`: the number of steps that a distributed program takes at once. `checkpoint`: levels of blocks whose inner
    states reverse mode recomputes; True is 2.
    """
    levels = 2 if checkpoint is True else int(checkpoint)

    def advanced(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        """The state after n steps, in checkpointed blocks."""
        if not n:
            return state
        return _in_checkpointed_blocks(step, state, n, levels) if levels else steps(step, state, n)

    def advance(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        """The state after n steps, with several steps per exchange where the step is distributed."""
        return rounds(step, several, state, n).run(state, advanced)

    if keep is None:
        return advance(step, state, n)
    structure, stacks, done = None, list[list[Any]](), 0
    for first, count, length in _regular_runs(due):
        # `count` records, the first after `first` steps, and each of the others `length` steps later
        state = advance(step, state, first - done)
        snapshot = keep(state)
        structure = jax.tree_util.tree_structure(snapshot)
        stacks.append([jnp.asarray(x)[None] for x in jax.tree_util.tree_leaves(snapshot)])
        done = first
        if count > 1:

            def some(s: Any, _: Any, length: int = length) -> Any:
                """The state after `length` steps, and the leaves of its snapshot."""
                s = advance(step, s, length)
                return s, jax.tree_util.tree_leaves(keep(s))

            state, later_snapshots = lax.scan(jax.checkpoint(some) if checkpoint else some, state, length=count - 1)
            stacks.append(later_snapshots)
            done += (count - 1) * length
    state = advance(step, state, n - done)
    # only the arrays: a Field or a DataArray with an axis more would contradict its dims
    stacked = [jnp.concatenate(some) for some in zip(*stacks, strict=True)]
    assert structure is not None
    return state, jax.tree_util.tree_unflatten(structure, stacked)


def _regular_runs(due: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Groups of equally spaced steps `due`: (first step, number of records, distance of two).

    >>> list(_regular_runs([0, 2, 4, 5])), list(_regular_runs([3, 10]))
    ([(0, 3, 2), (5, 1, 1)], [(3, 2, 7)])
    """
    k = 0
    while k < len(due):
        end = k + 1
        length = due[end] - due[k] if end < len(due) else 1
        while end < len(due) and due[end] - due[end - 1] == length:
            end += 1
        yield due[k], end - k, length
        k = end


def steps(step: Callable[[Any], Any], state: Any, n: int) -> Any:
    """The state after n steps, a number that may be traced."""
    return repeated(step, state, n)


def _in_checkpointed_blocks(step: Callable[[Any], Any], state: Any, n: int, levels: int) -> Any:
    """The state after n steps, in `levels` of checkpointed blocks: reverse mode keeps the state before each, and
    recomputes inside.
    """
    if levels < 2 or n < 4:
        return steps(jax.checkpoint(step), state, n)
    block = max(1, round(n ** ((levels - 1) / levels)))
    inner = jax.checkpoint(lambda s: _in_checkpointed_blocks(step, s, block, levels - 1))
    state, _ = lax.scan(lambda s, _: (inner(s), None), state, length=n // block)
    return steps(jax.checkpoint(step), state, n % block)
