"""Programs in coordinates that count from elsewhere: the same values, and equal where blocks lie alike."""

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
from tensorir.passes.restrict import free_of_coordinates, translated, with_positions


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(40))
@given(programs(EVERY), st.integers(-5, 5).filter(bool))
def test_a_program_has_its_values_wherever_coordinates_count_from(case, distance):
    dims = {d for p in case.fencil.params for d in p.type.dims}
    whole, positions = with_positions(case.fencil, sorted(dims))
    moved = translated(whole, dict.fromkeys(free_of_coordinates(whole, dims), distance))
    ends = {n: whole[n].type.dims[d] for n, d in positions.items()}
    places = {n: np.arange(i.start, i.stop, dtype=np.int32) for n, i in ends.items()}
    found = reference.run(moved, **case.arguments, **places)
    for name, expected in reference.run(case.fencil, **case.arguments).items():
        for a, b in zip(flat(expected), flat(found[name]), strict=True):
            assert same(a, b), f"{case!r}\n{moved}"
    assert ti.parse(str(moved)) == moved


def test_parts_at_the_same_distance_from_what_is_special_are_one_program():
    f = ti.parse("""f(out: tensor<float, I[0:40]>, x: tensor<float, I[0:40]>) {
      out ← subset(x, I[0:40]) × cast(pos(I, x), float);
      out[I[2:38]] ← ⟪I, -2⟫(x) + ⟪I, 2⟫(x); }""")
    g, positions = with_positions(f, ["I"])
    assert positions == {"I_at": "I"}
    parts = {k: translated(ti.restrict(g, {"I": (k, k + 8)}), {"I": k}) for k in range(0, 40, 8)}
    assert parts[8] == parts[16] == parts[24] and len(set(parts.values())) == 3


def test_dims_whose_points_are_named_keep_their_coordinates():
    f = ti.parse("""f(out: tensor<float, V[0:4], K[0:3]>, x: tensor<float, E[0:6], K[0:3]>,
      t: tensor<int, V[0:4], _NB_E[0:2]>) { out ← reduce(+, 0.0)(⟪t⟫(x)); }""")
    assert free_of_coordinates(f, ["V", "E", "K"]) == {"V", "K"}
