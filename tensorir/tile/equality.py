"""Equality of modules: up to the names of values, spans, locations, and the name of the module around one function."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.tile.nodes import Module, Operation, Region, Slot, Value

__all__ = ["same_modules"]


def same_modules(a: Module, b: Module) -> bool:
    """Whether two modules say the same; linear in their operations, and without recursion."""
    if len(a.operations) != len(b.operations) or a.producer != b.producer or a.further != b.further:
        return False
    if len(a.operations) != 1 and a.name != b.name:
        return False
    same: dict[int, Value] = {}
    pending = list(zip(reversed(a.operations), reversed(b.operations), strict=True))
    while pending:
        left, right = pending.pop()
        if not _same_heads(left, right, same):
            return False
        inner: list[tuple[Operation, Operation]] = []
        for one, other in zip(left.regions, right.regions, strict=True):
            if len(one.operations) != len(other.operations) or not _pair(one, other, same):
                return False
            inner += zip(one.operations, other.operations, strict=True)
        for one_value, other_value in zip(left.results, right.results, strict=True):
            same[id(one_value)] = other_value
        pending += reversed(inner)
    return True


def _same_heads(a: Operation, b: Operation, same: dict[int, Value]) -> bool:
    return (
        a.row is b.row
        and a.attributes == b.attributes
        and a.further == b.further
        and len(a.regions) == len(b.regions)
        and [v.type for v in a.results] == [v.type for v in b.results]
        and _same_slots(a.operands, b.operands, same)
    )


def _same_slots(a: Sequence[Slot], b: Sequence[Slot], same: dict[int, Value]) -> bool:
    for left, right in zip(a, b, strict=True):
        if isinstance(left, Value) and isinstance(right, Value):
            if same.get(id(left)) is not right:
                return False
        elif isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right) or not _same_slots(left, right, same):
                return False
        elif left is not right:
            return False
    return True


def _pair(a: Region, b: Region, same: dict[int, Value]) -> bool:
    if [v.type for v in a.arguments] != [v.type for v in b.arguments]:
        return False
    for left, right in zip(a.arguments, b.arguments, strict=True):
        same[id(left)] = right
    return True
