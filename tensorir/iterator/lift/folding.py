"""Reductions and scans: bodies evaluated with a carried value, and what they take from outside.

A body is evaluated on the whole tensors that it folds over, with a carried value in the place of the accumulator or
state. What does not depend on that value is outside of the fold: a reduction's operands as far as possible, so that
`acc + a × b` is a sum of products; a scan's up to what is elementwise, which each level computes for itself.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.builtins import TABLE
from tensorir.iterator.lift.graph import Fold, Graph, Node
from tensorir.iterator.lift.values import leaves, tree_map
from tensorir.iterator.refusals import refused
from tensorir.types import BOOL, INT32

__all__ = ["Folding"]


def _free(results: Sequence[Node], whole: bool) -> tuple[Node, ...]:
    """What a body takes from outside, in the order of use; `whole` also what is elementwise."""
    found: dict[int, Node] = {}
    seen: set[int] = set()
    stack = list(reversed(results))
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inside = node.carries or (not whole and node.op in TABLE and TABLE[node.op].elementwise)
        if node.op == "carried" or node.op == "constant":
            continue
        if inside:
            stack.extend(reversed(node.args))
        else:
            found[id(node)] = node
    return tuple(found.values())


class Folding:
    """Makes the nodes of folds; `apply` evaluates their bodies."""

    graph: Graph
    apply: Callable[..., Any]

    def __init__(self, graph: Graph, apply: Callable[..., Any]) -> None:
        self.graph, self.apply = graph, apply

    def reduce(self, f: Any, init: Node, lists: list[Node], local: str, at: Any, present: Node | None) -> Any:
        """The fold of lists over their slots; `present` is absent where a slot is to be skipped."""
        g = self.graph
        carried = g.carried(init.element)
        result = yield self.apply(f, [carried, *lists], at)
        if result.element != init.element:
            init = g.cast(init, result.element)
            carried = g.carried(init.element)
            result = yield self.apply(f, [carried, *lists], at)
        free = tuple(n for n in _free((result,), True))
        if present is not None:
            free = (*free, present)
        return g.reduce(Fold((carried,), (result,), local), init, free)

    def scan(
        self, f: Any, forward: bool, init: Any, args: list[Any], dim: str, column: tuple[int, int] | None, at: Any
    ) -> Any:
        """The states of a recurrence along a dim."""
        g = self.graph
        state = tree_map(lambda leaf: g.carried(leaf.element), init)
        result = yield self.apply(f, [state, *args], at)
        if [r.element for r in leaves(result)] != [s.element for s in leaves(state)]:
            if len(leaves(result)) != len(leaves(state)):
                raise refused("TI07", "the scan's function returns a tuple of another length than its state.", at.span)
            init = tree_map(lambda leaf, r: g.cast(leaf, r.element), init, result)
            state = tree_map(lambda leaf: g.carried(leaf.element), init)
            result = yield self.apply(f, [state, *args], at)
        results = tuple(leaves(result))
        for r in results:
            self._check(r, at)
        fold = Fold(tuple(leaves(state)), results, dim, forward, column)
        made = iter(g.scan(fold, tuple(leaves(init)), _free(results, False)))
        return tree_map(lambda _: next(made), init)

    def _check(self, root: Node, at: Any) -> None:
        """Raise TI07 where a state is read at another place than its own."""
        stack, seen = [root], {id(root)}
        while stack:
            node = stack.pop()
            if node.carries and node.op != "carried" and not (node.op in TABLE and TABLE[node.op].elementwise):
                said = f"a scan's state is read through '{node.op}', and a state is at its own place only."
                raise refused("TI07", said, at.span, "shift the arguments, or the result.")
            for a in node.args:
                if a.carries and id(a) not in seen:
                    seen.add(id(a))
                    stack.append(a)

    def chosen(self, x: Node, local: str, slots: int, slot: Node) -> Node:
        """The slot of a list that an index chooses."""
        g = self.graph
        result = g.slot(x, local, slots - 1)
        for k in reversed(range(slots - 1)):
            result = g.op(
                "if", g.op("eq", slot, g.cast(g.constant(k, INT32), slot.element)), g.slot(x, local, k), result
            )
        return result

    def choice(self, condition: Node, a: Node, b: Node) -> Node:
        """One of two tensors by a condition, which may be written."""
        if condition.op == "constant":
            return a if condition.static[1] else b
        if condition.element != BOOL:
            condition = self.graph.cast(condition, BOOL)
        return a if a is b else self.graph.op("if", condition, a, b)
