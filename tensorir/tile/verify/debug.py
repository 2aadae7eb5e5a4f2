"""Debug information: scopes of operations are those of their entry."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic
from tensorir.tile.locations import CallSite, Fused, LexicalBlock, Location, Named, Scope, Scoped, Subprogram
from tensorir.tile.nodes import Module, Operation, operations_of

__all__ = ["debug_findings"]


def debug_findings(module: Module) -> Iterator[Diagnostic]:
    """Scopes that belong to another function, or to none."""
    for op in module.operations:
        if op.name == "global" and _scope(op.location) is not None:
            yield Diagnostic("TV16", "the location of a global has no scope.", op.span)
        if op.name in ("entry", "testing$func"):
            yield from _of_entry(op)


def _of_entry(op: Operation) -> Iterator[Diagnostic]:
    name = op.attribute("sym_name")
    if isinstance(op.location, CallSite):
        yield Diagnostic("TV16", "the location of an entry is no call.", op.span)
        return
    own = _scope(op.location)
    if own is not None and not isinstance(own, Subprogram):
        yield Diagnostic("TV16", "the scope of an entry is a subprogram.", op.span)
        return
    if own is not None and own.linkage_name != name:
        yield Diagnostic(
            "TV16",
            f"the linkage name of the entry's scope is '{own.linkage_name}', and the entry is '{name}'.",
            op.span,
        )
    for inner in operations_of(op.regions[0]):
        scope = _subprogram(_scope(inner.location))
        if scope is not None and own is None:
            yield Diagnostic("TV16", f"{inner.name} has a scope, and its entry has none.", inner.span)
        elif scope is not None and scope != own:
            yield Diagnostic(
                "TV16", f"the scope of {inner.name} belongs to another function than its entry.", inner.span
            )


def _scope(at: Location | None) -> Scope | None:
    """The scope of a location, under its names; of a call that of the caller, of several the first that there is."""
    match at:
        case Scoped(_, scope):
            return scope
        case CallSite(_, inner) | Named(_, inner):
            return _scope(inner)
        case Fused(parts):
            return next((scope for part in parts if (scope := _scope(part)) is not None), None)
        case _:
            return None


def _subprogram(scope: Scope | None) -> Scope | None:
    while isinstance(scope, LexicalBlock):
        scope = scope.scope
    return scope
