"""Where control leaves a loop, a function, or a thread its kernel, before the end."""

from __future__ import annotations

from tensorir.tir import nodes as n
from tensorir.tir.builtins import is_hardware
from tensorir.tir.trees import children, walk

__all__ = ["jumps", "returns", "returns_early"]


def jumps(body: n.Stmt) -> tuple[bool, bool]:
    """Whether a loop's body breaks, or continues, this loop."""
    breaks = continues = False
    pending: list[n.Node] = [body]
    while pending:
        node = pending.pop()
        match node:
            case n.Break() | n.Evaluate(n.Call(op="break_loop")):
                breaks = True
            case n.Continue() | n.Evaluate(n.Call(op="continue_loop")):
                continues = True
            case n.For() | n.While():
                pass
            case n.SeqStmt(parts):
                pending += parts
            case n.IfThenElse(_, then, otherwise):
                pending += [then, *([] if otherwise is None else [otherwise])]
            case n.AttrStmt(body=inner) | n.BufferRealize(body=inner) | n.Block(body=inner):
                pending.append(inner)
            case n.BlockRealize(_, _, block):
                pending.append(block)
            case _:
                pass
    return breaks, continues


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
