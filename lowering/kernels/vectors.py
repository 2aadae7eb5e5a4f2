"""Instructions of LLVM on vectors of columns: an element for each column of a block, operation by operation.

Floats are added and multiplied as XLA does on CPUs: products may be contracted with sums where that is asked for, and
nothing is reordered.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOAT = {"float32": "float", "float64": "double"}
LIBRARY = frozenset([
    "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "cbrt", "pow",
])  # fmt: skip
"""Functions of the C library."""
COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
SAME = frozenset(["stop_gradient", "copy", "copy_p", "pvary"])


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value: an element for each column of a block."""

    name: str
    element: str


@dataclass(eq=False)
class Vectors:
    """The text of a function while it is made, whose vectors have as many elements as a block has columns."""

    lanes: int
    contracted: bool = True
    """Products may be contracted with sums."""
    lines: list[str] = field(default_factory=list[str])
    declared: dict[str, None] = field(default_factory=lambda: {"declare i64 @llvm.smin.i64(i64, i64)": None})
    known: dict[str, str] = field(default_factory=dict[str, str])
    """Names by what they are, where that was computed already."""
    count: int = 0

    def put(self, text: str, fresh: bool = False) -> str:
        """The name of the value of an instruction; the same text is emitted once, unless `fresh`."""
        if fresh or text not in self.known:
            self.count += 1
            self.lines.append(f"  %v{self.count} = {text}")
            if fresh:
                return f"%v{self.count}"
            self.known[text] = f"%v{self.count}"
        return self.known[text]

    def call(self, result: str, name: str, *arguments: str) -> str:
        """The name of the result of a call, which is declared and emitted; empty for `void`. Arguments are written
        with their types.
        """
        kinds = ", ".join(_type_of(a) for a in arguments)
        self.declared[f"declare {result} @{name}({kinds})"] = None
        if result == "void":
            self.lines.append(f"  call void @{name}({', '.join(arguments)})")
            return ""
        return self.put(f"call {result} @{name}({', '.join(arguments)})")

    def vector(self, kind: str) -> str:
        return f"<{self.lanes} x {kind}>"

    def splat(self, kind: str, name: str) -> str:
        """A vector with one scalar in all lanes; a literal is written out, a named value is shuffled."""
        if not name.startswith("%"):
            return f"<{', '.join([f'{kind} {name}'] * self.lanes)}>"
        one = self.put(f"insertelement {self.vector(kind)} poison, {kind} {name}, i64 0")
        return self.put(
            f"shufflevector {self.vector(kind)} {one}, {self.vector(kind)} poison, {self.vector('i32')} zeroinitializer"
        )

    def least(self, a: str, b: str | int) -> str:
        return self.call("i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    def loaded(self, kind: str, pointer: str, element: str) -> str:
        """The text of a load of one element, or a vector; no two of them are the same."""
        return self.put(f"load {kind}, ptr {pointer}, align {np.dtype(element).itemsize}", fresh=True)

    def store(self, kind: str, name: str, pointer: str, element: str) -> None:
        self.lines.append(f"  store {kind} {name}, ptr {pointer}, align {np.dtype(element).itemsize}")

    def gathered(self, names: Sequence[str], kind: str) -> str:
        """A vector of one scalar for each lane."""
        row = "poison"
        for k, name in enumerate(names):
            row = self.put(f"insertelement {self.vector(kind)} {row}, {kind} {name}, i64 {k}")
        return row

    def transposed(self, rows: list[str], kind: str) -> list[str]:
        """The columns of a square tile given by rows, by exchanging ever larger blocks of two rows."""
        side, rows, step = len(rows), list(rows), 1
        while step < side:
            for i in range(side):
                if i & step:
                    continue
                a, b = rows[i], rows[i + step]
                low = [k if not k & step else side + k - step for k in range(side)]
                high = [k + step if not k & step else side + k for k in range(side)]
                rows[i], rows[i + step] = (
                    self.put(
                        f"shufflevector {kind} {a}, {kind} {b}, <{side} x i32> <{', '.join(f'i32 {k}' for k in mask)}>"
                    )
                    for mask in (low, high)
                )
            step *= 2
        return rows

    def constant(self, value: Any, element: str) -> Lanes:
        return Lanes(self.splat(kind_of(element), _literal(value, element)), element)

    def select(self, condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """a in lanes where the condition holds, b elsewhere."""
        kind = self.vector(kind_of(a.element))
        return Lanes(
            self.put(f"select {self.vector('i1')} {condition.name}, {kind} {a.name}, {kind} {b.name}"), a.element
        )

    def operation(self, name: str, values: Sequence[Lanes], element: str, params: Mapping[str, Any]) -> Lanes:
        """The result, of type `element`, of the operation of a JAX primitive on vectors; `params` are those of its
        equation.
        """
        x, operand = values[0], values[0].element
        kind = self.vector(kind_of(operand))
        is_float, unsigned = operand in FLOAT, operand.startswith("u")
        names = ", ".join(v.name for v in values)

        def emit(text: str, element: str = element) -> Lanes:
            """The value of an instruction."""
            return Lanes(self.put(text), element)

        def again(name: str, *values: Lanes, **params: Any) -> Lanes:
            """The result of another primitive on vectors of one type."""
            return self.operation(name, values, values[0].element, params)

        def number(value: Any) -> Lanes:
            """A constant of the operands' type."""
            return self.constant(value, operand)

        match name:
            case _ if name in SAME:
                return x
            case "add" | "sub" | "mul" | "add_any":
                op = "add" if name == "add_any" else name
                return emit(
                    f"f{op}{' contract' * self.contracted} {kind} {names}" if is_float else f"{op} {kind} {names}"
                )
            case "neg":
                return emit(f"fneg {kind} {x.name}" if is_float else f"sub {kind} zeroinitializer, {x.name}")
            case "square":
                return again("mul", x, x)
            case "integer_pow":
                return self._power(x, params["y"])
            case "div" | "rem":
                return self._quotient(name, x, values[1])
            case "min" | "max":
                return self._intrinsic(f"{name}imum" if is_float else f"{'u' if unsigned else 's'}{name}", x, values[1])
            case "clamp":
                return again("min", again("max", x, values[1]), values[2])
            case "abs":
                if is_float:
                    return self._intrinsic("fabs", x)
                return x if unsigned else self._intrinsic("abs", x, flag="i1 false")
            case "sign":
                zero, one = number(0), number(1)
                if unsigned:
                    return self.select(emit(f"icmp eq {kind} {x.name}, zeroinitializer", "bool"), zero, one)
                if not is_float:
                    positive = emit(f"icmp sgt {kind} {x.name}, zeroinitializer", "bool")
                    negative = emit(f"icmp slt {kind} {x.name}, zeroinitializer", "bool")
                    return self.select(positive, one, self.select(negative, number(-1), zero))
                moves = emit(f"fcmp one {kind} {x.name}, zeroinitializer", "bool")
                return self.select(moves, self._intrinsic("copysign", one, x), x)
            case "and" | "or" | "xor":
                return emit(f"{name} {kind} {names}")
            case "not":
                return emit(
                    f"xor {kind} {x.name}, {self.splat(kind_of(operand), '-1' if operand != 'bool' else 'true')}"
                )
            case "shift_left" | "shift_right_logical" | "shift_right_arithmetic":
                return self._shifted(name, x, values[1])
            case "population_count":
                return self._intrinsic("ctpop", x)
            case "clz":
                return self._intrinsic("ctlz", x, flag="i1 false")
            case _ if name in COMPARISONS:
                if is_float:
                    return emit(f"fcmp {COMPARISONS[name]} {kind} {names}", "bool")
                sign = "" if name in ("eq", "ne") else "u" if unsigned or operand == "bool" else "s"
                return emit(f"icmp {sign}{name} {kind} {names}", "bool")
            case "select_n":
                return self.select(x, values[2], values[1])
            case "convert_element_type":
                return self.converted(x, element)
            case "bitcast_convert_type":
                if kind_of(operand) == kind_of(element):
                    return Lanes(x.name, element)
                return emit(f"bitcast {kind} {x.name} to {self.vector(kind_of(element))}")
            case "is_finite":
                size = self._intrinsic("fabs", x)
                return emit(f"fcmp olt {kind} {size.name}, {number(np.inf).name}", "bool")
            case "floor" | "ceil" | "sqrt":
                return self._intrinsic(name, x)
            case "round":
                return self._intrinsic("round" if int(params["rounding_method"]) == 0 else "roundeven", x)
            case "rsqrt":
                return again("div", number(1), self._intrinsic("sqrt", x))
            case "logistic":
                return again("div", number(1), again("add", number(1), again("exp", again("neg", x))))
            case _ if name in LIBRARY:
                return self._library(name, values)
            case _:
                raise AssertionError(name)

    def _intrinsic(self, name: str, *values: Lanes, flag: str = "") -> Lanes:
        """The result of an LLVM intrinsic on vectors; `flag` is a further scalar argument."""
        element = values[0].element
        kind = self.vector(kind_of(element))
        mangled = f"v{self.lanes}{'f' if element in FLOAT else 'i'}{np.dtype(element).itemsize * 8}"
        arguments = [f"{kind} {v.name}" for v in values] + ([flag] if flag else [])
        return Lanes(self.call(kind, f"llvm.{name}.{mangled}", *arguments), element)

    def _library(self, name: str, values: Sequence[Lanes]) -> Lanes:
        """The result of a C library function, called lane by lane."""
        element = values[0].element
        kind, function = kind_of(element), name if element == "float64" else f"{name}f"
        each_result: list[str] = []
        for k in range(self.lanes):
            scalars = [self.put(f"extractelement {self.vector(kind)} {v.name}, i64 {k}") for v in values]
            each_result.append(self.call(kind, function, *(f"{kind} {scalar}" for scalar in scalars)))
        return Lanes(self.gathered(each_result, kind), element)

    def _power(self, x: Lanes, exponent: int) -> Lanes:
        """x to a constant integer power, by repeated squaring in the order in which JAX does it."""
        power, remaining_exponent = None, abs(exponent)
        square = x
        while remaining_exponent:
            if remaining_exponent & 1:
                power = square if power is None else self.operation("mul", [power, square], x.element, {})
            remaining_exponent >>= 1
            if remaining_exponent:
                square = self.operation("mul", [square, square], x.element, {})
        power = power or self.constant(1, x.element)
        return power if exponent >= 0 else self._quotient("div", self.constant(1, x.element), power)

    def _quotient(self, name: str, x: Lanes, y: Lanes) -> Lanes:
        """The quotient ("div") or remainder ("rem"), with XLA's results for integers: x / 0 is -1 and x rem 0 is x.

        The least integer divided by -1 is itself, with remainder 0; the divisor is replaced by 1 in these lanes.
        """
        kind, element = self.vector(kind_of(x.element)), x.element
        if element in FLOAT:
            return Lanes(self.put(f"f{name} {kind} {x.name}, {y.name}"), element)
        sign = "u" if element.startswith("u") else "s"
        zero_constant, one = self.constant(0, element), self.constant(1, element)
        divides_by_zero = Lanes(self.put(f"icmp eq {kind} {y.name}, {zero_constant.name}"), "bool")
        safe_divisor, overflow = self.select(divides_by_zero, one, y), None
        if sign == "s":
            minus = self.splat(kind_of(element), "-1")
            least = self.constant(np.iinfo(element).min, element)
            a = self.put(f"icmp eq {kind} {x.name}, {least.name}")
            b = self.put(f"icmp eq {kind} {y.name}, {minus}")
            overflow = Lanes(self.put(f"and {self.vector('i1')} {a}, {b}"), "bool")
            safe_divisor = self.select(overflow, one, safe_divisor)
        result = Lanes(self.put(f"{sign}{name} {kind} {x.name}, {safe_divisor.name}"), element)
        if name == "rem":
            return self.select(divides_by_zero, x, result)
        return self.select(divides_by_zero, Lanes(self.splat(kind_of(element), "-1"), element), result)

    def _shifted(self, name: str, x: Lanes, by: Lanes) -> Lanes:
        """A shift of bits; by the width of the type or more, the result is 0, or the sign bit everywhere for an
        arithmetic shift.
        """
        kind, bits = self.vector(kind_of(x.element)), np.dtype(x.element).itemsize * 8
        op = {"shift_left": "shl", "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr"}[name]
        greatest_shift = self.constant(bits - 1, x.element)
        is_in_range = Lanes(self.put(f"icmp ult {kind} {by.name}, {self.constant(bits, x.element).name}"), "bool")
        result = Lanes(
            self.put(f"{op} {kind} {x.name}, {self.select(is_in_range, by, greatest_shift).name}"), x.element
        )
        return result if op == "ashr" else self.select(is_in_range, result, self.constant(0, x.element))

    def converted(self, x: Lanes, element: str) -> Lanes:
        """The vector converted to another element type: floats saturate to integers, bools are 0 and 1, and nonzero
        is true.
        """
        old, new = kind_of(x.element), kind_of(element)
        kind, target = self.vector(old), self.vector(new)

        def emit(op: str) -> Lanes:
            """The value of a conversion instruction."""
            return Lanes(self.put(f"{op} {kind} {x.name} to {target}"), element)

        signed = not (x.element.startswith("u") or x.element == "bool")
        if element == x.element or (old == new and "bool" not in (element, x.element)):
            return Lanes(x.name, element)
        if element == "bool":
            return Lanes(
                self.put(f"{'fcmp une' if x.element in FLOAT else 'icmp ne'} {kind} {x.name}, zeroinitializer"), element
            )
        if x.element in FLOAT and element in FLOAT:
            return emit("fpext" if old == "float" else "fptrunc")
        if element in FLOAT:
            return emit("sitofp" if signed else "uitofp")
        if x.element in FLOAT:
            op = "fptoui" if element.startswith("u") else "fptosi"
            mangled = f"v{self.lanes}i{np.dtype(element).itemsize * 8}.v{self.lanes}f{np.dtype(x.element).itemsize * 8}"
            return Lanes(self.call(target, f"llvm.{op}.sat.{mangled}", f"{kind} {x.name}"), element)
        if x.element != "bool" and np.dtype(element).itemsize < np.dtype(x.element).itemsize:
            return emit("trunc")
        return emit("sext" if signed else "zext")


def kind_of(element: str) -> str:
    """The type of LLVM of an element in a register."""
    if element in FLOAT:
        return FLOAT[element]
    return "i1" if element == "bool" else f"i{np.dtype(element).itemsize * 8}"


def _type_of(argument: str) -> str:
    """The type of an argument as it is written, in front of its value."""
    return argument[: argument.index(">") + 1] if argument.startswith("<") else argument.split(" ")[0]


def memory_of(element: str) -> str:
    """The same in memory."""
    return "i8" if element == "bool" else kind_of(element)


def _literal(value: Any, element: str) -> str:
    """A number as LLVM writes it: floats by the hexadecimal bits of a double."""
    if element in FLOAT:
        return f"0x{struct.pack('>d', float(np.asarray(value, element))).hex().upper()}"
    if element == "bool":
        return "true" if value else "false"
    return str(int(np.asarray(value, element)))
