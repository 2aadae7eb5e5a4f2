"""Choices are settled inside of each other: in the branch where c holds, c is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorir.ir.build import coerced, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import postorder, rebuild, values, with_label, with_values
from tensorir.ir.types import BOOL
from tensorir.passes.base import Pass, remade

__all__ = ["PropagateConditions", "decides"]

Facts = Mapping[Expr, bool]
"""Conditions, and the truth value that each has wherever something is used."""
NOTHING: Facts = {}


@dataclass(frozen=True)
class PropagateConditions(Pass):
    """What a condition says is known in the branches of its `if`, by all that is used there alone.

    >>> from tensorir.passes.show import show
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
            parts = zip(e.children, _edges(e, here, often), strict=True)
            children = tuple(_told(child, there) or done[id(child)] for child, there in parts)
            new = _settled(e, here, children)
            if new is None:
                new = rebuild(e, children)
            elif e.label and not new.label:
                new = with_label(new, e.label)
            done[id(e)] = new
        new_values = (done[id(value)] for value in values(fencil.closures))
        return remade(fencil, with_values(fencil.closures, new_values))


def decides(e: Expr) -> bool:
    """Whether an expression is an `if` of one truth value that is not known."""
    match e:
        case Call("if", (condition, *_)):
            return not condition.tensor.dims and bool(condition.free)
        case _:
            return False


def _known_everywhere(nodes: list[Expr], roots: tuple[Expr, ...], often: set[Expr]) -> dict[int, Facts]:
    """What is known of each node by identity: the same wherever it is used, so that none is needed twice."""
    known: dict[int, Facts] = {id(root): {} for root in roots}
    for e in reversed(nodes):
        for child, there in zip(e.children, _edges(e, known[id(e)], often), strict=True):
            before = known.get(id(child))
            known[id(child)] = there if before is None else {c: t for c, t in before.items() if there.get(c) is t}
    return known


def _edges(e: Expr, here: Facts, often: set[Expr]) -> tuple[Facts, ...]:
    """What is known of each operand of a node of which something is known."""
    everywhere = {c: t for c, t in here.items() if not c.tensor.dims}
    match e:
        case Call("if", (condition, *_)):
            told = [{c: t for c, t in _known(condition, truth) if c in often} for truth in (True, False)]
            return (here, *({**here, **t} for t in told))
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


def _told(operand: Expr, known: Facts) -> Expr | None:
    """The truth value of an operand without dims that is known."""
    return literal(known[operand], BOOL, operand.span) if operand in known and not operand.tensor.dims else None


def _settled(e: Expr, known: Facts, operands: tuple[Expr, ...]) -> Expr | None:
    """What a choice, or a condition of two, is where what is known decides it, or one of the two."""
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
    """Whether each point is computed from the same one, with a derivative that is finite whatever the operands are.

    Elsewhere a choice by a condition with dims keeps 0 × ∞ out of derivatives.
    """
    row = TABLE[op]
    same_point = row.elementwise or op in ("make_tuple", "tuple_get", "subset")
    return same_point and row.slope != "unbounded"


def _known(condition: Expr, truth: bool) -> Iterator[tuple[Expr, bool]]:
    """A condition, and what else is known where it has a truth value."""
    stack = [(condition, truth)]
    while stack:
        e, holds = stack.pop()
        yield e, holds
        match e:
            case Call("not", (x,)):
                stack.append((x, not holds))
            case Call("and" | "or" as op, parts) if holds == (op == "and"):
                stack.extend((x, holds) for x in parts)
            case _:
                pass
