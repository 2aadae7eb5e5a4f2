"""The oracle on programs whose answers can be read off: nothing here is compared with the lowering."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tensorir as ti
from tensorir import reference
from tensorir.ir.build import apply, call, closure, fencil, function, literal, var
from tensorir.ir.types import SCALARS, tensor
from tensorir.reference import ABSENT, Interpreter, Outside
from tensorir.reference.scalars import SCALAR


def run(text, **arguments):
    return reference.run(ti.parse(text), **arguments)["out"]


def values(text, **arguments):
    return np.asarray(run(text, **arguments)).tolist()


def test_a_shift_to_the_right_reads_the_right_neighbour():
    text = "f(out: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>) { out ← ⟪I, 1⟫(x); }"
    assert values(text, x=np.array([10.0, 20.0, 30.0])) == [20.0, 30.0]


def test_the_variadic_shift_applies_its_last_offset_first():
    text = """f(out: tensor<float, V[0:2]>, x: tensor<float, C[0:3]>, V2E: tensor<int, V[0:2], _NB_E[0:1]>,
                E2C: tensor<int, E[0:2], _NB_C[0:1]>) { out ← ⟪V2E, 0, E2C, 0⟫(x); }"""
    tables = {"V2E": np.array([[1], [0]], np.int32), "E2C": np.array([[2], [1]], np.int32)}
    assert values(text, x=np.array([5.0, 6.0, 7.0]), **tables) == [6.0, 7.0]


TABLE = np.array([[0, 2], [1, -1], [-1, -1]], np.int32)
MESH = "V2E: tensor<int, V[0:3], _NB_E[0:2]>, x: tensor<float, E[0:3]>"


def test_reduce_skips_absent_slots_and_gives_init_where_all_are():
    text = f"f(out: tensor<float, V[0:3]>, {MESH}) {{ out ← reduce(+, 100.0)(⟪V2E⟫(x)); }}"
    assert values(text, x=np.array([1.0, 2.0, 4.0]), V2E=TABLE) == [105.0, 102.0, 100.0]


def test_a_slot_is_skipped_for_all_arguments_of_a_reduce_or_for_none():
    text = f"""f(out: tensor<float, V[0:3]>, {MESH}, w: tensor<float, V[0:3], _NB_0[0:2]>)
        {{ out ← reduce(λ(a: tensor<float, V[0:3]>, n: tensor<float, V[0:3]>, w_: tensor<float, V[0:3]>) →
                 a + w_, 0.0)(⟪V2E⟫(x), w); }}"""
    weights = np.array([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]])
    assert values(text, x=np.zeros(3), V2E=TABLE, w=weights) == [3.0, 4.0, 0.0]


def test_can_deref_is_false_where_the_table_holds_minus_one_and_guards():
    text = f"""f(out: tensor<float, V[0:3]>, {MESH})
        {{ out ← if can_deref(⟪V2E, 1⟫(x)) then ⟪V2E, 1⟫(x) else -1.0; }}"""
    assert values(text, x=np.array([1.0, 2.0, 4.0]), V2E=TABLE) == [4.0, -1.0, -1.0]


def test_an_output_that_may_be_absent_is_refused():
    text = f"f(out: tensor<float, V[0:3]>, {MESH}) {{ out ← ⟪V2E, 1⟫(x); }}"
    with pytest.raises(ti.DiagnosticError, match="may be absent: this shift finds no neighbour where V2E holds -1"):
        run(text, x=np.zeros(3), V2E=TABLE)


def test_absence_stands_beside_the_value_one_per_leaf():
    f = ti.parse(f"""f(out: tensor<(float, bool), V[0:3]>, {MESH})
        {{ out ← make_tuple(if can_deref(⟪V2E, 1⟫(x)) then ⟪V2E, 1⟫(x) else 0.0, can_deref(⟪V2E, 1⟫(x))); }}""")
    guarded = f.closures[0].value.args[0]
    interpreter = Interpreter(f, {"V2E": (TABLE,), "x": (np.array([1.0, 2.0, 4.0]),)})
    shifted = guarded.args[1]
    assert [interpreter.at(shifted, {"V": v}) for v in range(3)] == [4.0, ABSENT, ABSENT]
    pair = call("make_tuple", shifted, literal(True))
    assert interpreter.at(pair, {"V": 1}) == (ABSENT, True)


def test_scans_run_forward_and_backward_from_init():
    body = "λ(s: tensor<float>, x_: tensor<float>) → s × 2.0 + x_"
    head = "f(out: tensor<float, K[0:3]>, x: tensor<float, K[0:3]>)"
    x = np.array([1.0, 2.0, 3.0])
    assert values(f"{head} {{ out ← scan({body}, true, 1.0)(x); }}", x=x) == [3.0, 8.0, 19.0]
    assert values(f"{head} {{ out ← scan({body}, false, 1.0)(x); }}", x=x) == [25.0, 12.0, 5.0]


def test_a_scan_starts_where_its_arguments_do():
    text = """f(out: tensor<float, K[1:3]>, x: tensor<float, K[0:3]>, y: tensor<float, K[1:5]>)
        { out ← scan(λ(s: tensor<float>, a: tensor<float>, b: tensor<float>) → s + a + b, true, 0.0)(x, y); }"""
    assert values(text, x=np.array([100.0, 1.0, 2.0]), y=np.array([10.0, 20.0, 0.0, 0.0])) == [11.0, 33.0]


def test_scatter_puts_updates_in_the_order_of_over():
    text = """f(out: tensor<int, I[0:2]>, n: tensor<int, P[0:2], Q[0:2]>, u: tensor<int, P[0:2], Q[0:2]>)
        { out ← scatter(λ(old: tensor<int>, new: tensor<int>) → old × 10 + new, I, over: (%s), zero)(
            add_dim(I, 0, 2, 0), n, u); }"""
    n, u = np.array([[0, 0], [1, 0]], np.int32), np.array([[1, 2], [3, 4]], np.int32)
    assert values(text % "P, Q", n=n, u=u) == [124, 3]
    assert values(text % "Q, P", n=n, u=u) == [124, 3]
    n = np.array([[0, 0], [0, 9]], np.int32)
    assert values(text % "P, Q", n=n, u=u) == [123, 0]
    assert values(text % "Q, P", n=n, u=u) == [132, 0]


def test_sorting_is_stable_with_nan_last_both_ways_and_equal_zeros():
    text = """f(out: tensor<(float, int), I[0:5]>, x: tensor<float, I[0:5]>) { out ← sort(I, 1%s)(x, pos(I, x)); }"""
    x = np.array([0.0, np.nan, 1.0, -0.0, -1.0])
    assert run(text % "", x=x)[1].tolist() == [4, 0, 3, 2, 1]
    assert run(text % ", true", x=x)[1].tolist() == [2, 0, 3, 4, 1]


def test_a_loop_counts_from_zero_while_its_condition_holds():
    text = """f(out: tensor<int>) { out ← loop(0, %s)(λ(i: tensor<int>, a: tensor<int>) → a < 50,
        λ(i: tensor<int>, a: tensor<int>) → a × 2 + i, 1); }"""
    assert values(text % "100") == 58
    assert values(text % "3") == 12


def test_only_the_selected_branch_is_computed():
    text = """f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>)
        { out ← if pos(I, x) < 2 then gather(I)(x, pos(I, x) + 1) else 0.0; }"""
    assert values(text, x=np.array([1.0, 2.0, 3.0])) == [2.0, 3.0, 0.0]


def test_an_index_out_of_range_is_told_with_its_place():
    text = """f(out: tensor<float, I[0:3]>, x: tensor<float, J[0:2]>, n: tensor<int, I[0:3]>)
        { out ← gather(J)(x, n); }"""
    with pytest.raises(ti.DiagnosticError, match=r"R01.*J\[0:2\](.|\n)*at I = 2 it is 5"):
        run(text, x=np.zeros(2), n=np.array([0, 1, 5], np.int32))


def test_a_failed_assertion_says_where_first():
    text = """f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← assert_(x, x > 0.0, "dry"); }"""
    with pytest.raises(ti.DiagnosticError, match=r"R02.*dry(.|\n)*at I = 1"):
        run(text, x=np.array([1.0, 0.0, -1.0]))


def test_what_is_left_of_a_partly_written_output_is_kept_and_written_in_place():
    f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { out[I[1:3]] ← x; }")
    buffer = np.full(4, 9.0)
    assert reference.run(f, out=buffer, x=np.arange(4.0))["out"] is buffer
    assert buffer.tolist() == [9.0, 1.0, 2.0, 9.0]


def test_a_later_closure_reads_what_an_earlier_one_wrote():
    text = """f(t: tensor<float, I[0:3]>, out: tensor<float, I[0:2]>, x: tensor<float, I[0:3]>)
        { t ← x + 1.0; out ← ⟪I, 1⟫(t); }"""
    assert values(text, x=np.array([1.0, 2.0, 3.0])) == [3.0, 4.0]


def test_the_trace_tells_which_points_are_read():
    f = ti.parse("""f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:5]>, y: tensor<float, I[0:3]>)
        { out ← if pos(I, y) < 1 then ⟪I, 2⟫(x) else y; }""")
    given = {"x": np.zeros(5), "y": np.zeros(3)}
    assert reference.trace(f, **given) == {"out": set(), "x": {(2,)}, "y": {(1,), (2,)}}
    both = reference.trace(f, both=True, **given)
    assert both["x"] == {(2,), (3,), (4,)}
    assert both["y"] == {(0,), (1,), (2,)}


def test_there_is_no_value_outside():
    x, y = var("x", tensor("float", I=(0, 3))), var("y", tensor("float", I=(0, 3)))
    f = fencil("f", [y, x], [closure(y, x)])
    with pytest.raises(Outside, match=r"I = 3 is not in I\[0:3\]"):
        Interpreter(f, {"x": (np.zeros(3),)}).at(x, {"I": 3})


def test_deep_expressions_deep_functions_and_shared_ones_are_computed():
    x, y = var("x", tensor("float", I=(0, 2))), var("y", tensor("float", I=(0, 2)))
    deep = x
    for _ in range(10_000):
        deep = call("plus", deep, literal(1.0))
    shared = x
    for _ in range(60):
        shared = call("plus", shared, shared)
    nested = x
    for k in range(1_000):
        v = var(f"v{k}", x.type)
        nested = apply(function([v], call("plus", v, literal(1.0))), nested)
    for value, want in ((deep, 10_001.0), (shared, 2.0**60), (nested, 1_001.0)):
        f = fencil("f", [y, x], [closure(y, value)])
        assert reference.run(f, x=np.ones(2))["y"].tolist() == [want, want]


def test_the_oracle_is_a_backend():
    f = ti.parse("f(out: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>) { out ← -x; }")
    assert ti.compile(f, backend="reference")(x=np.ones(2))["out"].tolist() == [-1.0, -1.0]


INTEGERS = {
    "divides": lambda x, y, bits: int(Fraction(x, y)) if y else -1,
    "floordiv": lambda x, y, bits: x // y if y else -1,
    "rem": lambda x, y, bits: x - y * int(Fraction(x, y)) if y else x,
    "mod": lambda x, y, bits: x % y if y else x,
    "shift_left": lambda x, y, bits: x << y if 0 <= y < bits else 0,
    "shift_right": lambda x, y, bits: x >> y if 0 <= y < bits else -(x < 0),
    "popcount": lambda x, y, bits: (x % 2**bits).bit_count(),
    "clz": lambda x, y, bits: bits - (x % 2**bits).bit_length(),
}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64"])
def test_arithmetic_of_integers_is_that_of_pythons_integers(kind: str):
    limits, scalar = np.iinfo(kind), SCALARS[kind]
    ends = np.array([limits.min, limits.min + 1, limits.max, 0, 1, 2, 7, 8, *([-1, -7] if limits.min else [])], kind)
    for name, exact in INTEGERS.items():
        for x, y in product(ends, ends):
            found = SCALAR[name](scalar, *((x,) if name in ("popcount", "clz") else (x, y)))
            assert found == (exact(int(x), int(y), scalar.bits) - limits.min) % 2**scalar.bits + limits.min, name
