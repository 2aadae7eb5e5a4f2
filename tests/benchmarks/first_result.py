"""How soon something is seen: `python -m tests.benchmarks.first_result`.

Horizontal diffusion is traced and typed, with the names of its variables. Then the first two cells of
`01_first_stencil` run in a kernel that has just started: imports, an operator, and its value on real terrain,
compiled. Seconds of the kernel's own processor are shown beside those on the clock, since machines are shared.
"""

from __future__ import annotations

import time
from pathlib import Path

import tensorir as ti

I, J = ti.dims("I J")


@ti.field_operator
def laplacian(f):
    return f(I + 1) + f(I - 1) + f(J + 1) + f(J - 1) - 4 * f


@ti.field_operator
def hdiff(inp, coeff):
    lap = laplacian(inp)
    rise_x, rise_y = lap(I + 1) - lap, lap(J + 1) - lap
    flx = ti.where(rise_x * (inp(I + 1) - inp) > 0.0, 0.0, rise_x)
    fly = ti.where(rise_y * (inp(J + 1) - inp) > 0.0, 0.0, rise_y)
    return inp - coeff * (flx - flx(I - 1) + fly - fly(J - 1))


FIRST = Path(__file__).parents[2] / "notebooks" / "01_first_stencil.ipynb"


def seconds() -> tuple[float, float]:
    """On the clock and of the processor, from the first import to the first result."""
    import nbclient
    import nbformat

    cells = [c.source for c in nbformat.read(FIRST, as_version=4).cells if c.cell_type == "code"][:2]
    clock = "import time; began = time.perf_counter(), time.process_time()"
    shown = "print(time.perf_counter() - began[0], time.process_time() - began[1])"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in (clock, *cells, shown)])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    wall, own = notebook.cells[-1].outputs[0].text.split()
    return float(wall), float(own)


def tracing() -> float:
    """Seconds from the function to its fencil."""
    kind = ti.tensor("float", I=(0, 256), J=(0, 256))
    hdiff.plans.clear()
    began = time.perf_counter()
    hdiff.fencil(inp=kind, coeff=kind)
    return time.perf_counter() - began


def main() -> None:
    first = tracing()
    print(f"tracing hdiff: {1e3 * first:.1f} ms the first time, {1e3 * min(tracing() for _ in range(20)):.1f} ms after")
    for wall, own in (seconds() for _ in range(5)):
        print(f"first result after {wall:.2f} s, {own:.2f} s of the processor")


if __name__ == "__main__":
    main()
