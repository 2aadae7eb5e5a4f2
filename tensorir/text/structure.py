"""Numbers for expressions, the same for those that are equal; many questions together take linear time.

>>> from tensorir.text import parse_expr
>>> numbers = Structure()
>>> a, b, c = (parse_expr(text) for text in ("1.0 + 2.0", "1.0 + 2.0", "2.0 + 1.0"))
>>> numbers.of(a) == numbers.of(b), numbers.of(a) == numbers.of(c)
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorir.ir.nodes import Expr

__all__ = ["Structure"]


@dataclass(slots=True)
class Structure:
    """What was numbered so far."""

    numbers: dict[Any, int] = field(default_factory=dict[Any, int])
    known: dict[int, tuple[Expr, int]] = field(default_factory=dict[int, tuple[Expr, int]])
    """Of each node by its identity; the node is kept, so that the identity stays its own."""

    def of(self, root: Expr) -> int:
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in self.known:
                stack.pop()
                continue
            missing = [c for c in node.children if id(c) not in self.known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            key = (type(node), node.own(), tuple([self.known[id(c)][1] for c in node.children]))
            self.known[id(node)] = node, self.numbers.setdefault(key, len(self.numbers))
        return self.known[id(root)][1]
