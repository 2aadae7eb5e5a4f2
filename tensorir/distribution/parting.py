"""From dims and axes of a mesh to decompositions: what a program is parted into, and what is no way to part it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from tensorir.binding.arrays import article, refuse
from tensorir.distribution.decomposition import Decomposition
from tensorir.distribution.partition import Owners, Partition, checked_owners
from tensorir.distribution.subdomains import Part, Subdomains
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Interval, TensorType
from tensorir.runtime.errors import did_you_mean

__all__ = ["NO_OWNERS", "by_dim", "check_axes", "check_dims", "decompositions", "owners_by_dim", "partition_of"]

NO_OWNERS: Mapping[str, Owners] = {}


def partition_of(given: Any, axes: Mapping[str, str], mesh: Mapping[str, int]) -> Mapping[str, Owners]:
    """The owners of the points of dims, from a partition or from vectors by dim.

    Raises D17 where there are not as many parts as devices, D11 for owners that are none, D13 where the dims of the
    partition are not distributed along one axis.
    """
    if not (owners := owners_by_dim(given)):
        return {}
    along = {axes[d]: d for d in owners if d in axes}
    if not along:
        told = f"the partition is of {', '.join(owners)}, and {', '.join(axes) or 'no dim'} is to be distributed."
        raise refuse("D13", told, "name the dims of the mesh with the axis that they go along: {'Vertex': 'px'}.")
    if len(along) > 1:
        told = " and ".join(f"{d} along '{axis}'" for axis, d in along.items())
        raise refuse("D13", f"one partition is to go {told}.", "give all dims of a mesh the same axis.")
    (axis,) = along
    parts = mesh[axis]
    if isinstance(given, Partition):
        if given.parts != parts:
            told = f"the partition has {given.parts} parts, and '{axis}' has {parts} devices."
            raise refuse("D17", told, f"make as many parts as devices: ti.partition(mesh, {parts}).")
        return {d: given.owners[d] for d in owners if d in axes}
    return {d: checked_owners(d, some, len(some), parts) for d, some in owners.items() if d in axes}


def owners_by_dim(given: Any) -> dict[str, Any]:
    """What a partition, or vectors by dim, say of each dim; raises D14 for what is neither."""
    if given is None:
        return {}
    if not isinstance(given, (Partition, Mapping)):
        told = f"{article(type(given).__name__)} is no partition of a mesh."
        raise refuse("D14", told, "make one, ti.partition(mesh, n), or give the owners of points by dim.")
    if isinstance(given, Partition):
        return dict(given.owners)
    return by_dim(cast("Mapping[Any, Any]", given))


def by_dim(given: Mapping[Any, Any]) -> dict[str, Any]:
    """What is given by dims, or by their names: dims of GT4Py have theirs as a value."""
    return {str(getattr(d, "value", d)): some for d, some in given.items()}


def check_axes(axes: Mapping[str, str], mesh: Mapping[str, int], together: Collection[str] = ()) -> None:
    """Raise D01 for an axis that a mesh lacks, D05 for one that two dims are to be along.

    Dims `together` are those of one unstructured mesh, which go along an axis together.
    """
    taken: dict[str, str] = {}
    for dim, axis in axes.items():
        if axis not in mesh:
            told = f"{dim} is to be distributed along '{axis}', and the mesh has no such axis."
            raise refuse("D01", told, did_you_mean(axis, mesh))
        if axis in taken and not (dim in together and taken[axis] in together):
            told = f"{taken[axis]} and {dim} are both to be distributed along '{axis}'."
            lacking = [d for d in (taken[axis], dim) if d not in together]
            apart = "give each dim an axis of its own."
            raise refuse("D05", told, f"give the owners of {lacking[0]} as well." if len(lacking) == 1 else apart)
        taken[axis] = dim


def check_dims(name: str, have: Iterable[str], axes: Mapping[str, str]) -> None:
    """Raise D02 for a dim that a program lacks."""
    have = tuple(have)
    for dim in axes:
        if dim not in have:
            raise refuse("D02", f"'{name}' has no dim {dim} to distribute.", did_you_mean(dim, have))


def decompositions(
    program: Fencil, axes: Mapping[str, str], mesh: Mapping[str, int], owners: Mapping[str, Owners] = NO_OWNERS
) -> dict[str, Part]:
    """A program's intervals along dims, parted into as many blocks as a mesh has devices along their axes.

    Dims that have `owners` are parted by them. Raises D02 for a dim that no parameter has, D03 where there are more
    devices than points, D10 where owners are not those of the points of the program.
    """
    have = dict.fromkeys(d for p in program.params for d in p.type.dims)
    check_dims(program.name, have, axes)
    # what is folded may reach beyond what is stored
    folded = [
        (n.static.dim, a.tensor.dims[n.static.dim])
        for n in postorder(*values(program.closures))
        if isinstance(n, Call) and n.op == "reduce"
        for a in n.args[2:]
        if isinstance(a.type, TensorType) and n.static.dim in a.tensor.dims
    ]
    parts: dict[str, Part] = {}
    for dim, axis in axes.items():
        whole = Interval(0, 0)
        for interval in [p.type.dims[dim] for p in program.params if dim in p.type.dims]:
            whole |= interval
        for d, interval in folded:
            whole = whole | interval if d == dim else whole
        if dim in owners:
            parts[dim] = _by_owners(dim, axis, whole, owners[dim], mesh[axis])
            continue
        if len(whole) < mesh[axis]:
            points = f"{len(whole)} point{'s' * (len(whole) != 1)}"
            told = f"{dim}{whole} has {points}, and '{axis}' {mesh[axis]} devices."
            raise refuse("D03", told, f"use a mesh with at most {len(whole)} devices along '{axis}'." if whole else "")
        parts[dim] = Decomposition(dim, axis, whole, mesh[axis])
    return parts


def _by_owners(dim: str, axis: str, whole: Interval, owners: Owners, parts: int) -> Subdomains:
    points = Interval(0, len(owners))
    if points | whole != points:
        told = f"the partition has {len(owners)} points of {dim}, and the program has {dim}{whole}."
        raise refuse("D10", told, "part the mesh that the program runs on; its points are counted from 0.")
    return Subdomains(dim, axis, points, parts, owners)
