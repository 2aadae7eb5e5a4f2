"""What is said of calls of GT4Py's programs that cannot be run; nothing of the caller's is changed by them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.iterator import gt4py_backend
from tests.peers.gt4py.sides import Edge, I, K, V2EDim, Vertex, field, gtx, values, xla_cpu
from tests.peers.gt4py.test_cartesian import ahead, laplacian, nested, two_statements
from tests.peers.gt4py.test_unstructured import PROVIDER, V2E_TABLE, edges, summed, vertices

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@gtx.field_operator
def doubled(a: gtx.Field[[I], gtx.float64]) -> gtx.Field[[I], gtx.float64]:
    return a + a


def refused(operator: Any, x: Any, out: Any, provider: Any = None) -> str:
    before = out.asnumpy().copy()
    with pytest.raises(ti.DiagnosticError) as caught:
        operator.with_backend(xla_cpu)(x, out=out, offset_provider=provider or {})
    np.testing.assert_array_equal(out.asnumpy(), before)
    return without_place(str(caught.value), operator.__name__)


def without_place(text: str, program: str) -> str:
    """A message without its note of the call, which names the program, and the line that calls it."""
    kept, notes = [], 0
    for line in text.splitlines():
        here = re.fullmatch(rf"note: in the call of '{program}' at (test_\w+\.py):\d+\.", line)
        notes += here is not None
        kept += [] if here else [line]
    assert notes == 1, text
    return "\n".join(kept)


def changed(table: np.ndarray) -> Any:
    return {**PROVIDER, "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, table.astype(np.int32), skip_value=-1)}


def test_an_offset_without_a_table() -> None:
    assert refused(summed, edges(), vertices()) == (
        "error[TI05]: the offset 'V2E' is not in the offset provider.\nhelp: pass offset_provider={\"V2E\": ...}."
    )


def test_a_field_that_is_too_small_for_its_domain() -> None:
    assert refused(ahead, field({I: 7}), field({I: 6})) == (
        "error[TI10]: 'a' of 'ahead' has I[0:7], and I[0:8] of it is read.\n"
        "note: a at I = 7 is read for out at I = 5.\n"
        'help: give it more points of I, or store on a smaller domain; out_of_range="lenient" reads the nearest.'
    )


def test_a_field_whose_domain_begins_elsewhere() -> None:
    assert refused(doubled, field({I: (1, 7)}), field({I: 6})) == (
        "error[TI10]: 'a' of 'doubled' has I[1:7], and I[0:6] of it is read.\n"
        "note: a at I = 0 is read for out at I = 0.\n"
        "note: it has as many points as are meant: its domain may have to begin at I = 0.\n"
        'help: give it more points of I, or store on a smaller domain; out_of_range="lenient" reads the nearest.'
    )


def test_lenient_reads_take_the_nearest_point_there_is() -> None:
    lenient, out = gt4py_backend.make_backend(out_of_range="lenient"), field({I: 6})
    ahead.with_backend(lenient)(field({I: 7}, data=np.arange(7.0) ** 2), out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), [4, 8, 12, 16, 20, 36 - 25])
    doubled.with_backend(lenient)(field({I: (1, 4)}, data=np.arange(3.0)), out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), [0, 0, 2, 4, 4, 4])


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def summed_down(state: float, x: float) -> float:
    return state + x


@gtx.scan_operator(axis=K, forward=False, init=(0.0, 1.0))
def halved_up(state: tuple[float, float], x: float) -> tuple[float, float]:
    return 0.5 * state[0] + x, state[1] * x


@gtx.scan_operator(axis=K, forward=True, init=0.0)
def halved_down(state: float, x: float) -> float:
    return 0.5 * state + x


@gtx.field_operator
def of_the_level_below(x: gtx.Field[[K], gtx.float64]) -> gtx.Field[[K], gtx.float64]:
    return halved_down(summed_down(x)(K - 1))


@gtx.field_operator
def of_the_level_above(x: gtx.Field[[K], gtx.float64]) -> gtx.Field[[K], gtx.float64]:
    sums, products = halved_up(x)
    return halved_down(sums(K + 1) + products(K + 1))


def test_lenient_reads_beside_a_scan_leave_its_levels_as_they_are() -> None:
    """What is read a level beyond is as at the first, or last, level; no state goes through that level."""
    lenient, x = gt4py_backend.make_backend(out_of_range="lenient"), values(5)
    assert 'out_of_range="lenient"' in refused(of_the_level_below, field({K: 5}, data=x), field({K: 5}))
    sums, halved, products = np.cumsum(x), np.zeros(6), np.cumprod(x[::-1])[::-1]
    for k in reversed(range(5)):
        halved[k] = 0.5 * halved[k + 1] + x[k]
    below = np.concatenate([sums[:1], sums[:-1]])
    above = np.concatenate([(halved[:5] + products)[1:], (halved[:5] + products)[-1:]])
    for operator, read in ((of_the_level_below, below), (of_the_level_above, above)):
        out = field({K: 5})
        operator.with_backend(lenient)(field({K: 5}, data=x), out=out, offset_provider={})
        wanted, state = [], 0.0
        for value in read:
            state = 0.5 * state + value
            wanted.append(state)
        np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-14)


def test_lenient_scans_run_over_levels_that_their_inputs_have_beyond_what_is_stored() -> None:
    lenient, x, out = gt4py_backend.make_backend(out_of_range="lenient"), values(6), field({K: 5})
    of_the_level_below.with_backend(lenient)(field({K: (-1, 5)}, data=x), out=out, offset_provider={})
    other = field({K: 5})
    of_the_level_below.with_backend(xla_cpu)(field({K: (-1, 5)}, data=x), out=other, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy(), other.asnumpy())


def test_options_are_known_ones() -> None:
    assert said(lambda: gt4py_backend.make_backend(out_of_range="ignore")) == (
        "error[TI12]: out_of_range is 'ignore'.\nhelp: it is 'clamp', 'checked', 'lenient'."
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda **options: gt4py_backend.make_backend(**options),
        lambda **options: ti.as_jax(laplacian, **options),
        lambda **options: ti.lift(ti.iterator.from_gt4py(doubled, sizes={"I": 3}), **options),
    ],
    ids=["backend", "as_jax", "lift"],
)
def test_options_that_there_are_not_are_named(call: Any) -> None:
    told = "error[TA07]: the lift of a program of GT4Py has no option"
    assert said(lambda: call(hole="zero")) == f"{told} 'hole'.\nhelp: did you mean 'holes'?"
    assert said(lambda: call(foo=1)) == f"{told} 'foo'.\nhelp: known here: 'out_of_range', 'holes'."


def test_a_table_that_leads_outside_of_a_field() -> None:
    assert refused(summed, edges(), vertices(), changed(np.where(V2E_TABLE == 4, 9, V2E_TABLE))) == (
        "error[TI10]: 'e' of 'summed' has Edge[0:5], and Edge[0:10] of it is read.\n"
        "note: e at Edge = 9 is read for out at Vertex = 2.\n"
        "note: V2E[2, 2] is 9.\n"
        'help: give it more points of Edge, or store on a smaller domain; out_of_range="lenient" reads the nearest.'
    )


def test_a_table_with_a_negative_entry() -> None:
    assert refused(summed, edges(), vertices(), changed(np.where(V2E_TABLE == 4, -7, V2E_TABLE))) == (
        "error[A10]: an entry of the table 'V2E' leaves its dimension: V2E[2, 2] is -7, and Edge[0:5] is what it may "
        "point to.\nhelp: entries are absolute coordinates; a missing neighbour is -1."
    )


def test_a_table_with_too_few_rows() -> None:
    assert refused(summed, edges(), vertices(), changed(V2E_TABLE[:3])) == (
        "error[TI10]: 'V2E' has no rows of Vertex[0:4], which 'summed' reads.\n"
        "help: store on a smaller domain, or give the table more rows."
    )


def said(call: Any) -> str:
    with pytest.raises(ti.DiagnosticError) as caught:
        call()
    return str(caught.value)


def test_single_and_double_precision_do_not_meet() -> None:
    args = field({I: 8}, np.float32), field({I: 8}), field({I: 8})
    assert said(lambda: ti.lift(ti.iterator.from_gt4py(two_statements, *args))) == (
        "error[TI11]: 'a' is float64, and float32 is passed.\nhelp: convert it, or declare a as float32."
    )


def test_a_tuple_is_not_a_field() -> None:
    args = (field({I: 3}),) * 3
    assert said(lambda: ti.lift(ti.iterator.from_gt4py(nested, *args))) == (
        "error[TI11]: 'b' is a tuple, and this is of type NumPyArrayField.\nhelp: pass a tuple."
    )


def test_arrays_without_names_have_as_many_axes_as_dims() -> None:
    assert said(lambda: ti.as_jax(laplacian)(values(3, 3))) == (
        "error[TI11]: 'a' has 3 dims, and this has 2 axes.\nhelp: its axes are I, J, K."
    )
    assert said(lambda: ti.as_jax(laplacian)()) == (
        "error[TI11]: 'a' of 'laplacian' is not given.\nhelp: pass an array."
    )


def test_sizes_name_all_dims() -> None:
    assert said(lambda: ti.iterator.from_gt4py(two_statements, sizes={})) == (
        "error[TI06]: the size of I is not given.\nhelp: sizes={'I': 10}."
    )


@pytest.mark.parametrize("size", [2.5, (5, 2), -3])
def test_a_size_is_an_interval_of_whole_numbers(size) -> None:
    assert said(lambda: ti.iterator.from_gt4py(two_statements, sizes={"I": size})) == (
        f"error[TI06]: the interval of I is {size}.\nhelp: sizes={{'I': 10}}."
    )


def test_devices_are_two() -> None:
    assert said(lambda: gt4py_backend.make_backend("tpu")) == (
        "error[TI12]: there is no device 'tpu'.\nhelp: use 'cpu' or 'gpu'."
    )


def test_other_releases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gt4py_backend.metadata, "version", lambda _: "1.2.0")
    assert said(gt4py_backend._check_release) == (
        "error[TI12]: this backend speaks to GT4Py 1.1, and 1.2.0 is installed.\nhelp: pip install 'gt4py>=1.1,<1.2'."
    )
