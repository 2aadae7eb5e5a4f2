"""When programs are compiled: once for each set of domains, whatever the memory of the fields is."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from tests.effort import device_work
from tests.peers.gt4py.sides import I, gtx, xla_cpu

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

IF = gtx.Field[[I], gtx.float64]


@gtx.field_operator
def _scaled(x: IF, a: gtx.float64) -> IF:
    return a * x


@gtx.program(backend=xla_cpu)
def scaled(x: IF, a: gtx.float64, out: IF):
    _scaled(x, a, out=out)


def at(offset: int) -> Any:
    """A field whose memory begins so many bytes above a multiple of 64, which XLA takes as it is."""
    memory = np.zeros(8 * 6 + 128, np.uint8)
    first = -memory.ctypes.data % 64 + offset
    return gtx.common._field(memory[first : first + 48].view(np.float64), domain=gtx.domain({I: 6}))


def test_a_second_call_compiles_nothing_wherever_its_fields_lie() -> None:
    scaled(at(0), 2.0, at(0), offset_provider={})
    found = [device_work(lambda k=k: scaled(at(k), 2.0, at(k), offset_provider={})).compiled for k in (0, 8, 0)]
    assert found == [0, 0, 0]


def test_a_program_holds_no_field_of_its_calls() -> None:
    x, out = at(0), at(0)
    scaled(x, 2.0, out, offset_provider={})
    gone = weakref.ref(x.ndarray)
    del x
    assert gone() is None


def test_fields_that_take_turns_are_what_they_hold_in_each_call() -> None:
    fields = [at(0) for _ in range(6)]
    out = at(0)
    for k in range(18):
        x = fields[k % 6]
        x.ndarray[...] = k
        scaled(x, 2.0, out, offset_provider={})
        np.testing.assert_array_equal(out.ndarray, 2.0 * k)
