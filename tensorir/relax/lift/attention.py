"""Attention: scores of queries and keys weigh values, for one sequence or for several that lie one behind the other."""

# Attributes hold values of any type here.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

from tensorir.ir.types import INT32
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.elementwise import converted, widened
from tensorir.relax.lift.products import matmul
from tensorir.relax.lift.reductions import softmax
from tensorir.relax.lift.reshaping import permuted
from tensorir.relax.lift.values import Value, apply, fold, made
from tensorir.tir.lift.intrinsics import both, cast, choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered

__all__ = ["ATTENTION"]


def _scores(query: Value, key: Value, scale: Any, window_size: Any) -> Value:
    """How much each query asks for each key, in float32 at least: batch, heads, queries, keys."""
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
    edge = _first if str(causal_mask) == "TopLeft" else _last
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


def _first(starts: Value, size: int) -> Value:
    """Where the sequence of each element starts."""

    def term(ix: Any, s: Any, read: Any) -> Term:
        start = _start(read, s[0])
        return choice(truth("less_equal", start, ix[0]), start, Number(0, INT32))

    return fold("max", 0, (size,), {"s": starts.shape[0]}, term, starts)


def _last(starts: Value, size: int) -> Value:
    """Where the sequence after that of each element starts."""

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
