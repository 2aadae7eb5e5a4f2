"""Makers of tensor IR for the lifts: constants on dims, coordinates, parts, and pieces put into place.

>>> from tensorir.integers.dims import Interval
>>> from tensorir.ir.types import FLOAT32
>>> filled(0.0, FLOAT32, {"i": Interval(0, 4)}).type
tensor<float32, i[0:4]>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, cartesian_shift, literal, operator, reduce
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal
from tensorir.ir.rewrite import postorder, rebuild, values, with_label, with_values
from tensorir.ir.types import BOOL, INT32, INT64, SCALARS, Scalar, TensorType, bcast
from tensorir.lifting.nests.nest import Store
from tensorir.lifting.nests.terms import Load, Number, Op, Term, buffers_of, extreme, fits, loads
from tensorir.passes.base import remade
from tensorir.runtime.errors import NOWHERE, Span
from tensorir.runtime.memory import remembered

WIDTHS = (INT32, INT64, SCALARS["uint64"])
"""The types of sums of coordinates."""


def filled(value: Any, element: Scalar, dims: Mapping[str, Interval]) -> Expr:
    """One number everywhere."""
    return spread(literal(value, element), dims)


def spread(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The tensor with the dims that it lacks."""
    for name, i in dims.items():
        if name not in x.tensor.dims:
            x = call("add_dim", x, static=(name, i.start, i.stop))
    return x


def constant_of(x: Expr) -> Literal | None:
    """The number that a tensor is everywhere."""
    while isinstance(x, Call) and x.op in ("add_dim", "subset", "rename", "cartesian_shift"):
        x = x.args[0]
    return x if isinstance(x, Literal) else None


def renamed(x: Expr, names: Mapping[str, str]) -> Expr:
    """The tensor under other names of its dims."""
    pairs = tuple((old, new) for old, new in names.items() if old != new and old in x.tensor.dims)
    if not pairs:
        return x
    if isinstance(x, Call) and x.op == "rename":
        before: dict[str, str] = dict(x.static[0])
        inner, now = x.args[0], dict(pairs)
        middle = {d: before.get(d, d) for d in inner.tensor.dims}
        return renamed(inner, {d: now.get(m, m) for d, m in middle.items()})
    return call("rename", x, static=(pairs,))


def shifted(x: Expr, dim: str, by: int) -> Expr:
    """`shifted(x, d, c)[p] = x[p + c]`."""
    if not by or dim not in x.tensor.dims:
        return x
    if isinstance(x, Call) and x.op == "cartesian_shift" and x.static[0] == dim:
        return shifted(x.args[0], dim, by + x.static[1])
    return cartesian_shift(x, dim, by)


def cut(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The part of a tensor on intervals; dims that it lacks do not matter."""
    smaller = {n: i for n, i in dims.items() if n in x.tensor.dims and x.tensor.dims[n] != i}
    return call("subset", x, static=(Dims(tuple(smaller.items())),)) if smaller else x


def widened(x: Expr, dims: Mapping[str, Interval]) -> Expr:
    """The tensor on larger intervals, zero where it had no points."""
    larger = {n: x.tensor.dims[n] | i for n, i in dims.items() if n in x.tensor.dims}
    if all(x.tensor.dims[n] == i for n, i in larger.items()):
        return x
    whole = {n: larger.get(n, i) for n, i in x.tensor.dims.items}
    element = x.tensor.element
    assert isinstance(element, Scalar)
    return call("update", filled(0, element, whole), x)


def position(dim: str, interval: Interval) -> Expr:
    """The coordinate along a dim."""
    return call("pos", filled(False, BOOL, {dim: interval}), static=(dim,))


def sum_of(a: Affine, parts: Mapping[str, Expr], element: Scalar = INT32) -> Expr:
    """A sum of coordinates."""
    # what is taken away stands after something that it is taken from
    first = [t for t in a.terms if t[1] > 0]
    total: Expr | None = literal(a.constant, element) if not first and a.constant > 0 else None
    rest = 0 if total is not None else a.constant
    for atom, c in [*first, *(t for t in a.terms if t[1] < 0)]:
        if isinstance(atom, str):
            part = converted(parts[atom], element)
        else:
            part = call("floordiv", sum_of(atom.inner, parts, element), literal(atom.by, element))
        part = part if abs(c) == 1 else call("multiplies", literal(abs(c), element), part)
        if total is None:
            total = part if c > 0 else call("neg", part)
        else:
            total = call("plus" if c > 0 else "minus", total, part)
    if total is None:
        return literal(a.constant, element)
    if rest:
        total = call("plus" if rest > 0 else "minus", total, literal(abs(rest), element))
    return total


def width_of(a: Affine, ranges: Mapping[str, tuple[int, int]]) -> Scalar:
    """The type to compute a sum in: the first of int32, int64 and uint64 that holds it and what it is made of.

    >>> i, by = variable("i"), {"i": (0, 3)}
    >>> width_of(i.times(1 << 29), by), width_of(i.times(1 << 30), by), width_of(i.plus(number(1 << 63)), by)
    (int32, int64, uint64)
    """
    return next((w for w in WIDTHS if _holds(w, a, ranges)), WIDTHS[-1])


def _holds(element: Scalar, a: Affine, ranges: Mapping[str, tuple[int, int]]) -> bool:
    quotients = [atom for atom, _ in a.terms if not isinstance(atom, str)]
    numbers = (a.constant, *(c for _, c in a.terms), *(q.by for q in quotients))
    return (
        fits(a, element, ranges)
        and all(abs(n) in element.range for n in numbers)
        and all(_holds(element, q.inner, ranges) for q in quotients)
    )


def alike(sums: Sequence[Expr]) -> list[Expr]:
    """Sums as numbers of one type, the widest that one of them has."""
    found = [w for w in WIDTHS if any(x.tensor.element == w for x in sums)]
    return [converted(x, found[-1]) for x in sums]


def converted(x: Expr, element: Scalar) -> Expr:
    """The tensor as one of another element type."""
    return x if x.tensor.element == element else call("cast", x, static=(element,))


WRAPPING = {"plus", "multiplies", "bit_and", "bit_or", "bit_xor"}
"""Of which the lowest bits of the result are those of the lowest bits of the operands."""


def neutral(op: str, element: Scalar, exact: bool = False) -> bool | int | float:
    """The neutral element; where `exact`, it leaves the sign of a zero: `-0.0 + x` is x, and `0.0 + -0.0` is 0.0."""
    identity = TABLE[op].identity
    assert identity is not None
    return -0.0 if exact and op == "plus" and element.is_float else identity(element)


Fold = tuple[str, Term, tuple[Term, ...]]


def fold_of(node: Store, apart: Callable[[Load], bool] = lambda load: False) -> Fold | None:
    """The operation, what is folded, and under which further conditions, of a store that folds into its element.

    What is folded reads the buffer only where `apart` says that no iteration writes.
    """
    old = Load(node.buffer, node.indices)
    found = _fold(node.value, old)
    if found is None:
        return None
    _, term, conditions = found
    if any(node.buffer in buffers_of(i) for i in node.indices):
        return None
    reads = {load for part in (term, *conditions, *node.guards) for load in loads(part) if load.buffer is node.buffer}
    return found if all(apart(load) for load in reads) else None


def _fold(value: Term, old: Load | Op) -> Fold | None:
    """`old` is an element, or the element as a number of a wider type."""
    match value:
        case Op("cast", (wide,), element) if _wraps(element, wide.element) and old.element == element:
            # what does not fit wraps: whether after every step, or once, is the same
            inner = _fold(wide, Op("cast", (old,), wide.element))
            if inner is None or inner[0] not in WRAPPING:
                return None
            return inner[0], Op("cast", (inner[1],), element), inner[2]
        case Op("minus", (x, e), element) if x == old:
            return "plus", Op("neg", (e,), element), ()
        case Op(
            "plus" | "multiplies" | "min" | "max" | "and" | "or" | "bit_and" | "bit_or" | "bit_xor" | "xor" as op,
            (a, b),
        ):
            if a == old:
                return op, b, ()
            if b == old:
                return op, a, ()
            return _nested(op, a, b, old)
        case Op("if", (c, x, Number(False))) if value.element == BOOL and old in (c, x):
            return _lazy("and", x if c == old else c, c == old)
        case Op("if", (c, Number(True), x)) if value.element == BOOL and old in (c, x):
            return _lazy("or", x if c == old else c, c == old)
        case Op("if") if value.element.is_float and (larger := extreme(value)) is not None and not _is_exact(old):
            op, a, b = larger
            return (op, a if b == old else b, ()) if old in (a, b) else _nested(op, a, b, old)
        case Op("if", (c, x, y)) if y == old:
            inner = _fold(x, old)
            return None if inner is None else (inner[0], inner[1], (*inner[2], c))
        case Op("if", (c, x, y)) if x == old:
            inner = _fold(y, old)
            return None if inner is None else (inner[0], inner[1], (*inner[2], Op("not", (c,), BOOL)))
        case _:
            return None


def _lazy(op: str, term: Term, later: bool) -> Fold | None:
    """A truth value that is asked for only where the one before does not decide: all are, unless reads may fail."""
    fails = later and any(loads(i) for load in loads(term) for i in load.indices)
    return None if fails else (op, term, ())


def _wraps(narrow: Scalar, wide: Scalar) -> bool:
    """True if a conversion keeps the lowest bits of a number."""
    return narrow.is_integer and wide.is_integer and narrow.bits <= wide.bits


def _nested(op: str, a: Term, b: Term, old: Load | Op) -> Fold | None:
    """`(old ⊕ x) ⊕ y` is `old ⊕ (x ⊕ y)`, but for rounding."""
    if _is_exact(old) and rounds(op, old.element):
        return None
    for x, y in ((a, b), (b, a)):
        inner = _fold(x, old) if isinstance(x, Op) and x.op in (op, "if") else None
        if inner is not None and inner[0] == op and not inner[2]:
            return op, Op(op, (inner[1], y), y.element), ()
    return None


def _is_exact(old: Load | Op) -> bool:
    return isinstance(old, Load) and old.buffer.exact


def rounds(op: str, element: Scalar) -> bool:
    """True if another order of folding gives other numbers."""
    return element.is_float and op in ("plus", "multiplies")


def folded(
    op: str, old: Expr, value: Expr, over: Sequence[str], element: Scalar, exact: bool = False, span: Span = NOWHERE
) -> Expr:
    """The old value with all elements of `value` along some dims folded into it."""
    if not over:
        return call(op, old, value)
    if exact and rounds(op, element):
        # one fold from the first element to the last: folds of rows would be added up in another order
        value, over = _in_a_row(value, over)
    for k, dim in enumerate(reversed(over)):
        last = k == len(over) - 1
        init = old if last else literal(neutral(op, element), element)
        rest = value.tensor.on(value.tensor.dims.without(dim))
        state = TensorType(element, bcast([rest, init.tensor]))
        value = reduce(operator(op, state, rest), init, value, dim=dim, span=span)
    return value


def _in_a_row(value: Expr, over: Sequence[str]) -> tuple[Expr, list[str]]:
    """Several dims as one, the last of them fastest."""
    first, *rest = over
    for dim in rest:
        start = value.tensor.dims[dim].start
        if start:
            value = call("cartesian_shift", value, static=(dim, start))
        name = f"{first}_{dim}"
        value = call("merge_dims", value, static=(first, dim, name))
        first = name
    return value, [first]


def with_sums_of_coordinates(f: Fencil) -> Fencil:
    """The fencil with every sum of coordinates in normal form for the intervals on which it is asked for."""
    forms = _Forms()
    made: dict[int, Expr] = {}
    for e in postorder(*values(f.closures)):
        if sum_of_coordinates(e) is not None:
            made[id(e)] = e  # whoever asks for it gets it in normal form
            continue
        new = rebuild(e, tuple(forms.normal(made[id(c)]) for c in e.children))
        match new:
            case Call("cartesian_shift", (x,), (dim, by)) if not x.free:
                new = forms.moved(x, dim, by)
            case _:
                pass
        made[id(e)] = new
    return remade(f, with_values(f.closures, [forms.normal(made[id(e)]) for e in values(f.closures)]))


def sum_of_coordinates(e: Expr) -> Affine | None:
    """The sum of coordinates, and of quotients of such, that an expression of type int32 is; None for others."""
    closed = not e.free and isinstance(e.type, TensorType) and e.tensor.element == INT32
    return _closed_sum(e) if closed else None


@remembered("facts of nests", limit=4096)
def _closed_sum(e: Expr) -> Affine | None:
    """The same of an expression without variables: rules ask for it of every node above, and again in every round."""
    ranges = {n: (i.start, i.stop - 1) for n, i in e.tensor.dims.items}
    match e:
        case Literal(value):
            return number(int(value))
        case Call("pos", _, (dim,)):
            return variable(dim)
        case Call("add_dim" | "subset" | "rename" | "cartesian_shift" as op, (x,), static):
            inside = sum_of_coordinates(x)
            values: dict[str, Affine] = {}
            if op == "cartesian_shift":
                values[static[0]] = variable(static[0]).plus(number(static[1]))
            elif op == "rename":
                values |= {old: variable(new) for old, new in static[0]}
            return None if inside is None else inside.replaced(values, ranges)
        case Call("plus" | "minus" | "multiplies" | "floordiv" | "mod" as op, (x, y)):
            a, b = sum_of_coordinates(x), sum_of_coordinates(y)
            if a is None or b is None:
                return None
            # an operand may be there for more points than both are
            found = _combined(op, a.replaced({}, ranges), b.replaced({}, ranges), ranges)
            return found if found is not None and fits(found, INT32, ranges) else None
        case _:
            return None


@dataclass(slots=True)
class _Forms:
    """The expressions that sums are."""

    done: dict[int, Expr] = field(default_factory=dict[int, Expr])
    shifted: dict[tuple[int, str, int], Expr] = field(default_factory=dict[tuple[int, str, int], Expr])
    kept: list[Expr] = field(default_factory=list[Expr])
    """What is known by its identity stays."""

    def normal(self, e: Expr) -> Expr:
        """An expression, in normal form where it is a sum of coordinates."""
        a = sum_of_coordinates(e)
        if a is None or isinstance(e, Literal):
            return e
        if id(e) not in self.done:
            dims = dict(e.tensor.dims.items)
            if width_of(a, {n: (i.start, i.stop - 1) for n, i in dims.items()}) != INT32:
                return e
            self.kept.append(e)
            new = spread(sum_of(a, {n: position(n, dims[n]) for n in sorted(a.names)}), dims)
            self.done[id(e)] = with_label(new, e.label) if new.type == e.type and new != e else e
        return self.done[id(e)]

    def moved(self, e: Expr, dim: str, by: int) -> Expr:
        """The shift of an expression of coordinates alone: the expression of shifted coordinates."""
        if dim not in e.tensor.dims:
            return e
        key = id(e), dim, by
        if key not in self.shifted:
            self.kept.append(e)
            self.shifted[key] = self._moved(e, dim, by)
        return self.shifted[key]

    def _moved(self, e: Expr, dim: str, by: int) -> Expr:
        match e:
            case Call(op, args) if TABLE[op].elementwise and sum_of_coordinates(e) is None:
                new = call(op, *(self.moved(a, dim, by) for a in args), static=e.static, span=e.span)
                return with_label(new, e.label)
            case _:
                return self.normal(shifted(e, dim, by))


def _combined(op: str, a: Affine, b: Affine, ranges: dict[str, tuple[int, int]]) -> Affine | None:
    match op:
        case "plus":
            return a.plus(b)
        case "minus":
            return a.minus(b)
        case "multiplies" if a.is_number or b.is_number:
            return b.times(a.constant) if a.is_number else a.times(b.constant)
        case "floordiv" if b.is_number and b.constant > 0:
            return quotient(a, b.constant, ranges)
        case "mod" if b.is_number and b.constant > 0:
            return remainder(a, b.constant, ranges)
        case _:
            return None
