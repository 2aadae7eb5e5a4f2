"""Programs as they are parted for GPUs, with their kernels in Pallas' interpreter."""

from dataclasses import replace

import jax
import numpy as np

import tensorir as ti
from lowering.calls.compiled import Compiled
from lowering.calls.engine import Engine
from lowering.kernels import interpreted, parted
from lowering.kernels.primitive import kernels
from tensorir.binding.calls import prepare_call


def for_gpus(program, target="gpu", **options):
    """A program compiled as where there is a GPU, or another platform."""
    c = ti.compile(program, **options)
    engine = Engine(c.engine.program, replace(c.engine.options, target=target))
    return Compiled(c.constants, engine)


def traced(program, arguments, **options):
    """The program for GPUs as a function of its arrays, and these."""
    c = for_gpus(program, **options)
    ready = prepare_call(c.engine.program, arguments, lambda x: True)
    executable = c.engine.executable(ready)

    def run(arrays):
        """As what runs in somebody's trace, with tables that can be differentiated."""
        outputs, failures = executable.run({**executable.constants, **arrays}, executable.differentiable)
        return (outputs, failures) if failures else outputs

    return run, ready.arrays, executable


def called(program, arguments, **options):
    """The results by name, as NumPy arrays, kernels interpreted; checks are dropped."""
    function, arrays, executable = traced(program, arguments, **options)
    with jax.enable_x64(True):
        found = jax.jit(interpreted(function))(arrays)
    found = found[0] if isinstance(found, tuple) else found
    return {p.name: tuple(map(np.asarray, found[p.name])) for p in executable.fencil.results}


def regions(function, *arguments):
    """The parts of each program of kernels of a function, in their order."""
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(function)(*arguments)
    return list(_regions(closed.jaxpr))


def _regions(jaxpr):
    for e in jaxpr.eqns:
        if e.primitive is kernels:
            with jax.enable_x64(True):
                yield parted(e.params["body"], e.params["native"])
        elif e.primitive.name in ("jit", "pjit"):
            yield from _regions(e.params["jaxpr"].jaxpr)
