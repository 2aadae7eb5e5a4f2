"""Expressions for one iteration as expressions for all of them: operands get dims, functions of folds, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.ir.build import call, function, operator, reduce, scan
from tensorir.ir.nodes import Call, Expr, Lambda, Operator, Var
from tensorir.ir.rewrite import rebuild
from tensorir.ir.types import TensorType, bcast
from tensorir.lifting.emission.tensors import spread


def widened(e: Expr, value: Callable[[Var], Expr | None]) -> Expr:
    """The expression with variables replaced by tensors of more dims, which all broadcast by name.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> x = Var("x", tensor("float", K=(0, 3)))
    >>> e = parse_expr("scan(λ(s: tensor<float>, v: tensor<float>) → s × v, true, 1.0, K)(x)", [x])
    >>> widened(e, lambda v: Var("y", tensor("float", K=(0, 3), I=(0, 2))) if v == x else None).type
    tensor<float, K[0:3], I[0:2]>
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(e, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if isinstance(node, Var):
            found = value(node)
            done[id(node)] = node if found is None else found
        elif isinstance(node, Operator) or not node.free:
            done[id(node)] = node
        elif isinstance(node, Lambda):
            done[id(node)] = node  # made where it is called
        elif not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in node.children if id(c) not in done)
        else:
            done[id(node)] = _made(node, tuple(done[id(c)] for c in node.children), value)
    return done[id(e)]


def _made(node: Expr, children: tuple[Expr, ...], value: Callable[[Var], Expr | None]) -> Expr:
    match node:
        case Call("reduce" | "scan", (f, *_)):
            assert isinstance(f, Lambda | Operator)
            _, init, *xs = children
            return _fold(node, f, init, xs, value)
        case Call("concat"):
            whole = bcast([c.tensor.dims.without(*_along(children)) for c in children])
            return call("concat", *(spread(c, dict(whole.items)) for c in children), span=node.span)
        case Call():
            return call(node.op, *children, static=node.static, span=node.span)
        case _:
            return rebuild(node, children)


def _along(parts: Sequence[Expr]) -> tuple[str, ...]:
    """The dim along which parts follow each other."""
    first = parts[0].tensor.dims
    return tuple(n for n, i in first.items if any(p.tensor.dims.get(n) not in (None, i) for p in parts[1:]))


def _fold(
    node: Call, f: Lambda | Operator, init: Expr, xs: Sequence[Expr], value: Callable[[Var], Expr | None]
) -> Expr:
    dim = node.static[-1]
    elements = [x.tensor.on(x.tensor.dims.without(dim)) for x in xs]
    if isinstance(f, Operator):
        state = TensorType(init.tensor.element, bcast([*(e.dims for e in elements), init.tensor.dims]))
        made = operator(f.op, state, *elements)
    else:
        captured = [found for v in f.free if (found := value(v)) is not None]
        dims = bcast([*(e.dims for e in elements), init.tensor.dims, *(c.tensor.dims for c in captured)])
        state = TensorType(f.params[0].type.element, dims)
        params = [Var(p.name, t) for p, t in zip(f.params, (state, *elements), strict=True)]
        own = dict(zip((p.name for p in f.params), params, strict=True))

        def inner(v: Var) -> Expr | None:
            return own[v.name] if v.name in own else value(v)

        made = function(params, widened(f.body, inner), span=f.span)
    if node.op == "reduce":
        return reduce(made, init, *xs, dim=dim, span=node.span)
    return scan(made, node.static[0], init, *xs, dim=dim, span=node.span)
