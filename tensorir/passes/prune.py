"""What nobody reads goes: closures, buffers, and parameters of functions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tensorir.ir.build import call, function
from tensorir.ir.nodes import Apply, Call, Closure, Expr, Fencil, Lambda
from tensorir.ir.rewrite import rewrite_all, values, with_label, with_values
from tensorir.passes.base import Pass, remade
from tensorir.runtime.errors import DiagnosticError

__all__ = ["Prune", "without_unused_parameters"]


@dataclass(frozen=True)
class Prune(Pass):
    """Closures whose result is overwritten unread, buffers of passes that nobody reads, unused function parameters.

    Parameters of the program that the user declared stay: they are how it is called.

    >>> from tensorir.passes.show import show
    >>> show(Prune(), '''f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
    ...   out ← b; out ← (λ(x: tensor<float, I[0:4]>, y: tensor<float, I[0:4]>) → x + x)(a, b); }''')
    f(out: tensor<float, I[0:4]>, a: tensor<float, I[0:4]>, b: tensor<float, I[0:4]>) {
      out ← (λ(x: tensor<float, I[0:4]>) → x + x)(a);
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        closures = with_values(fencil.closures, rewrite_all(values(fencil.closures), without_unused_parameters))
        buffers = fencil.buffers
        closures = _alive(fencil, closures, buffers)
        used = {v for c in closures for v in (c.output, *c.value.free)}
        params = tuple(p for p in fencil.params if p in used or p.name not in buffers)
        return remade(fencil, closures, params)


def without_unused_parameters(node: Expr) -> Expr | None:
    """Parameters of applied functions and of scans that the body does not use, and their arguments."""
    match node:
        case Apply(Lambda(params, (body,)) as f, args):
            kept = [k for k, p in enumerate(params) if p in body.free]
            if len(kept) == len(params):
                return None
            if not kept:
                return with_label(body, node.label) if node.label else body
            smaller = dataclasses.replace(f, params=tuple(params[k] for k in kept))
            return dataclasses.replace(node, function=smaller, args=tuple(args[k] for k in kept))
        case Call("scan", (Lambda(params, (body,)), init, *args), static):
            kept = [k for k, p in enumerate(params[1:]) if p in body.free]
            if len(kept) == len(args) or not kept:
                return None
            try:
                smaller = function([params[0], *(params[1 + k] for k in kept)], body)
                new = call("scan", smaller, init, *(args[k] for k in kept), static=static, span=node.span)
            except DiagnosticError:  # no argument that is left has the scanned dim
                return None
            return new if new.type == node.type else None
        case _:
            return None


def _alive(fencil: Fencil, closures: tuple[Closure, ...], buffers: frozenset[str]) -> tuple[Closure, ...]:
    """The closures whose result somebody may read, the last ones first."""
    read = {p for p in fencil.params if p.name not in buffers}
    alive: list[Closure] = []
    for closure in reversed(closures):
        if closure.output not in read:
            continue
        alive.append(closure)
        if closure.region is None:
            read.discard(closure.output)
        read |= closure.value.free
    return tuple(reversed(alive)) or closures[-1:]
