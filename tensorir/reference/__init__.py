"""The oracle: programs interpreted point by point, one element at a time, in NumPy scalars.

It follows the sentences of `docs/language.md` and remembers what it computed; it does nothing else to be fast. What
is absent is a marker of its own beside the values, one per scalar leaf.

>>> import numpy as np
>>> from tensorir.ir.build import call, cartesian_shift, closure, fencil, var
>>> from tensorir.ir.types import tensor
>>> x, y = var("x", tensor("float", I=(0, 4))), var("y", tensor("float", I=(0, 3)))
>>> f = fencil("differences", [y, x], [closure(y, call("minus", cartesian_shift(x, "I", 1), x))])
>>> run(f, x=np.array([1.0, 2.0, 4.0, 8.0]))
{'y': array([1., 2., 4.])}
>>> sorted(trace(f, x=np.array([1.0, 2.0, 4.0, 8.0]))["x"])
[(0,), (1,), (2,), (3,)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorir.binding.calls import prepare_call, refuse_absent_outputs
from tensorir.reference.interpreter import Interpreter
from tensorir.reference.tensors import ABSENT, Outside
from tensorir.runtime.errors import Diagnostic, NoAttribute, refuse

__all__ = ["ABSENT", "Interpreter", "Outside", "backend", "run", "trace"]


def run(program: Any, /, **arguments: Any) -> dict[str, Any]:
    """Interprets a program: its outputs by name. Arguments are checked and results returned as in every call.

    Arrays of an accelerator come back as NumPy arrays.
    """
    prepared = prepare_call(program, arguments, lambda array: True)
    refuse_absent_outputs(prepared.fencil, prepared.holes, frozenset())
    interpreter = Interpreter(prepared.fencil, prepared.arrays)
    for closure in prepared.fencil.closures:
        interpreter.store(closure)
    return prepared.finish({p.name: tuple(interpreter.arrays[p.name]) for p in prepared.fencil.results})


def trace(program: Any, /, *, both: bool = False, **arguments: Any) -> dict[str, set[tuple[int, ...]]]:
    """The points of each argument that a run reads, as tuples of coordinates in the order of its dims.

    With `both`, `if` evaluates both branches. Elements that an earlier closure wrote are not counted.
    """
    prepared = prepare_call(program, arguments, lambda array: True)
    interpreter = Interpreter(prepared.fencil, prepared.arrays, both)
    for closure in prepared.fencil.closures:
        interpreter.store(closure)
    return {p.name: interpreter.run.reads.get(p.name, set()) for p in prepared.fencil.params}


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A program that the oracle runs."""

    program: Any

    def __call__(self, /, **arguments: Any) -> dict[str, Any]:
        return run(self.program, **arguments)

    def __getattr__(self, name: str) -> Any:
        """Raises A23 for attributes of compiled programs that the interpreter does not have."""
        if name.startswith("_"):
            raise AttributeError(name)
        message = f"the reference interprets programs, and has no '{name}' of them."
        raise NoAttribute(Diagnostic("A23", message, help=f"compile with XLA: ti.compile(f).{name}(...)."))


class Backend:
    """The oracle as a backend: `ti.compile(f, backend="reference")`."""

    name = "reference"

    def compile(self, program: Any, **options: Any) -> Interpreted:
        """The program as a function that interprets it; raises A23 for any option."""
        if options:
            message = f"the reference has no option {next(iter(options))!r}: there is nothing to choose."
            raise refuse("A23", message, "leave it out.")
        return Interpreted(program)


backend: Backend = Backend()
"""The oracle, for the entry-point group `tensorir.backends`."""
