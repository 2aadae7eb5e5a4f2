"""What a run gives: stored as its inputs are, with what was done in its history, and told in a line each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stencils.cli.files import attributes_of, read_arrays
from stencils.cli.inputs import file_of
from stencils.cli.pipes import STANDARD
from tensorir.binding.arrays import kind_of
from tensorir.fieldview.datasets import auxiliary_names, cut_to
from tensorir.runtime.errors import DiagnosticError

__all__ = ["attributes", "described", "encoded", "with_auxiliary"]


def attributes(inputs: Sequence[str], command: str) -> dict[str, Any]:
    """Those of the first file that has any, with what was done on top of its history."""
    all_of_them = (attributes_of(file_of(text)) for text in inputs)
    attrs = next((a for a in all_of_them if a), {})
    now = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {command}"
    return {**attrs, "history": f"{now}\n{attrs['history']}" if attrs.get("history") else now}


def with_auxiliary(results: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
    """Results, and on their points the variables of files that they name as bounds, errors or grid mapping."""
    arrays = [v for v in results.values() if kind_of(v) == "xarray"]
    wanted = auxiliary_names(v for a in arrays for v in (a.variable, *a.coords.variables.values())) - set(results)
    found: dict[str, Any] = {}
    for path in {file_of(text) for text in inputs} if wanted else ():
        for name, array in read_arrays(path).items() if path.suffix != ".npz" and path != STANDARD else ():
            having = [a for a in arrays if set(array.dims) & set(a.dims)]
            if name in wanted and (having or not array.dims):
                try:
                    found[name] = cut_to(name, array, having[0]) if having else array
                except DiagnosticError:  # not on all of their points
                    continue
    return {**results, **found}


KEPT = ("zlib", "complevel", "shuffle", "fletcher32", "chunksizes", "original_shape")
"""What a result keeps of how an input is stored: its compression. Not how that is packed: a computed number would be
rounded again. Coordinates, which are not computed, are stored as they were."""


def encoded(result: Any, arguments: Mapping[str, Any]) -> Any:
    """A result that is stored as the first input on its dims is, members of tuples too."""
    if isinstance(result, tuple):
        return tuple(encoded(member, arguments) for member in result)
    if not hasattr(result, "encoding"):
        return result
    sources = [v for v in arguments.values() if kind_of(v) == "xarray"]
    model = next((v for v in sources if set(v.dims) == set(result.dims)), None)
    own = getattr(model, "encoding", {})
    fill = own.get("_FillValue")
    result.encoding = {k: own[k] for k in KEPT if k in own}
    if isinstance(fill, (float, np.floating)) and result.dtype.kind == "f":
        fill = result.dtype.type(fill)
        if not (result.values == fill).any():  # a number that was computed is not missing
            result.encoding["_FillValue"] = fill
    for name, coordinate in result.coords.items():
        known = (v.coords[name] for v in sources if name in v.coords)
        # points of a file are stored as there, packed or not
        alike = (c for c in known if c.dtype == coordinate.dtype and np.isin(coordinate.values, c.values).all())
        same = next(alike, None)
        coordinate.encoding = {} if same is None else dict(same.encoding)
    return result


def described(value: Any) -> str:
    if isinstance(value, tuple):
        return "; ".join(map(described, value))
    array = np.asarray(value)
    dims = getattr(value, "dims", None)
    names = (
        " × ".join(f"{d} {n}" for d, n in zip(dims, array.shape, strict=True))
        if dims
        else " × ".join(map(str, array.shape))
    )
    if not array.size or array.dtype.kind not in "fiu":
        return f"{names or 'a number'}, {array.dtype}"
    low, high = np.nanmin(array), np.nanmax(array)
    units = f" {value.attrs['units']}" if getattr(value, "attrs", {}).get("units") else ""
    return f"{names or 'a number'}, {array.dtype}, {low:.6g} to {high:.6g}{units}"
