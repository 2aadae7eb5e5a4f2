"""Small functions of Relax, one or more per operator: parameters with shapes and types, and what is returned.

In `relax_operators.txt` values stand below their parameters; `R.{abs exp}(x)` is one of each operator.
"""

from collections.abc import Iterator
from pathlib import Path


def _functions() -> Iterator[tuple[str, str]]:
    params = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            params = line
            continue
        before, brace, rest = line.strip().partition("{")
        names, _, after = rest.partition("}")
        yield from ((params, f"{before}{name}{after}") for name in (names.split() if brace else [""]))


FUNCTIONS = list(_functions())
