"""A launch of each kernel of `cutile_kernels`: name, kernel, grid, arguments, how many of them a lift takes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.peers import cutile_further as m
from tests.peers import cutile_kernels as k

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def bytes_(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


F, I32, F16, U32 = np.float32, np.int32, np.float16, np.uint32


def whole(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(low, high, shape, dtype)


LAUNCHES: dict[str, tuple[Any, tuple[int, ...], tuple[Any, ...]]] = {
    "vector_add": (k.vector_add, (3,), (floats(10), floats(10), zeros(10), 4)),
    "saxpy": (k.saxpy, (2,), (F(0.5), floats(16), floats(16), 8)),
    "transpose": (k.transpose, (4, 2), (floats(16, 8), zeros(8, 16), 4, 4)),
    "transpose_by_order": (k.transpose_by_order, (2, 4), (floats(16, 8), zeros(8, 16), 4, 4)),
    "matmul": (k.matmul, (2, 1), (floats(20, 24), floats(24, 12), zeros(20, 12), 16, 16, 8)),
    "matmul of halves": (
        k.matmul, (2, 1), (floats(20, 24).astype(F16), floats(24, 12).astype(F16), zeros(20, 12, dtype=F16), 16, 16, 8),
    ),
    "matmul of bfloat16": (
        k.matmul, (2, 1),
        (
            floats(20, 24).astype(ml_dtypes.bfloat16), floats(24, 12).astype(ml_dtypes.bfloat16),
            zeros(20, 12, dtype=ml_dtypes.bfloat16), 16, 16, 8,
        ),
    ),
    "matmul_relu_bias": (
        k.matmul_relu_bias, (2, 2), (floats(16, 8), floats(8, 16), floats(16), zeros(16, 16), 8, 8, 4),
    ),
    "batched_matmul": (k.batched_matmul, (3, 2, 2), (floats(3, 8, 8), floats(3, 8, 8), zeros(3, 8, 8), 4, 4, 4)),
    "quantised_matmul": (
        k.quantised_matmul, (2, 2), (bytes_(16, 32), bytes_(32, 16), F(0.5), zeros(16, 16), 8, 8, 16),
    ),
    "fp8_matmul": (k.fp8_matmul, (1, 1), (floats(8, 16), floats(16, 8), zeros(8, 8), 8, 8, 16)),
    "softmax": (k.softmax, (5,), (floats(5, 12), zeros(5, 12), 16)),
    "online_softmax": (k.online_softmax, (3,), (floats(3, 32), zeros(3, 32), 8)),
    "layer_norm": (
        k.layer_norm, (4,), (floats(4, 16), floats(16), floats(16), zeros(4, 16), zeros(4), zeros(4), F(1e-5), 16),
    ),
    "layer_norm_backward": (
        k.layer_norm_backward, (4,),
        (floats(4, 16), floats(4, 16), floats(16), floats(4), np.abs(floats(4)), zeros(4, 16), 16),
    ),
    "attention": (
        k.attention, (4,), (floats(16, 8), floats(16, 8), floats(16, 8), zeros(16, 8), F(0.35), False, 4, 8, 8),
    ),
    "causal attention": (
        k.attention, (4,), (floats(16, 8), floats(16, 8), floats(16, 8), zeros(16, 8), F(0.35), True, 4, 8, 8),
    ),
    "convolution": (k.convolution, (2,), (floats(60), floats(9), zeros(32), 6, 10, 16)),
    "cumulative_sum": (k.cumulative_sum, (3,), (floats(3, 16), zeros(3, 16), 16)),
    "reverse_cumulative_product": (k.reverse_cumulative_product, (3,), (floats(3, 16), zeros(3, 16), 16)),
    "histogram": (k.histogram, (4,), (RNG.integers(0, 10, 64).astype(I32), zeros(10, dtype=I32), 16)),
    "arg_max": (k.arg_max, (4,), (floats(4, 32), zeros(4, dtype=I32), 32)),
    "top_k": (k.top_k, (4,), (floats(4, 32), zeros(4, 3), zeros(4, 3, dtype=I32), 3, 32)),
    "gather_scatter": (
        k.gather_scatter, (4,),
        (floats(32), RNG.permutation(32).astype(I32), RNG.permutation(32).astype(I32), zeros(32), 8),
    ),
    "embedding": (k.embedding, (6,), (floats(20, 8), RNG.integers(0, 20, 6).astype(I32), zeros(6, 8), 8)),
    "rotary": (k.rotary, (6,), (floats(6, 16), floats(6, 8), floats(6, 8), zeros(6, 16), 8)),
    "welford": (k.welford, (4,), (floats(4, 32), zeros(4), zeros(4), 32)),
    "sliding_maximum, overlapping": (k.sliding_maximum, (14,), (floats(40), zeros(14), 3)),
    "sliding_maximum, touching": (k.sliding_maximum, (5,), (floats(40), zeros(5), 8)),
    "sliding_maximum, with gaps": (k.sliding_maximum, (4,), (floats(40), zeros(4), 11)),
    "strided_copy": (k.strided_copy, (4,), (floats(32)[::2], zeros(16), 4)),
    "prefix_over_blocks": (k.prefix_over_blocks, (4,), (floats(32), zeros(32), zeros(4), zeros(4, dtype=I32), 8)),
    "early_return": (k.early_return, (4,), (floats(16), zeros(16), I32(2), 4)),
    "nested_loops": (k.nested_loops, (4,), (floats(16), zeros(16), 4)),
    "collatz": (k.collatz, (2,), (np.arange(1, 33, dtype=I32), zeros(32, dtype=I32), 16)),
    "directed_sums": (k.directed_sums, (2,), (floats(16), floats(16), zeros(16), zeros(16), 8)),
    "bytes_of_halves": (k.bytes_of_halves, (2,), (floats(16).astype(F16), zeros(32, dtype=np.uint8), 8)),
    "sum_by_atomics": (k.sum_by_atomics, (3,), (floats(6, 8), zeros(8), 8)),
    "scale_in_place": (k.scale_in_place, (4,), (floats(16), floats(1), 4)),
    "newton_root": (k.newton_root, (4,), (np.abs(floats(16)) + F(0.1), zeros(16), 4)),
    "rows_of_different_length": (
        k.rows_of_different_length, (4,), (floats(4, 32), np.array([3, 0, 4, 1], I32), zeros(4), 8),
    ),
    "triangle": (k.triangle, (4,), (floats(16), zeros(16), 4)),
    "persistent_matmul": (m.persistent_matmul, (3,), (floats(32, 24), floats(24, 16), zeros(32, 16), 8, 8, 8)),
    "swizzled_matmul": (m.swizzled_matmul, (8,), (floats(32, 24), floats(24, 16), zeros(32, 16), 8, 8, 8, 2)),
    "split_k": (m.split_k, (4, 2, 3), (floats(32, 24), floats(24, 16), zeros(32, 16), 8, 8, 8)),
    "locked_sum": (m.locked_sum, (4,), (floats(32), zeros(1), zeros(1, dtype=I32), 8)),
    "tickets": (m.tickets, (4,), (floats(32), zeros(1, dtype=I32), zeros(32), 8)),
    "gather2d": (m.gather2d, (2,), (floats(6, 7), whole(-1, 7, 8), whole(-2, 8, 8), zeros(8, 4), 4)),
    "bitonic": (m.bitonic, (2,), (floats(32), zeros(32), 16)),
    "asserted": (m.asserted, (2,), (floats(16), zeros(16), 8)),
    "printing": (m.printing, (2,), (floats(16), zeros(16), 8)),
    "tf32": (m.tf32, (1,), (floats(16, 16), floats(16, 16), zeros(16, 16), 16)),
    "mathematics": (m.mathematics, (2,), (floats(16), zeros(16), 8)),
    "whole": (m.whole, (2,), (whole(-50, 50, 16), whole(1, 9, 16), zeros(16, dtype=I32), 8)),
    "half_math": (m.half_math, (2,), (floats(16).astype(F16), zeros(16, dtype=F16), 8)),
    "fma_ftz": (m.fma_ftz, (2,), (np.append(floats(12), np.array([1e-40, -2e-39, 0, 1e-20], F)), zeros(16), 8)),
    "narrow": (
        m.narrow, (2,),
        (floats(16) * 200, zeros(16, dtype=ml_dtypes.float8_e4m3fn), zeros(16, dtype=ml_dtypes.float8_e5m2), 8),
    ),
    "unsigned": (
        m.unsigned, (2,), (whole(0, 2**32, 16, dtype=U32), whole(1, 2**32, 16, dtype=U32), zeros(16, dtype=U32), 8),
    ),
    "bools": (m.bools, (2,), (floats(16), zeros(16, dtype=np.bool_), 8)),
    "stencil": (m.stencil, (4,), (floats(30), zeros(30), 8)),
    "jacobi": (m.jacobi, (4,), (floats(30), zeros(30), I32(30), 8)),
    "weight_gradient": (m.weight_gradient, (3,), (floats(40, 8), floats(40, 8), zeros(3, 8), 4, 8)),
    "scan_reverse_max": (m.scan_reverse_max, (2,), (floats(4, 8), zeros(4, 8), 8)),
    "group_norm": (m.group_norm, (3,), (floats(3, 32), zeros(3, 32), 4, 8)),
    "cross_entropy": (m.cross_entropy, (5,), (floats(5, 12), whole(0, 12, 5), zeros(5), 16)),
    "cat_and_extract": (k.cat_and_extract, (2,), (floats(8), zeros(8), 4)),
}  # fmt: skip
"""By name: the kernel, its grid, and arguments, of which the ints and bools at the end are constants."""


def launched(args: tuple[Any, ...]) -> list[Any]:
    """The arguments without constants."""
    last = max(n for n, a in enumerate(args) if isinstance(a, np.ndarray | np.generic | float))
    return list(args[: last + 1])
