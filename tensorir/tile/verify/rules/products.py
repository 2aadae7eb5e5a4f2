"""Shapes and element types of products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorir.tile.nodes import Operation

__all__ = ["RULES"]

_ACCUMULATORS = {
    "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"), "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",),
    "f32": ("f32",), "f64": ("f64",),
}  # fmt: skip
_BLOCKS = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,), ("f8E5M2", "f8E8M0FNU"): (32,), ("f4E2M1FN", "f8E8M0FNU"): (16, 32),
    ("f4E2M1FN", "f8E4M3FN"): (16,),
}  # fmt: skip
"""How many elements share a scale, by the element types of operands and scales."""


def _shapes(op: Operation) -> Iterator[tuple[str, str]]:
    lhs, rhs, acc = (op.operand(n).type for n in ("lhs", "rhs", "acc"))
    if len(lhs.shape) not in (2, 3):
        yield "TV05", f"{op.name} multiplies matrices, of rank 2 or in batches of rank 3, and {lhs} is neither."
        return
    (m, k), (k2, n) = lhs.shape[-2:], rhs.shape[-2:]
    if k != k2:
        yield "TV05", f"{op.name} sums over a dim of {k} elements of lhs and {k2} of rhs."
    if acc.shape[-2:] != (m, n):
        yield "TV05", f"{op.name} gives {m}x{n} elements, and acc is {acc}."
    if not lhs.shape[:-2] == rhs.shape[:-2] == acc.shape[:-2]:
        yield "TV05", f"{op.name} has batches of {lhs.shape[0]}, {rhs.shape[0]} and {acc.shape[0]}."


def _mmaf(op: Operation) -> Iterator[tuple[str, str]]:
    yield from _shapes(op)
    given, made = op.operand("lhs").type.element.name, op.operand("acc").type.element.name
    if made not in _ACCUMULATORS[given]:
        yield "TV05", f"mmaf of {given} accumulates in {' or '.join(_ACCUMULATORS[given])}, and not in {made}."


def _scaled(op: Operation) -> Iterator[tuple[str, str]]:
    before = list(_shapes(op))
    yield from before
    if before:
        return
    lhs, rhs, left, right = (op.operand(n).type for n in ("lhs", "rhs", "lhs_scale", "rhs_scale"))
    kinds: Any = (lhs.element.name, left.element.name)
    if kinds not in _BLOCKS:
        yield "TV05", f"mmaf_scaled has no scales of {kinds[1]} for {kinds[0]}."
        return
    (m, k), n, blocks = lhs.shape[-2:], rhs.shape[-1], left.shape[-1]
    if left.shape[:-1] != lhs.shape[:-1] or right.shape != (*rhs.shape[:-2], blocks, n):
        yield (
            "TV05",
            f"the scales of {m}x{k} and {k}x{n} elements are {m}xS and Sx{n}, and these are {left} and {right}.",
        )
    elif k % blocks or k // blocks not in _BLOCKS[kinds]:
        allowed = " or ".join(map(str, _BLOCKS[kinds]))
        yield "TV05", f"{allowed} elements of {kinds[0]} share a scale of {kinds[1]}, and here {k} have {blocks}."


RULES: dict[str, Callable[[Operation], Iterator[tuple[str, str]]]] = {
    "mmaf": _mmaf,
    "mmai": _shapes,
    "mmaf_scaled": _scaled,
}
