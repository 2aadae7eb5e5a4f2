"""Where control leaves a function, or a thread its kernel, before the end."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.lift.tags import is_hardware
from tensorir.tir.walk import children, walk

__all__ = ["returns", "returns_early"]


def returns(node: n.Node) -> bool:
    """Whether a `ret` stands somewhere inside."""
    return any(_is_return(part) for part in walk(node))


def returns_early(body: n.Stmt) -> bool:
    """Whether a `ret` of a function stands somewhere else than at its end; in a kernel only its thread returns."""
    pending: list[n.Node] = list(body.seq) if isinstance(body, n.SeqStmt) else [body]
    if pending and isinstance(pending[-1], n.Evaluate):
        pending.pop()
    while pending:
        match pending.pop():
            case n.For(kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)) if is_hardware(tag):
                pass
            case n.AttrStmt(n.IterVar(thread_tag=tag), "thread_extent") if is_hardware(tag):
                pass
            case part if _is_return(part):
                return True
            case part:
                pending += children(part)
    return False


def _is_return(node: n.Node) -> bool:
    return isinstance(node, n.Call) and node.op in ("ret", "thread_return")
