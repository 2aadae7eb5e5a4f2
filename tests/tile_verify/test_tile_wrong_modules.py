"""Wrong modules are refused, with the words that are pinned in `said.txt`, a line for each.

    15:15+3 TM41 '%zz' is not defined before this. help: known here: '%i', '%l' and 10 more.

Line, column and length of the place, code and message, then help and notes with their places. Diagnostics of one module
stand in one line with ` // ` between them. `python tests/tile_verify/test_tile_wrong_modules.py` writes the file.
"""

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from wrong_modules import ENTRY, texts

sys.path.insert(0, str(Path(__file__).parents[1] / "tile"))

from fuzz_tile import sources

import tensorir.tile as tile
from tensorir.runtime.errors import Diagnostic, DiagnosticError, Note, Span
from tensorir.tile.nodes import Module, Operation, Region, Value
from tensorir.tile.operations import TABLE
from tensorir.tile.types import Tile, f64

SAID = Path(__file__).parent / "said.txt"


def place(span: Span) -> str:
    return f"{span.line}:{span.column}+{span.stop - span.start}"


def line_of(d: Diagnostic) -> str:
    notes = [f" note {place(n.span)}: {n.message}" if isinstance(n, Note) else f" note: {n}" for n in d.notes]
    return f"{place(d.span)} {d.code} {d.message}{f' help: {d.help}' if d.help else ''}{''.join(notes)}"


def said_of(text: str) -> str:
    """The line of a text, or nothing where it is right."""
    try:
        tile.verify(tile.parse(text, "k.mlir"))
    except DiagnosticError as error:
        return " // ".join(map(line_of, error.diagnostics))
    return ""


WANTED = SAID.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("number", range(len(texts())))
def test_a_wrong_module_is_refused_in_the_words_that_are_pinned(number):
    assert said_of(texts()[number]) == WANTED[number] != ""


def test_there_are_as_many_answers_as_questions_and_more_than_200():
    assert len(WANTED) == len(texts()) >= 200


def test_the_entry_around_the_lines_is_right():
    assert tile.verify(tile.parse(ENTRY.format(""))) == ()


# Values are defined before their use, and not used outside of their region: what only programs can build.


MODULE = tile.parse("""entry @k(%c: tile<i1>, %i: tile<i32>) {
  %a = addi %i, %i : tile<i32>
  %r = if %c -> (tile<i32>) { %b = muli %i, %i : tile<i32> yield %b : tile<i32> } else { yield %a : tile<i32> }
  %d = subi %a, %r : tile<i32>
}""")


def rebuilt(operations):
    entry = MODULE.operations[0]
    body = dataclasses.replace(entry.regions[0], operations=tuple(operations))
    return dataclasses.replace(MODULE, operations=(dataclasses.replace(entry, regions=(body,)),))


def said(operations):
    with pytest.raises(tile.DiagnosticError) as found:
        tile.verify(rebuilt(operations))
    return [d.message for d in found.value.diagnostics]


ADD, BRANCH, SUB, END = MODULE.operations[0].regions[0].operations


def test_the_module_is_right_as_it_stands():
    assert tile.verify(rebuilt([ADD, BRANCH, SUB, END])) == ()


def test_a_value_is_defined_before_its_use():
    assert said([BRANCH, ADD, SUB, END]) == ["operand 0 of yield, %a: tile<i32>, is not defined before it."]


def test_a_value_of_a_region_ends_with_it():
    inner = BRANCH.regions[0].operations[0].results[0]
    outside = dataclasses.replace(SUB, operands=(SUB.operands[0], inner))
    assert said([ADD, BRANCH, outside, END]) == ["operand 1 of subi, %b: tile<i32>, is not defined before it."]


def test_a_result_is_not_defined_inside_of_its_own_regions():
    end = BRANCH.regions[1].operations[0]
    own = dataclasses.replace(BRANCH.regions[1], operations=(dataclasses.replace(end, operands=(BRANCH.results,)),))
    itself = dataclasses.replace(BRANCH, regions=(BRANCH.regions[0], own))
    assert said([ADD, itself, SUB, END]) == ["operand 0 of yield, %r: tile<i32>, is not defined before it."]


# Good kernels with one rule broken by program: nearly all of them are refused.


FOREIGN = tile.parse("entry @f() { %x = constant <f64: 1.0> : tile<2x2x2xf64> }").operations[0].regions[0].operations[0]
"""A constant of a type that no other operation of the kernels has."""
VALUE = FOREIGN.results[0]
ANYTHING = {"assume", "print_tko", "constant"}
"""Operations that take, or give, a tile of any type of numbers by themselves."""


def broken(op: Operation) -> Iterator[tuple[str, Operation]]:
    """An operation with one rule of its row broken."""
    row = op.row
    if op.name not in ANYTHING:
        for k, slot in enumerate(op.operands):
            if isinstance(slot, Value) and isinstance(slot.type, Tile):
                yield "operand", dataclasses.replace(op, operands=(*op.operands[:k], VALUE, *op.operands[k + 1 :]))
            if isinstance(slot, tuple) and slot and op.name not in ("for", "loop"):
                yield "fewer", dataclasses.replace(op, operands=(*op.operands[:k], slot[:-1], *op.operands[k + 1 :]))
        for k in range(len(op.results)):
            if isinstance(op.results[k].type, Tile):
                results = (*op.results[:k], Value(Tile((2, 2, 2), f64)), *op.results[k + 1 :])
                yield "result", dataclasses.replace(op, results=results)
    for k, attr in enumerate(row.attributes):
        wrong = next((c for c in attr.domain.cases if attr.only and c not in attr.only), None) if attr.domain else None
        if (
            attr.kind == "enum"
            and attr.domain is not None
            and attr.domain.noun == "rounding mode"
            and op.name != "ftoi"
        ):
            wrong = "nearest_int_to_zero"
        if wrong is not None:
            yield "case", dataclasses.replace(op, attributes=(*op.attributes[:k], wrong, *op.attributes[k + 1 :]))
        elif not attr.may_be_absent and op.name != "constant":
            yield "absent", dataclasses.replace(op, attributes=(*op.attributes[:k], None, *op.attributes[k + 1 :]))
    for k, region in enumerate(op.regions):
        if region.operations:
            cut = dataclasses.replace(region, operations=region.operations[:-1])
            yield "end", dataclasses.replace(op, regions=(*op.regions[:k], cut, *op.regions[k + 1 :]))
        more = dataclasses.replace(region, arguments=(*region.arguments, Value(VALUE.type)))
        yield "arguments", dataclasses.replace(op, regions=(*op.regions[:k], more, *op.regions[k + 1 :]))
    if row.ends and op.name != "return":
        yield "handed", dataclasses.replace(op, operands=((*op.values, VALUE),))
        yield "another end", dataclasses.replace(op, row=TABLE["return"], operands=((VALUE,),))


def mutants(module: Module) -> Iterator[tuple[str, Module]]:
    """The module with one operation broken, for each of them; results of it keep their uses where they can."""

    def inside(region: Region) -> Iterator[tuple[str, Region]]:
        for k, op in enumerate(region.operations):
            for kind, other in (*broken(op), *deeper(op)):
                yield (
                    kind,
                    dataclasses.replace(
                        region, operations=(*region.operations[:k], other, *region.operations[k + 1 :])
                    ),
                )

    def deeper(op: Operation) -> Iterator[tuple[str, Operation]]:
        for k, region in enumerate(op.regions):
            for kind, other in inside(region):
                yield kind, dataclasses.replace(op, regions=(*op.regions[:k], other, *op.regions[k + 1 :]))

    for k, op in enumerate(module.operations):
        if op.name != "entry":
            continue
        body = op.regions[0]
        whole = dataclasses.replace(op, regions=(dataclasses.replace(body, operations=(FOREIGN, *body.operations)),))
        for kind, other in deeper(whole):
            yield (
                kind,
                dataclasses.replace(module, operations=(*module.operations[:k], other, *module.operations[k + 1 :])),
            )


def test_kernels_with_one_rule_broken_are_refused():
    made, missed = Counter(), Counter()
    for text in sources()[0]:
        module = tile.parse(text)
        assert tile.verify(module) == ()
        for kind, mutant in mutants(module):
            made[kind] += 1
            try:
                tile.verify(mutant)
                missed[kind] += 1
            except tile.DiagnosticError:
                pass
    assert sum(made.values()) >= 300 and min(made.values()) >= 3
    assert sum(missed.values()) <= 0.05 * sum(made.values()), (made, missed)


if __name__ == "__main__":
    SAID.write_text("".join(f"{said_of(text)}\n" for text in texts()), encoding="utf-8")
