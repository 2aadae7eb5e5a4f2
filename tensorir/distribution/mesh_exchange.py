"""The exchange of halos on an unstructured mesh: the points that devices read, in local numbers, and the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorir.distribution.partition import Keys, Subdomains, mesh_dim, subdomains_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.access import EVERYWHERE, Access
from tensorir.ir.build import var
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import DTYPES, INT32, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.runtime.errors import counted, refuse

# Which points of every field each device reads, on a mesh: found through the tables of all operators of a step.
#
# Backward from the results, of which a device computes its own points: what a shift needs of its operand are the
# entries of its table there. So a chain of shifts needs as many rings of neighbours as it has links, exactly, and
# each intermediate value is computed where a later one reads it.

MOST_MARKED = 1 << 27
"""Points of all devices that are marked one by one, a byte each; more are sorted."""

Tables = Mapping[str, NDArray[Any]]
N = TypeVar("N")
NOTHING: Keys = np.zeros(0, np.int64)
"""The points of a mesh that what has no dim of it is needed at."""


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """A read through a neighbour table, from one dim of the mesh to another."""

    table: Var
    dim: str
    source: str
    rows: Keys
    """The points at which its value is needed."""
    read: Keys
    """The points of the operand that the devices have: those that this call reads, and those that other calls read."""


@dataclass(frozen=True, slots=True)
class MeshNeeds:
    """Reads of fields by the devices, and the shifts that they go through, by the identity of their nodes."""

    fields: Mapping[Var, Keys]
    shifts: Mapping[int, Shift]


def needed(
    roots: Iterable[Expr],
    operand_need: Callable[[Expr, Access | None, Call | None, N | None], N | None],
    joined: Callable[[Expr, N | None, N], N],
) -> dict[int, N]:
    """Backward pass over expressions: the need of every node, by its identity, where a device needs its own points of
    the roots.

    `operand_need(operand, access, call, need of the call)` gives what a call needs of an operand through an access map
    (None: nothing); with None for the last three it gives a device's own points. `joined(node, earlier or None, new)`
    unites the needs of several calls. A node is visited after all calls that read it.
    """
    roots = tuple(roots)
    needs: dict[int, N] = {}

    def add(node: Expr, access: Access | None, call: Call | None, need: N | None) -> None:
        if (new := operand_need(node, access, call, need)) is not None:
            needs[id(node)] = joined(node, needs.get(id(node)), new)

    for root in roots:
        add(root, None, None, None)
    for node in reversed(list(postorder(*roots))):
        if not isinstance(node, Call) or id(node) not in needs:
            continue
        maps = node.accesses
        for arg, access in zip(node.args, (EVERYWHERE,) * len(node.args) if maps is None else maps, strict=True):
            if access is None:
                continue
            # of what is looked at as a whole every device looks at its own points
            own_points_only = TABLE[node.op].effect and not access.is_identity
            for value in arg.results if isinstance(arg, Lambda) else (arg,):
                if isinstance(value.type, TensorType):
                    add(value, *((None, None, None) if own_points_only else (access, node, needs[id(node)])))
    return needs


def mesh_needs(results: Iterable[Expr], parts: Mapping[str, Subdomains], tables: Tables) -> MeshNeeds:
    """The points that the devices need of each field, and the rows and points of each read through a table, if every
    device computes its own points of the results. `tables` has the neighbour tables by name.
    """
    results = tuple(results)
    rules = _Needs(parts, tables)
    by_node = needed(results, rules.operand_need, rules.joined)
    fields: dict[Var, Keys] = {}
    shifts: dict[int, Shift] = {}
    for node in postorder(*results):
        if id(node) not in by_node:
            continue
        if isinstance(node, Var) and mesh_dim(node.type, parts) is not None:
            fields[node] = rules.joined(node, fields.get(node), by_node[id(node)])
        elif (shift := rules.table_of(node)) is not None:
            table, dim = shift
            shifts[id(node)] = Shift(table, dim, _source(table), by_node[id(node)], by_node[id(node.children[1])])
    return MeshNeeds(fields, shifts)


class _Needs:
    """Rules of one backward pass for `needed`. Equal sets of points are one array (interned), so that identity can be
    compared and a table is read once per set.
    """

    def __init__(self, parts: Mapping[str, Subdomains], tables: Tables) -> None:
        self.parts, self.tables = parts, tables
        self._interned: dict[int, list[Keys]] = {}
        self._through: dict[tuple[str, str, int, int | None], Keys] = {}

    def operand_need(self, node: Expr, access: Access | None, call: Call | None, need: Keys | None) -> Keys | None:
        """The points needed of an operand, cut to its interval; None for the table of a read.

        Through a table they are the entries at the rows that the call needs; along the dim of the call they are those
        of the call; in all other cases (a result, a fold of all points) those that each device owns.
        """
        dim = mesh_dim(node.type, self.parts)
        table_and_dim = None if call is None else self.table_of(call)
        if table_and_dim is not None and node is table_and_dim[0]:
            return None
        if dim is None:
            return NOTHING
        part, interval = self.parts[dim], node.tensor.dims[dim]
        keys = self._one(part.owned)
        if call is not None and need is not None and (table_and_dim or mesh_dim(call.type, self.parts) == dim):
            keys = self._read(call, *table_and_dim, need) if table_and_dim else need
        if interval != part.interval:
            point = keys % part.extent + part.interval.start
            keys = self._one(keys[(point >= interval.start) & (point < interval.stop)])
        return keys

    def joined(self, node: Expr, a: Keys | None, b: Keys) -> Keys:
        """The union of two sets of points of a node; the first may be None.

        A node without a dim of the mesh is computed whole, with no points to unite.
        """
        dim = mesh_dim(node.type, self.parts)
        if a is None or a is b or dim is None:
            return b
        return self._one(distinct(np.concatenate([a, b]), self.parts[dim].parts * self.parts[dim].extent))

    def table_of(self, node: Expr) -> tuple[Var, str] | None:
        """The table of a call that reads through one, and the table's dim of the mesh.

        None for other calls, and for tables from dims that are whole on every device, or to such.
        """
        match node:
            case Call(op, (Var() as table, _)) if TABLE[op].table and _source(table) in self.parts:
                dim = mesh_dim(table.type, self.parts)
                return None if dim is None else (table, dim)
            case _:
                return None

    def _read(self, node: Call, table: Var, dim: str, rows: Keys) -> Keys:
        """The points of the source dim in the `rows` of a table, cached by table, rows and slot; D15 if the table is
        not bound.
        """
        source = _source(table)
        slot = getattr(node.static, "neighbour", None)
        key = table.name, dim, id(rows), slot
        if key not in self._through:
            part, to = self.parts[dim], self.parts[source]
            if table.name not in self.tables:
                message = (
                    f"the table '{table.name}' is not known yet, and it says which points of {source} devices need."
                )
                raise refuse("D15", message, f"bind it, f.bind({table.name}=table), or pass it as an array of NumPy.")
            device, point = np.divmod(rows, part.extent)
            read = entries(table, self.tables[table.name], dim, slot)
            read = read.reshape(len(read), -1)[point + part.interval.start - table.tensor.dims[dim].start]
            keys = device[:, None] * to.extent + (read - to.interval.start)
            self._through[key] = self._one(distinct(keys[read != -1], to.parts * to.extent))
        return self._through[key]

    def _one(self, keys: Keys) -> Keys:
        """Interns a set of points: the array first seen with these points."""
        same_size = self._interned.setdefault(len(keys), [])
        existing = next((k for k in same_size if k is keys or np.array_equal(k, keys)), None)
        if existing is None:
            same_size.append(keys)
        return keys if existing is None else existing


def _source(table: Expr) -> str:
    return neighbour_source(table.tensor)[1]


def entries(table: Var, array: NDArray[Any], dim: str, slot: int | None = None) -> NDArray[np.int64]:
    """The entries of a neighbour table with the axes ordered as `dim`, further dims, neighbour slots; with `slot`,
    which counts in coordinates of the slots' dim, those of one slot.
    """
    dims = table.tensor.dims
    tag, _ = neighbour_source(table.tensor)
    names = dims.names
    order = [names.index(dim), *(k for k, n in enumerate(names) if n not in (dim, tag)), names.index(tag)]
    slot_interval: Interval = dims[tag]
    by_row = np.transpose(np.asarray(array), order).astype(np.int64)
    return by_row if slot is None else by_row[..., slot - slot_interval.start]


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


# Points and tables of a mesh in the numbers of each device: its own points, and after them its halo.
#
# The halo is ordered so that what most fields need comes first: rings of neighbours from the inside out, where chains
# of shifts read them. So what a field, a table or an intermediate value needs is the first so many points on every
# device.


@dataclass(frozen=True, eq=False)
class LocalNumbers:
    """The local places of a dim of a mesh: each device's own points, and after them its halo.

    `extent` is the number of places that every device has, padding included.
    """

    part: Subdomains
    keys: Keys
    """The points of all devices, halos included."""
    at: NDArray[np.int64]
    """Where each of them stands on its device."""
    extent: int

    @cached_property
    def _marked(self) -> NDArray[np.int32] | None:
        """A dense map (device × extent + point) → place, -1 where absent; None where that would exceed `MOST_MARKED`
        entries.
        """
        bound = self.part.parts * self.part.extent
        if bound > MOST_MARKED:
            return None
        places = np.full(bound, -1, np.int32)
        places[self.keys] = self.at
        return places

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """The places of points on their devices, -1 for points that their device lacks."""
        if self._marked is not None:
            return self._marked[keys].astype(np.int64)
        candidate = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[candidate] == keys, self.at[candidate], -1)

    def within(self, keys: Keys) -> Interval:
        """The first places, as many as points need on the device where they need most; own points are all there."""
        return Interval(0, max(self.part.size, int(self.places(keys).max(initial=-1)) + 1))

    def halo(self, keys: Keys) -> Keys:
        """Those of some points that other devices have."""
        device, point = np.divmod(keys, self.part.extent)
        return keys[self.part.owners[point] != device]

    def points(self, stop: int) -> NDArray[np.int64]:
        """A table of devices by the first `stop` places: the point there, from the interval's start; -1 in the
        padding.
        """
        points = np.full((self.part.parts, self.extent), -1, np.int64)
        device, point = np.divmod(self.keys, self.part.extent)
        points[device, self.at] = point
        return points[:, :stop]


def _numbers(part: Subdomains, needs: Sequence[Keys]) -> LocalNumbers:
    """Numbers the points of a dim on each device: own points first, padded to the size of the largest part, then the
    halo.

    `needs` are the sets of points that fields and tables need; halo points are ordered by how many sets need them, then
    by owner, so that most sets are a prefix.
    """
    keys = distinct(np.concatenate([part.owned, *needs]), part.parts * part.extent)
    device, point = np.divmod(keys, part.extent)
    owner = part.owners[point]
    in_halo = owner != device
    readers = np.zeros_like(keys)
    for needed_keys in needs:
        readers[np.searchsorted(keys, needed_keys)] += 1
    order = np.lexsort((point, owner * in_halo, -readers * in_halo, in_halo, device))
    counts = np.bincount(device[order], minlength=part.parts)
    device_start = np.cumsum(counts) - counts
    position = np.empty_like(keys)
    position[order] = np.arange(len(keys)) - np.repeat(device_start, counts)
    owned = np.asarray(part.counts)[device]
    place = np.where(in_halo, position - owned + part.size, position)
    return LocalNumbers(part, keys, place, int(place.max()) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class LocalTable:
    """A table in local numbers."""

    param: Var
    """In the local program; its first dim is of the mesh."""
    name: str
    """Of the table in the whole program."""
    array: NDArray[np.int32]
    """Devices by rows by further dims by slots: places of the source, -1 where a neighbour is missing."""
    read: Interval
    """The places that it may lead to."""


@dataclass(frozen=True, slots=True)
class LocalMesh:
    """The dims of a mesh on the devices along an axis, and what is read there."""

    numbers: Mapping[str, LocalNumbers]
    needs: MeshNeeds
    tables: Tables

    @property
    def axis(self) -> str:
        return next(iter(self.numbers.values())).part.axis

    @property
    def parts(self) -> int:
        return next(iter(self.numbers.values())).part.parts

    def whole(self, dim: str) -> Interval:
        """All places of a device, its halo included."""
        return Interval(0, self.numbers[dim].extent)

    def read(self, field: Var, dim: str) -> Keys:
        """The points of a field that devices read."""
        return self.needs.fields.get(field, self.numbers[dim].part.owned)

    def interval(self, field: Var, dim: str) -> Interval:
        """The places of a field that are read."""
        return self.numbers[dim].within(self.read(field, dim))

    def shift(self, node: Call) -> Shift | None:
        """The reads of a shift; None where it leads to a dim that lies whole on every device."""
        return self.needs.shifts.get(id(node))

    def extents(self, shift: Shift) -> tuple[int, int]:
        """Extents of a shift: rows of its table, and places of the source that it reads at most."""
        rows = self.numbers[shift.dim].within(shift.rows)
        return rows.stop, self.numbers[shift.source].within(shift.read).stop

    def table(self, shift: Shift, name: str) -> LocalTable:
        """The neighbour table of a shift in local places, one block of rows per device; -1 stays -1.

        Entries that no one reads (rows in the padding, neighbours that the device lacks) point into the last places,
        each slot at another one, which costs less than all at one place.
        """
        row_extent, read_extent = self.extents(shift)
        part, source = self.numbers[shift.dim].part, self.numbers[shift.source].part
        whole, dims = shift.table, shift.table.tensor.dims
        global_rows = entries(whole, self.tables[whole.name], shift.dim)
        points = self.numbers[shift.dim].points(row_extent)
        row_numbers = np.clip(points + part.interval.start - dims[shift.dim].start, 0, len(dims[shift.dim]) - 1)
        neighbours = global_rows[row_numbers]
        device = np.arange(part.parts).reshape(-1, *(1,) * (neighbours.ndim - 1))
        keys = device * source.extent + np.maximum(neighbours - source.interval.start, 0)
        places = self.numbers[shift.source].places(keys)
        slots = np.arange(neighbours[0].size, dtype=np.int64).reshape(neighbours.shape[1:])
        unread: NDArray[np.int64] = read_extent - 1 - slots % read_extent
        local = np.where((places >= 0) & (places < read_extent), places, unread)
        is_point = (points >= 0).reshape(*points.shape, *(1,) * (neighbours.ndim - 2))
        local = np.where(is_point, np.where(neighbours == -1, -1, local), unread)
        further_dims = [(n, i) for n, i in dims.items if n != shift.dim and not n.startswith("_NB_")]
        tag = [(n, i) for n, i in dims.items if n.startswith("_NB_")]
        kind = TensorType(INT32, Dims(((shift.dim, Interval(0, row_extent)), *further_dims, *tag)))
        return LocalTable(var(name, kind, whole.span), whole.name, local.astype(np.int32), Interval(0, read_extent))


def local_mesh(results: Sequence[Expr], parts: Mapping[str, Any], tables: Tables) -> LocalMesh | None:
    """The local numbering of a mesh for the results of a program; None if no dim is of a mesh.

    `parts` are all distributed dims, `tables` the neighbour tables by name.
    """
    mesh = subdomains_of(parts)
    if not mesh:
        return None
    needs = mesh_needs(results, mesh, tables)
    keys_by_dim: dict[str, dict[int, Keys]] = {d: {} for d in mesh}
    for field, keys in needs.fields.items():
        if (dim := mesh_dim(field.type, mesh)) is not None:
            # equal sets are one array (`_Needs._one`), so identity counts each set once
            keys_by_dim[dim][id(keys)] = keys
    for shift in needs.shifts.values():
        keys_by_dim[shift.dim][id(shift.rows)] = shift.rows
        keys_by_dim[shift.source][id(shift.read)] = shift.read
    return LocalMesh({d: _numbers(p, list(keys_by_dim[d].values())) for d, p in mesh.items()}, needs, tables)


# Who sends which points of a mesh to whom before a step, in rounds that are the same on all devices.
#
# All dims of the mesh go together. A round is a permutation of devices, and all fields of one element type go in one
# permute; where nearly all pairs of devices speak, one `all_to_all` takes the place of the rounds.

NEARLY_ALL = 0.75
"""The share of all pairs of devices from which on one `all_to_all` takes fewer steps than rounds of permutes."""

Pair = tuple[int, int]
Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MeshMessage:
    """Points of a field that one device sends to another."""

    axis: str
    source: int
    target: int
    view: str
    field: str
    dim: str
    points: tuple[int, ...]
    """In the whole."""
    bytes: int

    def __str__(self) -> str:
        points = f"{counted(len(self.points), 'point')} of {self.dim}"
        return f"{self.axis} {self.source} → {self.target}: {self.field} at {points}"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The same points of some fields: what each device sends of its own points, and where it finds its halo."""

    dim: str
    views: tuple[str, ...]
    send: tuple[Numbers, ...]
    """By round, devices by the places that are sent; for `all_to_all` one row of places, target by target."""
    receive: Numbers
    """Devices by the places of the halo: which of all points that came stands there."""


@dataclass(frozen=True, slots=True)
class MeshExchange:
    """All that is sent of a mesh before a step."""

    axis: str
    parts: int
    rounds: tuple[tuple[Pair, ...], ...]
    """Pairs of devices; none where `all_to_all` takes all."""
    layers: tuple[Layer, ...]
    messages: tuple[MeshMessage, ...]
    elements: int
    """Element types that are sent."""

    @property
    def all_to_all(self) -> bool:
        return bool(self.layers) and not self.rounds

    @property
    def collectives(self) -> int:
        """One for each round and element type."""
        return self.elements * (len(self.rounds) or 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """The points that one device sends to another: their numbers, their places at the sender and at the receiver."""

    pair: Pair
    points: NDArray[np.int64]
    send: NDArray[np.int64]
    receive: NDArray[np.int64]


def mesh_exchange(views: Sequence[tuple[Var, Var]], mesh: LocalMesh) -> MeshExchange:
    """Plans the halo exchange of an unstructured mesh.

    `views` pairs each parameter of the local program with the field of the whole program that it holds. Fields with the
    same set of points form one layer; parameters without a halo are skipped.
    """
    parts = {d: n.part for d, n in mesh.numbers.items()}
    grouped: dict[tuple[str, int], tuple[Keys, list[tuple[Var, Var]]]] = {}
    for view, field in views:
        dim = mesh_dim(field.type, parts)
        if dim is None or len(view.type.dims[dim]) <= parts[dim].size:
            continue
        keys = mesh.read(field, dim)
        grouped.setdefault((dim, id(keys)), (keys, []))[1].append((view, field))
    sent = {(dim, k): _sent(mesh, dim, keys) for (dim, k), (keys, _) in grouped.items()}
    weights: Counter[Pair] = Counter()
    messages: list[MeshMessage] = []
    for (dim, k), (_, members) in grouped.items():
        for view, field in members:
            bytes_per_point = _bytes_of_point(view, dim)
            for s in sent[dim, k]:
                weights[s.pair] += len(s.points) * bytes_per_point
                points = tuple((s.points + parts[dim].interval.start).tolist())
                messages.append(MeshMessage(
                    mesh.axis, *s.pair, view.name, field.name, dim, points, len(points) * bytes_per_point,
                ))  # fmt: skip
    rounds = _rounds(weights, mesh.parts)
    layers = [
        _layer(mesh, dim, tuple(v.name for v, _ in members), sent[dim, k], rounds)
        for (dim, k), (_, members) in grouped.items()
    ]
    elements = {leaf for _, members in grouped.values() for _, field in members for leaf in field.type.leaves}
    return MeshExchange(mesh.axis, mesh.parts, rounds, tuple(layers), tuple(messages), len(elements))


def _bytes_of_point(view: Var, dim: str) -> int:
    return view.type.dims.without(dim).size * sum(DTYPES[s].itemsize for s in view.type.leaves)


def _sent(mesh: LocalMesh, dim: str, keys: Keys) -> list[_Sent]:
    """The halo points among `keys` as one `_Sent` per (owner, reader) pair of devices, sorted by source, target and
    point.
    """
    numbers = mesh.numbers[dim]
    halo = numbers.halo(keys)
    target, point = np.divmod(halo, numbers.part.extent)
    source = numbers.part.owners[point].astype(np.int64)
    order = np.lexsort((point, target, source))
    source, target, point = source[order], target[order], point[order]
    send = numbers.places(source * numbers.part.extent + point)
    receive = numbers.places(halo[order])
    sent_by_pair: list[_Sent] = []
    for pair, run in groupby(range(len(order)), lambda k: (int(source[k]), int(target[k]))):
        rows = list(run)
        sent_by_pair.append(_Sent(pair, point[rows], send[rows], receive[rows]))
    return sent_by_pair


def _rounds(weights: Mapping[Pair, int], parts: int) -> tuple[tuple[Pair, ...], ...]:
    """The pairs of devices that send, grouped into rounds in which each device sends and receives at most once.

    Heavy pairs (most bytes) are placed first. Empty where so many pairs exist that one `all_to_all` is faster.
    """
    rounds = edge_coloured(sorted(weights, key=lambda p: (-weights[p], p)))
    dense = len(rounds) > 2 and len(weights) >= NEARLY_ALL * parts * (parts - 1)
    return () if dense else rounds


def edge_coloured(pairs: Sequence[Pair]) -> tuple[tuple[Pair, ...], ...]:
    """Edge colouring of a bipartite graph: (sender, receiver) pairs in rounds, each device at most once per side in a
    round, in as few rounds as the largest number of partners.

    A pair goes to the first round that is free at both ends. If none is, a round `a` is free at the sender and `b` at
    the receiver, and the alternating path of these rounds from the receiver is swapped (Kőnig).

    >>> edge_coloured([(0, 1), (1, 0), (0, 2), (2, 1)])
    (((0, 1), (1, 0)), ((0, 2), (2, 1)))
    """
    sends: dict[int, dict[int, int]] = {source: {} for source, _ in pairs}
    gets: dict[int, dict[int, int]] = {target: {} for _, target in pairs}
    partners = Counter[tuple[str, int]](end for s, t in pairs for end in (("from", s), ("to", t)))
    round_count = max(partners.values(), default=0)
    for source, target in pairs:
        sent, received = sends[source], gets[target]
        free_round = next((k for k in range(round_count) if k not in sent and k not in received), None)
        if free_round is None:
            free_round = next(k for k in range(round_count) if k not in sent)
            _exchange_rounds(sends, gets, target, free_round, next(k for k in range(round_count) if k not in received))
        sent[free_round], received[free_round] = target, source
    return tuple(tuple(sorted((s, to[k]) for s, to in sends.items() if k in to)) for k in range(round_count))


def _exchange_rounds(
    sends: dict[int, dict[int, int]], gets: dict[int, dict[int, int]], target: int, a: int, b: int
) -> None:  # fmt: skip
    """Swaps rounds `a` and `b` along the alternating path a, b, a, ... that begins at `target`, so that `a` is free
    there.

    Changes `sends` (source → round → target) and `gets` (target → round → source) in place.
    """
    path: list[tuple[int, int, int]] = []
    while a in gets[target]:
        source = gets[target][a]
        path.append((source, target, a))
        if b not in sends[source]:
            break
        target = sends[source][b]
        path.append((source, target, b))
    for source, target, number in path:
        del sends[source][number], gets[target][number]
    for source, target, number in path:
        swapped = b if number == a else a
        sends[source][swapped], gets[target][swapped] = target, source


def _layer(
    mesh: LocalMesh, dim: str, views: tuple[str, ...], sent: Sequence[_Sent], rounds: Sequence[Sequence[Pair]]
) -> Layer:
    """The tables of one layer: by round the places that each device sends, and for each place of its halo the position
    among all received points.

    Without rounds an `all_to_all` sends `width` points to each device, so those of `source` start at source * width.
    """
    numbers = mesh.numbers[dim]
    parts, halo_start = numbers.part.parts, numbers.part.size
    receive = np.zeros((parts, max(int(s.receive.max()) for s in sent) + 1 - halo_start), np.int32)
    by_pair = {s.pair: s for s in sent}
    if not rounds:
        width = max(len(s.points) for s in sent)
        table = np.zeros((parts, parts * width), np.int32)
        for (source, target), s in by_pair.items():
            table[source, target * width : target * width + len(s.send)] = s.send
            receive[target, s.receive - halo_start] = source * width + np.arange(len(s.send))
        return Layer(dim, views, (table,), receive)
    send: list[Numbers] = []
    received_start = 0
    for pairs in rounds:
        messages = [by_pair[p] for p in pairs if p in by_pair]
        width = max((len(s.points) for s in messages), default=0)
        table = np.zeros((parts, width), np.int32)
        for s in messages:
            source, target = s.pair
            table[source, : len(s.send)] = s.send
            receive[target, s.receive - halo_start] = received_start + np.arange(len(s.send))
        send.append(table)
        received_start += width
    return Layer(dim, views, tuple(send), receive)
