"""Equality at all sizes, of data too."""

# ruff: noqa: E501
import pytest

import tensorir as ti
from tensorir.equality.verdict import Level
from tests.equality.pairs import symbolic

# Programs of symbolic sizes


BITS, REALS, DIFFERENT = Level.BITS, Level.REALS, Level.DIFFERENT


def fencil(value: str, x: str = "I[0:n]", y: str = "I[0:n]") -> object:
    return ti.parse(f"f(y: tensor<float, {y}>, x: tensor<float, {x}>) {{ y ← {value}; }}")


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


CHOSEN = "(if pos(I, x) < 3 then (x, 2.0 × x) else (2.0 × x, x))"
BACK = RUNNING.replace("true", "false")
FOURS = "merge_dims(A, B, I)(split_dim(I, A, B, 4)(x))"


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("⟪I, 1⟫(x) + x", "x + ⟪I, 2⟫(⟪I, -1⟫(x))", BITS),
        ("⟪I, 1⟫(x)", "⟪I, 2⟫(x)", DIFFERENT),
        ("⟪I, 1⟫(x)", "rename(J → I)(⟪J, 1⟫(rename(I → J)(x)))", BITS),
        ("⟪I, 1⟫(x)", "rename(J → I)(⟪J, -1⟫(rename(I → J)(x)))", DIFFERENT),
        ("(x, 2.0 × x)[1]", "2.0 × x", BITS),
        ("(x, 2.0 × x)[0]", "2.0 × x", DIFFERENT),
        (f"{CHOSEN}[1]", "if pos(I, x) < 3 then 2.0 × x else x", BITS),
        (f"{CHOSEN}[0]", "if pos(I, x) < 3 then 2.0 × x else x", DIFFERENT),
        ("let t = x × x; t + t", "x × x + x × x", BITS),
        ("let t = x × x; t + x", "x × x + x × x", DIFFERENT),
        ("update(x, subset(2.0 × x, I[2:n]))", "if pos(I, x) < 2 then x else 2.0 × x", BITS),
        ("update(x, subset(2.0 × x, I[2:n]))", "if pos(I, x) < 3 then x else 2.0 × x", DIFFERENT),
        ("reduce(+, 0.0, J)(add_dim(J, 0, 3, x))", "x + x + x", REALS),
        ("reduce(+, 0.0, J)(add_dim(J, 0, 3, x))", "x + x", DIFFERENT),
        ("materialise(x) + x", "x + x", BITS),
    ],
)  # fmt: skip
def test_what_moves_points_and_makes_tuples_is_followed_for_all_sizes(one: str, other: str, level: Level):
    found = ti.equivalent(fencil(one, "I[-3:n+4]"), fencil(other, "I[-3:n+4]"))
    assert found.level == level and bool(found.sizes) == (level == DIFFERENT)


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        (BACK, f"reduce(+, 0.0, I)(x) - {RUNNING} + x", REALS),
        (BACK, f"reduce(+, 0.0, I)(x) - {RUNNING}", DIFFERENT),
        (BACK, RUNNING, DIFFERENT),
        ("gather(I)(x, N - 1 - pos(I, x))", "gather(I)(x, (N - 2) - pos(I, x) + 1)", BITS),
        ("gather(I)(x, N - 1 - pos(I, x))", "x", DIFFERENT),
        ("gather(I, clamp)(x, pos(I, x) - 2)", "gather(I, zero)(x, pos(I, x) - 2)", DIFFERENT),
        ("gather(I, zero)(x, pos(I, x) - 2)", "if pos(I, x) < 2 then 0.0 else gather(I, clamp)(x, pos(I, x) - 2)", BITS),
        ("gather(I, clamp)(x, pos(I, x) + 2)", "gather(I)(x, min(N - 1, pos(I, x) + 2))", BITS),
        (FOURS, "x", BITS),
        (FOURS.replace("A, B, I", "B, A, I"), "x", DIFFERENT),
        (FOURS, FOURS.replace("4", "2"), BITS),
        (FOURS.replace("(split", "(2.0 × split"), "2.0 × x", BITS),
        (
            FOURS.replace("(split", "((if pos(B, split_dim(I, A, B, 4)(x)) < 1 then 2.0 else 1.0) × split"),
            "(if rem(pos(I, x), 4) < 1 then 2.0 else 1.0) × x", BITS,
        ),
    ],
)  # fmt: skip
def test_reads_that_leave_the_order_of_points_are_followed_for_all_sizes(one: str, other: str, level: Level):
    whole = ("I[0:4*n]",) * 2
    found = ti.equivalent(*(fencil(value.replace("N", "4 × n"), *whole) for value in (one, other)))
    assert found.level == level and bool(found.sizes) == (level == DIFFERENT)


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


# Tables of neighbours, indices that data tell, scatters and sorts are proven for all sizes, or are told apart


def kernel(body: str, **arrays: str) -> object:
    """A kernel of TIR on arrays by their shapes and element types, of the sizes n and m where it has these."""
    sizes = "".join(f"    {s} = T.int32()\n" for s in "mn" if any(s in shape for shape in arrays.values()))
    bound = "".join(f"    {a} = T.match_buffer({a}_, {shape})\n" for a, shape in arrays.items())
    told = "".join(f"    {line}\n" for line in body.strip().splitlines())
    params = ", ".join(f"{a}_: T.handle" for a in arrays)
    return ti.tir.parse(f"@T.prim_func\ndef main({params}):\n{sizes}{bound}{told}")["main"]


def check(one: object, other: object, level: Level, *assume: str) -> None:
    found = ti.equivalent(one, other, assume=assume)
    assert found.level == level, str(found)
    assert bool(found) == (level != DIFFERENT) and (level == DIFFERENT or not found.sizes)


SUM_OF_NEIGHBOURS = "reduce(+, 0.0f, _NB_0)(⟪t⟫(x))"
LOOP = "for i in range(n):\n    y[i] = T.float32(0)\n    for k in range(3):\n        y[i] = y[i] + x[t[i, k]]"
PRESENT, ALL = "0 ≤ t < m", "-1 ≤ t < m"


def on_mesh(value: str) -> object:
    params = "y: tensor<float32, V[0:n]>, t: tensor<int, V[0:n], _NB_E[0:3]>, x: tensor<float32, E[0:m]>"
    return ti.parse(f"f({params}) {{ y ← {value}; }}")


@pytest.mark.parametrize(
    ("body", "assumed", "level"),
    [
        (LOOP, PRESENT, REALS),
        ("for i in range(n):\n    y[i] = x[t[i, 2]] + x[t[i, 1]] + x[t[i, 0]]", PRESENT, REALS),
        ("for i in range(n):\n    y[i] = x[t[i, 2]] + x[t[i, 1]] + x[t[i, 1]]", PRESENT, DIFFERENT),
        (LOOP.replace("        y[i] =", "        if t[i, k] >= 0:\n            y[i] ="), ALL, REALS),
        (LOOP.replace("x[t[i, k]]", "T.if_then_else(t[i, k] > -1, x[t[i, k]], T.float32(0))"), ALL, REALS),
        (LOOP.replace("x[t[i, k]]", "T.if_then_else(t[i, k] > 0, x[t[i, k]], T.float32(0))"), ALL, DIFFERENT),
    ],
)
def test_sums_of_neighbours_are_loops_over_their_table(body: str, assumed: str, level: Level):
    loop = kernel(body, x='(m,), "float32"', t='(n, 3), "int32"', y='(n,), "float32"')
    check(on_mesh(SUM_OF_NEIGHBOURS), loop, level, assumed)


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("⟪t, 0⟫(x) + ⟪t, 1⟫(x)", "⟪t, 1⟫(x) + ⟪t, 0⟫(x)", BITS),
        ("⟪t, 0⟫(x + x)", "2.0f × ⟪t, 0⟫(x)", REALS),
        ("⟪t, 0⟫(x + x)", "2.0f × ⟪t, 1⟫(x)", DIFFERENT),
        (f"2.0f × {SUM_OF_NEIGHBOURS}", "reduce(+, 0.0f, _NB_0)(⟪t⟫(x + x))", REALS),
        # what is absent is left out of a sum, and leaves nothing elsewhere
        (SUM_OF_NEIGHBOURS, "⟪t, 0⟫(x) + ⟪t, 1⟫(x) + ⟪t, 2⟫(x)", DIFFERENT),
        (SUM_OF_NEIGHBOURS, "reduce(+, 0.0f, _NB_0)(if can_deref(⟪t⟫(x)) then ⟪t⟫(x) else 0.0f)", REALS),
    ],
)
def test_neighbours_that_a_table_tells_are_followed_for_all_sizes(one: str, other: str, level: Level):
    check(on_mesh(one), on_mesh(other), level)


def indexed(value: str) -> object:
    params = (
        "y: tensor<float32, J[0:n]>, x: tensor<float32, I[0:m]>, j: tensor<int, J[0:n]>, u: tensor<float32, J[0:n]>"
    )
    return ti.parse(f"f({params}) {{ y ← {value}; }}")


@pytest.mark.parametrize(
    ("one", "other", "assumed", "level"),
    [
        ("gather(I)(x, j) + u", "u + gather(I)(x, j)", (), BITS),
        ("gather(I)(x, j) - gather(I)(x, j) + u", "u", ("0 ≤ j < m",), REALS),
        ("gather(I)(x, j) - gather(I)(x, j) + u", "u", (), DIFFERENT),
        ("gather(I, clamp)(x, j)", "gather(I, clamp)(x, min(max(j, 0), m - 1))", (), BITS),
        ("gather(I, clamp)(x, j)", "gather(I, clamp)(x, min(max(j, 0), m - 2))", (), DIFFERENT),
        ("gather(I, zero)(x, j)", "if j ≥ 0 ∧ j < m then gather(I, clamp)(x, j) else 0.0f", (), BITS),
        ("gather(I, zero)(x, j)", "if j ≥ 0 ∧ j ≤ m then gather(I, clamp)(x, j) else 0.0f", (), DIFFERENT),
        ("gather(I, clamp)(x, j)", "gather(I, zero)(x, j)", (), DIFFERENT),
        ("gather(I, clamp)(x, j)", "gather(I, zero)(x, j)", ("0 ≤ j < m",), BITS),
        ("gather(I)(x, j)", "gather(I, clamp)(x, j)", (), DIFFERENT),
    ],
)
def test_reads_at_indices_that_data_tell_are_equal_where_these_are(
    one: str, other: str, assumed: tuple[str, ...], level: Level
):
    check(indexed(one), indexed(other), level, *assumed)


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("for i in range(n):\n    y[i] = x[j[i]]", BITS),
        ("for a, b in T.grid((n + 3) // 4, 4):\n    if a * 4 + b < n:\n        y[a * 4 + b] = x[j[a * 4 + b]]", BITS),
        ("for i in range(n):\n    y[i] = x[j[n - 1 - i]]", DIFFERENT),
    ],
)
def test_a_permutation_is_a_gather(body: str, level: Level):
    loop = kernel(body, x='(n,), "float32"', j='(n,), "int32"', y='(n,), "float32"')
    text = "f(y: tensor<float32, J[0:n]>, x: tensor<float32, I[0:n]>, j: tensor<int, J[0:n]>) { y ← gather(I)(x, j); }"
    check(ti.parse(text), loop, level)


ZERO = "for b in range(m):\n    y[b] = {}\n"


@pytest.mark.parametrize(
    ("body", "assumed", "level"),
    [
        ("for i in range(n):\n    y[j[i]] = y[j[i]] + 1", (), BITS),
        ("for i in range(n):\n    y[j[n - 1 - i]] = y[j[n - 1 - i]] + 1", ("0 ≤ j < m",), BITS),
        ("for a, c in T.grid((n + 3) // 4, 4):\n    if a * 4 + c < n:\n        y[j[a * 4 + c]] = y[j[a * 4 + c]] + 1", ("0 ≤ j < m",), BITS),
        ("for b in range(m):\n    for i in range(n):\n        y[b] = y[b] + T.if_then_else(j[i] == b, 1, 0)", ("0 ≤ j < m",), BITS),
        ("for i in range(n - 1):\n    y[j[i]] = y[j[i]] + 1", ("0 ≤ j < m",), DIFFERENT),
        ("for i in range(n):\n    if j[i] > 0:\n        y[j[i]] = y[j[i]] + 1", ("0 ≤ j < m",), DIFFERENT),
    ],
)  # fmt: skip
def test_a_histogram_is_a_sum_over_what_falls_in_it(body: str, assumed: tuple[str, ...], level: Level):
    text = (
        "f(y: tensor<int, B[0:m]>, j: tensor<int, J[0:n]>) { y ← scatter(+, B, over: (J))(add_dim(B, 0, m, 0), j, 1); }"
    )
    loop = kernel(ZERO.format("0") + body, j='(n,), "int32"', y='(m,), "int32"')
    check(ti.parse(text), loop, level, *assumed)


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("y[j[i]] = y[j[i]] + w[i]", BITS),
        ("y[j[n - 1 - i]] = y[j[n - 1 - i]] + w[n - 1 - i]", REALS),
        ("y[j[i]] = w[i]", DIFFERENT),
    ],
)
def test_weights_are_added_in_any_order_over_the_reals(body: str, level: Level):
    params = "y: tensor<float32, B[0:m]>, j: tensor<int, J[0:n]>, w: tensor<float32, J[0:n]>"
    text = f"f({params}) {{ y ← scatter(+, B, over: (J))(add_dim(B, 0, m, 0.0f), j, w); }}"
    loop = ZERO.format("T.float32(0)") + f"for i in range(n):\n    {body}"
    found = ti.equivalent(
        ti.parse(text), kernel(loop, j='(n,), "int32"', w='(n,), "float32"', y='(m,), "float32"'), assume=["0 ≤ j < m"]
    )
    # a lift may take sums in another order when it runs
    assert found.level == min(level, REALS) and (level == DIFFERENT or not found.sizes)


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("sort(J, 1)(2.0f × x) × 2.0f", "2.0f × sort(J, 1)(x + x)", REALS),
        ("sort(J, 1)(x, x × 3.0f)[1]", "sort(J, 1)(x, x + x + x)[1]", REALS),
        ("sort(J, 1, true)(x)", "sort(J, 1)(x)", DIFFERENT),
    ],
)
def test_sorts_are_equal_whose_keys_are(one: str, other: str, level: Level):
    text = "f(y: tensor<float32, J[0:n]>, x: tensor<float32, J[0:n]>) {{ y ← {}; }}"
    check(ti.parse(text.format(one)), ti.parse(text.format(other)), level)


def test_sizes_at_which_no_index_is_as_assumed_are_left_out():
    one, other = indexed("gather(I)(x, j) × 2.0f"), indexed("gather(I)(x, j) + gather(I)(x, j) × 1.001f")
    found = ti.equivalent(one, other, assume=["0 ≤ j < m"])
    assert found.level == DIFFERENT and found.counterexample is not None
    assert (found.counterexample["j"] >= 0).all() and (found.counterexample["j"] < len(found.counterexample["x"])).all()
