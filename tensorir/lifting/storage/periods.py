"""Copies that hold the same are one: what some iterations compute again is computed by the first of them alone.

A buffer that every iteration of a loop fills before it reads it has a copy per iteration. Where the statements that
fill it need the loop's variable `t` only as `t // n`, or not at all, n copies in a row, or all, hold the same values:
then one copy serves them, and the first of their iterations fills it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd

from tensorir.integers.affine import Affine, Quotient, variable
from tensorir.lifting.nests.linear import Ranges, settled
from tensorir.lifting.nests.nest import Leaf, Loop, Store, ranges_of
from tensorir.lifting.nests.terms import Buffer, Index, Linear, Load, Number, Term, loads, rebuilt, walk

__all__ = ["periods"]

Periods = dict[tuple[Buffer, str], int]
"""For a buffer, and a loop that it has copies for: how many iterations in a row need one copy; 0 for all."""


def periods(
    statements: Sequence[Leaf], copies: Mapping[Buffer, Sequence[str]], settled_values: frozenset[Buffer]
) -> Periods:
    """How many iterations in a row fill copies alike, for each buffer and loop that has copies; 1 where none do.

    Elements of buffers with settled values hold one thing whenever they are read.
    """
    if not copies:
        return {}
    touching: dict[Buffer, list[Leaf]] = {}
    changing: dict[Buffer, set[str]] = {}
    for leaf in statements:
        for buffer in leaf.read | leaf.written:
            touching.setdefault(buffer, []).append(leaf)
        for buffer in leaf.written - settled_values:
            changing.setdefault(buffer, set()).update(leaf.names)
    found: Periods = {}
    together: dict[tuple[Buffer, str], set[Buffer]] = {}
    for buffer, names in copies.items():
        writers = [leaf for leaf in touching[buffer] if buffer in leaf.written]
        readers = [leaf for leaf in touching[buffer] if buffer not in leaf.written]
        for name in names:
            loop = next(x for x in writers[0].loops if x.name == name)
            early = [r for r in readers if not all(_filled_before(w, r, loop, names) for w in writers)]
            # what is read to fill is needed where something is filled
            filled = [_filled_for(r, touching) for r in early]
            settles = None not in filled and isinstance(loop.low, Number) and not loop.lockstep
            together[buffer, name] = {b for several in filled for b in several or ()}
            found[buffer, name] = 0 if settles else 1
    for buffer in touching:
        if buffer.loops:  # a value of one iteration, which nothing keeps
            found.update({(buffer, name): 0 for names in copies.values() for name in names})
    changed = True
    while changed:
        changed = False
        for (buffer, name), period in found.items():
            if period != 1:
                writers = [leaf for leaf in touching[buffer] if buffer in leaf.written]
                new = gcd(period, *(_needed(leaf, name, changing, found) for leaf in writers))
                new = gcd(new, *(found.get((b, name), 1) for b in together.get((buffer, name), ())))
                changed |= new != period
                found[buffer, name] = new
    return found


def _filled_before(w: Leaf, r: Leaf, loop: Loop, copied: Sequence[str]) -> bool:
    """Whether nothing fills a copy again once it is read, in an iteration of a loop."""
    common: list[Loop] = []
    for x, y in zip(w.loops, r.loops, strict=False):
        if x is not y:
            break
        common.append(x)
    inside = common[common.index(loop) + 1 :] if loop in common else None
    if inside is None or w.place > r.place:
        return False
    return all(x.name in copied or (isinstance(x.extent, Number) and x.extent.value == 1) for x in inside)


def _filled_for(leaf: Leaf, touching: Mapping[Buffer, Sequence[Leaf]]) -> set[Buffer] | None:
    """What a statement fills, itself or by means of the values of one iteration that it makes; None for other ones."""
    pending, found, seen = [leaf], set[Buffer](), set[int]()
    while pending:
        made = pending.pop()
        if id(made) in seen:
            continue
        seen.add(id(made))
        node = made.node
        if not isinstance(node, Store):
            return None
        if node.buffer.loops:
            pending += [user for user in touching[node.buffer] if user is not made]
        else:
            found.add(node.buffer)
    return found


def _needed(leaf: Leaf, name: str, changing: Mapping[Buffer, Collection[str]], found: Periods) -> int:
    """Of how many values of a variable in a row a store needs no more than the first; 0 for all, 1 for none."""
    node = leaf.node
    if not isinstance(node, Store):
        return 1
    ranges = ranges_of(leaf.loops)
    period = 0

    def of_its_iteration(t: Term) -> Term | None:
        return Load(t.buffer, ()) if isinstance(t, Load) and t.buffer.loops else None

    bounds = [t for x in leaf.loops if x.name != name for t in (x.low, x.extent)]
    for term in (*(() if node.buffer.loops else node.indices), node.value, *node.guards, *bounds):
        bare = rebuilt(term, of_its_iteration)
        period = gcd(period, *_of_term(settled(bare, ranges), name, ranges))
        for load in loads(bare):
            if (load.buffer, name) in found:
                period = gcd(period, found[load.buffer, name])
            elif name in changing.get(load.buffer, ()):
                return 1  # what changes from one iteration to the next
    return period


def _of_term(term: Term, name: str, ranges: Ranges) -> Iterator[int]:
    for t in walk(term):
        match t:
            case Index(n, _) if n == name:
                yield 1
            case Linear(a):
                yield from _of_sum(a, name, ranges)
            case _:
                pass


def _of_sum(a: Affine, name: str, ranges: Ranges) -> Iterator[int]:
    for atom, _ in a.terms:
        if atom == name:
            yield 1
        elif isinstance(atom, Quotient) and name in atom.inner.names:
            alone = atom.inner == variable(name) and ranges[name][0] == 0
            yield atom.by if alone else 1
