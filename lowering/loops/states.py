"""States of a simulation at the edge: DataArrays become Fields and back, with their coordinates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np

from lowering.distribution.meshes import on_host
from lowering.field import Field, as_field
from tensorir.binding.arrays import is_array, kind_of, native, refuse, refuse_foreign, refuse_packed
from tensorir.binding.coordinates import KNOWN, Coordinate, Round, coordinate_of, distinct, entering, knowing
from tensorir.binding.labels import Operand, placed, unsteady
from tensorir.fieldview.datasets import AUXILIARY, auxiliary_of
from tensorir.ir.staggering import Half, halves
from tensorir.ir.types import Dims, scalar_of

# Coordinates of the labelled arrays that go into a loop or a transformation, as arrays of its program.
#
# There DataArrays are Fields, which have none. A coordinate is an argument of what is compiled beside the state, so
# that it is no constant of it: other values are no other program.


class KnownCoordinate(eqx.Module):
    """A coordinate as a pytree whose leaf is its array."""

    field: Field
    name: str = eqx.field(static=True)
    units: str = eqx.field(static=True)
    even: bool = eqx.field(static=True)
    round: Round | None = eqx.field(static=True, default=None)
    half: Half | None = eqx.field(static=True, default=None)
    """Which dim it is staggered to, as attributes tell."""


class KnownCoordinates(eqx.Module):
    """Coordinates, and the variables of Datasets that are not computed."""

    coordinates: tuple[KnownCoordinate, ...]
    auxiliary: frozenset[str] = eqx.field(static=True)


def known_coordinates(arrays: Iterable[Any], places: Sequence[Dims], datasets: Iterable[Any] = ()) -> KnownCoordinates:
    """The numbers among the coordinates of DataArrays that stand on `places`, after those that are known around.

    A coordinate whose numbers another library holds is none of them.
    """
    arrays, auxiliary = tuple(arrays), AUXILIARY.get(frozenset()).union(*map(auxiliary_of, datasets))
    own = [
        one
        for array, place in zip(arrays, places, strict=True)
        for value in array.coords.values()
        if (one := entering(coordinate_of(value, place))).type is not None and is_array(value.variable.data)
    ]
    with halves(arrays) as told:
        entered = tuple(_entered(one, told.get(one.name)) for one in distinct([*KNOWN.get(), *own]))
    return KnownCoordinates(entered, auxiliary)


def _entered(one: Coordinate, half: Half | None) -> KnownCoordinate:
    if isinstance(one.value, Field):
        return KnownCoordinate(one.value, one.name, one.units, one.even, one.round, half)
    return KnownCoordinate(
        Field(native(one.value.variable.data), one.dims), one.name, one.units, one.even, one.round, half
    )


@contextmanager
def known_to(known: KnownCoordinates) -> Generator[None]:
    """They are found by `ti.coord` where there are Fields, and staggered dims are those that they tell."""
    token = AUXILIARY.set(known.auxiliary)
    try:
        with (
            knowing(Coordinate(k.name, k.field, k.field.dims, k.units, k.even, k.round) for k in known.coordinates),
            halves((), {k.name: k.half for k in known.coordinates if k.half is not None}),
        ):
            yield
    finally:
        AUXILIARY.reset(token)


# States of a simulation at the edge: DataArrays become Fields and back, and snapshots become a Dataset.

NAMED = ("xarray", "field")
"""The kinds of arrays that say their dims."""


def is_data_array(value: Any) -> bool:
    return _is_xarray(value, "DataArray")


def _is_xarray(value: Any, kind: str) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, getattr(xarray, kind))


def is_dataset(value: Any) -> bool:
    return _is_xarray(value, "Dataset")


def is_named_arrays(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_data_array, value.values()))


def taken_apart(state: Any) -> Any:
    """The pytree with a dict of DataArrays in place of each Dataset, less what `_left_out` has."""

    def apart(x: Any) -> Any:
        return {name: x[name] for name in members(x)} if is_dataset(x) else x

    return jax.tree_util.tree_map(apart, state, is_leaf=is_dataset)


def _left_out(whole: Any) -> list[str]:
    """The variables that are not computed and are no numbers: bounds of times, texts that name a projection."""
    return [n for n in auxiliary_of(whole) if scalar_of(whole[n].dtype) is None]


def labelled_arrays(function: Callable[[Any], Any], state: Any) -> Any:
    """A state with what a function gives for each of its DataArrays and Datasets."""

    def each(x: Any) -> Any:
        return function(x) if is_dataset(x) or is_data_array(x) else x

    return jax.tree_util.tree_map(each, state, is_leaf=lambda x: is_dataset(x) or _is_whole(x))


def uneven_labels(state: Any) -> dict[str, str]:
    """The dims of a state's DataArrays whose labels have no equal steps, each with what is wrong."""
    leaves = jax.tree_util.tree_leaves(taken_apart(state), is_leaf=_is_whole)
    return unsteady([Operand("state", x) for x in leaves if is_data_array(x)])


def entered(state: Any) -> tuple[Any, KnownCoordinates, Callable[..., Any]]:
    """A state with Fields in place of its DataArrays, their coordinates, and the way back; a Dataset is a dict of them.

    The way back gives a Field on the dims of one of the DataArrays that one's coordinates, name and attributes; it
    takes any pytree of Fields, and those without such a model stay Fields. Arrays are NumPy's where the state's leaf
    in the same place is, or where the state has none of JAX. For a pytree of another structure `own_paths` has where in
    the state each of its leaves is, by where it stands, as far as it is one of the state.
    """
    datasets = {p: x for p, x in jax.tree_util.tree_leaves_with_path(state, is_leaf=is_dataset) if is_dataset(x)}
    state = taken_apart(state)
    paths = jax.tree_util.tree_leaves_with_path(state, is_leaf=_is_whole)
    models = {path: leaf for path, leaf in paths if is_data_array(leaf)}
    for path, model in models.items():
        refuse_foreign(model, _name(path) or "state")
        refuse_packed(model, _name(path) or "state")
        if scalar_of(model.dtype) is None:
            told = f"'{_name(path) or 'state'}' holds {model.dtype}, which is no element type."
            raise refuse("A02", told, "leave it out, or convert it, for example to float64.")
    where = placed([Operand(_name(path) or "state", leaf) for path, leaf in paths if kind_of(leaf) in NAMED])
    places = {path: where[_name(path) or "state"] for path in models}
    known = [(places[path], m) for path, m in models.items()]
    fields = jax.tree_util.tree_map_with_path(
        lambda path, x: as_field(places[path], x.data) if path in places else x, state, is_leaf=_is_whole
    )
    fields = jax.tree_util.tree_map(native, fields)
    from_jax = {path: isinstance(x, jax.Array) for path, x in jax.tree_util.tree_leaves_with_path(fields)}
    some_of_jax = any(from_jax.values())

    def leave(result: Any, own_paths: Mapping[Any, Any] | None = None) -> Any:
        def numbers(path: Any, x: Any) -> Any:
            return x if from_jax.get(path, some_of_jax) or not isinstance(x, jax.Array) else on_host(x)

        def labelled(path: Any, x: Any) -> Any:
            if not isinstance(x, Field):
                return x
            own_path: Any = path if own_paths is None else own_paths.get(path)
            own = models.get(own_path)
            model = own if own is not None and places[own_path] == x.dims else None
            model = model if model is not None else next((m for d, m in known if d == x.dims), None)
            if model is None:
                return x
            # a packing was made for the numbers of the state at the start
            array = model.transpose(*x.dims.names).copy(data=on_host(x.data)).drop_encoding()
            return array if model is own else array.rename(None).drop_attrs(deep=False)

        result = jax.tree_util.tree_map_with_path(numbers, result)
        arrays = jax.tree_util.tree_map_with_path(labelled, result, is_leaf=lambda x: isinstance(x, Field))
        return jax.tree_util.tree_map_with_path(joined, arrays, is_leaf=is_named_arrays) if datasets else arrays

    def joined(path: Any, x: Any) -> Any:
        if path not in datasets or not is_named_arrays(x):
            return x
        import xarray as xr

        return xr.Dataset(in_order(x, datasets[path]), attrs=datasets[path].attrs)

    return fields, known_coordinates(models.values(), [p for p, _ in known], datasets.values()), leave


def members(whole: Any) -> list[str]:
    """The variables of a Dataset that are Fields inside of loops and transformations."""
    left_out = _left_out(whole)
    return [str(n) for n in whole.data_vars if n not in left_out]


def in_order(variables: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Variables in the order of a Dataset's, and those of it that were left out; a pytree sorts them by name."""
    found = {**variables, **model[_left_out(model)].data_vars}
    return {n: found[n] for n in (*filter(found.__contains__, map(str, model.data_vars)), *found)}


def dataset(kept: Sequence[Any], times: Sequence[Any], units: str | None = None) -> Any:
    """Snapshots as a Dataset: one variable per leaf, along `time` first, and the attributes of a state that is one.

    Names are those of the structure: keys, fields of named tuples, numbers in tuples; a single array is `state`. Where
    a state has a `time` of its own, that of the loop is `elapsed`. `units` are those of times and dates in a file.

    >>> dataset([(np.zeros(2),), (np.ones(2),)], [0, 1])["state_0"].dims
    ('time', 'state_0_0')
    """
    import xarray as xr

    leaves = [jax.tree_util.tree_leaves_with_path(taken_apart(k), is_leaf=_is_whole) for k in kept]
    columns: dict[str, list[Any]] = {}
    for column in zip(*leaves, strict=True):
        name = str(_name(column[0][0]) or getattr(column[0][1], "name", None) or "state")
        columns[name] = [_as_array(x, name) for _, x in column]
    taken = {*columns, *(str(n) for a, *_ in columns.values() for n in (*a.dims, *(c for c in a.coords if a[c].dims)))}
    axis = next(n for n in ("time", "elapsed", *(f"elapsed_{k}" for k in range(len(taken)))) if n not in taken)
    found: list[Any] = []
    for name, arrays in columns.items():
        stacked = xr.concat(arrays, dim=axis, coords="minimal", compat="override", join="override")
        variable = stacked.transpose(axis, ...).assign_coords({axis: (axis, np.asarray(times))})
        if units is not None:
            variable[axis].encoding.update(units=units, dtype="int64")
        found.append(variable.rename(None).to_dataset(name=name))
    whole: Any = xr.merge(found, join="outer", compat="override", combine_attrs="override")
    if not is_dataset(kept[0]):
        return whole
    ordered = in_order(whole.data_vars, kept[0])
    return whole.assign(ordered)[list(ordered)].assign_attrs(kept[0].attrs)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Field) or is_data_array(value)


def _name(path: Any) -> str:
    """A path in a pytree as a name: `.wind[0]` is `wind_0`, `[1]` alone `state_1`."""
    parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
    return f"state_{'_'.join(parts)}" if parts and parts[0].isdecimal() else "_".join(parts)


def _as_array(value: Any, name: str) -> Any:
    import xarray as xr

    if is_data_array(value):
        return value
    if isinstance(value, Field):
        return value.to_xarray()
    data = np.asarray(value)
    return xr.DataArray(data, dims=tuple(f"{name}_{k}" for k in range(data.ndim)))
