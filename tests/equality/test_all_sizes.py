"""Programs of symbolic sizes: proven for all sizes, or not called equal; faults from a large size on are found."""

# ruff: noqa: E501
# A pair is one row.

import pytest

import tensorir as ti
from tensorir.equality.verdict import Level
from tests.equality.pairs import symbolic

BITS, REALS, DIFFERENT = Level.BITS, Level.REALS, Level.DIFFERENT


def fencil(value: str, x: str = "I[0:n]") -> object:
    return ti.parse(f"f(y: tensor<float, I[0:n]>, x: tensor<float, {x}>) {{ y ← {value}; }}")


COPY = "for i in range(n):\n    B[i] = A[i]"
SUM = "for i in range(n):\n    B[i] = T.float32(0)\n    for k in range(i + 1):\n        B[i] = B[i] + A[k]"
TILED = """
for i in range(n):
    B[i] = T.float32(0)
    for ko, ki in T.grid((n + 3) // 4, 4):
        if ko * 4 + ki <= i:
            B[i] = B[i] + A[ko * 4 + ki]
"""
BUFFERED = """
C = T.alloc_buffer((n,), "float32")
for i in range(n):
    C[i] = A[i]
for i in range(n):
    B[i] = C[i]
"""


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        (COPY, "for i in range(n):\n    B[n - 1 - i] = A[n - 1 - i]", BITS),
        (COPY, "for a, b in T.grid((n + 3) // 4, 4):\n    if a * 4 + b < n:\n        B[a * 4 + b] = A[a * 4 + b]", BITS),
        (COPY, BUFFERED, BITS),
        (COPY, "for i in range(n):\n    B[i] = T.if_then_else(i < n, A[i], T.float32(7))", BITS),
        (SUM, SUM.replace("range(i + 1)", "range(n)").replace("        B[i] =", "        if k <= i:\n            B[i] ="), BITS),
        (SUM, SUM.replace("A[k]", "A[i - k]"), REALS),
        (SUM, TILED, REALS),
    ],
)  # fmt: skip
def test_schedules_are_equal_for_all_sizes(one: str, other: str, level: Level):
    found = ti.equivalent(symbolic(one)(), symbolic(other)())
    assert found and found.level == level and not found.sizes


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        (COPY, COPY.replace("A[i]", "T.if_then_else(i > 1000, T.float32(0), A[i])"), 1002),
        (COPY, COPY.replace("A[i]", "T.if_then_else(n > 1000, T.float32(0), A[i])"), 1001),
        (COPY, COPY.replace("A[i]", "T.if_then_else(i < n // 2 + 600, A[i], T.float32(0))"), 1201),
        (COPY, COPY.replace("A[i]", "T.if_then_else(n % 32 == 7 and n > 900, T.float32(0), A[i])"), 903),
        (COPY, COPY.replace("A[i]", "T.if_then_else(i < T.min(n, 4096), A[i], T.float32(0))"), 4097),
        (COPY, BUFFERED.replace("B[i] = C[i]", "B[i] = C[T.min(i, 2048)]"), 2050),
        (SUM, SUM.replace("range(i + 1)", "range(T.min(i + 1, 30))"), 31),
    ],
)
def test_a_fault_that_begins_at_a_large_size_is_found_there(one: str, other: str, size: int):
    found = ti.equivalent(symbolic(one)(), symbolic(other)())
    assert found.level == DIFFERENT and found.sizes == ({"n": size},)


@pytest.mark.parametrize("begins", ["i > 100000", "n > 10000000", "n % 65536 == 65535", "i * i > 1000000"])
def test_a_fault_at_sizes_that_are_not_tried_is_no_equality(begins: str):
    other = COPY.replace("A[i]", f"T.if_then_else({begins}, T.float32(0), A[i])")
    found = ti.equivalent(symbolic(COPY)(), symbolic(other)())
    assert not found and (found.sizes or found.level == DIFFERENT)


RUNNING = "scan(λ(s: tensor<float>, e: tensor<float>) → s + e, true, 0.0)(x)"


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("if pos(I, x) < 3 then x else 0.0", "if pos(I, x) ≤ 2 then x else 0.0", BITS),
        ("if pos(I, x) < n / 2 then x else 0.0", "if 2 × pos(I, x) < n - rem(n, 2) then x else 0.0", BITS),
        ("if pos(I, x) = n - 1 then x + x else x", "concat(subset(x, I[0:n-1]), subset(2.0 × x, I[n-1:n]))", REALS),
        (RUNNING, RUNNING.replace("s + e", "e + s"), BITS),
        (f"2.0 × {RUNNING}", RUNNING.replace("s + e", "s + 2.0 × e"), REALS),
        (RUNNING.replace("s + e", "max(s, e)"), RUNNING.replace("s + e", "max(e, s)"), BITS),
        ("x - reduce(+, 0.0, I)(x)", "x - reduce(+, 0.0, I)(subset(x, I[0:1])) - reduce(+, 0.0, I)(subset(x, I[1:n]))", REALS),
    ],
)  # fmt: skip
def test_fencils_are_equal_for_all_sizes(one: str, other: str, level: Level):
    found = ti.equivalent(fencil(one), fencil(other))
    assert found and found.level == level and not found.sizes


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        ("x", "if pos(I, x) < min(n, 4096) then x else 0.0", 4097),
        ("x", "if pos(I, x) < 64 × ((n + 63) / 64) - 64 + 2000 then x else 0.0", None),
        (f"0.5 × {RUNNING}", RUNNING.replace("s + e", "if e = 77.0 then s else s + 0.5 × e"), 2),
        ("x", "concat(subset(x, I[0:n-1]), subset(0.0 × x, I[n-1:n]))", 1),
    ],
)
def test_faults_of_fencils_are_found_or_are_no_equality(one: str, other: str, size: int | None):
    found = ti.equivalent(fencil(one), fencil(other))
    assert not found or size is None
    assert size is None or (found.level == DIFFERENT and found.sizes == ({"n": size},))


def test_two_sizes_are_covered_at_once():
    text = "f(y: tensor<float32, I[0:n]>, a: tensor<float32, I[0:n], K[0:m]>, b: tensor<float32, K[0:m]>) {{ y ← {}; }}"
    dot = "reduce(+, 0.0f, K)(a × b)"
    parts = "reduce(+, 0.0f, K)(subset(a × b, K[0:3])) + reduce(+, 0.0f, K)(subset(a × b, K[{}:m]))"
    one = ti.parse(text.format(dot))
    assert ti.equivalent(one, ti.parse(text.format(parts.format(3)))).level == REALS
    assert ti.equivalent(one, ti.parse(text.format(parts.format(4)))).level == DIFFERENT


def test_sizes_at_which_a_program_is_none_are_left_out():
    other = fencil("concat(subset(x, I[0:5]), subset(x, I[5:n]))")
    assert ti.equivalent(fencil("x"), other).level == BITS
