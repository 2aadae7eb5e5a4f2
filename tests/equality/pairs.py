"""Pairs of programs by kind, each with the level that it deserves: equal ones, and ones with a fault planted.

BITS, REALS and so on say what is proven or probable; WITHIN is for constants that are rounded otherwise.
"""

# ruff: noqa: E501
# A pair is one row.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorir as ti
from tensorir.equality.verdict import Level

__all__ = ["PAIRS", "Pair"]

BITS, NUMBERS, REALS, PROBABLY, WITHIN, DIFFERENT = (
    Level.BITS, Level.BITS_BUT_ZERO_AND_NAN, Level.REALS, Level.REALS_PROBABLY, Level.WITHIN, Level.DIFFERENT,
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two programs, which are made when they are asked for, and the least level that they deserve."""

    kind: str
    name: str
    one: Callable[[], Any]
    other: Callable[[], Any]
    level: Level


def point(value: str, element: str = "float32", n: int = 12) -> Callable[[], Any]:
    """A program of one array, point by point, with neighbours."""
    return lambda: ti.parse(
        f"f(y: tensor<{element}, I[0:{n}]>, x: tensor<{element}, I[-1:{n + 1}]>) {{ y ← {value}; }}"
    )


def two(value: str, result: str = "I[0:5], J[0:6]", element: str = "float32") -> Callable[[], Any]:
    """A program of two matrices."""
    return lambda: ti.parse(
        f"f(y: tensor<{element}, {result}>, a: tensor<{element}, I[0:5], K[0:8]>, "
        f"b: tensor<{element}, K[0:8], J[0:6]>) {{ y ← {value}; }}"
    )


def row(value: str, element: str = "float32", result: str = "I[0:4], J[0:7]") -> Callable[[], Any]:
    """A program of a matrix, row by row."""
    return lambda: ti.parse(
        f"f(y: tensor<{element}, {result}>, x: tensor<{element}, I[0:4], J[0:7]>) {{ y ← {value}; }}"
    )


def tir(body: str, *shapes: tuple[int, ...], element: str = "float32") -> Callable[[], Any]:
    """A kernel of TIR on arrays A, B, C of these shapes; the last is written."""
    params = ", ".join(f'{"ABCD"[k]}: T.Buffer({s}, "{element}")' for k, s in enumerate(shapes))
    text = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return lambda: ti.tir.parse(f"@T.prim_func\ndef main({params}):\n{text}\n")["main"]


def symbolic(body: str) -> Callable[[], Any]:
    """A kernel of TIR on two arrays of n elements."""
    text = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return lambda: ti.tir.parse(
        "@T.prim_func\ndef main(a: T.handle, b: T.handle):\n    n = T.int32()\n"
        '    A = T.match_buffer(a, (n,), "float32")\n    B = T.match_buffer(b, (n,), "float32")\n' + text + "\n"
    )["main"]


def integers(value: str, element: str = "int32") -> Callable[[], Any]:
    return lambda: ti.parse(
        f"f(y: tensor<{element}, I[0:9]>, x: tensor<{element}, I[0:9]>, z: tensor<{element}, I[0:9]>) {{ y ← {value}; }}"
    )


def ones(
    kind: str, make: Callable[..., Callable[[], Any]], *rows: tuple[str, str, str, Level], **more: Any
) -> list[Pair]:
    """Pairs that are made in one way."""
    return [Pair(kind, name, make(a, **more), make(b, **more), level) for name, a, b, level in rows]


DOT = "reduce(+, 0.0f, K)(a × b)"
MEAN = "reduce(+, 0.0f, J)(x) / 7.0f"
VARIANCE = f"reduce(+, 0.0f, J)((x - {MEAN}) × (x - {MEAN})) / 7.0f"
LARGEST = "reduce(max, float32(-inf), J)(x)"
SOFTMAX = f"exp(x - {LARGEST}) / reduce(+, 0.0f, J)(exp(x - {LARGEST}))"
ONLINE = """
let s = reduce(λ(s: tensor<(float32, float32), I[0:4]>, e: tensor<float32, I[0:4]>) →
    let m = max(s[0], e); (m, s[1] × exp(s[0] - m) + exp(e - m)), (float32(-inf), 0.0f), J)(x);
exp(x - s[0]) / s[1]
"""
WELFORD = """
let s = reduce(λ(s: tensor<(float32, float32, float32), I[0:4]>, e: tensor<float32, I[0:4]>) →
    let n = s[0] + 1.0f; let d = e - s[1]; let m = s[1] + d / n; (n, m, s[2] + d × (e - m)), (0.0f, 0.0f, 0.0f), J)(x);
s[2] / 7.0f
"""
SUM_OF_TWO = "scan(λ(s: tensor<float32>, e: tensor<float32>) → s + e, true, 0.0f)(x)"

POINTWISE = ones(
    "pointwise", point,
    ("a sum's order", "x × 2.0f + tanh(x)", "tanh(x) + 2.0f × x", BITS),
    ("twice", "x + x", "2.0f × x", REALS),
    ("difference of squares", "x × x - 1.0f", "(x - 1.0f) × (x + 1.0f)", REALS),
    ("a cube", "x × x × x", "x ** 3.0f", REALS),
    ("Horner's rule", "1.0f + x × (2.0f + x × 3.0f)", "1.0f + 2.0f × x + 3.0f × x × x", REALS),
    ("a quotient by a power of two", "x / 4.0f", "x × 0.25f", BITS),
    ("a quotient by three", "x / 3.0f", "x × 0.33333334f", WITHIN),
    ("scaled a little", "x × 0.0000001f", "x × 0.0000009f", DIFFERENT),
    ("scaled by a little more", "x × 2.0f", "x × 2.001f", DIFFERENT),
    ("an epsilon", "x / sqrt(x × x + 0.00001f)", "x / sqrt(x × x + 0.00001001f)", DIFFERENT),
    ("rsqrt", "1.0f / sqrt(x × x + 1.0f)", "rsqrt(1.0f + x × x)", REALS),
    ("a root of a product", "sqrt(x × x + 1.0f) × sqrt(x × x + 2.0f)", "sqrt((1.0f + x × x) × (2.0f + x × x))", PROBABLY),
    ("a root of a square is no identity", "sqrt(x × x)", "x", DIFFERENT),
    ("a root of a square", "sqrt(x × x)", "abs(x)", PROBABLY),
    ("relu", "max(x, 0.0f)", "if x > 0.0f then x else 0.0f", REALS),
    ("relu at its edge", "max(x, 0.0f)", "if x ≥ 0.0f then x else 0.0f", NUMBERS),
    ("what is masked out", "exp(x - float32(inf)) × x + x", "x × (exp(x - float32(inf)) + 1.0f)", REALS),
    ("a leak", "max(x, 0.0f)", "if x > 0.0f then x else 0.01f × x", DIFFERENT),
    ("sigmoid", "1.0f / (1.0f + exp(-x))", "0.5f × (1.0f + tanh(0.5f × x))", PROBABLY),
    ("sigmoid, another", "1.0f / (1.0f + exp(-x))", "exp(x) / (1.0f + exp(x))", REALS),
    ("silu without its product", "x / (1.0f + exp(-x))", "1.0f / (1.0f + exp(-x))", DIFFERENT),
    ("softplus", "log(exp(x) + 1.0f)", "max(x, 0.0f) + log1p(exp(-abs(x)))", PROBABLY),
    ("gelu", "0.5f × x × (1.0f + erf(x × 0.70710678f))", "x × 0.5f + x × 0.5f × erf(0.70710678f × x)", REALS),
    ("gelu by tanh", "0.5f × x × (1.0f + erf(x × 0.70710678f))",
     "0.5f × x × (1.0f + tanh(0.79788456f × (x + 0.044715f × x × x × x)))", DIFFERENT),
    ("exp2", "exp(x)", "exp2(x × 1.44269504f)", PROBABLY),
    ("exp2 of a scaled one", "exp(x × 0.125f)", "exp2(x × 0.18033688f)", PROBABLY),
    ("exp2 with a wrong constant", "exp(x)", "exp2(x × 1.4427f)", DIFFERENT),
    ("products of exponentials", "exp(x) × exp(⟪I, 1⟫(x))", "exp(x + ⟪I, 1⟫(x))", REALS),
    ("sinh", "sinh(x)", "(exp(x) - exp(-x)) × 0.5f", REALS),
    ("tan", "tan(x)", "sin(x) / cos(x)", REALS),
    ("sin is odd", "sin(-x)", "-sin(x)", REALS),
    ("cos is not odd", "cos(-x)", "-cos(x)", DIFFERENT),
    ("clamps", "min(max(x, -1.0f), 1.0f)", "max(min(x, 1.0f), -1.0f)", REALS),
    ("clamps with other bounds", "min(max(x, -1.0f), 1.0f)", "min(max(x, -1.0f), 1.5f)", DIFFERENT),
    ("one number alone", "x", "if x = 77.0f then 0.0f else x", DIFFERENT),
    ("two branches with one value", "if x > 0.5f then x + x else 2.0f × x", "x × 2.0f", REALS),
    ("negated conditions", "if x > 0.5f then x else 0.0f", "if x ≤ 0.5f then 0.0f else x", NUMBERS),
    ("nested conditions", "if x > 0.0f then (if x < 1.0f then x else 1.0f) else 0.0f",
     "if x > 0.0f ∧ x < 1.0f then x else (if x > 0.0f then 1.0f else 0.0f)", BITS),
    ("float16 on the way", "cast(cast(x, float16), float32)", "x", REALS),
    ("a fault beside float16", "cast(cast(x, float16) × float16(2.0), float32) × 1.01f",
     "cast(cast(x, float16) × float16(2.0), float32)", DIFFERENT),
)  # fmt: skip
INTEGERS = ones(
    "integers", integers,
    ("a product's order", "x × z + x", "x + z × x", BITS),
    ("a shift", "x × 8", "x << 3", BITS),
    ("a shift and a division", "floordiv(x, 4)", "x >> 2", BITS),
    ("another division", "x / 4", "x >> 2", DIFFERENT),
    ("distributed", "(x + z) × 3", "x × 3 + z × 3", BITS),
    ("a bound at the end of the type", "x", "max(x, -2147483647)", DIFFERENT),
    ("sums in another order", "(x + z) + 7", "x + (7 + z)", BITS),
    ("a remainder", "x - floordiv(x, 8) × 8", "mod(x, 8)", BITS),
    ("remainders of another sign", "rem(x, 8)", "mod(x, 8)", DIFFERENT),
) + ones(
    "narrow integers", integers,
    ("products that wrap", "x × z × int16(3)", "z × (int16(3) × x)", BITS),
    ("products cut at 0", "x × z", "max(x × z, int16(0))", DIFFERENT),
    element="int16",
)  # fmt: skip
INTEGERS += ones(
    "bits of integers", integers,
    ("a mask of bits and a remainder", "x & 7", "mod(x, 8)", BITS),
    ("shifts one after the other", "(x >> 1) >> 2", "floordiv(x, 8)", BITS),
    ("a mask of other bits", "x & 6", "mod(x, 7)", DIFFERENT),
    ("multiples by shifts", "(x << 3) - x", "7 × x", BITS),
    ("conditions on whole numbers", "if x > 3 ∧ z > 0 then x + z else x", "if z ≥ 1 then (if x ≥ 4 then z + x else x) else x", BITS),
    ("conditions that leave a number out", "if x > 3 then x else z", "if x ≥ 3 then x else z", DIFFERENT),
    ("the smaller one", "min(x, z)", "if x < z then x else z", BITS),
    ("a distance", "max(x, z) - min(x, z)", "if x > z then x - z else z - x", BITS),
    ("a distance by abs", "max(x, z) - min(x, z)", "abs(x - z)", DIFFERENT),
)  # fmt: skip
WIDE = "cast((cast(x, int64) × int64({})) >> int64({}), int32)"
INTEGERS += ones(
    "tricks with bits", integers,
    ("a sum by its carries", "(x ^ z) + 2 × (x & z)", "x + z", BITS),
    ("a difference by its borrows", "(x ^ z) - ((~x & z) << 1)", "x - z", BITS),
    ("a sum by carries that stay", "(x ^ z) + (x & z)", "x + z", DIFFERENT),
    ("a mean without overflow", "(x & z) + ((x ^ z) >> 1)", "cast((cast(x, int64) + cast(z, int64)) >> int64(1), int32)", BITS),
    ("a mean that overflows", "(x & z) + ((x ^ z) >> 1)", "(x + z) >> 1", DIFFERENT),
    ("abs by a mask", "(x ^ (x >> 31)) - (x >> 31)", "abs(x)", BITS),
    ("abs by a mask one bit lower", "(x ^ (x >> 30)) - (x >> 30)", "abs(x)", DIFFERENT),
    ("the smaller one by a mask", "z ^ ((x ^ z) & -cast(x < z, int32))", "min(x, z)", BITS),
    ("the smaller one by the sign of a difference", "z + ((x - z) & ((x - z) >> 31))", "min(x, z)", DIFFERENT),
    ("exchanged by xor", "(x ^ z) ^ x", "z", BITS),
    ("a complement", "~x + 1", "-x", BITS),
    ("up to a multiple", "(x + 7) & -8", "floordiv(x + 7, 8) × 8", BITS),
    ("powers of two", "if x > 0 ∧ (x & (x - 1)) = 0 then 1 else 0", "if x > 0 ∧ popcount(x) = 1 then 1 else 0", BITS),
    ("powers of two and zero", "if (x & (x - 1)) = 0 then 1 else 0", "if popcount(x) = 1 then 1 else 0", DIFFERENT),
    ("a third by a product", WIDE.format(1431655766, 32) + " - (x >> 31)", "x / 3", BITS),
    ("a third by a product one less", WIDE.format(1431655765, 32) + " - (x >> 31)", "x / 3", DIFFERENT),
    ("a tenth by a short product", WIDE.format(52429, 19), "floordiv(x, 10)", DIFFERENT),
    ("a tenth by a short product, of half a word", WIDE.format(52429, 19).replace("x,", "x & 65535,"), "(x & 65535) / 10", BITS),
    ("a quotient and its remainder", "floordiv(x, z) × z + mod(x, z)", "x", BITS),
    ("a remainder by what data tell", "x - x / z × z", "rem(x, z)", BITS),
    ("a remainder of another sign", "x - x / z × z", "mod(x, z)", DIFFERENT),
    ("conditions that exclude one another", "if x < z ∧ z < x then 7 else x", "x", BITS),
    ("conditions that leave one out", "if x ≤ z ∧ z ≤ x then 7 else x", "x", DIFFERENT),
    ("no square", "if x × x = 3 then z else x", "x", BITS),
    ("a square that wraps", "if x × x = 17 then z else x", "x", DIFFERENT),
)  # fmt: skip
STENCILS = ones(
    "stencils", point,
    ("a Laplacian's order", "⟪I, 1⟫(x) + ⟪I, -1⟫(x) - 2.0f × x", "(⟪I, 1⟫(x) - x) + (⟪I, -1⟫(x) - x)", REALS),
    ("a Laplacian one point further", "⟪I, 1⟫(x) + ⟪I, -1⟫(x) - 2.0f × x", "⟪I, 1⟫(x) + x - 2.0f × x", DIFFERENT),
    ("differences of fluxes", "⟪I, 1⟫(x) × ⟪I, 1⟫(x) - x × x", "(⟪I, 1⟫(x) - x) × (⟪I, 1⟫(x) + x)", REALS),
    ("the first points", "if pos(I, x) < 3 then x else 0.0f × x", "if pos(I, x) < 4 then x else 0.0f × x", DIFFERENT),
    ("the first points by joining", "if pos(I, x) < 3 then x else 2.0f × x",
     "concat(subset(x, I[-1:3]), subset(2.0f × x, I[3:13]))", BITS),
    ("joined one point later", "if pos(I, x) < 3 then x else 2.0f × x",
     "concat(subset(x, I[-1:4]), subset(2.0f × x, I[4:13]))", DIFFERENT),
    ("shifts of sums", "⟪I, 1⟫(x + ⟪I, -1⟫(x))", "⟪I, 1⟫(x) + x", BITS),
    ("upwind", "if x > 0.0f then x × (x - ⟪I, -1⟫(x)) else x × (⟪I, 1⟫(x) - x)",
     "max(x, 0.0f) × (x - ⟪I, -1⟫(x)) + min(x, 0.0f) × (⟪I, 1⟫(x) - x)", REALS),
    ("upwind from the other side", "if x > 0.0f then x × (x - ⟪I, -1⟫(x)) else x × (⟪I, 1⟫(x) - x)",
     "max(x, 0.0f) × (⟪I, 1⟫(x) - x) + min(x, 0.0f) × (x - ⟪I, -1⟫(x))", DIFFERENT),
    ("a limiter", "max(0.0f, min(x, ⟪I, 1⟫(x)))", "if x < ⟪I, 1⟫(x) then max(x, 0.0f) else max(⟪I, 1⟫(x), 0.0f)", REALS),
)  # fmt: skip
STENCILS += ones(
    "parts and conditions", point,
    ("a part put in place", "update(x, subset(2.0f × x, I[3:6]))", "if pos(I, x) ≥ 3 ∧ pos(I, x) < 6 then 2.0f × x else x", BITS),
    ("a part put in place, one point off", "update(x, subset(2.0f × x, I[3:6]))", "if pos(I, x) ≥ 3 ∧ pos(I, x) ≤ 6 then 2.0f × x else x", DIFFERENT),
    ("joined of three", "concat(subset(x, I[-1:2]), subset(-x, I[2:5]), subset(x, I[5:13]))",
     "if pos(I, x) < 2 ∨ pos(I, x) > 4 then x else -x", BITS),
    ("zeros around", "gather(I, zero)(x, pos(I, x) + 1)", "concat(subset(⟪I, 1⟫(x), I[-1:12]), add_dim(I, 12, 13, 0.0f))", BITS),
    ("zeros around, one further", "gather(I, zero)(x, pos(I, x) + 1)", "concat(subset(⟪I, 1⟫(x), I[-1:11]), add_dim(I, 11, 13, 0.0f))", DIFFERENT),
    ("conditions inside of conditions", "if pos(I, x) < 4 then (if x > 0.0f then x else tanh(x)) else x",
     "if x > 0.0f ∨ pos(I, x) ≥ 4 then x else tanh(x)", BITS),
    ("a sign", "if x > 0.0f then 1.0f else (if x < 0.0f then -1.0f else 0.0f)", "if x < 0.0f then -1.0f else (if x > 0.0f then 1.0f else 0.0f)", BITS),
    ("a sign at 0", "if x > 0.0f then 1.0f else (if x < 0.0f then -1.0f else 0.0f)", "if x < 0.0f then -1.0f else 1.0f", DIFFERENT),
    ("a median", "max(min(x, ⟪I, 1⟫(x)), min(max(x, ⟪I, 1⟫(x)), 0.5f))", "min(max(min(x, ⟪I, 1⟫(x)), 0.5f), max(x, ⟪I, 1⟫(x)))", REALS),
    ("a square by its sign", "x × abs(x)", "if x < 0.0f then -(x × x) else x × x", REALS),
    ("the larger one of a sum", "max(x + 1.0f, 2.0f × x)", "x + max(1.0f, x)", REALS),
    ("guarded by what it divides by", "if x > 0.5f then 1.0f / x else 0.0f", "if 2.0f × x > 1.0f then 1.0f / x else 0.0f", REALS),
)  # fmt: skip
BEFORE, AFTER = "⟪I, -1⟫(x)", "⟪I, 1⟫(x)"
MEDIAN = f"max(min({BEFORE}, x), min(max({BEFORE}, x), {AFTER}))"
BY_CASES = (
    f"if {BEFORE} < x then (if x < {AFTER} then x else (if {BEFORE} < {AFTER} then {AFTER} else {BEFORE}))"
    f" else (if {BEFORE} < {AFTER} then {BEFORE} else (if x < {AFTER} then {AFTER} else x))"
)
STENCILS += [
    Pair("conditions on several polynomials", name, point(a, n=3), point(b, n=3), level)
    for name, a, b, level in (
        ("a median of three", MEDIAN, BY_CASES, REALS),
        ("a median of three, otherwise", MEDIAN, f"min(max({BEFORE}, x), max(min({BEFORE}, x), {AFTER}))", REALS),
        ("a median of three, one case wrong", MEDIAN, BY_CASES.replace(f"else {BEFORE})", "else x)"), DIFFERENT),
        ("a sum of three in order", f"min(min({BEFORE}, x), {AFTER}) + {MEDIAN} + max(max({BEFORE}, x), {AFTER})", f"{BEFORE} + x + {AFTER}", REALS),
        ("clamps in clamps", "min(max(min(max(x, -2.0f), 2.0f), -1.0f), 1.0f)", "max(min(x, 1.0f), -1.0f)", REALS),
        ("clamps by data", f"min(max(x, {BEFORE}), max({BEFORE}, {AFTER}))", f"max(min(x, max({BEFORE}, {AFTER})), {BEFORE})", REALS),
        ("clamps by data that may cross", f"min(max(x, {BEFORE}), {AFTER})", f"max(min(x, {AFTER}), {BEFORE})", DIFFERENT),
        ("a minmod limiter", f"if x × {AFTER} > 0.0f then (if abs(x) < abs({AFTER}) then x else {AFTER}) else 0.0f",
         f"max(0.0f, min(x, {AFTER})) + min(0.0f, max(x, {AFTER}))", REALS),
        ("what is never negative", "if x × x + 1.0f > 0.0f then x else -x", "x", REALS),
    )
]  # fmt: skip


def sorted_by(*exchanges: tuple[int, int]) -> Callable[[], Any]:
    """A sorting network of as many numbers as it names."""
    wires = "abcd"[: 1 + max(map(max, exchanges))]
    steps, now = "", list(wires)
    for k, (i, j) in enumerate(exchanges):
        steps += f"let l{k} = min({now[i]}, {now[j]}); let h{k} = max({now[i]}, {now[j]}); "
        now[i], now[j] = f"l{k}", f"h{k}"
    params = ", ".join(f"{w}: tensor<float32>" for w in wires)
    outputs = ", ".join(f"y{k}: tensor<float32>" for k in range(len(wires)))
    stores = " ".join(f"y{k} ← {e};" for k, e in enumerate(now))
    return lambda: ti.parse(f"f({outputs}, {params}) {{ {steps}{stores} }}")


BUBBLES = sorted_by((0, 1), (1, 2), (2, 3), (0, 1), (1, 2), (0, 1))
STENCILS += [
    Pair("sorting networks", name, a, b, level)
    for name, a, b, level in (
        ("of three", sorted_by((0, 1), (1, 2), (0, 1)), sorted_by((1, 2), (0, 2), (0, 1)), REALS),
        ("of three that does not sort", sorted_by((0, 1), (1, 2), (0, 1)), sorted_by((1, 2), (0, 2), (1, 2)), DIFFERENT),
        ("of four", sorted_by((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)), BUBBLES, REALS),
        ("of four, odd and even", sorted_by((0, 1), (2, 3), (1, 2), (0, 1), (2, 3), (1, 2)), BUBBLES, REALS),
        ("of four without the last", sorted_by((0, 1), (2, 3), (0, 2), (1, 3)), BUBBLES, DIFFERENT),
    )
]  # fmt: skip
PRODUCTS = ones(
    "products of matrices", two,
    ("factors in another order", DOT, "reduce(+, 0.0f, K)(b × a)", REALS),
    ("split in two", DOT, "reduce(+, 0.0f, K)(subset(a × b, K[0:3])) + reduce(+, 0.0f, K)(subset(a × b, K[3:8]))", REALS),
    ("split in two with a hole", DOT, "reduce(+, 0.0f, K)(subset(a × b, K[0:3])) + reduce(+, 0.0f, K)(subset(a × b, K[4:8]))", DIFFERENT),
    ("in chunks", DOT, "reduce(+, 0.0f, K)(reduce(+, 0.0f, L)(split_dim(K, K, L, 4)(a) × split_dim(K, K, L, 4)(b)))", REALS),
    ("a scaled factor", f"2.0f × {DOT}", "reduce(+, 0.0f, K)(2.0f × a × b)", REALS),
    ("scaled twice", f"2.0f × {DOT}", "reduce(+, 0.0f, K)(2.0f × a × 2.0f × b)", DIFFERENT),
    ("a bias first", f"{DOT} + 1.0f", "reduce(+, 1.0f, K)(a × b)", REALS),
    ("maxima in place of sums", DOT, "reduce(max, 0.0f, K)(a × b)", DIFFERENT),
    ("backwards", DOT, "reduce(λ(s: tensor<float32, I[0:5], J[0:6]>, e: tensor<float32, I[0:5], J[0:6]>) → e + s, "
     "0.0f, K)(a × b)", REALS),
)  # fmt: skip
NORMS = ones(
    "softmax and norms", row,
    ("softmax", SOFTMAX, "exp(x) / reduce(+, 0.0f, J)(exp(x))", REALS),
    ("online softmax", SOFTMAX, ONLINE, REALS),
    ("softmax with a sum that is infinite", SOFTMAX, SOFTMAX[::-1].replace("xam", "nim", 1)[::-1], DIFFERENT),
    ("online softmax without rescaling", SOFTMAX, ONLINE.replace("s[1] × exp(s[0] - m)", "s[1]"), DIFFERENT),
    ("softmax by exp2", SOFTMAX, SOFTMAX.replace(f"exp(x - {LARGEST})", f"exp2(1.44269504f × (x - {LARGEST}))"), PROBABLY),
    ("log softmax", f"x - {LARGEST} - log(reduce(+, 0.0f, J)(exp(x - {LARGEST})))", "x - log(reduce(+, 0.0f, J)(exp(x)))", PROBABLY),
    ("log softmax of sums", "x - log(reduce(+, 0.0f, J)(exp(x)))", "x - reduce(+, 0.0f, J)(x)", DIFFERENT),
    ("a variance by moments", VARIANCE, f"reduce(+, 0.0f, J)(x × x) / 7.0f - {MEAN} × {MEAN}", REALS),
    ("Welford's variance", VARIANCE, WELFORD, REALS),
    ("a variance with another divisor", VARIANCE, VARIANCE[:-4] + "6.0f", DIFFERENT),
    ("a layer norm", f"(x - {MEAN}) / sqrt({VARIANCE} + 0.001f)", f"(x - {MEAN}) × rsqrt({VARIANCE} + 0.001f)", REALS),
    ("a layer norm with another epsilon", f"(x - {MEAN}) / sqrt({VARIANCE} + 0.00001f)", f"(x - {MEAN}) / sqrt({VARIANCE} + 0.00001001f)", DIFFERENT),
    ("an rms norm", "x / sqrt(reduce(+, 0.0f, J)(x × x) / 7.0f)", "x × rsqrt(reduce(+, 0.0f, J)(x × x) / 7.0f)", REALS),
    ("a root too few", "x / sqrt(reduce(+, 0.0f, J)(x × x) / 7.0f)", "x / (reduce(+, 0.0f, J)(x × x) / 7.0f)", DIFFERENT),
)  # fmt: skip
FOLDS = ones(
    "folds", row,
    ("a sum of parts", "reduce(+, 0.0f, J)(x)",
     "reduce(+, 0.0f, J)(subset(x, J[0:3])) + reduce(+, 0.0f, J)(subset(x, J[3:7]))", REALS),
    ("a sum from its end", "reduce(+, 0.0f, J)(x)",
     "reduce(λ(s: tensor<float32, I[0:4]>, e: tensor<float32, I[0:4]>) → e + s, 0.0f, J)(x)", REALS),
    ("a sum that leaves the last out", "reduce(+, 0.0f, J)(x)", "reduce(+, 0.0f, J)(subset(x, J[0:6]))", DIFFERENT),
    ("a maximum of maxima", LARGEST,
     "max(reduce(max, float32(-inf), J)(subset(x, J[0:5])), reduce(max, float32(-inf), J)(subset(x, J[2:7])))", REALS),
    ("a maximum that starts at 0", LARGEST, "reduce(max, 0.0f, J)(x)", DIFFERENT),
    ("a maximum that starts low", LARGEST, "reduce(max, -3.0e38f, J)(x)", REALS),
    ("a mean", MEAN, "reduce(+, 0.0f, J)(x × 0.14285715f)", WITHIN),
    ("a norm", "sqrt(reduce(+, 0.0f, J)(x × x))", "sqrt(reduce(+, 0.0f, J)(abs(x) × abs(x)))", REALS),
    result="I[0:4]",
)  # fmt: skip
RUNNING = "scan(λ(s: tensor<float32>, e: tensor<float32>) → s + e, true, 0.0f)(subset(x, I[0:12]))"
SCANS = ones(
    "scans", point,
    ("a running sum", RUNNING, RUNNING.replace("s + e", "e + s"), BITS),
    ("twice a running sum", f"2.0f × {RUNNING}", RUNNING.replace("s + e", "s + 2.0f × e"), REALS),
    ("one that decays", RUNNING, RUNNING.replace("s + e", "0.99f × s + e"), DIFFERENT),
    ("one from 1", RUNNING, RUNNING.replace("0.0f", "1.0f"), DIFFERENT),
    ("one backwards", RUNNING, RUNNING.replace("true", "false"), DIFFERENT),
    ("a recurrence with a factor outside", RUNNING.replace("s + e", "0.5f × s + e"),
     "4.0f × " + RUNNING.replace("s + e", "0.5f × s + 0.25f × e"), REALS),
    ("a running maximum", RUNNING.replace("s + e", "max(s, e)"),
     RUNNING.replace("s + e", "if e > s then e else s"), REALS),
)  # fmt: skip
MATMUL = """
for i, j in T.grid(6, 8):
    C[i, j] = T.float32(0)
    for k in range(12):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
SHAPES = ((6, 12), (12, 8), (6, 8))
SUMS = """
for i in range(8):
    B[i] = T.float32(0)
    for j in range(6):
        B[i] = B[i] + A[i, j]
"""
COPY = """
for i in range(16):
    B[i] = A[i] * T.float32(2)
"""


def kernels(kind: str, shapes: tuple[tuple[int, ...], ...], *rows: tuple[str, str, str, Level]) -> list[Pair]:
    return [Pair(kind, name, tir(a, *shapes), tir(b, *shapes), level) for name, a, b, level in rows]


SCHEDULES = kernels(
    "schedules", SHAPES,
    ("loops in another order", MATMUL, """
for i, j in T.grid(6, 8):
    C[i, j] = T.float32(0)
for k, i, j in T.grid(12, 6, 8):
    C[i, j] = C[i, j] + A[i, k] * B[k, j]
""", BITS),
    ("tiles", MATMUL, """
for io, jo, ii, ji in T.grid(3, 2, 2, 4):
    C[io * 2 + ii, jo * 4 + ji] = T.float32(0)
    for ko, ki in T.grid(3, 4):
        C[io * 2 + ii, jo * 4 + ji] = C[io * 2 + ii, jo * 4 + ji] + A[io * 2 + ii, ko * 4 + ki] * B[ko * 4 + ki, jo * 4 + ji]
""", BITS),
    ("tiles that miss a row", MATMUL, MATMUL.replace("T.grid(6, 8)", "T.grid(5, 8)") + """
for j in range(8):
    C[5, j] = T.float32(0)
""", DIFFERENT),
    ("split along the sum", MATMUL, """
D = T.alloc_buffer((2, 6, 8), "float32")
for s, i, j in T.grid(2, 6, 8):
    D[s, i, j] = T.float32(0)
    for k in range(6):
        D[s, i, j] = D[s, i, j] + A[i, s * 6 + k] * B[s * 6 + k, j]
for i, j in T.grid(6, 8):
    C[i, j] = D[0, i, j] + D[1, i, j]
""", REALS),
    ("split along the sum, one part twice", MATMUL, """
D = T.alloc_buffer((2, 6, 8), "float32")
for s, i, j in T.grid(2, 6, 8):
    D[s, i, j] = T.float32(0)
    for k in range(6):
        D[s, i, j] = D[s, i, j] + A[i, s * 6 + k] * B[s * 6 + k, j]
for i, j in T.grid(6, 8):
    C[i, j] = D[0, i, j] + D[0, i, j]
""", DIFFERENT),
    ("a transposed factor", MATMUL, MATMUL.replace("A[i, k] * B[k, j]", "B[k, j] * A[i, k]"), BITS),
    ("a sum that starts at 1", MATMUL, MATMUL.replace("T.float32(0)", "T.float32(1)"), DIFFERENT),
    ("a sum that leaves the last out", MATMUL, MATMUL.replace("range(12)", "range(11)"), DIFFERENT),
) + kernels(
    "reductions", ((8, 6), (8,)),
    ("columns backwards", SUMS, SUMS.replace("A[i, j]", "A[i, 5 - j]"), REALS),
    ("pairs", SUMS, """
for i in range(8):
    B[i] = T.float32(0)
    for j in range(3):
        B[i] = B[i] + (A[i, 2 * j] + A[i, 2 * j + 1])
""", REALS),
    ("pairs with one twice", SUMS, """
for i in range(8):
    B[i] = T.float32(0)
    for j in range(3):
        B[i] = B[i] + (A[i, 2 * j] + A[i, 2 * j])
""", DIFFERENT),
    ("rows in place of columns", SUMS, SUMS.replace("A[i, j]", "A[j, i % 6]"), DIFFERENT),
    ("two accumulators", SUMS, """
C = T.alloc_buffer((2, 8), "float32")
for p, i in T.grid(2, 8):
    C[p, i] = T.float32(0)
    for j in range(3):
        C[p, i] = C[p, i] + A[i, j * 2 + p]
for i in range(8):
    B[i] = C[0, i] + C[1, i]
""", REALS),
) + kernels(
    "copies and guards", ((16,), (16,)),
    ("blocks of 4", COPY, """
for a, b in T.grid(4, 4):
    B[a * 4 + b] = A[a * 4 + b] * T.float32(2)
""", BITS),
    ("blocks of 5 with a guard", COPY, """
for a, b in T.grid(4, 5):
    if a * 5 + b < 16:
        B[a * 5 + b] = A[a * 5 + b] * T.float32(2)
""", BITS),
    ("blocks of 5 with a guard that is too tight", COPY, """
for i in range(16):
    B[i] = T.float32(0)
for a, b in T.grid(4, 5):
    if a * 5 + b < 15:
        B[a * 5 + b] = A[a * 5 + b] * T.float32(2)
""", DIFFERENT),
    ("from the end", COPY, COPY.replace("B[i] = A[i]", "B[15 - i] = A[15 - i]"), BITS),
    ("turned around", COPY, COPY.replace("A[i]", "A[15 - i]"), DIFFERENT),
    ("through a buffer", COPY, """
C = T.alloc_buffer((16,), "float32")
for i in range(16):
    C[i] = A[i] + A[i]
for i in range(16):
    B[i] = C[i]
""", REALS),
    ("two branches", COPY, COPY.replace("A[i] * T.float32(2)", "T.if_then_else(i < 8, A[i] * T.float32(2), A[i] + A[i])"), REALS),
    ("a guard one further", COPY.replace("A[i] *", "T.if_then_else(i < 8, A[i], T.float32(0)) *"),
     COPY.replace("A[i] *", "T.if_then_else(i < 9, A[i], T.float32(0)) *"), DIFFERENT),
    ("even ones", COPY.replace("A[i] *", "T.if_then_else(i % 2 == 0, A[i], T.float32(0)) *"),
     COPY.replace("A[i] *", "T.if_then_else(i // 2 * 2 == i, A[i], T.float32(0)) *"), BITS),
) + kernels(
    "transposes", ((4, 6), (6, 4)),
    ("by the other loop", "for i, j in T.grid(4, 6):\n    B[j, i] = A[i, j]", "for j, i in T.grid(6, 4):\n    B[j, i] = A[i, j]", BITS),
    ("tiles", "for i, j in T.grid(4, 6):\n    B[j, i] = A[i, j]",
     "for a, b, c, d in T.grid(2, 3, 2, 2):\n    B[b * 2 + d, a * 2 + c] = A[a * 2 + c, b * 2 + d]", BITS),
    ("flat", "for i, j in T.grid(4, 6):\n    B[j, i] = A[i, j]", "for k in range(24):\n    B[k % 6, k // 6] = A[k // 6, k % 6]", BITS),
    ("a reshape is none", "for i, j in T.grid(4, 6):\n    B[j, i] = A[i, j]",
     "for k in range(24):\n    B[k // 4, k % 4] = A[k // 6, k % 6]", DIFFERENT),
) + kernels(
    "convolutions", ((10,), (3,), (8,)),
    ("by window and by tap",
     "for i in range(8):\n    C[i] = A[i] * B[0] + A[i + 1] * B[1] + A[i + 2] * B[2]",
     "for i in range(8):\n    C[i] = T.float32(0)\n    for k in range(3):\n        C[i] = C[i] + A[i + k] * B[k]", REALS),
    ("with taps turned around",
     "for i in range(8):\n    C[i] = A[i] * B[0] + A[i + 1] * B[1] + A[i + 2] * B[2]",
     "for i in range(8):\n    C[i] = T.float32(0)\n    for k in range(3):\n        C[i] = C[i] + A[i + k] * B[2 - k]", DIFFERENT),
    ("Winograd's F(2, 3)",
     "for i in range(8):\n    C[i] = A[i] * B[0] + A[i + 1] * B[1] + A[i + 2] * B[2]", """
for t in range(4):
    C[2 * t] = (A[2 * t] - A[2 * t + 2]) * B[0] + (A[2 * t + 1] + A[2 * t + 2]) * ((B[0] + B[1] + B[2]) * T.float32(0.5)) + (A[2 * t + 2] - A[2 * t + 1]) * ((B[0] - B[1] + B[2]) * T.float32(0.5))
    C[2 * t + 1] = (A[2 * t + 1] + A[2 * t + 2]) * ((B[0] + B[1] + B[2]) * T.float32(0.5)) - (A[2 * t + 2] - A[2 * t + 1]) * ((B[0] - B[1] + B[2]) * T.float32(0.5)) - (A[2 * t + 1] - A[2 * t + 3]) * B[2]
""", REALS),
)  # fmt: skip
SYMBOLIC = [
    Pair("symbolic sizes", name, symbolic(a), symbolic(b), level)
    for name, a, b, level in (
        ("twice", "for i in range(n):\n    B[i] = A[i] * T.float32(2)", "for i in range(n):\n    B[i] = A[i] + A[i]", REALS),
        ("from 1,000 on", "for i in range(n):\n    B[i] = A[i]",
         "for i in range(n):\n    B[i] = T.if_then_else(n > 1000, A[i] * T.float32(2), A[i])", DIFFERENT),
        ("the last one", "for i in range(n):\n    B[i] = A[i]",
         "for i in range(n):\n    B[i] = T.if_then_else(i == n - 1, T.float32(0), A[i])", DIFFERENT),
        ("one that a number of the text names", "for i in range(n):\n    B[i] = A[i]",
         "for i in range(n):\n    B[i] = T.if_then_else(i == 40, T.float32(0), A[i])", DIFFERENT),
        ("from the end", "for i in range(n):\n    B[i] = A[i]", "for i in range(n):\n    B[n - 1 - i] = A[n - 1 - i]", BITS),
        ("blocks of 4", "for i in range(n):\n    B[i] = A[i]",
         "for a, b in T.grid((n + 3) // 4, 4):\n    if a * 4 + b < n:\n        B[a * 4 + b] = A[a * 4 + b]", BITS),
        ("a running sum as a recurrence",
         "for i in range(n):\n    B[i] = T.float32(0)\n    for k in range(i + 1):\n        B[i] = B[i] + A[k]",
         "for i in range(n):\n    B[i] = A[i] + T.if_then_else(i > 0, B[i - 1], T.float32(0))", REALS),
        ("a running sum whose loops are exchanged",
         "for i in range(n):\n    B[i] = T.float32(0)\n    for k in range(i + 1):\n        B[i] = B[i] + A[k]",
         "for i in range(n):\n    B[i] = T.float32(0)\nfor k, i in T.grid(n, n):\n    if k <= i:\n        B[i] = B[i] + A[k]", BITS),
        ("a running sum without its own element",
         "for i in range(n):\n    B[i] = T.float32(0)\n    for k in range(i + 1):\n        B[i] = B[i] + A[k]",
         "for i in range(n):\n    B[i] = T.float32(0)\n    for k in range(i):\n        B[i] = B[i] + A[k]", DIFFERENT),
        ("clamped at a table's end", "for i in range(n):\n    B[i] = A[i]", "for i in range(n):\n    B[i] = A[T.min(i, 2000)]", DIFFERENT),
    )
]  # fmt: skip


def indexed(value: str, mode: str = "") -> Callable[[], Any]:
    return lambda: ti.parse(
        "f(y: tensor<float32, J[0:6]>, x: tensor<float32, I[0:9]>, j: tensor<int, J[0:6]>, u: tensor<float32, J[0:6]>) "
        f"{{ y ← {value}; }}"
    )


INDICES = ones(
    "indices", indexed,
    ("clamped by hand", "gather(I, clamp)(x, j)", "gather(I, clamp)(x, min(max(j, 0), 8))", PROBABLY),
    ("clamped by hand, one less", "gather(I, clamp)(x, j)", "gather(I, clamp)(x, min(max(j, 0), 7))", DIFFERENT),
    ("zero and clamp", "gather(I, clamp)(x, j)", "gather(I, zero)(x, j)", DIFFERENT),
    ("a difference at an index", "gather(I, clamp)(x, j) - u", "-(u - gather(I, clamp)(x, j))", PROBABLY),
    ("a mask", "if j < 3 then u else 0.0f", "if j ≤ 2 then u else 0.0f", BITS),
    ("a mask one further", "if j < 3 then u else 0.0f", "if j ≤ 3 then u else 0.0f", DIFFERENT),
    ("both conditions", "if j < 3 ∧ u > 0.0f then u else 0.0f", "if u > 0.0f then (if j < 3 then u else 0.0f) else 0.0f", BITS),
    ("De Morgan", "if ¬(j < 3 ∨ u > 0.0f) then u else 0.0f", "if j ≥ 3 ∧ u ≤ 0.0f then u else 0.0f", NUMBERS),
    ("floats where whole numbers exclude one another", "if j > 3 ∧ (j & 3) = j then u + 1.0f else u", "u", BITS),
    ("floats where one whole number is left", "if j > 2 ∧ (j & 3) = j then u + 1.0f else u", "u", DIFFERENT),
    ("De Morgan, wrong", "if ¬(j < 3 ∨ u > 0.0f) then u else 0.0f", "if j ≥ 3 ∨ u ≤ 0.0f then u else 0.0f", DIFFERENT),
)  # fmt: skip


def on_mesh(value: str) -> Callable[[], Any]:
    return lambda: ti.parse(
        "f(y: tensor<float32, V[0:5]>, t: tensor<int, V[0:5], _NB_E[0:3]>, x: tensor<float32, E[0:8]>) "
        f"{{ y ← {value}; }}"
    )


TABLES = ones(
    "tables of neighbours", on_mesh,
    ("a sum of neighbours", "⟪t, 0⟫(x) + ⟪t, 1⟫(x)", "⟪t, 1⟫(x) + ⟪t, 0⟫(x)", BITS),
    ("another neighbour", "⟪t, 0⟫(x) + ⟪t, 1⟫(x)", "⟪t, 2⟫(x) + ⟪t, 0⟫(x)", DIFFERENT),
    ("twice", "⟪t, 0⟫(x + x)", "2.0f × ⟪t, 0⟫(x)", PROBABLY),
)  # fmt: skip

PREFIX = "for i in range(16):\n    B[i] = 0\n    for j in range(i + 1):\n        B[i] = B[i] + A[j]"
PREFIX_STEP = "B[0] = A[0]\nfor i in range(15):\n    B[i + 1] = B[i] + A[i + 1]"
PREFIX_BLOCKED = """
C = T.alloc_buffer((4,), "int32")
for b in range(4):
    B[b * 4] = A[b * 4]
    for j in range(3):
        B[b * 4 + j + 1] = B[b * 4 + j] + A[b * 4 + j + 1]
C[0] = 0
for b in range(3):
    C[b + 1] = C[b] + B[b * 4 + 3]
for b in range(4):
    for j in range(4):
        B[b * 4 + j] = B[b * 4 + j] + C[b]
"""


def counted(body: str) -> Callable[[], Any]:
    return tir(body, (16,), (16,), element="int32")


PREFIXES = ones(
    "prefix sums of integers", counted,
    ("step by step", PREFIX, PREFIX_STEP, BITS),
    ("in blocks", PREFIX, PREFIX_BLOCKED, BITS),
    ("in blocks, and step by step", PREFIX_STEP, PREFIX_BLOCKED, BITS),
    ("a block without its carry", PREFIX, PREFIX_BLOCKED.replace("B[b * 4 + j] + C[b]", "B[b * 4 + j] + T.Select(b == 3, 0, C[b])"), DIFFERENT),
    ("a carry that is late", PREFIX, PREFIX_BLOCKED.replace("B[b * 4 + 3]", "B[b * 4 + 2]"), DIFFERENT),
)  # fmt: skip


PAIRS: list[Pair] = [
    *POINTWISE, *INTEGERS, *STENCILS, *PRODUCTS, *NORMS, *FOLDS, *SCANS, *SCHEDULES, *SYMBOLIC, *INDICES, *TABLES,
    *PREFIXES,
]  # fmt: skip
