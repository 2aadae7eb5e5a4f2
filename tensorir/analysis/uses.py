"""Who reads an expression, and at which offsets: what decides whether a buffer for it is worth its bytes.

>>> from tensorir.ir.build import call, cartesian_shift, var
>>> from tensorir.ir.types import tensor
>>> c = call("cos", var("x", tensor("float", I=(0, 9))))
>>> difference = call("minus", cartesian_shift(c, "I", 1), cartesian_shift(c, "I", -1))
>>> sorted(offset for _, offset in reads(difference, surface(difference))[c])
[(('I', '-1'),), (('I', '1'),)]
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.builtins import LAST, TABLE
from tensorir.ir.nodes import Call, Expr, Lambda

__all__ = ["MOST", "Offset", "further", "reads", "surface"]

MOST = 64
"""Reads of one expression that are told apart."""

Offset = tuple[tuple[str, str], ...]
"""Steps by dim, and the neighbours of tables, in the order in which they are taken."""


def surface(*roots: Expr) -> list[Expr]:
    """The nodes that no function is around, operands first."""
    done: set[int] = set()
    order: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in done and not isinstance(node, Lambda):
            done.add(id(node))
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(node.children) if id(c) not in done)
    return order


def reads(root: Expr, order: Sequence[Expr]) -> dict[Expr, set[tuple[Expr, Offset]]]:
    """Of each expression, who reads it, and through which shifts: moves hand their reads on to what they move."""
    found: dict[Expr, set[tuple[Expr, Offset]]] = {}
    for node in reversed(order):
        moves = isinstance(node, Call) and TABLE[node.op].moved == LAST
        for k, child in enumerate(node.children):
            if isinstance(child, Lambda):
                continue
            own = found.setdefault(child, set())
            if not moves or (len(node.children) == 2 and k == 0):
                own.add((node, ()))
                continue
            for reader, offset in found.get(node, set()):
                if len(own) < MOST:
                    own.add((reader, further(offset, node)))
    return found


def further(offset: Offset, node: Expr) -> Offset:
    """An offset at which a node is read, as one of what the node moves."""
    assert isinstance(node, Call)
    match node.op, node.static:
        case "cartesian_shift", (dim, distance):
            total = {d: int(o) for d, o in offset if o.lstrip("-").isdecimal()}
            total[dim] = total.get(dim, 0) + distance
            rest = [(d, o) for d, o in offset if not o.lstrip("-").isdecimal()]
            return tuple(sorted([(d, str(o)) for d, o in total.items() if o] + rest))
        case "unstructured_shift" | "shift_init" | "shift_apply", static:
            return (*offset, (node.op, f"{getattr(node.args[0], 'name', '')} {tuple(static)}"))
        case "tuple_get", _:
            return offset
        case _:
            return offset
