"""Field operators and scan operators: functions on fields, run on data, inside of JAX, or GT4Py's style."""

from __future__ import annotations

import functools
import inspect
import numbers
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast, overload

from tensorir.binding.angles import in_degrees
from tensorir.binding.arrays import is_tuple, kind_of, with_narrow_hint
from tensorir.binding.coordinates import Coordinates
from tensorir.binding.labels import placed_by_identity
from tensorir.binding.repeated import call_key
from tensorir.binding.results import stated
from tensorir.binding.units import with_pint, without_pint
from tensorir.fieldview.array_types import Array, FieldType, Named, Places, Plain, Result
from tensorir.fieldview.closure_fingerprint import closure_fingerprint
from tensorir.fieldview.datasets import coordinates_of_whole, is_whole, members_of_whole, over_variables
from tensorir.fieldview.pickling import reduced
from tensorir.fieldview.plans import (
    NO_TABLES,
    Plan,
    RepeatedPlan,
    arguments_by_key,
    key_of,
    names_read,
    parameter_name,
    planned,
    table_value,
    trace_key,
)
from tensorir.fieldview.recorder import domain_of, recording
from tensorir.fieldview.results import (
    at_path,
    check_region,
    gathered,
    members_of,
    nest,
    on_common_dims,
    output_of,
    placed_result,
    spread,
)
from tensorir.fieldview.signature import (
    annotations_of,
    argument_type,
    like,
    members_of_annotation,
    restored,
    structure,
    symbol,
)
from tensorir.fieldview.taken_types import refuse_beyond
from tensorir.fieldview.trace import Assigned, Tracing, current, named, tracing
from tensorir.fieldview.traced import Traced, assignable, foreign, number_as, tuple_of, wrap
from tensorir.integers.dims import Dims
from tensorir.ir import build
from tensorir.ir.dimensions import Dimension
from tensorir.ir.nodes import Closure, Fencil, Var
from tensorir.ir.staggering import halves
from tensorir.ir.types import Scalar, TensorType, TupleElement, bcast
from tensorir.runtime.errors import DiagnosticError, Displayed, article, did_you_mean, refuse
from tensorir.runtime.locations import assigned, here, located, name_of, of_function
from tensorir.runtime.memory import SIZES, RecentCache

if TYPE_CHECKING:
    from tensorir import Field
    from tensorir.inspect import Inspection

# Field operators: functions on fields, run on data, inside of JAX, or GT4Py's way.


@dataclass(eq=False)
class FieldOperator(Displayed, Generic[Result]):
    """A function on fields.

    Called on DataArrays, Fields or (where it is annotated) bare arrays it runs, and returns the same kind; called on
    what JAX traces it is traced; called inside of an operator it becomes part of that; with `out=` it writes into a
    buffer, on `domain=` only. Keywords: `out`, `domain` ({I: (1, 9)}), `offset_provider` ({"V2E": table}).
    """

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:operator_page"

    function: Callable[..., Any]
    body: Callable[..., Any]
    plans: RecentCache[Any, Plan] = field(default_factory=lambda: RecentCache("traces of operators", SIZES))
    """The plans by trace key (`trace_key`, buffer, region, tables, angles)."""
    repeated: RecentCache[Any, RepeatedPlan] = field(default_factory=lambda: RecentCache("calls of operators", SIZES))
    """The preparation of calls by `call_key`."""
    looked: set[str] = field(default_factory=set[str])
    """The names of coordinates that traces asked for."""
    scan: tuple[Any, ...] | None = None
    """Axis, direction and initial state of a scan operator; None for a field operator."""

    def __post_init__(self) -> None:
        self.name: str = name_of(self.function)
        functools.update_wrapper(self, self.function)
        self.signature: inspect.Signature = inspect.signature(self.function)
        self.annotations: dict[str, Any] = annotations_of(self.function)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduced(self, field_operator) if self.scan is None else reduced(self, _scan_operator, *self.scan)

    def __copy__(self) -> FieldOperator[Result]:
        return self

    def __deepcopy__(self, _: Any) -> FieldOperator[Result]:
        return self

    @overload
    def __call__(
        self: FieldOperator[Field], *args: Array | Plain | tuple[Array | Plain, ...], out: object = None,
        domain: Places | None = None, offset_provider: Mapping[str, Any] | None = None,
        **more: Array | Plain | tuple[Array | Plain, ...],
    ) -> Array: ...  # fmt: skip
    @overload
    def __call__(
        self: FieldOperator[tuple[Field, Field]], *args: Array | Plain | tuple[Array | Plain, ...], out: object = None,
        domain: Places | None = None, offset_provider: Mapping[str, Any] | None = None,
        **more: Array | Plain | tuple[Array | Plain, ...],
    ) -> tuple[Array, Array]: ...  # fmt: skip
    @overload
    def __call__(
        self: FieldOperator[tuple[Field, Field, Field]], *args: Array | Plain | tuple[Array | Plain, ...],
        out: object = None, domain: Places | None = None, offset_provider: Mapping[str, Any] | None = None,
        **more: Array | Plain | tuple[Array | Plain, ...],
    ) -> tuple[Array, Array, Array]: ...  # fmt: skip
    @overload
    def __call__(
        self: FieldOperator[tuple[Field, ...]], *args: Array | Plain | tuple[Array | Plain, ...], out: object = None,
        domain: Places | None = None, offset_provider: Mapping[str, Any] | None = None,
        **more: Array | Plain | tuple[Array | Plain, ...],
    ) -> tuple[Array, ...]: ...  # fmt: skip
    @overload
    def __call__(
        self, *args: object, out: object = None, domain: Places | None = None,
        offset_provider: Mapping[str, Any] | None = None, **more: object,
    ) -> Any: ...  # fmt: skip
    @located
    def __call__(
        self, *args: Any, out: Any = None, domain: Any = None, offset_provider: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:  # fmt: skip
        looked = len(self.looked)
        arguments = arguments_by_key(args, more, provided(offset_provider) if offset_provider else None, out)
        key = key_of_call(arguments, self.looked and names_read(self.looked), domain)
        repeated = None if key is None else self.repeated.get(key)
        if repeated is not None and repeated.reads == closure_fingerprint(self.function):
            return repeated.plan.run(repeated.values(arguments))
        if "pint" in sys.modules:
            (plain, named), registry = without_pint((args, tuple(more.values())))
            if registry is not None:
                by_name = dict(zip(more, named, strict=True))
                result = self(*plain, out=out, domain=domain, offset_provider=offset_provider, **by_name)
                return with_pint(result, registry)
        bound = self.bound(args, more)
        if any(_is_traced(v) for v in bound.values()):
            recorder = recording()
            if out is not None and recorder is not None:
                return recorder.record(self.inline(bound), out, domain)
            return self.inline(bound)
        if any(map(is_whole, bound.values())):
            if out is not None:
                raise refuse("V39", "the result for a Dataset is a Dataset, and has no buffer.", "leave out= out.")
            options = {"domain": domain, "offset_provider": offset_provider}
            return self.over_variables(bound, functools.partial(self, **options), provided(offset_provider))
        provider = provided(offset_provider)
        plan = self._plan(bound, out, domain, provider)
        values = self.values(plan, bound, provider)
        buffers = {} if out is None else spread(plan.results, out, "out")
        values.update(buffers)
        if plan.compiled is None and out is None:
            _refuse_ambiguous(self.name, plan, values)
        plan.compile()
        result = plan.run(values)
        if len(self.looked) > looked:  # then numbers of these coordinates decide, too
            key = key_of_call(arguments, names_read(self.looked), domain)
        if key is not None:
            params = {parameter_name(n): n for n in bound}
            again = RepeatedPlan.of(plan, self.function, self.signature, arguments, bound, params, buffers)
            if again is not None:
                self.repeated.put(key, again)
        return result

    def over_variables(
        self, bound: Mapping[str, Any], call: Callable[..., Any], provider: Mapping[str, Any] = NO_TABLES
    ) -> Any:
        """A Dataset of the results of `call` for every variable that has the dims of the operator.

        `bound` has the arguments by name, `provider` the neighbour tables.
        """

        def named(arguments: Mapping[str, Any]) -> frozenset[str]:
            """The dims of the annotations of the Datasets, or without any those that a trace names."""
            kinds = [self.annotations.get(n) for n, v in bound.items() if is_whole(v)]
            stated = {d for kind in kinds if isinstance(kind, FieldType) for d in kind.dims}
            return frozenset(stated) or self._plan(arguments, None, None, provider).named

        with halves(bound.values()):
            return over_variables(self.name, self.signature, bound, call, named)

    def plan(self, bound: Mapping[str, Any]) -> Plan:
        """The plan for these arguments by name, without buffer, domain and tables; traced if it is not cached."""
        return self._plan(bound, None, None, {})

    @located
    def on(
        self, run: Callable[[Any], Callable[..., Any]], args: tuple[Any, ...], more: Mapping[str, Any],
        offset_provider: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """The results of a call of `run(plan)`, in place of the compiled program, with the plan's values."""
        bound = self.bound(args, more)
        if any(_is_traced(v) for v in bound.values()):
            return self.inline(bound)
        provider = provided(offset_provider)
        plan = self._plan(bound, None, None, provider)
        values = self.values(plan, bound, provider)
        with stated(plan.periods, plan.turns):
            return restored(plan.shape, gathered(plan.results, run(plan)(**values)))

    def inline(self, bound: Mapping[str, Any]) -> Any:
        """The traced result of the operator, called on traced fields inside of another one."""
        result = applied(self.body, self.signature, bound)
        if isinstance(result, Traced) and (name := assigned()[1]):
            # the caller's name, also where the operator that is called has one of its own
            current().assigned[id(result.expr)] = Assigned(result.expr, name, here())
        return result

    @located
    def fencil(self, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> Fencil:
        """The operator in the IR, for arguments or for their types."""
        return self._plan(self.bound(args, more), None, None, provided(offset_provider)).fencil

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<field operator {self.name}{self.signature}>"

    @located
    def inspect(self, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> Inspection:
        """Every intermediate of one run under the name of its variable, as DataArrays on their own intervals.

        >>> import numpy as np
        >>> import tensorir as ti
        >>> (I,) = ti.dims("I")
        >>> @ti.field_operator
        ... def curvature(f):
        ...     rise = f(I + 1) - f
        ...     return rise - rise(I - 1)
        >>> curvature.inspect(ti.as_field({I: (0, 4)}, np.array([0.0, 1.0, 4.0, 9.0])))["rise"].values
        array([1., 3., 5.])
        """
        from tensorir.backends import compile

        bound = self.bound(args, more)
        provider = provided(offset_provider)
        plan = self._plan(bound, None, None, provider)
        values = self.values(plan, bound, provider)
        return compile(plan.program).inspect(**values).placed(plan.places)

    # Tracing

    def bound(self, args: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name.

        A single Dataset gives each parameter its variable or coordinate of that name. If it has those of all parameters
        but the first, these are metrics, and the first parameter gets the Dataset.
        """
        parameters = self.signature.parameters
        if len(args) == 1 and is_whole(args[0]):
            needed = [n for n, p in parameters.items() if p.default is p.empty and n not in more]
            if len(needed) > 1:
                variables = {**coordinates_of_whole(args[0]), **members_of_whole(args[0])}
                taken = {n: variables[n] for n in parameters if n in variables}
                first, *rest = needed
                whole = {first: args[0]} if first not in taken and all(n in taken for n in rest) else {}
                args, more = (), {**whole, **taken, **more}
        return bound_arguments(self.name, self.signature, args, more)

    def _plan(self, bound: Mapping[str, Any], out: Any, domain: Any, provider: Mapping[str, Any]) -> Plan:
        """The plan for arguments by name, the buffer `out`, a domain, and tables by name; traced if not cached."""
        place = placed_by_identity({**bound, "out": out} if out is not None else bound)
        types = {n: argument_type(n, v, self.annotations.get(n), f"'{self.name}'", place) for n, v in bound.items()}
        region = None if domain is None else domain_of(domain)
        buffer = None if out is None else key_of(out, place)
        tables = tuple((n, key_of(t)) for n, t in provider.items())
        angles = frozenset(n for name, v in bound.items() for n in in_degrees(name, v))
        key = (trace_key(self.function, bound, types, place), buffer, region, tables, angles)
        try:
            coordinates = Coordinates(bound, place)
            return planned(
                self.plans, self.looked, key, coordinates,
                lambda: self._trace(bound, types, out, region, provider, place, coordinates),
            )  # fmt: skip
        except DiagnosticError as error:
            raise with_narrow_hint(error, bound.values()) from None

    def _trace(
        self, bound: Mapping[str, Any], types: Mapping[str, TensorType | None], out: Any, region: Dims | None,
        provider: Mapping[str, Any], place: Mapping[int, Dims], coordinates: Coordinates,
    ) -> Plan:  # fmt: skip
        """The plan of a trace of the body: an argument with a type becomes a parameter, others are passed unchanged.

        `region` is the domain that is written, `place` has the dims of arrays by `id(array)` after alignment.
        """
        with tracing(dict(provider), coordinates) as trace:
            params: list[Var] = []
            symbols: dict[str, Any] = {}
            for name, value in bound.items():
                kind = types[name]
                if kind is None:
                    annotation = self.annotations.get(name)
                    symbols[name] = _opened(name, value, annotation, params, trace, f"'{self.name}'", place)
                else:
                    variable, symbols[name] = symbol(trace.fresh(parameter_name(name)), kind, value)
                    params.append(variable)
            try:
                result = applied(self.body, self.signature, symbols)
            except (TypeError, ValueError) as problem:
                if (error := foreign(problem)) is None:
                    raise
                raise error from None
            values = members_of(self._result(result))
            kinds = [placed_result(at_path(out, path), v.type, region, place) for path, v in values.items()]
            if region is not None:
                check_region(region, kinds)
            names = [trace.fresh(f"out_{'_'.join(map(str, path))}") if path else "out" for path in values]
            exprs = named([v.expr for v in values.values()], trace.assigned)
            outputs: list[Var] = []
            closures: list[Closure] = []
            for name, expr, kind in zip(names, exprs, kinds, strict=True):
                output, closure = output_of(name, expr, kind, region)
                outputs.append(output)
                closures.append(closure)
            results = nest(dict(zip(values, names, strict=True)))
            return Plan.of(self.name, [*outputs, *params], closures, trace, structure(result), results)

    def _result(self, result: Any) -> Any:
        """The function's result as a field or a nested tuple of fields.

        Raises V20 for any other result, V21 where it contradicts the annotation.
        """
        if result is None:
            raise at_function(self.function, "V20", f"'{self.name}' returns nothing.", "add a return.")
        if not isinstance(result, (Traced, numbers.Number, tuple, list)) or _has_empty(result):
            returned = "an empty tuple" if isinstance(result, tuple | list) else article(type(result).__name__)
            message = f"'{self.name}' returns {returned}."
            raise at_function(self.function, "V20", message, "return a field, or a tuple of fields.")
        value = on_common_dims(result)
        expected = self.annotations.get("return")
        if (
            isinstance(expected, FieldType)
            and isinstance(value, Traced)
            and (value.element != expected.element or set(value.dims) - set(expected.dims))
        ):
            raise at_function(
                self.function, "V21", f"'{self.name}' is annotated to return {expected}, and returns {value.type}.",
                "correct the annotation, or convert the result.",
            )  # fmt: skip
        return value

    def values(self, plan: Plan, bound: Mapping[str, Any], provider: Mapping[str, Any] = NO_TABLES) -> dict[str, Any]:
        """The values of the fencil's parameters by name: arguments, members of tuples ("x_0"), coordinates and tables.

        Raises A07 for Python numbers that their element type cannot hold.
        """
        names = {p.name for p in plan.fencil.params}
        values: dict[str, Any] = {}
        for argument, value in bound.items():
            name = parameter_name(argument)
            values.update({name: value} if name in names else {n: v for n, v in _leaves(name, value) if n in names})
        refuse_beyond(plan.taken, values)
        values.update(Coordinates(bound).values(plan.coordinates))
        values.update({t: table_value(plan.fencil[t], provider[t]) for t in plan.tables})
        return values


def key_of_call(arguments: Mapping[Any, Any], looked: Collection[str], domain: Any) -> Hashable:
    """`call_key` of arguments and tables with the domain, if there is one; None for calls without a key."""
    key = call_key(arguments, looked)
    return key if key is None or domain is None else (key, domain_of(domain).items)


def bound_arguments(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], more: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, with defaults; raises V19 for a call that Python would refuse."""
    try:
        bound = signature.bind(*args, **more)
    except TypeError as problem:
        unknown = [n for n in more if n not in signature.parameters]
        hint = did_you_mean(unknown[0], signature.parameters) if unknown else f"it is {name}{signature}."
        raise refuse("V19", f"'{name}' is called wrongly: {problem}.", hint) from None
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    for further in [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]:
        arguments.update(arguments.pop(further))
    return arguments


def applied(function: Callable[..., Any], signature: inspect.Signature, values: Mapping[str, Any]) -> Any:
    """Call a function with arguments by name, passed by position or keyword as its signature has them.

    `*args` are given as a tuple under their name; names that the signature lacks go to `**kwargs`.
    """
    further = {n: v for n, v in values.items() if n not in signature.parameters}
    call = inspect.BoundArguments(signature, OrderedDict((n, v) for n, v in values.items() if n not in further))
    return function(*call.args, **call.kwargs, **further)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Traced) or (is_tuple(value) and any(map(_is_traced, value)))


def provided(offset_provider: Any) -> Mapping[str, Any]:
    """The tables of a call by name; raises V11 for what is no dict."""
    if offset_provider is None:
        return {}
    if not isinstance(offset_provider, Mapping):
        message = f"the offset_provider is {article(type(offset_provider).__name__)}."
        raise refuse("V11", message, "it is a dict of tables: offset_provider={'V2E': table}.")
    return cast("Mapping[str, Any]", offset_provider)


def _opened(
    name: str, value: Any, annotation: Any, params: list[Var], trace: Tracing, where: str, place: Mapping[int, Dims]
) -> Any:
    """The symbol for an argument without a type: a Python value unchanged, a tuple with a symbol for each member.

    Members with a type become parameters "name_0", "name_1", which are appended to `params`. `where` is the operator in
    messages, `place` has dims by `id(array)`.
    """
    if not is_tuple(value):
        return value
    members: list[Any] = []
    annotations = members_of_annotation(annotation, len(value))
    for k, (member, declared) in enumerate(zip(value, annotations, strict=True)):
        kind = argument_type(f"{name}[{k}]", member, declared, where, place)
        if kind is None:
            members.append(_opened(f"{name}_{k}", member, declared, params, trace, where, place))
        else:
            variable, stand_in = symbol(trace.fresh(f"{name}_{k}"), kind, member)
            params.append(variable)
            members.append(stand_in)
    return like(value, tuple(members))


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """A value and all members of its nested tuples, each with its name: `x`, "x_0", "x_0_1"."""
    if not is_tuple(value):
        return [(name, value)]
    return [(name, value), *(leaf for k, v in enumerate(value) for leaf in _leaves(f"{name}_{k}", v))]


def _refuse_ambiguous(name: str, plan: Plan, values: Mapping[str, Any]) -> None:
    """Raise V34 where a bare result has as many points as an argument, and starts at another one.

    For several results, also where one starts before all arguments. The points of bare arrays follow from the position:
    `shifted(x) - x` would subtract each point from itself.
    """
    arguments = [p for p in plan.fencil.params if p.name in values and p.name not in plan.tables]
    if any(kind_of(values[p.name]) in ("xarray", "field") for p in arguments):
        return
    dims = [p.type.dims for p in arguments]
    for output in plan.fencil.outputs:
        for dim, interval in output.type.dims.items:
            intervals = [d[dim] for d in dims if dim in d]
            wider = plan.shape is not None and bool(intervals) and all(i.start > interval.start for i in intervals)
            like = next((i for i in intervals if len(i) == len(interval)), intervals[0] if wider else interval)
            if like.start != interval.start:
                message = (
                    f"'{name}' gives {dim}{interval} of {dim}{like}, and a bare array cannot say which points it has"
                )
                raise refuse("V34", f"{message}.", "pass a ti.Field or a DataArray, or give out= and domain=.")


def _has_empty(result: Any) -> bool:
    """True for an empty tuple, and for one with an empty member."""
    return isinstance(result, tuple | list) and (not result or any(map(_has_empty, cast("list[Any]", result))))


def at_function(function: Callable[..., Any], code: str, message: str, help: str) -> DiagnosticError:
    """A diagnostic at the line where a function is defined."""
    return refuse(code, message, help, at=of_function(function))


# The decorator of functions on fields; what it is told of the function's result is what calls are said to give.
#
# A function without annotations returns what no type checker knows, which is taken as a field: an operator returns
# fields and numbers, which become fields, and tuples of them.


@overload
def field_operator(function: Callable[..., Field | float]) -> FieldOperator[Field]: ...
@overload
def field_operator(function: Callable[..., Named]) -> FieldOperator[Named]: ...
@overload
def field_operator(
    function: Callable[..., tuple[Field | float, Field | float]],
) -> FieldOperator[tuple[Field, Field]]: ...
@overload
def field_operator(
    function: Callable[..., tuple[Field | float, Field | float, Field | float]],
) -> FieldOperator[tuple[Field, Field, Field]]: ...
@overload
def field_operator(function: Callable[..., tuple[Field | float, ...]]) -> FieldOperator[tuple[Field, ...]]: ...
@overload
def field_operator(function: Callable[..., Result]) -> FieldOperator[Result]: ...
def field_operator(function: Callable[..., Any]) -> FieldOperator[Any]:
    """A function on fields, traced when it is called (GT4Py's decorator of this name).

    What it gives is called on DataArrays and Fields, whose dims go by name; on arrays of NumPy and JAX where parameters
    are annotated, `h: ti.Field[[I, J], ti.float64]`, which says the dims of axes and the element type; and on Datasets.
    It gives the kind that comes in, on the largest intervals on which all is there that it reads, or on `domain=`, with
    the labels and units that follow (A32 where units differ). Tables come in `offset_provider=`, and `out=` is written.

    >>> from tensorir.ir.dimensions import dims
    >>> from tensorir.ir.types import tensor
    >>> (I,) = dims("I")
    >>> @field_operator
    ... def rise(h):
    ...     return h(I + 1) - h
    >>> print(rise.fencil(h=tensor("float", I=(0, 5))))
    rise(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) {
      out ← ⟪I, 1⟫(h) - h;
    }
    """
    return FieldOperator(function, function)


# Scan operators: recurrences along an axis, written as a function of the state and of the fields at one level.

_Scan = Callable[[Callable[..., Any]], FieldOperator[Result]]


@overload
def scan_operator(*, axis: Dimension, forward: bool = True, init: float) -> _Scan[Field]: ...
@overload
def scan_operator(*, axis: Dimension, forward: bool = True, init: Named) -> _Scan[Named]: ...
@overload
def scan_operator(
    *, axis: Dimension, forward: bool = True, init: tuple[float, float]
) -> _Scan[tuple[Field, Field]]: ...
@overload
def scan_operator(
    *, axis: Dimension, forward: bool = True, init: tuple[float, float, float]
) -> _Scan[tuple[Field, Field, Field]]: ...
@overload
def scan_operator(*, axis: Dimension, forward: bool = True, init: tuple[float, ...]) -> _Scan[tuple[Field, ...]]: ...
@overload
def scan_operator(*, axis: Dimension, forward: bool = True, init: Any) -> _Scan[Any]: ...
def scan_operator(*, axis: Dimension, forward: bool = True, init: Any) -> _Scan[Any]:
    """A recurrence along an axis: the function gets the state and its fields at one level, and returns the next state.

    The result holds the state after each level, on the dims of the fields. `init` is a number, or a (named) tuple of
    numbers, and says the state's structure and element types. Units: those of `init` and the fields, which are the same
    where they are added (A32). Raises V23 where no field has the axis, V24 for a state of another type.

    >>> from tensorir.ir.dimensions import dims
    >>> from tensorir.ir.types import tensor
    >>> (K,) = dims("K")
    >>> @scan_operator(axis=K, init=0.0)
    ... def total(state, x):
    ...     return state + x
    >>> print(total.fencil(x=tensor("float", K=(0, 5))))
    total(out: tensor<float, K[0:5]>, x: tensor<float, K[0:5]>) {
      out ← scan(λ(state: tensor<float>, x_1: tensor<float>) → state + x_1, true, 0.0)(x);
    }
    """

    def decorate(function: Callable[..., Any]) -> FieldOperator[Any]:
        """The operator of a function of state and fields; raises V19 if it has no parameter for the state."""
        name, signature = name_of(function), inspect.signature(function)
        if not signature.parameters:
            raise at_function(function, "V19", f"'{name}' takes no state.", "write def f(state, x).")
        fields = signature.replace(parameters=list(signature.parameters.values())[1:])

        def body(*args: Any, **more: Any) -> Any:
            arguments = bound_arguments(name, fields, args, more)
            return _scanned(function, signature, str(axis), forward, init, arguments)

        operator: FieldOperator[Any] = FieldOperator(function, body, scan=(axis, forward, init))
        operator.signature = fields
        return operator

    return decorate


def _scan_operator(function: Callable[..., Any], axis: Dimension, forward: bool, init: Any) -> FieldOperator[Any]:
    """The scan operator of a function, with the options in the order of `FieldOperator.scan`, for pickles."""
    make = cast("Callable[..., Any]", scan_operator)
    return make(axis=axis, forward=forward, init=init)(function)


def _scanned(
    function: Callable[..., Any], signature: inspect.Signature, axis: str, forward: bool, init: Any,
    fields: dict[str, Any],
) -> Any:  # fmt: skip
    """The traced result of a scan: the function is traced on one level, and becomes the lambda of a `scan` call.

    The first parameter in `signature` is the state; `fields` are the others by name. Raises V20, V23 and V24.
    """
    trace = current()
    trace.named.add(axis)
    state = next(iter(signature.parameters))
    args = {n: wrap(v) for n, v in fields.items()}
    if not any(axis in a.dims for a in args.values()):
        message = f"no field of '{name_of(function)}' has the axis {axis}."
        raise refuse("V23", message, "pass a field that varies along it.", at=here())
    start = wrap(init)
    elements = [a.element for a in args.values() if not a.weak]
    start = _typed_init(init, start, elements)
    place = TensorType(start.element, bcast([a.type.dims.without(axis) for a in args.values()]))
    state_variable = build.var(trace.fresh(state), place)
    variables = {n: build.var(trace.fresh(n), a.type.on(a.type.dims.without(axis))) for n, a in args.items()}
    at_level = {n: like(fields[n], tuple_of(Traced(v, args[n].weak))) for n, v in variables.items()}
    trace.numbers.update({v: args[n].expr for n, v in variables.items() if args[n].weak})
    arrays = {id(v): known[1] for n, v in variables.items() if (known := trace.arguments.get(id(args[n].expr)))}
    trace.arguments.update({id(v): (v, arrays[id(v)]) for v in variables.values() if id(v) in arrays})
    trace.scanned.append(axis)
    result = applied(function, signature, {state: like(init, tuple_of(Traced(state_variable))), **at_level})
    trace.scanned.pop()
    if result is None:
        raise at_function(function, "V20", f"'{name_of(function)}' returns nothing.", "return the next state.")
    value = wrap(_as_state(result, place.element))
    if value.element != place.element:
        raise at_function(
            function, "V24", f"'{name_of(function)}' returns {value.element}, and its init is {place.element}.",
            "return the state in the structure of init.",
        )  # fmt: skip
    f = build.function([state_variable, *variables.values()], value.expr, span=here())
    scanned = build.scan(f, forward, start.expr, *(a.expr for a in args.values()), dim=axis, span=here())
    return like(result, tuple_of(assignable(scanned)))


def _typed_init(init: Any, start: Traced, elements: list[Any]) -> Traced:
    """`start`, or if all float `elements` of the fields are one type, `init` with its Python floats in that type."""
    floats = {e for e in elements if isinstance(e, Scalar) and e.is_float}
    if len(floats) != 1:
        return start
    (element,) = floats

    def typed(value: Any) -> Any:
        if is_tuple(value):
            return tuple(map(typed, value))
        return number_as(wrap(value), element) if isinstance(value, float) else wrap(value)

    return wrap(typed(init))


def _as_state(result: Any, element: Any) -> Any:
    """A returned state whose Python numbers have the element types of `init`, tuples member by member."""
    if is_tuple(result) and isinstance(element, TupleElement) and len(result) == len(element.members):
        return tuple(_as_state(r, m) for r, m in zip(result, element.members, strict=True))
    value = wrap(result) if not is_tuple(result) else result
    return number_as(value, element) if isinstance(value, Traced) and value.weak else value
