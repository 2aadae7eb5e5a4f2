"""The checker: whether a module is well-formed, by TIR's typing rules.

`check` looks at every function once, gathers all that is wrong, and raises once. What those rules forbid but TVM
accepts, and prints itself, is a note.

>>> import tensorir.tir as tir
>>> module = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32")):
...     for i in range(4):
...         A[i + 4] = T.float32(0)
... ''')
>>> check(module)
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: <tir>:5:11: error[TC60]: index 0 of 'A' is 4 to 7, outside of its 4 elements.
...
"""

from __future__ import annotations

from tensorir.runtime.assembly import check_graph_function
from tensorir.runtime.errors import Diagnostic, DiagnosticError, raise_all
from tensorir.tir import nodes as n
from tensorir.tir.check.functions import check_function

__all__ = ["check"]


def check(module: n.IRModule | n.PrimFunc | n.GraphFunction) -> tuple[Diagnostic, ...]:
    """The notes on a module or a function; raises once, with every error, if there is one."""
    match module:
        case n.IRModule():
            functions, whole = list(module.functions.values()), module
        case n.PrimFunc() | n.GraphFunction():
            functions, whole = [module], module.module or n.IRModule({module.name: module})
        case _:
            message = f"a module or a function is checked, and this is of type {type(module).__name__}."
            raise DiagnosticError(Diagnostic("TA01", message))
    found: list[Diagnostic] = []
    for function in functions:
        if isinstance(function, n.PrimFunc):
            found += check_function(function, whole)
        else:
            found += check_graph_function(function, whole)
    return raise_all(found)
