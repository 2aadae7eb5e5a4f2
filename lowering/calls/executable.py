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
    """Ask for XLA options, if an enclosing `asked()` collects them."""
    heard = ASKED.get()
    if heard is not None:
        heard.update(options)


@contextmanager
def asked() -> Iterator[dict[str, str]]:
    """Collects the XLA options that programs traced within the context ask for; enclosing contexts get them, too."""
    options: dict[str, str] = {}
    token = ASKED.set(options)
    try:
        yield options
    finally:
        ASKED.reset(token)
        ask(options)


def remembering(traced: Callable[..., Any]) -> Callable[..., Any]:
    """A function that JAX traces once; every call asks again for the XLA options that its first trace asked for."""
    remembered: dict[str, str] = {}

    def run(*arguments: Any) -> Any:
        """The outputs of the function."""
        with asked() as options:
            ask(remembered)
            outputs = traced(*arguments)
        remembered.update(options)
        return outputs

    return run


def compiler_options(function: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """The XLA options that the programs in a function ask for, as for `jax.jit(function, compiler_options=...)`.

    The function is traced, and nothing is computed; its arguments are arrays or shapes. On CPUs programs that store a
    temporary ask that it stays stored; they set that themselves when they are compiled by themselves, as in
    `ti.iterate`, `ti.distribute` and recorded steps, but cannot within a caller's `jit`.

    >>> compiler_options(lambda x: x + 1, 1.0)
    {}
    """
    with jax.enable_x64(True), asked() as options:
        # a function of its own: JAX remembers what it traced, and nobody would ask again
        jax.eval_shape(lambda *a: function(*a), *arguments)
    return options


def jitted(function: Callable[..., Any], *examples: Any, **options: Any) -> Any:
    """`jax.jit` of a function with the XLA options that its programs ask for, found by tracing it on `examples`."""
    with asked() as requested:
        if not op_by_op():
            jax.eval_shape(function, *examples)
    return jax.jit(function, compiler_options=requested or None, **options)


# Results for callers with NumPy arrays: the memory that XLA wrote, as arrays that can be changed.

COPIED = 1 << 14
"""Bytes. A copy of less costs no more than handing on the memory."""


def on_host(array: jax.Array) -> np.ndarray:
    """A new result, which nobody else holds, as a writable NumPy array, without a copy if it is large.

    NumPy shows arrays of JAX as read-only, since others may hold them. This one shares its memory, which is aligned as
    XLA wants it, so that a call that is given the result does not copy it.

    >>> result = on_host(jax.numpy.ones(1 << 16))
    >>> result[0] = 2.0
    >>> float(result.sum()), result.ctypes.data % 64
    (65537.0, 0)
    """
    view = np.asarray(array)
    if view.nbytes < COPIED or view.dtype.isbuiltin != 1:
        return view.copy()
    memory: Any = (ctypes.c_char * view.nbytes).from_address(view.ctypes.data)
    memory.array = array  # it lives as long as what looks into it
    return np.frombuffer(memory, view.dtype).reshape(view.shape)


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
    source: Fencil | None = None
    """The fencil before the passes; kept, so that no other one gets its identity, which is in keys."""
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
        """Derive the facts of the program that calls ask for, and put bound constants and tables on the device."""
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
        """The prepared bound tables; `inverted`: with the readers that reverse mode needs."""
        source_intervals = {n: interval for n, (_, interval) in tables_of(self.fencil).items() if n in self.bound}
        axes = {n: t.dims.names.index(neighbour_source(t)[0]) for n in source_intervals if (t := self.fencil[n].type)}
        tables = {n: np.moveaxis(self.bound[n][0], axis, -1) for n, axis in axes.items()}
        return on_device({n: prepare(table, source_intervals[n], inverted) for n, table in tables.items()})

    @property
    def leaves(self) -> list[str]:
        """Of each array that is a result, or a part of one, the result's name."""
        return [name for name, count in self.members for _ in range(count)]

    @cached_property
    def known(self) -> Annotations:
        """Annotations of the nodes of the program."""
        return annotated(self.fencil, self.facts, self.read)

    def inside(self, arrays: Any, prepared: dict[str, Prepared]) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """The outputs and failures within a caller's trace, where XLA options can only be asked for."""
        ask(self.compiler_options or {})
        return self._inside(arrays, prepared)

    @cached_property
    def _inside(self) -> Callable[..., Any]:
        self._expect_memory()
        return jax.jit(_method_of(self, Executable.run))

    @cached_property
    def plain(self) -> jax.stages.Wrapped:
        """The function on arrays of the device."""
        self._expect_memory()
        return jax.jit(_method_of(self, Executable.run_flat), compiler_options=self.compiler_options)

    @cached_property
    def into(self) -> Callable[..., Any]:
        """The jitted function that writes its outputs into donated buffers."""
        self._expect_memory()
        run = _method_of(self, Executable.run_into)
        return jax.jit(run, donate_argnums=0, keep_unused=True, compiler_options=self.compiler_options)

    def _expect_memory(self) -> None:
        """Announce the largest array to the CPU's memory pool, before the program runs."""
        if self.options.platform == "cpu":
            KEPT_MEMORY.expect(self.largest)

    @property
    def compiler_options(self) -> dict[str, str] | None:
        """XLA options for this program when it is compiled by itself; None if it needs none."""
        if self.options.platform != "cpu":
            return None
        options: dict[str, str] = {}
        sums_are_loops = self.sums_as_loops and "sums_as_loops" not in self.options.without and not self.in_kernels
        if self.materialises or self.fencil.buffers or sums_are_loops:
            options.update(BARRIERS_STAY)
        if sums_are_loops:
            # sums of stencil expressions: 2.6 times as fast without this fusion
            options["xla_cpu_experimental_ynn_fusion_type"] = ""
        return options or None

    @cached_property
    def sums_as_loops(self) -> bool:
        """True if shifted values are folded over a dim that is no neighbours'; plain rows are faster fused."""
        return bool(self.known.stencil_reductions)

    @property
    def in_kernels(self) -> bool:
        """True if the program is parted into kernels: on CPUs if it has scans, or stencils of large arrays.

        Kernels of GPUs and of scans contract products and sums, so not with `numerics="exact"`; stencils on CPUs round
        each operation.
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
        """The outputs and the failures of checks, for arrays by name; within kernels if the program is parted and
        that pays.
        """
        if not self.in_kernels or op_by_op():
            return self._program(arrays, prepared)
        for_cpu = self.options.platform == "cpu"
        flat, structure = jax.tree_util.tree_flatten((arrays, prepared))

        def function(*flat: Any) -> list[Any]:
            """The leaves of outputs and failures, of those of arrays and tables."""
            arrays, tables = jax.tree_util.tree_unflatten(structure, flat)
            outputs, failures = self._program(arrays, tables, for_cpu)
            return [*(leaf for p in self.fencil.results for leaf in outputs[p.name]), *failures]

        closed = jax.make_jaxpr(function)(*flat)
        self.parts = None if closed.effects else parted(closed, for_cpu)
        if for_cpu and not self._pays(self.parts):
            self.parts = None
            if "scan" in self.operations or not self.is_stencil:
                return self._program(arrays, prepared)
        results = bound(closed, flat, for_cpu)
        count = sum(n for _, n in self.members)
        return self.named(results[:count]), results[count:]

    def _pays(self, parts: Parts | None) -> bool:
        """True if kernels on CPUs are faster than XLA: there are any, and no scan that would run in blocks is left
        to XLA.
        """
        if parts is None or not parts.any_kernels:
            return False
        return "blocked" not in self.operations or all(e.primitive.name != "scan" for e in parts.left)

    def _program(
        self, arrays: Any, prepared: dict[str, Prepared], for_kernels: bool = False
    ) -> tuple[dict[str, tuple[Any, ...]], list[Any]]:
        """The outputs and failures of the program as XLA runs it, with the gathering transpose if it is a stencil.

        `for_kernels`: for kernels, without the lowering's own blocks, parts of sums and repeated reads.
        """
        if not self.is_stencil or "gathered_cotangents" in self.options.without or op_by_op():
            lowered = self._lowered(arrays, prepared, for_kernels)
            return lowered.outputs, lowered.failures
        flat, structure = jax.tree_util.tree_flatten(arrays)

        def function(*flat: Any) -> list[Any]:
            """The leaves of the outputs, of those of the arrays."""
            outputs = self._lowered(jax.tree_util.tree_unflatten(structure, flat), prepared).outputs
            return [leaf for p in self.fencil.results for leaf in outputs[p.name]]

        # JAX keeps the function for as long as what it traced, so it gets one that does not keep the executable
        return self.named(gathering(jaxpr_as_fun(jax.make_jaxpr(function)(*flat)))(*flat)), []

    def _lowered(self, arrays: Any, prepared: dict[str, Prepared], for_kernels: bool = False) -> Lowered:
        """Lower the program once, and note its checks, rules and choices."""
        without = self.options.without | ({"blocks", "sums_as_loops", "reads_per_loop"} if for_kernels else set())
        lowered = lower(
            self.fencil, arrays, prepared, self.known, self.options.numerics, self.options.raising, self.ordered,
            self.options.platform, without,
        )  # fmt: skip
        self.checks, self.fired, self.chosen = lowered.checks, lowered.fired, lowered.chosen
        return lowered

    def run_flat(self, flat: Sequence[Any], prepared: dict[str, Prepared]) -> tuple[tuple[Any, ...], list[Any]]:
        """As `run`, from leaves to leaves: pytrees cost a call more.

        Raises `Unlike` for arrays of other shapes or element types: a repeated call leaves that look to JAX.
        """
        arrays = jax.tree_util.tree_unflatten(self.structure, flat)
        self._refuse_unlike(arrays)
        outputs, failures = self.run(arrays, prepared)
        return tuple([leaf for p in self.fencil.results for leaf in outputs[p.name]]), failures

    def _refuse_unlike(self, arrays: Mapping[str, Sequence[Any]]) -> None:
        """Raise `Unlike` for arrays of other shapes or types than the program's parameters."""
        for name, shapes in inputs(self.fencil, set(arrays) - set(self.facts.tables)).items():
            if any(a.shape != s.shape or a.dtype != s.dtype for a, s in zip(arrays[name], shapes, strict=True)):
                raise Unlike

    def named(self, flat: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
        """Results by name."""
        leaves = iter(flat)
        return {name: tuple(islice(leaves, count)) for name, count in self.members}

    def among(self, arrays: Sequence[Any]) -> Executable:
        """The executable for the devices of these arrays: itself, or one whose prints are unordered if there are
        several devices.
        """
        if not self.prints or on_one_device(arrays):
            return self
        if self._unordered is None:
            self._unordered = Executable(
                self.fencil, self.bound, self.facts, self.options, self.structure, self.read, False
            )
        return self._unordered

    def run_into(self, spare: Any, arrays: Any, prepared: dict[str, Prepared]) -> Any:
        """As `run`; the buffers `spare`, which may be inputs too, are donated, and XLA writes the outputs into them."""
        self._refuse_unlike({**arrays, **spare})
        read = {name: spare[name] for name in self.reads if name not in arrays}
        return self.run({**arrays, **read}, prepared)

    def blank(self) -> dict[str, tuple[Any, ...]]:
        """Buffers of zeros for the outputs; `jax.numpy.zeros` would compile a program per shape, which JAX keeps for
        good.
        """
        return {
            p.name: tuple(jax.device_put(np.zeros(p.type.dims.shape, DTYPES[s])) for s in p.type.leaves)
            for p in self.fencil.results
        }


def _method_of(executable: Executable, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a function with a weak reference to its executable, so that JAX's caches do not keep that alive."""
    reference = weakref.ref(executable)

    @wraps(method)
    def run(*arrays: Any) -> Any:
        """The method's result."""
        owner = reference()
        assert owner is not None  # whoever calls holds it
        return method(owner, *arrays)

    return run


def on_one_device(arrays: Sequence[Any]) -> bool:
    """True if a program of these arrays certainly runs on one device; False within a trace if there are several."""
    if jax.device_count() == 1:
        return True
    return not inside_trace(list(arrays)) and all(len(a.devices()) == 1 for a in arrays if isinstance(a, jax.Array))


def inputs(fencil: Fencil, names: set[str]) -> dict[str, tuple[jax.ShapeDtypeStruct, ...]]:
    """The shapes and types of the arrays of the parameters `names`."""
    return {
        p.name: tuple(jax.ShapeDtypeStruct(p.type.dims.shape, DTYPES[s]) for s in p.type.leaves)
        for p in fencil.params
        if p.name in names
    }


def _is_stencil(fencil: Fencil, functions: frozenset[str] = frozenset(), tables: frozenset[str] = frozenset()) -> bool:
    """True if a program reads at offsets, or through the builtins `tables`, and has no checks or effects.

    Of builtins that take functions only `functions` are allowed, and of indirect ones only `tables`.
    """
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
    """A pytree of NumPy arrays as concrete arrays of the device, also within a trace; copies, so that no call copies
    them again.
    """
    # `jax.numpy.asarray` compiles a program per shape, and `device_put` may share memory with what it is given
    put = lambda a: jax.device_put(np.array(a)) if isinstance(a, np.ndarray) else jax.numpy.asarray(a)
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        return jax.tree_util.tree_map(put, arrays)
