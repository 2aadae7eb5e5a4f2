"""reduce and scan: the body on many elements at once where it is made of elementwise operations, else one by one.

A reduction folds neighbours in pairs, keeping their order, since its body is associative; a scan goes element by
element. Both begin from the identities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorir.tile.attributes import Number
from tensorir.tile.elements import Element
from tensorir.tile.interpret.rounding import Array
from tensorir.tile.nodes import Operation
from tensorir.tile.types import Tile

if TYPE_CHECKING:
    from tensorir.tile.interpret.machine import Block

__all__ = ["reduce", "scan"]


_SCALARS = {"constant", "get_tile_block_id", "get_num_tile_blocks"}
"""Operations without operands whose results, where they are scalars, broadcast."""


def _batched(op: Operation) -> bool:
    """Whether the body looks at no shape: elementwise operations on scalars, and constants."""
    return all(
        inner.row.elementwise or inner.row.ends or inner.name in _SCALARS
        for inner in op.regions[0].operations
    ) and all(
        isinstance(v.type, Tile) and not v.type.shape for inner in op.regions[0].operations for v in inner.results
    )  # fmt: skip


def _body(block: Block, op: Operation, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """The body on accumulators and elements of one shape."""
    shape = left[0].shape
    arguments = op.regions[0].arguments
    if not shape or _batched(op):
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            block.env[arguments[2 * k]], block.env[arguments[2 * k + 1]] = a, b
        for inner in op.regions[0].operations[:-1]:
            block.pure(inner)
        results = [block.env[v] for v in op.regions[0].operations[-1].values]
        return [np.broadcast_to(r, shape) for r in results]
    outputs = [np.empty(shape, a.dtype) for a in left]
    for index in np.ndindex(shape):
        found = _body(block, op, [np.asarray(a[index]) for a in left], [np.asarray(b[index]) for b in right])
        for output, value in zip(outputs, found, strict=True):
            output[index] = value
    return outputs


def _identities(op: Operation, operands: Sequence[Array]) -> list[Array]:
    found: list[Array] = []
    for item, array in zip(op.attribute("identities").items, operands, strict=True):
        if isinstance(item, bool):
            found.append(np.array(item))
            continue
        assert isinstance(item, Number)
        element: Element = item.element
        raw = np.frombuffer(item.bits.to_bytes(element.bytes, "little"), element.numpy)[0]
        found.append(np.asarray(raw).astype(array.dtype))
    return found


def reduce(block: Block, op: Operation, operands: Sequence[Array]) -> list[Array]:
    """A dim folded away."""
    parts = [np.moveaxis(a, op.attribute("dim"), 0) for a in operands]
    while parts[0].shape[0] > 1:
        parts = _body(block, op, [a[0::2] for a in parts], [a[1::2] for a in parts])
    first = [np.broadcast_to(i, a.shape[1:]) for i, a in zip(_identities(op, operands), parts, strict=True)]
    return _body(block, op, first, [a[0] for a in parts])


def scan(block: Block, op: Operation, operands: Sequence[Array]) -> list[Array]:
    """The folds up to each element of a dim, from the other end if it is reversed."""
    dim = op.attribute("dim")
    parts = [np.moveaxis(a, dim, 0) for a in operands]
    count = parts[0].shape[0]
    outputs = [np.empty(a.shape, a.dtype) for a in parts]
    state = [np.broadcast_to(i, a.shape[1:]) for i, a in zip(_identities(op, operands), parts, strict=True)]
    for k in reversed(range(count)) if op.attribute("reverse") else range(count):
        state = _body(block, op, state, [a[k] for a in parts])
        for output, value in zip(outputs, state, strict=True):
            output[k] = value
    return [np.moveaxis(a, 0, dim) for a in outputs]
