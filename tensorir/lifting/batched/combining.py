"""What loops do with the values that they carry: combine them with terms, and nothing else."""

from __future__ import annotations

from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.rewrite import substitute
from tensorir.lifting.region.nodes import Atomic, Check, For, If, Let, Node, Read, While, Write, walk
from tensorir.lifting.schedule.components import combined


def reductions(node: For) -> tuple[tuple[Node, ...], list[tuple[str, Expr]]] | None:
    """A body without what it carries, and for each carried value how and with what it is combined; None if that is not
    all that is done with it.
    """
    if not node.carried:
        return node.body, []
    insides = {c.inside for c in node.carried}
    tainted: dict[Var, Expr] = {}
    rest: list[Node] = []
    for n in node.body:
        if isinstance(n, Let) and not n.value.free.isdisjoint(insides | tainted.keys()):
            tainted[n.result] = substitute(n.value, {v: tainted[v] for v in n.value.free if v in tainted})
            continue
        if not uses(n).isdisjoint(insides | tainted.keys()):
            return None
        rest.append(n)
    found: list[tuple[str, Expr]] = []
    for c in node.carried:
        value = tainted.get(c.next) if isinstance(c.next, Var) else None
        if value is None:
            return None
        pair = combined(value, c.inside)
        if pair is None or not pair[1].free.isdisjoint(insides | tainted.keys()):
            return None
        if TABLE[pair[0]].identity is None:
            return None
        found.append(pair)
    return tuple(rest), found


def uses(node: Node) -> frozenset[Var]:
    """Every variable that a node, or one in it, asks for."""
    found: set[Var] = set()
    for n in walk((node,)):
        match n:
            case Read(_, _, at, where, otherwise):
                found |= {i for i in (*at, *where) if isinstance(i, Var)}
                found |= otherwise.free if otherwise is not None else frozenset()
            case Write(_, at, value, where) | Atomic(_, _, at, _, value, where):
                found |= {i for i in (*at, *where) if isinstance(i, Var)} | value.free
            case Let(_, value):
                found |= value.free
            case If(conditions, joined=joined):
                found |= {c for c in conditions if isinstance(c, Var)}
                for j in joined:
                    found |= j.value.free | j.otherwise.free
            case For(_, start, stop, carried=carried):
                found |= {i for i in (start, stop) if isinstance(i, Var)}
                for c in carried:
                    found |= c.first.free | c.next.free
            case While(_, condition, carried=carried):
                found |= condition.free
                for c in carried:
                    found |= c.first.free | c.next.free
            case Check(condition):
                found |= condition.free
            case _:
                pass
    return frozenset(found)
