"""Intermediates as they are: on their own intervals, with coordinates, absence and states."""

import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from stencils import library
from tensorir.analysis.cost import count
from tensorir.binding.calls import solve_sizes
from tensorir.inspect import observed
from tests.stencils.program_samples import sample

HDIFF = library.load("terrain_filter")
X = np.random.default_rng(0).uniform(200.0, 900.0, (9, 8))


def test_every_named_intermediate_is_on_its_own_interval_with_coordinates():
    x = xr.DataArray(
        X, dims=("I", "J"), coords={"I": np.arange(9), "J": np.arange(8), "lat": ("J", np.linspace(0, 7, 8))}
    )
    seen = ti.compile(HDIFF).inspect(inp=x, strength=0.015)
    assert list(seen) == ["lap", "rise_x", "flx", "rise_y", "fly"]
    lap = X[2:, 1:-1] + X[:-2, 1:-1] + X[1:-1, 2:] + X[1:-1, :-2] - 4 * X[1:-1, 1:-1]
    np.testing.assert_allclose(seen["lap"], lap, rtol=1e-13)
    np.testing.assert_array_equal(seen["lap"].coords["I"], np.arange(1, 8))
    np.testing.assert_array_equal(seen["lap"].coords["lat"], np.arange(1.0, 7.0))
    np.testing.assert_allclose(seen["rise_x"], lap[1:] - lap[:-1], rtol=1e-10, atol=1e-10)
    assert seen["rise_x"].sizes == {"I": 6, "J": 6}


def test_intermediates_are_found_by_line_and_by_expression():
    seen = ti.compile(HDIFF).inspect(inp=X, strength=0.015)
    line = next(i.line for i in seen.intermediates if i.name == "rise_x")
    assert list(seen.at(line)) == ["rise_x"]
    assert "lap" in seen.find("4.0 × inp") and "fly" not in seen.find("4.0 × inp - inp")
    assert set(seen.tree().children) == set(seen)


def test_what_is_absent_is_nan_or_has_a_mask():
    f = ti.parse("""
      f(
        out: tensor<float, V[0:3]>,
        x: tensor<float, E[0:2]>,
        k: tensor<int, E[0:2]>,
        T: tensor<int, V[0:3], _NB_E[0:1]>
      ) {
        out ← let value = ⟪T, 0⟫(x);
              let number = ⟪T, 0⟫(k);
              if can_deref(value) then value × cast(number, float64) else 0.0;
      }""")
    seen = ti.compile(f).inspect(x=np.array([1.5, 2.5]), k=np.array([3, 4], np.int32), T=np.array([[1], [-1], [0]]))
    np.testing.assert_array_equal(seen["value"], [2.5, np.nan, 1.5])
    np.testing.assert_array_equal(seen["number_present"], [True, False, True])


def test_scans_show_their_states_per_level():
    seen = ti.compile(library.load("tridiagonal")).inspect(
        **dict(zip("abcd", np.ones((4, 2, 1, 5)) * np.array([1, 4, 1, 2])[:, None, None, None], strict=True))
    )
    assert {"eliminated_0", "eliminated_1"} <= set(seen)
    assert seen["eliminated_0"].sizes["K"] == 5
    np.testing.assert_allclose(seen["eliminated_0"].isel(I=0, J=0, K=0), 0.25)


def test_intermediates_of_applied_functions_are_seen_too():
    f = ti.parse("""
      f(out: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {
        out ← (λ(y: tensor<float, I[0:3]>) → let twice = y + y; twice × twice)(x + 1.0);
      }""")
    np.testing.assert_array_equal(ti.compile(f).inspect(x=np.arange(3.0))["twice"], [2.0, 4.0, 6.0])


def test_what_several_results_share_is_shown_once_until_what_it_reads_is_written():
    f = ti.parse("""f(o: tensor<float, I[0:3]>, p: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {
      let b = x × 2.0; o ← b + 1.0; p ← b × 3.0; x ← b + 3.0; }""")
    shown = ti.compile(f).inspect(x=np.arange(3.0))
    assert list(shown) == ["b"]
    np.testing.assert_array_equal(shown["b"], [0.0, 2.0, 4.0])
    again = ti.parse("""f(o: tensor<float, I[0:3]>, p: tensor<float, I[0:3]>, x: tensor<float, I[0:3]>) {
      o ← let b = x × 2.0; b + 1.0; x ← 5.0 + x; p ← let b = x × 2.0; b × b; }""")
    shown = ti.compile(again).inspect(x=np.arange(3.0))
    np.testing.assert_array_equal(shown["b_1"], [10.0, 12.0, 14.0])


def test_looking_costs_no_more_than_running_each_intermediate_once():
    fencil = HDIFF.specialise(n=9, m=8)
    seen, found = observed(fencil)
    assert len(found) == 5
    assert count(seen).operations == count(fencil).operations


def test_a_name_that_is_not_there_is_told():
    with pytest.raises(ti.DiagnosticError, match=r"I01.*nothing here is named 'lip'"):
        ti.compile(HDIFF).inspect(inp=X, strength=0.015)["lip"]


@pytest.mark.parametrize("name", library.names())
def test_looking_into_a_program_of_the_library_changes_none_of_its_results(name):
    given = sample(name)
    tables = {n: v for n, v in given.items() if np.asarray(v).dtype.kind == "i"}
    rest = {n: v for n, v in given.items() if n not in tables}
    program = library.load(name).bind(**tables)
    plain = {n: np.array(v) for n, v in program(**copied(rest)).items()}
    fencil = program.at(solve_sizes(program.program, rest, {})).program if program.size_names else program.program
    looked = {n: np.array(v) for n, v in observed(fencil)[0].bind(**tables)(**copied(rest)).items()}
    for output, value in plain.items():
        np.testing.assert_allclose(looked[output], value, rtol=1e-12, atol=1e-12)


def copied(arrays):
    return {n: np.array(v) for n, v in arrays.items()}
