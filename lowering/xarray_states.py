"""States of a simulation at the edge: DataArrays become Fields and back, and snapshots become a Dataset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.field import Field, as_field
from tensorir.arrays import kind_of, refuse_foreign
from tensorir.labels import Operand, placed, unsteady

__all__ = ["dataset", "entered", "uneven_labels"]

NAMED = ("xarray", "field")
"""The kinds of arrays that say their dims."""


def _is_data_array(value: Any) -> bool:
    return _is_xarray(value, "DataArray")


def _is_xarray(value: Any, kind: str) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, getattr(xarray, kind))


def uneven_labels(state: Any) -> dict[str, str]:
    """The dims of a state's DataArrays whose labels have no equal steps, each with what is wrong."""
    whole = dict(state.data_vars) if _is_xarray(state, "Dataset") else state
    leaves = jax.tree_util.tree_leaves(whole, is_leaf=_is_whole)
    return unsteady([Operand("state", x) for x in leaves if _is_data_array(x)])


def entered(state: Any) -> tuple[Any, Callable[..., Any]]:
    """A state with Fields in place of its DataArrays, and the way back; a Dataset is a dict of them.

    The way back gives a Field on the dims of one of the DataArrays that one's coordinates, name and attributes; it
    takes any pytree of Fields, and those without such a model stay Fields. Arrays are NumPy's where the state's leaf
    in the same place is, or where the state has none of JAX. For a pytree of another structure `own_paths` has where in
    the state each of its leaves is, by where it stands, as far as it is one of the state.
    """
    if _is_xarray(state, "Dataset"):
        import xarray as xr

        fields, leave = entered({str(name): array for name, array in state.data_vars.items()})

        def back(result: Any, own_paths: Mapping[Any, Any] | None = None) -> Any:
            arrays = leave(result, own_paths)
            whole = isinstance(arrays, dict) and all(map(_is_data_array, arrays.values()))
            return xr.Dataset(arrays, attrs=state.attrs) if whole else arrays

        return fields, back
    paths = jax.tree_util.tree_leaves_with_path(state, is_leaf=_is_whole)
    models = {path: leaf for path, leaf in paths if _is_data_array(leaf)}
    for path, model in models.items():
        refuse_foreign(model, _name(path) or "state")
    where = placed([Operand(_name(path) or "state", leaf) for path, leaf in paths if kind_of(leaf) in NAMED])
    places = {path: where[_name(path) or "state"] for path in models}
    known = [(places[path], m) for path, m in models.items()]
    fields = jax.tree_util.tree_map_with_path(
        lambda path, x: as_field(places[path], x.data) if path in places else x, state, is_leaf=_is_whole
    )
    from_jax = {path: isinstance(x, jax.Array) for path, x in jax.tree_util.tree_leaves_with_path(fields)}
    some_of_jax = any(from_jax.values())

    def leave(result: Any, own_paths: Mapping[Any, Any] | None = None) -> Any:
        def numbers(path: Any, x: Any) -> Any:
            return x if from_jax.get(path, some_of_jax) or not isinstance(x, jax.Array) else np.array(x)

        def labelled(path: Any, x: Any) -> Any:
            if not isinstance(x, Field):
                return x
            own_path: Any = path if own_paths is None else own_paths.get(path)
            own = models.get(own_path)
            model = own if own is not None and places[own_path] == x.dims else None
            model = model if model is not None else next((m for d, m in known if d == x.dims), None)
            if model is None:
                return x
            array = model.transpose(*x.dims.names).copy(data=np.array(x.data))
            return array if model is own else array.rename(None).drop_attrs(deep=False)

        result = jax.tree_util.tree_map_with_path(numbers, result)
        return jax.tree_util.tree_map_with_path(labelled, result, is_leaf=lambda x: isinstance(x, Field))

    return fields, leave


def dataset(kept: Sequence[Any], times: Sequence[float]) -> Any:
    """Snapshots as a Dataset: one variable per leaf, along `time` first.

    Names are those of the structure: keys, fields of named tuples, numbers in tuples; a single array is `state`.

    >>> dataset([(np.zeros(2),), (np.ones(2),)], [0, 1])["state_0"].dims
    ('time', 'state_0_0')
    """
    import xarray as xr

    leaves = [jax.tree_util.tree_leaves_with_path(k, is_leaf=_is_whole) for k in kept]
    found: dict[str, Any] = {}
    for column in zip(*leaves, strict=True):
        name = _name(column[0][0]) or getattr(column[0][1], "name", None) or "state"
        arrays = [_as_array(x, str(name)) for _, x in column]
        stacked = xr.concat(arrays, dim="time", coords="minimal", compat="override", join="override")
        found[str(name)] = stacked.transpose("time", ...).assign_coords(time=("time", np.asarray(times)))
    return xr.merge([v.rename(n) for n, v in found.items()], join="outer", compat="override")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Field) or _is_data_array(value)


def _name(path: Any) -> str:
    """A path in a pytree as a name: `.wind[0]` is `wind_0`, `[1]` alone `state_1`."""
    parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
    return f"state_{'_'.join(parts)}" if parts and parts[0].isdecimal() else "_".join(parts)


def _as_array(value: Any, name: str) -> Any:
    import xarray as xr

    if _is_data_array(value):
        return value
    if isinstance(value, Field):
        return value.to_xarray()
    data = np.asarray(value)
    return xr.DataArray(data, dims=tuple(f"{name}_{k}" for k in range(data.ndim)))
