"""Which parameters of a program are buffers that passes made: no results of the user's, and free to disappear."""

from __future__ import annotations

from tensorir.ir import Fencil
from tensorir.kept import Kept

__all__ = ["MADE", "buffers_of", "remember"]

MADE: Kept[frozenset[str]] = Kept()
"""The names of the buffers that passes added, by program."""


def buffers_of(fencil: Fencil) -> frozenset[str]:
    """The parameters that passes added.

    >>> import tensorir as ti
    >>> f = ti.parse("f(out: tensor<float>, x: tensor<float>) { out ← x; }")
    >>> sorted(buffers_of(f))
    []
    """
    return MADE.of(fencil, lambda _: frozenset())


def remember(before: Fencil, after: Fencil) -> None:
    """What a pass added to a program, besides what was added before."""
    own = {p.name for p in before.params}
    kept = buffers_of(before)
    MADE.of(after, lambda f: frozenset(p.name for p in f.params if p.name not in own or p.name in kept))
