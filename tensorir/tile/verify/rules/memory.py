"""Pointers, atomics, allocations, globals, tokens, printing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorir.tile.interpret.formats import items_of
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Pointer, Tile

__all__ = ["RULES", "atomic_elements", "scoped"]

_WIDE = ("i32", "i64")
_EXCHANGED = ("i32", "i64", "f32", "f64")
_ADDED = ("f16", "bf16", "f32", "f64")


def scoped(op: Operation) -> Iterator[tuple[str, str]]:
    """A scope stands with every ordering but weak, and never with weak."""
    weak = op.attribute("memory_ordering_semantics") == "weak"
    if weak and op.attribute("memory_scope") is not None:
        yield "TV06", f"a weak {op.name} has no scope."
    if not weak and op.attribute("memory_scope") is None:
        yield "TV06", f"{op.name} with the ordering {op.attribute('memory_ordering_semantics')} needs a scope."


def _points(op: Operation, pointers: Any, value: Any) -> Iterator[tuple[str, str]]:
    if pointers != Tile(value.shape, Pointer(value.element)):
        yield "TV06", f"{op.name} takes pointers to {value.element} in the shape of {value}, and not {pointers}."


def _masked(op: Operation, shape: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    mask = op.operand("mask")
    if mask is not None and mask.type.shape != shape:
        yield "TV06", f"the mask of {op.name} has the shape of its pointers, and {mask.type} has another."


def _load(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    type: Any = op.results[0].type
    if isinstance(type.element, Pointer):
        yield "TV06", f"{op.name} loads numbers, and {type} are pointers."
        return
    yield from _points(op, op.operand("source").type, type)
    yield from _masked(op, type.shape)
    padding = op.operand("paddingValue")
    if padding is not None and padding.type != type:
        yield "TV06", f"the padding of {op.name} is of the type of its result {type}, and not {padding.type}."


def _store(op: Operation) -> Iterator[tuple[str, str]]:
    yield from scoped(op)
    type = op.operand("value").type
    if isinstance(type.element, Pointer):
        yield "TV06", f"{op.name} stores numbers, and {type} are pointers."
        return
    yield from _points(op, op.operand("destination").type, type)
    yield from _masked(op, type.shape)


def atomic_elements(op: Operation, element: Any) -> Iterator[tuple[str, str]]:
    """Which elements an atomic mode takes."""
    mode = op.attribute("mode")
    allowed = _EXCHANGED if mode == "xchg" else _ADDED if mode == "addf" else _WIDE
    if str(element) not in allowed:
        yield "TV07", f"{op.name} {mode} takes {', '.join(allowed)}, and not {element}."


def _rmw(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.operand("arg").type
    yield from atomic_elements(op, type.element)
    if not isinstance(type.element, Pointer):
        yield from _points(op, op.operand("pointers").type, type)
    yield from _masked(op, type.shape)


def _cas(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.operand("val").type
    if str(type.element) not in _EXCHANGED:
        yield "TV07", f"{op.name} takes {', '.join(_EXCHANGED)}, and not {type.element}."
    elif not isinstance(type.element, Pointer):
        yield from _points(op, op.operand("pointers").type, type)
    yield from _masked(op, type.shape)


def _alloca(op: Operation) -> Iterator[tuple[str, str]]:
    alignment = op.attribute("alignment")
    type: Any = op.results[0].type
    element = type.element.pointee
    least = 1 if element.bits == 1 else element.bits // 8
    if alignment <= 0 or alignment & (alignment - 1):
        yield "TV03", f"the alignment of alloca is a power of two, and {alignment} is none."
    elif alignment < least:
        yield "TV03", f"the alignment of alloca is at least the {least} bytes of {element}, and not {alignment}."


def _global(op: Operation) -> Iterator[tuple[str, str]]:
    type = op.attribute("value").type
    if len(type.shape) != 1:
        yield "TV05", f"the elements of a global stand along one dim, and {type} has {len(type.shape)}."


def _join(op: Operation) -> Iterator[tuple[str, str]]:
    if len(op.values) < 2:
        yield "TV05", f"join_tokens joins at least two tokens, and has {len(op.values)}."


def _print(op: Operation) -> Iterator[tuple[str, str]]:
    needed, given = items_of(op.attribute("str")), len(op.operand("args"))
    if needed is None:
        yield "TV05", "an item of the format does not end."
    elif needed != given:
        yield "TV05", f"the format has {needed} items, and print_tko {given} values."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "load_ptr_tko": _load,
    "store_ptr_tko": _store,
    "atomic_rmw_tko": _rmw,
    "atomic_cas_tko": _cas,
    "alloca": _alloca,
    "global": _global,
    "join_tokens": _join,
    "print_tko": _print,
}
