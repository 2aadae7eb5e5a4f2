"""What elementwise operations compute: by name, from the operation and expressions to an expression.

Integers without a sign are those of the tensor IR with one, and `unsigned` operations look at the same bits as numbers
without one. What the sources leave undefined is 0, as in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.ir.build import call, literal
from tensorir.ir.nodes import Expr, Literal
from tensorir.ir.types import BOOL, FLOAT32, FLOAT64, SCALARS, Scalar
from tensorir.lifting.emission.tensors import converted
from tensorir.tile.lift import rounding as r
from tensorir.tile.lift.values import element_of, refused, scalar_of
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Element

__all__ = ["ELEMENTWISE", "fused_once", "same_bits", "signless", "unsigned"]

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
    """Where a division has no result; None where it always has one."""
    scalar, by = y.tensor.element, _constant(y)
    assert isinstance(scalar, Scalar)
    least = scalar.range.start if scalar.kind == "int" else None
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
        given = [r.flushed(x, element) if flush else x for x in operands]
        if mode in ("nearest_even", "approx", "full"):
            found = _nearest(builtin, given)
        else:
            found = r.directed(builtin, given, element, mode, op.span)
        return r.flushed(found, element) if flush else found

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
    a, b, c = (r.flushed(x, element) if flush else x for x in operands)
    found = r.fused(a, b, c, element, op.span)
    return r.flushed(found, element) if flush else found


def _extreme_float(builtin: str) -> Any:
    def make(op: Operation, a: Expr, b: Expr) -> Expr:
        if op.attribute("flush_to_zero"):
            a, b = (r.flushed(x, element_of(op.results[0].type)) for x in (a, b))
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
        given = [r.flushed(x, element) if flush else x for x in operands]
        found = converted(call(builtin, *(converted(x, FLOAT32) if scalar.bits < 32 else x for x in given)), scalar)
        return r.flushed(found, element) if flush else found

    return make


def _remf(op: Operation, a: Expr, b: Expr) -> Expr:
    scalar = _result(op)
    if scalar.bits < 32:
        return converted(call("rem", converted(a, FLOAT32), converted(b, FLOAT32)), scalar)
    return call("rem", a, b)


# Conversions


def _ftof(op: Operation, x: Expr) -> Expr:
    return r.to_float(
        x, element_of(op.values[0].type), element_of(op.results[0].type), op.attribute("rounding_mode"), op.span
    )


def _itof(op: Operation, x: Expr) -> Expr:
    (number,) = _numbers(op, op.attribute("signedness"), x)
    element = element_of(op.results[0].type)
    if element.name in ("f32", "f64", "f16", "bf16"):
        return converted(number, _result(op))
    return r.to_float(converted(number, FLOAT64), None, element, "nearest_even", op.span)


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
            raise refused(f"the bits of {_element(op, 0)} have no other type here.", op.span)
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
