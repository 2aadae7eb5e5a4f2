"""Statements that a loop was unrolled into, as that loop again.

Loops that were unrolled: statements in a row that differ in whole numbers, which grow by the same, are a loop.

    B[0] = A[3]; B[1] = A[5]; B[2] = A[7]   →   for t in range(3): B[t] = A[2·t + 3]

Iterations come in the order of the text, so nothing has to be known of what they do. Rows are found from the shortest
up, and what was found may repeat: of a product that was unrolled whole, the innermost loop comes first. A value that a
copy keeps for itself (`v = A[3]; A[3] = v·v`) is then one for each iteration.

>>> from tensorir.lifting.nests.terms import Buffer, show
>>> a, b = Buffer("A", INT32, (9,)), Buffer("B", INT32, (9,))
>>> def copy(k):
...     return Store(b, (Number(k, INT32),), Load(a, (Number(2 * k + 3, INT32),)))
>>> (loop,) = rolled([copy(k) for k in range(3)])
>>> (store,) = loop.body
>>> loop.name, loop.extent.value, show(store.indices[0]), show(store.value)
('copy_1', 3, 'copy_1', 'A[copy_1*2 + 3]')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from tensorir.integers.affine import Affine, Quotient, number, variable
from tensorir.ir.build import fresh
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.accesses.sets import condition_text, decided, domain, integer_set
from tensorir.lifting.nests.linear import affine_of, settled, term_of
from tensorir.lifting.nests.nest import (
    Leaf,
    Loop,
    Node,
    Rounds,
    Store,
    While,
    changed,
    leaves,
    names_of_loops,
    ranges_of,
    written,
)
from tensorir.lifting.nests.terms import (
    Buffer,
    Index,
    Linear,
    Load,
    Number,
    Op,
    Term,
    buffers_of,
    children,
    indexed_by_data,
    walk,
)

# Conditions that keep reads inside of their buffer, said in full: copies of a loop differ in what a simplifier left.
#
#     if i > 0 then A[i - 1] else 0,  A[i],  if i < 7 then A[i + 1] else 0
#     →  if 0 ≤ i - 1 < 8 then A[i - 1] else 0,  if 0 ≤ i < 8 then A[i] else 0,  if 0 ≤ i + 1 < 8 then A[i + 1] else 0
#
# What always holds is said where another copy reads the same buffer under a condition.


def with_bounds_in_full(nodes: Sequence[Node], loops: tuple[Loop, ...]) -> list[Node] | None:
    """The nodes, with terms in normal form, inside of loops; None where nothing is read under a condition."""
    others = _others(nodes)
    return [_in_full(node, loops, others) for node in nodes] if others else None


def _others(nodes: Sequence[Node]) -> dict[Buffer, Number]:
    """The buffers that are read under conditions, and what stands for what is not read."""
    found: dict[Buffer, set[Number]] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf.node, Store):
            for term in walk(leaf.node.value):
                match term:
                    case Op("if", (_, Load(buffer), Number() as other)):
                        found.setdefault(buffer, set()).add(other)
                    case _:
                        pass
    return {buffer: other for buffer, (other, *more) in found.items() if not more}


def _in_full(node: Node, loops: tuple[Loop, ...], others: Mapping[Buffer, Number]) -> Node:
    match node:
        case Loop(body=body):
            return replace(node, body=tuple(_in_full(n, (*loops, node), others) for n in body))
        case Store(value=value):
            return replace(node, value=_bounded(value, Leaf(node, loops, ()), others, {}))
        case _:
            return node


def _bounded(term: Term, leaf: Leaf, others: Mapping[Buffer, Number], done: dict[int, Term]) -> Term:
    if id(term) not in done:
        done[id(term)] = _made(term, leaf, others, done)
    return done[id(term)]


def _made(term: Term, leaf: Leaf, others: Mapping[Buffer, Number], done: dict[int, Term]) -> Term:
    match term:
        case Op("if", (condition, Load(buffer) as load, other)) if others.get(buffer) == other:
            bounds = _bounds(load)
            same = bounds is not None and _same(condition, bounds, leaf)
            return Op("if", (bounds, load, other), term.element) if bounds is not None and same else term
        case Load(buffer) if buffer in others:
            bounds = _bounds(term)
            same = bounds is not None and _same(Number(True, BOOL), bounds, leaf)
            return Op("if", (bounds, term, others[buffer]), term.element) if bounds is not None and same else term
        case Op(op, args, element):
            return Op(op, tuple(_bounded(a, leaf, others, done) for a in args), element)
        case _:
            return term


def _bounds(load: Load) -> Term | None:
    """That a read is inside of its buffer; None where an index is no sum."""
    found: list[Term] = []
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        if affine_of(index) is None:
            return None
        for op, bound in (("greater_equal", 0), ("less", extent)):
            found.append(Op(op, (index, Number(bound, INT32)), BOOL))
    return reduce(lambda a, b: Op("and", (a, b), BOOL), found) if found else None


def _same(a: Term, b: Term, leaf: Leaf) -> bool:
    """True if two conditions hold in the same iterations of a statement, as far as that can be decided."""
    whole = domain(leaf, ranges_of(leaf.loops), (), "")
    known = [condition_text(c, whole.names) for c in (a, b)]
    if None in known:
        return False
    first, second = (integer_set(leaf.names, [*whole.constraints, *([c] if c else [])]) for c in known)
    return bool(decided(lambda: first.is_equal(second)))


FEWEST = 3
"""How many copies make a loop of statements that are no loops made here themselves: of those, two do."""

LONGEST = 64
"""How many statements one iteration has at most."""

LARGEST = 1 << 10
"""How many parts terms have at most."""


def rolled(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, with a loop for each row of copies that takes the place of what the source says one by one."""
    rolling = _Rolling(_values(nodes))
    made = rolling.body(nodes, _Around()) if _repeats(nodes) else ()
    if not rolling.made:
        return tuple(nodes)
    taken = set(names_of_loops(nodes))
    names = {name: fresh("copy", taken) for name in names_of_loops(made) if name in rolling.made}
    values: dict[Buffer, Buffer] = {}
    return tuple(_named(node, names, values) for node in made)


def _repeats(nodes: Sequence[Node]) -> bool:
    """True if there may be copies anywhere: as many nodes in a row that store to the same buffers."""
    if any(isinstance(node, Loop | While) and _repeats(node.body) for node in nodes):
        return True
    stored = (frozenset(b for b in written((n,)) if not b.loops) for n in nodes if isinstance(n, Loop | Store))
    return any(count >= FEWEST for buffers, count in Counter(stored).items() if buffers)


def _values(nodes: Sequence[Node]) -> set[Buffer]:
    """Values kept for one iteration, or outside of all loops for the only one: by one store to private memory."""
    counts: Counter[Buffer] = Counter()
    pending = list(nodes)
    while pending:
        match pending.pop():
            case Loop(body=body) | While(body=body):
                pending += body
            case Store(buffer):
                counts[buffer] += 1
            case node:
                counts.update(dict.fromkeys(written((node,)), 2))
    return {b for b, count in counts.items() if count == 1 and (b.loops or not (b.argument or b.declared or b.shape))}


@dataclass(slots=True)
class _Item:
    """A statement, which shape it has but for its whole numbers, and these."""

    node: Node
    shape: int
    numbers: tuple[int, ...]
    source: Node
    """The node as it was."""
    made: bool = False
    """Whether it is a loop that was made here."""


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops around nodes in a row, and whether the values that these keep are of one iteration of them."""

    loops: tuple[Loop, ...] = ()
    keeps: bool = True

    def inside(self, node: Loop | While) -> _Around:
        return _Around((*self.loops, node)) if isinstance(node, Loop) else _Around(self.loops, False)

    def has(self, buffer: Buffer) -> bool:
        """True if what is kept there is nobody's outside of an iteration."""
        return self.keeps and buffer.loops[: len(self.loops)] == tuple(loop.name for loop in self.loops)


class _NoCopyError(Exception):
    """A node that is nobody's copy."""


_Place = Callable[[Buffer, tuple[Term, ...]], tuple[Buffer, tuple[Term, ...]]]
"""Where an element of a buffer stands now."""


@dataclass(slots=True)
class _Rolling:
    values: set[Buffer]
    """What is kept for one iteration."""
    made: set[str] = field(default_factory=set[str])
    """The loops that were made, under names that no source has."""
    shapes: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    known: dict[Term, Term] = field(default_factory=dict[Term, Term])
    """One object for all terms that are equal."""
    others: dict[Hashable, Buffer] = field(default_factory=dict[Hashable, Buffer])
    """What stands for a value in a shape, by how many values before the statement, or in it, it is kept."""

    def body(self, nodes: Sequence[Node], around: _Around) -> list[Node]:
        """Nodes inside of loops."""
        nodes = [self.inside(node, around) for node in nodes]
        if len(nodes) < FEWEST or not _repeats(nodes):
            return nodes

        def rows_of(forms: Sequence[Node]) -> list[_Item]:
            pairs = zip(forms, nodes, strict=True)
            return self.rows(self.items([(form, node, False) for form, node in pairs], around), around)

        # terms as they stand show what was put in for a variable; in normal form they show where that was 0
        normal = [_settled(node, around.loops) for node in nodes]
        plain, items = rows_of(nodes), rows_of(normal)
        if _length(plain) <= _length(items):
            again = self.items([(_settled(i.node, around.loops), i.source, i.made) for i in plain], around)
            items = self.rows(again, around)
        # in full, guards show what a simplifier took away
        full = with_bounds_in_full(normal, around.loops) if len(items) > 1 else None
        if full is not None and _length(others := rows_of(full)) < _length(items):
            items = others
        return [item.source for item in items]

    def items(self, nodes: Sequence[tuple[Node, Node, bool]], around: _Around) -> list[_Item]:
        """Nodes in a row by their shapes, each with what it was, and whether it was made here."""
        found: list[_Item] = []
        before: dict[Buffer, int] = {}
        for node, source, made in nodes:
            found.append(self.item(node, source, made, before, around))
            before.update(self.counted(node, len(before)))
        return found

    def rows(self, items: list[_Item], around: _Around) -> list[_Item]:
        """The items with all rows of them joined."""
        period = 1
        while period <= min(LONGEST, len(items) // 2):
            shorter = self.joined(items, period, around)
            period, items = (1, shorter) if len(shorter) < len(items) else (period + 1, items)
        return items

    def inside(self, node: Node, around: _Around) -> Node:
        """A node with rows of copies in its body joined."""
        if not isinstance(node, Loop | While) or not _repeats(node.body):
            return node
        return replace(node, body=tuple(self.body(node.body, around.inside(node))))

    def item(self, node: Node, source: Node, made: bool, before: Mapping[Buffer, int], around: _Around) -> _Item:
        """A node by its shape, which has a number of its own if nobody can be its copy; `before` are earlier values."""
        found: list[int] = []
        orders: list[str] = []
        own = self.counted(node, 0)

        def zero(constant: int) -> Affine:
            if constant not in INT32.range:
                raise _NoCopyError  # the variable of the loop is an int32
            found.append(constant)
            return number(0)

        def place(buffer: Buffer, indices: tuple[Term, ...]) -> tuple[Buffer, tuple[Term, ...]]:
            if buffer in own:
                return self.value(buffer, own[buffer]), indices
            if buffer in before:
                return self.value(buffer, before[buffer] - len(before)), indices
            return buffer, indices

        try:
            if not all(map(around.has, own)):
                raise _NoCopyError
            shape = self.shape(node, zero, place, orders, {})
        except _NoCopyError:
            return _Item(node, self.number_of(object()), (), source, made)
        return _Item(node, self.number_of((shape, *orders)), tuple(found), source, made)

    def value(self, buffer: Buffer, count: int) -> Buffer:
        """The name of the value kept so many values on, or back."""
        made = Buffer("kept", buffer.element, ())
        return self.others.setdefault((buffer.element, len(buffer.loops), count), made)

    def kept(self, node: Node) -> list[Buffer]:
        """The values that a node keeps, in the order of the text."""
        if not self.values:
            return []
        stores = (leaf.node for leaf in leaves((node,)))
        return [store.buffer for store in stores if isinstance(store, Store) and store.buffer in self.values]

    def counted(self, node: Node, first: int) -> dict[Buffer, int]:
        """The same with their numbers, from a first one on."""
        return {buffer: first + k for k, buffer in enumerate(self.kept(node))}

    def number_of(self, shape: Hashable) -> int:
        return self.shapes.setdefault(shape, len(self.shapes))

    def shape(
        self, node: Node, zero: Callable[[int], Affine], place: _Place, orders: list[str], names: Mapping[str, str]
    ) -> Hashable:
        """The shape of a node: the node without its whole numbers and names of loops.

        `orders` takes sums with several quotients, whose numbers come in the order in which these stand.
        """

        def over(term: Term) -> Term:
            # a check names the statement of the source that fails
            if indexed_by_data(term) or not _is_small(term):
                raise _NoCopyError
            return _renumbered(term, zero, place, names, orders, self.known)

        match node:
            case Store(buffer) if buffer.loops and (node.atomic or buffer not in self.values):
                raise _NoCopyError
            case Store(buffer, indices, value, guards):
                terms = tuple(over(t) for t in (*indices, value, *guards))
                return Store, place(buffer, indices)[0], terms, len(guards), node.atomic, node.stretch
            case Loop(name, low, extent, body):
                bounds = over(low), over(extent)
                inside = {**names, name: f"#{len(names)}"}
                inner = tuple(self.shape(n, zero, place, orders, inside) for n in body)
                return Loop, bounds, inner, node.parallel, node.lockstep, node.rounds
            case _:
                raise _NoCopyError

    def joined(self, items: Sequence[_Item], period: int, around: _Around) -> list[_Item]:
        """The items, with loops for what repeats after so many."""
        found: list[_Item] = []
        before: dict[Buffer, int] = {}
        k = 0
        while k < len(items):
            count, steps = _row(items, k, period)
            if count and self.keep_to_themselves(items, k, period, count):
                found.append(self.loop(items[k : k + period], count, steps, before, around))
                k += count * period
            else:
                found.append(items[k])
                k += 1
            before.update(self.counted(found[-1].node, len(before)))
        return found

    def keep_to_themselves(self, items: Sequence[_Item], start: int, period: int, count: int) -> bool:
        """True if nobody but a copy itself reads the values that it keeps."""
        end = start + count * period
        copy_of = {b: (k - start) // period for k in range(start, end) for b in self.kept(items[k].node)}
        if not copy_of:
            return True
        for k, item in enumerate(items):
            here = (k - start) // period if start <= k < end else None
            if any(copy_of[b] != here for b in _read((item.node,)) & copy_of.keys()):
                return False
        return True

    def loop(
        self, copies: Sequence[_Item], count: int, steps: Sequence[int], before: Mapping[Buffer, int], around: _Around
    ) -> _Item:  # fmt: skip
        """A loop over copies, given the first ones and by what their numbers grow."""
        name, depth = f" {len(self.made)}", len(around.loops)
        self.made.add(name)
        growing = iter(steps)
        values = {b: _for_each(b, depth, name, count) for item in copies for b in self.kept(item.node)}
        self.values.update(values.values())

        def grown(constant: int) -> Affine:
            return variable(name).times(next(growing)).plus(number(constant))

        def place(buffer: Buffer, indices: tuple[Term, ...]) -> tuple[Buffer, tuple[Term, ...]]:
            if buffer not in values:
                return buffer, indices
            return values[buffer], (*indices[:depth], Index(name, INT32), *indices[depth:])

        body = tuple(_grown(item.node, grown, place) for item in copies)
        made = Loop(name, Number(0, INT32), Number(count, INT32), body, False, _first(body).span, f"{count} copies")
        stretch = _first(body).stretch
        made = made if stretch is None else replace(made, rounds=Rounds(stretch, stretch, stretch, stretch))
        return self.item(made, made, True, before, around)


def _for_each(buffer: Buffer, depth: int, name: str, count: int) -> Buffer:
    """The place of a value kept for one iteration of one loop more, inside of so many others."""
    loops = (*buffer.loops[:depth], name, *buffer.loops[depth:])
    return replace(buffer, loops=loops, shape=(*buffer.shape[:depth], count, *buffer.shape[depth:]))


def _row(items: Sequence[_Item], start: int, period: int) -> tuple[int, Sequence[int]]:
    """The number of repetitions of items from a place on, and the steps of their numbers; 0 if they are no loop."""
    if start + period >= len(items) or items[start].shape != items[start + period].shape:
        return 0, ()
    first = items[start : start + period]
    steps: list[int] = []
    count = 1
    while True:
        old = start + (count - 1) * period
        after = items[old + period : old + 2 * period]
        if [item.shape for item in after] != [item.shape for item in first]:
            break
        pairs = zip(items[old : old + period], after, strict=True)
        grown = [n - m for x, y in pairs for m, n in zip(x.numbers, y.numbers, strict=True)]
        if count == 1:
            steps = grown
        if grown != steps:
            break
        count += 1
    enough = 2 if any(item.made for item in first) else FEWEST
    # steps of one element are one value, and steps of a field a loop
    whole = any(steps) or all(_is_of_a_field(item.node) for item in first)
    return (count if count >= enough and whole else 0), steps


def _read(nodes: Sequence[Node]) -> set[Buffer]:
    """The buffers that are read somewhere in the nodes."""
    found: set[Buffer] = set()
    for leaf in leaves(nodes):
        found |= leaf.read
        for loop in leaf.loops:
            found |= buffers_of(loop.low) | buffers_of(loop.extent)
    return found


def _is_of_a_field(node: Node) -> bool:
    """True if a node is a loop, and none over the threads of a kernel."""
    return isinstance(node, Loop) and not any(loop.lockstep for loop in leaves((node,))[0].loops)


def _length(items: Sequence[_Item]) -> int:
    """The number of statements."""
    return len(leaves([item.node for item in items]))


def _first(nodes: Sequence[Node]) -> Store:
    """The statement that nodes begin with."""
    node = nodes[0]
    while isinstance(node, Loop):
        node = node.body[0]
    assert isinstance(node, Store)
    return node


def _settled(node: Node, loops: tuple[Loop, ...]) -> Node:
    """A node with its terms in normal form, inside of loops."""
    inner = (*loops, node) if isinstance(node, Loop) else loops
    ranges, memo = ranges_of(loops), dict[int, Term]()
    return changed(
        node, lambda t: settled(t, ranges, memo), lambda n: _settled(n, inner), lambda b: b, lambda b: ()
    )  # fmt: skip


def _grown(node: Node, grown: Callable[[int], Affine], place: _Place) -> Node:
    """A node with other whole numbers, which are asked for in the order in which its shape has them."""

    def over(term: Term) -> Term:
        return _renumbered(term, grown, place, {}, [], {})

    match node:
        case Store(buffer, indices, value, guards):
            new = [over(t) for t in (*indices, value, *guards)]
            count = len(indices)
            buffer, places = place(buffer, tuple(new[:count]))
            return replace(node, buffer=buffer, indices=places, value=new[count], guards=tuple(new[count + 1 :]))
        case Loop(_, low, extent, body):
            bounds = over(low), over(extent)
            return replace(node, low=bounds[0], extent=bounds[1], body=tuple(_grown(n, grown, place) for n in body))
        case _:
            raise AssertionError(node)


def _named(node: Node, names: Mapping[str, str], values: dict[Buffer, Buffer]) -> Node:
    """A node with other names for loops; `values` takes what is kept for iterations of these."""

    def named(buffer: Buffer) -> Buffer:
        if names.keys().isdisjoint(buffer.loops):
            return buffer
        return values.setdefault(buffer, replace(buffer, loops=tuple(names.get(n, n) for n in buffer.loops)))

    def over(term: Term) -> Term:
        return _renumbered(term, number, lambda buffer, indices: (named(buffer), indices), names, [], {})

    new = changed(node, over, lambda n: _named(n, names, values), named, lambda b: ())
    return replace(new, name=names[new.name]) if isinstance(new, Loop) and new.name in names else new


def _is_small(term: Term) -> bool:
    """True if a term has few parts, those that are shared as often as they stand there."""
    pending, count = [term], 0
    while pending and count <= LARGEST:
        pending += children(pending.pop())
        count += 1
    return not pending


def _renumbered(
    term: Term, made: Callable[[int], Affine], place: _Place, names: Mapping[str, str], orders: list[str],
    known: dict[Term, Term],
) -> Term:  # fmt: skip
    """A term with others for its whole numbers, wherever they stand, for places, and for the names of variables."""
    below = tuple(_renumbered(t, made, place, names, orders, known) for t in children(term))
    match term:
        case Number(value, element) if element.is_integer:
            term = term_of(made(int(value)), element)
        case Linear(a, element):
            total = _sum(a, made, names)
            if sum(isinstance(part, Quotient) for part, _ in total.terms) > 1:
                orders.append(str(total))
            term = term_of(total, element)
        case Index(name, element) if name in names:
            term = Index(names[name], element)
        case Load(buffer, _, span):
            buffer, indices = place(buffer, below)
            term = Load(buffer, indices, span)
        case Op(op, _, element):
            term = Op(op, below, element)
        case _:
            pass
    return known.setdefault(term, term)


def _sum(a: Affine, made: Callable[[int], Affine], names: Mapping[str, str]) -> Affine:
    """A sum with other numbers: its own comes first, then those of its quotients."""
    total = made(a.constant)
    parts = tuple(
        (names.get(n, n) if isinstance(n, str) else Quotient(_sum(n.inner, made, names), n.by), c) for n, c in a.terms
    )
    return Affine(parts).plus(total)
