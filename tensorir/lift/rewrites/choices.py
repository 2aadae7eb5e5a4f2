"""Choices by one truth value stand outside: what a branch leaves as it is, it says in one word.

>>> from tensorir.lift.rewrites.canonical import Canonical
>>> from tensorir.passes.show import show
>>> from tensorir.types import BOOL, TensorType
>>> show(Canonical(), "update(x, if c then y × 2.0 else subset(x, I[1:4]))",
...      c=TensorType(BOOL), x={"I": (0, 6)}, y={"I": (1, 4)})
if c then update(x, y × 2.0) else x
"""

from __future__ import annotations

from tensorir.build import call
from tensorir.ir import Call, Expr
from tensorir.lift.emission.tensors import cut, renamed, spread

__all__ = ["choice_of_renamed", "choice_of_updates", "update_of_itself"]


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
