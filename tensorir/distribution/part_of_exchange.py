"""The exchange of some of the fields alone: what is sent of others is left out, and rounds of nothing are none.

>>> import tensorir as ti
>>> from tensorir.distribution.decomposition import Decomposition
>>> from tensorir.distribution.exchange import exchange
>>> from tensorir.distribution.local_program import localised
>>> from tensorir.ir.types import Interval
>>> field = "tensor<float, I[0:8]>"
>>> f = ti.parse(f"f(y: tensor<float, I[1:8]>, x: {field}, c: {field}) {{ y ← ⟪I, -1⟫(x × c) + x; }}")
>>> local = localised(f, {"I": Decomposition("I", "px", Interval(0, 8), 2)})
>>> some, plan = part_of_exchange(local, exchange(local), {"c"})
>>> [v.field.name for v in some.views], [str(m) for m in plan.messages]
(['c'], ['px 0 → 1: c at I[3:4]'])
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tensorir.distribution.exchange import Exchange, Phase, Round
from tensorir.distribution.local_program import Localised

__all__ = ["part_of_exchange"]


def part_of_exchange(local: Localised, plan: Exchange, fields: Set[str]) -> tuple[Localised, Exchange]:
    """What is read of some fields, and how it comes to be there."""
    views = tuple(v for v in local.views if v.field.name in fields)
    names = {v.param.name for v in views}
    phases = tuple(replace(p, rounds=_rounds(p, names)) for p in plan.phases)
    messages = tuple(m for m in plan.messages if m.field in fields)
    return replace(local, views=views), replace(plan, phases=phases, messages=messages)


def _rounds(phase: Phase, views: Set[str]) -> tuple[Round, ...]:
    found = (replace(r, pieces=tuple(p for p in r.pieces if p.view in views)) for r in phase.rounds)
    return tuple(r for r in found if r.pieces)
