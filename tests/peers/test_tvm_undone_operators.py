"""TVM's own operators with schedules undone: at steps of lowering the operator's own text, and its values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

import tensorir as ti
import tensorir.tir as tir
from tests.generate.examples import sampled
from tests.lift.costs import costs_of
from tests.peers.operators import operators
from tests.peers.sweep import SCHEDULES, drawn, forms, given
from tests.peers.test_tvm_undone import module_of

pytestmark = pytest.mark.filterwarnings("ignore")

CASES = [
    # parts put together, of which one is a row; choices by one condition that are added up
    "concatenate_0, as_it_is",
    "stack, fetched",
    "matrix_set_diag_k, as_it_is",
    # rows that data tell, in flat memory
    "index_tensor, as_it_is",
    "take_fast, as_it_is",
    "crop_and_resize, as_it_is",
    "take_fast, inputs_at_hand",
    "index_tensor, all_at_hand",
    # copies that are read where only data, or numbers of another kind, tell
    "resize2d_nearest_neighbor_asymmetric, fetched",
    "resize1d, fetched",
    # strides and dilations that look like rows of flat memory, and windows that are as far apart as they are long
    "conv2d_nchw_1_2_2, as_it_is",
    "pool2d_max_3122, over_threads",
    "winograd, as_it_is",
    "conv2d_nchw_2_1_1, inputs_at_hand",
    "conv2d_nhwc_2_1_1, all_inside",
    # several buffers of one tile
    "argmax_rows, split_unevenly",
    "argmax_last, tiled",
    "argmin_columns, all_near",
    "softmax, tiled",
    "softmax_0, all_near",
    "rms_norm, tiled",
    "batch_norm, in_two_parts",
    "fast_tanh, all_near",
    # quotients that bounds of sums tell, and what is chosen, in flat memory
    "conv1d_nwc, all_inside",
    "pool_grad_avg_321False, as_it_is",
    "pool_grad_max_321False, all_inside",
    "mirror_symmetric, all_at_hand",
    "reflect_pad, over_threads",
    # axes that show one after the other, and what is filled where it is chosen
    "quantize, all_at_hand",
    "group_norm, all_at_hand",
    "bitpack, all_near",
    # what every iteration of a fold stores anew, and folds that start from as much as the one around them
    "argmax_rows, at_random_3",
    "pool3d_max, at_random_6",
    # one dim that is split unevenly, where it is dilated; flat storage that ends within its last row
    "dilate, at_random_2",
    "conv2d_nchw_2_0_2, split_unevenly",
    "depthwise_nchw_2, fetched",
    "pool1d_max, at_random_0",
    # flat storage that is read under the conditions of a margin
    "transpose1d_1_0, at_random_8",
    "pool_grad_avg_220False, at_random_11",
    # one form for conditions, for reads of windows, and for parts that lack a dim
    "logical_and, at_random_3",
    "adaptive_max, at_random_3",
    # loops whose lengths are chosen, over storage of one iteration
    "adaptive_avg, all_near",
    "adaptive_avg, at_random_13",
    "lrn, at_random_5",
    "global_avg, inside_in_two_parts",
    # copies of which iterations share places that counting tells: margins that mirror, tiles of what is divided
    "depth_to_space, fetched",
    "trilu_low, fetched",
    "dilate, fetched",
    "replicate_pad, fetched",
    "layout_unpack, fetched",
    "group_norm, fetched",
    # tiles that straddle groups, in their own places and in flat ones
    "group1d, tiled",
    "group_nhwc, tiled",
    "group_nhwc, fetched",
    "transpose2d_groups, tiled",
    # what is no exception, and conditions that end within a pack
    "adaptive_avg, tiled",
    "adaptive_max, tiled",
    "layout_pack_uneven, tiled",
    # windows of every other element, which are no rows; dims that one number merges
    "conv1d_nwc, all_near",
    "conv2d_nhwc_1_2_2, tiled",
    "conv2d_hwcn_1_2_2, in_two_parts",
    "pool2d_max_3122, tiled",
    "lrn, at_random_20",
    "correlation, tiled",
    "pool_grad_avg_320True, inputs_at_hand",
    "pool_grad_avg_321False, tiled",
    # tiles of all loops as tasks: what one digit of the task tells, and loops that are longer than what they do
    "softmax_0, over_tasks",
    "group_norm, over_tasks",
    "conv2d_nchw_1_2_2, over_tasks",
    "transpose1d_2_0, over_tasks",
    "transpose3d, over_tasks",
    "arange, over_tasks",
    "conv3d_ndhwc, over_tasks",
    # tiles with gaps between them, where strides are larger than kernels
    "conv2d_nchw_3_0_1, tiled",
    "conv2d_nchw_4_3_1, tiled",
    "conv2d_nhwc_4_3_1, tiled",
]

STEPS = ("scheduled", "CompactBufferAllocation", "FlattenBuffer")
"""After which most is another form; the last step is looked at, too.

`python -m tests.peers.sweep` lifts the forms after every step, and `test_tvm_undone` those of its schedules.
"""


@pytest.mark.parametrize("case", sampled(CASES))
def test_an_operator_scheduled_and_the_steps_of_its_lowering_lift_to_what_it_takes_and_its_values(case: str):
    name, schedule = case.split(", ")
    make = operators()[name]
    function: Any = tir.parse(module_of(make))["main"]
    wanted, arrays = costs_of(ti.lift(function)), given(function)
    *_, values = tir.interpret(function, *arrays)
    every = list(forms(make, (SCHEDULES | drawn(schedule))[schedule]))
    assert len(every) > 2
    for step, text in [form for form in every[:-1] if form[0] in STEPS] + every[-1:]:
        program = ti.lift(tir.parse(text)["main"])
        assert (found := costs_of(program)).near(wanted), (step, found, wanted)
    np.testing.assert_allclose(program(*arrays)[-1], values, rtol=1e-4, atol=1e-5)
