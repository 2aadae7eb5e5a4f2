"""Expressions for one iteration as expressions for all of them: operands get dims, and what combines them follows."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.ir.build import call, operator, reduce
from tensorir.ir.nodes import Call, Expr, Lambda, Operator, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import TensorType, bcast
from tensorir.lifting.dataflow.statements import Uncovered

__all__ = ["applied"]


def applied(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced by tensors of more dims, which all broadcast by name.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> x = Var("x", tensor("float", K=(0, 3)))
    >>> e = parse_expr("reduce(+, 0.0, K)(x)", [x])
    >>> applied(e, {x: Var("y", tensor("float", K=(0, 3), I=(0, 2)))}).type
    tensor<float, I[0:2]>
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if node.free.isdisjoint(values):
            done[id(node)] = node
        elif isinstance(node, Var):
            done[id(node)] = values[node]
        elif isinstance(node, Lambda):
            raise Uncovered("a function over values of a loop")
        elif not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children if id(c) not in done)
        else:
            done[id(node)] = _made(node, tuple(done[id(c)] for c in node.children))
    return done[id(e)]


def _made(node: Expr, children: tuple[Expr, ...]) -> Expr:
    match node:
        case Call("reduce", (Operator(op), *_), (dim,)):
            _, init, x = children
            rest = x.tensor.on(x.tensor.dims.without(dim))
            state = TensorType(node.tensor.element, bcast([rest, init.tensor]))
            return reduce(operator(op, state, rest), init, x, dim=dim, span=node.span)
        case Call("reduce" | "scan" | "loop"):
            raise Uncovered("a fold of several tensors over values of a loop")
        case Call("add_dim" | "pos" | "subset" | "update" | "concat"):
            return call(node.op, *children, static=node.static, span=node.span)
        case _:
            return rebuild(node, children)
