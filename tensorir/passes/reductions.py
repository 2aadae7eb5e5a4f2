"""Folds that are operations of their own: contractions, extremes with their index, pools, `top_k`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

from tensorir import nodes
from tensorir.analysis.access_functions import AffineIndex, affine_index
from tensorir.analysis.uses import literal_of
from tensorir.integers.dims import Interval
from tensorir.ir.build import call, literal, operator
from tensorir.ir.build import reduce as make_reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Operator, Var
from tensorir.ir.rewrite import postorder, rebuild, rewrite_nodes, use_counts, values, with_values
from tensorir.ir.types import FLOAT32, NEIGHBOUR, Scalar, TensorType, TupleElement
from tensorir.passes.base import Pass, remade, rewritten
from tensorir.passes.decisions import Threshold

# Folds of pairs to the largest or smallest element and its index become `argreduce`.
#
# What the fold's body does is decided by cases: as long as it only compares and chooses, the order of the two
# elements and that of the two indices are all that it depends on. A fold over pairs runs level by level; a backend
# reduces to the extreme and to the index among its places at once. On the CPU, rows of 1,000 and of 100,000 elements
# take 0.8 and 0.3 of the fold's time, and rows of 40 elements 1.6; a fold of 1,000 steps on an accelerator is 1,000
# launches.

FEWEST_LEVELS = 33
"""Shorter folds are unrolled, and fused with what they are made of."""


@dataclass(frozen=True)
class ArgumentReductions(Pass):
    """Recognises a fold λ(s, k, x) → (if x > s[1] then k else s[0], ...) as `argreduce`, with its rule for ties and
    NaN.

    >>> from tensorir.passes.base import show
    >>> show(ArgumentReductions(), '''reduce(λ(s: tensor<(int, float)>, k: tensor<int>, x: tensor<float>) →
    ...   (if x > s[1] then k else s[0], if x > s[1] then x else s[1]), (-1, float(-inf)), K)(pos(K, x), x)''',
    ...      x={"K": (0, 40)})
    let t1 = argreduce(K, true, "old", false)(-inf, -1, x, pos(K, x)); (t1[1], t1[0])
    """

    reorders = True
    makes = "argreduce"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("FEWEST_LEVELS", FEWEST_LEVELS, "levels", "python -m tests.benchmarks.forms"),)

    def measure(self, node: Expr) -> float | None:
        """The number of folded elements."""
        match node:
            case Call("argreduce", (_, _, x, _), static):
                return len(x.tensor.dims[static[0]])
            case _:
                return None

    def run(self, fencil: Fencil) -> Fencil:
        return rewritten(fencil, _argument_reduction)

    def reason(self) -> str:
        return "a fold of pairs finds an extreme and its index"


def _argument_reduction(e: Expr) -> Expr | None:
    """The `argreduce` for a fold over (index, value) pairs, None for other expressions.

    The index must run along the folded dim alone (as `pos` does, if ties go by order), and start value and elements
    must have the same types; folds shorter than `FEWEST_LEVELS` stay.
    """
    match e:
        case Call("reduce", (Lambda() as function, start, *args), (dim,)):
            kind = _extreme(function)
        case _:
            return None
    items, init = _members(args), _members([start])
    if kind is None or len(items) != 2 or len(init) != 2:
        return None
    index, value = items[kind.item[0]], items[kind.item[1]]
    index_dims, value_dims = index.tensor.dims, value.tensor.dims
    if dim not in value_dims or set(index_dims) != {dim} or len(value_dims[dim] & index_dims[dim]) < FEWEST_LEVELS:
        return None
    if kind.ties in ("old", "new") and not (isinstance(index, Call) and (index.op, index.static) == ("pos", (dim,))):
        return None
    starts = init[kind.state[1]], init[kind.state[0]]
    if not all(isinstance(scalar.tensor.element, Scalar) for scalar in (*starts, index, value)):
        return None
    if (starts[0].tensor.element, starts[1].tensor.element) != (value.tensor.element, index.tensor.element):
        return None
    best = call("argreduce", *starts, value, index, static=(dim, kind.largest, kind.ties, kind.replaced), span=e.span)
    # the members of the state in their order
    position = {kind.state[1]: 0, kind.state[0]: 1}
    result = call("make_tuple", *(call("tuple_get", best, static=(position[k],)) for k in (0, 1)), span=e.span)
    return result if result.tensor == e.tensor else None


def _members(args: list[Expr]) -> list[Expr]:
    """The operands with tuples split into their members."""
    members: list[Expr] = []
    for arg in args:
        match arg:
            case Call("make_tuple", parts):
                members += parts
            case _ if isinstance(arg.tensor.element, TupleElement):
                members += [call("tuple_get", arg, static=(k,)) for k in range(len(arg.tensor.element.members))]
            case _:
                members.append(arg)
    return members


@dataclass(frozen=True, slots=True)
class _Extreme:
    """A fold over pairs: its kind, and the leaves of its state and of its items that are the index and the value."""

    largest: bool
    ties: str
    """Which of equal elements stays: the "old" or the "new" one, that of the "least" or the "greatest" index."""
    replaced: bool
    """Whether a NaN replaces what was found and is replaced by what follows; if not, NaNs are passed over."""
    state: tuple[int, int]
    item: tuple[int, int]


# What the body of a fold does, by cases

_STATE, _ITEM = (0, 1), (2, 3)
"""The leaves of what is folded into, and of what is folded in, as they are named here."""

_HOLDS: Mapping[str, tuple[str, ...]] = {
    "less": ("lt",), "less_equal": ("lt", "eq"), "greater": ("gt",), "greater_equal": ("gt", "eq"), "eq": ("eq",),
    "not_eq": ("lt", "gt", "old nan", "new nan", "both nan"),
}  # fmt: skip
"""In which cases a comparison of the old with the new holds."""

_MIRRORED = {"lt": "gt", "gt": "lt", "old nan": "new nan", "new nan": "old nan"}
_KEPT, _TAKEN = "kept", "taken"


def _extreme(function: Lambda) -> _Extreme | None:
    """The kind of extreme that a fold over pairs computes, None for other folds.

    All four assignments of (index, value) to the members of state and item are tried.
    """
    for state, item in product(((0, 1), (1, 0)), ((0, 1), (1, 0))):
        kind = _classified(function, state, item)
        if kind is not None:
            return kind
    return None


def _classified(function: Lambda, state: tuple[int, int], item: tuple[int, int]) -> _Extreme | None:
    """The kind of extreme if `state` and `item` are the positions of (index, value) in the pairs; None if it is none.

    The body is evaluated symbolically for every order of old and new value, with NaN, and of the indices. The outcome
    must be "kept" or "taken" and depend on the values' order alone, except for ties.
    """
    leaf_pairs = (_STATE[state[1]], _ITEM[item[1]]), (_STATE[state[0]], _ITEM[item[0]])

    def outcome(values: str, indices: str) -> str | None:
        """ "kept" if the body returns the old pair, "taken" if the new one, None for a mixture; `values` and `indices`
        name the order.
        """
        leaves_of_result = _decided(function, dict(zip(leaf_pairs, (values, indices), strict=True)))
        if leaves_of_result is None:
            return None
        (value, index), equal = (leaves_of_result[state[1]], leaves_of_result[state[0]]), values == "eq"
        if index == leaf_pairs[1][0] and (value == leaf_pairs[0][0] or (equal and value == leaf_pairs[0][1])):
            return _KEPT
        if index == leaf_pairs[1][1] and (value == leaf_pairs[0][1] or (equal and value == leaf_pairs[0][0])):
            return _TAKEN
        return None

    ascending = {case: outcome(case, "lt") for case in ("lt", "gt", "old nan", "new nan")}
    by_order = {case: [outcome(case, i) for i in ("lt", "eq", "gt")] for case in ascending}
    if any(outcomes != [ascending[case]] * 3 for case, outcomes in by_order.items()):
        return None
    largest = {(_TAKEN, _KEPT): True, (_KEPT, _TAKEN): False}.get((str(ascending["lt"]), str(ascending["gt"])))
    ties = {
        (_KEPT, _KEPT): "old", (_TAKEN, _TAKEN): "new", (_KEPT, _TAKEN): "least", (_TAKEN, _KEPT): "greatest",
    }.get((str(outcome("eq", "lt")), str(outcome("eq", "gt"))))  # fmt: skip
    if largest is None or ties is None:
        return None
    if ascending["new nan"] == _TAKEN and ascending["old nan"] == _TAKEN:
        # of two NaNs the later one must count, and of what it is followed by nothing is lost
        return _Extreme(largest, ties, True, state, item) if outcome("both nan", "lt") == _TAKEN else None
    return _Extreme(largest, ties, False, state, item) if ascending["new nan"] == _KEPT else None


def _decided(function: Lambda, cases: Mapping[tuple[int, int], str]) -> tuple[int, int] | None:
    """Evaluates a fold's body symbolically on leaves (0, 1) of the state and (2, 3) of the item.

    `cases` gives the order of the leaves in each (old, new) pair: "lt", "eq", "gt", "old nan", "new nan" or "both nan".
    The result is the pair of leaves that the body returns; None if it does more than compare and choose.
    """
    leaves = iter(_ITEM)
    results: dict[int, Any] = {}
    state_param, *item_params = function.params
    if len(state_param.type.leaves) != len(_STATE):
        return None
    leaves_of_params: dict[Var, Any] = {state_param: _STATE}
    for p in item_params:
        leaf_count = len(p.type.leaves)
        item_leaves = tuple(leaf for _, leaf in zip(range(leaf_count), leaves, strict=False))
        if len(item_leaves) != leaf_count:
            return None
        leaves_of_params[p] = item_leaves if leaf_count > 1 else item_leaves[0]
    for node in postorder(function.body):
        match node:
            case Var() if node in leaves_of_params:
                value = leaves_of_params[node]
            case Literal(bool() as value):
                pass
            case Call("tuple_get", (x,), (member,)) if isinstance(results[id(x)], tuple):
                value = results[id(x)][member]
            case Call("make_tuple", args):
                value = tuple(results[id(a)] for a in args)
            case Call("if", (c, x, y)) if isinstance(results[id(c)], bool):
                value = results[id(x)] if results[id(c)] else results[id(y)]
            case Call("and" | "or" | "not" | "xor" as op, args) if all(isinstance(results[id(a)], bool) for a in args):
                xs: list[bool] = [results[id(a)] for a in args]
                value = {"and": all(xs), "or": any(xs), "not": not xs[0], "xor": sum(xs) == 1}[op]
            case Call(op, (x, y)) if op in _HOLDS:
                value = _compared(op, results[id(x)], results[id(y)], cases)
            case _:
                return None
        if value is None:
            return None
        results[id(node)] = value
    match results[id(function.body)]:
        case (int() as leaf_0, int() as leaf_1):
            return leaf_0, leaf_1
        case _:
            return None


def _compared(op: str, x: Any, y: Any, cases: Mapping[tuple[int, int], str]) -> bool | None:
    """The truth of a comparison of two leaves under `cases`; None if they are not comparable (tuples, or not a
    pair).
    """
    if isinstance(x, tuple | bool) or isinstance(y, tuple | bool):
        return None
    if (x, y) in cases:
        return cases[x, y] in _HOLDS[op]
    if (y, x) in cases:
        order = cases[y, x]
        return _MIRRORED.get(order, order) in _HOLDS[op]
    if x != y:
        return None
    nan = any(x == old and order in ("old nan", "both nan") for (old, _), order in cases.items())
    nan |= any(x == new and order in ("new nan", "both nan") for (_, new), order in cases.items())
    return ("old nan" if nan else "eq") in _HOLDS[op]


# Sums of products become contractions: `reduce(+, 0.0, K)(a × b)` is `contract(float, K)(a, b)`.
#
# A backend has an operation for it (`dot_general` of XLA), which takes a sixteenth to a hundredth of the time of the
# sum over all products where both factors have dims of their own (`docs/lowering.md`, "Contractions and other
# recognised forms"); where it has none, the definition of `contract` is the sum again.


@dataclass(frozen=True)
class Contractions(Pass):
    """Rewrites sums of products over named dims as `contract`; nested sums become one over several dims.

    Factors without the summed dims are multiplied afterwards, and a start value is added then. Sums over neighbours
    stay, since their slots may be absent. Floats are added in another order.

    >>> from tensorir.passes.base import show
    >>> show(Contractions(), "reduce(+, 0.0, K)(a × b)", a={"I": (0, 3), "K": (0, 4)}, b={"K": (0, 4), "J": (0, 5)})
    contract(float, K)(a, b)
    >>> show(Contractions(), "reduce(+, 1.0, K)(reduce(+, 0.0, J)(a × (b × c)))",
    ...      a={"J": (0, 3), "K": (0, 4)}, b={"K": (0, 4), "J": (0, 3)}, c={"I": (0, 2)})
    1.0 + contract(float, K, J)(a, b) × c
    """

    reorders = True
    makes = "contract"

    def run(self, fencil: Fencil) -> Fencil:
        """Rewrites every sum; `absent` neighbours anywhere in the program restrict which factors may move."""
        nodes = postorder(*values(fencil.closures))
        may_be_absent = any(isinstance(n, Call) and n.op in ("shift_init", "unstructured_shift") for n in nodes)
        return rewritten(fencil, lambda e: contraction_of(e, may_be_absent))

    def reason(self) -> str:
        return "a sum of products is one operation of the backend"


def contraction_of(node: Expr, may_be_absent: bool) -> Expr | None:
    """A sum of products as a contraction, None for other nodes; `may_be_absent`: factors may be absent at some
    points.
    """
    match node:
        case Call("reduce", (Operator("plus"), init, total), (dim,)):
            pass
        case Call("reduce", (Lambda((state, *params), (Call("plus", terms),)), init, *args), (dim,)):
            factor_positions = _product_of(state, params, terms)
            # a slot is skipped where any argument is absent, also one that is not used
            if factor_positions is None or (may_be_absent and len(set(factor_positions)) < len(args)):
                return None
            total = call("multiplies", *(args[k] for k in factor_positions), span=node.span)
        case _:
            return None
    element = node.tensor.element
    if dim.startswith(NEIGHBOUR) or not isinstance(element, Scalar) or not element.is_number:
        return None
    contraction = _contracted(total, dim, element, may_be_absent)
    if contraction is None:
        return None
    if not (isinstance(init, Literal) and init.value == 0):
        contraction = call("plus", init, contraction, span=node.span)
    return contraction if contraction.tensor == node.tensor else None


def _product_of(state: Expr, params: Sequence[Expr], terms: tuple[Expr, ...]) -> tuple[int, int] | None:
    """The positions of the two parameters that λ(state, params...) → state + x × y multiplies, None for other
    bodies.
    """
    match terms:
        case (first, Call("multiplies", (x, y))) if first == state and x in params and y in params:
            return params.index(x), params.index(y)
        case (Call("multiplies", (x, y)), last) if last == state and x in params and y in params:
            return params.index(x), params.index(y)
        case _:
            return None


def _contracted(product: Expr, dim: str, element: Scalar, may_be_absent: bool) -> Expr | None:
    """The contraction of a product along `dim`, times the factors without it; None unless exactly two factors have the
    dim, or one factor that is a contraction of two with the dim.
    """
    factors = _factors(product)
    outer_factors = [f for f in factors if dim not in f.tensor.dims]
    if outer_factors and may_be_absent:
        return None
    match [f for f in factors if dim in f.tensor.dims]:
        case [x, y]:
            contraction = call("contract", x, y, static=(element, (dim,)), span=product.span)
        case [Call("contract", (x, y), (kind, dims))] if kind == element and all(dim in f.tensor.dims for f in (x, y)):
            contraction = call("contract", x, y, static=(element, (dim, *dims)), span=product.span)
        case _:
            return None
    return reduce(lambda a, f: call("multiplies", a, f, span=product.span), outer_factors, contraction)


def _factors(product: Expr) -> list[Expr]:
    """The factors of a product, nested products flattened, from left to right."""

    def below(e: Expr) -> Sequence[Expr]:
        return e.args if isinstance(e, Call) and e.op == "multiplies" else ()

    return [e for e in nodes.occurrences([product], below) if not below(e)]


# Folds over windows of several dims: over the window of one dim after the other.
#
# The largest of 3 × 3 elements is the largest of three in a row, of the largest of three in a column: 4 comparisons a
# point in the place of 8, and 6 strided slices in the place of 9 ("max-pool" in `tests/benchmarks/lift.py`).
#
# Inner folds by max or min over long or strided windows are kept in memory: as a fold of slices, a backend would make
# each of them anew wherever the next fold reads it. A window of 5 × 5 takes 0.4 of the time so, one of 3 × 3 with a
# stride of 2 takes 0.6 to 1.3 (three shapes; "pools" in `tests/benchmarks/forms.py`), and compiles in 0.85 (once).
# Shorter ones gain nothing, nor do windows that lie side by side (7 × 7 with a stride of 7 would take 1.2 to 1.4).

MOST_POINTS = 32
"""Points of a window up to which it is folded by slices."""
LONG, STRIDED = 5, 3
"""Points of a window from which on an inner fold is kept: at every point of the axis, and at some of them."""


@dataclass(frozen=True)
class Pools(Pass):
    """Separates a fold by max, min or + over windows of several dims into folds along one dim after the other.

    The dim with the largest stride in memory comes first. Sums are added in another order; with `sums` False they stay.

    >>> from tensorir.passes.base import show
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
        """Rewrites the outermost fold of each nest."""
        roots = values(fencil.closures)
        outermost = self._outermost(roots)

        def separated(node: Expr, new_node: Expr) -> Expr:
            return (_pooled(new_node) if id(node) in outermost and isinstance(new_node, Call) else None) or new_node

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, separated)))

    def _outermost(self, roots: tuple[Expr, ...]) -> set[int]:
        """The folds over windows that are not inner folds of another one, by identity."""
        uses, inside, outermost = use_counts(*roots), set[int](), set[int]()
        for node in reversed(list(postorder(*roots))):
            if isinstance(node, Call) and id(node) not in inside and (folds := _folds(node)) is not None:
                if folds.op == "plus" and not self.sums:
                    continue
                outermost.add(id(node))
                inside.update(id(inner_fold) for inner_fold in folds.inner if uses[id(inner_fold)] == 1)
        return outermost

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
    """A fold over windows of several dims as one fold per dim, None if it cannot be separated.

    Each index must be affine in dims that no other index has, in bounds, with at most one window dim of at most
    `MOST_POINTS` points.
    """
    folds = _folds(node)
    if folds is None or not isinstance(folds.of, Call) or folds.of.op != "gather":
        return None
    x, *indices = folds.of.args
    names, mode = folds.of.static
    axes: dict[str, _Axis] = {}
    used_dims = set(x.tensor.dims.without(*names).names)
    for name, index in zip(names, indices, strict=True):
        affine = affine_index(index)
        if affine is None or used_dims & set(affine.terms) or set(affine.terms) & (set(names) - {name}):
            return None
        low, high = affine.range
        if not all(affine.intervals.values()) or low < x.tensor.dims[name].start or high >= x.tensor.dims[name].stop:
            return None
        windows = [d for d in affine.terms if d in folds.starts]
        if len(windows) > 1 or any(len(affine.intervals[d]) > MOST_POINTS for d in windows):
            return None
        used_dims |= set(affine.terms)
        axes[name] = _Axis(index, affine, windows[0] if windows else None)
    if not set(folds.starts) <= {axis.window for axis in axes.values()}:
        return None
    return _steps(node, folds, x, axes, mode)


@dataclass(frozen=True, slots=True)
class _Folds:
    """Directly nested folds by one operation of a common operand: the start value by dim, outermost first."""

    op: str
    starts: dict[str, Expr]
    of: Expr
    inner: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """The index at which an axis is read, and the dim of it that is folded."""

    index: Expr
    affine: AffineIndex
    window: str | None

    def stays(self, op: str, interval: Interval) -> bool:
        """True if the inner fold over this axis is worth `materialise`: max or min over windows that overlap and are
        long or strided, and that cover the axis.
        """
        if self.window is None or op not in ("max", "min") or len(self.affine.terms) != 2:
            return False
        (outer,) = (d for d in self.affine.terms if d != self.window)
        stride, dilation = self.affine.terms[outer], self.affine.terms[self.window]
        points, outer_interval = self.affine.intervals[self.window], self.affine.intervals[outer]
        if stride < 1 or dilation < 1 or len(points) < (STRIDED if stride > 1 else LONG):
            return False
        first_read = stride * outer_interval.start + dilation * points.start + self.affine.sum.constant
        reach = stride * (len(outer_interval) - 1) + dilation * (len(points) - 1) + 1
        # of a part of the axis a copy would be made
        # a fold of a part of the axis would copy that part
        reads_whole_axis = first_read == interval.start and len(interval) - reach < stride
        return reads_whole_axis and stride < len(points) * dilation


def _steps(node: Call, folds: _Folds, x: Expr, axes: Mapping[str, _Axis], mode: str) -> Expr:
    """Alternates a gather along one axis with the fold over its window; axes without a window are gathered first.

    Inner folds start from the neutral element, and the last one from the original start value.
    """
    axes_without_window = tuple(name for name, axis in axes.items() if axis.window is None)
    if axes_without_window:
        x = call("gather", x, *(axes[name].index for name in axes_without_window), static=(axes_without_window, mode))
    order = [name for name in x.tensor.dims.names if name in axes and axes[name].window is not None]
    for name in order:
        is_last, is_innermost = name == order[-1], name == x.tensor.dims.names[-1]
        materialises = not is_last and not is_innermost and axes[name].stays(folds.op, x.tensor.dims[name])
        read = call("gather", x, axes[name].index, static=((name,), mode))
        folded_type = read.tensor.on(read.tensor.dims.without(axes[name].window or ""))
        start = next(iter(folds.starts.values())) if is_last else _nothing(folds.op, node.tensor)
        state = TensorType(node.tensor.element, node.tensor.dims) if is_last else folded_type
        x = make_reduce(operator(folds.op, state, folded_type), start, read, dim=axes[name].window, span=node.span)
        x = call("materialise", x, span=node.span) if materialises else x
    return x


def _folds(node: Call) -> _Folds | None:
    """Directly nested folds by max, min or +, if inner ones start from the neutral element; None if there are no inner
    ones.
    """
    match node:
        case Call("reduce", (Operator(op), init, x), (dim,)) if op in ("max", "min", "plus"):
            starts = {dim: init}
        case _:
            return None
    neutral, inner = _nothing(op, node.tensor), list[Call]()
    while True:
        match x:
            case Call("reduce", (Operator(inner_op), init, y), (dim,)) if (
                inner_op == op and dim not in starts and literal_of(init) == neutral.value
            ):
                starts[dim] = init
                inner.append(x)
                x = y
            case _:
                return _Folds(op, starts, x, tuple(inner)) if inner else None


def _nothing(op: str, kind: TensorType) -> Literal:
    """The neutral start of a fold."""
    element, identity = kind.element, TABLE[op].identity
    assert isinstance(element, Scalar) and identity is not None
    return literal(identity(element), element)


# The first points of a sorted row become `top_k`: `sort(K, 1)(x)[K[0:5]]` is `top_k(K, 5, 1)(x)`.
#
# A backend has an operation for it, which takes a third to a three-hundredth of the time of the sort.


@dataclass(frozen=True)
class TopK(Pass):
    """Rewrites a prefix of a sort as `top_k`, if nothing else of the sort is read and the key is one float32.

    >>> from tensorir.passes.base import show
    >>> from tensorir.ir.types import tensor
    >>> show(TopK(), "sort(K, 1, true)(x)[K[0:3]]", x=tensor("float32", K=(0, 9)))
    top_k(K, 3, 1, true)(x)
    """

    makes = "top_k"

    def run(self, fencil: Fencil) -> Fencil:
        """Rewrites all prefixes; equal prefixes of one sort share a `top_k`."""
        roots = values(fencil.closures)
        lengths = _first_of_sorted(roots)
        tops: dict[tuple[int, int], Expr] = {}

        def selected(node: Expr, new: Expr) -> Expr:
            return _selected(new, lengths[id(node)], tops) if id(node) in lengths and isinstance(new, Call) else new

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, selected)))

    def reason(self) -> str:
        return "of a sorted row only the first points are read"


def selecting_key(node: Call) -> int | None:
    """The position of the operand that a sort orders by, if it is one operand (a NaN flag may precede it); else
    None.
    """
    match node.static.keys, node.args:
        case 1, _:
            return 0
        case 2, (Call("cast", (Call("isnan", (x,)),)), y, *_) if x == y:
            return 1
        case _:
            return None


def _sorted(node: Expr) -> Call | None:
    """The sort whose result, or member of its result, a node is; None for other nodes."""
    match node:
        case Call("sort"):
            return node
        case Call("tuple_get", (Call("sort") as sort,)):
            return sort
        case _:
            return None


def _first_of_sorted(roots: tuple[Expr, ...]) -> Mapping[int, int]:
    """The subsets that are prefixes of a sort, by identity, with their lengths; only sorts of which all reads are
    prefixes.
    """
    nodes = list(postorder(*roots))
    subsets: dict[int, tuple[Call, int]] = {}
    fully_read = {id(sort) for root in roots if (sort := _sorted(root)) is not None}
    for node in nodes:
        for child in node.children:
            sort = _sorted(child)
            if sort is None or (isinstance(node, Call) and node.op == "tuple_get" and child is sort):
                continue
            length = _count(node, sort)
            if length is None:
                fully_read.add(id(sort))
            else:
                subsets[id(node)] = sort, length
    return {key: length for key, (sort, length) in subsets.items() if id(sort) not in fully_read}


def _count(node: Expr, sort: Call) -> int | None:
    """The length of the prefix that a subset keeps of a sort with one float32 key; None for other nodes."""
    match node:
        case Call("subset", _, (intervals,)):
            dim, key_position = sort.static.dim, selecting_key(sort)
            row, prefix = sort.tensor.dims[dim], intervals.get(dim)
            if key_position is None or sort.args[key_position].tensor.element != FLOAT32 or prefix is None:
                return None
            return len(prefix) if prefix.start == row.start and 0 < len(prefix) < len(row) else None
        case _:
            return None


def _selected(subset: Call, length: int, selections: dict[tuple[int, int], Expr]) -> Expr:
    """A prefix of a sort as `top_k` (cached in `selections`), with the subset's cuts along other dims."""
    (x,) = subset.args
    sort = _sorted(x)
    assert sort is not None
    dim, keys, descending = sort.static
    if (id(sort), length) not in selections:
        selections[id(sort), length] = call("top_k", *sort.args, static=(dim, length, keys, descending), span=sort.span)
    selection = selections[id(sort), length]
    member = selection if x is sort else rebuild(x, (selection,))
    other_cuts = subset.static.intervals.without(dim)
    return call("subset", member, static=(other_cuts,), span=subset.span) if other_cuts else member
