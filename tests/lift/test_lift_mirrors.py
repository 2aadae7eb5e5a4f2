"""Storage that holds parts of other storage in places that no sum tells: tiles that straddle rows, or begin there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError
from tests.lift.costs import costs_of
from tests.lift.harness import agree, near, parsed, reference

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


def test_a_tile_of_another_size_in_each_block_is_read_from_what_it_holds_a_part_of():
    assert str(costs_of(agree(parsed(TILES.format("shared", 4, f"A{PLACE}"))))) == "0 0 0 1"


def test_a_tile_with_rows_of_its_own_is_read_from_what_it_holds_a_part_of():
    text = TILES.format("shared", 4, f"A{PLACE}").replace('(5, 7), "float32", scope', '(64,), "float32", scope')
    text = text.replace("S[bx * 8 // 7 + (k * 8 + tx) // 7, ", "S[(k * 8 + tx) // 7 * 9 + ")
    text = text.replace("S[(bx * 8 + tx) // 7, ", "S[((bx * 8 + tx) // 7 - bx * 8 // 7) * 9 + ")
    assert str(costs_of(agree(parsed(text)))) == "0 0 0 1"


@pytest.mark.parametrize(
    "value",
    [
        f"A{PLACE} + T.float32(1)",  # no copy
        "A[4 - (bx * 8 // 7 + (k * 8 + tx) // 7), (k * 8 + tx) % 7]",  # other places
    ],
)
def test_what_is_no_part_of_other_storage_is_read_where_it_is(value: str):
    agree(parsed(TILES.format("shared", 4, value)))


@pytest.mark.parametrize(("scope", "turns"), [("shared", 100), ("shared", 14), ("local", 4)])
def test_what_a_block_or_a_thread_does_not_fetch_is_not_read_from_elsewhere(scope: str, turns: int):
    function = ti.tir.parse(TILES.format(scope, turns, f"A{PLACE}"))["main"]
    zeros = np.zeros((5, 7), np.float32)
    with pytest.raises(DiagnosticError, match="nobody has written it"):
        ti.tir.interpret(function, zeros, zeros, checked=True)
    ones = np.ones((5, 7), np.float32)
    assert (reference(ti.lift(function, on_hazard="ignore"))(ones, zeros)[0] != 2 * ones).any()


FROM_WHERE = """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((8, 3), "float32")):
    S = T.alloc_buffer(({0},), "float32"){1}
"""
AT_ONCE = """
    for p in range(1, 10):
        S[p] = {0}
    for i, r in T.grid(8, 3):
        B[i, r] = T.if_then_else(1 <= i + r, S[i + r], T.float32(0))
"""
PER_TILE = """
    for i in range(8):
        for r in range(3):
            if 1 <= i + r:
                S[i + r - T.max(i, 1)] = {0}
        for r in range(3):
            B[i, r] = T.if_then_else(1 <= i + r, S[i + r - T.max(i, 1)], T.float32(0))
"""


def arrays_agree(text: str) -> ti.Lifted:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12).astype(np.float32), rng.normal(size=(8, 3)).astype(np.float32)
    return agree(parsed(text), a, b, checked=False)


@pytest.mark.parametrize("value", ["T.if_then_else({0} % 2 == 0, A[{0} // 2], T.float32(1))", "A[{0}] * A[9 - {0}]"])
def test_tiles_that_begin_where_no_sum_says_take_no_more_than_what_is_filled_at_once(value: str):
    tiles = FROM_WHERE.format(3, PER_TILE.format(value.format("(i + r)")))
    near(arrays_agree(tiles), arrays_agree(FROM_WHERE.format(10, AT_ONCE.format(value.format("p")))))


@pytest.mark.parametrize(
    ("store", "read"),
    [
        ("S[T.max(t, 1)] = A[t]", "S[T.max(r, 1)]"),  # the last of two that fill a place
        ("S[T.max(t, 1)] = A[2 - t]", "S[T.min(r + 1, 2)]"),
        ("S[t * t] = A[i + t]", "S[r * r]"),
        ("S[t * t] = A[i * t // 2]", "S[r * r]"),  # no sum
        ("S[T.max(i, t)] = A[t]", "S[i]"),  # filled in the last round that reaches it
        ("S[T.max(0, t - i)] = A[t]", "S[T.max(0, r - i)]"),
        ("S[T.min(i, 3)] = A[i] * A[t]", "S[T.min(i, 3)]"),  # who was the last one is not told
        ("S[T.min(t, 1) + t] = A[t + i]", "S[T.min(r, 1)]"),  # a place in front of what is filled
        ("S[T.min(t, 1) + t] = B[i - 1, t]", "S[T.min(r, 1) + r]"),  # what is read changes
        ("S[T.min(t, 1) + t] = A[t + i] + S[0]", "S[T.min(r, 1) + r]"),
    ],
)
def test_what_counting_does_not_tell_is_read_where_it_is(store: str, read: str):
    body = f"""
    for p in range(12):
        S[p] = T.Cast("float32", p)
    for i in range(1, 8):
        for t in range(3):
            {store}
        for r in range(3):
            B[i, r] = {read}"""
    arrays_agree(FROM_WHERE.format(12, body))
    if "S[0]" not in store:  # without the start, most of them are the only store
        start = body.index("    for i in")
        only = FROM_WHERE.format(12, "\n" + body[start:])
        try:
            ti.tir.interpret(
                ti.tir.parse(only)["main"], np.zeros(12, np.float32), np.zeros((8, 3), np.float32), checked=True
            )
        except DiagnosticError:  # nobody has written what it reads
            return
        arrays_agree(only)
