"""What the analysis says is read is what the oracle reads, point by point, on generated programs."""

import pytest
from generate import programs
from generate.data import Entries, arguments
from generate.examples import examples
from generate.profiles import EVERY
from hypothesis import given, settings

import tensorir as ti
from tensorir import reference
from tensorir.analysis.absence import analyse_absence
from tensorir.analysis.domains import domains

pytestmark = pytest.mark.filterwarnings("ignore")

COUNTS = {"exact": 0, "whole": 0}


@settings(max_examples=examples(150))
@given(programs(EVERY))
def test_the_oracle_reads_exactly_the_inferred_points(case):
    present = {n: Entries(e.inside) for n, e in case.entries.items()}
    given = arguments(case.fencil, present, case.values, case.seed)
    # of a table that the program computes entries may be -1 all the same: what is skipped there reads less
    facts = analyse_absence(case.fencil, dict.fromkeys(present, False))
    exact = compare(case, given, allow_more=any(access.absent for access in facts.accesses.values()))
    COUNTS["exact" if exact else "whole"] += 1


@settings(max_examples=examples(150))
@given(programs(EVERY))
def test_where_neighbours_are_absent_nothing_is_read_that_was_not_inferred(case):
    compare(case, case.arguments, allow_more=True)


def compare(case, given, allow_more):
    """Whether the program could be compared exactly: nothing in it depends on what is known at run time only."""
    bound = case.fencil.bind(**{n: v for n, v in given.items() if n in case.entries})
    found = domains(bound)
    read = reference.trace(bound, both=True, **{n: v for n, v in given.items() if n not in case.entries})
    for name, points in found.params.items():
        inferred = set(points)
        missed = read[name] - inferred
        assert not missed, f"{name}: not inferred: {sorted(missed)}\n{case!r}"
        if not found.unknown and not allow_more:
            assert inferred == read[name], f"{name}: not read: {sorted(inferred - read[name])}\n{case!r}"
    return not found.unknown


def test_a_third_of_the_generated_programs_were_compared_exactly():
    assert 2 * COUNTS["exact"] > COUNTS["whole"], COUNTS


def test_every_value_that_is_printed_is_read_as_a_whole():
    f = ti.parse(
        """f(x: tensor<float, I[0:5]>, z: tensor<float, J[0:7]>, y: tensor<float, I[1:3]>) {
          y ← let t = exp(z); print("{} of {}")(x, t) + 1.0;
        }"""
    )
    assert str(ti.passes.explain(f)) == (
        "f stores y at I[1:3].\nt: J[0:7] are needed.\nx: I[0:5] are read.\nz: J[0:7] are read."
    )
