"""Expressions with their functions applied, or renamed: each node once per scope that gives its variables a meaning.

A node is worked on in the outermost scope that has all its variables, so that what two functions share stays one
node, and the work is linear in the result. Nothing recurses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tensorir.ir.build import call, coerced, fresh
from tensorir.ir.nodes import Apply, Call, Expr, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, with_label

Binders = Callable[[Lambda], tuple[Var, ...]]
"""The parameters that a function has in the result."""


@dataclass(eq=False, slots=True)
class _Scope:
    """The values of a function's parameters in its body, and the new nodes of the body by identity."""

    variables: Mapping[Var, Expr]
    outer: _Scope | None = None
    done: dict[int, Expr] = field(default_factory=dict[int, Expr])
    inner: dict[int, _Scope] = field(default_factory=dict[int, "_Scope"])


def rescoped(
    roots: Iterable[Expr], binders: Binders, *, applied: bool, copies: dict[int, list[Expr]] | None = None,
    named: bool = False,
) -> tuple[Expr, ...]:  # fmt: skip
    """Rewrites expressions with new parameters for functions (`binders`), and with `applied` beta-reduces applications.

    An explicit stack visits each node once per scope that binds its variables. `copies` collects for each call, by
    identity, its new nodes: one per scope. With `named`, an argument is labelled with the name of the parameter it
    replaces.
    """
    roots = tuple(roots)
    outermost = _Scope({})
    stack: list[tuple[Expr, _Scope, int]] = [(root, outermost, 0) for root in reversed(roots)]
    while stack:
        node, scope, stage = stack.pop()
        scope = _home(node, scope)
        if id(node) in scope.done:
            continue
        match node:
            case Var():
                scope.done[id(node)] = scope.variables.get(node, node)
            case Lambda(params, results):
                if stage == 0:
                    new_params = binders(node)
                    scope.inner[id(node)] = inner = _Scope(dict(zip(params, new_params, strict=True)), scope)
                    stack += [(node, scope, 1), *((result, inner, 0) for result in reversed(results))]
                else:
                    inner = scope.inner.pop(id(node))
                    scope.done[id(node)] = _function(node, inner)
            case Apply(Lambda(params, (body,)), args) if applied:
                if stage == 0:
                    stack.append((node, scope, 1))
                    stack += [(arg, scope, 0) for arg in reversed(args)]
                elif stage == 1:
                    values = [coerced(_rescoped(a, scope), p.type) for a, p in zip(args, params, strict=True)]
                    if named:
                        values = [_labelled(g, p) for g, p in zip(values, params, strict=True)]
                    scope.inner[id(node)] = inner = _Scope(dict(zip(params, values, strict=True)), scope)
                    stack += [(node, scope, 2), (body, inner, 0)]
                else:
                    result = _rescoped(body, scope.inner.pop(id(node)))
                    scope.done[id(node)] = with_label(result, node.label) if node.label else result
            case _ if stage == 0 and node.children:
                stack.append((node, scope, 1))
                stack += [(child, scope, 0) for child in reversed(node.children)]
            case Apply(Operator(op, types), args) if applied:
                values = [coerced(_rescoped(a, scope), t) for a, t in zip(args, types, strict=True)]
                result = call(op, *values, span=node.span)
                scope.done[id(node)] = with_label(result, node.label) if node.label else result
            case Apply() | Call():
                scope.done[id(node)] = new_params = rebuild(node, tuple([_rescoped(c, scope) for c in node.children]))
                if copies is not None:
                    copies.setdefault(id(node), []).append(new_params)
            case _:
                scope.done[id(node)] = node
    return tuple([_rescoped(root, outermost) for root in roots])


def _labelled(value: Expr, param: Var) -> Expr:
    """The value labelled with a parameter's name; variables get a trivial `subset` to carry the label, if they have
    dims.
    """
    if isinstance(value, Call) and not value.label:
        return with_label(value, param.name)
    dims = value.tensor.dims
    return with_label(call("subset", value, static=(dims,), span=param.span), param.name) if dims else value


def _home(node: Expr, scope: _Scope) -> _Scope:
    """The outermost scope in which all variables of a node have the same meaning, so that its new node is shared."""
    while scope.outer is not None and node.free.isdisjoint(scope.variables):
        scope = scope.outer
    return scope


def _rescoped(node: Expr, scope: _Scope) -> Expr:
    return _home(node, scope).done[id(node)]


def _function(node: Lambda, body_scope: _Scope) -> Lambda:
    """The function with new parameters and results; the same node if none changed."""
    params = tuple([v for v in body_scope.variables.values() if isinstance(v, Var)])
    results = tuple([_rescoped(r, body_scope) for r in node.results])
    if all(a is b for a, b in zip((*params, *results), (*node.params, *node.results), strict=True)):
        return node
    return dataclasses.replace(node, params=params, results=results)


def inlined(
    roots: Iterable[Expr], copies: dict[int, list[Expr]] | None = None, *, named: bool = False
) -> tuple[Expr, ...]:
    """Beta-reduces all applications; functions that folds and loops use stay, with unique parameter names.

    `copies` collects for each call, by identity, its new nodes. With `named`, arguments are labelled with parameters'
    names.
    """
    roots = tuple(roots)
    return rescoped(roots, unique_binders(roots), applied=True, copies=copies, named=named)


def unique_binders(roots: tuple[Expr, ...]) -> Binders:
    """The `binders` that keep a function's parameters at its first occurrence and rename them in copies."""
    taken = {v.name for r in roots for v in r.free}
    taken |= {p.name for node in postorder(*roots) if isinstance(node, Lambda) for p in node.params}
    used: set[str] = set()

    def binders(node: Lambda) -> tuple[Var, ...]:
        params = tuple(dataclasses.replace(p, name=fresh(p.name, taken)) if p.name in used else p for p in node.params)
        used.update(p.name for p in node.params)
        return params

    return binders
