"""Memory of the gradient through 1,000 steps, and through lifted loops: `python -m tests.benchmarks.memory`.

XLA's own figure of the temporary buffers of the compiled gradient, with checkpointing and without, in float64 on
64 x 64 points: for a step that multiplies what it carries (shallow water) and for one that mostly adds it up (limited
diffusion), of which plain reverse mode keeps no more than masks. The figures are ones of the program and not of the
machine, so a test asserts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from stencils import library
from tests.benchmarks.interleaved import compare

__all__ = ["LOOPS", "PROGRAMS", "temporary_bytes", "through_a_loop"]

STEPS = 1000


def shallow_water(n: int) -> tuple[Callable[[Any], Any], Any]:
    """A step, and the shapes of its state."""
    program = ti.compile(library.load("shallow_water"))
    numbers = {"coriolis": 1e-4, "gravity": 9.81, "dt": 5.0, "dx": 2000.0, "dy": 2000.0}
    depth = jnp.full((n, n), 100.0)

    def step(state: Any) -> Any:
        after = program(
            eta=state[0], u=state[1], v=state[2], depth=depth, **{k: jnp.asarray(v) for k, v in numbers.items()}
        )
        return after["eta"], after["u"], after["v"]

    return step, tuple(jax.ShapeDtypeStruct(s, jnp.float64) for s in ((n, n), (n + 1, n), (n, n + 1)))


def limited_diffusion(n: int) -> tuple[Callable[[Any], Any], Any]:
    """A step, and the shape of its state."""
    program = ti.compile(library.load("terrain_filter"))
    return (lambda s: program(inp=s, strength=jnp.asarray(1 / 64))["out"], jax.ShapeDtypeStruct((n, n), jnp.float64))


PROGRAMS = {"shallow water": shallow_water, "limited diffusion": limited_diffusion}


def temporary_bytes(name: str, checkpoint: bool | int, n: int = 64, steps: int = STEPS) -> int:
    """The bytes of temporary buffers of the gradient of a sum of squares after so many steps."""
    with jax.enable_x64(True):
        step, shapes = PROGRAMS[name](n)

        def energy(x: Any) -> Any:
            after = ti.iterate(step, x, steps, checkpoint=checkpoint)
            return sum((leaf**2).sum() for leaf in jax.tree_util.tree_leaves(after))

        return jax.jit(jax.grad(energy)).lower(shapes).compile().memory_analysis().temp_size_in_bytes


LOOPS = {
    "1,000 steps over 1e5 numbers": (
        'x: T.Buffer((100000,), "float64")',
        """
    y = T.alloc_buffer((100000,), "float64")
    for t in range(1000):
        for i in range(100000):
            y[i] = T.sin(x[i])
        for i in range(99998):
            x[i + 1] = T.float64(0.3) * (y[i] * y[i + 2] + x[i])
""",
    ),
    "a Gauss-Seidel sweep over 1e5 numbers": (
        'b: T.Buffer((100000,), "float64"), x: T.Buffer((100000,), "float64")',
        """
    for i in range(99998):
        x[i + 1] = T.float64(0.3) * (x[i] * x[i + 2] + b[i])
""",
    ),
    "1,000 updates at indices of 1e5 numbers": (
        'a: T.Buffer((1000,), "float64"), P: T.Buffer((1000,), "int32"), x: T.Buffer((100000,), "float64")',
        """
    for i in range(1000):
        x[P[i]] = x[P[i]] * x[(P[i] * 7 + 1) % 100000] + a[i]
""",
    ),
    "an alignment of 300 and 1,000 letters": (
        'a: T.Buffer((300,), "float64"), b: T.Buffer((1000,), "float64"), D: T.Buffer((301, 1001), "float64")',
        """
    for i, j in T.grid(300, 1000):
        D[i + 1, j + 1] = (a[i] - b[j]) * (a[i] - b[j]) + T.min(D[i, j], T.min(D[i, j + 1], D[i + 1, j]))
""",
    ),
}
"""Loops of TIR that hand on a buffer: parameters and body."""


def through_a_loop(name: str) -> tuple[int, int, float]:
    """The bytes of the written buffer, those of temporary buffers of the gradient, and its time beside the loop's."""
    params, body = LOOPS[name]
    program = ti.lift(ti.tir.parse(f"@T.prim_func\ndef main({params}):{body}")["main"])
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        given = [
            jnp.asarray(
                rng.integers(0, 1000, p.type.dims.shape).astype(np.int32)
                if argument.dtype.kind == "i"
                else 0.3 * rng.normal(size=p.type.dims.shape)
            )
            for argument in program.arguments
            for p in program.fencil.params
            if p.name == argument.name
        ]
        floats = tuple(k for k, x in enumerate(given) if x.dtype == jnp.float64)

        def total(*xs: Any) -> Any:
            return (program(*xs)[-1] ** 2).sum()

        forward = jax.jit(total).lower(*given).compile()
        backward = jax.jit(jax.grad(total, argnums=floats)).lower(*given).compile()
        ways = {
            "forward": lambda: jax.block_until_ready(forward(*given)),
            "gradient": lambda: jax.block_until_ready(backward(*given)),
        }
        best = compare(ways, rounds=3, warm=1)
    return given[-1].nbytes, backward.memory_analysis().temp_size_in_bytes, best["gradient"] / best["forward"]


def main() -> None:
    for name in PROGRAMS:
        plain = temporary_bytes(name, False)
        print(f"{name}, gradient through {STEPS:,} steps: plain {plain:,} bytes")
        for levels in (2, 3):
            checkpointed = temporary_bytes(name, levels)
            print(f"  checkpoint={levels}: {checkpointed:,} bytes, 1/{plain / checkpointed:.1f}")
    for name in LOOPS:
        size, used, ratio = through_a_loop(name)
        print(f"{name}: {used:,} bytes, {used / size:.1f} of its buffer; {ratio:.1f} times the loop's time")


if __name__ == "__main__":
    main()
