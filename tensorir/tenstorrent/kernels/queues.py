"""Circular buffers while they run: tiles in a ring, with what the producer has reserved and the consumer waited for."""

# Arrays hold elements of any type here, so what NumPy makes of them has no type of its own.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.tenstorrent.kernels.nodes import Action, CircularBuffer

__all__ = ["Queue", "block_to_pages", "pages_to_block"]


class Queue:
    """The state of a circular buffer of one core.

    A program may reserve, or wait for, the same tiles again: the larger count holds.
    """

    __slots__ = ("fill", "head", "made", "reserved", "ring", "tail", "tile", "waited")

    def __init__(self, made: CircularBuffer, tile: tuple[int, int], moves: bool = True) -> None:
        self.made: CircularBuffer = made
        self.tile: tuple[int, int] = tile
        self.fill: int = 0
        self.reserved: int = 0
        self.waited: int = 0
        self.head: int = 0
        self.tail: int = 0
        dtype: Any = made.block.dtype.element.numpy if moves else np.dtype(np.uint8)
        self.ring: Any = np.zeros((made.capacity, *tile), dtype) if moves else None

    @property
    def room(self) -> int:
        return self.made.capacity - self.fill

    def do(self, action: Action, count: int) -> None:
        """A synchronisation that is allowed now."""
        match action:
            case "reserve":
                self.reserved = max(self.reserved, count)
            case "wait":
                self.waited = max(self.waited, count)
            case "push":
                self.reserved -= count
                self.fill += count
                self.tail = (self.tail + count) % self.made.capacity
            case "pop":
                self.waited -= count
                self.fill -= count
                self.head = (self.head + count) % self.made.capacity

    def front(self) -> Any:
        """The tiles of the block at the front."""
        pages = self.made.pages
        if pages == 1:
            return self.ring[self.head : self.head + 1]
        return self.ring[np.arange(self.head, self.head + pages) % self.made.capacity]

    def put(self, block: Any) -> None:
        """The tiles of a block, where the next push takes them."""
        pages = self.made.pages
        if pages == 1 and block.shape == self.tile:
            self.ring[self.tail] = block
        else:
            self.ring[np.arange(self.tail, self.tail + pages) % self.made.capacity] = block_to_pages(block, self.tile)


def block_to_pages(block: Any, tile: tuple[int, int]) -> Any:
    """A block as tiles, row by row, with zeros behind what there is.

    >>> block_to_pages(np.arange(6).reshape(2, 3), (2, 2)).tolist()
    [[[0, 1], [3, 4]], [[2, 0], [5, 0]]]
    """
    outer, (rows, columns) = block.shape[:-2], (1, 1, *block.shape)[-2:]
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    whole = np.zeros((*outer, down * tile[0], across * tile[1]), block.dtype)
    whole[..., :rows, :columns] = block.reshape(*outer, rows, columns)
    cut = whole.reshape(-1, down, tile[0], across, tile[1])
    return cut.swapaxes(2, 3).reshape(-1, *tile)


def pages_to_block(pages: Any, block: Any) -> None:
    """Tiles into a block of any shape, without what lies behind its end.

    >>> block = np.zeros((2, 3), int)
    >>> pages_to_block(block_to_pages(np.arange(6).reshape(2, 3), (2, 2)), block)
    >>> block.tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    tile = pages.shape[1:]
    outer, (rows, columns) = block.shape[:-2], (1, 1, *block.shape)[-2:]
    if len(pages) == 1:
        block[...] = pages[0, :rows, :columns].reshape(block.shape)
        return
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    whole = pages.reshape(-1, down, across, *tile).swapaxes(2, 3).reshape(-1, down * tile[0], across * tile[1])
    block[...] = whole[:, :rows, :columns].reshape(*outer, *block.shape[len(outer) :])
