"""Choices by one truth value stand outside; one that leaves something as it is, or chooses a truth, says just that.

>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> from tensorir.passes.base import show
>>> from tensorir.ir.types import BOOL, TensorType
>>> show(Canonical(), "update(x, if c then y × 2.0 else subset(x, I[1:4]))",
...      c=TensorType(BOOL), x={"I": (0, 6)}, y={"I": (1, 4)})
if c then update(x, y × 2.0) else x
>>> show(Canonical(), "if c then y < 0.0 else false", c=TensorType(BOOL), y={"I": (1, 4)})
c ∧ y < 0.0
"""

from __future__ import annotations

from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import BOOL
from tensorir.lifting.emission.tensors import constant_of, cut, renamed, spread

__all__ = [
    "choice_in_a_choice",
    "choice_of_renamed",
    "choice_of_the_same",
    "choice_of_truth",
    "choice_of_updates",
    "update_of_itself",
]

THERE = frozenset(["add_dim", "cartesian_shift", "merge_dims", "pos", "rename", "split_dim", "subset", "tuple_get"])
"""What has every element that its operand has, besides what is done element by element."""


def choice_of_truth(e: Call) -> Expr | None:
    """A choice between a condition and the truth value that decides it is both conditions, or either."""
    c, x, y = e.args
    if e.tensor.element != BOOL:
        return None
    for one, other, truth, op in ((y, x, False, "and"), (x, y, True, "or")):
        known = constant_of(one)
        if known is not None and known.value is truth and _is_there(other):
            return call(op, c, other, span=e.span)
    return None


def choice_of_the_same(e: Call) -> Expr | None:
    """A choice between two that are one is that.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "if x > 0.0 then exp(x) else exp(x)", x={"I": (0, 6)})
    exp(x)
    """
    _, x, y = e.args
    return x if (x is y or x == y) and x.tensor == e.tensor else None


def choice_in_a_choice(e: Call) -> Expr | None:
    """A choice in a choice whose other sides are one is a choice by both conditions.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "if x > 0.0 then (if x < 9.0 then x else y) else y", x={"I": (0, 6)}, y={"I": (0, 6)})
    if x > 0.0 ∧ x < 9.0 then x else y
    """
    c, x, y = e.args
    match x:
        case Call("if", (d, inner, other)) if (other is y or other == y) and _is_there(d):
            return call("if", call("and", c, d), inner, y, span=e.span)
        case _:
            return None


def _is_there(e: Expr) -> bool:
    """Whether nothing in an expression may be absent that its variables have."""
    return all(
        n.op in THERE or TABLE[n.op].elementwise or (n.op == "gather" and n.static[-1] in ("clamp", "zero"))
        for n in postorder(e)
        if isinstance(n, Call)
    )


def choice_of_renamed(e: Call) -> Expr | None:
    """A choice under other names is one of parts under other names."""
    match e.args[0]:
        case Call("if", (c, x, y)) as choice if not c.tensor.dims and not choice.label:
            names = dict(e.static[0])
            return call("if", c, renamed(x, names), renamed(y, names), span=e.span)
        case _:
            return None


def choice_of_updates(e: Call) -> Expr | None:
    """An update by something, or by what is there already, is an update or none."""
    whole, part = e.args
    match part:
        case Call("if", (c, x, y)) if not c.tensor.dims and (_is_part(x, whole) or _is_part(y, whole)):
            dims = dict(part.tensor.dims.items)
            branches = [
                whole if _is_part(b, whole) else call("update", whole, spread(cut(b, dims), dims)) for b in (x, y)
            ]
            return call("if", c, *branches, span=e.span)
        case _:
            return None


def update_of_itself(e: Call) -> Expr | None:
    """What is put where it stands changes nothing."""
    whole, part = e.args
    return whole if _is_part(part, whole) else None


def _is_part(x: Expr, whole: Expr) -> bool:
    """Whether an expression is the whole, or a part of it where it stands."""
    while isinstance(x, Call) and x.op == "subset":
        (x,) = x.args
    return x is whole or x == whole
