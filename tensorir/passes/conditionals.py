"""Selections and conditionals: propagation of conditions, conditionals of selections, if-conversion."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from graphlib import CycleError, TopologicalSorter

from tensorir import nodes
from tensorir.analysis.absence import AbsenceAnalysis, analyse_absence
from tensorir.analysis.conditions import (
    PER_ELEMENT,
    WORTH,
    Choice,
    ControlDependence,
    PlaceSet,
    Settled,
    Weighed,
    acts,
    control_dependence,
    operands,
    operations,
    scope,
    weighed,
)
from tensorir.binding.arrays import SkipValues
from tensorir.ir.build import call, coerced, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, runs, values, with_label, with_values
from tensorir.ir.types import BOOL, Element, Scalar
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold

# Choices are settled inside of each other: in the branch where c holds, c is true.

Facts = Mapping[Expr, bool]
"""Conditions, and the truth value that each has wherever something is used."""
NOTHING: Facts = {}


@dataclass(frozen=True)
class PropagateConditions(Pass):
    """Conditions hold in the branches of their `if`, for all nodes that are used there alone.

    >>> from tensorir.passes.base import show
    >>> text = '''f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
    ...   out ← if n > 2 then x + (if n > 2 then x else 1.0) else (if n > 2 then 2.0 else x); }'''
    >>> show(PropagateConditions(), text)
    f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← if n > 2 then x + x else x;
    }

    One with dims is known at the point at which it holds, and in sums over other dims there:

    >>> text = '''f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
    ...   out ← if y > 0.0 then reduce(+, 0.0, J)(if y > 0.0 then x else 0.0) else y; }'''
    >>> show(PropagateConditions(), text)
    f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← if y > 0.0 then reduce(+, 0.0, J)(x) else y;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        nodes = list(postorder(*values(fencil.closures)))
        choices = [e for e in nodes if isinstance(e, Call) and e.op == "if" and e.args[0].free]
        asked = Counter(part for e in choices for part, _ in _known(e.args[0], True))
        uses = Counter(c for e in nodes for c in e.children if c in asked)
        often = {c for c in asked if uses[c] > 1}
        if not often:
            return fencil
        known = _known_everywhere(nodes, values(fencil.closures), often)
        done: dict[int, Expr] = {}
        for e in nodes:
            here = known[id(e)]
            children = tuple(
                done[id(child)] if child not in there or child.tensor.dims else literal(there[child], BOOL, child.span)
                for child, there in zip(e.children, _edges(e, here, often), strict=True)
            )
            new = _settled(e, here, children)
            if new is None:
                new = rebuild(e, children)
            elif e.label and not new.label:
                new = with_label(new, e.label)
            done[id(e)] = new
        new_values = (done[id(value)] for value in values(fencil.closures))
        return remade(fencil, with_values(fencil.closures, new_values))


def decides(e: Expr) -> bool:
    """True if an expression is an `if` of one truth value that is not known."""
    match e:
        case Call("if", (condition, *_)):
            return not condition.tensor.dims and bool(condition.free)
        case _:
            return False


def _known_everywhere(nodes: list[Expr], roots: tuple[Expr, ...], often: set[Expr]) -> dict[int, Facts]:
    """Truth values of each node by identity: the same wherever it is used, so that none is needed twice."""
    known: dict[int, Facts] = {id(root): {} for root in roots}
    for e in reversed(nodes):
        for child, there in zip(e.children, _edges(e, known[id(e)], often), strict=True):
            before = known.get(id(child))
            known[id(child)] = there if before is None else {c: t for c, t in before.items() if there.get(c) is t}
    return known


def _edges(e: Expr, here: Facts, often: set[Expr]) -> tuple[Facts, ...]:
    """Truth values on the edges to each operand of a node that has some."""
    everywhere = {c: t for c, t in here.items() if not c.tensor.dims}
    match e:
        case Call("if", (condition, *_)):
            implied = [{c: t for c, t in _known(condition, truth) if c in often} for truth in (True, False)]
            return (here, *({**here, **t} for t in implied))
        case Call("reduce", (Operator("plus"), _, _), (dim,)):
            there = {c: t for c, t in here.items() if dim not in c.tensor.dims}
            return (everywhere, there, there)
        case Call("add_dim", _, (dim, *_)):
            return ({c: t for c, t in here.items() if dim not in c.tensor.dims},)
        case Call("assert_", args) | Call("gather", args, (_, "checked")):
            return (NOTHING,) * len(args)  # it may fail, and is computed where no choice takes it, too
        case Call("multiplies", (a, b)) if isinstance(a, Literal) or isinstance(b, Literal):
            return (here, here)
        case Call(op, args):
            return ((here if _pointwise(op) else everywhere),) * len(args)
        case _:
            return (everywhere,) * len(e.children)


def _settled(e: Expr, known: Facts, operands: tuple[Expr, ...]) -> Expr | None:
    """A choice, or a condition of two, where known truth values decide it, or one of the two."""
    match e:
        case Call("if", (condition, _, _)) if (truth := _truth(condition, known)) is not None:
            return coerced(operands[1 if truth else 2], e.tensor)
        case Call("and" | "or" as op, (a, b)) if a in known or b in known:
            truth, other = (known[a], operands[1]) if a in known else (known[b], operands[0])
            deciding = truth is (op == "or")
            return coerced(literal(truth, BOOL, e.span) if deciding else other, e.tensor)
        case _:
            return None


def _truth(condition: Expr, known: Facts) -> bool | None:
    """The truth value of a condition, where what is known decides it."""
    if condition in known:
        return known[condition]
    match condition:
        case Call("not", (x,)):
            truth = _truth(x, known)
            return None if truth is None else not truth
        case Call("and" | "or" as op, parts):
            truths = [_truth(x, known) for x in parts]
            deciding = op == "or"
            return deciding if deciding in truths else None if None in truths else not deciding
        case _:
            return None


def _pointwise(op: str) -> bool:
    """True if each point is computed from the same one, with a derivative that is finite whatever the operands are.

    Elsewhere a choice by a condition with dims keeps 0 × ∞ out of derivatives.
    """
    row = TABLE[op]
    same_point = row.elementwise or op in ("make_tuple", "tuple_get", "subset")
    return same_point and row.slope != "unbounded"


def _known(condition: Expr, truth: bool) -> Iterator[tuple[Expr, bool]]:
    """A condition, and the conditions that have a truth value where it has one."""

    def implied(fact: tuple[Expr, bool]) -> list[tuple[Expr, bool]]:
        match fact:
            case Call("not", (x,)), holds:
                return [(x, not holds)]
            case Call("and" | "or" as op, parts), holds if holds == (op == "and"):
                return [(x, holds) for x in reversed(parts)]
            case _:
                return []

    return nodes.occurrences([(condition, truth)], implied)


# Choices that are nested deep, or that read the same checked values again and again, side by side instead.
#
# A conditional is traced with what its branches have of their own inside of it. A checked value that several branches
# need is traced in each, since of the others none may be taken: in a nest of choices once per path through them. Here
# what a branch needs becomes a choice of its own, `if taken then e else 0`, where `taken` says whether any branch is
# taken that needs e. It is made once and before all that read it, so that what was a nest is a selection. What was
# computed, checked and differentiated only where it is needed still is.

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

    >>> from tensorir.analysis.conditions import choices
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
    distinct = list({id(c): c for c in choices.values()}.values())
    nested = _nested(distinct)
    if not nested:
        return None
    conditional = frozenset[int]().union(*(part for c in distinct for part in c.branches))
    absent = any(a.absent for a in facts.accesses.values())
    flattening = _Flattening(facts, frozenset(choices), conditional, nested, _printing(fencil), absent)
    for node in postorder(*values(fencil.closures)):
        if isinstance(node, Lambda):
            flattening.functions[id(node)] = flattening.function(node)
    new = [value for run in runs(fencil.closures) for value in flattening.scope(values(run))]
    accesses = {id(e): facts.accesses[id(old)] for old, e in flattening.became if id(old) in facts.accesses}
    return Flat(
        replace(fencil, closures=with_values(fencil.closures, new)),
        replace(facts, accesses={**facts.accesses, **accesses}),
        Settled(frozenset(flattening.before), frozenset(flattening.guarded), frozenset(flattening.masked)),
    )  # fmt: skip


def _nested(choices: Sequence[Choice]) -> set[int]:
    """The choices inside of too many others, or traced too often, by identity of their members."""
    numbers = {id(m): k for k, c in enumerate(choices) for m in c.members}
    inside = [[{numbers[n] for n in branch & numbers.keys()} for branch in c.branches] for c in choices]
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
    deep = [c for c, t, d in zip(choices, times, depth, strict=True) if t > OFTEN or d > DEEPEST]
    return {id(m) for c in deep for m in c.members}


def _printing(fencil: Fencil) -> set[int]:
    """Nodes that print, by identity: calls, and functions with such in their bodies."""
    printing: set[int] = set()
    for node in postorder(*values(fencil.closures)):
        inside = scope(*node.results) if isinstance(node, Lambda) else ()
        if (isinstance(node, Call) and node.op == "print") or any(id(n) in printing for n in inside):
            printing.add(id(node))
    return printing


@dataclass(frozen=True, slots=True)
class _Plan:
    """The choices of a scope that become conditionals; sets have identities."""

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
    roots: Sequence[Expr], inside: Mapping[int, Expr], conditional: Set[int], choices: Set[int], facts: AbsenceAnalysis
) -> _Plan:
    needs = control_dependence(roots, choices, bodies=False) if conditional else ControlDependence()
    lazy = {
        key
        for key, n in inside.items()
        if key in conditional and isinstance(n, (Apply, Call)) and not needs.certain(key)
    }
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
            key: [*before, *(~p for p in (needs.of[key] if key in guarded else ()))] for key, before in below.items()
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
    """True if nodes cost little, come to an end, and leave no NaN in gradients where their values do not count."""
    return all(isinstance(n, Call) and _finite(n) for n in nodes) and sum(map(operations, nodes)) < WORTH


def _finite(node: Call) -> bool:
    """True if the derivative is finite, or there is none."""
    match node:
        case Call("multiplies", args) if any(isinstance(a, Literal) and math.isfinite(a.value) for a in args):
            return True
        case Call(op):
            exact = not any(s.is_float for s in node.tensor.leaves)
            finite = TABLE[op].slope != "unbounded" and op != "print"
            return finite or (TABLE[op].elementwise and exact)


def _taken(needs: ControlDependence, places: Iterable[int]) -> dict[int, list[int]]:
    """For each place, as ~place, what says whether it is taken: its condition, and the places that it lies in."""
    conditions: dict[int, list[int]] = {}
    stack = list(places)
    while stack:
        place = stack.pop()
        if ~place in conditions:
            continue
        around, condition, _ = needs.taken(place)
        outer = [] if needs.always(around) else list(around)
        conditions[~place] = [id(condition), *(~p for p in outer)]
        stack += outer
    return conditions


@dataclass(slots=True)
class _Flattening:
    """A program while its scopes are made flat one by one; sets have identities."""

    facts: AbsenceAnalysis
    choices: frozenset[int]
    conditional: frozenset[int]
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
        printing = self.conditional & self.printing & inside.keys()
        flat = not self.nested.isdisjoint(inside) and not printing
        plan = _plan(roots, inside, self.conditional if flat else set(), self.choices, self.facts)
        done: dict[int, Expr] = {}
        for key in plan.order:
            if key < 0:
                done[key] = self._taken(plan, ~key, done)
                continue
            node = inside[key]
            certain = flat and isinstance(node, (Apply, Call)) and key not in plan.lazy
            new = self._again(node, done, id(roots[0]) if certain and key in self.conditional else 0)
            if key in plan.guarded:
                new = self._guarded(self._any(plan.needs.of[key], done), new)
                if key in plan.masked:
                    self.masked.add(id(new))
            elif certain:
                self.before.add(id(new))
            done[key] = new
        return [done[id(root)] for root in roots]

    def function(self, node: Lambda) -> Expr:
        """A function whose results are flat."""
        results = tuple(self.scope(node.results))
        same = all(a is b for a, b in zip(node.results, results, strict=True))
        return node if same else self.rebuilt(node, results)

    def _again(self, node: Expr, done: Mapping[int, Expr], here: int) -> Expr:
        """The node of what its operands became; `here` for what other scopes evaluate where it is needed only."""
        if isinstance(node, Lambda):
            return self.functions[id(node)]
        children = tuple(done[id(c)] for c in node.children)
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

    def _taken(self, plan: _Plan, place: int, done: Mapping[int, Expr]) -> Expr:
        """True if a place is taken."""
        around, condition, first = plan.needs.taken(place)
        truth = done[id(condition)]
        if self.absent:
            truth = self._call("if", self._call("can_deref", truth), truth, FALSE)
        truth = truth if first else self._call("not", truth)
        if plan.needs.always(around):
            return truth
        outer = self._any(around, done)
        alone = id(condition) in plan.lazy - plan.guarded
        return self._guarded(outer, truth) if alone else self._call("and", outer, truth)

    def _any(self, places: PlaceSet, done: Mapping[int, Expr]) -> Expr:
        """True if any place is taken."""
        return reduce(lambda a, b: self._call("or", a, b), [done[~p] for p in sorted(places)])

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


# Selections by one truth value become conditionals: `if c then f(x) else g(x)` computes the branch that is taken.


@dataclass(frozen=True)
class Conditionals(Pass):
    """If-conversion undone: one truth value with a branch that computes much, checks or prints becomes `cond`.

    What branches read that is not theirs alone is computed before, and given to their functions. Choices by one
    condition, needed in the same places, are made together, and nests of them are put side by side before.

    >>> from tensorir.passes.base import show
    >>> from tensorir.ir.types import tensor
    >>> show(Conditionals(), "if n > 0 then gather(I)(x, n) else 0.5", n=tensor("int"), x={"I": (0, 9)})
    cond(0)(λ() → gather(I)(x, n), λ() → 0.5, n > 0)
    """

    tables: Mapping[str, SkipValues] = field(default_factory=dict[str, SkipValues], hash=False)
    """What is known of tables: which slots of them hold -1."""
    full: frozenset[str] = frozenset()
    """Tables that are declared to hold no -1."""

    def run(self, fencil: Fencil) -> Fencil:
        fencil, weights, _ = self._weighed(fencil)
        choices = {id(m): w.choice for w in weights if w.choice for m in w.members}
        if not choices:
            return fencil
        return remade(fencil, with_values(fencil.closures, _Regions(choices).scope(values(fencil.closures), {})))

    def _weighed(self, fencil: Fencil) -> tuple[Fencil, list[Weighed], bool]:
        """The program with nests of choices side by side, its choices, and whether there were nests."""
        facts = analyse_absence(fencil, self.tables, self.full)
        weights = weighed(fencil, facts)
        choices = {id(m): w.choice for w in weights if w.choice for m in w.members}
        flat = if_converted(fencil, facts, choices)
        if flat is None:
            return fencil, weights, False
        return flat.fencil, weighed(flat.fencil, flat.facts, flat.settled), True

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Conditionals"
        return (
            Threshold("WORTH", WORTH, "operations of both branches", where),
            Threshold("PER_ELEMENT", PER_ELEMENT, "operations of both branches per element of the result", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        limit = self.thresholds()[0]
        program, weights, flat = self._weighed(before)
        places = Places(program)
        rows: list[Decision] = []
        for w in weights:
            first, *others = w.members
            several = f"{1 + len(others)} selections" if others else "selection"
            if w.choice is None:
                what, why = f"{several}: both branches computed", "a conditional would cost more than it saves"
            elif w.choice.masked:
                what, why = f"{several} if-converted", "the first branch is computed in any case, its checks are masked"
            else:
                pays = w.operations >= w.needed
                what = f"{several} kept as one conditional"
                why = self.reason() if pays else "a branch checks or prints"
                what += " (if-converted from a nest)" if flat else ""
            needed = replace(limit, limit=w.needed)
            rows.append(
                Decision(
                    self.name(), what, places.of(first), w.choice is not None, why, w.operations, needed,
                    span=first.span,
                )
            )  # fmt: skip
        return tuple(rows)

    def knowing(self, tables: Mapping[str, SkipValues], full: frozenset[str]) -> Conditionals:
        return replace(self, tables=tables, full=full)

    def spelled(self) -> str:
        return self.name()

    def reason(self) -> str:
        return "the branch that is not taken is not computed, and what it checks concerns nobody"


@dataclass(frozen=True, slots=True)
class _Regions:
    """The branches of choices as functions; what is evaluated inside of one is made for it alone."""

    choices: Mapping[int, Choice]
    """By the identity of each `if`."""
    functions: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def scope(self, roots: Sequence[Expr], known: Mapping[int, Expr]) -> list[Expr]:
        """Expressions that are evaluated in one scope, of which some nodes are given, by identity."""
        done = dict(known)
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            node, ready = stack.pop()
            if id(node) in done:
                continue
            choice = self.choices.get(id(node))
            match node:
                case Var() | Literal() | Operator():
                    done[id(node)] = node
                case Lambda():
                    done[id(node)] = self._function(node)
                case _ if not ready:
                    before = node.children if choice is None else (choice.members[0].args[0], *choice.shared)
                    stack.append((node, True))
                    stack.extend((n, False) for n in reversed(before) if id(n) not in done)
                case _ if choice is None:
                    done[id(node)] = rebuild(node, tuple(done[id(c)] for c in node.children))
                case _:
                    done.update(self._conditional(choice, done))
        return [done[id(root)] for root in roots]

    def _function(self, function: Lambda) -> Expr:
        if id(function) not in self.functions:
            self.functions[id(function)] = rebuild(function, tuple(self.scope(function.results, {})))
        return self.functions[id(function)]

    def _conditional(self, choice: Choice, done: Mapping[int, Expr]) -> dict[int, Expr]:
        """The members of a choice, each a result of the same two functions."""
        operands = [s for s in choice.shared if not isinstance(s, (Var, Literal, Operator, Lambda))]
        branches = [self._branch(choice, operands, k) for k in (1, 2)]
        condition = done[id(choice.members[0].args[0])]
        values = [done[id(s)] for s in operands]
        return {
            id(m): replace(
                call("cond", *branches, condition, *values, static=(k, choice.masked), span=m.span), label=m.label
            )
            for k, m in enumerate(choice.members)
        }

    def _branch(self, choice: Choice, operands: Sequence[Expr], branch: int) -> Lambda:
        params = _named(operands)
        known = dict(zip(map(id, operands), params, strict=True))
        return Lambda(params, tuple(self.scope([m.args[branch] for m in choice.members], known)))


def _named(operands: Sequence[Expr]) -> tuple[Var, ...]:
    """Parameters for operands, by the names that they have in the program."""
    params: dict[str, Var] = {}
    for operand in operands:
        name, k = getattr(operand, "label", "") or "s", 0
        while (unique := name if k == 0 else f"{name}_{k}") in params:
            k += 1
        params[unique] = Var(unique, operand.tensor)
    return tuple(params.values())
