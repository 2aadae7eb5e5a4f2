"""Points that a program needs of everything, in words: `print(explain(f))`, or `explain(f, out={"I": (4, 9)})`.

>>> import tensorir as ti
>>> f = ti.parse('''f(out: tensor<float, I[1:9]>, inp: tensor<float, I[0:10]>) {
...   out ← let lap = ⟪I, 1⟫(inp) - ⟪I, -1⟫(inp); 2.0 × lap; }''')
>>> print(ti.passes.explain(f))
f stores out at I[1:9].
lap: I[1:9] are needed.
inp: I[0:10] are read.
  ⟪I, -1⟫ reads one point before along I, ⟪I, 1⟫ reads one point after along I.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tensorir.analysis.domains import Domains, domains
from tensorir.binding.programs import subject
from tensorir.integers.sets import IntegerSet
from tensorir.ir.nodes import Call, Expr, Fencil, Var
from tensorir.ir.rewrite import postorder
from tensorir.runtime.errors import Displayed

MAX_CHAINS = 1_000
"""Chains of shifts that are followed per parameter; where there are more, the text says so."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Displayed):
    """The answer: words as `str`, a table and the picture of the domains as HTML, and the sets of points themselves."""

    _drawn_by: ClassVar[str] = "tensorir.inspect.pages:explanation_page"

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
            called = f"'{node.label}'" if node.label else getattr(node, "op", "a function")
            lines.append(f"What {called} reads is known at run time only: all that it may reach is needed.")
        return "\n".join(lines)

    __repr__ = __str__


def explain(program: Any, out: Mapping[Any, Any] | None = None) -> Explanation:
    """The points that a program needs of everything: for all of its outputs, or for those asked for by `out`.

    `out` maps dims, or outputs and then dims, to intervals, `{I: (0, 3)}`.
    """
    inferred = domains(subject(program), out)
    needs: dict[str, IntegerSet] = {}
    for closure in inferred.fencil.closures:
        for node in postorder(closure.value):
            if node.label and (points := inferred.of(node)):
                needs[node.label] = points
    needs.update({name: points for name, points in inferred.params.items() if points})
    return Explanation(inferred, needs)


Chain = tuple[tuple[str, Any], ...]
"""Shifts one after the other, neighbours by table and slot, and between them net offsets along dims, by name."""


def _chains(fencil: Fencil, param: Var) -> list[str]:
    """The chains of shifts through which a parameter is read, those along dims by their net offset.

    What a periodic boundary moves to the other end is no offset: it says so.
    """
    reaching: dict[Chain, None] = {}
    around: dict[str, None] = {}
    more = False
    for closure in fencil.closures:
        wraps = _wraps(closure.value)
        above: dict[int, dict[Chain, None]] = {id(closure.value): {(): None}}
        for node in reversed(list(postorder(closure.value))):
            chains = above.pop(id(node), {})
            if node == param:
                reaching.update((_along(c, param), None) for c in chains)
            wrapped = wraps.get(id(node))
            if wrapped and param in node.free:
                around[wrapped] = None
            step = None if wrapped else _step(node)
            for child in node.children:
                is_table = isinstance(node, Call) and len(node.args) == 2 and child is node.args[0]
                child_step = None if is_table else step
                known = above.setdefault(id(child), {})
                known.update((_after(c, child_step), None) for c in chains)
                if len(known) > MAX_CHAINS:
                    more, above[id(child)] = True, dict(list(known.items())[:MAX_CHAINS])

    def rank(chain: Chain) -> tuple[Any, ...]:
        return len(chain), *((kind, str(step) if kind == "table" else step) for kind, step in chain)

    shown = sorted((c for c in reaching if c), key=rank)
    if not shown and not around:
        return []
    words = [_words(c) for c in shown]
    if () in reaching:
        words.insert(0, "the point itself")
    words += [f"periodic in {dim}" for dim in around]
    return [", ".join([*words, "and through more than are followed"] if more else words) + "."]


def _along(chain: Chain, param: Var) -> Chain:
    """A chain without offsets along dims that the parameter lacks, where it is the same at every point."""
    match chain:
        case (*first, ("dims", offsets)):
            left = tuple((d, n) for d, n in offsets if d in param.type.dims)
            return (*first, ("dims", left)) if left else tuple(first)
        case _:
            return chain


def _wraps(root: Expr) -> dict[int, str]:
    """The parts of periodic halos, by identity, each with its dim: one end of a field, moved beyond the other."""
    wraps: dict[int, str] = {}
    for node in postorder(root):
        match node:
            case Call("concat", parts):
                for part in parts:
                    match part:
                        case Call("cartesian_shift", (Call("subset", (x,)),), (dim, by)) if any(x is p for p in parts):
                            if abs(by) == len(x.tensor.dims[dim]):
                                wraps[id(part)] = dim
                        case _:
                            pass
            case _:
                pass
    return wraps


def _after(chain: Chain, step: tuple[str, Any] | None) -> Chain:
    """A chain with one more step; offsets along dims that follow each other add up, and vanish where they come to 0.

    Of a dim that gets another name, as staggered ones do, they are told by the name that the parameter has.
    """
    if step is None:
        return chain
    kind, offset = step
    if kind == "rename":
        return tuple(
            part if part[0] == "table" else ("dims", tuple(sorted((offset.get(d, d), n) for d, n in part[1])))
            for part in chain
        )
    if kind == "table" or not chain or chain[-1][0] == "table":
        return (*chain, (kind, offset if kind == "table" else (offset,)))
    net = dict(chain[-1][1])
    net[offset[0]] = net.get(offset[0], 0) + offset[1]
    left = tuple(sorted((d, n) for d, n in net.items() if n))
    return (*chain[:-1], ("dims", left)) if left else chain[:-1]


def _step(node: Expr) -> tuple[str, Any] | None:
    match node:
        case Call("cartesian_shift", _, (dim, offset)):
            return "dims", (dim, offset)
        case Call("rename", _, (pairs,)):
            return "rename", {new: old for old, new in pairs}
        case Call("unstructured_shift", (table, _), (slot,)):
            return "table", f"⟪{getattr(table, 'name', 'table')}, {slot}⟫"
        case Call("shift_init", (table, _)):
            return "table", f"⟪{getattr(table, 'name', 'table')}⟫"
        case _:
            return None


def _words(chain: Chain) -> str:
    """A chain, and what it means where it is one step."""
    text = "".join(step if kind == "table" else f"⟪{', '.join(f'{d}, {n}' for d, n in step)}⟫" for kind, step in chain)
    match chain:
        case (("table", _),):
            return f"{text} reads neighbours"
        case (("dims", ((dim, distance),)),):
            side = "after" if distance > 0 else "before"
            steps = "one point" if abs(distance) == 1 else f"{abs(distance)} points"
            return f"{text} reads {steps} {side} along {dim}"
        case _:
            return text
