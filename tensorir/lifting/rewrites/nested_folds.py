"""Folds of folds: over the parts of a dim, and what the parts of a dim are put together for.

>>> from tensorir.passes.base import show
>>> from tensorir.lifting.rewrites.canonical import Canonical
>>> f = "reduce(+, 0.0, I_0)(reduce(+, 0.0, I_1)(split_dim(I, I_0, I_1, 3)(x)))"
>>> show(Canonical(), f, x={"I": (0, 6)})
reduce(+, 0.0, I)(x)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tensorir.integers.affine import Affine, Quotient, number, variable
from tensorir.ir.build import call, fresh, literal, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Literal, Operator
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import INT32, Interval, Scalar, TensorType
from tensorir.lifting.emission.tensors import (
    constant_of,
    filled,
    neutral,
    position,
    renamed,
    spread,
    sum_of,
    sum_of_coordinates,
    width_of,
)


def starts_from_nothing(op: str, start: Expr, init: Expr) -> bool:
    """True if a fold inside of a fold by one operation adds nothing by what it starts from."""
    match start:
        case Literal(value, element):
            return (TABLE[op].idempotent and start == init) or value == neutral(op, element)
        case _:
            return False


def sum_from_nothing(e: Call) -> Expr | None:
    """Nothing is added by 0 to a sum that starts from 0, which is never -0.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(exact=True), "0.0 + reduce(+, 0.0, I)(x)", x={"I": (0, 2)})
    reduce(+, 0.0, I)(x)
    """
    x, y = e.args
    for one, other in ((x, y), (y, x)):
        added = constant_of(other)
        if added is None or added.value != 0 or not set(other.tensor.dims) <= set(one.tensor.dims):
            continue
        match one:
            case Call("contract") | Call("reduce", (Operator("plus"), Literal(0, _), _)) if not _is_negative(one):
                return one
            case _:
                pass
    return None


def _is_negative(e: Expr) -> bool:
    """True if a sum starts from -0."""
    match e:
        case Call("reduce", (_, Literal(start), _)):
            return str(start).startswith("-")
        case _:
            return False


def fold_of_fold(e: Call) -> Expr | None:
    """A fold over both parts of a dim is a fold over the dim."""
    match e:
        case Call("reduce", (Operator(op), init, Call("reduce", (Operator(inner), start, x), (b,))), (a,)):
            pass
        case _:
            return None
    if op != inner or not TABLE[op].associative or a not in x.tensor.dims or not starts_from_nothing(op, start, init):
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


def contraction_of_parts(e: Call) -> Expr | None:
    """A contraction over both parts of a dim, which both factors have, is one over the dim.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> factors = "(split_dim(K, K_0, K_1, 3)(x), split_dim(K, K_0, K_1, 3)(y))"
    >>> show(Canonical(), f"contract(float, K_0, K_1){factors}", x={"I": (0, 2), "K": (0, 6)}, y={"K": (0, 6)})
    contract(float, K)(x, y)
    """
    element, dims = e.static
    x, y = e.args
    for k, (a, b) in enumerate(pairwise(dims)):
        if any(n not in f.tensor.dims for n in (a, b) for f in (x, y)):
            continue
        for outer, part in ((a, b), (b, a)):
            name = _name(call("multiplies", x, y) if x.tensor.element == y.tensor.element else x, outer, part)
            if name in x.tensor.dims or name in y.tensor.dims:
                continue
            whole = _Whole(outer, part, len(x.tensor.dims[part]), name)
            made = [f for f in map(whole.of, (x, y)) if f is not None]
            if len(made) == 2:
                return call("contract", *made, static=(element, (*dims[:k], name, *dims[k + 2 :])), span=e.span)
    return None


def fold_of_merged(e: Call) -> Expr | None:
    """A fold over two dims that were merged for it is one over both.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "reduce(+, 0.0, K)(merge_dims(I, J, K)(x))", x={"I": (0, 2), "J": (0, 3)})
    reduce(+, 0.0, I)(reduce(+, 0.0, J)(x))
    """
    match e:
        case Call("reduce", (Operator(op), init, Call("merge_dims", (x,), (a, b, merged))), (dim,)) if merged == dim:
            element = x.tensor.element
            if not TABLE[op].associative or not isinstance(element, Scalar) or {a, b} & set(init.tensor.dims):
                return None
            within = fold_like(op, literal(neutral(op, element), element), x, b, e)
            return fold_like(op, init, within, a, e)
        case _:
            return None


def fold_of_one(e: Call) -> Expr | None:
    """A fold over one place that starts from nothing is what stands there.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "reduce(+, 0.0, J)(add_dim(J, 0, 1, x) × y)", x={"I": (0, 2)}, y={"I": (0, 2), "J": (0, 1)})
    x × gather(J, clamp)(y, 0)
    """
    match e:
        case Call("reduce", (Operator(op), init, x), (dim,)) if len(x.tensor.dims[dim]) == 1 and TABLE[op].associative:
            nothing = starts_from_nothing(op, init, init) and not TABLE[op].idempotent
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
            case Call("split_dim" | "merge_dims" as op, (y,)) if dim not in x.static:
                return call(op, self.of(y), static=x.static, span=x.span)
            case Call(op, args) if TABLE[op].elementwise:
                parts = (self.of(a) if dim in a.tensor.dims else a for a in args)
                return call(op, *parts, static=x.static, span=x.span)
            case _:
                return call("gather", x, literal(self.place, INT32), static=((dim,), "clamp"))


def point_of_computed(e: Call) -> Expr | None:
    """A point along a dim of what was computed of tensors that lack it, but for padding, is computed of those.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> padded = "update(add_dim(I, 0, 2, add_dim(J, 0, 4, 0.0)), add_dim(J, 0, 1, y))"
    >>> show(Canonical(), f"gather(J, clamp)(exp(x × {padded}), 0)", x={"I": (0, 2)}, y={"I": (0, 2)})
    exp(x × y)
    """
    match e:
        case Call("gather", (Call(op) as x, Literal(value)), ((dim,), _)) if op in _FOLLOWED or TABLE[op].elementwise:
            place = int(value)
            return _At(dim, place).of(x) if place in x.tensor.dims[dim] and _lacking(x, dim) else None
        case _:
            return None


_FOLLOWED = ("reduce", "split_dim", "merge_dims")
"""What a point is taken through, beside elementwise builtins."""


def _lacking(x: Expr, dim: str) -> bool:
    """True if a tensor was computed of others that lack a dim, or had it added."""
    match x:
        case _ if dim not in x.tensor.dims:
            return True
        case Call("add_dim", (y,), (added, *_)):
            return added == dim or _lacking(y, dim)
        case Call("update", (base, part)):
            whole = all(part.tensor.dims.get(d) == i for d, i in base.tensor.dims.items if d != dim)
            return whole and constant_of(base) is not None and _lacking(part, dim)
        case Call("reduce", (Operator(), init, y), (other,)):
            return dim not in (other, *init.tensor.dims) and _lacking(y, dim)
        case Call("split_dim" | "merge_dims", (y,)):
            return dim not in x.static and _lacking(y, dim)
        case Call(op, args) if TABLE[op].elementwise:
            return all(_lacking(a, dim) for a in args)
        case _:
            return False


def start_within(e: Call) -> Expr | None:
    """What is inside of a maximum needs no comparison with what the maximum itself starts from, or with less.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
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

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "max(-1.0, reduce(max, 0.0, J)(x))", x={"I": (0, 2), "J": (0, 3)})
    reduce(max, 0.0, J)(x)
    """
    for one, other in (e.args, e.args[::-1]):
        match constant_of(one), other:
            case Literal(value), Call("reduce", (Operator(inner), start, _)) if inner == e.op:
                first = constant_of(start)
                if first is not None and outdoes(e.op, first.value, value):
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
                if number is not None and outdoes(op, first, number.value) and rest.type == x.type:
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
    if known is not None and known.value != nothing and outdoes(op, first, known.value):
        start = spread(literal(nothing, element), dict(start.tensor.dims.items))
    elif within is y:
        return x
    return call("reduce", f, start, within, static=x.static, span=x.span)


def outdoes(op: str, first: Any, other: Any) -> bool:
    """True if a maximum, or a minimum, of two numbers is the first one, with its sign if both are zero."""
    return repr(first) == repr(other) or (first > other if op == "max" else first < other)


def fold_like(op: str, init: Expr, x: Expr, dim: str, like: Call) -> Expr:
    """A fold whose results have their dims as those of another have them, where they have all of these."""
    rest = x.tensor.on(x.tensor.dims.without(dim))
    same = set(rest.dims.names) == set(like.tensor.dims.names)
    state = like.tensor if same else rest
    return reduce(operator(op, state, rest), init, x, dim=dim, span=like.span)


def rounds(e: Call) -> bool:
    """True if a fold of floats depends on the order of its terms."""
    element, f = e.tensor.element, e.args[0]
    floats = isinstance(element, Scalar) and element.is_float
    return floats and (e.op == "contract" or (isinstance(f, Operator) and f.op in ("plus", "multiplies")))


def is_whole(e: Call) -> bool:
    """True if an expression is of whole numbers or truths, whose sums are the same in every order."""
    return isinstance(e.tensor.element, Scalar) and not e.tensor.element.is_float


def _name(x: Expr, outer: str, part: str) -> str:
    """A name for both parts of a dim: what their names share, or one like that of the outer one that nothing has."""
    stem = outer.rstrip("_0123456789")
    if stem and part.startswith(stem) and stem not in x.tensor.dims:
        return stem
    taken = {d for e in postorder(x) if isinstance(e.type, TensorType) for d in e.tensor.dims.names}
    return fresh(stem or outer, taken)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A dim in the place of its two parts."""

    outer: str
    part: str
    size: int
    dim: str
    known: dict[tuple[int, str, str], Expr | None] = field(
        default_factory=dict[tuple[int, str, str], "Expr | None"], compare=False
    )
    """What is shared is looked at once."""

    @property
    def _names(self) -> set[str]:
        return {self.outer, self.part, self.dim}

    def _total(self, e: Expr) -> Expr | None:
        """A sum of coordinates that has both parts as one: `8 × a + 2 × b` is `2 × i`, where b counts to 4."""
        total = sum_of_coordinates(e)
        if total is None or self.dim in total.names:
            return None
        outer, part = (e.tensor.dims.get(n) for n in (self.outer, self.part))
        if outer is None or part != Interval(0, self.size) or not self._together(total):
            return None
        # what counts the parts in turn counts the whole
        dims = {**dict(e.tensor.dims.items), self.dim: Interval(outer.start * self.size, outer.stop * self.size)}
        ranges = {n: (i.start, i.stop - 1) for n, i in dims.items()}
        rest = total.replaced({self.outer: number(0), self.part: variable(self.dim)}, ranges)
        return sum_of(rest, {n: position(n, dims[n]) for n in sorted(rest.names)})

    def _together(self, total: Affine) -> bool:
        """True if a sum, and what it takes quotients of, needs both parts as one."""
        inner = (atom.inner for atom, _ in total.terms if isinstance(atom, Quotient))
        alike = total.coefficient(self.outer) == total.coefficient(self.part) * self.size
        return alike and all(map(self._together, inner))

    def _number(self, value: Any, element: Scalar, dims: dict[str, Interval]) -> Expr | None:
        """One number everywhere, along the dim as well; where it lacks the outer part what it meets has that."""
        outer, part = dims.pop(self.outer, None), dims.pop(self.part, Interval(0, self.size))
        if outer is None:
            return filled(value, element, dims)
        if part != Interval(0, self.size) or self.dim in dims:
            return None
        return filled(value, element, {**dims, self.dim: Interval(outer.start * self.size, outer.stop * self.size)})

    def _bound(self, e: Expr) -> Expr | None:
        """A bound of the outer part as one of the dim: `8 × b + a < 20` is `32 × b + i < 80`, where i counts fours."""
        match e:
            case Call("less" | "greater_equal", (x, Literal(value))) if (total := sum_of_coordinates(x)) is not None:
                pass
            case _:
                return None
        if not total.is_linear or total.coefficient(self.outer) != 1 or {self.part, self.dim} & total.names:
            return None
        outer = e.tensor.dims[self.outer]
        dims = dict(e.tensor.dims.items) | {self.dim: Interval(outer.start * self.size, outer.stop * self.size)}
        new = total.minus(variable(self.outer)).times(self.size).plus(variable(self.dim))
        bound = int(value) * self.size
        if width_of(new, {n: (i.start, i.stop - 1) for n, i in dims.items()}) != INT32 or bound not in INT32.range:
            return None
        made = sum_of(new, {n: position(n, dims[n]) for n in sorted(new.names)})
        return call(e.op, made, literal(bound, INT32), span=e.span)

    def of(self, e: Expr) -> Expr | None:
        """The expression over the dim; None where it needs the parts apart."""
        key = id(e), self.outer, self.part
        if key not in self.known:
            self.known[key] = self._of(e)
        return self.known[key]

    def _moved(self, e: Call) -> Expr | None:
        """What an expression of one operand along other dims makes of the operand over the dim."""
        made = self.of(e.args[0])
        return None if made is None else call(e.op, made, static=e.static, span=e.span)

    def _of(self, e: Expr) -> Expr | None:
        here = {self.outer, self.part} & set(e.tensor.dims)
        if not here:
            return e if self.dim not in e.tensor.dims else None
        if (same := constant_of(e)) is not None and isinstance(e.tensor.element, Scalar):
            return self._number(same.value, e.tensor.element, dict(e.tensor.dims.items))
        if len(here) == 1:
            return self._bound(e)  # one part alone
        match e:
            case Call("split_dim", (x,), (dim, self.outer, self.part, self.size)):
                return renamed(x, {dim: self.dim}) if self.dim == dim or self.dim not in x.tensor.dims else None
            case Call("rename", (x,), (pairs,)) if self.dim not in x.tensor.dims and self.dim not in e.tensor.dims:
                before = {new: old for old, new in pairs}
                under = replace(self, outer=before.pop(self.outer, self.outer), part=before.pop(self.part, self.part))
                made = under.of(x)
                return None if made is None else renamed(made, {old: new for new, old in before.items()})
            case Call("split_dim", _, (dim, outer, inner, _)) if not {dim, outer, inner} & self._names:
                return self._moved(e)
            case Call("cartesian_shift" | "add_dim", _, (dim, *_)) if dim not in self._names:
                return self._moved(e)
            case Call("subset", _, (cuts,)) if not set(cuts) & self._names:
                return self._moved(e)
            case Call("update", (base, x)) if (same := constant_of(base)) is not None and self.part in x.tensor.dims:
                whole, made = self._number(same.value, same.element, dict(e.tensor.dims.items)), self.of(x)
                kept = self.outer in x.tensor.dims and x.tensor.dims[self.part] == Interval(0, self.size)
                return call("update", whole, made, span=e.span) if whole and made and kept else None
            case Call("plus" | "minus" | "multiplies" | "floordiv" | "mod") if (total := self._total(e)) is not None:
                return total
            case Call("reduce", (Operator(op), init, x), (dim,)) if not {dim, *init.tensor.dims} & self._names:
                folded = self.of(x)
                return None if folded is None else fold_like(op, init, folded, dim, e)
            case Call("contract", (x, y), (_, dims)) if not {*dims} & self._names:
                factors = [self.of(a) for a in (x, y)]
                both = [a for a in factors if a is not None]
                return call("contract", *both, static=e.static, span=e.span) if len(both) == 2 else None
            case Call("gather", (x, *indices), (dims, _)) if not set(dims) & self._names:
                found = [x if not set(x.tensor.dims) & self._names else self.of(x), *map(self.of, indices)]
                operands = [i for i in found if i is not None]
                return call("gather", *operands, static=e.static, span=e.span) if len(operands) == len(found) else None
            case Call("gather", (x, *indices), (dims, _)) if not set(x.tensor.dims.without(*dims)) & self._names:
                places = [i for i in map(self.of, indices) if i is not None]
                return call("gather", x, *places, static=e.static, span=e.span) if len(places) == len(indices) else None
            case Call(op, args) if TABLE[op].elementwise and all(isinstance(a.type, TensorType) for a in args):
                parts = [self.of(a) for a in args]
                known = [p for p in parts if p is not None]
                return call(op, *known, static=e.static, span=e.span) if len(known) == len(parts) else None
            case _:
                return None


def merge_of_whole(e: Call) -> Expr | None:
    """What is put together of parts that nothing needed apart was never taken apart; `3 × a + b` needs none.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> show(Canonical(), "merge_dims(I_0, I_1, I)(exp(split_dim(I, I_0, I_1, 3)(x)))", x={"I": (0, 6)})
    exp(x)
    """
    outer, part, dim = e.static
    (x,) = e.args
    return _Whole(outer, part, len(x.tensor.dims[part]), dim).of(x) if outer != part else None


def merge_of_parts(e: Call) -> Expr | None:
    """Of three dims that are put together the first two go first, where nothing needed these apart.

    >>> from tensorir.lifting.rewrites.canonical import Canonical
    >>> from tensorir.passes.base import show
    >>> part = "exp(split_dim(I, I_0, I_1, 3)(x))"
    >>> show(Canonical(), f"merge_dims(I_0, R, K)(merge_dims(I_1, J, R)({part}))", x={"I": (0, 6), "J": (0, 2)})
    merge_dims(I, J, K)(exp(x))
    """
    match e:
        case Call("merge_dims", (Call("merge_dims", (x,), (b, c, inner)),), (a, rest, dim)) if rest == inner:
            both = _name(x, a, b)
            made = _Whole(a, b, len(x.tensor.dims[b]), both).of(x)
            return None if made is None else call("merge_dims", made, static=(both, c, dim), span=e.span)
        case _:
            return None
