"""The interpreter: what a function of TIR (or of Relax) computes, statement by statement, without a compiler.

>>> import numpy as np
>>> import tensorir.tir as tir
>>> module = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
...     for i in range(4):
...         B[i] = A[i] * A[i]
... ''')
>>> interpret(module["main"], np.arange(4, dtype=np.int32), np.zeros(4, np.int32))[1]
array([0, 1, 4, 9], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import refuse
from tensorir.tir import nodes as n
from tensorir.tir.ill_formed import diagnosed
from tensorir.tir.interpret.arguments import give, take
from tensorir.tir.interpret.calls import invoke
from tensorir.tir.interpret.machine import CODE, Machine, deep
from tensorir.tir.interpret.values import KNOWN

__all__ = ["CODE", "KNOWN", "Arrays", "interpret"]

interpret_graph_function = ExtensionPoint(
    "what a function of Relax computes, operator by operator", "tensorir.relax.interpret", "run_function"
)


class Arrays(tuple[Any, ...]):
    """The arrays after a call; `watched` holds the intermediate buffers that were asked for, by name."""

    watched: dict[str, np.ndarray[Any, Any]]


def interpret(func: object, *arrays: object, checked: bool = False, watch: Iterable[str] = ()) -> Arrays:
    """The arrays after a call of the function: one per parameter, scalars included. Arguments are never changed.

    `checked` reports, with a witness, accesses out of bounds, races between iterations of parallel loops and threads,
    reads of elements that nobody wrote, accesses outside of declared regions, and integer division by zero. `watch`
    names intermediate buffers, which the result then has under `watched`. For Relax the result holds the returned
    values, tuples flattened.
    """
    if isinstance(func, n.IRModule):
        func = _only(func)
    machine = Machine(checked=checked, watch=frozenset(watch))
    with np.errstate(all="ignore"):
        if isinstance(func, n.PrimFunc):
            machine.module = func.module or n.IRModule({func.name: func})
            with diagnosed(func):
                return deep(lambda: _run(machine, func, arrays))
        if isinstance(func, n.GraphFunction):
            result = Arrays(deep(lambda: interpret_graph_function(machine, func, arrays)))
            result.watched = {}
            return result
    raise refuse("TA01", f"a function of TIR or Relax is interpreted, and this is of type {type(func).__name__}.")


def _only(module: n.IRModule) -> n.PrimFunc | Any:
    names = [name for name in module.functions if name == "main"] or list(module.functions)
    if len(names) != 1:
        message = f"the module has {len(names)} functions; take one of them: {', '.join(names)}."
        raise refuse("TA01", message, at=module.span)
    return module[names[0]]


def _run(machine: Machine, func: n.PrimFunc, arrays: tuple[object, ...]) -> Arrays:
    values = take(func, arrays)
    watched: dict[str, np.ndarray[Any, Any]] = {}
    machine.watched = {}
    invoke(machine, func, values, func.span)
    for name, view in machine.watched.items():
        watched[name] = give(view)
    result = Arrays(give(v.view) if hasattr(v, "view") and v.__class__.__name__ == "Pointer" else v for v in values)
    result.watched = watched
    return result
