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
        """The outputs of one call; arguments by name, or datasets whose variables are arguments."""
        # equinox looks every attribute of a module up in Python
        attribute = object.__getattribute__
        return attribute(self, "engine").call(attribute(self, "constants"), datasets, arguments)

    def direct(self, positions: Sequence[tuple[str, int]], results: Sequence[str], arrays: Sequence[Any]) -> Any:
        """A function that calls the compiled program directly, for jax arrays like the given ones, in a sequence;
        None if there is none.

        `positions`: the place of each parameter in the arrays. `results`: the names of the outputs, in the order in
        which they are returned. The function skips the check of arguments, which takes longer than small kernels; the
        first call must be a plain one.
        """
        return self.engine.direct(self.constants, positions, results, arrays)

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import page_of

        return page_of(self.engine.program)

    def inspect(self, /, **arguments: Any) -> Inspection:
        """Every named or let-bound intermediate of one run with the arguments, as DataArrays on their own intervals."""
        engine = self.engine

        def run(observed: BoundProgram, values: Mapping[str, Any]) -> Any:
            """The outputs of the observed program."""
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
        """The executable of a program at its sizes, and the shapes of the arrays that it takes; `arguments` are
        sizes by name.

        Raises for outputs that could be absent (`refuse_absent_outputs`), before and after the passes.
        """
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
        """The `jax.stages.Lowered` program, with bound arrays as constants; sizes by name where the program has any."""
        executable, shapes = self._ready(sizes)
        with jax.enable_x64(True):
            options = executable.compiler_options
            return jax.jit(partial(self._closed, executable), compiler_options=options).lower(shapes)

    def _closed(self, executable: Executable, arrays: dict[str, Any]) -> Any:
        """The outputs for arrays by name, bound constants included; a pair of outputs and failures if there are
        run-time checks.
        """
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
        leaf, and so are the outputs. A program with run-time checks returns a pair: outputs, and per check a pair of
        integers that starts with -1 if it passed. Serialising needs flatbuffers (`pip install tensorir[export]`);
        64-bit programs are called under `jax.enable_x64(True)`. Programs that print are refused (A22), since a print is
        a callback into this process.
        """
        executable, shapes = self._ready(sizes)
        if executable.prints:
            message = f"'{self.engine.program.name}' prints, and an exported program cannot."
            raise refuse("A22", message, "return what it prints, as a further output.")
        with jax.enable_x64(True):
            return jax.export.export(jax.jit(partial(self._closed, executable)), platforms=platforms)(shapes)

    def examine(self, target: str, **sizes: int) -> Estimate:
        """The estimate of XLA's compiler for a device that need not be present: "tpu:v5e", "cuda:h100".

        Kernels, estimated cycles, bytes of temporaries, registers; no measurement. Needs the compiler of that platform,
        and no driver: `pip install 'jax[tpu]'`, `pip install 'jax[cuda12]'`. Raises A37 for an unknown target, A38 if
        the compiler is missing.
        """
        options = replace(self.engine.options, target=target_of(target).platform)
        place = jax.sharding.SingleDeviceSharding(device_of(target))
        executable, shapes = Compiled(self.constants, Engine(self.engine.program, options))._ready(sizes)
        placed = jax.tree_util.tree_map(lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place), shapes)
        with jax.enable_x64(True):
            return estimated(target, jax.jit(partial(self._closed, executable)), placed)

    def pipeline(self, **sizes: int) -> Stages[Fencil]:
        """The program before and after each pass of the compilation, with the reason of each; sizes by name if it
        has any.

        On GPUs the last stage, `kernels`, has the regions that are one kernel each, and those left to XLA.

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
        final = stages.result
        return replace(stages, stages=(*stages, Stage("kernels", CHOICES["kernels"].reason, final, final, parts=parts)))

    def plan(self, /, *, measure: bool = False, **arguments: Any) -> Plan:
        """The plan for arguments, or for sizes by name: a row for each choice, with its reason and its worth.

        Costs are predicted with and without each choice (`tensorir.analysis.cost`). With `measure`, which needs the
        arguments of a call, they are measured: the program with all choices of one name switched off takes turns with
        the program itself. Choices that change gradients alone are measured in the gradient of the sum of all results.

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
            """The stages of the passes under other options."""
            return Engine(engine.program, options).stages(source, holes)

        prediction = planned(executable, run(engine.options), run)
        if not measure:
            return prediction
        arrays = {n: on_device(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}

        def call(options: Options, fixed: Mapping[str, Any]) -> Callable[..., Any]:
            """The program under other options, as a function of the arguments that are not fixed."""
            owner = Engine(engine.program, options)
            return lambda **varied: owner.call(self.constants, (), {**fixed, **varied})

        ways = ways_of(call, engine.options, prediction.comparisons, arrays)
        return planned(executable, run(engine.options), run, interleaved(ways))

    def raised(self, **sizes: int) -> tuple[Raised, ...]:
        """The rules of `lowering.raising` that were used, each with the expression that it replaced.

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
        """Operations and bytes, exactly, from the types, beside the figures that XLA's cost analysis gives for its
        optimised program.
        """
        with jax.enable_x64(True):
            xla_cost = self.lowered(**sizes).compile().cost_analysis() or {}
        return count(self.pipeline(**sizes).source).beside(
            {k: xla_cost[k] for k in ("flops", "bytes accessed") if k in xla_cost}
        )


def names_of(option: Any) -> list[Any]:
    """The names that an option gives, one or several; raises A17 for what gives none."""
    if isinstance(option, str):
        return [option]
    try:
        return list(option)
    except TypeError:
        message = f"an option is {option!r}, and it takes names."
        raise refuse("A17", message, "give one as a text, or several.") from None


def _parameter_names(option: Any, params: Sequence[str], owner: str) -> tuple[str, ...]:
    """The parameter names of an option, given as one name or several; raises A08 for a name that is no parameter.

    `owner`: the program, for the message.
    """
    names = tuple(names_of(option))
    for name in names:
        if name not in params:
            raise refuse("A08", f"'{owner}' has no parameter '{name}'.", did_you_mean(name, params))
    return names


def compile(
    program: Any, *, full: Any = (), donate: Any = (), numerics: str = "fast", raising: Any = NAMES,
    passes: Any = DEFAULT_PASSES, without: Any = (),
) -> Compiled:  # fmt: skip
    """A fencil, a template of one, or a bound program, as a JAX callable.

    `passes`: the passes before emission: a pipeline, its text, or passes in a row; `pipeline()` of the result shows
    them. `numerics`: "exact" keeps the order of every fold and rounds every + - × and / of floats where the program has
    it, as op-by-op execution does; "fast" leaves both to XLA, which joins roundings and reorders sums; "loose" is
    "fast", and `max` and `min` of many elements may drop a NaN, which XLA does on the CPU. `raising`: the names of the
    rules of `lowering.raising` that may be used, by default all. `without`: names of passes, rules and choices of the
    lowering (`lowering.calls.plan`) that are switched off, one or several; `c.plan()` has a row for each. `full`:
    tables without -1. `donate`: parameters whose arrays the call may overwrite.
    """
    if numerics not in ("fast", "loose", "exact"):
        raise refuse("A17", f"there is no numerics {numerics!r}.", "use 'fast', 'loose' or 'exact'.")
    names = names_of(raising)
    for name in names:
        if name not in NAMES:
            raise refuse("A21", f"there is no rule {name!r}.", did_you_mean(name, [rule.name for rule in RULES]))
    bound = BoundProgram.of(program)
    params = [p.name for p in bound.program.params]
    tables, donated = (_parameter_names(option, params, bound.name) for option in (full, donate))
    options = Options(frozenset(tables), donated, numerics, Pipeline(passes).passes, frozenset(names))
    options = switched_off(options, names_of(without))
    return Compiled(on_device(dict(bound.constants)), Engine(bound, options))
