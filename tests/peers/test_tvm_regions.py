"""Regions that a text leaves out are completed as TVM completes them, however the indices come about."""

from __future__ import annotations

import pytest

tvm = pytest.importorskip("tvm")

import tensorir.tir as tir

HEAD = """@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16,), "float32"),
    P: T.Buffer((16,), "int32"),
    C: T.Buffer((16, 16), "float32"),
    n: T.int32,
):
    for i, j in T.grid(4, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
"""

BODIES = {
    "an index that the data gives": "B[vi] = A[P[vi], vj]",
    "a place that the data gives": "B[P[vi]] = A[vi, vj]",
    "an index that the data gives, in a loop": """for k in range(4):
    B[vi] = B[vi] + A[P[k], k]""",
    "a loop whose extent the data gives": """for k in range(P[vi]):
    B[k] = A[k, vj]""",
    "product of iterators": "B[vi * vj] = A[vi * vi, vj]",
    "floordiv loop": """for k in range(16):
    B[k // 4] = A[k % 4, k // 4]""",
    "negative stride": """for k in range(4):
    B[15 - k] = A[vi * 4 + 3 - k, 0]""",
    "minimum and maximum": """for k in range(4):
    B[T.min(vi + k, 15)] = A[T.max(k - 1, 0), vj]""",
    "guard": """for k in range(4):
    if vi + k < 8:
        B[vi + k] = A[vi + k, vj]""",
    "guard on iter": """if vi > 0:
    B[vi - 1] = A[vi - 1, vj]""",
    "a lazy choice": "B[vi] = T.if_then_else(vi > 0, A[vi - 1, vj], T.float32(0))",
    "a choice": "B[vi] = T.Select(vi > 0, A[vi, vj], A[vi, vj + 1])",
    "a name for data": """x: T.let[T.int32] = P[vi]
B[x] = A[x + 1, vj]""",
    "a name for a sum": """x: T.let[T.int32] = vi * 2
B[x] = A[x + 1, vj]""",
    "a name inside of a loop": """for k in range(4):
    x: T.let[T.int32] = vi * 2 + k
    B[x] = A[x, vj]""",
    "while": """while P[vi] > 0:
    P[vi] = P[vi] - 1""",
    "symbolic loop": """for k in range(n):
    B[k] = A[k, vj]""",
    "symbolic loop offset": """for k in range(n):
    B[vi + k] = A[vi, k * 2]""",
    "loop from": """for k in range(2, 6):
    B[k] = A[k + vi, vj]""",
    "loop from iter": """for k in range(vi, vi + 4):
    B[k] = A[k, vj]""",
    "triangle": """for k in range(vi + 1):
    B[k] = A[k, vi]""",
    "two loops": """for k, l in T.grid(4, 2):
    B[k * 2 + l] = A[k, l] + A[k + 1, l + vi]""",
    "two loops same": """for k, l in T.grid(4, 4):
    B[k + l] = A[k, k + l]""",
    "gap": "B[vi] = A[vi, 0] + A[vi, 3]",
    "far": "B[vi] = A[vi, 0] + A[vj, 3]",
    "stride loop": """for k in range(4):
    B[vi] = A[k * 3, vj] + A[k * 3 + 1, vj]""",
    "update": "B[vi] = B[vi] + A[vi, vj]",
    "init": """with T.init():
    B[vi] = T.float32(0)
B[vi] = B[vi] + A[vi, vj]""",
    "pointers that are handed on": 'T.evaluate(T.call_extern("int32", "f", A.access_ptr("r"), B.access_ptr("w")))',
    "an address that is handed on": 'T.evaluate(T.call_extern("int32", "f", T.address_of(A[vi, vj])))',
    "data that indexes data": "B[vi] = A[P[P[vi]], vj]",
    "vector": "B[T.Ramp(vi * 4, 1, 4)] = C[vi, T.Ramp(vj * 4, 1, 4)]",
    "vector data": 'B[0:4] = T.Cast("float32x4", P[T.Ramp(P[vi], 1, 4)])',
    "bits": "B[T.bitwise_xor(vi, 1)] = A[T.shift_right(vi, 1), vj]",
    "a block inside": """for k in range(4):
    with T.sblock("c"):
        vk = T.axis.spatial(4, k)
        B[vk] = A[vk, P[vi]]""",
    "a block inside, at a place that the data gives": """for k in range(4):
    with T.sblock("c"):
        vk = T.axis.spatial(4, P[k])
        B[vk] = A[vk, vi]""",
    "a block inside that declares": """for k in range(4):
    with T.sblock("c"):
        vk = T.axis.spatial(4, k)
        T.reads(A[vk, 0:16])
        T.writes(B[vk])
        B[vk] = A[vk, P[vi]]""",
    "a matched region": """M = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:16], (4, 16), offset_factor=1, strides=("s0","s1"))
for k in range(4):
    B[k] = M[k, P[vi]]""",
    "a buffer of its own": """S = T.sblock_alloc_buffer((4,))
for k in range(4):
    S[k] = A[vi, P[k]]
B[vi] = S[P[vi]]""",
    "read written before": """for k in range(4):
    C[vi, k] = A[vi, k]
for k in range(4):
    B[k] = C[vi, k]""",
    "steps": """for k in range(0, 16, 4):
    B[k] = A[k, vj]""",
    "unused dim": "B[vi] = A[n, vj]",
    "data bound guard": """if P[vi] < 4:
    B[P[vi]] = A[0, P[vi]]""",
    "cast index": 'B[T.Cast("int32", T.Cast("int64", vi) + T.int64(1))] = A[vi, vj]',
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BODIES)
def test_regions_are_completed_as_tvm_completes_them(name: str):
    text = HEAD + "".join(f"            {line}\n" for line in BODIES[name].splitlines())
    theirs = tvm.script.from_source(text).script()
    assert tir.parse(text) == tir.parse(theirs), theirs
