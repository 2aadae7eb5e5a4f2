"""Time stepping inside XLA: many steps as one program, with snapshots, a bar, and stated memory for gradients."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.distribution.distributed import alone, calls_of, placement_of, several_steps_at_once
from lowering.kernels import plan_of_steps
from lowering.labelled import (
    apart,
    blank,
    data_of,
    further,
    is_named,
    is_parts,
    leaves_key,
    names_of_axes,
    numbers,
    relabelled,
    whole,
    with_numbers,
)
from lowering.loops.checkpoints import Checkpoints, digest_of_arrays, digest_of_function, source_of
from lowering.loops.clock import Clock, clock_of, due_steps
from lowering.loops.datasets import stacked_dataset
from lowering.loops.forcing import Forcing
from lowering.loops.run import Run, interrupts
from lowering.loops.snapshots import Snapshots
from lowering.loops.states import entered, hosted, labelled_arrays
from lowering.loops.stepping import (
    AGAIN,
    LOOPS,
    Again,
    LoopInside,
    calls_in,
    checked_loop,
    in_order,
    loop_key,
    on_parts,
)
from lowering.tracing import inside_trace, left_to_xla, tracing
from tensorir.binding.arrays import Unread
from tensorir.binding.repeated import attributes_of
from tensorir.fieldview.closure_fingerprint import function_key
from tensorir.runtime.errors import refuse

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

    A loop is compiled once for a step, what it reads outside, and a kind of state (`ti.config.caches`). Inside of a
    transformation of JAX there are no callbacks and no bar, what is kept is stacked along a first axis, and a forcing
    is whole in memory.

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
    leaves, tree = jax.tree_util.tree_flatten(state, is_leaf=is_named)
    arrays = list(map(data_of, leaves))
    short = forcing is None and callback is None and not keep and every is None and checkpoint_dir is None
    key = leaves_key(leaves, arrays) if short and clock.start is None and not tracing() else None
    key = None if key is None else (getattr(step, "__code__", None) or id(step), tree, key)
    again = None if key is None else AGAIN.get(key)
    if again is not None and again.reads == function_key(step):
        put = lambda some: tree.unflatten(map(relabelled, leaves, hosted(some, arrays)))
        with jax.enable_x64(True), interrupts() as interrupt:
            carry = [jnp.array(x, copy=True) for x in arrays]
            run = Run(again.loop, n, (), None, None, clock, None, None, None, None, interrupt, put=put)
            run.show(progress)
            return run.ended(*run.advance(0, carry), on_interrupt)
    due = _due(every, clock, n)
    labels = _labels(state) if checkpoint_dir is not None else ""
    forced = None if forcing is None else Forcing.on_clock(forcing, forcing_method, clock, n)
    record = () if forced is None else (with_numbers(forced.model, forced.first),)
    labelled, state = state, state if clock.start is None else labelled_arrays(_without_date, state)
    state, like = _read(step, state, *record)
    initial = with_numbers(entered(labelled, by_block=True), numbers(like))
    chosen = (lambda s: s) if keep is True else keep or None
    if inside_trace(jax.tree_util.tree_leaves((state, record))):
        if calls := calls_in(step, state, *record):
            mesh = calls[0].owner.mesh
            state = jax.tree_util.tree_map(lambda x: left_to_xla(jnp.asarray(x), mesh), state)
        several = several_steps_at_once(calls)
        loop = LoopInside(step, n, several, due, chosen, checkpoint)
        functions = [f for f in (step, chosen) if f is not None]
        records = None if forced is None else forced.records(n)
        kind = lambda: tuple([loop_key(f, (state, records)) for f in functions])
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
        loop = LOOPS.of(loop_key(step, (state, record)), lambda: checked_loop(step, state, *record))
        forced = None if forced is None else replace(forced, placement=loop.placement)
        held: Checkpoints | None = None
        if checkpoint_dir is not None:
            with calls_of(None), alone():
                facts = {"step": digest_of_function(on_parts(step), state, *record), "labels": labels}
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
            run = Run(loop, n, reported, callback, chosen, clock, initial, state, held, forced, interrupt)
            if held and not resumed:
                held.save(0, carry)
            if to is not None:
                leads = loop.agreement.leads  # who writes the file finds out if it may
                run.file = Snapshots(to, resumed is not None or not leads, done if leads else 0)
            run.show(progress)
            result = run.ended(*run.advance(done, carry), on_interrupt)
            if key is not None and loop.placement is None and not loop.agreement.devices:
                AGAIN.put(key, Again(loop, function_key(step), attributes_of(dict(enumerate(leaves)))))
            return result
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
        blocks = None if tracing() else placement_of(calls_in(step, blank(parts), *record))
        if blocks is None:
            parts = entered(state)
            return parts, parts
        arrays = [blocks.read(x, d) if isinstance(x, Unread) else x for x, d in zip(some, axes, strict=True)]
        blanks = numbers(blank(parts))
    # in one process results are arrays of NumPy, as those of files that are read whole
    host = [isinstance(x, Unread) and y.is_fully_addressable for x, y in zip(some, arrays, strict=True)]
    like = [b if h else x for h, b, x in zip(host, blanks, arrays, strict=True)]
    return with_numbers(parts, arrays), with_numbers(parts, like)


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
    coordinates: dict[str, Any] = {}

    def look(x: Any) -> Any:
        coordinates.update({f"{n}{c.dims}": c.values for n, c in x.coords.items() if c.dims or n != "time"})
        return x

    labelled_arrays(look, state)
    return digest_of_arrays(list(coordinates), coordinates.values())


def loop_plan(step: Callable[..., Any], state: Any, *record: Any) -> Any:
    """The kernels of a step of a state, and what of it is left to XLA."""
    with jax.enable_x64(True), calls_of(None):
        parts = entered(state)
        entries = tuple(map(entered, record))
        run = lambda xs: in_order(step)(with_numbers(parts, xs), *map(whole, entries))
        return plan_of_steps(run, [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in numbers(parts)])
