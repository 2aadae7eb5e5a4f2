"""Arithmetic of a formal real number at a random point of two prime fields, so that equal formulas are equal numbers.

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

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

__all__ = [
    "Residues", "embedded", "exp", "hashed", "inverse", "log", "minus", "named", "odd", "plus", "power", "random",
    "same", "sqrt", "times",
]  # fmt: skip

P, Q = 2147481143, 1073740571
UNKNOWN = np.uint64(2**63)
"""Stands for a residue modulo Q that is not known."""
GENERATOR = np.uint64(4)
"""A square, so that its powers are the squares modulo P, of which there are Q."""
HALF = 15
"""Bits of an exponent that one of two tables of powers answers."""
MOST_LOGARITHMS = 4096
"""Elements whose logarithms are looked for in one array; beyond that logarithms are hashes, without a law."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Residues:
    """An array of numbers: their residues modulo P, and modulo Q where these are known."""

    p: Array
    q: Array


def same(x: Residues, y: Residues) -> Array:
    """Where two numbers are one: both residues are equal, or what is known of them by a law of powers is."""
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
