"""From the tensor IR to `jax.lax` and StableHLO: the only package that imports JAX.

`backend` is what the entry point `jax` of the group `tensorir.backends` gives.
"""

from __future__ import annotations

from typing import Any

from lowering import compiled, engine, field, iterate
from lowering.compiled import Compiled

__all__ = ["Compiled", "backend"]


class Backend:
    """XLA, on whatever device JAX has."""

    name = "jax"

    def compile(self, program: Any, **options: Any) -> Compiled:
        return compiled.compile(program, **options)

    def field_type(self) -> type[field.Field]:
        return field.Field

    def on_device(self, array: Any) -> Any:
        """An array of the device with the elements of an array."""
        return engine.on_device(array)

    def iterate(self, *args: Any, **options: Any) -> Any:
        return iterate.iterate(*args, **options)

    def fields(self) -> Any:
        """The module that makes fields."""
        return field


backend = Backend()
