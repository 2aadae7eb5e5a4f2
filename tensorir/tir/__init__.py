"""TIR, the tensor-level loop IR of TVM: read, check, print and interpret it, without TVM.

`parse` reads TVMScript text (never executing it) into the nodes of `tensorir.tir.nodes`; `str` of a module prints it.
"""

from __future__ import annotations

from tensorir.tir.nodes import IRModule, PrimFunc

__all__ = ["IRModule", "PrimFunc"]
