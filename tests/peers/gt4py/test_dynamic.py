"""GT4Py's programs whose accesses or sizes depend on data: dynamic offsets, static parameters, index fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.peers.gt4py.sides import I, J, K, both, field, gtx, ours, xla_cpu

from gt4py.next import float32  # isort: skip
from gt4py.next.experimental import as_offset  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Ioff = gtx.FieldOffset("Ioff", source=I, target=(I,))
Koff = gtx.FieldOffset("Koff", source=K, target=(K,))
IKField = gtx.Field[[I, K], gtx.float64]
IKInts = gtx.Field[[I, K], gtx.int32]


@gtx.field_operator
def indirect(a: IKField, by: IKInts) -> IKField:
    return a(as_offset(Koff, by)) * 2.0


def test_an_offset_that_is_a_field() -> None:
    k = np.arange(5)
    by = np.stack([RNG.integers(0, 5, 5) - k for RNG in [np.random.default_rng(n) for n in range(3)]]).astype(np.int32)
    a = field({I: 3, K: 5})
    both(indirect, a, field({I: 3, K: 5}, data=by), out=field({I: 3, K: 5}))


SOURCE = """
import gt4py.next as gtx
from gt4py.next.experimental import as_offset
from tests.peers.gt4py.sides import I
Ioff = gtx.FieldOffset("Ioff", source=I, target=(I,))
@gtx.field_operator
def displaced(a: gtx.Field[[I], gtx.float64], by: gtx.Field[[I], gtx.{}]) -> gtx.Field[[I], gtx.float64]:
    return a(as_offset(Ioff, by))
"""


@pytest.mark.parametrize("element", ["int8", "uint8", "int64", "uint64"])
def test_an_offset_of_any_type_of_integers(element: str, tmp_path: Path) -> None:
    place, names = tmp_path / "displaced.py", {}
    place.write_text(SOURCE.format(element), encoding="utf-8")
    exec(compile(place.read_text(encoding="utf-8"), place, "exec"), names)  # GT4Py reads the source of what it runs
    by = np.resize([0, 3, 1] if element.startswith("u") else [0, 3, -1], 300).astype(element)
    by[-3:] = 0
    a, out = (field({I: (-150, 150)}, data=np.arange(300.0)) for _ in range(2))
    (_, _, found) = ours(names["displaced"], a, field({I: (-150, 150)}, data=by), out=out)
    np.testing.assert_array_equal(found, np.arange(300) + by.astype(int))


@gtx.field_operator
def twice_indirect(a: IKField, by: IKInts) -> IKField:
    once = a(as_offset(Ioff, by))
    return once(as_offset(Koff, by))


def test_an_offset_of_what_was_offset() -> None:
    a, by = field({I: 6, K: 6}), field({I: 5, K: 6}, data=np.ones((5, 6), np.int32))
    found = ours(twice_indirect, a, by, out=field({I: 5, K: 5}))[-1]
    np.testing.assert_array_equal(found, a.asnumpy()[1:, 1:])


@gtx.field_operator
def scaled(a: gtx.Field[[I], gtx.float64], n: gtx.int32) -> gtx.Field[[I], gtx.float64]:
    return a * 2.0 if n > 2 else a


@gtx.program
def scaling(a: gtx.Field[[I], gtx.float64], n: gtx.int32, out: gtx.Field[[I], gtx.float64]):
    scaled(a, n, out=out, domain={I: (0, n)})


def test_programs_compiled_ahead_for_static_parameters() -> None:
    program = scaling.with_backend(xla_cpu).compile(n=[np.int32(2), np.int32(4)], offset_provider={})
    for n in (2, 4):
        a, out = field({I: 6}), field({I: 6}, data=np.zeros(6))
        program(a, np.int32(n), out, offset_provider={})
        expected = np.where(np.arange(6) < n, a.asnumpy() * (2.0 if n > 2 else 1.0), 0.0)
        np.testing.assert_array_equal(out.asnumpy(), expected)


def test_bound_arguments() -> None:
    program = scaling.with_backend(xla_cpu).with_bound_args(n=np.int32(3))
    a, out = field({I: 6}), field({I: 6}, data=np.zeros(6))
    program(a, out=out, offset_provider={})
    np.testing.assert_array_equal(out.asnumpy()[:3], a.asnumpy()[:3] * 2)


@gtx.field_operator
def sixfold(a: gtx.Field[[I, J], gtx.float32]) -> gtx.Field[[I, J], gtx.float32]:
    return a * float32(6.0)


def test_fields_that_do_not_lie_in_one_piece() -> None:
    a = field({I: 6, J: 4}, np.float32)
    transposed = gtx.as_field(gtx.domain({I: 4, J: 6}), a.asnumpy().T)
    both(sixfold, transposed, out=field({I: 4, J: 6}, np.float32))
