"""Kernels of tiles that the tests emit for a card, with what NumPy makes of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tensix_kernels import chain, matmul, softmax

__all__ = ["INTEGERS", "KERNELS", "Kernel", "blocked", "nest", "turned"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Kernel:
    """A text, the cores that it runs on, and the last array as NumPy computes it from the arrays, in float64."""

    text: str
    expected: Callable[..., Any]
    tolerance: float
    cores: int = 3
    formats: dict[str, str] | None = None
    mcast: bool = False
    layouts: dict[str, str] | None = None


def nest(
    value: str, dtype: str = "float32", params: str = "", rows: int = 64, columns: int = 64, more: str = ""
) -> str:
    """Y[...] = value for every element; x, z are tiles of X and Z, v and w vectors along rows and columns."""
    return f"""
@T.prim_func
def main(X: T.Buffer(({rows}, {columns}), "{dtype}"), Z: T.Buffer(({rows}, {columns}), "{dtype}"), \
V: T.Buffer(({rows},), "{dtype}"), W: T.Buffer(({columns},), "{dtype}"), \
Y: T.Buffer(({rows}, {columns}), "{dtype}"){params}):
    for bx in T.thread_binding({-(-columns // 64)}, thread="blockIdx.x"):
        for by in T.thread_binding({-(-rows // 32)}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                x = T.sblock_alloc_buffer((32, 64), "{dtype}", scope="shared.dyn")
                z = T.sblock_alloc_buffer((32, 64), "{dtype}", scope="shared.dyn")
                v = T.sblock_alloc_buffer((32,), "{dtype}", scope="shared.dyn")
                w = T.sblock_alloc_buffer((64,), "{dtype}", scope="shared.dyn")
                y = T.sblock_alloc_buffer((32, 64), "{dtype}", scope="local.fragment")
                u = T.sblock_alloc_buffer((32, 64), "{dtype}", scope="local.fragment")
                T.copy(T.region(X[by * 32, bx * 64], 1, 32, 64), T.region(x[0, 0], 2, 32, 64))
                T.copy(T.region(Z[by * 32, bx * 64], 1, 32, 64), T.region(z[0, 0], 2, 32, 64))
                T.copy(T.region(V[by * 32], 1, 32), T.region(v[0], 2, 32))
                T.copy(T.region(W[bx * 64], 1, 64), T.region(w[0], 2, 64)){more}
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        y[i, j] = {value}
                T.copy(T.region(y[0, 0], 1, 32, 64), T.region(Y[by * 32, bx * 64], 2, 32, 64))
"""


def blocked(size: int, rows: int, columns: int, inner: int) -> str:
    """C = A · B of bfloat16, squares of `size`, in blocks of rows × columns that are summed `inner` at a time."""
    a, b, c = f"{rows}, {inner}", f"{inner}, {columns}", f"{rows}, {columns}"
    arrays = ", ".join(f'{name}: T.Buffer(({size}, {size}), "bfloat16")' for name in "ABC")
    return f"""
@T.prim_func
def main({arrays}):
    for bx in T.thread_binding({size // columns}, thread="blockIdx.x"):
        for by in T.thread_binding({size // rows}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                a = T.sblock_alloc_buffer(({a}), "bfloat16", scope="shared.dyn")
                b = T.sblock_alloc_buffer(({b}), "bfloat16", scope="shared.dyn")
                c = T.sblock_alloc_buffer(({c}), scope="local.fragment")
                T.fill(T.region(c[0, 0], 2, {c}), 0)
                for ko in T.serial({size // inner}):
                    T.copy(T.region(A[by * {rows}, ko * {inner}], 1, {a}), T.region(a[0, 0], 2, {a}))
                    T.copy(T.region(B[ko * {inner}, bx * {columns}], 1, {b}), T.region(b[0, 0], 2, {b}))
                    T.gemm(T.region(a[0, 0], 1, {a}), T.region(b[0, 0], 1, {b}), T.region(c[0, 0], 3, {c}), \
T.bool(False), T.bool(False), {rows}, {columns}, {inner}, 0, T.bool(False), 0, 0, 0)
                T.copy(T.region(c[0, 0], 1, {c}), T.region(C[by * {rows}, bx * {columns}], 2, {c}))
"""


def turned(a: str, b: str, m: int, n: int, k: int, ta: bool, tb: bool, dtype: str = "bfloat16") -> str:
    """C = A · B by blocks of 32 × 32, summed over 64 at a time, with A or B as they lie transposed."""
    at = "ko * 64, by * 32" if ta else "by * 32, ko * 64"
    bt = "bx * 32, ko * 64" if tb else "ko * 64, bx * 32"
    box, boxb = ("64, 32" if ta else "32, 64"), ("32, 64" if tb else "64, 32")
    return f"""
@T.prim_func
def main(A: T.Buffer(({a}), "{dtype}"), B: T.Buffer(({b}), "{dtype}"), C: T.Buffer(({m}, {n}))):
    for bx in T.thread_binding({n // 32}, thread="blockIdx.x"):
        for by in T.thread_binding({m // 32}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                a = T.sblock_alloc_buffer(({box}), "{dtype}", scope="shared.dyn")
                b = T.sblock_alloc_buffer(({boxb}), "{dtype}", scope="shared.dyn")
                c = T.sblock_alloc_buffer((32, 32), scope="local.fragment")
                T.fill(T.region(c[0, 0], 2, 32, 32), 0)
                for ko in T.serial({k // 64}):
                    T.copy(T.region(A[{at}], 1, {box}), T.region(a[0, 0], 2, {box}))
                    T.copy(T.region(B[{bt}], 1, {boxb}), T.region(b[0, 0], 2, {boxb}))
                    T.gemm(T.region(a[0, 0], 1, {box}), T.region(b[0, 0], 1, {boxb}), T.region(c[0, 0], 3, 32, 32), \
T.bool({ta}), T.bool({tb}), 32, 32, 64, 0, T.bool(False), 0, 0, 0)
                T.copy(T.region(c[0, 0], 1, 32, 32), T.region(C[by * 32, bx * 32], 2, 32, 32))
"""


TURNED = """
@T.prim_func
def main(A: T.Buffer((64, 96), "bfloat16"), B: T.Buffer((64, 96), "bfloat16"), C: T.Buffer((64, 64), "bfloat16")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                a = T.sblock_alloc_buffer((32, 96), "bfloat16", scope="shared.dyn")
                b = T.sblock_alloc_buffer((32, 96), "bfloat16", scope="shared.dyn")
                c = T.sblock_alloc_buffer((32, 32), scope="local.fragment")
                d = T.sblock_alloc_buffer((32, 32), scope="local.fragment")
                T.copy(T.region(A[by * 32, 0], 1, 32, 96), T.region(a[0, 0], 2, 32, 96))
                T.copy(T.region(B[bx * 32, 0], 1, 32, 96), T.region(b[0, 0], 2, 32, 96))
                T.gemm(T.region(a[0, 0], 1, 32, 96), T.region(b[0, 0], 1, 32, 96), T.region(c[0, 0], 3, 32, 32), \
T.bool(False), T.bool(True), 32, 32, 96, 0, T.bool(True), 0, 0, 0)
                T.transpose(T.region(c[0, 0], 1, 32, 32), T.region(d[0, 0], 2, 32, 32))
                T.copy(T.region(d[0, 0], 1, 32, 32), T.region(C[bx * 32, by * 32], 2, 32, 32))
"""

# attention with a running maximum: blocks live from one step of a loop to the next
ATTENTION = """
@T.prim_func
def main(Q: T.Buffer((64, 64), "bfloat16"), K: T.Buffer((96, 64), "bfloat16"), V: T.Buffer((96, 64), "bfloat16"),
         O: T.Buffer((64, 64), "bfloat16")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            q = T.sblock_alloc_buffer((32, 64), "bfloat16", scope="shared.dyn")
            k = T.sblock_alloc_buffer((32, 64), "bfloat16", scope="shared.dyn")
            v = T.sblock_alloc_buffer((32, 64), "bfloat16", scope="shared.dyn")
            s = T.sblock_alloc_buffer((32, 32), scope="local.fragment")
            p = T.sblock_alloc_buffer((32, 32), "bfloat16", scope="local.fragment")
            o = T.sblock_alloc_buffer((32, 64), scope="local.fragment")
            m = T.sblock_alloc_buffer((32,), scope="local.fragment")
            old = T.sblock_alloc_buffer((32,), scope="local.fragment")
            l = T.sblock_alloc_buffer((32,), scope="local.fragment")
            T.copy(T.region(Q[bx * 32, 0], 1, 32, 64), T.region(q[0, 0], 2, 32, 64))
            T.fill(T.region(o[0, 0], 2, 32, 64), 0)
            T.fill(T.region(l[0], 2, 32), 0)
            T.fill(T.region(m[0], 2, 32), T.float32(-1000.0))
            for n in T.serial(3):
                T.copy(T.region(K[n * 32, 0], 1, 32, 64), T.region(k[0, 0], 2, 32, 64))
                T.gemm(T.region(q[0, 0], 1, 32, 64), T.region(k[0, 0], 1, 32, 64), T.region(s[0, 0], 3, 32, 32), \
T.bool(False), T.bool(True), 32, 32, 64, 0, T.bool(True), 0, 0, 0)
                T.copy(T.region(m[0], 1, 32), T.region(old[0], 2, 32))
                T.reduce(T.region(s[0, 0], 1, 32, 32), T.region(m[0], 3, 32), "max", 1, T.bool(False))
                for i in T.parallel(32):
                    for j in T.parallel(32):
                        s[i, j] = T.exp(s[i, j] * T.float32(0.125) - m[i] * T.float32(0.125))
                for i in T.parallel(32):
                    old[i] = T.exp((old[i] - m[i]) * T.float32(0.125))
                    l[i] = l[i] * old[i]
                T.reduce(T.region(s[0, 0], 1, 32, 32), T.region(l[0], 3, 32), "sum", 1, T.bool(False))
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        o[i, j] = o[i, j] * old[i]
                T.copy(T.region(s[0, 0], 1, 32, 32), T.region(p[0, 0], 2, 32, 32))
                T.copy(T.region(V[n * 32, 0], 1, 32, 64), T.region(v[0, 0], 2, 32, 64))
                T.gemm(T.region(p[0, 0], 1, 32, 32), T.region(v[0, 0], 1, 32, 64), T.region(o[0, 0], 3, 32, 64), \
T.bool(False), T.bool(False), 32, 64, 32, 0, T.bool(False), 0, 0, 0)
            for i in T.parallel(32):
                for j in T.parallel(64):
                    o[i, j] = o[i, j] / l[i]
            T.copy(T.region(o[0, 0], 1, 32, 64), T.region(O[bx * 32, 0], 2, 32, 64))
"""

SUMS = """
@T.prim_func
def main(X: T.Buffer((128, 64)), S: T.Buffer((64,))):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        with T.sblock("tilelang_root"):
            x = T.sblock_alloc_buffer((64, 64), scope="shared.dyn")
            s = T.sblock_alloc_buffer((64,), scope="local.fragment")
            T.fill(T.region(s[0], 2, 64), T.float32(0.5))
            for k in T.serial(2):
                T.copy(T.region(X[k * 64, 0], 1, 64, 64), T.region(x[0, 0], 2, 64, 64))
                T.reduce(T.region(x[0, 0], 1, 64, 64), T.region(s[0], 3, 64), "sum", 0, T.bool(False))
            T.copy(T.region(s[0], 1, 64), T.region(S[0], 2, 64))
"""

BATCHES = """
@T.prim_func
def main(A: T.Buffer((3, 40, 64)), B: T.Buffer((3, 40, 64))):
    for bz in T.thread_binding(3, thread="blockIdx.z"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                with T.sblock("tilelang_root"):
                    a = T.sblock_alloc_buffer((32, 32), scope="shared.dyn")
                    T.copy(T.region(A[bz, by * 32, bx * 32], 1, 1, 32, 32), T.region(a[0, 0], 2, 32, 32))
                    if by == 0:
                        T.copy(T.region(a[0, 0], 1, 32, 32), T.region(B[bz, by * 32, bx * 32], 2, 1, 32, 32))
"""


def _first_rows(a: Any, b: Any) -> Any:
    return np.concatenate([a[:, :32], b[:, 32:]], 1)


def _softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


_MANY = (
    "T.exp(x[i, j] * T.float32(0.25)) + T.tanh(z[i, j]) / (T.sqrt(T.abs(x[i, j])) + T.float32(2.0)) - T.max(x[i, j], "
    "z[i, j]) * T.sigmoid(T.min(x[i, j], z[i, j]))"
)
_KEPT = """
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        u[i, j] = T.float32(3.0) - x[i, j]
                        u[i, j] = u[i, j] * u[i, j] + z[i, j]"""


def _many(x: Any, z: Any) -> Any:
    sigmoid = 1 / (1 + np.exp(-np.minimum(x, z)))
    return np.exp(x * 0.25) + np.tanh(z) / (np.sqrt(np.abs(x)) + 2) - np.maximum(x, z) * sigmoid


_CHOSEN = (
    "T.if_then_else(x[i, j] > z[i, j] and not (z[i, j] <= T.float32(0.25)) or x[i, j] < T.float32(-0.5), "
    "T.exp(x[i, j]), z[i, j] * T.float32(2.0))"
)
_UNDER = """
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        u[i, j] = x[i, j] - z[i, j]
                        if x[i, j] > T.float32(0.5):
                            u[i, j] = T.float32(3.0) * x[i, j]
                        else:
                            if z[i, j] < x[i, j]:
                                u[i, j] = T.Select(T.float32(0.0) > z[i, j], z[i, j], T.float32(1.0))"""
_COUNTED = (
    'u[i, j] + T.Cast("float32", x[i, j] >= z[i, j]) + T.Cast("float32", x[i, j] != z[i, j]) * T.float32(2.0) '
    '- T.Cast("float32", z[i, j] < T.float32(0.5))'
)


def _under(x: Any, z: Any) -> Any:
    chosen = np.where(x > 0.5, 3 * x, np.where(z < x, np.where(z < 0, z, 1.0), x - z))
    return chosen + (x >= z) + 2.0 * (x != z) - (z < 0.5)


# columns of tiles one after the other
_DOWN = chain(64, 96).replace(
    ":\n    for bx", ':\n    T.func_attr({"tt_schedule_order": "column_major"})\n    for bx', 1
)


def _all(layout: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names, layout)


KERNELS: dict[str, Kernel] = {
    # the vector unit has float32 whole, and here only what it does exactly
    "chain": Kernel(chain(50, 70), lambda x, z, _: np.maximum(x * 2 + z, 0), 1e-6),
    "many": Kernel(nest(_MANY), lambda x, z, *_: _many(x, z), 2e-6),
    "kept": Kernel(nest("u[i, j] + z[i, j]", more=_KEPT), lambda x, z, *_: (3 - x) ** 2 + 2 * z, 2e-6),
    "number": Kernel(nest("x[i, j] * s - s", params=", s: T.float32"), lambda x, z, v, w, y, s: x * s - s, 1e-6),
    # vectors are broadcast by the matrix unit, which has 10 bits of their mantissas
    "vectors": Kernel(nest("(x[i, j] - v[i]) * w[j]"), lambda x, z, v, w, _: (x - v[:, None]) * w, 4e-3),
    "halves": Kernel(nest("x[i, j] + z[i, j]", "bfloat16"), lambda x, z, *_: x + z, 8e-3),
    "biased": Kernel(nest("x[i, j] * w[j]", "bfloat16"), lambda x, z, v, w, _: x * w, 8e-3),
    "batches": Kernel(BATCHES, _first_rows, 0.0, cores=5),
    # products: sums in registers, and sums that these do not hold
    "matmul": Kernel(matmul(64, 96, 64, dtype="bfloat16"), lambda a, b, _: a @ b, 1e-6),
    "wide": Kernel(matmul(50, 70, 96), lambda a, b, _: a @ b, 2e-3),
    "spilled": Kernel(matmul(96, 192, 192, 96, "bfloat16"), lambda a, b, _: a @ b, 1e-6, cores=1),
    "turned": Kernel(TURNED, lambda a, b, _: (a @ b.T).T, 8e-3),
    "both_turned": Kernel(turned("128, 64", "32, 128", 64, 32, 128, True, True), lambda a, b, _: a.T @ b.T, 1e-6),
    "stored": Kernel(matmul(64, 64, 64), lambda a, b, _: a @ b, 2e-2, formats={"A": "bfp8", "B": "bfp8"}),
    # blocks that go along rows and columns of 2 × 4 cores
    "sent": Kernel(blocked(128, 32, 64, 32), lambda a, b, _: a @ b, 8e-3, cores=8, mcast=True),
    # blocks that lie in the cores' own memory: rows, columns and rectangles of tiles, and beside others in DRAM
    "rows": Kernel(
        chain(64, 96), lambda x, z, _: np.maximum(x * 2 + z, 0), 1e-6, 2, layouts=_all("height_sharded", "XZY")
    ),
    "columns": Kernel(_DOWN, lambda x, z, _: np.maximum(x * 2 + z, 0), 1e-6, 3, layouts=_all("width_sharded", "XZY")),
    "rectangles": Kernel(
        blocked(128, 32, 64, 128), lambda a, b, _: a @ b, 8e-3, 8, mcast=True, layouts={"C": "block_sharded"}
    ),
    "own_rows": Kernel(
        matmul(96, 32, 128, dtype="bfloat16"), lambda a, b, _: a @ b, 1e-6, 3, layouts=_all("height_sharded", "AC")
    ),
    # conditions are masks of 1 and 0, and choices by them
    "chosen": Kernel(
        nest(_CHOSEN), lambda x, z, *_: np.where((x > z) & (z > 0.25) | (x < -0.5), np.exp(x), 2 * z), 2e-6
    ),
    "halves_chosen": Kernel(
        nest("T.if_then_else(x[i, j] < z[i, j], z[i, j], x[i, j])", "bfloat16"), lambda x, z, *_: np.maximum(x, z), 0.0
    ),
    "under_conditions": Kernel(nest(_COUNTED, more=_UNDER), lambda x, z, *_: _under(x, z), 2e-6),
    # sums and maxima along rows and columns
    "softmax": Kernel(softmax(70, 96), lambda x, _: _softmax(x), 4e-3, cores=1),
    "attention": Kernel(ATTENTION, lambda q, k, v, _: _softmax(q @ k.T / 8) @ v, 2e-2, cores=1),
    "sums": Kernel(SUMS, lambda x, _: 0.5 + x.sum(0), 2e-3),
}


_SIGNS = """
                for i in T.parallel(32):
                    for j in T.parallel(64):
                        u[i, j] = T.if_then_else(
                            T.min(T.max(x[i, j], 0), 1) != T.min(T.max(z[i, j], 0), 1), x[i, j] * s, z[i, j] - s)"""
_SIGNED = "T.if_then_else(x[i, j] < z[i, j] or x[i, j] >= T.int32(9), T.max(u[i, j], x[i, j]) + T.abs(x[i, j]), -1)"
_FLOATS = nest(
    'T.if_then_else(x[i, j] > z[i, j], T.Cast("float32", x[i, j] - z[i, j]), T.float32(-2.0))', "int32"
).replace('Y: T.Buffer((64, 64), "int32")', 'Y: T.Buffer((64, 64), "float32")'
).replace('y = T.sblock_alloc_buffer((32, 64), "int32"', 'y = T.sblock_alloc_buffer((32, 64), "float32"')  # fmt: skip


def _signed(x: Any, z: Any, v: Any, w: Any, y: Any, s: Any) -> Any:
    u = np.where((x > 0) != (z > 0), x * s, z - s)
    return np.where((x < z) | (x >= 9), np.maximum(u, x) + np.abs(x), np.int32(-1))


def _equal_bits(x: Any, z: Any, *_: Any) -> Any:
    """A product with 32768 keeps the last bit of 16."""
    bit = np.uint16(32768)
    return np.where(x * bit == z * bit, x * z + np.uint16(3), z - x)


INTEGERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "int32": (nest(_SIGNED, "int32", ", s: T.int32", more=_SIGNS), _signed),
    "uint32": (
        nest("T.if_then_else(x[i, j] <= z[i, j], T.max(x[i, j] * z[i, j], x[i, j] + z[i, j]), T.uint32(5) - z[i, j])",
             "uint32"),
        lambda x, z, *_: np.where(x <= z, np.maximum(x * z, x + z), np.uint32(5) - z),
    ),
    "uint16": (
        nest("T.if_then_else(x[i, j] * T.uint16(32768) == z[i, j] * T.uint16(32768), x[i, j] * z[i, j] + T.uint16(3), "
             "z[i, j] - x[i, j])", "uint16"),
        _equal_bits,
    ),
    "floats": (_FLOATS, lambda x, z, *_: np.where(x > z, (x - z).astype(np.float32), np.float32(-2))),
}  # fmt: skip
"""Kernels of integers, and the last array as NumPy computes it of the arrays as they are."""
