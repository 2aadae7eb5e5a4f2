"""Neighbour tables at the edge: validated entry by entry before anything is read through them.

>>> from tensorir.ir.types import tensor
>>> kind = tensor("int", Vertex=(0, 2), _NB_Edge=(0, 2))
>>> sorted(check_table(np.array([[0, 4], [1, -1]]), "V2E", kind, Interval(0, 5)))
[1]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.binding.arrays import refuse
from tensorir.ir.types import Interval, TensorType
from tensorir.ir.typing_of_elements import neighbour_source

__all__ = ["check_table"]


def check_table(table: Any, name: str, kind: TensorType, interval: Interval) -> frozenset[int]:
    """The slots in which a table of a type holds -1; raises A10 with the first entry that leaves its dimension."""
    entries = np.asarray(table)
    tag, source = neighbour_source(kind)
    (element,) = kind.leaves
    for entry in (entries.min(), entries.max()) if entries.size else ():
        if int(entry) not in element.range:
            raise refuse(
                "A07", f"the table '{name}' is {element}, which cannot hold {int(entry)}.", "declare a wider type."
            )
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
    axis = kind.dims.names.index(tag)
    some = holes.any(tuple(k for k in range(holes.ndim) if k != axis))
    return frozenset(int(k) + kind.dims[tag].start for k in np.flatnonzero(some))
