"""What is assumed of inputs and sizes: `0 ≤ idx < n`, `n % 32 = 0`, `x > 0`, of every element of an array.

>>> a = assumptions(["0 ≤ idx < n", "n % 4 = 0", "x > 0"])
>>> a.allow({"n": 8}), a.allow({"n": 6})
(True, False)
>>> a.bounds("idx", {"n": 8}), a.bounds("x", {}, whole=False)
((0.0, 7.0), (0.0, inf))
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorir.binding.arrays import refuse

__all__ = ["NONE", "Assumptions", "assumptions"]

SIGNS = {"<=": "≤", ">=": "≥", "==": "="}
TURNED = {"<": ">", "≤": "≥", ">": "<", "≥": "≤", "=": "="}
TERM = re.compile(r"\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z_]\w*)\s*")
SIGN = re.compile(r"<=|>=|==|[<>≤≥=]")
DIVISIBLE = re.compile(r"\s*([A-Za-z_]\w*)\s*%\s*(\d+)\s*==?\s*(\d+)\s*")


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Comparisons of a name with a number or a size, and remainders of a name."""

    comparisons: tuple[tuple[str, str, str], ...] = ()
    remainders: tuple[tuple[str, int, int], ...] = ()

    @property
    def names(self) -> list[str]:
        """Every name that is assumed something of, in order."""
        terms = [t for a, _, b in self.comparisons for t in (a, b)] + [n for n, _, _ in self.remainders]
        return [t for t in dict.fromkeys(terms) if not _is_number(t)]

    def allow(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes are as assumed."""
        for name, by, left in self.remainders:
            if name in sizes and sizes[name] % by != left:
                return False
        return all(low <= sizes[n] <= high for n in sizes for low, high in [self.bounds(n, sizes)])

    def multiples(self, sizes: Collection[str]) -> list[int]:
        """Small sizes of which remainders are as assumed, where sizes that count up may have none."""
        found = [(by, left) for name, by, left in self.remainders if name in sizes]
        return sorted({k * by + left for by, left in found for k in (1, 2, 3)})

    def bounds(self, name: str, sizes: Mapping[str, int], whole: bool = True) -> tuple[float, float]:
        """The least and the largest whole number of a name, or the ends of its interval."""
        low, high = -math.inf, math.inf
        for a, sign, b in self.comparisons:
            for one, other, how in ((a, b, sign), (b, a, TURNED[sign])):
                value = _value(other, sizes)
                if one != name or value is None:
                    continue
                if how in ("<", "≤", "="):
                    high = min(high, value - (whole and how == "<"))
                if how in (">", "≥", "="):
                    low = max(low, value + (whole and how == ">"))
        return low, high


NONE = Assumptions()


def _is_number(term: str) -> bool:
    return term[0] in "-0123456789"


def _value(term: str, sizes: Mapping[str, int]) -> float | None:
    return float(term if _is_number(term) else sizes[term]) if _is_number(term) or term in sizes else None


def assumptions(texts: Sequence[str]) -> Assumptions:
    """Assumptions from texts; raises TL05 for one that is none."""
    comparisons: list[tuple[str, str, str]] = []
    remainders: list[tuple[str, int, int]] = []
    for text in texts:
        divided = DIVISIBLE.fullmatch(text)
        if divided:
            remainders.append((divided[1], int(divided[2]), int(divided[3])))
            continue
        terms = [str(t) for t in SIGN.split(text)]
        signs = [SIGNS.get(s, s) for s in map(str, SIGN.findall(text))]
        if not signs or any(TERM.fullmatch(t) is None for t in terms):
            raise refuse("TL05", f"'{text}' is no assumption.", "write 0 ≤ idx < n, x > 0, or n % 32 = 0.")
        names = [t.strip() for t in terms]
        comparisons.extend(zip(names, signs, names[1:], strict=False))
    return Assumptions(tuple(comparisons), tuple(remainders))
