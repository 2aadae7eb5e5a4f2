"""Compiled programs: plain JAX callables, cached per sizes and per what is known of their tables.

>>> import numpy as np
>>> from tensorir.ir.build import call, closure, fencil, var
>>> from tensorir.ir.types import tensor
>>> x, y = var("x", tensor("float", I=(0, 3))), var("y", tensor("float", I=(0, 3)))
>>> c = compile(fencil("double", [y, x], [closure(y, call("plus", x, x))]))
>>> c(x=np.array([1.0, 2.0, 3.0]))
{'y': array([2., 4., 6.])}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.export
import numpy as np

from lowering.calls.engine import Engine
from lowering.calls.estimate import Estimate, device_of, estimated, target_of
from lowering.calls.executable import Executable, Options, inputs, on_device
from lowering.calls.plan import CHOICES, interleaved, planned, switched_off, ways_of
from lowering.kernels import reports_of
from lowering.raising import NAMES, RULES, Raised, rows
from lowering.tracing import concrete
from tensorir.analysis.cost import Cost, count
from tensorir.binding.calls import prepare_call, refuse_absent_outputs, tables_of
from tensorir.binding.programs import BoundProgram
from tensorir.inspect import Inspection, inspect
from tensorir.ir.nodes import Fencil
from tensorir.passes.decisions import Plan
from tensorir.passes.pipeline import DEFAULT_PASSES, Pipeline, Stage, Stages
from tensorir.runtime.errors import did_you_mean, refuse


class _Callable:
    """Calls, apart from the module: equinox wraps the methods of modules, which would cost more than the call."""

    constants: dict[str, tuple[Any, ...]]
    engine: Engine
    told_by_identity: ClassVar[bool] = True
    """Nothing in it changes: whoever remembers what reads it need not look inside."""

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        # equinox looks every attribute of a module up in Python
        attribute = object.__getattribute__
        return attribute(self, "engine").call(attribute(self, "constants"), datasets, arguments)

    def direct(self, positions: Sequence[tuple[str, int]], results: Sequence[str], arrays: Sequence[Any]) -> Any:
        """The direct function for calls with jax arrays like these, on a sequence of them, or None.

        `positions` has the place of each parameter in the arrays, and `results` the names of what is wanted. The
        function skips the look at the arguments, which takes longer than small kernels; the first call must be plain.
        """
        return self.engine.direct(self.constants, positions, results, arrays)

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import page_of

        return page_of(self.engine.program)

    def inspect(self, /, **arguments: Any) -> Inspection:
        """Every named or let-bound intermediate of one run, as DataArrays on their own intervals."""
        engine = self.engine

        def run(observed: BoundProgram, values: Mapping[str, Any]) -> Any:
            key = id(observed.program)
            return engine.inspected.of(key, lambda: compile(observed))(**values)

        return inspect(engine.program, arguments, run)


class Compiled(_Callable, eqx.Module):
    """A program as a JAX callable: parameters by name in, written parameters by name out.

    Its array leaves are the bound constants, so it passes through `jit`, `vmap` and `grad` as any
    `equinox.Module` does. Calls from outside of JAX's transformations check their arguments, run on XLA with 64-bit
    types kept, and give back the kind of array that came in; inside of them it is a traced function.
    """

    constants: dict[str, tuple[Any, ...]]
    engine: Engine = eqx.field(static=True)

    def _ready(self, arguments: Mapping[str, Any]) -> tuple[Executable, dict[str, Any]]:
        bound = self.engine.program.at(arguments)
        fencil = bound.program
        assert isinstance(fencil, Fencil)
        names = {p.name for p in fencil.inputs} - set(bound.constants)
        shapes = inputs(fencil, names)
        full = self.engine.options.full | (set(tables_of(fencil)) - set(bound.holes))
        refuse_absent_outputs(fencil, bound.holes, frozenset(full))
        fencil = self.engine.stages(fencil).result
        facts = refuse_absent_outputs(fencil, bound.holes, frozenset(full))
        return Executable(fencil, bound.constants, facts, self.engine.options), shapes

    def lowered(self, **sizes: int) -> Any:
        """The `jax.stages.Lowered` program, bound arrays as constants; sizes by name where the program has any."""
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            options = executable.compiler_options
            return jax.jit(partial(self._closed, executable), compiler_options=options).lower(shapes)

    def _closed(self, executable: Executable, arrays: dict[str, Any]) -> Any:
        outputs, failures = executable.run({**executable.constants, **arrays}, executable.prepared)
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

        `ti.load` makes a function of named arrays of it. `arrays` is a dict of tuples of arrays by parameter, one per
        leaf, as is what it returns. A program with run-time checks returns a pair: outputs, and per check a pair of
        integers that starts with -1 where all is well. Serialising needs flatbuffers (`pip install tensorir[export]`);
        64-bit programs are called under `jax.enable_x64(True)`. Programs that print are refused: a print is a call of
        this process.
        """
        executable, shapes = self._ready(sizes)
        if executable.prints:
            message = f"'{self.engine.program.name}' prints, and an exported program cannot."
            raise refuse("A22", message, "return what it prints, as a further output.")
        with jax.enable_x64(True):
            return jax.export.export(jax.jit(partial(self._closed, executable)), platforms=platforms)(shapes)

    def examine(self, target: str, **sizes: int) -> Estimate:
        """The report of XLA's compiler for a device that need not be present: "tpu:v5e", "cuda:h100".

        Kernels, estimated cycles, bytes of temporaries, registers. Needs the compiler of that platform, and no driver:
        `pip install 'jax[tpu]'`, `pip install 'jax[cuda12]'`. Raises A37 for a target that is not known, A38 where the
        compiler is missing. An estimate, and no measurement.
        """
        options = replace(self.engine.options, target=target_of(target).platform)
        place = jax.sharding.SingleDeviceSharding(device_of(target))
        executable, shapes = Compiled(self.constants, Engine(self.engine.program, options))._ready(sizes)
        placed = jax.tree_util.tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes)
        with jax.enable_x64(True):
            return estimated(target, jax.jit(partial(self._closed, executable)), placed)

    def pipeline(self, **sizes: int) -> Stages[Fencil]:
        """The program before and after each pass of the compilation, with the reason; sizes where it has any.

        On GPUs the last stage, `kernels`, has the parts that run as a kernel each, and what is left to XLA.

        >>> import tensorir as ti
        >>> f = ti.parse("f(y: tensor<float>, a: tensor<float, K[0:99]>) { y ← reduce(+, 0.0, K)(a × a); }")
        >>> print(compile(f).pipeline()["contractions"])
        contractions: a sum of products is one operation of the backend
        f(y: tensor<float>, a: tensor<float, K[0:99]>) {
          y ← contract(float, K)(a, a);
        }
        """
        fencil = self.engine.program.at(sizes).program
        assert isinstance(fencil, Fencil)
        stages = self.engine.stages(fencil)
        if self.engine.options.platform != "gpu":
            return stages
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            jax.eval_shape(partial(self._closed, executable), shapes)
        if executable.parts is None:
            return stages
        parts = tuple(f"{t.kind}: {t.what}, {t.where}" for t in reports_of(executable.parts, executable.leaves))
        last = stages.result
        return replace(stages, stages=(*stages, Stage("kernels", CHOICES["kernels"].reason, last, last, parts=parts)))

    def plan(self, /, *, measure: bool = False, **arguments: Any) -> Plan:
        """The plan for arguments, or for sizes by name: a row for each choice, with its reason and its worth.

        Costs are predicted with and without each (`tensorir.analysis.cost`), and with `measure`, which needs
        the arguments of a call, measured: the program with all choices of one name switched off takes turns with
        itself.
        Choices of gradients alone are measured in the gradient of the sum of all results.

        >>> import tensorir as ti
        >>> f = ti.parse("f(y: tensor<float>, a: tensor<float, K[0:99]>) { y ← reduce(+, 0.0, K)(a × a); }")
        >>> plan = compile(f).plan()
        >>> [(d.name, d.what, d.where) for d in plan["contractions"]]
        [('contractions', 'contract(float, K)(a, a)', 'of y, line 1')]
        >>> print(plan.memory)
        792 bytes of inputs, 8 bytes of outputs, 0 bytes of temporaries predicted
        >>> compile(f, without="contractions").plan().taken("contractions")
        False
        """
        engine, program = self.engine, replace(self.engine.program, constants=self.constants)
        if measure or not set(arguments) <= set(engine.program.size_names):
            ready = prepare_call(program, arguments, concrete)
            executable, shapes, holes = engine.executable(ready), ready.arrays, ready.holes
            source = ready.fencil
        else:
            executable, shapes = self._ready(arguments)
            bound = engine.program.at(arguments)
            assert isinstance(bound.program, Fencil)
            source, holes = bound.program, bound.holes
        with jax.enable_x64(True):
            jax.eval_shape(partial(self._closed, executable), shapes)

        def run(options: Options) -> Stages[Fencil]:
            return Engine(engine.program, options).stages(source, holes)

        first = planned(executable, run(engine.options), run)
        if not measure:
            return first
        arrays = {n: on_device(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}

        def call(options: Options, fixed: Mapping[str, Any]) -> Callable[..., Any]:
            owner = Engine(engine.program, options)
            return lambda **varied: owner.call(self.constants, (), {**fixed, **varied})

        ways = ways_of(call, engine.options, first.comparisons, arrays)
        return planned(executable, run(engine.options), run, interleaved(ways))

    def raised(self, **sizes: int) -> tuple[Raised, ...]:
        """The rules of `lowering.raising` that were used: each with the expression that it was used for.

        >>> import tensorir as ti
        >>> f = ti.parse("f(y: tensor<float>, a: tensor<float, K[0:99]>) { y ← reduce(+, 0.0, K)(a × a); }")
        >>> compile(f).raised()
        (Raised(rule='contraction', expression='contract(float, K)(a, a)'),)
        >>> compile(f, raising=()).raised()
        ()
        """
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            jax.eval_shape(partial(self._closed, executable), shapes)
        return rows(executable.fired)

    def cost(self, **sizes: int) -> Cost:
        """Operations and bytes, exactly, from the types; and what XLA says of its optimised program."""
        with jax.enable_x64(True):
            said = self.lowered(**sizes).compile().cost_analysis() or {}
        return count(self.pipeline(**sizes).source).beside(
            {k: said[k] for k in ("flops", "bytes accessed") if k in said}
        )


def _known(option: Any, params: Sequence[str], owner: str) -> tuple[str, ...]:
    """The names of an option, one or several; raises A08 for one that is no parameter's."""
    names = (option,) if isinstance(option, str) else tuple(option)
    for name in names:
        if name not in params:
            raise refuse("A08", f"'{owner}' has no parameter '{name}'.", did_you_mean(name, params))
    return names


def compile(
    program: Any, *, full: Any = (), donate: Any = (), numerics: str = "fast", raising: Any = NAMES,
    passes: Any = DEFAULT_PASSES, without: Any = (),
) -> Compiled:  # fmt: skip
    """A fencil, a template of one, or a bound program, as a JAX callable.

    `passes` is what the program goes through before it is emitted: a pipeline, its text, or passes in a row; see
    `pipeline()` of what comes back. `numerics="exact"` keeps the order of every fold and
    rounds every + - × and / of floats where the program has it, as op-by-op execution does; "fast" leaves both to XLA,
    which joins roundings and reorders sums; "loose" is "fast", and `max` and `min` of many elements may drop a NaN,
    which XLA does on the CPU. `raising` has the names of the rules of
    `lowering.raising` that may be used, all of them where it is not given. `without` names passes, rules and choices of
    the lowering (`lowering.calls.plan`) that are switched off, one or several: `c.plan()` has a row for each.
    """
    if numerics not in ("fast", "loose", "exact"):
        raise refuse("A17", f"there is no numerics {numerics!r}.", "use 'fast', 'loose' or 'exact'.")
    names = [raising] if isinstance(raising, str) else list(raising)
    for name in names:
        if name not in NAMES:
            raise refuse("A21", f"there is no rule {name!r}.", did_you_mean(name, [rule.name for rule in RULES]))
    bound = BoundProgram.of(program)
    params = [p.name for p in bound.program.params]
    tables, donated = (_known(option, params, bound.name) for option in (full, donate))
    options = Options(frozenset(tables), donated, numerics, Pipeline(passes).passes, frozenset(names))
    options = switched_off(options, (without,) if isinstance(without, str) else without)
    return Compiled(on_device(dict(bound.constants)), Engine(bound, options))
