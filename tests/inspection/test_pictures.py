"""Pictures: what they say in words and data, checked by hand; that they are well-formed, and saved."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tensorir as ti
from stencils import library, meshes

I, J = ti.dims("I J")
HDIFF = library.load("terrain_filter").specialise(n=9, m=8)
MESH = meshes.icosahedral(1)


def texts(picture) -> list[str]:
    """The texts of a picture, which must be well-formed."""
    root = ElementTree.fromstring(picture._repr_svg_())
    assert root.tag.endswith("svg")
    return ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("text")]


def test_a_footprint_has_the_weights_of_a_linear_program():
    found = ti.inspect.footprint(library.load("biharmonic").specialise(n=9, m=9), at={"I": 4, "J": 4})
    by_hand = {(4, 4): 20.0}
    by_hand |= {(4 + a, 4 + b): -8.0 for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))}
    by_hand |= {(4 + a, 4 + b): 2.0 for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))}
    by_hand |= {(4 + a, 4 + b): 1.0 for a, b in ((0, 2), (2, 0), (0, -2), (-2, 0))}
    assert found.data["inp"].weights == by_hand
    assert str(found) == "out at I = 4, J = 4 reads\ninp: 13 points of I[2:7], J[2:7]; it is linear in them"
    shown = texts(found)
    assert shown.count("-8") == 4 and shown.count("2") >= 4 and "20" in shown


def test_weights_are_the_row_of_jaxs_jacobian():
    import jax
    import jax.numpy as jnp

    @ti.field_operator
    def mixed(h: ti.Field[[I, J], ti.float64]):
        wide = ti.extend(h, {I: 2, J: (0, 1)}, {I: ti.periodic(), J: ti.linear()})
        return 0.5 * wide(I + 2) - 3.0 * wide(J + 1)(I - 1) + ti.where(h(J - 1) < 1e9, h, -h)

    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)))
        row = np.asarray(jax.jacobian(mixed)(x))[0, 2]
    given = ti.inspect.footprint(mixed, at={I: 0, J: 3}).data["h"].weights
    # the comparison is not linear in itself, but chooses one branch everywhere
    assert given == pytest.approx({tuple(map(int, p)): row[tuple(p)] for p in np.argwhere(row)} | zeros(given, row))


def zeros(weights, row):
    """Points that are read and have no weight."""
    return {p: 0.0 for p in weights if row[p] == 0}


def test_a_footprint_of_what_is_not_linear_has_no_weights_and_both_branches():
    found = ti.inspect.footprint(HDIFF, at={"I": 4, "J": 4}, given={"strength": 0.01})
    assert found.data["inp"].weights is None
    assert len(found.data["inp"].points) == 13


def test_what_is_given_is_held_fixed():
    f = ti.parse("f(out: tensor<float, I[0:3]>, a: tensor<float>, x: tensor<float, I[0:4]>) { out ← a × ⟪I, 1⟫(x); }")
    assert ti.inspect.footprint(f, at={"I": 1}).data["x"].weights is None
    assert ti.inspect.footprint(f, at={"I": 1}, given={"a": 2.5}).data["x"].weights == {(2,): 2.5}
    f = ti.parse("f(out: tensor<float, I[0:3]>, a: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) { out ← a × x; }")
    assert ti.inspect.footprint(f, at={"I": 1}, given={"a": np.array([5.0, 6.0, 7.0])}).data["x"].weights == {(1,): 6.0}


def test_a_footprint_leads_through_a_bound_table():
    f = ti.parse("""
      f(out: tensor<float, V[0:3]>, x: tensor<float, E[0:9]>, T: tensor<int, V[0:3], _NB_E[0:3]>) {
        out ← reduce(+, 0.0)(⟪T⟫(x));
      }""").bind(T=np.array([[0, 8, -1], [3, 3, 5], [1, 2, 3]]))
    assert ti.inspect.footprint(f, at={"V": 0}).data["x"].weights == {(0,): 1.0, (8,): 1.0}
    assert ti.inspect.footprint(f, at={"V": 1}).data["x"].weights == {(3,): 2.0, (5,): 1.0}


def test_a_footprint_names_one_of_several_outputs():
    f = ti.parse(
        "f(a: tensor<float, I[0:3]>, b: tensor<float, I[0:3]>, x: tensor<float, I[0:4]>) { a ← ⟪I, 1⟫(x); b ← x; }"
    )
    assert ti.inspect.footprint(f, out="a", at={I: 1}).data["x"].weights == {(2,): 1.0}
    assert ti.inspect.footprint(f, out="b", at={I: 1}).data["x"].weights == {(1,): 1.0}


def test_a_member_of_a_tuple_has_a_footprint_of_its_own():
    f = ti.parse("""
      f(out: tensor<(float, float), I[1:4]>, x: tensor<float, I[0:5]>) { out ← (⟪I, 1⟫(x), 2.0 × ⟪I, -1⟫(x)); }""")
    assert ti.inspect.footprint(f, out="out[0]", at={I: 2}).data["x"].weights == {(3,): 1.0}
    second = ti.inspect.footprint(f, out="out[1]", at={I: 2})
    assert second.data["x"].weights == {(1,): 2.0}
    assert str(second).startswith("out[1] at I = 2 reads\n")
    assert ti.inspect.footprint(f, at={I: 2}).data["x"].weights is None


def test_an_operator_is_drawn_for_the_types_that_it_was_called_with():
    @ti.field_operator
    def slope(h):
        rise = h(I + 1) - h(I - 1)
        return 0.5 * rise

    with pytest.raises(ti.DiagnosticError) as refused:
        ti.inspect.footprint(slope)
    assert str(refused.value) == (
        "error[I05]: 'slope' was not called yet, so its types are not known.\nhelp: give its fencil: slope.fencil(x)."
    )
    slope(ti.as_field({I: (0, 9)}, np.zeros(9)))
    assert ti.inspect.footprint(slope, at={I: 4}).data["h"].weights == {(3,): -0.5, (5,): 0.5}
    assert "rise" in texts(ti.inspect.dataflow(slope))


def test_dataflow_names_values_bytes_and_shifts():
    words = str(ti.inspect.dataflow(HDIFF)).splitlines()
    assert "inp (576 bytes) → lap through ⟪I, -1⟫, ⟪I, 1⟫, ⟪J, -1⟫, ⟪J, 1⟫" in words
    assert "lap (336 bytes) → rise_x through ⟪I, 1⟫" in words
    assert {"inp", "lap", "flx", "fly", "out", "I[1:8]"} <= set(texts(ti.inspect.dataflow(HDIFF)))


def test_a_thicker_arrow_is_more_bytes():
    import re

    f = ti.parse("""
      f(out: tensor<float, I[0:100000]>, x: tensor<float, I[0:100000]>, a: tensor<float>) { out ← a × x; }""")
    widths = {float(w) for w in re.findall(r'stroke-width="([\d.]+)" opacity="0.55"', ti.inspect.dataflow(f).svg)}
    assert len(widths) == 2 and max(widths) > 3 * min(widths)


def test_domains_say_halos_in_words():
    f = ti.parse("""
      f(out: tensor<float, I[2:8], J[0:5]>, h: tensor<float, I[0:9], J[0:5]>) {
        out ← let up = ⟪I, 1⟫(h) - h; up - ⟪I, -2⟫(h);
      }""")
    assert str(ti.inspect.domains(f)).splitlines() == [
        "out: I[2:8], J[0:5]",
        "up: I[2:8], J[0:5]",
        "h: I[0:9], J[0:5], two more before and one more after along I",
    ]
    assert {"+2", "+1"} <= set(texts(ti.inspect.domains(f)))
    part = ti.inspect.domains(f, {"I": (4, 5)})
    assert str(part).splitlines()[0] == "out: I[4:5], J[0:5]"


def test_before_and_after_of_a_pass_marks_what_changed():
    f = ti.parse("f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {\n  out ← x × 1.0 + 0.0 × x;\n}")
    same = ti.inspect.before_after("cse", f)
    assert str(same) == "cse: nothing changes."
    found = ti.inspect.before_after("simplify", ti.parse(str(f).replace(" + 0.0 × x", "")))
    assert str(found) == "simplify: 1 line of 3 changed; 3 operations before and 0 after."
    assert {"out ← x × 1.0;", "out ← x;"} <= set(texts(found))


def test_a_mesh_shows_the_neighbours_of_a_point():
    found = ti.inspect.table(MESH, 0, "V2E")
    row = MESH.tables["V2E"][0]
    assert found.data == row.tolist()
    assert {str(k) for k in row if k >= 0} <= set(texts(found))
    assert str(found).endswith("; slot 5 is empty.")
    for name in MESH.tables:
        texts(ti.inspect.table(MESH, 1, name))


def test_pictures_are_saved(tmp_path):
    picture = ti.inspect.domains(HDIFF)
    for name in ("a.svg", "a.html"):
        picture.save(tmp_path / name)
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(ti.DiagnosticError, match=r"I04.*a picture is not saved as '.png'"):
        picture.save(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ti.inspect.footprint(HDIFF, out="aut"),
         "error[N22]: 'terrain_filter' has no output 'aut'.\nhelp: did you mean 'out'?"),
        (lambda: ti.inspect.footprint(HDIFF, out="out[0]"),
         "error[N22]: 'out' has no member 0 to look at: it holds numbers."),
        (lambda: ti.inspect.footprint(HDIFF, at={"K": 1}),
         "error[A15]: 'out' has no dim K.\nhelp: known here: 'I', 'J'."),
        (lambda: ti.inspect.footprint(HDIFF, at={"I": 9}),
         "error[A16]: I = 9 is not inside of I[0:9], all of 'out'."),
        (lambda: ti.inspect.domains(library.load("heat")),
         "error[B09]: 'heat' has sizes that are not known yet.\nhelp: bind them: f.bind(n=10)."),
        (lambda: ti.inspect.table(MESH, 0, "V2X"),
         "error[I07]: the mesh has no table 'V2X'.\nhelp: did you mean 'V2V'?"),
        (lambda: ti.inspect.table(MESH, 42, "V2E"), "error[I06]: the table has no point 42, only 0 to 41."),
        (lambda: ti.inspect.table(np.zeros(3), 0),
         "error[I07]: this is no neighbour table: its shape is (3,), and it holds float64."),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ti.DiagnosticError) as refused:
        call()
    assert str(refused.value) == message
