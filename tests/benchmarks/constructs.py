"""What XLA makes of one construct written in two ways: `python -m tests.benchmarks.constructs [names]`.

Plain JAX, none of ours: these are the choices that the lowering makes, and `docs/lowering.md` quotes the ratios. Each
way takes turns with the one that the lowering emits; a ratio above 1 is what the other way costs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.interleaved import compare, report

Ways = dict[str, Callable[[], Any]]
RNG = np.random.default_rng(0)


def _calls(functions: dict[str, Callable[..., Any]], *args: Any) -> Ways:
    jitted = {name: jax.jit(function) for name, function in functions.items()}
    results = [np.asarray(function(*args)) for function in jitted.values()]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-9, atol=1e-9)
    return {name: lambda f=function: jax.block_until_ready(f(*args)) for name, function in jitted.items()}


def donated_outputs() -> Ways:
    """A result in a buffer that was given away, and in a fresh one."""
    x = jnp.asarray(RNG.normal(size=(256, 256, 64)))
    state = {"spare": jnp.zeros(x.shape)}

    def step(x: Any) -> Any:
        return jnp.pad(x[2:] + x[:-2] - 2.0 * x[1:-1], ((1, 1), (0, 0), (0, 0)))

    into = jax.jit(lambda spare, x: step(x), donate_argnums=0, keep_unused=True)
    fresh = jax.jit(step)

    def donated() -> None:
        state["spare"] = into(state["spare"], x).block_until_ready()

    return {"donated": donated, "fresh": lambda: fresh(x).block_until_ready()}


def neighbour_sums() -> Ways:
    """One gather per neighbour, and one gather of all of them with a sum."""
    n, k = 102_400, 16
    x, table = jnp.asarray(RNG.normal(size=(n, k))), jnp.asarray(RNG.integers(0, n, (n, 6)))
    take = partial(jnp.take, axis=0, mode="clip")
    return _calls(
        {
            "one gather per neighbour": lambda x, t: sum((take(x, t[:, s]) for s in range(1, 6)), take(x, t[:, 0])),
            "one gather and a sum": lambda x, t: take(x, t).sum(1),
        },
        x,
        table,
    )


def neighbours_of_two_results() -> Ways:
    """Two weighted sums of the same neighbours: each with gathers of its own, and of gathers that they share."""
    n, k = 20_480, 65
    x, table = jnp.asarray(RNG.normal(size=(3 * n, k))), jnp.asarray(RNG.integers(0, 3000, (n, 6)))
    columns = [(3 * jnp.arange(n) + table[:, s]) % (3 * n) for s in range(6)]
    a, b = jnp.asarray(RNG.normal(size=(6, n, 1))), jnp.asarray(RNG.normal(size=(6, n, 1)))

    def rows(x: Any, columns: Sequence[Any]) -> list[Any]:
        return [jnp.take(x, c, axis=0, mode="clip") for c in columns]

    def total(weights: Any, near: Sequence[Any]) -> Any:
        return sum((w * v for w, v in zip(weights[1:], near[1:], strict=True)), weights[0] * near[0])

    def apart(x: Any, a: Any, b: Any, *columns: Any) -> Any:
        return total(a, rows(x, columns)), total(b, rows(x, lax.optimization_barrier(columns)))

    def shared(x: Any, a: Any, b: Any, *columns: Any) -> Any:
        near = rows(x, columns)
        return total(a, near), total(b, near)

    return _calls({"gathers of its own": apart, "shared gathers": shared}, x, a, b, *columns)


def gradients_of_neighbour_sums() -> Ways:
    """The transpose of a gather through the inverse table, and as a scatter."""
    n, k = 25_600, 16
    table = np.stack([(np.arange(n) + d) % n for d in (1, 160, 161, -1, -160, -161)], 1)
    inverse = np.stack([(np.arange(n) - d) % n for d in (1, 160, 161, -1, -160, -161)], 1)
    g = jnp.asarray(RNG.normal(size=(n, k)))
    take = partial(jnp.take, axis=0, mode="clip")

    def gathered(g: Any, t: Any, back: Any) -> Any:
        return sum((take(g, back[:, s]) for s in range(1, 6)), take(g, back[:, 0]))

    def scattered(g: Any, t: Any, back: Any) -> Any:
        zero = jnp.zeros_like(g)
        return sum((zero.at[t[:, s]].add(g) for s in range(1, 6)), zero.at[t[:, 0]].add(g))

    return _calls({"gathers": gathered, "scatters": scattered}, g, jnp.asarray(table), jnp.asarray(inverse))


def scanned_axis() -> Ways:
    """The scanned axis outermost, and innermost."""
    x = jnp.asarray(RNG.normal(size=(64, 16_384)))
    last = x.T.copy()

    def recurrence(s: Any, v: Any) -> Any:
        s = 0.5 * s + v
        return s, s

    outer = jax.jit(lambda x: lax.scan(recurrence, jnp.zeros(x.shape[1]), x)[1])
    inner = jax.jit(lambda x: jnp.moveaxis(lax.scan(recurrence, jnp.zeros(x.shape[0]), jnp.moveaxis(x, 1, 0))[1], 0, 1))
    return {"outermost": lambda: outer(x).block_until_ready(), "innermost": lambda: inner(last).block_until_ready()}


def split_scans() -> Ways:
    """Parts of two arrays combined before a scan that stores what it is asked for, and parts and states apart."""
    a, b = (jnp.asarray(RNG.random((65_536, 34))) for _ in range(2))

    def parts(a: Any, b: Any) -> list[Any]:
        return [jnp.moveaxis(x[:, k : k + 32], 1, 0) for x in (a, b) for k in range(3)]

    def combined(x: Sequence[Any]) -> tuple[Any, Any]:
        return x[0] * x[1] + x[2] * x[3], x[4] - x[5]

    def step(s: Any, x: Any) -> Any:
        new = x[0] * s[0] + x[1], x[1] * s[1] + s[0]
        return new, new[0] * new[1]

    def before(a: Any, b: Any) -> Any:
        start = (jnp.zeros(len(a)),) * 2
        return jnp.moveaxis(lax.scan(step, start, combined(parts(a, b)))[1], 0, 1)

    def within(a: Any, b: Any) -> Any:
        start = (jnp.zeros(len(a)),) * 2
        first, second = lax.scan(lambda s, x: (step(s, combined(x))[0],) * 2, start, parts(a, b))[1]
        return jnp.moveaxis(first * second, 0, 1)

    return _calls({"combined before": before, "apart": within}, a, b)


def products_of_matrices() -> Ways:
    """A contraction, and the sum of a broadcast product."""
    a, b = jnp.asarray(RNG.normal(size=(256, 256))), jnp.asarray(RNG.normal(size=(256, 256)))
    return _calls({"dot_general": lambda a, b: a @ b, "product and sum": lambda a, b: (a[:, :, None] * b).sum(1)}, a, b)


def stages() -> Ways:
    """All stages of a program in one function, and one for each stage."""
    x = jnp.asarray(RNG.normal(size=(512, 2048)))

    def smooth(x: Any) -> Any:
        return 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])

    whole, one = jax.jit(lambda x: smooth(smooth(smooth(x)))), jax.jit(smooth)
    return {
        "one function": lambda: whole(x).block_until_ready(),
        "one per stage": lambda: one(one(one(x))).block_until_ready(),
    }


def shifted_operands() -> Ways:
    """Shifts as slices, and as rolls of the whole array."""
    x = jnp.asarray(RNG.normal(size=(512, 2048)))

    def rolled(x: Any) -> Any:
        whole = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
        return whole[1:-1, 1:-1]

    return _calls(
        {"slices": lambda x: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:], "rolls": rolled},
        x,
    )


CASES: tuple[Callable[[], Ways], ...] = (
    donated_outputs,
    shifted_operands,
    stages,
    scanned_axis,
    split_scans,
    neighbour_sums,
    neighbours_of_two_results,
    gradients_of_neighbour_sums,
    products_of_matrices,
)


def main(names: list[str]) -> None:
    with jax.enable_x64(True):
        for case in CASES:
            if not names or case.__name__ in names:
                ways = case()
                print(report(case.__name__, compare(ways, 10), next(iter(ways))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
