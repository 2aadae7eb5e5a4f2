"""Steps on several processes beside the same steps by hand, with `shard_map` and `ppermute`.

python -m tests.benchmarks.processes           # starts two processes of this machine, with a device each
python -m tests.benchmarks.processes hdiff     # one program

Printed: for each program the least times of a step that took turns, and their ratio (above 1 where ours is faster).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

STEPS, TURNS = 20, 12
LONG = 200
"""Steps of a loop of `ti.iterate`, whose processes agree with each call."""
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


NUMBERS = {"coriolis": 1e-4, "gravity": 9.81, "dt": 5.0, "dx": 2000.0, "dy": 2000.0}
WATER = (1023, 512)
"""Boxes: their faces along the first dim are parted evenly."""


def water(block: Any, depth: Any, count: int) -> Any:
    """A step of shallow water on a block of rows of a surface and of velocities on left and lower faces.

    Two rows of each neighbour come in one message, and what lies between is computed again on them.
    """
    f, g, dt, dx, dy = NUMBERS.values()
    eta, u, v = block
    rows, columns = eta.shape
    lined = jnp.concatenate([eta, u, v], 1)
    lined = from_neighbours(lined, 2, count)
    eta, u, v = lined[:, :columns], lined[:, columns : 2 * columns], lined[:, 2 * columns :]
    row = lax.axis_index("px") * rows - 2 + lax.broadcasted_iota(jnp.int32, eta.shape, 0)
    wall = (row <= 0) | (row >= WATER[0])  # left faces of the first boxes, and of those behind the last
    height = depth + eta
    flow_x = jnp.where(wall[1:], 0.0, u[1:] * (0.5 * (height[1:] + height[:-1])))
    flow_y = jnp.pad(v[:, 1:-1] * (0.5 * (height[:, 1:] + height[:, :-1])), ((0, 0), (1, 1)))[1:-1]
    eta = eta[1:-1] - dt * ((flow_x[1:] - flow_x[:-1]) / dx + (flow_y[:, 1:] - flow_y[:, :-1]) / dy)
    deep, v1, u1 = depth[1:-1], v[1:-1], u[1:-1]
    wet = jnp.minimum(deep[1:], deep[:-1]) > 0.0
    around = 0.25 * (v1[1:, :-1] + v1[1:, 1:] + v1[:-1, :-1] + v1[:-1, 1:])
    moved = jnp.where(wet, u1[1:] + dt * (f * around - g * ((eta[1:] - eta[:-1]) / dx)), 0.0)
    u = jnp.where(wall[2:-1], u1[1:], moved)
    eta, deep, v = eta[1:-1], deep[1:-1], v1[1:-1]
    wet = jnp.minimum(deep[:, 1:], deep[:, :-1]) > 0.0
    around = 0.25 * (u[:-1, 1:] + u[1:, 1:] + u[:-1, :-1] + u[1:, :-1])
    inner = jnp.where(wet, v[:, 1:-1] - dt * (f * around + g * ((eta[:, 1:] - eta[:, :-1]) / dy)), 0.0)
    return eta, u[:-1], jnp.concatenate([v[:, :1], inner, v[:, -1:]], 1)


def shallow_water(mesh: Any, count: int) -> Pair:
    """Steps of shallow water; the last face, a wall, has a row of its own in ours."""
    import tensorir as ti
    from stencils import library

    rng, (n, m) = np.random.default_rng(0), WATER
    depth = 100.0 + rng.random((n, m))
    eta, u, v = 0.1 * rng.normal(size=(n, m)), np.zeros((n + 1, m)), np.zeros((n, m + 1))
    d = ti.distribute(library.load("shallow_water"), mesh, {"I": "px"})
    blocks = NamedSharding(mesh, SPEC)
    more = lambda x: np.concatenate([x, np.zeros((n + 1 - len(x), *x.shape[1:]))])
    placed = [
        jax.make_array_from_callback((n + 1, x.shape[1]), blocks, lambda at, x=x: more(x)[at]) for x in (eta, u, v)
    ]
    deep = more(depth)
    around = from_neighbours_once(mesh, count, 2)(jax.make_array_from_callback(deep.shape, blocks, lambda at: deep[at]))
    one = jax.shard_map(partial(water, count=count), mesh=mesh, in_specs=((SPEC,) * 3, SPEC), out_specs=(SPEC,) * 3)
    run = jax.jit(lambda s, c: lax.fori_loop(0, LONG, lambda _, x: one(x, c), s))

    def step(s: Any) -> Any:
        after = d(eta=s["eta"], u=s["u"], v=s["v"], depth=depth, **NUMBERS)
        return {name: after[name] for name in s}

    first = {"eta": jnp.asarray(eta), "u": jnp.asarray(u), "v": jnp.asarray(v)}
    return lambda: run(tuple(placed), around)[1], lambda: ti.iterate(step, first, LONG, progress=False)["u"], LONG


def from_neighbours_once(mesh: Any, count: int, width: int) -> Callable[..., Any]:
    """What no step changes, with the rows of neighbours."""
    one = partial(from_neighbours, width=width, count=count)
    return jax.jit(jax.shard_map(one, mesh=mesh, in_specs=SPEC, out_specs=SPEC))


RING = """f(out: tensor<float, V[0:n], K[0:l]>, x: tensor<float, V[0:n], K[0:l]>,
  V2V: tensor<int, V[0:n], _NB_V[0:6]>) {
  out ← 0.16 × reduce(+, 0.0)(⟪V2V⟫(x));
}"""
SIDE, LEVELS = 256, 16


def neighbour_sum(mesh: Any, count: int) -> Pair:
    """Steps of a sum over six neighbours of points of a torus, whose numbers are shuffled within each part."""
    import tensorir as ti

    rng, n = np.random.default_rng(0), SIDE * SIDE
    size = n // count
    order = np.concatenate([k * size + rng.permutation(size) for k in range(count)])
    at = np.arange(n).reshape(SIDE, SIDE)
    steps = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1))
    beside = np.stack([np.roll(at, shift, (0, 1)).reshape(-1) for shift in steps], 1)
    table = np.empty_like(beside)
    table[order] = order[beside]  # the point with the number k has the number order[k]
    x, owners = rng.random((n, LEVELS)), np.arange(n) // size

    needed = [np.setdiff1d(table[owners == k], np.flatnonzero(owners == k)) for k in range(count)]
    width = max(map(len, needed))
    assert count == 2, "all that is needed is the other's"
    local, sent = [], []
    for k in range(count):
        number = np.full(n, -1)
        number[owners == k] = np.arange(size)
        number[needed[k]] = size + np.arange(len(needed[k]))
        local.append(number[table[owners == k]])
        sent.append(np.resize(needed[1 - k] - (k * size), width))
    blocks = NamedSharding(mesh, SPEC)
    tables, lists = np.concatenate(local).astype(np.int32), np.concatenate(sent).astype(np.int32)
    put = lambda a: jax.make_array_from_callback(a.shape, blocks, lambda at: a[at])

    def by_hand(u: Any, columns: Any, mine: Any) -> Any:
        got = lax.ppermute(u[mine], "px", [(0, 1), (1, 0)])
        every = jnp.concatenate([u, got])
        total = every[columns[:, 0]]
        for k in range(1, 6):
            total = total + every[columns[:, k]]
        return 0.16 * total

    one = jax.shard_map(by_hand, mesh=mesh, in_specs=(SPEC, SPEC, SPEC), out_specs=SPEC)
    run = jax.jit(lambda u, t, s: lax.fori_loop(0, LONG, lambda _, x: one(x, t, s), u))
    given = put(x), put(tables), put(lists)
    parts: Any = {"V": owners}
    d = ti.distribute(ti.parse(RING).bind(V2V=table.astype(np.int32)), mesh, {"V": "px"}, partition=parts)
    on = d.dealt(x=x)
    ours = lambda: ti.iterate(lambda u: on(x=u)["out"], on["x"], LONG, progress=False).data
    return lambda: run(*given), ours, LONG


Pair = tuple[Callable[[], Any], Callable[[], Any], int]
"""Some steps by hand, and ours, and their number."""


def on_a_grid(name: str) -> Callable[[Any, int], Pair]:
    """A case of one array that changes and one that does not."""

    def pair(mesh: Any, count: int) -> Pair:
        import tensorir as ti
        from stencils import library

        extents, by_hand, result, arguments = cases()[name]
        blocks = NamedSharding(mesh, SPEC)
        whole = np.random.default_rng(0).random(extents), np.full(extents, 0.02 if name == "hdiff" else 4.0)
        u, c = (jax.make_array_from_callback(extents, blocks, lambda at, x=x: x[at]) for x in whole)
        d = ti.distribute(library.load(name), mesh, {"I": "px"})
        one = jax.shard_map(partial(by_hand, count=count), mesh=mesh, in_specs=(SPEC, SPEC), out_specs=SPEC)
        run = [jax.jit(partial(many, step)) for step in (one, lambda u, c: d(**arguments(u, c))[result])]
        return lambda: run[0](u, c), lambda: run[1](u, c), STEPS

    return pair


def measure(place: int, count: int, port: int, chosen: Sequence[str]) -> None:
    """The times of a process; the first one prints them."""
    jax.distributed.initialize(f"localhost:{port}", count, place)
    mesh = jax.make_mesh((count,), ("px",), axis_types=(AxisType.Auto,))
    every: dict[str, Callable[[Any, int], Pair]] = {name: on_a_grid(name) for name in cases()}
    every |= {"shallow water": shallow_water, "neighbour sum": neighbour_sum}
    for name, made in every.items():
        if chosen and name not in chosen:
            continue
        with jax.enable_x64(True):
            *run, steps = made(mesh, count)
            ends = [np.asarray(f().addressable_data(0)) for f in run]
            for f in run:  # a loop of ours learns in its first calls how long its steps take
                for _ in range(4):
                    jax.block_until_ready(f())
            least = [1e9, 1e9]
            for _ in range(TURNS):
                for k, f in enumerate(run):
                    begin = time.perf_counter()
                    jax.block_until_ready(f())
                    least[k] = min(least[k], (time.perf_counter() - begin) / steps * 1e3)
        if not place:
            rows = min(map(len, ends))
            apart = float(np.abs(ends[0][:rows] - ends[1][:rows]).max())
            line = f"{least[0]:7.2f} ms by hand, {least[1]:7.2f} ms ours, {least[0] / least[1]:.2f}"
            print(f"{name:14} {line}; at most {apart:.0e} apart", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["place"]:
        place, count, port = map(int, sys.argv[2:5])
        measure(place, count, port, sys.argv[5:])
    else:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            number = free.getsockname()[1]
        command = [sys.executable, "-m", "tests.benchmarks.processes"]
        started = [subprocess.Popen([*command, "place", str(k), "2", str(number), *sys.argv[1:]]) for k in range(2)]
        sys.exit(max(p.wait() for p in started))
