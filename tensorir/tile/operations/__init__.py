"""THE table of operations of Tile IR: one row for each, read by parser, printer, bytecode, verifier and interpreter.

>>> row = TABLE["addf"]
>>> [o.name for o in row.operands], [a.name for a in row.attributes], row.opcode
(['lhs', 'rhs'], ['rounding_mode', 'flush_to_zero'], 2)
>>> len([row for row in TABLE.values() if row.opcode is not None])
100
"""

from __future__ import annotations

import copyreg

from tensorir.tile.operations.rows import Attr, Constraint, Domain, Operand, Result, Row
from tensorir.tile.operations.table import (
    ATOMICS,
    BITWISE,
    COMPARISONS,
    CONVERSIONS,
    ENDS,
    FLOATS,
    FOLDS,
    GLOBALS,
    INTEGERS,
    LAUNCH,
    POINTERS,
    PRODUCTS,
    REGIONS,
    SHAPES,
    SPEAKING,
    SYMBOLS,
    TOKENS,
    VIEWS,
)

__all__ = ["OTHER_NAMES", "ROWS_BY_OPCODE", "TABLE", "Attr", "Constraint", "Domain", "Operand", "Result", "Row"]

TABLE: dict[str, Row] = {
    row.name: row
    for rows in (
        FLOATS, INTEGERS, BITWISE, COMPARISONS, CONVERSIONS, SHAPES, FOLDS, PRODUCTS, LAUNCH, VIEWS, POINTERS, ATOMICS,
        TOKENS, GLOBALS, SPEAKING, SYMBOLS, REGIONS, ENDS,
    )
    for row in rows
}  # fmt: skip

OTHER_NAMES = {"fpowf": "pow", "print": "print_tko"}
"""What other versions call an operation."""

ROWS_BY_OPCODE = {row.opcode: row for row in TABLE.values() if row.opcode is not None}


def _row(name: str) -> Row:
    """The row of a name."""
    return TABLE[name]


# A row is what its name says, and there is one of each: a copy is the row itself.
copyreg.pickle(Row, lambda row: (_row, (row.name,)))
