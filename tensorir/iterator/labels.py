"""Arguments whose axes have names, xarray's DataArrays: turned to the order of declared dims, and results labelled."""

# xarray is no dependency, and its types are not known here.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensorir.ir.types import Dims
from tensorir.iterator.lift.values import leaves
from tensorir.iterator.nodes import FieldType, ParamType, TupleType
from tensorir.iterator.refusals import refused

__all__ = ["coordinates", "in_order", "is_labelled", "labelled"]


def is_labelled(value: Any) -> bool:
    """Whether the axes of an array have names: whether it is a DataArray."""
    return hasattr(value, "dims") and hasattr(value, "coords")


def in_order(name: str, value: Any, kind: ParamType | None) -> Any:
    """The array of a DataArray, its axes as the parameter's dims; raises TI11 for other dims. Other arrays stay."""
    if isinstance(kind, TupleType):
        return tuple(in_order(f"{name}_{k}", v, t) for k, (v, t) in enumerate(zip(value, kind.members, strict=True)))
    if not is_labelled(value) or not isinstance(kind, FieldType):
        return value
    dims = [a.name for a in kind.dims]
    if set(value.dims) != set(dims):
        said = f"'{name}' has the dims {', '.join(dims) or 'of a number'}, and this array has {', '.join(value.dims)}."
        raise refused("TI11", said, help="rename its dims: array.rename({...}).")
    return value.transpose(*dims).data if dims else value.item()


def coordinates(values: Iterable[Any]) -> dict[str, Any]:
    """The coordinates along each dim, of the first array that has some."""
    found: dict[str, Any] = {}
    for array in (a for value in values for a in leaves(value) if is_labelled(a)):
        for d in array.dims:
            if d in array.coords:
                found.setdefault(str(d), array.coords[d].values)
    return found


def labelled(array: Any, dims: Dims, known: Mapping[str, Any]) -> Any:
    """A result as a DataArray: coordinates are those at its points, counted from 0."""
    import xarray

    here = {
        d: known[d][i.start : i.stop] for d, i in dims.items if d in known and i.start >= 0 and i.stop <= len(known[d])
    }
    return xarray.DataArray(array, dims=dims.names, coords=here)
