"""Which points of every parameter the blocks of the results need, along the dims that are distributed.

A block is [s:e), whatever s and e are: what is needed of a value are points from s + low up to e + high, as far as they
lie in an interval of the whole. So one analysis, backward from the results, holds for all blocks, at the ends of the
interval as inside of it.

>>> import tensorir as ti
>>> f = ti.parse("f(y: tensor<float, I[0:8]>, x: tensor<float, I[0:9]>) { y ← ⟪I, 1⟫(x); }")
>>> print(*needs(whole_results(f).values(), ["I"])[f["x"]]["I"])
[s + 1 : e + 1) of [1:9]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorir.distribution.whole_results import whole_results
from tensorir.ir.nodes import Call, Expr, Lambda, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Interval, TensorType

__all__ = ["Need", "needs", "whole_results"]


@dataclass(frozen=True, slots=True)
class Need:
    """The points from `low` after a block's start up to `high` after its end, of an interval."""

    low: int
    high: int
    inside: Interval

    def moved(self, offset: int) -> Need:
        return Need(self.low + offset, self.high + offset, self.inside.shifted(-offset))

    def within(self, interval: Interval) -> Need:
        return Need(self.low, self.high, self.inside & interval)

    def of(self, block: Interval) -> Interval:
        """What a block needs."""
        if not block:
            return Interval(block.start, block.start)
        return Interval(block.start + self.low, block.stop + self.high) & self.inside

    def covers(self, other: Need) -> bool:
        return self.low <= other.low and other.high <= self.high and self.inside.covers(other.inside)

    def __str__(self) -> str:
        ends = [
            f"{end} {'-' if by < 0 else '+'} {abs(by)}" if by else end
            for end, by in (("s", self.low), ("e", self.high))
        ]
        return f"[{ends[0]} : {ends[1]}) of {self.inside}"


Along = dict[str, tuple[Need, ...]]
"""By dim that is distributed."""


def needs(results: Iterable[Expr], dims: Iterable[str]) -> dict[Var, Along]:
    """What a block of all results needs of each variable, by dim."""
    roots, dims = tuple(results), tuple(dims)
    found: dict[int, Along] = {}
    variables: dict[Var, Along] = {}
    for root in roots:
        _add(found, root, {d: (Need(0, 0, root.tensor.dims[d]),) for d in dims if d in root.tensor.dims})
    for node in reversed(list(postorder(*roots))):
        own = found.get(id(node))
        if own is None:
            continue
        if isinstance(node, Var):
            variables[node] = _joined(variables.get(node, {}), own)
        elif isinstance(node, Call):
            _operands(node, own, dims, found)
    return variables


def _operands(node: Call, own: Along, dims: tuple[str, ...], found: dict[int, Along]) -> None:
    """What the operands of a call are needed for."""
    if node.op == "pos":
        return  # coordinates are known from the type
    for arg in node.args:
        if isinstance(arg, Lambda):
            for result in arg.results:
                _add(found, result, _along(result, own, dims))
        elif isinstance(arg.type, TensorType):
            # every device looks at the conditions of its block
            asked = {} if node.op == "assert_" and arg is node.args[1] else own
            if node.op == "cartesian_shift" and node.static.dim in own:
                dim, offset = node.static
                asked = {**own, dim: tuple(n.moved(offset) for n in own[dim])}
            _add(found, arg, _along(arg, asked, dims))


def _along(node: Expr, asked: Along, dims: tuple[str, ...]) -> Along:
    """What is asked of a node, inside of its own intervals; along dims that are folded it is its block."""
    have = node.tensor.dims
    named = {d: asked.get(d, (Need(0, 0, have[d]),)) for d in dims if d in have}
    return {d: tuple(n.within(have[d]) for n in each) for d, each in named.items()}


def _add(found: dict[int, Along], node: Expr, more: Along) -> None:
    found[id(node)] = _joined(found.get(id(node), {}), more)


def _joined(a: Along, b: Along) -> Along:
    return {d: _union((*a.get(d, ()), *b.get(d, ()))) for d in {**a, **b}}


def _union(some: tuple[Need, ...]) -> tuple[Need, ...]:
    kept: list[Need] = []
    for need in dict.fromkeys(n for n in some if n.inside):
        if not any(k.covers(need) for k in kept):
            kept = [k for k in kept if not need.covers(k)] + [need]
    return tuple(kept)
