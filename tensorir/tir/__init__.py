"""TIR, the tensor-level loop IR of TVM: read, check, print and interpret it, without TVM.

`parse` reads TVMScript text (never executing it) into the nodes of `tensorir.tir.nodes`; `str` of a module prints it.

>>> module = parse('''
... @T.prim_func
... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
...     for i in T.serial(8):
...         with T.sblock("copy"):
...             vi = T.axis.spatial(8, i)
...             B[vi] = A[vi]
... ''')
>>> module["main"].body.block.body.body.block.reads
(A[vi],)
>>> parse(str(module)) == module
True
"""

from __future__ import annotations

from tensorir.tir.check import check
from tensorir.tir.interpret import interpret
from tensorir.tir.nodes import IRModule, PrimFunc
from tensorir.tir.printer import print_function, print_module
from tensorir.tir.read import T, parse, parse_fragment, prim_func
from tensorir.tir.trees import retype

__all__ = [
    "IRModule",
    "PrimFunc",
    "T",
    "check",
    "interpret",
    "parse",
    "parse_fragment",
    "prim_func",
    "print_function",
    "print_module",
    "retype",
]
