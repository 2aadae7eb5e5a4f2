"""The atomic updates of TIR, by the names of builtins and of the libraries that kernels call."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.builtins import builtin_of

__all__ = ["ATOMICS", "as_builtin", "is_atomic"]

ATOMICS = {"atomic_add": "Add", "atomic_max": "Max", "atomic_min": "Min", "atomic_store": ""}
"""By builtin, how the old value and the operand make the new one; nothing where only the operand does."""


def as_builtin(call: n.Call) -> n.Call:
    """The builtin that a call of a library's function is."""
    known = builtin_of(call)
    return known if isinstance(known, n.Call) else call


def is_atomic(node: n.Node) -> bool:
    """Whether a node updates memory atomically."""
    return isinstance(node, n.Call) and as_builtin(node).op in ATOMICS
