"""The oracle: programs interpreted point by point, one element at a time, in NumPy scalars.

It follows the sentences of `docs/language.md` and remembers what it computed; it does nothing else to be fast. What
is absent is a marker of its own beside the values, one per scalar leaf.

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.binding.calls import nested, prepare_call, refuse_absent_outputs
from tensorir.ir.nodes import Closure, Expr, Fencil, Var
from tensorir.ir.types import DTYPES
from tensorir.reference.rules import RULES
from tensorir.reference.tensors import (
    ABSENT,
    Answer,
    Outside,
    Point,
    Run,
    Scope,
    Tensor,
    Value,
    any_absent,
    ask,
    leaves_of,
    points,
)
from tensorir.runtime.errors import Diagnostic, NoAttribute, refuse

__all__ = ["ABSENT", "Interpreter", "Outside", "backend", "run", "trace"]


def run(program: Any, /, **arguments: Any) -> dict[str, Any]:
    """The outputs of a program, by name: arguments are checked, and results come back, as in every call.

    Arrays of an accelerator come back as NumPy arrays.
    """
    ready = prepare_call(program, arguments, lambda array: True)
    refuse_absent_outputs(ready.fencil, ready.holes, frozenset())
    interpreter = Interpreter(ready.fencil, ready.arrays)
    for closure in ready.fencil.closures:
        interpreter.store(closure)
    return ready.finish({p.name: tuple(interpreter.arrays[p.name]) for p in ready.fencil.results})


def trace(program: Any, /, *, both: bool = False, **arguments: Any) -> dict[str, set[tuple[int, ...]]]:
    """The points of the arguments that are read: by parameter, coordinates in the order of its dims.

    With `both`, `if` reads what both of its branches do. Elements that a closure wrote before are not counted.
    """
    ready = prepare_call(program, arguments, lambda array: True)
    interpreter = Interpreter(ready.fencil, ready.arrays, both)
    for closure in ready.fencil.closures:
        interpreter.store(closure)
    return {p.name: interpreter.run.reads.get(p.name, set()) for p in ready.fencil.params}


class Interpreter:
    """A fencil and what its parameters hold: expressions can be asked at points, closures stored.

    Parameters that are not passed hold zeros, which are read by nobody before they are written.
    """

    def __init__(self, fencil: Fencil, arrays: Mapping[str, tuple[Any, ...]], both: bool = False) -> None:
        self.fencil = fencil
        self.run: Run = Run(RULES, both)
        written = {p.name for p in fencil.outputs}
        self.arrays: dict[str, list[np.ndarray]] = {}
        self.stored: dict[str, set[tuple[int, ...]]] = {name: set() for name in written}
        for p in fencil.params:
            if p.name in arrays:
                given = [np.asarray(a) for a in arrays[p.name]]
                self.arrays[p.name] = [np.array(a) for a in given] if p.name in written else given
            else:
                self.arrays[p.name] = [np.zeros(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves]

    def scope(self) -> Scope:
        """The parameters with what they hold now."""
        return Scope(self.run, {p: _Stored(self, p) for p in self.fencil.params})

    def at(self, node: Expr, point: Point) -> Value:
        """The value of an expression at a point: a NumPy scalar, ABSENT, or a tuple of them.

        Raises `Outside` where it, or what it needs, has no value.
        """
        with np.errstate(all="ignore"):
            return ask(self.scope().tensor(node), point)

    def store(self, closure: Closure) -> None:
        """Put the value of a closure into its output; everything is computed before anything is written."""
        output, dims = closure.output, closure.target.dims
        with np.errstate(all="ignore"):
            value = self.scope().tensor(closure.value)
            computed = [(point, ask(value, point)) for point in points(dims)]
        for point, found in computed:
            assert not any_absent(found), "an output that may be absent is refused before"
            index = _index(output, point)
            for array, leaf in zip(self.arrays[output.name], leaves_of(found), strict=True):
                array[index] = leaf
            self.stored[output.name].add(tuple([point[name] for name in output.type.dims]))


def _index(param: Var, point: Point) -> tuple[int, ...]:
    return tuple([point[name] - interval.start for name, interval in param.type.dims.items])


class _Stored(Tensor):
    """The values of a parameter of the fencil."""

    __slots__ = ("interpreter", "param")

    def __init__(self, interpreter: Interpreter, param: Var) -> None:
        super().__init__(param.type.dims.names)
        self.interpreter, self.param = interpreter, param

    def answer(self, point: Point) -> Answer:
        name, index = self.param.name, _index(self.param, point)
        where = tuple([point[n] for n in self.names])
        if where not in self.interpreter.stored.get(name, ()):
            self.interpreter.run.reads.setdefault(name, set()).add(where)
        return nested(self.param.type.element, [array[index] for array in self.interpreter.arrays[name]])
        yield


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A program that the oracle runs."""

    program: Any

    def __call__(self, /, **arguments: Any) -> dict[str, Any]:
        return run(self.program, **arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        told = f"the reference interprets programs, and has no '{name}' of them."
        raise NoAttribute(Diagnostic("A23", told, help=f"compile with XLA: ti.compile(f).{name}(...)."))


class Backend:
    """The oracle as a backend: `ti.compile(f, backend="reference")`."""

    name = "reference"

    def compile(self, program: Any, **options: Any) -> Interpreted:
        if options:
            told = f"the reference has no option {next(iter(options))!r}: there is nothing to choose."
            raise refuse("A23", told, "leave it out.")
        return Interpreted(program)


backend: Backend = Backend()
"""The oracle, for the entry-point group `tensorir.backends`."""
