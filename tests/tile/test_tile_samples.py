"""The kernels of the conformance folder: text and bytecode are read, are equal, and go round."""

import pytest
from tile_samples import KERNELS, binary_of, named_as, needs_samples, text_of

from tensorir.tile import from_bytecode, parse, to_bytecode

pytestmark = needs_samples
each = pytest.mark.parametrize("folder", KERNELS, ids=lambda p: p.name)


@each
def test_text_and_bytecode_are_equal_modules(folder):
    text, binary = text_of(folder), binary_of(folder)
    assert text.entries[folder.name].attribute("function_type") == binary.operations[0].attribute("function_type")
    assert named_as(binary, text) == text


@each
def test_printing_and_parsing_gives_the_module_back(folder):
    module = text_of(folder)
    assert parse(str(module)) == module


@each
def test_lines_of_views_are_printed_as_the_dialect_prints_them(folder):
    given = (folder / "kernel.mlir").read_text(encoding="utf-8").splitlines()
    ours = str(text_of(folder)).splitlines()
    pick = lambda lines: [line.strip() for line in lines if "_view" in line and "sview" not in line]
    assert pick(ours) == pick(given)


@each
@pytest.mark.parametrize("debug", (True, False))
def test_writing_and_reading_bytecode_gives_the_module_back(folder, debug):
    module = binary_of(folder)
    again = from_bytecode(to_bytecode(module, debug=debug))
    assert again == module
    assert (again.operations[0].location == module.operations[0].location) is debug
