"""A function of trees of arrays that XLA runs as one program, made of parts that stay apart in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from lowering.compiler_options import BARRIERS_STAY, ask, jitted, remembering
from lowering.host_results import on_host
from lowering.tracing import inside_trace, op_by_op
from tensorir.runtime.memory import KEPT_MEMORY

__all__ = ["one_program", "part"]


def one_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled whole: 64-bit types are kept, and NumPy arrays give NumPy arrays.

    Inside of somebody's transformation it is that function.
    """
    inside = jax.jit(function)
    by_itself: list[Any] = []

    def run(*trees: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(trees)
        if jax.default_backend() == "cpu":
            # gradients keep about as much as all fields are, in one block
            KEPT_MEMORY.expect(sum(a.size * a.dtype.itemsize for a in leaves if hasattr(a, "dtype")), arrays=1)
        if inside_trace(leaves) or op_by_op():
            return inside(*trees)
        with jax.enable_x64(True):
            if not by_itself:
                by_itself.append(jitted(function, *trees))
            found = by_itself[0](*trees)
        host = all(isinstance(a, np.ndarray) for a in leaves if hasattr(a, "dtype"))
        return jax.tree_util.tree_map(on_host, found) if host else found

    return remembering(run)


def part(function: Callable[..., Any], checkpoint: bool) -> Callable[..., Any]:
    """A function of trees of arrays that is not mixed with what is around it, and neither is its gradient.

    XLA's fusions on the CPU compute again what several others read: across the programs of a weather model one fusion
    of hundreds of operations took most of the gradient, which is four times as fast without it. With `checkpoint`
    gradients compute again what is inside, and keep what goes in.
    """

    def apart(*trees: Any) -> Any:
        if jax.default_backend() != "cpu":
            return function(*trees)
        if checkpoint:
            ask(BARRIERS_STAY)  # or XLA takes what is computed again for what was computed before, and keeps it
        with set_xla_metadata(inlineable="false"):
            return function(*trees)

    return remembering(jax.checkpoint(apart)) if checkpoint else apart
