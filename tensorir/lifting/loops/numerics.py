"""Where a lifted program rounds otherwise than its source: what "fast" numerics leave to the compiler, place by place.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float>, a: tensor<float, K[0:9]>) { y ← contract(float, K)(a, a); }")
>>> for row in differences(f):
...     print(row)
line 1: a sum of products: in any order, products unrounded where that is faster; exact: term after term
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Scalar, TensorType
from tensorir.lifting.emission.tensors import constant_of
from tensorir.runtime.errors import NOWHERE, Span

__all__ = ["Difference", "differences"]

ORDERED = {"plus": "a sum", "multiplies": "a product"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is computed, how with fast numerics, and how with exact ones."""

    where: str
    what: str
    fast: str
    exact: str

    def __str__(self) -> str:
        line = f"line {self.where}: " if self.where else ""
        return f"{line}{self.what}: {self.fast}; exact: {self.exact}"


def differences(f: Fencil, merged: Sequence[Span] = ()) -> tuple[Difference, ...]:
    """What fast numerics may round otherwise in a program; `merged` are the places of folds that were put together."""
    found: list[Difference] = [
        _row(span, "a sum in parts", "one sum over all of it", "part after part") for span in merged
    ]
    for node in postorder(*values(f.closures)):
        if isinstance(node, Call) and _is_float(node):
            row = _difference(node)
            if row is not None:
                found.append(row)
    return tuple(dict.fromkeys(found))


def _row(span: Span, what: str, fast: str, exact: str) -> Difference:
    return Difference("" if span is NOWHERE else str(span.line), what, fast, exact)


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, TensorType) and isinstance(e.tensor.element, Scalar) and e.tensor.element.is_float


def _difference(e: Call) -> Difference | None:
    match e:
        case Call("contract"):
            fast = "in any order, products unrounded where that is faster"
            return _row(e.span, "a sum of products", fast, "term after term")
        case Call("reduce", (f, *_)) if (op := _folded(f)) is not None:
            return _row(e.span, f"{ORDERED[op]} of many", "in any order", "term after term")
        case Call("plus" | "minus", args) if any(isinstance(a, Call) and a.op == "multiplies" for a in args):
            return _row(e.span, "a product that is added", "rounded once or twice", "twice")
        case Call("divides", (_, by)) if constant_of(by) is not None:
            return _row(
                e.span, "a division by a number", "a product with its inverse where that is faster", "a division"
            )
        case _:
            return None


def _folded(f: Expr) -> str | None:
    """The operation whose order tells what a fold rounds."""
    match f:
        case Operator(op) if op in ORDERED:
            return op
        case Lambda((state, *_), (Call(op, args),)) if op in ORDERED and state in args:
            return op
        case _:
            return None
