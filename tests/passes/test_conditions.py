"""Conditions as selects, and loops that run under one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from generate.examples import examples
from generate.gradients import check_adjoint
from generate.profiles import OP_BY_OP, SMOOTH, WHOLE
from generate.programs import programs
from generate.properties import check_compiled, check_op_by_op
from hypothesis import given, settings

import tensorir as ti
from tensorir.analysis import conditions
from tensorir.analysis.absence import analyse_absence
from tensorir.passes import conditionals
from tensorir.passes.closures import Materialise
from tensorir.passes.restrict import NeededPoints

# Choices nested deep, or that share what they check


HEAD = """f(
  c: tensor<bool, I[0:{n}]>, d: tensor<bool, I[0:{n}]>, n: tensor<int32>, x: tensor<float, J[0:5]>, y: tensor<float>
) {{ y ← {value}; }}"""


def program(value, n):
    return ti.parse(HEAD.format(value=value, n=n))


def chain(n):
    """s0 is needed in two branches of two choices, of which each is needed in two branches of two choices, ..."""
    choice = "if gather(I)(c, {k}) then s{k} + 1.0 else (if gather(I)(d, {k}) then s{k} × 2.0 else 0.25)"
    lets = [f"let s{k + 1} = {choice.format(k=k)};" for k in range(n)]
    return program(f"let s0 = gather(J)(x, n); {' '.join(lets)} s{n}", n)


def nest(n, innermost="gather(J)(x, n)", otherwise="0.5"):
    value = innermost
    for k in reversed(range(n)):
        value = f"(if gather(I)(c, {k}) then {value} + 1.0 else {otherwise})"
    return program(value, n)


def truths(n, wrong=()):
    found = np.ones(n, bool)
    found[list(wrong)] = False
    return found


@pytest.fixture
def all_flat(monkeypatch):
    """Every choice of one truth value is a conditional, and every conditional is made flat."""
    monkeypatch.setattr(conditions, "WORTH", 0)
    monkeypatch.setattr(conditions, "PER_ELEMENT", 0)
    monkeypatch.setattr(conditionals, "WORTH", 1)
    monkeypatch.setattr(conditionals, "OFTEN", 0)
    monkeypatch.setattr(conditionals, "DEEPEST", 0)


def test_what_branches_of_different_choices_check_is_traced_once():
    compiled = ti.compile(chain(40))
    given_ = {"x": np.arange(5.0), "d": truths(40)}
    assert compiled(c=truths(40, [3]), n=np.int32(3), **given_)["y"] == (3 + 3) * 2 + 36
    assert compiled.jaxpr().count("5]") < 20, "x is read many times"
    # the value is needed if the first condition or the second one holds
    given_ = {"x": np.arange(5.0), "n": np.int32(5)}
    assert compiled(c=truths(40, [7]), d=truths(40, [7]), **given_)["y"] == 0.25 + 32
    with pytest.raises(ti.DiagnosticError, match=r"an index leaves J\[0:5\][\s\S]*it is 5"):
        compiled(c=truths(40, [7]), d=truths(40), **given_)


def test_two_hundred_choices_inside_of_each_other_compile_and_run():
    compiled = ti.compile(nest(200))
    given_ = {"x": np.arange(5.0), "d": truths(200)}
    assert compiled(c=truths(200), n=np.int32(3), **given_)["y"] == 203
    assert compiled(c=truths(200, [150]), n=np.int32(9), **given_)["y"] == 150.5
    with pytest.raises(ti.DiagnosticError, match=r"an index leaves J\[0:5\][\s\S]*it is 9"):
        compiled(c=truths(200), n=np.int32(9), **given_)


def test_few_choices_inside_of_each_other_stay_as_they_are():
    text = ti.compile(nest(8)).jaxpr()
    assert text.count("cond[") == 8


@pytest.mark.parametrize("mode", ["jit", "op by op"])
def test_what_is_deep_in_a_nest_is_neither_computed_nor_differentiated_elsewhere(mode):
    endless = """loop(0)(λ(k: tensor<int32>, s: tensor<float>) → s > 0.0, λ(k: tensor<int32>, s: tensor<float>) → s,
      gather(J)(x, n))"""
    compiled = ti.compile(nest(20, f"(if gather(I)(d, 0) then sqrt(gather(J)(x, 0)) else {endless})"))

    def value(x, n, c, d):
        return compiled(x=x, n=n, c=c, d=d)["y"]

    with jax.enable_x64(True), jax.disable_jit(mode == "op by op"):
        x = jnp.arange(5.0)
        no, yes = (jnp.asarray(truths(20, wrong)) for wrong in ([11], []))
        assert value(x, jnp.int32(3), no, yes) == 11.5
        assert value(x, jnp.int32(3), yes, yes) == 20
        assert value(x, jnp.int32(0), yes, no.at[0].set(False)) == 20
        if mode == "jit":
            # the slope of the root is infinite at 0
            slope = jax.jvp(lambda v: value(v, jnp.int32(0), no, yes), (x,), (x + 1,))[1]
            assert slope == 0


def test_the_gradient_of_a_nest_is_that_of_the_branch_that_is_taken():
    compiled = ti.compile(nest(20, "sqrt(gather(J)(x, n))", otherwise="gather(J)(x, 1)"))
    with jax.enable_x64(True):
        for c, want in ((truths(20), [np.inf, 0, 0, 0, 0]), (truths(20, [5]), [0, 1, 0, 0, 0])):
            gradient = jax.grad(lambda x, c=c: compiled(x=x, n=jnp.int32(0), c=jnp.asarray(c), d=jnp.asarray(c))["y"])(
                jnp.arange(5.0)
            )
            np.testing.assert_array_equal(gradient, want)


@pytest.mark.usefixtures("all_flat")
@pytest.mark.parametrize("mode", ["jit", "op by op"])
@pytest.mark.parametrize(
    ("value", "needs"),
    [
        # checked twice, of which each may be needed without the other
        (
            """let v = gather(J)(x, n); (if gather(I)(c, 0) then v else 0.0) + (if gather(I)(c, 1) then v else 0.0)
               + (if gather(I)(c, 2) then (if gather(I)(c, 3) then 0.0 else v) else 0.0)""",
            lambda c: c[0] or c[1] or (c[2] and not c[3]),
        ),
        # the condition of an inner choice is checked
        (
            """let t = gather(J)(x, n) > 0.0;
               if gather(I)(c, 0) then (if gather(I)(c, 1) then (if t then 1.0 else 2.0) else 0.0) else 0.0""",
            lambda c: c[0] and c[1],
        ),
        # needed where another is, which is needed where the first one is
        (
            """let v = gather(J)(x, n); let t = assert_(gather(I)(c, 3), v > -1.0, "low");
               let u = v + (if t then 1.0 else 0.0);
               (if gather(I)(c, 0) then (if t then v else 0.0) else 0.0)
               + (if gather(I)(c, 1) then (if u > 0.0 then (if t then u else 0.0) else u) else 0.0)""",
            lambda c: c[0] or c[1],
        ),
        # whether one value is needed depends on the other, and the other way round
        (
            """let v = gather(J)(x, n); let t = gather(I)(c, n - 3);
               (if gather(I)(c, 1) then (if t then v else 0.0) else 0.0)
               + (if gather(I)(c, 2) then (if v > 0.0 then (if t then 1.0 else 2.0) else 3.0) else 4.0)""",
            lambda c: (c[1] and c[4]) or c[2],
        ),
        # inside of a function, and around it
        (
            """let v = gather(J)(x, n);
               (if gather(I)(c, 0) then loop(0, 3)(λ(k: tensor<int32>, s: tensor<float>) → true,
                 λ(k: tensor<int32>, s: tensor<float>) → if s > 100.0 then s + gather(J)(x, n + k)
                   else (if gather(I)(c, 1) then s + v else s), 0.0) else 0.0)
               + (if gather(I)(c, 2) then v else 0.0)""",
            lambda c: (c[0] and c[1]) or c[2],
        ),
    ],
)
def test_a_check_counts_where_its_value_is_needed(value, needs, mode):
    f = program(value, 5)
    compiled = ti.compile(f)
    rng = np.random.default_rng(0)
    with jax.disable_jit(mode == "op by op"):
        for _ in range(12):
            given_ = {"c": rng.random(5) < 0.5, "d": truths(5), "x": np.arange(5.0)}
            for n in (3, 7):
                if n == 3 or not needs(given_["c"]):
                    want = ti.reference.run(f, n=np.int32(n), **given_)["y"]
                    assert compiled(n=np.int32(n), **given_)["y"] == want
                else:
                    with pytest.raises(ti.DiagnosticError, match="an index leaves"):
                        compiled(n=np.int32(n), **given_)


@pytest.mark.usefixtures("all_flat")
def test_what_is_needed_may_depend_on_what_was_written():
    compiled = ti.compile(
        ti.parse(
            """f(c: tensor<bool>, n: tensor<int32>, x: tensor<float, J[0:5]>, y: tensor<float>, z: tensor<float>) {
              y ← if c then gather(J)(x, n) else 0.5;
              z ← (if y > 1.0 then gather(J)(x, n) else 0.0) + (if c then 1.0 else gather(J)(x, n + 1));
              y ← (if y > 1.0 then gather(J)(x, n) else 0.0) + (if z > 5.0 then gather(J)(x, n + 1) else 0.0);
            }"""
        )
    )
    for c, n in ((True, 3), (False, 3), (True, 1), (False, 1)):
        given_ = {"c": np.array(c), "n": np.int32(n), "x": np.arange(5.0)}
        got = compiled(**given_)
        y = n if c else 0.5
        z = (n if y > 1 else 0) + (1 if c else n + 1)
        assert (got["y"], got["z"]) == ((n if y > 1 else 0) + (n + 1 if z > 5 else 0), z)
    # needed for y > 1 only, which does not hold
    assert compiled(c=np.array(True), n=np.int32(4), x=np.zeros(5))["z"] == 1


@pytest.mark.usefixtures("all_flat")
def test_where_a_condition_is_absent_nothing_is_needed():
    f = ti.parse(
        """f(V2E: tensor<int, V[0:3], _NB_E[0:2]>, b: tensor<bool, E[0:4]>, m: tensor<int32>, n: tensor<int32>,
             x: tensor<float, J[0:5]>, y: tensor<float>) {
          y ← let t = gather(V)(⟪V2E, 1⟫(b), m); let v = gather(J)(x, n);
            if can_deref(t) then (if t then v + sqrt(v) else 7.0) else (if m = 2 then v else 4.0);
        }"""
    )
    compiled = ti.compile(f)
    given_ = {"b": np.array([True, True, False, True]), "x": np.arange(5.0)}
    for last in (0, -1, 2):
        table = np.array([[0, 1], [2, last], [3, -1]], np.int32)
        for m in (0, 1, 2):
            all_ = {**given_, "V2E": table, "m": np.int32(m), "n": np.int32(3)}
            assert compiled(**all_)["y"] == ti.reference.run(f, **all_)["y"]
    assert compiled(**given_, V2E=np.full((3, 2), -1, np.int32), m=np.int32(1), n=np.int32(9))["y"] == 4


@pytest.mark.usefixtures("all_flat")
def test_a_batch_has_its_own_checks_for_each_element():
    choice = "if gather(I)(d, 0) then gather(J)(x, n) else 0.5"
    compiled = ti.compile(program(f"if gather(I)(c, 0) then ({choice}) else 0.25", 1))

    def value(c, n):
        return compiled(c=c, d=jnp.array([True]), n=n, x=jnp.arange(5.0))["y"]

    with jax.enable_x64(True):
        cs = jnp.array([[True], [False]])
        np.testing.assert_array_equal(jax.vmap(value)(cs, jnp.array([3, 9], np.int32)), [3, 0.25])


@pytest.mark.usefixtures("all_flat")
def test_lines_are_printed_in_order(capfd):
    f = """f(c: tensor<bool>, d: tensor<bool>, y: tensor<float>) {
      y ← if c then print("a")(1.0) + (if d then print("b")(2.0) else 0.0) + print("c")(3.0) else print("d")(4.0); }"""
    ti.compile(ti.parse(f))(c=np.array(True), d=np.array(True))
    jax.effects_barrier()
    assert capfd.readouterr().out == "a: 1.0\nb: 2.0\nc: 3.0\n"


@pytest.mark.usefixtures("all_flat")
@settings(max_examples=examples(60))
@given(programs(WHOLE))
def test_compiled_programs_that_are_flat_agree_with_the_oracle(case):
    check_compiled(case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("all_flat")
@settings(max_examples=examples(40))
@given(programs(OP_BY_OP, outputs=1, depth=3))
def test_flat_programs_agree_with_the_oracle_op_by_op(case):
    check_op_by_op(case)


@pytest.mark.usefixtures("all_flat")
@settings(max_examples=examples(30))
@given(programs(SMOOTH, outputs=1))
def test_forward_and_reverse_mode_of_flat_programs_are_adjoint(case):
    check_adjoint(case)


# An `if` that one truth value decides

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


@pytest.mark.parametrize("c", [True, False])
def test_what_branches_share_may_have_the_name_of_a_parameter(c, always):
    @ti.field_operator
    def bent(x, c):
        first = x
        x = ti.sin(x)
        return x, ti.where(c, ti.exp(x) * first, first - x)

    x = np.linspace(-1, 2, 9)
    fields = ti.as_field(["I"], x), ti.as_field([], np.array(c))
    assert "cond(" in str(conditionals.Conditionals().run(bent.fencil(*fields)))
    sines, found = bent(*fields)
    np.testing.assert_allclose(sines.data, np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(found.data, np.exp(np.sin(x)) * x if c else x - np.sin(x), rtol=1e-14)


WITH_SHIFTS = """f(c: tensor<bool>, x: tensor<float, I[0:9]>, y: tensor<float, I[1:9]>, z: tensor<float>) {
  y ← let s = sin(x); if c then s × ⟪I, -1⟫(s) else x;
  z ← let s = sin(x); let t = if c then reduce(+, 0.0, I)(s) else 1.0; t × (if c then reduce(max, 0.0, I)(s) else t);
}"""
MADE = {
    "cond": [conditionals.Conditionals()],
    "cond of fewer points": [conditionals.Conditionals(), NeededPoints()],
    "materialise": [Materialise(min_per_byte=0.01)],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("c", [True, False])
def test_the_oracle_has_what_passes_put_in(name, c, always):
    f, arguments = ti.parse(WITH_SHIFTS), {"c": np.array(c), "x": np.linspace(-1, 2, 9)}
    made = functools.reduce(lambda program, step: step.run(program), MADE[name], f)
    assert f"{name.split()[0]}(" in str(made)
    want = ti.reference.run(f, **arguments)
    for output, got in ti.reference.run(made, **arguments).items():
        np.testing.assert_array_equal(got, want[output])


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
