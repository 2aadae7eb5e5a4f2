"""Choices that are nested deep, or that read the same checked values again and again, side by side instead.

A conditional is traced with what its branches have of their own inside of it. A checked value that several branches
need is traced in each, since of the others none may be taken: in a nest of choices once per path through them. Here
what a branch needs becomes a choice of its own, `if taken then e else 0`, where `taken` says whether any branch is
taken that needs e. It is made once and before all that read it, so that what was a nest is a selection. What was
computed, checked and differentiated only where it is needed still is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from graphlib import CycleError, TopologicalSorter

from tensorir.analysis.absence import AbsenceAnalysis
from tensorir.analysis.choices import WORTH, Choice, Settled, acts, operations
from tensorir.analysis.control_dependence import ControlDependence, Places, control_dependence, operands, scope
from tensorir.ir.build import call, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal
from tensorir.ir.rewrite import postorder, rebuild, runs, values, with_values
from tensorir.ir.types import Element, Scalar

__all__ = ["Flat", "if_converted"]

DEEPEST = 16
"""Conditionals inside of each other: tracing, differentiating and compiling each takes some of Python's stack."""
OFTEN = 8
"""How often a choice is traced at most: what few read is traced in each."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A program whose choices are side by side."""

    fencil: Fencil
    facts: AbsenceAnalysis
    settled: Settled


def if_converted(fencil: Fencil, facts: AbsenceAnalysis, choices: Mapping[int, Choice]) -> Flat | None:
    """The program without nests of choices; None where none is deep and nothing is traced often.

    A scope with lines to print stays as it is: they come in the order in which choices stand in each other.

    >>> from tensorir.analysis.choices import choices
    >>> from tensorir.analysis.absence import analyse_absence
    >>> from tensorir.text import parse
    >>> def nest(depth):
    ...     value = "gather(I)(x, n)"
    ...     for k in range(depth):
    ...         value = f"if n > {k} then {value} else 0.5"
    ...     f = parse(f"f(n: tensor<int>, x: tensor<float, I[0:9]>, y: tensor<float>) {{ y ← {value}; }}")
    ...     facts = analyse_absence(f, {})
    ...     flat = if_converted(f, facts, choices(f, facts))
    ...     return 0 if flat is None else len(flat.settled.guarded)
    >>> nest(10), nest(40)
    (0, 1)
    """
    found = list({id(c): c for c in choices.values()}.values())
    nested = _nested(found)
    if not nested:
        return None
    own = frozenset[int]().union(*(part for c in found for part in c.own))
    absent = any(a.absent for a in facts.accesses.values())
    making = _Making(facts, frozenset(choices), own, nested, _printing(fencil), absent)
    for node in postorder(*values(fencil.closures)):
        if isinstance(node, Lambda):
            making.functions[id(node)] = making.function(node)
    new = [value for run in runs(fencil.closures) for value in making.scope(values(run))]
    accesses = {id(e): facts.accesses[id(old)] for old, e in making.became if id(old) in facts.accesses}
    return Flat(
        replace(fencil, closures=with_values(fencil.closures, new)),
        replace(facts, accesses={**facts.accesses, **accesses}),
        Settled(frozenset(making.before), frozenset(making.guarded), frozenset(making.masked)),
    )  # fmt: skip


def _nested(choices: Sequence[Choice]) -> set[int]:
    """The choices inside of too many others, or traced too often, by identity of their members."""
    numbers = {id(m): k for k, c in enumerate(choices) for m in c.members}
    inside = [[{numbers[n] for n in own & numbers.keys()} for own in c.own] for c in choices]
    around: list[list[int]] = [[] for _ in choices]
    for k, branches in enumerate(inside):
        for branch in branches:
            for j in branch.difference(*(part for i in branch for part in inside[i])):
                around[j].append(k)
    times, depth = [1] * len(choices), [1] * len(choices)
    for k in TopologicalSorter(dict(enumerate(around))).static_order():
        if around[k]:
            times[k] = sum(times[j] for j in around[k])
            depth[k] = 1 + max(depth[j] for j in around[k])
    found = [c for c, t, d in zip(choices, times, depth, strict=True) if t > OFTEN or d > DEEPEST]
    return {id(m) for c in found for m in c.members}


def _printing(fencil: Fencil) -> set[int]:
    """What prints, by identity: calls, and functions with such in their bodies."""
    found: set[int] = set()
    for node in postorder(*values(fencil.closures)):
        inside = scope(*node.results) if isinstance(node, Lambda) else ()
        if (isinstance(node, Call) and node.op == "print") or any(id(n) in found for n in inside):
            found.add(id(node))
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of a scope becomes a choice of its own; sets have identities."""

    needs: ControlDependence
    lazy: set[int]
    """What is evaluated only where it is needed."""
    guarded: set[int]
    """Of that, what becomes a choice of its own; the rest is evaluated with what reads it."""
    masked: set[int]
    """Of that, what may be computed in any case."""
    order: list[int]
    """What is made, operands first: nodes by identity, and for each place of them, as ~place, whether it is taken."""


def _plan(
    roots: Sequence[Expr], inside: Mapping[int, Expr], own: Set[int], choices: Set[int], facts: AbsenceAnalysis
) -> _Plan:
    needs = control_dependence(roots, choices, bodies=False) if own else ControlDependence()
    lazy = {key for key, n in inside.items() if key in own and isinstance(n, (Apply, Call)) and not needs.certain(key)}
    below = {key: [id(c) for c in operands(n)] for key, n in inside.items()}
    readers = list(TopologicalSorter(below).static_order())[::-1]
    homes = _homes(readers, inside, lazy, choices)
    with_it: defaultdict[int, list[Expr]] = defaultdict(list)
    for key, home in homes.items():
        with_it[home].append(inside[key])
    harmless = {home for home, nodes in with_it.items() if _harmless(nodes)}
    silent = {home for home in harmless if not any(acts(n, facts) for n in with_it[home])}
    lazy -= {key for key, home in homes.items() if home in silent}
    guarded = with_it.keys() & lazy
    while True:
        taken = _taken(needs, {p for key in guarded for p in needs.of[key]})
        after = {
            key: [*found, *(~p for p in (needs.of[key] if key in guarded else ()))] for key, found in below.items()
        }
        try:
            order = list(TopologicalSorter({**after, **taken}).static_order())
        except CycleError as cycle:
            # whether one is needed depends on the other and the other way round: one is made in each that reads it
            guarded.remove(next(key for key in cycle.args[1] if key in guarded))
        else:
            return _Plan(needs, lazy, guarded, harmless & guarded, order)


def _homes(readers: Sequence[int], inside: Mapping[int, Expr], lazy: Set[int], choices: Set[int]) -> dict[int, int]:
    """With what each is evaluated: with itself if it is a branch, a condition, or shared by several that are apart."""
    homes: dict[int, int] = {}
    reading: defaultdict[int, set[int]] = defaultdict(set)
    for key in readers:
        if key in lazy:
            (first, *more) = reading[key]
            homes[key] = key if more or first == BORDER else first
        for child in operands(inside[key]):
            reading[id(child)].add(BORDER if key in choices else homes.get(key, BORDER))
    return homes


BORDER = 0
"""No identity: what stands here is evaluated apart from what reads it."""


def _harmless(nodes: Sequence[Expr]) -> bool:
    """Whether nodes cost little, come to an end, and leave no NaN in gradients where their values do not count."""
    return all(isinstance(n, Call) and _finite(n) for n in nodes) and sum(map(operations, nodes)) < WORTH


def _finite(node: Call) -> bool:
    """Whether the derivative is finite, or there is none."""
    match node:
        case Call("multiplies", args) if any(isinstance(a, Literal) and math.isfinite(a.value) for a in args):
            return True
        case Call(op):
            exact = not any(s.is_float for s in node.tensor.leaves)
            finite = TABLE[op].slope != "unbounded" and op != "print"
            return finite or (TABLE[op].elementwise and exact)


def _taken(needs: ControlDependence, places: Iterable[int]) -> dict[int, list[int]]:
    """For each place, as ~place, what says whether it is taken: its condition, and the places that it lies in."""
    found: dict[int, list[int]] = {}
    stack = list(places)
    while stack:
        place = stack.pop()
        if ~place in found:
            continue
        around, condition, _ = needs.taken(place)
        outer = [] if needs.always(around) else list(around)
        found[~place] = [id(condition), *(~p for p in outer)]
        stack += outer
    return found


@dataclass(slots=True)
class _Making:
    """A program while its scopes are made flat one by one; sets have identities."""

    facts: AbsenceAnalysis
    choices: frozenset[int]
    own: frozenset[int]
    """What is evaluated only if some branch is taken."""
    nested: set[int]
    printing: set[int]
    absent: bool
    """Whether a condition may be absent."""
    functions: dict[int, Expr] = field(default_factory=dict[int, Expr])
    known: dict[tuple[object, ...], Expr] = field(default_factory=dict[tuple[object, ...], Expr])
    """What was made, by what it was made of: what scopes share, they share again."""
    became: list[tuple[Expr, Expr]] = field(default_factory=list[tuple[Expr, Expr]])
    before: set[int] = field(default_factory=set[int])
    guarded: set[int] = field(default_factory=set[int])
    masked: set[int] = field(default_factory=set[int])

    def scope(self, roots: Sequence[Expr]) -> list[Expr]:
        """The roots of a scope, flat where too much is nested in it."""
        inside = {id(n): n for n in scope(*roots)}
        flat = not self.nested.isdisjoint(inside) and not any(k in self.own and k in self.printing for k in inside)
        plan = _plan(roots, inside, self.own if flat else set(), self.choices, self.facts)
        made: dict[int, Expr] = {}
        for key in plan.order:
            if key < 0:
                made[key] = self._taken(plan, ~key, made)
                continue
            node = inside[key]
            certain = flat and isinstance(node, (Apply, Call)) and key not in plan.lazy
            new = self._again(node, made, id(roots[0]) if certain and key in self.own else 0)
            if key in plan.guarded:
                new = self._guarded(self._any(plan.needs.of[key], made), new)
                if key in plan.masked:
                    self.masked.add(id(new))
            elif certain:
                self.before.add(id(new))
            made[key] = new
        return [made[id(root)] for root in roots]

    def function(self, node: Lambda) -> Expr:
        """A function whose results are flat."""
        made = tuple(self.scope(node.results))
        same = all(a is b for a, b in zip(node.results, made, strict=True))
        return node if same else self.rebuilt(node, made)

    def _again(self, node: Expr, made: Mapping[int, Expr], here: int) -> Expr:
        """The node of what its operands became; `here` for what other scopes evaluate where it is needed only."""
        if isinstance(node, Lambda):
            return self.functions[id(node)]
        children = tuple(made[id(c)] for c in node.children)
        if not here and all(a is b for a, b in zip(node.children, children, strict=True)):
            return node
        return self.rebuilt(node, children, here)

    def rebuilt(self, node: Expr, children: tuple[Expr, ...], here: int = 0) -> Expr:
        """The node with other children, the same one for the same."""
        key = (id(node), here, *map(id, children))
        if key not in self.known:
            self.known[key] = replace(rebuild(node, children))
            self.became.append((node, self.known[key]))
        return self.known[key]

    def _call(self, op: str, *args: Expr) -> Expr:
        key = (op, *map(id, args))
        if key not in self.known:
            self.known[key] = call(op, *args)
        return self.known[key]

    def _taken(self, plan: _Plan, place: int, made: Mapping[int, Expr]) -> Expr:
        """Whether a place is taken."""
        around, condition, first = plan.needs.taken(place)
        truth = made[id(condition)]
        if self.absent:
            truth = self._call("if", self._call("can_deref", truth), truth, FALSE)
        truth = truth if first else self._call("not", truth)
        if plan.needs.always(around):
            return truth
        outer = self._any(around, made)
        alone = id(condition) in plan.lazy - plan.guarded
        return self._guarded(outer, truth) if alone else self._call("and", outer, truth)

    def _any(self, places: Places, made: Mapping[int, Expr]) -> Expr:
        """Whether any place is taken."""
        return reduce(lambda a, b: self._call("or", a, b), [made[~p] for p in sorted(places)])

    def _guarded(self, taken: Expr, value: Expr) -> Expr:
        """The value where it is needed; elsewhere one that nobody reads."""
        key = ("guarded", id(taken), id(value))
        if key not in self.known:
            self.known[key] = call("if", taken, value, _zero(value.tensor.element))
            self.guarded.add(id(self.known[key]))
            self.before.add(id(self.known[key]))
        return self.known[key]


FALSE = literal(False)


def _zero(element: Element) -> Expr:
    return literal(0, element) if isinstance(element, Scalar) else call("make_tuple", *map(_zero, element.members))
