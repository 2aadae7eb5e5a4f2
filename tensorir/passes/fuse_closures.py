"""Closures that write adjacent parts of one output become one."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.build import call, closure, coerced
from tensorir.ir.nodes import Closure, Fencil
from tensorir.ir.types import Dims, Interval
from tensorir.passes.base import Pass, remade
from tensorir.runtime.errors import DiagnosticError

__all__ = ["FuseClosures"]


@dataclass(frozen=True)
class FuseClosures(Pass):
    """Two closures in a row that write adjacent parts of one output become one, by `concat`.

    The second must not read the output.

    >>> from tensorir.passes.show import show
    >>> show(FuseClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
    ...   out[I[0:2]] ← x; out[I[2:5]] ← -x; }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) {
      out ← concat(subset(x, I[0:2]), subset(-x, I[2:5]));
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        done: list[Closure] = []
        for one in fencil.closures:
            while done and (both := _fused(done[-1], one)) is not None:
                done.pop()
                one = both
            done.append(one)
        return remade(fencil, tuple(done))


def _fused(a: Closure, b: Closure) -> Closure | None:
    if a.output != b.output or a.output in b.value.free:
        return None
    first, second = a.target.dims, b.target.dims
    differing = [n for n in first if first[n] != second[n]]
    if len(differing) != 1 or not first.size or not second.size:
        return None
    (dim,) = differing
    x, y = first[dim], second[dim]
    if x.stop != y.start and y.stop != x.start:
        return None
    try:
        value = call("concat", coerced(a.value, a.target), coerced(b.value, b.target), span=a.span)
    except DiagnosticError:
        return None
    whole = first.with_interval(dim, Interval(min(x.start, y.start), max(x.stop, y.stop)))
    left = tuple((n, i) for n, i in whole.items if i != a.output.type.dims[n])
    return closure(a.output, value, Dims(left) if left else None, a.span)
