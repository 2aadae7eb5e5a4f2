"""Plans of operators: traces by what they depend on, and calls like one before.

A trace depends on types, on values of Python and on what the function reads outside of it (`trace_key`), and on the
coordinates that it asks for. A call by the key of one before (`tensorir/binding/repeated.py`), of a function that reads
what it read then, goes straight to the program of that plan.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tensorir.binding.angles import taken_in_degrees
from tensorir.binding.arrays import is_tuple, kind_of, type_of_named
from tensorir.binding.calls import bind, nested
from tensorir.binding.coordinates import AROUND, Coordinates
from tensorir.binding.labels import DATED
from tensorir.binding.repeated import attributes_of
from tensorir.binding.results import PERIODS, TURNS, stated
from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tensorir.fieldview.results import gathered
from tensorir.fieldview.signature import restored
from tensorir.fieldview.taken_types import TakenType, refuse_beyond
from tensorir.fieldview.trace import Tracing, places
from tensorir.integers.dims import Dims, Interval
from tensorir.ir import build
from tensorir.ir.nodes import Closure, Fencil, Var
from tensorir.ir.staggering import halves, partners
from tensorir.ir.types import TensorType
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span, refuse
from tensorir.runtime.locations import warn
from tensorir.runtime.memory import RecentCache

NO_TABLES: Mapping[Any, Any] = MappingProxyType({})
TABLE = "offset_provider"
"""The first item of keys (TABLE, name) of neighbour tables among the arguments of a call."""
OUT = "out"
"""The first item of keys (OUT, k, ...) of buffers among the arguments of a call; k, ...: the path in nested tuples."""


@dataclass(eq=False)
class Plan:
    """An operator traced for one set of types: its fencil, and the structure of its result."""

    fencil: Fencil
    shape: Any
    results: Any
    """The name of the output, or a nested tuple of names where members of a tuple have different dims."""
    tables: tuple[str, ...]
    places: Mapping[tuple[str, Span], Span] = field(default_factory=dict[tuple[str, Span], Span])
    """The span of the assignment by (variable, span of the value), for values that another operator computed."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The bound values of programs called inside of the operator, by parameter."""
    taken: Sequence[TakenType] = ()
    """The element types that Python numbers among the arguments took."""
    coordinates: Mapping[str, tuple[str, int]] = field(default_factory=dict[str, "tuple[str, int]"])
    """By parameter that is a coordinate: its name, and its index among those of the name."""
    looked: frozenset[str] = frozenset()
    """The names of coordinates that the trace asked for."""
    periods: Mapping[str, float] = field(default_factory=dict[str, float])
    """The period of the coordinate of each periodic dim."""
    named: frozenset[str] = frozenset()
    """The dims that the trace named."""
    turns: Mapping[str, frozenset[Interval]] = field(default_factory=dict[str, "frozenset[Interval]"])
    """The intervals that are one period of these dims."""
    compiled: Any = None

    @staticmethod
    def of(
        name: str, params: Sequence[Var], closures: Sequence[Closure], trace: Tracing, shape: Any = None,
        results: Any = None,
    ) -> Plan:  # fmt: skip
        """The plan of a finished trace: `shape` is the `structure` of the result, `results` the names of its outputs.

        Raises V36 for angles in degrees, V40 for dims that no argument has.
        """
        _refuse_degrees(closures, trace.degrees)
        _check_dims(name, params, trace)
        constants = dict(trace.constants.values())
        fencil = build.fencil(
            name, [*params, *trace.tables.values(), *trace.fields.values(), *constants], closures
        )  # fmt: skip
        return Plan(
            fencil, shape, results, tuple(trace.tables), places(trace.assigned.values()),
            {v.name: arrays for v, arrays in constants.items()}, trace.taken,
            {v.name: which for which, v in trace.fields.items()}, frozenset(trace.looked), trace.periods,
            frozenset(trace.named), {dim: frozenset(parts) for dim, parts in trace.turns.items()},
        )  # fmt: skip

    @property
    def program(self) -> Any:
        """The fencil with these values bound."""
        if not self.constants:
            return self.fencil
        values = {name: nested(self.fencil[name].type.element, arrays) for name, arrays in self.constants.items()}
        return bind(self.fencil, values)

    def compile(self) -> Any:
        """The compiled program, compiled at the first call and kept in `compiled`."""
        if self.compiled is None:
            from tensorir.backends import compile

            self.compiled = compile(self.program)
        return self.compiled

    def run(self, values: Mapping[str, Any]) -> Any:
        """The results for values by parameter, in the nested tuples that the function returns.

        Needs `compile` before.
        """
        if not (self.periods or PERIODS.get(None) or TURNS.get(None)):
            return restored(self.shape, gathered(self.results, self.compiled(**values)))
        with stated(self.periods, self.turns):
            return restored(self.shape, gathered(self.results, self.compiled(**values)))


def _refuse_degrees(closures: Sequence[Closure], params: set[str]) -> None:
    """Raise V36 for each call of sin, cos and the like on an argument in degrees; `params` are those in degrees."""
    calls = taken_in_degrees(closures, params) if params else []
    hint = 'write ti.radians(x), or say what it is: x.assign_attrs(units="radians").'
    if calls:
        message = "takes radians, and this is in degrees, as the units of an argument say."
        raise DiagnosticError([Diagnostic("V36", f"{call.op} {message}", call.span, help=hint) for call, _ in calls])


def _check_dims(name: str, params: Sequence[Var], trace: Tracing) -> None:
    """Raise V40 where an operator shifts along dims that no argument has, and the arguments have others alone.

    A field does not vary along a dim that it lacks, and a shift along it is the field: of arrays on latitude and
    longitude an operator on I and J would give differences of 0. Where the arguments have some of its dims this is a
    warning: a field may be constant along the others.
    """
    have = dict.fromkeys(d for p in params for d in p.type.dims.names)
    missing = [d for d in trace.missed if d not in have and not partners(d, have)]
    others = [d for d in have if d not in trace.named and not partners(d, trace.named)]
    if not missing or not others:
        return
    message = f"'{name}' shifts along {' and '.join(missing)}, which no argument has: they are on {' and '.join(have)}."
    if len(others) == len(have):
        pairs = ", ".join(f"{a}='{b}'" for a, b in _renamed(others, missing))
        raise refuse("V40", message, f"call them so: x.rename({pairs}).", at=trace.missed[missing[0]])
    warn(f"{message} Nothing varies along {' and '.join(missing)}, then.", trace.missed[missing[0]])


def _renamed(have: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs (dim of arrays, dim of an operator) for a hint: of like names, otherwise the last ones in order.

    >>> _renamed(["time", "latitude", "longitude"], ["lon", "lat"]), _renamed(["time", "y", "x"], ["I", "J"])
    ([('longitude', 'lon'), ('latitude', 'lat')], [('y', 'I'), ('x', 'J')])
    """
    like_named = {
        b: next((a for a in have if a.lower().startswith(b.lower()) or b.lower().startswith(a.lower())), None)
        for b in wanted
    }
    unmatched = [a for a in have if a not in like_named.values()]
    unmatched_wanted = [b for b in wanted if like_named[b] is None]
    by_order = dict(
        zip(unmatched_wanted, unmatched[-len(unmatched_wanted) :] if unmatched_wanted else [], strict=False)
    )
    return [(a, b) for b in wanted if (a := like_named[b] or by_order.get(b)) is not None]


@dataclass(frozen=True, slots=True)
class RepeatedPlan:
    """The preparation of calls of one key, valid while the function reads the same values from outside."""

    plan: Plan
    reads: Any
    """The closure fingerprint of the function."""
    places: Mapping[str, Any]
    """By parameter the key of its argument: a position, a name, (TABLE, name), or (OUT, k, ...) of a buffer."""
    defaults: Mapping[str, Any]
    coordinates: Sequence[tuple[str, int | str, Any]]
    """(parameter, key of the argument that has the coordinate, name of the coordinate)."""
    kept: list[Any]

    @staticmethod
    def of(
        plan: Plan, function: Callable[..., Any], signature: inspect.Signature, arguments: Mapping[Any, Any],
        bound: Mapping[str, Any], params: Mapping[str, str], buffers: Mapping[str, Any] = NO_TABLES,
    ) -> RepeatedPlan | None:  # fmt: skip
        """The preparation recorded from a call with these `arguments` by key, which are `bound` by name.

        `params` has the name of the argument of each parameter, `buffers` the buffer of `out=` by output. None for
        functions with `*args`, for tuples of buffers of one output, and where a coordinate is computed.
        """
        if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return None
        names = list(signature.parameters)
        places = {names[n] if isinstance(n, int) else n: n for n in arguments if not isinstance(n, tuple)}
        taken = {p.name for p in plan.fencil.params}
        params = {p: n for p, n in params.items() if p in taken}
        coordinates: list[tuple[str, int | str, Any]] = []
        for param, coordinate in Coordinates(bound).taken(plan.coordinates).items():
            # the argument is the one whose coordinate of this name was taken
            named = ((n, a._coords) for n, a in arguments.items() if coordinate.name in getattr(a, "_coords", ()))
            owners = (n for n, coordinates_of in named if coordinates_of[coordinate.name] is coordinate.value.variable)
            if (owner := next(owners, None)) is None:
                return None
            coordinates.append((param, owner, coordinate.name))
        taken_from = {p: places[n] for p, n in params.items() if n in places}
        taken_from.update({t: (TABLE, t) for t in plan.tables})
        paths: dict[int, Any] = {id(v): k for k, v in arguments.items() if isinstance(k, tuple) and k[0] == OUT}
        if any(id(buffer) not in paths for buffer in buffers.values()):
            return None  # a tuple of buffers for one output
        taken_from.update({p: paths[id(buffer)] for p, buffer in buffers.items()})
        return RepeatedPlan(
            plan, closure_fingerprint(function), taken_from,
            {p: bound[n] for p, n in params.items() if n not in places}, coordinates, attributes_of(arguments),
        )  # fmt: skip

    def values(self, arguments: Mapping[Any, Any]) -> dict[str, Any]:
        """The values of the fencil's parameters for the arguments of a call, by key."""
        values = {param: arguments[place] for param, place in self.places.items()}
        values.update(self.defaults)
        for table in self.plan.tables:
            values[table] = table_value(self.plan.fencil[table], values[table])
        if self.plan.taken:
            refuse_beyond(self.plan.taken, values)
        for param, owner, name in self.coordinates:
            values[param] = arguments[owner].coords[name]
        return values


def arguments_by_key(
    args: Sequence[Any], more: Mapping[str, Any], tables: Any = None, out: Any = None
) -> dict[Any, Any]:
    """The arguments of a call by key: positions, names, (TABLE, name) of neighbour tables, (OUT, k, ...) of buffers.

    >>> arguments_by_key([1.0], {"x": 2.0}, {"V2E": 3}, (4, (5, 6)))
    {0: 1.0, 'x': 2.0, ('offset_provider', 'V2E'): 3, ('out', 0): 4, ('out', 1, 0): 5, ('out', 1, 1): 6}
    """
    arguments: dict[Any, Any] = dict(enumerate(args))
    arguments.update(more)
    if tables:
        arguments.update({(TABLE, name): table for name, table in tables.items()})
    if out is not None:
        arguments.update(leaves_by_path(out, (OUT,)))
    return arguments


def leaves_by_path(out: Any, path: tuple[Any, ...]) -> dict[tuple[Any, ...], Any]:
    """The arrays in nested tuples by path, which begins with `path`.

    >>> leaves_by_path((1, (2, 3)), ())
    {(0,): 1, (1, 0): 2, (1, 1): 3}
    """
    if not is_tuple(out):
        return {path: out}
    return {p: leaf for k, member in enumerate(out) for p, leaf in leaves_by_path(member, (*path, k)).items()}


def table_value(param: Var, table: Any) -> Any:
    """A neighbour table as the argument of `param`: dims renamed as in its type, of a Field the bare array."""
    match kind_of(table):
        case "xarray":
            return table.rename(dict(zip(table.dims, param.type.dims.names, strict=True)))
        case "field":
            return table.data
        case _:
            return table


def parameter_name(argument: str) -> str:
    """The name of the parameter for an argument; `out` becomes `out_`, since `out` is the result."""
    return "out_" if argument == "out" else argument


def names_read(looked: set[str]) -> set[str]:
    """The names of the coordinates in `looked`, without the suffixes of courses and of date units."""
    return {name.partition(AROUND)[0].partition(DATED)[0] for name in looked} if looked else looked


def planned(
    plans: RecentCache[Any, Plan], looked: set[str], key: Any, coordinates: Coordinates, make: Callable[[], Plan]
) -> Plan:
    """The plan in the cache `plans` for a trace key and the coordinates that traces asked for, else from `make`.

    `looked` is extended by the coordinates that a new plan asked for, and the plan is stored under the extended key.
    """
    with halves(coordinates.arguments.values()) as staggered:
        key = (key, tuple(sorted(staggered.items(), key=str)))
        plan = plans.of((key, coordinates.key(looked)), make)
        if not plan.looked <= looked:
            looked |= plan.looked
            plans.put((key, coordinates.key(looked)), plan)
        return plan


def trace_key(
    function: Callable[..., Any], bound: Mapping[str, Any], types: Mapping[str, TensorType | None],
    placed: Mapping[int, Dims],
) -> Any:  # fmt: skip
    """The key of a trace: types and order of axes of the arguments, aligned dims, and the fingerprint of the function.

    Arguments without a type are Python values and enter the fingerprint.
    """
    dims = tuple([(n, None if t is None else (t, t.dims.names), type(bound[n]).__name__) for n, t in types.items()])
    where = tuple([(d, d.names) for d in placed.values()])
    return dims, where, closure_fingerprint(function, [bound[n] for n, t in types.items() if t is None])


def key_of(value: Any, placed: Mapping[int, Dims] | None = None) -> Any:
    """The key of an array, type or tuple of them: type and order of dims, or dtype and shape without names."""
    if is_tuple(value):
        return tuple([key_of(v, placed) for v in value])
    if isinstance(value, TensorType):
        return value, value.dims.names
    named = type_of_named(value, placed)
    return (
        (named, named.dims.names)
        if named is not None
        else (str(getattr(value, "dtype", "")), tuple(getattr(value, "shape", ())))
    )
