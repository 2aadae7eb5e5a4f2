"""Several steps of a program as one program, against the oracle that runs them one by one."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.distribution.local_program import Feedback, chained

X = "tensor<float, I[0:8]>"
LEAPFROG = ti.parse(f"""f(y: {X}, a: {X}, b: {X}, c: tensor<float>) {{
  y ← b;
  y[I[1:7]] ← b + c × (⟪I, 1⟫(a) - ⟪I, -1⟫(a));
}}""")


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_steps_of_two_levels_of_time_are_those_that_run_one_by_one(steps):
    several = chained(LEAPFROG, Feedback({"a": 0, "b": 1}, ("y", 0)), steps)
    assert several is not None
    state = [np.sin(np.arange(8.0)), np.cos(np.arange(8.0))]
    given = {name: state[k] for name, k in several.reads.items()}
    results = ti.reference.run(several.program, c=0.3, **given)
    ours = [state[f] if isinstance(f, int) else results[f] for f in several.following]
    for _ in range(steps):
        state = [ti.reference.run(LEAPFROG, a=state[0], b=state[1], c=0.3)["y"], state[0]]
    for a, b in zip(ours, state, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_level_that_only_comes_to_be_read_is_a_parameter_from_the_first_step_on():
    program = ti.parse("f(y: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { y ← 2.0 × x; }")
    several = chained(program, Feedback({"x": 0}, (1, "y")), 2)
    assert several is not None
    assert (several.reads, several.following) == ({"x": 0, "x_before": 1}, ("y", "y_1"))
    results = ti.reference.run(several.program, x=np.arange(4.0), x_before=np.ones(4))
    assert (results["y"].tolist(), results["y_1"].tolist()) == ([0.0, 2.0, 4.0, 6.0], [2.0] * 4)


@pytest.mark.parametrize("kind", ["tensor<float, I[1:5]>", "tensor<float32, I[0:4]>"])
def test_results_on_other_intervals_or_of_other_types_are_not_chained(kind):
    value = "⟪I, -1⟫(x)" if "1:5" in kind else "cast(x, float32)"
    program = ti.parse(f"f(y: {kind}, x: tensor<float, I[0:4]>) {{ y ← {value}; }}")
    assert chained(program, Feedback({"x": 0}, ("y",)), 2) is None


def test_functions_of_folds_have_names_of_their_own_in_each_step():
    program = ti.parse("""f(y: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {
      y ← x + reduce(λ(a: tensor<float>, b: tensor<float>) → a × 0.5 + b, 0.0, I)(x);
    }""")
    several = chained(program, Feedback({"x": 0}, ("y",)), 2)
    assert several is not None and ti.parse(str(several.program)) == several.program
