"""The programs of `docs/libraries.md` print what they say, in a process of their own, since they turn 64 bits on."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "libraries.md").read_text(encoding="utf-8")
LIBRARIES = ("diffrax", "lineax", "optax", "optimistix")


@pytest.mark.nightly
@pytest.mark.skipif(any(find_spec(name) is None for name in LIBRARIES), reason="diffrax and its kin are not installed")
def test_the_programs_with_other_libraries_print_what_the_page_says():
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == said and len(said) == 4
