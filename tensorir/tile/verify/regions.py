"""Where operations stand: what ends a region, from where a loop is left, and what is defined before its use."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.runtime.errors import Diagnostic
from tensorir.tile.attributes import Typed
from tensorir.tile.nodes import Module, Operation, Region, Value
from tensorir.tile.types import Function, Type

__all__ = ["region_findings"]

_ENDS = {
    "if": ("yield", "break", "continue", "return"), "for": ("continue",), "loop": ("continue", "break"),
    "entry": ("return",), "testing$func": ("return",), "reduce": ("yield",), "scan": ("yield",),
}  # fmt: skip
_SYMBOLS = ("module", "entry", "global", "testing$func")


def region_findings(module: Module) -> Iterator[Diagnostic]:
    """What stands in a wrong place; linear in the operations, and without recursion."""
    scope: set[Value] = set()
    for op in module.operations:
        if op.name not in _SYMBOLS:
            yield Diagnostic("TV09", f"{op.name} stands in a module, which holds entries and globals.", op.span)
        yield from _inside(op, scope)


def _inside(root: Operation, scope: set[Value]) -> Iterator[Diagnostic]:
    stack: list[tuple[tuple[Operation, ...], Region | None, int]] = []
    for region in reversed(root.regions):
        stack.append(((root,), region, -1))
    while stack:
        owners, region, at = stack.pop()
        if region is None:  # the regions of an operation end before its results begin
            scope.update(owners[-1].results)
            continue
        if at < 0:
            yield from _enter(owners, region, scope)
            at = 0
        if at == len(region.operations):
            scope.difference_update(region.arguments)
            for op in region.operations:
                scope.difference_update(op.results)
            continue
        op = region.operations[at]
        stack.append((owners, region, at + 1))
        yield from _placed(owners, region, op, at)
        for k, value in enumerate(op.values):
            if value not in scope:
                said = f"operand {k} of {op.name}, {value!r}, is not defined before it."
                yield Diagnostic("TV10", said, op.span)
        stack.append(((*owners, op), None, 0))
        for inner in reversed(op.regions):
            stack.append(((*owners, op), inner, -1))


def _enter(owners: tuple[Operation, ...], region: Region, scope: set[Value]) -> Iterator[Diagnostic]:
    owner = owners[-1]
    scope.update(region.arguments)
    ends = _ENDS.get(owner.name)
    if ends is None:
        return
    if owner.name == "if" and region.arguments:
        yield Diagnostic("TV09", "the branches of an if take no arguments.", owner.span)
    last = region.operations[-1] if region.operations else None
    if last is None or last.name not in ends:
        said = f"{'ends in ' + last.name if last is not None else 'is empty'}"
        yield Diagnostic(
            "TV09", f"a region of {owner.name} ends in {' or '.join(ends)}, and this {said}.", (last or owner).span
        )


def _placed(owners: tuple[Operation, ...], region: Region, op: Operation, at: int) -> Iterator[Diagnostic]:
    owner = owners[-1]
    if op.name in _SYMBOLS and owner.name != "module":
        yield Diagnostic("TV09", f"{op.name} stands in {owner.name}, and belongs directly into a module.", op.span)
    if owner.name == "module" and op.name not in _SYMBOLS:
        yield Diagnostic("TV09", f"{op.name} stands in a module, which holds entries and globals.", op.span)
    if not op.row.ends:
        return
    if at != len(region.operations) - 1:
        yield Diagnostic("TV09", f"{op.name} ends its region, and operations follow it.", op.span)
    if owner.name not in op.row.parents:
        parents = " or ".join(p for p in op.row.parents if "$" not in p)
        yield Diagnostic("TV09", f"{op.name} stands in {parents}, and here in {owner.name}.", op.span)
        return
    if op.name == "yield":
        return  # the rules of what it yields to compare its types
    target = next((o for o in reversed(owners) if o.name != "if"), owners[0])
    given = [v.type for v in op.values]
    wanted = _handed(op.name, target)
    if wanted is None:
        yield Diagnostic("TV09", f"{op.name} leaves {target.name}, which it cannot.", op.span)
    elif given != wanted:
        said = ", ".join(map(str, wanted)) or "nothing"
        yield Diagnostic(
            "TV09",
            f"{op.name} hands {said} to its {target.name}, and not {', '.join(map(str, given)) or 'nothing'}.",
            op.span,
        )


def _handed(name: str, target: Operation) -> list[Type] | None:
    """The types that an end hands to the operation that it leaves; None where it cannot leave it."""
    match name, target.name:
        case "break", "loop":
            return [v.type for v in target.results]
        case "continue", "for":
            return [v.type for v in target.results]
        case "continue", "loop":
            return [v.type for v in target.operand("initValues")]
        case "return", "entry":
            return []
        case "return", "testing$func":
            signature = target.attribute("function_type")
            assert isinstance(signature, Typed) and isinstance(signature.type, Function)
            return list(signature.type.results)
        case _:
            return None
