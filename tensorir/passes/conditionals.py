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
from tensorir.ir.build import call, coerced, free_name, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Apply, Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, runs, values, with_label, with_values
from tensorir.ir.types import BOOL, Element, Scalar
from tensorir.ir.typing_rules import captured
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold

# Choices are settled inside of each other: in the branch where c holds, c is true.

Facts = Mapping[Expr, bool]
"""Conditions, and the truth value that each has wherever something is used."""
NOTHING: Facts = {}


@dataclass(frozen=True)
class PropagateConditions(Pass):
    """Uses the truth of conditions inside of their branches: where `c` holds, `if c then x else y` is x.

    Only nodes that are used in that branch alone are simplified.

    >>> from tensorir.passes.base import show
    >>> text = '''f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
    ...   out ← if n > 2 then x + (if n > 2 then x else 1.0) else (if n > 2 then 2.0 else x); }'''
    >>> show(PropagateConditions(), text)
    f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← if n > 2 then x + x else x;
    }

    A condition with dims is known at the points where it holds, and in sums over other dims there:

    >>> text = '''f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
    ...   out ← if y > 0.0 then reduce(+, 0.0, J)(if y > 0.0 then x else 0.0) else y; }'''
    >>> show(PropagateConditions(), text)
    f(x: tensor<float, I[0:5], J[0:3]>, y: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← if y > 0.0 then reduce(+, 0.0, J)(x) else y;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        """Forward pass with facts from a backward pass; conditions read by one node only can decide nothing and are
        ignored.
        """
        nodes = list(postorder(*values(fencil.closures)))
        choices = [node for node in nodes if isinstance(node, Call) and node.op == "if" and node.args[0].free]
        conditions = Counter(part for node in choices for part, _ in _known(node.args[0], True))
        uses = Counter(c for node in nodes for c in node.children if c in conditions)
        shared = {c for c in conditions if uses[c] > 1}
        if not shared:
            return fencil
        facts_of = _known_everywhere(nodes, values(fencil.closures), shared)
        done: dict[int, Expr] = {}
        for node in nodes:
            facts = facts_of[id(node)]
            children = tuple(
                done[id(child)] if child not in below or child.tensor.dims else literal(below[child], BOOL, child.span)
                for child, below in zip(node.children, _edges(node, facts, shared), strict=True)
            )
            new_node = _settled(node, facts, children)
            if new_node is None:
                new_node = rebuild(node, children)
            elif node.label and not new_node.label:
                new_node = with_label(new_node, node.label)
            done[id(node)] = new_node
        new_values = (done[id(value)] for value in values(fencil.closures))
        return remade(fencil, with_values(fencil.closures, new_values))


def decides(e: Expr) -> bool:
    """True if an expression is an `if` on one scalar condition that depends on variables."""
    match e:
        case Call("if", (condition, *_)):
            return not condition.tensor.dims and bool(condition.free)
        case _:
            return False


def _known_everywhere(nodes: list[Expr], roots: tuple[Expr, ...], conditions: set[Expr]) -> dict[int, Facts]:
    """The facts that hold at every use of a node, by identity: the intersection over its readers, users before
    operands.
    """
    facts: dict[int, Facts] = {id(root): {} for root in roots}
    for node in reversed(nodes):
        for child, edge in zip(node.children, _edges(node, facts[id(node)], conditions), strict=True):
            earlier = facts.get(id(child))
            facts[id(child)] = edge if earlier is None else {c: t for c, t in earlier.items() if edge.get(c) is t}
    return facts


def _edges(node: Expr, facts: Facts, conditions: set[Expr]) -> tuple[Facts, ...]:
    """The facts that hold where a node reads each operand.

    An `if` adds its condition to its branches. Facts with dims survive operations that compute a point from the same
    point; facts on scalars survive all but checks, which run whether or not a branch is taken.
    """
    scalar_facts = {c: t for c, t in facts.items() if not c.tensor.dims}
    match node:
        case Call("if", (condition, *_)):
            implied = [{c: t for c, t in _known(condition, truth) if c in conditions} for truth in (True, False)]
            return (facts, *({**facts, **t} for t in implied))
        case Call("reduce", (Operator("plus"), _, _), (dim,)):
            facts_along_dim = {c: t for c, t in facts.items() if dim not in c.tensor.dims}
            return (scalar_facts, facts_along_dim, facts_along_dim)
        case Call("add_dim", _, (dim, *_)):
            return ({c: t for c, t in facts.items() if dim not in c.tensor.dims},)
        case Call("assert_", args) | Call("gather", args, (_, "checked")):
            return (NOTHING,) * len(args)  # it may fail, and is computed where no choice takes it, too
        case Call("multiplies", (a, b)) if isinstance(a, Literal) or isinstance(b, Literal):
            return (facts, facts)
        case Call(op, args):
            return ((facts if _pointwise(op) else scalar_facts),) * len(args)
        case _:
            return (scalar_facts,) * len(node.children)


def _settled(node: Expr, facts: Facts, new_operands: tuple[Expr, ...]) -> Expr | None:
    """An `if` whose condition is decided by the facts, as its branch; `and`/`or` with a decided operand, simplified.
    None for other nodes.
    """
    match node:
        case Call("if", (condition, _, _)) if (truth := _truth(condition, facts)) is not None:
            return coerced(new_operands[1 if truth else 2], node.tensor)
        case Call("and" | "or" as op, (a, b)) if a in facts or b in facts:
            truth, other_operand = (facts[a], new_operands[1]) if a in facts else (facts[b], new_operands[0])
            deciding = truth is (op == "or")
            return coerced(literal(truth, BOOL, node.span) if deciding else other_operand, node.tensor)
        case _:
            return None


def _truth(condition: Expr, facts: Facts) -> bool | None:
    """The truth value of a condition that the facts decide through `not`, `and` and `or`; None if they do not."""
    if condition in facts:
        return facts[condition]
    match condition:
        case Call("not", (x,)):
            truth = _truth(x, facts)
            return None if truth is None else not truth
        case Call("and" | "or" as op, parts):
            truths = [_truth(x, facts) for x in parts]
            deciding = op == "or"
            return deciding if deciding in truths else None if None in truths else not deciding
        case _:
            return None


def _pointwise(op: str) -> bool:
    """True if a builtin computes each point from the same point and has a bounded derivative.

    With an unbounded one (sqrt at 0) a condition with dims stays, since it keeps 0 × ∞ out of gradients.
    """
    builtin = TABLE[op]
    same_point = builtin.elementwise or op in ("make_tuple", "tuple_get", "subset")
    return same_point and builtin.slope != "unbounded"


def _known(condition: Expr, truth: bool) -> Iterator[tuple[Expr, bool]]:
    """A condition with a truth value, and all conditions that follow: `a and b` true gives a and b true, and so on."""

    def consequences(fact: tuple[Expr, bool]) -> list[tuple[Expr, bool]]:
        """The facts that follow directly from a fact, (condition, truth value)."""
        match fact:
            case Call("not", (x,)), holds:
                return [(x, not holds)]
            case Call("and" | "or" as op, parts), holds if holds == (op == "and"):
                return [(x, holds) for x in reversed(parts)]
            case _:
                return []

    return nodes.occurrences([(condition, truth)], consequences)


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
    """The program with deep nests of conditionals put side by side; None if no nest is deep and no branch is traced
    often.

    `facts` is the analysis of absent values, `choices` the conditionals by identity of their `if`. Scopes that print
    stay as they are, for the order of the lines.

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
    distinct_choices = list({id(c): c for c in choices.values()}.values())
    nested = _nested(distinct_choices)
    if not nested:
        return None
    in_branches = frozenset[int]().union(*(part for c in distinct_choices for part in c.branches))
    may_be_absent = any(a.absent for a in facts.accesses.values())
    flattener = _Flattening(facts, frozenset(choices), in_branches, nested, _printing(fencil), may_be_absent)
    for node in postorder(*values(fencil.closures)):
        if isinstance(node, Lambda):
            flattener.functions[id(node)] = flattener.function(node)
    new_values = [value for run in runs(fencil.closures) for value in flattener.scope(values(run))]
    accesses = {id(e): facts.accesses[id(old)] for old, e in flattener.became if id(old) in facts.accesses}
    return Flat(
        replace(fencil, closures=with_values(fencil.closures, new_values)),
        replace(facts, accesses={**facts.accesses, **accesses}),
        Settled(frozenset(flattener.before), frozenset(flattener.guarded), frozenset(flattener.masked)),
    )  # fmt: skip


def _nested(choices: Sequence[Choice]) -> set[int]:
    """The `if`s of choices that are nested deeper than `DEEPEST` or would be traced more than `OFTEN` times, by
    identity.

    A choice is traced once per path: the sum over the choices right around it.
    """
    numbers = {id(m): number for number, c in enumerate(choices) for m in c.members}
    choices_in_branches = [[{numbers[n] for n in branch & numbers.keys()} for branch in c.branches] for c in choices]
    enclosing: list[list[int]] = [[] for _ in choices]
    for number, branches in enumerate(choices_in_branches):
        for branch in branches:
            for inner in branch.difference(*(part for i in branch for part in choices_in_branches[i])):
                enclosing[inner].append(number)
    traced, depth = [1] * len(choices), [1] * len(choices)
    for number in TopologicalSorter(dict(enumerate(enclosing))).static_order():
        if enclosing[number]:
            traced[number] = sum(traced[inner] for inner in enclosing[number])
            depth[number] = 1 + max(depth[inner] for inner in enclosing[number])
    excessive = [c for c, t, d in zip(choices, traced, depth, strict=True) if t > OFTEN or d > DEEPEST]
    return {id(m) for c in excessive for m in c.members}


def _printing(fencil: Fencil) -> set[int]:
    """The calls of `print`, and functions that contain one, by identity."""
    printing: set[int] = set()
    for node in postorder(*values(fencil.closures)):
        body = scope(*node.results) if isinstance(node, Lambda) else ()
        if (isinstance(node, Call) and node.op == "print") or any(id(n) in printing for n in body):
            printing.add(id(node))
    return printing


@dataclass(frozen=True, slots=True)
class _Plan:
    """The decisions on the nodes of one scope; sets hold identities."""

    needs: ControlDependence
    lazy: set[int]
    """Nodes that are evaluated only if some branch that needs them is taken."""
    guarded: set[int]
    """The lazy nodes that become a choice of their own; the others are evaluated inside of their only reader."""
    masked: set[int]
    """The guarded nodes that are harmless, so that both branches may be computed."""
    order: list[int]
    """The order of evaluation: nodes by identity and, as ~place, the condition that a place (a branch) is taken."""


def _plan(
    roots: Sequence[Expr], inside: Mapping[int, Expr], conditional: Set[int], choices: Set[int], facts: AbsenceAnalysis
) -> _Plan:
    """Decides for a scope which nodes are evaluated under a condition of their own.

    Cycles (a node's condition needs another guarded node, whose condition needs it) are broken by evaluating one of the
    two in each of its readers instead.
    """
    needs = control_dependence(roots, choices, bodies=False) if conditional else ControlDependence()
    lazy = {
        key
        for key, n in inside.items()
        if key in conditional and isinstance(n, (Apply, Call)) and not needs.certain(key)
    }
    below_of = {key: [id(c) for c in operands(n)] for key, n in inside.items()}
    readers = list(TopologicalSorter(below_of).static_order())[::-1]
    home_of = _homes(readers, inside, lazy, choices)
    guarded_group: defaultdict[int, list[Expr]] = defaultdict(list)
    for key, home in home_of.items():
        guarded_group[home].append(inside[key])
    harmless = {home for home, nodes in guarded_group.items() if _harmless(nodes)}
    silent = {home for home in harmless if not any(acts(n, facts) for n in guarded_group[home])}
    lazy -= {key for key, home in home_of.items() if home in silent}
    guarded = guarded_group.keys() & lazy
    while True:
        condition_order = _taken(needs, {p for key in guarded for p in needs.of[key]})
        dependencies = {
            key: [*below, *(~p for p in (needs.of[key] if key in guarded else ()))] for key, below in below_of.items()
        }
        try:
            order = list(TopologicalSorter({**dependencies, **condition_order}).static_order())
        except CycleError as cycle:
            # whether one is needed depends on the other and the other way round: one is made in each that reads it
            guarded.remove(next(key for key in cycle.args[1] if key in guarded))
        else:
            return _Plan(needs, lazy, guarded, harmless & guarded, order)


def _homes(readers: Sequence[int], inside: Mapping[int, Expr], lazy: Set[int], choices: Set[int]) -> dict[int, int]:
    """The node in whose evaluation each lazy node takes part: its only reader's home, or itself if several read it, or
    if it is a branch or condition.

    `readers` lists the nodes with users before operands.
    """
    homes: dict[int, int] = {}
    readers_of: defaultdict[int, set[int]] = defaultdict(set)
    for key in readers:
        if key in lazy:
            (reader, *other_readers) = readers_of[key]
            homes[key] = key if other_readers or reader == BORDER else reader
        for child in operands(inside[key]):
            readers_of[id(child)].add(BORDER if key in choices else homes.get(key, BORDER))
    return homes


BORDER = 0
"""No identity: what stands here is evaluated apart from what reads it."""


def _harmless(nodes: Sequence[Expr]) -> bool:
    """True if nodes are cheap, terminate, and put no NaN into gradients, so that they may be computed needlessly."""
    return all(isinstance(n, Call) and _finite(n) for n in nodes) and sum(map(operations, nodes)) < WORTH


def _finite(node: Call) -> bool:
    """True if the derivative of a call is bounded, or it has none and no effect."""
    match node:
        case Call("multiplies", args) if any(isinstance(a, Literal) and math.isfinite(a.value) for a in args):
            return True
        case Call(op):
            integer_result = not any(s.is_float for s in node.tensor.leaves)
            finite = TABLE[op].slope != "unbounded" and op != "print"
            return finite or (TABLE[op].elementwise and integer_result)


def _taken(needs: ControlDependence, places: Iterable[int]) -> dict[int, list[int]]:
    """The operands of the expression "this place is taken", by ~place, for `places` and all places around them: the
    identity of the `if`'s condition, and the enclosing places.
    """
    conditions: dict[int, list[int]] = {}
    stack = list(places)
    while stack:
        place = stack.pop()
        if ~place in conditions:
            continue
        enclosing, condition, _ = needs.taken(place)
        enclosing_places = [] if needs.always(enclosing) else list(enclosing)
        conditions[~place] = [id(condition), *(~p for p in enclosing_places)]
        stack += enclosing_places
    return conditions


@dataclass(slots=True)
class _Flattening:
    """The state of if-conversion over all scopes of a program; sets hold identities.

    `became` pairs old with new nodes; `before`, `guarded` and `masked` hold new nodes as `Settled` does.
    """

    facts: AbsenceAnalysis
    choices: frozenset[int]
    conditional: frozenset[int]
    """Nodes inside of branches."""
    nested: set[int]
    printing: set[int]
    absent: bool
    """Whether a condition may be absent."""
    functions: dict[int, Expr] = field(default_factory=dict[int, Expr])
    known: dict[tuple[object, ...], Expr] = field(default_factory=dict[tuple[object, ...], Expr])
    """New nodes by the node and operands that they were built from, so that sharing is preserved across scopes."""
    became: list[tuple[Expr, Expr]] = field(default_factory=list[tuple[Expr, Expr]])
    before: set[int] = field(default_factory=set[int])
    guarded: set[int] = field(default_factory=set[int])
    masked: set[int] = field(default_factory=set[int])

    def scope(self, roots: Sequence[Expr]) -> list[Expr]:
        """The new roots of a scope: guarded nodes become `if taken then e else 0`; a scope without deep nests is only
        rebuilt.

        Records the new nodes in `before`, `guarded` and `masked`.
        """
        nodes_by_id = {id(n): n for n in scope(*roots)}
        printing = self.conditional & self.printing & nodes_by_id.keys()
        flattens = not self.nested.isdisjoint(nodes_by_id) and not printing
        plan = _plan(roots, nodes_by_id, self.conditional if flattens else set(), self.choices, self.facts)
        new_nodes: dict[int, Expr] = {}
        for key in plan.order:
            if key < 0:
                new_nodes[key] = self._taken(plan, ~key, new_nodes)
                continue
            node = nodes_by_id[key]
            is_certain = flattens and isinstance(node, (Apply, Call)) and key not in plan.lazy
            new_node = self._again(node, new_nodes, id(roots[0]) if is_certain and key in self.conditional else 0)
            if key in plan.guarded:
                new_node = self._guarded(self._any(plan.needs.of[key], new_nodes), new_node)
                if key in plan.masked:
                    self.masked.add(id(new_node))
            elif is_certain:
                self.before.add(id(new_node))
            new_nodes[key] = new_node
        return [new_nodes[id(root)] for root in roots]

    def function(self, node: Lambda) -> Expr:
        """A function with its results if-converted; the same node if nothing changed."""
        results = tuple(self.scope(node.results))
        same = all(a is b for a, b in zip(node.results, results, strict=True))
        return node if same else self.rebuilt(node, results)

    def _again(self, node: Expr, new_nodes: Mapping[int, Expr], scope_id: int) -> Expr:
        """The node on its new operands. A nonzero `scope_id` gives this scope a copy of its own, because other scopes
        evaluate the node under a condition.
        """
        if isinstance(node, Lambda):
            return self.functions[id(node)]
        children = tuple(new_nodes[id(c)] for c in node.children)
        if not scope_id and all(a is b for a, b in zip(node.children, children, strict=True)):
            return node
        return self.rebuilt(node, children, scope_id)

    def rebuilt(self, node: Expr, children: tuple[Expr, ...], scope_id: int = 0) -> Expr:
        """The node with other operands, cached by both and the scope; the pair is recorded in `became`."""
        key = (id(node), scope_id, *map(id, children))
        if key not in self.known:
            self.known[key] = replace(rebuild(node, children))
            self.became.append((node, self.known[key]))
        return self.known[key]

    def _call(self, op: str, *args: Expr) -> Expr:
        """A call of a builtin, cached by its operands."""
        key = (op, *map(id, args))
        if key not in self.known:
            self.known[key] = call(op, *args)
        return self.known[key]

    def _taken(self, plan: _Plan, place: int, new_nodes: Mapping[int, Expr]) -> Expr:
        """The condition that a branch is taken: its `if`'s condition or the negation, and that one of the enclosing
        places is.

        A condition that is itself lazy is guarded by these; absent conditions count as false.
        """
        enclosing, condition, is_first_branch = plan.needs.taken(place)
        truth = new_nodes[id(condition)]
        if self.absent:
            truth = self._call("if", self._call("can_deref", truth), truth, FALSE)
        truth = truth if is_first_branch else self._call("not", truth)
        if plan.needs.always(enclosing):
            return truth
        enclosing_taken = self._any(enclosing, new_nodes)
        is_lazy = id(condition) in plan.lazy - plan.guarded
        return self._guarded(enclosing_taken, truth) if is_lazy else self._call("and", enclosing_taken, truth)

    def _any(self, places: PlaceSet, done: Mapping[int, Expr]) -> Expr:
        """True if any place is taken."""
        return reduce(lambda a, b: self._call("or", a, b), [done[~p] for p in sorted(places)])

    def _guarded(self, is_taken: Expr, value: Expr) -> Expr:
        """`if is_taken then value else 0`, cached; the zero is never read."""
        key = ("guarded", id(is_taken), id(value))
        if key not in self.known:
            self.known[key] = call("if", is_taken, value, _zero(value.tensor.element))
            self.guarded.add(id(self.known[key]))
            self.before.add(id(self.known[key]))
        return self.known[key]


FALSE = literal(False)


def _zero(element: Element) -> Expr:
    return literal(0, element) if isinstance(element, Scalar) else call("make_tuple", *map(_zero, element.members))


# Selections by one truth value become conditionals: `if c then f(x) else g(x)` computes the branch that is taken.


@dataclass(frozen=True)
class Conditionals(Pass):
    """Turns `if` on one scalar condition into `cond` if a branch computes much, checks or prints: the reverse of
    if-conversion.

    Values that branches share with other code are computed before and passed to their functions. Choices by one
    condition, needed in the same places, become one `cond`; deep nests are put side by side first.

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
        """Builds a `cond` for each group of choices that is worth it."""
        fencil, weights, _ = self._weighed(fencil)
        choices = {id(m): w.choice for w in weights if w.choice for m in w.members}
        if not choices:
            return fencil
        return remade(fencil, with_values(fencil.closures, _Regions(choices).scope(values(fencil.closures), {})))

    def _weighed(self, fencil: Fencil) -> tuple[Fencil, list[Weighed], bool]:
        """The program after if-conversion of deep nests, its choices with their weights, and whether a nest was
        converted.
        """
        facts = analyse_absence(fencil, self.tables, self.full)
        weights = weighed(fencil, facts)
        choices = {id(m): w.choice for w in weights if w.choice for m in w.members}
        converted = if_converted(fencil, facts, choices)
        if converted is None:
            return fencil, weights, False
        return converted.fencil, weighed(converted.fencil, converted.facts, converted.settled), True

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Conditionals"
        return (
            Threshold("WORTH", WORTH, "operations of both branches", where),
            Threshold("PER_ELEMENT", PER_ELEMENT, "operations of both branches per element of the result", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        """A decision for each group of choices: kept as `cond`, masked, or computed on both branches."""
        limit = self.thresholds()[0]
        program, weights, converted_nests = self._weighed(before)
        places = Places(program)
        rows: list[Decision] = []
        for weight in weights:
            first_if, *other_ifs = weight.members
            selections = f"{1 + len(other_ifs)} selections" if other_ifs else "selection"
            if weight.choice is None:
                what, why = (f"{selections}: both branches computed", "a conditional would cost more than it saves")
            elif weight.choice.masked:
                what, why = (
                    f"{selections} if-converted",
                    "the first branch is computed in any case, its checks are masked",
                )
            else:
                worthwhile = weight.operations >= weight.needed
                what = f"{selections} kept as one conditional"
                why = self.reason() if worthwhile else "a branch checks or prints"
                what += " (if-converted from a nest)" if converted_nests else ""
            needed = replace(limit, limit=weight.needed)
            rows.append(
                Decision(
                    self.name(), what, places.of(first_if), weight.choice is not None, why,
                    weight.operations, needed, span=first_if.span,
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
    """Builds `cond` calls; nodes evaluated inside of a branch are built anew for its function."""

    choices: Mapping[int, Choice]
    """By the identity of each `if`."""
    functions: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def scope(
        self, roots: Sequence[Expr], given_nodes: Mapping[int, Expr], varying: frozenset[Var] | None = None
    ) -> list[Expr]:
        """The new roots of one scope; nodes in `given_nodes` (by identity) are replaced instead of computed.

        `varying`: parameters of which values that are passed to the functions of branches are computed; others are
        computed in these, and not passed. None if all are passed.

        An explicit stack walks it, and enters an `if` that becomes `cond` only through its condition and shared values.
        """
        new_nodes = dict(given_nodes)
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            node, inputs_done = stack.pop()
            if id(node) in new_nodes:
                continue
            choice = self.choices.get(id(node))
            match node:
                case Var() | Literal() | Operator():
                    new_nodes[id(node)] = node
                case Lambda():
                    new_nodes[id(node)] = self._function(node)
                case _ if not inputs_done:
                    inputs = node.children if choice is None else (choice.members[0].args[0], *choice.shared)
                    stack.append((node, True))
                    stack.extend((n, False) for n in reversed(inputs) if id(n) not in new_nodes)
                case Call("reduce" | "scan", (Lambda() as function, *_), (*_, dim)) if choice is None:
                    new_function, *arguments = [new_nodes[id(c)] for c in node.children]
                    if captured(new_function, str(dim)):
                        # a value with the folded dim is captured where that is lost without any parameter
                        new_function = self._rebuilt(function, frozenset(function.params))
                    new_nodes[id(node)] = rebuild(node, (new_function, *arguments))
                case _ if choice is None:
                    new_nodes[id(node)] = rebuild(node, tuple(new_nodes[id(c)] for c in node.children))
                case _:
                    new_nodes.update(self._conditional(choice, new_nodes, varying))
        return [new_nodes[id(root)] for root in roots]

    def _function(self, function: Lambda) -> Expr:
        if id(function) not in self.functions:
            self.functions[id(function)] = self._rebuilt(function)
        return self.functions[id(function)]

    def _rebuilt(self, function: Lambda, varying: frozenset[Var] | None = None) -> Expr:
        return rebuild(function, tuple(self.scope(function.results, {}, varying)))

    def _conditional(
        self, choice: Choice, new_nodes: Mapping[int, Expr], varying: frozenset[Var] | None
    ) -> dict[int, Expr]:
        """The `cond` calls for the members of a choice, by identity: one result each of the same two functions."""
        operands = [s for s in choice.shared if not isinstance(s, (Var, Literal, Operator, Lambda))]
        if varying is not None:
            operands = [s for s in operands if not varying.isdisjoint(s.free)]
        branches = [self._branch(choice, operands, k, varying) for k in (1, 2)]
        condition = new_nodes[id(choice.members[0].args[0])]
        values = [new_nodes[id(s)] for s in operands]
        return {
            id(m): replace(
                call("cond", *branches, condition, *values, static=(k, choice.masked), span=m.span), label=m.label
            )
            for k, m in enumerate(choice.members)
        }

    def _branch(self, choice: Choice, operands: Sequence[Expr], branch: int, varying: frozenset[Var] | None) -> Lambda:
        params = _named(operands, {v.name for m in choice.members for v in m.args[branch].free})
        known = dict(zip(map(id, operands), params, strict=True))
        return Lambda(params, tuple(self.scope([m.args[branch] for m in choice.members], known, varying)))


def _named(operands: Sequence[Expr], taken: set[str]) -> tuple[Var, ...]:
    """Parameters for operands, by their labels; `taken` has the names of variables that the function reads besides."""
    names = [free_name(getattr(operand, "label", "") or "s", taken) for operand in operands]
    return tuple(Var(name, operand.tensor) for name, operand in zip(names, operands, strict=True))
