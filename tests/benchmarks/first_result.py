"""From a fresh notebook to its first result: `python -m tests.benchmarks.first_result`.

The first two cells of `01_first_stencil` in a kernel that has just started: imports, an operator, and its value on real
terrain, compiled. Seconds of the kernel's own processor are shown beside those on the clock, since machines are shared.
"""

from __future__ import annotations

from pathlib import Path

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


def main() -> None:
    for wall, own in (seconds() for _ in range(5)):
        print(f"first result after {wall:.2f} s, {own:.2f} s of the processor")


if __name__ == "__main__":
    main()
