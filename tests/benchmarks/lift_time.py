"""How long a lift takes: `python -m tests.benchmarks.lift_time [rounds]`, over all conformance modules of TIR.

Each module is parsed anew for every round, and only the lift is timed, in time of the processor; the best round counts.
The first lift of a process, which loads what lifting needs, is timed in a process of its own. Prints the distribution
and the slowest ten.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensorir as ti
from tensorir.runtime.errors import DiagnosticError

CONFORMANCE = Path(__file__).parents[3] / "shared" / "conformance" / "tir"

FIRST = """
import time
import tensorir as ti
function = ti.tir.parse('''
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * A[i]
''')["main"]
start = time.process_time()
ti.lift(function)
print(time.process_time() - start)
"""


def lifted(file: Path) -> float | None:
    """The seconds that the lift of a module takes, at the sizes of its arrays; None for what is refused."""
    data = np.load(file.with_suffix(".npz"))
    meta: dict[str, Any] = json.loads(str(data["meta"]))
    arrays = [data[f"arg{k}"] for k in range(len(meta["args"]))]
    function = ti.tir.parse(file.read_text(), file.stem)[meta["func"]]
    start = time.process_time()
    try:
        program = ti.lift(function)
        program.at(program.sizes_of(arrays))
    except DiagnosticError:
        return None
    return time.process_time() - start


def main(rounds: int) -> None:
    files = sorted(CONFORMANCE.glob("*.py"))
    lifted(files[0])
    times: dict[str, float] = {}
    for _ in range(rounds):
        for file in files:
            seconds = lifted(file)
            if seconds is not None:
                times[file.stem] = min(seconds, times.get(file.stem, seconds))
    ordered = sorted(times.values())
    shown = {q: ordered[min(len(ordered) - 1, int(q / 100 * len(ordered)))] for q in (50, 90, 95, 99)}
    print(f"{len(ordered)} modules, {rounds} rounds; in milliseconds:")
    print(
        ", ".join(f"{q} % within {1e3 * t:.1f}" for q, t in shown.items()), f"mean {1e3 * statistics.mean(ordered):.1f}"
    )
    for name in sorted(times, key=lambda n: -times[n])[:10]:
        print(f"{1e3 * times[name]:8.1f}  {name}")
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    print(f"the first lift of a process: {1e3 * float(done.stdout):.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
