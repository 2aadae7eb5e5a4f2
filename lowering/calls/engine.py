"""From a call to an executable: per sizes and tables, and the shortest way for arrays like those before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from lowering.calls.executable import Executable, Options, Unlike, on_host
from lowering.context import checked, raise_failures
from lowering.labelled import register
from lowering.tracing import concrete, inside_trace, op_by_op, refuse_narrow, tracing
from tensorir.binding.arrays import SkipValues, kind_of, refuse_given_away
from tensorir.binding.calls import (
    PreparedCall,
    are_separate,
    prepare_call,
    refuse_absent_outputs,
    tables_of,
    with_variables,
    writable,
)
from tensorir.binding.labels import NOWHERE
from tensorir.binding.programs import BoundProgram
from tensorir.binding.repeated import NUMBERS, RepeatedArguments, call_key, copied_table, copy_table
from tensorir.ir.nodes import Fencil
from tensorir.passes.pipeline import Stages, staged
from tensorir.runtime.errors import DiagnosticError, refuse
from tensorir.runtime.memory import SIZES, RecentCache

# The shortest way of a call: arrays like those of the call before, straight to what was compiled for them.
#
# Looked at are the names that are given, the types of the arrays, their shapes where sizes follow from them, and the
# order of bytes of NumPy arrays, which JAX does not ask for. All else JAX's dispatch tells apart itself, in C++:
# element types, weak types, devices, shapes too. What it has not seen it traces, and there `Executable.run_flat`
# refuses what the program was not compiled for.


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RepeatedCall:
    """Calls of an executable by one set of names, with bare arrays."""

    executable: Executable
    order: tuple[str, ...]
    """Arguments and constants as the executable takes them."""
    count: int
    """How many of them are arguments."""
    types: tuple[type, ...]
    """Those of `order`: arrays of JAX or of NumPy, and no tracers."""
    host: bool
    """Whether all arguments are NumPy arrays, and so the results."""
    any_host: bool
    shapes: list[tuple[int, ...]] | None
    """Those of `order`, where sizes follow from them and with the sizes the executable."""
    results: tuple[str, ...]
    donated: tuple[str, ...]

    @staticmethod
    def of(
        executable: Executable, arguments: Mapping[str, Any], sized: bool, donate: Sequence[str]
    ) -> RepeatedCall | None:
        """Calls like a checked one, of bare arrays; None without arguments or for empty results.

        `sized`: sizes follow from shapes, so that shapes are part of the kind. `donate`: the parameters whose arrays
        may be given away.
        """
        if not arguments or executable.empty:
            return None
        arrays = {**arguments, **{n: leaves[0] for n, leaves in executable.constants.items()}}
        order = tuple(sorted(arrays))  # leaves of a dict stand in the order of its keys
        types = tuple(type(arrays[n]) for n in order)
        host = all(isinstance(a, np.ndarray) for a in arguments.values())
        shapes = [executable.fencil[n].type.dims.shape for n in order] if sized else None
        results = tuple(p.name for p in executable.fencil.results)
        donated = tuple(n for n in donate if n in arguments)
        return RepeatedCall(
            executable, order, len(arguments), types, host, np.ndarray in types, shapes, results, donated
        )

    def __call__(self, constants: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The outputs by name; None for a call of another kind, which must be checked."""
        if len(arguments) != self.count:
            return None
        executable = self.executable
        constants_by_name = constants or executable.constants
        if constants_by_name:
            arguments = {**arguments, **{name: leaves[0] for name, leaves in constants_by_name.items()}}
        try:
            flat = tuple(map(arguments.__getitem__, self.order))
        except KeyError:
            return None
        if tuple(map(type, flat)) != self.types or tracing():
            return None
        if self.any_host and (op_by_op() or False in [a.dtype.isnative for a in flat]):
            return None
        if self.shapes is not None and [a.shape for a in flat] != self.shapes:
            return None
        try:
            with jax.enable_x64(True):
                if self.donated:
                    if len(set(map(id, flat))) < len(flat):  # one that is given away may be another argument, too
                        return None
                    spare = {n: (arguments[n],) for n in self.donated}
                    not_donated = {n: (arguments[n],) for n in self.order if n not in spare}
                    by_name, failures = executable.into(spare, not_donated, executable.prepared)
                    outputs = [by_name[n][0] for n in self.results]
                else:
                    outputs, failures = executable.plain(flat, executable.prepared)
        except Unlike:
            return None
        if failures:
            raise_failures(failures, executable.checks)
        if self.host:
            outputs = map(on_host, outputs)
        return dict(zip(self.results, outputs, strict=True))


# Running: executables per sizes and tables, and the way from a call to one of them.


@dataclass(frozen=True, slots=True)
class _Known:
    """The executable of calls of one kind."""

    executable: Executable
    repeated: RepeatedCall | None
    """The way past the look at the arguments, where there is one."""
    prepared: RepeatedArguments | None
    """How the arguments become arrays, and outputs results, where labels or Python numbers are among them."""
    buffers: tuple[str, ...] = ()
    """The outputs, if every call of the kind copies all of them into NumPy buffers of the caller."""


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a neighbour table that a call has looked at."""

    copy: weakref.ref[Any]
    converted: Any
    """The same in the element type of the parameter, where it has another one."""
    holes: SkipValues


@dataclass(frozen=True, slots=True)
class _Tables:
    """The neighbour tables of a call by parameter, and the slots in which they hold -1."""

    tables: Mapping[str, Any]
    holes: tuple[Any, ...]


NO_TABLES = _Tables({}, ())


class Engine:
    """The engine of a compiled program: a plain object, since looking methods up on a module costs more than a call.

    `executables` and `quick` remember what was traced, `inspected` the programs that show what is inside; `clear()`
    empties them.
    """

    def __init__(self, program: BoundProgram, options: Options) -> None:
        """An engine without executables; `program`: with its bound arrays, `options`: those of `compile`."""
        self.program, self.options = program, options
        self.executables: RecentCache[Any, Executable] = RecentCache("executables", SIZES)
        self.quick: RecentCache[Any, _Known] = RecentCache("kinds of calls", SIZES)
        self.last: Callable[[], RepeatedCall | None] = lambda: None
        """The way of the call before, as long as `quick` has it."""
        self.inspected: RecentCache[int, Any] = RecentCache("executables that show intermediates", SIZES)
        self.entries: RecentCache[tuple[str, int], _Entries] = RecentCache("tables of calls", SIZES)
        """What is known of a table, by parameter and by the copy of it."""

    @cached_property
    def tables(self) -> frozenset[str]:
        """The neighbour tables that calls bring along; empty for a template, each of whose calls is checked whole."""
        fencil = self.program.program
        return (
            frozenset(tables_of(fencil)) - self.program.constants.keys() if isinstance(fencil, Fencil) else frozenset()
        )

    def __reduce__(self) -> Any:
        # what was compiled belongs to this process
        return Engine, (self.program, self.options)

    def clear(self) -> None:
        """Forget all that was traced and compiled."""
        self.executables.clear()
        self.quick.clear()
        self.entries.clear()
        self.inspected.clear()

    def call(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """The outputs of one call; `constants` are those that the module holds, which a transformation may have
        replaced.

        Tries the last kind of call first. If XLA fails on memory that was given away, or on several devices, raises a
        diagnostic with the argument's name.
        """
        try:
            repeated = None if datasets else self.last()
            if repeated is not None and (outputs := repeated(constants, arguments)) is not None:
                return outputs
            return self._called(constants, datasets, arguments)
        except DiagnosticError:
            raise
        except (RuntimeError, ValueError):
            # what XLA says of memory that is gone does not say whose it was
            arrays = {
                n: getattr(v, "data", v) if kind_of(v) in ("field", "xarray") else v for n, v in arguments.items()
            }
            for name, value in arrays.items():
                refuse_given_away(value, name)
            _refuse_different_devices(arrays)
            raise

    def _called(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """The outputs of a call of a known kind (`quick`), or after checking its arguments; remembers its kind."""
        key = None if datasets else call_key(arguments)
        tables = None if key is None else self._looked_at(arguments)
        if tables is not None:
            known_kind = self.quick.get((key, tables.holes))
            results = None if known_kind is None else self._again(known_kind, constants, {**arguments, **tables.tables})
            if results is not None:
                return results
        if datasets:
            return self._on_dataset(constants, datasets, arguments)
        ready = prepare_call(replace(self.program, constants=constants), arguments, concrete, self.options.donate)
        if ready.labels is not None:
            register()  # so that JAX takes its results out of a trace
        executable = self.executable(ready)
        if recycles := self._recycles(executable, ready):
            outputs = self._recycled(executable, ready.arrays)
        else:
            outputs = self._run(executable, ready.arrays, ready.given_away)
        results = ready.finish(outputs)
        if recycles:
            executable.spare.append(outputs)
        if key is not None:
            self._remember(key, executable, ready, arguments, results, recycles)
        return results

    def _looked_at(self, arguments: Mapping[str, Any]) -> _Tables | None:
        """The tables among the arguments, if earlier calls have checked all of their entries; None if not."""
        if not self.tables:
            return NO_TABLES
        tables: dict[str, Any] = {}
        holes: list[Any] = []
        for name in self.tables:
            if name in arguments:
                table = arguments[name]
                copy = table if isinstance(table, jax.Array) else copied_table(table)
                known_entries = None if copy is None else self.entries.get((name, id(copy)))
                if known_entries is None or known_entries.copy() is not copy:
                    return None
                tables[name] = copy if known_entries.converted is None else known_entries.converted
                holes.append((name, known_entries.holes))
        return _Tables(tables, tuple(holes))

    def _look_at(self, ready: PreparedCall, arguments: Mapping[str, Any]) -> _Tables | None:
        """Remember the entries of a checked call's tables; returns these as `_looked_at` does."""
        for name in self.tables:
            table = arguments.get(name)
            if name in ready.holes and (isinstance(table, jax.Array) or type(table) is np.ndarray):
                copy = table if isinstance(table, jax.Array) else copied_table(table)
                copy = copy_table(table) if copy is None else copy
                (bound_table,) = ready.arrays[name]
                converted = None if copy.dtype == bound_table.dtype else bound_table
                self.entries.put((name, id(copy)), _Entries(weakref.ref(copy), converted, ready.holes[name]))
        return self._looked_at(arguments)

    def stages(self, fencil: Fencil, tables: Mapping[str, SkipValues] | None = None) -> Stages[Fencil]:
        """The stages of the passes; with `numerics="exact"`, and op by op, passes that reorder folds are left out."""
        exact = self.options.numerics == "exact" or op_by_op()
        return staged(fencil, self.options.passes, exact, tables, self.options.full, self.options.platform)

    # Running

    def _run(self, executable: Executable, arrays: dict[str, Any], donated: Mapping[str, Any]) -> Any:
        """Run an executable on arrays: within a trace, into donated buffers, or plainly; raises the failures of
        checks.
        """
        flat = jax.tree_util.tree_leaves(arrays)
        executable = executable.among(flat)
        if inside_trace(flat):
            if executable.wide:
                refuse_narrow(self.program.name)
            outputs, failures = executable.inside(arrays, executable.differentiable)
            return checked(outputs, failures, executable.checks)
        with jax.enable_x64(True):
            if donated:
                not_donated = {n: leaves for n, leaves in arrays.items() if n not in donated}
                _refuse_shared(donated, not_donated)
                outputs, failures = executable.into(donated, not_donated, executable.prepared)
                raise_failures(failures, executable.checks)
                return outputs
            results, failures = executable.plain(tuple(flat), executable.prepared)
            raise_failures(failures, executable.checks)
            returns_numpy = not op_by_op() and not executable.empty and _on_host(executable, arrays)
            return executable.named(map(on_host, results) if returns_numpy else results)

    def _recycled(self, executable: Executable, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a call in the spare buffers of an earlier one; who has copied them puts them back."""
        with jax.enable_x64(True):
            try:
                spare = executable.spare.pop()  # the buffers of one call belong to one thread
            except IndexError:
                spare = executable.blank()
            outputs, failures = executable.into(spare, arrays, executable.prepared)
        raise_failures(failures, executable.checks)
        return outputs

    def _recycles(self, executable: Executable, ready: PreparedCall) -> bool:
        """True if only the call itself sees the buffers that XLA writes, so that a later call may reuse them."""
        if not ready.copied or ready.given_away or executable.prints or executable.empty or op_by_op():
            return False
        return not inside_trace(jax.tree_util.tree_leaves(ready.arrays)) and _on_host(executable, ready.arrays)

    def _on_dataset(self, constants: dict[str, Any], datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """The outputs as a Dataset, for Datasets whose variables are arguments by name."""
        import xarray as xr

        return xr.Dataset(self.call(constants, (), with_variables(self.program.program, datasets, arguments)))

    # Caching

    def _is_plain(self, executable: Executable, arguments: dict[str, Any], buffers: Sequence[str] = ()) -> bool:
        """True if calls with arguments like these need no conversion and no look at their values.

        `buffers`: the outputs whose buffers `_into_buffers` looks at.
        """
        fencil = executable.fencil
        read_jax_arrays = {name for name in executable.reads if isinstance(arguments.get(name), jax.Array)}
        written = {p.name for p in fencil.outputs if p.name not in self.options.donate and p.name not in buffers}
        needing_a_look = {*(executable.facts.tables.keys() - self.tables), *(written - read_jax_arrays)}
        return (
            not any(n in self.program.size_names for n in arguments)
            # of NumPy's what has a mask, or an order of bytes that JAX does not know, is converted
            and all(
                isinstance(v, jax.Array) or (type(v) is np.ndarray and v.dtype.isnative) for v in arguments.values()
            )
            and all(len(p.type.leaves) == 1 for p in fencil.params)
            and all(isinstance(v, jax.Array) for n, v in arguments.items() if n in self.options.donate)
            and not needing_a_look & set(arguments)
        )

    def _remember(
        self, key: Any, executable: Executable, ready: PreparedCall, arguments: dict[str, Any], results: Any,
        recycles: bool,
    ) -> None:  # fmt: skip
        """Remember the kind of a call (`quick`) with its executable, and the repeated labels, if a next one may skip
        the checks.

        `recycles`: all results were copied into buffers of the caller.
        """
        tables = self._look_at(ready, arguments)
        if tables is None:
            return
        arguments, key = {**arguments, **tables.tables}, (key, tables.holes)
        buffers = tuple(p.name for p in executable.fencil.results) if recycles else ()
        prepared, arrays, is_named = None, arguments, ready.place is not NOWHERE
        if is_named or any(type(v) in NUMBERS or isinstance(v, np.generic) for v in arguments.values()):
            results = {} if recycles or not is_named else results
            prepared = RepeatedArguments.of(ready.fencil, arguments, ready.place, ready.labels, results)
            if prepared is None:
                return
            arrays = prepared.arrays(arguments)
        if not self._is_plain(executable, arrays, buffers):
            return
        repeated = None if recycles else self._repeated(executable, arrays)
        if prepared is None or recycles or repeated is not None:
            self.quick.put(key, _Known(executable, repeated, prepared, buffers))
        if prepared is None and repeated is not None and not tables.tables:
            self.last = weakref.ref(repeated)

    def _again(self, known_kind: _Known, constants: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any] | None:
        """The outputs of a call of a known kind; None if its arguments need a look after all."""
        executable, donate, prepared = known_kind.executable, self.options.donate, known_kind.prepared
        if known_kind.buffers:
            return self._into_buffers(known_kind, constants, arguments)
        if prepared is not None:
            assert known_kind.repeated is not None
            outputs = known_kind.repeated(constants, prepared.arrays(arguments))
            return None if outputs is None else prepared.around(outputs, arguments)
        if known_kind.repeated is not None and not self.tables:
            self.last = weakref.ref(known_kind.repeated)
        arrays = {n: (v,) for n, v in arguments.items() if n not in donate or n in executable.reads}
        arrays.update(constants or executable.constants)
        outputs = self._run(executable, arrays, {n: (arguments[n],) for n in donate if n in arguments})
        results = {n: leaves[0] for n, leaves in outputs.items()}
        if any(isinstance(v, jax.Array) for v in arguments.values()) or not all(map(concrete, results.values())):
            return results
        return {n: writable(array) for n, array in results.items()}

    def _into_buffers(
        self, known_kind: _Known, constants: dict[str, Any], arguments: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The caller's NumPy buffers with the outputs in them; None for a buffer that the whole check may refuse."""
        executable, prepared = known_kind.executable, known_kind.prepared
        arrays = arguments if prepared is None else prepared.arrays(arguments)
        buffers = {n: arrays[n] for n in known_kind.buffers}
        if tracing() or op_by_op() or not are_separate(list(buffers.values())):
            return None
        read = {n: (a,) for n, a in arrays.items() if n not in buffers or n in executable.reads}
        try:
            outputs = self._recycled(executable, {**(constants or executable.constants), **read})
        except Unlike:
            return None
        for name, buffer in buffers.items():
            np.copyto(buffer, np.asarray(outputs[name][0]))
        executable.spare.append(outputs)
        return {n: arguments[n] for n in buffers} if prepared is None else prepared.written(arguments, buffers)

    def _repeated(self, executable: Executable, arguments: dict[str, Any]) -> RepeatedCall | None:
        """The repeated calls of a plain call; None for programs that print, and within a trace."""
        if executable.prints or tracing():
            return None
        return RepeatedCall.of(executable, arguments, bool(self.program.size_names), self.options.donate)

    def direct(
        self, constants: dict[str, Any], positions: Sequence[tuple[str, int]], results: Sequence[str],
        arrays: Sequence[Any],
    ) -> Callable[[Sequence[Any]], tuple[Any, ...] | None] | None:  # fmt: skip
        """A function for calls with jax arrays like these, by position and without checks; None if their kind needs
        checks.

        NumPy scalars may be among them. `positions`: the place of each parameter in the arrays. `results`: the names of
        outputs, in the order in which they are returned. The function returns None for arrays of other shapes or types.
        """
        known_kind = self.quick.get((call_key({n: arrays[k] for n, k in positions}), ()))
        if known_kind is None or known_kind.executable.prints or self.options.donate or tracing():
            return None
        executable = known_kind.executable
        # a wide number stays what it is only where 64-bit types are kept
        numpy_arrays = [(k, a) for n, k in positions if isinstance(a := arrays[k], np.ndarray) and n not in results]
        scalar_places = [k for k, a in numpy_arrays if not a.shape and a.dtype.itemsize < 8]
        if len(scalar_places) == len(positions) or any(
            not isinstance(arrays[k], jax.Array) for _, k in positions if k not in scalar_places
        ):
            return None
        prepared, checks = executable.prepared, executable.checks
        # leaves of a dict stand in the order of its keys
        constants_by_name = constants or executable.constants
        constant_leaves = [(n, leaf) for n, leaves in constants_by_name.items() for leaf in leaves]
        constant = tuple(leaf for _, leaf in constant_leaves)
        places = [*positions, *((n, len(arrays) + k) for k, (n, _) in enumerate(constant_leaves))]
        order = [k for _, k in sorted(places)]
        written = [p.name for p in executable.fencil.results]
        output_places = [written.index(n) for n in results]
        in_program_order = output_places == list(range(len(written)))
        types = tuple(map(type, arrays))
        all_kinds = [(k, a.shape, a.dtype) for k, a in enumerate(arrays) if hasattr(a, "dtype")]
        # what the program is given its executable looks at, as long as no call had anything else
        checked_before: list[Any] = []
        checked_while_running = [kind for kind in all_kinds if kind[0] not in order]
        # compiled already by the call before this one; it asks for no context in which 64-bit types are kept
        with jax.enable_x64(True):
            passed = (*arrays, *constant)
            compiled = executable.plain.lower(tuple([passed[k] for k in order]), prepared).compile()

        def looked_at(arrays: Sequence[Any]) -> tuple[Any, ...]:
            """The outputs of a checked call."""
            outputs = self.call(constants, (), {n: arrays[k] for n, k in positions})
            return tuple([outputs[n] for n in results])

        def run(arrays: Sequence[Any]) -> tuple[Any, ...] | None:
            """The outputs, or None; once a call had other arrays, all are compared before the program runs."""
            nonlocal checked_before, checked_while_running
            if tuple(map(type, arrays)) != types or (checked_before and _differ_from(arrays, checked_before)):
                return None
            passed = (*arrays, *constant) if constant else arrays
            try:
                outputs, failures = compiled(tuple(map(passed.__getitem__, order)), prepared)
            except TypeError:
                checked_before, checked_while_running = all_kinds, []
                return None
            except (RuntimeError, ValueError):
                return looked_at(arrays)
            if checked_while_running and _differ_from(arrays, checked_while_running):  # while it runs
                return None
            if failures:
                raise_failures(failures, checks)
            return outputs if in_program_order else tuple(map(outputs.__getitem__, output_places))

        return run

    def executable(self, ready: PreparedCall) -> Executable:
        """The executable for the sizes, tables and arguments of a prepared call; kept for the next call of the same."""
        key = (id(ready.fencil), tuple(sorted(ready.holes.items())), frozenset(ready.arrays))
        executable = self.executables.get(key)
        if executable is None:
            facts = refuse_absent_outputs(ready.fencil, ready.holes, self.options.full)
            fencil = self.stages(ready.fencil, ready.holes).result
            if fencil is not ready.fencil:
                facts = refuse_absent_outputs(fencil, ready.holes, self.options.full)
            bound = self.program.constants or ready.bound.constants
            structure = jax.tree_util.tree_structure(ready.arrays)
            executable = Executable(fencil, bound, facts, self.options, structure, source=ready.fencil)
            self.executables.put(key, executable)
        return executable


def _on_host(executable: Executable, arrays: Mapping[str, Sequence[Any]]) -> bool:
    """True if all arrays passed are NumPy's; bound constants, which are on the device, do not count."""
    return all(isinstance(a, np.ndarray) for n, leaves in arrays.items() if n not in executable.bound for a in leaves)


def _differ_from(arrays: Sequence[Any], kinds: Iterable[tuple[int, Any, Any]]) -> bool:
    """True if an array has another shape or element type than its entry in `kinds`: (place, shape, type)."""
    return any(arrays[k].shape != shape or arrays[k].dtype != dtype for k, shape, dtype in kinds)


def _refuse_different_devices(arrays: Mapping[str, Any]) -> None:
    """Raise A40 for arrays on different devices."""
    placed = [(n, a.devices()) for n, a in arrays.items() if isinstance(a, jax.Array) and concrete(a)]
    for name, devices in placed[1:]:
        first, first_devices = placed[0]
        if devices != first_devices:
            shown = [", ".join(sorted(map(str, device_set))) for device_set in (first_devices, devices)]
            message = f"'{first}' is on {shown[0]}, and '{name}' on {shown[1]}."
            raise refuse("A40", message, f"put both in one place: jax.device_put({name}, {first}.sharding).")


def _refuse_shared(donated: Mapping[str, Any], not_donated: Mapping[str, Any]) -> None:
    """Raise A18 for an array that is given away and is another argument, too."""
    for name, leaves in donated.items():
        for other, other_leaves in {**not_donated, **donated}.items():
            if other != name and any(a is b for a in leaves for b in other_leaves):
                message = f"'{name}' is given away, and '{other}' is the same array."
                raise refuse("A18", message, f"pass a copy of it: {name}.copy().")
