"""Cases of sizes and coordinates as sets of integers, and elements as trees of operations under them.

Cases: what is known of sizes and coordinates, as exact sets of integers, and questions that a case does not answer.

What evaluates a program at symbolic coordinates asks its case, and a case that answers neither yes nor no raises
`Undecided`; then the evaluation is done again in both halves of the case.

>>> from tensorir.integers.affine import variable
>>> n, i = variable("n"), variable("i")
>>> case = Case.of("n", "i").where(i).where(n.minus(i).plus(number(-1)))
>>> case.holds(n.plus(number(-1))), list(halves(case, lambda c: "low" if c.holds(i.plus(number(-3))) else "high"))
(True, [(Case(i >= 0, n - i - 1 >= 0, i - 3 >= 0), 'low'), (Case(i >= 0, n - i - 1 >= 0, -i + 2 >= 0), 'high')])
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from tensorir.equality.reals.tensors import Unsupported
from tensorir.integers.affine import Affine, Quotient, number, quotient, variable
from tensorir.integers.sets import isl_set
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, Scalar
from tensorir.lifting.accesses.sets import decided

# islpy has no types of its own that say enough.


T = TypeVar("T")
MOST_CASES = 64
"""Into how many cases one question is split at most."""


class Undecided(Exception):
    """That a sum is not negative holds in a part of a case only."""

    def __init__(self, condition: Affine) -> None:
        super().__init__(str(condition))
        self.condition = condition


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
        return Case(names, (), isl_set(names, ()))

    def __repr__(self) -> str:
        return f"Case({', '.join(f'{c} >= 0' for c in self.conditions)})"

    def named(self, name: str) -> Case:
        """The case with one number more, of which nothing is known."""
        names = (*self.names, name)
        return Case(names, self.conditions, self.points.intersect(Case.of(*names).points))

    def set_of(self, *conditions: Affine) -> Any:
        """The values of the names for which sums are not negative."""
        return isl_set(self.names, (), ((c, False) for c in conditions))

    def where(self, *conditions: Affine) -> Case:
        """The part of the case where sums are not negative."""
        return Case(self.names, (*self.conditions, *conditions), self.points.intersect(self.set_of(*conditions)))

    @property
    def empty(self) -> bool:
        return bool(_sure(lambda: self.points.is_empty()))

    def meets(self, other: Case) -> bool:
        """True if cases have points in common."""
        return not _sure(lambda: self.points.intersect(other.points).is_empty())

    def decides(self, condition: Affine) -> bool | None:
        """True if a sum is not negative in all of the case, in none of it (False), or in a part (None)."""
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
        """True if a sum is not negative; raises `Undecided` where that differs in the case."""
        found = self.decides(condition)
        if found is None:
            raise Undecided(condition)
        return found

    def is_zero(self, a: Affine) -> bool:
        """True if a sum is 0; raises `Undecided` where that differs in the case."""
        return self.holds(a) and self.holds(a.times(-1))

    def is_always_zero(self, a: Affine) -> bool:
        """True if a sum is 0 in all of the case."""
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


# What an element of a result is: a tree of operations on elements of inputs, on whole numbers, and on folds.
#
# Whole numbers that are sums of sizes and coordinates are computed, and what they decide is asked of the case. Trees
# are equal that have one key: operands that may change places are in one order, and what the case shows to be one
# element of an input, or one fold, has one name. A fold has a length, where it starts, and its step at a symbolic
# place: folds with equal ones are equal, by induction, whatever their length is.
#
# An index that data tell is a coordinate with a name of its own, which nothing is known of: elements of an array are
# equal where their indices are. What may be absent is there where a condition holds.


def written(a: Affine) -> str:
    """A sum in one order of its parts."""
    parts = [f"{c}*{t if isinstance(t, str) else f'({written(t.inner)})//{t.by}'}" for t, c in a.terms]
    return "+".join([*sorted(parts), str(a.constant)])


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An operation on terms; `own` is what distinguishes it besides them."""

    op: str
    element: Scalar
    args: tuple[Term, ...] = ()
    own: Any = None
    key: str = field(init=False)

    def __post_init__(self) -> None:
        told = "|".join((self.op, str(self.element), _told(self.own), *(a.key for a in self.args)))
        object.__setattr__(self, "key", hashlib.blake2b(told.encode(), digest_size=16).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _told(own: Any) -> str:
    match own:
        case Affine():
            return written(own)
        case tuple():
            parts = cast("tuple[Any, ...]", own)
            return f"({','.join(map(_told, parts))})"
        case Fold():
            return f"fold {own.name}"
        case _:
            return repr(own)


class Vacuous(Exception):
    """No number is as assumed of an element of an input."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The new state of a fold where a case holds, whose last name is the place, from 0."""

    case: Case
    state: tuple[Term, ...]


@dataclass(slots=True, eq=False)
class Fold:
    """`length` steps from where it starts; each replaces the state by a function of it and of the place."""

    length: Affine
    start: tuple[Term, ...]
    place: str
    pieces: tuple[Piece, ...]
    name: int = -1

    @property
    def state(self) -> str:
        """The name of the state before a step."""
        return f"s{self.place[1:]}"


Limits = tuple[Affine | None, Affine | None]
"""What a number is not less, and not more, than, as far as that is known."""


@dataclass(slots=True)
class Algebra:
    """The operations on terms in a case, and the names of elements and of folds that are known so far.

    `limits` are of the elements of inputs; `indices` are the coordinates that data tell, by name, and what is checked
    of each: that it is not below a bound, nor above one.
    """

    case: Case
    elements: dict[int, list[tuple[Affine, ...]]]
    folds: list[Fold]
    depth: int = 0
    limits: Mapping[int, Limits] = field(default_factory=dict[int, Limits])
    indices: dict[str, tuple[Term, Limits]] = field(default_factory=dict[str, "tuple[Term, Limits]"])

    @staticmethod
    def of(case: Case, limits: Mapping[int, Limits] | None = None) -> Algebra:
        return Algebra(case, {}, [], 0, limits or {})

    def inside(self, case: Case) -> Algebra:
        """The same names, in a part of the case."""
        return replace(self, case=case, depth=self.depth + 1)

    def element(self, array: int, element: Scalar, at: Sequence[Affine]) -> Term:
        """An element of an input; where data tell its place, of these indices."""
        least, most = self.limits.get(array, (None, None))
        if least is not None and most is not None and not self.case.holds(most.minus(least)):
            raise Vacuous
        place = self._place(array, tuple(at))
        told = [self.indices[n] for a in place for n in sorted(a.names & self.indices.keys())]
        return Term("input", element, tuple(t for t, _ in told), (array, place, *(unknown for _, unknown in told)))

    def index(self, told: Term, low: Affine, last: Affine, mode: str = "checked") -> Affine:
        """A coordinate that data tell, in an interval: checked to be there, or moved to it."""
        empty = not self.case.holds(last.minus(low))
        if empty:
            # of what is empty nothing is read
            told, mode = self.whole(low, told.element), "checked"
        if mode == "checked":
            return told.own if told.op == "whole" and not empty else self._named(told, self._not_known(told, low, last))
        told = self.moved(told, low, last)
        return told.own if told.op == "whole" else self._named(told, (None, None))

    def _named(self, told: Term, unknown: Limits) -> Affine:
        name = f"@{Term('index', told.element, (told,), unknown).key}"
        self.indices[name] = told, unknown
        return variable(name)

    def moved(self, told: Term, low: Affine, last: Affine) -> Term:
        """The point of an interval that is nearest to an index."""
        unknown = self._not_known(told, low, last)
        for op, bound in zip(("max", "min"), unknown, strict=True):
            told = told if bound is None else self.compute(op, told.element, [told, self.whole(bound, told.element)])
        return told

    def checked(self, told: Term, low: Affine, last: Affine) -> Term:
        """An index for which a program is refused where it is not in an interval."""
        unknown = self._not_known(told, low, last)
        return told if unknown == (None, None) else Term("checked", told.element, (told,), unknown)

    def within(self, told: Term, low: Affine, last: Affine) -> Term:
        """True if an index is in an interval."""
        unknown, found = self._not_known(told, low, last), self.truth(True)
        for bound, pair in zip(unknown, ((0, 1), (1, 0)), strict=True):
            if bound is not None:
                sides = told, self.whole(bound, told.element)
                less = self.compute("less", BOOL, [sides[k] for k in pair])
                found = self.compute("and", BOOL, [found, self.compute("not", BOOL, [less])])
        return found

    def _not_known(self, told: Term, low: Affine, last: Affine) -> Limits:
        """The bounds of an interval that are not known to be ones of a number."""
        least, most = self.range_of(told)
        below = least is not None and self.case.decides(least.minus(low)) is True
        above = most is not None and self.case.decides(last.minus(most)) is True
        return None if below else low, None if above else last

    def range_of(self, term: Term) -> Limits:
        """The range of a whole number that data tell."""
        match term.op, term.args:
            case "whole", _:
                return term.own, term.own
            case "input", _:
                return self.limits.get(term.own[0], (None, None))
            case "cast", (x,) if x.element.is_integer and x.element.bits <= term.element.bits:
                return self.range_of(x)
            case (("plus" | "minus"), (x, Term("whole", _, _, by))):
                moved = by if term.op == "plus" else by.times(-1)
                low, high = (None if a is None else a.plus(moved) for a in self.range_of(x))
                return low, high
            case (("max" | "min"), (x, y)):
                (low, high), (low_, high_) = self.range_of(x), self.range_of(y)
                largest = term.op == "max"
                return self._one_of(low, low_, True, largest), self._one_of(high, high_, False, largest)
            case _:
                return None, None

    def _one_of(self, a: Affine | None, b: Affine | None, low: bool, largest: bool) -> Affine | None:
        """The bound of an extreme of two numbers with these bounds; one of them is enough on its own side."""
        if a is None or b is None:
            return (a or b) if low == largest else None
        known = self.case.decides(a.minus(b))
        return None if known is None else (a if known == largest else b)

    def _place(self, array: int, at: tuple[Affine, ...]) -> tuple[Affine, ...]:
        known = self.elements.setdefault(array, [])
        names = set(self.case.names)
        for other in known:
            if other == at:
                return other
        for other in known:
            if all(a.names <= names for a in other) and all(
                self.case.is_always_zero(a.minus(b)) for a, b in zip(at, other, strict=True)
            ):
                return other
        known.append(at)
        return at

    def there(self, condition: Term, value: Term) -> Term:
        """The term, absent where a condition does not hold."""
        if condition.op == "truth" and condition.own:
            return value
        return Term("there", value.element, (condition, self._relieved(value, _facts(condition, True))))

    def present(self, term: Term) -> tuple[Term, Term]:
        """The condition that a term is present, and its value there."""
        return (term.args[0], term.args[1]) if term.op == "there" else (self.truth(True), term)

    def number(self, value: Any, element: Scalar) -> Term:
        """A literal."""
        if element.is_integer:
            return self.whole(number(int(value)), element)
        return self.truth(bool(value)) if element == BOOL else Term("number", element, (), float(value))

    def whole(self, a: Affine, element: Scalar) -> Term:
        """A whole number that is a sum of sizes and coordinates."""
        return Term("whole", element, (), a)

    def truth(self, value: bool) -> Term:
        return Term("truth", BOOL, (), value)

    def compute(self, op: str, element: Scalar, args: Sequence[Term]) -> Term:
        """An elementwise operation that gives an element of a type."""
        if any(a.op == "there" for a in args):
            return self._of_absent(op, element, args)
        whole = bool(args) and args[0].element.is_integer
        match op, args:
            case "if", (condition, first, second):
                if condition.op == "truth":
                    return first if condition.own else second
                if condition.op == "not":
                    return self.compute("if", element, [condition.args[0], second, first])
                first, second = (
                    self._relieved(x, _facts(condition, holds)) for x, holds in ((first, True), (second, False))
                )
                same = first == second and not _is_checked(condition)
                return first if same else Term("if", element, (condition, first, second))
            case "not", (Term("not", _, (x,)),):
                return x
            case "not_eq", (x, y):
                return self.compute("not", BOOL, [self.compute("eq", BOOL, [x, y])])
            case "greater", (x, y):
                return self.compute("less", BOOL, [y, x])
            case "less_equal", (x, y) if whole:
                return self.compute("not", BOOL, [self.compute("less", BOOL, [y, x])])
            case "greater_equal", (x, y):
                return self.compute("less_equal", BOOL, [y, x])
            case "less", (Term("whole", _, _, a), y) if y.op != "whole" and self._fits(a.plus(number(1)), y.element):
                return self.compute("not", BOOL, [Term("less", BOOL, (y, self.whole(a.plus(number(1)), y.element)))])
            case (("and" | "or"), (x, y)):
                for a, b in ((x, y), (y, x)):
                    if a.op == "truth":
                        return b if a.own == (op == "and") else a
            case "not", (Term("truth", _, _, value),):
                return self.truth(not value)
            case "cast", (x,):
                return self._cast(x, element)
            case _:
                pass
        if args and all(a.op == "whole" for a in args):
            found = self._of_wholes(op, element, [a.own for a in args], args[0].element)
            if found is not None:
                return found
        if TABLE[op].commutative:
            args = sorted(args, key=lambda a: a.key)
        return Term(op, element, tuple(args))

    def _of_absent(self, op: str, element: Scalar, args: Sequence[Term]) -> Term:
        """An operation on what may be absent, which is absent too, but where a choice leaves it out."""
        (condition, *others), values = zip(*map(self.present, args), strict=True)
        if op != "if":
            for c in others:
                condition = self.compute("and", BOOL, [condition, c])
            return self.there(condition, self.compute(op, element, values))
        asked, first, second = values
        here = self.compute("if", BOOL, [asked, *others])
        if (others[0], others[1]) == (asked, self.truth(True)):
            here = self.truth(True)
        return self.there(condition, self.there(here, self.compute("if", element, [asked, first, second])))

    def _relieved(self, term: Term, facts: Mapping[Term, Limits]) -> Term:
        """A term where numbers have these limits: what moves or checks an index that is inside does nothing."""
        if not facts or not term.args:
            return term
        args = [self._relieved(a, facts) for a in term.args]
        match term.op, args:
            case (("max" | "min"), _):
                for x, bound in (args, args[::-1]):
                    low, high = facts.get(x, (None, None))
                    rest = None
                    if bound.op == "whole":
                        rest = low and low.minus(bound.own) if term.op == "max" else high and bound.own.minus(high)
                    if rest is not None and self.case.decides(rest) is True:
                        return x
            case "input", _:
                array, place, *unknown = term.own
                old = [n for a in place for n in sorted(a.names & self.indices.keys())]
                new: dict[str, Affine] = {}
                for name, x, (low, last) in zip(old, args, unknown, strict=True):
                    least, most = facts.get(x, (None, None))
                    below = low is None or (least is not None and self.case.decides(least.minus(low)) is True)
                    above = last is None or (most is not None and self.case.decides(last.minus(most)) is True)
                    new[name] = self._named(x, (None if below else low, None if above else last))
                return self.element(array, term.element, [a.replaced(new, {}) for a in place])
            case _:
                pass
        return Term(term.op, term.element, tuple(args), term.own)

    def _cast(self, x: Term, element: Scalar) -> Term:
        if x.element == element:
            return x
        if x.op == "whole" and element.is_integer and self._fits(x.own, element):
            return self.whole(x.own, element)
        return Term("cast", element, (x,))

    def _fits(self, a: Affine, element: Scalar) -> bool:
        low, high = element.range.start, element.range.stop - 1
        return self.case.holds(a.plus(number(-low))) and self.case.holds(number(high).minus(a))

    def _of_wholes(self, op: str, element: Scalar, args: Sequence[Affine], operands: Scalar) -> Term | None:
        holds = self.case.holds
        found = self._sum(op, args)
        if found is not None:
            return self.whole(found, element) if self._fits(found, element) else None
        if len(args) != 2:
            return None
        x, y = args
        less = y.minus(x).plus(number(-1))
        match op:
            case "less":
                return self.truth(holds(less))
            case "eq":
                return self.truth(self.case.is_zero(x.minus(y)))
            case "max" | "min":
                return self.whole(y if holds(y.minus(x)) == (op == "max") else x, element)
            case _:
                return None

    def _sum(self, op: str, args: Sequence[Affine]) -> Affine | None:
        match op, args:
            case "plus", (x, y):
                return x.plus(y)
            case "minus", (x, y):
                return x.minus(y)
            case "neg", (x,):
                return x.times(-1)
            case "abs", (x,):
                return x if self.case.holds(x) else x.times(-1)
            case "multiplies", (x, Affine((), by)) | (Affine((), by), x):
                return x.times(by)
            case "floordiv", (x, Affine((), by)) if by > 0:
                return self.quotient(x, by)
            case "mod", (x, Affine((), by)) if by > 0:
                return x.minus(self.quotient(x, by).times(by))
            case "divides", (x, Affine((), by)) if by > 0:
                return self.quotient(x, by) if self.case.holds(x) else self.quotient(x.times(-1), by).times(-1)
            case "rem", (x, Affine((), by)) if by > 0:
                whole = self._sum("divides", args)
                return None if whole is None else x.minus(whole.times(by))
            case _:
                return None

    def quotient(self, x: Affine, by: int) -> Affine:
        """The floor of x / by: the sum that the case shows it to be, or a part of its own."""
        found = quotient(x, by, {})
        for part, _ in found.terms:
            if isinstance(part, Quotient) and len(found.terms) == 1 and not found.constant:
                for value in (number(0), number(-1)):
                    rest = x.minus(value.times(by))
                    if self.case.decides(rest) and self.case.decides(number(by - 1).minus(rest)):
                        return value
        return found

    def fold(
        self, length: Affine, start: Sequence[Term], step: Callable[[Algebra, Affine, tuple[Term, ...]], Sequence[Term]]
    ) -> list[Term]:
        """The states after so many steps: `step` gives the new ones at a place, from 0, in an algebra of its own."""
        if not self.case.holds(length.plus(number(-1))):
            return list(start)
        made = self.folded(length, start, step)
        return [Term("fold", s.element, (), (made, k)) for k, s in enumerate(start)]

    def folded(
        self, length: Affine, start: Sequence[Term], step: Callable[[Algebra, Affine, tuple[Term, ...]], Sequence[Term]]
    ) -> Fold:
        """A fold of one step at least; without a start, what is computed at each place."""
        place = f"k{self.depth}"
        here = variable(place)
        whole = self.case.named(place).where(here, length.minus(here).plus(number(-1)))
        old = tuple(Term("state", s.element, (), (f"s{self.depth}", k)) for k, s in enumerate(start))
        pieces = [
            Piece(case, tuple(new))
            for case, new in halves(
                whole, lambda case: step(self.inside(case), here, old), lambda asked: place in asked.names
            )
        ]
        made = Fold(length, tuple(start), place, tuple(pieces))
        made.name = next((f.name for f in self.folds if self._same(f, made)), len(self.folds))
        if made.name == len(self.folds):
            self.folds.append(made)
        return made

    def _same(self, f: Fold, g: Fold) -> bool:
        """True if two folds are equal by induction, in all of the case."""
        if f.place != g.place or f.start != g.start or not f.length.names <= set(self.case.names):
            return False
        if not self.case.is_always_zero(f.length.minus(g.length)):
            return False
        return all(a.state == b.state or not a.case.meets(b.case) for a in f.pieces for b in g.pieces)


def _is_checked(term: Term) -> bool:
    """True if a program is refused for what data tell in a term."""
    folded = [s for p in term.own[0].pieces for s in p.state] + [*term.own[0].start] if term.op == "fold" else []
    return (
        term.op == "checked"
        or (term.op == "input" and any(u != (None, None) for u in term.own[2:]))
        or any(map(_is_checked, (*term.args, *folded)))
    )


def _facts(condition: Term, holds: bool) -> dict[Term, Limits]:
    """The limits of numbers where a condition holds, or does not."""
    match condition.op, condition.args:
        case "not", (x,):
            return _facts(x, not holds)
        case "less", (x, Term("whole", _, _, bound)):
            return {x: (None, bound.plus(number(-1))) if holds else (bound, None)}
        case (("and" | "or" as op), (x, y)) if holds == (op == "and"):
            found = _facts(x, holds)
            for term, (low, high) in _facts(y, holds).items():
                a, b = found.get(term, (None, None))
                found[term] = low or a, high or b
            return found
        case _:
            return {}


def unsupported(what: str) -> Unsupported:
    return Unsupported(f"{what} at symbolic sizes")
