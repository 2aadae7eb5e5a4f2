"""Loops by hand, compiled on the spot: by Numba, and by the C compiler with OpenMP.

Both are given the output buffers, then the inputs by name, and write in place. The C function sees the sizes of the
problem as macros (`N` for `n`), the element type as `T`, and its arrays as pointers. Both use as many threads as XLA
does: all processors.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.case import Absent, Problem, Run

__all__ = ["CLoops", "NumbaLoops", "prange"]

# a thread of OpenMP that spins after its loop takes the processor from the way whose turn is next
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    from numba import njit, prange
except ImportError:
    njit, prange = None, range

Buffers = Callable[[Problem], Sequence[np.ndarray]]
ELEMENTS = {"<f8": "double", "<f4": "float", "|u1": "unsigned char"}
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")


@dataclass(frozen=True)
class NumbaLoops:
    """`function(*buffers, *inputs)`, compiled by Numba; the first `results` buffers are the results."""

    function: Callable[..., None]
    buffers: Buffers
    names: tuple[str, ...]
    results: int = 1

    def __call__(self, problem: Problem) -> Run:
        if njit is None:
            raise Absent("Numba is not installed")
        # NumPy's division, since Python's raises for zero and so is not vectorised
        return self._run(
            njit(parallel=True, cache=True, error_model="numpy", fastmath={"contract"})(self.function), problem
        )

    def interpreted(self, problem: Problem) -> Run:
        """The same loops run by Python: what a test of small sizes takes, with or without Numba."""
        return self._run(self.function, problem)

    def _run(self, function: Callable[..., None], problem: Problem) -> Run:
        buffers = self.buffers(problem)
        given = [problem.arrays[name] for name in self.names]

        def run() -> Sequence[np.ndarray]:
            function(*buffers, *given)
            return buffers[: self.results]

        return run


@dataclass(frozen=True)
class CLoops:
    """`void run(buffers..., inputs...)` in C, with the sizes of the problem known, and `T` for the results' type."""

    source: str
    buffers: Buffers
    names: tuple[str, ...]
    results: int = 1

    def __call__(self, problem: Problem) -> Run:
        buffers = self.buffers(problem)
        macros = [f"-D{name.upper()}={size}L" for name, size in problem.sizes.items()]
        function = built(self.source, [*macros, f"-DT={ELEMENTS[buffers[0].dtype.str]}"])
        arrays = [*buffers, *(problem.arrays[name] for name in self.names)]
        assert all(a.flags.c_contiguous for a in arrays)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]

        def run(kept: Any = arrays) -> Sequence[np.ndarray]:
            function(*pointers)
            return buffers[: self.results]

        return run


def built(source: str, macros: Sequence[str] = ()) -> Any:
    """The C function `run` of a source."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Absent("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder, "loops.c"), Path(folder, "loops.so")
        text.write_text(source)
        done = subprocess.run([compiler, *FLAGS, *macros, str(text), "-lm", "-o", str(library)], capture_output=True)
        if done.returncode:
            said = done.stderr.decode().splitlines()
            raise Absent(f"the C compiler: {next((line for line in said if 'error' in line), said[0])}")
        function = ctypes.CDLL(str(library)).run
    function.restype = None
    return function
