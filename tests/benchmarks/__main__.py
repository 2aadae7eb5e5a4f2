"""The table of benchmarks: `python -m tests.benchmarks [names] [--quick]`, or `make bench`.

Each case is written by us, by hand in the best JAX, in plain JAX as most would write it, in Numba, in C with OpenMP,
and by the peer of its field. Results are compared first; then all ways take turns. One case, quickly:
`python -m tests.benchmarks tridiagonal --quick`. A name asks for all cases that have it in theirs. Behind the table
come figures: overhead of calls, first calls, loading, peak memory.

`--compare OLD.json` measures what that file has ratios to JAX by hand of, and fails where two measurements in a row
are worse by more than 15 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax

import tensorir as ti
from tests.benchmarks.case import Absent, Case
from tests.benchmarks.cases import CASES
from tests.benchmarks.figures import FIGURES, Figure
from tests.benchmarks.machine import measured
from tests.benchmarks.table import Row, as_json, as_markdown, as_text, from_json, measure, placed, ratios, worse


def chosen(names: Sequence[str], quick: bool) -> tuple[list[Case], list[str]]:
    """The cases, and the names of figures, that were asked for: without names all, or the quick ones of all.

    >>> [case.name for case in chosen(["laplacian"], quick=True)[0]], chosen(["memory"], quick=True)
    (['laplacian 2048x2048'], ([], ['memory']))
    """
    cases = [c for c in CASES if (any(n in c.name for n in names) if names else c.quick or not quick)]
    return cases, [name for name in FIGURES if not names or name in names]


def run(
    cases: Sequence[Case], figures: Sequence[str], quick: bool, built: bool = False
) -> tuple[list[Row], list[Figure], list[AssertionError]]:
    """What was asked for, each printed as it is measured, and the cases whose ways do not agree.

    `built`: also the ways whose compilers take minutes.
    """
    rows: list[Row] = []
    apart: list[AssertionError] = []
    for case in cases:
        try:
            rows.append(measure(case, seconds=1.5 if quick else 12.0, whole=built))
        except Absent as why:
            print(why, flush=True)
        except AssertionError as error:
            apart.append(error)
            print(error, flush=True)
        else:
            print(as_text(rows[-1], measured(1 << 23, 512, 2)), flush=True)
    found: list[Figure] = []
    for name in figures:
        for figure in FIGURES[name](1 if quick else 3):
            found.append(figure)
            print(figure, flush=True)
    return rows, found, apart


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").split("\n")[0])
    options.add_argument("names", nargs="*", help="parts of names of cases, or names of figures; none asks for all")
    options.add_argument("--quick", action="store_true", help="fewer cases and rounds, and no slow builders")
    options.add_argument("--json", type=Path, metavar="FILE", help="everything that was measured")
    options.add_argument(
        "--markdown", type=Path, metavar="FILE", help="the table, between the marks of a page that has them"
    )
    options.add_argument("--picture", type=Path, metavar="FILE", help="the ratios as a picture: .svg, .png")
    options.add_argument("--compare", type=Path, metavar="OLD", help="the JSON of an older run, to be no worse than")
    options.add_argument("--kept", type=float, metavar="GIB", help="memory that the process keeps for arrays to come")
    o = options.parse_args(arguments)
    if o.kept is not None:
        ti.config.kept_memory.limit = int(o.kept * 2**30)
    with jax.enable_x64(True):
        machine = measured()
        print(machine, flush=True)
        if o.compare:
            _, rows, figures = from_json(o.compare.read_text())
            kept, names = ratios(rows, figures), {row.name for row in rows}
            again = [case for case in CASES if case.name in names]
            runs = [run(again, list(FIGURES) if figures else [], o.quick) for _ in range(2)]
            found = worse(kept, *(ratios(rows, figures) for rows, figures, _ in runs))
            found += [str(error) for error in runs[-1][2]]
            print("\n".join(found) or "no ratio is worse than what is kept")
            return len(found)
        rows, figures, apart = run(*chosen(o.names, o.quick), o.quick, built=not o.quick)
        machine = machine.or_better(measured())
    if o.json:
        o.json.write_text(as_json(machine, rows, figures))
    if o.markdown:
        page = o.markdown.read_text() if o.markdown.exists() else ""
        o.markdown.write_text(placed(page, as_markdown(machine, rows, figures)))
    if o.picture:
        from tests.benchmarks.picture import picture

        picture(rows, o.picture)
    return len(apart)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
