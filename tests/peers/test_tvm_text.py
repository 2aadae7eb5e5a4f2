"""What we print, TVM reads as the same module that it reads from its own text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")

sys.path.insert(0, str(Path(__file__).parents[1] / "tir"))

from tir_samples import conformance, kernels  # noqa: E402

from tensorir.tir import parse, print_function  # noqa: E402

NOT_READ_BY_TVM = (
    "vectors",
    "threads, attributes",
    "packed calls",
    "TileLang",
    "calls of every kind",
    "constants that",
)
# TVM gives the annotation of an access pointer another type when it builds it than when it reads it back.
UNSTABLE_IN_TVM = ("buffers: strides",)


def texts() -> list[object]:
    skipped = NOT_READ_BY_TVM + UNSTABLE_IN_TVM
    own = [p for p in kernels("new", "relax") if not any(mark in str(p.id) for mark in skipped)]  # type: ignore[attr-defined]
    return [*own, *(p for p in conformance() if "scatter_elements_ops" not in str(p.id))]  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", texts())
def test_tvm_reads_our_text_as_its_own(text: str):
    try:
        theirs = tvm.script.from_source(text)
    except Exception:
        pytest.skip("TVM does not read this text of its own")
    module = parse(text)
    alone = "I.ir_module" not in text
    ours = print_function(next(iter(module.functions.values()))) if alone else str(module)
    again = tvm.script.from_source(ours)
    assert tvm_ffi.structural_equal(theirs, again), tvm_ffi.get_first_structural_mismatch(theirs, again)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", texts())
def test_we_read_live_objects_of_tvm(text: str):
    try:
        live = tvm.script.from_source(text)
    except Exception:
        pytest.skip("TVM does not read this text of its own")
    module = parse(live)
    assert parse(str(module)) == module
