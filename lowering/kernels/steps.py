"""Steps that are repeated: their state is carried in the layout that the kernels of a step want.

It is turned before the first step and after the last, and not in each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from lowering.kernels.layouts import Layout, in_order
from lowering.kernels.primitive import bound, kernels
from lowering.kernels.program import flattened


def repeated(step: Callable[[Any], Any], state: Any, n: Any) -> Any:
    """The state after n steps, a pytree of arrays."""
    flat, tree = jax.tree_util.tree_flatten(state)
    closed = jax.make_jaxpr(lambda *xs: jax.tree_util.tree_leaves(step(tree.unflatten(xs))))(*flat)
    if not _is_of_kernels(closed.jaxpr):
        return lax.fori_loop(0, n, lambda _, s: step(s), state)
    given = closed.consts
    layout = Layout(flattened(_explicit(closed)), repeated=True)
    turned = [in_order(x, order) for x, order in zip([*given, *flat], layout.entries, strict=True)]
    program, count = layout.program, len(given)
    last = lax.fori_loop(0, n, lambda _, xs: bound(program, [*turned[:count], *xs]), turned[count:])
    back = [[order.index(k) for k in range(len(order))] for order in layout.entries[count:]]
    return tree.unflatten([in_order(x, axes) for x, axes in zip(last, back, strict=True)])


def _is_of_kernels(jaxpr: Jaxpr) -> bool:
    """True if a step does nothing besides what may be in kernels: of other programs nobody knows whether it may be."""
    inner = [e.params["jaxpr"].jaxpr for e in jaxpr.eqns if e.primitive.name in ("jit", "pjit")]
    rest = [e for e in jaxpr.eqns if e.primitive.name not in ("jit", "pjit")]
    return bool(jaxpr.eqns) and all(e.primitive is kernels for e in rest) and all(map(_is_of_kernels, inner))


def _explicit(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that takes the arrays that it knew as its first inputs."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), [])
