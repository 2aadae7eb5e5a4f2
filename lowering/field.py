"""`ti.Field`: an array with named intervals, as a pytree whose leaf is the array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import numpy as np

from tensorir.arrays import intervals_of, refuse, refuse_given_away
from tensorir.types import DTYPES, FLOAT64, Dims, Interval, Scalar, scalar_of

__all__ = ["Field", "as_field", "from_xarray", "full", "ones", "zeros"]


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """A method that is an operator on fields."""

    def method(self: Field) -> Any:
        return _operator(function)(self)

    return method


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The same of two fields, on the points that both have, or of a field and a number; and the other way round."""

    def method(self: Field, other: Any) -> Any:
        return _operator(function)(self, _of_type(other, self.dtype))

    def reflected(self: Field, other: Any) -> Any:
        return _operator(function)(_of_type(other, self.dtype), self)

    return method, reflected


def _of_type(other: Any, dtype: Any) -> Any:
    """A number of Python takes the element type of the field that it meets; a float never becomes an integer."""
    if isinstance(other, bool) or not isinstance(other, int if dtype.kind in "iu" else (int, float)):
        return other
    return np.asarray(other, dtype)[()]


@cache
def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    from tensorir.fieldview import field_operator

    if function in (abs, operator.neg):
        return field_operator(lambda x: function(x))
    return field_operator(lambda a, b: function(a, b))


class Field(eqx.Module):
    """An array (NumPy or JAX) whose axes are dims with integer intervals; arithmetic is that of field operators.

    >>> a, b = as_field({"I": (0, 3)}, np.array([1.0, 2.0, 3.0])), as_field({"I": (1, 4)}, np.ones(3))
    >>> a - b, (2 * a - b).data
    (Field(float64, I[1:3]), array([3., 5.]))

    >>> f = as_field({"I": (-1, 2)}, np.array([1.0, 2.0, 3.0]))
    >>> f
    Field(float64, I[-1:2])
    >>> f.to_xarray().coords["I"].values
    array([-1,  0,  1])
    """

    data: Any
    dims: Dims = eqx.field(static=True)

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

    def __repr__(self) -> str:
        return f"Field({getattr(self.data, 'dtype', self.data)}, {self.dims})"

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import field_page

        return field_page(self)

    def __class_getitem__(cls, parameters: Any) -> Any:
        from tensorir.annotations import FieldType

        return FieldType.of(parameters)


def _dims(domain: Any, shape: tuple[int, ...] | None = None) -> Dims:
    if isinstance(domain, Dims):
        return domain
    if isinstance(domain, dict):
        found: list[tuple[str, Interval]] = []
        for name, interval in domain.items():
            match interval:
                case int():
                    interval = Interval(0, interval)
                case (start, stop):
                    interval = Interval(int(start), int(stop))
                case _:
                    pass
            if not isinstance(interval, Interval) or interval.stop < interval.start:
                raise refuse("A03", f"{name}: {interval} is no interval.", f"write {{{name}: (0, 10)}}, or a number.")
            found.append((str(name), interval))
        return Dims(tuple(found))
    assert shape is not None
    names = list(domain)
    if len(names) != len(shape):
        raise refuse("A03", f"{len(names)} dims are named, and the array has {len(shape)} axes.")
    return Dims(tuple((str(n), Interval(0, s)) for n, s in zip(names, shape, strict=True)))


def as_field(domain: Any, data: Any) -> Field:
    """An array as a field.

    `domain`: dims in the order of the axes with their intervals, `{I: (0, 10), J: (-1, 5)}`, or dims alone, which
    then start at 0. Raises A02 for an element type that the IR does not have, A03 for a wrong shape.
    """
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    if scalar_of(data.dtype) is None:
        raise refuse("A02", f"there is no element type {data.dtype}.", "convert it, for example to float64.")
    dims = _dims(domain, tuple(data.shape))
    if dims.shape != tuple(data.shape):
        raise refuse("A03", f"the domain {dims} has the shape {dims.shape}, and the array {tuple(data.shape)}.")
    return Field(data, dims)


def full(domain: Any, value: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field that holds one value, in NumPy memory.

    >>> full({"I": 3}, 7.0).data
    array([7., 7., 7.])
    """
    dims = _dims(domain)
    return Field(np.full(dims.shape, value, DTYPES[dtype]), dims)


def zeros(domain: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field of zeros, in NumPy memory."""
    return full(domain, 0, dtype)


def ones(domain: Any, dtype: Scalar = FLOAT64) -> Field:
    """A field of ones, in NumPy memory."""
    return full(domain, 1, dtype)


def from_xarray(array: Any, origin: Any = None) -> Field:
    """A DataArray as a field: integer coordinates give intervals, other dims start at 0 or at `origin[dim]`."""
    starts = {str(k): int(v) for k, v in (origin or {}).items()}
    return as_field(intervals_of(array, starts), array.data)
