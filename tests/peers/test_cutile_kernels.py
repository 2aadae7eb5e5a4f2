"""Kernels of cuTile Python, compiled without a GPU, verified, run and compared with NumPy; no checked run complains."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.tile")

import tensorir.tile as tile
from tensorir.tile.bytecode.bytes import Bytes, sections_of
from tensorir.tile.bytecode.tables import Tables
from tests.peers import cutile_kernels as k

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def run(kernel: Any, grid: tuple[int, ...], *args: Any, checked: bool = True, **options: Any) -> list[np.ndarray]:
    """The arrays after a launch of a kernel; constants are the ints and bools at the end of its arguments."""
    module = tile.from_cutile(kernel, *args)
    tile.verify(module)
    assert tile.parse(str(module)) == module
    assert tile.from_bytecode(tile.to_bytecode(module)) == module
    last = max(n for n, a in enumerate(args) if isinstance(a, np.ndarray | np.generic | float))
    return tile.interpret(module, None, list(args[: last + 1]), grid, checked=checked, **options)


def near(got: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance)


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_vectors_add_up_where_the_last_tile_hangs_over():
    a, b = floats(10), floats(10)
    near(run(k.vector_add, (3,), a, b, zeros(10), 4)[2], a + b)


def test_a_scalar_is_passed_beside_arrays():
    x, y = floats(16), floats(16)
    near(run(k.saxpy, (2,), np.float32(0.5), x, y, 8)[1], np.float32(0.5) * x + y)


@pytest.mark.parametrize("kernel", (k.transpose, k.transpose_by_order))
def test_a_matrix_is_transposed(kernel):
    x = floats(16, 8)
    grid = (4, 2) if kernel is k.transpose else (2, 4)
    near(run(kernel, grid, x, zeros(8, 16), 4, 4)[1], x.T)


@pytest.mark.parametrize("dtype", (np.float32, np.float16, ml_dtypes.bfloat16))
def test_matrices_multiply(dtype):
    a, b = floats(20, 24).astype(dtype), floats(24, 12).astype(dtype)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    near(
        run(k.matmul, (2, 1), a, b, zeros(20, 12, dtype=dtype), 16, 16, 8)[2],
        wanted,
        2e-5 if dtype == np.float32 else 0.05,
    )


def test_a_product_has_an_epilogue():
    a, b, bias = floats(16, 8), floats(8, 16), floats(16)
    near(run(k.matmul_relu_bias, (2, 2), a, b, bias, zeros(16, 16), 8, 8, 4)[3], np.maximum(a @ b + bias, 0))


def test_matrices_multiply_in_batches():
    a, b = floats(3, 8, 8), floats(3, 8, 8)
    near(run(k.batched_matmul, (3, 2, 2), a, b, zeros(3, 8, 8), 4, 4, 4)[2], a @ b)


def test_integers_of_8_bits_multiply():
    a, b = RNG.integers(-128, 128, (16, 32), np.int8), RNG.integers(-128, 128, (32, 16), np.int8)
    wanted = (a.astype(np.int64) @ b.astype(np.int64)) * np.float32(0.5)
    near(run(k.quantised_matmul, (2, 2), a, b, np.float32(0.5), zeros(16, 16), 8, 8, 16)[2], wanted)


def test_floats_of_8_bits_multiply():
    a, b = floats(8, 16), floats(16, 8)
    narrow = [x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) for x in (a, b)]
    near(run(k.fp8_matmul, (1, 1), a, b, zeros(8, 8), 8, 8, 16)[2], narrow[0] @ narrow[1])


def test_softmax_pads_its_rows():
    x = floats(5, 12)
    near(run(k.softmax, (5,), x, zeros(5, 12), 16)[1], softmax_of(x))


def test_softmax_goes_in_one_pass_over_tiles():
    x = floats(3, 32)
    near(run(k.online_softmax, (3,), x, zeros(3, 32), 8)[1], softmax_of(x))


def test_layer_norm_and_its_gradient():
    x, w, b, dy = floats(4, 16), floats(16), floats(16), floats(4, 16)
    after = run(k.layer_norm, (4,), x, w, b, zeros(4, 16), zeros(4), zeros(4), 1e-5, 16)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + 1e-5)
    xhat = (x - mean[:, None]) * rstd[:, None]
    near(after[3], xhat * w + b)
    near(after[4], mean)
    near(after[5], rstd)
    wdy = dy * w
    dx = (wdy - (xhat * (xhat * wdy).mean(1)[:, None] + wdy.mean(1)[:, None])) * rstd[:, None]
    near(run(k.layer_norm_backward, (4,), dy, x, w, after[4], after[5], zeros(4, 16), 16)[5], dx, 1e-4)


@pytest.mark.parametrize("causal", (False, True))
def test_attention(causal):
    q, key, v = floats(16, 8), floats(16, 8), floats(16, 8)
    score = q @ key.T * np.float32(0.35)
    if causal:
        score = np.where(np.tril(np.ones((16, 16))), score, -np.inf)
    near(
        run(k.attention, (4,), q, key, v, zeros(16, 8), np.float32(0.35), causal, 4, 8, 8)[3],
        softmax_of(score) @ v,
        1e-4,
    )


def test_a_convolution_by_gathers():
    x, w = floats(6, 10), floats(3, 3)
    wanted = sum(w[a, b] * x[a : a + 4, b : b + 8] for a in range(3) for b in range(3))
    after = run(k.convolution, (2,), x.reshape(-1), w.reshape(-1), zeros(32), 6, 10, 16)
    near(after[2].reshape(4, 8), wanted)


def test_sums_and_products_from_either_end():
    x = floats(3, 16)
    near(run(k.cumulative_sum, (3,), x, zeros(3, 16), 16)[1], np.cumsum(x, 1))
    near(run(k.reverse_cumulative_product, (3,), x, zeros(3, 16), 16)[1], np.cumprod(x[:, ::-1], 1)[:, ::-1])


def test_a_histogram_by_atomics():
    x = RNG.integers(0, 10, 64).astype(np.int32)
    for seed in (None, 1, 2):
        near(run(k.histogram, (4,), x, zeros(10, dtype=np.int32), 16, seed=seed)[1], np.bincount(x, minlength=10))


def test_the_largest_and_the_largest_few():
    x = floats(4, 32)
    near(run(k.arg_max, (4,), x, zeros(4, dtype=np.int32), 32)[1], x.argmax(1))
    after = run(k.top_k, (4,), x, zeros(4, 3), zeros(4, 3, dtype=np.int32), 3, 32)
    near(after[2], np.argsort(-x, 1)[:, :3])
    near(after[1], -np.sort(-x, 1)[:, :3])


def test_gather_scatter_and_embedding():
    x, order, back = floats(32), RNG.permutation(32).astype(np.int32), RNG.permutation(32).astype(np.int32)
    wanted = zeros(32)
    wanted[back] = x[order]
    near(run(k.gather_scatter, (4,), x, order, back, zeros(32), 8)[3], wanted)
    table, ids = floats(20, 8), RNG.integers(0, 20, 6).astype(np.int32)
    near(run(k.embedding, (6,), table, ids, zeros(6, 8), 8)[2], table[ids])


def test_rotary_positions():
    x, angle = floats(6, 16), floats(6, 8)
    a, b, c, s = x[:, :8], x[:, 8:], np.cos(angle), np.sin(angle)
    near(run(k.rotary, (6,), x, c, s, zeros(6, 16), 8)[3], np.concatenate([a * c - b * s, b * c + a * s], 1))


def test_welford_folds_three_tiles_at_once():
    x = floats(4, 32)
    after = run(k.welford, (4,), x, zeros(4), zeros(4), 32)
    near(after[1], x.mean(1))
    near(after[2], x.var(1), 1e-4)


@pytest.mark.parametrize("step", (3, 8, 11))
def test_windows_overlap_touch_and_leave_gaps(step):
    x = floats(40)
    count = -(-40 // step)
    wanted = [x[s * step : s * step + 8].max() for s in range(count)]
    near(run(k.sliding_maximum, (count,), x, zeros(count), step)[1], wanted)


def test_an_array_may_have_strides():
    x = floats(32)[::2]
    near(run(k.strided_copy, (4,), x, zeros(16), 4)[1], x)


@pytest.mark.parametrize("seed", (None, 0, 1))
def test_prefix_sums_over_blocks_wait_for_each_other(seed):
    x = floats(32)
    args = (x, zeros(32), zeros(4), zeros(4, dtype=np.int32), 8)
    near(run(k.prefix_over_blocks, (4,), *args, seed=seed)[1], np.cumsum(x), 1e-4)


def test_blocks_return_early_and_loops_nest():
    x = floats(16)
    wanted = np.where(np.arange(16) < 8, 2 * x, 0)
    module = tile.from_cutile(k.early_return, x, zeros(16), 2, 4)
    near(tile.interpret(module, None, [x, zeros(16), 2], (4,), checked=True)[1], wanted)
    near(
        run(k.nested_loops, (4,), x, zeros(16), 4)[1], x * sum(a + b for a in range(3) for b in range(a + 1) if b != 1)
    )


def test_a_loop_runs_until_data_says_so():
    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    x = np.arange(1, 33, dtype=np.int32)
    near(run(k.collatz, (2,), x, zeros(32, dtype=np.int32), 16)[1], [steps(int(n)) for n in x])


def test_blocks_print(capsys):
    run(k.printing, (2,), np.array([1, 2, 3, 4], np.float32), 2)
    assert capsys.readouterr().out == "block 0: [1.000000, 2.000000]\nblock 1: [3.000000, 4.000000]\n"


def test_sums_round_down_and_up():
    x, y = floats(16), floats(16)
    exact = x.astype(np.float64) + y
    low, high = run(k.directed_sums, (2,), x, y, zeros(16), zeros(16), 8)[2:]
    assert (low <= exact).all() and (exact <= high).all()
    assert ((high == low) | (np.nextafter(low, np.float32(np.inf)) == high)).all()


def test_bytes_and_slices():
    x = floats(16).astype(np.float16)
    after = run(k.bytes_of_halves, (2,), x, zeros(32, dtype=np.uint8), 8)[1]
    assert after.tobytes() == x.tobytes()
    y = floats(8)
    near(run(k.cat_and_extract, (2,), y, zeros(8), 4)[1], y)


@pytest.mark.parametrize("version", ("13.1", "13.2"))
def test_older_bytecode_means_the_same(version):
    a, b = floats(8), floats(8)
    module = tile.from_cutile(k.vector_add, a, b, zeros(8), 4, version=version)
    near(tile.interpret(module, "vector_add", [a, b, zeros(8)], (2,))[2], a + b)
    assert tile.from_bytecode(tile.to_bytecode(module, version)) == module


def tables(data: bytes) -> tuple[list[bytes], list[str], list[bytes], int]:
    """The strings, types and constants of a file, each in order of themselves, and the length of its functions."""
    sections = sections_of(Bytes(data, "file"))
    code = sections.parts["Func"]
    length, known = code.end - code.pos, Tables(sections)

    def entries(table: Any) -> list[Any]:
        return [table.entry(n) for n in range(len(table))]

    numbers = [Bytes(bytes([n]), "a number") for n in range(len(known._types))]
    strings, constants = (
        sorted(c.data[c.pos : c.end] for c in entries(table)) for table in (known._strings, known._constants)
    )  # fmt: skip
    return strings, sorted(str(known.type(n)) for n in numbers), constants, length


@pytest.mark.parametrize("kernel", (k.vector_add, k.matmul, k.softmax, k.sliding_maximum))
def test_files_are_those_of_cutile_up_to_the_order_of_tables(kernel, monkeypatch):
    args = {
        k.vector_add: (floats(8), floats(8), zeros(8), 4), k.matmul: (floats(8, 8), floats(8, 8), zeros(8, 8), 8, 8, 8),
        k.softmax: (floats(4, 8), zeros(4, 8), 8), k.sliding_maximum: (floats(16), zeros(4), 4),
    }[kernel]  # fmt: skip
    files: list[bytes] = []
    monkeypatch.setattr(
        "tensorir.tile.cutile.from_bytecode", lambda data, name: files.append(data) or tile.from_bytecode(data, name)
    )
    module = tile.from_cutile(kernel, *args)
    ours, theirs = tables(tile.to_bytecode(module)), tables(files[0])
    assert (ours[0], ours[2:]) == (theirs[0], theirs[2:])
    assert set(theirs[1]) - set(ours[1]) <= {"i1"} and set(ours[1]) <= set(theirs[1])  # it lists i1 unused


def test_a_kernel_that_cutile_refuses_is_named():
    with pytest.raises(tile.DiagnosticError, match=r"\[TK06\]: cuTile refuses the kernel 'vector_add'"):
        tile.from_cutile(k.vector_add, floats(4), floats(4, 4), zeros(4), 4)
    with pytest.raises(tile.DiagnosticError, match="a kernel of cuTile is needed, and this is of type function"):
        tile.from_cutile(floats, floats(4))
