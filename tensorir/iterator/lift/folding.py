"""Reductions and scans: bodies evaluated with a carried value, and what they take from outside.

A body is evaluated on the whole tensors that it folds over, with a carried value in the place of the accumulator or
state. What does not depend on that value is outside of the fold: a reduction's operands as far as possible, so that
`acc + a × b` is a sum of products; a scan's up to what is elementwise, which each level computes for itself.
"""

# What programs evaluate to is of many kinds, which only running tells.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorir import nodes
from tensorir.ir.builtins import TABLE
from tensorir.ir.types import BOOL, INT32
from tensorir.iterator.lift.graph import Fold, Graph, Node, Table
from tensorir.iterator.lift.values import leaves, tree_map
from tensorir.runtime.errors import refuse

Masks = tuple[Node, ...]
_MOVES = frozenset(["shift", "restagger", "gather", "neighbour", "neighbours"])


def _find_free(results: Sequence[Node], whole: bool) -> tuple[Node, ...]:
    """Free variables of a body, in the order of use; `whole` includes those that are read elementwise."""

    def is_inside(node: Node) -> bool:
        return bool(node.carries) or (not whole and node.op in TABLE and TABLE[node.op].elementwise)

    below = nodes.preorder(results, lambda node: node.args if node.op != "carried" and is_inside(node) else ())
    return tuple(node for node in below if node.op not in ("carried", "constant") and not is_inside(node))


class Folding:
    """Makes the nodes of folds; `apply` evaluates their bodies."""

    graph: Graph
    apply: Callable[..., Any]

    def __init__(self, graph: Graph, apply: Callable[..., Any]) -> None:
        self.graph, self.apply = graph, apply

    def reduce(self, f: Any, init: Node, lists: list[Node], local: str, at: Any, holed: Mapping[str, Table]) -> Any:
        """The fold of lists over their slots, without those in which a table, by its local dim, has no neighbour."""
        g = self.graph
        carried = g.carried(init.element)
        result = yield self.apply(f, [carried, *lists], at)
        if result.element != init.element:
            init = g.cast(init, result.element)
            carried = g.carried(init.element)
            result = yield self.apply(f, [carried, *lists], at)
        free = _find_free((result,), True)
        lists = [x for x in dict.fromkeys((*lists, *free)) if local in x.dims]
        masks = {x: self._find_masks(x, local, holed) for x in lists}
        kept = {m for x in free if x in masks for m in masks[x][1]}
        # a mask that no operand carries is an operand of its own, which the body does not use
        rest = (m for m in dict.fromkeys(m for every, _ in masks.values() for m in every) if m not in kept)
        free = (*free, *rest)
        return g.reduce(Fold((carried,), (result,), local), init, free)

    def _find_masks(self, root: Node, local: str, holed: Mapping[str, Table]) -> tuple[Masks, Masks]:
        """The masks of a list along a local dim, absent where a table has no neighbour; those that it carries itself.

        A mask moves with its field: a sparse field that is shifted along rows lacks the neighbours of its own rows.
        """
        g = self.graph
        known: dict[tuple[Node, str], tuple[Masks, Masks]] = {}
        stack = [(root, local, False)]
        while stack:
            x, dim, ready = stack.pop()
            before = x.static[0] if x.op == "restagger" and x.static[1] == dim else dim
            is_list = x.op == "neighbours" and x.static[1] == dim
            args = [a for a in x.args if before in a.dims and not is_list]
            if not ready:
                stack += [(x, dim, True), *((a, before, False) for a in args if (a, before) not in known)]
                continue
            table: Table | None = x.static[0] if is_list else holed.get(dim)
            masks, absent = (tuple(dict.fromkeys(m for a in args for m in known[a, before][k])) for k in (0, 1))
            if not args and table is not None and table.holes:
                rows = g.neighbours(g.index(table.codomain), table)
                masks = (g.restagger(rows, table.local, dim, 0) if table.local != dim else rows,)
                absent = masks if is_list else ()
            elif x.op in _MOVES:
                masks, absent = (tuple(self._move_mask(m, x) for m in part) for part in (masks, absent))
            elif x.op in ("if", "concat_where"):
                condition, branches = x.args[:-2], x.args[-2:]
                sides = [set(known.get((a, before), ((), ()))[1]) for a in branches]
                always = {m for a in condition if (a, before) in known for m in known[a, before][1]}
                absent = tuple(m for m in absent if m in always or all(m in side for side in sides))
            elif not (x.op in ("cast", "broadcast") or (x.op in TABLE and TABLE[x.op].elementwise)):
                absent = ()
            known[x, dim] = masks, absent
        return known[root, local]

    def _move_mask(self, mask: Node, x: Node) -> Node:
        """A mask moved as a node moves its operand."""
        g = self.graph
        match x.op, x.static:
            case "shift", (dim, by):
                return g.shift(mask, dim, by)
            case "restagger", (old, new, by):
                return g.restagger(mask, old, new, by)
            case "gather", (dim,):
                return g.gather(mask, dim, x.args[1])
            case _, (table, _) if table.codomain not in mask.dims:
                return mask
            case "neighbour", (table, slot):
                return g.neighbour(mask, table, slot)
            case _, (table, local):
                rows = g.neighbours(mask, table)
                return rows if rows.static[1] == local else g.restagger(rows, rows.static[1], local, 0)
            case _:
                raise AssertionError(x)

    def scan(
        self, f: Any, forward: bool, init: Any, args: list[Any], dim: str, column: tuple[int, int] | None, at: Any
    ) -> Any:
        """The states of a recurrence along a dim."""
        g = self.graph
        state = tree_map(lambda leaf: g.carried(leaf.element), init)
        result = yield self.apply(f, [state, *args], at)
        if [r.element for r in leaves(result)] != [s.element for s in leaves(state)]:
            if len(leaves(result)) != len(leaves(state)):
                message = "the scan's function returns a tuple of another length than its state."
                raise refuse("TI07", message, at=at.span)
            init = tree_map(lambda leaf, r: g.cast(leaf, r.element), init, result)
            state = tree_map(lambda leaf: g.carried(leaf.element), init)
            result = yield self.apply(f, [state, *args], at)
        results = tuple(leaves(result))
        for node in nodes.preorder(results, lambda node: [a for a in node.args if a.carries]):
            if node.carries and node.op != "carried" and not (node.op in TABLE and TABLE[node.op].elementwise):
                message = f"a scan's state is read through '{node.op}', and a state is at its own place only."
                raise refuse("TI07", message, "shift the arguments, or the result.", at=at.span)
        fold = Fold(tuple(leaves(state)), results, dim, forward, column)
        states = iter(g.scan(fold, tuple(leaves(init)), _find_free(results, False)))
        return tree_map(lambda _: next(states), init)

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
