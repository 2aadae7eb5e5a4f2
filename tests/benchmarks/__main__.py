"""The table of benchmarks: `python -m tests.benchmarks [names] [--quick]`, or `make bench`.

Each case is written by us, by hand in the best JAX, in plain JAX as most would write it, in Numba, in C with OpenMP,
and by the peer of its field. Results are compared first; then all ways take turns. One case, quickly:
`python -m tests.benchmarks tridiagonal --quick`. A name asks for all cases that have it in theirs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import jax

from tests.benchmarks.machine import measured
from tests.benchmarks.table import Row, as_json, as_markdown, as_text, measure


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").split("\n")[0])
    options.add_argument("names", nargs="*", help="parts of the names of cases; none asks for all")
    options.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    options.add_argument("--json", type=Path, metavar="FILE", help="everything that was measured")
    options.add_argument("--markdown", type=Path, metavar="FILE", help="the table for the documents")
    o = options.parse_args(arguments)
    # a case by its whole name is measured also where --quick leaves it out
    with jax.enable_x64(True):
        from tests.benchmarks.cases import CASES

        machine = measured()
        print(machine, flush=True)
        rows: list[Row] = []
        for case in CASES:
            if any(n in case.name for n in o.names) if o.names else case.quick or not o.quick:
                rows.append(measure(case, machine, seconds=2.0 if o.quick else 15.0))
                print(as_text(rows[-1]), flush=True)
    if o.json:
        o.json.write_text(as_json(machine, rows))
    if o.markdown:
        o.markdown.write_text(as_markdown(machine, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
