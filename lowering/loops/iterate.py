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

import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.calls.executable import asked
from lowering.distribution.distributed import DistributedCall, calls_of, rounds, several_steps_at_once
from lowering.distribution.meshes import on_host
from lowering.field import Field
from lowering.kernels import repeated
from lowering.loops.forcing import Forcing, Records
from lowering.loops.progress import Bar, is_shown
from lowering.loops.snapshots import Checkpoints, Clock, Snapshots, clock_of, digest_of_arrays, digest_of_function
from lowering.loops.states import KnownCoordinates, dataset, entered, known_to, labelled_arrays, uneven_labels
from lowering.tracing import concrete, inside_jit, inside_trace, left_to_xla, names_axes, op_by_op
from tensorir.binding.arrays import refuse
from tensorir.binding.labels import UNSTEADY
from tensorir.fieldview.closure_fingerprint import closure_fingerprint, values_read
from tensorir.ir.types import Dims
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


# Many steps inside of somebody's transformation: loops that reverse mode goes back through at a stated memory.
#
# Under `jax.jit` they are a part of what is compiled. Gradients and batches that nobody compiles run operation by
# operation; there a loop is a program of its own, compiled once for a step, what it reads outside and a kind of
# state.

TRANSFORMED_LOOPS: RecentCache[Any, Callable[..., Any]] = RecentCache("time loops of gradients and batches", 32)
"""Those that ran last outside of `jax.jit`."""


@dataclass(frozen=True, slots=True)
class LoopInside:
    """A loop of n steps; what `keep` gives after every `every` steps is stacked."""

    step: Callable[[Any], Any]
    n: int
    several: int
    every: int
    keep: Callable[[Any], Any] | None
    checkpoint: bool | int

    def run(self, state: Any, known: KnownCoordinates, records: Records | None) -> Any:
        """The state after all steps, and with `keep` a pair."""
        step, keep = _advancing(self.step, records), self.keep
        with known_to(known), calls_of(None):
            if records is None:
                return _traced(step, state, self.n, self.several, self.every, keep, self.checkpoint)
            own = None if keep is None else lambda counted: keep(counted[0])
            last = _traced(step, (state, 0), self.n, self.several, self.every, own, self.checkpoint)
            return last[0] if keep is None else (last[0][0], last[1])

    def run_compiled(
        self, state: Any, known: KnownCoordinates, records: Records | None, kind: Callable[[], Any],
        functions: Sequence[Callable[..., Any]],
    ) -> Any:  # fmt: skip
        """The same as a program of its own, where nobody compiles what is around it.

        `kind` tells the step, what it reads outside and the state apart from others. Where `functions`, those of the
        caller, read what is differentiated or batched from outside, the loop is compiled at every call. XLA is given no
        options of the programs in it: JAX takes none of what is differentiated backward.
        """
        outside = [x for f in functions for x in jax.tree_util.tree_leaves(values_read(f))]
        if inside_jit() or op_by_op() or not all(map(concrete, outside)):
            return self.run(state, known, records)
        key = kind(), self.n, self.several, self.every, self.checkpoint
        return TRANSFORMED_LOOPS.of(key, lambda: jax.jit(self.run))(state, known, records)


def _advancing(step: Callable[..., Any], records: Records | None) -> Callable[[Any], Any]:
    """The step as a function of what a loop carries: with a forcing the state, and how many steps are done."""
    if records is None:
        return step
    return lambda counted: (step(counted[0], records.at(counted[1])), counted[1] + 1)


def _traced(
    step: Callable[[Any], Any],
    state: Any,
    n: int,
    several: int,
    every: int,
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
    first = keep(state)

    def some(s: Any, _: Any) -> Any:
        s = advance(step, s, every)
        return s, keep(s)

    state, rest = lax.scan(jax.checkpoint(some) if checkpoint else some, state, length=n // every)
    parts = [jax.tree_util.tree_map(lambda x: jnp.asarray(x)[None], first), rest]
    if n % every:
        state = advance(step, state, n % every)
        parts.append(jax.tree_util.tree_map(lambda x: jnp.asarray(x)[None], keep(state)))
    # only the arrays: a Field with an axis more would contradict its dims
    leaves = zip(*map(jax.tree_util.tree_leaves, parts), strict=True)
    stacked = [jnp.concatenate(some) for some in leaves]
    return state, jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(first), stacked)


def steps(step: Callable[[Any], Any], state: Any, n: int) -> Any:
    """The state after n steps, a number that may be traced."""
    if jax.default_backend() == "gpu":
        return repeated(step, state, n)
    return lax.fori_loop(0, n, lambda _, s: step(s), state)


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
    every: int | None = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Callable[[Any], Any] | bool = False,
    dt: Any = 1,
    start: Any = None,
    checkpoint: bool | int = True,
    progress: bool | None = None,
    to: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
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
    for name, count, least in (("n", n, 0), ("every", every, 1)):
        if count is not None and (isinstance(count, bool) or int(count) != count or count < least):
            raise refuse("A19", f"{name} is {count!r}, which is no number of steps.", f"give {least} or more.")
    uneven = uneven_labels(state)
    if on_interrupt not in ("raise", "return"):
        raise refuse("A19", f"on_interrupt is {on_interrupt!r}.", 'it is "raise" or "return".')
    if not keep and to is not None:
        raise refuse("A31", "nothing is kept that could be written.", "say what: keep=True.")
    if keep and to is None and checkpoint_dir is not None:
        raise refuse("A31", "what is kept would be lost with the process.", 'write it: to="run.nc".')
    clock = clock_of(dt, start, state, n)
    labels = _labels(state) if checkpoint_dir is not None else ""
    forced = None if forcing is None else Forcing.on_clock(forcing, forcing_method, clock, n)
    if forced is None:
        state, known, leave = entered(state)
        record = ()
    else:
        (state, one), known, leave = _entered_with(state, forced)
        record = (one,)
    dims = tuple(x.dims for x in jax.tree_util.tree_leaves(record, is_leaf=lambda x: isinstance(x, Field)))
    chosen = (lambda s: s) if keep is True else keep or None
    with known_to(known):
        if inside_trace(jax.tree_util.tree_leaves((state, record))):
            if calls := _check(step, state, *record):
                mesh = calls[0].owner.mesh
                state = jax.tree_util.tree_map(lambda x: left_to_xla(jnp.asarray(x), mesh), state)
            several = several_steps_at_once(calls)
            loop = LoopInside(_in_order(step), n, several, every or _often(n), chosen, checkpoint)
            functions = [f for f in (step, chosen) if f is not None]
            records = None if forced is None else forced.records(dims, n)
            kind = lambda: tuple([_loop_key(f, (state, known, records)) for f in functions])
            return loop.run_compiled(state, known, records, kind, functions)
        with jax.enable_x64(True):
            state = jax.tree_util.tree_map(lambda x: left_to_xla(jnp.array(x, copy=True)), state)
            loop = LOOPS.of(_loop_key(step, (state, known, record)), lambda: _checked_loop(step, state, *record))
            if uneven:
                token = UNSTEADY.set(uneven)
                try:
                    _check(lambda *s: step(*s), state, *record)  # a function of its own: JAX remembers what it traced
                finally:
                    UNSTEADY.reset(token)
            held: Checkpoints | None = None
            if checkpoint_dir is not None:
                with calls_of(None):
                    facts = {"step": digest_of_function(_in_order(step), state, *record), "labels": labels}
                facts |= {} if forced is None else {"forcing": forced.digest()}
                facts |= {"dt": str(clock.step), "start": str(clock.start)}
                facts["keep"] = digest_of_function(chosen, state) if chosen and keep is not True else str(bool(keep))
                held = Checkpoints(checkpoint_dir, state, facts)
                held.every = every if keep else None
            found = held.resumed(n) if held else None
            if held and keep and every is None:
                held.every = every = held.every or _often(n)
            done, state = found or (0, state)
            run = _Run(loop, n, every, callback, chosen, clock, leave, known, held, forced, dims)
            if held and not found:
                held.save(0, state)
            if to is not None:
                run.file = Snapshots(to, found is not None, done)
            if is_shown(progress):
                run.bar = Bar(n, patience=0.0 if progress else 0.5)
            return run.ended(*run.advance(done, state), on_interrupt)


class _Given(NamedTuple):
    """The arguments of a loop with a forcing, whose labels meet."""

    state: Any
    forcing: Any = None


def _entered_with(state: Any, forcing: Forcing) -> tuple[_Given, KnownCoordinates, Callable[..., Any]]:
    """The state and a record of the forcing as `entered` gives them, and the way back of the state."""
    given, known, leave_both = entered(_Given(state, forcing.first))
    (at, _), *_ = jax.tree_util.tree_leaves_with_path(_Given(0))

    def leave(result: Any, own_paths: Mapping[Any, Any] | None = None) -> Any:
        paths = None if own_paths is None else {(*at, *p): (*at, *own) for p, own in own_paths.items()}
        return leave_both(_Given(result), paths).state

    return given, known, leave


def _often(n: int) -> int:
    """After how many steps something is reported where the caller does not say it."""
    return max(1, math.ceil(n / REPORTS))


def _labels(state: Any) -> str:
    """The key of a state's coordinates; a date without dims is the start of the clock."""
    found: dict[str, Any] = {}

    def look(x: Any) -> Any:
        found.update({f"{n}{c.dims}": c.values for n, c in x.coords.items() if c.dims or n != "time"})
        return x

    labelled_arrays(look, state)
    return digest_of_arrays(list(found), found.values())


@dataclass(eq=False)
class _Run:
    """One run of a loop: chunks of steps, and what is done between them."""

    loop: _Loop
    n: int
    every: int | None
    callback: Callable[[int, Any], object] | None
    keep: Callable[[Any], Any] | None
    clock: Clock
    leave: Callable[..., Any]
    known: KnownCoordinates
    """The coordinates of the state, which no step changes."""
    held: Checkpoints | None
    forcing: Forcing | None
    dims: tuple[Dims, ...]
    """Of a record of the forcing, on the axes of the state."""
    file: Snapshots | None = None
    bar: Bar | None = None
    kept: list[Any] = field(default_factory=list[Any])
    times: list[int] = field(default_factory=list[int])
    signal: int = 0

    def advance(self, done: int, state: Any) -> tuple[int, Any]:
        """The steps that are left, or those until the user stops them."""
        often = self.every or (_often(self.n) if self.callback or self.keep else max(1, self.n))
        if not done:
            self._look(0, often, state)
        try:
            with interrupts() as interrupt:
                while done < self.n and not interrupt.asked:
                    target = min(done - done % often + often, self.n)
                    some, records = self.loop.pace.chunk(target - done), None
                    if self.forcing is not None:
                        records, some = self.forcing.window(self.dims, done, some)
                    begin = time.perf_counter()
                    state = jax.block_until_ready(self.loop.run(state, some, self.known, records))
                    self.loop.pace.measured(some, time.perf_counter() - begin)
                    done += some
                    if self.bar:
                        self.bar.move(done)
                    if done == target:
                        self._look(done, often, state)
                    if self.held and (self.held.due() or done == self.n):
                        self.held.save(done, state)
                self.signal = interrupt.signal
        finally:
            if self.bar:
                self.bar.close()
        if self.held and done < self.n:
            self.held.save(done, state)
        jax.effects_barrier()
        return done, state

    def _look(self, done: int, often: int, state: Any) -> None:
        if self.keep:
            chosen = self.keep(state)
            origin = {id(x): path for path, x in _wholes(state)}
            own = {path: origin[id(x)] for path, x in _wholes(chosen) if id(x) in origin}
            now = self.leave(jax.tree_util.tree_map(on_host, chosen), own)
            if self.file:
                self.file.write(-(-done // often), dataset([now], [self.clock.at(done)], self.clock.units))
            else:
                self.kept.append(now)
                self.times.append(done)
        if self.callback and done:
            self.callback(done, self.clock.dated(self.leave(state), done))

    def ended(self, done: int, state: Any, on_interrupt: str) -> Any:
        """The result for the caller, or an exception that holds it."""
        last, kept = self.clock.dated(self.leave(state), done), None
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

    step: Callable[[Any], Any]
    several: int = 0
    """How many steps a distributed program takes at once, if there is one in the step."""
    options: dict[str, str] | None = None
    """What the programs of the step ask XLA for."""
    pace: Pace = field(default_factory=Pace)
    compiled: Any = None

    def run(self, state: Any, some: int, known: KnownCoordinates, records: Records | None) -> Any:
        """Some steps; one program for any number of them, in buffers that are reused."""
        if self.compiled is None:
            step, several = _in_order(self.step), self.several

            def run(state: Any, some: Any, known: Any, records: Any) -> Any:
                own = _advancing(step, records)
                state = state if records is None else (state, 0)
                with known_to(known):
                    state = rounds(own, several, state, some).run(state, steps, in_pairs=True)
                return state if records is None else state[0]

            self.compiled = jax.jit(run, donate_argnums=0, compiler_options=self.options)
        with calls_of(None):
            return self.compiled(state, np.int32(some), known, records)


LOOPS: RecentCache[Any, _Loop] = RecentCache("time loops", 32)
"""The time loops that ran last, by the code of their step, what it reads outside, and the kind of state."""


def _loop_key(step: Callable[[Any], Any], state: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(state)
    code = step.__code__ if isinstance(step, FunctionType) else None
    kinds = tuple([(x.shape, x.dtype) for x in leaves])
    return code, closure_fingerprint(step, () if code else (step,)), structure, kinds


def _checked_loop(step: Callable[..., Any], state: Any, *record: Any) -> _Loop:
    with asked() as options:
        several = several_steps_at_once(_check(step, state, *record))
    return _Loop(step, several, options or None)


def _check(step: Callable[..., Any], state: Any, *record: Any) -> list[DistributedCall]:
    """The distributed programs that a step calls; it gives back what it got, in structure, dims, shapes and types."""
    before = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), state)
    calls: list[DistributedCall] = []
    with calls_of(calls):
        # of a distributed program results have no types that name axes of its mesh, and then the state has none
        given = jax.tree_util.tree_map(lambda x, kind: kind if names_axes(x) else x, state, before)
        after = jax.eval_shape(_in_order(step), given, *record)
    for (path, a), (other, b) in zip(*(_wholes(t) for t in (before, after)), strict=False):
        if path == other and isinstance(a, Field) and isinstance(b, Field) and a.dims != b.dims:
            where = jax.tree_util.keystr(path) or "the state"
            hint = "a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."
            raise refuse("A20", f"the step turns {where} from {a.dims} into {b.dims}.", hint)
    wanted, got = (jax.tree_util.tree_structure(t) for t in (before, after))
    if wanted != got:
        raise refuse(
            "A20", f"the step returns {_words(got)}, and the state is {_words(wanted)}.",
            "return the next state in the structure of the one that it got.",
        )  # fmt: skip
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree_util.tree_leaves(after), strict=True)
    for (path, a), b in pairs:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            where = jax.tree_util.keystr(path) or "the state"
            raise refuse(
                "A20", f"the step turns {where} from {a.dtype}{list(a.shape)} into {b.dtype}{list(b.shape)}.",
                "a step keeps shapes and types: ti.with_boundary keeps a domain, and .astype a type.",
            )  # fmt: skip
    return calls


def _in_order(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step with its Fields transposed to the axes of those that it got, where they have the same names."""
    if isinstance(step, jax.stages.Wrapped):
        compiled: Any = step  # the loop compiles it, and what JAX remembers of it would not be looked at again
        step = compiled.__wrapped__

    def ordered(state: Any, *record: Any) -> Any:
        wanted = {path: x.dims for path, x in _wholes(state) if isinstance(x, Field)}

        def transposed(path: Any, x: Any) -> Any:
            dims = wanted.get(path)
            if not isinstance(x, Field) or dims is None or x.dims != dims:
                return x
            order = [x.dims.names.index(n) for n in dims.names]
            return x if order == sorted(order) else Field(x.data.transpose(order), dims)

        return jax.tree_util.tree_map_with_path(
            transposed, step(state, *record), is_leaf=lambda x: isinstance(x, Field)
        )

    return ordered


def _wholes(state: Any) -> Any:
    return jax.tree_util.tree_leaves_with_path(state, is_leaf=lambda x: isinstance(x, Field))


def _words(structure: Any) -> str:
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")
