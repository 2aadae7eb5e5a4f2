"""dlight's schedules undone: what its rules for GPUs, and each step of TVM's lowering, make of an operator lifts to a
program of the operator's values with as many loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.lift.costs import costs_of
from tests.peers import sweep
from tests.peers.operators import operators
from tests.peers.test_tvm_undone import module_of, new, steps

pytestmark = pytest.mark.filterwarnings("ignore")

LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
CASES = [("matmul", "Matmul"), ("conv2d_nchw_2_0_2", "Matmul"), ("softmax", "GeneralReduction")]
NIGHTLY = [
    ("dense", "Matmul"),
    ("conv1d_ncw", "Matmul"),
    ("conv2d_nchw_1_1_1", "Matmul"),
    ("conv2d_nchw_1_2_2", "Matmul"),
    ("conv2d_nhwc_2_1_1", "Matmul"),
    ("conv2d_nhwc_3_0_1", "Matmul"),
    ("layer_norm", "GeneralReduction"),
]
LOWERED = ("scheduled", "CompactBufferAllocation", "FlattenBuffer", "VectorizeLoop")


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *(pytest.param(*case, id="-".join(case)) for case in CASES),
        *(pytest.param(*case, id="-".join(case), marks=pytest.mark.nightly) for case in NIGHTLY),
    ],
)
def test_a_schedule_of_dlight_is_undone_at_every_step(name: str, rule: str):
    from tvm.s_tir import dlight

    every = operators()
    function = tir.parse(module_of(every[name]))["main"]
    wanted, arrays = costs_of(ti.lift(function)), sweep.given(function)
    values = tir.interpret(function, *arrays)
    with tvm.target.Target({"kind": "cuda", "arch": "sm_80", **LIMITS}):
        scheduled: Any = dlight.ApplyDefaultSchedule(getattr(dlight.gpu, rule)())(module_of(every[name]))
    assert "is_scheduled" in scheduled["main"].script()
    for step, module in new(form for form in steps(scheduled) if form[0] in LOWERED):
        costs = costs_of(program := ti.lift(tir.parse(module.script())["main"]))
        # what copies that pad hand on is not always of the operator's own extents: as many loops, more operations
        assert costs.loops == wanted.loops and (costs.gathers <= wanted.gathers or step not in LOWERED[:2]), step
        for got, value in zip(program(*arrays), values[-1:], strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5, err_msg=step)
