"""Reductions: a store of `B[f] ⊕ e` where e does not read B is one fold over the loops that f leaves free."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.ir.build import call, literal, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Expr
from tensorir.ir.types import BOOL, Scalar, TensorType, bcast
from tensorir.lifting.nests.nest import Store
from tensorir.lifting.nests.terms import Load, Number, Op, Term, buffers_of, loads
from tensorir.runtime.errors import NOWHERE, Span

WRAPPING = {"plus", "multiplies", "bit_and", "bit_or", "bit_xor"}
"""Of which the lowest bits of the result are those of the lowest bits of the operands."""


def neutral(op: str, element: Scalar) -> bool | int | float:
    """What changes nothing."""
    identity = TABLE[op].identity
    assert identity is not None
    return identity(element)


Fold = tuple[str, Term, tuple[Term, ...]]


def fold_of(node: Store, apart: Callable[[Load], bool] = lambda load: False) -> Fold | None:
    """The operation, what is folded, and under which further conditions, of a store that folds into its element.

    What is folded reads the buffer only where `apart` says that no iteration writes.
    """
    old = Load(node.buffer, node.indices)
    found = _fold(node.value, old)
    if found is None:
        return None
    _, term, conditions = found
    if any(node.buffer in buffers_of(i) for i in node.indices):
        return None
    reads = {load for part in (term, *conditions, *node.guards) for load in loads(part) if load.buffer is node.buffer}
    return found if all(apart(load) for load in reads) else None


def _fold(value: Term, old: Load | Op) -> Fold | None:
    """`old` is an element, or the element as a number of a wider type."""
    match value:
        case Op("cast", (wide,), element) if _wraps(element, wide.element) and old.element == element:
            # what does not fit wraps: whether after every step, or once, is the same
            inner = _fold(wide, Op("cast", (old,), wide.element))
            if inner is None or inner[0] not in WRAPPING:
                return None
            return inner[0], Op("cast", (inner[1],), element), inner[2]
        case Op("minus", (x, e), element) if x == old:
            return "plus", Op("neg", (e,), element), ()
        case Op(
            "plus" | "multiplies" | "min" | "max" | "and" | "or" | "bit_and" | "bit_or" | "bit_xor" | "xor" as op,
            (a, b),
        ):
            if a == old:
                return op, b, ()
            if b == old:
                return op, a, ()
            return _nested(op, a, b, old)
        case Op("if", (c, x, Number(False))) if value.element == BOOL and old in (c, x):
            return _lazy("and", x if c == old else c, c == old)
        case Op("if", (c, Number(True), x)) if value.element == BOOL and old in (c, x):
            return _lazy("or", x if c == old else c, c == old)
        case Op("if", (c, x, y)) if y == old:
            inner = _fold(x, old)
            return None if inner is None else (inner[0], inner[1], (*inner[2], c))
        case Op("if", (c, x, y)) if x == old:
            inner = _fold(y, old)
            return None if inner is None else (inner[0], inner[1], (*inner[2], Op("not", (c,), BOOL)))
        case _:
            return None


def _lazy(op: str, term: Term, later: bool) -> Fold | None:
    """A truth value that is asked for only where the one before does not decide: all are, unless reads may fail."""
    fails = later and any(loads(i) for load in loads(term) for i in load.indices)
    return None if fails else (op, term, ())


def _wraps(narrow: Scalar, wide: Scalar) -> bool:
    """True if a conversion keeps the lowest bits of a number."""
    return narrow.is_integer and wide.is_integer and narrow.bits <= wide.bits


def _nested(op: str, a: Term, b: Term, old: Load | Op) -> Fold | None:
    """`(old ⊕ x) ⊕ y` is `old ⊕ (x ⊕ y)`, but for rounding."""
    if isinstance(old, Load) and old.buffer.exact and rounds(op, old.element):
        return None
    for x, y in ((a, b), (b, a)):
        inner = _fold(x, old) if isinstance(x, Op) and x.op == op else None
        if inner is not None and inner[0] == op and not inner[2]:
            return op, Op(op, (inner[1], y), y.element), ()
    return None


def rounds(op: str, element: Scalar) -> bool:
    """True if another order of folding gives other numbers."""
    return element.is_float and op in ("plus", "multiplies")


def folded(
    op: str, old: Expr, value: Expr, over: Sequence[str], element: Scalar, exact: bool = False, span: Span = NOWHERE
) -> Expr:
    """The old value with all elements of `value` along some dims folded into it."""
    if not over:
        return call(op, old, value)
    if exact and rounds(op, element):
        # one fold from the first element to the last: folds of rows would be added up in another order
        value, over = _in_a_row(value, over)
    for k, dim in enumerate(reversed(over)):
        last = k == len(over) - 1
        init = old if last else literal(neutral(op, element), element)
        rest = value.tensor.on(value.tensor.dims.without(dim))
        state = TensorType(element, bcast([rest, init.tensor]))
        value = reduce(operator(op, state, rest), init, value, dim=dim, span=span)
    return value


def _in_a_row(value: Expr, over: Sequence[str]) -> tuple[Expr, list[str]]:
    """Several dims as one, the last of them fastest."""
    first, *rest = over
    for dim in rest:
        start = value.tensor.dims[dim].start
        if start:
            value = call("cartesian_shift", value, static=(dim, start))
        name = f"{first}_{dim}"
        value = call("merge_dims", value, static=(first, dim, name))
        first = name
    return value, [first]
