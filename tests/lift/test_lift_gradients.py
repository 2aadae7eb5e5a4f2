"""Gradients of lifted TIR: forward and reverse mode agree, and the remainder is of second order."""

from __future__ import annotations

import pytest

from tests.lift.gradients import CONFORMANCE, verified

MODULES = [
    "softmax_axis1", "reduce_welford", "hand_jacobi_time_pingpong", "hand_prefix_serial", "conv2d_nchw_stride2_pad",
    "sched_matmul64_gpu_shared", "low_sched_matmul64_rfactor_6flat", "pool1d_max",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_gradient_of_a_lifted_module_is_right(name: str):
    file = CONFORMANCE / f"{name}.py"
    if not file.exists():
        pytest.skip("the conformance modules are not here")
    finding = verified(file)
    assert finding is not None and finding.right, finding
