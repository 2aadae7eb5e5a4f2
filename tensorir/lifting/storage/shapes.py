"""Flat storage gets its axes back: what every access takes apart in one way is as many dims.

`T[i * 12 + j]` and `T[k * 12 + j + r]`, wherever they stand, are `T[i, j]` and `T[k, j + r]` of a buffer of rows of 12.
What no access touches, such as the end of rows that are longer than needed, is no part of the storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, reduce
from itertools import combinations, pairwise
from math import gcd

from tensorir.integers.affine import Affine, Quotient, number, quotient, remainder, variable
from tensorir.ir.types import BOOL, INT64, Interval
from tensorir.lifting.accesses.sets import conjuncts
from tensorir.lifting.accesses.space import Space, digits
from tensorir.lifting.nests.bounded import by_multiple, sums_bounded
from tensorir.lifting.nests.linear import Ranges, affine_of, term_of
from tensorir.lifting.nests.nest import Check, Leaf, Node, Store, leaves
from tensorir.lifting.nests.terms import Buffer, Linear, Load, Number, Op, Term, rebuilt, sums_in, walk
from tensorir.lifting.nests.unknowns import NO_FACTS, Parts, narrowed, told
from tensorir.lifting.storage.copies import changed, whole_space
from tensorir.runtime.memory import remembered

__all__ = ["trimmed", "with_axes"]

_ASKED = Buffer("asked", BOOL, ())
"""Where the answer of a check would go."""

MOST_ROUNDS = 8
MOST_AXES = 4
MOST_PARTS = 8
"""In how many parts of a box a term is looked at by itself."""


def with_axes(nodes: Sequence[Node], every: bool = False) -> tuple[Node, ...]:
    """The nodes with flat buffers of their own, or flat axes of `every` one, in the shape in which they are used.

    A buffer with axes shows those of what is made of it, or what it is made of.
    """
    nodes = tuple(nodes)
    for _ in range(MOST_ROUNDS):
        found = _with_axes(nodes, every)
        if not found:
            return nodes
        nodes = tuple(_changed(node, found) for node in nodes)
    return nodes


def _with_axes(nodes: Sequence[Node], every: bool) -> dict[Buffer, tuple[Buffer, tuple[tuple[int, ...], ...]]]:
    """The buffers that have more axes than they say, with these, and how each axis is taken apart."""
    found: dict[Buffer, tuple[Buffer, tuple[tuple[int, ...], ...]]] = {}
    uses: dict[Buffer, list[_Use]] = {}
    for leaf in _needed(leaves(nodes)):
        _collect(leaf, uses, _chosen_reads)
    for buffer, accesses in uses.items():
        if not every and len(buffer.shape) > 1:
            continue
        own = [*buffer.copies, *("" for _ in buffer.shape)]
        places = [[(indices[k], space, reads) for indices, space, reads in accesses] for k in range(len(buffer.shape))]
        split = tuple(
            (size, ())
            if own[k] or (len(buffer.shape) > 1 and not any(_mixed(a, space) for a, space, _ in places[k]))
            else _split_up(size, places[k])
            for k, size in enumerate(buffer.shape)
        )
        radices = tuple(by for _, by in split)
        if any(radices):
            shape = [a // b for size, by in split for a, b in pairwise((size, *by, 1))]
            copies = tuple(n for n, by in zip(buffer.copies, radices, strict=False) for n in (n, *("" for _ in by)))
            found[buffer] = (replace(buffer, shape=tuple(shape), copies=copies), radices)
    return found


def _needed(statements: Sequence[Leaf]) -> list[Leaf]:
    """The statements on which something depends: not those that fill storage that nothing reads."""
    pending, kept = list(statements), list[Leaf]()
    wanted: set[Buffer] = set()
    while True:
        new = [x for x in pending if not x.written or any(b in wanted or not _own(b) for b in x.written)]
        if not new:
            return kept
        kept += new
        pending = [x for x in pending if x not in new]
        wanted |= {b for x in new for b in x.read}


def _own(buffer: Buffer) -> bool:
    """Whether a buffer is storage of the program's own that lives longer than an iteration."""
    return not buffer.argument and not buffer.loops and buffer.value is None


_Use = tuple[tuple[Affine | None, ...], Space | None, bool]
"""An access: its indices where they are sums, the box that they run over, and whether it reads."""


def _collect(
    leaf: Leaf, uses: dict[Buffer, list[_Use]], reads: Callable[[Space], Iterable[tuple[Load, Space]]]
) -> None:
    """Every access of the program's own buffers, of which `reads` are a statement's."""
    node = leaf.node
    space = _space(leaf)
    loads = [] if space is None else list(reads(space))
    for buffer in filter(_own, leaf.written | leaf.read):
        places = uses.setdefault(buffer, [])
        if space is None:
            places.append((tuple(None for _ in buffer.shape), None, True))
            continue
        if isinstance(node, Store) and node.buffer is buffer:
            stored, part = _by_sums(Load(buffer, tuple(space.location)), space, space.guards)
            places.append((tuple(map(affine_of, stored.indices)), part, False))
        places += [(tuple(map(affine_of, t.indices)), part, True) for t, part in loads if t.buffer is buffer]


def _every_read(space: Space) -> Iterator[tuple[Load, Space]]:
    """What a statement reads, wherever in its box."""
    return ((t, space) for term in space.terms() for t in walk(term) if isinstance(t, Load))


def _chosen_reads(space: Space) -> Iterator[tuple[Load, Space]]:
    """What a statement reads, and the part of its box where it reads that: choices bound what they read."""
    pending: list[tuple[Term, Space, tuple[Term, ...]]] = [(t, space, space.guards) for t in space.terms()]
    parts: dict[int, list[Space]] = {}
    while pending:
        term, part, held = pending.pop()
        before = parts.setdefault(id(term), [])
        if len(before) >= MOST_PARTS:
            part, held = space, space.guards  # what many choices share is looked at once for all of them
        if any(part.dims == other.dims for other in before):
            continue
        before.append(part)
        match term:
            case Op("if", (condition, *branches)):
                pending.append((condition, part, held))
                for branch, holds in zip(branches, (True, False), strict=True):
                    inside = _where(condition, part, holds)
                    here = (*held, *conjuncts(condition)) if holds else held
                    pending += [] if inside is None else [(branch, inside, here)]
            case Op(_, args):
                pending += [(a, part, held) for a in args]
            case Load(_, indices):
                yield _by_sums(term, part, held)
                pending += [(i, part, held) for i in indices]
            case _:
                pass


def _by_sums(load: Load, space: Space, held: Sequence[Term]) -> tuple[Load, Space]:
    """An access at quotients, or at what is chosen or told by data, with each part of that as a variable of its own.

    What has no bounds is where the place lies inside of the buffer: anywhere else the read is an error.
    """
    bounded = sums_bounded(held, space.ranges)
    if not bounded and all(a is not None and a.is_linear for a in map(affine_of, load.indices)):
        return load, space
    facts = NO_FACTS
    for condition in held:
        facts = told(condition, facts, True)
    parts = Parts(dict(space.ranges), facts, anything=True)
    known = {f" sum {k}": spread for k, spread in enumerate(bounded.values())}
    indices: list[Term] = []
    for term, extent in zip(load.indices, load.buffer.shape, strict=True):
        a = affine_of(term) or (_inside(term, extent, parts) if term.element.is_integer else None)
        if a is not None:
            for name, one in zip(known, bounded, strict=True):
                a = by_multiple(a, one, name)
            term = term_of(_with_names(a, parts), term.element)
        indices.append(term)
    known |= {name: parts.ranges[name] for name in parts.names.values() if name in parts.ranges}
    dims = {name: Interval(low, high + 1) for name, (low, high) in known.items()}
    return Load(load.buffer, tuple(indices), load.span), replace(space, dims={**space.dims, **dims})


def _with_names(a: Affine, parts: Parts) -> Affine:
    """A sum of quotients, each under a name of its own, where these have bounds and say nothing of the rest.

    Quotients of the same variables, and what else has these, are under one name.
    """
    named = a
    for part in (p for one in _components(a) for p in _digits(one, parts.ranges)):
        if part.is_linear:
            continue
        spread = part.range(parts.ranges)
        if spread is not None:
            factor = gcd(*(c for _, c in part.terms)) * (-1 if spread[1] <= 0 else 1)
            one = Affine(tuple((t, c // factor) for t, c in part.terms))
            name = parts.names.setdefault(Linear(one, INT64), f" {len(parts.names)}")
            low, high = sorted(v // factor for v in spread)
            parts.ranges[name] = low, high
            named = named.minus(part).plus(variable(name).times(factor))
    return named


def _digits(a: Affine, ranges: Ranges) -> list[Affine]:
    """The multiples of digits of one variable that a sum adds up, or the sum alone: `t + 34 (t // 2) - 576 (t // 32)`
    is `t % 2` and 36 times `t // 2 % 16`.
    """
    steps: dict[int, int] = {}
    for atom, c in a.terms:
        match atom:
            case Quotient(inner, by) if inner.is_linear and len(inner.names) == 1 and inner == variable(*inner.names):
                steps[by] = c
            case str():
                steps[1] = c
            case _:
                return [a]
    order = sorted(steps)
    if len(a.names) != 1 or a.constant or any(b % c for c, b in pairwise(order)):
        return [a]
    (name,) = a.names
    rest, found = variable(name), list[Affine]()
    before, left = 1, 0
    for by, more in zip(order, (*order[1:], None), strict=True):
        rest, left = quotient(rest, by // before, ranges), left * (by // before) + steps[by]
        before = by
        digit = rest if more is None else remainder(rest, more // by, ranges)
        found += [digit.times(left)] if left else []
    return found


def _components(a: Affine) -> list[Affine]:
    """The parts of a sum that share no variable."""
    found: list[Affine] = []
    for term in a.terms:
        one = Affine((term,))
        same = [p for p in found if p.names & one.names]
        found = [p for p in found if p not in same]
        found.append(reduce(Affine.plus, same, one))
    return found


def _inside(term: Term, extent: int, parts: Parts) -> Affine | None:
    """An index as a sum of parts with bounds; None where more than one has none."""
    a = parts.sum_of(term)
    if a is None:
        return None
    match [(n, c) for n, c in a.terms if isinstance(n, str) and n not in parts.ranges]:
        case []:
            return a
        case [(name, c)] if c > 0:
            rest = Affine(tuple(t for t in a.terms if t[0] != name), a.constant).range(parts.ranges)
            if rest is None:
                return None
            low, high = -(rest[1] // c), (extent - 1 - rest[0]) // c
            parts.ranges[name] = (low, max(low, high))
            return a
        case _:
            return None


def _where(condition: Term, space: Space, holds: bool) -> Space | None:
    """The part of a box where a condition holds, or does not; None where that is nowhere."""
    ranges = narrowed(condition, space.ranges, holds)
    if ranges is None:
        return None
    dims = {n: Interval(ranges[n][0], ranges[n][1] + 1) for n in space.dims}
    return space if dims == dict(space.dims) else replace(space, dims=dims)


def _space(leaf: Leaf) -> Space | None:
    """The iterations of a store, or a check, as a box; values that live for one iteration say nothing about dims."""
    node = leaf.node
    if isinstance(node, Check):
        node = _asking(node)
        leaf = replace(leaf, node=node)
    if not isinstance(node, Store):
        return None
    lives = any(b.loops for b in leaf.written | leaf.read)
    return whole_space(replace(leaf, node=_lasting(node)) if lives else leaf)


@remembered("facts of nests", limit=1024)
def _asking(check: Check) -> Store:
    """A check as a store of its condition."""
    return Store(_ASKED, (), check.condition, check.guards, check.span)


@remembered("facts of nests", limit=1024)
def _lasting(node: Store) -> Store:
    """A store without the values that live for one iteration."""

    def bare(t: Term) -> Term | None:
        return Number(0, t.buffer.element) if isinstance(t, Load) and t.buffer.loops else None

    indices = () if node.buffer.loops else tuple(rebuilt(i, bare) for i in node.indices)
    guards = tuple(rebuilt(g, bare) for g in node.guards)
    return replace(node, indices=indices, value=rebuilt(node.value, bare), guards=guards)


_Place = tuple[Affine | None, Space | None, bool]
"""One index of an access, the box that it runs over, and whether it reads."""


def _split_up(size: int, accesses: Sequence[_Place]) -> tuple[int, tuple[int, ...]]:
    """The size and the radices of a flat axis, no radices if it is none.

    It may end where its last access does, or with the last row that an access reaches.
    """
    if found := _radices(size, accesses):
        return size, found
    spans = [None if a is None or space is None else a.range(space.ranges) for a, space, _ in accesses]
    inside = [s for s in spans if s is not None and s[0] >= 0 and s[1] < size]
    if len(inside) < len(spans) or not inside:
        return size, ()
    end = max(high for _, high in inside) + 1
    steps = {abs(c) for a, _, _ in accesses if a is not None for _, c in a.terms if 1 < abs(c) < end}
    for extent in dict.fromkeys((end, *(-(-end // by) * by for by in sorted(steps, reverse=True)))):
        if found := _radices(extent, accesses):
            return extent, found
    return size, ()


def _radices(size: int, accesses: Sequence[_Place]) -> tuple[int, ...]:
    """The fewest radices with which every access is a dim, or a window, per axis: without a split of dims, if can be.

    Else the fewest with which it is a number there, else the most with which it is any sum.
    """
    coefficients: set[int] = set()
    known: list[tuple[Affine, Space, bool]] = []
    for a, space, reads in accesses:
        if a is None or space is None or not a.is_linear:
            return ()
        coefficients |= {abs(c) for _, c in a.terms if abs(c) > 1}
        known.append((a, space, reads))
    candidates = sorted((c for c in coefficients if size % c == 0), reverse=True)[:8]

    @cache
    def boxes(chosen: tuple[int, ...]) -> list[tuple[Affine, Space]]:
        """The accesses: what is stored axis by axis may be read in windows that are split, and nothing else."""
        axes = all(_fits_as_sums(a, chosen, space) for a, space, reads in known if not reads)
        return [(a, _box_of(space) if reads and axes else space) for a, space, reads in known]

    few = range(1, MOST_AXES)
    ways = [(fits, count) for fits in (_fits_unsplit, _fits) for count in few]
    ways += [(fits, count) for fits in (_fits_as_numbers, _fits_as_split_numbers) for count in few]
    ways += [(_fits_as_sums, count) for count in reversed(few)]
    for fits, count in ways:
        for chosen in combinations(candidates, count):
            if all(a % b == 0 for a, b in pairwise(chosen)) and all(fits(a, chosen, x) for a, x in boxes(chosen)):
                return chosen
    return ()


def _box_of(space: Space) -> Space:
    """A space without what it computes."""
    return replace(space, location=(), value=Number(0, INT64), guards=())


def _mixed(a: Affine | None, space: Space | None) -> bool:
    """Whether an index is a mixed-radix number: only such ones tell that an axis is several."""
    return a is not None and space is not None and len(digits(a.plus(number(-a.constant)), space.dims) or ()) > 1


def _fits_unsplit(a: Affine, radices: Sequence[int], space: Space) -> bool:
    return all(_plain(p, space) and not _parted(p, space.ranges) for p in apart(a, radices, space.ranges))


def _fits(a: Affine, radices: Sequence[int], space: Space) -> bool:
    return all(
        (_plain(p, space) if p.is_linear else _splits(p, space)) and not _parted(p, space.ranges)
        for p in apart(a, radices, space.ranges)
    )


def _parted(a: Affine, ranges: Ranges) -> bool:
    """Whether a sum is one of multiples of a number and of what is less than that: a dim of either tells them apart."""
    for by in {abs(c) for _, c in a.terms} - {1}:
        fine = Affine(tuple(t for t in a.terms if t[1] % by))
        spread = fine.range(ranges)
        if fine.terms and (spread is None or spread[1] - spread[0] < by):
            return True
    return False


def _splits(a: Affine, space: Space) -> bool:
    """Whether the quotients of an index are of dims that can be split there."""
    for atom, _ in a.terms:
        if isinstance(atom, Quotient):
            name = next(iter(atom.inner.names), "")
            inside = space.dims.get(name)
            alone = atom.inner == variable(name)
            if inside is None or not alone or inside.start % atom.by or inside.stop % atom.by:
                return False
            if _in_window(name, space):
                return False
    return True


def _in_window(name: str, space: Space) -> bool:
    """Whether what is stored depends on a sum in which a dim and another one reach as far as a step of the other."""
    for a in sums_in((space.value, *space.guards)) or ():
        reach = {n: abs(c) * (len(space.dims[n]) - 1) for n, c in a.terms if isinstance(n, str) and n in space.dims}
        if name in reach and any(
            n != name and reach[n] >= abs(a.coefficient(name)) and reach[name] >= abs(a.coefficient(n)) for n in reach
        ):
            return True
    return False


def _fits_as_numbers(a: Affine, radices: Sequence[int], space: Space) -> bool:
    return all(
        _plain(p, space) and (digits(p, space.dims) is not None or all(abs(c) == 1 for _, c in p.terms))
        for p in apart(a, radices, space.ranges)
    )


def _fits_as_split_numbers(a: Affine, radices: Sequence[int], space: Space) -> bool:
    parts = apart(a, radices, space.ranges)
    return all(_splits(p, space) if not p.is_linear else _fits_as_numbers(p, (), space) for p in parts)


def _fits_as_sums(a: Affine, radices: Sequence[int], space: Space) -> bool:
    return all(_plain(p, space) for p in apart(a, radices, space.ranges))


def _plain(a: Affine, space: Space) -> bool:
    return a.is_linear and a.names <= space.dims.keys()


def apart(a: Affine, radices: Sequence[int], ranges: Ranges) -> list[Affine]:
    """A flat index as one index per axis."""
    found: list[Affine] = []
    for radix in radices:
        found.append(quotient(a, radix, ranges))
        a = remainder(a, radix, ranges)
    return [*found, a]


def trimmed(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with buffers of their own no larger than what is read of them."""
    uses: dict[Buffer, list[_Use]] = {}
    for leaf in _needed(leaves(nodes)):
        _collect(leaf, uses, _every_read)
    touched: dict[Buffer, list[tuple[int, int] | None]] = {}
    for buffer, accesses in uses.items():
        flat = len(buffer.shape) == 1
        if flat and any(a is None or not a.is_linear or _mixed(a, space) for (a,), space, _ in accesses):
            continue  # it may have axes, also when what is read through it is known
        for indices, space, _ in [use for use in accesses if use[2]] or accesses:
            spans = [None if a is None or space is None else a.range(space.ranges) for a in indices]
            before = touched.setdefault(buffer, spans)
            touched[buffer] = [_hull(x, y) for x, y in zip(before, spans, strict=True)]
    found: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
    for buffer, spans in touched.items():
        known = [s or (0, e - 1) for s, e in zip(spans, buffer.shape, strict=True)]
        inside = [(max(low, 0), min(high, e - 1)) for (low, high), e in zip(known, buffer.shape, strict=True)]
        shape = tuple(max(high - low + 1, 0) for low, high in inside)
        if shape != buffer.shape and all(shape):
            found[buffer] = (replace(buffer, shape=shape), tuple(low for low, _ in inside))
    if not found:
        return tuple(nodes)
    held = {id(leaf.node) for leaf in leaves(nodes) if leaf.written & found.keys() and _held(leaf, found)}
    return tuple(_moved(node, found, held) for node in nodes)


def _held(leaf: Leaf, found: Mapping[Buffer, tuple[Buffer, tuple[int, ...]]]) -> bool:
    """Whether a store stays inside of a buffer that became smaller by the conditions that it has."""
    space = whole_space(leaf)
    if not isinstance(leaf.node, Store):
        return False
    new, lows = found[leaf.node.buffer]
    sums = [affine_of(t) for t in space.location]
    spans = [None if a is None else a.range(space.ranges) for a in sums]
    return all(
        s is not None and low <= s[0] and s[1] < low + extent
        for s, low, extent in zip(spans, lows, new.shape, strict=True)
    )


def _hull(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _within(places: Sequence[Term], extents: Sequence[int], before: Sequence[int]) -> Iterator[Term]:
    """That places lie inside of a buffer that became smaller."""
    for place, extent, old in zip(places, extents, before, strict=True):
        if extent < old:
            yield Op("greater_equal", (place, Number(0, place.element)), BOOL)
            yield Op("less", (place, Number(extent, place.element)), BOOL)


def _moved(node: Node, found: Mapping[Buffer, tuple[Buffer, tuple[int, ...]]], held: Set[int]) -> Node:
    def indices(old: Sequence[Term], lows: Sequence[int]) -> tuple[Term, ...]:
        pairs = zip(old, lows, strict=True)
        return tuple(Op("minus", (i, Number(low, i.element)), i.element) if low else i for i, low in pairs)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in found:
            new, lows = found[t.buffer]
            return Load(new, indices(t.indices, lows), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            new, lows = found[n.buffer]
            places = indices(tuple(map(over, n.indices)), lows)
            inside = () if id(n) in held else _within(places, new.shape, n.buffer.shape)
            guards = (*map(over, n.guards), *inside)
            return Store(new, places, over(n.value), guards, n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)


def _changed(node: Node, found: Mapping[Buffer, tuple[Buffer, tuple[tuple[int, ...], ...]]]) -> Node:
    def indices(old: Sequence[Term], radices: Sequence[tuple[int, ...]]) -> tuple[Term, ...]:
        terms: list[Term] = []
        for flat, by in zip(old, radices, strict=True):
            rest = flat
            for radix in by:
                size = Number(radix, flat.element)
                terms.append(Op("floordiv", (rest, size), flat.element))
                rest = Op("mod", (rest, size), flat.element)
            terms.append(rest)
        return tuple(terms)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in found:
            new, radices = found[t.buffer]
            return Load(new, indices(t.indices, radices), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            new, radices = found[n.buffer]
            places = indices([over(i) for i in n.indices], radices)
            return Store(new, places, over(n.value), tuple(map(over, n.guards)), n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
