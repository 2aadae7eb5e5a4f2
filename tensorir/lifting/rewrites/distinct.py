"""A name per thing: dims that share a name without being one dim get names of their own.

Dims are one dim where an expression needs them to be: those of operands by whose names it puts these together, of a
variable wherever it is used, of a function and of its body. A reduction over `k` and another one over `k` are two, and
so are the axis that a read selects from and one of the same name that its index has. What no variable is in, such as
coordinates, belongs to where it is used.

>>> from tensorir.text import parse
>>> x = "A: tensor<float, k[0:3]>, t: tensor<int, k[0:3]>"
>>> f = parse(f"f({x}, B: tensor<float, k[0:3]>) {{ B ← gather(k, clamp)(A, t); }}")
>>> print(with_distinct_names(f))
f(A: tensor<float, k_1[0:3]>, t: tensor<int, k[0:3]>, B: tensor<float, k[0:3]>) {
  B ← gather(k_1, clamp)(A, t);
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from tensorir.ir.build import closure, fencil
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import FunctionType
from tensorir.lifting.rewrites.naming import dims_under, node_under, own_names, under_names, variable_under

__all__ = ["with_distinct_names"]

Slot = tuple[Hashable, str]
"""A place where a name stands: an expression, or what an expression takes from its operands, and the name there."""


def with_distinct_names(f: Fencil) -> Fencil:
    """The fencil with names such that what has one name is one dim."""
    every = list(postorder(*values(f.closures)))
    nodes = [e for e in every if e.free]
    same = _Same()
    for v in (*f.outputs, *f.params):
        same.mention(_place(v), v.type.dims.names)
    for k, c in enumerate(f.closures):
        same.join(_at(("value", k), 0, c.value), _place(c.output), _dims_of(c.value))
    for e in nodes:
        _meet(e, same)
    names = same.names({n for e in every for n in own_names(e)})
    if not names:
        return f
    done: dict[int, Expr] = {}
    closed: dict[tuple[int, tuple[tuple[str, str], ...]], Expr] = {}

    def under(place: Hashable, mentioned: Iterable[str]) -> dict[str, str]:
        return {n: names[place, n] for n in mentioned if (place, n) in names}

    def operand(parent: Hashable, k: int, e: Expr) -> Expr:
        if e.free:
            return done[id(e)]
        new = under(_at(parent, k, e), _all_names(e))
        key = id(e), tuple(new.items())
        if key not in closed:
            closed[key] = under_names([e], new)[0]
        return closed[key]

    for e in nodes:
        place, mentioned = _place(e), own_names(e)
        children = tuple(operand(place, k, c) for k, c in enumerate(e.children))
        done[id(e)] = _renamed(e, children, under(place, mentioned), under(("taken", place), mentioned))
    stores = [
        closure(
            variable_under(c.output, under(_place(c.output), c.output.type.dims.names)),
            operand(("value", k), 0, c.value),
            None if c.region is None else dims_under(c.region, under(_place(c.output), c.region.names)),
            c.span,
        )
        for k, c in enumerate(f.closures)
    ]
    params = [variable_under(p, under(_place(p), p.type.dims.names)) for p in f.params]
    return fencil(f.name, params, stores, f.span, f.buffers)


class _Same:
    """Which names, at which places, are of one dim."""

    def __init__(self) -> None:
        self.parent: dict[Slot, Slot] = {}

    def mention(self, place: Hashable, names: Iterable[str]) -> None:
        for n in names:
            self.parent.setdefault((place, n), (place, n))

    def join(self, one: Hashable, other: Hashable, names: Iterable[str]) -> None:
        for n in names:
            a, b = self._root((one, n)), self._root((other, n))
            if a != b:
                self.parent[b] = a

    def names(self, known: Iterable[str]) -> dict[Slot, str]:
        """The names that are new, and not among the known ones: of all dims of one name but the first."""
        taken = {*known, *(n for _, n in self.parent)}
        new: dict[Slot, str | None] = {}
        seen: set[str] = set()
        for slot in self.parent:
            root = self._root(slot)
            if root in new:
                continue
            name = slot[1]
            new[root] = None if name not in seen else _unlike(name, taken)
            seen.add(name)
            taken.add(new[root] or name)
        return {slot: name for slot in self.parent if (name := new[self._root(slot)]) is not None}

    def _root(self, slot: Slot) -> Slot:
        parent = self.parent
        parent.setdefault(slot, slot)
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = parent[slot]
        return slot


def _unlike(name: str, taken: Iterable[str]) -> str:
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    return f"{name}_{k}"


def _place(e: Expr) -> Hashable:
    """Where the names of an expression stand: a variable is one place wherever it is used.

    So are the results of one loop, which is run once for all of them as long as its operands are the same.
    """
    match e:
        case Var():
            return e
        case Call("loop", operands):
            return ("loop", *map(id, operands))
        case _:
            return id(e)


def _at(parent: Hashable, k: int, e: Expr) -> Hashable:
    """Where the names of an operand stand: those of what has no variable inside belong to the place of the operand."""
    return _place(e) if e.free else (parent, k)


def _meet(e: Expr, same: _Same) -> None:
    """Joins the names that an expression needs to be those of its operands."""
    place = _place(e)
    takes = isinstance(e, Call) and e.op in _TAKEN
    same.mention(place, e.tensor.dims.names if takes else sorted(own_names(e)))
    if isinstance(e, Lambda):
        for p in e.params:
            same.join(_place(p), place, p.type.dims.names)
    for k, c in enumerate(e.children):
        there, dims = _at(place, k, c), _dims_of(c)
        taken = frozenset(_TAKEN[e.op](e.static, k)) if isinstance(e, Call) and e.op in _TAKEN else frozenset[str]()
        same.join(there, place, (n for n in dims if n not in taken))
        same.join(there, ("taken", place), (n for n in dims if n in taken))


_TAKEN: Mapping[str, Callable[[tuple[Any, ...], int], Iterable[str]]] = {
    "gather": lambda static, k: () if k else static[0],
    "rename": lambda static, k: (a for a, _ in static[0]),
    "split_dim": lambda static, k: static[:1],
    "merge_dims": lambda static, k: static[:2],
    "scatter": lambda static, k: static[1] if k > 1 else (),
}
"""The names of operand k that a builtin takes away, so that its result may have others of the same name."""


def _renamed(e: Expr, children: tuple[Expr, ...], own: Mapping[str, str], taken: Mapping[str, str]) -> Expr:
    """An expression under names for what it has and for what it takes away."""
    match e:
        case Call("gather", _, (dims, mode)):
            static = (tuple(taken.get(d, d) for d in dims), mode)
        case Call("rename", _, (pairs,)):
            static = (tuple((taken.get(a, a), own.get(b, b)) for a, b in pairs),)
        case Call("split_dim", _, (dim, outer, inner, size)):
            static = (taken.get(dim, dim), own.get(outer, outer), own.get(inner, inner), size)
        case Call("merge_dims", _, (outer, inner, dim)):
            static = (taken.get(outer, outer), taken.get(inner, inner), own.get(dim, dim))
        case Call("scatter", _, (dims, over, mode)):
            static = (tuple(own.get(d, d) for d in dims), tuple(taken.get(d, d) for d in over), mode)
        case _:
            return node_under(e, children, own)
    return dataclasses.replace(e, args=children, static=static)


def _dims_of(e: Expr) -> tuple[str, ...]:
    """The names of dims by which others meet an expression, or a function's operands and result."""
    types = [*e.type.results, *e.type.params] if isinstance(e.type, FunctionType) else [e.type]
    return tuple(dict.fromkeys(n for t in types for n in t.dims.names))


def _all_names(e: Expr) -> dict[str, None]:
    return dict.fromkeys(n for inner in postorder(e) for n in sorted(own_names(inner)))
