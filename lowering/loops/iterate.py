"""Time stepping inside XLA: many steps as one program, with snapshots, a bar, and stated memory for gradients.

How many steps a time loop takes before it looks up: chunks are bounded in seconds, by measuring the first ones.

>>> pace = Pace(seconds=0.5)
>>> pace.measured(1, 3.0), pace.chunk(1000)             # the first chunk was compiled, too, and says nothing
(None, 1)
>>> pace.measured(1, 0.001), pace.chunk(1000)           # more, and not at once as many as that promises
(None, 8)
>>> pace.measured(8, 0.008), pace.chunk(40)
(None, 40)
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.calls.shared_programs import Program, shared
from lowering.distribution.distributed import (
    DistributedCall,
    alone,
    calls_of,
    placement_of,
    rounds,
    several_steps_at_once,
)
from lowering.distribution.meshes import Placement
from lowering.kernels import plan_of_steps, repeated
from lowering.labelled import (
    Kind,
    apart,
    blank,
    explained,
    further,
    is_labelled,
    is_named,
    is_parts,
    names_of_axes,
    numbers,
    whole,
    with_numbers,
)
from lowering.loops.agreement import Agreement, Vote, ended
from lowering.loops.checkpoints import Checkpoints, digest_of_arrays, digest_of_function, source_of
from lowering.loops.forcing import Forcing, Records
from lowering.loops.progress import Bar, is_shown
from lowering.loops.snapshots import Clock, Snapshots, clock_of, due_steps
from lowering.loops.states import carried, dataset, entered, labelled_arrays, left, stacked_dataset
from lowering.tracing import concrete, inside_jit, inside_trace, left_to_xla, names_axes, op_by_op, tracing
from tensorir.binding.arrays import Unread, refuse
from tensorir.fieldview.closure_fingerprint import function_key, values_read
from tensorir.runtime.errors import Interrupted, leave
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
        """Learn from a chunk that was run."""
        if not self.compiled:
            self.compiled, self.last = True, 1
            return
        self.last = min(GROWTH * steps, int(steps * self.seconds / max(seconds, 1e-9)))


@dataclass
class Interrupt:
    """True if the user, or the queue that the process runs in, asked to stop."""

    signal: int = 0
    """The number of the signal, 0 as long as none came."""

    @property
    def asked(self) -> bool:
        return self.signal != 0


@contextmanager
def interrupts() -> Iterator[Interrupt]:
    """Ctrl-C and SIGTERM are noted for the next chunk, so that no state is lost; a second one stops at once.

    Only the main thread gets them; in others nothing changes.
    """
    found = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return

    def note(number: int, frame: FrameType | None) -> None:
        if found.asked:
            raise KeyboardInterrupt
        found.signal = number

    # where somebody else handles a signal, they know why
    usual: dict[int, tuple[Any, ...]] = {
        signal.SIGINT: (signal.default_int_handler,), signal.SIGTERM: (signal.SIG_DFL, leave)
    }  # fmt: skip
    before: dict[int, Any] = {number: signal.getsignal(number) for number in usual}
    taken = {number: how for number, how in before.items() if how in usual[number]}
    for number in taken:
        signal.signal(number, note)
    try:
        yield found
    finally:
        for number, how in taken.items():
            signal.signal(number, how)


def leave_without_others() -> None:
    """Let this process end at once when it ends: JAX would wait at its exit for processes that are gone."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(75)  # a temporary failure, in the words of sysexits

    atexit.register(leave)


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
        """The state after all steps, and with `keep` a pair; states are pytrees of `Parts`."""
        step = _on_numbers(self.step, state, records)
        keep, begin = self.keep, numbers(state) if records is None else (numbers(state), 0)

        def kept(carry: Any) -> Any:
            assert keep is not None
            with explained():
                return apart(keep(whole(with_numbers(state, carry if records is None else carry[0]))))

        own = None if keep is None else kept
        with calls_of(None):
            last = _traced(step, begin, self.n, self.several, self.due, own, self.checkpoint)
        after, *more = (last,) if keep is None else last
        done = with_numbers(state, after if records is None else after[0])
        return done if keep is None else (done, *more)

    def run_compiled(
        self, state: Any, records: Records | None, kind: Callable[[], Any], functions: Sequence[Callable[..., Any]]
    ) -> Any:
        """The same as a program of its own, where nobody compiles what is around it.

        `kind` tells the step, what it reads outside and the state apart from others. Where `functions`, those of the
        caller, read what is differentiated or batched from outside, the loop is compiled at every call. XLA is given no
        options of the programs in it: JAX takes none of what is differentiated backward.
        """
        outside = [x for f in functions for x in jax.tree_util.tree_leaves(values_read(f))]
        if inside_jit() or op_by_op() or not all(map(concrete, outside)):
            return self.run(state, records)
        key = kind(), self.n, self.several, self.due, self.checkpoint
        return TRANSFORMED_LOOPS.of(key, lambda: jax.jit(self.run))(state, records)


def _on_numbers(step: Callable[..., Any], state: Any, records: Records | None) -> Callable[[Any], Any]:
    """The step as a function of what a loop carries: the numbers of a state, with a forcing also the steps done."""
    ordered = _in_order(step)
    if records is None:
        return lambda carry: ordered(with_numbers(state, carry))
    return lambda counted: (
        ordered(with_numbers(state, counted[0]), records.at(counted[1])), counted[1] + 1
    )  # fmt: skip


def _traced(
    step: Callable[[Any], Any],
    state: Any,
    n: int,
    several: int,
    due: tuple[int, ...],
    keep: Callable[[Any], Any] | None,
    checkpoint: bool | int,
) -> Any:
    levels = 2 if checkpoint is True else int(checkpoint)

    def advanced(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        if not n:
            return state
        return _nested(step, state, n, levels) if levels else steps(step, state, n)

    def advance(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        return rounds(step, several, state, n).run(state, advanced)

    if keep is None:
        return advance(step, state, n)
    structure, parts, done = None, list[list[Any]](), 0
    for first, count, length in _runs(due):
        # `count` records, the first after `first` steps, and each of the others `length` steps later
        state = advance(step, state, first - done)
        one = keep(state)
        structure = jax.tree_util.tree_structure(one)
        parts.append([jnp.asarray(x)[None] for x in jax.tree_util.tree_leaves(one)])
        done = first
        if count > 1:

            def some(s: Any, _: Any, length: int = length) -> Any:
                s = advance(step, s, length)
                return s, jax.tree_util.tree_leaves(keep(s))

            state, rest = lax.scan(jax.checkpoint(some) if checkpoint else some, state, length=count - 1)
            parts.append(rest)
            done += (count - 1) * length
    state = advance(step, state, n - done)
    # only the arrays: a Field or a DataArray with an axis more would contradict its dims
    stacked = [jnp.concatenate(some) for some in zip(*parts, strict=True)]
    assert structure is not None
    return state, jax.tree_util.tree_unflatten(structure, stacked)


def _runs(due: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Records that are equally far apart together: the first, their number, and the steps between two.

    >>> list(_runs([0, 2, 4, 5])), list(_runs([3, 10]))
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


def _nested(step: Callable[[Any], Any], state: Any, n: int, levels: int) -> Any:
    """Blocks of steps, themselves in blocks: reverse mode keeps the state before each, and recomputes inside of it."""
    if levels < 2 or n < 4:
        return steps(jax.checkpoint(step), state, n)
    block = max(1, round(n ** ((levels - 1) / levels)))
    inner = jax.checkpoint(lambda s: _nested(step, s, block, levels - 1))
    state, _ = lax.scan(lambda s, _: (inner(s), None), state, length=n // block)
    return steps(jax.checkpoint(step), state, n % block)


# Time stepping inside XLA: many steps as one program, with snapshots, and gradients at a stated memory.

REPORTS = 50
"""How often a callback without `every` is called, a progress bar moved, and a state kept."""


def iterate(
    step: Callable[..., Any],
    state: Any,
    n: int,
    *,
    forcing: Any = None,
    forcing_method: str = "linear",
    every: Any = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Callable[[Any], Any] | bool = False,
    dt: Any = 1,
    start: Any = None,
    checkpoint: bool | int = True,
    progress: bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: Any = "5 s",
    on_interrupt: str = "raise",
) -> Any:
    """Steps in XLA; its arguments are those of `ti.iterate`, where each is described.

    A loop is compiled once for a step, what it reads outside, and a kind of state (`ti.caches`). Inside of somebody's
    transformation there are no callbacks and no bar, what is kept is stacked along a first axis, and a forcing is whole
    in memory.

    >>> import jax.numpy as jnp
    >>> iterate(lambda x: 0.5 * x, jnp.ones(2), 3)
    Array([0.125, 0.125], dtype=float32)
    >>> last, kept = iterate(lambda s: {"x": s["x"] / 2}, {"x": jnp.ones(2)}, 4, every=2, keep=True, dt=0.5)
    >>> kept["x"].values.tolist(), kept["time"].values.tolist()
    ([[1.0, 1.0], [0.25, 0.25], [0.0625, 0.0625]], [0.0, 1.0, 2.0])
    """
    if isinstance(n, bool) or not (0 <= n < math.inf) or int(n) != n:
        raise refuse("A19", f"n is {n!r}, which is no number of steps.", "give 0 or more.")
    if on_interrupt not in ("raise", "return"):
        raise refuse("A19", f"on_interrupt is {on_interrupt!r}.", 'it is "raise" or "return".')
    if not keep and to is not None:
        raise refuse("A31", "nothing is kept that could be written.", "say what: keep=True.")
    if keep and to is None and checkpoint_dir is not None:
        raise refuse("A31", "what is kept would be lost with the process.", 'write it: to="run.nc".')
    clock = clock_of(dt, start, state, n)
    due = _due(every, clock, n)
    labels = _labels(state) if checkpoint_dir is not None else ""
    forced = None if forcing is None else Forcing.on_clock(forcing, forcing_method, clock, n)
    record = () if forced is None else (with_numbers(forced.model, forced.first),)
    labelled, state = state, state if clock.start is None else labelled_arrays(_without_date, state)
    state, like = _read(step, state, *record)
    given = with_numbers(entered(labelled, by_block=True), numbers(like))
    chosen = (lambda s: s) if keep is True else keep or None
    if inside_trace(jax.tree_util.tree_leaves((state, record))):
        if calls := _check(step, state, *record):
            mesh = calls[0].owner.mesh
            state = jax.tree_util.tree_map(lambda x: left_to_xla(jnp.asarray(x), mesh), state)
        several = several_steps_at_once(calls)
        loop = LoopInside(step, n, several, due, chosen, checkpoint)
        functions = [f for f in (step, chosen) if f is not None]
        records = None if forced is None else forced.records(n)
        kind = lambda: tuple([_loop_key(f, (state, records)) for f in functions])
        result = loop.run_compiled(state, records, kind, functions)
        if chosen is None:
            return clock.dated(whole(result), n)
        last, kept = result
        if any(map(is_parts, jax.tree_util.tree_leaves(kept, is_leaf=is_parts))):
            times = [clock.at(k) for k in due]
            one = [np.broadcast_to(np.zeros((), x.dtype), x.shape[1:]) for x in numbers(kept)]
            first = whole(with_numbers(kept, one, [x[0] for x in further(kept)]))
            kept = stacked_dataset(first, numbers(kept), times, clock.units)
        return clock.dated(whole(last), n), kept
    with jax.enable_x64(True), interrupts() as interrupt:
        state = with_numbers(state, [left_to_xla(jnp.array(x, copy=True)) for x in numbers(state)])
        loop = LOOPS.of(_loop_key(step, (state, record)), lambda: _checked_loop(step, state, *record))
        forced = None if forced is None else replace(forced, placement=loop.placement)
        held: Checkpoints | None = None
        if checkpoint_dir is not None:
            with calls_of(None), alone():
                facts = {"step": digest_of_function(_digested(step), state, *record), "labels": labels}
            facts |= {} if forced is None else {"forcing": forced.digest(loop.agreement)}
            facts |= {"dt": str(clock.step), "start": str(clock.start)}
            counted = every is None or isinstance(every, (int, np.integer))
            if not counted:
                facts["every"] = str(every)
            facts["keep"] = str(bool(keep))
            if chosen and keep is not True:
                facts["keep"] = digest_of_function(lambda parts: numbers(apart(chosen(whole(parts)))), state)
            source = source_of(step)
            held = Checkpoints(checkpoint_dir, numbers(state), facts, loop.agreement, checkpoint_every, source)
            held.every = None if not keep or every is None else int(every) if counted else 1
        try:
            resumed = held.resumed(n) if held else None
            if held and keep and every is None:
                held.every = held.every or _often(n)
                due = _due(held.every, clock, n)
            done, carry = resumed or (0, numbers(state))
            reported = due if callback or keep else ()
            run = _Run(loop, n, reported, callback, chosen, clock, given, state, held, forced, interrupt)
            if held and not resumed:
                held.save(0, carry)
            if to is not None:
                leads = loop.agreement.leads  # who writes the file finds out if it may
                run.file = Snapshots(to, resumed is not None or not leads, done if leads else 0)
            if is_shown(progress) and loop.agreement.leads:
                run.bar = Bar(n, patience=0.0 if progress else 0.5)
            return run.ended(*run.advance(done, carry), on_interrupt)
        finally:
            if held:
                held.close()


def _read(step: Callable[..., Any], state: Any, *record: Any) -> tuple[Any, Any]:
    """The `Parts` of a state whose arrays in files are read, and parts that its results are like.

    Where the step calls a distributed program each device reads its block; of several processes none has the whole.
    """
    parts = entered(state, by_block=True)
    some, axes = numbers(parts), names_of_axes(parts)
    if not any(isinstance(x, Unread) for x in some):
        return parts, parts
    with jax.enable_x64(True):
        blocks = None if tracing() else placement_of(_check(step, blank(parts), *record))
        if blocks is None:
            parts = entered(state)
            return parts, parts
        made = [blocks.read(x, d) if isinstance(x, Unread) else x for x, d in zip(some, axes, strict=True)]
        blanks = numbers(blank(parts))
    # in one process results are arrays of NumPy, as those of files that are read whole
    host = [isinstance(x, Unread) and y.is_fully_addressable for x, y in zip(some, made, strict=True)]
    like = [b if h else x for h, b, x in zip(host, blanks, made, strict=True)]
    return with_numbers(parts, made), with_numbers(parts, like)


def _digested(step: Callable[..., Any]) -> Callable[..., Any]:
    ordered = _in_order(step)
    return lambda state, *record: ordered(state, *map(whole, record))


def _without_date(x: Any) -> Any:
    """A state's array without the date that goes on with the steps."""
    return x.drop_vars("time") if "time" in x.coords and not x.coords["time"].dims else x


def _often(n: int) -> int:
    """After how many steps something is reported where the caller does not say it."""
    return max(1, math.ceil(n / REPORTS))


def _due(every: Any, clock: Clock, n: int) -> tuple[int, ...]:
    """The steps after which something is reported; where they are equally far apart the last one, too."""
    due = due_steps(_often(n) if every is None else every, clock, n)
    return tuple(due) if not isinstance(due, range) else (*due, *([] if n in due else [n]))


def _labels(state: Any) -> str:
    """The key of a state's coordinates; a date without dims is the start of the clock."""
    found: dict[str, Any] = {}

    def look(x: Any) -> Any:
        found.update({f"{n}{c.dims}": c.values for n, c in x.coords.items() if c.dims or n != "time"})
        return x

    labelled_arrays(look, state)
    return digest_of_arrays(list(found), found.values())


def loop_plan(step: Callable[..., Any], state: Any, *record: Any) -> Any:
    """The kernels of a step of a state, and what of it is left to XLA."""
    with jax.enable_x64(True), calls_of(None):
        given = entered(state)
        entries = tuple(map(entered, record))
        run = lambda xs: _in_order(step)(with_numbers(given, xs), *map(whole, entries))
        return plan_of_steps(run, [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in numbers(given)])


@dataclass(eq=False)
class _Run:
    """One run of a loop: chunks of steps, and what is done between them."""

    loop: _Loop
    n: int
    due: tuple[int, ...]
    """The steps after which something is reported, in ascending order."""
    callback: Callable[[int, Any], object] | None
    keep: Callable[[Any], Any] | None
    clock: Clock
    given: Any
    """The state at the start, as `Parts`, whose labels and coordinates no step changes."""
    inside: Any
    """The same as steps get it, without a date that changes."""
    held: Checkpoints | None
    forcing: Forcing | None
    interrupt: Interrupt
    file: Snapshots | None = None
    bar: Bar | None = None
    kept: list[Any] = field(default_factory=list[Any])
    times: list[int] = field(default_factory=list[int])
    signal: int = 0
    peers: Sequence[str] = ()

    def advance(self, done: int, state: Any) -> tuple[int, Any]:
        """The steps that are left, or those until the user stops them."""
        agreement, stop, problem, records, unsaved = self.loop.agreement, Vote.CONTINUE, None, None, None
        several = agreement.several_processes
        self.peers = agreement.peers()
        try:
            if (forcing := self.forcing) is not None and done < self.n:
                agreement.on_all(lambda: forcing.window(done, 1))
            if not done and self.due[:1] == (0,):
                problem = self._tried(self._look, 0, state)
            while done < self.n and not stop:
                later = bisect_right(self.due, done)
                target = self.due[later] if later < len(self.due) else self.n
                some, saving = self.loop.pace.chunk(target - done), 0
                if self.held:
                    some = min(some, self.held.most(done))
                if forcing is not None:
                    try:
                        records, some = forcing.window(done, some)
                    except Exception as error:
                        if not several or records is None:
                            raise
                        problem = error
                if self.held:
                    saving = self.held.vote(done + some)
                    problem = problem or self.held.problem
                vote = Vote.ERROR if problem else Vote.SIGNAL if self.interrupt.asked else Vote.CONTINUE
                if vote and not several:
                    break
                begin = time.perf_counter()
                state, decided = self._together(state, agreement.votes(some, saving, vote), records)
                count, save, stop = np.asarray(decided).tolist()
                self.loop.pace.measured(some, time.perf_counter() - begin)
                done += count
                if stop:
                    break
                if self.bar:
                    self.bar.move(done)
                if self.held and save < 2:
                    self.held.named()
                if done == target and later < len(self.due):
                    problem = self._tried(self._look, done, state)
                if self.held and (save == 1 or done == self.n):
                    problem = self._tried(self.held.save, done, state) or problem
            self.signal = self.interrupt.signal or (signal.SIGTERM if stop == Vote.SIGNAL else 0)
            if self.held and done < self.n and not (problem and not several):
                problem = self._tried(self.held.save, done, state) or problem
        finally:
            if self.bar:
                self.bar.close()
            if self.held and not several:
                unsaved = self.held.end()
        if self.held and several:
            unsaved = self.held.end()
        problem = problem or unsaved
        jax.effects_barrier()
        failed = agreement.any(problem is not None)
        if problem is not None:
            raise problem
        if failed or stop == Vote.ERROR:
            message = f"another process of this run ended with an error, after {done:,} of {self.n:,} steps."
            raise refuse("A48", message, "its own message says which.")
        return done, state

    def _tried(self, report: Callable[[int, Any], None], done: int, state: Any) -> Exception | None:
        """The error of a report, which on several processes all learn of before it is raised."""
        if not self.loop.agreement.several_processes:
            report(done, state)
            return None
        try:
            report(done, state)
        except Exception as problem:
            return problem
        return None

    def _together(self, state: Any, votes: Any, records: Records | None) -> tuple[Any, Any]:
        """A chunk of steps; raises A48 where another process is gone."""
        try:
            return jax.block_until_ready(self.loop.run(state, votes, further(self.inside), records))
        except jax.errors.JaxRuntimeError as problem:
            if not self.loop.agreement.several_processes:
                raise
            leave_without_others()
            message = f"{ended(self.peers)} of this run is gone: {str(problem).splitlines()[0]}"
            hint = "start it again, with checkpoint_dir=."
            if self.held and (names := self.held.names()):
                begin = f"it goes on from {names[-1]:,} steps in '{self.held.folder}'"
                hint = f"start it again, on any number of processes: {begin}."
            raise refuse("A48", message, hint) from None

    def _look(self, done: int, state: Any) -> None:
        if self.keep:
            agreement, moment = self.loop.agreement, self.clock.at(done)
            kept = agreement.on_all(lambda: self._kept(done, state))
            if not self.file:
                self.kept.append(left(kept))
                self.times.append(done)
            else:
                place, file = bisect_left(self.due, done), self.file
                snapshot, blocks = file.in_blocks(kept, moment, self.clock.units)
                agreement.on_all(lambda: file.write(place, snapshot, blocks) if agreement.leads else None)
                if blocks:
                    agreement.on_all(lambda: file.fill(place, blocks))
        if self.callback and done:
            self.callback(done, self._left(state, done))

    def _kept(self, done: int, state: Any) -> Any:
        assert self.keep is not None
        with explained():
            return apart(self.keep(self.clock.dated(whole(with_numbers(self.given, state)), done)))

    def _left(self, state: Any, done: int) -> Any:
        """The state for the caller, with the date after these steps."""
        return self.clock.dated(left(with_numbers(self.given, state), self.given), done)

    def ended(self, done: int, state: Any, on_interrupt: str) -> Any:
        """The result for the caller, or an exception that holds it."""
        last, kept = self._left(state, done), None
        if self.keep:
            times = [self.clock.at(t) for t in self.times]
            kept = self.file.opened() if self.file else dataset(self.kept, times, self.clock.units)
        if done < self.n:
            stopped = Interrupted(done, self.n, last, kept, self.signal)
            if on_interrupt == "raise":
                raise stopped
            warnings.warn(f"stopped after {done:,} of {self.n:,} steps", stacklevel=4)
        return (last, kept) if self.keep else last


@dataclass(eq=False)
class _Loop:
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
        """The numbers of the state after some steps, and what was decided; one program for any count of steps, in
        buffers that are reused.
        """
        kind = None if records is None else Kind(records)
        if kind not in self.programs:

            def run(carry: Any, votes: Any, coordinates: Any, records: Any) -> Any:
                decided = self.agreement.decided(votes)
                own = _on_numbers(self.step, with_numbers(self.model, carry, coordinates), records)
                carry = carry if records is None else (carry, 0)
                carry = rounds(own, self.several, carry, decided[0]).run(carry, steps, in_pairs=True)
                return (carry if records is None else carry[0]), decided

            with calls_of(None):
                self.programs[kind] = shared(run, carry, votes, coordinates, records, donate=True)
        with calls_of(None):
            return self.programs[kind](carry, votes, coordinates, records)


LOOPS: RecentCache[Any, _Loop] = RecentCache("time loops", 32)
"""The time loops that ran last, by the code of their step, what it reads outside, and the kind of state."""


def _loop_key(step: Callable[[Any], Any], state: Any) -> Any:
    return function_key(step), Kind(state)


def _checked_loop(step: Callable[..., Any], state: Any, *record: Any) -> _Loop:
    calls = _check(step, state, *record)
    arrays = [*numbers(state), *jax.tree_util.tree_leaves(values_read(step))]
    agreement = Agreement.of(arrays, calls[0].owner.mesh if calls else None)
    return _Loop(step, blank(state), agreement, placement_of(calls), several_steps_at_once(calls))


def _check(step: Callable[..., Any], state: Any, *record: Any) -> list[DistributedCall]:
    """The distributed programs that a step calls; it gives back what it got, in structure, dims, shapes and types."""
    before = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), state)
    calls: list[DistributedCall] = []
    with calls_of(calls):
        # of a distributed program results have no types that name axes of its mesh, and then the state has none
        given = jax.tree_util.tree_map(lambda x, kind: kind if names_axes(x) else x, state, before)
        jax.eval_shape(_digested(step), given, *record)
    return calls


def _in_order(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step as a function of a state of `Parts` that gives the numbers of the next one, in the order of these.

    Raises A20 where that has another structure, or other dims, labels, shapes or types.
    """
    if isinstance(step, jax.stages.Wrapped):
        compiled: Any = step  # the loop compiles it, and what JAX remembers of it would not be looked at again
        step = compiled.__wrapped__

    def ordered(parts: Any, *record: Any) -> list[Any]:
        state = whole(parts)
        with explained():
            after = step(state, *record)
        models, structure = jax.tree_util.tree_flatten(state, is_leaf=is_named)
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state, is_leaf=is_named)]
        try:
            subtrees = structure.flatten_up_to(after)
        except ValueError:
            raise _other_structure(after, state) from None
        made: list[Any] = []
        for path, model, x in zip(paths, models, subtrees, strict=True):
            made += carried(path, model, x) if is_named(model) else [_plain(path, model, x, after, state)]
        return made

    return ordered


def _plain(path: Any, model: Any, x: Any, after: Any, state: Any) -> Any:
    """An array without dims in the place of one."""
    x = x.data if is_named(x) and not is_labelled(x) else numbers(apart(x))[0] if is_labelled(x) else x
    if not jax.tree_util.all_leaves([x]):
        raise _other_structure(after, state)
    a, b = ((jnp.shape(v), jnp.result_type(v)) for v in (model, x))
    if a != b:
        where = jax.tree_util.keystr(path) or "the state"
        raise refuse(
            "A20", f"the step turns {where} from {a[1]}{list(a[0])} into {b[1]}{list(b[0])}.",
            "a step keeps shapes and types: ti.with_boundary keeps a domain, and .astype a type.",
        )  # fmt: skip
    return x


def _other_structure(after: Any, state: Any) -> Exception:
    got, wanted = (jax.tree_util.tree_structure(t, is_leaf=is_named) for t in (after, state))
    return refuse(
        "A20", f"the step returns {_words(got)}, and the state is {_words(wanted)}.",
        "return the next state in the structure of the one that it got.",
    )  # fmt: skip


def _words(structure: Any) -> str:
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")
