"""Ways that run on JAX: programs of ours, and functions by hand, into donated buffers or into fresh ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import tensorir as ti
from tests.benchmarks.case import Problem, Run, Way

__all__ = ["by_hand", "ours", "single", "vjp_by_hand", "vjp_of_ours"]


def single(text: str) -> str:
    """The text of a program in float32.

    >>> single("x: tensor<float, I[0:4]>; 2.0 × x")
    'x: tensor<float32, I[0:4]>; 2.0f × x'
    """
    return re.sub(r"(?<![\w.])(\d+\.\d+)(?![\w.])", r"\1f", re.sub(r"\bfloat\b", "float32", text))


def _bound(text: str, problem: Problem) -> tuple[ti.Fencil, dict[str, Any]]:
    """The program with its neighbour tables, and its other arrays on the device."""
    fencil = ti.parse(text)
    given = {p.name: problem.arrays[p.name] for p in fencil.params if p.name in problem.arrays}
    tables = {name: a for name, a in given.items() if a.dtype.kind == "i"}
    arrays = {name: jnp.asarray(a) for name, a in given.items() if name not in tables}
    return (fencil.bind(**tables) if tables else fencil), arrays


def ours(text: str, *outs: str, fresh: bool = False) -> Way:
    """A program, with the buffers of its results donated or fresh."""

    def way(problem: Problem) -> Run:
        fencil, arrays = _bound(text, problem)
        compiled = ti.compile(fencil, donate=() if fresh else outs)
        if fresh:
            return lambda: [jax.block_until_ready(x) for x in _leaves(compiled(**arrays))]
        state = ti.compile(fencil)(**arrays)

        def run() -> Sequence[Any]:
            nonlocal state
            state = jax.block_until_ready(compiled(**arrays, **state))
            return _leaves(state)

        return run

    return way


def by_hand(function: Callable[..., Any], *names: str, fresh: bool = False, results: int | None = None) -> Way:
    """
    A function of arrays by name, jitted, with donated or fresh results.

    `results`: how many of what it returns are results. The rest is kept between calls: an intermediate in a donated
    buffer touches no new pages, and one that XLA allocates does so in every call.
    """

    def way(problem: Problem) -> Run:
        arrays = [jnp.asarray(problem.arrays[name]) for name in names]
        run = _jitted(lambda *xs: function(*xs), arrays, fresh)
        return run if results is None else lambda: run()[:results]

    return way


def vjp_of_ours(text: str, out: str, by: Sequence[str], cotangent: str = "g", fresh: bool = True) -> Way:
    """The gradient of a program's result by some of its parameters, given a cotangent."""

    def way(problem: Problem) -> Run:
        fencil, arrays = _bound(text, problem)
        compiled = ti.compile(fencil)
        rest = {n: a for n, a in arrays.items() if n not in by}

        def gradient(g: Any, rest: Any, *xs: Any) -> Any:
            return jax.vjp(lambda *xs: compiled(**rest, **dict(zip(by, xs, strict=True)))[out], *xs)[1](g)

        given = [jnp.asarray(problem.arrays[cotangent]), rest, *(arrays[n] for n in by)]
        return _jitted(gradient, given, fresh)

    return way


def vjp_by_hand(
    function: Callable[..., Any], names: Sequence[str], by: Sequence[str], cotangent: str = "g", fresh: bool = True
) -> Way:
    """The gradient by JAX of a function of arrays by name."""

    def way(problem: Problem) -> Run:
        arrays = {n: jnp.asarray(problem.arrays[n]) for n in names}

        def gradient(g: Any, rest: Any, *xs: Any) -> Any:
            def of(*xs: Any) -> Any:
                given = {**rest, **dict(zip(by, xs, strict=True))}
                return function(*(given[n] for n in names))

            return jax.vjp(of, *xs)[1](g)

        rest = {n: a for n, a in arrays.items() if n not in by}
        return _jitted(gradient, [jnp.asarray(problem.arrays[cotangent]), rest, *(arrays[n] for n in by)], fresh)

    return way


def _leaves(results: Any) -> list[Any]:
    return jax.tree.leaves(results)


def _jitted(function: Callable[..., Any], arrays: Sequence[Any], fresh: bool) -> Run:
    if fresh:
        jitted = jax.jit(function)
        return lambda: _leaves(jax.block_until_ready(jitted(*arrays)))
    into = partial(jax.jit, donate_argnums=0, keep_unused=True)(lambda spare, *xs: function(*xs))
    state = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(function, *arrays))

    def run() -> Sequence[Any]:
        nonlocal state
        state = jax.block_until_ready(into(state, *arrays))
        return _leaves(state)

    return run
