"""Reductions of what is computed of values at offsets: XLA's library for sums computes those one number at a time.

>>> from tensorir.text import parse
>>> f = parse('''f(y: tensor<float>, z: tensor<float>, x: tensor<float, I[0:99]>) {
...   y ← reduce(+, 0.0, I)(⟪I, 1⟫(x) - x); z ← reduce(+, 0.0, I)(x × x); }''')
>>> [id(c.value) in stencil_reductions(f) for c in f.closures]
[True, False]
"""

from __future__ import annotations

from tensorir.ir.nodes import Call, Fencil
from tensorir.ir.rewrite import postorder, values

__all__ = ["stencil_reductions"]


def stencil_reductions(fencil: Fencil) -> frozenset[int]:
    """The reductions over dims that are no neighbours' with a shift in what they reduce, by identity; linear."""
    shifted: set[int] = set()
    found: set[int] = set()
    for n in postorder(*values(fencil.closures)):
        if any(id(c) in shifted for c in n.children) or (isinstance(n, Call) and n.op == "cartesian_shift"):
            shifted.add(id(n))
        over_points = isinstance(n, Call) and n.op == "reduce" and not n.static.dim.startswith("_NB_")
        if over_points and any(id(c) in shifted for c in n.children[2:]):
            found.add(id(n))
    return frozenset(found)
