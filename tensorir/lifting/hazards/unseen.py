"""Indices that data tell, of accesses whose results nobody may see: what they point at is checked by itself.

A tensor that nobody reads is not computed, and with it goes the check of what it indexes: of `A[idx[i]] = 1`, where
all of A is written over before anybody reads it. Where all elements are alike, nobody looks which of them is read. A
check is a statement of its own, which no other one undoes.
"""

# islpy has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from tensorir.integers.affine import Affine
from tensorir.ir.types import BOOL, INT64
from tensorir.lifting.accesses.overlap import reads_under
from tensorir.lifting.accesses.sets import domain, integer_set, text
from tensorir.lifting.nests.linear import linear
from tensorir.lifting.nests.nest import Check, Leaf, Loop, Node, Store, While, leaves, ranges_of
from tensorir.lifting.nests.terms import Buffer, Load, Number, Op, Term, always, index_names, loads, walk
from tensorir.runtime.errors import Span


def with_unseen_checked(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a check before each store that may have no effect, of every index in it that data tell."""
    return tuple(_checked(nodes, (), _Uses(_all(nodes))))


def told_by_data(nodes: Sequence[Node]) -> bool:
    """True if data tell any index of the nodes."""
    for leaf in leaves(nodes):
        stored = leaf.node.indices if isinstance(leaf.node, Store) else ()
        asked = loads(leaf.node.condition) if isinstance(leaf.node, While) else ()
        if any(loads(i) for i in (*stored, *(i for r in (*leaf.reads, *asked) for i in r.indices))):
            return True
        if isinstance(leaf.node, While) and told_by_data(leaf.node.body):
            return True
    return False


def _all(nodes: Sequence[Node]) -> list[Leaf]:
    """The bottom of a tree, that of each `while` in its place."""
    found: list[Leaf] = []
    for leaf in leaves(nodes):
        if isinstance(leaf.node, While):
            found += [Leaf(x.node, (*leaf.loops, *x.loops), (*leaf.place, *x.place)) for x in _all(leaf.node.body)]
        else:
            found.append(leaf)
    return found


def _checked(nodes: Sequence[Node], loops: tuple[Loop, ...], uses: _Uses) -> Iterator[Node]:
    for node in nodes:
        match node:
            case Loop(body=body):
                inner = tuple(_checked(body, (*loops, node), uses))
                yield node if len(inner) == len(body) and all(map(_same, inner, body)) else replace(node, body=inner)
            case While(body=body):
                inner = tuple(_checked(body, loops, uses))
                stores = [leaf.node for leaf in _all(body) if isinstance(leaf.node, Store)]
                again = list(_of_condition(node, loops)) if not any(map(uses.seen, stores)) else []
                yield from (replace(check, guards=(*node.guards, *check.guards)) for check in again)
                yield replace(node, body=(*inner, *again))
            case Store():
                checks = list(_checks(node, loops))
                if checks:
                    seen = uses.seen(node)
                    yield from (check for buffer, check in checks if not seen or buffer in uses.alike)
                yield node
            case _:
                yield node


def _same(a: Node, b: Node) -> bool:
    return a is b


def _checks(node: Store, loops: tuple[Loop, ...]) -> Iterator[tuple[Buffer | None, Check]]:
    """What must hold of the indices of a store that data tell, and of which buffer that is read."""
    told: set[tuple[Buffer, tuple[Term, ...]]] = set()
    places: list[tuple[Term, tuple[Term, ...]]] = [(g, node.guards[:k]) for k, g in enumerate(node.guards)]
    places += [(term, node.guards) for term in (node.value, *node.indices)]
    for term, before in places:
        for load, conditions in reads_under(term):
            if (load.buffer, load.indices) not in told:
                told |= {(load.buffer, load.indices)} if not conditions else set()
                same = load.buffer is node.buffer and load.indices == node.indices
                for check in _of(load.buffer, load.indices, loops, (*before, *conditions), load.span):
                    yield None if same else load.buffer, check
    for check in _of(node.buffer, node.indices, loops, node.guards, node.span):
        yield None, check


def _of_condition(node: While, loops: tuple[Loop, ...]) -> Iterator[Check]:
    """What must hold whenever a condition is looked at."""
    for load, conditions in reads_under(node.condition):
        yield from _of(load.buffer, load.indices, loops, conditions, load.span)


def _of(
    buffer: Buffer, indices: Sequence[Term], loops: tuple[Loop, ...], guards: tuple[Term, ...], span: Span
) -> Iterator[Check]:
    """What must hold of indices that data tell."""
    ranges = ranges_of(loops)
    for index, extent in zip(indices, buffer.shape, strict=True):
        if linear(index, ranges) is None:
            message = f"an index leaves the {extent} elements of {buffer.name!r}."
            yield Check(_inside(index, extent), message, guards, span)


def _inside(index: Term, extent: int) -> Term:
    if extent - 1 not in index.element.range:
        index = Op("cast", (index,), INT64)
    bounds = (Op(op, (index, Number(n, index.element)), BOOL) for op, n in (("greater_equal", 0), ("less", extent)))
    return Op("and", tuple(bounds), BOOL)


MOST_STEPS = 8
"""Through how many stores a value is followed."""


@dataclass(frozen=True)
class _Uses:
    """Who writes and who reads each buffer."""

    statements: Sequence[Leaf]

    @cached_property
    def alike(self) -> frozenset[Buffer]:
        """Buffers in which elements are alike along some dim, so that it may not matter which of them is read."""
        return frozenset(
            leaf.node.buffer
            for leaf in self.statements
            if isinstance(leaf.node, Store)
            and not set().union(*map(index_names, leaf.node.indices)) <= index_names(leaf.node.value)
        )

    def seen(self, store: Store, above: frozenset[Store] = frozenset()) -> bool:
        """True if all that a store writes is sure to come to an argument, which the program gives back."""
        here = next(leaf for leaf in self.statements if leaf.node is store)
        if store in above or len(above) == MOST_STEPS:
            return False
        buffer = store.buffer
        over = [w for w in self.statements if buffer.root in {b.root for b in w.written} and not _hands_on(w, buffer)]
        if buffer.argument:
            return not any(_written_over(here, w) for w in over)
        readers = [r for r in self.statements if isinstance(r.node, Store) and buffer in r.read]
        return any(
            here.place < r.place
            and _reads_all(here, r)
            and not any(here.place < w.place < r.place for w in over)
            and isinstance(r.node, Store)
            and self.seen(r.node, above | {store})
            for r in readers
        )


def _hands_on(leaf: Leaf, buffer: Buffer) -> bool:
    """True if a store makes its element of what the element held."""
    node = leaf.node
    if not isinstance(node, Store):
        return False
    return any(isinstance(t, Load) and t.buffer is buffer and t.indices == node.indices for t in walk(node.value))


def _shared(a: Leaf, b: Leaf) -> int:
    """How many loops are around both."""
    pairs = takewhile(lambda pair: pair[0] is pair[1], zip(a.loops, b.loops, strict=False))
    return len(list(pairs))


def _written_over(a: Leaf, b: Leaf) -> bool:
    """True if `b` may write an element after `a` did."""
    loops = _shared(a, b)
    around = takewhile(lambda pair: pair[0] == pair[1], zip(a.place, b.place, strict=False))
    if not isinstance(a.node, Store) or not isinstance(b.node, Store) or (a is not b and len(list(around)) > loops):
        return True  # a `while` is around both
    first, second = domain(a, ranges_of(a.loops), (), "_a"), domain(b, ranges_of(b.loops), (), "_b")
    names = [*(f"{n}_a" for n in a.names), *(f"{n}_b" for n in b.names)]
    pairs = zip(_sums(a, a.node.indices), _sums(b, b.node.indices), strict=False)
    same = [f"{text(i, first.names)} = {text(j, second.names)}" for i, j in pairs if i is not None and j is not None]
    if a is b and len(same) < len(a.node.indices):
        return False  # what goes to a place that data tell is looked at in every iteration
    every = [*first.constraints, *second.constraints, *same]
    equal = [f"{n}_a = {n}_b" for n in a.names[:loops]]
    orders = [[*equal[:k], f"{n}_a < {n}_b"] for k, n in enumerate(a.names[:loops])]
    orders += [equal] if a.place < b.place else []
    return any(not integer_set(names, [*every, *order]).is_empty() for order in orders)


def _reads_all(w: Leaf, r: Leaf) -> bool:
    """True if a statement reads every element that a store writes, in each iteration of the loops around both."""
    import islpy

    node, reader = w.node, r.node
    assert isinstance(node, Store) and isinstance(reader, Store)
    writing, reading = domain(w, ranges_of(w.loops), (), "_w"), domain(r, ranges_of(r.loops), (), "_r")
    if not reading.exact:
        return False
    elements = [f"e{k}" for k in range(len(node.indices))]
    names = [*(f"{n}_w" for n in w.names), *elements]
    stored = zip(elements, _sums(w, node.indices), strict=True)
    place = [f"{e} = {text(p, writing.names)}" for e, p in stored if p is not None]
    inside = [f"0 <= {e} < {size}" for e, size in zip(elements, node.buffer.shape, strict=True)]
    missing = integer_set(names, [*writing.constraints, *place, *inside])
    together = [f"{n}_w = {n}_r" for n in w.names[: _shared(w, r)]]
    for load in (t for term in (reader.value, *reader.indices) for t in always(term).values()):
        sums = _sums(r, load.indices) if isinstance(load, Load) and load.buffer is node.buffer else [None]
        if None not in sums:
            read = [f"{e} = {text(p, reading.names)}" for e, p in zip(elements, sums, strict=True) if p is not None]
            whole = [*names, *(f"{n}_r" for n in r.names)]
            found = integer_set(whole, [*reading.constraints, *together, *read])
            missing = missing.subtract(found.project_out(islpy.dim_type.set, len(names), len(r.names)))
    return bool(missing.is_empty())


def _sums(leaf: Leaf, indices: Sequence[Term]) -> list[Affine | None]:
    ranges = ranges_of(leaf.loops)
    return [linear(i, ranges) for i in indices]
