"""Exact domains: which points of every parameter and of every intermediate value a program reads.

The analysis goes backward, from what is stored to what is passed: a rule per builtin says which points of its
operands the needed points of a node read. A set of points is exact (`IntegerSet`); a buffer needs its hull. Both
branches of `if` are read. A table whose entries are known (it is bound, or computed from what is) reads the elements
that it holds; an index that is known only at run time reads all of its dim.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[1:4]>, x: tensor<float, I[0:9]>) { out ← ⟪I, 3⟫(x) + ⟪I, -1⟫(x); }")
>>> print(domains(f).params["x"])
I[0:3] and I[4:7]
>>> print(domains(f, out={"I": (1, 2)}).params["x"].hull)
I[0:5]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorir.analysis.access_functions import Reads
from tensorir.binding.programs import BoundProgram
from tensorir.integers.dims import Dims, interval_from
from tensorir.integers.sets import IntegerSet
from tensorir.ir.nodes import Expr, Fencil, Var
from tensorir.ir.rewrite import values, with_values
from tensorir.ir.substitution import inlined
from tensorir.runtime.errors import did_you_mean, refuse


@dataclass(frozen=True, slots=True)
class Domains:
    """The needed points of every parameter, name and node."""

    fencil: Fencil
    """The program without applied functions, whose nodes `nodes` speaks of."""
    params: dict[str, IntegerSet]
    """Of what is passed: the points that are read before the program itself wrote them."""
    written: dict[str, IntegerSet]
    """Of every output: the points that are stored."""
    stored: tuple[IntegerSet, ...]
    """Of every closure: the points that it stores and somebody needs."""
    nodes: dict[int, IntegerSet]
    """Of every expression, by identity: the points at which its value is needed."""
    variables: dict[Var, IntegerSet]
    """The same of the parameters of functions that folds use."""
    unknown: tuple[Expr, ...]
    """What decides at run time which points it reads: these are read whole."""

    def by_variable(self, variable: Var) -> IntegerSet:
        """The points of a parameter of a function in `fencil` that are needed."""
        return self.variables.get(variable, IntegerSet(variable.type.dims.names))

    def of(self, node: Expr) -> IntegerSet:
        """The needed points of a node of `fencil`."""
        return self.nodes.get(id(node), IntegerSet(node.tensor.dims.names))


def domains(
    program: Any, out: Mapping[Any, Any] | None = None, *, boxes: bool = False, stays: Mapping[str, Dims] | None = None
) -> Domains:
    """The needed points of all parameters and nodes of a program, by a backward pass over its closures.

    Without `out` every closure stores all of its output. With `out` (intervals by dim, or by output and dim) only those
    points of the results are needed. With `boxes` every set becomes its hull, or more where a builtin cannot be cut:
    the intervals of a program on smaller buffers; then a closure that stores any point stores all that `stays` of its
    output.
    """
    bound = BoundProgram.of(program)
    fencil = bound.program
    if not isinstance(fencil, Fencil):
        raise refuse("B09", f"'{bound.name}' has sizes that are not known yet.", "bind them: f.bind(n=10).")
    closures = with_values(fencil.closures, inlined(values(fencil.closures)))
    inlined_program = Fencil(fencil.name, fencil.params, closures, fencil.span, fencil.buffers)
    reads = Reads(inlined_program, bound, boxes)
    need = {p: IntegerSet(p.type.dims.names) for p in fencil.params}
    if out is not None:
        need.update({p: IntegerSet.box(dims) for p, dims in asked(fencil, out).items()})
    written = {p.name: IntegerSet(p.type.dims.names) for p in fencil.outputs}
    stored: list[IntegerSet] = []
    for closure in reversed(closures):
        output, target = closure.output, closure.target.dims
        wanted = IntegerSet.box(target) if out is None else reads.shaped(need[output].within(target), target)
        if wanted and stays and output.name in stays:
            wanted = reads.shaped(wanted | IntegerSet.box(stays[output.name]).within(target), target)
        need[output] = need[output].without(target)
        written[output.name] |= wanted
        stored.append(wanted)
        for variable, points in reads.of_closure(closure.value, wanted).items():
            need[variable] |= points
    params, unknown = {p.name: need[p] for p in fencil.params}, tuple(reads.unknown.values())
    return Domains(inlined_program, params, written, tuple(stored[::-1]), reads.nodes, reads.variables, unknown)


def asked(fencil: Fencil, out: Mapping[Any, Any]) -> dict[Var, Dims]:
    """The requested part of each output, from intervals by dim or by output and dim.

    Raises A15 for a name that no output has, A16 for an interval that is not inside of the output's.
    """
    if not hasattr(out, "items"):
        message = f"{out!r} is no part of an output: it has an interval for each dim."
        raise refuse("A16", message, 'write {"I": (0, 5)}.')
    names = {p.name for p in fencil.results}
    dims = [d for p in fencil.results for d in p.type.dims]
    for key in map(str, out):
        if key not in names and key not in dims:
            raise refuse("A15", f"no output has a dim {key}.", did_you_mean(key, [*dims, *names]))
    part_of: dict[Var, Dims] = {}
    for p in fencil.results:
        intervals = {str(k): v for k, v in out.items() if str(k) not in names}
        own_intervals = next((v for k, v in out.items() if str(k) == p.name), dict[Any, Any]())
        if not hasattr(own_intervals, "items"):
            message = f"{own_intervals!r} is no part of '{p.name}': it has an interval for each dim."
            raise refuse("A16", message, f'write {{"{p.name}": {{"I": (0, 5)}}}}.')
        for key in map(str, own_intervals):
            if key not in p.type.dims:
                raise refuse("A15", f"'{p.name}' has no dim {key}.", did_you_mean(key, list(p.type.dims)))
        intervals |= {str(k): v for k, v in own_intervals.items()}
        part = p.type.dims
        for dim, ends in intervals.items():
            whole = part.get(dim)
            if whole is None:
                continue
            interval = interval_from(ends)
            if interval is None or interval.stop < interval.start:
                raise refuse("A16", f"{dim}: {ends!r} is no interval.", f'write {{"{dim}": (0, 5)}}.')
            if not whole.covers(interval):
                message = f"{dim}{interval} is not inside of {dim}{whole}, all of '{p.name}'."
                raise refuse("A16", message, f"ask for a part of {dim}{whole}.")
            part = part.with_interval(dim, interval)
        part_of[p] = part
    return part_of
