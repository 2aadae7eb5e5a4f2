"""Loops of 64^3 iterations are interpreted many at once, whatever their order and their kind."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir.tir as tir
from tests.effort import count_calls

HEAD = """@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
"""

BODIES = {
    "a product": "for i, j, k in T.grid(64, 64, 64):\n    C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "a product, summed outermost": "for k, i, j in T.grid(64, 64, 64):\n    C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "a product of blocks": """for i, j, k in T.grid(64, 64, 64):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]""",
    "one sum": "for i, j, k in T.grid(64, 64, 64):\n    C[0, 0] = C[0, 0] + A[i, j] * B[j, k]",
    "a histogram": """for i, j, k in T.grid(64, 64, 64):
    C[0, T.Cast("int32", A[i, j] * T.float32(63))] = C[0, T.Cast("int32", A[i, j] * T.float32(63))] + B[j, k]""",
    "a parallel product": """for i in T.parallel(64):
    for j in range(64):
        C[i, j] = T.float32(0)
        for k in range(64):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]""",
    "steps in time": """for t, i, j in T.grid(64, 62, 62):
    C[i + 1, j + 1] = (C[i, j + 1] + C[i + 2, j + 1]) * T.float32(0.5)""",
}


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("name", BODIES)
def test_64_cubed_iterations_take_few_calls(name: str, checked: bool):
    module = tir.parse(HEAD + "".join(f"    {line}\n" for line in BODIES[name].splitlines()))
    a, b = np.random.default_rng(1).random((2, 64, 64), np.float32)
    found: list[np.ndarray] = []
    calls = count_calls(lambda: found.append(tir.interpret(module["main"], a, b, np.zeros_like(a), checked=checked)[2]))
    if "product" in name:
        np.testing.assert_allclose(found[0], a @ b, rtol=1e-4)
    # steps in time are taken row by row, everything else in fewer calls than iterations
    assert calls < (8 if name == "steps in time" else 1) * 64**3
