"""Builtins that move elements: updates, masks, empty intervals, reads in loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorir as ti
from lowering.calls import executable
from tensorir.analysis.annotations import in_place_updates

# Parts of arrays that are written in their own memory, and those that are not


HEAD = "f(u: tensor<float, I[0:9], J[-1:6]>, v: tensor<float, I[0:9], J[-1:6]>) {{ {} }}"
IN_PLACE = {
    "what is read at the same point": "u[I[1:8]] ← u × u + ⟪I, 1⟫(v) - v;",
    "what is not read": "u[I[1:8], J[0:5]] ← 2.0 × ⟪J, 1⟫(v);",
    "after a closure that computes": "u ← 3.0 × v; u[I[1:8]] ← u × v;",
}
ANEW = {
    "what is read around": "u[I[1:8]] ← ⟪I, 1⟫(u) - ⟪I, -1⟫(u);",
    "the same as another": "u ← v; u[I[1:8], J[0:5]] ← ⟪I, 1⟫(v) + u;",
    "a column of it": "u[I[1:8]] ← v × gather(I)(u, 3);",
}


@pytest.mark.parametrize("name", [*IN_PLACE, *ANEW])
def test_a_part_is_written_in_place_where_only_its_own_points_are_read(name):
    f = ti.parse(HEAD.format((IN_PLACE | ANEW)[name]))
    c = ti.compile(f)
    assert bool(in_place_updates(f)) == (name in IN_PLACE)
    assert ("dynamic_update_slice" in c.stablehlo()) == (name in IN_PLACE)
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(9, 7)), rng.normal(size=(9, 7))
    np.testing.assert_allclose(c(u=u, v=v)["u"], ti.reference.run(f, u=u, v=v)["u"], rtol=1e-13)


@pytest.mark.parametrize("name", IN_PLACE)
def test_slopes_of_a_part_that_is_written_in_place_are_those_of_the_selection(name):
    f = ti.parse(HEAD.format(IN_PLACE[name]))
    c, rng = ti.compile(f), np.random.default_rng(1)
    needed = {p.name for p in f.inputs}
    u, v, du, dv, w = (rng.normal(size=(9, 7)) for _ in range(5))
    with jax.enable_x64(True):

        @jax.jit
        def run(u, v):
            return c(v=v, **({"u": u} if "u" in needed else {}))["u"]

        _, tangent = jax.jvp(run, (jnp.asarray(u), jnp.asarray(v)), (jnp.asarray(du), jnp.asarray(dv)))
        cu, cv = jax.vjp(run, jnp.asarray(u), jnp.asarray(v))[1](jnp.asarray(w))
        h = 1e-6
        above, below = (np.asarray(run(u + s * du, v + s * dv)) for s in (h, -h))
        tangent, cu, cv = map(np.asarray, (tangent, cu, cv))
    np.testing.assert_allclose(tangent, (above - below) / (2 * h), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(np.sum(w * tangent), np.sum(cu * du) + np.sum(cv * dv), rtol=1e-12)


# A value may be the same along a dim along which it is absent at some points

SHIFTED_AGAIN = """
f(out: tensor<float, I[0:2]>, one: tensor<float>, T: tensor<int, V[0:3], _NB_E[0:1]>,
  S: tensor<int, I[0:2], _NB_V[0:2]>) {
  out ← let held = shift_apply(0)(⟪T⟫(add_dim(E, 0, 4, one)));
        reduce(+, 0.0)(⟪S⟫(held));
}"""

FOLDED_WITH_MORE = """
f(out: tensor<float, I[0:3]>, one: tensor<float>, x: tensor<float, E[0:4]>, T: tensor<int, I[0:3], _NB_E[0:2]>) {
  out ← reduce(λ(a: tensor<float, I[0:3]>, y: tensor<float, I[0:3]>, z: tensor<float>) → a + y × sqrt(z), 0.0)(
    ⟪T⟫(x), add_dim(_NB_0, 0, 2, one));
}"""

CASES = {
    "shifted again": (
        SHIFTED_AGAIN,
        {"T": np.array([[1], [-1], [3]]), "S": np.array([[0, 1], [1, 1]])},
        {"one": np.array(2.0)},
        [2.0, 0.0],
    ),
    "folded beside one with fewer": (
        FOLDED_WITH_MORE,
        {"T": np.array([[0, 1], [2, -1], [-1, -1]])},
        {"one": np.array(4.0), "x": np.array([1.0, 2.0, 3.0, 5.0])},
        [6.0, 6.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bound", [True, False])
def test_the_mask_is_read_where_the_value_is_not(name, bound):
    text, tables, given, wanted = CASES[name]
    f = ti.parse(text)
    assert ti.reference.run(f, **given, **tables)["out"].tolist() == wanted
    run = ti.compile(f.bind(**tables)) if bound else lambda **a: ti.compile(f)(**a, **tables)
    assert run(**given)["out"].tolist() == wanted
    with jax.enable_x64(True):
        slope = jax.grad(lambda one: run(**{**given, "one": one})["out"].sum())(jnp.asarray(given["one"]))
        h = 1e-6
        ahead, behind = (
            ti.reference.run(f, **{**given, "one": given["one"] + s}, **tables)["out"].sum() for s in (h, -h)
        )
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-6)


# Builtins that move elements, on operands that lack dims of their type or have more points

PARAMETERS = (
    "x: tensor<float, I[0:6], J[0:3]>, w: tensor<float, I[-3:9], J[-1:4]>, v: tensor<float, J[0:3]>, "
    "u: tensor<float, I[0:6]>"
)
OPERANDS = {
    "whole": "x",
    "lacks the first dim": "add_dim(I, 0, 6, v)",
    "lacks the last dim": "add_dim(J, 0, 3, u)",
    "lacks both dims": "add_dim(I, 0, 6, add_dim(J, 0, 3, 2.0))",
    "part of a larger one": "w[I[0:6], J[0:3]]",
    "has more points than its parameter": "(λ(a: tensor<float, I[0:6], J[0:3]>) → a)(w)",
    "has more points and lacks a dim": "add_dim(J, 0, 3, ⟪I, 1⟫(add_dim(I, -2, 8, 3.0))[I[0:6]])",
}
FORMS = {
    "split_dim, first": ("A[0:3], B[0:2], J[0:3]", "split_dim(I, A, B, 2)({})"),
    "split_dim, last": ("I[0:6], A[0:1], B[0:3]", "split_dim(J, A, B, 3)({})"),
    "split_dim of an interval from elsewhere": (
        "A[-1:2], B[0:2], J[0:3]",
        "split_dim(I, A, B, 2)((⟪I, 2⟫({}))[I[-2:4]])",
    ),
    "merge_dims": ("K[0:18]", "merge_dims(I, J, K)({})"),
    "merge_dims, the other way": ("K[0:18]", "merge_dims(J, I, K)({})"),
    "merge_dims of a split": ("I[0:6], J[0:3]", "merge_dims(A, B, I)(split_dim(I, A, B, 3)({}))"),
    "rename": ("K[0:6], I[0:3]", "rename(I → K, J → I)({})"),
    "shift": ("I[-1:5], J[2:5]", "⟪J, -2⟫(⟪I, 1⟫({}))"),
    "concat": ("I[0:12], J[0:3]", "concat({0}, ⟪I, -6⟫(2.0 × {0}))"),
    "concat with what is whole": ("I[0:12], J[0:3]", "concat({}, ⟪I, -6⟫(x))"),
    "update": ("I[0:6], J[0:3]", "update(x, ({})[I[1:4]])"),
    "update of it": ("I[0:6], J[0:3]", "update({}, x[I[1:4], J[1:2]])"),
    "sort": ("I[0:6], J[0:3]", "sort(I, 1)({})"),
    "reduce": ("J[0:3]", "reduce(+, 1.0, I)({})"),
    "reduce, last": ("I[0:6]", "reduce(max, -inf, J)({})"),
    "scan": ("I[0:6], J[0:3]", "scan(+, true, 1.0, I)({})"),
    "scan, downwards": ("I[0:6], J[0:3]", "scan(+, false, 1.0, J)({})"),
    "gather": ("P[0:4], J[0:3]", "gather(I, clamp)({}, 2 × pos(P, add_dim(P, 0, 4, 0.0)))"),
    "gather or zero": ("P[0:4], J[0:3]", "gather(I, zero)({}, 3 × pos(P, add_dim(P, 0, 4, 0.0)) - 2)"),
    "gather at a constant": ("J[0:3]", "gather(I, clamp)({}, 7)"),
    "window": ("I[0:6]", "reduce(max, -inf, R)(gather(I, J, zero)({}, pos(I, u) + pos(R, add_dim(R, 0, 2, 0.0)), 1))"),
    "squares": ("J[0:3]", "reduce(+, 0.0, I)({0} × {0})"),
    "contract": ("J[0:3]", "contract(float, I)({}, u)"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_moves_elements_takes_operands_in_every_layout(form: str):
    dims, text = FORMS[form]
    outputs = "".join(f"o{k}: tensor<float, {dims}>, " for k in range(len(OPERANDS)))
    closures = "\n".join(f"o{k} ← {text.format(x)};" for k, x in enumerate(OPERANDS.values()))
    p = ti.parse(f"f({outputs}{PARAMETERS}) {{\n{closures}\n}}")
    rng = np.random.default_rng(3)
    arrays = {q.name: rng.integers(-9, 9, q.type.dims.shape).astype(np.float64) for q in p.inputs}
    results = p(**arrays)
    for output, wanted in ti.reference.run(p, **arrays).items():
        np.testing.assert_array_equal(np.asarray(results[output]), wanted, err_msg=output)


# Intervals without points are legal

E = np.zeros(0)
NO_INDEX = np.zeros(0, np.int32)
CASES_INTERVALS = {
    "a whole is cut to nothing": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:5]>) { o ← x; }",
        {"x": np.ones(5)},
    ),
    "arithmetic on nothing": ("f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:0]>) { o ← x + 1.0; }", {"x": E}),
    "rows of nothing": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, A[0:3], B[0:0]>) { o ← merge_dims(A, B, I)(x); }",
        {"x": np.zeros((3, 0))},
    ),
    "a fold over nothing": ("f(o: tensor<float>, x: tensor<float, I[0:0]>) { o ← reduce(+, 1.5, I)(x); }", {"x": E}),
    "a recurrence without levels": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:0]>) { o ← scan(λ(s, a) → s + a, true, 0.0, I)(x); }",
        {"x": E},
    ),
    "a part without points": (
        "f(o: tensor<float, I[0:5]>, x: tensor<float, I[0:5]>) { o[I[2:2]] ← x + 1.0; }",
        {"o": np.ones(5), "x": np.ones(5)},
    ),
    "an interior without points": (
        "f(o: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { o ← x; o[I[1:n-1]] ← 2.0 × x; }",
        {"x": np.ones(2)},
    ),
    "no indices": (
        "f(o: tensor<float, P[0:0]>, x: tensor<float, I[0:5]>, i: tensor<int, P[0:0]>) { o ← gather(I)(x,i); }",
        {"x": np.ones(5), "i": NO_INDEX},
    ),
    "nothing to read": (
        "f(o: tensor<float, P[0:2]>, x: tensor<float, I[0:0]>, i: tensor<int, P[0:2]>) { o ← gather(I, zero)(x,i); }",
        {"x": E, "i": np.zeros(2, np.int32)},
    ),
    "a table without neighbours": (
        "f(o: tensor<float, V[0:3]>, x: tensor<float, E[0:2]>, T: tensor<int, V[0:3], _NB_E[0:0]>) { "
        "o ← reduce(+, 2.0)(⟪T⟫(x)); }",
        {"x": np.ones(2), "T": np.zeros((3, 0), np.int32)},
    ),
    "nothing to sort": (
        "f(o: tensor<(float,int), I[0:0]>, x: tensor<float, I[0:0]>) { o ← sort(I, 1)(x, pos(I, x)); }",
        {"x": E},
    ),
    "no updates": (
        "f(o: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>, i: tensor<int, P[0:0]>, u: tensor<float,P[0:0]>) { "
        "o ← scatter(+, I, over: (P))(x, i, u); }",
        {"x": np.ones(3), "i": NO_INDEX, "u": E},
    ),
    "nothing is carried": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:0]>) { "
        "o ← loop(0, 3)(λ(i: tensor<int>, a: tensor<float, I[0:0]>) → true, "
        "λ(i: tensor<int>, a: tensor<float, I[0:0]>) → a + 1.0, x); }",
        {"x": E},
    ),
}


@pytest.mark.parametrize("case", CASES_INTERVALS)
def test_empty_intervals_give_what_the_oracle_gives(case):
    text, arguments = CASES_INTERVALS[case]
    f = ti.parse(text)
    got, expected = (
        run(**{n: v.copy() for n, v in arguments.items()}) for run in (f, lambda **a: ti.reference.run(f, **a))
    )
    assert list(got) == list(expected)
    for name in got:
        for a, b in zip(np.atleast_1d(got[name]), np.atleast_1d(expected[name]), strict=True):
            np.testing.assert_array_equal(a, b)


ELSEWHERE = {
    "a copy": "f(y: tensor<float, I[n:n]>, x: tensor<float, I[0:0]>, z: tensor<float, I[0:n]>) { y ← x; }",
    "before it": "f(y: tensor<float, I[-n:-n]>, x: tensor<float, I[0:0]>, z: tensor<float, I[0:n]>) { y ← x + 1.0; }",
    "a shift": "f(y: tensor<float, I[n:n]>, x: tensor<float, I[0:0]>, z: tensor<float, I[0:n]>) { y ← ⟪I, 1⟫(x); }",
    "a sum": "f(y: tensor<float, I[1:n-1]>, x: tensor<float, I[0:0]>, z: tensor<float, I[0:n]>) { y ← x + z; }",
    "a choice": "f(y: tensor<float, I[1:n-1]>, x: tensor<float, I[0:0]>, z: tensor<float, I[0:n]>) "
    "{ y ← if z > 0.0 then x else z; }",
    "a scan": "f(y: tensor<float, I[n:n], K[0:4]>, x: tensor<float, I[0:0], K[0:4]>, z: tensor<float, I[0:n]>) "
    "{ y ← scan(+, true, 0.0, K)(x); }",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_empty_input_may_stand_anywhere(name: str):
    template = ti.parse(ELSEWHERE[name])
    x = np.ones((0, 4)) if name == "a scan" else np.ones(0)
    for run in (template, lambda **given: ti.reference.run(template, **given)):
        assert run(x=x, z=np.ones(2))["y"].size == 0


# What several loops read through neighbour tables

RNG = np.random.default_rng(5)
TABLE = np.stack([RNG.permutation(40)[:3] for _ in range(30)]).astype(np.int32)
HOLES = np.where(RNG.random(TABLE.shape) < 0.2, -1, TABLE).astype(np.int32)
PARAMS = "a: tensor<float, V[0:30]>, x: tensor<float, E[0:40], K[0:5]>, T: tensor<int, V[0:30], _NB_E[0:3]>"
RESULTS = "u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>"
TWO = f"""f({RESULTS}, {PARAMS}) {{
  let near = ⟪T⟫(x);
  u ← reduce(+, 0.0)(near × near);
  w ← reduce(max, -inf)(near) × a; }}"""
READ_TWICE = {
    "two folds": TWO,
    "what is dear": f"""f({RESULTS}, {PARAMS}) {{
      let sums = reduce(+, 0.0)(⟪T⟫(x) × ⟪T⟫(x + 1.0));
      u ← sums × a; w ← exp(0.1 × sums); }}""",
    "a result": f"""f({RESULTS}, {PARAMS}) {{
      let first = reduce(+, 0.0)(⟪T⟫(x)) - 2.0;
      u ← first × a; w ← first; }}""",
    "operands of a scan": f"""f({RESULTS}, {PARAMS}) {{
      let near = ⟪T⟫(x);
      u ← scan(λ(s: tensor<float, V[0:30]>, p: tensor<float, V[0:30]>, q: tensor<float, V[0:30]>) → p × s + q,
        true, 0.0)(reduce(+, 0.0)(near), reduce(max, -9.0)(near));
      w ← reduce(min, inf)(near); }}""",
}


def given():
    return {"a": np.linspace(1.0, 2.0, 30), "x": np.random.default_rng(0).normal(size=(40, 5))}


@pytest.mark.parametrize("name", READ_TWICE)
@pytest.mark.parametrize("table", [TABLE, HOLES], ids=["full", "with holes"])
def test_several_loops_read_the_same_neighbours(name, table, monkeypatch):
    f = ti.parse(READ_TWICE[name]).bind(T=table)
    wanted = ti.reference.run(f, **given())
    for least in (executable.WORTH_A_GRID, 0):
        monkeypatch.setattr(executable, "WORTH_A_GRID", least)
        for result, found in ti.compile(f)(**given()).items():
            np.testing.assert_allclose(found, wanted[result], rtol=1e-12)


def gathers(f, **options):
    """Those that are left when XLA is through with a program."""
    return ti.compile(f, **options).hlo().count(" gather(")


def test_xla_reads_the_same_neighbours_in_each_loop_for_itself():
    f = ti.parse(TWO).bind(T=HOLES)
    assert (gathers(f), gathers(f, without="reads_per_loop")) == (6, 3)
    f = ti.parse(READ_TWICE["operands of a scan"]).bind(T=HOLES)
    assert gathers(f, without="native_kernels") == 9


def test_what_takes_many_gathers_is_stored_for_the_loops_that_read_it():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, v: tensor<float, V[0:30], K[0:5]>,
      w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let sums = reduce(+, 0.0)(⟪T⟫(x) × ⟪T⟫(x + 1.0));
      u ← sums + 1.0; v ← sums × a; w ← exp(sums); }}"""
    f = ti.parse(text).bind(T=TABLE)
    assert gathers(f) == 6
    (row,) = ti.compile(f).plan()["reads_per_loop"]
    # two loops would do six gathers again, where storing takes three passes of reading and one of writing
    assert (row.taken, row.value, row.threshold.limit) == (False, 6 * 2 / 5, 1.0)


def test_what_is_checked_is_checked_once():
    text = f"""f(u: tensor<float, V[0:30], K[0:5]>, w: tensor<float, V[0:30], K[0:5]>, {PARAMS}) {{
      let near = assert_(reduce(+, 0.0)(⟪T⟫(x)), a > 0.0, "negative");
      u ← near + 1.0; w ← near × a; }}"""
    c = ti.compile(ti.parse(text).bind(T=TABLE))
    arguments = given()
    np.testing.assert_allclose(c(**arguments)["u"], arguments["x"][TABLE].sum(1) + 1.0, rtol=1e-13)
    with pytest.raises(ti.DiagnosticError) as refused:
        c(**{**arguments, "a": -arguments["a"]})
    assert str(refused.value).count("error[R02]") == 1


def test_batches_and_gradients_go_through_tables_that_are_read_again():
    f = ti.parse(TWO).bind(T=HOLES)
    c = ti.compile(f)
    arguments = given()
    x = arguments.pop("x")

    def total(x):
        found = c(x=x, **arguments)
        return jnp.sum(found["u"]) + jnp.sum(found["w"])

    present = HOLES >= 0
    with jax.enable_x64(True):
        found = jax.vmap(jax.grad(total))(np.stack([x, 2 * x]))
    for k, one in enumerate((x, 2 * x)):
        wanted = np.zeros_like(one)
        near = np.where(present[..., None], one[HOLES], -np.inf)
        largest = near.argmax(1)
        for v in range(30):
            for j in np.flatnonzero(present[v]):
                wanted[HOLES[v, j]] += 2 * one[HOLES[v, j]]
            for level in range(5):
                if present[v].any():
                    wanted[HOLES[v, largest[v, level]], level] += arguments["a"][v]
        np.testing.assert_allclose(found[k], wanted, rtol=1e-12)
