"""reduce and scan: their operands, identities, results, and what may stand in their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorir.tile.attributes import Number
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Tile

__all__ = ["RULES"]


def _fold(op: Operation) -> Iterator[tuple[str, str]]:
    operands: Any = [v.type for v in op.operand("operands")]
    if not operands:
        yield "TV12", f"{op.name} folds at least one tile."
        return
    shape = operands[0].shape
    for type in operands:
        if type.shape != shape:
            yield "TV12", f"{op.name} folds tiles of one shape, and {type} differs from {operands[0]}."
    yield from _identities(op, operands)
    dim = op.attribute("dim")
    if not 0 <= dim < len(shape):
        yield "TV12", f"the dim of {op.name} is 0 to {len(shape) - 1}, and {dim} is not."
        return
    made = shape if op.name == "scan" else shape[:dim] + shape[dim + 1 :]
    wanted = [Tile(made, t.element) for t in operands]
    if [v.type for v in op.results] != wanted:
        said = ", ".join(map(str, wanted))
        given = ", ".join(str(v.type) for v in op.results) or "nothing"
        yield "TV12", f"{op.name} gives {said} here, and not {given}."
    yield from _body(op, operands)


def _identities(op: Operation, operands: list[Any]) -> Iterator[tuple[str, str]]:
    identities = op.attribute("identities").items
    if len(identities) != len(operands):
        yield "TV12", f"{op.name} has an identity for each of {len(operands)} operands, and not {len(identities)}."
        return
    for k, (item, type) in enumerate(zip(identities, operands, strict=True)):
        name = item.element.name if isinstance(item, Number) else "i1" if isinstance(item, bool) else ""
        if not name:
            yield "TV12", f"identity {k} of {op.name} is no number."
        elif name != str(type.element) and {name, str(type.element)} != {"f16", "bf16"}:
            yield "TV12", f"identity {k} of {op.name} is of type {name}, and its operand of {type.element}."


def _body(op: Operation, operands: list[Any]) -> Iterator[tuple[str, str]]:
    body = op.regions[0]
    wanted = [Tile((), t.element) for t in operands for _ in range(2)]
    if [v.type for v in body.arguments] != wanted:
        said = ", ".join(map(str, wanted))
        yield "TV12", f"the body of {op.name} takes an accumulator and an element for each operand: {said}."
    if not body.operations or body.operations[-1].name != "yield":
        yield "TV12", f"the body of {op.name} ends in yield."
    else:
        given = [v.type for v in body.operations[-1].values]
        if given != wanted[::2]:
            said = ", ".join(map(str, wanted[::2]))
            yield "TV12", f"the body of {op.name} yields {said}, and not {', '.join(map(str, given)) or 'nothing'}."
    for inner in body.operations[:-1]:
        if not inner.row.pure:
            yield "TV12", f"{inner.name} stands in the body of {op.name}, which only computes."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {"reduce": _fold, "scan": _fold}
