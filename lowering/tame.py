"""Which operations have finite derivatives, or stand where all that is computed counts.

In a program that chooses nothing, and reads and keeps all that it computes, slopes are what they are by hand. Elsewhere
a quotient of elements that nobody reads may be infinite, a sum or a product of what a program was given is not: where
no factor comes from a quotient, a root, a logarithm or an exponential, derivatives need not be looked after
(`slopes`), which in a stencil takes as long as the derivative itself. Products that overflow by themselves are not
thought of, neither are arguments that are infinite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tensorir.ir import Apply, Call, Expr, Fencil, Lambda, Literal, Var
from tensorir.types import FunctionType
from tensorir.walk import postorder, values

__all__ = ["tame"]

UNBOUNDED = frozenset(
    (
        "divides", "floordiv", "mod", "rem", "power", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10",
        "log1p", "arcsin", "arccos", "sinh", "cosh", "arccosh", "arctanh", "lgamma", "bitcast",
    )
)  # fmt: skip
"""Operations that make infinities, or what is not a number, of finite operands."""

CHOOSING = frozenset(("if", "scatter", "update", "gather"))
"""Operations that leave out some of what was computed."""


def tame(fencil: Fencil) -> frozenset[int]:
    """The products, magnitudes and quotients with finite derivatives, by identity; all calls of one without choices.

    >>> from tensorir.text import parse
    >>> f = parse("f(x: tensor<float>, y: tensor<float>) { y ← if x > 0.0 then x × x × (2.0 / x) else x / 3.0; }")
    >>> found = tame(f)
    >>> sorted(str(e) for e in postorder(*values(f.closures)) if id(e) in found)
    ['x / 3.0', 'x × x']
    """
    nodes = list(postorder(*values(fencil.closures)))
    if not any(isinstance(e, Call) and e.op in CHOOSING for e in nodes):
        return frozenset(id(e) for e in nodes if isinstance(e, Call))
    wild: set[Var] = set()
    while True:
        found = _wild(nodes, wild)
        more = {p for e in nodes if isinstance(e, (Apply, Call)) and any(found[id(c)] for c in e.children)
                for c in e.children if isinstance(c, Lambda) for p in c.params}  # fmt: skip
        more |= {c.output for c in fencil.closures if found[id(c.value)]}
        if more <= wild:
            return frozenset(id(e) for e in nodes if isinstance(e, Call) and _is_tame(e, found))
        wild |= more


def _wild(nodes: list[Expr], variables: set[Var]) -> Mapping[int, bool]:
    """Whether the values of nodes may be infinite, by identity; operands come first."""
    found: dict[int, bool] = {}
    for e in nodes:
        match e:
            case Literal(value):
                found[id(e)] = not math.isfinite(value)
            case Var():
                found[id(e)] = e in variables
            case Call(op) if op in UNBOUNDED and not _by_constant(e):
                found[id(e)] = _moves(e)
            case _:
                found[id(e)] = _moves(e) and any(found[id(c)] for c in e.children)
    return found


def _moves(e: Expr) -> bool:
    """Whether there is a float among the values."""
    return isinstance(e.type, FunctionType) or any(s.is_float for s in e.tensor.leaves)


def _by_constant(e: Call) -> bool:
    return e.op == "divides" and isinstance(e.args[1], Literal) and _is_finite(e.args[1]) and e.args[1].value != 0


def _is_finite(e: Expr) -> bool:
    return isinstance(e, Literal) and math.isfinite(e.value)


def _is_tame(e: Call, wild: Mapping[int, bool]) -> bool:
    match e.op:
        case "multiplies":
            return any(map(_is_finite, e.args)) or not any(wild[id(a)] for a in e.args)
        case "abs":
            return not wild[id(e.args[0])]
        case _:
            return _by_constant(e)
