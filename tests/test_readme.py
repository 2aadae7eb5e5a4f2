"""What the README shows is what happens."""

import ast
import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """What each line that is an expression gives, or prints, by its text; run as the cells of a notebook are."""
    found: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", README, re.DOTALL)):
        name = f"<block {number} of the README>"
        linecache.cache[name] = len(block), None, block.splitlines(keepends=True), name
        for statement in ast.parse(block).body:
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), name, "exec"), scope)
                continue
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                value = eval(compile(ast.Expression(statement.value), name, "eval"), scope)
            text = ast.get_source_segment(block, statement)
            assert text is not None
            found[text] = printed.getvalue() if value is None else value
    return {**found, **scope}


def stated(text: str) -> str:
    """What the README says beside a line."""
    (line,) = [line for line in README.splitlines() if line.startswith(text)]
    return line.removeprefix(text).partition("#")[2].strip()


def test_the_code_of_the_readme_runs(shown):
    assert shown["smoother"].dims == ("J", "I")
    assert shown["smoother"].attrs["units"] == "m"
    np.testing.assert_array_equal(shown["kept"].time, [0, 50, 100, 150, 200])


@pytest.mark.parametrize(
    "text",
    [
        'around(x=np.ones(642))["out"].min()',
        "print(product)",
        "ti.compile(product.fencil).raised()",
        "ti.compile(product.fencil, raising=()).raised()",
    ],
)
def test_what_stands_beside_a_line_is_what_it_gives(shown, text):
    assert stated(text).partition(": the ")[0].partition(": step")[0] in str(shown[text])


def test_the_report_of_the_readme_ends_as_it_says(shown):
    assert shown["print(product.report)"].rstrip().endswith(stated("print(product.report)").removeprefix("... "))


def test_the_intermediates_of_the_readme_are_found(shown):
    by_line, by_expression = shown['seen.at(3), seen.find("laplacian(h)")']
    assert list(by_line) == list(by_expression) == ["bend"]
    assert by_line["bend"].identical(shown['seen["bend"]'])


def test_the_error_of_the_readme_is_what_is_said():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse("smooth(out: tensor<float, I[0:5]>, h: tensor<float, I[0:5]>) {\n  out ← h + ⟪I, 1⟫(h);\n}")
    assert str(refused.value) in README
