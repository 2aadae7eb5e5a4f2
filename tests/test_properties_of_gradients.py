"""Generated programs whose data may move a little: what holds of the derivatives of every one of them."""

from generate.examples import examples
from generate.gradients import check_adjoint, check_differences, check_tables, check_unneeded
from generate.profiles import SLOPES, SMOOTH
from generate.programs import programs
from hypothesis import given, settings


@settings(max_examples=examples(40))
@given(programs(SMOOTH, outputs=1))
def test_forward_and_reverse_mode_are_adjoint_through_bound_constants(case):
    check_adjoint(case)


@settings(max_examples=examples(40))
@given(programs(SMOOTH, outputs=1))
def test_forward_and_reverse_mode_are_adjoint_through_traced_tables(case):
    check_adjoint(case, traced=True)


@settings(max_examples=examples(40))
@given(programs(SMOOTH, outputs=1))
def test_gradients_through_inverse_tables_are_those_through_scatters(case):
    check_tables(case)


@settings(max_examples=examples(40))
@given(programs(SMOOTH, outputs=1))
def test_forward_mode_is_the_slope_of_what_the_oracle_computes(case):
    check_differences(case)


@settings(max_examples=examples(60))
@given(programs(SLOPES, outputs=1))
def test_points_that_no_result_needs_have_no_part_in_a_gradient(case):
    check_unneeded(case)
