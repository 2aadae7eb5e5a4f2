"""The functions that expressions and statements are compiled to, each node once.

A loop's body is looked at once and not once per iteration. The rules of the kinds of nodes compile the nodes inside of
theirs by `compiled` and `execute`; the extension points find the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorir.runtime.assembly import compile_expression, compile_statement
from tensorir.tir import nodes as n
from tensorir.tir.interpret.arithmetic import Value

if TYPE_CHECKING:
    from tensorir.tir.interpret.machine import Machine

__all__ = ["CODE", "Act", "Code", "Run", "compiled", "execute"]

Run = Callable[["Machine"], Value]
Act = Callable[["Machine"], None]

_LIMIT = 500_000


class Code:
    """The functions of the expressions and statements met so far, by node."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[n.Node, Any]] = {}

    def of(self, node: n.Node, compile_node: Callable[[Any], Any]) -> Any:
        found = self._known.get(id(node))
        if found is None:
            if len(self._known) > _LIMIT:
                self.clear()
            found = self._known[id(node)] = (node, compile_node(node))
        return found[1]

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


CODE = Code()


def compiled(node: n.Expr) -> Run:
    """The function that evaluates an expression."""
    return CODE.of(node, compile_expression)


def execute(node: n.Stmt) -> Act:
    """The function that executes a statement."""
    return CODE.of(node, compile_statement)
