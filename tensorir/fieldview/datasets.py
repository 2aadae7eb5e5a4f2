"""Operators of one field, called on a whole Dataset: every variable that has the dims, as xarray's own functions do.

The dims of an operator are those that it names, in shifts, scans, boundary conditions and annotations, and those of the
coordinates that it asks for. A variable that lacks one of them is kept as it is, on the points that results have; so
is one that others name as their bounds, errors, cell measures or grid mapping (`AUXILIARY_ATTRIBUTES`).

>>> import tensorir as ti
>>> import xarray as xr
>>> (I,) = ti.dims("I")
>>> @ti.field_operator
... def rise(h):
...     return h(I + 1) - h
>>> found = rise(xr.Dataset({"a": ("I", [1.0, 4.0, 9.0]), "b": ("I", [2.0, 2.0, 5.0]), "c": 7.0}))
>>> found.a.values, found.b.values, found.c.item()
(array([3., 5.]), array([0., 3.]), 7.0)
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensorir.binding.arrays import is_tuple
from tensorir.binding.labels import labels_of, xarray_option
from tensorir.ir.staggering import partners
from tensorir.ir.types import DTYPES, FLOAT64, scalar_of
from tensorir.runtime.errors import DiagnosticError, refuse

AUXILIARY_ATTRIBUTES = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "formula_terms", "grid_mapping"
)  # fmt: skip
"""The attributes of the CF conventions by which a variable names others that say more of it."""


def auxiliary_of(whole: Any) -> frozenset[str]:
    """The data variables of a Dataset that others name in `AUXILIARY_ATTRIBUTES`.

    >>> import xarray as xr
    >>> lon = xr.Variable("lon", [5.0, 15.0], {"bounds": "lon_bnds"})
    >>> auxiliary_of(xr.Dataset({"lon_bnds": (("lon", "side"), [[0.0, 10.0], [10.0, 20.0]])}, {"lon": lon}))
    frozenset({'lon_bnds'})
    """
    return auxiliary_names(whole.variables.values()) & {str(n) for n in whole.data_vars}


def auxiliary_names(variables: Iterable[Any]) -> frozenset[str]:
    """All words in the `AUXILIARY_ATTRIBUTES` of variables, from attributes or encoding."""
    texts = [{**v.encoding, **v.attrs}.get(key) for v in variables for key in AUXILIARY_ATTRIBUTES]
    return frozenset(word for text in texts if isinstance(text, str) for word in text.replace(":", " ").split())


def is_whole(value: Any) -> bool:
    """True if a value is a Dataset."""
    xarray: Any = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.Dataset)


def over_variables(
    name: str, signature: inspect.Signature, bound: Mapping[str, Any], call: Callable[..., Any],
    dims_named: Callable[[Mapping[str, Any]], frozenset[str]],
) -> Any:  # fmt: skip
    """A Dataset (or tuple of them) of the results of an operator for every variable of its Datasets that has the dims.

    `bound` has the arguments by name; those that are no Datasets go to each `call`. `dims_named` returns the dims that
    the operator names, from arguments on all dims of the Dataset. Other variables are kept, cut to the results. Raises
    V39 for Datasets with different variables, if no variable has the dims, and for one that cannot be cut.
    """
    wholes = {n: members_of_whole(v) for n, v in bound.items() if is_whole(v)}
    first = next(iter(wholes))
    variables = list(wholes[first])
    for other, members in wholes.items():
        if set(members) != set(variables):
            one = next(v for v in (*variables, *members) if (v in members) != (v in wholes[first]))
            lacks, has = (other, first) if one in wholes[first] else (first, other)
            raise refuse("V39", f"'{has}' has the variable '{one}', and '{lacks}' has not.", "give both the same.")
    named = dims_named(
        {n: _on_all_dims(v, wholes[n]) if n in wholes else _without_numbers(v) for n, v in bound.items()}
    )
    results: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    auxiliary = auxiliary_of(bound[first])
    for variable in variables:
        arguments = {n: wholes[n][variable] if n in wholes else v for n, v in bound.items()}
        if variable in auxiliary or any(_lacks(wholes[n][variable], named) for n in wholes):
            kept[variable] = wholes[first][variable]
            continue
        by_place = inspect.BoundArguments(signature, OrderedDict(arguments))
        try:
            results[variable] = call(*by_place.args, **by_place.kwargs)
        except DiagnosticError as error:
            note = f"this is the variable '{variable}' of the Dataset."
            raise DiagnosticError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics]) from None
    if not results:
        dims = " and ".join(sorted(named))
        raise refuse("V39", f"no variable of '{first}' has {dims}, which '{name}' names.", "rename the dims.")
    return _together(bound[first], results, kept)


def members_of_whole(whole: Any) -> dict[str, Any]:
    """The data variables of a Dataset as DataArrays by name."""
    return {str(n): v for n, v in whole.data_vars.items()}


def coordinates_of_whole(whole: Any) -> dict[str, Any]:
    """The coordinates by name, among which models keep the lengths and areas of cells."""
    return {str(n): v for n, v in getattr(whole, "coords", {}).items()}


def _lacks(array: Any, named: frozenset[str]) -> bool:
    have = {str(d) for d in array.dims}
    return any(d not in have and not partners(d, have) for d in named)


def _without_numbers(array: Any) -> Any:
    """A DataArray of dask with broadcast zeros as data, which take no memory; any other array unchanged."""
    element = scalar_of(array.dtype) if getattr(array, "chunks", None) is not None else None
    return array if element is None else array.copy(data=np.broadcast_to(np.zeros((), DTYPES[element]), array.shape))


def _on_all_dims(whole: Any, members: Mapping[str, Any]) -> Any:
    """A DataArray of broadcast zeros (no memory) on all dims and coordinates of a Dataset, with a member's dtype."""
    elements = [e for v in members.values() if (e := scalar_of(v.dtype)) is not None]
    element = next((e for e in elements if e.is_float), elements[0] if elements else FLOAT64)
    import xarray as xr

    blank = np.broadcast_to(np.zeros((), DTYPES[element]), tuple(whole.sizes.values()))
    return xr.DataArray(blank, whole.coords, tuple(whole.sizes))


def _together(whole: Any, results: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
    """Results and kept variables by name as one Dataset in the order of `whole`.

    For tuples as results, a tuple of them.
    """
    sample = next(iter(results.values()))
    if is_tuple(sample):
        parts = [_together(whole, {n: r[k] for n, r in results.items()}, kept) for k in range(len(sample))]
        return type(sample)(*parts) if hasattr(sample, "_fields") else tuple(parts)
    order = list(members_of_whole(whole))
    import xarray as xr

    dataset = xr.Dataset({n: r.rename(n) for n, r in results.items()})
    for variable, array in kept.items():
        dataset[variable] = cut_to(variable, array, dataset)
    other_coords = {
        n: c for n, c in whole.coords.items() if n not in dataset.coords and not set(c.dims) & set(dataset.dims)
    }
    attrs: dict[str, Any] = {} if xarray_option("keep_attrs", "default") is False else whole.attrs
    ordered: Any = dataset[order]
    return ordered.assign_coords(other_coords).assign_attrs(attrs)


def cut_to(variable: str, array: Any, results: Any) -> Any:
    """A variable cut to the points of the Dataset `results` along its dims; raises V39 where it lacks some of them."""
    for dim in [d for d in array.dims if d in results.sizes]:
        places = _places(labels_of(array, str(dim)), labels_of(results, str(dim)), results.sizes[dim])
        if any(not 0 <= k < array.sizes[dim] for k in places):
            message = f"'{variable}' is not computed, and has not all points of {dim} that the results have"
            raise refuse("V39", f"{message}.", f"leave it out: dataset.drop_vars('{variable}').")
        array = array.isel({dim: places})
    return array.reset_coords(drop=True)


def _places(labels: Any, wanted: Any, count: int) -> list[int]:
    """The positions in an array with these labels of the `wanted` labels of a result; -1 for those that it lacks.

    Without labels of the result they are the first `count`; without labels of the array, the labels are positions.
    """
    if wanted is None:
        return list(range(count))
    return [int(k) for k in (wanted if labels is None else labels.get_indexer(wanted))]
