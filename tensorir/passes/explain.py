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
        """The explanation as text: points stored, points needed of named expressions, and of each input with its shift
        chains.
        """
        fencil = self.domains.fencil
        stored_text = ", ".join(f"{n} at {p}" for n, p in self.domains.written.items() if p)
        lines = [f"{fencil.name} stores {stored_text or 'nothing'}."]
        params = {p.name for p in fencil.params}
        lines += [f"{name}: {points} are needed." for name, points in self.needs.items() if name not in params]
        for p in fencil.params:
            if p.name in self.needs:
                points = self.needs[p.name]
                lines.append(f"{p.name}: {points} {'are' if points.names else 'is'} read.")
                lines += [f"  {text}" for text in _chains(fencil, p)]
        for node in self.domains.unknown:
            name_of_node = f"'{node.label}'" if node.label else getattr(node, "op", "a function")
            lines.append(f"What {name_of_node} reads is known at run time only: all that it may reach is needed.")
        return "\n".join(lines)

    __repr__ = __str__


def explain(program: Any, out: Mapping[Any, Any] | None = None) -> Explanation:
    """The points that a program needs of every input and named expression, for all outputs or the part `out` of them.

    `out` maps dims, or outputs and then dims, to intervals: `{I: (0, 3)}`.
    """
    inferred_domains = domains(subject(program), out)
    needs: dict[str, IntegerSet] = {}
    for closure in inferred_domains.fencil.closures:
        for node in postorder(closure.value):
            if node.label and (points := inferred_domains.of(node)):
                needs[node.label] = points
    needs.update({name: points for name, points in inferred_domains.params.items() if points})
    return Explanation(inferred_domains, needs)


Chain = tuple[tuple[str, Any], ...]
"""Steps from a result inwards: ("table", text) of a neighbour read, ("dims", ((dim, net offset), ...)) between them.

Renamings of dims are applied to the offsets before, and are no steps.
"""


def _chains(fencil: Fencil, param: Var) -> list[str]:
    """The text of all chains of shifts through which outputs read a parameter, shortest first; empty if there are none.

    Offsets along dims are summed to net offsets; reads across a periodic boundary are reported as "periodic in I". At
    most `MAX_CHAINS` are followed.
    """
    chains_to_param: dict[Chain, None] = {}
    periodic_dims: dict[str, None] = {}
    truncated = False
    for closure in fencil.closures:
        periodic_parts = _wraps(closure.value)
        chains_above: dict[int, dict[Chain, None]] = {id(closure.value): {(): None}}
        for node in reversed(list(postorder(closure.value))):
            chains = chains_above.pop(id(node), {})
            if node == param:
                chains_to_param.update((_along(c, param), None) for c in chains)
            periodic_dim = periodic_parts.get(id(node))
            if periodic_dim and param in node.free:
                periodic_dims[periodic_dim] = None
            chain_step = None if periodic_dim else _step(node)
            for child in node.children:
                # nodes with a step and two operands are neighbour reads: the table is read at the point itself
                is_table = isinstance(node, Call) and len(node.args) == 2 and child is node.args[0]
                child_step = None if is_table else chain_step
                child_chains = chains_above.setdefault(id(child), {})
                child_chains.update((_after(c, child_step), None) for c in chains)
                if len(child_chains) > MAX_CHAINS:
                    truncated, chains_above[id(child)] = True, dict(list(child_chains.items())[:MAX_CHAINS])

    def rank(chain: Chain) -> tuple[Any, ...]:
        return len(chain), *((kind, str(chain_step) if kind == "table" else chain_step) for kind, chain_step in chain)

    shown = sorted((c for c in chains_to_param if c), key=rank)
    if not shown and not periodic_dims:
        return []
    words = [_words(c) for c in shown]
    if () in chains_to_param:
        words.insert(0, "the point itself")
    words += [f"periodic in {dim}" for dim in periodic_dims]
    return [", ".join([*words, "and through more than are followed"] if truncated else words) + "."]


def _along(chain: Chain, param: Var) -> Chain:
    """A chain without trailing offsets along dims that the parameter does not have (it is constant along these)."""
    match chain:
        case (*earlier, ("dims", offsets)):
            remaining = tuple((d, n) for d, n in offsets if d in param.type.dims)
            return (*earlier, ("dims", remaining)) if remaining else tuple(earlier)
        case _:
            return chain


def _wraps(root: Expr) -> dict[int, str]:
    """The operands of `concat` that are periodic halos, by identity, with their dim: `subset` of another operand,
    shifted by its whole extent.
    """
    wraps: dict[int, str] = {}
    for node in postorder(root):
        match node:
            case Call("concat", parts):
                for part in parts:
                    match part:
                        case Call("cartesian_shift", (Call("subset", (x,)),), (dim, offset)) if any(
                            x is p for p in parts
                        ):
                            if abs(offset) == len(x.tensor.dims[dim]):
                                wraps[id(part)] = dim
                        case _:
                            pass
            case _:
                pass
    return wraps


def _after(chain: Chain, step: tuple[str, Any] | None) -> Chain:
    """A chain extended by one step; consecutive offsets along dims are summed, and vanish at 0.

    A "rename" step renames the dims of earlier offsets to the operand's names.
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
    remaining = tuple(sorted((d, n) for d, n in net.items() if n))
    return (*chain[:-1], ("dims", remaining)) if remaining else chain[:-1]


def _step(node: Expr) -> tuple[str, Any] | None:
    """The step that a node adds to a chain: ("dims", (dim, offset)), ("rename", {new: old}), ("table", text), or
    None.
    """
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
    """A chain in the notation of shifts, with an explanation if it is a single step."""
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
