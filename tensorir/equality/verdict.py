"""The verdict on two programs: a level of equality, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = ["Level", "Verdict"]


class Level(IntEnum):
    """How much is known; a higher level says more.

    >>> Level.BITS > Level.REALS > Level.WITHIN, max(Level.UNKNOWN, Level.DIFFERENT).name
    (True, 'UNKNOWN')
    """

    DIFFERENT = 0
    """An input tells the programs apart, by more than rounding."""
    UNKNOWN = 1
    """Nothing was found, and `why` says what stood in the way."""
    SAMPLED = 2
    """Functions of which no text is known gave the same on some inputs."""
    WITHIN = 3
    """Results lie within rounding, so many units in the last place apart; over the reals they may differ."""
    REALS_PROBABLY = 4
    """Equal as formulas at random points of prime fields, on the branches that were visited."""
    REALS = 5
    """Proven equal over the real numbers: one canonical form up to the order of folds, or one formula per element."""
    BITS_BUT_ZERO_AND_NAN = 6
    """Proven equal in every bit but for the sign of zeros, and for what comparisons do with NaN."""
    BITS = 7
    """Proven equal in every bit."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `equivalent` found; true where equality is proven, over the reals at least, and for all sizes.

    `counterexample` has inputs by name for DIFFERENT, `difference` where they differ, and `places` the statements or
    expressions of both programs that gave this element, where a text wrote them. `points` are the inputs at
    which both were evaluated, `error` bounds the probability that formulas that differ are equal at all of them, and
    `branches` are the outcomes of conditions that were visited, of how many; `unvisited` names conditions with one that
    was not. `ulps`: how far results of runs lie apart, in units in the last place of what the programs round to, None
    where nothing was run. `rounded`: types of fewer bits than the results' that values are cast to on the way. `edges`
    tells how they differ where numbers are infinite or NaN. `sizes`: those that were tried, where not all are covered.
    """

    level: Level
    why: str = ""
    counterexample: dict[str, Any] | None = None
    difference: str = ""
    places: tuple[str, str] = ("", "")
    points: int = 0
    error: float = 1.0
    branches: tuple[int, int] = (0, 0)
    unvisited: tuple[str, ...] = ()
    ulps: float | None = None
    rounded: tuple[str, ...] = ()
    edges: str = ""
    sizes: tuple[Mapping[str, int], ...] = ()

    def __bool__(self) -> bool:
        return self.level >= Level.REALS and not self.sizes

    @property
    def agree(self) -> bool:
        """Whether nothing was found that tells the programs apart, proven or not."""
        return self.level > Level.UNKNOWN

    def __str__(self) -> str:
        at = _told(self.sizes)
        way = f", but rounded to {' and '.join(self.rounded)} on the way" if self.rounded else ""
        return f"{self._head(at)}{way}{f'; {self.edges}' if self.edges else ''}"

    @property
    def _because(self) -> str:
        return f"; {self.why}" if self.why else ""

    def _head(self, at: str) -> str:
        match self.level:
            case Level.DIFFERENT:
                return f"different{at}: {self.difference}"
            case Level.UNKNOWN:
                return f"not known{at}: {self.why}"
            case Level.SAMPLED:
                return f"the same on {self.points} inputs{at}, as far as rounding tells{self._because}"
            case Level.WITHIN:
                apart = f", at most {self.ulps:.2g} units in the last place apart" if self.ulps else ""
                return f"within rounding on {self.points} inputs{at}{apart}: {self.why}"
            case Level.REALS_PROBABLY:
                seen, all_ = self.branches
                visited = f", {seen} of {all_} branches visited" if all_ else ""
                return (
                    f"equal over the reals at {self.points} random points{at} (error below {self.error:.0e}){visited}"
                    f"{self._because}"
                )
            case Level.REALS:
                return f"equal over the reals{at}"
            case Level.BITS_BUT_ZERO_AND_NAN:
                return f"equal in every bit{at} but for the sign of zeros and NaN"
            case Level.BITS:
                return f"equal in every bit{at}"


def _told(sizes: Sequence[Mapping[str, int]]) -> str:
    """Every set of sizes: ` at n = 1, 2`, or ` at (n, m) = (1, 1), (1, 2)`."""
    if not sizes:
        return ""
    if len(sizes[0]) == 1:
        ((name, _),) = sizes[0].items()
        return f" at {name} = {', '.join(str(s[name]) for s in sizes)}"
    return f" at ({', '.join(sizes[0])}) = {', '.join(str(tuple(s.values())) for s in sizes)}"
