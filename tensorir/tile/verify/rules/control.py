"""Entries, branches and loops: their signatures, what they carry, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tensorir.tile.attributes import Typed
from tensorir.tile.nodes import Operation, Value
from tensorir.tile.types import Function, TensorView, Tile, TileView, Type

__all__ = ["RULES"]

_VIEWS = (TensorView, *TileView.__args__)


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _no_views(op: Operation, values: Sequence[Value], what: str) -> Iterator[tuple[str, str]]:
    for value in values:
        if isinstance(value.type, _VIEWS):
            yield "TV09", f"{what} of {op.name} is no view, and {value.type} is one."


def _entry(op: Operation) -> Iterator[tuple[str, str]]:
    signature = op.attribute("function_type")
    assert isinstance(signature, Typed) and isinstance(signature.type, Function)
    params, results = signature.type.params, signature.type.results
    arguments = tuple(v.type for v in op.regions[0].arguments)
    if arguments != params:
        yield "TV14", f"the body of {op.name} takes {_listed(arguments)}, and its signature says {_listed(params)}."
    if op.name != "entry":
        return
    if results:
        yield "TV14", f"an entry gives nothing, and this gives {_listed(results)}."
    for type in params:
        if isinstance(type, Tile) and type.shape:
            yield "TV14", f"a parameter of an entry is a scalar, and {type} is none."


def _if(op: Operation) -> Iterator[tuple[str, str]]:
    yield from _no_views(op, op.results, "a result")
    if op.results and len(op.regions) < 2:
        yield "TV09", "an if with results has an else."
    wanted = [v.type for v in op.results]
    for region in op.regions:
        end = region.operations[-1] if region.operations else None
        if end is not None and end.name == "yield" and [v.type for v in end.values] != wanted:
            given = _listed([v.type for v in end.values])
            yield "TV09", f"a branch of this if yields {_listed(wanted)}, and not {given}."


def _for(op: Operation) -> Iterator[tuple[str, str]]:
    carried = [v.type for v in op.operand("initValues")]
    yield from _no_views(op, op.operand("initValues"), "a carried value")
    arguments = [v.type for v in op.regions[0].arguments]
    index = op.operand("lowerBound").type
    if arguments != [index, *carried]:
        yield "TV09", f"the body of for takes {_listed([index, *carried])}, and not {_listed(arguments)}."
    if [v.type for v in op.results] != carried:
        yield "TV09", f"for gives what it carries, {_listed(carried)}, and not {_listed([v.type for v in op.results])}."


def _loop(op: Operation) -> Iterator[tuple[str, str]]:
    carried = [v.type for v in op.operand("initValues")]
    yield from _no_views(op, op.operand("initValues"), "a carried value")
    yield from _no_views(op, op.results, "a result")
    arguments = [v.type for v in op.regions[0].arguments]
    if arguments != carried:
        yield "TV09", f"the body of loop takes {_listed(carried)}, and not {_listed(arguments)}."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "entry": _entry,
    "testing$func": _entry,
    "if": _if,
    "for": _for,
    "loop": _loop,
}
