"""Operators that reduce, sort, scan or multiply along axes; normalisations and attention."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod, sqrt
from typing import Any

import numpy as np

from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal, operator, scan
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, Scalar
from tensorir.lifting.emission.tensors import cut, neutral, position, shifted, spread
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.elementwise import axes_of, common, converted, element, placed, reduced, total, whole, widened
from tensorir.relax.lift.reshaping import permuted, reshaped
from tensorir.relax.lift.values import Value, apply, dims_of, filled, fold, made, number
from tensorir.relax.operators import named
from tensorir.tir.lift.intrinsics import both, cast, choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered

# Products of tensors: `reduce(+, 0)(A × B)`, which the lowering makes one contraction of.

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.


def computed_in(kind: Scalar) -> Scalar:
    """The element in which products that give an element are summed: integers wrap around, as wide as they are."""
    return kind if kind.is_integer or (kind.is_float and kind.bits >= 32) else FLOAT32


def matmul(x: Value, y: Value, out_dtype: Any = None, transposed: bool = False) -> Value:
    """The product of the last two axes; axes before them broadcast, and one axis is a row or a column."""
    kind = element(out_dtype, x.element)
    inner = computed_in(kind)
    row, column = x.rank == 1, y.rank == 1
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    rows, columns = (() if row else x.shape[-2:-1]), (() if column else (y.shape[-2] if transposed else y.shape[-1],))
    size = x.shape[-1]
    if (y.shape[-1] if column or transposed else y.shape[-2]) != size:
        raise ValueError(f"{x.shape} and {y.shape} do not fit")

    def before(ix: Any, v: Value) -> list[Term]:
        shape = v.shape[:-2]
        batch = ix[: len(lead)][len(lead) - len(shape) :]
        return [Number(0, INT32) if s == 1 else i for i, s in zip(batch, shape, strict=True)]

    def term(ix: Any, further: Any, left: Any, right: Any) -> Term:
        (k,) = further
        a = left(k) if row else left(*before(ix, x), ix[len(lead)], k)
        place = (k,) if column else (*before(ix, y), *((ix[-1], k) if transposed else (k, ix[-1])))
        b = right(*place)
        return op("multiplies", cast(a, inner), cast(b, inner))

    return converted(fold("plus", 0, (*lead, *rows, *columns), {"k": size}, term, x, y), kind)


def _linear(x: Value, weight: Value, bias: Value | None = None, out_dtype: Any = None) -> Value:
    found = matmul(x, weight, out_dtype, transposed=weight.rank > 1)
    return found if bias is None else apply("plus", found, bias)


def _outer(x: Value, y: Value) -> Value:
    return made(
        (*x.shape, *y.shape),
        lambda ix, a, b: op("multiplies", a(*ix[: x.rank]), b(*ix[x.rank :])),
        x,
        y,
    )


def _einsum(operands: Any, subscripts: str) -> Value:
    """A sum of products over the letters that the result lacks."""
    values: tuple[Value, ...] = operands
    inputs, right = named(subscripts, [v.rank for v in values])
    sizes: dict[str, int] = {}
    for value, part in zip(values, inputs, strict=True):
        for letter, size in zip(part, value.shape, strict=True):
            if size != 1 and sizes.get(letter, 1) not in (1, size):
                raise ValueError(f"{letter!r} has the sizes {sizes[letter]} and {size}")
            sizes[letter] = size if size != 1 else sizes.get(letter, 1)
    over = {f"k{c}": size for c, size in sizes.items() if c not in right}
    kind = values[0].element

    def term(ix: Any, further: Any, *reads: Any) -> Term:
        place = {**dict(zip(right, ix, strict=True)), **{n[1:]: i for n, i in zip(over, further, strict=True)}}
        found: Term | None = None
        for read, value, part in zip(reads, values, inputs, strict=True):
            # a dimension of size 1 is the same along a letter of any size
            one = read(*(Number(0, INT32) if s == 1 else place[c] for c, s in zip(part, value.shape, strict=True)))
            found = one if found is None else op("multiplies", found, one)
        assert found is not None
        return found

    shape = [sizes[c] for c in right]
    if not over:
        return made(shape, lambda ix, *reads: term(ix, (), *reads), *values)
    return converted(fold("plus", 0, shape, over, term, *values), kind)


PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "linear": _linear,
    "outer": _outer,
    "einsum": _einsum,
}
"""Sums of products."""

# Operators that reduce, sort or scan along axes.
#
# A reduction folds over the dims that it takes away, one after the other; the dims that stay keep their places.

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.


def mean(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The mean along axes."""
    return apply("divides", total(x, axes, keepdims), float(prod(x.shape[a] for a in axes)))


def variance(x: Value, axes: Sequence[int], keepdims: Any = True) -> Value:
    """The mean of the squares of what the elements differ from their mean."""
    away = apply("minus", x, mean(x, axes))
    return mean(apply("multiplies", away, away), axes, keepdims)


def _fold(name: str) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        if x.element == BOOL:
            x = converted(x, INT32)
            return converted(compute(x, axis, keepdims), BOOL)
        wide = widened(x)
        return converted(reduced(name, neutral(name, wide.element), wide, axes_of(axis, x.rank), keepdims), x.element)

    return compute


def _statistic(make: Callable[[Value, Sequence[int], Any], Value]) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        wide = widened(x) if x.element.is_float else converted(x, FLOAT64)
        return converted(make(wide, axes_of(axis, x.rank), keepdims), x.element)

    return compute


def flat(x: Value) -> Value:
    """The elements in one row."""
    return reshaped(x, (x.size,))


def _best(largest: bool) -> Callable[..., Value]:
    """The first place of the largest (or smallest) element; NaN counts as one."""
    name = "max" if largest else "min"

    def compute(x: Value, axis: Any = None, keepdims: Any = False) -> Value:
        if x.element == BOOL:
            x = converted(x, INT32)
        if axis is None:
            found = compute(flat(x), 0, False)
            return Value(found.expr, (1,) * x.rank if keepdims else ())
        along = x.axis(whole(axis))
        best = reduced(name, neutral(name, x.element), x, (along,), True)

        def place(ix: Any, read: Any, top: Any) -> Term:
            here = truth("eq", read(*ix), top(*ix))
            if x.element.is_float:
                here = truth("or", here, truth("isnan", read(*ix)))
            return choice(here, ix[along], Number(x.shape[along], INT32))

        where = made(x.shape, place, x, best)
        return converted(reduced("min", x.shape[along], where, (along,), keepdims), INT64)

    return compute


def _scan(name: str, first: int) -> Callable[..., Value]:
    def compute(x: Value, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Value:
        x = converted(x, element(dtype, x.element))
        if axis is None:
            x, axis = flat(x), 0
        along = x.axis(whole(axis))
        return scanned(name, first, x, along, bool(exclusive))

    return compute


def scanned(name: str, first: int, x: Value, along: int, exclusive: bool) -> Value:
    """The folds of the elements up to each place along an axis; without its own element where `exclusive`."""
    dim, size = dims_of(x.rank)[along], x.shape[along]
    expr = spread(x.expr, {dim: Interval(0, size)})
    rest = expr.tensor.on(expr.tensor.dims.without(dim))
    found = scan(operator(name, rest, rest), True, literal(first, x.element), expr, dim=dim)
    if exclusive:
        start = filled(number(first, x.element), x.shape).expr
        before = cut(shifted(found, dim, -1), {dim: Interval(min(1, size), size)})
        found = call("update", spread(start, dict(found.tensor.dims.items)), before)
    return Value(found, x.shape)


def ordered(x: Value, along: int, descending: bool) -> tuple[Value, Value]:
    """The elements in order along an axis, and where each was."""
    dim = dims_of(x.rank)[along]
    expr = spread(x.expr, {dim: Interval(0, x.shape[along])})
    wide = call("cast", expr, static=(INT32,)) if x.element == BOOL else expr
    keys = [wide]
    if descending and x.element.is_float:  # NaN is the largest, and comes first
        keys = [call("cast", call("isnan", wide), static=(INT32,)), wide]
    both = call("sort", *keys, position(dim, Interval(0, x.shape[along])), static=(dim, len(keys), descending))
    values, places = (call("tuple_get", both, static=(len(keys) + k,)) for k in (-1, 0))
    found = Value(values, x.shape)
    return (converted(found, BOOL) if x.element == BOOL else found), Value(places, x.shape)


def _sort(x: Value, axis: Any = -1, descending: Any = False) -> Value:
    return ordered(x, x.axis(whole(axis)), bool(descending))[0]


def _argsort(x: Value, axis: Any = -1, descending: Any = False, dtype: Any = "int32") -> Value:
    return converted(ordered(x, x.axis(whole(axis)), bool(descending))[1], element(dtype, INT32))


def _first(x: Value, along: int, count: int) -> Value:
    dim = dims_of(x.rank)[along]
    shape = tuple(count if k == along else s for k, s in enumerate(x.shape))
    return Value(cut(x.expr, {dim: Interval(0, count)}), shape)


def _topk(
    x: Value, k: Any = 1, axis: Any = -1, ret_type: str = "both", largest: Any = True, dtype: Any = "int32"
) -> Any:
    along = x.axis(whole(axis))
    count = min(whole(k), x.shape[along]) if whole(k) > 0 else x.shape[along]
    values, places = (_first(v, along, count) for v in ordered(x, along, bool(largest)))
    places = converted(places, element(dtype, INT32))
    return {"both": (values, places), "values": values, "indices": places}[ret_type]


def softmax(x: Value, along: int, logarithm: bool = False) -> Value:
    """The exponentials along an axis, divided by their sum; or the logarithm of that."""
    if not x.element.is_float:
        raise NotImplementedError(f"the exponential of {x.element}")
    wide = widened(x)
    moved = apply("minus", wide, reduced("max", neutral("max", wide.element), wide, (along,), True))
    powers = apply("exp", moved)
    if logarithm:
        return converted(apply("minus", moved, apply("log", total(powers, (along,)))), x.element)
    return converted(apply("divides", powers, total(powers, (along,))), x.element)


def _median(x: Value, axis: Any = None, keepdims: Any = False) -> Any:
    """The lower median; along one axis also where it is."""
    axes = None if axis is None else axes_of(axis, x.rank)
    if axes is not None and len(axes) > 1:
        raise NotImplementedError("the median over several axes, of which TVM takes the first")
    if not axes:
        row = ordered(flat(x), 0, False)[0]
        return made((), lambda ix, read: read(Number((x.size - 1) // 2, INT32)), row)
    along = axes[0]
    middle = Number((x.shape[along] - 1) // 2, INT32)
    wide = tuple(1 if k == along else s for k, s in enumerate(x.shape))

    def one(v: Value) -> Value:
        found = made(wide, lambda ix, read: read(*ix[:along], middle, *ix[along + 1 :]), v)
        names, kept = dims_of(x.rank), [k for k in range(x.rank) if k != along]
        return found if keepdims else placed(found.expr, [names[k] for k in kept], [wide[k] for k in kept])

    values, places = ordered(x, along, False)
    return one(values), converted(one(places), INT64)


def _bucketize(x: Value, bounds: Value, out_int32: Any = False, right: Any = False) -> Value:
    """The number of bounds below each element (or not above it)."""
    name, kind = "greater_equal" if right else "greater", common(x, bounds)
    x, bounds = converted(x, kind), converted(bounds, kind)

    def below(ix: Any, read: Any, bound: Any) -> Term:
        here = truth(name, read(*ix[:-1]), bound(ix[-1]))
        return choice(here, numbered(1, INT32), numbered(0, INT32))

    ones = made((*x.shape, bounds.size), below, x, bounds)
    return converted(total(ones, (x.rank,), False), INT32 if out_int32 else INT64)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _fold("plus"),
    "prod": _fold("multiplies"),
    "max": _fold("max"),
    "min": _fold("min"),
    "mean": _statistic(mean),
    "variance": _statistic(variance),
    "std": _statistic(lambda x, axes, keep: apply("sqrt", variance(x, axes, keep))),
    "median": _median,
    "argmax": _best(True),
    "argmin": _best(False),
    "cumsum": _scan("plus", 0),
    "cumprod": _scan("multiplies", 1),
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
    "bucketize": _bucketize,
    "nn.softmax": lambda x, axis=-1: softmax(x, x.axis(whole(axis))),
    "nn.log_softmax": lambda x, axis=-1: softmax(x, x.axis(whole(axis)), True),
}
"""Along axes: folds, statistics, places, scans, orders."""

# Normalisations: what networks compose of means and deviations.

# Attributes hold values of any type here.


def _along(weight: Value, axes: Sequence[int], x: Value) -> Value:
    """A weight with an axis for each axis of a tensor."""
    return widened(reshaped(weight, [s if k in axes else 1 for k, s in enumerate(x.shape)]))


def _normal(x: Value, over: Sequence[int], epsilon: float) -> Value:
    away = apply("minus", x, mean(x, over))
    spread = mean(apply("multiplies", away, away), over)
    return apply("divides", away, apply("sqrt", apply("plus", spread, float(epsilon))))


def _scaled(x: Value, like: Value, gamma: Value, beta: Value, axes: Sequence[int]) -> Value:
    found = apply("plus", apply("multiplies", x, _along(gamma, axes, like)), _along(beta, axes, like))
    return converted(found, like.element)


def _rms_norm(x: Value, weight: Value, axes: Any = -1, epsilon: float = 1e-5) -> Value:
    wide, over = widened(x), axes_of(axes, x.rank)
    squares = apply("plus", mean(apply("multiplies", wide, wide), over), float(epsilon))
    scale = apply("divides", filled(number(1, wide.element), ()), apply("sqrt", squares))
    return converted(apply("multiplies", apply("multiplies", scale, wide), _along(weight, over, x)), x.element)


def _layer_norm(x: Value, gamma: Value, beta: Value, axes: Any, epsilon: float = 1e-5, **_: Any) -> Value:
    over = axes_of(axes, x.rank)
    return _scaled(_normal(widened(x), over, epsilon), x, gamma, beta, over)


def _instance_norm(
    x: Value, gamma: Value, beta: Value, channel_axis: int, axes: Any, epsilon: float = 1e-5, **_: Any
) -> Value:
    return _scaled(_normal(widened(x), axes_of(axes, x.rank), epsilon), x, gamma, beta, [x.axis(channel_axis)])


def _group_norm(
    x: Value, gamma: Value, beta: Value, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5, **_: Any
) -> Value:
    channel = x.axis(channel_axis)
    size = x.shape[channel] // num_groups
    apart = reshaped(widened(x), [*x.shape[:channel], num_groups, size, *x.shape[channel + 1 :]])
    others = [a for a in axes_of(axes, x.rank) if a != channel]
    over = sorted({channel + 1, *(a if a < channel else a + 1 for a in others)})
    return _scaled(reshaped(_normal(apart, over, epsilon), x.shape), x, gamma, beta, [channel])


def _batch_norm(
    x: Value, gamma: Value, beta: Value, moving_mean: Value, moving_var: Value, axis: int, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = True,
) -> tuple[Value, Value, Value]:  # fmt: skip
    channel = x.axis(axis)
    others = [k for k in range(x.rank) if k != channel]
    wide = widened(x)
    average, spread = moving_mean, moving_var
    if training:
        average, spread = mean(wide, others, False), variance(wide, others, False)
    deviation = apply("sqrt", apply("plus", _along(spread, [channel], x), float(epsilon)))
    found = apply("divides", apply("minus", wide, _along(average, [channel], x)), deviation)
    found = apply("multiplies", found, _along(gamma, [channel], x)) if scale else found
    found = apply("plus", found, _along(beta, [channel], x)) if center else found
    if training:
        moving_mean = _moved(moving_mean, average, momentum)
        moving_var = _moved(moving_var, spread, momentum)
    return converted(found, x.element), moving_mean, moving_var


def _moved(old: Value, new: Value, momentum: float) -> Value:
    kept = apply("multiplies", widened(old), 1 - momentum)
    return converted(apply("plus", kept, apply("multiplies", new, momentum)), old.element)


NORMALISATION: dict[str, Callable[..., Any]] = {
    "nn.rms_norm": _rms_norm,
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.batch_norm": _batch_norm,
    "nn.dropout": lambda x, rate=0.5: (x, filled(number(1, x.element), x.shape)),
}
"""Means and deviations taken out."""

# Attention: scores of queries and keys weigh values, for one sequence or for several that lie one behind the other.

# Attributes hold values of any type here.


def _scores(query: Value, key: Value, scale: Any, window_size: Any) -> Value:
    """Scores of each query and key, in float32 at least: batch, heads, queries, keys."""
    if window_size is not None:
        raise NotImplementedError("a window of attention")
    q, k = (permuted(widened(a), (0, 2, 1, 3)) for a in (query, key))
    factor = 1 / sqrt(q.shape[-1]) if scale is None else float(scale)
    return apply("multiplies", matmul(q, k, transposed=True), factor)


def _weighed(weights: Value, value: Value, like: Value) -> Value:
    found = matmul(weights, permuted(widened(value), (0, 2, 1, 3)))
    return converted(permuted(found, (0, 2, 1, 3)), like.element)


def _attention(
    query: Value, key: Value, value: Value, bias: Value | None = None, scale: Any = None, causal_mask: Any = None,
    window_size: Any = None,
) -> Value:  # fmt: skip
    """Batch, sequence, heads, features."""
    heads = [x.shape[2] for x in (query, key, value)]
    if len(set(heads)) > 1:
        raise ValueError("there are {} heads of queries, {} of keys and {} of values".format(*heads))
    scores = _scores(query, key, scale, window_size)
    if bias is not None:
        scores = apply("plus", scores, widened(bias))
    if causal_mask is not None:
        rows, columns = scores.shape[-2:]
        ahead = Number(0 if str(causal_mask) == "TopLeft" else abs(columns - rows), INT32)
        masked = scores
        scores = made(
            masked.shape,
            lambda ix, read: choice(
                truth("less_equal", ix[-1], op("plus", ix[-2], ahead)), read(*ix), numbered(-inf, masked.element)
            ),
            masked,
        )
    return _weighed(softmax(scores, 3), value, query)


def _attention_of_several(
    query: Value, key: Value, value: Value, starts_q: Value, longest_q: Any = None, starts_k: Value | None = None,
    longest_k: Any = None, scale: Any = None, causal_mask: Any = None, window_size: Any = None,
) -> Value:  # fmt: skip
    """Attention of sequences along the second dimension: data tell where each starts, and masks keep them apart."""
    del longest_q, longest_k
    scores = _scores(query, key, scale, window_size)
    starts_k = starts_q if starts_k is None else starts_k
    count = starts_q.shape[0] - 1
    rows, columns = scores.shape[-2:]
    of_q, of_k = (_sequences(starts, size) for starts, size in ((starts_q, rows), (starts_k, columns)))
    edge = _attention_first if str(causal_mask) == "TopLeft" else _last
    edges = [edge(starts, size) for starts, size in ((starts_q, rows), (starts_k, columns))]
    has = fold(
        "max", 0, (rows,), {"k": columns}, lambda ix, k, q, kk: cast(truth("eq", q(*ix), kk(*k)), INT32), of_q, of_k
    )

    def allowed(ix: Any, read: Any, q: Any, k: Any, row: Any, column: Any, some: Any) -> Term:
        i, j = ix[-2], ix[-1]
        near = truth("eq", q(i), k(j))
        if causal_mask is not None:
            near = both(near, truth("less_equal", op("minus", j, column(j)), op("minus", i, row(i))))
        alone = truth("eq", some(i), Number(0, INT32))  # without any key nothing is masked, and nothing counts
        return choice(op("or", near, alone), read(*ix), numbered(-inf, scores.element))

    weights = softmax(made(scores.shape, allowed, scores, of_q, of_k, *edges, has), 3)

    def counted(ix: Any, read: Any, q: Any, some: Any) -> Term:
        inside = both(truth("less", q(ix[-2]), Number(count, INT32)), truth("greater", some(ix[-2]), Number(0, INT32)))
        return choice(inside, read(*ix), numbered(0, weights.element))

    return _weighed(made(weights.shape, counted, weights, of_q, has), value, query)


def _sequences(starts: Value, size: int) -> Value:
    """The number of the sequence that each element belongs to."""

    def term(ix: Any, s: Any, read: Any) -> Term:
        return cast(truth("greater_equal", ix[0], _start(read, op("plus", s[0], Number(1, INT32)))), INT32)

    return fold("plus", 0, (size,), {"s": starts.shape[0] - 1}, term, starts)


def _attention_first(starts: Value, size: int) -> Value:
    """The start of the sequence of each element."""

    def term(ix: Any, s: Any, read: Any) -> Term:
        start = _start(read, s[0])
        return choice(truth("less_equal", start, ix[0]), start, Number(0, INT32))

    return fold("max", 0, (size,), {"s": starts.shape[0]}, term, starts)


def _last(starts: Value, size: int) -> Value:
    """The end of the sequence of each element: the start of the next one."""

    def term(ix: Any, s: Any, read: Any) -> Term:
        start = _start(read, s[0])
        return choice(truth("greater", start, ix[0]), start, Number(size, INT32))

    return fold("min", size, (size,), {"s": starts.shape[0]}, term, starts)


def _start(read: Any, s: Term) -> Term:
    return cast(read(s), INT32)


ATTENTION: dict[str, Callable[..., Any]] = {
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "nn.attention_var_len": _attention_of_several,
}
"""Scores that weigh values."""
