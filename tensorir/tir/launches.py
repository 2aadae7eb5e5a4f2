"""`T.call_ffi_kernel`, which `SplitHostDevice` puts in the place of a kernel: a call of a function of the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorir.tir import nodes as n

__all__ = ["launched"]


def launched(call: n.Call, module: n.IRModule | None) -> n.Call | None:
    """The call of the kernel that a launch names; None where the module has none of that name.

    What follows the kernel's arguments are the numbers of its blocks and threads, which its own text has too.
    """
    functions: Mapping[str, object] = {} if module is None else module.functions
    match call.op, call.args:
        case "call_ffi_kernel", (n.StringImm(name), *arguments) if isinstance(
            callee := functions.get(name), n.PrimFunc
        ):
            return replace(call, op=n.GlobalVar(name), args=tuple(arguments[: len(callee.params)]), attrs={})
        case _:
            return None
