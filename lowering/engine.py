"""Running: executables per sizes and tables, and the way from a call to one of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import islice
from typing import Any

import equinox as eqx
import jax
import numpy as np

from lowering.context import Check
from lowering.lower import lower
from lowering.neighbours import Prepared, prepare
from lowering.raising import NAMES
from lowering.tracing import concrete, inside_trace, op_by_op, tracing, x64
from tensorir.analysis.absence import AbsenceAnalysis, SkipValues
from tensorir.analysis.annotations import Annotations, annotated
from tensorir.arrays import refuse, refuse_given_away
from tensorir.binding import BoundProgram, tables_of
from tensorir.caches import SIZES, RecentCache
from tensorir.calls import PreparedCall, prepare_call, refuse_absent_outputs
from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.ir import Call, Fencil
from tensorir.passes.base import Pass
from tensorir.passes.stages import DEFAULT_PASSES, Stages, staged
from tensorir.types import DTYPES, Interval, TensorType
from tensorir.typing_rules import neighbour_source
from tensorir.walk import postorder, values

__all__ = ["Engine", "Executable", "Options", "inputs", "on_device"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a program is compiled."""

    full: frozenset[str] = frozenset()
    donate: tuple[str, ...] = ()
    numerics: str = "fast"
    passes: tuple[Pass, ...] = DEFAULT_PASSES
    """What every program goes through before it is emitted."""
    raising: frozenset[str] = NAMES
    """The rules of the table of raised forms that may be used."""
    target: str = ""
    """The platform of JAX that is compiled for, where it is not the one of this process."""

    @property
    def platform(self) -> str:
        """The platform of JAX that is compiled for: "cpu", "gpu" or "tpu"."""
        return self.target or jax.default_backend()


@dataclass(eq=False)
class Executable:
    """One fencil with known tables, as a jitted function of its arrays."""

    fencil: Fencil
    bound: Mapping[str, tuple[np.ndarray, ...]]
    """The bound constants: their own numbers, also where the module's leaves are traced."""
    facts: AbsenceAnalysis
    options: Options
    structure: Any = None
    """The tree of the arrays of a call."""
    ordered: bool = True
    """Whether what is printed comes in the order of the program, which XLA has on one device only."""
    checks: list[Check] = field(default_factory=list[Check])
    """The run-time checks, known once the function was traced."""
    fired: list[tuple[str, Call]] = field(default_factory=list[tuple[str, Call]])
    """The rules of the table that were used, known then too."""
    spare: list[Any] = field(default_factory=list[Any])
    """Output buffers that nobody holds: the next call writes into them."""

    def __post_init__(self) -> None:
        self.prints = any(isinstance(e, Call) and e.op == "print" for e in postorder(*values(self.fencil.closures)))
        self._unordered: Executable | None = None
        self.reads = frozenset(p.name for p in self.fencil.inputs)
        self.members = [(p.name, len(p.type.leaves)) for p in self.fencil.results]
        """The results, and how many arrays each is: asked for in every call."""
        self.empty = any(not p.type.dims.size for p in self.fencil.results)
        self.wide = any(s.bits == 64 for t in _types(self.fencil) for s in t.leaves)
        tables = {n: inside for n, (_, inside) in tables_of(self.fencil).items() if n in self.bound}
        prepared = {n: _prepared(self.fencil, n, inside, self.bound[n][0]) for n, inside in tables.items()}
        self.prepared = on_device(prepared)
        self.constants = on_device(dict(self.bound))
        self.materialises = any(
            isinstance(e, Call) and e.op == "materialise" for e in postorder(*values(self.fencil.closures))
        )

    @cached_property
    def known(self) -> Annotations:
        """What analyses say of the nodes of the program."""
        return annotated(self.fencil, self.facts)

    @cached_property
    def inside(self) -> Callable[..., Any]:
        """What runs in somebody's trace."""
        return jax.jit(_of(self, Executable.run))

    @cached_property
    def plain(self) -> jax.stages.Wrapped:
        """What runs on arrays of the device."""
        return jax.jit(_of(self, Executable.run_flat), compiler_options=self.compiler_options)

    @cached_property
    def into(self) -> Callable[..., Any]:
        """What writes into buffers that are given away."""
        run = _of(self, Executable.run_into)
        return jax.jit(run, donate_argnums=0, keep_unused=True, compiler_options=self.compiler_options)

    @property
    def compiler_options(self) -> dict[str, str] | None:
        """What XLA is told of this program; inside of somebody's jit nothing can be."""
        if self.options.platform != "cpu":
            return None
        found: dict[str, str] = {}
        if self.materialises or self.fencil.buffers:
            # the one takes the barriers away that keep what is stored from being computed again, and the other makes
            # of short loops code that may hold no barrier
            found["xla_disable_hlo_passes"] = "cse_barrier_expander,small-while-loop-hoisting"
        if _sums(self.fencil):
            # sums of stencil expressions: 2.6 times as fast without this fusion
            found["xla_cpu_experimental_ynn_fusion_type"] = ""
        return found or None

    def run(self, arrays: Any, prepared: dict[str, Prepared]) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """Outputs and the results of run-time checks; traced once."""
        lowered = lower(
            self.fencil, arrays, prepared, self.known, self.options.numerics, self.options.raising, self.ordered,
            self.options.platform,
        )  # fmt: skip
        self.checks, self.fired = lowered.checks, lowered.fired
        return lowered.outputs, lowered.failures

    def run_flat(self, flat: Sequence[Any], prepared: dict[str, Prepared]) -> tuple[tuple[Any, ...], list[Any]]:
        """The same of the leaves of the arrays, and giving leaves: trees cost a call more."""
        outputs, failures = self.run(jax.tree_util.tree_unflatten(self.structure, flat), prepared)
        return tuple([leaf for p in self.fencil.results for leaf in outputs[p.name]]), failures

    def named(self, flat: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
        """Results by name."""
        leaves = iter(flat)
        return {name: tuple(islice(leaves, count)) for name, count in self.members}

    def among(self, arrays: Sequence[Any]) -> Executable:
        """The executable for where the arrays are: itself, or without an order of what is printed."""
        if not self.prints or on_one_device(arrays):
            return self
        if self._unordered is None:
            self._unordered = Executable(
                self.fencil, self.bound, self.facts, self.options, self.structure, ordered=False
            )
        return self._unordered

    def run_into(self, spare: Any, arrays: Any, prepared: dict[str, Prepared]) -> Any:
        """The same; the buffers of `spare`, which may be read too, are used up, and XLA puts the outputs there."""
        read = {name: spare[name] for name in self.reads if name not in arrays}
        return self.run({**arrays, **read}, prepared)

    def blank(self) -> dict[str, tuple[Any, ...]]:
        """Buffers for the outputs; `jax.numpy.zeros` would compile a program per shape, which JAX keeps for good."""
        return {
            p.name: tuple(jax.device_put(np.zeros(p.type.dims.shape, DTYPES[s])) for s in p.type.leaves)
            for p in self.fencil.results
        }


def _of(executable: Executable, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a function that does not keep its executable: what left a cache is gone at once, with its code."""
    known = weakref.ref(executable)

    @wraps(method)
    def run(*arrays: Any) -> Any:
        owner = known()
        assert owner is not None  # whoever calls holds it
        return method(owner, *arrays)

    return run


def on_one_device(arrays: Sequence[Any]) -> bool:
    """Whether a program of these arrays is sure to run on one device; of a trace nobody knows where there are more."""
    if jax.device_count() == 1:
        return True
    return not inside_trace(list(arrays)) and all(len(a.devices()) == 1 for a in arrays if isinstance(a, jax.Array))


def inputs(fencil: Fencil, names: set[str]) -> dict[str, tuple[jax.ShapeDtypeStruct, ...]]:
    """The shapes and types of the arrays of some parameters."""
    return {
        p.name: tuple(jax.ShapeDtypeStruct(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves)
        for p in fencil.params
        if p.name in names
    }


def _sums(fencil: Fencil) -> bool:
    """Whether shifted values are folded over a dim that is no neighbours'; plain rows are faster with the fusion."""
    folded = [
        argument
        for n in postorder(*values(fencil.closures))
        if isinstance(n, Call) and n.op == "reduce" and not n.static.dim.startswith("_NB_")
        for argument in n.args[2:]
    ]
    return any(isinstance(n, Call) and n.op == "cartesian_shift" for n in postorder(*folded))


def _types(fencil: Fencil) -> list[TensorType]:
    nodes = postorder(*values(fencil.closures))
    return [p.type for p in fencil.params] + [n.type for n in nodes if isinstance(n.type, TensorType)]


class Engine:
    """What a compiled program runs on: a plain object, since looking methods up on a module costs more than a call.

    `executables` and `quick` remember what was traced, `inspected` the programs that show what is inside; `clear()`
    empties them.
    """

    def __init__(self, program: BoundProgram, options: Options) -> None:
        self.program, self.options = program, options
        self.executables: RecentCache[Any, Executable] = RecentCache("executables", SIZES)
        self.quick: RecentCache[Any, Executable] = RecentCache("kinds of calls", SIZES)
        self.inspected: RecentCache[int, Any] = RecentCache("executables that show intermediates", SIZES)

    def __reduce__(self) -> Any:
        # what was compiled belongs to this process
        return Engine, (self.program, self.options)

    def clear(self) -> None:
        self.executables.clear()
        self.quick.clear()
        self.inspected.clear()

    def call(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """One call, with the constants that the module holds: a transformation may have replaced them."""
        try:
            return self._called(constants, datasets, arguments)
        except DiagnosticError:
            raise
        except (RuntimeError, ValueError):
            # what XLA says of memory that is gone does not say whose it was
            for name, value in arguments.items():
                refuse_given_away(value, name)
            raise

    def _called(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        key = _kinds(arguments)
        executable = None if datasets else self.quick.get(key)
        if executable is not None:
            return self._again(executable, constants, arguments)
        if datasets:
            return self._on_dataset(constants, datasets, arguments)
        ready = prepare_call(replace(self.program, constants=constants), arguments, concrete, self.options.donate)
        executable = self._executable(ready)
        outputs = self._run(executable, ready.arrays, ready.given_away)
        if self._is_plain(executable, arguments):
            self.quick.put(key, executable)
        return ready.finish(outputs)

    def stages(self, fencil: Fencil, tables: Mapping[str, SkipValues] | None = None) -> Stages[Fencil]:
        """The passes of a compilation; op by op, floats are added in the order of the program."""
        exact = self.options.numerics == "exact" or op_by_op()
        return staged(fencil, self.options.passes, exact, tables, self.options.full, self.options.platform)

    # Running

    def _run(self, executable: Executable, arrays: dict[str, Any], donated: Mapping[str, Any]) -> Any:
        flat = jax.tree_util.tree_leaves(arrays)
        executable = executable.among(flat)
        if inside_trace(flat):
            if executable.wide and not x64():
                raise refuse(
                    "A15",
                    f"'{self.program.name}' computes with 64-bit numbers, and this transformation does not keep them.",
                    "put it inside of `with jax.enable_x64(True):`, or cast the program to float32.",
                )
            outputs, failures = executable.inside(arrays, executable.prepared)
            return _checked(outputs, failures, executable.checks)
        with jax.enable_x64(True):
            if donated:
                kept = {n: leaves for n, leaves in arrays.items() if n not in donated}
                _refuse_shared(donated, kept)
                outputs, failures = executable.into(donated, kept, executable.prepared)
            elif op_by_op() or executable.empty or any(not isinstance(a, np.ndarray) for a in flat):
                results, failures = executable.plain(tuple(flat), executable.prepared)
                outputs = executable.named(results)
            else:
                return self._recycled(executable, arrays)
        _raise_failures(failures, executable.checks)
        return outputs

    def _recycled(self, executable: Executable, arrays: dict[str, Any]) -> Any:
        """NumPy callers get copies, so the buffers that XLA wrote are ours, and warm for the next call."""
        try:
            spare = executable.spare.pop()  # the buffers of one call belong to one thread
        except IndexError:
            spare = executable.blank()
        outputs, failures = executable.into(spare, arrays, executable.prepared)
        _raise_failures(failures, executable.checks)
        copies = {n: tuple(np.array(a) for a in leaves) for n, leaves in outputs.items()}
        executable.spare.append(outputs)
        return copies

    def _on_dataset(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """A Dataset in gives its variables as arguments by name, and a Dataset out."""
        import xarray as xr

        names = {p.name for p in self.program.program.params}
        for dataset in datasets:
            if not isinstance(dataset, xr.Dataset):
                raise refuse(
                    "A16", f"arguments are given by name, and a {type(dataset).__name__} has none.", "write f(inp=x)."
                )
            arguments = {**{str(n): v for n, v in dataset.data_vars.items() if n in names}, **arguments}
        return xr.Dataset(self.call(constants, (), arguments))

    # Caching

    def _is_plain(self, executable: Executable, arguments: dict[str, Any]) -> bool:
        """Whether calls like this one need no conversion and no look at their numbers."""
        fencil = executable.fencil
        kept = {name for name in executable.reads if isinstance(arguments.get(name), jax.Array)}
        written = {p.name for p in fencil.outputs if p.name not in self.options.donate}
        special = {*executable.facts.tables, *(written - kept)}
        return (
            not any(n in self.program.size_names for n in arguments)
            and all(isinstance(v, (np.ndarray, jax.Array)) for v in arguments.values())
            and all(len(p.type.leaves) == 1 for p in fencil.params)
            and all(isinstance(v, jax.Array) for n, v in arguments.items() if n in self.options.donate)
            and not special & set(arguments)
        )

    def _again(self, executable: Executable, constants: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """A call with bare arrays like one that was seen before, straight to the executable."""
        donate = self.options.donate
        arrays = {n: (v,) for n, v in arguments.items() if n not in donate or n in executable.reads}
        arrays.update(constants or executable.constants)
        outputs = self._run(executable, arrays, {n: (arguments[n],) for n in donate if n in arguments})
        return {n: leaves[0] for n, leaves in outputs.items()}

    def direct(
        self, constants: dict[str, Any], given: Sequence[tuple[str, int]], results: Sequence[str], arrays: Sequence[Any]
    ) -> Callable[[Sequence[Any]], tuple[Any, ...] | None] | None:
        """What calls with jax arrays like these come to, by position and without a look; None where they need one.

        NumPy arrays without axes, which are numbers, may be among them. `given` has the place of each parameter in the
        arrays; results come in the order of their names. For arrays that are not like these the function gives None.
        """
        executable = self.quick.get(_kinds({n: arrays[k] for n, k in given}))
        if executable is None or executable.prints or self.options.donate or tracing():
            return None
        numbers = [k for n, k in given if _is_number(arrays[k]) and n not in results]
        if len(numbers) == len(given) or any(
            not isinstance(arrays[k], jax.Array) for _, k in given if k not in numbers
        ):
            return None
        prepared, checks = executable.prepared, executable.checks
        # leaves of a dict stand in the order of its keys
        held = constants or executable.constants
        fixed = [(n, leaf) for n, found in held.items() for leaf in found]
        constant = tuple(leaf for _, leaf in fixed)
        places = [*given, *((n, len(arrays) + k) for k, (n, _) in enumerate(fixed))]
        order = [k for _, k in sorted(places)]
        written = [p.name for p in executable.fencil.results]
        wanted = [written.index(n) for n in results]
        as_they_are = wanted == list(range(len(written)))
        types = tuple(map(type, arrays))
        every = [(k, a.shape, a.dtype) for k, a in enumerate(arrays) if hasattr(a, "dtype")]
        # what the program is given its executable looks at, as long as no call had anything else
        first: list[Any] = []
        later = [one for one in every if one[0] not in order]
        # compiled already by the call before this one; it asks for no context in which 64-bit types are kept
        with jax.enable_x64(True):
            passed = (*arrays, *constant)
            compiled = executable.plain.lower(tuple([passed[k] for k in order]), prepared).compile()

        def looked_at(arrays: Sequence[Any]) -> tuple[Any, ...]:
            outputs = self.call(constants, (), {n: arrays[k] for n, k in given})
            return tuple([outputs[n] for n in results])

        def run(arrays: Sequence[Any]) -> tuple[Any, ...] | None:
            nonlocal first, later
            if tuple(map(type, arrays)) != types or (first and _unlike(arrays, first)):
                return None
            passed = (*arrays, *constant) if constant else arrays
            try:
                outputs, failures = compiled(tuple(map(passed.__getitem__, order)), prepared)
            except TypeError:
                first, later = every, []
                return None
            except (RuntimeError, ValueError):
                return looked_at(arrays)
            if later and _unlike(arrays, later):  # while it runs
                return None
            if failures:
                _raise_failures(failures, checks)
            return outputs if as_they_are else tuple(map(outputs.__getitem__, wanted))

        return run

    def _executable(self, ready: PreparedCall) -> Executable:
        key = (id(ready.fencil), tuple(sorted(ready.holes.items())), frozenset(ready.arrays))
        found = self.executables.get(key)
        if found is None:
            facts = refuse_absent_outputs(ready.fencil, ready.holes, self.options.full)
            fencil = self.stages(ready.fencil, ready.holes).result
            if fencil is not ready.fencil:
                facts = refuse_absent_outputs(fencil, ready.holes, self.options.full)
            bound = self.program.constants or ready.bound.constants
            structure = jax.tree_util.tree_structure(ready.arrays)
            found = Executable(fencil, bound, facts, self.options, structure)
            self.executables.put(key, found)
        return found


def _kinds(arguments: Mapping[str, Any]) -> Any:
    """What tells calls apart."""
    return tuple([(n, type(v), getattr(v, "shape", None), getattr(v, "dtype", None)) for n, v in arguments.items()])


def _is_number(array: Any) -> bool:
    # a wide one stays what it is only where 64-bit types are kept
    return isinstance(array, np.ndarray) and not array.shape and array.dtype.itemsize < 8


def _unlike(arrays: Sequence[Any], kinds: Iterable[tuple[int, Any, Any]]) -> bool:
    """Whether some of the arrays have other shapes or types than these."""
    return any(arrays[k].shape != shape or arrays[k].dtype != dtype for k, shape, dtype in kinds)


def on_device(arrays: Any) -> Any:
    """Constants as concrete arrays of the device, so that no call copies them; also within somebody's trace."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return jax.tree_util.tree_map(jax.numpy.asarray, arrays)


def _prepared(fencil: Fencil, name: str, inside: Interval, table: np.ndarray) -> Prepared:
    kind = fencil[name].type
    tag, _ = neighbour_source(kind)
    return prepare(np.moveaxis(table, kind.dims.names.index(tag), -1), inside)


def _refuse_shared(donated: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Raise A18 for an array that is given away and is another argument, too."""
    for name, leaves in donated.items():
        for other, others in {**kept, **donated}.items():
            if other != name and any(a is b for a in leaves for b in others):
                told = f"'{name}' is given away, and '{other}' is the same array."
                raise refuse("A18", told, f"pass a copy of it: {name}.copy().")


def _raise_failures(failures: list[Any], checks: list[Check]) -> None:
    found: list[Diagnostic] = []
    for failure, check in zip(failures, checks, strict=True):
        position, value = np.asarray(failure).tolist()
        if position >= 0:
            found.append(_witness(check, position, value))
    if found:
        raise DiagnosticError(found)


def _witness(check: Check, position: int, value: int) -> Diagnostic:
    """The check's diagnostic with the point at which it failed."""
    point = np.unravel_index(position, check.dims.shape) if check.dims.shape else ()
    at = ", ".join(f"{n} = {int(k) + i.start}" for k, (n, i) in zip(point, check.dims.items, strict=True))
    d = check.diagnostic
    note = f"at {at}" if at else "here"
    shown = f"{note} it is {value}." if d.code == "R01" else f"it fails first {note}."
    return Diagnostic(d.code, d.message, d.span, (*d.notes, shown), d.help)


def _checked(outputs: Any, failures: list[Any], checks: list[Check]) -> Any:
    """Inside of a trace nothing can raise: checks travel with the outputs as `equinox.error_if`."""
    for failure, check in zip(failures, checks, strict=True):
        outputs = eqx.error_if(outputs, failure[0] >= 0, str(check.diagnostic))
    return outputs
