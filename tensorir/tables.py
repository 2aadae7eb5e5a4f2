"""Neighbour tables at the edge: validated entry by entry before anything is read through them.

>>> check_table(np.array([[0, 4], [1, -1]]), "V2E", "Edge", Interval(0, 5))
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.arrays import refuse
from tensorir.types import Interval

__all__ = ["check_table"]


def check_table(table: Any, name: str, source: str, interval: Interval) -> bool:
    """Whether a table holds -1; raises A10 with the first entry that leaves its dimension."""
    entries = np.asarray(table)
    holes = entries == -1
    wrong = ~holes & ((entries < interval.start) | (entries >= interval.stop))
    if wrong.any():
        where = tuple(int(k[0]) for k in np.nonzero(wrong))
        raise refuse(
            "A10",
            f"an entry of the table '{name}' leaves its dimension: {name}[{', '.join(map(str, where))}] is "
            f"{int(entries[where])}, and {source}{interval} is what it may point to.",
            "entries are absolute coordinates; a missing neighbour is -1.",
        )
    return bool(holes.any())
