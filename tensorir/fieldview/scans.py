"""Scan operators: recurrences along an axis, written as a function of the state and of the fields at one level."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tensorir.binding.arrays import is_tuple
from tensorir.fieldview.array_types import Named, Result
from tensorir.fieldview.operator import FieldOperator, applied, at_function, bound_arguments
from tensorir.fieldview.signature import like
from tensorir.fieldview.trace import current, fail
from tensorir.fieldview.traced import Traced, assignable, number_as, tuple_of, wrap
from tensorir.ir import build
from tensorir.ir.dimensions import Dimension
from tensorir.ir.types import Scalar, TensorType, TupleElement, bcast
from tensorir.runtime.locations import here

if TYPE_CHECKING:
    from tensorir import Field

__all__ = ["scan_operator"]


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
        signature = inspect.signature(function)
        if not signature.parameters:
            raise at_function(function, "V19", f"'{function.__name__}' takes no state.", "write def f(state, x).")
        fields = signature.replace(parameters=list(signature.parameters.values())[1:])

        def body(*args: Any, **more: Any) -> Any:
            given = bound_arguments(function.__name__, fields, args, more)
            return _scanned(function, signature, str(axis), forward, init, given)

        operator: FieldOperator[Any] = FieldOperator(function, body)
        operator.signature = fields
        return operator

    return decorate


def _scanned(
    function: Callable[..., Any], signature: inspect.Signature, axis: str, forward: bool, init: Any,
    fields: dict[str, Any],
) -> Any:  # fmt: skip
    trace = current()
    trace.named.add(axis)
    state = next(iter(signature.parameters))
    args = {n: wrap(v) for n, v in fields.items()}
    if not any(axis in a.dims for a in args.values()):
        fail("V23", f"no field of '{function.__name__}' has the axis {axis}.", "pass a field that varies along it.")
    start = wrap(init)
    elements = [a.element for a in args.values() if not a.weak]
    start = _typed_init(init, start, elements)
    place = TensorType(start.element, bcast([a.type.dims.without(axis) for a in args.values()]))
    state_variable = build.var(trace.fresh(state), place)
    variables = {n: build.var(trace.fresh(n), a.type.on(a.type.dims.without(axis))) for n, a in args.items()}
    given = {n: like(fields[n], tuple_of(Traced(v, args[n].weak))) for n, v in variables.items()}
    trace.numbers.update({v: args[n].expr for n, v in variables.items() if args[n].weak})
    arrays = {id(v): known[1] for n, v in variables.items() if (known := trace.arguments.get(id(args[n].expr)))}
    trace.arguments.update({id(v): (v, arrays[id(v)]) for v in variables.values() if id(v) in arrays})
    trace.scanned.append(axis)
    result = applied(function, signature, {state: like(init, tuple_of(Traced(state_variable))), **given})
    trace.scanned.pop()
    if result is None:
        raise at_function(function, "V20", f"'{function.__name__}' returns nothing.", "return the next state.")
    value = wrap(_as_state(result, place.element))
    if value.element != place.element:
        raise at_function(
            function, "V24", f"'{function.__name__}' returns {value.element}, and its init is {place.element}.",
            "return the state in the structure of init.",
        )  # fmt: skip
    f = build.function([state_variable, *variables.values()], value.expr, span=here())
    scanned = build.scan(f, forward, start.expr, *(a.expr for a in args.values()), dim=axis, span=here())
    return like(result, tuple_of(assignable(scanned)))


def _typed_init(init: Any, start: Traced, elements: list[Any]) -> Traced:
    """Numbers of init in the element type of the fields, where the fields have one float type."""
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
    """Python numbers in a returned state take the types of init."""
    if is_tuple(result) and isinstance(element, TupleElement) and len(result) == len(element.members):
        return tuple(_as_state(r, m) for r, m in zip(result, element.members, strict=True))
    value = wrap(result) if not is_tuple(result) else result
    return number_as(value, element) if isinstance(value, Traced) and value.weak else value
