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
    """A fold λ(s, k, x) → (if x > s[1] then k else s[0], ...) becomes `argreduce`, whatever it does of ties and NaN.

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
    match e:
        case Call("reduce", (Lambda() as function, start, *args), (dim,)):
            kind = _extreme(function)
        case _:
            return None
    items, init = _members(args), _members([start])
    if kind is None or len(items) != 2 or len(init) != 2:
        return None
    index, value = items[kind.item[0]], items[kind.item[1]]
    i, x = index.tensor.dims, value.tensor.dims
    if dim not in x or set(i) != {dim} or len(x[dim] & i[dim]) < FEWEST_LEVELS:
        return None
    if kind.ties in ("old", "new") and not (isinstance(index, Call) and (index.op, index.static) == ("pos", (dim,))):
        return None
    first = init[kind.state[1]], init[kind.state[0]]
    if not all(isinstance(part.tensor.element, Scalar) for part in (*first, index, value)):
        return None
    if (first[0].tensor.element, first[1].tensor.element) != (value.tensor.element, index.tensor.element):
        return None
    extreme = call("argreduce", *first, value, index, static=(dim, kind.largest, kind.ties, kind.replaced), span=e.span)
    # the members of the state in their order
    pair = {kind.state[1]: 0, kind.state[0]: 1}
    result = call("make_tuple", *(call("tuple_get", extreme, static=(pair[k],)) for k in (0, 1)), span=e.span)
    return result if result.tensor == e.tensor else None


def _members(args: list[Expr]) -> list[Expr]:
    """The scalars of operands, those of tuples one by one."""
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
    """The extreme with its index that a fold computes, None for other folds."""
    for state, item in product(((0, 1), (1, 0)), ((0, 1), (1, 0))):
        kind = _classified(function, state, item)
        if kind is not None:
            return kind
    return None


def _classified(function: Lambda, state: tuple[int, int], item: tuple[int, int]) -> _Extreme | None:
    pairs = (_STATE[state[1]], _ITEM[item[1]]), (_STATE[state[0]], _ITEM[item[0]])

    def outcome(values: str, indices: str) -> str | None:
        result = _decided(function, dict(zip(pairs, (values, indices), strict=True)))
        if result is None:
            return None
        (value, index), equal = (result[state[1]], result[state[0]]), values == "eq"
        if index == pairs[1][0] and (value == pairs[0][0] or (equal and value == pairs[0][1])):
            return _KEPT
        if index == pairs[1][1] and (value == pairs[0][1] or (equal and value == pairs[0][0])):
            return _TAKEN
        return None

    ascending = {case: outcome(case, "lt") for case in ("lt", "gt", "old nan", "new nan")}
    orders = {case: [outcome(case, i) for i in ("lt", "eq", "gt")] for case in ascending}
    if any(outcomes != [ascending[case]] * 3 for case, outcomes in orders.items()):
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
    """The leaves that a body gives in a case, None where it does more than compare and choose."""
    leaves = iter(_ITEM)
    known: dict[int, Any] = {}
    first, *others = function.params
    if len(first.type.leaves) != len(_STATE):
        return None
    bound: dict[Var, Any] = {first: _STATE}
    for p in others:
        count = len(p.type.leaves)
        taken = tuple(leaf for _, leaf in zip(range(count), leaves, strict=False))
        if len(taken) != count:
            return None
        bound[p] = taken if count > 1 else taken[0]
    for node in postorder(function.body):
        match node:
            case Var() if node in bound:
                value = bound[node]
            case Literal(bool() as value):
                pass
            case Call("tuple_get", (x,), (place,)) if isinstance(known[id(x)], tuple):
                value = known[id(x)][place]
            case Call("make_tuple", args):
                value = tuple(known[id(a)] for a in args)
            case Call("if", (c, x, y)) if isinstance(known[id(c)], bool):
                value = known[id(x)] if known[id(c)] else known[id(y)]
            case Call("and" | "or" | "not" | "xor" as op, args) if all(isinstance(known[id(a)], bool) for a in args):
                xs: list[bool] = [known[id(a)] for a in args]
                value = {"and": all(xs), "or": any(xs), "not": not xs[0], "xor": sum(xs) == 1}[op]
            case Call(op, (x, y)) if op in _HOLDS:
                value = _compared(op, known[id(x)], known[id(y)], cases)
            case _:
                return None
        if value is None:
            return None
        known[id(node)] = value
    match known[id(function.body)]:
        case (int() as first, int() as second):
            return first, second
        case _:
            return None


def _compared(op: str, x: Any, y: Any, cases: Mapping[tuple[int, int], str]) -> bool | None:
    if isinstance(x, tuple | bool) or isinstance(y, tuple | bool):
        return None
    if (x, y) in cases:
        return cases[x, y] in _HOLDS[op]
    if (y, x) in cases:
        case = cases[y, x]
        return _MIRRORED.get(case, case) in _HOLDS[op]
    if x != y:
        return None
    nan = any(x == old and case in ("old nan", "both nan") for (old, _), case in cases.items())
    nan |= any(x == new and case in ("new nan", "both nan") for (_, new), case in cases.items())
    return ("old nan" if nan else "eq") in _HOLDS[op]


# Sums of products become contractions: `reduce(+, 0.0, K)(a × b)` is `contract(float, K)(a, b)`.
#
# A backend has an operation for it (`dot_general` of XLA), which takes a sixteenth to a hundredth of the time of the
# sum over all products where both factors have dims of their own (`docs/lowering.md`, "Contractions and other
# recognised forms"); where it has none, the definition of `contract` is the sum again.


@dataclass(frozen=True)
class Contractions(Pass):
    """Sums of products over named dims become `contract`, over several in turn one.

    Factors without the dims that are summed over are multiplied afterwards, and what the sum starts from is added
    then; sums over neighbours stay as they are, since their slots may be absent. Floats are added in another order.

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
        nodes = postorder(*values(fencil.closures))
        absent = any(isinstance(n, Call) and n.op in ("shift_init", "unstructured_shift") for n in nodes)
        return rewritten(fencil, lambda e: contraction_of(e, absent))

    def reason(self) -> str:
        return "a sum of products is one operation of the backend"


def contraction_of(e: Expr, absent: bool) -> Expr | None:
    """A fold as a contraction, None for any other; `absent` says whether factors may be absent somewhere."""
    match e:
        case Call("reduce", (Operator("plus"), init, total), (dim,)):
            pass
        case Call("reduce", (Lambda((a, *xs), (Call("plus", terms),)), init, *args), (dim,)):
            places = _product_of(a, xs, terms)
            # a slot is skipped where any argument is absent, also one that is not used
            if places is None or (absent and len(set(places)) < len(args)):
                return None
            total = call("multiplies", *(args[k] for k in places), span=e.span)
        case _:
            return None
    element = e.tensor.element
    if dim.startswith(NEIGHBOUR) or not isinstance(element, Scalar) or not element.is_number:
        return None
    contraction = _contracted(total, dim, element, absent)
    if contraction is None:
        return None
    if not (isinstance(init, Literal) and init.value == 0):
        contraction = call("plus", init, contraction, span=e.span)
    return contraction if contraction.tensor == e.tensor else None


def _product_of(a: Expr, xs: Sequence[Expr], terms: tuple[Expr, ...]) -> tuple[int, int] | None:
    """The arguments that λ(a, x...) → a + x × y multiplies, None for any other function."""
    match terms:
        case (first, Call("multiplies", (x, y))) if first == a and x in xs and y in xs:
            return xs.index(x), xs.index(y)
        case (Call("multiplies", (x, y)), last) if last == a and x in xs and y in xs:
            return xs.index(x), xs.index(y)
        case _:
            return None


def _contracted(total: Expr, dim: str, element: Scalar, absent: bool) -> Expr | None:
    factors = _factors(total)
    rest = [f for f in factors if dim not in f.tensor.dims]
    if rest and absent:
        return None
    match [f for f in factors if dim in f.tensor.dims]:
        case [x, y]:
            contraction = call("contract", x, y, static=(element, (dim,)), span=total.span)
        case [Call("contract", (x, y), (kind, dims))] if kind == element and all(dim in f.tensor.dims for f in (x, y)):
            contraction = call("contract", x, y, static=(element, (dim, *dims)), span=total.span)
        case _:
            return None
    return reduce(lambda product, f: call("multiplies", product, f, span=total.span), rest, contraction)


def _factors(product: Expr) -> list[Expr]:
    """The factors of a product, from left to right."""

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
    """A fold by max, min or + over windows of several dims becomes folds over one dim after the other.

    The dim that is furthest apart in memory comes first. Sums are added in another order; without `sums` they stay.

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
        roots = values(fencil.closures)
        outermost = self._outermost(roots)

        def pool(node: Expr, new: Expr) -> Expr:
            return (_pooled(new) if id(node) in outermost and isinstance(new, Call) else None) or new

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, pool)))

    def _outermost(self, roots: tuple[Expr, ...]) -> set[int]:
        """The folds over windows that no other fold over the same windows is around, by identity."""
        uses, inside, outermost = use_counts(*roots), set[int](), set[int]()
        for node in reversed(list(postorder(*roots))):
            if isinstance(node, Call) and id(node) not in inside and (folds := _folds(node)) is not None:
                if folds.op == "plus" and not self.sums:
                    continue
                outermost.add(id(node))
                inside.update(id(one) for one in folds.inner if uses[id(one)] == 1)
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
        if c is None or used & set(c.terms) or set(c.terms) & (set(names) - {name}):
            return None
        low, high = c.range
        if not all(c.intervals.values()) or low < x.tensor.dims[name].start or high >= x.tensor.dims[name].stop:
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
    """The index at which an axis is read, and the dim of it that is folded."""

    index: Expr
    affine: AffineIndex
    window: str | None

    def stays(self, op: str, interval: Interval) -> bool:
        """True if a fold over its windows, of all of an axis, is worth keeping in memory."""
        if self.window is None or op not in ("max", "min") or len(self.affine.terms) != 2:
            return False
        (outer,) = (d for d in self.affine.terms if d != self.window)
        stride, dilation = self.affine.terms[outer], self.affine.terms[self.window]
        points, of = self.affine.intervals[self.window], self.affine.intervals[outer]
        if stride < 1 or dilation < 1 or len(points) < (STRIDED if stride > 1 else LONG):
            return False
        first = stride * of.start + dilation * points.start + self.affine.sum.constant
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
        x = make_reduce(operator(folds.op, state, rest), start, read, dim=axes[n].window, span=node.span)
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
                same == op and dim not in starts and literal_of(init) == nothing.value
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
    """The first points of what `sort` gives become `top_k`, where nobody reads the others and one float32 is the key.

    >>> from tensorir.passes.base import show
    >>> from tensorir.ir.types import tensor
    >>> show(TopK(), "sort(K, 1, true)(x)[K[0:3]]", x=tensor("float32", K=(0, 9)))
    top_k(K, 3, 1, true)(x)
    """

    makes = "top_k"

    def run(self, fencil: Fencil) -> Fencil:
        roots = values(fencil.closures)
        counts = _first_of_sorted(roots)
        tops: dict[tuple[int, int], Expr] = {}

        def select(node: Expr, new: Expr) -> Expr:
            return _selected(new, counts[id(node)], tops) if id(node) in counts and isinstance(new, Call) else new

        return remade(fencil, with_values(fencil.closures, rewrite_nodes(roots, select)))

    def reason(self) -> str:
        return "of a sorted row only the first points are read"


def selecting_key(node: Call) -> int | None:
    """The operand that a sort orders by, where it is one number; a test for NaN may stand before it."""
    match node.static.keys, node.args:
        case 1, _:
            return 0
        case 2, (Call("cast", (Call("isnan", (x,)),)), y, *_) if x == y:
            return 1
        case _:
            return None


def _sorted(node: Expr) -> Call | None:
    """The sort that a node is a member of."""
    match node:
        case Call("sort"):
            return node
        case Call("tuple_get", (Call("sort") as sort,)):
            return sort
        case _:
            return None


def _first_of_sorted(roots: tuple[Expr, ...]) -> Mapping[int, int]:
    """By identity, the subsets that are the first points of sorts of which nothing else is read; and how many."""
    nodes = list(postorder(*roots))
    subsets: dict[int, tuple[Call, int]] = {}
    whole = {id(sort) for root in roots if (sort := _sorted(root)) is not None}
    for node in nodes:
        for child in node.children:
            sort = _sorted(child)
            if sort is None or (isinstance(node, Call) and node.op == "tuple_get" and child is sort):
                continue
            count = _count(node, sort)
            if count is None:
                whole.add(id(sort))
            else:
                subsets[id(node)] = sort, count
    return {key: count for key, (sort, count) in subsets.items() if id(sort) not in whole}


def _count(node: Expr, sort: Call) -> int | None:
    """The number of first points of a sort that a node keeps, None for any other node."""
    match node:
        case Call("subset", _, (intervals,)):
            dim, key = sort.static.dim, selecting_key(sort)
            have, wanted = sort.tensor.dims[dim], intervals.get(dim)
            if key is None or sort.args[key].tensor.element != FLOAT32 or wanted is None:
                return None
            return len(wanted) if wanted.start == have.start and 0 < len(wanted) < len(have) else None
        case _:
            return None


def _selected(subset: Call, count: int, tops: dict[tuple[int, int], Expr]) -> Expr:
    (x,) = subset.args
    sort = _sorted(x)
    assert sort is not None
    dim, keys, descending = sort.static
    if (id(sort), count) not in tops:
        tops[id(sort), count] = call("top_k", *sort.args, static=(dim, count, keys, descending), span=sort.span)
    top = tops[id(sort), count]
    member = top if x is sort else rebuild(x, (top,))
    others = subset.static.intervals.without(dim)
    return call("subset", member, static=(others,), span=subset.span) if others else member
