"""From dims and axes of a mesh to decompositions: what a program is parted into, and what is no way to part it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorir.binding.arrays import refuse
from tensorir.distribution.decomposition import Decomposition
from tensorir.errors import did_you_mean
from tensorir.ir import Call, Fencil
from tensorir.types import Interval, TensorType
from tensorir.walk import postorder, values

__all__ = ["check_axes", "check_dims", "decompositions"]


def check_axes(axes: Mapping[str, str], mesh: Mapping[str, int]) -> None:
    """Raise D01 for an axis that a mesh lacks, D05 for one that two dims are to be along."""
    taken: dict[str, str] = {}
    for dim, axis in axes.items():
        if axis not in mesh:
            told = f"{dim} is to be distributed along '{axis}', and the mesh has no such axis."
            raise refuse("D01", told, did_you_mean(axis, mesh))
        if axis in taken:
            told = f"{taken[axis]} and {dim} are both to be distributed along '{axis}'."
            raise refuse("D05", told, "give each dim an axis of its own.")
        taken[axis] = dim


def check_dims(name: str, have: Iterable[str], axes: Mapping[str, str]) -> None:
    """Raise D02 for a dim that a program lacks."""
    have = tuple(have)
    for dim in axes:
        if dim not in have:
            raise refuse("D02", f"'{name}' has no dim {dim} to distribute.", did_you_mean(dim, have))


def decompositions(program: Fencil, axes: Mapping[str, str], mesh: Mapping[str, int]) -> dict[str, Decomposition]:
    """A program's intervals along dims, parted into as many blocks as a mesh has devices along their axes.

    Raises D02 for a dim that no parameter has, D03 where there are more devices than points.
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
    parts: dict[str, Decomposition] = {}
    for dim, axis in axes.items():
        whole = Interval(0, 0)
        for interval in [p.type.dims[dim] for p in program.params if dim in p.type.dims]:
            whole |= interval
        for d, interval in folded:
            whole = whole | interval if d == dim else whole
        if len(whole) < mesh[axis]:
            points = f"{len(whole)} point{'s' * (len(whole) != 1)}"
            told = f"{dim}{whole} has {points}, and '{axis}' {mesh[axis]} devices."
            raise refuse("D03", told, f"use a mesh with at most {len(whole)} devices along '{axis}'." if whole else "")
        parts[dim] = Decomposition(dim, axis, whole, mesh[axis])
    return parts
