"""Damaged inputs are read or refused: 1,000 here, 20,000 by `make fuzz`."""

import pytest
from fuzz_tile import failures

import tensorir.tile as tile


def test_damaged_texts_and_files_are_read_or_refused():
    assert list(failures(1000, 35)) == []


def test_damaged_texts_and_files_take_little_memory():
    assert list(failures(60, 36, memory=True)) == []


@pytest.mark.parametrize("bad", (None, 7, b"", "x" * 10, [1], b"\x7fTileIR\x00"))
def test_what_is_neither_text_nor_bytecode_is_refused(bad):
    for read in (tile.parse, tile.from_bytecode):
        with pytest.raises(tile.DiagnosticError):
            read(bad)


def test_deep_nesting_is_refused_and_long_chains_are_read():
    deep = "entry @k(%c: tile<i1>) {" + "if %c {" * 5000 + "}" * 5000 + "}"
    with pytest.raises(tile.DiagnosticError, match="regions nest at most 100 deep"):
        tile.parse(deep)
    chain = "\n".join(f"%x{k + 1} = addi %x{k}, %x{k} : tile<i32>" for k in range(10_000))
    module = tile.parse(f"entry @k(%x0: tile<i32>) {{\n{chain}\n}}")
    assert tile.verify(module) == () and tile.parse(str(module)) == module
    assert tile.from_bytecode(tile.to_bytecode(module)) == module
    assert tile.interpret(module, "k", [1]) == []


def test_reading_is_linear_in_the_operations():
    from tests.effort import count_calls

    def reading(count):
        chain = "\n".join(f"%x{k + 1} = addi %x{k}, %x{k} : tile<i32>" for k in range(count))
        text = f"entry @k(%x0: tile<i32>) {{\n{chain}\n}}"
        return count_calls(lambda: tile.from_bytecode(tile.to_bytecode(tile.parse(text))))

    assert reading(400) < 2.2 * reading(200)
