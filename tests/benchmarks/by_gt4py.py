"""Ways through GT4Py's C++ backend for the CPU, gtfn_cpu, which compiles for a minute or two.

GT4Py is imported where a way is prepared: importing it turns 64 bits on in JAX for the whole process.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.benchmarks.case import Absent, Problem, Run

__all__ = ["hdiff", "tridiagonal"]


def _imported() -> Any:
    os.environ.setdefault("GT4PY_BUILD_JOBS_MODE", "serial")
    if find_spec("gt4py") is None:
        raise Absent("GT4Py is not installed")
    with warnings.catch_warnings():
        from tests.benchmarks import gt4py as programs
    return programs


def _run(programs: Any, operator: Any, arrays: Sequence[np.ndarray], out: np.ndarray, halo: int) -> Run:
    """An operator on fields along I, J and K, on what lies `halo` points inside along I and J."""
    compiled, gtx = operator.with_backend(programs.gtx.gtfn_cpu), programs.gtx
    n, m, l = out.shape
    whole = gtx.domain({programs.I: n, programs.J: m, programs.K: l})
    inner = {programs.I: (halo, n - halo), programs.J: (halo, m - halo), programs.K: (0, l)}
    given = [gtx.as_field(whole, a, allocator=gtx.gtfn_cpu) for a in arrays]
    into = gtx.as_field(whole, out, allocator=gtx.gtfn_cpu)
    shared = into.ndarray

    def run() -> Sequence[Any]:
        compiled(*given, out=into, domain=inner, offset_provider={})
        return [shared]

    with warnings.catch_warnings():
        # what it compiles with is said at the first run
        warnings.simplefilter("ignore")
        run()
    return run


def hdiff(problem: Problem) -> Run:
    programs = _imported()
    x, c = problem.arrays["inp"], problem.arrays["coeff"]
    return _run(programs, programs.limited, [x, c], x, halo=2)


def tridiagonal(problem: Problem) -> Run:
    programs = _imported()
    arrays = [problem.arrays[name] for name in "abcd"]
    return _run(programs, programs.vertical, arrays, np.zeros_like(arrays[0]), halo=0)
