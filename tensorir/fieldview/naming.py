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
from tensorir.source import NOWHERE, Span
from tensorir.walk import postorder, rebuild, with_label

__all__ = ["named"]


def named(root: Expr, assigned: Mapping[Span, str], results: Mapping[int, tuple[Expr, str]]) -> Expr:
    """The expression with the names of variables as labels.

    `assigned` are the places in the text whose value is assigned, `results` what operators returned to such a place.
    """
    if not assigned and not results:
        return root
    order = list(postorder(root))
    # one line of Python may make several nodes: the outermost is what is assigned
    inner = {id(c) for n in order if n.span is not NOWHERE for c in n.children if c.span == n.span}
    done: dict[int, Expr] = {}
    for node in order:
        new = rebuild(node, tuple(done[id(c)] for c in node.children))
        if isinstance(node, (Call, Apply)) and not node.label and node is not root:
            name = assigned.get(node.span, "") if id(node) not in inner else ""
            if not name and id(node) in results:
                name = results[id(node)][1]
            if name:
                new = with_label(new, name)
        done[id(node)] = new
    return done[id(root)]
