"""Names from the user's Python: what an operator assigns to a variable is printed, inspected and explained under it.

>>> from tensorir.ir.dimensions import dims
>>> from tensorir.ir.types import tensor
>>> from tensorir.fieldview import field_operator
>>> (I,) = dims("I")
>>> @field_operator
... def curvature(f):
...     rise = f(I + 1) - f
...     return rise - rise(I - 1)
>>> print(curvature.fencil(f=tensor("float", I=(0, 9))))
curvature(out: tensor<float, I[1:8]>, f: tensor<float, I[0:9]>) {
  out ← let rise = ⟪I, 1⟫(f) - f; rise - ⟪I, -1⟫(rise);
}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorir.ir.nodes import Apply, Call, Expr
from tensorir.ir.rewrite import postorder, rebuild, with_label
from tensorir.runtime.errors import Span

__all__ = ["Assigned", "named", "places"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value that went to a variable: the name of that, and the expression of Python whose value it is."""

    value: Expr
    name: str
    place: Span


def places(assigned: Iterable[Assigned]) -> dict[tuple[str, Span], Span]:
    """By name and by where the value was computed, where it was assigned: elsewhere, if another operator made it."""
    return {(a.name, a.value.span): a.place for a in assigned if a.place != a.value.span}


def named(roots: Sequence[Expr], assigned: Mapping[int, Assigned]) -> list[Expr]:
    """The expressions with names as labels; `assigned` has by identity what went to a variable."""
    if not assigned:
        return list(roots)
    done: dict[int, Expr] = {}
    for node in postorder(*roots):
        new = rebuild(node, tuple(done[id(c)] for c in node.children))
        if id(node) in assigned and not node.label and isinstance(node, (Call, Apply)):
            new = with_label(new, assigned[id(node)].name)
        done[id(node)] = new
    return [done[id(root)] for root in roots]
