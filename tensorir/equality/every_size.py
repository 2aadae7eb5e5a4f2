"""Programs of symbolic sizes: proven for all of them, or compared at some, the smallest first.

Where the proof of `tensorir.equality.all_sizes` leaves cases open, their smallest sizes are among those that are tried,
so that a fault which begins at n = 1001 is found there. Open cases of few sizes are compared at each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod

from tensorir.binding.arrays import refuse
from tensorir.equality.all_sizes.proof import Found, compared, size_name, smallest
from tensorir.equality.all_sizes.terms import Limits
from tensorir.equality.assumptions import Assumptions
from tensorir.equality.programs import Family, Member, common_sizes, matched, members
from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.verdict import Level, Verdict
from tensorir.ir.nodes import Var
from tensorir.ir.types import Scalar
from tensorir.lifting.nests.affine import Affine, number, quotient, variable

__all__ = ["at_sizes"]

Sizes = Mapping[str, int]
Compare = Callable[[Member, Member, Sizes], Verdict]
"""The verdict on two members of families."""
MOST_OPEN = 12
"""How many sizes of open cases are compared each, where that proves the rest."""
LARGEST_TRIED = 1 << 14
"""The product of sizes of open cases up to which they are tried."""
FIRST, CHECKED = 4, 2
"""How many sizes come before a proof is tried, and at how many of these programs are compared that have one."""


@dataclass(slots=True)
class _Tried:
    """Verdicts at sizes so far."""

    compare: Compare
    sizes: list[Sizes]
    verdicts: list[Verdict]

    def all(self, members: Iterable[tuple[Sizes, Member, Member]]) -> Verdict | None:
        """Compare at further sizes; the first verdict that programs differ."""
        for sizes, one, other in members:
            if sizes in self.sizes:
                continue
            verdict = self.compare(one, other, sizes)
            if verdict.level == Level.DIFFERENT:
                return replace(verdict, sizes=(sizes,))
            if verdict.level > Level.UNKNOWN or not self.verdicts:
                self.verdicts.append(verdict)
                self.sizes.append(sizes)
        return None


def at_sizes(f: Family, g: Family, match: Mapping[str, str], assumed: Assumptions, compare: Compare) -> Verdict:
    """The verdict on programs of which one at least has symbolic sizes."""
    tried = _Tried(compare, [], [])
    usual = common_sizes(f, g, assumed)
    few = list(islice(usual, FIRST))
    if not few:
        message = "there are no sizes at which both programs are of the same arrays."
        raise refuse("TL04", message, "compare programs of the same arrays.")
    found = _for_all(f, g, match, assumed, few[-1][1:])
    level = None
    if found is not None:
        level = _all_but_few(f, g, found, tried)
        few = few[-CHECKED:] if level is not None else few
        usual = () if level is not None else chain(members(f, g, _worth(found, f.sizes)), usual)
    different = tried.all(chain(few, usual))
    if different is not None:
        return different
    if level is not None:
        if level == Level.BITS:
            return Verdict(level)
        edges = next((v.edges for v in tried.verdicts if v.edges), "")
        return Verdict(level, edges=edges, rounded=next((v.rounded for v in tried.verdicts if v.rounded), ()))
    known = [v for v in tried.verdicts if v.level > Level.UNKNOWN] or tried.verdicts
    sizes = tuple(s for s, v in zip(tried.sizes, tried.verdicts, strict=True) if v in known)
    lowest = min(known, key=lambda v: v.level)
    seen, all_ = (sum(v.branches[k] for v in known) for k in (0, 1))
    return replace(
        lowest, sizes=sizes, points=max(v.points for v in known), branches=(seen, all_),
        ulps=max((v.ulps for v in known if v.ulps is not None), default=None),
        edges=next((v.edges for v in known if v.edges), ""),
    )  # fmt: skip


def _worth(found: Found, names: Sequence[str]) -> list[Sizes]:
    """The smallest sizes of open cases, and the next ones, where they are small enough to be tried."""
    least = smallest(found.open, len(names))
    worth = [s for s in dict.fromkeys((*least, *(tuple(n + 1 for n in s) for s in least))) if prod(s) <= LARGEST_TRIED]
    return [dict(zip(names, s, strict=True)) for s in worth]


def _for_all(
    f: Family, g: Family, match: Mapping[str, str], assumed: Assumptions, pair: tuple[Member, Member]
) -> Found | None:
    """What is proven for all sizes; None where programs are not followed at symbolic ones."""
    one, other = pair[0], matched(*pair, match)
    if f.symbolic is None or g.symbolic is None or len(f.sizes) != len(g.sizes):
        return None
    if any(len(ps) != len(qs) for ps, qs in ((one.inputs, other.inputs), (one.outputs, other.outputs))):
        return None
    if any(m.tables or m.narrow or not isinstance(p.type.element, Scalar) for m in (one, other) for p in m.params):
        return None
    order = f.sizes if set(f.sizes) == set(g.sizes) else g.sizes
    try:
        sides = f.symbolic(f.sizes), g.symbolic(order)
        inputs, outputs = _paired(one.inputs, other.inputs), _paired(one.outputs, other.outputs)
        limits = {k: _limits(assumed, name, f.sizes) for k, (name, _) in enumerate(inputs)}
        found = compared(*sides, inputs, outputs, len(f.sizes), _assumed(assumed, f.sizes), limits)
    except (Unsupported, RecursionError):
        return None
    refused = [dict(zip(f.sizes, s, strict=True)) for s in smallest(found.refused, len(f.sizes))]
    # what a case of sizes is refused for, its sizes are
    return None if any(True for _ in members(f, g, refused)) else _capped(found, one.keeps_order and other.keeps_order)


def _paired(one: Sequence[Var], other: Sequence[Var]) -> list[tuple[str, str]]:
    return [(p.name, q.name) for p, q in zip(one, other, strict=True)]


def _capped(found: Found, keep_order: bool) -> Found:
    return found if keep_order else replace(found, level=min(found.level, Level.REALS))


def _all_but_few(f: Family, g: Family, found: Found, tried: _Tried) -> Level | None:
    """The level for all sizes, where open cases are of few sizes and equal at each."""
    left = found.all(len(f.sizes), MOST_OPEN)
    if left is None or (left and max(map(prod, left)) > LARGEST_TRIED) or found.level < Level.REALS:
        return None
    level = found.level
    for sizes, one, other in members(f, g, [dict(zip(f.sizes, s, strict=True)) for s in left]):
        level = min(level, tried.compare(one, other, sizes).level)
    return level if level >= Level.REALS else None


def _assumed(assumed: Assumptions, sizes: Sequence[str]) -> list[Affine]:
    """What is assumed of sizes, as sums that are not negative."""
    names = {n: variable(size_name(k)) for k, n in enumerate(sizes)}
    found: list[Affine] = []
    for a, sign, b in assumed.comparisons:
        x, y = (names.get(t) or _whole(t) for t in (a, b))
        if x is None or y is None:
            continue
        for less, more, signs in ((x, y, "<≤="), (y, x, ">≥=")):
            if sign in signs:
                found.append(more.minus(less).plus(number(-(sign in "<>"))))
    for name, by, left in assumed.remainders:
        if name in names:
            rest = names[name].minus(quotient(names[name], by, {}).times(by)).plus(number(-left))
            found += [rest, rest.times(-1)]
    return found


def _limits(assumed: Assumptions, name: str, sizes: Sequence[str]) -> Limits:
    """What the whole numbers of an input are assumed to lie between."""
    names = {n: variable(size_name(k)) for k, n in enumerate(sizes)}
    low: Affine | None = None
    high: Affine | None = None
    for a, sign, b in assumed.comparisons:
        for one, other, signs in ((a, b, ">≥="), (b, a, "<≤=")):
            bound = names.get(other) or _whole(other)
            if one != name or bound is None:
                continue
            if sign in signs:
                low = bound.plus(number(sign in "<>"))
            if sign == "=" or sign not in signs:
                high = bound.plus(number(-(sign in "<>")))
    return low, high


def _whole(term: str) -> Affine | None:
    return number(int(term)) if term.lstrip("-").isdecimal() else None
