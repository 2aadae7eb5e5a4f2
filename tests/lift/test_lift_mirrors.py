"""Storage that holds parts of other storage in places that no sum tells: tiles that straddle rows, or begin there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.harness import reference

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


@pytest.mark.parametrize(("scope", "turns"), [("shared", 100), ("shared", 14), ("local", 4)])
def test_what_a_block_or_a_thread_does_not_fetch_is_not_read_from_elsewhere(scope: str, turns: int):
    function = ti.tir.parse(TILES.format(scope, turns, f"A{PLACE}"))["main"]
    zeros = np.zeros((5, 7), np.float32)
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, zeros, zeros, checked=True)
    ones = np.ones((5, 7), np.float32)
    assert (reference(ti.lift(function, on_hazard="ignore"))(ones, zeros)[0] != 2 * ones).any()
