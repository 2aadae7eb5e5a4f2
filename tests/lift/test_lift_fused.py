"""Loops that were fused, and loops that are longer than what they do: the lift sees the loops that they were."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorir as ti
import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError
from tests.lift.schedules import up_to_names


def function(body: str, **buffers: str) -> tir.PrimFunc:
    params = ", ".join(f'{name}: T.Buffer({kind}, "float32")' for name, kind in buffers.items())
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return tir.parse(f"@T.prim_func\ndef main({params}):\n{lines}")["main"]


def agree(func: tir.PrimFunc) -> ti.Lifted:
    """The lifted function, which computes what the interpreter does."""
    rng = np.random.default_rng(3)
    shapes = [tuple(e.value for e in func.buffer_map[p].shape) for p in func.params]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    program = ti.lift(func)
    wanted = tir.interpret(func, *arrays, checked=True)
    written = [w for w, a in zip(wanted, program.arguments, strict=True) if a.written]
    for one, other in zip(program(*arrays), written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return program


ROWS = """
M = T.sblock_alloc_buffer(({n},))
for i, k in T.grid({n}, {m}):
    with T.sblock("M"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            M[vi] = T.float32(-1e30)
        M[vi] = T.max(M[vi], A[vi, vk])
for i, j in T.grid({n}, {m}):
    B[i, j] = A[i, j] - M[i]
"""
IN_TASKS = """
M = T.sblock_alloc_buffer(({n},))
for t in T.parallel({tasks}):
    for i, k in T.grid({tile}, {m}):
        with T.sblock("M"):
            vi = T.axis.spatial({n}, {row} * {tile} + i)
            vk = T.axis.reduce({m}, k)
            T.where({row} * {tile} + i < {n})
            with T.init():
                M[vi] = T.float32(-1e30)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid({tile}, {wide}):
        with T.sblock("B"):
            vi = T.axis.spatial({n}, {row} * {tile} + i)
            vj = T.axis.spatial({m}, {column} * {wide} + j)
            T.where({row} * {tile} + i < {n} and {column} * {wide} + j < {m})
            B[vi, vj] = A[vi, vj] - M[vi]
"""


@pytest.mark.parametrize("by_rows", [True, False], ids=["row by row", "column by column"])
@pytest.mark.parametrize(
    ("n", "m", "tile", "wide"), [(4, 6, 2, 3), (5, 7, 2, 3), (7, 4, 3, 4), (3, 9, 4, 2), (6, 5, 1, 2)]
)
def test_tiles_of_all_loops_as_tasks_are_no_tiles(n: int, m: int, tile: int, wide: int, by_rows: bool):
    rows, columns = -(-n // tile), -(-m // wide)
    row, column = (f"t // {columns}", f"t % {columns}") if by_rows else (f"t % {rows}", f"t // {rows}")
    sizes = {"n": n, "m": m, "tile": tile, "wide": wide, "row": row, "column": column, "tasks": rows * columns}
    shape = f"({n}, {m})"
    base, tasks = (function(t.format(**sizes), A=shape, B=shape) for t in (ROWS, IN_TASKS))
    assert up_to_names(str(agree(tasks))) == up_to_names(str(agree(base)))


WINDOWS = """
S = T.alloc_buffer((13,))
for i in range(13):
    S[i] = T.exp(A[i])
for i, r in T.grid(11, 3):
    with T.sblock("B"):
        vi, vr = T.axis.remap("SR", [i, r])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + S[vi + vr]
"""
WINDOWS_IN_TASKS = """
for n, t in T.grid(1, 6):
    S = T.alloc_buffer((1, 4))
    for k in range(4):
        if t * 2 + k < 13:
            S[0, k] = T.exp(A[t * 2 + k])
    for one, i, r in T.grid(2, 2, 3):
        if one < 1 and t * 2 + i < 11:
            if r == 0:
                B[t * 2 + i] = T.float32(0)
            B[t * 2 + i] = B[t * 2 + i] + S[one, i + r]
"""


def test_what_overlapping_tiles_hold_is_computed_once():
    base, tiles = (function(t, A="(13,)", B="(11,)") for t in (WINDOWS, WINDOWS_IN_TASKS))
    assert up_to_names(str(agree(tiles))) == up_to_names(str(agree(base)))


TWO = {"A": "(4, 3)", "B": "(4, 3)"}
PLAIN = "for i, j in T.grid(4, 3):\n    B[i, j] = A[i, j] * T.float32(2)"
SAME = {
    "one loop": """
for t in range(12):
    B[t // 3, t % 3] = A[t // 3, t % 3] * T.float32(2)
""",
    "in three": """
for t in range(12):
    B[t // 6 * 2 + t % 6 // 3, t % 3] = A[t // 3, t % 3] * T.float32(2)
""",
    "longer": """
for i, j in T.grid(8, 5):
    if i < 4 and j < 3:
        B[i, j] = A[i, j] * T.float32(2)
""",
    "from the middle": """
for i, j in T.grid(9, 3):
    if i >= 3 and i <= 6:
        B[i - 3, j] = A[i - 3, j] * T.float32(2)
""",
    "fused and longer": """
for t in range(15):
    if t // 3 < 4:
        B[t // 3, t % 3] = A[t // 3, t % 3] * T.float32(2)
""",
    "threads": """
for b in T.thread_binding(2, thread="blockIdx.x"):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        if t < 6:
            B[b * 2 + t // 3, t % 3] = A[b * 2 + t // 3, t % 3] * T.float32(2)
""",
    "several ends": """
for i, j in T.grid(6, 3):
    if i < 2:
        B[i, j] = A[i, j] * T.float32(2)
    if i >= 2 and i < 4:
        B[i, j] = A[i, j] * T.float32(2)
""",
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_loops_are_those_that_they_were(body: str):
    assert up_to_names(str(agree(function(body, **TWO)))) == up_to_names(str(agree(function(PLAIN, **TWO))))


KEPT = {
    "a recurrence": """
for t in range(11):
    B[(t + 1) // 3, (t + 1) % 3] = B[t // 3, t % 3] * T.float32(0.5) + A[t // 3, t % 3]
""",
    "a sum so far": """
for t in range(12):
    B[t // 3, t % 3] = A[t // 3, t % 3]
    if t > 0:
        B[t // 3, t % 3] = B[t // 3, t % 3] + B[(t - 1) // 3, (t - 1) % 3]
""",
    "divided in two ways": """
for t in range(12):
    B[t // 3, t % 3] = A[t // 4, t % 3] + A[t % 4, t // 4]
""",
    "a last store that wins": """
for t in range(12):
    B[t % 4, 0] = A[t // 3, t % 3]
""",
    "what an iteration leaves the next one": """
S = T.alloc_buffer((1,))
S[0] = T.float32(1)
for t in range(12):
    B[t // 3, t % 3] = S[0]
    S[0] = A[t // 3, t % 3]
""",
    "nothing at all": """
for i, j in T.grid(8, 3):
    if i >= 4 and i < 3:
        B[i, j] = A[i, j]
B[0, 0] = T.float32(1)
""",
    "as long as data say": """
n = T.alloc_buffer((1,), "int32")
for t in range(12):
    n[0] = t % 3
    while n[0] < 3:
        B[t // 3, n[0]] = A[t // 3, n[0]] + T.float32(1)
        n[0] = n[0] + 1
""",
    "values of an iteration": """
for t in range(12):
    with T.sblock("B"):
        v = T.axis.opaque(12, t)
        x: T.let[T.float32] = A[v // 3, v % 3] * T.float32(3)
        y: T.let[T.float32] = x + A[3 - v // 3, v % 3]
        B[v // 3, v % 3] = x * y
""",
    "a tuple of an iteration": """
M = T.alloc_buffer((4,))
for t, k in T.grid(8, 3):
    if t % 2 == 0:
        with T.sblock("M"):
            v, vk = T.axis.remap("SR", [t, k])
            if vk == 0:
                M[v // 2] = T.float32(-10)
                B[v // 2, 0] = T.float32(0)
            a: T.let[T.float32] = T.if_then_else(M[v // 2] >= A[v // 2, vk], B[v // 2, 0], T.Cast("float32", vk))
            b: T.let[T.float32] = T.max(M[v // 2], A[v // 2, vk])
            B[v // 2, 0] = a
            M[v // 2] = b
""",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_the_order_of_iterations_is_kept(body: str):
    agree(function(body, **TWO))


def test_a_race_is_told_in_the_words_of_the_source():
    body = "for t in T.parallel(12):\n    B[t // 3, 0] = A[t // 3, t % 3]"
    told = re.escape("two iterations of the parallel loop over t touch B[0, 0]")
    with pytest.raises(DiagnosticError, match=told):
        ti.lift(function(body, **TWO))
