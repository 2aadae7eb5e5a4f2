"""TileLang's tile operations: calls such as `T.copy(T.region(A[0, 0], 1, 8, 8), T.region(a[0, 0], 2, 8, 8))`.

`operations` has the table: operands, checks, and what each is called; `normal` takes away what says nothing about
values; `nests` writes each operation as a nest of loops.
"""

from __future__ import annotations

from tensorir.tir.tiles.nests import without_tiles
from tensorir.tir.tiles.operations import OPERATIONS, Box, operation
from tensorir.tir.tiles.warp_groups import normal

__all__ = ["OPERATIONS", "Box", "normal", "operation", "without_tiles"]
