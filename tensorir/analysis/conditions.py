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

    def branch(self, condition: Expr, enclosing: PlaceSet, is_first: bool) -> PlaceSet:
        """The place of one branch of a choice that is needed in `enclosing`; choices with the same condition and places
        share it.

        A first branch has an even number, the second one the number after it.
        """
        place = self._branches.setdefault((id(condition), enclosing), len(self._around))
        if place == len(self._around):
            self._around += [enclosing] * 2
            self._conditions[place] = condition
        return frozenset([place if is_first else place + 1])

    def taken(self, place: int) -> tuple[PlaceSet, Expr, bool]:
        """For the place of a branch: the places of its choice, the condition, and the truth value that takes it."""
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
        """The union of sets of places, in normal form: both branches of a choice are replaced by the choice's places,
        and places inside of others are dropped.
        """
        first_set, *other_sets = needs
        if not other_sets:
            return first_set
        places = set(first_set).union(*other_sets)
        stack = list(places)
        while stack:
            place = stack.pop()
            if place in places and place ^ 1 in places:
                places -= {place, place ^ 1}
                stack += self._around[place] - places
                places |= self._around[place]
        return frozenset(p for p in places if not self._around[p] or not self._encloses(places, self._around[p]))

    def _encloses(self, outer: Container[int], inner: PlaceSet) -> bool:
        """True if every path from `inner` outwards reaches a place in `outer`."""
        visited = set(inner)
        stack = list(inner)
        while stack:
            place = stack.pop()
            if place in outer:
                continue
            if not self._around[place]:
                return False
            stack += self._around[place] - visited
            visited |= self._around[place]
        return True


def control_dependence(roots: Sequence[Expr], choice_ids: Container[int], bodies: bool = True) -> ControlDependence:
    """Control dependence: the places in which each node is needed, if every `if` in `choice_ids` (by identity)
    evaluates one branch only.

    Without `bodies`, functions need nothing: only the scope of the roots is analysed.

    >>> from tensorir.ir.build import call, literal, var
    >>> from tensorir.ir.types import tensor
    >>> c, x = var("c", tensor("bool")), call("neg", literal(1.0))
    >>> often, seldom = (call("if", c, call("sin", x), y) for y in (x, literal(0.0)))
    >>> [control_dependence([e], {id(e)}).certain(id(x)) for e in (often, seldom)]
    [True, False]
    """
    dependence = ControlDependence()
    needs: defaultdict[int, set[PlaceSet]] = defaultdict(set)
    top_scope = dependence.scope()
    for root in roots:
        needs[id(root)].add(top_scope)
    for node in reversed(list(postorder(*roots))):
        if isinstance(node, (Var, Literal)) or id(node) not in needs:
            continue
        places = dependence.of[id(node)] = dependence.joined(needs.pop(id(node)))
        match node:
            case Lambda(results=results):
                if bodies:
                    body_scope = dependence.scope()
                    for result in results:
                        needs[id(result)].add(body_scope)
            case Call(args=(condition, then_value, else_value)) if id(node) in choice_ids:
                needs[id(condition)].add(places)
                needs[id(then_value)].add(dependence.branch(condition, places, True))
                needs[id(else_value)].add(dependence.branch(condition, places, False))
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
    """The choices that become conditionals, by the identity of each `if`.

    `facts` are those on absent elements; `settled` records what if-conversion has decided before.

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
    """All choices by one scalar condition with their costs, those that become conditionals first.

    Iterated: if some choice does not become a conditional, its branches are evaluated always, which changes the own
    nodes of the others.
    """
    roots = values(fencil.closures)
    if not any(_decides(n) for n in postorder(*roots)):
        return []
    uses = use_counts(*roots)
    stored = {id(r) for r in (*roots, *(r for n in postorder(*roots) if isinstance(n, Lambda) for r in n.results))}
    grouped = _in_order(_groups(fencil), roots)
    settled = settled or Settled()
    counted: dict[int, int] = {}
    unprofitable: list[Weighed] = []
    while True:
        needs = control_dependence(roots, {id(m) for members in grouped for m in members})
        branch_checks = _checked_aside(roots, needs, facts, settled.before)
        conditionals: list[Weighed] = []
        for members in grouped:
            stays_in_branch = partial(_stays_in_branches, branch_checks, needs, needs.of[id(members[0])])
            own = [_only_in([m.args[k] for m in members], uses, stays_in_branch, settled.before) for k in (1, 2)]
            nodes = [n for branch in own for n in branch.values()]
            # what is a result anyway is not fused with what follows
            elements = sum(m.tensor.dims.size for m in members if id(m) not in stored)
            work, threshold = sum(operations(n, counted) for n in nodes), max(WORTH, PER_ELEMENT * elements)
            is_required = any(id(m) in settled.guarded for m in members)
            if work >= threshold or is_required or any(acts(n, facts) for n in nodes):
                pairs = [([m.args[k] for m in members], nodes) for k, nodes in zip((1, 2), own, strict=True)]
                shared = {id(n): n for branches, nodes in pairs for n in _around(branches, nodes)}
                masked = all(id(m) in settled.masked for m in members)
                choice = Choice(members, tuple(shared.values()), (frozenset(own[0]), frozenset(own[1])), masked)
                conditionals.append(Weighed(members, work, threshold, choice))
            else:
                unprofitable.append(Weighed(members, work, threshold))
        if len(conditionals) == len(grouped):
            return conditionals + unprofitable
        # the branches of the others are evaluated in any case
        grouped = [conditional.members for conditional in conditionals]


def _checked_aside(
    roots: Sequence[Expr], needs: ControlDependence, facts: AbsenceAnalysis, settled: Container[int]
) -> set[int]:
    """Nodes that check, or depend on a check, and are needed in branches only, by identity; each branch evaluates its
    own copy.
    """
    checking: set[int] = set()
    for node in postorder(*roots):
        if id(node) not in settled and (_checks(node, facts) or any(id(c) in checking for c in node.children)):
            checking.add(id(node))
    return {key for key in checking if not needs.certain(key)}


def _stays_in_branches(branch_checks: set[int], needs: ControlDependence, places: PlaceSet, node: Expr) -> bool:
    """True if a choice in `places` must not evaluate a node before itself, since the node checks and is not needed
    there.
    """
    return id(node) in branch_checks and not needs.covers(id(node), places)


def _decides(node: Expr) -> TypeGuard[Call]:
    """True if a node is an `if` of one truth value."""
    return isinstance(node, Call) and node.op == "if" and not node.args[0].tensor.dims


def _groups(fencil: Fencil) -> Iterator[tuple[Call, ...]]:
    """The choices of a program in groups that may be decided together: same condition, needed in the same places,
    independent of each other, no write to an operand and no print in between.
    """
    roots = values(fencil.closures)
    all_nodes = list(postorder(*roots))
    bodies = [n.results for n in all_nodes if isinstance(n, Lambda)]
    order = {id(n): k for k, n in enumerate(all_nodes)}
    scopes = [[n for n in scope(*scope_roots) if _decides(n)] for scope_roots in (roots, *bodies)]
    times = Counter(id(n) for inside in scopes for n in inside)
    printing = [
        k for k, n in enumerate(all_nodes) if isinstance(n, Call) and TABLE[n.op].effect and not TABLE[n.op].checks
    ]
    first_closure = {id(n): k for k, root in reversed(list(enumerate(roots))) for n in scope(root) if _decides(n)}
    # of two scopes, whose variables differ: each alone
    yield from ((node,) for node in {id(n): n for inside in scopes for n in inside}.values() if times[id(node)] > 1)
    places = control_dependence(roots, {id(n) for n in all_nodes if _decides(n)}).of
    for inside in scopes:
        groups: dict[tuple[int, PlaceSet], list[list[Call]]] = {}
        for node in sorted((n for n in inside if times[id(n)] == 1), key=lambda n: order[id(n)]):
            groups_alike = groups.setdefault((id(node.args[0]), places[id(node)]), [])
            nodes_below = {id(n) for n in scope(*node.args[1:])} if groups_alike else set[int]()
            first_use = first_closure.get(id(node), 0)
            for group in groups_alike:
                written = {c.output for c in fencil.closures[first_closure.get(id(group[0]), 0) : first_use]}
                independent = nodes_below.isdisjoint(map(id, group)) and node.free.isdisjoint(written)
                # what is decided later is decided with the first: lines that are printed between would come after
                same_prints = bisect(printing, order[id(group[0])]) == bisect(printing, order[id(node)])
                if independent and same_prints and len(group) < MOST:
                    group.append(node)
                    break
            else:
                groups_alike.append([node])
        yield from (tuple(group) for groups_alike_all in groups.values() for group in groups_alike_all)


def _in_order(groups: Iterable[tuple[Call, ...]], roots: Sequence[Expr]) -> list[tuple[Call, ...]]:
    """Splits groups that depend on each other in a cycle into single choices, so that an order of evaluation exists."""
    split_groups = list(groups)
    all_nodes = list(postorder(*roots))
    while True:
        group_of = {id(m): id(members[0]) for members in split_groups for m in members}
        operands_of: dict[int, set[int]] = {}
        for node in all_nodes:
            operands_of.setdefault(group_of.get(id(node), id(node)), set()).update(
                group_of.get(id(c), id(c)) for c in operands(node)
            )
        try:
            TopologicalSorter(operands_of).prepare()
        except CycleError as cycle:
            cyclic = next(members for members in split_groups if len(members) > 1 and id(members[0]) in cycle.args[1])
            split_groups = [*(members for members in split_groups if members is not cyclic), *((m,) for m in cyclic)]
        else:
            return split_groups


def _only_in(
    branches: Sequence[Expr], uses: dict[int, int], is_separate: Callable[[Expr], bool], settled: Container[int]
) -> dict[int, Expr]:
    """The nodes that only the branches read (all uses were seen), or for which `is_separate` holds, by identity."""
    own_nodes: dict[int, Expr] = {}
    reads_seen: dict[int, int] = {}
    stack = list(branches)
    while stack:
        node = stack.pop()
        if id(node) in settled:
            continue
        reads_seen[id(node)] = reads_seen.get(id(node), 0) + 1
        if id(node) not in own_nodes and (reads_seen[id(node)] == uses[id(node)] or is_separate(node)):
            own_nodes[id(node)] = node
            stack.extend(operands(node))
    return own_nodes


def _around(branches: Sequence[Expr], own_nodes: dict[int, Expr]) -> list[Expr]:
    """The inputs of branches: the nodes that they read and that are not their own."""
    read = (*branches, *(child for node in own_nodes.values() for child in operands(node)))
    return list({id(node): node for node in read if id(node) not in own_nodes}.values())


def operations(node: Expr, cache: dict[int, int] | None = None) -> int:
    """The estimated number of scalar operations of a node by itself, including functions that it applies.

    `cache` keeps results by identity, since nested loops share bodies.
    """
    if not isinstance(node, (Call, Apply)):
        return 0
    cache = {} if cache is None else cache
    if id(node) not in cache:
        cache[id(node)] = _operations(node, cache)
    return cache[id(node)]


def _operations(node: Call | Apply, cache: dict[int, int]) -> int:
    """`operations` of a node that is not cached: by kind of builtin; loops without limit count `WORTH` rounds."""
    operands_of_node = (node, *(c for c in node.children if not isinstance(c, (Lambda, Operator))))
    size = max(n.tensor.dims.size for n in operands_of_node)
    bodies = [n for f in node.children if isinstance(f, Lambda) for n in postorder(*f.results)]
    match node:
        case Apply():
            return sum(operations(n, cache) for n in bodies)
        case Call(op) if TABLE[op].control is Control.LOOP:
            return (node.static.limit or WORTH) * sum(operations(n, cache) for n in bodies)
        case Call(op) if TABLE[op].elementwise:
            return size * TABLE[op].cost
        case Call(op) if TABLE[op].indirect or TABLE[op].apart or TABLE[op].control is Control.FOLD:
            # more than one operation for each of its elements, and seldom fused with others
            return size * max(PER_ELEMENT, len(bodies))
        case _:
            return 0


def acts(node: Expr, facts: AbsenceAnalysis) -> bool:
    """True if a node, or a function that it is or applies, checks or prints."""
    bodies = (f.results for f in (node, *node.children) if isinstance(f, Lambda))
    affected = (node, *postorder(*chain.from_iterable(bodies)))
    return any(_checks(n, facts) or (isinstance(n, Call) and TABLE[n.op].effect) for n in affected)


def _checks(node: Expr, facts: AbsenceAnalysis) -> bool:
    """True if a node itself may raise an error: an assertion or an unproven index."""
    if not isinstance(node, Call):
        return False
    access = facts.accesses.get(id(node))
    builtin = TABLE[node.op]
    return (builtin.effect and builtin.checks) or (access is not None and not access.proven)
