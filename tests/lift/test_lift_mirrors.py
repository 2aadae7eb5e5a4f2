"""Storage that holds parts of other storage at the same places: tiles of shared memory that straddle rows."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.errors import DiagnosticError

TILES = """
@T.prim_func
def main(A: T.Buffer((5, 7), "float32"), B: T.Buffer((5, 7), "float32")):
    S = T.alloc_buffer((5, 7), "float32", scope="{0}")
    for bx in T.thread_binding(5, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for k in range(((bx * 8 + 7) // 7 - bx * 8 // 7 + 1) * 7 // {1}):
                if k < 3 and bx * 8 // 7 + (k * 8 + tx) // 7 < 5:
                    S[bx * 8 // 7 + (k * 8 + tx) // 7, (k * 8 + tx) % 7] = {2}
            T.tvm_storage_sync("shared")
            if bx * 8 + tx < 35:
                B[(bx * 8 + tx) // 7, (bx * 8 + tx) % 7] = S[(bx * 8 + tx) // 7, (bx * 8 + tx) % 7] * T.float32(2)
"""
PLACE = "[bx * 8 // 7 + (k * 8 + tx) // 7, (k * 8 + tx) % 7]"


def agrees(text: str) -> str:
    function = ti.tir.parse(text)["main"]
    program = ti.lift(function)
    a, b = np.random.default_rng(0).normal(size=(2, 5, 7)).astype(np.float32)
    wanted = ti.tir.interpret(function, a, b)
    written = [w for w, p in zip(wanted, program.arguments, strict=True) if p.written]
    for found, value in zip(program(a, b), written, strict=True):
        np.testing.assert_array_equal(found, value)
    return str(program)


def test_a_tile_of_another_size_in_each_block_is_read_from_what_it_holds_a_part_of():
    assert "B ← A × 2.0f;" in agrees(TILES.format("shared", 4, f"A{PLACE}"))


@pytest.mark.parametrize(
    "value",
    [
        f"A{PLACE} + T.float32(1)",  # no copy
        "A[4 - (bx * 8 // 7 + (k * 8 + tx) // 7), (k * 8 + tx) % 7]",  # other places
    ],
)
def test_what_is_no_part_of_other_storage_is_read_where_it_is(value: str):
    agrees(TILES.format("shared", 4, value))


@pytest.mark.parametrize(("scope", "turns"), [("shared", 100), ("shared", 14), ("local", 4)])
def test_what_a_block_or_a_thread_does_not_fetch_is_not_read_from_elsewhere(scope: str, turns: int):
    function = ti.tir.parse(TILES.format(scope, turns, f"A{PLACE}"))["main"]
    zeros = np.zeros((5, 7), np.float32)
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, zeros, zeros, checked=True)
    assert "B ← A × 2.0f;" not in str(ti.lift(function, on_hazard="ignore"))
