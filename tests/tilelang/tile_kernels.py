"""Kernels that TileLang 0.1.15 printed, with arguments for them, and what NumPy makes of the same algorithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["KERNELS", "Kernel", "text"]

PRINTED = Path(__file__).parent / "printed"
Arrays = Sequence[Any]


@dataclass(frozen=True)
class Kernel:
    """Arguments, which of them are written, and what they then hold."""

    args: Callable[[np.random.Generator], list[Any]]
    outputs: tuple[int, ...]
    expected: Callable[..., tuple[Any, ...]]
    tolerance: float = 1e-5


def text(name: str) -> str:
    return (PRINTED / f"{name}.txt").read_text(encoding="utf-8")


def f32(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def f16(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float16)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def _wide(*arrays: Any) -> list[Any]:
    return [np.asarray(a, np.float64) for a in arrays]


def _product(a: Any, b: Any, *_: Any) -> tuple[Any, ...]:
    a, b = _wide(a, b)
    return (a @ b,)


def _reductions(a: Any, _r: Any, _q: Any, i: Any, *_: Any) -> tuple[Any, ...]:
    a = a.astype(np.float64)
    total, absolute = a.sum(1), np.abs(a)
    r = [total, np.maximum(total, a.max(1)), a.min(1), absolute.max(1), absolute.sum(1)]
    r += [r[4] + total]
    r += [np.minimum(r[5], a.min(1))]
    bits = [f.reduce(i, 1) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    return np.stack(r), a.max(0, keepdims=True), np.stack(bits)


def _scans(a: Any, _b: Any, _c: Any, d: Any, *_: Any) -> tuple[Any, ...]:
    a, d = _wide(a, d)
    return a.cumsum(0), a[:, ::-1].cumsum(1)[:, ::-1], d.cumsum(), np.maximum.accumulate(d)


def _atomics(a: Any, b: Any, c: Any, h: Any, x: Any, g: Any) -> tuple[Any, ...]:
    tiles = a.astype(np.float64).reshape(4, 16, 32)
    return b + tiles.sum((0, 1)), np.maximum(c, tiles.max((0, 1))), h + np.bincount(x, minlength=8), g + tiles.sum(0)


def _attention(q: Any, k: Any, v: Any, *_: Any) -> tuple[Any, ...]:
    q, k, v = _wide(q, k, v)
    scores = np.einsum("bid,bjd->bij", q, k) * 0.25 * np.log(2.0)
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (np.einsum("bij,bjd->bid", weights / weights.sum(-1, keepdims=True), v),)


def _convolution(x: Any, k: Any, y: Any) -> tuple[Any, ...]:
    padded = np.pad(np.asarray(x, np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros(y.shape)
    for i in range(3):
        for j in range(3):
            part = padded[:, i : i + 2 * out.shape[1] : 2, j : j + 2 * out.shape[2] : 2][
                :, : out.shape[1], : out.shape[2]
            ]
            out += part @ np.asarray(k[i, j], np.float64)
    return (out,)


def _dequantised(a: Any, b: Any, *_: Any) -> tuple[Any, ...]:
    whole = np.stack([b & 15, b >> 4], -1).reshape(32, 64).astype(np.float64) - 8
    return (a.astype(np.float64) @ whole.T,)


def _variables(a: Any, _b: Any, n: int) -> tuple[Any, ...]:
    return (a.reshape(4, 16)[:, : int(n)].astype(np.float64).sum(1),)


def _rms(x: Any, *_: Any) -> tuple[Any, ...]:
    (x,) = _wide(x)
    return (x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6),)


def _softmax(x: Any, *_: Any) -> tuple[Any, ...]:
    (x,) = _wide(x)
    weights = np.exp(x - x.max(1, keepdims=True))
    return (weights / weights.sum(1, keepdims=True),)


def _maths(a: Any, b: Any) -> tuple[Any, ...]:
    (x,) = _wide(a)
    y, out = np.abs(x), np.asarray(b, np.float64).copy()
    erf = np.vectorize(math.erf)
    rows = [
        np.exp2(x), np.log(y + 1), np.tanh(x), 1 / (1 + np.exp(-x)), erf(x), np.sqrt(y), np.maximum(x, 0),
        np.minimum(x, 0), np.floor(x), np.ceil(x), np.round(x), y**2, np.sin(x), np.cos(x), 1 / np.sqrt(y + 1), y,
        np.clip(x, -1, 1), y, np.log2(y + 1), 0 * x, np.fmod(x, 2), np.exp(x), a.astype(np.float16),
        np.full_like(x, np.inf), np.full_like(x, np.finfo(np.float32).max),
    ]  # fmt: skip
    out[: len(rows)] = np.stack(rows)
    return (out,)


def _fast(a: Any, b: Any) -> tuple[Any, ...]:
    (x,) = _wide(a)
    out = np.asarray(b, np.float64).copy()
    out[:6] = np.stack([x / 3, x + 1, 1 / np.sqrt(x * x + 1), x * x + 1, np.abs(x), 2 * x])
    return (out,)


def _until_negative(a: Any, _: Any) -> tuple[Any, ...]:
    sums = [row[: np.argmax(row < 0) if (row < 0).any() else None].sum() for row in a.reshape(4, 16)]
    return (np.asarray(sums),)


def _wide_atomics(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    return np.maximum(b, a.reshape(16, 4).max(0)), c + 2 * a.astype(np.float64)


def _laplacian(a: Any, *_: Any) -> tuple[Any, ...]:
    p = np.pad(a.astype(np.float64), 1)
    return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1],)


def _linear_attention(q: Any, k: Any, v: Any, *_: Any) -> tuple[Any, ...]:
    q, k, v = _wide(q, k, v)
    return (np.tril(q @ k.T) @ v,)


def _nibbles(a: Any, b: Any, _: Any) -> tuple[Any, ...]:
    whole = np.stack([b & 15, (b >> 4) & 15], -1).reshape(64, 64)
    return (a.astype(np.float64) @ whole.T,)


def _by_threads(a: Any, *_: Any) -> tuple[Any, ...]:
    b, c, d = np.zeros((64, 4)), np.zeros(64), np.zeros(8)
    for block, tx, ty in np.ndindex(8, 8, 2):
        row, tile = block * 8 + tx, a[block * 8 : block * 8 + 8].astype(np.float64)
        for column in (ty * 2, ty * 2 + 1):
            b[row, column] = a[row, 3 - column] + ty
        c[row] = (sum(tile[tx::3, 0]) + sum(tile[: tx + 1, 1])) * 0.5**tx
        d[block] += tile[0, 0]
    return b, c, d


KERNELS: dict[str, Kernel] = {
    "matmul_tails": Kernel(
        lambda r: [f16(r, 100, 52), f16(r, 52, 72), zeros(100, 72, dtype=np.float16)], (2,), _product, 3e-3
    ),
    "matmul_transposed": Kernel(
        lambda r: [f32(r, 64, 96), f32(r, 48, 64), zeros(96, 48)], (2,), lambda a, b, _: _product(a.T, b.T)
    ),
    "batched": Kernel(lambda r: [f32(r, 3, 2, 32, 16), f32(r, 3, 2, 16, 32), zeros(3, 2, 32, 32)], (2,), _product),
    "reductions": Kernel(
        lambda r: [
            f32(r, 32, 64), zeros(7, 32), zeros(1, 64), r.integers(0, 99, (32, 64)).astype(np.int32),
            zeros(3, 32, dtype=np.int32),
        ],
        (1, 2, 4), _reductions,
    ),
    "scans": Kernel(
        lambda r: [f32(r, 16, 32), zeros(16, 32), zeros(16, 32), f32(r, 64), zeros(64), zeros(64)], (1, 2, 4, 5), _scans
    ),
    "atomics": Kernel(
        lambda r: [
            f32(r, 64, 32), f32(r, 32), f32(r, 32), np.arange(8, dtype=np.int32),
            r.integers(0, 8, 64).astype(np.int32), f32(r, 16, 32),
        ],
        (1, 2, 3, 5), _atomics,
    ),
    "views": Kernel(
        lambda r: [f32(r, 32, 8), zeros(16, 16), zeros(256)], (1, 2),
        lambda a, *_: ((2 * a).reshape(16, 16), a.ravel() + 1),
    ),
    "dynamic": Kernel(lambda r: [f32(r, 21, 16), zeros(21, 16)], (1,), lambda a, _: (2 * a + 1,)),
    "transposing": Kernel(lambda r: [f32(r, 64, 32), zeros(32, 64)], (1,), lambda a, _: (a.T,)),
    "flash": Kernel(lambda r: [*(f16(r, 2, 64, 32) for _ in range(3)), zeros(2, 64, 32)], (3,), _attention, 2e-3),
    "conv": Kernel(
        lambda r: [f16(r, 2, 9, 11, 16), f16(r, 3, 3, 16, 32), zeros(2, 5, 6, 32, dtype=np.float16)], (2,),
        _convolution, 3e-3,
    ),
    "dequant": Kernel(
        lambda r: [f16(r, 32, 64), r.integers(0, 256, (32, 32)).astype(np.uint8), zeros(32, 32)], (2,), _dequantised,
        1e-3,
    ),
    "reducer": Kernel(lambda r: [f32(r, 8, 32), zeros(8)], (1,), lambda a, _: (a.astype(np.float64).sum(1),)),
    "reducer_epoch": Kernel(lambda r: [f32(r, 8, 32), zeros(8)], (1,), lambda a, _: (a.max(1),)),
    "variables": Kernel(lambda r: [f32(r, 64), zeros(4), np.int32(11)], (1,), _variables),
    "splitk": Kernel(lambda r: [f32(r, 32, 64), f32(r, 64, 32), zeros(32, 32)], (2,), _product),
    "rmsnorm": Kernel(lambda r: [f32(r, 16, 64), zeros(16, 64)], (1,), _rms),
    "softmax_rows": Kernel(lambda r: [f32(r, 24, 48), zeros(24, 48)], (1,), _softmax),
    "persistent": Kernel(lambda r: [f32(r, 64, 32), zeros(64, 32)], (1,), lambda a, _: (a,)),
    "gemv": Kernel(lambda r: [f32(r, 64), f32(r, 32, 64), zeros(32)], (2,), lambda a, b, _: _product(b, a)),
    "bands": Kernel(lambda r: [f32(r, 40, 24), zeros(40, 24)], (1,), _laplacian),
    "linear_attention": Kernel(lambda r: [*(f32(r, 64, 16) for _ in range(3)), zeros(64, 16)], (3,), _linear_attention),
    "argmax": Kernel(
        lambda r: [f32(r, 16, 32), zeros(16), zeros(16, dtype=np.int32)], (1, 2), lambda a, *_: (a.max(1), a.argmax(1))
    ),
    "safe_values": Kernel(lambda r: [f32(r, 10, 8) - 9, zeros(8)], (1,), lambda a, _: (a.max(0),)),
    "maths": Kernel(lambda r: [f32(r, 64), zeros(30, 64)], (1,), _maths),
    "fastmath": Kernel(lambda r: [f32(r, 64), zeros(8, 64)], (1,), _fast),
    "controls": Kernel(
        lambda r: [r.integers(0, 9, 64).astype(np.int32), zeros(4, dtype=np.int32)], (1,),
        lambda a, _: (a[:4] * (a[:4] - 1) // 2,),
    ),
    "leaving": Kernel(
        lambda r: [r.integers(-2, 20, 64).astype(np.int32), zeros(4, dtype=np.int32)], (1,), _until_negative
    ),
    "shared_reduce": Kernel(lambda r: [f32(r, 16, 32), zeros(16)], (1,), lambda a, _: (a.astype(np.float64).sum(1),)),
    "three_dims": Kernel(
        lambda r: [f32(r, 4, 8, 16), zeros(4, 16), zeros(4, 8)], (1, 2),
        lambda a, *_: (a.max(1), a.astype(np.float64).sum(2)),
    ),
    "dynamic_transpose": Kernel(lambda r: [f32(r, 21, 37), zeros(37, 21)], (1,), lambda a, _: (a.T,)),
    "wide_atomics": Kernel(lambda r: [f32(r, 64), f32(r, 4), f32(r, 64)], (1, 2), _wide_atomics),
    "any_and_all": Kernel(
        lambda r: [r.integers(0, 9, (4, 16)) > np.array([[-1], [9], [3], [0]]), zeros(4, dtype=np.int32)], (1,),
        lambda a, _: (a.any(1) + 2 * a.all(1),),
    ),
    "double_buffered": Kernel(lambda r: [f16(r, 32, 32), f16(r, 32, 32), zeros(32, 32)], (2,), _product),
    "dequant_threads": Kernel(
        lambda r: [f16(r, 64, 64), r.integers(-128, 128, (64, 32)).astype(np.int8), zeros(64, 64)], (2,), _nibbles, 1e-3
    ),
    "thread_loops": Kernel(lambda r: [f32(r, 64, 4), zeros(64, 4), zeros(64), zeros(8)], (1, 2, 3), _by_threads),
    "thread_exchange": Kernel(
        lambda r: [f32(r, 64), zeros(64)], (1,), lambda a, _: (np.roll(a.reshape(8, 8), -3, 1).ravel(),)
    ),
    "casts": Kernel(
        lambda r: [4 * f32(r, 32, 32), zeros(32, 32, dtype=ml_dtypes.bfloat16), zeros(32, 32, dtype=np.int8)], (1, 2),
        lambda a, *_: (a.astype(ml_dtypes.bfloat16), np.trunc(a)),
    ),
}  # fmt: skip
"""The kernels by name."""
