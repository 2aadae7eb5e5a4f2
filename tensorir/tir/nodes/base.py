"""What all nodes share, and the types of variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tensorir.tir.dtypes import DataType

__all__ = ["Node", "PointerType", "PrimType", "TupleType", "Type"]


class Node:
    """What all nodes share: equality by structure, and text as representation."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        from tensorir.tir.equality import structurally_equal

        return structurally_equal(self, other)

    def __hash__(self) -> int:
        from tensorir.tir.equality import structural_hash

        return structural_hash(self)

    def __repr__(self) -> str:
        from tensorir.tir.printer import show

        return show(self)


@dataclass(frozen=True, slots=True)
class PrimType:
    """The type of a variable that is known no finer than by its data type."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer to elements in the memory that `storage_scope` names; element type None is an opaque pointer."""

    element_type: Type | None
    storage_scope: str = "global"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several values; without fields, no value."""

    fields: tuple[Type, ...] = ()


Type: TypeAlias = PrimType | PointerType | TupleType
