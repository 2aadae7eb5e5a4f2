"""`ti.distribute`: a program as a function of arrays whose blocks lie on the devices of a mesh."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from lowering.compiled import Compiled
from lowering.distribution.dealt import Dealt, refuse_narrow
from lowering.distribution.processes import on_host
from lowering.distribution.several_steps import CALLS, DistributedCall
from lowering.distribution.step import Step
from lowering.distribution.tables import NO_TABLES, Tables
from lowering.failures import checked, raise_failures
from lowering.tracing import concrete, inside_trace, op_by_op
from tensorir.binding.arrays import article, refuse
from tensorir.binding.calls import BoundProgram, PreparedCall, at_sizes, prepare_call, with_variables
from tensorir.distribution.parting import NO_OWNERS, by_dim, check_axes, check_dims, owners_by_dim, partition_of
from tensorir.distribution.partition import Owners
from tensorir.distribution.plan import DistributionPlan
from tensorir.fieldview.operator import FieldOperator, Plan
from tensorir.fieldview.program import Program
from tensorir.ir.nodes import Fencil
from tensorir.runtime.memory import SIZES, RecentCache, WeakCache

__all__ = ["Distributed", "DistributedOperator", "distribute"]


NOTHING: Mapping[str, Any] = {}

_LOG = logging.getLogger("tensorir.distribution")


class Distributed:
    """A program on many devices: called as the program is, and of the same results.

    What a call finds elsewhere is moved; results of jax arrays stay where they were computed.
    """

    def __init__(
        self, program: BoundProgram, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any],
        owners: Mapping[str, Owners] = NO_OWNERS,
    ) -> None:  # fmt: skip
        self.program, self.mesh, self.axes, self.options = program, mesh, dict(axes), dict(options)
        self.halo_steps: int = self.options.pop("halo_steps", 1)
        """How many steps of a time loop an exchange is for."""
        self.owners = owners
        self._told = False
        self.steps: RecentCache[Any, tuple[Any, Step]] = RecentCache("distributed programs", SIZES)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        if datasets:
            return self._on_dataset(datasets, arguments)
        ready = prepare_call(self.program, arguments, concrete)
        step = self._ready(ready)
        leaves = [a for some in ready.arrays.values() for a in some]
        return ready.finish(self._traced(step, ready) if inside_trace(leaves) else self._now(step, ready))

    def step(self, program: Fencil, tables: Tables = NO_TABLES, bound: Mapping[str, Any] = NOTHING) -> Step:
        """What a program of known sizes comes to on the mesh, with these tables; some of them are bound."""
        key = id(program), op_by_op(), tables.key(bound), tuple(map(id, bound.values()))

        def made() -> tuple[Any, Step]:
            return (program, bound), Step(program, self.mesh, self.axes, self.options, self.owners, tables, bound)

        return self.steps.of(key, made)[1]

    def _ready(self, ready: PreparedCall) -> Step:
        bound = ready.bound.constants
        return self.step(ready.fencil, Tables.of(ready.fencil, ready.arrays, ready.holes), bound)

    def _traced(self, step: Step, ready: PreparedCall) -> Any:
        refuse_narrow(step, self.program.name)
        given = {p.name: ready.arrays[p.name] for p in step.reads}
        outputs, failures = step.traced(given)
        if (calls := CALLS.get()) is None:
            return checked(outputs, failures, step.checks)
        tables = Tables.of(ready.fencil, ready.arrays, ready.holes)
        calls.append(DistributedCall(self, ready.fencil, step, tables, ready.bound.constants, given, outputs))
        return outputs

    def _now(self, step: Step, ready: PreparedCall) -> Any:
        if not self._told and (moved := step.elsewhere(ready.arrays)):
            self._told = True
            _LOG.debug("%s: moved to its blocks before each call: %s", self.program.name, ", ".join(moved))
        with jax.enable_x64(True):
            outputs, failures = step.run(step.placed(ready.arrays))
            raise_failures(failures, step.checks)
            results = step.taken(outputs)
        given = (a for some in ready.arrays.values() for a in some)
        if step.shared and not any(isinstance(a, jax.Array) for a in given):
            return {n: tuple(map(on_host, leaves)) for n, leaves in results.items()}
        return results

    def _on_dataset(self, datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        import xarray as xr

        given = with_variables(self.program.program, datasets, arguments, "d")
        return xr.Dataset(self(**given))

    def _at(self, sizes: Mapping[str, int]) -> Step:
        bound = self.program
        if not isinstance(bound.program, Fencil):
            bound, _ = at_sizes(bound, {}, sizes)  # some follow from what is bound
        program, constants = bound.program, bound.constants
        assert isinstance(program, Fencil)
        return self.step(program, Tables.of(program, constants, bound.holes), constants)

    def step_of(self, /, **given: Any) -> Step:
        """The step for the arguments of a call, or for sizes by name."""
        if set(given) <= set(self.program.size_names):
            return self._at(given)
        return self._ready(prepare_call(self.program, given, concrete))

    def dealt(self, /, **arguments: Any) -> Dealt:
        """The arguments of a call on their devices, where a loop over steps keeps them.

        Of an unstructured mesh each step of `ti.iterate` else gathers its state, which has the order of the caller.
        """
        ready = prepare_call(self.program, arguments, concrete)
        return Dealt(self._ready(ready), ready)

    def plan(self, /, **given: Any) -> DistributionPlan:
        """Who sends what to whom before a step, for the arguments of a call or for sizes by name."""
        step = self.step_of(**given)
        return DistributionPlan(step.local, step.exchange)

    def hlo(self, /, **given: Any) -> str:
        """XLA's optimised text of a step, on arrays whose blocks lie where they belong; given what `plan` is."""
        step = self.step_of(**given)
        with jax.enable_x64(True):
            return step.run.lower(step.shapes()).compile().as_text()


class DistributedOperator:
    """A field operator, or a program of such, on many devices: each kind of arguments is a program of its own."""

    def __init__(
        self, operator: FieldOperator | Program, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        """`options` has the partition, too."""
        self.operator, self.mesh, self.axes, self.options = operator, mesh, axes, options
        self.programs: WeakCache[Distributed] = WeakCache("distributed operators")

    def __call__(self, /, *args: Any, offset_provider: Mapping[str, Any] | None = None, **more: Any) -> Any:
        return self.operator.on(self._distributed, args, more, offset_provider)

    def _distributed(self, plan: Plan) -> Distributed:
        return self.programs.of(plan.fencil, lambda _: distribute(plan.program, self.mesh, self.axes, **self.options))

    def of(self, *args: Any, **more: Any) -> Distributed:
        """The program for arguments, or for their types."""
        return distribute(self.operator.fencil(*args, **more), self.mesh, self.axes, **self.options)

    def plan(self, *args: Any, **more: Any) -> DistributionPlan:
        """Who sends what to whom before a step, for the arguments of a call or for their types."""
        return self.of(*args, **more).plan()

    def hlo(self, *args: Any, **more: Any) -> str:
        """XLA's optimised text of a step, for the arguments of a call or for their types."""
        return self.of(*args, **more).hlo()


def distribute(program: Any, mesh: Any, dims: Mapping[Any, str], *, partition: Any = None, **options: Any) -> Any:
    """A program whose dims are parted over the axes of a mesh; `options` are those of `ti.compile`.

    Dims that a partition has go along one axis together, dealt out by their owners.
    """
    if not isinstance(mesh, Mesh):
        told = f"{article(type(mesh).__name__)} is no mesh of devices."
        raise refuse("D06", told, 'make one: jax.make_mesh((2, 2), ("px", "py")).')
    steps = options.get("halo_steps", 1)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise refuse("D09", f"halo_steps is {steps!r}, which is no number of steps.", "give 1 or more.")
    if steps > 1 and partition is not None:
        raise refuse("D09", "halo_steps is of dims in blocks, and a partition is given.", "leave out halo_steps.")
    axes = by_dim(dims)
    check_axes(axes, dict(mesh.shape), owners_by_dim(partition))
    owners = partition_of(partition, axes, dict(mesh.shape))
    # blocks lie where this says, whatever the kinds of the caller's axes are
    mesh = Mesh(mesh.devices, mesh.axis_names)
    if isinstance(program, (FieldOperator, Program)):
        return DistributedOperator(program, mesh, axes, {**options, "partition": partition})
    if isinstance(program, Compiled):
        chosen = program.engine.options
        kept = {n: getattr(chosen, n) for n in ("numerics", "passes", "raising", "without")}
        options, program = {**kept, **options}, program.engine.program
    if hasattr(program, "compiled_by"):  # a lifted function, which has a program for each set of sizes
        options["partition"] = partition
        return program.compiled_by(lambda fencil, **told: distribute(fencil, mesh, axes, **{**told, **options}))
    if hasattr(program, "distributed_by"):  # a recorded step, which has several programs
        check_dims("the step", dict.fromkeys(d for one in program.domains.values() for d in one.names), axes)

        def placed(part: Compiled) -> Any:
            along = {d: axes[d] for d in _dims_of(part.engine.program) if d in axes}
            return distribute(part, mesh, along, partition=partition if owners.keys() & along else None, **options)

        return program.distributed_by(placed)
    bound = BoundProgram.of(program)
    check_dims(bound.name, _dims_of(bound), axes)
    return Distributed(bound, mesh, axes, options, owners)


def _dims_of(bound: BoundProgram) -> dict[str, None]:
    """The dims of a program's parameters, in order; also where its sizes are not known yet."""
    program = bound.program
    if isinstance(program, Fencil):
        return dict.fromkeys(d for p in program.params for d in p.type.dims)
    return dict.fromkeys(r.dim for p in program.params if p.type is not None for r in p.type.ranges)
