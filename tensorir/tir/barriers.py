"""Barriers of kernels: who waits at `T.tvm_storage_sync(scope)`.

TVM puts one of scope "warp" between the steps of a reduction by the threads of a warp, also where a condition leaves
out others; CUDA needs nothing there, or `__syncwarp`.
"""

from __future__ import annotations

from tensorir.tir import nodes as n

__all__ = ["awaits_block"]


def awaits_block(call: n.Call) -> bool:
    """Whether all threads of a block wait for each other at a barrier, and not only those of a warp."""
    return not (call.args and call.args[0] == n.StringImm("warp"))
