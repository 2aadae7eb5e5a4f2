"""Checked mode: each hazard is reported with a witness, pinned whole; what is right passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorir.tir as tir
from tensorir.runtime.errors import DiagnosticError

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):\n'

HAZARDS = {
    "a read beyond the end": (
        "for i in range(8):\n    B[i] = A[i + 1]",
        "index 8 is outside of dimension 0 of 'A', which has 8 elements.",
        "in the iteration i = 7.",
    ),
    "a read before the start": (
        "for i, j in T.grid(2, 4):\n    B[i * 4 + j] = A[i + j - 1]",
        "index -1 is outside of dimension 0 of 'A', which has 8 elements.",
        "in the iteration i = 0, j = 0.",
    ),
    "a write beyond the end": (
        "for i in range(8):\n    B[i * 2] = A[i]",
        "index 8 is outside of dimension 0 of 'B', which has 8 elements.",
        "in the iteration i = 4.",
    ),
    "an index that the data gives": (
        "for i in range(8):\n    B[A[i] * 2] = i",
        "index 8 is outside of dimension 0 of 'B', which has 8 elements.",
        "in the iteration i = 4.",
    ),
    "an element outside of its row but inside of the memory": (
        'C = T.alloc_buffer((2, 4), "int32")\nfor i in range(2):\n    C[i, 3 + i] = 1',
        "index 4 is outside of dimension 1 of 'C', which has 4 elements.",
        "in the iteration i = 1.",
    ),
    "a read of what nobody wrote": (
        'C = T.alloc_buffer((8,), "int32")\nfor i in range(7):\n    C[i] = A[i]\nfor i in range(8):\n    B[i] = C[i]',
        "element 7 of 'C' is read, but nobody has written it.",
        "in the iteration i = 7.",
    ),
    "a reduction without init": (
        """C = T.alloc_buffer((1,), "int32")
for k in range(8):
    with T.sblock("sum"):
        vk = T.axis.reduce(8, k)
        T.reads(A[vk])
        T.writes(C[0])
        C[0] = C[0] + A[vk]""",
        "element 0 of 'C' is read, but nobody has written it.",
        None,
    ),
    "a parallel loop that carries a value": (
        "for i in T.parallel(7):\n    B[i + 1] = B[i] + A[i]",
        "race: element 1 of 'B' is written at i = 0 and read at i = 1.",
        None,
    ),
    "a parallel sum": (
        "for i in T.parallel(8):\n    B[0] = B[0] + A[i]",
        "race: element 0 of 'B' is written at i = 0 and read at i = 1.",
        None,
    ),
    "a vectorized loop that writes twice": (
        "for i in T.vectorized(8):\n    B[i // 2] = A[i]",
        "race: element 0 of 'B' is written at i = 0 and written at i = 1.",
        None,
    ),
    "a parallel loop around a serial one": (
        "for i in T.parallel(4):\n    for j in range(4):\n        B[i + j] = A[j]",
        "race: element 1 of 'B' is written at i = 0 and written at i = 1.",
        None,
    ),
    "a parallel loop inside of a serial one": (
        "for i in range(4):\n    for j in T.parallel(4):\n        B[j // 2 + i] = A[j]",
        "race: element 0 of 'B' is written at j = 0 and written at j = 1.",
        "in the iteration i = 0.",
    ),
    "a write outside of the declared region": (
        """for i in range(8):
    with T.sblock("b"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi])
        T.writes(B[0:4])
        B[vi] = A[vi]""",
        "element (4,) of 'B' is written, but T.writes of the block 'b' leaves it out.",
        "in the iteration i = 4.",
    ),
    "a read outside of the declared region": (
        """for i in range(7):
    with T.sblock("b"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi])
        T.writes(B[vi])
        B[vi] = A[vi + 1]""",
        "element (1,) of 'A' is read, but T.reads of the block 'b' leaves it out.",
        "in the iteration i = 0.",
    ),
    "a read of what no region names": (
        """C = T.alloc_buffer((8, 3), "int32")
for i, j in T.grid(8, 3):
    C[i, j] = j
for i, j in T.grid(8, 3):
    with T.sblock("b"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi])
        T.writes(B[vi])
        if vj == 2:
            B[vi] = C[vi, vj]""",
        "element (0, 2) of 'C' is read, but T.reads of the block 'b' leaves it out.",
        "in the iteration i = 0, j = 2.",
    ),
    "an iterator outside of its domain": (
        """for i in range(8):
    with T.sblock("b"):
        vi = T.axis.spatial(6, i)
        B[vi] = A[vi]""",
        "the iterator 'vi' is 6, outside of its domain, 0 to 5.",
        "in the iteration i = 6.",
    ),
    "a read that the outer block leaves out": (
        """with T.sblock("outer"):
    T.reads(A[0:4])
    T.writes(B[0:8])
    for i in range(8):
        with T.sblock("inner"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi]""",
        "element (4,) of 'A' is read, but T.reads of the block 'outer' leaves it out.",
        "in the iteration i = 4.",
    ),
    "a read through another name that the block leaves out": (
        """with T.sblock("b"):
    T.reads(A[0:5])
    T.writes(B[0:8])
    M = T.match_buffer(A[2:8], (6,), "int32", offset_factor=1)
    for i in range(6):
        B[i] = M[i]""",
        "element (3,) of 'M' is read, but T.reads of the block 'b' leaves it out.",
        "in the iteration i = 3.",
    ),
    "a vector beyond the declared region": (
        """with T.sblock("b"):
    T.reads(A[0:8])
    T.writes(B[0:6])
    B[4:8] = A[T.Ramp(0, 1, 4)]""",
        "element (6,) of 'B' is written, but T.writes of the block 'b' leaves it out.",
        None,
    ),
    "a reduction that a parallel loop runs": (
        """for i, j in T.grid(4, 2):
    for k in T.parallel(2):
        B[i * 2 + j] = B[i * 2 + j] + A[k]""",
        "race: element 0 of 'B' is written at k = 0 and read at k = 1.",
        None,
    ),
    "an index that overflows": (
        "for i in range(4):\n    B[i * 1000000000 // 1000000000] = A[i]",
        "integer overflow in an index: 3 * 1000000000 is no int32.",
        "in the iteration i = 3.",
    ),
    "a wide index that overflows": (
        "for i in range(T.int64(4)):\n    B[(i * T.int64(4000000000000000000)) % T.int64(8)] = A[i]",
        "integer overflow in an index: 3 * 4000000000000000000 is no int64.",
        "in the iteration i = 3.",
    ),
    "a narrow index that overflows": (
        'for i in range(8):\n    B[(T.Cast("int8", i) + T.int8(121)) % T.int8(8)] = A[i]',
        "integer overflow in an index: 7 + 121 is no int8.",
        "in the iteration i = 7.",
    ),
    "a vector of indices that overflows": (
        "B[0:4] = A[T.Ramp(0, 1000000000, 4) % T.Broadcast(8, 4)]",
        "integer overflow in an index: 0 + 1000000000 * 3 is no int32.",
        None,
    ),
    "an iterator whose value overflows": (
        """for i in range(4):
    with T.sblock("b"):
        vi = T.axis.spatial(8, i * 1000000000 % 8)
        B[vi] = A[vi]""",
        "integer overflow in an index: 3 * 1000000000 is no int32.",
        "in the iteration i = 3.",
    ),
    "a division by zero": (
        "for i in range(8):\n    B[i] = 8 // (A[i] - 3)",
        "division of an integer by zero.",
        "in the iteration i = 3.",
    ),
}

RIGHT = {
    "a region that the block's own storage tells": """
    for i in range(2):
        with T.sblock("b"):
            vi = T.axis.spatial(2, i)
            n = T.Buffer((1,), "int32")
            T.reads(A[0 : n[0]])
            T.writes(B[vi])
            n = T.sblock_alloc_buffer((1,), "int32")
            n[0] = vi + 3
            B[vi] = A[n[0]]
""",
    "a guard keeps the access inside": "for i in range(8):\n    if i > 0:\n        B[i] = A[i - 1]",
    "a parallel loop over its own elements": "for i in T.parallel(8):\n    B[i] = B[i] + A[i]",
    "a parallel loop with memory of its own": """for i in T.parallel(8):
    C = T.alloc_buffer((1,), "int32")
    C[0] = A[i]
    B[i] = C[0]""",
    "a region that the block itself tells": """C = T.sblock_alloc_buffer((1,), "int32")
for i in range(3):
    with T.sblock("b"):
        vi = T.axis.spatial(3, i)
        C[0] = vi + 1
        while C[0] < 4:
            B[vi] = B[vi] + A[C[0]]
            C[0] = C[0] + 1""",
    "a parallel loop that alone uses what its block allocates": """with T.sblock("b"):
    C = T.sblock_alloc_buffer((1,), "int32")
    for i in T.parallel(8):
        for k in range(2):
            C[0] = A[i] + k
            B[i] = C[0]""",
    "a parallel loop that reads what all read": "for i in T.parallel(8):\n    B[i] = A[0]",
    "a serial loop that carries a value": "for i in range(7):\n    B[i + 1] = B[i] + A[i]",
    "a region of what the block wrote itself": """with T.sblock("b"):
    T.reads(A[0:8])
    T.writes(B[0:8])
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        B[i] = B[7 - i] + 1""",
    "arithmetic of data that wraps": "for i in range(8):\n    B[i] = (A[i] + 7) * 1000000000",
    "an index of a lane that does not run": "for i in range(4):\n    if i < 2:\n        B[i * 1500000000 % 8] = A[i]",
    "memory allocated inside of a block": """with T.sblock("b"):
    T.reads(A[0:8])
    T.writes(B[0:8])
    C = T.alloc_buffer((8,), "int32")
    for i in range(8):
        C[i] = A[i]
    for i in range(8):
        B[i] = C[i]""",
    "a domain that says nothing": """for i in range(3):
    with T.sblock("b"):
        vi = T.axis.spatial((i, i + (1 - i)), i)
        B[vi] = A[vi]""",
    "a division guarded": "for i in range(8):\n    if A[i] != 3:\n        B[i] = 8 // (A[i] - 3)",
    "a block without any declaration": "with T.sblock('b'):\n    T.reads()\n    T.writes()\n    B[0] = A[1]",
}


def run(body: str) -> Any:
    module = tir.parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    return tir.interpret(module["main"], np.arange(8, dtype=np.int32), np.zeros(8, np.int32), checked=True)


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_reported_with_its_witness(name: str):
    body, sentence, note = HAZARDS[name]
    with pytest.raises(DiagnosticError) as caught:
        run(body)
    found = caught.value.diagnostics[0]
    assert found.message == sentence
    if note is not None:
        assert note in found.notes


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name: str):
    run(RIGHT[name])


FOLDED_OUTSIDE = """@T.prim_func
def main(A: T.Buffer((4, 3), "float32"), D: T.Buffer((4,), "float32")):
    P = T.sblock_alloc_buffer((4,))
    for k in range(3):
        for i in T.parallel(4):
            with T.sblock("P"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    P[vi] = T.float32(0)
                P[vi] = P[vi] + A[vi, vk]
            with T.sblock("D"):
                vi = T.axis.spatial(4, i)
                D[vi] = P[vi]
"""


def test_storage_that_a_loop_outside_folds_into_is_no_iterations_own():
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = tir.interpret(tir.parse(FOLDED_OUTSIDE)["main"], data, np.zeros(4, np.float32), checked=True)
    assert found[1].tolist() == [3, 12, 21, 30]


ATOMIC = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), H: T.Buffer((1,), "int32")):
    for b in T.thread_binding(3, "blockIdx.x"):
        {body}
"""
UPDATE = "T.evaluate(T.atomic_add(T.address_of(H[0]), b + 1))"


@pytest.mark.parametrize(
    ("body", "verbs"),
    [
        (f"{UPDATE}\n        A[b] = H[0]", "updated atomically at several iterations and read at blockIdx.x = 0"),
        (f"A[b] = H[0]\n        {UPDATE}", "read at blockIdx.x = 2 and updated atomically at blockIdx.x = 0"),
        (f"H[0] = 0\n        {UPDATE}", "written at blockIdx.x = 2 and updated atomically at blockIdx.x = 0"),
    ],
)
def test_a_plain_access_beside_an_atomic_one_of_another_block_is_a_race(body: str, verbs: str):
    with pytest.raises(DiagnosticError) as caught:
        arrays = np.zeros(4, np.int32), np.zeros(1, np.int32)
        tir.interpret(tir.parse(ATOMIC.format(body=body))["main"], *arrays, checked=True)
    assert caught.value.diagnostics[0].message == f"race: element 0 of 'H' is {verbs}."


@pytest.mark.parametrize("body", [UPDATE, "A[b] = T.atomic_add(T.address_of(H[0]), b + 1)"])
def test_atomic_updates_do_not_race_with_each_other(body: str):
    arrays = np.zeros(4, np.int32), np.zeros(1, np.int32)
    assert tir.interpret(tir.parse(ATOMIC.format(body=body))["main"], *arrays, checked=True)[1].tolist() == [6]
