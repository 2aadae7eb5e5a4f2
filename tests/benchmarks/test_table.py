"""The ways of every case compute the same; what was measured is written, read, drawn and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.benchmarks.__main__ import run
from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, Absent, Case, Problem, Run, Way
from tests.benchmarks.cases import CASES
from tests.benchmarks.figures import FIGURES, Figure
from tests.benchmarks.interleaved import Timing, turns
from tests.benchmarks.loops import CLoops, NumbaLoops
from tests.benchmarks.machine import Machine
from tests.benchmarks.picture import picture
from tests.benchmarks.table import (
    Row,
    agree,
    as_json,
    as_markdown,
    as_text,
    from_json,
    measure,
    prepared,
    ratios,
    worse,
)

MACHINE = Machine(1e9, {"f4": 4e9, "f8": 2e9}, 2)
FIGURE = Figure("a call", "µs", 15.0, "jax.jit", 10.0)


def timing(least: float) -> Timing:
    return Timing(2 * least, least, least, 3 * least, 9)


def row(**seconds: float) -> Row:
    names = {"ours": OURS, "fresh": OURS_FRESH, "hand": HAND, "hand_fresh": HAND_FRESH, "plain": PLAIN}
    taken = {names[name]: timing(s) for name, s in seconds.items()}
    return Row("a case 8x8", taken, {"forward": timing(0.5)}, {NUMBA: "Numba is not installed"}, 10**6, 1e6, "f8")


@pytest.mark.nightly
@pytest.mark.parametrize("case", {case.kind: case for case in CASES if case.small}.values(), ids=lambda case: case.kind)
def test_the_ways_of_a_case_agree_at_a_small_size(case: Case):
    with jax.enable_x64(True):
        problem = case.problem(small=True)
        loops = case.ways.get(NUMBA)
        # a way with fresh results is the same function as the one with donated results
        ways = {name: way for name, way in case.ways.items() if not name.endswith(", fresh") and way is not loops}
        runs, _ = prepared(ways, problem)
        if isinstance(loops, NumbaLoops):
            runs[NUMBA] = loops.interpreted(problem)
        agree(case, runs)
        again = {name: np.asarray(x) for name, run in runs.items() for x in run()[:1]}
        for x in again.values():
            np.testing.assert_allclose(x, again[OURS], rtol=0, atol=case.tolerance * np.abs(again[OURS]).max())


def test_a_way_that_computes_something_else_is_refused_with_the_case_and_the_way():
    case = Case("halves", "4", {"n": 4}, None, lambda rng, n: {"x": np.ones(n)}, {}, 1)
    with pytest.raises(AssertionError, match=r"halves 4: wrong beside right"):
        agree(case, {"right": lambda: [np.ones(4)], "wrong": lambda: [np.ones(4) + 1e-6]})


def test_a_case_is_measured_with_its_bytes_and_operations_and_absent_ways_have_their_word():
    def absent(problem: Problem) -> Run:
        raise Absent("no compiler")

    def doubled(problem: Problem) -> Run:
        return lambda: [2.0 * problem.arrays["x"]]

    ways = {OURS: doubled, "C": absent}
    case = Case("doubling", "8", {"n": 8}, None, lambda rng, n: {"x": rng.random(n)}, ways, 3, built={"slow": doubled})
    found = measure(case, seconds=0.01)
    assert (found.moved, found.operations, found.element, found.absent) == (128, 24, "f8", {"C": "no compiler"})
    assert set(found.timings) == {OURS, "slow"} and found.timings[OURS].rounds >= 5
    assert set(measure(case, seconds=0.01, whole=False).timings) == {OURS}


def test_every_way_has_as_many_turns_as_there_are_rounds():
    calls = {"a": 0, "b": 0}

    def called(name: str) -> None:
        calls[name] += 1

    taken = turns({name: lambda name=name: called(name) for name in calls}, rounds=7, warm=2)
    assert {name: len(t) for name, t in taken.items()} == {"a": 7, "b": 7} and calls == {"a": 9, "b": 9}


def test_the_share_of_the_limit_is_that_of_the_nearer_limit():
    # a millisecond for the bytes, half of one for the operations
    assert row(ours=0.002).share(OURS, MACHINE) == 0.5
    assert replace(row(ours=0.002), operations=4e6).share(OURS, MACHINE) == 1.0


def test_a_case_whose_operations_are_not_counted_has_no_share_of_a_limit():
    lines = as_text(replace(row(ours=0.02), operations=0), MACHINE).splitlines()
    assert lines[:2] == [
        "a case 8x8: ours relative to each",
        "  ours                              40.0 ms ± 50 %                ",
    ]


def test_what_was_measured_is_written_for_people_and_machines():
    measured = [row(ours=0.02, fresh=0.06, hand=0.01, hand_fresh=0.02, plain=0.1)]
    assert as_text(measured[0], MACHINE).splitlines()[:4] == [
        "a case 8x8: ours relative to each, and the share of this machine's limit (1.00 ms)",
        "  ours                              40.0 ms ± 50 %             5 %",
        "  ours, fresh                      120.0 ms ± 50 %    0.33     2 %",
        "  JAX by hand                       20.0 ms ± 50 %    2.00    10 %",
    ]
    assert "Numba is not installed" in as_text(measured[0], MACHINE)
    lines = as_markdown(MACHINE, measured, [FIGURE]).splitlines()
    assert (
        lines[2] == "| case | ours | of the limit | JAX by hand | JAX by hand, fresh | plain JAX | Numba | C | others |"
    )
    assert lines[4] == "| a case 8x8 | 40.0 ms ± 50 % | 5 % | 2.00 | 3.00 | 0.20 |  |  | forward 0.04 |"
    assert lines[-1] == "| a call | 15 µs | jax.jit | 10 µs | 1.50 |"
    assert from_json(as_json(MACHINE, measured, [FIGURE])) == (MACHINE, measured, [FIGURE])


def test_a_ratio_that_is_worse_twice_is_told_and_one_that_is_worse_once_is_noise():
    kept = ratios([row(ours=0.01, hand=0.01, fresh=0.01, hand_fresh=0.01)], [FIGURE])
    assert kept == {"a case 8x8: ours": 1.0, "a case 8x8: ours, fresh": 1.0, "a call": 1.5}
    slow = ratios([row(ours=0.02, hand=0.01, fresh=0.02, hand_fresh=0.01)], [FIGURE])
    once = slow | {"a case 8x8: ours": 1.1}
    assert worse(kept, slow, once) == ["a case 8x8: ours, fresh: 1.00 is kept, and now 2.00, 2.00"]


def test_the_ratios_that_are_kept_are_of_cases_and_figures_that_there_are():
    _, rows, figures = from_json(Path(__file__).with_name("kept.json").read_text())
    assert {row.name for row in rows} <= {case.name for case in CASES} and figures
    assert len(ratios(rows, figures)) >= 6


def test_cases_whose_ways_do_not_agree_or_are_absent_are_named_and_the_others_are_measured(
    capsys: pytest.CaptureFixture[str],
):
    def constant(value: float) -> Way:
        return lambda problem: lambda: [np.full(4, value)]

    def case(kind: str, found: float) -> Case:
        return Case(kind, "4", {}, None, lambda rng: {}, {OURS: constant(1.0), "other": constant(found)}, 0)

    def absent(problem: Problem) -> Run:
        raise Absent("no compiler")

    nowhere = Case("nowhere", "4", {}, None, lambda rng: {}, {OURS: absent}, 0)
    rows, figures, apart = run([case("wrong", 2.0), nowhere, case("right", 1.0)], [], quick=True)
    assert [r.name for r in rows] == ["right 4"] and figures == [] and len(apart) == 1
    printed = capsys.readouterr().out
    assert "wrong 4: other beside ours" in printed and f"nowhere 4 is absent: {OURS}: no compiler" in printed


def test_the_picture_has_a_line_for_each_case(tmp_path: Path):
    picture([row(ours=0.02, hand=0.01)], tmp_path / "table.svg")
    assert "<!-- a case 8x8 -->" in (tmp_path / "table.svg").read_text()


def test_a_c_source_that_is_wrong_is_absent_with_what_the_compiler_says():
    with pytest.raises(Absent, match=r"error: |no C compiler"):
        CLoops("void run(T *x) { this is no C }", lambda problem: [np.zeros(1)], ())(Problem({}, {}))


def test_peak_memory_is_what_xla_says_of_inputs_and_results_at_least():
    with jax.enable_x64(True):
        for figure in FIGURES["memory"](1):
            assert figure.ours >= figure.theirs > 0
