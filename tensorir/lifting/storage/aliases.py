"""Storage under several names and types: one buffer for each, where that is what it is used as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.integers.affine import Affine, Ranges
from tensorir.integers.sets import isl
from tensorir.ir.types import INT32, INT64, Scalar
from tensorir.lifting.accesses.overlap import MOST_CONDITIONS, Seen, places, reads_under
from tensorir.lifting.accesses.sets import condition_text, conjuncts, domain, integer_set, text
from tensorir.lifting.nests.bounded import address, apart, bytes_of, plus, read, unsigned, write
from tensorir.lifting.nests.linear import linear, settled
from tensorir.lifting.nests.nest import (
    Check,
    External,
    Leaf,
    Loop,
    Node,
    Store,
    While,
    changed,
    common_loops,
    leaves,
    ranges_of,
)
from tensorir.lifting.nests.terms import Buffer, Index, Load, Number, Term, rebuilt, walk
from tensorir.runtime.errors import Span, refuse

# Storage that an iteration fills before it reads it.

_Place = tuple[Affine | None, ...]


def filled_first(buffer: Buffer, touching: Sequence[Leaf], depth: int) -> bool:
    """True if every read finds what an earlier store in the same iteration of the outer loops wrote.

    A store under a condition that data decide is none.
    """
    return all(
        not any(i is None for i in place) and _found(buffer, r, place, depth, touching)
        for r in touching
        for write, place in places(r, buffer)
        if not write
    )


def _found(buffer: Buffer, r: Leaf, place: _Place, depth: int, touching: Sequence[Leaf]) -> bool:
    """True if all iterations of a read find what was written before."""
    names = [f"{n}_r" for n in r.names]
    reading = domain(r, ranges_of(r.loops), (), "_r")
    missing = integer_set(names, reading.constraints)
    stores = [found for w in touching for found in _stores(buffer, r, place, depth, w, reading.names)]
    # the last store before a read is mostly the one that it finds
    for of_writer, constraints in reversed(stores):
        found = integer_set([*names, *of_writer], constraints)
        missing = missing.subtract(found.project_out(isl().dim_type.set, len(names), len(of_writer)))
        if missing.is_empty():
            return True
    chosen = _where_read(buffer, r, place, reading.names)
    if chosen is None:
        return bool(missing.is_empty())
    return all(missing.intersect(integer_set(names, told)).is_empty() for told in chosen)


def _where_read(buffer: Buffer, r: Leaf, place: _Place, names: Mapping[str, str]) -> list[list[str]] | None:
    """The conditions of the choices around each read of a place; None where they are too many."""
    node = r.node
    if not isinstance(node, Store):
        return None
    ranges, seen = ranges_of(r.loops), Seen()
    found: list[list[str]] = []
    for term in (node.value, *node.indices, *node.guards):
        for load, conditions in reads_under(term, (), seen):
            if load.buffer is buffer and tuple(linear(i, ranges) for i in load.indices) == place:
                parts = [p for c in conditions for p in conjuncts(settled(c, ranges))]
                told = [condition_text(p, names) for p in parts]
                found.append([t for t in told if t is not None])
    return None if any(len(sets) >= MOST_CONDITIONS for sets in seen.values()) else found


def _stores(
    buffer: Buffer, r: Leaf, read: _Place, depth: int, w: Leaf, of_reader: Mapping[str, str]
) -> list[tuple[list[str], list[str]]]:  # fmt: skip
    """The variables of a store, and when it wrote a read's place before, in the same iteration of the outer loops."""
    found: list[tuple[list[str], list[str]]] = []
    of_writer = [f"{n}_w" for n in w.names]
    common = common_loops(w, r)
    writing = domain(w, ranges_of(w.loops), (), "_w")
    for stores, stored in places(w, buffer):
        if not stores or not writing.exact or any(i is None for i in stored):
            continue
        orders: list[tuple[int, list[str]]] = []
        for k in range(depth, common):
            orders.append((k, [f"{w.loops[k].name}_w < {w.loops[k].name}_r"]))
        if w.place < r.place:
            orders.append((common, []))
        place = [
            f"{text(i, writing.names)} = {text(j, of_reader)}"
            for i, j in zip(stored, read, strict=True)
            if i is not None and j is not None
        ]
        for alike, order in orders:
            equal = [f"{loop.name}_w = {loop.name}_r" for loop in w.loops[:alike]]
            found.append((of_writer, [*writing.constraints, *place, *equal, *order]))
    return found


# Memory that is used as elements of several types: each part of it becomes buffers of the types that it is used as.
#
# Bytes that are only ever used as elements of one type are a buffer of that type; so are bytes that serve one type
# after the other, where each writes what it reads. Any other bytes are kept in units of the narrowest type that is
# stored: wider elements are put together of several units, narrower ones cut out of one.

Fresh = Callable[[str], str]


def unaliased(nodes: Sequence[Node], fresh: Fresh) -> list[Node]:
    """The nodes without views of another element type; `fresh` gives names that nothing has yet."""
    viewed = {b.root for leaf in leaves(nodes) for b in leaf.read | leaf.written if b.memory is not None}
    if not viewed:
        return list(nodes)
    found: dict[Buffer, list[Access]] = {}
    for access in _accesses(nodes):
        if access.buffer.root in viewed:
            found.setdefault(access.buffer.root, []).append(access)
    parts = {root: _parts(root, accesses, fresh) for root, accesses in found.items()}
    made = _Rewriting(parts, fresh).over(nodes)
    for root, (part, *_) in parts.items():
        if root.argument and part.unit is not root:
            made = [_unpacked(root, part.unit), *made, _packed(root, part.unit)]
    return made


# What is used as what


@dataclass(frozen=True, slots=True)
class Access:
    """The bytes that a statement may touch through a buffer; `opaque` where it is told only that it does."""

    buffer: Buffer
    start: int
    stop: int
    write: bool
    leaf: Leaf
    opaque: bool


def _size(buffer: Buffer) -> int:
    total = bytes_of(buffer.element)
    for extent in buffer.shape:
        total *= extent
    return total


def _address(buffer: Buffer, indices: Sequence[Term]) -> Term:
    return indices[0] if buffer.memory is not None else address(indices, buffer.shape)


def _bytes(buffer: Buffer, indices: Sequence[Term], ranges: Ranges) -> tuple[int, int]:
    """The bytes of the memory between which an element lies."""
    size, width = _size(buffer.root), bytes_of(buffer.element)
    place = linear(_address(buffer, indices), ranges)
    spread = None if place is None else place.range(ranges)
    if spread is None:
        return 0, size
    # what lies outside of the memory counts as its first, or last, element: it is an error that is told elsewhere
    last = max(size // width - 1, 0)
    low, high = (min(max(at, 0), last) for at in spread)
    return low * width, (high + 1) * width


def _accesses(nodes: Sequence[Node], loops: tuple[Loop, ...] = (), top: Leaf | None = None) -> Iterator[Access]:
    for leaf in leaves(nodes, loops):
        ranges, node = ranges_of(leaf.loops), leaf.node
        shown, opaque = top or leaf, top is not None or not isinstance(node, Store | Check)
        if isinstance(node, Store):
            yield Access(node.buffer, *_bytes(node.buffer, node.indices, ranges), True, shown, opaque)
        terms = _terms(node)
        for loop in leaf.loops[len(loops) :]:
            terms += [loop.low, loop.extent]
        for load in {t: None for term in terms for t in walk(term) if isinstance(t, Load)}:
            yield Access(load.buffer, *_bytes(load.buffer, load.indices, ranges), False, shown, opaque)
        match node:
            case While():
                yield from _accesses(node.body, leaf.loops, shown)
            case External(_, reads, writes):
                for buffer in (*reads, *writes):
                    yield Access(buffer, 0, _size(buffer.root), buffer in writes, shown, True)
            case _:
                pass


def _terms(node: Node) -> list[Term]:
    match node:
        case Store(_, indices, value, guards):
            return [*indices, value, *guards]
        case Check(condition, _, guards) | While(condition, _, guards):
            return [condition, *guards]
        case External():
            return list(node.guards)
        case Loop():
            return []


# Parts of a memory


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a memory, and the buffer that keeps them from one moment at a level to another, `last` included.

    A statement reads at one moment and writes at the next.
    """

    start: int
    stop: int
    unit: Buffer
    level: int = 0
    first: int = 0
    last: int | None = None

    def holds(self, byte: int, place: tuple[int, ...], write: bool) -> bool:
        if not self.start <= byte < self.stop:
            return False
        return self.last is None or self.first <= _moment(place, self.level, write) <= self.last


def _moment(place: tuple[int, ...], level: int, write: bool) -> int:
    return 2 * place[level] + write


def _parts(root: Buffer, accesses: Sequence[Access], fresh: Fresh) -> list[Part]:
    if root.argument or root.value is not None:
        return [Part(0, max(_size(root), 1), _kept(root, accesses, fresh))]
    found: list[Part] = []
    for start, stop, members in _components(accesses):
        elements = {a.buffer.element for a in members}
        if len(elements) == 1:
            found.append(Part(start, stop, _unit(root, members[0].buffer, start, stop, fresh)))
            continue
        found += _in_turn(root, start, stop, members, fresh) or [_mixed(root, start, stop, members, fresh)]
    return found


def _components(accesses: Sequence[Access]) -> list[tuple[int, int, list[Access]]]:
    """The accesses by bytes that have nothing in common."""
    found: list[tuple[int, int, list[Access]]] = []
    for access in sorted(accesses, key=lambda a: a.start):
        if found and access.start < found[-1][1]:
            start, stop, members = found[-1]
            found[-1] = (start, max(stop, access.stop), [*members, access])
        else:
            found.append((access.start, access.stop, [access]))
    return found


def _unit(root: Buffer, view: Buffer, start: int, stop: int, fresh: Fresh) -> Buffer:
    count = -(-(stop - start) // bytes_of(view.element))
    return Buffer(
        fresh(view.name),
        view.element,
        (count,),
        span=view.span,
        private=root.private,
        apart=root.apart,
        exact=root.exact,
    )


def _stored(accesses: Sequence[Access]) -> list[Scalar]:
    """The types that are stored, narrowest first."""
    return sorted({a.buffer.element for a in accesses if a.write}, key=lambda e: (bytes_of(e), e.name))


def _kept(root: Buffer, accesses: Sequence[Access], fresh: Fresh) -> Buffer:
    """The storage of an argument: itself, or bytes copied from it and back where narrower elements are stored."""
    narrowest = bytes_of(root.element)
    for element in _stored(accesses):
        narrowest = min(narrowest, bytes_of(element))
    if narrowest == bytes_of(root.element):
        return root
    element = unsigned(next(e for e in _stored(accesses) if bytes_of(e) == narrowest))
    return Buffer(fresh(f"{root.name}_parts"), element, (_size(root) // narrowest,), span=root.span, exact=root.exact)


def _mixed(root: Buffer, start: int, stop: int, accesses: Sequence[Access], fresh: Fresh) -> Part:
    stored = _stored(accesses) or [root.element]
    # bits that are no numbers of a float's type do not survive as such on every machine: integers keep them
    element = stored[0] if len(stored) == 1 else unsigned(stored[0])
    start -= start % 8
    count = -(-(stop - start) // bytes_of(element))
    unit = Buffer(
        fresh(root.name), element, (count,), span=root.span, private=root.private, apart=root.apart, exact=root.exact
    )
    return Part(start, stop, unit)


def _in_turn(root: Buffer, start: int, stop: int, accesses: Sequence[Access], fresh: Fresh) -> list[Part] | None:
    """Buffers for types that use the same bytes one after the other; None where one may read what another wrote."""
    if any(a.opaque for a in accesses):
        return None
    statements = list({a.leaf.place: a.leaf for a in accesses}.values())
    level = 0
    while all(len(s.loops) > level and s.loops[level] is statements[0].loops[level] for s in statements):
        level += 1
    used: dict[int, set[Scalar]] = {}
    for access in accesses:
        used.setdefault(_moment(access.leaf.place, level, access.write), set()).add(access.buffer.element)
    if any(len(elements) > 1 for elements in used.values()):
        return None
    for at in {s.place[level] for s in statements}:
        if used.get(2 * at, used.get(2 * at + 1)) != used.get(2 * at + 1, used.get(2 * at)):
            # one type is read and another written: only what reads everything before it writes anything does so
            here = [s for s in statements if s.place[level] == at]
            if len(here) > 1 or not all(loop.lockstep for loop in here[0].loops[level:]):
                return None
    found: list[Part] = []
    for moment, (element,) in sorted(used.items()):
        if found and found[-1].unit.element == element:
            found[-1] = replace(found[-1], last=moment)
        else:
            view = next(a.buffer for a in accesses if _moment(a.leaf.place, level, a.write) == moment)
            found.append(Part(start, stop, _unit(root, view, start, stop, fresh), level, moment, moment))
    rewriting = _Rewriting({root: found}, fresh)
    for part in found:
        inside = {a.leaf.place: a.leaf for a in accesses if part.holds(start, a.leaf.place, a.write)}
        alone = [_with_copies(rewriting.leaf(s), part.unit) for s in inside.values()]
        if not filled_first(part.unit, alone, level):
            return None
    return found


def _with_copies(leaf: Leaf, unit: Buffer) -> Leaf:
    """The statement with a dim for each loop whose iterations have a copy of their own of a buffer."""
    own = tuple(Index(name, INT32) for name in unit.private)

    def rule(t: Term) -> Term | None:
        return Load(unit, (*own, *t.indices), t.span) if isinstance(t, Load) and t.buffer is unit else None

    node = changed(
        leaf.node, lambda t: rebuilt(t, rule), lambda n: n, lambda b: b, lambda b: own if b is unit else ()
    )  # fmt: skip
    assert isinstance(node, Store | Check)
    return Leaf(node, leaf.loops, leaf.place)


# Nodes


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """Accesses through views as accesses of the parts of their memories."""

    parts: Mapping[Buffer, Sequence[Part]]
    fresh: Fresh

    def over(self, nodes: Sequence[Node], loops: tuple[Loop, ...] = (), place: tuple[int, ...] = ()) -> list[Node]:
        found: list[Node] = []
        for k, node in enumerate(nodes):
            found += self.node(node, loops, (*place, k))
        return found

    def leaf(self, leaf: Leaf) -> Leaf:
        """A statement; of a wide store the first part, which touches the same bytes as all."""
        match self.node(leaf.node, leaf.loops, leaf.place):
            case [Store() | Check() as node]:
                return Leaf(node, leaf.loops, leaf.place)
            case other:
                raise AssertionError(other)

    def part(
        self, buffer: Buffer, indices: Sequence[Term], ranges: Ranges, place: tuple[int, ...], write: bool
    ) -> Part | None:  # fmt: skip
        """The new target of an access, None if it stays as it is."""
        byte, _ = _bytes(buffer, indices, ranges)
        return next((p for p in self.parts.get(buffer.root, ()) if p.holds(byte, place, write)), None)

    def node(self, node: Node, loops: tuple[Loop, ...], place: tuple[int, ...]) -> list[Node]:
        ranges = ranges_of(loops)

        def rule(t: Term) -> Term | None:
            part = self.part(t.buffer, t.indices, ranges, place, False) if isinstance(t, Load) else None
            if part is None or not isinstance(t, Load):
                return None
            where = plus(_address(t.buffer, t.indices), -(part.start // bytes_of(t.element)))
            return read(part.unit, where, t.element, t.span)

        def over(t: Term) -> Term:
            return rebuilt(t, rule)

        match node:
            case Loop():
                bounds = over(node.low), over(node.extent)
                inner = self.over(node.body, (*loops, node), place)
                bodies = [(n,) for n in inner] if node.lockstep else [tuple(inner)]
                return [replace(node, low=bounds[0], extent=bounds[1], body=body) for body in bodies]
            case Store(buffer, indices) if (part := self.part(buffer, indices, ranges, place, True)) is not None:
                return self._store(node, part, over, loops)
            case While(condition, body, guards, span, most):
                inside = [made for node in body for made in self.node(node, loops, place)]
                return [While(over(condition), tuple(inside), tuple(map(over, guards)), span, most)]
            case External(title, reads, writes):
                if any(b.root in self.parts for b in (*reads, *writes)):
                    message = f"{title!r} takes a buffer whose memory is used as elements of several types."
                    raise refuse("TL01", message, "give the buffer memory of its own.", at=node.span)
                return [replace(node, guards=tuple(map(over, node.guards)))]
            case _:
                return [changed(node, over, lambda n: n, lambda b: b, lambda b: ())]

    def _store(
        self, node: Store, part: Part, over: Callable[[Term], Term], loops: tuple[Loop, ...]
    ) -> list[Node]:  # fmt: skip
        ranges = ranges_of(loops)
        offset = -(part.start // bytes_of(node.buffer.element))
        where = plus(over(_address(node.buffer, node.indices)), offset)
        value, guards = over(node.value), tuple(map(over, node.guards))
        before: list[Node] = []
        if bytes_of(node.buffer.element) > bytes_of(part.unit.element):
            # all of a wide element is read before any part of it is written
            kept: list[Term] = []
            for term in (where, value):
                if any(isinstance(t, Load) and t.buffer is part.unit for t in walk(term)):
                    term, keep = _kept_once(self.fresh("wide"), term, loops, ranges, node.span)
                    before.append(keep)
                kept.append(term)
            where, value = kept
        made = write(part.unit, where, value, guards, node.span, self.fresh("part"))
        return [*before, replace(made, atomic=node.atomic, stretch=node.stretch) if isinstance(made, Store) else made]


def _kept_once(name: str, value: Term, loops: Sequence[Loop], ranges: Ranges, span: Span) -> tuple[Term, Node]:
    """A value that is computed once per iteration, and the store that keeps it."""
    around = tuple(loop.name for loop in loops)
    shape = tuple(ranges[n][1] - ranges[n][0] + 1 for n in around)
    unit = Buffer(name, value.element, shape, span=span, loops=around)
    indices = tuple(plus(Index(n, INT32), -ranges[n][0]) for n in around)
    return Load(unit, indices), Store(unit, indices, value, (), span)


# Arguments that narrower elements are stored into


def _each(root: Buffer, body: Callable[[Term], Node]) -> Node:
    count = _size(root) // bytes_of(root.element)
    one = body(Index("element", INT64))
    return Loop("element", Number(0, INT64), Number(count, INT64), (one,), True, root.span, "element")


def _unpacked(root: Buffer, parts: Buffer) -> Node:
    def body(at: Term) -> Node:
        return write(parts, at, Load(root, apart(at, root.shape), root.span), (), root.span, "part")

    return _each(root, body)


def _packed(root: Buffer, parts: Buffer) -> Node:
    def body(at: Term) -> Node:
        return Store(root, apart(at, root.shape), read(parts, at, root.element, root.span), (), root.span)

    return _each(root, body)
