"""The rules of Tile IR: types of operands, attributes, shapes, memory, regions, order of definitions, symbols.

>>> from tensorir.tile import parse
>>> verify(parse("entry @f(%x: tile<f64>) { %y = exp2 %x flush_to_zero : tile<f64> }"))
Traceback (most recent call last):
tensorir.runtime.errors.DiagnosticError: <tile>:1:27: error[TV04]: exp2 flushes to zero for f32 only, and not for f64.
  entry @f(%x: tile<f64>) { %y = exp2 %x flush_to_zero : tile<f64> }
                            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

from __future__ import annotations

from tensorir.runtime.errors import Diagnostic, raise_all
from tensorir.tile.nodes import Module, operations_of
from tensorir.tile.verify.modules import (
    debug_findings,
    hint_notes,
    index_notes,
    region_findings,
    symbol_findings,
    trait_findings,
)
from tensorir.tile.verify.rules import RULES

__all__ = ["verify"]

MAX_FINDINGS = 200
"""Findings that are told at once."""


def verify(module: Module) -> tuple[Diagnostic, ...]:
    """Check every rule of the dialect; notes are returned, and errors raised together, in the order of the text."""
    found: list[Diagnostic] = [*symbol_findings(module)]
    for op in operations_of(module):
        if len(found) >= MAX_FINDINGS:
            break
        own = [*trait_findings(op)]
        # a rule reads the types and attributes that the row promises, so it waits until they are as promised
        if not own and (rule := RULES.get(op.name)) is not None:
            own = [Diagnostic(code, message, op.span) for code, message in rule(op)]
        found += own
        found += hint_notes(op)
    found += region_findings(module)
    found += debug_findings(module)
    found += index_notes(module)
    return raise_all(found[:MAX_FINDINGS])
