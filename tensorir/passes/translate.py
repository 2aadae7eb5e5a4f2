"""A program in coordinates that count from somewhere else, so that programs of blocks that are alike are equal.

What a program computes from coordinates themselves moves out first: `with_positions` makes positions parameters.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<int, I[4:7]>, x: tensor<int, I[3:7]>) {
...   out ← ⟪I, -1⟫(x) + pos(I, subset(x, I[4:7])); }''')
>>> g, positions = with_positions(f, ["I"])
>>> positions
{'I_at': 'I'}
>>> print(translated(g, {"I": 4}))
f(out: tensor<int, I[0:3]>, x: tensor<int, I[-1:3]>, I_at: tensor<int, I[0:3]>) {
  out ← ⟪I, -1⟫(x) + I_at;
}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tensorir.ir.build import call, cut, free_name, var
from tensorir.ir.build import fencil as make_fencil
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, rewrite_fencil, values
from tensorir.ir.types import INT32, Dims, TensorType, hull

__all__ = ["free_of_coordinates", "translated", "with_positions"]


def with_positions(fencil: Fencil, dims: Iterable[str]) -> tuple[Fencil, dict[str, str]]:
    """The program with a parameter in place of the positions along each of the dims; the dims by these parameters."""
    used = {d: [n for n in postorder(*values(fencil.closures)) if isinstance(n, Call) and n.op == "pos"
                and n.static.dim == d] for d in dims}  # fmt: skip
    taken = {p.name for p in fencil.params}
    made = {
        d: var(free_name(f"{d}_at", taken), TensorType(INT32, Dims(((d, hull([n.tensor.dims[d] for n in nodes])),))))
        for d, nodes in used.items()
        if nodes
    }

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.op == "pos" and node.static.dim in made:
            return cut(made[node.static.dim], node.tensor.dims)
        return None

    with_params = dataclasses.replace(fencil, params=(*fencil.params, *made.values()))
    return rewrite_fencil(with_params, rule), {p.name: d for d, p in made.items()}


def free_of_coordinates(fencil: Fencil, dims: Iterable[str]) -> frozenset[str]:
    """Those of the dims whose coordinates are in types alone: no table, index or operation names a point of them."""
    nodes = list(postorder(*values(fencil.closures)))
    types = [p.type for p in fencil.params] + [n.type for n in nodes if isinstance(n.type, TensorType)]
    tables = {d for t in types for d in t.dims if d.startswith("_NB_")}
    named = tables | {d.removeprefix("_NB_") for d in tables}
    for node in nodes:
        if isinstance(node, Call) and node.op not in _TYPES_ALONE:
            named |= _names(node.static)
    return frozenset(dims) - named


_TYPES_ALONE = ("cartesian_shift", "subset", "add_dim")
"""The builtins that name dims and are the same in other coordinates."""


def _names(static: Any) -> set[str]:
    match static:
        case str():
            return {static}
        case tuple():
            return {n for member in cast("tuple[Any, ...]", static) for n in _names(member)}
        case _:
            return set()


def translated(fencil: Fencil, origin: Mapping[str, int]) -> Fencil:
    """The program whose point p is the given one's p + origin, along dims that are `free_of_coordinates`."""

    def dims(given: Dims) -> Dims:
        return Dims(tuple((d, i.shifted(origin.get(d, 0))) for d, i in given.items))

    def kind(given: TensorType) -> TensorType:
        return given.on(dims(given.dims))

    def variable(given: Var) -> Var:
        return dataclasses.replace(given, type=kind(given.type))

    made: dict[int, Expr] = {}
    for node in postorder(*values(fencil.closures)):
        children = tuple(made[id(c)] for c in node.children)
        match node:
            case Var():
                new: Expr = variable(node)
            case Operator():
                new = dataclasses.replace(node, params=tuple(map(kind, node.params)))
            case Lambda():
                new = dataclasses.replace(node, params=tuple(map(variable, node.params)), results=children)
            case Call("subset"):
                new = call("subset", *children, static=(dims(node.static.intervals),), span=node.span)
            case Call("add_dim") if node.static.dim in origin:
                dim, start, stop = node.static
                ends = (start - origin[dim], stop - origin[dim])
                new = call("add_dim", *children, static=(dim, *ends), span=node.span)
            case _:
                new = rebuild(node, children)
        made[id(node)] = new
    closures = [
        dataclasses.replace(c, output=variable(c.output), value=made[id(c.value)],
                            region=None if c.region is None else dims(c.region))
        for c in fencil.closures
    ]  # fmt: skip
    return make_fencil(fencil.name, tuple(map(variable, fencil.params)), closures, fencil.span, fencil.buffers)
