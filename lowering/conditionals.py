"""Lowering of cond: the function that is taken is computed, checked and differentiated, and the other one is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from lowering.context import Check, Context, no_failures
from lowering.manual_axes import axes_of, varying
from lowering.structure import selected
from lowering.tracing import concrete, op_by_op
from lowering.values import Dense, Leaf, Value, aligned, cut, dense, everywhere, joined_dims, presence, with_present
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import Dims, bcast

__all__ = ["cond"]


def cond(context: Context, node: Call, args: Sequence[Any]) -> Value:
    """Result k of a conditional; the other results of the same functions are known then, too."""
    index, speculative = node.static
    key = (speculative, *map(id, args))
    if key not in context.loops:
        context.loops[key] = args, _results(context, node, args, speculative)
    return context.loops[key][1][index]


def _results(context: Context, node: Call, args: Sequence[Any], speculative: bool) -> list[Value]:
    first, second, condition, *operands = args
    (leaf,) = condition
    truth = dense(leaf).data
    needs = [bcast([a, b]) for a, b in zip(*(f.type.results for f in _functions(node)), strict=True)]
    if op_by_op() and concrete(truth):
        found = context.apply_each(first if truth else second, *operands)
    elif op_by_op() or speculative:
        inner = [context.inner() for _ in (first, second)]
        pairs = zip(*(c.apply_each(f, *operands) for c, f in zip(inner, (first, second), strict=True)), strict=True)
        found = [selected(condition, a, b, need) for (a, b), need in zip(pairs, needs, strict=True)]
        for branch, holds in zip(inner, (truth, lax.bitwise_not(truth)), strict=True):
            context.checks += branch.checks
            taken = lax.broadcast_in_dim(holds, (2,), ())
            none = no_failures(branch.checks)
            context.failures += [lax.select(taken, f, n) for f, n in zip(branch.failures, none, strict=True)]
    else:
        found = _conditional(context, truth, [_traced(context, f, operands, needs) for f in (first, second)], needs)
    return [_under(leaf, value, need) for value, need in zip(found, needs, strict=True)]


def _functions(node: Call) -> tuple[Any, Any]:
    return node.args[0], node.args[1]


@dataclass(frozen=True, slots=True)
class _Branch:
    """A function of a conditional, traced once: the leaves of its results in a row, and the checks they make."""

    closed: ClosedJaxpr
    counts: tuple[int, ...]
    """How many leaves each result has."""
    dims: tuple[Dims, ...]
    masked: tuple[bool, ...]
    checks: list[Check]


def _traced(context: Context, function: Bound[Value], operands: Sequence[Value], needs: Sequence[Dims]) -> _Branch:
    inner = context.inner()
    dims: list[Dims] = []
    masked: list[bool] = []
    counts: list[int] = []

    def run() -> list[jax.Array]:
        results = inner.apply_each(function, *operands)
        leaves = [dense(cut(leaf, need)) for value, need in zip(results, needs, strict=True) for leaf in value]
        counts.extend(map(len, results))
        dims.extend(leaf.dims for leaf in leaves)
        masked.extend(leaf.present is not None for leaf in leaves)
        masks = [aligned(leaf.present, leaf.dims) for leaf in leaves if leaf.present is not None]
        return [*(leaf.data for leaf in leaves), *masks, *inner.failures]

    closed = jax.make_jaxpr(run)()
    return _Branch(closed, tuple(counts), tuple(dims), tuple(masked), inner.checks)


def _conditional(context: Context, truth: jax.Array, branches: Sequence[_Branch], needs: Sequence[Dims]) -> list[Value]:
    counts = branches[0].counts
    places = [need for need, count in zip(needs, counts, strict=True) for _ in range(count)]
    dims = [joined_dims([a, b], need) for a, b, need in zip(*(b.dims for b in branches), places, strict=True)]
    masked = [any(pair) for pair in zip(*(b.masked for b in branches), strict=True)]

    def run(k: int) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        branch = branches[k]
        count = len(branch.dims)
        flat = jaxpr_as_fun(branch.closed)()
        data, rest = flat[:count], iter(flat[count:])
        masks = [Dense(next(rest), d) if m else everywhere() for d, m in zip(branch.dims, branch.masked, strict=True)]
        failures = list(rest)
        return (
            [aligned(Dense(a, own), d) for a, own, d in zip(data, branch.dims, dims, strict=True)],
            [aligned(m, d) for m, d, is_masked in zip(masks, dims, masked, strict=True) if is_masked],
            [f for j, b in enumerate(branches) for f in (failures if j == k else no_failures(b.checks))],
        )

    # within a mesh both branches vary over what either does
    axes = axes_of([b.closed.out_avals for b in branches])
    data, masks, failures = lax.cond(truth, lambda: varying(run(0), axes), lambda: varying(run(1), axes))
    for branch in branches:
        context.checks += branch.checks
    context.failures += failures
    present = iter(masks)
    leaves = iter(
        [Dense(a, d, Dense(next(present), d) if m else None) for a, d, m in zip(data, dims, masked, strict=True)]
    )
    return [tuple(next(leaves) for _ in range(count)) for count in counts]


def _under(condition: Leaf, value: Value, need: Dims) -> Value:
    """The value, absent where the condition is."""
    return tuple(with_present(leaf, presence(condition), need) for leaf in value)
