"""The first program of `docs/gt4py.md` runs, and needs its last two lines where GT4Py builds in other processes."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import pytest

pytest.importorskip("gt4py.next")

ROOT = Path(__file__).parents[3]
PROGRAM = re.search(r"^```python\n(.*?)^```", (ROOT / "docs/gt4py.md").read_text("utf-8"), re.M | re.S)[1]
SAID = "\n".join(re.findall(r"print\(.*\)  # (.*)", PROGRAM))


@pytest.mark.filterwarnings("ignore")
def test_the_first_program_of_the_page_prints_what_it_says(tmp_path, capsys):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    with jax.enable_x64(True):  # as importing GT4Py does in a process of its own
        runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out == f"{SAID}\n"


@pytest.mark.nightly
@pytest.mark.parametrize("guarded", [True, False])
def test_builds_in_other_processes_need_the_guard(tmp_path, guarded):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM if guarded else PROGRAM.replace('if __name__ == "__main__":', "if True:"), encoding="utf-8")
    environment = {**os.environ, "GT4PY_BUILD_JOBS_MODE": "process", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, file], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == SAID if guarded else "BrokenProcessPool" in run.stderr
