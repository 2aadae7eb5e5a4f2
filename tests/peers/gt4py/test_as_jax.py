"""GT4Py's programs as functions that JAX transforms: through scans and reductions over neighbours, too."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.peers.gt4py.sides import values
from tests.peers.gt4py.test_cartesian import laplacian, two_statements
from tests.peers.gt4py.test_columns import rained, solved
from tests.peers.gt4py.test_unstructured import PRESENT, PROVIDER, V2E_TABLE, summed, weighted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def slope(f: object, x: np.ndarray, direction: np.ndarray) -> float:
    """The derivative along a direction, by central differences."""
    h = 1e-6
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


def test_an_operator_gives_the_largest_domain_there_is() -> None:
    x = values(6, 5, 2)
    found = ti.as_jax(laplacian)(x)
    assert found.shape == (4, 3, 2)
    np.testing.assert_allclose(
        found, 4 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]), rtol=1e-13
    )


def test_a_domain_may_be_asked_for() -> None:
    assert ti.as_jax(laplacian, domain={"I": (1, 3), "J": (2, 4), "K": 2})(values(6, 5, 2)).shape == (2, 2, 2)


def test_the_gradient_through_scans_is_the_slope() -> None:
    f = ti.as_jax(solved)
    a, c, d, direction = (values(3, 5) for _ in range(4))
    b = values(3, 5) + 4.0
    with jax.enable_x64(True):
        gradient = jax.grad(lambda d: (f(a, b, c, d) ** 2).sum())(jax.numpy.asarray(d))
    expected = slope(lambda d: (f(a, b, c, d) ** 2).sum(), d, direction)
    np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-6)


def test_the_gradient_through_a_sum_over_neighbours_is_the_count() -> None:
    f = ti.as_jax(summed, offset_provider=PROVIDER)
    with jax.enable_x64(True):
        gradient = jax.grad(lambda e: f(e).sum())(jax.numpy.asarray(values(5)))
    np.testing.assert_array_equal(gradient, np.bincount(V2E_TABLE[PRESENT], minlength=5))


def test_vmap_and_jit_over_meshes() -> None:
    f = ti.as_jax(weighted, offset_provider=PROVIDER)
    e, s, v = values(7, 5), values(4, 3), values(4)
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(f, in_axes=(0, None, None)))(e, s, v)
    np.testing.assert_allclose(found, np.stack([f(x, s, v) for x in e]), rtol=1e-13)


def test_results_of_tuples_are_tuples() -> None:
    q = values(4, 6)
    kept, flux = ti.as_jax(rained)(q)
    assert kept.shape == flux.shape == (4, 6)


def test_a_program_gives_what_it_stores() -> None:
    a = np.arange(8.0)
    found = ti.as_jax(two_statements)(a, a, np.full(8, -1.0))
    np.testing.assert_array_equal(found["b"], 2 * a)
    np.testing.assert_array_equal(found["out"], [4, 4, 4, 4, 4, 4, -1, -1])


def test_a_program_is_read_lifted_and_shown() -> None:
    imported = ti.iterator.from_gt4py(two_statements, sizes={"I": 8})
    lifted = ti.lift(imported)
    types = [str(p.type) for p in lifted.fencil.params]
    assert types == ["tensor<float, I[0:8]>", "tensor<float, I[0:6]>", "tensor<float, I[0:8]>"]
    b, out = lifted(np.arange(8.0), None, None)
    np.testing.assert_array_equal(out, np.full(6, 4.0))
    np.testing.assert_array_equal(b, 2 * np.arange(8.0))
    seen = lifted.compiled.inspect(a=np.arange(8.0))
    assert seen is not None


def test_arrays_with_names_go_in_by_name_and_come_out_with_coordinates() -> None:
    x = xr.DataArray(values(2, 6, 5), dims=("K", "I", "J"), coords={"I": np.arange(6) * 0.5, "K": [3, 7]})
    found = ti.as_jax(laplacian)(x)
    assert found.dims == ("I", "J", "K")
    np.testing.assert_array_equal(found["I"], [0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(found["K"], [3, 7])
    np.testing.assert_array_equal(found, ti.as_jax(laplacian)(x.transpose("I", "J", "K").values))


def test_an_array_with_other_names_is_refused() -> None:
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.as_jax(laplacian)(xr.DataArray(values(6, 5, 2), dims=("x", "y", "K")))
    assert str(caught.value) == (
        "error[TI11]: 'a' has the dims I, J, K, and this array has x, y, K.\n"
        "help: rename its dims: array.rename({...})."
    )
