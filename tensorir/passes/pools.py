"""Folds over windows of several dims: over the window of one dim after the other.

The largest of 3 × 3 elements is the largest of three in a row, of the largest of three in a column: 4 comparisons a
point in the place of 8, and 6 strided slices in the place of 9 ("max-pool" in `tests/benchmarks/lift.py`, and in
`compile_time.py` there).

Inner folds by max or min over long or strided windows are kept in memory: as a fold of slices, a backend would make
each of them anew wherever the next fold reads it. A window of 5 × 5 takes 0.4 of the time so, one of 3 × 3 with a
stride of 2 takes 0.6 to 1.3 (three shapes; "pools" in `tests/benchmarks/forms.py`), and compiles in 0.85 ("max-pool" in
`compile_time.py` there). Shorter ones gain nothing, nor do windows that lie side by side (7 × 7 with a stride of 7
would take 1.2 to 1.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorir.analysis.affine_indices import AffineIndex, affine_index
from tensorir.ir.build import call, literal, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal, Operator
from tensorir.ir.rewrite import postorder, rebuild, use_counts, values, with_values
from tensorir.ir.types import Interval, Scalar, TensorType
from tensorir.passes.base import Pass, remade
from tensorir.passes.decisions import Threshold

__all__ = ["Pools"]

MOST_POINTS = 32
"""Points of a window up to which it is folded by slices."""
LONG, STRIDED = 5, 3
"""Points of a window from which on an inner fold is kept: at every point of the axis, and at some of them."""


@dataclass(frozen=True)
class Pools(Pass):
    """A fold by max, min or + over windows of several dims becomes folds over one dim after the other.

    The dim that is furthest apart in memory comes first. Sums are added in another order; without `sums` they stay.

    >>> from tensorir.passes.show import show
    >>> show(Pools(), '''f(out: tensor<float, Y[0:4], X[0:5]>, a: tensor<float, J[0:9], I[0:11]>) {
    ...   out ← let y = add_dim(Y, 0, 4, 0); let x = add_dim(X, 0, 5, 0); let r = add_dim(R, 0, 3, 0);
    ...         let s = add_dim(S, 0, 2, 0);
    ...         reduce(max, -1.0, R)(reduce(max, float(-inf), S)(
    ...           gather(J, I, clamp)(a, 2 × pos(Y, y) + pos(R, r), 2 × pos(X, x) + pos(S, s)))); }''')
    f(out: tensor<float, Y[0:4], X[0:5]>, a: tensor<float, J[0:9], I[0:11]>) {
      out ←
        let y = add_dim(Y, 0, 4, 0);
        let r = add_dim(R, 0, 3, 0);
        let x = add_dim(X, 0, 5, 0);
        let s = add_dim(S, 0, 2, 0);
        reduce(max, -1.0, S)(
          gather(I, clamp)(
            materialise(reduce(max, -inf, R)(gather(J, clamp)(a, 2 × pos(Y, y) + pos(R, r)))),
            2 × pos(X, x) + pos(S, s)
          )
        );
    }
    """

    sums: bool = True

    def run(self, fencil: Fencil) -> Fencil:
        roots = values(fencil.closures)
        outermost = self._outermost(roots)
        made: dict[int, Expr] = {}
        for node in postorder(*roots):
            new = rebuild(node, tuple(made[id(c)] for c in node.children))
            if id(node) in outermost and isinstance(new, Call):
                new = _pooled(new) or new
            made[id(node)] = new
        return remade(fencil, with_values(fencil.closures, [made[id(r)] for r in roots]))

    def _outermost(self, roots: tuple[Expr, ...]) -> set[int]:
        """The folds over windows that no other fold over the same windows is around, by identity."""
        uses, inside, found = use_counts(*roots), set[int](), set[int]()
        for node in reversed(list(postorder(*roots))):
            if isinstance(node, Call) and id(node) not in inside and (folds := _folds(node)) is not None:
                if folds.op == "plus" and not self.sums:
                    continue
                found.add(id(node))
                inside.update(id(one) for one in folds.inner if uses[id(one)] == 1)
        return found

    def in_order(self) -> Pools:
        return Pools(sums=False)

    def thresholds(self) -> tuple[Threshold, ...]:
        where = "python -m tests.benchmarks.forms"
        return (
            Threshold("MOST_POINTS", MOST_POINTS, "points of a window, at most", where),
            Threshold("LONG", LONG, "points from which on an inner fold is kept, at every point of the axis", where),
            Threshold("STRIDED", STRIDED, "the same at some points of the axis", where),
        )

    def reason(self) -> str:
        return "a window of several dims is folded along one of them after the other"


def _pooled(node: Call) -> Expr | None:
    """A fold over windows of several dims as folds of one dim each; None for any other."""
    folds = _folds(node)
    if folds is None or not isinstance(folds.of, Call) or folds.of.op != "gather":
        return None
    x, *indices = folds.of.args
    names, mode = folds.of.static
    axes: dict[str, _Axis] = {}
    used = set(x.tensor.dims.without(*names).names)
    for name, index in zip(names, indices, strict=True):
        c = affine_index(index)
        if c is None or not _inside(c, x, name) or used & set(c.terms) or set(c.terms) & (set(names) - {name}):
            return None
        windows = [d for d in c.terms if d in folds.starts]
        if len(windows) > 1 or any(len(c.intervals[d]) > MOST_POINTS for d in windows):
            return None
        used |= set(c.terms)
        axes[name] = _Axis(index, c, windows[0] if windows else None)
    if not set(folds.starts) <= {axis.window for axis in axes.values()}:
        return None
    return _steps(node, folds, x, axes, mode)


@dataclass(frozen=True, slots=True)
class _Folds:
    """Folds by one operation right around each other: dims and what each starts from, the outermost first."""

    op: str
    starts: dict[str, Expr]
    of: Expr
    inner: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """What an axis is read at, and which dim of it is folded."""

    index: Expr
    affine: AffineIndex
    window: str | None

    def stays(self, op: str, interval: Interval) -> bool:
        """Whether a fold over its windows, of all of an axis, is worth keeping in memory."""
        if self.window is None or op not in ("max", "min") or len(self.affine.terms) != 2:
            return False
        (outer,) = (d for d in self.affine.terms if d != self.window)
        stride, dilation = self.affine.terms[outer], self.affine.terms[self.window]
        points, of = self.affine.intervals[self.window], self.affine.intervals[outer]
        if stride < 1 or dilation < 1 or len(points) < (STRIDED if stride > 1 else LONG):
            return False
        first = stride * of.start + dilation * points.start + self.affine.constant
        reach = stride * (len(of) - 1) + dilation * (len(points) - 1) + 1
        # of a part of the axis a copy would be made
        whole = first == interval.start and len(interval) - reach < stride
        return whole and stride < len(points) * dilation


def _steps(node: Call, folds: _Folds, x: Expr, axes: Mapping[str, _Axis], mode: str) -> Expr:
    """Gathers of one axis and folds over its window, by turns; the axes that have none come first."""
    plain = tuple(n for n, axis in axes.items() if axis.window is None)
    if plain:
        x = call("gather", x, *(axes[n].index for n in plain), static=(plain, mode))
    order = [n for n in x.tensor.dims.names if n in axes and axes[n].window is not None]
    for n in order:
        last, innermost = n == order[-1], n == x.tensor.dims.names[-1]
        stays = not last and not innermost and axes[n].stays(folds.op, x.tensor.dims[n])
        read = call("gather", x, axes[n].index, static=((n,), mode))
        rest = read.tensor.on(read.tensor.dims.without(axes[n].window or ""))
        start = next(iter(folds.starts.values())) if last else _nothing(folds.op, node.tensor)
        state = TensorType(node.tensor.element, node.tensor.dims) if last else rest
        x = reduce(operator(folds.op, state, rest), start, read, dim=axes[n].window, span=node.span)
        x = call("materialise", x, span=node.span) if stays else x
    return x


def _folds(node: Call) -> _Folds | None:
    """The folds that a fold is the outermost of, if the inner ones add nothing by what they start from."""
    match node:
        case Call("reduce", (Operator(op), init, x), (dim,)) if op in ("max", "min", "plus"):
            starts = {dim: init}
        case _:
            return None
    nothing, inner = _nothing(op, node.tensor), list[Call]()
    while True:
        match x:
            case Call("reduce", (Operator(same), init, y), (dim,)) if (
                same == op and dim not in starts and _number(init) == nothing.value
            ):
                starts[dim] = init
                inner.append(x)
                x = y
            case _:
                return _Folds(op, starts, x, tuple(inner)) if inner else None


def _number(e: Expr) -> object:
    """The number that an expression is at all of its points, None where that is not plain."""
    while isinstance(e, Call) and e.op == "add_dim":
        e = e.args[0]
    return e.value if isinstance(e, Literal) else None


def _nothing(op: str, kind: TensorType) -> Literal:
    """What a fold starts from that adds nothing."""
    element, identity = kind.element, TABLE[op].identity
    assert isinstance(element, Scalar) and identity is not None
    return literal(identity(element), element)


def _inside(c: AffineIndex, x: Expr, name: str) -> bool:
    low, high = c.range
    return all(c.intervals.values()) and low >= x.tensor.dims[name].start and high < x.tensor.dims[name].stop
