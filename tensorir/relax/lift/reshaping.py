"""Operators that move elements without choosing among them: reshape, transpose, join, split, repeat, pad, flip."""

# Attributes hold values of any type here, and comprehensions get readers of as many tensors as they name.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from tensorir.integers.dims import Interval
from tensorir.ir.build import call
from tensorir.ir.nodes import Expr
from tensorir.ir.types import INT32
from tensorir.lifting.emission.tensors import cut, shifted, spread
from tensorir.lifting.nests.terms import Number, Term
from tensorir.relax.lift.elementwise import axes_of, total, whole
from tensorir.relax.lift.values import Value, dims_of, filled, made, number, under
from tensorir.tir.lift.intrinsics import choice, op, truth


def without_ones(x: Value) -> Expr:
    """The tensor without its dims of size 1."""
    zero = Number(0, INT32)
    if not any(n in x.expr.tensor.dims and s == 1 for n, s in zip(dims_of(x.rank), x.shape, strict=True)):
        return x.expr
    return made(
        x.shape, lambda ix, read: read(*(zero if s == 1 else i for i, s in zip(ix, x.shape, strict=True))), x
    ).expr


def reshaped(x: Value, shape: Sequence[int]) -> Value:
    """The same elements in row-major order on another shape: dims merged and split where they do not stay."""
    new = tuple(int(s) for s in shape)
    if prod(new) != x.size:
        raise ValueError(f"{x.size} elements do not fit the shape {new}")
    if not x.size:
        return filled(number(0, x.element), new)
    old_dims = [(n, s) for n, s in zip(dims_of(x.rank), x.shape, strict=True) if s != 1]
    new_dims = [(n, s) for n, s in zip(dims_of(len(new)), new, strict=True) if s != 1]
    groups = _groups([s for _, s in old_dims], [s for _, s in new_dims])
    expr = without_ones(x)
    a = b = 0
    final: dict[str, str] = {}
    for count, into in groups:
        olds, news = old_dims[a : a + count], new_dims[b : b + into]
        a, b = a + count, b + into
        names = [n for n, _ in olds]
        if not any(n in expr.tensor.dims for n in names):
            continue
        if count > 1 or into > 1:
            expr = spread(expr, {n: Interval(0, size) for n, size in olds})
        current = names[0]
        for name in names[1:]:
            expr = call("merge_dims", expr, static=(current, name, current))
        for k, (n, _) in enumerate(news[:-1]):
            outer, inner = f"new_{n}", f"{current}_"
            expr = call("split_dim", expr, static=(current, outer, inner, prod(s for _, s in news[k + 1 :])))
            final[outer] = n
            current = inner
        final[current] = news[-1][0]
    return Value(under(expr, final), new)


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Groups of old and of new sizes with one product, from the front, as numbers of sizes."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old):
        a, b, start, begin = old[i], new[j], i, j
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        found.append((i - start, j - begin))
    return found


def permuted(x: Value, axes: Sequence[int]) -> Value:
    """The axes in another order."""
    old, new = dims_of(x.rank), dims_of(x.rank)
    names = {old[a]: new[k] for k, a in enumerate(axes)}
    return Value(under(x.expr, names), tuple(x.shape[a] for a in axes))


def cut_from(x: Value, starts: Sequence[int], sizes: Sequence[int]) -> Value:
    """A part of each axis."""
    dims, expr = dims_of(x.rank), x.expr
    for d, start, size in zip(dims, starts, sizes, strict=True):
        expr = shifted(cut(expr, {d: Interval(start, start + size)}), d, start)
    return Value(expr, tuple(sizes))


def padded(x: Value, sides: Sequence[tuple[int, int]], value: Any) -> Value:
    """More of one value around each axis; less where a width is negative."""
    starts = [max(-a, 0) for a, _ in sides]
    inner = [s - t - max(-b, 0) for s, t, (_, b) in zip(x.shape, starts, sides, strict=True)]
    x = cut_from(x, starts, inner)
    sides = [(max(a, 0), max(b, 0)) for a, b in sides]
    if not any(a or b for a, b in sides):
        return x
    shape = tuple(a + s + b for s, (a, b) in zip(x.shape, sides, strict=True))
    around = {d: Interval(0, s) for d, s in zip(dims_of(x.rank), shape, strict=True)}
    base = spread(number(value, x.element).expr, around)
    expr = x.whole()
    for d, (a, _) in zip(dims_of(x.rank), sides, strict=True):
        expr = shifted(expr, d, -a)
    return Value(call("update", base, expr), shape)


def _permute(x: Value, axes: Any = None) -> Value:
    order = range(x.rank)[::-1] if axes is None else [x.axis(whole(a)) for a in axes]
    return permuted(x, list(order))


def _reshape(x: Value, shape: Any) -> Value:
    sizes = [x.shape[k] if s == 0 and x.size else int(s) for k, s in enumerate(shape)]
    if -1 in sizes:
        known = prod(s for s in sizes if s != -1)
        sizes[sizes.index(-1)] = x.size // known if known else 0
    return reshaped(x, sizes)


def _collapse(x: Value, shape: Sequence[int]) -> Value:
    """Sums away what broadcasting to the shape of x would have repeated."""
    found = total(x, range(x.rank - len(shape)), False) if x.rank > len(shape) else x
    return total(found, [k for k, s in enumerate(shape) if s == 1 and found.shape[k] != 1])


def _expand(x: Value, axis: Any) -> Value:
    named = axis if isinstance(axis, tuple | list) else (axis,)
    rank = x.rank + len(named)
    new = {whole(a) % rank for a in named}
    rest = iter(x.shape)
    return reshaped(x, [1 if k in new else next(rest) for k in range(rank)])


def _squeeze(x: Value, axis: Any = None) -> Value:
    named = range(x.rank) if axis is None else axes_of(axis, x.rank)
    gone = [k for k in named if x.shape[k] == 1]
    return reshaped(x, [s for k, s in enumerate(x.shape) if k not in gone])


def joined(parts: Sequence[Value], along: int) -> Value:
    """Tensors one behind the other along an axis."""
    some = [p for p in parts if p.shape[along]] or list(parts[:1])
    dim, start = dims_of(some[0].rank)[along], 0
    pieces: list[Expr] = []
    for p in some:
        pieces.append(shifted(p.whole(), dim, -start))
        start += p.shape[along]
    shape = tuple(start if k == along else s for k, s in enumerate(some[0].shape))
    return Value(call("concat", *pieces) if len(pieces) > 1 else pieces[0], shape)


def _concat(tensors: Any, axis: Any = 0) -> Value:
    return joined(tensors, tensors[0].axis(0 if axis is None else whole(axis)))


def _stack(tensors: Any, axis: Any = 0) -> Value:
    return joined([_expand(t, axis) for t in tensors], whole(axis) % (tensors[0].rank + 1))


def _split(x: Value, indices_or_sections: Any, axis: Any = 0) -> Value | tuple[Value, ...]:
    """The parts; one part is no tuple."""
    along = x.axis(whole(axis))
    length = x.shape[along]
    if isinstance(indices_or_sections, tuple):
        inner = [min(max(whole(i), 0), length) for i in indices_or_sections]
    else:
        count = whole(indices_or_sections)
        size = -(-length // count)
        inner = [min(k * size, length) for k in range(1, count)]
    if not inner:
        return x
    ends = [0, *inner, length]
    parts: list[Value] = []
    for start, stop in pairwise(ends):
        sizes = [max(stop - start, 0) if k == along else s for k, s in enumerate(x.shape)]
        parts.append(cut_from(x, [start if k == along else 0 for k in range(x.rank)], sizes))
    return tuple(parts)


def _tile(x: Value, repeats: Any) -> Value:
    counts = [whole(repeats)] if not isinstance(repeats, tuple | list) else [whole(r) for r in repeats]
    rank = max(len(counts), x.rank)
    counts = [1] * (rank - len(counts)) + counts
    x = reshaped(x, [1] * (rank - x.rank) + list(x.shape))
    apart = [n for c, s in zip(counts, x.shape, strict=True) for n in (c, s)]
    spaced = reshaped(x, [n for s in x.shape for n in (1, s)])
    return reshaped(filled(spaced, apart), [c * s for c, s in zip(counts, x.shape, strict=True)])


def _repeat(x: Value, repeats: Any, axis: Any = None) -> Value:
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    along, count = x.axis(whole(axis)), whole(repeats)
    lead, rest = list(x.shape[: along + 1]), list(x.shape[along + 1 :])
    wide = filled(reshaped(x, [*lead, 1, *rest]), [*lead, count, *rest])
    return reshaped(wide, [s * count if k == along else s for k, s in enumerate(x.shape)])


def _flip(x: Value, axis: Any) -> Value:
    turned = axes_of(axis, x.rank)

    def term(ix: Any, read: Any) -> Term:
        return read(*(op("minus", Number(x.shape[k] - 1, INT32), i) if k in turned else i for k, i in enumerate(ix)))

    return made(x.shape, term, x)


def sliced(x: Value, ranges: Sequence[range]) -> Value:
    """Every so many elements of each axis, from either end."""

    def term(ix: Any, read: Any) -> Term:
        steps = [
            op("plus", op("multiplies", i, Number(r.step, INT32)), Number(r.start, INT32))
            for i, r in zip(ix, ranges, strict=True)
        ]
        return read(*steps)

    shape = tuple(len(r) for r in ranges)
    if 0 in shape:
        return filled(number(0, x.element), shape)
    if all(r.step == 1 for r in ranges):
        return cut_from(x, [r.start for r in ranges], shape)
    return made(shape, term, x)


def _strided_slice(
    x: Value, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: Any = False
) -> Value:
    ranges = [range(s) for s in x.shape]
    steps = [1] * len(axes) if strides is None else strides
    for axis, start, stop, step in zip(axes, begin, end, steps, strict=True):
        along = x.axis(whole(axis))
        size, by = x.shape[along], whole(step)
        low, high = (v if v >= 0 else v + size for v in (whole(start), whole(stop)))
        last = None if by < 0 and high < 0 else max(high, 0)
        ranges[along] = range(size)[slice(max(low, 0), last, by)]
    return sliced(x, ranges)


def _pad(x: Value, pad_width: Any, pad_mode: str = "constant", pad_value: Any = 0.0) -> Value:
    widths = [whole(v) for v in pad_width]
    sides = list(zip(widths[::2], widths[1::2], strict=True))
    if pad_mode == "constant":
        return padded(x, sides, pad_value)
    for along, (a, b) in enumerate(sides):
        before, after = _around(x, along, a, b, pad_mode)
        x = joined([before, x, after], along)
    return x


def _around(x: Value, along: int, a: int, b: int, mode: str) -> tuple[Value, Value]:
    """Padding before and behind an axis, made of its own elements."""
    size = x.shape[along]

    def part(*span: int) -> Value:
        return sliced(x, [range(*span) if k == along else range(s) for k, s in enumerate(x.shape)])

    def many(at: int, count: int) -> Value:
        return filled(part(at, at + 1), [count if k == along else s for k, s in enumerate(x.shape)])

    match mode:
        case "reflect" if a < size and b < size:
            return part(a, 0, -1), part(size - 2, size - 2 - b, -1)
        case "circular" if a <= size and b <= size:
            return part(size - a, size), part(0, b)
        case "replicate":
            return many(0, a), many(size - 1, b)
        case _:
            raise NotImplementedError(f"the mode {mode} by more than the size of an axis")


def _pixel_shuffle(x: Value, upscale_factor: Any) -> Value:
    r = whole(upscale_factor)
    *lead, c, h, w = x.shape
    parts = reshaped(x, [*lead, c // (r * r), r, r, h, w])
    n = len(lead)
    moved = permuted(parts, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshaped(moved, [*lead, c // (r * r), h * r, w * r])


def _meshgrid(tensors: Any, indexing: str = "ij") -> tuple[Value, ...]:
    sizes = [t.size for t in tensors]
    count = len(sizes)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    shape = [sizes[k] for k in order]
    return tuple(filled(reshaped(t, [t.size if j == k else 1 for j in order]), shape) for k, t in enumerate(tensors))


def _slice_scatter(x: Value, src: Value, start: Any, end: Any, step: Any, axis: Any = 0) -> Value:
    """The second tensor at every so many places of the first."""
    along = x.axis(whole(axis))
    places = range(x.shape[along])[slice(whole(start), whole(end), whole(step))]
    if not places:
        return x

    def term(ix: Any, read: Any, new: Any) -> Term:
        away = op("minus", ix[along], Number(places[0], INT32))
        by = Number(places.step, INT32)
        inside = truth("greater_equal", away, Number(0, INT32))
        inside = truth("and", inside, truth("less_equal", ix[along], Number(places[-1], INT32)))
        if places.step != 1:
            inside = truth("and", inside, truth("eq", op("mod", away, by), Number(0, INT32)))
        at = op("floordiv", away, by)
        return choice(inside, new(*ix[:along], at, *ix[along + 1 :]), read(*ix))

    return made(x.shape, term, x, src)


RESHAPING: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "flatten": lambda x: reshaped(x, (x.size,)),
    "nn.batch_flatten": lambda x: reshaped(x, (x.shape[0], prod(x.shape[1:]))),
    "broadcast_to": lambda x, shape: filled(x, shape),
    "collapse_sum_to": _collapse,
    "collapse_sum_like": lambda x, target: _collapse(x, target.shape),
    "permute_dims": _permute,
    "expand_dims": _expand,
    "squeeze": _squeeze,
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "tile": _tile,
    "repeat": _repeat,
    "flip": _flip,
    "strided_slice": _strided_slice,
    "slice_scatter": _slice_scatter,
    "meshgrid": _meshgrid,
    "nn.pad": _pad,
    "nn.pixel_shuffle": _pixel_shuffle,
}
"""Elements moved, joined and repeated."""
