"""Names of entries and globals: each given once, and each use finds its global."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic, Note, did_you_mean
from tensorir.tile.nodes import Module, Operation, operations_of
from tensorir.tile.types import Pointer, Tile

__all__ = ["symbol_findings"]

_NAMED = ("entry", "global", "testing$func", "module")


def symbol_findings(module: Module) -> Iterator[Diagnostic]:
    """Names that are given twice, and globals that are not there or hold other elements."""
    yield from _of(module.operations)


def _of(operations: tuple[Operation, ...]) -> Iterator[Diagnostic]:
    known: dict[str, Operation] = {}
    for op in operations:
        if op.name not in _NAMED:
            continue
        name = op.attribute("sym_name")
        if name is None:
            continue
        if name in known:
            yield Diagnostic(
                "TV11", f"'@{name}' is defined twice.", op.span, (Note("it is defined here.", known[name].span),)
            )
        known.setdefault(name, op)
    for op in operations:
        if op.name == "module":
            for region in op.regions:
                yield from _of(region.operations)
            continue
        for region in op.regions:
            for inner in operations_of(region):
                if inner.name == "get_global" and inner.attribute("name") is not None:
                    yield from _used(inner, known)


def _used(op: Operation, known: dict[str, Operation]) -> Iterator[Diagnostic]:
    name = op.attribute("name")
    found = known.get(name)
    if found is None or found.name != "global":
        globals_ = [n for n, o in known.items() if o.name == "global"]
        yield Diagnostic("TV11", f"there is no global '@{name}'.", op.span, (), did_you_mean(name, globals_))
        return
    element, type = found.attribute("value").type.element, op.results[0].type
    if type != Tile((), Pointer(element)):
        note = Note("the global is defined here.", found.span)
        yield Diagnostic("TV11", f"'@{name}' holds {element}, and get_global gives {type}.", op.span, (note,))
