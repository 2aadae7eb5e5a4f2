"""A hundred steps of shallow water inside one program, and the gradient through them with checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorir as ti
from stencils import library
from tests.benchmarks.by_jax import by_hand
from tests.benchmarks.case import HAND, NUMBA, OURS, PLAIN, C, Case, Problem, Run, Way
from tests.benchmarks.loops import CLoops, NumbaLoops, prange

STEPS = 100
NUMBERS = {"coriolis": 1e-4, "gravity": 9.81, "dt": 5.0, "dx": 2000.0, "dy": 2000.0}


def inputs(rng: Any, n: int, m: int) -> dict[str, np.ndarray]:
    depth = 100.0 + rng.random((n, m))
    depth[: n // 4, : m // 4] = -1.0
    return {"eta": 0.1 * rng.normal(size=(n, m)), "u": np.zeros((n + 1, m)), "v": np.zeros((n, m + 1)), "depth": depth}


def hand_step(eta: Any, u: Any, v: Any, depth: Any) -> tuple[Any, ...]:
    f, g, dt, dx, dy = NUMBERS.values()
    height = depth + eta
    flow_x = u[1:-1] * (0.5 * (height[1:] + height[:-1]))
    flow_y = v[:, 1:-1] * (0.5 * (height[:, 1:] + height[:, :-1]))
    flow_x, flow_y = jnp.pad(flow_x, ((1, 1), (0, 0))), jnp.pad(flow_y, ((0, 0), (1, 1)))
    eta = eta - dt * ((flow_x[1:] - flow_x[:-1]) / dx + (flow_y[:, 1:] - flow_y[:, :-1]) / dy)
    wet = jnp.minimum(depth[1:], depth[:-1]) > 0.0
    around = 0.25 * (v[1:, :-1] + v[1:, 1:] + v[:-1, :-1] + v[:-1, 1:])
    inner = jnp.where(wet, u[1:-1] + dt * (f * around - g * ((eta[1:] - eta[:-1]) / dx)), 0.0)
    u = jnp.concatenate([u[:1], inner, u[-1:]], 0)
    wet = jnp.minimum(depth[:, 1:], depth[:, :-1]) > 0.0
    around = 0.25 * (u[:-1, 1:] + u[1:, 1:] + u[:-1, :-1] + u[1:, :-1])
    inner = jnp.where(wet, v[:, 1:-1] - dt * (f * around + g * ((eta[:, 1:] - eta[:, :-1]) / dy)), 0.0)
    return eta, u, jnp.concatenate([v[:, :1], inner, v[:, -1:]], 1)


def plain_step(eta: Any, u: Any, v: Any, depth: Any) -> tuple[Any, ...]:
    f, g, dt, dx, dy = NUMBERS.values()
    height = depth + eta
    flow_x = jnp.zeros_like(u).at[1:-1].set(u[1:-1] * (0.5 * (height[1:] + height[:-1])))
    flow_y = jnp.zeros_like(v).at[:, 1:-1].set(v[:, 1:-1] * (0.5 * (height[:, 1:] + height[:, :-1])))
    eta = eta - dt * (jnp.diff(flow_x, axis=0) / dx + jnp.diff(flow_y, axis=1) / dy)
    around = 0.25 * (v[1:, :-1] + v[1:, 1:] + v[:-1, :-1] + v[:-1, 1:])
    wet = jnp.minimum(depth[1:], depth[:-1]) > 0.0
    u = u.at[1:-1].set(jnp.where(wet, u[1:-1] + dt * (f * around - g * jnp.diff(eta, axis=0) / dx), 0.0))
    around = 0.25 * (u[:-1, 1:] + u[1:, 1:] + u[:-1, :-1] + u[1:, :-1])
    wet = jnp.minimum(depth[:, 1:], depth[:, :-1]) > 0.0
    return (
        eta,
        u,
        v.at[:, 1:-1].set(jnp.where(wet, v[:, 1:-1] - dt * (f * around + g * jnp.diff(eta, axis=1) / dy), 0.0)),
    )


def our_step(depth: Any) -> Any:
    program = ti.compile(library.load("shallow_water"))
    numbers = {name: jnp.asarray(value) for name, value in NUMBERS.items()}

    def step(state: Any) -> Any:
        after = program(eta=state[0], u=state[1], v=state[2], depth=depth, **numbers)
        return after["eta"], after["u"], after["v"]

    return step


def stepped(step: Any) -> Any:
    """A function of the state and the depth: the state after all steps, in one loop."""

    def run(eta: Any, u: Any, v: Any, depth: Any) -> Any:
        return lax.fori_loop(0, STEPS, lambda _, s: step(*s, depth), (eta, u, v))

    return run


def ours(problem: Problem) -> Run:
    state, depth = _given(problem)
    step = our_step(depth)
    return lambda: jax.block_until_ready(ti.iterate(step, state, STEPS, progress=False))


def step_by_step(problem: Problem) -> Run:
    """A jitted step, called from Python."""
    first, depth = _given(problem)
    step = jax.jit(plain_step)

    def run() -> Sequence[Any]:
        state = first
        for _ in range(STEPS):
            state = step(*state, depth)
        return jax.block_until_ready(state)

    return run


def _given(problem: Problem) -> tuple[Any, Any]:
    eta, u, v, depth = (jnp.asarray(problem.arrays[name]) for name in ("eta", "u", "v", "depth"))
    return (eta, u, v), depth


def loops(eta: Any, u: Any, v: Any, other: Any, eta0: Any, u0: Any, v0: Any, depth: Any) -> None:
    n, m = depth.shape
    f, g, dt, dx, dy = 1e-4, 9.81, 5.0, 2000.0, 2000.0
    eta[:], u[:], v[:] = eta0, u0, v0
    for step in range(STEPS):
        old = eta if step % 2 == 0 else other
        new = other if step % 2 == 0 else eta
        for i in prange(n):
            for j in range(m):
                h = depth[i, j] + old[i, j]
                east = u[i + 1, j] * (0.5 * (depth[i + 1, j] + old[i + 1, j] + h)) if i < n - 1 else 0.0
                west = u[i, j] * (0.5 * (h + depth[i - 1, j] + old[i - 1, j])) if i > 0 else 0.0
                north = v[i, j + 1] * (0.5 * (depth[i, j + 1] + old[i, j + 1] + h)) if j < m - 1 else 0.0
                south = v[i, j] * (0.5 * (h + depth[i, j - 1] + old[i, j - 1])) if j > 0 else 0.0
                new[i, j] = old[i, j] - dt * ((east - west) / dx + (north - south) / dy)
        for i in prange(1, n):
            for j in range(m):
                around = 0.25 * (v[i, j] + v[i, j + 1] + v[i - 1, j] + v[i - 1, j + 1])
                slope = (new[i, j] - new[i - 1, j]) / dx
                wet = min(depth[i, j], depth[i - 1, j]) > 0.0
                u[i, j] = u[i, j] + dt * (f * around - g * slope) if wet else 0.0
        for i in prange(n):
            for j in range(1, m):
                around = 0.25 * (u[i, j] + u[i + 1, j] + u[i, j - 1] + u[i + 1, j - 1])
                slope = (new[i, j] - new[i, j - 1]) / dy
                wet = min(depth[i, j], depth[i, j - 1]) > 0.0
                v[i, j] = v[i, j] - dt * (f * around + g * slope) if wet else 0.0


SOURCE = """
#include <math.h>
#include <string.h>
#define H(i, j) (depth[(i) * M + j] + old[(i) * M + j])
#define U(i, j) u[(i) * M + j]
#define V(i, j) v[(i) * (M + 1) + j]
void run(T *restrict eta, T *restrict u, T *restrict v, T *restrict other, const T *restrict eta0,
         const T *restrict u0, const T *restrict v0, const T *restrict depth) {
  const T f = 1e-4, g = 9.81, dt = 5, dx = 2000, dy = 2000;
  memcpy(eta, eta0, N * M * sizeof(T));
  memcpy(u, u0, (N + 1) * M * sizeof(T));
  memcpy(v, v0, N * (M + 1) * sizeof(T));
  for (int step = 0; step < 100; step++) {
    const T *restrict old = step % 2 ? other : eta;
    T *restrict new = step % 2 ? eta : other;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < N; i++) {
      T north[M + 1];
      north[0] = north[M] = 0;
      for (long j = 1; j < M; j++) {
        const long at = i * M + j;
        north[j] = V(i, j) * ((T)0.5 * (depth[at] + old[at] + depth[at - 1] + old[at - 1]));
      }
      // rows beyond the wall are read through their neighbours, and taken by 0
      const long e = i < N - 1 ? i + 1 : i, w = i > 0 ? i - 1 : i;
      const T east = i < N - 1, west = i > 0;
      for (long j = 0; j < M; j++) {
        T right = east * U(i + 1, j) * ((T)0.5 * (H(e, j) + H(i, j)));
        T left = west * U(i, j) * ((T)0.5 * (H(i, j) + H(w, j)));
        new[i * M + j] = old[i * M + j] - dt * ((right - left) / dx + (north[j + 1] - north[j]) / dy);
      }
    }
#pragma omp parallel for schedule(static)
    for (long i = 1; i < N; i++)
      for (long j = 0; j < M; j++) {
        T around = (T)0.25 * (V(i, j) + V(i, j + 1) + V(i - 1, j) + V(i - 1, j + 1));
        T slope = (new[i * M + j] - new[(i - 1) * M + j]) / dx;
        T moved = U(i, j) + dt * (f * around - g * slope);
        U(i, j) = fmin(depth[i * M + j], depth[(i - 1) * M + j]) > 0 ? moved : 0;
      }
#pragma omp parallel for schedule(static)
    for (long i = 0; i < N; i++)
      for (long j = 1; j < M; j++) {
        T around = (T)0.25 * (U(i, j) + U(i + 1, j) + U(i, j - 1) + U(i + 1, j - 1));
        T slope = (new[i * M + j] - new[i * M + j - 1]) / dy;
        T moved = V(i, j) - dt * (f * around + g * slope);
        V(i, j) = fmin(depth[i * M + j], depth[i * M + j - 1]) > 0 ? moved : 0;
      }
  }
}
"""


def buffers(problem: Problem) -> list[np.ndarray]:
    return [np.zeros_like(problem.arrays[name]) for name in ("eta", "u", "v", "eta")]


def energy(state: Any) -> Any:
    return sum((leaf**2).sum() for leaf in state)


def gradient(loop: Any) -> Way:
    """The gradient of a sum of squares after all steps by the state before them; `loop` is given state and depth."""

    def way(problem: Problem) -> Run:
        state, depth = _given(problem)
        jitted = jax.jit(jax.grad(lambda s: energy(loop(s, depth))))
        return lambda: jax.tree.leaves(jax.block_until_ready(jitted(state)))

    return way


def checkpointed(state: Any, depth: Any) -> Any:
    """Ten by ten steps, of which the outer ones are kept and the inner ones computed again."""
    once = lambda s, _: (hand_step(*s, depth), None)
    ten = jax.checkpoint(lambda s, _: (lax.scan(once, s, None, 10)[0], None))
    return lax.scan(ten, state, None, STEPS // 10)[0]


def kept(state: Any, depth: Any) -> Any:
    return lax.scan(lambda s, _: (plain_step(*s, depth), None), state, None, STEPS)[0]


def forward(problem: Problem) -> Run:
    state, depth = _given(problem)
    step = our_step(depth)
    jitted = jax.jit(lambda s: energy(ti.iterate(step, s, STEPS)))
    return lambda: [jitted(state).block_until_ready()]


NAMES = "eta", "u", "v", "depth"
SIZES = {"n": 512, "m": 512}
SMALL = {"n": 8, "m": 9}

CASES = (
    Case(
        f"{STEPS} steps of shallow water",
        "512x512",
        SIZES,
        SMALL,
        inputs,
        {
            OURS: ours,
            HAND: by_hand(stepped(plain_step), *NAMES),
            "JAX by hand, concatenated": by_hand(stepped(hand_step), *NAMES),
            PLAIN: step_by_step,
            NUMBA: NumbaLoops(loops, buffers, NAMES, results=3),
            C: CLoops(SOURCE, buffers, NAMES, results=3),
        },
        operations=12 * STEPS,
    ),
    Case(
        f"gradient of {STEPS} steps",
        "256x256",
        {"n": 256, "m": 256},
        SMALL,
        inputs,
        {
            OURS: gradient(lambda s, depth: ti.iterate(our_step(depth), s, STEPS)),
            HAND: gradient(checkpointed),
            PLAIN: gradient(kept),
        },
        operations=36 * STEPS,
        quick=False,
        beside={"forward": forward},
    ),
)
