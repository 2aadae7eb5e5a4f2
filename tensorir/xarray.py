"""The accessors `da.tensorir` and `ds.tensorir`: what this package does with labelled arrays, read from the left.

Importing this module puts them on DataArrays and Datasets; so do `import tensorir` and `import xarray`, in any order.

>>> import numpy as np
>>> import tensorir as ti
>>> import tensorir.xarray
>>> import xarray as xr
>>> (I,) = ti.dims("I")
>>> h = xr.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": [0, 1, 2]})
>>> h.tensorir.intervals["I"]
Interval(0, 3)
>>> h.tensorir.extend({I: 1}, ti.boundary.periodic()).values
array([4., 1., 2., 4., 1.])

Shifts have opposite signs here and there. An operator's `h(I + 1)` is the field whose value at i is h[i + 1]; xarray's
`h.shift(I=1)` has h[i - 1] at i, keeps the coordinates, and puts NaN where nothing is:

>>> @ti.field_operator
... def after(h):
...     return h(I + 1)
>>> h.tensorir.apply(after).sel(I=0).item(), h.shift(I=-1).sel(I=0).item()
(2.0, 2.0)
>>> h.tensorir.apply(after).coords["I"].values, h.shift(I=-1).values
(array([-1,  0,  1]), array([ 2.,  4., nan]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import xarray

from tensorir.binding.arrays import intervals_of
from tensorir.inspect.intermediates import Inspection
from tensorir.integers.dims import Interval, interval_from
from tensorir.ir.types import TensorType, scalar_of
from tensorir.runtime.errors import refuse

__all__ = ["Accessor", "DatasetAccessor"]


Labelled = TypeVar("Labelled", xarray.DataArray, xarray.Dataset)


class Calls(Generic[Labelled]):
    """`x.tensorir` of DataArrays and Datasets: operators, time loops and gradients of the whole."""

    def __init__(self, array: Labelled) -> None:
        self._array = array

    def apply(self, operator: Callable[..., Any], *more: Any, keep_attrs: bool | None = None, **options: Any) -> Any:
        """An operator of this array and further arguments: `da.tensorir.apply(lap)` is `lap(da)`.

        `keep_attrs` is xarray's: all attributes (but a unit that does not follow) or none; by default those that hold
        for the result.

        >>> x = xarray.DataArray([1.0, 2.0], dims="I", attrs={"source": "buoy"})
        >>> x.tensorir.apply(lambda x, a: a * x, 3.0, keep_attrs=False)
        <xarray.DataArray (I: 2)> Size: 16B
        array([3., 6.])
        Dimensions without coordinates: I
        """
        if keep_attrs is None:
            return operator(self._array, *more, **options)
        with xarray.set_options(keep_attrs=keep_attrs):
            return operator(self._array, *more, **options)

    def iterate(self, step: Callable[..., Any], n: int, **options: Any) -> Any:
        """The array after n steps: `ti.iterate(step, da, n, ...)`.

        >>> xarray.DataArray([8.0, 4.0], dims="I").tensorir.iterate(lambda x: 0.5 * x, 2).values
        array([2., 1.])
        """
        import tensorir

        return tensorir.iterate(step, self._array, n, **options)  # type: ignore[reportUnknownVariableType]

    def grad(self, loss: Callable[..., Any], *more: Any, **options: Any) -> Labelled:
        """The gradient of a loss by this array, at this array: `ti.grad(loss, ...)(da, *more)`.

        >>> xarray.DataArray([3.0, 4.0], dims="I").tensorir.grad(lambda x: (x * x).sum()).values
        array([6., 8.])
        """
        import tensorir

        slopes: Labelled = tensorir.grad(loss, **options)(self._array, *more)
        return slopes


class Accessor(Calls[xarray.DataArray]):
    """`da.tensorir`; there is no `shift`, whose sign xarray's own method has the other way round."""

    @property
    def type(self) -> TensorType:
        """The element type and the interval of every dim; raises A02 for an element type that there is not.

        A dimension coordinate of ascending integers with unit step gives the interval; others start at 0.

        >>> xarray.DataArray([1.0, 2.0], dims="I", coords={"I": [3, 4]}).tensorir.type
        tensor<float, I[3:5]>
        """
        element = scalar_of(self._array.dtype)
        if element is None:
            kind = self._array.dtype
            raise refuse("A02", f"there is no element type {kind}.", "convert it, for example to float64.")
        return TensorType(element, intervals_of(self._array, {}))

    @property
    def intervals(self) -> dict[str, Interval]:
        """The interval of every dim.

        >>> xarray.DataArray([[1.0, 2.0]], dims=("I", "J")).tensorir.intervals
        {'I': Interval(0, 1), 'J': Interval(0, 2)}
        """
        return dict(intervals_of(self._array, {}).items)

    def field(self, origin: Mapping[Any, int] | None = None) -> Any:
        """The array as a `ti.Field`; dims without integer coordinates start at 0, or at `origin[dim]`.

        >>> xarray.DataArray([1.0, 2.0], dims="I").tensorir.field({"I": -1})
        Field(float64, I[-1:1])
        """
        import tensorir

        return tensorir.as_field(self._array, origin=origin)

    def inspect(self, operator: Any, *more: Any, **options: Any) -> Inspection:
        """The intermediates of an operator of this array and further arguments.

        >>> import tensorir as ti
        >>> @ti.field_operator
        ... def quartic(x):
        ...     square = x * x
        ...     return square * square
        >>> xarray.DataArray([1.0, 2.0], dims="I").tensorir.inspect(quartic)["square"].values
        array([1., 4.])
        """
        return operator.inspect(self._array, *more, **options)

    def extend(self, widths: Mapping[Any, int | tuple[int, int]], bc: Any) -> xarray.DataArray:
        """The array with halos (`ti.extend`): shapes grow by the widths, coordinates of integers go on.

        >>> import tensorir as ti
        >>> xarray.DataArray([1.0, 2.0], dims="I").tensorir.extend({"I": (0, 1)}, ti.boundary.dirichlet(0)).values
        array([1., 2., 0.])
        """
        import tensorir

        return tensorir.extend(self._array, widths, bc)

    def with_boundary(self, widths: Mapping[Any, int | tuple[int, int]], bc: Any) -> xarray.DataArray:
        """The array with its outermost points renewed from those inside (`ti.with_boundary`).

        >>> import tensorir as ti
        >>> xarray.DataArray([9.0, 2.0, 9.0], dims="I").tensorir.with_boundary({"I": 1}, ti.boundary.neumann()).values
        array([2., 2., 2.])
        """
        import tensorir

        return tensorir.with_boundary(self._array, widths, bc)

    def on(self, domain: Mapping[Any, Any]) -> xarray.DataArray:
        """The points in intervals by dim, such as `{I: (4, 9)}`; raises A05 for a dim and A06 for points not there.

        >>> xarray.DataArray([1.0, 2.0, 4.0], dims="I", coords={"I": [5, 6, 7]}).tensorir.on({"I": (6, 8)}).values
        array([2., 4.])
        """
        have = self.intervals
        index: dict[str, slice] = {}
        for key, wanted in domain.items():
            dim = str(key)
            if (need := interval_from(wanted)) is None:
                raise refuse("A06", f"{dim}: {wanted!r} is no interval.", f"write {{{dim}: (0, 10)}}.")
            if dim not in have:
                raise refuse("A05", f"the array has no dim {dim}, only {', '.join(have)}.")
            if not have[dim].covers(need):
                raise refuse("A06", f"{dim}{need} is asked for, and the array has {dim}{have[dim]}.")
            index[dim] = slice(need.start - have[dim].start, need.stop - have[dim].start)
        part: Any = self._array.isel(index)
        # an interval that does not start at 0 is kept by a coordinate of its own
        starts = {d: have[d].start + s.start for d, s in index.items() if d not in part.coords}
        return part.assign_coords({d: np.arange(k, k + part.sizes[d]) for d, k in starts.items() if k})

    def domain(self) -> Any:
        """The intervals as a picture; see `ti.inspect.domains` for those of a program."""
        from tensorir.inspect.needed_points import Box, drawn

        return drawn([Box(str(self._array.name or "array"), intervals_of(self._array, {}), "in")])

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import page_of

        return page_of(self.type)

    def __repr__(self) -> str:
        return f"<tensorir accessor of {self.type}>"


class DatasetAccessor(Calls[xarray.Dataset]):
    """`ds.tensorir`: an operator is called with every variable that has its dims.

    >>> (I,) = __import__("tensorir").dims("I")
    >>> ds = xarray.Dataset({"h": ("I", [1.0, 4.0, 9.0]), "c": 7.0})
    >>> ds.tensorir.apply(lambda h: 2.0 * h).h.values
    array([ 2.,  8., 18.])
    """

    @property
    def types(self) -> dict[str, TensorType]:
        """The type of every variable.

        >>> xarray.Dataset({"h": ("I", [1.0, 2.0]), "n": 3}).tensorir.types
        {'h': tensor<float, I[0:2]>, 'n': tensor<int64>}
        """
        return {str(name): Accessor(variable).type for name, variable in self._array.data_vars.items()}

    def __repr__(self) -> str:
        return "<tensorir accessor of a Dataset>"


if "tensorir" not in vars(xarray.DataArray):
    registers: Any = xarray  # its decorators have no complete types
    registers.register_dataarray_accessor("tensorir")(Accessor)
    registers.register_dataset_accessor("tensorir")(DatasetAccessor)
