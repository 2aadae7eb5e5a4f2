"""Iterators of blocks stay inside of their domains: what ranges do not show is stated, and proven later."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.integers.affine import Affine, number
from tensorir.ir.types import BOOL, INT32
from tensorir.lifting.nests.linear import linear, term_of
from tensorir.lifting.nests.nest import Check, Node
from tensorir.lifting.nests.terms import Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.reader import Reader

__all__ = ["inside_of_domains"]


def inside_of_domains(reader: Reader, bound: Sequence[tuple[n.IterVar, Term]], span: Span) -> list[Node]:
    """That iterators of known values lie in domains of known ends, as statements, under the guards that hold here.

    A computed extent that is not positive says nothing: legalised operators of TVM have blocks that run all the same.
    What data tell is not asked.
    """
    found: list[Node] = []
    for iterator, value in bound:
        domain = iterator.dom
        if domain is None:
            continue
        ends = reader.term(domain.min), reader.term(domain.extent)
        at, low, extent = (linear(t, reader.ranges) for t in (value, *ends))
        if at is None or low is None or extent is None or not (low.is_number and extent.is_number):
            continue
        if extent.constant <= 0 and not isinstance(domain.extent, n.IntImm):
            continue
        above, below = at.minus(low), low.plus(extent).plus(number(-1)).minus(at)
        if _never_negative(above, reader) and _never_negative(below, reader):
            continue
        first, last = low.constant, low.constant + extent.constant - 1
        message = f"the iterator {iterator.var.name!r} leaves its domain, {first} to {last}."
        within = (Op("greater_equal", (term_of(end, INT32), Number(0, INT32)), BOOL) for end in (above, below))
        check = Check(Op("and", tuple(within), BOOL), message, reader.holding, span, "TL15")
        found.append(reader.placed(check))
    return found


def _never_negative(sum_: Affine, reader: Reader) -> bool:
    spread = sum_.range(reader.ranges)
    return spread is not None and spread[0] >= 0
