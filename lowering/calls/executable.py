"""Executables: a fencil at its sizes as jitted functions, its results, and compilations that are kept."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import islice
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from lowering.context import Check, Chosen
from lowering.gradients.stencil_transpose import gathering
from lowering.kernels import Parts, bound, is_available, parted
from lowering.lower import Lowered, lower
from lowering.raising import NAMES
from lowering.rules.neighbours import Prepared, prepare
from lowering.tracing import inside_trace, op_by_op
from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.annotations import Annotations, annotated
from tensorir.binding.calls import tables_of
from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import DTYPES, TensorType
from tensorir.ir.typing_of_elements import neighbour_source
from tensorir.passes.base import Pass
from tensorir.passes.pipeline import DEFAULT_PASSES
from tensorir.runtime.memory import KEPT_MEMORY

# What programs ask XLA's compiler for, and the compilations of several programs that can tell it.
#
# XLA takes options for what is compiled whole. A program that is called by itself is; one that runs inside of a
# `jax.jit` only asks, while it is traced, and whoever compiles may listen.

BARRIERS_STAY = {"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}
"""The one takes the barriers away that keep what is stored from being computed again, and what gradients compute again
from being stored; the other makes of short loops code that may hold no barrier."""

ASKED: ContextVar[dict[str, str] | None] = ContextVar("options that traced programs ask for", default=None)
"""Those of the trace that is listened to."""


def ask(options: Mapping[str, str]) -> None:
    """Ask for options, where somebody listens."""
    heard = ASKED.get()
    if heard is not None:
        heard.update(options)


@contextmanager
def asked() -> Iterator[dict[str, str]]:
    """The requests made in here; listeners outside hear them too."""
    heard: dict[str, str] = {}
    token = ASKED.set(heard)
    try:
        yield heard
    finally:
        ASKED.reset(token)
        ask(heard)


def remembering(traced: Callable[..., Any]) -> Callable[..., Any]:
    """A function that JAX traces once: it asks each time for what its first trace asked for."""
    remembered: dict[str, str] = {}

    def run(*arguments: Any) -> Any:
        with asked() as heard:
            ask(remembered)
            outputs = traced(*arguments)
        remembered.update(heard)
        return outputs

    return run


def compiler_options(function: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """XLA options that the programs of a function ask for: `jax.jit(function, compiler_options=...)` grants them.

    The function is traced, and nothing is computed; its arguments are arrays, or what stands for them. On CPUs programs
    that store a temporary ask that it stays stored, which they tell XLA when they are called by themselves, as
    `ti.iterate`, `ti.distribute` and recorded steps do; inside of somebody's `jit` they cannot.

    >>> compiler_options(lambda x: x + 1, 1.0)
    {}
    """
    with jax.enable_x64(True), asked() as heard:
        # a function of its own: JAX remembers what it traced, and nobody would ask again
        jax.eval_shape(lambda *a: function(*a), *arguments)
    return heard


def jitted(function: Callable[..., Any], *examples: Any, **options: Any) -> Any:
    """A function compiled whole, with what its programs ask for; it is traced on the examples first."""
    with asked() as heard:
        if not op_by_op():
            jax.eval_shape(function, *examples)
    return jax.jit(function, compiler_options=heard or None, **options)


# Results for callers with NumPy arrays: the memory that XLA wrote, as arrays that can be changed.

COPIED = 1 << 14
"""Bytes. A copy of less costs no more than handing on the memory."""


def on_host(array: jax.Array) -> np.ndarray:
    """A new result, which nobody else holds, as a NumPy array that its holder may change.

    NumPy shows arrays of JAX as read-only, since others may hold them. This one is handed on with its memory, which is
    aligned as XLA wants it, so that a call that is given the result does not copy it.

    >>> result = on_host(jax.numpy.ones(1 << 16))
    >>> result[0] = 2.0
    >>> float(result.sum()), result.ctypes.data % 64
    (65537.0, 0)
    """
    seen = np.asarray(array)
    if seen.nbytes < COPIED or seen.dtype.isbuiltin != 1:
        return seen.copy()
    memory: Any = (ctypes.c_char * seen.nbytes).from_address(seen.ctypes.data)
    memory.array = array  # it lives as long as what looks into it
    return np.frombuffer(memory, seen.dtype).reshape(seen.shape)


# What a call runs: a fencil at its sizes, with what is known of its tables, as jitted functions of arrays.


WORTH_A_GRID = 1 << 14
"""Bytes of the largest array from which on stencils are kernels on CPUs: below, to compile one takes longer."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of compiling a program."""

    full: frozenset[str] = frozenset()
    donate: tuple[str, ...] = ()
    numerics: str = "fast"
    passes: tuple[Pass, ...] = DEFAULT_PASSES
    """What every program goes through before it is emitted."""
    raising: frozenset[str] = NAMES
    """The rules of the table of raised forms that may be used."""
    without: frozenset[str] = frozenset()
    """The choices of `lowering.calls.plan` that are switched off."""
    target: str = ""
    """The platform of JAX that is compiled for, where it is not the one of this process."""

    @property
    def platform(self) -> str:
        """The platform of JAX that is compiled for: "cpu", "gpu" or "tpu"."""
        return self.target or jax.default_backend()


class Unlike(Exception):
    """Arrays that are not those that a program was compiled for: the call needs the look at its arguments."""


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
    read: Mapping[str, Dims] | None = None
    """The points of the results that are read, where that is less than all: gradients leave alone what the others are
    computed of."""
    ordered: bool = True
    """Whether what is printed comes in the order of the program, which XLA has on one device only."""
    checks: list[Check] = field(default_factory=list[Check])
    """The run-time checks, known once the function was traced."""
    fired: list[tuple[str, Call]] = field(default_factory=list[tuple[str, Call]])
    """The rules of the table that were used, known then too."""
    chosen: list[Chosen] = field(default_factory=list[Chosen])
    """What was chosen at which nodes, known then too."""
    parts: Parts | None = None
    """The regions of the program, where it is parted into kernels, known then too."""
    spare: list[Any] = field(default_factory=list[Any])
    """Output buffers that nobody holds: the next call whose results are copied writes into them."""

    def __post_init__(self) -> None:
        nodes = list(postorder(*values(self.fencil.closures)))
        self.prints = any(isinstance(e, Call) and e.op == "print" for e in nodes)
        self._unordered: Executable | None = None
        self.reads = frozenset(p.name for p in self.fencil.inputs)
        self.members = [(p.name, len(p.type.leaves)) for p in self.fencil.results]
        """The results, and how many arrays each is: asked for in every call."""
        self.empty = any(not p.type.dims.size for p in self.fencil.results)
        types = [p.type for p in self.fencil.params] + [n.type for n in nodes if isinstance(n.type, TensorType)]
        leaves = [(t.dims.size, s) for t in types for s in t.leaves]
        self.wide = any(s.bits == 64 for _, s in leaves)
        self.largest = max((size * DTYPES[s].itemsize for size, s in leaves), default=0)
        """Bytes of the largest array."""
        self.prepared = self._tables(inverted=False)
        """Tables as calls of their own read them: nobody differentiates those."""
        self.constants = on_device(dict(self.bound))
        self.materialises = any(isinstance(e, Call) and e.op == "materialise" for e in nodes)

    @cached_property
    def differentiable(self) -> dict[str, Prepared]:
        """Tables with the inverse ones, for a trace that may differentiate."""
        return self._tables(inverted="inverse_tables" not in self.options.without)

    def _tables(self, inverted: bool) -> dict[str, Prepared]:
        inside = {n: interval for n, (_, interval) in tables_of(self.fencil).items() if n in self.bound}
        axes = {n: t.dims.names.index(neighbour_source(t)[0]) for n in inside if (t := self.fencil[n].type)}
        tables = {n: np.moveaxis(self.bound[n][0], axis, -1) for n, axis in axes.items()}
        return on_device({n: prepare(table, inside[n], inverted) for n, table in tables.items()})

    @property
    def leaves(self) -> list[str]:
        """Of each array that is a result, or a part of one, the result's name."""
        return [name for name, count in self.members for _ in range(count)]

    @cached_property
    def known(self) -> Annotations:
        """Annotations of the nodes of the program."""
        return annotated(self.fencil, self.facts, self.read)

    def inside(self, arrays: Any, prepared: dict[str, Prepared]) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """The function for somebody's trace: XLA's options can only be asked for there."""
        ask(self.compiler_options or {})
        return self._inside(arrays, prepared)

    @cached_property
    def _inside(self) -> Callable[..., Any]:
        self._expect_memory()
        return jax.jit(_of(self, Executable.run))

    @cached_property
    def plain(self) -> jax.stages.Wrapped:
        """The function on arrays of the device."""
        self._expect_memory()
        return jax.jit(_of(self, Executable.run_flat), compiler_options=self.compiler_options)

    @cached_property
    def into(self) -> Callable[..., Any]:
        """The function that writes into donated buffers."""
        self._expect_memory()
        run = _of(self, Executable.run_into)
        return jax.jit(run, donate_argnums=0, keep_unused=True, compiler_options=self.compiler_options)

    def _expect_memory(self) -> None:
        """Before it runs: where the CPU's memory for its arrays comes from."""
        if self.options.platform == "cpu":
            KEPT_MEMORY.expect(self.largest)

    @property
    def compiler_options(self) -> dict[str, str] | None:
        """XLA's options for this program, which only hold where it is compiled by itself."""
        if self.options.platform != "cpu":
            return None
        options: dict[str, str] = {}
        sums = self.sums_as_loops and "sums_as_loops" not in self.options.without and not self.in_kernels
        if self.materialises or self.fencil.buffers or sums:
            options.update(BARRIERS_STAY)
        if sums:
            # sums of stencil expressions: 2.6 times as fast without this fusion
            options["xla_cpu_experimental_ynn_fusion_type"] = ""
        return options or None

    @cached_property
    def sums_as_loops(self) -> bool:
        """True if shifted values are folded over a dim that is no neighbours'; plain rows are faster fused."""
        return bool(self.known.stencil_reductions)

    @property
    def in_kernels(self) -> bool:
        """True if the program is parted into kernels: on CPUs, one with scans, or with stencils of large arrays.

        Those of GPUs and of scans contract products and sums; in stencils on CPUs each operation is rounded.
        """
        options, choice = self.options, {"gpu": "kernels", "cpu": "native_kernels"}.get(self.options.platform)
        if choice is None or choice in options.without:
            return False
        if choice == "native_kernels" and self.is_grid:
            return self.largest >= WORTH_A_GRID and is_available()
        return options.numerics != "exact" and (choice == "kernels" or ("scan" in self.operations and is_available()))

    @cached_property
    def operations(self) -> frozenset[str]:
        """The builtins that the program calls."""
        return frozenset(e.op for e in postorder(*values(self.fencil.closures)) if isinstance(e, Call))

    @cached_property
    def is_stencil(self) -> bool:
        """True if the program reads at offsets, and has neither folds nor tables nor checks."""
        return _is_stencil(self.fencil)

    @cached_property
    def is_grid(self) -> bool:
        """True if the program reads at offsets or through neighbour tables, and besides it folds at most."""
        return _is_stencil(self.fencil, frozenset(["reduce"]), frozenset(["unstructured_shift", "shift_init"]))

    def run(self, arrays: Any, prepared: dict[str, Prepared]) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """Outputs and the results of run-time checks; traced once."""
        if not self.in_kernels or op_by_op():
            return self._program(arrays, prepared)
        native = self.options.platform == "cpu"
        flat, structure = jax.tree_util.tree_flatten((arrays, prepared))

        def function(*flat: Any) -> list[Any]:
            arrays, tables = jax.tree_util.tree_unflatten(structure, flat)
            outputs, failures = self._program(arrays, tables, native)
            return [*(leaf for p in self.fencil.results for leaf in outputs[p.name]), *failures]

        closed = jax.make_jaxpr(function)(*flat)
        self.parts = None if closed.effects else parted(closed, native)
        if native and not self._pays(self.parts):
            self.parts = None
            if "scan" in self.operations or not self.is_stencil:
                return self._program(arrays, prepared)
        results = bound(closed, flat, native)
        count = sum(n for _, n in self.members)
        return self.named(results[:count]), results[count:]

    def _pays(self, parts: Parts | None) -> bool:
        """Kernels on CPUs are faster than XLA: there are any, and no scan is left that would run in blocks."""
        if parts is None or not parts.any_kernels:
            return False
        return "blocked" not in self.operations or all(e.primitive.name != "scan" for e in parts.left)

    def _program(
        self, arrays: Any, prepared: dict[str, Prepared], whole: bool = False
    ) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """Outputs and the results of checks; `whole` runs scans on all columns at once, and sums as they are."""
        if not self.is_stencil or "gathered_cotangents" in self.options.without or op_by_op():
            lowered = self._lowered(arrays, prepared, whole)
            return lowered.outputs, lowered.failures
        flat, structure = jax.tree_util.tree_flatten(arrays)

        def function(*flat: Any) -> list[Any]:
            outputs = self._lowered(jax.tree_util.tree_unflatten(structure, flat), prepared).outputs
            return [leaf for p in self.fencil.results for leaf in outputs[p.name]]

        # JAX keeps the function for as long as what it traced, so it gets one that does not keep the executable
        return self.named(gathering(jaxpr_as_fun(jax.make_jaxpr(function)(*flat)))(*flat)), []

    def _lowered(self, arrays: Any, prepared: dict[str, Prepared], whole: bool = False) -> Lowered:
        """The result of one trace of the program."""
        without = self.options.without | ({"blocks", "sums_as_loops", "reads_per_loop"} if whole else set())
        lowered = lower(
            self.fencil, arrays, prepared, self.known, self.options.numerics, self.options.raising, self.ordered,
            self.options.platform, without,
        )  # fmt: skip
        self.checks, self.fired, self.chosen = lowered.checks, lowered.fired, lowered.chosen
        return lowered

    def run_flat(self, flat: Sequence[Any], prepared: dict[str, Prepared]) -> tuple[tuple[Any, ...], list[Any]]:
        """The same of the leaves of the arrays, and giving leaves: trees cost a call more.

        Raises `Unlike` for arrays of other shapes or element types: calls that repeat one leave the look to JAX.
        """
        arrays = jax.tree_util.tree_unflatten(self.structure, flat)
        self._refuse_unlike(arrays)
        outputs, failures = self.run(arrays, prepared)
        return tuple([leaf for p in self.fencil.results for leaf in outputs[p.name]]), failures

    def _refuse_unlike(self, arrays: Mapping[str, Sequence[Any]]) -> None:
        for name, shapes in inputs(self.fencil, set(arrays) - set(self.facts.tables)).items():
            if any(a.shape != s.shape or a.dtype != s.dtype for a, s in zip(arrays[name], shapes, strict=True)):
                raise Unlike

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
                self.fencil, self.bound, self.facts, self.options, self.structure, self.read, False
            )
        return self._unordered

    def run_into(self, spare: Any, arrays: Any, prepared: dict[str, Prepared]) -> Any:
        """The same; the buffers of `spare`, which may be read too, are used up, and XLA puts the outputs there."""
        self._refuse_unlike({**arrays, **spare})
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
    """True if a program of these arrays is sure to run on one device; of a trace nobody knows where there are more."""
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


def _is_stencil(fencil: Fencil, functions: frozenset[str] = frozenset(), tables: frozenset[str] = frozenset()) -> bool:
    """True if a program reads at offsets, and has no checks, tables or functions but those of some builtins."""
    calls = [n for n in postorder(*values(fencil.closures)) if isinstance(n, Call)]
    rows = [TABLE[n.op] for n in calls]
    return any(n.op == "cartesian_shift" or n.op in tables for n in calls) and not any(
        row.effect
        or row.checks
        or (row.indirect and n.op not in tables)
        or (n.op not in functions and any(not isinstance(a.type, TensorType) for a in n.args))
        for n, row in zip(calls, rows, strict=True)
    )


def on_device(arrays: Any) -> Any:
    """Constants as concrete arrays of the device, so that no call copies them; also within somebody's trace."""
    # `jax.numpy.asarray` compiles a program per shape, and `device_put` may share memory with what it is given
    put = lambda a: jax.device_put(np.array(a)) if isinstance(a, np.ndarray) else jax.numpy.asarray(a)
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return jax.tree_util.tree_map(put, arrays)
