"""The state of one generated program: what is drawn, which variables there are, and how leaves are made.

Every rule of `rules` makes an expression of a wanted element whose dims cover a wanted box: it may lack dims of the
box, or hold more points. Parameters of the fencil come into being where a leaf needs one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorir.integers.dims import Dims, Interval
from tensorir.ir.build import call, literal, var
from tensorir.ir.nodes import Expr, Var
from tensorir.ir.rewrite import with_label
from tensorir.ir.types import BOOL, DTYPES, INT32, NEIGHBOUR, Element, Scalar, TensorType, TupleElement
from tensorir.ir.typing_of_elements import assignable
from tensorir.runtime.errors import DiagnosticError

from .data import Entries, special_values
from .profiles import Profile

__all__ = ["Maker", "Scope", "exactly", "full"]

REFUSED: Counter[tuple[str, str]] = Counter()
"""How often a rule made what the types refuse, by rule and code: few, or the generator is at fault."""

NAMES = ("I", "J", "K")
SOURCES = ("V", "E")
OTHERS = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Scope:
    """Where an expression stands."""

    variables: tuple[tuple[Var, bool], ...] = ()
    """Parameters of functions around it, and whether they may be absent."""
    forbidden: frozenset[str] = frozenset()
    """Dims that no variable from outside may have: those that a fold around it takes away."""
    outer: int = 0
    """How many of the variables are outside of that fold."""
    absent: bool = False
    """Whether the expression may be absent."""
    moving: bool = True
    """Whether it may read other points than its own."""

    def within(self, variables: Sequence[tuple[Var, bool]], without: str | None = None, **changes: Any) -> Scope:
        """The scope of a function's body."""
        inner = replace(self, variables=(*self.variables, *variables), **changes)
        if without is not None:
            inner = replace(inner, forbidden=self.forbidden | {without}, outer=len(self.variables))
        return inner


@dataclass(frozen=True)
class Known:
    """An expression that may be used again."""

    expr: Expr
    absent: bool
    scope: frozenset[Var]


class Maker:
    """One program under construction."""

    def __init__(self, integer: Callable[[int, int], int], profile: Profile, rules: Any) -> None:
        self.drawn, self.profile, self.rules = integer, profile, rules
        self.params: list[Var] = []
        self.entries: dict[str, Entries] = {}
        self.pool: list[Known] = []
        self.fuel = 14
        self.count = 0

    # Drawing

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def integer(self, low: int, high: int) -> int:
        return low if low == high else self.drawn(low, high)

    def chance(self, one_in: int) -> bool:
        """True once in so many times; false is the simpler case."""
        return self.integer(0, one_in - 1) == one_in - 1

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def interval(self, least: int = 1, most: int = 3, low: int = -2) -> Interval:
        start = self.pick([s for s in (0, -1, 1, -2, 3) if s >= low])
        if self.profile.few:
            return Interval(start, start + self.pick([2, 3]))
        if self.profile.long and self.chance(3):
            return Interval(start, start + self.integer(9, 14))
        return Interval(start, start + self.integer(least, most))

    def some(self, dims: Dims, one_in: int = 4) -> Dims:
        """The dims without a few of them."""
        return Dims(tuple(item for item in dims.items if not self.chance(one_in)))

    def within(self, interval: Interval) -> Interval:
        """An interval inside of another."""
        start = self.integer(interval.start, interval.stop - 1)
        return Interval(start, self.integer(start + 1, interval.stop))

    def widened(self, dims: Dims) -> Dims:
        """The box, with more points on some sides; neighbours are never more."""
        items: list[tuple[str, Interval]] = []
        often = 8 if self.profile.few else 3
        for name, i in dims.items:
            more = (self.integer(0, 1), self.integer(0, 1)) if name[0] != "_" and self.chance(often) else (0, 0)
            items.append((name, Interval(i.start - more[0], i.stop + more[1])))
        return Dims(tuple(items))

    def fresh(self, taken: Dims, options: Sequence[str] = OTHERS) -> str:
        """The name of a dim that a box lacks."""
        free = [n for n in options if n not in taken]
        return self.pick(free) if free else self.name("D")

    def element(self, tuples: bool = True) -> Element:
        if tuples and self.chance(6):
            return TupleElement(tuple(self.element(self.chance(3)) for _ in range(self.integer(1, 3))))
        return self.pick(self.profile.elements)

    def draw_two(self, options: Sequence[Any]) -> tuple[Any, Any]:
        first = self.pick(options)
        return first, self.pick([o for o in options if o != first])

    def some_names(self, options: Sequence[str]) -> list[str]:
        """One or two names, in any order."""
        options = list(dict.fromkeys(options))
        return list(self.draw_two(options)) if len(options) > 1 and self.chance(3) else [self.pick(options)]

    def integers(self) -> Scalar:
        return self.pick([INT32, *(e for e in self.profile.elements if e.is_integer)])

    # Expressions

    def expr(self, element: Element, need: Dims, depth: int, scope: Scope) -> Expr:
        """An expression of an element that covers a box."""
        made: Expr | None = None
        if depth > 0 and self.fuel > 0:
            self.fuel -= 1
            rule = self.pick(self.rules.applicable(self, element, need, scope))
            try:
                made = rule(self, element, need, depth - 1, scope)
            except DiagnosticError as refused:
                # operands that are wider than they had to be may have no point in common
                REFUSED[rule.__name__, refused.diagnostics[0].code] += 1
        if made is None or assignable(made.type, TensorType(element, need)) is not None:
            if made is not None:
                REFUSED[rule.__name__, assignable(made.type, TensorType(element, need)).message] += 1
            made = self.leaf(element, need, scope)
        if not made.children or not self.chance(3):
            return made
        if self.chance(2):
            made = with_label(made, self.name("t"))
        self.pool.append(Known(made, scope.absent, frozenset(v for v in made.free if v not in self.params)))
        return made

    def leaf(self, element: Element, need: Dims, scope: Scope) -> Expr:
        wanted = TensorType(element, need)
        bound = [v for v, absent in scope.variables if (scope.absent or not absent)]
        bound = [v for v in bound if self.reachable(v, scope) and assignable(v.type, wanted) is None]
        if bound and not self.chance(3):
            return self.pick(bound)
        visible = frozenset(v for v, _ in scope.variables)
        known = [
            k.expr
            for k in self.pool
            if k.scope <= visible
            and (scope.absent or not k.absent)
            and all(self.reachable(v, scope) for v in k.expr.free)
            and assignable(k.expr.type, wanted) is None
        ]
        kinds = ["literal", "param", "param", "param"] + ["known"] * (4 if known else 0)
        match self.pick(kinds):
            case "known":
                return self.pick(known)
            case "literal":
                return self.constant(element)
            case _:
                return self.parameter(element, need, scope)

    def reachable(self, variable: Var, scope: Scope) -> bool:
        """Whether no fold between the variable and here takes one of its dims away."""
        inside = [v for v, _ in scope.variables[scope.outer :]]
        return variable in inside or not any(d in scope.forbidden for d in variable.type.dims)

    def constant(self, element: Element) -> Expr:
        if isinstance(element, TupleElement):
            return call("make_tuple", *[self.constant(m) for m in element.members])
        return literal(self.number(element), element)

    def number(self, scalar: Scalar) -> Any:
        if scalar.kind == "bool":
            return self.chance(2)
        if self.profile.values == "gentle" and scalar.is_float:
            return self.pick([1.0, 0.5, 2.0, 1.25])
        small = [0, 1, 2, 3] + ([-1, -2] if scalar.kind != "uint" else [])
        if self.profile.values == "special" and self.chance(3):
            return self.pick(special_values(scalar).astype(DTYPES[scalar]).tolist())
        return float(self.pick(small)) if scalar.is_float else self.pick(small)

    def parameter(self, element: Element, need: Dims, scope: Scope) -> Expr:
        """A parameter of the fencil, a known one or a new one."""
        wanted = TensorType(element, need)
        fits = [
            p
            for p in self.params
            if p.name not in self.entries and self.reachable(p, scope) and assignable(p.type, wanted) is None
        ]
        if fits and not self.chance(3):
            return self.pick(fits)
        dims = Dims(tuple(item for item in self.some(need, 6).items if item[0] not in scope.forbidden))
        if len(dims) > 1 and self.chance(3):
            dims = Dims(dims.items[::-1])
        dims = self.widened(dims)
        return self.declare("p", TensorType(element, dims))

    def declare(self, prefix: str, kind: TensorType, entries: Entries | None = None) -> Var:
        made = var(self.name(prefix), kind)
        self.params.append(made)
        if entries is not None:
            self.entries[made.name] = entries
        return made

    # Integers that stay inside

    def index(
        self, inside: Interval, need: Dims, depth: int, scope: Scope, holes: bool = False, proven: bool = False
    ) -> Expr:
        """An integer of an interval, or -1 where there may be holes, at every point of a box.

        What is proven is known from the expression alone: a computed table that is not may hold -1.
        """
        element = self.pick([INT32, INT32, *(e for e in self.profile.elements if e.is_integer)])
        low = -1 if holes else inside.start
        if not element.range.covers(Interval(low, inside.stop)):
            element = INT32
        first, last = literal(inside.start, element), literal(inside.stop - 1, element)
        kinds = ["literal", "clamped", "remainder"] if depth > 0 else ["literal"]
        match self.pick(kinds if proven else ["param", "param", *kinds] if depth > 0 else ["param"]):
            case "literal":
                made: Expr = literal(self.integer(inside.start, inside.stop - 1), element)
            case "clamped":
                made = call("min", call("max", self.expr(element, need, depth - 1, scope), first), last)
            case "remainder" if element.range.covers(Interval(0, len(inside) + 1)) or proven:
                some = self.expr(element, need, depth - 1, scope)
                made = call("plus", call("mod", some, literal(len(inside), element)), first)
            case _:
                fits = [
                    p
                    for p in self.params
                    if (e := self.entries.get(p.name)) is not None
                    and inside.covers(e.inside)
                    and e.holes <= holes
                    and self.reachable(p, scope)
                    and assignable(p.type, TensorType(element, need)) is None
                ]
                if fits and self.chance(2):
                    return self.pick(fits)
                dims = Dims(tuple(item for item in self.some(need, 6).items if item[0] not in scope.forbidden))
                entries = Entries(self.within(inside) if self.chance(2) else inside, holes)
                return self.declare("n", TensorType(element, self.widened(dims)), entries)
        if holes:
            made = call("if", self.expr(BOOL, need, min(depth, 1), scope), literal(-1, element), made)
        return made


def full(x: Expr, dims: Dims) -> Expr:
    """The expression with every dim of a box, at no fewer points."""
    for name, interval in dims.items:
        if name not in x.type.dims:
            x = call("add_dim", x, static=(name, interval.start, interval.stop))
    return x


def exactly(x: Expr, dims: Dims) -> Expr:
    """The expression cut to a box along the dims that it has."""
    cuts = Dims(tuple((n, i) for n, i in dims.items if n in x.type.dims and x.type.dims[n] != i))
    return call("subset", x, static=(cuts,)) if cuts else x


def neighbour_dim(name: str) -> bool:
    return name.startswith(NEIGHBOUR)
