"""States of a simulation at the edge: labelled arrays as arrays of a program, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from tensorir.runtime.errors import DiagnosticError, refuse


def entered(tree: Any, by_block: bool = False) -> Any:
    """A pytree with `Parts` in place of its labelled arrays, whose numbers a program takes.

    `by_block`: arrays in files are not read yet (`Unread`). Raises A33 for arrays of other libraries, A47 for packed
    ones, A02 for element types that the language lacks.
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
    """The DataArrays of a labelled value that are computed with, each with its name in messages."""
    if is_data_array(value):
        yield name_of(path) or "state", value
    elif is_dataset(value):
        left_out = auxiliary_of(value)
        yield from ((str(n), v) for n, v in value.data_vars.items() if n not in left_out or is_numeric(v.variable))


def name_of(path: Any) -> str:
    """A path in a pytree as a name: `.wind[0]` is `wind_0`, `[1]` alone `state_1`."""
    parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
    return f"state_{'_'.join(parts)}" if parts and parts[0].isdecimal() else "_".join(parts)


def from_jax(tree: Any) -> bool:
    """True if some leaf is an array of JAX, so that results are such, too."""
    return any(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(tree))


def left(parts: Any, like: Any = None) -> Any:
    """Results as DataArrays and Datasets again, without the encodings of files.

    Arrays become NumPy's; with `like`, a pytree of the same structure, only where its leaf is no array of JAX.
    """
    leaves, tree = jax.tree_util.tree_flatten(parts)
    leaves = list(map(_hosted, leaves)) if like is None else hosted(leaves, jax.tree_util.tree_leaves(like))
    # a packing was made for the numbers of the state at the start
    without_encoding = lambda x: x.drop_encoding() if is_labelled(x) else x
    return jax.tree_util.tree_map(without_encoding, whole(tree.unflatten(leaves)), is_leaf=is_labelled)


def hosted(arrays: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Arrays as NumPy's, except where the leaf of `like` is an array of JAX, or a Python number next to such."""
    any_jax = True in [isinstance(x, jax.Array) for x in like]
    return [x if isinstance(old, jax.Array) or (any_jax and not hasattr(old, "dtype")) else _hosted(x)
            for x, old in zip(arrays, like, strict=True)]  # fmt: skip


def _hosted(x: Any) -> Any:
    return on_host(x) if isinstance(x, jax.Array) and not is_tracer(x) else x


def labelled_arrays(function: Callable[[Any], Any], state: Any) -> Any:
    """A state with `function` applied to each of its DataArrays and Datasets."""
    return jax.tree_util.tree_map(lambda x: function(x) if is_labelled(x) else x, state, is_leaf=is_named)


# What a step gives back, in the structure of what it got.


KEEPS_DOMAINS = "a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."


def _changed_by_step(what: str, before: Any, after: Any, hint: str, notes: Iterable[str] = ()) -> DiagnosticError:
    """The error A20: a step turns `what` from `before` into `after`."""
    return refuse("A20", f"the step turns {what} from {before} into {after}.", hint, notes=notes)


def carried(path: Any, model: Any, x: Any) -> list[Any]:
    """The arrays that a step returns in the place of the DataArray, Dataset or Field `model`, in the order of its
    numbers.

    Raises A20 for a result of another kind, or with other dims, labels, units or element type. `path`: the place in the
    state.
    """
    where = jax.tree_util.keystr(path) or "the state"
    if isinstance(model, Field):
        if is_data_array(x):  # of a Field and a DataArray xarray's arithmetic makes one
            x = Field(numbers_of(x.variable), intervals_of(x, {d: i.start for d, i in model.dims.items}))
        return [_carried_field(where, model, x)]
    if is_dataset(model):
        return _carried_dataset(path, model, x)
    if isinstance(x, Field):
        import xarray as xr

        has_same_dims = set(x.dims.names) == set(model.dims)
        x = xr.DataArray(x.data, dims=x.dims.names) if has_same_dims else x.to_xarray()
    if not is_data_array(x):
        state_name = where if path else "its argument"
        hint = f"a step keeps labels: x.copy(data=...) puts numbers on those of {state_name}."
        raise _changed_by_step(where, "a DataArray", _kind_in_words(x), hint)
    if set(x.dims) != set(model.dims) or any(x.sizes[d] != model.sizes[d] for d in model.dims):
        raise _changed_by_step(
            where, intervals_of(model, {}), intervals_of(x, {}), KEEPS_DOMAINS, _notes_on_lost_labels(model, x)
        )
    for dim in model.dims:
        _refuse_other_labels(where, dim, model, x)
    units, model_units = (str(a.attrs.get("units", "")) for a in (x, model))
    if units and model_units and not is_same(units, model_units):
        hint = "a step keeps units: multiply by the length of a step, or leave them out: x.drop_attrs()."
        raise _changed_by_step(where, model_units, units, hint)
    ordered = x if x.dims == model.dims else x.transpose(*model.dims)
    data = numbers_of(ordered.variable)
    if data.dtype != model.dtype:
        raise _changed_by_step(where, model.dtype, data.dtype, f"a step keeps types: x.astype('{model.dtype}').")
    return [data]


def _notes_on_lost_labels(model: Any, x: Any) -> Iterator[str]:
    """Notes on labels that the result lost, as in xarray's arithmetic of operands with different labels."""
    for dim in model.dims:
        model_labels, result_labels = (labels_of(a, dim) if dim in a.dims else None for a in (model, x))
        if (
            model_labels is not None
            and result_labels is not None
            and len(lost := model_labels.difference(result_labels, sort=False))
        ):
            yield f"along {dim} the label {lost[0]} is gone: xarray's arithmetic keeps those that all operands have."


def _kind_in_words(x: Any) -> str:
    """The kind of a result in words."""
    if is_dataset(x):
        return "a Dataset"
    return "a tuple" if is_tuple(x) else "a dict" if isinstance(x, dict) else "an array without labels"


def _carried_field(where: str, model: Field, x: Any) -> Any:
    """The array of a Field that a step returns, its axes in the order of the Field `model`; raises A20 for another
    result.
    """
    if not isinstance(x, Field):
        raise _changed_by_step(where, "a Field", _kind_in_words(x), "ti.as_field(dims, x) makes one.")
    if x.dims != model.dims:
        raise _changed_by_step(where, model.dims, x.dims, KEEPS_DOMAINS)
    order = [x.dims.names.index(n) for n in model.dims.names]
    data = x.data if order == sorted(order) else x.data.transpose(order)
    if data.dtype != model.dtype:
        raise _changed_by_step(where, model.dtype, data.dtype, f"a step keeps types: ti.astype(x, ti.{model.dtype}).")
    return data


def _refuse_other_labels(where: str, dim: Any, model: Any, x: Any) -> None:
    """Raise A20 if the labels of the result along a dim are not those of the model, except for rounding."""
    if dim not in model.xindexes or dim not in x.xindexes:
        return
    model_index, result_index = model.xindexes[dim], x.xindexes[dim]
    if model_index is result_index or model_index.equals(result_index):
        return
    a, b = np.asarray(model[dim].values), np.asarray(x[dim].values)
    # labels go on by steps in ti.extend, whose sums are rounded
    if a.dtype.kind == b.dtype.kind == "f" and bool((np.abs(a - b) <= rounding_of(a)).all()):
        return
    different = np.flatnonzero(a != b)
    if not different.size:  # indexes of two kinds with the same labels
        return
    k = int(different[0])
    raise refuse(
        "A20", f"the step turns the labels of {where} along {dim}: {a[k]} becomes {b[k]}.",
        "a step keeps labels: x.assign_coords(state.coords) puts them back.",
    )  # fmt: skip


def _carried_dataset(path: Any, model: Any, x: Any) -> list[Any]:
    """The arrays of a Dataset, or of a dict of its variables, in the order of the Dataset `model`; raises A20 for
    other variables.
    """
    where = jax.tree_util.keystr(path) or "the state"
    if not is_dataset(x) and not isinstance(x, dict):
        raise _changed_by_step(where, "a Dataset", _kind_in_words(x), "return a Dataset, or a dict.")
    names = [str(n) for n in model.data_vars if is_numeric(model[n].variable)]
    variables: Any = getattr(x, "data_vars", x)
    computed = {str(n): v for n, v in variables.items() if n not in model or str(n) in names}
    if computed.keys() != set(names):
        message = f"the step returns the variables {', '.join(computed)}, and {where} has {', '.join(names)}."
        raise refuse("A20", message, "return the next state in the structure of the one that it got.")

    def one(n: str) -> list[Any]:
        """The arrays of the variable n."""
        value = computed[n]
        if not is_named(value) and np.shape(value) == model[n].shape:
            value = model[n].copy(data=jnp.asarray(value))
        return carried((*path, jax.tree_util.DictKey(n)), model[n], value)

    return [x for n in names for x in one(n)]
