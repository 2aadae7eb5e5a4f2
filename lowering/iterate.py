"""Time stepping inside XLA: many steps as one program, with snapshots, and gradients at a stated memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import jax
from jax import lax

from lowering.tracing import inside_trace

__all__ = ["iterate"]

State = TypeVar("State")

REPORTS = 50
"""How often a callback without `every` is called."""


def iterate(
    step: Callable[[State], State],
    state: State,
    n: int,
    *,
    every: int | None = None,
    callback: Callable[[int, State], object] | None = None,
    checkpoint: bool = True,
) -> State:
    """The state after n steps; any pytree of arrays, and a step that keeps its structure.

    The steps run inside XLA, in buffers that are reused. `callback(k, state)` sees the state after every `every`
    steps (by default fifty times in all) and at the end. Inside of somebody's transformation there are no callbacks,
    and reverse mode keeps one state per √n steps, and √n more while it recomputes (`checkpoint=False`: all n).

    >>> import jax.numpy as jnp
    >>> iterate(lambda x: 0.5 * x, jnp.ones(2), 3)
    Array([0.125, 0.125], dtype=float32)
    """
    if inside_trace(jax.tree_util.tree_leaves(state)):
        return _nested(step, state, n) if checkpoint else _steps(step, state, n)
    with jax.enable_x64(True):
        chunk = every or (max(1, math.ceil(n / REPORTS)) if callback else max(1, n))
        state = jax.tree_util.tree_map(lambda x: jax.numpy.array(x, copy=True), state)
        run = jax.jit(lambda s: _steps(step, s, chunk), donate_argnums=0)
        done = 0
        while done + chunk <= n and chunk:
            state = run(state)
            done += chunk
            if callback:
                callback(done, state)
        if done < n:
            state = jax.jit(lambda s: _steps(step, s, n - done), donate_argnums=0)(state)
            if callback:
                callback(n, state)
        return state


def _steps(step: Callable[[State], State], state: State, n: int) -> State:
    return lax.fori_loop(0, n, lambda _, s: step(s), state)


def _nested(step: Callable[[State], State], state: State, n: int) -> State:
    """Square-root checkpointing: reverse mode keeps the state before each block, and recomputes inside of it."""
    block = max(1, math.isqrt(n))
    inner = jax.checkpoint(lambda s: _steps(jax.checkpoint(step), s, block))
    state, _ = lax.scan(lambda s, _: (inner(s), None), state, length=n // block)
    return _steps(jax.checkpoint(step), state, n % block)
