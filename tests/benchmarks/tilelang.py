"""Lifted kernels of TileLang beside plain JAX of the same algorithms: `python -m tests.benchmarks.tilelang [names]`.

The kernels are those that TileLang prints, with larger extents. A ratio below 1 is faster than plain JAX.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from tests.benchmarks.interleaved import compare, report

RNG = np.random.default_rng(0)
HEAD = """
@T.prim_func
def main({params}):
    for bx in T.thread_binding({x}, thread="blockIdx.x"):
        for by in T.thread_binding({y}, thread="blockIdx.y"):
            with T.sblock("tilelang_root"):
                T.reads()
                T.writes()
"""


def _kernel(params: str, x: int, y: int, body: str) -> Any:
    text = HEAD.format(params=params, x=x, y=y)
    return ti.tir.parse(text + "\n".join(" " * 16 + line for line in body.strip("\n").split("\n")))["main"]


def _tensor(name: str, shape: tuple[int, ...], dtype: str = "float32") -> str:
    return f'{name}: T.Buffer({shape}, "{dtype}")'


def _half(*shape: int) -> Any:
    return jnp.asarray(RNG.normal(size=shape).astype(np.float16))


def matmul(n: int = 1024) -> tuple[Any, list[Any], Callable[..., Any]]:
    """A product of half-precision matrices, summed in float32."""
    params = ", ".join(_tensor(name, (n, n), "float16") for name in "ABC")
    func = _kernel(params, n // 64, n // 64, f"""
a = T.sblock_alloc_buffer((64, 32), "float16", scope="shared.dyn")
b = T.sblock_alloc_buffer((32, 64), "float16", scope="shared.dyn")
c = T.sblock_alloc_buffer((64, 64), scope="local.fragment")
T.fill(T.region(c[0, 0], 2, 64, 64), 0)
for k in T.serial({n // 32}, annotations={{"num_stages": 3}}):
    T.copy(T.region(A[by * 64, k * 32], 1, 64, 32), T.region(a[0, 0], 2, 64, 32))
    T.copy(T.region(B[k * 32, bx * 64], 1, 32, 64), T.region(b[0, 0], 2, 32, 64))
    T.gemm(T.region(a[0, 0], 1, 64, 32), T.region(b[0, 0], 1, 32, 64), T.region(c[0, 0], 3, 64, 64), T.bool(False), T.bool(False), 64, 64, 32, 0, T.bool(False), 0, 0, 0)
T.copy(T.region(c[0, 0], 1, 64, 64), T.region(C[by * 64, bx * 64], 2, 64, 64))
""")  # fmt: skip  # noqa: E501
    plain = lambda a, b, _: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16)
    return func, [_half(n, n), _half(n, n), jnp.zeros((n, n), jnp.float16)], plain


def softmax(n: int = 2048) -> tuple[Any, list[Any], Callable[..., Any]]:
    """The softmax of rows."""
    func = _kernel(", ".join(_tensor(name, (n, n)) for name in "XY"), n // 8, 1, f"""
x = T.sblock_alloc_buffer((8, {n}), scope="local.fragment")
m = T.sblock_alloc_buffer((8,), scope="local.fragment")
s = T.sblock_alloc_buffer((8,), scope="local.fragment")
T.copy(T.region(X[bx * 8, 0], 1, 8, {n}), T.region(x[0, 0], 2, 8, {n}))
T.reduce(T.region(x[0, 0], 1, 8, {n}), T.region(m[0], 2, 8), "max", 1, T.bool(True))
for i in T.parallel(8):
    for j in T.parallel({n}):
        x[i, j] = T.exp(x[i, j] - m[i])
T.reduce(T.region(x[0, 0], 1, 8, {n}), T.region(s[0], 2, 8), "sum", 1, T.bool(True))
for i in T.parallel(8):
    for j in T.parallel({n}):
        x[i, j] = x[i, j] / s[i]
T.copy(T.region(x[0, 0], 1, 8, {n}), T.region(Y[bx * 8, 0], 2, 8, {n}))
""")  # fmt: skip
    x = jnp.asarray(RNG.normal(size=(n, n)).astype(np.float32))
    return func, [x, jnp.zeros_like(x)], lambda x, _: jax.nn.softmax(x, axis=1)


def attention(heads: int = 8, n: int = 512, d: int = 64) -> tuple[Any, list[Any], Callable[..., Any]]:
    """Causal attention, tile by tile with running maxima, beside softmax of the whole scores."""
    params = ", ".join(_tensor(name, (heads, n, d), "float16") for name in "QKV") + ", " + _tensor("O", (heads, n, d))
    func = _kernel(params, n // 64, heads, f"""
q = T.sblock_alloc_buffer((64, {d}), "float16", scope="shared.dyn")
k = T.sblock_alloc_buffer((64, {d}), "float16", scope="shared.dyn")
v = T.sblock_alloc_buffer((64, {d}), "float16", scope="shared.dyn")
s = T.sblock_alloc_buffer((64, 64), scope="local.fragment")
p = T.sblock_alloc_buffer((64, 64), "float16", scope="local.fragment")
o = T.sblock_alloc_buffer((64, {d}), scope="local.fragment")
mx = T.sblock_alloc_buffer((64,), scope="local.fragment")
mp = T.sblock_alloc_buffer((64,), scope="local.fragment")
sc = T.sblock_alloc_buffer((64,), scope="local.fragment")
sm = T.sblock_alloc_buffer((64,), scope="local.fragment")
l = T.sblock_alloc_buffer((64,), scope="local.fragment")
T.copy(T.region(Q[by, bx * 64, 0], 1, 1, 64, {d}), T.region(q[0, 0], 2, 64, {d}))
T.fill(T.region(o[0, 0], 2, 64, {d}), 0)
T.fill(T.region(l[0], 2, 64), 0)
T.fill(T.region(mx[0], 2, 64), T.float32("-inf"))
for n in T.serial(bx + 1, annotations={{"num_stages": 1}}):
    T.copy(T.region(K[by, n * 64, 0], 1, 1, 64, {d}), T.region(k[0, 0], 2, 64, {d}))
    for i in T.parallel(64):
        for j in T.parallel(64):
            s[i, j] = T.if_then_else(bx * 64 + i >= n * 64 + j, T.float32(0.0), T.float32("-inf"))
    T.gemm(T.region(q[0, 0], 1, 64, {d}), T.region(k[0, 0], 1, 64, {d}), T.region(s[0, 0], 3, 64, 64), T.bool(False), T.bool(True), 64, 64, {d}, 1, T.bool(False), 0, 0, 0)
    T.copy(T.region(mx[0], 1, 64), T.region(mp[0], 2, 64))
    T.reduce(T.region(s[0, 0], 1, 64, 64), T.region(mx[0], 2, 64), "max", 1, T.bool(False))
    for i in T.parallel(64):
        sc[i] = T.exp(mp[i] * T.float32(0.125) - mx[i] * T.float32(0.125))
    for i in T.parallel(64):
        for j in T.parallel(64):
            s[i, j] = T.exp(s[i, j] * T.float32(0.125) - mx[i] * T.float32(0.125))
    T.reduce(T.region(s[0, 0], 1, 64, 64), T.region(sm[0], 2, 64), "sum", 1, T.bool(True))
    for i in T.parallel(64):
        l[i] = l[i] * sc[i] + sm[i]
    T.copy(T.region(s[0, 0], 1, 64, 64), T.region(p[0, 0], 2, 64, 64))
    for i in T.parallel(64):
        for j in T.parallel({d}):
            o[i, j] = o[i, j] * sc[i]
    T.copy(T.region(V[by, n * 64, 0], 1, 1, 64, {d}), T.region(v[0, 0], 2, 64, {d}))
    T.gemm(T.region(p[0, 0], 1, 64, 64), T.region(v[0, 0], 1, 64, {d}), T.region(o[0, 0], 3, 64, {d}), T.bool(False), T.bool(False), 64, {d}, 64, 1, T.bool(False), 0, 0, 0)
for i in T.parallel(64):
    for j in T.parallel({d}):
        o[i, j] = o[i, j] / l[i]
T.copy(T.region(o[0, 0], 1, 64, {d}), T.region(O[by, bx * 64, 0], 2, 1, 64, {d}))
""")  # fmt: skip  # noqa: E501

    def plain(q: Any, k: Any, v: Any, _: Any) -> Any:
        scores = jnp.einsum("hid,hjd->hij", q, k, preferred_element_type=jnp.float32) * 0.125
        weights = jax.nn.softmax(jnp.where(jnp.tri(n, dtype=bool), scores, -jnp.inf), axis=-1)
        return jnp.einsum("hij,hjd->hid", weights.astype(jnp.float16), v, preferred_element_type=jnp.float32)

    return func, [*(_half(heads, n, d) for _ in range(3)), jnp.zeros((heads, n, d))], plain


def convolution(side: int = 64, channels: int = 64, features: int = 64) -> tuple[Any, list[Any], Callable[..., Any]]:
    """A convolution of 3 × 3 as products with windows that are gathered tile by tile."""
    params = ", ".join((
        _tensor("X", (1, side, side, channels)), _tensor("K", (3, 3, channels, features)),
        _tensor("Y", (1, side, side, features)),
    ))  # fmt: skip
    func = _kernel(params, features // 64, side * side // 64, f"""
x = T.sblock_alloc_buffer((64, 32), scope="shared.dyn")
k = T.sblock_alloc_buffer((32, 64), scope="shared.dyn")
y = T.sblock_alloc_buffer((64, 64), scope="local.fragment")
kf = T.Buffer(({9 * channels}, {features}), data=K.data, strides=({features}, 1))
yf = T.Buffer(({side * side}, {features}), data=Y.data, strides=({features}, 1))
T.fill(T.region(y[0, 0], 2, 64, 64), 0)
for ki in T.serial({9 * channels // 32}, annotations={{"num_stages": 3}}):
    T.im2col(T.region(X[0, 0, 0, 0], 1, 1, {side}, {side}, {channels}), T.region(x[0, 0], 2, 64, 32), by, ki, 3, 1, 1, 1)
    T.copy(T.region(kf[ki * 32, bx * 64], 1, 32, 64), T.region(k[0, 0], 2, 32, 64))
    T.gemm(T.region(x[0, 0], 1, 64, 32), T.region(k[0, 0], 1, 32, 64), T.region(y[0, 0], 3, 64, 64), T.bool(False), T.bool(False), 64, 64, 32, 0, T.bool(False), 0, 0, 0)
T.copy(T.region(y[0, 0], 1, 64, 64), T.region(yf[by * 64, bx * 64], 2, 64, 64))
""")  # fmt: skip  # noqa: E501
    x, k = (
        jnp.asarray(RNG.normal(size=shape).astype(np.float32))
        for shape in ((1, side, side, channels), (3, 3, channels, features))
    )
    dims = ("NHWC", "HWIO", "NHWC")

    def plain(x: Any, k: Any, _: Any) -> Any:
        return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=dims)

    return func, [x, k, jnp.zeros((1, side, side, features))], plain


CASES = (matmul, softmax, attention, convolution)


def main(names: list[str]) -> None:
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        func, args, plain = case()
        lifted, by_hand = ti.lift(func), jax.jit(plain)
        found, wanted = np.asarray(lifted(*args)[0]), np.asarray(by_hand(*args))
        assert np.abs(found - wanted).max() <= 1e-2 * np.abs(wanted).max(), case.__name__
        ways = {
            "plain JAX": lambda f=by_hand, a=args: f(*a).block_until_ready(),
            "lifted": lambda f=lifted, a=args: f(*a)[0].block_until_ready(),
        }
        print(report(case.__name__, compare(ways, 10), "plain JAX"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
