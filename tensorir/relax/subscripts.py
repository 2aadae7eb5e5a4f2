"""Subscripts of sums of products: which dimension of which operand each letter names, as NumPy reads them.

>>> named("...ij,jk", (4, 2))
(('ABij', 'jk'), 'ABik')
>>> named("ij,jk->k", (2, 2))
(('ij', 'jk'), 'k')
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, ascii_uppercase

__all__ = ["named"]


def named(subscripts: str, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """A letter for every dimension of every operand, and those of the result; an ellipsis has letters of its own.

    The dimensions of ellipses are counted from the last. Raises ValueError, with a sentence, for what names no sum.
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ValueError(f"subscripts of {len(parts)} operands, and there are {len(ranks)}")
    free = [c for c in ascii_uppercase + ascii_letters if c not in left]
    letters = {part: _letters(part) for part in (*parts, right)}
    further = [rank - len(letters[part]) for part, rank in zip(parts, ranks, strict=True)]
    for part, rank, more in zip(parts, ranks, further, strict=True):
        if more < 0 or (more and "..." not in part):
            raise ValueError(f"'{part}' names {len(letters[part])} dimensions of a tensor of {rank}")
    most = max((more for part, more in zip(parts, further, strict=True) if "..." in part), default=0)
    own = "".join(free[:most])
    if len(own) < most:
        raise ValueError("more dimensions than there are letters")
    inputs = tuple([part.replace("...", own[most - more :]) for part, more in zip(parts, further, strict=True)])
    if not arrow:
        once = sorted(c for c in set("".join(letters[p] for p in parts)) if left.count(c) == 1)
        return inputs, own + "".join(once)
    if own and "..." not in right:
        raise ValueError(f"the result '{right}' has no place for the dimensions of '...'")
    if wrong := next((c for c in letters[right] if c not in left or right.count(c) > 1), None):
        raise ValueError(f"the result names {wrong!r} twice, or no operand has it")
    return inputs, right.replace("...", own)


def _letters(part: str) -> str:
    """The letters of one operand, or of the result."""
    found = part.replace("...", "", 1)
    if not all(c in ascii_letters for c in found):
        raise ValueError(f"'{part}' is not letters with one '...'")
    return found
