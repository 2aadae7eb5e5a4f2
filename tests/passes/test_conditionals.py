"""An `if` that one truth value decides: the branch that is taken is computed, checked and printed, and no other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from generate.examples import examples
from generate.profiles import OP_BY_OP, WHOLE
from generate.programs import programs
from generate.properties import check_compiled, check_op_by_op
from hypothesis import given, settings

import tensorir as ti
from tensorir.analysis import conditions
from tensorir.analysis.absence import analyse_absence

LARGE = """f(c: tensor<bool>, x: tensor<float, I[-3:20000]>, y: tensor<float, I[0:19000]>) {
  y ← let e = exp(x); if c then sin(⟪I, 1⟫(x)) + e else e × sqrt(e);
}"""
DATA = np.linspace(-2, 1, 20003)


def in_hlo(program, **arguments):
    with jax.enable_x64(True):
        return jax.jit(lambda a: program(**a)).lower(arguments).compile().as_text().count(" conditional(")


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(conditions, "WORTH", 0)
    monkeypatch.setattr(conditions, "PER_ELEMENT", 0)


@pytest.mark.parametrize("c", [True, False])
def test_the_branch_that_is_taken_is_computed(c):
    program = ti.compile(ti.parse(LARGE))
    e = np.exp(DATA[3:19003])
    want = e + np.sin(DATA[4:19004]) if c else e * np.sqrt(e)
    np.testing.assert_allclose(program(c=np.array(c), x=DATA)["y"], want, rtol=1e-14, atol=1e-15)
    assert in_hlo(program, c=jnp.array(c), x=DATA) == 1
    assert program.pipeline()["conditionals"].changed
    assert in_hlo(ti.compile(ti.parse(LARGE), passes=()), c=jnp.array(c), x=DATA) == 0


def test_what_both_branches_read_is_computed_before():
    f = ti.parse(LARGE)
    (choice,) = conditions.choices(f, analyse_absence(f, {})).values()
    assert [n.label or n.name for n in choice.shared] == ["e", "x"]


def test_choices_by_one_condition_are_made_at_once(always):
    f = ti.parse(
        """f(c: tensor<bool>, x: tensor<float, I[0:9]>, y: tensor<float, I[0:9]>, z: tensor<float>, w: tensor<float>) {
          y ← let s = sin(x); if c then s × s else x;
          z ← let s = sin(x); let t = if c then sum else 1.0; t × (if c then reduce(max, 0.0, I)(s) else t);
          w ← let e = exp(x); (if c then 5.0 else e[0]) - (if c then e[1] else 7.0) - (if ¬c then 2.0 else 1.0);
        }""".replace("sum", "reduce(+, 0.0, I)(s)")
        .replace("e[0]", "reduce(max, 0.0, I)(e)")
        .replace("e[1]", "reduce(min, 9.0, I)(e)")
    )
    program = ti.compile(f)
    x = np.linspace(-1, 2, 9)
    for c in (True, False):
        want = ti.reference.run(f, c=np.array(c), x=x)
        for name, got in program(c=np.array(c), x=x).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-14)
    assert in_hlo(program, c=jnp.array(c), x=x) == 3


def test_little_work_is_selected_from():
    program = ti.compile(ti.parse(LARGE.replace("20000", "30").replace("19000", "20")))
    assert in_hlo(program, c=jnp.array(True), x=DATA[:33]) == 0


def test_a_condition_with_dims_is_a_selection():
    program = ti.compile(ti.parse(LARGE.replace("tensor<bool>", "tensor<bool, I[0:19000]>")))
    assert in_hlo(program, c=jnp.array([True] * 19000), x=DATA) == 0


@pytest.mark.parametrize("mode", ["jit", "op by op"])
def test_a_check_concerns_the_branch_that_is_taken(mode):
    program = ti.compile(
        ti.parse(
            """f(i: tensor<int32>, x: tensor<float, I[0:5]>, y: tensor<float>) {
              y ← if i < 5 then gather(I)(x, i) else assert_(0.5, i < 8, "i is too large");
            }"""
        )
    )
    x = np.arange(5.0)
    with jax.disable_jit(mode == "op by op"):
        assert [float(program(i=np.int32(k), x=x)["y"]) for k in (4, 7)] == [4.0, 0.5]
        with pytest.raises(ti.DiagnosticError, match="i is too large"):
            program(i=np.int32(8), x=x)
        with pytest.raises(ti.DiagnosticError, match=r"an index leaves I\[0:5\][\s\S]*it is -1"):
            program(i=np.int32(-1), x=x)


def test_one_branch_prints(capfd):
    program = ti.compile(
        ti.parse('f(c: tensor<bool>, y: tensor<float>) { y ← if c then print("yes")(1.0) else print("no")(2.0); }')
    )
    program(c=np.array(False))
    jax.effects_barrier()
    assert capfd.readouterr().out == "no: 2.0\n"


def test_gradients_and_batches_go_through(always):
    program = ti.compile(ti.parse(LARGE.replace("20000", "30").replace("19000", "20")))

    def total(c, x):
        return jnp.sum(program(c=c, x=x)["y"] ** 2)

    def by_hand(c, x):
        e = jnp.exp(x[3:23])
        return jnp.sum(jnp.where(c, jnp.sin(x[4:24]) + e, e * jnp.sqrt(e)) ** 2)

    with jax.enable_x64(True):
        x = jnp.asarray(DATA[:33])
        for c in (jnp.array(True), jnp.array(False)):
            np.testing.assert_allclose(jax.grad(total, 1)(c, x), jax.grad(by_hand, 1)(c, x), rtol=1e-12)
            tangent = jax.jvp(lambda v, c=c: total(c, v), (x,), (x,))[1]
            np.testing.assert_allclose(tangent, jax.jvp(lambda v, c=c: by_hand(c, v), (x,), (x,))[1], rtol=1e-12)
        cs, xs = jnp.array([True, False]), jnp.stack([x, x + 1])
        np.testing.assert_allclose(jax.vmap(total)(cs, xs), jax.vmap(by_hand)(cs, xs), rtol=1e-12)


TABLES = """f(
  c: tensor<bool>, V2E: tensor<int, V[0:3], _NB_E[0:2]>, x: tensor<float, E[0:4]>, y: tensor<float, V[0:3]>
) {
  y ← if can_deref(⟪V2E, 1⟫(x)) then (if c then ⟪V2E, 1⟫(x) + 1.0 else 2.0) else 3.0;
}"""


def test_what_is_absent_in_one_branch_stays_absent(always):
    f = ti.parse(TABLES)
    x, table = np.arange(4.0), np.array([[0, 1], [2, -1], [3, 3]], np.int32)
    for c in (True, False):
        given_ = {"c": np.array(c), "x": x, "V2E": table}
        np.testing.assert_array_equal(ti.compile(f)(**given_)["y"], ti.reference.run(f, **given_)["y"])


def test_choices_inside_of_a_loop(always):
    f = ti.parse(
        """f(x: tensor<float, I[0:50]>, y: tensor<float, I[0:50]>) {
          y ← loop(0, 20)(λ(k: tensor<int32>, s: tensor<float, I[0:50]>) → true,
            λ(k: tensor<int32>, s: tensor<float, I[0:50]>) →
              if rem(k, 3) = 0 then sin(s) else (if rem(k, 3) = 1 then s × 1.5 else s + x), x);
        }"""
    )
    x = np.linspace(-1, 2, 50)
    np.testing.assert_allclose(ti.compile(f)(x=x)["y"], ti.reference.run(f, x=x)["y"], rtol=1e-13)

    def total(x):
        return jnp.sum(ti.compile(f)(x=x)["y"])

    def by_hand(x):
        s = x
        for k in range(20):
            s = (jnp.sin(s), s * 1.5, s + x)[k % 3]
        return jnp.sum(s)

    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(total)(jnp.asarray(x)), jax.grad(by_hand)(jnp.asarray(x)), rtol=1e-11)


def test_a_choice_that_decides_another_one_inside_of_a_function_is_made_apart_from_it():
    f = ti.parse(
        """f(c: tensor<bool>, n: tensor<int32>, x: tensor<float, I[0:5]>, y: tensor<float>) {
          y ← let t = if c then gather(I)(x, n) < 3.0 else false;
            loop(0, 4)(λ(k: tensor<int32>, s: tensor<float>) → true,
              λ(k: tensor<int32>, s: tensor<float>) → if t then s + gather(I)(x, k + n) else s - 1.0,
              if t then 1.0 else 0.0);
        }"""
    )
    program = ti.compile(f)
    x = np.arange(5.0)
    # 1 + (1 + 2 + 3 + 4) where the element is less than 3, and as many steps down where nothing is read
    assert program(c=np.array(True), n=np.int32(1), x=x)["y"] == 11
    assert program(c=np.array(False), n=np.int32(9), x=x)["y"] == -4
    with pytest.raises(ti.DiagnosticError, match=r"an index leaves I\[0:5\]"):
        program(c=np.array(True), n=np.int32(2), x=x)


CROSSED = """f(c: tensor<bool>, d: tensor<bool>, n: tensor<int>, x: tensor<float, I[0:9]>, y: tensor<float>) {
  y ← let a = if c then gather(I)(x, n) else 1.0;
      let b = if d then gather(I)(x, n + 1) else 2.0;
      (if c then gather(I)(x, n + 2) × b else 3.0) + (if d then gather(I)(x, n + 3) × a else 4.0) + a + b;
}"""


@pytest.mark.parametrize(("c", "d"), [(True, True), (True, False), (False, True), (False, False)])
def test_choices_by_two_conditions_that_need_each_other_are_made_in_an_order(c, d):
    x, n = np.linspace(1, 2, 9), 3
    a, b = x[n] if c else 1.0, x[n + 1] if d else 2.0
    want = (x[n + 2] * b if c else 3.0) + (x[n + 3] * a if d else 4.0) + a + b
    given = {"c": np.array(c), "d": np.array(d), "n": np.int32(n), "x": x}
    np.testing.assert_allclose(ti.compile(ti.parse(CROSSED))(**given)["y"], want, rtol=1e-14)


def test_what_both_branches_check_is_traced_once_however_long_the_chain_of_choices():
    steps = [f"let s{k + 1} = if gather(I)(c, {k}) then s{k} + 1.0 else s{k} × 2.0; " for k in range(40)]
    f = ti.parse(
        "f(a: tensor<bool>, c: tensor<bool, I[0:40]>, n: tensor<int32>, x: tensor<float, J[0:5]>, y: tensor<float>) "
        "{ y ← let s0 = gather(J)(x, n); " + "".join(steps) + "if a then s40 else 0.5; }"
    )
    program = ti.compile(f)
    given_ = {"c": np.arange(40) >= 2, "x": np.arange(5.0)}
    assert program(a=np.array(True), n=np.int32(3), **given_)["y"] == 3 * 4 + 38
    assert program(a=np.array(False), n=np.int32(7), **given_)["y"] == 0.5
    with pytest.raises(ti.DiagnosticError, match=r"an index leaves J\[0:5\]"):
        program(a=np.array(True), n=np.int32(7), **given_)


@pytest.mark.parametrize(
    "value",
    [
        # the inner choice, and one by the same condition that is needed in any case
        '(if c then (if d then gather(J)(x, n) else 1.0) else 0.0) + (if d then assert_(2.0, n > 0, "small") else 3.0)',
        # a fold whose function checks, which two choices read
        """let r = reduce(λ(s: tensor<float>, k: tensor<int32>) → s + gather(J)(x, k + n), 0.0, I)(i);
           (if c then r else 0.5) + (if c = d then r else 1.5)""",
    ],
)
def test_what_no_taken_branch_needs_is_not_checked(value):
    program = ti.compile(
        ti.parse(
            "f(c: tensor<bool>, d: tensor<bool>, n: tensor<int32>, i: tensor<int32, I[0:5]>, x: tensor<float, J[0:5]>, "
            "y: tensor<float>) { y ← " + value + "; }"
        )
    )
    given_ = {"x": np.arange(5.0), "n": np.int32(9), "d": np.array(True), "i": np.arange(5, dtype=np.int32)}
    assert program(c=np.array(False), **given_)["y"] == 2
    with pytest.raises(ti.DiagnosticError, match="an index leaves"):
        program(c=np.array(True), **given_)


@pytest.mark.usefixtures("always")
@settings(max_examples=examples(80))
@given(programs(WHOLE))
def test_compiled_programs_with_conditionals_agree_with_the_oracle(case):
    check_compiled(case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("always")
@settings(max_examples=examples(50))
@given(programs(OP_BY_OP, outputs=1, depth=3))
def test_conditionals_agree_with_the_oracle_op_by_op(case):
    check_op_by_op(case)
