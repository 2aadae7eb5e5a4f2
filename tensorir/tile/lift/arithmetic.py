"""Elementwise operations, their roundings, and integers by their low bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Literal
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, INT32, SCALARS, Scalar
from tensorir.lifting.emission.tensors import converted
from tensorir.runtime.errors import Span, refuse
from tensorir.tile.lift.values import Number, Ranges, element_of, scalar_of
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element

# Roundings and formats that XLA has not: directed rounding, subnormal numbers as zeros, saturation, tf32.
#
# A sum, product, quotient or root of narrow floats is computed in float64 with the sign of what is lost, and goes one
# step down or up where its nearest number lies on the wrong side. What is chosen by bits has the slope of the
# nearest.


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
        raise refuse("TL40", f"float64 is rounded to nearest, and this is rounding<{mode}>.", help, at=span)
    wide = [converted(x, FLOAT64) for x in operands]
    match builtin:
        case "plus" | "minus" | "fma":
            first = call("multiplies", *wide[:2]) if builtin == "fma" else wide[0]
            last = call("neg", wide[-1]) if builtin == "minus" else wide[-1]
            value, error = _two_sum(first, last)
            if mode == "negative_inf":  # a sum that is zero is negative unless both terms are positive zeros
                signs = (call("bitcast", x, static=(SCALARS["int64"],)) for x in (first, last))
                is_negative = call("or", *(call("less", x, literal(0, SCALARS["int64"])) for x in signs))
                vanishes = call("and", call("eq", value, literal(0.0)), is_negative)
                value = call("if", vanishes, literal(-0.0), value)
        case "multiplies":
            value, error = call("multiplies", *wide), None
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
    """True if a size is of an exponent that is neither large nor small."""
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
        raise refuse("TL40", f"{scalar} has no rounding<{mode}> here.", "use nearest_even.", at=span)
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


# Integers of 64 bits by their low 32: what addresses are made of, and comparisons of what fits.
#
# Kernels compute addresses in 64 bits. JAX has none unless it is asked for them, and no memory here has so many
# elements: sums, differences and products have the low bits that those of their operands give, and a comparison of
# numbers that fit is one of 32 bits.

_RING = {"addi": "plus", "subi": "minus", "muli": "multiplies"}
"""Operations whose low bits follow from those of their operands."""


def low_of(op: Operation, operands: Sequence[Number], ranges: Ranges) -> tuple[Expr, bool] | None:
    """The low bits of a result of 64 bits, and whether they are the number; None where they are not at hand."""
    if op.name == "exti":
        (x,) = operands
        signed = op.attribute("signedness") == "signed"
        if x.scalar == BOOL:
            small = converted(x.expr, INT32)
            return (call("neg", small) if signed else small), True
        if signed:
            return converted(x.expr, INT32), True
        low = x.sum.range(x.ranges(ranges)) if x.sum is not None else None
        return (x.expr, low is not None and low[0] >= 0) if x.scalar == INT32 else None
    numbers = operands[1:] if op.name == "select" else operands
    found = [n.low_bits(ranges) if n.element.bits == 64 else None for n in numbers]
    if any(f is None for f in found):
        return None
    parts = [f for f in found if f is not None]
    if op.name in _RING:
        return call(_RING[op.name], *(e for e, _ in parts)), False
    if op.name == "select":
        return call("if", operands[0].expr, *(e for e, _ in parts)), all(fits for _, fits in parts)
    return None


def narrowed(op: Operation, operands: Sequence[Number], ranges: Ranges) -> list[Expr] | None:
    """The operands of a comparison in 32 bits; None where they do not fit.

    Numbers without a sign that fit compare as their low bits do: extended or not, negative ones are above all others.
    """
    if op.name != "cmpi" or operands[0].element.bits != 64:
        return None
    found = [n.low_bits(ranges) for n in operands]
    parts = [f[0] for f in found if f is not None and f[1]]
    return parts if len(parts) == len(operands) else None


# What elementwise operations compute: by name, from the operation and expressions to an expression.
#
# Integers without a sign are those of the tensor IR with one, and `unsigned` operations look at the same bits as
# numbers without one. What the sources leave undefined is 0, as in the interpreter.

INT8, UINT64 = SCALARS["int8"], SCALARS["uint64"]


def _result(op: Operation) -> Scalar:
    return scalar_of(element_of(op.results[0].type), op.span)


def _element(op: Operation, k: int) -> Element:
    return element_of(op.values[k].type)


def same_bits(x: Expr, scalar: Scalar) -> Expr:
    """The same bits as another type."""
    if isinstance(x, Literal) and scalar.is_integer and x.element.is_integer and x.element.bits == scalar.bits:
        number = int(x.value) % (1 << scalar.bits)
        return literal(number if number in scalar.range else number - (1 << scalar.bits), scalar)
    return x if x.tensor.element == scalar else call("bitcast", x, static=(scalar,))


def unsigned(x: Expr, element: Element) -> Expr:
    """An integer as the number without a sign that its bits are."""
    if x.tensor.element == BOOL:
        return converted(x, SCALARS["uint8"])
    if element.bits == 4:
        x = call("bit_and", x, literal(15, INT8))
    found = x.tensor.element
    assert isinstance(found, Scalar)
    return same_bits(x, SCALARS[f"uint{found.bits}"])


def signed(x: Expr) -> Expr:
    """An integer as a number with a sign: a set bit of i1 is -1."""
    return call("neg", converted(x, INT8)) if x.tensor.element == BOOL else x


def signless(x: Expr, element: Element) -> Expr:
    """The low bits of a number as an element."""
    found = x.tensor.element
    assert isinstance(found, Scalar)
    if element.bits == 1:
        return x if found == BOOL else call("not_eq", call("bit_and", x, literal(1, found)), literal(0, found))
    if element.bits == 4:
        low = call("bit_and", converted(x, INT8), literal(15, INT8))
        return call("minus", call("bit_xor", low, literal(8, INT8)), literal(8, INT8))
    wanted = SCALARS[f"int{element.bits}"]
    return same_bits(x, wanted) if found.kind == "uint" and found.bits == wanted.bits else converted(x, wanted)


def _numbers(op: Operation, signedness: str, *operands: Expr) -> list[Expr]:
    """The operands as numbers, with a sign or without."""
    if signedness == "signed":
        return [signed(x) for x in operands]
    return [unsigned(x, _element(op, k)) for k, x in enumerate(operands)]


# Integers


def _wrapping(builtin: str) -> Any:
    def make(op: Operation, *operands: Expr) -> Expr:
        return signless(call(builtin, *(signed(x) for x in operands)), element_of(op.results[0].type))

    return make


def _extreme(builtin: str) -> Any:
    def make(op: Operation, a: Expr, b: Expr) -> Expr:
        return signless(
            call(builtin, *_numbers(op, op.attribute("signedness"), a, b)), element_of(op.results[0].type)
        )  # fmt: skip

    return make


def _bits(builtin: str, logical: str) -> Any:
    def make(op: Operation, a: Expr, b: Expr) -> Expr:
        return call(logical if a.tensor.element == BOOL else builtin, a, b)

    return make


def _constant(x: Expr) -> int | None:
    return int(x.value) if isinstance(x, Literal) else None


def _or_zero(bad: Expr | None, x: Expr) -> Expr:
    """The value, or zero where it is undefined."""
    return x if bad is None else call("if", bad, literal(0, x.tensor.leaves[0]), x)


def _undefined(op: Operation, x: Expr, y: Expr, quotient: bool) -> Expr | None:
    """The elements at which a division has no result; None if it always has one."""
    scalar, by = y.tensor.element, _constant(y)
    assert isinstance(scalar, Scalar)
    # of an i1 the least number is -1, whatever type it is divided in
    least = element_of(op.results[0].type).range[0] if scalar.kind == "int" else None
    if by is not None and by != 0 and (by != -1 or least is None):
        return None
    bad = call("eq", y, literal(0, scalar))
    if least is None or not quotient:
        return bad
    lost = call("and", call("eq", x, literal(least, scalar)), call("eq", y, literal(-1, scalar)))
    return call("or", bad, lost)


def _divi(op: Operation, a: Expr, b: Expr) -> Expr:
    x, y = _numbers(op, op.attribute("signedness"), a, b)
    bad, mode = _undefined(op, x, y, True), op.attribute("rounding")
    found = call("floordiv" if mode == "negative_inf" else "divides", x, y)
    if mode == "positive_inf":
        low = call("floordiv", x, y)
        rest = call("not_eq", call("multiplies", low, y), x)
        found = call("plus", low, converted(rest, x.tensor.leaves[0]))
    return signless(_or_zero(bad, found), element_of(op.results[0].type))


def _remi(op: Operation, a: Expr, b: Expr) -> Expr:
    x, y = _numbers(op, op.attribute("signedness"), a, b)
    return signless(_or_zero(_undefined(op, x, y, False), call("rem", x, y)), element_of(op.results[0].type))


def _shift(op: Operation, a: Expr, b: Expr) -> Expr:
    element = element_of(op.results[0].type)
    if element.bits == 1:
        # only a shift by nothing leaves something
        return call("and", a, call("not", b))
    amount = unsigned(b, element)
    if op.name == "shli" or op.attribute("signedness") == "unsigned":
        builtin = "shift_left" if op.name == "shli" else "shift_right"
        return signless(call(builtin, unsigned(a, element), amount), element)
    bad = call("greater_equal", amount, literal(element.bits, amount.tensor.leaves[0]))
    if (by := _constant(b)) is not None and 0 <= by < element.bits:
        bad = None
    return _or_zero(bad, call("shift_right", a, b))


def _mulhii(op: Operation, a: Expr, b: Expr) -> Expr:
    element = element_of(op.results[0].type)
    x, y = (converted(unsigned(v, element), UINT64) for v in (a, b))
    if element.bits < 64:
        high = call("shift_right", call("multiplies", x, y), literal(element.bits, UINT64))
        return signless(high, element)
    low, half = literal(0xFFFFFFFF, UINT64), literal(32, UINT64)
    (xh, xl), (yh, yl) = ((call("shift_right", v, half), call("bit_and", v, low)) for v in (x, y))
    carried = call("shift_right", call("multiplies", xl, yl), half)
    middle = call("plus", call("multiplies", xh, yl), carried)
    other = call("plus", call("multiplies", xl, yh), call("bit_and", middle, low))
    top = call("plus", call("multiplies", xh, yh), call("shift_right", middle, half))
    return signless(call("plus", top, call("shift_right", other, half)), element)


_COMPARE = {
    "equal": "eq", "not_equal": "not_eq", "less_than": "less", "less_than_or_equal": "less_equal",
    "greater_than": "greater", "greater_than_or_equal": "greater_equal",
}  # fmt: skip


def _cmpi(op: Operation, a: Expr, b: Expr) -> Expr:
    return call(_COMPARE[op.attribute("comparison_predicate")], *_numbers(op, op.attribute("signedness"), a, b))


# Floats


def _plain(builtin: str) -> Any:
    def make(op: Operation, *operands: Expr) -> Expr:
        return call(builtin, *operands)

    return make


def _cmpf(op: Operation, a: Expr, b: Expr) -> Expr:
    predicate = op.attribute("comparison_predicate")
    found = call(_COMPARE[predicate], a, b)
    ordered = op.attribute("comparison_ordering") == "ordered"
    if (ordered and predicate != "not_equal") or (not ordered and predicate == "not_equal"):
        return found
    no_number = call("isnan", a) if a is b else call("or", call("isnan", a), call("isnan", b))
    return call("and", found, call("not", no_number)) if ordered else call("or", found, no_number)


def _rounded(builtin: str) -> Any:
    def make(op: Operation, *operands: Expr) -> Expr:
        flush = bool(op.attribute("flush_to_zero"))
        mode = op.attribute("rounding_mode")
        element = element_of(op.results[0].type)
        given = [flushed(x, element) if flush else x for x in operands]
        if mode in ("nearest_even", "approx", "full"):
            found = _nearest(builtin, given)
        else:
            found = directed(builtin, given, element, mode, op.span)
        return flushed(found, element) if flush else found

    return make


def _nearest(builtin: str, given: list[Expr]) -> Expr:
    if builtin == "fma":
        a, b, c = given
        return call("plus", call("multiplies", a, b), c)
    return call(builtin, *given)


def fused_once(op: Operation, *operands: Expr) -> Expr:
    """`fma`, rounded once where it is rounded to nearest."""
    if op.attribute("rounding_mode") not in ("nearest_even", "approx", "full"):
        return ELEMENTWISE["fma"](op, *operands)
    element = element_of(op.results[0].type)
    flush = bool(op.attribute("flush_to_zero"))
    a, b, c = (flushed(x, element) if flush else x for x in operands)
    found = fused(a, b, c, element, op.span)
    return flushed(found, element) if flush else found


def _extreme_float(builtin: str) -> Any:
    def make(op: Operation, a: Expr, b: Expr) -> Expr:
        if op.attribute("flush_to_zero"):
            a, b = (flushed(x, element_of(op.results[0].type)) for x in (a, b))
        both = call(builtin, a, b)
        if op.attribute("propagate_nan"):
            return both
        if not isinstance(b, Literal):
            both = call("if", call("isnan", b), a, both)
        return both if isinstance(a, Literal) else call("if", call("isnan", a), b, both)

    return make


def _function(builtin: str) -> Any:
    def make(op: Operation, *operands: Expr) -> Expr:
        element = element_of(op.results[0].type)
        flush = "flush_to_zero" in op.row.attribute_index and bool(op.attribute("flush_to_zero"))
        scalar = _result(op)
        given = [flushed(x, element) if flush else x for x in operands]
        found = converted(call(builtin, *(converted(x, FLOAT32) if scalar.bits < 32 else x for x in given)), scalar)
        return flushed(found, element) if flush else found

    return make


def _remf(op: Operation, a: Expr, b: Expr) -> Expr:
    scalar = _result(op)
    if scalar.bits < 32:
        return converted(call("rem", converted(a, FLOAT32), converted(b, FLOAT32)), scalar)
    return call("rem", a, b)


# Conversions


def _ftof(op: Operation, x: Expr) -> Expr:
    return to_float(
        x, element_of(op.values[0].type), element_of(op.results[0].type), op.attribute("rounding_mode"), op.span
    )


def _itof(op: Operation, x: Expr) -> Expr:
    (number,) = _numbers(op, op.attribute("signedness"), x)
    element = element_of(op.results[0].type)
    if element.name in ("f32", "f64", "f16", "bf16"):
        return converted(number, _result(op))
    return to_float(converted(number, FLOAT64), None, element, "nearest_even", op.span)


def _ftoi(op: Operation, x: Expr) -> Expr:
    target = element_of(op.results[0].type)
    is_signed = op.attribute("signedness") == "signed"
    wide = x if x.tensor.element in (FLOAT32, FLOAT64) else converted(x, FLOAT32)
    scalar = wide.tensor.element
    assert isinstance(scalar, Scalar)
    whole = call("trunc", wide)
    low = float(target.range[0]) if is_signed else 0.0
    high = 2.0 ** (target.bits - 1 if is_signed else target.bits)
    inside = call(
        "and", call("greater_equal", whole, literal(low, scalar)), call("less", whole, literal(high, scalar))
    )  # fmt: skip
    safe = call("if", inside, whole, literal(0.0, scalar))
    if target.bits == 1:
        return call("not_eq", safe, literal(0.0, scalar))
    kind = "int" if is_signed else "uint"
    return signless(call("cast", safe, static=(SCALARS[f"{kind}{target.bits}"],)), target)


def _exti(op: Operation, x: Expr) -> Expr:
    (number,) = _numbers(op, op.attribute("signedness"), x)
    return converted(number, _result(op))


def _trunci(op: Operation, x: Expr) -> Expr:
    return signless(x, element_of(op.results[0].type))


def _bitcast(op: Operation, x: Expr) -> Expr:
    if x.tensor.element == BOOL or _element(op, 0).bits == 4 or _element(op, 0).name == "tf32":
        if _element(op, 0) != element_of(op.results[0].type):
            raise refuse("TL40", f"the bits of {_element(op, 0)} have no other type here.", at=op.span)
        return x
    return same_bits(x, _result(op))


ELEMENTWISE: dict[str, Callable[..., Expr]] = {
    "addi": _wrapping("plus"), "subi": _wrapping("minus"), "muli": _wrapping("multiplies"), "negi": _wrapping("neg"),
    "absi": _wrapping("abs"), "maxi": _extreme("max"), "mini": _extreme("min"),
    "andi": _bits("bit_and", "and"), "ori": _bits("bit_or", "or"), "xori": _bits("bit_xor", "xor"),
    "divi": _divi, "remi": _remi, "shli": _shift, "shri": _shift, "mulhii": _mulhii, "cmpi": _cmpi,
    "addf": _rounded("plus"), "subf": _rounded("minus"), "mulf": _rounded("multiplies"), "divf": _rounded("divides"),
    "fma": _rounded("fma"), "sqrt": _rounded("sqrt"), "maxf": _extreme_float("max"), "minf": _extreme_float("min"),
    "absf": _plain("abs"), "negf": _plain("neg"), "select": _plain("if"),
    "floor": _plain("floor"), "ceil": _plain("ceil"), "remf": _remf, "cmpf": _cmpf,
    "pow": _function("power"), "atan2": _function("arctan2"),
    **{
        name: _function(name)
        for name in ("cos", "cosh", "exp", "exp2", "log", "log2", "sin", "sinh", "tan", "tanh", "rsqrt")
    },
    "ftof": _ftof, "itof": _itof, "ftoi": _ftoi, "exti": _exti, "trunci": _trunci, "bitcast": _bitcast,
}  # fmt: skip
"""By name: what an operation computes from its operands."""
