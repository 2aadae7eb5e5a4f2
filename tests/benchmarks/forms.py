"""Forms that the lowering chooses, beside the plain ones in JAX: `python -m tests.benchmarks.forms`.

Reductions along both axes, extremes that keep NaN, choices by one truth value, and what a call costs. The ratio is the
time of the program to that of the hand-written function, which drops NaN from `max` on the CPU.
"""

from __future__ import annotations

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


def choices() -> dict[str, Case]:
    x = jnp.asarray(rng.normal(size=(512, 512)).astype(np.float32))

    def by_hand(c: Any, x: Any) -> Any:
        return jax.lax.cond(c, lambda: x @ x, lambda: x)

    return {f"a choice, {c}": (CHOICE, {"c": jnp.asarray(c), "x": x}, by_hand) for c in (True, False)}


def calls() -> dict[str, Case]:
    text = "f(out: tensor<float32, I[0:8]>, x: tensor<float32, I[0:8]>) { out ← x + x; }"
    return {"a call": (text, {"x": jnp.arange(8, dtype=jnp.float32)}, lambda x: x + x)}


def measure(title: str, case: Case) -> str:
    text, given, hand = case
    program, by_hand = ti.compile(ti.parse(text)), jax.jit(hand)
    arrays = list(given.values())
    ways = {
        "program": lambda: jax.block_until_ready(program(**given)["out"]),
        "by hand": lambda: jax.block_until_ready(by_hand(*arrays)),
    }
    return report(title, compare(ways, rounds=20 if len(arrays[0].shape) else 60), "by hand")


if __name__ == "__main__":
    for name, one in {**folds(), **choices(), **calls()}.items():
        print(measure(name, one), flush=True)
