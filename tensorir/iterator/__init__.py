"""Iterator IR, the IR of GT4Py: read, lifted to tensor IR, and run as a backend of GT4Py.

`from_gt4py(program, sizes={"K": 65})` reads a program of GT4Py, and `ti.lift` makes a tensor program of it;
`tensorir.iterator.gt4py_backend` has the backends `xla_cpu` and `xla_gpu`. `record()` makes one function of all
programs that run in a block.
"""

from __future__ import annotations

from tensorir.iterator.imports import Imported, from_gt4py
from tensorir.iterator.nodes import Program
from tensorir.iterator.recorded import RecordedStep, record
from tensorir.iterator.text import parse

__all__ = ["Imported", "Program", "RecordedStep", "from_gt4py", "parse", "record"]
