"""What Z3 says of whole numbers and truth values: whether elements can differ where conditions lead.

Numbers without bound are asked first, with wrapping as a remainder, where products are ones by numbers; then vectors of
bits. How much is asked is bounded by Z3's own count of its steps, so that an answer does not depend on the machine.

>>> from tensorir.equality.reals.decisions import Decisions
>>> from tensorir.ir.types import INT32
>>> d = Decisions()
>>> x, z = d.input(0, (0,), INT32), d.input(0, (1,), INT32)
>>> both, one = d.make("bit_and", INT32, (x, z)), d.make("bit_xor", INT32, (x, z))
>>> solver = Solver()
>>> found = solver.excludes((), d.make("plus", INT32, (one, d.make("plus", INT32, (both, both)))), one)
>>> found = solver.excludes((), d.make("plus", INT32, (one, both)), d.make("bit_or", INT32, (x, z)))
>>> found or solver.lacking
True
"""

# Z3 has no types of its own that say enough.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf, isfinite
from typing import Any, Protocol

from tensorir.equality.reals.decisions import Node
from tensorir.ir.types import BOOL, Scalar

__all__ = ["Model", "Path", "Solver"]

STEPS = 3_000_000
"""The steps of Z3 for all that is asked of two programs: most answers take less than a tenth of it."""
Path = Sequence[tuple[Node, bool]]
"""Conditions, and whether they hold."""
Model = Mapping[tuple[int, tuple[int, ...]], int]
"""Values of elements of inputs: the number of an input, and the place."""


class _Nonlinear(Exception):
    """A number that is no sum of multiples."""


@dataclass(slots=True)
class Solver:
    """Questions to Z3 and its answers; `lacking`: one was asked, and z3-solver is not installed."""

    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """What the elements of inputs lie between, by the number of the input."""
    lacking: bool = False
    models: list[Model] = field(default_factory=list[Model])
    """Inputs that may tell programs apart."""
    answers: dict[str, bool] = field(default_factory=dict[str, bool])
    context: Any = None
    spent: int = 0

    def excludes(self, path: Path, a: Node, b: Node) -> bool:
        """Whether no input leads along a path to elements that differ; of floats all are taken to differ."""
        whole = not a.element.is_float and a.element == b.element
        if not whole and not any(x.element.is_integer for c, _ in path for x in c.args):
            return False
        if find_spec("z3") is None:
            self.lacking = True
            return False
        import z3

        self.context = self.context or z3.Context()
        for meaning in (_Whole(z3, self.context), _Bits(z3, self.context)):
            terms = _Terms(meaning)
            try:
                told = [terms.of(c) if holds else z3.Not(terms.of(c)) for c, holds in path]
                told += [meaning.differ(terms.of(a), terms.of(b))] if whole else []
            except _Nonlinear:
                continue
            told += self._limited(terms)
            conditions: Any = z3.And(*told, *meaning.bounds)
            key = conditions.sexpr()
            if key not in self.answers:
                question = z3.Solver(ctx=self.context)
                question.set("rlimit", max(STEPS - self.spent, 1))
                question.add(conditions)
                found = question.check()
                self.spent = question.statistics().get_key_value("rlimit count")
                if found == z3.unknown:
                    continue
                if found == z3.sat:
                    self.models.append(terms.values(question.model()))
                self.answers[key] = found == z3.unsat
            return self.answers[key]
        return False

    def _limited(self, terms: _Terms) -> list[Any]:
        """What is known of the elements of inputs that a question is about."""
        found: list[Any] = []
        for node, x in terms.constants:
            low, high = self.limits.get(node.own[0], (-inf, inf)) if node.op == "x" else (-inf, inf)
            for bound, below in ((low, True), (high, False)):
                if isfinite(bound) and node.element.holds(int(bound)):
                    end = terms.meaning.number(int(bound), node.element)
                    sides = (x, end) if below else (end, x)
                    found.append(terms.meaning.z3.Not(terms.meaning.compute("less", BOOL, node.element, sides)))
        return found


class _Meaning(Protocol):
    """What whole numbers are as terms of Z3; truth values are Z3's own."""

    z3: Any
    context: Any
    bounds: list[Any]

    def number(self, value: int, element: Scalar) -> Any: ...
    def constant(self, name: str, element: Scalar) -> Any: ...
    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        """An operation on operands of a kind; None where it has no meaning."""
        ...

    def differ(self, x: Any, y: Any) -> Any: ...
    def value(self, model: Any, x: Any, element: Scalar) -> int: ...


@dataclass(slots=True)
class _Terms:
    """Nodes as terms; what has no meaning is a constant of its own."""

    meaning: _Meaning
    known: dict[int, Any] = field(default_factory=dict[int, Any])
    constants: list[tuple[Node, Any]] = field(default_factory=list[tuple[Node, Any]])

    def of(self, node: Node) -> Any:
        """A node as a term, once."""
        if id(node) not in self.known:
            found = self._made(node)
            self.known[id(node)] = self._unknown(node) if found is None else found
        return self.known[id(node)]

    def _made(self, node: Node) -> Any:
        z3, context = self.meaning.z3, self.meaning.context
        if node.op == "number" and not node.element.is_float:
            truth = node.element == BOOL
            return z3.BoolVal(bool(node.own), context) if truth else self.meaning.number(node.own, node.element)
        if node.own is not None or any(a.element.is_float for a in (node, *node.args)):
            return None
        args = [self.of(a) for a in node.args]
        return self.meaning.compute(node.op, node.element, node.args[0].element, args)

    def _unknown(self, node: Node) -> Any:
        name = f"v{len(self.constants)}"
        truth = node.element == BOOL
        made = self.meaning.z3.Bool(name, self.meaning.context) if truth else self.meaning.constant(name, node.element)
        self.constants.append((node, made))
        return made

    def values(self, model: Any) -> Model:
        """The elements of inputs in an answer."""
        return {node.own: self._value(model, x, node.element) for node, x in self.constants if node.op == "x"}

    def _value(self, model: Any, x: Any, element: Scalar) -> int:
        if element == BOOL:
            return int(bool(model.eval(x, model_completion=True)))
        return self.meaning.value(model, x, element)


@dataclass(slots=True)
class _Bits:
    """Numbers as vectors of bits."""

    z3: Any
    context: Any
    bounds: list[Any] = field(default_factory=list[Any])

    def number(self, value: int, element: Scalar) -> Any:
        return self.z3.BitVecVal(value, element.bits, self.context)

    def constant(self, name: str, element: Scalar) -> Any:
        return self.z3.BitVec(name, element.bits, self.context)

    def differ(self, x: Any, y: Any) -> Any:
        return x != y

    def value(self, model: Any, x: Any, element: Scalar) -> int:
        found = model.eval(x, model_completion=True)
        return found.as_signed_long() if element.kind == "int" else found.as_long()

    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        z3, signed, bits = self.z3, kind.kind == "int", kind.bits
        zero, one = (self.number(k, kind) for k in (0, 1))
        match op, args:
            case "if", (condition, x, y):
                return z3.If(condition, x, y)
            case "eq", (x, y):
                return x == y
            case "less", (x, y) if kind.is_integer:
                return x < y if signed else z3.ULT(x, y)
            case "plus", (x, y):
                return x + y
            case "minus", (x, y):
                return x - y
            case "multiplies", (x, y):
                return x * y
            case "neg", (x,):
                return -x
            case "bit_and", (x, y):
                return x & y
            case "bit_or", (x, y):
                return x | y
            case "bit_xor", (x, y):
                return x ^ y
            case "bit_not", (x,):
                return ~x
            case "shift_left", (x, y):
                return x << y
            case "shift_right", (x, y):
                return x >> y if signed else z3.LShR(x, y)
            case "divides", (x, y):
                # of a quotient by 0 Z3 has the sign
                return z3.If(y == zero, ~zero, x / y if signed else z3.UDiv(x, y))
            case "rem", (x, y):
                return z3.SRem(x, y) if signed else z3.URem(x, y)
            case "floordiv", (x, y):
                down = z3.And(z3.SRem(x, y) != zero, (x < zero) != (y < zero))
                found = x / y - z3.If(down, one, zero) if signed else z3.UDiv(x, y)
                return z3.If(y == zero, ~zero, found)
            case "mod", (x, y):
                return x % y if signed else z3.URem(x, y)
            case "abs", (x,):
                return z3.If(x < zero, -x, x) if signed else x
            case "sign", (x,):
                return z3.If(x == zero, zero, z3.If(x < zero, ~zero, one) if signed else one)
            case "popcount", (x,):
                parts = [z3.ZeroExt(bits - 1, z3.Extract(k, k, x)) for k in range(bits)]
                return z3.Sum(*parts)
            case "clz", (x,):
                found = self.number(bits, kind)
                for k in range(bits):
                    found = z3.If(z3.Extract(k, k, x) == 1, self.number(bits - 1 - k, kind), found)
                return found
            case "cast", (x,) if kind == BOOL and element.is_integer:
                return z3.If(x, self.number(1, element), self.number(0, element))
            case "cast", (x,) if element == BOOL:
                return x != zero
            case (("cast" | "bitcast"), (x,)) if element.is_integer:
                more = element.bits - bits
                wider = (z3.SignExt if signed else z3.ZeroExt)(more, x) if more > 0 else x
                return z3.Extract(element.bits - 1, 0, x) if more < 0 else wider
            case _:
                return None


@dataclass(frozen=True, slots=True)
class _Between:
    """A whole number, and two that it lies between."""

    term: Any
    low: int
    high: int


@dataclass(slots=True)
class _Whole:
    """Numbers without bound, as far as they are sums of multiples, and floors of these."""

    z3: Any
    context: Any
    bounds: list[Any] = field(default_factory=list[Any])

    def number(self, value: int, element: Scalar) -> Any:
        return _Between(self.z3.IntVal(value, self.context), value, value)

    def constant(self, name: str, element: Scalar) -> Any:
        made = self.z3.Int(name, self.context)
        low, high = element.range.start, element.range.stop - 1
        self.bounds += [made >= low, made <= high]
        return _Between(made, low, high)

    def differ(self, x: Any, y: Any) -> Any:
        return x.term != y.term if isinstance(x, _Between) else x != y

    def value(self, model: Any, x: Any, element: Scalar) -> int:
        return model.eval(x.term, model_completion=True).as_long()

    def _wrapped(self, x: _Between, element: Scalar) -> _Between:
        low, high = element.range.start, element.range.stop - 1
        if low <= x.low and x.high <= high:
            return x
        return _Between((x.term - low) % (1 << element.bits) + low, low, high)

    def _floor(self, x: _Between, by: int) -> _Between:
        return _Between(x.term / by, x.low // by, x.high // by)

    def _scaled(self, x: _Between, by: int) -> _Between:
        ends = sorted((x.low * by, x.high * by))
        return _Between(x.term * by, *ends)

    def _if(self, condition: Any, x: _Between, y: _Between) -> _Between:
        return _Between(self.z3.If(condition, x.term, y.term), min(x.low, y.low), max(x.high, y.high))

    def compute(self, op: str, element: Scalar, kind: Scalar, args: Sequence[Any]) -> Any:
        z3 = self.z3
        if op in ("multiplies", "bit_and") and args[0].low == args[0].high:
            args = args[::-1]
        match op, args:
            case "if", (condition, _Between() as x, _Between() as y):
                return self._if(condition, x, y)
            case "if", _:
                return z3.If(*args)
            case "eq", (x, y) if kind == BOOL:
                return x == y
            case "eq", (x, y):
                return x.term == y.term
            case "less", (x, y):
                return x.term < y.term
            case "plus", (x, y):
                return self._wrapped(_Between(x.term + y.term, x.low + y.low, x.high + y.high), element)
            case "minus", (x, y):
                return self._wrapped(_Between(x.term - y.term, x.low - y.high, x.high - y.low), element)
            case "neg", (x,):
                return self._wrapped(self._scaled(x, -1), element)
            case "multiplies", (x, _Between(_, by, top)) if by == top:
                return self._wrapped(self._scaled(x, by), element)
            case "shift_left", (x, _Between(_, by, top)) if by == top and 0 <= by < element.bits:
                return self._wrapped(self._scaled(x, 1 << by), element)
            case "shift_right", (x, _Between(_, by, top)) if by == top and 0 <= by < element.bits:
                return self._floor(x, 1 << by)
            case "floordiv", (x, _Between(_, by, top)) if by == top > 0:
                return self._floor(x, by)
            case "divides", (x, _Between(_, by, top)) if by == top > 0:
                up = self._scaled(self._floor(self._scaled(x, -1), by), -1)
                return self._if(x.term < 0, up, self._floor(x, by))
            case "mod", (x, _Between(_, by, top)) if by == top > 0:
                return _Between(x.term % by, 0, by - 1)
            case "bit_and", (x, _Between(_, mask, top)) if mask == top > 0 and not mask & (mask + 1):
                return _Between(x.term % (mask + 1), 0, mask)
            case "abs", (x,):
                return self._wrapped(self._if(x.term < 0, self._scaled(x, -1), x), element)
            case "cast", (x,) if kind == BOOL and element.is_integer:
                return self._if(x, self.number(1, element), self.number(0, element))
            case "cast", (x,) if element == BOOL:
                return x.term != 0
            case (("cast" | "bitcast"), (x,)) if element.is_integer:
                return self._wrapped(x, element)
            case _:
                raise _Nonlinear
