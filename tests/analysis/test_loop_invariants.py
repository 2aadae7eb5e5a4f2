"""Loops in the rounds of others that are the same in each round: they run once, and only where they may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.annotations import loop_invariants
from tensorir.runtime.errors import DiagnosticError
from tests.lowering.raised_forms import Draw, agree

HEAD = """f(a: tensor<float32, I[0:4]>, b: tensor<float32, I[0:4]>, x: tensor<float32, J[0:5]>, c: tensor<bool>,
  n: tensor<int>) {{
  let small = λ(k: tensor<int>, y: tensor<float32, I[0:4]>) → y × 0.25f;
  let add = λ(k: tensor<int>, y: tensor<float32, I[0:4]>) → y × 0.5f + b;
  let on = λ(k: tensor<int>, y: tensor<float32, I[0:4]>) → true;
  {} }}"""
STEP = "λ({}: tensor<int>, {}: tensor<float32, I[0:4]>) → {}"
OUTER = "loop(0, {})({}, λ(i: tensor<int>, y: tensor<float32, I[0:4]>) → {}, a)"
INNER = "loop(0, 3)(on, add, b)"
CHECKS = f"loop(0, 3)(on, {STEP.format('k', 'y', 'y + gather(J, checked)(x, k + n)')}, b)"
AGAIN = f"loop(0, 3)(on, {STEP.format('k', 'z', 'z × 0.5f + b')}, b)"
ENDLESS = "loop(0)(on, add, b)"
ASKED = STEP.format("i", "y", "c")
IN_ANOTHER = f"loop(0, 2)(on, {STEP.format('k', 'z', f'z + {INNER}')}, y)"
OF_THE_ROUND = f"y + loop(0, 3)(on, {STEP.format('k', 'z', 'z + cast(i, float32)')}, b)"
CASES = {
    "the same in every round": (f"a ← {OUTER.format(5, 'on', f'y × {INNER}')};", 1),
    "in a loop in a loop": (f"a ← {OUTER.format(2, 'on', IN_ANOTHER)};", 2),
    "of the round's number": (f"a ← {OUTER.format(5, 'on', OF_THE_ROUND)};", 0),
    "of what is carried": (f"a ← {OUTER.format(5, 'on', 'loop(0, 3)(on, small, y)')};", 0),
    "in rounds of which there may be none": (f"a ← {OUTER.format(5, ASKED, f'y × {INNER}')};", 1),
    "with a check": (f"a ← {OUTER.format(5, 'on', f'y × {CHECKS}')};", 1),
    "with a check, in rounds of which there may be none": (f"a ← {OUTER.format(5, ASKED, f'y × {CHECKS}')};", 0),
    "with a check, in no round": (f"a ← {OUTER.format(0, 'on', f'y × {CHECKS}')};", 0),
    "with a check, in a branch": (f"a ← {OUTER.format(5, 'on', f'if c then y × {CHECKS} else y')};", 1),
    "with a check, in a step of two loops": (
        f"let step = {STEP.format('i', 'y', f'y × {CHECKS}')};"
        f" a ← if c then loop(0, 5)(on, step, a) else loop(0, 5)({ASKED}, step, a);",
        0,
    ),
    "that somebody needs anyway": (f"let t = {CHECKS}; a ← {OUTER.format(5, ASKED, 'y × t')}; b ← t;", 1),
    "of what is written in between": (
        f"b ← {AGAIN}; a ← {OUTER.format(5, 'on', f'y × {AGAIN}')}; b ← b + {OUTER.format(2, 'on', f'y + {AGAIN}')};",
        2,
    ),
}


@pytest.mark.parametrize(("body", "count"), CASES.values(), ids=CASES)
def test_a_loop_that_is_the_same_in_every_round_runs_once(body: str, count: int) -> None:
    text = HEAD.format(body)
    program = ti.parse(text)
    assert len(loop_invariants(program, analyse_absence(program, {}))) == count
    draw = Draw(3)
    arrays: dict[str, Any] = {n: draw.array("float32", (0, m)) for n, m in (("a", 4), ("b", 4), ("x", 5))}
    for c in (True, False):
        agree(text, {**arrays, "c": np.array(c), "n": np.array(1, np.int32)}, ())


@pytest.mark.parametrize("name", [name for name in CASES if "check" in name])
@pytest.mark.parametrize("c", [True, False])
def test_what_a_loop_checks_counts_where_the_loop_runs(name: str, c: bool) -> None:
    program = ti.parse(HEAD.format(CASES[name][0]))
    given = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32), "x": np.ones(5, np.float32)}
    rest = {"c": np.array(c), "n": np.array(4, np.int32)}
    try:
        ti.reference.run(program, **given, **rest)
    except DiagnosticError:
        with pytest.raises(DiagnosticError):
            ti.compile(program)(**given, **rest)
    else:
        ti.compile(program)(**given, **rest)


def test_a_loop_that_nothing_is_known_to_end_stays_where_it_may_not_be_reached() -> None:
    for body, count in ((OUTER.format(5, ASKED, f"y × {ENDLESS}"), 0), (OUTER.format(5, "on", f"y × {ENDLESS}"), 1)):
        program = ti.parse(HEAD.format(f"a ← {body};"))
        assert len(loop_invariants(program, analyse_absence(program, {}))) == count


def test_a_check_stays_in_the_rounds_where_another_closure_makes_it_of_something_else() -> None:
    needed, _ = CASES["that somebody needs anyway"]
    program = ti.parse(HEAD.format(f"{needed} x ← 0.5f × x;"))
    first, second, third = program.closures
    between = replace(program, closures=(first, third, second))
    assert not loop_invariants(between, analyse_absence(between, {}))


def test_the_compiled_program_has_no_loop_in_a_loop() -> None:
    program = ti.compile(ti.parse(HEAD.format(CASES["the same in every round"][0])))
    given = {"a": np.ones(4, np.float32), "b": np.ones(4, np.float32), "x": np.ones(5, np.float32)}
    traced = jax.make_jaxpr(lambda **g: program(**g))(**given, c=np.array(True), n=np.array(0, np.int32))
    assert _deepest(traced.jaxpr) == 1


def _deepest(jaxpr: Any) -> int:
    deepest = 0
    for equation in jaxpr.eqns:
        below = [_deepest(getattr(p, "jaxpr", p)) for p in equation.params.values() if hasattr(p, "eqns")]
        deepest = max([deepest, *(n + (equation.primitive.name in ("rounds", "while", "scan")) for n in below)])
    return deepest


def test_a_gradient_goes_through_a_loop_that_was_taken_out() -> None:
    program = ti.compile(ti.parse(HEAD.format(CASES["the same in every round"][0])))

    def by_hand(b: Any) -> Any:
        t = b
        for _ in range(3):
            t = t * 0.5 + b
        y = jax.numpy.ones(4, "float32")
        for _ in range(5):
            y = y * t
        return y.sum()

    def ours(b: Any) -> Any:
        rest = {"x": np.ones(5, np.float32), "c": np.array(True), "n": np.array(0, np.int32)}
        return program(a=jax.numpy.ones(4, "float32"), b=b, **rest)["a"].sum()

    b = np.array([0.3, -0.5, 0.9, 0.1], np.float32)
    np.testing.assert_allclose(jax.grad(ours)(b), jax.grad(by_hand)(b), rtol=1e-5)


def folds(count: int) -> str:
    """Folds of five rounds that each read what the one before gave in every round."""
    step = "reduce(λ(s: tensor<float32>, v: tensor<float32>) → s × {} + v, 0.5f, J)(x)"
    lines = [f"let t0 = {step.format('0.25f')};"]
    lines += [f"let t{k} = {step.format(f't{k - 1}')};" for k in range(1, count)]
    return f"f(a: tensor<float32>, x: tensor<float32, J[0:5]>) {{ {' '.join(lines)} a ← t{count - 1}; }}"


def test_folds_that_each_read_the_one_before_are_written_out_once():
    x = np.linspace(0.5, 1.5, 5).astype(np.float32)
    run = ti.compile(ti.parse(folds(4)))
    made = jax.jit(lambda x: run(x=x)["a"])
    assert str(jax.make_jaxpr(made)(x)).count(" mul ") == 4 * 5
    carried = np.float32(0.25)
    for _ in range(4):
        state = np.float32(0.5)
        for v in x:
            state = state * carried + v
        carried = state
    np.testing.assert_allclose(made(x), carried, rtol=1e-6)
