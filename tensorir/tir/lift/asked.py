"""Checks that expressions and domains of iterators ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from tensorir.integers.affine import Affine, number
from tensorir.ir.types import BOOL, INT32, INT64
from tensorir.lifting.accesses.sets import both
from tensorir.lifting.nests.bounded import extremes
from tensorir.lifting.nests.linear import linear, term_of
from tensorir.lifting.nests.nest import Check, Node
from tensorir.lifting.nests.terms import Index, Number, Op, Term
from tensorir.runtime.errors import Span
from tensorir.tir import nodes as n
from tensorir.tir.lift.expressions import Scope, element_of, term, truth
from tensorir.tir.lift.intrinsics import cast, is_held, is_shift
from tensorir.tir.lift.memory import View
from tensorir.tir.lift.reader import Reader
from tensorir.tir.trees import children, walk

# Iterators of blocks stay inside of their domains: what ranges do not show is stated, and proven later.


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


# What expressions ask for that terms do not say: divisors that are not zero, shifts and floats that fit, views kept.
#
# A quotient by zero is 0 as a term, as are a shift by more places than there are and a float that a type does not
# hold; a view is no more than places in its memory, and a choice takes one of its values where `T.Select` looks at
# both. So what may fail is stated before the statement that computes it, under the conditions that lead there.

_DIVISIONS = frozenset((n.Div, n.Mod, n.FloorDiv, n.FloorMod))
_PARTIAL = _DIVISIONS | {n.Cast, n.Call}
_PLACES = frozenset((n.DeclBuffer, n.MatchBufferRegion, n.Select))
_ZERO = Number(0, INT32)
_Asked = tuple[Term, tuple[Term, ...], str, str, Span]
"""What must hold, under which conditions, the code and the message where it does not, and the place."""


def asks(scope: Scope, parts: Iterable[n.Node]) -> bool:
    """True if any part of a function may ask for something: most have no such values, views or choices."""
    if any(view.bound and not _is_whole(view) for view in scope.views.values()):
        return True
    return any(type(p) in _PLACES or (type(p) in _PARTIAL and _is_partial(p)) for p in parts)


def asked(reader: Reader, *expressions: n.Node | None, lane: Term = _ZERO) -> list[Node]:
    """The checks of a statement's own expressions, in order of evaluation."""
    if not reader.asking:
        return []
    found: list[Node] = []
    for expression in expressions:
        if expression is not None:
            for holds, around, code, message, span in _of(reader, expression, (), lane):
                check = Check(holds, message, (*reader.holding, *around), span, code)
                found.append(reader.placed(check))
    return found


def _is_partial(node: n.Node) -> bool:
    """True if a value is one that the source leaves undefined for some operands, as far as a number tells."""
    match node:
        case n.Div(_, b) | n.Mod(_, b) | n.FloorDiv(_, b) | n.FloorMod(_, b):
            return b.dtype.is_integer and not (isinstance(b, n.IntImm) and b.value)
        case n.Call(op="shift_left" | "shift_right", args=(_, by)):
            return not (isinstance(by, n.IntImm) and 0 <= by.value < node.dtype.bits)
        case n.Cast(value, dtype):
            return value.dtype.is_float and dtype.is_integer and not dtype.is_bool
        case _:
            return False


def _defined(reader: Reader, node: n.Expr, lane: Term) -> tuple[Term, str, str] | None:
    """When a value is what the source says, with the code and the message for where it is not; None if always."""
    element = element_of(node.dtype)
    match node:
        case n.Div(_, b) | n.Mod(_, b) | n.FloorDiv(_, b) | n.FloorMod(_, b):
            by = term(reader.scope, b, lane)
            spread = extremes(by, reader.known)
            if spread is not None and not spread[0] <= 0 <= spread[1]:
                return None
            return Op("not_eq", (by, Number(0, by.element)), BOOL), "TL14", "division of an integer by zero."
        case n.Call(args=(_, n.Expr() as places)):
            by = term(reader.scope, places, lane)
            spread = extremes(by, reader.known)
            if spread is not None and spread[0] >= 0 and spread[1] < element.bits:
                return None
            return is_shift(by, element), "TL16", f"a shift by a number of places that {element} does not have."
        case n.Cast(value):
            held = is_held(term(reader.scope, value, lane), element)
            return held, "TL16", f"a float that {element} does not hold becomes {element}."
        case _:
            return None


def _of(reader: Reader, node: n.Node, around: tuple[Term, ...], lane: Term, chosen: bool = False) -> Iterator[_Asked]:
    """The checks of an expression; `chosen`: as a part of a choice that evaluates both of its values."""
    scope = reader.scope
    if id(node) in scope.exchanged:
        return  # what was done before the statement has asked by then
    match node:
        case n.And(a, b) | n.Or(a, b) if a.dtype.lanes == 1:
            yield from _of(reader, a, around, lane, chosen)
            if _any(b):
                first = truth(scope, a, lane)
                reached = first if isinstance(node, n.And) else Op("not", (first,), BOOL)
                yield from _of(reader, b, (*around, reached), lane, chosen)
        case n.Call(op="if_then_else", args=(n.Expr() as condition, n.Expr() as yes, n.Expr() as no)):
            yield from _of(reader, condition, around, lane, chosen)
            if _any(yes) or _any(no):
                holds = truth(scope, condition, lane)
                yield from _of(reader, yes, (*around, holds), lane, chosen)
                yield from _of(reader, no, (*around, Op("not", (holds,), BOOL)), lane, chosen)
        case n.Let(_, value, body):
            yield from _of(reader, value, around, lane, chosen)
            if _any(body):
                term(scope, node, lane)  # gives the variable its value
                yield from _of(reader, body, around, lane, chosen)
        case n.BufferLoad(buffer, indices, predicate) | n.BufferStore(buffer, _, indices, predicate):
            evaluated = (*indices, node.value) if isinstance(node, n.BufferStore) else indices
            for part in evaluated:
                yield from _of(reader, part, around, lane, chosen)
            taken = () if predicate is None else (term(scope, predicate, lane),)
            view = scope.view(buffer, node.span)
            if chosen if _is_whole(view) else view.bound:
                yield from _inside(reader, buffer, indices, (*around, *taken), lane, node.span)
        case n.Select(condition, yes, no):
            yield from _of(reader, condition, around, lane, chosen)
            yield from _of(reader, yes, around, lane, True)
            yield from _of(reader, no, around, lane, True)
        case n.Call(op="address_of" | "tvm_access_ptr"):
            pass
        case n.Expr():
            for child in children(node):
                yield from _of(reader, child, around, lane, chosen)
            if _is_partial(node) and (found := _defined(reader, node, lane)) is not None:
                holds, code, message = found
                yield holds, around, code, message, node.span
        case _:
            pass


def _any(node: n.Expr) -> bool:
    """True if an expression may ask for something."""
    return any(isinstance(part, n.BufferLoad) or _is_partial(part) for part in walk(node))


def _inside(
    reader: Reader, buffer: n.Buffer, indices: tuple[n.Expr, ...], around: tuple[Term, ...], lane: Term, span: Span
) -> Iterator[_Asked]:
    """That indices stay inside of a view."""
    view = reader.scope.view(buffer, span)
    if len(indices) != len(view.shape) or view.lanes != 1:
        return
    for place, (index, extent) in enumerate(zip(indices, view.shape, strict=True)):
        at = term(reader.scope, index, lane)
        known = dict(reader.known)
        if isinstance(lane, Index):
            known[lane.name] = reader.ranges[lane.name]
        spread, most = extremes(at, known), extremes(extent, known)
        if spread is not None and most is not None and spread[0] >= 0 and spread[1] < most[0]:
            continue
        wide, last = cast(at, INT64), cast(extent, INT64)
        holds = both(Op("greater_equal", (wide, Number(0, INT64)), BOOL), Op("less", (wide, last), BOOL))
        axis = f"axis {place} of " if len(indices) > 1 else ""
        count = "" if most is None or most[0] != most[1] else f", which has {most[0]} elements"
        yield holds, around, "TL10", f"an index leaves {axis}{buffer.name!r}{count}.", span


def _is_whole(view: View) -> bool:
    """True if an index that leaves a view leaves its memory."""
    extents = [int(e.value) if isinstance(e, Number) else None for e in view.shape]
    if not isinstance(view.offset, Number) or view.offset.value:
        return False
    return extents == list(view.buffer.shape) or extents == [prod(view.buffer.shape)]
