"""Calls on labelled arrays like one before: the key of what decides a call, and what a call of that key does again.

A first call looks at labels, units and attributes in many places; what it finds follows from the *key*: kinds and
shapes of arrays, dims in their order, the bytes of the labels of every index (so that labels that were changed in place
are other labels), units, which attributes coordinates have, and what holds around the call (options of xarray,
staggered dims, periods). Numbers are in no key, nor coordinates without an index, which every call takes from its own
arguments. What has no key, such as an array in a file or an index of several levels, is looked at in every call.

>>> import xarray as xr
>>> h = xr.DataArray([1.0, 2.0], {"lat": [50.0, 52.5]}, name="h")
>>> call_key({"h": h}) == call_key({"h": 2.0 * h}), call_key({"h": h}) == call_key({"h": h.assign_attrs(units="K")})
(True, False)
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.backends import field_type
from tensorir.binding.arrays import PACKING, accept, cut_of, kind_of
from tensorir.binding.calls import labelled_data
from tensorir.binding.labels import Place
from tensorir.binding.results import PERIODS, TURNS, Labels, part_of, variable_of, with_units
from tensorir.integers.dims import Dims
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.staggering import FROM_COORDINATES, STATED
from tensorir.ir.types import INT32, Scalar
from tensorir.runtime.memory import RecentCache

NUMBERS = (float, int, bool)
"""Python's number types: a key has the type of a number and, of an int, if it fits int32; never its value."""
LOOKED_AT = 4096
"""The largest size of a coordinate in `read` whose numbers are put into a key."""
MOST_LABELS = 1 << 14
"""The largest index whose labels are put into a key: comparing more takes as long as checking the call again."""
NO_OPTIONS: Mapping[str, Any] = {"arithmetic_join": None, "keep_attrs": None}
AROUND_A_CALL = (FROM_COORDINATES, PERIODS, TURNS)
NO_ATTRIBUTES: Mapping[Any, Any] = {}


def call_key(arguments: Mapping[Any, Any], read: Collection[str] = ()) -> Hashable:
    """The hashable key under which calls are prepared alike; None for arguments that need a check in every call.

    `read` names the coordinates without an index whose numbers are part of the key, too. Attributes of coordinates
    enter by `id`, so whoever stores a key must keep `attributes_of(arguments)` alive with it.
    """
    data_array = getattr(sys.modules.get("xarray"), "DataArray", None)
    parts: list[Any] = []
    for name, value in arguments.items():
        kind = value.__class__
        part: Any
        if kind is data_array:
            part = _labelled_key(value, read)
        elif kind in NUMBERS:
            part = kind, kind is int and value in INT32.range
        elif kind is str or value is None:
            part = kind, value
        elif isinstance(dims := getattr(value, "dims", None), Dims):
            data = value.data
            part = kind, tuple([(n, i.start, i.stop) for n, i in dims.items]), data.__class__, data.dtype
        elif (dtype := getattr(value, "dtype", None)) is not None and dims is None:
            part = kind, value.shape, dtype
        else:
            return None
        if part is None:
            return None
        parts.append((name, part))
    # xarray.get_options() makes a copy
    options = NO_OPTIONS if data_array is None else sys.modules["xarray.core.options"].OPTIONS
    return (
        tuple(parts),
        options["arithmetic_join"],
        options["keep_attrs"],
        len(STATED),  # which only grows
        *[(n, *setting.items()) for n, variable in enumerate(AROUND_A_CALL) if (setting := variable.get(None))],
    )


def _labelled_key(array: Any, read: Collection[str]) -> Hashable:
    """The key of a DataArray.

    None for packed integers, an index of several levels, and data that `contents_of` omits.
    """
    variable, indexes = array._variable, array._indexes
    data: Any = variable._data
    attrs: Mapping[Any, Any] = variable._attrs or NO_ATTRIBUTES
    coordinates: list[Any] = []
    contents = contents_of(array._coords, indexes, read)
    for name, coordinate in array._coords.items():
        about, content = coordinate._attrs or NO_ATTRIBUTES, contents[name]
        if content is None or (name in indexes and coordinate._dims != (name,)):  # levels of an index
            return None
        shift = repr(about["c_grid_axis_shift"]) if "c_grid_axis_shift" in about else None
        coordinates.append((name, coordinate._dims, content, shift, tuple(about), tuple(map(id, about.values()))))
    dtype, units, kind = data.dtype, attrs.get("units"), data.__class__
    if dtype.kind in "iu" and not attrs.keys().isdisjoint(PACKING):
        return None
    return (
        array._name, variable._dims, kind, data.shape, dtype, units if type(units) is str else None,
        tuple(coordinates),
    )  # fmt: skip


def contents_of(variables: Mapping[Any, Any], indexes: Mapping[Any, Any], read: Collection[Any]) -> dict[Any, Any]:
    """By name the part of a key for each coordinate: bytes of the labels of an index, dtype and shape of others.

    Coordinates named in `read` add the bytes of their numbers. The entry is None where a call must be checked again:
    for an index above `MOST_LABELS`, numbers in `read` that are many or objects, and data of another library.
    """
    contents: dict[Any, Any] = {}
    for name, variable in variables.items():
        data, index = variable._data, indexes.get(name)
        if index is None:
            contents[name] = None
            if type(data) is np.ndarray:
                numbers = data.tobytes() if name in read and data.size <= LOOKED_AT else None
                if name not in read or (numbers is not None and not data.dtype.hasobject):
                    contents[name] = data.dtype, data.shape, numbers
            continue
        # a variable may show other labels than its index has: both go into the key
        labels, shown = getattr(index, "index", None), getattr(data, "array", None)
        if labels is None or shown is None or len(labels) > MOST_LABELS:
            contents[name] = None
            continue
        values: Any = getattr(labels, "_data", None)
        values_shown: Any = getattr(shown, "_data", None)
        plain = type(values) is np.ndarray is type(values_shown)
        if plain and not (values.dtype.hasobject or values_shown.dtype.hasobject):
            key, shown_key = (values.dtype, values.tobytes()), (values_shown.dtype, values_shown.tobytes())
        else:
            key, shown_key = _labels_key(labels), _labels_key(shown)
        contents[name] = data._dtype, key, None if key == shown_key else shown_key
    return contents


def _labels_key(labels: Any) -> Hashable:
    """The key of a pandas index of any kind: dtype and bytes, of objects such as texts the values and their types."""
    values = labels.values
    if type(values) is np.ndarray and not values.dtype.hasobject:
        return values.dtype, values.tobytes()
    objects = tuple(values)
    return labels.dtype, objects, tuple(map(type, objects))


def attributes_of(arguments: Mapping[Any, Any]) -> list[Any]:
    """The attribute values of all coordinates: a key has their `id`, which is only valid while they are kept alive."""
    arrays = [getattr(value, "_coords", NO_ATTRIBUTES) for value in arguments.values()]
    return [list((c._attrs or NO_ATTRIBUTES).values()) for coordinates in arrays for c in coordinates.values()]


COPIES: RecentCache[int, tuple[weakref.ref[Any], Any]] = RecentCache("copies of neighbour tables", 64)
"""By `id(table)` a weak reference to a NumPy neighbour table, and a copy of its entries when a call checked them."""


def copied_table(table: Any) -> Any:
    """The copy in `COPIES` of a checked neighbour table; None for tables without one, and if an entry changed since."""
    known = COPIES.get(id(table)) if type(table) is np.ndarray else None
    return known[1] if known is not None and known[0]() is table and np.array_equal(known[1], table) else None


def copy_table(table: Any) -> Any:
    """A copy of a checked NumPy neighbour table, put into `COPIES` until the table itself is freed."""
    key, copy = id(table), table.copy()
    COPIES.put(key, (weakref.ref(table, lambda _: COPIES.drop(key)), copy))
    return copy


@dataclass(frozen=True, slots=True)
class ResultLabels:
    """The labels of a result of calls of one key."""

    dims: tuple[str, ...]
    name: Any
    source: str
    """The argument whose attributes it has, "" for none."""
    units: str | None
    """The units that replace those of the source: "" removes them, None keeps them."""
    coordinates: tuple[tuple[Any, Any, str, Any], ...]
    """(name, variable of an index, "", None), or (name, None, argument that has the coordinate, slices of it)."""
    indexes: Mapping[Any, Any]
    labels: Mapping[Any, Hashable]
    """The `contents_of` the indexes, to notice a change in place: their memory may be that of an argument."""

    @staticmethod
    def of(labels: Labels, param: Var, result: Any) -> ResultLabels | None:
        """The labels of the `result` of a first call.

        None where a coordinate is neither an index nor a view of an argument's.
        """
        dims, coordinates = param.type.dims, list[tuple[Any, Any, str, Any]]()
        sources = dict(zip(labels.arguments, labels.sources, strict=True))
        for name, coordinate in result._coords.items():
            if name in result._indexes:
                # attributes of their own, since the caller may change those of the result
                variable = variable_of(coordinate, coordinate._dims, coordinate._data, coordinate._attrs)
                coordinates.append((name, variable, "", None))
                continue
            argument = next((n for n, (x, have) in sources.items() if _covers(x, have, name, dims)), None)
            if argument is None:
                return None
            array, have = sources[argument]
            source = array._coords[name]
            part = tuple([part_of(have[str(d)], dims[str(d)]) for d in source._dims]) or ...
            if source._dims != coordinate._dims or type(source._data) is not np.ndarray:
                return None
            if not np.shares_memory(source._data[part], coordinate._data):
                return None
            coordinates.append((name, None, argument, part))
        attributes = labels.attributes_of(param.name, dims)
        fixed = {name: v for name, v in result._coords.items() if name in result._indexes}
        contents = contents_of(fixed, result._indexes, ())
        return ResultLabels(dims.names, result.name, *attributes, tuple(coordinates), dict(result._indexes), contents)

    def around(self, array: Any, arguments: Mapping[str, Any]) -> Any:
        """A DataArray of `array` with these labels; None where the memory of an index was changed in place."""
        xarray = sys.modules["xarray"]
        coordinates: dict[Any, Any] = {}
        for name, coordinate, argument, part in self.coordinates:
            if coordinate is not None:
                coordinates[name] = variable_of(coordinate, coordinate._dims, coordinate._data, coordinate._attrs)
            else:
                source = arguments[argument]._coords[name]
                coordinates[name] = variable_of(None, source._dims, source._data[part], source._attrs)
        attrs = with_units(arguments.get(self.source), self.units)
        if contents_of({n: coordinates[n] for n in self.indexes}, self.indexes, ()) != self.labels:
            return None
        variable = variable_of(None, self.dims, array, attrs)
        return xarray.DataArray(variable, coordinates, name=self.name, indexes=self.indexes, fastpath=True)


def _covers(array: Any, have: Dims, name: Any, dims: Dims) -> bool:
    """True if an array on `have` has the coordinate `name`, and this covers the intervals of its dims in `dims`."""
    along = tuple(map(str, array._coords[name]._dims)) if name in array._coords else None
    return along is not None and all(d in dims and have[d].covers(dims[d]) for d in along)


def field_of(model: Any, data: Any) -> Any:
    """A copy of the Field `model` with other data; it bypasses the checks of equinox, whose modules are frozen."""
    field: Any = object.__new__(model.__class__)
    state: Any = object.__getattribute__
    state(field, "__dict__").update({**state(model, "__dict__"), "data": data})
    return field


@dataclass(frozen=True, slots=True)
class RepeatedArguments:
    """The preparation of arguments and labels of results of one call, for other calls of its key."""

    parts: Mapping[str, Any]
    """By argument (kind, slices, order of axes), None for slices or order that change nothing.

    ("number", element, dims).
    """
    results: Mapping[str, Any]
    """By result its `ResultLabels`, or a Field on its dims as the model of `field_of`; others are bare arrays."""
    kept: list[Any]

    @staticmethod
    def of(
        fencil: Fencil, arguments: Mapping[str, Any], place: Place, labels: Labels | None, results: Mapping[str, Any]
    ) -> RepeatedArguments | None:
        """The record of a call with these arguments and `results`; None where calls of its key must be checked again.

        `results` is empty where calls return bare arrays, or copy all results into arguments (`written`). None is given
        for templates with sizes among the arguments, data that are not in native byte order, results that are tuples or
        have computed coordinates, and calls that warned of lost coordinates.
        """
        parts: dict[str, Any] = {}
        after: dict[str, Any] = {}
        params = {p.name: p for p in fencil.params}
        if not arguments.keys() <= params.keys():
            return None  # a size is told by its number
        for name, value in arguments.items():
            kind, dims = kind_of(value), params[name].type.dims
            if kind in ("xarray", "field"):
                have, variable = place.intervals[name], value.variable if kind == "xarray" else value.data
                if not getattr(variable.dtype, "isnative", True):
                    return None
                parts[name] = kind, *cut_of(have.names, variable.shape, name, dims, have)
            elif type(value) in NUMBERS or isinstance(value, np.generic):
                parts[name] = "number", params[name].type.element, dims
        if labels is not None and labels.lost:
            return None  # of which every call warns
        for p in fencil.results:
            if not isinstance(p.type.element, Scalar):
                return None
            if p.name not in results:
                continue
            if labels is None:
                after[p.name] = field_type()(0, place.outside(p.type.dims))
            elif (result_labels := ResultLabels.of(labels, p, results[p.name])) is not None:
                after[p.name] = result_labels
            else:
                return None
        return RepeatedArguments(parts, after, attributes_of(arguments))

    def arrays(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as arrays that the program takes: data cut to its intervals, axes in its order."""
        arrays = dict(arguments)
        for name, (kind, cut, order) in self.parts.items():
            value = arrays[name]
            if kind == "number":
                arrays[name] = accept(value, name, cut, order).data
                continue
            data: Any = value._variable._data if kind == "xarray" else value.data
            if type(data) is not np.ndarray and not hasattr(data, "aval"):
                data = value.data  # of an index, or a file
            data = data if cut is None else data[cut]
            arrays[name] = data if order is None else data.transpose(order)
        return arrays

    def around(self, outputs: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The results as DataArrays, Fields or bare arrays; None where the recorded labels were changed in place."""
        results = dict(outputs)
        for name, labels in self.results.items():
            if not isinstance(labels, ResultLabels):
                results[name] = field_of(labels, outputs[name])
            elif (result := labels.around(labelled_data(outputs[name]), arguments)) is not None:
                results[name] = result
            else:
                return None
        return results

    def written(self, arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """The arguments `names`, into which results were copied; a DataArray loses its encoding."""
        for name in names:
            if name in self.parts and self.parts[name][0] == "xarray":
                arguments[name].encoding = {}
        return {name: arguments[name] for name in names}
