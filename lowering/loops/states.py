"""States of a simulation at the edge: labelled arrays as arrays of a program and back, and snapshots as a Dataset."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.distribution.meshes import on_host
from lowering.field import Field
from lowering.labelled import (
    apart,
    is_data_array,
    is_dataset,
    is_labelled,
    is_named,
    is_numeric,
    is_tracer,
    numbers_of,
    register,
    unread,
    whole,
)
from tensorir.binding.arrays import Unread, intervals_of, is_tuple, native, refuse_foreign, refuse_packed
from tensorir.binding.coordinates import rounding_of
from tensorir.binding.labels import labels_of
from tensorir.binding.units import is_same
from tensorir.fieldview.datasets import auxiliary_of
from tensorir.ir.types import scalar_of
from tensorir.runtime.errors import refuse


def entered(tree: Any, by_block: bool = False) -> Any:
    """A pytree with the `Parts` of its labelled arrays, whose numbers a program takes.

    Those in files are not read `by_block`. Raises A33 for numbers that another library holds, A47 for packed ones, A02
    for element types that there are not.
    """
    if any(map(is_labelled, jax.tree_util.tree_leaves(tree, is_leaf=is_labelled))):
        register()
    for path, array in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_labelled):
        for name, x in _variables(path, array):
            if not by_block or Unread.in_file(x) is None:
                refuse_foreign(x, name)
            refuse_packed(x, name)
            if scalar_of(x.dtype) is None:
                message = f"'{name}' holds {x.dtype}, which is no element type."
                raise refuse("A02", message, "leave it out, or convert it, for example to float64.")
    return jax.tree_util.tree_map(native, apart(tree, unread if by_block else numbers_of))


def _variables(path: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """The DataArrays that are computed with, as messages call them."""
    if is_data_array(value):
        yield name_of(path) or "state", value
    elif is_dataset(value):
        left_out = auxiliary_of(value)
        yield from ((str(n), v) for n, v in value.data_vars.items() if n not in left_out or is_numeric(v.variable))


def from_jax(tree: Any) -> bool:
    """True if some leaf is an array of JAX, so that results are such, too."""
    return any(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(tree))


def left(parts: Any, like: Any = None) -> Any:
    """Results with their DataArrays and Datasets, without the encodings of files.

    Arrays are NumPy's where the leaf of `like`, in the structure of the result, is; without it, all are.
    """
    if like is None:
        hosted = jax.tree_util.tree_map(_hosted, parts)
    else:
        some = from_jax(like)
        keeps = lambda x, own: x if isinstance(own, jax.Array) or (some and not hasattr(own, "dtype")) else _hosted(x)
        hosted = jax.tree_util.tree_map(keeps, parts, like)
    return jax.tree_util.tree_map(_without_encoding, whole(hosted), is_leaf=is_labelled)


def hosted(some: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Arrays as NumPy's, but for those that came in as arrays of JAX, and numbers of Python beside such."""
    beside = True in [isinstance(x, jax.Array) for x in like]
    return [x if isinstance(own, jax.Array) or (beside and not hasattr(own, "dtype")) else _hosted(x)
            for x, own in zip(some, like, strict=True)]  # fmt: skip


def _hosted(x: Any) -> Any:
    return on_host(x) if isinstance(x, jax.Array) and not is_tracer(x) else x


def _without_encoding(x: Any) -> Any:
    # a packing was made for the numbers of the state at the start
    return x.drop_encoding() if is_labelled(x) else x


def labelled_arrays(function: Callable[[Any], Any], state: Any) -> Any:
    """A state with what a function gives for each of its DataArrays and Datasets."""
    return jax.tree_util.tree_map(lambda x: function(x) if is_labelled(x) else x, state, is_leaf=is_named)


# What a step gives back, in the structure of what it got.


def carried(path: Any, model: Any, x: Any) -> list[Any]:
    """The numbers that a step gives in the place of a DataArray, Dataset or Field; raises A20 for another one."""
    where = jax.tree_util.keystr(path) or "the state"
    if isinstance(model, Field):
        if is_data_array(x):  # of a Field and a DataArray xarray's arithmetic makes one
            x = Field(numbers_of(x.variable), intervals_of(x, {d: i.start for d, i in model.dims.items}))
        return [_ordered(where, model, x)]
    if is_dataset(model):
        return _whole_carried(path, model, x)
    if isinstance(x, Field):
        x = x.to_xarray() if set(x.dims.names) != set(model.dims) else _labelled_field(x)
    if not is_data_array(x):
        raise refuse(
            "A20", f"the step turns {where} from a DataArray into {_kind(x)}.",
            f"a step keeps labels: x.copy(data=...) puts numbers on those of {where if path else 'its argument'}.",
        )  # fmt: skip
    if set(x.dims) != set(model.dims) or any(x.sizes[d] != model.sizes[d] for d in model.dims):
        before, after = (intervals_of(a, {}) for a in (model, x))
        hint = "a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."
        raise refuse("A20", f"the step turns {where} from {before} into {after}.", hint, notes=_gone(model, x))
    for dim in model.dims:
        _refuse_other_labels(where, dim, model, x)
    have, want = (str(a.attrs.get("units", "")) for a in (x, model))
    if have and want and not is_same(have, want):
        raise refuse(
            "A20", f"the step turns {where} from {want} into {have}.",
            "a step keeps units: multiply by the length of a step, or leave them out: x.drop_attrs().",
        )  # fmt: skip
    ordered = x if x.dims == model.dims else x.transpose(*model.dims)
    data = numbers_of(ordered.variable)
    if data.dtype != model.dtype:
        raise refuse(
            "A20", f"the step turns {where} from {model.dtype} into {data.dtype}.",
            f"a step keeps types: x.astype('{model.dtype}').",
        )  # fmt: skip
    return [data]


def _gone(model: Any, x: Any) -> Iterator[str]:
    """Notes on the labels that are not there any more, as of xarray's arithmetic on operands with other ones."""
    for dim in model.dims:
        ours, theirs = (labels_of(a, dim) if dim in a.dims else None for a in (model, x))
        if ours is not None and theirs is not None and len(lost := ours.difference(theirs, sort=False)):
            yield f"along {dim} the label {lost[0]} is gone: xarray's arithmetic keeps those that all operands have."


def _labelled_field(x: Field) -> Any:
    import xarray as xr

    return xr.DataArray(x.data, dims=x.dims.names)


def _kind(x: Any) -> str:
    if is_dataset(x):
        return "a Dataset"
    return "a tuple" if is_tuple(x) else "a dict" if isinstance(x, dict) else "an array without labels"


def _ordered(where: str, model: Field, x: Any) -> Any:
    """The numbers of a Field on the axes of another one."""
    if not isinstance(x, Field):
        raise refuse("A20", f"the step turns {where} from a Field into {_kind(x)}.", "ti.as_field(dims, x) makes one.")
    if x.dims != model.dims:
        hint = "a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."
        raise refuse("A20", f"the step turns {where} from {model.dims} into {x.dims}.", hint)
    order = [x.dims.names.index(n) for n in model.dims.names]
    data = x.data if order == sorted(order) else x.data.transpose(order)
    if data.dtype != model.dtype:
        message = f"the step turns {where} from {model.dtype} into {data.dtype}."
        raise refuse("A20", message, f"a step keeps types: ti.astype(x, ti.{model.dtype}).")
    return data


def _refuse_other_labels(where: str, dim: Any, model: Any, x: Any) -> None:
    if dim not in model.xindexes or dim not in x.xindexes:
        return
    ours, theirs = model.xindexes[dim], x.xindexes[dim]
    if ours is theirs or ours.equals(theirs):
        return
    a, b = np.asarray(model[dim].values), np.asarray(x[dim].values)
    # labels go on by steps in ti.extend, whose sums are rounded
    if a.dtype.kind == b.dtype.kind == "f" and bool((np.abs(a - b) <= rounding_of(a)).all()):
        return
    k = int(np.flatnonzero(a != b)[0])
    raise refuse(
        "A20", f"the step turns the labels of {where} along {dim}: {a[k]} becomes {b[k]}.",
        "a step keeps labels: x.assign_coords(state.coords) puts them back.",
    )  # fmt: skip


def _whole_carried(path: Any, model: Any, x: Any) -> list[Any]:
    """The numbers of a Dataset, or of a dict of its variables, in the order of those of the Dataset that a step got."""
    where = jax.tree_util.keystr(path) or "the state"
    if not is_dataset(x) and not isinstance(x, dict):
        raise refuse("A20", f"the step turns {where} from a Dataset into {_kind(x)}.", "return a Dataset, or a dict.")
    names = [str(n) for n in model.data_vars if is_numeric(model[n].variable)]
    variables: Any = getattr(x, "data_vars", x)
    given = {str(n): v for n, v in variables.items() if n not in model or str(n) in names}
    if given.keys() != set(names):
        message = f"the step returns the variables {', '.join(given)}, and {where} has {', '.join(names)}."
        raise refuse("A20", message, "return the next state in the structure of the one that it got.")

    def one(n: str) -> list[Any]:
        value = given[n]
        if not is_named(value) and np.shape(value) == model[n].shape:
            value = model[n].copy(data=jnp.asarray(value))
        return carried((*path, jax.tree_util.DictKey(n)), model[n], value)

    return [x for n in names for x in one(n)]


# Snapshots as a Dataset.


def members(whole: Any) -> list[str]:
    """The variables of a Dataset that are computed with."""
    left_out = _left_out(whole)
    return [str(n) for n in whole.data_vars if n not in left_out]


def _left_out(whole: Any) -> list[str]:
    """The variables that are not computed and are no numbers: bounds of times, texts that name a projection."""
    return [n for n in auxiliary_of(whole) if scalar_of(whole[n].dtype) is None]


def taken_apart(state: Any) -> Any:
    """The pytree with a dict of DataArrays in place of each Dataset, in its order, less what `_left_out` has."""

    def one(x: Any) -> Any:
        # JAX sorts the names of a plain dict, and the `numbers` of a Dataset have its own order
        return OrderedDict((name, x[name]) for name in members(x)) if is_dataset(x) else x

    return jax.tree_util.tree_map(one, state, is_leaf=is_named)


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
    leaves = [jax.tree_util.tree_leaves(taken_apart(k), is_leaf=is_named) for k in kept]
    stacked = [np.stack([np.asarray(_numbers(x)) for x in column]) for column in zip(*leaves, strict=True)]
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
        made = xr.DataArray(data, coords, (axis, *model.dims), attrs=model.attrs, indexes=None)
        columns[name] = made
    columns = _on_common_labels(columns)
    whole: Any = xr.Dataset(columns)
    whole = whole.assign_coords({axis: (axis, np.asarray(times))})
    if units is not None:
        whole[axis].encoding.update(units=units, dtype="int64")
    if not is_dataset(first):
        return whole
    ordered = in_order(whole.data_vars, first)
    return whole.assign(ordered)[list(ordered)].assign_attrs(first.attrs)


def names_of(kept: Any) -> list[str]:
    """The names of the variables of a snapshot, in the order of its numbers."""
    paths = jax.tree_util.tree_leaves_with_path(taken_apart(kept), is_leaf=is_named)
    return [str(name_of(path) or getattr(x, "name", None) or "state") for path, x in paths]


def _on_common_labels(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays on the labels of the one that has the most along each dim, with NaN where they have no point.

    Raises A31 where labels are not a part of those: one Dataset cannot hold both.
    """
    made = dict(columns)
    for dim in dict.fromkeys(d for x in columns.values() for d in x.dims):
        having = [n for n, x in made.items() if dim in x.dims]
        widest = max(having, key=lambda n: made[n].sizes[dim])
        for name in having:
            own, labels = (made[n].xindexes.get(dim) for n in (name, widest))
            if own is None or labels is None or own is labels or own.equals(labels):
                if made[name].sizes[dim] == made[widest].sizes[dim]:
                    continue
            elif bool(own.to_pandas_index().isin(labels.to_pandas_index()).all()):
                made[name] = made[name].reindex({dim: made[widest][dim]})
                continue
            message = f"'{name}' and '{widest}' are kept, and have other points along {dim}"
            raise refuse(
                "A31", f"{message}.", f"give one of them a dim of its own: {name}.rename({dim}='{dim}_{name}')."
            )
    return made


def _numbers(x: Any) -> Any:
    return numbers_of(x.variable) if is_data_array(x) else x.data if isinstance(x, Field) else x


def name_of(path: Any) -> str:
    """A path in a pytree as a name: `.wind[0]` is `wind_0`, `[1]` alone `state_1`."""
    parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
    return f"state_{'_'.join(parts)}" if parts and parts[0].isdecimal() else "_".join(parts)


def _as_array(value: Any, name: str) -> Any:
    import xarray as xr

    if is_data_array(value):
        return value
    if isinstance(value, Field):
        return value.to_xarray()
    return xr.DataArray(
        np.broadcast_to(np.zeros(()), np.shape(value)), dims=tuple(f"{name}_{k}" for k in range(np.ndim(value)))
    )
