"""From the tensor IR to `jax.lax` and StableHLO: the only package that imports JAX.

`backend` is what the entry point `jax` of the group `tensorir.backends` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lowering import field
from lowering.calls import compiled, executable, exported
from lowering.calls.at_most import compile_at_most
from lowering.calls.compiled import Compiled
from lowering.calls.executable import compiler_options
from lowering.calls.exported import keep_compilations, kept_in
from lowering.distribution import distributed
from lowering.loops import iterate, transformations
from lowering.loops.transformations import one_program, part

__all__ = ["Compiled", "backend"]


ALIGNMENT = 64
"""To how many bytes XLA wants memory aligned that it did not allocate."""


class Backend:
    """XLA, on whatever device JAX has."""

    name = "jax"

    def compile(self, program: Any, *, at_most: Any = None, **options: Any) -> Any:
        """A compiled program; `at_most`: bounds of sizes, for one compilation for all smaller ones."""
        if at_most is None or at_most == {}:
            return compiled.compile(program, **options)
        return compile_at_most(program, at_most, options)

    def field_type(self) -> type[field.Field]:
        return field.Field

    def on_device(self, array: Any) -> Any:
        """An array of the device with the elements of an array."""
        return executable.on_device(array)

    def wide(self) -> AbstractContextManager[Any]:
        """A context in which 64-bit element types are kept."""
        return jax.enable_x64(True)

    def view(self, array: Any) -> Any:
        """The memory of a NumPy array as a JAX array, without a copy if it is aligned and on the CPU; else a copy.

        Changes of the memory change the JAX array: it is for one call. Other arrays, of a GPU's memory, are taken by
        DLPack.
        """
        if not isinstance(array, np.ndarray):  # of a GPU's memory
            with jax.enable_x64(True):
                return jax.dlpack.from_dlpack(array)
        flags = array.flags
        aligned = array.ctypes.data % ALIGNMENT == 0 and flags.c_contiguous and flags.writeable
        with jax.enable_x64(True):
            if not aligned or not array.size or jax.default_backend() != "cpu" or array.dtype == bool:
                return _committed(array)
            return jax.dlpack.from_dlpack(array, copy=False)

    def blank(self, shape: tuple[int, ...], dtype: Any, beside: Any = None) -> Any:
        """An array of zeros on the device of `beside`, or on the first one, for results that a call overwrites."""
        device = next(iter(beside.devices())) if beside is not None else None
        with jax.enable_x64(True):
            return _committed(np.zeros(shape, dtype), device)

    def compiler_options(self, function: Callable[..., Any], *arguments: Any) -> dict[str, str]:
        """XLA options that the programs of a function ask for."""
        return compiler_options(function, *arguments)

    def keep_compilations(self, folder: Any) -> Path | None:
        """Keep what is compiled in a folder for later processes; returns the folder of before."""
        return keep_compilations(folder)

    def kept_in(self) -> Path | None:
        """That folder."""
        return kept_in()

    def one_program(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of trees of arrays, compiled whole."""
        return one_program(function)

    def part(self, function: Callable[..., Any], *, checkpoint: bool) -> Callable[..., Any]:
        """A function of pytrees that XLA does not fuse with its surroundings; `checkpoint`: gradients compute it
        again.
        """
        return part(function, checkpoint)

    def iterate(self, *args: Any, **options: Any) -> Any:
        return iterate.iterate(*args, **options)

    def loop_plan(self, step: Any, state: Any, *record: Any) -> Any:
        return iterate.loop_plan(step, state, *record)

    def distribute(self, program: Any, mesh: Any, dims: Any, **options: Any) -> Any:
        return distributed.distribute(program, mesh, dims, **options)

    def fields(self) -> Any:
        """The module that makes fields."""
        return field

    def transformations(self) -> Any:
        """The module of JAX's transformations of functions of labelled arrays."""
        return transformations

    def exported(self) -> Any:
        """The module that reads exported programs."""
        return exported


def _committed(array: Any, device: Any = None) -> Any:
    """A copy committed to a device, as views are: if only some arrays of a call may move, XLA compiles once more."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.array(array), device or jax.local_devices()[0])


backend = Backend()
