"""Time stepping inside XLA: many steps as one program, with snapshots, and gradients at a stated memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.field import Field
from lowering.progress import Bar, is_shown
from lowering.tracing import inside_trace
from lowering.xarray_states import dataset, entered, uneven_labels
from tensorir.arrays import refuse
from tensorir.caches import RecentCache
from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tensorir.labels import UNSTEADY

__all__ = ["iterate"]

REPORTS = 50
"""How often a callback without `every` is called, a progress bar moved, and a state kept."""


def iterate(
    step: Callable[[Any], Any],
    state: Any,
    n: int,
    *,
    every: int | None = None,
    callback: Callable[[int, Any], object] | None = None,
    keep: Callable[[Any], Any] | bool = False,
    dt: float = 1,
    checkpoint: bool | int = True,
    progress: bool | None = None,
) -> Any:
    """The state after n steps: any pytree of arrays, Fields and DataArrays, and a step that keeps its structure.

    The steps run inside XLA, in buffers that are reused; `step` sees DataArrays as Fields, and a Dataset as a dict of
    them. What came as NumPy or xarray comes back as such. A loop is compiled once for a step, what it reads outside,
    and a kind of state (`ti.caches`). `callback(k, state)` sees
    the state after every `every` steps (by default fifty times in all) and at the end. With `keep` the result is a
    pair: the state, and what `keep(state)` gives (`True`: the state itself) at the start, after every `every` steps
    and at the end, as a Dataset along `time`, which is dt times the number of steps; fields on different intervals
    are NaN where they are not. A progress bar is drawn on terminals and in notebooks if it takes a while
    (`progress=False`: never, `True`: always).

    Inside of somebody's transformation there are no callbacks and no bar, and what is kept is stacked along a first
    axis. Reverse mode then keeps one state per √n steps, and √n more while it recomputes; with `checkpoint=3` it keeps
    about 3 ∛n in all and computes once more, and so on; with `checkpoint=False` it keeps what all n steps need.

    Raises A19 for n or every that are no counts, and A20 for a step that returns another structure or other types.

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
    state, leave = entered(state)
    chosen = (lambda s: s) if keep is True else keep or None
    if inside_trace(jax.tree_util.tree_leaves(state)):
        _check(step, state)
        return _traced(step, state, n, every or max(1, math.ceil(n / REPORTS)), chosen, checkpoint)
    with jax.enable_x64(True):
        state = jax.tree_util.tree_map(lambda x: jnp.array(x, copy=True), state)
        loop = LOOPS.of(_loop_key(step, state), lambda: _checked_loop(step, state))
        if uneven:
            token = UNSTEADY.set(uneven)
            try:
                _check(lambda s: step(s), state)  # a function of its own: JAX remembers what it traced
            finally:
                UNSTEADY.reset(token)
        chunk = every or (max(1, math.ceil(n / REPORTS)) if callback or chosen else max(1, n))
        bar = Bar(n) if is_shown(progress) else None
        if bar and progress:
            bar.patience = 0.0
        kept, times, done = [], [], 0

        def look() -> None:
            if chosen:
                kept.append(jax.tree_util.tree_map(lambda x: jnp.array(x, copy=True), chosen(state)))
                times.append(done)
            if callback and done:
                callback(done, leave(state))

        look()
        while done < n:
            some = min(chunk, n - done)
            state = loop.run(state, some, done, n, bar)
            done += some
            look()
        if bar:
            jax.block_until_ready(state)
            jax.effects_barrier()
            bar.close()
        last = leave(state)
        return (last, dataset([leave(k) for k in kept], [dt * t for t in times])) if chosen else last


@dataclass(eq=False)
class _Loop:
    """The programs of one step on one kind of state; a bar is drawn by whoever runs it at the moment."""

    step: Callable[[Any], Any]
    compiled: RecentCache[tuple[int, int], Any] = field(default_factory=lambda: RecentCache("chunks of time loops", 16))
    bar: Bar | None = None

    def run(self, state: Any, some: int, before: int, n: int, bar: Bar | None) -> Any:
        """Some steps of n, of which so many were done before."""
        often = 0 if bar is None else max(1, n // REPORTS)
        self.bar = bar
        chunk = self.compiled.of((some, often), lambda: jax.jit(self._chunk(some, often), donate_argnums=0))
        return chunk(state, before)

    def _chunk(self, some: int, often: int) -> Callable[[Any, Any], Any]:
        step, known = self.step, weakref.ref(self)

        def move(done: Any) -> None:
            loop = known()
            if loop is not None and loop.bar is not None:
                loop.bar.move(done)

        def chunk(state: Any, before: Any) -> Any:
            return _reported(step, state, some, before, often, move) if often else _steps(step, state, some)

        return chunk


LOOPS: RecentCache[Any, _Loop] = RecentCache("time loops", 32)
"""The time loops that ran last, by the code of their step, what it reads outside, and the kind of state."""


def _loop_key(step: Callable[[Any], Any], state: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(state)
    code = step.__code__ if isinstance(step, FunctionType) else None
    kinds = tuple([(x.shape, x.dtype) for x in leaves])
    return code, closure_fingerprint(step, () if code else (step,)), structure, kinds


def _checked_loop(step: Callable[[Any], Any], state: Any) -> _Loop:
    _check(step, state)
    return _Loop(step)


def _check(step: Callable[[Any], Any], state: Any) -> None:
    """A step must give back what it got, in structure, dims, shapes and types."""
    before = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), state)
    after = jax.eval_shape(step, state)
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


def _wholes(state: Any) -> Any:
    return jax.tree_util.tree_leaves_with_path(state, is_leaf=lambda x: isinstance(x, Field))


def _words(structure: Any) -> str:
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


def _reported(
    step: Callable[[Any], Any], state: Any, some: int, before: Any, often: int, move: Callable[[Any], None]
) -> Any:
    """Some steps, and a word to the bar now and then from inside of XLA."""

    def one(k: Any, s: Any) -> Any:
        s = step(s)
        at = before + k + 1
        lax.cond(at % often == 0, lambda: jax.debug.callback(move, at), lambda: None)
        return s

    return lax.fori_loop(0, some, one, state)


def _traced(
    step: Callable[[Any], Any], state: Any, n: int, every: int, keep: Callable[[Any], Any] | None, checkpoint: bool
) -> Any:
    levels = 2 if checkpoint is True else int(checkpoint)

    def advance(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        return _nested(step, state, n, levels) if levels else _steps(step, state, n)

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


def _steps(step: Callable[[Any], Any], state: Any, n: int) -> Any:
    return lax.fori_loop(0, n, lambda _, s: step(s), state)


def _nested(step: Callable[[Any], Any], state: Any, n: int, levels: int) -> Any:
    """Blocks of steps, themselves in blocks: reverse mode keeps the state before each, and recomputes inside of it."""
    if levels < 2 or n < 4:
        return _steps(jax.checkpoint(step), state, n)
    block = max(1, round(n ** ((levels - 1) / levels)))
    inner = jax.checkpoint(lambda s: _nested(step, s, block, levels - 1))
    state, _ = lax.scan(lambda s, _: (inner(s), None), state, length=n // block)
    return _steps(jax.checkpoint(step), state, n % block)
