"""Walks over expressions: traversal, rewriting, and evaluation in any domain, linear in distinct nodes.

>>> from tensorir.ir.nodes import Call, Literal
>>> from tensorir.ir.types import FLOAT64
>>> e = Literal(1.0, FLOAT64)
>>> for _ in range(60):
...     e = Call("plus", (e, e))                 # 2**60 paths, 61 nodes
>>> sum(1 for _ in postorder(e))
61

All are iterative: programs may be as deep as memory allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Function, Lambda, Operator, Var


def postorder(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node (by identity) below the roots, children before parents, bodies of functions included."""
    return _postorder(roots, set())


def _postorder(roots: tuple[Expr, ...], done: set[int]) -> Iterator[Expr]:
    """`postorder` that skips nodes whose identity is in `done`, and adds those that it yields."""
    stack: list[Expr | None] = [*reversed(roots)]
    opened: list[Expr] = []
    while stack:
        node = stack.pop()
        if node is None:  # the children of the node that was opened last are done
            yield opened.pop()
        elif id(node) not in done:
            done.add(id(node))
            children = node.children
            if children:
                opened.append(node)
                stack.append(None)
                stack += children[::-1]
            else:
                yield node


def use_counts(*roots: Expr) -> dict[int, int]:
    """The number of edges to each node, by identity; being a root counts as one."""
    counts = {id(root): 1 for root in roots}
    for node in postorder(*roots):
        for child in node.children:
            counts[id(child)] = counts.get(id(child), 0) + 1
    return counts


def rebuild(node: Expr, children: tuple[Expr, ...]) -> Expr:
    """The node with other children; the same object if they are the same."""
    if all(a is b for a, b in zip(node.children, children, strict=True)):
        return node
    match node:
        case Lambda():
            return dataclasses.replace(node, results=children)
        case Apply():
            function, *args = children
            assert not isinstance(function, (Apply, Call, Var)) and not hasattr(function, "value")
            return dataclasses.replace(node, function=function, args=tuple(args))  # type: ignore[arg-type]
        case Call():
            return dataclasses.replace(node, args=children)
        case _:
            return node


def rewrite(root: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Bottom up, each distinct node once: `rule` gets a node whose children are done and returns its replacement.

    None means unchanged. What a rule returns is not visited again; sharing is kept.
    """
    return rewrite_all((root,), rule)[0]


def rewrite_all(
    roots: Iterable[Expr], rule: Callable[[Expr], Expr | None], unchanged: dict[int, Expr] | None = None
) -> tuple[Expr, ...]:
    """`rewrite` of several expressions that may share nodes.

    `unchanged` has nodes, by identity, below which the rule is known to change nothing; they are skipped, and those
    found now are added.
    """
    roots = tuple(roots)
    new_nodes: dict[int, Expr] = {} if unchanged is None else dict(unchanged)
    for node in _postorder(roots, set(new_nodes)):
        rebuilt = rebuild(node, tuple(new_nodes[id(child)] for child in node.children))
        replaced = rule(rebuilt)
        if replaced is None:
            new_nodes[id(node)] = rebuilt
        else:
            new_nodes[id(node)] = with_label(replaced, node.label) if node.label and not replaced.label else replaced
        if unchanged is not None and new_nodes[id(node)] is node:
            unchanged[id(node)] = node
    return tuple(new_nodes[id(root)] for root in roots)


def rewrite_nodes(roots: Iterable[Expr], rule: Callable[[Expr, Expr], Expr]) -> tuple[Expr, ...]:
    """Rewrites bottom-up: `rule(old node, node with new children)` gives the new node; each distinct node is visited
    once.
    """
    roots = tuple(roots)
    new_nodes: dict[int, Expr] = {}
    for node in postorder(*roots):
        new_nodes[id(node)] = rule(node, rebuild(node, tuple(new_nodes[id(child)] for child in node.children)))
    return tuple(new_nodes[id(root)] for root in roots)


def rewrite_fencil(fencil: Fencil, rule: Callable[[Expr], Expr | None]) -> Fencil:
    """`rewrite` of the value of every closure."""
    return dataclasses.replace(
        fencil, closures=with_values(fencil.closures, rewrite_all(values(fencil.closures), rule))
    )


def values(closures: Iterable[Closure]) -> tuple[Expr, ...]:
    """The expressions of closures."""
    return tuple(c.value for c in closures)


def with_values(closures: Iterable[Closure], new: Iterable[Expr]) -> tuple[Closure, ...]:
    """The closures with other expressions."""
    return tuple(
        c if value is c.value else dataclasses.replace(c, value=value) for c, value in zip(closures, new, strict=True)
    )


def runs(closures: Iterable[Closure]) -> list[list[Closure]]:
    """Splits closures into runs in which none reads what an earlier one wrote, so that a variable has one value in a
    run.
    """
    runs: list[list[Closure]] = [[]]
    written: set[Var] = set()
    for c in closures:
        if not written.isdisjoint(c.value.free):
            runs.append([])
            written.clear()
        runs[-1].append(c)
        written.add(c.output)
    return runs


def substitute(root: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with free variables replaced; names must be unique, so that nothing is captured."""
    return substitute_all((root,), values)[0]


def substitute_all(roots: tuple[Expr, ...], values: Mapping[Var, Expr]) -> tuple[Expr, ...]:
    """`substitute` in several expressions that may share nodes; subtrees without the variables are kept."""
    if all(root.free.isdisjoint(values) for root in roots):
        return roots
    new_nodes: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False) for root in roots]
    while stack:
        node, children_done = stack.pop()
        if id(node) in new_nodes:
            continue
        if node.free.isdisjoint(values):
            new_nodes[id(node)] = node
        elif isinstance(node, Var):
            new_nodes[id(node)] = values[node]
        elif children_done:
            new_nodes[id(node)] = rebuild(node, tuple(new_nodes[id(child)] for child in node.children))
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in node.children if id(child) not in new_nodes)
    return tuple(new_nodes[id(root)] for root in roots)


def rename_bound(function: Lambda, names: Mapping[str, str]) -> Lambda:
    """The function with parameters renamed by `names`; others stay."""
    params = tuple(dataclasses.replace(p, name=names.get(p.name, p.name)) for p in function.params)
    results = substitute_all(function.results, dict(zip(function.params, params, strict=True)))
    return dataclasses.replace(function, params=params, results=results)


def with_label(node: Expr, label: str) -> Expr:
    """The node under a name, as `let` gives it; variables have their own and stay."""
    return node if isinstance(node, Var) or node.label == label else dataclasses.replace(node, label=label)


def binders(fencil: Fencil) -> Iterable[Var]:
    """Every variable that the fencil or a function in it declares."""
    yield from fencil.params
    for node in postorder(*(c.value for c in fencil.closures)):
        if isinstance(node, Lambda):
            yield from node.params


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Bound(Generic[V]):
    """A closure in the sense of interpreters: a function with the values of its free variables."""

    function: Function
    env: Mapping[Var, V]
    known: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Values of nodes of the body that were evaluated outside of it, by identity."""


Outside = Mapping[int, Sequence[Expr]]
"""By identity, the functions in whose bodies nodes are evaluated where the function stands, and these nodes."""


@dataclass(frozen=True, slots=True)
class Applier(Generic[V]):
    """The function by which rules apply functions: a call gives the value of an application."""

    rule: Rule[V]
    outside: Outside

    def __call__(self, function: Bound[V], *values: V) -> V:
        """The value of a function of one result applied to values."""
        (value,) = self.each(function, *values)
        return value

    def each(self, function: Bound[V], *values: V) -> list[V]:
        """The values of all results of a function; nodes that they share are evaluated once."""
        match function.function:
            case Lambda(params, results) as body:
                env = {v: function.env[v] for v in body.free}
                env.update(zip(params, values, strict=True))
                values_by_id = dict(function.known)
                return [evaluate(result, env, self.rule, values_by_id, self.outside) for result in results]
            case operator:
                return [self.rule(operator, list(values), self)]


Rule = Callable[[Expr, Sequence[Any], Applier[V]], V]


@dataclass(slots=True)
class _Binding(Generic[V]):
    """One scope under evaluation: an expression, its environment, the stack of nodes, and the values found."""

    root: Expr
    env: Mapping[Var, V]
    waiting: Expr | None
    """The application in the scope outside that this scope is the body of."""
    stack: list[tuple[Expr, bool]]
    known: dict[int, Any]


def evaluate(
    root: Expr, env: Mapping[Var, V], rule: Rule[V], known: dict[int, Any] | None = None,
    outside: Outside | None = None,
) -> V:  # fmt: skip
    """Evaluates an expression in any domain: arrays, absence, ranges, costs. It handles scopes and order, the rule the
    meaning.

    Each distinct node of a scope is visited once, operands first; applications open a scope on an explicit stack.

    >>> from tensorir.ir.build import call, literal
    >>> depth = lambda node, operands, apply: 1 + max(operands, default=0)
    >>> evaluate(call("neg", call("plus", literal(1.0), literal(2.0))), {}, depth)
    3

    `rule(node, operands, apply)` gives the value of a literal, a call, or an `Operator` applied to operands; a function
    operand is passed as `Bound`, and `apply(bound, *values)` applies it. `known` has values of nodes by identity, and
    is extended. Nodes that `outside` lists for a function are evaluated once where it stands, and not in each
    application.
    """
    hoisted = outside or {}
    apply = Applier(rule, hoisted)
    scopes = [_Binding(root, env, None, [(root, False)], {} if known is None else known)]
    while True:
        scope = scopes[-1]
        done = scope.known
        if not scope.stack:
            scopes.pop()
            value = done[id(scope.root)]
            if not scopes:
                return value
            scopes[-1].known[id(scope.waiting)] = value
            continue
        node, operands_done = scope.stack.pop()
        if id(node) in done:
            continue
        match node:
            case Var():
                done[id(node)] = scope.env[node]
            case Lambda() if id(node) in hoisted:
                if operands_done:
                    done[id(node)] = Bound(node, scope.env, {id(n): done[id(n)] for n in hoisted[id(node)]})
                else:
                    scope.stack.append((node, True))
                    scope.stack.extend((n, False) for n in hoisted[id(node)] if id(n) not in done)
            case Lambda() | Operator():
                done[id(node)] = Bound(node, scope.env)
            case _ if not operands_done:
                scope.stack.append((node, True))
                scope.stack.extend((c, False) for c in reversed(node.children) if id(c) not in done)
            case Apply(Lambda(params, (body,)) as function, args):
                inner_env = {v: scope.env[v] for v in function.free}
                inner_env.update(zip(params, (done[id(a)] for a in args), strict=True))
                scopes.append(_Binding(body, inner_env, node, [(body, False)], dict(done[id(function)].known)))
            case Apply(operator, args):
                done[id(node)] = rule(operator, [done[id(a)] for a in args], apply)
            case _:
                done[id(node)] = rule(node, [done[id(c)] for c in node.children], apply)
