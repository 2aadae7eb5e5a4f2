"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

import tensorir as ti

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_code_of_the_readme_runs():
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["smoother"].dims == ("J", "I")
    assert scope["smoother"].attrs["units"] == "m"
    assert scope["around"](x=[1.0] * 642)["out"].min() == 5.0


def test_the_error_of_the_readme_is_what_is_said():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse("smooth(out: tensor<float, I[0:5]>, h: tensor<float, I[0:5]>) {\n  out ← h + ⟪I, 1⟫(h);\n}")
    assert str(refused.value) in README
