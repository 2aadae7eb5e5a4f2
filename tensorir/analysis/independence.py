"""Along which dims the points of an expression are independent: each is computed from operands at that point alone.

Such an expression may be computed for some points at a time, wherever they stand: the expression for a block of points
is the same one on another interval.

>>> from tensorir.text import parse
>>> f = parse('''f(y: tensor<float, I[0:8], K[1:5]>, x: tensor<float, I[0:8], K[0:5]>) {
...   y ← ⟪K, -1⟫(x) + x; }''')
>>> value = f.closures[0].value
>>> [independent(value, Dims(((d, value.tensor.dims[d]),))) for d in ("I", "K")]
[True, False]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild
from tensorir.ir.types import Dims, Interval, TensorType

__all__ = ["independent", "on_block"]

ALONG_OTHERS: dict[str, str | None] = {
    "cartesian_shift": "dim", "reduce": "dim", "scan": "dim", "subset": "intervals", "pos": "dim", "contract": "dims",
    "concat": None, "materialise": None, "make_tuple": None, "tuple_get": None, "cond": None,
}  # fmt: skip
"""Builtins that leave points apart along all dims but those that a static parameter names."""


def independent(node: Expr, dims: Dims) -> bool:
    """Whether a node, not what it is computed of, leaves the points of dims apart.

    The node, its operands, and what functions among these take and give have each dim on that interval, or lack it.
    """
    match node:
        case Literal() | Var() | Lambda() | Operator():
            return True
        case Apply():
            return _same(node, dims)
        case Call(op):
            row = TABLE[op]
            if row.effect or row.checks or row.indirect or not _same(node, dims):
                return False
            if op in ALONG_OTHERS:
                named = ALONG_OTHERS[op]
                return named is None or not any(_names(getattr(node.static, named), d) for d in dims)
            return row.elementwise or op == "add_dim"


def _names(static: str | Sequence[str] | Dims, dim: str) -> bool:
    """Whether a static parameter, a dim or several, names a dim."""
    return static == dim if isinstance(static, str) else dim in static


def _same(node: Expr, dims: Dims) -> bool:
    kinds = [node.type, *(c.type for c in node.children)]
    kinds += [t for k in kinds if not isinstance(k, TensorType) for t in (*k.params, *k.results)]
    return all(n not in k.dims or k.dims[n] == i for k in kinds if isinstance(k, TensorType) for n, i in dims.items)


def on_block(function: Lambda, dims: Sequence[str], size: int) -> tuple[Lambda, dict[int, Expr]] | None:
    """The function of so many points of dims, as one dim under the first one's name, counted from 0.

    Also what stands for each of its nodes, by identity. None where the points are not independent, or the function
    reads tensors from outside that have one of the dims.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[3:9], J[0:4]>, x: tensor<float, I[3:9], J[0:4]>) {
    ...   y ← blocked(0, 5, I, J)(λ(a: tensor<float, I[3:9], J[0:4]>) → a × 2.0, x); }''')
    >>> small, _ = on_block(f.closures[0].value.args[0], ("I", "J"), 5)
    >>> small.type
    (tensor<float, I[0:5]>) → tensor<float, I[0:5]>
    """
    whole = Dims(tuple((d, function.results[0].tensor.dims[d]) for d in dims))
    order = list(postorder(function))
    if any(d in v.type.dims for v in function.free for d in dims):
        return None
    if not all(independent(n, whole) for n in order if n is not function):
        return None
    block = Dims(((whole.names[0], Interval(0, size)),))
    kinds = {p: _merged(p.type, whole, block) for n in order if isinstance(n, Lambda) for p in n.params}
    params = {p: replace(p, type=k) if k != p.type else p for p, k in kinds.items()}
    new: dict[int, Expr] = {}
    for n in order:
        children = tuple(new[id(c)] for c in n.children)
        match n:
            case Var():
                new[id(n)] = params.get(n, n)
            case Lambda():
                new[id(n)] = replace(n, params=tuple(params[p] for p in n.params), results=children)
            case Operator():
                new[id(n)] = replace(n, params=tuple(_merged(p, whole, block) for p in n.params))
            case Call("add_dim") if n.static.dim in whole:
                (x,) = children
                has = block.names[0] in x.tensor.dims
                new[id(n)] = x if has else call("add_dim", x, static=(block.names[0], 0, size), span=n.span)
            case _:
                new[id(n)] = rebuild(n, children)
    small = new[id(function)]
    assert isinstance(small, Lambda)
    return small, new


def _merged(kind: TensorType, whole: Dims, block: Dims) -> TensorType:
    """The type with one dim in the place of those that it has of several."""
    if not any(n in kind.dims for n in whole):
        return kind
    return kind.on(Dims((*block.items, *((n, i) for n, i in kind.dims.items if n not in whole))))
