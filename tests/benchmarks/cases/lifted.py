"""Lifted kernels of TIR, Tile IR and TileLang, beside the same functions in plain JAX and TVM's own builds.

The kernels are those of `tests/benchmarks/lift.py`, `tiles.py` and `tilelang.py`, at their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorir as ti
from tensorir import tile
from tests.benchmarks import lift
from tests.benchmarks.case import HAND, OURS, Absent, Case, Problem, Run, Way

QUICK = (("TIR", "matmul 512"), ("TIR", "softmax"), ("Tile IR", "layer norm 1024"), ("TileLang", "softmax"))


HANDS = {"argmax": lambda a, *_: (jnp.argmax(a, -1).astype(jnp.int32), jnp.max(a, -1))}
"""By hand, with all results, where `tests/benchmarks/lift.py` has one of them."""


def waited(function: Callable[..., Any], arrays: Sequence[Any]) -> Run:
    """What a function gives: all results of a lifted program, or the one of a function by hand."""

    def run() -> Sequence[Any]:
        found = jax.block_until_ready(function(*arrays))
        return found if isinstance(found, tuple | list) else [found]

    return run


def of_tir(name: str, case: lift.Case) -> Case:
    text, arrays, hand = case

    def lifted(problem: Problem) -> Run:
        return waited(ti.lift(ti.tir.parse(text)["main"]), [jnp.asarray(a) for a in arrays])

    def by_hand(problem: Problem) -> Run:
        return waited(jax.jit(HANDS.get(name, hand)), [jnp.asarray(a) for a in arrays])

    def by_tvm(scheduled: bool, problem: Problem) -> Run:
        try:
            import tvm

            from tests.benchmarks.tvm_builds import SCHEDULES, built
        except ImportError as error:
            raise Absent("TVM is not installed") from error
        if scheduled and name not in SCHEDULES:
            raise Absent("no schedule by hand")
        function = built(text, SCHEDULES[name] if scheduled else None)
        passed = [tvm.runtime.tensor(np.asarray(a)) for a in arrays]
        arguments = ti.lift(ti.tir.parse(text)["main"]).arguments
        written = [np.from_dlpack(x) for x, a in zip(passed, arguments, strict=True) if a.written]

        def run() -> Sequence[Any]:
            function(*passed)
            return written

        return run

    built_by_tvm = {"TVM": partial(by_tvm, False), "TVM, scheduled": partial(by_tvm, True)}
    return fixed("TIR", name, arrays, {OURS: lifted, HAND: by_hand}, built_by_tvm)


def of_tilelang(name: str) -> Case:
    # both ways are given the same random numbers
    @cache
    def made() -> Any:
        from tests.benchmarks import tilelang

        # its results are float32 where jnp.zeros says so
        with jax.enable_x64(False):
            return getattr(tilelang, name)()

    def lifted(problem: Problem) -> Run:
        func, args, _ = made()
        return waited(ti.lift(func), args)

    def by_hand(problem: Problem) -> Run:
        _, args, plain = made()
        return waited(jax.jit(plain), args)

    return fixed("TileLang", name, [], {OURS: lifted, HAND: by_hand})


def of_tile_ir(name: str) -> Case:
    # both ways are given the same random numbers
    @cache
    def made() -> Any:
        try:
            from tests.benchmarks import tiles
        except ImportError as error:
            raise Absent("cuTile is not installed") from error
        return next(case for case in tiles.cases() if case[0] == name)

    def lifted(problem: Problem) -> Run:
        _, kernel, grid, args, count, _ = made()
        given = list(args[:count])
        program = ti.lift(tile.from_cutile(kernel, *args), grid=grid, args=given)
        return waited(program, [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in given])

    def by_hand(problem: Problem) -> Run:
        *_, args, count, plain = made()
        return waited(jax.jit(plain), [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args[:count]])

    return fixed("Tile IR", name, [], {OURS: lifted, HAND: by_hand})


def fixed(
    wing: str, name: str, arrays: Sequence[Any], ways: Mapping[str, Way], built: Mapping[str, Way] | None = None
) -> Case:
    """A case whose sizes are in its text, and whose operations are not counted: it has no limit."""
    return Case(
        f"{wing}: {name}",
        "",
        {},
        None,
        lambda rng: {f"x{k}": np.asarray(a) for k, a in enumerate(arrays)},
        ways,
        operations=0,
        built=built or {},
        tolerance=2e-2,
        quick=(wing, name) in QUICK,
    )


CASES = (
    *(of_tir(name, case) for name, case in lift.cases().items()),
    *map(of_tile_ir, ("matmul 1024, tiles of 64", "layer norm 1024", "attention 8 x 1024 x 64, 64 by 64")),
    *map(of_tilelang, ("matmul", "softmax", "attention", "convolution")),
)
