"""Storage that only hands on goes away, and what every iteration fills anew is stored once.

A buffer of the program's own whose every element has one value is read through: a read of it tells the iteration of the
store that made the element. Where that copied an element of what never changes, the read is one of that element. Where
it computed something from `i` and `j + r` only, whatever else its place tells, the buffer gets those as coordinates,
so that what neighbouring iterations computed twice is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import gcd, prod

from tensorir.integers.affine import Affine, Quotient, number, variable
from tensorir.ir.types import INT32, Interval
from tensorir.lifting.accesses.counted import spread_where
from tensorir.lifting.accesses.space import Space, interval_of, substituted
from tensorir.lifting.nests.linear import affine_of, term_of
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store
from tensorir.lifting.nests.terms import (
    Linear,
    Load,
    Number,
    Term,
    index_names,
    indexed_by_data,
    sums_in,
    walk,
)
from tensorir.lifting.storage.places import with_multiples

__all__ = [
    "by_what_it_needs",
]


# Coordinates


def by_what_it_needs(leaf: Leaf, node: Store, space: Space) -> tuple[Node, Load] | None:
    """The store with the sums that its value depends on as coordinates, and a read of it; None where it has them."""
    places = [a.names for t in space.location if (a := affine_of(t)) is not None]
    before = space.dims
    space, told = _in_fewer(replace(space, location=()))
    sums = proportional([space.value, *space.guards], space.dims, not indexed_by_data(space.value))
    if sums is None or len(sums) >= len(before):
        return None
    # in the order in which the place names them, whatever that of the loops is
    sums.sort(key=lambda s: next((k for k, names in enumerate(places) if s.names & names), len(places)))
    names = [f"{node.buffer.name}_{k}" for k in range(len(sums))]
    values: dict[str, Affine] = {}
    box: dict[str, Interval] = {}
    for a, name in zip(sums, names, strict=True):
        spread = a.range(space.ranges)
        if spread is None:
            return None
        box[name] = Interval(spread[0], spread[1] + 1)
        values.update({n: number(0) for n in a.names})
        # the sum stands for the variable that it has once
        if (alone := next((n for n, c in a.terms if isinstance(n, str) and c == 1), None)) is not None:
            values[alone] = variable(name)
    doubled = {n: a for n, a in zip(names, sums, strict=True) if all(abs(c) > 1 for _, c in a.terms)}
    space = replace(space, value=with_multiples(space.value, doubled))
    made = substituted(space, values, box, [with_multiples(g, doubled) for g in space.guards])
    guards: list[Term] = []
    for guard in made.guards:
        inside, left = interval_of(guard, box)
        box, guards = (box if inside is None else inside), [*guards, *([] if left is None else [left])]
    shape = tuple(len(box[n]) for n in names)
    if prod(shape) > 2 * prod(len(i) for i in before.values()):
        return None
    buffer = replace(node.buffer, shape=shape, private=())
    lows = [box[n].start for n in names]
    location = tuple(term_of(variable(n).plus(number(-low)), INT32) for n, low in zip(names, lows, strict=True))
    new: Node = Store(buffer, location, made.value, tuple(guards), node.span)
    for name, low, extent in reversed(list(zip(names, lows, shape, strict=True))):
        span = leaf.loops[0].span
        new = Loop(name, Number(low, INT32), Number(extent, INT32), (new,), True, span, name)
    read = tuple(term_of(a.replaced(told, {}).plus(number(-low)), INT32) for a, low in zip(sums, lows, strict=True))
    return new, Load(buffer, read, node.span)


def _in_fewer(space: Space) -> tuple[Space, dict[str, Affine]]:
    """The space in sums of its variables where value and guards need nothing else of these, and what the sums are.

    What is divided hides it: `w + (w + r) // 2` is `(3 * w + r) // 2`, and needs no more than `3 * w + r`.
    """
    told: dict[str, Affine] = {}
    while (found := _one_fewer(space)) is not None:
        space, name, a = found
        told[name] = a.replaced(told, {})
    return space, told


def _one_fewer(space: Space) -> tuple[Space, str, Affine] | None:
    """The space with a sum in the place of one of its variables, which another variable does not outlive.

    The quotient of a variable stands in the place of one of which nothing else is needed.
    """
    sums = sums_in((space.value, *space.guards)) or ()
    if all(a.is_linear for a in sums):
        return None
    for name, i in space.dims.items():
        if (by := _divisor(name, (space.value, *space.guards))) > 1:
            dims = {**space.dims, name: Interval(i.start // by, (i.stop - 1) // by + 1)}
            new = substituted(space, {name: variable(name).times(by)}, dims, space.guards)
            return new, name, Affine(((Quotient(variable(name), by), 1),))
    for a in sums:
        if len(a.terms) < 2 or not a.names <= space.dims.keys():
            continue
        bare = Affine(a.terms)
        spread = bare.range(space.ranges) if a.is_linear else spread_where(bare, space.guards, space.ranges)
        name = a.bare_name
        if name is None or a.coefficient(name) != 1 or spread is None:
            continue
        value = variable(name).times(2).minus(bare)
        new = substituted(space, {name: value}, {**space.dims, name: Interval(spread[0], spread[1] + 1)}, space.guards)
        outlived = a.names - {name}
        if not a.is_linear and not indexed_by_data(new.value):
            # what is never read may hold anything, if only it can be computed
            new = replace(new, guards=tuple(g for g in new.guards if not index_names(g) & outlived))
        needed = set[str]().union(*map(index_names, (new.value, *new.guards)))
        if not outlived & needed:
            return replace(new, dims={n: i for n, i in new.dims.items() if n in needed or n not in a.names}), name, bare
    return None


def _divisor(name: str, terms: Sequence[Term]) -> int:
    """By what a variable is divided wherever it stands; 0 where it stands for itself, or in other sums."""
    found = 0
    pending = [t.affine for term in terms for t in walk(term) if isinstance(t, Linear)]
    while pending:
        for atom, _ in pending.pop().terms:
            match atom:
                case Quotient(inner, by) if inner == variable(name):
                    found = gcd(found, by)
                case Quotient(inner):
                    pending.append(inner)
                case _ if atom == name:
                    return 0
                case _:
                    pass
    return found


def proportional(terms: Sequence[Term], dims: Collection[str], gaps: bool) -> list[Affine] | None:
    """The sums of variables that terms need: variables whose coefficients have one ratio everywhere are in one sum.

    One of several variables counts the elements in between as well where terms need every other one, if there may be
    `gaps`: a window of every other element is one of all, some of which nobody reads.

    None where terms hold variables that are in no normal form, or a sum that has no variable once.
    """
    sums = sums_in(terms)
    if sums is None:
        return None
    ratios: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for n in dims:
        coefficients = [a.coefficient(n) for a in sums]
        factor = gcd(*coefficients)
        if factor:
            first = next(c for c in coefficients if c)
            factor = factor if first > 0 else -factor
            ratios.setdefault(tuple(c // factor for c in coefficients), []).append((n, factor))
    found: list[Affine] = []
    for members in ratios.values():
        common = gcd(*(c for _, c in members))
        a = Affine(tuple((n, c // common) for n, c in members))
        if not any(c == 1 for _, c in a.terms):
            return None
        found.append(a.times(2) if gaps and common == 2 and len(members) > 1 else a)
    return found


# Replacing
