"""Which outputs may be absent, and which guards count: a guard covers what is reached by the same moves."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.analysis.absence import analyse_absence
from tensorir.binding.programs import BoundProgram

HEAD = """f(
  out: tensor<float, V[0:2]>, x: tensor<float, E[0:3]>, y: tensor<float, E[0:3]>, z: tensor<float, C[0:2]>,
  V2E: tensor<int, V[0:2], _NB_E[0:2]>, E2C: tensor<int, E[0:3], _NB_C[0:2]>
) {{ out ← {}; }}"""


def refusals(expression, **holes):
    program = ti.parse(HEAD.format(expression))
    return [d.message for d in analyse_absence(program, {"V2E": True, "E2C": True, **holes}).refused]


REFUSED = ["'out' may be absent: this shift finds no neighbour where V2E holds -1."]


@pytest.mark.parametrize(
    "expression",
    [
        "if can_deref(⟪V2E, 0⟫(x)) then ⟪V2E, 0⟫(x) else 0.0",
        "if can_deref(⟪V2E, 0⟫(x)) then ⟪V2E, 0⟫(y) + 1.0 else 0.0",
        "let n = ⟪V2E, 1⟫(x); if can_deref(n) ∧ can_deref(⟪V2E, 0⟫(x)) then sqrt(n) × ⟪V2E, 0⟫(y) else 0.0",
        "(λ(n) → if can_deref(n) then n else 7.0)(⟪V2E, 0⟫(x))",
        "(λ(there) → if there then ⟪V2E, 0⟫(x) else 7.0)(can_deref(⟪V2E, 0⟫(x)))",
        "reduce(+, 0.0)(⟪V2E⟫(x))",
        "if can_deref(⟪V2E, 0, E2C, 1⟫(z)) then ⟪V2E, 0, E2C, 1⟫(z) else 0.0",
    ],
)
def test_a_guarded_neighbour_counts_as_present(expression):
    assert refusals(expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "⟪V2E, 0⟫(x)",
        "if can_deref(⟪V2E, 1⟫(x)) then ⟪V2E, 0⟫(x) else 0.0",
        "if can_deref(⟪V2E, 0⟫(x)) then 0.0 else ⟪V2E, 0⟫(x)",
        "if can_deref(⟪V2E, 0⟫(x)) ∨ true then ⟪V2E, 0⟫(x) else 0.0",
        # the condition is absent itself where n is
        "let n = ⟪V2E, 1⟫(x); if can_deref(n) ∧ n > 0.0 then sqrt(n) else 0.0",
        "⟪V2E, 0⟫(if can_deref(⟪E2C, 0⟫(z)) then ⟪E2C, 0⟫(z) else 0.0)",
    ],
)  # fmt: skip
def test_an_unguarded_neighbour_is_refused(expression):
    assert refusals(expression) == REFUSED


def test_a_guard_on_another_way_does_not_count():
    # that the neighbour of a neighbour is there says nothing of the same step from another point
    inner = "if can_deref(⟪V2E, 0, E2C, 1⟫(z)) then ⟪E2C, 1⟫(z) else 0.0"
    program = ti.parse(HEAD.format(inner).replace("out: tensor<float, V[0:2]>", "out: tensor<float, V[0:2], E[0:3]>"))
    messages = [d.message for d in analyse_absence(program, {"V2E": True, "E2C": True}).refused]
    assert messages == ["'out' may be absent: this shift finds no neighbour where E2C holds -1."]


@pytest.mark.parametrize(
    "value",
    ["e + ⟪V, 1⟫(e)", "⟪V, 1⟫(e) + e", "e × ⟪V, 1⟫(e) × ⟪V, 2⟫(e)", "reduce(+, 0.0)(⟪V2E⟫(x) + ⟪V, 1⟫(⟪V2E⟫(x)))"],
)
def test_a_value_is_absent_where_it_is_so_itself_or_shifted(value):
    f = ti.parse(f"""f(out: tensor<float, V[0:3]>, x: tensor<float, E[0:5]>, V2E: tensor<int, V[0:5], _NB_E[0:2]>) {{
      let e = ⟪V2E, 1⟫(x);
      let r = {value};
      out ← if can_deref(r) then r else -99.0; }}""")
    given = {"x": X, "V2E": np.array([[0, 1], [2, -1], [-1, 3], [1, 4], [3, 0]], np.int32)}
    np.testing.assert_array_equal(ti.compile(f)(**given)["out"], ti.reference.run(f, **given)["out"])


def test_tables_without_holes_make_nothing_absent():
    assert refusals("⟪V2E, 0⟫(x)", V2E=False) == []


def test_a_tuple_is_present_where_all_its_leaves_are():
    f = ti.parse(HEAD.format("if can_deref((⟪V2E, 0⟫(x), ⟪V2E, 1⟫(x))) then ⟪V2E, 0⟫(x) + ⟪V2E, 1⟫(x) else -1.0"))
    table = np.array([[0, 1], [2, -1]])
    ones = np.ones((3, 2), np.int32)
    arguments = {"x": np.array([1.0, 2.0, 4.0]), "y": np.ones(3), "z": np.ones(2), "V2E": table, "E2C": ones}
    np.testing.assert_array_equal(f(**arguments)["out"], [3.0, -1.0])
    assert isinstance(f.bind(V2E=table), BoundProgram)


def test_a_fold_that_shifts_its_state_through_a_table_is_analysed_to_the_end():
    f = ti.parse("""
      f(out: tensor<float, V[0:3], K[0:3]>, x: tensor<float, V[0:3], K[0:3]>, T: tensor<int, V[0:3], _NB_V[0:2]>) {
        out ← let s = scan(λ(s: tensor<float, V[0:3]>, a: tensor<float, V[0:3]>) → ⟪T, 1⟫(s) + a, true, 0.0)(x);
              if can_deref(s) then s else -1.0;
      }""")
    arguments = {"x": np.arange(9.0).reshape(3, 3), "T": np.array([[0, 1], [2, -1], [1, 0]])}
    got = f(**arguments)["out"]
    np.testing.assert_array_equal(got, ti.reference.run(f, **arguments)["out"])
    assert (got == -1.0).any() and (got != -1.0).any()


X, READS = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([[3], [1], [-1], [0], [4]])


def scanned(step, levels):
    """The states by hand, NaN where they are absent; a step gives NaN for absent ones, and takes them."""
    states, state = dict[int, float](), 0.5
    for k in levels:
        states[k] = state = step(state, X[READS[k, 0]] if READS[k, 0] >= 0 else np.nan)
    return [states[k] for k in range(5)]


@pytest.mark.parametrize(
    ("body", "step"),
    [
        ("s × 2.0 + a", lambda s, a: s * 2 + a),
        ("a - 1.0", lambda s, a: a - 1),
        ("if can_deref(a) then s × 2.0 + a else s", lambda s, a: s if np.isnan(a) else s * 2 + a),
        ("if can_deref(s) then s × 2.0 + a else a", lambda s, a: a if np.isnan(s) else s * 2 + a),
    ],
)
@pytest.mark.parametrize("forward", [True, False])
def test_a_scan_skips_no_level_and_its_state_is_absent_where_its_body_is(body, step, forward):
    f = ti.parse(f"""
      f(out: tensor<float, K[0:5]>, all: tensor<float>, x: tensor<float, E[0:5]>, T: tensor<int, K[0:5], _NB_E[0:1]>) {{
        out ← let n = scan(λ(s: tensor<float>, a: tensor<float>) → {body}, {str(forward).lower()}, 0.5)(⟪T, 0⟫(x));
              if can_deref(n) then n else -1.0;
        all ← reduce(λ(s: tensor<float>, a: tensor<float>) → {body}, 0.5, K)(⟪T, 0⟫(x));
      }}""")
    states = scanned(step, range(5) if forward else range(4, -1, -1))
    # a reduction skips what a scan does not
    folded = 0.5
    for k in (0, 1, 3, 4):
        folded = step(folded, X[READS[k, 0]])
    for found in (f(x=X, T=READS), ti.reference.run(f, x=X, T=READS), ti.compile(f, passes=())(x=X, T=READS)):
        np.testing.assert_array_equal(found["out"], np.nan_to_num(states, nan=-1.0))
        assert found["all"] == folded


@pytest.mark.parametrize(
    "value",
    ["⟪K, 1⟫(n) + n", "n - ⟪K, -1⟫(n)", "⟪V, 1⟫(n) × ⟪K, 1⟫(n)", "rename(V → K, K → V)(n) + n", "(⟪K, 1⟫(n), n)[0]"],
)
def test_what_is_read_at_two_places_is_present_where_both_are(value):
    part = "V[1:3], K[1:3]"
    f = ti.parse(f"""
      f(out: tensor<float, {part}>, there: tensor<bool, {part}>, x: tensor<float, E[0:4]>,
        T: tensor<int, V[0:4], K[0:4], _NB_E[0:1]>) {{
        let n = ⟪T, 0⟫(x);
        let s = {value};
        out ← if can_deref(s) then s else -1.0;
        there ← can_deref(s);
      }}""")
    for seed in range(4):
        table = np.random.default_rng(seed).integers(-1, 4, (4, 4, 1)).astype(np.int32)
        want = ti.reference.run(f, x=X[:4], T=table)
        for passes in ({}, {"passes": ()}):
            found = ti.compile(f, **passes)(x=X[:4], T=table)
            np.testing.assert_array_equal(found["there"], want["there"])
            np.testing.assert_array_equal(found["out"], want["out"])


def test_a_condition_that_shifts_what_it_decides_for_is_followed_to_an_end():
    f = ti.parse("""
    f(out: tensor<float>, x: tensor<float, E[0:3]>, T: tensor<int, E[0:3], _NB_E[0:2]>) {
      out ← gather(E)(loop(0, 3)(
          λ(i: tensor<int>, a: tensor<float, E[0:3]>) → gather(E)(shift_apply(0)(⟪T⟫(a)), 1) > 1.0,
          λ(i: tensor<int>, a: tensor<float, E[0:3]>) → shift_apply(1)(⟪T⟫(a)),
          x), 0);
    }""")
    assert analyse_absence(f, {"T": True}).refused
    assert not analyse_absence(f, {"T": False}).refused
