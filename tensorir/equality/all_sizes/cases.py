"""Cases: what is known of sizes and coordinates, as exact sets of integers, and questions that a case does not answer.

What evaluates a program at symbolic coordinates asks its case, and a case that answers neither yes nor no raises
`Undecided`; then the evaluation is done again in both halves of the case.

>>> from tensorir.lifting.nests.affine import variable
>>> n, i = variable("n"), variable("i")
>>> case = Case.of("n", "i").where(i).where(n.minus(i).plus(number(-1)))
>>> case.holds(n.plus(number(-1))), list(halves(case, lambda c: "low" if c.holds(i.plus(number(-3))) else "high"))
(True, [(Case(i >= 0, n - i - 1 >= 0, i - 3 >= 0), 'low'), (Case(i >= 0, n - i - 1 >= 0, -i + 2 >= 0), 'high')])
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import islpy as isl

from tensorir.equality.reals.domain import Unsupported
from tensorir.lifting.accesses.sets import decided, text
from tensorir.lifting.nests.affine import Affine, number, quotient

__all__ = ["Case", "Extent", "Undecided", "affine", "halves"]

T = TypeVar("T")
MOST_CASES = 64
"""Into how many cases one question is split at most."""


class Undecided(Exception):
    """That a sum is not negative holds in a part of a case only."""

    def __init__(self, condition: Affine) -> None:
        super().__init__(str(condition))
        self.condition = condition


def _text(a: Affine) -> str:
    return text(a, {n: n for n in a.names})


@dataclass(frozen=True, eq=False)
class Case:
    """Names of whole numbers, and sums of them that are not negative."""

    names: tuple[str, ...]
    conditions: tuple[Affine, ...] = ()
    points: Any = field(default=None, repr=False)
    """The set of all values of the names for which the conditions hold."""
    answers: dict[Affine, bool | None] = field(default_factory=dict[Affine, "bool | None"], repr=False)

    @staticmethod
    def of(*names: str) -> Case:
        return Case(names, (), isl.Set(f"[{', '.join(names)}] -> {{ [] }}"))

    def __repr__(self) -> str:
        return f"Case({', '.join(f'{c} >= 0' for c in self.conditions)})"

    def named(self, name: str) -> Case:
        """The case with one number more, of which nothing is known."""
        names = (*self.names, name)
        return Case(names, self.conditions, self.points.intersect(Case.of(*names).points))

    def set_of(self, *conditions: Affine) -> Any:
        """The values of the names for which sums are not negative."""
        told = " and ".join(f"{_text(c)} >= 0" for c in conditions) or "true"
        return isl.Set(f"[{', '.join(self.names)}] -> {{ [] : {told} }}")

    def where(self, *conditions: Affine) -> Case:
        """The part of the case where sums are not negative."""
        return Case(self.names, (*self.conditions, *conditions), self.points.intersect(self.set_of(*conditions)))

    @property
    def empty(self) -> bool:
        return bool(_sure(lambda: self.points.is_empty()))

    def meets(self, other: Case) -> bool:
        """Whether cases have points in common."""
        return not _sure(lambda: self.points.intersect(other.points).is_empty())

    def decides(self, condition: Affine) -> bool | None:
        """Whether a sum is not negative in all of the case, in none of it (False), or in a part (None)."""
        if condition.is_number:
            return condition.constant >= 0
        if not condition.names <= set(self.names):
            raise Unsupported("a condition on an index that data tell")
        if condition not in self.answers:
            true = self.set_of(condition)
            found = None
            if _sure(lambda: self.points.is_subset(true)):
                found = True
            elif _sure(lambda: self.points.intersect(true).is_empty()):
                found = False
            self.answers[condition] = found
        return self.answers[condition]

    def holds(self, condition: Affine) -> bool:
        """Whether a sum is not negative; raises `Undecided` where that differs in the case."""
        found = self.decides(condition)
        if found is None:
            raise Undecided(condition)
        return found

    def is_zero(self, a: Affine) -> bool:
        """Whether a sum is 0; raises `Undecided` where that differs in the case."""
        return self.holds(a) and self.holds(a.times(-1))

    def is_always_zero(self, a: Affine) -> bool:
        """Whether a sum is 0 in all of the case."""
        return self.decides(a) is True and self.decides(a.times(-1)) is True


def _sure(question: Callable[[], T]) -> T:
    found = decided(question, 0.2)
    if found is None:
        raise Unsupported("a set of sizes and coordinates that is too complicated")
    return found


def halves(
    case: Case, question: Callable[[Case], T], own: Callable[[Affine], bool] = lambda _: True
) -> Iterator[tuple[Case, T]]:
    """The parts of a case with the answer in each; what `own` does not hold of is left to who splits around."""
    waiting = [case]
    count = 0
    while waiting:
        case = waiting.pop()
        if case.empty:
            continue
        count += 1
        if count > MOST_CASES:
            raise Unsupported("too many cases")
        try:
            yield case, question(case)
        except Undecided as asked:
            if not own(asked.condition):
                raise
            negated = asked.condition.times(-1).plus(number(-1))
            waiting += [case.where(negated), case.where(asked.condition)]


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """A bound of an interval that is a sum of sizes, in a case that answers how it compares with others."""

    affine: Affine
    case: Case

    def _made(self, a: Affine) -> Any:
        return a.constant if a.is_number else Extent(a, self.case)

    def __add__(self, other: Any) -> Any:
        return self._made(self.affine.plus(affine(other)))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self._made(self.affine.times(-1))

    def __sub__(self, other: Any) -> Any:
        return self._made(self.affine.minus(affine(other)))

    def __rsub__(self, other: Any) -> Any:
        return self._made(affine(other).minus(self.affine))

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int):
            raise Unsupported("a product of sizes")
        return self._made(self.affine.times(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, int) or other < 1:
            raise Unsupported("a quotient of sizes")
        return self._made(quotient(self.affine, other, {}))

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __ge__(self, other: Any) -> bool:
        return self.case.holds(self.affine.minus(affine(other)))

    def __gt__(self, other: Any) -> bool:
        return self.case.holds(self.affine.minus(affine(other)).plus(number(-1)))

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Extent) or (isinstance(other, Extent) and other.case is not self.case):
            return False
        return self.case.is_zero(self.affine.minus(affine(other)))

    def __bool__(self) -> bool:
        return not self.case.is_zero(self.affine)

    def __hash__(self) -> int:
        # what is remembered of one case is not taken for another
        return hash((self.affine, id(self.case)))

    def __str__(self) -> str:
        return str(self.affine)


def affine(x: Any) -> Affine:
    """A bound as a sum of sizes."""
    return x.affine if isinstance(x, Extent) else number(x)
