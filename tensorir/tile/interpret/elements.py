"""Numbers element by element: wrapping integers, floats rounded in every mode, conversions.

Rounding, exact in every mode: a number, known to be exact or rounded to odd, to any float format.

A float64 rounded to odd (its last bit set where something was cut off) keeps enough to be rounded once more, in any
mode, to a format of at most 51 bits. So an operation on narrower floats is computed in float64, made odd, and rounded.

>>> from tensorir.tile.types import ELEMENTS
>>> import numpy as np
>>> [round_to(np.array([1.0 + 2.0**-30]), ELEMENTS["f32"], mode)[0] > 1 for mode in ("nearest_even", "positive_inf")]
[np.False_, np.True_]
"""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from tensorir.reference import numerics
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element

Array = np.ndarray[Any, Any]
_ROUND: dict[str, Any] = {"nearest_even": np.rint, "zero": np.trunc, "negative_inf": np.floor, "positive_inf": np.ceil}


def to_odd(value: Array, error: Array) -> Array:
    """A float64 that was rounded to nearest, and the sign of what it lost, as the one rounded to odd."""
    inexact = (error != 0) & np.isfinite(value)
    if not inexact.any():
        return value
    bits = value.view(np.int64)
    # what was rounded away from zero goes back by one unit; then the last bit says that something is cut off
    away = inexact & (np.signbit(value) != np.signbit(error))
    return np.where(inexact, (bits - away) | 1, bits).view(np.float64)


def odd_of_integers(values: Array) -> Array:
    """64-bit integers as float64, rounded to odd."""
    with np.errstate(all="ignore"):
        if values.dtype.kind == "u":
            high = (values >> np.uint64(32)).astype(np.float64) * 2.0**32
            low = (values & np.uint64(0xFFFFFFFF)).astype(np.float64)
        else:
            high = (values >> 32).astype(np.float64) * 2.0**32
            low = (values & 0xFFFFFFFF).astype(np.float64)
    total = high + low
    return to_odd(total, low - (total - high))


def round_to(value: Array, element: Element, mode: str = "nearest_even") -> Array:
    """Float64 numbers in a narrower format, as an array of its NumPy type.

    f8E4M3FN and f8E5M2 saturate; NaN is kept, and is the largest number in f8E4M3FN. f8E8M0FNU holds powers of two.
    """
    if element.name == "f64":
        return value
    with np.errstate(all="ignore"):
        if element.name == "f8E8M0FNU":
            return _to_scale(value, mode)
        _, exponent = np.frexp(value)
        quantum = np.maximum(exponent - 1, element.emin) - (element.precision - 1)
        scaled = np.ldexp(value, -quantum)
        result = np.ldexp(_ROUND[mode](scaled), quantum)
        result = np.where(np.isfinite(value), np.copysign(result, value), value)
        largest = element.largest
        over = np.abs(result) > largest
        if over.any():
            result = np.where(over, _beyond(result, value, element, mode), result)
        if element.name == "f8E4M3FN":
            result = np.where(np.isnan(value), largest, result)
        return result.astype(element.numpy)


def _beyond(result: Array, value: Array, element: Element, mode: str) -> Array:
    """The value beyond the largest number: an infinity, or that number where the format or the mode says so."""
    largest = np.copysign(element.largest, value)
    if not element.infinite:
        return largest
    infinite = np.copysign(np.inf, value)
    stays = {
        "nearest_even": np.zeros(value.shape, bool),
        "zero": np.ones(value.shape, bool),
        "negative_inf": value > 0,
        "positive_inf": value < 0,
    }[mode]
    return np.where(stays & np.isfinite(value), largest, infinite)


def _to_scale(value: Array, mode: str) -> Array:
    """Powers of two from 2^-127 to 2^127; what is negative, and NaN, has none and is NaN."""
    import ml_dtypes

    fraction, exponent = np.frexp(value)
    power = exponent - 1 + ((fraction != 0.5) & (mode == "positive_inf"))
    power = np.where(value == 0, -127, np.clip(np.where(np.isinf(value), 127, power), -127, 127))
    bits = np.where(np.isnan(value) | (value < 0), 255, power + 127).astype(np.uint8)
    return bits.view(ml_dtypes.float8_e8m0fnu)


def flush(value: Array, element: Element) -> Array:
    """Subnormal numbers as zeros of the same sign."""
    tiny = np.abs(value) < 2.0**element.emin
    return np.where(tiny, np.copysign(np.zeros((), value.dtype), value), value) if tiny.any() else value


def rounded_bits(element: Element, text: str) -> int:
    """The bits of a decimal literal in a format: the nearest number, ties to even; beyond the largest an infinity."""
    value = float(text)
    if element.name == "f64":
        return int(np.float64(value).view(np.uint64))
    if value == 0:  # what underflows has an exponent of any size, and is on the side of its digits
        error = np.copysign(float(any("1" <= digit <= "9" for digit in text.lower().partition("e")[0])), value)
        odd = to_odd(np.array([value]), np.array([error]))
    elif np.isfinite(value):
        exact = Fraction(text)
        error = float((exact > Fraction(value)) - (exact < Fraction(value)))
        odd = to_odd(np.array([value]), np.array([error]))
    else:
        odd = np.array([value])
    rounded = round_to(odd, element)
    return int.from_bytes(rounded.tobytes(), "little")


# Float64 operations in rational arithmetic, one at a time: for exponents at which errors cannot be floats.

_SMALLEST = -1074
_LARGEST = (2.0 - 2.0**-52) * 2.0**1023


def exactly(name: str, mode: str, *operands: float) -> float:
    """The result of an operation on finite numbers, rounded once.

    >>> exactly("multiply", "positive_inf", 5e-324, 0.5), exactly("add", "negative_inf", 1.0, -1.0)
    (5e-324, -0.0)
    """
    parts = [Fraction(x) for x in operands]
    match name:
        case "add":
            exact, zero = parts[0] + parts[1], _zero_of_sum(mode, *operands)
        case "multiply":
            exact, zero = parts[0] * parts[1], math.copysign(0.0, _sign(operands[0]) * _sign(operands[1]))
        case "divide":
            sign = _sign(operands[0]) * _sign(operands[1])
            if operands[1] == 0:
                return math.nan if operands[0] == 0 else math.copysign(math.inf, sign)
            exact, zero = parts[0] / parts[1], math.copysign(0.0, sign)
        case "fma":
            exact = parts[0] * parts[1] + parts[2]
            zero = _zero_of_sum(mode, math.copysign(0.0, _sign(operands[0]) * _sign(operands[1])), operands[2])
        case _:
            return _root(operands[0], mode)
    return zero if exact == 0 else round_fraction(exact, mode)


def _sign(x: float) -> float:
    return math.copysign(1.0, x)


def _zero_of_sum(mode: str, a: float, b: float) -> float:
    """The zero that a sum gives: that of two equal zeros, else the positive one, except towards minus infinity."""
    if a == 0 and b == 0 and _sign(a) == _sign(b):
        return a
    return -0.0 if mode == "negative_inf" else 0.0


def _root(x: float, mode: str) -> float:
    if x < 0:
        return math.nan
    if x == 0:
        return x
    exact = Fraction(x)
    shift = 2400
    scaled = (exact.numerator << shift) // exact.denominator
    found = math.isqrt(scaled)
    rest = Fraction(found * found, 1) != exact * (1 << shift)
    # a bit below all others says that something is cut off
    return round_fraction(Fraction(2 * found + rest, 2 << (shift // 2)), mode)


def round_fraction(exact: Fraction, mode: str) -> float:
    """A rational number other than zero as float64."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = max(exponent - 52, _SMALLEST)
    scaled = size / Fraction(2) ** quantum
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    match mode:
        case "odd":
            whole += bool(rest) and whole % 2 == 0
        case "nearest_even":
            whole += half > 0 or (half == 0 and whole % 2 == 1)
        case "positive_inf":
            whole += bool(rest) and exact > 0
        case "negative_inf":
            whole += bool(rest) and exact < 0
        case _:
            pass
    value = Fraction(whole) * Fraction(2) ** quantum
    if value > Fraction(_LARGEST):
        stays = (
            mode in ("zero", "odd") or (mode == "positive_inf" and exact < 0) or (mode == "negative_inf" and exact > 0)
        )
        result = _LARGEST if stays else math.inf
    else:
        result = float(value)
    return result if exact > 0 else -result


# Integers, element by element: they wrap around, i1 included; what is undefined is 0, and told to the watch.


_UNSIGNED = {1: np.uint8, 4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Watch(Protocol):
    """The observer of undefined results, in checked mode."""

    def undefined(self, op: Operation, lanes: Any, said: str) -> None: ...


def signed(a: Array) -> Array:
    """The elements as signed numbers; a set bit of i1 is -1."""
    return -a.astype(np.int8) if a.dtype == np.bool_ else a


def unsigned(a: Array, element: Element) -> Array:
    """The elements as unsigned numbers."""
    if a.dtype == np.bool_:
        return a.astype(np.uint8)
    if element.bits == 4:
        return (a & 15).astype(np.uint8)
    return a.view(_UNSIGNED[element.bits])


def fit(a: Array, element: Element) -> Array:
    """The low bits of numbers, as elements."""
    if element.bits == 1:
        return (a & 1).astype(np.bool_)
    if element.bits == 4:
        return ((a.astype(np.int8) & 15) ^ 8) - np.int8(8)
    return a.astype(element.numpy) if a.dtype.kind != "u" else a.astype(_UNSIGNED[element.bits]).view(element.numpy)


_TOWARDS = {"zero": "zero", "negative_inf": "down", "positive_inf": "up"}


def _divi(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed = op.attribute("signedness") == "signed"
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    bad = y == 0
    if is_signed:
        bad = bad | ((x == np.array(element.range[0], x.dtype)) & (y == -1))
    if w is not None:
        w.undefined(op, bad, "divides by zero, or the least number by -1")
    whole = numerics.quotient(x, np.where(bad, np.array(0, y.dtype), y), _TOWARDS[op.attribute("rounding")])
    return fit(np.asarray(whole), element)


def _remi(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed = op.attribute("signedness") == "signed"
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    if w is not None:
        w.undefined(op, y == 0, "divides by zero")
    return fit(np.asarray(numerics.remainder(x, y)), element)


def _shifted(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    amount = unsigned(b, element).astype(np.uint64)
    bad = amount >= element.bits
    if w is not None:
        w.undefined(op, bad, f"shifts by {element.bits} bits or more")
    left = op.name == "shli"
    x = unsigned(a, element) if left or op.attribute("signedness") == "unsigned" else signed(a)
    steps = np.minimum(amount, np.uint64(64)).astype(x.dtype)
    return fit(np.asarray(numerics.shifted(x, steps, element.bits, left, 0)), element)


def _mulhii(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    x, y = (unsigned(v, element).astype(np.uint64) for v in (a, b))
    if element.bits < 64:
        return fit((x * y) >> np.uint64(element.bits), element)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + ((xl * yl) >> half)
    other = xl * yh + (middle & low)
    return fit(xh * yh + (middle >> half) + (other >> half), element)


def _extreme(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    is_signed = op.attribute("signedness") == "signed"
    x, y = (signed(a), signed(b)) if is_signed else (unsigned(a, element), unsigned(b, element))
    return fit(np.maximum(x, y) if op.name == "maxi" else np.minimum(x, y), element)


def _wrapping(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    x, y = signed(a), signed(b)
    with np.errstate(all="ignore"):
        result = x + y if op.name == "addi" else x - y if op.name == "subi" else x * y
    if w is not None:
        overflows(op, w, element, a, b)
    return fit(result, element)


def _shift_left(op: Operation, w: Watch | None, element: Element, a: Array, b: Array) -> Array:
    if w is not None:
        overflows(op, w, element, a, b)
    return _shifted(op, w, element, a, b)


BINARY: dict[str, Any] = {
    "addi": _wrapping,
    "subi": _wrapping,
    "muli": _wrapping,
    "divi": _divi,
    "remi": _remi,
    "maxi": _extreme,
    "mini": _extreme,
    "mulhii": _mulhii,
    "shli": _shift_left,
    "shri": _shifted,
    "andi": lambda op, w, e, a, b: a & b,
    "ori": lambda op, w, e, a, b: a | b,
    "xori": lambda op, w, e, a, b: a ^ b,
}
"""By name: the operation, the watch, the element type, and the operands."""


def overflows(op: Operation, w: Watch, element: Element, *operands: Array) -> None:
    """Tell the watch of lanes that break the promise of an overflow attribute."""
    promise = op.attribute("overflow")
    if promise == "none":
        return
    functions: dict[str, Any] = {
        "addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y, "negi": lambda x: -x,
        "shli": lambda x, y: x * np.power(np.array(2, object), y),
    }  # fmt: skip
    low, high = element.range
    for kind, view, least, most in (
        ("no_signed_wrap", lambda v: signed(v), low, high),
        ("no_unsigned_wrap", lambda v: unsigned(v, element), 0, (1 << element.bits) - 1),
    ):
        if promise not in (kind, "no_wrap") or (kind == "no_unsigned_wrap" and op.name == "negi"):
            continue
        numbers = [view(v).astype(object) for v in operands]
        if op.name == "shli":
            numbers[1] = np.minimum(unsigned(operands[1], element).astype(np.int64), 64).astype(object)
        exact = functions[op.name](*numbers)
        broken = np.asarray((exact < least) | (exact > most), bool)
        w.undefined(op, broken, f"wraps around, against its promise '{promise}'")


# Floats, element by element: sums, products, quotients and roots rounded once in the mode that is asked for.
#
# Sums and products of narrow formats are computed in float64 with the error, made odd and rounded. What is left,
# float64 in modes other than to the nearest, quotients and roots, is computed in rationals, element by element.


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


_NATIVE: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "multiply": np.multiply,
    "divide": np.divide,
    "root": np.sqrt,
    "fma": lambda a, b, c: a * b + c,
}


def _rounded(name: str, element: Element, mode: str, ftz: bool, *operands: Array) -> Array:
    with np.errstate(all="ignore"):
        if ftz:
            operands = tuple(flush(x, element) for x in operands)
        wide = tuple(x.astype(np.float64) for x in operands)
        if mode == "nearest_even" and name != "fma":
            result = _NATIVE[name](*operands)
        elif element.name == "f64" or name in ("divide", "root"):
            precise = mode if element.name == "f64" else "odd"
            result = np.array(_NATIVE[name](*wide))
            finite = np.logical_and.reduce(np.broadcast_arrays(*map(np.isfinite, wide)))
            for at in np.argwhere(finite):
                index = tuple(at)
                given = [float(np.broadcast_to(x, result.shape)[index]) for x in wide]
                result[index] = exactly(name, precise, *given)
            result = round_to(result, element, mode)
        else:
            first, *rest = wide if name == "add" else (wide[0] * wide[1], *wide[2:])  # exact, of narrow floats
            value, error = _two_sum(first, *rest) if rest else (first, np.zeros_like(first))
            if mode == "negative_inf" and rest:  # a sum that is zero is negative unless both terms are positive zeros
                value = np.where((value == 0) & (np.signbit(first) | np.signbit(rest[0])), -0.0, value)
            result = round_to(to_odd(value, np.where(np.isnan(error), 0.0, error)), element, mode)
        return flush(result, element) if ftz else result


def add(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    """Sum, rounded in a mode; `ftz` flushes subnormal operands and results.

    >>> import numpy as np
    >>> from tensorir.tile.types import ELEMENTS
    >>> one, tiny = np.float32([1.0]), np.float32([1e-20])
    >>> float(add(one, tiny, ELEMENTS["f32"], "positive_inf")[0])
    1.0000001192092896
    """
    return _rounded("add", element, mode, ftz, a, b)


def subtract(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    return _rounded("add", element, mode, ftz, a, -b)


def multiply(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    return _rounded("multiply", element, mode, ftz, a, b)


def divide(a: Array, b: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    mode = "nearest_even" if mode in ("approx", "full") else mode
    return _rounded("divide", element, mode, ftz, a, b)


def root(a: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    mode = "nearest_even" if mode == "approx" else mode
    return _rounded("root", element, mode, ftz, a)


def fma(a: Array, b: Array, c: Array, element: Element, mode: str = "nearest_even", ftz: bool = False) -> Array:
    return _rounded("fma", element, mode, ftz, a, b, c)


def _float_extreme(a: Array, b: Array, element: Element, propagate: bool, ftz: bool, larger: bool) -> Array:
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, element), flush(b, element)
        first = (a > b) if larger else (a < b)
        # of two zeros the positive one is larger
        first |= (a == b) & (np.signbit(b) if larger else np.signbit(a))
        chosen = np.where(first, a, b)
        no_a, no_b = np.isnan(a), np.isnan(b)
        if propagate:
            return np.where(no_a | no_b, np.array(np.nan, a.dtype), chosen)
        return np.where(no_a, np.where(no_b, np.array(np.nan, a.dtype), b), np.where(no_b, a, chosen))


def larger(a: Array, b: Array, element: Element, propagate: bool = False, ftz: bool = False) -> Array:
    """The larger; of a number and NaN the number, or NaN where it propagates; +0 is larger than -0."""
    return _float_extreme(a, b, element, propagate, ftz, True)


def smaller(a: Array, b: Array, element: Element, propagate: bool = False, ftz: bool = False) -> Array:
    return _float_extreme(a, b, element, propagate, ftz, False)


def remainder(a: Array, b: Array) -> Array:
    """The remainder of the truncated quotient, exactly, with the sign of the dividend."""
    with np.errstate(all="ignore"):
        if a.dtype.itemsize < 4:
            return np.fmod(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return np.fmod(a, b)


def through(element: Element, function: Any, *operands: Array) -> Array:
    """A function of mathematics: of float64 as it is, of narrower floats in float64, through float32 to 16 bits."""
    with np.errstate(all="ignore"):
        value = np.asarray(function(*(x.astype(np.float64) for x in operands)))
        if element.name == "f64":
            return value
        return value.astype(np.float32).astype(element.numpy)


def apply(element: Element, function: Any, a: Array, ftz: bool = False) -> Array:
    """A function of one operand, with subnormal numbers flushed where that is asked for."""
    if ftz:
        return flush(through(element, function, flush(a, element)), element)
    return through(element, function, a)


# Elements of one type as another: rounded, extended, cut off, or their bits as they are.


def _ftof(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    with np.errstate(all="ignore"):  # a signalling NaN is no error here
        return round_to(a.astype(np.float64), target, op.attribute("rounding_mode"))


def _itof(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    numbers = signed(a) if op.attribute("signedness") == "signed" else unsigned(a, source)
    if source.bits == 64:
        if target.name == "f64":
            return numbers.astype(np.float64)
        return round_to(odd_of_integers(numbers), target)
    return round_to(numbers.astype(np.float64), target)


def _ftoi(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    with np.errstate(all="ignore"):
        numbers = np.trunc(a.astype(np.float64))
    is_signed = op.attribute("signedness") == "signed"
    low, high = (float(target.range[0]), float(1 << (target.bits - 1))) if is_signed else (0.0, float(1 << target.bits))
    bad = ~((numbers >= low) & (numbers < high))
    if w is not None:
        w.undefined(op, bad, f"converts a number that {target} does not hold")
    safe = np.where(bad, 0.0, numbers)
    return fit(safe.astype(np.int64) if is_signed else safe.astype(np.uint64), target)


def _exti(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    numbers = signed(a) if op.attribute("signedness") == "signed" else unsigned(a, source)
    return fit(numbers.astype(target.numpy), target)


def _trunci(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    result = fit(a, target)
    promise = op.attribute("overflow")
    if w is not None and promise != "none":
        if promise in ("no_signed_wrap", "no_wrap"):
            w.undefined(
                op, signed(result).astype(np.int64) != signed(a), f"drops bits, against its promise '{promise}'"
            )
        if promise in ("no_unsigned_wrap", "no_wrap"):
            kept = unsigned(result, target).astype(np.uint64)
            w.undefined(op, kept != unsigned(a, source), f"drops bits, against its promise '{promise}'")
    return result


def _bitcast(op: Operation, w: Watch | None, source: Element, target: Element, a: Array) -> Array:
    if source == target:
        return a
    if source.bits == 4:
        return a
    return np.ascontiguousarray(a).reshape(a.shape).view(target.numpy)


CONVERSIONS: dict[str, Any] = {
    "ftof": _ftof,
    "itof": _itof,
    "ftoi": _ftoi,
    "exti": _exti,
    "trunci": _trunci,
    "bitcast": _bitcast,
}
"""By name: the operation, the watch, both element types, and the operand."""


def pack(a: Array, source: Element) -> Array:
    """Elements in a row as bytes, the first in the low bits.

    >>> import ml_dtypes
    >>> from tensorir.tile.types import ELEMENTS
    >>> pack(np.array([0.5, 1.5], ml_dtypes.float4_e2m1fn), ELEMENTS["f4E2M1FN"])
    array([49], dtype=int8)
    """
    if source.bits == 1:
        return np.packbits(a, bitorder="little").view(np.int8)
    if source.bits == 4:
        nibbles = (a.view(np.uint8) & 15).reshape(-1, 2)
        return (nibbles[:, 0] | nibbles[:, 1] << 4).view(np.int8)
    return np.ascontiguousarray(a).view(np.int8)


def unpack(a: Array, target: Element) -> Array:
    """Bytes as elements in a row, the low bits first."""
    raw = np.ascontiguousarray(a).view(np.uint8)
    if target.bits == 1:
        return np.unpackbits(raw, bitorder="little").astype(np.bool_)
    if target.bits == 4:
        nibbles = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
        return ((nibbles.view(np.int8) ^ 8) - np.int8(8)) if target.is_integer else nibbles.view(target.numpy)
    if target.name == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return raw.view(target.numpy)
