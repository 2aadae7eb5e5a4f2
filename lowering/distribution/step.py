"""One program at its sizes on a mesh: pad, exchange, compute blocks, combine folds, crop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lowering.compiled import Compiled, compile
from lowering.context import Check
from lowering.distribution.halos import with_halos
from lowering.distribution.processes import agree, blocks_of, is_shared
from lowering.elementwise import SCALAR
from lowering.executable import Executable
from lowering.manual_axes import varying
from lowering.tracing import concrete
from tensorir.distribution.exchange import Exchange, exchange
from tensorir.distribution.local_program import Combined, Localised, localised
from tensorir.distribution.part_of_exchange import part_of_exchange
from tensorir.distribution.parting import decompositions
from tensorir.ir import Fencil, Var
from tensorir.text.printer import print_fencil
from tensorir.types import DTYPES, Dims

__all__ = ["Step"]

NOTHING: Mapping[str, Any] = {}

Leaves = tuple[Any, ...]
Arrays = Mapping[str, Leaves]


class Step:
    """A program of known sizes on the devices of a mesh: a function of arrays by parameter, one per leaf."""

    def __init__(self, program: Fencil, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self.program, self.mesh, self.shared = program, mesh, is_shared(mesh)
        if self.shared:
            agree(program.name, f"{print_fencil(program)} {axes} {mesh}", mesh)
        self.parts = decompositions(program, axes, dict(mesh.shape))
        self.local: Localised = localised(program, self.parts)
        self.exchange: Exchange = exchange(self.local)
        self._compiled: list[Compiled] = [compile(stage, **options) for stage in self.local.stages]
        self.checks: list[Check] = []

    @cached_property
    def _executables(self) -> list[Executable]:
        return [c._ready({})[0] for c in self._compiled]

    @property
    def wide(self) -> bool:
        """Whether it computes with 64-bit numbers."""
        return any(e.wide for e in self._executables)

    @cached_property
    def reads(self) -> tuple[Var, ...]:
        """The fields that the local program reads."""
        return tuple(dict.fromkeys(v.field for v in self.local.views))

    # Layout

    def sharding(self, dims: Dims) -> NamedSharding:
        """Where the blocks of an array lie."""
        return NamedSharding(self.mesh, self._spec(dims))

    def _spec(self, dims: Dims) -> PartitionSpec:
        return PartitionSpec(*(self.parts[d].axis if d in self.parts else None for d in dims))

    def _sides(self, dims: Dims) -> list[tuple[int, int]]:
        """How many points of padding an array gets at both ends of each axis."""
        whole = [(self.parts[d].padded if d in self.parts else i, i) for d, i in dims.items]
        return [(i.start - w.start, w.stop - i.stop) for w, i in whole]

    def padded(self, array: Any, dims: Dims) -> Any:
        """An array with the padding of its last blocks."""
        sides = self._sides(dims)
        if not any(map(any, sides)):
            return array
        if isinstance(array, np.ndarray):
            return np.pad(array, sides)
        return lax.pad(array, lax.full((), 0, array.dtype), [(low, high, 0) for low, high in sides])

    def cropped(self, array: Any, dims: Dims) -> Any:
        """An array without its padding: within a trace in its blocks, where XLA deals points out alike.

        Elsewhere it is whole on every device: XLA's partitioner would add up parts of blocks, with zeros beside them,
        which loses the sign of -0.0.
        """
        sides = self._sides(dims)
        if not any(map(any, sides)):
            return array
        part = tuple(slice(low, n - high) for (low, high), n in zip(sides, array.shape, strict=True))
        if not concrete(array) and self._dealt_out_alike(dims):
            return lax.with_sharding_constraint(array[part], self.sharding(dims))
        return jax.device_put(array, NamedSharding(self.mesh, PartitionSpec()))[part]

    def _dealt_out_alike(self, dims: Dims) -> bool:
        """Whether XLA, which puts as many points as it can on the first devices, gives each the points of its block."""
        parts = [(self.parts[d], i) for d, i in dims.items if d in self.parts]
        return all(p.interval.start == i.start and -(-len(i) // p.parts) == p.size for p, i in parts)

    def placed(self, arrays: Arrays) -> dict[str, Leaves]:
        """Arrays of a caller as blocks on the devices."""
        found: dict[str, Leaves] = {}
        put = blocks_of if self.shared else jax.device_put
        for p in self.reads:
            leaves = (np.asarray(a) if not hasattr(a, "dtype") else a for a in arrays[p.name])
            found[p.name] = tuple(put(self.padded(a, p.type.dims), self.sharding(p.type.dims)) for a in leaves)
        return found

    def elsewhere(self, arrays: Arrays) -> list[str]:
        """The arrays of the devices that do not lie in the blocks of the mesh."""
        return [
            p.name
            for p in self.reads
            for a in arrays[p.name]
            if isinstance(a, jax.Array) and not a.sharding.is_equivalent_to(self.sharding(p.type.dims), a.ndim)
        ]

    def given(self, arrays: Arrays) -> dict[str, Leaves]:
        """Arrays of a trace, padded."""
        found: dict[str, Leaves] = {}
        for p in (p for p in self.reads if p.name in arrays):
            leaves = [jax.numpy.asarray(a) for a in arrays[p.name]]
            if self._dealt_out_alike(dims := p.type.dims):
                leaves = [lax.with_sharding_constraint(a, self.sharding(dims)) for a in leaves]
            found[p.name] = tuple(self.padded(a, dims) for a in leaves)
        return found

    def taken(self, outputs: Arrays) -> dict[str, Leaves]:
        """Results without padding."""
        return {p.name: tuple(self.cropped(a, p.type.dims) for a in outputs[p.name]) for p in self.program.results}

    def shapes(self) -> dict[str, Leaves]:
        """What stands for the padded arrays where a program is compiled without any."""
        found: dict[str, Leaves] = {}
        for p in self.reads:
            sides = zip(self._sides(p.type.dims), p.type.dims.shape, strict=True)
            shape, place = tuple(low + n + high for (low, high), n in sides), self.sharding(p.type.dims)
            found[p.name] = tuple(jax.ShapeDtypeStruct(shape, DTYPES[s], sharding=place) for s in p.type.leaves)
        return found

    # Running

    @cached_property
    def run(self) -> Any:
        """From padded arrays to padded results, and what run-time checks found."""
        return jax.jit(self._run)

    @cached_property
    def traced(self) -> Any:
        """From arrays of a trace to results without padding, and what run-time checks found.

        Of some fields there may be views instead, which hold what is around the blocks (`with_halos_of`).
        """

        def run(arrays: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
            outputs, failures = self._run(self.given(arrays), views)
            return self.taken(outputs), failures

        return jax.jit(run)

    @cached_property
    def with_halos_of(self) -> Any:
        """From some arrays of a trace to their views, exchanged: blocks that overlap in what they hold."""

        def run(arrays: Arrays) -> dict[str, Leaves]:
            fields = self.given(arrays)
            local, plan = part_of_exchange(self.local, self.exchange, set(fields))
            views = self._specs(v.param for v in local.views)
            return self._mapped(
                lambda blocks: with_halos(blocks, local, plan), (self._specs(self._of(fields)),), views
            )(fields)

        return jax.jit(run)

    def _of(self, fields: Arrays) -> list[Var]:
        return [p for p in self.reads if p.name in fields]

    def _specs(self, params: Iterable[Var]) -> dict[str, tuple[PartitionSpec, ...]]:
        return {p.name: (self._spec(p.type.dims),) * len(p.type.leaves) for p in params}

    def _mapped(self, block: Any, given: Any, results: Any) -> Any:
        return jax.shard_map(block, mesh=self.mesh, in_specs=given, out_specs=results)

    def _run(self, fields: Arrays, views: Arrays = NOTHING) -> tuple[dict[str, Leaves], list[Any]]:
        specs = self._specs(self._of(fields)), self._specs(v.param for v in self.local.views if v.param.name in views)
        step = self._mapped(self._block, specs, (self._specs(self.program.results), PartitionSpec()))
        return step(dict(fields), dict(views))

    def _block(self, fields: Arrays, views: Arrays) -> tuple[dict[str, Leaves], list[Any]]:
        """What one device does."""
        known: dict[str, Leaves] = with_halos(fields, *part_of_exchange(self.local, self.exchange, set(fields)))
        known.update(views)
        known.update({p.name: (self._positions(d, p),) for d, p in self.local.positions.items()})
        failures: list[Any] = []
        self.checks = []
        outputs: dict[str, Leaves] = {}
        for k, (stage, executable) in enumerate(zip(self.local.stages, self._executables, strict=True)):
            given = {p.name: known[p.name] for p in stage.inputs}
            if all(set(self.parts) <= set(p.type.dims) for p in stage.results):
                # gradients of what is the same on all devices are added up as they are, and not as blocks
                given = varying(given, frozenset(p.axis for p in self.parts.values()))
            outputs, found = executable.inside(given, executable.differentiable)
            failures += [self._anywhere(f) for f in found]
            self.checks += [Check(c.diagnostic, Dims()) for c in executable.checks]
            for fold in self.local.combined:
                if fold.level == k:
                    known[fold.param.name] = tuple(self._combined(x, fold) for x in outputs[fold.param.name])
        return outputs, failures

    def _positions(self, dim: str, place: Var) -> Any:
        """The coordinates in the whole of the local points."""
        part, ((_, box),) = self.parts[dim], place.type.dims.items
        start = lax.mul(lax.axis_index(part.axis), np.int32(part.size))
        counted = lax.add(lax.iota("int32", len(box)), np.int32(part.interval.start + box.start))
        return lax.add(counted, lax.broadcast(start, counted.shape))

    def _combined(self, partial: Any, fold: Combined) -> Any:
        """What the devices along an axis folded, as one."""
        part = self.parts[fold.dim]
        if fold.op == "plus":
            return lax.psum(partial, part.axis)
        every = _every(partial, part.axis, part.parts)
        found = lax.index_in_dim(every, 0, keepdims=False)
        for k in range(1, part.parts):
            found = SCALAR[fold.op](found, lax.index_in_dim(every, k, keepdims=False))
        return found

    def _anywhere(self, failure: Any) -> Any:
        """What a check found on some device."""
        axes = tuple(p.axis for p in self.parts.values())
        position, value = lax.index_in_dim(failure, 0), lax.index_in_dim(failure, 1)
        failed = lax.ge(position, lax.full_like(position, 0))
        shown = lax.select(failed, value, lax.full_like(value, np.iinfo(value.dtype).min))
        pair = lax.concatenate([lax.select(failed, lax.full_like(position, 0), lax.full_like(position, -1)), shown], 0)
        return lax.pmax(pair, axes)


def _every(x: Any, axis: str, parts: int) -> Any:
    """The values of all devices, in their order and the same on each.

    As a sum with what adds nothing, -0.0, which has a derivative and keeps the sign of zeros.
    """
    if x.dtype == bool:
        return lax.convert_element_type(_every(lax.convert_element_type(x, "int32"), axis, parts), bool)
    nothing = lax.full((parts, *x.shape), -0.0 if jax.numpy.issubdtype(x.dtype, np.inexact) else 0, x.dtype)
    own = lax.dynamic_update_index_in_dim(nothing, x, lax.axis_index(axis), 0)
    return lax.psum(own, axis)
