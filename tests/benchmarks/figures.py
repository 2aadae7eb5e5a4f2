"""Figures that are no row of the table: overhead of calls, first calls, loading, parsing, lifting, peak memory.

Each is one number of ours beside one of a peer, or beside what cannot be done with less.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import tensorir as ti
from stencils import library
from tests.benchmarks.case import Case
from tests.benchmarks.cases import hdiff, neighbour_sum, tridiagonal
from tests.benchmarks.interleaved import compare
from tests.benchmarks.lift import matmul

__all__ = ["FIGURES", "Figure"]


@dataclass(frozen=True)
class Figure:
    """A number of ours, and a peer's."""

    name: str
    unit: str
    """s, ms, µs or MB."""
    ours: float
    peer: str
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def shown(self, value: float) -> str:
        """
        >>> Figure("a call", "µs", 12.34, "jax.jit", 10.0).shown(12.34)
        '12.3 µs'
        """
        return f"{value:.3g} {self.unit}"

    def __str__(self) -> str:
        return f"{self.name}: {self.shown(self.ours)}, {self.peer} {self.shown(self.theirs)} ({self.ratio:.2f})"


def calls(rounds: int) -> Iterator[Figure]:
    """A call with 1 to 64 arguments of 8 numbers beside one of `jax.jit`, result awaited."""
    for count in (1, 4, 16, 64):
        names = [f"x{k}" for k in range(count)]
        kind = "tensor<float, I[0:8]>"
        text = f"f(out: {kind}, {', '.join(f'{n}: {kind}' for n in names)}) {{ out ← {' + '.join(names)}; }}"
        compiled, given = ti.compile(ti.parse(text)), {n: jnp.ones(8) for n in names}
        plain = jax.jit(lambda **xs: {"out": sum(xs.values())})
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda f=compiled, g=given: f(**g)["out"].block_until_ready(),
            "jax.jit": lambda f=plain, g=given: f(**g)["out"].block_until_ready(),
        }
        best = compare(ways, 200 * rounds, 50)
        yield Figure(f"a call with {count} arguments", "µs", 1e6 * best["ours"], "jax.jit", 1e6 * best["jax.jit"])


def first_calls(rounds: int) -> Iterator[Figure]:
    """From the text, and from a function by hand, to the first result, at a small size: compiling is what it takes."""
    cases: tuple[tuple[Case, str, Callable[..., Any], tuple[str, ...], str], ...] = (
        (hdiff.forward(32, 32, 8, "f8"), hdiff.TEXT, hdiff.hand, ("inp", "coeff"), ""),
        (tridiagonal.case(8, 8, 64), tridiagonal.TEXT, tridiagonal.plain, tuple("abcd"), ""),
        (neighbour_sum.case(16, 4, False), neighbour_sum.TEXT, neighbour_sum.columnwise, ("x",), "V2V"),
    )
    for case, text, function, names, table in cases:
        problem = case.problem()
        arrays = {n: jnp.asarray(problem.arrays[n]) for n in names}
        tables = {table: problem.arrays[table]} if table else {}
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda t=text, a=arrays, b=tables: jax.block_until_ready(ti.compile(_bound(t, b))(**a)),
            "JAX": lambda f=function, a=arrays, b=tables: jax.block_until_ready(_jitted(f, b)(*a.values())),
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds + 1):
            for way, run in ways.items():
                jax.clear_caches()
                best[way] = min(best[way], _seconds(run))
        yield Figure(f"first call of {case.kind}", "s", best["ours"], "jax.jit", best["JAX"])


def _bound(text: str, tables: dict[str, Any]) -> Any:
    fencil = ti.parse(text)
    return fencil.bind(**tables) if tables else fencil


def _jitted(function: Callable[..., Any], tables: dict[str, Any]) -> Callable[..., Any]:
    """A function by hand, made of its tables where it has any."""
    made = function(*tables.values()) if tables else function
    return jax.jit(lambda *arrays: made(*arrays))


def loading(rounds: int) -> Iterator[Figure]:
    """Imports in a process of their own; parsing and lifting in time of the processor, beside Python's own parser."""
    source = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    run = lambda name: subprocess.run([sys.executable, "-c", source.format(name)], capture_output=True, text=True)
    least = lambda name: min(float(run(name).stdout) for _ in range(rounds + 1))
    yield Figure("import tensorir", "s", least("tensorir"), "import jax", least("jax"))
    text, kernel = library.text("vertical_advection"), matmul(512)
    columns, matrix = jax.ShapeDtypeStruct((8, 8, 64), jnp.float64), jax.ShapeDtypeStruct((512, 512), jnp.float32)
    ways: dict[str, Callable[[], object]] = {
        "parse": lambda: ti.parse(text),
        "lift": lambda: ti.lift(ti.tir.parse(kernel)["main"]),
        "systems": lambda: jax.jit(lambda *xs: tridiagonal.plain(*xs)).lower(*[columns] * 4).compile(),
        "product": lambda: jax.jit(lambda a, b: a @ b).lower(matrix, matrix).compile(),
    }
    best = {name: 1e3 * seconds for name, seconds in compare(ways, 5 * rounds).items()}
    yield Figure("parsing vertical advection", "ms", best["parse"], "compiling a solver in JAX", best["systems"])
    yield Figure("lifting a product of matrices", "ms", best["lift"], "compiling one in JAX", best["product"])


def memory(rounds: int) -> Iterator[Figure]:
    """The most bytes that hdiff and its gradient hold by XLA's own account, beside inputs and results alone."""
    n, m, l = 256, 256, 64
    field = 8 * n * m * l
    shape = jax.ShapeDtypeStruct((n, m, l), jnp.float64)
    compiled = ti.compile(ti.parse(hdiff.TEXT))
    used = _peak(compiled.lowered(n=n, m=m, l=l).compile())
    yield Figure("peak memory of hdiff", "MB", used / 1e6, "inputs and results", 3 * field / 1e6)

    def gradient(g: Any, x: Any, c: Any) -> Any:
        return jax.vjp(lambda x: compiled(inp=x, coeff=c)["out"], x)[1](g)

    used = _peak(jax.jit(gradient).lower(shape, shape, shape).compile())
    yield Figure("peak memory of the gradient of hdiff", "MB", used / 1e6, "inputs and results", 4 * field / 1e6)


def _peak(compiled: Any) -> int:
    said = compiled.memory_analysis()
    return said.argument_size_in_bytes + said.output_size_in_bytes + said.temp_size_in_bytes - said.alias_size_in_bytes


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


FIGURES: dict[str, Callable[[int], Iterator[Figure]]] = {
    "calls": calls,
    "first calls": first_calls,
    "loading": loading,
    "memory": memory,
}
"""What is measured, given how many times as many rounds as --quick takes."""
