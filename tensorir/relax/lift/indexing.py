"""Operators that read or write at computed indices; a negative index counts from the end, one outside is an error."""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorir.ir.build import call, function, literal, operator, var
from tensorir.ir.nodes import Function
from tensorir.ir.types import BOOL, INT32, INT64, Scalar, TensorType
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.interpret.elements import SHAPES
from tensorir.relax.lift.elementwise import as_value, common, converted, element, known, total, whole
from tensorir.relax.lift.reductions import REDUCTIONS, flat, scanned
from tensorir.relax.lift.reshaping import reshaped
from tensorir.relax.lift.values import HOME, Shape, Value, apply, constant, dims_of, filled, made, under
from tensorir.tir.lift.intrinsics import cast, choice, op, truth
from tensorir.tir.lift.intrinsics import number as numbered


def _roomy(index: Term) -> Term:
    """An index in a type that holds the sizes of axes too."""
    return cast(index, INT32) if index.element.bits < 32 else index


def _from_end(index: Term, size: int) -> Term:
    """An index that counts from the end where it is negative."""
    index = _roomy(index)
    if index.element.kind == "uint":
        return index
    moved = op("plus", index, numbered(size, index.element))
    return choice(truth("less", index, numbered(0, index.element)), moved, index)


def picked(x: Value, along: int, places: np.ndarray[Any, Any]) -> Value:
    """The elements at places along an axis that are known when the program is built."""
    dim = dims_of(x.rank)[along]
    shape = tuple(len(places) if k == along else s for k, s in enumerate(x.shape))
    if dim not in x.expr.tensor.dims:
        return Value(x.expr, shape)
    index = under(constant(places.astype(np.int32), "place").expr, {dims_of(1)[0]: dim})
    return Value(call("gather", x.expr, index, static=((dim,), "clamp")), shape)


def _take(x: Value, indices: Any, axis: Any = None, mode: str = "fast") -> Value:
    if axis is None:
        x, axis = flat(x), 0
    at, along = as_value(indices), x.axis(whole(axis))
    size = x.shape[along]

    def term(ix: Any, read: Any, where: Any) -> Term:
        i = _roomy(where(*ix[along : along + at.rank]))
        if mode == "clip":
            inside: Term = op("max", op("min", i, numbered(size - 1, i.element)), numbered(0, i.element))
        elif mode == "wrap":
            inside = op("mod", i, numbered(size, i.element))
        else:
            inside = i if mode == "nan" else _from_end(i, size)
        rest = (*ix[:along], inside, *ix[along + at.rank :])
        if mode != "nan":
            return read(*rest)
        low, high = truth("greater_equal", inside, numbered(0, i.element)), numbered(size, i.element)
        valid = op("and", low, truth("less", inside, high))
        return choice(valid, read(*rest), Number(float("nan"), x.element))

    return made((*x.shape[:along], *at.shape, *x.shape[along + 1 :]), term, x, at)


def _gather_elements(x: Value, indices: Value, axis: Any = 0) -> Value:
    along = x.axis(whole(axis))

    def term(ix: Any, read: Any, where: Any) -> Term:
        return read(*ix[:along], _from_end(where(*ix), x.shape[along]), *ix[along + 1 :])

    return made(indices.shape, term, x, indices)


def _gather_nd(x: Value, indices: Value, batch_dims: Any = 0) -> Value:
    depth, lead, batch = indices.shape[-1], indices.rank - 1, whole(batch_dims)

    def term(ix: Any, read: Any, where: Any) -> Term:
        at = [_from_end(where(*ix[:lead], Number(k, INT32)), x.shape[batch + k]) for k in range(depth)]
        return read(*ix[:batch], *at, *ix[lead:])

    return made((*indices.shape[:-1], *x.shape[batch + depth :]), term, x, indices)


def _common(indices: Value | Sequence[Value], x: Value) -> tuple[list[Value], tuple[int, ...]]:
    """Indices of the leading axes on their common shape; a tensor alone is that of the first."""
    indices = (indices,) if isinstance(indices, Value) else indices
    if any(i.element == BOOL for i in indices):
        raise NotImplementedError("a mask as an index, whose number of elements only the data tell")
    shape = np.broadcast_shapes(*(i.shape for i in indices))
    return [filled(i, shape) for i in indices], shape


def _index_tensor(x: Value, indices: Any) -> Value:
    at, shape = _common(indices, x)

    def term(ix: Any, read: Any, *where: Any) -> Term:
        places = [_from_end(w(*ix[: len(shape)]), s) for w, s in zip(where, x.shape, strict=False)]
        return read(*places, *ix[len(shape) :])

    return made((*shape, *x.shape[len(at) :]), term, x, *at)


def _combine(reduction: str, kind: Scalar) -> Function:
    one = TensorType(kind)
    builtin = {"add": "plus", "mul": "multiplies", "max": "max", "min": "min"}.get(reduction)
    if builtin is not None:
        return operator(builtin, one, one)
    home = HOME.get()
    old, new = (var(home.fresh(name), one) for name in ("old", "new"))
    if reduction == "update":
        return function([old, new], new)
    if reduction == "mean":
        return function([old, new], call("divides", call("plus", old, new), literal(2, kind)))
    raise NotImplementedError(f"the reduction {reduction!r}")


def scattered(data: Value, places: Sequence[Value], updates: Value, reduction: str) -> Value:
    """Updates put at places of the leading axes, in the order in which they stand; the other axes are those of data."""
    home = HOME.get()
    home.unchecked = True
    lead = updates.rank - (data.rank - len(places))
    dims, over = dims_of(data.rank), tuple(f"p{k}" for k in range(lead))
    own = {n: (over[k] if k < lead else dims[k - lead + len(places)]) for k, n in enumerate(dims_of(updates.rank))}
    indices = [under(p.whole(), dict(zip(dims_of(p.rank), over, strict=True))) for p in places]
    found = call(
        "scatter",
        _combine(reduction, data.element),
        data.whole(),
        *indices,
        under(updates.whole(), own),
        static=(dims[: len(places)], over, "checked" if home.checked else "zero"),
    )
    return Value(found, data.shape)


def _scatter_elements(data: Value, indices: Value, updates: Value, axis: Any = 0, reduction: str = "update") -> Value:
    along = data.axis(whole(axis))
    places: list[Value] = []
    for k in range(data.rank):
        if k == along:
            places.append(made(indices.shape, lambda ix, r: _from_end(r(*ix), data.shape[along]), indices))
        else:
            places.append(made(indices.shape, lambda ix, k=k: ix[k]))
    return scattered(data, places, filled(updates, indices.shape), reduction)


def _scatter_nd(data: Value, indices: Value, updates: Value, reduction: str = "update") -> Value:
    places = [
        made(indices.shape[:-1], lambda ix, r, k=k: _from_end(r(*ix, Number(k, INT32)), data.shape[k]), indices)
        for k in range(indices.shape[-1])
    ]
    return scattered(data, places, updates, reduction)


def _index_put(data: Value, indices: Any, values: Value, accumulate: Any = False) -> Value:
    at, shape = _common(indices, data)
    places = [made(shape, lambda ix, r, s=s: _from_end(r(*ix), s), p) for p, s in zip(at, data.shape, strict=False)]
    updates = filled(values, (*shape, *data.shape[len(at) :]))
    return scattered(data, places, updates, "add" if accumulate else "update")


def _one_hot(indices: Value, on: Any, off: Any, depth: Any, axis: Any = -1) -> Value:
    yes = as_value(on)
    no = as_value(off, yes.element)
    along = whole(axis) % (indices.rank + 1)

    def term(ix: Any, where: Any, a: Any, b: Any) -> Term:
        i = _roomy(where(*ix[:along], *ix[along + 1 :]))
        return choice(truth("eq", i, cast(ix[along], i.element)), a(), b())

    shape = list(indices.shape)
    shape.insert(along, whole(depth))
    return made(shape, term, indices, yes, converted(no, yes.element))


def _reverse(x: Value, lengths: Value, seq_axis: Any = 1, batch_axis: Any = 0) -> Value:
    along, row = x.axis(whole(seq_axis)), x.axis(whole(batch_axis))

    def term(ix: Any, read: Any, length: Any) -> Term:
        until = cast(length(ix[row]), INT32)
        turned = op("minus", op("minus", until, Number(1, INT32)), ix[along])
        at = choice(truth("less", ix[along], until), turned, ix[along])
        return read(*ix[:along], at, *ix[along + 1 :])

    return made(x.shape, term, x, lengths)


def _nll(
    predictions: Value, targets: Value, weights: Value | None = None, reduction: str = "mean",
    ignore_index: Any = -100,
) -> Value:  # fmt: skip
    """Minus the predictions of the targets, weighed by class; targets to be ignored count nothing."""
    classes = predictions.shape[0 if predictions.rank == 1 else 1]
    given = filled(as_value(1, predictions.element), (classes,)) if weights is None else weights
    ignored = whole(ignore_index)

    def parts(ix: Any, target: Any) -> tuple[Term, Term]:
        t = _roomy(target(*ix))
        kept = truth("not_eq", t, numbered(ignored, t.element))
        return kept, choice(kept, t, numbered(0, t.element))

    def share_of(ix: Any, target: Any, weight: Any) -> Term:
        kept, safe = parts(ix, target)
        return choice(kept, weight(safe), numbered(0, predictions.element))

    def chosen(ix: Any, read: Any, target: Any) -> Term:
        _, safe = parts(ix, target)
        return read(*ix[:1], safe, *ix[1:])

    share = made(targets.shape, share_of, targets, given)
    loss = apply("multiplies", apply("neg", made(targets.shape, chosen, predictions, targets)), share)
    if reduction == "none":
        return loss
    axes = range(targets.rank)
    summed = total(loss, axes, False)
    return summed if reduction == "sum" else apply("divides", summed, total(share, axes, False))


def _cross_entropy(predictions: Value, labels: Value) -> Value:
    product = apply("multiplies", predictions, labels)
    batch = predictions.shape[0] if predictions.rank > 1 else 1
    return apply("divides", apply("neg", total(product, range(product.rank), False)), float(batch))


def _multinomial(prob: Value, samples: Value, rows: Value, dtype: Any = "int64") -> Value:
    """For every sample the first place at which the probabilities of its row, added up, exceed it."""
    totals, where, wanted = scanned("plus", 0, prob, 1, False), flat(rows), flat(samples)
    kind = common(prob, samples)

    def term(ix: Any, read: Any, row: Any, sample: Any) -> Term:
        total = read(_from_end(row(ix[0]), prob.shape[0]), ix[1])
        exceeds = truth("greater", cast(total, kind), cast(sample(ix[0]), kind))
        return choice(exceeds, numbered(1, INT32), numbered(0, INT32))

    hits = made((rows.size, prob.shape[1]), term, totals, where, wanted)
    return reshaped(converted(REDUCTIONS["argmax"](hits, 1), element(dtype, INT64)), rows.shape)


def _layout(x: Value, index_map: Any, pad_value: Any = None, **_: Any) -> Value:
    """Every element moves to where the map sends its index; which those are follows from the sizes alone."""
    numbers = np.arange(1, x.size + 1, dtype=np.int64).reshape(x.shape)
    source: np.ndarray[Any, Any] = SHAPES["layout_transform"](numbers, index_map, 0)
    found = picked(flat(x), 0, source.reshape(-1) - 1 if source.all() else np.maximum(source.reshape(-1) - 1, 0))
    found = reshaped(found, source.shape)
    if source.all():
        return found
    padding = as_value(0 if pad_value is None else known(pad_value), x.element)
    return apply("if", constant(source != 0, "present"), found, padding)


def _shape_to_tensor(shape: Shape) -> Value:
    return constant(np.asarray(tuple(shape), np.int64), "shape")


INDEXING: dict[str, Callable[..., Any]] = {
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "index_put": _index_put,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "one_hot": _one_hot,
    "reverse_sequence": _reverse,
    "nn.nll_loss": _nll,
    "nn.cross_entropy_with_logits": _cross_entropy,
    "multinomial_from_uniform": _multinomial,
    "layout_transform": _layout,
    "shape_to_tensor": _shape_to_tensor,
}
"""At computed indices, and the losses that read so."""
