"""Loops and conditionals of a block: every device runs as many rounds, or takes the same branch, on its own points.

What is carried is on the points that all of it has around the block, and what the body computes of other fields. A body
that reads neighbours of what it carries would need them anew in each round: it is refused, or, where the rounds are few
and all run, written out before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorir.ir.build import call, coerced, cut, function
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Var
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Dims, Interval, TensorType
from tensorir.passes.simplify import UnrollLoops

if TYPE_CHECKING:
    from tensorir.distribution.localising import Frame, Localiser, Making, Scope

__all__ = ["cond", "loop", "written_out"]


def written_out(program: Fencil, dims: Sequence[str]) -> Fencil:
    """The program with loops of few rounds written out, where one reads neighbours along dims of what it carries."""
    for node in postorder(*values(program.closures)):
        if isinstance(node, Call) and node.op == "loop" and any(_reads_neighbours(f, dims) for f in node.args[:2]):
            return UnrollLoops().run(program)
    return program


def _reads_neighbours(f: Expr, dims: Sequence[str]) -> bool:
    return isinstance(f, Lambda) and any(
        isinstance(n, Call) and n.op == "cartesian_shift" and n.static.dim in dims and not n.free.isdisjoint(f.params)
        for n in postorder(*f.results)
    )


def loop(own: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    condition, step, *starts = node.args
    assert isinstance(condition, Lambda) and isinstance(step, Lambda)
    key = ("loop", node.static.limit, frame, *map(id, node.args))
    if key not in own.regions:
        made = yield from own.operands(starts, frame, scope)
        on = own.intervals(made)
        while True:
            places = [_place(own, s.tensor, on) for s in starts]
            params = _params(step, places)
            results = yield from own.operands(step.results, frame, _inside(own, step, params, scope))
            narrowed = {**on, **{d: on.get(d, i) & i for d, i in own.intervals(results).items()}}
            if narrowed == on:
                break
            on = narrowed
        asked = _params(condition, places)
        (more,) = yield from own.operands(condition.results, frame, _inside(own, condition, asked, scope))
        body = function(params, *(coerced(r, p) for r, p in zip(results, places, strict=True)), span=step.span)
        states = [coerced(s, p) for s, p in zip(made, places, strict=True)]
        own.regions[key] = function(asked, more, span=condition.span), body, *states
    return call("loop", *own.regions[key], static=node.static, span=node.span)


def cond(own: Localiser, node: Call, frame: Frame, scope: Scope) -> Making:
    first, second, condition, *operands = node.args
    assert isinstance(first, Lambda) and isinstance(second, Lambda)
    key = ("cond", frame, *map(id, node.args))
    if key not in own.regions:
        chosen = yield condition, (), scope
        made = yield from own.operands(operands, frame, scope)
        on = own.intervals(made)
        branches: list[tuple[list[Var], list[Expr]]] = []
        for f in (first, second):
            kinds = [
                _place(own, p.type, {d: on[d] for d in on if d in a.tensor.dims})
                for p, a in zip(f.params, made, strict=True)
            ]
            params = [replace(p, type=t) for p, t in zip(f.params, kinds, strict=True)]
            branches.append((params, (yield from own.operands(f.results, frame, _inside(own, f, params, scope)))))
        pairs = [own.common(pair) for pair in zip(*(results for _, results in branches), strict=True)]
        functions = [
            function(params, *(pair[k] for pair in pairs), span=f.span)
            for k, (f, (params, _)) in enumerate(zip((first, second), branches, strict=True))
        ]
        cuts = Dims(tuple(on.items()))
        own.regions[key] = *functions, chosen, *(cut(a, cuts) for a in made)
    return call("cond", *own.regions[key], static=node.static, span=node.span)


def _place(own: Localiser, kind: TensorType, on: Mapping[str, Interval]) -> TensorType:
    """The type of what is carried on local intervals; along dims that no value has it is the same everywhere."""
    have = [(d, on[d]) for d in kind.dims if d in on and d in own.parts]
    return kind.on(Dims((*kind.dims.without(*own.parts).items, *have)))


def _params(f: Lambda, places: Sequence[TensorType]) -> list[Var]:
    return [f.params[0], *(replace(p, type=t) for p, t in zip(f.params[1:], places, strict=True))]


def _inside(own: Localiser, f: Lambda, params: Sequence[Var], scope: Any) -> Any:
    return type(scope)(dict(zip(f.params, params, strict=True)), scope)
