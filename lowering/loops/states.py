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


def name_of(path: Any) -> str:
    """A path in a pytree as a name: `.wind[0]` is `wind_0`, `[1]` alone `state_1`."""
    parts = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path]
    return f"state_{'_'.join(parts)}" if parts and parts[0].isdecimal() else "_".join(parts)


def from_jax(tree: Any) -> bool:
    """True if some leaf is an array of JAX, so that results are such, too."""
    return any(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(tree))


def left(parts: Any, like: Any = None) -> Any:
    """Results with their DataArrays and Datasets, without the encodings of files.

    Arrays are NumPy's where the leaf of `like`, in the structure of the result, is; without it, all are.
    """
    leaves, tree = jax.tree_util.tree_flatten(parts)
    leaves = list(map(_hosted, leaves)) if like is None else hosted(leaves, jax.tree_util.tree_leaves(like))
    # a packing was made for the numbers of the state at the start
    bare = lambda x: x.drop_encoding() if is_labelled(x) else x
    return jax.tree_util.tree_map(bare, whole(tree.unflatten(leaves)), is_leaf=is_labelled)


def hosted(some: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Arrays as NumPy's, but for those that came in as arrays of JAX, and numbers of Python beside such."""
    beside = True in [isinstance(x, jax.Array) for x in like]
    return [x if isinstance(old, jax.Array) or (beside and not hasattr(old, "dtype")) else _hosted(x)
            for x, old in zip(some, like, strict=True)]  # fmt: skip


def _hosted(x: Any) -> Any:
    return on_host(x) if isinstance(x, jax.Array) and not is_tracer(x) else x


def labelled_arrays(function: Callable[[Any], Any], state: Any) -> Any:
    """A state with what a function gives for each of its DataArrays and Datasets."""
    return jax.tree_util.tree_map(lambda x: function(x) if is_labelled(x) else x, state, is_leaf=is_named)


# What a step gives back, in the structure of what it got.


KEEPS_DOMAINS = "a step keeps domains: ti.extend and ti.with_boundary put back what shifts take."


def _turns(what: str, before: Any, after: Any, hint: str, notes: Iterable[str] = ()) -> DiagnosticError:
    """A20: a step that does not give back what it got."""
    return refuse("A20", f"the step turns {what} from {before} into {after}.", hint, notes=notes)


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
        import xarray as xr

        same = set(x.dims.names) == set(model.dims)
        x = xr.DataArray(x.data, dims=x.dims.names) if same else x.to_xarray()
    if not is_data_array(x):
        whose = where if path else "its argument"
        hint = f"a step keeps labels: x.copy(data=...) puts numbers on those of {whose}."
        raise _turns(where, "a DataArray", _kind(x), hint)
    if set(x.dims) != set(model.dims) or any(x.sizes[d] != model.sizes[d] for d in model.dims):
        raise _turns(where, intervals_of(model, {}), intervals_of(x, {}), KEEPS_DOMAINS, _gone(model, x))
    for dim in model.dims:
        _refuse_other_labels(where, dim, model, x)
    have, want = (str(a.attrs.get("units", "")) for a in (x, model))
    if have and want and not is_same(have, want):
        hint = "a step keeps units: multiply by the length of a step, or leave them out: x.drop_attrs()."
        raise _turns(where, want, have, hint)
    ordered = x if x.dims == model.dims else x.transpose(*model.dims)
    data = numbers_of(ordered.variable)
    if data.dtype != model.dtype:
        raise _turns(where, model.dtype, data.dtype, f"a step keeps types: x.astype('{model.dtype}').")
    return [data]


def _gone(model: Any, x: Any) -> Iterator[str]:
    """Notes on the labels that are not there any more, as of xarray's arithmetic on operands with other ones."""
    for dim in model.dims:
        ours, theirs = (labels_of(a, dim) if dim in a.dims else None for a in (model, x))
        if ours is not None and theirs is not None and len(lost := ours.difference(theirs, sort=False)):
            yield f"along {dim} the label {lost[0]} is gone: xarray's arithmetic keeps those that all operands have."


def _kind(x: Any) -> str:
    if is_dataset(x):
        return "a Dataset"
    return "a tuple" if is_tuple(x) else "a dict" if isinstance(x, dict) else "an array without labels"


def _ordered(where: str, model: Field, x: Any) -> Any:
    """The numbers of a Field on the axes of another one."""
    if not isinstance(x, Field):
        raise _turns(where, "a Field", _kind(x), "ti.as_field(dims, x) makes one.")
    if x.dims != model.dims:
        raise _turns(where, model.dims, x.dims, KEEPS_DOMAINS)
    order = [x.dims.names.index(n) for n in model.dims.names]
    data = x.data if order == sorted(order) else x.data.transpose(order)
    if data.dtype != model.dtype:
        raise _turns(where, model.dtype, data.dtype, f"a step keeps types: ti.astype(x, ti.{model.dtype}).")
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
        raise _turns(where, "a Dataset", _kind(x), "return a Dataset, or a dict.")
    names = [str(n) for n in model.data_vars if is_numeric(model[n].variable)]
    variables: Any = getattr(x, "data_vars", x)
    computed = {str(n): v for n, v in variables.items() if n not in model or str(n) in names}
    if computed.keys() != set(names):
        message = f"the step returns the variables {', '.join(computed)}, and {where} has {', '.join(names)}."
        raise refuse("A20", message, "return the next state in the structure of the one that it got.")

    def one(n: str) -> list[Any]:
        value = computed[n]
        if not is_named(value) and np.shape(value) == model[n].shape:
            value = model[n].copy(data=jnp.asarray(value))
        return carried((*path, jax.tree_util.DictKey(n)), model[n], value)

    return [x for n in names for x in one(n)]
