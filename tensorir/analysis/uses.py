"""Uses of expressions: who reads one at which offsets, and along which dims its points are independent.

>>> from tensorir.ir.build import call, cartesian_shift, var
>>> from tensorir.ir.types import tensor
>>> c = call("cos", var("x", tensor("float", I=(0, 9))))
>>> difference = call("minus", cartesian_shift(c, "I", 1), cartesian_shift(c, "I", -1))
>>> sorted(offset for _, offset in reads(difference, surface(difference))[c])
[(('I', '-1'),), (('I', '1'),)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from tensorir import nodes
from tensorir.integers.affine import Affine
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call
from tensorir.ir.builtins import LAST, TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild
from tensorir.ir.types import TensorType

MOST = 64
"""Reads of one expression that are told apart."""

Offset = tuple[tuple[str, str], ...]
"""Steps by dim, and the neighbours of tables, in the order in which they are taken."""


def surface(*roots: Expr) -> list[Expr]:
    """The nodes that no function is around, operands first."""
    order = nodes.postorder(roots, lambda node: [c for c in node.children if not isinstance(c, Lambda)])
    return [node for node in order if not isinstance(node, Lambda)]


def reads(root: Expr, order: Sequence[Expr]) -> dict[Expr, set[tuple[Expr, Offset]]]:
    """Of each expression, who reads it, and through which shifts: moves hand their reads on to what they move."""
    readers: dict[Expr, set[tuple[Expr, Offset]]] = {}
    for node in reversed(order):
        moves = isinstance(node, Call) and TABLE[node.op].moved == LAST
        for k, child in enumerate(node.children):
            if isinstance(child, Lambda):
                continue
            offsets = readers.setdefault(child, set())
            if not moves or (len(node.children) == 2 and k == 0):
                offsets.add((node, ()))
                continue
            for reader, offset in readers.get(node, set()):
                if len(offsets) < MOST:
                    offsets.add((reader, further(offset, node)))
    return readers


def further(offset: Offset, node: Expr) -> Offset:
    """An offset at which a node is read, as one of what the node moves."""
    assert isinstance(node, Call)
    (*_, access) = node.accesses or (None,)
    if access is None or access.entries or any(isinstance(a, Affine) and a.is_number for a in access.at.values()):
        return (*offset, (node.op, f"{getattr(node.args[0], 'name', '')} {tuple(node.static)}"))
    if not access.at:
        return offset
    total = {d: int(o) for d, o in offset if o.lstrip("-").isdecimal()}
    for dim in access.at:
        total[dim] = total.get(dim, 0) + (access.offset(dim) or 0)
    rest = [(d, o) for d, o in offset if not o.lstrip("-").isdecimal()]
    return tuple(sorted([(d, str(o)) for d, o in total.items() if o] + rest))


def independent(node: Expr, dims: Dims) -> bool:
    """True if a node, not what it is computed of, computes each point along dims from operands at that point alone.

    Such an expression may be computed for some points at a time, wherever they stand: for a block of points it is the
    same one on another interval.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[0:8], K[1:5]>, x: tensor<float, I[0:8], K[0:5]>) {
    ...   y ← ⟪K, -1⟫(x) + x; }''')
    >>> value = f.closures[0].value
    >>> [independent(value, Dims(((d, value.tensor.dims[d]),))) for d in ("I", "K")]
    [True, False]

    The node, its operands, and what functions among these take and give have each dim on that interval, or lack it.
    """
    match node:
        case Literal() | Var() | Lambda() | Operator():
            return True
        case Apply():
            return same_intervals(node, dims)
        case Call(op):
            row = TABLE[op]
            if row.effect or row.checks or row.indirect or not same_intervals(node, dims):
                return False
            placed = names_in(node.static) & {d for a in node.args for d in a.tensor.dims} if row.placed else set[str]()
            if node.accesses is None or not placed.isdisjoint(dims):
                return False
            return all(set(node.type.dims if a is None else a.mixed).isdisjoint(dims) for a in node.accesses)


def literal_of(e: Expr) -> Any:
    """The number that an expression is at all of its points, None where that is not plain."""
    while isinstance(e, Call) and TABLE[e.op].relocates and len(e.args) == 1:
        e = e.args[0]
    return e.value if isinstance(e, Literal) else None


def names_in(static: Any) -> set[str]:
    """The names that static parameters hold, those of dims among them.

    >>> sorted(names_in(("I", 3, Dims.of(J=(0, 4)))))
    ['I', 'J']
    """
    match static:
        case str():
            return {static}
        case Dims():
            return set(static.names)
        case tuple():
            return {name for member in cast("tuple[Any, ...]", static) for name in names_in(member)}
        case _:
            return set()


def same_intervals(node: Expr, dims: Dims) -> bool:
    """True if a node, its operands, and what functions take and give have each dim on that interval, or lack it."""
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
