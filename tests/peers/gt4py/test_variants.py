"""When programs are compiled: once for each set of domains, whatever the memory of the fields is."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tensorir as ti
from tensorir.iterator.gt4py_backend import make_backend, variants
from tests.effort import device_work
from tests.peers.gt4py.sides import I, field, gtx, xla_cpu

from gt4py.next import config  # isort: skip

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


def test_what_was_compiled_is_taken_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "BUILD_CACHE_LIFETIME", config.BuildCacheLifetime.PERSISTENT)
    monkeypatch.setattr(config, "BUILD_CACHE_DIR", tmp_path)
    hits: list[str] = []

    def see(event: str, **_: object) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            hits.append(event)

    jax.monitoring.register_event_listener(see)
    try:
        for _ in range(2):
            x, out = at(0), at(0)
            x.ndarray[...] = 1.5
            scaled.with_backend(make_backend())(x, 3.0, out, offset_provider={})
            np.testing.assert_array_equal(out.ndarray, 4.5)
    finally:
        jax.monitoring.unregister_event_listener(see)
        assert ti.config.keep_compilations(None) == tmp_path / "xla"
    assert list((tmp_path / "xla").glob("*-cache")) and len(hits) >= 1


def test_a_folder_for_compilations_is_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.config.keep_compilations(tmp_path / "file")
    assert str(caught.value) == (
        f"error[A30]: '{tmp_path / 'file'}' cannot hold compilations: File exists.\nhelp: name a folder."
    )


@gtx.program(backend=xla_cpu)
def scaled_between(x: IF, a: gtx.float64, out: IF, first: gtx.int32, last: gtx.int32):
    _scaled(x, a, out=out, domain={I: (first, last)})


def test_each_variant_says_what_it_came_for() -> None:
    x, longer, strided = at(0), field({I: 7}), gtx.common._field(np.ones(12)[::2], domain=gtx.domain({I: 6}))
    calls = [(x, 2.0, x, 0, 6), (x, 3.0, x, 0, 6), (x, 2.0, x, 1, 6), (longer, 2.0, x, 1, 6), (strided, 2.0, x, 1, 6)]
    for call in calls:
        scaled_between(*call, offset_provider={})
    assert [v.why for v in variants(scaled_between)] == [
        "its first call",
        "'first' is 1, and was 0",
        "'x' is on I[0:7], and was on I[0:6]",
        "'x' lies with the strides (16,), and lay with (8,)",
    ]


def test_a_program_that_was_read_ahead_is_compiled_by_its_first_call() -> None:
    ahead = scaled_between.with_compilation_options(enable_jit=False).compile(
        offset_provider={}, a=[2.0, 3.0]
    )  # fmt: skip
    x, out = at(0), at(0)
    x.ndarray[...] = 1.5
    assert variants(ahead) == ()
    ahead(x, 3.0, out, 0, 6, offset_provider={})
    np.testing.assert_array_equal(out.ndarray, 4.5)
    assert [v.why for v in variants(ahead)] == ["its first call"]
    with pytest.raises(RuntimeError, match="No program compiled for this set of static arguments"):
        ahead(x, 4.0, out, 0, 6, offset_provider={})
