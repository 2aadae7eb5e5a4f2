"""A fencil point by point: what its parameters hold, values of expressions at points, closures stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorir.binding.arrays import nested
from tensorir.ir.nodes import Closure, Expr, Fencil, Var
from tensorir.ir.types import DTYPES
from tensorir.reference.rules import RULES
from tensorir.reference.tensors import Answer, Point, Run, Scope, Tensor, Value, any_absent, ask, leaves_of, points


class Interpreter:
    """Interprets a fencil on arrays: evaluates expressions at points, and stores closures.

    Parameters that are not passed hold zeros; well-formed programs write them before they read them.
    """

    def __init__(self, fencil: Fencil, arrays: Mapping[str, tuple[Any, ...]], both: bool = False) -> None:
        """Copies the arrays that the program writes; `both` makes `if` evaluate both branches."""
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
        """Evaluates a closure at all its points, and then writes the values into the output."""
        output, dims = closure.output, closure.target.dims
        with np.errstate(all="ignore"):
            value = self.scope().tensor(closure.value)
            computed = [(point, ask(value, point)) for point in points(dims)]
        for point, element in computed:
            assert not any_absent(element), "an output that may be absent is refused before"
            index = _index(output, point)
            for array, leaf in zip(self.arrays[output.name], leaves_of(element), strict=True):
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
        """The current element of the array; a read of an element that no closure wrote is recorded in `run.reads`."""
        name, index = self.param.name, _index(self.param, point)
        coordinates = tuple([point[n] for n in self.names])
        if coordinates not in self.interpreter.stored.get(name, ()):
            self.interpreter.run.reads.setdefault(name, set()).add(coordinates)
        return nested(self.param.type.element, [array[index] for array in self.interpreter.arrays[name]])
        yield  # never reached: makes this method a generator
