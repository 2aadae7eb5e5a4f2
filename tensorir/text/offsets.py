"""What an offset provider gives: names of dims and tables for a program's abstract offsets, and concrete tables.

A concrete table that a program uses and has no parameter for becomes one, bound to the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tensorir.ir.dimensions import Dimension
from tensorir.ir.types import Scalar, scalar_of
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span
from tensorir.text.affine import Affine
from tensorir.text.spelling import OFFSET
from tensorir.text.syntax import Param, Program, Range, Shift, TensorType, walk

__all__ = ["provide"]


def provide(program: Program, provider: Mapping[str, Any]) -> tuple[Program, dict[str, Any]]:
    """The program with the entries of a provider that it uses, and the concrete tables to bind, by parameter."""
    used = {
        offset.name.removesuffix(OFFSET)
        for closure in program.closures
        for node in walk(*closure.expressions)
        if isinstance(node, Shift)
        for offset in node.offsets
    }
    offsets = dict(program.offsets)
    tables: dict[str, Any] = {}
    params = list(program.params)
    for name, value in provider.items():
        name = str(name).removesuffix(OFFSET)
        if name not in used:
            continue
        if isinstance(value, (str, Dimension)):
            offsets[name] = str(value)
            continue
        offsets.setdefault(name, name)
        tables[offsets[name]] = value
        if all(p.name != offsets[name] for p in params):
            params.append(Param(offsets[name], _type_of(name, value, program.span), program.span))
    offsets = {name: target for name, target in offsets.items() if name in used and target != name}
    return dataclasses.replace(program, params=tuple(params), offsets=tuple(offsets.items())), tables


def _type_of(name: str, table: Any, span: Span) -> TensorType:
    """The type of a table that knows its dims: a field, or a DataArray."""
    names, shape = getattr(table, "dims", None), getattr(table, "shape", None)
    element: Scalar | None = scalar_of(table.dtype) if hasattr(table, "dtype") else None
    if names is None or shape is None or element is None:
        raise DiagnosticError(
            Diagnostic(
                "B07",
                f"the offset provider's '{name}' is {type(table).__name__}, which does not name its dims.",
                span,
                help="give the name of a dim or of a parameter, a Dimension, or a field or DataArray with named dims.",
            )
        )
    ranges = tuple(Range(str(d), Affine(0), Affine(int(n))) for d, n in zip(names, shape, strict=True))
    return TensorType(element, ranges, span)
