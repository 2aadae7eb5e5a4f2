"""Stores of what stands there already go away.

Two views of one memory make `B[i] = B[i]` of a copy from one to the other.

>>> from tensorir.lift.nests.terms import Buffer, Index
>>> from tensorir.types import INT32
>>> b, i = Buffer("B", INT32, (4,)), Index("i", INT32)
>>> without_idle_stores([Store(b, (i,), Load(b, (i,)))])
()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.lift.nests.nest import Loop, Node, Store
from tensorir.lift.nests.terms import Load

__all__ = ["without_idle_stores"]


def without_idle_stores(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes without copies of elements to themselves, and without loops that do nothing else."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Store(buffer, indices, Load(source, places)) if buffer is source and indices == places:
                continue
            case Loop(body=body):
                kept = without_idle_stores(body)
                same = len(kept) == len(body) and all(x is y for x, y in zip(kept, body, strict=True))
                found += [] if not kept else [node if same else replace(node, body=kept)]
            case _:
                found.append(node)
    return tuple(found)
