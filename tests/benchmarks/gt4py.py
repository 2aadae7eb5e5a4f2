"""GT4Py's programs on this backend beside GT4Py's C++ backend and hand-written JAX, interleaved in one process.

`GT4PY_BUILD_JOBS_MODE=serial python -m tests.benchmarks.gt4py --size 256 --levels 64 [--gtfn] [--device gpu]`; the C++
backend compiles for minutes, so it is asked for. Each backend has its fields where its own allocator lays them. With
`--model [--cells 20480]`, programs of the kinds that a weather model has (`gt4py_model`).
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

os.environ.setdefault("GT4PY_BUILD_JOBS_MODE", "serial")
warnings.simplefilter("ignore")

import gt4py.next as gtx
from gt4py.next import neighbor_sum, where

from tensorir.iterator.gt4py_backend import make_backend
from tests.benchmarks.gt4py_model import model

I, J = gtx.Dimension("I"), gtx.Dimension("J")
K = gtx.Dimension("K", kind=gtx.DimensionKind.VERTICAL)
Vertex, Edge = gtx.Dimension("Vertex"), gtx.Dimension("Edge")
V2EDim, E2VDim = (gtx.Dimension(n, kind=gtx.DimensionKind.LOCAL) for n in ("V2E", "E2V"))
V2E = gtx.FieldOffset("V2E", source=Edge, target=(Vertex, V2EDim))
E2V = gtx.FieldOffset("E2V", source=Vertex, target=(Edge, E2VDim))
F = gtx.Field[[I, J, K], gtx.float64]
VK = gtx.Field[[Vertex, K], gtx.float64]
EK = gtx.Field[[Edge, K], gtx.float64]
Sparse = gtx.Field[[Vertex, V2EDim], gtx.float64]


@gtx.field_operator
def laplacian(a: F) -> F:
    return 4.0 * a - (a(I + 1) + a(I - 1) + a(J + 1) + a(J - 1))


@gtx.field_operator
def hdiff(a: F, c: F) -> F:
    lap = laplacian(a)
    x = lap(I + 1) - lap
    x = where(x * (a(I + 1) - a) > 0.0, 0.0, x)
    y = lap(J + 1) - lap
    y = where(y * (a(J + 1) - a) > 0.0, 0.0, y)
    return a - c * (x - x(I - 1) + y - y(J - 1))


@gtx.field_operator
def limited(a: F, c: F) -> F:
    """The limiter of the library's `hdiff`, for `tests/benchmarks/by_gt4py.py`."""
    lap = a(I + 1) + a(I - 1) + a(J + 1) + a(J - 1) - 4.0 * a
    x = lap(I + 1) - lap
    x = where(x * (a(I + 1) - a) > 0.0, 0.0, x)
    y = lap(J + 1) - lap
    y = where(y * (a(J + 1) - a) > 0.0, 0.0, y)
    return a - c * (x - x(I - 1) + y - y(J - 1))


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0))
def forward(s: tuple[float, float], a: float, b: float, c: float, d: float) -> tuple[float, float]:
    return c / (b - a * s[0]), (d - a * s[1]) / (b - a * s[0])


@gtx.scan_operator(axis=K, forward=False, init=0.0)
def backward(x: float, cp: float, dp: float) -> float:
    return dp - cp * x


@gtx.field_operator
def vertical(a: F, b: F, c: F, d: F) -> F:
    cp, dp = forward(a, b, c, d)
    return backward(cp, dp)


@gtx.field_operator
def nabla(p: VK, s: EK, sign: Sparse) -> VK:
    flux = s * (0.5 * (p(E2V[0]) + p(E2V[1])))
    return neighbor_sum(flux(V2E) * sign, axis=V2EDim)


@gtx.scan_operator(axis=K, forward=True, init=(0.0, 0.0, True))
def sweep(
    state: tuple[float, float, bool], w: float, q: float, a: float, b: float, c: float
) -> tuple[float, float, bool]:
    g = b + a * state[0]
    return (q, w, False) if state[2] else ((0.0 - c) * g, a * state[1] * g, False)


@gtx.field_operator
def icon_scan(alpha: EK, beta: EK, q: EK, w: EK) -> EK:
    a = beta(K - 1) * alpha(K - 1)
    b = alpha * (beta(K - 1) + beta)
    z, v, _first = sweep(w, q, a, b, beta * alpha(K + 1))
    return z + v


def jax_hdiff(a: Any, c: Any) -> Any:
    lap = 4.0 * a[1:-1, 1:-1] - (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
    x = lap[1:, 1:-1] - lap[:-1, 1:-1]
    x = jnp.where(x * (a[2:-1, 2:-2] - a[1:-2, 2:-2]) > 0.0, 0.0, x)
    y = lap[1:-1, 1:] - lap[1:-1, :-1]
    y = jnp.where(y * (a[2:-2, 2:-1] - a[2:-2, 1:-2]) > 0.0, 0.0, y)
    return a[2:-2, 2:-2] - c * (x[1:] - x[:-1] + y[:, 1:] - y[:, :-1])


def jax_vertical(a: Any, b: Any, c: Any, d: Any) -> Any:
    def down(s: Any, x: Any) -> Any:
        q, w, e, r = x
        m = w - q * s[0]
        new = (e / m, (r - q * s[1]) / m)
        return new, new

    def up(s: Any, x: Any) -> Any:
        new = x[1] - x[0] * s
        return new, new

    front = [jnp.moveaxis(x, 2, 0) for x in (a, b, c, d)]
    zero = jnp.zeros(a.shape[:2])
    _, states = jax.lax.scan(down, (zero, zero), front)
    return jnp.moveaxis(jax.lax.scan(up, zero, states, reverse=True)[1], 0, 2)


def jax_nabla(e2v: Any, v2e: Any) -> Callable[..., Any]:
    def run(p: Any, s: Any, sign: Any) -> Any:
        flux = s * (0.5 * (p[e2v[:, 0]] + p[e2v[:, 1]]))
        return sum(flux[v2e[:, k]] * sign[:, k, None] for k in range(v2e.shape[1]))

    return run


def jax_icon_scan(alpha: Any, beta: Any, q: Any, w: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        w, q, a, b, c = x
        g = b + a * s[0]
        new = (jnp.where(s[2], q, -c * g), jnp.where(s[2], w, a * s[1] * g), jnp.zeros_like(s[2]))
        return new, new[0] + new[1]

    a = beta[:, :-2] * alpha[:, :-2]
    b = alpha[:, 1:-1] * (beta[:, :-2] + beta[:, 1:-1])
    front = [jnp.moveaxis(x, 1, 0) for x in (w, q, a, b, beta[:, 1:-1] * alpha[:, 2:])]
    zero = jnp.zeros(w.shape[:1])
    return jnp.moveaxis(jax.lax.scan(step, (zero, zero, zero == 0), front)[1], 0, 1)


def field(allocator: Any, dims: dict[Any, Any], shift: float = 0.0) -> Any:
    domain = gtx.domain(dims)
    return gtx.as_field(domain, np.random.default_rng(1).random(domain.shape) + shift, allocator=allocator)


def main(given: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--levels", type=int, default=64)
    options.add_argument("--edges", type=int, default=100_000)
    options.add_argument("--model", action="store_true")
    options.add_argument("--cells", type=int, default=20_480)
    options.add_argument("--gtfn", action="store_true")
    options.add_argument("--only", default="")
    options.add_argument("--runs", type=int, default=9)
    o = options.parse_args(given)
    if o.model:
        model(o.cells, o.levels, o.only, o.runs)
        return
    here = make_backend(o.device)
    by_gt4py = gtx.gtfn_cpu if o.device == "cpu" else gtx.gtfn_gpu
    # CuPy's operations are on their way when a call returns
    wait = (lambda: None) if o.device == "cpu" else importlib.import_module("cupy").cuda.Device().synchronize
    jax.config.update("jax_enable_x64", True)
    n, k, edges = o.size, o.levels, o.edges
    vertices = edges // 3
    rng = np.random.default_rng(0)
    e2v = rng.integers(0, vertices, (edges, 2)).astype(np.int32)
    v2e = rng.integers(0, edges, (vertices, 6)).astype(np.int32)
    provider = {
        "V2E": gtx.as_connectivity([Vertex, V2EDim], Edge, v2e, allocator=here),
        "E2V": gtx.as_connectivity([Edge, E2VDim], Vertex, e2v, allocator=here),
    }
    box: dict[Any, Any] = {I: n, J: n, K: k}
    wide: dict[Any, Any] = {I: (-2, n + 2), J: (-2, n + 2), K: k}
    tall = {Edge: edges, K: (-1, k + 1)}
    flat = {Edge: edges, K: k}
    mesh: list[Any] = [({Vertex: vertices, K: k},), (flat,), ({Vertex: vertices, V2EDim: 6},)]
    cases: dict[str, tuple[Any, list[Any], Any, Any]] = {
        "hdiff": (hdiff, [(wide,), (box,)], box, jax_hdiff),
        "vertical": (vertical, [(box,), (box, 3.0), (box,), (box,)], box, jax_vertical),
        "nabla": (nabla, mesh, {Vertex: vertices, K: k}, jax_nabla(e2v, v2e)),
        "icon_scan": (icon_scan, [(tall,), (tall,), (flat,), (flat,)], flat, jax_icon_scan),
    }
    if o.only:
        cases = {o.only: cases[o.only]}
    for name, (operator, inputs, result, by_hand) in cases.items():
        offsets = provider if name == "nabla" else {}
        args, out = [field(here, *x) for x in inputs], field(here, result)
        arrays = [jnp.asarray(a.asnumpy()) for a in args]
        compiled = jax.jit(by_hand)
        ours = operator.with_backend(here)
        sides: dict[str, Callable[[], Any]] = {
            here.name: partial(ours, *args, out=out, offset_provider=offsets),
            "jax": lambda: compiled(*arrays).block_until_ready(),  # noqa: B023
        }
        outputs = [out]
        if o.gtfn:
            theirs = operator.with_backend(by_gt4py)
            outputs.append(field(by_gt4py, result))
            own = [field(by_gt4py, *x) for x in inputs]
            sides[f"gtfn_{o.device}"] = partial(theirs, *own, out=outputs[-1], offset_provider=offsets)
        first: dict[str, float] = {}
        for side, run in sides.items():
            start = time.perf_counter()
            run()
            wait()
            first[side] = time.perf_counter() - start
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(o.runs):
            for side, run in sides.items():
                start = time.perf_counter()
                run()
                wait()
                times[side].append(time.perf_counter() - start)
        for written in outputs:
            np.testing.assert_allclose(written.asnumpy(), compiled(*arrays), rtol=1e-12, atol=1e-12)
        shown = ", ".join(f"{s} {1e3 * np.median(t):.1f} ms (first {first[s]:.2f} s)" for s, t in times.items())
        print(f"{name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
