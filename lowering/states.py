"""States of a simulation at the edge: DataArrays become Fields and back, and snapshots become a Dataset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lowering.field import Field, from_xarray

__all__ = ["dataset", "entered"]


def _is_data_array(value: Any) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.DataArray)


def entered(state: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A state with Fields in place of its DataArrays, and the way back.

    The way back gives a Field on the dims of one of the DataArrays that one's coordinates, name and attributes; it
    takes any pytree of Fields, and those without such a model stay Fields.
    """
    models = [leaf for leaf in jax.tree_util.tree_leaves(state, is_leaf=_is_data_array) if _is_data_array(leaf)]
    if not models:
        return state, lambda s: s
    fields = jax.tree_util.tree_map(lambda x: from_xarray(x) if _is_data_array(x) else x, state, is_leaf=_is_data_array)
    known = [(from_xarray(m).dims, m) for m in models]
    paths = jax.tree_util.tree_leaves_with_path(state, is_leaf=_is_data_array)
    by_path = {path: leaf for path, leaf in paths if _is_data_array(leaf)}

    def leave(result: Any) -> Any:
        def back(path: Any, x: Any) -> Any:
            if not isinstance(x, Field):
                return x
            own = by_path.get(path)
            model = own if own is not None and from_xarray(own).dims == x.dims else None
            model = model if model is not None else next((m for d, m in known if d == x.dims), None)
            if model is None:
                return x
            array = model.transpose(*x.dims.names).copy(data=np.array(x.data))
            return array if model is own else array.rename(None).drop_attrs(deep=False)

        return jax.tree_util.tree_map_with_path(back, result, is_leaf=lambda x: isinstance(x, Field))

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
