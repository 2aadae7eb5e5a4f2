"""Values are defined before their use, and not used outside of their region: what only programs can build."""

import dataclasses

import pytest

import tensorir.tile as tile

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
