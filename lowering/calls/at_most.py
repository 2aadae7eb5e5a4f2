"""Programs that are compiled once for all sizes up to a bound: arrays are padded, run, and cut again.

>>> import numpy as np
>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float>, x: tensor<float, I[0:n]>) { y ← reduce(+, 0.0, I)(x × x); }")
>>> c = compile_at_most(f, {"n": 8}, {})
>>> [float(c(x=np.arange(n, dtype=float))["y"]) for n in (3, 4, 8)]
[5.0, 14.0, 140.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.export
import numpy as np
from jax import lax

from lowering.calls.compiled import Compiled, compile
from lowering.calls.executable import Executable, on_device
from lowering.tracing import concrete, inside_trace, refuse_narrow
from tensorir.binding.arrays import nested
from tensorir.binding.calls import PreparedCall, prepare_call, tables_of, with_variables
from tensorir.binding.programs import BoundProgram
from tensorir.distribution.padded_program import PaddedProgram, padded_program
from tensorir.integers.dims import Dims, size_of
from tensorir.ir.nodes import Fencil, Var
from tensorir.ir.types import DTYPES
from tensorir.passes.decisions import Plan
from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.runtime.memory import SIZES, RecentCache, WeakCache
from tensorir.text.sizes import Template

Leaves = tuple[Any, ...]


class CompiledAtMost:
    """A template as a function of arrays of any size up to a bound, called as a compiled program is.

    What arrays hold beyond their ends, and what is computed of it, has no part in results, nor in gradients.
    """

    told_by_identity: ClassVar[bool] = True
    """Nothing in it changes: whoever remembers what reads it need not look inside."""

    def __init__(self, program: BoundProgram, most: Mapping[str, int], options: Mapping[str, Any]) -> None:
        self.bound, self.most, self.options = program, dict(most), dict(options)
        self.made: RecentCache[tuple[int, ...], tuple[PaddedProgram, Compiled]] = RecentCache("padded programs", SIZES)
        self.checked: WeakCache[bool] = WeakCache("sizes of padded programs")

    def __call__(self, /, *datasets: Any, **arguments: Any) -> Any:
        """The outputs for arrays of any size up to the bound, cut to these sizes; raises B12 beyond it."""
        if datasets:
            return self._on_dataset(datasets, arguments)
        ready = prepare_call(self.bound, arguments, concrete)
        sizes = ready.bound.sizes
        for name, bound in self.most.items():
            if sizes[name] > bound:
                message = (
                    f"the size '{name}' is {sizes[name]}, and '{self.bound.name}' was compiled for at most {bound}."
                )
                raise refuse("B12", message, f'compile it for more: at_most={{"{name}": {sizes[name]}}}.')
        padded, compiled = self._at(sizes)
        self.checked.of(ready.fencil, lambda f: padded.ends.check(f, {n: sizes[n] for n in self.most}) is None)
        return ready.finish(self._run(padded, compiled, ready, sizes))

    def _on_dataset(self, datasets: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """The outputs as a Dataset, for variables of Datasets as arguments by name."""
        import xarray as xr

        return xr.Dataset(self(**with_variables(self.bound.program, datasets, arguments, "c")))

    def _at(self, sizes: Mapping[str, int]) -> tuple[PaddedProgram, Compiled]:
        """The padded program and its compilation for the sizes that have no bound; cached by these."""
        template = self.bound.program
        assert isinstance(template, Template)
        unbounded_sizes = {n: sizes[n] for n in template.sizes if n not in self.most}

        def make() -> tuple[PaddedProgram, Compiled]:
            padded = padded_program(template, self.most, unbounded_sizes)
            return padded, compile(padded.program, **self.options)

        return self.made.of(tuple(unbounded_sizes.values()), make)

    def _run(
        self, padded: PaddedProgram, compiled: Compiled, ready: PreparedCall, sizes: Mapping[str, int]
    ) -> dict[str, Leaves]:
        """Pad the arrays of a call, run the compiled program, and cut its results to the actual sizes.

        On the host padding and cutting compile nothing; within a trace they are operations of JAX.
        """
        tables = tables_of(padded.program)
        arguments: dict[str, Any] = {parameter: np.int32(sizes[n]) for n, parameter in padded.sizes.items()}
        arrays = [a for field in padded.fields.values() for a in ready.arrays[field.name]]
        if (traced := inside_trace(arrays)) and any(np.result_type(a).itemsize == 8 for a in arrays):
            refuse_narrow(self.bound.name)
        for parameter, field in padded.fields.items():
            actual_dims, padded_dims = ready.fencil[field.name].type.dims, padded.program[parameter].type.dims
            # a row of a table is read by nobody, and must lead somewhere
            filling = tables[parameter][1].start if parameter in tables else 0
            pad = _padded if traced else _padded_on_host
            leaves = [pad(a, _padding(actual_dims, padded_dims), filling) for a in ready.arrays[field.name]]
            arguments[parameter] = nested(field.type.element, leaves)
        outputs = compiled(**arguments)
        as_jax = any(isinstance(a, jax.Array) for a in arrays)
        results: dict[str, Leaves] = {}
        for p in ready.fencil.results:
            padded_dims = padded.program[p.name].type.dims
            leaves = jax.tree_util.tree_leaves(outputs[p.name])
            sides = _padding(p.type.dims, padded_dims)
            results[p.name] = tuple(
                _unpadded(a, sides) if traced else _unpadded_on_host(a, sides, as_jax) for a in leaves
            )
        return results

    def __repr__(self) -> str:
        return f"<{self.bound.name} compiled for {', '.join(f'{n} ≤ {most}' for n, most in self.most.items())}>"

    # What was compiled

    def program(self, **sizes: int) -> Fencil:
        """The program that runs, with its sizes as numbers; the sizes that have no bound by name."""
        return self._of(sizes)[0].program

    def compiled(self, **sizes: int) -> Compiled:
        """The compiled program of padded arrays and sizes, with all that `ti.compile` says of one."""
        return self._of(sizes)[1]

    def _of(self, sizes: Mapping[str, int]) -> tuple[PaddedProgram, Compiled]:
        """The padded program and its compilation for sizes by name; raises B01 for a size without bound that is
        missing.
        """
        for name in self.bound.program.sizes if isinstance(self.bound.program, Template) else ():
            if name not in self.most and name not in sizes and name not in self.bound.sizes:
                message = f"the size '{name}' is not bound."
                raise refuse("B01", message, f'give it by name: {name}=10, or a bound: at_most={{"{name}": 10}}.')
        return self._at({**self.bound.sizes, **sizes})

    def plan(self, **sizes: int) -> Plan:
        """The plan of the padded program; the sizes that have no bound by name."""
        return self.compiled(**sizes).plan()

    def stablehlo(self, **sizes: int) -> str:
        """The padded program as StableHLO text."""
        return self.compiled(**sizes).stablehlo()

    def hlo(self, **sizes: int) -> str:
        """The padded program as XLA's optimised HLO text for this machine."""
        return self.compiled(**sizes).hlo()

    def export(self, *, platforms: tuple[str, ...] = ("cpu", "cuda", "tpu"), **sizes: int) -> jax.export.Exported:
        """A `jax.export` artefact for arrays of any size up to the bound, whose extents are the names of the sizes.

        Otherwise as `Compiled.export`. Raises B01 for a size that no argument's shape determines.
        """
        padded, compiled = self._of(sizes)
        executable, _ = compiled._ready({})
        if executable.prints:
            message = f"'{self.bound.name}' prints, and an exported program cannot."
            raise refuse("A22", message, "return what it prints, as a further output.")
        inputs = padded.ends.fencil.inputs
        ends = {p.name: [padded.ends.along(p, d) for d in p.type.dims] for p in inputs}
        determined_sizes = {n for pairs in ends.values() for pair in pairs for end in pair for n in end.coefficients}
        for name in self.most:
            if name not in determined_sizes:
                message = f"no argument has an interval that tells the size '{name}' of an exported program."
                raise refuse("B01", message, f"leave it as it is: bind({name}=10).")
        limits = [limit for n, bound in self.most.items() for limit in (f"{n} <= {bound}", f"{n} >= 0")]
        for p in (*inputs, *padded.ends.fencil.results):
            for start, stop in (padded.ends.along(p, d) for d in p.type.dims):
                extent = stop.minus(start)
                sizes_of_extent = [f"{factor}*{name}" for name, factor in extent.coefficients.items()]
                limits += [f"{' + '.join([*sizes_of_extent, str(extent.constant)])} >= 0"] * bool(sizes_of_extent)
        symbolic_sizes: Any = dict(
            zip(self.most, jax.export.symbolic_shape(", ".join(self.most), constraints=limits), strict=True)
        )
        extents = {
            n: tuple(stop.at(symbolic_sizes) - start.at(symbolic_sizes) for start, stop in pairs)
            for n, pairs in ends.items()
        }
        shapes = {
            p.name: tuple(jax.ShapeDtypeStruct(extents[p.name], DTYPES[s]) for s in p.type.leaves) for p in inputs
        }

        def run(arrays: dict[str, Leaves]) -> Any:
            return _run_at_symbolic_sizes(padded, executable, arrays, symbolic_sizes)

        with jax.enable_x64(True):
            return jax.export.export(jax.jit(run), platforms=platforms)(shapes)


def compile_at_most(program: Any, most: Mapping[str, Any], options: Mapping[str, Any]) -> CompiledAtMost:
    """A template, or a bound one, for all sizes up to `most`, by name; raises B05 for names that are no sizes of it,
    B13 for `donate`.

    `options`: those of `compile`.
    """
    if not hasattr(most, "items"):
        raise refuse("B11", f"at_most is {most!r}, and gives sizes by name.", 'write at_most={"n": 10}.')
    bound = BoundProgram.of(program)
    for name in most:
        if name not in bound.size_names:
            raise refuse("B05", f"'{bound.name}' has no size '{name}'.", did_you_mean(name, bound.size_names))
    bounds = {n: size_of(m, n) for n, m in most.items()}
    for name, largest in bounds.items():
        if largest < 0:
            raise refuse("B11", f"the size '{name}' is {largest}, and sizes are not negative.", f"write {name}=10.")
    if options.get("donate"):
        message = "arrays are padded, and what is padded is a copy: there is nothing to give away."
        raise refuse("B13", message, "leave out donate, or at_most.")
    return CompiledAtMost(bound, bounds, options)


Padding = Sequence[tuple[Any, Any]]
"""How many points of padding an array has before and after its own, axis by axis."""


def _padding(actual_dims: Dims, padded_dims: Dims) -> Padding:
    return [(i.start - padded_dims[d].start, padded_dims[d].stop - i.stop) for d, i in actual_dims.items]


def _padded_on_host(array: Any, sides: Padding, filling: int) -> Any:
    """A NumPy copy of the array with padding of `filling`; the array itself if there is none."""
    host = np.asarray(array)
    if not any(map(any, sides)):
        return array
    padded = np.full([n + low + high for n, (low, high) in zip(host.shape, sides, strict=True)], filling, host.dtype)
    padded[_slices(sides, padded.shape)] = host
    return padded


def _unpadded_on_host(array: Any, sides: Padding, as_jax: bool) -> Any:
    """The points of a result without padding, as a contiguous copy; `as_jax`: as an array of JAX."""
    host = np.asarray(array)
    points = np.ascontiguousarray(host[_slices(sides, host.shape)]) if any(map(any, sides)) else host
    return on_device(points) if as_jax else points


def _slices(sides: Padding, shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(low, n - high) for n, (low, high) in zip(shape, sides, strict=True))


def _padded(array: Any, sides: Padding, filling: int) -> Any:
    array = jax.numpy.asarray(array)
    return lax.pad(array, lax.full((), filling, array.dtype), [(low, high, 0) for low, high in sides])


def _unpadded(array: Any, sides: Padding) -> Any:
    ends = [n - high for n, (_, high) in zip(array.shape, sides, strict=True)]
    return lax.slice(array, [low for low, _ in sides], ends)


# Exported programs


def _run_at_symbolic_sizes(
    padded: PaddedProgram, executable: Executable, arrays: Mapping[str, Leaves], sizes: Any
) -> Any:
    """The outputs of the padded program for arrays with symbolic extents `sizes`, cut to these extents.

    A pair of outputs and failures if there are run-time checks.
    """

    def sides(field: Var, padded_dims: Dims) -> Padding:
        """The padding of a field with symbolic extents on the dims of the padded parameter."""
        ends = [(d, *padded.ends.along(field, d)) for d in field.type.dims]
        return [
            (start.at(sizes) - padded_dims[d].start, padded_dims[d].stop - stop.at(sizes)) for d, start, stop in ends
        ]

    tables = tables_of(padded.program)
    operands: dict[str, Leaves] = {}
    for parameter, field in padded.fields.items():
        filling = tables[parameter][1].start if parameter in tables else 0
        padding = sides(field, padded.program[parameter].type.dims)
        operands[parameter] = tuple(_padded(a, padding, filling) for a in arrays[field.name])
    operands.update({parameter: (jax.numpy.asarray(sizes[n], "int32"),) for n, parameter in padded.sizes.items()})
    outputs, failures = executable.run({**executable.constants, **operands}, executable.prepared)
    results = {p.name: p for p in padded.ends.fencil.results}
    unpadded = {
        name: tuple(_unpadded(a, sides(results[name], padded.program[name].type.dims)) for a in leaves)
        for name, leaves in outputs.items()
    }
    return (unpadded, failures) if failures else unpadded
