"""`docs/language.md` has every builtin of the table, and its examples run and give what the page says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorir as ti
from tensorir.ir.builtins import TABLE
from tensorir.ir.nodes import Call
from tensorir.ir.rewrite import postorder
from tensorir.ir.types import TensorType

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \| .+? → .+? \| (.+?) \| `(.+?)` is `(.+?)` \|$", re.MULTILINE)
ROWS = {row[0]: [cell.replace("\\|", "|") for cell in row[1:]] for row in ROW.findall(PAGE)}
SECTIONS = re.findall(r"^#### `(\w+)`\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = re.findall(r"```example\n(.*?)\n```", PAGE, re.DOTALL)
FENCILS = re.findall(r"```fencil\n(.*?)```", PAGE, re.DOTALL)


def value_of(text: str) -> Any:
    return eval(re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text)), {"nan": np.nan, "inf": np.inf})


def arrays(kind: TensorType, value: Any) -> Any:
    """Nested lists as an array, of tuples as a tuple of arrays."""
    leaves = [leaf.name for leaf in kind.leaves]
    if len(leaves) == 1:
        return np.array(value, leaves[0])
    return tuple(np.array([point[k] for point in value], leaf) for k, leaf in enumerate(leaves))


def assert_gives(inputs: list[str], expression: str, kind: str, value: Any, ulp: int = 0) -> None:
    declared = [text.split(" = ")[0] for text in inputs]
    f = ti.parse(f"f({', '.join([f'out: {kind}', *declared])}) {{ out ← {expression}; }}")
    assert f.closures[0].value.type == f.params[0].type
    types = {p.name: p.type for p in f.params}
    data = {text.split(":")[0]: value_of(text.split(" = ", 1)[1]) for text in inputs}
    with np.errstate(all="ignore"):
        got = ti.reference.run(f, **{name: arrays(types[name], v) for name, v in data.items()})["out"]
    want = arrays(types["out"], value)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, got)), strict=True):
        assert a.shape == b.shape
        if ulp:
            np.testing.assert_array_max_ulp(a, b, ulp)
        else:
            np.testing.assert_array_equal(a, b)


def test_every_builtin_has_an_entry_and_each_once():
    listed = [row[0] for row in ROW.findall(PAGE)] + [name for name, _ in SECTIONS]
    assert sorted(listed) == sorted(TABLE)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_the_table_says(name):
    written, doc, _, _ = ROWS[name]
    row = TABLE[name]
    assert row.elementwise
    assert doc == row.doc
    glyph = next((g for g in row.glyphs if g in written), None)
    assert glyph or written.startswith((f"{name}(", "if "))


@pytest.mark.parametrize("name", ROWS)
def test_the_example_of_a_row_has_the_value_of_the_row(name):
    _, _, expression, value = ROWS[name]
    found = value_of(value)
    kind = {bool: "bool", int: "int", float: "float"}[type(found)]
    if cast := re.match(r"(int8)\(", expression):
        kind = cast[1]
    assert name in expression or any(g in expression for g in TABLE[name].glyphs)
    assert_gives([], expression, f"tensor<{kind}>", found, ulp=4 if TABLE[name].transcendental else 0)


@pytest.mark.parametrize(("name", "text"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_a_section_shows_the_builtin_in_an_example(name, text):
    example = re.search(r"```example\n(.*?)\n```", text, re.DOTALL)
    assert example
    *inputs, last = example[1].split("\n")
    expression, result = last.rsplit(" : ", 1)
    declared = [text.split(" = ")[0] for text in (f"out: {result}", *inputs)]
    f = ti.parse(f"f({', '.join(declared)}) {{ out ← {expression}; }}")
    assert name in {e.op for e in postorder(f.closures[0].value) if isinstance(e, Call)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_the_type_and_the_value_of_the_page(example):
    *inputs, last = example.split("\n")
    expression, result = last.rsplit(" : ", 1)
    kind, value = result.split(" = ", 1)
    assert_gives(inputs, expression, kind, value_of(value))


@pytest.mark.parametrize("text", FENCILS)
def test_a_fencil_of_the_page_is_a_program(text):
    f = ti.parse(text)
    assert ti.parse(str(f)) == f
