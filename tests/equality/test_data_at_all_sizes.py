"""Tables of neighbours, indices that data tell, scatters and sorts are proven for all sizes, or are told apart."""

# ruff: noqa: E501
# A pair is one row.

import pytest

import tensorir as ti
from tensorir.equality.verdict import Level

BITS, REALS, DIFFERENT = Level.BITS, Level.REALS, Level.DIFFERENT


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
