"""Who needs which points of what, in words: `print(ti.explain(f))`, or `ti.explain(f, out={"I": (4, 9)})`.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:9]>, inp: tensor<float, I[0:10]>) {
...   out ← let lap = ⟪I, 1⟫(inp) - ⟪I, -1⟫(inp); 2.0 × lap; }''')
>>> print(ti.explain(f))
f stores out at I[1:9].
lap: I[1:9] are needed.
inp: I[0:10] are read.
  ⟪I, -1⟫ reads one point before along I, ⟪I, 1⟫ reads one point after along I.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorir.analysis.domains import Domains, domains
from tensorir.analysis.integer_sets import IntegerSet
from tensorir.display import Displayed
from tensorir.ir import Call, Expr, Fencil, Var
from tensorir.walk import postorder

__all__ = ["Explanation", "explain"]

MAX_CHAINS = 12
"""Chains of shifts that are named per parameter."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Displayed):
    """The answer: words as `str`, a table and the picture of the domains as HTML, and the sets of points themselves."""

    domains: Domains
    needs: dict[str, IntegerSet]
    """Of every parameter that is read, and of every named expression, the points that are needed."""

    def __str__(self) -> str:
        fencil = self.domains.fencil
        stored = ", ".join(f"{n} at {p}" for n, p in self.domains.written.items() if p)
        lines = [f"{fencil.name} stores {stored or 'nothing'}."]
        params = {p.name for p in fencil.params}
        lines += [f"{name}: {points} are needed." for name, points in self.needs.items() if name not in params]
        for p in fencil.params:
            if p.name in self.needs:
                points = self.needs[p.name]
                lines.append(f"{p.name}: {points} {'are' if points.names else 'is'} read.")
                lines += [f"  {text}" for text in _chains(fencil, p)]
        for node in self.domains.unknown:
            lines.append(f"What {_called(node)} reads is known at run time only: all that it may reach is needed.")
        return "\n".join(lines)

    __repr__ = __str__


def explain(program: Any, out: Mapping[Any, Any] | None = None) -> Explanation:
    """Which points of everything a program needs: all of its outputs, or those asked for by `out`."""
    from tensorir.inspect.subject import subject

    found = domains(subject(program), out)
    needs: dict[str, IntegerSet] = {}
    for closure in found.fencil.closures:
        for node in postorder(closure.value):
            if node.label and (points := found.of(node)):
                needs[node.label] = points
    needs.update({name: points for name, points in found.params.items() if points})
    return Explanation(found, needs)


def _called(node: Expr) -> str:
    return f"'{node.label}'" if node.label else getattr(node, "op", "a function")


def _chains(fencil: Fencil, param: Var) -> list[str]:
    """The chains of shifts through which a parameter is read."""
    found: dict[str, None] = {}
    for closure in fencil.closures:
        above: dict[int, set[tuple[str, ...]]] = {id(closure.value): {()}}
        for node in reversed(list(postorder(closure.value))):
            chains = above.get(id(node), set())
            if node == param:
                found.update((_words(c), None) for c in sorted(chains) if c)
            step = _step(node)
            for child in node.children:
                own = () if step and isinstance(node, Call) and len(node.args) == 2 and child is node.args[0] else step
                known = above.setdefault(id(child), set())
                if len(known) < MAX_CHAINS:
                    known.update((*c, *own) for c in list(chains)[:MAX_CHAINS])
    if not found:
        return []
    return [", ".join(list(found)[:MAX_CHAINS]) + "."]


def _step(node: Expr) -> tuple[str, ...]:
    match node:
        case Call("cartesian_shift", _, (dim, offset)):
            return (f"⟪{dim}, {offset}⟫",)
        case Call("unstructured_shift", (table, _), (slot,)):
            return (f"⟪{getattr(table, 'name', 'table')}⟫[{slot}]",)
        case Call("shift_init", (table, _)):
            return (f"⟪{getattr(table, 'name', 'table')}⟫",)
        case _:
            return ()


def _words(chain: tuple[str, ...]) -> str:
    """A chain, and what it means where it is one step along a dim."""
    text = "".join(chain)
    dim, _, offset = text.strip("⟪⟫").partition(", ")
    if len(chain) > 1 or not offset:
        return text if len(chain) > 1 else f"{text} reads neighbours"
    distance = int(offset)
    side = "after" if distance > 0 else "before"
    steps = "one point" if abs(distance) == 1 else f"{abs(distance)} points"
    return f"{text} reads {steps} {side} along {dim}"
