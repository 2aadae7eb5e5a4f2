"""Equality of modules up to names, and modules with other element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorir.runtime.errors import did_you_mean, refuse
from tensorir.tile.nodes import (
    Array,
    Attribute,
    Dense,
    Dictionary,
    Module,
    Number,
    Operation,
    Region,
    Slot,
    Typed,
    Value,
    dense,
)
from tensorir.tile.types import (
    ELEMENTS,
    Element,
    Function,
    GatherScatterView,
    PartitionView,
    Pointer,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
)

# Equality of modules: up to the names of values, spans, locations, and the name of the module around one function.


def same_modules(a: Module, b: Module) -> bool:
    """True if two modules say the same; linear in their operations, and without recursion."""
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


# Modules with other element types: the same kernel in float64, in which gradients are verified.


def retype(module: Module, **elements: str) -> Module:
    """The module with float types replaced: types, constants, and what folds begin with.

    Modes that only float32 has (`approx`, `flush_to_zero`) become the plain ones. Raises TK09 for what is no float.

    >>> from tensorir.tile import parse
    >>> module = parse("entry @f(%p: tile<ptr<f32>>) { %x = constant <f32: 1.5> : tile<4xf32> }")
    >>> print(str(retype(module, f32="f64")).splitlines()[1].strip())
    %x = constant <f64: 1.500000e+00> : tile<4xf64>
    """
    new: dict[Element, Element] = {}
    for old, name in elements.items():
        for one in (old, name):
            if one not in ELEMENTS or not ELEMENTS[one].is_float:
                raise refuse("TK09", f"'{one}' is no float of Tile IR.", did_you_mean(one, ELEMENTS))
        new[ELEMENTS[old]] = ELEMENTS[name]
    return replace(module, operations=_Retyping(new).operations(module.operations))


class _Retyping:
    """Element types by what they become, and the values that have been made."""

    def __init__(self, elements: Mapping[Element, Element]) -> None:
        self.elements = elements
        self.known: dict[Value, Value] = {}

    def operations(self, found: Sequence[Operation]) -> tuple[Operation, ...]:
        return tuple(self.operation(op) for op in found)

    def operation(self, op: Operation) -> Operation:
        operands = tuple(self.slot(s) for s in op.operands)
        regions = tuple(
            Region(tuple(self.value(v) for v in r.arguments), self.operations(r.operations), r.span) for r in op.regions
        )
        attributes = tuple(None if a is None else self.attribute(a) for a in op.attributes)
        made = replace(
            op,
            operands=operands,
            attributes=attributes,
            results=tuple(self.value(v) for v in op.results),
            regions=regions,
        )
        return _plain(op, made)

    def slot(self, slot: Slot) -> Slot:
        if slot is None:
            return None
        return tuple(self.value(v) for v in slot) if isinstance(slot, tuple) else self.value(slot)

    def value(self, v: Value) -> Value:
        if v not in self.known:
            self.known[v] = replace(v, type=self.type(v.type))
        return self.known[v]

    def type(self, t: Type) -> Type:
        match t:
            case Element() | Pointer():
                return self.element(t)
            case Tile(shape, element):
                return Tile(shape, self.element(element))
            case TensorView():
                return self.tensor(t)
            case PartitionView() | StridedView() | GatherScatterView():
                return replace(t, tensor=self.tensor(t.tensor))
            case Function(params, results):
                return Function(tuple(map(self.type, params)), tuple(map(self.type, results)))
            case Token():
                return t

    def element(self, e: Element | Pointer) -> Element | Pointer:
        return Pointer(self.elements.get(e.pointee, e.pointee)) if isinstance(e, Pointer) else self.elements.get(e, e)

    def tensor(self, view: TensorView) -> TensorView:
        return replace(view, element=self.elements.get(view.element, view.element))

    def attribute(self, a: Attribute) -> Attribute:
        match a:
            case Number(element) if element in self.elements:
                new = self.elements[element]
                return Number(new, int.from_bytes(np.asarray(a.value).astype(new.numpy).tobytes(), "little"))
            case Dense(Tile(shape, Element() as element)) if element in self.elements:
                new = self.elements[element]
                old: Any = np.frombuffer(a.data, element.numpy)
                return dense(Tile(shape, new), old.astype(new.numpy).tobytes())
            case Array(items):
                return Array(tuple(map(self.attribute, items)))
            case Typed(type):
                return Typed(self.type(type))
            case Dictionary(entries):
                return Dictionary(tuple((k, self.attribute(v)) for k, v in entries))
            case _:
                return a


def _plain(old: Operation, op: Operation) -> Operation:
    """Without modes that a type no longer has."""
    types = [v.type for v in old.results]
    if [v.type for v in op.results] == types:
        return op
    attributes = list(op.attributes)
    index = op.row.attribute_index
    if "rounding_mode" in index and op.attribute("rounding_mode") == "approx":
        attributes[index["rounding_mode"]] = "full" if op.name in ("exp", "tanh") else "nearest_even"
    elif "rounding_mode" in index and op.attribute("rounding_mode") == "full" and op.name == "divf":
        attributes[index["rounding_mode"]] = "nearest_even"
    if "flush_to_zero" in index:
        attributes[index["flush_to_zero"]] = False
    return replace(op, attributes=tuple(attributes))
