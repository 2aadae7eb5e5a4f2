"""One array at the edge: what a caller may pass for a parameter.

Bare arrays (NumPy, JAX) carry no names: their axes are the dims of the parameter, in the order written there.
DataArrays and Fields match by name, in any order, and are cut to the parameter's interval.

>>> from tensorir.integers.dims import Dims
>>> from tensorir.ir.types import FLOAT64
>>> accept([1.0, 2.0], "x", FLOAT64, Dims.of(I=(0, 2))).data
array([1., 2.])
"""

from __future__ import annotations

import numbers
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeGuard, cast

import numpy as np

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import DTYPES, Element, Scalar, TensorType, TupleElement, scalar_of
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.assembly import ExtensionPoint
from tensorir.runtime.errors import DiagnosticError, article, refuse

device_array = ExtensionPoint("the backend's array of what lies on a device", "tensorir.backends", "device_array")

# Arrays of other libraries whose memory is that of a GPU: CuPy's, and those of PyTorch and Numba that lie there.
#
# NumPy has no view of them, and CuPy's refuse to be copied unasked.


def lies_on_device(value: Any) -> bool:
    """True if an array has a GPU's memory, as the interface says that all such arrays have."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__")


def host_array(value: Any) -> np.ndarray:
    """An array as NumPy's: a copy of what is on a device."""
    return np.asarray(device_array(value) if lies_on_device(value) else value)


Array = np.ndarray[Any, np.dtype[Any]]


def is_array(value: Any) -> TypeGuard[Array]:
    """True if a value is a NumPy array."""
    return isinstance(value, np.ndarray)


def is_traced(value: Any) -> bool:
    """True if a value stands for an array within a trace of JAX, where its numbers are not known."""
    return any("Tracer" in kind.__name__ for kind in type(value).__mro__)


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """True if a value is a tuple, or a list in its place."""
    return isinstance(value, (tuple, list))


@dataclass(frozen=True, slots=True)
class Unread:
    """An array in a file, or one of dask, of which NumPy gets the parts that it asks for."""

    variable: Any
    """An `xarray.Variable` with lazily loaded data."""

    @staticmethod
    def in_file(array: Any) -> Unread | None:
        """The lazy array of a DataArray or Variable that was opened and not loaded; None for any other value."""
        variable = getattr(array, "variable", array)
        library = type(getattr(variable, "_data", None)).__module__.partition(".")[0]
        return Unread(variable) if library in ("xarray", "dask") else None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    @property
    def dtype(self) -> Any:
        return self.variable.dtype.newbyteorder("=")

    def __getitem__(self, at: Any) -> Unread:
        return Unread(self.variable[at])

    def transpose(self, order: Sequence[int]) -> Unread:
        return Unread(self.variable.transpose(*(self.variable.dims[k] for k in order)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(native(self.variable.values), dtype)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An array for one leaf of a parameter: axes and extents are those of the parameter."""

    data: Any
    kind: str
    """"numpy", "jax", "xarray" or "field": what the caller passed."""


def kind_of(value: Any) -> str:
    """The kind of an argument: "xarray" or "field" (dims by name), "jax" or "numpy" (by position); "" for no array.

    >>> kind_of(np.zeros(3)), kind_of(1.5), kind_of("no")
    ('numpy', 'numpy', '')
    """
    if _is_numpy(cast("type[Any]", type(value))):
        return "numpy"
    xarray = sys.modules.get("xarray")
    if xarray is not None and isinstance(value, (xarray.DataArray, xarray.Variable)):
        return "xarray"
    if isinstance(getattr(value, "dims", None), Dims):
        return "field"
    if hasattr(value, "aval") and hasattr(value, "dtype"):
        return "jax"
    return "numpy" if hasattr(value, "__array__") else ""


@lru_cache(maxsize=256)
def _is_numpy(kind: type[Any]) -> bool:
    # asked of types: of values, abstract classes ask each for its class, which costs modules of equinox 10 µs
    return issubclass(kind, (np.ndarray, np.generic, numbers.Number, list))


def leaves_of(value: Any, element: Element, name: str) -> list[tuple[str, Scalar, Any]]:
    """A nested tuple of arrays leaf by leaf, as (name for messages, element type, array).

    Raises A04 for another structure.
    """
    match element:
        case Scalar():
            return [(name, element, value)]
        case TupleElement(members):
            if not is_tuple(value) or len(value) != len(members):
                got = f"a tuple of {len(value)}" if is_tuple(value) else type(value).__name__
                message = f"'{name}' holds {element}, so it takes a tuple of {len(members)} arrays, and this is {got}."
                raise refuse("A04", message)
            pairs = zip(value, members, strict=True)
            return [leaf for k, (v, m) in enumerate(pairs) for leaf in leaves_of(v, m, f"{name}[{k}]")]


def nested(element: Element, arrays: Sequence[Any]) -> Any:
    """Leaves of a parameter or a result, in order, as the nested tuple that its element type describes.

    >>> from tensorir.ir.types import BOOL, TupleElement
    >>> nested(TupleElement((BOOL, TupleElement((BOOL, BOOL)))), [1, 2, 3])
    (1, (2, 3))
    """
    remaining = iter(arrays)

    def build(member_type: Element) -> Any:
        return next(remaining) if isinstance(member_type, Scalar) else tuple(build(m) for m in member_type.members)

    return build(element)


def leaf_names(element: Element, name: str) -> list[str]:
    """Names of the leaves of a tuple in messages.

    >>> from tensorir.ir.types import FLOAT64, TupleElement
    >>> leaf_names(TupleElement((FLOAT64, TupleElement((FLOAT64,)))), "x")
    ['x[0]', 'x[1][0]']
    """
    if isinstance(element, Scalar):
        return [name]
    return [leaf for k, m in enumerate(element.members) for leaf in leaf_names(m, f"{name}[{k}]")]


def interval_of(coordinate: Any) -> Interval | None:
    """The interval that a dimension coordinate of ascending integers with unit step gives, None for any other.

    >>> interval_of(np.array([3, 4, 5])), interval_of(np.array([3, 5])), interval_of(np.array([0.5, 1.5]))
    (Interval(3, 6), None, None)
    """
    values = np.asarray(coordinate)
    if values.ndim != 1 or values.dtype.kind not in "iu" or not len(values):
        return None
    first = int(values[0])
    if not np.array_equal(values, np.arange(first, first + len(values))):
        return None
    return Interval(first, first + len(values))


def accept(
    value: Any, name: str, element: Scalar, dims: Dims, any_integer: bool = False, have: Dims | None = None,
    by_block: bool = False,
) -> Accepted:  # fmt: skip
    """An array for a parameter's leaf, checked and with the parameter's axes; nothing is converted silently.

    Raises A01 (kind), A02 (element type), A03 (shape), A05 (dims), A06 (interval), A07 (a number too large), A18
    (donated), A33 (foreign library), A47 (packed). `any_integer` lets integers of every width pass (neighbour tables,
    whose entries are checked one by one). `have` are the dims of an array with named dims where they were aligned with
    other arguments (`tensorir/binding/labels.py`), None for its own. With `by_block`, data in a file becomes an
    `Unread`.
    """
    kind = kind_of(value)
    unread = Unread.in_file(value) if by_block else None
    if kind == "xarray":
        if unread is None:
            refuse_foreign(value, name)
        if not any_integer:  # a table, whose missing neighbours are -1
            refuse_packed(value, name)
    if kind in ("jax", "xarray", "field") and unread is None:
        refuse_given_away(value if kind == "jax" else value.data, name)
    if not kind:
        message = f"'{name}' is {article(type(value).__name__)}, not an array."
        raise refuse("A01", message, "pass a NumPy or JAX array, a DataArray, a Field or a number.")
    data = placed(value, name, dims, have, unread) if kind in ("xarray", "field") else value
    data = _element(data if unread else _numpy(data, name, element), name, element, any_integer)
    if fixed_shape(data.shape, name) != dims.shape:
        message = f"'{name}' needs the shape {dims.shape}, for {dims}, and has {tuple(data.shape)}."
        raise refuse("A03", message, _transpose_hint(tuple(data.shape), dims))
    return Accepted(data, kind)


def placed(value: Any, name: str, dims: Dims, have: Dims | None = None, unread: Unread | None = None) -> Any:
    """The array of a DataArray or Field with a parameter's axes and extents: its own memory, and no copy of it.

    `have` are the dims on which the array lies, None for its own. `unread` takes the place of the data of a DataArray
    in a file, which is then not loaded. Raises A05 (dims), A06 (interval).
    """
    if kind_of(value) == "field":
        return _by_name(value.data, value.dims.names, name, dims, value.dims if have is None else have)
    have = intervals_of(value, starts_of(dims)) if have is None else have
    data = value.data if unread is None else unread
    return _by_name(data, tuple(map(str, value.dims)), name, dims, have)


def refuse_given_away(data: Any, name: str) -> None:
    """Raise A18 for an array whose memory was donated."""
    asked: Any = getattr(data, "is_deleted", lambda: False)
    try:
        gone = bool(asked())
    except TypeError:  # a traced array has no memory to ask about
        gone = False
    if not gone:
        return
    message = f"'{name}' was given away: its memory holds the result of the call that it was donated to."
    raise refuse("A18", message, "use that result in its place, or keep the array: donate=() when compiling.")


def refuse_foreign(value: Any, name: str) -> None:
    """Raise A33 for a DataArray whose data are of another library than NumPy and JAX: dask, pint, sparse."""
    data = value.variable._data if hasattr(value, "variable") else value.data
    if is_array(data) or hasattr(data, "aval") or is_traced(data):
        return
    kind: Any = data.__class__
    library = kind.__module__.partition(".")[0]
    if library in ("xarray", "jax", "jaxlib"):  # a file that is read when it is looked at
        return
    hints = {
        "dask": f"compute it first, {name}.compute(); or go block by block: ti.map_blocks(operator, {name}).",
        "pint": f"put its units into the attributes: {name}.pint.dequantify().",
    }
    message = f"'{name}' is held by {library} ({kind.__name__}), and arrays of NumPy and JAX are taken"
    raise refuse("A33", f"{message}.", hints.get(library, f"convert it: {name}.copy(data=...)."))


PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
"""The attributes of packed data in CF conventions and NetCDF: value = number × scale_factor + add_offset, and fills."""


def refuse_packed(value: Any, name: str) -> None:
    """Raise A47 for a DataArray of integers with attributes of packed data, other than scale 1 and offset 0."""
    attrs: Any = getattr(value, "attrs", None)
    if not attrs or getattr(value.dtype, "kind", "") not in "iu":
        return
    neutral = {"scale_factor": 1, "add_offset": 0}
    packed = [n for n in PACKING if n in attrs and not (n in neutral and np.all(attrs[n] == neutral[n]))]
    if packed:
        message = f"'{name}' is packed: its {value.dtype} stand for other numbers, as {', '.join(packed)} say."
        help = f"decode it: xr.decode_cf(dataset), as xr.open_dataset does; or {name}.drop_attrs() if they do not."
        raise refuse("A47", message, help)


def fixed_shape(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    """The shape as a tuple of int; raises A24 for an extent that is a symbol, as `jax.export` makes them."""
    symbol = next((extent for extent in shape if not isinstance(extent, numbers.Integral)), None)
    if symbol is not None:
        message = f"'{name}' has the symbolic size {symbol}, and a program runs at sizes that are numbers."
        raise refuse("A24", message, "export it for each size: c.export(n=10), or shapes of numbers.")
    return tuple(map(int, shape))


def _numpy(value: Any, name: str, element: Scalar) -> Array:
    """A value as an array: arrays keep their element type, numbers and lists of Python take that of the parameter.

    A float never becomes an integer. Raises A01 for masked points and ragged lists, A07 for numbers that are too large.
    """
    if type(value) is np.ndarray or kind_of(value) == "jax":
        return value
    if is_array(value):
        if np.ma.is_masked(value):
            raise refuse("A01", f"'{name}' has masked points, and masks are not known here.", "fill it: x.filled(0.0).")
        return host_array(value)  # of a masked array without masked points its data
    if isinstance(value, bool) or (hasattr(value, "dtype") and not isinstance(value, float)):
        return host_array(value)
    if isinstance(value, numbers.Real) and (element.is_float or isinstance(value, numbers.Integral)):
        return np.asarray(held(value, name, element), DTYPES[element]) if element.is_number else np.asarray(value)
    if is_tuple(value):
        try:
            array: Array = np.asarray(value)
        except ValueError:
            message = f"'{name}' is a list that is not an array."
            raise refuse("A01", message, "its rows have different lengths.") from None
        if array.dtype.kind in "iuf" and element.is_float:
            for number in (array.min(), array.max()) if array.size else ():
                held(number, name, element)
            return array.astype(DTYPES[element])
        return _whole(value, name, element, array) if element.is_integer else array
    return np.asarray(value)


def held(number: Any, name: str, element: Scalar) -> int | float:
    """A number of Python as int or float, as the element type is.

    Raises A07 where it is outside the range of the type.
    """
    if not element.holds(number):
        shown = int(number) if isinstance(number, numbers.Integral) else float(number)
        raise refuse("A07", f"'{name}' is {element}, which cannot hold {shown}.", "declare a wider type.")
    return int(number) if element.is_integer else float(number)


def _whole(value: Any, name: str, element: Scalar, array: Array) -> Array:
    """A list of nothing but integers as an array of the integer element type; `array` for other lists.

    Integers are compared with the range of the type one by one (A07), since NumPy has no type for a list of -1 and 2⁶³.
    """
    numbers_of: Array = np.asarray(value, dtype=object)
    if not all(isinstance(n, numbers.Integral) and not isinstance(n, (bool, np.bool_)) for n in numbers_of.flat):
        return array
    wrong = next((n for n in numbers_of.flat if int(n) not in element.range), None)
    if wrong is not None:
        raise refuse("A07", f"'{name}' is {element}, which cannot hold {wrong}.", "declare a wider type.")
    return numbers_of.astype(DTYPES[element])


def native(data: Any) -> Any:
    """An array in the machine's order of bytes, the only one that XLA takes: NetCDF 3 stores big-endian numbers.

    >>> native(np.ones(2, ">f8")).dtype.isnative
    True
    """
    dtype: np.dtype[Any] | None = getattr(data, "dtype", None)
    return data if not isinstance(dtype, np.dtype) or dtype.isnative else data.astype(dtype.newbyteorder("="))


def _element(data: Any, name: str, element: Scalar, any_integer: bool) -> Any:
    """The array in native byte order if it has the element type (or any integer type); raises A02 for every other."""
    have = scalar_of(data.dtype)
    if have == element:
        return native(data)
    if any_integer and have is not None and have.is_integer:
        return data
    shown = have if have is not None else data.dtype
    if any_integer:
        hint = "convert it with .astype('int32'), after a missing neighbour is written as -1"
        if have is not None and have.is_float and is_array(data) and np.isnan(data).any():
            raise refuse("A02", f"the table '{name}' holds NaN; its entries are integers.", f"{hint}.")
        raise refuse("A02", f"the table '{name}' holds {shown}; its entries are integers.", f"{hint}.")
    help = narrow_hint(data, element) or f"nothing is converted silently; pass {name}.astype('{element}')."
    raise refuse("A02", f"'{name}' needs {element}, and this is {shown}.", help)


def narrow_hint(value: Any, element: Element) -> str:
    """The hint for an array of JAX that has 32 bits where the element type has 64; "" for every other value."""
    data = getattr(value, "data", value) if kind_of(value) in ("field", "xarray") else value
    if kind_of(data) != "jax" or not isinstance(element, Scalar) or element.bits != 64 or data.dtype.itemsize != 4:
        return ""
    narrow = str(element).replace("64", "32")
    return (
        "JAX makes arrays of 32 bits unless it is told otherwise: make them inside of `with jax.enable_x64(True):`, "
        f"or write {narrow} in the program."
    )


def with_narrow_hint(error: DiagnosticError, values: Iterable[Any]) -> DiagnosticError:
    """The error, with a note on `enable_x64` at each T01 about 64 bits if a value is traced while JAX makes 32 bits."""
    held = [getattr(v, "data", v) if kind_of(v) in ("field", "xarray") else v for v in values]
    if not any(map(is_traced, held)) or sys.modules["jax"].config.jax_enable_x64:
        return error
    note = "this transformation of JAX keeps 32 bits, unless it is inside of `with jax.enable_x64(True):`."
    return DiagnosticError(
        [replace(d, notes=(*d.notes, note)) if d.code == "T01" and "64" in d.message else d for d in error.diagnostics]
    )


def _transpose_hint(shape: tuple[int, ...], dims: Dims) -> str:
    """The hint for a wrong shape: another number of axes, another order of axes, or the extents that differ."""
    if len(shape) != len(dims):
        return f"its axes are {', '.join(dims.names) or 'none: it is a number'}."
    if sorted(shape) == sorted(dims.shape):
        return f"its axes are in another order; they are {', '.join(dims.names)} here."
    wrong = [
        f"{n} has {i} and needs {len(dims[n])}" for (n, i) in zip(dims.names, shape, strict=True) if i != len(dims[n])
    ]
    return f"{', '.join(wrong)}."


def refuse_repeated(names: Iterable[str]) -> None:
    """Raise A03 where two axes have the name of one dim."""
    repeated = next((n for n, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise refuse("A03", f"two axes are named {repeated}, and each dim is one axis.", "rename one of them.")


def intervals_of(array: Any, starts: Mapping[str, int]) -> Dims:
    """The dims of a DataArray: the interval of integer labels, for other dims its extent from `starts[dim]` or 0;
    raises A03 for a dim of two axes.
    """
    if len(set(array.dims)) < len(array.dims):
        refuse_repeated(map(str, array.dims))
    intervals: list[tuple[str, Interval]] = []
    indexes: Any = getattr(array, "xindexes", {})
    for name, extent in zip(array.dims, array.shape, strict=True):
        of_labels = interval_of(indexes[name].to_pandas_index()) if name in indexes else None
        start = starts.get(str(name), 0)
        intervals.append((str(name), Interval(start, start + extent) if of_labels is None else of_labels))
    return Dims(tuple(intervals))


def type_of_named(value: Any, placed: Mapping[int, Dims] | None = None) -> TensorType | None:
    """The tensor type of a DataArray or Field, None for an array without named dims; raises A02 for a dtype like str.

    `placed` has the dims of DataArrays by `id(array)` where they were aligned with other arguments of the call.
    """
    match kind_of(value):
        case "xarray":
            element = scalar_of(value.dtype)
            if element is None:
                raise refuse("A02", f"there is no element type {value.dtype}.", "convert it, for example to float64.")
            known = (placed or {}).get(id(value))
            return TensorType(element, intervals_of(value, {}) if known is None else known)
        case "field":
            element = scalar_of(value.data.dtype)
            assert element is not None
            return TensorType(element, value.dims)
        case _:
            return None


def starts_of(dims: Dims) -> dict[str, int]:
    """The start of each interval."""
    return {n: i.start for n, i in dims.items}


def _by_name(data: Any, names: tuple[str, ...], name: str, dims: Dims, have: Dims) -> Any:
    """The axes of a named array in the parameter's order, cut to its intervals."""
    index, order = cut_of(names, data.shape, name, dims, have)
    cut = data if index is None else data[index]
    return cut if order is None else cut.transpose(order)


def cut_of(names: tuple[str, ...], shape: Sequence[int], name: str, dims: Dims, have: Dims) -> tuple[Any, Any]:
    """The slices that cut an array on dims `names` to a parameter's `dims`, and the order of its axes in them.

    `have` are the intervals of the array. Either is None where it would change nothing. Raises A05 for dims that
    differ, A06 for an interval that does not cover that of the parameter.
    """
    unknown = [n for n in names if n not in dims]
    missing = [n for n in dims if n not in names]
    if unknown or missing:
        what = [f"has {', '.join(unknown)}, which it does not know"] if unknown else []
        what += [f"lacks {', '.join(missing)}"] if missing else []
        help = f"select one point of {', '.join(unknown)}, or map over it." if unknown else "rename or add the dim."
        raise refuse("A05", f"'{name}' is a tensor on {dims}, and this {' and '.join(what)}.", help)
    index: list[slice] = []
    for n in names:
        interval, need = have[n], dims[n]
        if not interval.covers(need):
            help = "give it the missing points: ti.extend adds a halo." if interval & need else "shift its coordinate."
            raise refuse("A06", f"'{name}' needs {n}{need}, and this has {n}{interval}.", help)
        index.append(slice(need.start - interval.start, need.stop - interval.start))
    whole = all(s == slice(0, extent) for s, extent in zip(index, shape, strict=True))
    order = [names.index(n) for n in dims.names]
    return None if whole else tuple(index), None if order == sorted(order) else order


SkipValues = bool | frozenset[int]
"""The slots of a neighbour table that hold -1 anywhere; True or False where only is known if any slot does."""


def check_table(table: Any, name: str, kind: TensorType, interval: Interval) -> frozenset[int]:
    """The slots in which a table of a type holds -1; raises A10 with the first entry that leaves its dimension.

    >>> from tensorir.ir.types import tensor
    >>> kind = tensor("int", Vertex=(0, 2), _NB_Edge=(0, 2))
    >>> sorted(check_table(np.array([[0, 4], [1, -1]]), "V2E", kind, Interval(0, 5)))
    [1]
    """
    entries = np.asarray(table)
    tag, source = neighbour_source(kind)
    (element,) = kind.leaves
    for entry in (entries.min(), entries.max()) if entries.size else ():
        if int(entry) not in element.range:
            message = f"the table '{name}' is {element}, which cannot hold {int(entry)}."
            raise refuse("A07", message, "declare a wider type.")
    holes = entries == -1
    wrong = ~holes & ((entries < interval.start) | (entries >= interval.stop))
    if wrong.any():
        where = tuple(int(k[0]) for k in np.nonzero(wrong))
        leaves = f"{name}[{', '.join(map(str, where))}] is {int(entries[where])}"
        subject = f"an entry of the table '{name}' leaves its dimension: {leaves}"
        message = f"{subject}, and {source}{interval} is what it may point to."
        raise refuse("A10", message, "entries are absolute coordinates; a missing neighbour is -1.")
    axis = kind.dims.names.index(tag)
    some = holes.any(tuple(k for k in range(holes.ndim) if k != axis))
    return frozenset(int(k) + kind.dims[tag].start for k in np.flatnonzero(some))
