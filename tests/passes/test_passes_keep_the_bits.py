"""Every pass on generated programs: the same bits from the oracle, and idempotent."""

import pytest
from generate import programs
from generate.profiles import EVERY
from hypothesis import given, settings
from same_bits import assert_same_bits, check_pass

import tensorir as ti
from tensorir.passes import PASSES

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_bits_and_is_done_after_one_time(name):
    @settings(max_examples=60)
    @given(programs(EVERY))
    def check(case):
        check_pass(PASSES[name](), case)

    check()


@settings(max_examples=60)
@given(programs(EVERY))
def test_all_passes_in_a_row_keep_the_bits(case):
    pipeline = ti.Pipeline("inline, simplify, fold_constants, combine_shifts, cse, prune")
    after = pipeline(case.fencil)
    assert_same_bits(case, after)
    assert ti.parse(str(after)) == after
