"""Where a last bit decides: the operations on floats whose results become whole numbers.

Where a float becomes a whole number, by a cast or by floor and its like, a last bit decides between two of them, and
so, as an index, which element is read: what leads there is computed as it is written, and not contracted or reordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType

__all__ = ["towards_whole_numbers"]


def towards_whole_numbers(roots: Sequence[Expr]) -> frozenset[int]:
    """The elementwise operations on floats whose results become whole numbers, by identity.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, i: tensor<int>, y: tensor<float>) "
    ...           "{ i ← cast(x × 3.0 + 0.5, int); y ← x × 4.0 + floor(x); }")
    >>> found = towards_whole_numbers([c.value for c in f])
    >>> sorted(str(e) for c in f for e in postorder(c.value) if id(e) in found)
    ['x × 3.0', 'x × 3.0 + 0.5']
    """
    stack = [a for e in postorder(*roots) if _is_whole(e) for a in e.children]
    seen: dict[int, Call] = {}
    while stack:
        e = stack.pop()
        if id(e) in seen or not isinstance(e, Call):
            continue
        if e.op == "cond":
            stack += [f.results[e.static.result] for f in e.args[:2] if isinstance(f, Lambda)]
        elif not TABLE[e.op].elementwise and not TABLE[e.op].moves:
            continue
        seen[id(e)] = e
        stack.extend(e.children)
    return frozenset(key for key, e in seen.items() if TABLE[e.op].elementwise)


def _is_whole(e: Expr) -> bool:
    match e:
        case Call("cast", (x,)):
            return _is_float(x) and e.tensor.leaves[0].is_integer
        case Call(op, (x, *_)):
            return TABLE[op].discontinuous and _is_float(x)
        case _:
            return False


def _is_float(x: Expr) -> bool:
    return isinstance(x.type, TensorType) and x.type.leaves[0].is_float
