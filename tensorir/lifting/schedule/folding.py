"""Components of the dataflow that are reductions: one write that combines its own last value with a term."""

# islpy has no types of its own that say enough.
# pyright: basic, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.integers.affine import Affine
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Var
from tensorir.ir.types import Scalar
from tensorir.lifting.dataflow.flow import Source, domain_of, isl
from tensorir.lifting.dataflow.statements import Statement

__all__ = ["Chain", "chain_of", "combined"]

COMBINING = ("plus", "multiplies", "min", "max", "and", "or", "xor", "bit_and", "bit_or", "bit_xor")


def combined(value: Expr, old: Var) -> tuple[str, Expr] | None:
    """The builtin and the term of `old ⊕ term`; None of any other value.

    >>> from tensorir.text import parse_expr
    >>> from tensorir.ir.types import tensor
    >>> s, x = Var("s", tensor("float")), Var("x", tensor("float"))
    >>> combined(parse_expr("if x > 0.0 then s - x else s", [s, x]), s)[0]
    'plus'
    """
    match value:
        case Call("minus", (a, b)) if a == old and old not in b.free:
            return "plus", call("neg", b)
        case Call(op, (a, b)) if op in COMBINING:
            if a == old and old not in b.free:
                return op, b
            if b == old and old not in a.free:
                return op, a
            if op in ("plus", "multiplies"):
                for x, y in ((a, b), (b, a)):
                    inner = combined(x, old)
                    if inner is not None and inner[0] == op and old not in y.free:
                        return op, call(op, inner[1], y)
            return None
        case Call("if", (c, a, b)) if old not in c.free and old in (a, b):
            inner = combined(a if b == old else b, old)
            element = value.tensor.element
            if inner is None or not isinstance(element, Scalar):
                return None
            identity = TABLE[inner[0]].identity
            if identity is None:
                return None
            neutral = literal(identity(element), element)
            parts = (inner[1], neutral) if b == old else (neutral, inner[1])
            return inner[0], call("if", c, *parts)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The dims along which each element is combined, and where along them it begins."""

    over: tuple[str, ...]
    start: Mapping[str, Affine]
    ends: object


def chain_of(write: Statement, inside: Sequence[Source]) -> Chain | None:
    """How the iterations of a write follow each other, where for all other indices they are one chain; or None."""
    over = [name for k, name in enumerate(write.names) if any(str(s.at[k]) != name for s in inside)]
    if not over or any(name not in {loop.dim for loop in write.loops} for name in over):
        return None
    relation = inside[0].relation
    for s in inside[1:]:
        relation = relation.union(s.relation)
    domain = domain_of(write)
    iterations = relation.reverse().coalesce()
    if not iterations.is_single_valued():
        return None
    # the read has the same loops: its iterations are those of the write
    follows = relation.domain()
    follows = follows.set_tuple_name(domain.get_tuple_name())
    starts = domain.subtract(follows).coalesce()
    ends = domain.subtract(relation.range()).coalesce()
    places = [k for k, name in enumerate(write.names) if name in over]
    by_place = _as_map(starts, places)
    if not by_place.is_single_valued():
        return None
    pieces: list[object] = []
    isl().PwMultiAff.from_map(by_place).foreach_piece(lambda s, a: pieces.append(a))
    if len(pieces) != 1:
        return None
    from tensorir.lifting.dataflow.flow import _affine

    others = [name for name in write.names if name not in over]
    start = {write.names[p]: _affine(pieces[0].get_aff(k), others) for k, p in enumerate(places)}
    return Chain(tuple(over), start, ends)


def _as_map(points, places):
    """A set as a map from its other dims to those at the places."""
    i = isl()
    m = i.Map.from_range(points.reset_tuple_id())
    for count, p in enumerate(k for k in range(points.dim(i.dim_type.set)) if k not in places):
        m = m.move_dims(i.dim_type.in_, count, i.dim_type.out, p - count, 1)
    return m
