"""Folds by an operation whose order is free, as reductions of an axis.

`λ(a, x...) → a ⊕ e(x...)` with ⊕ one of `MONOIDS`: what is folded is computed for all levels at once, and XLA reduces
it in the order that it likes. Short folds stay unrolled: XLA fuses them with what they are made of and used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context, first_of, masks_of
from lowering.elementwise import SCALAR
from lowering.folds import unrolls
from lowering.indirect import combiner
from lowering.reduction import MONOIDS, by_rows, identity_of, parts_pay, reduced, reduced_in_parts, reduced_numbers
from lowering.scan_carry import Levels, counted, levels_of, within_state
from lowering.values import Dense, Value, aligned, cut, dense, elementwise, presence, with_present
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Lambda, Literal, Var
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import DTYPES, Dims, TensorType

__all__ = ["along_axis", "literal_of", "mapped", "monoid"]


def monoid(function: Any, count: int) -> tuple[str, Expr | None] | None:
    """The operation and the mapped expression of a fold λ(a, x...) → a ⊕ e(x...), None for any other."""
    match function:
        case Lambda((a, *_), (Call(op, (x, e)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case Lambda((a, *_), (Call(op, (e, x)),)) if op in MONOIDS and x == a and a not in e.free:
            return op, e
        case _:
            op = combiner(function) if count == 1 else None
            return (op, None) if op in MONOIDS else None


def literal_of(e: Expr) -> Any:
    """The number that an expression is at all of its points, None where that is not plain."""
    while isinstance(e, Call) and e.op == "add_dim":
        e = e.args[0]
    return e.value if isinstance(e, Literal) else None


def _folded(node: Call) -> tuple[Any, ...]:
    """The dim that a fold goes over, its interval, and which arguments have it."""
    dim = node.static.dim
    having = [dim in a.tensor.dims for a in node.args[2:]]
    interval = next(a.tensor.dims[dim] for a, has in zip(node.args[2:], having, strict=True) if has)
    return dim, interval, having


def along_axis(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A fold of one array by one operation, as a reduction of the axis where it stands: moving it costs a copy."""
    f, init, *values = args
    dim, interval, _ = _folded(node)
    fold = monoid(f.function, len(values))
    if fold is None or fold[1] is not None or len(values) != 1 or len(init) != 1 or presence(init[0]) is not None:
        return None
    (leaf,) = values[0]
    if not isinstance(leaf, Dense) or leaf.present is not None or dim not in leaf.dims:
        return None
    if unrolls(context, node, len(interval)):
        return None
    state: Dims = f.function.type.params[0].dims
    part = dense(cut(leaf, Dims(((dim, interval), *((n, state[n]) for n in leaf.dims.names if n != dim)))))
    first = literal_of(node.args[1])
    within = first is not None and first == first and TABLE[fold[0]].idempotent
    start = np.array(first if within else identity_of(fold[0], part.data.dtype), part.data.dtype)
    made = not isinstance(node.args[2], Var)
    axis = part.dims.names.index(dim)
    known = context.provenance.with_nan(leaf)
    stencil = id(node) in context.known.stencil_reductions and "sums_as_loops" not in context.without
    if stencil and known is None and parts_pay(part.data, axis, context.platform):
        total = reduced_in_parts(part.data, start, fold[0], axis, context.platform, context.loose)
    elif known is None:
        total = reduced(part.data, start, fold[0], axis, context.platform, context.loose, made)
    else:
        source = aligned(dense(cut(known[0], part.dims)), part.dims)
        if id(node) in context.known.unseen:
            total = reduced(source, start, fold[0], axis, context.platform, True, made)
        else:
            total = reduced_numbers(source, known[1], start, fold[0], axis, context.platform)
    folded = Dense(total, part.dims.without(dim))
    # XLA fuses what follows with the reduction itself: a softmax in 0.8 of the time
    whole = folded if within else elementwise(SCALAR[fold[0]], [init[0], folded], state)
    return (cut(whole, node.tensor.dims),)


def mapped(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A fold whose order is free, as one XLA reduction of what is folded."""
    f, init, *values = args
    dim, interval, having = _folded(node)
    fold = monoid(f.function, len(values)) if len(init) == 1 else None
    if fold is None or unrolls(context, node, len(interval)):
        return None
    state: TensorType = f.function.type.params[0]
    levels = levels_of(values, dim, interval)
    if not any(levels.axes) and by_rows(DTYPES[state.leaves[0]], state.dims.size, False, context.platform):
        # step by step nothing but the rows themselves is read
        return None
    outside = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    result = _at_once(context, f, init, levels, having, fold, state, len(interval))
    for mask in outside:
        result = tuple(with_present(leaf, within_state(mask, state.dims), node.tensor.dims) for leaf in result)
    return tuple(cut(leaf, node.tensor.dims) for leaf in result)


def _at_once(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool],
    fold: tuple[str, Expr | None], state: TensorType, count: int,
) -> Value:  # fmt: skip
    """A fold whose order is free, as one XLA reduction of what is folded."""
    op, mapped = fold
    inner = context.inner()

    def one(arrays: list[jax.Array]) -> tuple[Dense, list[jax.Array]]:
        values = levels.rebuild(arrays)
        keep = counted(values, having)
        if mapped is None:
            (item,) = values[0]
        else:
            assert isinstance(f.function, Lambda)
            function = Lambda(f.function.params[1:], (mapped,))
            (item,) = inner.apply(Bound(function, f.env), *values)
        item = dense(item)
        data, dims = item.data, item.dims
        if keep is not None:
            dims = Dims(tuple((n, state.dims[n]) for n in dict.fromkeys([*item.dims.names, *dense(keep).dims.names])))
            data = aligned(Dense(item.data, item.dims), dims)
            data = lax.select(aligned(dense(keep), dims), data, lax.full_like(data, identity_of(op, data.dtype)))
        elif item.present is not None:
            raise AssertionError("an item is absent only where its slot is")
        return Dense(data, dims), inner.failures

    items, failures = jax.vmap(one, in_axes=(levels.axes,), axis_size=count)(levels.arrays)
    for check, failed in zip(inner.checks, failures, strict=True):
        context.checks.append(check)
        context.failures.append(first_of(failed))
    start = identity_of(op, items.data.dtype)
    folded = reduced(items.data, start, op, 0, context.platform, context.loose)
    return (elementwise(SCALAR[op], [init[0], Dense(folded, items.dims)], state.dims),)
