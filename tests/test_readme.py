"""The code and the commands of the README and of the tour give what stands beside them."""

import ast
import contextlib
import io
import linecache
import os
import re
import shlex
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from stencils.cli import main

ROOT = Path(__file__).parent.parent
README = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/tour.md"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> dict[str, Any]:
    """What each line that is an expression gives, or prints, by its text; run as the cells of a notebook are.

    Code and commands run in their order, in a folder that is empty before.
    """
    found: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("readme"))
    try:
        for number, (language, block) in enumerate(re.findall(r"```(python|sh)\n(.*?)```", README, re.DOTALL)):
            if language == "sh":
                found.update({line: commanded(line) for line in block.replace("\\\n", " ").splitlines()})
            else:
                run_block(f"<block {number} of the README>", block, scope, found)
        found["files"] = {path.name for path in Path().iterdir()}
    finally:
        os.chdir(before)
    return {**found, **scope}


def run_block(name: str, block: str, scope: dict[str, Any], found: dict[str, Any]) -> None:
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


def commanded(line: str) -> str:
    """What a command prints; of what would change this environment, that it names what there is."""
    words = shlex.split(line, comments=True)
    match words[0]:
        case "tensorir":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                try:
                    main(words[1:])
                except SystemExit as end:
                    assert not end.code, line
            return printed.getvalue()
        case "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        case "pip":
            (what,) = words[2:]
            name, _, extras = what.rstrip("]").partition("[")
            known = metadata("jax").get_all("Provides-Extra") if name == "jax" else EXTRAS
            assert name in (".", "jax") and set(filter(None, extras.split(","))) <= set(known), line
        case other:
            pytest.fail(f"the README has the command {other}, and nothing here runs it")
    return ""


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
        'stored["elevation"].sizes["time"]',
        "grown.sharding.is_equivalent_to(rows, 1)",
        "lazy.compute().equals(laplacian(terrain))",
        "slope(tracer).lonHalf.values[-1]",
        "print(product)",
        "ti.compile(product.fencil).raised()",
        "ti.compile(product.fencil, raising=()).raised()",
    ],
)
def test_what_stands_beside_a_line_is_what_it_gives(shown, text):
    assert re.split(": (?:the|step|it|nothing) ", stated(text))[0] in str(shown[text])


def test_the_report_of_the_readme_ends_as_it_says(shown):
    assert shown["print(product.report)"].rstrip().endswith(stated("print(product.report)").removeprefix("... "))


def test_the_slope_of_the_readme_is_that_of_a_wave(shown):
    slope = shown["slope"](shown["tracer"])
    want = 3 * np.cos(np.deg2rad(3 * slope.lonHalf)) / (6.371e6 * np.cos(np.deg2rad(slope.lat)))
    assert abs(slope - want.transpose("lat", "lonHalf")).max() < 2e-4 * want.max()


def test_the_intermediates_of_the_readme_are_found(shown):
    by_line, by_expression = shown['seen.at(3), seen.find("laplacian(h)")']
    assert list(by_line) == list(by_expression) == ["bend"]
    assert by_line["bend"].identical(shown['seen["bend"]'])


def test_the_error_of_the_readme_is_what_is_said():
    with pytest.raises(ti.DiagnosticError) as refused:
        ti.parse("smooth(out: tensor<float, I[0:5]>, h: tensor<float, I[0:5]>) {\n  out ← h + ⟪I, 1⟫(h);\n}")
    assert str(refused.value) in README


def test_the_commands_of_the_readme_write_what_they_say(shown):
    (line,) = [line for line in shown if line.startswith("tensorir run") and "filtered.png" in line]
    assert "written to filtered.nc" in shown[line] and "drawn to filtered.png" in shown[line]
    assert {"smooth.fencil", "terrain.nc", "filtered.nc", "filtered.png", "again.nc", "run.nc"} <= shown["files"]
