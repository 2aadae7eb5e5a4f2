"""Arguments for the parameters of a program, as leaves: fields of GT4Py and our own, types, and numbers."""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorir.binding.arrays import host_array
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.types import BOOL, FLOAT64, INT32, Scalar, TensorType, scalar_of
from tensorir.iterator.lift.graph import StridedTable, Table
from tensorir.iterator.lift.program import Leaf
from tensorir.iterator.lift.values import Target
from tensorir.iterator.nodes import ParamType, TupleType
from tensorir.runtime.errors import refuse


def leaf_tree(name: str, value: Any, kind: ParamType | None) -> Any:
    """The leaves of a parameter; raises TI11 for a value that does not have the declared type."""
    if isinstance(kind, TupleType):
        return tuple(leaf_tree(*member) for member in members_of(name, value, kind))
    if isinstance(value, tuple):
        return tuple(leaf_tree(f"{name}_{k}", v, None) for k, v in enumerate(value))
    declared = kind.element if kind is not None else None
    if isinstance(value, TensorType):
        (element,) = value.leaves
        if not value.dims:
            return Leaf(name, _agree(name, declared, element))
        locals_ = tuple(a.name for a in kind.dims if a.kind == "local") if kind is not None else ()
        return Leaf(name, _agree(name, declared, element), value.dims, locals=locals_)
    domain = getattr(value, "domain", None)
    if domain is None:
        return _read_number(name, value, declared)
    element = element_of(value)
    names = [str(d.value) for d in domain.dims]
    if type(value).__name__ == "IndexField":
        return Leaf(name, declared or INT32, None, index=names[0])
    dims = Dims(tuple((n, Interval(int(r.start), int(r.stop))) for n, r in zip(names, domain.ranges, strict=True)))
    kinds = (str(getattr(d.kind, "value", d.kind)) for d in domain.dims)
    locals_ = tuple(n for n, k in zip(names, kinds, strict=True) if k == "local")
    return Leaf(name, _agree(name, declared, element), dims, locals=locals_)


def members_of(name: str, value: Any, kind: TupleType) -> list[tuple[str, Any, ParamType]]:
    """The members of a tuple, each with its name and type; raises TI11 for a value that is no such tuple."""
    if not isinstance(value, tuple):
        raise refuse("TI11", f"'{name}' is a tuple, and this is of type {type(value).__name__}.", "pass a tuple.")
    if len(kind.members) != len(value):
        message = f"'{name}' is a tuple of {len(kind.members)}, and {len(value)} are passed."
        raise refuse("TI11", message, "pass as many as its type has.")
    return [(f"{name}_{k}", v, t) for k, (v, t) in enumerate(zip(value, kind.members, strict=True))]


def _agree(name: str, declared: Scalar | None, element: Scalar | None) -> Scalar:
    """The element type of a parameter, declared or of the value passed; raises TI11 where the two differ."""
    if declared is not None and element is not None and declared != element:
        message = f"'{name}' is {declared}, and {element} is passed."
        raise refuse("TI11", message, f"convert it, or declare {name} as {element}.")
    agreed = declared or element
    assert agreed is not None
    return agreed


def element_of(value: Any) -> Scalar | None:
    """The element type of an array or a field of GT4Py; None for values without a dtype."""
    array = getattr(value, "ndarray", None)
    dtype = array.dtype if array is not None else getattr(value, "dtype", None)
    dtype = getattr(dtype, "scalar_type", dtype)
    return scalar_of(dtype) if dtype is not None else None


def _read_number(name: str, value: Any, declared: Scalar | None) -> Leaf:
    """The leaf of a number; raises TI11 for a bare array, and for types that no program takes."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise refuse("TI11", f"'{name}' is an array without dims.", "pass a field: gtx.as_field([I], array).")
    value = getattr(value, "value", value) if not isinstance(value, (np.generic, np.ndarray)) else value
    plain = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    kinds = {bool: BOOL, int: INT32, float: FLOAT64}
    element = declared or (scalar_of(value.dtype) if isinstance(value, np.generic) else kinds.get(type(plain)))
    if element is None:
        raise refuse("TI11", f"'{name}' is of type {type(value).__name__}, which no program takes.")
    return Leaf(name, element, None, plain)


def offsets(provider: Any, field_offsets: Mapping[str, Any] | None = None) -> dict[str, Target]:
    """An offset provider as where its offsets lead: dims, or tables with their entries.

    A table may be a plain array where the program's own offset of its name tells the dims.
    """
    known = field_offsets or {}
    try:
        given = dict(provider or {})
    except (TypeError, ValueError):
        help = "offset_provider={'V2E': table}."
        raise refuse("TI05", f"an offset provider is a dict of offsets, and not {provider!r}.", help) from None
    return {str(n): _read_target(str(n), value, known.get(str(n))) for n, value in given.items()}


def _read_target(name: str, value: Any, offset: Any) -> Any:
    """The target of an offset in an offset provider: (from dim, to dim, distance) of a dim, or a neighbour table.

    `offset` is the program's own offset of this name, which has the dims of a bare array. Raises TI05 for other values.
    """
    if hasattr(value, "kind") and hasattr(value, "value"):
        return str(value.value), str(value.value), 0
    if hasattr(value, "domain_dim"):
        return str(value.domain_dim.value), str(value.codomain.value), int(value.offset)
    if isinstance(value, Table):
        return value
    dtype = getattr(value, "dtype", None)
    if offset is not None and dtype is not None and not hasattr(value, "domain"):
        return _read_table(name, value, offset)
    if not (hasattr(value, "codomain") and hasattr(value, "domain")):
        help = "gtx.as_connectivity([Vertex, V2EDim], Edge, table) tells the dims of a table." if dtype else ""
        raise refuse("TI05", f"the offset '{name}' leads to what is no dimension and no table.", help)
    if is_strided(value):
        (row, local), slots = [str(d.value) for d in value.domain.dims], len(value.domain.ranges[1])
        return StridedTable(name, (row,), local, str(value.codomain.value), np.empty((0, slots), np.int32), (0,), False)
    entries = host_array(value.ndarray if hasattr(value, "ndarray") else value).astype(np.int32)
    skip = getattr(value, "skip_value", None)
    if skip is not None:
        entries = np.where(entries == skip, np.int32(-1), entries)
    *domain, local = [str(d.value) for d in value.domain.dims]
    origin = tuple(int(r.start) for r in value.domain.ranges)[:-1]
    return Table(name, tuple(domain), local, str(value.codomain.value), entries, origin, bool((entries < 0).any()))


def _read_table(name: str, value: Any, offset: Any) -> Table:
    """A plain array as the neighbour table of an offset; -1 is no neighbour."""
    dims = [str(d.value) for d in offset.target]
    entries = host_array(value)
    if entries.ndim != len(dims) or entries.dtype.kind not in "iu":
        message = f"the table '{name}' has the dims {', '.join(dims)} and holds integers; this is {entries.dtype}"
        raise refuse("TI05", f"{message}{list(entries.shape)}.", "a row for each point, a column for each neighbour.")
    holes = bool((entries < 0).any())
    origin = (0,) * (len(dims) - 1)
    return Table(name, (*dims[:-1],), dims[-1], str(offset.source.value), entries.astype(np.int32), origin, holes)


def is_strided(table: Any) -> bool:
    """True if a table has rows without end, which lead to points one after the other."""
    rows = table.domain.ranges[0]
    return len(table.domain.dims) == 2 and not isinstance(rows.stop, int | np.integer)
