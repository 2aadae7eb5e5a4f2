"""Forms that the lowering chooses, beside the plain ones in JAX: `python -m tests.benchmarks.forms`.

Reductions along both axes, extremes that keep NaN, pools, choices by one truth value, and what a call costs. The ratio
is the time of the program to that of the hand-written function, which drops NaN from `max` on the CPU; that of a pool
is a fold of strided slices, one axis after the other, and both are called inside of `jax.jit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from tests.benchmarks.interleaved import compare, report

rng = np.random.default_rng(0)

FOLD = "f(out: tensor<float32, {kept}>, x: tensor<float32, {dims}>) {{ out ← reduce({op}, {start}, K)({of}); }}"
CHOICE = """f(c: tensor<bool>, x: tensor<float32, I[0:512], J[0:512]>, out: tensor<float32, I[0:512], J[0:512]>) {
  out ← if c then reduce(+, 0.0f, K)(rename(J → K)(x) × rename(I → K)(x)) else x; }"""

POOL = """f(out: tensor<float32, C[0:{c}], Y[0:{n}], X[0:{n}]>,
  x: tensor<float32, C[0:{c}], J[0:{size}], I[0:{size}]>) {{
  out ← let y = add_dim(Y, 0, {n}, 0); let x1 = add_dim(X, 0, {n}, 0);
        let r = add_dim(R, 0, {k}, 0); let s = add_dim(S, 0, {k}, 0);
        reduce(max, float32(-inf), R)(reduce(max, float32(-inf), S)(
          gather(J, I, clamp)(x, {by} × pos(Y, y) + pos(R, r), {by} × pos(X, x1) + pos(S, s)))); }}"""

Case = tuple[str, dict[str, Any], Callable[..., Any]]


def folds() -> dict[str, Case]:
    """A name, the program, its arrays, and the function by hand."""
    found: dict[str, Case] = {}
    for shape, axis in (((1024, 1024), 1), ((1024, 1024), 0), ((80, 65536), 0), ((40, 100000), 0), ((64, 100000), 1)):
        dims = [f"I[0:{shape[1 - axis]}]", f"K[0:{shape[axis]}]"]
        x = jnp.asarray(rng.normal(size=shape).astype(np.float32))
        ordered = ", ".join(dims if axis else dims[::-1])
        for op, start, of, hand in (
            ("+", "0.0f", "x", jnp.sum), ("max", "0.0f", "x", jnp.max),
            ("+", "0.0f", "abs(x)", lambda x, axis: jnp.sum(jnp.abs(x), axis)),
        ):  # fmt: skip
            text = FOLD.format(kept=dims[0], dims=ordered, op=op, start=start, of=of)
            title = f"{op} of {of} along axis {axis} of {shape[0]} x {shape[1]}"
            found[title] = text, {"x": x}, lambda x, hand=hand, axis=axis: hand(x, axis)
    return found


def pools() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for c, size, k, by in ((64, 112, 3, 2), (64, 57, 3, 2), (256, 28, 3, 2), (64, 112, 7, 7), (16, 112, 5, 1)):
        n = (size - k) // by + 1

        def strip(x: Any, axis: int, k: int = k, by: int = by, n: int = n) -> Any:
            slices = [jax.lax.slice_in_dim(x, a, a + by * (n - 1) + 1, by, axis) for a in range(k)]
            return functools.reduce(jax.lax.max, slices)

        x = jnp.asarray(rng.normal(size=(c, size, size)).astype(np.float32))
        text = POOL.format(c=c, n=n, size=size, k=k, by=by)
        found[f"{k} x {k} by {by} of {c} x {size} x {size}"] = text, {"x": x}, lambda x, f=strip: f(f(x, 1), 2)
    return found


def choices() -> dict[str, Case]:
    x = jnp.asarray(rng.normal(size=(512, 512)).astype(np.float32))

    def by_hand(c: Any, x: Any) -> Any:
        return jax.lax.cond(c, lambda: x @ x, lambda: x)

    return {f"a choice, {c}": (CHOICE, {"c": jnp.asarray(c), "x": x}, by_hand) for c in (True, False)}


def calls() -> dict[str, Case]:
    text = "f(out: tensor<float32, I[0:8]>, x: tensor<float32, I[0:8]>) { out ← x + x; }"
    return {"a call": (text, {"x": jnp.arange(8, dtype=jnp.float32)}, lambda x: x + x)}


def measure(title: str, case: Case, inside: bool = False) -> str:
    """`inside`: what the program costs in somebody's jit, without its own call."""
    text, given, hand = case
    compiled, by_hand = ti.compile(ti.parse(text)), jax.jit(hand)
    program = jax.jit(lambda **given: compiled(**given)) if inside else compiled
    arrays = list(given.values())
    ways = {
        "program": lambda: jax.block_until_ready(program(**given)["out"]),
        "by hand": lambda: jax.block_until_ready(by_hand(*arrays)),
    }
    return report(title, compare(ways, rounds=300 if inside else 20 if arrays[0].ndim else 60), "by hand")


if __name__ == "__main__":
    for name, one in {**folds(), **choices(), **calls()}.items():
        print(measure(name, one), flush=True)
    for name, one in pools().items():
        print(measure(name, one, inside=True), flush=True)
