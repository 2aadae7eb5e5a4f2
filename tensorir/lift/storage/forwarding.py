"""Values that one statement hands on: what an iteration names for one later statement stands in that statement.

`v = B[i] + x`, then `B[i] = v`, is `B[i] = B[i] + x`: a fold, where the name hid it. The value is computed where it is
used, so nothing in between may write what it reads, and it is computed at least where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorir.lift.nests.nest import Leaf, Loop, Node, Store, leaves
from tensorir.lift.nests.terms import Buffer, Load, Term, buffers_of, rebuilt
from tensorir.lift.storage.copies import changed

__all__ = ["with_values_in_place"]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of one iteration: its statement, and all that it reads."""

    leaf: Leaf
    read: frozenset[Buffer]


def with_values_in_place(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes without the values of one iteration that one statement of the same iteration reads."""
    statements = leaves(nodes)
    alone = _alone(statements)
    if not alone:
        return tuple(nodes)
    found: dict[Buffer, _Value] = {}
    position = {id(leaf.node): k for k, leaf in enumerate(statements)}
    for leaf in statements:
        node = leaf.node
        read = {b.root for b in leaf.read}
        for buffer in leaf.read & alone.keys():
            made = alone[buffer]
            reads = found[buffer].read if buffer in found else frozenset(b.root for b in made.read)
            between = statements[position[id(made.node)] + 1 : position[id(node)]]
            if not any(b.root in reads for other in between for b in other.written):
                found[buffer] = _Value(made, reads)
                read |= reads
            else:
                found.pop(buffer, None)
                alone = {b: w for b, w in alone.items() if b is not buffer}
        if isinstance(node, Store) and node.buffer in alone:
            found[node.buffer] = _Value(leaf, frozenset(read))
    values = {b: v for b, v in found.items() if b in alone}
    return tuple(new for node in nodes for new in _without(node, values)) if values else tuple(nodes)


def _alone(statements: Sequence[Leaf]) -> dict[Buffer, Leaf]:
    """The values of one iteration that one statement makes, and one later statement of it reads."""
    touching: dict[Buffer, list[Leaf]] = {}
    bounds: set[Buffer] = set()
    for leaf in statements:
        for buffer in leaf.read | leaf.written:
            if buffer.loops:
                touching.setdefault(buffer, []).append(leaf)
        for loop in leaf.loops:
            bounds |= buffers_of(loop.low) | buffers_of(loop.extent)
    found: dict[Buffer, Leaf] = {}
    for buffer, users in touching.items():
        if len(users) != 2 or buffer in bounds:
            continue
        made, used = users
        if buffer in made.read or buffer not in made.written or buffer not in used.read or buffer in used.written:
            continue
        a, b = made.node, used.node
        if not (isinstance(a, Store) and isinstance(b, Store)) or a.atomic or b.atomic or a.stretch != b.stretch:
            continue
        same = len(made.loops) == len(used.loops) and all(x is y for x, y in zip(made.loops, used.loops, strict=True))
        reads = [load for load in used.reads if load.buffer is buffer]
        guarded = not a.guards or a.guards == b.guards
        if same and guarded and all(load.indices == a.indices for load in reads):
            found[buffer] = made
    return found


def _without(node: Node, values: Mapping[Buffer, _Value]) -> tuple[Node, ...]:
    def rule(t: Term) -> Term | None:
        if isinstance(t, Load) and t.buffer in values:
            made = values[t.buffer].leaf.node
            assert isinstance(made, Store)
            return rebuilt(made.value, rule)
        return None

    def over(t: Term) -> Term:
        return rebuilt(t, rule) if buffers_of(t) & values.keys() else t

    match node:
        case Store(buffer) if buffer in values:
            return ()
        case Loop(body=body):
            return (replace(node, body=tuple(new for inner in body for new in _without(inner, values))),)
        case _:
            return (changed(node, over, lambda n: n, lambda b: b, lambda b: ()),)
