"""The table of benchmarks: cases measured, written as text, JSON and Markdown, and compared with older ones.

Times are medians with the quartiles; a ratio is that of the least times of two ways that took turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tests.benchmarks.case import HAND, HAND_FRESH, NUMBA, OURS, OURS_FRESH, PLAIN, Absent, C, Case, Problem, Run, Way
from tests.benchmarks.figures import Figure
from tests.benchmarks.interleaved import Timing, turns
from tests.benchmarks.machine import Machine

__all__ = ["Row", "agree", "as_json", "as_markdown", "as_text", "from_json", "measure", "placed", "ratios", "worse"]

TOLERANCE = 1.15
"""What noise may add to a ratio twice in a row."""


@dataclass(frozen=True)
class Row:
    """What was measured of a case."""

    name: str
    timings: Mapping[str, Timing]
    beside: Mapping[str, Timing]
    absent: Mapping[str, str]
    """Ways that could not run here, and why."""
    moved: int
    """Bytes of what has to be read and of the results, once each."""
    operations: float
    element: str
    """The element type of the results, whose rate of operations is the limit."""

    def share(self, way: str, machine: Machine) -> float:
        """How much of the machine's limit a way reaches; caches can make it more than 1."""
        return machine.least(self.moved, self.operations, self.element) / self.timings[way].least

    def shown_share(self, way: str, machine: Machine) -> str:
        """In per cent; nothing where operations were not counted."""
        return f"{100 * self.share(way, machine):.0f} %" if self.operations else ""

    def ratio(self, way: str, peer: str) -> float:
        """The time of a way relative to its peer's."""
        return self._least(way) / self._least(peer)

    def _least(self, way: str) -> float:
        return (self.timings[way] if way in self.timings else self.beside[way]).least


def prepared(ways: Mapping[str, Way], problem: Problem) -> tuple[dict[str, Run], dict[str, str]]:
    """The ways that can run here, and why the others cannot."""
    runs: dict[str, Run] = {}
    absent: dict[str, str] = {}
    for name, way in ways.items():
        try:
            runs[name] = way(problem)
        except (Absent, ImportError) as why:
            absent[name] = str(why)
    return runs, absent


def agree(case: Case, runs: Mapping[str, Run]) -> tuple[int, float, str]:
    """The ways' results are compared; the bytes and the number of elements of the results, and their type.

    Raises AssertionError where a result differs from the first way's by more than the case allows.
    """
    results = {name: [np.asarray(x) for x in run()] for name, run in runs.items()}
    first, wanted = next(iter(results.items()))
    for name, found in results.items():
        assert len(found) == len(wanted), f"{case.name}: {name} has {len(found)} results, and {first} {len(wanted)}"
        for x, y in zip(found, wanted, strict=True):
            bound = case.tolerance * (np.abs(y).max() or 1.0)
            np.testing.assert_allclose(x, y, rtol=0, atol=bound, err_msg=f"{case.name}: {name} beside {first}")
    return sum(x.nbytes for x in wanted), sum(x.size for x in wanted), wanted[0].dtype.str[1:]


def measure(case: Case, seconds: float, whole: bool = True) -> Row:
    """A case whose ways agree, timed in turns for about so many seconds; `whole` has the slow builders too.

    Raises Absent where no way can run here.
    """
    problem = case.problem()
    runs, absent = prepared({**case.ways, **(case.built if whole else {})}, problem)
    if not runs:
        raise Absent(f"{case.name} is absent: " + "; ".join(f"{name}: {why}" for name, why in absent.items()))
    written, elements, element = agree(case, runs)
    beside, _ = prepared(case.beside, problem)
    once = sum(min(t) for t in turns(runs | beside, rounds=1, warm=1).values())
    rounds = int(min(max(seconds / once, 5), 200))
    taken = {name: Timing.of(t) for name, t in turns(runs | beside, rounds, warm=1).items()}
    read = sum(problem.arrays[name].nbytes for name in case.read or problem.arrays)
    return Row(
        case.name,
        {name: taken[name] for name in runs},
        {name: taken[name] for name in beside},
        absent,
        read + written,
        case.operations * elements,
        element,
    )


def _shown(t: Timing) -> str:
    """The median in milliseconds, and half of the distance of the quartiles in per cent."""
    spread = 50 * (t.upper - t.lower) / t.median
    digits = 3 if t.median < 1e-3 else 2 if t.median < 1e-2 else 1
    return f"{1e3 * t.median:.{digits}f} ms ± {spread:.0f} %"


def _lines(row: Row, machine: Machine) -> Iterator[tuple[str, str, str, str]]:
    """Way, time, ours relative to it, share of the limit."""
    for way, timing in row.timings.items():
        peer = "" if way == OURS else f"{row.ratio(OURS, way):.2f}"
        yield way, _shown(timing), peer, row.shown_share(way, machine)
    for way, timing in row.beside.items():
        yield f"({way})", _shown(timing), f"{row.ratio(OURS, way):.2f}", ""
    for way, why in row.absent.items():
        yield way, why, "", ""


def as_text(row: Row, machine: Machine) -> str:
    """A case for the terminal: a line for each way."""
    limit = f"{1e3 * machine.least(row.moved, row.operations, row.element):.2f} ms"
    share = f", and the share of this machine's limit ({limit})" if row.operations else ""
    lines = [f"{row.name}: ours relative to each{share}"]
    lines += [f"  {way:28}{time:>20}{ratio:>8}{share:>8}" for way, time, ratio, share in _lines(row, machine)]
    return "\n".join(lines)


def as_json(machine: Machine, rows: Sequence[Row], figures: Sequence[Figure] = ()) -> str:
    """Everything that was measured."""
    found = {"machine": asdict(machine), "rows": [asdict(r) for r in rows], "figures": [asdict(f) for f in figures]}
    return json.dumps(found, indent=1) + "\n"


def from_json(text: str) -> tuple[Machine, list[Row], list[Figure]]:
    """What `as_json` wrote."""
    found: dict[str, Any] = json.loads(text)

    def timings(given: dict[str, Any]) -> dict[str, Timing]:
        return {name: Timing(**t) for name, t in given.items()}

    rows = [Row(**(r | {key: timings(r[key]) for key in ("timings", "beside")})) for r in found["rows"]]
    return Machine(**found["machine"]), rows, [Figure(**f) for f in found["figures"]]


FIRST = (HAND, HAND_FRESH, PLAIN, NUMBA, C)
"""The ways with a column each; the others share the last one."""


def as_markdown(machine: Machine, rows: Sequence[Row], figures: Sequence[Figure] = ()) -> str:
    """A table with a row for each case: our time, its share of the limit, and our time relative to each way's."""
    head = ["case", "ours", "of the limit", *FIRST, "others"]
    body = []
    for row in rows:
        beside = {way: OURS_FRESH if way == HAND_FRESH and OURS_FRESH in row.timings else OURS for way in FIRST}
        others = [way for way in (*row.timings, *row.beside) if way not in (OURS, OURS_FRESH, *FIRST)]
        body.append([
            row.name,
            _shown(row.timings[OURS]),
            row.shown_share(OURS, machine),
            *(f"{row.ratio(beside[way], way):.2f}" if way in row.timings else "" for way in FIRST),
            ", ".join(f"{way} {row.ratio(OURS, way):.2f}" for way in others),
        ])  # fmt: skip
    found = f"Measured with {machine}.\n\n{_table(head, body)}"
    if figures:
        second = [[f.name, f.shown(f.ours), f.peer, f.shown(f.theirs), f"{f.ratio:.2f}"] for f in figures]
        found += "\n" + _table(["figure", "ours", "peer", "peer's", "ratio"], second)
    return found


BEGIN, END = "<!-- table: make bench -->", "<!-- end of the table -->"


def placed(page: str, table: str) -> str:
    """A page with the table between its marks; without marks, the table alone.

    >>> placed(f"Before.\\n{BEGIN}\\nold\\n{END}\\nAfter.", "| new |\\n").splitlines()
    ['Before.', '<!-- table: make bench -->', '', '| new |', '', '<!-- end of the table -->', 'After.']
    """
    if BEGIN not in page:
        return table
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n{END}{rest.split(END)[1]}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (head, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def ratios(rows: Sequence[Row], figures: Sequence[Figure] = ()) -> dict[str, float]:
    """Our time in each case relative to JAX by hand, with donated results and with fresh ones; and the figures'."""
    pairs = ((OURS, HAND), (OURS_FRESH, HAND_FRESH))
    return {
        f"{row.name}: {way}": row.ratio(way, peer)
        for row in rows
        for way, peer in pairs
        if way in row.timings and peer in row.timings
    } | {f.name: f.ratio for f in figures}


def worse(kept: Mapping[str, float], *runs: Mapping[str, float]) -> list[str]:
    """The ratios of which every run took longer than the kept one allows.

    >>> worse({"a": 1.0, "b": 1.0}, {"a": 1.2, "b": 1.2}, {"a": 1.3, "b": 1.1})
    ['a: 1.00 is kept, and now 1.20, 1.30']
    """
    return [
        f"{title}: {ratio:.2f} is kept, and now {', '.join(f'{run[title]:.2f}' for run in runs)}"
        for title, ratio in kept.items()
        if all(title in run and run[title] > TOLERANCE * ratio for run in runs)
    ]
