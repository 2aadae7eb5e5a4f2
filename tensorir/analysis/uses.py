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
    """The nodes of the roots outside of functions' bodies, operands first; functions themselves are left out."""
    order = nodes.postorder(roots, lambda node: [c for c in node.children if not isinstance(c, Lambda)])
    return [node for node in order if not isinstance(node, Lambda)]


def reads(root: Expr, order: Sequence[Expr]) -> dict[Expr, set[tuple[Expr, Offset]]]:
    """For each expression its readers, and the offset at which each reads it; shifts and other moves are not readers,
    but pass their readers on to their operand with a further offset. At most `MOST` readers are recorded.
    """
    readers: dict[Expr, set[tuple[Expr, Offset]]] = {}
    for node in reversed(order):
        moves = isinstance(node, Call) and TABLE[node.op].moved == LAST
        for position, child in enumerate(node.children):
            if isinstance(child, Lambda):
                continue
            offsets = readers.setdefault(child, set())
            if not moves or (len(node.children) == 2 and position == 0):
                offsets.add((node, ()))
                continue
            for reader, offset in readers.get(node, set()):
                if len(offsets) < MOST:
                    offsets.add((reader, further(offset, node)))
    return readers


def further(offset: Offset, node: Expr) -> Offset:
    """The offset extended by the move of a node: distances along a dim are added, other moves (tables, indices)
    appended.
    """
    assert isinstance(node, Call)
    (*_, access) = node.accesses or (None,)
    if access is None or access.entries or any(isinstance(a, Affine) and a.is_number for a in access.at.values()):
        return (*offset, (node.op, f"{getattr(node.args[0], 'name', '')} {tuple(node.static)}"))
    if not access.at:
        return offset
    sums = {d: int(step) for d, step in offset if step.lstrip("-").isdecimal()}
    for dim in access.at:
        sums[dim] = sums.get(dim, 0) + (access.offset(dim) or 0)
    other_steps = [(d, step) for d, step in offset if not step.lstrip("-").isdecimal()]
    return tuple(sorted([(d, str(step)) for d, step in sums.items() if step] + other_steps))


def independent(node: Expr, dims: Dims) -> bool:
    """True if a node (not its operands) computes each point along `dims` from its operands at that point alone.

    Such a node can be computed for a block of points at a time. It, its operands, and the parameters and results of
    their functions must have each dim on the given interval, or not at all.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[0:8], K[1:5]>, x: tensor<float, I[0:8], K[0:5]>) {
    ...   y ← ⟪K, -1⟫(x) + x; }''')
    >>> value = f.closures[0].value
    >>> [independent(value, Dims(((d, value.tensor.dims[d]),))) for d in ("I", "K")]
    [True, False]
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
    """The literal that an expression is at every point, through broadcasts and other moves; None if it is none."""
    while isinstance(e, Call) and TABLE[e.op].relocates and len(e.args) == 1:
        e = e.args[0]
    return e.value if isinstance(e, Literal) else None


def names_in(static: Any) -> set[str]:
    """All strings in static parameters, among them the names of dims.

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
    """True if the types of a node, its operands and their functions have each dim on the given interval, or not at
    all.
    """
    types = [node.type, *(c.type for c in node.children)]
    types += [t for k in types if not isinstance(k, TensorType) for t in (*k.params, *k.results)]
    return all(n not in k.dims or k.dims[n] == i for k in types if isinstance(k, TensorType) for n, i in dims.items)


def on_block(function: Lambda, dims: Sequence[str], size: int) -> tuple[Lambda, dict[int, Expr]] | None:
    """The function for a block of `size` points: its `dims` become one dim, named like the first, from 0 to size. Also
    the new node for each old one, by identity.

    None if the points along `dims` are not independent, or the function captures a tensor with one of them.

    >>> from tensorir.text import parse
    >>> f = parse('''f(y: tensor<float, I[3:9], J[0:4]>, x: tensor<float, I[3:9], J[0:4]>) {
    ...   y ← blocked(0, 5, I, J)(λ(a: tensor<float, I[3:9], J[0:4]>) → a × 2.0, x); }''')
    >>> small, _ = on_block(f.closures[0].value.args[0], ("I", "J"), 5)
    >>> small.type
    (tensor<float, I[0:5]>) → tensor<float, I[0:5]>
    """
    whole_dims = Dims(tuple((d, function.results[0].tensor.dims[d]) for d in dims))
    order = list(postorder(function))
    if any(d in v.type.dims for v in function.free for d in dims):
        return None
    if not all(independent(n, whole_dims) for n in order if n is not function):
        return None
    block = Dims(((whole_dims.names[0], Interval(0, size)),))
    new_types = {p: _merged(p.type, whole_dims, block) for n in order if isinstance(n, Lambda) for p in n.params}
    params = {p: replace(p, type=new_type) if new_type != p.type else p for p, new_type in new_types.items()}
    new_nodes: dict[int, Expr] = {}
    for n in order:
        children = tuple(new_nodes[id(c)] for c in n.children)
        match n:
            case Var():
                new_nodes[id(n)] = params.get(n, n)
            case Lambda():
                new_nodes[id(n)] = replace(n, params=tuple(params[p] for p in n.params), results=children)
            case Operator():
                new_nodes[id(n)] = replace(n, params=tuple(_merged(p, whole_dims, block) for p in n.params))
            case Call("add_dim") if n.static.dim in whole_dims:
                (x,) = children
                has = block.names[0] in x.tensor.dims
                new_nodes[id(n)] = x if has else call("add_dim", x, static=(block.names[0], 0, size), span=n.span)
            case _:
                new_nodes[id(n)] = rebuild(n, children)
    block_function = new_nodes[id(function)]
    assert isinstance(block_function, Lambda)
    return block_function, new_nodes


def _merged(tensor_type: TensorType, whole_dims: Dims, block: Dims) -> TensorType:
    """The type with `block` in place of the `whole_dims` that it has; unchanged if it has none."""
    if not any(n in tensor_type.dims for n in whole_dims):
        return tensor_type
    return tensor_type.on(Dims((*block.items, *((n, i) for n, i in tensor_type.dims.items if n not in whole_dims))))
