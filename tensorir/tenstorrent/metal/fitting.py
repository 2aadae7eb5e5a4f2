"""Values that need more register tiles than a core has, in parts: inner values get blocks of their own.

Such a block has the elements of the registers, so nothing is rounded on the way through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorir.tenstorrent.blocks import own_block
from tensorir.tenstorrent.metal.registers import needed
from tensorir.tenstorrent.metal.shapes import Shapes, extents
from tensorir.tenstorrent.metal.steps import Item, Map, Repeat, When
from tensorir.tenstorrent.metal.tiles import Apply, Kind, Leaf, Tile, kind_of
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import BFLOAT16, FLOAT32, INT32, UINT16, UINT32, DataType

__all__ = ["fitted"]

_INTEGERS: Mapping[Kind, DataType] = {"int32": INT32, "uint32": UINT32, "uint16": UINT16}


def fitted(items: Sequence[Item], fits: Callable[[Tile], bool], shapes: Shapes, wide: bool) -> tuple[Item, ...]:
    """The items with maps that fit into the registers, which are `wide` where they have 32 bits."""
    made: list[Item] = []
    for item in items:
        match item:
            case Map():
                made += _parts(item, fits, shapes, wide)
            case Repeat():
                made.append(replace(item, body=fitted(item.body, fits, shapes, wide)))
            case When():
                then, otherwise = (fitted(side, fits, shapes, wide) for side in (item.then, item.otherwise))
                made.append(replace(item, then=then, otherwise=otherwise))
            case _:
                made.append(item)
    return tuple(made)


def _parts(step: Map, fits: Callable[[Tile], bool], shapes: Shapes, wide: bool) -> list[Item]:
    """A map behind those of its inner values that registers do not hold beside the others."""
    before: list[Item] = []

    def apart(value: Tile) -> Tile:
        block = _block(step.dst, shapes, kind_of(value), wide)
        before.append(Map(block, value, step.span))
        return Leaf(block)

    def of(value: Tile) -> Tile:
        if fits(value):
            return value
        assert isinstance(value, Apply)
        args = [of(arg) for arg in value.args]
        while not fits(made := replace(value, args=tuple(args))):
            # what needs most, of what is not a tile of a block already
            inner = [k for k, arg in enumerate(args) if not (isinstance(arg, Leaf) and arg.over == "tile")]
            most = max(inner, key=lambda k: needed(args[k]))
            args[most] = apart(args[most])
        return made

    value = of(step.value)
    return [*before, replace(step, value=value)]


def _block(dst: n.Buffer, shapes: Shapes, kind: Kind, wide: bool) -> n.Buffer:
    """A block of elements of a kind that lies as `dst` does; a vector as the matrix of its one row or column."""
    dtype = (FLOAT32 if wide else BFLOAT16) if kind == "float" else _INTEGERS[kind]
    shape = shapes.of(dst)
    sizes = extents(dst) if len(dst.shape) > 1 else (shape.rows, shape.columns)
    return own_block(dst, "inner", sizes, dtype)
