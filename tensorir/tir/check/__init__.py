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

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import Diagnostic, DiagnosticError, raise_all, refuse
from tensorir.tir import nodes as n
from tensorir.tir.check.functions import check_function

__all__ = ["check"]

check_graph_function = ExtensionPoint("what is wrong with a function of Relax", "tensorir.relax.check", "check_relax")


def check(module: n.IRModule | n.PrimFunc | n.GraphFunction, hazards: bool = False) -> tuple[Diagnostic, ...]:
    """The notes on a module or a function; raises once, with every error, if there is one.

    With `hazards`, functions of known sizes that are well-formed are lifted, and what is proven wrong is an error too
    (TL10 to TL17: places outside of a buffer, races, barriers); what no lift says is left out.

    >>> import tensorir.tir as tir
    >>> module = tir.parse('''
    ... @T.prim_func
    ... def main(A: T.Buffer((4,), "float32")):
    ...     for i in T.parallel(4):
    ...         A[0] = T.Cast("float32", i)
    ... ''')
    >>> try:
    ...     check(module, hazards=True)
    ... except DiagnosticError as error:
    ...     print(error.diagnostics[0].message)
    two iterations of the parallel loop over i touch A[0].
    """
    match module:
        case n.IRModule():
            functions, whole = list(module.functions.values()), module
        case n.PrimFunc() | n.GraphFunction():
            functions, whole = [module], module.module or n.IRModule({module.name: module})
        case _:
            raise refuse("TA01", f"a module or a function is checked, and this is of type {type(module).__name__}.")
    found: list[Diagnostic] = []
    for function in functions:
        if isinstance(function, n.PrimFunc):
            found += check_function(function, whole)
        else:
            found += check_graph_function(function, whole)
    notes = raise_all(found)
    proven: list[Diagnostic] = []
    for function in functions if hazards else ():
        if isinstance(function, n.PrimFunc):
            proven += _proven(function)
    return (*notes, *raise_all(proven))


def _proven(function: n.PrimFunc) -> list[Diagnostic]:
    """The errors that the lift of a function proves."""
    from tensorir.tir.lift import lift

    try:
        lift(function)
    except DiagnosticError as caught:
        return [d for d in caught.diagnostics if d.code in HAZARDS]
    return []


HAZARDS = frozenset(f"TL{number}" for number in range(10, 18))
"""The codes of what a lift proves wrong."""
