"""What an element of a result is: a tree of operations on elements of inputs, on whole numbers, and on folds.

Whole numbers that are sums of sizes and coordinates are computed, and what they decide is asked of the case. Trees are
equal that have one key: operands that may change places are in one order, and what the case shows to be one element of
an input, or one fold, has one name. A fold has a length, where it starts, and its step at a symbolic place: folds with
equal ones are equal, by induction, whatever their length is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tensorir.builtins import TABLE
from tensorir.equality.all_sizes.cases import Case, halves
from tensorir.equality.reals.domain import Unsupported
from tensorir.lifting.nests.affine import Affine, Quotient, number, quotient, variable
from tensorir.types import BOOL, Scalar

__all__ = ["Algebra", "Fold", "Piece", "Term", "written"]


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


@dataclass(slots=True)
class Algebra:
    """The operations on terms in a case, and the names of elements and of folds that are known so far."""

    case: Case
    elements: dict[int, list[tuple[Affine, ...]]]
    folds: list[Fold]
    depth: int = 0

    @staticmethod
    def of(case: Case) -> Algebra:
        return Algebra(case, {}, [])

    def inside(self, case: Case) -> Algebra:
        """The same names, in a part of the case."""
        return Algebra(case, self.elements, self.folds, self.depth + 1)

    def element(self, array: int, element: Scalar, at: Sequence[Affine]) -> Term:
        """An element of an input."""
        return Term("input", element, (), (array, self._place(array, tuple(at))))

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
        match op, args:
            case "if", (condition, first, second):
                if condition.op == "truth":
                    return first if condition.own else second
                return first if first == second else Term("if", element, (condition, first, second))
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
            case "greater_equal":
                return self.truth(not holds(less))
            case "greater":
                return self.truth(holds(x.minus(y).plus(number(-1))))
            case "less_equal":
                return self.truth(holds(y.minus(x)))
            case "eq" | "not_eq":
                return self.truth(self.case.is_zero(x.minus(y)) == (op == "eq"))
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
        return [Term("fold", s.element, (), (made, k)) for k, s in enumerate(start)]

    def _same(self, f: Fold, g: Fold) -> bool:
        """Whether two folds are equal by induction, in all of the case."""
        if f.place != g.place or f.start != g.start or not f.length.names <= set(self.case.names):
            return False
        if not self.case.is_always_zero(f.length.minus(g.length)):
            return False
        return all(a.state == b.state or not a.case.meets(b.case) for a in f.pieces for b in g.pieces)


def unsupported(what: str) -> Unsupported:
    return Unsupported(f"{what} at symbolic sizes")
