"""One run of a time loop: chunks of steps, what is done between them, and how it ends.

A run ends after its last step, when it is asked to stop, or with an error; of several processes all end after the same
step.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]  # `signal` makes an enum of every handler
import atexit
import os
import signal
import sys
import threading
import time
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import jax
import numpy as np

from lowering.labelled import apart, explained, further, whole, with_numbers
from lowering.loops.agreement import Vote, lost_processes
from lowering.loops.checkpoints import Checkpoints
from lowering.loops.clock import Clock
from lowering.loops.datasets import dataset
from lowering.loops.forcing import Forcing, Records
from lowering.loops.progress import Bar, is_shown
from lowering.loops.snapshots import Snapshots
from lowering.loops.states import left
from lowering.loops.stepping import Loop
from tensorir.runtime.errors import Interrupted, leave, refuse


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
    """Within the context Ctrl-C and SIGTERM are noted in `Interrupt` for the next chunk, so that no state is lost; a
    second one stops at once.

    Only handlers that nobody else has set are replaced, and only in the main thread, which alone gets signals.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        """Note the signal; the second one raises KeyboardInterrupt."""
        if interrupt.asked:
            raise KeyboardInterrupt
        interrupt.signal = number

    # where somebody else handles a signal, they know why
    default_handlers: dict[int, tuple[Any, ...]] = {
        signal.SIGINT: (signal.default_int_handler,), signal.SIGTERM: (signal.SIG_DFL, leave)
    }  # fmt: skip
    replaced_handlers: dict[int, Any] = {}
    for number, defaults in default_handlers.items():
        if (handler := _signal.getsignal(number)) in defaults:
            replaced_handlers[number] = handler
            _signal.signal(number, note)
    try:
        yield interrupt
    finally:
        for number, handler in replaced_handlers.items():
            _signal.signal(number, handler)


def leave_without_others() -> None:
    """Register an exit of this process without JAX's, which would wait for processes that are gone."""

    def leave() -> None:
        """Flush the streams and end at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(75)  # a temporary failure, in the words of sysexits

    atexit.register(leave)


@dataclass(eq=False)
class Run:
    """One run of a loop: chunks of steps, and what is done between them."""

    loop: Loop
    n: int
    due: tuple[int, ...]
    """The steps after which something is reported, in ascending order."""
    callback: Callable[[int, Any], object] | None
    keep: Callable[[Any], Any] | None
    clock: Clock
    initial: Any
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
    put: Callable[[list[Any]], Any] | None = None
    """Puts numbers on the labels of the state at the start, where these are not those of `initial`."""

    def show(self, wanted: bool | None) -> None:
        """Draw a bar where one is wanted, or somebody would see it."""
        if is_shown(wanted) and self.loop.agreement.leads:
            self.bar = Bar(self.n, patience=0.0 if wanted else 0.5)

    def advance(self, done: int, state: Any) -> tuple[int, Any]:
        """Run the steps after `done`, in chunks, until n, a stop or an error; returns the steps done and the state's
        arrays.

        Between chunks all processes agree on the next one, snapshots and callbacks are due, and checkpoints are saved.
        Raises the error of this process, or A48 for that of another one, after the checkpoint in progress is complete.
        """
        agreement, stop, problem, records, checkpoint_problem = self.loop.agreement, Vote.CONTINUE, None, None, None
        several_processes = agreement.several_processes
        self.peers = agreement.peers()
        try:
            if (forcing := self.forcing) is not None and done < self.n:
                agreement.on_all(lambda: forcing.window(done, 1))
            if not done and self.due[:1] == (0,):
                problem = self._tried(self._look, 0, state)
            while done < self.n and not stop:
                next_due = bisect_right(self.due, done)
                target = self.due[next_due] if next_due < len(self.due) else self.n
                steps, saving = self.loop.pace.chunk(target - done), 0
                if self.held:
                    steps = min(steps, self.held.most(done))
                if forcing is not None:
                    try:
                        records, steps = forcing.window(done, steps)
                    except Exception as error:
                        if not several_processes or records is None:
                            raise
                        problem = error
                if self.held:
                    saving = self.held.vote(done + steps)
                    problem = problem or self.held.problem
                vote = Vote.ERROR if problem else Vote.SIGNAL if self.interrupt.asked else Vote.CONTINUE
                if vote and not several_processes:
                    break
                begin = time.perf_counter()
                state, decided = self._together(state, agreement.votes(steps, saving, vote), records)
                count, save, stop = np.asarray(decided).tolist()
                self.loop.pace.measured(steps, time.perf_counter() - begin)
                done += count
                if stop:
                    break
                if self.bar:
                    self.bar.move(done)
                if self.held and save < 2:
                    self.held.named()
                if done == target and next_due < len(self.due):
                    problem = self._tried(self._look, done, state)
                if self.held and (save == 1 or done == self.n):
                    problem = self._tried(self.held.save, done, state) or problem
            self.signal = self.interrupt.signal or (signal.SIGTERM if stop == Vote.SIGNAL else 0)
            if self.held and done < self.n and not (problem and not several_processes):
                problem = self._tried(self.held.save, done, state) or problem
        finally:
            if self.bar:
                self.bar.close()
            if self.held and not several_processes:
                checkpoint_problem = self.held.end()
        if self.held and several_processes:
            checkpoint_problem = self.held.end()
        problem = problem or checkpoint_problem
        jax.effects_barrier()
        failed = agreement.any(problem is not None)
        if problem is not None:
            raise problem
        if failed or stop == Vote.ERROR:
            message = f"another process of this run ended with an error, after {done:,} of {self.n:,} steps."
            raise refuse("A48", message, "its own message says which.")
        return done, state

    def _tried(self, report: Callable[[int, Any], None], done: int, state: Any) -> Exception | None:
        """Call a report; on several processes its error is returned, so that all learn of it before it is raised."""
        if not self.loop.agreement.several_processes:
            report(done, state)
            return None
        try:
            report(done, state)
        except Exception as problem:
            return problem
        return None

    def _together(self, state: Any, votes: Any, records: Records | None) -> tuple[Any, Any]:
        """Run a chunk of steps on all processes; returns the state and the decision of all votes. Raises A48 if a
        process is gone.
        """
        try:
            return jax.block_until_ready(self.loop.run(state, votes, further(self.inside), records))
        except jax.errors.JaxRuntimeError as problem:
            if not self.loop.agreement.several_processes:
                raise
            leave_without_others()
            message = f"{lost_processes(self.peers)} of this run is gone: {str(problem).splitlines()[0]}"
            hint = "start it again, with checkpoint_dir=."
            if self.held and (names := self.held.names()):
                begin = f"it goes on from {names[-1]:,} steps in '{self.held.folder}'"
                hint = f"start it again, on any number of processes: {begin}."
            raise refuse("A48", message, hint) from None

    def _look(self, done: int, state: Any) -> None:
        """Keep a snapshot, in memory or in the file, and call the callback."""
        if self.keep:
            agreement, moment = self.loop.agreement, self.clock.at(done)
            snapshot_parts = agreement.on_all(lambda: self._kept(done, state))
            if not self.file:
                self.kept.append(left(snapshot_parts))
                self.times.append(done)
            else:
                place, file = bisect_left(self.due, done), self.file
                snapshot, blocks = file.in_blocks(snapshot_parts, moment, self.clock.units)
                agreement.on_all(lambda: file.write(place, snapshot, blocks) if agreement.leads else None)
                if blocks:
                    agreement.on_all(lambda: file.fill(place, blocks))
        if self.callback and done:
            self.callback(done, self._left(state, done))

    def _kept(self, done: int, state: Any) -> Any:
        """The `Parts` that the caller's `keep` makes of the dated state."""
        assert self.keep is not None
        with explained():
            return apart(self.keep(self.clock.dated(whole(with_numbers(self.initial, state)), done)))

    def _left(self, state: Any, done: int) -> Any:
        """The state for the caller, with the date after these steps."""
        if self.put is not None:
            return self.put(state)
        return self.clock.dated(left(with_numbers(self.initial, state), self.initial), done)

    def ended(self, done: int, state: Any, on_interrupt: str) -> Any:
        """The result for the caller: the state, with `keep` a pair of it and the snapshots; raises Interrupted if
        steps are left.

        `on_interrupt`: "raise", or "return" to warn instead.
        """
        final_state, snapshots = self._left(state, done), None
        if self.keep:
            times = [self.clock.at(t) for t in self.times]
            snapshots = self.file.opened() if self.file else dataset(self.kept, times, self.clock.units)
        if done < self.n:
            stopped = Interrupted(done, self.n, final_state, snapshots, self.signal)
            if on_interrupt == "raise":
                raise stopped
            warnings.warn(f"stopped after {done:,} of {self.n:,} steps", stacklevel=4)
        return (final_state, snapshots) if self.keep else final_state
