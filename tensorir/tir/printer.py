"""The text of TIR: `print_module`, `print_function`, and `show` for any node in a message.

>>> from tensorir.tir import parse
>>> module = parse('''
... @T.prim_func(s_tir=True)
... def main(A: T.Buffer((8,), "float32")):
...     for i in range(8):
...         A[i] = A[i] + 1.0
... ''')
>>> print(print_function(module.functions["main"]))
# from tvm.script import tirx as T
<BLANKLINE>
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = A[i] + T.float32(1.0)
<BLANKLINE>
"""

from __future__ import annotations

from typing import Literal

from tensorir.runtime.assembly import print_graph_function, print_graph_node
from tensorir.tir import nodes as n
from tensorir.tir.printing.expressions import ExpressionPrinter
from tensorir.tir.printing.functions import module_text, prim_func_text
from tensorir.tir.printing.names import Names
from tensorir.tir.printing.statements import StatementPrinter

__all__ = ["print_function", "print_module", "show"]

Dialect = Literal["new", "old"]


def print_module(module: n.IRModule, dialect: Dialect = "new") -> str:
    """The module as TVM 0.27 writes it, or ("old") as earlier versions read it."""
    return module_text(module, dialect == "old")


def print_function(function: n.Node, dialect: Dialect = "new") -> str:
    """One function alone."""
    if isinstance(function, n.PrimFunc):
        return prim_func_text(function, dialect == "old")
    return "\n".join([*print_graph_function("", function, dialect == "old"), ""])


def show(node: n.Node) -> str:
    """Any node as text, for messages and representations; names that nothing binds stand as they are."""
    match node:
        case n.IRModule():
            return print_module(node)
        case n.PrimFunc() | n.GraphFunction():
            return print_function(node)
        case n.GraphNode():
            return print_graph_node(node)
        case n.Stmt():
            writer = StatementPrinter(ExpressionPrinter(Names()), set())
            writer.suite(node)
            return "\n".join(writer.lines)
        case n.MatchBufferRegion(buffer, source):
            return f"{buffer.name} = T.match_buffer({show(source)})"
        case _:
            return ExpressionPrinter(Names()).attribute(node)
