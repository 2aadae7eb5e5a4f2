"""Tests that only `make nightly` runs: `python -m tests.durations SECONDS [limit]` writes `nightly.txt` anew.

SECONDS is a file that `NIGHTLY=1 pytest --seconds=SECONDS` wrote: processor seconds by test, with the fixtures that
it was the first to ask for, which other work on the machine changes little. A test that takes longer than the limit
is nightly; of the tests that one function makes, of programs with one title (`title: program`), the quickest stays.

A line of the table is a function and, after tabs, which of its cases are nightly: all without a word, names with `*`
for any text, and after `!` those that run by day nevertheless.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

__all__ = ["TABLE", "nightly", "rules", "slow"]

TABLE = Path(__file__).with_name("nightly.txt")
LIMIT = 1.0


def nightly(tests: Iterable[str], table: str) -> set[str]:
    """The tests that a table has.

    >>> sorted(nightly(["a.py::f[1]", "a.py::f[2]", "a.py::g[b c]", "a.py::g[b d]"], "a.py::f\\t*\\t!2\\na.py::g\\t*d"))
    ['a.py::f[1]', 'a.py::g[b d]']
    """
    lines = {function: patterns for function, *patterns in (line.split("\t") for line in table.splitlines())}

    def named(test: str) -> bool:
        function, _, case = test.partition("[")
        if (patterns := lines.get(function)) is None:
            return False
        day = [p[1:] for p in patterns if p.startswith("!")]
        night = [p for p in patterns if not p.startswith("!")] or ["*"]
        return _fits(case[:-1], night) and not _fits(case[:-1], day)

    return {test for test in tests if named(test)}


def _fits(case: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, p.split("*"))), case, re.DOTALL) for p in patterns)


def slow(seconds: Mapping[str, float], limit: float = LIMIT) -> set[str]:
    """The tests that take longer than the limit, without the quickest of each function or title.

    >>> slow({"a.py::f[1]": 3.0, "a.py::f[2]": 4.0, "a.py::g": 5.0, "a.py::h[1]": 1.0})
    {'a.py::f[2]'}
    """
    families: dict[str, list[str]] = defaultdict(list)
    for test in seconds:
        function, _, name = test.partition("[")
        title, of_several, _ = name.partition(": ")
        families[f"{function}[{title}" if of_several else function].append(test)
    kept = {min(family, key=seconds.__getitem__) for family in families.values()}
    return {test for test, taken in seconds.items() if taken > limit and test not in kept}


def rules(chosen: Set[str], tests: Iterable[str]) -> Iterator[str]:
    """Lines of a table that has the chosen ones of all tests and no others.

    >>> list(rules({"a.py::f[x 1]", "a.py::f[x 2]"}, ["a.py::f[x 1]", "a.py::f[x 2]", "a.py::f[y 1]", "a.py::f[z]"]))
    ['a.py::f\\tx *']
    """
    functions: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for test in tests:
        function, _, case = test.partition("[")
        functions[function][test in chosen].add(case[:-1])
    for function, (day, night) in sorted(functions.items()):
        if night:
            lines = [[*_patterns(night, day)], ["*", *(f"!{p}" for p in _patterns(day, night))]] if day else [[]]
            yield "\t".join([function, *min(lines, key=lambda line: sum(map(len, line)))])


def _patterns(wanted: Set[str], others: Set[str]) -> list[str]:
    """Few patterns that fit what is wanted and nothing else: names, beginnings and ends; those that fit most first."""

    def ends(case: str) -> Iterator[str]:
        yield case
        for break_ in re.finditer(r"[^A-Za-z0-9]+", case):
            yield from (f"{case[: break_.end()]}*", f"*{case[break_.end() :]}")

    covers: dict[str, set[str]] = defaultdict(set)
    for case in wanted:
        for pattern in ends(case):
            covers[pattern].add(case)
    patterns: list[str] = []
    left = set(wanted)
    while left:
        best = max(sorted(covers), key=lambda p: (len(covers[p] & left), -len(p)))
        if any(_fits(case, [best]) for case in others):
            del covers[best]
        else:
            patterns.append(best)
            left -= covers[best]
    return patterns


if __name__ == "__main__":
    seconds = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tests = slow(seconds, float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT)
    TABLE.write_text("".join(f"{rule}\n" for rule in rules(tests, seconds)), encoding="utf-8")
    whole = sum(seconds.values())
    left = whole - sum(map(seconds.__getitem__, tests))
    print(f"{len(tests)} of {len(seconds)} tests are nightly; the others take {left:.0f} of {whole:.0f} s")
