"""A typed, functional tensor IR with named dimensions and integer intervals, run by XLA.

`import tensorir as ti` is all that a user needs. It imports no JAX: what executes is found when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from tensorir.backends import compile
from tensorir.build import fencil
from tensorir.builtins import TABLE
from tensorir.caches import CACHES as caches
from tensorir.errors import Diagnostic, DiagnosticError
from tensorir.ir import Fencil
from tensorir.text import parse
from tensorir.types import SCALARS, Dimension, Interval, TensorType, dims, tensor
from tensorir.when_imported import when_imported

__all__ = [
    "Diagnostic",
    "DiagnosticError",
    "Dimension",
    "Fencil",
    "Interval",
    "TensorType",
    "caches",
    "compile",
    "dims",
    "fencil",
    "iterate",
    "parse",
    "tensor",
]

_MODULES = {"build", "inspect", "iterator", "lift", "passes", "reference", "tile", "tir"}
_PASSES = {"Pipeline": "pipeline", "explain": "explain", "restrict": "restrict"}
"""What is found in a file of `tensorir.passes`."""
_FIELD_VIEW = {
    "FieldOffset", "as_offset", "astype", "broadcast", "concat_where", "field_operator", "max_over", "min_over",
    "neighbor_sum", "program", "scan_operator", "where",
}  # fmt: skip
_MATHEMATICS = {
    *(row.name for row in TABLE.values() if row.elementwise and not row.glyphs),
    "minimum", "maximum", "fmod", "power", "can_deref",
} - {"if", "cast", "bitcast", "min", "max", "rem"}  # fmt: skip
_BOUNDARIES = {"dirichlet", "extend", "linear", "neumann", "periodic", "with_boundary"}
_FIELDS = {"Field", "as_field", "from_xarray", "full", "ones", "zeros"}
"""What needs the array library of the backend, and loads on first use."""


def __getattr__(name: str) -> Any:
    if name in SCALARS:
        return SCALARS[name]
    if name in _MODULES:
        return importlib.import_module(f"tensorir.{name}")
    if name == "equivalent":
        from tensorir.lift.equality import equivalent

        return equivalent
    if name in _PASSES:
        return getattr(importlib.import_module(f"tensorir.passes.{_PASSES[name]}"), name)
    if name in _FIELD_VIEW or name in _MATHEMATICS:
        from tensorir import fieldview

        return fieldview.MATHEMATICS[name] if name in _MATHEMATICS else getattr(fieldview, name)
    if name in _BOUNDARIES:
        from tensorir import boundary

        return getattr(boundary, name)
    if name in _FIELDS:
        from tensorir.backends import backend

        return getattr(backend("jax").fields(), name)
    raise AttributeError(f"module 'tensorir' has no attribute {name!r}")


def iterate(*args: Any, **options: Any) -> Any:
    """Many steps of a function inside XLA; see `lowering.iterate.iterate`."""
    from tensorir.backends import backend

    return backend("jax").iterate(*args, **options)


def __dir__() -> list[str]:
    return sorted(
        {*__all__, "equivalent", *_MODULES, *_PASSES, *_FIELD_VIEW, *_MATHEMATICS, *_BOUNDARIES, *_FIELDS, *SCALARS}
    )


# the accessor da.tensorir, which needs xarray
when_imported("xarray", lambda: importlib.import_module("tensorir.xarray"))
