"""Real numbers at random points of prime fields, beside a float and bounds of its error.

Arithmetic of a formal real number at a random point of two prime fields, so that equal formulas are equal numbers.

A number is its residues modulo P and modulo Q, where P = 2 Q + 1 is a safe prime: g^x of an x modulo Q is a residue
modulo P, and so exp(a + b) = exp(a) exp(b) holds (Jia et al., Mirage, OSDI 2025, "probabilistic equivalence
verification"). P and Q are 3 modulo 4 and have no cube roots of 1, so square and cube roots are powers. Logarithms are
discrete ones. What has no such form is a hash of its argument. The residue modulo Q of an exponential is not known.

>>> x, y = embedded(np.array([3.0])), embedded(np.array([0.5]))
>>> bool(same(exp(plus(x, y)), times(exp(x), exp(y))))
True
>>> bool(same(times(sqrt(x), sqrt(x)), x)), bool(same(sqrt(times(x, y)), times(sqrt(x), sqrt(y))))
(True, True)
>>> bool(same(plus(log(x), log(y)), log(times(x, y)))), bool(same(exp(x), exp(y)))
(True, False)
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensorir.equality.reals.tensors import INTEGERS, Array, Leaf, Unsupported
from tensorir.ir.types import DTYPES, FLOAT32, SCALARS, Scalar

P, Q = 2147481143, 1073740571
UNKNOWN = np.uint64(2**63)
"""Stands for a residue modulo Q that is not known."""
GENERATOR = np.uint64(4)
"""A square, so that its powers are the squares modulo P, of which there are Q."""
HALF = 15
"""Bits of an exponent that one of two tables of powers answers."""
MOST_LOGARITHMS = 4096
"""Elements whose logarithms are looked for in one array; beyond that logarithms are hashes, without a law."""


@dataclass(frozen=True, slots=True)
class Residues:
    """An array of numbers: their residues modulo P, and modulo Q where these are known."""

    p: Array
    q: Array


def same(x: Residues, y: Residues) -> Array:
    """A mask of equal numbers: both residues are equal, or those known of them by a law of powers are."""
    known = (x.q != UNKNOWN) & (y.q != UNKNOWN)
    return (x.p == y.p) | (known & (x.q == y.q))


def random(rng: np.random.Generator, shape: tuple[int, ...]) -> Residues:
    return Residues(rng.integers(1, P, shape, np.uint64), rng.integers(1, Q, shape, np.uint64))


def embedded(values: Any) -> Residues:
    """The residues of numbers that are what they are: integers, and floats as the fractions that they hold."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        wide = array.astype(object) if array.dtype == np.uint64 else array.astype(np.int64)
        return Residues((wide % P).astype(np.uint64), (wide % Q).astype(np.uint64))
    wide = array.astype(np.float64)
    finite = np.isfinite(wide)
    mantissa, exponent = np.frexp(np.where(finite, wide, 0.0))
    whole = (mantissa * 2.0**53).astype(np.int64)
    twos = _powers_of_two()
    p, q = (
        (whole % m).astype(np.uint64) * t[exponent + LOWEST] % np.uint64(m) for m, t in zip((P, Q), twos, strict=True)
    )
    for value in () if finite.all() else (np.inf, -np.inf, np.nan):
        token = named(repr(value))
        here = np.isnan(wide) if np.isnan(value) else wide == value
        p, q = np.where(here, token.p, p), np.where(here, token.q, q)
    return Residues(p, q)


LOWEST = 1074
"""The exponents of float64 go down to this, below 0."""


@cache
def _powers_of_two() -> tuple[Array, Array]:
    """2^(k - 53) for all exponents k of float64, modulo P and modulo Q."""
    exponents = range(-LOWEST - 53, 1025 - 53)
    p, q = (np.array([pow(2, k, m) for k in exponents], np.uint64) for m in (P, Q))
    return p, q


def named(name: str) -> Residues:
    """A constant of mathematics: one number for each name."""
    token = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=16).digest(), "little")
    return Residues(np.array(token % P, np.uint64), np.array(token % Q, np.uint64))


def _known(q: Array, *of: Array) -> Array:
    unknown = of[0] == UNKNOWN
    for other in of[1:]:
        unknown = unknown | (other == UNKNOWN)
    return np.where(unknown, UNKNOWN, q)


def plus(x: Residues, y: Residues) -> Residues:
    return Residues((x.p + y.p) % np.uint64(P), _known((x.q + y.q) % np.uint64(Q), x.q, y.q))


def negated(x: Residues) -> Residues:
    return Residues((P - x.p) % np.uint64(P), _known((Q - x.q) % np.uint64(Q), x.q))


def minus(x: Residues, y: Residues) -> Residues:
    return plus(x, negated(y))


def times(x: Residues, y: Residues) -> Residues:
    zero = (x.q == 0) | (y.q == 0)
    q = np.where(zero, np.uint64(0), _known((x.q * y.q) % np.uint64(Q), x.q, y.q))
    return Residues((x.p * y.p) % np.uint64(P), q)


def _power(x: Array, exponent: int, modulus: int) -> Array:
    m, found, square = np.uint64(modulus), np.ones_like(x), x
    while exponent:
        if exponent & 1:
            found = found * square % m
        square = square * square % m
        exponent >>= 1
    return found


def raised(x: Residues, by: int) -> Residues:
    """x to a whole number that is not negative."""
    return Residues(_power(x.p, by, P), _known(_power(x.q % np.uint64(Q), by, Q), x.q))


def inverse(x: Residues) -> Residues:
    """1 / x; of a residue 0 it is 0, which is no inverse: another point tells more."""
    known = x.q != UNKNOWN
    q = np.where(known, _inverses(np.where(known, x.q, np.uint64(0)), Q), UNKNOWN) if known.any() else x.q
    return Residues(_inverses(x.p, P), q)


def _inverses(x: Array, modulus: int) -> Array:
    """Of two numbers the inverses follow from that of their product (Montgomery, 1987): three products a number."""
    if x.size < 64:
        return _power(x, modulus - 2, modulus)
    flat, m = x.reshape(-1), np.uint64(modulus)
    half = -(-flat.size // 2)
    safe = np.ones(2 * half, np.uint64)
    safe[: flat.size] = np.where(flat == 0, np.uint64(1), flat)
    both = _inverses(safe[:half] * safe[half:] % m, modulus)
    found = np.concatenate([both * safe[half:] % m, both * safe[:half] % m])[: flat.size]
    return np.where(flat == 0, np.uint64(0), found).reshape(x.shape)


def sqrt(x: Residues) -> Residues:
    """A root of x or of -x, whichever there is: products of roots are roots of products."""
    return Residues(_power(x.p, (P + 1) // 4, P), _known(_power(x.q % np.uint64(Q), (Q + 1) // 4, Q), x.q))


def cbrt(x: Residues) -> Residues:
    p, q = pow(3, -1, P - 1), pow(3, -1, Q - 1)
    return Residues(_power(x.p, p, P), _known(_power(x.q % np.uint64(Q), q, Q), x.q))


@cache
def _powers() -> tuple[Array, Array]:
    """g^k for k below 2^15, and g^(2^15 k)."""
    low, high = np.ones(1 << HALF, np.uint64), np.ones(1 << HALF, np.uint64)
    step, wide = int(GENERATOR), pow(int(GENERATOR), 1 << HALF, P)
    for k in range(1, 1 << HALF):
        low[k], high[k] = int(low[k - 1]) * step % P, int(high[k - 1]) * wide % P
    return low, high


def exp(x: Residues) -> Residues:
    """g^x; of a number whose residue modulo Q is not known it is a hash."""
    low, high = _powers()
    known = x.q != UNKNOWN
    q = np.where(known, x.q, np.uint64(0))
    p = low[q & np.uint64((1 << HALF) - 1)] * high[q >> np.uint64(HALF)] % np.uint64(P)
    if not known.all():
        p = np.where(known, p, np.where(x.p == 0, np.uint64(1), hashed("exp", x).p))
    return Residues(p, np.where(p == 1, np.uint64(1), np.full_like(p, UNKNOWN)))


@cache
def _baby_steps() -> tuple[Array, Array]:
    """g^k for all k below 2^20 in ascending order, and these k."""
    low, high = _powers()
    k = np.arange(1 << 20, dtype=np.uint64)
    found = low[k & np.uint64((1 << HALF) - 1)] * high[k >> np.uint64(HALF)] % np.uint64(P)
    order = np.argsort(found)
    return found[order], order.astype(np.uint64)


def log(x: Residues) -> Residues:
    """The discrete logarithm of x or of -x, whichever is a power of g, by baby and giant steps (Shanks, 1971)."""
    known, places = np.unique(x.p, return_inverse=True)
    if known.size > MOST_LOGARITHMS:
        return hashed("log", x)
    steps, exponents = _baby_steps()
    rest = np.where(_power(known, Q, P) == 1, known, (P - known) % np.uint64(P))
    giant = np.uint64(pow(int(GENERATOR), -(1 << 20), P))
    found = np.zeros_like(known)
    waiting = np.flatnonzero(known)
    for k in range((Q >> 20) + 1):
        at = np.searchsorted(steps, rest[waiting]) % len(steps)
        hit = steps[at] == rest[waiting]
        found[waiting[hit]] = (exponents[at[hit]] + np.uint64(k << 20)) % np.uint64(Q)
        waiting = waiting[~hit]
        if not waiting.size:
            break
        rest[waiting] = rest[waiting] * giant % np.uint64(P)
    q = found[places].reshape(x.p.shape)
    return Residues(_mixed("log", q, P), q)


def _mixed(key: str, x: Array, modulus: int) -> Array:
    """A hash of 64 bits (the finaliser of splitmix64), modulo a prime."""
    seed = np.uint64(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))
    with np.errstate(over="ignore"):
        z = x * np.uint64(0x9E3779B97F4A7C15) + seed
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) % np.uint64(modulus)


def hashed(key: str, *args: Residues) -> Residues:
    """A function of which nothing is known but its arguments."""
    joined = args[0].p
    for k, x in enumerate(args[1:]):
        joined = _mixed(f"{key} {k}", joined, P) * np.uint64(P) + x.p
    return Residues(_mixed(key, joined, P), _mixed(f"{key} again", joined, Q))


def odd(key: str) -> Callable[[Residues], Residues]:
    """A function with f(-x) = -f(x), of which nothing else is known."""

    def function(x: Residues) -> Residues:
        turned = x.p > P // 2
        found = hashed(key, Residues(np.where(turned, P - x.p, x.p), x.q))
        opposite = negated(found)
        zero = x.p == 0
        p, q = np.where(turned, opposite.p, found.p), np.where(turned, opposite.q, found.q)
        return Residues(np.where(zero, np.uint64(0), p), np.where(zero, np.uint64(0), q))

    return function


def even(key: str) -> Callable[[Residues], Residues]:
    """A function with f(-x) = f(x), of which nothing else is known but f(0) = 1."""

    def function(x: Residues) -> Residues:
        found = hashed(key, Residues(np.where(x.p > P // 2, P - x.p, x.p), x.q))
        zero = x.p == 0
        return Residues(np.where(zero, np.uint64(1), found.p), np.where(zero, np.uint64(1), found.q))

    return function


def power(x: Residues, y: Residues, exponent: Array | None = None) -> Residues:
    """x to the y: repeated products for whole exponents, roots for halves, otherwise exp(y log x).

    `exponent` holds the values of y where each is a literal.
    """
    if exponent is not None and exponent.size and (exponent == exponent.reshape(-1)[0]).all():
        n = float(exponent.reshape(-1)[0])
        if 2 * n == int(2 * n) and abs(n) <= 64:
            whole = raised(sqrt(x) if n != int(n) else x, abs(int(n if n == int(n) else 2 * n)))
            return inverse(whole) if n < 0 else whole
    return exp(times(y, log(x)))


# Real numbers as a witness in float64, two bounds of its error, and the residues of its formula.
#
# The *witness* decides branches, extremes and whole parts. Its *error* bounds how far float64 may have led it from
# the formula's number (running error analysis: Higham, Accuracy and Stability of Numerical Algorithms, section 3.3),
# its *rounding* how far the program may be led, which rounds to its own element types.


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

    >>> from tensorir.ir.types import SCALARS
    >>> digits(FLOAT32), digits(SCALARS["int16"])
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
            token = embedded(np.where(odd, self.value, 0.0))
            r = Residues(np.where(odd, token.p, r.p), np.where(odd, token.q, r.q))
        error, rounding = (np.where(odd, 0.0, np.where(np.isnan(e), np.inf, e)) for e in (self.error, self.rounding))
        return Leaf((self.value, error, rounding, r.p, r.q), absent)


def exact(values: Any) -> Real:
    """Numbers that are what they are."""
    wide = np.asarray(values).astype(np.float64)
    zero = np.zeros(wide.shape)
    error = zero if np.asarray(values).dtype.kind != "i" else np.abs(wide) * U * (np.abs(wide) > 2.0**53)
    return Real(wide, error, error, embedded(values))


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
            product = times(formula, embedded(np.array(ratio)))
            size = abs(rounded)
            return Real(np.array(ratio * number), np.array(4 * U * size), np.array(unit(element) * size), product)
    return exact(np.array(rounded))


def _constants() -> list[tuple[float, Residues]]:
    ln2, pi = named("ln 2"), named("pi")
    two = embedded(np.array(2.0))
    return [
        (1 / math.log(2), inverse(ln2)),
        (math.log(2), ln2),
        (math.sqrt(2), sqrt(two)),
        (math.sqrt(2 / math.pi), sqrt(times(two, inverse(pi)))),
        (math.pi, pi),
    ]


# Operations: the witness, and the residues of what they give

Formula = Callable[..., Residues]


def _overflown(args: tuple[Real, ...], z: Array) -> Array:
    """A mask of results too large for float64, though no operand is infinite, and of all computed of those."""
    known = np.all([np.broadcast_to(np.isfinite(a.value) & np.isfinite(a.error), z.shape) for a in args], 0)
    lost = np.any([np.broadcast_to(np.isinf(a.error), z.shape) for a in args], 0)
    return (np.isinf(z) & known) | (~np.isfinite(z) & lost)


def _holds(element: Scalar, x: Array) -> Array:
    """A mask of numbers of an element type."""
    return np.asarray(x.astype(DTYPES[element]).astype(np.float64) == x)


def _exact_sum(x: Array, y: Array, z: Array) -> Array:
    """A mask of sums that are exact in float64: the remainder of both operands (Knuth's TwoSum) is 0."""
    other = z - x
    return np.asarray((x - (z - other)) + (y - other) == 0)


def _exact_product(x: Array, y: Array, z: Array) -> Array:
    """A mask of products that are exact in float64: of two numbers of 24 bits, or by a power of two."""
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
    known = embedded(np.where(limit, z, 0.0))
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
        return Real(found.value, least[0], least[1], embedded(found.value))

    return compute


def _abs(element: Scalar, x: Real) -> Real:
    opposite = negated(x.residues)
    below = x.value < 0
    r = Residues(np.where(below, opposite.p, x.residues.p), np.where(below, opposite.q, x.residues.q))
    return Real(np.abs(x.value), x.error, x.rounding, r)


def _remainder(remainder: Callable[[Array, Array], Array], whole: Callable[[Array], Array]) -> Any:
    """x - y × whole(x / y)."""

    def compute(element: Scalar, x: Real, y: Real) -> Real:
        n = whole(x.value / y.value)
        z = remainder(x.value, y.value)
        formula = minus(x.residues, times(y.residues, embedded(np.where(np.isfinite(n), n, 0.0))))
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
    return lambda x: f(exp(x))


ONE = embedded(np.array(1.0))
ONE_HALF = embedded(np.array(0.5))
LN2, LN10 = named("ln 2"), named("ln 10")


def _exponential(x: Residues, sign: bool) -> Residues:
    """(e^x - e^-x) / 2, or with a sum."""
    e = exp(x)
    return times(ONE_HALF, (minus if sign else plus)(e, inverse(e)))


def _tanh(x: Residues) -> Residues:
    e = exp(plus(x, x))
    return times(minus(e, ONE), inverse(plus(e, ONE)))


def _real_power(element: Scalar, x: Real, y: Real) -> Real:
    known = y.value if not y.error.any() else None
    formula = lambda a, b: power(a, b, known)
    return _function(np.power, formula, grows=True)(element, x, y)


def _of_quotient(x: Array, y: Array, ex: Array, ey: Array, z: Array) -> Array:
    least = np.abs(y) - ey
    found = (ex + np.abs(z) * ey) / np.maximum(least, 1e-300)
    return np.where(least > 0, found, np.where(ey == 0, 0.0, np.inf))


OPERATIONS: dict[str, Callable[..., Real]] = {
    "plus": _arithmetic(np.add, plus, lambda x, y, ex, ey, z: ex + ey, _exact_sum),
    "minus": _arithmetic(np.subtract, minus, lambda x, y, ex, ey, z: ex + ey, lambda x, y, z: _exact_sum(x, -y, z)),
    "multiplies": _arithmetic(
        np.multiply,
        times,
        lambda x, y, ex, ey, z: _finite(np.abs(x) * ey) + _finite(np.abs(y) * ex) + ex * ey,
        _exact_product,
    ),
    "divides": _arithmetic(
        np.divide,
        lambda x, y: times(x, inverse(y)),
        _of_quotient,
        lambda x, y, z: _exact_product(z, y, x) & (z * y == x),
        pole=True,
    ),
    "neg": lambda element, x: Real(-x.value, x.error, x.rounding, negated(x.residues)),
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
    "power": _real_power,
    "sqrt": _function(np.sqrt, sqrt, 1),
    "rsqrt": _function(lambda x: 1 / np.sqrt(x), lambda x: inverse(sqrt(x))),
    "cbrt": _function(np.cbrt, cbrt),
    "exp": _function(np.exp, exp, grows=True),
    "exp2": _function(np.exp2, lambda x: exp(times(x, LN2)), grows=True),
    "expm1": _function(np.expm1, _of_exp(lambda e: minus(e, ONE)), grows=True),
    "log": _function(np.log, log),
    "log2": _function(np.log2, lambda x: times(log(x), inverse(LN2))),
    "log10": _function(np.log10, lambda x: times(log(x), inverse(LN10))),
    "log1p": _function(np.log1p, lambda x: log(plus(x, ONE))),
    "sin": _function(np.sin, odd("sin")),
    "cos": _function(np.cos, even("cos")),
    "tan": _function(np.tan, lambda x: times(odd("sin")(x), inverse(even("cos")(x)))),
    "arcsin": _function(np.arcsin, odd("arcsin")),
    "arccos": _function(np.arccos, lambda x: hashed("arccos", x)),
    "arctan": _function(np.arctan, odd("arctan")),
    "arctan2": _function(np.arctan2, lambda y, x: hashed("arctan2", y, x)),
    "sinh": _function(np.sinh, lambda x: _exponential(x, True), grows=True),
    "cosh": _function(np.cosh, lambda x: _exponential(x, False), grows=True),
    "tanh": _function(np.tanh, _tanh),
    "arcsinh": _function(np.arcsinh, odd("arcsinh")),
    "arccosh": _function(np.arccosh, lambda x: hashed("arccosh", x)),
    "arctanh": _function(np.arctanh, odd("arctanh")),
    "erf": _function(_erf, odd("erf")),
    "erfc": _function(lambda x: 1 - _erf(x), lambda x: minus(ONE, odd("erf")(x))),
    "lgamma": _function(_lgamma, lambda x: hashed("lgamma", x)),
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
        unknown = r.residues.q == UNKNOWN
        q = np.where(unknown, np.uint64(0), r.residues.q).sum(axis) % np.uint64(Q)
        residues = Residues(r.residues.p.sum(axis) % np.uint64(P), np.where(unknown.any(axis), UNKNOWN, q))
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
