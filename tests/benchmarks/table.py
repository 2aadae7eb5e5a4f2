"""The table of benchmarks: cases measured, written as text, JSON and Markdown, and compared with older ones.

Times are medians with the quartiles; a ratio is that of the least times of two ways that took turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tests.benchmarks.case import HAND, HAND_FRESH, OURS, OURS_FRESH, Absent, Case, Problem, Run, Way
from tests.benchmarks.interleaved import Timing, turns
from tests.benchmarks.machine import Machine

__all__ = ["Row", "agree", "as_json", "as_markdown", "as_text", "from_json", "measure", "ratios", "worse"]

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
    limit: float
    """The least seconds that this machine's bandwidth and rate of operations allow."""

    def share(self, way: str) -> float:
        """How much of the machine's limit a way reaches; caches can make it more than 1."""
        return self.limit / self.timings[way].least

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


def measure(case: Case, machine: Machine, seconds: float) -> Row:
    """A case whose ways agree, timed in turns for about so many seconds."""
    problem = case.problem()
    runs, absent = prepared(case.ways, problem)
    written, elements, element = agree(case, runs)
    beside, _ = prepared(case.beside, problem)
    whole = runs | beside
    once = sum(min(t) for t in turns(whole, rounds=1, warm=1).values())
    rounds = int(min(max(seconds / once, 5), 200))
    taken = {name: Timing.of(t) for name, t in turns(whole, rounds, warm=1).items()}
    read = sum(problem.arrays[name].nbytes for name in case.read or problem.arrays)
    return Row(
        case.name,
        {name: taken[name] for name in runs},
        {name: taken[name] for name in beside},
        absent,
        machine.least(read + written, case.operations * elements, element),
    )


def _shown(t: Timing) -> str:
    """The median in milliseconds, and half of the distance of the quartiles in per cent."""
    spread = 50 * (t.upper - t.lower) / t.median
    digits = 3 if t.median < 1e-3 else 2 if t.median < 1e-2 else 1
    return f"{1e3 * t.median:.{digits}f} ms ± {spread:.0f} %"


def _lines(row: Row) -> Iterator[tuple[str, str, str, str]]:
    """Way, time, ours relative to it, share of the limit."""
    for way, timing in row.timings.items():
        peer = "" if way == OURS else f"{row.ratio(OURS, way):.2f}"
        yield way, _shown(timing), peer, f"{100 * row.share(way):.0f} %"
    for way, timing in row.beside.items():
        yield f"({way})", _shown(timing), f"{row.ratio(OURS, way):.2f}", ""
    for way, why in row.absent.items():
        yield way, why, "", ""


def as_text(row: Row) -> str:
    """A case for the terminal: a line for each way."""
    lines = [f"{row.name}: ours relative to each, and the share of this machine's limit ({1e3 * row.limit:.2f} ms)"]
    lines += [f"  {way:28}{time:>20}{ratio:>8}{share:>8}" for way, time, ratio, share in _lines(row)]
    return "\n".join(lines)


def as_json(machine: Machine, rows: Sequence[Row]) -> str:
    """Everything that was measured."""
    return json.dumps({"machine": asdict(machine), "rows": [asdict(row) for row in rows]}, indent=1) + "\n"


def from_json(text: str) -> tuple[Machine, list[Row]]:
    """What `as_json` wrote."""
    found: dict[str, Any] = json.loads(text)

    def timings(given: dict[str, Any]) -> dict[str, Timing]:
        return {name: Timing(**t) for name, t in given.items()}

    return Machine(**found["machine"]), [
        Row(**(r | {"timings": timings(r["timings"]), "beside": timings(r["beside"])})) for r in found["rows"]
    ]


def as_markdown(machine: Machine, rows: Sequence[Row]) -> str:
    """A table with a row for each case: our time, our share of the limit, and our time relative to each way's."""
    peers = list(dict.fromkeys(way for row in rows for way in row.timings if way != OURS))
    head = ["case", "ours", "of the limit", *peers]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        ratios = [f"{row.ratio(OURS, way):.2f}" if way in row.timings else "" for way in peers]
        lines.append(
            "| " + " | ".join([row.name, _shown(row.timings[OURS]), f"{100 * row.share(OURS):.0f} %", *ratios]) + " |"
        )
    return f"Measured with {machine}.\n\n" + "\n".join(lines) + "\n"


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Our time in each case relative to JAX by hand, with donated results and with fresh ones."""
    pairs = ((OURS, HAND), (OURS_FRESH, HAND_FRESH))
    return {
        f"{row.name}: {way}": row.ratio(way, peer)
        for row in rows
        for way, peer in pairs
        if way in row.timings and peer in row.timings
    }


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
