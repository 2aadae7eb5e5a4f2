"""Lifted tile kernels against plain JAX of the same function: `python -m tests.benchmarks.tiles [names]`.

Each kernel takes turns with its peer. The ratio is plain JAX's least time to the kernel's: at 1 it is as fast.
Beside it: how long the lift takes, and the first call of both, traced and compiled anew in turns. At the end
the same sum of vectors in 64 and in 65,536 blocks, and a kernel of as many blocks in Pallas' interpret mode.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import cuda.tile as ct
import jax
import jax.numpy as jnp
import numpy as np
from cuda.tile import Constant
from jax import lax

import tensorir as ti
from tensorir import tile
from tests.benchmarks.interleaved import compare
from tests.peers import cutile_kernels as k

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


@ct.kernel
def heads(q, key, v, o, scale, B: Constant[int], T: Constant[int], D: Constant[int]):
    """Attention for heads: a block has some rows of one head."""
    h, i = ct.bid(0), ct.bid(1)
    query = ct.reshape(ct.load(q, index=(h, i, 0), shape=(1, B, D)), (B, D))
    m = ct.full((B, 1), -1e30, ct.float32)
    s = ct.full((B, 1), 0.0, ct.float32)
    acc = ct.full((B, D), 0.0, ct.float32)
    for j in range(ct.num_tiles(key, axis=1, shape=(1, T, D))):
        keys = ct.reshape(ct.load(key, index=(h, j, 0), shape=(1, T, D)), (T, D))
        score = ct.mma(query, ct.transpose(keys), ct.full((B, T), 0.0, ct.float32)) * scale
        new = ct.maximum(m, ct.max(score, axis=1, keepdims=True))
        p = ct.exp(score - new)
        fade = ct.exp(m - new)
        s = s * fade + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(p, ct.reshape(ct.load(v, index=(h, j, 0), shape=(1, T, D)), (T, D)), acc * fade)
        m = new
    ct.store(o, index=(h, i, 0), tile=ct.reshape(acc / s, (1, B, D)))


def attended(q: Any, key: Any, v: Any, o: Any, scale: Any) -> Any:
    score = jnp.einsum("hid,hjd->hij", q, key) * scale
    return jnp.einsum("hij,hjd->hid", jax.nn.softmax(score, axis=-1), v)


def normed(x: Any, w: Any, b: Any, y: Any, m: Any, r: Any, eps: Any) -> Any:
    mean, rstd = x.mean(1, keepdims=True), lax.rsqrt(x.var(1, keepdims=True) + eps)
    return (x - mean) * rstd * w + b, mean[:, 0], rstd[:, 0]


def quantised(a: Any, b: Any, s: Any, c: Any) -> Any:
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32).astype(jnp.float32) * s


Case = tuple[str, Any, tuple[int, ...], tuple[Any, ...], int, Callable[..., Any]]


def cases() -> Iterator[Case]:
    """Name, kernel, grid, arguments, how many of them are no constants, the same in plain JAX."""
    for n in (512, 1024):
        for t in (32, 64, 128):
            args = (floats(n, n), floats(n, n), zeros(n, n), t, t, t)
            yield f"matmul {n}, tiles of {t}", k.matmul, (n // t, n // t), args, 3, lambda a, b, c: a @ b
    n = 1 << 22
    for blocks in (64, 65536):
        args = (floats(n), floats(n), zeros(n), n // blocks)
        yield f"vector add 4M, {blocks} blocks", k.vector_add, (blocks,), args, 3, lambda a, b, c: a + b
    yield (
        "softmax 1024", k.softmax, (1024,), (floats(1024, 1024), zeros(1024, 1024), 1024), 2,
        lambda x, y: jax.nn.softmax(x, axis=1),
    )  # fmt: skip
    yield (
        "online softmax 1024", k.online_softmax, (1024,), (floats(1024, 1024), zeros(1024, 1024), 128), 2,
        lambda x, y: jax.nn.softmax(x, axis=1),
    )  # fmt: skip
    norm = (floats(1024, 1024), floats(1024), floats(1024), zeros(1024, 1024), zeros(1024), zeros(1024))
    yield "layer norm 1024", k.layer_norm, (1024,), (*norm, np.float32(1e-5), 1024), 7, normed
    yield (
        "transpose 1024", k.transpose, (32, 32), (floats(1024, 1024), zeros(1024, 1024), 32, 32), 2,
        lambda x, y: x.T + 0,
    )  # fmt: skip
    for b, t in ((64, 64), (128, 128)):
        args = (*(floats(8, 1024, 64) for _ in range(3)), zeros(8, 1024, 64), np.float32(0.125), b, t, 64)
        yield f"attention 8 x 1024 x 64, {b} by {t}", heads, (8, 1024 // b), args, 5, attended
    numbers = RNG.integers(-128, 128, (2, 512, 512), np.int8)
    args = (numbers[0], numbers[1], np.float32(0.5), zeros(512, 512), 64, 64, 64)
    yield "int8 matmul 512", k.quantised_matmul, (8, 8), args, 4, quantised
    args = (RNG.integers(0, 256, 1 << 20).astype(np.int32), zeros(256, dtype=np.int32), 1024)
    yield "histogram 1M", k.histogram, (1024,), args, 2, lambda x, c: c.at[x].add(1)


def waited(f: Callable[..., Any], *args: Any) -> Any:
    return jax.block_until_ready(f(*args))


def first_calls(case: Case, arrays: Sequence[Any], rounds: int = 4) -> tuple[float, dict[str, float]]:
    """The least seconds of a lift, and those of the first call of a fresh program and of a fresh peer, in turns."""
    _, kernel, grid, args, count, plain = case
    module, given = tile.from_cutile(kernel, *args), list(args[:count])
    lifts: list[float] = []

    def lifted() -> Any:
        begin = time.perf_counter()
        program = ti.lift(module, grid=grid, args=given)
        lifts.append(time.perf_counter() - begin)
        return program

    ways: dict[str, Callable[[], Any]] = {"lifted": lifted, "plain": lambda: jax.jit(lambda *xs: plain(*xs))}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            run = ways[name]()
            jax.clear_caches()
            begin = time.perf_counter()
            waited(run, *arrays)
            taken[name].append(time.perf_counter() - begin)
    # the first round also loads what either of them needs
    return min(lifts[1:]), {name: min(found[1:]) for name, found in taken.items()}


def measured(case: Case) -> float:
    """One line for a case; the seconds of the kernel."""
    name, kernel, grid, args, count, plain = case
    given = list(args[:count])
    arrays = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in given]
    lift, first = first_calls(case, arrays)
    program, peer = ti.lift(tile.from_cutile(kernel, *args), grid=grid, args=given), jax.jit(plain)
    found, wanted = waited(program, *arrays), waited(peer, *arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    apart = max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(found, wanted, strict=True))
    ways = {"lifted": partial(waited, program, *arrays), "plain": partial(waited, peer, *arrays)}
    seconds = compare(ways, rounds=60)
    ratio, longer = seconds["plain"] / seconds["lifted"], first["lifted"] / first["plain"]
    print(
        f"{name:36} {1e3 * seconds['lifted']:9.3f} ms, plain {1e3 * seconds['plain']:9.3f} ms, ratio {ratio:5.2f}; "
        f"lift {1e3 * lift:4.0f} ms; first call {1e3 * first['lifted']:5.0f} ms, plain {1e3 * first['plain']:5.0f} ms, "
        f"{longer:4.2f} times as long; apart {apart:.0e}",
        flush=True,
    )
    return seconds["lifted"]


def beside_pallas() -> None:
    """The sum of vectors in 4,096 blocks, and the same in Pallas' interpret mode."""
    from jax.experimental import pallas as pl

    n, blocks = 1 << 20, 4096
    a, b, c = floats(n), floats(n), zeros(n)
    program = ti.lift(tile.from_cutile(k.vector_add, a, b, c, n // blocks), grid=(blocks,), args=(a, b, c))

    def body(x: Any, y: Any, z: Any) -> None:
        z[...] = x[...] + y[...]

    spec = pl.BlockSpec((n // blocks,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct((n,), jnp.float32)
    call = pl.pallas_call(body, grid=(blocks,), in_specs=[spec, spec], out_specs=spec, out_shape=shape, interpret=True)
    peer, arrays = jax.jit(call), [jnp.asarray(x) for x in (a, b, c)]
    ways = {"lifted": partial(waited, program, *arrays), "Pallas": partial(waited, peer, *arrays[:2])}
    seconds = compare(ways, rounds=6, warm=1)
    print(f"vector add 1M, {blocks} blocks: {seconds['Pallas'] / seconds['lifted']:.0f} times as fast as interpreted")


def main() -> None:
    asked = sys.argv[1:]
    taken: dict[str, float] = {}
    for case in cases():
        if not asked or any(a in case[0] for a in asked):
            taken[case[0]] = measured(case)
    few, many = (taken.get(f"vector add 4M, {n} blocks") for n in (64, 65536))
    if few and many:
        print(f"65,536 blocks take {many / few:.2f} times as long as 64")
    if not asked or any(a in "pallas" for a in asked):
        beside_pallas()


if __name__ == "__main__":
    main()
