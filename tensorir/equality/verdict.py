"""The verdict on two programs: its level, what it rests on, and where programs differ.

What is assumed of inputs and sizes: `0 ≤ idx < n`, `n % 32 = 0`, `x > 0`, of every element of an array.

>>> a = assumptions(["0 ≤ idx < n", "n % 4 = 0", "x > 0"])
>>> a.allow({"n": 8}), a.allow({"n": 6})
(True, False)
>>> a.bounds("idx", {"n": 8}), a.bounds("x", {}, whole=False)
((0.0, 7.0), (0.0, inf))

Where a program says what an element of a result is: the smallest expression that gave it, at an input.

>>> import numpy as np
>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<int, I[0:4]>, x: tensor<int, I[0:4]>) { y ← if pos(I, x) < 2 then x else -x; }")
>>> place(f, 0, (3,), {"x": np.zeros(4, np.int32)})
"'-x' at <text>:1:86"
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from tensorir import reference
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import closure, fencil, var
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Literal
from tensorir.lifting.emission.tensors import cut
from tensorir.runtime.errors import NOWHERE, Span, refuse

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
        """True if sizes are as assumed."""
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


LONGEST = 60
"""Characters of a source that are shown."""


def place(f: Fencil, result: int, at: Sequence[int], given: Mapping[str, Any]) -> str:
    """The text and the place of what gave an element, its coordinates counted from 0; empty where no text did."""
    output = f.results[result]
    here = {d: i.start + k for (d, i), k in zip(output.type.dims.items, at, strict=True)}
    for k, c in reversed(list(enumerate(f.closures))):
        if c.output == output and (c.region is None or _inside(here, c.region)):

            def holds(condition: Expr, where: Mapping[str, int], before: Sequence[Closure] = f.closures[:k]) -> bool:
                return _holds(f, before, condition, where, given)

            found = _leading(c.value, here, holds)
            return shown(c.span if found is None else found.span)
    return ""


def _holds(
    f: Fencil, before: Sequence[Closure], condition: Expr, where: Mapping[str, int], given: Mapping[str, Any]
) -> bool:
    # at one point: the interpreter takes seconds for a million of them
    condition = cut(condition, {d: Interval(where[d], where[d] + 1) for d in condition.tensor.dims})
    told = var("the condition", condition.tensor)
    read = condition.free.union(*(c.value.free | {c.output} for c in before))
    params = [p for p in f.params if p in read]
    asked = fencil(f.name, [*params, told], [*before, closure(told, condition)])
    needed = {p.name for p in asked.inputs}
    found = reference.run(asked, **{n: np.array(a) for n, a in given.items() if n in needed})[told.name]
    return bool(np.asarray(found).item())


def _inside(here: Mapping[str, int], box: Dims) -> bool:
    return all(here[d] in i for d, i in box.items)


def _leading(e: Expr, here: dict[str, int], holds: Callable[[Expr, Mapping[str, int]], bool]) -> Expr | None:
    """The last expression with a place of its own that an element of another one is an element of."""
    placed: Expr | None = None
    while isinstance(e, Call):
        placed = placed if e.span is NOWHERE else e
        match e:
            case Call("if", (condition, first, second)):
                e = first if holds(condition, here) else second
            case Call("subset" | "add_dim" | "materialise", (x, *_)):
                e = x
            case Call("cartesian_shift", (x,), (dim, offset)):
                here = {d: k + int(offset) if d == dim else k for d, k in here.items()}
                e = x
            case Call("rename", (x,), (pairs,)):
                old = {new: n for n, new in pairs}
                here = {old.get(d, d): k for d, k in here.items()}
                e = x
            case Call("concat", parts):
                e = next(p for p in parts if _inside(here, p.tensor.dims))
            case Call("update", (x, part)):
                e = part if _inside(here, part.tensor.dims) else x
            case _:
                return placed
    return e if isinstance(e, Literal) else placed


def shown(span: Span) -> str:
    """The text and the place of a part of a source."""
    if span is NOWHERE:
        return ""
    text = " ".join(span.text.split())
    return f"'{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}' at {span}"


# The verdict on two programs: a level of equality, and what it rests on.


class Level(IntEnum):
    """Levels of equality, the higher the stronger.

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
    """The verdict of `equivalent`; true where equality is proven, over the reals at least, and for all sizes.

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
        """True if nothing was found that tells the programs apart, proven or not."""
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
