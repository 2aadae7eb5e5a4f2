"""Good kernels with one rule broken by program: nearly all of them are refused."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tile"))

from fuzz_tile import sources

import tensorir.tile as tile
from tensorir.tile.nodes import Module, Operation, Region, Value
from tensorir.tile.operations import TABLE
from tensorir.tile.types import Tile, f64

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
