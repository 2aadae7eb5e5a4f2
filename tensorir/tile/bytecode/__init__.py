"""Bytecode of Tile IR, versions 13.1 to 13.3: read with every offset checked, and written."""

from __future__ import annotations

from tensorir.tile.bytecode.reading import from_bytecode
from tensorir.tile.bytecode.writing import to_bytecode

__all__ = ["from_bytecode", "to_bytecode"]
