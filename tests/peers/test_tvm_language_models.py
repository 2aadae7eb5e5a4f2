"""TVM's kernels for language models: pages that data name, sequences as long as data say, softmax as it goes along."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir import tir

tvm: Any = pytest.importorskip("tvm")
rng = np.random.default_rng(7)

PAGES = [0, 2, 3, 6], [7, 1, 4, 0, 6, 2]
"""Where the pages of three sequences begin in a list of pages, and the list."""
LAST = [5, 16, 1]
"""How much of the last page of each is used."""


def kernel(module: str, name: str, *options: Any) -> Any:
    """A kernel of TVM's, as its factory makes it."""
    return getattr(importlib.import_module(f"tvm.relax.{module}"), name)(*options)


def parsed(function: Any) -> Any:
    """A kernel as a text is read."""
    return tir.parse(tvm.IRModule({"main": function}).script())["main"]


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def whole(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def cache() -> list[Any]:
    return [floats(8, 2, 2, 16, 8), *(whole(*part) for part in PAGES), whole(*LAST)]


ROTATED = [np.int32(1), np.float32(1), np.float32(10000), np.float32(0.3)]
DECODE, PREFILL, PAGE = (f"frontend.nn.llm._{name}_kernels" for name in ("decode", "prefill", "page"))

Case = tuple[Callable[[], Any], Callable[[], list[Any]], int]
"""A kernel, its arguments, and the rounds that it takes one after the other: loops in what it is lifted to."""

CASES: dict[str, Case] = {
    "decode": (
        lambda: kernel(DECODE, "_attention_decode_cpu", 2, 4, 8, "float32", False, {}),
        lambda: [
            floats(3, 4, 8), *cache(), whole(0, 3, 1), whole(36, 18, 40), floats(3, 4, 8), floats(3, 4), *ROTATED
        ],
        1,
    ),
    "prefill": (
        lambda: kernel(PREFILL, "_attention_prefill_ragged_cpu", 2, 4, 8, 8, "float32", {}),
        lambda: [
            floats(9, 4, 8), whole(0, 3, 4, 9), floats(19, 2, 8), floats(19, 2, 8), whole(0, 5, 12, 19),
            whole(*range(30, 39)), whole(0, 3, 1), floats(9, 4, 8), floats(9, 4), np.int32(1), *ROTATED,
        ],
        0,
    ),
    "merge": (
        lambda: kernel(DECODE, "_merge_state_inplace_cpu", "float32"),
        lambda: [floats(3, 4, 8), floats(3, 4), floats(3, 4, 8), floats(3, 4)],
        0,
    ),
    "append": (
        lambda: kernel(PAGE, "_kv_cache_transpose_append", 2, 8, "float32"),
        lambda: [floats(6, 2, 2, 16, 8), floats(5, 2, 8), floats(5, 2, 8), whole(3, -1, 70, 17, 18)],
        0,
    ),
    "compact": (
        lambda: kernel(PAGE, "_compact_kv_copy_cpu", 2, 8, "float32"),
        lambda: [
            floats(6, 2, 2, 16, 8), whole(0, 3, 5), np.array([[18, 19, 20, 40, 41], [3, 4, 5, 70, 71]], np.int32),
            np.int32(2),
        ],
        2,
    ),
    "rotate": (
        lambda: kernel(
            "frontend.nn.llm.position_embedding", "llama_rope_with_position_map", 10000.0, 1.0, 8, 4, 2, "float32", {}
        ),
        lambda: [
            floats(5, 8, 8), whole(3, 7, 1, 20, 4), floats(5, 4, 8), floats(5, 2, 8), floats(5, 2, 8), np.int64(1)
        ],
        0,
    ),
    "choose": (
        lambda: kernel("backend.gpu_generic.sampling", "generic_get_sample_index"),
        lambda: [
            np.cumsum(np.full((3, 10), 0.1, np.float32), 1), np.array([[0.15], [0.72], [0.4]], np.float32),
            np.array([[0], [2], [1]]), np.zeros((3, 1), np.int64),
        ],
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_a_language_model_is_lifted(name: str) -> None:
    make, arguments, rounds = CASES[name]
    function, arrays = parsed(make()), arguments()
    program = ti.lift(function)
    found = program(*arrays)
    wanted = tir.interpret(function, *arrays, checked=True)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    for k, one in zip(written, found, strict=True):
        np.testing.assert_allclose(one, wanted[k], rtol=1e-5, atol=1e-6)
    assert str(program.report).count("sequential") == rounds


@pytest.mark.nightly
def test_what_a_kernel_of_tvm_reads_outside_of_its_storage_is_said() -> None:
    function = parsed(kernel(PREFILL, "_attention_prefill_cpu", 2, 4, 8, "float32", False, {}))
    arrays = [
        floats(9, 4, 8), whole(0, 3, 4, 9), *cache(), whole(0, 3, 1), whole(*range(30, 39)), floats(9, 4, 8),
        floats(9, 4), np.int32(1), *ROTATED,
    ]  # fmt: skip
    with pytest.raises(ti.DiagnosticError, match="an index leaves the 1 elements of 'scale_O'"):
        ti.lift(function)(*arrays)
    with pytest.raises(ti.DiagnosticError, match="index 1 is outside of dimension 0 of 'scale_O'"):
        tir.interpret(function, *arrays, checked=True)
