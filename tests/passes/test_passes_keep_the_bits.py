"""Every pass on generated programs: the same bits from the oracle, and idempotent."""

import pytest
from generate import programs
from generate.examples import examples
from generate.profiles import EVERY
from hypothesis import Phase, given, settings
from material import with_material
from same_bits import assert_same_bits, check_pass

import tensorir as ti
from tensorir.passes.block_scans import BlockScans
from tensorir.passes.pipeline import PASSES as TABLE

pytestmark = pytest.mark.filterwarnings("ignore")


PASSES = {**TABLE, "block_scans": lambda: BlockScans(block=64, least=0)}
"""With options that make them fire on programs that are small."""

FIRED = 1 / 5
"""The least share of the programs that a pass changes: one that changes none holds every property."""

RARE = {"temporaries": 1 / 20}
"""What fires less often: few of the small programs have something that is worth its bytes."""


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_the_bits_is_done_after_one_time_and_fires(name):
    changed: list[bool] = []

    @settings(max_examples=examples(60), phases=[Phase.generate])
    @given(programs(EVERY))
    def check(case):
        case = with_material(name, case)
        # equal programs may share more: that shows in the text
        changed.append(str(check_pass(PASSES[name](), case)) != str(case.fencil))

    check()
    assert sum(changed) >= RARE.get(name, FIRED) * len(changed), f"{sum(changed)} of {len(changed)}"


@settings(max_examples=examples(60))
@given(programs(EVERY))
def test_all_passes_in_a_row_keep_the_bits(case):
    pipeline = ti.passes.Pipeline("inline, simplify, fold_constants, combine_shifts, cse, prune")
    after = pipeline(case.fencil)
    assert_same_bits(case, after)
    assert ti.parse(str(after)) == after
