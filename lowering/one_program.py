"""A function of trees of arrays that XLA runs as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lowering.host_results import on_host
from lowering.tracing import inside_trace, op_by_op

__all__ = ["one_program"]


def one_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled whole: 64-bit types are kept, and NumPy arrays give NumPy arrays.

    Inside of somebody's transformation it is that function.
    """
    compiled = jax.jit(function)

    def run(*trees: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(trees)
        if inside_trace(leaves) or op_by_op():
            return compiled(*trees)
        with jax.enable_x64(True):
            found = compiled(*trees)
        host = all(isinstance(a, np.ndarray) for a in leaves)
        return jax.tree_util.tree_map(on_host, found) if host else found

    return run
