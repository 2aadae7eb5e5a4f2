"""One program at its sizes on a mesh: pad, exchange, compute blocks, combine folds, crop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lowering.calls.compiled import Compiled, compile
from lowering.calls.executable import Executable, jitted
from lowering.context import Check
from lowering.distribution.halos import (
    NO_TABLES,
    Fixed,
    Tables,
    as_they_are,
    digest,
    known_tables,
    of_this_device,
    part_of,
    with_halos,
)
from lowering.distribution.meshes import agree, is_shared
from lowering.distribution.meshes import blocks_of as blocks_of_process
from lowering.kernels import parted_as_a_whole
from lowering.rules.elementwise import SCALAR
from lowering.tracing import concrete, inside_jit, left_to_xla, op_by_op, varying
from tensorir.binding.arrays import SkipValues
from tensorir.binding.calls import refuse_absent_outputs
from tensorir.distribution.exchange import Exchange, exchange, part_of_exchange
from tensorir.distribution.local_program import Combined, Localised, Subblock, localised
from tensorir.distribution.partition import (
    NO_OWNERS,
    Decomposition,
    Owners,
    Subdomains,
    blocks_of,
    decompositions,
    subdomains_of,
)
from tensorir.distribution.whole_program import under_one_name
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES
from tensorir.text.printer import print_fencil

Leaves = tuple[Any, ...]
Arrays = Mapping[str, Leaves]
NOTHING: Arrays = {}


class Step:
    """A program of known sizes on the devices of a mesh: a function of arrays by parameter, one per leaf."""

    told_by_identity: ClassVar[bool] = True

    def __init__(
        self, program: Fencil, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any],
        owners: Mapping[str, Owners] = NO_OWNERS, tables: Tables = NO_TABLES, bound: Arrays = NOTHING,
    ) -> None:  # fmt: skip
        """`owners` has those of the points of an unstructured mesh, by dim, and `bound` the arrays that are bound."""
        program, axes = under_one_name(program, axes, owners)
        self.program, self.mesh, self.shared = program, mesh, is_shared(mesh)
        if self.shared:
            known = {**owners, **tables.arrays}
            text = f"{print_fencil(program)} {axes} {mesh} {[(n, digest(known[n])) for n in sorted(known)]}"
            agree(program.name, text, mesh)
        self.parts = decompositions(program, axes, dict(mesh.shape), owners)
        self.local: Localised = localised(program, self.parts, tables.arrays)
        self.held = {n: leaves for n, leaves in bound.items() if self._is_held(program[n].type.dims)}
        """The bound fields that lie on the devices with their halos."""
        self.exchange: Exchange = exchange(self.local, frozenset(self.held))
        kept = {n: v for n, v in options.items() if n != "full"}
        self._compiled: list[Compiled] = [compile(s.program, **kept) for s in self._programs]
        self._tables, self._full = tables, compile(program, **options).engine.options.full
        self.checks: list[Check] = []

    @property
    def _programs(self) -> Sequence[Subblock]:
        """The programs of a device, one after the other."""
        return self.local.subblocks or [Subblock(Dims(), stage, self.local.positions) for stage in self.local.stages]

    @cached_property
    def _executables(self) -> list[Executable]:
        refuse_absent_outputs(self.program, self._tables.holes, self._full)
        known = _local_names(self.local, self._tables.holes, self._full)
        stages = [s.program for s in self._programs]
        # what a stage gives to the next one may come to a result or not
        first = 0 if self.local.subblocks else len(stages) - 1
        every = self.local.on_every_device
        read = [
            {p.name: Dims(tuple((d, i & every[p.name][d]) for d, i in p.type.dims.items)) for p in stage.results}
            if k >= first
            else {}
            for k, stage in enumerate(stages)
        ]
        return [known_tables(c, some, *known) for c, some in zip(self._compiled, read, strict=True)]

    @cached_property
    def fixed(self) -> Fixed:
        """The arrays of a mesh that devices read besides fields."""
        return Fixed.of(self.local, self.exchange.mesh, self.held)

    def _is_held(self, dims: Dims) -> bool:
        return {type(self.parts[d]) for d in dims if d in self.parts} == {Subdomains}

    @property
    def wide(self) -> bool:
        """True if it computes with 64-bit numbers."""
        return any(e.wide for e in self._executables)

    @cached_property
    def reads(self) -> tuple[Var, ...]:
        """The fields that the local program reads."""
        return tuple(dict.fromkeys(v.field for v in self.local.views if v.field.name not in self.held))

    # Layout

    def sharding(self, dims: Dims) -> NamedSharding:
        """The sharding of an array in blocks."""
        return NamedSharding(self.mesh, self._spec(dims))

    def _spec(self, dims: Dims) -> PartitionSpec:
        return PartitionSpec(*(self.parts[d].axis if d in self.parts else None for d in dims))

    def _sides(self, dims: Dims) -> list[tuple[int, int]]:
        """The points of padding that an array gets at both ends of each axis."""
        blocks = blocks_of(self.parts)
        whole = [(blocks[d].padded if d in blocks else i, i) for d, i in dims.items]
        return [(i.start - w.start, w.stop - i.stop) for w, i in whole]

    def is_even(self, dims: Dims) -> bool:
        """True if an array lies on the devices as a caller has it: in blocks, and none of them padded."""
        return not _any(self._sides(dims)) and not any(d in subdomains_of(self.parts) for d in dims)

    def padded_dims(self, dims: Dims) -> Dims:
        """The dims of an array on all devices, paddings included."""
        return Dims(tuple((d, self.parts[d].padded if d in self.parts else i) for d, i in dims.items))

    def padded(self, array: Any, dims: Dims) -> Any:
        """An array of JAX with the padding of its last blocks, and the points of a mesh device by device."""
        array = self._dealt(array, dims)
        sides = self._sides(dims)
        if not _any(sides):
            return array
        return lax.pad(array, lax.full((), 0, array.dtype), [(low, high, 0) for low, high in sides])

    def _dealt(self, array: Any, dims: Dims) -> Any:
        """An array whose points of a mesh stand device by device."""
        for axis, d in enumerate(dims):
            if (points := self._points(d, dims)) is None:
                continue
            if not concrete(array):
                array = lax.with_sharding_constraint(array, NamedSharding(self.mesh, PartitionSpec()))
            array = jax.numpy.take(array, points, axis)
        return array

    def _points(self, dim: str, dims: Dims) -> np.ndarray[Any, Any] | None:
        """The places of the points of a mesh along an axis of an array, device by device; None for other dims."""
        part, interval = self.parts.get(dim), dims[dim]
        if not isinstance(part, Subdomains):
            return None
        return np.clip(part.dealt.reshape(-1) + part.interval.start - interval.start, 0, len(interval) - 1)

    def _block_on_host(self, array: Any, dims: Dims, at: Sequence[slice]) -> np.ndarray[Any, Any]:
        """The block of a device with its padding, of an array of NumPy or in a file; nothing else of it is read."""
        chosen: list[Any] = []
        inside: list[slice] = []
        shape: list[int] = []
        extents = zip(dims, at, array.shape, self.padded_dims(dims).shape, self._sides(dims), strict=True)
        for d, part, extent, padded, (low, _) in extents:
            first, end, _ = part.indices(padded)
            start, stop = min(max(first - low, 0), extent), min(max(end - low, 0), extent)
            points = self._points(d, dims)
            chosen.append(slice(start, stop) if points is None else points[first:end])
            inside.append(slice(start + low - first, stop + low - first) if points is None else slice(None))
            shape.append(end - first)
        block = np.asarray(array[tuple(chosen)])
        if block.shape == tuple(shape):
            return block
        whole = np.zeros(shape, block.dtype)
        if block.size:
            whole[tuple(inside)] = block
        return whole

    def _in_order(self, array: Any, dims: Dims) -> Any:
        """An array that is whole on every device, with the points of a mesh in their order."""
        for axis, (d, i) in enumerate(dims.items):
            if isinstance(part := self.parts.get(d), Subdomains):
                first = i.start - part.interval.start
                array = jax.numpy.take(array, part.places[first : first + len(i)], axis)
        return array

    def places(self, dims: Dims) -> tuple[Any, ...]:
        """The devices, and how the points along each dim are dealt out to them, to compare."""
        parts = [self.parts.get(d) for d in dims]
        return self.mesh, *(
            (p.axis, p.interval, p.parts, p.owners.tobytes()) if isinstance(p, Subdomains) else p for p in parts
        )

    def zero_in_padding(self, array: Any, dims: Dims) -> Any:
        """An array on the devices with zeros in its padding, to which no cotangent comes back."""
        for axis, (d, i) in enumerate(dims.items):
            if d in self.parts and not (mask := self.parts[d].own(i)).all():
                mask = lax.broadcast_in_dim(mask, array.shape, (axis,))
                array = lax.select(mask, array, lax.full_like(array, 0))
        return array

    def cropped(self, array: Any, dims: Dims) -> Any:
        """An array without its padding: within a program in its blocks, where XLA deals points out alike.

        Elsewhere it is whole on every device: eagerly JAX places no blocks of several extents, and XLA's partitioner
        would add up parts of blocks, with zeros beside them, which loses the sign of -0.0.
        """
        if not inside_jit() or not self._dealt_out_alike(dims):
            return self.gathered(array, dims)
        sides = self._sides(dims)
        return lax.with_sharding_constraint(array[_part(array, sides)], self.sharding(dims)) if _any(sides) else array

    def gathered(self, array: Any, dims: Dims) -> Any:
        """An array without its padding, whole on every device where it has any."""
        sides = self._sides(dims)
        if self.is_even(dims):
            return array
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        array = (
            jax.device_put(array, everywhere) if concrete(array) else lax.with_sharding_constraint(array, everywhere)
        )
        return self._in_order(array[_part(array, sides)], dims)

    def _dealt_out_alike(self, dims: Dims) -> bool:
        """True if XLA, which puts as many points as it can on the first devices, gives each the points of its block."""
        if any(d in subdomains_of(self.parts) for d in dims):
            return False
        parts = [(p, i) for d, i in dims.items if (p := blocks_of(self.parts).get(d)) is not None]
        return all(p.interval.start == i.start and -(-len(i) // p.parts) == p.size for p, i in parts)

    def placed(self, arrays: Arrays) -> dict[str, Leaves]:
        """Arrays of a caller as blocks on the devices."""
        fields = {p.name: tuple(self._put(a, p.type.dims) for a in arrays[p.name]) for p in self.reads}
        return {**fields, **self.placed_fixed}

    def _put(self, array: Any, dims: Dims) -> jax.Array:
        """An array of a caller as blocks; of one that is no array of JAX, each device's block is read for it."""
        sharding = self.sharding(dims)
        if isinstance(array, jax.Array):
            return (blocks_of_process if self.shared else jax.device_put)(self.padded(array, dims), sharding)
        numbers = array if hasattr(array, "dtype") else np.asarray(array)
        block: Any = lambda at: self._block_on_host(numbers, dims, at)
        return jax.make_array_from_callback(self.padded_dims(dims).shape, sharding, block)

    @cached_property
    def placed_fixed(self) -> dict[str, Leaves]:
        """Tables and lists that are read besides fields, on the devices."""
        put = blocks_of_process if self.shared else jax.device_put
        return {
            n: tuple(put(a, NamedSharding(self.mesh, self._fixed_specs[n])) for a in leaves)
            for n, leaves in self.fixed.arrays.items()
        }

    @cached_property
    def _fixed_specs(self) -> dict[str, PartitionSpec]:
        mesh = self.local.mesh
        return {} if mesh is None else {n: self.fixed.spec(n, mesh.axis) for n in self.fixed.arrays}

    def elsewhere(self, arrays: Arrays) -> list[str]:
        """The arrays of the devices that do not lie in the blocks of the mesh."""
        return [
            p.name
            for p in self.reads
            for a in arrays[p.name]
            if isinstance(a, jax.Array) and not a.sharding.is_equivalent_to(self.sharding(p.type.dims), a.ndim)
        ]

    def padded_arrays(self, arrays: Arrays) -> dict[str, Leaves]:
        """Arrays of a trace, padded."""
        padded = {
            p.name: tuple(self.dealt_out(a, p.type.dims) for a in arrays[p.name])
            for p in self.reads
            if p.name in arrays
        }
        return {**padded, **{n: tuple(map(jax.numpy.asarray, leaves)) for n, leaves in self.fixed.arrays.items()}}

    def dealt_out(self, array: Any, dims: Dims) -> Any:
        """An array of a trace, padded."""
        array = left_to_xla(jax.numpy.asarray(array), self.mesh)
        if inside_jit() and self._dealt_out_alike(dims):
            array = lax.with_sharding_constraint(array, self.sharding(dims))
        return self.padded(array, dims)

    def taken(self, outputs: Arrays) -> dict[str, Leaves]:
        """Results without padding."""
        return {p.name: tuple(self.cropped(a, p.type.dims) for a in outputs[p.name]) for p in self.program.results}

    def shapes(self) -> dict[str, Leaves]:
        """The shapes of padded arrays where a program is compiled without any."""
        shapes: dict[str, Leaves] = {}
        for p in self.reads:
            shape, place = self.padded_dims(p.type.dims).shape, self.sharding(p.type.dims)
            shapes[p.name] = tuple(jax.ShapeDtypeStruct(shape, DTYPES[s], sharding=place) for s in p.type.leaves)
        for n, leaves in self.fixed.arrays.items():
            place = NamedSharding(self.mesh, self._fixed_specs[n])
            shapes[n] = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place) for a in leaves)
        return shapes

    # Running

    @cached_property
    def run(self) -> Any:
        """From padded arrays to padded results, and what run-time checks found."""
        return jitted(self._run, self.shapes())

    @cached_property
    def run_inside(self) -> Any:
        """The same in somebody's trace, where XLA can be given no options."""
        return jax.jit(self._run)

    @cached_property
    def traced(self) -> Any:
        """From arrays of a trace to results without padding, and what run-time checks found.

        Of some fields there may be views instead, which hold what is around the blocks (`with_halos_of`).
        """

        def run(arrays: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
            outputs, failures = self._run(self.padded_arrays(arrays), views)
            return self.taken(outputs), failures

        return jax.jit(run)

    @cached_property
    def with_halos_of(self) -> Any:
        """From some arrays of a trace to their views, exchanged: blocks that overlap in what they hold."""

        def run(arrays: Arrays) -> dict[str, Leaves]:
            fields = self.padded_arrays(arrays)
            local, plan = part_of_exchange(self.local, self.exchange, set(fields))
            views = self._specs(v.param for v in local.views)

            def exchanged(blocks: Arrays) -> dict[str, Leaves]:
                return {n: tuple(x.whole for x in some) for n, some in with_halos(blocks, local, plan).items()}

            return self._mapped(exchanged, (self._specs(self._of(fields)),), views)(fields)

        return jax.jit(run)

    def _of(self, fields: Arrays) -> list[Var]:
        return [p for p in self.reads if p.name in fields]

    def _specs(self, params: Iterable[Var]) -> dict[str, tuple[PartitionSpec, ...]]:
        return {p.name: (self._spec(p.type.dims),) * len(p.type.leaves) for p in params}

    def _mapped(self, block: Any, specs: Any, results: Any) -> Any:
        return jax.shard_map(block, mesh=self.mesh, in_specs=specs, out_specs=results)

    def _run(self, fields: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
        specs = self._specs(self._of(fields))
        specs.update({n: (self._fixed_specs[n],) * len(leaves) for n, leaves in self.fixed.arrays.items()})
        around = self._specs(v.param for v in self.local.views if v.param.name in views)
        step = self._mapped(self._block, (specs, around), (self._specs(self.program.results), PartitionSpec()))
        return step(dict(fields), dict(views))

    def _block(self, fields: Arrays, views: Arrays) -> tuple[dict[str, Leaves], list[Any]]:
        """The program of one device: one kernel of all its parts, where those are kernels of stencils."""
        if op_by_op() or not any(e.is_grid and e.in_kernels for e in self._executables):
            return self._in_parts(fields, views)
        flat, structure = jax.tree_util.tree_flatten((fields, views))
        run = lambda *flat: self._in_parts(*jax.tree_util.tree_unflatten(structure, flat))
        closed, shapes = jax.make_jaxpr(run, return_shape=True)(*flat)
        results = parted_as_a_whole(closed, flat)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), results)

    def _in_parts(self, fields: Arrays, views: Arrays) -> tuple[dict[str, Leaves], list[Any]]:
        """The same part by part, each a program of its own."""
        local, plan = part_of_exchange(self.local, self.exchange, set(fields)) if views else (self.local, self.exchange)
        known = with_halos(fields, local, plan)
        known.update(as_they_are(views, {v.param.name: v for v in self.local.views}))
        blocks, axes = blocks_of(self.parts), frozenset(p.axis for p in self.parts.values())
        whole: dict[str, Leaves] = {name: fields[name] for name in self.fixed.arrays}
        tables = self.fixed.prepared(fields)
        failures: list[Any] = []
        self.checks = []
        outputs: dict[str, list[tuple[Dims, Leaves]]] = {}
        done: dict[str, Leaves] = {}
        for k, (part, executable) in enumerate(zip(self._programs, self._executables, strict=True)):
            stage = part.program
            whole.update({p.name: (self._positions(blocks[d], p),) for d, p in part.positions.items() if d in blocks})
            for p in stage.inputs:
                if (result := part.results.get(p.name)) is not None:
                    if result not in done:
                        done[result] = self._whole_block(result, outputs[result])
                    whole[p.name] = tuple(part_of(x, self._block_of(result), p.type.dims) for x in done[result])
            operands = {
                p.name: whole[p.name] if p.name in whole else tuple(x.on(p.type.dims) for x in known[p.name])
                for p in stage.inputs
            }
            if all(axes == {self.parts[d].axis for d in p.type.dims if d in self.parts} for p in stage.results):
                # gradients of what is the same on all devices are added up as they are, and not as blocks
                operands = varying(operands, axes)
            read = {name: table for name, table in tables.items() if name in operands}
            results, failed = executable.inside(operands, {**executable.differentiable, **read})
            for p in stage.results:
                unpadded = tuple(self._without_padding(x, p) for x in results[p.name])
                outputs.setdefault(p.name, []).append((part.dims, unpadded))
            failures += [self._anywhere(f) for f in failed]
            self.checks += [Check(c.diagnostic, Dims()) for c in executable.checks]
            for fold in self.local.combined:
                if fold.level == k:
                    whole[fold.param.name] = tuple(self._combined(x, fold) for x in results[fold.param.name])
        names = [p.name for p in self.program.results]
        return {n: done[n] if n in done else self._whole_block(n, outputs[n]) for n in names}, failures

    def _without_padding(self, x: Any, param: Var) -> Any:
        """A part of a result with zeros beyond the ends of the whole, of which no later step makes anything."""
        if param.name not in self.local.on_every_device:
            return x
        whole, every = self.program[param.name].type.dims, self.local.on_every_device[param.name]
        for axis, (d, i) in enumerate(param.type.dims.items):
            block = self.parts.get(d)
            if isinstance(block, Decomposition) and not every[d].covers(i):
                valid = [(whole[d] & block.block(k)).shifted(block.start(k)) for k in range(block.parts)]
                first = of_this_device([points.start - i.start for points in valid], block.axis)
                end = of_this_device([points.stop - i.start for points in valid], block.axis)
                at = lax.broadcasted_iota("int32", x.shape, axis)
                before, after = lax.lt(at, lax.broadcast(first, x.shape)), lax.ge(at, lax.broadcast(end, x.shape))
                beside = lax.bitwise_or(before, after)
                x = lax.select(beside, lax.full_like(x, 0), x)
        return x

    def _block_of(self, result: str) -> Dims:
        """The points of a result's block."""
        dims = self.program[result].type.dims
        return Dims(tuple((d, Interval(0, self.parts[d].size) if d in self.parts else i) for d, i in dims.items))

    def _whole_block(self, result: str, parts: Sequence[tuple[Dims, Leaves]]) -> Leaves:
        """A result on the block, of the parts in which it was computed."""
        dims, leaves = [part for part, _ in parts], zip(*(some for _, some in parts), strict=True)
        return tuple(_joined(dims, some, self._block_of(result)) for some in leaves)

    def _positions(self, part: Decomposition, place: Var) -> Any:
        """The coordinates in the whole of the local points."""
        ((_, box),) = place.type.dims.items
        start = lax.mul(lax.axis_index(part.axis), np.int32(part.size))
        counted = lax.add(lax.iota("int32", len(box)), np.int32(part.interval.start + box.start))
        return lax.add(counted, lax.broadcast(start, counted.shape))

    def _combined(self, partial: Any, fold: Combined) -> Any:
        """The folds of the devices along an axis, as one."""
        part = self.parts[fold.dim]
        if fold.op == "plus":
            return lax.psum(partial, part.axis)
        every = _every(partial, part.axis, part.parts)
        total = lax.index_in_dim(every, 0, keepdims=False)
        for k in range(1, part.parts):
            total = SCALAR[fold.op](total, lax.index_in_dim(every, k, keepdims=False))
        return total

    def _anywhere(self, failure: Any) -> Any:
        """The failure of a check on any device."""
        axes = tuple(dict.fromkeys(p.axis for p in self.parts.values()))
        position, value = lax.index_in_dim(failure, 0), lax.index_in_dim(failure, 1)
        failed = lax.ge(position, lax.full_like(position, 0))
        shown = lax.select(failed, value, lax.full_like(value, np.iinfo(value.dtype).min))
        pair = lax.concatenate([lax.select(failed, lax.full_like(position, 0), lax.full_like(position, -1)), shown], 0)
        return lax.pmax(pair, axes)


Sides = Sequence[tuple[int, int]]


def _any(sides: Sides) -> bool:
    return any(map(any, sides))


def _part(array: Any, sides: Sides) -> tuple[slice, ...]:
    return tuple(slice(low, n - high) for (low, high), n in zip(sides, array.shape, strict=True))


def _joined(dims: Sequence[Dims], parts: Sequence[Any], block: Dims) -> Any:
    """The parts of a block as one array: the interior, which is the last one, and strips written in place around it.

    Whoever makes the interior waits for no message. Tangents are joined side by side: the adjoint of that takes slices,
    and that of updates would copy cotangents.
    """
    if not jax.numpy.issubdtype(parts[0].dtype, np.inexact):
        return _in_place(dims, parts, block)

    @jax.custom_jvp
    def joined(*parts: Any) -> Any:
        return _in_place(dims, parts, block)

    def tangents(primals: Any, moved: Any) -> tuple[Any, Any]:
        return joined(*primals), _side_by_side(list(zip(dims, moved, strict=True)), block)

    joined.defjvp(tangents)
    return joined(*parts)


def _in_place(dims: Sequence[Dims], parts: Sequence[Any], block: Dims) -> Any:
    *strips, x = parts
    sides = [(i.start - b.start, b.stop - i.stop, 0) for i, b in _pairs(block, dims[-1])]
    whole = lax.pad(x, lax.full((), 0, x.dtype), sides) if _any([side[:2] for side in sides]) else x
    for part, strip in zip(dims, strips, strict=False):
        whole = lax.dynamic_update_slice(whole, strip, [i.start - b.start for i, b in _pairs(block, part)])
    return whole


def _side_by_side(parts: Sequence[tuple[Dims, Any]], block: Dims) -> Any:
    """The same along one dim after the other, of what is on the same points along it."""
    if len(parts) == 1:
        return parts[0][1]
    dim = next(d for d, i in parts[0][0].items if any(dims.get(d) != i for dims, _ in parts))
    along: dict[Interval, list[tuple[Dims, Any]]] = {}
    for dims, x in parts:
        along.setdefault(dims[dim], []).append((dims.without(dim), x))
    pieces = [_side_by_side(some, block) for _, some in sorted(along.items(), key=lambda item: item[0].start)]
    return lax.concatenate(pieces, block.names.index(dim))


def _pairs(block: Dims, part: Dims) -> list[tuple[Interval, Interval]]:
    """By axis of a block, the points of a part and of the block."""
    return [(i, block[d]) for d, i in block.replaced(part).items]


def _local_names(
    local: Localised, holes: Mapping[str, SkipValues], full: frozenset[str]
) -> tuple[dict[str, SkipValues], frozenset[str]]:
    """Facts of tables, and those that are declared full, by their names in the local program."""
    names = [(v.param.name, v.field.name) for v in local.views] + [(t.param.name, t.name) for t in local.tables]
    return {here: holes[n] for here, n in names if n in holes}, frozenset(here for here, n in names if n in full)


def _every(x: Any, axis: str, parts: int) -> Any:
    """The values of all devices, in their order and the same on each.

    As a sum with what adds nothing, -0.0, which has a derivative and keeps the sign of zeros.
    """
    if x.dtype == bool:
        return lax.convert_element_type(_every(lax.convert_element_type(x, "int32"), axis, parts), bool)
    nothing = lax.full((parts, *x.shape), -0.0 if jax.numpy.issubdtype(x.dtype, np.inexact) else 0, x.dtype)
    placed = lax.dynamic_update_index_in_dim(nothing, x, lax.axis_index(axis), 0)
    return lax.psum(placed, axis)
