"""Values that a source leaves undefined: they are 0, and a run that is asked to check says where they are computed.

Such a value is written as a choice of what fits, and 0 elsewhere: a division of whole numbers by zero, a shift by more
places than there are, a float that no integer of the type is near to.

>>> from tensorir.lift.nests.nest import Store
>>> from tensorir.lift.nests.terms import Buffer, Index, Load, Number, show
>>> from tensorir.types import INT32
>>> i, zero = Index("i", INT32), Number(0, INT32)
>>> a, d, b = (Buffer(name, INT32, (8,)) for name in "ADB")
>>> x, y = Load(a, (i,)), Load(d, (i,))
>>> store = Store(b, (i,), Op("if", (Op("eq", (y, zero), BOOL), zero, Op("floordiv", (x, y), INT32)), INT32))
>>> check, same = with_values_checked([store])
>>> check.message, show(check.condition), same is store
('division of an integer by zero.', 'not(eq(D[i], 0))', True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensorir.lift.accesses.choices import parts_under
from tensorir.lift.accesses.sets import conjuncts
from tensorir.lift.nests.linear import DIVISIONS
from tensorir.lift.nests.nest import Check, Leaf, Loop, Node, Store, While
from tensorir.lift.nests.terms import Number, Op, Term, loads, walk
from tensorir.source import NOWHERE
from tensorir.types import BOOL

__all__ = ["computed", "stated", "with_values_checked"]

SHIFTS = ("shift_left", "shift_right")


def with_values_checked(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a check before each statement of every value in it that may be undefined."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Loop(body=body):
                found.append(replace(node, body=with_values_checked(body)))
            case While(body=body):
                checks = list(_checks(node))
                # the condition is looked at again behind each round
                again = [replace(c, guards=c.guards[len(node.guards) :]) for c in checks]
                found += [*checks, replace(node, body=(*with_values_checked(body), *again))]
            case _:
                found += [*_checks(node), node]
    return tuple(found)


def stated(statements: Sequence[Leaf]) -> Iterator[str]:
    """What a report says of the values that data may leave undefined."""
    for leaf in statements:
        line = f"line {leaf.span.line}: " if leaf.span is not NOWHERE else ""
        for check in _checks(leaf.node):
            if loads(check.condition):
                what = check.message.removesuffix(".")
                yield f"{line}{what} where data ask for it: the result is 0, and `checked` says so."


def computed(node: Node) -> Iterator[tuple[Term, int]]:
    """What a statement computes, and how many of its guards hold by then."""
    if isinstance(node, Loop):
        return
    yield from ((guard, k) for k, guard in enumerate(node.guards))
    match node:
        case Store(_, indices, value):
            yield from ((term, len(node.guards)) for term in (*indices, value))
        case While(condition):
            yield condition, len(node.guards)
        case _:
            pass


def _checks(node: Node) -> Iterator[Check]:
    for term, guards in computed(node):
        if any(map(_is_partial, walk(term))):
            for part, conditions in parts_under(term, _is_partial):
                fits, message = _fitting(part)
                assert fits is not None and not isinstance(node, Loop)
                yield Check(fits, message, (*node.guards[:guards], *conditions), node.span)


def _is_partial(term: Term) -> bool:
    return _fitting(term)[0] is not None


def _fitting(term: Term) -> tuple[Term | None, str]:
    """When a value is what the source says, and what is wrong where it is not; None where it is so always."""
    match term:
        case Op("if", (Op("eq", (x, Number(0))) as zero, Number(0), Op(op, (_, y)))) if op in DIVISIONS and x == y:
            return Op("not", (zero,), BOOL), "division of an integer by zero."
        case Op("if", (fits, Op(op, (_, by)), Number(0))) if op in SHIFTS and _bounds(fits, by):
            return fits, f"a shift by a number of places that {term.element} does not have."
        case Op("if", (fits, Op("cast", (x,), element), Number(0))) if (
            x.element.is_float and element.is_integer and _bounds(fits, Op("trunc", (x,), x.element))
        ):
            return fits, f"a float that {element} does not hold becomes {element}."
        case _:
            return None, ""


def _bounds(condition: Term, value: Term) -> bool:
    """Whether a condition says no more than between which numbers a value lies."""
    return all(
        isinstance(part, Op) and part.op in ("greater_equal", "less") and part.args[0] == value
        for part in conjuncts(condition)
    )
