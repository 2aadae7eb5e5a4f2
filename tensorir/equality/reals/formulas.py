"""Floats as formulas: polynomials over the rationals in atoms, which are elements of inputs, or functions of formulas.

Formulas that are equal are equal over the reals, whatever the inputs are. e^(a + b) is e^a e^b, and roots and quotients
are powers; of other functions nothing is known but their arguments. A condition that inputs decide has no formula.

>>> x, y = Formula.atom("x"), Formula.atom("y")
>>> (x + y) * (x - y) == x * x - y * y, exp(x + y) == exp(x) * exp(y)
(True, True)
>>> power(x + y, Fraction(1, 2)) * power(x + y, Fraction(1, 2)) == x + y
True
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, reduce
from itertools import chain
from typing import Any

import numpy as np

from tensorir.equality.reals.residues import HUGE
from tensorir.equality.reals.tensors import INTEGERS, Array, Leaf, Unsupported
from tensorir.ir.types import DTYPES, Scalar

MOST_TERMS = 512
"""Terms that one formula may have."""
MOST_FORMULAS = 1 << 14
"""Formulas that one operation may make: beyond that numbers at random points are faster."""

Atom = tuple[Any, ...]
Exponent = int | Fraction
"""An exponent, an int if it is whole: those of Python are ten times as fast."""
Monomial = frozenset[tuple[Atom, Exponent]]
"""Atoms with their exponents."""
ONE: Monomial = frozenset()
UNIT, ZERO = Fraction(1), Fraction(0)


def _exponent(x: Exponent) -> Exponent:
    return x.numerator if x.denominator == 1 else x


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of monomials with rational factors."""

    terms: frozenset[tuple[Monomial, Fraction]]

    @staticmethod
    def of(terms: Mapping[Monomial, Fraction]) -> Formula:
        if len(terms) > MOST_TERMS:
            raise Unsupported("a formula of too many terms")
        return Formula(frozenset((m, c) for m, c in terms.items() if c))

    @staticmethod
    def number(value: Any) -> Formula:
        return Formula.of({ONE: Fraction(value)})

    @staticmethod
    def atom(*name: Any) -> Formula:
        return Formula(frozenset([(frozenset([(name, 1)]), UNIT)]))

    @property
    def constant(self) -> Fraction | None:
        """The number that it is, None where it depends on atoms."""
        if not self.terms:
            return ZERO
        if len(self.terms) == 1:
            ((monomial, factor),) = self.terms
            return None if monomial else factor
        return None

    def __add__(self, other: Formula) -> Formula:
        found = dict(self.terms)
        for m, c in other.terms:
            before = found.get(m)
            found[m] = c if before is None else before + c
        return Formula.of(found)

    def __neg__(self) -> Formula:
        return Formula(frozenset((m, -c) for m, c in self.terms))

    def __sub__(self, other: Formula) -> Formula:
        return self + -other

    def __mul__(self, other: Formula) -> Formula:
        if len(self.terms) * len(other.terms) > 4 * MOST_TERMS:
            raise Unsupported("a formula of too many terms")
        found: dict[Monomial, Fraction] = {}
        whole: list[tuple[Formula, Fraction]] = []
        for m, c in self.terms:
            for n, d in other.terms:
                monomial, roots = _joined(m, n)
                product = d if c is UNIT else c if d is UNIT else c * d
                if roots is None:
                    before = found.get(monomial)
                    found[monomial] = product if before is None else before + product
                else:
                    whole.append((Formula.of({monomial: UNIT}) * roots, product))
        total = Formula.of(found)
        for formula, factor in whole:
            total = total + Formula(frozenset((m, c * factor) for m, c in formula.terms))
        return total


def _joined(m: Monomial, n: Monomial) -> tuple[Monomial, Formula | None]:
    """A product of monomials, and powers of formulas that came to be whole in it, which are multiplied out."""
    if not m or not n:
        return m or n, None
    found = dict(m)
    roots: Formula | None = None
    for atom, exponent in n:
        before = found.pop(atom, 0)
        total = exponent if before == 0 else _exponent(before + exponent)
        if atom[0] == "power" and isinstance(total, int) and total > 0:
            whole = reduce(lambda a, b: a * b, [atom[1]] * total)
            roots = whole if roots is None else roots * whole
        elif total:
            found[atom] = total
    return frozenset(found.items()), roots


def exp(x: Formula) -> Formula:
    """e to a formula: a product of powers of e to its monomials."""
    factors = frozenset((("exp", m), _exponent(c)) for m, c in x.terms)
    return Formula.of({factors: UNIT})


def power(x: Formula, exponent: Fraction) -> Formula:
    """A formula to a rational number; a quotient's common factors are taken out of it."""
    if exponent.denominator == 1 and 0 <= exponent <= 16:
        return reduce(lambda a, b: a * b, [x] * int(exponent), Formula.number(1))
    if not x.terms:
        raise Unsupported("a quotient by zero")
    whole = exponent.denominator == 1
    common = _common(x) if whole else ONE
    rest = Formula(frozenset((_divided(m, common), c) for m, c in x.terms))
    factor = min(rest.terms, key=lambda t: (len(t[0]), sorted(map(repr, t[0]))))[1] if whole else UNIT
    rest = Formula(frozenset((m, c / factor) for m, c in rest.terms))
    outside = frozenset((a, _exponent(e * exponent)) for a, e in common)
    inside = ONE if rest == Formula.number(1) else frozenset([(("power", rest), _exponent(exponent))])
    scale = factor**exponent if whole else UNIT
    return Formula.of({outside: Fraction(scale)}) * Formula.of({inside: UNIT})


def _common(x: Formula) -> Monomial:
    """The atoms that all monomials have, by the least of their exponents."""
    least, times = dict[Atom, Exponent](), Counter[Atom]()
    for a, e in chain.from_iterable(m for m, _ in x.terms):
        least[a] = min(least.get(a, e), e)
        times[a] += 1
    return frozenset((a, e) for a, e in least.items() if times[a] == len(x.terms) or e < 0)


def _divided(m: Monomial, by: Monomial) -> Monomial:
    found = dict(m)
    for a, e in by:
        left = _exponent(found.pop(a, 0) - e)
        if left:
            found[a] = left
    return frozenset(found.items())


INFINITE = Formula.atom("infinite")


@cache
def _extreme(largest: bool, element: Scalar | None = None) -> Callable[[Formula, Formula], Formula]:
    """The larger, or the smaller, of floats, or of integers of a type: in another type another one may be larger."""
    name, neutral = ("max", -INFINITE) if largest else ("min", INFINITE)
    name = name if element is None else f"{name} of {element.name}"

    def members(x: Formula) -> frozenset[Formula]:
        if len(x.terms) == 1:
            ((monomial, factor),) = x.terms
            if factor == 1 and len(monomial) == 1:
                (((kind, *rest), exponent),) = monomial
                if kind == name and exponent == 1:
                    return rest[0]
        return frozenset([x])

    def compute(x: Formula, y: Formula) -> Formula:
        if neutral in (x, y):
            return y if x == neutral else x
        of = members(x) | members(y)
        numbers = [c for f in of if (c := f.constant) is not None]
        if len(numbers) > 1:
            best = Formula.number(max(numbers) if largest else min(numbers))
            of = frozenset([*(f for f in of if f.constant is None), best])
        return next(iter(of)) if len(of) == 1 else Formula.atom(name, of)

    return compute


def _quotient(x: Formula, y: Formula) -> Formula:
    return x * power(y, Fraction(-1))


def _power(x: Formula, y: Formula) -> Formula:
    exponent = y.constant
    if exponent is None or exponent.denominator > 2 or abs(exponent) > 16:
        return Formula.atom("pow", x, y)
    return power(x, exponent)


def _abs(x: Formula) -> Formula:
    known = x.constant
    if known is not None:
        return Formula.number(abs(known))
    opposite = -x
    return Formula.atom("abs", frozenset([x, opposite]))


def _odd(name: str) -> Callable[[Formula], Formula]:
    def compute(x: Formula) -> Formula:
        if not x.terms:
            return x
        first = min(x.terms, key=lambda t: sorted(map(repr, t[0])))
        return -Formula.atom(name, -x) if first[1] < 0 else Formula.atom(name, x)

    return compute


def _tanh(x: Formula) -> Formula:
    e = exp(x + x)
    one = Formula.number(1)
    return _quotient(e - one, e + one)


# Where partial functions are defined

Condition = tuple[str, Formula]
"""What has to be ("nonzero", or "root": not negative, or in the domain of a function), and of which formula."""


def is_nonnegative(m: Monomial) -> bool:
    """True if a monomial is never negative."""
    return all(
        a[0] in ("exp", "abs") or (e.numerator % 2 == 0 or (a[0] == "power" and e.denominator == 2)) for a, e in m
    )


def _is_positive(x: Formula) -> bool:
    """True if a formula is greater than 0 whatever its atoms are, as far as signs of its terms tell."""
    strict = any(all(a[0] == "exp" for a, _ in m) for m, _ in x.terms)
    return strict and all(c > 0 and is_nonnegative(m) for m, c in x.terms)


def _nonzero(x: Formula) -> frozenset[Condition]:
    """Conditions for a formula not to be 0: on each of its common factors, and on the rest."""
    if x.constant or _is_positive(x):
        return frozenset()
    if not x.terms:
        raise Unsupported("a quotient by zero")
    common = _common(x)
    found = frozenset[Condition]()
    for atom, _ in common:
        if atom[0] == "power":
            found |= _nonzero(atom[1])
        elif atom[0] != "exp":
            found |= {("nonzero", Formula.atom(*atom))}
    rest = Formula(frozenset((_divided(m, common), c) for m, c in x.terms))
    if rest.constant or _is_positive(rest):
        return found
    factor = min(rest.terms, key=lambda t: (len(t[0]), sorted(map(repr, t[0]))))[1]
    return found | {("nonzero", Formula(frozenset((m, c / factor) for m, c in rest.terms)))}


def _root(x: Formula) -> frozenset[Condition]:
    whole = all(c > 0 and is_nonnegative(m) for m, c in x.terms)
    return frozenset() if whole else frozenset([("root", x)])


def conditions(op: str, args: Sequence[Formula]) -> frozenset[Condition]:
    """The domain of an operation: x / x is 1 where x is not 0, and the square of a root is where it is not negative.

    >>> conditions("sqrt", [exp(Formula.atom("x"))]), len(conditions("divides", [Formula.atom("x")] * 2))
    (frozenset(), 1)
    """
    x, *others = args
    match op:
        case "divides" | "floordiv" | "mod" | "rem":
            return _nonzero(others[0])
        case "sqrt":
            return _root(x)
        case "rsqrt" | "log" | "log2" | "log10":
            return _root(x) | _nonzero(x)
        case "log1p":
            return conditions("log", [x + Formula.number(1)])
        case "tan":
            return _nonzero(OPERATIONS["cos"](x))
        case "power":
            exponent = others[0].constant
            if exponent is None:
                return frozenset([("power", x), ("by", others[0])])
            found = _root(x) if exponent.denominator != 1 else frozenset[Condition]()
            return found | _nonzero(x) if exponent < 0 else found
        case "arcsin" | "arccos" | "arctanh" | "arccosh" | "lgamma":
            return frozenset([(op, x)])
        case _:
            return frozenset()


def has_infinity(x: Formula) -> bool:
    """True if a formula has infinity as a factor of one of its terms."""
    return any(a == ("infinite",) for m, _ in x.terms for a, _ in m)


def _check_infinities(op: str, args: Sequence[Formula]) -> None:
    """Refuse what would be NaN, or infinite times what may be 0: formulas cancel it."""
    infinite = [x for x in args if has_infinity(x)]
    if not infinite or op in ("max", "min"):
        return
    if op in ("plus", "minus", "neg") and len(infinite) == 1:
        return
    below = all(c < 0 for m, c in infinite[0].terms if ("infinite",) in dict(m))
    if op != "exp" or not below:
        raise Unsupported("infinity in a formula")


def literal(value: Any, element: Scalar) -> Formula:
    """A literal of a float type: the number that it is, or infinity for what stands for it."""
    rounded = float(np.asarray(value).astype(DTYPES[element]).astype(np.float64))
    if np.isnan(rounded):
        raise Unsupported("NaN is no formula")
    if abs(rounded) >= HUGE:
        return INFINITE if rounded > 0 else -INFINITE
    return Formula.number(rounded)


HALF = Fraction(1, 2)
OPERATIONS: dict[str, Callable[..., Formula]] = {
    "plus": Formula.__add__,
    "minus": Formula.__sub__,
    "multiplies": Formula.__mul__,
    "neg": Formula.__neg__,
    "divides": _quotient,
    "max": _extreme(True),
    "min": _extreme(False),
    "abs": _abs,
    "power": _power,
    "sqrt": lambda x: power(x, HALF),
    "rsqrt": lambda x: power(x, -HALF),
    "exp": exp,
    "expm1": lambda x: exp(x) - Formula.number(1),
    "log1p": lambda x: Formula.atom("log", x + Formula.number(1)),
    "sinh": lambda x: (exp(x) - exp(-x)) * Formula.number(HALF),
    "cosh": lambda x: (exp(x) + exp(-x)) * Formula.number(HALF),
    "tanh": _tanh,
    "tan": lambda x: _quotient(_odd("sin")(x), Formula.atom("cos", frozenset([x, -x]))),
    "cos": lambda x: Formula.atom("cos", frozenset([x, -x])),
    "erfc": lambda x: Formula.number(1) - _odd("erf")(x),
    **{name: _odd(name) for name in ("sin", "arcsin", "arctan", "arcsinh", "arctanh", "erf", "cbrt")},
}
"""Of the other functions formulas know their arguments alone."""


@dataclass(slots=True)
class Formal:
    """The domain of formulas, and the conditions under which what they were made of is defined."""

    conditions: set[Condition] = field(default_factory=set[Condition])

    @property
    def at_once(self) -> bool:
        """True if products of matrices are taken as such."""
        return False

    @property
    def in_order(self) -> bool:
        """True if folds are taken element by element."""
        return False

    def own(self, op: str, element: Scalar, leaves: Sequence[tuple[Leaf, Scalar]], static: Any = None) -> Leaf | None:
        """Conversions of integers that inputs decide; no other operation has another meaning."""
        (leaf, source), *_ = leaves
        if op not in ("cast", "bitcast") or not source.is_integer or leaf.parts[0].dtype != object:
            return None
        if not element.is_integer and (op == "bitcast" or not element.is_float):
            return None
        return _leaf(_each(lambda f: _recast(op, source, element, f), _formulas(leaf.parts[0])))

    def literal(self, value: Any, element: Scalar) -> Leaf:
        """A literal: the number that it is, or infinity for what stands for it."""
        return _leaf(np.array(literal(value, element), object))

    def whole(self, x: Array) -> Leaf:
        """Integers as numbers."""
        return _leaf(_formulas(x))

    def compute(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives a float of floats."""
        return _leaf(_each(lambda *xs: self.one(op, xs), *(a.parts[0] for a in args)))

    def one(self, op: str, xs: Sequence[Formula]) -> Formula:
        """An operation on formulas of floats."""
        _check_infinities(op, xs)
        self.conditions |= conditions(op, xs)
        f = OPERATIONS.get(op)
        return Formula.atom(op, *xs) if f is None else f(*xs)

    def integers(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation on integers: sums and products modulo the width, others of their arguments alone."""
        if all(a.parts[0].dtype != object for a in args):
            found = INTEGERS[op](element, *(a.parts[0] for a in args))
            return _leaf(np.asarray(found, DTYPES[element]))
        return _leaf(_each(lambda *xs: integer(op, element, xs), *(_formulas(a.parts[0]) for a in args)))

    def total(self, x: Leaf, axis: int, element: Scalar) -> Leaf:
        """A sum along an axis."""
        zero = Formula.number(0)
        moved = np.moveaxis(x.parts[0], axis, 0)
        found = np.empty(moved.shape[1:], object)
        for at in np.ndindex(found.shape):
            terms = [moved[(k, *at)] for k in range(moved.shape[0])]
            _check_infinities("plus", terms)
            found[at] = reduce(Formula.__add__, terms, zero)
        return _leaf(found)

    def rounded(self, x: Leaf, element: Scalar) -> Leaf:
        """A number as one of a narrower type."""
        return x

    def decided(self, x: Leaf) -> Array:
        """The numbers that decide conditions: those of formulas without atoms."""
        if x.parts[0].dtype != object:
            return x.parts[0]
        known = [f.constant for f in _formulas(x.parts[0]).reshape(-1)]
        if any(c is None for c in known):
            raise Unsupported("inputs decide a condition")
        return np.array([float(c) for c in known if c is not None]).reshape(x.parts[0].shape)


def _formulas(x: Array) -> Array:
    """Elements as formulas: where numbers were joined with formulas, some are none yet."""
    return _each(lambda v: v if isinstance(v, Formula) else Formula.number(int(v)), x.astype(object))


def integer(op: str, element: Scalar, xs: tuple[Formula, ...]) -> Formula:
    """An operation on integers that inputs decide."""
    match op, xs:
        case (("plus" | "minus" | "multiplies" | "neg"), _):
            return _wrapped(OPERATIONS[op](*xs), element)
        case "shift_left", (x, y) if (by := y.constant) is not None and 0 <= by < element.bits:
            return _wrapped(x * Formula.number(1 << int(by)), element)
        case "shift_right", (x, y) if (by := y.constant) is not None and 0 <= by < element.bits - 1:
            return _floored(x, 1 << int(by), element)
        case "floordiv", (x, y) if (by := y.constant) is not None and by > 0:
            return _floored(x, int(by), element)
        case "bit_and", (x, y) if (by := y.constant) is not None and by > 0 and not int(by) & (int(by) + 1):
            return integer("mod", element, (x, y + Formula.number(1)))
        case (("mod" | "rem"), (x, y)):
            whole = integer("floordiv" if op == "mod" else "divides", element, (x, y))
            return _wrapped(x - y * whole, element)
        case (("max" | "min"), (x, y)):
            return _extreme(op == "max", element)(x, y)
        case _:
            return Formula.atom(op, element, *xs)


def _recast(op: str, source: Scalar, element: Scalar, x: Formula) -> Formula:
    """An integer as a number of another type; as a narrower integer it is the same, modulo a power of two."""
    if element.is_float and x.constant is not None:
        return x
    if element.is_integer and (element.bits <= source.bits or x.constant is not None):
        return _wrapped(x, element)
    return Formula.atom(op, "float" if element.is_float else element, source, x)


def _floored(x: Formula, by: int, element: Scalar) -> Formula:
    """The floor of a quotient by a positive number; of such a quotient it is one by their product."""
    if by == 1:
        return x
    if len(x.terms) == 1:
        ((monomial, factor),) = x.terms
        if factor == 1 and len(monomial) == 1:
            ((atom, exponent),) = monomial
            if exponent == 1 and atom[:2] == ("floordiv", element) and atom[3].constant is not None:
                whole = int(atom[3].constant) * by
                if 0 < whole < element.range.stop:
                    return Formula.atom("floordiv", element, atom[2], Formula.number(whole))
    return Formula.atom("floordiv", element, x, Formula.number(by))


def _wrapped(x: Formula, element: Scalar) -> Formula:
    """A formula with factors modulo 2^bits, of which those of the type stand for all."""
    low = element.range.start
    return Formula.of({m: Fraction((int(c) - low) % (1 << element.bits) + low) for m, c in x.terms})


def _leaf(x: Array) -> Leaf:
    return Leaf((x,))


def _each(f: Callable[..., Formula], *arrays: Array) -> Array:
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if int(np.prod(shape)) > MOST_FORMULAS:
        raise Unsupported("too many formulas")
    found = np.empty(shape, object)
    spread = [np.broadcast_to(a, shape) for a in arrays]
    for at in np.ndindex(shape):
        found[at] = f(*(a[at] for a in spread))
    return found


def variables(name: int, shape: tuple[int, ...]) -> Leaf:
    """An input whose elements are atoms of their own."""
    if int(np.prod(shape)) > MOST_FORMULAS:
        raise Unsupported("too many formulas")
    found = np.empty(shape, object)
    for at in np.ndindex(shape):
        found[at] = Formula.atom("x", name, at)
    return _leaf(found)
