"""Selections by one truth value become conditionals: `if c then f(x) else g(x)` computes the branch that is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorir.analysis.absence import SkipValues, analyse_absence
from tensorir.analysis.choices import PER_ELEMENT, WORTH, Choice, Weighed, weighed
from tensorir.ir.build import call
from tensorir.ir.nodes import Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import rebuild, values, with_values
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Decision, Places, Threshold
from tensorir.passes.if_conversion import if_converted

__all__ = ["Conditionals"]


@dataclass(frozen=True)
class Conditionals(Pass):
    """Where one truth value decides, and a branch computes much, checks or prints: `cond`.

    What branches read that is not theirs alone is computed before, and given to their functions. Choices by one
    condition, needed in the same places, are made together, and nests of them are put side by side before.

    >>> from tensorir.passes.show import show
    >>> from tensorir.ir.types import tensor
    >>> show(Conditionals(), "if n > 0 then gather(I)(x, n) else 0.5", n=tensor("int"), x={"I": (0, 9)})
    cond(0)(λ() → gather(I)(x, n), λ() → 0.5, n > 0)
    """

    tables: Mapping[str, SkipValues] = field(default_factory=dict[str, SkipValues], hash=False)
    """What is known of tables: which slots of them hold -1."""
    full: frozenset[str] = frozenset()
    """Tables that are declared to hold no -1."""

    def run(self, fencil: Fencil) -> Fencil:
        fencil, weights, _ = self._weighed(fencil)
        found = {id(m): w.choice for w in weights if w.choice for m in w.members}
        if not found:
            return fencil
        return remade(fencil, with_values(fencil.closures, _Regions(found).scope(values(fencil.closures), {})))

    def _weighed(self, fencil: Fencil) -> tuple[Fencil, list[Weighed], bool]:
        """The program with nests of choices side by side, its choices, and whether there were nests."""
        facts = analyse_absence(fencil, self.tables, self.full)
        weights = weighed(fencil, facts)
        found = {id(m): w.choice for w in weights if w.choice for m in w.members}
        flat = if_converted(fencil, facts, found)
        if flat is None:
            return fencil, weights, False
        return flat.fencil, weighed(flat.fencil, flat.facts, flat.settled), True

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "docs/lowering.md, Conditionals"
        return (
            Threshold("WORTH", WORTH, "operations of both branches", where),
            Threshold("PER_ELEMENT", PER_ELEMENT, "operations of both branches per element of the result", where),
        )

    def decided(self, before: Fencil, after: Fencil) -> tuple[Decision, ...]:
        limit = self.thresholds()[0]
        program, weights, flat = self._weighed(before)
        places = Places(program)
        rows: list[Decision] = []
        for w in weights:
            first, *others = w.members
            several = f"{1 + len(others)} selections" if others else "selection"
            if w.choice is None:
                what, why = f"{several}: both branches computed", "a conditional would cost more than it saves"
            elif w.choice.masked:
                what, why = f"{several} if-converted", "the first branch is computed in any case, its checks are masked"
            else:
                pays = w.operations >= w.needed
                what = f"{several} kept as one conditional"
                why = self.reason() if pays else "a branch checks or prints"
                what += " (if-converted from a nest)" if flat else ""
            needed = replace(limit, limit=w.needed)
            rows.append(
                Decision(
                    self.name(), what, places.of(first), w.choice is not None, why, w.operations, needed,
                    span=first.span,
                )
            )  # fmt: skip
        return tuple(rows)

    def knowing(self, tables: Mapping[str, SkipValues], full: frozenset[str]) -> Conditionals:
        return replace(self, tables=tables, full=full)

    def spelled(self) -> str:
        return self.name()

    def reason(self) -> str:
        return "the branch that is not taken is not computed, and what it checks concerns nobody"


@dataclass(frozen=True, slots=True)
class _Regions:
    """The branches of choices as functions; what is evaluated inside of one is made for it alone."""

    choices: Mapping[int, Choice]
    """By the identity of each `if`."""
    functions: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def scope(self, roots: Sequence[Expr], given: Mapping[int, Expr]) -> list[Expr]:
        """Expressions that are evaluated in one scope, of which some nodes are given, by identity."""
        made = dict(given)
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            node, ready = stack.pop()
            if id(node) in made:
                continue
            choice = self.choices.get(id(node))
            match node:
                case Var() | Literal() | Operator():
                    made[id(node)] = node
                case Lambda():
                    made[id(node)] = self._function(node)
                case _ if not ready:
                    before = node.children if choice is None else (choice.members[0].args[0], *choice.shared)
                    stack.append((node, True))
                    stack.extend((n, False) for n in reversed(before) if id(n) not in made)
                case _ if choice is None:
                    made[id(node)] = rebuild(node, tuple(made[id(c)] for c in node.children))
                case _:
                    made.update(self._conditional(choice, made))
        return [made[id(root)] for root in roots]

    def _function(self, function: Lambda) -> Expr:
        if id(function) not in self.functions:
            self.functions[id(function)] = rebuild(function, tuple(self.scope(function.results, {})))
        return self.functions[id(function)]

    def _conditional(self, choice: Choice, made: Mapping[int, Expr]) -> dict[int, Expr]:
        """The members of a choice, each a result of the same two functions."""
        operands = [s for s in choice.shared if not isinstance(s, (Var, Literal, Operator, Lambda))]
        branches = [self._branch(choice, operands, k) for k in (1, 2)]
        condition = made[id(choice.members[0].args[0])]
        values = [made[id(s)] for s in operands]
        return {
            id(m): replace(
                call("cond", *branches, condition, *values, static=(k, choice.masked), span=m.span), label=m.label
            )
            for k, m in enumerate(choice.members)
        }

    def _branch(self, choice: Choice, operands: Sequence[Expr], branch: int) -> Lambda:
        params = _named(operands)
        given = dict(zip(map(id, operands), params, strict=True))
        return Lambda(params, tuple(self.scope([m.args[branch] for m in choice.members], given)))


def _named(operands: Sequence[Expr]) -> tuple[Var, ...]:
    """Parameters for operands, by the names that they have in the program."""
    found: dict[str, Var] = {}
    for operand in operands:
        name, k = getattr(operand, "label", "") or "s", 0
        while (unique := name if k == 0 else f"{name}_{k}") in found:
            k += 1
        found[unique] = Var(unique, operand.tensor)
    return tuple(found.values())
