"""Real numbers as a witness in float64, two bounds of its error, and the residues of its formula.

The *witness* decides branches, extremes and whole parts. Its *error* bounds how far float64 may have led it from the
formula's number (running error analysis: Higham, Accuracy and Stability of Numerical Algorithms, section 3.3), its
*rounding* how far the program may be led, which rounds to its own element types.
"""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.equality.reals import residues as rs
from tensorir.equality.reals.domain import Unsupported
from tensorir.equality.reals.integers import INTEGERS
from tensorir.equality.reals.residues import Residues
from tensorir.equality.reals.tensors import Array, Leaf
from tensorir.ir.types import DTYPES, FLOAT32, SCALARS, Scalar

__all__ = ["OPERATIONS", "Real", "Witnessed", "constant", "digits", "exact", "unit"]

U = 2.0**-53
"""The relative error of one operation in float64."""
LEAST = 1e-307
"""What a function may lose below the least of normal numbers."""


def unit(element: Scalar) -> float:
    """The relative error of one operation in an element type: half of the distance of numbers near 1.

    >>> from tensorir.ir.types import FLOAT32
    >>> unit(FLOAT32) == 2.0**-24
    True
    """
    if element.bits == 64:
        return U
    one = DTYPES[element].type(1)
    bits = {"float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3": 3, "float8_e4m3fn": 3, "float8_e5m2": 2}[
        element.name
    ]
    return float(one) * 2.0 ** -(bits + 1)


def digits(element: Scalar) -> int:
    """The binary digits of a number of an element type.

    >>> from tensorir.ir.types import INT16
    >>> digits(FLOAT32), digits(INT16)
    (24, 16)
    """
    return round(-math.log2(unit(element))) if element.is_float else element.bits


@dataclass(frozen=True, slots=True)
class Real:
    """An array of real numbers: witness, error, rounding, and residues."""

    value: Array
    error: Array
    rounding: Array
    residues: Residues

    @staticmethod
    def of(leaf: Leaf) -> Real:
        value, error, rounding, p, q = leaf.parts
        return Real(value, error, rounding, Residues(p, q))

    def leaf(self, absent: Array | None = None) -> Leaf:
        """The number as a leaf; what is no finite number has the residues of its name.

        A witness that overflows is one: its formula goes on, and nothing is known of its number.
        """
        odd = ~np.isfinite(self.value) & np.isfinite(self.error)
        r = self.residues
        if odd.any():
            token = rs.embedded(np.where(odd, self.value, 0.0))
            r = Residues(np.where(odd, token.p, r.p), np.where(odd, token.q, r.q))
        error, rounding = (np.where(odd, 0.0, np.where(np.isnan(e), np.inf, e)) for e in (self.error, self.rounding))
        return Leaf((self.value, error, rounding, r.p, r.q), absent)


def exact(values: Any) -> Real:
    """Numbers that are what they are."""
    wide = np.asarray(values).astype(np.float64)
    zero = np.zeros(wide.shape)
    error = zero if np.asarray(values).dtype.kind != "i" else np.abs(wide) * U * (np.abs(wide) > 2.0**53)
    return Real(wide, error, error, rs.embedded(values))


HUGE = 1e30
"""Literals beyond it stand for infinity: masks of scores, and where searches for extremes begin."""


def constant(value: float, element: Scalar) -> Real:
    """A literal: the number that it is, or the constant of mathematics that it is the nearest one of its type to."""
    rounded = float(np.asarray(value).astype(DTYPES[element]).astype(np.float64))
    if abs(rounded) >= HUGE:
        return exact(np.array(math.copysign(math.inf, rounded)))
    for number, formula in _constants():
        ratio = float(np.float32(rounded / number)) if rounded else 0.0
        near = ratio and math.frexp(ratio)[0] * 256 % 1 == 0
        if near and ratio * number != rounded and abs(ratio * number - rounded) <= 1.01 * unit(element) * abs(rounded):
            product = rs.times(formula, rs.embedded(np.array(ratio)))
            size = abs(rounded)
            return Real(np.array(ratio * number), np.array(4 * U * size), np.array(unit(element) * size), product)
    return exact(np.array(rounded))


def _constants() -> list[tuple[float, Residues]]:
    ln2, pi = rs.named("ln 2"), rs.named("pi")
    two = rs.embedded(np.array(2.0))
    return [
        (1 / math.log(2), rs.inverse(ln2)),
        (math.log(2), ln2),
        (math.sqrt(2), rs.sqrt(two)),
        (math.sqrt(2 / math.pi), rs.sqrt(rs.times(two, rs.inverse(pi)))),
        (math.pi, pi),
    ]


# Operations: the witness, and the residues of what they give

Formula = Callable[..., Residues]


def _overflown(args: tuple[Real, ...], z: Array) -> Array:
    """Where a result is too large for float64, though no operand is infinite, or is what came of such a one."""
    known = np.all([np.broadcast_to(np.isfinite(a.value) & np.isfinite(a.error), z.shape) for a in args], 0)
    lost = np.any([np.broadcast_to(np.isinf(a.error), z.shape) for a in args], 0)
    return (np.isinf(z) & known) | (~np.isfinite(z) & lost)


def _holds(element: Scalar, x: Array) -> Array:
    """Where numbers are ones of an element type."""
    return np.asarray(x.astype(DTYPES[element]).astype(np.float64) == x)


def _exact_sum(x: Array, y: Array, z: Array) -> Array:
    """Where a sum loses nothing in float64: what is left of both operands (Knuth's TwoSum) is 0."""
    other = z - x
    return np.asarray((x - (z - other)) + (y - other) == 0)


def _exact_product(x: Array, y: Array, z: Array) -> Array:
    """Where a product surely loses nothing in float64: of two numbers of 24 bits, or by a power of two."""
    short = _holds(FLOAT32, x) & _holds(FLOAT32, y)
    power = (np.frexp(np.abs(x))[0] == 0.5) | (np.frexp(np.abs(y))[0] == 0.5)
    return short | (power & np.isfinite(z) & (np.abs(z) > LEAST))


def _arithmetic(
    value: Callable[..., Array], formula: Formula, spread: Callable[..., Array], is_exact: Callable[..., Array],
    pole: bool = False,
) -> Any:  # fmt: skip
    """An operation whose error follows from a formula: `spread(x, y, ex, ey, z)` is what errors of operands give.

    `is_exact(x, y, z)`: where a result is not rounded. `pole`: infinite where the second operand is 0.
    """

    def compute(element: Scalar, *args: Real) -> Real:
        values = [a.value for a in args]
        z = value(*values)
        kept = is_exact(*values, z)
        # small integers, halves and their like are the program's own numbers where nothing was rounded before
        own = (
            kept
            & _holds(SCALARS["float16"], z)
            & _holds(element, z)
            & (args[0].rounding == 0)
            & (args[1].rounding == 0)
        )
        errors = [
            spread(*values, *es, z) + np.where(np.isfinite(z) & ~k, u * np.abs(z), 0.0)
            for u, es, k in (
                (U, [a.error for a in args], kept),
                (unit(element), [a.rounding for a in args], own),
            )
        ]
        lost = _overflown(args, z)
        if pole:
            lost &= args[1].value != 0
        if lost.any():
            errors = [np.where(lost, np.inf, e) for e in errors]
        return Real(z, errors[0], errors[1], _limits(args, z, formula(*(a.residues for a in args))))

    return compute


def _limits(args: tuple[Real, ...], z: Array, found: Residues) -> Residues:
    """Residues of results, which are limits where an operand is infinite: e^-inf is 0."""
    limit = np.isfinite(z) & np.any(
        [np.broadcast_to(np.isinf(a.value) & np.isfinite(a.error), z.shape) for a in args], 0
    )
    if not limit.any():
        return found
    known = rs.embedded(np.where(limit, z, 0.0))
    return Residues(np.where(limit, known.p, found.p), np.where(limit, known.q, found.q))


def _function(value: Callable[..., Array], formula: Formula, ulps: float = 4, grows: bool = False) -> Any:
    """An operation whose error is seen from its values at the ends of what its operands may be.

    `grows`: beyond all numbers, so that an infinite result of a finite operand is one that overflows, and no pole.
    """

    def spread(args: tuple[Real, ...], errors: list[Array], z: Array, u: float) -> Array:
        found, settled = np.zeros(np.shape(z)), ~np.isfinite(z)
        ends = [(np.subtract, np.add)] * len(args)
        for k in range(1 << len(args)):
            at = [ends[n][k >> n & 1](a.value, e) for n, (a, e) in enumerate(zip(args, errors, strict=True))]
            end = value(*at)
            found = np.maximum(found, np.where(np.isnan(w := np.abs(end - z)), np.inf, w))
            settled &= (end == z) | (np.isnan(end) & np.isnan(z))
        # outside of its domain or at a pole, wherever the operands are within their errors
        found = np.where(settled, 0.0, found)
        return found + np.where(np.isfinite(z), ulps * u * np.abs(z), 0.0) + LEAST

    def compute(element: Scalar, *args: Real) -> Real:
        z = value(*(a.value for a in args))
        error = spread(args, [a.error for a in args], z, U)
        rounding = spread(args, [a.rounding for a in args], z, unit(element))
        lost = _overflown(args, z)
        if not grows:
            lost &= np.any([np.broadcast_to(np.isinf(a.error), z.shape) for a in args], 0)
        error, rounding = (np.where(lost, np.inf, e) for e in (error, rounding))
        return Real(z, error, rounding, _limits(args, z, formula(*(a.residues for a in args))))

    return compute


def _choice(largest: bool) -> Any:
    def compute(element: Scalar, x: Real, y: Real) -> Real:
        first = (x.value >= y.value) if largest else (x.value <= y.value)
        first = (first | np.isnan(x.value)) & ~np.isnan(y.value)
        r = Residues(np.where(first, x.residues.p, y.residues.p), np.where(first, x.residues.q, y.residues.q))
        value = (np.maximum if largest else np.minimum)(x.value, y.value)
        one = np.isinf(x.value) | np.isinf(y.value)
        error, rounding = (
            np.where(one, np.where(first, a, b), np.maximum(a, b))
            for a, b in ((x.error, y.error), (x.rounding, y.rounding))
        )
        return Real(value, error, rounding, r)

    return compute


def _whole(function: Callable[..., Array]) -> Any:
    """A number of which only the whole part counts: the witness says which."""
    at_ends = _function(function, lambda *args: args[0], 0)

    def compute(element: Scalar, *args: Real) -> Real:
        found = at_ends(element, *args)
        least = [np.where(e <= LEAST, 0.0, e) for e in (found.error, found.rounding)]
        return Real(found.value, least[0], least[1], rs.embedded(found.value))

    return compute


def _abs(element: Scalar, x: Real) -> Real:
    opposite = rs.negated(x.residues)
    below = x.value < 0
    r = Residues(np.where(below, opposite.p, x.residues.p), np.where(below, opposite.q, x.residues.q))
    return Real(np.abs(x.value), x.error, x.rounding, r)


def _remainder(remainder: Callable[[Array, Array], Array], whole: Callable[[Array], Array]) -> Any:
    """x - y × whole(x / y)."""

    def compute(element: Scalar, x: Real, y: Real) -> Real:
        n = whole(x.value / y.value)
        z = remainder(x.value, y.value)
        formula = rs.minus(x.residues, rs.times(y.residues, rs.embedded(np.where(np.isfinite(n), n, 0.0))))
        by = np.where(np.isfinite(n), np.abs(n), 0.0)
        bounds = [
            a + by * b + u * np.abs(z) for u, a, b in ((U, x.error, y.error), (unit(element), x.rounding, y.rounding))
        ]
        return Real(z, bounds[0], bounds[1], _limits((x, y), z, formula))

    return compute


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))


def _lgamma(x: Array) -> Array:
    def one(v: float) -> float:
        try:
            return math.lgamma(v)
        except (ValueError, OverflowError):
            return math.inf

    return np.vectorize(one, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))


def _of_exp(f: Callable[[Residues], Residues]) -> Formula:
    return lambda x: f(rs.exp(x))


ONE = rs.embedded(np.array(1.0))
HALF = rs.embedded(np.array(0.5))
LN2, LN10 = rs.named("ln 2"), rs.named("ln 10")


def _exponential(x: Residues, sign: bool) -> Residues:
    """(e^x - e^-x) / 2, or with a sum."""
    e = rs.exp(x)
    return rs.times(HALF, (rs.minus if sign else rs.plus)(e, rs.inverse(e)))


def _tanh(x: Residues) -> Residues:
    e = rs.exp(rs.plus(x, x))
    return rs.times(rs.minus(e, ONE), rs.inverse(rs.plus(e, ONE)))


def _power(element: Scalar, x: Real, y: Real) -> Real:
    known = y.value if not y.error.any() else None
    formula = lambda a, b: rs.power(a, b, known)
    return _function(np.power, formula, grows=True)(element, x, y)


def _of_quotient(x: Array, y: Array, ex: Array, ey: Array, z: Array) -> Array:
    least = np.abs(y) - ey
    found = (ex + np.abs(z) * ey) / np.maximum(least, 1e-300)
    return np.where(least > 0, found, np.where(ey == 0, 0.0, np.inf))


OPERATIONS: dict[str, Callable[..., Real]] = {
    "plus": _arithmetic(np.add, rs.plus, lambda x, y, ex, ey, z: ex + ey, _exact_sum),
    "minus": _arithmetic(np.subtract, rs.minus, lambda x, y, ex, ey, z: ex + ey, lambda x, y, z: _exact_sum(x, -y, z)),
    "multiplies": _arithmetic(
        np.multiply,
        rs.times,
        lambda x, y, ex, ey, z: _finite(np.abs(x) * ey) + _finite(np.abs(y) * ex) + ex * ey,
        _exact_product,
    ),
    "divides": _arithmetic(
        np.divide,
        lambda x, y: rs.times(x, rs.inverse(y)),
        _of_quotient,
        lambda x, y, z: _exact_product(z, y, x) & (z * y == x),
        pole=True,
    ),
    "neg": lambda element, x: Real(-x.value, x.error, x.rounding, rs.negated(x.residues)),
    "abs": _abs,
    "sign": _whole(np.sign),
    "min": _choice(False),
    "max": _choice(True),
    "floor": _whole(np.floor),
    "ceil": _whole(np.ceil),
    "trunc": _whole(np.trunc),
    "round": _whole(np.rint),
    "floordiv": _whole(lambda x, y: np.floor(x / y)),
    "mod": _remainder(np.mod, np.floor),
    "rem": _remainder(np.fmod, np.trunc),
    "power": _power,
    "sqrt": _function(np.sqrt, rs.sqrt, 1),
    "rsqrt": _function(lambda x: 1 / np.sqrt(x), lambda x: rs.inverse(rs.sqrt(x))),
    "cbrt": _function(np.cbrt, rs.cbrt),
    "exp": _function(np.exp, rs.exp, grows=True),
    "exp2": _function(np.exp2, lambda x: rs.exp(rs.times(x, LN2)), grows=True),
    "expm1": _function(np.expm1, _of_exp(lambda e: rs.minus(e, ONE)), grows=True),
    "log": _function(np.log, rs.log),
    "log2": _function(np.log2, lambda x: rs.times(rs.log(x), rs.inverse(LN2))),
    "log10": _function(np.log10, lambda x: rs.times(rs.log(x), rs.inverse(LN10))),
    "log1p": _function(np.log1p, lambda x: rs.log(rs.plus(x, ONE))),
    "sin": _function(np.sin, rs.odd("sin")),
    "cos": _function(np.cos, rs.even("cos")),
    "tan": _function(np.tan, lambda x: rs.times(rs.odd("sin")(x), rs.inverse(rs.even("cos")(x)))),
    "arcsin": _function(np.arcsin, rs.odd("arcsin")),
    "arccos": _function(np.arccos, lambda x: rs.hashed("arccos", x)),
    "arctan": _function(np.arctan, rs.odd("arctan")),
    "arctan2": _function(np.arctan2, lambda y, x: rs.hashed("arctan2", y, x)),
    "sinh": _function(np.sinh, lambda x: _exponential(x, True), grows=True),
    "cosh": _function(np.cosh, lambda x: _exponential(x, False), grows=True),
    "tanh": _function(np.tanh, _tanh),
    "arcsinh": _function(np.arcsinh, rs.odd("arcsinh")),
    "arccosh": _function(np.arccosh, lambda x: rs.hashed("arccosh", x)),
    "arctanh": _function(np.arctanh, rs.odd("arctanh")),
    "erf": _function(_erf, rs.odd("erf")),
    "erfc": _function(lambda x: 1 - _erf(x), lambda x: rs.minus(ONE, rs.odd("erf")(x))),
    "lgamma": _function(_lgamma, lambda x: rs.hashed("lgamma", x)),
}
"""Every elementwise builtin that gives a float of floats, but `if`."""


def _finite(x: Array) -> Array:
    """Products of an infinite number and no error are no error."""
    return np.where(np.isnan(x), 0.0, x)


class Witnessed:
    """The domain of numbers with a witness, its errors, and residues."""

    at_once = True
    """Whether products of matrices are taken as such."""

    in_order = False
    """Whether folds are taken element by element."""

    def own(self, op: str, element: Scalar, leaves: Sequence[tuple[Leaf, Scalar]], static: Any = None) -> Leaf | None:
        """No operation has another meaning."""
        return None

    def literal(self, value: Any, element: Scalar) -> Leaf:
        """A literal of a float type."""
        return constant(float(value), element).leaf()

    def whole(self, x: Array) -> Leaf:
        """Integers as numbers."""
        return exact(x).leaf()

    def compute(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives a float of floats."""
        if op not in OPERATIONS:
            raise Unsupported(f"'{op}' has no meaning over the reals")
        return OPERATIONS[op](element, *map(Real.of, args)).leaf()

    def integers(self, op: str, element: Scalar, args: Sequence[Leaf]) -> Leaf:
        """An elementwise operation that gives an integer of integers."""
        found = INTEGERS[op](element, *(a.parts[0] for a in args))
        return Leaf((np.asarray(found, DTYPES[element]),))

    def total(self, x: Leaf, axis: int, element: Scalar) -> Leaf:
        """A sum along an axis."""
        r = Real.of(x)
        n, size = r.value.shape[axis], np.abs(r.value).sum(axis)
        # what is infinite before is no rounding of the sum
        size = np.where(np.isfinite(r.value).all(axis), size, 0.0)
        unknown = r.residues.q == rs.UNKNOWN
        q = np.where(unknown, np.uint64(0), r.residues.q).sum(axis) % np.uint64(rs.Q)
        residues = Residues(r.residues.p.sum(axis) % np.uint64(rs.P), np.where(unknown.any(axis), rs.UNKNOWN, q))
        error, rounding = (e.sum(axis) + n * u * size for e, u in ((r.error, U), (r.rounding, unit(element))))
        return Real(r.value.sum(axis), error, rounding, residues).leaf()

    def rounded(self, x: Leaf, element: Scalar) -> Leaf:
        """A number as one of a narrower type: over the reals it is what it was."""
        r = Real.of(x)
        kept = (r.rounding == 0) & _holds(element, r.value)
        return Real(
            r.value, r.error, r.rounding + np.where(kept, 0.0, unit(element) * np.abs(r.value)), r.residues
        ).leaf(x.absent)

    def decided(self, x: Leaf) -> Array:
        """The numbers that decide conditions."""
        return x.parts[0]
