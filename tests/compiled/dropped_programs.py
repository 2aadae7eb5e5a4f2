"""Programs of each kind, each other than the last, that are made, called and dropped; what of them is alive."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti

__all__ = ["KINDS", "alive", "drop"]

I, J, K = ti.dims("I J K")
X = np.arange(8.0)
TABLE = np.array([[0, 1], [1, 2], [2, -1], [3, 0]], np.int32)
SUM = """
f(out: tensor<float, V[0:4]>, x: tensor<float, E[0:4]>, T: tensor<int, V[0:4], _NB_E[0:2]>) {
    out ← reduce(λ(s: tensor<float, V[0:4]>, v: tensor<float, V[0:4]>) → s + v, #)(⟪T⟫(x));
}
"""


def _run(body: str, k: int, **more: Any) -> ti.Fencil:
    """A program of x on I[0:8], with `k` as one of its numbers, called once."""
    f = ti.parse(f"f(out: tensor<float, I[0:4]>, x: tensor<float, I[0:8]>) {{ out ← {body.replace('#', f'{k}.0')}; }}")
    f(x=X)
    return f


def pointwise(k: int) -> Any:
    return _run("x × #", k)


def stencil(k: int) -> Any:
    return _run("⟪I, 1⟫(x) × #", k)


def neighbours(k: int) -> Any:
    f = ti.parse(SUM.replace("#", f"{k}.0"))
    f(x=X[:4], T=TABLE)
    return f


def bound(k: int) -> Any:
    f = ti.parse(SUM.replace("#", f"{k}.0"))
    g = f.bind(T=TABLE)
    g(x=X[:4])
    return g


def gather(k: int) -> Any:
    f = ti.parse(
        "f(out: tensor<float, P[0:4]>, x: tensor<float, I[0:8]>, i: tensor<int, P[0:4]>)"
        f" {{ out ← gather(I, clamp)(x, i) × {k}.0; }}"
    )
    f(x=X, i=np.arange(4, dtype=np.int32))
    return f


def scan(k: int) -> Any:
    return _run("scan(λ(s: tensor<float>, v: tensor<float>) → s × # + v, true, 0.0)(x)", k)


def reduction(k: int) -> Any:
    return _run("x + reduce(λ(s: tensor<float>, v: tensor<float>) → max(s, v), #, I)(x)", k)


def loop(k: int) -> Any:
    step = "λ(i: tensor<int>, a: tensor<float, I[0:8]>) →"
    return _run(f"loop(0, 10)({step} i < 7, {step} a × #, x)", k)


def gradient(k: int) -> Any:
    c = ti.compile(_run("⟪I, 1⟫(x) × # × x", k))
    with jax.enable_x64(True):
        jax.grad(lambda x: c(x=x)["out"].sum())(jnp.asarray(X))
    return c.engine.program.program


def gradient_of_scan(k: int) -> Any:
    c = ti.compile(_run("scan(λ(s: tensor<float>, v: tensor<float>) → s × # + v × s, true, 0.0)(x)", k))
    with jax.enable_x64(True):
        jax.grad(lambda x: c(x=x)["out"].sum())(jnp.asarray(X))
    return c.engine.program.program


def gradient_of_loop(k: int) -> Any:
    step = "λ(i: tensor<int>, a: tensor<float, I[0:8]>) →"
    c = ti.compile(_run(f"loop(0, none)({step} i < 7, {step} a × a × #, x)", k))
    with jax.enable_x64(True):
        jax.grad(lambda x: c(x=x)["out"].sum())(jnp.asarray(X) / (k + 1))
    return c.engine.program.program


def scatter(k: int) -> Any:
    """Products of updates that meet, and their gradient."""
    f = ti.parse(
        "f(out: tensor<float, I[0:8]>, x: tensor<float, I[0:8]>, i: tensor<int, P[0:4]>, u: tensor<float, P[0:4]>)"
        f" {{ out ← scatter(λ(s: tensor<float>, v: tensor<float>) → s × v, I, over: (P))(x, i, u) × {k}.0; }}"
    )
    c, i = ti.compile(f), jnp.arange(4, dtype=np.int32)
    with jax.enable_x64(True):
        jax.grad(lambda u: c(x=X, i=i, u=u)["out"].sum())(jnp.asarray(X[:4]))
    return f


def checked(k: int) -> Any:
    return _run('assert_(x, x < 100.0 × #, "a height is low")', k)


def printed(k: int) -> Any:
    """What is computed is printed, where nothing is not."""
    step = "λ(i: tensor<int>, a: tensor<float, I[0:8]>) →"
    return _run(f'loop(0, 3)({step} i < 0, {step} print("{k} {{}}")(a), x × #)', k)


def operator(k: int) -> Any:
    source = ti.field_operator(lambda f: f(I + 1) * float(k) - f)
    source(ti.as_field([I], X))
    return source


def scan_operator(k: int) -> Any:
    @ti.scan_operator(axis=I, forward=True, init=0.0)
    def summed(s: Any, v: Any) -> Any:
        return s * float(k) + v

    summed(ti.as_field([I], X))
    return summed


def iterated(k: int) -> Any:
    step = ti.field_operator(lambda f: ti.extend(f(I + 1) * float(k), {I: (0, 8)}, value=0.0))

    def one(f: Any) -> Any:
        return f * float(k)

    ti.iterate(one, ti.as_field([I], X), 3)
    return step


def tir(k: int) -> Any:
    text = f"""@T.prim_func
def main(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float64")):
    for i in range(7):
        y[i] = x[i + 1] * T.float64({k}) + x[i]
"""
    p = ti.lift(ti.tir.parse(text)["main"])
    p(X, np.zeros(8))
    return p


def tir_loop(k: int) -> Any:
    text = f"""@T.prim_func
def main(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float64")):
    for t in range(3):
        for i in range(7):
            y[i] = T.sin(x[i])
        for i in range(6):
            x[i + 1] = T.float64({k}) * (y[i] * y[i + 2] + x[i])
"""
    p = ti.lift(ti.tir.parse(text)["main"])
    p(X, np.zeros(8))
    return p


def tile(k: int) -> Any:
    from tensorir import tile

    text = f"""cuda_tile.module @m {{
  entry @main(%x: tile<ptr<f64>>) {{
    %0 = iota : tile<4xi32>
    %p = reshape %x : tile<ptr<f64>> -> tile<1xptr<f64>>
    %q = broadcast %p : tile<1xptr<f64>> -> tile<4xptr<f64>>
    %r = offset %q, %0 : tile<4xptr<f64>>, tile<4xi32> -> tile<4xptr<f64>>
    %v, %t = load_ptr_tko weak %r : tile<4xptr<f64>> -> tile<4xf64>, token
    %c = constant <f64: {k}.0> : tile<4xf64>
    %w = mulf %v, %c : tile<4xf64>
    %u = store_ptr_tko weak %r, %w token = %t : tile<4xptr<f64>>, tile<4xf64> -> token
    return
  }}
}}"""
    p = ti.lift(tile.parse(text), grid=(1,), args=[X.copy()])
    p(X.copy())
    return p


def iterator(k: int) -> Any:
    from tensorir.integers.dims import Dims
    from tensorir.ir.types import TensorType, scalar_of

    text = f"f(x, y) {{ y @ c⟨ Iₕ: [1, 4[ ⟩ ← (⇑(λ(a) → ·⟪Iₕ→Iₕ, 1ₒ⟫(a) - {k}.0 × ·a))(x); }}"
    kind = TensorType(scalar_of(X.dtype), Dims.of(I=(0, 8)))
    p = ti.lift(ti.iterator.parse(text), args=[kind, kind])
    p(X, None)
    return p


def sizes(k: int) -> Any:
    """One template, called with other sizes each time."""
    TEMPLATE(x=np.arange(8.0 + k))
    return None


TEMPLATE = ti.parse("f(out: tensor<float, I[0:n-1]>, x: tensor<float, I[0:n]>) { out ← ⟪I, 1⟫(x) × 2.0; }")

KINDS: dict[str, Callable[[int], Any]] = {
    f.__name__.replace("_", " "): f
    for f in (
        pointwise, stencil, neighbours, bound, gather, scatter, scan, reduction, loop, gradient, gradient_of_scan,
        gradient_of_loop, checked, printed, operator, scan_operator, iterated, tir, tir_loop, tile, iterator, sizes,
    )
}  # fmt: skip


def drop() -> None:
    """Forget all that the project remembers."""
    ti.config.caches.clear()
    gc.collect()


def alive() -> Counter[str]:
    """The objects of this project that Python still has, by type."""
    kinds = (type(o) for o in gc.get_objects())
    return Counter(t.__name__ for t in kinds if str(t.__module__).startswith(("lowering.", "tensorir.")))
