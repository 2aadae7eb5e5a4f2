"""Modules that TVM makes, lifted: operators, their lowered forms, schedules for GPUs, and random legal schedules."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.peers.test_tvm_numbers import CASES, LOWERING, unscheduled
from tests.peers.test_tvm_schedules import product, row_sum, stencil

pytestmark = pytest.mark.filterwarnings("ignore")


def lifts_to(module: Any, arrays: list[Any], wanted: Any) -> None:
    program = ti.lift(tir.parse(module)["main"])
    found = program(*arrays)
    written = [k for k, argument in enumerate(program.arguments) if argument.written]
    assert written
    for place, got in zip(written, found, strict=True):
        want = wanted[place]
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(CASES)[::5])
def test_an_operator_of_topi_lifts_to_its_numbers(name: str):
    lifts_to(*unscheduled(name))


@pytest.mark.parametrize("name", list(CASES)[2::12])
def test_a_lowered_operator_lifts_to_its_numbers(name: str):
    module, arrays, wanted = unscheduled(name)
    for step in LOWERING:
        maker = getattr(tvm.s_tir.transform, step, None) or getattr(tvm.tirx.transform, step)
        module = maker()(module)
    lifts_to(module, arrays, wanted)


@pytest.mark.parametrize("name", ["argmax", "argmin", "softmax", "matmul"])
def test_a_default_schedule_for_gpus_lifts_to_its_numbers(name: str):
    from tvm.s_tir import dlight

    module, arrays, wanted = unscheduled(name)
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    with tvm.target.Target({"kind": "cuda", "arch": "sm_80", **limits}):
        rules = [dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction()]
        scheduled = dlight.ApplyDefaultSchedule(*rules, dlight.gpu.Fallback())(module)
    lifts_to(scheduled, arrays, wanted)


def scheduled_at_random(make: Callable[[], list[Any]], seed: int) -> tuple[Any, Any]:
    """A module, and the same after a few random steps; steps that TVM refuses are left out."""
    from tvm import te

    r = random.Random(seed)
    module = tvm.IRModule({"main": te.create_prim_func(make()).with_attr("global_symbol", "main")})
    s = tvm.s_tir.Schedule(module)
    for _ in range(r.randint(1, 5)):
        try:
            block = s.get_sblock(r.choice(["C", "C", "B"]))
            loops = s.get_loops(block)
            step = r.choice(["split", "fuse", "reorder", "parallel", "vectorize", "unroll", "cache", "decompose"])
            match step:
                case "split":
                    s.split(r.choice(loops), [None, r.choice([2, 3, 4, 5, 8])])
                case "fuse":
                    k = r.randrange(len(loops) - 1)
                    s.fuse(loops[k], loops[k + 1])
                case "reorder":
                    s.reorder(*r.sample(loops, len(loops)))
                case "cache":
                    s.cache_read(block, 0, "global") if r.random() < 0.5 else s.cache_write(block, 0, "global")
                case "decompose":
                    s.decompose_reduction(block, r.choice(loops))
                case _:
                    getattr(s, step)(r.choice(loops))
        except tvm.s_tir.ScheduleError:  # a step that is not legal here
            continue
    return module, s.mod


@pytest.mark.parametrize("seed", range(60))
def test_a_random_schedule_lifts_to_what_tvm_and_the_interpreter_compute(seed: int):
    # TVM takes some orders of loops in which a reduction starts again in its midst: what it then computes counts
    _, scheduled = scheduled_at_random([product, stencil, row_sum][seed % 3], seed)
    func = tir.parse(scheduled)["main"]
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=tuple(e.value for e in b.shape)).astype(np.float32) for b in func.buffer_map.values()]
    wanted = tir.interpret(func, *arrays)
    lifts_to(scheduled, arrays, wanted)
    if str(scheduled).count("T.vectorized") < 2:  # TVM builds no vectors of vectors
        passed = [tvm.runtime.tensor(a) for a in arrays]
        tvm.compile(scheduled, target="llvm")["main"](*passed)
        for theirs, ours in zip(passed, wanted, strict=True):
            np.testing.assert_allclose(theirs.numpy(), ours, rtol=1e-4, atol=1e-5)
