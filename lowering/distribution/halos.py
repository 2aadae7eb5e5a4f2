"""The exchange before a step, within `jax.shard_map`: of blocks, of a mesh's points, and of its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from lowering.calls.compiled import Compiled
from lowering.calls.executable import Executable
from lowering.rules.neighbours import Prepared, prepare
from tensorir.analysis.absence import analyse_absence
from tensorir.binding.arrays import SkipValues
from tensorir.binding.calls import tables_of
from tensorir.distribution.exchange import Exchange, Phase, Piece, Round
from tensorir.distribution.local_program import Localised, View
from tensorir.distribution.mesh_exchange import Layer, LocalTable, MeshExchange
from tensorir.distribution.partition import subdomains_of
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Fencil

# The exchange of a mesh's points before a step, within `jax.shard_map`: own points in, own points and halo out.
#
# What is sent is gathered by lists of places, and what came is put in order by another gather: the adjoint, which JAX
# derives, sends back in the same rounds and adds up.

MeshLeaves = tuple[jax.Array, ...]


def lists_of(plan: MeshExchange) -> dict[str, np.ndarray[Any, Any]]:
    """The lists of positions that the exchange sends and receives, concatenated device by device, by names that no
    field has.
    """
    lists: dict[str, np.ndarray[Any, Any]] = {}
    for k, layer in enumerate(plan.layers):
        lists.update({_send(k, r): table.reshape(-1) for r, table in enumerate(layer.send)})
        lists[_receive(k)] = layer.receive.reshape(-1)
    return lists


def _send(layer: int, step: int) -> str:
    return f"sent of layer {layer} in round {step}"


def _receive(layer: int) -> str:
    return f"halo of layer {layer}"


def with_mesh_halos(
    arrays: Mapping[str, MeshLeaves], views: Mapping[str, View], plan: MeshExchange, fixed: Mapping[str, MeshLeaves]
) -> dict[str, MeshLeaves]:
    """The views of an unstructured mesh's fields, with the halo points received from other devices appended.

    `fixed`: this device's lists of the plan (`lists_of`).
    """
    count = 1 if plan.all_to_all else len(plan.rounds)
    received: dict[tuple[str, int], list[jax.Array]] = {}
    for step in range(count):
        sent: dict[tuple[str, int], jax.Array] = {}
        for k, layer in enumerate(plan.layers):
            if not layer.send[step].size:
                continue
            (places,) = fixed[_send(k, step)]
            for name in layer.views:
                for n, leaf in enumerate(arrays[name]):
                    sent[name, n] = _rows(leaf, places, _axis(views[name], layer))
        for key, rows in _points_exchanged(sent, plan, step).items():
            received.setdefault(key, []).append(rows)
    result = dict(arrays)
    for k, layer in enumerate(plan.layers):
        (order,) = fixed[_receive(k)]
        for name in layer.views:
            axis = _axis(views[name], layer)
            result[name] = tuple(
                _extended(leaf, lax.concatenate(received[name, n], 0), order, axis)
                for n, leaf in enumerate(arrays[name])
            )
    return result


def _axis(view: View, layer: Layer) -> int:
    return view.param.type.dims.names.index(layer.dim)


def _points_exchanged(
    sent: Mapping[tuple[str, int], jax.Array], plan: MeshExchange, step: int
) -> dict[tuple[str, int], jax.Array]:
    """The points that this device receives in a round, one collective for each element type.

    `sent`: by view and leaf, the rows to send. All-to-all is one round, else round `step` is a permutation.
    """
    received: dict[tuple[str, int], jax.Array] = {}
    lines = plan.parts if plan.all_to_all else 1
    collective: Callable[[jax.Array], jax.Array] = (
        (lambda x: lax.all_to_all(x, plan.axis, 0, 0, tiled=True))
        if plan.all_to_all
        else (lambda x: lax.ppermute(x, plan.axis, plan.rounds[step]))
    )
    for dtype in dict.fromkeys(x.dtype for x in sent.values()):
        of_this_type = {key: x for key, x in sent.items() if x.dtype == dtype}
        packed = [lax.reshape(x, (lines, x.size // lines)) for x in of_this_type.values()]
        received_rows = collective(lax.concatenate(packed, 1))
        begin = 0
        for key, x in of_this_type.items():
            width = x.size // lines
            received[key] = lax.reshape(lax.slice_in_dim(received_rows, begin, begin + width, axis=1), x.shape)
            begin += width
    return received


def _rows(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """The rows at places along an axis, that axis first."""
    moved = jax.numpy.moveaxis(x, axis, 0)
    return moved.at[places].get(mode="promise_in_bounds")


def _extended(block: jax.Array, received_rows: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """A device's own points, followed by its halo, which `order` picks from the rows received in all rounds."""
    halo = jax.numpy.moveaxis(_rows(received_rows, order, 0), 0, axis)
    return lax.concatenate([block, halo], axis)


# The exchange before a step, within `jax.shard_map`: blocks in, blocks with what surrounds them out.
#
# What came is kept apart from the block, so that who reads a few points at a side copies those alone, and who reads own
# points reads the block itself.

Leaves = tuple[jax.Array, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """The pieces of an array that a device received along one dim, and where each is put."""

    dim: str
    axis: str
    """Of the mesh."""
    pieces: tuple[tuple[Piece, jax.Array], ...] = ()

    def place(self, piece: Piece, box: Interval) -> Interval:
        """The interval, in an array on `box`, in which a piece is put on some device."""
        return Interval(box.start + min(piece.receive), box.start + max(piece.receive) + piece.width)


@dataclass(frozen=True, slots=True)
class Surrounded:
    """A block, and what was received around it dim by dim, each on what those before it have brought."""

    block: jax.Array
    have: Dims
    """The points of the block itself."""
    box: Dims
    """All points, once everything was received."""
    received: tuple[Received, ...] = ()

    def on(self, dims: Dims) -> jax.Array:
        """The values at the points of `dims`, zeros where nothing was received."""
        return self._after(len(self.received), dims)

    @property
    def whole(self) -> jax.Array:
        """The values at all points."""
        return self.on(self.box)

    def _after(self, phases: int, dims: Dims) -> jax.Array:
        """The values at points that the block and the first phases of the exchange have.

        Pieces at positions that are fixed for all devices are concatenated; others are written at each device's
        position.
        """
        if not phases:
            return part_of(self.block, self.have, dims)
        last_received = self.received[phases - 1]
        if last_received.dim not in dims:
            return self._after(phases - 1, dims)
        requested, box, axis = dims[last_received.dim], self.box[last_received.dim], dims.names.index(last_received.dim)
        moving_pieces = [
            (p, x, place)
            for p, x in last_received.pieces
            if not p.fixed and (place := last_received.place(p, box)) & requested
        ]
        extended = requested
        for _, _, place in moving_pieces:
            extended |= place
        values = self._with_fixed_pieces(phases, dims.with_interval(last_received.dim, extended))
        for piece, x, _ in moving_pieces:
            rows = Interval(0, piece.width)
            piece_dims, requested_rows = (
                dims_around.with_interval(last_received.dim, rows) for dims_around in (self._having(phases - 1), dims)
            )
            values = _written_at(
                values,
                part_of(x, piece_dims, requested_rows),
                piece,
                axis,
                last_received.axis,
                box.start - extended.start,
            )
        return part_of(values, dims.with_interval(last_received.dim, extended), dims)

    @property
    def reached(self) -> Dims:
        """The points of the block, and of what was received so far."""
        return self._having(len(self.received))

    def _having(self, phases: int) -> Dims:
        """The points of the block and of the first phases' receptions."""
        along = {r.dim for r in self.received[:phases]}
        return Dims(tuple((d, self.box[d] if d in along else i) for d, i in self.have.items))

    def _with_fixed_pieces(self, phases: int, dims: Dims) -> jax.Array:
        """The block and pieces at positions that are fixed for all devices, concatenated, with zeros between."""
        last_received, available = self.received[phases - 1], self._having(phases - 1)
        requested, axis = dims[last_received.dim], dims.names.index(last_received.dim)
        sources: list[tuple[Interval, jax.Array | None]] = [(available[last_received.dim], None)]
        for piece, x in last_received.pieces:
            if piece.fixed:
                sources.append((last_received.place(piece, self.box[last_received.dim]), x))
        parts: list[jax.Array] = []
        at = requested.start
        for points, x in sorted(sources, key=lambda source: source[0].start):
            overlap = points & requested
            if not overlap:
                continue
            if overlap.start > at:
                parts.append(_zeros(self.block, dims.with_interval(last_received.dim, Interval(at, overlap.start))))
            on = dims.with_interval(last_received.dim, overlap)
            parts.append(
                self._after(phases - 1, on)
                if x is None
                else part_of(x, available.with_interval(last_received.dim, points), on)
            )
            at = overlap.stop
        if at < requested.stop:
            parts.append(_zeros(self.block, dims.with_interval(last_received.dim, Interval(at, requested.stop))))
        return lax.concatenate(parts, axis) if len(parts) > 1 else parts[0]


Surroundings = dict[str, tuple[Surrounded, ...]]
"""By view."""


def with_halos(blocks: Mapping[str, Leaves], local: Localised, plan: Exchange) -> Surroundings:
    """The views of the local program, by name, from `blocks`: the blocks of fields and the lists of an unstructured
    mesh.

    Exchanges halos phase by phase, one dim each; bound fields have their halos already.
    """
    views = {v.param.name: v for v in local.views}
    surroundings: Surroundings = complete_views(
        {n: blocks[n] for n, v in views.items() if v.field.name in plan.held}, views
    )
    for name, v in views.items():
        if name not in surroundings:
            # of a block its points, and not those that the view has beside them
            dims = v.param.type.dims
            own_dims = Dims(
                tuple((d, Interval(0, local.parts[d].size) if d in local.parts else i) for d, i in dims.items)
            )
            box = own_dims.replaced(dims.without(*subdomains_of(local.parts)))
            surroundings[name] = tuple(Surrounded(x, own_dims, box) for x in blocks[v.field.name])
    for phase in plan.phases:
        surroundings = _exchanged(surroundings, phase)
    if plan.mesh is None:
        return surroundings
    arrays = with_mesh_halos(
        {n: tuple(x.whole for x in leaves) for n, leaves in surroundings.items()}, views, plan.mesh, blocks
    )
    return complete_views(arrays, views)


def complete_views(arrays: Mapping[str, Leaves], views: Mapping[str, View]) -> Surroundings:
    """Views whose arrays have all of their points."""
    boxes = {name: views[name].param.type.dims for name in arrays}
    return {name: tuple(Surrounded(x, boxes[name], boxes[name]) for x in leaves) for name, leaves in arrays.items()}


def _exchanged(views: Surroundings, phase: Phase) -> Surroundings:
    """The views with the pieces received in one phase, along one dim."""
    dim, axis = phase.part.dim, phase.part.axis
    received: dict[str, list[tuple[Piece, Leaves]]] = {}
    for one_round in phase.rounds:
        for piece, leaves in zip(one_round.pieces, _permuted(views, one_round, phase), strict=True):
            received.setdefault(piece.view, []).append((piece, leaves))
    extended_views: Surroundings = {}
    for name, leaves_of_view in views.items():
        pieces = received.get(name, [])
        received_by_leaf = [
            Received(dim, axis, tuple((piece, leaves[k]) for piece, leaves in pieces))
            for k in range(len(leaves_of_view))
        ]
        extended_views[name] = tuple(
            replace(x, received=(*x.received, r)) for x, r in zip(leaves_of_view, received_by_leaf, strict=True)
        )
    return extended_views


def _permuted(views: Surroundings, exchange_round: Round, phase: Phase) -> list[Leaves]:
    """The pieces that this device receives in a round, by one `ppermute` for each element type.

    Without pairs of devices what would be sent stays on the device.
    """
    sent: list[Leaves] = [
        tuple(_sent_points(x, piece, phase.part.dim, phase.part.axis) for x in views[piece.view])
        for piece in exchange_round.pieces
    ]
    if not exchange_round.pairs:
        return sent
    flat, structure = jax.tree_util.tree_flatten(sent)
    received: list[Any] = list(flat)
    for dtype in dict.fromkeys(x.dtype for x in flat):
        of_this_type = [k for k, x in enumerate(flat) if x.dtype == dtype]
        packed = lax.concatenate([lax.reshape(flat[k], (flat[k].size,)) for k in of_this_type], 0)
        packed = lax.ppermute(packed, phase.part.axis, exchange_round.pairs)
        begin = 0
        for k in of_this_type:
            piece = lax.slice_in_dim(packed, begin, begin + flat[k].size)
            received[k] = lax.reshape(piece, flat[k].shape)
            begin += flat[k].size
    return jax.tree_util.tree_unflatten(structure, received)


def _sent_points(array: Surrounded, piece: Piece, dim: str, mesh_axis: str) -> jax.Array:
    """The part of its block that a device sends for a piece, along `dim`.

    If the part differs from device to device, it is sliced at run time from the hull of all of them.
    """
    points, axis = Interval(min(piece.send), max(piece.send) + piece.width), array.have.names.index(dim)
    available = points & array.have[dim]
    sent = array.on(array.reached.with_interval(dim, available))
    if piece.fixed:
        return sent
    # blocks at the end have fewer points, and a slice that would leave the block begins elsewhere
    padding = [(0, points.stop - available.stop if k == axis else 0, 0) for k in range(sent.ndim)]
    padded = lax.pad(sent, lax.full((), 0, sent.dtype), padding)
    start = lax.sub(of_this_device(piece.send, mesh_axis), np.int32(points.start))
    return lax.dynamic_slice_in_dim(padded, start, piece.width, axis)


def _written_at(array: jax.Array, x: jax.Array, piece: Piece, axis: int, mesh_axis: str, origin: int) -> jax.Array:
    """The array with a received piece written at this device's position along an axis, of which only its own count
    of points.

    `origin`: the position of the array's origin.
    """
    start = lax.add(of_this_device(piece.receive, mesh_axis), np.int32(origin))
    count = of_this_device(piece.counts, mesh_axis)
    current = lax.dynamic_slice_in_dim(array, start, piece.width, axis)
    is_received = lax.lt(lax.broadcasted_iota("int32", x.shape, axis), lax.broadcast(count, x.shape))
    return lax.dynamic_update_slice_in_dim(array, lax.select(is_received, x, current), start, axis)


def part_of(x: jax.Array, available: Dims, dims: Dims) -> jax.Array:
    """The values at `dims`, a part of the points `available` of an array."""
    if dims.items == available.items:
        return x
    return lax.slice(
        x, [i.start - available[d].start for d, i in dims.items], [i.stop - available[d].start for d, i in dims.items]
    )


def of_this_device(values: Sequence[int], mesh_axis: str) -> jax.Array:
    """The entry of this device in a list by device along a mesh axis."""
    table = lax.full((len(values),), 0, "int32") + np.asarray(values, np.int32)
    return lax.dynamic_index_in_dim(table, lax.axis_index(mesh_axis), keepdims=False)


def _zeros(like: jax.Array, dims: Dims) -> jax.Array:
    return lax.full(dims.shape, 0, like.dtype)


# What is known of neighbour tables before a distributed step: their numbers, and where they hold -1.

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a program that are known, by name."""

    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])
    holes: Mapping[str, SkipValues] = field(default_factory=dict[str, SkipValues])

    @classmethod
    def of(cls, program: Fencil, arrays: Mapping[str, tuple[Any, ...]], holes: Mapping[str, SkipValues]) -> Tables:
        """The tables of a program whose entries are known (`holes`)."""
        known = [n for n in tables_of(program) if n in holes]
        return cls({n: np.asarray(arrays[n][0]) for n in known}, {n: holes[n] for n in known})

    def key(self, bound: Mapping[str, Any]) -> tuple[Any, ...]:
        """A hashable key of the tables; bound ones never change, and are identified by the array."""
        return tuple((n, id(bound[n]) if n in bound else digest(a)) for n, a in self.arrays.items())


NO_TABLES = Tables()


def digest(array: Array) -> str:
    """A digest of an array."""
    header = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()


def known_tables(
    compiled: Compiled, read: Mapping[str, Dims], holes: Mapping[str, SkipValues], full: frozenset[str]
) -> Executable:
    """The executable of the local program, with the facts of its tables; gradients count only the points `read` of
    its results.

    Absence of outputs was checked in the undistributed program.
    """
    program, engine = compiled.engine.program.program, compiled.engine
    assert isinstance(program, Fencil)
    fencil = engine.stages(program, holes or None).result
    return Executable(fencil, {}, analyse_absence(fencil, holes, full), engine.options, read=read)


# What the devices read of a mesh and nobody writes: tables in local numbers, coordinates, lists of what is sent.
#
# Fields that are bound are among it, with their halo from the start: they are dealt out once, and never sent.
#
# They are arrays with a part for each device, so that a device holds its own and no program has them as constants.


@dataclass(frozen=True, slots=True)
class Fixed:
    """Arrays by name, one for each leaf, device by device along an axis."""

    arrays: Mapping[str, tuple[Array, ...]]
    axes: Mapping[str, int]
    """The axis, where it is not the first."""
    structures: Mapping[str, Any]
    """Of each table, what its arrays are of it as it is read."""

    @classmethod
    def of(cls, local: Localised, plan: MeshExchange | None, held: Mapping[str, tuple[Array, ...]]) -> Fixed:
        """The lists that a local program and its exchange read, its tables, and `held` fields with halos; empty
        without a mesh.
        """
        if local.mesh is None or plan is None:
            return cls({}, {}, {})
        lists = lists_of(plan)
        for dim, place in local.positions.items():
            if (numbers := local.mesh.numbers.get(dim)) is not None:
                points, global_interval = numbers.points(numbers.extent), numbers.part.interval
                lists[place.name] = (
                    np.where(points < 0, global_interval.stop, points + global_interval.start)
                    .astype(np.int32)
                    .reshape(-1)
                )
        structures: dict[str, Any] = {}
        for table in local.tables:
            name = table.param.name
            lists[name] = table.array.reshape(-1, *table.array.shape[2:])
            leaves, structures[name] = jax.tree_util.tree_flatten(_prepared_for_all(table))
            lists.update({_leaf_name(name, k): leaf for k, leaf in enumerate(leaves)})
        arrays: dict[str, tuple[Array, ...]] = {name: (array,) for name, array in lists.items()}
        axes: dict[str, int] = {}
        for view in local.views:
            if view.field.name in held:
                name, dims = view.param.name, view.param.type.dims
                (dim,) = (d for d in dims if d in local.mesh.numbers)
                axes[name] = dims.names.index(dim)
                points = local.mesh.numbers[dim].points(len(dims[dim])).reshape(-1)
                first = view.field.type.dims[dim].start - local.mesh.numbers[dim].part.interval.start
                source_positions = np.clip(points - first, 0, len(view.field.type.dims[dim]) - 1)
                arrays[name] = tuple(np.take(a, source_positions, axes[name]) for a in held[view.field.name])
        return cls(arrays, axes, structures)

    def spec(self, name: str, axis: str) -> PartitionSpec:
        """The partition of an array, whose devices are those along an axis of the mesh."""
        return PartitionSpec(*(None,) * self.axes.get(name, 0), axis)

    def prepared(self, fields: Mapping[str, tuple[Any, ...]]) -> dict[str, Prepared]:
        """The prepared tables of this device, from its parts of the arrays."""
        return {
            name: jax.tree_util.tree_unflatten(s, [fields[_leaf_name(name, k)][0] for k in range(s.num_leaves)])
            for name, s in self.structures.items()
        }


def _leaf_name(table: str, k: int) -> str:
    return f"{table} as it is read, {k}"


def _prepared_for_all(table: LocalTable) -> Prepared:
    """A table prepared for each device, the arrays of all devices concatenated; parts that not all have are left
    out.
    """
    prepared_tables, source_interval = [prepare(rows, table.read) for rows in table.array], table.read
    slots = range(len(prepared_tables[0].columns))
    masks_by_slot = [[p.masks[j] for p in prepared_tables] for j in slots]
    readers = _table_padded([p.readers for p in prepared_tables], len(source_interval))
    destinations = _table_padded([p.destinations for p in prepared_tables], len(source_interval))
    by_slot = tuple(_table_padded([p.readers_by_slot[j] for p in prepared_tables], len(source_interval)) for j in slots)
    if not all(p.readers for p in prepared_tables):
        readers, destinations, by_slot = (), (), ((),) * len(slots)
    elif not all(any(p.readers_by_slot) for p in prepared_tables):
        by_slot = ((),) * len(slots)
    return Prepared(
        tuple(np.concatenate([p.columns[j] for p in prepared_tables]) for j in slots),
        tuple(
            None if all(m is None for m in masks)
            else np.concatenate([np.ones(len(prepared_tables[0].columns[0]), bool) if m is None else m for m in masks])
            for masks in masks_by_slot
        ),
        readers, destinations, by_slot, source_interval,
    )  # fmt: skip


def _table_padded(readers_by_device: Sequence[Sequence[Array]], extent: int) -> tuple[Array, ...]:
    """The readers of all devices by rank, concatenated, -1 where a device has fewer ranks than others."""
    no_readers = np.full(extent, -1, np.int32)
    most_ranks = max(map(len, readers_by_device))
    return tuple(
        np.concatenate(
            [device_readers[k] if k < len(device_readers) else no_readers for device_readers in readers_by_device]
        )
        for k in range(most_ranks)
    )
