"""Storage that is several variables under one name: each element that is named by a number is a buffer of its own.

`s[1] = s[1] + exp(x[k] - s[0])` folds into one variable and reads another; only with both in one buffer does an
iteration seem to read what others write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tensorir.lift.nests.nest import External, Node, Store
from tensorir.lift.nests.terms import Buffer, Load, Number, Term, loads, rebuilt
from tensorir.lift.storage.copies import changed

__all__ = ["with_elements_apart"]

MOST_ELEMENTS = 16
"""More are an array, whoever writes them out one by one."""


def with_elements_apart(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a buffer per element where a statement writes one and reads another of them."""
    seen = _Seen()
    for node in nodes:
        seen.node(node)
    found: dict[Buffer, tuple[int, dict[int, Buffer]]] = {}
    taken = {b.name for b in seen.places}
    for buffer in seen.mixed:
        dim = next((d for d, at in enumerate(seen.places[buffer]) if at is not None and len(at) > 1), None)
        if dim is None or buffer in seen.whole or buffer.argument or buffer.loops or buffer.copies:
            continue
        at = seen.places[buffer][dim]
        if at is not None and len(at) <= MOST_ELEMENTS and all(0 <= c < buffer.shape[dim] for c in at):
            shape = (*buffer.shape[:dim], *buffer.shape[dim + 1 :])
            found[buffer] = dim, {c: replace(buffer, name=_fresh(buffer.name, c, taken), shape=shape) for c in at}
    return tuple(_apart(node, found) for node in nodes) if found else tuple(nodes)


def _fresh(name: str, element: int, taken: set[str]) -> str:
    found = f"{name}_{element}"
    while found in taken:
        found += "_"
    taken.add(found)
    return found


class _Seen:
    """Per buffer and dim, the numbers that are its indices (None: others are, too), and how buffers are used."""

    def __init__(self) -> None:
        self.places: dict[Buffer, list[set[int] | None]] = {}
        self.mixed: dict[Buffer, None] = {}
        """Buffers that a statement writes at one number and reads at another."""
        self.whole: set[Buffer] = set()
        """Buffers that are used as a whole, or share their memory."""

    def access(self, buffer: Buffer, indices: Sequence[Term]) -> None:
        if buffer.memory is not None:
            self.whole |= {buffer, buffer.memory}
        known = self.places.setdefault(buffer, [set() for _ in buffer.shape])
        for d, index in enumerate(indices):
            at = known[d]
            if at is not None and isinstance(index, Number):
                at.add(int(index.value))
            else:
                known[d] = None

    def term(self, term: Term) -> Term:
        for load in loads(term):
            self.access(load.buffer, load.indices)
        return term

    def node(self, node: Node) -> Node:
        match node:
            case Store(buffer, indices):
                self.access(buffer, indices)
                if any(_elsewhere(indices, load.indices) for load in _reads(node) if load.buffer is buffer):
                    self.mixed[buffer] = None
            case External(_, read, written):
                self.whole |= {*read, *written}
            case _:
                pass
        return changed(node, self.term, self.node, lambda b: b, lambda b: ())


def _reads(node: Store) -> Iterator[Load]:
    for term in (node.value, *node.indices, *node.guards):
        yield from loads(term)


def _elsewhere(a: Sequence[Term], b: Sequence[Term]) -> bool:
    """Whether two accesses differ in an index that is a number in both."""
    pairs = zip(a, b, strict=True)
    return any(isinstance(x, Number) and isinstance(y, Number) and x.value != y.value for x, y in pairs)


def _apart(node: Node, found: Mapping[Buffer, tuple[int, dict[int, Buffer]]]) -> Node:
    def placed(buffer: Buffer, indices: Sequence[Term]) -> tuple[Buffer, tuple[Term, ...]]:
        dim, parts = found[buffer]
        index = indices[dim]
        assert isinstance(index, Number)
        return parts[int(index.value)], (*indices[:dim], *indices[dim + 1 :])

    def rule(t: Term) -> Term | None:
        return Load(*placed(t.buffer, t.indices), t.span) if isinstance(t, Load) and t.buffer in found else None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            buffer, places = placed(n.buffer, [over(i) for i in n.indices])
            return Store(buffer, places, over(n.value), tuple(map(over, n.guards)), n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
