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


def _left_out(dataset: Any) -> list[str]:
    """The variables of a Dataset that are not computed and hold no numbers: bounds of times, texts that name a
    projection.
    """
    return [n for n in auxiliary_of(dataset) if scalar_of(dataset[n].dtype) is None]


def with_dicts(state: Any) -> Any:
    """The pytree with an ordered dict of DataArrays in place of each Dataset, without the variables of `_left_out`."""

    def one(x: Any) -> Any:
        # JAX sorts the names of a plain dict, and the `numbers` of a Dataset have its own order
        return OrderedDict((str(n), v) for n, v in x.drop_vars(_left_out(x)).data_vars.items()) if is_dataset(x) else x

    return jax.tree_util.tree_map(one, state, is_leaf=is_named)


def dataset(snapshots: Sequence[Any], times: Sequence[Any], units: str | None = None) -> Any:
    """Snapshots as a Dataset: one variable per leaf of the states, along `time` first.

    `snapshots`: pytrees of one structure. `units`: CF units 'hours since …' for the encoding of `times`.
    Names are those of the structure: keys, fields of named tuples, numbers in tuples; a single array is `state`. If a
    state has a `time` of its own, that of the loop is `elapsed`. If the states are Datasets, their attributes are kept.

    >>> dataset([(np.zeros(2),), (np.ones(2),)], [0, 1])["state_0"].dims
    ('time', 'state_0_0')
    """
    leaves = [jax.tree_util.tree_leaves(with_dicts(snapshot), is_leaf=is_named) for snapshot in snapshots]
    bare = lambda x: numbers_of(x.variable) if is_data_array(x) else x.data if isinstance(x, Field) else x
    stacked = [np.stack([np.asarray(bare(x)) for x in column]) for column in zip(*leaves, strict=True)]
    return stacked_dataset(snapshots[0], stacked, times, units)


def stacked_dataset(template: Any, stacked: Sequence[Any], times: Sequence[Any], units: str | None = None) -> Any:
    """As `dataset`, from the first snapshot, which has the structure and the labels, and arrays stacked along time,
    by leaf.
    """
    import xarray as xr

    names, leaves = names_of(template), jax.tree_util.tree_leaves(with_dicts(template), is_leaf=is_named)
    models = [_template(x, name) for name, x in zip(names, leaves, strict=True)]
    used_names = {*names, *(str(n) for a in models for n in (*a.dims, *(c for c in a.coords if a[c].dims)))}
    axis = next(
        n for n in ("time", "elapsed", *(f"elapsed_{k}" for k in range(len(used_names)))) if n not in used_names
    )
    columns: dict[str, Any] = {}
    for name, model, data in zip(names, models, stacked, strict=True):
        coords = {n: c.variable for n, c in model.coords.items() if n != axis}
        columns[name] = xr.DataArray(data, coords, (axis, *model.dims), attrs=model.attrs, indexes=None)
    columns = _on_common_labels(columns)
    result: Any = xr.Dataset(columns)
    result = result.assign_coords({axis: (axis, np.asarray(times))})
    if units is not None:
        result[axis].encoding.update(units=units, dtype="int64")
    if not is_dataset(template):
        return result
    # in the order of the state, with those of it that were left out
    result = result.assign(template[_left_out(template)].data_vars)
    order = [n for n in map(str, template.data_vars) if n in result.data_vars]
    return result[[*order, *(n for n in result.data_vars if n not in order)]].assign_attrs(template.attrs)


def names_of(snapshot: Any) -> list[str]:
    """The names of the variables of a snapshot, in the order of its leaves."""
    paths = jax.tree_util.tree_leaves_with_path(with_dicts(snapshot), is_leaf=is_named)
    return [str(name_of(path) or getattr(x, "name", None) or "state") for path, x in paths]


def _on_common_labels(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays reindexed, along each dim, to the labels of the one that has the most, with NaN at labels that they
    lack.

    Raises A31 if labels are not a subset of those: one Dataset cannot hold both.
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


def _template(value: Any, name: str) -> Any:
    """A DataArray with the dims and labels of a leaf: the array itself, or zeros without memory for an unlabelled
    one.
    """
    import xarray as xr

    if is_data_array(value):
        return value
    if isinstance(value, Field):
        return value.to_xarray()
    return xr.DataArray(
        np.broadcast_to(np.zeros(()), np.shape(value)), dims=tuple(f"{name}_{k}" for k in range(np.ndim(value)))
    )
