"""Folds of pairs to the largest or smallest element and its index become `argreduce`.

What the fold's body does is decided by cases: as long as it only compares and chooses, the order of the two elements
and that of the two indices are all that it depends on. A fold over pairs runs level by level; a backend reduces to the
extreme and to the index among its places at once. On the CPU, rows of 1,000 and of 100,000 elements take 0.8 and 0.3 of
the fold's time, and rows of 40 elements 1.6; a fold of 1,000 steps on an accelerator is 1,000 launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from tensorir.ir.build import call
from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Var
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import Scalar, TupleElement
from tensorir.passes.base import Pass, rewritten
from tensorir.passes.decisions import Threshold

__all__ = ["ArgumentReductions"]

FEWEST_LEVELS = 33
"""Shorter folds are unrolled, and fused with what they are made of."""


@dataclass(frozen=True)
class ArgumentReductions(Pass):
    """A fold λ(s, k, x) → (if x > s[1] then k else s[0], ...) becomes `argreduce`, whatever it does of ties and NaN.

    >>> from tensorir.passes.show import show
    >>> show(ArgumentReductions(), '''reduce(λ(s: tensor<(int, float)>, k: tensor<int>, x: tensor<float>) →
    ...   (if x > s[1] then k else s[0], if x > s[1] then x else s[1]), (-1, float(-inf)), K)(pos(K, x), x)''',
    ...      x={"K": (0, 40)})
    let t1 = argreduce(K, true, "old", false)(-inf, -1, x, pos(K, x)); (t1[1], t1[0])
    """

    reorders = True
    makes = "argreduce"

    def thresholds(self) -> tuple[Threshold, ...]:
        return (Threshold("FEWEST_LEVELS", FEWEST_LEVELS, "levels", "python -m tests.benchmarks.forms"),)

    def measure(self, made: Expr) -> float | None:
        match made:
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
            kind = _kind(function)
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
    found = call("argreduce", *first, value, index, static=(dim, kind.largest, kind.ties, kind.replaced), span=e.span)
    # the members of the state in their order
    pair = {kind.state[1]: 0, kind.state[0]: 1}
    result = call("make_tuple", *(call("tuple_get", found, static=(pair[k],)) for k in (0, 1)), span=e.span)
    return result if result.tensor == e.tensor else None


def _members(args: list[Expr]) -> list[Expr]:
    """The scalars of operands, those of tuples one by one."""
    found: list[Expr] = []
    for arg in args:
        match arg:
            case Call("make_tuple", parts):
                found += parts
            case _ if isinstance(arg.tensor.element, TupleElement):
                found += [call("tuple_get", arg, static=(k,)) for k in range(len(arg.tensor.element.members))]
            case _:
                found.append(arg)
    return found


@dataclass(frozen=True, slots=True)
class _Found:
    """What a fold over pairs finds, and which leaf of its state and of its items is the index, and which the value."""

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


def _kind(function: Lambda) -> _Found | None:
    """What a fold finds, None where it is no extreme with its index."""
    for state, item in product(((0, 1), (1, 0)), ((0, 1), (1, 0))):
        found = _classified(function, state, item)
        if found is not None:
            return found
    return None


def _classified(function: Lambda, state: tuple[int, int], item: tuple[int, int]) -> _Found | None:
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
    if any(found != [ascending[case]] * 3 for case, found in orders.items()):
        return None
    largest = {(_TAKEN, _KEPT): True, (_KEPT, _TAKEN): False}.get((str(ascending["lt"]), str(ascending["gt"])))
    ties = {
        (_KEPT, _KEPT): "old", (_TAKEN, _TAKEN): "new", (_KEPT, _TAKEN): "least", (_TAKEN, _KEPT): "greatest",
    }.get((str(outcome("eq", "lt")), str(outcome("eq", "gt"))))  # fmt: skip
    if largest is None or ties is None:
        return None
    if ascending["new nan"] == _TAKEN and ascending["old nan"] == _TAKEN:
        # of two NaNs the later one must count, and of what it is followed by nothing is lost
        return _Found(largest, ties, True, state, item) if outcome("both nan", "lt") == _TAKEN else None
    return _Found(largest, ties, False, state, item) if ascending["new nan"] == _KEPT else None


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
                value = _logic(op, *(known[id(a)] for a in args))
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


def _logic(op: str, *xs: bool) -> bool:
    return {"and": all(xs), "or": any(xs), "not": not xs[0], "xor": sum(xs) == 1}[op]


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
