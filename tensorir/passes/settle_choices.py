"""Choices by one truth value are settled inside of each other: in the branch where c holds, c is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorir.build import call, literal
from tensorir.ir import Call, Expr, Fencil, Literal
from tensorir.passes.base import Pass, rewritten
from tensorir.passes.simplify import known_choice
from tensorir.types import BOOL
from tensorir.walk import postorder, rebuild, values

__all__ = ["SettleChoices", "decides"]


@dataclass(frozen=True)
class SettleChoices(Pass):
    """What a condition without dims says is known in the branches of its `if`.

    >>> from tensorir.passes.show import show
    >>> text = '''f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
    ...   out ← if n > 2 then x + (if n > 2 then x else 1.0) else (if n > 2 then 2.0 else x); }'''
    >>> show(SettleChoices(), text)
    f(n: tensor<int>, x: tensor<float, I[0:5]>, out: tensor<float, I[0:5]>) {
      out ← if n > 2 then x + x else x;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        nodes = list(postorder(*values(fencil.closures)))
        asked = Counter(part for e in nodes if decides(e) for part, _ in _known(e.children[0], True))
        if not asked:
            return fencil
        uses = Counter(c for e in nodes for c in e.children if c in asked)
        often = {c for c in asked if uses[c] > 1}

        def rule(e: Expr) -> Expr | None:
            if not decides(e) or not isinstance(e, Call):
                return None
            condition, *branches = e.args
            told = [{c: t for c, t in _known(condition, truth) if c in often} for truth in (True, False)]
            settled = [_knowing(b, t) for b, t in zip(branches, told, strict=True)]
            if all(a is b for a, b in zip(settled, branches, strict=True)):
                return None
            return call("if", condition, *settled, span=e.span)

        return rewritten(fencil, rule) if often else fencil


def decides(e: Expr) -> bool:
    """Whether an expression is an `if` of one truth value that is not known."""
    match e:
        case Call("if", (condition, *_)):
            return not condition.tensor.dims and bool(condition.free)
        case _:
            return False


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


def _knowing(root: Expr, truths: Mapping[Expr, bool]) -> Expr:
    """The expression where some conditions are known, and the choices that they decide are made."""
    reading = [c.free for c in truths]
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if id(e) in done:
            continue
        if not any(free <= e.free for free in reading) or isinstance(e, Literal):
            done[id(e)] = e
        elif e in truths:
            done[id(e)] = literal(truths[e], BOOL, e.span)
        elif ready:
            new = rebuild(e, tuple(done[id(child)] for child in e.children))
            done[id(e)] = (known_choice(new) if isinstance(new, Call) and new.op == "if" else None) or new
        else:
            stack.append((e, True))
            stack.extend((child, False) for child in e.children if id(child) not in done)
    return done[id(root)]
