"""Memory of the gradient through 1,000 steps: `python -m tests.benchmarks.memory`.

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

import tensorir as ti
from stencils import library

__all__ = ["PROGRAMS", "temporary_bytes"]

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
    return (
        lambda s: program(inp=s, strength=jnp.asarray(1 / 64))["out"],
        jax.ShapeDtypeStruct((n, n), jnp.float64),
    )


PROGRAMS = {"shallow water": shallow_water, "limited diffusion": limited_diffusion}


def temporary_bytes(name: str, checkpoint: bool | int, n: int = 64, steps: int = STEPS) -> int:
    """The bytes of temporary buffers of the gradient of a sum of squares after so many steps."""
    with jax.enable_x64(True):
        step, shapes = PROGRAMS[name](n)

        def energy(x: Any) -> Any:
            after = ti.iterate(step, x, steps, checkpoint=checkpoint)
            return sum((leaf**2).sum() for leaf in jax.tree_util.tree_leaves(after))

        return jax.jit(jax.grad(energy)).lower(shapes).compile().memory_analysis().temp_size_in_bytes


def main() -> None:
    for name in PROGRAMS:
        plain = temporary_bytes(name, False)
        print(f"{name}, gradient through {STEPS:,} steps: plain {plain:,} bytes")
        for levels in (2, 3):
            checkpointed = temporary_bytes(name, levels)
            print(f"  checkpoint={levels}: {checkpointed:,} bytes, 1/{plain / checkpointed:.1f}")


if __name__ == "__main__":
    main()
