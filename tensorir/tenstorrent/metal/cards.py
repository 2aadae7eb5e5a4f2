"""The cards that programs are written for: their grids, their limits, and the figures that bound a program's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tensorir.runtime.errors import Diagnostic, DiagnosticError, Span, did_you_mean
from tensorir.tir import nodes as n

__all__ = ["BUFFERS", "CARDS", "Card", "card_named", "refuse"]

BUFFERS = 32
"""The circular buffers of a core."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a chip has: a grid of cores for programs, L1 memory of each, and how much it moves and computes at most.

    `l1` is in bytes, `alignment` in bytes of an address in DRAM, `clock` in cycles a second, `dram` in bytes a second
    of the whole chip, `noc` in bytes a cycle into a core from each of its two networks, `products` in multiplications
    of a cycle at the lowest fidelity, `lanes` in elements of a cycle of the vector unit.
    """

    name: str
    grid: tuple[int, int]
    l1: int
    alignment: int
    clock: float
    dram: float
    noc: int
    products: int = 2048
    lanes: int = 32

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    def row(self, cores: int, wanted: int) -> int:
        """The cores in a row where some lie row by row: as many as are wanted, or the most that make a rectangle.

        >>> CARDS["blackhole"].row(64, 64), CARDS["wormhole"].row(8, 2), CARDS["wormhole"].row(13, 13)
        (8, 2, 8)
        """
        wide, high = self.grid
        full = (w for w in (wanted, *range(wide, 0, -1)) if w <= wide and cores % w == 0 and cores // w <= high)
        return next(full, wide)


# Grids are those left to programs where one row or column dispatches. The products of a cycle follow from the published
# rates: 64 cores · 2 · 2048 · 1 GHz are the 262 TFLOPS of an n300's chip, 120 · 2 · 2048 · 1.35 GHz the 664 of a p100a.
CARDS: dict[str, Card] = {
    "wormhole": Card("wormhole", (8, 8), 1_499_136, 32, 1.0e9, 288e9, 32),
    "blackhole": Card("blackhole", (11, 10), 1_572_864, 64, 1.35e9, 448e9, 64),
}


def card_named(name: str) -> Card:
    """The card of a name; raises TN18 for another name."""
    if (found := CARDS.get(name)) is not None:
        return found
    message = f"there is no card {name!r}; there are {' and '.join(CARDS)}."
    raise DiagnosticError(Diagnostic("TN18", message, n.NOWHERE, help=did_you_mean(name, CARDS) or "write wormhole."))


def refuse(message: str, span: Span, help: str, code: str = "TN16") -> NoReturn:
    """Raise what the card has no call for, where it stands."""
    raise DiagnosticError(Diagnostic(code, message, span, help=help))
