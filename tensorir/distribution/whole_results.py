"""What every result of a program is, as one expression of what is passed: closures put into each other.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← x × x; y[I[1:3]] ← y + x; }")
>>> print(whole_results(f)["y"])
let t1 = x × x; update(t1, subset(t1 + x, I[1:3]))
"""

from __future__ import annotations

from tensorir.ir.build import call, coerced, literal
from tensorir.ir.nodes import Expr, Fencil, Var
from tensorir.ir.rewrite import substitute_all, values
from tensorir.ir.substitution import inlined
from tensorir.ir.types import DTYPES, Element, Scalar, TensorType, TupleElement

__all__ = ["whole_results", "zero"]


def whole_results(fencil: Fencil) -> dict[str, Expr]:
    """By name, the value of each result in terms of the parameters that are passed; nothing is applied any more."""
    held: dict[Var, Expr] = {}
    for closure, value in zip(fencil.closures, inlined(values(fencil.closures)), strict=True):
        (now,) = substitute_all((value,), held)
        part, whole = coerced(now, closure.target), closure.output.type
        if closure.target.dims != whole.dims:
            before = held.get(closure.output)
            if before is None:
                before = closure.output if closure.output in fencil.inputs else _blank(whole)
            part = call("update", before, part, span=closure.span)
        held[closure.output] = part
    return {p.name: held[p] for p in fencil.results}


def _blank(kind: TensorType) -> Expr:
    """A buffer of which nothing is read that was not written."""
    return coerced(zero(kind.element), kind)


def zero(element: Element) -> Expr:
    """Zero, or false, of an element type."""
    match element:
        case Scalar():
            return literal(DTYPES[element].type(0).item(), element)
        case TupleElement(members):
            return call("make_tuple", *(zero(m) for m in members))
