"""Proofs for all sizes: each element of the results as a formula over the reals.

Whether programs are equal for all sizes: each element of their results in all cases of sizes and coordinates.

>>> from tensorir.text import parse
>>> head = "f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>)"
>>> one = parse(head + "{ y ← if pos(I, x) < n - 1 then x else 2.0 × x; }")
>>> two = parse(head + "{ y ← concat(subset(x, I[0:n-1]), subset(x + x, I[n-1:n])); }")
>>> found = compared(of_template(one, ["n"]), of_template(two, ["n"]), [("x", "x")], [("y", "y")], 1)
>>> found.level.name, found.open
('REALS', ())
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, cast

import islpy as isl

from tensorir.equality.all_sizes.cases import Algebra, Case, Fold, Limits, Term, Vacuous, halves, written
from tensorir.equality.all_sizes.of_fencils import typed
from tensorir.equality.reals.formulas import Condition, Formal, Formula, Monomial, has_infinity, integer, literal
from tensorir.equality.reals.tensors import Unsupported
from tensorir.equality.verdict import Level
from tensorir.integers.affine import Affine, number, variable
from tensorir.integers.sets import isl_map, isl_set
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL
from tensorir.lifting.accesses.sets import decided, point
from tensorir.runtime.errors import DiagnosticError
from tensorir.text.sizes import Template

# Terms as formulas over the reals: folds that add are sums over sets of places, whatever order they are taken in.
#
# A sum is a set of places and a monomial of what is read there. Places are named by what they read: of a split loop
# the element `x[4 i + j]` is one of `x[u]`, and the set is that of all u. Sums of one monomial add up place by place.

# islpy has no types of its own that say enough.


MOST_TERMS = 4000
"""Terms that become formulas."""
Guard = tuple[tuple[str, bool], ...]
"""The keys of conditions that data decide, and how, where something is computed."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A monomial at all places of a set, which is one in the space of `variables` of places."""

    monomial: Monomial
    places: Any = field(compare=False, hash=False)


@dataclass(slots=True)
class Reals:
    """Formulas of terms in a case, and the sums and folds that they have in common."""

    case: Case
    sums: list[Sum] = field(default_factory=list[Sum])
    folds: list[tuple[Fold, tuple[Formula, ...], list[tuple[Case, tuple[Formula, ...]]]]] = field(
        default_factory=list[Any]
    )
    domains: dict[Guard, Formal] = field(default_factory=dict[Guard, Formal])
    known: dict[tuple[Term, Guard], Formula] = field(default_factory=dict[Any, Formula])

    def defined(self) -> frozenset[tuple[Guard, Condition]]:
        """The condition that all terms since the last question are defined."""
        found = frozenset((g, c) for g, d in self.domains.items() for c in d.conditions)
        self.domains.clear()
        self.known.clear()
        return found

    def of(self, term: Term, guard: Guard = ()) -> Formula:
        """The formula of a term, where data decide conditions so."""
        key = term, guard
        if key not in self.known:
            if len(self.known) > MOST_TERMS:
                raise Unsupported("a program of many terms at symbolic sizes")
            self.known[key] = self._made(term, guard)
        return self.known[key]

    def _made(self, term: Term, guard: Guard) -> Formula:
        domain = self.domains.setdefault(guard, Formal())
        match term.op, term.args:
            case "number", _:
                return literal(term.own, term.element)
            case "whole", _:
                return _of_sum(term.own)
            case "truth", _:
                return Formula.number(int(term.own))
            case "input", told:
                return self._read(term, [self.of(a, guard) for a in told], domain)
            case "checked", (told,):
                return _checked(self.of(told, guard), term.own, domain)
            case "there", (condition, value):
                domain.conditions.add(("there", self.of(condition, guard)))
                return self.of(value, guard)
            case "sort", _:
                fold, *rest = term.own
                return Formula.atom("sort", *self._named(fold, *self._steps(fold, guard)), tuple(rest))
            case "state", _:
                return Formula.atom("state", *term.own)
            case "fold", _:
                return self._fold(term.own[0], term.own[1], guard)
            case "if", (condition, first, second):
                told = self.of(condition, guard)
                here = [self.of(x, (*guard, (condition.key, x is first))) for x in (first, second)]
                if here[0] == here[1]:
                    return here[0]
                if any(map(has_infinity, here)):
                    return Formula.atom("if", told, *here)
                # as a sum, so that an update that data decide adds something
                return here[1] + Formula.atom("holds", told) * (here[0] - here[1])
            case "cast", (x,) if x.element.is_float and term.element.is_float:
                return self.of(x, guard)
            case "cast", (x,) if x.op == "whole" and term.element.is_float:
                return _of_sum(x.own)
            case op, args:
                xs = [self.of(a, guard) for a in args]
                if term.element.is_integer and all(a.element.is_integer for a in args) and op != "cast":
                    return integer(op, term.element, tuple(xs))
                if term.element.is_float and all(a.element.is_float for a in args):
                    return domain.one(op, xs)
                operands = (frozenset(xs),) if TABLE[op].commutative else tuple(xs)
                return Formula.atom(op, str(term.element), *(str(a.element) for a in args), *operands)

    def _read(self, term: Term, told: Sequence[Formula], domain: Formal) -> Formula:
        """An element of an input; indices that data tell have the names of their turns."""
        array, place, *unknown = term.own
        names = [n for a in place for n in sorted(a.names) if n.startswith("@")]
        turns = {n: variable(f"@{k}") for k, n in enumerate(names)}
        for index, bounds in zip(told, unknown, strict=True):
            _checked(index, bounds, domain)
        return Formula.atom("x", array, tuple(a.replaced(turns, {}) for a in place), *told)

    def _steps(self, fold: Fold, guard: Guard) -> tuple[tuple[Formula, ...], list[tuple[Case, tuple[Formula, ...]]]]:
        """The start of a fold, and the new state in each of its cases."""
        start = tuple(self.of(s, guard) for s in fold.start)
        return start, [(p.case, tuple(self.of(s, _inside(guard, p.case)) for s in p.state)) for p in fold.pieces]

    def _fold(self, fold: Fold, member: int, guard: Guard) -> Formula:
        start, steps = self._steps(fold, guard)
        if fold.start[member].element != BOOL:
            old = Formula.atom("state", fold.state, member)
            added = [(case, new[member] - old) for case, new in steps]
            if not any(fold.state in _names(rest) for _, rest in added):
                total = start[member]
                for case, rest in added:
                    total = total + self._summed(fold, case, rest)
                return total
        number, names = self._named(fold, start, steps)
        return Formula.atom("fold", number, member, *names)

    def _named(
        self, fold: Fold, start: tuple[Formula, ...], steps: list[tuple[Case, tuple[Formula, ...]]]
    ) -> tuple[int, tuple[str, ...]]:
        """The number of a fold, and the names that it depends on."""
        names = {n for f in start for n in _names(f)} | {n for _, new in steps for f in new for n in _names(f)}
        names |= {n for case, _ in steps for c in case.conditions for n in c.names}
        return self._name(fold, start, steps), tuple(sorted(names - {fold.place, fold.state}))

    def _name(self, fold: Fold, start: tuple[Formula, ...], steps: list[tuple[Case, tuple[Formula, ...]]]) -> int:
        for k, (other, first, parts) in enumerate(self.folds):
            same = other.place == fold.place and first == start and other.length.names <= set(self.case.names)
            if (
                same
                and self.case.is_always_zero(other.length.minus(fold.length))
                and all(a == b or not one.meets(two) for one, a in parts for two, b in steps)
            ):
                return k
        self.folds.append((fold, start, steps))
        return len(self.folds) - 1

    def _summed(self, fold: Fold, case: Case, f: Formula) -> Formula:
        """The sum of a formula over the places of a fold that are in a case."""
        total = Formula.number(0)
        for monomial, factor in f.terms:
            inner = frozenset((a, e) for a, e in monomial if fold.place in _names(a))
            outer = Formula.of({monomial - inner: factor})
            if not inner and len(fold.pieces) == 1:
                total = total + outer * _of_sum(fold.length)
                continue
            made = self._over(inner, case, fold.place)
            names = sorted(_names(made.monomial) | set(made.places.get_var_names(isl.dim_type.param)))
            number = self._number(made)
            total = total + outer * Formula.atom("sum", number, *(n for n in names if n in case.names))
        return total

    def _over(self, monomial: Monomial, case: Case, place: str) -> Sum:
        """The sum of a monomial over the values of a place in a case; a sum in it is one over both."""
        bound, outer = (place,), [n for n in case.names if n != place]
        places = isl_set(outer, bound, ((c, False) for c in case.conditions))
        nested = [(a, e) for a, e in monomial if a[0] == "sum"]
        if len(nested) > 1 or any(e != 1 for _, e in nested):
            raise Unsupported("a sum of products of sums")
        if nested:
            within = self.sums[nested[0][0][1]]
            own = [f"w{k}" for k in range(within.places.dim(isl.dim_type.set))]
            new = {f"u{k}": variable(w) for k, w in enumerate(own)}
            monomial = (monomial - {nested[0]}) | _mapped(within.monomial, lambda a: a.replaced(new, {}))
            which = within.places.find_dim_by_name(isl.dim_type.param, place)
            inner = within.places
            if which >= 0:
                inner = inner.move_dims(isl.dim_type.set, 0, isl.dim_type.param, which, 1)
            else:
                inner = inner.insert_dims(isl.dim_type.set, 0, 1)
            places = places.add_dims(isl.dim_type.set, len(own)).intersect(inner)
            bound = (place, *own)
        reads = _reads(monomial, bound)
        hidden = any(a[0] in ("sum", "fold", "sort") for a in _atoms(monomial))
        if any(n.startswith("@") for a in reads for n in a.names):
            raise Unsupported("a coordinate that a loop and data tell")
        if reads and not hidden:
            by_reads = isl_map(isl_set(outer, bound), reads).intersect_domain(places)
            if by_reads.is_injective():
                return Sum(_mapped(monomial, lambda a: _renamed(a, bound, reads)), by_reads.range())
        if nested:
            raise Unsupported("a sum of sums of one element each")
        return Sum(_mapped(monomial, lambda a: a.replaced({place: variable("u0")}, {})), places)

    def _number(self, made: Sum) -> int:
        for k, known in enumerate(self.sums):
            if known.monomial == made.monomial and known.places.is_equal(made.places):
                return k
        self.sums.append(made)
        return len(self.sums) - 1

    def equal(self, f: Formula, g: Formula) -> bool:
        """True if formulas are equal, their sums of one monomial added up place by place."""
        if f == g:
            return True
        rest: dict[tuple[Monomial, Monomial], list[tuple[Any, Fraction]]] = {}
        alone: list[tuple[Monomial, Fraction]] = []
        for monomial, factor in (f - g).terms:
            summed = [a for a, e in monomial if a[0] == "sum" and e == 1]
            if len(summed) != 1:
                alone.append((monomial, factor))
                continue
            made = self.sums[summed[0][1]]
            outer = frozenset((a, e) for a, e in monomial if a != summed[0])
            rest.setdefault((outer, made.monomial), []).append((made.places, factor))
        for monomial, factor in alone:
            at = next(((k, p) for k in rest if (p := self._point(monomial, *k, rest[k][0][0])) is not None), None)
            if at is None:
                return False
            rest[at[0]].append((at[1], factor))
        return all(_cancel(parts) for parts in rest.values())

    def _point(self, monomial: Monomial, outer: Monomial, summed: Monomial, like: Any) -> Any:
        """The place at which a monomial is one of a sum, as a set like that of the sum; None where it is none."""
        if like.dim(isl.dim_type.set) != 1:
            return None
        whole, here = outer | summed, variable("u0")
        for a, b in zip(_sums_in(whole), _sums_in(monomial), strict=False):
            sign = a.coefficient("u0")
            at = b.minus(a.minus(here.times(sign))).times(sign)
            if abs(sign) == 1 and _mapped(whole, lambda x, at=at: x.replaced({"u0": at}, {})) == monomial:
                outside = [n for n in self.case.names if n in at.names]
                return isl_set(outside, ["u0"], [(at.minus(here), True)]).intersect_params(self.case.points.params())
        return None


def _cancel(parts: Sequence[tuple[Any, Fraction]]) -> bool:
    """True if the factors of sets that hold a place add up to 0 at every place."""
    found: list[tuple[Any, Fraction]] = []
    for places, factor in parts:
        new: list[tuple[Any, Fraction]] = []
        for other, total in found:
            new += [(other.intersect(places), total + factor), (other.subtract(places), total)]
            places = places.subtract(other)
        found = [(s, c) for s, c in [*new, (places, factor)] if c and not s.is_empty()]
    return not found


def _checked(index: Formula, bounds: Limits, domain: Formal) -> Formula:
    """An index that has to be between bounds."""
    if bounds != (None, None):
        domain.conditions.add((f"in {['' if a is None else written(a) for a in bounds]}", index))
    return index


def _inside(guard: Guard, case: Case) -> Guard:
    return (*guard, (" ".join(map(written, case.conditions)), True))


def _of_sum(a: Affine) -> Formula:
    """A sum of sizes and coordinates as a formula."""
    total = Formula.number(a.constant)
    for part, c in a.terms:
        total = total + Formula.atom(
            "whole", variable(part) if isinstance(part, str) else Affine(((part, 1),))
        ) * Formula.number(c)
    return total


def _sums_in(x: Any) -> Iterator[Affine]:
    """The sums of coordinates in a part of a formula, in an order that their names do not tell."""
    match x:
        case Affine():
            yield x
        case Formula(terms):
            yield from _sums_in(terms)
        case frozenset():
            for part in sorted(cast("frozenset[Any]", x), key=lambda part: (_blank(part), _blank(part, written))):
                yield from _sums_in(part)
        case tuple():
            for part in x:
                yield from _sums_in(part)
        case _:
            pass


def _blank(x: Any, shown: Callable[[Affine], str] = lambda _: "_") -> str:
    """A part of a formula as text, without its sums of coordinates."""
    match x:
        case Affine():
            return shown(x)
        case Formula(terms):
            return _blank(terms, shown)
        case frozenset():
            return f"{{{','.join(sorted(_blank(part, shown) for part in x))}}}"
        case tuple():
            return f"({','.join(_blank(part, shown) for part in x)})"
        case _:
            return repr(x)


def _names(x: Any) -> frozenset[str]:
    """The sizes, coordinates, places and states that a part of a formula depends on."""
    match x:
        case Affine():
            return x.names
        case Formula(terms):
            return _names(terms)
        case ("state", str(name), _):
            return frozenset([name])
        case ("sum", int(), *names) | ("fold", int(), int(), *names):
            return frozenset(names)
        case ("sort", int(), names, rest):
            return frozenset(names) | _names(rest)
        case tuple() | frozenset():
            return frozenset(n for part in x for n in _names(part))
        case _:
            return frozenset()


def _atoms(x: Any) -> Iterator[tuple[Any, ...]]:
    """Every tuple in a part of a formula."""
    match x:
        case Formula(terms):
            yield from _atoms(terms)
        case tuple():
            yield x
            for part in x:
                yield from _atoms(part)
        case frozenset():
            for part in x:
                yield from _atoms(part)
        case _:
            pass


def _part(a: Affine, bound: Sequence[str]) -> Affine:
    """The part of a sum in some names."""
    names = set(bound)
    return Affine(tuple((t, c) for t, c in a.terms if names & ({t} if isinstance(t, str) else t.inner.names)), 0)


def _reads(monomial: Monomial, bound: Sequence[str]) -> list[Affine]:
    """The first of all sums of coordinates that have the same of places."""
    found: dict[str, Affine] = {}
    for a in _sums_in(monomial):
        part = _part(a, bound)
        if part.terms:
            found.setdefault(written(part), a)
    return list(found.values())


def _renamed(a: Affine, bound: Sequence[str], reads: Sequence[Affine]) -> Affine:
    part = _part(a, bound)
    if not part.terms:
        return a
    (which,) = [k for k, read in enumerate(reads) if _part(read, bound) == part]
    return variable(f"u{which}").plus(a.minus(reads[which]))


def _mapped(x: Any, f: Callable[[Affine], Affine]) -> Any:
    """A part of a formula with its sums of coordinates replaced."""
    match x:
        case Affine():
            return f(x)
        case Formula(terms):
            return Formula(_mapped(terms, f))
        case frozenset():
            return frozenset(_mapped(part, f) for part in x)
        case tuple():
            return tuple(_mapped(part, f) for part in x)
        case _:
            return x


# islpy has no types of its own that say enough.


ALL_SIZES = 2**28
"""Sizes go up to this, so that what programs compute of them in an int32 is most often far from its ends."""


class Sized(Protocol):
    """A program in a case of its sizes."""

    def shape(self, name: str) -> tuple[Affine, ...]:
        """The extents of a parameter."""
        ...

    def element(self, algebra: Algebra, name: str, arrays: Mapping[str, int], at: Sequence[Affine]) -> Term:
        """An element of a result, its coordinates counted from 0; `arrays` are the numbers of inputs."""
        ...


Symbolic = Callable[[Case], Sized]
"""A program in any case of its sizes; it raises what the program is refused for there."""
Names = Sequence[tuple[str, str]]
"""The parameters of both programs that are one."""


def size_name(k: int) -> str:
    """The name of a size in cases."""
    return f"n{k}"


def of_template(program: Template, sizes: Sequence[str]) -> Symbolic:
    """A fencil of symbolic sizes, in the order of these."""
    names = {n: size_name(k) for k, n in enumerate(sizes)}
    return lambda case: typed(program, case, names)


@dataclass(frozen=True, slots=True)
class Found:
    """The level that is proven but for open cases, and but for those in which a program is refused."""

    level: Level
    open: tuple[Case, ...]
    refused: tuple[Case, ...] = ()
    why: str = ""
    """What stood in the way of the first of those that are open."""

    def all(self, count: int, most: int) -> list[tuple[int, ...]] | None:
        """The sizes of all open cases, None where they are more than so many."""
        found: dict[tuple[int, ...], None] = {}
        for case in self.open:
            left = decided(lambda case=case: _sizes(case, count), 0.2)
            while left is not None and not left.is_empty() and len(found) <= most:
                at = point(left)
                found[at] = None
                names = [size_name(k) for k in range(count)]
                sizes = [(variable(n).plus(number(-v)), True) for n, v in zip(names, at, strict=True)]
                left = left.subtract(isl_set((), names, sizes))
            if left is None or len(found) > most:
                return None
        return list(found)


def _sizes(case: Case, count: int) -> isl.Set:
    found = isl_set((), case.names, ((c, False) for c in case.conditions))
    return found.project_out(isl.dim_type.set, count, len(case.names) - count)


def smallest(cases: Sequence[Case], count: int) -> list[tuple[int, ...]]:
    """The smallest sizes of each case, in an order that compares the first size first."""
    found = [decided(lambda case=case: point(_sizes(case, count)), 0.2) for case in cases]
    return list(dict.fromkeys(at for at in found if at is not None))


def compared(
    f: Symbolic, g: Symbolic, inputs: Names, outputs: Names, sizes: int, assumed: Sequence[Affine] = (),
    limits: Mapping[int, Limits] | None = None,
) -> Found:  # fmt: skip
    """The proof of two programs of so many sizes, of which sums are assumed not to be negative.

    `limits` are what the elements of inputs lie between.
    """
    names = [size_name(k) for k in range(sizes)]
    bounds = [b for n in names for b in (variable(n), number(ALL_SIZES).minus(variable(n)))]
    whole = Case.of(*names).where(*bounds, *assumed)
    levels, left, refused, why = list[Level](), list[Case](), list[Case](), ""
    try:
        for case, pair in halves(whole, lambda case: _pair(f, g, case)):
            if pair is None:
                refused.append(case)
                continue
            for part, found in _levels(*pair, case, inputs, outputs, limits or {}):
                if isinstance(found, str):
                    left.append(part)
                    why = why or found
                else:
                    levels.append(found)
    except Unsupported as reason:
        return Found(Level.UNKNOWN, (whole,), (), str(reason))
    return Found(min(levels, default=Level.UNKNOWN), tuple(left), tuple(refused), why)


def _pair(f: Symbolic, g: Symbolic, case: Case) -> tuple[Sized, Sized] | None:
    """Both programs in a case, None where one is no program."""
    try:
        return f(case), g(case)
    except DiagnosticError:
        return None


def _levels(
    f: Sized, g: Sized, case: Case, inputs: Names, outputs: Names, limits: Mapping[int, Limits]
) -> Iterator[tuple[Case, Level | str]]:
    """The level of each part of a case, or what stands in the way of one."""
    for one, other in (*inputs, *outputs):
        pair = f.shape(one), g.shape(other)
        if len(pair[0]) != len(pair[1]) or not all(case.is_always_zero(a.minus(b)) for a, b in zip(*pair, strict=True)):
            yield case, "arrays of other extents"
            return
    ours, theirs = ({pair[side]: k for k, pair in enumerate(inputs)} for side in (0, 1))
    for one, other in outputs:
        at = [variable(f"p{k}") for k in range(len(f.shape(one)))]
        inner = case
        for k, extent in enumerate(f.shape(one)):
            inner = inner.named(f"p{k}").where(at[k], extent.minus(at[k]).plus(number(-1)))

        def question(part: Case, one: str = one, other: str = other, at: Sequence[Affine] = at) -> Level | str:
            algebra = Algebra.of(part, limits)
            try:
                return _level(part, f.element(algebra, one, ours, at), g.element(algebra, other, theirs, at))
            except Vacuous:
                return Level.BITS
            except Unsupported as reason:
                return str(reason)

        yield from halves(inner, question)


def _level(case: Case, a: Term, b: Term) -> Level | str:
    if a == b:
        return Level.BITS
    reals = Reals(case)
    found, defined = reals.of(a), reals.defined()
    other, elsewhere = reals.of(b), reals.defined()
    if not reals.equal(found, other) or defined != elsewhere:
        return "formulas that are not shown to be equal"
    return Level.REALS if _has_floats(a) or _has_floats(b) else Level.BITS


def _has_floats(term: Term) -> bool:
    fold = term.own[0] if term.op in ("fold", "sort") else None
    folded = [] if fold is None else [*(s for p in fold.pieces for s in p.state), *fold.start]
    return term.element.is_float or any(map(_has_floats, (*term.args, *folded)))
