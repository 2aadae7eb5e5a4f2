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
    """The lists of the plan by device: arrays device by device, by names that no field has."""
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
    """The views with the points that they need of other devices."""
    count = 1 if plan.all_to_all else len(plan.rounds)
    got: dict[tuple[str, int], list[jax.Array]] = {}
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
            got.setdefault(key, []).append(rows)
    result = dict(arrays)
    for k, layer in enumerate(plan.layers):
        (order,) = fixed[_receive(k)]
        for name in layer.views:
            axis = _axis(views[name], layer)
            result[name] = tuple(
                _extended(leaf, lax.concatenate(got[name, n], 0), order, axis) for n, leaf in enumerate(arrays[name])
            )
    return result


def _axis(view: View, layer: Layer) -> int:
    return view.param.type.dims.names.index(layer.dim)


def _points_exchanged(
    sent: Mapping[tuple[str, int], jax.Array], plan: MeshExchange, step: int
) -> dict[tuple[str, int], jax.Array]:
    """The points that every device receives in a round, one collective for each element type."""
    received: dict[tuple[str, int], jax.Array] = {}
    lines = plan.parts if plan.all_to_all else 1
    collective: Callable[[jax.Array], jax.Array] = (
        (lambda x: lax.all_to_all(x, plan.axis, 0, 0, tiled=True))
        if plan.all_to_all
        else (lambda x: lax.ppermute(x, plan.axis, plan.rounds[step]))
    )
    for dtype in dict.fromkeys(x.dtype for x in sent.values()):
        some = {key: x for key, x in sent.items() if x.dtype == dtype}
        packed = [lax.reshape(x, (lines, x.size // lines)) for x in some.values()]
        came = collective(lax.concatenate(packed, 1))
        begin = 0
        for key, x in some.items():
            width = x.size // lines
            received[key] = lax.reshape(lax.slice_in_dim(came, begin, begin + width, axis=1), x.shape)
            begin += width
    return received


def _rows(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """The rows at places along an axis, that axis first."""
    moved = jax.numpy.moveaxis(x, axis, 0)
    return moved.at[places].get(mode="promise_in_bounds")


def _extended(block: jax.Array, came: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """A device's own points, and after them its halo, of what came in the order of the rounds."""
    halo = jax.numpy.moveaxis(_rows(came, order, 0), 0, axis)
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
        """The points of an array on a box where a piece is put, on any device."""
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
        """The values at some points, zeros where nothing came."""
        return self._after(len(self.received), dims)

    @property
    def whole(self) -> jax.Array:
        """The values at all points."""
        return self.on(self.box)

    def _after(self, phases: int, dims: Dims) -> jax.Array:
        """The values at points of which the first phases brought what the block lacks."""
        if not phases:
            return part_of(self.block, self.have, dims)
        last = self.received[phases - 1]
        if last.dim not in dims:
            return self._after(phases - 1, dims)
        wanted, box, axis = dims[last.dim], self.box[last.dim], dims.names.index(last.dim)
        moving = [(p, x, place) for p, x in last.pieces if not p.fixed and (place := last.place(p, box)) & wanted]
        wide = wanted
        for _, _, place in moving:
            wide |= place
        values = self._joined(phases, dims.with_interval(last.dim, wide))
        for piece, x, _ in moving:
            rows = Interval(0, piece.width)
            have, want = (some.with_interval(last.dim, rows) for some in (self._having(phases - 1), dims))
            values = _put(values, part_of(x, have, want), piece, axis, last.axis, box.start - wide.start)
        return part_of(values, dims.with_interval(last.dim, wide), dims)

    @property
    def reached(self) -> Dims:
        """The points of the block, and of what was received so far."""
        return self._having(len(self.received))

    def _having(self, phases: int) -> Dims:
        """The points of the block with what the first phases brought."""
        along = {r.dim for r in self.received[:phases]}
        return Dims(tuple((d, self.box[d] if d in along else i) for d, i in self.have.items))

    def _joined(self, phases: int, dims: Dims) -> jax.Array:
        """The block and what came beside it at places that are the same on all devices, and zeros between."""
        last, have = self.received[phases - 1], self._having(phases - 1)
        wanted, axis = dims[last.dim], dims.names.index(last.dim)
        sources: list[tuple[Interval, jax.Array | None]] = [(have[last.dim], None)]
        for piece, x in last.pieces:
            if piece.fixed:
                sources.append((last.place(piece, self.box[last.dim]), x))
        parts: list[jax.Array] = []
        at = wanted.start
        for points, x in sorted(sources, key=lambda source: source[0].start):
            part = points & wanted
            if not part:
                continue
            if part.start > at:
                parts.append(_zeros(self.block, dims.with_interval(last.dim, Interval(at, part.start))))
            on = dims.with_interval(last.dim, part)
            parts.append(
                self._after(phases - 1, on) if x is None else part_of(x, have.with_interval(last.dim, points), on)
            )
            at = part.stop
        if at < wanted.stop:
            parts.append(_zeros(self.block, dims.with_interval(last.dim, Interval(at, wanted.stop))))
        return lax.concatenate(parts, axis) if len(parts) > 1 else parts[0]


Surroundings = dict[str, tuple[Surrounded, ...]]
"""By view."""


def with_halos(blocks: Mapping[str, Leaves], local: Localised, plan: Exchange) -> Surroundings:
    """The views of the local program, by their names, from the blocks of fields and the lists of a mesh, by theirs."""
    views = {v.param.name: v for v in local.views}
    around: Surroundings = as_they_are({n: blocks[n] for n, v in views.items() if v.field.name in plan.held}, views)
    for name, v in views.items():
        if name not in around:
            # of a block its points, and not those that the view has beside them
            dims = v.param.type.dims
            have = Dims(tuple((d, Interval(0, local.parts[d].size) if d in local.parts else i) for d, i in dims.items))
            box = have.replaced(dims.without(*subdomains_of(local.parts)))
            around[name] = tuple(Surrounded(x, have, box) for x in blocks[v.field.name])
    for phase in plan.phases:
        around = _exchanged(around, phase)
    if plan.mesh is None:
        return around
    arrays = with_mesh_halos({n: tuple(x.whole for x in some) for n, some in around.items()}, views, plan.mesh, blocks)
    return as_they_are(arrays, views)


def as_they_are(arrays: Mapping[str, Leaves], views: Mapping[str, View]) -> Surroundings:
    """Views that have all of their points."""
    boxes = {name: views[name].param.type.dims for name in arrays}
    return {name: tuple(Surrounded(x, boxes[name], boxes[name]) for x in some) for name, some in arrays.items()}


def _exchanged(views: Surroundings, phase: Phase) -> Surroundings:
    """The arrays with what they need along one dim."""
    dim, axis = phase.part.dim, phase.part.axis
    received: dict[str, list[tuple[Piece, Leaves]]] = {}
    for one in phase.rounds:
        for piece, leaves in zip(one.pieces, _permuted(views, one, phase), strict=True):
            received.setdefault(piece.view, []).append((piece, leaves))
    after: Surroundings = {}
    for name, some in views.items():
        got = received.get(name, [])
        came = [Received(dim, axis, tuple((piece, leaves[k]) for piece, leaves in got)) for k in range(len(some))]
        after[name] = tuple(replace(x, received=(*x.received, r)) for x, r in zip(some, came, strict=True))
    return after


def _permuted(views: Surroundings, one: Round, phase: Phase) -> list[Leaves]:
    """The points that every device receives in a round, one permute for each element type."""
    sent: list[Leaves] = [
        tuple(_taken(x, piece, phase.part.dim, phase.part.axis) for x in views[piece.view]) for piece in one.pieces
    ]
    if not one.pairs:
        return sent
    flat, structure = jax.tree_util.tree_flatten(sent)
    got: list[Any] = list(flat)
    for dtype in dict.fromkeys(x.dtype for x in flat):
        which = [k for k, x in enumerate(flat) if x.dtype == dtype]
        packed = lax.concatenate([lax.reshape(flat[k], (flat[k].size,)) for k in which], 0)
        packed = lax.ppermute(packed, phase.part.axis, one.pairs)
        begin = 0
        for k in which:
            piece = lax.slice_in_dim(packed, begin, begin + flat[k].size)
            got[k] = lax.reshape(piece, flat[k].shape)
            begin += flat[k].size
    return jax.tree_util.tree_unflatten(structure, got)


def _taken(array: Surrounded, piece: Piece, dim: str, mesh_axis: str) -> jax.Array:
    """The part of its block that a device sends."""
    points, axis = Interval(min(piece.send), max(piece.send) + piece.width), array.have.names.index(dim)
    held = points & array.have[dim]
    sent = array.on(array.reached.with_interval(dim, held))
    if piece.fixed:
        return sent
    # blocks at the end have fewer points, and a slice that would leave the block begins elsewhere
    sides = [(0, points.stop - held.stop if k == axis else 0, 0) for k in range(sent.ndim)]
    wide = lax.pad(sent, lax.full((), 0, sent.dtype), sides)
    start = lax.sub(of_this_device(piece.send, mesh_axis), np.int32(points.start))
    return lax.dynamic_slice_in_dim(wide, start, piece.width, axis)


def _put(whole: jax.Array, x: jax.Array, piece: Piece, axis: int, mesh_axis: str, first: int) -> jax.Array:
    """An array with received points at a place, of lengths that each device has for itself.

    Places count from what is `first` in the array.
    """
    start = lax.add(of_this_device(piece.receive, mesh_axis), np.int32(first))
    count = of_this_device(piece.counts, mesh_axis)
    before = lax.dynamic_slice_in_dim(whole, start, piece.width, axis)
    mine = lax.lt(lax.broadcasted_iota("int32", x.shape, axis), lax.broadcast(count, x.shape))
    return lax.dynamic_update_slice_in_dim(whole, lax.select(mine, x, before), start, axis)


def part_of(x: jax.Array, have: Dims, dims: Dims) -> jax.Array:
    """The values at some of the points of an array."""
    if dims.items == have.items:
        return x
    return lax.slice(
        x, [i.start - have[d].start for d, i in dims.items], [i.stop - have[d].start for d, i in dims.items]
    )


def of_this_device(values: Sequence[int], mesh_axis: str) -> jax.Array:
    """The value of this device."""
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
        """Those whose numbers somebody looked at."""
        known = [n for n in tables_of(program) if n in holes]
        return cls({n: np.asarray(arrays[n][0]) for n in known}, {n: holes[n] for n in known})

    def key(self, bound: Mapping[str, Any]) -> tuple[Any, ...]:
        """The key of these tables; bound ones never change, and are their own keys."""
        return tuple((n, id(bound[n]) if n in bound else digest(a)) for n, a in self.arrays.items())


NO_TABLES = Tables()


def digest(array: Array) -> str:
    """A digest of an array."""
    header = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(array).tobytes()).hexdigest()


def known_tables(
    compiled: Compiled, read: Mapping[str, Dims], holes: Mapping[str, SkipValues], full: frozenset[str]
) -> Executable:
    """The local program, with the facts of its tables; of its results `read` has those that count.

    That no output is absent was seen in the whole.
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
        """Lists that a local program and its exchange read, and the fields that are held; nothing without a mesh."""
        if local.mesh is None or plan is None:
            return cls({}, {}, {})
        lists = lists_of(plan)
        for dim, place in local.positions.items():
            if (numbers := local.mesh.numbers.get(dim)) is not None:
                points, whole = numbers.points(numbers.extent), numbers.part.interval
                lists[place.name] = np.where(points < 0, whole.stop, points + whole.start).astype(np.int32).reshape(-1)
        structures: dict[str, Any] = {}
        for table in local.tables:
            name = table.param.name
            lists[name] = table.array.reshape(-1, *table.array.shape[2:])
            leaves, structures[name] = jax.tree_util.tree_flatten(_prepared(table))
            lists.update({_leaf(name, k): leaf for k, leaf in enumerate(leaves)})
        arrays: dict[str, tuple[Array, ...]] = {name: (array,) for name, array in lists.items()}
        axes: dict[str, int] = {}
        for view in local.views:
            if view.field.name in held:
                name, dims = view.param.name, view.param.type.dims
                (dim,) = (d for d in dims if d in local.mesh.numbers)
                axes[name] = dims.names.index(dim)
                points = local.mesh.numbers[dim].points(len(dims[dim])).reshape(-1)
                first = view.field.type.dims[dim].start - local.mesh.numbers[dim].part.interval.start
                at = np.clip(points - first, 0, len(view.field.type.dims[dim]) - 1)
                arrays[name] = tuple(np.take(a, at, axes[name]) for a in held[view.field.name])
        return cls(arrays, axes, structures)

    def spec(self, name: str, axis: str) -> PartitionSpec:
        """The partition of an array, whose devices are those along an axis of the mesh."""
        return PartitionSpec(*(None,) * self.axes.get(name, 0), axis)

    def prepared(self, fields: Mapping[str, tuple[Any, ...]]) -> dict[str, Prepared]:
        """The tables of one device, from its parts of the arrays."""
        return {
            name: jax.tree_util.tree_unflatten(s, [fields[_leaf(name, k)][0] for k in range(s.num_leaves)])
            for name, s in self.structures.items()
        }


def _leaf(table: str, k: int) -> str:
    return f"{table} as it is read, {k}"


def _prepared(table: LocalTable) -> Prepared:
    """A table as all devices read it, of the arrays of each device in a row."""
    each, inside = [prepare(rows, table.read) for rows in table.array], table.read
    slots = range(len(each[0].columns))
    masks = [[p.masks[j] for p in each] for j in slots]
    readers = _table_padded([p.readers for p in each], len(inside))
    by_slot = tuple(_table_padded([p.readers_by_slot[j] for p in each], len(inside)) for j in slots)
    if not all(p.readers for p in each):
        readers, by_slot = (), ((),) * len(slots)
    elif not all(any(p.readers_by_slot) for p in each):
        by_slot = ((),) * len(slots)
    return Prepared(
        tuple(np.concatenate([p.columns[j] for p in each]) for j in slots),
        tuple(
            None if all(m is None for m in some)
            else np.concatenate([np.ones(len(each[0].columns[0]), bool) if m is None else m for m in some])
            for some in masks
        ),
        readers, by_slot, inside,
    )  # fmt: skip


def _table_padded(each: Sequence[Sequence[Array]], extent: int) -> tuple[Array, ...]:
    """The readers of all devices by rank, -1 where one has fewer ranks than another."""
    nobody = np.full(extent, -1, np.int32)
    most = max(map(len, each))
    return tuple(np.concatenate([some[k] if k < len(some) else nobody for some in each]) for k in range(most))
