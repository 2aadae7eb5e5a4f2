"""Evaluation of expressions in any domain: arrays, absence, ranges, costs. It knows scopes and order, not meaning.

`evaluate` visits each distinct node of a scope once, operands first, and hands it to a rule with its operands' values.
Applications of functions open a new scope on an explicit stack, so programs may be as deep as memory allows.

>>> from tensorir.build import call, literal
>>> depth = lambda node, operands, apply: 1 + max(operands, default=0)
>>> evaluate(call("neg", call("plus", literal(1.0), literal(2.0))), {}, depth)
3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tensorir.ir import Apply, Expr, Function, Lambda, Operator, Var

__all__ = ["Applier", "Bound", "Rule", "evaluate"]

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Bound(Generic[V]):
    """A function and the values of the variables around it: what a function operand is to a rule."""

    function: Function
    env: Mapping[Var, V]
    known: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """Values of nodes of its body, by identity."""


Outside = Mapping[int, Sequence[Expr]]
"""By identity, the functions in whose bodies nodes are evaluated where the function stands, and these nodes."""


@dataclass(frozen=True, slots=True)
class Applier(Generic[V]):
    """What a rule applies functions with: a call gives the value of an application."""

    rule: Rule[V]
    outside: Outside

    def __call__(self, function: Bound[V], *values: V) -> V:
        """The value of a function of one result applied to values."""
        (value,) = self.each(function, *values)
        return value

    def each(self, function: Bound[V], *values: V) -> list[V]:
        """The values of all results of a function: what they share is evaluated once."""
        match function.function:
            case Lambda(params, results) as own:
                env = {v: function.env[v] for v in own.free}
                env.update(zip(params, values, strict=True))
                known = dict(function.known)
                return [evaluate(result, env, self.rule, known, self.outside) for result in results]
            case operator:
                return [self.rule(operator, list(values), self)]


Rule = Callable[[Expr, Sequence[Any], Applier[V]], V]


@dataclass(slots=True)
class _Scope(Generic[V]):
    """One expression under evaluation: its stack of nodes, and the values that are known."""

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
    """The value of an expression.

    `rule(node, operands, apply)` gives the value of a literal, of a call, or of an `Operator` applied to operands; a
    function operand arrives as `Bound`, and `apply(bound, *values)` gives the value of its application. `known` has
    the values of nodes, by identity, that need not be visited again; those that are visited are added. What `outside`
    has for a function is evaluated once, however often the function is applied.
    """
    early = outside or {}
    apply = Applier(rule, early)
    scopes = [_Scope(root, env, None, [(root, False)], {} if known is None else known)]
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
        node, ready = scope.stack.pop()
        if id(node) in done:
            continue
        match node:
            case Var():
                done[id(node)] = scope.env[node]
            case Lambda() if id(node) in early:
                if ready:
                    done[id(node)] = Bound(node, scope.env, {id(n): done[id(n)] for n in early[id(node)]})
                else:
                    scope.stack.append((node, True))
                    scope.stack.extend((n, False) for n in early[id(node)] if id(n) not in done)
            case Lambda() | Operator():
                done[id(node)] = Bound(node, scope.env)
            case _ if not ready:
                scope.stack.append((node, True))
                scope.stack.extend((c, False) for c in reversed(node.children) if id(c) not in done)
            case Apply(Lambda(params, (body,)) as function, args):
                inner = {v: scope.env[v] for v in function.free}
                inner.update(zip(params, (done[id(a)] for a in args), strict=True))
                scopes.append(_Scope(body, inner, node, [(body, False)], dict(done[id(function)].known)))
            case Apply(operator, args):
                done[id(node)] = rule(operator, [done[id(a)] for a in args], apply)
            case _:
                done[id(node)] = rule(node, [done[id(c)] for c in node.children], apply)
