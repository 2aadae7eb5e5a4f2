"""Each operation of the table: its syntax goes round, in the generic form too, and it means something."""

from pathlib import Path

import pytest

from tensorir.tile import from_bytecode, parse, to_bytecode, verify
from tensorir.tile.interpret.machine import _OTHERS, _TOUCHING
from tensorir.tile.interpret.meanings import MEANINGS
from tensorir.tile.operations import TABLE

RIGHT = (Path(__file__).parent / "every_operation.mlir").read_text(encoding="utf-8")


def test_every_operation_is_read_and_goes_round():
    module = parse(RIGHT)
    assert verify(module) == ()
    assert parse(str(module)) == module
    assert from_bytecode(to_bytecode(module)) == module


def test_the_module_above_has_every_operation():
    from tensorir.tile.nodes import operations_of

    assert {op.name for op in operations_of(parse(RIGHT))} == set(TABLE) - {"module", "testing$func"}


@pytest.mark.parametrize("version", ("13.1", "13.2"))
def test_an_older_version_refuses_what_it_lacks_with_both_names(version):
    from tensorir.runtime.errors import DiagnosticError

    with pytest.raises(DiagnosticError, match=rf"is of version 13\.\d, and {version} is written"):
        to_bytecode(parse(RIGHT), version)


def test_every_operation_has_a_meaning():
    control = {row.name for row in TABLE.values() if row.ends} | {
        "module",
        "entry",
        "testing$func",
        "global",
        "if",
        "for",
        "loop",
    }
    assert set(MEANINGS) | set(_OTHERS) | set(_TOUCHING) == set(TABLE) - control
    assert not set(MEANINGS) & set(_OTHERS) and not set(MEANINGS) & set(_TOUCHING)
