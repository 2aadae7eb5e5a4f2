"""`ti.Field`: an array with named intervals, as a pytree whose leaf is the array."""

from __future__ import annotations

import numbers
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy
import numpy as np

from lowering.tracing import for_an_operator
from tensorir.binding.arrays import (
    held,
    interval_of,
    intervals_of,
    kind_of,
    refuse_foreign,
    refuse_given_away,
    refuse_packed,
    refuse_repeated,
)
from tensorir.binding.labels import labels_of
from tensorir.integers.dims import Dims, Interval, interval_from
from tensorir.ir.dimensions import Dimension
from tensorir.ir.types import DTYPES, FLOAT64, Scalar, bcast, scalar_of
from tensorir.runtime.errors import DiagnosticError, article, did_you_mean, refuse


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """A method that is an operator on fields."""

    def method(self: Field) -> Any:
        return _operator(function)(self)

    return method


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A method for an operator on two fields, at their common points, or a field and a number; and its reflected
    method.
    """

    def method(self: Field, other: Any) -> Any:
        return _operator(function)(self, _of_type(other, self.dtype))

    def reflected(self: Field, other: Any) -> Any:
        return _operator(function)(_of_type(other, self.dtype), self)

    return method, reflected


def _equality(function: Callable[[Any, Any], Any], otherwise: bool) -> Callable[..., Any]:
    """A method for a comparison point by point with fields, arrays and numbers; for other objects it returns
    `otherwise`.
    """
    compared, _ = _binary(function)

    def method(self: Field, other: Any) -> Any:
        return compared(self, other) if kind_of(other) else otherwise

    return method


def _of_type(other: Any, dtype: Any) -> Any:
    """A Python number as a NumPy scalar of the field's element type; a float meeting integers, and other objects,
    unchanged.

    Raises A07 for a number that the type cannot hold.
    """
    if isinstance(other, (bool, np.generic)) or not isinstance(other, int if dtype.kind in "iu" else (int, float)):
        return other
    element = scalar_of(dtype)
    if element is None or not element.is_number:
        return other
    if not element.holds(other):
        hint = f"convert the field, field.data.astype('{'float64' if element.is_float else 'int64'}'), or the number."
        raise refuse("A07", f"the field is {element}, which cannot hold {other}.", hint)
    return np.asarray(other, dtype)[()]


OPERATORS: Mapping[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge, np.equal: operator.eq,
    np.not_equal: operator.ne, np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
}  # fmt: skip
"""NumPy's ufuncs for the operators of which a scalar of NumPy is the left operand and a field the right one."""


@cache
def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """The field operator of a Python operator; cached by it."""
    from tensorir.fieldview import field_operator

    if function in (abs, operator.neg, operator.invert):
        return field_operator(lambda x: function(x))
    return field_operator(lambda a, b: function(a, b))


class Field(eqx.Module):
    """An array (NumPy or JAX) whose axes are dims with integer intervals; arithmetic is that of field operators.

    >>> a, b = as_field({"I": (0, 3)}, np.array([1.0, 2.0, 3.0])), as_field({"I": (1, 4)}, np.ones(3))
    >>> a - b, (2 * a - b).data
    (Field(float64, I[1:3]), array([3., 5.]))

    >>> ((a > 1.5) & ~(a > 2.5)).data
    array([False,  True, False])

    >>> f = as_field({"I": (-1, 2)}, np.array([1.0, 2.0, 3.0]))
    >>> f
    Field(float64, I[-1:2])
    >>> f.to_xarray().coords["I"].values
    array([-1,  0,  1])
    """

    data: Any
    dims: Dims = eqx.field(static=True)
    _axes: tuple[str, ...] = eqx.field(static=True)
    """The names of the axes: dims are equal in any order, and what JAX traced for one is not for another."""

    def __init__(self, data: Any, dims: Dims) -> None:
        self.data, self.dims, self._axes = data, dims, dims.names

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def to_xarray(self, name: str | None = None, **attrs: Any) -> Any:
        """The field as a DataArray whose integer coordinates are its intervals."""
        import xarray as xr

        coords = {n: np.arange(i.start, i.stop) for n, i in self.dims.items}
        return xr.DataArray(np.asarray(self), dims=self.dims.names, coords=coords, name=name, attrs=attrs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        refuse_given_away(self.data, "field")
        return np.array(self.data, dtype) if copy else np.asarray(self.data, dtype)

    def __jax_array__(self) -> Field:
        """The field itself for an operator of JAX arrays, which then asks the field; raises V35 for JAX's functions."""
        if for_an_operator():
            return self  # which JAX does not take for an array either, so that the field is asked
        message = "JAX's functions know no dims, and those of a field would be lost"
        raise refuse("V35", f"{message}.", "np.sin(x) and operators keep them; x.data is the array alone.")

    __neg__, __abs__ = _unary(operator.neg), _unary(abs)
    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow)
    __lt__, __gt__ = _binary(operator.lt)
    __le__, __ge__ = _binary(operator.le)
    __eq__, __ne__ = _equality(operator.eq, False), _equality(operator.ne, True)
    __hash__ = eqx.Module.__hash__
    __invert__ = _unary(operator.invert)
    __and__, __rand__ = _binary(operator.and_)
    __or__, __ror__ = _binary(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift)
    __divmod__, __rdivmod__ = _binary(divmod)

    def __bool__(self) -> bool:
        """The truth of a single element; raises V04 for fields of several."""
        if self.data.size == 1:
            return bool(self.data)
        message = "whether a field is true differs from point to point."
        raise refuse("V04", message, "choose with ti.where(condition, a, b), or ask x.all() or x.any().")

    def __getitem__(self, places: Any) -> Field:
        """The field at a coordinate, or on an interval, of some of its dims: `f[{I: 2, J: (0, 4)}]`.

        A coordinate removes its dim. Raises A03 for a dim that the field lacks, and for points outside of it.

        >>> f = as_field({"I": (-1, 2), "J": (0, 2)}, np.arange(6.0).reshape(3, 2))
        >>> f[{"I": 1}], f[{"I": (0, 2)}][{"J": 1}].data
        (Field(float64, J[0:2]), array([3., 5.]))
        """
        if not isinstance(places, Mapping):
            raise refuse("A03", f"{places!r} says no dim.", "write f[{I: 2}], or f[{I: (0, 4)}] for an interval.")
        place_of = {str(dim): place for dim, place in places.items()}
        index: list[Any] = []
        remaining_dims: list[tuple[str, Interval]] = []
        for name in place_of.keys() - set(self.dims.names):
            raise refuse("A03", f"the field has no dim {name}, only {self.dims}.", did_you_mean(name, self.dims.names))
        for name, interval in self.dims.items:
            place = place_of.get(name, interval)
            interval_read = _interval_named(place, interval)
            if interval_read is None:
                raise refuse("A03", f"{name} is {name}{interval}, and {place} lies outside of it.")
            start, stop = interval_read.start - interval.start, interval_read.stop - interval.start
            index.append(slice(start, stop) if not _is_coordinate(place) else start)
            if not _is_coordinate(place):
                remaining_dims.append((name, interval_read))
        return Field(self.data[tuple(index)], Dims(tuple(remaining_dims)))

    def sum(self, *dims: Any, **numpy: Any) -> Any:
        """The sum over some dims, or over all: a field, or a number where no dim is left.

        >>> f = as_field({"I": 2, "J": 3}, np.arange(6.0).reshape(2, 3))
        >>> f.sum("J").data, f.sum()
        (array([ 3., 12.]), np.float64(15.0))
        """
        return self._reduced("sum", dims, numpy)

    def prod(self, *dims: Any, **numpy: Any) -> Any:
        """The product over some dims, or over all."""
        return self._reduced("prod", dims, numpy)

    def mean(self, *dims: Any, **numpy: Any) -> Any:
        """The mean over some dims, or over all."""
        return self._reduced("mean", dims, numpy)

    def max(self, *dims: Any, **numpy: Any) -> Any:
        """The largest element over some dims, or over all."""
        return self._reduced("max", dims, numpy)

    def min(self, *dims: Any, **numpy: Any) -> Any:
        """The smallest element over some dims, or over all."""
        return self._reduced("min", dims, numpy)

    def all(self, *dims: Any, **numpy: Any) -> Any:
        """True if every element over some dims, or over all, is true."""
        return self._reduced("all", dims, numpy)

    def any(self, *dims: Any, **numpy: Any) -> Any:
        """True if some element over some dims, or over all, is true."""
        return self._reduced("any", dims, numpy)

    def _reduced(self, method: str, dims: Sequence[Any], numpy: Mapping[str, Any]) -> Any:
        """The reduction by a method of arrays over `dims`, over all if none are given: a field, or a number without
        dims.

        `numpy`: the options that `np.sum(f)` and its like pass on; all must be None (A03).
        """
        for word, value in numpy.items():
            if value is not None:
                raise refuse("A03", f"a field has dims with names and no {word}.", f'write f.{method}("I").')
        names = [str(d) for d in dims] or list(self.dims.names)
        for name in names:
            if name not in self.dims:
                hint = did_you_mean(name, self.dims.names)
                raise refuse("A03", f"the field has no dim {name}, only {self.dims}.", hint)
        data = getattr(self.data, method)(axis=tuple(self.dims.names.index(n) for n in names))
        remaining = self.dims.without(*names)
        return Field(data, remaining) if remaining else data

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's elementwise functions of fields and numbers, at the points that all fields have.

        >>> a, b = as_field({"I": (0, 3)}, np.array([1.0, 4.0, 9.0])), as_field({"I": (1, 4)}, np.ones(3))
        >>> np.hypot(np.sqrt(a), b), np.sqrt(a).data
        (Field(float64, I[1:3]), array([1., 2., 3.]))
        """
        if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
            return NotImplemented
        if any(not isinstance(x, Field) and np.ndim(x) for x in inputs):
            message = f"an array without names meets a field in {ufunc.__name__}."
            raise refuse("A03", message, "name its axes: ti.as_field({'I': (0, 10)}, array).")
        if isinstance(inputs[0], np.generic) and ufunc in OPERATORS:
            return _operator(OPERATORS[ufunc])(*inputs)  # as the other way round: the types are to be equal
        function = ufunc
        if any(isinstance(x, Field) and isinstance(x.data, jax.Array) for x in inputs):
            function = getattr(jax.numpy, ufunc.__name__, ufunc)
        try:
            dims = bcast([x.dims for x in inputs if isinstance(x, Field)])
        except DiagnosticError as error:
            (refused,) = error.diagnostics
            raise refuse("A03", refused.message, refused.help) from None
        dtype = np.result_type(*(x.dtype for x in inputs if isinstance(x, Field)))
        operands = (_broadcastable(x, dims) if isinstance(x, Field) else _of_type(x, dtype) for x in inputs)
        return Field(function(*operands), dims)

    def __repr__(self) -> str:
        return f"Field({getattr(self.data, 'dtype', self.data)}, {self.dims})"

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import field_page

        return field_page(self)

    def __class_getitem__(cls, parameters: Any) -> Any:
        from tensorir.fieldview.array_types import FieldType

        return FieldType.of(parameters)


def _is_coordinate(place: Any) -> bool:
    return isinstance(place, numbers.Integral)


def _interval_named(place: Any, interval: Interval) -> Interval | None:
    """The interval that a coordinate, a pair, a slice or an Interval names; None if it is not contained in
    `interval`.
    """
    match place:
        case slice(start=start, stop=stop, step=None):
            ends = interval.start if start is None else start, interval.stop if stop is None else stop
        case _ if _is_coordinate(place):
            ends = place, place + 1
        case _:
            ends = place
    if (named := interval_from(ends)) is None:
        raise refuse("A03", f"{place!r} is no place along a dim.", "write a number, or an interval: (0, 4).")
    return named if interval.covers(named) and named.stop >= named.start else None


def _broadcastable(field: Field, dims: Dims) -> Any:
    """The array of a field on the intervals of `dims`, with an axis for each of them, of extent 1 for dims that it
    lacks.
    """
    names = [n for n in dims.names if n in field.dims]
    data = field.data[tuple(slice(dims[n].start - i.start, dims[n].stop - i.start) for n, i in field.dims.items)]
    data = data.transpose([field.dims.names.index(n) for n in names])
    return data.reshape([len(dims[n]) if n in field.dims else 1 for n in dims.names])


def _dims_of_domain(domain: Any, shape: tuple[int, ...] | None = None) -> Dims:
    """The dims of a domain: a dict of intervals or extents, or names alone with the extents of `shape`; raises A03."""
    if isinstance(domain, Dims):
        return domain
    if isinstance(domain, Mapping):
        intervals: list[tuple[str, Interval]] = []
        for name, interval in domain.items():
            named = interval_from((0, interval) if _is_coordinate(interval) else interval)
            if named is None or named.stop < named.start:
                message = f"{name}: {interval if named is None else named} is no interval."
                raise refuse("A03", message, f"write {{{name}: (0, 10)}}, or a number.")
            intervals.append((str(name), named))
        refuse_repeated(n for n, _ in intervals)
        return Dims(tuple(intervals))
    names = [domain] if isinstance(domain, (Dimension, str)) or not np.iterable(domain) else list(domain)
    if not all(isinstance(n, (Dimension, str)) for n in names):
        message = f"the domain is {article(type(domain).__name__)}, and a domain names dims."
        raise refuse("A03", message, "dims come first: ti.as_field([I, J], x), ti.zeros({I: 10}).")
    refuse_repeated(map(str, names))
    if shape is None:
        listed = ", ".join(map(str, names))
        raise refuse("A03", f"nothing says how many points {listed} have.", f"write {{{names[0]}: 10}}.")
    if len(names) != len(shape):
        raise refuse("A03", f"{len(names)} dims are named, and the array has {len(shape)} axes.")
    return Dims(tuple((str(n), Interval(0, s)) for n, s in zip(names, shape, strict=True)))


def as_field(domain: Any, data: Any = None, *, origin: Any = None) -> Field:
    """An array as a field, or a DataArray, which names its dims itself: `as_field(x)`.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: (-1, 5)}`, or dims alone, which then
    start at 0. `data` is kept as it is, an array of NumPy or JAX of the domain's shape; a field has no units.

    Integer coordinates of a DataArray give intervals, other dims start at 0 or at `origin[dim]`. Labels that are no
    points (degrees, dates) are left out, since a field has none: a warning says so, but for dims of `origin` and those
    without an index (`ti.drop_indexes`). Axes keep their order.

    Raises A01 for an array without names of dims, A02 for an element type that the IR does not have, A03 for a wrong
    shape, and for arguments in another order.
    """
    if kind_of(domain) == "xarray":
        return _of_data_array(domain, data if origin is None else origin)
    if data is None:
        message = f"'domain' is {article(type(domain).__name__)}, and no array that names its dims."
        raise refuse("A01", message, "name them: ti.as_field([I, J], array), or xr.DataArray(array, dims=('I', 'J')).")
    if origin is not None:
        raise refuse("A03", "origin goes with a DataArray, and a domain says itself where dims begin.", "leave it out.")
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    dims = _dims_of_domain(domain, tuple(data.shape))
    if scalar_of(data.dtype) is None:
        raise refuse("A02", f"there is no element type {data.dtype}.", "convert it, for example to float64.")
    if dims.shape != tuple(data.shape):
        raise refuse("A03", f"the domain {dims} has the shape {dims.shape}, and the array {tuple(data.shape)}.")
    return Field(data, dims)


def full(domain: Any, value: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field that holds one value, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`. Raises A02 for a float in a
    field of integers, a number in one of bools and what is no number, and A07 for a number beyond the type.

    >>> full({"I": 3}, 7.0).data
    array([7., 7., 7.])
    """
    dims = _dims_of_domain(domain)
    if not isinstance(dtype, Scalar):
        raise refuse("A02", f"{dtype!r} is no element type.", "write ti.float32, or another one of ti.")
    number = value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value
    if not isinstance(number, numbers.Real):
        raise refuse("A02", f"the value is {article(type(value).__name__)}, and no real number.", "write a number.")
    if dtype.is_integer and not isinstance(number, numbers.Integral):
        raise refuse("A02", f"the value {number} is a float, and the field is {dtype}.", "write a whole number.")
    if not dtype.is_number and number not in (0, 1):
        raise refuse("A02", f"the value {number} is a number, and the field is {dtype}.", "write True or False.")
    held(number, "value", dtype)
    return Field(np.full(dims.shape, number, DTYPES[dtype]), dims)


def zeros(domain: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field of zeros, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`.
    """
    return full(domain, 0, dtype)


def ones(domain: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field of ones, in NumPy memory.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: 5}`.
    """
    return full(domain, 1, dtype)


def _of_data_array(array: Any, origin: Any) -> Field:
    """A DataArray as a field: integer coordinates are intervals, other dims start at 0 or at `origin`; warns of lost
    labels.
    """
    if not isinstance(origin or {}, Mapping) or not all(
        isinstance(i, numbers.Integral) for i in (origin or {}).values()
    ):
        message = "a DataArray names its dims itself, and 'origin' maps some of them to where they begin."
        raise refuse("A03", message, "write ti.as_field(x), or ti.as_field(x, origin={'I': 0}).")
    refuse_foreign(array, str(array.name or "array"))
    refuse_packed(array, str(array.name or "array"))
    starts = {str(k): int(v) for k, v in (origin or {}).items()}
    dims = intervals_of(array, starts)
    for name, interval in dims.items:
        labels = labels_of(array, name)
        if labels is not None and len(labels) and interval_of(labels) is None and name not in starts:
            lost = f"those along {name} ({labels[0]}, ...) are left out: it is {name}{interval}"
            hint = f"assign_coords({name}=...) puts them back, origin={{'{name}': 0}} says it is meant"
            warnings.warn(f"a field has no labels, and {lost}; field.to_xarray().{hint}", stacklevel=2)
    return as_field(dims, array.data)
