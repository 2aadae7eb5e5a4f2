"""Generated programs over all builtins: what holds of every one of them.

A failing example is shrunk and printed as a program with the seed of its data. `make fuzz` runs the same checks on
new programs without end.
"""

from random import Random

import pytest
from generate.examples import examples
from generate.maker import REFUSED
from generate.profiles import EVERY, OP_BY_OP, SMOOTH, WHOLE
from generate.programs import made, programs
from generate.properties import check_bounded, check_compiled, check_domain, check_op_by_op, check_round_trip
from hypothesis import given, settings

from tensorir.ir.builtins import TABLE
from tensorir.ir.rewrite import postorder, values


@settings(max_examples=examples(500))
@given(programs(EVERY))
def test_programs_print_and_parse_to_themselves_and_have_the_domains_that_their_types_say(case):
    check_round_trip(case)
    check_domain(case)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(300))
@given(programs(OP_BY_OP, outputs=1, depth=3))
def test_the_lowering_agrees_with_the_oracle_bit_for_bit_op_by_op(case):
    check_op_by_op(case)


@settings(max_examples=examples(200))
@given(programs(WHOLE))
def test_compiled_programs_of_whole_numbers_agree_with_the_oracle_bit_for_bit(case):
    check_compiled(case)


@settings(max_examples=examples(200))
@given(programs(SMOOTH))
def test_compiled_programs_agree_with_the_oracle_within_their_running_error(case):
    check_bounded(case)


def test_generated_programs_use_every_builtin():
    draw = Random(4).randint
    cases = [made(draw, EVERY) for _ in range(1000)]
    used = {getattr(node, "op", "") for case in cases for node in postorder(*values(case.fencil.closures))}
    # what passes put in: they are tried on generated programs that have something for them
    assert set(TABLE) - used == {"argreduce", "blocked", "cond", "contract", "materialise", "top_k"}


def test_the_rules_of_generation_seldom_make_what_the_types_refuse():
    REFUSED.clear()
    draw = Random(1).randint
    for _ in range(200):
        made(draw, EVERY)
    assert sum(REFUSED.values()) <= 40, REFUSED
