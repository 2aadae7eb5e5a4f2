"""`ti.distribute`: a program as a function of arrays whose blocks lie on the devices of a mesh."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
from jax.extend.core import ClosedJaxpr, Literal
from jax.sharding import Mesh

from lowering.calls.compiled import Compiled
from lowering.context import checked, raise_failures
from lowering.distribution.dealt import Dealt, refuse_narrow
from lowering.distribution.halos import NO_TABLES, Tables
from lowering.distribution.meshes import Placement, heed_signals, is_shared, on_host
from lowering.distribution.step import Step
from lowering.tracing import concrete, inside_trace, left_to_xla, op_by_op, tracing
from tensorir.backends import compile
from tensorir.binding.arrays import Unread
from tensorir.binding.calls import PreparedCall, at_sizes, prepare_call, tables_of, with_variables
from tensorir.binding.programs import BoundProgram
from tensorir.distribution.partition import (
    NO_OWNERS,
    Owners,
    by_dim,
    check_axes,
    check_dims,
    owners_by_dim,
    partition_of,
)
from tensorir.distribution.plan import DistributionPlan
from tensorir.distribution.whole_program import (
    Chained,
    Feedback,
    chained,
    check_named,
    refuse_both,
    single_results,
    state_variables,
)
from tensorir.fieldview.operator import FieldOperator
from tensorir.fieldview.plans import Plan
from tensorir.fieldview.program import Program
from tensorir.integers.dims import Dims, size_of
from tensorir.ir.nodes import Fencil
from tensorir.runtime.errors import article, refuse
from tensorir.runtime.memory import SIZES, RecentCache, WeakCache

# Steps of a time loop taken together: one exchange for all of them, and what it is for is computed again in the
# halos.
#
# A step that is one call of a distributed program, whose results are the next state, is known for that from its
# trace: there is no operation in it but the call. Which array of the state is which parameter, and which result comes
# where, is then read off the arrays themselves.


@dataclass(frozen=True, slots=True)
class DistributedCall:
    """One call of a distributed program in a trace: its arrays by parameter, and what came of them."""

    owner: Distributed
    program: Fencil
    step: Step
    tables: Tables
    bound: Mapping[str, Any]
    arguments: Mapping[str, tuple[Any, ...]]
    results: Mapping[str, tuple[Any, ...]]


CALLS: ContextVar[list[DistributedCall] | None] = ContextVar("calls of distributed programs", default=None)
"""Those of the step that is looked at."""


@contextmanager
def calls_of(calls: list[DistributedCall] | None) -> Iterator[None]:
    """Within the context, calls of distributed programs are appended to the list, without raising the failures of
    checks.

    With None they are not recorded.
    """
    token = CALLS.set(calls)
    try:
        yield
    finally:
        CALLS.reset(token)


ALONE: ContextVar[bool] = ContextVar("distributed programs run as on one device", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """Within the context distributed programs are traced as programs for one device, so that digests do not depend
    on the mesh.
    """
    token = ALONE.set(True)
    try:
        yield
    finally:
        ALONE.reset(token)


def placement_of(calls: Sequence[DistributedCall]) -> Placement | None:
    """The mesh axes along which calls distribute dims, for arrays with named dims; None without calls."""
    axes = {d: a for c in calls for d, a in c.owner.axes.items() if c.owner.mesh == calls[0].owner.mesh}
    return Placement(calls[0].owner.mesh, axes) if calls else None


def several_steps_at_once(calls: Sequence[DistributedCall]) -> int:
    """The number of steps for each exchange that the programs ask for (`halo_steps`); 0 without calls."""
    return max((c.owner.halo_steps for c in calls), default=0)


@dataclass(frozen=True, slots=True)
class Rounds:
    """The schedule of some steps: functions of what the loop carries, and how often each is applied."""

    each: tuple[tuple[Callable[[Any], Any], Any], ...]
    layout: Layout | None = None
    """Where the loop carries blocks as they lie on the devices, and not the state."""

    def run(self, state: Any, repeated: Callable[[Callable[[Any], Any], Any, Any], Any], in_pairs: bool = False) -> Any:
        """The state after all steps; `repeated(function, state, count)` applies a function a number of times.

        `in_pairs`: two applications are one round, since after a round of one XLA copies the blocks to where the next
        one reads them.
        """
        if self.layout is None:
            for function, count in self.each:
                state = repeated(function, state, count)
            return state
        blocks = self.layout.dealt(state)
        for function, count in self.each:
            if in_pairs:
                blocks, count = repeated(lambda b, f=function: f(f(b)), blocks, count // 2), count % 2
            blocks = repeated(function, blocks, count)
        return self.layout.whole(blocks, state)


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a state that a step has in blocks, by their places in it, with their dims.

    A loop that carries blocks deals them out once: extents that no number of devices divides, and the points of an
    unstructured mesh, lie otherwise in the arrays of a caller.
    """

    step: Step
    dims: Mapping[int, Dims]

    def dealt(self, state: Any) -> list[Any]:
        """The leaves of a state, with those of `dims` as blocks."""
        leaves = jax.tree_util.tree_leaves(state)
        return [self.step.dealt_out(x, self.dims[k]) if k in self.dims else x for k, x in enumerate(leaves)]

    def whole(self, blocks: Sequence[Any], state: Any) -> Any:
        """The state of such leaves, in the order of the caller."""
        leaves = [self.step.cropped(x, self.dims[k]) if k in self.dims else x for k, x in enumerate(blocks)]
        return jax.tree_util.tree_structure(state).unflatten(leaves)

    def is_of(self, step: Step) -> bool:
        """True if the blocks lie alike for another step."""
        return all(self.step.places(dims) == step.places(dims) for dims in self.dims.values())


def rounds(step: Callable[[Any], Any], several: int, state: Any, n: Any) -> Rounds:
    """The schedule of n steps: groups of `several` steps for each exchange, then the remaining ones.

    `several`: 0 for a step without distributed programs. The step is traced: only if it is a single call whose results
    are the next state, blocks stay on the devices between steps. Fields that no step writes are exchanged here, before
    the loops. Raises D09 if several steps are asked for and the step is not such a call.
    """
    if not several:
        return Rounds(((step, n),))
    calls: list[DistributedCall] = []
    state_before: list[Any] = []
    state_after: list[Any] = []

    def traced(state: Any) -> Any:
        """The arguments of all calls; fills the lists of arrays of the state before and after the step."""
        state_before[:] = jax.tree_util.tree_leaves(state)
        state_after[:] = jax.tree_util.tree_leaves(step(state))
        return [call.arguments for call in calls]

    with calls_of(calls):
        closed = jax.make_jaxpr(traced)(state)
    alone = len(calls) == len(closed.jaxpr.eqns) == 1
    call = _with_single_results(_with_constants(calls[0], closed)) if alone else None
    feedback = None if call is None else _feedback(call, state_before, state_after)
    chain = None if call is None or feedback is None or several == 1 else chained(call.program, feedback, several)
    if several > 1 and chain is None:
        name = f"'{calls[0].owner.program.name}'" if calls else "a distributed program"
        message = f"{name} takes {several} steps at once, and the step of the time loop is no call of it alone."
        raise refuse("D09", message, "return its results as the next state, or leave out halo_steps.")
    if call is None or feedback is None:
        return Rounds(((step, n),))
    slots = state_variables(call.program, feedback)
    layout = None if slots is None else Layout(call.step, {k: v.type.dims for k, v in slots.items()})
    chained_step = None if chain is None else call.owner.step(chain.program, call.tables, call.bound)
    if layout is not None and chained_step is not None and not layout.is_of(chained_step):
        layout = None
    single = _step_on_carry(call.step, call, feedback, feedback, layout)
    if chain is None or chained_step is None:
        return Rounds(((single, n),), layout)
    return Rounds(
        ((_step_on_carry(chained_step, call, feedback, chain, layout), n // several), (single, n % several)), layout
    )


def _with_constants(call: DistributedCall, closed: ClosedJaxpr) -> DistributedCall:
    """The call with concrete arguments where the traced step has constants."""
    constants: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    leaves, structure = jax.tree_util.tree_flatten(call.arguments)
    arguments = [
        v.val if isinstance(v, Literal) else constants.get(v, x)
        for v, x in zip(closed.jaxpr.outvars, leaves, strict=True)
    ]
    return replace(call, arguments=jax.tree_util.tree_unflatten(structure, arguments))


def _with_single_results(call: DistributedCall) -> DistributedCall:
    """The call with results of one array each; tuples become several results, as the state has them."""
    if all(len(leaves) == 1 for leaves in call.results.values()):
        return call
    program, names = single_results(call.program)
    results = {n: (x,) for name, singles in names.items() for n, x in zip(singles, call.results[name], strict=True)}
    step = call.owner.step(program, call.tables, call.bound)
    arguments = {p.name: call.arguments[p.name] for p in step.reads}
    return replace(call, program=program, step=step, arguments=arguments, results=results)


def _feedback(call: DistributedCall, state_before: Sequence[Any], state_after: Sequence[Any]) -> Feedback | None:
    """The places in the state that a call's parameters read and that its results are written to.

    `state_before`, `state_after`: the arrays of the state. None if the next state has arrays from elsewhere, or a tuple
    is read of the state.
    """
    place_before = {id(a): k for k, a in enumerate(state_before)}
    results = {id(x): name for name, (x,) in call.results.items()}
    sources_after = [results.get(id(a), place_before.get(id(a))) for a in state_after]
    if any(f is None for f in sources_after) or len(state_after) != len(state_before):
        return None
    # parameters that are tuples are several arrays, and are not chained
    if any(id(a) in place_before for leaves in call.arguments.values() if len(leaves) > 1 for a in leaves):
        return None
    reads = {
        name: place_before[id(leaves[0])] for name, leaves in call.arguments.items() if id(leaves[0]) in place_before
    }
    return Feedback(reads, tuple(f for f in sources_after if f is not None))


def _step_on_carry(
    step: Step, call: DistributedCall, feedback: Feedback, taken: Feedback | Chained, layout: Layout | None
) -> Callable[[Any], Any]:
    """The steps of `step` as a function of a loop's carry, which has the state, or blocks in `layout`.

    `feedback`: of one step; `taken`: of the steps taken at once. Fields that are not in the state are exchanged now.
    """
    # where their types name axes of the mesh, JAX cannot add up their cotangents within a loop
    constant = {
        name: tuple([left_to_xla(jax.numpy.asarray(x), step.mesh) for x in leaves])
        for name, leaves in call.arguments.items()
        if name not in feedback.reads
    }
    # what devices send each other though no step writes it; of a mesh, what is bound they do not
    mesh_has_halos = step.exchange.mesh is not None or bool(step.fixed.arrays)
    exchanged_constants = (
        set[str]() if mesh_has_halos else {m.field for m in step.exchange.messages if m.field in constant}
    )
    views = step.with_halos_of({name: constant[name] for name in exchanged_constants}) if exchanged_constants else {}
    other_constants = {
        p.name: constant[p.name] for p in step.reads if p.name in constant and p.name not in exchanged_constants
    }
    fields = {} if layout is None else step.padded_arrays(other_constants)

    def advance(state: Any) -> Any:
        """The carry after the steps."""
        leaves, structure = jax.tree_util.tree_flatten(state)
        read = {name: (leaves[k],) for name, k in taken.reads.items()}
        if layout is None:
            outputs, failures = step.traced({**other_constants, **read}, views)
        else:
            outputs, failures = step.run_inside({**fields, **read}, views)
            if step.local.mesh is not None:
                params = {p.name: p.type.dims for p in step.program.results}
                outputs = {n: tuple(step.zero_in_padding(x, params[n]) for x in some) for n, some in outputs.items()}
        outputs = checked(outputs, failures, step.checks)
        return structure.unflatten([leaves[f] if isinstance(f, int) else outputs[f][0] for f in taken.following])

    return advance


# `ti.distribute`: a program as a function of arrays whose blocks lie on the devices of a mesh.

NOTHING: Mapping[str, Any] = {}

_LOG = logging.getLogger("tensorir.distribution")


class Distributed:
    """A program on many devices: called as the program is, and of the same results.

    What a call finds elsewhere is moved; results of jax arrays stay where they were computed.
    """

    told_by_identity: ClassVar[bool] = True

    def __init__(
        self, program: BoundProgram, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any],
        owners: Mapping[str, Owners] = NO_OWNERS,
    ) -> None:  # fmt: skip
        """The bound program on a mesh; `axes`: the mesh axis of each dim, `owners`: of unstructured dims. `options`:
        those of `compile`, and `halo_steps`.
        """
        self.program, self.mesh, self.axes, self.options = program, mesh, dict(axes), dict(options)
        self.halo_steps: int = self.options.pop("halo_steps", 1)
        """How many steps of a time loop an exchange is for."""
        self.owners = owners
        self._warned = False
        self.steps: RecentCache[Any, tuple[Any, Step]] = RecentCache("distributed programs", SIZES)
        self.quick: RecentCache[Any, Step] = RecentCache("calls of distributed programs", SIZES)
        """The steps of calls that need no conversion and no look at numbers, by the kinds and places of arguments."""

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """The outputs of one call, as the program's on one device."""
        if datasets:
            return self._on_dataset(datasets, arguments)
        if ALONE.get():
            return compile(self.program, numerics=self.options.get("numerics", "fast"))(**arguments)
        key = _call_key(arguments)
        if key is not None and (known_step := self.quick.get(key)) is not None:
            return self._again(known_step, arguments)
        ready = prepare_call(self.program, arguments, concrete, by_block=not tracing())
        step = self._ready(ready)
        leaves = [a for some in ready.arrays.values() for a in some]
        if inside_trace(leaves):
            return ready.finish(self._traced(step, ready))
        results = ready.finish(self._now(step, ready))
        if key is not None and self._is_plain(step, ready, arguments):
            self.quick.put(key, step)
        return results

    def _is_plain(self, step: Step, ready: PreparedCall, arguments: Mapping[str, Any]) -> bool:
        """True if later calls with arrays of these kinds (`_call_key`) may skip all checks and go to `_again`.

        All fields that the step reads are given, as distributed blocks without padding and in its order; no neighbour
        table, whose entries are checked, and no tuple is among them; and the results are blocks, too.
        """
        params = [*step.reads, *step.program.results]
        return (
            not step.shared
            and {p.name for p in step.reads} <= arguments.keys() <= {p.name for p in step.program.inputs}
            and not tables_of(ready.fencil).keys() & arguments.keys()
            and all(len(p.type.leaves) == 1 and step.is_even(p.type.dims) for p in params)
            and not step.elsewhere(ready.arrays)
        )

    def _again(self, step: Step, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a call of a kind that `_is_plain` allowed, straight from the arrays."""
        with jax.enable_x64(True):
            outputs, failures = step.run({**{p.name: (arguments[p.name],) for p in step.reads}, **step.placed_fixed})
            raise_failures(failures, step.checks)
        return {n: leaves[0] for n, leaves in outputs.items()}

    def step(self, program: Fencil, tables: Tables = NO_TABLES, bound: Mapping[str, Any] = NOTHING) -> Step:
        """The step of a program of known sizes on the mesh, with known `tables` and `bound` arrays; cached by their
        identity.
        """
        key = id(program), op_by_op(), tables.key(bound), tuple(map(id, bound.values()))

        def made() -> tuple[Any, Step]:
            return (program, bound), Step(program, self.mesh, self.axes, self.options, self.owners, tables, bound)

        return self.steps.of(key, made)[1]

    def _ready(self, ready: PreparedCall) -> Step:
        bound = ready.bound.constants
        return self.step(ready.fencil, Tables.of(ready.fencil, ready.arrays, ready.holes), bound)

    def _traced(self, step: Step, ready: PreparedCall) -> Any:
        """The outputs of a call within a trace; recorded if `calls_of` listens, else with the failures of its
        checks.
        """
        refuse_narrow(step, self.program.name)
        arguments = {p.name: ready.arrays[p.name] for p in step.reads}
        outputs, failures = step.traced(arguments)
        if (calls := CALLS.get()) is None:
            return checked(outputs, failures, step.checks)
        tables = Tables.of(ready.fencil, ready.arrays, ready.holes)
        calls.append(DistributedCall(self, ready.fencil, step, tables, ready.bound.constants, arguments, outputs))
        return outputs

    def _now(self, step: Step, ready: PreparedCall) -> Any:
        """The outputs of a call: distribute its arrays, run, raise failures, crop. Logs once which arrays had to be
        moved.

        On several processes NumPy arrays give whole NumPy arrays.
        """
        if not self._warned and (moved := step.elsewhere(ready.arrays)):
            self._warned = True
            _LOG.debug("%s: moved to its blocks before each call: %s", self.program.name, ", ".join(moved))
        with jax.enable_x64(True):
            outputs, failures = step.run(step.placed(ready.arrays))
            raise_failures(failures, step.checks)
            results = step.taken(outputs)
        arrays = (a for some in ready.arrays.values() for a in some)
        if step.shared and not any(isinstance(a, (jax.Array, Unread)) for a in arrays):
            return {n: tuple(map(on_host, leaves)) for n, leaves in results.items()}
        return results

    def _on_dataset(self, datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        import xarray as xr

        return xr.Dataset(self(**with_variables(self.program.program, datasets, arguments, "d")))

    def _at(self, sizes: Mapping[str, int]) -> Step:
        """The step for sizes by name."""
        bound = self.program
        if not isinstance(bound.program, Fencil):
            bound, _ = at_sizes(bound, {}, sizes)  # some follow from what is bound
        program, constants = bound.program, bound.constants
        assert isinstance(program, Fencil)
        return self.step(program, Tables.of(program, constants, bound.holes), constants)

    def step_of(self, /, **arguments: Any) -> Step:
        """The step for the arguments of a call, or for sizes by name."""
        if set(arguments) <= set(self.program.size_names):
            return self._at({n: size_of(value, n) for n, value in arguments.items()})
        return self._ready(prepare_call(self.program, arguments, concrete, by_block=True))

    def dealt(self, /, **arguments: Any) -> Dealt:
        """The arguments of a call, distributed on their devices, where a loop over steps keeps them.

        With an unstructured mesh each step of `ti.iterate` otherwise gathers its state into the order of the caller.
        """
        ready = prepare_call(self.program, arguments, concrete, by_block=True)
        return Dealt(self._ready(ready), ready)

    def plan(self, /, **arguments: Any) -> DistributionPlan:
        """The messages between devices before a step, for the arguments of a call or for sizes by name."""
        step = self.step_of(**arguments)
        return DistributionPlan(step.local, step.exchange)

    def hlo(self, /, **arguments: Any) -> str:
        """XLA's optimised text of a step on distributed arrays, for the arguments of a call or for sizes by name."""
        step = self.step_of(**arguments)
        with jax.enable_x64(True):
            return step.run.lower(step.shapes()).compile().as_text()


def _call_key(arguments: Mapping[str, Any]) -> Any:
    """A key of a call by names, shapes, types and shardings; None within a trace, or if an argument is no array of
    JAX.
    """
    if tracing() or not all(isinstance(a, jax.Array) for a in arguments.values()):
        return None
    return op_by_op(), *((n, a.shape, a.dtype, a.sharding) for n, a in arguments.items())


class DistributedOperator:
    """A field operator, or a program of such, on many devices: each kind of arguments is a program of its own."""

    def __init__(
        self, operator: FieldOperator | Program, mesh: Mesh, axes: Mapping[str, str], options: Mapping[str, Any]
    ) -> None:
        """A field operator on a mesh; `options` are those of `distribute`, the partition included."""
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
    """A program whose dims are distributed over the axes of a mesh; `dims`: the axis of each dim, `options`: those
    of `ti.compile`.

    `partition`: owners of the points of unstructured dims, which go along one axis together. Takes fencils, operators,
    compiled, lifted and recorded programs. Raises D06 and D09 for a wrong mesh or `halo_steps`.
    """
    if not isinstance(mesh, Mesh):
        message = f"{article(type(mesh).__name__)} is no mesh of devices."
        raise refuse("D06", message, 'make one: jax.make_mesh((2, 2), ("px", "py")).')
    halo_steps = options.get("halo_steps", 1)
    if isinstance(halo_steps, bool) or not isinstance(halo_steps, int) or halo_steps < 1:
        raise refuse("D09", f"halo_steps is {halo_steps!r}, which is no number of steps.", "give 1 or more.")
    if halo_steps > 1 and partition is not None:
        raise refuse("D09", "halo_steps is of dims in blocks, and a partition is given.", "leave out halo_steps.")
    # users who check no types give others
    if not isinstance(dims, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"{dims!r} does not say which dim goes along which axis of the mesh."
        raise refuse("D01", message, "give the axis of each dim: {'I': 'px'}.")
    axes = by_dim(dims)
    check_axes(axes, dict(mesh.shape), owners_by_dim(partition))
    owners = partition_of(partition, axes, dict(mesh.shape))
    # blocks lie where this says, whatever the kinds of the caller's axes are
    mesh = Mesh(mesh.devices, mesh.axis_names)
    if is_shared(mesh):
        heed_signals()
    if isinstance(program, (FieldOperator, Program)):
        return DistributedOperator(program, mesh, axes, {**options, "partition": partition})
    if isinstance(program, Compiled):
        compiled_options = program.engine.options
        inherited_options = {n: getattr(compiled_options, n) for n in ("numerics", "passes", "raising", "without")}
        options, program = {**inherited_options, **options}, program.engine.program
    if hasattr(program, "compiled_by"):  # a lifted function, which has a program for each set of sizes
        options["partition"] = partition
        return program.compiled_by(lambda fencil, **facts: distribute(fencil, mesh, axes, **{**facts, **options}))
    if hasattr(program, "distributed_by"):  # a recorded step, which has several programs
        check_dims("the step", dict.fromkeys(d for one in program.domains.values() for d in one.names), axes)

        def placed(part: Compiled) -> Any:
            """A program of a recorded step, distributed along the dims that it has."""
            along = {d: axes[d] for dims in _dims_of_params(part.engine.program) for d in dims if d in axes}
            return distribute(part, mesh, along, partition=partition if owners.keys() & along else None, **options)

        return program.distributed_by(placed)
    bound = BoundProgram.of(program)
    tensors = _dims_of_params(bound)
    check_named(bound.name, dict.fromkeys(d for dims in tensors for d in dims), axes, owners)
    refuse_both(tensors, axes, owners)
    return Distributed(bound, mesh, axes, options, owners)


def _dims_of_params(bound: BoundProgram) -> list[list[str]]:
    """The dims of each of a program's parameters, in order; also where its sizes are not known yet."""
    program = bound.program
    if isinstance(program, Fencil):
        return [[*p.type.dims] for p in program.params]
    return [[r.dim for r in p.type.ranges] for p in program.params if p.type is not None]
