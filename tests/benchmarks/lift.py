"""Lifted TIR against hand-written JAX: `python -m tests.benchmarks.lift [names]`.

Each function takes turns with its peer, and with the same peer again; the ratio is the least time to the hand-written
one's, and that of the peer to itself is what the machine's noise amounts to. The medians of a round have a ratio, too:
some functions take one of two times, and which of them is luck. Where XLA makes one program of both, instruction
by instruction, that is said. Also: how long a lift takes, the first call, and what a statement costs in a loop that
runs step by step.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorir as ti
from tests.benchmarks.interleaved import compare, report, turns

rng = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return rng.integers(-8, 8, shape).astype(np.int8)


def matmul(n: int, element: str = "float32", total: str = "float32") -> str:
    cast = "{}" if element == total else f'T.Cast("{total}", {{}})'
    a, b = cast.format("A[vi, vk]"), cast.format("B[vk, vj]")
    return f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{element}"), B: T.Buffer(({n}, {n}), "{element}"), C: T.Buffer(({n}, {n}), "{total}")):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{total}(0)
            C[vi, vj] = C[vi, vj] + {a} * {b}
"""


def tiled(n: int) -> str:
    return (
        matmul(n)
        .replace(
            f"for i, j, k in T.grid({n}, {n}, {n}):",
            f"for i0, j0, k0, i1, k1, j1 in T.grid({n // 16}, {n // 16}, {n // 4}, 16, 4, 16):",
        )
        .replace(
            'vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
            f"vi = T.axis.spatial({n}, i0 * 16 + i1)\n            vj = T.axis.spatial({n}, j0 * 16 + j1)\n            vk = T.axis.reduce({n}, k0 * 4 + k1)",
        )
    )


CONV = """
@T.prim_func
def main(A: T.Buffer((1, 64, 56, 56), "float32"), W: T.Buffer((64, 64, 3, 3), "float32"), O: T.Buffer((1, 64, 56, 56), "float32")):
    P = T.alloc_buffer((1, 64, 58, 58), "float32")
    for n, c, y, x in T.grid(1, 64, 58, 58):
        with T.sblock("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(1 <= vy and vy < 57 and 1 <= vx and vx < 57, A[vn, vc, vy - 1, vx - 1], T.float32(0))
    for n, f, y, x, c, ry, rx in T.grid(1, 64, 56, 56, 64, 3, 3):
        with T.sblock("conv"):
            vn, vf, vy, vx, vc, vry, vrx = T.axis.remap("SSSSRRR", [n, f, y, x, c, ry, rx])
            with T.init():
                O[vn, vf, vy, vx] = T.float32(0)
            O[vn, vf, vy, vx] = O[vn, vf, vy, vx] + P[vn, vc, vy + vry, vx + vrx] * W[vf, vc, vry, vrx]
"""

DEPTHWISE = """
@T.prim_func
def main(A: T.Buffer((1, 64, 56, 56), "float32"), W: T.Buffer((64, 3, 3), "float32"), O: T.Buffer((1, 64, 56, 56), "float32")):
    P = T.alloc_buffer((1, 64, 58, 58), "float32")
    for n, c, y, x in T.grid(1, 64, 58, 58):
        with T.sblock("pad"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(1 <= vy and vy < 57 and 1 <= vx and vx < 57, A[vn, vc, vy - 1, vx - 1], T.float32(0))
    for n, f, y, x, ry, rx in T.grid(1, 64, 56, 56, 3, 3):
        with T.sblock("conv"):
            vn, vf, vy, vx, vry, vrx = T.axis.remap("SSSSRR", [n, f, y, x, ry, rx])
            with T.init():
                O[vn, vf, vy, vx] = T.float32(0)
            O[vn, vf, vy, vx] = O[vn, vf, vy, vx] + P[vn, vf, vy + vry, vx + vrx] * W[vf, vry, vrx]
"""

SOFTMAX = """
@T.prim_func
def main(A: T.Buffer((1024, 1024), "float32"), O: T.Buffer((1024, 1024), "float32")):
    M = T.alloc_buffer((1024,), "float32")
    S = T.alloc_buffer((1024,), "float32")
    for i, k in T.grid(1024, 1024):
        with T.sblock("m"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-3.4028234663852886e38)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(1024, 1024):
        with T.sblock("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
    for i, j in T.grid(1024, 1024):
        with T.sblock("o"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = T.exp(A[vi, vj] - M[vi]) / S[vi]
"""

LAYER_NORM = """
@T.prim_func
def main(A: T.Buffer((1024, 1024), "float32"), g: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32"), O: T.Buffer((1024, 1024), "float32")):
    S = T.alloc_buffer((1024,), "float32")
    Q = T.alloc_buffer((1024,), "float32")
    for i, k in T.grid(1024, 1024):
        with T.sblock("s"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
                Q[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
            Q[vi] = Q[vi] + A[vi, vk] * A[vi, vk]
    for i, j in T.grid(1024, 1024):
        with T.sblock("o"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = (A[vi, vj] - S[vi] / T.float32(1024)) * T.rsqrt(Q[vi] / T.float32(1024) - (S[vi] / T.float32(1024)) * (S[vi] / T.float32(1024)) + T.float32(1e-5)) * g[vj] + b[vj]
"""

POOL = """
@T.prim_func
def main(A: T.Buffer((1, 64, 112, 112), "float32"), O: T.Buffer((1, 64, 55, 55), "float32")):
    for n, c, y, x, ry, rx in T.grid(1, 64, 55, 55, 3, 3):
        with T.sblock("pool"):
            vn, vc, vy, vx, vry, vrx = T.axis.remap("SSSSRR", [n, c, y, x, ry, rx])
            with T.init():
                O[vn, vc, vy, vx] = T.float32(-3.4028234663852886e38)
            O[vn, vc, vy, vx] = T.max(O[vn, vc, vy, vx], A[vn, vc, vy * 2 + vry, vx * 2 + vrx])
"""

CUMSUM = """
@T.prim_func
def main(A: T.Buffer((1024, 1024), "float32"), O: T.Buffer((1024, 1024), "float32")):
    for i in range(1024):
        O[i, 0] = A[i, 0]
        for k in range(1023):
            O[i, k + 1] = O[i, k] + A[i, k + 1]
"""

ARGMAX = """
@T.prim_func
def main(A: T.Buffer((1024, 1024), "float32"), I: T.Buffer((1024,), "int32"), V: T.Buffer((1024,), "float32")):
    for i, k in T.grid(1024, 1024):
        with T.sblock("a"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = T.float32(-3.4028234663852886e38)
            ni: T.let[T.int32] = T.Select(V[vi] > A[vi, vk] or (V[vi] == A[vi, vk] and I[vi] < vk), I[vi], vk)
            nv: T.let[T.float32] = T.Select(V[vi] > A[vi, vk], V[vi], A[vi, vk])
            I[vi] = ni
            V[vi] = nv
"""

STENCIL = """
@T.prim_func
def main(A: T.Buffer((2048, 2048), "float32"), O: T.Buffer((2048, 2048), "float32")):
    for i, j in T.grid(2046, 2046):
        O[i + 1, j + 1] = T.float32(0.25) * (A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2])
"""

ATTENTION = """
@T.prim_func
def main(Q: T.Buffer((8, 256, 64), "float32"), K: T.Buffer((8, 256, 64), "float32"), V: T.Buffer((8, 256, 64), "float32"), O: T.Buffer((8, 256, 64), "float32")):
    S = T.alloc_buffer((8, 256, 256), "float32")
    M = T.alloc_buffer((8, 256), "float32")
    D = T.alloc_buffer((8, 256), "float32")
    for h, i, j, d in T.grid(8, 256, 256, 64):
        with T.sblock("s"):
            vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
            with T.init():
                S[vh, vi, vj] = T.float32(0)
            S[vh, vi, vj] = S[vh, vi, vj] + Q[vh, vi, vd] * K[vh, vj, vd]
    for h, i, j in T.grid(8, 256, 256):
        with T.sblock("m"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                M[vh, vi] = T.float32(-3e38)
            M[vh, vi] = T.max(M[vh, vi], S[vh, vi, vj])
    for h, i, j in T.grid(8, 256, 256):
        with T.sblock("d"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                D[vh, vi] = T.float32(0)
            D[vh, vi] = D[vh, vi] + T.exp(S[vh, vi, vj] - M[vh, vi])
    for h, i, d, j in T.grid(8, 256, 64, 256):
        with T.sblock("o"):
            vh, vi, vd, vj = T.axis.remap("SSSR", [h, i, d, j])
            with T.init():
                O[vh, vi, vd] = T.float32(0)
            O[vh, vi, vd] = O[vh, vi, vd] + T.exp(S[vh, vi, vj] - M[vh, vi]) / D[vh, vi] * V[vh, vj, vd]
"""

STEPS = """
@T.prim_func
def main(A: T.Buffer((1000000,), "float32"), I: T.Buffer((1000000,), "int32"), B: T.Buffer((1000,), "float32")):
    for i in range(1000000):
        B[I[i]] = B[I[i]] * T.float32(0.5) + A[i]
"""


def layer_norm(a: Any, g: Any, b: Any, _: Any) -> Any:
    mean = a.mean(-1, keepdims=True)
    variance = (a * a).mean(-1, keepdims=True) - mean * mean
    return (a - mean) * lax.rsqrt(variance + 1e-5) * g + b


def pooled(a: Any, _: Any) -> Any:
    return lax.reduce_window(a, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "VALID")


def stencil(a: Any, o: Any) -> Any:
    return o.at[1:-1, 1:-1].set(0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]))


def wide(a: Any, b: Any, _: Any) -> Any:
    return lax.dot(a.astype(jnp.int32), b.astype(jnp.int32))


def depthwise(a: Any, w: Any, _: Any) -> Any:
    return lax.conv_general_dilated(a, w[:, None], (1, 1), [(1, 1), (1, 1)], feature_group_count=64)


Case = tuple[str, list[Any], Callable[..., Any]]


def cases() -> dict[str, Case]:
    square, image = floats(1024, 1024), floats(1, 64, 56, 56)
    return {
        "matmul 512": (matmul(512), [floats(512, 512), floats(512, 512), floats(512, 512)], lambda a, b, _: a @ b),
        "matmul 1024": (matmul(1024), [square, floats(1024, 1024), square + 1], lambda a, b, _: a @ b),
        "tiled 1024": (tiled(1024), [square, floats(1024, 1024), square + 1], lambda a, b, _: a @ b),
        "int8 256": (matmul(256, "int8", "int32"), [bytes_(256, 256), bytes_(256, 256), np.zeros((256, 256), np.int32)], wide),
        "conv2d": (CONV, [image, floats(64, 64, 3, 3), image + 1], lambda a, w, _: lax.conv_general_dilated(a, w, (1, 1), [(1, 1), (1, 1)])),
        "depthwise": (DEPTHWISE, [image, floats(64, 3, 3), image + 1], depthwise),
        "softmax": (SOFTMAX, [square, square + 1], lambda a, _: jax.nn.softmax(a, -1)),
        "layer norm": (LAYER_NORM, [square, floats(1024), floats(1024), square + 1], layer_norm),
        "max-pool": (POOL, [floats(1, 64, 112, 112), floats(1, 64, 55, 55)], pooled),
        "cumsum": (CUMSUM, [square, square + 1], lambda a, _: jnp.cumsum(a, -1)),
        "argmax": (ARGMAX, [square, np.zeros(1024, np.int32), floats(1024)], lambda a, *_: jnp.argmax(a, -1).astype(jnp.int32)),
        "stencil": (STENCIL, [floats(2048, 2048), floats(2048, 2048)], stencil),
        "attention": (ATTENTION, [floats(8, 256, 64) for _ in range(4)], lambda q, k, v, _: jax.nn.softmax(q @ k.swapaxes(1, 2), -1) @ v),
    }  # fmt: skip


def measure(name: str, case: Case) -> str:
    text, arrays, hand = case
    begin = time.perf_counter()
    program = ti.lift(ti.tir.parse(text)["main"])
    lifted = time.perf_counter() - begin
    given = [jnp.asarray(a) for a in arrays]
    by_hand, again = jax.jit(hand), jax.jit(lambda *xs: hand(*xs))
    seconds: list[float] = []
    for run in (lambda: program(*given), lambda: by_hand(*given)):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - begin)
    ways = {
        "lifted": lambda: jax.block_until_ready(program(*given)),
        "by hand": lambda: jax.block_until_ready(by_hand(*given)),
        "by hand again": lambda: jax.block_until_ready(again(*given)),
    }
    # what takes a tenth of a millisecond needs hundreds of turns until its least time stands
    least = min(compare(ways, rounds=6).values())
    taken = turns(ways, rounds=int(min(max(1 / least, 24), 1000)))
    line = report(name, {way: min(t) for way, t in taken.items()}, "by hand")
    line += f", medians {median(taken['lifted']) / median(taken['by hand']):.2f}"
    same = ", one program" if optimised(program, given) == optimised(hand, given) else ""
    return f"{line}{same}; lift {1e3 * lifted:.0f} ms, first call {seconds[0]:.2f} s and {seconds[1]:.2f} s"


def optimised(function: Callable[..., Any], given: list[Any]) -> str:
    """What XLA runs for a function, without the names of instructions and the places in the source."""
    text = jax.jit(lambda *xs: jax.tree.leaves(function(*xs))).lower(*given).compile().as_text()
    text = re.sub(r", metadata=\{[^}]*\}", "", text[text.index("\n%") :] if "\n%" in text else text)
    names: dict[str, str] = {}
    # an instruction has a sign before its name, a parameter a colon behind it
    return re.sub(r"%([\w.-]+)|\b([\w.-]+)(?=: )", lambda m: names.setdefault(m[1] or m[2], f"n{len(names)}"), text)


def steps() -> str:
    program = ti.lift(ti.tir.parse(STEPS)["main"])
    given = [
        jnp.asarray(a) for a in (floats(1_000_000), rng.integers(0, 1000, 1_000_000).astype(np.int32), floats(1000))
    ]
    best = compare({"steps": lambda: jax.block_until_ready(program(*given))}, rounds=5, warm=1)["steps"]
    return f"a statement that runs step by step: {best * 1e3:.1f} ns"


if __name__ == "__main__":
    chosen = sys.argv[1:]
    for title, one in cases().items():
        if not chosen or title.split()[0] in chosen:
            print(measure(title, one), flush=True)
    if not chosen or "steps" in chosen:
        print(steps())
