"""Equal expressions become one node, which is computed once and prints as a `let`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorir.ir.nodes import Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, rebuild, values, with_label, with_values
from tensorir.ir.substitution import rescoped
from tensorir.passes.base import Pass, remade

__all__ = ["Cse", "shared"]


@dataclass(frozen=True)
class Cse(Pass):
    """Common subexpressions: one node for all that is equal, names of parameters of functions aside.

    >>> from tensorir.passes.show import show
    >>> show(Cse(), "cos(x) + cos(x)", x={"I": (0, 5)})
    let t1 = cos(x); t1 + t1
    """

    def run(self, fencil: Fencil) -> Fencil:
        return remade(fencil, with_values(fencil.closures, shared(values(fencil.closures))))


def shared(roots: Iterable[Expr]) -> tuple[Expr, ...]:
    """The expressions with one node for each value.

    Functions that differ in the names of their parameters only are equal too: for the comparison they are named by
    the height of the function, so that a function never has the names of one inside of it.
    """
    roots = tuple(roots)
    height = _heights(roots)
    if not height:
        return _merged(roots)
    original: dict[int, Lambda] = {}
    kept: list[tuple[Var, ...]] = []

    def canonical(node: Lambda) -> tuple[Var, ...]:
        # a blank is in no name that a program can have
        params = tuple(dataclasses.replace(p, name=f" {height[id(node)]} {k}") for k, p in enumerate(node.params))
        kept.append(params)
        original[id(params[0])] = node
        return params

    def named_again(node: Lambda) -> tuple[Var, ...]:
        return original[id(node.params[0])].params

    merged = _merged(rescoped(roots, canonical, applied=False))
    result = rescoped(merged, named_again, applied=False)
    return tuple(old if old == new and _same_size(old, new) else new for old, new in zip(roots, result, strict=True))


def _heights(roots: tuple[Expr, ...]) -> dict[int, int]:
    """How many functions are inside of each other in each function, itself included."""
    inside: dict[int, int] = {}
    found: dict[int, int] = {}
    for node in postorder(*roots):
        inside[id(node)] = max((inside[id(c)] for c in node.children), default=0) + isinstance(node, Lambda)
        if isinstance(node, Lambda):
            found[id(node)] = inside[id(node)]
    return found


def _same_size(a: Expr, b: Expr) -> bool:
    return sum(1 for _ in postorder(a)) == sum(1 for _ in postorder(b))


def _merged(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """One node for every structure; it has the first label that one of them had."""
    number: dict[int, int] = {}
    numbers: dict[Any, int] = {}
    label: dict[int, str] = {}
    for node in postorder(*roots):
        key = (type(node), node.own(), tuple([number[id(c)] for c in node.children]))
        n = number[id(node)] = numbers.setdefault(key, len(numbers))
        if node.label:
            label.setdefault(n, node.label)
    made: dict[int, Expr] = {}
    for node in postorder(*roots):
        n = number[id(node)]
        if n not in made:
            new = rebuild(node, tuple([made[number[id(c)]] for c in node.children]))
            made[n] = with_label(new, label[n]) if n in label else new
    return tuple([made[number[id(r)]] for r in roots])
