"""What programs ask XLA's compiler for, and the compilations of several programs that can tell it.

XLA takes options for what is compiled whole. A program that is called by itself is; one that runs inside of a
`jax.jit` only asks, while it is traced, and whoever compiles may listen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax

from lowering.tracing import op_by_op

__all__ = ["BARRIERS_STAY", "ask", "asked", "compiler_options", "jitted", "remembering"]

BARRIERS_STAY = {"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}
"""The one takes the barriers away that keep what is stored from being computed again, and what gradients compute again
from being stored; the other makes of short loops code that may hold no barrier."""

ASKED: ContextVar[dict[str, str] | None] = ContextVar("options that traced programs ask for", default=None)
"""Those of the trace that is listened to."""


def ask(options: Mapping[str, str]) -> None:
    """Ask for options, where somebody listens."""
    heard = ASKED.get()
    if heard is not None:
        heard.update(options)


@contextmanager
def asked() -> Iterator[dict[str, str]]:
    """What is asked for in here; whoever listens outside hears it too."""
    heard: dict[str, str] = {}
    token = ASKED.set(heard)
    try:
        yield heard
    finally:
        ASKED.reset(token)
        ask(heard)


def remembering(traced: Callable[..., Any]) -> Callable[..., Any]:
    """A function that JAX traces once: it asks each time for what its first trace asked for."""
    remembered: dict[str, str] = {}

    def run(*arguments: Any) -> Any:
        with asked() as heard:
            ask(remembered)
            found = traced(*arguments)
        remembered.update(heard)
        return found

    return run


def compiler_options(function: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """What the programs that a function calls ask XLA for: `jax.jit(function, compiler_options=...)` grants it.

    The function is traced, and nothing is computed; its arguments are arrays, or what stands for them. On CPUs programs
    that store a temporary ask that it stays stored, which they tell XLA when they are called by themselves, as
    `ti.iterate`, `ti.distribute` and recorded steps do; inside of somebody's `jit` they cannot.

    >>> compiler_options(lambda x: x + 1, 1.0)
    {}
    """
    with jax.enable_x64(True), asked() as heard:
        # a function of its own: JAX remembers what it traced, and nobody would ask again
        jax.eval_shape(lambda *a: function(*a), *arguments)
    return heard


def jitted(function: Callable[..., Any], *examples: Any, **options: Any) -> Any:
    """A function compiled whole, with what its programs ask for; it is traced on the examples first."""
    with asked() as heard:
        if not op_by_op():
            jax.eval_shape(function, *examples)
    return jax.jit(function, compiler_options=heard or None, **options)
