"""A program for all sizes up to a bound: its intervals are those at the bound, its sizes are numbers that are passed.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← x; y[I[1:n-1]] ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
>>> print(padded_program(f, {"n": 100}).program)
f(y: tensor<float, I[0:100]>, x: tensor<float, I[0:100]>, n: tensor<int>) {
  y ←
    if pos(I, add_dim(I, 0, 100, false)) < n
      then update(
        x,
        if pos(I, add_dim(I, 1, 99, false)) < n - 1
          then ⟪I, 1⟫(x) - ⟪I, -1⟫(x)
        else subset(x, I[1:99])
      )
    else 0.0;
}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorir.distribution.whole_results import zero
from tensorir.ir.build import call, closure, fencil, operator, var
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import INT32, TensorType
from tensorir.padding.affine_ends import AffineEnds, affine_ends
from tensorir.padding.masking import Masking, fitted, masked
from tensorir.padding.rules import RULES, unchanged
from tensorir.text.sizes import Template

__all__ = ["PaddedProgram", "padded_program"]


@dataclass(frozen=True, slots=True)
class PaddedProgram:
    """A program on intervals that hold those of all sizes."""

    program: Fencil
    ends: AffineEnds
    fields: Mapping[str, Var]
    """By the name of each parameter that is an array, the one of the template."""
    sizes: Mapping[str, str]
    """By size, the parameter that it is."""


NOTHING: Mapping[str, int] = {}


def padded_program(template: Template, most: Mapping[str, int], others: Mapping[str, int] = NOTHING) -> PaddedProgram:
    """The program for sizes up to `most`, at the values of all other sizes.

    Raises B13 for what depends on sizes in another way than masks can say, at its place.
    """
    ends = affine_ends(template.specialise, most, others)
    whole, nodes = ends.fencil, ends.nodes
    results = {p.name for p in whole.results}
    taken = {v.name for n in nodes for v in (n, *getattr(n, "params", ())) if isinstance(v, Var)}
    own = Masking(ends, {}, taken)
    sizes = {n: own.fresh(n, TensorType(INT32)) for n in most}
    own = replace(own, sizes=sizes)
    fields: dict[Var, Var] = {}
    made: dict[int, Expr] = {}
    bound = {p for n in nodes if isinstance(n, Lambda) for p in n.params}
    for node in nodes:
        made[id(node)] = _made(own, node, made, bound, fields, results)
    params: list[Var] = []
    closures: list[tuple[Var, Expr]] = []
    for p in whole.params:
        if p.name in results:
            target = var(p.name, p.type.on(own.dims(p)), p.span)
            params.append(target)
            value = fitted(made[id(ends.results[p.name])], target.type.dims)
            counts = own.inside(p, p.type.dims)
            closures.append((target, masked(counts, value, zero(p.type.element))))
    read = frozenset[Var]().union(*(e.free for _, e in closures))
    params += [v for v in fields.values() if v in read]
    params += [v for v in sizes.values() if v in read]
    program = fencil(whole.name, params, [closure(p, e) for p, e in closures], whole.span)
    known = {v.name: p for p, v in fields.items() if v in read}
    return PaddedProgram(program, ends, known, {n: v.name for n, v in sizes.items() if v in read})


def _made(
    own: Masking, node: Expr, made: Mapping[int, Expr], bound: set[Var], fields: dict[Var, Var], results: set[str]
) -> Expr:
    """What a node becomes, of what its operands have become."""
    args = [made[id(child)] for child in node.children]
    match node:
        case Literal():
            form = own.ends.number(node) if own.ends.forms[id(node)] else None
            if form is None or not form.terms:
                return node
            value = own.scalar(form)
            return value if node.element == INT32 else call("cast", value, static=(node.element,))
        case Var():
            kind = node.type.on(own.dims(node))
            if node in bound:
                return var(node.name, kind, node.span)
            if node not in fields:
                name = node.name if node.name not in results else own.fresh(node.name, kind).name
                fields[node] = var(name, kind, node.span)
            return fields[node]
        case Lambda(params):
            kinds = own.params(node)
            return Lambda(tuple(replace(p, type=t) for p, t in zip(params, kinds, strict=True)), tuple(args), node.span)
        case Operator(op):
            return operator(op, *own.params(node), span=node.span)
        case Call():
            value = fitted(RULES.get(node.op, unchanged)(own, node, args), own.dims(node))
            return with_label(value, node.label) if node.label and not value.label else value
        case _:
            raise AssertionError(node)
