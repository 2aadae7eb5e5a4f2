"""Coordinates in one form: what only coordinates tell is a sum of them and of their quotients, and is never shifted.

>>> from tensorir.text import parse
>>> t = "floordiv(pos(i, add_dim(i, 0, 9, false)), 2)"
>>> f = parse(f"f(A: tensor<int, i[1:10]>) {{ A ← A × ⟪i, -1⟫({t}); }}")
>>> print(with_sums_of_coordinates(f))
f(A: tensor<int, i[1:10]>) {
  A ← A × (floordiv(pos(i, add_dim(i, 1, 10, false)) + 1, 2) - 1);
}
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorir.integers.affine import Affine, number, quotient, remainder, variable
from tensorir.ir.build import call
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call, Expr, Fencil, Literal
from tensorir.ir.rewrite import postorder, rebuild, values, with_label, with_values
from tensorir.ir.types import INT32, TensorType
from tensorir.lifting.emission.tensors import position, shifted, spread, sum_of, width_of
from tensorir.lifting.nests.numbers import fits
from tensorir.passes.base import remade
from tensorir.runtime.memory import remembered


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
        """What only coordinates tell, shifted: made of coordinates that are shifted."""
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
