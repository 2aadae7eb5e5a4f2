"""Decisions of a lift, loop by loop, with reasons; and places where numerics differ.

Where a lifted program rounds otherwise than its source: what "fast" numerics leave to the compiler, place by place.

>>> from tensorir.text import parse
>>> f = parse("f(y: tensor<float>, a: tensor<float, K[0:9]>) { y ← contract(float, K)(a, a); }")
>>> for row in differences(f):
...     print(row)
line 1: a sum of products: in any order, products unrounded where that is faster; exact: term after term
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorir.ir.nodes import Call, Expr, Fencil, Lambda, Literal, Operator
from tensorir.ir.rewrite import postorder, values
from tensorir.ir.types import Scalar, TensorType
from tensorir.lifting.emission.tensors import constant_of
from tensorir.lifting.nests.nest import Loop
from tensorir.runtime.errors import NOWHERE, Span

ORDERED = {"plus": "a sum", "multiplies": "a product"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is computed, how with fast numerics, and how with exact ones."""

    where: str
    what: str
    fast: str
    exact: str

    def __str__(self) -> str:
        line = f"line {self.where}: " if self.where else ""
        return f"{line}{self.what}: {self.fast}; exact: {self.exact}"


def differences(f: Fencil, merged: Sequence[Span] = ()) -> tuple[Difference, ...]:
    """Places that fast numerics may round otherwise; `merged` are the places of folds that were put together."""
    found: list[Difference] = [
        _row(span, "a sum in parts", "one sum over all of it", "part after part") for span in merged
    ]
    for node in postorder(*values(f.closures)):
        if isinstance(node, Call) and _is_float(node):
            row = _difference(node)
            if row is not None:
                found.append(row)
    return tuple(dict.fromkeys(found))


def folds_by_comparison(f: Fencil) -> list[str]:
    """The folds by `max` and `min` of floats, each with its line and what of its values the order decides.

    >>> from tensorir.text import parse
    >>> text = "f(y: tensor<float>, a: tensor<float, K[0:9]>) { y ← reduce(max, 0.0, K)(if a > 0.0 then a else 0.0); }"
    >>> for line in folds_by_comparison(parse(text)):
    ...     print(line)
    line 1: a fold by max goes in any order, which may change the sign of a zero; numerics="exact" keeps the order.
    """
    folds: dict[str, None] = {}
    for e in postorder(*values(f.closures)):
        match e:
            case Call("reduce", (Operator("max" | "min" as op), *operands)) if _is_float(e):
                line = "" if e.span is NOWHERE else f"line {e.span.line}: "
                missing = "" if all(map(_is_never_nan, operands)) else "keep or drop a NaN and "
                folds[
                    f"{line}a fold by {op} goes in any order, which may {missing}change the sign of a zero; "
                    'numerics="exact" keeps the order.'
                ] = None
            case _:
                pass
    return list(folds)


def _is_never_nan(e: Expr) -> bool:
    """True if no data makes a float NaN: numbers, casts, and choices of the larger or smaller that drop it."""
    match e:
        case Literal(value):
            return value == value
        case Call("cast", (x,)):
            # the smallest floats have no infinity
            return not _is_float(x) and isinstance(e.tensor.element, Scalar) and e.tensor.element.bits > 8
        case Call("if", (Call("greater" | "less" | "greater_equal" | "less_equal", (a, b)), x, y)) if x in (a, b):
            # a comparison that holds has numbers on both sides
            return _is_never_nan(y)
        case Call("if", (Call("isnan", (a,)), x, y)) if y == a:
            return _is_never_nan(x)
        case Call("if", (_, x, y)):
            return _is_never_nan(x) and _is_never_nan(y)
        case Call("reduce", (Operator("max" | "min"), *operands)):
            return all(map(_is_never_nan, operands))
        case Call("max" | "min" | "neg" | "abs" | "add_dim" | "rename" | "subset" | "cartesian_shift", operands):
            return all(map(_is_never_nan, operands))
        case _:
            return False


def _row(span: Span, what: str, fast: str, exact: str) -> Difference:
    return Difference("" if span is NOWHERE else str(span.line), what, fast, exact)


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, TensorType) and isinstance(e.tensor.element, Scalar) and e.tensor.element.is_float


def _difference(e: Call) -> Difference | None:
    match e:
        case Call("contract"):
            fast = "in any order, products unrounded where that is faster"
            return _row(e.span, "a sum of products", fast, "term after term")
        case Call("reduce", (f, *_)) if (op := _folded(f)) is not None:
            return _row(e.span, f"{ORDERED[op]} of many", "in any order", "term after term")
        case Call("plus" | "minus", args) if any(isinstance(a, Call) and a.op == "multiplies" for a in args):
            return _row(e.span, "a product that is added", "rounded once or twice", "twice")
        case Call("divides", (_, by)) if constant_of(by) is not None:
            return _row(
                e.span, "a division by a number", "a product with its inverse where that is faster", "a division"
            )
        case _:
            return None


def _folded(f: Expr) -> str | None:
    """The operation whose order tells what a fold rounds."""
    match f:
        case Operator(op) if op in ORDERED:
            return op
        case Lambda((state, *_), (Call(op, args),)) if op in ORDERED and state in args:
            return op
        case _:
            return None


# What a lift decided, loop by loop, and why; and what the compiled program has operations for.


@dataclass(frozen=True, slots=True)
class Decision:
    """The schedule of one loop for some statements."""

    loop: Loop
    strategy: str
    reason: str
    spans: tuple[Span, ...] = ()

    @property
    def where(self) -> str:
        """The line of the loop, where it has one."""
        return str(self.loop.span.line) if self.loop.span is not NOWHERE else ""

    def __str__(self) -> str:
        line = f"line {self.where}: " if self.where else ""
        title = self.loop.title or self.loop.name
        return f"{line}{title}: {self.strategy}{f' ({self.reason})' if self.reason else ''}"


@dataclass(slots=True, repr=False)
class Report:
    """The decisions in the order in which they were made, notes on what was assumed, and what was raised.

    >>> print(Report())
    no loops
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    notes: list[str] = field(default_factory=list[str])
    ask: Callable[[], Sequence[tuple[str, str]]] = field(default=tuple, repr=False, compare=False)
    """Asks the compiled program, which takes a trace of it."""

    numerics: tuple[Difference, ...] = ()
    """Where numerics="fast" and "exact" differ."""

    @property
    def raised(self) -> tuple[tuple[str, str], ...]:
        """The rules that found an operation of the backend, and the expressions for which they did."""
        return tuple(self.ask())

    def add(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def sequential(self) -> tuple[Decision, ...]:
        """The loops that run step by step."""
        return tuple(d for d in self.decisions if d.strategy == "sequential")

    def _repr_html_(self) -> str:
        from tensorir.inspect.pages import page, pre, table

        rows = dict.fromkeys((d.where, d.loop.title or d.loop.name, d.strategy, d.reason) for d in self.decisions)
        notes = [pre("\n".join(f"note: {n}" for n in self.notes))] if self.notes else []
        found = self.raised
        raised = [table(("raised", "expression"), found)] if found else []
        differing = [(n.where, n.what, n.fast, n.exact) for n in self.numerics]
        numerics = [table(("line", "numerics", "fast", "exact"), differing)] if differing else []
        return page(table(("line", "loop", "runs as", "because"), rows), *raised, *numerics, *notes)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = list(dict.fromkeys(str(d) for d in self.decisions)) or ["no loops"]
        raised = [f"raised: {rule}: {expression}" for rule, expression in self.raised]
        numerics = [f"numerics: {n}" for n in self.numerics]
        return "\n".join([*lines, *raised, *numerics, *(f"note: {n}" for n in self.notes)])
