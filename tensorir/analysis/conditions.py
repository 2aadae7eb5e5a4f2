"""Selections by truth values: where a value is needed, and which choices are worth a conditional."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import TypeGuard

from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.ir.builtins import TABLE, Control
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, use_counts, values
from tensorir.nodes import preorder

# Where the value of a node is needed: in a scope, or in branches that may not be taken.
#
# A place is a scope, or what one truth value decides: all branches of it, of the choices that are needed in the same
# places. A node is needed in places of which none lies in others, and what both branches of a choice need is needed
# where the choice is. So a node that is needed in all places of a choice may be evaluated, and checked, before the
# choice.

PlaceSet = frozenset[int]


@dataclass(slots=True)
class ControlDependence:
    """The places of a program, and in which of them each node is needed."""

    of: dict[int, PlaceSet] = field(default_factory=dict[int, PlaceSet])
    """By identity of the node."""
    _around: list[PlaceSet] = field(default_factory=list[PlaceSet])
    """Where the choice stands of which a place is a branch; nowhere for a scope. Branches are an even number and the
    odd one behind it."""
    _branches: dict[tuple[int, PlaceSet], int] = field(default_factory=dict[tuple[int, PlaceSet], int])
    _conditions: dict[int, Expr] = field(default_factory=dict[int, Expr])
    """By the place of a choice's first branch."""

    def scope(self) -> PlaceSet:
        """A new scope."""
        self._around += [frozenset()] * 2
        return frozenset([len(self._around) - 2])

    def branch(self, condition: Expr, around: PlaceSet, first: bool) -> PlaceSet:
        """The place of one branch of a choice that is needed in `around`."""
        pair = self._branches.setdefault((id(condition), around), len(self._around))
        if pair == len(self._around):
            self._around += [around] * 2
            self._conditions[pair] = condition
        return frozenset([pair if first else pair + 1])

    def taken(self, place: int) -> tuple[PlaceSet, Expr, bool]:
        """The place of the choice of a branch, its condition, and the truth value for which the branch is taken."""
        return self._around[place], self._conditions[place & ~1], not place & 1

    def always(self, places: PlaceSet) -> bool:
        """True if places are no branches."""
        return not any(self._around[place] for place in places)

    def certain(self, node: int) -> bool:
        """True if a node, by identity, is needed in any case."""
        return self.always(self.of[node])

    def covers(self, node: int, places: PlaceSet) -> bool:
        """True if a node, by identity, is needed in all of the places, or in what they lie in."""
        return places <= self.of[node] or self._encloses(self.of[node], places)

    def joined(self, needs: Iterable[PlaceSet]) -> PlaceSet:
        """The places of all."""
        first, *rest = needs
        if not rest:
            return first
        places = set(first).union(*rest)
        stack = list(places)
        while stack:
            place = stack.pop()
            if place in places and place ^ 1 in places:
                places -= {place, place ^ 1}
                stack += self._around[place] - places
                places |= self._around[place]
        return frozenset(p for p in places if not self._around[p] or not self._encloses(places, self._around[p]))

    def _encloses(self, outer: Container[int], inner: PlaceSet) -> bool:
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
    """Control dependence: where each node is needed, if those in `deciding`, by identity, evaluate one of their
    branches.

    Without `bodies` it is where the scope of the roots needs it, and not where functions do.

    >>> from tensorir.ir.build import call, literal, var
    >>> from tensorir.ir.types import tensor
    >>> c, x = var("c", tensor("bool")), call("neg", literal(1.0))
    >>> often, seldom = (call("if", c, call("sin", x), y) for y in (x, literal(0.0)))
    >>> [control_dependence([e], {id(e)}).certain(id(x)) for e in (often, seldom)]
    [True, False]
    """
    dependence = ControlDependence()
    needs: defaultdict[int, set[PlaceSet]] = defaultdict(set)
    top = dependence.scope()
    for root in roots:
        needs[id(root)].add(top)
    for node in reversed(list(postorder(*roots))):
        if isinstance(node, (Var, Literal)) or id(node) not in needs:
            continue
        places = dependence.of[id(node)] = dependence.joined(needs.pop(id(node)))
        match node:
            case Lambda(results=results):
                if bodies:
                    inside = dependence.scope()
                    for result in results:
                        needs[id(result)].add(inside)
            case Call(args=(condition, first, second)) if id(node) in deciding:
                needs[id(condition)].add(places)
                needs[id(first)].add(dependence.branch(condition, places, True))
                needs[id(second)].add(dependence.branch(condition, places, False))
            case _:
                for child in node.children:
                    needs[id(child)].add(places)
    return dependence


def operands(node: Expr) -> tuple[Expr, ...]:
    """Operands that are evaluated where the node is; the body of a function is a scope of its own."""
    return () if isinstance(node, Lambda) else node.children


def scope(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node that is evaluated where the roots are."""
    return preorder(roots, operands)


# Which selections by one truth value are worth a conditional: choices, and what their branches have of their own.
#
# Both branches of an `if` are values, so an elementwise selection gives the right ones everywhere. A conditional
# computes the branch that is taken: it is worth its call where a branch computes much that nothing else reads, and it
# is needed where a branch checks or prints something, which concerns nobody where the other branch is taken.

WORTH = 100_000
"""Fewer operations are selected from: a conditional costs a call, and an accelerator waits for its truth value."""
PER_ELEMENT = 8
"""Fewer operations for each element of the result are selected from: a conditional keeps XLA from fusing."""
MOST = 32
"""Choices that are made together: more are seldom, and are looked through in pairs."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One truth value and all that it decides: every `if` of a scope that asks for it and needs none of the others."""

    members: tuple[Call, ...]
    shared: tuple[Expr, ...]
    """What branches read that is not theirs alone."""
    branches: tuple[frozenset[int], frozenset[int]]
    """What is evaluated in each branch and only if it is taken, by identity."""
    masked: bool = False
    """Whether the first branch is computed in any case, and only what it checks counts if it is taken."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Facts of the choices of a program before it is looked at, by identity."""

    before: frozenset[int] = frozenset()
    """What is evaluated before any choice that reads it; its checks concern nobody where it is not needed."""
    guarded: frozenset[int] = frozenset()
    """Of these, choices whose first branch is evaluated if it is needed, and whose value counts only then."""
    masked: frozenset[int] = frozenset()
    """Of these, those whose first branch may be computed in any case."""


def choices(fencil: Fencil, facts: AbsenceAnalysis, settled: Settled | None = None) -> dict[int, Choice]:
    """The choices that become conditionals, by the identity of each `if`; `settled` is what if-conversion made.

    >>> from tensorir.analysis.absence import analyse_absence
    >>> from tensorir.text import parse
    >>> f = parse("f(c: tensor<bool>, x: tensor<float, I[0:20000]>, y: tensor<float, I[0:20000]>) "
    ...           "{ y ← if c then exp(x) else x; }")
    >>> [str(node) for choice in choices(f, analyse_absence(f, {})).values() for node in choice.shared]
    ['x']
    """
    return {id(m): w.choice for w in weighed(fencil, facts, settled) if w.choice for m in w.members}


@dataclass(frozen=True, slots=True)
class Weighed:
    """One truth value, all that it decides, and the cost that a conditional would save."""

    members: tuple[Call, ...]
    operations: int
    """Of both branches, what nothing else reads."""
    needed: int
    """Operations from which on a conditional pays; one whose branches check or print is needed in any case."""
    choice: Choice | None = None
    """What becomes a conditional; None where both branches are computed."""


def weighed(fencil: Fencil, facts: AbsenceAnalysis, settled: Settled | None = None) -> list[Weighed]:
    """All choices by one truth value, those that become conditionals first."""
    roots = values(fencil.closures)
    if not any(_decides(n) for n in postorder(*roots)):
        return []
    uses = use_counts(*roots)
    stored = {id(r) for r in (*roots, *(r for n in postorder(*roots) if isinstance(n, Lambda) for r in n.results))}
    groups = _in_order(_groups(fencil), roots)
    settled = settled or Settled()
    counted: dict[int, int] = {}
    left: list[Weighed] = []
    while True:
        needs = control_dependence(roots, {id(m) for members in groups for m in members})
        aside = _checked_aside(roots, needs, facts, settled.before)
        conditionals: list[Weighed] = []
        for members in groups:
            apart = partial(_stays_in_branches, aside, needs, needs.of[id(members[0])])
            alone = [_only_in([m.args[k] for m in members], uses, apart, settled.before) for k in (1, 2)]
            nodes = [n for branch in alone for n in branch.values()]
            # what is a result anyway is not fused with what follows
            elements = sum(m.tensor.dims.size for m in members if id(m) not in stored)
            work, needed = sum(operations(n, counted) for n in nodes), max(WORTH, PER_ELEMENT * elements)
            forced = any(id(m) in settled.guarded for m in members)
            if work >= needed or forced or any(acts(n, facts) for n in nodes):
                pairs = [([m.args[k] for m in members], nodes) for k, nodes in zip((1, 2), alone, strict=True)]
                shared = {id(n): n for branches, nodes in pairs for n in _around(branches, nodes)}
                masked = all(id(m) in settled.masked for m in members)
                choice = Choice(members, tuple(shared.values()), (frozenset(alone[0]), frozenset(alone[1])), masked)
                conditionals.append(Weighed(members, work, needed, choice))
            else:
                left.append(Weighed(members, work, needed))
        if len(conditionals) == len(groups):
            return conditionals + left
        # the branches of the others are evaluated in any case
        groups = [one.members for one in conditionals]


def _checked_aside(
    roots: Sequence[Expr], needs: ControlDependence, facts: AbsenceAnalysis, settled: Container[int]
) -> set[int]:
    """Checks and reads that stand in branches only, with the nodes that need them: each branch has its own."""
    checking: set[int] = set()
    for node in postorder(*roots):
        if id(node) not in settled and (_checks(node, facts) or any(id(c) in checking for c in node.children)):
            checking.add(id(node))
    return {key for key in checking if not needs.certain(key)}


def _stays_in_branches(aside: set[int], needs: ControlDependence, places: PlaceSet, node: Expr) -> bool:
    """True if a choice in some places may not evaluate a node for both of its branches."""
    return id(node) in aside and not needs.covers(id(node), places)


def _decides(node: Expr) -> TypeGuard[Call]:
    """True if a node is an `if` of one truth value."""
    return isinstance(node, Call) and node.op == "if" and not node.args[0].tensor.dims


def _groups(fencil: Fencil) -> Iterator[tuple[Call, ...]]:
    """Choices that may be made together: needed in the same places, by one condition, none in need of another."""
    roots = values(fencil.closures)
    everything = list(postorder(*roots))
    bodies = [n.results for n in everything if isinstance(n, Lambda)]
    order = {id(n): k for k, n in enumerate(everything)}
    scopes = [[n for n in scope(*tops) if _decides(n)] for tops in (roots, *bodies)]
    times = Counter(id(n) for inside in scopes for n in inside)
    printing = [
        k for k, n in enumerate(everything) if isinstance(n, Call) and TABLE[n.op].effect and not TABLE[n.op].checks
    ]
    needed = {id(n): k for k, root in reversed(list(enumerate(roots))) for n in scope(root) if _decides(n)}
    # of two scopes, whose variables differ: each alone
    yield from ((node,) for node in {id(n): n for inside in scopes for n in inside}.values() if times[id(node)] > 1)
    places = control_dependence(roots, {id(n) for n in everything if _decides(n)}).of
    for inside in scopes:
        groups: dict[tuple[int, PlaceSet], list[list[Call]]] = {}
        for node in sorted((n for n in inside if times[id(n)] == 1), key=lambda n: order[id(n)]):
            known = groups.setdefault((id(node.args[0]), places[id(node)]), [])
            below = {id(n) for n in scope(*node.args[1:])} if known else set[int]()
            begin = needed.get(id(node), 0)
            for group in known:
                written = {c.output for c in fencil.closures[needed.get(id(group[0]), 0) : begin]}
                apart = below.isdisjoint(map(id, group)) and node.free.isdisjoint(written)
                # what is decided later is decided with the first: lines that are printed between would come after
                silent = bisect(printing, order[id(group[0])]) == bisect(printing, order[id(node)])
                if apart and silent and len(group) < MOST:
                    group.append(node)
                    break
            else:
                known.append([node])
        yield from (tuple(group) for several in groups.values() for group in several)


def _in_order(groups: Iterable[tuple[Call, ...]], roots: Sequence[Expr]) -> list[tuple[Call, ...]]:
    """The groups with those taken apart that need another one that needs them: none could be the first."""
    apart = list(groups)
    inside = list(postorder(*roots))
    while True:
        place = {id(m): id(members[0]) for members in apart for m in members}
        below: dict[int, set[int]] = {}
        for node in inside:
            below.setdefault(place.get(id(node), id(node)), set()).update(
                place.get(id(c), id(c)) for c in operands(node)
            )
        try:
            TopologicalSorter(below).prepare()
        except CycleError as cycle:
            split = next(members for members in apart if len(members) > 1 and id(members[0]) in cycle.args[1])
            apart = [*(members for members in apart if members is not split), *((m,) for m in split)]
        else:
            return apart


def _only_in(
    branches: Sequence[Expr], uses: dict[int, int], apart: Callable[[Expr], bool], settled: Container[int]
) -> dict[int, Expr]:
    """The nodes that are read by the branches and by nothing else, or that each branch has apart from others."""
    alone: dict[int, Expr] = {}
    seen: dict[int, int] = {}
    stack = list(branches)
    while stack:
        node = stack.pop()
        if id(node) in settled:
            continue
        seen[id(node)] = seen.get(id(node), 0) + 1
        if id(node) not in alone and (seen[id(node)] == uses[id(node)] or apart(node)):
            alone[id(node)] = node
            stack.extend(operands(node))
    return alone


def _around(branches: Sequence[Expr], alone: dict[int, Expr]) -> list[Expr]:
    """Reads of branches that are not their own."""
    read = (*branches, *(child for node in alone.values() for child in operands(node)))
    return list({id(node): node for node in read if id(node) not in alone}.values())


def operations(node: Expr, known: dict[int, int] | None = None) -> int:
    """About how many scalar operations a node takes by itself, with the functions that it applies.

    `known` holds what was found, by identity: loops in loops have their bodies in common.
    """
    if not isinstance(node, (Call, Apply)):
        return 0
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = _operations(node, known)
    return known[id(node)]


def _operations(node: Call | Apply, known: dict[int, int]) -> int:
    operands_of_node = (node, *(c for c in node.children if not isinstance(c, (Lambda, Operator))))
    size = max(n.tensor.dims.size for n in operands_of_node)
    bodies = [n for f in node.children if isinstance(f, Lambda) for n in postorder(*f.results)]
    match node:
        case Apply():
            return sum(operations(n, known) for n in bodies)
        case Call(op) if TABLE[op].control is Control.LOOP:
            return (node.static.limit or WORTH) * sum(operations(n, known) for n in bodies)
        case Call(op) if TABLE[op].elementwise:
            return size * TABLE[op].cost
        case Call(op) if TABLE[op].indirect or TABLE[op].apart or TABLE[op].control is Control.FOLD:
            # more than one operation for each of its elements, and seldom fused with others
            return size * max(PER_ELEMENT, len(bodies))
        case _:
            return 0


def acts(node: Expr, facts: AbsenceAnalysis) -> bool:
    """True if a node by itself, or the body of a function that it is or applies, checks or prints something."""
    bodies = (f.results for f in (node, *node.children) if isinstance(f, Lambda))
    inside = (node, *postorder(*chain.from_iterable(bodies)))
    return any(_checks(n, facts) or (isinstance(n, Call) and TABLE[n.op].effect) for n in inside)


def _checks(node: Expr, facts: AbsenceAnalysis) -> bool:
    """True if a node by itself may find an error."""
    if not isinstance(node, Call):
        return False
    access = facts.accesses.get(id(node))
    row = TABLE[node.op]
    return (row.effect and row.checks) or (access is not None and not access.proven)
