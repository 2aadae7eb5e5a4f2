"""Folds of folds: over the parts of a dim, and what the parts of a dim are put together for.

>>> from tensorir.passes.show import show
>>> from tensorir.lift.rewrites.canonical import Canonical
>>> f = "reduce(+, 0.0, I_0)(reduce(+, 0.0, I_1)(split_dim(I, I_0, I_1, 3)(x)))"
>>> show(Canonical(), f, x={"I": (0, 6)})
reduce(+, 0.0, I)(x)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tensorir.build import call, literal, operator, reduce
from tensorir.builtins import TABLE
from tensorir.ir import Call, Expr, Literal, Operator
from tensorir.lift.emission.folds import neutral
from tensorir.lift.emission.tensors import constant_of, position, renamed, spread, sum_of
from tensorir.lift.nests.affine import number, variable
from tensorir.lift.rewrites.coordinates import sum_of_coordinates
from tensorir.types import INT32, Interval, Scalar, TensorType

__all__ = [
    "ANY_ORDER",
    "fold_like",
    "fold_of_fold",
    "fold_of_one",
    "is_whole",
    "merge_of_whole",
    "rounds",
    "start_again",
    "start_within",
    "starts_from_nothing",
]


def starts_from_nothing(op: str, start: Expr, init: Expr) -> bool:
    """Whether a fold inside of a fold by one operation adds nothing by what it starts from."""
    match start:
        case Literal(value, element):
            return (op in _AGAIN and start == init) or value == neutral(op, element)
        case _:
            return False


ANY_ORDER = frozenset({"plus", "multiplies", "min", "max", "and", "or", "bit_and", "bit_or", "bit_xor", "xor"})
_AGAIN = frozenset({"min", "max", "and", "or", "bit_and", "bit_or"})


def fold_of_fold(e: Call) -> Expr | None:
    """A fold over both parts of a dim is a fold over the dim."""
    match e:
        case Call("reduce", (Operator(op), init, Call("reduce", (Operator(inner), start, x), (b,))), (a,)):
            pass
        case _:
            return None
    if op != inner or op not in ANY_ORDER or a not in x.tensor.dims or not starts_from_nothing(op, start, init):
        return None
    if a in init.tensor.dims or b in init.tensor.dims:
        return None
    for outer, part in ((a, b), (b, a)):
        whole = _Whole(outer, part, len(x.tensor.dims[part]), _name(x, outer, part))
        made = whole.of(x)
        if made is not None:
            rest = made.tensor.on(made.tensor.dims.without(whole.dim))
            state = TensorType(e.tensor.element, e.tensor.dims)
            return reduce(operator(op, state, rest), init, made, dim=whole.dim, span=e.span)
    return None


def fold_of_one(e: Call) -> Expr | None:
    """A fold over one place that starts from nothing is what stands there.

    >>> from tensorir.lift.rewrites.canonical import Canonical
    >>> from tensorir.passes.show import show
    >>> show(Canonical(), "reduce(+, 0.0, J)(add_dim(J, 0, 1, x) × y)", x={"I": (0, 2)}, y={"I": (0, 2), "J": (0, 1)})
    x × gather(J, clamp)(y, 0)
    """
    match e:
        case Call("reduce", (Operator(op), init, x), (dim,)) if len(x.tensor.dims[dim]) == 1 and op in ANY_ORDER:
            nothing = starts_from_nothing(op, init, init) and op not in _AGAIN
            return _At(dim, x.tensor.dims[dim].start).of(x) if nothing else None
        case _:
            return None


@dataclass(slots=True)
class _At:
    """Tensors at one place along a dim that they have."""

    dim: str
    place: int
    known: dict[int, Expr] = field(default_factory=dict[int, Expr])

    def of(self, x: Expr) -> Expr:
        if id(x) not in self.known:
            self.known[id(x)] = self._of(x)
        return self.known[id(x)]

    def _of(self, x: Expr) -> Expr:
        dim = self.dim
        match x:
            case Call("add_dim", (y,), (added, *_)) if added == dim:
                return y
            case Call("reduce", (Operator(op), init, y), (other,)) if dim not in (other, *init.tensor.dims):
                return fold_like(op, init, self.of(y), other, x)
            case Call(op, args) if TABLE[op].elementwise:
                parts = (self.of(a) if dim in a.tensor.dims else a for a in args)
                return call(op, *parts, static=x.static, span=x.span)
            case _:
                return call("gather", x, literal(self.place, INT32), static=((dim,), "clamp"))


def start_within(e: Call) -> Expr | None:
    """What is inside of a maximum needs no comparison with what the maximum itself starts from, or with less.

    >>> from tensorir.lift.rewrites.canonical import Canonical
    >>> from tensorir.passes.show import show
    >>> show(Canonical(), "reduce(max, 0.0, I)(reduce(max, -1.0, J)(x))", x={"I": (0, 2), "J": (0, 3)})
    reduce(max, 0.0, I)(reduce(max, -inf, J)(x))
    """
    f, init, x = e.args[:3]
    first = constant_of(init)
    if not isinstance(f, Operator) or f.op not in ("min", "max") or first is None or len(e.args) > 3:
        return None
    made = _from_nothing(x, f.op, first.value)
    return None if made is x else call("reduce", f, init, made, static=e.static, span=e.span)


def start_again(e: Call) -> Expr | None:
    """A maximum is at least what it starts from.

    >>> from tensorir.lift.rewrites.canonical import Canonical
    >>> from tensorir.passes.show import show
    >>> show(Canonical(), "max(-1.0, reduce(max, 0.0, J)(x))", x={"I": (0, 2), "J": (0, 3)})
    reduce(max, 0.0, J)(x)
    """
    for one, other in (e.args, e.args[::-1]):
        match constant_of(one), other:
            case Literal(value), Call("reduce", (Operator(inner), start, _)) if inner == e.op:
                first = constant_of(start)
                if first is not None and _outdoes(e.op, first.value, value):
                    return other
            case _:
                pass
    return None


def _from_nothing(x: Expr, op: str, first: Any) -> Expr:
    """The folds that an expression begins with, from nothing where `first` outdoes what they start from.

    A number that it outdoes is not compared with the terms, either.
    """
    match x:
        case Call(inner, (one, other)) if inner == op:
            for number, rest in ((constant_of(one), other), (constant_of(other), one)):
                if number is not None and _outdoes(op, first, number.value) and rest.type == x.type:
                    return rest
            return x
        case Call("reduce", (Operator(inner) as f, start, y)) if inner == op:
            pass
        case _:
            return x
    known, element = constant_of(start), x.tensor.element
    assert isinstance(element, Scalar)
    nothing = neutral(op, element)
    within = _from_nothing(y, op, first)
    if known is not None and known.value != nothing and _outdoes(op, first, known.value):
        start = spread(literal(nothing, element), dict(start.tensor.dims.items))
    elif within is y:
        return x
    return call("reduce", f, start, within, static=x.static, span=x.span)


def _outdoes(op: str, first: Any, other: Any) -> bool:
    """Whether a maximum, or a minimum, of two numbers is the first one, with its sign if both are zero."""
    return repr(first) == repr(other) or (first > other if op == "max" else first < other)


def fold_like(op: str, init: Expr, x: Expr, dim: str, like: Call) -> Expr:
    """A fold whose results have their dims as those of another have them, where they have all of these."""
    rest = x.tensor.on(x.tensor.dims.without(dim))
    same = set(rest.dims.names) == set(like.tensor.dims.names)
    state = like.tensor if same else rest
    return reduce(operator(op, state, rest), init, x, dim=dim, span=like.span)


def rounds(e: Call) -> bool:
    """Whether a fold of floats depends on the order of its terms."""
    element, f = e.tensor.element, e.args[0]
    floats = isinstance(element, Scalar) and element.is_float
    return floats and isinstance(f, Operator) and f.op in ("plus", "multiplies")


def is_whole(e: Call) -> bool:
    """Whether an expression is of whole numbers or truths, whose sums are the same in every order."""
    return isinstance(e.tensor.element, Scalar) and not e.tensor.element.is_float


def _name(x: Expr, outer: str, part: str) -> str:
    """The name that two parts of a dim share, or one that nothing has."""
    stem = outer.rstrip("_0123456789")
    if part.startswith(stem) and stem and stem not in x.tensor.dims:
        return stem
    return f"{outer}_{part}"


@dataclass(frozen=True, slots=True)
class _Whole:
    """A dim in the place of its two parts."""

    outer: str
    part: str
    size: int
    dim: str

    @property
    def _names(self) -> set[str]:
        return {self.outer, self.part, self.dim}

    def _total(self, e: Expr) -> Expr | None:
        """A sum of coordinates that has both parts as one: `8 × a + 2 × b` is `2 × i`, where b counts to 4."""
        total = sum_of_coordinates(e)
        if total is None or not total.is_linear or self.dim in total.names:
            return None
        factors = {n: c for n, c in total.terms if isinstance(n, str)}
        outer, part = (e.tensor.dims.get(n) for n in (self.outer, self.part))
        if outer is None or part is None or part.start or len(part) != self.size:
            return None
        if factors.get(self.outer, 0) != factors.get(self.part, 0) * self.size:
            return None
        # what counts the parts in turn counts the whole
        rest = total.replaced({self.outer: number(0), self.part: variable(self.dim)}, {})
        dims = {**dict(e.tensor.dims.items), self.dim: Interval(outer.start * self.size, outer.stop * self.size)}
        return sum_of(rest, {n: position(n, dims[n]) for n in sorted(rest.names)})

    def of(self, e: Expr) -> Expr | None:
        """The expression over the dim; None where it needs the parts apart."""
        here = {self.outer, self.part} & set(e.tensor.dims)
        if not here:
            return e if self.dim not in e.tensor.dims else None
        if len(here) == 1:
            return None  # one part alone
        match e:
            case Call("split_dim", (x,), (dim, self.outer, self.part, self.size)):
                return renamed(x, {dim: self.dim}) if self.dim == dim or self.dim not in x.tensor.dims else None
            case Call("rename", (x,), (pairs,)) if self.dim not in x.tensor.dims and self.dim not in e.tensor.dims:
                before = {new: old for old, new in pairs}
                under = replace(self, outer=before.pop(self.outer, self.outer), part=before.pop(self.part, self.part))
                made = under.of(x)
                return None if made is None else renamed(made, {old: new for new, old in before.items()})
            case Call("plus" | "minus" | "multiplies") if (total := self._total(e)) is not None:
                return total
            case Call("reduce", (Operator(op), init, x), (dim,)) if not {dim, *init.tensor.dims} & self._names:
                folded = self.of(x)
                return None if folded is None else fold_like(op, init, folded, dim, e)
            case Call("gather", (x, *indices), (dims, _)) if not set(x.tensor.dims.without(*dims)) & self._names:
                found = [self.of(i) for i in indices]
                places = [i for i in found if i is not None]
                whole = len(places) == len(found)
                return call("gather", x, *places, static=e.static, span=e.span) if whole else None
            case Call("gather", (x, *indices), (dims, _)) if not {
                *dims,
                *(n for i in indices for n in i.tensor.dims),
            } & (self._names):
                inner = self.of(x)
                return None if inner is None else call("gather", inner, *indices, static=e.static, span=e.span)
            case Call(op, args) if TABLE[op].elementwise and all(isinstance(a.type, TensorType) for a in args):
                parts = [self.of(a) for a in args]
                known = [p for p in parts if p is not None]
                return call(op, *known, static=e.static, span=e.span) if len(known) == len(parts) else None
            case _:
                return None


def merge_of_whole(e: Call) -> Expr | None:
    """What is put together of parts that nothing needed apart was never taken apart; `3 × a + b` needs none.

    >>> from tensorir.lift.rewrites.canonical import Canonical
    >>> from tensorir.passes.show import show
    >>> show(Canonical(), "merge_dims(I_0, I_1, I)(exp(split_dim(I, I_0, I_1, 3)(x)))", x={"I": (0, 6)})
    exp(x)
    """
    outer, part, dim = e.static
    (x,) = e.args
    return _Whole(outer, part, len(x.tensor.dims[part]), dim).of(x) if outer != part else None
