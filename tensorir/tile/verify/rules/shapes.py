"""Shapes of what moves elements: broadcast, cat, extract, permute, reshape, pack, iota, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from tensorir.tile.nodes import Operation
from tensorir.tile.types import Tile

__all__ = ["RULES"]


def _tiles(op: Operation) -> tuple[Any, Any]:
    return op.values[0].type, op.results[0].type


def _broadcast(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    for k, (n, m) in enumerate(zip(source.shape, target.shape, strict=True)):
        if n not in (1, m):
            yield "TV05", f"broadcast repeats dims of extent 1, and dim {k} has {n} and gives {m}."


def _cat(op: Operation) -> Iterator[tuple[str, str]]:
    left, right, target = op.values[0].type, op.values[1].type, op.results[0].type
    assert isinstance(left, Tile) and isinstance(right, Tile) and isinstance(target, Tile)
    dim = op.attribute("dim")
    if not 0 <= dim < len(target.shape):
        yield "TV05", f"the dim of cat is 0 to {len(target.shape) - 1}, and {dim} is not."
        return
    for k, (n, m, whole) in enumerate(zip(left.shape, right.shape, target.shape, strict=True)):
        if k == dim and n + m != whole:
            yield "TV05", f"cat joins {n} and {m} elements of dim {k}, and its result has {whole}."
        elif k != dim and not n == m == whole:
            yield "TV05", f"cat along dim {dim} keeps the other extents, and dim {k} has {n}, {m} and {whole}."


def _constant(op: Operation) -> Iterator[tuple[str, str]]:
    value = op.attribute("value")
    if value.type != op.results[0].type:
        yield "TV05", f"the constant is of type {value.type}, and its result of type {op.results[0].type}."


def _extract(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    indices = op.operand("indices")
    if len(indices) != len(source.shape):
        yield "TV05", f"extract takes an index for each of {len(source.shape)} dims, and has {len(indices)}."
    for k, (whole, part) in enumerate(zip(source.shape, target.shape, strict=True)):
        if whole % part:
            yield (
                "TV05",
                f"extract takes one of equal slices, and {whole} elements of dim {k} are no multiple of {part}.",
            )


def _iota(op: Operation) -> Iterator[tuple[str, str]]:
    type: Any = op.results[0].type
    if len(type.shape) != 1:
        yield "TV05", f"iota counts along one dim, and {type} has {len(type.shape)}."
    elif type.shape[0] > 1 << type.element.bits:
        yield "TV05", f"iota counts up to {type.shape[0] - 1}, which {type.element} does not hold."


def _permute(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    order = op.attribute("permutation")
    if len(source.shape) < 2:
        yield "TV05", f"permute orders at least two dims, and {source} has {len(source.shape)}."
    if sorted(order) != list(range(len(source.shape))):
        yield "TV05", f"{list(order)} is no permutation of {len(source.shape)} dims."
        return
    for k, d in enumerate(order):
        if target.shape[k] != source.shape[d]:
            yield (
                "TV05",
                f"dim {k} of the result is dim {d} of the source, of {source.shape[d]}, and not {target.shape[k]}.",
            )


def _reshape(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    if prod(source.shape) != prod(target.shape):
        yield (
            "TV05",
            f"reshape keeps the elements, and {source} has {prod(source.shape)} and {target} {prod(target.shape)}.",
        )


def _packed(element: Any) -> int:
    return 32 if element.name == "tf32" else element.bits


def _pack(op: Operation) -> Iterator[tuple[str, str]]:
    source, target = _tiles(op)
    for type in (source, target):
        if len(type.shape) != 1:
            yield "TV05", f"{op.name} takes and gives tiles of rank 1, and {type} has {len(type.shape)} dims."
            return
    if _packed(source.element) == _packed(target.element):
        yield "TV05", f"{op.name} changes the width of elements, and {source.element} and {target.element} have one."
    given, made = (_packed(t.element) * t.shape[0] for t in (source, target))
    if given % 8 or given != made:
        yield "TV05", f"{op.name} keeps the bytes, and {source} has {given} bits and {target} {made}."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "broadcast": _broadcast,
    "cat": _cat,
    "constant": _constant,
    "extract": _extract,
    "iota": _iota,
    "permute": _permute,
    "reshape": _reshape,
    "pack": _pack,
    "unpack": _pack,
}
