"""Templates: programs whose intervals depend on sizes, and how shapes tell the sizes."""

from __future__ import annotations

import re

import pytest

from tensorir import DiagnosticError
from tensorir.text import Template, parse, solve

BLUR = """
blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  out ← 0.5 × (⟪I, -1⟫(inp) + ⟪I, 1⟫(inp));
  out[I[0:1]] ← inp[I[n-1:n]];
}
"""


def test_sizes_are_the_names_in_bounds():
    f = parse(BLUR.replace("inp[I[n-1:n]]", "⟪I, m-1⟫(inp[I[0:m]])"))
    assert isinstance(f, Template)
    assert f.sizes == ("n", "k", "m")


def test_a_template_prints_and_reads_and_equals_itself():
    f = parse("offsets { i: I }" + BLUR.replace("⟪I, -1⟫", "⟪i, -1⟫"))
    assert parse(str(f)) == f
    assert str(parse(str(f))) == str(f)
    assert f != parse(BLUR)


def test_a_template_becomes_a_fencil_once_per_set_of_sizes():
    f = parse(BLUR.replace("inp[I[n-1:n]]", "1.0"))
    assert f.specialise(n=5, k=2) is f.specialise(k=2, n=5)
    assert str(f.specialise(n=5, k=2)["inp"].type) == "tensor<float, I[-1:6], K[0:4]>"


@pytest.mark.parametrize(
    "shapes",
    [
        {"inp": (12, 6)},
        {"inp": {"I": (-1, 11), "K": (0, 6)}},
        {"inp": {"I": 12}, "out": {"K": 6}},
        {"out": (10, 6), "inp": (12, 6)},
    ],
)
def test_shapes_tell_the_sizes(shapes):
    assert solve(parse(BLUR), shapes) == {"n": 10, "k": 3}


def test_sizes_may_be_given_by_name():
    assert solve(parse(BLUR), {}, {"n": 10, "k": 3}) == {"n": 10, "k": 3}


def test_sizes_that_only_several_extents_tell_are_solved_for():
    f = parse("f(out: tensor<float, I[0:n+m], J[0:2*n-m], K[0:p-m]>) { out ← 1.0 }")
    assert solve(f, {"out": (7, 2, 6)}) == {"n": 3, "m": 4, "p": 10}


FAILURES = {
    "a size that nothing tells": (
        {"inp": {"I": 12}},
        {},
        """\
p.fencil:2:1: error[B01]: the size 'k' is not bound: no argument that was passed has an interval that tells it.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  ^^^^
help: give it by name: k=10.""",
    ),
    "two shapes that contradict each other": (
        {"inp": (12, 6), "out": (11, 6)},
        {},
        """\
p.fencil:2:63: error[B02]: 'inp' has 12 points along I, and n+2 is 13; n is 11, since 'out' has 11 points along I.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                                                ^^^^^^^^^
help: pass arrays whose sizes agree.""",
    ),
    "a shape that contradicts a size that was given": (
        {"out": (11, 6)},
        {"n": 10},
        """\
p.fencil:2:25: error[B02]: 'out' has 11 points along I, and n is 10; n is 10, since 'n' was given.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass arrays whose sizes agree.""",
    ),
    "an interval that starts elsewhere": (
        {"out": {"I": (-3, 8), "K": 6}},
        {},
        """\
p.fencil:2:25: error[B02]: 'out' has I[-3:8], and its type has I[0:n].
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass an array on such an interval.""",
    ),
    "an extent that no whole size gives": (
        {"out": (10, 7)},
        {},
        """\
p.fencil:2:33: error[B03]: 'out' has 7 points along K, and no whole 'k' gives that: 2*k = 7.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                  ^^^^^^^^
help: pass an array of another size.""",
    ),
    "a size that is negative": (
        {"inp": (1, 6)},
        {},
        """\
p.fencil:2:25: error[B04]: with n = -1, I[0:-1] of 'out' stops before it starts.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                          ^^^^^^
help: pass larger arrays.""",
    ),
    "a name that is no size": (
        {},
        {"nn": 10},
        """\
p.fencil:2:1: error[B05]: 'blur' has no size 'nn'.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
  ^^^^
help: did you mean 'n'?""",
    ),
    "a wrong number of axes": (
        {"inp": (12,)},
        {},
        """\
p.fencil:2:44: error[B06]: 'inp' has 1 axis, and its type has 2: I, K.
  blur(out: tensor<float, I[0:n], K[0:2*k]>, inp: tensor<float, I[-1:n+1], K[0:2*k]>) {
                                             ^^^
help: axes stand in the order in which the type names its dims.""",
    ),
}


@pytest.mark.parametrize(("shapes", "sizes", "expected"), FAILURES.values(), ids=FAILURES)
def test_the_diagnostic_is(shapes, sizes, expected: str):
    with pytest.raises(DiagnosticError) as error:
        solve(parse(BLUR, name="p.fencil"), shapes, sizes)
    assert str(error.value) == expected


def test_names_are_checked_before_any_size_is_known():
    with pytest.raises(DiagnosticError, match=re.escape("error[N01]: 'inpt' is not known here.")):
        parse(BLUR.replace("(inp)", "(inpt)", 1))


def test_types_are_checked_when_sizes_are_known():
    f = parse(BLUR.replace("I[-1:n+1]", "I[0:n]"))
    with pytest.raises(DiagnosticError) as error:
        f.specialise(n=5, k=1)
    assert "'out' needs I[0:5], but this provides I[1:4]." in str(error.value)


def test_a_size_that_is_missing_is_named():
    with pytest.raises(DiagnosticError, match=re.escape("error[B01]: the size 'k' is not bound.")):
        parse(BLUR).specialise(n=5)
