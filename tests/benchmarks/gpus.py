"""Programs on a GPU beside the limit of its memory and JAX by hand: `make bench-gpu`.

It is `python -m tests.benchmarks.gpus`, from a checkout. Results are compared first. The limit is the time in which a
copy moves as many bytes as the inputs and results have. Where there is no GPU, XLA's compiler for an H100 says how many
kernels there are, what they move, and their registers (`pip install 'jax[cuda12]'`, and JAX_PLATFORMS=cpu). Needs
nothing but jax, numpy, xarray, equinox and islpy; where GT4Py and CuPy are there, its programs run on `xla_gpu` beside
its own backend for GPUs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorir as ti
from lowering.calls.compiled import Compiled
from lowering.calls.engine import Engine
from lowering.calls.estimate import device_of, estimated
from stencils import library
from tensorir.ir.types import DTYPES
from tests.benchmarks import lift, tilelang
from tests.benchmarks.by_jax import single
from tests.benchmarks.cases import icon_scan

ROUNDS = 20
COTANGENT = "of the result"
TARGET = "cuda:h100"
Arrays = Mapping[str, Any]

COLUMNS_LAST = """tridiagonal(x: tensor<float, K[0:l], C[0:n]>, a: tensor<float, K[0:l], C[0:n]>,
    b: tensor<float, K[0:l], C[0:n]>, c: tensor<float, K[0:l], C[0:n]>, d: tensor<float, K[0:l], C[0:n]>) {
  x ← let eliminated = scan(λ(before: tensor<(float, float), C[0:n]>, a: tensor<float, C[0:n]>,
        b: tensor<float, C[0:n]>, c: tensor<float, C[0:n]>, d: tensor<float, C[0:n]>) →
        let pivot = b - a × before[0]; make_tuple(c / pivot, (d - a × before[1]) / pivot),
      true, make_tuple(0.0, 0.0))(a, b, c, d);
    scan(λ(above: tensor<float, C[0:n]>, row: tensor<(float, float), C[0:n]>) → row[1] - row[0] × above,
      false, 0.0)(eliminated); }"""
ICON = re.sub(r"(Edge\[0:n\]), (K\[[^]]*\])", r"\2, \1", icon_scan.TEXT)
FROM_TIR = "cumsum", "matmul 1024", "attention"
NEIGHBOURS = """sum(y: tensor<float, V[0:n], K[0:l]>, x: tensor<float, V[0:n], K[0:l]>,
    T: tensor<int, V[0:n], _NB_V[0:6]>) { y ← reduce(+, 0.0)(⟪T⟫(x)); }"""


@dataclass(frozen=True)
class Row:
    """One program at one size."""

    name: str
    program: Any
    sizes: Mapping[str, int]
    hand: Callable[[Arrays], Any] | None = None
    """The same of the arrays by name, in JAX."""
    gradient: tuple[str, ...] = ()
    """The inputs whose cotangents are computed, of that of the result; none for the program itself."""
    diagonal: str = ""
    """An input that must be larger than the others."""
    tolerance: float | None = None
    """By how much results may differ, of the largest; None for what their elements are exact to."""


def hdiff(a: Arrays) -> Any:
    x, c = a["inp"], a["coeff"]
    lap = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]
    rx, ry = lap[1:] - lap[:-1], lap[:, 1:] - lap[:, :-1]
    fx = jnp.where(rx * (x[2:-1, 1:-1] - x[1:-2, 1:-1]) > 0.0, 0.0, rx)
    fy = jnp.where(ry * (x[1:-1, 2:-1] - x[1:-1, 1:-2]) > 0.0, 0.0, ry)
    inner = x[2:-2, 2:-2] - c[2:-2, 2:-2] * (fx[1:, 1:-1] - fx[:-1, 1:-1] + fy[1:-1, 1:] - fy[1:-1, :-1])
    return x.at[2:-2, 2:-2].set(inner)


def laplacian(a: Arrays) -> Any:
    x = a["inp"]
    return x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4.0 * x[1:-1, 1:-1]


def thomas(a: Arrays) -> Any:
    def down(state: Any, row: Any) -> Any:
        low, diagonal, up, right = row
        pivot = diagonal - low * state[0]
        new = up / pivot, (right - low * state[1]) / pivot
        return new, new

    def back(above: Any, row: Any) -> Any:
        new = row[1] - row[0] * above
        return new, new

    zero = jnp.zeros(a["a"].shape[1:])
    _, eliminated = lax.scan(down, (zero, zero), (a["a"], a["b"], a["c"], a["d"]))
    return lax.scan(back, zero, eliminated, reverse=True)[1]


def levels_innermost(a: Arrays) -> Any:
    return jnp.moveaxis(thomas({n: jnp.moveaxis(x, -1, 0) for n, x in a.items()}), 0, -1)


def rows(small: bool = False) -> list[Row]:
    """The programs, or small ones of them: for a test."""
    n, levels, vertices = (12, 5, 40) if small else (1024, 80, 1_000_000)
    rng = np.random.default_rng(0)
    near = np.sort((np.arange(vertices)[:, None] + rng.integers(-50, 50, (vertices, 6))) % vertices, 1).astype(np.int32)
    ends = np.stack([np.arange(3 * vertices) // 3, rng.permutation(np.arange(3 * vertices) % vertices)], 1)
    ends = np.asarray(ends, np.int32)
    edges = np.argsort(ends.ravel(), kind="stable").reshape(vertices, 6).astype(np.int32) // 2
    cube = {"n": n, "m": n, "l": levels}
    columns, mesh = {"n": n * n // 4, "l": levels}, {"nv": vertices, "ne": 3 * vertices, "d": 6}

    def total(a: Arrays) -> Any:
        return sum(a["x"][near[:, k]] for k in range(6))

    def nabla(a: Arrays) -> Any:
        mean = 0.5 * (a["pp"][ends[:, 0]] + a["pp"][ends[:, 1]])
        return tuple(((a[s] * mean)[edges] * a["sign"]).sum(1) / a["vol"] for s in ("S_MXX", "S_MYY"))

    text = library.text("hdiff")
    return [
        Row("hdiff", ti.parse(text), cube, hdiff),
        Row("hdiff, float32", ti.parse(single(text)), cube, hdiff),
        Row("gradient of hdiff", ti.parse(text), cube, hdiff, ("inp",)),
        Row("laplacian", ti.parse(library.text("laplacian")), {"n": 8 * n, "m": 8 * n}, laplacian),
        Row("tridiagonal, levels outermost", ti.parse(COLUMNS_LAST), columns, thomas, diagonal="b"),
        Row("its gradient", ti.parse(COLUMNS_LAST), columns, thomas, ("a", "b", "c", "d"), "b"),
        Row(
            "tridiagonal, levels innermost", ti.parse(library.text("tridiagonal")),
            {"n": n // 2, "m": n // 2, "l": levels}, levels_innermost, diagonal="b",
        ),
        Row(
            "its gradient", ti.parse(library.text("tridiagonal")),
            {"n": n // 2, "m": n // 2, "l": levels}, levels_innermost, ("a", "b", "c", "d"), "b",
        ),
        Row(
            "ICON-like scan, levels outermost", ti.parse(ICON), {"n": n * n * 9 // 16, "l": levels * 4 // 5},
            lambda a: icon_scan.plain(*(a[name].T for name in icon_scan.NAMES)).T,
        ),
        Row("neighbour sum", ti.parse(NEIGHBOURS).bind(T=near), {"n": vertices, "l": 3 if small else 64}, total),
        Row("nabla", ti.parse(library.text("nabla")).bind(E2V=ends, V2E=edges), mesh, nabla),
    ]  # fmt: skip


def lifted_rows() -> list[Row]:
    """Kernels of TIR and TileLang, at the sizes of their texts."""
    of_tir = lift.cases()
    made = {f"TIR: {name}": (ti.tir.parse(of_tir[name][0])["main"], of_tir[name][2]) for name in FROM_TIR}
    for make in (tilelang.matmul, tilelang.attention):
        kernel, _, by_hand = make()
        made[f"TileLang: {make.__name__}"] = kernel, by_hand

    def row(name: str, kernel: Any, by_hand: Callable[..., Any]) -> Row:
        program = ti.lift(kernel).fencil
        given = [p.name for p in program.inputs]
        return Row(name, program, {}, lambda a: by_hand(*(a[n] for n in given), None), tolerance=2e-2)

    return [row(name, *pair) for name, pair in made.items()]


def shapes_of(row: Row) -> tuple[dict[str, Any], int]:
    """What a program is given, as shapes by name, and the bytes that it and its results have."""
    bound = ti.compile(row.program).engine.program.at(dict(row.sizes))
    program, tables = bound.program, bound.constants
    shapes = {p.name: _shape(p) for p in program.inputs if p.name not in tables}
    size = sum(t[0].nbytes for t in tables.values())
    size += sum(np.prod(p.type.dims.shape) * DTYPES[s].itemsize for p in program.results for s in p.type.leaves)
    if row.gradient:
        (result,) = program.results
        shapes[COTANGENT] = _shape(result)
        size += sum(np.prod(shapes[n].shape) * shapes[n].dtype.itemsize for n in row.gradient)
    given = (np.prod(s.shape) * s.dtype.itemsize for n, s in shapes.items() if n != COTANGENT)
    return shapes, int(size + sum(given))


def _shape(p: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(p.type.dims.shape, DTYPES[p.type.leaves[0]])


def function_of(row: Row, forward: Callable[[Arrays], Any]) -> Callable[[Arrays], Any]:
    """A program of arrays by name, or its gradient: the cotangents of inputs, of that of the result."""
    if not row.gradient:
        return forward

    def gradient(arrays: Arrays) -> Any:
        rest = {n: x for n, x in arrays.items() if n != COTANGENT}

        def some(moved: Arrays) -> Any:
            (result,) = jax.tree_util.tree_leaves(forward({**rest, **moved}))
            return result

        return jax.vjp(some, {n: rest[n] for n in row.gradient})[1](arrays[COTANGENT])

    return gradient


def for_gpus(program: Any) -> Compiled:
    """A program compiled as where there is a GPU."""
    c = ti.compile(program)
    return Compiled(c.constants, Engine(c.engine.program, replace(c.engine.options, target="gpu")))


def figures(row: Row) -> str:
    """What the compiler for an H100 says of a program."""
    place = jax.sharding.SingleDeviceSharding(device_of(TARGET))
    shapes, limit = shapes_of(row)
    given = {n: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place) for n, s in shapes.items()}
    found = estimated(TARGET, jax.jit(function_of(row, lambda arrays: for_gpus(row.program)(**arrays))), given)
    moved = "?" if found.bytes_accessed is None else f"{found.bytes_accessed / limit:5.2f}"
    registers = "" if found.registers is None else f"{found.registers:4d} registers, {found.spilled} bytes spilled"
    return f"{row.name:32} {found.kernels:3d} kernels, {moved} of the least bytes, {registers}"


def prepared(row: Row) -> tuple[dict[str, Any], dict[str, Callable[[Arrays], Any]]]:
    """Random arrays for a program, and it and JAX by hand as functions of them."""
    shapes, _ = shapes_of(row)
    keys = jax.random.split(jax.random.key(0), len(shapes))
    given = {n: jax.random.normal(k, s.shape, s.dtype) for k, (n, s) in zip(keys, shapes.items(), strict=True)}
    if row.diagonal:
        given[row.diagonal] = 4 + jnp.abs(given[row.diagonal])
    ours = ti.compile(row.program)
    forward = {"ours": lambda arrays: ours(**arrays), **({"by hand": row.hand} if row.hand is not None else {})}
    return given, {n: jax.jit(function_of(row, f)) for n, f in forward.items()}


def measured(row: Row, bandwidth: float) -> str:
    """A program that takes turns with JAX by hand, after their results were compared."""
    given, ways = prepared(row)
    _, limit = shapes_of(row)
    begun = time.perf_counter()
    results = {n: jax.block_until_ready(f(given)) for n, f in ways.items()}
    first = time.perf_counter() - begun
    compare(row, *results.values())
    taken: dict[str, list[float]] = {n: [] for n in ways}
    for _ in range(ROUNDS):
        for n, f in ways.items():
            begun = time.perf_counter()
            jax.block_until_ready(f(given))
            taken[n].append(time.perf_counter() - begun)
    least = limit / bandwidth
    told = ", ".join(f"{n} {1e3 * median(t):7.3f} ms ({median(t) / least:5.2f})" for n, t in taken.items())
    return f"{row.name:32} limit {1e3 * least:7.3f} ms, {told}; first calls {first:.1f} s"


def compare(row: Row, *results: Any) -> None:
    """Raise where two ways do not compute the same."""
    first, *others = [jax.tree_util.tree_leaves(r) for r in results]
    for other in others:
        for a, b in zip(first, other, strict=True):
            scale = float(jnp.abs(b).max()) or 1.0
            error = float(jnp.abs(a - b).max()) / scale
            bound = row.tolerance or (1e-10 if a.dtype == np.float64 else 1e-4)
            assert error < bound, f"{row.name}: results differ by {error:.1e}"


def copied() -> float:
    """The bytes per second that a copy moves."""
    x = jnp.zeros(1 << 27)
    copy = jax.jit(lambda x: x + 1.0)
    jax.block_until_ready(copy(x))
    taken: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        jax.block_until_ready(copy(x))
        taken.append(time.perf_counter() - begun)
    return 2 * x.nbytes / median(taken)


def main() -> int:
    jax.config.update("jax_enable_x64", True)
    gpu = jax.default_backend() == "gpu"
    bandwidth = copied() if gpu else 0.0
    device = jax.devices()[0].device_kind if gpu else f"{TARGET}, as its compiler says"
    print(f"{device}, JAX {jax.__version__}" + (f", a copy moves {bandwidth / 1e12:.2f} TB/s" if gpu else ""))
    for row in (*rows(), *lifted_rows()):
        print(measured(row, bandwidth) if gpu else figures(row), flush=True)
    if gpu and all(map(importlib.util.find_spec, ("gt4py", "cupy"))):
        os.environ.setdefault("GT4PY_BUILD_JOBS_MODE", "serial")
        programs = importlib.import_module("tests.benchmarks.gt4py")
        programs.main(["--device", "gpu", "--size", "768", "--levels", "64", "--edges", "884736", "--gtfn"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
