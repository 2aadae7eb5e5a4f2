"""The interpreter of Tile IR: a block at a time, on NumPy arrays, with exact rounding; checked for hazards if asked."""

from __future__ import annotations

from tensorir.tile.interpret.launch import interpret

__all__ = ["interpret"]
