"""Functions of TIR with other data types: the same text for another precision.

>>> from tensorir.tir.read import parse
>>> module = parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
...     for i in range(4):
...         B[i] = A[i] * T.float32(2)
... ''')
>>> function = retype(module, float32="float64")["main"]
>>> [str(b.dtype) for b in function.buffer_map.values()]
['float64', 'float64']
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tensorir.runtime.errors import Diagnostic, DiagnosticError
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import DataType
from tensorir.tir.walk import transform

__all__ = ["retype"]

F = TypeVar("F", n.IRModule, n.PrimFunc)


def retype(program: F, /, **types: str) -> F:
    """A module or a function in which every `old="new"` data type is replaced: buffers, values, constants and casts.

    Raises TA08 for a name that is no data type.
    """
    wanted: dict[DataType, DataType] = {}
    for old, new in types.items():
        try:
            wanted[DataType.parse(old)] = DataType.parse(new)
        except ValueError as found:
            raise DiagnosticError(Diagnostic("TA08", f"{found}.", help="write float32='float64'.")) from None

    def other(dtype: DataType) -> DataType:
        new = wanted.get(dtype.element)
        return dtype if new is None else new.with_lanes(dtype.lanes)

    def of_type(kind: n.Type) -> n.Type:
        match kind:
            case n.PrimType(dtype):
                return n.PrimType(other(dtype))
            case n.PointerType(element, scope) if element is not None:
                return n.PointerType(of_type(element), scope)
            case _:
                return kind

    def rule(node: n.Node) -> n.Node | None:
        match node:
            case n.Var(name, kind, span):
                new = of_type(kind)
                return None if new == kind else n.Var(name, new, span)
            case n.Buffer() | n.FloatImm() | n.IntImm() | n.Cast() | n.Call() | n.Allocate() | n.AllocateConst():
                new = other(node.dtype)
                return None if new == node.dtype else replace(node, dtype=new)
            case _:
                return None

    changed = transform(program, rule)
    if isinstance(changed, n.PrimFunc) and changed.module is not None:
        module = transform(changed.module, rule)
        return replace(changed, module=module)
    return changed
