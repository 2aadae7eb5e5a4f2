"""DataArrays and Datasets as pytrees of JAX: the numbers are leaves, dims and labels are structure.

What JAX takes apart and puts together again is xarray's own around arrays of JAX, or tracers, so that xarray computes
with it in steps, losses and jitted functions as it does outside of them.

>>> import xarray as xr
>>> register()
>>> h = xr.DataArray([1.0, 2.0], {"lat": [50.0, 60.0]}, name="h", attrs={"units": "K"})
>>> jax.jit(lambda h: 2.0 * h.sel(lat=[60.0]))(h).lat.values
array([60.])

The structure is dims and indexes, and outside of traces units: what was traced for kelvin is not for degrees. Names,
other attributes and coordinates without an index are none, so that another date or history compiles nothing anew. What
a transformation of JAX gives back has none of these, since they would be those of the arrays that it was traced for;
the transformations of this package (`lowering/loops`) put them back.

What is private in xarray stands in this file and in `tensorir/binding`, at the edge; `test_labelled_arrays.py` and
`test_repeated_labels.py` of `tests/calls` hold it to its versions.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from lowering.field import Field
from tensorir.binding.arrays import Unread
from tensorir.binding.repeated import call_key, contents_of, field_of
from tensorir.binding.results import variable_of
from tensorir.ir.types import scalar_of
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.runtime.locations import raised_at


def is_data_array(value: Any) -> bool:
    xarray: Any = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.DataArray)


def is_dataset(value: Any) -> bool:
    xarray: Any = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.Dataset)


def is_labelled(value: Any) -> bool:
    """True for DataArrays and Datasets."""
    xarray: Any = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, (xarray.DataArray, xarray.Dataset))


def is_named(value: Any) -> bool:
    """True for DataArrays, Datasets and Fields."""
    xarray: Any = sys.modules.get("xarray")  # asked of every leaf
    return type(value) is Field or (xarray is not None and isinstance(value, (xarray.DataArray, xarray.Dataset)))


def is_tracer(x: Any) -> bool:
    return isinstance(x, Tracer)


class Structure:
    """A DataArray or a Dataset without its numbers: dims, indexes, and what else goes with them.

    Two are equal that have the same dims and labels, and, where both stand outside of traces, the same units.
    """

    __slots__ = (
        "about", "attrs", "contents", "coords", "dataset", "indexes", "labels", "members", "name", "order", "outside",
        "rest", "sizes", "traced",
    )  # fmt: skip

    def __init__(self, array: Any) -> None:
        """The structure of a DataArray or Dataset: dims, indexes, coordinates and attributes, without the numbers."""
        self.dataset = is_dataset(array)
        self.indexes: Mapping[Any, Any] = array._indexes
        self.name: Any = None if self.dataset else array._name
        self.attrs: Mapping[Any, Any] = dict(array.attrs) if self.dataset else {}
        variables: Mapping[Any, Any] = array._variables if self.dataset else {None: array._variable, **array._coords}
        numeric = [n for n in array.data_vars if is_numeric(variables[n])] if self.dataset else [None]
        self.members = tuple([(n, variables[n]._dims, dict(variables[n]._attrs or ())) for n in numeric])
        """The name, dims and attributes of each variable whose numbers are leaves; None is the name in a DataArray."""
        self.rest = {n: v for n, v in variables.items() if n not in numeric}
        """Coordinates, and variables that are no numbers."""
        self.contents = contents_of(self.rest, self.indexes, self.rest)
        """Their labels or numbers as they are now, since these may be changed in place; None where that is not told."""
        self.labels = [self.contents[n] or self.indexes[n] for n in self.indexes]
        self.about = {n: dict(v._attrs or ()) for n, v in self.rest.items()}
        """Their attributes."""
        self.traced = tuple([n for n, v in self.rest.items() if isinstance(v._data, Tracer)])
        """Coordinates whose numbers are leaves, too: those that a trace computed."""
        self.outside = True not in [isinstance(variables[n]._data, Tracer) for n in numeric]
        """True outside of traces, where units are structure."""
        self.order = tuple(variables)
        array_variable = variables.get(None)
        self.sizes = dict(
            array.sizes
            if array_variable is None
            else zip(array_variable._dims, array_variable._data.shape, strict=True)
        )
        self.coords = frozenset(array._coord_names) if self.dataset else frozenset(self.rest)

    def __hash__(self) -> int:
        return hash((self.dataset, *[(n, d) for n, d, _ in self.members], *self.indexes, self.traced))

    def __eq__(self, other: object) -> bool:
        """True if a program traced for one structure holds for the other."""
        if self is other:
            return True
        if not isinstance(other, Structure):
            return NotImplemented
        return (
            self.dataset == other.dataset
            and [(n, d) for n, d, _ in self.members] == [(n, d) for n, d, _ in other.members]
            and self.traced == other.traced
            and self.indexes.keys() == other.indexes.keys()
            and (self.labels == other.labels or all(self._agrees(n, other) for n in self.indexes))
            and (not self.dataset or all(self._agrees_in_text(n, other) for n in self.texts))
            and not (self.outside and other.outside and self.units != other.units)
        )

    @property
    def texts(self) -> dict[Any, Any]:
        """The variables of a Dataset that are no numbers."""
        return {n: v for n, v in self.rest.items() if n not in self.coords}

    @property
    def units(self) -> list[str]:
        """The units of each variable, "" for none."""
        return [str(attrs.get("units", "")) for _, _, attrs in self.members]

    def __repr__(self) -> str:
        kind = "Dataset" if self.dataset else "DataArray"
        return f"{kind}({', '.join(f'{d}: {n}' for d, n in self.sizes.items())})"

    def is_as(self, other: Structure) -> bool:
        """True if names, attributes and coordinates without an index are equal, too; a stronger comparison than ==."""
        return self is other or (
            self == other
            and (self.name, self.order, self.sizes, self.coords) == (other.name, other.order, other.sizes, other.coords)
            and _same_attributes(self.attrs, other.attrs)
            and all(_same_attributes(a, b) for (_, _, a), (_, _, b) in zip(self.members, other.members, strict=True))
            and all(_same_attributes(a, other.about[n]) for n, a in self.about.items())
            and all(n in self.traced or self._agrees(n, other) for n in self.rest)
        )

    def _agrees(self, name: Any, other: Structure) -> bool:
        """True if a coordinate, or a variable without numbers, has equal contents in both structures."""
        own_contents, other_contents = self.contents[name], other.contents[name]
        if own_contents is not None and other_contents is not None:
            return own_contents == other_contents
        if (index := self.indexes.get(name)) is not None:
            return index is other.indexes[name] or bool(index.equals(other.indexes[name]))
        a, b = self.rest[name], other.rest[name]
        return a is b or bool(a.equals(b))  # what is traced is a leaf in both

    def _agrees_in_text(self, name: Any, other: Structure) -> bool:
        """True if a variable that is no numbers is the same in both."""
        return (
            name in other.rest and self._agrees(name, other) and _same_attributes(self.about[name], other.about[name])
        )

    def around(self, leaves: Sequence[Any]) -> Any:
        """The DataArray or Dataset of this structure with `leaves`, its numbers or any objects that JAX puts in
        their place.
        """
        count = len(self.members)
        variables = {n: _variable(d, x, a) for (n, d, a), x in zip(self.members, leaves[:count], strict=True)}
        for n, x in zip(self.traced, leaves[count:], strict=True):
            variables[n] = _variable(self.rest[n]._dims, x, self.rest[n].attrs)
        return self._of({**self.rest, **variables}, self.name, self.attrs)

    def after_a_trace(self, leaves: Sequence[Any]) -> Any:
        """As `around`, for results of a JAX transformation: with dims, indexes and units only.

        Names, other attributes and coordinates would be those of the arrays that were present at tracing.
        """
        members = zip(self.members, leaves, strict=False)
        variables = {n: _variable(d, x, {k: v for k, v in a.items() if k == "units"}) for (n, d, a), x in members}
        return self._of({**{n: self.rest[n] for n in self.indexes}, **self.texts, **variables}, None, {})

    def _of(self, variables: Mapping[Any, Any], name: Any, attrs: Mapping[Any, Any]) -> Any:
        """The DataArray or Dataset of variables, `None` naming that of a DataArray, with this structure's indexes
        and order.
        """
        import xarray as xr

        if not self.dataset:
            coords = {n: v for n, v in variables.items() if n is not None}
            return xr.DataArray(variables[None], coords, name=name, indexes=dict(self.indexes), fastpath=True)
        ordered = {n: variables[n] for n in self.order if n in variables}
        coords = {n for n in self.coords if n in variables}
        return xr.Dataset._construct_direct(ordered, coords, dict(self.sizes), dict(attrs), dict(self.indexes))


def is_numeric(variable: Any) -> bool:
    """True for what the IR has an element type of; texts, dates and objects are no numbers of a program."""
    data = variable._data
    return hasattr(data, "aval") or scalar_of(np.dtype(getattr(data, "dtype", object))) is not None


def _variable(dims: tuple[Any, ...], data: Any, attrs: Mapping[Any, Any]) -> Any:
    """An xarray variable of numbers, or of any object of JAX's in their place, which xarray does not check.

    Raises V35 for an array whose axes a transformation has added or removed.
    """
    if isinstance(data, jax.Array) and data.ndim != len(dims):
        axes = f"{len(dims)} dims, {', '.join(map(str, dims))}" if dims else "no dims"
        message = f"a DataArray on {axes}, has numbers with {data.ndim} axes within this transformation of JAX"
        raise refuse("V35", f"{message}.", "jax.vmap and lax.scan add and take axes without names: give them x.data.")
    return variable_of(None, dims, data, attrs)


def _same_attributes(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    """True if attributes are the same."""
    return a.keys() == b.keys() and all(v is b[k] or bool(np.array_equal(v, b[k])) for k, v in a.items())


def numbers_of(variable: Any) -> Any:
    """The numbers of a variable as an array; those of a file are read."""
    data = variable._data
    return data if isinstance(data, (np.ndarray, jax.Array)) else variable.data


def unread(variable: Any) -> Any:
    """The numbers of a variable as an array; those of a file are not read yet."""
    return Unread.in_file(variable) or numbers_of(variable)


def parted(array: Any, numbers_of: Callable[[Any], Any] = numbers_of) -> tuple[list[Any], Structure]:
    """The numbers of a DataArray or Dataset, as `numbers_of` gives them for its variables, and its structure."""
    structure = Structure(array)
    variables = array._variables if structure.dataset else {None: array.variable, **array._coords}
    names = [*(n for n, _, _ in structure.members), *structure.traced]
    return [numbers_of(variables[n]) for n in names], structure


# What JAX and NumPy are told of xarray, once for the process.


@cache
def register() -> None:
    """Register DataArrays and Datasets as pytrees of JAX, and patch xarray so that it computes with traced arrays;
    once a process.

    NumPy's functions on traced arrays become those of `jax.numpy`, and element types are promoted as NumPy does.
    """
    import xarray as xr

    for kind in (xr.DataArray, xr.Dataset):
        try:
            jax.tree_util.register_pytree_with_keys(kind, _with_keys, _unflattened, parted)
        except ValueError:  # somebody else's pytrees: what this package transforms does not go by them (`Parts`)
            continue
    family: Any = next(c for c in xr.DataArray.__mro__ if "__array_ufunc__" in vars(c))
    usual = family.__array_ufunc__

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """A NumPy ufunc of labelled arrays, by `jax.numpy` if one of them is traced."""
        function = getattr(jnp, ufunc.__name__, None)
        if method != "__call__" or options.get("out") or function is None or not any(map(_holds_tracers, inputs)):
            return usual(self, ufunc, method, *inputs, **options)
        inputs = tuple(_converted_arrays(_type_by_numpy(ufunc, *map(_numbers, inputs)), *inputs))
        xarray_options = xr.get_options()
        join, keep_attrs = xarray_options["arithmetic_join"], xarray_options["keep_attrs"]
        return xr.apply_ufunc(
            function, *inputs, kwargs=options, join=join, dataset_join=join, dataset_fill_value=np.nan,
            output_core_dims=((),) * ufunc.nout, keep_attrs=True if keep_attrs == "default" else keep_attrs,
        )  # fmt: skip

    family.__array_ufunc__ = array_ufunc
    operations: Any = importlib.import_module("xarray.core.duck_array_ops")
    isin = lambda x, test_elements: jnp.isin(x, jnp.asarray(test_elements))
    for name, replacement in (("gradient", _gradient), ("sliding_window_view", _sliding_windows), ("isin", isin)):
        setattr(operations, name, _for_jax_arrays(replacement, getattr(operations, name)))
    for name in ("mean", "std", "var", "median", "sum", "prod", "cumsum", "cumprod"):
        setattr(operations, name, _folded_as_numpy(name, getattr(operations, name)))
    binary: Any = xr.Variable._binary_op

    def binary_op(self: Any, other: Any, f: Any, reflexive: bool = False) -> Any:
        """A binary operator of variables, its operands in the element type that NumPy would compute in."""
        operands = (other, self) if reflexive else (self, other)
        operand_arrays = list(map(_numbers, operands))
        kind = _type_by_numpy(f, *operand_arrays) if any(isinstance(x, jax.Array) for x in operand_arrays) else None
        return binary(*_converted_arrays(kind, self, other), f, reflexive)

    xr.Variable._binary_op = binary_op


# Element types: NumPy makes float64 of integers that meet floats and of means of integers, and JAX float32.


def _numbers(value: Any) -> Any:
    return getattr(getattr(value, "variable", value), "_data", value)


def _type_by_numpy(function: Any, *operands: Any) -> Any:
    """The element type in which NumPy computes a function, if it differs from that of all operands; else None.

    None, too, if all are of one floating type, if one is no number, or if NumPy refuses. Found by calling the function
    on ones.
    """
    types = {x.dtype for x in operands if hasattr(x, "dtype")}
    if (len(types) == 1 and next(iter(types)).kind in "fc") or any(t.kind not in "biufc" for t in types):
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind = function(*(np.ones(1, x.dtype) if hasattr(x, "dtype") else x for x in operands)).dtype
        except (AttributeError, TypeError, ValueError, OverflowError):  # refused by JAX, too, or of several results
            return None
    return None if kind.kind not in "iufc" or types == {kind} else kind


def _converted_arrays(kind: Any, *operands: Any) -> list[Any]:
    """Operands in an element type, None for their own; numbers of Python take that of the array that they meet."""
    return [x if kind is None or not hasattr(x, "dtype") else x.astype(kind) for x in operands]


def _folded_as_numpy(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of xarray, `usual`, whose arrays of JAX are converted first to the type in which NumPy reduces."""

    def fold(x: Any, *more: Any, **options: Any) -> Any:
        """The reduction."""
        if isinstance(x, jax.Array) and options.get("dtype") is None:
            (x,) = _converted_arrays(_type_by_numpy(getattr(np, name), x), x)
        return usual(x, *more, **options)

    return fold


# Functions that xarray asks of a library of arrays and that `jax.numpy` has not, or not with these arguments.


def _for_jax_arrays(replacement: Callable[..., Any], usual: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *more, **options: (replacement if isinstance(x, jax.Array) else usual)(x, *more, **options)


def _gradient(x: jax.Array, coordinate: Any, axis: int, edge_order: int = 1) -> jax.Array:
    """The derivative along a coordinate with any steps, as `np.gradient`: second order inside, `edge_order` at the
    ends.
    """
    y, h = jnp.moveaxis(x, axis, -1), np.diff(np.asarray(coordinate, x.dtype))
    before, after = h[:-1], h[1:]
    span = before + after
    inner = before / (after * span) * y[..., 2:] - after / (before * span) * y[..., :-2]
    if (h != h[0]).any():  # with equal steps the point itself is not read, which may be missing
        inner = inner + (after - before) / (before * after) * y[..., 1:-1]
    if edge_order == 1:
        low, high = (y[..., 1] - y[..., 0]) / h[0], (y[..., -1] - y[..., -2]) / h[-1]
    else:
        low, high = _one_sided(y[..., 0:3], h[0], h[1]), _one_sided(y[..., :-4:-1], -h[-1], -h[-2])
    return jnp.moveaxis(jnp.concatenate([low[..., None], inner, high[..., None]], -1), -1, axis)


def _one_sided(y: jax.Array, s: Any, t: Any) -> jax.Array:
    """The derivative at the first of three points, at distance `s` from the second, which is at distance `t` from
    the third.
    """
    return (s + t) / (s * t) * y[..., 1] - (2 * s + t) / (s * (s + t)) * y[..., 0] - s / (t * (s + t)) * y[..., 2]


def _sliding_windows(x: jax.Array, window_shape: Any, axis: Any = None, **_: Any) -> jax.Array:
    """The windows along some axes, with the points of each along a new last axis, as `sliding_window_view` has them."""
    lengths = np.atleast_1d(window_shape).tolist()
    for k, length in zip(range(x.ndim) if axis is None else np.atleast_1d(axis).tolist(), lengths, strict=True):
        indices = np.arange(x.shape[k] - length + 1)[:, None] + np.arange(length)
        x = jnp.moveaxis(jnp.take(x, indices, axis=k), k + 1, -1)
    return x


def _holds_tracers(value: Any) -> bool:
    """True if the numbers of an array, or some of a Dataset, are traced."""
    if is_dataset(value):
        return any(is_tracer(v._data) for v in value._variables.values())
    return is_tracer(_numbers(value))


def _with_keys(array: Any) -> tuple[list[tuple[Any, Any]], Structure]:
    """The leaves of a labelled array with their keys, and its structure: for JAX's registry of pytrees."""
    leaves, structure = parted(array)
    names = [n for n, _, _ in structure.members] + list(structure.traced)
    keys = [jax.tree_util.GetAttrKey("data") if n is None else jax.tree_util.DictKey(n) for n in names]
    return list(zip(keys, leaves, strict=True)), structure


def _unflattened(structure: Structure, children: Iterable[Any]) -> Any:
    """The labelled array of leaves; after a trace without what belongs to the traced arrays (`after_a_trace`)."""
    leaves = list(children)
    after = not structure.outside and any(isinstance(x, jax.Array) for x in leaves) and not any(map(is_tracer, leaves))
    return structure.after_a_trace(leaves) if after else structure.around(leaves)


# States, arguments and results of this package's own transformations.


@jax.tree_util.register_pytree_node_class
class Parts:
    """A DataArray or Dataset taken apart, as a pytree whatever others have registered."""

    __slots__ = ("further", "numbers", "structure")

    def __init__(self, numbers: Sequence[Any], further: Sequence[Any], structure: Structure) -> None:
        self.numbers, self.further, self.structure = list(numbers), list(further), structure
        """The numbers of variables, and those of coordinates that are leaves."""

    def tree_flatten(self) -> tuple[Any, Structure]:
        return (self.numbers, self.further), self.structure

    @classmethod
    def tree_unflatten(cls, structure: Structure, leaves: Any) -> Parts:
        parts = object.__new__(cls)
        (parts.numbers, parts.further), parts.structure = leaves, structure
        return parts


def is_parts(value: Any) -> bool:
    return isinstance(value, Parts)


def apart(tree: Any, numbers_of: Callable[[Any], Any] = numbers_of) -> Any:
    """A pytree with `Parts` in place of its DataArrays and Datasets; `numbers_of` gives the array of a variable.

    >>> import xarray as xr
    >>> parts = apart((1.0, xr.DataArray([1.0, 2.0], dims="x")))
    >>> jax.tree_util.tree_leaves(parts)
    [1.0, array([1., 2.])]
    >>> whole(parts)[1].dims
    ('x',)
    """

    def one(x: Any) -> Any:
        """The `Parts` of a labelled array; other leaves are unchanged."""
        if not is_labelled(x):
            return x
        leaves, structure = parted(x, numbers_of)
        count = len(structure.members)
        return Parts(leaves[:count], leaves[count:], structure)

    return jax.tree_util.tree_map(one, tree, is_leaf=is_labelled)


def whole(parts: Any) -> Any:
    """The pytree with DataArrays and Datasets in place of its `Parts`."""
    one = lambda x: x.structure.around([*x.numbers, *x.further]) if is_parts(x) else x
    return jax.tree_util.tree_map(one, parts, is_leaf=is_parts)


def numbers(parts: Any) -> list[Any]:
    """The arrays of a pytree of `Parts`, Fields and arrays, without those of coordinates: the carry of a loop."""
    leaves = jax.tree_util.tree_leaves(parts, is_leaf=_is_whole)
    return [n for x in leaves for n in (x.numbers if is_parts(x) else [x.data] if isinstance(x, Field) else [x])]


def names_of_axes(parts: Any) -> list[tuple[Any, ...]]:
    """The dims of each array of `numbers`; empty for arrays without dims."""
    axes: list[tuple[Any, ...]] = []
    for x in jax.tree_util.tree_leaves(parts, is_leaf=_is_whole):
        if is_parts(x):
            axes += [d for _, d, _ in x.structure.members]
        else:
            axes.append(x.dims.names if isinstance(x, Field) else ())
    return axes


def further(parts: Any) -> list[Any]:
    """The numbers of the coordinates that are leaves."""
    return [n for x in jax.tree_util.tree_leaves(parts, is_leaf=is_parts) if is_parts(x) for n in x.further]


def with_numbers(
    parts: Any, replacing_numbers: Sequence[Any], replacing_coordinates: Sequence[Any] | None = None
) -> Any:
    """The pytree with other arrays in place of its `numbers` and, if given, of its `further` ones, those of
    coordinates.
    """
    new_numbers, new_coordinates = (
        iter(replacing_numbers),
        None if replacing_coordinates is None else iter(replacing_coordinates),
    )

    def one(x: Any) -> Any:
        """One `Parts`, Field or array with the next numbers."""
        if is_parts(x):
            coordinate_arrays = x.further if new_coordinates is None else [next(new_coordinates) for _ in x.further]
            return Parts([next(new_numbers) for _ in x.numbers], coordinate_arrays, x.structure)
        return Field(next(new_numbers), x.dims) if isinstance(x, Field) else next(new_numbers)

    return jax.tree_util.tree_map(one, parts, is_leaf=_is_whole)


def data_of(x: Any) -> Any:
    """The array of a DataArray or a Field, or what stands there alone."""
    return x._variable._data if is_data_array(x) else x.data if isinstance(x, Field) else x


def relabelled(x: Any, data: Any) -> Any:
    """The array `data` with the labels of x, a DataArray, a Field or an array, without the encodings of files."""
    if isinstance(x, Field):
        return field_of(x, data)
    if not is_data_array(x):
        return data
    coordinates = {n: variable_of(v, v._dims, v._data, v._attrs) for n, v in x._coords.items()}
    variable = variable_of(None, x._variable._dims, data, x._variable._attrs)
    return sys.modules["xarray"].DataArray(variable, coordinates, name=x._name, indexes=x._indexes, fastpath=True)


def leaves_key(leaves: Sequence[Any], arrays: Sequence[Any]) -> Any:
    """A key of all that a step may read of labelled arrays except their numbers, `arrays`.

    None if attributes could change in place, or an array is on several devices.
    """
    weak, coordinate_names, attribute_values = list[bool](), set[Any](), list[Any]()
    for x, data in zip(leaves, arrays, strict=True):
        if type(data) is np.ndarray and data.dtype.isnative:
            weak.append(False)
        elif isinstance(data, (int, float)):
            weak.append(True)
        elif isinstance(data, jax.Array) and isinstance(data.sharding, SingleDeviceSharding):
            weak.append(getattr(data, "weak_type", False))  # random keys have none
        else:
            return None
        if data is not x and not isinstance(x, Field):
            coordinate_names.update(x._coords)
            for name, value in (x._variable._attrs or {}).items():
                if not isinstance(value, (str, int, float, np.generic)):
                    return None
                attribute_values.append((name, type(value), value))
    key = call_key(dict(enumerate(leaves)), coordinate_names)
    return None if key is None else (key, tuple(attribute_values), tuple(weak))


def is_key(x: Any) -> bool:
    """True for random keys, which are no numbers of NumPy."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def blank(parts: Any) -> Any:
    """The pytree with arrays of the same shapes and types that take no memory; random keys are kept."""
    kind = lambda x: jnp.result_type(x.dtype if isinstance(x, Unread) else x)
    empty = [x if is_key(x) else np.broadcast_to(np.zeros((), kind(x)), np.shape(x)) for x in numbers(parts)]
    return with_numbers(parts, empty, [None] * len(further(parts)))


def _is_whole(value: Any) -> bool:
    return is_parts(value) or isinstance(value, Field)


class Kind:
    """The kind of a pytree of `Parts`: all that a trace may read of it but the numbers of its leaves."""

    __slots__ = ("shapes", "structures", "tree")

    def __init__(self, parts: Any) -> None:
        """The kind of a pytree: its structure, the structures of its `Parts`, and shape, type and weakness of each
        leaf.
        """
        leaves, self.tree = jax.tree_util.tree_flatten(parts)
        weak = lambda x: bool(getattr(x, "weak_type", not hasattr(x, "dtype")))
        self.shapes = tuple([(np.shape(x), getattr(x, "dtype", type(x)), weak(x)) for x in leaves])
        parts_or_leaves = jax.tree_util.tree_leaves(parts, is_leaf=is_parts)
        self.structures = [x.structure for x in parts_or_leaves if is_parts(x)]

    def __hash__(self) -> int:
        return hash((self.tree, self.shapes))

    def __eq__(self, other: object) -> bool:
        """True if a program traced for one kind holds for the other."""
        return self is other or (
            isinstance(other, Kind)
            and self.shapes == other.shapes
            and self.tree == other.tree
            and all(a.is_as(b) for a, b in zip(self.structures, other.structures, strict=True))
        )


@contextmanager
def explained() -> Iterator[None]:
    """Within the context, errors of JAX and xarray about values that are unknown within a trace become V43, with
    advice.
    """
    try:
        yield
    except DiagnosticError:
        raise
    except _NEEDS_NUMBERS as problem:
        message = (
            "this needs the numbers of an array, and within a step, a loss or a jitted function nobody knows them yet."
        )
        help = (
            "choose with xr.where(condition, a, b), compute with operators and functions of xarray, jax.numpy, or of "
            "NumPy on DataArrays; numbers are looked at outside, or by a callback."
        )
        raise refuse("V43", message, help, at=raised_at(problem)) from None
    except (AttributeError, NotImplementedError, TypeError, ValueError) as problem:
        if (message := _explanation(problem)) is None:
            raise
        raise refuse(*message, at=raised_at(problem)) from None


_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def _explanation(problem: Exception) -> tuple[str, str, str] | None:
    """The code, message and help for an error that xarray raises only within traces; None for others.

    The traceback tells whether JAX or NumPy failed when xarray called it.
    """
    message = str(problem).splitlines()[0] if str(problem) else ""
    if "has no attribute 'time'" in message:
        return (
            "V43", "the date of a state changes in a loop, and a step does not know it.",
            "read what changes with it from a forcing, forcing=..., or count the steps in the state.",
        )  # fmt: skip
    if "'DataArray' object is not callable" in message:
        return (
            "V43", "a DataArray is not called: shifts such as x(I + 1) are for operators.",
            "put it into a function with @ti.field_operator, or write x.shift(I=-1).",
        )  # fmt: skip
    step, modules = problem.__traceback__, list[str]()
    while step is not None:
        modules.append(str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        step = step.tb_next
    called_from_xarray = modules[modules.index("xarray") :] if "xarray" in modules else []
    by_traced_places = "must have the same length as the number of data dimensions" in message
    if (modules[-1:] in (["jax"], ["numpy"]) and called_from_xarray) or "jax.numpy" in message or by_traced_places:
        return (
            "V43", f"xarray does not compute this with arrays of JAX: {type(problem).__name__}, {message}",
            "write it with functions of jax.numpy on x.data, or as an operator.",
        )  # fmt: skip
    return None
