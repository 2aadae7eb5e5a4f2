"""Whether two sizes are equal: by their terms, or by trying all values of the variables in them.

>>> from tensorir.tir.dtypes import INT32
>>> i, number = n.Var("i", n.PrimType(INT32)), lambda value: n.IntImm(value, INT32)
>>> rest = n.Min(number(4), n.Sub(number(16), n.Mul(i, number(4))))      # min(4, 16 - 4 i)
>>> compare(rest, number(4), {i: (0, 3)}), compare(rest, number(4), {i: (0, 4)}), compare(rest, number(5), {i: (0, 3)})
(Equality.ALWAYS, Equality.SOMETIMES, Equality.NEVER)
>>> compare(i, number(4), {})
Equality.UNKNOWN
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product

from tensorir.tir import nodes as n
from tensorir.tir.ranges import Bounds
from tensorir.tir.script.extents import linear
from tensorir.tir.walk import walk

__all__ = ["Equality", "compare"]

MOST = 4096
"""How many combinations of values are tried."""
MOST_NODES = 100
"""How large the expressions are for which they are."""


class Equality(Enum):
    """What is known of two expressions: SOMETIMES that they differ for some values, and agree for others."""

    ALWAYS = "always"
    NEVER = "never"
    SOMETIMES = "sometimes"
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return f"Equality.{self.name}"


def compare(a: n.Expr, b: n.Expr, bounds: Mapping[n.Var, Bounds]) -> Equality:
    """How two integer expressions compare, where variables take all the values within their bounds."""
    difference = linear(a)
    for atom, factor in linear(b).items():
        difference[atom] = difference.get(atom, 0) - factor
    constant = difference.pop(None, 0)
    atoms = [atom for atom, factor in difference.items() if factor and atom is not None]
    if not atoms:
        return Equality.NEVER if constant else Equality.ALWAYS
    names = list({node: None for atom in atoms for node in walk(atom) if isinstance(node, n.Var)})
    if any(name not in bounds for name in names) or not _plain(atoms):
        return Equality.UNKNOWN
    count = 1
    for name in names:
        count *= bounds[name][1] - bounds[name][0] + 1
        if count > MOST:
            return Equality.UNKNOWN
    equal = 0
    for values in product(*(range(bounds[name][0], bounds[name][1] + 1) for name in names)):
        known = dict(zip(names, values, strict=True))
        try:
            equal += constant + sum(difference[atom] * _value(atom, known) for atom in atoms) == 0
        except ZeroDivisionError:
            return Equality.UNKNOWN
    return Equality.ALWAYS if equal == count else Equality.SOMETIMES if equal else Equality.NEVER


def _plain(atoms: list[n.Expr]) -> bool:
    """Whether arithmetic of integers is all there is."""
    kinds = n.Var | n.IntImm | n.Add | n.Sub | n.Mul | n.FloorDiv | n.FloorMod | n.Min | n.Max | n.Cast
    nodes = [node for atom in atoms for node in walk(atom)]
    if len(nodes) > MOST_NODES or not all(isinstance(node, kinds) for node in nodes):
        return False
    return all(node.dtype.is_integer for node in nodes if isinstance(node, n.Expr))


def _value(expr: n.Node, known: Mapping[n.Var, int]) -> int:
    match expr:
        case n.Var():
            return known[expr]
        case n.IntImm(value):
            return value
        case n.Cast(value):
            return _value(value, known)
        case n.Add(a, b):
            return _value(a, known) + _value(b, known)
        case n.Sub(a, b):
            return _value(a, known) - _value(b, known)
        case n.Mul(a, b):
            return _value(a, known) * _value(b, known)
        case n.FloorDiv(a, b):
            return _value(a, known) // _value(b, known)
        case n.FloorMod(a, b):
            return _value(a, known) % _value(b, known)
        case n.Min(a, b):
            return min(_value(a, known), _value(b, known))
        case n.Max(a, b):
            return max(_value(a, known), _value(b, known))
        case _:
            raise AssertionError(expr)
