"""What bytecode makes of a row of the table: which of its parts have a bit among the flags of a version."""

from __future__ import annotations

from functools import cache

from tensorir.tile.bytecode.versions import Version
from tensorir.tile.operations import Row

__all__ = ["flag_bits"]


@cache
def flag_bits(row: Row, version: Version) -> dict[str, int]:
    """The bit of each flag, optional attribute and optional operand: by version, then attributes before operands.

    >>> from tensorir.tile.operations import TABLE
    >>> flag_bits(TABLE["store_ptr_tko"], (13, 3))
    {'memory_scope': 0, 'optimization_hints': 1, 'mask': 2, 'token': 3}
    """
    parts = [(a.since, a.name) for a in row.attributes if a.kind == "flag" or a.optional]
    parts += [(o.since, o.name) for o in row.operands if o.count == "optional"]
    known = sorted((part for part in parts if part[0] <= version), key=lambda part: part[0])
    return {name: bit for bit, (_, name) in enumerate(known)}
