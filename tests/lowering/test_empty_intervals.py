"""Intervals without points are legal: what is computed on them is what the oracle says, and nothing breaks."""

import numpy as np
import pytest

import tensorir as ti

E = np.zeros(0)
NO_INDEX = np.zeros(0, np.int32)
CASES = {
    "a whole is cut to nothing": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:5]>) { o ← x; }",
        {"x": np.ones(5)},
    ),
    "arithmetic on nothing": (
        "f(o: tensor<float, I[0:0]>, x: tensor<float, I[0:0]>) { o ← x + 1.0; }",
        {"x": E},
    ),
    "a fold over nothing": (
        "f(o: tensor<float>, x: tensor<float, I[0:0]>) { o ← reduce(+, 1.5, I)(x); }",
        {"x": E},
    ),
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


@pytest.mark.parametrize("case", CASES)
def test_empty_intervals_give_what_the_oracle_gives(case):
    text, arguments = CASES[case]
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
