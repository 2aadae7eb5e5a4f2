"""Axes that belong together are one: storage of a tile, kept per tile, is storage of the whole.

A buffer of the program's own that is only touched as `T[t, r]`, by statements for which `t` and `r` are nothing but
`t * n + r`, with n the extent of r's axis, is `T[t * n + r]`. So tiles that were cut out of a loop go away with it.
Buffers of one tile, such as the greatest of a row, its exponentials and their sum, go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import permutations

from tensorir.integers.affine import Affine
from tensorir.lifting.accesses.space import Space
from tensorir.lifting.nests.linear import affine_of
from tensorir.lifting.nests.nest import Leaf, Node, Store, leaves
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, rebuilt, sums_in, walk
from tensorir.lifting.storage.copies import changed, whole_space

__all__ = ["with_merged_axes"]

MOST_ROUNDS = 8


def with_merged_axes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with axes of their own buffers merged, two at a time, as long as some belong together."""
    nodes = tuple(nodes)
    for _ in range(MOST_ROUNDS):
        found = _found(leaves(nodes))
        if not found:
            return nodes
        nodes = tuple(_changed(node, found) for node in nodes)
    return nodes


Pair = tuple[int, int]
"""Two axes of a buffer, of which the first counts what the second is full of."""

Whole = tuple[int, Affine]
"""A statement, and what two indices of an access in it are as one."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """What a statement says: the indices of its accesses of buffers that may change, and all other sums."""

    accesses: tuple[tuple[Buffer, tuple[Affine, ...]], ...]
    rest: tuple[Affine, ...]


def _found(statements: Sequence[Leaf]) -> dict[Buffer, tuple[Buffer, int, int]]:
    """Buffers with two axes that belong together: what they become, and which axes."""
    known = _statements(statements)
    ways = _ways(known)
    found: dict[Buffer, tuple[Buffer, int, int]] = {}
    for buffer, pairs in ways.items():
        for pair in () if buffer in found else pairs:
            free = {b: way for b, way in ways.items() if b not in found}
            group = _fitting(buffer, _with_the_same(buffer, pair, free), known)
            group = group or _fitting(buffer, {buffer: pair}, known)
            if group:
                found |= {b: _merged(b, *own) for b, own in group.items()}
                break
    return found


def _statements(statements: Sequence[Leaf]) -> list[_Statement]:
    """What each statement says; buffers of which an access is not told do not change."""
    fixed: set[Buffer] = set()
    spaces = [whole_space(leaf) if isinstance(leaf.node, Store) else None for leaf in statements]
    for leaf, space in zip(statements, spaces, strict=True):
        touched = leaf.written | leaf.read
        fixed |= {b for b in touched if space is None or b.argument or b.loops or b.value is not None}
        fixed |= {b for b in touched if len(b.shape) < 2}
    while True:
        found: list[_Statement] = []
        before = len(fixed)
        for leaf, space in zip(statements, spaces, strict=True):
            own = (leaf.written | leaf.read) - fixed
            if own and space is not None and isinstance(leaf.node, Store):
                said = _said(leaf.node.buffer, space, own, fixed)
                found += [] if said is None else [said]
        if len(fixed) == before:
            return found


def _said(stored: Buffer, space: Space, own: Set[Buffer], fixed: set[Buffer]) -> _Statement | None:
    """What a statement says of buffers of its own; those of which it says nothing definite become `fixed`."""
    places: list[tuple[Buffer, tuple[Term, ...]]] = [(stored, space.location)] if stored in own else []
    terms = [] if stored in own else [*space.location]
    for term in (space.value, *space.guards):
        places += [(t.buffer, t.indices) for t in walk(term) if isinstance(t, Load) and t.buffer in own]
        terms.append(rebuilt(term, lambda t: Number(0, t.element) if isinstance(t, Load) and t.buffer in own else None))
    rest = sums_in(terms)
    if rest is None:
        fixed |= own
        return None
    accesses: list[tuple[Buffer, tuple[Affine, ...]]] = []
    for buffer, indices in places:
        sums = [affine_of(t) for t in indices]
        told = tuple(a for a in sums if a is not None and a.names <= space.dims.keys())
        if len(told) < len(sums):
            fixed.add(buffer)
        accesses.append((buffer, told))
    return _Statement(tuple(accesses), tuple(rest))


def _ways(statements: Sequence[_Statement]) -> dict[Buffer, dict[Pair, frozenset[Whole]]]:
    """Per buffer the pairs of axes whose indices have their variables to themselves, and what they are as one."""
    uses: dict[Buffer, list[tuple[int, tuple[Affine, ...]]]] = {}
    for k, statement in enumerate(statements):
        for buffer, indices in statement.accesses:
            uses.setdefault(buffer, []).append((k, indices))
    found: dict[Buffer, dict[Pair, frozenset[Whole]]] = {}
    for buffer, accesses in uses.items():
        for pair in permutations(range(len(buffer.shape)), 2):
            wholes = [(k, _whole(buffer, pair, indices)) for k, indices in accesses]
            told = frozenset((k, w) for k, w in wholes if w is not None)
            if all(w is not None for _, w in wholes) and _both_vary(buffer, pair, accesses):
                found.setdefault(buffer, {})[pair] = told
    return found


def _whole(buffer: Buffer, pair: Pair, indices: Sequence[Affine]) -> Affine | None:
    """Two indices as one; None where they, or others, share a variable."""
    a, b = (indices[k] for k in pair)
    whole = a.times(buffer.shape[pair[1]]).plus(b)
    others = [i.names for k, i in enumerate(indices) if k not in pair]
    alone = whole.is_linear and not a.names & b.names and not any(names & whole.names for names in others)
    return whole if alone else None


def _both_vary(buffer: Buffer, pair: Pair, accesses: Sequence[tuple[int, tuple[Affine, ...]]]) -> bool:
    """Whether an access goes along both axes, where there is anywhere to go."""
    alone = any(buffer.shape[k] == 1 for k in pair)
    return alone or any(all(indices[k].terms for k in pair) for _, indices in accesses)


def _with_the_same(
    buffer: Buffer, pair: Pair, ways: Mapping[Buffer, Mapping[Pair, frozenset[Whole]]]
) -> dict[Buffer, Pair]:  # fmt: skip
    """A pair of axes, and those of other buffers that are the same as one in the same statements."""
    group, wholes = {buffer: pair}, set(ways[buffer][pair])
    before = 0
    while len(group) > before:
        before = len(group)
        for other, pairs in ways.items():
            same = next((p for p, told in pairs.items() if wholes & told), None) if other not in group else None
            if same is not None:
                group[other] = same
                wholes |= pairs[same]
    return group


def _fitting(own: Buffer, group: dict[Buffer, Pair], statements: Sequence[_Statement]) -> dict[Buffer, Pair]:
    """The buffers of a group whose two axes statements need as one only, if some have a use for that.

    None of them where the one that was asked for is not among them.
    """
    while True:
        lost: set[Buffer] = set()
        several = False
        for statement in statements:
            if not any(b in group for b, _ in statement.accesses):
                continue
            rest = [*statement.rest]
            wholes: list[tuple[Buffer, Affine]] = []
            for buffer, indices in statement.accesses:
                whole = _whole(buffer, group[buffer], indices) if buffer in group else None
                if whole is None:
                    rest += indices
                    continue
                wholes.append((buffer, whole))
                rest += [whole, *(a for k, a in enumerate(indices) if k not in group[buffer])]
            for buffer, whole in wholes:
                several |= any(_multiple(r, whole) and r.names & whole.names for r in statement.rest)
                lost |= set() if all(_multiple(r, whole) for r in rest) else {buffer}
            if own in lost:
                return {}
        if not lost:
            return group if several else {}
        group = {b: pair for b, pair in group.items() if b not in lost}


def _merged(buffer: Buffer, p: int, q: int) -> tuple[Buffer, int, int]:
    shape = list(buffer.shape)
    shape[q] *= shape[p]
    del shape[p]
    return replace(buffer, shape=tuple(shape), copies=_copies(buffer, p, q)), p, q


def _copies(buffer: Buffer, p: int, q: int) -> tuple[str, ...]:
    """The loops of which axes are copies, after p became a part of q: of none is what has the elements of both."""
    own = [*buffer.copies, *("" for _ in range(len(buffer.shape) - len(buffer.copies)))]
    kept = [own[k] for k, other in ((p, q), (q, p)) if buffer.shape[other] == 1]
    own[q] = kept[0] if kept else ""
    del own[p]
    return tuple(own) if buffer.copies else ()


def _multiple(a: Affine, whole: Affine) -> bool:
    """Whether a sum has the variables of another in that one's ratios."""
    own = dict(a.terms)
    pairs = [(own.get(n, 0), c) for n, c in whole.terms]
    # most have none of them
    if not any(x for x, _ in pairs):
        return True
    (x, c), *others = pairs
    return all(x * d == y * c for y, d in others)


def _changed(node: Node, found: Mapping[Buffer, tuple[Buffer, int, int]]) -> Node:
    def indices(old: Sequence[Term], size: int, p: int, q: int) -> tuple[Term, ...]:
        element = old[q].element
        outer = old[p] if old[p].element == element else Op("cast", (old[p],), element)
        whole = Op("plus", (Op("multiplies", (outer, Number(size, element)), element), old[q]), element)
        return tuple(whole if k == q else i for k, i in enumerate(old) if k != p)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in found:
            new, p, q = found[t.buffer]
            return Load(new, indices(t.indices, t.buffer.shape[q], p, q), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            new, p, q = found[n.buffer]
            places = indices(tuple(map(over, n.indices)), n.buffer.shape[q], p, q)
            return Store(new, places, over(n.value), tuple(map(over, n.guards)), n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
