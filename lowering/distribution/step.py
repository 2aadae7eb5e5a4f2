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
    complete_views,
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
        """The program on the mesh, its dims along the mesh's axes `axes`.

        `owners`: by dim of an unstructured mesh, the device of each point. `tables`: known neighbour tables. `bound`:
        bound arrays. Raises D07 or D08 if the processes of the mesh disagree.
        """
        program, axes = under_one_name(program, axes, owners)
        self.program, self.mesh, self.shared = program, mesh, is_shared(mesh)
        if self.shared:
            named = {**owners, **tables.arrays}
            text = f"{print_fencil(program)} {axes} {mesh} {[(n, digest(named[n])) for n in sorted(named)]}"
            agree(program.name, text, mesh)
        self.parts = decompositions(program, axes, dict(mesh.shape), owners)
        self.local: Localised = localised(program, self.parts, tables.arrays)
        self.held = {n: leaves for n, leaves in bound.items() if self._is_held(program[n].type.dims)}
        """The bound fields that lie on the devices with their halos."""
        self.exchange: Exchange = exchange(self.local, frozenset(self.held))
        compile_options = {n: v for n, v in options.items() if n != "full"}
        self._compiled: list[Compiled] = [compile(s.program, **compile_options) for s in self._programs]
        self._tables, self._full = tables, compile(program, **options).engine.options.full
        self.checks: list[Check] = []

    @property
    def _programs(self) -> Sequence[Subblock]:
        """The programs of a device, one after the other."""
        return self.local.subblocks or [Subblock(Dims(), stage, self.local.positions) for stage in self.local.stages]

    @cached_property
    def _executables(self) -> list[Executable]:
        """The compiled programs of a device, in order; gradients of the last, or of all blocks, ignore points that
        no result has.
        """
        refuse_absent_outputs(self.program, self._tables.holes, self._full)
        facts = _local_names(self.local, self._tables.holes, self._full)
        stages = [s.program for s in self._programs]
        # what a stage gives to the next one may come to a result or not
        first_with_results = 0 if self.local.subblocks else len(stages) - 1
        own_points = self.local.on_every_device
        read = [
            {p.name: Dims(tuple((d, i & own_points[p.name][d]) for d, i in p.type.dims.items)) for p in stage.results}
            if k >= first_with_results
            else {}
            for k, stage in enumerate(stages)
        ]
        return [known_tables(c, read_dims, *facts) for c, read_dims in zip(self._compiled, read, strict=True)]

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
        """The points of padding at both ends of each axis."""
        blocks = blocks_of(self.parts)
        padded_and_own = [(blocks[d].padded if d in blocks else i, i) for d, i in dims.items]
        return [(i.start - w.start, w.stop - i.stop) for w, i in padded_and_own]

    def is_even(self, dims: Dims) -> bool:
        """True if an array lies on the devices as a caller has it: in blocks, and none of them padded."""
        return not _any_padding(self._sides(dims)) and not any(d in subdomains_of(self.parts) for d in dims)

    def padded_dims(self, dims: Dims) -> Dims:
        """The dims of an array on all devices, paddings included."""
        return Dims(tuple((d, self.parts[d].padded if d in self.parts else i) for d, i in dims.items))

    def padded(self, array: Any, dims: Dims) -> Any:
        """An array with the padding of its last blocks, and the points of an unstructured mesh ordered by device."""
        array = self._dealt(array, dims)
        sides = self._sides(dims)
        if not _any_padding(sides):
            return array
        return lax.pad(array, lax.full((), 0, array.dtype), [(low, high, 0) for low, high in sides])

    def _dealt(self, array: Any, dims: Dims) -> Any:
        """An array with the points of an unstructured mesh ordered by device."""
        for axis, d in enumerate(dims):
            if (points := self._points(d, dims)) is None:
                continue
            if not concrete(array):
                array = lax.with_sharding_constraint(array, NamedSharding(self.mesh, PartitionSpec()))
            array = jax.numpy.take(array, points, axis)
        return array

    def _points(self, dim: str, dims: Dims) -> np.ndarray[Any, Any] | None:
        """The positions of an unstructured mesh's points along an axis, device by device; None for other dims."""
        decomposition, interval = self.parts.get(dim), dims[dim]
        if not isinstance(decomposition, Subdomains):
            return None
        return np.clip(
            decomposition.dealt.reshape(-1) + decomposition.interval.start - interval.start, 0, len(interval) - 1
        )

    def _block_on_host(self, array: Any, dims: Dims, at: Sequence[slice]) -> np.ndarray[Any, Any]:
        """The block of a device, padding included, of a NumPy array or one in a file, of which nothing else is read.

        `at`: the index of the block in the padded array.
        """
        source_index: list[Any] = []
        block_slices: list[slice] = []
        shape: list[int] = []
        extents = zip(dims, at, array.shape, self.padded_dims(dims).shape, self._sides(dims), strict=True)
        for d, part, extent, padded, (low, _) in extents:
            begin, end, _ = part.indices(padded)
            start, stop = min(max(begin - low, 0), extent), min(max(end - low, 0), extent)
            points = self._points(d, dims)
            source_index.append(slice(start, stop) if points is None else points[begin:end])
            block_slices.append(slice(start + low - begin, stop + low - begin) if points is None else slice(None))
            shape.append(end - begin)
        block = np.asarray(array[tuple(source_index)])
        if block.shape == tuple(shape):
            return block
        padded_block = np.zeros(shape, block.dtype)
        if block.size:
            padded_block[tuple(block_slices)] = block
        return padded_block

    def _in_order(self, array: Any, dims: Dims) -> Any:
        """An array that every device has whole, with the points of an unstructured mesh in the caller's order."""
        for axis, (d, i) in enumerate(dims.items):
            if isinstance(decomposition := self.parts.get(d), Subdomains):
                first = i.start - decomposition.interval.start
                array = jax.numpy.take(array, decomposition.places[first : first + len(i)], axis)
        return array

    def places(self, dims: Dims) -> tuple[Any, ...]:
        """The mesh, and how the points along each dim are distributed: equal for arrays that are distributed alike."""
        parts = [self.parts.get(d) for d in dims]
        return self.mesh, *(
            (p.axis, p.interval, p.parts, p.owners.tobytes()) if isinstance(p, Subdomains) else p for p in parts
        )

    def zero_in_padding(self, array: Any, dims: Dims) -> Any:
        """A distributed array with zeros in its padding, to which no cotangents flow."""
        for axis, (d, i) in enumerate(dims.items):
            if d in self.parts and not (mask := self.parts[d].own(i)).all():
                mask = lax.broadcast_in_dim(mask, array.shape, (axis,))
                array = lax.select(mask, array, lax.full_like(array, 0))
        return array

    def cropped(self, array: Any, dims: Dims) -> Any:
        """An array without its padding: within a traced program distributed, if XLA distributes the points alike.

        Otherwise every device has it whole: eagerly JAX places no blocks of several extents, and XLA's partitioner
        would add up parts of blocks, with zeros beside them, which loses the sign of -0.0.
        """
        if not inside_jit() or not self._dealt_out_alike(dims):
            return self.gathered(array, dims)
        sides = self._sides(dims)
        return (
            lax.with_sharding_constraint(array[_slices(array, sides)], self.sharding(dims))
            if _any_padding(sides)
            else array
        )

    def gathered(self, array: Any, dims: Dims) -> Any:
        """An array without its padding, in the caller's order, whole on every device.

        One that has neither padding nor another order (`is_even`) stays distributed as it is.
        """
        sides = self._sides(dims)
        if self.is_even(dims):
            return array
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        array = (
            jax.device_put(array, everywhere) if concrete(array) else lax.with_sharding_constraint(array, everywhere)
        )
        return self._in_order(array[_slices(array, sides)], dims)

    def _dealt_out_alike(self, dims: Dims) -> bool:
        """True if XLA's own distribution, as many points as possible on the first devices, gives each device its
        block.
        """
        if any(d in subdomains_of(self.parts) for d in dims):
            return False
        parts = [(p, i) for d, i in dims.items if (p := blocks_of(self.parts).get(d)) is not None]
        return all(p.interval.start == i.start and -(-len(i) // p.parts) == p.size for p, i in parts)

    def placed(self, arrays: Arrays) -> dict[str, Leaves]:
        """Arrays of a caller as blocks on the devices."""
        fields = {p.name: tuple(self._put(a, p.type.dims) for a in arrays[p.name]) for p in self.reads}
        return {**fields, **self.placed_fixed}

    def _put(self, array: Any, dims: Dims) -> jax.Array:
        """A caller's array as blocks on the devices; of a NumPy array or file each device's block is read for it."""
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
        """Names of arrays of JAX that are not distributed in the blocks of the mesh, and will be moved."""
        return [
            p.name
            for p in self.reads
            for a in arrays[p.name]
            if isinstance(a, jax.Array) and not a.sharding.is_equivalent_to(self.sharding(p.type.dims), a.ndim)
        ]

    def padded_arrays(self, arrays: Arrays) -> dict[str, Leaves]:
        """The traced arrays of fields, padded, and the fixed lists and tables."""
        padded = {
            p.name: tuple(self.dealt_out(a, p.type.dims) for a in arrays[p.name])
            for p in self.reads
            if p.name in arrays
        }
        return {**padded, **{n: tuple(map(jax.numpy.asarray, leaves)) for n, leaves in self.fixed.arrays.items()}}

    def dealt_out(self, array: Any, dims: Dims) -> Any:
        """A traced array, padded and distributed."""
        array = left_to_xla(jax.numpy.asarray(array), self.mesh)
        if inside_jit() and self._dealt_out_alike(dims):
            array = lax.with_sharding_constraint(array, self.sharding(dims))
        return self.padded(array, dims)

    def taken(self, outputs: Arrays) -> dict[str, Leaves]:
        """Results without padding."""
        return {p.name: tuple(self.cropped(a, p.type.dims) for a in outputs[p.name]) for p in self.program.results}

    def shapes(self) -> dict[str, Leaves]:
        """The shapes and shardings of padded arrays, to compile a program without arrays."""
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
        """The jitted function from traced arrays to cropped results and the failures of checks.

        Its `views` replace fields, exchanged by `with_halos_of`.
        """

        def run(arrays: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
            """The results and failures."""
            outputs, failures = self._run(self.padded_arrays(arrays), views)
            return self.taken(outputs), failures

        return jax.jit(run)

    @cached_property
    def with_halos_of(self) -> Any:
        """The jitted function from some traced arrays to their views, which have the halos: overlapping blocks."""

        def run(arrays: Arrays) -> dict[str, Leaves]:
            """The views of the fields."""
            fields = self.padded_arrays(arrays)
            local, plan = part_of_exchange(self.local, self.exchange, set(fields))
            views = self._specs(v.param for v in local.views)

            def exchanged(blocks: Arrays) -> dict[str, Leaves]:
                """The views of one device."""
                return {n: tuple(x.whole for x in leaves) for n, leaves in with_halos(blocks, local, plan).items()}

            return self._mapped(exchanged, (self._specs(self._of(fields)),), views)(fields)

        return jax.jit(run)

    def _of(self, fields: Arrays) -> list[Var]:
        return [p for p in self.reads if p.name in fields]

    def _specs(self, params: Iterable[Var]) -> dict[str, tuple[PartitionSpec, ...]]:
        return {p.name: (self._spec(p.type.dims),) * len(p.type.leaves) for p in params}

    def _mapped(self, block: Any, specs: Any, results: Any) -> Any:
        return jax.shard_map(block, mesh=self.mesh, in_specs=specs, out_specs=results)

    def _run(self, fields: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
        """The padded results and failures of all devices, by `shard_map`, of padded fields and exchanged views."""
        specs = self._specs(self._of(fields))
        specs.update({n: (self._fixed_specs[n],) * len(leaves) for n, leaves in self.fixed.arrays.items()})
        view_specs = self._specs(v.param for v in self.local.views if v.param.name in views)
        step = self._mapped(self._block, (specs, view_specs), (self._specs(self.program.results), PartitionSpec()))
        return step(dict(fields), dict(views))

    def _block(self, fields: Arrays, views: Arrays) -> tuple[dict[str, Leaves], list[Any]]:
        """The results and failures of one device; if its parts are kernels of stencils, they are parted together as
        one program.
        """
        if op_by_op() or not any(e.is_grid and e.in_kernels for e in self._executables):
            return self._in_parts(fields, views)
        flat, structure = jax.tree_util.tree_flatten((fields, views))
        run = lambda *flat: self._in_parts(*jax.tree_util.tree_unflatten(structure, flat))
        closed, shapes = jax.make_jaxpr(run, return_shape=True)(*flat)
        results = parted_as_a_whole(closed, flat)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), results)

    def _in_parts(self, fields: Arrays, views: Arrays) -> tuple[dict[str, Leaves], list[Any]]:
        """The results and failures of one device, part by part, each a program of its own, after the exchange.

        An interior needs no halo and does not wait for it; folds over distributed dims are combined between stages.
        """
        local, plan = part_of_exchange(self.local, self.exchange, set(fields)) if views else (self.local, self.exchange)
        surrounded_views = with_halos(fields, local, plan)
        surrounded_views.update(complete_views(views, {v.param.name: v for v in self.local.views}))
        blocks, axes = blocks_of(self.parts), frozenset(p.axis for p in self.parts.values())
        own_arrays: dict[str, Leaves] = {name: fields[name] for name in self.fixed.arrays}
        tables = self.fixed.prepared(fields)
        failures: list[Any] = []
        self.checks = []
        outputs: dict[str, list[tuple[Dims, Leaves]]] = {}
        complete_results: dict[str, Leaves] = {}
        for k, (part, executable) in enumerate(zip(self._programs, self._executables, strict=True)):
            stage = part.program
            own_arrays.update(
                {p.name: (self._positions(blocks[d], p),) for d, p in part.positions.items() if d in blocks}
            )
            for p in stage.inputs:
                if (result := part.results.get(p.name)) is not None:
                    if result not in complete_results:
                        complete_results[result] = self._whole_block(result, outputs[result])
                    own_arrays[p.name] = tuple(
                        part_of(x, self._block_of(result), p.type.dims) for x in complete_results[result]
                    )
            operands = {
                p.name: own_arrays[p.name]
                if p.name in own_arrays
                else tuple(x.on(p.type.dims) for x in surrounded_views[p.name])
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
                    own_arrays[fold.param.name] = tuple(self._combined(x, fold) for x in results[fold.param.name])
        names = [p.name for p in self.program.results]
        return {
            n: complete_results[n] if n in complete_results else self._whole_block(n, outputs[n]) for n in names
        }, failures

    def _without_padding(self, x: Any, param: Var) -> Any:
        """A part of a result with zeros beyond the ends of the undistributed result, so that later steps read no
        garbage.
        """
        if param.name not in self.local.on_every_device:
            return x
        result_dims, own_points = self.program[param.name].type.dims, self.local.on_every_device[param.name]
        for axis, (d, i) in enumerate(param.type.dims.items):
            block = self.parts.get(d)
            if isinstance(block, Decomposition) and not own_points[d].covers(i):
                valid = [(result_dims[d] & block.block(k)).shifted(block.start(k)) for k in range(block.parts)]
                begins = of_this_device([points.start - i.start for points in valid], block.axis)
                ends = of_this_device([points.stop - i.start for points in valid], block.axis)
                position = lax.broadcasted_iota("int32", x.shape, axis)
                before, after = (
                    lax.lt(position, lax.broadcast(begins, x.shape)),
                    lax.ge(position, lax.broadcast(ends, x.shape)),
                )
                is_padding = lax.bitwise_or(before, after)
                x = lax.select(is_padding, lax.full_like(x, 0), x)
        return x

    def _block_of(self, result: str) -> Dims:
        """The points of a result's block."""
        dims = self.program[result].type.dims
        return Dims(tuple((d, Interval(0, self.parts[d].size) if d in self.parts else i) for d, i in dims.items))

    def _whole_block(self, result: str, parts: Sequence[tuple[Dims, Leaves]]) -> Leaves:
        """A result on the device's block, joined from the parts in which it was computed."""
        dims, leaves = [part for part, _ in parts], zip(*(arrays for _, arrays in parts), strict=True)
        return tuple(_joined_parts(dims, arrays, self._block_of(result)) for arrays in leaves)

    def _positions(self, decomposition: Decomposition, place: Var) -> Any:
        """The global coordinates of the local points of a decomposed dim, on this device."""
        ((_, box),) = place.type.dims.items
        start = lax.mul(lax.axis_index(decomposition.axis), np.int32(decomposition.size))
        counted = lax.add(lax.iota("int32", len(box)), np.int32(decomposition.interval.start + box.start))
        return lax.add(counted, lax.broadcast(start, counted.shape))

    def _combined(self, partial: Any, fold: Combined) -> Any:
        """The folds of all devices along an axis, combined in the order of the devices."""
        decomposition = self.parts[fold.dim]
        if fold.op == "plus":
            return lax.psum(partial, decomposition.axis)
        partials = _all_gathered(partial, decomposition.axis, decomposition.parts)
        total = lax.index_in_dim(partials, 0, keepdims=False)
        for k in range(1, decomposition.parts):
            total = SCALAR[fold.op](total, lax.index_in_dim(partials, k, keepdims=False))
        return total

    def _anywhere(self, failure: Any) -> Any:
        """The failure of a check on any device: -1, or 0 and the largest value shown."""
        axes = tuple(dict.fromkeys(p.axis for p in self.parts.values()))
        position, value = lax.index_in_dim(failure, 0), lax.index_in_dim(failure, 1)
        failed = lax.ge(position, lax.full_like(position, 0))
        shown = lax.select(failed, value, lax.full_like(value, np.iinfo(value.dtype).min))
        pair = lax.concatenate([lax.select(failed, lax.full_like(position, 0), lax.full_like(position, -1)), shown], 0)
        return lax.pmax(pair, axes)


Padding = Sequence[tuple[int, int]]


def _any_padding(sides: Padding) -> bool:
    return any(map(any, sides))


def _slices(array: Any, sides: Padding) -> tuple[slice, ...]:
    return tuple(slice(low, n - high) for (low, high), n in zip(sides, array.shape, strict=True))


def _joined_parts(dims: Sequence[Dims], parts: Sequence[Any], block: Dims) -> Any:
    """The parts of a block as one array: the interior, which is the last part, with strips written around it in
    place.

    The interior is computed without waiting for messages. Tangents are concatenated: the adjoint of that takes slices,
    and that of updates would copy cotangents.
    """
    if not jax.numpy.issubdtype(parts[0].dtype, np.inexact):
        return _strips_in_place(dims, parts, block)

    @jax.custom_jvp
    def joined(*parts: Any) -> Any:
        return _strips_in_place(dims, parts, block)

    def tangents(primals: Any, moved: Any) -> tuple[Any, Any]:
        """The joined array, and its joined tangents."""
        return joined(*primals), _side_by_side(list(zip(dims, moved, strict=True)), block)

    joined.defjvp(tangents)
    return joined(*parts)


def _strips_in_place(dims: Sequence[Dims], parts: Sequence[Any], block: Dims) -> Any:
    """The last part, padded to the block, with the other parts written into it."""
    *strips, x = parts
    sides = [(i.start - b.start, b.stop - i.stop, 0) for i, b in _intervals_by_axis(block, dims[-1])]
    joined = lax.pad(x, lax.full((), 0, x.dtype), sides) if _any_padding([side[:2] for side in sides]) else x
    for part, strip in zip(dims, strips, strict=False):
        joined = lax.dynamic_update_slice(
            joined, strip, [i.start - b.start for i, b in _intervals_by_axis(block, part)]
        )
    return joined


def _side_by_side(parts: Sequence[tuple[Dims, Any]], block: Dims) -> Any:
    """The parts of a block concatenated along one dim after the other."""
    if len(parts) == 1:
        return parts[0][1]
    dim = next(d for d, i in parts[0][0].items if any(dims.get(d) != i for dims, _ in parts))
    parts_by_interval: dict[Interval, list[tuple[Dims, Any]]] = {}
    for dims, x in parts:
        parts_by_interval.setdefault(dims[dim], []).append((dims.without(dim), x))
    pieces = [
        _side_by_side(parts_beside, block)
        for _, parts_beside in sorted(parts_by_interval.items(), key=lambda item: item[0].start)
    ]
    return lax.concatenate(pieces, block.names.index(dim))


def _intervals_by_axis(block: Dims, part: Dims) -> list[tuple[Interval, Interval]]:
    """By axis of a block, the points of a part and of the block."""
    return [(i, block[d]) for d, i in block.replaced(part).items]


def _local_names(
    local: Localised, holes: Mapping[str, SkipValues], full: frozenset[str]
) -> tuple[dict[str, SkipValues], frozenset[str]]:
    """Facts of tables, and the tables declared full, by their names in the local program."""
    names = [(v.param.name, v.field.name) for v in local.views] + [(t.param.name, t.name) for t in local.tables]
    return {local_name: holes[n] for local_name, n in names if n in holes}, frozenset(
        local_name for local_name, n in names if n in full
    )


def _all_gathered(x: Any, axis: str, parts: int) -> Any:
    """The values of all devices along a new first axis, the same on each device; `parts` is their number.

    A sum with values that add nothing, -0.0, has a derivative and keeps the sign of zeros.
    """
    if x.dtype == bool:
        return lax.convert_element_type(_all_gathered(lax.convert_element_type(x, "int32"), axis, parts), bool)
    nothing = lax.full((parts, *x.shape), -0.0 if jax.numpy.issubdtype(x.dtype, np.inexact) else 0, x.dtype)
    placed = lax.dynamic_update_index_in_dim(nothing, x, lax.axis_index(axis), 0)
    return lax.psum(placed, axis)
