"""Many steps inside of somebody's transformation: loops that reverse mode goes back through at a stated memory.

Under `jax.jit` they are a part of what is compiled. Gradients and batches that nobody compiles run operation by
operation; there a loop is a program of its own, compiled once for a step, what it reads outside and a kind of state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.distribution.distributed import calls_of, rounds
from lowering.kernels import repeated
from lowering.known_coordinates import KnownCoordinates, known_to
from lowering.tracing import concrete, inside_jit, op_by_op
from tensorir.fieldview.closure_fingerprint import values_read
from tensorir.runtime.memory import RecentCache

__all__ = ["LoopInside", "steps"]

LOOPS: RecentCache[Any, Callable[..., Any]] = RecentCache("time loops of gradients and batches", 32)
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

    def run(self, state: Any, known: KnownCoordinates) -> Any:
        """The state after all steps, and with `keep` a pair."""
        with known_to(known), calls_of(None):
            return _traced(self.step, state, self.n, self.several, self.every, self.keep, self.checkpoint)

    def run_compiled(
        self, state: Any, known: KnownCoordinates, kind: Callable[[], Any],
        functions: Sequence[Callable[..., Any]],
    ) -> Any:  # fmt: skip
        """The same as a program of its own, where nobody compiles what is around it.

        `kind` tells the step, what it reads outside and the state apart from others. Where `functions`, those of the
        caller, read what is differentiated or batched from outside, the loop is compiled at every call. XLA is given no
        options of the programs in it: JAX takes none of what is differentiated backward.
        """
        outside = [x for f in functions for x in jax.tree_util.tree_leaves(values_read(f))]
        if inside_jit() or op_by_op() or not all(map(concrete, outside)):
            return self.run(state, known)
        key = kind(), self.n, self.several, self.every, self.checkpoint
        return LOOPS.of(key, lambda: jax.jit(self.run))(state, known)


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

    def advance(step: Callable[[Any], Any], state: Any, n: int) -> Any:
        for some, count in rounds(step, several, state, n):
            if count:
                state = _nested(some, state, count, levels) if levels else steps(some, state, count)
        return state

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
