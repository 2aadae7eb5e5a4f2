"""How costs grow: `python -m tests.benchmarks growth [names] [--quick] [--pictures FOLDER] [--json FILE]`.

Time against the number of points, operations, neighbours, levels and arguments. Each curve has its exponent: the slope
between its last points on logarithmic axes, 1 where cost is linear. What is XLA's own is named so, and hand-written
JAX has a curve beside where it does the same work.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from tensorir.ir.build import call, cartesian_shift, literal, var
from tests.benchmarks.by_jax import by_hand, ours
from tests.benchmarks.case import Problem
from tests.benchmarks.cases import laplacian, neighbour_sum
from tests.benchmarks.cases.icon_scan import RECURRENCE, recurrence
from tests.benchmarks.interleaved import compare

__all__ = ["SERIES", "Curve", "Series", "measured"]

LONGEST = 60.0
"""Seconds. A curve that took longer at one size ends there."""


@dataclass(frozen=True)
class Curve:
    """Seconds at each size."""

    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """The slope over the last factor of ten of sizes, or over as much as there is.

        >>> Curve("pairs", (1, 10, 100), (1.0, 5.0, 500.0)).exponent
        2.0
        """
        points = [(n, s) for n, s in zip(self.sizes, self.seconds, strict=True) if 10 * n >= self.sizes[-1]]
        (n, first), (m, last) = points[0], points[-1]
        return math.log(last / first) / math.log(m / n) if m > n else math.nan


@dataclass(frozen=True)
class Series:
    """What is varied, and how it is measured at one size: seconds by the name of a curve."""

    axis: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    at: Callable[[int], Mapping[str, float]]


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _run(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least seconds; few rounds of what takes long."""
    once = sum(_seconds(way) + _seconds(way) for way in ways.values()) / 2
    return compare(ways, int(min(max(1.0 / once, 3), 300)), warm=1)


def points(n: int) -> dict[str, float]:
    """The Laplacian of n points, results donated."""
    side = math.isqrt(n)
    problem = Problem({"n": side, "m": side}, {"inp": np.random.default_rng(0).normal(size=(side, side))})
    return _run({
        "ours": ours(laplacian.TEXT, "out")(problem),
        "JAX by hand": by_hand(laplacian.hand, "inp")(problem),
    })  # fmt: skip


def chain(n: int) -> str:
    """A program of about n operations: shifted, scaled and added, stage by stage."""
    stages = max(n // 4, 1)
    names = ["x", *(f"t{k}" for k in range(1, stages + 1))]
    shift = lambda k: f"⟪I, {1 if k % 2 else -1}⟫({names[k - 1]})"
    lets = "\n".join(f"let {names[k]} = 0.5 × {shift(k)} + {names[k - 1]} × x;" for k in range(1, stages + 1))
    inner = f"I[{stages + 1}:{stages + 9}]"
    return f"f(out: tensor<float, {inner}>, x: tensor<float, I[0:{2 * stages + 10}]>) {{ out ← {lets} {names[-1]}; }}"


def pointwise(n: int) -> str:
    """A program of about n operations at one point: what XLA compiles as one loop."""
    stages = max(n // 3, 1)
    names = ["x", *(f"t{k}" for k in range(1, stages + 1))]
    lets = "\n".join(f"let {new} = 0.5 × {old} + {old} × x;" for old, new in pairwise(names))
    return f"f(out: tensor<float, I[0:8]>, x: tensor<float, I[0:8]>) {{ out ← {lets} {names[-1]}; }}"


def stages_of(text: str) -> dict[str, float]:
    """Seconds of each stage from the text to the executable."""
    found: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = run()
        found[name] = time.perf_counter() - begin
        return result

    fencil = timed("parse and type", lambda: ti.parse(text))
    timed("passes", lambda: ti.compile(fencil).pipeline())
    lowered = timed("passes and lower", lambda: ti.compile(fencil).lowered())
    timed("XLA's compile", lowered.compile)
    timed("print", lambda: str(fencil))
    return found


def typing(n: int) -> dict[str, float]:
    """n nodes made by the typed makers, one within the other."""

    def made() -> Any:
        x = var("x", ti.tensor("float", I=(0, 2 * n + 2)))
        e = x
        for k in range(n // 2):
            e = call("plus", cartesian_shift(e, "I", k % 3 - 1), literal(1.0))
        return e

    return {"typed makers": min(_seconds(made) for _ in range(2))}


def operations(n: int) -> dict[str, float]:
    """A chain of stencils of n operations."""
    return {**stages_of(chain(n)), **typing(n)}


def operations_at_a_point(n: int) -> dict[str, float]:
    return stages_of(pointwise(n))


def neighbours(n: int) -> dict[str, float]:
    """A sum over n neighbours of 20,000 vertices with 8 levels: a run, and the first call."""
    vertices = 20_000
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(vertices, 8)), "V2V": rng.integers(0, vertices, (vertices, n)).astype(np.int32)}
    problem = Problem({"k": 8}, arrays)
    text = neighbour_sum.TEXT.replace("[0:6]", f"[0:{n}]")
    first = {
        "first call": _seconds(lambda: ours(text, fresh=True)(problem)()),
        "first call of JAX by hand": _seconds(lambda: neighbour_sum.hand("x", "V2V", fresh=True)(problem)()),
    }
    return first | _run({
        "ours": ours(text, "out")(problem),
        "JAX by hand": neighbour_sum.hand("x", "V2V")(problem),
    })  # fmt: skip


def levels(n: int) -> dict[str, float]:
    """A scan of n levels in 1,024 columns: a run, and the first call."""
    rng = np.random.default_rng(0)
    problem = Problem({"n": 1024, "l": n}, {name: rng.random((1024, n)) for name in "xy"})
    first = {
        "first call": _seconds(lambda: ours(RECURRENCE, fresh=True)(problem)()),
        "first call of JAX by hand": _seconds(lambda: by_hand(recurrence, "x", "y", fresh=True)(problem)()),
    }
    return first | _run({
        "ours": ours(RECURRENCE, "out")(problem),
        "JAX by hand": by_hand(recurrence, "x", "y")(problem),
    })  # fmt: skip


def arguments(n: int) -> dict[str, float]:
    """A call with n arguments: once it is compiled, and the first."""
    names = [f"x{k}" for k in range(n)]
    kind = "tensor<float, I[0:8]>"
    text = f"f(out: {kind}, {', '.join(f'{name}: {kind}' for name in names)}) {{ out ← {' + '.join(names)}; }}"
    given = {name: jnp.ones(8) for name in names}
    plain = jax.jit(lambda **xs: {"out": sum(xs.values())})
    fencil = ti.parse(text)
    compiled = ti.compile(fencil)
    first = {
        "parse and type": _seconds(lambda: ti.parse(text)),
        "first call": _seconds(lambda: compiled(**given)["out"].block_until_ready()),
        "first call of JAX by hand": _seconds(lambda: plain(**given)["out"].block_until_ready()),
    }
    return first | _run({
        "ours": lambda: compiled(**given)["out"].block_until_ready(),
        "JAX by hand": lambda: plain(**given)["out"].block_until_ready(),
    })  # fmt: skip


SERIES = {
    "points": Series("points", tuple(10**k for k in range(3, 9)), (10**3, 10**4, 10**5), points),
    "operations": Series("operations", (10, 30, 100, 300, 1000, 3000, 10_000), (10, 100), operations),
    "pointwise": Series(
        "operations at a point", (10, 30, 100, 300, 1000, 3000, 10_000), (10, 100), operations_at_a_point
    ),
    "neighbours": Series("neighbours", (2, 4, 8, 16, 32, 64), (2, 8), neighbours),
    "levels": Series("levels", (10, 30, 100, 300, 1000, 3000), (10, 100), levels),
    "arguments": Series("arguments", (1, 4, 16, 64, 256), (1, 16), arguments),
}


def measured(series: Series, quick: bool = False) -> list[Curve]:
    """The curves of a series; one that took longer than a minute at a size ends the series there."""
    taken: dict[str, list[float]] = {}
    sizes: list[int] = []
    chosen = series.quick if quick else series.sizes
    # the first time of all loads what is used
    series.at(chosen[0])
    for size in chosen:
        sizes.append(size)
        at = series.at(size)
        for name, seconds in at.items():
            taken.setdefault(name, []).append(seconds)
        if max(at.values()) > LONGEST:
            break
    return [Curve(name, tuple(sizes), tuple(seconds)) for name, seconds in taken.items()]


def picture(series: Series, curves: Sequence[Curve], path: Path) -> None:
    """The curves on logarithmic axes, with their exponents."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 3.5), layout="constrained")
    for curve in curves:
        peer = "JAX by hand" in curve.name
        label = f"{curve.name} ({curve.exponent:.1f})"
        axes.plot(curve.sizes, curve.seconds, "o--" if peer else "o-", markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(curves[0].sizes, [f"{n:,}" for n in curves[0].sizes], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel(series.axis)
    axes.set_ylabel("seconds")
    axes.grid(alpha=0.25)
    legend = axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8, title="(slope)")
    legend.get_title().set_fontsize(8)
    figure.savefig(path)
    pyplot.close(figure)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.benchmarks growth")
    options.add_argument("names", nargs="*", help=", ".join(SERIES))
    options.add_argument("--quick", action="store_true", help="small sizes only")
    options.add_argument("--pictures", type=Path, metavar="FOLDER", help="growth_NAME.svg for each")
    options.add_argument("--json", type=Path, metavar="FILE")
    o = options.parse_args(arguments)
    found: dict[str, list[Curve]] = {}
    with jax.enable_x64(True):
        for name, series in SERIES.items():
            if o.names and name not in o.names:
                continue
            found[name] = measured(series, o.quick)
            print(f"{series.axis}: {', '.join(f'{n:,}' for n in found[name][0].sizes)}")
            for c in found[name]:
                print(
                    f"  {c.name:28} slope {c.exponent:4.1f}: {', '.join(f'{s:.3g}' for s in c.seconds)} s", flush=True
                )
            if o.pictures:
                picture(series, found[name], o.pictures / f"growth_{name}.svg")
    if o.json:
        o.json.write_text(json.dumps({n: [vars(c) for c in curves] for n, curves in found.items()}, indent=1) + "\n")
    return 0
