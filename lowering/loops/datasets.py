"""Snapshots of a time loop as a Dataset, along time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.field import Field
from lowering.labelled import is_data_array, is_dataset, is_named, numbers_of
from lowering.loops.states import name_of
from tensorir.fieldview.datasets import auxiliary_of
from tensorir.ir.types import scalar_of
from tensorir.runtime.errors import refuse


def _left_out(whole: Any) -> list[str]:
    """The variables that are not computed and are no numbers: bounds of times, texts that name a projection."""
    return [n for n in auxiliary_of(whole) if scalar_of(whole[n].dtype) is None]


def taken_apart(state: Any) -> Any:
    """The pytree with a dict of DataArrays in place of each Dataset, in its order, less what `_left_out` has."""

    def one(x: Any) -> Any:
        # JAX sorts the names of a plain dict, and the `numbers` of a Dataset have its own order
        return OrderedDict((str(n), v) for n, v in x.drop_vars(_left_out(x)).data_vars.items()) if is_dataset(x) else x

    return jax.tree_util.tree_map(one, state, is_leaf=is_named)


def dataset(kept: Sequence[Any], times: Sequence[Any], units: str | None = None) -> Any:
    """Snapshots as a Dataset: one variable per leaf, along `time` first, and the attributes of a state that is one.

    Names are those of the structure: keys, fields of named tuples, numbers in tuples; a single array is `state`. Where
    a state has a `time` of its own, that of the loop is `elapsed`. `units` are those of times and dates in a file.

    >>> dataset([(np.zeros(2),), (np.ones(2),)], [0, 1])["state_0"].dims
    ('time', 'state_0_0')
    """
    leaves = [jax.tree_util.tree_leaves(taken_apart(k), is_leaf=is_named) for k in kept]
    bare = lambda x: numbers_of(x.variable) if is_data_array(x) else x.data if isinstance(x, Field) else x
    stacked = [np.stack([np.asarray(bare(x)) for x in column]) for column in zip(*leaves, strict=True)]
    return stacked_dataset(kept[0], stacked, times, units)


def stacked_dataset(first: Any, stacked: Sequence[Any], times: Sequence[Any], units: str | None = None) -> Any:
    """The same of the first snapshot and of the numbers of all, stacked along time by leaf."""
    import xarray as xr

    names, leaves = names_of(first), jax.tree_util.tree_leaves(taken_apart(first), is_leaf=is_named)
    models = [_as_array(x, name) for name, x in zip(names, leaves, strict=True)]
    taken = {*names, *(str(n) for a in models for n in (*a.dims, *(c for c in a.coords if a[c].dims)))}
    axis = next(n for n in ("time", "elapsed", *(f"elapsed_{k}" for k in range(len(taken)))) if n not in taken)
    columns: dict[str, Any] = {}
    for name, model, data in zip(names, models, stacked, strict=True):
        coords = {n: c.variable for n, c in model.coords.items() if n != axis}
        columns[name] = xr.DataArray(data, coords, (axis, *model.dims), attrs=model.attrs, indexes=None)
    columns = _on_common_labels(columns)
    whole: Any = xr.Dataset(columns)
    whole = whole.assign_coords({axis: (axis, np.asarray(times))})
    if units is not None:
        whole[axis].encoding.update(units=units, dtype="int64")
    if not is_dataset(first):
        return whole
    # in the order of the state, with those of it that were left out
    whole = whole.assign(first[_left_out(first)].data_vars)
    order = [n for n in map(str, first.data_vars) if n in whole.data_vars]
    return whole[[*order, *(n for n in whole.data_vars if n not in order)]].assign_attrs(first.attrs)


def names_of(kept: Any) -> list[str]:
    """The names of the variables of a snapshot, in the order of its numbers."""
    paths = jax.tree_util.tree_leaves_with_path(taken_apart(kept), is_leaf=is_named)
    return [str(name_of(path) or getattr(x, "name", None) or "state") for path, x in paths]


def _on_common_labels(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays on the labels of the one that has the most along each dim, with NaN where they have no point.

    Raises A31 where labels are not a part of those: one Dataset cannot hold both.
    """
    aligned = dict(columns)
    for dim in dict.fromkeys(d for x in columns.values() for d in x.dims):
        having = [n for n, x in aligned.items() if dim in x.dims]
        widest = max(having, key=lambda n: aligned[n].sizes[dim])
        for name in having:
            index, labels = (aligned[n].xindexes.get(dim) for n in (name, widest))
            if index is None or labels is None or index is labels or index.equals(labels):
                if aligned[name].sizes[dim] == aligned[widest].sizes[dim]:
                    continue
            elif bool(index.to_pandas_index().isin(labels.to_pandas_index()).all()):
                aligned[name] = aligned[name].reindex({dim: aligned[widest][dim]})
                continue
            message = f"'{name}' and '{widest}' are kept, and have other points along {dim}."
            raise refuse("A31", message, f"give one of them a dim of its own: {name}.rename({dim}='{dim}_{name}').")
    return aligned


def _as_array(value: Any, name: str) -> Any:
    import xarray as xr

    if is_data_array(value):
        return value
    if isinstance(value, Field):
        return value.to_xarray()
    return xr.DataArray(
        np.broadcast_to(np.zeros(()), np.shape(value)), dims=tuple(f"{name}_{k}" for k in range(np.ndim(value)))
    )
