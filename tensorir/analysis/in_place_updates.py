"""Which closures may write a part of an array in its own memory: they read of it, at most, the points that they write.

>>> from tensorir.text import parse
>>> f = parse('''f(u: tensor<float, I[0:9]>, v: tensor<float, I[0:9]>) {
...   u[I[1:8]] ← u + ⟪I, 1⟫(v); v[I[1:8]] ← v + ⟪I, -1⟫(v); }''')
>>> in_place_updates(f)
frozenset({0})
"""

from __future__ import annotations

from tensorir.analysis.uses import reads, surface
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Closure, Expr, Fencil, Lambda, Var

__all__ = ["in_place_updates"]


def in_place_updates(fencil: Fencil) -> frozenset[int]:
    """The closures, by their number, of which it is known; what a compiler makes of it is right in any case.

    One whose array an earlier closure made the same as another, `out ← inp`, is none: that one is read as well.
    """
    others: set[Var] = set()
    found: set[int] = set()
    for k, closure in enumerate(fencil.closures):
        if closure.region is not None and closure.output not in others and _reads_here(closure):
            found.add(k)
        if closure.region is None:
            others.discard(closure.output)
            if not _computes(closure.value):
                others.add(closure.output)
    return frozenset(found)


def _computes(value: Expr) -> bool:
    return isinstance(value, Call) and not TABLE[value.op].moves


def _reads_here(closure: Closure) -> bool:
    order = surface(closure.value)
    if any(closure.output in f.free for n in order for f in n.children if isinstance(f, Lambda)):
        return False
    found = reads(closure.value, order).get(closure.output, ())
    return all(not offset and isinstance(n, Call) and not TABLE[n.op].indirect for n, offset in found)
