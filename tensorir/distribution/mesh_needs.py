"""Which points of every field each device reads, on a mesh: found through the tables of all operators of a step.

Backward from the results, of which a device computes its own points: what a shift needs of its operand are the entries
of its table there. So a chain of shifts needs as many rings of neighbours as it has links, exactly, and each
intermediate value is computed where a later one reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.binding.arrays import refuse
from tensorir.distribution.subdomains import Keys, Subdomains, mesh_dim
from tensorir.ir.nodes import Call, Expr, Lambda, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Interval
from tensorir.ir.typing_of_elements import neighbour_source

__all__ = ["MOST_MARKED", "SHIFTS", "MeshNeeds", "Shift", "distinct", "entries", "mesh_needs"]

SHIFTS = ("shift_init", "unstructured_shift")
MOST_MARKED = 1 << 27
"""Points of all devices that are marked one by one, a byte each; more are sorted."""

Tables = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """A read through a table, from a dim of the mesh to one of it."""

    table: Var
    dim: str
    source: str
    rows: Keys
    """The points at which its value is needed."""
    read: Keys
    """The points of the source that the devices have of its operand: those that it reads, and others read elsewhere."""


@dataclass(frozen=True, slots=True)
class MeshNeeds:
    """What the devices read of fields, and through which shifts, by the identity of their nodes."""

    fields: Mapping[Var, Keys]
    shifts: Mapping[int, Shift]


def mesh_needs(results: Iterable[Expr], parts: Mapping[str, Subdomains], tables: Tables) -> MeshNeeds:
    """What each device needs for its own points of all results."""
    return _Needs(parts, tables).of(tuple(results))


class _Needs:
    """One backward pass; equal sets of points are one array, so that what was found of them is found once."""

    def __init__(self, parts: Mapping[str, Subdomains], tables: Tables) -> None:
        self.parts, self.tables = parts, tables
        self.found: dict[int, Keys] = {}
        self.reached: set[int] = set()
        self._known: dict[int, list[Keys]] = {}
        self._through: dict[tuple[str, str, int, int | None], Keys] = {}

    def of(self, roots: tuple[Expr, ...]) -> MeshNeeds:
        fields: dict[Var, Keys] = {}
        shifts: list[tuple[Call, Var, str]] = []
        for root in roots:
            self._add(root, None)
        for node in reversed(list(postorder(*roots))):
            if id(node) not in self.reached:
                continue
            own = self.found.get(id(node))
            match node:
                case Var() if own is not None:
                    dim = mesh_dim(node.type, self.parts)
                    assert dim is not None
                    fields[node] = self._joined(fields.get(node), own, self.parts[dim])
                case Call("pos"):
                    pass  # coordinates are known from the type
                case Call(op, (Var() as table, x)) if op in SHIFTS and (dim := self._from(node)) is not None:
                    shifts.append((node, table, dim))
                    self._add(x, self._read(node, table, dim))
                case Call():
                    self._operands(node, own)
                case _:
                    pass
        found = {
            id(node): Shift(table, dim, _source(table), self.found[id(node)], self.found[id(node.args[1])])
            for node, table, dim in shifts
        }
        return MeshNeeds(fields, found)

    def _operands(self, node: Call, own: Keys | None) -> None:
        dim = mesh_dim(node.type, self.parts)
        for k, arg in enumerate(node.args):
            alone = node.op == "assert_" and k == 1  # every device looks at the conditions of its own points
            for value in arg.results if isinstance(arg, Lambda) else (arg,):
                here = mesh_dim(value.type, self.parts)
                self._add(value, own if here == dim and not alone else None)

    def _add(self, node: Expr, keys: Keys | None) -> None:
        """More points of a node; without them, as where all points are folded, those that each device has."""
        self.reached.add(id(node))
        dim = mesh_dim(node.type, self.parts)
        if dim is None:
            return
        part, interval = self.parts[dim], node.tensor.dims[dim]
        keys = self._one(part.owned) if keys is None else keys
        if interval != part.interval:
            point = keys % part.extent + part.interval.start
            keys = self._one(keys[(point >= interval.start) & (point < interval.stop)])
        self.found[id(node)] = self._joined(self.found.get(id(node)), keys, part)

    def _from(self, node: Call) -> str | None:
        """The dim of the mesh that a shift leads from; None where it leads to one that lies whole on every device."""
        table = node.args[0]
        return mesh_dim(table.type, self.parts) if _source(table) in self.parts else None

    def _read(self, node: Call, table: Var, dim: str) -> Keys:
        """The points of the source that a shift reads where it is needed."""
        source, rows = _source(table), self.found[id(node)]
        slot = node.static.neighbour if node.op == "unstructured_shift" else None
        key = table.name, dim, id(rows), slot
        if key not in self._through:
            part, to = self.parts[dim], self.parts[source]
            if table.name not in self.tables:
                told = f"the table '{table.name}' is not known yet, and it says which points of {source} devices need."
                raise refuse("D15", told, f"bind it, f.bind({table.name}=table), or pass it as an array of NumPy.")
            device, point = np.divmod(rows, part.extent)
            read = entries(table, self.tables[table.name], dim, slot)
            read = read.reshape(len(read), -1)[point + part.interval.start - table.tensor.dims[dim].start]
            keys = device[:, None] * to.extent + (read - to.interval.start)
            self._through[key] = self._one(distinct(keys[read != -1], to.parts * to.extent))
        return self._through[key]

    def _joined(self, a: Keys | None, b: Keys, part: Subdomains) -> Keys:
        if a is None or a is b:
            return b
        return self._one(distinct(np.concatenate([a, b]), part.parts * part.extent))

    def _one(self, keys: Keys) -> Keys:
        """The array for a set of points."""
        some = self._known.setdefault(len(keys), [])
        known = next((k for k in some if k is keys or np.array_equal(k, keys)), None)
        if known is None:
            some.append(keys)
        return keys if known is None else known


def _source(table: Expr) -> str:
    return neighbour_source(table.tensor)[1]


def entries(table: Var, array: NDArray[Any], dim: str, slot: int | None = None) -> NDArray[np.int64]:
    """The entries of a table, the points of a dim first and the slots last: all of them, or one."""
    dims = table.tensor.dims
    tag, _ = neighbour_source(table.tensor)
    names = dims.names
    order = [names.index(dim), *(k for k, n in enumerate(names) if n not in (dim, tag)), names.index(tag)]
    slots: Interval = dims[tag]
    moved = np.transpose(np.asarray(array), order).astype(np.int64)
    return moved if slot is None else moved[..., slot - slots.start]


def distinct(keys: Keys, bound: int) -> Keys:
    """The same points once each, in ascending order.

    >>> distinct(np.array([4, 1, 4]), 6).tolist()
    [1, 4]
    """
    if bound > MOST_MARKED:
        return np.unique(keys)
    marked = np.zeros(bound, bool)
    marked[keys] = True
    return np.flatnonzero(marked)
