"""Stores of which only those of a loop's last iteration stay: they run once, after the loop.

`for k: S[i] += A[i, k]; B[i] = S[i]` is `for k: S[i] += A[i, k]`, and then `B[i] = S[i]`, where nothing in the loop
reads B.

>>> from tensorir.lifting.nests.terms import Buffer, Index, Load
>>> from tensorir.ir.types import INT32
>>> s, b, k = Buffer("S", INT32, ()), Buffer("B", INT32, ()), Index("k", INT32)
>>> body = Store(s, (), k), Store(b, (), Load(s, ()))
>>> [type(node).__name__ for node in with_last_stores([Loop("k", Number(0, INT32), Number(4, INT32), body)])]
['Loop', 'Store']
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from tensorir.integers.affine import number
from tensorir.lifting.accesses.inverse import at_iteration
from tensorir.lifting.nests.nest import Leaf, Loop, Node, Store, While, leaves
from tensorir.lifting.nests.terms import Buffer, Number, Term, index_names, loads
from tensorir.lifting.storage.copies import changed

__all__ = ["with_last_stores"]


def with_last_stores(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with what only the last iteration of a loop leaves behind after that loop."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body) | While(body=body):
                inner = with_last_stores(body)
                same = len(inner) == len(body) and all(x is y for x, y in zip(inner, body, strict=True))
                found += _apart(node if same else replace(node, body=inner))
            case _:
                found.append(node)
    return tuple(found)


def _apart(node: Loop | While) -> tuple[Node, ...]:
    """A loop, and what of it may run after it."""
    match node:
        case Loop(name, Number(int(low)), Number(int(extent)), body, parallel=False, lockstep=False) if extent > 0:
            pass
        case _:
            return (node,)
    kept = len(body)
    while kept > 1 and _is_last(body[kept - 1], node, body[: kept - 1]):
        kept -= 1
    last = {name: number(low + extent - 1)}

    def at_last(t: Term) -> Term:
        return at_iteration(t, last)

    def over(n: Node) -> Node:
        return changed(n, at_last, over, lambda b: b, lambda b: ())

    return (replace(node, body=body[:kept]), *map(over, body[kept:])) if kept < len(body) else (node,)


def _is_last(node: Node, loop: Loop, before: Sequence[Node]) -> bool:
    """Whether a part of a loop's body stores in each iteration what nothing reads before the next one stores it."""
    statements = leaves((node,))
    others = leaves(before)
    stored = {b.root for x in statements for b in x.written}
    bounds = [t for x in statements for inner in x.loops for t in (inner.low, inner.extent)]
    return (
        all(_everywhere(x, loop.name) for x in statements)
        and not any(loads(t) or loop.name in index_names(t) for t in bounds)
        and not any(stored & _roots(x.read | x.written) for x in others)
        and not any(stored & _roots(x.read) for x in statements)
    )


def _everywhere(leaf: Leaf, name: str) -> bool:
    """Whether a statement stores to the same places in each iteration, and reads nothing that lives for one."""
    match leaf.node:
        case Store(indices=indices, guards=guards, atomic=False, stretch=None):
            places = (*indices, *guards)
            lasting = not any(b.loops for b in leaf.read | leaf.written)
            return lasting and not any(loads(t) or name in index_names(t) for t in places)
        case _:
            return False


def _roots(buffers: Set[Buffer]) -> set[Buffer]:
    return {b.root for b in buffers}
