"""Where the value of a node is needed: in a scope, or in branches that may not be taken.

A place is a scope, or what one truth value decides: all branches of it, of the choices that are needed in the same
places. A node is needed in places of which none lies in others, and what both branches of a choice need is needed where
the choice is. So a node that is needed in all places of a choice may be evaluated, and checked, before the choice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tensorir.ir.nodes import Call, Expr, Lambda, Literal, Var
from tensorir.ir.rewrite import postorder

__all__ = ["ControlDependence", "Places", "control_dependence", "operands", "scope"]

Places = frozenset[int]


@dataclass(slots=True)
class ControlDependence:
    """The places of a program, and in which of them each node is needed."""

    of: dict[int, Places] = field(default_factory=dict[int, Places])
    """By identity of the node."""
    _around: list[Places] = field(default_factory=list[Places])
    """Where the choice stands of which a place is a branch; nowhere for a scope. Branches are an even number and the
    odd one behind it."""
    _branches: dict[tuple[int, Places], int] = field(default_factory=dict[tuple[int, Places], int])
    _conditions: dict[int, Expr] = field(default_factory=dict[int, Expr])
    """By the place of a choice's first branch."""

    def scope(self) -> Places:
        """A new scope."""
        self._around += [frozenset()] * 2
        return frozenset([len(self._around) - 2])

    def branch(self, condition: Expr, around: Places, first: bool) -> Places:
        """Where one branch is taken of a choice that is needed in `around`."""
        pair = self._branches.setdefault((id(condition), around), len(self._around))
        if pair == len(self._around):
            self._around += [around] * 2
            self._conditions[pair] = condition
        return frozenset([pair if first else pair + 1])

    def taken(self, place: int) -> tuple[Places, Expr, bool]:
        """Where the choice of a branch stands, its condition, and the truth value for which the branch is taken."""
        return self._around[place], self._conditions[place & ~1], not place & 1

    def always(self, places: Places) -> bool:
        """Whether places are no branches."""
        return not any(self._around[place] for place in places)

    def certain(self, node: int) -> bool:
        """Whether a node, by identity, is needed in any case."""
        return self.always(self.of[node])

    def covers(self, node: int, places: Places) -> bool:
        """Whether a node, by identity, is needed in all of the places, or in what they lie in."""
        return places <= self.of[node] or self._inside(self.of[node], places)

    def joined(self, needs: Iterable[Places]) -> Places:
        """The places of all."""
        first, *rest = needs
        if not rest:
            return first
        found = set(first).union(*rest)
        stack = list(found)
        while stack:
            place = stack.pop()
            if place in found and place ^ 1 in found:
                found -= {place, place ^ 1}
                stack += self._around[place] - found
                found |= self._around[place]
        return frozenset(p for p in found if not self._around[p] or not self._inside(found, self._around[p]))

    def _inside(self, outer: Container[int], inner: Places) -> bool:
        seen = set(inner)
        stack = list(inner)
        while stack:
            place = stack.pop()
            if place in outer:
                continue
            if not self._around[place]:
                return False
            stack += self._around[place] - seen
            seen |= self._around[place]
        return True


def control_dependence(roots: Sequence[Expr], deciding: Container[int], bodies: bool = True) -> ControlDependence:
    """Where each node is needed, if those in `deciding`, by identity, evaluate one of their branches.

    Without `bodies` it is where the scope of the roots needs it, and not where functions do.

    >>> from tensorir.ir.build import call, literal, var
    >>> from tensorir.ir.types import tensor
    >>> c, x = var("c", tensor("bool")), call("neg", literal(1.0))
    >>> often, seldom = (call("if", c, call("sin", x), y) for y in (x, literal(0.0)))
    >>> [control_dependence([e], {id(e)}).certain(id(x)) for e in (often, seldom)]
    [True, False]
    """
    found = ControlDependence()
    needs: defaultdict[int, set[Places]] = defaultdict(set)
    top = found.scope()
    for root in roots:
        needs[id(root)].add(top)
    for node in reversed(list(postorder(*roots))):
        if isinstance(node, (Var, Literal)) or id(node) not in needs:
            continue
        places = found.of[id(node)] = found.joined(needs.pop(id(node)))
        match node:
            case Lambda(results=results):
                if bodies:
                    inside = found.scope()
                    for result in results:
                        needs[id(result)].add(inside)
            case Call(args=(condition, first, second)) if id(node) in deciding:
                needs[id(condition)].add(places)
                needs[id(first)].add(found.branch(condition, places, True))
                needs[id(second)].add(found.branch(condition, places, False))
            case _:
                for child in node.children:
                    needs[id(child)].add(places)
    return found


def operands(node: Expr) -> tuple[Expr, ...]:
    """What is evaluated where the node is; the body of a function is a scope of its own."""
    return () if isinstance(node, Lambda) else node.children


def scope(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node that is evaluated where the roots are."""
    seen = {id(root) for root in roots}
    stack = list(roots)
    while stack:
        node = stack.pop()
        yield node
        for child in operands(node):
            if id(child) not in seen:
                seen.add(id(child))
                stack.append(child)
