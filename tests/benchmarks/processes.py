"""Steps on several processes beside the same steps by hand, with `shard_map` and `ppermute`.

python -m tests.benchmarks.processes         # starts two processes of this machine, with a device each

Printed: for each program the least times of a step that took turns, and their ratio (above 1 where ours is faster).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

STEPS, TURNS = 10, 15
SPEC = PartitionSpec("px")


def from_neighbours(u: Any, width: int, count: int) -> Any:
    """A block with the rows of its neighbours; of devices at the ends those are zeros, and not used."""
    above = lax.ppermute(u[-width:], "px", [(k, k + 1) for k in range(count - 1)])
    below = lax.ppermute(u[:width], "px", [(k + 1, k) for k in range(count - 1)])
    return jnp.concatenate([above, u, below])


def hdiff(u: Any, coeff: Any, count: int) -> Any:
    """Horizontal diffusion with a flux limiter on a block of rows; the two outermost points keep their values."""
    e = from_neighbours(u, 2, count)
    lap = e[2:, 1:-1] + e[:-2, 1:-1] + e[1:-1, 2:] + e[1:-1, :-2] - 4.0 * e[1:-1, 1:-1]
    inner = e[1:-1, 1:-1]
    x, y = lap[1:] - lap[:-1], lap[:, 1:] - lap[:, :-1]
    flx = jnp.where(x * (inner[1:] - inner[:-1]) > 0.0, 0.0, x)[:, 1:-1]
    fly = jnp.where(y * (inner[:, 1:] - inner[:, :-1]) > 0.0, 0.0, y)[1:-1]
    new = u[:, 2:-2] - coeff[:, 2:-2] * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])
    row = lax.axis_index("px") * u.shape[0] + lax.broadcasted_iota(jnp.int32, new.shape, 0)
    inside = (row >= 2) & (row < count * u.shape[0] - 2)
    return u.at[:, 2:-2].set(jnp.where(inside, new, u[:, 2:-2]))


def heat(u: Any, _: Any, count: int) -> Any:
    """A step of the heat equation on a block of rows; the outermost points keep their values."""
    e = from_neighbours(u, 1, count)
    bend = (e[2:, 1:-1] - 2.0 * u[:, 1:-1] + e[:-2, 1:-1]) + (u[:, 2:] - 2.0 * u[:, 1:-1] + u[:, :-2])
    new = u[:, 1:-1] + 0.1 * bend
    row = lax.axis_index("px") * u.shape[0] + lax.broadcasted_iota(jnp.int32, new.shape, 0)
    inside = (row >= 1) & (row < count * u.shape[0] - 1)
    return u.at[:, 1:-1].set(jnp.where(inside, new, u[:, 1:-1]))


def tridiagonal(d: Any, b: Any, count: int) -> Any:
    """An implicit vertical solve: the columns of a block, with -1 beside the diagonal."""
    columns = lambda x: jnp.moveaxis(x, 2, 0)

    def eliminate(before: Any, row: Any) -> Any:
        pivot = row[0] + before[0]
        now = -1.0 / pivot, (row[1] + before[1]) / pivot
        return now, now

    zero = 0.0 * d[:, :, 0]
    _, rows = lax.scan(eliminate, (zero, zero), (columns(b), columns(d)))
    _, x = lax.scan(lambda above, row: (row[1] - row[0] * above,) * 2, zero, rows, reverse=True)
    return jnp.moveaxis(x, 0, 2)


def cases() -> dict[str, tuple[tuple[int, ...], Callable[..., Any], str, Callable[[Any, Any], dict[str, Any]]]]:
    """By program: extents, the step by hand, the result that is the next state, the arguments of ours."""
    heated = {"diffusivity": 0.1, "dt": 1.0, "dx": 1.0, "dy": 1.0}
    return {
        "hdiff": ((512, 256, 16), hdiff, "out", lambda u, c: {"inp": u, "coeff": c}),
        "heat": ((2048, 1024), heat, "u", lambda u, c: {"u": u, **heated}),
        "tridiagonal": ((256, 256, 32), tridiagonal, "x", lambda u, c: {"d": u, "b": c, "a": 3 - c, "c": 3 - c}),
    }  # fmt: skip


def many(step: Callable[..., Any], u: Any, c: Any) -> Any:
    """The state after some steps."""
    return lax.fori_loop(0, STEPS, lambda _, x: step(x, c), u)


def measure(place: int, count: int, port: int) -> None:
    """The times of a process; the first one prints them."""
    jax.distributed.initialize(f"localhost:{port}", count, place)
    import tensorir as ti
    from stencils import library

    mesh = jax.make_mesh((count,), ("px",), axis_types=(AxisType.Auto,))
    for name, (extents, by_hand, result, arguments) in cases().items():
        with jax.enable_x64(True):
            blocks = NamedSharding(mesh, SPEC)
            whole = np.random.default_rng(0).random(extents), np.full(extents, 0.02 if name == "hdiff" else 4.0)
            u, c = (jax.make_array_from_callback(extents, blocks, lambda at, x=x: x[at]) for x in whole)
            d = ti.distribute(library.load(name), mesh, {"I": "px"})
            one = jax.shard_map(partial(by_hand, count=count), mesh=mesh, in_specs=(SPEC, SPEC), out_specs=SPEC)
            ours = lambda u, c, d=d, result=result, arguments=arguments: d(**arguments(u, c))[result]
            run = [jax.jit(partial(many, step)) for step in (one, ours)]
            ends = [np.asarray(f(u, c).addressable_data(0)) for f in run]
            least = [1e9, 1e9]
            for _ in range(TURNS):
                for k, f in enumerate(run):
                    begin = time.perf_counter()
                    jax.block_until_ready(f(u, c))
                    least[k] = min(least[k], (time.perf_counter() - begin) / STEPS * 1e3)
        if not place:
            apart = float(np.abs(ends[0] - ends[1]).max())
            line = f"{least[0]:7.2f} ms by hand, {least[1]:7.2f} ms ours, {least[0] / least[1]:.2f}"
            print(f"{name:12} {line}; at most {apart:.0e} apart", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(*map(int, sys.argv[1:]))
    else:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            number = free.getsockname()[1]
        command = [sys.executable, "-m", "tests.benchmarks.processes"]
        started = [subprocess.Popen([*command, str(k), "2", str(number)]) for k in range(2)]
        sys.exit(max(p.wait() for p in started))
