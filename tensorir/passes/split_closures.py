"""A closure that stores a concatenation becomes one per part: the inverse of `fuse_closures`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.ir.build import closure
from tensorir.ir.nodes import Call, Closure, Fencil
from tensorir.ir.types import Dims
from tensorir.passes.base import Pass, remade

__all__ = ["SplitClosures"]


@dataclass(frozen=True)
class SplitClosures(Pass):
    """Each part of a concatenation is stored by itself, where the expression does not read the output.

    >>> from tensorir.passes.show import show
    >>> show(SplitClosures(), '''f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
    ...   out ← concat(x, y); }''')
    f(out: tensor<float, I[0:5]>, x: tensor<float, I[0:2]>, y: tensor<float, I[2:5]>) {
      out[I[0:2]] ← x;
      out[I[2:5]] ← y;
    }
    """

    def run(self, fencil: Fencil) -> Fencil:
        done: list[Closure] = []
        waiting = list(reversed(fencil.closures))
        while waiting:
            one = waiting.pop()
            match one.value:
                case Call("concat", args) if one.output not in one.value.free and one.target.dims.size:
                    parts: list[Closure] = []
                    for arg in args:
                        have, target = arg.tensor.dims, one.target.dims
                        part = Dims(tuple((n, i & have[n] if n in have else i) for n, i in target.items))
                        if part.size:
                            whole = one.output.type.dims
                            region = tuple((n, i) for n, i in part.items if i != whole[n])
                            parts.append(closure(one.output, arg, Dims(region) if region else None, one.span))
                    waiting += reversed(parts)
                case _:
                    done.append(one)
        return remade(fencil, tuple(done))
