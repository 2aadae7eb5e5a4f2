"""Units of intermediates, from those that the caller's DataArrays have.

A shift, a part, a choice between values of one unit keep it; a sum has the unit of any operand that is known to have
one, since only like is added to like. What changes units (products, functions) has none here, rather than a wrong one.

>>> import tensorir as ti
>>> f = ti.parse("f(out: tensor<float, I[0:4]>, h: tensor<float, I[0:5]>) { out ← ⟪I, 1⟫(h) - 4.0 × h; }")
>>> units_of(f, {"h": "m"})
{'out': 'm'}
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.builtins import ALL, TABLE
from tensorir.ir import Call, Expr, Fencil, Operator, Var
from tensorir.walk import postorder

__all__ = ["units_of"]


def units_of(fencil: Fencil, given: Mapping[str, str]) -> dict[str, str]:
    """The units of outputs, as far as they follow from those of parameters by name."""
    known: dict[str, str] = dict(given)
    for closure in fencil.closures:
        found: dict[int, str] = {}
        for node in postorder(closure.value):
            unit = known.get(node.name, "") if isinstance(node, Var) else _unit(node, found)
            if unit:
                found[id(node)] = unit
        if unit := found.get(id(closure.value), ""):
            known.setdefault(closure.output.name, unit)
    return {p.name: known[p.name] for p in fencil.outputs if p.name in known}


def _unit(node: Expr, found: Mapping[int, str]) -> str:
    match node:
        case Call("make_tuple" | "tuple_get"):
            return ""
        case Call("if", (_, *branches)):
            return _one(branches, found)
        case Call(op, args) if TABLE[op].homogeneous:
            return _one(args[TABLE[op].moved or ALL], found)
        case Call("reduce", (Operator(op), _, *args)) if TABLE[op].homogeneous and TABLE[op].associative:
            return _one(args, found)
        case _:
            return ""


def _one(nodes: tuple[Expr, ...] | list[Expr], found: Mapping[int, str]) -> str:
    """The unit of all that have one, "" where two differ."""
    units = {found[id(n)] for n in nodes if id(n) in found}
    return units.pop() if len(units) == 1 else ""
