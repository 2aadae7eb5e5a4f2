"""Folds over windows of several dims: over the window of one dim after the other.

The largest of 3 × 3 elements is the largest of three in a row, of the largest of three in a column: 4 comparisons a
point in the place of 8, and 6 strided slices in the place of 9 ("max-pool" in `tests/benchmarks/lift.py`, and in
`compile_time.py` there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowering.context import Context, Pool
from lowering.folds import MOST_UNROLLED
from lowering.raising.reductions import literal_of
from lowering.raising.windows import Coordinate, coordinate
from lowering.reduction import identity_of
from lowering.values import Value, cut
from tensorir.build import call, literal, operator, reduce
from tensorir.ir import Call, Expr, Fencil, Operator
from tensorir.types import DTYPES, Scalar, TensorType
from tensorir.walk import postorder, values

__all__ = ["apart", "pooled", "pools"]


def pools(fencil: Fencil) -> dict[int, Pool]:
    """The folds over windows of several dims in a program, by identity."""
    nodes = (n for n in postorder(*values(fencil.closures)) if isinstance(n, Call))
    return {id(n): found for n in nodes if (found := apart(n)) is not None}


def pooled(context: Context, node: Call, args: Sequence[Any]) -> Value | None:
    """A fold over windows, one dim after the other; nothing of the fold as it is written was computed yet."""
    pool = context.pools.get(id(node))
    if pool is None or (context.exact and pool.op == "plus"):
        return None
    value = context.apply(replace(args[-1], root=pool.steps[-1]))
    context.absorbed([id(step) for step in pool.steps])
    return tuple(cut(leaf, node.tensor.dims) for leaf in value)


def apart(node: Call) -> Pool | None:
    """A fold over windows of several dims, the dim that is furthest apart in memory first; None for any other.

    >>> from tensorir.text import parse
    >>> f = parse('''f(out: tensor<float, Y[0:4], X[0:5]>, a: tensor<float, J[0:9], I[0:11]>) {
    ...   out ← let y = add_dim(Y, 0, 4, 0); let x = add_dim(X, 0, 5, 0); let r = add_dim(R, 0, 3, 0);
    ...         let s = add_dim(S, 0, 2, 0);
    ...         reduce(max, -1.0, R)(reduce(max, float(-inf), S)(
    ...           gather(J, I, clamp)(a, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }''')
    >>> print(apart(f.closures[0].value).steps[-1])
    let y = add_dim(Y, 0, 4, 0);
    let r = add_dim(R, 0, 3, 0);
    let x = add_dim(X, 0, 5, 0);
    let s = add_dim(S, 0, 2, 0);
    reduce(max, -1.0, S)(
      gather(I, clamp)(
        reduce(max, -inf, R)(gather(J, clamp)(a, 2 × pos(Y, y) + pos(R, r))),
        2 × pos(X, x) + pos(S, s)
      )
    )
    """
    folds = _folds(node)
    if folds is None or not isinstance(folds.of, Call) or folds.of.op != "gather":
        return None
    x, *indices = folds.of.args
    names, mode = folds.of.static
    axes: dict[str, _Axis] = {}
    used = set(x.tensor.dims.without(*names).names)
    for name, index in zip(names, indices, strict=True):
        c = coordinate(index)
        if c is None or not _inside(c, x, name) or used & set(c.terms) or set(c.terms) & (set(names) - {name}):
            return None
        windows = [d for d in c.terms if d in folds.starts]
        if len(windows) > 1 or any(len(c.intervals[d]) > MOST_UNROLLED for d in windows):
            return None
        used |= set(c.terms)
        axes[name] = _Axis(index, windows[0] if windows else None)
    if not set(folds.starts) <= {axis.window for axis in axes.values()}:
        return None
    return Pool(folds.op, _steps(node, folds, x, axes, mode))


@dataclass(frozen=True, slots=True)
class _Folds:
    """Folds by one operation right around each other: dims and what each starts from, the outermost first."""

    op: str
    starts: dict[str, Expr]
    of: Expr


@dataclass(frozen=True, slots=True)
class _Axis:
    """What an axis is read at, and which dim of it is folded."""

    index: Expr
    window: str | None


def _steps(node: Call, folds: _Folds, x: Expr, axes: Mapping[str, _Axis], mode: str) -> tuple[Call, ...]:
    """Gathers of one axis and folds over its window, by turns; the axes that have none come first."""
    steps: list[Expr] = []
    plain = tuple(n for n, axis in axes.items() if axis.window is None)
    if plain:
        x = call("gather", x, *(axes[n].index for n in plain), static=(plain, mode))
        steps.append(x)
    order = [n for n in x.tensor.dims.names if n in axes]
    for n in order:
        read = call("gather", x, axes[n].index, static=((n,), mode))
        rest = read.tensor.on(read.tensor.dims.without(axes[n].window or ""))
        last = n == order[-1]
        start = next(iter(folds.starts.values())) if last else _nothing(folds.op, node.tensor)
        state = TensorType(node.tensor.element, node.tensor.dims) if last else rest
        x = reduce(operator(folds.op, state, rest), start, read, dim=axes[n].window, span=node.span)
        steps += [read, x]
    return tuple(s for s in steps if isinstance(s, Call))


def _folds(node: Call) -> _Folds | None:
    """The folds that a fold is the outermost of, if the inner ones add nothing by what they start from."""
    match node:
        case Call("reduce", (Operator(op), init, x), (dim,)) if op in ("max", "min", "plus"):
            starts = {dim: init}
        case _:
            return None
    nothing = literal_of(_nothing(op, node.tensor))
    while True:
        match x:
            case Call("reduce", (Operator(inner), init, y), (dim,)) if (
                inner == op and dim not in starts and literal_of(init) == nothing
            ):
                starts[dim], x = init, y
            case _:
                return _Folds(op, starts, x) if len(starts) > 1 else None


def _nothing(op: str, kind: TensorType) -> Expr:
    """What a fold starts from that adds nothing."""
    element = kind.element
    assert isinstance(element, Scalar)
    return literal(identity_of(op, DTYPES[element]).item(), element)


def _inside(c: Coordinate, x: Expr, name: str) -> bool:
    low, high = c.range
    return all(c.intervals.values()) and low >= x.tensor.dims[name].start and high < x.tensor.dims[name].stop
