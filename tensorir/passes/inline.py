"""Functions applied where they stand, and buffers computed where they are read: the inverse of `temporaries`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tensorir.ir.build import coerced
from tensorir.ir.nodes import Closure, Fencil, Var
from tensorir.ir.rewrite import substitute, values, with_values
from tensorir.ir.substitution import inlined
from tensorir.passes.base import Pass, remade

__all__ = ["Inline"]


@dataclass(frozen=True)
class Inline(Pass):
    """Applied functions are substituted; buffers that are written once, as a whole, become expressions again.

    `functions` says whether functions are. `buffers` names written parameters that shall go; the buffers that passes
    made go in any case, unless `keep` is true. What reads a buffer must not be overwritten in between.

    >>> from tensorir.passes.show import show
    >>> show(Inline(), '''f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
    ...   out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x) - x)(inp); }''')
    f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
      out ← ⟪I, 1⟫(inp) - inp;
    }
    >>> show(Inline(buffers="tmp"), '''
    ... f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>, tmp: tensor<float, I[0:5]>) {
    ...   tmp ← cos(inp); out ← ⟪I, 1⟫(tmp) - tmp; }''')
    f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
      out ← let tmp = cos(inp); ⟪I, 1⟫(tmp) - tmp;
    }
    """

    functions: bool = True
    buffers: str = ""
    """Names, with blanks or commas between them."""
    keep: bool = False
    named: bool = False
    """Whether what a parameter of an applied function stands for is labelled with its name."""

    def run(self, fencil: Fencil) -> Fencil:
        closures = fencil.closures
        if self.functions:
            closures = with_values(closures, inlined(values(closures), named=self.named))
        wanted = set(self.buffers.replace(",", " ").split())
        if not self.keep:
            wanted |= fencil.buffers
        params = fencil.params
        for name in [p.name for p in params if p.name in wanted]:
            found = _substituted(closures, fencil[name])
            if found is not None:
                closures, params = found, tuple(p for p in params if p.name != name)
        return remade(fencil, closures, params)


def _substituted(closures: tuple[Closure, ...], buffer: Var) -> tuple[Closure, ...] | None:
    """The closures without a buffer; None where it is not written once, whole, before it is read."""
    writers = [k for k, c in enumerate(closures) if c.output == buffer]
    readers = [k for k, c in enumerate(closures) if buffer in c.value.free]
    if len(writers) != 1 or closures[writers[0]].region is not None or (readers and readers[0] <= writers[0]):
        return None
    if len(closures) == 1:
        return None
    at = writers[0]
    value = closures[at].value
    between = {c.output for c in closures[at + 1 : max(readers, default=at)]}
    if not value.free.isdisjoint(between):
        return None
    place = coerced(value, buffer.type)
    if not isinstance(place, Var) and not place.label:
        place = dataclasses.replace(place, label=buffer.name)
    rest = (*closures[:at], *closures[at + 1 :])
    return with_values(rest, [substitute(c.value, {buffer: place}) for c in rest])
