"""Compiled programs: plain JAX callables, cached per sizes and per what is known of their tables.

>>> import numpy as np
>>> from tensorir.build import call, closure, fencil, var
>>> from tensorir.types import tensor
>>> x, y = var("x", tensor("float", I=(0, 3))), var("y", tensor("float", I=(0, 3)))
>>> c = compile(fencil("double", [y, x], [closure(y, call("plus", x, x))]))
>>> c(x=np.array([1.0, 2.0, 3.0]))
{'y': array([2., 4., 6.])}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.export
import numpy as np

from lowering.context import Check
from lowering.lower import lower
from lowering.neighbours import Prepared, prepare
from lowering.tracing import concrete, inside_trace, x64
from tensorir.arrays import refuse
from tensorir.binding import BoundProgram, tables_of
from tensorir.calls import Call, arrange, refuse_absent_outputs
from tensorir.cost import Cost, count
from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.facts import Facts
from tensorir.ir import Fencil
from tensorir.types import DTYPES, TensorType
from tensorir.typing_rules import neighbour_source
from tensorir.walk import postorder, values

__all__ = ["Compiled", "Executable", "compile"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a program is compiled."""

    full: frozenset[str] = frozenset()
    donate: tuple[str, ...] = ()
    numerics: str = "fast"


@dataclass(eq=False)
class Executable:
    """One fencil with known tables, as a jitted function of its arrays."""

    bound: BoundProgram
    fencil: Fencil
    facts: Facts
    exact: bool
    checks: list[Check] = field(default_factory=list[Check])
    """The run-time checks, known once the function was traced."""
    spare: list[Any] = field(default_factory=list[Any])
    """Output buffers that nobody holds: the next call writes into them."""

    def __post_init__(self) -> None:
        self.wide = any(s.bits == 64 for t in _types(self.fencil) for s in t.leaves)
        tables = {n: source for n, (source, _) in tables_of(self.fencil).items() if n in self.bound.constants}
        self.prepared = {n: _prepared(self.fencil, n, s, self.bound.constants[n][0]) for n, s in tables.items()}
        self.plain = jax.jit(self.run)
        self.into = jax.jit(self.run_into, donate_argnums=0, keep_unused=True)

    def run(self, arrays: Any, prepared: dict[str, Prepared]) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """Outputs and the results of run-time checks; traced once."""
        lowered = lower(self.fencil, arrays, prepared, self.facts, self.exact)
        self.checks = lowered.checks
        return lowered.outputs, lowered.failures

    def run_into(self, spare: Any, arrays: Any, prepared: dict[str, Prepared]) -> Any:
        """The same; the buffers of `spare` are used up, and XLA puts the outputs there."""
        return self.run(arrays, prepared)

    def blank(self) -> dict[str, tuple[Any, ...]]:
        """Buffers for the outputs."""
        return {
            p.name: tuple(jax.numpy.zeros(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves) for p in self.fencil.outputs
        }

    def inputs(self, names: set[str]) -> dict[str, tuple[jax.ShapeDtypeStruct, ...]]:
        """The shapes and types of the arrays by parameter."""
        return {
            p.name: tuple(jax.ShapeDtypeStruct(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves)
            for p in self.fencil.params
            if p.name in names
        }


def _types(fencil: Fencil) -> list[TensorType]:
    nodes = postorder(*values(fencil.closures))
    return [p.type for p in fencil.params] + [n.type for n in nodes if isinstance(n.type, TensorType)]


class Plans:
    """What one compiled program has traced: executables by what they depend on. `clear()` empties it."""

    def __init__(self) -> None:
        self.executables: dict[Any, Executable] = {}
        self.quick: dict[Any, Executable] = {}
        self.seen: dict[int, Any] = {}

    def clear(self) -> None:
        self.executables.clear()
        self.quick.clear()


class Compiled(eqx.Module):
    """A program as a JAX callable: parameters by name in, written parameters by name out.

    Its array leaves are the bound constants, so it passes through `jit`, `vmap` and `grad` as any
    `equinox.Module` does. Calls from outside of JAX's transformations check their arguments, run on XLA with 64-bit
    types kept, and give back the kind of array that came in; inside of them it is a traced function.
    """

    constants: dict[str, tuple[Any, ...]]
    program: BoundProgram = eqx.field(static=True)
    options: Options = eqx.field(static=True)
    plans: Plans = eqx.field(static=True)

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        if datasets:
            return self._on_dataset(datasets, arguments)
        quick = self._quick(arguments)
        if quick is not None:
            return quick
        donated = {n: arguments[n] for n in self.options.donate if n in arguments}
        ready = arrange(self._with_constants(), {n: v for n, v in arguments.items() if n not in donated}, concrete)
        executable = self._executable(ready)
        arrays = dict(ready.arrays)
        outputs = self._run(executable, arrays, donated)
        self._remember(arguments, executable, ready)
        return ready.finish(outputs)

    # Running

    def _run(self, executable: Executable, arrays: dict[str, Any], donated: Mapping[str, Any]) -> Any:
        flat = jax.tree_util.tree_leaves(arrays)
        if inside_trace(flat):
            if executable.wide and not x64():
                raise refuse(
                    "A15",
                    f"'{self.program.name}' computes with 64-bit numbers, and this transformation does not keep them.",
                    "put it inside of `with jax.enable_x64(True):`, or cast the program to float32.",
                )
            outputs, failures = executable.plain(arrays, executable.prepared)
            return _checked(outputs, failures, executable.checks)
        with jax.enable_x64(True):
            if donated:
                spare = {
                    p.name: _as_tuple(donated[p.name]) if p.name in donated else executable.blank()[p.name]
                    for p in executable.fencil.outputs
                }
                outputs, failures = executable.into(spare, arrays, executable.prepared)
            elif any(not isinstance(a, np.ndarray) for a in flat) or jax.config.jax_disable_jit:
                outputs, failures = executable.plain(arrays, executable.prepared)
            else:
                return self._recycled(executable, arrays)
        _raise_failures(failures, executable.checks)
        return outputs

    def _recycled(self, executable: Executable, arrays: dict[str, Any]) -> Any:
        """NumPy callers get copies, so the buffers that XLA wrote are ours, and warm for the next call."""
        spare = executable.spare.pop() if executable.spare else executable.blank()
        outputs, failures = executable.into(spare, arrays, executable.prepared)
        _raise_failures(failures, executable.checks)
        copies = {n: tuple(np.array(a) for a in leaves) for n, leaves in outputs.items()}
        executable.spare.append(outputs)
        return copies

    def _on_dataset(self, datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """A Dataset in gives its variables as arguments by name, and a Dataset out."""
        import xarray as xr

        names = {p.name for p in self.program.program.params}
        for dataset in datasets:
            if not isinstance(dataset, xr.Dataset):
                raise refuse(
                    "A16", f"arguments are given by name, and a {type(dataset).__name__} has none.", "write f(inp=x)."
                )
            arguments = {**{str(n): v for n, v in dataset.data_vars.items() if n in names}, **arguments}
        return xr.Dataset(self(**arguments))

    # Caching

    def _quick(self, arguments: dict[str, Any]) -> Any:
        """A call with bare arrays that was seen before, straight to the executable."""
        key = tuple([(n, type(v), getattr(v, "shape", None), getattr(v, "dtype", None)) for n, v in arguments.items()])
        executable = self.plans.quick.get(key)
        if executable is None:
            return None
        arrays = {n: (v,) for n, v in arguments.items()}
        arrays.update(self.constants or executable.bound.constants)
        outputs = self._run(executable, arrays, {})
        return {n: leaves[0] for n, leaves in outputs.items()}

    def _remember(self, arguments: dict[str, Any], executable: Executable, ready: Call) -> None:
        fencil = executable.fencil
        simple = all(len(p.type.leaves) == 1 for p in fencil.params)
        bare = all(_is_bare(v) for v in arguments.values())
        tables = set(executable.facts.tables)
        written = {p.name for p in fencil.outputs}
        if simple and bare and not tables & set(arguments) and not written & set(arguments) and not self.options.donate:
            sizes = () if isinstance(self.program.program, Fencil) else self.program.program.sizes
            if not set(arguments) & set(sizes):
                key = tuple([(n, type(v), v.shape, v.dtype) for n, v in arguments.items()])
                self.plans.quick[key] = executable

    def _executable(self, ready: Call) -> Executable:
        key = (id(ready.fencil), tuple(sorted(ready.holes.items())), frozenset(ready.arrays))
        found = self.plans.executables.get(key)
        if found is None:
            facts = refuse_absent_outputs(ready.fencil, ready.holes, self.options.full)
            found = Executable(ready.bound, ready.fencil, facts, self.options.numerics == "exact")
            self.plans.executables[key] = found
        return found

    def _with_constants(self) -> BoundProgram:
        """The program with the constants that this module holds, which a transformation may have replaced."""
        return replace(self.program, constants=self.constants)

    # Looking inside

    def _ready(self, arguments: Mapping[str, Any]) -> tuple[Executable, dict[str, Any]]:
        bound = self.program.at(arguments)
        fencil = bound.program
        assert isinstance(fencil, Fencil)
        names = {p.name for p in fencil.inputs} - set(bound.constants)
        inputs = {p.name: p for p in fencil.params if p.name in names}
        shapes = {
            n: tuple(jax.ShapeDtypeStruct(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves) for n, p in inputs.items()
        }
        full = self.options.full | (set(tables_of(fencil)) - set(bound.holes))
        facts = refuse_absent_outputs(fencil, bound.holes, frozenset(full))
        return Executable(bound, fencil, facts, self.options.numerics == "exact"), shapes

    def lowered(self, **sizes: int) -> Any:
        """The `jax.stages.Lowered` program, bound arrays as constants; sizes by name where the program has any."""
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            return jax.jit(partial(self._closed, executable)).lower(shapes)

    def _closed(self, executable: Executable, arrays: dict[str, Any]) -> Any:
        outputs, failures = executable.run({**executable.bound.constants, **arrays}, executable.prepared)
        return (outputs, failures) if failures else outputs

    def stablehlo(self, **sizes: int) -> str:
        """The program as StableHLO text."""
        return self.lowered(**sizes).as_text()

    def hlo(self, **sizes: int) -> str:
        """The program as XLA's optimised HLO text for this machine."""
        with jax.enable_x64(True):
            return self.lowered(**sizes).compile().as_text()

    def jaxpr(self, **sizes: int) -> str:
        """The program as a jaxpr."""
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            return str(jax.make_jaxpr(partial(self._closed, executable))(shapes))

    def export(self, *, platforms: tuple[str, ...] = ("cpu", "cuda", "tpu"), **sizes: int) -> jax.export.Exported:
        """A `jax.export` artefact: `.serialize()` it, and a process that has only jax runs it with `.call(arrays)`.

        `arrays` is a dict of tuples of arrays by parameter, one per leaf, as is what it returns. A program with
        run-time checks returns a pair: outputs, and per check a pair of integers that starts with -1 where all is
        well. Serialising needs flatbuffers (`pip install tensorir[export]`); 64-bit programs are called under
        `jax.enable_x64(True)`.
        """
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            return jax.export.export(jax.jit(partial(self._closed, executable)), platforms=platforms)(shapes)

    def cost(self, **sizes: int) -> Cost:
        """Operations and bytes, exactly, from the types; and what XLA says of its optimised program."""
        executable, _ = self._ready(sizes)
        with jax.enable_x64(True):
            said = self.lowered(**sizes).compile().cost_analysis() or {}
        return count(executable.fencil).beside({k: v for k, v in said.items() if k in ("flops", "bytes accessed")})


def compile(program: Any, *, full: Any = (), donate: Any = (), numerics: str = "fast") -> Compiled:
    """A fencil, a template of one, or a bound program, as a JAX callable."""
    if numerics not in ("fast", "exact"):
        raise refuse("A17", f"there is no numerics {numerics!r}.", "use 'fast' or 'exact'.")
    bound = BoundProgram.of(program)
    options = Options(frozenset(full), tuple(donate), numerics)
    return Compiled({n: tuple(leaves) for n, leaves in bound.constants.items()}, bound, options, Plans())


def _prepared(fencil: Fencil, name: str, source: str, table: np.ndarray) -> Prepared:
    kind = fencil[name].type
    tag, _ = neighbour_source(kind)
    axis = kind.dims.names.index(tag)
    interval = next(
        (a.type.dims[source] for n in postorder(*values(fencil.closures)) for a in getattr(n, "args", ())[1:2]
         if getattr(n, "op", "") in ("shift_init", "unstructured_shift") and source in a.type.dims), None,
    )  # fmt: skip
    assert interval is not None
    return prepare(np.moveaxis(table, axis, -1), interval.start, len(interval))


def _is_bare(value: Any) -> bool:
    return isinstance(value, (np.ndarray, jax.Array))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(jax.tree_util.tree_leaves(value))


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
