"""The accesses of statements with all that leads to them, as sets of integers know them.

What is no sum of loops' variables, but is one for each value of few of them, is looked at value by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tensorir.integers.affine import Affine
from tensorir.ir.types import BOOL
from tensorir.lifting.accesses.choices import Seen, reads_under
from tensorir.lifting.accesses.overlap import Box, box_of
from tensorir.lifting.accesses.sets import Domain, condition_text, conjuncts, domain
from tensorir.lifting.hazards.by_value import Values, choices_of_values, put_in
from tensorir.lifting.nests.linear import Ranges, linear, settled
from tensorir.lifting.nests.nest import Bottom, Check, External, Leaf, Loop, Store, While, ranges_of
from tensorir.lifting.nests.terms import Buffer, Number, Term
from tensorir.runtime.errors import Span

__all__ = ["Spot", "Touch", "Touches", "element_of", "iteration_of"]


@dataclass(frozen=True, slots=True)
class Touch:
    """One access under all the conditions that lead to it; `exact` says that they are all there."""

    leaf: Leaf
    buffer: Buffer
    indices: tuple[Affine, ...]
    write: bool
    domain: Domain
    constraints: tuple[str, ...]
    exact: bool
    span: Span
    conditions: tuple[Term, ...]
    """The guards that lead to it, and the choices around a read."""
    guards: int
    """How many of the guards lead to it."""
    values: Values = field(default_factory=dict[str, int])
    """What is known of loops' variables, where an access is looked at value by value."""

    @property
    def names(self) -> list[str]:
        return [self.domain.names[n] for n in self.leaf.names]

    @property
    def box(self) -> Box | None:
        """The iterations that come to it, where these are a box."""
        box = box_of(self.leaf, ranges_of(self.leaf.loops), self.guards)
        return None if box is None else {n: _with(self.values.get(n), span) for n, span in box.items()}


def _with(value: int | None, span: tuple[int, int]) -> tuple[int, int]:
    return span if value is None else (max(span[0], value), min(span[1], value))


@dataclass(frozen=True, slots=True)
class Spot:
    """An access in normal form; an index that is no sum stays a term."""

    buffer: Buffer
    indices: tuple[Affine | Term, ...]
    write: bool
    guards: int
    """How many guards lead to it."""
    conditions: tuple[Term, ...]
    """Those around it."""
    parts: tuple[Term, ...]
    """Of the conditions, in normal form."""
    span: Span


_Place = tuple[Bottom, tuple[Loop, ...]]
_ByValue = tuple[tuple[Leaf, Spot, Values], ...]
"""What a statement and its access are for each value of some variables."""

MOST_BY_VALUE = 192
"""How many accesses of one program are looked at for one value of a variable each."""


@dataclass(frozen=True, slots=True)
class Touches:
    """The accesses of the statements of a program, each statement looked at once."""

    spots: dict[_Place, tuple[Spot, ...]] = field(default_factory=dict[_Place, tuple[Spot, ...]])
    known: dict[tuple[Leaf, str], tuple[Touch | None, ...]] = field(
        default_factory=dict[tuple[Leaf, str], tuple["Touch | None", ...]]
    )
    finer: dict[tuple[Leaf, str], tuple[Touch, ...]] = field(default_factory=dict[tuple[Leaf, str], tuple[Touch, ...]])
    by_value: dict[tuple[_Place, int], _ByValue] = field(default_factory=dict[tuple[_Place, int], _ByValue])

    def of(self, leaf: Leaf, suffix: str) -> tuple[Touch, ...]:
        """Every access of a statement, its variables under names that end in a suffix; of a while, of its condition."""
        return tuple(t for t in self._found(leaf, suffix) if t is not None)

    def value_by_value(self, leaf: Leaf, suffix: str) -> tuple[Touch, ...]:
        """The same, where what is no sum of variables, but is one for each value of few of them, is looked at so."""
        if (leaf, suffix) not in self.finer:
            self.finer[leaf, suffix] = tuple(self._finer(leaf, suffix))
        return self.finer[leaf, suffix]

    def _found(self, leaf: Leaf, suffix: str) -> tuple[Touch | None, ...]:
        if (leaf, suffix) not in self.known:
            domains: dict[int, Domain] = {}
            self.known[leaf, suffix] = tuple(_touch(leaf, spot, suffix, domains) for spot in self.spots_of(leaf))
        return self.known[leaf, suffix]

    def _finer(self, leaf: Leaf, suffix: str) -> Iterator[Touch]:
        place = leaf.node, leaf.loops
        for k, touch in enumerate(self._found(leaf, suffix)):
            if touch is not None and touch.exact:
                yield touch
                continue
            if (place, k) not in self.by_value:
                left = MOST_BY_VALUE - sum(map(len, self.by_value.values()))
                self.by_value[place, k] = _by_value(leaf, self.spots_of(leaf)[k], left)
            apart = (_touch(at, spot, suffix, {}, values) for at, spot, values in self.by_value[place, k])
            found = [t for t in apart if t is not None]
            yield from found or ([] if touch is None else [touch])

    def knows(self, leaf: Leaf, spot: Spot) -> bool:
        """Whether an access that is no sum of variables is looked at value by value."""
        self.value_by_value(leaf, "_a")
        place = leaf.node, leaf.loops
        return any(self.by_value.get((place, k)) for k, s in enumerate(self.spots_of(leaf)) if s is spot)

    def spots_of(self, leaf: Leaf) -> tuple[Spot, ...]:
        """Every access of a statement in normal form, those at places that data tell among them."""
        place = leaf.node, leaf.loops
        if place not in self.spots:
            self.spots[place] = tuple(_spots(leaf.node, ranges_of(leaf.loops)))
        return self.spots[place]


def _touch(
    leaf: Leaf, spot: Spot, suffix: str, domains: dict[int, Domain], values: Values | None = None
) -> Touch | None:  # fmt: skip
    """An access as sets of integers know it; None where an index is no sum."""
    indices = tuple(i for i in spot.indices if isinstance(i, Affine))
    if len(indices) < len(spot.indices):
        return None
    if spot.guards not in domains:
        domains[spot.guards] = domain(leaf, ranges_of(leaf.loops), (), suffix, guards=spot.guards)
    whole, values = domains[spot.guards], values or {}
    parts = [condition_text(part, whole.names) for part in spot.parts]
    told = [p for p in parts if p is not None] + [f"{whole.names[n]} = {v}" for n, v in values.items()]
    exact = whole.exact and None not in parts
    led = (*leaf.node.guards[: spot.guards], *spot.conditions)
    constraints = (*whole.constraints, *told)
    return Touch(
        leaf, spot.buffer, indices, spot.write, whole, constraints, exact, spot.span, led, spot.guards, values
    )  # fmt: skip


def _spots(node: Bottom, ranges: Ranges) -> Iterator[Spot]:
    spots: list[tuple[Buffer, tuple[Term, ...], bool, int, tuple[Term, ...], Span]] = []
    every = len(node.guards)
    read: list[tuple[Term, int]] = [(guard, k) for k, guard in enumerate(node.guards)]
    match node:
        case Store(buffer, indices, value):
            spots.append((buffer, indices, True, every, (), node.span))
            read = [(term, every) for term in (value, *indices)] + read
        case Check(condition) | While(condition):
            read.append((condition, every))
        case External():
            pass
    seen: dict[int, Seen] = {}
    for term, guards in read:
        for load, conditions in reads_under(term, (), seen.setdefault(guards, {})):
            spots.append((load.buffer, load.indices, False, guards, conditions, load.span))
    # the reads of one statement share most of their indices and conditions, which `spots` keeps alive
    memo: dict[int, Term] = {}
    for buffer, indices, write, guards, conditions, span in spots:
        known = tuple(_sum(i, ranges, memo) for i in indices)
        parts = tuple(part for c in conditions for part in conjuncts(settled(c, ranges, memo)))
        yield Spot(buffer, known, write, guards, conditions, parts, span)


def _sum(index: Term, ranges: Ranges, memo: dict[int, Term]) -> Affine | Term:
    found = linear(index, ranges, memo)
    return found if found is not None and found.names <= ranges.keys() else index


def _by_value(leaf: Leaf, spot: Spot, most: int) -> _ByValue:
    """An access for each value of some variables, all of it known; nothing where that would be too many, or unknown."""
    ranges = ranges_of(leaf.loops)
    names = {n: n for n in leaf.names}
    guards = [part for g in leaf.node.guards[: spot.guards] for part in conjuncts(settled(g, ranges))]
    unknown = [i for i in spot.indices if not isinstance(i, Affine)]
    unknown += [part for part in (*guards, *spot.parts) if condition_text(part, names) is None]
    for choice in choices_of_values(unknown, ranges):
        found: list[tuple[Leaf, Spot, Values]] = []
        for values in choice:
            led = tuple(put_in(g, values, ranges) for g in leaf.node.guards[: spot.guards])
            parts = tuple(part for p in spot.parts for part in conjuncts(put_in(p, values, ranges)))
            if Number(False, BOOL) in (*parts, *(part for g in led for part in conjuncts(g))):
                continue
            at = Leaf(replace(leaf.node, guards=led), leaf.loops, leaf.place)
            indices = tuple(
                i if isinstance(i, Affine) else _sum(put_in(i, values, ranges), ranges, {}) for i in spot.indices
            )
            one = replace(spot, indices=indices, parts=parts)
            touch = _touch(at, one, "", {})
            if touch is None or not touch.exact:
                break
            found.append((at, one, values))
        else:
            return tuple(found) if len(found) <= most else ()
    return ()


def iteration_of(touch: Touch, at: Mapping[str, int]) -> str:
    """The iteration, in the source's words."""
    parts = [f"{loop.title or loop.name} = {at[touch.domain.names[loop.name]]}" for loop in touch.leaf.loops]
    return f"the iteration {', '.join(parts)}" if parts else "the only iteration"


def element_of(touch: Touch, at: Mapping[str, int]) -> str:
    """The element that is accessed in an iteration."""
    values = {n: at[touch.domain.names[n]] for n in touch.leaf.names}
    ranges: Ranges = {n: (v, v) for n, v in values.items()}
    numbers: list[str] = []
    for a in touch.indices:
        spread = a.range(ranges)
        assert spread is not None
        numbers.append(str(spread[0]))
    return f"{touch.buffer.name}[{', '.join(numbers)}]"
