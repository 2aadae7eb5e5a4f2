"""What a typing rule sees of its operands, and what several rules ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tensorir.errors import did_you_mean
from tensorir.types import Complaint, FunctionType, Interval, TensorType, Type


class Operand(Protocol):
    """What a rule may know of an operand."""

    @property
    def type(self) -> Type: ...
    @property
    def free(self) -> Iterable[Any]: ...
    @property
    def children(self) -> Sequence[Operand]: ...


Static = Any


Operands = Sequence[Operand]


def tensors_of(args: Operands) -> list[TensorType]:
    found: list[TensorType] = []
    for index, arg in enumerate(args):
        if not isinstance(arg.type, TensorType):
            raise Complaint("T14", "a function stands where a tensor is needed.", help="apply it: f(x).", at=index)
        found.append(arg.type)
    return found


def function_of(args: Operands, index: int, results: int = 1) -> FunctionType:
    kind = args[index].type if index < len(args) else None
    if not isinstance(kind, FunctionType):
        raise Complaint("T14", "a tensor stands where a function is needed.", help="write λ(x: T) → e.", at=index)
    if len(kind.results) != results:
        raise Complaint(
            "T15",
            f"the function returns {_values(len(kind.results))}, and {_values(results)} "
            f"{'is' if results == 1 else 'are'} needed.",
            help="one value may be a tuple, λ(x: T, y: T) → (x, y)."
            if results == 1
            else "several are written λ(x: T, y: T) → {x + y, x - y}.",
            at=index,
        )
    return kind


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def interval_of(x: TensorType, dim: str, at: int | None) -> Interval:
    found = x.dims.get(dim)
    if found is None:
        raise Complaint(
            "T25",
            f"there is no dim {dim} here, only {x.dims}.",
            help=did_you_mean(dim, x.dims.names) or "the operand is one value.",
            at=at,
        )
    return found


def assignable(value: TensorType, place: TensorType) -> Complaint | None:
    """None where a value can stand in a place: one element type, broadcast along dims it lacks, cut along others."""
    if value.element != place.element:
        return Complaint(
            "T16",
            f"{place.element} is needed, and this is {value.element}.",
            help="convert it with cast, or change the type of the parameter.",
        )
    for name, interval in value.dims.items:
        needed = place.dims.get(name)
        if needed is None:
            return Complaint(
                "T16", f"{place} is needed, and this varies along {name}.", help=f"add {name}{interval} to the type."
            )
        if not interval.covers(needed):
            return Complaint(
                "T16",
                f"{name}{needed} is needed, and this provides {name}{interval}.",
                help=f"the parameter may have the type {value}, or a part of it.",
            )
    return None
