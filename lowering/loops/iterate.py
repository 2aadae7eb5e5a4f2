"""Time stepping inside XLA: many steps as one program, with snapshots, a bar, and stated memory for gradients."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from numbers import Number
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
from lowering.loops.forcing import METHODS, Forcing
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
from tensorir.runtime.errors import article, refuse

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
    """n steps compiled by XLA; the arguments are those of `ti.iterate`, where each is described.

    A loop is compiled once for a step, the values it captures, and a kind of state (`ti.config.caches`). Within a
    transformation of JAX there are no callbacks and no bar, snapshots are stacked along a first axis, and a forcing is
    whole in memory. A repeated call without forcing, reports, checkpoints and dates skips all analysis (`AGAIN`).

    >>> import jax.numpy as jnp
    >>> iterate(lambda x: 0.5 * x, jnp.ones(2), 3)
    Array([0.125, 0.125], dtype=float32)
    >>> last, kept = iterate(lambda s: {"x": s["x"] / 2}, {"x": jnp.ones(2)}, 4, every=2, keep=True, dt=0.5)
    >>> kept["x"].values.tolist(), kept["time"].values.tolist()
    ([[1.0, 1.0], [0.25, 0.25], [0.0625, 0.0625]], [0.0, 1.0, 2.0])
    """
    _check_options(n, forcing_method, callback, keep, checkpoint, progress, to, checkpoint_dir, on_interrupt)
    if not keep and to is not None:
        raise refuse("A31", "nothing is kept that could be written.", "say what: keep=True.")
    if keep and to is None and checkpoint_dir is not None:
        raise refuse("A31", "what is kept would be lost with the process.", 'write it: to="run.nc".')
    clock = clock_of(dt, start, state, n)
    leaves, tree = jax.tree_util.tree_flatten(state, is_leaf=is_named)
    arrays = list(map(data_of, leaves))
    needs_no_reports = forcing is None and callback is None and not keep and every is None and checkpoint_dir is None
    key = leaves_key(leaves, arrays) if needs_no_reports and clock.start is None and not tracing() else None
    key = None if key is None else (getattr(step, "__code__", None) or id(step), tree, key)
    repeated_loop = None if key is None else AGAIN.get(key)
    if repeated_loop is not None and repeated_loop.reads == function_key(step):
        put = lambda some: tree.unflatten(map(relabelled, leaves, hosted(some, arrays)))
        with jax.enable_x64(True), interrupts() as interrupt:
            carry = [jnp.array(x, copy=True) for x in arrays]
            run = Run(repeated_loop.loop, n, (), None, None, clock, None, None, None, None, interrupt, put=put)
            run.show(progress)
            return run.ended(*run.advance(0, carry), on_interrupt)
    _refuse_others(state)
    due = _reported_steps(every, clock, n)
    labels = _labels(state) if checkpoint_dir is not None else ""
    forcing_on_clock = None if forcing is None else Forcing.on_clock(forcing, forcing_method, clock, n)
    record = () if forcing_on_clock is None else (with_numbers(forcing_on_clock.model, forcing_on_clock.first),)
    labelled, state = state, state if clock.start is None else labelled_arrays(_without_date, state)
    state, like = _with_files_read(step, state, *record)
    initial = with_numbers(entered(labelled, by_block=True), numbers(like))
    keep_function = (lambda s: s) if keep is True else keep or None
    if inside_trace(jax.tree_util.tree_leaves((state, record))):
        if distributed_calls := calls_in(step, state, *record):
            mesh = distributed_calls[0].owner.mesh
            state = jax.tree_util.tree_map(lambda x: left_to_xla(jnp.asarray(x), mesh), state)
        steps_at_once = several_steps_at_once(distributed_calls)
        loop = LoopInside(step, n, steps_at_once, due, keep_function, checkpoint)
        functions = [f for f in (step, keep_function) if f is not None]
        records = None if forcing_on_clock is None else forcing_on_clock.records(n)
        loop_kind = lambda: tuple([loop_key(f, (state, records)) for f in functions])
        result = loop.run_compiled(state, records, loop_kind, functions)
        if keep_function is None:
            return clock.dated(whole(result), n)
        final_state, kept = result
        if any(map(is_parts, jax.tree_util.tree_leaves(kept, is_leaf=is_parts))):
            times = [clock.at(k) for k in due]
            record_templates = [np.broadcast_to(np.zeros((), x.dtype), x.shape[1:]) for x in numbers(kept)]
            first = whole(with_numbers(kept, record_templates, [x[0] for x in further(kept)]))
            kept = stacked_dataset(first, numbers(kept), times, clock.units)
        return clock.dated(whole(final_state), n), kept
    with jax.enable_x64(True), interrupts() as interrupt:
        state = with_numbers(state, [left_to_xla(jnp.array(x, copy=True)) for x in numbers(state)])
        loop = LOOPS.of(loop_key(step, (state, record)), lambda: checked_loop(step, state, *record))
        forcing_on_clock = None if forcing_on_clock is None else replace(forcing_on_clock, placement=loop.placement)
        checkpoints: Checkpoints | None = None
        if checkpoint_dir is not None:
            with calls_of(None), alone():
                facts = {"step": digest_of_function(on_parts(step), state, *record), "labels": labels}
            facts |= {} if forcing_on_clock is None else {"forcing": forcing_on_clock.digest(loop.agreement)}
            facts |= {"dt": str(clock.step), "start": str(clock.start)}
            every_is_a_number = every is None or isinstance(every, (int, np.integer))
            if not every_is_a_number:
                facts["every"] = str(every)
            facts["keep"] = str(bool(keep))
            if keep_function and keep is not True:
                facts["keep"] = digest_of_function(lambda parts: numbers(apart(keep_function(whole(parts)))), state)
            source = source_of(step)
            checkpoints = Checkpoints(checkpoint_dir, numbers(state), facts, loop.agreement, checkpoint_every, source)
            checkpoints.every = None if not keep or every is None else int(every) if every_is_a_number else 1
        try:
            resumed = checkpoints.resumed(n) if checkpoints else None
            if checkpoints and keep and every is None:
                checkpoints.every = checkpoints.every or _default_interval(n)
                due = _reported_steps(checkpoints.every, clock, n)
            done, carry = resumed or (0, numbers(state))
            reported = due if callback or keep else ()
            run = Run(
                loop, n, reported, callback, keep_function, clock, initial, state, checkpoints, forcing_on_clock,
                interrupt,
            )  # fmt: skip
            if checkpoints and not resumed:
                checkpoints.save(0, carry)
            if to is not None:
                leads = loop.agreement.leads  # who writes the file finds out if it may
                run.file = Snapshots(to, resumed is not None or not leads, done if leads else 0)
            run.show(progress)
            result = run.ended(*run.advance(done, carry), on_interrupt)
            if key is not None and loop.placement is None and not loop.agreement.devices:
                AGAIN.put(key, Again(loop, function_key(step), attributes_of(dict(enumerate(leaves)))))
            return result
        finally:
            if checkpoints:
                checkpoints.close()


def _check_options(
    n: Any, forcing_method: Any, callback: Any, keep: Any, checkpoint: Any, progress: Any, to: Any,
    checkpoint_dir: Any, on_interrupt: Any,
) -> None:  # fmt: skip
    """Raise A19 for options of `iterate` whose value is none of those that they may have."""
    bools = (bool, np.bool_)
    counts = [
        (hasattr(x, "__index__") or isinstance(x, (float, np.floating))) and 0 <= x < math.inf and int(x) == x
        for x in (n, checkpoint)
    ]
    rules = (
        ("forcing_method", forcing_method, forcing_method in METHODS, 'it is "linear" or "held".'),
        ("callback", callback, callback is None or callable(callback), "give a function of a number and a state."),
        ("keep", keep, keep is None or isinstance(keep, bools) or callable(keep), "give True, or a function."),
        ("checkpoint", checkpoint, counts[1] or isinstance(checkpoint, bools),
         "it says what gradients keep: True, False, or levels; checkpoint_dir= names a folder to go on from."),
        ("progress", progress, progress is None or isinstance(progress, bools), "give True or False."),
        ("to", to, to is None or isinstance(to, (str, os.PathLike)), "give a path."),
        ("checkpoint_dir", checkpoint_dir, checkpoint_dir is None or isinstance(checkpoint_dir, (str, os.PathLike)),
         "give a path."),
        ("on_interrupt", on_interrupt, on_interrupt in ("raise", "return"), 'it is "raise" or "return".'),
    )  # fmt: skip
    if isinstance(n, bools) or not counts[0]:
        raise refuse("A19", f"n is {n!r}, which is no number of steps.", "give 0 or more.")
    for name, value, is_right, hint in rules:
        if not is_right:
            raise refuse("A19", f"{name} is {value!r}.", hint)


def _refuse_others(state: Any) -> None:
    """Raise A20 for a leaf of a state that is neither an array nor a number: a text, or an object."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(state, is_leaf=is_named):
        if is_named(leaf) or isinstance(leaf, Number | jax.Array):
            continue
        kind = getattr(leaf, "dtype", None)
        if kind is None or getattr(kind, "kind", "") in tuple("USOMm"):
            where = f"{jax.tree_util.keystr(path)} of the state" if path else "the state"
            held = f"is {article(type(leaf).__name__)}" if kind is None else f"holds {kind}"
            message = f"{where} {held}, and a state is made of arrays and numbers."
            raise refuse("A20", message, "leave it out, and read it in the step.")


def _with_files_read(step: Callable[..., Any], state: Any, *record: Any) -> tuple[Any, Any]:
    """The `Parts` of a state with its files read, and parts whose array types results should have.

    If the step calls a distributed program, each device's block is read by its own process only.
    """
    parts = entered(state, by_block=True)
    arrays_or_files, axes = numbers(parts), names_of_axes(parts)
    if not any(isinstance(x, Unread) for x in arrays_or_files):
        return parts, parts
    with jax.enable_x64(True):
        placement = None if tracing() else placement_of(calls_in(step, blank(parts), *record))
        if placement is None:
            parts = entered(state)
            return parts, parts
        arrays = [
            placement.read(x, d) if isinstance(x, Unread) else x for x, d in zip(arrays_or_files, axes, strict=True)
        ]
        blanks = numbers(blank(parts))
    # in one process results are arrays of NumPy, as those of files that are read whole
    returns_numpy = [
        isinstance(x, Unread) and y.is_fully_addressable for x, y in zip(arrays_or_files, arrays, strict=True)
    ]
    like = [b if h else x for h, b, x in zip(returns_numpy, blanks, arrays, strict=True)]
    return with_numbers(parts, arrays), with_numbers(parts, like)


def _without_date(x: Any) -> Any:
    """An array of the state without the scalar coordinate `time`, which changes with the steps."""
    return x.drop_vars("time") if "time" in x.coords and not x.coords["time"].dims else x


def _default_interval(n: int) -> int:
    """After how many steps something is reported where the caller does not say it."""
    return max(1, math.ceil(n / REPORTS))


def _reported_steps(every: Any, clock: Clock, n: int) -> tuple[int, ...]:
    """The steps after which something is reported; if `every` makes them regular, the last step, too."""
    due = due_steps(_default_interval(n) if every is None else every, clock, n)
    return tuple(due) if not isinstance(due, range) else (*due, *([] if n in due else [n]))


def _labels(state: Any) -> str:
    """A digest of a state's coordinates, without a scalar date, which is the start of the clock."""
    coordinates: dict[str, Any] = {}

    def look(x: Any) -> Any:
        """Enter the coordinates of one array, which is returned unchanged."""
        coordinates.update({f"{n}{c.dims}": c.values for n, c in x.coords.items() if c.dims or n != "time"})
        return x

    labelled_arrays(look, state)
    return digest_of_arrays(list(coordinates), coordinates.values())


def loop_plan(step: Callable[..., Any], state: Any, *record: Any) -> Any:
    """The plan of a step on a state: its kernels, and the operations left to XLA; nothing is computed.

    `record`: one record of a forcing, if the step takes it.
    """
    with jax.enable_x64(True), calls_of(None):
        parts = entered(state)
        entries = tuple(map(entered, record))
        run = lambda xs: in_order(step)(with_numbers(parts, xs), *map(whole, entries))
        return plan_of_steps(run, [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in numbers(parts)])
