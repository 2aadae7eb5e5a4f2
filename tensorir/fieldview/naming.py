"""Names from the user's Python: what an operator assigns to a variable is printed, inspected and explained under it.

>>> from tensorir.types import dims, tensor
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

from collections.abc import Mapping

from tensorir.ir import Apply, Call, Expr
from tensorir.walk import postorder, rebuild, with_label

__all__ = ["named"]


def named(root: Expr, assigned: Mapping[int, tuple[Expr, str]]) -> Expr:
    """The expression with names as labels; `assigned` has by identity what went to a variable, and its name."""
    if not assigned:
        return root
    done: dict[int, Expr] = {}
    for node in postorder(root):
        new = rebuild(node, tuple(done[id(c)] for c in node.children))
        if id(node) in assigned and not node.label and node is not root and isinstance(node, (Call, Apply)):
            new = with_label(new, assigned[id(node)][1])
        done[id(node)] = new
    return done[id(root)]
