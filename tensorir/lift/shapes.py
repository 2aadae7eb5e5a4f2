"""Flat storage gets its axes back: what every access takes apart in one way is as many dims.

`T[i * 12 + j]` and `T[k * 12 + j + r]`, wherever they stand, are `T[i, j]` and `T[k, j + r]` of a buffer of rows of 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from tensorir.lift.affine import Affine, quotient, remainder
from tensorir.lift.linear import Ranges, affine_of
from tensorir.lift.nest import External, Leaf, Node, Store, While, leaves
from tensorir.lift.space import Space, digits
from tensorir.lift.storage import changed, whole_space
from tensorir.lift.terms import Buffer, Load, Number, Op, Term, rebuilt, walk

__all__ = ["with_axes"]

MOST_AXES = 4


def with_axes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with flat buffers of their own in the shape in which they are used."""
    found: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
    uses: dict[Buffer, list[tuple[Affine | None, Space | None]]] = {}
    for leaf in leaves(nodes):
        _collect(leaf, uses)
    for buffer, accesses in uses.items():
        radices = _radices(buffer.shape[0], accesses)
        if radices:
            sizes = (buffer.shape[0], *radices)
            shape = tuple(a // b for a, b in zip(sizes, (*radices, 1), strict=True))
            found[buffer] = (replace(buffer, shape=shape), radices)
    return tuple(_changed(node, found) for node in nodes) if found else tuple(nodes)


def _collect(leaf: Leaf, uses: dict[Buffer, list[tuple[Affine | None, Space | None]]]) -> None:
    node = leaf.node
    space = whole_space(leaf) if isinstance(node, Store) else None
    own = [b for b in leaf.written | leaf.read if _flat(b)]
    for buffer in own:
        places = uses.setdefault(buffer, [])
        if space is None or isinstance(node, While | External):
            places.append((None, None))
            continue
        if isinstance(node, Store) and node.buffer is buffer:
            places.append((affine_of(space.location[0]), space))
        for term in space.terms():
            places += [
                (affine_of(t.indices[0]), space) for t in walk(term) if isinstance(t, Load) and t.buffer is buffer
            ]


def _flat(buffer: Buffer) -> bool:
    return not buffer.argument and len(buffer.shape) == 1 and not buffer.loops and buffer.value is None


def _radices(size: int, accesses: Sequence[tuple[Affine | None, Space | None]]) -> tuple[int, ...]:
    """The fewest radices with which every access is a dim, or a window, per axis; none where that does not work."""
    coefficients: set[int] = set()
    for a, space in accesses:
        if a is None or space is None or not a.is_linear:
            return ()
        coefficients |= {abs(c) for _, c in a.terms if abs(c) > 1}
    candidates = sorted((c for c in coefficients if size % c == 0), reverse=True)[:8]
    for count in range(1, MOST_AXES):
        for chosen in combinations(candidates, count):
            if all(a % b == 0 for a, b in pairwise(chosen)) and all(
                _fits(a, chosen, space) for a, space in accesses if a is not None and space is not None
            ):
                return chosen
    return ()


def _fits(a: Affine, radices: Sequence[int], space: Space) -> bool:
    for part in apart(a, radices, space.ranges):
        plain = part.is_linear and part.names <= space.dims.keys()
        if not plain or not (digits(part, space.dims) is not None or all(abs(c) == 1 for _, c in part.terms)):
            return False
    return True


def apart(a: Affine, radices: Sequence[int], ranges: Ranges) -> list[Affine]:
    """A flat index as one index per axis."""
    found: list[Affine] = []
    for radix in radices:
        found.append(quotient(a, radix, ranges))
        a = remainder(a, radix, ranges)
    return [*found, a]


def _changed(node: Node, found: Mapping[Buffer, tuple[Buffer, tuple[int, ...]]]) -> Node:
    def indices(flat: Term, radices: tuple[int, ...]) -> tuple[Term, ...]:
        terms: list[Term] = []
        for radix in radices:
            by = Number(radix, flat.element)
            terms.append(Op("floordiv", (flat, by), flat.element))
            flat = Op("mod", (flat, by), flat.element)
        return (*terms, flat)

    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in found:
            new, radices = found[t.buffer]
            return Load(new, indices(t.indices[0], radices), t.span)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule)

    def inner(n: Node) -> Node:
        if isinstance(n, Store) and n.buffer in found:
            new, radices = found[n.buffer]
            places = indices(over(n.indices[0]), radices)
            return Store(new, places, over(n.value), tuple(map(over, n.guards)), n.span)
        return changed(n, over, inner, lambda b: b, lambda b: ())

    return inner(node)
