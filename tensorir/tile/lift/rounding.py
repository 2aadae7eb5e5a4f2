"""Roundings and formats that XLA has not: directed rounding, subnormal numbers as zeros, saturation, tf32.

A sum, product, quotient or root of narrow floats is computed in float64 with the sign of what is lost, and goes one
step down or up where its nearest number lies on the wrong side. What is chosen by bits has the slope of the nearest.
"""

from __future__ import annotations

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr
from tensorir.ir.types import FLOAT32, FLOAT64, SCALARS, Scalar
from tensorir.lifting.emission.tensors import converted
from tensorir.runtime.errors import Span
from tensorir.tile.lift.values import refused, scalar_of
from tensorir.tile.types import Element

__all__ = ["directed", "flushed", "fused", "to_float"]


def flushed(x: Expr, element: Element) -> Expr:
    """Subnormal numbers as zeros of the same sign."""
    scalar = x.tensor.element
    assert isinstance(scalar, Scalar)
    tiny = call("less", call("abs", x), literal(2.0**element.emin, scalar))
    return call("if", tiny, call("multiplies", x, literal(0.0, scalar)), x)


def to_float(x: Expr, source: Element | None, target: Element, mode: str, span: Span) -> Expr:
    """A float in another format: f8 saturates, and e4m3 has no NaN."""
    scalar = scalar_of(target, span)
    if source == target:
        return x
    if mode != "nearest_even":
        return _moved(converted(x, FLOAT64), converted(x, FLOAT64), None, scalar, mode, span)
    if target.name == "tf32":
        return _to_tf32(converted(x, FLOAT32))
    if target.name not in ("f8E4M3FN", "f8E5M2"):
        return converted(x, scalar)
    wide = x if x.tensor.element in (FLOAT32, FLOAT64) else converted(x, FLOAT32)
    kind = wide.tensor.element
    assert isinstance(kind, Scalar)
    most = literal(target.largest, kind)
    kept = call("max", call("min", wide, most), literal(-target.largest, kind))
    if target.name == "f8E4M3FN":
        kept = call("if", call("isnan", wide), most, kept)
    return converted(kept, scalar)


def _to_tf32(x: Expr) -> Expr:
    """Ten bits behind the point, to nearest even."""
    uint = SCALARS["uint32"]
    bits = call("bitcast", x, static=(uint,))
    odd = call("bit_and", call("shift_right", bits, literal(13, uint)), literal(1, uint))
    up = call("plus", call("plus", bits, literal(0xFFF, uint)), odd)
    cut = call("bitcast", call("bit_and", up, literal(0xFFFFE000, uint)), static=(FLOAT32,))
    return call("if", call("isfinite", x), cut, x)


def directed(builtin: str, operands: list[Expr], element: Element, mode: str, span: Span) -> Expr:
    """A sum, difference, product, quotient, root or fused sum, rounded in a direction."""
    scalar = scalar_of(element, span)
    if scalar == FLOAT64:
        help = "use nearest_even, or float32: that is computed in float64."
        raise refused(f"float64 is rounded to nearest, and this is rounding<{mode}>.", span, help)
    wide = [converted(x, FLOAT64) for x in operands]
    match builtin:
        case "plus":
            value, error = _two_sum(wide[0], wide[1])
        case "minus":
            value, error = _two_sum(wide[0], call("neg", wide[1]))
        case "multiplies":
            value, error = call("multiplies", *wide), None
        case "fma":
            value, error = _two_sum(call("multiplies", wide[0], wide[1]), wide[2])
        case "divides":
            value = call("divides", *wide)
            error = _rest_of_quotient(value, wide[0], wide[1])
        case _:
            value = call("sqrt", *wide)
            high, low = _two_product(value, value)
            error = call("minus", call("minus", wide[0], high), low)
    return _moved(value, None, error, scalar, mode, span)


def fused(a: Expr, b: Expr, c: Expr, element: Element, span: Span) -> Expr:
    """a b + c, rounded once to nearest even; in float64 only where no part of the product over- or underflows.

    Products of narrow floats are exact in float64. A sum that is rounded to odd keeps in its last bit that something
    was lost, so that the next rounding does what one rounding would have done.
    """
    scalar = scalar_of(element, span)
    x, y, z = (converted(v, FLOAT64) for v in (a, b, c))
    if scalar != FLOAT64:
        total, error = _two_sum(call("multiplies", x, y), z)
        return _with_slope(converted(total, scalar), converted(_to_odd(total, error), scalar))
    high, low = _two_product(x, y)
    upper, lower = _two_sum(z, low)
    total, rest = _two_sum(high, upper)
    found = call("plus", total, _to_odd(*_two_sum(rest, lower)))
    plain = call("plus", call("multiplies", x, y), z)
    safe = _between(call("abs", x), _LARGE), _between(call("abs", y), _LARGE), _between(call("abs", high), _HALF_LARGE)
    small = call("less", call("abs", z), literal(2.0**_LARGE))
    return call("if", call("and", call("and", safe[0], safe[1]), call("and", safe[2], small)),
                _with_slope(plain, found), plain)  # fmt: skip


_LARGE, _HALF_LARGE = 990, 900
"""Exponents of factors and of products within which their errors are floats."""


def _between(size: Expr, most: int) -> Expr:
    """Whether a size is of an exponent that is neither large nor small."""
    return call("and", call("less", size, literal(2.0**most)), call("greater", size, literal(2.0**-most)))


def _to_odd(value: Expr, error: Expr) -> Expr:
    """The neighbour of a sum whose last bit is set, on the side of what was lost; the sum where nothing was."""
    kind, zero = SCALARS["int64"], literal(0.0)
    even = call("eq", call("bit_and", call("bitcast", value, static=(kind,)), literal(1, kind)), literal(0, kind))
    up = _neighbour(value, FLOAT64, True)
    down = _neighbour(value, FLOAT64, False)
    inexact = call("or", call("less", error, zero), call("greater", error, zero))
    moved = call("if", call("greater", error, zero), up, down)
    return call("if", call("and", even, call("and", inexact, call("isfinite", value))), moved, value)


def _with_slope(near: Expr, exact: Expr) -> Expr:
    """A number that was chosen by its bits, with the slope of the one beside it that was computed."""
    scalar = near.tensor.element
    assert isinstance(scalar, Scalar)
    bits = SCALARS[f"int{scalar.bits}"]
    fixed, exact = (call("bitcast", call("bitcast", x, static=(bits,)), static=(scalar,)) for x in (near, exact))
    # nothing is added but a slope; what is no number, and the sign of a zero, would not survive that
    plain = call("or", call("not", call("isfinite", fixed)), call("eq", exact, literal(0.0, scalar)))
    return call("if", plain, exact, call("plus", exact, call("minus", near, fixed)))


def _two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    total = call("plus", a, b)
    back = call("minus", total, a)
    return total, call("plus", call("minus", a, call("minus", total, back)), call("minus", b, back))


def _two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    product = call("multiplies", a, b)
    (ah, al), (bh, bl) = _split(a), _split(b)
    rest = call("minus", call("multiplies", ah, bh), product)
    rest = call("plus", call("plus", rest, call("multiplies", ah, bl)), call("multiplies", al, bh))
    return product, call("plus", rest, call("multiplies", al, bl))


def _split(a: Expr) -> tuple[Expr, Expr]:
    scaled = call("multiplies", a, literal(134217729.0))
    high = call("minus", scaled, call("minus", scaled, a))
    return high, call("minus", a, high)


def _rest_of_quotient(quotient: Expr, a: Expr, b: Expr) -> Expr:
    high, low = _two_product(quotient, b)
    rest = call("minus", call("minus", a, high), low)
    return call("multiplies", rest, call("sign", b))


def _moved(value: Expr, exact: Expr | None, error: Expr | None, scalar: Scalar, mode: str, span: Span) -> Expr:
    """A float64 and the sign of what it lost as the number of a narrower format on one side of it.

    Where nearest gives an infinity the largest number may be on that side.
    """
    if scalar.bits not in (16, 32):
        raise refused(f"{scalar} has no rounding<{mode}> here.", span, "use nearest_even.")
    near = converted(value, scalar)
    back = converted(near, FLOAT64)
    above, below = call("greater", back, value), call("less", back, value)
    if error is not None:
        level = call("eq", back, value)
        zero = literal(0.0)
        above = call("or", above, call("and", level, call("less", error, zero)))
        below = call("or", below, call("and", level, call("greater", error, zero)))
    down, up = _neighbour(near, scalar, False), _neighbour(near, scalar, True)
    number = call("isfinite", value)
    lower = call("if", call("and", above, number), down, near)
    higher = call("if", call("and", below, number), up, near)
    match mode:
        case "negative_inf":
            return _with_slope(near, lower)
        case "positive_inf":
            return _with_slope(near, higher)
        case _:
            return _with_slope(near, call("if", call("less", value, literal(0.0)), higher, lower))


def _neighbour(x: Expr, scalar: Scalar, up: bool) -> Expr:
    """The next number of a format: one more in its bits away from zero, one less towards it."""
    kind = SCALARS[f"int{scalar.bits}"]
    bits = call("bitcast", x, static=(kind,))
    one = literal(1, kind)
    negative = call("less", bits, literal(0, kind))
    away, towards = call("plus", bits, one), call("minus", bits, one)
    moved = call("if", negative, towards, away) if up else call("if", negative, away, towards)
    # beside zero is the smallest number of either sign
    smallest = 1 if up else kind.range.start + 1
    zero = call("eq", x, literal(0.0, scalar))
    moved = call("if", zero, literal(smallest, kind), moved)
    return call("bitcast", moved, static=(scalar,))
