"""Programs while they are traced: closures of the operators that are called, and programs of the IR.

Programs of the IR called inside of operators: `lap(x=h)["out"]` on traced fields is part of the operator's program.

>>> import numpy as np
>>> import tensorir as ti
>>> lap = ti.parse("lap(out: tensor<float, I[1:n-1]>, x: tensor<float, I[0:n]>) { out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> @ti.field_operator
... def relaxed(h):
...     return h + 0.5 * lap(x=h)["out"]
>>> relaxed(ti.as_field({"I": (0, 4)}, np.array([0.0, 1.0, 4.0, 9.0]))).data
array([3., 8.])
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tensorir.binding.arrays import nested
from tensorir.binding.calls import at_sizes, check_names, missing
from tensorir.binding.programs import BoundProgram
from tensorir.fieldview.trace import current, named
from tensorir.fieldview.traced import Traced, number_as, tuple_of, wrap
from tensorir.integers.dims import Dims, Interval, interval_from
from tensorir.ir import build
from tensorir.ir.build import coerced
from tensorir.ir.nodes import Closure, Expr, Fencil, Var
from tensorir.ir.types import DTYPES, Scalar, TensorType
from tensorir.runtime.errors import refuse
from tensorir.runtime.locations import here

# What a program records while it is traced: the closures of the operators that it calls with `out=`.


@dataclass(slots=True)
class Recorder:
    """The closures that operators with `out=` record while a program is traced."""

    closures: list[Closure] = field(default_factory=list[Closure])

    def record(self, result: Any, out: Any, domain: Any) -> None:
        """Append the closure that writes `result` to the parameter `out`, on `domain` only unless that is None.

        Raises V25 if `out` is no parameter of the program, V22 for a domain with other dims.
        """
        if not isinstance(out, Traced) or not isinstance(out.expr, Var):
            message = "out is not a field of this program."
            raise refuse("V25", message, "write into a parameter of the program.", at=here())
        trace = current()
        (expr,) = named([wrap(result).expr], trace.assigned)
        value = Traced(expr)
        region: Dims | None = None
        if domain is not None:
            intervals = domain_of(domain)
            unknown = [n for n in intervals if n not in out.type.dims]
            if unknown:
                message = f"the domain names {', '.join(unknown)}, and '{out.expr.name}' has {out.type.dims}."
                raise refuse("V22", message, at=here())
            region = out.type.dims.replaced(intervals)
        self.closures.append(build.closure(out.expr, value.expr, region, here()))


_RECORDING: ContextVar[Recorder | None] = ContextVar("recording", default=None)


def recording() -> Recorder | None:
    """The program that is being traced, if any."""
    return _RECORDING.get()


@contextmanager
def recorded() -> Generator[Recorder]:
    """A new recorder for the calls within the `with` block."""
    recorder = Recorder()
    token = _RECORDING.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDING.reset(token)


def domain_of(domain: Any) -> Dims:
    """The dims of a `domain=` argument {dim: (start, stop)}; raises V22 for anything else, and for stop < start."""
    intervals: dict[str, Interval] = {}
    no_domain = refuse("V22", "a domain is intervals by dim.", "write domain={I: (1, 9), J: (0, 5)}.")
    try:
        ends_by_dim = dict(domain)
    except (TypeError, ValueError):
        raise no_domain from None
    for dim, ends in ends_by_dim.items():
        if (interval := interval_from(ends)) is None:
            raise no_domain
        intervals[str(dim)] = interval
    for dim, i in intervals.items():
        if i.stop < i.start:
            raise refuse("V22", f"the domain {dim}{i} stops before it starts.", "an interval is (start, stop).")
    return Dims.of(intervals)


def called(program: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a program on traced fields, by name; its sizes come from their intervals.

    Fields on more points than a parameter are cut. Raises what a call on arrays does for wrong names, dims and types.
    """
    bound = BoundProgram.of(program)
    check_names(bound, arguments)
    offsets: Mapping[str, int] = {}
    if not isinstance(bound.program, Fencil):
        sizes = {n: v for n, v in arguments.items() if n in bound.size_names}
        arguments = {n: v for n, v in arguments.items() if n not in sizes}
        shaped = {n: _Shape(wrap(v).type) for n, v in arguments.items()}
        bound, offsets = at_sizes(bound, shaped, sizes)
    fencil = bound.program
    assert isinstance(fencil, Fencil)
    needed = {p.name for p in fencil.inputs}
    values: dict[Var, Expr] = {}
    for p in fencil.params:
        if p.name in bound.constants:
            values[p] = _constant(p, bound.constants[p.name])
        elif p.name in arguments:
            values[p] = _argument(p, _shifted(wrap(arguments[p.name]), offsets, 1), fencil.name)
        elif p.name in needed:
            raise missing(p, p in fencil.outputs, arguments)
    for closure in fencil.closures:
        values[closure.output] = _after(closure, values)
    return {p.name: tuple_of(_shifted(Traced(values[p]), offsets, -1)) for p in fencil.results}


def _shifted(value: Traced, moved: Mapping[str, int], way: int) -> Traced:
    """A field shifted by the offset of each dim that moved to the program's coordinates, or back where `way` is -1."""
    for dim, distance in moved.items():
        if dim in value.type.dims:
            value = Traced(build.cartesian_shift(value.expr, dim, way * distance), value.weak)
    return value


class _Shape:
    """An object with the dims of a traced field, as `at_sizes` needs of an argument."""

    def __init__(self, type: TensorType) -> None:
        self.dims = type.dims


def _argument(param: Var, value: Traced, owner: str) -> Expr:
    """A traced field as the value of a parameter of the program `owner`: cut to its dims, never broadcast.

    Raises A02, A05 and A06 as a call on arrays does.
    """
    kind = param.type
    if value.weak and isinstance(kind.element, Scalar):
        value = number_as(value, kind.element)
    have, need = value.type.dims, kind.dims
    if value.element != kind.element:
        message = f"'{param.name}' of '{owner}' needs {kind.element}, and this is {value.element}."
        raise refuse("A02", message, f"convert it: ti.astype({param.name}, ti.{kind.element}).", at=here())
    if set(have.names) != set(need.names):
        message = f"'{param.name}' of '{owner}' is a tensor on {need}, and this is one on {have}."
        raise refuse("A05", message, "broadcast it.", at=here())
    for name, interval in need.items:
        if not have[name].covers(interval):
            message = f"'{param.name}' of '{owner}' needs {name}{interval}, and this has {name}{have[name]}."
            raise refuse("A06", message, "give it the missing points: ti.extend adds a halo.", at=here())
    return coerced(value.expr, kind)


def _constant(param: Var, arrays: tuple[Any, ...]) -> Expr:
    """A bound value as a parameter of the current trace, one for each value; the trace keeps it in `constants`."""
    trace = current()
    variable = next((v for v, value in trace.constants.values() if value is arrays), None)
    if variable is None:
        name = trace.fresh(param.name)
        variable = build.var(name, param.type)
        trace.constants[name] = variable, arrays
    return variable


def _after(closure: Closure, held: Mapping[Var, Expr]) -> Expr:
    """The value of a closure's output after it ran, `held` having the values of all parameters before.

    A closure with a region updates the earlier value, or a buffer of zeros.
    """
    params = sorted(closure.value.free, key=lambda v: v.name)
    value = closure.value
    if params:
        value = build.apply(build.function(params, value), *(held[p] for p in params), span=here())
    kind = closure.output.type
    written = coerced(value, closure.target)
    if closure.target.dims == kind.dims:
        return written
    return build.call("update", held.get(closure.output) or _blank(kind), written, span=here())


def _blank(kind: TensorType) -> Expr:
    """A buffer of zeros for an output: the program never reads those elements that it does not write."""
    zeros = [build.literal(DTYPES[s].type(0).item(), s) for s in kind.leaves]
    return coerced(wrap(nested(kind.element, [Traced(z) for z in zeros])).expr, kind)
