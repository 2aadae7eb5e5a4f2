"""Loops of few rounds that all run, written out round by round."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.build import call, coerced, literal
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal
from tensorir.ir.rewrite import postorder, rebuild, rewrite_all, substitute_all, values, with_values
from tensorir.ir.types import BOOL, Interval
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Threshold

__all__ = ["UnrollLoops"]


@dataclass(frozen=True)
class UnrollLoops(Pass):
    """Loops of few rounds that all run are written out, each round at its own number.

    A GPU launches all operations of a round anew; written out, they are fused, and what is read or put at the number
    of a round is a part of an array.

    >>> from tensorir.passes.show import show
    >>> from tensorir.ir.types import tensor
    >>> show(UnrollLoops(), '''loop(0, 2)(λ(i: tensor<int>, s: tensor<float>) → true,
    ...   λ(i: tensor<int>, s: tensor<float>) → {s + gather(K, clamp)(x, i)}, y)''', x={"K": (0, 9)}, y=tensor("float"))
    y + gather(K, clamp)(x, 0) + gather(K, clamp)(x, 1)
    """

    rounds: int = 8
    """The most rounds of a loop."""
    nodes: int = 2000
    """The most nodes that a loop may become: they cost compile time."""

    def run(self, fencil: Fencil) -> Fencil:
        roots = values(fencil.closures)
        done: dict[int, Expr] = {}
        made: dict[tuple[int, ...], tuple[Expr, ...]] = {}
        for n in postorder(*roots):
            done[id(n)] = loop = rebuild(n, tuple(done[id(c)] for c in n.children))
            if isinstance(loop, Call) and loop.op == "loop" and self._is_short(loop):
                key = (loop.static.limit, *map(id, loop.args))
                if key not in made:
                    made[key] = _written_out(loop)
                done[id(n)] = made[key][loop.static.carried]
        if all(done[id(r)] is r for r in roots):
            return fencil
        return remade(fencil, with_values(fencil.closures, [done[id(r)] for r in roots]))

    def _is_short(self, node: Call) -> bool:
        condition, step, *_ = node.args
        limit: int | None = node.static.limit
        if limit is None or limit > self.rounds or not isinstance(condition, Lambda) or not isinstance(step, Lambda):
            return False
        always = condition.results == (Literal(True, BOOL),)
        inside = list(postorder(*step.results))
        return always and len(inside) * limit <= self.nodes and not any(map(_checks, inside))

    def on(self, platform: str) -> Pass | None:
        return self if platform == "gpu" else None

    def reason(self) -> str:
        return "the operations of all rounds are fused, and not launched in each"

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "set, and not measured"
        return (
            Threshold("rounds", self.rounds, "rounds of a loop that is written out", where),
            Threshold("nodes", self.nodes, "nodes that a loop may become", where),
        )


def _checks(node: Expr) -> bool:
    """Whether a node says something when it runs, which names the round."""
    if not isinstance(node, Call):
        return False
    row = TABLE[node.op]
    return row.effect or (row.checks and node.static.mode == "checked")


def _written_out(loop: Call) -> tuple[Expr, ...]:
    """What is carried after all rounds."""
    _, step, *start = loop.args
    assert isinstance(step, Lambda)
    number, *params = step.params
    states = tuple(coerced(s, p.tensor) for s, p in zip(start, params, strict=True))
    for k in range(loop.static.limit):
        known = {number: literal(k), **dict(zip(params, states, strict=True))}
        found = rewrite_all(substitute_all(step.results, known), _put)
        states = tuple(coerced(s, p.tensor) for s, p in zip(found, params, strict=True))
    return states


def _put(node: Expr) -> Expr | None:
    """What is put at a number is a part of an array."""
    match node:
        case Call("scatter", (Lambda((_, new), (result,)), base, Literal(at), value)) if result == new:
            (dim,), whole = node.static.dims, base.tensor.dims
            if node.static.over or int(at) not in whole[dim]:
                return None
            point = Interval(int(at), int(at) + 1)
            part = call("add_dim", value, static=(dim, point.start, point.stop), span=node.span)
            part = coerced(part, base.tensor.on(whole.with_interval(dim, point)))
            return call("update", base, part, span=node.span)
        case _:
            return None
