"""Programs: operators called one after the other, each with `out=`, as one fencil (GT4Py's `@program`)."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, overload

from tensorir.binding.angles import in_degrees
from tensorir.binding.coordinates import Coordinates
from tensorir.binding.labels import placed_by_identity
from tensorir.binding.repeated import call_key
from tensorir.fieldview.array_types import Array, Plain
from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tensorir.fieldview.operator import applied, bound_arguments, provided
from tensorir.fieldview.pickling import reduced
from tensorir.fieldview.plans import (
    Plan,
    RepeatedPlan,
    arguments_by_key,
    key_of,
    names_read,
    planned,
    table_value,
    trace_key,
)
from tensorir.fieldview.recorder import recorded
from tensorir.fieldview.signature import annotations_of, argument_type, symbol
from tensorir.fieldview.taken_types import refuse_beyond
from tensorir.fieldview.trace import tracing
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Displayed, refuse
from tensorir.runtime.locations import located, name_of, of_function
from tensorir.runtime.memory import SIZES, RecentCache

if TYPE_CHECKING:
    from tensorir.inspect import Inspection


@dataclass(eq=False)
class Program(Displayed):
    """A function that calls operators with `out=`; its parameters are fields, and written in place."""

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:operator_page"

    function: Callable[..., Any]
    plans: RecentCache[Any, Plan] = field(default_factory=lambda: RecentCache("traces of programs", SIZES))
    repeated: RecentCache[Any, RepeatedPlan] = field(default_factory=lambda: RecentCache("calls of programs", SIZES))
    """The preparation of calls by `call_key`."""
    looked: set[str] = field(default_factory=set[str])
    """The names of coordinates that traces asked for."""

    def __post_init__(self) -> None:
        self.name: str = name_of(self.function)
        functools.update_wrapper(self, self.function)
        self.signature: inspect.Signature = inspect.signature(self.function)
        self.annotations: dict[str, Any] = annotations_of(self.function)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, Program)

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, _: Any) -> Program:
        return self

    @overload
    def __call__(
        self, *args: Array | Plain, offset_provider: Mapping[str, Any] | None = None, **more: Array | Plain
    ) -> dict[str, Array]: ...
    @overload
    def __call__(
        self, *args: object, offset_provider: Mapping[str, Any] | None = None, **more: object
    ) -> dict[str, Any]: ...
    @located
    def __call__(self, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return self.on(Plan.compile, args, more, offset_provider)

    def on(
        self, run: Callable[[Plan], Callable[..., Any]], args: tuple[Any, ...], more: Mapping[str, Any],
        offset_provider: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The results of a call of `run(plan)`, in place of the compiled program, with the plan's values.

        Calls by the key of one before, of a function that reads the same from outside, go straight to its plan.
        """
        provider, looked = provided(offset_provider), len(self.looked)
        arguments = arguments_by_key(args, more, provider)
        key = call_key(arguments, self.looked and names_read(self.looked))
        repeated = None if key is None else self.repeated.get(key)
        if repeated is not None and repeated.reads == closure_fingerprint(self.function):
            return run(repeated.plan)(**repeated.values(arguments))
        bound = bound_arguments(self.name, self.signature, args, more)
        plan = self._plan(bound, provider)
        values = {p.name: bound[p.name] for p in plan.fencil.params if p.name in bound}
        refuse_beyond(plan.taken, values)
        values.update(Coordinates(bound).values(plan.coordinates))
        values.update({t: table_value(plan.fencil[t], provider[t]) for t in plan.tables})
        results = run(plan)(**values)
        if len(self.looked) > looked:  # then numbers of these coordinates decide, too
            key = call_key(arguments, names_read(self.looked))
        if key is not None:
            params = {n: n for n in bound}
            again = RepeatedPlan.of(plan, self.function, self.signature, arguments, bound, params)
            if again is not None:
                self.repeated.put(key, again)
        return results

    @located
    def fencil(self, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> Fencil:
        """The program in the IR, for arguments or for their types."""
        return self._plan(bound_arguments(self.name, self.signature, args, more), provided(offset_provider)).fencil

    @located
    def inspect(self, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> Inspection:
        """Every intermediate of one run under the name of its variable, as DataArrays; nothing is written.

        >>> import numpy as np
        >>> import tensorir as ti
        >>> (I,) = ti.dims("I")
        >>> @ti.field_operator
        ... def curvature(f):
        ...     rise = f(I + 1) - f
        ...     return rise - rise(I - 1)
        >>> @ti.program
        ... def bend(f: ti.Field[[I], ti.float64], out: ti.Field[[I], ti.float64]):
        ...     curvature(f, out=out, domain={I: (1, 3)})
        >>> bend.inspect(np.array([0.0, 1.0, 4.0, 9.0]), np.zeros(4))["rise"].values
        array([1., 3., 5.])
        """
        from tensorir.backends import compile

        bound = bound_arguments(self.name, self.signature, args, more)
        provider = provided(offset_provider)
        plan = self._plan(bound, provider)
        written = {p.name for p in plan.fencil.outputs}
        names = {p.name for p in plan.fencil.params}
        values = {n: copy.deepcopy(v) if n in written else v for n, v in bound.items() if n in names}
        refuse_beyond(plan.taken, values)
        values.update(Coordinates(bound).values(plan.coordinates))
        values.update({t: table_value(plan.fencil[t], provider[t]) for t in plan.tables})
        return compile(plan.program).inspect(**values).placed(plan.places)

    def _plan(self, bound: Mapping[str, Any], provider: Mapping[str, Any]) -> Plan:
        """The plan for arguments and neighbour tables by name; traced if it is not cached."""
        place = placed_by_identity(bound)
        types = {n: argument_type(n, v, self.annotations.get(n), f"'{self.name}'", place) for n, v in bound.items()}
        tables = tuple((n, key_of(t)) for n, t in provider.items())
        angles = frozenset(n for name, v in bound.items() for n in in_degrees(name, v))
        key = trace_key(self.function, bound, types, place), tables, angles
        coordinates = Coordinates(bound)
        return planned(
            self.plans, self.looked, key, coordinates, lambda: self._trace(bound, types, provider, coordinates)
        )

    def _trace(
        self, bound: Mapping[str, Any], types: Mapping[str, TensorType | None], provider: Mapping[str, Any],
        coordinates: Coordinates,
    ) -> Plan:  # fmt: skip
        """The plan of a trace of the function; raises V26 where it calls no operator with `out=`."""
        with recorded() as recorder, tracing(dict(provider), coordinates) as trace:
            params: list[Var] = []
            symbols: dict[str, Any] = {}
            for name, value in bound.items():
                if (kind := types[name]) is None:
                    symbols[name] = value
                    continue
                trace.names.add(name)
                variable, symbols[name] = symbol(name, kind, value)
                params.append(variable)
            applied(self.function, self.signature, symbols)
            if not recorder.closures:
                message = f"'{self.name}' writes nothing."
                raise refuse("V26", message, "call an operator with out=.", at=of_function(self.function))
            return Plan.of(self.name, params, recorder.closures, trace)


@overload
def program(function: Callable[..., Any], *, backend: object = None) -> Program: ...
@overload
def program(function: None = None, *, backend: object = None) -> Callable[[Callable[..., Any]], Program]: ...
def program(function: Callable[..., Any] | None = None, *, backend: Any = None) -> Any:
    """A function that calls operators with `out=`, as one fencil; `backend` is taken for GT4Py's sake.

    Its parameters are fields, called with arrays as operators are (dims by name, or by annotation); those that are
    written have these dims and intervals, are written in place, and come back in a dict by name. Raises V26 where
    nothing is written.
    """
    return Program if function is None else Program(function)
