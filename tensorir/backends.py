"""What executes: backends are found through the entry-point group `tensorir.backends` (design 1).

A backend is an object with `compile(program, **options)`, which gives a callable with the parameters as keywords.
"""

from __future__ import annotations

import weakref
from importlib import metadata
from typing import Any

from tensorir.arrays import refuse
from tensorir.errors import did_you_mean

__all__ = ["COMPILED", "backend", "compile", "compiled", "field_type"]

def backend(name: str = "jax") -> Any:
    """The backend of a name; raises A14 for one that is not installed."""
    points = {p.name: p for p in metadata.entry_points(group="tensorir.backends")}
    if name not in points:
        raise refuse("A14", f"there is no backend '{name}'.", did_you_mean(name, points) or "install tensorir: pip install .")
    return points[name].load()


def compile(program: Any, /, *, backend: str = "jax", **options: Any) -> Any:
    """A program as a callable of its backend.

    With the backend "jax" it is an `equinox.Module` and a plain JAX callable: `c(inp=x)["out"]` under `jit`, `grad`,
    `vmap` and the rest, `c.stablehlo()`, `c.export()`, `c.cost()`. Options of "jax": `full`, names of traced tables
    that hold no -1; `donate`, names of outputs whose buffers are passed and may be used up; `numerics`, "fast" or
    "exact" (folds keep their order).
    """
    return _backend(backend).compile(program, **options)


_backend = backend


class Kept:
    """What was compiled, by identity of the program; it is dropped with the program."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, program: Any) -> Any:
        entry = self._known.get(id(program))
        return entry[1] if entry is not None and entry[0]() is program else None

    def put(self, program: Any, value: Any) -> None:
        key = id(program)
        self._known[key] = weakref.ref(program, lambda _: self._known.pop(key, None)), value

    def clear(self) -> None:
        self._known.clear()


COMPILED = Kept()
"""What `f(...)` compiled; `len(COMPILED)` counts it and `COMPILED.clear()` empties it."""


def compiled(program: Any) -> Any:
    """A program on the default backend, compiled once for as long as it lives."""
    found = COMPILED.get(program)
    if found is None:
        found = compile(program)
        COMPILED.put(program, found)
    return found


def field_type() -> Any:
    """The class `ti.Field`, which the jax backend provides."""
    return backend("jax").field_type()
