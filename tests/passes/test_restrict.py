"""Programs for a part of their points: the same values there, from no more than is needed."""

import numpy as np
import pytest
from generate import programs
from generate.bounds import flat
from generate.examples import examples
from generate.profiles import EVERY
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import same

import tensorir as ti
from tensorir import reference
from tensorir.passes.restrict import NeededPoints

PROGRAMS = {
    "shifts": ("out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>", "out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x);", (0, 10)),
    "position": ("out: tensor<int, I[0:9]>, x: tensor<int, I[0:9]>", "out ← pos(I, x) + x;", (0, 9)),
    "concat": (
        "out: tensor<float, I[0:10]>, x: tensor<float, I[0:10]>",
        "out ← concat(subset(x, I[0:1]), subset(x, I[1:9]) × 2.0, subset(x, I[9:10]));",
        (0, 10),
    ),
    "update": (
        "out: tensor<float, I[0:10]>, x: tensor<float, I[0:10]>",
        "out ← update(x, subset(x, I[2:6]) × 2.0);",
        (0, 10),
    ),
    "scan": (
        "out: tensor<float, I[0:10]>, x: tensor<float, I[0:10]>",
        "out ← scan(λ(s: tensor<float>, v: tensor<float>) → s × 0.5 + v, true, 1.0)(x);",
        (0, 10),
    ),
    **{
        f"rows of {n}": (
            "out: tensor<float, I[0:10]>, x: tensor<float, I[0:10]>",
            f"out ← merge_dims(A, B, I)(split_dim(I, A, B, {n})(x));",
            (0, 10),
        )
        for n in (1, 2)
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("part", [(4, 6), (1, 3), (2, 9)])
def test_the_asked_points_have_the_values_that_they_had(name, part):
    params, body, (start, stop) = PROGRAMS[name]
    f = ti.parse(f"f({params}) {{ {body} }}")
    x = np.random.default_rng(0).integers(0, 9, stop - start).astype(f["x"].type.leaves[0].name)
    whole = reference.run(f, x=x)["out"]
    g = ti.passes.restrict(f, out={"I": part})
    need = g["x"].type.dims["I"]
    small = reference.run(g, x=x[need.start : need.stop])["out"]
    first = f["out"].type.dims["I"].start
    assert g["out"].type.dims["I"] == ti.Interval(*part)
    np.testing.assert_array_equal(small, whole[part[0] - first : part[1] - first])


def test_a_bound_table_is_cut_with_its_destinations():
    f = ti.parse("""f(out: tensor<float, V[0:4]>, x: tensor<float, E[0:6]>, t: tensor<int, V[0:4], _NB_E[0:2]>) {
      out ← reduce(+, 0.0)(⟪t⟫(x)); }""").bind(t=np.array([[0, 1], [1, 2], [4, 3], [5, 5]]))
    g = ti.passes.restrict(f, out={"V": (1, 3)})
    assert str(g.program["x"].type.dims) == "E[1:5]"
    np.testing.assert_array_equal(g(x=np.array([2.0, 3.0, 5.0, 4.0]))["out"], [5.0, 9.0])


def test_a_dim_that_no_output_has_is_refused():
    f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { out ← x; }")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.passes.restrict(f, out={"J": (0, 1)})
    assert str(caught.value) == "error[A15]: no output has a dim J.\nhelp: known here: 'I', 'out'."
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.passes.restrict(f, out={"out": {"I": (1, 3), "J": (0, 1)}})
    assert str(caught.value) == "error[A15]: 'out' has no dim J.\nhelp: known here: 'I'."
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.passes.restrict(f, out={"I": (0, 5)})
    assert str(caught.value) == (
        "error[A16]: I[0:5] is not inside of I[0:4], all of 'out'.\nhelp: ask for a part of I[0:4]."
    )


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"I": 3}, "I: 3 is no interval."),
        ({"I": (0.5, 2)}, "I: (0.5, 2) is no interval."),
        ({"out": {"I": (2, 1)}}, "I: (2, 1) is no interval."),
        ({"out": (0, 3)}, "(0, 3) is no part of 'out': it has an interval for each dim."),
        ("I", "'I' is no part of an output: it has an interval for each dim."),
    ],
)
def test_a_part_that_is_none_is_refused(part, said):
    f = ti.parse("f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:4]>) { out ← x; }")
    for of_part in (ti.passes.restrict, ti.inspect.domains):
        with pytest.raises(ti.DiagnosticError) as caught:
            of_part(f, part)
        assert str(caught.value).startswith(f"error[A16]: {said}\nhelp: write ")


@st.composite
def parts(draw):
    """A program, one of its results, and a part of that."""
    case = draw(programs(EVERY))
    result = draw(st.sampled_from(case.fencil.results))
    part = {}
    for name, interval in result.type.dims.items:
        start = draw(st.integers(interval.start, interval.stop - 1))
        part[name] = (start, draw(st.integers(start + 1, interval.stop)))
    return case, result, part


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(100))
@given(parts())
def test_any_part_of_any_result_is_what_it_was_and_is_computed_from_the_inferred_part(drawn):
    case, result, part = drawn
    whole = reference.run(case.fencil, **case.arguments)[result.name]
    tables = {n: v for n, v in case.arguments.items() if n in case.entries}
    for program, rest in ((case.fencil, case.arguments), (case.fencil.bind(**tables), _without(case, tables))):
        small = ti.passes.restrict(program, out={result.name: part})
        fencil = getattr(small, "program", small)
        names = {p.name for p in fencil.params}
        given = {
            n: _nested(v, [_cut(a, case.fencil[n], fencil[n]) for a in flat(v)]) for n, v in rest.items() if n in names
        }
        found = reference.run(small, **given)[result.name]
        for a, b in zip(flat(whole), flat(found), strict=True):
            assert same(_asked(a, result, part), _asked(b, fencil[result.name], part)), f"{case!r}\n{part}\n{fencil}"
        assert ti.parse(str(fencil)) == fencil


def _without(case, tables):
    return {n: v for n, v in case.arguments.items() if n not in tables}


def _cut(array, whole, part):
    at = tuple(
        slice(part.type.dims[n].start - i.start, part.type.dims[n].stop - i.start) for n, i in whole.type.dims.items
    )
    return array[at]


def _asked(array, of, part):
    return array[tuple(slice(part[n][0] - i.start, part[n][1] - i.start) for n, i in of.type.dims.items)]


def _nested(like, arrays):
    remaining = iter(arrays)

    def build(value):
        return tuple(build(v) for v in value) if isinstance(value, tuple) else next(remaining)

    return build(like)


WHOLE_STATES = {
    "a state of which less is read than is made": (
        """f(y: tensor<float, J[0:2], K[0:3]>, x: tensor<float, J[0:1], K[0:3]>, s: tensor<float, J[0:2]>) {
      y ← scan(λ(a: tensor<float, J[0:2]>, v: tensor<float, J[0:1]>) →
        concat(v, ⟪J, -1⟫(subset(a, J[0:1]))), true, s)(x); }""",
        lambda x, s: [x[0], [s[0], x[0, 0], x[0, 1]]],
    ),
    "a state of which more is read than is asked for": (
        """f(y: tensor<float, J[0:1]>, x: tensor<float, K[0:1]>, s: tensor<float, J[0:3]>) {
      y ← reduce(λ(a: tensor<float, J[0:3]>, v: tensor<float>) →
        a + v × gather(J, clamp)(a, 2 - pos(J, a)), s, K)(x); }""",
        lambda x, s: [s[0] + x[0] * s[2]],
    ),
    "an index that int64 does not hold": (
        """f(y: tensor<float>, x: tensor<float, J[0:3]>, s: tensor<float>) {
      y ← gather(J, clamp)(x, uint64(18446744073709551615)) + s; }""",
        lambda x, s: x[2] + s,
    ),
}


@pytest.mark.parametrize("name", WHOLE_STATES)
def test_what_is_needed_of_states_and_wide_indices_keeps_programs_well_typed(name):
    text, expected = WHOLE_STATES[name]
    f = ti.parse(text)
    rng = np.random.default_rng(0)
    given = {p.name: rng.normal(size=p.type.dims.shape) for p in f.inputs}
    found = reference.run(NeededPoints()(f), **given)["y"]
    np.testing.assert_allclose(found, expected(**given))


def test_coordinates_need_no_values_of_what_they_are_asked_of():
    f = ti.parse("""f(y: tensor<float, I[0:9], J[1:5]>, h: tensor<float, I[0:9], J[0:5]>) {
        y ← ⟪J, -1⟫(h) × cast(pos(J, h), float);
    }""")
    smaller = ti.passes.restrict(f, {"y": {"I": (2, 4)}})
    assert str(smaller["h"].type) == "tensor<float, I[2:4], J[0:4]>"
