"""Pure builtins of TIR in terms of the tensor IR's: one function per builtin.

Values that the source leaves undefined are 0, as in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorir.ir.types import BOOL, FLOAT32, INT32, INT64, SCALARS, Scalar
from tensorir.lifting.nests.terms import Number, Op, Term


def op(name: str, *args: Term, element: Scalar | None = None) -> Term:
    """An elementwise builtin; its result has the element of the first operand unless another is given."""
    return Op(name, args, args[0].element if element is None else element)


def number(value: bool | int | float, element: Scalar) -> Number:
    """A number of an element type; integers wrap into it."""
    if element.is_float:
        return Number(float(value), element)
    if element == BOOL:
        return Number(bool(value), BOOL)
    whole = int(value) & ((1 << element.bits) - 1)
    if element.kind == "int" and whole >> (element.bits - 1):
        whole -= 1 << element.bits
    return Number(whole, element)


def truth(name: str, *args: Term) -> Term:
    return Op(name, args, BOOL)


def both(a: Term, b: Term) -> Term:
    return Op("and", (a, b), BOOL)


def choice(condition: Term, yes: Term, no: Term) -> Term:
    return Op("if", (condition, yes, no), yes.element)


def cast(x: Term, target: Scalar) -> Term:
    """The value converted as C converts it; a float that no integer of the type is near to becomes 0."""
    source = x.element
    if source == target:
        return x
    if isinstance(x, Number) and not (source.is_float and target.is_integer):
        if target == BOOL:
            return Number(x.value != 0, BOOL)
        if not target.is_float:
            return number(x.value, target)
    if target == BOOL:
        return truth("not_eq", x, number(0, source))
    if source.is_float and target.is_integer:
        wide = x if source.bits >= 32 else op("cast", x, element=FLOAT32)
        return choice(is_held(x, target), op("cast", wide, element=target), number(0, target))
    return op("cast", x, element=target)


def is_held(x: Term, target: Scalar) -> Term:
    """True if a float is near to a number of a type of whole numbers."""
    whole = op("trunc", x if x.element.bits >= 32 else op("cast", x, element=FLOAT32))
    low, high = (Number(float(end), whole.element) for end in (target.range.start, target.range.stop))
    return both(truth("greater_equal", whole, low), truth("less", whole, high))


def is_shift(by: Term, element: Scalar) -> Term:
    """True if a type has so many places as it is to be shifted by."""
    fits = truth("greater_equal", by, number(0, by.element))
    if element.bits not in by.element.range:
        return fits
    return both(fits, truth("less", by, number(element.bits, by.element)))


def quotient(name: str, a: Term, b: Term) -> Term:
    """An integer division that gives 0 where the divisor is 0."""
    whole = op(name, a, b)
    if isinstance(b, Number) and b.value:
        return whole
    zero = number(0, b.element)
    return choice(truth("eq", b, zero), number(0, a.element), whole)


Make = Callable[[Scalar, tuple[Term, ...]], Term]


def _wide(function: Callable[..., Term]) -> Make:
    """Narrow floats compute in float32 and round once."""

    def make(element: Scalar, args: tuple[Term, ...]) -> Term:
        if element.is_float and element.bits < 32:
            return cast(function(*(cast(a, FLOAT32) for a in args)), element)
        return cast(function(*args), element)

    return make


def _plain(name: str) -> Make:
    return _wide(lambda *args: op(name, *args))


def _integral(name: str) -> Make:
    inner = _plain(name)
    return lambda element, args: inner(element, args) if element.is_float else args[0]


def _test(name: str, of_integers: bool) -> Make:
    def make(element: Scalar, args: tuple[Term, ...]) -> Term:
        (x,) = args
        return truth(name, x) if x.element.is_float else Number(of_integers, BOOL)

    return make


def _one(x: Term) -> Term:
    return Number(1.0, x.element)


def _exp10(x: Term) -> Term:
    return op("power", Number(10.0, x.element), x)


def _fma(x: Term, y: Term, z: Term) -> Term:
    return op("plus", op("multiplies", x, y), z)


def _sigmoid(x: Term) -> Term:
    return op("divides", _one(x), op("plus", _one(x), op("exp", op("neg", x))))


def _copysign(x: Term, y: Term) -> Term:
    signed = SCALARS[f"int{y.element.bits}"]
    negative = truth("less", op("bitcast", y, element=signed), Number(0, signed))
    return choice(negative, op("neg", op("abs", x)), op("abs", x))


def _power(element: Scalar, args: tuple[Term, ...]) -> Term:
    if element.is_float:
        return _plain("power")(element, args)
    base, exponent = args
    if not (isinstance(exponent, Number) and 0 <= exponent.value < 64):
        raise NotImplementedError("the power of integers with an exponent that is no small constant")
    product: Term = number(1, element)
    for _ in range(int(exponent.value)):
        product = op("multiplies", product, base)
    return product


def _shift(name: str) -> Make:
    """Shifts by a negative number, or by the width or more, give 0."""

    def make(element: Scalar, args: tuple[Term, ...]) -> Term:
        x, by = args
        if element == BOOL:
            raise NotImplementedError("a shift of a truth value")
        if element.is_float:
            raise NotImplementedError("a shift of a float")
        if isinstance(by, Number):
            return op(name, x, by) if 0 <= by.value < element.bits else number(0, element)
        return choice(is_shift(by, element), op(name, x, by), number(0, element))

    return make


def _q_multiply_shift(element: Scalar, args: tuple[Term, ...]) -> Term:
    """(x × y × 2^-q) × 2^s, rounded half up, in 64 bits."""
    x, y, q, s = (cast(a, INT64) for a in args)
    shift = op("minus", q, s)
    zero, one = number(0, INT64), number(1, INT64)
    product = op("multiplies", x, y)
    at_least = op("max", shift, zero)
    half = choice(truth("greater", shift, zero), op("shift_left", one, op("max", op("minus", shift, one), zero)), zero)
    return cast(op("shift_right", op("plus", product, half), at_least), element)


def _ldexp(element: Scalar, args: tuple[Term, ...]) -> Term:
    x, e = args
    wide = cast(x, FLOAT32) if element.bits < 32 else x
    return cast(op("multiplies", wide, op("exp2", cast(e, wide.element))), element)


def _hypot(x: Term, y: Term) -> Term:
    a, b = op("abs", x), op("abs", y)
    large, small = op("max", a, b), op("min", a, b)
    ratio = op("divides", small, large)
    scaled = op("multiplies", large, op("sqrt", op("plus", _one(x), op("multiplies", ratio, ratio))))
    return choice(truth("eq", large, Number(0.0, x.element)), large, scaled)


def _q_multiply_shift_per_axis(element: Scalar, args: tuple[Term, ...]) -> Term:
    x, y, left, right, q, shifts_left, shifts_right = args
    wide, zero = cast(x, INT64), number(0, INT64)
    before = choice(cast(shifts_left, BOOL), op("shift_left", wide, cast(left, INT64)), wide)
    after = choice(cast(shifts_right, BOOL), op("neg", cast(right, INT64)), zero)
    return _q_multiply_shift(element, (before, y, q, after))


_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def _nextafter(element: Scalar, args: tuple[Term, ...]) -> Term:
    """The float beside x in the direction of y, counted in bits: comparisons of floats may take subnormals for 0."""
    if element.name not in _INFINITY:
        raise NotImplementedError(f"the {element.name} beside another")
    signed = SCALARS[f"int{element.bits}"]
    zero, one, lowest = number(0, signed), number(1, signed), number(1 << (element.bits - 1), signed)

    def mirrored(bits: Term) -> Term:
        """Bits of floats to integers in the order of the floats, and back; both zeros are 0."""
        return choice(truth("less", bits, zero), op("minus", lowest, bits), bits)

    x, y = (op("bitcast", arg, element=signed) for arg in args)
    a, b = mirrored(x), mirrored(y)
    moved = choice(truth("less", a, b), op("plus", a, one), op("minus", a, one))
    # What rises to 0 from below keeps its sign.
    risen = both(truth("eq", moved, zero), truth("less", a, zero))
    found = choice(truth("eq", a, b), y, choice(risen, lowest, mirrored(moved)))
    limit = number(_INFINITY[element.name], signed)
    wrong = [truth("greater", op("max", place, op("neg", place)), limit) for place in (a, b)]
    infinity = _INFINITY[element.name]
    nan = number(infinity | infinity >> 1, signed)
    return op("bitcast", choice(Op("or", (wrong[0], wrong[1]), BOOL), nan, found), element=element)


INTRINSICS: dict[str, Make] = {
    **{name: _plain(name) for name in ("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erf")},
    **{name: _plain(name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": _plain(f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": _plain("arctan2"),
    "fmod": _plain("rem"),
    "hypot": _wide(_hypot),
    "copysign": _wide(_copysign),
    "exp10": _wide(_exp10),
    "sigmoid": _wide(_sigmoid),
    "fma": _wide(_fma),
    "fabs": lambda element, args: op("abs", args[0]),
    "pow": _power,
    "ldexp": _ldexp,
    "nextafter": _nextafter,
    "round": _integral("round"),
    "nearbyint": _integral("round"),
    "floor": _integral("floor"),
    "ceil": _integral("ceil"),
    "trunc": _integral("trunc"),
    "isnan": _test("isnan", False),
    "isinf": _test("isinf", False),
    "isfinite": _test("isfinite", True),
    "popcount": lambda element, args: cast(op("popcount", args[0]), element),
    "clz": lambda element, args: cast(op("clz", args[0]), element),
    "bitwise_and": lambda element, args: op("and" if element == BOOL else "bit_and", *args),
    "bitwise_or": lambda element, args: op("or" if element == BOOL else "bit_or", *args),
    "bitwise_xor": lambda element, args: op("xor" if element == BOOL else "bit_xor", *args),
    "bitwise_not": lambda element, args: op("not" if element == BOOL else "bit_not", *args),
    "shift_left": _shift("shift_left"),
    "shift_right": _shift("shift_right"),
    "q_multiply_shift": _q_multiply_shift,
    "q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
    "likely": lambda element, args: args[0],
    "tvm_thread_invariant": lambda element, args: args[0],
    "ignore_loop_partition": lambda element, args: args[0],
    "assume": lambda element, args: Number(True, BOOL),
    "undef": lambda element, args: number(0, element),
    "type_annotation": lambda element, args: number(0, element),
    "reinterpret": lambda element, args: op("bitcast", args[0], element=element),
}
"""By name of the builtin: from the element of the call and its arguments to a term."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The rows of an operator: for integers, floats and truth values."""

    integer: str
    real: str
    truth: str


ARITHMETIC = {
    "Add": Arithmetic("plus", "plus", "xor"),
    "Sub": Arithmetic("minus", "minus", "xor"),
    "Mul": Arithmetic("multiplies", "multiplies", "and"),
    "Min": Arithmetic("min", "min", "and"),
    "Max": Arithmetic("max", "max", "or"),
    "Mod": Arithmetic("rem", "rem", ""),
    "Div": Arithmetic("divides", "divides", "and"),
    "FloorDiv": Arithmetic("floordiv", "", "and"),
    "FloorMod": Arithmetic("mod", "", ""),
}
COMPARISONS = {
    "EQ": "eq",
    "NE": "not_eq",
    "LT": "less",
    "LE": "less_equal",
    "GT": "greater",
    "GE": "greater_equal",
}


def binary(kind: str, a: Term, b: Term) -> Term:
    """An arithmetic operator of TIR on two values of one type."""
    row = ARITHMETIC[kind]
    element = a.element
    if element == BOOL:
        return both(a, Number(False, BOOL)) if not row.truth else op(row.truth, a, b)
    if element.is_float:
        if kind == "FloorDiv":
            return op("floor", op("divides", a, b))
        if kind == "FloorMod":
            return op("minus", a, op("multiplies", op("floor", op("divides", a, b)), b))
        if kind in ("Max", "Min"):
            # TIR compares and selects, which drops a NaN on the left
            return choice(truth("greater" if kind == "Max" else "less", a, b), a, b)
        return op(row.real, a, b)
    if kind in ("Div", "Mod", "FloorDiv", "FloorMod"):
        return quotient(row.integer, a, b)
    return op(row.integer, a, b)


def comparison(kind: str, a: Term, b: Term) -> Term:
    if a.element == BOOL and kind not in ("EQ", "NE"):
        a, b = cast(a, INT32), cast(b, INT32)
    return truth(COMPARISONS[kind], a, b)
