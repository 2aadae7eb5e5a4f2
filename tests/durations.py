"""Tests that only `make nightly` runs: `python -m tests.durations SECONDS [limit]` writes `nightly.txt` anew.

SECONDS is a file that `NIGHTLY=1 pytest --seconds=SECONDS` wrote: processor seconds by test, with the fixtures that
it was the first to ask for, which other work on the machine changes little. A test that takes longer than the limit
has a line in `nightly.txt`; of the tests that one function makes, of programs with one title (`title: program`), the
quickest stays.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

__all__ = ["TABLE", "slow"]

TABLE = Path(__file__).with_name("nightly.txt")
LIMIT = 1.0


def slow(seconds: Mapping[str, float], limit: float = LIMIT) -> list[str]:
    """The tests that take longer than the limit, without the quickest of each function or title.

    >>> slow({"a.py::f[1]": 3.0, "a.py::f[2]": 4.0, "a.py::g": 5.0, "a.py::h[1]": 1.0})
    ['a.py::f[2]']
    """
    families: dict[str, list[str]] = defaultdict(list)
    for test in seconds:
        function, _, name = test.partition("[")
        title, of_several, _ = name.partition(": ")
        families[f"{function}[{title}" if of_several else function].append(test)
    kept = {min(family, key=seconds.__getitem__) for family in families.values()}
    return sorted(test for test, taken in seconds.items() if taken > limit and test not in kept)


if __name__ == "__main__":
    seconds = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tests = slow(seconds, float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT)
    TABLE.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
    whole = sum(seconds.values())
    left = whole - sum(map(seconds.__getitem__, tests))
    print(f"{len(tests)} of {len(seconds)} tests are nightly; the others take {left:.0f} of {whole:.0f} s")
