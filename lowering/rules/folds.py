"""Lowering of reduce, scan and sort, and of reductions of one axis in a form that is right and fast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax

from lowering.context import Context, conjunction, first_failures, masks_of, no_failures
from lowering.rules.carried import (
    Levels,
    all_dims,
    along,
    counted,
    levels_of,
    masked_leaves,
    settled,
    survey,
    within_state,
)
from lowering.rules.elementwise import SCALAR
from lowering.rules.loops import loop
from lowering.tracing import axes_of, scanned, varying
from lowering.values import (
    Dense,
    Leaf,
    Slots,
    Value,
    aligned,
    cut,
    dense,
    elementwise,
    everywhere,
    presence,
    select_slot,
    with_present,
)
from tensorir.integers.dims import Dims
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Literal, Operator
from tensorir.ir.rewrite import Bound
from tensorir.ir.types import DTYPES, Scalar, TensorType, scalar_of

# Reductions of one axis in a form in which XLA is right, and fast.
#
# On the CPU, XLA gives reductions of 4,096 floats or more to a library (JAX 0.10.2). Its `max` and `min` drop NaN,
# and where there are tens of thousands of columns it goes through them one by one: a product with ones, or a loop
# over the rows, takes 0.02 to 0.09 of the time (`tests/benchmarks/forms.py`).

MONOIDS: dict[str, Callable[..., jax.Array]] = {
    "plus": lax.add, "multiplies": lax.mul, "min": lax.min, "max": lax.max, "and": lax.bitwise_and,
    "or": lax.bitwise_or, "xor": lax.bitwise_xor, "bit_and": lax.bitwise_and, "bit_or": lax.bitwise_or,
    "bit_xor": lax.bitwise_xor,
}  # fmt: skip
"""The lowering of the builtins that may be folded in any order."""


def identity_of(op: str, dtype: Any) -> np.ndarray[Any, Any]:
    """The identity of a builtin of `MONOIDS`, as an array without axes.

    >>> identity_of("min", np.dtype("int8")), identity_of("max", np.dtype("float32"))
    (array(127, dtype=int8), array(-inf, dtype=float32))
    """
    identity, element = TABLE[op].identity, scalar_of(dtype)
    assert identity is not None and element is not None
    return np.asarray(identity(element)).astype(dtype)


LIBRARY = 4_096
"""Elements from which on XLA uses the library."""
COLUMNS = 1_024
"""Columns of an array in memory from which on a loop over the rows is faster than the library."""
MADE = 8_192
"""The same for an array that is made: the library makes it while it reduces it."""


PARTS = (8, 6, 5, 7, 4)
"""Into how many parts an axis is divided that are combined point by point; the first one also where a rest is left."""


def reduced(
    x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int, platform: str, loose: bool = False,
    computed: bool = True,
) -> jax.Array:  # fmt: skip
    """An array reduced along an axis by an operation of `MONOIDS`, starting each row from `start`, a number and no
    NaN.

    `platform`: of JAX, compiled for. `loose`: `max` and `min` may drop a NaN. `computed`: the array is fused into the
    reduction, and not read from memory. Many columns are combined row by row on the CPU; extremes get their NaNs back
    (`_with_nan`).
    """
    if by_rows(x.dtype, prod(x.shape[axis + 1 :]), computed, platform):
        return _by_rows(x, start, op, axis)
    extremes = _reduced(x, start, op, axis)
    return extremes if loose or not _library_may_drop_nan(x, op, platform) else _with_nan(x, extremes, axis)


def parts_pay(x: jax.Array, axis: int, platform: str) -> bool:
    """True if the CPU reduces a computed array of floats faster in parts (`reduced_in_parts`) than by its library."""
    return x.dtype.kind in "fV" and x.size >= LIBRARY and x.shape[axis] >= 2 * PARTS[0] and platform == "cpu"


def reduced_in_parts(
    x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int, platform: str, loose: bool = False
) -> jax.Array:
    """As `reduced`: parts of the axis are combined point by point and stored, and then the stored array is reduced.

    XLA computes the operand of a library reduction without vector instructions, on one thread: this takes 0.4 of the
    time for a sum of squares of a Laplacian (`python -m tests.benchmarks sum`). A sum is differentiated as a sum.

    >>> reduced_in_parts(jax.numpy.ones((3, 21)), identity_of("plus", np.dtype("float32")), "plus", 1, "cpu").tolist()
    [21.0, 21.0, 21.0]
    """
    extent, combine, zero = x.shape[axis], SCALAR[op], np.zeros((), x.dtype)
    count = next((p for p in PARTS if extent % p == 0), PARTS[0])
    size = extent // count

    def folded(x: jax.Array) -> jax.Array:
        """The reduction in parts; a remainder of the axis is combined at the end."""
        parts = [lax.slice_in_dim(x, k * size, (k + 1) * size, axis=axis) for k in range(count)]
        stored = lax.optimization_barrier(functools.reduce(combine, parts))
        folded_parts = reduced(stored, start, op, axis, platform, loose, computed=False)
        remainder = [lax.index_in_dim(x, k, axis, keepdims=False) for k in range(size * count, extent)]
        return functools.reduce(combine, remainder, folded_parts)

    if op != "plus":
        return folded(x)
    sum_with_jvp = jax.custom_jvp(folded)
    sum_with_jvp.defjvp(lambda xs, ts: (sum_with_jvp(*xs), lax.reduce(ts[0], zero, lax.add, (axis,))))
    return sum_with_jvp(x)


def reduced_numbers(
    x: jax.Array, number: Any, start: np.ndarray[Any, Any], op: str, axis: int, platform: str
) -> jax.Array:
    """As `reduced`, of the array with `number` in the place of each NaN.

    For extremes by the library the NaNs are replaced only if there are any, found at run time.
    """

    def instead() -> jax.Array:
        """The array with the number in the place of each NaN."""
        return lax.select(lax.ne(x, x), lax.full_like(x, number), x)

    if not _library_may_drop_nan(x, op, platform) or by_rows(x.dtype, prod(x.shape[axis + 1 :]), True, platform):
        return reduced(instead(), start, op, axis, platform, loose=True)
    # the library takes no selections: one would be stored first, which takes a third of a softmax
    total = _reduced(x, start, op, axis)
    return lax.cond(_may_hold_nan(x), lambda: _reduced(instead(), start, op, axis), lambda: total)


def _reduced(x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int) -> jax.Array:
    """An array reduced by the library; the derivative of an extreme is the mean over the elements that equal it.

    JAX differentiates a reduction from a number other than the identity by halving the axis again and again, which
    XLA compiles for seconds, and its own extremes divide by how many elements equal them: by zero where one is NaN.
    """

    def library(x: jax.Array) -> jax.Array:
        """The reduction by `lax.reduce`."""
        return lax.reduce(x, start, MONOIDS[op], (axis,))

    if op not in ("min", "max") or x.dtype.kind not in "fV":
        return library(x)
    extreme = jax.custom_jvp(library)

    @extreme.defjvp
    def _(xs: tuple[jax.Array], ts: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        """JVP of an extreme: the mean of tangents over the elements that equal it."""
        value, zero = extreme(*xs), np.zeros((), x.dtype)
        equal = lax.eq(xs[0], lax.broadcast_in_dim(value, x.shape, [k for k in range(x.ndim) if k != axis]))
        total = lax.reduce(lax.select(equal, ts[0], lax.full_like(ts[0], 0)), zero, lax.add, (axis,))
        count = lax.reduce(equal.astype(x.dtype), zero, lax.add, (axis,)) + lax.eq(value, start).astype(x.dtype)
        return value, lax.div(total, lax.max(count, lax.full_like(count, 1)))

    return extreme(x)


def _library_may_drop_nan(x: jax.Array, op: str, platform: str) -> bool:
    """True if x is reduced by the CPU's library, whose `max` and `min` may drop a NaN."""
    return op in ("min", "max") and x.dtype.kind in "fV" and x.size >= LIBRARY and platform == "cpu"


def by_rows(element: Any, columns: int, computed: bool, platform: str) -> bool:
    """True if rows of so many columns are faster combined one after the other than by the CPU's library."""
    return np.dtype(element).kind in "fV" and columns >= (MADE if computed else COLUMNS) and platform == "cpu"


def _by_rows(x: jax.Array, start: np.ndarray[Any, Any], op: str, axis: int) -> jax.Array:
    """The reduction row by row: a product with ones for a sum, else a loop over rows."""
    combine = SCALAR[op]
    start_row = varying(lax.full([n for k, n in enumerate(x.shape) if k != axis], start, x.dtype), axes_of(x))
    if op == "plus" and x.dtype.itemsize > 2:
        total = lax.dot_general(lax.full(x.shape[axis : axis + 1], 1, x.dtype), x, (((0,), (axis,)), ((), ())))
        return total if start == 0 else lax.add(start_row, total)
    return lax.fori_loop(
        0, x.shape[axis], lambda k, a: combine(a, lax.dynamic_index_in_dim(x, k, axis, keepdims=False)), start_row
    )


def _with_nan(x: jax.Array, extremes: jax.Array, axis: int) -> jax.Array:
    """The extremes of rows, NaN where a row holds one; rows are searched only if the array may hold one."""

    def looked() -> jax.Array:
        """The extremes, after a search of each row for a NaN."""
        missing = lax.reduce(lax.ne(x, x), False, lax.bitwise_or, (axis,))
        return lax.select(missing, lax.full_like(extremes, np.nan), extremes)

    return lax.cond(_may_hold_nan(x), looked, lambda: extremes)


def _may_hold_nan(x: jax.Array) -> jax.Array:
    """True if the sum of all elements is NaN, as it is if an element is; a sum takes no longer than an extreme."""
    total = lax.reduce(x, np.zeros((), x.dtype), lax.add, tuple(range(x.ndim)))
    return lax.ne(total, total)


# Lowering of reduce, scan and sort, step by step; `raising` has the forms that are faster.

MOST_UNROLLED = 32
"""Longer folds run as XLA reductions or loops: unrolling costs compile time."""


def unrolls(context: Context, node: Call, levels: int) -> bool:
    """True if a fold over so many levels is written out step by step; `context` may switch that off."""
    return levels <= 1 or context.chooses("unrolled_folds", node, levels <= MOST_UNROLLED, levels)


# reduce


def reduce(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    """The fold of a reduction: unrolled if it is short, else a loop; absent where an argument without the dim is."""
    f, init, *values = lowered
    (dim,) = node.static
    state, need = f.function.type.params[0], node.type.dims
    types = [a.tensor.dims for a in node.args[2:]]
    interval = next(t[dim] for t in types if dim in t)
    having = [dim in t for t in types]
    masks_without_dim = [m for v, has in zip(values, having, strict=True) if not has for m in masks_of(v)]
    if unrolls(context, node, len(interval)):
        result = init
        for point in interval:
            slot_values = [tuple(select_slot(leaf, dim, point) for leaf in v) for v in values]
            if result is init and _adds_nothing(node) and _is_whole(slot_values, state):
                (result,) = slot_values
            else:
                result = _step(context, f, result, slot_values, having, state)
    else:
        result = _as_loop(context, f, init, levels_of(values, dim, interval), having, state, len(interval))
    for mask in masks_without_dim:
        result = tuple(with_present(leaf, within_state(mask, state.dims), need) for leaf in result)
    return tuple(cut(leaf, need) for leaf in result)


def _adds_nothing(node: Call) -> bool:
    """True if a fold by max or min starts from its identity, so that the first element can be the first state."""
    match node.args:
        case (Operator("max" | "min" as op), Literal(value), _):
            element = node.tensor.element
            if not isinstance(element, Scalar) or not (element.is_float or element.is_integer):
                return False
            return identity_of(op, DTYPES[element]).item() == value
        case _:
            return False


def _is_whole(slot_values: Sequence[Value], state: TensorType) -> bool:
    """True if the values of a slot are present and have all dims of the state, so that they can be the state."""
    leaves = [leaf for v in slot_values for leaf in v]
    return all(
        isinstance(x, Dense) and x.present is None and set(x.dims.names) == set(state.dims.names) for x in leaves
    )


def _step(
    context: Context, f: Bound[Value], accumulator: Value, slot_values: Sequence[Value], having: Sequence[bool],
    state: TensorType,
) -> Value:  # fmt: skip
    """One step of the fold: the function of accumulator and slot, skipped where an argument that has the dim is
    absent.

    `slot_values`: the arguments at one slot. `having`: per argument, whether it has the dim. `state`: the accumulator's
    type.
    """
    keep = counted(slot_values, having)
    if keep is None:
        return context.apply(f, accumulator, *slot_values)
    keep = within_state(keep, state.dims)
    # arguments keep the slot's mask, which guards gradients all through the body, and is used up at its end
    places = [p.dims for p in f.function.type.params[1:]]
    shielded = [
        tuple(_shielded(leaf, keep, place) for leaf in a) if has else a
        for a, has, place in zip(slot_values, having, places, strict=True)
    ]
    new = context.apply(f, accumulator, *shielded)
    return tuple(_selected_by(keep, n, old, state.dims) for n, old in zip(new, accumulator, strict=True))


def _shielded(leaf: Leaf, keep: Leaf, place: Dims) -> Leaf:
    """The leaf under the mask `keep` of its slot, folded by "or" along dims that its type `place` lacks.

    A leaf with more points than the mask, which the body may read, keeps its own mask.
    """
    if any(n in keep.dims and not keep.dims[n].covers(i) for n, i in leaf.dims.items):
        return leaf
    mask = along(keep, place, lax.bitwise_or)
    return with_present(_unmasked(leaf), mask, all_dims([leaf, mask]))


def _selected_by(keep: Leaf, new: Leaf, old: Leaf, need: Dims) -> Leaf:
    """`new` where `keep` is true, `old` elsewhere, with the mask of the one selected."""
    chosen = elementwise(lax.select, [keep, _unmasked(new), _unmasked(old)], need)
    old_mask, new_mask = presence(old), presence(new)
    if _is_same_data(new_mask, keep):
        new_mask = None
    if old_mask is None and new_mask is None:
        return chosen
    mask = elementwise(lax.select, [keep, new_mask or everywhere(), old_mask or everywhere()], need)
    return with_present(chosen, mask, need)


def _is_same_data(a: Leaf | None, b: Leaf) -> bool:
    """True if two leaves are the same arrays."""
    if isinstance(a, Slots) and isinstance(b, Slots):
        return len(a.leaves) == len(b.leaves) and all(
            _is_same_data(x, y) for x, y in zip(a.leaves, b.leaves, strict=True)
        )
    return isinstance(a, Dense) and isinstance(b, Dense) and a.data is b.data and a.dims.items == b.dims.items


def _unmasked(leaf: Leaf) -> Leaf:
    if isinstance(leaf, Dense):
        return replace(leaf, present=None)
    return replace(leaf, leaves=tuple(_unmasked(x) for x in leaf.leaves))


def _as_loop(
    context: Context, f: Bound[Value], init: Value, levels: Levels, having: Sequence[bool], state: TensorType,
    count: int,
) -> Value:  # fmt: skip
    """The fold as a `lax.scan` over `count` levels; carries masks for the leaves that become absent in any step.

    Failures of checks in a step are added to the context, the first of all steps.
    """
    arrays = levels.leading()
    first_level = [lax.index_in_dim(a, 0, keepdims=False) for a in arrays]

    def step(inner: Context, carried: Value, level: Sequence[jax.Array]) -> Value:
        """One step of the fold at a level."""
        return _step(inner, f, carried, levels.rebuild(level), having, state)

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        """Per carried tensor, the leaves that are masked after a step, from those before."""
        return [masked_leaves(step(inner, settled(init, state, masked[0]), first_level))]

    (masked,), checks = survey(context, [masked_leaves(init)], step_masks)

    def body(carry: Any, level: Sequence[jax.Array]) -> Any:
        """The carry after a level: the state and the failures of checks so far."""
        carried, failed = carry
        inner = context.inner()
        new = settled(step(inner, carried, level), state, masked)
        return (new, first_failures(failed, inner.failures_of(checks))), None

    start = (settled(init, state, masked), no_failures(checks))
    (result, failed), _ = scanned(body, start, arrays, count)
    context.checks += checks
    context.failures += failed
    return result


# scan


def scan(context: Context, node: Call, lowered: Sequence[Any]) -> Value:
    """The states of a scan as a `lax.scan` over its levels, which are moved outermost unless the choice is switched
    off.
    """
    f, init, *values = lowered
    forward, dim = node.static
    state = f.function.type.params[0]
    interval = node.type.dims[dim]
    dims = Dims(((dim, interval), *state.dims.items))
    if not len(interval):
        return tuple(Dense(lax.full(dims.shape, 0, dense(leaf).data.dtype), dims) for leaf in init)
    # the scanned dim outermost: innermost is twice as slow (docs/lowering.md, "Scans")
    levels = levels_of(values, dim, interval)
    copied = sum(a.nbytes for a, axis in zip(levels.arrays, levels.axes, strict=True) if axis)
    outermost = context.chooses("scans_outermost", node, True, copied, copied)
    first_level = [lax.index_in_dim(a, 0, x, keepdims=False) for a, x in zip(levels.arrays, levels.axes, strict=True)]

    def step_masks(inner: Context, masked: list[list[bool]]) -> list[list[bool]]:
        """Per carried tensor, the leaves that are masked after a step, from those before."""
        return [masked_leaves(inner.apply(f, settled(init, state, masked[0]), *levels.rebuild(first_level)))]

    (masked,), checks = survey(context, [masked_leaves(init)], step_masks)

    def body(carry: Any, level: Any) -> Any:
        """The carry after a level, and the state there."""
        carried, failed = carry
        inner = context.inner()
        level_values = level if outermost else levels.at(level)
        new = settled(inner.apply(f, carried, *levels.rebuild(level_values)), state, masked)
        return (new, first_failures(failed, inner.failures_of(checks))), new

    start = (settled(init, state, masked), no_failures(checks))
    xs = levels.leading() if outermost else lax.iota("int32", len(interval))
    (_, failed), states = scanned(body, start, xs, len(interval), not forward)
    context.checks += checks
    context.failures += failed
    return tuple(Dense(s.data, dims, None if s.present is None else Dense(s.present.data, dims)) for s in states)


# sort


def sort(context: Context, node: Call, values: Sequence[Value]) -> Value:
    """The operands sorted along a dim, stably, by the first `keys` of them; a row with an absent element is absent."""
    dim, keys, descending = node.static
    dims = node.type.dims
    order = Dims((*dims.without(dim).items, (dim, dims[dim])))
    arrays = [aligned(dense(v[0]), order) for v in values]
    if descending:
        # keys whose ascending order is the descending order of these; NaN stays last
        reversed_keys = [lax.neg(a) if a.dtype.kind in "fV" else lax.bitwise_not(a) for a in arrays[:keys]]
        ordered = lax.sort([*reversed_keys, *arrays], dimension=len(order) - 1, is_stable=True, num_keys=keys)[keys:]
    else:
        ordered = lax.sort(arrays, dimension=len(order) - 1, is_stable=True, num_keys=keys)
    mask = conjunction([m for v in values for m in masks_of(v)], order)
    present = None
    if mask is not None:
        # which elements were absent is lost in the order: the whole row is
        full_mask = aligned(dense(mask), order)
        row = lax.reduce(full_mask, True, lax.bitwise_and, (len(order) - 1,))
        present = Dense(row, order.without(dim))
    return tuple(Dense(a, order, present) for a in ordered)


FOLDS: dict[str, Callable[[Context, Call, Sequence[Any]], Value]] = {
    "reduce": reduce,
    "scan": scan,
    "loop": loop,
    "sort": sort,
}
