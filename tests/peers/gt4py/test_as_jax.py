"""GT4Py's programs as functions that JAX transforms: through scans and reductions over neighbours, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr

import tensorir as ti
from tests.peers.gt4py.sides import I, Vertex, gtx, values
from tests.peers.gt4py.test_cartesian import laplacian, two_statements
from tests.peers.gt4py.test_columns import rained, solved
from tests.peers.gt4py.test_unstructured import PRESENT, PROVIDER, V2E_TABLE, extremes, summed, weighted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


F = gtx.Field[[I], gtx.float64]


@gtx.field_operator
def doubled(x: F) -> F:
    return 2.0 * x


@gtx.field_operator
def both_doubled(x: F, y: F) -> tuple[F, F]:
    return 2.0 * x, 2.0 * y


@gtx.field_operator
def summed_up(xy: tuple[F, F], n: gtx.int32) -> F:
    return xy[0] + xy[1]


@gtx.program
def stores_doubled(x: F, out: F):
    doubled(x, out=out)


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


EMPTY, THREE = np.zeros(0), np.ones(3)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda: ti.as_jax(laplacian)(values(2, 5, 3)), [(0, 3, 3)]),
        (lambda: ti.as_jax(laplacian)(xr.DataArray(values(1, 5, 3), dims=("I", "J", "K"))), [(0, 3, 3)]),
        (lambda: ti.as_jax(laplacian, domain={"I": (2, 2), "J": (1, 2), "K": 3})(values(6, 5, 3)), [(0, 1, 3)]),
        (lambda: jax.vmap(ti.as_jax(doubled))(np.zeros((2, 0))), [(2, 0)]),
        (lambda: ti.as_jax(both_doubled)(EMPTY, THREE), [(0,), (3,)]),
        (lambda: ti.as_jax(stores_doubled)(EMPTY, EMPTY)["out"], [(0,)]),
    ],
)
def test_what_has_no_point_is_an_empty_array(call: Callable[[], Any], shapes: list[tuple[int, ...]]) -> None:
    with jax.enable_x64(True):
        results = call()
    arrays = results if isinstance(results, tuple) else (results,)
    assert [(a.shape, str(a.dtype)) for a in arrays] == [(shape, "float64") for shape in shapes]


def test_a_domain_may_be_asked_for() -> None:
    assert ti.as_jax(laplacian, domain={"I": (1, 3), "J": (2, 4), "K": 2})(values(6, 5, 2)).shape == (2, 2, 2)


def test_domains_are_those_of_gt4py_too_and_one_for_each_result() -> None:
    e = values(5)
    four, three = gtx.domain({Vertex: (0, 4)}), {"Vertex": (1, 4)}
    for domain, extents in ((four, (4, 4)), ((four, four), (4, 4)), ((three, four), (3, 4)), ({"Vertex": 2}, (2, 2))):
        found = ti.as_jax(extremes, offset_provider=PROVIDER, domain=domain)(e)
        assert tuple(len(x) for x in found) == extents
    high, low = ti.as_jax(extremes, offset_provider=PROVIDER, domain=(three, four))(e)
    whole = ti.as_jax(extremes, offset_provider=PROVIDER)(e)
    np.testing.assert_array_equal(high, whole[0][1:])
    np.testing.assert_array_equal(low, whole[1])


def test_a_table_may_be_a_plain_array() -> None:
    e = values(5)
    expected = ti.as_jax(summed, offset_provider=PROVIDER)(e)
    for table in (V2E_TABLE, V2E_TABLE.astype(np.int64), jax.numpy.asarray(V2E_TABLE)):
        np.testing.assert_array_equal(ti.as_jax(summed, offset_provider={"V2E": table})(e), expected)


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return str(caught.value)


def around(**options: Any) -> Any:
    return ti.as_jax(extremes, **{"offset_provider": PROVIDER, **options})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda e: around()(e, offset_provider=PROVIDER),
            "error[TI11]: 'offset_provider' is told when the function is made, and is no argument of 'extremes'.\n"
            "help: ti.as_jax(extremes, offset_provider=...)(e).",
        ),
        (
            lambda e: around()(e, e),
            "error[TI11]: 'extremes' takes 1 argument, and 2 are given.\n"
            "help: its parameters are e; results are returned.",
        ),
        (lambda e: around()(ee=e), "error[TI11]: 'extremes' has no parameter 'ee'.\nhelp: did you mean 'e'?"),
        (
            lambda e: around()(e, e=e),
            "error[TI11]: 'e' of 'extremes' is given by position and by name.\nhelp: give it once.",
        ),
        (
            lambda e: ti.as_jax(summed_up)((e,), 2),
            "error[TI11]: 'xy' is a tuple of 2, and 1 are passed.\nhelp: pass as many as its type has.",
        ),
        (
            lambda e: ti.as_jax(summed_up)((xr.DataArray(e, dims="I"),) * 3, 2),
            "error[TI11]: 'xy' is a tuple of 2, and 3 are passed.\nhelp: pass as many as its type has.",
        ),
        (
            lambda e: ti.as_jax(summed_up)([e, e], 2),
            "error[TI11]: 'xy' is a tuple, and this is of type list.\nhelp: pass a tuple.",
        ),
        (
            lambda e: ti.as_jax(summed_up)(1.0, 2),
            "error[TI11]: 'xy' is a tuple, and this is of type float.\nhelp: pass a tuple.",
        ),
        (
            lambda e: ti.as_jax(summed_up)((e, e), np.array([1, 2])),
            "error[TI11]: 'n' is a number, and this has 1 axis.\nhelp: pass a number.",
        ),
        (
            lambda e: ti.as_jax(summed_up)((e, e), (1, 2)),
            "error[TI11]: 'n' is a number, and this is a tuple.\nhelp: pass a number.",
        ),
        (
            lambda e: ti.as_jax(summed_up)((e, (e,)), 2),
            "error[TI11]: 'xy_1' is a field, and this is a tuple.\nhelp: pass an array.",
        ),
        (
            lambda e: ti.as_jax(doubled)(np.ones((2, 2))),
            "error[TI11]: 'x' has 1 dim, and this has 2 axes.\nhelp: its axes are I.",
        ),
        (
            lambda e: around(offset_provider={"V2E": V2E_TABLE[0]})(e),
            "error[TI05]: the table 'V2E' has the dims Vertex, V2E and holds integers; this is int32[3].\n"
            "help: a row for each point, a column for each neighbour.",
        ),
        (
            lambda e: around(offset_provider={"V2V": V2E_TABLE})(e),
            "error[TI05]: the offset 'V2V' leads to what is no dimension and no table.\n"
            "help: gtx.as_connectivity([Vertex, V2EDim], Edge, table) tells the dims of a table.",
        ),
        (
            lambda e: around(domain={"Edge": 4})(e),
            "error[TI06]: a result has the dims Vertex, and its domain is {'Edge': (0, 4)}.\n"
            "help: domain={'Vertex': (0, 10)}.",
        ),
        (
            lambda e: around(domain=({"Vertex": 4},) * 3)(e),
            "error[TI06]: there are 3 domains, and the operator returns 2 fields.\n"
            "help: give a domain for each, or one for all.",
        ),
        (
            lambda e: around(domain={"Vertex": "x"})(e),
            "error[TI06]: the interval of Vertex is 'x'.\nhelp: domain={'Vertex': (0, 10)}, or a domain of GT4Py.",
        ),
        (
            lambda e: around(domain={"Vertex": (0.5, 2.5)})(e),
            "error[TI06]: the interval of Vertex is (0.5, 2.5).\n"
            "help: domain={'Vertex': (0, 10)}, or a domain of GT4Py.",
        ),
        (
            lambda e: around(domain={"Vertex": range(0, 4, 2)})(e),
            "error[TI06]: the interval of Vertex is range(0, 4, 2).\n"
            "help: domain={'Vertex': (0, 10)}, or a domain of GT4Py.",
        ),
        (
            lambda e: around(domain=3)(e),
            "error[TI06]: 3 is no domain.\nhelp: domain={'I': (0, 10)}, or a domain of GT4Py.",
        ),
        (
            lambda e: around(offset_provider=3)(e),
            "error[TI05]: an offset provider is a dict of offsets, and not 3.\nhelp: offset_provider={'V2E': table}.",
        ),
        (
            lambda e: ti.lift(extremes),
            "error[TA01]: a program of GT4Py has the sizes of its fields, which are not told here.\n"
            "help: ti.as_jax(program) is a function of arrays; ti.lift(ti.iterator.from_gt4py(program, sizes=...)).",
        ),
    ],
)
def test_what_is_given_in_another_place_is_refused_with_where_it_belongs(call: Any, said: str) -> None:
    assert refusal(lambda: call(values(5))) == said


def test_a_function_is_shown_in_one_line() -> None:
    assert repr(around()) == "<'extremes' as a function of e>"


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
