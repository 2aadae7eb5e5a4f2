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
    """The values of the parameters of one function, and the nodes that were made of those that use them."""

    variables: Mapping[Var, Expr]
    outer: _Scope | None = None
    done: dict[int, Expr] = field(default_factory=dict[int, Expr])
    inner: dict[int, _Scope] = field(default_factory=dict[int, "_Scope"])


def rescoped(
    roots: Iterable[Expr], binders: Binders, *, applied: bool, copies: dict[int, list[Expr]] | None = None,
    named: bool = False,
) -> tuple[Expr, ...]:  # fmt: skip
    """The expressions with new parameters of functions, and, with `applied`, applications of functions substituted.

    `copies` takes what became of each call, by identity: one expression for each scope that it is in. With
    `named`, an argument has the name of the parameter that it stands for as its label.
    """
    roots = tuple(roots)
    top = _Scope({})
    stack: list[tuple[Expr, _Scope, int]] = [(root, top, 0) for root in reversed(roots)]
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
                    new = binders(node)
                    scope.inner[id(node)] = inner = _Scope(dict(zip(params, new, strict=True)), scope)
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
                scope.done[id(node)] = new = rebuild(node, tuple([_rescoped(c, scope) for c in node.children]))
                if copies is not None:
                    copies.setdefault(id(node), []).append(new)
            case _:
                scope.done[id(node)] = node
    return tuple([_rescoped(root, top) for root in roots])


def _labelled(value: Expr, param: Var) -> Expr:
    """The value of a parameter with its name as label; a value with a label of its own keeps that."""
    if isinstance(value, Call) and not value.label:
        return with_label(value, param.name)
    dims = value.tensor.dims
    return with_label(call("subset", value, static=(dims,), span=param.span), param.name) if dims else value


def _home(node: Expr, scope: _Scope) -> _Scope:
    """The outermost scope that gives all variables of a node their meaning."""
    while scope.outer is not None and node.free.isdisjoint(scope.variables):
        scope = scope.outer
    return scope


def _rescoped(node: Expr, scope: _Scope) -> Expr:
    return _home(node, scope).done[id(node)]


def _function(node: Lambda, inner: _Scope) -> Lambda:
    params = tuple([v for v in inner.variables.values() if isinstance(v, Var)])
    results = tuple([_rescoped(r, inner) for r in node.results])
    if all(a is b for a, b in zip((*params, *results), (*node.params, *node.results), strict=True)):
        return node
    return dataclasses.replace(node, params=params, results=results)


def inlined(
    roots: Iterable[Expr], copies: dict[int, list[Expr]] | None = None, *, named: bool = False
) -> tuple[Expr, ...]:
    """The expressions without applications of functions; functions that folds use stay, under unique names.

    `copies` takes what became of each call, by identity. With `named`, arguments are labelled as parameters are called.
    """
    roots = tuple(roots)
    return rescoped(roots, unique_binders(roots), applied=True, copies=copies, named=named)


def unique_binders(roots: tuple[Expr, ...]) -> Binders:
    """A function keeps its parameters where it is met first; copies of it get fresh ones."""
    taken = {v.name for r in roots for v in r.free}
    taken |= {p.name for node in postorder(*roots) if isinstance(node, Lambda) for p in node.params}
    used: set[str] = set()

    def binders(node: Lambda) -> tuple[Var, ...]:
        new = tuple(dataclasses.replace(p, name=fresh(p.name, taken)) if p.name in used else p for p in node.params)
        used.update(p.name for p in node.params)
        return new

    return binders
