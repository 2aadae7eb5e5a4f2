"""Notes on constant indices of extract that lead out of its tile: what that gives is undefined."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic
from tensorir.tile.attributes import Dense
from tensorir.tile.nodes import Module, Value, operations_of
from tensorir.tile.types import Tile

__all__ = ["index_notes"]


def index_notes(module: Module) -> Iterator[Diagnostic]:
    """A warning for each index that is known and too large."""
    known: dict[Value, int] = {}
    for op in operations_of(module):
        if op.name == "constant" and isinstance(value := op.attribute("value"), Dense) and value.is_splat:
            known.update((result, int.from_bytes(value.data, "little")) for result in op.results)
        if op.name != "extract":
            continue
        source, target = op.values[0].type, op.results[0].type
        if not isinstance(source, Tile) or not isinstance(target, Tile):
            continue
        for k, (index, whole, part) in enumerate(zip(op.operand("indices"), source.shape, target.shape, strict=False)):
            if known.get(index, 0) >= max(whole // part, 1):
                said = f"the index {known[index]} of dim {k} leads out of the {whole // part} slices of {source}."
                yield Diagnostic("TV17", said, op.span, severity="warning")
