"""Padded programs against the templates that they are made of, both by the oracle: whatever the padding holds."""

import numpy as np
import pytest

import tensorir as ti
from tensorir.distribution.padded_program import padded_program
from tests.padding.programs import PROGRAMS, drawn

MOST = 8
NOBODY = {"f": np.nan, "i": 10**6}
"""What padding holds, which nobody may look at."""


def leaves(value):
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [4, 6])
def test_a_padded_program_gives_the_bits_of_the_exact_one(name, size):
    template = ti.parse(PROGRAMS[name])
    sizes = {n: min(size + k, MOST) for k, n in enumerate(template.sizes)}
    exact = template.specialise(**sizes)
    given = drawn(exact)
    padded = padded_program(template, dict.fromkeys(template.sizes, MOST))
    wide = {own: np.int32(sizes[n]) for n, own in padded.sizes.items()}
    for own, field in padded.fields.items():
        array, place = given[field.name], padded.program[own].type.dims
        table = array.dtype.kind == "i" and own == "t"
        whole = np.full(place.shape, 0 if table else NOBODY[array.dtype.kind], array.dtype)
        part = [slice(i.start - place[d].start, i.stop - place[d].start) for d, i in exact[field.name].type.dims.items]
        whole[tuple(part)] = array
        wide[own] = whole
    results, expected = ti.reference.run(padded.program, **wide), ti.reference.run(exact, **given)
    for p in exact.results:
        place = padded.program[p.name].type.dims
        part = tuple(slice(i.start - place[d].start, i.stop - place[d].start) for d, i in p.type.dims.items)
        for ours, theirs in zip(leaves(results[p.name]), leaves(expected[p.name]), strict=True):
            assert ours[part].tobytes() == theirs.tobytes()


def refused(text, most, **others):
    with pytest.raises(ti.DiagnosticError) as caught:
        padded_program(ti.parse(text), most, others)
    return str(caught.value)


def test_a_fold_up_to_the_smaller_of_two_sizes_is_refused_at_its_place():
    text = """f(y: tensor<float>, a: tensor<float, I[0:n]>, b: tensor<float, I[0:m]>) {
  y ← reduce(+, 0.0, I)(a × b);
}"""
    assert refused(text, {"n": 9, "m": 9}) == (
        "<text>:2:25: error[B13]: where I[0:9] ends is no sum of sizes.\n"
        "    y ← reduce(+, 0.0, I)(a × b);\n"
        "                          ^^^^^\n"
        "help: give such sizes their values: n=10 instead of a bound."
    )


@pytest.mark.parametrize(
    "text, told",
    [
        (
            'f(y: tensor<float, I[0:n]>, x: tensor<float, I[0:n]>) { y ← print("x")(x); }',
            "what is printed has padding along I.",
        ),
        (
            "f(y: tensor<float, I[n:2*n]>, x: tensor<float, I[n:2*n]>) { y ← sort(I, 1)(x); }",
            "where the points that are sorted begin along I is a size.",
        ),
        (
            "f(y: tensor<float, I[0:4*n]>, x: tensor<float, A[0:4], B[0:n]>) { y ← merge_dims(A, B, I)(x); }",
            "'merge_dims' counts by the extent of B, which is a size.",
        ),
        (
            "f(y: tensor<float, A[0:4], B[0:n]>, x: tensor<float, I[0:4*n]>) { y ← split_dim(I, A, B, n)(x); }",
            "'split_dim' parts I by what depends on a size.",
        ),
        (
            "f(y: tensor<float, V[0:4]>, x: tensor<float, E[0:4]>, t: tensor<int, V[0:4], _NB_E[0:n]>) {"
            " y ← reduce(+, 0.0)(⟪t⟫(x)); }",
            "how many neighbours there are along _NB_0 is a size.",
        ),
    ],
)
def test_what_padding_would_have_a_part_in_is_refused(text, told):
    assert f"error[B13]: {told}" in refused(text, {"n": 9})


def test_sizes_at_which_the_program_is_another_one_are_refused():
    # at the bound and around it the smaller of the two intervals is the one that is no size
    text = """f(y: tensor<float>, a: tensor<float, I[0:n]>, b: tensor<float, I[0:3]>) {
  y ← reduce(+, 0.0, I)(a × b);
}"""
    padded = padded_program(ti.parse(text), {"n": 100})
    with pytest.raises(ti.DiagnosticError) as caught:
        padded.ends.check(ti.parse(text).specialise(n=2), {"n": 2})
    assert str(caught.value) == (
        "<text>:2:25: error[B13]: with n = 2 its intervals are not those that sums of sizes give.\n"
        "    y ← reduce(+, 0.0, I)(a × b);\n"
        "                          ^^^^^\n"
        "help: give such sizes their values: n=10 instead of a bound."
    )
