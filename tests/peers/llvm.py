"""What TVM's LLVM build of a function computes: a second reading of the same text.

Two things of TVM 0.27 do not keep the numbers, and are gone around or known: its pass that lets loops start at 0 leaves
the loop's variable in the bounds of the loops inside, and its simplifier takes `(i + 2) % 12 * 12 + (i + 1) % 12` for
`(i + 2) % 12 * 13`. Where TVM alone says otherwise, look at both before the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorir.tir import nodes as n
from tensorir.tir.trees import substitute, transform

__all__ = ["computed"]


def computed(function: Any, arrays: Sequence[Any]) -> list[Any]:
    """The arrays after a call of what TVM builds of a function."""
    import tvm

    text = str(transform(function, _from_zero)).replace("@T.prim_func\n", "@T.prim_func(s_tir=True)\n")
    theirs = tvm.script.from_source(text).with_attr("global_symbol", "main")
    passed = [tvm.runtime.tensor(np.array(a)) for a in arrays]
    tvm.compile(tvm.IRModule({"main": theirs}), target="llvm")["main"](*passed)
    return [tensor.numpy() for tensor in passed]


def _from_zero(node: n.Node) -> n.Node | None:
    """A loop from 0 by 1 for one that starts elsewhere or has a step."""
    match node:
        case n.For(min=n.IntImm(0), step=None):
            return None
        case n.For(var, low, extent, step=step):
            by = n.IntImm(1, var.dtype) if step is None else step
            rounds = extent if step is None else n.FloorDiv(n.Add(extent, n.Sub(by, n.IntImm(1, var.dtype))), by)
            body = substitute(node.body, {var: n.Add(n.Mul(var, by), low)})
            return replace(node, min=n.IntImm(0, var.dtype), extent=rounds, step=None, body=body)
        case _:
            return None
