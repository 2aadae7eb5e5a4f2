"""An explanation names the chain of shifts through which each parameter is read, and no other."""

import re

import numpy as np

import tensorir as ti
from stencils import library

MESH = """f(y: tensor<float, C[0:2]>, T: tensor<int, C[0:2], _NB_I[0:2]>, x: tensor<float, I[0:9]>) {
  y ← ⟪T, 1⟫(⟪I, -2⟫(x)) + reduce(+, 0.0)(⟪T⟫(cos(x)));
}"""


def test_a_table_is_read_directly_and_a_field_through_it():
    bound = ti.parse(MESH).bind(T=np.array([[2, 3], [4, 5]]))
    assert str(ti.explain(bound)) == (
        "f stores y at C[0:2].\n"
        "T: C[0:2], _NB_I[0:2] are read.\n"
        "x: I[1:6] are read.\n"
        "  ⟪T⟫ reads neighbours, ⟪T, 1⟫⟪I, -2⟫."
    )


def test_shifts_of_a_grid_are_named_by_their_net_offset():
    program = ti.parse(
        "f(y: tensor<float, I[0:2]>, x: tensor<float, I[0:9]>) { y ← ⟪I, 2⟫(x) + x × ⟪I, 1⟫(⟪I, 3⟫(x)); }"
    )
    assert str(ti.explain(program)) == (
        "f stores y at I[0:2].\nx: I[0:6] are read.\n"
        "  the point itself, ⟪I, 2⟫ reads 2 points after along I, ⟪I, 4⟫ reads 4 points after along I."
    )


def test_every_neighbour_of_a_stencil_of_stencils_is_named_once():
    told = str(ti.explain(library.load("hdiff").bind(n=20, m=20, l=3)))
    (line,) = [text for text in told.split("\n") if text.startswith("  the point itself")]
    found = {tuple(sorted(re.findall(r"([IJ]), (-?\d)", part))) for part in line.split("⟪")[1:]}
    near = {(i, j) for i in range(-2, 3) for j in range(-2, 3) if 0 < abs(i) + abs(j) <= 2}
    assert found == {tuple((d, str(n)) for d, n in (("I", i), ("J", j)) if n) for i, j in near}
    assert line.count("⟪") == len(near) == 12


def test_a_long_chain_of_shifts_is_followed_once_for_each_offset():
    steps = "".join(f"let x{k + 1} = ⟪I, 1⟫(x{k}) + ⟪I, -1⟫(x{k}); " for k in range(40))
    told = str(ti.explain(ti.parse(
        f"f(y: tensor<float, I[50:60]>, x: tensor<float, I[0:100]>) {{ y ← let x0 = x; {steps}x40; }}"
    )))  # fmt: skip
    assert told.count("⟪") == 40  # every second offset from -40 to 40, but 0
    assert "the point itself" in told


def test_chains_that_are_not_followed_are_said():
    names = [f"D{k}" for k in range(11)]
    value = "x"
    for d in names:
        value = f"(let z{d} = {value}; z{d} + ⟪{d}, 1⟫(z{d}))"
    dims, more = (", ".join(f"{d}[0:{n}]" for d in names) for n in (1, 2))
    told = str(ti.explain(ti.parse(f"f(y: tensor<float, {dims}>, x: tensor<float, {more}>) {{ y ← {value}; }}")))
    assert told.endswith("and through more than are followed.")


def test_a_periodic_boundary_is_said_and_its_other_end_is_no_offset():
    lon, between = ti.dims("lon lonHalf")

    @ti.field_operator
    def smooth(h, w):
        wide = ti.extend(h, {lon: 1}, ti.periodic())
        rise = wide(between + 0.5) - wide(between - 0.5)
        return (w * rise)(lon + 0.5) - (w * rise)(lon - 0.5)

    program = smooth.fencil(h=ti.tensor("float", lon=(0, 30)), w=ti.tensor("float", lat=(0, 5)))
    assert str(ti.explain(program)) == (
        "smooth stores out at lat[0:5], lon[0:30].\n"
        "wide: lon[-1:31] are needed.\n"
        "rise: lonHalf[0:31] are needed.\n"
        "h: lon[0:30] are read.\n"
        "  the point itself, ⟪lon, -1⟫ reads one point before along lon, ⟪lon, 1⟫ reads one point after along lon, "
        "periodic in lon.\n"
        "w: lat[0:5] are read."
    )
